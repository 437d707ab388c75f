"""Judges hash_chain.py by what the keys stand for: two are equal if and only if all that goes into them is.

What a key looks like inside is open: keys are only compared with other keys. The oracle is a dict keyed by the whole
beginning, as a tuple.
"""

import random
import sys
from itertools import product

import pytest

from level12.hash_chain import hash_block, hash_full_blocks

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))  # any key of a block before


def kinds(calls):
    """Which of these calls of hash_block give the same key? Each is said by the first call that gave it."""
    keys = [hash_block(*call) for call in calls]
    return [keys.index(key) for key in keys]


def by_content(calls):
    """Oracle: the same, by what goes in."""
    what = [(parent, tuple(tokens), *extra) for parent, tokens, *extra in calls]
    return [what.index(one) for one in what]


def marked(mark):
    """A mark of one byte between tokens and extra, in either order, may as well be part of a token or of the extra."""
    extras = [extra for zeros in (3, 7) for extra in (bytes(zeros) + bytes([mark]), bytes([mark]) + bytes(zeros))]
    tokens = [[1, mark], [1, mark << 24], [mark, 1], [mark << 24, 1]]
    return [*((None, two) for two in tokens), *((None, [1], extra) for extra in extras)]


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
@pytest.mark.parametrize(
    "calls",
    [
        [(KEY, [1]), (OTHER, [1]), (None, [1]), (KEY, [1])],
        [(None, [1, 2]), (None, [2, 1]), (None, [1, 2, 2]), (None, [2]), (None, (1, 2))],
        [(None, [1, 23]), (None, [12, 3]), (None, [123]), (None, [1, 2, 3])],
        [(None, [0]), (None, [0, 0]), (None, [1]), (None, [1, 0]), (None, [0, 1]), (None, []), (None, [256])],
        [(None, [7]), (None, [7 + 2**8]), (None, [7 + 2**16]), (None, [7 + 2**24]), (None, [2**32 - 1])],
        [(None, [2**24]), (None, [2**24 + 1]), (None, [2**31 - 1]), (None, [2**31]), (None, [2**32 - 2])],
        [(KEY, [3, 4], b"a"), (KEY, [3, 4], b"b"), (KEY, [3, 4], b"aa"), (KEY, [3, 4], b"a"), (KEY, [3, 4], b"")],
        [(None, [], b"\1\0\0\0"), (None, [1], b""), (None, [], b"\0\0\0\1"), (None, [], b"1"), (None, [49], b"")],
        [(None, [65, 66], b"C"), (None, [65], b"BC"), (None, [65], b"66,C"), (None, [65, 66, 67], b"")],
        [(None, [5], KEY), (KEY, [5], b""), (KEY, [5], KEY), (OTHER, [5], KEY), (None, [5], b"")],
        [(None, [1, 2, 3, 4]), (None, [1, 3, 2, 4]), (None, [4, 3, 2, 1]), (None, [2, 2, 3, 3]), (None, [1, 1, 4, 4])],
        marked(ord("|")),
        [call for mark in b",:;- /\0\n\xff" for call in marked(mark)],
    ],
    ids=range(13),
)
def test_a_key_depends_on_all_that_goes_in(expect, calls):
    """Oracle: equality of (parent, tokens, extra). Where two contents had one key, one user would read what another
    one's prompt has left in the cache."""
    expect(kinds, calls).equals(by_content(calls))


def shape(parents):
    """(type, length) of the keys; and how many of the 32 bytes tell something that no other byte tells."""
    keys = [hash_block(parent, [i, 7]) for parent in parents for i in range(40)]
    return sorted({(type(key).__name__, len(key)) for key in keys}), len(
        {column for column in zip(*keys) if len({*column}) > 1}
    )


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
def test_a_key_is_32_bytes(expect):
    """All 32 of them count: with the 64 bits of Python's hash() somebody can look for a prompt that has another's key.
    That a byte of SHA-256 is the same in 80 keys, or always equal to another one, has a chance of about 256^-79."""
    expect(shape, [None, KEY]).equals(([("bytes", 32)], 32))


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
@pytest.mark.parametrize(
    "length, block_size, right",
    [(11, 4, 2), (12, 4, 3), (3, 4, 0), (4, 4, 1), (0, 4, 0), (5, 1, 5), (1, 1, 1), (7, 7, 1), (7, 8, 0)],
)
def test_full_blocks_only(expect, length, block_size, right):
    """By hand: length // block_size. What is in a block that is not full will still change."""

    def number(length, block_size):
        return len(hash_full_blocks(list(range(length)), block_size))

    expect(number, length, block_size).equals(right)


def chained(tokens, block_size, salt, known):
    """Is each key that of its own block, with the one before as its parent? `known` of them are given."""
    keys = hash_full_blocks(tokens, block_size, salt, [bytes([i + 1]) * 32 for i in range(known)])
    good = [key == bytes([i + 1]) * 32 for i, key in enumerate(keys[:known])]
    for i in range(known, len(keys)):
        own = tokens[i * block_size : (i + 1) * block_size]
        good.append(keys[i] == (hash_block(keys[i - 1], own) if i else hash_block(None, own, salt)))
    return good


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
@pytest.mark.parametrize("known", [0, 1, 2, 3])
@pytest.mark.parametrize("salt", [b"", b"Ann"])
def test_one_link_at_a_time(expect, salt, known):
    """By the docstring: the salt is the extra of the first block only, and what is known stays as it is, be it any
    bytes: a server that has run 30,000 tokens of a chat does not hash them all again for the next block."""
    tokens = [9, 8, 7, 6, 5, 9, 8, 7, 6, 5, 1]
    expect(chained, tokens, 3, salt, known).equals([True] * 3)
    expect(chained, tokens[:9], 3, salt, known).equals([True] * 3)
    expect(chained, tokens, 2, salt, known).equals([True] * 5)


def pattern(texts, block_size):
    """All keys of (tokens, salt), numbered in the order in which they first occur."""
    seen = {}
    return [[seen.setdefault(key, len(seen)) for key in hash_full_blocks(list(tokens), block_size, salt)]
            for tokens, salt in texts]  # fmt: skip


def by_beginning(texts, block_size):
    """Oracle: a dict keyed by the whole beginning."""
    seen, found = {}, []
    for tokens, salt in texts:
        ends = range(block_size, len(tokens) + 1, block_size)
        found.append([seen.setdefault((tuple(tokens[:end]), salt), len(seen)) for end in ends])
    return found


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
@pytest.mark.parametrize(
    "texts, block_size",
    [
        ([([1, 2, 3, 4, 5, 6, 7, 8], b""), ([9, 2, 3, 4, 5, 6, 7, 8], b"")], 4),
        ([([1, 2, 3, 4, 5, 6, 7, 8], b""), ([1, 2, 3, 4, 9, 9, 9, 9], b"")], 4),
        ([([1, 2, 3, 4, 5, 6], b"a"), ([1, 2, 3, 4, 5, 6], b"b"), ([1, 2, 3, 4, 5, 6], b"")], 2),
        ([([4, 4, 4, 4, 4, 4], b""), ([4, 4, 4, 4], b"")], 2),
        ([([1, 2, 1, 2, 1, 2], b"x"), ([1, 2, 1, 2], b"x"), ([2, 1, 2, 1], b"x")], 2),
        ([([1, 2, 3, 7, 8, 9], b""), ([7, 8, 9, 1, 2, 3], b""), ([3, 2, 1, 9, 8, 7], b"")], 3),
    ],
    ids=str,
)
def test_equal_keys_are_equal_beginnings(expect, texts, block_size):
    """Oracle: the beginnings. The keys and values of a block depend on all that came before it, so a block of the same
    tokens elsewhere is another block, even in the same prompt; and so is that of a tenant with another salt."""
    expect(pattern, texts, block_size).equals(by_beginning(texts, block_size))


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_all_short_texts(expect, block_size):
    """Oracle: the beginnings, of all texts of six tokens out of two, with two salts."""
    texts = [(tokens, salt) for tokens in product((0, 1), repeat=6) for salt in (b"", b"s")]
    same = by_beginning(texts, block_size)

    def differs(texts, block_size):
        return next((text for text, a, b in zip(texts, pattern(texts, block_size), same) if a != b), None)

    expect(differs, texts, block_size).equals(None)


def grown(steps, block_size, salt):
    """A text that grows, its keys kept from call to call, and the same computed afresh: equal after each?"""
    draw, tokens, keys, good = random.Random(4), [], [], []
    for more in steps:
        tokens += [draw.randrange(3) for _ in range(more)]
        keys = hash_full_blocks(tokens, block_size, salt, keys)
        good.append((len(keys), list(keys) == list(hash_full_blocks(tokens, block_size, salt))))
    return good


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
def test_a_text_that_grows(expect):
    """By hand: 3, 4, 4, 13, 14, 15 tokens in blocks of 4, and 3 of 3. The next turn of a chat must find what the last
    one has left."""
    expect(grown, [3, 1, 0, 9, 1, 1], 4, b"t").equals(
        [(0, True), (1, True), (1, True), (3, True), (3, True), (3, True)]
    )
    expect(grown, [3, 3, 3], 3, b"").equals([(1, True), (2, True), (3, True)])


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
def test_the_known_keys_are_the_callers_own(expect):
    """Two sequences may go on from the keys of one: a list that grows under the other's hands has keys that are not
    its own."""

    def fork(known):
        left, right = ([5, 5, 6, 6, end, end] for end in (7, 8))
        keys = [hash_full_blocks(text, 2, b"", known) for text in (left, right, left)]
        return known == [KEY, OTHER], keys[0] == keys[2], [len(one) for one in keys]

    expect(fork, [KEY, OTHER]).equals((True, True, [3, 3, 3]))


def digests(known):
    """Are few digests made for one more block, of which so many are known? Counts the calls of digest()."""
    keys = [KEY] * known
    made = 0

    def watch(frame, event, arg):
        nonlocal made
        made += event == "c_call" and getattr(arg, "__name__", "") in ("digest", "hexdigest")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        hash_full_blocks([5] * (2 * known + 2), 2, b"", keys)
    finally:
        sys.setprofile(before)
    return made < 20


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
def test_known_keys_are_not_computed_again(expect):
    """A digest or two for the new block, where all blocks would be 300: else a chat's cost grows with its square."""
    expect(digests, 300).equals(True)


@pytest.mark.kata("level12.hash_chain.hash_full_blocks")
def test_what_is_no_block_is_refused(expect):
    """No id and no block size: a caller's mistake. The largest id is a good one."""
    expect(kinds, [(None, [2**32 - 1]), (None, [0])]).equals([0, 1])
    expect(hash_block, None, [2**32]).raises(ValueError)
    expect(hash_block, None, [3, -1]).raises(ValueError)
    expect(hash_full_blocks, [1, 2], 0).raises(ValueError)
    expect(hash_full_blocks, [1, 2, -3, 4], 2).raises(ValueError)
