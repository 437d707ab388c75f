"""Prefill and decode on one device, or on two with the KV cache sent from one to the other: who waits for whom.

A request is (arrival in seconds, number of tokens it gets). Its prefill gives the first, each decode step one more to
everybody who takes part. All prompts are equally long.
"""

from collections.abc import Sequence

Arrival = tuple[float, int]


def check(requests: Sequence[Arrival], *seconds: float) -> None:
    """ValueError: a request without tokens, a time below 0. Given."""
    if any(arrival < 0 or tokens < 1 for arrival, tokens in requests) or min(seconds, default=0) < 0:
        raise ValueError("arrivals and durations are 0 or more, and every request gets at least 1 token")


def simulate_colocated(requests: Sequence[Arrival], prefill_seconds: float, step_seconds: float) -> list[list[float]]:
    """Return the times of each request's tokens, in the order of `requests`, when one device does everything.

    It does one thing at a time, without a pause while there is work. Prefill first: whenever it is free, and a prompt
    has arrived (up to that very moment), that is next, the earliest before the others, at the same time by their order;
    else a decode step of all requests that have begun and are not done.
    Example: (0, 3) and (0.1, 2), prefill 1, step 0.1: the second prompt goes before the first's second token, so
    [[1, 2.1, 2.2], [2, 2.1]]. ValueError: a request without tokens, a time below 0. DistServe, arXiv 2401.09670.

    ●● · about 16 lines
    """
    check(requests, prefill_seconds, step_seconds)
    # solution:begin what is next: a wait, a prompt, or a step of everybody?
    times: list[list[float]] = [[] for _ in requests]
    queue = sorted(range(len(requests)), key=lambda i: requests[i][0])  # sorts are stable
    active: list[int] = []
    now = 0.0
    while queue or active:
        if not active:
            now = max(now, requests[queue[0]][0])
        if queue and requests[queue[0]][0] <= now:
            chosen, now = [queue.pop(0)], now + prefill_seconds
            active += chosen
        else:
            chosen, now = active, now + step_seconds
        for i in chosen:
            times[i].append(now)
        active = [i for i in active if len(times[i]) < requests[i][1]]
    return times
    # solution:end


def kv_transfer_seconds(
    num_tokens: int, kv_bytes_per_token: float, bandwidth: float, latency_seconds: float = 0.0
) -> float:
    """Return the seconds that the KV cache of a prompt takes over a link: once the latency, then its bytes.

    bandwidth  bytes per second (a link of 400 Gb/s carries 50e9)

    Example: 4000 tokens of Llama-3.1-8B, 131,072 bytes each, at 50e9 with 1e-4 s -> 0.01059 s.
    ValueError: a bandwidth of 0 or below.

    ● · about 1 line · part of simulate_disaggregated
    """
    if not bandwidth > 0:
        raise ValueError(f"a link carries more than 0 bytes per second, not {bandwidth}")
    # solution:begin once, and per byte
    return latency_seconds + num_tokens * kv_bytes_per_token / bandwidth
    # solution:end


def simulate_disaggregated(
    requests: Sequence[Arrival], prefill_seconds: float, step_seconds: float, transfer_seconds: float
) -> list[list[float]]:
    """Return the times of each request's tokens, in the order of `requests`, with one device for each phase.

    The first prefills one prompt after the other, the earliest first, at the same time by their order; the first token
    is known when its prefill is done. Then the cache travels, for transfer_seconds, whoever else's does. The second
    runs decode steps without a pause while there is anybody whose cache is there: a step takes all who were there when
    it began (up to that very moment). A request of one token needs no transfer.
    Example: (0, 3) and (0.1, 2), prefill 1, step 0.1, transfer 0.05: [[1, 1.15, 1.25], [2, 2.15]].
    ValueError: a request without tokens, a time below 0. DistServe, arXiv 2401.09670; Splitwise, arXiv 2311.18677.

    ●● · about 16 lines
    """
    check(requests, prefill_seconds, step_seconds, transfer_seconds)
    # solution:begin first all prefills; then the steps, with those whose cache is there
    times: list[list[float]] = [[] for _ in requests]
    now = 0.0
    for i in sorted(range(len(requests)), key=lambda i: requests[i][0]):
        now = max(now, requests[i][0]) + prefill_seconds
        times[i].append(now)
    ready = {i: times[i][0] + transfer_seconds for i in range(len(requests))}
    left = {i for i in ready if requests[i][1] > 1}
    now = 0.0
    while left:
        now = max(now, min(ready[i] for i in left))  # idle until somebody's cache is there
        chosen = [i for i in left if ready[i] <= now]
        now += step_seconds
        for i in chosen:
            times[i].append(now)
        left -= {i for i in chosen if len(times[i]) >= requests[i][1]}
    return times
    # solution:end
