"""Right programs, written another way, for level15.cachemap. `alternative` is given when this is read."""

import torch

ID = "level15.cachemap.fit_cache_map"


def _viewed(num_source_layers, n_kv_heads, head_dim, head):
    """A table of all columns, cut at the head."""
    if head < 0 or head >= n_kv_heads:
        raise ValueError("head")
    table = torch.arange(num_source_layers * n_kv_heads * head_dim).view(num_source_layers, n_kv_heads, head_dim)
    return table[:, head].reshape(-1).tolist()


def _asked(num_source_layers, n_kv_heads, head_dim, head):
    """Each column says whose it is."""
    if head not in range(n_kv_heads):
        raise ValueError("head")
    width = num_source_layers * n_kv_heads * head_dim
    return [column for column in range(width) if column // head_dim % n_kv_heads == head]


def _stacked(sources, target, lam, k, head_local):
    """The layers stay an axis of their own; a head is cut out before they are joined."""
    from level15.align import fit_ridge, rank_source_layers
    from level15.cachemap import HeadMaps

    if head_local and sources[0].shape[1] != target.shape[1]:
        raise ValueError("heads")
    wide = torch.stack([x.double() for x in sources]).permute(0, 1, 3, 2, 4).flatten(1, 2)  # layer, row, head, feature
    wanted = target.double().permute(0, 2, 1, 3).flatten(0, 1)
    chosen = rank_source_layers(list(wide.flatten(2)), wanted.flatten(1), lam, k)
    read = wide[chosen]
    maps = []
    for head in range(target.shape[1]):
        inputs = read[:, :, head : head + 1] if head_local else read
        maps.append(fit_ridge(inputs.transpose(0, 1).flatten(1), wanted[:, head], lam))
    return HeadMaps(chosen, maps, head_local)


def _fitted_once(sources, target, lam, k, head_local):
    """Without head_local one fit serves all heads: its columns are theirs, side by side."""
    from level15.align import fit_ridge, rank_source_layers
    from level15.cachemap import HeadMaps, head_columns, to_rows

    batch, heads, _, width = target.shape
    if head_local and sources[0].shape[1] != heads:
        raise ValueError("heads")
    rows, wanted = [to_rows(x) for x in sources], to_rows(target)
    chosen = rank_source_layers(rows, wanted, lam, k)
    X = torch.hstack([rows[layer] for layer in chosen])
    if not head_local:
        W, b = fit_ridge(X, wanted, lam)
        return HeadMaps(chosen, list(zip(W.split(width, 1), b.split(width))), False)
    maps = []
    for head in range(heads):
        columns = head_columns(k, heads, sources[0].shape[3], head)
        maps.append(fit_ridge(X[:, columns], wanted[:, head * width : head * width + width], lam))
    return HeadMaps(chosen, maps, True)


def _moved_to_zero(source, target, positions, source_config, target_config, lam=0.01, k=1, head_local=False):
    """Content is what stands at position 0; keys first, then values."""
    from level15.cachemap import fit_heads
    from level15.rerope import move_positions

    if (len(source), len(target)) != (source_config.n_layers, target_config.n_layers):
        raise ValueError("layers")
    for ours, theirs in zip((0, 2), (0, 2)):
        if source[0][0].shape[ours] != target[0][0].shape[theirs]:
            raise ValueError("tokens")
    start = torch.zeros_like(positions)

    def contents(layers, theta):
        return [move_positions(keys.double(), positions, start, theta) for keys, _ in layers]

    wanted, read = contents(target, target_config.rope_theta), contents(source, source_config.rope_theta)
    of_keys = [fit_heads(read, content, lam, k, head_local) for content in wanted]
    held = [values.double() for _, values in source]
    of_values = [fit_heads(held, values.double(), lam, k, head_local) for _, values in target]
    return list(zip(of_keys, of_values))


alternative(ID, "a_table_of_columns", program=_viewed, part="head_columns")
alternative(ID, "each_column_asked", program=_asked, part="head_columns")
alternative(ID, "layers_as_an_axis", program=_stacked, part="fit_heads")
alternative(ID, "one_fit_for_all_heads", program=_fitted_once, part="fit_heads")
alternative(ID, "moved_to_zero", program=_moved_to_zero)
