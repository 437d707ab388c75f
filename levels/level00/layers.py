"""The parts of a transformer block, as plain functions of tensors.

Letters in the shapes: B batch, H query heads, G KV heads, Q query length, K key length, D head_dim.
"""

import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Return exp(x) / sum(exp(x)) along `dim`: positive weights that sum to 1.

    x   (...) float; the result has its shape and dtype

    Finite for any finite x: softmax([1000, 1000]) is [0.5, 0.5]. An entry of -inf gets exactly 0. A slice that is
    -inf throughout gives zeros, not NaN: a query that may attend to nothing takes nothing (as torch's SDPA does).
    Computed in x's precision or better.
    Example: [0, ln 3] -> [0.25, 0.75].

    ● · about 5 lines
    """
    # TODO: what may be subtracted from every entry without changing the result?
    raise NotImplementedError("level00.layers.softmax")


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(mean(x²) + eps) · weight, taken over the last axis.

    x       (..., d) float; the result has its shape and dtype
    weight  (d,)

    Squares, mean and product are computed in float32 and cast to x's dtype at the end (300² overflows float16).
    Example: x = [3, 4], weight = [2, 0.5], eps = 0 -> [1.697, 0.566]; the mean square is 12.5.
    ValueError: weight is not (d,). RMSNorm, arXiv 1910.07467.

    ● · about 3 lines
    """
    if weight.shape != x.shape[-1:]:
        raise ValueError(f"weight needs one entry per feature, {tuple(x.shape[-1:])}, not {tuple(weight.shape)}")
    # TODO: first to float32
    raise NotImplementedError("level00.layers.rms_norm")


def rope_tables(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return (cos, sin) of the angle by which each feature turns at each position.

    positions  (..., seq) int
    cos, sin   (..., seq, head_dim) float32

    Plane i of head_dim / 2 turns by position · theta^(-2i / head_dim). Half-split layout: feature i is paired with
    feature i + head_dim / 2, so the angles along the last axis are a_0, a_1, …, a_0, a_1, … Angles are computed
    in float32 or better: bfloat16 cannot tell position 257 from 256.
    Example: positions [1], head_dim 4, theta 10000: angles [1, 0.01, 1, 0.01], cos [[0.5403, 1.0, 0.5403, 1.0]].
    ValueError: odd head_dim. RoPE, arXiv 2104.09864 (which pairs neighbours; Llama's weights are stored half-split).

    ●● · about 5 lines
    """
    if head_dim % 2:
        raise ValueError(f"RoPE turns pairs of features, so head_dim is even, not {head_dim}")
    # TODO: one frequency per plane, one angle per position and plane, then both halves
    raise NotImplementedError("level00.layers.rope_tables")


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return `x` with each pair of features (i, i + head_dim / 2) turned by its angle.

    x         (..., seq, head_dim) float; the result has its shape and dtype
    cos, sin  tables of `rope_tables`, broadcast against x

    The turn is by plus the angle: (a, b) -> (a cos - b sin, b cos + a sin). It keeps the length of the vector.
    Example: x = [1, 0, 0, 0] at position 2, theta 100 -> [-0.4161, 0, 0.9093, 0].

    ●● · about 3 lines · needs level00.layers.rope_tables
    """
    # TODO: what does each half receive from the other?
    raise NotImplementedError("level00.layers.apply_rope")


def causal_mask(q_len: int, kv_len: int) -> Tensor:
    """Return the boolean mask (q_len, kv_len) in which True means "this query may attend to this key".

    The queries are the last q_len of the kv_len positions (with a KV cache the keys of earlier tokens come first);
    each may attend to itself and to everything before it.
    Example: causal_mask(2, 4) -> [[True, True, True, False], [True, True, True, True]].
    ValueError: q_len > kv_len.

    ● · about 3 lines
    """
    if q_len > kv_len:
        raise ValueError(f"every query has a key of its own, so q_len = {q_len} cannot exceed kv_len = {kv_len}")
    # TODO: at which positions do the queries stand?
    raise NotImplementedError("level00.layers.causal_mask")


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | str) -> Tensor:
    """Return softmax(q kᵀ / sqrt(head_dim)) v for every query head: a soft look-up of v by k.

    q     (B, H, Q, D) float; the result has its shape and dtype
    k, v  (B, G, K, D); query head h reads KV head h // (H / G)
    mask  bool, broadcastable to (B, H, Q, K), True = may attend; or "causal": causal_mask(Q, K)

    Scores and softmax in float32. A query that may attend to nothing gives zeros. Tensors need not be contiguous.
    Example: q = [1, 0], k = v = [[1, 0], [0, 1]], all visible: weights 0.6698 and 0.3302, so [0.6698, 0.3302].
    ValueError: H is not a multiple of G. Arrangement of heads: GQA, arXiv 2305.13245.

    ●●● · about 6 lines · needs level00.layers.softmax, level00.layers.causal_mask
    """
    B, H, Q, D = q.shape
    G, K = k.shape[1:3]
    if H % G:
        raise ValueError(f"the {H} query heads must be a multiple of the {G} KV heads")
    if isinstance(mask, str):
        mask = causal_mask(Q, K).to(q.device)
    # TODO: scores, mask, softmax, weighted sum; which query heads share a KV head?
    raise NotImplementedError("level00.layers.attention")


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x (..., in_features) times weight (out_features, in_features): (..., out_features).

    Every matrix of the model is read here, and nowhere else: later levels pass another `linear` to count, quantize
    or shard the weights.
    """
    return x @ weight.T
