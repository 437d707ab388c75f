"""One model's cache read as another's: from calibration tokens that both have seen to a map for every layer and head.

Letters in the shapes: B batch, G KV heads, S tokens, D head_dim; G' and D' are the target's, which may differ.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dojo.models import Config

from .align import Map, fit_ridge, rank_source_layers
from .handoff import Layers
from .rerope import strip_rope


class HeadMaps(NamedTuple):
    """How one layer's keys, or its values, are made: from which layers of the source, and one map per target head."""

    source_layers: list[int]
    heads: list[Map]
    head_local: bool


LayerMaps = tuple[HeadMaps, HeadMaps]  # of the keys, of the values


def to_rows(x: Tensor) -> Tensor:
    """(B, G, S, D) -> (B * S, G * D): a row per token, columns [head][feature]. Given."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def head_columns(num_source_layers: int, n_kv_heads: int, head_dim: int, head: int) -> list[int]:
    """Return the columns of one KV head, in ascending order, where several layers stand side by side.

    A row is [layer][head][feature]. Example: 2 layers of 3 heads of 2, head 1 -> [2, 3, 8, 9].
    ValueError: no such head.

    ● · about 2 lines · part of fit_cache_map
    """
    if not 0 <= head < n_kv_heads:
        raise ValueError(f"heads are 0..{n_kv_heads - 1}, not {head}")
    # solution:begin where does a layer begin, and where in it the head?
    firsts = [(layer * n_kv_heads + head) * head_dim for layer in range(num_source_layers)]
    return [first + feature for first in firsts for feature in range(head_dim)]
    # solution:end


def fit_heads(sources: list[Tensor], target: Tensor, lam: float, k: int, head_local: bool) -> HeadMaps:
    """Return the maps of one target layer's keys (un-rotated) or values, one for each of its heads.

    sources     (B, G, S, D) of every source layer, target (B, G', S, D') of the target layer: the same tokens
    k           so many source layers are read: those of rank_source_layers on all columns of the target, in that order
    head_local  False: a head's map reads all columns of the k layers; True: those of the source head of its own number

    The columns of the k layers stand side by side, [layer][head][feature]. lam as in fit_ridge.
    ValueError: head_local where the numbers of heads differ; as rank_source_layers and fit_ridge.

    ●● · about 6 lines · part of fit_cache_map
    """
    n_heads, head_dim = sources[0].shape[1], sources[0].shape[3]
    if head_local and n_heads != target.shape[1]:
        raise ValueError(f"head by head, {n_heads} KV heads do not map to {target.shape[1]}: read all heads")
    rows, wanted = [to_rows(x) for x in sources], to_rows(target)
    # solution:begin choose the layers once, then one map for each head
    chosen = rank_source_layers(rows, wanted, lam, k)
    X = torch.cat([rows[layer] for layer in chosen], 1)
    maps = []
    for head, Y in enumerate(wanted.split(target.shape[3], 1)):
        inputs = X[:, head_columns(k, n_heads, head_dim, head)] if head_local else X
        maps.append(fit_ridge(inputs, Y, lam))
    return HeadMaps(chosen, maps, head_local)
    # solution:end


def fit_cache_map(
    source: Layers,
    target: Layers,
    positions: Tensor,
    source_config: Config,
    target_config: Config,
    lam: float = 0.01,
    k: int = 1,
    head_local: bool = False,
) -> list[LayerMaps]:
    """Return the maps of every target layer, from two caches of the same calibration tokens.

    source, target  what both models hold of those tokens, at `positions` (S,); each config has its own rope_theta
    lam, k, head_local  as in fit_heads

    Keys are mapped without their rotation, so that the map holds at every position; values as they are. All of it is
    float64: stripped keys are not rounded to the dtype of the cache.
    ValueError: caches of other layers than the configs have, of different prompts or positions; as fit_heads.
    arXiv 2608.03893.

    ●●● · about 7 lines · needs level15.rerope.move_positions, level15.align.rank_source_layers
    """
    if len(source) != source_config.n_layers or len(target) != target_config.n_layers:
        raise ValueError(f"{len(source)} and {len(target)} layers are not those of the two configs")
    if source[0][0].shape[0:3:2] != target[0][0].shape[0:3:2]:  # (B, S)
        raise ValueError("both caches hold the same tokens of the same prompts, each model its own")
    # solution:begin what has to be taken out of the keys first, of both?
    source_keys = [strip_rope(keys.double(), positions, source_config.rope_theta) for keys, _ in source]
    source_values = [values for _, values in source]
    maps = []
    for keys, values in target:
        content = strip_rope(keys.double(), positions, target_config.rope_theta)
        of_keys = fit_heads(source_keys, content, lam, k, head_local)
        maps.append((of_keys, fit_heads(source_values, values, lam, k, head_local)))
    return maps
    # solution:end
