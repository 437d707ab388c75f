"""What no step changes is computed once: the layers below the first adapter. Given.

states = prefix_states(params, config, first, ids, positions=positions, mask=mask)
upper, upper_config = upper_layers(params, config, first)
forward(on_states(upper, states), upper_config, ids, positions=positions, mask=mask) is forward(params, config, ids, …)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import rope_tables
from level00.transformer import Params, block

EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class Known:
    """In the place of an embedding: whatever tokens are looked up, these hidden states come out."""

    states: Tensor

    def __getitem__(self, token_ids: Tensor) -> Tensor:
        return self.states


@torch.no_grad()
def prefix_states(
    params: Params, config: Config, first: int, ids: Tensor, *, positions: Tensor, mask: Tensor | str = "causal"
) -> Tensor:
    """The residual stream before layer `first`, (B, S, d_model), for positions (S,)."""
    x = params[EMBEDDING][ids]
    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)
    for layer in range(first):
        x = block(x, params, config, layer, cos, sin, mask)
    return x


def upper_layers(params: Params, config: Config, first: int) -> tuple[dict, Config]:
    """A model of the layers from `first` on, numbered from 0, with the final norm and the head."""
    upper = {"model.norm.weight": params["model.norm.weight"]}
    upper["lm_head.weight"] = params.get("lm_head.weight", params[EMBEDDING])
    for name, weight in params.items():
        number, _, rest = name.removeprefix("model.layers.").partition(".")
        if number.isdigit() and int(number) >= first:
            upper[f"model.layers.{int(number) - first}.{rest}"] = weight
    return upper, replace(config, n_layers=config.n_layers - first)


def on_states(upper: Params, states: Tensor) -> dict:
    """Params of upper_layers that start from these states."""
    return {**upper, EMBEDDING: Known(states)}
