"""Hiding latency: while one warp waits for memory, another one computes.

A warp is 32 threads, its lanes, that run one instruction together. A scheduler issues one instruction a cycle.
"""

from collections.abc import Hashable, Mapping, Sequence

from level04.roofline import Hardware


def warp_cycles(num_warps: int, iterations: int, compute: int, latency: int) -> int:
    """Return the cycles from the first instruction until the last one has been issued, that one's cycle included.

    Each warp runs `iterations` times: a load, then `compute` instructions that work on what was loaded. Every
    instruction needs the one before it: after a load in cycle t the warp can go on in cycle t + latency, after another
    instruction in t + 1, and so on into its next iteration. In every cycle, of those warps that can go on, the one with
    the lowest index issues one instruction; if none can, the cycle is lost.
    Example: 2 warps, one iteration, compute 2, latency 4: loads in cycles 0 and 1; warp 0 goes on in 4 and 5, warp 1
    could from 5 on, and does in 6 and 7: 8 cycles.
    ValueError: anything below 1.

    ●●● · about 14 lines
    """
    if min(num_warps, iterations, compute, latency) < 1:
        raise ValueError("warps, iterations, instructions and latency are at least 1 each")
    # solution:begin one cycle after the other: who can go on, and when can it go on after that?
    period = 1 + compute
    issued = [0] * num_warps  # instructions of each warp so far
    ready = [0] * num_warps  # the cycle from which on it can go on
    cycle = 0
    while min(issued) < iterations * period:
        for warp in range(num_warps):
            if issued[warp] < iterations * period and ready[warp] <= cycle:
                is_load = issued[warp] % period == 0
                ready[warp] = cycle + (latency if is_load else 1)
                issued[warp] += 1
                break  # subtle: one instruction a cycle, however many warps are ready
        cycle += 1
    return cycle
    # solution:end


def warps_to_hide(compute: int, latency: int) -> int:
    """Return the smallest number of warps, each as in warp_cycles, that can leave no cycle empty in the long run.

    The scheduler may be the best there is: one that lets a warp go on for as long as it can.
    Example: compute 3, latency 10: a warp issues 4 instructions every 13 cycles -> 4. ValueError: anything below 1.

    ● · about 1 line · part of warp_cycles
    """
    if min(compute, latency) < 1:
        raise ValueError(f"instructions and latency are at least 1, not {compute} and {latency}")
    # solution:begin how often does a warp come back, and how many cycles does it fill then?
    return -(-(latency + compute) // (1 + compute))
    # solution:end


def bytes_in_flight(hardware: Hardware, latency_seconds: float) -> float:
    """Return the bytes that must have been asked for, and not have come yet, at any time, to use the whole bandwidth.

    latency_seconds  from asking to getting: there and back

    Example: 10 bytes/s and 3 seconds -> 30. Little's law. ValueError: a latency below 0.

    ● · about 1 line · part of warp_cycles
    """
    if latency_seconds < 0:
        raise ValueError(f"an answer comes after the question: not {latency_seconds} seconds")
    # solution:begin what arrives while you wait?
    return hardware.bandwidth * latency_seconds
    # solution:end


def divergence_cycles(branches: Sequence[Hashable], cycles: Mapping[Hashable, int]) -> int:
    """Return the cycles that a warp takes for a branch in the code.

    branches  of each lane that takes part, which branch it takes; may be empty
    cycles    of each branch, how long it takes

    Lanes of one branch run together, the others wait meanwhile: the warp runs one branch after the other, and none
    that nobody takes. Example: lanes a a a b, a takes 10 and b 100 -> 110.

    ● · about 1 line · part of warp_cycles
    """
    # solution:begin which branches are run at all, and how often?
    return sum(cycles[branch] for branch in set(branches))
    # solution:end
