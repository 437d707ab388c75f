"""Right programs, written another way, for level06.gqa. `alternative` is given when this is read."""

import numpy as np
import torch


def _checked(w, head_dim, n_kv_heads):
    if len(w) % head_dim or len(w) // head_dim % n_kv_heads:
        raise ValueError("heads")
    return len(w) // head_dim // n_kv_heads


def _pool_by_loops(w, head_dim, n_kv_heads):
    group = _checked(w, head_dim, n_kv_heads)
    pooled = []
    for g in range(n_kv_heads):
        first = g * group * head_dim
        heads = [w[first + i * head_dim : first + (i + 1) * head_dim].double() for i in range(group)]
        pooled.append(sum(heads) / group)
    return torch.cat(pooled).to(w.dtype)


def _pool_by_a_product(w, head_dim, n_kv_heads):
    """A matrix (n_kv_heads, n_heads) that takes the mean, for each feature."""
    group = _checked(w, head_dim, n_kv_heads)
    mean = torch.eye(n_kv_heads).repeat_interleave(group, 1) / group
    return torch.einsum("gh,hdm->gdm", mean, w.float().reshape(-1, head_dim, w.shape[1])).flatten(0, 1).to(w.dtype)


def _pool_by_adding_rows(w, head_dim, n_kv_heads):
    group = _checked(w, head_dim, n_kv_heads)
    row = torch.arange(len(w))
    target = row // (head_dim * group) * head_dim + row % head_dim
    pooled = torch.zeros(n_kv_heads * head_dim, w.shape[1], dtype=torch.float64)
    return (pooled.index_add_(0, target, w.double()) / group).to(w.dtype)


def _pool_by_numpy(w, head_dim, n_kv_heads):
    group = _checked(w, head_dim, n_kv_heads)
    heads = w.double().numpy().reshape(n_kv_heads, group, head_dim, -1)
    return torch.from_numpy(np.average(heads, axis=1).reshape(n_kv_heads * head_dim, -1)).to(w.dtype)


def _pool_by_strides(w, head_dim, n_kv_heads):
    """The i-th head of every group, for each i; a slice with a step in the axis of heads."""
    group = _checked(w, head_dim, n_kv_heads)
    heads = w.float().reshape(-1, head_dim, w.shape[1])
    return torch.stack([heads[i::group] for i in range(group)]).mean(0).reshape(-1, w.shape[1]).to(w.dtype)


for program in (_pool_by_loops, _pool_by_a_product, _pool_by_adding_rows, _pool_by_numpy, _pool_by_strides):
    alternative("level06.gqa.pool_kv_heads", program.__name__[1:], program=program)


def _readers(w, head_dim, n_heads):
    if len(w) % head_dim or n_heads % (len(w) // head_dim):
        raise ValueError("heads")
    return n_heads // (len(w) // head_dim)


def _expand_by_cat(w, head_dim, n_heads):
    readers = _readers(w, head_dim, n_heads)
    return torch.cat([head for head in w.split(head_dim) for _ in range(readers)])


def _expand_by_index(w, head_dim, n_heads):
    readers = _readers(w, head_dim, n_heads)
    row = torch.arange(n_heads * head_dim)
    return w[row // head_dim // readers * head_dim + row % head_dim]


def _expand_as_a_view(w, head_dim, n_heads):
    """As repeat_kv of transformers does: an axis of length 1 is stretched and flattened."""
    readers = _readers(w, head_dim, n_heads)
    heads = w.reshape(-1, 1, head_dim, w.shape[1])
    return heads.expand(-1, readers, -1, -1).reshape(n_heads * head_dim, w.shape[1])


def _expand_or_nothing(w, head_dim, n_heads):
    """With a KV head for every query head there is nothing to do."""
    readers = _readers(w, head_dim, n_heads)
    return w if readers == 1 else w.unflatten(0, (-1, head_dim)).tile(1, readers, 1).flatten(0, 1)


for program in (_expand_by_cat, _expand_by_index, _expand_as_a_view, _expand_or_nothing):
    alternative("level06.gqa.pool_kv_heads", program.__name__[1:], program=program, part="expand_kv_heads")
