"""Known-wrong programs of level 00, and the slips of its worksheet. `ghost` and `slip` are given when this is read."""

from math import exp, pi, sqrt

import torch

# ---- bpe


ghost(
    "level00.bpe.train_bpe",
    "right_to_left",
    "Merges go from left to right; in a run of equal ids the direction changes the result.",
    part="merge_pair",
    program=lambda ids, pair, new_id: _merge_from_the_right(ids, pair, new_id),
)


def _merge_from_the_right(ids, pair, new_id):
    merged, i = [], len(ids) - 1
    while i >= 0:
        if i >= 1 and (ids[i - 1], ids[i]) == pair:
            merged.append(new_id)
            i -= 2
        else:
            merged.append(ids[i])
            i -= 1
    return merged[::-1]


ghost(
    "level00.bpe.train_bpe",
    "does_not_consume",
    "A merge replaces two ids by one: skip both after a match, or an id is used twice.",
    change=("            i += 2\n", "            i += 1\n"),
)
ghost(
    "level00.bpe.train_bpe",
    "first_only",
    "Every occurrence is merged in one pass, not only the first.",
    change=(
        "            merged.append(new_id)\n            i += 2\n",
        "            return merged + [new_id, *ids[i + 2 :]]\n",
    ),
)
ghost(
    "level00.bpe.train_bpe",
    "loses_the_last",
    "The last id has no right neighbour but must be kept: the list ends one id short.",
    change=("while i < len(ids):", "while i < len(ids) - 1:"),
)
ghost(
    "level00.bpe.train_bpe",
    "swallows_runs",
    "Occurrences do not overlap: in a run of three the third id stays, it is not merged with the pair before it.",
    change=(
        "            i += 2\n",
        "            i += 2\n            while i < len(ids) and ids[i - 1 : i + 1] == [*pair]:\n                i += 1\n",
    ),
)
ghost(
    "level00.bpe.train_bpe",
    "works_in_place",
    "Build a new list: the caller still needs the old ids.",
    change=("merged, i = [], 0", "merged, i = [], 0\n    whole, ids = ids, list(ids)\n    del whole[:]"),
)
ghost(
    "level00.bpe.train_bpe",
    "code_points",
    "Start from the UTF-8 bytes, not from characters: 256 ids must be able to spell any text.",
    change=('list(text.encode("utf-8"))', "[ord(c) for c in text]"),
)
ghost(
    "level00.bpe.train_bpe",
    "counts_once",
    "Count again after every merge: later merges build on earlier ones.",
    change=(
        "        counts = Counter(zip(ids, ids[1:]))\n",
        '        whole = list(text.encode("utf-8"))\n'
        "        counts = Counter({p: n for p, n in Counter(zip(whole, whole[1:])).items() if p not in merges})\n",
    ),
)
ghost(
    "level00.bpe.train_bpe",
    "tie_first_seen",
    "On a tie take the smallest pair of ids, not the first seen, so that two people train the same tokenizer.",
    change=("(-counts[pair], pair)", "-counts[pair]"),
    convention=True,
)
ghost(
    "level00.bpe.train_bpe",
    "tie_largest",
    "On a tie take the smallest pair of ids, not the largest.",
    change=("(-counts[pair], pair)", "(-counts[pair], -pair[0], -pair[1])"),
    convention=True,
)
ghost(
    "level00.bpe.train_bpe",
    "merges_singletons",
    "A pair seen once compresses nothing: stop when no pair occurs twice.",
    change=("counts[best] < 2", "counts[best] < 1"),
)
ghost(
    "level00.bpe.train_bpe",
    "vocab_size_is_merges",
    "vocab_size counts the 256 bytes too: 259 ids leave room for three merges.",
    change=("while 256 + len(merges) < vocab_size:", "while len(merges) < vocab_size:"),
)
ghost(
    "level00.bpe.train_bpe",
    "one_merge_short",
    "Off by one: with vocab_size 259 the ids run to 258, so there are three merges.",
    change=("while 256 + len(merges) < vocab_size:", "while 257 + len(merges) < vocab_size:"),
)
ghost(
    "level00.bpe.train_bpe",
    "counts_without_overlap",
    "Count every adjacent pair, overlapping ones too: aaa holds (a, a) twice.",
    change=(
        "        counts = Counter(zip(ids, ids[1:]))\n",
        "        counts, last = Counter(), None\n"
        "        for i, pair in enumerate(zip(ids, ids[1:])):\n"
        "            if (pair, i - 1) != last:\n"
        "                counts[pair] += 1\n"
        "                last = (pair, i)\n",
    ),
    convention=True,
)


def _longest_match(ids, merges):
    parts = {new_id: pair for pair, new_id in merges.items()}

    def flat(i):
        return flat(parts[i][0]) + flat(parts[i][1]) if i in parts else (i,)

    words = {flat(i): i for i in parts} | {(i,): i for i in ids}
    longest = max(map(len, words), default=0)
    out, i, ids = [], 0, tuple(ids)
    while i < len(ids):
        j = max(j for j in range(i + 1, min(i + longest, len(ids)) + 1) if ids[i:j] in words)
        out.append(words[ids[i:j]])
        i = j
    return out


ghost(
    "level00.bpe.apply_merges",
    "longest_match",
    "Encoding replays the merges in the order in which they were learnt; the longest match from the left is another algorithm.",
    program=_longest_match,
)
ghost(
    "level00.bpe.apply_merges",
    "leftmost_merge",
    "Merge the pair that was learnt earliest (the smallest new id), wherever it stands, not the first one that you meet.",
    change=("key=lambda pair: merges.get(pair, inf)", "key=lambda pair: pair not in merges"),
)
ghost(
    "level00.bpe.apply_merges",
    "latest_first",
    "The earliest learnt pair goes first, that is the smallest new id; you take the largest.",
    change=("merges.get(pair, inf)", "-merges.get(pair, -inf)"),
)
ghost(
    "level00.bpe.apply_merges",
    "one_round",
    "Repeat until no adjacent pair is in the table: merges build on merges.",
    change=("while len(ids) > 1:", "for _ in range(1 if len(ids) > 1 else 0):"),
)
ghost(
    "level00.bpe.apply_merges",
    "ids_from_256",
    "A pair's new id stands in the table; do not make it up from its place: real vocabularies do not start at 256.",
    change=("merge_pair(ids, first, merges[first])", "merge_pair(ids, first, 256 + list(merges).index(first))"),
)
ghost(
    "level00.bpe.apply_merges",
    "walks_the_table",
    "Look the pairs of the text up in the table; walking all 48,900 merges for every piece takes a thousand times longer.",
    program=lambda ids, merges: _walk(ids, merges),
)


def _walk(ids, merges):
    ids = list(ids)
    while found := [p for p in sorted(merges, key=lambda p: merges[p]) if p in set(zip(ids, ids[1:]))]:
        new_id, out = merges[found[0]], []
        for i in ids:
            out[-1:] = [new_id] if out and (out[-1], i) == found[0] else [*out[-1:], i]
        ids = out
    return ids


ghost(
    "level00.bpe.decode",
    "per_token",
    "Join the bytes of all tokens first, then decode UTF-8 once: a character may be spread over several tokens.",
    change=(
        'b"".join(pieces[i] for i in ids).decode("utf-8", errors="replace")',
        '"".join(pieces[i].decode("utf-8", errors="replace") for i in ids)',
    ),
)
ghost(
    "level00.bpe.decode",
    "strict",
    "A model can emit half a character: replace it with U+FFFD, do not raise.",
    change=('errors="replace"', 'errors="strict"'),
)
ghost(
    "level00.bpe.decode",
    "ignore",
    "Half a character is replaced with U+FFFD, so that it can be seen, not dropped.",
    change=('errors="replace"', 'errors="ignore"'),
)
ghost(
    "level00.bpe.decode",
    "chr",
    "Ids below 256 are bytes, not code points: 195, 169 is one character.",
    change=(
        'b"".join(pieces[i] for i in ids).decode("utf-8", errors="replace")',
        '"".join(map(chr, b"".join(pieces[i] for i in ids)))',
    ),
)
ghost(
    "level00.bpe.decode",
    "one_level",
    "A merged id may consist of merged ids: unroll the table down to bytes.",
    change=(
        "pieces[left] + pieces[right]  # its parts were learnt before it",
        "bytes([left % 256, right % 256])",
    ),
)


def _digits(ids, pair, new_id):
    text = " ".join(map(str, ids)).replace(" ".join(map(str, pair)), str(new_id))
    return [int(word) for word in text.split()]


ghost(
    "level00.bpe.train_bpe",
    "replaces_digits",
    "Compare ids, not their digits: the text 15 6 contains 5 6, the ids 15 and 6 do not.",
    program=_digits,
    part="merge_pair",
)


def _one_call_an_id(ids, pair, new_id):
    if len(ids) < 2:
        return list(ids)
    match = (ids[0], ids[1]) == pair
    head, rest = (new_id, ids[2:]) if match else (ids[0], ids[1:])
    return [head, *_one_call_an_id(rest, pair, new_id)]


ghost(
    "level00.bpe.train_bpe",
    "one_call_an_id",
    "Use a loop: Python ends a recursion after a thousand calls, and texts are longer.",
    program=_one_call_an_id,
    part="merge_pair",
)
ghost(
    "level00.bpe.train_bpe",
    "returns_its_argument",
    "Return a new list also when nothing matches: yours hands the caller's own list back.",
    change=("merged, i = [], 0", "merged, i = [], 0\n    if pair not in zip(ids, ids[1:]):\n        return ids"),
)
ghost(
    "level00.bpe.train_bpe",
    "tie_by_spelling",
    "On a tie compare the ids, not the bytes that they spell: 97 is smaller than 256, whatever 256 stands for.",
    change=[
        ("(-counts[pair], pair)", "(-counts[pair], spelled[pair[0]], spelled[pair[1]])"),
        (
            'list(text.encode("utf-8")), {}',
            'list(text.encode("utf-8")), {}\n    spelled = {i: bytes([i]) for i in range(256)}',
        ),
        (
            "merges[best] = 256 + len(merges)\n",
            "merges[best] = 256 + len(merges)\n        spelled[merges[best]] = spelled[best[0]] + spelled[best[1]]\n",
        ),
    ],
    convention=True,
)
ghost(
    "level00.bpe.train_bpe",
    "stays_within_words",
    "A space is a byte like any other here: cutting text into words is left to the tokenizer.",
    change=("Counter(zip(ids, ids[1:]))", "Counter(pair for pair in zip(ids, ids[1:]) if 32 not in pair)"),
    convention=True,
)
ghost(
    "level00.bpe.apply_merges",
    "order_of_the_dict",
    "The smallest new id goes first; the order in which the dict lists its pairs may be another.",
    change=[
        ("key=lambda pair: merges.get(pair, inf)", "key=lambda pair: rank.get(pair, inf)"),
        ("    while len(ids) > 1:", "    rank = {pair: i for i, pair in enumerate(merges)}\n    while len(ids) > 1:"),
    ],
)
ghost(
    "level00.bpe.apply_merges",
    "short_inputs_come_back",
    "Return a list whatever came in: the bytes of an empty text would come back as bytes.",
    change=("    ids = list(ids)\n", "    if len(ids) < 2:\n        return ids\n    ids = list(ids)\n"),
)
ghost(
    "level00.bpe.apply_merges",
    "zero_is_no_id",
    "0 is an id too, and false in Python: give `get` a default instead of using `or`.",
    change=("merges.get(pair, inf)", "merges.get(pair) or inf"),
)


def _one_call_a_merge(ids, merges):
    places = [i for i in range(len(ids) - 1) if (ids[i], ids[i + 1]) in merges]
    if not places:
        return list(ids)
    i = min(places, key=lambda i: merges[ids[i], ids[i + 1]])
    return _one_call_a_merge([*ids[:i], merges[ids[i], ids[i + 1]], *ids[i + 2 :]], merges)


ghost(
    "level00.bpe.apply_merges",
    "one_call_a_merge",
    "Loop until nothing is left to merge: Python ends a recursion after a thousand calls, and a prompt has more merges.",
    program=_one_call_a_merge,
)
ghost(
    "level00.bpe.decode",
    "strips",
    "Spaces and line ends belong to the text: return every character.",
    change=('.decode("utf-8", errors="replace")', '.decode("utf-8", errors="replace").strip()'),
)
ghost(
    "level00.bpe.decode",
    "ids_from_256",
    "A merged id is the one in the table; do not count them from 256: real vocabularies start elsewhere.",
    change=(
        "for (left, right), new_id in merges.items():",
        "for new_id, (left, right) in enumerate(merges, 256):",
    ),
)


def _search(ids, merges):
    ids = list(ids)
    if unknown := set(ids) - set(range(256)) - set(merges.values()):
        raise ValueError(f"id {min(unknown)}")

    def spelled(i):
        return bytes([i]) if i < 256 else b"".join(spelled(p) for pair in merges if merges[pair] == i for p in pair)

    return b"".join(map(spelled, ids)).decode("utf-8", errors="replace")


ghost(
    "level00.bpe.decode",
    "searches_the_table",
    "Turn the table round once, from new id to bytes; searching its 48,900 entries for every id takes seconds.",
    program=_search,
)

# ---- layers

ghost(
    "level00.layers.softmax",
    "no_max",
    "Subtract the row's maximum first: exp(89) already overflows float32.",
    change=("weights = (x - largest).exp()", "weights = x.exp()"),
)
ghost(
    "level00.layers.softmax",
    "global_max",
    "Subtract each row's own maximum; the tensor's maximum sends the other rows to 0.",
    change=("x.amax(dim, keepdim=True)", "x.max() + 0 * x.amax(dim, keepdim=True).nan_to_num(neginf=0)"),
)
ghost(
    "level00.layers.softmax",
    "ignores_dim",
    "Normalize along the axis `dim`; you always take the last one.",
    change=("largest = x.amax(dim, keepdim=True)", "dim = -1\n    largest = x.amax(dim, keepdim=True)"),
)
ghost(
    "level00.layers.softmax",
    "wrong_axis",
    "Normalize over the keys, the last axis by default: each query's weights sum to 1.",
    change=(
        "largest = x.amax(dim, keepdim=True)",
        "dim = 0 if dim == -1 else dim\n    largest = x.amax(dim, keepdim=True)",
    ),
)
ghost(
    "level00.layers.softmax",
    "nan_row",
    "A slice that is -inf throughout must give zeros: one NaN from a padding row poisons the batch.",
    program=lambda x, dim=-1: torch.softmax(x, dim),
)
ghost(
    "level00.layers.softmax",
    "uniform_row",
    "A slice that is -inf throughout gives zeros, not equal weights: a query that may see nothing takes nothing.",
    program=lambda x, dim=-1: torch.softmax(x.clamp(min=torch.finfo(x.dtype).min), dim),
)
ghost(
    "level00.layers.softmax",
    "sums_the_last_axis",
    "The sum runs along `dim` too, as the maximum does; you sum along the last axis.",
    change=("weights.sum(dim, keepdim=True)", "weights.sum(-1, keepdim=True)"),
)
ghost(
    "level00.layers.softmax",
    "adds_epsilon",
    "The weights sum to 1 exactly; an epsilon in the denominator takes a little from every one of them.",
    change=(".clamp(min=torch.finfo(x.dtype).tiny)", " + 1e-4"),
)
ghost(
    "level00.layers.rms_norm",
    "layer_norm",
    "RMSNorm does not subtract the mean; LayerNorm does.",
    change=("wide = x.float()", "wide = x.float() - x.float().mean(-1, keepdim=True)"),
)
ghost(
    "level00.layers.rms_norm",
    "eps_outside",
    "eps stands under the square root, next to the mean of squares.",
    change=(
        "torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)",
        "1 / (wide.square().mean(-1, keepdim=True).sqrt() + eps)",
    ),
)
ghost(
    "level00.layers.rms_norm",
    "no_eps",
    "eps is missing: a row of zeros becomes 0/0.",
    change=("keepdim=True) + eps)", "keepdim=True))"),
)
ghost(
    "level00.layers.rms_norm",
    "l2_norm",
    "Divide by the root of the mean square, not of the sum: the result shrinks by sqrt(d) otherwise.",
    change=("wide.square().mean(", "wide.square().sum("),
)
ghost(
    "level00.layers.rms_norm",
    "half_accumulate",
    "Square in float32: 300² overflows float16, and the token vanishes.",
    change=[("wide = x.float()", "wide = x"), ("weight.float()", "weight")],
)
ghost(
    "level00.layers.rms_norm",
    "rounds_before_the_weight",
    "Multiply by the weight in float32 and round once, at the end; you round before it as well (transformers' Llama does).",
    change=("(wide * weight.float()).to(x.dtype)", "wide.to(x.dtype) * weight"),
    convention=True,
)
ghost(
    "level00.layers.rms_norm",
    "keeps_float32",
    "The result has the dtype of x: cast it back at the end.",
    change=("(wide * weight.float()).to(x.dtype)", "wide * weight.float()"),
)
ghost(
    "level00.layers.rms_norm",
    "one_plus_weight",
    "Scale by the weight itself; 1 + weight is Gemma's convention.",
    change=("weight.float()", "(1 + weight.float())"),
    convention=True,
)
ghost(
    "level00.layers.rms_norm",
    "whole_tensor",
    "Each position has its own mean square: average over the last axis only.",
    change=(".mean(-1, keepdim=True)", ".mean()"),
)
ghost(
    "level00.layers.rope_tables",
    "half_exponent",
    "Plane i turns at theta^(-2i / head_dim): the factor 2 belongs there.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (-plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "doubled_exponent",
    "There are head_dim / 2 planes, i = 0, 1, 2, …, and the exponent is -2i / head_dim; you count i in steps of two as well.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (-4 * plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "interleaved_table",
    "Half-split pairs feature i with i + head_dim / 2, so the angles run a_0, a_1, …, a_0, a_1, …, not each one twice in a row.",
    change=("torch.cat([angle, angle], -1)", "angle.repeat_interleave(2, -1)"),
    convention=True,
)
ghost(
    "level00.layers.rope_tables",
    "one_based",
    "Position 0 is not turned: its cos is 1 and its sin 0.",
    change=("positions.double()", "(positions.double() + 1)"),
)
ghost(
    "level00.layers.rope_tables",
    "bf16_positions",
    "Compute angles in float32 or better: bfloat16 has no 257, it becomes 256.",
    change=("positions.double()", "positions.bfloat16().double()"),
)
ghost(
    "level00.layers.rope_tables",
    "fp16_angles",
    "Compute angles in float32 or better: float16 keeps eleven bits, so far angles are off by half a radian.",
    change=("    angle = torch.cat(", "    angle = angle.half().double()\n    angle = torch.cat("),
)
ghost(
    "level00.layers.rope_tables",
    "ignores_theta",
    "The base of the frequencies is the argument theta; 10000 is only the paper's choice.",
    change=("frequency = theta **", "frequency = 10000.0 **"),
)
ghost(
    "level00.layers.rope_tables",
    "positive_exponent",
    "Later planes turn more slowly: the exponent is negative.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (2 * plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "float64_tables",
    "The tables are float32; float64 would turn all that they touch into float64.",
    change=("angle.cos().float(), angle.sin().float()", "angle.cos(), angle.sin()"),
)
ghost(
    "level00.layers.apply_rope",
    "interleaved",
    "This model pairs feature i with i + head_dim / 2; you pair neighbours, which is the paper's layout: fine for a token or two, then babble.",
    program=lambda x, cos, sin: _neighbours(x, cos, sin),
    convention=True,
)


def _neighbours(x, cos, sin):
    half = x.shape[-1] // 2
    c, s, even, odd = cos[..., :half], sin[..., :half], x[..., 0::2], x[..., 1::2]
    return torch.stack([even * c - odd * s, odd * c + even * s], -1).flatten(-2).to(x.dtype)


ghost(
    "level00.layers.apply_rope",
    "mixed_layouts",
    "The tables are half-split but your turn swaps neighbours: two layouts mixed, and the vector's length changes.",
    change=(
        "turned = torch.cat([-second, first], -1)",
        "turned = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)",
    ),
)
ghost(
    "level00.layers.apply_rope",
    "no_minus",
    "A rotation has one minus sign; without it the length of the vector changes.",
    change=("[-second, first]", "[second, first]"),
)
ghost(
    "level00.layers.apply_rope",
    "turns_backwards",
    "Turn by plus the angle: (a, b) becomes (a cos - b sin, b cos + a sin); yours turns the other way.",
    change=("[-second, first]", "[second, -first]"),
)
ghost(
    "level00.layers.apply_rope",
    "identity",
    "Nothing is turned: the vector comes back as it was.",
    change=("(x * cos + turned * sin)", "x"),
)
ghost(
    "level00.layers.apply_rope",
    "keeps_float32",
    "The result has the dtype of x: the float32 tables must not widen it.",
    change=(".to(x.dtype)", ""),
)
ghost(
    "level00.layers.causal_mask",
    "top_left",
    "The queries are the last tokens: the diagonal ends in the lower right corner.",
    change=("torch.arange(kv_len - q_len, kv_len)", "torch.arange(q_len)"),
)
ghost(
    "level00.layers.causal_mask",
    "not_itself",
    "A token attends to itself; otherwise the first one attends to nothing.",
    change=("<= query_positions", "< query_positions"),
)
ghost(
    "level00.layers.causal_mask",
    "inverted",
    "True means may attend here, as in scaled_dot_product_attention; nn.MultiheadAttention means the opposite.",
    change=("<= query_positions", "> query_positions"),
    convention=True,
)
ghost(
    "level00.layers.causal_mask",
    "looks_ahead",
    "You let a query see what comes after it: keys up to its own position, not from it on.",
    change=("<= query_positions", ">= query_positions"),
)
ghost(
    "level00.layers.causal_mask",
    "additive",
    "The mask is boolean, True where a query may attend; adding -inf to scores is left to attention.",
    change=(
        "return torch.arange(kv_len) <= query_positions.unsqueeze(-1)",
        "return torch.zeros(q_len, kv_len).masked_fill(torch.arange(kv_len) > query_positions.unsqueeze(-1), -torch.inf)",
    ),
    convention=True,
)
ghost(
    "level00.layers.causal_mask",
    "numbers",
    "The mask is boolean: True and False, not 1.0 and 0.0.",
    change=(
        "return torch.arange(kv_len) <= query_positions.unsqueeze(-1)",
        "return (torch.arange(kv_len) <= query_positions.unsqueeze(-1)).float()",
    ),
)
ghost(
    "level00.layers.causal_mask",
    "sees_all",
    "Nothing is hidden: a query may see keys up to its own position only.",
    change=("torch.arange(kv_len) <= query_positions.unsqueeze(-1)", "torch.ones(q_len, kv_len, dtype=torch.bool)"),
)
ghost(
    "level00.layers.attention",
    "unscaled",
    "Divide the scores by sqrt(head_dim), or the softmax saturates as heads grow.",
    change=(" * D**-0.5", ""),
)
ghost(
    "level00.layers.attention",
    "scale_by_dim",
    "The scale is 1 / sqrt(head_dim), not 1 / head_dim.",
    change=("D**-0.5", "D**-1.0"),
)
ghost(
    "level00.layers.attention",
    "scale_by_model",
    "The scale is 1 / sqrt(head_dim), of one head, not of all heads together.",
    change=("D**-0.5", "(H * D) ** -0.5"),
)
ghost(
    "level00.layers.attention",
    "mod_heads",
    "Neighbouring query heads share a KV head: h // group, not h % n_kv_heads.",
    change=(
        "    grouped = q.float()",
        "    k, v = (t.repeat(1, H // G, 1, 1) for t in (k, v))\n    G = H\n    grouped = q.float()",
    ),
)
ghost(
    "level00.layers.attention",
    "first_kv_head",
    "Each group of query heads has a KV head of its own; you read the first one for all.",
    change=(
        "    grouped = q.float()",
        "    k, v = k[:, :1].expand_as(k), v[:, :1].expand_as(v)\n    grouped = q.float()",
    ),
)
ghost(
    "level00.layers.attention",
    "mask_zero",
    "A score of 0 is an ordinary score; a key that may not be seen needs -inf before the softmax.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 0.0)"),
)
ghost(
    "level00.layers.attention",
    "mask_after",
    "Masking after the softmax leaves weights that no longer sum to 1.",
    change=("softmax(scores.masked_fill(~mask, -torch.inf))", "softmax(scores) * mask"),
)
ghost(
    "level00.layers.attention",
    "mask_inverted",
    "True means may attend: you hide what is visible and show the rest.",
    change=("masked_fill(~mask", "masked_fill(mask"),
)
ghost(
    "level00.layers.attention",
    "ignores_the_mask",
    "The mask is not used at all.",
    change=("scores.masked_fill(~mask, -torch.inf)", "scores"),
)
ghost(
    "level00.layers.attention",
    "softmax_over_queries",
    "Normalize over the keys of one query, not over the queries of one key.",
    change=("softmax(scores.masked_fill(~mask, -torch.inf))", "softmax(scores.masked_fill(~mask, -torch.inf), -2)"),
)
ghost(
    "level00.layers.attention",
    "minus_1e4",
    "Hide a key with -inf, not with a large number: a query that may see nothing would get the mean of all values.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -1e4)"),
)
ghost(
    "level00.layers.attention",
    "minus_1e9",
    "Hide a key with -inf: with a large negative number a query that may see nothing gets the mean of all values.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -1e9)"),
)
ghost(
    "level00.layers.attention",
    "half_scores",
    "Scores and softmax are computed in float32: bfloat16 keeps eight bits of each weight.",
    change=[("q.float()", "q"), ("k.float()", "k"), ("v.float()", "v")],
)
ghost(
    "level00.layers.attention",
    "rebuilds_a_square_mask",
    "Use the mask that you are given; one built from the query length alone is aligned to the first key.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~(torch.ones(Q, K).tril().bool() & mask), -torch.inf)"),
)
ghost(
    "level00.layers.softmax",
    "changes_x",
    "Work on a copy: the scores belong to the caller.",
    change=("weights = (x - largest).exp()", "weights = x.sub_(largest).exp_()"),
)
ghost(
    "level00.layers.softmax",
    "masks_large_negatives",
    "Only -inf is masked; -100,000 is a score like any other.",
    change=("    largest = x.amax", "    x = x.masked_fill(x < -1e4, -torch.inf)\n    largest = x.amax"),
)
ghost(
    "level00.layers.softmax",
    "returns_float32",
    "The weights have the dtype of x: cast them back at the end.",
    change=("    largest = x.amax", "    x = x.float()\n    largest = x.amax"),
)
ghost(
    "level00.layers.rms_norm",
    "changes_x",
    "x.float() of a float32 tensor is x itself: multiply into a new tensor, not in place.",
    change=("wide = wide * torch.rsqrt", "wide *= torch.rsqrt"),
)
ghost(
    "level00.layers.rms_norm",
    "fixed_eps",
    "Use the eps that you are given; 1e-5 is one model's.",
    change=("keepdim=True) + eps)", "keepdim=True) + 1e-5)"),
)
ghost(
    "level00.layers.rms_norm",
    "rounds_the_weight",
    "Take the weight to float32 as it is; cast to the dtype of x first, it loses bits.",
    change=("weight.float()", "weight.to(x.dtype).float()"),
)
ghost(
    "level00.layers.rms_norm",
    "dtype_of_the_weight",
    "The result has the dtype of x, not of the weight.",
    change=(".to(x.dtype)", ".to(weight.dtype)"),
)
ghost(
    "level00.layers.rope_tables",
    "swapped_tables",
    "cos comes first, sin second.",
    change=("angle.cos().float(), angle.sin().float()", "angle.sin().float(), angle.cos().float()"),
)
ghost(
    "level00.layers.rope_tables",
    "outer_product",
    "Positions may have a batch axis: multiply by broadcasting, since torch.outer takes vectors only.",
    change=("positions.double().unsqueeze(-1) * frequency", "torch.outer(positions.double(), frequency)"),
)
ghost(
    "level00.layers.rope_tables",
    "table_of_fixed_length",
    "Compute the angles of the positions that you are given; a table made in advance ends somewhere.",
    change=(
        "positions.double().unsqueeze(-1) * frequency",
        "(torch.arange(8192).double().unsqueeze(-1) * frequency)[positions]",
    ),
)
ghost(
    "level00.layers.apply_rope",
    "needs_contiguous_x",
    "x comes transposed out of split_heads, where `view` fails: split its last axis, or use reshape.",
    change=("first, second = x.chunk(2, -1)", "first, second = x.view(-1, x.shape[-1]).view(x.shape).chunk(2, -1)"),
)
ghost(
    "level00.layers.attention",
    "changes_q",
    "q.float() of a float32 tensor is q itself: scale a copy.",
    change=[
        (
            "    grouped = q.float().reshape(B",
            "    wide = q.float()\n    wide *= D**-0.5\n    grouped = wide.reshape(B",
        ),
        ("k.float().mT * D**-0.5)", "k.float().mT)"),
    ],
)
ghost(
    "level00.layers.attention",
    "minus_1e4_and_zeros",
    "Hide a key with -inf: a visible score may be below -10,000, and the hidden key would win.",
    change=(
        "softmax(scores.masked_fill(~mask, -torch.inf))",
        "softmax(scores.masked_fill(~mask, -1e4)) * mask.any(-1, keepdim=True)",
    ),
)
ghost(
    "level00.layers.attention",
    "scores_in_half",
    "Go to float32 before q kᵀ: a sum in half precision has lost its bits, or overflowed, when you cast it.",
    change=[
        ("q.float().reshape", "q.reshape"),
        ("(grouped @ k.float().mT * D**-0.5)", "(grouped @ k.mT).float().mul(D**-0.5)"),
    ],
)
ghost(
    "level00.layers.attention",
    "needs_contiguous_q",
    "q comes transposed out of split_heads, where `view` fails: reshape copies if it must.",
    change=("q.float().reshape(", "q.float().view("),
)

# ---- transformer

ghost(
    "level00.transformer.block",
    "swapped_gate",
    "SiLU goes on the gate projection; exchanging gate and up keeps every shape and breaks every value.",
    change=(
        "linear(silu(linear(x, w_gate)) * linear(x, w_up), w_down)",
        "linear(silu(linear(x, w_up)) * linear(x, w_gate), w_down)",
    ),
)
ghost(
    "level00.transformer.block",
    "sigmoid_gate",
    "silu(z) is z · sigmoid(z); the plain sigmoid is the older GLU.",
    change=("linear(silu(linear(x, w_gate))", "linear(torch.sigmoid(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.block",
    "gelu_gate",
    "Llama's gate is SiLU; GELU makes it GeGLU.",
    change=("linear(silu(linear(x, w_gate))", "linear(torch.nn.functional.gelu(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.block",
    "no_gate",
    "The gate multiplies the up projection: without it this is a plain MLP.",
    change=("silu(linear(x, w_gate)) * linear(x, w_up)", "silu(linear(x, w_up))"),
)
ghost(
    "level00.transformer.block",
    "rotates_values",
    "Rotate queries and keys only: values carry content, not position.",
    change=(
        "q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)",
        "q, k, v = (apply_rope(t, cos, sin) for t in (q, k, v))",
    ),
)
ghost(
    "level00.transformer.block",
    "rotates_queries_only",
    "Keys are rotated as well: the score depends on the distance only if both are.",
    change=("q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)", "q = apply_rope(q, cos, sin)"),
)
ghost(
    "level00.transformer.block",
    "no_rotation",
    "Queries and keys must be rotated, or the prefix is a bag of words.",
    change=("    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n", ""),
)
ghost(
    "level00.transformer.block",
    "caches_unrotated",
    "Rotate before the cache: what it holds is read at every later step and must be final.",
    change=[
        ("    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n", ""),
        (
            "        k, v = cache.update(layer, k, v)\n",
            "        k, v = cache.update(layer, k, v)\n    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n",
        ),
    ],
)
ghost(
    "level00.transformer.block",
    "repeats_kv",
    "Give attend the KV heads as they are; repeating them for every query head multiplies the bytes that it reads.",
    change=(
        "attend(q, k, v, mask)",
        "attend(q, *(t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v)), mask)",
    ),
)
ghost(
    "level00.transformer.block",
    "own_mask",
    "Pass the mask on as it came: another level may need another one.",
    change=(
        "attend(q, k, v, mask)",
        "attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]))",
    ),
)
ghost(
    "level00.transformer.block",
    "always_layer_0",
    "Each layer has its own weights: the name holds its number.",
    change=[
        ('p = f"model.layers.{layer}.self_attn."', 'p = "model.layers.0.self_attn."'),
        ('p = f"model.layers.{layer}."', 'p = "model.layers.0."'),
    ],
)
ghost(
    "level00.transformer.block",
    "bypasses_linear",
    "Read every matrix through `linear`, the argument: level 06 puts quantized weights behind it.",
    change=(
        'linear(merge_heads(attend(q, k, v, mask)), params[f"{p}o_proj.weight"])',
        'merge_heads(attend(q, k, v, mask)) @ params[f"{p}o_proj.weight"].T',
    ),
)
ghost(
    "level00.transformer.block",
    "linear_not_passed_to_the_mlp",
    "Pass `linear` on to swiglu too: three of the seven matrices are read there.",
    change=("swiglu(normed, gate, up, down, linear)", "swiglu(normed, gate, up, down)"),
)
ghost(
    "level00.transformer.block",
    "attend_not_passed",
    "Pass `attend` on to self_attention: level 07 replaces it.",
    change=("mask, cache, attend=attend, linear=linear)", "mask, cache, linear=linear)"),
)
ghost(
    "level00.transformer.block",
    "post_norm",
    "Pre-norm: normalize the input of each half and add its raw result; you normalize the sum, as the first Transformer did.",
    program=lambda x, params, config, layer, cos, sin, mask, cache=None, **seams: _post_norm(
        x, params, config, layer, cos, sin, mask, cache, **seams
    ),
)


def _parts():
    """The other functions of the mounted level, for ghosts of the block."""
    from level00 import layers, transformer

    return layers.rms_norm, transformer.self_attention, transformer.swiglu


def _post_norm(x, params, config, layer, cos, sin, mask, cache=None, *, linear=None, **seams):
    rms_norm, self_attention, swiglu = _parts()
    p, seams = f"model.layers.{layer}.", seams | ({"linear": linear} if linear else {})
    matrices = [params[f"{p}mlp.{n}_proj.weight"] for n in ("gate", "up", "down")]
    x = x + self_attention(x, params, config, layer, cos, sin, mask, cache, **seams)
    x = rms_norm(x, params[p + "input_layernorm.weight"], config.norm_eps)
    x = x + swiglu(x, *matrices, *filter(None, [linear]))
    return rms_norm(x, params[p + "post_attention_layernorm.weight"], config.norm_eps)


ghost(
    "level00.transformer.block",
    "residual_from_normed",
    "The stream goes on unnormalized: add to x, not to its normalized copy.",
    change=[
        ("x = x + self_attention(normed,", "x = normed + self_attention(normed,"),
        ("return x + swiglu(normed,", "return normed + swiglu(normed,"),
    ],
)
ghost(
    "level00.transformer.block",
    "attention_residual_from_normed",
    "Attention's result is added to x, the unnormalized stream, not to the copy that was normalized for it.",
    change=("x = x + self_attention(normed,", "x = normed + self_attention(normed,"),
)
ghost(
    "level00.transformer.block",
    "mlp_residual_from_normed",
    "The MLP's result is added to x, the unnormalized stream, not to the copy that was normalized for it.",
    change=("return x + swiglu(normed,", "return normed + swiglu(normed,"),
)
ghost(
    "level00.transformer.block",
    "normalizes_the_normed",
    "The MLP's copy is made of the stream after attention; you normalize attention's own copy once more.",
    change=('rms_norm(x, params[p + "post_attention', 'rms_norm(normed, params[p + "post_attention'),
)
ghost(
    "level00.transformer.block",
    "one_norm_twice",
    "Each half has norm weights of its own: post_attention_layernorm before the MLP.",
    change=('params[p + "post_attention_layernorm.weight"]', 'params[p + "input_layernorm.weight"]'),
)
ghost(
    "level00.transformer.block",
    "no_second_residual",
    "Both halves add to the stream, the MLP as well.",
    change=("return x + swiglu(", "return swiglu("),
)
ghost(
    "level00.transformer.block",
    "no_first_residual",
    "Both halves add to the stream, attention as well.",
    change=("x = x + self_attention(", "x = self_attention("),
)
ghost(
    "level00.transformer.block",
    "parallel_block",
    "The MLP reads the stream after attention has written to it; side by side is GPT-J's arrangement.",
    change=[
        ("    x = x + self_attention(", "    before = x\n    x = x + self_attention("),
        ('rms_norm(x, params[p + "post_attention', 'rms_norm(before, params[p + "post_attention'),
    ],
)
ghost(
    "level00.transformer.block",
    "swapped_norms",
    "input_layernorm stands before attention, post_attention_layernorm before the MLP.",
    change=[
        ('input_layernorm.weight"], config', 'post_layernorm.weight"], config'),
        ('post_attention_layernorm.weight"], config', 'input_layernorm.weight"], config'),
        ('post_layernorm.weight"], config', 'post_attention_layernorm.weight"], config'),
    ],
)
ghost(
    "level00.transformer.block",
    "changes_x",
    "Do not add in place: x belongs to the caller.",
    change=("x = x + self_attention(", "x += self_attention("),
)
ghost(
    "level00.transformer.block",
    "mlp_reads_unnormed",
    "The MLP reads a normalized copy as well.",
    change=("swiglu(normed, gate", "swiglu(x, gate"),
)
ghost(
    "level00.transformer.hidden_states",
    "no_final_norm",
    "Normalize once more after the last block: `model.norm.weight`.",
    change=('return rms_norm(x, params["model.norm.weight"], config.norm_eps)', "return x"),
)
ghost(
    "level00.transformer.hidden_states",
    "scaled_embedding",
    "Llama does not scale its embeddings by sqrt(d_model); Gemma does.",
    change=(
        'params["model.embed_tokens.weight"][token_ids]',
        'params["model.embed_tokens.weight"][token_ids] * config.d_model**0.5',
    ),
    convention=True,
)
ghost(
    "level00.transformer.hidden_states",
    "no_positions",
    "Every token stands at position 0 in your tables: use `positions`.",
    change=("rope_tables(positions,", "rope_tables(positions * 0,"),
)
ghost(
    "level00.transformer.hidden_states",
    "ignores_given_positions",
    "The tables must follow `positions`: with a cache they start at its length, in a padded batch rows differ.",
    change=("rope_tables(positions,", "rope_tables(torch.arange(token_ids.shape[1]),"),
)
ghost(
    "level00.transformer.hidden_states",
    "first_row_positions",
    "Positions may differ from row to row: do not take the first row's for all.",
    change=(
        "    if positions.dim() == 2:\n",
        "    if positions.dim() == 2:\n        cos, sin = cos[:1].expand_as(cos), sin[:1].expand_as(sin)\n",
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "not_causal",
    "Pass the mask on: a token has seen its future.",
    change=("cos, sin, mask, cache,", "cos, sin, torch.ones(1, 1, dtype=torch.bool), cache,"),
)
ghost(
    "level00.transformer.hidden_states",
    "always_causal",
    'A mask may be given: pass it on instead of "causal".',
    change=("cos, sin, mask, cache,", 'cos, sin, "causal", cache,'),
)
ghost(
    "level00.transformer.hidden_states",
    "one_layer_short",
    "There are config.n_layers blocks; yours leaves the last one out.",
    change=("range(config.n_layers)", "range(config.n_layers - 1)"),
)
ghost(
    "level00.transformer.hidden_states",
    "always_the_first_layer",
    "Every block has weights of its own: pass its number on.",
    change=("block(x, params, config, layer,", "block(x, params, config, 0,"),
)
ghost(
    "level00.transformer.hidden_states",
    "no_cache",
    "Pass the cache on to every block.",
    change=("mask, cache, attend", "mask, None, attend"),
)
ghost(
    "level00.transformer.hidden_states",
    "default_theta",
    "The frequencies come from config.rope_theta.",
    change=("config.rope_theta", "100000.0"),
)
ghost(
    "level00.transformer.hidden_states",
    "seams_not_passed",
    "Pass `attend` and `linear` on to every block: later levels replace them.",
    change=(", attend=attend, linear=linear)\n    return", ")\n    return"),
)
ghost(
    "level00.transformer.block",
    "head_dim_from_d_model",
    "head_dim stands in the config; n_heads · head_dim need not be d_model.",
    change=('_proj.weight"]), config.head_dim)', '_proj.weight"]), config.d_model // config.n_heads)'),
)
ghost(
    "level00.transformer.block",
    "fixed_eps",
    "Normalize with config.norm_eps; models differ in it.",
    change=[
        ('input_layernorm.weight"], config.norm_eps', 'input_layernorm.weight"], 1e-5'),
        ('post_attention_layernorm.weight"], config.norm_eps', 'post_attention_layernorm.weight"], 1e-5'),
    ],
)
ghost(
    "level00.transformer.block",
    "an_empty_cache_is_false",
    "Ask `cache is not None`: an empty cache may count as false, and it is the one to be filled.",
    change=("if cache is not None:", "if cache:"),
)
ghost(
    "level00.transformer.block",
    "ignores_what_update_returns",
    "Attend to the keys and values that `update` returns: they include all earlier tokens.",
    change=("k, v = cache.update(layer, k, v)", "cache.update(layer, k, v)"),
)
ghost(
    "level00.transformer.block",
    "keeps_the_cache",
    "Pass the cache on to self_attention.",
    change=("sin, mask, cache, attend=attend", "sin, mask, None, attend=attend"),
)
ghost(
    "level00.transformer.block",
    "silu_overflows",
    "e^z / (1 + e^z) is inf / inf from z = 89 on: use torch.sigmoid or silu.",
    change=("silu(linear(x, w_gate))", "(lambda z: z * (z.exp() / (1 + z.exp())))(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.hidden_states",
    "theta_of_the_paper",
    "10,000 is the paper's theta; each model has its own, config.rope_theta.",
    change=("config.rope_theta", "10000.0"),
)
ghost(
    "level00.transformer.hidden_states",
    "tables_in_every_layer",
    "Make the tables once, before the layers: they are the same in all of them.",
    change=[
        (
            "    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)\n    if positions.dim() == 2:\n"
            "        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (B, 1, S, D): the same for every head\n",
            "",
        ),
        (
            "        x = block(",
            "        cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)\n        if positions.dim() == 2:\n"
            "            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)\n        x = block(",
        ),
    ],
)
ghost(
    "level00.transformer.hidden_states",
    "fixed_eps",
    "The final norm uses config.norm_eps as well.",
    change=('params["model.norm.weight"], config.norm_eps)', 'params["model.norm.weight"], 1e-5)'),
)
ghost(
    "level00.transformer.hidden_states",
    "multiplies_one_hot",
    "Look the rows up by index: a one-hot product reads the whole embedding for every token.",
    change=(
        'params["model.embed_tokens.weight"][token_ids]',
        'torch.nn.functional.one_hot(token_ids, config.vocab_size).float() @ params["model.embed_tokens.weight"]',
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "mask_from_positions",
    '"causal" goes by the order of the tokens, not by their positions: pass it on as it is.',
    change=(
        "    for layer in range",
        "    if isinstance(mask, str) and cache is None:\n"
        "        rows = positions.expand(token_ids.shape)\n"
        "        mask = (rows.unsqueeze(-2) <= rows.unsqueeze(-1)).unsqueeze(1)\n"
        "    for layer in range",
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "sets_the_length",
    "Only the cache changes its length: update does it.",
    change=(
        "    return rms_norm(",
        "    if cache is not None:\n        cache.length = start + token_ids.shape[1]\n    return rms_norm(",
    ),
)

# ---- accounting

ghost(
    "level00.accounting.flops_per_token",
    "tied_twice",
    "Tied embeddings are stored once and used twice: lm_head counts 0.",
    change=('"lm_head": 0 if config.tie_embeddings else config.vocab_size * d', '"lm_head": config.vocab_size * d'),
)
ghost(
    "level00.accounting.flops_per_token",
    "never_an_lm_head",
    "An untied model has a second matrix of vocab_size · d_model.",
    change=('"lm_head": 0 if config.tie_embeddings else config.vocab_size * d', '"lm_head": 0'),
)
ghost(
    "level00.accounting.flops_per_token",
    "mha",
    "K and V have n_kv_heads heads: that is the point of GQA.",
    change=("(2 * heads + 2 * kv_heads)", "(4 * heads)"),
)
ghost(
    "level00.accounting.flops_per_token",
    "square_projections",
    "Q and O are n_heads · head_dim wide, which need not be d_model.",
    change=("(2 * heads + 2 * kv_heads)", "(2 * d + 2 * kv_heads)"),
)
ghost(
    "level00.accounting.flops_per_token",
    "two_matrix_mlp",
    "SwiGLU has three matrices: gate, up and down.",
    change=("layers * 3 * d * config.d_ff", "layers * 2 * d * config.d_ff"),
)
ghost(
    "level00.accounting.flops_per_token",
    "forgets_the_final_norm",
    "Add the final norm: d_model more.",
    change=("layers * 2 * d + d", "layers * 2 * d"),
)
ghost(
    "level00.accounting.flops_per_token",
    "one_norm_a_layer",
    "A block has two norms, one before each half.",
    change=("layers * 2 * d + d", "layers * d + d"),
)
ghost(
    "level00.accounting.flops_per_token",
    "one_layer",
    "Sum over all layers, not one.",
    change=("config.d_model, config.n_layers", "config.d_model, 1"),
)
ghost(
    "level00.accounting.flops_per_token",
    "mac_is_one",
    "A multiply and an add are two FLOPs.",
    change=[
        ('2 * weights["attention"]', 'weights["attention"]'),
        ("4 * config.head_dim", "2 * config.head_dim"),
        ('2 * weights["mlp"]', 'weights["mlp"]'),
        ('"lm_head": 2 * config', '"lm_head": config'),
    ],
)
ghost(
    "level00.accounting.flops_per_token",
    "no_head",
    "The product with the vocabulary is one too, even if its matrix is shared: 21% of the weights of SmolLM2.",
    change=('"lm_head": 2 * config.vocab_size * config.d_model', '"lm_head": 2 * weights["lm_head"]'),
)
ghost(
    "level00.accounting.flops_per_token",
    "embedding_is_a_product",
    "Looking up a row of the embedding costs no FLOPs; only the product with the vocabulary does.",
    change=('"lm_head": 2 * config.vocab_size * config.d_model', '"lm_head": 4 * config.vocab_size * config.d_model'),
)
ghost(
    "level00.accounting.flops_per_token",
    "kv_heads_in_scores",
    "GQA saves bytes, not FLOPs: every query head computes its own scores.",
    change=("config.n_heads * 4", "config.n_kv_heads * 4"),
)
ghost(
    "level00.accounting.flops_per_token",
    "scores_once",
    "Two products per key: q kᵀ, and the weights times v.",
    change=("config.n_heads * 4", "config.n_heads * 2"),
)
ghost(
    "level00.accounting.flops_per_token",
    "not_itself",
    "context_len includes the token itself.",
    change=("config.head_dim * context_len", "config.head_dim * (context_len - 1)"),
)

# ---- worksheet


slip(
    "level00.worksheet.tokens_left",
    "one_merge",
    "5: that is after one merge; the pair of two merged tokens still occurs twice.",
    value=5,
)
slip(
    "level00.worksheet.tokens_left",
    "merges_runs",
    "3: a run of three equal tokens gives one merge and leaves the third; pairs that overlap are counted, not merged.",
    value=3,
)
slip(
    "level00.worksheet.tokens_left",
    "one_token_a_merge",
    "6: a merge replaces every occurrence of its pair, so the first one alone takes three tokens off.",
    value=8 - 2,
)
slip(
    "level00.worksheet.tokens_left",
    "vocabulary_size",
    "258: that is the size of the vocabulary; asked is the length of the text.",
    value=256 + 2,
)
slip(
    "level00.worksheet.first_weight",
    "mask_as_zero",
    "0.3995: the masked key took part with exp(0) = 1; a masked score is -inf after the shift too, and exp(-inf) is 0.",
    value=1 / (2 + exp(-1) + exp(-2)),
)
slip(
    "level00.worksheet.first_weight",
    "no_exponential",
    "0.3366: that is the share of the scores themselves; softmax takes the share of their exponentials.",
    value=102 / (102 + 101 + 100),
)
slip(
    "level00.worksheet.first_weight",
    "powers_of_two",
    "0.5714: these are powers of 2; softmax uses powers of e.",
    value=1 / (1 + 1 / 2 + 1 / 4),
)
slip(
    "level00.worksheet.first_weight",
    "second_weight",
    "0.2447: that is the weight of the second score.",
    value=exp(-1) / (1 + exp(-1) + exp(-2)),
)
slip(
    "level00.worksheet.normed_feature",
    "layer_norm",
    "1.260: the mean was subtracted first; RMSNorm does not, LayerNorm does.",
    value=(4 - 1.75) / sqrt(6.25 - 1.75**2),
)
slip(
    "level00.worksheet.normed_feature",
    "l2_norm",
    "0.8: that divides by the root of the sum of squares; RMSNorm takes their mean.",
    value=4 / sqrt(25),
)
slip(
    "level00.worksheet.normed_feature",
    "no_root",
    "0.64: that divides by the mean square; take its root.",
    value=4 / 6.25,
)
slip(
    "level00.worksheet.normed_feature",
    "mean_magnitude",
    "1.778: that divides by the mean of the magnitudes; square first, then mean, then root.",
    value=4 / (9 / 4),
)
slip(
    "level00.worksheet.plane_angle",
    "half_exponent",
    "56.23: the exponent lost its factor 2; plane i turns at theta^(-2i / head_dim).",
    value=1000 * 100000 ** (-16 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "theta_of_the_paper",
    "10: that is theta 10,000, the value of the paper; SmolLM2 has 100,000.",
    value=1000 * 10000 ** (-2 * 16 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "degrees",
    "181.2: that is in degrees; asked are radians.",
    value=1000 * 100000 ** (-2 * 16 / 64) * 180 / pi,
)
slip(
    "level00.worksheet.plane_angle",
    "planes_from_one",
    "4.532: that is plane 15; planes are counted from 0, and plane 0 turns by 1 radian a token.",
    value=1000 * 100000 ** (-2 * 15 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "angle_of_one_token",
    "0.003162: that is the angle for one token; at position 1000 it is a thousand times as large.",
    value=100000 ** (-2 * 16 / 64),
)
slip(
    "level00.worksheet.attended_weight",
    "unscaled",
    "0.9997: the scores were not divided by sqrt(head_dim), so one key takes nearly everything.",
    value=1 / (1 + exp(-8)),
)
slip(
    "level00.worksheet.attended_weight",
    "scale_by_dim",
    "0.5312: the scores were divided by head_dim; divide by its root, 8.",
    value=1 / (1 + exp(-8 / 64)),
)
slip(
    "level00.worksheet.attended_weight",
    "no_exponential",
    "0.6667: that is the share of the scores; softmax takes the share of their exponentials.",
    value=16 / (16 + 8),
)
slip(
    "level00.worksheet.attended_weight",
    "second_key",
    "0.2689: that is the weight of the second key.",
    value=exp(1) / (exp(2) + exp(1)),
)
slip(
    "level00.worksheet.layer_megabytes",
    "mebibytes",
    "6.75: that is in MiB, 2**20 bytes; a MB is 1e6 bytes.",
    value=2 * 3538944 / 2**20,
)
slip(
    "level00.worksheet.layer_megabytes",
    "mha",
    "7.963: K and V are as wide as Q there; 3 KV heads of 64 make them 192 wide.",
    value=2 * (4 * 576 * 576 + 3 * 576 * 1536) / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "two_matrix_mlp",
    "5.308: SwiGLU has three matrices: gate, up and down.",
    value=2 * (2 * 576 * 576 + 2 * 576 * 192 + 2 * 576 * 1536) / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "parameters",
    "3.539: that is millions of parameters; each takes 2 bytes in bfloat16.",
    value=3538944 / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "float32",
    "14.16: that is 4 bytes a parameter, float32; bfloat16 takes 2.",
    value=4 * 3538944 / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "no_output_projection",
    "6.414: the output projection is missing; attention has four matrices: Q, K, V and O.",
    value=2 * (3538944 - 576 * 576) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "mac_is_one",
    "205.3: a multiply-add was counted as one FLOP; it is two.",
    value=(30 * 3538944 + 49152 * 576 + 30 * 9 * 2 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_head",
    "353.9: the vocabulary projection is missing; its matrix is shared with the embedding, but it is multiplied.",
    value=(2 * 30 * 3538944 + 30 * 9 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "embedding_is_matmul",
    "467.1: the embedding was counted twice; the look-up copies a row and costs no FLOPs.",
    value=(2 * (30 * 3538944 + 2 * 49152 * 576) + 30 * 9 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "kv_heads_in_scores",
    "316.1: the scores were counted for 3 KV heads; each of the 9 query heads computes its own.",
    value=(2 * (30 * 3538944 + 49152 * 576) + 30 * 3 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_weighted_sum",
    "339.7: only one product per key was counted; after q kᵀ the weights multiply v, which costs as much.",
    value=(2 * (30 * 3538944 + 49152 * 576) + 30 * 9 * 2 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_scores",
    "269.0: that is the matrices alone; scores and weighted sum come on top and grow with the context.",
    value=2 * (30 * 3538944 + 49152 * 576) / 1e6,
)
slip(
    "level00.worksheet.even_context",
    "mac_is_one",
    "1946: the matrices were counted with one FLOP per multiply-add, the scores with two.",
    value=(30 * 3538944 + 49152 * 576) / (30 * 9 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "kv_heads_in_scores",
    "11674: the scores were counted for 3 KV heads; each of the 9 query heads computes its own.",
    value=2 * (30 * 3538944 + 49152 * 576) / (30 * 3 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "no_head",
    "3072: that is the layers alone; the vocabulary projection is a matrix product as well.",
    value=2 * 30 * 3538944 / (30 * 9 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "no_weighted_sum",
    "7782: only one product per key was counted; after q kᵀ the weights multiply v, which costs as much.",
    value=2 * (30 * 3538944 + 49152 * 576) / (30 * 9 * 2 * 64),
)
slip(
    "level00.worksheet.even_context",
    "scores_of_one_layer",
    "116736: the scores of one layer stand against the matrices of all; attention runs in each of the 30 layers.",
    value=2 * (30 * 3538944 + 49152 * 576) / (9 * 4 * 64),
)
