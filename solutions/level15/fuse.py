"""Not instead of the receiver's own cache, but beside it: a gate decides how much of the other one goes in."""

import torch
from torch import Tensor


def gated_fuse(own: Tensor, mapped: Tensor, gate_logit: Tensor) -> Tensor:
    """Return the receiver's own keys (or values), moved towards the mapped ones by a gate for each head.

    own, mapped  (B, G, S, D) float, G KV heads; the result has the shape and dtype of own
    gate_logit   (G,) float; its sigmoid is the share of the way: -inf leaves the receiver alone, +inf takes the mapped

    `own` takes the receiver's own prefill: fusion adds what another model knows, and saves nothing.
    Example: own 1, mapped 3, logit 0 -> 2.
    ValueError: different shapes, not one gate per head. Cache-to-Cache, arXiv 2510.03215, adds a learned projection.

    ● · about 2 lines
    """
    if own.shape != mapped.shape or gate_logit.shape != own.shape[1:2]:
        raise ValueError(f"own and mapped are both {tuple(own.shape)}, with {own.shape[1]} gates: one per head")
    # solution:begin how far, and over which axis?
    share = torch.sigmoid(gate_logit)[:, None, None]
    return torch.lerp(own, mapped, share.to(own.dtype))
    # solution:end
