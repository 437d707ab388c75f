"""One forward pass over sequences of any lengths: tokens side by side in one row, split only where they attend.

Letters in the shapes: N sequences, T tokens of all of them together, H heads, G KV heads, D head_dim.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import attention, linear
from level00.transformer import Attend, Linear, Params, hidden_states, unembed


def pack(chunks: Sequence[Sequence[int]], starts: Sequence[int]) -> tuple[Tensor, Tensor, list[int]]:
    """Return (ids (1, T), positions (T,), last (N,) as a list) of chunks side by side in one row.

    chunks  token ids of each sequence, at least one
    starts  tokens that each sequence has in its cache: its chunk goes on from there

    ids and positions are int64; last holds the column of each chunk's last token.
    Example: chunks [7, 8] and [9], starts 0 and 5 -> [[7, 8, 9]], [0, 1, 5], [1, 2].
    ValueError: no chunks, an empty chunk, not as many starts as chunks.

    ● · about 4 lines
    """
    if not chunks or not all(len(chunk) for chunk in chunks) or len(starts) != len(chunks):
        raise ValueError("pack needs at least one chunk, each with at least one token, and a start for each")
    # TODO: side by side; where does each token stand in its own sequence?
    raise NotImplementedError("level05.packed.pack")


class PackedCache:
    """The caches of N sequences, as one forward pass over their packed tokens sees them.

    update(layer, k, v)  k, v (1, G, T, D) of the packed row; each sequence's part goes into its own cache. Returns two
                         lists, of keys and of values, with what each cache returns: (1, G, kv_len, D)

    caches  one for each sequence, with the protocol of level 01;  sizes  tokens of each in the row, in the same order
    Example: sizes 2 and 1, caches of 0 and 5 tokens: update returns keys of 2 and of 6 tokens.
    ValueError: not as many sizes as caches.

    ●● · about 5 lines
    """

    def __init__(self, caches: Sequence, sizes: Sequence[int]):
        if len(caches) != len(sizes):
            raise ValueError(f"each sequence has a cache and a size: {len(caches)} caches, {len(sizes)} sizes")
        self.caches, self.sizes = list(caches), list(sizes)

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        # TODO: to each its own
        raise NotImplementedError("level05.packed.PackedCache")


def packed_attention(
    q: Tensor,
    keys: Sequence[Tensor],
    values: Sequence[Tensor],
    mask: str,
    sizes: Sequence[int],
    attend: Attend = attention,
) -> Tensor:
    """Return the attention of packed queries, (1, H, T, D): each sequence to its own keys and to nobody else's.

    q             (1, H, T, D);  sizes  tokens of each sequence in it, T together
    keys, values  of each sequence, (1, G, kv_len, D), as PackedCache returns them
    mask          "causal", for each sequence by itself: its queries are the last of its keys
    attend        attention of one sequence, `attend(q, k, v, "causal")`

    Example: sizes 2 and 1: query 2 is the last of sequence 1, and sees all of its keys and none of sequence 0.

    ●● · about 3 lines
    """
    # TODO: split, attend, join
    raise NotImplementedError("level05.packed.packed_attention")


def packed_step(
    params: Params,
    config: Config,
    caches: Sequence,
    chunks: Sequence[Sequence[int]],
    *,
    all_rows: bool = False,
    attend: Attend = attention,
    linear: Linear = linear,
) -> Tensor:
    """Return the logits of the last token of each chunk, (N, vocab), from one pass over all chunks.

    caches    one for each chunk, with the protocol of level 01; chunk i goes on behind what cache i holds
    all_rows  the logits of every token instead, (T, vocab), in the order of the row

    Each row is what a pass over that sequence alone gives. Every matrix is used once, whatever the number of sequences,
    and without all_rows no other token reaches the vocabulary. `attend` and `linear` as in level 00's forward.
    Example: a decode and a prompt of 3: 4 tokens run, logits (2, vocab), and both caches have grown.
    ValueError: not as many caches as chunks, no chunks, an empty chunk.

    ●●● · about 7 lines · needs level05.packed.pack, level05.packed.PackedCache, level05.packed.packed_attention
    """
    if len(caches) != len(chunks):
        raise ValueError(f"each chunk has a cache: {len(caches)} caches, {len(chunks)} chunks")
    # TODO: level 00's seams: a cache of caches, an attention that splits, positions of their own
    raise NotImplementedError("level05.packed.packed_step")
