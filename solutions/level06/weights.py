"""Quantized weights inside the model: what `linear` gets in place of a tensor. Given.

params = quantized(params, lambda w: Int4Weight(w, 64))
forward(params, config, ids, linear=any_linear)
"""

from collections.abc import Callable

from torch import Tensor

from level00.layers import linear
from level00.transformer import Params

from .quantize import dequantize_int4, int8_linear, quantize_int4, quantize_int8


class Int8Weight:
    """A weight (out, in) in 8 bits and a scale for each row."""

    def __init__(self, w: Tensor):
        self.q, self.scale = quantize_int8(w)
        self.nbytes = self.q.nbytes + self.scale.nbytes

    def linear(self, x: Tensor) -> Tensor:
        return int8_linear(x, self.q, self.scale)


class Int4Weight:
    """A weight (out, in) in 4 bits, with a scale and a minimum for each group."""

    def __init__(self, w: Tensor, group: int):
        self.packed, self.scale, self.low = quantize_int4(w, group)
        self.nbytes = self.packed.nbytes + self.scale.nbytes + self.low.nbytes

    def linear(self, x: Tensor) -> Tensor:
        """Makes the weight anew at every call: few bytes are stored, and more are moved than before."""
        return linear(x, dequantize_int4(self.packed, self.scale, self.low))


def any_linear(x: Tensor, weight: Tensor | Int8Weight | Int4Weight) -> Tensor:
    """Level 00's `linear` for tensors, and the weight's own for others."""
    return linear(x, weight) if isinstance(weight, Tensor) else weight.linear(x)


def quantized(params: Params, make: Callable[[Tensor], object], head: Callable | None = None) -> Params:
    """The parameters with every matrix of the blocks replaced by make(matrix); norms stay, and so does the embedding.

    head  makes the matrix of the vocabulary, which is the embedding's own unless there is an "lm_head.weight"
    """
    changed = {name: make(w) if name.endswith("_proj.weight") else w for name, w in params.items()}
    if head:
        changed["lm_head.weight"] = head(params.get("lm_head.weight", params["model.embed_tokens.weight"]))
    return changed


def stored_bytes(params: Params) -> int:
    """Bytes of all parameters as they are stored, an embedding that is the head as well counted once."""
    return sum(w.nbytes for w in params.values())
