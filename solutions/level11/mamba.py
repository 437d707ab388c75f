"""Given: Mamba-2, run on your selective_scan. Weights have the names of transformers 5.

Letters in the shapes: B batch, S sequence, H heads of P features, G groups, N features of the state, C channels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import conv1d, silu, softplus

from level00.layers import linear, rms_norm
from level00.transformer import merge_heads, split_heads

from .ssm import selective_scan

Params = Mapping[str, Tensor]


@dataclass(frozen=True)
class MambaConfig:
    """The shape of a Mamba-2."""

    n_layers: int
    n_heads: int
    head_dim: int
    n_groups: int
    d_state: int
    chunk: int
    norm_eps: float = 1e-5


@dataclass
class MambaState:
    """All that is kept of a sequence, of any length: for each layer the convolution's last inputs, and the state."""

    convs: dict[int, Tensor] = field(default_factory=dict)  # layer -> (B, C, width - 1)
    states: dict[int, Tensor] = field(default_factory=dict)  # layer -> (B, H, N, P)

    @property
    def nbytes(self) -> int:
        return sum(kept.nbytes for kept in (*self.convs.values(), *self.states.values()))


def causal_conv(x: Tensor, weight: Tensor, bias: Tensor, last: Tensor | None) -> tuple[Tensor, Tensor]:
    """(each channel of x (B, C, S) convolved with its own `width` weights, the last width - 1 inputs), causally.

    weight  (C, 1, width);  last  (B, C, width - 1), the inputs before x, or None: zeros
    """
    if last is None:
        last = x.new_zeros(*x.shape[:2], weight.shape[-1] - 1)
    joined = torch.cat([last, x], -1)
    return conv1d(joined, weight, bias, groups=x.shape[1]), joined[..., x.shape[-1] :]


def mixer(x: Tensor, params: Params, config: MambaConfig, layer: int, state: MambaState) -> Tensor:
    """What `layer` adds to the stream; x (B, S, d_model), already normalized. `state` moves on."""
    p = f"backbone.layers.{layer}.mixer."
    inner, of_groups = config.n_heads * config.head_dim, config.n_groups * config.d_state
    sizes = [inner, inner + 2 * of_groups, config.n_heads]
    gate, mixed, dt = linear(x, params[p + "in_proj.weight"]).split(sizes, -1)
    weight, bias = params[p + "conv1d.weight"], params[p + "conv1d.bias"]
    mixed, state.convs[layer] = causal_conv(mixed.mT, weight, bias, state.convs.get(layer))
    values, b, c = silu(mixed.mT).split([inner, of_groups, of_groups], -1)
    y, state.states[layer] = selective_scan(
        split_heads(values, config.head_dim),
        softplus(dt + params[p + "dt_bias"]).mT,  # (B, H, S)
        -params[p + "A_log"].exp(),
        split_heads(b, config.d_state),
        split_heads(c, config.d_state),
        params[p + "D"],
        config.chunk,
        state.states.get(layer),
    )
    gated = (merge_heads(y) * silu(gate)).unflatten(-1, (config.n_groups, -1))
    normed = rms_norm(gated, torch.ones(gated.shape[-1]), config.norm_eps).flatten(-2)  # each group by itself
    return linear(normed * params[p + "norm.weight"], params[p + "out_proj.weight"])


def mamba2(params: Params, config: MambaConfig, token_ids: Tensor, state: MambaState | None = None) -> Tensor:
    """Logits (B, S, vocab) of token_ids (B, S), which go on from `state`."""
    state = MambaState() if state is None else state
    x = params["backbone.embeddings.weight"][token_ids]
    for layer in range(config.n_layers):
        normed = rms_norm(x, params[f"backbone.layers.{layer}.norm.weight"], config.norm_eps)
        x = x + mixer(normed, params, config, layer, state)
    return linear(rms_norm(x, params["backbone.norm_f.weight"], config.norm_eps), params["lm_head.weight"])
