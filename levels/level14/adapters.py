"""Adapters inside the model: what level 06's any_linear gets in place of a tensor. Given.

adapted, trainable = attach(params, names, r=8, alpha=16, generator=torch.Generator().manual_seed(0))
forward(adapted, config, ids, linear=any_linear)
"""

from collections.abc import Collection
from math import prod

import torch
from torch import Tensor

from level00.transformer import Params
from level06.quantize import pack_int4, unpack_int4

from .lora import lora_init, lora_linear, lora_merge
from .memory import double_dequantize, double_quantize
from .nf4 import dequantize_nf4, quantize_nf4


class LoraWeight:
    """A frozen weight and its adapter; any_linear takes it for a weight."""

    def __init__(self, weight, a: Tensor, b: Tensor, alpha: float, rank_stabilized: bool = False):
        self.weight, self.a, self.b, self.alpha, self.rank_stabilized = weight, a, b, alpha, rank_stabilized
        self.shape, self.nbytes = weight.shape, weight.nbytes + a.nbytes + b.nbytes

    def linear(self, x: Tensor) -> Tensor:
        return lora_linear(x, self.weight, self.a, self.b, self.alpha, self.rank_stabilized)

    def merged(self) -> Tensor:
        return lora_merge(self.weight, self.a.detach(), self.b.detach(), self.alpha, self.rank_stabilized)


class NF4Weight:
    """A weight in NF4, two codes to a byte as in level 06, and its scales: float32, or 8 bits with `double`."""

    def __init__(self, w: Tensor, block: int = 64, double: bool = False):
        codes, absmax = quantize_nf4(w, block)
        self.shape, self.dtype, self.double = w.shape, w.dtype, double
        self.packed = pack_int4(codes.view(-1, 2))
        self.scales = double_quantize(absmax) if double else (absmax,)
        self.nbytes = self.packed.nbytes + sum(part.nbytes for part in self.scales)

    def dequantize(self) -> Tensor:
        absmax = double_dequantize(*self.scales) if self.double else self.scales[0]
        return dequantize_nf4(unpack_int4(self.packed).view(self.shape), absmax).to(self.dtype)

    def linear(self, x: Tensor) -> Tensor:
        return NF4Linear.apply(x, self)


class NF4Linear(torch.autograd.Function):
    """x times a quantized weight, which is made anew for the backward pass: autograd would keep all of them."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: NF4Weight) -> Tensor:
        ctx.weight = weight
        return x @ weight.dequantize().to(x.dtype).T

    @staticmethod
    def backward(ctx, grad: Tensor):
        return grad @ ctx.weight.dequantize().to(grad.dtype), None


def attach(
    params: Params,
    names: Collection[str],
    r: int,
    alpha: float,
    generator: torch.Generator,
    rank_stabilized: bool = False,
) -> tuple[dict, dict[str, Tensor]]:
    """(params in which the named matrices have adapters, {"NAME.a": tensor, "NAME.b": ...} that want gradients)."""
    adapted, trainable = dict(params), {}
    for name in names:
        a, b = (part.requires_grad_() for part in lora_init(*params[name].shape, r, generator))
        adapted[name] = LoraWeight(params[name], a, b, alpha, rank_stabilized)
        trainable |= {f"{name}.a": a, f"{name}.b": b}
    return adapted, trainable


def merged(adapted: Params) -> dict:
    """The params as plain matrices again, every adapter merged into its own."""
    return {name: w.merged() if isinstance(w, LoraWeight) else w for name, w in adapted.items()}


def num_elements(trainable: dict[str, Tensor]) -> int:
    """How many numbers learn."""
    return sum(prod(part.shape) for part in trainable.values())


def projections(layers: Collection[int], which: str = "qv") -> list[str]:
    """Names of the attention matrices of these layers: q and v are LoRA's own choice."""
    return [f"model.layers.{layer}.self_attn.{letter}_proj.weight" for layer in layers for letter in which]
