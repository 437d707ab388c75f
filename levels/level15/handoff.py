"""What arrives, and from where to go on: layers by number, heads without copies, a name that no other model shares.

Letters in the shapes: B batch, G KV heads, S tokens of the prompt, D head_dim.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dojo.models import Config

Layers = list[tuple[Tensor, Tensor]]  # for each layer keys and values, (B, G, S, D); the keys are rotated


def read_cache(cache, config: Config, batch: int) -> Layers:
    """What a KV cache of level 02's protocol holds, layer by layer, as the cache returns it. Given."""
    nothing = torch.empty(batch, config.n_kv_heads, 0, config.head_dim)
    return [cache.update(layer, nothing, nothing) for layer in range(config.n_layers)]


def head_offsets(n_kv_heads: int, n_ranks: int) -> list[int]:
    """Return for each rank of a tensor-parallel group the number of the first KV head that it holds.

    With more ranks than heads several ranks hold a copy of one head: neighbours do, and a copy is no head of its own.
    Example: 8 heads on 4 ranks -> [0, 2, 4, 6]; 2 heads on 4 ranks -> [0, 0, 1, 1].
    ValueError: one number is not a multiple of the other.

    ● · about 1 line · part of load_cache
    """
    if n_kv_heads % n_ranks and n_ranks % n_kv_heads:
        raise ValueError(f"{n_kv_heads} KV heads are neither spread over nor copied to {n_ranks} ranks evenly")
    # TODO: what share of the heads lies before rank r?
    raise NotImplementedError("level15.handoff.load_cache")


def remaining(token_ids: Sequence[int], num_received: int) -> tuple[list[int], list[int]]:
    """Return (ids, positions) of the tokens that the receiver still has to run, after num_received came as a cache.

    Example: ids [7, 8, 9], 2 received -> ([9], [2]).
    ValueError: num_received below 0, or no token left: without one there are no logits to go on from (level 06).

    ● · about 1 line · part of load_cache
    """
    if not 0 <= num_received < len(token_ids):
        raise ValueError(f"0..{len(token_ids) - 1} tokens can come as a cache, not {num_received}: the last one is run")
    # TODO: which ids, and where do they stand?
    raise NotImplementedError("level15.handoff.load_cache")


def cache_salt(model: str, revision: str, dtype: str, source: str = "") -> bytes:
    """Return bytes for the salt of level 12's block keys: equal if and only if all four arguments are.

    model, revision  whose keys and values they are, and of which weights: a fine-tuned step makes another cache
    dtype            how they are stored, "bfloat16"
    source           model whose cache they were mapped from, "" for the model's own: a mapped block is no exact block

    Any text is allowed in each. Example: ("a", "bc", …) and ("ab", "c", …) differ.

    ● · about 1 line · part of load_cache
    """
    # TODO: how do four texts become one, without two sets of four becoming the same?
    raise NotImplementedError("level15.handoff.load_cache")


def load_cache(cache, config: Config, layers: Mapping[int, tuple[Tensor, Tensor]]) -> None:
    """Write received keys and values into the receiver's empty `cache`, as if a forward pass had made them.

    cache   of level 02's protocol: its length moves with the last layer, so layers go in by number, from 0
    config  the receiver's
    layers  layer number -> (k, v), each (B, G, S, D); a mapping in any order, as layers come in over a network

    Example: {1: …, 0: …} of 5 tokens: layer 0 is updated with its 5 tokens, then layer 1, and cache.length is 5.
    ValueError: a cache that holds tokens; other layers than config's 0 .. n_layers - 1; a shape that is not
    (B, n_kv_heads, S, head_dim) with the same B and S throughout.

    ●● · about 2 lines
    """
    if cache.length:
        raise ValueError(f"the cache already holds {cache.length} tokens: load into an empty one")
    if sorted(layers) != list(range(config.n_layers)):
        raise ValueError(f"the receiver has layers 0..{config.n_layers - 1}, not {sorted(layers)}: map or recompute")
    batch, _, num_tokens, _ = layers[0][0].shape
    expected = (batch, config.n_kv_heads, num_tokens, config.head_dim)
    if any(tuple(part.shape) != expected for pair in layers.values() for part in pair):
        raise ValueError(f"keys and values of every layer are {expected} in this receiver: map them first")
    # TODO: in which order?
    raise NotImplementedError("level15.handoff.load_cache")
