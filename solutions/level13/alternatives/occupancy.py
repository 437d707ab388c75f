"""Right programs, written another way, for level13.occupancy. `alternative` is given when this is read."""


def _block_by_block(block_size, registers_per_thread, shared_bytes_per_block, sm=None):
    """Adds blocks until something is not enough."""
    from level13.occupancy import H100_SM

    sm = sm or H100_SM
    warps = len(range(0, block_size, sm.warp_size))
    unit, shared_unit = sm.register_unit, sm.shared_unit
    need = (registers_per_thread * sm.warp_size + unit - 1) // unit * unit
    shared = (shared_bytes_per_block + sm.block_shared_bytes + shared_unit - 1) // shared_unit * shared_unit
    in_a_partition = sm.registers // sm.partitions // need
    blocks = 0
    while True:
        more = blocks + 1
        lacking = [
            name
            for name, enough in (
                ("warps", more * warps <= sm.warps),
                ("blocks", more <= sm.blocks),
                ("registers", more * warps <= in_a_partition * sm.partitions),
                ("shared memory", more * shared <= sm.shared_bytes),
            )
            if not enough
        ]
        if lacking:
            break
        blocks = more
    if not blocks or not 1 <= block_size <= 1024 or not 1 <= registers_per_thread <= 255 or shared_bytes_per_block < 0:
        raise ValueError("nothing fits")
    return blocks, blocks * warps, blocks * warps / sm.warps, lacking[0]


alternative("level13.occupancy.occupancy", "block_by_block", program=_block_by_block)
alternative(
    "level13.occupancy.occupancy",
    "pairs_in_order",
    change=(
        "limit = min(limits, key=limits.get)",
        "limit = sorted((allowed, at, name) for at, (name, allowed) in enumerate(limits.items()))[0][2]",
    ),
)
alternative(
    "level13.occupancy.occupancy",
    "units_of_registers",
    change=(
        "register_warps = sm.registers // sm.partitions // registers * sm.partitions",
        "register_warps = sum(sm.registers // sm.partitions // registers for _ in range(sm.partitions))",
    ),
)
