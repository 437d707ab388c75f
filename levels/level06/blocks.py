"""Memory in blocks: how many a sequence needs, who owns which, and when one must be copied before it is written."""

from collections.abc import Sequence


class OutOfBlocks(RuntimeError):
    """The pool has no free block: somebody has to wait, or to give some back."""


def blocks_needed(num_tokens: int, block_size: int) -> int:
    """Return the number of blocks that hold so many tokens of one sequence.

    Example: 17 tokens in blocks of 16 -> 2; 0 tokens -> 0. ValueError: num_tokens below 0, block_size below 1.

    ● · about 1 line · part of wasted_slots
    """
    if num_tokens < 0 or block_size < 1:
        raise ValueError(f"tokens are 0 or more and a block holds at least 1, not {num_tokens} and {block_size}")
    # TODO: the last block may be partly full
    raise NotImplementedError("level06.blocks.wasted_slots")


def wasted_slots(lengths: Sequence[int], block_size: int) -> int:
    """Return how many slots are allocated and hold nothing, over sequences of these lengths, each in its own blocks.

    A block of max_seq_len tokens is what a server without paging reserves for everybody.
    Example: lengths 100, 37, 16 in blocks of 16: 12 + 11 + 0 = 23. ValueError: as blocks_needed.

    ● · about 1 line
    """
    # TODO: allocated minus used
    raise NotImplementedError("level06.blocks.wasted_slots")


class BlockAllocator:
    """Hands out the blocks 0 .. num_blocks - 1 of a pool, and counts the owners of each.

    allocate()         returns a free block, which then has one owner
    share(block)       one more owner; no block is taken
    release(block)     one owner less; with the last one the block is free again
    make_writable(b)   for an owner about to write: returns (b, None) if it is the only one; else it leaves b for a new
                       block and gets (new block, b): what b holds is then to be copied
    ref_count(block)   owners of a block, 0 when it is free
    num_free           blocks without an owner

    Which free block is handed out is not specified. Example: two blocks; allocate, share, release: still 1 is free;
    release: 2. OutOfBlocks: allocate or make_writable needs a block and none is free; then nothing has changed.
    ValueError: num_blocks below 1; share, release or make_writable of a block that is free or not in the pool.

    ●● · about 14 lines
    """

    def __init__(self, num_blocks: int):
        if num_blocks < 1:
            raise ValueError(f"a pool has at least one block, not {num_blocks}")
        self.num_blocks = num_blocks
        # TODO: who is free, and how many owners has each?
        raise NotImplementedError("level06.blocks.BlockAllocator")

    @property
    def num_free(self) -> int:
        # TODO: count them
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def ref_count(self, block: int) -> int:
        # TODO: look it up
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def allocate(self) -> int:
        # TODO: one that is free, if there is one
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def share(self, block: int) -> None:
        self._check(block)
        # TODO: one owner more
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def release(self, block: int) -> None:
        self._check(block)
        # TODO: one owner less; and the last one?
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def make_writable(self, block: int) -> tuple[int, int | None]:
        self._check(block)
        # TODO: who else would see what is written?
        raise NotImplementedError("level06.blocks.BlockAllocator")

    def _check(self, block: int) -> None:
        """A block that nobody owns belongs to nobody: whoever uses it would read or free another's."""
        if not 0 <= block < self.num_blocks or self.ref_count(block) < 1:
            raise ValueError(f"block {block} is free: only its owners may use it")
