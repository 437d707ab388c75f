"""Layers that look back a window beside layers that see everything: what each keeps, and how far the stack looks.

Letters in the shapes: B batch, G KV heads, n new tokens, D head_dim.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import attention, causal_mask
from level00.transformer import Attend, Params, forward
from level02.cache import KVCache, kv_bytes_per_token
from level02.window import RingCache, window_mask


def layer_is_global(n_layers: int, period: int) -> list[bool]:
    """Return for each layer whether it sees everything: the last of every `period` layers does, the others a window.

    Example: 5 local layers to 1 global one is a period of 6: of 12 layers numbers 5 and 11 are global.
    ValueError: period below 1. Gemma 3, arXiv 2503.19786.

    ● · about 1 line · part of HybridCache
    """
    if period < 1:
        raise ValueError(f"a period has at least 1 layer, its global one, not {period}")
    # TODO: which number, counted from 0, ends a period?
    raise NotImplementedError("level11.hybrid.HybridCache")


def receptive_field(n_layers: int, window: int) -> int:
    """Return how many tokens the output of n_layers local layers can depend on, itself included.

    A layer's query sees itself and the window - 1 tokens before it. Example: 3 layers, window 4 -> 10.

    ● · about 1 line · part of HybridCache
    """
    # TODO: how much further back does each layer reach?
    raise NotImplementedError("level11.hybrid.HybridCache")


def hybrid_kv_bytes(
    config: Config, is_global: Sequence[bool], window: int, context_len: int, bytes_per_element: float
) -> float:
    """Return the bytes of the keys and values that one sequence of context_len tokens needs, in all layers together.

    is_global  for each of config.n_layers layers; a local one needs no more than `window` tokens

    Example: 2 layers of 1 KV head, head_dim 1, the second global, window 8, 100 tokens, 2 bytes: 32 + 400 = 432.

    ● · about 3 lines · part of HybridCache
    """
    # TODO: tokens, summed over layers, and the bytes of a token in one layer
    raise NotImplementedError("level11.hybrid.HybridCache")


class HybridCache:
    """A KV cache whose local layers are a ring of `window` tokens and whose global ones hold max_cached_tokens.

    is_global            for each of config.n_layers layers; both kinds are there
    mask_for(layer, n)   bool (n, keys): who of n new tokens may attend to which of the keys that the layer's update
                         with them will return
    update(layer, k, v)  that of level 02's RingCache or KVCache, k and v (B, G, n, D)
    length               tokens that every layer has seen; it moves with the last layer of a pass
    truncate(n)          goes back to n tokens in all layers, if the rings can, as RingCache says; else in none
    nbytes               bytes of all buffers: of one full row, hybrid_kv_bytes

    Made of the two caches of level 02, each for its layers. A forward pass asks each layer for its mask, then updates
    it, in order, each once. Example: 6 layers, the last global, window 3, after 5 tokens: mask_for(0, 1) is over 4
    keys, of which 3 are seen, mask_for(5, 1) is six times True.
    ValueError: as RingCache and KVCache, also of truncate; is_global is not one entry a layer, or all of one kind.

    ●● · about 17 lines · needs level02.window.RingCache, level02.cache.KVCache
    """

    def __init__(
        self,
        config: Config,
        is_global: Sequence[bool],
        batch: int,
        window: int,
        max_cached_tokens: int,
        dtype: torch.dtype = torch.float32,
    ):
        if len(is_global) != config.n_layers or len(set(is_global)) != 2:
            raise ValueError(f"an entry for each of the {config.n_layers} layers, some True and some False")
        # TODO: how many layers of each kind, and which of its kind is each layer?
        raise NotImplementedError("level11.hybrid.HybridCache")

    def mask_for(self, layer: int, n: int) -> Tensor:
        # TODO: level 02 has the mask of a ring, level 00 that of everything
        raise NotImplementedError("level11.hybrid.HybridCache")

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        # TODO: whose layer is it, and which one there?
        raise NotImplementedError("level11.hybrid.HybridCache")

    @property
    def length(self) -> int:
        # TODO: which of the two is the last to move?
        raise NotImplementedError("level11.hybrid.HybridCache")

    @property
    def nbytes(self) -> int:
        # TODO: of both
        raise NotImplementedError("level11.hybrid.HybridCache")

    def truncate(self, n: int) -> None:
        # TODO: which of the two may refuse?
        raise NotImplementedError("level11.hybrid.HybridCache")


def forward_hybrid(
    params: Params,
    config: Config,
    token_ids: Tensor,
    cache: HybridCache,
    *,
    forward: Callable = forward,
    attend: Attend = attention,
    **seams,
) -> Tensor:
    """Logits (B, S, vocab) of token_ids (B, S) behind a HybridCache: `forward`, with each layer's own mask.

    It can be handed to level 01's loops as their `forward`.
    """
    masks = iter([cache.mask_for(layer, token_ids.shape[1]) for layer in range(config.n_layers)])
    return forward(params, config, token_ids, cache, attend=lambda q, k, v, _: attend(q, k, v, next(masks)), **seams)
