"""Judges warps.py by a simulation that jumps from event to event, and by counting."""

from itertools import count

import pytest

from level04.roofline import H100, Hardware
from level13.warps import bytes_in_flight, divergence_cycles, warp_cycles, warps_to_hide


def by_events(num_warps, iterations, compute, latency):
    """Oracle: each warp is a list of how long its instructions take; idle stretches are skipped in one jump."""
    todo = [[latency, *[1] * compute] * iterations for _ in range(num_warps)]
    ready, now = [0] * num_warps, 0
    while any(todo):
        now = max(now, min(at for at, rest in zip(ready, todo) if rest))
        warp = next(w for w in range(num_warps) if todo[w] and ready[w] <= now)
        ready[warp] = now + todo[warp].pop(0)
        now += 1
    return now


# warps, iterations, compute, latency
CASES = [
    (2, 1, 2, 4), (1, 1, 1, 1), (1, 1, 3, 10), (1, 3, 3, 10), (2, 2, 3, 10), (4, 2, 3, 10), (8, 4, 3, 10),
    (3, 2, 1, 2), (5, 1, 1, 3), (3, 3, 2, 5), (3, 3, 4, 5), (2, 3, 5, 4), (4, 1, 2, 1), (7, 3, 2, 9), (6, 2, 1, 30),
    (2, 4, 1, 5),
]  # fmt: skip


@pytest.mark.kata("level13.warps.warp_cycles")
@pytest.mark.parametrize("warps, iterations, compute, latency", CASES)
def test_cycles_of_a_scheduler(expect, warps, iterations, compute, latency):
    """Oracle: a simulation from event to event. With few warps the latency is what you pay, with many the work."""
    right = by_events(warps, iterations, compute, latency)
    expect(warp_cycles, warps, iterations, compute, latency).equals(right)


@pytest.mark.kata("level13.warps.warp_cycles")
def test_one_warp_waits_for_every_load(expect):
    """Nobody else is there: 6 loads of 50 cycles, each with 4 instructions after it, one behind the other."""
    expect(warp_cycles, 1, 6, 4, 50).equals(6 * (50 + 4))


@pytest.mark.kata("level13.warps.warp_cycles")
def test_enough_warps_leave_no_cycle_empty(expect):
    """Loads of 12 warps take 12 cycles, and by then the first is back: every cycle issues one of 12 · 1 · 8."""
    expect(warp_cycles, 12, 1, 7, 12).equals(12 * 8)


# ---- warps_to_hide


def some_cycle_is_empty(num_warps, compute, latency):
    """Does the scheduler that goes on with the same warp as long as it can, then with the one that waits for longest,
    lose a cycle in the long run?"""
    ready, issued, last, since = [0] * num_warps, [0] * num_warps, 0, [-1] * num_warps
    end = 8 * (latency + compute)
    for now in range(end):
        able = [w for w in range(num_warps) if ready[w] <= now]
        if not able:
            if now > end // 2:
                return True
            continue
        last = last if last in able else min(able, key=lambda w: since[w])
        ready[last] = now + (latency if issued[last] % (1 + compute) == 0 else 1)
        issued[last] += 1
        since[last] = now
    return False


@pytest.mark.kata("level13.warps.warp_cycles")
@pytest.mark.parametrize("compute, latency", [(3, 10), (1, 1), (4, 6), (1, 2), (2, 9), (1, 20), (7, 3), (5, 26)])
def test_the_smallest_number_of_warps_that_fills_every_cycle(expect, compute, latency):
    """Oracle: warps are added, one by one, until a scheduler loses no cycle. It is what registers are shared among."""
    right = next(n for n in count(1) if not some_cycle_is_empty(n, compute, latency))
    expect(warps_to_hide, compute, latency).equals(right)


@pytest.mark.kata("level13.warps.warp_cycles")
def test_six_hundred_cycles_behind_twenty_instructions(expect):
    """A warp issues 21 instructions every 620 cycles: 29 warps fill 609 of them, 30 warps all."""
    expect(warps_to_hide, 20, 600).equals(30)


# ---- bytes_in_flight


@pytest.mark.kata("level13.warps.warp_cycles")
@pytest.mark.parametrize("bandwidth, seconds", [(10.0, 3.0), (2.5, 3.0), (4e11, 0.5e-6), (819e9, 0)])
def test_bytes_on_their_way(expect, bandwidth, seconds):
    """Little's law: what arrives in the time of one answer has been asked for before it. Less than that in flight, and
    the memory idles, however many warps are ready to compute."""
    hardware = Hardware("x", 7e13, bandwidth, 16.0)
    expect(bytes_in_flight, hardware, seconds).equals(bandwidth * seconds, rel=1e-9, abs=0)


@pytest.mark.kata("level13.warps.warp_cycles")
def test_an_h100_has_two_megabytes_in_flight(expect):
    """3.35e12 bytes/s · 600e-9 s = 2.01e6 bytes, 15,227 for each of 132 processors."""
    expect(bytes_in_flight, H100, 600e-9).equals(2.01e6, rel=1e-9, abs=0)


# ---- divergence_cycles


@pytest.mark.kata("level13.warps.warp_cycles")
@pytest.mark.parametrize(
    "branches, right",
    [
        (["a"] * 31 + ["b"], 110),  # one lane makes all others wait
        (["a"] * 32, 10),  # nobody takes b: it is not run
        (["b", "a"] * 16, 110),
        (["c", "a", "c", "b", "c"], 117),
        ([], 0),
        (["c"], 7),
    ],
)  # fmt: skip
def test_branches_run_one_after_the_other(expect, branches, right):
    """a takes 10 cycles, b 100, c 7 and d 1000: each branch that somebody takes is run once, for all lanes of it."""
    expect(divergence_cycles, branches, {"a": 10, "b": 100, "c": 7, "d": 1000}).equals(right)


@pytest.mark.kata("level13.warps.warp_cycles")
def test_branches_of_equal_length_are_two_branches(expect):
    """Two branches of 5 cycles take 10: it is the code that differs, not the time."""
    expect(divergence_cycles, (True, False, True), {True: 5, False: 5}).equals(10)
