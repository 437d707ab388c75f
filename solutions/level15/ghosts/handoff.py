"""Known-wrong programs of level15.handoff. `ghost` is given when this is read."""


def _ghost(name, sentence, *change):
    ghost("level15.handoff.load_cache", name, sentence, change=change)


OFFSETS = "return [rank * n_kv_heads // n_ranks for rank in range(n_ranks)]"
REST = "return list(token_ids[num_received:]), list(range(num_received, len(token_ids)))"
SALT = "return repr((model, revision, dtype, source)).encode()"
LOOP = "for layer in range(config.n_layers):"
UPDATE = "cache.update(layer, *layers[layer])"

# ---- head_offsets

_ghost(
    "copies_as_heads",
    "With more ranks than heads some hold copies: neighbours share a number, and none lies beyond the last head.",
    (OFFSETS, "return [rank * max(1, n_kv_heads // n_ranks) for rank in range(n_ranks)]"),
)
_ghost(
    "copies_dealt_in_turn",
    "Copies of a head are on neighbouring ranks: [0, 0, 1, 1], not [0, 1, 0, 1].",
    (OFFSETS, "return [rank * max(1, n_kv_heads // n_ranks) % n_kv_heads for rank in range(n_ranks)]"),
)
_ghost(
    "ranks_counted",
    "An offset counts heads, not ranks: rank 1 of 4 begins at head 2 of 8.",
    (OFFSETS, "return [rank * min(n_kv_heads, n_ranks) // n_ranks for rank in range(n_ranks)]"),
)
_ghost(
    "where_they_end",
    "The offset is the first head of a rank; yours is the one behind its last.",
    (OFFSETS, "return [-(-(rank + 1) * n_kv_heads // n_ranks) for rank in range(n_ranks)]"),
)
_ghost(
    "share_rounded_first",
    "Multiply first, then divide: fewer heads than ranks leave a rounded share of 0, and all ranks at head 0.",
    (OFFSETS, "return [rank * (n_kv_heads // n_ranks) for rank in range(n_ranks)]"),
)

# ---- remaining

_ghost(
    "positions_from_zero",
    "The rest stands behind what was received: its positions go on, they don't start again at 0.",
    ("list(range(num_received, len(token_ids)))", "list(range(len(token_ids) - num_received))"),
)
_ghost(
    "all_tokens_again",
    "Tokens that came as a cache are not run again: they would be in the cache twice.",
    (REST, "return list(token_ids), list(range(len(token_ids)))"),
)
_ghost(
    "last_received_again",
    "num_received tokens have come, so the rest begins at that number, not one before it.",
    (REST, "first = max(0, num_received - 1)\n    return list(token_ids[first:]), list(range(first, len(token_ids)))"),
)
_ghost(
    "first_of_the_rest_skipped",
    "Token number num_received has not come: counted from 0, it is the first one to run.",
    (
        REST,
        "first = min(num_received + 1, len(token_ids) - 1) if num_received else 0\n"
        "    return list(token_ids[first:]), list(range(first, len(token_ids)))",
    ),
)
_ghost(
    "only_the_last",
    "All tokens behind the cache are run, not the last one alone.",
    (REST, "return list(token_ids[-1:]), [len(token_ids) - 1]"),
)
_ghost(
    "positions_from_one",
    "Positions count from 0: the token behind 4 received ones stands at 4.",
    ("list(range(num_received, len(token_ids)))", "list(range(num_received + 1, len(token_ids) + 1))"),
)

# ---- cache_salt

_ghost(
    "joined",
    'Joined without a mark, "a" + "bc" is "ab" + "c": two models share a name.',
    (SALT, "return (model + revision + dtype + source).encode()"),
)
_ghost(
    "joined_by_a_mark",
    "Any text may hold your mark: then two sets of four become one. Quote the texts, or say their lengths.",
    (SALT, 'return "|".join((model, revision, dtype, source)).encode()'),
)
_ghost(
    "mark_escaped",
    "Escape the sign that escapes, too: a text may end with it, and then your mark is read as part of the text.",
    (SALT, "return '|'.join(x.replace('|', chr(92) + '|') for x in (model, revision, dtype, source)).encode()"),
)
_ghost(
    "mark_doubled",
    'Doubled, a mark does not say where a text ends: "a|" and "b" become the same as "a" and "|b".',
    (SALT, 'return "|".join(x.replace("|", "||") for x in (model, revision, dtype, source)).encode()'),
)
_ghost(
    "lengths_run_together",
    'A length right before its text: 1 before "2" reads like 12. Give lengths a fixed number of bytes, or an end.',
    (SALT, "return ''.join(f'{len(x)}{x}' for x in (model, revision, dtype, source)).encode()"),
)
_ghost(
    "fixed_width",
    "Texts may be of any length: cut or filled up to one width, two of them become one.",
    (SALT, "return b''.join(x.encode()[:32].ljust(32) for x in (model, revision, dtype, source))"),
)
_ghost(
    "mapped_from_itself",
    "A source of \"\" is another text than the model's own name: don't fill one in for the other.",
    (SALT, "return repr((model, revision, dtype, source or model)).encode()"),
)
_ghost(
    "model_alone",
    "Other weights, another dtype or a mapped cache under one model's name are found as its own.",
    (SALT, "return model.encode()"),
)
_ghost(
    "no_revision",
    "A fine-tuned step makes other keys and values: the revision is part of the name.",
    (SALT, "return repr((model, dtype, source)).encode()"),
)
_ghost(
    "no_dtype",
    "A float16 block read as bfloat16 is noise: how it is stored is part of the name.",
    (SALT, "return repr((model, revision, source)).encode()"),
)
_ghost(
    "no_source",
    "A mapped block is an approximation: its name must differ from that of the model's own.",
    (SALT, "return repr((model, revision, dtype)).encode()"),
)
_ghost(
    "sorted_parts",
    "What a text stands for is part of the name: a cache of A mapped from B is not one of B mapped from A.",
    (SALT, "return repr(sorted((model, revision, dtype, source))).encode()"),
)
_ghost(
    "hash_of_the_process",
    "hash() of a text is another number in every process, and not of the text alone: make the bytes of the texts.",
    (SALT, "return str(hash((model, revision, dtype, source))).encode()"),
)
_ghost(
    "pickled",
    "pickle notes which objects are the same one: equal texts can give different bytes.",
    (SALT, 'return __import__("pickle").dumps((model, revision, dtype, source))'),
)
_ghost(
    "small_letters",
    "Names that differ in capital letters only are different texts.",
    (SALT, "return repr((model, revision, dtype, source)).lower().encode()"),
)
_ghost(
    "ascii_only",
    "Any text is allowed: dropped or replaced letters make two names one.",
    (SALT, 'return repr((model, revision, dtype, source)).encode("ascii", "ignore")'),
)

# ---- load_cache

_ghost(
    "order_of_arrival",
    "The mapping's order is that of arrival: layers go in by number, from 0.",
    (LOOP, "for layer in layers:"),
)
_ghost(
    "numbered_anew",
    "A layer's number is its key in the mapping, not its place there: yours exchanges layers.",
    (LOOP, "for layer, pair in enumerate(layers.values()):"),
    (UPDATE, "cache.update(layer, *pair)"),
)
_ghost(
    "last_layer_first",
    "The length moves with the last layer, so that one goes in last.",
    (LOOP, "for layer in reversed(range(config.n_layers)):"),
)
_ghost(
    "sorted_as_text",
    "Numbers sorted as text put layer 10 before layer 2: sort them as numbers.",
    (LOOP, "for layer in sorted(layers, key=str):"),
)
_ghost(
    "keys_and_values_exchanged",
    "Each layer comes as keys and values, in this order, and is updated with them in this order.",
    (UPDATE, "cache.update(layer, *layers[layer][::-1])"),
)
_ghost(
    "keys_for_values",
    "Values are tensors of their own: yours writes the keys twice.",
    (UPDATE, "cache.update(layer, layers[layer][0], layers[layer][0])"),
)
_ghost(
    "last_layer_left_out",
    "All layers go in: without the last one the cache says that it holds nothing.",
    (LOOP, "for layer in range(config.n_layers - 1):"),
)
_ghost(
    "one_row",
    "Every row of the batch is loaded, not the first one alone.",
    (UPDATE, "cache.update(layer, *(part[:1] for part in layers[layer]))"),
)
_ghost(
    "last_token_left_out",
    "All tokens that were received go in; which of them are run again is not decided here.",
    (UPDATE, "cache.update(layer, *(part[:, :, : max(1, part.shape[2] - 1)] for part in layers[layer]))"),
)
_ghost(
    "rounded",
    "What arrived goes in as it is: the cache itself decides about its dtype.",
    (UPDATE, "cache.update(layer, *(part.float() for part in layers[layer]))"),
)
_ghost(
    "mapping_emptied",
    "The layers belong to the caller: read them, don't take them out of the mapping.",
    (UPDATE, "cache.update(layer, *layers.pop(layer))"),
)
