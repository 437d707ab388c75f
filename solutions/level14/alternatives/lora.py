"""Right programs, written another way, for level14.lora. `alternative` is given when this is read."""

import math

import torch
import torch.nn.functional as F

from level06.weights import any_linear

_LINEAR = "level14.lora.lora_linear"
_MERGE = "level14.lora.lora_merge"


def _scale(alpha, r, rank_stabilized=False):
    return alpha * r**-0.5 if rank_stabilized else alpha * (1 / r)


def _two_returns(alpha, r, rank_stabilized=False):
    if rank_stabilized:
        return alpha / math.sqrt(r)
    return alpha / r


alternative(_LINEAR, "powers", program=_scale, part="lora_scale")
alternative(_LINEAR, "two_returns", program=_two_returns, part="lora_scale")


# ---- lora_init


def _uniform_in_place(out_features, in_features, r, generator, dtype=torch.float32):
    if not 0 < r <= min(out_features, in_features):
        raise ValueError("r")
    bound = in_features**-0.5
    a = torch.empty(r, in_features, dtype=dtype).uniform_(-bound, bound, generator=generator)
    return a, a.new_zeros(out_features, r)


def _kaiming(out_features, in_features, r, generator, dtype=torch.float32):
    """As peft does it; drawn in float32, and rounded to what is asked for."""
    if not 0 < r <= min(out_features, in_features):
        raise ValueError("r")
    a = torch.nn.init.kaiming_uniform_(torch.empty(r, in_features), a=math.sqrt(5), generator=generator)
    return a.to(dtype), torch.zeros((out_features, r), dtype=dtype)


alternative(_LINEAR, "uniform_in_place", program=_uniform_in_place, part="lora_init")
alternative(_LINEAR, "kaiming", program=_kaiming, part="lora_init")


# ---- lora_linear


def _checked(a, b):
    if a.shape[0] != b.shape[1]:
        raise ValueError("rank")


def _scaled_at_the_end(x, weight, a, b, alpha, rank_stabilized=False):
    _checked(a, b)
    low = F.linear(F.linear(x.to(a.dtype), a), b)
    return any_linear(x, weight) + (low * _scale(alpha, a.shape[0], rank_stabilized)).to(x.dtype)


def _einsums(x, weight, a, b, alpha, rank_stabilized=False):
    _checked(a, b)
    base = weight.linear(x) if hasattr(weight, "linear") else F.linear(x, weight)
    thin = torch.einsum("...i,ri->...r", x.to(a.dtype), a)
    low = torch.einsum("...r,or->...o", thin, b)
    return torch.add(base, low, alpha=_scale(alpha, b.shape[1], rank_stabilized)).to(x.dtype)


def _thin_matrix_scaled(x, weight, a, b, alpha, rank_stabilized=False):
    """The smallest tensor of all may be the b: it is scaled instead of the activations."""
    _checked(a, b)
    scaled = b.mT * _scale(alpha, a.shape[0], rank_stabilized)
    return torch.matmul(x.to(a.dtype) @ a.mT, scaled).add(any_linear(x, weight)).to(x.dtype)


def _one_rank_at_a_time(x, weight, a, b, alpha, rank_stabilized=False):
    _checked(a, b)
    out = any_linear(x, weight).to(torch.promote_types(x.dtype, a.dtype))
    for row, column in zip(a, b.T):
        thin = (x.to(a.dtype) @ row) * _scale(alpha, len(a), rank_stabilized)
        out = out + thin.unsqueeze(-1) * column
    return out.to(x.dtype)


alternative(_LINEAR, "scaled_at_the_end", program=_scaled_at_the_end)
alternative(_LINEAR, "einsums", program=_einsums)
alternative(_LINEAR, "thin_matrix_scaled", program=_thin_matrix_scaled)
alternative(_LINEAR, "one_rank_at_a_time", program=_one_rank_at_a_time)


# ---- lora_params


def _in_a_loop(shapes, r):
    total = 0
    for shape in shapes:
        total += sum(shape)
    return r * total


alternative(_LINEAR, "in_a_loop", program=_in_a_loop, part="lora_params")


# ---- lora_merge, lora_unmerge


def _base(weight):
    return weight if torch.is_tensor(weight) else weight.dequantize()


def _in_float64(weight, a, b, alpha, rank_stabilized=False):
    base = _base(weight)
    return torch.addmm(base.double(), b.double(), a.double(), alpha=_scale(alpha, len(a), rank_stabilized)).to(
        base.dtype
    )


def _in_float32(weight, a, b, alpha, rank_stabilized=False):
    base = _base(weight)
    scaled = a.float() * _scale(alpha, a.shape[0], rank_stabilized)
    return base.float().add(b.float() @ scaled).type_as(base)


def _outer_products(weight, a, b, alpha, rank_stabilized=False):
    base = _base(weight)
    out = base.double().clone()
    for row, column in zip(a.double(), b.double().T):
        out += _scale(alpha, len(a), rank_stabilized) * torch.outer(column, row)
    return out.to(base.dtype) if base.dtype != out.dtype else out


alternative(_MERGE, "in_float64", program=_in_float64)
alternative(_MERGE, "in_float32", program=_in_float32)
alternative(_MERGE, "outer_products", program=_outer_products)


def _subtracted(merged, a, b, alpha, rank_stabilized=False):
    wide = torch.promote_types(merged.dtype, torch.float32)
    return (merged.to(wide) - _scale(alpha, len(a), rank_stabilized) * (b.to(wide) @ a.to(wide))).to(merged.dtype)


def _negative_alpha(merged, a, b, alpha, rank_stabilized=False):
    return _in_float64(merged, a, b, -alpha, rank_stabilized)


alternative(_MERGE, "subtracted", program=_subtracted, part="lora_unmerge")
alternative(_MERGE, "negative_alpha", program=_negative_alpha, part="lora_unmerge")
