"""Blocks of KV memory: who uses them, what is in them, and in which order those that are free are given away."""

from collections.abc import Iterable

from .free_queue import FreeQueue


class BlockPool:
    """num_blocks blocks, of which block 0 is never given away: what is padding may point to it.

    get_new_blocks(n)      takes the n blocks in front of the free queue and returns them, in that order; each then has
                           one user, and what was in it is forgotten: its key no longer finds it
    touch(blocks)          one user more for each, also for those that are free, which leave the queue
    free_blocks(blocks)    one user less for each, no block twice, in the order given. Those whose last user that was
                           are free: the ones without a key go to the front of the queue, in that order, the ones with
                           a key to its back
    cache_block(block, key)   from now on the key finds this block, until it is given away as a new one
    get_cached_block(key)  the block with this key, used or free, or None; of several the one that had it first
    ref_count(block), key_of(block)   its users, and its key or None
    forget(block)          its key does not find it any more, if it has one
    num_free, free_ids()   the free blocks: how many, and in the order in which they would be given away

    The queue begins as 1, 2, 3, … Two blocks may have the same key: both stay, each with its own users.
    Example: 8 blocks, get_new_blocks(3) gives [1, 2, 3]; 1 and 2 get keys; free_blocks([3, 2, 1]): the queue is
    3 4 5 6 7 2 1, and the keys still find 1 and 2.
    ValueError: num_blocks below 2; more blocks than are free; a block without a user freed; a second key for a block.
    Then nothing has changed.

    ●● · about 30 lines · needs level12.free_queue.FreeQueue
    """

    def __init__(self, num_blocks: int):
        if num_blocks < 2:
            raise ValueError(f"a pool has at least 2 blocks, since block 0 is never given away, not {num_blocks}")
        self.num_blocks = num_blocks
        # TODO: users and key of each block, the blocks of each key, and who is free
        raise NotImplementedError("level12.block_pool.BlockPool")

    @property
    def num_free(self) -> int:
        # TODO: count them
        raise NotImplementedError("level12.block_pool.BlockPool")

    def free_ids(self) -> list[int]:
        # TODO: in the order of the queue
        raise NotImplementedError("level12.block_pool.BlockPool")

    def ref_count(self, block: int) -> int:
        # TODO: look it up
        raise NotImplementedError("level12.block_pool.BlockPool")

    def key_of(self, block: int) -> bytes | None:
        # TODO: look it up
        raise NotImplementedError("level12.block_pool.BlockPool")

    def get_cached_block(self, key: bytes) -> int | None:
        # TODO: the first of those that have it
        raise NotImplementedError("level12.block_pool.BlockPool")

    def cache_block(self, block: int, key: bytes) -> None:
        self._check(block)
        if self.key_of(block) is not None:
            raise ValueError(f"block {block} has a key already: what is in a block changes only with its owner")
        # TODO: both ways: from the block to its key, and back
        raise NotImplementedError("level12.block_pool.BlockPool")

    def get_new_blocks(self, n: int) -> list[int]:
        if n > self.num_free:
            raise ValueError(f"{n} blocks are asked for, and {self.num_free} are free: look at num_free first")
        # TODO: off the queue, and out of the cache
        raise NotImplementedError("level12.block_pool.BlockPool")

    def touch(self, blocks: Iterable[int]) -> None:
        # TODO: who uses a block keeps others from getting it
        raise NotImplementedError("level12.block_pool.BlockPool")

    def free_blocks(self, blocks: Iterable[int]) -> None:
        blocks = list(blocks)
        for block in blocks:
            self._check(block)
        # TODO: which of them are free now, and where does each go?
        raise NotImplementedError("level12.block_pool.BlockPool")

    def forget(self, block: int) -> None:
        # TODO: both ways, and no empty entry is left
        raise NotImplementedError("level12.block_pool.BlockPool")

    def _check(self, block: int) -> None:
        """A free block belongs to nobody: whoever frees it twice takes it away from somebody else. Given."""
        if not 0 < block < self.num_blocks or self.ref_count(block) < 1:
            raise ValueError(f"block {block} has no user: it was freed more often than it was taken, or is no block")
