"""Known-wrong programs of level07.decode. `ghost` is given when this is read."""

_PARTS = "parts = min(num_splits, kv_len)"
_BOUNDS = "[kv_len * i // parts for i in range(parts + 1)]"
_ZIP = "return list(zip(bounds, bounds[1:]))"
_WANTED = "-(-num_processors // (batch * n_kv_heads))"
_CHOSEN = "max(1, min(wanted, kv_len // min_chunk))"
_RANGES = "split_ranges(k.shape[2], num_splits)"
_FLASH = "flash_attention(q, k[:, :, start:end], v[:, :, start:end], None, 1, end - start)"
_MERGE = "done = part if done is None else merge(*done, *part)"
_RETURN = "return done[0].to(q.dtype), done[1]"


def _choose(name, sentence, *pairs):
    ghost("level07.decode.choose_splits", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _split(name, sentence, *pairs):
    ghost("level07.decode.split_kv_decode", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- split_ranges

_choose(
    "remainder_dropped",
    "The keys that do not divide evenly are the newest ones: cover all of them.",
    _BOUNDS,
    "[kv_len // parts * i for i in range(parts + 1)]",
)
_choose(
    "remainder_in_the_last",
    "The remainder is shared out, one key to a part: the longest part decides how long all wait.",
    _BOUNDS,
    "[kv_len // parts * i for i in range(parts)] + [kv_len]",
)
_choose(
    "remainder_as_a_part",
    "What is left over belongs to the parts that are there: it is not a part of its own.",
    _ZIP,
    "size = kv_len // parts\n    return [(i, min(i + size, kv_len)) for i in range(0, kv_len, size)]",
)
_choose(
    "all_but_the_last_full",
    "Rounded up, the first parts take too much, and the last ones are short or not there: lengths differ by at most 1.",
    _ZIP,
    "size = -(-kv_len // parts)\n    return [(i, min(i + size, kv_len)) for i in range(0, kv_len, size)]",
)
_choose(
    "empty_parts",
    "No part is empty: with fewer keys than splits there is one for each key.",
    _PARTS,
    "parts = num_splits",
)
_choose(
    "last_key_shared",
    "`end` is the first key of the next part: with the last one of its own, and the next part beginning there, keys "
    "count twice.",
    _ZIP,
    "return [(start, min(end + 1, kv_len)) for start, end in zip(bounds, bounds[1:])]",
)
_choose(
    "end_is_the_last_key",
    "`end` is one behind the last key of the part, as in a slice.",
    _ZIP,
    "return [(start, end - 1) for start, end in zip(bounds, bounds[1:])]",
)
_choose(
    "start_and_length",
    "A part is (start, end), not (start, length).",
    _ZIP,
    "return [(start, end - start) for start, end in zip(bounds, bounds[1:])]",
)
_choose("bounds_alone", "A list of (start, end), one pair for each part.", _ZIP, "return bounds")
_choose(
    "lengths_alone",
    "Where a part begins and ends, not how long it is.",
    _ZIP,
    "return [b - a for a, b in zip(bounds, bounds[1:])]",
)
_choose(
    "from_the_last",
    "The parts are in the order of the keys.",
    _ZIP,
    "return list(zip(bounds, bounds[1:]))[::-1]",
)
_choose(
    "every_nth_key",
    "A part is a stretch of keys that lie side by side, from start to end.",
    _ZIP,
    "return [(i, kv_len - parts + i + 1) for i in range(parts)]",
)
_choose(
    "cut_from_floats",
    "A quotient is rounded, and int(...) then cuts a whole key off, the newest: multiply first, then divide with //.",
    _BOUNDS,
    "[int(kv_len / parts * i) for i in range(parts + 1)]",
)
_choose(
    "one_split_fewer",
    "num_splits parts have num_splits + 1 bounds: yours makes one part fewer.",
    _PARTS,
    "parts = max(1, min(num_splits, kv_len) - 1)",
)
_choose("one_part", "As many parts as splits: yours leaves the whole cache to one.", _PARTS, "parts = 1")
_choose(
    "size_for_number",
    "num_splits is how many parts there are, not how many keys are in one.",
    _PARTS,
    "parts = -(-kv_len // num_splits)",
)
_choose(
    "lists_for_pairs",
    "Each part is a pair, a tuple of start and end.",
    _ZIP,
    "return [[start, end] for start, end in zip(bounds, bounds[1:])]",
)

# ---- choose_splits

_choose(
    "rounded_down",
    "132 processors and 8 heads: 16 splits would leave 4 idle. Round up.",
    _WANTED,
    "num_processors // (batch * n_kv_heads)",
)
_choose(
    "one_more_than_needed",
    "Where it divides evenly no more are needed: each split too many is one more result to merge.",
    _WANTED,
    "num_processors // (batch * n_kv_heads) + 1",
)
_choose(
    "heads_forgotten",
    "Every KV head is a piece of work of its own: fewer splits keep all busy.",
    _WANTED,
    "-(-num_processors // batch)",
)
_choose(
    "batch_forgotten",
    "Every sequence is work of its own: with many requests no split is needed.",
    _WANTED,
    "-(-num_processors // n_kv_heads)",
)
_choose(
    "a_split_for_each_processor",
    "Sequences and KV heads share the processors: not every one needs a split of each head.",
    _WANTED,
    "num_processors",
)
_choose(
    "added_for_multiplied",
    "batch x n_kv_heads pieces of work: each sequence has all heads.",
    _WANTED,
    "-(-num_processors // (batch + n_kv_heads))",
)
_choose(
    "as_many_as_fit",
    "The fewest that keep all busy: beyond that a split only adds a merge.",
    _CHOSEN,
    "max(1, kv_len // min_chunk)",
)
_choose(
    "no_smallest_chunk",
    "Each split keeps min_chunk keys at least: a shorter one costs more to start and merge than it saves.",
    _CHOSEN,
    "min(wanted, kv_len)",
)
_choose(
    "chunks_rounded_up",
    "Rounded up, the splits are shorter than min_chunk: 1000 keys have 3 chunks of 256, not 4.",
    _CHOSEN,
    "max(1, min(wanted, -(-kv_len // min_chunk)))",
)
_choose(
    "no_split_at_all",
    "A cache shorter than min_chunk is one split, not none.",
    _CHOSEN,
    "min(wanted, kv_len // min_chunk)",
)
_choose(
    "keys_of_all_sequences",
    "kv_len is what each sequence has: a split of its cache gets no longer by the others' keys.",
    _CHOSEN,
    "max(1, min(wanted, batch * kv_len // min_chunk))",
)
_choose(
    "larger_of_the_two", "Both limits hold: the smaller number counts.", _CHOSEN, "max(1, wanted, kv_len // min_chunk)"
)
_choose(
    "longer_than_a_chunk",
    "A split of exactly min_chunk keys is long enough.",
    _CHOSEN,
    "max(1, min(wanted, (kv_len - 1) // min_chunk))",
)
_choose(
    "powers_of_two",
    "Any number of splits will do, 17 as well: rounded to a power of two, processors idle or merges are added.",
    _CHOSEN,
    "1 << (max(1, min(wanted, kv_len // min_chunk)) - 1).bit_length()",
)
_choose(
    "keys_for_all_heads",
    "Each KV head has its own cache of kv_len keys: they are not shared out among the heads.",
    _CHOSEN,
    "max(1, min(wanted, kv_len // (min_chunk * batch * n_kv_heads)))",
)

# ---- split_kv_decode

_split(
    "parts_added",
    "Each part is a mean by itself: sums of means are too large. Weigh each by exp(its lse).",
    _MERGE,
    "done = part if done is None else (done[0] + part[0], merge(*done, *part)[1])",
)
_split(
    "mean_of_parts",
    "A split with small scores must not count like one with large ones: weigh each by exp(its lse).",
    _MERGE,
    "done = (0, None) if done is None else done\n"
    "        lse = part[1] if done[1] is None else done[1].logaddexp(part[1])\n"
    "        done = done[0] + part[0] / len(" + _RANGES + "), lse",
)
_split(
    "halves_again_and_again",
    "After a merge the left side stands for all keys before: half of each is right for no number of splits above 2.",
    _MERGE,
    "done = part if done is None else ((done[0] + part[0]) / 2, merge(*done, *part)[1])",
)
_split(
    "weighed_by_keys",
    "How much a part weighs is decided by its scores, not by how many keys it has.",
    _MERGE,
    "lse = part[1] if done is None else done[1].logaddexp(part[1])\n"
    "        done = part[0] * (end - start) / k.shape[2] + (0 if done is None else done[0]), lse",
)
_split(
    "first_lse_kept",
    "After a merge the left side weighs more: its lse must grow with it.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], done[1])",
)
_split(
    "last_lse_kept",
    "The lse of the whole is that of all parts together, not of the last one.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], part[1])",
)
_split(
    "lses_added",
    "An lse is a logarithm: the sums are added, not their logarithms. That is what logaddexp does.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], done[1] + part[1])",
)
_split(
    "larger_lse",
    "The larger lse is only close to that of both: every part adds to the sum.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], done[1].maximum(part[1]))",
)
_split(
    "lses_averaged",
    "The lse of the whole grows with every part: it is no mean of theirs.",
    _RETURN,
    "lses = [flash_attention(q, k[:, :, a:b], v[:, :, a:b], None, 1, b - a)[1] for a, b in " + _RANGES + "]\n"
    "    return done[0].to(q.dtype), sum(lses) / len(lses)",
)
_split(
    "exp_without_the_largest",
    "exp(1000) is infinite: subtract the larger lse before the exponential.",
    _MERGE,
    "weight = part[1].exp()[..., None]\n"
    "        done = (0, 0) if done is None else done\n"
    "        done = done[0] + weight * part[0], done[1] + weight",
    _RETURN,
    "return (done[0] / done[1]).to(q.dtype), done[1].log()[..., 0]",
)
_split(
    "base_two",
    "exp and natural logarithms: yours weighs the parts with powers of two.",
    _MERGE,
    "lse = part[1] if done is None else done[1].logaddexp(part[1])\n"
    "        weight = (part[1] - (part[1] if done is None else (done[1] * 0.6931472).logaddexp(part[1] * 0.6931472)"
    " / 0.6931472)).exp2()[..., None]\n"
    "        done = part if done is None else ((1 - weight) * done[0] + weight * part[0], lse)",
)
_split(
    "lse_for_weight",
    "lse is a logarithm, and may be negative: the weight is its exponential.",
    _MERGE,
    "lse = part[1] if done is None else done[1].logaddexp(part[1])\n"
    "        done = part if done is None else ((done[0] * done[1][..., None] + part[0] * part[1][..., None])"
    " / (done[1] + part[1])[..., None], lse)",
)
_split(
    "winner_takes_all",
    "The split with the largest scores is not the whole answer: the others weigh in.",
    _MERGE,
    "lse = part[1] if done is None else done[1].logaddexp(part[1])\n"
    "        done = part if done is None else (part[0].where((part[1] > done[1])[..., None], done[0]), lse)",
)
_split(
    "last_part_only",
    "What came before is merged with the part, not replaced by it.",
    _MERGE,
    "done = part",
)
_split("first_part_only", "All parts are merged: yours gives back the first.", _MERGE, "done = done or part")
_split(
    "last_part_dropped",
    "The last split holds the newest keys: merge it as well.",
    _RANGES,
    _RANGES + "[: max(1, num_splits - 1)]",
)
_split(
    "not_split",
    "The cache goes into num_splits parts, for as many processors; yours leaves it to one.",
    "split_ranges(k.shape[2], num_splits):",
    "split_ranges(k.shape[2], min(num_splits, 1)):",
)
_split(
    "at_most_one_split_for_each_head",
    "How many splits there are has nothing to do with the number of heads.",
    "split_ranges(k.shape[2], num_splits):",
    "split_ranges(k.shape[2], min(num_splits, k.shape[1])):",
)
_split(
    "mask_for_each_part",
    "Every split reads its own keys; yours reads the whole cache for each, and masks the rest.",
    _FLASH,
    "flash_attention(q, k, v, (torch_arange(k) >= start) & (torch_arange(k) < end), 1, k.shape[2])",
    "    done = None\n",
    "    import torch\n\n    torch_arange = lambda k: torch.arange(k.shape[2]).expand(1, 1, 1, -1)\n    done = None\n",
)
_split(
    "copied_first",
    "Every key and value is read once; yours reads the cache twice, or copies it before anything is computed.",
    "    done = None\n",
    "    k, v = k * 1, v * 1\n    done = None\n",
)
_split(
    "causal_parts",
    "The query stands behind all keys of every part: none of them is hidden from it.",
    _FLASH,
    "flash_attention(q.expand(-1, -1, end - start, -1), k[:, :, start:end], v[:, :, start:end], 'causal', 1, end - start)\n"
    "        part = part[0][:, :, :1], part[1][:, :, :1]",
)
_split(
    "values_of_the_first_part",
    "Weights of a split belong to the values of the same split.",
    _FLASH,
    "flash_attention(q, k[:, :, start:end], v[:, :, : end - start], None, 1, end - start)",
)
_split(
    "heads_interleaved",
    "Query heads that share a KV head are neighbours: head h reads KV head h // (H / G).",
    _FLASH,
    "flash_attention(q.unflatten(1, (-1, k.shape[1])).transpose(1, 2).flatten(1, 2), k[:, :, start:end], "
    "v[:, :, start:end], None, 1, end - start)",
    _RETURN,
    "done = tuple(x.unflatten(1, (k.shape[1], -1)).transpose(1, 2).flatten(1, 2) for x in done)\n    " + _RETURN,
)
_split(
    "first_of_a_pair_only",
    "Splits beyond a full round count as well: parts are merged one by one, or in pairs with the odd one carried along.",
    _RETURN,
    "parts = [flash_attention(q, k[:, :, a:b], v[:, :, a:b], None, 1, b - a) for a, b in " + _RANGES + "]\n"
    "    while len(parts) > 1:\n"
    "        parts = [merge(*a, *b) for a, b in zip(parts[::2], parts[1::2])]\n"
    "    return parts[0][0].to(q.dtype), parts[0][1]",
)
_split(
    "out_alone",
    "The lse is part of the result: others may merge this one again.",
    _RETURN,
    "return done[0].to(q.dtype)",
)
_split("lse_first", "out comes first, then lse.", _RETURN, "return done[1], done[0].to(q.dtype)")
_split(
    "lse_with_an_axis",
    "lse is (B, H, 1): one number for each query.",
    _RETURN,
    "return done[0].to(q.dtype), done[1][..., None]",
)
_split(
    "query_axis_lost",
    "out keeps the axis of the one query: (B, H, 1, D).",
    _RETURN,
    "return done[0][:, :, 0].to(q.dtype), done[1]",
)
_split(
    "float32_out",
    "out has the query's dtype, with any number of splits: the next layer expects it.",
    _RETURN,
    "return done[0].to(done[1].dtype), done[1]",
)
_split(
    "narrow_lse",
    "lse stays float32 or better: in bfloat16 its exponential is off by several percent.",
    _RETURN,
    "return done[0].to(q.dtype), done[1].to(q.dtype)",
)
_split(
    "narrow_merge",
    "Parts are weighed in float32 or better: rounded to bfloat16 in between, an lse has two or three digits.",
    _MERGE,
    "part = part[0], part[1].to(q.dtype).to(part[1].dtype)\n        " + _MERGE,
)
_split(
    "float32_of_float64",
    "A float64 query is computed in float64.",
    _FLASH,
    "flash_attention(q.float(), k[:, :, start:end].float(), v[:, :, start:end].float(), None, 1, end - start)",
    _RETURN,
    "return done[0].to(q.dtype), done[1].to(done[1].dtype if q.dtype.itemsize < 8 else q.dtype)",
)
_split(
    "read_for_each_query_head",
    "Query heads that share a KV head share the reading, too: its keys are read once for the group, not for each head.",
    _FLASH,
    "flash_attention(q[:, ::group], k[:, :, start:end], v[:, :, start:end], None, 1, end - start)\n"
    "        parts = [flash_attention(q[:, h::group], k[:, :, start:end], v[:, :, start:end], None) for h in range(group)]\n"
    "        part = tuple(torch.stack(x, 2).flatten(1, 2) for x in zip(*parts))",
    "    done = None\n",
    "    import torch\n\n    done, group = None, q.shape[1] // k.shape[1]\n",
)
