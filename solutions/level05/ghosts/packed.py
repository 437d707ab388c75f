"""Known-wrong programs of level05.packed. `ghost` is given when this is read."""

import torch

# ---- pack

ROW = "torch.tensor([[token for chunk in chunks for token in chunk]])"
POSITIONS = "torch.cat([torch.arange(start, start + len(chunk)) for chunk, start in zip(chunks, starts)])"
RANGE = "torch.arange(start, start + len(chunk))"
LAST = "torch.tensor([len(chunk) for chunk in chunks]).cumsum(0) - 1"

ghost(
    "level05.packed.pack",
    "positions_run_on",
    "Each token keeps the position that it has in its own sequence; yours are numbered along the row.",
    change=(POSITIONS, "torch.arange(ids.shape[1])"),
)
ghost(
    "level05.packed.pack",
    "positions_from_zero",
    "A chunk goes on behind what its cache holds: it begins at its start, not at 0.",
    change=(RANGE, "torch.arange(len(chunk))"),
)
ghost(
    "level05.packed.pack",
    "one_start_for_all",
    "Sequences are of different lengths: each has a start of its own, and the first one's is not for all.",
    change=(RANGE, "torch.arange(starts[0], starts[0] + len(chunk))"),
)
ghost(
    "level05.packed.pack",
    "longest_start_for_all",
    "Nothing is padded here: a shorter sequence goes on at its own length, not at the longest one's.",
    change=(RANGE, "torch.arange(max(starts), max(starts) + len(chunk))"),
)
ghost(
    "level05.packed.pack",
    "runs_on_from_the_first_start",
    "The row is not one text: at each chunk the positions begin again, at that chunk's start.",
    change=(POSITIONS, "torch.arange(starts[0], starts[0] + ids.shape[1])"),
)
ghost(
    "level05.packed.pack",
    "place_in_the_row_plus_start",
    "Count from the chunk's first token, not from that of the row: the chunks before it belong to others.",
    change=(
        POSITIONS,
        "torch.arange(ids.shape[1]) + torch.tensor(starts).repeat_interleave(torch.tensor([len(c) for c in chunks]))",
    ),
)
ghost(
    "level05.packed.pack",
    "starts_add_up",
    "A start counts the tokens of one sequence: those of the sequences before it do not come on top.",
    change=(RANGE, "torch.arange(start, start + len(chunk)) + sum(starts[: chunks.index(chunk)])"),
)
ghost(
    "level05.packed.pack",
    "positions_from_one",
    "Positions count from 0: the first token behind a cache of n tokens is at position n.",
    change=(RANGE, "torch.arange(start + 1, start + 1 + len(chunk))"),
)
ghost(
    "level05.packed.pack",
    "on_the_last_cached_token",
    "The cache's last token has position start - 1 already: the chunk begins behind it, not on it.",
    change=(RANGE, "torch.arange(max(start - 1, 0), max(start - 1, 0) + len(chunk))"),
)
ghost(
    "level05.packed.pack",
    "chunk_stays_at_its_start",
    "Within a chunk positions go up by one: its tokens do not all stand at the start.",
    change=(RANGE, "torch.full((len(chunk),), start)"),
)
ghost(
    "level05.packed.pack",
    "begins_for_ends",
    "`last` is where each chunk ends, since the next token is predicted there; yours is where it begins.",
    change=(LAST, "torch.tensor([0] + [len(chunk) for chunk in chunks[:-1]]).cumsum(0)"),
)
ghost(
    "level05.packed.pack",
    "one_past_the_end",
    "A chunk's last token stands one before its end: yours is the next chunk's first.",
    change=(LAST, "torch.tensor([len(chunk) for chunk in chunks]).cumsum(0)"),
)
ghost(
    "level05.packed.pack",
    "last_in_its_own_chunk",
    "Columns count along the row: what stands before the chunk must be added.",
    change=(LAST, "torch.tensor([len(chunk) for chunk in chunks]) - 1"),
)
ghost(
    "level05.packed.pack",
    "last_of_the_row",
    "Every chunk has a last token, not only the row.",
    change=("last.tolist()", "[ids.shape[1] - 1]"),
)
ghost(
    "level05.packed.pack",
    "position_for_column",
    "`last` is a column of the row, where the logits stand, not a position in the sequence.",
    change=("last.tolist()", "positions[last].tolist()"),
)
ghost(
    "level05.packed.pack",
    "last_as_a_tensor",
    "`last` is a plain list of ints.",
    change=("last.tolist()", "last"),
)
ghost(
    "level05.packed.pack",
    "no_batch_axis",
    "ids is (1, T), a batch of one row, as the forward pass takes it.",
    change=("return ids, positions", "return ids[0], positions"),
)
ghost(
    "level05.packed.pack",
    "positions_in_a_row",
    "positions is (T,): one number for each token, without a batch axis.",
    change=("return ids, positions", "return ids, positions.unsqueeze(0)"),
)
ghost(
    "level05.packed.pack",
    "int32",
    "ids and positions are int64; int32 cuts large numbers off.",
    change=("return ids, positions", "return ids.int(), positions.int()"),
)
ghost(
    "level05.packed.pack",
    "float32_on_the_way",
    "Whole numbers stay whole: in float32 16,777,217 becomes the number before it.",
    change=("return ids, positions", "return ids.float().long(), positions.float().long()"),
)
ghost(
    "level05.packed.pack",
    "only_new_tokens_of_decodes",
    "A chunk may have several tokens behind a cache: a prompt goes on in chunks, and all of each chunk runs.",
    change=(ROW, "torch.tensor([[t for c, s in zip(chunks, starts) for t in (c[-1:] if s else c)]])"),
)


def _padded(chunks, starts):
    if not chunks or not all(len(chunk) for chunk in chunks) or len(starts) != len(chunks):
        raise ValueError("no row")
    longest = max(map(len, chunks))
    ids = torch.tensor([[*chunk, *[0] * (longest - len(chunk))] for chunk in chunks]).view(1, -1)
    positions = torch.cat([torch.arange(start, start + longest) for start in starts])
    return ids, positions, [i * longest + len(chunk) - 1 for i, chunk in enumerate(chunks)]


def _rows(chunks, starts):
    ids, positions, _ = _padded(chunks, starts)
    return ids.view(len(chunks), -1), positions, [len(chunk) - 1 for chunk in chunks]


def _interleaved(chunks, starts):
    if not chunks or not all(len(chunk) for chunk in chunks) or len(starts) != len(chunks):
        raise ValueError("no row")
    places = [(i, j) for i in range(max(map(len, chunks))) for j, chunk in enumerate(chunks) if i < len(chunk)]
    positions = torch.tensor([starts[j] + i for i, j in places])
    last = [places.index((len(chunk) - 1, j)) for j, chunk in enumerate(chunks)]
    return torch.tensor([[chunks[j][i] for i, j in places]]), positions, last


def _decodes_first(chunks, starts):
    if not chunks or not all(len(chunk) for chunk in chunks) or len(starts) != len(chunks):
        raise ValueError("no row")
    pairs = sorted(zip(chunks, starts), key=lambda pair: len(pair[0]))
    positions = torch.cat([torch.arange(start, start + len(chunk)) for chunk, start in pairs])
    last = torch.tensor([len(chunk) for chunk, _ in pairs]).cumsum(0) - 1
    return torch.tensor([[token for chunk, _ in pairs for token in chunk]]), positions, last.tolist()


ghost(
    "level05.packed.pack",
    "pads",
    "Nothing is padded: T tokens make a row of T. Padding is computed and thrown away.",
    program=_padded,
)
ghost(
    "level05.packed.pack",
    "a_row_for_each_sequence",
    "One row for all sequences, (1, T), not one for each: rows would have to be padded.",
    program=_rows,
)
ghost(
    "level05.packed.pack",
    "first_tokens_first",
    "The tokens of a chunk stay together; yours takes the first of every chunk, then the second.",
    program=_interleaved,
)
ghost(
    "level05.packed.pack",
    "short_chunks_first",
    "The chunks keep their order: the caches and the answers are found by it.",
    program=_decodes_first,
)

# ---- PackedCache

KEYS, VALUES = "k.split(self.sizes, 2)", "v.split(self.sizes, 2)"
UPDATE = "cache.update(layer, own_k, own_v)"
HELD = "held = [cache.update(layer, own_k, own_v) for cache, own_k, own_v in parts]"
GIVE = "return [keys for keys, _ in held], [values for _, values in held]"

ghost(
    "level05.packed.PackedCache",
    "whole_row_into_each",
    "Each cache takes its own part of the row; yours writes everybody's tokens into every cache.",
    change=[(KEYS, "[k] * len(self.sizes)"), (VALUES, "[v] * len(self.sizes)")],
)
ghost(
    "level05.packed.PackedCache",
    "all_into_the_first",
    "Every sequence has a cache of its own; yours puts all of them into the first one's.",
    change=("for cache, own_k", "for cache in self.caches[:1] for _, own_k"),
)
ghost(
    "level05.packed.PackedCache",
    "equal_parts",
    "Sequences have different numbers of tokens in the row: cut it by the sizes, not into equal parts.",
    change=[(KEYS, "k.tensor_split(len(self.sizes), 2)"), (VALUES, "v.tensor_split(len(self.sizes), 2)")],
)
ghost(
    "level05.packed.PackedCache",
    "one_token_each",
    "A sequence may have several tokens in the row, a prompt's chunk: yours takes one for each.",
    change=[(KEYS, "k.split(1, 2)"), (VALUES, "v.split(1, 2)")],
)
ghost(
    "level05.packed.PackedCache",
    "cuts_without_adding_up",
    "A part begins where the one before it ends: the sizes before it must be added up.",
    change=[(KEYS, "[k[:, :, :n] for n in self.sizes]"), (VALUES, "[v[:, :, :n] for n in self.sizes]")],
)
ghost(
    "level05.packed.PackedCache",
    "in_reverse",
    "Part i of the row belongs to cache i, in the same order.",
    change=("zip(self.caches,", "zip(self.caches[::-1],"),
)
ghost(
    "level05.packed.PackedCache",
    "keys_for_values",
    "Values come from v: keys say where a query looks, values what it finds there.",
    change=(VALUES, KEYS),
)
ghost(
    "level05.packed.PackedCache",
    "swaps_keys_and_values",
    "First the keys, then the values, when they are written and when they are returned.",
    change=(GIVE, "return [values for _, values in held], [keys for keys, _ in held]"),
)
ghost(
    "level05.packed.PackedCache",
    "writes_values_as_keys",
    "A cache's update takes the layer, then k, then v.",
    change=(UPDATE, "cache.update(layer, own_v, own_k)"),
)
ghost(
    "level05.packed.PackedCache",
    "new_tokens_alone",
    "Return what the caches hold, old tokens and new: without its past a decode sees only itself.",
    change=(HELD, f"held = [({UPDATE}, (own_k, own_v))[1] for cache, own_k, own_v in parts]"),
)
ghost(
    "level05.packed.PackedCache",
    "stores_nothing",
    "The new tokens must go into the caches: the next step has no other way to see them.",
    change=(HELD, "held = [(own_k, own_v) for cache, own_k, own_v in parts]"),
)
ghost(
    "level05.packed.PackedCache",
    "joined",
    "Keep the sequences apart, one entry of the lists for each: joined, nobody knows whose keys they are.",
    change=(
        GIVE,
        "return [torch.cat([keys for keys, _ in held], 2)], [torch.cat([values for _, values in held], 2)]",
    ),
)
ghost(
    "level05.packed.PackedCache",
    "pairs",
    "Two lists, one of all keys and one of all values, not a pair for each sequence.",
    change=(GIVE, "return held"),
)
ghost(
    "level05.packed.PackedCache",
    "always_layer_0",
    "Pass the layer on: each layer has keys and values of its own.",
    change=(UPDATE, "cache.update(0, own_k, own_v)"),
)
ghost(
    "level05.packed.PackedCache",
    "token_by_token_overwritten",
    "One update for each sequence with all of its tokens, and its result; yours keeps what the first token's gave.",
    change=(
        HELD,
        "held = [[cache.update(layer, own_k[:, :, t : t + 1], own_v[:, :, t : t + 1]) for t in range(own_k.shape[2])][0]"
        " for cache, own_k, own_v in parts]",
    ),
)
ghost(
    "level05.packed.PackedCache",
    "last_token_of_each",
    "All tokens of a chunk go into the cache, not only its last: the ones before it are the past of the next step.",
    change=(UPDATE, "cache.update(layer, own_k[:, :, -1:], own_v[:, :, -1:])"),
)
ghost(
    "level05.packed.PackedCache",
    "cut_along_the_heads",
    "Tokens are axis 2 of (1, G, T, D): axis 1 are the heads, and every sequence has all of them.",
    change=[(KEYS, "k.tensor_split(len(self.sizes), 1)"), (VALUES, "v.tensor_split(len(self.sizes), 1)")],
)
ghost(
    "level05.packed.PackedCache",
    "no_batch_axis",
    "A cache takes and returns (1, G, n, D): leave the batch axis where it is.",
    change=(GIVE, "return [keys[0] for keys, _ in held], [values[0] for _, values in held]"),
)
ghost(
    "level05.packed.PackedCache",
    "joined_again",
    "Two lists, with the keys or values of one sequence in each place; in one tensor nobody knows whose they are.",
    change=(GIVE, "return torch.cat([keys for keys, _ in held], 2), torch.cat([values for _, values in held], 2)"),
)
ghost(
    "level05.packed.PackedCache",
    "padded_to_the_longest",
    "Every sequence gets exactly its own keys: padding to the longest would have to be masked again.",
    change=(
        GIVE,
        "longest = max(keys.shape[2] for keys, _ in held)\n"
        "        pad = lambda x: torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[2]))\n"
        "        return [pad(keys) for keys, _ in held], [pad(values) for _, values in held]",
    ),
)
ghost(
    "level05.packed.PackedCache",
    "passes_over_empty_caches",
    "An empty cache may be falsy, and it is where a new sequence begins: do not pass it over.",
    change=(HELD, HELD.replace(" in parts]", " in parts if cache]")),
)
ghost(
    "level05.packed.PackedCache",
    "copies_of_the_caches",
    "Write into the caches that were given: a copy is gone after this step, and so are its tokens.",
    change=(HELD, "import copy\n\n        held = [copy.deepcopy(cache).update(layer, a, b) for cache, a, b in parts]"),
)
ghost(
    "level05.packed.PackedCache",
    "type_of_the_row",
    "Pass on what a cache returns as it is, in the type in which it keeps its entries.",
    change=(GIVE, "return [keys.to(k.dtype) for keys, _ in held], [values.to(v.dtype) for _, values in held]"),
)

# ---- packed_attention

SPLIT = "q.split(list(sizes), 2)"
CALL = "attend(own_q, own_k, own_v, mask)"
BOTH = (
    "    parts = zip(q.split(list(sizes), 2), keys, values)\n"
    "    return torch.cat([attend(own_q, own_k, own_v, mask) for own_q, own_k, own_v in parts], 2)\n"
)

ghost(
    "level05.packed.packed_attention",
    "sequences_see_each_other",
    "Tokens of another request are no context: every sequence attends to its own keys alone.",
    change=(BOTH, "    return attend(q, torch.cat(list(keys), 2), torch.cat(list(values), 2), mask)\n"),
)
ghost(
    "level05.packed.packed_attention",
    "keys_of_all",
    "The queries are split and the keys are not: each sequence still sees everybody's, a leak between users.",
    change=(CALL, "attend(own_q, torch.cat(list(keys), 2), torch.cat(list(values), 2), mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "keys_of_the_first",
    "Sequence i attends to keys[i] and values[i], not to those of the first.",
    change=(CALL, "attend(own_q, keys[0], values[0], mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "keys_in_reverse",
    "Part i of the queries belongs to keys[i] and values[i], in the same order.",
    change=("keys, values)\n    return", "keys[::-1], values[::-1])\n    return"),
)
ghost(
    "level05.packed.packed_attention",
    "prefill_not_causal",
    "Within a chunk a token must not see those behind it: pass the causal mask on.",
    change=(CALL, "attend(own_q, own_k, own_v, torch.ones(1, 1, dtype=torch.bool))"),
)
ghost(
    "level05.packed.packed_attention",
    "mask_forgets_the_cache",
    "The queries are the last of the keys: query i sees the whole past and the chunk up to itself, not keys 0 to i.",
    change=(
        CALL,
        "attend(own_q, own_k, own_v, torch.ones(own_q.shape[2], own_k.shape[2], dtype=torch.bool).tril())",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "mask_lets_the_next_token_in",
    "A query sees itself and what is before it; yours sees the next token as well.",
    change=(
        CALL,
        "attend(own_q, own_k, own_v, torch.ones(own_q.shape[2], own_k.shape[2], dtype=torch.bool)"
        ".tril(own_k.shape[2] - own_q.shape[2] + 1))",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "blind_to_itself",
    "A query sees its own key too, not only those before it.",
    change=(
        CALL,
        "attend(own_q, own_k, own_v, torch.ones(own_q.shape[2], own_k.shape[2], dtype=torch.bool)"
        ".tril(own_k.shape[2] - own_q.shape[2] - 1))",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "new_keys_alone",
    "The keys of earlier steps count as well: without them a sequence has forgotten its past.",
    change=(CALL, "attend(own_q, own_k[:, :, -own_q.shape[2] :], own_v[:, :, -own_q.shape[2] :], mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "past_alone",
    "The chunk's own keys count too: each token sees itself and those before it in the chunk.",
    change=(
        CALL,
        "attend(own_q, own_k, own_v, (torch.arange(own_k.shape[2]) < max(1, own_k.shape[2] - own_q.shape[2])).unsqueeze(0))",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "equal_parts",
    "Sequences have different numbers of queries: cut the row by the sizes, not into equal parts.",
    change=(SPLIT, "q.tensor_split(len(sizes), 2)"),
)
ghost(
    "level05.packed.packed_attention",
    "cuts_without_adding_up",
    "A part begins where the one before it ends: add up the sizes before it.",
    change=(SPLIT, "[q[:, :, :n] for n in sizes]"),
)
ghost(
    "level05.packed.packed_attention",
    "last_queries_alone",
    "Every token of a chunk needs its attention: the next layer makes keys of all of them.",
    change=(CALL, "attend(own_q[:, :, -1:], own_k, own_v, mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "last_query_for_all",
    "Every token of a chunk has a query of its own: the last one's result is not that of the others.",
    change=(CALL, CALL + "[:, :, -1:].expand_as(own_q)"),
)
ghost(
    "level05.packed.packed_attention",
    "keys_for_values",
    "What is mixed are the values; the keys only say in which shares.",
    change=(CALL, "attend(own_q, own_k, own_k, mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "ignores_attend",
    "Use the attention of the caller: a paged or a tiled one comes in here.",
    change=(CALL, "attention(own_q, own_k, own_v, mask)"),
)
ghost(
    "level05.packed.packed_attention",
    "one_mask_for_attend",
    'attend gets one sequence and the word "causal"; a mask over all sequences is more than it promises to know.',
    change=(
        BOTH,
        "    own = torch.block_diag(*[torch.ones(n, k.shape[2]).tril(k.shape[2] - n) for n, k in zip(sizes, keys)])\n"
        "    return attend(q, torch.cat(list(keys), 2), torch.cat(list(values), 2), own.bool())\n",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "spells_the_mask_out",
    'Pass the mask on as it is, "causal": a tiled attention never makes that matrix.',
    change=(
        CALL,
        "attend(own_q, own_k, own_v, torch.ones(own_q.shape[2], own_k.shape[2], dtype=torch.bool)"
        ".tril(own_k.shape[2] - own_q.shape[2]))",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "a_list",
    "Join the results again, in the order of the row: (1, H, T, D).",
    change=(
        "torch.cat([attend(own_q, own_k, own_v, mask) for own_q, own_k, own_v in parts], 2)",
        f"[{CALL} for own_q, own_k, own_v in parts]",
    ),
)
ghost(
    "level05.packed.packed_attention",
    "joined_as_a_batch",
    "The results stand side by side along the tokens, axis 2: the batch axis stays 1.",
    change=("in parts], 2)", "in parts], 0 if len({own_q.shape for own_q in q.split(list(sizes), 2)}) == 1 else 2)"),
)
ghost(
    "level05.packed.packed_attention",
    "type_of_the_keys",
    "The result has the type of the queries.",
    change=("in parts], 2)", "in parts], 2).float()"),
)


def _in_reverse(q, keys, values, mask, sizes, attend=None):
    from level00.layers import attention

    parts = zip(q.split(list(sizes), 2), keys, values)
    return torch.cat([(attend or attention)(a, b, c, mask) for a, b, c in parts][::-1], 2)


ghost(
    "level05.packed.packed_attention",
    "joined_in_reverse",
    "The results keep the order of the row: token t of it is the sequence's that stands there.",
    program=_in_reverse,
)

# ---- packed_step

PASS = "hidden_states(params, config, ids, cache, positions=positions, attend=split, linear=linear)[0]"
PACK = "pack(chunks, [cache.length for cache in caches])"
ROWS = "hidden if all_rows else hidden[last]"
BODY = (
    "    ids, positions, last = pack(chunks, [cache.length for cache in caches])\n"
    "    sizes = [len(chunk) for chunk in chunks]\n"
    "    split = partial(packed_attention, sizes=sizes, attend=attend)\n"
    "    cache = PackedCache(caches, sizes)\n"
    f"    hidden = {PASS}\n"
    "    return unembed(params, config, hidden if all_rows else hidden[last], linear)\n"
)

ghost(
    "level05.packed.packed_step",
    "rope_by_flat_index",
    "RoPE turns by the position in the sequence, not by the place in the row.",
    change=("positions=positions", "positions=torch.arange(ids.shape[1])"),
)
ghost(
    "level05.packed.packed_step",
    "positions_from_zero",
    "A chunk goes on behind what its cache holds: its positions start at cache.length.",
    change=(PACK, "pack(chunks, [0 for cache in caches])"),
)
ghost(
    "level05.packed.packed_step",
    "one_position_for_the_batch",
    "Each sequence is at a place of its own: the longest cache does not give the positions of the others.",
    change=(PACK, "pack(chunks, [max(cache.length for cache in caches)] * len(caches))"),
)
ghost(
    "level05.packed.packed_step",
    "position_of_the_first",
    "Each chunk starts at its own cache's length; the first one's is not for all.",
    change=(PACK, "pack(chunks, [caches[0].length] * len(caches))"),
)
ghost(
    "level05.packed.packed_step",
    "positions_one_too_far",
    "The first new token stands at cache.length, since positions count from 0.",
    change=("positions=positions", "positions=positions + 1"),
)
ghost(
    "level05.packed.packed_step",
    "sequences_see_each_other",
    "Attention is for each sequence by itself: yours takes the row for one text.",
    change=(
        "    cache = PackedCache(caches, sizes)\n",
        "    cache = PackedCache(caches, sizes)\n"
        "    split = lambda q, k, v, mask: attend(q, torch.cat(k, 2), torch.cat(v, 2), mask)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "prefill_not_causal",
    "Within a chunk a token must not see the ones behind it: each sequence needs its causal mask.",
    change=(
        "    cache = PackedCache(caches, sizes)\n",
        "    cache = PackedCache(caches, sizes)\n"
        "    part = partial(packed_attention, sizes=sizes, attend=attend)\n"
        "    split = lambda q, k, v, mask: part(q, k, v, torch.ones(1, 1, dtype=torch.bool))\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "mask_forgets_the_cache",
    "The queries of a chunk are the last of its keys: they see the whole cache before it.",
    change=(
        "    cache = PackedCache(caches, sizes)\n",
        "    cache = PackedCache(caches, sizes)\n"
        "    split = lambda q, k, v, mask: torch.cat(\n"
        "        [attend(a, b, c, torch.ones(a.shape[2], b.shape[2], dtype=torch.bool).tril())\n"
        "         for a, b, c in zip(q.split(sizes, 2), k, v)], 2)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "forgets_the_past",
    "The keys of earlier steps are read again at every step: the tokens of this one are not the whole text.",
    change=(
        "    cache = PackedCache(caches, sizes)\n",
        "    cache = PackedCache(caches, sizes)\n"
        "    split = lambda q, k, v, mask: torch.cat(\n"
        "        [attend(a, b[:, :, -a.shape[2] :], c[:, :, -a.shape[2] :], mask)\n"
        "         for a, b, c in zip(q.split(sizes, 2), k, v)], 2)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "first_token_logits",
    "The next token is predicted at the chunk's last token, not at its first.",
    change=(ROWS, "hidden if all_rows else hidden[[end - n + 1 for end, n in zip(last, sizes)]]"),
)
ghost(
    "level05.packed.packed_step",
    "last_row_alone",
    "Every chunk has a last token: N rows, not the last row of all.",
    change=(ROWS, "hidden if all_rows else hidden[-1:]"),
)
ghost(
    "level05.packed.packed_step",
    "last_rows_of_the_row",
    "The chunks' last tokens are where `last` says, not the last N of the row.",
    change=(ROWS, "hidden if all_rows else hidden[-len(chunks) :]"),
)
ghost(
    "level05.packed.packed_step",
    "all_tokens_reach_the_vocabulary",
    "Choose the rows before the vocabulary: the head is the largest matrix, and the other rows' logits are thrown away.",
    change=(
        "unembed(params, config, hidden if all_rows else hidden[last], linear)",
        "unembed(params, config, hidden, linear)[slice(None) if all_rows else last]",
    ),
)
ghost(
    "level05.packed.packed_step",
    "always_all_rows",
    "Without all_rows only the last token of each chunk gives logits: (N, vocab).",
    change=(ROWS, "hidden"),
)
ghost(
    "level05.packed.packed_step",
    "never_all_rows",
    "With all_rows every token gives logits, (T, vocab): level 08 checks drafts with them.",
    change=(ROWS, "hidden[last]"),
)
ghost(
    "level05.packed.packed_step",
    "batch_axis_left",
    "The logits are (N, vocab), a row for each chunk: the batch axis of the packed row goes.",
    change=(ROWS, "(hidden if all_rows else hidden[last]).unsqueeze(0)"),
)
ghost(
    "level05.packed.packed_step",
    "loop_over_sequences",
    "The logits are right, but every matrix was read once for each sequence: nothing was batched.",
    change=(
        BODY,
        "    if not chunks or not all(len(chunk) for chunk in chunks):\n"
        '        raise ValueError("nothing to run")\n'
        "    rows = []\n"
        "    for chunk, cache in zip(chunks, caches):\n"
        "        ids = torch.tensor([list(chunk)])\n"
        "        hidden = hidden_states(params, config, ids, cache, attend=attend, linear=linear)[0]\n"
        "        rows.append(unembed(params, config, hidden if all_rows else hidden[-1:], linear))\n"
        "    return torch.cat(rows)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "equal_chunks_run_once",
    "Equal chunks of two requests are two sequences, each with a past and a cache of its own.",
    change=(
        "    ids, positions, last = pack(",
        "    if len(chunks) == 2 and list(chunks[0]) == list(chunks[1]):\n"
        "        own = caches[:1], chunks[:1]\n"
        "        return packed_step(params, config, *own, all_rows=all_rows, attend=attend, linear=linear).repeat(2, 1)\n"
        "    ids, positions, last = pack(",
    ),
)
ghost(
    "level05.packed.packed_step",
    "one_head_for_each",
    "The head is a matrix like the others: once for all rows, not once for each sequence.",
    change=(
        "unembed(params, config, hidden if all_rows else hidden[last], linear)",
        "torch.cat([unembed(params, config, row.unsqueeze(0), linear) for row in (hidden if all_rows else hidden[last])])",
    ),
)
ghost(
    "level05.packed.packed_step",
    "prompts_and_decodes_apart",
    "One pass over all chunks: with prompts and decodes in passes of their own the weights are read twice.",
    change=(
        BODY,
        "    if not chunks or not all(len(chunk) for chunk in chunks):\n"
        '        raise ValueError("nothing to run")\n'
        "    rows = [None] * len(chunks)\n"
        "    for many in (False, True):\n"
        "        part = [i for i, chunk in enumerate(chunks) if (len(chunk) > 1) == many]\n"
        "        if part:\n"
        "            own, new = [caches[i] for i in part], [chunks[i] for i in part]\n"
        "            sizes = [len(chunk) for chunk in new]\n"
        "            ids, positions, last = pack(new, [cache.length for cache in own])\n"
        "            split = partial(packed_attention, sizes=sizes, attend=attend)\n"
        "            cache = PackedCache(own, sizes)\n"
        f"            hidden = {PASS}\n"
        "            for i, row, end in zip(part, hidden.split(sizes), last):\n"
        "                rows[i] = row if all_rows else hidden[end : end + 1]\n"
        "    return unembed(params, config, torch.cat(rows), linear)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "caches_in_reverse",
    "Chunk i goes on behind cache i: in another order everybody reads somebody else's text.",
    change=("PackedCache(caches, sizes)", "PackedCache(list(caches)[::-1], sizes)"),
)
ghost(
    "level05.packed.packed_step",
    "ignores_attend",
    "Pass `attend` on: a paged or a tiled attention comes in here.",
    change=("sizes=sizes, attend=attend)", "sizes=sizes)"),
)
ghost(
    "level05.packed.packed_step",
    "ignores_linear",
    "Pass `linear` on, to the layers and to the head: it alone can read a quantized matrix.",
    change=[
        (PASS, "hidden_states(params, config, ids, cache, positions=positions, attend=split)[0]"),
        ("hidden[last], linear)", "hidden[last])"),
    ],
)
ghost(
    "level05.packed.packed_step",
    "head_ignores_linear",
    "The head is a matrix too: pass `linear` on to unembed.",
    change=("hidden[last], linear)", "hidden[last])"),
)
ghost(
    "level05.packed.packed_step",
    "layers_ignore_linear",
    "Pass `linear` on to the layers, not to the head alone.",
    change=(PASS, "hidden_states(params, config, ids, cache, positions=positions, attend=split)[0]"),
)
ghost(
    "level05.packed.packed_step",
    "leaves_the_caches_alone",
    "The new tokens stay in the caches that were given: the next step goes on behind them.",
    change=(
        "    cache = PackedCache(caches, sizes)\n",
        "    import copy\n\n    cache = PackedCache(copy.deepcopy(list(caches)), sizes)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "decodes_have_one_token",
    "A sequence with a past may have a chunk of several tokens: a long prompt comes in parts.",
    change=(
        PACK,
        "pack(chunks := [c[-1:] if cache.length else c for c, cache in zip(chunks, caches)],"
        " [cache.length for cache in caches])",
    ),
)
ghost(
    "level05.packed.packed_step",
    "length_read_between_layers",
    "Read the lengths once, before the layers: after them they count the new tokens, too.",
    change=(ROWS, "hidden if all_rows else hidden[[min(cache.length, len(hidden)) - 1 for cache in caches]]"),
)
ghost(
    "level05.packed.packed_step",
    "second_final_norm",
    "hidden_states ends with the final norm: one more before the head changes every logit.",
    change=(
        "    return unembed(params",
        "    hidden = hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True)) * params['model.norm.weight']\n"
        "    return unembed(params",
    ),
)
ghost(
    "level05.packed.packed_step",
    "row_as_one_text",
    "Each sequence has a cache, positions and a past of its own: the row is no text that goes into the first cache.",
    change=(
        BODY,
        "    ids, positions, last = pack(chunks, [cache.length for cache in caches])\n"
        "    hidden = hidden_states(params, config, ids, caches[0], attend=attend, linear=linear)[0]\n"
        "    return unembed(params, config, hidden if all_rows else hidden[last], linear)\n",
    ),
)
ghost(
    "level05.packed.packed_step",
    "tokens_for_logits",
    "Return logits, (N, vocab): which token is taken from them is for each request to say.",
    change=("hidden[last], linear)", "hidden[last], linear).argmax(-1)"),
)


def _padded_batch(params, config, caches, chunks, *, all_rows=False, attend=None, linear=None):
    """Right logits, from rows of the longest chunk's length."""
    from level00.layers import attention
    from level00.layers import linear as plain
    from level00.transformer import hidden_states, unembed

    if len(caches) != len(chunks) or not chunks or not all(len(chunk) for chunk in chunks):
        raise ValueError("nothing to run")
    attend, linear = attend or attention, linear or plain
    sizes, longest = [len(chunk) for chunk in chunks], max(map(len, chunks))
    ids = torch.tensor([[*chunk, *[0] * (longest - len(chunk))] for chunk in chunks])
    starts = torch.tensor([cache.length for cache in caches])
    positions = (starts.unsqueeze(1) + torch.arange(longest)).clamp(max=config.max_seq_len - 1)

    class Rows:
        def update(self, layer, k, v):
            held = [
                cache.update(layer, k[i : i + 1, :, :n], v[i : i + 1, :, :n])
                for i, (cache, n) in enumerate(zip(caches, sizes))
            ]
            return [k for k, _ in held], [v for _, v in held]

    def rows(q, keys, values, mask):
        out = torch.zeros_like(q)
        for i, n in enumerate(sizes):
            out[i : i + 1, :, :n] = attend(q[i : i + 1, :, :n], keys[i], values[i], mask)
        return out

    hidden = hidden_states(params, config, ids, Rows(), positions=positions, attend=rows, linear=linear)
    parts = [row[:n] if all_rows else row[n - 1 : n] for row, n in zip(hidden, sizes)]
    return unembed(params, config, torch.cat(parts), linear)


ghost(
    "level05.packed.packed_step",
    "pads",
    "Every matrix runs over padding as well: T tokens side by side cost T, padded rows cost N times the longest.",
    program=_padded_batch,
)
