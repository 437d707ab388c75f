"""Known-wrong programs of level13.occupancy. `ghost` is given when this is read."""

ID = "level13.occupancy.occupancy"
WARPS = "warps = -(-block_size // sm.warp_size)"
REGISTERS = "registers = _round_up(registers_per_thread * sm.warp_size, sm.register_unit)"
SHARED = "shared = _round_up(shared_bytes_per_block + sm.block_shared_bytes, sm.shared_unit)"
IN_PARTITIONS = "register_warps = sm.registers // sm.partitions // registers * sm.partitions"
BY_REGISTERS = '"registers": register_warps // warps,'
BY_SHARED = '"shared memory": sm.shared_bytes // shared,'
LIMIT = "limit = min(limits, key=limits.get)"

ghost(
    ID,
    "registers_ignored",
    "Registers are shared among all warps of the SM: 256 threads of 128 leave room for 2 blocks. Yours do not limit.",
    change=(BY_REGISTERS, '"registers": 10**9,'),
)
ghost(
    ID,
    "partial_warps",
    "A ragged warp takes the place of a whole one: 48 threads are 2 warps. Yours rounds down.",
    change=(WARPS, "warps = max(block_size // sm.warp_size, 1)"),
)
ghost(
    ID,
    "registers_not_rounded",
    "A warp gets registers in whole units: 33 for each of 32 threads are 1280, not the 1056 that yours takes.",
    change=(REGISTERS, "registers = registers_per_thread * sm.warp_size"),
)
ghost(
    ID,
    "registers_of_the_threads",
    "The last warp gets the registers of 32 threads, however few it has; yours counts those of its threads only.",
    change=(
        BY_REGISTERS,
        '"registers": sm.registers // _round_up(registers_per_thread * block_size, sm.register_unit),',
    ),
)
ghost(
    ID,
    "one_register_file",
    "Each partition has its own registers, and holds whole warps of them; yours puts what is left in all four together.",
    change=(IN_PARTITIONS, "register_warps = sm.registers // registers"),
)
ghost(
    ID,
    "blocks_in_one_partition",
    "The warps of a block may be in any partition; yours keeps a block in one of them.",
    change=(BY_REGISTERS, '"registers": register_warps // sm.partitions // warps * sm.partitions,'),
)
ghost(
    ID,
    "warps_by_fours",
    "A block of 3 warps takes the registers of 3; yours gives it a warp in each of the four partitions.",
    change=(BY_REGISTERS, '"registers": register_warps // _round_up(warps, sm.partitions),'),
)
ghost(
    ID,
    "reserved_bytes_forgotten",
    "Each block costs 1 KiB of shared memory more than it asks for; yours counts what it asks for.",
    change=(SHARED, "shared = _round_up(max(shared_bytes_per_block, 1), sm.shared_unit)"),
)
ghost(
    ID,
    "reserved_bytes_once",
    "1 KiB is taken for every block; yours takes it from the SM once.",
    change=[
        (SHARED, "shared = _round_up(max(shared_bytes_per_block, 1), sm.shared_unit)"),
        (BY_SHARED, '"shared memory": (sm.shared_bytes - sm.block_shared_bytes) // shared,'),
    ],
)
ghost(
    ID,
    "shared_not_rounded",
    "Shared memory is handed out in units of 128 bytes; yours hands out single ones.",
    change=(SHARED, "shared = shared_bytes_per_block + sm.block_shared_bytes"),
)
ghost(
    ID,
    "blocks_without_end",
    "An SM has room for 32 blocks, however small they are: yours does not count them.",
    change=('"blocks": sm.blocks,', '"blocks": 10**9,'),
)
ghost(
    ID,
    "last_of_a_tie",
    "Where several limits allow the same, the first of warps, blocks, registers, shared memory is named; yours is the last.",
    change=(LIMIT, "limit = min(reversed(limits), key=limits.get)"),
)
ghost(
    ID,
    "tie_by_the_alphabet",
    "Where several limits allow the same, the first of warps, blocks, registers, shared memory is named, not of the alphabet.",
    change=(LIMIT, "limit = min(sorted(limits), key=limits.get)"),
)
ghost(
    ID,
    "sizes_of_an_h100",
    "The sizes are those of the SM that is given; yours are written into the program.",
    change=(WARPS, "sm = H100_SM\n    " + WARPS),
)
ghost(
    ID,
    "eights_for_a_thread",
    "A warp's registers are rounded together, up to sm.register_unit; yours rounds each thread's up to 8: an H100's rule.",
    change=(REGISTERS, "registers = _round_up(registers_per_thread, 8) * sm.warp_size"),
)
ghost(
    ID,
    "reserved_bytes_only_if_it_asks",
    "What is taken besides is taken for every block; yours takes nothing for one that asks for no shared memory.",
    change=(BY_SHARED, '"shared memory": sm.shared_bytes // shared if shared_bytes_per_block else 10**9,'),
)
ghost(
    ID,
    "reserved_bytes_not_rounded",
    "What is asked for and what is taken besides are rounded up together; yours rounds only what is asked for.",
    change=(SHARED, "shared = _round_up(shared_bytes_per_block, sm.shared_unit) + sm.block_shared_bytes"),
)
