"""Right programs, written another way, for level05.scheduler. `alternative` is given when this is read."""

import heapq
from collections import defaultdict, deque
from fractions import Fraction
from itertools import accumulate, chain, groupby, zip_longest
from operator import attrgetter


def _checked(*numbers):
    if min(numbers) < 1:
        raise ValueError("at least 1")


def _in_line(requests):
    return sorted(requests, key=attrgetter("arrival", "id"))


# ---- static_trace


def _static_by_begins(requests, max_batch):
    """From batch to batch, on a clock: who is in it, when it begins, when it ends; the trace is drawn at the end."""
    _checked(max_batch)
    line, clock, emits = deque(_in_line(requests)), 0, defaultdict(list)
    while line:
        begin = end = max(clock, line[0].arrival)
        for _ in range(max_batch):
            if not line or line[0].arrival > begin:
                break
            request = line.popleft()
            for step in range(begin, begin + request.output_len):
                emits[step].append(request.id)
            end = max(end, begin + request.output_len)
        clock = end
    return [emits[step] for step in range(clock)]


def _static_step_by_step(requests, max_batch):
    """One step after the other; a batch is a dict of the tokens to come, and is left when all are at 0."""
    _checked(max_batch)
    waiting, batch, trace = list(requests), {}, []
    while waiting or any(batch.values()):
        if not any(batch.values()):
            there = _in_line(request for request in waiting if request.arrival <= len(trace))[:max_batch]
            batch = {request.id: request.output_len for request in there}
            waiting = [request for request in waiting if request.id not in batch]
        trace.append([id for id, left in batch.items() if left])
        batch = {id: max(0, left - 1) for id, left in batch.items()}
    return trace


def _static_by_recursion(requests, max_batch, now=0):
    """An idle pause, a batch side by side, and the rest after it."""
    _checked(max_batch)
    line = _in_line(requests)
    if not line:
        return []
    if line[0].arrival > now:
        pause = line[0].arrival - now
        return [[] for _ in range(pause)] + _static_by_recursion(line, max_batch, now + pause)
    here = [request for request in line[:max_batch] if request.arrival <= now]
    rows = [[request.id] * request.output_len for request in here]
    steps = [[id for id in column if id is not None] for column in zip_longest(*rows)]
    return steps + _static_by_recursion(line[len(here) :], max_batch, now + len(steps))


def _static_in_numpy(requests, max_batch):
    """A table of slots by steps for each batch; numpy's own integers come back."""
    import numpy as np

    _checked(max_batch)
    line, trace = _in_line(requests), []
    while line:
        trace += [[]] * (line[0].arrival - len(trace))
        n = sum(request.arrival <= len(trace) for request in line[:max_batch])
        lengths, ids = (np.array([getattr(r, name) for r in line[:n]]) for name in ("output_len", "id"))
        alive = np.arange(lengths.max())[:, None] < lengths
        trace += [list(ids[row]) for row in alive]
        line = line[n:]
    return trace


# ---- continuous_trace


def _continuous_by_slots(requests, max_batch):
    """Slots and the steps at which they are free, on a heap; who runs when, and then the trace."""
    _checked(max_batch)
    free, spans = [0] * max_batch, []
    for request in _in_line(requests):
        begin = max(request.arrival, free[0])
        heapq.heapreplace(free, begin + request.output_len)
        spans.append((begin, begin + request.output_len, request.id))
    end = max((end for _, end, _ in spans), default=0)
    return [[id for begin, stop, id in spans if begin <= step < stop] for step in range(end)]


def _continuous_with_deques(requests, max_batch):
    """Two queues; who has tokens left goes back to the end, once around for each step."""
    _checked(max_batch)
    coming, running, trace = deque(_in_line(requests)), deque(), []
    while coming or running:
        while coming and len(running) < max_batch and coming[0].arrival <= len(trace):
            running.append((coming[0].id, coming.popleft().output_len))
        now = []
        for _ in range(len(running)):
            id, left = running.popleft()
            now.append(id)
            if left > 1:
                running.append((id, left - 1))
        trace.append(now)
    return trace


def _continuous_with_objects(requests, max_batch):
    """A small class for a slot; the clock goes on even when nobody is there."""

    class Slot:
        def __init__(self, request):
            self.id, self.left = request.id, request.output_len

        def emit(self):
            self.left -= 1
            return self.id

    _checked(max_batch)
    waiting, slots, trace, clock = _in_line(requests), [], [], 0
    while True:
        slots = [slot for slot in slots if slot.left]
        arrived = [request for request in waiting if request.arrival <= clock]
        admitted = arrived[: max_batch - len(slots)]
        slots += map(Slot, admitted)
        waiting = waiting[len(admitted) :]
        if not slots and not waiting:
            return trace
        trace.append([slot.emit() for slot in slots])
        clock += 1


def _continuous_by_generator(requests, max_batch):
    """Steps are yielded; ids stand in the order of the line, which is that of admission."""

    def steps():
        line, left, admitted, clock = _in_line(requests), {}, 0, 0
        while admitted < len(line) or left:
            while admitted < len(line) and line[admitted].arrival <= clock and len(left) < max_batch:
                left[line[admitted].id] = line[admitted].output_len
                admitted += 1
            yield [*left]
            for id in [*left]:
                left[id] -= 1
                if left[id] == 0:
                    del left[id]
            clock += 1

    _checked(max_batch)
    return list(steps())


def _used_in_fractions(trace, max_batch):
    """Step by step, exactly, and the mean at the end."""
    if len(trace) == 0:
        raise ValueError("no steps")
    return float(sum(Fraction(len(step), max_batch) for step in trace) / len(trace))


def _used_less_waste(trace, max_batch):
    """What was not wasted, in numpy."""
    import numpy as np

    if not len(trace):
        raise ValueError("no steps")
    empty = np.array([max_batch - len(list(step)) for step in trace])
    return 1 - empty.mean() / max_batch


# ---- plan_step


def _plan_token_by_token(running, waiting, token_budget, max_seqs):
    """A heap of (class, place); one token at a time, and the plan is what was counted."""
    _checked(token_budget, max_seqs)
    heap = [(0 if sequence.decoding else 1, place, sequence) for place, sequence in enumerate(running)]
    heap += [(2, place, sequence) for place, sequence in enumerate(waiting) if len(running) + place < max_seqs]
    heapq.heapify(heap)
    counts = {}
    while heap and sum(counts.values()) < token_budget:
        _, _, sequence = heap[0]
        counts[sequence.id] = counts.get(sequence.id, 0) + 1
        if counts[sequence.id] == sequence.pending:
            heapq.heappop(heap)
    return list(counts.items())


def _plan_in_three_loops(running, waiting, token_budget, max_seqs):
    """As one would write it down first, on copies of the lists; without the given properties."""
    _checked(token_budget, max_seqs)
    plan, seats = [], max_seqs - len(running)
    done = set()
    for sequence in running:
        missing = len(sequence.prompt) + len(sequence.output) - sequence.computed
        if token_budget > 0 and len(sequence.output) > 0 and missing == 1:
            plan += [(sequence.id, 1)]
            token_budget -= 1
        if len(sequence.output) > 0 and missing == 1:
            done.add(sequence.id)
    for sequence in running:
        if sequence.id not in done and token_budget > 0:
            chunk = min(len(sequence.tokens[sequence.computed :]), token_budget)
            plan += [(sequence.id, chunk)]
            token_budget -= chunk
    queue = deque(waiting)
    while queue and seats > 0 and token_budget > 0:
        sequence = queue.popleft()
        chunk = sequence.pending if sequence.pending < token_budget else token_budget
        plan.append((sequence.id, chunk))
        token_budget, seats = token_budget - chunk, seats - 1
    return plan


def _plan_by_sums(running, waiting, token_budget, max_seqs):
    """Running totals, capped at the budget; each gets the difference of two of them."""
    _checked(token_budget, max_seqs)
    line = sorted(running, key=lambda sequence: not sequence.decoding)
    line += list(waiting)[: max_seqs - len(running)] if len(running) < max_seqs else []
    totals = [min(total, token_budget) for total in accumulate((s.pending for s in line), initial=0)]
    return [(s.id, after - before) for s, before, after in zip(line, totals, totals[1:]) if after > before]


def _plan_by_recursion(running, waiting, token_budget, max_seqs):
    """The first in line, and the plan of the others with what is left."""
    _checked(token_budget, max_seqs)
    kinds = groupby(sorted(running, key=attrgetter("decoding"), reverse=True), key=attrgetter("decoding"))
    room = max(max_seqs - len(running), 0)
    line = tuple(chain(*(tuple(group) for _, group in kinds), waiting[:room]))

    def planned(line, left):
        if not line or left == 0:
            return []
        first, *rest = line
        tokens = 1 if first.decoding else min(first.pending, left)
        return [(first.id, tokens), *planned(rest, left - tokens)]

    return planned(line, token_budget)


def _plan_by_generator(running, waiting, token_budget, max_seqs):
    """A generator of those who may run, which counts seats; the loop counts tokens."""
    _checked(token_budget, max_seqs)

    def candidates():
        yield from filter(lambda sequence: sequence.decoding, running)
        yield from (sequence for sequence in running if not sequence.decoding)
        seated = len(running)
        for sequence in waiting:
            if seated >= max_seqs:
                return
            seated += 1
            yield sequence

    plan = []
    for sequence in candidates():
        used = sum(tokens for _, tokens in plan)
        if used >= token_budget:
            return plan
        plan.append((sequence.id, min(token_budget - used, sequence.pending)))
    return plan


for _name, _program in (
    ("by_begins", _static_by_begins),
    ("step_by_step", _static_step_by_step),
    ("by_recursion", _static_by_recursion),
    ("in_numpy", _static_in_numpy),
):
    alternative("level05.scheduler.static_trace", _name, program=_program)
for _name, _program in (
    ("by_slots", _continuous_by_slots),
    ("with_deques", _continuous_with_deques),
    ("with_objects", _continuous_with_objects),
    ("by_generator", _continuous_by_generator),
):
    alternative("level05.scheduler.continuous_trace", _name, program=_program)
for _name, _program in (("used_in_fractions", _used_in_fractions), ("used_less_waste", _used_less_waste)):
    alternative("level05.scheduler.continuous_trace", _name, program=_program, part="utilization")
for _name, _program in (
    ("token_by_token", _plan_token_by_token),
    ("in_three_loops", _plan_in_three_loops),
    ("by_sums", _plan_by_sums),
    ("by_recursion", _plan_by_recursion),
    ("by_generator", _plan_by_generator),
):
    alternative("level05.scheduler.plan_step", _name, program=_program)
