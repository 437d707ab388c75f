"""What the memory of a GPU sends for one load of a warp: whole sectors, or nothing.

Addresses are those of the lanes that take part, in bytes and in any order; two lanes may have the same.
"""

from collections.abc import Sequence


def sectors(addresses: Sequence[int], bytes_per_lane: int, sector_bytes: int = 32) -> int:
    """Return how many sectors are moved for a load of bytes_per_lane bytes by each lane, from its address on.

    Sectors are sector_bytes long and start at multiples of that; one is moved once, however many lanes want it. Without
    addresses none is. Example: lanes at 0, 4, 40 and 62, 4 bytes each -> sectors 0 and 1, and 2 for the last one: 3.
    ValueError: an address below 0, bytes_per_lane or sector_bytes below 1.

    ● · about 3 lines
    """
    _check(addresses, bytes_per_lane, sector_bytes)
    # solution:begin from which to which sector does each lane reach?
    spans = [(a // sector_bytes, (a + bytes_per_lane - 1) // sector_bytes) for a in addresses]
    return len({sector for first, last in spans for sector in range(first, last + 1)})
    # solution:end


def load_efficiency(addresses: Sequence[int], bytes_per_lane: int, sector_bytes: int = 32) -> float:
    """Return the share of the moved bytes that some lane has asked for: in (0, 1].

    A byte that several lanes want is one byte. Example: as above, 4 + 4 + 4 + 4 of 96 bytes -> 0.167.
    ValueError: no addresses, and as sectors.

    ● · about 2 lines · part of sectors
    """
    _check(addresses, bytes_per_lane, sector_bytes)
    if not addresses:
        raise ValueError("a load without lanes moves nothing: there is no share of it")
    # solution:begin which bytes are wanted, and how many are moved?
    wanted = {a + i for a in addresses for i in range(bytes_per_lane)}
    return len(wanted) / (sectors(addresses, bytes_per_lane, sector_bytes) * sector_bytes)
    # solution:end


def _check(addresses: Sequence[int], bytes_per_lane: int, sector_bytes: int) -> None:
    if min(bytes_per_lane, sector_bytes) < 1 or min(addresses, default=0) < 0:
        raise ValueError("addresses are 0 or more, and lanes and sectors have at least 1 byte")
