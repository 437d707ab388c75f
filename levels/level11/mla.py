"""Multi-head latent attention: one small vector a token is cached, from which every head's key and value are made.

Letters in the shapes: B batch, S tokens so far, H heads, Q queries; d_latent and d_rope are what is cached of a token,
d_nope and d_v the widths of a head's unrotated key and of its value. DeepSeek-V3: 512 and 64, 128 and 128, 128 heads.
"""

import torch
from torch import Tensor

from level00.layers import apply_rope, causal_mask, linear, rms_norm, softmax


def latent_bytes_per_token(n_layers: int, d_latent: int, d_rope: int, bytes_per_element: float) -> float:
    """Return the bytes that are cached of one token, in all layers together.

    Example: DeepSeek-V3, 61 layers, 512 and 64, bfloat16: 70,272.

    ● · about 1 line · part of compress
    """
    # TODO: what is kept, for how many heads, and how often?
    raise NotImplementedError("level11.mla.compress")


def compress(
    x: Tensor, w_down: Tensor, norm_weight: Tensor, eps: float, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor]:
    """Return (latent (B, S, d_latent), k_rope (B, S, d_rope)), all that is cached of the tokens x.

    x            (B, S, d_model), already normalized
    w_down       (d_latent + d_rope, d_model): first the rows that make the latent, then those of the key
    norm_weight  (d_latent,), of an RMSNorm with `eps` that the latent goes through, and the key does not
    cos, sin     tables of the positions of x, (S, d_rope)

    k_rope is rotated and is shared by all heads. The latent is not rotated: keys without a position are made of it.
    Example: x = [[[3, 4, 1, 0]]], w_down the identity, d_latent 2, norm_weight [1, 1], eps 0, position 1, theta 10000:
    latent [[[0.8485, 1.1314]]], k_rope [[[0.5403, 0.8415]]]. DeepSeek-V2, arXiv 2405.04434, section 2.1.

    ●● · about 2 lines · needs level00.layers.rms_norm, level00.layers.apply_rope
    """
    # TODO: one product, two parts: what happens to each?
    raise NotImplementedError("level11.mla.compress")


def attend_naive(q_nope: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, w_uk: Tensor, w_uv: Tensor) -> Tensor:
    """Return (B, H, Q, d_v): causal attention over keys and values that are made of the latents first.

    q_nope  (B, H, Q, d_nope);  q_rope  (B, H, Q, d_rope), already rotated; the queries of the last Q tokens
    latent  (B, S, d_latent);   k_rope  (B, S, d_rope), as compress gives them
    w_uk    (H, d_nope, d_latent), w_uv  (H, d_v, d_latent): head h's key is w_uk[h] latent, its value w_uv[h] latent

    A score is (q_nope · key + q_rope · k_rope) / sqrt(d_nope + d_rope). All tensors have one dtype, in which
    everything is computed.
    Example: all queries 0, w_uv = [[[1]]], latents 1 and 3: two queries give 1 and (1 + 3) / 2 = 2.
    ValueError: Q > S.

    ●● · about 6 lines · needs level00.layers.softmax, level00.layers.causal_mask
    """
    mask = causal_mask(q_nope.shape[2], latent.shape[1])
    # TODO: every head's keys and values, then attention as ever; which width is under the root?
    raise NotImplementedError("level11.mla.attend_naive")


def attend_absorbed(
    q_nope: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, w_uk: Tensor, w_uv: Tensor
) -> Tensor:
    """Return what attend_naive returns, from the latents as they are: no key and no value of a head is ever made.

    Arguments, result and errors as attend_naive. A step reads the cache and w_uk and w_uv once each: no tensor with
    S times H times d_nope, d_v or d_latent elements exists. It pays when Q is small, as in decoding.
    Example: as attend_naive. DeepSeek-V2, arXiv 2405.04434, appendix C.

    ●●● · about 7 lines · needs level11.mla.attend_naive
    """
    mask = causal_mask(q_nope.shape[2], latent.shape[1])
    # TODO: q · (W c) = (Wᵀ q) · c, and the sum of (W c) is W times the sum of c
    raise NotImplementedError("level11.mla.attend_absorbed")
