"""Judges radix.py by sets of beginnings: a tree has as many tokens as there are different beginnings of what it holds.

A beginning that is not empty ends with one token of the tree, and each token of the tree ends one beginning: so the set
of all beginnings, as tuples, is an oracle with no tree in it. How nodes look is open; only match, insert and num_tokens
are used.
"""

import random
from collections import Counter
from itertools import product

import pytest

from level06.radix import RadixTree


def told(cls, *texts):
    """What insert says of each text, and num_tokens after it. A token is a letter."""
    tree, seen = cls(), []
    for text in texts:
        seen.append((tree.insert([ord(letter) for letter in text]), tree.num_tokens))
    return seen


class Beginnings:
    """Oracle: all beginnings of what was inserted."""

    def __init__(self):
        self.known = set()

    @property
    def num_tokens(self):
        return len(self.known)

    def match(self, token_ids):
        return sum(tuple(token_ids[:n]) in self.known for n in range(1, len(token_ids) + 1))

    def insert(self, token_ids):
        before = len(self.known)
        self.known |= {tuple(token_ids[:n]) for n in range(1, len(token_ids) + 1)}
        return len(self.known) - before


def first_wrong(cls, calls):
    """{} when a tree does what the set does in all calls; else the calls so far, and both answers to the last."""
    tree, oracle = cls(), Beginnings()
    for i, (name, token_ids) in enumerate(calls):
        yours, right = ((getattr(x, name)(list(token_ids)), x.num_tokens) for x in (tree, oracle))
        if yours != right:
            shown = [f"{name}({list(token_ids)})" for name, token_ids in calls[: i + 1]]
            return {"calls": shown, "it returns, num_tokens": {"yours": yours, "right": right}}
    return {}


@pytest.mark.kata("level06.radix.RadixTree")
def test_what_is_shared_is_kept_once(expect):
    """The docstring's example: 1 and 2 are there already, so [1, 2, 9] adds one token to the four, below the 2."""

    def example(cls):
        tree = cls()
        return tree.insert([1, 2, 3, 4]), tree.insert([1, 2, 9]), tree.match([1, 2, 3, 7]), tree.num_tokens

    expect.story(example, RadixTree).equals((4, 1, 3, 5))


@pytest.mark.kata("level06.radix.RadixTree")
@pytest.mark.parametrize(
    "texts, right",
    [
        (["abcd"], [(4, 4)]),
        ([""], [(0, 0)]),
        (["a", ""], [(1, 1), (0, 1)]),
        (["abcd", "abcd"], [(4, 4), (0, 4)]),
        (["abcd", "ab"], [(4, 4), (0, 4)]),
        (["abcd", "ab", "abx"], [(4, 4), (0, 4), (1, 5)]),
        (["abcd", "ab", "abcd", "abcdef"], [(4, 4), (0, 4), (0, 4), (2, 6)]),
        (["ab", "abcd"], [(2, 2), (2, 4)]),
        (["ab", "abcd", "abcdef", "abcdef"], [(2, 2), (2, 4), (2, 6), (0, 6)]),
        (["ab", "cd"], [(2, 2), (2, 4)]),
        (["ab", "ba"], [(2, 2), (2, 4)]),
        (["aaaa", "aa", "aaaaaa"], [(4, 4), (0, 4), (2, 6)]),
        (["abcdef", "abcxyz", "abqrst"], [(6, 6), (3, 9), (4, 13)]),
        (["abcdef", "abqrst", "abcxyz"], [(6, 6), (4, 10), (3, 13)]),
        (["abcdef", "abcxyz", "abcd", "abcx", "abcdef"], [(6, 6), (3, 9), (0, 9), (0, 9), (0, 9)]),
        (["abcd", "xbcd"], [(4, 4), (4, 8)]),
        (["abcd", "abxd"], [(4, 4), (2, 6)]),
        (["abcab", "abcabc", "abcax", "abd"], [(5, 5), (1, 6), (1, 7), (1, 8)]),
    ],
    ids=str,
)
def test_an_insert_says_what_is_new(expect, texts, right):
    """(new tokens, num_tokens) after each: for what is new memory is taken, and keys and values are computed."""

    def story(cls):
        return told(cls, *texts)

    expect.story(story, RadixTree).equals(right)


@pytest.mark.kata("level06.radix.RadixTree")
@pytest.mark.parametrize(
    "prompt, right",
    [
        ("abcdef", 6),
        ("abcdefgh", 6),
        ("abcde", 5),
        ("abcx", 4),
        ("abcd!f", 4),
        ("abcx!", 4),
        ("abc", 3),
        ("ab", 2),
        ("abq", 3),
        ("abx", 2),
        ("abc!", 3),
        ("a", 1),
        ("a!cdef", 1),
        ("bcdef", 0),
        ("klmn", 2),
        ("kl", 2),
        ("", 0),
        ("!", 0),
    ],
)
def test_the_longest_beginning_counts(expect, prompt, right):
    """A match may end within a node, at its end, or behind it. Token by token: no block has to be full."""

    def find(cls):
        tree = cls()
        for text in ("abcdef", "abcxyz", "abqr", "kl"):
            tree.insert([ord(letter) for letter in text])
        return tree.match([ord(letter) for letter in prompt])

    expect.story(find, RadixTree).equals(right)


@pytest.mark.kata("level06.radix.RadixTree")
def test_an_empty_tree_knows_nothing(expect):
    """The first request of a server finds nothing, and nothing has to be kept."""

    def empty(cls):
        tree = cls()
        return tree.num_tokens, tree.match([]), tree.match([1, 2]), tree.insert([]), tree.num_tokens, tree.match([0])

    expect.story(empty, RadixTree).equals((0, 0, 0, 0, 0, 0))


@pytest.mark.kata("level06.radix.RadixTree")
def test_a_match_changes_nothing(expect):
    """It is asked for every request that waits, in every step: what is only looked for is not in the tree."""

    def looks(cls):
        tree = cls()
        tree.insert([1, 2, 3, 4])
        found = [tree.match(ids) for ids in ([1, 2, 9], [1, 2, 9], [5, 6], [5, 6], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5])]
        return found, tree.num_tokens, tree.insert([1, 2, 9]), tree.insert([5]), tree.insert([1, 2, 3, 4, 5])

    expect.story(looks, RadixTree).equals(([2, 2, 0, 0, 4, 4], 4, 1, 1, 1))


@pytest.mark.kata("level06.radix.RadixTree")
def test_every_small_tree(expect):
    """Oracle: the set of beginnings. Up to three sequences of 0 and 1 in all orders, and all matches after each."""

    def small_trees(cls):
        texts = [ids for n in range(4) for ids in product((0, 1), repeat=n)]
        for some in [*product(texts, repeat=2), *product(texts[3:], repeat=3)]:
            calls = [("insert", ids) for ids in some] + [("match", ids) for ids in texts[3::2]]
            if wrong := first_wrong(cls, calls):
                return wrong
        return {}

    expect.story(small_trees, RadixTree).equals({})


@pytest.mark.kata("level06.radix.RadixTree")
@pytest.mark.parametrize(
    "alphabet, longest, n", [(2, 6, 40), (2, 12, 60), (3, 9, 60), (1, 20, 30), (40, 4, 250)], ids=str
)
@pytest.mark.parametrize("seed", range(3))
def test_a_crowd(expect, alphabet, longest, n, seed):
    """Oracle: the set of beginnings. A short alphabet, so that sequences part everywhere; token 0 as well."""
    draw = random.Random(f"{alphabet} {longest} {seed}")

    def ids():
        return tuple(draw.randrange(alphabet) for _ in range(draw.randint(0, longest)))

    calls = [(draw.choice(["insert", "match"]), ids()) for _ in range(n)]

    def crowd(cls):
        return first_wrong(cls, calls)

    expect.story(crowd, RadixTree).equals({})


@pytest.mark.kata("level06.radix.RadixTree")
def test_the_order_of_inserts_does_not_count(expect):
    """All prompts of a template, in any order, make the same tree: as many tokens, and each new one is new once."""
    texts = ["abcdef", "abcdxy", "abk", "abcd", "ab", "uvw", "uvwxyz", "abklmn", "", "u"]
    beginnings = {text[:n] for text in texts for n in range(1, len(text) + 1)}

    def orders(cls):
        draw, sums = random.Random(7), []
        for _ in range(30):
            seen = told(cls, *draw.sample(texts, len(texts)))
            sums.append((sum(new for new, _ in seen), seen[-1][1]))
        return sums

    expect.story(orders, RadixTree).equals([(len(beginnings), len(beginnings))] * 30)


@pytest.mark.kata("level06.radix.RadixTree")
def test_lists_belong_to_the_caller(expect):
    """A request goes on writing its tokens into the list that it has inserted; and it gets the list back as it was."""

    def goes_on(cls):
        tree, mine = cls(), [1, 2, 3, 4]
        said = [tree.insert(mine)]
        mine[1:] = [7, 7]
        other = [1, 2, 3, 5, 6]
        said += [tree.insert(other), tree.match(other), other == [1, 2, 3, 5, 6]]
        other += [8, 9]
        said += [tree.match([1, 2, 3, 4]), tree.match([1, 2, 3, 5, 6, 8]), tree.match([1, 7]), tree.match(mine)]
        mine.clear()
        return [*said, tree.num_tokens, tree.insert([1, 2, 3, 4, 5])]

    expect.story(goes_on, RadixTree).equals([4, 2, 5, True, 4, 5, 1, 1, 6, 1])


@pytest.mark.kata("level06.radix.RadixTree")
@pytest.mark.parametrize("kind", [list, tuple, range], ids=lambda kind: kind.__name__)
def test_any_sequence_will_do(expect, kind):
    """A prompt may be a list or a tuple, and what is known from the one is found with the other."""

    def kinds(cls):
        def of(stop):
            return range(stop) if kind is range else kind(range(stop))

        tree = cls()
        said = (
            tree.insert(of(5)),
            tree.insert([0, 1, 9]),
            tree.insert(of(3)),
            tree.insert((0, 1, 9, 9)),
            tree.insert(of(7)),
        )
        return *said, tree.match(of(4)), tree.match(of(8)), tree.match([0, 1, 2, 3, 4, 5]), tree.num_tokens

    expect.story(kinds, RadixTree).equals((5, 1, 0, 1, 2, 4, 7, 6, 9))


@pytest.mark.kata("level06.radix.RadixTree")
def test_two_trees_know_nothing_of_each_other(expect):
    """One tree for each model: a default that all nodes share would be the same dict in all of them."""

    def two(cls):
        first, second = cls(), cls()
        first.insert([1, 2, 3])
        first.insert([1, 2, 4])
        return second.match([1, 2, 3]), second.num_tokens, second.insert([1, 2]), first.num_tokens, second.num_tokens

    expect.story(two, RadixTree).equals((0, 0, 2, 4, 2))


@pytest.mark.kata("level06.radix.RadixTree")
def test_ids_are_numbers_and_not_digits(expect):
    """Of large ids, two that are equal may be two objects, and no two that differ are the same, however they are
    written; [1, 23] and [12, 3] have nothing in common."""

    def large(cls):
        tree = cls()
        said = tree.insert([1, 23, 50000]), tree.insert([12, 3]), tree.insert([int("1"), int("23"), int("50000"), 7])
        said += tree.match([1, 2, 3]), tree.match([1, 23, int("50000"), 8]), tree.match([1, 23, 20000])
        powers = sum(tree.insert([2**k + 1]) for k in range(1, 32)), sum(tree.match([2**k + 2]) for k in range(2, 32))
        return *said, *powers, tree.num_tokens

    expect.story(large, RadixTree).equals((3, 2, 1, 1, 3, 2, 31, 0, 37))


@pytest.mark.kata("level06.radix.RadixTree")
def test_prompts_are_long(expect):
    """A call for each token ends where Python's stack ends, after a thousand. Two prompts that differ at the end."""

    def long(cls):
        tree, prompt = cls(), [i * i % 4999 for i in range(5000)]
        said = tree.insert(prompt), tree.insert(prompt[:4000] + [6000] * 1000), tree.insert(prompt)
        return *said, tree.match(prompt + [1]), tree.match(prompt[:4500] + [1]), tree.num_tokens

    expect.story(long, RadixTree).equals((5000, 1000, 0, 5000, 4500, 6000))


@pytest.mark.kata("level06.radix.RadixTree")
def test_a_node_may_be_split_again_and_again(expect):
    """A document, and questions about each of its parts, the last part first: 200 nodes, one below the other."""

    def questions(cls):
        tree, document = cls(), list(range(1000))
        said = [tree.insert(document)]
        said += [tree.insert(document[:end] + [5000, 5001]) for end in range(995, 0, -5)]
        said += [tree.match(document[:end] + [5000, 7]) - end for end in range(5, 1000, 45)]
        return Counter(said), tree.match(document), tree.num_tokens

    expect.story(questions, RadixTree).equals(({1000: 1, 2: 199, 1: 23}, 1000, 1398))
