"""One model's cache made into another's: strip, map, rotate again.

Letters in the shapes: B batch, G KV heads, S tokens, D head_dim; G' and D' are the target's, which may differ.
"""

import torch
from torch import Tensor

from dojo.models import Config

from .align import apply_map
from .cachemap import HeadMaps, LayerMaps, head_columns, to_rows
from .handoff import Layers
from .rerope import move_positions, strip_rope


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

    The result has the dtype of the source, and is rounded to it once, at the end. It is exact where the target's
    content is an affine function of the source's and the map was fitted with lam = 0.
    Example: with identity maps, one theta and old == new, the source comes back.
    ValueError: as many layers, heads or features as the two configs do not have; not one position per token.

    ●●● · about 8 lines · needs level15.cachemap.fit_cache_map
    """
    if len(maps) != target_config.n_layers or len(source) != source_config.n_layers:
        raise ValueError(
            f"{target_config.n_layers} maps and {source_config.n_layers} source layers are needed, "
            f"not {len(maps)} and {len(source)}"
        )
    expected = (source_config.n_kv_heads, source_config.head_dim)
    if any((part.shape[1], part.shape[3]) != expected for pair in source for part in pair):
        raise ValueError(f"the source has {expected[0]} KV heads of {expected[1]}: these are another model's")
    # solution:begin into content space, through the maps, and back into positions
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
