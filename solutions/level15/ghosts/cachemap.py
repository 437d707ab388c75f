"""Known-wrong programs of level15.cachemap. `ghost` is given when this is read."""


def _ghost(name, sentence, *change, **how):
    ghost("level15.cachemap.fit_cache_map", name, sentence, change=change, **how)


# ---- head_columns

FIRSTS = "firsts = [(layer * n_kv_heads + head) * head_dim for layer in range(num_source_layers)]"
COLUMNS = "return [first + feature for first in firsts for feature in range(head_dim)]"
_ghost(
    "head_before_layer",
    "A row is [layer][head][feature]: yours reads it as [head][layer][feature].",
    (FIRSTS, "firsts = [(head * num_source_layers + layer) * head_dim for layer in range(num_source_layers)]"),
)
_ghost(
    "first_layer_only",
    "Take this head from every one of the layers: yours stops after the first.",
    (FIRSTS, "firsts = [head * head_dim]"),
)
_ghost(
    "next_head",
    "Heads correspond by number, counted from 0: yours takes the next one.",
    (
        FIRSTS,
        "firsts = [(layer * n_kv_heads + (head + 1) % n_kv_heads) * head_dim for layer in range(num_source_layers)]",
    ),
)
_ghost(
    "feature_before_head",
    "The features of a head are neighbours: yours steps from head to head.",
    (FIRSTS, "firsts = [layer * n_kv_heads * head_dim + head for layer in range(num_source_layers)]"),
    (COLUMNS, "return [first + feature * n_kv_heads for first in firsts for feature in range(head_dim)]"),
)
_ghost(
    "layers_without_width",
    "A layer is as wide as all of its heads together: yours steps by one head.",
    (FIRSTS, "firsts = [(layer + head) * head_dim for layer in range(num_source_layers)]"),
)
_ghost(
    "feature_by_feature",
    "Ascending order: all features of a layer, then those of the next. Yours alternates between the layers.",
    (COLUMNS, "return [first + feature for feature in range(head_dim) for first in firsts]"),
)

# ---- fit_heads

CHOSEN = "chosen = rank_source_layers(rows, wanted, lam, k)"
JOINED = "X = torch.cat([rows[layer] for layer in chosen], 1)"
INPUTS = "inputs = X[:, head_columns(k, n_heads, head_dim, head)] if head_local else X"
FITTED = "maps.append(fit_ridge(inputs, Y, lam))"
HEADS = "for head, Y in enumerate(wanted.split(target.shape[3], 1)):"
_ghost(
    "first_layers",
    "Layers do not correspond by depth: yours reads the first k, whatever they say.",
    (CHOSEN, "chosen = list(range(k))"),
)
_ghost(
    "last_layers",
    "The deepest layers are not the best ones: rank them by how well they predict.",
    (CHOSEN, "chosen = list(range(len(rows)))[-k:]"),
)
_ghost(
    "layers_in_ascending_order",
    "The chosen layers stand in the order of their ranks: yours sorts them by number.",
    (CHOSEN, "chosen = sorted(rank_source_layers(rows, wanted, lam, k))"),
)
_ghost(
    "ranked_at_another_price",
    "Layers are ranked at the lam of the map that will read them: yours ranks at 0.01.",
    (CHOSEN, "chosen = rank_source_layers(rows, wanted, 0.01, k)"),
)
_ghost(
    "best_layer_only",
    "All of the k layers are read: yours reads the best one.",
    (CHOSEN, "chosen = rank_source_layers(rows, wanted, lam, k)[:1]"),
    (INPUTS, "inputs = X[:, head_columns(1, n_heads, head_dim, head)] if head_local else X"),
)
_ghost(
    "chosen_for_the_first_head",
    "The layers are chosen once, by all columns of the target: yours asks one head.",
    (CHOSEN, "chosen = rank_source_layers(rows, wanted[:, : target.shape[3]], lam, k)"),
)
_ghost(
    "all_layers",
    "k layers are read: yours reads all of them, and the weights to move grow with it.",
    (CHOSEN, "chosen = rank_source_layers(rows, wanted, lam, len(rows))"),
    (INPUTS, "inputs = X[:, head_columns(len(rows), n_heads, head_dim, head)] if head_local else X"),
)
_ghost(
    "always_all_heads",
    "With head_local a head is made from the source head of its own number: yours reads all.",
    (INPUTS, "inputs = X"),
)
_ghost(
    "always_head_by_head",
    "Without head_local all columns are read, also where the numbers of heads are equal.",
    (INPUTS, "inputs = X[:, head_columns(k, n_heads, head_dim, head)] if n_heads == target.shape[1] else X"),
)
_ghost(
    "one_map_for_all_heads",
    "One map for each target head: yours makes one for the whole layer.",
    (HEADS, "for head, Y in [(0, wanted)]:"),
)
_ghost(
    "source_width",
    "The target's heads have the target's head_dim: yours cuts the layer by the source's.",
    (HEADS, "for head, Y in enumerate(wanted.split(head_dim, 1)):"),
)
_ghost(
    "fixed_price",
    "lam is an argument: yours fits with 0.01 whatever is asked for.",
    (FITTED, "maps.append(fit_ridge(inputs, Y, 0.01))"),
)

# ---- fit_cache_map

SOURCE_KEYS = "source_keys = [strip_rope(keys.double(), positions, source_config.rope_theta) for keys, _ in source]"
SOURCE_VALUES = "source_values = [values for _, values in source]"
CONTENT = "content = strip_rope(keys.double(), positions, target_config.rope_theta)"
OF_KEYS = "of_keys = fit_heads(source_keys, content, lam, k, head_local)"
OF_VALUES = "maps.append((of_keys, fit_heads(source_values, values, lam, k, head_local)))"
_ghost(
    "rotated_keys",
    "Cached keys are rotated: a map of rotated keys holds at the calibration's positions alone. Strip both sides first.",
    (SOURCE_KEYS, "source_keys = [keys for keys, _ in source]"),
    (CONTENT, "content = keys"),
)
_ghost(
    "source_keeps_its_rotation",
    "The source's keys are rotated as well: content on one side only is no map of contents.",
    (SOURCE_KEYS, "source_keys = [keys for keys, _ in source]"),
)
_ghost(
    "target_keeps_its_rotation",
    "What is to be made is the target's content: its keys are stripped, too.",
    (CONTENT, "content = keys"),
)
_ghost(
    "one_base",
    "Each model has its own base: the target's rotation comes out with the target's rope_theta.",
    (CONTENT, "content = strip_rope(keys.double(), positions, source_config.rope_theta)"),
)
_ghost(
    "base_of_the_target",
    "Each model has its own base: the source's rotation comes out with the source's rope_theta.",
    (
        SOURCE_KEYS,
        "source_keys = [strip_rope(keys.double(), positions, target_config.rope_theta) for keys, _ in source]",
    ),
)
_ghost(
    "positions_from_zero",
    "The calibration tokens stood where `positions` says, and need not start at 0.",
    (SOURCE_KEYS, "positions = torch.arange(len(positions))\n    " + SOURCE_KEYS),
)
_ghost(
    "values_stripped",
    "Values have no rotation: stripping puts one into them.",
    (
        SOURCE_VALUES,
        "source_values = [strip_rope(v.double(), positions, source_config.rope_theta) for _, v in source]",
    ),
    (
        OF_VALUES,
        "values = strip_rope(values.double(), positions, target_config.rope_theta)\n        " + OF_VALUES,
    ),
)
_ghost(
    "values_from_keys",
    "Values are made from the source's values: yours makes them from its keys.",
    (SOURCE_VALUES, "source_values = source_keys"),
)
_ghost(
    "layers_of_the_keys",
    "Keys and values choose their source layers each for themselves.",
    (
        OF_VALUES,
        "own = [source_values[layer] for layer in of_keys.source_layers]\n"
        "        fitted = fit_heads(own, values, lam, k, head_local)\n"
        "        maps.append((of_keys, HeadMaps(of_keys.source_layers, fitted.heads, head_local)))",
    ),
)
_ghost(
    "one_map_for_both",
    "Keys and values have a map each: yours uses that of the keys twice.",
    (OF_VALUES, "maps.append((of_keys, of_keys))"),
)
_ghost(
    "values_first",
    "A layer's pair is the maps of the keys, then of the values.",
    (OF_VALUES, "maps.append((fit_heads(source_values, values, lam, k, head_local), of_keys))"),
)
_ghost(
    "target_to_source",
    "The maps make the target's cache: one pair for each layer of the target, fitted from the source.",
    (
        SOURCE_KEYS,
        "source, target = target, source\n    source_config, target_config = target_config, source_config\n    "
        + SOURCE_KEYS,
    ),
)
_ghost(
    "rounded_content",
    "Stripped bfloat16 keys lose digits once more: make float64 of them before they are stripped.",
    (SOURCE_KEYS, "source_keys = [strip_rope(keys, positions, source_config.rope_theta) for keys, _ in source]"),
    (CONTENT, "content = strip_rope(keys, positions, target_config.rope_theta)"),
)
_ghost(
    "first_prompt_only",
    "Each token of each prompt is a row: yours fits to the first prompt of the batch.",
    (
        SOURCE_KEYS,
        "source, target = ([(k_[:1], v_[:1]) for k_, v_ in layers] for layers in (source, target))\n    " + SOURCE_KEYS,
    ),
)
_ghost(
    "head_local_forgotten",
    "head_local is for keys and values alike: pass it on for both.",
    (OF_VALUES, "maps.append((of_keys, fit_heads(source_values, values, lam, k, False)))"),
)
_ghost(
    "joined_by_number",
    "source_layers says in which order the columns stand: yours names the ranks, and joins the layers by number.",
    (
        "X = torch.cat([rows[layer] for layer in chosen], 1)",
        "X = torch.cat([rows[layer] for layer in sorted(chosen)], 1)",
    ),
)
_ghost(
    "width_of_the_target",
    "Columns are the source's: yours counts them in the target's head_dim.",
    ("head_columns(k, n_heads, head_dim, head)", "head_columns(k, n_heads, target.shape[3], head)"),
)
_ghost(
    "ranked_with_rotation",
    "Layers are ranked by what is mapped, keys without their rotation: yours ranks rotated ones.",
    (
        "of_keys = fit_heads(source_keys, content, lam, k, head_local)",
        "chosen = rank_source_layers([to_rows(x) for x, _ in source], to_rows(keys), lam, k)\n"
        "        read = [source_keys[layer] for layer in chosen]\n"
        "        of_keys = fit_heads(read, content, lam, k, head_local)\n"
        "        of_keys = HeadMaps([chosen[i] for i in of_keys.source_layers], of_keys.heads, head_local)",
    ),
)
