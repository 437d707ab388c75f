"""Known-wrong programs of level15.transfer. `ghost` is given when this is read."""


def _ghost(name, sentence, *change, **how):
    ghost("level15.transfer.transfer_cache", name, sentence, change=change, **how)


# ---- map_heads

JOINED = "X = torch.cat([to_rows(sources[layer]) for layer in maps.source_layers], 1)"
COLUMNS = "columns = head_columns(len(maps.source_layers), n_heads, head_dim, head) if maps.head_local else slice(None)"
MAPPED = "heads.append(apply_map(X[:, columns], mapping).unflatten(0, (batch, num_tokens)))"
STACKED = "return torch.stack(heads, 1).to(sources[0].dtype)"
_ghost(
    "layers_in_ascending_order",
    "The layers stand side by side in the map's order: yours sorts them by number.",
    (JOINED, "X = torch.cat([to_rows(sources[layer]) for layer in sorted(maps.source_layers)], 1)"),
)
_ghost(
    "first_layers",
    "The map says which source layers it reads: yours takes the first ones.",
    (JOINED, "X = torch.cat([to_rows(sources[layer]) for layer in range(len(maps.source_layers))], 1)"),
)
_ghost(
    "feature_before_head",
    "A token's row is [head][feature]: transpose heads and tokens before you flatten, and nothing else.",
    (
        JOINED,
        "X = torch.cat([sources[layer].permute(0, 2, 3, 1).flatten(2).flatten(0, 1) for layer in maps.source_layers], 1)",
    ),
)
_ghost(
    "rows_without_transpose",
    "A row is one token with all of its heads: flattening (B, G, S, D) as it lies mixes tokens and heads.",
    (
        JOINED,
        "X = torch.cat([sources[layer].reshape(batch * num_tokens, -1) for layer in maps.source_layers], 1)",
    ),
)
_ghost(
    "tokens_before_prompts",
    "Rows go prompt by prompt, and token by token within it: yours takes them back the other way round.",
    (MAPPED, "heads.append(apply_map(X[:, columns], mapping).unflatten(0, (num_tokens, batch)).transpose(0, 1))"),
)
_ghost(
    "first_head_for_all",
    "With head_local each head reads the source head of its own number: yours always reads the first.",
    (
        COLUMNS,
        "columns = head_columns(len(maps.source_layers), n_heads, head_dim, 0) if maps.head_local else slice(None)",
    ),
)
_ghost(
    "next_head",
    "Heads correspond by number: yours reads the next one.",
    (
        COLUMNS,
        "columns = slice(None)\n        if maps.head_local:\n"
        "            columns = head_columns(len(maps.source_layers), n_heads, head_dim, (head + 1) % n_heads)",
    ),
)
_ghost(
    "one_map_for_all_heads",
    "Each target head has its own map: yours uses the first head's for all.",
    (MAPPED, "heads.append(apply_map(X[:, columns], maps.heads[0]).unflatten(0, (batch, num_tokens)))"),
)
_ghost(
    "no_intercept",
    "The map is affine: add its intercept to each token.",
    (MAPPED, "heads.append((X[:, columns].double() @ mapping[0]).unflatten(0, (batch, num_tokens)))"),
)
_ghost(
    "token_before_head",
    "The target's layers are (B, G', S, D'): yours puts the tokens before the heads.",
    (STACKED, "return torch.stack(heads, 2).to(sources[0].dtype)"),
)
_ghost(
    "narrow_products",
    "Products are float64: in the source's dtype what nearly cancels is noise.",
    (
        MAPPED,
        "W, b = (part.to(X.dtype) for part in mapping)\n"
        "        heads.append((X[:, columns] @ W + b).unflatten(0, (batch, num_tokens)))",
    ),
)
_ghost(
    "maps_dtype",
    "Heads come back in the dtype of the sources; yours are float64, as the map is.",
    (STACKED, "return torch.stack(heads, 1)"),
)

# ---- transfer_cache

CONTENT = "content = [strip_rope(keys.double(), old, source_config.rope_theta) for keys, _ in source]"
VALUES = "values = [values for _, values in source]"
KEYS = "keys = map_heads(content, of_keys)"
MOVED = "keys = move_positions(keys, torch.zeros_like(new), new, target_config.rope_theta)"
APPENDED = "layers.append((keys.to(source[0][0].dtype), map_heads(values, of_values)))"
_ghost(
    "source_rotation_kept",
    "The map is one of contents: take the source's rotation out of its keys first.",
    (CONTENT, "content = [keys.double() for keys, _ in source]"),
)
_ghost(
    "not_rotated_again",
    "The target holds rotated keys: put the mapped contents to their positions.",
    (MOVED, "keys = keys.clone()"),
)
_ghost(
    "old_positions",
    "The target's tokens stand at `new`: yours rotates to where the source had them.",
    (MOVED, "keys = move_positions(keys, torch.zeros_like(old), old, target_config.rope_theta)"),
)
_ghost(
    "stripped_at_new",
    "The source's keys were made at `old`: that is the rotation to take out.",
    (CONTENT, "content = [strip_rope(keys.double(), new, source_config.rope_theta) for keys, _ in source]"),
)
_ghost(
    "moved_twice",
    "Mapped contents are not at `old` any more: rotate to `new`, not by new - old.",
    (MOVED, "keys = move_positions(keys, old, new, target_config.rope_theta)"),
)
_ghost(
    "source_base",
    "The target rotates with its own base: rotate with the target's rope_theta.",
    (MOVED, "keys = move_positions(keys, torch.zeros_like(new), new, source_config.rope_theta)"),
)
_ghost(
    "target_base",
    "The source's keys were rotated with the source's base: take them back with that one.",
    (CONTENT, "content = [strip_rope(keys.double(), old, target_config.rope_theta) for keys, _ in source]"),
)
_ghost(
    "rotated_before_the_map",
    "First map, then rotate: a map of contents does not commute with a rotation.",
    (
        CONTENT,
        CONTENT + "\n    zero = torch.zeros_like(new)\n    content = "
        "[move_positions(k_, zero, new, target_config.rope_theta) for k_ in content]",
    ),
    (MOVED, "keys = keys.clone()"),
)
_ghost(
    "values_rotated",
    "Values have no rotation: neither strip nor rotate them.",
    (
        APPENDED,
        "mapped = map_heads(values, of_values).double()\n"
        "        mapped = move_positions(mapped, torch.zeros_like(new), new, target_config.rope_theta)\n"
        "        layers.append((keys.to(source[0][0].dtype), mapped.to(source[0][0].dtype)))",
    ),
)
_ghost(
    "values_stripped",
    "Values were never rotated: there is nothing to strip.",
    (VALUES, "values = [strip_rope(values, old, source_config.rope_theta) for _, values in source]"),
)
_ghost(
    "values_by_the_map_of_keys",
    "Values have their own map, the second of each pair.",
    (APPENDED, "layers.append((keys.to(source[0][0].dtype), map_heads(values, of_keys)))"),
)
_ghost(
    "values_from_keys",
    "The target's values are made from the source's values: yours maps its keys.",
    (VALUES, "values = [keys.to(source[0][0].dtype) for keys in content]"),
)
_ghost(
    "values_as_they_are",
    "Values are in the sender's own coordinates as well: they need their map.",
    (APPENDED, "layers.append((keys.to(source[0][0].dtype), values[len(layers) % len(values)]))"),
)
_ghost(
    "rounded_content",
    "Content, products and rotation are float64: rounding stripped keys to bfloat16 costs digits.",
    (CONTENT, "content = [strip_rope(keys, old, source_config.rope_theta) for keys, _ in source]"),
)
_ghost(
    "rounded_before_the_rotation",
    "Round once, at the end: yours rounds mapped keys before they are rotated.",
    (KEYS, "keys = map_heads(content, of_keys).to(source[0][0].dtype).double()"),
)
_ghost(
    "keys_in_float64",
    "The cache that comes out has the source's dtype, keys too.",
    (APPENDED, "layers.append((keys, map_heads(values, of_values)))"),
)
_ghost(
    "values_first",
    "A layer of a cache is keys, then values.",
    (APPENDED, "layers.append((map_heads(values, of_values), keys.to(source[0][0].dtype)))"),
)
_ghost(
    "values_from_the_layers_of_keys",
    "Keys and values have chosen their source layers each for themselves: yours reads those of the keys for both.",
    ("map_heads(values, of_values)", "map_heads(values, of_values._replace(source_layers=of_keys.source_layers))"),
)
_ghost(
    "heads_of_the_source",
    "There is a map for each of the target's heads: yours stops at the number of the source's.",
    ("in enumerate(maps.heads)", "in enumerate(maps.heads[:n_heads])"),
)
