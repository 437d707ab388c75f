"""Judges tokenmap.py by naming, for every character of a text, the piece that holds it."""

import random

import pytest

from level15.tokenmap import align_tokens, exact_boundary_share


def holders(pieces):
    """Oracle: for each character of the text the number of its piece."""
    return [number for number, piece in enumerate(pieces) for _ in range(len(piece))]


def owners(source, target):
    """Oracle: the source piece of the last character of each target piece."""
    last = [at for at, number in enumerate(holders(target)) if number not in holders(target)[at + 1 :]]
    return [holders(source)[at] for at in last]


def share(source, target):
    """Oracle: target pieces behind whose last character a source piece ends, too."""
    mine, theirs = holders(target), holders(source)
    places = [at for at in range(len(mine)) if at + 1 == len(mine) or mine[at] != mine[at + 1]]
    return sum(at + 1 == len(theirs) or theirs[at] != theirs[at + 1] for at in places) / len(places)


def cut(text, *places):
    """The text, cut at these places."""
    bounds = [0, *places, len(text)]
    return [text[start:end] for start, end in zip(bounds, bounds[1:])]


def pairs(seed, count=6):
    """Texts of few letters, so that pieces repeat, cut in two ways."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        text = "".join(rng.choice("ab é") for _ in range(rng.randint(2, 14)))
        ways = [cut(text, *sorted(rng.sample(range(1, len(text)), rng.randint(0, len(text) - 1)))) for _ in "st"]
        found.append(tuple(ways))
    return found


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_the_state_that_has_read_all_of_the_token(expect):
    """By hand. "unb" ends within "believ": the state after "un" has not read its b. "elievable" ends with "able"."""
    expect(align_tokens, ["un", "believ", "able"], ["unb", "elievable"]).equals([1, 2])
    expect(align_tokens, ["un", "believ", "able"], ["unb", "elie", "vable"]).equals([1, 1, 2])
    expect(align_tokens, ["a", "bcdef"], ["a", "b", "cd", "ef"]).equals([0, 1, 1, 1])


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_one_token_against_many(expect):
    """By hand. A token that is cut finer by the receiver is read several times; one that is cut coarser is not, up to
    its last part."""
    expect(align_tokens, ["abc"], ["a", "b", "c"]).equals([0, 0, 0])
    expect(align_tokens, ["a", "b", "c"], ["abc"]).equals([2])
    expect(align_tokens, ["abc", "d", "e"], ["a", "b", "c", "de"]).equals([0, 0, 0, 2])
    expect(align_tokens, ["a", "b", "cd"], ["ab", "c", "d"]).equals([1, 2, 2])


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_equal_cuts_are_token_for_token(expect):
    """Two models of one tokenizer: nothing is approximate, and a piece that occurs again is another token."""
    same = ["the", " cat", " the", " cat", " the"]
    expect(align_tokens, same, list(same)).equals([0, 1, 2, 3, 4])
    expect(exact_boundary_share, same, list(same)).equals(1.0)


@pytest.mark.kata("level15.tokenmap.align_tokens")
@pytest.mark.parametrize("seed", range(5))
def test_every_character_has_one_piece(expect, seed):
    """Oracle: all characters, one by one. Few letters, so no piece can be found by what it says; é takes two bytes."""
    for source, target in pairs(seed):
        expect(align_tokens, source, target).equals(owners(source, target))
        expect(exact_boundary_share, source, target).equals(share(source, target))


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_pieces_of_other_alphabets(expect):
    """Characters count on both sides, whether they take one byte or four. Tuples are sequences, too."""
    source, target = ("日本", "語🙂", " naï", "ve"), ("日", "本語", "🙂 n", "aïve")
    expect(align_tokens, source, target).equals([0, 1, 2, 3])
    expect(exact_boundary_share, source, target).equals(0.25)
    expect(align_tokens, ["🙂🙂", "a", "b"], ["🙂", "🙂a", "b"]).equals([0, 1, 2])


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_no_text_has_no_tokens(expect):
    """An empty prompt is aligned with nothing, and nothing about it is approximate."""
    expect(align_tokens, [], []).equals([])
    expect(exact_boundary_share, [], []).equals(1.0)
    expect(align_tokens, ["a"], ["a"]).equals([0])


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_another_text_is_refused(expect):
    """Ids or rows may match in number: states of another text are a stranger's (sglang #24051). Empty pieces, such as
    special tokens, stand for no character."""
    expect(align_tokens, ["ab", "c"], ["a", "bc"]).equals([0, 1])
    for source, target in ((["ab"], ["ac"]), (["a"], []), ([], ["a"]), (["ab", ""], ["ab"]), (["ab"], ["", "ab"])):
        expect(align_tokens, source, target).raises(ValueError)


# ---- exact_boundary_share, judged with align_tokens


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_only_ends_count(expect):
    """By hand: "un|believ|able" and "unb|elievable" end together once in two. Where a token starts does not matter:
    the state has read everything before it anyway."""
    expect(exact_boundary_share, ["un", "believ", "able"], ["unb", "elievable"]).equals(0.5)
    expect(exact_boundary_share, ["ab", "c"], ["a", "b", "c"]).equals(2 / 3)
    expect(exact_boundary_share, ["a", "b", "c"], ["ab", "c"]).equals(1.0)


@pytest.mark.kata("level15.tokenmap.align_tokens")
def test_the_share_is_of_the_receivers_tokens(expect):
    """By hand. One state is needed for each token of the target: exchanged, the share is another one."""
    fine, coarse = list("abcdefgh"), ["abc", "de", "fgh"]
    expect(exact_boundary_share, coarse, fine).equals(3 / 8)
    expect(exact_boundary_share, fine, coarse).equals(1.0)
    expect(exact_boundary_share, ["abcdefgh"], coarse).equals(1 / 3)
    expect(exact_boundary_share, ["ab"], ["ac"]).raises(ValueError)
