"""What a user feels, and what an operator counts: latencies, percentiles, throughput, goodput.

A request is (arrival, token_times): seconds on one clock, the times at which each of its tokens reached the user.
"""

from collections.abc import Sequence

Request = tuple[float, Sequence[float]]


def request_metrics(arrival: float, token_times: Sequence[float]) -> dict:
    """Return {"ttft", "e2e", "tpot", "itl"} of one request, in seconds.

    ttft  time to first token, from the arrival: waiting in a queue is part of it
    e2e   from the arrival to the last token
    tpot  time per output token after the first: the mean gap, None if there is only one token
    itl   inter-token latencies: the list of all gaps

    Example: arrival 10, tokens at 10.5, 10.6, 10.8: ttft 0.5, e2e 0.8, tpot 0.15, itl [0.1, 0.2].
    ValueError: no tokens, or times that go backwards.

    ●● · about 7 lines
    """
    if not token_times:
        raise ValueError("a request without tokens has no latency: count it as failed")
    if any(after < before for before, after in zip([arrival, *token_times], token_times)):
        raise ValueError("token times go backwards: give arrival and tokens in order, on one clock")
    # TODO: n tokens have how many gaps?
    raise NotImplementedError("level04.metrics.request_metrics")


def percentile(values: Sequence[float], q: float) -> float:
    """Return the q-th percentile of values in any order, 0 <= q <= 100.

    Of n sorted values the first has rank 0 and the last rank n - 1; the percentile stands at rank q / 100 · (n - 1),
    between two values on the straight line from one to the other (numpy's "linear", Hyndman and Fan's type 7).
    Example: [1, 2, 3, 4, 10]: q = 50 -> 3, q = 99 -> 9.76.
    ValueError: no values, q outside 0..100.

    ●● · about 5 lines
    """
    if not values or not 0 <= q <= 100:
        raise ValueError(f"a percentile needs values and 0 <= q <= 100, not {len(values)} values and q = {q}")
    # TODO: sort, find the rank, and the two values around it
    raise NotImplementedError("level04.metrics.percentile")


def throughput(requests: Sequence[Request]) -> float:
    """Return tokens per second of all requests together, in any order, from the first arrival to the last token.

    Example: (0, [1, 2]) and (1, [2, 3, 4]): 5 tokens in 4 seconds -> 1.25.
    ValueError: no requests, or one without tokens.

    ● · about 3 lines · part of goodput
    """
    if not requests or not all(times for _, times in requests):
        raise ValueError("throughput needs at least one request, and tokens of each: leave out those that failed")
    # TODO: all tokens over all of the time
    raise NotImplementedError("level04.metrics.goodput")


def goodput(requests: Sequence[Request], ttft_slo: float, tpot_slo: float, duration: float) -> float:
    """Return the requests per second that met *both* objectives (SLO): ttft <= ttft_slo and tpot <= tpot_slo.

    duration  seconds that were observed; a request of one token has no tpot and meets that objective

    Example: of 3 requests in 4 seconds 2 meet both -> 0.5.
    ValueError: duration 0 or below, a request without tokens. DistServe, arXiv 2401.09670.

    ●● · about 5 lines · needs level04.metrics.request_metrics
    """
    if duration <= 0:
        raise ValueError(f"goodput is a rate, so some time must pass, not {duration} seconds")
    # TODO: count the requests that met both
    raise NotImplementedError("level04.metrics.goodput")
