"""Judges occupancy.py by NVIDIA's own calculator (cuda_occupancy.h of CUDA 13.0, compute capability 9.0), whose answers
are stored here, and by an SM that is filled by hand: warp after warp, each into a partition that has room.
"""

import pytest

from level13.occupancy import H100_SM, SM, occupancy


def up(value, unit):
    return next(v for v in range(value, value + unit) if v % unit == 0)


def filled(block_size, registers, shared, sm=H100_SM):
    """Oracle: hand out one resource after the other, until the next block gets none."""
    warps = len(range(0, block_size, sm.warp_size))
    room = {}
    left = sm.warps
    while left >= warps:
        left, room["warps"] = left - warps, room.get("warps", 0) + 1
    room["blocks"] = sm.blocks
    partitions, placed = [sm.registers // sm.partitions] * sm.partitions, 0
    while (free := max(partitions)) >= (need := up(registers * sm.warp_size, sm.register_unit)):
        partitions[partitions.index(free)] -= need
        placed += 1
        if placed % warps == 0:
            room["registers"] = placed // warps
    left = sm.shared_bytes
    while left >= (need := up(shared + sm.block_shared_bytes, sm.shared_unit)):
        left, room["shared memory"] = left - need, room.get("shared memory", 0) + 1
    names = ("warps", "blocks", "registers", "shared memory")
    blocks = min(room.get(name, 0) for name in names)
    return blocks, blocks * warps, blocks * warps / sm.warps, next(n for n in names if room.get(n, 0) == blocks)


@pytest.mark.kata("level13.occupancy.occupancy")
@pytest.mark.parametrize(
    "threads, registers, shared, right",
    [
        (256, 128, 0, (2, 16, 0.25, "registers")),  # the docstring's example
        (256, 32, 0, (8, 64, 1.0, "warps")),
        (32, 16, 0, (32, 32, 0.5, "blocks")),
        (128, 32, 100000, (2, 8, 0.125, "shared memory")),
        (96, 33, 0, (16, 48, 0.75, "registers")),  # 33 · 32 are rounded to 1280: 12 warps in a partition, not 12.8
        (224, 92, 0, (2, 14, 0.21875, "registers")),  # 5 in a partition, 20 in all, and not 3 blocks of 7
        (256, 34, 0, (6, 48, 0.75, "registers")),  # without rounding 7
        (128, 30, 0, (16, 64, 1.0, "warps")),
        (48, 32, 0, (32, 64, 1.0, "warps")),  # two warps each, one of them half empty
        (1, 255, 0, (8, 8, 0.125, "registers")),  # one thread takes the registers of a warp
    ],
)
def test_what_nvidias_calculator_says(expect, threads, registers, shared, right):
    """A kernel that was tuned on the wrong limit is made smaller in the wrong place. Blocks are cuda_occupancy.h's."""
    expect(occupancy, threads, registers, shared).equals(right)


@pytest.mark.kata("level13.occupancy.occupancy")
@pytest.mark.parametrize(
    "threads, registers, shared, right",
    [
        (128, 32, 115712, (2, 8, 0.125, "shared memory")),  # 113 KiB and 1 KiB: exactly half
        (128, 32, 115713, (1, 4, 0.0625, "shared memory")),  # one byte more, rounded up to 128
        (128, 32, 116736, (1, 4, 0.0625, "shared memory")),  # 114 KiB would go in twice, were nothing taken besides
        (128, 33, 7000, (12, 48, 0.75, "registers")),  # a partition of 12 warps: not 12.8, and not 51 in all
        (128, 20, 16906, (12, 48, 0.75, "shared memory")),  # 17930 bytes would go in 13 times, 141 units only 12 times
    ],
)
def test_shared_memory_to_the_byte(expect, threads, registers, shared, right):
    """A byte decides between two blocks and one, and with one block nobody computes while it waits."""
    expect(occupancy, threads, registers, shared).equals(right)


@pytest.mark.kata("level13.occupancy.occupancy")
@pytest.mark.parametrize(
    "threads, registers, shared, right",
    [
        (64, 32, 0, (32, 64, 1.0, "warps")),  # warps, blocks and registers allow 32
        (32, 64, 0, (32, 32, 0.5, "blocks")),  # blocks and registers
        (256, 64, 57344, (4, 32, 0.5, "registers")),  # registers and shared memory
        (32, 32, 6272, (32, 32, 0.5, "blocks")),  # blocks and shared memory: 7296 · 32 is all of it
    ],
)
def test_of_limits_that_allow_the_same_the_first_is_named(expect, threads, registers, shared, right):
    """Two tools that name different limits for one kernel are both right, and cannot be compared."""
    expect(occupancy, threads, registers, shared).equals(right)


SMALL = SM(24, 7, 10240, 5000, 333, 192, 100, 2)  # all numbers differ from an H100's, and from each other


@pytest.mark.kata("level13.occupancy.occupancy")
@pytest.mark.parametrize(
    "threads, registers, shared",
    [
        (130, 7, 0),  # warps: 5 of 24, four blocks and four warps too few for a fifth
        (32, 7, 0),  # blocks: 7
        (96, 29, 0),  # registers: 960, five warps in each of two partitions, three blocks of 3
        (64, 25, 0),  # 800 are 960 in units of 192
        (32, 40, 0),  # 1280 are 1344: 3 in each partition, where a multiple of 8 for a thread would make it 4
        (32, 9, 480),  # shared memory: 813 would go in 6 times, and so would 500 + 333; 900 only 5 times
        (32, 9, 667),  # 1000, exactly 5
        (64, 44, 10),  # 1536, three warps in each partition: 3 blocks of 2
    ],
)
def test_an_sm_of_other_sizes(expect, threads, registers, shared):
    """Limits change with every generation of hardware; the rule does not. Oracle: an SM that is filled by hand."""
    expect(occupancy, threads, registers, shared, SMALL).equals(filled(threads, registers, shared, SMALL))


@pytest.mark.kata("level13.occupancy.occupancy")
def test_a_block_that_asks_for_no_shared_memory_takes_some(expect):
    """What is taken besides is taken for every block: 333 bytes are 400 in units, and 12 of these go into 5000."""
    sm = SM(blocks=20, shared_bytes=5000, block_shared_bytes=333, shared_unit=100)
    expect(occupancy, 40, 20, 0, sm).equals((12, 24, 0.375, "shared memory"))


@pytest.mark.kata("level13.occupancy.occupancy")
@pytest.mark.parametrize("threads, registers, shared", [(129, 20, 0), (320, 70, 20000), (672, 48, 0), (1000, 41, 31)])
def test_ragged_blocks(expect, threads, registers, shared):
    """What a block's last warp does not use is taken all the same. Oracle: as above."""
    expect(occupancy, threads, registers, shared).equals(filled(threads, registers, shared))


@pytest.mark.kata("level13.occupancy.occupancy")
def test_a_block_that_just_fits_and_one_that_does_not(expect):
    """227 KiB is all that a block of an H100 can have. 32 warps of 64 registers are all of the registers."""
    expect(occupancy, 32, 32, 227 * 1024).equals((1, 1, 0.015625, "shared memory"))
    expect(occupancy, 1024, 64, 0).equals((1, 32, 0.5, "registers"))
    expect(occupancy, 32, 32, 227 * 1024 + 1).raises(ValueError)
    expect(occupancy, 1024, 65, 0).raises(ValueError)
