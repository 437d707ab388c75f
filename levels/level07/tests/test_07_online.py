"""Judges online.py by softmax over all keys at once, in float64 or by math.fsum, by torch.logsumexp, and by hand.

A helper `by_…` is an oracle: it has all scores before it. Sizes are all different; rows that have seen no key stand
beside rows that have.
"""

import math
from functools import reduce
from itertools import permutations

import numpy as np
import pytest
import torch

from level07.online import finalize, merge, online_logsumexp, online_update

INF = math.inf
EXACT = {"rel": 0, "abs": 0}
CLOSE = {"rel": 1e-12, "abs": 1e-13}  # float64 in another order
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def rows(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


def drawn(*shape, seed=0, spread=3.0):
    draw = torch.Generator().manual_seed(1000 * seed + len(shape))
    return torch.randn(shape, generator=draw, dtype=torch.float64) * spread


# ---- online_logsumexp


def by_fsum(scores):
    """Oracle: the largest first, then a sum that is rounded once."""
    largest = max(scores)
    return largest, math.fsum(math.exp(s - largest) for s in scores if s > -INF)


@pytest.mark.kata("level07.online.online_logsumexp")
def test_the_old_sum_is_in_units_of_the_old_maximum(expect):
    """The docstring's example: 1 + e^-2 = 1.135 in units of e^3; times e^-1, plus 1 + e^-2, in units of e^4."""
    expect(online_logsumexp, np.array([1.0, 3.0]), 2).equals((3.0, 1 + math.exp(-2)), **CLOSE)
    right = (4.0, 1.135335283236613 * math.exp(-1) + 1 + math.exp(-2))
    expect(online_logsumexp, np.array([1.0, 3.0, 2.0, 4.0]), 2).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize("order", permutations([1.0, 2.0, 4.5]), ids=str)
@pytest.mark.parametrize("block", [1, 2])
def test_the_largest_may_come_first_or_last(expect, order, block):
    """With the largest first nothing has to be rescaled, and many wrong programs are right."""
    expect(online_logsumexp, np.array(order), block).equals(by_fsum(order), **CLOSE)


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize("n", [1, 2, 5, 12, 13, 100])
def test_the_size_of_a_block_changes_nothing(expect, n):
    """Ragged last blocks, blocks of one, one block for all, and larger ones; the result by torch.logsumexp as well."""
    scores = drawn(n, seed=n).numpy()
    for block in sorted({1, 2, 3, 5, 12, n, n + 1, 1000}):
        expect(online_logsumexp, scores, block).equals(by_fsum(scores.tolist()), **CLOSE)
    largest, total = by_fsum(scores.tolist())
    assert math.isclose(largest + math.log(total), torch.from_numpy(scores).logsumexp(0).item(), rel_tol=1e-12)


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize(
    "scores",
    [
        [1000.0, 1000.0],
        [-1000.0, -1001.0, -1000.0],
        [1000.0, -1000.0, 999.0],
        [-1000.0, 1000.0, 999.0],
        [-20000.0, -20001.0],
        [-1e31, -2e31],
        [1e4, -1e4, 1e4 - 1],
        [0.0, 0.0, 0.0, 0.0],
        [-0.5, -0.25, -3.0],
    ],
    ids=str,
)
def test_scores_may_be_of_any_size(expect, scores):
    """e^1000 is infinite and e^-1000 is 0: only differences are safe. A first maximum of 0 or -1e4 would be above
    every score of some rows, and their sum 0."""
    for block in (1, 2, 8):
        expect(online_logsumexp, np.array(scores), block).equals(by_fsum(scores), **CLOSE)


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize(
    "scores",
    [
        [-INF, 0.0],
        [0.0, -INF],
        [-INF, -INF, 2.0, 1.0],
        [2.0, -INF, -INF, 1.0, 3.0],
        [-INF, 5.0, -INF],
        [-20000.0, -INF, -INF, -20001.0],
        [1.0, 2.0, -INF, -INF],
    ],
    ids=str,
)
def test_a_masked_score_adds_nothing(expect, scores):
    """Padding may come first, in between, last, or fill a block: -inf minus -inf is NaN, and NaN stays for good."""
    for block in (1, 2, 3, 8):
        expect(online_logsumexp, np.array(scores), block).equals(by_fsum(scores), **CLOSE)


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_all_masked_is_an_empty_sum(expect, n):
    """-inf + log 0 is -inf, so that a merge takes nothing of it; a least number instead would be a score."""
    for block in (1, 2, 9):
        expect(online_logsumexp, np.full(n, -INF), block).equals((-INF, 0.0), **EXACT)


class Watched(np.ndarray):
    """Scores that write down which of them numpy's arithmetic touches: (first, number) in elements of `home`."""

    def __array_finalize__(self, other):
        self.home, self.seen = getattr(other, "home", None), getattr(other, "seen", None)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        for x in inputs:
            if isinstance(x, Watched) and x.size and x.home is not None:
                at = (x.__array_interface__["data"][0] - x.home.__array_interface__["data"][0]) // 8
                if 0 <= at < len(x.home):
                    x.seen.append((at, x.size))
        plain = [x.view(np.ndarray) if isinstance(x, Watched) else x for x in inputs]
        out = kwargs.pop("out", ())
        if out:
            kwargs["out"] = tuple(x.view(np.ndarray) if isinstance(x, Watched) else x for x in out)
        return getattr(ufunc, method)(*plain, **kwargs)


def touched(scores, block):
    """(at most a block at a time?, never back to an earlier block?) Python's own loops are not seen."""
    watched = scores.view(Watched)
    watched.home, watched.seen = scores, []
    online_logsumexp(watched, block)
    blocks = [at // block for at, _ in watched.seen]
    return {
        "scores at a time": "more than a block" if max([n for _, n in watched.seen], default=0) > block else "a block",
        "passes": "several" if blocks != sorted(blocks) else "one",
    }


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize("n, block", [(12, 4), (13, 4), (9, 2), (20, 7)])
def test_scores_are_read_once_block_by_block(expect, n, block):
    """The maximum first, then the sum, is softmax in two passes: by the second one the scores are gone, or had to be
    kept in a memory that they do not fit into."""
    expect(touched, drawn(n, seed=2).numpy(), block).equals({"scores at a time": "a block", "passes": "one"})


@pytest.mark.kata("level07.online.online_logsumexp")
@pytest.mark.parametrize("step", [1e-9, 1e-3, 700.0])
def test_sums_are_kept_in_float64(expect, step):
    """Thousands of terms of nearly the same size: in float32 their sum is wrong in the seventh digit."""
    scores = np.arange(999, dtype=np.float64) * step
    expect(online_logsumexp, scores, 10).equals(by_fsum(scores.tolist()), rel=1e-11, abs=0)
    expect(online_logsumexp, scores[::-1], 7).equals(by_fsum(scores.tolist()), rel=1e-11, abs=0)


@pytest.mark.kata("level07.online.online_logsumexp")
def test_a_block_of_nothing_is_refused(expect):
    """It would read the same place for ever."""
    expect(online_logsumexp, np.array([5.0]), 8).equals((5.0, 1.0))
    for block in (0, -1):
        expect(online_logsumexp, np.array([1.0, 2.0]), block).raises(ValueError)


# ---- online_update


def start(*shape, D, dtype=torch.float64):
    """What online_update begins with: nothing seen."""
    empty = torch.zeros(shape, dtype=dtype)
    return torch.full_like(empty, -INF), empty, torch.zeros(*shape, D, dtype=dtype)


def by_state(scores, values):
    """Oracle of (m, denominator, acc) after all keys, in float64: the maximum first, masked keys left out by hand."""
    scores, values = scores.double(), values.double()
    m = scores.amax(-1)
    weights = torch.where(scores == -INF, 0.0, (scores - m.nan_to_num(neginf=0)[..., None]).exp())
    return m, weights.sum(-1), torch.einsum("...qk,...kd->...qd", weights, values)


def by_softmax(scores, values):
    """Oracle of (out, lse): torch's softmax and logsumexp over all keys at once; 0 where there is none."""
    scores, values = scores.double(), values.double()
    return scores.softmax(-1).nan_to_num(nan=0.0) @ values, scores.logsumexp(-1)


def updated(scores, values, sizes):
    """(m, denominator, acc) of online_update, block by block."""
    state = start(*scores.shape[:-1], D=values.shape[-1], dtype=values.dtype)
    for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2)):
        state = online_update(*state, s, v)
    return state


def attended(scores, values, sizes):
    """(out, lse) by online_update and finalize."""
    return finalize(*updated(scores, values, sizes))


def masked(scores, *columns):
    """The scores with -inf in these columns of all rows."""
    scores = scores.clone()
    scores[..., list(columns)] = -INF
    return scores


@pytest.mark.kata("level07.online.online_update")
def test_the_first_block_is_weighted_by_its_own_maximum(expect):
    """The docstring's example: weights e^-2 = 0.1353 and 1, nothing divided."""
    right = rows(3.0), rows(1 + math.exp(-2)), rows([2 * math.exp(-2) + 4])
    expect(online_update, *start(1, D=1), rows([1.0, 3.0]), rows([2.0], [4.0])).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize(
    "scores, m, shrink, weights",
    [([2.0, 2.0], 2.0, 1, (1, 1)), ([0.0, 1.0], 2.0, 1, (math.exp(-2), math.exp(-1))), ([5.0, 2.0], 5.0, 0, (1, 0))],
    ids=["as large", "smaller", "larger"],
)
def test_both_sums_are_brought_to_the_new_maximum(expect, scores, m, shrink, weights):
    """Before: m = 2, denominator 3, acc (8, -1). At a maximum of 5 the old sums count e^-3 of that, the 2 too."""
    shrink, (a, b) = (shrink or math.exp(-3)), (w or math.exp(-3) for w in weights)
    right = rows(m), rows(3 * shrink + a + b), rows([8 * shrink + 10 * a + 4 * b, -shrink + 20 * a])
    state = rows(2.0), rows(3.0), rows([8.0, -1.0])
    expect(online_update, *state, rows(scores), rows([10.0, 20.0], [4.0, 0.0])).equals(right, **CLOSE)


# (batch and heads, queries, keys, features, sizes of the blocks)
SHAPES = pytest.mark.parametrize(
    "lead, Q, D, sizes",
    [
        ((), 1, 1, [1]),
        ((), 4, 3, [2, 2, 1]),
        ((2,), 3, 5, [4, 3, 1]),
        ((2, 3), 4, 5, [7, 2]),
        ((3, 2), 1, 4, [1, 1, 1, 1, 1, 1]),
        ((2, 2), 2, 2, [2, 2]),
        ((1, 3, 2), 5, 1, [3, 6]),
        ((), 6, 2, [40]),
    ],
    ids=str,
)


@pytest.mark.kata("level07.online.online_update")
@SHAPES
def test_every_row_has_a_maximum_of_its_own(expect, lead, Q, D, sizes):
    """Oracle: all keys at once, in float64. Rows differ in size by hundreds: with one maximum for all, small ones are
    0."""
    scores = drawn(*lead, Q, sum(sizes), seed=1) + drawn(*lead, Q, 1, seed=2, spread=400)
    values = drawn(*lead, sum(sizes), D, seed=3)
    expect(updated, scores, values, sizes).equals(by_state(scores, values), **CLOSE)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("last", range(5))
@DTYPES
def test_the_maximum_may_come_in_any_block(expect, last, dtype):
    """Rescaling is only seen when it is not in the first one; two blocks in a row may each raise it."""
    scores, values = drawn(2, 3, 10, seed=4), drawn(2, 10, 4, seed=5)
    scores[..., 2 * last] += 9
    scores, values = scores.to(dtype), values.to(dtype)
    right = tuple(x.to(dtype) for x in by_state(scores, values))
    expect(updated, scores, values, [2] * 5).equals(right, rel=1e-5, abs=1e-5)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize(
    "columns",
    [(0, 1), (2, 3), (4, 5), (0, 1, 2, 3), (2, 3, 4, 5), (0, 2, 4), (1, 3, 5), (0,), (5,), (0, 1, 2, 3, 4)],
    ids=str,
)
@pytest.mark.parametrize("size", [0.0, -20000.0, -1e6, 1e4])
def test_a_masked_key_has_no_weight(expect, columns, size):
    """A block that is masked whole changes nothing, be it the first. Where all real scores are below -10,000, a mask
    of -1e4 instead of -inf lets the hidden keys win: here they are worth 1e6 each."""
    scores = masked(drawn(2, 3, 6, seed=6) + size, *columns)
    values = drawn(2, 6, 4, seed=7)
    values[:, list(columns)] = 1e6
    expect(attended, scores, values, [2, 2, 2]).equals(by_softmax(scores, values), rel=1e-9, abs=1e-9)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("sizes", [[6], [1] * 6, [2, 4], [3, 3], [5, 1]], ids=str)
@DTYPES
def test_a_row_that_has_seen_no_key_stands_beside_rows_that_have(expect, sizes, dtype):
    """Under a causal mask row i sees i keys here, so the first none. Its maximum stays -inf and both its sums 0."""
    scores, values = drawn(3, 7, 6, seed=8), drawn(3, 6, 2, seed=9)
    scores = scores.masked_fill(torch.arange(6) >= torch.arange(7)[:, None], -INF).to(dtype)
    values = values.to(dtype)
    right = tuple(x.to(dtype) for x in by_state(scores, values))
    expect(updated, scores, values, sizes).equals(right, rel=1e-5, abs=1e-6)
    right = tuple(x.to(dtype) for x in by_softmax(scores, values))
    expect(attended, scores, values, sizes).equals(right, rel=1e-5, abs=1e-6)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("m", [-1e5, -3.0, 0.0, 1e4, -INF])
def test_a_block_without_keys_leaves_the_state(expect, m):
    """A tile of padding behind real keys: what was there stays, to the last bit."""
    denominator, acc = (0.0, [0.0, 0.0]) if m == -INF else (3.25, [7.5, -1.0])
    state = rows(m, 2.0), rows(denominator, 1.5), rows(acc, [4.0, 0.0])
    block = rows([-INF, -INF], [-INF, -INF]), rows([1.0, 9.0], [2.0, 3.0])
    expect(online_update, *state, *block).equals(state, **EXACT)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("shift", [-1e4, -1000.0, -1.0, 1000.0, 1e4])
def test_a_constant_on_all_scores_moves_only_the_log_sum(expect, shift):
    """Softmax sees differences. Without the maximum e^1000 is infinite, and at -1000 every weight is 0."""
    scores, values = torch.round(drawn(2, 3, 8, seed=10) * 64) / 64, drawn(2, 8, 5, seed=11)
    out, lse = by_softmax(scores, values)
    expect(attended, scores + shift, values, [3, 3, 2]).equals((out, lse + shift), rel=1e-11, abs=1e-11)


@pytest.mark.kata("level07.online.online_update")
def test_scores_far_apart(expect):
    """A maximum that rises or falls by thousands: the smaller parts are 0, whatever their values, and nothing is
    infinite or NaN."""
    for scores in ([-1e4, 1e4, 0.0], [1e4, -1e4, 0.0], [-1e30, 1e30, -1e30], [-1000.0, 0.0, 1000.0]):
        values = rows(*([3.0 if score == max(scores) else 1e9] for score in scores))
        expect(attended, rows(scores), values, [1, 1, 1]).equals((rows([3.0]), rows(max(scores))), **CLOSE)


@pytest.mark.kata("level07.online.online_update")
def test_values_of_every_feature_are_summed(expect):
    """One-hot values read the weights themselves off the accumulator: e^(score - m), key by key."""
    scores = drawn(3, 5, seed=12)
    m = scores.amax(-1)
    right = m, (scores - m[:, None]).exp().sum(-1), (scores - m[:, None]).exp()
    expect(updated, scores, torch.eye(5, dtype=torch.float64), [2, 3]).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.online_update")
def test_scores_and_values_may_be_views(expect):
    """Tiles are slices, and keys come transposed: nothing lies one after the other in memory."""
    scores, values = drawn(6, 3, 2, seed=13).permute(2, 1, 0), drawn(4, 6, 2, seed=14).permute(2, 1, 0)
    expect(attended, scores, values, [2, 4]).equals(by_softmax(scores, values), **CLOSE)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("seed", range(6))
def test_any_cut_of_the_keys_gives_the_whole(expect, seed):
    """Also one with masked keys at random: a third of them, so that some rows see none for a while."""
    draw = torch.Generator().manual_seed(seed)
    scores, values = drawn(2, 4, 9, seed=seed), drawn(2, 9, 3, seed=seed + 50)
    scores[torch.rand(scores.shape, generator=draw) < 0.35] = -INF
    cuts = [0, *sorted((torch.randperm(8, generator=draw)[: seed % 4] + 1).tolist()), 9]
    sizes = [b - a for a, b in zip(cuts, cuts[1:])]
    expect(attended, scores, values, sizes).equals(by_softmax(scores, values), **CLOSE)


# ---- finalize


@pytest.mark.kata("level07.online.online_update")
def test_the_sum_is_divided_once_at_the_end(expect):
    """The docstring's example, and a row without keys beside it: 0 / 0 would be NaN, and log 0 is -inf."""
    expect(finalize, rows(2.0), rows(4.0), rows([8.0])).equals((rows([2.0]), rows(2 + math.log(4))), **CLOSE)
    right = rows([2.0], [0.0]), rows(2 + math.log(4), -INF)
    expect(finalize, rows(2.0, -INF), rows(4.0, 0.0), rows([8.0], [0.0])).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.online_update")
@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (3, 4), (3, 3), (2, 5, 3), (2, 3, 4, 6)], ids=str)
@DTYPES
def test_every_row_is_divided_by_its_own_sum(expect, shape, dtype):
    """Every third row has seen no key."""
    m, acc = drawn(*shape[:-1], seed=15, spread=500).to(dtype), drawn(*shape, seed=16).to(dtype)
    denominator = 1 + drawn(*shape[:-1], seed=17).abs().to(dtype)
    empty = (torch.arange(m.numel()) % 3 == 2).view(m.shape)
    m[empty], denominator[empty], acc[empty] = -INF, 0, 0
    out = torch.where(empty[..., None], 0, acc / denominator[..., None])
    lse = torch.where(empty, -INF, m + denominator.log())
    expect(finalize, m, denominator, acc).equals((out, lse))


@pytest.mark.kata("level07.online.online_update")
def test_a_sum_is_at_least_1_and_may_be_thousands(expect):
    """Many equal scores: a small number added to every sum against the division by 0 would be seen in the mean."""
    for n in (1.0, 2.0, 2.0**20):
        right = rows([3.0, -0.5]), rows(-7 + math.log(n))
        expect(finalize, rows(-7.0), rows(n), rows([3 * n, -0.5 * n])).equals(right, **CLOSE)


# ---- merge


def part(*scores_and_values):
    """(out, lse) of one row's keys, by hand: [(score, value), …]. No keys: (0, -inf)."""
    total = math.fsum(math.exp(s) for s, _ in scores_and_values)
    out = math.fsum(math.exp(s) * v for s, v in scores_and_values) / total if total else 0.0
    return rows([out]), rows(math.log(total) if total else -INF)


def by_weights(*parts):
    """Oracle of merge, for any number of parts: softmax over the log-sum-exps, in float64."""
    lses = torch.stack([lse.double() for _, lse in parts])
    weights = lses.softmax(0).nan_to_num(nan=0.0)
    out = sum(w[..., None] * out.double() for w, (out, _) in zip(weights, parts))
    return out, lses.logsumexp(0)


@pytest.mark.kata("level07.online.merge")
def test_a_part_weighs_what_it_has_of_the_sum(expect):
    """The docstring's example: e^0 and e^(log 3) are 1 and 3 of 4."""
    right = rows([4.0]), rows(math.log(4))
    expect(merge, rows([1.0]), rows(0.0), rows([5.0]), rows(math.log(3))).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize(
    "a, b, right",
    [
        ((1.0, math.log(2)), (3.0, math.log(6)), (2.5, math.log(8))),
        ((1.0, math.log(4)), (0.0, 0.0), (0.8, math.log(5))),
        ((-2.0, 0.0), (4.0, 0.0), (1.0, math.log(2))),
        ((5.0, -3.0), (5.0, 2.0), (5.0, 2 + math.log1p(math.exp(-5)))),
        ((8.0, math.log(0.25)), (0.0, math.log(0.75)), (2.0, 0.0)),
    ],
    ids=str,
)
def test_two_parts_by_hand(expect, a, b, right):
    """Logs are not added: 2 and 6 make 8, not 12. They are natural ones: with powers of two log 4 would count for
    2.6."""
    (x, p), (y, r), (out, lse) = a, b, right
    for one, other in (((x, p), (y, r)), ((y, r), (x, p))):
        args = rows([one[0]]), rows(one[1]), rows([other[0]]), rows(other[1])
        expect(merge, *args).equals((rows([out]), rows(lse)), **CLOSE)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("lse", [-1e4, -1000.0, -1.0, 0.0, 2.5, 1000.0, 1e4])
def test_a_part_without_keys_changes_nothing(expect, lse):
    """A split that lies behind the causal mask gives (0, -inf), and the neutral element of a merge is that."""
    out, empty = rows([1.5, -3.0]), (rows([0.0, 0.0]), rows(-INF))
    expect(merge, out, rows(lse), *empty).equals((out, rows(lse)), rel=1e-15, abs=0)
    expect(merge, *empty, out, rows(lse)).equals((out, rows(lse)), rel=1e-15, abs=0)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("shape", [(1, 2), (3, 2, 1)], ids=str)
def test_two_parts_without_keys_are_one(expect, shape):
    """-inf minus -inf is NaN, and one NaN in a tree of merges is NaN at its root."""
    empty = torch.zeros(shape, dtype=torch.float64), torch.full(shape[:-1], -INF, dtype=torch.float64)
    expect(merge, *empty, *empty).equals(empty, **EXACT)


@pytest.mark.kata("level07.online.merge")
@DTYPES
def test_every_row_may_be_empty_by_itself(expect, dtype):
    """Four rows: empty in both parts, in the one, in the other, in none."""
    out_a, lse_a = rows([0.0], [0.0], [3.0], [3.0], dtype=dtype), rows(-INF, -INF, 2.0, 2.0, dtype=dtype)
    out_b, lse_b = rows([0.0], [1.0], [0.0], [1.0], dtype=dtype), rows(-INF, 7.0, -INF, 2.0, dtype=dtype)
    right = rows([0.0], [1.0], [3.0], [2.0], dtype=dtype), rows(-INF, 7.0, 2.0, 2 + math.log(2), dtype=dtype)
    expect(merge, out_a, lse_a, out_b, lse_b).equals(right)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("size, rel", [(-1e5, 1e-9), (-1000.0, 1e-10), (0.0, 1e-12), (1000.0, 1e-10), (1e5, 1e-9)])
def test_log_sums_may_be_of_any_size(expect, size, rel):
    """e^1000 is infinite, and e^-1000 is 0 on both sides."""
    out_a, out_b = rows([1.0, 2.0], [8.0, 0.0]), rows([3.0, -2.0], [0.0, 4.0])
    lse_a, lse_b = rows(size, size + 1), rows(size, size - 1)
    right = by_weights((out_a, lse_a), (out_b, lse_b))
    expect(merge, out_a, lse_a, out_b, lse_b).equals(right, rel=rel, abs=1e-10)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("size", [-120.0, 0.0, 90.0, 120.0])
def test_in_float32_a_hundred_is_much(expect, size):
    """There e^89 is infinite, and e^-104 is 0. What comes out is float32 as well."""
    out_a, out_b = rows([1.0, 2.0], [8.0, 0.0]).float(), rows([3.0, -2.0], [0.0, 4.0]).float()
    lse_a, lse_b = rows(size, size + 1).float(), rows(size, size - 1).float()
    out, lse = by_weights((out_a, lse_a), (out_b, lse_b))
    expect(merge, out_a, lse_a, out_b, lse_b).equals((out.float(), lse.float()), rel=3e-5, abs=1e-6)


@pytest.mark.kata("level07.online.merge")
def test_a_part_that_weighs_nothing(expect):
    """2000 apart: the smaller one is 0, and the larger one stays; 1e8 is not too much for a value."""
    for gap in (800.0, 2000.0, 1e5):
        right = rows([3.0]), rows(gap / 2)
        expect(merge, rows([3.0]), rows(gap / 2), rows([1e8]), rows(-gap / 2)).equals(right, **CLOSE)
        expect(merge, rows([1e8]), rows(-gap / 2), rows([3.0]), rows(gap / 2)).equals(right, **CLOSE)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("lead", [(1,), (3,), (2, 3), (2, 3, 5), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("D", [1, 2, 3, 4])
def test_every_row_has_weights_of_its_own(expect, lead, D):
    """Oracle: softmax over both log-sums. Some shapes have as many rows as features; rows differ by thousands, so
    that with one reference for all the small ones are 0."""
    a, b = ((drawn(*lead, D, seed=s), drawn(*lead, seed=s + 1) + drawn(*lead, seed=39, spread=2000)) for s in (20, 30))
    expect(merge, *a, *b).equals(by_weights(a, b), rel=1e-10, abs=1e-10)


def folded(parts, order):
    """Merged one after the other, in this order."""
    return reduce(lambda done, new: merge(*done, *new), [parts[i] for i in order])


def in_pairs(parts, order):
    """Merged as a tree: neighbours first, then what came of them."""
    parts = [parts[i] for i in order]
    while len(parts) > 1:
        parts = [merge(*parts[i], *parts[i + 1]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("way", [folded, in_pairs])
@pytest.mark.parametrize("seed", range(6))
def test_any_split_in_any_order_gives_the_whole(expect, way, seed):
    """Splits finish when they finish, and devices merge as a ring or as a tree. Oracle: softmax over all keys, of
    which some rows do not see any; one of the parts is masked whole, and weights count after the first merge too."""
    draw = torch.Generator().manual_seed(seed)
    scores, values = drawn(2, 4, 12, seed=seed + 70), drawn(2, 12, 3, seed=seed + 80)
    scores[torch.rand(scores.shape, generator=draw) < 0.3] = -INF
    scores[..., 3:5], scores[1, 2] = -INF, -INF
    sizes = [3, 2, 1, 5, 1]
    parts = [by_softmax(s, v) for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2))]
    expect(way, parts, torch.randperm(5, generator=draw).tolist()).equals(by_softmax(scores, values), **CLOSE)


@pytest.mark.kata("level07.online.merge")
def test_what_was_merged_goes_on_as_one_part(expect):
    """Its log-sum has grown: three keys of equal score and values 3, 6, 9 have the mean 6 whichever come first."""
    parts = [part((1.0, value)) for value in (3.0, 6.0, 9.0)]
    for order in permutations(range(3)):
        expect(folded, parts, list(order)).equals((rows([6.0]), rows(1 + math.log(3))), **CLOSE)


@pytest.mark.kata("level07.online.merge")
@pytest.mark.parametrize("shift", [-1e4, -1000.0, 1000.0, 1e4])
def test_a_constant_on_both_sides_moves_only_the_log_sum(expect, shift):
    """The weights are in the difference."""
    a, b = ((drawn(3, 2, seed=s), torch.round(drawn(3, seed=s + 1) * 64) / 64) for s in (40, 50))
    out, lse = by_weights(a, b)
    expect(merge, a[0], a[1] + shift, b[0], b[1] + shift).equals((out, lse + shift), rel=1e-11, abs=1e-11)
