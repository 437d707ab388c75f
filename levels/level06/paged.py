"""A KV cache in blocks: sequences of one pool, that grow block by block, share what they have in common, and fork.

A pool is two tensors (n_layers, num_blocks, block_size, n_kv_heads, head_dim), of keys and of values. A block is the
same block in every layer. Letters in the shapes: G KV heads, n new tokens, D head_dim.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from dojo.models import Config

from .blocks import BlockAllocator, OutOfBlocks, blocks_needed


class Pool:
    """Memory for the keys and values of num_blocks blocks, and who owns them. Given."""

    def __init__(self, config: Config, num_blocks: int, block_size: int = 16, dtype: torch.dtype = torch.float32):
        shape = (config.n_layers, num_blocks, block_size, config.n_kv_heads, config.head_dim)
        self.keys, self.values = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
        self.block_size, self.allocator = block_size, BlockAllocator(num_blocks)


def slots(block_table: Sequence[int], start: int, end: int, block_size: int) -> Tensor:
    """Return where the tokens start .. end - 1 of a sequence lie in a layer of the pool, (end - start,) int64.

    slot = block · block_size + offset, with the block that the table has for that part of the sequence
    Example: table [7, 3, 9], blocks of 2, tokens 3 and 4 -> [7, 18].
    ValueError: not 0 <= start <= end <= tokens that the table has room for.

    ● · about 3 lines · part of gather
    """
    if not 0 <= start <= end <= len(block_table) * block_size:
        raise ValueError(f"{len(block_table)} blocks of {block_size} have no tokens {start} to {end}")
    # TODO: which entry of the table, and which place in that block?
    raise NotImplementedError("level06.paged.gather")


def gather(pool: Tensor, block_table: Sequence[int], length: int) -> Tensor:
    """Return the first `length` tokens of a sequence as attention takes them, (1, G, length, D), one after the other.

    pool  (num_blocks, block_size, G, D), one layer of keys or of values

    Example: blocks of 2 that hold the tokens 0 1 | 2 3 | 4 5, table [2, 0], length 3 -> tokens 4, 5, 0.
    ValueError: the table has no room for so many tokens.

    ●● · about 2 lines
    """
    # TODO: from the slots of the pool to one row of heads
    raise NotImplementedError("level06.paged.gather")


class PagedCache:
    """The keys and values of one sequence, in blocks of a pool that others use as well.

    write(layer, k, v)   puts k, v (1, G, n, D) behind what that layer holds, in the dtype of the pool
    update(layer, k, v)  the same, and returns all that the layer holds then, gathered, each (1, G, kv_len, D)
    length               tokens that every layer holds: it moves with the last layer of a pass
    truncate(n)          forgets all but the first n tokens; a block of which nothing is left goes back to the pool
    fork()               another sequence with the same tokens: it shares all blocks, and nothing is copied
    release()            gives all blocks back; the cache is empty then
    block_table          the blocks, in the order of the tokens

    Blocks are taken in the first layer of a pass, for all layers, as many as its tokens need. Before anything is
    written into a block that others own as well, it is copied, in all layers. A cache may begin with blocks of others:
    PagedCache(pool, block_table, length) takes over one reference to each.
    Example: blocks of 4, 6 tokens in [A, B]; a fork that adds a token has [A, C], with B copied into C.
    OutOfBlocks: the pool is used up; then nothing has changed. ValueError: truncate below 0 or beyond length.

    ●●● · about 26 lines · needs level06.blocks.BlockAllocator, level06.paged.gather
    """

    def __init__(self, pool: Pool, block_table: Sequence[int] = (), length: int = 0):
        self.pool, self.block_table = pool, list(block_table)
        self.counts = [length] * pool.keys.shape[0]  # of each layer: within a pass the first ones are ahead

    @property
    def length(self) -> int:
        return self.counts[-1]

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        # TODO: room for the new tokens, then into their slots
        raise NotImplementedError("level06.paged.PagedCache")

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # TODO: write, then gather all that the layer holds
        raise NotImplementedError("level06.paged.PagedCache")

    def _reserve(self, start: int, end: int) -> None:
        """Take the blocks that are missing for the tokens up to `end`; copy the one of `start` if others own it too."""
        # TODO: how many are missing? who else owns the block of `start`? what if the pool is used up?
        raise NotImplementedError("level06.paged.PagedCache")

    def truncate(self, n: int) -> None:
        if not 0 <= n <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens, so it can be cut to 0..{self.length}, not {n}")
        # TODO: which blocks hold nothing any more?
        raise NotImplementedError("level06.paged.PagedCache")

    def fork(self) -> "PagedCache":
        # TODO: one more owner for each block
        raise NotImplementedError("level06.paged.PagedCache")

    def release(self) -> None:
        # TODO: the same as forgetting everything
        raise NotImplementedError("level06.paged.PagedCache")
