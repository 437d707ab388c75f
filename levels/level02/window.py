"""A cache of fixed size for attention that looks back a fixed distance: a ring, and the positions of what is in it.

Position p of the sequence lives in slot p % window, so a new token takes the place of the one that has just left the
window. Letters in the shapes: B batch, G KV heads, n new tokens, D head_dim, W window.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward


def ring_positions(length: int, window: int) -> Tensor:
    """Return which position each slot of the ring holds after `length` tokens, (window,) int64; -1 for an empty slot.

    Position p lives in slot p % window.
    Example: 5 tokens, window 3: positions 2, 3 and 4 are held, position 3 in slot 0: [3, 4, 2].
    ValueError: window below 1, length below 0.

    ●● · about 3 lines
    """
    if window < 1 or length < 0:
        raise ValueError(f"a window holds at least 1 token, and length counts from 0: not {window} and {length}")
    # TODO: how far behind the newest token is each slot's?
    raise NotImplementedError("level02.window.ring_positions")


def window_mask(q_positions: Tensor, kv_positions: Tensor, window: int) -> Tensor:
    """Return the boolean mask (q, k) in which True means "this query may attend to this key".

    q_positions   (q,) int, positions of the queries
    kv_positions  (k,) int, positions of the keys in any order; -1 marks an empty slot

    A query sees itself and the window - 1 tokens before it: a window of 1 sees itself alone. Nothing later, nothing
    empty. Example: query 3, keys 0..3, window 2 -> [[False, False, True, True]].
    Sliding window attention: Mistral 7B, arXiv 2310.06825.

    ● · about 2 lines
    """
    # TODO: at which distances may it look, and what is no key at all?
    raise NotImplementedError("level02.window.window_mask")


class RingCache:
    """Keys and values of the last `window` tokens, for `batch` rows, in buffers of that size.

    positions_for(n)     positions of the window + n tokens that an update with n new tokens is about to return, int64
    update(layer, k, v)  returns, in the cache's dtype, the ring *as it was*, slot by slot, then the new tokens k, v
                         (B, G, n, D), each (B, G, window + n, D); empty slots hold finite numbers. Then it stores the
                         new tokens, of more than `window` the last `window`
    length               tokens seen, not held: the next one's position. It moves with the last layer of a pass
    truncate(n)          between two passes, goes back to n tokens, if all the ring held then, also what no later query
                         sees, is still there; 0 always
    window, nbytes       slots; bytes of the buffers

    A forward pass updates the layers in order, each once. What was returned is valid until the next update.
    Example: window 3 after 5 tokens: positions_for(1) is [3, 4, 2, 5], and the next update returns keys in that order.
    ValueError: batch or window below 1; k and v of different shapes, or another batch; truncate below 0, beyond length,
    or to a length of which a token has been overwritten.

    ●●● · about 20 lines · needs level02.window.ring_positions
    """

    def __init__(self, config: Config, batch: int, window: int, dtype: torch.dtype = torch.float32):
        if batch < 1 or window < 1:
            raise ValueError(f"a cache has at least 1 row and 1 token, not {batch} and {window}")
        self.batch, self.window = batch, window
        # TODO: as in KVCache; may an empty slot hold whatever memory held before?
        raise NotImplementedError("level02.window.RingCache")

    def positions_for(self, n: int) -> Tensor:
        # TODO: those in the ring, then those to come
        raise NotImplementedError("level02.window.RingCache")

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError(
                f"k and v are both ({self.batch}, n_kv_heads, n, head_dim), not {tuple(k.shape)} and {tuple(v.shape)}"
            )
        # TODO: which keys do the first of the new queries still need? which new tokens stay, and where?
        raise NotImplementedError("level02.window.RingCache")

    @property
    def length(self) -> int:
        # TODO: which layer tells what all layers have seen?
        raise NotImplementedError("level02.window.RingCache")

    @property
    def nbytes(self) -> int:
        # TODO: as in KVCache
        raise NotImplementedError("level02.window.RingCache")

    def truncate(self, n: int) -> None:
        if not 0 <= n <= self.length:
            raise ValueError(f"the cache has seen {self.length} tokens, so it goes back to 0..{self.length}, not {n}")
        # TODO: when is part of what it held then gone?
        raise NotImplementedError("level02.window.RingCache")


def forward_windowed(
    params: Params, config: Config, token_ids: Tensor, cache: RingCache, *, forward: Callable = forward, **seams
) -> Tensor:
    """Logits (B, S, vocab) of token_ids (B, S) behind a RingCache: `forward` with the positions and mask of the ring.

    It can be handed to level 01's loops as their `forward`.
    """
    n = token_ids.shape[1]
    positions = torch.arange(cache.length, cache.length + n)
    mask = window_mask(positions, cache.positions_for(n), cache.window)
    return forward(params, config, token_ids, cache, positions=positions, mask=mask, **seams)
