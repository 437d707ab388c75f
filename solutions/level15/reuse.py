"""Given: one architecture, two sets of weights. The cache of the one is read by the other, and some layers are made
again from the sender's residual stream at the first of them (DroidSpeak, arXiv 2411.02820).

Letters in the shapes: B batch, S tokens of the prompt, d is d_model.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import rope_tables
from level00.transformer import block

from .handoff import Layers

Params = Mapping[str, Tensor]


def variant(params: Params, layers: Sequence[int], rank: int, size: float, seed: int) -> dict[str, Tensor]:
    """`params` with a random change of this rank in q_proj and v_proj of some layers, as a fine-tune by LoRA makes.

    size  norm of the change over the norm of the matrix; the other tensors are shared, none is written to
    """
    draw, changed = torch.Generator().manual_seed(seed), dict(params)
    for layer in layers:
        for name in ("q_proj", "v_proj"):
            key = f"model.layers.{layer}.self_attn.{name}.weight"
            weight = params[key]
            B = torch.randn(weight.shape[0], rank, generator=draw)
            change = B @ torch.randn(rank, weight.shape[1], generator=draw)
            changed[key] = weight + change * (size * weight.norm() / change.norm())
    return changed


class OneLayer:
    """What `block` needs of a cache, for a single layer: it notes the keys and values, and passes them on."""

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.kept = k, v
        return k, v


def run_layers(
    params: Params, config: Config, x: Tensor, first: int, count: int, positions: Tensor
) -> tuple[list[Tensor], Layers]:
    """Run `count` layers from `first` on the stream x (B, S, d): (streams that enter each of them, their caches)."""
    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)
    streams, layers, noted = [], [], OneLayer()
    with torch.no_grad():
        for layer in range(first, first + count):
            streams.append(x)
            x = block(x, params, config, layer, cos, sin, "causal", noted)
            layers.append(noted.kept)
    return streams, layers


def prefill_with_streams(params: Params, config: Config, token_ids: Tensor) -> tuple[list[Tensor], Layers]:
    """The sender's part for token_ids (B, S) from position 0: the stream that enters each layer, and its cache."""
    x = params["model.embed_tokens.weight"][token_ids]
    return run_layers(params, config, x, 0, config.n_layers, torch.arange(token_ids.shape[1]))


def recompute_layers(params: Params, config: Config, sent: Layers, entering: Tensor, first: int, count: int) -> Layers:
    """The sender's cache in which layers first .. first + count - 1 are the receiver's: `params` run on `entering`.

    entering  (B, S, d), the sender's stream before layer `first`: it is sent along, d numbers a token. It is not the
              receiver's own stream, so even these layers are approximate, unless first is 0.
    """
    _, made = run_layers(params, config, entering, first, count, torch.arange(entering.shape[1]))
    return [*sent[:first], *made, *sent[first + count :]]
