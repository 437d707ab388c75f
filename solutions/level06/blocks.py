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
    # solution:begin the last block may be partly full
    return -(-num_tokens // block_size)
    # solution:end


def wasted_slots(lengths: Sequence[int], block_size: int) -> int:
    """Return how many slots are allocated and hold nothing, over sequences of these lengths, each in its own blocks.

    A block of max_seq_len tokens is what a server without paging reserves for everybody.
    Example: lengths 100, 37, 16 in blocks of 16: 12 + 11 + 0 = 23. ValueError: as blocks_needed.

    ● · about 1 line
    """
    # solution:begin allocated minus used
    return sum(blocks_needed(length, block_size) * block_size - length for length in lengths)
    # solution:end


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
        # solution:begin who is free, and how many owners has each?
        self.free = list(range(num_blocks))
        self.owners = [0] * num_blocks
        # solution:end

    @property
    def num_free(self) -> int:
        # solution:begin count them
        return len(self.free)
        # solution:end

    def ref_count(self, block: int) -> int:
        # solution:begin look it up
        return self.owners[block]
        # solution:end

    def allocate(self) -> int:
        # solution:begin one that is free, if there is one
        if not self.free:
            raise OutOfBlocks(f"all {self.num_blocks} blocks are in use")
        block = self.free.pop()
        self.owners[block] = 1
        return block
        # solution:end

    def share(self, block: int) -> None:
        self._check(block)
        # solution:begin one owner more
        self.owners[block] += 1
        # solution:end

    def release(self, block: int) -> None:
        self._check(block)
        # solution:begin one owner less; and the last one?
        self.owners[block] -= 1
        if not self.owners[block]:
            self.free.append(block)
        # solution:end

    def make_writable(self, block: int) -> tuple[int, int | None]:
        self._check(block)
        # solution:begin who else would see what is written?
        if self.owners[block] == 1:
            return block, None
        new = self.allocate()  # first: if there is none, nothing has changed
        self.release(block)
        return new, block
        # solution:end

    def _check(self, block: int) -> None:
        """A block that nobody owns belongs to nobody: whoever uses it would read or free another's."""
        if not 0 <= block < self.num_blocks or self.ref_count(block) < 1:
            raise ValueError(f"block {block} is free: only its owners may use it")
