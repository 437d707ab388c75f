"""Judges stats.py by exact fractions, by listing all resamples of three values, and by the normal approximation.

Of 4,000 resamples, a share is judged only where it lies 6.5 standard deviations from what would change the answer: then
any generator, and any way to draw, gives the same interval. Times are multiples of 1/8 s where they can be.
"""

from fractions import Fraction
from itertools import product
from math import sqrt
from statistics import NormalDist, median

import numpy as np
import pytest

from level04.metrics import percentile, request_metrics
from level10.stats import bootstrap_interval, steady_window, tail_samples_needed, token_times

# ---- token_times

EPOCH = 1_700_000_000.0  # seconds since 1970, as some clients have them


@pytest.mark.kata("level10.stats.token_times")
@pytest.mark.parametrize(
    "chunk_times, chunk_tokens, right",
    [
        ([1.0, 1.4], [1, 4], [1.0, 1.1, 1.2, 1.3, 1.4]),
        ([1.0, 1.25, 1.75], [1, 1, 2], [1.0, 1.25, 1.5, 1.75]),
        ([1.0, 2.0], [3, 1], [1.0, 1.0, 1.0, 2.0]),
        ([0.875, 2.25, 2.5], [0, 1, 1], [2.25, 2.5]),
        ([0.5, 0.75, 2.0, 3.0], [0, 0, 3, 2], [2.0, 2.0, 2.0, 2.5, 3.0]),
        ([1.0, 2.0, 3.0], [1, 0, 2], [1.0, 2.0, 3.0]),
        ([1.0, 3.0, 3.5], [2, 4, 0], [1.0, 1.0, 1.5, 2.0, 2.5, 3.0]),
        ([2.0, 2.0, 2.0, 5.0], [1, 2, 1, 3], [2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0]),
        ([0.0, 0.5], [1, 2], [0.0, 0.25, 0.5]),
        ([EPOCH, EPOCH + 1], [1, 8], [EPOCH + k / 8 for k in range(9)]),
        ([4.0], [1], [4.0]),
        ([4.0, 5.0], [0, 0], []),
        ([], [], []),
    ],
    ids=str,
)
def test_a_chunk_is_not_a_token(expect, chunk_times, chunk_tokens, right):
    """By hand. A chunk with 4 tokens (speculative decoding, a slow socket) has 4 gaps of 0.1 s, not one of 0.4 and
    three of 0. The role chunk of a chat brings no token: its time would be a TTFT that nobody has felt. Nor does usage.
    """
    expect(token_times, chunk_times, chunk_tokens).equals(right, rel=1e-12, abs=1e-9)


def latencies(arrival, chunk_times, chunk_tokens):
    return request_metrics(arrival, token_times(chunk_times, chunk_tokens))


@pytest.mark.kata("level10.stats.token_times")
def test_what_a_client_reports(expect):
    """Due at 0.5, the role at 1, then 1, 1 and 2 tokens at 1.5, 1.75 and 2.25: TTFT 1, and 3 gaps of 0.25."""
    right = {"ttft": 1.0, "e2e": 1.75, "tpot": 0.25, "itl": [0.25, 0.25, 0.25]}
    expect(latencies, 0.5, [1.0, 1.5, 1.75, 2.25], [0, 1, 1, 2]).equals(right)


def spread(chunk_times, chunk_tokens):
    """Oracle: exact fractions, from the last chunk to the first; each looks for the last before it with tokens."""
    found = []
    for j in reversed(range(len(chunk_times))):
        before = [i for i in range(j) if chunk_tokens[i]]
        end = Fraction(chunk_times[j])
        begin = Fraction(chunk_times[before[-1]]) if before else end
        found[:0] = [float(begin + (end - begin) * Fraction(k + 1, chunk_tokens[j])) for k in range(chunk_tokens[j])]
    return found


@pytest.mark.kata("level10.stats.token_times")
@pytest.mark.parametrize("seed", range(8))
def test_any_stream_of_chunks(expect, seed):
    """Chunks of 0 to 5 tokens, some at the same time. Oracle: exact fractions."""
    rng = np.random.default_rng(seed)
    times = (3 + rng.integers(0, 9, 20).cumsum() / 8).tolist()
    tokens = rng.choice([0, 0, 1, 1, 1, 2, 3, 5], 20).tolist()
    expect(token_times, times, tokens).equals(spread(times, tokens), rel=1e-12, abs=1e-9)
    expect(token_times, tuple(times), tuple(tokens)).equals(spread(times, tokens), rel=1e-12, abs=1e-9)


@pytest.mark.kata("level10.stats.token_times")
def test_each_chunk_has_a_time(expect):
    """Zipped, the longer list would lose its end in silence, and the answer its last tokens."""
    expect(token_times, [1.0], [1]).equals([1.0])
    expect(token_times, [1.0], [1, 1]).raises(ValueError)
    expect(token_times, [1.0, 2.0], [1]).raises(ValueError)


# ---- steady_window, judged with bootstrap_interval

REQUESTS = [
    (4.0, [6.0, 6.5]),
    (0.0, [0.5, 3.0]),
    (2.0, [9.0, 20.0]),  # slow: ends long after the window
    (1.0, [2.5, 4.5]),  # came before, ended within
    (3.5, []),  # failed
    (5.0, [5.5]),  # at the end
    (2.0, [2.5]),
    (7.0, [7.5]),
    (4.875, [4.875]),
]


@pytest.mark.kata("level10.stats.bootstrap_interval")
@pytest.mark.parametrize(
    "start, end, right",
    [
        (2, 5, [0, 2, 4, 6, 8]),
        (0, 2, [1, 3]),
        (0.5, 1.5, [3]),
        (3, 4.5, [0, 4]),
        (5.0, 7.5, [5, 7]),
        (8, 9, []),
        (3, 3, []),
        (-1, 99, None),
    ],
    ids=str,
)
def test_the_window_is_chosen_by_when_they_were_due(expect, start, end, right):
    """Half open, so that two windows side by side share nobody. A window by the ends would leave out the slow ones: of
    these the one that took 18 s, which is what the window is looked at for. In their order, whatever that is."""
    rows = REQUESTS if right is None else [REQUESTS[i] for i in right]
    expect(steady_window, REQUESTS, start, end).equals(rows)


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_warm_up_and_drain_are_left_out(expect):
    """The docstring's example, and nobody at all."""
    requests = [(float(t), [t + 3.0]) for t in range(6)]
    expect(steady_window, requests, 1, 3).equals(requests[1:3])
    expect(steady_window, tuple(requests), 2, 5).equals(requests[2:5])
    expect(steady_window, [], 0, 1).equals([])


# ---- tail_samples_needed, judged with bootstrap_interval


@pytest.mark.kata("level10.stats.bootstrap_interval")
@pytest.mark.parametrize(
    "q, beyond, right",
    [
        (99, 10, 1000),
        (99.9, 10, 10_000),
        (50, 10, 20),
        (99.9, 100, 100_000),
        (99.99, 10, 100_000),
        (90, 1, 10),
        (0, 7, 7),
        (66, 10, 30),  # 29.4
        (97, 10, 334),  # 333.33
        (30, 10, 15),  # 14.28
        (12.5, 7, 8),
        (99.5, 3, 600),
        (0.001, 10, 11),  # 10.0001
        (0.0001, 10, 11),  # 10.00001
        (95, 0, 0),
    ],
)
def test_samples_until_a_tail_has_some(expect, q, beyond, right):
    """By hand, 100 / (100 - q) samples for each beyond. Of 200 requests 2 lie above the p99: another run has another
    p99. 100 - 99.9 is 0.09999999999999432, which must not cost a request more."""
    expect(tail_samples_needed, q, beyond).equals(right)
    if beyond == 10:
        expect(tail_samples_needed, q).equals(right)


@pytest.mark.kata("level10.stats.bootstrap_interval")
@pytest.mark.parametrize("tenths", [range(0, 500, 7), range(500, 900, 11), range(900, 1000)], ids=str)
def test_as_few_samples_as_are_enough(expect, tenths):
    """All tenths of a percent above 90, and some below. Oracle: one sample more, until the share of them is enough, in
    exact fractions."""

    def fewest(tenth, beyond):
        n = 0
        while n * Fraction(1000 - tenth, 1000) < beyond:
            n += 1
        return n

    def needed(beyond):
        return [tail_samples_needed(tenth / 10, beyond) for tenth in tenths]

    for beyond in (1, 7):
        expect(needed, beyond).equals([fewest(tenth, beyond) for tenth in tenths])


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_the_maximum_has_no_tail(expect):
    """Nothing lies above it, however many there are."""
    expect(tail_samples_needed, 0).equals(10)
    for q in (100, 100.0, 101, -1, float("nan")):
        expect(tail_samples_needed, q).raises(ValueError)


# ---- bootstrap_interval

THREE = [2.0, 1.0, 7.0]
STATISTICS = {
    "max": max,
    "min": min,
    "median": median,
    "mean": lambda row: sum(row) / len(row),
    "first": lambda row: row[0],
    "last": lambda row: row[-1],
    "length": len,
    "different": lambda row: len(set(row)),
    "foreign": lambda row: len(set(row) - set(THREE)),
    "rises": lambda row: sum(a < b for a, b in zip(row, row[1:])),
    "above first": lambda row: sum(x > row[0] for x in row),
}


def listed(name, level, num_resamples):
    """Oracle: (low, high) by the statistic of all 27 resamples; None where one of them is too near to another value."""
    found = sorted(float(STATISTICS[name](list(row))) for row in product(THREE, repeat=3))
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        margin = 6.5 * sqrt(share * (1 - share) / num_resamples)
        places = [min(26, int((share + sign * margin) * 27)) for sign in (-1, 1)]
        ends.append(found[places[0]] if found[places[0]] == found[places[1]] else None)
    return None if None in ends else tuple(ends)


LISTED = [(n, level) for n in STATISTICS for level in (0.3, 0.5, 0.8) if listed(n, level, 4000)]


def of_three(name, level):
    return bootstrap_interval(THREE, STATISTICS[name], np.random.default_rng(11), 4000, level)


def of_the_mean(values, num_resamples, level=0.95):
    return bootstrap_interval(values, STATISTICS["mean"], np.random.default_rng(0), num_resamples, level)


def near_the_normal(values, level):
    """The mean's (low, high) by the normal approximation, to a tenth, where the interval is less than 0.5 from that;
    else the interval, in whole numbers."""
    low, high = of_the_mean(values, 10_000, level)
    right = by_the_normal(values, level)
    near = abs(low - right[0]) < 0.5 > abs(high - right[1])
    return tuple(round(end, 1) for end in right) if near else (round(low), round(high))


def by_the_normal(values, level):
    half = NormalDist().inv_cdf((1 + level) / 2) * float(np.std(values)) / sqrt(len(values))
    return float(np.mean(values)) - half, float(np.mean(values)) + half


@pytest.mark.kata("level10.stats.bootstrap_interval")
@pytest.mark.parametrize("level, right", [(0.95, (43.8, 55.2)), (0.6, (47.1, 51.9))])
def test_the_mean_of_a_hundred(expect, level, right):
    """The docstring's example: 28.87 is the deviation of the values, 28.87 / √100 that of their mean, so (43.8, 55.2);
    with level 0.6 (47.1, 51.9). The ends of 10,000 resamples have a deviation of 0.08 at most: 0.5 is 6 of them."""
    expect(near_the_normal, list(range(100)), level).equals(right)


@pytest.mark.kata("level10.stats.bootstrap_interval")
@pytest.mark.parametrize("name, level", LISTED)
def test_the_resamples_of_three_values(expect, name, level):
    """Oracle: all 27 lists of three of the values, equally likely: with replacement, as long as the values, in any
    order, nothing but the values; and both tails cut off. The statistic may be anything, be it of the order."""
    expect(of_three, name, level).equals(listed(name, level, 4000))


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_four_times_the_requests_halve_the_interval(expect):
    """It is as wide as 1/√n. One of a p99 that is too wide wants more requests, not more resamples."""

    def width_by_width(hundred):
        intervals = [of_the_mean(hundred * k, 2000) for k in (4, 1)]
        four, one = (high - low for low, high in intervals)
        return "a half" if 0.4 < four / one < 0.6 else round(four / one, 1)

    expect(width_by_width, list(range(100))).equals("a half")


def pairs(num):
    """All intervals of the mean of 0 and 1, from two resamples each, of `num`."""
    rng = np.random.default_rng(2)
    return sorted({tuple(bootstrap_interval([0, 1], STATISTICS["mean"], rng, 2, 0.25)) for _ in range(num)})


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_ends_are_percentiles_as_level_04_takes_them(expect):
    """Two resamples of 0 and 1 have means a and b of 0, 0.5 or 1; the percentiles 37.5 and 62.5 lie 3/8 and 5/8 of the
    way from one to the other. So there are six intervals, and 500 tries find each (one is missed in 1e14)."""
    right = [(0.0, 0.0), (0.1875, 0.3125), (0.375, 0.625), (0.5, 0.5), (0.6875, 0.8125), (1.0, 1.0)]
    expect(pairs, 500).equals(right)


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_a_percentile_of_latencies(expect):
    """What it is for, with level 04's own. Of 200 answers 2 stalled: no resample has 40 that did, so the p80 is quick.
    Of 200 with 30 stalls each has 3 at least: the p99 is one. Values that are all alike leave no doubt."""

    def of_the_percentile(values, q):
        found = bootstrap_interval(values, lambda row: percentile(row, q), np.random.default_rng(4), 300)
        return tuple(float(x) for x in found)

    some = [0.25, 0.25, 8.0, 0.25] * 2 + [0.25] * 192
    expect(of_the_percentile, some, 80).equals((0.25, 0.25))
    expect(of_the_percentile, [8.0] * 30 + [0.25] * 170, 99).equals((8.0, 8.0))
    expect(of_the_percentile, (3.0, 3.0, 3.0), 50).equals((3.0, 3.0))


def seeds(values):
    """Is an interval that of another generator with the same seed, of another seed, of a second call?"""
    rng, again, other = (np.random.default_rng(seed) for seed in (1, 1, 2))
    first = bootstrap_interval(values, STATISTICS["mean"], rng, 50)
    return [first == bootstrap_interval(values, STATISTICS["mean"], one, 50) for one in (again, other, rng)]


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_the_generator_decides_what_is_drawn(expect):
    """A report that can be made again, and does not disturb what else is drawn."""
    expect(seeds, [float(x * x) for x in range(40)]).equals([True, False, False])


@pytest.mark.kata("level10.stats.bootstrap_interval")
def test_an_interval_of_one_value_is_refused(expect):
    """All resamples of one value are that value: the interval would be certain."""
    expect(of_the_mean, [5.0, 5.0], 20).equals((5.0, 5.0))
    for values, level in (([], 0.9), ([5.0], 0.9), ([1.0, 2.0], 0), ([1.0, 2.0], 1), ([1.0, 2.0], 95)):
        expect(of_the_mean, values, 20, level).raises(ValueError)
