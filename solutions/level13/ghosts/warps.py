"""Known-wrong programs of level13.warps. `ghost` is given when this is read."""

_PERIOD = "period = 1 + compute"
_LOAD = "is_load = issued[warp] % period == 0"
_READY = "ready[warp] = cycle + (latency if is_load else 1)"
_ORDER = "for warp in range(num_warps):"
_BREAK = "break  # subtle: one instruction a cycle, however many warps are ready"
_RETURN = "return cycle\n"
_HIDE = "return -(-(latency + compute) // (1 + compute))"
_FLIGHT = "return hardware.bandwidth * latency_seconds"
_BRANCH = "return sum(cycles[branch] for branch in set(branches))"


def _warps(name, sentence, *pairs):
    ghost("level13.warps.warp_cycles", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


_warps(
    "one_warp_after_the_other",
    "While one warp waits for memory another one issues: that is what the scheduler buys. Yours runs them one by one.",
    _RETURN,
    "return num_warps * iterations * (latency + compute)\n",
)
_warps(
    "latency_always_hidden",
    "After a load a warp waits `latency` cycles. Where no warp can go on the cycle is lost, and counts all the same.",
    _RETURN,
    "return num_warps * iterations * (1 + compute)\n",
)
_warps(
    "the_larger_bound",
    "Work and latency are both lower bounds; the larger of them forgets that warps begin, and end, one after another.",
    _RETURN,
    "return max(num_warps * iterations * (1 + compute), iterations * (latency + compute))\n",
)
_warps(
    "latency_after_the_load",
    "latency counts from the load's own cycle: a load in cycle t lets the warp go on in t + latency, not one later.",
    _READY,
    "ready[warp] = cycle + (1 + latency if is_load else 1)",
)
_warps(
    "every_instruction_waits",
    "The load alone takes `latency`; after another instruction the warp can go on in the next cycle.",
    _READY,
    "ready[warp] = cycle + latency",
)
_warps(
    "loads_at_the_end",
    "An iteration begins with its load, and the others work on it: yours computes first, and nobody waits for the last.",
    _LOAD,
    "is_load = issued[warp] % period == compute",
)
_warps(
    "one_load_in_all",
    "Each iteration has a load of its own; yours has one, in the first.",
    _LOAD,
    "is_load = issued[warp] == 0",
)
_warps(
    "load_among_the_compute",
    "An iteration is a load and then `compute` instructions, 1 + compute in all; yours counts the load among them.",
    _PERIOD,
    "period = compute",
)
_warps(
    "all_ready_warps_issue",
    "A scheduler issues one instruction a cycle, however many warps can go on.",
    _BREAK,
    "pass",
)
_warps(
    "takes_turns",
    "Of those that can go on the warp with the lowest index issues, every time; yours takes turns.",
    _ORDER,
    "for warp in sorted(range(num_warps), key=lambda w: (w - sum(issued)) % num_warps):",
)
_warps(
    "longest_waiting_first",
    "Of those that can go on the warp with the lowest index issues, not the one that could go on for longest.",
    _ORDER,
    "for warp in sorted(range(num_warps), key=lambda w: ready[w]):",
)
_warps(
    "stays_with_its_warp",
    "A warp with a lower index comes first as soon as it can go on; yours stays with the warp that issued last.",
    _ORDER,
    "for warp in sorted(range(num_warps), key=lambda w: (ready[w] != cycle or issued[w] % period == 0, w)):",
)
_warps(
    "stays_for_the_next_load_too",
    "A warp with a lower index comes first as soon as it can go on; yours lets a warp issue for as long as it can.",
    _ORDER,
    "for warp in sorted(range(num_warps), key=lambda w: (not issued[w] or ready[w] != cycle, w)):",
)
_warps(
    "rounds_together",
    "No warp waits for another: one that is through begins its next iteration. Yours lets all of them begin together.",
    "if issued[warp] < iterations * period and ready[warp] <= cycle:",
    "if issued[warp] < min((min(issued) // period + 1), iterations) * period and ready[warp] <= cycle:",
)
_warps(
    "cycles_count_from_zero",
    "The last one's cycle is included: it is how many cycles, not the last one's number.",
    _RETURN,
    "return cycle - 1\n",
)
# ---- parts
_warps(
    "rule_of_thumb",
    "latency / compute + 1 is a rule of thumb: the load is an instruction as well, and fills a cycle.",
    _HIDE,
    "return -(-latency // compute) + 1",
)
_warps(
    "latency_over_instructions",
    "A warp comes back after latency + compute cycles, and a part of a warp is one warp more: yours leaves compute out, or rounds down.",
    _HIDE,
    "return -(-latency // (1 + compute))",
)
_warps(
    "one_warp_too_many",
    "A warp comes back after latency + compute cycles. Where that comes out even no further warp is needed: yours has one more.",
    _HIDE,
    "return (latency + compute) // (1 + compute) + 1",
)
_warps(
    "bandwidth_over_latency",
    "Little's law: the rate times the time of waiting, not divided by it.",
    _FLIGHT,
    "return hardware.bandwidth / latency_seconds if latency_seconds else 0.0",
)
_warps(
    "there_and_back_twice",
    "latency_seconds is there and back already: yours counts the way twice.",
    _FLIGHT,
    "return 2 * hardware.bandwidth * latency_seconds",
)
_warps(
    "flops_in_flight",
    "Bytes come at hardware.bandwidth, not at the FLOP/s of its arithmetic.",
    _FLIGHT,
    "return hardware.peak_flops * latency_seconds",
)
_warps(
    "longest_branch",
    "Both branches run, one after the other, while the lanes of the other one wait: add them up.",
    _BRANCH,
    "return max((cycles[branch] for branch in branches), default=0)",
)
_warps(
    "a_run_for_each_lane",
    "Lanes of one branch run together: its cycles count once, not for each of them.",
    _BRANCH,
    "return sum(cycles[branch] for branch in branches)",
)
_warps(
    "mean_of_the_lanes",
    "One lane on the long branch makes all of them wait: there is no mean.",
    _BRANCH,
    "return sum(cycles[branch] for branch in branches) / len(branches) if branches else 0",
)
_warps(
    "branches_nobody_takes",
    "A branch that no lane takes is jumped over, and costs nothing.",
    _BRANCH,
    "return sum(cycles.values()) if branches else 0",
)
_warps(
    "a_run_for_each_stretch",
    "Lanes of a branch need not be neighbours: they run together, wherever in the warp they are.",
    _BRANCH,
    "return sum(cycles[b] for i, b in enumerate(branches) if i == 0 or branches[i - 1] != b)",
)
_warps(
    "equal_times_merged",
    "Two branches that take equally long are still two: add up over branches, not over different times.",
    _BRANCH,
    "return sum({cycles[branch] for branch in branches})",
)
