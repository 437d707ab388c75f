"""Right programs, written another way, for level10.openloop. `alternative` is given when this is read."""

import asyncio
from math import floor

import numpy as np

_RUN = "level10.openloop.run_open_loop"
_OMIT = "level10.openloop.correct_coordinated_omission"


def _positive(x):
    if not x > 0:
        raise ValueError("above 0")


async def everyone_sleeps(send, arrivals, clock, sleep):
    """One task for each request from the start; each sleeps for itself."""
    began = clock()

    async def one(i, due):
        await sleep(max(0.0, due - clock()))
        return await send(i, due)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(i, began + arrival)) for i, arrival in enumerate(arrivals)]
    return [task.result() for task in tasks]


async def gathered(send, arrivals, clock, sleep):
    """asyncio.gather, with the cancelling and the group by hand."""
    began = clock()

    async def one(i, due):
        while (left := due - clock()) > 0:
            await sleep(left)
        return await send(i, due)

    tasks = [asyncio.ensure_future(one(i, began + arrival)) for i, arrival in enumerate(arrivals)]
    try:
        return list(await asyncio.gather(*tasks))
    except Exception as error:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise ExceptionGroup("a request failed", [error]) from None


async def into_places(send, arrivals, clock, sleep):
    """The list of results is there from the start; the sender is a task beside those that it starts."""
    start, found = clock(), [None] * len(arrivals)

    async def one(i, due):
        found[i] = await send(i, due)

    async def sender(group):
        for i in range(len(arrivals)):
            due = start + arrivals[i]
            await sleep(due - clock())  # below 0 where it is late: at once
            group.create_task(one(i, due))

    async with asyncio.TaskGroup() as group:
        group.create_task(sender(group))
    return found


async def sorted_by_hand(send, arrivals, clock, sleep):
    """A dictionary by place, in slices of sleep."""
    start, tasks = clock(), {}
    async with asyncio.TaskGroup() as group:
        for place, due in enumerate(start + float(arrival) for arrival in arrivals):
            while clock() < due:
                await sleep(min(due - clock(), 0.5))
            tasks[place] = group.create_task(send(place, due))
    return [tasks[place].result() for place in sorted(tasks)]


def one_at_a_time(rate, num_requests, rng):
    _positive(rate)
    time, times = 0.0, []
    for _ in range(num_requests):
        time += rng.exponential() / rate
        times.append(time)
    return np.array(times, dtype=float)


def inverted(rate, num_requests, rng):
    """The inverse of the distribution function of uniform draws."""
    _positive(rate)
    return np.cumsum(-np.log1p(-rng.random(num_requests)) / rate)


def gamma_of_one(rate, num_requests, rng):
    _positive(rate)
    return np.add.accumulate(rng.gamma(1.0, 1 / rate, size=num_requests))


def subtracted(latencies, interval):
    """One subtraction after the other."""
    _positive(interval)
    found = []
    for latency in latencies:
        waits = latency
        while True:
            found.append(waits)
            waits -= interval
            if waits < interval - 1e-9 * latency:
                break
    return found


def with_arange(latencies, interval):
    _positive(interval)
    rows = []
    for x in latencies:
        num = max(1, floor((x + 1e-9 * x) / interval))
        rows.append(x - interval * np.arange(num))
    return [float(x) for x in np.concatenate(rows)] if rows else []


def recursive(latencies, interval):
    """Head and rest; each answer by recursion would be too deep."""
    _positive(interval)
    if len(latencies) == 0:
        return []
    x, n = latencies[0], 1
    while x - n * interval >= interval - x / 1e9:
        n += 1
    head = [x] + [x - k * interval for k in range(1, n)]
    return head if len(latencies) == 1 else head + [y for z in latencies[1:] for y in recursive([z], interval)]


alternative(_RUN, "everyone_sleeps", program=everyone_sleeps)
alternative(_RUN, "gathered", program=gathered)
alternative(_RUN, "into_places", program=into_places)
alternative(_RUN, "sorted_by_hand", program=sorted_by_hand)
alternative(_RUN, "one_at_a_time", program=one_at_a_time, part="poisson_arrivals")
alternative(_RUN, "inverted", program=inverted, part="poisson_arrivals")
alternative(_RUN, "gamma_of_one", program=gamma_of_one, part="poisson_arrivals")
alternative(_OMIT, "subtracted", program=subtracted)
alternative(_OMIT, "with_arange", program=with_arange)
alternative(_OMIT, "recursive", program=recursive)
