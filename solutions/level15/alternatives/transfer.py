"""Right programs, written another way, for level15.transfer. `alternative` is given when this is read."""

import torch

ID = "level15.transfer.transfer_cache"


def _einsum(sources, maps):
    """The weights are cut into layers, heads and features; no row is made."""
    n_heads, head_dim = sources[0].shape[1], sources[0].shape[3]
    read = torch.stack([sources[layer].double() for layer in maps.source_layers])  # layer, prompt, head, token, feature
    made = []
    for head, (W, b) in enumerate(maps.heads):
        if maps.head_local:
            weights = W.unflatten(0, (len(read), head_dim))
            made.append(torch.einsum("lbsd,ldo->bso", read[:, :, head], weights) + b)
        else:
            weights = W.unflatten(0, (len(read), n_heads, head_dim))
            made.append(torch.einsum("lbgsd,lgdo->bso", read, weights) + b)
    return torch.stack(made, 1).to(sources[0].dtype)


def _one_matrix(sources, maps):
    """All heads at once: the weights of a head-local map are put where its columns are."""
    from level15.cachemap import head_columns, to_rows

    batch, n_heads, num_tokens, head_dim = sources[0].shape
    X = torch.cat([to_rows(sources[layer].double()) for layer in maps.source_layers], 1)
    matrices = []
    for head, (W, _) in enumerate(maps.heads):
        full = W
        if maps.head_local:
            full = torch.zeros(X.shape[1], W.shape[1], dtype=torch.float64)
            full[head_columns(len(maps.source_layers), n_heads, head_dim, head)] = W
        matrices.append(full)
    out = X @ torch.cat(matrices, 1) + torch.cat([b for _, b in maps.heads])
    out = (
        out.view(batch, num_tokens, len(maps.heads), -1)
        if num_tokens
        else out.new_empty(batch, 0, len(maps.heads), maps.heads[0][1].shape[0])
    )
    return out.transpose(1, 2).to(sources[0].dtype)


def _guard(maps, source, source_config, target_config):
    if len(maps) != target_config.n_layers or len(source) != source_config.n_layers:
        raise ValueError("layers")
    for keys, values in source:
        for part in (keys, values):
            if (part.shape[1], part.shape[3]) != (source_config.n_kv_heads, source_config.head_dim):
                raise ValueError("heads")


def _rotated_with_tables(maps, source, old, new, source_config, target_config):
    """Level 00's own rotation puts the new positions in; values first, then keys."""
    from level00.layers import apply_rope, rope_tables
    from level15.rerope import strip_rope
    from level15.transfer import map_heads

    _guard(maps, source, source_config, target_config)
    if len(old) != len(new):
        raise ValueError("positions")
    made_values = [map_heads([v for _, v in source], of_values) for _, of_values in maps]
    content = [strip_rope(k.double(), old, source_config.rope_theta) for k, _ in source]
    cos, sin = rope_tables(new, target_config.head_dim, target_config.rope_theta)
    made_keys = [apply_rope(map_heads(content, of_keys), cos.double(), sin.double()) for of_keys, _ in maps]
    return [(k.to(source[0][0].dtype), v) for k, v in zip(made_keys, made_values)]


def _moved_to_zero(maps, source, old, new, source_config, target_config):
    """Only layers that a map reads are stripped, and each when it is first read."""
    from level15.rerope import move_positions, strip_rope
    from level15.transfer import map_heads

    _guard(maps, source, source_config, target_config)
    if old.shape != new.shape:
        raise ValueError("positions")
    dtype, start, stripped, out = source[0][0].dtype, torch.zeros_like(old), {}, []
    for of_keys, of_values in maps:
        for layer in of_keys.source_layers:
            if layer not in stripped:
                stripped[layer] = move_positions(source[layer][0].double(), old, start, source_config.rope_theta)
        read = [stripped.get(layer, next(iter(stripped.values()))) for layer in range(len(source))]
        keys = strip_rope(map_heads(read, of_keys), -new, target_config.rope_theta)
        out.append((keys.to(dtype), map_heads([pair[1] for pair in source], of_values)))
    return out


alternative(ID, "einsum", program=_einsum, part="map_heads")
alternative(ID, "one_matrix", program=_one_matrix, part="map_heads")
alternative(ID, "rotated_with_tables", program=_rotated_with_tables)
alternative(ID, "stripped_when_read", program=_moved_to_zero)
