"""Right programs, written another way, for level10.stats. `alternative` is given when this is read."""

import random
from itertools import pairwise
from math import floor

import numpy as np

_TIMES = "level10.stats.token_times"
_BOOT = "level10.stats.bootstrap_interval"


def _both(times, tokens):
    if len(times) != len(tokens):
        raise ValueError("each chunk has a time")


def with_linspace(chunk_times, chunk_tokens):
    """Without the empty chunks first; numpy draws the line."""
    _both(chunk_times, chunk_tokens)
    full = [(time, n) for time, n in zip(chunk_times, chunk_tokens) if n]
    if not full:
        return []
    times = [full[0][0]] * full[0][1]
    for (begin, _), (end, n) in pairwise(full):
        times.extend(np.linspace(begin, end, n + 1)[1:].tolist())
    return times


def interpolated(chunk_times, chunk_tokens):
    """Times as a function of the number of tokens so far, on straight lines."""
    _both(chunk_times, chunk_tokens)
    totals = np.cumsum(np.asarray(chunk_tokens, int))
    first = next((j for j, n in enumerate(chunk_tokens) if n), None)
    if first is None:
        return []
    keep = [j for j in range(first, len(totals)) if chunk_tokens[j]]
    numbers = np.arange(1, totals[-1] + 1)
    return np.interp(numbers, totals[keep], np.asarray(chunk_times, float)[keep]).tolist()


def last_seen(chunk_times, chunk_tokens):
    _both(chunk_times, chunk_tokens)
    times, last = [], None
    for j in range(len(chunk_times)):
        n, now = chunk_tokens[j], chunk_times[j]
        if n == 0:
            continue
        last = now if last is None else last
        gap = (now - last) / n
        for k in range(n):
            times.append(last + gap * (k + 1))
        last = now
    return times


def filtered(requests, start, end):
    return list(filter(lambda request: not (request[0] < start or request[0] >= end), requests))


def one_by_one(requests, start, end):
    chosen = []
    for arrival, times in requests:
        if arrival >= start and arrival < end:
            chosen.append((arrival, times))
    return chosen


def by_share(q, beyond=10):
    if not 0 <= q < 100:
        raise ValueError("q")
    return -floor(-beyond / (1 - q / 100) + 1e-6)


def by_fractions(q, beyond=10):
    if not 0 <= q < 100:
        raise ValueError("q")
    from fractions import Fraction

    share = Fraction(str(100 - Fraction(str(q)))) / 100
    needed = Fraction(beyond) / share
    return int(needed) + (needed != int(needed))


def _checked(values, level):
    if len(values) < 2 or not 0 < level < 1:
        raise ValueError("2 values, and a level")


def with_choice(values, statistic, rng, num_resamples=1000, level=0.95):
    """A resample at a time, and numpy's percentile."""
    _checked(values, level)
    found = []
    for _ in range(num_resamples):
        found.append(statistic([float(x) for x in rng.choice(values, len(values), replace=True)]))
    low, high = np.percentile(found, [(1 - level) / 2 * 100, (1 + level) / 2 * 100])
    return float(low), float(high)


def with_quantile(values, statistic, rng, num_resamples=1000, level=0.95):
    _checked(values, level)
    places = np.floor(rng.random((num_resamples, len(values))) * len(values)).astype(int)
    found = [statistic([values[i] for i in row]) for row in places.tolist()]
    return tuple(np.quantile(found, [0.5 - level / 2, 0.5 + level / 2]).tolist())


def with_another_generator(values, statistic, rng, num_resamples=1000, level=0.95):
    """Python's generator, seeded from rng; the statistic of the values is asked for as well, and not used."""
    _checked(values, level)
    draw = random.Random(int(rng.integers(2**62)))
    statistic(list(map(float, values)))
    found = sorted(float(statistic(draw.choices(values, k=len(values)))) for _ in range(num_resamples))

    def at(share):
        rank = share * (num_resamples - 1)
        below = floor(rank)
        above = min(below + 1, num_resamples - 1)
        return found[below] * (1 - rank + below) + found[above] * (rank - below)

    return at((1 - level) / 2), at((1 + level) / 2)


alternative(_TIMES, "with_linspace", program=with_linspace)
alternative(_TIMES, "interpolated", program=interpolated)
alternative(_TIMES, "last_seen", program=last_seen)
alternative(_BOOT, "filtered", program=filtered, part="steady_window")
alternative(_BOOT, "one_by_one", program=one_by_one, part="steady_window")
alternative(_BOOT, "by_share", program=by_share, part="tail_samples_needed")
alternative(_BOOT, "by_fractions", program=by_fractions, part="tail_samples_needed")
alternative(_BOOT, "with_choice", program=with_choice)
alternative(_BOOT, "with_quantile", program=with_quantile)
alternative(_BOOT, "with_another_generator", program=with_another_generator)
