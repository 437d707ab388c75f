"""Fewer KV heads: from multi-head attention to grouped queries, and back."""

from torch import Tensor


def pool_kv_heads(w: Tensor, head_dim: int, n_kv_heads: int) -> Tensor:
    """Return the projection of n_kv_heads KV heads, each the mean of the heads that will share it.

    w  (n_heads · head_dim, d_model), k_proj or v_proj of a model with a KV head for every query head; the result is
       (n_kv_heads · head_dim, d_model), in its dtype

    Query head h will read KV head h // (n_heads / n_kv_heads), so neighbours are pooled.
    Example: head_dim 1, rows 1, 3, 5, 9, 2 KV heads -> rows 2, 7. ValueError: n_heads is not a multiple of n_kv_heads.
    GQA, arXiv 2305.13245.

    ● · about 2 lines
    """
    if w.shape[0] % head_dim or (w.shape[0] // head_dim) % n_kv_heads:
        raise ValueError(f"{w.shape[0]} rows are no multiple of {n_kv_heads} heads of {head_dim}")
    # TODO: (KV heads, heads that share one, rows of a head, d_model)
    raise NotImplementedError("level06.gqa.pool_kv_heads")


def expand_kv_heads(w: Tensor, head_dim: int, n_heads: int) -> Tensor:
    """Return the projection with a KV head for every one of n_heads query heads; the model computes what it did before.

    w  (n_kv_heads · head_dim, d_model); the result is (n_heads · head_dim, d_model), in its dtype

    Query head h reads KV head h // (n_heads / n_kv_heads).
    Example: head_dim 1, rows 1, 2, 4 heads -> rows 1, 1, 2, 2. ValueError: n_heads is not a multiple of n_kv_heads.

    ● · about 2 lines · part of pool_kv_heads
    """
    if w.shape[0] % head_dim or n_heads % (w.shape[0] // head_dim):
        raise ValueError(f"{n_heads} heads are no multiple of {w.shape[0]} rows in heads of {head_dim}")
    # TODO: each head as often as query heads share it, one beside the other
    raise NotImplementedError("level06.gqa.pool_kv_heads")
