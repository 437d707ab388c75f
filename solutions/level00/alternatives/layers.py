"""Right programs, written another way, for level00.layers. `alternative` is given when this is read."""

import torch
import torch.nn.functional as F


def _torch_softmax(x, dim=-1):
    return torch.where((x == -torch.inf).all(dim, keepdim=True), torch.zeros_like(x), F.softmax(x, dim))


def _softmax_by_log(x, dim=-1):
    wide = x.double()
    total = wide.logsumexp(dim, keepdim=True)
    return (wide - total.nan_to_num(neginf=0.0)).exp().to(x.dtype)


def _torch_rms_norm(x, weight, eps):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight needs one entry per feature")
    return F.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)


def _rms_norm_by_length(x, weight, eps):
    if weight.dim() != 1 or len(weight) != x.shape[-1]:
        raise ValueError("weight needs one entry per feature")
    wide, d = x.to(torch.float32), x.shape[-1]
    square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2 / d
    return (wide * (weight.to(torch.float32) / (square + eps).sqrt())).type_as(x)


def _tables_in_float32(positions, head_dim, theta):
    """Hugging Face's way: everything in float32, inverse frequencies over even numbers."""
    if head_dim % 2:
        raise ValueError("head_dim is even")
    inverse = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    angle = torch.einsum("...s,d->...sd", positions.float(), inverse).repeat_interleave(2, -1)
    angle = angle.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return angle.cos(), angle.sin()


def _tables_by_complex(positions, head_dim, theta):
    if head_dim % 2:
        raise ValueError("head_dim is even")
    speed = torch.exp(
        torch.arange(head_dim // 2).double() * (-2 / head_dim) * torch.tensor(float(theta)).double().log()
    )
    turn = torch.polar(torch.ones_like(speed), positions[..., None].double() * speed)
    turn = turn.unsqueeze(-2).expand(*turn.shape[:-1], 2, -1).flatten(-2)
    return turn.real.float(), turn.imag.float()


def _complex_rope(x, cos, sin):
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.complex(cos[..., :half].double(), sin[..., :half].double())
    return torch.cat((turned.real, turned.imag), -1).to(x.dtype)


def _rope_in_the_dtype_of_x(x, cos, sin):
    """transformers' way: the tables are cast first, so half precision rounds each product."""
    half, cos, sin = x.shape[-1] // 2, cos.to(x.dtype), sin.to(x.dtype)
    return x * cos + x.roll(half, -1) * torch.cat([-sin[..., :half], sin[..., half:]], -1)


def _mask_by_tril(q_len, kv_len):
    if q_len > kv_len:
        raise ValueError("q_len cannot exceed kv_len")
    return torch.ones(kv_len, kv_len, dtype=torch.bool).tril()[-q_len:]


def _heads_alone(q, k, v, mask):
    """One head at a time, in a Python loop, with einsum; weights rounded to the dtype of v, as many kernels do."""
    (B, H, Q, D), (G, K) = q.shape, k.shape[1:3]
    if H % G:
        raise ValueError("H is a multiple of G")
    mask = (_mask_by_tril(Q, K) if isinstance(mask, str) else mask).expand(B, H, Q, K)
    out = []
    for h in range(H):
        g = h // (H // G)
        scores = torch.einsum("bqd,bkd->bqk", q[:, h].float(), k[:, g].float()) / D**0.5
        weights = _torch_softmax(torch.where(mask[:, h], scores, -torch.inf)).to(v.dtype)
        out.append(torch.einsum("bqk,bkd->bqd", weights, v[:, g]))
    return torch.stack(out, 2).transpose(1, 2)  # not contiguous


def _torch_attention(q, k, v, mask):
    (B, H, Q), (G, K) = q.shape[:3], k.shape[1:3]
    if H % G:
        raise ValueError("H is a multiple of G")
    mask = (_mask_by_tril(Q, K) if isinstance(mask, str) else mask).expand(B, H, Q, K)
    some = mask.any(-1, keepdim=True)  # torch versions differ on rows without keys
    k, v = (t.float().repeat_interleave(H // G, 1) for t in (k, v))
    out = F.scaled_dot_product_attention(q.float(), k, v, mask | ~some)
    return torch.where(some, out, 0.0).type_as(q)


@torch.inference_mode()
def _without_gradients(q, k, v, mask):
    return _torch_attention(q, k, v, mask)


alternative("level00.layers.softmax", "torch", program=_torch_softmax)
alternative("level00.layers.softmax", "nan_to_num", program=lambda x, dim=-1: torch.softmax(x, dim).nan_to_num(0.0))
alternative("level00.layers.softmax", "by_logsumexp", program=_softmax_by_log)
alternative("level00.layers.rms_norm", "torch", program=_torch_rms_norm)
alternative("level00.layers.rms_norm", "by_length", program=_rms_norm_by_length)
alternative("level00.layers.rope_tables", "float32", program=_tables_in_float32)
alternative("level00.layers.rope_tables", "complex", program=_tables_by_complex)
alternative("level00.layers.apply_rope", "complex", program=_complex_rope)
alternative("level00.layers.apply_rope", "rolled_in_the_dtype_of_x", program=_rope_in_the_dtype_of_x)
alternative("level00.layers.causal_mask", "tril", program=_mask_by_tril)
alternative("level00.layers.causal_mask", "not_triu", program=lambda q_len, kv_len: _mask_by_triu(q_len, kv_len))
alternative("level00.layers.attention", "head_by_head", program=_heads_alone)
alternative("level00.layers.attention", "torch", program=_torch_attention)
alternative("level00.layers.attention", "inference_mode", program=_without_gradients)


def _mask_by_triu(q_len, kv_len):
    if q_len > kv_len:
        raise ValueError("q_len cannot exceed kv_len")
    return ~torch.ones(q_len, kv_len).triu(diagonal=kv_len - q_len + 1).bool()
