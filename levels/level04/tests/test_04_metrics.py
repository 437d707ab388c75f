"""Judges metrics.py by numpy.percentile, by counting in exact fractions, and by examples worked by hand.

Times are multiples of 1/8 s wherever a limit is met exactly: those are exact in binary, in any order of operations.
"""

import random
from fractions import Fraction

import numpy as np
import pytest

from level04.metrics import goodput, percentile, request_metrics, throughput

EPOCH = 1_700_000_000.0  # seconds since 1970, as a server's log has them


# ---- request_metrics


def measured(arrival, token_times):
    """Oracle: exact fractions, each gap by itself, and their mean by adding them up."""
    times = [Fraction(t) for t in token_times]
    gaps = [times[i] - times[i - 1] for i in range(1, len(times))]
    return {
        "ttft": float(times[0] - Fraction(arrival)),
        "e2e": float(times[-1] - Fraction(arrival)),
        "tpot": float(sum(gaps) / len(gaps)) if gaps else None,
        "itl": [float(gap) for gap in gaps],
    }


@pytest.mark.kata("level04.metrics.request_metrics")
def test_a_request_has_four_latencies(expect):
    """The docstring's example. 0.5 s until something appears, then 0.3 s for two more tokens: two gaps, 0.15 s each on
    average. What the user waits for in all is 0.5 + 2 · 0.15."""
    right = {"ttft": 0.5, "e2e": 0.8, "tpot": 0.15, "itl": [0.1, 0.2]}
    expect(request_metrics, 10.0, [10.5, 10.6, 10.8]).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
@pytest.mark.parametrize(
    "arrival, token_times",
    [
        (0.0, [1.0, 1.5]),
        (3.0, [3.25, 3.5, 3.625, 6.625, 6.75]),
        (2.0, (2.125, 2.25, 2.5, 3.0)),
        (EPOCH, [EPOCH + 0.75, EPOCH + 0.875, EPOCH + 1.5, EPOCH + 1.625]),
        (-4.0, [-1.0, 0.0, 0.5]),
        (0.0, [0.015625, 0.0166015625, 0.0185546875]),
    ],
    ids=["two tokens", "one long gap", "a tuple", "a server's clock", "before zero", "milliseconds"],
)
def test_latencies_are_differences_on_one_clock(expect, arrival, token_times):
    """Where the clock began does not matter, nor how long a gap is. Oracle: exact fractions."""
    expect(request_metrics, arrival, token_times).equals(measured(arrival, token_times), rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
@pytest.mark.parametrize("token_times", [[2.0], [0.5], (0.25,)], ids=str)
def test_one_token_has_no_gap_and_so_no_tpot(expect, token_times):
    """A yes-or-no answer is one token. A zero in its place would improve the average of all requests."""
    ttft = token_times[0] - 0.25
    right = {"ttft": ttft, "e2e": ttft, "tpot": None, "itl": []}
    expect(request_metrics, 0.25, token_times).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
def test_waiting_in_a_queue_is_part_of_ttft_and_not_of_tpot(expect):
    """9 s in a queue, then 4 tokens, one each 1/8 s: the user has waited 9.125 s. Overload shows here first; TPOT is
    that of an idle server."""
    right = {"ttft": 9.125, "e2e": 9.5, "tpot": 0.125, "itl": [0.125, 0.125, 0.125]}
    expect(request_metrics, 1.0, [10.125, 10.25, 10.375, 10.5]).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
@pytest.mark.parametrize("token_times", [[1.0, 1.0, 3.0], [0.0, 0.0], [2.0, 2.0, 2.0, 2.5, 2.5]], ids=str)
def test_tokens_that_arrive_together_have_gaps_of_zero(expect, token_times):
    """Speculative decoding (level 08) and chunks of a stream bring several at once: each of them is a token, and the
    gaps of zero count. Of times 1, 1, 3 the TPOT is 1. Oracle: exact fractions."""
    expect(request_metrics, 0.0, token_times).equals(measured(0.0, token_times), rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
def test_tpot_is_the_mean_gap_even_if_one_gap_is_long(expect):
    """A stall of 7 s among 15 gaps of 1/8 s, when another's prompt was processed: ITL's tail shows it, TPOT is their
    mean, (15 · 0.125 + 7) / 16 = 0.5546875."""
    gaps = [0.125] * 9 + [7.0] + [0.125] * 6
    token_times = [0.5 + sum(gaps[:i]) for i in range(17)]
    right = {"ttft": 0.5, "e2e": 9.375, "tpot": 0.5546875, "itl": gaps}
    expect(request_metrics, 0.0, token_times).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.request_metrics")
def test_a_request_without_tokens_is_refused(expect):
    """It failed; a latency of 0 for it would be the best of all."""
    expect(request_metrics, 0.0, [0.0]).equals({"ttft": 0.0, "e2e": 0.0, "tpot": None, "itl": []})
    expect(request_metrics, 0.0, []).raises(ValueError)


@pytest.mark.kata("level04.metrics.request_metrics")
@pytest.mark.parametrize("token_times", [[0.5], [1.0, 3.0, 2.0], [2.0, 1.5]], ids=str)
def test_times_that_go_backwards_are_refused(expect, token_times):
    """Arrival by one machine's clock and tokens by another's give a negative TTFT, and nobody notices in an average."""
    expect(request_metrics, 1.0, [1.0, 1.0]).equals({"ttft": 0.0, "e2e": 0.0, "tpot": 0.0, "itl": [0.0]})
    expect(request_metrics, 1.0, token_times).raises(ValueError)


# ---- percentile


def on_the_line(values, q):
    """Oracle: a polyline through the points (100 · i / (n - 1), i-th smallest value), in exact fractions."""
    points = sorted(Fraction(v) for v in values)
    for i in range(len(points) - 1):
        left, right = (Fraction(100 * (i + k), len(points) - 1) for k in (0, 1))
        if left <= Fraction(q) <= right:
            return float(points[i] + (Fraction(q) - left) / (right - left) * (points[i + 1] - points[i]))
    return float(points[0])


@pytest.mark.kata("level04.metrics.percentile")
@pytest.mark.parametrize(
    "values, q, right",
    [
        ([1, 2, 3, 4, 10], 50, 3.0),
        ([1, 2, 3, 4, 10], 99, 9.76),  # rank 0.99 · 4 = 3.96, from 4 on towards 10
        ([1, 2, 3, 4, 10], 95, 8.8),  # rank 3.8
        ([1, 2, 3, 4, 10], 90, 7.6),  # rank 3.6
        ([1, 2, 3, 4, 10], 10, 1.4),  # rank 0.4
        ([10, 1, 4, 2, 3], 25, 2.0),
        ([0.0, 8.0], 12.5, 1.0),
        ([5.0, 1.0, 2.0, 3.0], 50, 2.5),
    ],
    ids=str,
)
def test_percentiles_worked_by_hand(expect, values, q, right):
    """The docstring's examples and more of their kind. The mean of the first list is 4: it is nobody's latency."""
    expect(percentile, values, q).equals(right, rel=1e-7, abs=1e-9)


@pytest.mark.kata("level04.metrics.percentile")
@pytest.mark.parametrize("q", [0, 0.5, 7, 29, 50, 66.6, 90, 99, 99.9, 100])
def test_percentiles_are_numpy_s(expect, q):
    """Latencies of a server, most short and some very long: ranks off by one, or to the nearest, show in the tail.

    Oracle: numpy.percentile, and exact fractions.
    """
    for n in (1, 2, 3, 4, 10, 100, 101):
        draw = random.Random(n)
        values = [draw.lognormvariate(-2, 1.5) for _ in range(n)]
        right = float(np.percentile(values, q))
        assert on_the_line(values, q) == pytest.approx(right, rel=1e-9)
        expect(percentile, values, q).equals(right, rel=1e-7, abs=1e-9)


@pytest.mark.kata("level04.metrics.percentile")
def test_the_ends_are_the_smallest_and_the_largest(expect):
    """p0 and p100, of one value and of many; nothing lies behind the last."""
    for values in ([7.5], [3.0, -2.0], [4.0, 9.0, 1.0, 9.0, 1.0], [0.25] * 6):
        expect(percentile, values, 0).equals(min(values), rel=1e-7)
        expect(percentile, values, 100).equals(max(values), rel=1e-7)
        expect(percentile, values, 100.0).equals(max(values), rel=1e-7)


@pytest.mark.kata("level04.metrics.percentile")
@pytest.mark.parametrize("q, right", [(0.5, 0.25), (1, 0.5), (0.1, 0.05), (0.99, 0.495)], ids=str)
def test_q_is_in_percent_however_small(expect, q, right):
    """Of 0, 25, 50 the 1st percentile is at rank 0.02, so 0.5; and q = 0.99 does not mean the 99th."""
    expect(percentile, [0.0, 25.0, 50.0], q).equals(right, rel=1e-7, abs=1e-9)


@pytest.mark.kata("level04.metrics.percentile")
def test_equal_values_count_each(expect):
    """Nine users waited 1/8 s, one 8 s: the median is 1/8, the 90th percentile lies a tenth of the way up."""
    values = [0.125] * 4 + [8.0] + [0.125] * 5
    expect(percentile, values, 50).equals(0.125, rel=1e-7)
    expect(percentile, values, 90).equals(0.125 + 0.1 * 7.875, rel=1e-7)
    expect(percentile, values, 95).equals(0.125 + 0.55 * 7.875, rel=1e-7)


@pytest.mark.kata("level04.metrics.percentile")
def test_values_of_two_servers_are_pooled(expect):
    """1, 1, 1, 9 on one server and four times 1 on the other: three quarters of all users waited 1. The mean of both
    servers' p75 would be 2."""
    one, other = [1.0, 1.0, 1.0, 9.0], [1.0, 1.0, 1.0, 1.0]
    expect(percentile, one + other, 75).equals(1.0, rel=1e-7)
    expect(percentile, (1.0, 9.0, 2.0, 3.0, 5.0, 4.0, 8.0, 7.0), 75).equals(7.25, rel=1e-7)


@pytest.mark.kata("level04.metrics.percentile")
@pytest.mark.parametrize("values", [[-3.0, -1.0, -2.0], [2, -2, 0, 1], [1e9, 1e-9, 1.0], [EPOCH, EPOCH + 1]], ids=str)
def test_any_numbers_have_percentiles(expect, values):
    """Differences of latencies are negative, and powers of ten lie between a token and a long answer. Oracle: numpy."""
    for q in (10, 50, 75):
        expect(percentile, values, q).equals(float(np.percentile(values, q)), rel=1e-7, abs=1e-9)


@pytest.mark.kata("level04.metrics.percentile")
def test_a_percentile_of_nothing_is_refused(expect):
    """0 would look like a very fast server."""
    expect(percentile, [0.5], 50).equals(0.5)
    expect(percentile, [], 50).raises(ValueError)


@pytest.mark.kata("level04.metrics.percentile")
@pytest.mark.parametrize("q", [-1, -0.001, 100.001, 999], ids=str)
def test_q_outside_of_0_to_100_is_refused(expect, q):
    """999 for "three nines" is 99.9."""
    expect(percentile, [0.0, 1.0], 99.9).equals(0.999, rel=1e-7)
    expect(percentile, [0.0, 1.0], q).raises(ValueError)


# ---- throughput, a part of goodput


def tokens_per_second(requests):
    """Oracle: a list of everything that happened, in order of time."""
    happened = sorted([(a, "arrival") for a, _ in requests] + [(t, "token") for _, times in requests for t in times])
    return sum(kind == "token" for _, kind in happened) / (happened[-1][0] - happened[0][0])


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize(
    "requests, right",
    [
        ([(0, [1, 2]), (1, [2, 3, 4])], 1.25),
        ([(0, [1, 2, 3]), (1, [2, 2.5]), (2, [4])], 1.5),
        ([(5, [6, 7])], 1.0),
        ([(0.0, [0.5])], 2.0),
    ],
    ids=["the docstring's", "three requests", "a single one", "one token"],
)
def test_throughput_is_all_tokens_over_all_of_the_time(expect, requests, right):
    """Requests overlap, so rates do not average and latencies do not add up: 6 tokens in 4 s are 1.5 a second, though
    each of three requests had less than 1.1 a second."""
    expect(throughput, requests).equals(right, rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize(
    "requests",
    [
        [(2.0, [3.0, 3.5]), (1.0, [5.0, 9.0]), (1.5, [2.0, 2.5, 6.0])],
        [(1.0, [2.0, 9.0, 11.0]), (3.0, [3.5, 4.0])],
        [(EPOCH, [EPOCH + 1, EPOCH + 2]), (EPOCH + 0.5, [EPOCH + 2.5])],
        [(0.0, [1.0, 2.0]), (7.0, [8.0])],
        [(-8.0, [-7.0, -5.0]), (-6.0, [-4.0])],
        [(1.0, (2.0, 2.0, 2.0, 3.0)), (1.0, (2.0, 3.0))],
    ],
    ids=["in any order", "the first ends last", "a server's clock", "idle between", "before zero", "at the same times"],
)
def test_the_time_runs_from_the_first_arrival_to_the_last_token(expect, requests):
    """A log is sorted by end, or not at all; an idle server has a lower throughput. Oracle: all events in order."""
    expect(throughput, requests).equals(tokens_per_second(requests), rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_throughput_of_a_hundred_requests(expect):
    """Oracle: all events in order; random arrivals and lengths, shuffled."""
    requests = random_requests(random.Random(4), 100)
    expect(throughput, requests).equals(tokens_per_second(requests), rel=1e-9)
    expect(throughput, tuple(requests)).equals(tokens_per_second(requests), rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_equal_requests_count_each(expect):
    """A batch of three that arrive together and get their tokens together is three requests, 6 tokens in 1.5 s."""
    requests = [(1.0, (2.0, 2.5))] * 3
    expect(throughput, requests).equals(4.0, rel=1e-9)
    expect(goodput, requests, 1.0, 0.5, 1.5).equals(2.0, rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize("requests", [[], [(0.0, [])], [(0.0, [1.0]), (0.5, [])]], ids=str)
def test_throughput_of_what_failed_is_refused(expect, requests):
    """No request has no first arrival, and one without tokens no last token."""
    expect(throughput, [(0.0, [1.0]), (0.5, [2.0])]).equals(1.0, rel=1e-9)
    expect(throughput, requests).raises(ValueError)


# ---- goodput

THREE = [(0.0, [1.0, 2.0, 3.0]), (1.0, [2.0, 2.5]), (2.0, [4.0])]  # ttft 1, 1, 2; tpot 1, 0.5, none


def random_requests(draw, n):
    """Arrival, wait and gaps in eighths of a second."""
    requests = []
    for _ in range(n):
        arrival = draw.randrange(800) / 8
        time, times = arrival + draw.randrange(1, 17) / 8, []
        for _ in range(draw.choice([1, 1, 2, 3, 4, 5, 9])):
            times.append(time)
            time += draw.randrange(9) / 8
        requests.append((arrival, times))
    return requests


def good(arrival, times, ttft_slo, tpot_slo):
    """Oracle: both objectives in exact fractions; without a second token there is no gap to judge."""
    gaps = [Fraction(b) - Fraction(a) for a, b in zip(times, times[1:])]
    return Fraction(times[0]) - Fraction(arrival) <= ttft_slo and sum(gaps) <= Fraction(tpot_slo) * len(gaps)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize(
    "ttft_slo, tpot_slo, right",
    [
        (1.0, 1.0, 0.5),  # the first two; the third waits 2 s
        (2.0, 0.625, 0.5),  # the last two; the first has gaps of 1 s
        (0.5, 1.0, 0.0),  # none
        (2.0, 1.0, 0.75),  # all three
        (1.0, 0.5, 0.25),  # the second
        (1.875, 0.375, 0.0),  # each breaks one of them
    ],
    ids=str,
)
def test_a_request_is_good_if_it_meets_both_objectives(expect, ttft_slo, tpot_slo, right):
    """Three requests in 4 s, with TTFT 1, 1, 2 and TPOT 1, 0.5, none: an answer that starts at once and then crawls is
    as useless as one that never starts."""
    expect(goodput, THREE, ttft_slo, tpot_slo, 4.0).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize(
    "late, slow, right",
    [(0, 0, 1.0), (2**-20, 0, 0.0), (0, 2**-20, 0.0), (-(2**-20), 0, 1.0), (0, -(2**-20), 1.0)],
    ids=["both exactly", "ttft just over", "tpot just over", "ttft just below", "tpot just below"],
)
def test_an_objective_met_exactly_is_met(expect, late, slow, right):
    """TTFT 0.5 and TPOT 0.25: the limit itself is allowed, <= and not <. A microsecond more is too much, and two
    decimals on a dashboard do not show it."""
    requests = [(3.0, [3.5 + late, 3.625, 4.0 + late + 2 * slow])]
    expect(goodput, requests, 0.5, 0.25, 1.0).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_one_token_meets_every_tpot(expect):
    """A classifier answers with one token; there is no gap that could be too long. Its TTFT counts as ever."""
    requests = [(0.0, [0.5]), (0.0, [3.0]), (1.0, [1.5])]
    expect(goodput, requests, 0.5, 0.125, 2.0).equals(1.0, rel=1e-9)
    expect(goodput, requests, 0.5, 0.0, 2.0).equals(1.0, rel=1e-9)
    expect(goodput, requests, 0.25, 9.0, 2.0).equals(0.0, abs=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_tpot_is_judged_and_not_the_longest_gap_nor_the_whole(expect):
    """Gaps of 1/8 and one of 7/8, 0.3125 on average: meets 0.375. The wait of 6 s before is TTFT's business."""
    requests = [(0.0, [6.0, 6.125, 7.0, 7.125, 7.25])]
    expect(goodput, requests, 6.0, 0.375, 1.0).equals(1.0, rel=1e-9)
    expect(goodput, requests, 6.0, 0.25, 1.0).equals(0.0, abs=1e-9)
    expect(goodput, [(0.0, [6.0, 6.25, 6.75])], 6.0, 0.25, 1.0).equals(0.0, abs=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize("duration", [1, 0.5, 4.0, 60.0, 1000], ids=str)
def test_goodput_is_a_rate_over_the_time_observed(expect, duration):
    """Two good requests, in half a second or in a thousand: neither a share of the requests nor a number of them, and
    the seconds are those that are given."""
    requests = [*THREE, (50.0, [59.0, 59.5])]
    expect(goodput, requests, 1.0, 1.0, duration).equals(2 / duration, rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_the_average_may_break_what_half_of_the_requests_meet(expect):
    """Three are fast and one waits 60 s: 0.75 a second are good, though the mean TTFT is 15 s. And the other way round:
    a mean that meets the objective hides the one that does not."""
    slow = (0.0, [60.0, 60.125])
    fast = [(float(i), [i + 0.125, i + 0.25]) for i in range(3)]
    expect(goodput, [*fast, slow], 0.125, 0.125, 4.0).equals(0.75, rel=1e-9)
    expect(goodput, [*fast, slow], 16.0, 1.0, 4.0).equals(0.75, rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize("ttft_slo, tpot_slo", [(1.0, 0.5), (0.5, 1.0), (1.5, 0.375), (0.125, 2.0)], ids=str)
def test_goodput_of_two_hundred_requests(expect, ttft_slo, tpot_slo):
    """Oracle: each request in exact fractions. Many of them meet an objective exactly."""
    requests = random_requests(random.Random(7), 200)
    right = sum(good(*request, ttft_slo, tpot_slo) for request in requests) / 120.0
    expect(goodput, requests, ttft_slo, tpot_slo, 120.0).equals(right, rel=1e-9)


@pytest.mark.kata("level04.metrics.goodput")
def test_nothing_observed_is_a_goodput_of_zero(expect):
    """A minute in which nobody came."""
    expect(goodput, [], 1.0, 1.0, 60.0).equals(0.0, abs=1e-12)


@pytest.mark.kata("level04.metrics.goodput")
@pytest.mark.parametrize("duration", [0, 0.0, -4.0], ids=str)
def test_a_rate_over_no_time_is_refused(expect, duration):
    """A start and an end that were swapped give less than no time."""
    expect(goodput, THREE, 1.0, 1.0, 0.125).equals(16.0, rel=1e-9)
    expect(goodput, THREE, 1.0, 1.0, duration).raises(ValueError)
