"""Load that does not wait for the server: requests come when they come, as those of many users do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np


def poisson_arrivals(rate: float, num_requests: int, rng: np.random.Generator) -> np.ndarray:
    """Return the times of the first arrivals of a Poisson process, in seconds, (num_requests,) float64, increasing.

    rate  arrivals per second, on average; the process begins at 0, so its first gap is random, too

    The gaps between arrivals are independent and exponential. Example: rate 2: gaps of 0.5 s on average, whose standard
    deviation is 0.5 s as well. ValueError: rate 0 or below.

    ● · about 1 line · part of run_open_loop
    """
    if not rate > 0:
        raise ValueError(f"a rate is above 0 requests per second, not {rate}")
    # TODO: gaps, then times
    raise NotImplementedError("level10.openloop.run_open_loop")


async def run_open_loop(
    send: Callable[[int, float], Awaitable],
    arrivals: Sequence[float],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable],
) -> list:
    """Start send(i, due) for each arrival when it is due, whatever has become of those before; return their results.

    send      coroutine function: sends request i and waits for its answer; `due` is on the clock, and is what the
              latency is measured from: the time at which the request should start, be it late or not
    arrivals  seconds after the start of this call, increasing
    clock     the time in seconds;  sleep  coroutine function that waits for so many seconds

    The results stand in the order of the arrivals. A request that is overdue is started at once. If one raises, the
    others are cancelled, and an ExceptionGroup passes on.
    Example: arrivals 1, 2, 3 and answers that take 5 s: they start at 1, 2 and 3, and all is over at 8.

    ●● · about 8 lines
    """
    # TODO: when is each one due, how long is it until then, and who waits for its answer?
    raise NotImplementedError("level10.openloop.run_open_loop")


def correct_coordinated_omission(latencies: Sequence[float], interval: float) -> list[float]:
    """Return the latencies with those put back that a client left out which waits for each answer.

    latencies  seconds, of one client that means to send every `interval` seconds, but never has two requests open

    During an answer that takes x it should have sent at interval, 2 · interval, …; these would have waited for
    x - interval, x - 2 · interval, … Each that is at least `interval` long is put back, right behind x, the longest
    first; what is too short by a billionth of x, or less, counts as long enough (rounding). HdrHistogram does so, too.
    Example: [1, 5, 1] with interval 1 -> [1, 5, 4, 3, 2, 1, 1]. ValueError: interval 0 or below.

    ●● · about 5 lines
    """
    if not interval > 0:
        raise ValueError(f"requests are some time apart, so the interval is above 0, not {interval}")
    # TODO: how many should have been sent during each answer, and how long would each have waited?
    raise NotImplementedError("level10.openloop.correct_coordinated_omission")
