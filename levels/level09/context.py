"""Context parallelism: one long sequence over several ranks; queries stay, keys and values go round the ring.

Letters in the shapes: B batch, H query heads, G KV heads, n tokens of this rank, D head_dim.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from level07.flash import flash_attention
from level07.online import merge

from .comm import Comm


def zigzag_positions(seq_len: int, rank: int, size: int) -> Tensor:
    """Return the positions that a rank holds, (seq_len / size,) int64: of 2 · size equal blocks the blocks `rank` and
    2 · size - 1 - rank.

    Example: 8 tokens on 2 ranks: [0, 1, 6, 7] and [2, 3, 4, 5]. ValueError: seq_len does not divide by 2 · size.

    ● · about 2 lines · part of ring_attention
    """
    if seq_len % (2 * size):
        raise ValueError(f"{seq_len} tokens do not split into {2 * size} equal blocks: pad the sequence")
    # TODO: one from the front, one from the back
    raise NotImplementedError("level09.context.ring_attention")


def causal_work(positions_by_rank: Sequence[Tensor]) -> list[int]:
    """Return how many pairs of a query and a key that it sees each rank has: position p sees the keys 0 .. p.

    Example: 8 tokens in two halves: 10 and 26.

    ● · about 1 line · part of ring_attention
    """
    # TODO: how many keys does a position see?
    raise NotImplementedError("level09.context.ring_attention")


def ring_attention(comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
    """Return causal attention of this rank's queries to the keys of all ranks, (B, H, n, D), in q's dtype.

    q          (B, H, n, D), already rotated;  k, v  (B, G, n, D); query head h reads KV head h // (H / G)
    positions  (n,) int64, of this rank's tokens in the whole sequence, in any order; every position is on one rank,
               and n is the same on all

    A query at position p attends to the keys at positions up to p, wherever they are. Keys and values of one other rank
    are here at a time; each rank sends to its right neighbour size - 1 times. Parts are merged by their log-sum-exp.
    Example: rank 0 has position 0, rank 1 position 1: rank 0 returns its own v; rank 1 weighs both.
    Ring Attention, arXiv 2310.01889; balance: Striped Attention, arXiv 2311.09431.

    ●●● · about 10 lines
    """
    # TODO: attend to what is here, merge, pass it on
    raise NotImplementedError("level09.context.ring_attention")
