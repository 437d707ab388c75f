"""A cache whose room is reserved once: every key and value is written one time, and never moved.

Letters in the shapes: B batch, G KV heads, n new tokens, D head_dim.
"""

import torch
from torch import Tensor

from dojo.models import Config


def kv_bytes_per_token(config: Config, bytes_per_element: float) -> float:
    """Return the bytes of one token's keys and values, in all layers together.

    bytes_per_element  2 in bfloat16, 4 in float32; a fraction where entries are packed (0.5 for 4 bits)

    Example: 2 layers, 3 KV heads of head_dim 4, 9 query heads, bfloat16: 96.

    ● · about 1 line
    """
    # TODO: what is kept of a token, how many times, and how wide is it?
    raise NotImplementedError("level02.cache.kv_bytes_per_token")


def concat_copy_bytes(start: int, steps: int, bytes_per_token: float) -> float:
    """Return the bytes *written* while a cache of `start` tokens grows by one token `steps` times, by torch.cat.

    Joining two tensors makes a new one, so each step writes all that it then holds. Reading is not counted.
    Example: start 100, 2 steps, 10 bytes a token: 1010 + 1020 = 2030.
    ValueError: start or steps below 0.

    ● · about 1 line
    """
    if start < 0 or steps < 0:
        raise ValueError(f"tokens and steps are counted from 0 up, not start = {start}, steps = {steps}")
    # TODO: how many tokens does step i write?
    raise NotImplementedError("level02.cache.concat_copy_bytes")


class KVCache:
    """Keys and values of up to max_cached_tokens tokens, for `batch` rows; the buffers are allocated once, here.

    update(layer, k, v)  writes k, v (B, G, n, D) behind what that layer holds, in the cache's dtype, and returns views
                         of that layer's first kv_len tokens, each (B, G, kv_len, D): no copy, nothing unwritten
    length               tokens that every layer holds, as in level 01: it moves with the last layer of a pass
    truncate(n)          forgets all but the first n tokens; nothing is moved, the next update writes from there
    max_cached_tokens    the room, in tokens
    nbytes               bytes of the buffers, full or empty

    A forward pass updates the layers in order, each once. What was returned is valid until the next truncate.
    Example: room for 3, 2 tokens, then 1: the second update returns 3 tokens. One more raises.
    ValueError: batch or max_cached_tokens below 1; k and v of different shapes, or another batch; more tokens than fit
    (then nothing is written); truncate below 0 or beyond length.

    ●● · about 14 lines
    """

    def __init__(self, config: Config, batch: int, max_cached_tokens: int, dtype: torch.dtype = torch.float32):
        if batch < 1 or max_cached_tokens < 1:
            raise ValueError(f"a cache has at least 1 row and 1 token, not {batch} and {max_cached_tokens}")
        self.batch, self.max_cached_tokens = batch, max_cached_tokens
        # TODO: one buffer for the keys of all layers, one for the values; what else must be known?
        raise NotImplementedError("level02.cache.KVCache")

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError(
                f"k and v are both ({self.batch}, n_kv_heads, n, head_dim), not {tuple(k.shape)} and {tuple(v.shape)}"
            )
        # TODO: from where to where? does it fit? write, and return views
        raise NotImplementedError("level02.cache.KVCache")

    @property
    def length(self) -> int:
        # TODO: which layer tells what all layers hold?
        raise NotImplementedError("level02.cache.KVCache")

    @property
    def nbytes(self) -> int:
        # TODO: elements times their size, keys and values
        raise NotImplementedError("level02.cache.KVCache")

    def truncate(self, n: int) -> None:
        if not 0 <= n <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens, so it can be cut to 0..{self.length}, not {n}")
        # TODO: what has to change, if nothing is moved?
        raise NotImplementedError("level02.cache.KVCache")
