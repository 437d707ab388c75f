"""Right programs, written another way, for level10.disaggregate. `alternative` is given when this is read."""

from collections import deque
from heapq import heapify, heappop, heappush
from math import inf

import numpy as np

_ONE, _TWO = "level10.disaggregate.simulate_colocated", "level10.disaggregate.simulate_disaggregated"


def _refuse(requests, *seconds):
    for arrival, tokens in requests:
        if arrival < 0 or tokens < 1:
            raise ValueError("bad request")
    if any(x < 0 for x in seconds):
        raise ValueError("bad time")


def with_a_heap(requests, prefill_seconds, step_seconds):
    """Prompts in a heap; of the active ones it is remembered how many tokens each still needs."""
    _refuse(requests, prefill_seconds, step_seconds)
    prompts = [(arrival, i) for i, (arrival, _) in enumerate(requests)]
    heapify(prompts)
    times, needs, now = {i: [] for i in range(len(requests))}, {}, 0.0
    while prompts or needs:
        if prompts and prompts[0][0] <= now:
            _, i = heappop(prompts)
            now += prefill_seconds
            times[i].append(now)
            if requests[i][1] > 1:
                needs[i] = requests[i][1] - 1
        elif needs:
            now += step_seconds
            for i in list(needs):
                times[i].append(now)
                needs[i] -= 1
                if not needs[i]:
                    del needs[i]
        else:
            now = prompts[0][0]
    return list(times.values())


def by_events(requests, prefill_seconds, step_seconds):
    """A generator of what the device does: who gets a token, and when."""
    _refuse(requests, prefill_seconds, step_seconds)
    times = [[] for _ in requests]

    def happenings():
        waiting, now = deque(sorted(range(len(requests)), key=lambda i: requests[i][0])), 0
        while True:
            running = [i for i, got in enumerate(times) if 0 < len(got) < requests[i][1]]
            if waiting and (not running or requests[waiting[0]][0] <= now):
                i = waiting.popleft()
                now = max(now, requests[i][0]) + prefill_seconds
                yield now, [i]
            elif running:
                now += step_seconds
                yield now, running
            else:
                return

    for now, who in happenings():
        for i in who:
            times[i].append(float(now))
    return times


def between_prompts(requests, prefill_seconds, step_seconds):
    """Prompt by prompt: before each as many steps as fit in, and at the end all that are left."""
    _refuse(requests, prefill_seconds, step_seconds)
    times = [[] for _ in requests]
    now = 0.0

    def steps_until(end):
        nonlocal now
        while now < end and (who := [i for i, got in enumerate(times) if got and len(got) < requests[i][1]]):
            now += step_seconds
            for i in who:
                times[i].append(now)

    for i, (arrival, _) in sorted(enumerate(requests), key=lambda pair: pair[1][0]):
        steps_until(arrival)
        now = max(now, arrival) + prefill_seconds
        times[i].append(now)
    steps_until(inf)
    return times


def merged_events(requests, prefill_seconds, step_seconds, transfer_seconds):
    """One heap of events for both devices; those of one moment in the order prefill, cache, step."""
    _refuse(requests, prefill_seconds, step_seconds, transfer_seconds)
    times, here, stepping = [[] for _ in requests], [], False
    heap, free = [], 0.0
    for arrival, i in sorted((arrival, i) for i, (arrival, _) in enumerate(requests)):
        free = max(free, arrival) + prefill_seconds
        times[i].append(free)
        if requests[i][1] > 1:
            heappush(heap, (free + transfer_seconds, 0, i))
    while heap:
        now, kind, i = heappop(heap)
        if kind == 0:
            here.append(i)
        elif kind == 1:
            for one in i:
                times[one].append(now)
            here = [one for one in here if len(times[one]) < requests[one][1]]
            stepping = False
        if not stepping and here and not (heap and heap[0][:2] <= (now, 1)):
            heappush(heap, (now + step_seconds, 1, tuple(here)))
            stepping = True
    return times


def with_arrays(requests, prefill_seconds, step_seconds, transfer_seconds):
    """Arrays of when each cache is there and how many tokens are left."""
    _refuse(requests, prefill_seconds, step_seconds, transfer_seconds)
    if not requests:
        return []
    arrivals = np.array([arrival for arrival, _ in requests], float)
    left = np.array([tokens - 1 for _, tokens in requests])
    first, free = np.zeros(len(requests)), 0.0
    for i in np.argsort(arrivals, kind="stable"):
        first[i] = free = max(free, arrivals[i]) + prefill_seconds
    there, times, now = first + transfer_seconds, [[float(at)] for at in first], 0.0
    while left.any():
        now = max(now, there[left > 0].min())
        who = (left > 0) & (there <= now)
        now += step_seconds
        left[who] -= 1
        for i in np.flatnonzero(who):
            times[i].append(float(now))
    return times


def by_caches(requests, prefill_seconds, step_seconds, transfer_seconds):
    """Caches in a queue by when they are there; the batch is a dictionary of what is left."""
    _refuse(requests, prefill_seconds, step_seconds, transfer_seconds)
    times, clock = [None] * len(requests), 0.0
    for i in sorted(range(len(requests)), key=lambda j: (requests[j][0], j)):
        clock = prefill_seconds + (clock if clock > requests[i][0] else requests[i][0])
        times[i] = [clock]
    caches = deque(sorted((got[0] + transfer_seconds, i) for i, got in enumerate(times) if requests[i][1] > 1))
    batch, now = {}, 0.0
    while caches or batch:
        if not batch and caches[0][0] > now:
            now = caches[0][0]
        while caches and caches[0][0] <= now:
            _, i = caches.popleft()
            batch[i] = requests[i][1] - 1
        now = now + step_seconds
        for i in batch:
            times[i].append(now)
            batch[i] -= 1
        batch = {i: n for i, n in batch.items() if n > 0}
    return times


def in_two_parts(num_tokens, kv_bytes_per_token, bandwidth, latency_seconds=0.0):
    if not bandwidth > 0:
        raise ValueError("bandwidth")
    return sum([latency_seconds, (num_tokens / bandwidth) * kv_bytes_per_token])


alternative(_ONE, "with_a_heap", program=with_a_heap)
alternative(_ONE, "by_events", program=by_events)
alternative(_ONE, "between_prompts", program=between_prompts)
alternative(_TWO, "merged_events", program=merged_events)
alternative(_TWO, "with_arrays", program=with_arrays)
alternative(_TWO, "by_caches", program=by_caches)
alternative(_TWO, "in_two_parts", program=in_two_parts, part="kv_transfer_seconds")
