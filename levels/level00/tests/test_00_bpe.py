"""Judges bpe.py: plain lists of ids, worked by hand or by brute force."""

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from level00.bpe import apply_merges, decode, encode, merge_pair, train_bpe

# the classic example, worked in test_training_recounts_after_every_merge
CLASSIC = {(97, 97): 256, (97, 98): 257, (256, 257): 258}
LATER_FIRST = {(98, 99): 256, (97, 98): 257}  # bc was learnt before ab


def spelled(ids, merges):
    """The bytes that ids stand for, by recursion on the merges: no table, no joining of tables."""
    parts = {new_id: pair for pair, new_id in merges.items()}
    return b"".join(spelled(parts[i], merges) if i in parts else bytes([i]) for i in ids)


def replayed(ids, merges):
    """Oracle: walk the whole table in the order of its ids, merging each pair wherever it stands."""
    ids = list(ids)
    for pair, new_id in sorted(merges.items(), key=lambda entry: entry[1]):
        out = []
        for i in ids:
            if out and (out[-1], i) == pair:
                out[-1] = new_id
            else:
                out.append(i)
        ids = out
    return ids


def trained(text, vocab_size):
    """Oracle: every id is one character, so str.replace merges, and strings compare as pairs of ids do."""
    ids, learnt = text.encode().decode("latin-1"), []
    for new_id in range(256, vocab_size):
        counts = Counter(left + right for left, right in zip(ids, ids[1:]))
        best = min(counts, key=lambda pair: (-counts[pair], pair), default="")
        if counts[best] < 2:
            break
        learnt.append(((ord(best[0]), ord(best[1])), new_id))
        ids = ids.replace(best, chr(new_id))
    return learnt


class Counted(Mapping):
    """A table that counts what is asked of it: one for a look-up, one for each entry that is walked over."""

    def __init__(self, table):
        self.table, self.asked = table, 0

    def __getitem__(self, pair):
        self.asked += 1
        return self.table[pair]

    def __iter__(self):
        for pair in self.table:
            self.asked += 1
            yield pair

    def __len__(self):
        return len(self.table)


@pytest.mark.kata("level00.bpe.train_bpe")
@pytest.mark.parametrize(
    "ids, pair, right",
    [
        ([5, 6, 7, 5, 6], (5, 6), [300, 7, 300]),
        ([5, 6, 5, 6], (5, 6), [300, 300]),
        ([1, 1, 1], (1, 1), [300, 1]),
        ([1, 1, 1, 1], (1, 1), [300, 300]),
        ([1, 1, 1, 1, 1], (1, 1), [300, 300, 1]),
        ([5], (5, 6), [5]),
        ([], (5, 6), []),
        ([6, 5, 5], (5, 6), [6, 5, 5]),
        ([9, 5, 6], (5, 6), [9, 300]),
        ([15, 6, 5, 6], (5, 6), [15, 6, 300]),
        (list(range(1000, 1004)), (1001, 1002), [1000, 300, 1003]),
        (b"abab", (97, 98), [300, 300]),
        ([5, 6] * 3000, (5, 6), [300] * 3000),
    ],
    ids=["two", "adjacent", "run of 3", "run of 4", "run of 5", "one id", "none", "no match", "at the end"]
    + ["15 is not 5", "large ids", "bytes", "long"],
)
def test_every_occurrence_is_merged_from_left_to_right(expect, ids, pair, right):
    """Runs of one id (spaces, dashes) are where tokenizers written in a hurry lose or double a symbol."""
    expect(merge_pair, ids, pair, 300).equals(right)


@pytest.mark.kata("level00.bpe.train_bpe")
def test_merging_equals_replacing_in_a_string(expect):
    """Oracle: str.replace, which goes from left to right without overlap, with one character for each id."""
    rng = random.Random(1)
    lists = [[rng.choice([5, 6, 300]) for _ in range(length)] for length in range(40)]
    right = ["".join(map(chr, ids)).replace("\5\6", chr(301)) for ids in lists]

    def each_merged(lists):
        return [merge_pair(ids, (5, 6), 301) for ids in lists]

    expect(each_merged, lists).equals([list(map(ord, text)) for text in right])


@pytest.mark.kata("level00.bpe.train_bpe")
@pytest.mark.parametrize("ids", [[5, 6], [6, 5], [5]], ids=["a match", "no match", "one id"])
def test_the_merged_list_is_a_new_one(expect, ids):
    """Whoever appends to the result must not change the ids that went in."""

    def appended_to(ids):
        merge_pair(ids, (5, 6), 300).append(0)
        return ids

    expect(appended_to, ids).equals(list(ids))


@pytest.mark.kata("level00.bpe.train_bpe")
def test_on_a_tie_the_smallest_pair_is_learnt_first(expect):
    """zyzyabab: (z, y) and (a, b) occur twice; whoever takes the first seen trains another tokenizer."""
    expect(train_bpe, "zyzyabab", 257).equals({(97, 98): 256})


@pytest.mark.kata("level00.bpe.train_bpe")
def test_smallest_means_neither_first_seen_nor_last(expect):
    """acabacab: (a, c), (c, a) and (a, b) occur twice. (97, 98) is the smallest, and neither the first nor the last."""
    expect(train_bpe, "acabacab", 257).equals({(97, 98): 256})


@pytest.mark.kata("level00.bpe.train_bpe")
def test_training_recounts_after_every_merge(expect):
    """aaabdaaabac: (a, a) occurs 4 times -> 256; now (256, a), (a, b) and others occur twice, and the smallest pair
    is (97, 98) -> 257; then (256, 257) occurs twice -> 258."""
    expect(train_bpe, "aaabdaaabac", 259).equals(CLASSIC)


@pytest.mark.kata("level00.bpe.train_bpe")
def test_training_starts_from_utf8_bytes(expect):
    """é is two bytes, 195 and 169: 256 ids can spell any text, in any alphabet."""
    expect(train_bpe, "éé", 257).equals({(195, 169): 256})


@pytest.mark.kata("level00.bpe.train_bpe")
@pytest.mark.parametrize("text", ["abab", "abcd", "a", ""], ids=["then once", "all once", "one byte", "nothing"])
def test_training_stops_when_no_pair_occurs_twice(expect, text):
    """A pair seen once saves nothing on any other text, yet its row of the embedding is read for ever."""
    expect(train_bpe, text, 300).equals({(97, 98): 256} if text == "abab" else {})


@pytest.mark.kata("level00.bpe.train_bpe")
def test_training_counts_overlapping_pairs(expect):
    """In xaaay (a, a) stands twice, overlapping, and so does nothing else: it is learnt."""
    expect(train_bpe, "xaaay", 257).equals({(97, 97): 256})


@pytest.mark.kata("level00.bpe.train_bpe")
def test_a_vocabulary_of_256_has_no_merges(expect):
    """vocab_size counts the bytes too: 256 leaves no room, 258 leaves room for two."""
    expect(train_bpe, "aaabdaaabac", 256).equals({})
    expect(train_bpe, "aaabdaaabac", 258).equals({(97, 97): 256, (97, 98): 257})
    expect(train_bpe, "aaabdaaabac", 255).raises(ValueError)


PROSE = "The cat sat on the mat.\n  The CAT sat, the cat sat ...\r\n\tLe café, le cafe\u0301, le café.  "
MANY_TIES = "".join(random.Random(2).choice("abc") for _ in range(600))


@pytest.mark.kata("level00.bpe.train_bpe")
@pytest.mark.parametrize(
    "text, vocab_size", [(PROSE, 300), (PROSE * 3, 320), (MANY_TIES, 340)], ids=["prose", "long", "ties"]
)
def test_every_merge_is_the_right_one_in_the_right_order(expect, text, vocab_size):
    """One wrong tie deep in the table renumbers all later tokens. Oracle: brute force on strings.

    Spaces, line ends, capitals and accents are bytes like all others, and pairs of merged ids tie as their ids compare.
    """

    def learnt(text, vocab_size):
        return list(train_bpe(text, vocab_size).items())

    expect(learnt, text, vocab_size).equals(trained(text, vocab_size))


@pytest.mark.kata("level00.bpe.apply_merges")
def test_the_pair_learnt_earliest_is_merged_first(expect):
    """abc with bc learnt before ab is a + bc; a longest or leftmost match gives ab + c, other ids than in training."""
    expect(apply_merges, [97, 98, 99], LATER_FIRST).equals([97, 256])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_merges_build_on_merges(expect):
    """aaab = aa + ab = one token, three merges deep; aaaa is aa + aa and no more."""
    expect(apply_merges, list(b"aaab"), CLASSIC).equals([258])
    expect(apply_merges, list(b"aaaa"), CLASSIC).equals([256, 256])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_the_order_is_that_of_the_new_ids(expect):
    """A table that was loaded from a file, or joined from two, may list its pairs in any order."""
    expect(apply_merges, [97, 98, 99], {(97, 98): 257, (98, 99): 256}).equals([97, 256])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_a_table_that_has_grown_is_read_again(expect):
    """The same dict, one merge richer: whoever remembers an answer by the dict's identity gives the old one."""
    table = {(97, 98): 256}
    expect(apply_merges, [97, 98, 99], table).equals([256, 99])
    table[256, 99] = 257
    expect(apply_merges, [97, 98, 99], table).equals([257])


@pytest.mark.kata("level00.bpe.apply_merges")
@pytest.mark.parametrize("ids", [[], [97], [120, 121]], ids=["none", "one", "unknown pair"])
def test_what_cannot_be_merged_stays(expect, ids):
    """An empty prompt and a lone byte are ordinary inputs of a server."""
    expect(apply_merges, ids, CLASSIC).equals(ids)


@pytest.mark.kata("level00.bpe.apply_merges")
def test_the_longest_token_is_not_the_goal(expect):
    """thug with ug, un, hug learnt: t + hug. With hu learnt before ug it is t + hu + g, though hug is a token too."""
    t, h, u, g = b"thug"
    expect(apply_merges, [t, h, u, g], {(u, g): 256, (u, 110): 257, (h, 256): 258}).equals([t, 258])
    expect(apply_merges, [t, h, u, g], {(h, u): 256, (u, g): 257, (h, 257): 258}).equals([t, 256, g])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_ids_need_not_start_at_256(expect):
    """In a real vocabulary the bytes have ids of their own: here c = 7, a = 9, t = 4, and at = 50, cat = 51."""
    expect(apply_merges, [7, 9, 4, 9, 4], {(9, 4): 50, (7, 50): 51}).equals([51, 50])
    expect(apply_merges, [7, 9, 4], {(9, 4): 0, (7, 0): 51}).equals([51])  # 0 is an id like any other


def each_applied(lists, merges):
    return [apply_merges(ids, merges) for ids in lists]


@pytest.mark.kata("level00.bpe.apply_merges")
def test_encoding_equals_walking_the_whole_table(expect):
    """Oracle: every pair of the table in turn. 30 texts over four letters, with merges five deep."""
    rng = random.Random(0)
    merges = {(97, 98): 256, (98, 97): 257, (256, 97): 258, (97, 97): 259, (258, 99): 260, (99, 257): 261}
    lists = [[rng.choice(b"abcd") for _ in range(rng.randint(2, 20))] for _ in range(30)]
    expect(each_applied, lists, merges).equals([replayed(ids, merges) for ids in lists])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_merges_of_a_trained_table_are_replayed(expect):
    """Oracle: every pair of the table in turn. The table is learnt by brute force from the text with many ties."""
    merges, rng = dict(trained(MANY_TIES, 340)), random.Random(3)
    lists = [[rng.choice(b"abc") for _ in range(60)] for _ in range(10)]
    expect(each_applied, lists, merges).equals([replayed(ids, merges) for ids in lists])


@pytest.mark.kata("level00.bpe.apply_merges")
def test_long_texts_are_merged_to_their_end(expect):
    """encode has no pre-tokenizer here: a whole prompt comes in at once. 160 different merges, then one 1,000 times."""
    pairs = [(1000 + 2 * i, 1001 + 2 * i) for i in range(160)]
    table = {pair: 5000 + i for i, pair in enumerate(pairs)}
    expect(apply_merges, [i for pair in pairs for i in pair], table).equals(list(range(5000, 5160)))
    expect(apply_merges, [97, 98] * 1000, LATER_FIRST).equals([257] * 1000)


@pytest.mark.kata("level00.bpe.apply_merges")
def test_a_large_table_is_looked_up_not_walked(expect):
    """SmolLM2 has 48,900 merges, and a piece of text has a few pairs: walking them for each piece takes seconds."""
    table = Counted({(1000 + i, 1001 + i): 9000 + i for i in range(4_000)})

    def look_ups(ids):
        table.asked = 0
        merged = apply_merges(ids, table)
        return merged, "pairs looked up" if table.asked < 2_000 else "the whole table walked"

    right = [9000 + i for i in range(0, 24, 2)]  # twelve merges, for which a few hundred look-ups are enough
    expect(look_ups, list(range(1000, 1024))).equals((right, "pairs looked up"))


@pytest.mark.kata("level00.bpe.decode")
def test_a_character_may_span_tokens(expect):
    """195, 169 is é. Decoded token by token it becomes two replacement characters, as in many a stream."""
    expect(decode, [195, 169], {}).equals("é")
    expect(decode, list("깰 🤗".encode()), {}).equals("깰 🤗")


@pytest.mark.kata("level00.bpe.decode")
def test_merged_ids_spell_their_parts(expect):
    """258 = aa + ab; the table is unrolled until only bytes are left."""
    expect(decode, [258, 100], CLASSIC).equals("aaabd")
    expect(decode, [40000, 33], {(195, 169): 1000, (1000, 33): 40000}).equals("é!!")  # ids need not start at 256


@pytest.mark.kata("level00.bpe.decode")
def test_half_a_character_is_replaced_not_refused(expect):
    """A model can stop in the middle of a character, and a server must still answer."""
    expect(decode, [195], {}).equals("\ufffd")
    expect(decode, [104, 195, 195], {}).equals("h\ufffd\ufffd")
    expect(decode, [], {}).equals("")


@pytest.mark.kata("level00.bpe.decode")
@pytest.mark.parametrize(
    "text", ["hello world", "naïve café ☕", " a ,\r\n\tb \0 . ", "日本語", "🤗🤗", "\ufeffe\u0301"]
)
def test_decoding_undoes_any_merges(expect, text):
    """Oracle: recursion on the merges, then UTF-8. The ids come from a table in this file, not from your encode."""
    merges = {(195, 169): 256, (240, 159): 257, (257, 164): 258, (108, 108): 259, (101, 259): 260}
    ids = replayed(text.encode(), merges)
    assert spelled(ids, merges) == text.encode()
    expect(decode, ids, merges).equals(text)


@pytest.mark.kata("level00.bpe.decode")
def test_ids_outside_the_vocabulary_are_refused(expect):
    """Negative ones too: in a list they would count from the end. The largest id is still inside."""
    expect(decode, [258], CLASSIC).equals("aaab")
    for wrong in (259, -1):
        expect(decode, [97, wrong], CLASSIC).raises(ValueError)


@pytest.mark.kata("level00.bpe.decode")
def test_ids_may_come_one_by_one(expect):
    """An engine yields tokens as they are made: an iterator can be read once."""

    def from_an_iterator(ids):
        return decode(iter(ids), CLASSIC)

    expect(from_an_iterator, [258, 100]).equals("aaabd")


@pytest.mark.kata("level00.bpe.decode")
def test_the_table_is_not_searched_for_every_id(expect):
    """48,900 entries times a thousand tokens would be seconds; a few walks to prepare are allowed, one an id is not."""
    table = Counted({(97 + i % 26, 97 + i // 26): 256 + i for i in range(26 * 26)})

    def look_ups(ids):
        table.asked = 0
        text = decode(ids, table)
        return text, "the table walked a few times" if table.asked < 40 * len(
            table
        ) else "the table walked for every id"

    expect(look_ups, [700] * 300).equals(("cr" * 300, "the table walked a few times"))


@pytest.mark.kata("level00.bpe.apply_merges")
def test_encode_gives_what_was_trained(expect):
    """The parts together: text to bytes to ids, a list of its own even when there is nothing to merge."""
    expect(encode, "", CLASSIC).equals([])
    expect(encode, "a", CLASSIC).equals([97])
    expect(encode, "aaabdaaabac", CLASSIC).equals([258, 100, 258, 97, 99])
