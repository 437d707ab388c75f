"""Right programs, written another way, for level13.warps. `alternative` is given when this is read."""

import math


def _checked(*numbers):
    if min(numbers) < 1:
        raise ValueError("anything below 1")


def _warp_by_warp(num_warps, iterations, compute, latency):
    """A warp never waits for one of a higher index: each takes the first cycles that those before it have left."""
    _checked(num_warps, iterations, compute, latency)
    taken = set()
    for _ in range(num_warps):
        at = 0
        for wait in [latency, *[1] * compute] * iterations:
            while at in taken:
                at += 1
            taken.add(at)
            at += wait
    return max(taken) + 1


def _events(num_warps, iterations, compute, latency):
    """Two heaps: who can go on, by index, and who waits, by the cycle; it jumps over lost cycles."""
    from heapq import heapify, heappop, heappush

    _checked(num_warps, iterations, compute, latency)
    able, waiting, left = list(range(num_warps)), [], [iterations * (1 + compute)] * num_warps
    heapify(able)
    cycle = 0
    while able or waiting:
        cycle = cycle if able else max(cycle, waiting[0][0])
        while waiting and waiting[0][0] <= cycle:
            heappush(able, heappop(waiting)[1])
        warp = heappop(able)
        is_load = left[warp] % (1 + compute) == 0
        left[warp] -= 1
        cycle += 1
        if left[warp]:
            heappush(waiting, (cycle - 1 + (latency if is_load else 1), warp))
    return cycle


def _countdowns(num_warps, iterations, compute, latency):
    """Each warp is a generator of how long to wait, and a countdown that every cycle makes smaller."""
    _checked(num_warps, iterations, compute, latency)

    def program():
        for _ in range(iterations):
            yield latency
            yield from [1] * compute

    warps = {warp: [0, list(program())] for warp in range(num_warps)}
    cycles = 0
    while warps:
        cycles += 1
        chosen = next((warp for warp, (wait, _) in warps.items() if wait == 0), None)
        if chosen is not None:
            warps[chosen][0] = warps[chosen][1].pop(0)
            if not warps[chosen][1]:
                del warps[chosen]
        for state in warps.values():
            state[0] = max(0, state[0] - 1)
    return cycles


for _program in (_warp_by_warp, _events, _countdowns):
    alternative("level13.warps.warp_cycles", _program.__name__[1:], program=_program)

alternative(  # all warps are alike: any fixed order comes to the same
    "level13.warps.warp_cycles",
    "from_the_last_warp",
    change=("for warp in range(num_warps):", "for warp in reversed(range(num_warps)):"),
)
alternative(  # the lowest index is never behind another one
    "level13.warps.warp_cycles",
    "furthest_first",
    change=("for warp in range(num_warps):", "for warp in sorted(range(num_warps), key=lambda w: -issued[w]):"),
)


def _others_fill_the_gap(compute, latency):
    """One warp, and those that fill its latency - 1 empty cycles."""
    _checked(compute, latency)
    return 1 + math.ceil((latency - 1) / (1 + compute))


def _one_more(compute, latency):
    _checked(compute, latency)
    warps = 1
    while warps * (1 + compute) < latency + compute:
        warps += 1
    return warps


def _time_by_time(branches, cycles):
    seen, total = [], 0
    for branch in branches:
        if branch not in seen:
            seen.append(branch)
            total += cycles[branch]
    return total


alternative("level13.warps.warp_cycles", "gap", program=_others_fill_the_gap, part="warps_to_hide")
alternative("level13.warps.warp_cycles", "one_more", program=_one_more, part="warps_to_hide")
alternative("level13.warps.warp_cycles", "branch_by_branch", program=_time_by_time, part="divergence_cycles")
alternative(
    "level13.warps.warp_cycles",
    "branches_of_the_code",
    program=lambda branches, cycles: sum(time for branch, time in cycles.items() if branch in branches),
    part="divergence_cycles",
)
