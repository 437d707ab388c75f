"""Judges scheduler.py by traces drawn from starts and ends, by plans that are a queue of single tokens, and by hand.

Small cases are tried in all combinations, large ones at random from seeds of their own.
"""

import copy
import heapq
import random
from collections import Counter
from dataclasses import asdict
from itertools import islice, product
from math import ceil

import pytest

from level05.scheduler import Arrival, Running, continuous_trace, plan_step, static_trace, utilization

EXACT = {"rel": 1e-9, "abs": 0.0}


def arrivals(*pairs):
    """Requests 0, 1, …, of (arrival, output_len)."""
    return [Arrival(i, *pair) for i, pair in enumerate(pairs)]


def at_once(*output_lens):
    return arrivals(*((0, n) for n in output_lens))


MIXED = at_once(40, 8, 8, 8, 24, 8, 8, 8)  # the lesson's
OUT_OF_ORDER = [Arrival(7, 1, 1), Arrival(5, 0, 2), Arrival(3, 1, 2), Arrival(9, 0, 1), Arrival(1, 4, 1)]


def drawn(starts):
    """A trace from (request, first step), in the order of admission: for every step, who has begun and not ended."""
    end = max((start + request.output_len for request, start in starts), default=0)
    return [
        [request.id for request, start in starts if start <= step < start + request.output_len] for step in range(end)
    ]


def in_line(requests):
    return sorted(requests, key=lambda request: (request.arrival, request.id))


def static_oracle(requests, max_batch):
    """From batch to batch: it begins when the machine is free and somebody is there, and lasts until all are done."""
    line, starts, free = in_line(requests), [], 0
    while line:
        begin = max(free, line[0].arrival)
        batch = [request for request in line[:max_batch] if request.arrival <= begin]
        starts += [(request, begin) for request in batch]
        free = begin + max(request.output_len for request in batch)
        del line[: len(batch)]
    return drawn(starts)


def continuous_oracle(requests, max_batch):
    """From request to request: it begins when it has arrived and the slot that is free first is free."""
    free, starts = [0] * max_batch, []
    for request in in_line(requests):
        begin = max(request.arrival, heapq.heappop(free))
        starts.append((request, begin))
        heapq.heappush(free, begin + request.output_len)
    return drawn(starts)


def crowd(seed):
    """Some requests out of order, their ids too; now and then a pause long enough for the machine to be idle."""
    draw = random.Random(seed)
    ids, now, requests = draw.sample(range(100), draw.randint(4, 14)), 0, []
    for id in ids:
        now += draw.choice([0, 0, 1, 2, 9])
        requests.append(Arrival(id, now, draw.choice([1, 1, 2, 3, 5, 8])))
    draw.shuffle(requests)
    return requests, draw.randint(1, 4)


def first_wrong(program, oracle, cases):
    """{} when the program is right in all cases; else the first case in which it is not, and both results."""
    for case in cases():
        yours, right = program(*case), oracle(*case)
        if yours != right:
            return {"yours": yours, "right": right, "case": case}
    return {}


def small_crowds():
    """Up to three requests in all combinations of some arrivals and lengths, ids not in the order of the list."""
    for n, times, lengths in ((1, (0, 1, 2), (1, 2, 3)), (2, (0, 1, 2, 3), (1, 2, 3)), (3, (0, 1, 3), (1, 3))):
        for pairs in product(product(times, lengths), repeat=n):
            requests = [Arrival(id, *pair) for id, pair in zip((4, 2, 3), pairs)]
            yield from ((requests, max_batch) for max_batch in (1, 2, 3))


# ---- static_trace


@pytest.mark.kata("level05.scheduler.static_trace")
@pytest.mark.parametrize(
    "requests, max_batch, right",
    [
        (at_once(3, 1, 1), 2, [[0, 1], [0], [0], [2]]),
        (at_once(1, 3, 1), 2, [[0, 1], [1], [1], [2]]),
        (at_once(1, 1, 2, 1, 1), 2, [[0, 1], [2, 3], [2], [4]]),
        (at_once(2, 1, 1), 1, [[0], [0], [1], [2]]),
        (at_once(*[1] * 6), 1, [[0], [1], [2], [3], [4], [5]]),
        (at_once(*[1] * 6), 5, [[0, 1, 2, 3, 4], [5]]),
        (at_once(1, 2), 8, [[0, 1], [1]]),
        (arrivals((0, 2), (1, 1)), 2, [[0], [0], [1]]),
        (arrivals((0, 1), (1, 1)), 2, [[0], [1]]),
        (arrivals((0, 3), (1, 1), (2, 2)), 2, [[0], [0], [0], [1, 2], [2]]),
        (arrivals((2, 1)), 4, [[], [], [0]]),
        (arrivals((0, 2), (4, 1)), 4, [[0], [0], [], [], [1]]),
        ([], 3, []),
    ],
    ids=[
        "docstring",
        "short first",
        "three batches",
        "one slot",
        "one slot and a queue",
        "one too many",
        "room to spare",
        "too late to join",
        "in time for the next",
        "two that waited",
        "idle at first",
        "idle between",
        "nobody",
    ],
)
def test_a_closed_batch_by_hand(expect, requests, max_batch, right):
    """This is what a loop around `generate` does with a list of prompts: whoever is done waits for the longest, and
    whoever comes waits for all. Nor does it wait for a batch to fill: that would be another policy."""
    expect(static_trace, requests, max_batch).equals(right)


@pytest.mark.kata("level05.scheduler.static_trace")
def test_a_batch_is_taken_by_arrival_then_id(expect):
    """The list may be in any order. Step 0 takes 5 and 9; 3 and 7 have both come at 1, so the smaller id stands first;
    1 comes last although its id is the smallest."""
    expect(static_trace, OUT_OF_ORDER, 2).equals([[5, 9], [5], [3, 7], [3], [1]])
    expect(static_trace, OUT_OF_ORDER, 1).equals([[5], [5], [9], [3], [3], [7], [1]])
    expect(static_trace, OUT_OF_ORDER[::-1], 3).equals([[5, 9], [5], [3, 7], [3], [1]])


@pytest.mark.kata("level05.scheduler.static_trace")
@pytest.mark.parametrize(
    "output_lens, max_batch, steps",
    [
        ((8, 2, 2, 2), 2, 8 + 2),
        ((40, 8, 8, 8, 24, 8, 8, 8), 4, 40 + 24),
        ((1, 2, 3, 4, 5), 3, 3 + 5),
        ((5,) * 6, 2, 15),
    ],
    ids=str,
)
def test_each_batch_takes_as_long_as_its_longest(expect, output_lens, max_batch, steps):
    """With everybody there at once the steps are the sum of the batches' maxima: one long answer holds up all slots."""
    right = static_oracle(at_once(*output_lens), max_batch)
    assert len(right) == steps
    expect(static_trace, at_once(*output_lens), max_batch).equals(right)


@pytest.mark.kata("level05.scheduler.static_trace")
def test_every_small_crowd_in_closed_batches(expect):
    """Oracle: batch by batch, begins and ends. All combinations of up to three requests."""
    expect(first_wrong, static_trace, static_oracle, small_crowds).equals({})


@pytest.mark.kata("level05.scheduler.static_trace")
@pytest.mark.parametrize("seed", range(20))
def test_a_crowd_in_closed_batches(expect, seed):
    """Oracle: as above. Every request emits its tokens in consecutive steps, and never more than max_batch at once."""
    requests, max_batch = crowd(seed)
    expect(static_trace, requests, max_batch).equals(static_oracle(requests, max_batch))


@pytest.mark.kata("level05.scheduler.static_trace")
@pytest.mark.parametrize("max_batch", [0, -2])
def test_a_batch_without_room_is_refused(expect, max_batch):
    """It would wait for ever."""
    expect(static_trace, at_once(2), 1).equals([[0], [0]])
    expect(static_trace, at_once(2), max_batch).raises(ValueError)


# ---- continuous_trace


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize(
    "requests, max_batch, right",
    [
        (at_once(3, 1, 1), 2, [[0, 1], [0, 2], [0]]),
        (at_once(1, 3, 1), 2, [[0, 1], [1, 2], [1]]),
        (at_once(1, 1, 2, 1), 2, [[0, 1], [2, 3], [2]]),
        (at_once(3, 1, 1), 1, [[0], [0], [0], [1], [2]]),
        (at_once(*[1] * 6), 1, [[0], [1], [2], [3], [4], [5]]),
        (at_once(*[1] * 6), 5, [[0, 1, 2, 3, 4], [5]]),
        (at_once(2, 1), 8, [[0, 1], [0]]),
        (arrivals((0, 2), (1, 1)), 2, [[0], [0, 1]]),
        (arrivals((0, 2), (1, 2), (1, 1), (2, 1)), 2, [[0], [0, 1], [1, 2], [3]]),
        (arrivals((2, 1)), 4, [[], [], [0]]),
        (arrivals((0, 2), (4, 1)), 4, [[0], [0], [], [], [1]]),
        ([], 3, []),
    ],
    ids=[
        "docstring",
        "order of admission",
        "two at a time",
        "one slot",
        "one slot and a queue",
        "one too many",
        "room to spare",
        "joins",
        "a full machine",
        "idle at first",
        "idle between",
        "nobody",
    ],
)
def test_free_slots_are_refilled_by_hand(expect, requests, max_batch, right):
    """Iteration-level scheduling: the batch is made anew for every step, so a slot is free one step after its request
    has ended, and a request need not wait for the others to end."""
    expect(continuous_trace, requests, max_batch).equals(right)


@pytest.mark.kata("level05.scheduler.continuous_trace")
def test_first_come_first_served(expect):
    """By arrival, then id, whatever the order of the list. Nobody knows how long an answer will be, so the shortest
    can't go first; and nobody overtakes."""
    expect(continuous_trace, OUT_OF_ORDER, 2).equals([[5, 9], [5, 3], [3, 7], [], [1]])
    expect(continuous_trace, OUT_OF_ORDER, 1).equals([[5], [5], [9], [3], [3], [7], [1]])
    expect(continuous_trace, OUT_OF_ORDER[::-1], 3).equals([[5, 9], [5, 3, 7], [3], [], [1]])


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize(
    "output_lens, max_batch, steps",
    [((8, 2, 2, 2), 2, 8), ((40, 8, 8, 8, 24, 8, 8, 8), 4, 40), ((5,) * 6, 2, 15), ((1, 2, 3, 4, 5), 3, 7)],
    ids=str,
)
def test_refilled_slots_save_steps(expect, output_lens, max_batch, steps):
    """40 steps instead of 64, from scheduling alone; nothing where all answers are equally long. Never fewer steps than
    all tokens over all slots."""
    right = continuous_oracle(at_once(*output_lens), max_batch)
    assert len(right) == steps >= ceil(sum(output_lens) / max_batch)
    assert len(right) <= len(static_oracle(at_once(*output_lens), max_batch))
    expect(continuous_trace, at_once(*output_lens), max_batch).equals(right)


@pytest.mark.kata("level05.scheduler.continuous_trace")
def test_every_small_crowd_in_refilled_slots(expect):
    """Oracle: request by request, on a heap of the steps at which slots are free. All combinations of up to three."""
    expect(first_wrong, continuous_trace, continuous_oracle, small_crowds).equals({})


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize("seed", range(20))
def test_a_crowd_in_refilled_slots(expect, seed):
    """Oracle: as above."""
    requests, max_batch = crowd(seed)
    right = continuous_oracle(requests, max_batch)
    assert Counter(id for step in right for id in step) == {r.id: r.output_len for r in requests}
    expect(continuous_trace, requests, max_batch).equals(right)


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize("max_batch", [0, -2])
def test_a_machine_without_slots_is_refused(expect, max_batch):
    """It would wait for ever."""
    expect(continuous_trace, at_once(2), 1).equals([[0], [0]])
    expect(continuous_trace, at_once(2), max_batch).raises(ValueError)


# ---- utilization, judged with continuous_trace


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize(
    "trace, max_batch, right",
    [
        ([[0, 1], [0], [0], [2]], 2, 5 / 8),
        ([[0, 1], [0, 2], [0]], 2, 5 / 6),
        ([[0, 1], [2, 0]], 2, 1.0),
        ([[5], [5], [5]], 4, 0.25),
        ([[], [], [0]], 1, 1 / 3),
        ([[0], [], [], [1, 2]], 3, 3 / 12),
        ([[2], [], []], 1, 1 / 3),
        ([[], []], 4, 0.0),
        (((3, 4), (3,)), 8, 3 / 16),
    ],
    ids=[
        "docstring",
        "refilled",
        "full",
        "one of four",
        "idle at first",
        "idle between",
        "idle at last",
        "idle",
        "tuples",
    ],
)
def test_slots_that_emitted_over_all_slots(expect, trace, max_batch, right):
    """An empty slot costs as much of the weights' bandwidth as a full one: what is missing to 1 was paid for nothing.
    The idle step is the worst of all, and counts. By hand."""
    expect(utilization, trace, max_batch).equals(right, **EXACT)


@pytest.mark.kata("level05.scheduler.continuous_trace")
@pytest.mark.parametrize(
    "requests, max_batch, closed, refilled",
    [(MIXED, 4, 0.4375, 0.7), (at_once(8, 2, 2, 2), 2, 0.7, 0.875), (at_once(5, 5, 5, 5), 2, 1.0, 1.0)],
    ids=["lesson", "one long of four", "all alike"],
)
def test_refilling_uses_the_slots(expect, requests, max_batch, closed, refilled):
    """The same tokens in fewer steps. With equal lengths and everybody there at once there is nothing to win."""
    expect(utilization, static_oracle(requests, max_batch), max_batch).equals(closed, **EXACT)
    expect(utilization, continuous_oracle(requests, max_batch), max_batch).equals(refilled, **EXACT)


@pytest.mark.kata("level05.scheduler.continuous_trace")
def test_a_trace_without_steps_has_no_utilization(expect):
    """Neither 0 nor 1 would be true."""
    expect(utilization, [[0]], 1).equals(1.0, **EXACT)
    expect(utilization, [], 2).raises(ValueError)


# ---- plan_step


def sequence(id, prompt, computed=0, output=0):
    """`prompt` and `output` are numbers of tokens."""
    return Running(id, list(range(prompt)), [7] * output, computed)


def chat(id, prompt=4, output=1):
    """One that decodes: only its newest token is left to run."""
    return sequence(id, prompt, prompt + output - 1, output)


def token_by_token(running, waiting, token_budget, max_seqs):
    """Oracle: all tokens that could run stand in one line, by (class, place); the budget cuts it. Then count."""
    line = [(0 if s.output and len(s.tokens) - s.computed == 1 else 1, place, s) for place, s in enumerate(running)]
    line += [(2, place, s) for place, s in enumerate(waiting) if len(running) + place < max_seqs]
    line.sort(key=lambda entry: entry[:2])
    tokens = (s.id for _, _, s in line for _ in s.tokens[s.computed :])
    return list(Counter(islice(tokens, token_budget)).items())


def state(seed):
    """(running, waiting, token_budget, max_seqs) of a busy engine, ids in no order; budgets from too small to ample."""
    draw = random.Random(seed)
    ids = iter(draw.sample([f"{a}{b}" for a in "zyxabc" for b in range(10)], 20))
    running, waiting = [], []
    for _ in range(draw.randint(0, 6)):
        prompt, output = draw.randint(1, 9), draw.randint(1, 5)
        decodes, fills = (prompt + output - 1, output), (draw.randrange(prompt), 0)
        runs_again = draw.randrange(prompt + output - 1), output  # it lost its cache, or a part of it
        running.append(sequence(next(ids), prompt, *draw.choice([decodes] * 3 + [fills] * 2 + [runs_again])))
    for _ in range(draw.randint(0, 5)):
        prompt = draw.randint(1, 9)
        waiting.append(sequence(next(ids), prompt, *draw.choice([(0, 0)] * 4 + [(draw.randrange(prompt), 0), (0, 2)])))
    return running, waiting, draw.choice([1, 2, 3, 5, 8, 13, 40]), draw.choice([1, 2, 3, 5, 8, 20])


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize(
    "running, waiting, token_budget, max_seqs, right",
    [
        ([chat("a")], [sequence("b", 3), sequence("c", 8)], 6, 8, [("a", 1), ("b", 3), ("c", 2)]),
        ([chat("a"), sequence("b", 9, 4)], [sequence("c", 3)], 6, 8, [("a", 1), ("b", 5)]),
        ([sequence("b", 9, 4), chat("a")], [sequence("c", 3)], 8, 8, [("a", 1), ("b", 5), ("c", 2)]),
        ([], [sequence("b", 3), sequence("c", 8)], 16, 8, [("b", 3), ("c", 8)]),
        ([], [sequence("c", 100)], 16, 8, [("c", 16)]),
        ([chat("a")], [sequence("c", 9000)], 8192, 8, [("a", 1), ("c", 8191)]),
        ([chat("z"), chat("y", 9, 5)], [], 64, 8, [("z", 1), ("y", 1)]),
        ([], [sequence(id, 1) for id in "hgfedcba"], 7, 8, [(id, 1) for id in "hgfedcb"]),
        ([], [], 4, 4, []),
    ],
    ids=[
        "docstring",
        "a prompt goes on",
        "decoding first",
        "all fit",
        "too long",
        "a large budget",
        "decoding only",
        "a crowd",
        "no work",
    ],
)
def test_one_step_by_hand(expect, running, waiting, token_budget, max_seqs, right):
    """Streams that users watch go first, a token each; what the budget leaves goes to prompts, in their order. So a
    step takes as long as the budget says, and a long prompt is spread over several."""
    expect(plan_step, running, waiting, token_budget, max_seqs).equals(right)


@pytest.mark.kata("level05.scheduler.plan_step")
def test_decoding_tokens_are_in_the_budget(expect):
    """Budget 8 and three streams leave 5 for the prompt of 10. An engine that charges prompts alone makes steps larger
    than its limit, and than the buffers that were sized by it."""
    running, waiting = [chat("a"), chat("b"), chat("c")], [sequence("new", 10)]
    expect(plan_step, running, waiting, 8, 8).equals([("a", 1), ("b", 1), ("c", 1), ("new", 5)])
    running = [chat("a", 4, 2), chat("b", 4, 2), chat("c", 4, 2), sequence("new", 10, 5)]
    expect(plan_step, running, [], 8, 8).equals([("a", 1), ("b", 1), ("c", 1), ("new", 5)])
    expect(plan_step, running, [], 3, 8).equals([("a", 1), ("b", 1), ("c", 1)])


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("token_budget", [1, 2, 3])
def test_more_streams_than_budget(expect, token_budget):
    """Those in front get their token; nobody is planned with 0, which would be a chunk without tokens."""
    running = [chat("d"), sequence("p", 5), chat("b"), chat("c")]
    right = [("d", 1), ("b", 1), ("c", 1)][:token_budget]
    expect(plan_step, running, [sequence("e", 2)], token_budget, 8).equals(right)


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize(
    "token_budget, right",
    [
        (4, [("a", 1), ("long", 3)]),
        (10, [("a", 1), ("long", 9)]),
        (11, [("a", 1), ("long", 9), ("short", 1)]),
        (12, [("a", 1), ("long", 9), ("short", 2)]),
        (13, [("a", 1), ("long", 9), ("short", 2), ("next", 1)]),
    ],
    ids=str,
)
def test_a_prompt_that_does_not_fit_is_cut_and_not_skipped(expect, token_budget, right):
    """Skipped, a long prompt is overtaken by short ones for as long as they come: it may never begin."""
    waiting = [sequence("long", 9), sequence("short", 2), sequence("next", 2)]
    expect(plan_step, [chat("a")], waiting, token_budget, 8).equals(right)


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize(
    "max_seqs, right",
    [
        (1, [("a", 1), ("p", 2)]),
        (2, [("a", 1), ("p", 2)]),
        (3, [("a", 1), ("p", 2), ("x", 3)]),
        (4, [("a", 1), ("p", 2), ("x", 3), ("y", 1)]),
        (9, [("a", 1), ("p", 2), ("x", 3), ("y", 1), ("z", 2)]),
    ],
    ids=str,
)
def test_no_more_than_max_seqs_run(expect, max_seqs, right):
    """Each that runs holds a cache, so memory sets max_seqs, and those that run already count. Above it, as after a
    restart with a smaller one, nobody is admitted and nobody is thrown out."""
    running, waiting = [chat("a"), sequence("p", 6, 4)], [sequence("x", 3), sequence("y", 1), sequence("z", 2)]
    expect(plan_step, running, waiting, 64, max_seqs).equals(right)
    expect(plan_step, [], waiting, 64, min(max_seqs, 2)).equals([("x", 3), ("y", 1)][:max_seqs])


@pytest.mark.kata("level05.scheduler.plan_step")
def test_one_that_gets_no_token_still_runs(expect):
    """Its cache is in memory whether or not the budget reaches it, so it counts among max_seqs."""
    running = [chat("a"), chat("b"), sequence("p", 9, 2)]
    expect(plan_step, running, [sequence("x", 3)], 4, 3).equals([("a", 1), ("b", 1), ("p", 2)])
    expect(plan_step, running, [sequence("x", 3)], 64, 3).equals([("a", 1), ("b", 1), ("p", 7)])
    expect(plan_step, running, [sequence("x", 3)], 2, 4).equals([("a", 1), ("b", 1)])


@pytest.mark.kata("level05.scheduler.plan_step")
def test_the_last_token_of_a_prompt_is_not_decoding(expect):
    """It has no output yet, so nobody's stream waits for it: it stands with the prompts, though 1 token is pending."""
    running = [sequence("p", 5, 4), chat("a"), sequence("q", 1), chat("b")]
    expect(plan_step, running, [sequence("x", 1)], 64, 8).equals([("a", 1), ("b", 1), ("p", 1), ("q", 1), ("x", 1)])
    expect(plan_step, running, [sequence("x", 1)], 3, 8).equals([("a", 1), ("b", 1), ("p", 1)])


@pytest.mark.kata("level05.scheduler.plan_step")
def test_pending_is_what_is_not_computed(expect):
    """A prompt whose beginning is in a cache already has less to run; a sequence that lost its cache runs its prompt
    *and* its output again, and does not decode before that is done."""
    running, waiting = [sequence("again", 4, 1, 3), chat("a")], [sequence("hit", 8, 6), sequence("lost", 3, 0, 2)]
    right = [("a", 1), ("again", 6), ("hit", 2), ("lost", 5)]
    expect(plan_step, running, waiting, 64, 8).equals(right)
    expect(plan_step, running, waiting, 10, 8).equals([*right[:3], ("lost", 1)])
    expect(plan_step, running, waiting, 5, 8).equals([("a", 1), ("again", 4)])
    running[0] = sequence("again", 4, 5, 3)  # the last two of its output are left
    expect(plan_step, running, waiting, 64, 8).equals([("a", 1), ("again", 2), ("hit", 2), ("lost", 5)])


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("seed", range(40))
def test_a_busy_engine_plans(expect, seed):
    """Oracle: all tokens in one line, cut by the budget, counted."""
    running, waiting, token_budget, max_seqs = state(seed)
    right = token_by_token(running, waiting, token_budget, max_seqs)
    expect(plan_step, running, waiting, token_budget, max_seqs).equals(right)


def broken(plan, running, waiting, token_budget, max_seqs):
    """Which of the promises a plan breaks; True when it keeps all."""
    pending, ids, counts = {s.id: s.pending for s in running + waiting}, [id for id, _ in plan], dict(plan)
    admitted = [s.id for s in waiting if s.id in counts]
    if sum(n for _, n in plan) > token_budget:
        return f"{sum(n for _, n in plan)} tokens, where the budget is {token_budget}"
    if len(set(ids)) != len(ids):
        return "one id twice"
    for id, n in plan:
        if not 1 <= n <= pending[id]:
            return f"{n} tokens of {id}, which has {pending[id]} pending"
        if n < pending[id] and id != ids[-1]:
            return f"{id} is cut, and {ids[-1]} still gets tokens"
    if admitted != [s.id for s in waiting][: len(admitted)]:
        return "a waiting one is planned before an earlier one"
    if admitted and len(running) + len(admitted) > max_seqs:
        return f"{len(running)} run, {len(admitted)} are admitted, and max_seqs is {max_seqs}"
    left_out = [s.id for s in running if s.id not in counts]
    room = len(running) + len(admitted) < max_seqs and len(admitted) < len(waiting)
    if sum(counts.values()) < token_budget and (left_out or room):
        return "there is budget left, and somebody who could use it"
    return True


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("seed", range(100, 130))
def test_a_plan_keeps_its_promises(expect, seed):
    """What the engine and the memory behind it rely on, whatever the state."""
    running, waiting, token_budget, max_seqs = state(seed)
    check = expect(plan_step, running, waiting, token_budget, max_seqs)
    check.holds(
        lambda plan: broken(plan, running, waiting, token_budget, max_seqs),
        "the budget is kept and used up, nobody is planned twice, skipped, or for more than is pending",
    )


def planned_and_left(running, waiting, token_budget, max_seqs):
    """Two plans of the same state, and the state afterwards."""
    plans = [plan_step(running, waiting, token_budget, max_seqs) for _ in range(2)]
    return [*plans, list(map(asdict, running)), list(map(asdict, waiting))]


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("seed", range(200, 210))
def test_planning_changes_nothing(expect, seed):
    """The engine may drop a plan: the step can fail, or an abort come in between. Who computes is who counts, so a
    plan leaves lists and sequences as they were, and asked again it says the same."""
    running, waiting, token_budget, max_seqs = state(seed)
    plan = token_by_token(running, waiting, token_budget, max_seqs)
    right = [plan, plan, list(map(asdict, running)), list(map(asdict, waiting))]
    expect(planned_and_left, running, waiting, token_budget, max_seqs).equals(right)


def served(planned, running, coming, token_budget, max_seqs, steps, answer=99):
    """The plans of some steps of an engine that runs them and ends a request after `answer` tokens; `coming` has one
    list a step."""
    running, coming, waiting, plans = copy.deepcopy(running), copy.deepcopy(coming), [], []
    for step in range(steps):
        waiting += coming[step] if step < len(coming) else []
        plans.append(planned(running, waiting, token_budget, max_seqs))
        counts = dict(plans[-1])
        running += [s for s in waiting if s.id in counts]
        waiting = [s for s in waiting if s.id not in counts]
        for s in running:
            s.computed += counts.get(s.id, 0)
            if not s.pending:
                s.output.append(9)
        running = [s for s in running if len(s.output) < answer]
    return plans


@pytest.mark.kata("level05.scheduler.plan_step")
def test_a_stream_gets_its_token_while_prompts_keep_coming(expect):
    """A new prompt in every step, as large as the budget: with prompts first the stream would get nothing for as long
    as they come, and its user would look at a frozen screen. By hand: a token for each stream, then the prompts."""
    coming = [[sequence(f"new{step}", 6)] for step in range(6)]
    right = [
        [("user", 1), ("new0", 5)],
        [("user", 1), ("new0", 1), ("new1", 4)],
        [("user", 1), ("new0", 1), ("new1", 2), ("new2", 2)],
        [("user", 1), ("new0", 1), ("new1", 1), ("new2", 3)],
        [("user", 1), ("new0", 1), ("new1", 1), ("new2", 1), ("new3", 2)],
        [("user", 1), ("new0", 1), ("new1", 1), ("new2", 1), ("new3", 2)],
    ]
    expect(served, plan_step, [chat("user")], coming, 6, 8, 6).equals(right)


@pytest.mark.kata("level05.scheduler.plan_step")
def test_a_long_prompt_is_spread_over_steps_that_all_take_the_same(expect):
    """32 streams and a budget of 512 leave 480 tokens of a prompt of 4000 for each step: 9 steps in which every stream
    gets its token, instead of one that takes eight times as long. In the tenth it is a stream itself."""
    streams = [chat(f"s{i}") for i in range(32)]
    tokens = [(stream.id, 1) for stream in streams]
    right = [[*tokens, ("new", n)] for n in [480] * 8 + [160, 1]]
    expect(served, plan_step, streams, [[sequence("new", 4000)]], 512, 64, 10).equals(right)


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("token_budget, max_seqs", [(1, 1), (4, 2), (6, 3), (64, 8)], ids=str)
def test_every_token_runs_once_whatever_the_schedule(expect, token_budget, max_seqs):
    """Until everybody has an answer of 3 tokens: all tokens of the prompt and of the answer but its last, cut into
    however many chunks. Oracle: the line of tokens, step after step."""
    prompts = {"z": 20, "m": 3, "a": 11, "k": 1}
    z, m, a, k = (sequence(*prompt) for prompt in prompts.items())
    arguments = [], [[z, m], [], [a], [k]], token_budget, max_seqs, 50
    right = served(token_by_token, *arguments, answer=3)
    tokens = Counter(id for plan in right for id, n in plan for _ in range(n))
    assert tokens == {id: n + 2 for id, n in prompts.items()} and right[-1] == []
    expect(served, plan_step, *arguments, answer=3).equals(right)


def small_engines():
    """Up to two that run and two that wait, of every kind, and every small budget."""
    kinds = [(4, 4, 1), (3, 0, 0), (3, 2, 0), (2, 2, 2)]  # decoding, not begun, one token left, to be run again
    prompts = [(3, 0, 0), (1, 0, 0)]
    for n, m in product(range(3), range(3)):
        for some, others in product(product(kinds, repeat=n), product(prompts, repeat=m)):
            running = [sequence(id, *kind) for id, kind in zip("ba", some)]
            waiting = [sequence(id, *kind) for id, kind in zip("dc", others)]
            yield from ((running, waiting, budget, most) for budget in range(1, 8) for most in range(1, 5))


@pytest.mark.kata("level05.scheduler.plan_step")
def test_every_small_engine_plans(expect):
    """Oracle: the line of tokens. All combinations."""
    expect(first_wrong, plan_step, token_by_token, small_engines).equals({})


@pytest.mark.kata("level05.scheduler.plan_step")
@pytest.mark.parametrize("token_budget, max_seqs", [(0, 1), (1, 0), (-1, 4)], ids=str)
def test_a_step_without_room_is_refused(expect, token_budget, max_seqs):
    """An engine without a budget, or without a place for a sequence, would wait for ever."""
    expect(plan_step, [chat("a")], [], 1, 1).equals([("a", 1)])
    expect(plan_step, [chat("a")], [], token_budget, max_seqs).raises(ValueError)
