"""Judges disaggregate.py by traces worked by hand, and by devices that are asked at each tick what they do.

A tick is 1/8 s, so that sums are exact, in any order, and ties are ties.
"""

import random

import pytest

from level10.disaggregate import kv_transfer_seconds, simulate_colocated, simulate_disaggregated

TICK = 0.125

# ---- simulate_colocated


class Device:
    """One thing at a time: `begin` says what and for how long, `done` who gets a token, at each tick."""

    def __init__(self):
        self.who, self.until = [], None

    def begin(self, who, now, ticks):
        self.who, self.until = who, now + ticks

    def done(self, now):
        if self.until != now:
            return []
        self.until = None
        return self.who


def next_prompt(requests, begun, now):
    """[the earliest that has come and not begun], the first of several; [] if there is none."""
    come = [i for i in range(len(requests)) if i not in begun and requests[i][0] <= now]
    return sorted(come, key=lambda i: (requests[i][0], i))[:1]


def on_one_device(requests, prefill, step):
    """Oracle: in ticks."""
    times, begun, device, now = [[] for _ in requests], set(), Device(), 0
    while any(len(got) < tokens for got, (_, tokens) in zip(times, requests)):
        for i in device.done(now):
            times[i].append(now)
        if device.until is None:
            prompt = next_prompt(requests, begun, now)
            active = [i for i in begun if len(times[i]) < requests[i][1]]
            begun |= set(prompt)
            if prompt or active:
                device.begin(prompt or active, now, prefill if prompt else step)
        now += 1
    return times


def on_two_devices(requests, prefill, step, transfer):
    """Oracle: in ticks."""
    times, begun, there, now = [[] for _ in requests], set(), {}, 0
    first, second = Device(), Device()
    while any(len(got) < tokens for got, (_, tokens) in zip(times, requests)):
        for i in first.done(now):
            times[i].append(now)
            there[i] = now + transfer
        for i in second.done(now):
            times[i].append(now)
        if first.until is None and (prompt := next_prompt(requests, begun, now)):
            begun |= set(prompt)
            first.begin(prompt, now, prefill)
        active = [i for i, at in there.items() if at <= now and len(times[i]) < requests[i][1]]
        if second.until is None and active:
            second.begin(active, now, step)
        now += 1
    return times


def in_seconds(requests, ticks):
    return [(arrival * TICK, tokens) for arrival, tokens in requests], [n * TICK for n in ticks]


def right_times(times):
    return [[at * TICK for at in got] for got in times]


def traffic(draw, num):
    """Requests in no order, some at the same tick, of 1 to 6 tokens."""
    return [(draw.choice([0, 3, 3, draw.randrange(40)]), draw.choice([1, 1, 2, 3, 4, 6])) for _ in range(num)]


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
@pytest.mark.parametrize(
    "requests, prefill, step, right",
    [
        ([(0.0, 3), (0.1, 2)], 1.0, 0.1, [[1.0, 2.1, 2.2], [2.0, 2.1]]),
        ([(0.0, 3), (1.0, 2)], 1.0, 0.5, [[1.0, 2.5, 3.0], [2.0, 2.5]]),
        ([(0.0, 3), (1.125, 2)], 1.0, 0.5, [[1.0, 1.5, 3.0], [2.5, 3.0]]),
        ([(5.0, 2), (0.0, 1), (1.5, 1)], 1.0, 0.5, [[6.0, 6.5], [1.0], [2.5]]),
        ([(0.25, 2), (0.0, 3), (0.125, 1), (0.125, 2)], 0.5, 1.0, [[2.0, 3.0], [0.5, 3.0, 4.0], [1.0], [1.5, 3.0]]),
        ([(2.0, 1)], 0.25, 1.0, [[2.25]]),
        ([(0.0, 4)], 0.5, 0.25, [[0.5, 0.75, 1.0, 1.25]]),
        ([(2**-13, 3)], 2**-10, 2**-12, [[9 * 2**-13, 11 * 2**-13, 13 * 2**-13]]),
        ([], 1.0, 1.0, []),
    ],
    ids=[
        "docstring",
        "as it is free",
        "just too late",
        "idle in between",
        "by arrival",
        "one token",
        "alone",
        "short",
        "nobody",
    ],
)
def test_one_device_by_hand(expect, requests, prefill, step, right):
    """A prompt that comes while the device is busy is next, before the second token of all who stream; one that comes
    an eighth after the device was free waits for a step. Results stand in the order of the requests."""
    expect(simulate_colocated, requests, prefill, step).equals(right, rel=1e-9, abs=1e-9)


def largest_gap(times):
    return max(after - before for before, after in zip(times, times[1:]))


def stall(simulate, *seconds):
    """The largest gap in a long answer, while two prompts come, one after the other."""
    return largest_gap(simulate([(0.0, 30), (2.0, 2), (3.5, 2)], *seconds)[0])


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
def test_a_prompt_stalls_everybody(expect):
    """The lesson's: a prefill of 1 s in steps of 0.1 s. Whoever is reading waits for prefill and step, 1.1 s: on
    average the answer flows, and yet it stops twice."""
    expect(stall, simulate_colocated, 1.0, 0.1).equals(1.1, rel=1e-9)


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
@pytest.mark.parametrize("prefill, step", [(4, 1), (1, 4), (2, 2), (1, 1), (8, 3), (3, 8)])
def test_one_device_at_every_tick(expect, prefill, step):
    """Prompts much longer than steps, and shorter; ties of all kinds. Oracle: the device is asked at each tick."""
    draw = random.Random(prefill * 10 + step)
    for num in (1, 2, 2, 3, 3, 4, 6, 9):
        requests = traffic(draw, num)
        seconds = in_seconds(requests, (prefill, step))
        expect(simulate_colocated, seconds[0], *seconds[1]).equals(right_times(on_one_device(requests, prefill, step)))


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
@pytest.mark.parametrize("start", [0.0, 1_000_000.0])
def test_a_device_with_work_does_not_pause(expect, start):
    """Work conservation: 5 prompts at once are 5 prefills, and then as many steps as the longest answer still needs,
    since a step serves all, and so it is with 300. Nothing of it depends on when the clock began."""
    for num in (5, 300):
        requests = [(start, (3, 1, 9, 2, 3)[i % 5]) for i in range(num)]
        prefilled = [start + 0.5 * (i + 1) for i in range(num)]
        right = [[at, *(prefilled[-1] + 0.25 * k for k in range(1, n))] for at, (_, n) in zip(prefilled, requests)]
        expect(simulate_colocated, requests, 0.5, 0.25).equals(right, rel=1e-12)
        expect(simulate_colocated, tuple(requests), 0.5, 0.25).equals(right, rel=1e-12)


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
def test_work_that_takes_no_time(expect):
    """By hand: prefills of 0 s give their tokens at once, and so do steps of 0 s, after the prompt that waits."""
    expect(simulate_colocated, [(0.0, 2), (0.0, 1), (1.0, 2)], 0.0, 1.0).equals([[0.0, 1.0], [0.0], [1.0, 2.0]])
    expect(simulate_colocated, [(0.0, 3), (0.0, 1), (5.0, 2)], 1.0, 0.0).equals([[1.0, 2.0, 2.0], [2.0], [6.0, 6.0]])


@pytest.mark.kata("level10.disaggregate.simulate_colocated")
def test_an_answer_has_a_token(expect):
    """And no arrival or duration lies below 0."""
    expect(simulate_colocated, [(0.0, 1)], 1.0, 1.0).equals([[1.0]])
    for case in (([(0.0, 0)], 1.0, 1.0), ([(-1.0, 1)], 1.0, 1.0), ([(0.0, 1)], -1.0, 1.0), ([(0.0, 1)], 1.0, -1.0)):
        expect(simulate_colocated, *case).raises(ValueError)


# ---- simulate_disaggregated


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
@pytest.mark.parametrize(
    "requests, seconds, right",
    [
        ([(0.0, 3), (0.1, 2)], (1.0, 0.1, 0.05), [[1.0, 1.15, 1.25], [2.0, 2.15]]),
        ([(0.0, 4), (0.0, 3)], (1.0, 0.5, 0.5), [[1.0, 2.0, 2.5, 3.0], [2.0, 3.0, 3.5]]),
        ([(0.0, 4), (0.0, 3)], (1.0, 0.5, 0.625), [[1.0, 2.125, 2.625, 3.125], [2.0, 3.125, 3.625]]),
        ([(0.0, 3), (0.0, 2)], (0.5, 1.0, 0.25), [[0.5, 1.75, 2.75], [1.0, 2.75]]),
        ([(0.0, 2), (0.0, 2)], (1.0, 1.0, 0.0), [[1.0, 2.0], [2.0, 3.0]]),
        ([(0.0, 1)], (1.0, 0.125, 9.0), [[1.0]]),
        ([(0.5, 1), (0.0, 2), (0.0, 1)], (1.0, 0.5, 2.0), [[3.0], [1.0, 3.5], [2.0]]),
        ([(6.0, 2), (0.0, 3)], (1.0, 0.5, 0.25), [[7.0, 7.75], [1.0, 1.75, 2.25]]),
        ([(2**-13, 3)], (2**-10, 2**-12, 2**-13), [[9 * 2**-13, 12 * 2**-13, 14 * 2**-13]]),
        ([], (1.0, 1.0, 1.0), []),
    ],
    ids=[
        "docstring",
        "as a step begins",
        "during a step",
        "long steps",
        "free link",
        "one token",
        "ends",
        "idle",
        "short",
        "nobody",
    ],
)
def test_two_devices_by_hand(expect, requests, seconds, right):
    """The first token is known where the prompt was; the second waits for the cache, and then for the step that runs,
    if one does. A cache that comes as a step begins is in it. Who gets one token sends nothing."""
    expect(simulate_disaggregated, requests, *seconds).equals(right, rel=1e-9, abs=1e-9)


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
def test_a_prompt_stalls_nobody_else(expect):
    """The lesson's: the largest gap is one transfer and one step, 0.15 s. On one device it is 1.1."""
    expect(stall, simulate_disaggregated, 1.0, 0.1, 0.05).equals(0.15, rel=1e-9)


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
@pytest.mark.parametrize("prefill, step, transfer", [(4, 1, 2), (1, 4, 2), (2, 2, 4), (1, 1, 0), (2, 3, 9), (3, 8, 1)])
def test_two_devices_at_every_tick(expect, prefill, step, transfer):
    """Long and short prompts, steps and transfers; ties of all kinds. Oracle: both are asked at each tick."""
    draw = random.Random(prefill * 100 + step * 10 + transfer)
    for num in (1, 2, 2, 3, 3, 4, 6, 9):
        requests = traffic(draw, num)
        seconds = in_seconds(requests, (prefill, step, transfer))
        right = right_times(on_two_devices(requests, prefill, step, transfer))
        expect(simulate_disaggregated, seconds[0], *seconds[1]).equals(right)


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
@pytest.mark.parametrize("start", [0.0, 1_000_000.0])
def test_caches_travel_side_by_side(expect, start):
    """5 prompts at once, each prefilled in 0.25 s, and transfers of 2 s: the caches come 0.25 s apart, as they left,
    and each joins the next step. Nobody is waited for, and when the clock began does not matter. With prompts of 0 s
    300 are there at once, and one step serves them all."""
    requests = [(start, 3)] * 5
    right = [[start + 0.25 * i + at for at in (0.25, 2.5, 2.75)] for i in range(5)]
    expect(simulate_disaggregated, requests, 0.25, 0.25, 2.0).equals(right, rel=1e-12)
    expect(simulate_disaggregated, tuple(requests), 0.25, 0.25, 2.0).equals(right, rel=1e-12)
    right = [[start, start + 6.0, start + 7.0]] * 300
    expect(simulate_disaggregated, [(start, 3)] * 300, 0.0, 1.0, 5.0).equals(right, rel=1e-12)


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
def test_phases_that_take_no_time(expect):
    """By hand: a prompt of 0 s, a step of 0 s, and nothing but the transfer."""
    expect(simulate_disaggregated, [(0.0, 2), (0.0, 3)], 0.0, 1.0, 0.5).equals([[0.0, 1.5], [0.0, 1.5, 2.5]])
    expect(simulate_disaggregated, [(0.0, 3), (0.0, 1)], 1.0, 0.0, 0.0).equals([[1.0, 1.0, 1.0], [2.0]])
    expect(simulate_disaggregated, [(0.5, 3), (1.0, 2)], 0.0, 0.0, 2.0).equals([[0.5, 2.5, 2.5], [1.0, 3.0]])


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
def test_nothing_lies_below_zero(expect):
    """Nor has any answer no token."""
    expect(simulate_disaggregated, [(0.0, 1)], 1.0, 1.0, 1.0).equals([[1.0]])
    good = ([(0.0, 1)], 1.0, 1.0, 1.0)
    for i, bad in ((0, [(0.0, 0)]), (0, [(-1.0, 1)]), (1, -1.0), (2, -1.0), (3, -1.0)):
        expect(simulate_disaggregated, *good[:i], bad, *good[i + 1 :]).raises(ValueError)


# ---- kv_transfer_seconds, judged with simulate_disaggregated


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
@pytest.mark.parametrize(
    "case, right",
    [
        ((4000, 131_072, 50e9, 1e-4), 0.01058576),
        ((4000, 131_072, 50e9), 0.01048576),
        ((1000, 131_072, 50e9, 1e-4), 0.00272144),
        ((0, 131_072, 50e9, 1e-4), 1e-4),
        ((1, 576.0, 1152.0, 0.25), 0.75),
        ((3, 8, 2.0, 5.0), 17.0),
        ((7, 0, 1e9, 0.0), 0.0),
        ((2, 1e3, 8e3, 0.125), 0.375),
        ((3, 0.5, 2.0, 0.25), 1.0),
    ],
    ids=["docstring", "no latency", "short", "latency alone", "one token", "slow", "nothing", "even", "half a byte"],
)
def test_a_cache_on_a_link(expect, case, right):
    """By hand: 4000 · 131,072 / 50e9 = 10.486 ms, and 0.1 ms before the first byte comes. 400 Gb/s are 50 GB/s."""
    expect(kv_transfer_seconds, *case).equals(right, rel=1e-9, abs=1e-15)


@pytest.mark.kata("level10.disaggregate.simulate_disaggregated")
def test_a_link_carries_something(expect):
    """Without bandwidth the cache would never be there."""
    expect(kv_transfer_seconds, 1, 1, 1).equals(1.0)
    for bandwidth in (0, 0.0, -1e9, float("nan")):
        expect(kv_transfer_seconds, 1, 1, bandwidth).raises(ValueError)
