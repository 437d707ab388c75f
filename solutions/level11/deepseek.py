"""Given: DeepSeek-V3's layers, run on your katas. Weights have the names of transformers 5.

Its published weights ask for a little more: rows that are rotated pair neighbours and have to be permuted once, as
SmolLM2's are; experts come in groups, of which a token uses some; RoPE is stretched (YaRN), which changes the scale.
Letters in the shapes: B batch, S sequence, H heads, d is d_model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from level00.layers import apply_rope, linear, rms_norm, rope_tables
from level00.transformer import merge_heads, split_heads, swiglu

from .families import experts_of
from .mla import attend_absorbed, compress
from .moe import moe_forward, route_sigmoid

Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class LatentConfig:
    """The shape of a DeepSeek-V3: the first n_dense layers have an MLP, the others experts."""

    n_layers: int
    n_dense: int
    n_heads: int
    d_latent: int
    d_rope: int
    d_nope: int
    d_v: int
    k: int
    scale: float
    rope_theta: float = 10000.0
    norm_eps: float = 1e-6


class LatentCache:
    """Latents and rotated keys of up to max_cached_tokens tokens, side by side in one buffer."""

    def __init__(self, config: LatentConfig, batch: int, max_cached_tokens: int, dtype: torch.dtype = torch.float32):
        width = config.d_latent + config.d_rope
        self.kept = torch.empty(config.n_layers, batch, max_cached_tokens, width, dtype=dtype)
        self.counts, self.d_latent = [0] * config.n_layers, config.d_latent

    def update(self, layer: int, latent: Tensor, k_rope: Tensor) -> tuple[Tensor, Tensor]:
        """Keep those of the new tokens, (B, n, d_latent) and (B, n, d_rope); return those of all tokens, as views."""
        start, end = self.counts[layer], self.counts[layer] + latent.shape[1]
        if end > self.kept.shape[2]:
            raise ValueError(f"{end} tokens do not fit into a cache of {self.kept.shape[2]}: make a larger one")
        self.kept[layer, :, start:end] = torch.cat([latent, k_rope], -1)
        self.counts[layer] = end
        all_kept = self.kept[layer, :, :end]
        return all_kept[..., : self.d_latent], all_kept[..., self.d_latent :]

    @property
    def length(self) -> int:
        return self.counts[-1]

    @property
    def nbytes(self) -> int:
        return self.kept.nbytes

    def truncate(self, n: int) -> None:
        if not 0 <= n <= self.length:
            raise ValueError(f"the cache holds {self.length} tokens, so it can be cut to 0..{self.length}, not {n}")
        self.counts = [n] * len(self.counts)


def latent_attention(
    x: Tensor, params: Params, config: LatentConfig, layer: int, cos: Tensor, sin: Tensor, cache, attend: Callable
) -> Tensor:
    """What the attention of `layer` adds to the stream; x (B, S, d), normalized. Queries are compressed, too."""
    p = f"model.layers.{layer}.self_attn."
    q = rms_norm(linear(x, params[p + "q_a_proj.weight"]), params[p + "q_a_layernorm.weight"], config.norm_eps)
    q = split_heads(linear(q, params[p + "q_b_proj.weight"]), config.d_nope + config.d_rope)
    q_nope, q_rope = q.split([config.d_nope, config.d_rope], -1)
    down, norm = params[p + "kv_a_proj_with_mqa.weight"], params[p + "kv_a_layernorm.weight"]
    latent, k_rope = compress(x, down, norm, config.norm_eps, cos, sin)
    if cache is not None:
        latent, k_rope = cache.update(layer, latent, k_rope)
    up = params[p + "kv_b_proj.weight"].unflatten(0, (config.n_heads, -1))  # (H, d_nope + d_v, d_latent)
    w_uk, w_uv = up.split([config.d_nope, config.d_v], 1)
    mixed = attend(q_nope, apply_rope(q_rope, cos, sin), latent, k_rope, w_uk, w_uv)
    return linear(merge_heads(mixed), params[p + "o_proj.weight"])


def mlp(x: Tensor, params: Params, prefix: str) -> Tensor:
    return swiglu(x, *(params[f"{prefix}{name}_proj.weight"] for name in ("gate", "up", "down")))


def feed_forward(x: Tensor, params: Params, config: LatentConfig, layer: int) -> Tensor:
    """What the second half of `layer` adds, x (B, S, d): an MLP, or the experts of each token and the shared one."""
    p = f"model.layers.{layer}.mlp."
    if layer < config.n_dense:
        return mlp(x, params, p)
    tokens = x.flatten(0, 1)
    logits, bias = linear(tokens, params[p + "gate.weight"]), params[p + "gate.e_score_correction_bias"]
    chosen = route_sigmoid(logits, bias, config.k, config.scale)
    return moe_forward(tokens, *chosen, experts_of(params, p)).view_as(x) + mlp(x, params, p + "shared_experts.")


def deepseek(
    params: Params, config: LatentConfig, token_ids: Tensor, cache=None, *, attend: Callable = attend_absorbed
) -> Tensor:
    """Logits (B, S, vocab) of token_ids (B, S), behind a LatentCache or None."""
    start = 0 if cache is None else cache.length
    cos, sin = rope_tables(torch.arange(start, start + token_ids.shape[1]), config.d_rope, config.rope_theta)
    x = params["model.embed_tokens.weight"][token_ids]
    for layer in range(config.n_layers):
        p = f"model.layers.{layer}."
        normed = rms_norm(x, params[p + "input_layernorm.weight"], config.norm_eps)
        x = x + latent_attention(normed, params, config, layer, cos, sin, cache, attend)
        normed = rms_norm(x, params[p + "post_attention_layernorm.weight"], config.norm_eps)
        x = x + feed_forward(normed, params, config, layer)
    return linear(rms_norm(x, params["model.norm.weight"], config.norm_eps), params["lm_head.weight"])
