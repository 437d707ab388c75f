"""Attention that reads a paged pool through the block table: a block is a tile, and nothing is gathered.

Letters in the shapes: H query heads, G KV heads, Q queries, D head_dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from level06.paged import PagedCache

from .flash import tile_kind, visible
from .online import finalize, online_update


def paged_attention(q: Tensor, k_pool: Tensor, v_pool: Tensor, block_table: Sequence[int], length: int) -> Tensor:
    """Return causal attention (1, H, Q, D) of a sequence's last Q tokens to its `length` tokens in the pool.

    q               (1, H, Q, D) float; the result has its dtype
    k_pool, v_pool  (num_blocks, block_size, G, D), one layer of a pool: token t lies in block
                    block_table[t // block_size], at offset t % block_size; the table may be longer than needed

    Block by block: the slots of the tokens are read once, and no other (whatever is in it, NaN included). No tensor is
    made that is larger than q, than the keys of one block, or than its scores, H · Q · block_size, and no copies of
    several blocks are there at once. Arithmetic in float32, or in float64 if q is.
    Example: blocks of 2, table [7, 3], length 3: both slots of block 7, then the first one of block 3.
    ValueError: no query, more queries than tokens, more tokens than the table has room for, H not a multiple of G.
    PagedAttention, arXiv 2309.06180.

    ●●● · about 14 lines · needs level07.online.online_update, level07.flash.tile_kind
    """
    _, H, Q, D = q.shape
    block_size, G = k_pool.shape[1:3]
    if not 1 <= Q <= length <= len(block_table) * block_size:
        raise ValueError(
            f"{Q} queries, {length} tokens, and room for {len(block_table) * block_size}: at least one query, "
            "a token for each, and a slot for each token"
        )
    if H % G:
        raise ValueError(f"the {H} query heads must be a multiple of the {G} KV heads")
    wide = torch.promote_types(q.dtype, torch.float32)
    # solution:begin as flash_attention, with one tile of queries; where are the keys of a tile?
    queries = q[0].to(wide).reshape(G, H // G * Q, D) * D**-0.5
    m = queries.new_full(queries.shape[:-1], -torch.inf)
    state = m, torch.zeros_like(m), torch.zeros_like(queries)
    for start in range(0, length, block_size):
        end = min(start + block_size, length)
        block = block_table[start // block_size]
        keys, values = (pool[block, : end - start].transpose(0, 1).to(wide) for pool in (k_pool, v_pool))
        scores = queries @ keys.mT  # (G, H / G * Q, tokens of the block)
        if tile_kind(0, Q, start, end, length - Q) == "partial":
            rows = scores.unflatten(1, (H // G, Q))
            rows.masked_fill_(~visible("causal", 0, Q, start, end, length - Q), -torch.inf)
        state = online_update(*state, scores, values)
    return finalize(*state)[0].reshape(1, H, Q, D).to(q.dtype)
    # solution:end


# ---- given: what forward needs to run on it


@dataclass(frozen=True)
class BlockView:
    """The keys or the values of a sequence in one layer, where they lie: what `paged_attend` gets for k and v."""

    pool: Tensor  # (num_blocks, block_size, G, D)
    block_table: Sequence[int]
    length: int


class BlockCache(PagedCache):
    """Level 06's cache, whose update writes as before, and returns views of the pool instead of gathered copies."""

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[BlockView, BlockView]:
        end = self.length + k.shape[2]  # before the last layer has moved it
        self.write(layer, k, v)
        return tuple(BlockView(held[layer], self.block_table, end) for held in (self.pool.keys, self.pool.values))

    def fork(self) -> "BlockCache":
        shared = super().fork()
        return BlockCache(self.pool, shared.block_table, shared.length)


def paged_attend(q: Tensor, k: BlockView, v: BlockView, mask: str) -> Tensor:
    """The `attend` for a BlockCache: forward(params, config, ids, cache, attend=paged_attend)."""
    if not isinstance(mask, str):
        raise ValueError('a paged sequence is attended to in its own order: mask="causal"')
    return paged_attention(q, k.pool, v.pool, k.block_table, k.length)
