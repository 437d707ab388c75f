"""How many warps an SM can hold at once, by what each of them needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SM:
    """What a streaming multiprocessor has; the defaults are those of compute capability 9.0, an H100."""

    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared_bytes: int = 228 * 1024
    block_shared_bytes: int = 1024  # taken from it for every block, besides what the block asks for
    register_unit: int = 256  # a warp gets its registers in these units
    shared_unit: int = 128  # and a block its shared memory, what is taken besides included, in these bytes
    partitions: int = 4  # of equal size, each with its own share of the registers; a warp lives in one of them
    warp_size: int = 32


H100_SM = SM()


def occupancy(
    block_size: int, registers_per_thread: int, shared_bytes_per_block: int, sm: SM = H100_SM
) -> tuple[int, int, float, str]:
    """Return (blocks, warps, occupancy, limit): how many blocks an SM holds at once, how many warps those are, their
    share of the warps it could hold, and what it is that allows no more blocks.

    block_size              threads of a block; its last warp may be ragged, and takes what a whole one takes
    registers_per_thread    of a warp's 32 threads together, rounded up to whole units
    shared_bytes_per_block  with what is taken besides, rounded up to whole units

    limit is "warps", "blocks", "registers" or "shared memory"; where several allow the same, the first in this order.
    Registers are not handed from partition to partition: each holds as many whole warps as its own share allows. The
    warps of a block may be in any of them.
    Example: 256 threads of 128 registers: 4096 for a warp, 4 warps in each partition, 16 in all: 2 blocks of 8, so
    (2, 16, 0.25, "registers").
    ValueError: threads outside 1..1024, registers outside 1..255, shared bytes below 0, or not one block fits.
    The rules are those of cuda_occupancy.h, which comes with CUDA.

    ●● · about 12 lines
    """
    if not 1 <= block_size <= 1024:
        raise ValueError(f"a block has 1 to 1024 threads, not {block_size}")
    if not 1 <= registers_per_thread <= 255 or shared_bytes_per_block < 0:
        raise ValueError(
            f"a thread has 1 to 255 registers and a block 0 or more bytes, not {registers_per_thread} and"
            f" {shared_bytes_per_block}"
        )
    # solution:begin warps, blocks and limit: how many blocks would each of the four allow alone?
    warps = -(-block_size // sm.warp_size)
    registers = _round_up(registers_per_thread * sm.warp_size, sm.register_unit)
    shared = _round_up(shared_bytes_per_block + sm.block_shared_bytes, sm.shared_unit)
    # subtle: whole warps in each partition; what is left over in the four together helps nobody
    register_warps = sm.registers // sm.partitions // registers * sm.partitions
    limits = {
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": register_warps // warps,
        "shared memory": sm.shared_bytes // shared,
    }
    limit = min(limits, key=limits.get)
    blocks = limits[limit]
    # solution:end
    if blocks == 0:
        raise ValueError(f"not one block fits, for lack of {limit}: make it smaller")
    return blocks, blocks * warps, blocks * warps / sm.warps, limit


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
