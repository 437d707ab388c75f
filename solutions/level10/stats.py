"""What a client's record says, and how far it can be trusted."""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from level04.metrics import Request, percentile


def token_times(chunk_times: Sequence[float], chunk_tokens: Sequence[int]) -> list[float]:
    """Return the time of each token of a streamed answer, in seconds, as level 04's metrics want them.

    chunk_times   when each chunk came, never decreasing;  chunk_tokens  how many tokens it brought

    A chunk of n tokens brings them evenly spread over the gap since the last chunk that brought any: the last one comes
    with the chunk. The tokens of the first chunk with tokens all come with it. A chunk of 0 tokens (the role in a chat,
    the usage) is no token, and begins no gap.
    Example: 1 token at 1.0, 4 at 1.4 -> [1.0, 1.1, 1.2, 1.3, 1.4]: gaps of 0.1, not one of 0.4.
    ValueError: not as many tokens as times.

    ● · about 6 lines
    """
    if len(chunk_times) != len(chunk_tokens):
        raise ValueError(f"each chunk has a time: {len(chunk_times)} times, {len(chunk_tokens)} chunks")
    # solution:begin where does the gap of a chunk begin, and where in it does each token stand?
    times: list[float] = []
    for time, n in zip(chunk_times, chunk_tokens):
        begin = times[-1] if times else time
        times += [time - (time - begin) * (n - k) / n for k in range(1, n + 1)]
    return times
    # solution:end


def steady_window(requests: Sequence[Request], start: float, end: float) -> list[Request]:
    """Return the requests (arrival, token times) that were due in start <= arrival < end, in their order.

    At first the server is empty, and at last as well: neither is what it does under load. Chosen by the end of a
    request, or by when it was really sent, the slow ones would be left out.
    Example: arrivals 0, 1, 2, 3, start 1, end 3 -> those of 1 and 2.

    ● · about 1 line · part of bootstrap_interval
    """
    # solution:begin by which of its times?
    return [request for request in requests if start <= request[0] < end]
    # solution:end


def tail_samples_needed(q: float, beyond: int = 10) -> int:
    """Return how many samples it takes until `beyond` of them are expected above the q-th percentile, rounded up.

    An excess of less than a millionth of a sample is rounding.
    Example: q = 99 -> 1000; q = 99.9 -> 10000. ValueError: q outside 0 <= q < 100.

    ● · about 1 line · part of bootstrap_interval
    """
    if not 0 <= q < 100:
        raise ValueError(f"a percentile with a tail has 0 <= q < 100, not {q}")
    # solution:begin which share of the samples lies beyond?
    return ceil(round(100 * beyond / (100 - q), 6))
    # solution:end


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[list[float]], float],
    rng: np.random.Generator,
    num_resamples: int = 1000,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return (low, high), between which `statistic` lies in a share `level` of resamples of the values.

    A resample has as many values, drawn from them by `rng` independently and with replacement. As many resamples lie
    below low as above high: these are percentiles of the resampled statistics, as level 04's `percentile` takes them.
    Example: the mean of 0, 1, …, 99: about 49.5 ± 1.96 · 28.87 / √100, so (43.9, 55.1).
    ValueError: fewer than 2 values, level outside 0 < level < 1. Efron's percentile interval.

    ●● · about 5 lines
    """
    if len(values) < 2 or not 0 < level < 1:
        raise ValueError(f"an interval needs at least 2 values and 0 < level < 1, not {len(values)} and {level}")
    # solution:begin resample, look at the statistic of each, cut off both tails
    values = np.asarray(values, float)
    picks = rng.integers(len(values), size=(num_resamples, len(values)))
    found = [float(statistic(row)) for row in values[picks].tolist()]
    tail = 50 * (1 - level)
    return percentile(found, tail), percentile(found, 100 - tail)
    # solution:end
