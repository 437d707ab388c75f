"""A large matrix stays as it is; a product of two thin ones beside it learns.

Letters in the shapes: r the rank. Weights are (out, in), as everywhere: y = x Wᵀ + scale · (x Aᵀ) Bᵀ.
"""

from collections.abc import Iterable
from math import sqrt

import torch
from torch import Tensor

from level06.weights import any_linear


def lora_scale(alpha: float, r: int, rank_stabilized: bool = False) -> float:
    """Return the factor of the low-rank part: alpha / r, or alpha / sqrt(r) where the adapter is rank-stabilized.

    Example: alpha 16, r 4: 4, rank-stabilized 8. LoRA, arXiv 2106.09685; rank-stabilized, arXiv 2312.03732.

    ● · about 1 line · part of lora_linear
    """
    # solution:begin which of the two was the adapter trained with?
    return alpha / (sqrt(r) if rank_stabilized else r)
    # solution:end


def lora_init(
    out_features: int, in_features: int, r: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return (a (r, in), b (out, r)), with which the model starts as what it was, and can learn from there.

    a is uniform between ±1 / sqrt(in) (peft's choice; the paper's is a normal), drawn from the generator; b is 0.
    ValueError: r outside 1..min(out, in).

    ● · about 2 lines · part of lora_linear
    """
    if not 1 <= r <= min(out_features, in_features):
        raise ValueError(f"the rank of an ({out_features}, {in_features}) matrix lies in 1..its shorter side, not {r}")
    # solution:begin the product must be 0; what if both were?
    a = (2 * torch.rand(r, in_features, generator=generator, dtype=dtype) - 1) / sqrt(in_features)
    return a, torch.zeros(out_features, r, dtype=dtype)  # with a = 0 as well no gradient would ever reach either
    # solution:end


def lora_linear(x: Tensor, weight, a: Tensor, b: Tensor, alpha: float, rank_stabilized: bool = False) -> Tensor:
    """Return x Wᵀ + scale · (x Aᵀ) Bᵀ, (..., out) in x's dtype, with the `lora_scale` of alpha and a's rank.

    x       (..., in) float
    weight  (out, in), or whatever level 06's any_linear takes: a quantized weight
    a, b    (r, in) and (out, r), of one float dtype, which may be wider than x's: the low-rank part is computed in it

    No (out, in) matrix is made: beside what the frozen weight needs, the only intermediates are (..., r) and (..., out)
    Dropout is left out.
    Example: x = [1, 2], W = identity, a = [[1, 1]], b = [[1], [0]], alpha 2: [1, 2] + 2 · 3 · [1, 0] = [7, 2].
    ValueError: a and b of different ranks. arXiv 2106.09685.

    ●● · about 3 lines
    """
    if a.shape[0] != b.shape[1]:
        raise ValueError(f"a is (r, in) and b (out, r) for one rank r, not {tuple(a.shape)} and {tuple(b.shape)}")
    # solution:begin down to r, up to out; where is the scale cheapest?
    thin = x.to(a.dtype) @ a.T * lora_scale(alpha, len(a), rank_stabilized)
    return (any_linear(x, weight) + thin @ b.T).to(x.dtype)
    # solution:end


def lora_params(shapes: Iterable[tuple[int, int]], r: int) -> int:
    """Return how many numbers the adapters of matrices of these shapes (out, in) have at rank r.

    Example: one matrix (10, 4), rank 1: 14.

    ● · about 1 line · part of lora_linear
    """
    # solution:begin two thin matrices
    return sum(r * (out_features + in_features) for out_features, in_features in shapes)
    # solution:end


def lora_merge(weight, a: Tensor, b: Tensor, alpha: float, rank_stabilized: bool = False) -> Tensor:
    """Return one matrix (out, in) that does what weight and adapter do together: a new tensor, nothing is changed.

    weight  (out, in) float, whose dtype the result has; or a quantized weight, of which `dequantize()` is the matrix
            that the adapter has learned beside. What it was before it was quantized is another matrix
    a, b    as in lora_linear; the sum is made in float32 or better

    Example: W = [[1, 0], [0, 1]], a = [[1, 1]], b = [[1], [0]], alpha 2 -> [[3, 2], [0, 1]].
    It serves as fast as any matrix, and costs as many bytes: merged into a 4-bit weight, the result is not 4-bit.

    ● · about 4 lines · needs level14.lora.lora_linear
    """
    # solution:begin the product of the thin ones has the shape of the large one; onto what is it added?
    base = weight if isinstance(weight, Tensor) else weight.dequantize()
    wide = torch.promote_types(base.dtype, torch.float32)
    delta = b.to(wide) @ a.to(wide) * lora_scale(alpha, len(a), rank_stabilized)
    return (base.to(wide) + delta).to(base.dtype)  # in bfloat16 a small delta is rounded away here
    # solution:end


def lora_unmerge(merged: Tensor, a: Tensor, b: Tensor, alpha: float, rank_stabilized: bool = False) -> Tensor:
    """Return the matrix that lora_merge was given, up to rounding: a new tensor, so that another adapter can come.

    ● · about 1 line · part of lora_merge
    """
    # solution:begin the same product, with which sign?
    return lora_merge(merged, a, -b, alpha, rank_stabilized)
    # solution:end
