"""The smallest KV cache: everything so far, one tensor of keys and one of values per layer.

Joining tensors copies all that is held at every step. Level 02 reserves the room instead.
"""

import torch
from torch import Tensor


class SimpleCache:
    """Keys and values of all tokens so far, for n_layers layers; it starts empty.

    update(layer, k, v)  appends k, v (B, n_kv_heads, n, head_dim) to that layer's and returns all of that layer's,
                         old and new, each (B, n_kv_heads, kv_len, head_dim)
    length               number of tokens that *every* layer holds: it moves when the last layer has been updated,
                         since a forward pass reads it before its first layer and goes through the layers in order
    truncate(n)          forgets all but the first n tokens, in every layer

    Example: two layers, update(0, k, v) and update(1, k, v) with two tokens each: length is 0, then 0, then 2.
    ValueError: a layer outside 0..n_layers-1; truncate below 0 or beyond length.

    ●● · about 9 lines
    """

    def __init__(self, n_layers: int):
        self.n_layers = n_layers
        # TODO: what must be kept for each layer?
        raise NotImplementedError("level01.simple_cache.SimpleCache")

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if not 0 <= layer < self.n_layers:
            raise ValueError(f"layer {layer} is not one of the {self.n_layers} layers, 0..{self.n_layers - 1}")
        # TODO: append along the axis of the tokens, and give back all of it
        raise NotImplementedError("level01.simple_cache.SimpleCache")

    @property
    def length(self) -> int:
        # TODO: which layer tells what all layers hold?
        raise NotImplementedError("level01.simple_cache.SimpleCache")

    def truncate(self, n: int) -> None:
        if not 0 <= n <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens, so it can be cut to 0..{self.length}, not {n}")
        # TODO: the first n, of keys and values
        raise NotImplementedError("level01.simple_cache.SimpleCache")
