"""One forward pass over a flat batch, with all keys and values in one pool: written by slot, read by block table.

Letters in the shapes: N sequences, T tokens of all of them together, M blocks in a row of tables, H query heads,
G KV heads, D head_dim.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from dojo.models import Config
from level00.layers import attention, linear
from level00.transformer import Attend, Linear, Params, hidden_states, unembed
from level06.paged import Pool, gather

from .batch import Batch

TILE = 2048  # tokens whose keys are gathered at once: a bound on what padding and copies can cost


def decode_attention(q: Tensor, k_pool: Tensor, v_pool: Tensor, tables: Tensor, lengths: Tensor) -> Tensor:
    """Return the attention of N sequences with one query each to all tokens of their own, (N, H, D), in one go.

    q               (N, H, D) float; the result has its dtype
    k_pool, v_pool  (num_blocks, block_size, G, D) float, maybe of another dtype, one layer of a pool; query head h
                    reads KV head h // (H / G)
    tables          (N, M) int64, a block table in each row, which 0 fills up: block 0 belongs to nobody
    lengths         (N,) int64, tokens of each, its query included; at most M · block_size

    What is in the slots behind a sequence's tokens and in block 0, NaN included, changes nothing. No key
    or value is copied for each of the query heads that read it: the checkpoint counts the bytes.
    Example: blocks of 2, tables [[7, 3], [5, 0]], lengths [3, 1]: sequence 0 sees both slots of block 7 and the first
    of block 3, sequence 1 the first of block 5. ValueError: H is not a multiple of G.

    ●● · about 7 lines · needs level06.paged.gather
    """
    if q.shape[1] % k_pool.shape[2]:
        raise ValueError(f"the {q.shape[1]} query heads must be a multiple of the {k_pool.shape[2]} KV heads")
    # TODO: gather whole blocks; which of the slots count? which heads of q share the keys?
    raise NotImplementedError("level12.paged.decode_attention")


# ---- given: what level 00's forward needs to run on it


def tiles(rows: list[int], tables: list[list[int]], block_size: int) -> list[list[int]]:
    """The rows that decode, in groups of about equal length: together no more than TILE tokens, or one alone."""
    rows, found = sorted(rows, key=lambda row: -len(tables[row])), []
    while rows:
        together = max(1, TILE // (len(tables[rows[0]]) * block_size))
        found.append(rows[:together])
        rows = rows[together:]
    return found


class PagedBatch:
    """A batch on a pool, as the forward pass sees it: `update` as of a cache, and the matching `attend`. Given.

    All keys and values of a layer are written at once, each into its slot, before anybody reads: a sequence sees what
    another one of the same step has put into a block that both share.
    """

    def __init__(self, pool: Pool, batch: Batch, attend: Attend = attention):
        self.pool, self.batch, self.attend_one = pool, batch, attend
        first = batch.query_start_loc
        sizes = [end - start for start, end in zip(first, first[1:])]
        self.long = [row for row, size in enumerate(sizes) if size > 1]
        self.decodes = []
        for rows in tiles([row for row, size in enumerate(sizes) if size == 1], batch.tables, pool.block_size):
            widest = len(batch.tables[rows[0]])
            padded = [batch.tables[row] + [0] * (widest - len(batch.tables[row])) for row in rows]
            lengths = [batch.seq_lens[row] for row in rows]
            columns = torch.tensor([first[row] for row in rows])
            self.decodes.append((columns, torch.tensor(padded), torch.tensor(lengths)))

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write k, v (1, G, T, D) and return that layer of the pool, keys and values."""
        for held, new in ((self.pool.keys, k), (self.pool.values, v)):
            held[layer].flatten(0, 1).index_copy_(0, self.batch.slots, new[0].transpose(0, 1).to(held.dtype))
        return self.pool.keys[layer], self.pool.values[layer]

    def attend(self, q: Tensor, k_pool: Tensor, v_pool: Tensor, mask: str) -> Tensor:
        """Those with one token together, q (1, H, T, D), and the others one by one."""
        rows, out = q[0].transpose(0, 1), torch.empty_like(q[0].transpose(0, 1))  # (T, H, D)
        for columns, tables, lengths in self.decodes:
            out[columns] = decode_attention(rows[columns], k_pool, v_pool, tables, lengths)
        for row in self.long:
            own = slice(*self.batch.query_start_loc[row : row + 2])
            held = partial(gather, block_table=self.batch.tables[row], length=self.batch.seq_lens[row])
            out[own] = self.attend_one(q[:, :, own], held(k_pool), held(v_pool), mask)[0].transpose(0, 1)
        return out.transpose(0, 1).unsqueeze(0)


def paged_step(
    params: Params, config: Config, pool: Pool, batch: Batch, *, attend: Attend = attention, linear: Linear = linear
) -> Tensor:
    """The logits (N, vocab) of each sequence's last token, from one pass over all tokens of the batch. Given."""
    cache = PagedBatch(pool, batch, attend)
    seams = {"positions": batch.positions, "attend": cache.attend, "linear": linear}
    hidden = hidden_states(params, config, batch.token_ids[None], cache, **seams)[0]
    last = torch.tensor(batch.query_start_loc[1:]) - 1
    return unembed(params, config, hidden[last], linear)
