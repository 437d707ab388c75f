"""Right programs, written another way, for level13.coalescing. `alternative` is given when this is read."""


def _byte_by_byte(addresses, bytes_per_lane, sector_bytes=32):
    if min(bytes_per_lane, sector_bytes) < 1 or any(a < 0 for a in addresses):
        raise ValueError("below 1")
    return len({(a + i) // sector_bytes for a in addresses for i in range(bytes_per_lane)})


def _merged(addresses, bytes_per_lane, sector_bytes=32):
    """Sorted lanes, and for each those sectors that the lanes before have not brought."""
    if min(bytes_per_lane, sector_bytes) < 1 or any(a < 0 for a in addresses):
        raise ValueError("below 1")
    moved, brought = 0, -1
    for address in sorted(addresses):
        first = max(address // sector_bytes, brought + 1)
        last = (address + bytes_per_lane - 1) // sector_bytes
        moved += max(last - first + 1, 0)
        brought = max(brought, last)
    return moved


def _union_of_intervals(addresses, bytes_per_lane, sector_bytes=32):
    from level13.coalescing import sectors

    if not addresses:
        raise ValueError("no lanes")
    moved = sectors(addresses, bytes_per_lane, sector_bytes)
    wanted, end = 0, 0
    for address in sorted(addresses):
        wanted += max(address + bytes_per_lane - max(address, end), 0)
        end = max(end, address + bytes_per_lane)
    return wanted / moved / sector_bytes


ID = "level13.coalescing.sectors"
alternative(ID, "byte_by_byte", program=_byte_by_byte)
alternative(ID, "merged", program=_merged)
alternative(ID, "union_of_intervals", program=_union_of_intervals, part="load_efficiency")
