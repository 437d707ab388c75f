"""Judges verify.py by hand, by a toy target that is decoded without drafts, and by enumeration in place of statistics.

Random numbers are put on midpoints 1/2n, 3/2n, …, of as many parts that every border of a right program falls between
two of them: what is counted is then the distribution itself.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

from level08.verify import acceptance_rate, residual, verify_choices, verify_sample

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
EXACT = {"rel": 0, "abs": 1e-9}
ROUNDED = {"rel": 1e-5, "abs": 1e-7}  # sums of float32 in another order


def tensor(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def midpoints(n):
    return [(2 * i + 1) / (2 * n) for i in range(n)]


P = (0.2, 0.4, 0.4)  # the docstrings' example
Q = (0.5, 0.25, 0.25)
BELOW_ONE = 1 - 2**-53  # the largest u


# ---- verify_choices


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize(
    "draft, choices, right",
    [
        ([4, 7, 9], [4, 7, 2, 5], [4, 7, 2]),
        ([4, 7, 9], [4, 7, 9, 5], [4, 7, 9, 5]),
        ([4, 7, 9], [4, 1, 9, 5], [4, 1]),
        ([4, 7, 9], [1, 7, 9, 5], [1]),
        ([4, 7, 9], [7, 9, 5, 6], [7]),
        ([5, 5, 6, 5], [5, 6, 5, 5, 6], [5, 6]),
        ([4], [4, 4], [4, 4]),
        ([0, 0], [0, 0, 0], [0, 0, 0]),
        ([1], [4, 6], [4]),
        ([0], [3, 0], [3]),
        ([], [4], [4]),
    ],
)
def test_choices_count_up_to_the_first_that_was_not_drafted(expect, draft, choices, right):
    """Two accepted and one that corrects; all accepted and a bonus, without which every round loses a token; matches
    behind a mismatch, which follow a token that is not there; none accepted, and no draft: plain decoding."""
    expect(verify_choices, draft, choices).equals(right)


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize("draft, taken", [([4, 7, 9], 3), ([4, 7, 2], 4), ([1, 7, 2], 1), ([4, 7], 3), ([], 1)])
def test_no_choice_is_made_that_is_not_needed(expect, draft, taken):
    """A sampler works for each choice and takes a number from its generator: one choice too many, and the next token
    of the request is drawn with another number than without drafts."""

    def choices_taken(verify):
        made = []

        def choose():
            for token in [4, 7, 2, 5][: len(draft) + 1]:
                made.append(token)
                yield token

        return list(verify(draft, choose())), len(made)

    expect.story(choices_taken, verify_choices).equals(([4, 7, 2, 5][:taken], taken))


def target(tokens):
    """What a toy target says next: it depends on all of the text, and on its order."""
    return sum((i + 1) * (token + 2) ** 2 for i, token in enumerate(tokens)) % 11


def decoded(wrong_every, gamma, length=20):
    """(tokens, passes) of rounds with a drafter that is wrong at each place that `wrong_every` divides."""
    tokens, passes = [2, 0], 0
    while len(tokens) < length and passes < length:  # a round that gives nothing must not go on for ever
        draft = []
        for place in range(len(tokens), len(tokens) + gamma):
            draft.append(target(tokens + draft) + (place % wrong_every == 0))
        tokens += verify_choices(draft, [target(tokens + draft[:i]) for i in range(gamma + 1)])
        passes += 1
    return tokens[:length], passes


def rounds(wrong_every, gamma, length=20):
    """Oracle: a round ends behind the first place where the drafter is wrong, or behind the bonus."""
    n, passes = 2, 0
    while n < length:
        n = 1 + next((place for place in range(n, n + gamma) if place % wrong_every == 0), n + gamma)
        passes += 1
    return passes


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize("gamma", [0, 1, 2, 4, 17])
@pytest.mark.parametrize("wrong_every", [1, 3, 4, 5, 100])
def test_no_drafter_changes_the_text(expect, wrong_every, gamma):
    """Greedy text with drafts is the text without them, token for token, be the drafter always wrong, wrong at each
    third place, or always right; only the passes differ. Oracle: the target alone, one token after the other."""
    tokens = [2, 0]
    while len(tokens) < 20:
        tokens.append(target(tokens))
    expect(decoded, wrong_every, gamma).equals((tokens, rounds(wrong_every, gamma)))


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize("g", [0, 1, 2, 3])
def test_all_drafts_of_two_tokens(expect, g):
    """Oracle: the longest beginning that both have, and one choice more."""
    for draft in map(list, product(range(2), repeat=g)):
        for choices in map(list, product(range(2), repeat=g + 1)):
            n = max(n for n in range(g + 1) if draft[:n] == choices[:n])
            expect(verify_choices, draft, choices).equals(choices[: n + 1])


def numpy_ints(ids):
    return list(np.array(ids))


def torch_ints(ids):
    return list(torch.tensor(ids))


def plain(ids):
    """A list of any integers as one of Python's."""
    assert isinstance(ids, list), f"{type(ids).__name__}, where a list is right"
    return [int(x) for x in ids]


def of_all_kinds(drafts, choices, draft, chosen):
    return plain(verify_choices(drafts(draft), choices(chosen)))


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize("choices", [list, tuple, iter, numpy_ints, torch_ints])
@pytest.mark.parametrize("drafts", [list, tuple, numpy_ints, torch_ints])
def test_ids_come_in_many_shapes(expect, drafts, choices):
    """An argmax gives numpy's or torch's integers, and equal ids need not be one object. The result is a list."""
    draft, chosen = plain(["300", "49151", "128000"]), [300, 49151, 128001, 7]  # no two are one object
    expect(of_all_kinds, drafts, choices, draft, chosen).equals([300, 49151, 128001])
    expect(of_all_kinds, drafts, choices, draft[:2], chosen[:3]).equals([300, 49151, 128001])


@pytest.mark.kata("level08.verify.verify_choices")
@pytest.mark.parametrize("draft, choices", [([1], [1]), ([], []), ([1, 2], [1, 2, 3, 4]), ([1, 2], [2])])
def test_choices_for_another_draft_are_refused(expect, draft, choices):
    """One choice for each drafted token, and one for what follows: another number belongs to another pass."""
    expect(verify_choices, [1, 2], [1, 2, 3]).equals([1, 2, 3])
    expect(verify_choices, draft, choices).raises(ValueError)


# ---- acceptance_rate, judged with residual


@pytest.mark.kata("level08.verify.residual")
@pytest.mark.parametrize(
    "p, q, right",
    [
        (P, Q, 0.7),  # .2 + .25 + .25
        ((0.6, 0.3, 0.1), (0.2, 0.7, 0.1), 0.6),  # .2 + .3 + .1; two samples agree with .34
        ((0.5, 0.5, 0.0, 0.0), (4 / 7, 3 / 7, 0.0, 0.0), 13 / 14),
        ((0.2, 0.4, 0.4), (0.0, 1.0, 0.0), 0.4),  # a greedy draft: what the target gives to its token
        ((1.0, 0.0), (0.0, 1.0), 0.0),
        (P, P, 1.0),
        ((1.0,), (1.0,), 1.0),
    ],
)
def test_a_rate_by_hand(expect, p, q, right):
    """Of q(x), min(p(x), q(x)) is accepted; summed over all x that is the share of the drafts that pays."""
    for dtype in (torch.float64, torch.float32):
        expect(acceptance_rate, tensor(*p, dtype=dtype), tensor(*q, dtype=dtype)).equals(right, **ROUNDED)
    expect(acceptance_rate, tensor(*q), tensor(*p)).equals(right, **EXACT)


def distributions(seed, vocab, dtype=torch.float64):
    """Two that share most of their tokens; each gives nothing to some."""
    draw = torch.Generator().manual_seed(seed)
    rows = torch.rand(2, vocab, generator=draw, dtype=torch.float64) ** 2
    rows *= torch.rand(2, vocab, generator=draw) < 0.8
    rows[:, 0] += 0.1  # none is empty
    return [row.to(dtype) for row in rows / rows.sum(-1, keepdim=True)]


@pytest.mark.kata("level08.verify.residual")
@DTYPES
@pytest.mark.parametrize("vocab", [2, 3, 17, 1000])
def test_a_rate_is_1_minus_half_of_all_differences(expect, vocab, dtype):
    """Oracle: the total variation distance, in exact fractions of the given floats."""
    p, q = distributions(vocab, vocab, dtype)
    far = sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(p.tolist(), q.tolist())) / 2
    expect(acceptance_rate, p, q).equals(float(1 - far), rel=1e-5, abs=1e-6)


# ---- residual


@pytest.mark.kata("level08.verify.residual")
@DTYPES
@pytest.mark.parametrize(
    "p, q, right",
    [
        (P, Q, [0, 0.5, 0.5]),
        ((0.6, 0.3, 0.1), (0.2, 0.7, 0.1), [1, 0, 0]),
        ((0.5, 0.3, 0.2), (1.0, 0.0, 0.0), [0, 0.6, 0.4]),  # a greedy draft: the target without its token
        ((0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1), [0, 0, 0.25, 0.75]),
        ((0.7, 0.2, 0.1), (0.4, 0.4, 0.2), [1, 0, 0]),
        ((1.0, 0.0), (0.5, 0.5), [1, 0]),
        ((0.0, 1.0), (1.0, 0.0), [0, 1]),
        ((0.125, 0.5, 0.0, 0.375), (0.25, 0.25, 0.25, 0.25), [0, 2 / 3, 0, 1 / 3]),
    ],
)
def test_what_p_has_beyond_q_by_hand(expect, p, q, right, dtype):
    """What the draft proposes too often must not come back after its rejection. The dtype is that of p: a float64 row
    doubles the traffic of a vocabulary of 128,256."""
    expect(residual, tensor(*p, dtype=dtype), tensor(*q, dtype=dtype)).equals(tensor(*right, dtype=dtype), **ROUNDED)


@pytest.mark.kata("level08.verify.residual")
@DTYPES
@pytest.mark.parametrize(
    "p", [P, (1.0,), (1.0, 0.0), (0.0, 0.25, 0.75), (0.1, 0.2, 0.3, 0.4), (0.3333, 0.3333, 0.3333)], ids=str
)
def test_where_nothing_is_left_it_is_p(expect, p, dtype):
    """A drafter that is the target leaves 0 / 0. Nothing is rejected there, but rows are often made for all tokens at
    once, and one NaN is enough for a sampler to fail."""
    p = tensor(*p, dtype=dtype)
    expect(residual, p, p.clone()).equals(p, rel=0, abs=0)


@pytest.mark.kata("level08.verify.residual")
@DTYPES
def test_equal_up_to_rounding_is_equal(expect, dtype):
    """Two softmaxes of the same logits differ in the last bits. Where none of them is above, there is nothing to
    scale up, though the rows are not the same."""
    p = tensor(0.5, 0.25, 0.25, dtype=dtype)
    above = p + tensor(0.0, 1.0, 2.0, dtype=dtype) * torch.finfo(dtype).eps
    expect(residual, p, above).equals(p, rel=0, abs=0)


@pytest.mark.kata("level08.verify.residual")
@DTYPES
@pytest.mark.parametrize("vocab", [2, 3, 17, 1000])
def test_the_residual_is_each_surplus_over_all_of_them(expect, vocab, dtype):
    """Oracle: exact fractions of the given floats; p and q have zeros at different places."""
    p, q = distributions(vocab + 50, vocab, dtype)
    expect(residual, p, q).equals(torch.tensor(surplus(p, q), dtype=dtype), **ROUNDED)


def surplus(p, q):
    left = [max(Fraction(a) - Fraction(b), Fraction(0)) for a, b in zip(p.tolist(), q.tolist())]
    total = sum(left)
    return [float(x / total) for x in left]


@pytest.mark.kata("level08.verify.residual")
@pytest.mark.parametrize("dtype, least", [(torch.float32, 2.0**-22), (torch.float64, 2.0**-48)], ids=str)
def test_a_small_surplus_is_not_lost_to_rounding(expect, dtype, least):
    """A good drafter leaves a millionth. p - q is exact for near numbers; p · (1 - q / p) is not, nor is a small number
    below the fraction bar harmless: with 1e-6 in it the row no longer sums to 1. Oracle: exact fractions."""
    p = tensor(0.3, 0.2, 0.1, 0.4, dtype=dtype)
    for pattern in ([1.0, 2.0, 3.0, -6.0], [-2.0, 1.0, -1.0, 2.0], [0.0, 0.0, 1.0, -1.0]):
        for row in (p, p * 0.9999):
            q = row - tensor(*pattern, dtype=dtype) * least
            expect(residual, row, q).equals(torch.tensor(surplus(row, q), dtype=dtype), **ROUNDED)


@pytest.mark.kata("level08.verify.residual")
def test_different_vocabularies_are_refused(expect):
    """A draft model with another vocabulary means other tokens by its ids; cut to one length they would be added up."""
    expect(residual, tensor(*P), tensor(*Q)).equals(tensor(0.0, 0.5, 0.5))
    for function in (residual, acceptance_rate):
        expect(function, tensor(*P), tensor(0.5, 0.5)).raises(ValueError)
        expect(function, tensor(P, P), tensor(Q, Q)).raises(ValueError)


# ---- verify_sample


@pytest.mark.kata("level08.verify.verify_sample")
@DTYPES
@pytest.mark.parametrize(
    "draft, accept_u, final_u, right",
    [
        ([0], [0.39], 0.5, [0, 1]),  # .39 · .5 < .2; the bonus of .6, .3, .1 would be 0
        ([0], [0.41], 0.2, [1]),
        ([0], [0.41], 0.7, [2]),
        ([1], [0.99], 0.15, [1, 0]),
        ([1], [0.99], 0.55, [1, 1]),
        ([2], [0.99], 0.95, [2, 2]),
        ([2], [0.0], 0.25, [2, 1]),
        ([], [], 0.15, [0]),
        ([], [], 0.65, [2]),
    ],
)
def test_one_drafted_token(expect, draft, accept_u, final_u, right, dtype):
    """The docstring's example. Token 0 has .2 where .5 was proposed: it stays for .4 of the numbers, and then nothing
    of it is left over. Tokens 1 and 2 have more than was proposed, and always stay. The bonus comes from p, too."""
    p = tensor(*[P] * (len(draft) + 1), dtype=dtype)
    q = tensor(*[Q] * len(draft), dtype=dtype).reshape(-1, 3)
    expect(verify_sample, draft, q, p, accept_u, final_u).equals(right)


# each row differs, and so do all rates: at 0, 1 and 2 token 0 stays below .5, 2/3 and .25
P4 = ((0.25, 0.5, 0.25, 0.0), (0.5, 0.0, 0.125, 0.375), (0.125, 0.375, 0.375, 0.125), (0.0, 0.25, 0.25, 0.5))
Q4 = ((0.5, 0.0, 0.25, 0.25), (0.75, 0.125, 0.125, 0.0), (0.5, 0.5, 0.0, 0.0))


@pytest.mark.kata("level08.verify.verify_sample")
@DTYPES
@pytest.mark.parametrize(
    "draft, accept_u, final_u, right",
    [
        ([0, 0, 0], [0.4, 0.6, 0.2], 0.2, [0, 0, 0, 1]),  # k accepted, k + 1 tokens; the last from p[3]
        ([0, 0, 0], [0.4, 0.6, 0.2], 0.4, [0, 0, 0, 2]),
        ([0, 0, 0], [0.4, 0.6, 0.2], 0.9, [0, 0, 0, 3]),
        ([0, 0, 0], [0.6, 0.6, 0.2], 0.9, [1]),  # p[0] - q[0]: .5 of token 1
        ([0, 0, 0], [0.4, 0.7, 0.2], 0.1, [0, 3]),  # p[1] - q[1]: .375 of token 3
        ([0, 0, 0], [0.4, 0.6, 0.3], 0.7, [0, 0, 2]),  # p[2] - q[2]: .375 of token 2, .125 of token 3
        ([0, 0, 0], [0.4, 0.6, 0.3], 0.8, [0, 0, 3]),
        ([0, 0, 0], [0.6, 0.7, 0.3], 0.5, [1]),
        ([2, 2, 1], [0.9, 0.9, 0.7], 0.2, [2, 2, 1, 1]),
        ([2, 2, 1], [0.9, 0.9, 0.8], 0.2, [2, 2, 2]),
        ([3, 0, 0], [0.0, 0.1, 0.1], 0.5, [1]),  # token 3 is excluded at 0: .0 · .25 is not below 0
        ([2, 1, 0], [0.0, 0.0, 0.0], 0.5, [2, 3]),  # and token 1 at 1
        ([0, 0, 0], [0.5, 0.1, 0.1], 0.5, [1]),  # .5 · .5 is not below .25 either
        ([0, 0, 0], [0.4, 0.6, 0.25], 0.5, [0, 0, 2]),
        ([0, 0, 0], [0.49, 0.66, 0.24], BELOW_ONE, [0, 0, 0, 3]),
        ([0, 0, 0], [0.49, 0.66, 0.24], 0.0, [0, 0, 0, 1]),
        ([0, 0, 0], [0.4, 0.7, 0.2], 0.0, [0, 3]),
        ([0, 0, 0], [0.51, 0.1, 0.1], BELOW_ONE, [1]),
    ],
)
def test_the_first_rejection_ends_it(expect, draft, accept_u, final_u, right, dtype):
    """Rows behind a rejected token were computed after something that is not there. Each token has its own row of
    each, and its own number; a token that the target excludes never stays, be the number 0."""
    expect(verify_sample, draft, tensor(*Q4, dtype=dtype), tensor(*P4, dtype=dtype), accept_u, final_u).equals(right)


def first_token(p, q, parts, dtype):
    """(distribution of the first token, share of the rounds that accept) over all drafts and all midpoints."""
    rows = torch.stack([tensor(*p, dtype=dtype), tensor(*p, dtype=dtype).flip(0)])
    found, accepted = [0.0] * len(p), 0.0
    for token in range(len(p)):
        for u, last in product(midpoints(parts[0]), midpoints(parts[1])) if q[token] else ():
            out = verify_sample([token], tensor(q, dtype=dtype), rows, [u], last)
            found[out[0]] += q[token] / parts[0] / parts[1]
            accepted += (len(out) == 2) * q[token] / parts[0] / parts[1]
    return found, accepted


@pytest.mark.kata("level08.verify.verify_sample")
@DTYPES
@pytest.mark.parametrize("final_u, token", [(0.25, 0), (0.625, 1), (0.9, 2)])
def test_a_rejection_where_nothing_is_left_over(expect, dtype, final_u, token):
    """q is above p by a rounding or two, so the largest u rejects, and p has nothing beyond q: the residual is p. From
    a row of zeros no token can be drawn, and the first id behind the vocabulary would come out."""
    p = tensor((0.5, 0.25, 0.25), dtype=dtype)
    q = p + tensor((0.0, 1.0, 2.0), dtype=dtype) * torch.finfo(dtype).eps
    expect(verify_sample, [2], q, torch.cat([p, p]), [BELOW_ONE], final_u).equals([token])


@pytest.mark.kata("level08.verify.verify_sample")
@DTYPES
@pytest.mark.parametrize(
    "p, q, parts",
    [
        (P, Q, (10, 10)),
        ((0.6, 0.3, 0.1), (0.2, 0.7, 0.1), (7, 4)),  # accepted below 3/7; by p alone .44, .42, .14 come out
        (P, (0.0, 0.5, 0.5), (5, 4)),  # a draft without token 0
        (P, P, (6, 6)),
        (P, (1.0, 0.0, 0.0), (10, 4)),  # a greedy draft: q is 1 for its token, not what softmax gave it
        ((0.6, 0.4), (1.0, 0.0), (10, 4)),
        ((0.5, 0.5, 0.0, 0.0), (4 / 7, 3 / 7, 0.0, 0.0), (8, 4)),  # q cut to its top 2, from which was drawn
        ((0.0, 0.5, 0.5), Q, (4, 4)),  # the draft proposes what the target excludes
        ((0.0, 1.0, 0.0), (0.25, 0.25, 0.5), (4, 3)),  # a greedy target
        ((1.0, 0.0), (0.0, 1.0), (4, 4)),
        ((0.1, 0.2, 0.3, 0.4), (0.4, 0.3, 0.2, 0.1), (12, 4)),
    ],
    ids=str,
)
def test_the_first_token_has_the_targets_distribution(expect, p, q, parts, dtype):
    """The theorem, enumerated: whatever the drafter, what comes out is p, not nearly p. And no draft is wasted: the sum
    of min(p, q) is accepted."""
    accepted = sum(min(a, b) for a, b in zip(p, q))
    expect(first_token, p, q, parts, dtype).equals((list(p), accepted), **EXACT)


def chain(g, of_target, of_draft, parts, length):
    """The distribution of the first tokens: all drafts and midpoints, with the target itself where a round is short.

    of_target, of_draft  functions: the distribution after some tokens
    """
    found = dict.fromkeys(product(range(len(of_target(()))), repeat=length), 0.0)
    for draft in product(range(len(of_draft(()))), repeat=g):
        q = torch.tensor([of_draft(draft[:i]) for i in range(g)], dtype=torch.float64)
        p = torch.tensor([of_target(draft[:i]) for i in range(g + 1)], dtype=torch.float64)
        weight = q[range(g), draft].prod().item() / parts[0] ** g / parts[1]
        for *accept_u, final_u in product(*[midpoints(parts[0])] * g, midpoints(parts[1])) if weight else ():
            out = tuple(verify_sample(list(draft), q, p, accept_u, final_u))[:length]
            for rest in product(range(p.shape[1]), repeat=length - len(out)):
                found[out + rest] += weight * probability(rest, of_target, out)
    return list(found.values())


def probability(tokens, of_target, before=()):
    """The chain rule."""
    return (
        1.0 if not tokens else of_target(before)[tokens[0]] * probability(tokens[1:], of_target, (*before, tokens[0]))
    )


def turned(row, by):
    return row[-by % 3 :] + row[: -by % 3]


def three(tokens):
    """A target of three tokens: P, turned by what came before. Q turned the other way has rates .4, .8 and 1."""
    return turned(P, sum(tokens) + len(tokens))


def two(tokens):
    """A target of two tokens: .25, .5 or .75 of token 1, by what came before."""
    one = (1 + sum((i + 1) * x for i, x in enumerate(tokens)) % 3) / 4
    return (1 - one, one)


@pytest.mark.kata("level08.verify.verify_sample")
def test_two_tokens_have_the_targets_distribution(expect):
    """The second token's distribution depends on the first, accepted or not. Oracle: the chain rule."""
    right = [probability(pair, three) for pair in product(range(3), repeat=2)]
    expect(chain, 2, three, lambda tokens: turned(Q, 2 * sum(tokens)), (5, 10), 2).equals(right, **EXACT)


@pytest.mark.kata("level08.verify.verify_sample")
def test_three_drafted_tokens_and_a_bonus_have_the_targets_distribution(expect):
    """All that a round can give, four tokens: accepted, corrected and bonus ones. Oracle: the chain rule.

    Token 1 is drafted with .5 or, by a greedy drafter, always: .25, .5, .75 or all of them stay, which is four parts.
    """
    right = [probability(four, two) for four in product(range(2), repeat=4)]
    drafted = [(0.5, 0.5), (0.0, 1.0), (0.5, 0.5)]
    expect(chain, 3, two, lambda tokens: drafted[sum(tokens) % 3], (4, 4), 4).equals(right, **EXACT)


@pytest.mark.kata("level08.verify.verify_sample")
@pytest.mark.parametrize("rejected", [0, 1, 7, 39, 40])
def test_a_long_draft(expect, rejected):
    """Copied code is accepted by the dozen. Token 1 has .25 where .5 was proposed: it stays below u = .5, and in its
    place comes 0. 40 stands for no rejection, and .8 is then in the part of token 1."""
    p, q = tensor(*[(0.75, 0.25)] * 41), tensor(*[(0.5, 0.5)] * 40)
    accept_u = [0.6 if i == rejected or i % 9 == 8 and i > rejected else 0.3 for i in range(40)]
    expect(verify_sample, [1] * 40, q, p, accept_u, 0.8).equals([1] * rejected + [int(rejected == 40)])


@pytest.mark.kata("level08.verify.verify_sample")
@DTYPES
def test_a_millionth_decides(expect, dtype):
    """Most of 128,256 tokens have less than a millionth, which is well above the rounding of float32. The borders are
    .2 / .5, then .5 in the residual and .6 in p."""
    p, q = tensor(P, P, dtype=dtype), tensor(Q, dtype=dtype)
    for u, final_u, right in [
        (0.399999, 0.599999, [0, 1]),
        (0.399999, 0.600001, [0, 2]),
        (0.400001, 0.499999, [1]),
        (0.400001, 0.500001, [2]),
    ]:
        expect(verify_sample, [0], q, p, [u], final_u).equals(right)


@pytest.mark.kata("level08.verify.verify_sample")
def test_what_stands_behind_a_rejection_is_not_read(expect):
    """Those rows follow a token that is gone: other numbers there, NaN as well, change nothing."""
    for rest in ([0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0], [torch.nan] * 4):
        p, q = tensor(*P4[:2], rest, rest), tensor(*Q4[:2], rest)
        for u in (0.0, 0.99):
            expect(verify_sample, [0, 0, 3], q, p, [0.4, 0.7, u], 0.3).equals([0, 3])


def sampled_of_all_kinds(drafts, draft, accept_u):
    return plain(verify_sample(drafts(draft), tensor(*Q4), tensor(*P4), accept_u, 0.2))


@pytest.mark.kata("level08.verify.verify_sample")
@pytest.mark.parametrize("drafts", [list, tuple, numpy_ints, torch_ints])
def test_a_draft_comes_in_many_shapes(expect, drafts):
    """A drafter hands over a tuple, or numpy's or torch's integers. The result is a list."""
    expect(sampled_of_all_kinds, drafts, [2, 2, 1], (0.9, 0.9, 0.7)).equals([2, 2, 1, 1])
    expect(sampled_of_all_kinds, drafts, [2, 2, 1], (0.9, 0.9, 0.8)).equals([2, 2, 2])


@pytest.mark.kata("level08.verify.verify_sample")
def test_rows_for_another_draft_are_refused(expect):
    """q for each drafted token, p for one more; logits are no probabilities; a token that q excludes was not drawn."""
    p, q = tensor(P, P), tensor(Q)
    expect(verify_sample, [0], q, p, [0.3], 0.5).equals([0, 1])
    expect(verify_sample, [0], q, p[:1], [0.5], 0.5).raises(ValueError)
    expect(verify_sample, [0, 1], q, p, [0.5, 0.5], 0.5).raises(ValueError)
    expect(verify_sample, [0], q, p, [], 0.5).raises(ValueError)
    expect(verify_sample, [0], q.log(), p, [0.5], 0.5).raises(ValueError)
    expect(verify_sample, [0], tensor((0.0, 0.5, 0.5)), p, [0.5], 0.5).raises(ValueError)
