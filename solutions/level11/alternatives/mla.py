"""Right programs, written another way, for level11.mla. `alternative` is given when this is read."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def _mask(q_nope, latent):
    """The level's own, whichever is mounted."""
    from level00.layers import causal_mask

    return causal_mask(q_nope.shape[2], latent.shape[1])


def _two_products(x, w_down, norm_weight, eps, cos, sin):
    """The rows of the latent and those of the key, each by themselves; the norm and the rotation by hand."""
    d_latent = norm_weight.shape[0]
    latent, key = x @ w_down[:d_latent].T, x @ w_down[d_latent:].T
    wide = latent.float()
    wide = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    first, second = key.float().chunk(2, -1)
    half = cos.shape[-1] // 2
    c, s = cos[:, :half], sin[:, :half]
    turned = torch.cat([first * c - second * s, second * c + first * s], -1)
    return (wide * norm_weight.float()).to(x.dtype), turned.to(x.dtype)


def _token_by_token(x, w_down, norm_weight, eps, cos, sin):
    from level00.layers import apply_rope, rms_norm

    d_latent, latents, keys = len(norm_weight), [], []
    for i in range(x.shape[1]):
        both = x[:, i : i + 1] @ w_down.mT
        latents.append(rms_norm(both[..., :d_latent], norm_weight, eps))
        keys.append(apply_rope(both[..., d_latent:], cos[i : i + 1], sin[i : i + 1]))
    return torch.cat(latents, 1), torch.cat(keys, 1)


def _joined(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """[key; shared key], each head its own copy, and torch's attention."""
    mask = _mask(q_nope, latent)
    keys = latent.unsqueeze(1) @ w_uk.mT
    shared = k_rope.unsqueeze(1).expand(-1, len(w_uk), -1, -1)
    q, k = torch.cat([q_nope, q_rope], -1), torch.cat([keys, shared], -1)
    return scaled_dot_product_attention(q, k, latent.unsqueeze(1) @ w_uv.mT, attn_mask=mask)


def _head_by_head(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    mask, outs = _mask(q_nope, latent), []
    for h in range(len(w_uk)):
        score = q_nope[:, h] @ (latent @ w_uk[h].T).mT + q_rope[:, h] @ k_rope.mT
        score = score / (q_nope.shape[-1] + q_rope.shape[-1]) ** 0.5
        outs.append(score.masked_fill(mask.logical_not(), float("-inf")).softmax(-1) @ (latent @ w_uv[h].T))
    return torch.stack(outs, 1)


def _one_matrix(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """Keys and values of all heads by one product, as DeepSeek's own code does it."""
    mask = _mask(q_nope, latent)
    d_nope, d_v = q_nope.shape[-1], w_uv.shape[1]
    both = latent @ torch.cat([w_uk, w_uv], 1).flatten(0, 1).T
    keys, values = both.unflatten(-1, (len(w_uk), -1)).transpose(1, 2).split([d_nope, d_v], -1)
    scores = torch.einsum("bhqn,bhsn->bhqs", q_nope, keys) + torch.einsum("bhqr,bsr->bhqs", q_rope, k_rope)
    scores = scores * (d_nope + q_rope.shape[-1]) ** -0.5 + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ values


def _einsum(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    mask = _mask(q_nope, latent)
    q = torch.einsum("bhqn,hnc->bhqc", q_nope, w_uk)
    scores = torch.einsum("bhqc,bsc->bhqs", q, latent) + torch.einsum("bhqr,bsr->bhqs", q_rope, k_rope)
    scores = scores / (q_nope.shape[-1] + q_rope.shape[-1]) ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.einsum("bhqc,hvc->bhqv", torch.einsum("bhqs,bsc->bhqc", weights, latent), w_uv)


def _multi_query(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """Multi-query attention over [latent; key], by torch: the heads are queries of one row."""
    B, H, Q, d_nope = q_nope.shape
    mask = _mask(q_nope, latent).repeat(H, 1)
    q = torch.cat([q_nope @ w_uk, q_rope], -1).reshape(B, H * Q, -1)
    scale = (d_nope + q_rope.shape[-1]) ** -0.5
    mixed = scaled_dot_product_attention(q, torch.cat([latent, k_rope], -1), latent, attn_mask=mask, scale=scale)
    return mixed.reshape(B, H, Q, -1) @ w_uv.mT


def _row_by_row(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """One text after the other, all heads together; scaled queries instead of scaled scores."""
    mask, H, outs = _mask(q_nope, latent), len(w_uk), []
    scale = (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5
    for b in range(len(q_nope)):
        q = torch.bmm(q_nope[b] * scale, w_uk).reshape(-1, w_uk.shape[-1])
        scores = q @ latent[b].T + (q_rope[b] * scale).reshape(len(q), -1) @ k_rope[b].T
        scores = scores.reshape(H, -1, latent.shape[1]).masked_fill(~mask, -torch.inf)
        mixed = scores.softmax(-1).reshape(len(q), -1) @ latent[b]
        outs.append(torch.bmm(mixed.reshape(H, -1, w_uk.shape[-1]), w_uv.transpose(1, 2)))
    return torch.stack(outs)


def _query_by_query(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """Each query over the tokens up to its own: no mask is needed."""
    S, Q, outs = _mask(q_nope, latent).shape[1], q_nope.shape[2], []
    for i in range(Q):
        end = S - Q + i + 1
        q = torch.einsum("bhn,hnc->bhc", q_nope[:, :, i], w_uk)
        scores = q @ latent[:, :end].mT + q_rope[:, :, i] @ k_rope[:, :end].mT
        weights = (scores / (q_nope.shape[-1] + q_rope.shape[-1]) ** 0.5).softmax(-1)
        outs.append(torch.einsum("bhc,hvc->bhv", weights @ latent[:, :end], w_uv))
    return torch.stack(outs, 2)


alternative("level11.mla.compress", "two_products", program=_two_products)
alternative("level11.mla.compress", "token_by_token", program=_token_by_token)
alternative("level11.mla.attend_naive", "joined", program=_joined)
alternative("level11.mla.attend_naive", "head_by_head", program=_head_by_head)
alternative("level11.mla.attend_naive", "one_matrix", program=_one_matrix)
alternative("level11.mla.attend_absorbed", "einsum", program=_einsum)
alternative("level11.mla.attend_absorbed", "multi_query", program=_multi_query)
alternative("level11.mla.attend_absorbed", "row_by_row", program=_row_by_row)
alternative("level11.mla.attend_absorbed", "query_by_query", program=_query_by_query)
