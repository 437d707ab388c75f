"""Right programs, written another way, for level04.metrics. `alternative` is given when this is read."""

import math
from fractions import Fraction
from itertools import pairwise
from statistics import fmean, quantiles

import numpy as np
import torch


def _numpy_diff(arrival, token_times):
    """numpy's diff, and the mean of the gaps."""
    times = np.asarray([arrival, *token_times], dtype=np.float64)
    if len(times) < 2 or (np.diff(times) < 0).any():
        raise ValueError("no tokens, or backwards")
    itl = np.diff(times[1:])
    tpot = itl.mean() if len(itl) else None
    return {"itl": itl.tolist(), "tpot": tpot, "e2e": times[-1] - times[0], "ttft": times[1] - times[0]}


def _pairwise(arrival, token_times):
    """E2E by its formula, TTFT + (n - 1) · TPOT."""
    gaps = [b - a for a, b in pairwise(token_times)]
    if not token_times or token_times[0] < arrival or min(gaps, default=0) < 0:
        raise ValueError("no tokens, or backwards")
    ttft, tpot = token_times[0] - arrival, fmean(gaps) if gaps else None
    return {"ttft": ttft, "tpot": tpot, "itl": gaps, "e2e": ttft + len(gaps) * (tpot or 0.0)}


def _one_token_after_the_other(arrival, token_times):
    """A loop that keeps the time of the last token."""
    if not token_times:
        raise ValueError("no tokens")
    found, last = {"ttft": None, "e2e": None, "tpot": None, "itl": []}, None
    for time in token_times:
        if time < (arrival if last is None else last):
            raise ValueError("backwards")
        if last is None:
            found["ttft"] = time - arrival
        else:
            found["itl"].append(time - last)
        last = time
    found["e2e"] = last - arrival
    if len(token_times) > 1:
        found["tpot"] = (found["e2e"] - found["ttft"]) / (len(token_times) - 1)
    return found


alternative("level04.metrics.request_metrics", "numpy_diff", program=_numpy_diff)
alternative("level04.metrics.request_metrics", "pairwise", program=_pairwise)
alternative("level04.metrics.request_metrics", "one_token_after_the_other", program=_one_token_after_the_other)


def _percentile(name, calculate):
    def program(values, q):
        if not values or q < 0 or q > 100:
            raise ValueError("no values, or no percentile")
        return calculate(values, q)

    alternative("level04.metrics.percentile", name, program=program)


def _two_weights(values, q):
    values = sorted(values)
    part, rank = math.modf((len(values) - 1) * q / 100)
    return (1 - part) * values[int(rank)] + part * values[math.ceil(rank + part)]


def _fractions(values, q):
    values = sorted(map(Fraction, values))
    rank, part = divmod(Fraction(q) * (len(values) - 1), 100)
    values.append(values[-1])
    return float(values[rank] + part / 100 * (values[rank + 1] - values[rank]))


def _ten_thousand_quantiles(values, q):
    """statistics.quantiles gives the inner borders; the ends are added, and what lies between two is on their line."""
    if len(values) == 1:
        return values[0]
    cuts = [min(values), *quantiles(values, n=1000 * (len(values) - 1), method="inclusive"), max(values)]
    at = q / 100 * (len(cuts) - 1)
    return cuts[math.floor(at)] + (at % 1) * (cuts[math.ceil(at)] - cuts[math.floor(at)])


_percentile("numpy", np.percentile)
_percentile("torch_quantile", lambda v, q: torch.quantile(torch.tensor(v, dtype=torch.float64), q / 100).item())
_percentile("interp", lambda v, q: float(np.interp(q, np.linspace(0, 100, len(v)), np.sort(np.asarray(v)))))
_percentile("two_weights", _two_weights)
_percentile("fractions", _fractions)
_percentile("ten_thousand_quantiles", _ten_thousand_quantiles)


def _all_times(requests):
    """Two flat lists."""
    tokens = [time for _, times in requests for time in times]
    if len(requests) == 0 or any(len(times) == 0 for _, times in requests):
        raise ValueError("no requests, or no tokens")
    return len(tokens) / (max(tokens) - min(arrival for arrival, _ in requests))


def _running(requests):
    """One pass."""
    start, end, n = math.inf, -math.inf, 0
    for arrival, times in requests:
        if not times:
            raise ValueError("no tokens")
        start, end, n = min(start, arrival), max(end, *times), n + len(times)
    if not n:
        raise ValueError("no requests")
    return n * (1 / (end - start))


def _as_a_sum(requests, ttft_slo, tpot_slo, duration):
    """A zero instead of None, which meets every objective."""
    from level04.metrics import request_metrics

    if not duration > 0:
        raise ValueError("no time")
    found = [request_metrics(*request) for request in requests]
    return sum(m["ttft"] <= ttft_slo and (m["tpot"] or 0) <= tpot_slo for m in found) / duration


def _multiplied(requests, ttft_slo, tpot_slo, duration):
    """Without request_metrics, and without a division for each request."""
    if duration <= 0:
        raise ValueError("no time")
    rate = 0.0
    for arrival, times in requests:
        in_time = arrival + ttft_slo >= times[0]
        if in_time and times[-1] <= times[0] + tpot_slo * (len(times) - 1):
            rate += 1 / duration
    return rate


def _in_numpy(requests, ttft_slo, tpot_slo, duration):
    """Arrays of both latencies; NaN stands for no TPOT, and is not above anything."""
    from level04.metrics import request_metrics

    if duration <= 0:
        raise ValueError("no time")
    found = [request_metrics(arrival, times) for arrival, times in requests]
    ttft = np.array([one["ttft"] for one in found])
    tpot = np.array([math.nan if one["tpot"] is None else one["tpot"] for one in found])
    return np.count_nonzero((ttft <= ttft_slo) & ~(tpot > tpot_slo)) / duration


alternative("level04.metrics.goodput", "all_times", program=_all_times, part="throughput")
alternative("level04.metrics.goodput", "running", program=_running, part="throughput")
alternative("level04.metrics.goodput", "as_a_sum", program=_as_a_sum)
alternative("level04.metrics.goodput", "multiplied", program=_multiplied)
alternative("level04.metrics.goodput", "in_numpy", program=_in_numpy)
