"""Given: whole models of four families, run on your katas. Weights have the names of transformers 5.

Nothing here is graded. What is Llama's is level 00's; each function shows what its family does otherwise.
Letters in the shapes: B batch, S sequence, H query heads, d is d_model.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu

from dojo.models import Config
from level00 import layers
from level00.layers import rms_norm, rope_tables
from level00.transformer import self_attention, swiglu, unembed

from .hybrid import HybridCache, layer_is_global
from .moe import moe_forward, route

Params = Mapping[str, Tensor]


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    """Float32 weights of these names and shapes, in their order. numpy promises that this generator never changes."""
    generator = np.random.RandomState(seed)

    def draw(name: str, shape: tuple[int, ...]) -> Tensor:
        values = torch.from_numpy(generator.standard_normal(shape)).float()
        if len(shape) == 1:
            return 1 + 0.1 * values if name.endswith(("norm.weight", "norm_f.weight", ".D")) else 0.5 * values
        return values if "embed" in name else values * shape[-1] ** -0.5

    return {name: draw(name, tuple(shape)) for name, shape in shapes.items()}


def linear(x: Tensor, weight) -> Tensor:
    """Level 00's `linear`, for weights that may be a pair (matrix, norm): then each head is normalized, eps 1e-6.

    Qwen3 and Gemma 3 normalize queries and keys before they are rotated. The seam of level 00 has room for that.
    """
    if isinstance(weight, Tensor):
        return layers.linear(x, weight)
    matrix, norm = weight
    heads = layers.linear(x, matrix).unflatten(-1, (-1, len(norm)))
    return rms_norm(heads, norm, 1e-6).flatten(-2)


def with_head_norms(params: Params) -> dict:
    """`params` in which q_proj and k_proj are pairs with q_norm and k_norm, where there are such norms."""
    pairs = {}
    for name in params:
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            matrix = name.replace("_norm", "_proj")
            pairs[matrix] = params[matrix], params[name]
    return {**params, **pairs}


def experts_of(params: Params, prefix: str) -> list[Callable[[Tensor], Tensor]]:
    """The experts of one layer as functions, from (E, 2 d_ff, d) and (E, d, d_ff), gate and up as one."""
    gate_up, down = params[prefix + "experts.gate_up_proj"], params[prefix + "experts.down_proj"]
    return [
        partial(swiglu, w_gate=gate, w_up=up, w_down=w_down)
        for (gate, up), w_down in zip(gate_up.unflatten(1, (2, -1)), down)
    ]


def sparse_decoder(
    params: Params, config: Config, token_ids: Tensor, cache=None, *, k: int, renormalize: bool
) -> Tensor:
    """Logits (B, S, vocab) of Mixtral and Qwen3-MoE: Llama with experts in place of the MLP; `cache` as in level 00."""
    params = with_head_norms(params)
    start = 0 if cache is None else cache.length
    cos, sin = rope_tables(torch.arange(start, start + token_ids.shape[1]), config.head_dim, config.rope_theta)
    x = params["model.embed_tokens.weight"][token_ids]
    for layer in range(config.n_layers):
        p = f"model.layers.{layer}."
        normed = rms_norm(x, params[p + "input_layernorm.weight"], config.norm_eps)
        x = x + self_attention(normed, params, config, layer, cos, sin, "causal", cache, linear=linear)
        normed = rms_norm(x, params[p + "post_attention_layernorm.weight"], config.norm_eps)
        tokens = normed.flatten(0, 1)  # (B * S, d): to a router every token stands alone
        chosen = route(linear(tokens, params[p + "mlp.gate.weight"]), k, renormalize)
        x = x + moe_forward(tokens, *chosen, experts_of(params, p + "mlp.")).view_as(x)
    return unembed(params, config, rms_norm(x, params["model.norm.weight"], config.norm_eps))


def gemma3(
    params: Params,
    config: Config,
    token_ids: Tensor,
    cache: HybridCache,
    *,
    period: int,
    local_theta: float,
) -> Tensor:
    """Logits (B, S, vocab) of Gemma 3, behind a HybridCache: windows and another RoPE base in the local layers.

    Norms before and after each half, all by 1 + weight; a GELU in the MLP; the embedding is scaled by sqrt(d).
    """
    norms = {name: 1 + weight for name, weight in params.items() if name.endswith("norm.weight")}
    params = with_head_norms({**params, **norms})
    positions = torch.arange(cache.length, cache.length + token_ids.shape[1])
    tables = [rope_tables(positions, config.head_dim, theta) for theta in (local_theta, config.rope_theta)]
    x = params["model.embed_tokens.weight"][token_ids] * config.d_model**0.5
    for layer, sees_all in enumerate(layer_is_global(config.n_layers, period)):
        p = f"model.layers.{layer}."

        def norm(x: Tensor, name: str, p: str = p) -> Tensor:
            return rms_norm(x, params[f"{p}{name}_layernorm.weight"], config.norm_eps)

        mask = cache.mask_for(layer, len(positions))
        normed = norm(x, "input")
        mixed = self_attention(normed, params, config, layer, *tables[sees_all], mask, cache, linear=linear)
        x = x + norm(mixed, "post_attention")
        normed = norm(x, "pre_feedforward")
        gate, up, down = (params[f"{p}mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        mlp = linear(gelu(linear(normed, gate), approximate="tanh") * linear(normed, up), down)
        x = x + norm(mlp, "post_feedforward")
    return unembed(params, config, rms_norm(x, params["model.norm.weight"], config.norm_eps))
