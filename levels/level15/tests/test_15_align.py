"""Judges align.py by hand, and by least squares on augmented rows: ridge is that, with sqrt(lam) · I below X."""

import pytest
import torch

from level15.align import apply_map, fit_ridge, r2_score, rank_source_layers


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ridge(X, Y, lam):
    """Oracle: the ones column of the intercept has nothing below it, so it is free."""
    X, Y = X.double(), Y.double()
    n, p = X.shape
    rows = torch.cat([X, torch.ones(n, 1).double()], 1)
    price = torch.cat([lam**0.5 * torch.eye(p).double(), torch.zeros(p, 1).double()], 1)
    right = torch.cat([Y, torch.zeros(p, Y.shape[1]).double()])
    solved = torch.linalg.lstsq(torch.cat([rows, price]), right, driver="gelsd").solution
    return solved[:p], solved[p]


# ---- fit_ridge


@pytest.mark.kata("level15.align.fit_ridge")
def test_three_points_by_hand(expect):
    """Σx² = 2 and Σxy = 2 about the means: 2 / (2 + lam). The price bends the slope, and the intercept follows it."""
    X, Y = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0], [2.0], [3.0]])
    for lam, slope, intercept in ((2.0, 0.5, 1.5), (0.0, 1.0, 1.0), (6.0, 0.25, 1.75), (1e12, 0.0, 2.0)):
        right = torch.tensor([[slope]]).double(), torch.tensor([intercept]).double()
        expect(fit_ridge, X, Y, lam).equals(right, rel=1e-8, abs=1e-8)


@pytest.mark.kata("level15.align.fit_ridge")
@pytest.mark.parametrize("n, p, q, lam", [(9, 3, 2, 1.0), (7, 2, 4, 0.01), (5, 8, 3, 0.5), (4, 1, 1, 3.0)])
def test_the_least_sum_of_squares_and_price(expect, n, p, q, lam):
    """Oracle: augmented least squares. Both sides have a mean far from 0, as keys do; with fewer rows than columns
    the price alone decides."""
    X, Y = draw(n, p, seed=n) + 3, draw(n, q, seed=p) - torch.arange(1.0, q + 1) * 2
    expect(fit_ridge, X, Y, lam).equals(ridge(X, Y, lam), rel=1e-8, abs=1e-8)


@pytest.mark.kata("level15.align.fit_ridge")
def test_an_affine_function_is_found_exactly(expect):
    """Without a price and without noise the map is the one that made Y: nothing is left to explain."""
    X = draw(20, 3, seed=1)
    W, b = torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]).double(), torch.tensor([5.0, -4.0]).double()
    expect(fit_ridge, X, X.double() @ W + b, 0.0).equals((W, b), rel=1e-9, abs=1e-9)


@pytest.mark.kata("level15.align.fit_ridge")
def test_twice_the_rows_is_half_the_price(expect):
    """Sums, not means: a calibration set of two copies at 2 lam gives the map of one at lam."""
    X, Y = draw(6, 2, seed=2) + 1, draw(6, 3, seed=3)
    right = ridge(X, Y, 0.75)
    expect(fit_ridge, torch.cat([X, X]), torch.cat([Y, Y]), 1.5).equals(right, rel=1e-8, abs=1e-8)


@pytest.mark.kata("level15.align.fit_ridge")
def test_a_large_mean_costs_no_digits(expect):
    """Columns near 1000 that differ by 1: sums of float32 would have lost what the map is made of."""
    X = draw(12, 3, seed=4) + 1000
    Y = draw(12, 2, seed=5) + 500
    expect(fit_ridge, X, Y, 0.1).equals(ridge(X, Y, 0.1), rel=1e-6, abs=1e-6)
    X, Y = draw(12, 2, seed=6).bfloat16(), draw(12, 1, seed=7).bfloat16()
    expect(fit_ridge, X, Y, 0.01).equals(ridge(X, Y, 0.01), rel=1e-8, abs=1e-8)


@pytest.mark.kata("level15.align.fit_ridge")
def test_what_does_not_vary_explains_nothing(expect):
    """A single row, and a column that is constant: W is 0 there, and the intercept is the mean."""
    X, Y = torch.tensor([[2.0, 3.0]]), torch.tensor([[7.0]])
    expect(fit_ridge, X, Y, 0.5).equals((torch.zeros(2, 1).double(), torch.tensor([7.0]).double()), abs=1e-9)
    X = torch.tensor([[4.0, 0.0], [4.0, 1.0], [4.0, 2.0]])
    Y = torch.tensor([[1.0], [2.0], [3.0]])
    right = torch.tensor([[0.0], [0.5]]).double(), torch.tensor([1.5]).double()
    expect(fit_ridge, X, Y, 2.0).equals(right, abs=1e-9)


@pytest.mark.kata("level15.align.fit_ridge")
def test_rows_of_the_two_models_belong_together(expect):
    """One row of Y for each row of X: 1 row would be broadcast over all. A negative price has no least sum."""
    X, Y = draw(4, 2, seed=8), draw(4, 3, seed=9)
    expect(fit_ridge, X, Y, 0.25).equals(ridge(X, Y, 0.25), rel=1e-8, abs=1e-8)
    for x, y, lam in ((X, Y[:1], 1.0), (X[:3], Y, 1.0), (X[:0], Y[:0], 1.0), (X, Y, -0.1)):
        expect(fit_ridge, x, y, lam).raises(ValueError)


# ---- apply_map, judged with fit_ridge


@pytest.mark.kata("level15.align.fit_ridge")
def test_a_map_is_affine_and_float64(expect):
    """By hand, and from bfloat16 rows: products in bfloat16 would be off in the third digit."""
    W, b = torch.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]).double(), torch.tensor([5.0, -4.0, 0.25]).double()
    right = torch.tensor([[6.0, -2.0, 0.75], [7.0, -3.0, 10.25]]).double()
    expect(apply_map, torch.tensor([[1.0, 0.0], [2.0, 3.0]]), (W, b)).equals(right)
    X = draw(5, 2, seed=10).bfloat16()
    expect(apply_map, X, (W / 3, b / 3)).equals((X.double() @ W + b) / 3, rel=1e-12, abs=1e-12)


@pytest.mark.kata("level15.align.fit_ridge")
def test_a_map_applied_to_no_rows(expect):
    """A prompt of which nothing is cached yet."""
    mapping = draw(3, 2, seed=11).double(), draw(2, seed=12).double()
    expect(apply_map, torch.empty(0, 3), mapping).equals(torch.empty(0, 2).double())


# ---- r2_score, judged with rank_source_layers


@pytest.mark.kata("level15.align.rank_source_layers")
def test_r2_by_hand(expect):
    """Residual over total. A forecast that is worse than the mean has less than nothing."""
    Y = torch.tensor([[1.0], [3.0]])
    for predicted, right in (([1.0, 2.0], 0.5), ([1.0, 3.0], 1.0), ([2.0, 2.0], 0.0), ([3.0, 1.0], -3.0)):
        expect(r2_score, Y, torch.tensor(predicted)[:, None]).equals(right)
    expect(r2_score, torch.tensor([[0.0], [0.0], [3.0]]), torch.tensor([[1.0], [0.0], [3.0]])).equals(1 - 1 / 6)


@pytest.mark.kata("level15.align.rank_source_layers")
def test_r2_pools_the_columns(expect):
    """Residuals 1 + 2, totals 2 + 8 about the columns' means: 0.7. The mean of two R² is 0.625; about zero it is 0.99,
    which is only that the second column is far from 0."""
    Y = torch.tensor([[1.0, 10.0], [3.0, 14.0]])
    expect(r2_score, Y, torch.tensor([[1.0, 11.0], [2.0, 13.0]])).equals(0.7)
    constant = torch.tensor([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])  # one constant column is nothing special
    expect(r2_score, constant, torch.tensor([[1.0, 5.0], [3.0, 4.0], [2.0, 5.0]])).equals(0.5)
    expect(r2_score, torch.ones(3, 2), torch.zeros(3, 2)).raises(ValueError)
    expect(r2_score, Y, torch.ones(2, 1)).raises(ValueError)


@pytest.mark.kata("level15.align.rank_source_layers")
@pytest.mark.parametrize("offset, dtype", [(0.0, torch.float32), (3e4, torch.float32), (30.0, torch.bfloat16)], ids=str)
def test_r2_of_drawn_columns(expect, offset, dtype):
    """Oracle: sums over single elements in Python's floats. Columns near 30,000 need float64, and so does bfloat16."""
    Y = (draw(6, 3, seed=13) * 2 + offset).to(dtype)
    predicted = (Y.float() + draw(6, 3, seed=14) * 0.5).to(dtype)
    residual = total = 0.0
    for y, f in zip(Y.T.tolist(), predicted.T.tolist()):
        residual += sum((a - b) ** 2 for a, b in zip(y, f))
        total += sum((a - sum(y) / len(y)) ** 2 for a in y)
    expect(r2_score, Y, predicted).equals(1 - residual / total, rel=1e-9, abs=1e-9)


# ---- rank_source_layers

Y = draw(40, 3, seed=20) * torch.tensor([1.0, 2.0, 0.5]) + 4
NOISE = draw(40, 2, seed=21)
MIX = torch.tensor([[1.0, -2.0, 0.5], [0.0, 1.0, 1.0], [2.0, 1.0, 0.0]])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_the_layer_that_predicts_comes_first(expect):
    """Neither the deepest layer nor the largest numbers: what a linear map can read. A mixture of Y's columns with
    another mean predicts all of it."""
    sources = [draw(40, 3, seed=22) * 900, Y @ MIX - 7, Y + draw(40, 3, seed=23), draw(40, 3, seed=24) + 100]
    expect(rank_source_layers, sources, Y, 1e-3, 1).equals([1])
    expect(rank_source_layers, sources, Y, 1e-3, 2).equals([1, 2])
    expect(rank_source_layers, sources[::-1], Y, 1e-3, 2).equals([2, 1])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_what_the_target_needs_and_not_what_it_knows(expect):
    """All of Y is in the first layer, beside noise; the second is all in Y, and is one column of it."""
    sources = [Y[:, [1, 1, 1, 1, 1]], torch.cat([Y, 5 * NOISE], 1)]
    expect(rank_source_layers, sources, Y, 0.01, 2).equals([1, 0])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_columns_are_pooled(expect):
    """The second layer has the one column that varies most, and with it 3/4 of what there is to explain; the first has
    the two others."""
    sources = [torch.cat([Y[:, [0, 2]], NOISE[:, :1]], 1), torch.cat([Y[:, [1]], NOISE], 1)]
    expect(rank_source_layers, sources, Y, 0.01, 2).equals([1, 0])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_the_best_one_first_and_all_of_them(expect):
    """The order of the list is that of the columns later on: by R², not by number."""
    sources = [Y + size * draw(40, 3, seed=30 + i) for i, size in enumerate([2.0, 0.1, 5.0, 0.5])]
    expect(rank_source_layers, sources, Y, 0.01, 4).equals([1, 3, 0, 2])
    expect(rank_source_layers, sources, Y, 0.01, 3).equals([1, 3, 0])
    expect(rank_source_layers, sources, Y, 0.01, 1).equals([1])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_each_layer_alone(expect):
    """Y is 3 a + b. The second copy of a adds nothing to the first, and still predicts more than b does."""
    a, b = draw(40, 1, seed=25), draw(40, 1, seed=26)
    expect(rank_source_layers, [b, a, a], 3 * a + b, 1e-3, 2).equals([1, 2])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_on_a_tie_the_lower_number_comes_first(expect):
    """Equal layers, and the same columns in another order: the sums of the two are rounded in two ways."""
    expect(rank_source_layers, [NOISE, Y[:, :2], Y[:, :2]], Y, 1e-3, 2).equals([1, 2])
    expect(rank_source_layers, [Y, Y, Y], Y, 0.5, 1).equals([0])
    shuffled = [Y[:, order] for order in ([2, 0, 1], [0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 2, 1])]
    expect(rank_source_layers, shuffled, Y, 0.5, 5).equals([0, 1, 2, 3, 4])


def priced(share):
    """x, which has Σx² = 2 about its mean, shrunk until a price of 1 leaves (share / (1 + share))² unexplained."""
    return torch.tensor([[-1.0], [1.0], [0.0]]).double() * (1 / (2 * share)) ** 0.5


@pytest.mark.kata("level15.align.rank_source_layers")
def test_scores_are_compared_at_nine_decimals(expect):
    """By hand: what is left unexplained here is 1e-8, 1e-12 and 1e-14. The last two are a tie."""
    x = torch.tensor([[-1.0], [1.0], [0.0]]).double()
    expect(rank_source_layers, [priced(1e-4), priced(1e-6), priced(1e-7)], x, 1.0, 3).equals([1, 2, 0])
    expect(rank_source_layers, [priced(1e-7), priced(1e-6)], x, 1.0, 2).equals([0, 1])
    expect(rank_source_layers, [priced(3e-5), priced(1e-6)], x, 1.0, 1).equals([1])  # 9e-10 is the ninth decimal
    expect(rank_source_layers, [priced(1e-6), priced(1e-7)], 1000 * x, 1.0, 1).equals([0])  # of R², not of the residual


@pytest.mark.kata("level15.align.rank_source_layers")
def test_the_price_counts(expect):
    """Exact but tiny columns need a large W: at lam = 10 a noisy layer of ordinary size predicts better."""
    tiny, noisy = Y * 1e-3, Y + draw(40, 3, seed=27)
    expect(rank_source_layers, [tiny, noisy], Y, 10.0, 1).equals([1])
    expect(rank_source_layers, [noisy, tiny], Y, 1e-9, 1).equals([1])


@pytest.mark.kata("level15.align.rank_source_layers")
def test_scored_on_the_rows_it_was_fitted_on(expect):
    """The first layer says all about half of the rows, and nothing about the others. A map that was fitted to half of
    them would look worse than that of a noisy layer."""
    half = (Y - Y.mean(0)) * (torch.arange(40) < 20)[:, None]
    noisy = Y + 3 * draw(40, 3, seed=28)
    expect(rank_source_layers, [noisy, half], Y, 1e-3, 2).equals([1, 0])
    expect(rank_source_layers, [noisy.flip(0), half.flip(0) + 1e-3 * NOISE[:, :1]], Y.flip(0), 1e-3, 2).equals([1, 0])


@pytest.mark.kata("level15.align.rank_source_layers")
@pytest.mark.parametrize("k", [0, 3, -1])
def test_as_many_layers_as_there_are(expect, k):
    """A slice would quietly return fewer."""
    expect(rank_source_layers, [NOISE, Y[:, :2]], Y, 0.1, 2).equals([1, 0])
    expect(rank_source_layers, [NOISE, Y[:, :2]], Y, 0.1, k).raises(ValueError)
