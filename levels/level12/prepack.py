"""Weights laid out as the CPU's matrix kernels read them, once, before the first request. Given.

A product of few rows and a plain matrix spends much of its time on bringing the matrix into that layout, in every step
again. Level 00's seam makes it the business of two functions: a parameter may be anything that `linear` accepts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from level00.layers import linear
from level00.transformer import Params

ROWS = 32  # for which the layout is chosen; any number may come


@dataclass(frozen=True)
class Prepacked:
    """A matrix (out_features, in_features) in oneDNN's own layout."""

    weight: Tensor
    out_features: int


def available() -> bool:
    """Where torch has oneDNN's kernels: on x86, and not everywhere else."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def prepack(params: Params) -> dict:
    """The params with all matrices prepacked, the head as "lm_head.weight"; the embedding stays a tensor."""
    head = {"lm_head.weight": params.get("lm_head.weight", params["model.embed_tokens.weight"])}
    matrices = {name: w for name, w in params.items() if w.dim() == 2 and "embed_tokens" not in name} | head
    reorder = torch.ops.mkldnn._reorder_linear_weight
    return {**params, **{name: Prepacked(reorder(w, ROWS), len(w)) for name, w in matrices.items()}}


def prepacked_linear(x: Tensor, weight: Tensor | Prepacked) -> Tensor:
    """The `linear` for such params: x (..., in_features) -> (..., out_features)."""
    if isinstance(weight, Tensor):
        return linear(x, weight)
    return torch.ops.mkldnn._linear_pointwise(x, weight.weight, None, "none", [], "")
