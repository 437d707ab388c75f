"""Known-wrong programs of level00.bpe. `ghost` is given when this is read."""

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
