"""One model's cache made into another's: strip, map, rotate again.

Letters in the shapes: B batch, G KV heads, S tokens, D head_dim. `Layers` is a list of (k, v), each (B, G, S, D), with
rotated keys. Source and target may differ in layers, and in KV heads and their size unless the map is head-local.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dojo.models import Config

from .align import Map, apply_map, fit_ridge, rank_source_layers
from .handoff import Layers
from .rerope import move_positions, strip_rope


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

    Keys are mapped without their rotation, so that the map holds at every position; values as they are.
    ValueError: as fit_heads and strip_rope. arXiv 2608.03893.

    ●●● · about 7 lines · needs level15.rerope.move_positions, level15.align.rank_source_layers
    """
    # solution:begin what has to be taken out of the keys first, of both?
    source_keys = [strip_rope(keys, positions, source_config.rope_theta) for keys, _ in source]
    source_values = [values for _, values in source]
    maps = []
    for keys, values in target:
        content = strip_rope(keys, positions, target_config.rope_theta)
        of_keys = fit_heads(source_keys, content, lam, k, head_local)
        maps.append((of_keys, fit_heads(source_values, values, lam, k, head_local)))
    return maps
    # solution:end


def map_heads(sources: list[Tensor], maps: HeadMaps) -> Tensor:
    """Return a target layer's keys (un-rotated) or values (B, G', S, D'), in the dtype of the sources.

    sources  (B, G, S, D) of every source layer; products in float64. The whole prompt goes through a map at once.

    ● · about 6 lines · part of transfer_cache
    """
    batch, n_heads, num_tokens, head_dim = sources[0].shape
    # solution:begin the chosen layers side by side, then a product for each head
    X = torch.cat([to_rows(sources[layer]) for layer in maps.source_layers], 1)
    heads = []
    for head, mapping in enumerate(maps.heads):
        columns = head_columns(len(maps.source_layers), n_heads, head_dim, head) if maps.head_local else slice(None)
        heads.append(apply_map(X[:, columns], mapping).unflatten(0, (batch, num_tokens)))
    return torch.stack(heads, 1).to(sources[0].dtype)
    # solution:end


def transfer_cache(
    maps: list[LayerMaps],
    source: Layers,
    old: Tensor,
    new: Tensor,
    source_config: Config,
    target_config: Config,
) -> Layers:
    """Return the target's cache, made from the source's: keys rotated for the target, values without any rotation.

    maps      one pair for each layer of the target, from fit_cache_map
    source    what the source holds of a prompt: (B, G, S, D), made at the positions `old` (S,)
    new       (S,) where the tokens stand in the target's context
    configs   each with its own rope_theta

    The result has the dtype of the source. It is exact where the target's content is an affine function of the source's
    and the map was fitted with lam = 0.
    Example: with identity maps, one theta and old == new, the source comes back.
    ValueError: as many layers, heads or features as the two configs do not have; not one position per token.

    ●●● · about 8 lines · needs level15.transfer.fit_cache_map
    """
    if len(maps) != target_config.n_layers or len(source) != source_config.n_layers:
        raise ValueError(
            f"{target_config.n_layers} maps and {source_config.n_layers} source layers are needed, "
            f"not {len(maps)} and {len(source)}"
        )
    expected = (source_config.n_kv_heads, source_config.head_dim)
    if any((part.shape[1], part.shape[3]) != expected for pair in source for part in pair):
        raise ValueError(f"the source has {expected[0]} KV heads of {expected[1]}: these are another model's")
    # solution:begin content space and back
    content = [strip_rope(keys.double(), old, source_config.rope_theta) for keys, _ in source]
    values = [values for _, values in source]
    layers = []
    for of_keys, of_values in maps:
        keys = map_heads(content, of_keys)
        # content is what stands at position 0: moving from there is rotating
        keys = move_positions(keys, torch.zeros_like(new), new, target_config.rope_theta)
        layers.append((keys.to(source[0][0].dtype), map_heads(values, of_values)))
    return layers
    # solution:end
