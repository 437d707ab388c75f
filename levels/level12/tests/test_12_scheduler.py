"""Judges scheduler.py by steps worked out by hand and, on random ones, by the rules in their slowest form.

`Rules` below is that form: one line of requests of which the first few run, blocks that stand for a whole beginning
of a text, and a list of free ones. Before it judges anything it is held against what vLLM did (test_12_traces.py
holds the scheduler itself against it).
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from level12.scheduler import Scheduler
from level12.state import SchedulerOutput, Tracked


def text(first, n):
    """n tokens that no other text has, unless it begins with the same one."""
    return [100 * first + i for i in range(n)]


# ---- a scheduler in a state, made without its methods


def begun(cls, *rows, blocks=9, size=4, budget=16, seqs=8, waiting=(), **options):
    """r0, r1, … run, of (prompt, output, computed); then others wait, of (prompt, output).

    A request shares what the cache has of it, as if it had been let in after those before it.
    """
    made = cls(blocks, size, budget, seqs, **options)
    for i, (prompt, output, *computed) in enumerate([*rows, *waiting]):
        sequence = Tracked(f"r{i}", list(prompt))
        made.add(sequence)
        sequence.output += output
        if computed:
            hit, cached = made.kv.get_computed_blocks(sequence)
            made.kv.allocate_slots(sequence, computed[0] - cached, hit)
            sequence.computed = computed[0]
            made.running.append(made.waiting.pop())
    return made


def seen(made, out, left):
    """All that a call may change, and some of what it may not."""
    return {
        "left": left,
        "scheduled": list(out.num_scheduled.items()),
        "preempted": list(out.preempted),
        "running": [sequence.id for sequence in made.running],
        "waiting": [sequence.id for sequence in made.waiting],
        "computed": [sequence.computed for sequence in made.sequences.values()],
        "outputs": [len(sequence.output) for sequence in made.sequences.values()],
        "tables": [made.kv.block_table(sequence) for sequence in made.sequences.values()],
        "free": made.kv.pool.free_ids(),
    }


def ran(made, budget):
    out = SchedulerOutput()
    return seen(made, out, made.schedule_running(out, budget))


def let_in(made, budget, preempted=()):
    out = SchedulerOutput(preempted=list(preempted))
    return seen(made, out, made.schedule_waiting(out, budget))


def only(observed, *columns):
    return [observed[column] for column in columns]


# ---- the rules by brute force


class Rules:
    """What a step does, told by the line of requests: the first `n` of it run."""

    def __init__(self, blocks, size, budget, seqs, max_len=10**6, caching=True, reserve=True, threshold=0):
        self.size, self.budget, self.seqs, self.max_len = size, budget, seqs, max_len
        self.caching, self.reserve, self.threshold = caching, reserve, threshold
        self.free, self.prefix = list(range(1, blocks)), {}  # prefix: block -> the tokens up to its end
        self.line, self.n = [], 0

    def add(self, id, prompt, output=(), limit=16, stop=()):
        self.line.append(
            SimpleNamespace(
                id=id, prompt=len(prompt), text=[*prompt, *output], limit=limit, stop=stop, done=0, table=[]
            )
        )

    def found(self, row):
        """Blocks of the longest beginning that is there, with one token left to run."""
        blocks = []
        for end in range(self.size, len(row.text) if self.caching else 0, self.size):
            block = next((b for b, prefix in self.prefix.items() if prefix == row.text[:end]), None)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def room(self, row, total, hit=(), whole=0):
        fresh = -(-max(total, whole) // self.size) - len(row.table) - len(hit)
        if max(0, fresh) + sum(block in self.free for block in hit) > len(self.free):
            return False
        self.free = [block for block in self.free if block not in hit]
        row.table += hit
        while len(row.table) * self.size < total:
            row.table.append(self.free.pop(0))
            self.prefix.pop(row.table[-1], None)
        for i in range(total // self.size if self.caching else 0):
            self.prefix.setdefault(row.table[i], row.text[: (i + 1) * self.size])
        return True

    def release(self, row):
        table, row.table, row.done = row.table, [], 0
        freed = [block for block in table[::-1] if not any(block in other.table for other in self.line)]
        kept = [block for block in freed if block in self.prefix]
        self.free = [block for block in freed if block not in kept] + self.free + kept

    def chunk(self, rest, budget):
        return min(rest, budget, self.threshold if self.threshold and len(self.line) > 1 else budget)

    def run(self, budget):
        plan, left, at = {}, [], 0
        while at < self.n and budget:
            row, at = self.line[at], at + 1
            tokens = self.chunk(len(row.text) - row.done, budget)
            while self.n >= at and not self.room(row, row.done + tokens):
                self.n -= 1
                self.release(self.line[self.n])
                left.append(self.line[self.n].id)
            if self.n >= at:
                plan[row.id], budget = tokens, budget - tokens
        return plan, left, budget

    def let_in(self, budget):
        plan = {}
        while budget and self.n < min(self.seqs, len(self.line)):
            row = self.line[self.n]
            hit = self.found(row)
            cached = len(hit) * self.size
            tokens = self.chunk(len(row.text) - cached, budget)
            if not self.room(row, cached + tokens, hit, len(row.text) * self.reserve):
                break
            self.n, row.done, plan[row.id], budget = self.n + 1, cached, tokens, budget - tokens
        return plan, budget

    def step(self, sample):
        """One whole step, in the columns of a recorded one."""
        plan, left, budget = self.run(self.budget)
        plan |= {} if left else self.let_in(budget)[0]
        rows = {row.id: row for row in self.line}
        tables, ended = {id: list(rows[id].table) for id in plan}, []
        for id, tokens in plan.items():
            row = rows[id]
            row.done += tokens
            if row.done == len(row.text):
                row.text.append(sample(row.text))
                new = len(row.text) - row.prompt
                if row.text[-1] in row.stop or new >= row.limit or len(row.text) >= self.max_len:
                    ended.append(id)
        for id in ended:
            self.drop(id)
        scheduled = [list(pair) for pair in plan.items()]
        columns = scheduled, sorted(left), list(self.free), sorted(ended), tables
        return dict(zip(("num_scheduled", "preempted", "free_queue", "finished", "tables"), columns))

    def drop(self, id):
        for at, row in enumerate(self.line):
            if row.id == id:
                self.release(row)
                del self.line[at]
                self.n -= at < self.n
                return

    def seen(self, plan, left, budget, order):
        """As `seen` of a scheduler; `order` are the ids."""
        rows = {row.id: row for row in self.line}
        return {
            "left": budget,
            "scheduled": list(plan.items()),
            "preempted": left,
            "running": [row.id for row in self.line[: self.n]],
            "waiting": [row.id for row in self.line[self.n :]],
            "computed": [rows[id].done for id in order],
            "outputs": [len(rows[id].text) - rows[id].prompt for id in order],
            "tables": [rows[id].table for id in order],
            "free": self.free,
        }


def vllm_agrees():
    """What vLLM did is what the rules say."""
    path = Path(__file__).with_name("vllm_0_33_0_traces.json")
    for trace in json.loads(path.read_text(encoding="utf-8"))["traces"]:
        sizes = "num_blocks block_size max_num_batched_tokens max_num_seqs max_model_len"
        options = "enable_caching reserve_full long_prefill_threshold"
        rules = Rules(*(trace[name] for name in f"{sizes} {options}".split()))
        for i, prompt in enumerate(trace["prompts"]):
            rules.add(f"r{i}", prompt, limit=trace["max_tokens"])
        if any(rules.step(lambda _, token=trace["sampled_token"]: token) != step for step in trace["steps"]):
            return False
    return True


def crowds(seed, cases):
    """States at random, in a pool that is nearly full: some run, some wait, many begin alike."""
    draw = random.Random(seed)
    for _ in range(cases):
        size, options = draw.choice([2, 3, 4]), (draw.random() < 0.8, draw.random() < 0.5, draw.choice([0, 0, 3, 5]))
        settings = draw.randint(5, 13), size, draw.choice([1, 3, 6, 9, 30]), draw.choice([2, 3, 5, 9])
        rules, running, waiting = Rules(*settings, 10**6, *options), [], []
        stem = [draw.randrange(3) for _ in range(3 * size)]
        for i in range(draw.randint(1, 7)):
            prompt = stem[: draw.randrange(3 * size)] + [draw.randrange(3) for _ in range(draw.randint(1, 2 * size))]
            output = [draw.randrange(3) for _ in range(draw.choice([0, 1, 1, 4]))]
            rules.add(f"r{i}", prompt, output)
            row = rules.line[-1]
            hit = rules.found(row)
            first, last = len(hit) * size + 1, len(row.text) - 1
            computed = draw.choice([last, draw.randint(min(first, last), last)])
            fits = not waiting and len(running) < settings[3] and first <= last and rules.room(row, computed, hit)
            if fits:
                row.done, rules.n = computed, rules.n + 1
            (running if fits else waiting).append((prompt, output, computed)[: 3 if fits else 2])
        yield settings, options, running, waiting, rules


def first_wrong(cls, seed, cases, call, rule):
    """{} if a method does in all states what the rules say; else the first one in which it does not."""
    for (blocks, size, budget, seqs), (caching, reserve, threshold), running, waiting, rules in crowds(seed, cases):
        options = {"enable_caching": caching, "reserve_full": reserve, "long_prefill_threshold": threshold}
        made = begun(cls, *running, blocks=blocks, size=size, budget=budget, seqs=seqs, waiting=waiting, **options)
        order = [row.id for row in rules.line]
        before = f"{blocks} blocks of {size}, budget {budget}, {options}, running {running}, waiting {waiting}"
        right = rules.seen(*rule(rules, budget), order)
        yours = call(made, budget)
        for column in right:
            if yours[column] != right[column]:
                return {"column": column, "yours": yours[column], "right": right[column], "state": before}
    return {}


# ---- schedule_running


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_the_last_one_leaves_when_no_block_is_left(expect):
    """The docstring's example. r0 needs a block and gets r2's; then r1 is the last, and has to leave itself. What
    leaves stands before all others, so that the order of arrival is kept."""

    def three_blocks_all_in_use(cls):
        made = begun(cls, (text(1, 4), [7], 4), (text(2, 4), [7], 4), (text(3, 3), [7], 3), blocks=4)
        return ran(made, 16)

    expect.story(three_blocks_all_in_use, Scheduler).equals(
        {
            "left": 15,
            "scheduled": [("r0", 1)],
            "preempted": ["r2", "r1"],
            "running": ["r0"],
            "waiting": ["r1", "r2"],
            "computed": [4, 0, 0],
            "outputs": [1, 1, 1],
            "tables": [[1, 3], [], []],
            "free": [2],
        }
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_running_ones_get_their_tokens_in_order_until_the_budget_is_spent(expect):
    """A decode is a chunk of one token. r0 is in the middle of its prompt and takes what it wants; r2 gets the rest of
    the budget, and r3 nothing: it stays where it is."""

    def budget_of_nine(cls):
        rows = (text(1, 9), [], 3), (text(2, 5), [7], 5), (text(3, 8), [], 2), (text(4, 2), [7], 2)
        return ran(begun(cls, *rows, blocks=20), 9)

    expect.story(budget_of_nine, Scheduler).holds(
        lambda got: (
            only(got, "left", "scheduled", "preempted", "running")
            == [0, [("r0", 6), ("r1", 1), ("r2", 2)], [], ["r0", "r1", "r2", "r3"]]
        ),
        "r0 has 6 tokens to run, r1 has 1, and r2 gets 2 of its 6",
    )

    def budget_to_spare(cls):
        return only(ran(begun(cls, (text(1, 9), [], 3), (text(2, 5), [7], 5)), 16), "left", "scheduled")

    expect.story(budget_to_spare, Scheduler).equals([9, [("r0", 6), ("r1", 1)]])

    def nobody_runs(cls):
        return ran(begun(cls, waiting=[(text(1, 5), [])]), 16)

    expect.story(nobody_runs, Scheduler).holds(
        lambda got: (
            only(got, "left", "scheduled", "preempted", "running", "waiting", "computed", "free")
            == [16, [], [], [], ["r0"], [0], [1, 2, 3, 4, 5, 6, 7, 8]]
        ),
        "nobody runs, so nothing is planned, and who waits goes on waiting",
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_a_token_that_has_room_needs_no_block(expect):
    """No block is free, but r0 and r1 have a place for their next token: the list of new blocks is empty, and that is
    a yes. A server that reads it as a no preempts in nearly every step."""

    def no_block_is_free(cls):
        made = begun(cls, (text(1, 6), [7], 6), (text(2, 5), [7, 8], 6), blocks=5)
        return only(ran(made, 16), "left", "scheduled", "preempted", "tables", "free")

    expect.story(no_block_is_free, Scheduler).equals([14, [("r0", 1), ("r1", 1)], [], [[1, 2], [3, 4]], []])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_the_one_that_runs_short_leaves_itself_when_it_is_the_last(expect):
    """r2 has nobody behind it. The tokens of those before it stay planned, and what is left of the budget is said."""

    def last_runs_short(cls):
        rows = (text(1, 5), [7], 5), (text(2, 2), [7], 2), (text(3, 4), [7], 4)
        return ran(begun(cls, *rows, blocks=5, waiting=[(text(4, 3), [])]), 16)

    expect.story(last_runs_short, Scheduler).equals(
        {
            "left": 14,
            "scheduled": [("r0", 1), ("r1", 1)],
            "preempted": ["r2"],
            "running": ["r0", "r1"],
            "waiting": ["r2", "r3"],
            "computed": [5, 2, 0, 0],
            "outputs": [1, 1, 1, 0],
            "tables": [[1, 2], [3], [], []],
            "free": [4],
        }
    )

    def alone_and_too_large(cls):
        made = begun(cls, (text(1, 8), [7], 8), blocks=3)
        return only(ran(made, 16), "left", "scheduled", "preempted", "running", "waiting", "free")

    expect.story(alone_and_too_large, Scheduler).equals([16, [], ["r0"], [], ["r0"], [2, 1]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_those_between_run_on(expect):
    """r0 takes the block of r3, the last. r1 and r2 are still there and get theirs, r2 a chunk as large as the budget
    that is left: a preemption ends nobody's turn but the victim's."""

    def one_leaves_two_go_on(cls):
        rows = (text(1, 4), [7], 4), (text(2, 3), [7], 3), (text(3, 6), [], 2), (text(4, 4), [7], 4)
        return ran(begun(cls, *rows, blocks=5), 4)

    expect.story(one_leaves_two_go_on, Scheduler).equals(
        {
            "left": 0,
            "scheduled": [("r0", 1), ("r1", 1), ("r2", 2)],
            "preempted": ["r3"],
            "running": ["r0", "r1", "r2"],
            "waiting": ["r3"],
            "computed": [4, 3, 2, 0],
            "outputs": [1, 1, 0, 1],
            "tables": [[1, 4], [2], [3], []],
            "free": [],
        }
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_one_may_not_be_enough(expect):
    """r2 and r1 begin with r0's blocks, which r0 goes on using: each of them leaves one block behind. r0 wants two for
    its chunk of 8 all the time, and does not make do with less."""

    def they_share_its_blocks(cls):
        stem = text(1, 8)
        rows = ([*stem, *text(5, 8)], [], 8), ([*stem, *text(2, 3)], [], 10), ([*stem, 9, 9], [], 9)
        return ran(begun(cls, *rows, blocks=5), 8)

    expect.story(they_share_its_blocks, Scheduler).equals(
        {
            "left": 0,
            "scheduled": [("r0", 8)],
            "preempted": ["r2", "r1"],
            "running": ["r0"],
            "waiting": ["r1", "r2"],
            "computed": [8, 0, 0],
            "outputs": [0, 0, 0],
            "tables": [[1, 2, 3, 4], [], []],
            "free": [],
        }
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_who_was_preempted_starts_again_with_its_output(expect):
    """Of a prompt of 3 and 5 tokens of output, 8 are to run again: the client has the 5 already, so they must stay
    what they are. Its full block can still be found, and waits at the back of the free queue."""

    def five_tokens_sent(cls):
        made = begun(cls, (text(1, 4), [7], 4), (text(2, 3), [4, 5, 6, 7, 8], 7), blocks=4, waiting=[(text(3, 3), [])])
        got = ran(made, 16)
        back = made.sequences["r1"]
        key = made.kv.keys_of(back)[0]
        return (
            only(got, "scheduled", "waiting", "free"),
            back.output,
            back.pending,
            back.limit,
            made.kv.pool.get_cached_block(key),
        )

    expect.story(five_tokens_sent, Scheduler).equals(([[("r0", 1)], ["r1", "r2"], [2]], [4, 5, 6, 7, 8], 8, 16, 2))

    def a_part_alone(cls):
        made = begun(cls, (text(1, 6), [7], 6), (text(2, 7), [7, 8], 8), waiting=[(text(3, 3), [])])
        made.preempt(made.running.pop())
        return seen(made, SchedulerOutput(), 0)

    expect.story(a_part_alone, Scheduler).holds(
        lambda got: (
            only(got, "running", "waiting", "computed", "outputs", "tables", "free")
            == [["r0"], ["r1", "r2"], [6, 0, 0], [1, 2, 0], [[1, 2], [], []], [5, 6, 7, 8, 4, 3]]
        ),
        "preempt: r1 stands before r2, has no blocks, nothing computed, and its output",
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_a_long_prompt_gets_no_more_than_the_threshold_beside_others(expect):
    """long_prefill_threshold keeps a long prompt from taking the whole step from those who decode. One that is alone
    delays nobody; a request that waits counts as another one."""

    def chunks_of(threshold, *rows, waiting=()):
        def threshold_story(cls):
            made = begun(cls, *rows, waiting=waiting, blocks=20, long_prefill_threshold=threshold)
            return only(ran(made, 16), "left", "scheduled")

        return threshold_story

    long, short = (text(1, 20), [], 4), (text(2, 5), [7], 5)
    expect.story(chunks_of(3, long, short), Scheduler).equals([12, [("r0", 3), ("r1", 1)]])
    expect.story(chunks_of(5, short, long, (text(3, 20), [], 7)), Scheduler).equals(
        [5, [("r0", 1), ("r1", 5), ("r2", 5)]]
    )
    expect.story(chunks_of(3, long), Scheduler).equals([0, [("r0", 16)]])
    expect.story(chunks_of(3, long, waiting=[(text(2, 5), [])]), Scheduler).equals([13, [("r0", 3)]])
    expect.story(chunks_of(0, long, short), Scheduler).equals([0, [("r0", 16)]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_running")
def test_running_ones_as_the_rules_say(expect):
    """250 states at random, by brute force: who runs, who leaves, and which blocks everybody has afterwards. The rules
    themselves say what vLLM did on all its recorded traces."""
    assert vllm_agrees()

    def by_the_rules(cls):
        return first_wrong(cls, 1, 250, ran, lambda rules, budget: rules.run(budget))

    expect.story(by_the_rules, Scheduler).equals({})


# ---- schedule_waiting


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_two_with_the_same_beginning_share_it_in_one_step(expect):
    """The docstring's example: r1 finds the two blocks that r0 fills in this very step, and runs 2 tokens of its 10.
    One that counts the cached ones again would write past its table."""

    def nine_and_two(cls):
        stem = text(1, 8)
        return let_in(begun(cls, waiting=[([*stem, 9], []), ([*stem, 50, 51], [])]), 16)

    expect.story(nine_and_two, Scheduler).equals(
        {
            "left": 5,
            "scheduled": [("r0", 9), ("r1", 2)],
            "preempted": [],
            "running": ["r0", "r1"],
            "waiting": [],
            "computed": [0, 8],
            "outputs": [0, 0],
            "tables": [[1, 2, 3], [1, 2, 4]],
            "free": [5, 6, 7, 8],
        }
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_nobody_overtakes_one_that_does_not_fit(expect):
    """r1 is too large for what is left; r2 and r3 would fit, and wait behind it. Else a long prompt would never start
    while short ones keep coming. r1 is as it was."""

    def too_large_for_now(cls):
        waiting = [(text(2, 4), []), (text(3, 14), []), (text(4, 2), []), (text(5, 1), [])]
        return let_in(begun(cls, (text(1, 5), [7], 5), blocks=7, waiting=waiting), 60)

    expect.story(too_large_for_now, Scheduler).equals(
        {
            "left": 56,
            "scheduled": [("r1", 4)],
            "preempted": [],
            "running": ["r0", "r1"],
            "waiting": ["r2", "r3", "r4"],
            "computed": [5, 0, 0, 0, 0],
            "outputs": [1, 0, 0, 0, 0],
            "tables": [[1, 2], [3], [], [], []],
            "free": [4, 5, 6],
        }
    )

    def larger_than_the_pool(cls):
        made = begun(cls, blocks=4, waiting=[(text(1, 13), []), (text(2, 2), [])])
        return only(let_in(made, 16), "left", "scheduled", "running", "waiting")

    expect.story(larger_than_the_pool, Scheduler).equals([16, [], [], ["r0", "r1"]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_one_that_did_not_fit_is_let_in_later_as_if_nothing_had_been(expect):
    """Its hit was found, but there was no room behind it: nothing may be left of that attempt. When r0 is gone the
    same hit and the same tokens are planned."""

    def again_later(cls):
        stem = text(1, 8)
        made = begun(cls, ([*stem, 9], [], 8), blocks=5, waiting=[([*stem, *text(2, 8)], [])])
        other = Tracked("other", text(3, 3))
        made.kv.allocate_slots(other, 3)
        first = let_in(made, 16)
        made.kv.free(other)
        return only(first, "left", "scheduled", "waiting", "computed", "free"), let_in(made, 16)

    expect.story(again_later, Scheduler).holds(
        lambda got: (
            got[0] == [16, [], ["r1"], [8, 0], [4]]
            and only(got[1], "left", "scheduled", "running", "computed", "tables")
            == [8, [("r1", 8)], ["r0", "r1"], [8, 8], [[1, 2], [1, 2, 3, 4]]]
        ),
        "first nothing changes, then r1 runs 8 tokens behind the 8 that it found",
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_no_more_run_than_max_num_seqs(expect):
    """Those that run already count. The buffers of a server are made for this number of rows."""

    def at_most(seqs, *rows):
        def rows_story(cls):
            waiting = [(text(2 + n, n), []) for n in (1, 2, 3, 4)]
            made = begun(cls, *rows, seqs=seqs, waiting=waiting)
            return only(let_in(made, 16), "left", "scheduled", "running", "waiting")

        return rows_story

    one = (text(1, 2), [7], 2)
    expect.story(at_most(2), Scheduler).equals([13, [("r0", 1), ("r1", 2)], ["r0", "r1"], ["r2", "r3"]])
    expect.story(at_most(3, one), Scheduler).equals([13, [("r1", 1), ("r2", 2)], ["r0", "r1", "r2"], ["r3", "r4"]])
    expect.story(at_most(1, one), Scheduler).equals([16, [], ["r0"], ["r1", "r2", "r3", "r4"]])
    expect.story(at_most(9), Scheduler).holds(
        lambda got: got == [6, [("r0", 1), ("r1", 2), ("r2", 3), ("r3", 4)], ["r0", "r1", "r2", "r3"], []],
        "all four are let in",
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_a_prompt_begins_with_what_is_left_of_the_budget(expect):
    """A prompt of 10 with 4 tokens left runs 4 of them now, in one block: without chunks it would wait until a step has
    10 to spare. When nothing is left the next one waits, although there is room."""

    def budget_of(budget):
        def left_story(cls):
            made = begun(cls, waiting=[(text(1, 3), []), (text(2, 10), []), (text(3, 2), [])])
            return only(let_in(made, budget), "left", "scheduled", "waiting", "tables")

        return left_story

    expect.story(budget_of(7), Scheduler).equals([0, [("r0", 3), ("r1", 4)], ["r2"], [[1], [2], []]])
    expect.story(budget_of(3), Scheduler).equals([0, [("r0", 3)], ["r1", "r2"], [[1], [], []]])
    expect.story(budget_of(14), Scheduler).equals([0, [("r0", 3), ("r1", 10), ("r2", 1)], [], [[1], [2, 3, 4], [5]]])
    expect.story(budget_of(16), Scheduler).equals([1, [("r0", 3), ("r1", 10), ("r2", 2)], [], [[1], [2, 3, 4], [5]]])
    expect.story(budget_of(0), Scheduler).equals([0, [], ["r0", "r1", "r2"], [[], [], []]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_a_step_that_preempts_lets_nobody_in(expect):
    """Nothing runs here any more and the pool is empty of users, but a step that has preempted says that memory is
    short. Whoever lets somebody in gives the freed blocks away, and the next step preempts again."""

    def after_a_preemption(cls):
        made = begun(cls, waiting=[(text(1, 3), [7]), (text(2, 2), [])])
        return only(let_in(made, 11, preempted=["r0"]), "left", "scheduled", "preempted", "running", "waiting")

    expect.story(after_a_preemption, Scheduler).equals([11, [], ["r0"], [], ["r0", "r1"]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_one_that_comes_back_runs_prompt_and_output(expect):
    """A prompt of 3 with 5 tokens of output: 8 to run, not 3 and not 1. Those of the first block are still cached in
    the second case, which leaves 4; of a sequence that is cached whole the last block runs again."""

    def comes_back(cached):
        def back_story(cls):
            prompt, output = text(1, 3), [4, 5, 6, 7, 8]
            made = begun(cls, waiting=[(prompt, output), (text(2, 2), [])])
            before = Tracked("before", [*prompt, *output[: cached - 3]])
            made.kv.allocate_slots(before, cached)
            made.kv.free(before)
            return only(let_in(made, 16), "left", "scheduled", "computed", "outputs", "tables")

        return back_story

    expect.story(comes_back(3), Scheduler).equals([6, [("r0", 8), ("r1", 2)], [0, 0], [5, 0], [[1, 2], [3]]])
    expect.story(comes_back(5), Scheduler).equals([10, [("r0", 4), ("r1", 2)], [4, 0], [5, 0], [[1, 2], [3]]])
    expect.story(comes_back(8), Scheduler).equals([10, [("r0", 4), ("r1", 2)], [4, 0], [5, 0], [[1, 3], [4]]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_a_reserve_for_the_whole_sequence_keeps_it_out_until_all_of_it_fits(expect):
    """By hand, blocks of 4, 3 of them free, budget 5. A sequence of 13 tokens wants 4 blocks: with reserve_full it
    waits although its chunk of 5 wants 2. Nothing is set aside, though: of 12 tokens it gets 2 blocks, not 3. Output
    counts, what max_tokens may bring does not, and a hit that nobody uses is taken from the free ones."""

    def reserved(reserve, prompt, output=(), budget=5, cached=0):
        def reserve_story(cls):
            made = begun(cls, (text(1, 5), [7], 5), blocks=6, waiting=[(prompt, list(output))], reserve_full=reserve)
            if cached:
                before = Tracked("before", prompt[:cached])
                made.kv.allocate_slots(before, cached)
                made.kv.free(before)
            return only(let_in(made, budget), "left", "scheduled", "waiting", "tables")

        return reserve_story

    no, yes = [5, [], ["r1"], [[1, 2], []]], [0, [("r1", 5)], [], [[1, 2], [3, 4]]]
    expect.story(reserved(True, text(2, 13)), Scheduler).equals(no)
    expect.story(reserved(False, text(2, 13)), Scheduler).equals(yes)
    expect.story(reserved(True, text(2, 12)), Scheduler).equals(yes)
    expect.story(reserved(True, text(2, 9), [7, 8, 9]), Scheduler).equals(yes)
    expect.story(reserved(True, text(2, 9), [6, 7, 8, 9]), Scheduler).equals(no)
    expect.story(reserved(False, text(2, 13), cached=8), Scheduler).equals(no)
    expect.story(reserved(True, text(2, 13), cached=4), Scheduler).equals(no)
    expect.story(reserved(True, text(2, 12), cached=4), Scheduler).equals([0, [("r1", 5)], [], [[1, 2], [3, 4, 5]]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_a_hit_ends_at_the_first_miss(expect):
    """By hand: of 12 tokens the second block is in the cache and the first one is not, as after a failed step. All 12
    run. With the first one as well, the last 4 are left."""

    def blocks_in_the_cache(*which):
        def cache_story(cls):
            made = begun(cls, waiting=[(text(1, 12), [])])
            keys = made.kv.keys_of(made.sequences["r0"])
            taken = made.kv.pool.get_new_blocks(3)
            for i in which:
                made.kv.pool.cache_block(taken[i], keys[i])
            return only(let_in(made, 16), "left", "scheduled", "computed", "tables")

        return cache_story

    expect.story(blocks_in_the_cache(1), Scheduler).equals([4, [("r0", 12)], [0], [[4, 5, 6]]])
    expect.story(blocks_in_the_cache(0, 2), Scheduler).equals([8, [("r0", 8)], [4], [[1, 4, 5]]])
    expect.story(blocks_in_the_cache(0, 1, 2), Scheduler).equals([12, [("r0", 4)], [8], [[1, 2, 4]]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_a_prompt_of_many_tokens_is_let_in_by_the_threshold(expect):
    """The threshold is for what is left to run behind the hit. One that waits alone may take the whole budget, also in
    chunks of a later step."""

    def threshold_of(threshold, *waiting, budget=16):
        def threshold_story(cls):
            made = begun(cls, blocks=20, waiting=[(prompt, []) for prompt in waiting], long_prefill_threshold=threshold)
            return only(let_in(made, budget), "left", "scheduled", "computed")

        return threshold_story

    stem = text(1, 8)
    expect.story(threshold_of(5, text(2, 12), text(3, 3), text(4, 9)), Scheduler).equals(
        [3, [("r0", 5), ("r1", 3), ("r2", 5)], [0, 0, 0]]
    )
    expect.story(threshold_of(4, [*stem, *text(5, 3)], [*stem, *text(6, 9)]), Scheduler).equals(
        [8, [("r0", 4), ("r1", 4)], [0, 4]]
    )
    expect.story(threshold_of(3, text(2, 12)), Scheduler).equals([4, [("r0", 12)], [0]])
    expect.story(threshold_of(0, text(2, 12), text(3, 12)), Scheduler).equals([0, [("r0", 12), ("r1", 4)], [0, 0]])


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_new_ones_stand_behind_those_that_run(expect):
    """`running` is in the order of arrival, since the last of it is the one to be preempted; so is the batch."""

    def behind(cls):
        made = begun(cls, (text(1, 5), [7], 5), (text(2, 2), [7], 2), waiting=[(text(3, 4), []), (text(4, 2), [])])
        out = SchedulerOutput(num_scheduled={"r0": 1, "r1": 1})
        left = made.schedule_waiting(out, 14)
        return only(seen(made, out, left), "left", "scheduled", "running", "waiting", "computed")

    expect.story(behind, Scheduler).equals(
        [8, [("r0", 1), ("r1", 1), ("r2", 4), ("r3", 2)], ["r0", "r1", "r2", "r3"], [], [5, 2, 0, 0]]
    )

    def nobody_waits(cls):
        return only(let_in(begun(cls, (text(1, 5), [7], 5)), 16), "left", "scheduled", "running", "waiting")

    expect.story(nobody_waits, Scheduler).equals([16, [], ["r0"], []])

    def nothing_is_cached_without_caching(cls):
        stem = text(1, 8)
        made = begun(cls, waiting=[([*stem, 9], []), ([*stem, 50, 51], [])], enable_caching=False)
        return only(let_in(made, 30), "left", "scheduled", "computed", "tables")

    expect.story(nothing_is_cached_without_caching, Scheduler).equals(
        [11, [("r0", 9), ("r1", 10)], [0, 0], [[1, 2, 3], [4, 5, 6]]]
    )


@pytest.mark.kata("level12.scheduler.Scheduler.schedule_waiting")
def test_waiting_ones_as_the_rules_say(expect):
    """250 states at random, by brute force: who is let in with how many tokens, and in which blocks."""
    assert vllm_agrees()

    def by_the_rules(cls):
        def rule(rules, budget):
            plan, left = rules.let_in(budget)
            return plan, [], left

        return first_wrong(cls, 2, 250, let_in, rule)

    expect.story(by_the_rules, Scheduler).equals({})


# ---- update


def steps(made, n, token=7):
    """(scheduled, preempted, finished) of n steps; every request is given the same token."""
    log = []
    for _ in range(n):
        out = made.schedule()
        tokens = dict.fromkeys(reversed(out.num_scheduled), token)  # their order says nothing
        log.append((dict(out.num_scheduled), list(out.preempted), made.update(out, tokens)))
    return log


def queue(cls, *prompts, blocks=11, size=4, budget=16, seqs=8, max_len=1000, options=(), **request):
    made = cls(blocks, size, budget, seqs, max_len, **dict(options))
    for i, prompt in enumerate(prompts):
        made.add(Tracked(f"r{i}", list(prompt), **request))
    return made


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_there_is_no_token_in_the_middle_of_a_prompt(expect):
    """A prompt of 10 under a budget of 4: chunks of 4, 4 and 2, and the first token in the third step. The rows in the
    middle of a prompt predict what is known already; a server that appends them sends them to the user. The sampler may
    have left those rows out, or not."""

    def lengths(given):
        def chunks_story(cls):
            made, lengths, ended = queue(cls, text(1, 10), budget=4), [], []
            for _ in range(4):
                out = made.schedule()
                ready = [id for id in out.num_scheduled if not made.sequences[id].pending]
                ended.append(made.update(out, dict.fromkeys(ready if given == "ready" else out.num_scheduled, 7)))
                lengths.append(len(made.sequences["r0"].output))
            return lengths, ended, made.sequences["r0"].output, made.sequences["r0"].computed

        return chunks_story

    for given in ("all", "ready"):
        expect.story(lengths(given), Scheduler).equals(([0, 0, 1, 2], [[], [], [], []], [7, 7], 11))

    def one_in_the_middle(cls):
        made = queue(cls, text(1, 3), text(2, 9), budget=8)
        out = made.schedule()
        ended = made.update(out, {"r0": 5, "r1": 6})
        return ended, [sequence.output for sequence in made.sequences.values()]

    expect.story(one_in_the_middle, Scheduler).equals(([], [[5], []]))


@pytest.mark.kata("level12.scheduler.Scheduler.update")
@pytest.mark.parametrize(
    "prompt, token, request_of, max_len, right",
    [
        (5, 7, {"limit": 3}, 1000, 3),
        (1, 7, {"limit": 1}, 1000, 1),
        (5, 7, {"limit": 9}, 8, 3),
        (1, 7, {"limit": 9}, 3, 2),
        (5, 7, {"limit": 9}, 6, 1),
        (5, 7, {"limit": 2}, 8, 2),
        (5, 7, {"limit": 9, "stop_ids": (3, 7)}, 1000, 1),
        (5, 0, {"limit": 9, "stop_ids": {0}}, 1000, 1),
        (5, 7, {"limit": 4, "stop_ids": [77, 3]}, 1000, 4),
        (5, 7, {"limit": 2, "stop_ids": [100]}, 1000, 2),
    ],
    ids=[
        "limit",
        "limit of one",
        "max_model_len",
        "max_model_len of prompt and output",
        "max_model_len of one more",
        "limit before max_model_len",
        "the second stop id",
        "stop id 0",
        "other stop ids",
        "stop id in the prompt",
    ],
)
def test_each_end(expect, prompt, token, request_of, max_len, right):
    """`limit` new tokens, max_model_len tokens in all, or a stop id, which is the last token of the output: whichever
    comes first. A request that does not end holds its blocks for ever, one that ends early is cut."""

    def its_end(cls):
        made = queue(cls, text(1, prompt), max_len=max_len, **request_of)
        [sequence] = made.sequences.values()
        ended = [step[2] for step in steps(made, right + 3, token)]
        return ended, sequence.output, list(made.sequences), len(made.running), len(made.waiting), made.kv.pool.num_free

    expect.story(its_end, Scheduler).equals(([[]] * (right - 1) + [["r0"], [], [], []], [token] * right, [], 0, 0, 10))


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_finished_ones_leave_in_the_order_of_the_batch(expect):
    """r2 and r0 end in one step, r1 goes on. r0 is freed first, its last block first: the ends of both texts will be
    forgotten before their beginnings, and r0 before r2. Its id and its place are free at once."""

    def two_end(cls):
        made = queue(cls, text(5, 8), text(2, 3), text(3, 5), seqs=3)
        for id, limit in (("r0", 2), ("r1", 9), ("r2", 2)):
            made.sequences[id].limit = limit
        made.add(Tracked("r3", text(4, 2)))
        log = steps(made, 2)
        after = made.kv.pool.free_ids(), [sequence.id for sequence in made.running]
        made.add(Tracked("r0", text(6, 1)))
        return log, after, steps(made, 1)

    expect.story(two_end, Scheduler).equals(
        (
            [({"r0": 8, "r1": 3, "r2": 5}, [], []), ({"r0": 1, "r1": 1, "r2": 1}, [], ["r0", "r2"])],
            ([5, 6, 7, 8, 9, 10, 2, 1, 4], ["r1"]),
            [({"r1": 1, "r3": 2, "r0": 1}, [], [])],
        )
    )


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_an_abort_leaves_nothing_behind(expect):
    """The client has gone: wherever the request is, its blocks are free, and those that others use stay. A second
    abort, or one of an unknown id, is nothing: the request may just have ended."""

    def aborted(*ids, before=1):
        def abort_story(cls):
            stem = text(1, 4)
            made = queue(cls, [*stem, 8], [*stem, 9, 9], text(2, 9), text(3, 2), budget=12, seqs=3)
            steps(made, before)
            for id in ids:
                made.abort(id)
            state = [[sequence.id for sequence in rows] for rows in (made.running, made.waiting)]
            tables = {id: made.kv.block_table(sequence) for id, sequence in made.sequences.items()}
            return *state, tables, made.kv.pool.free_ids()

        return abort_story

    everybody = {"r0": [1, 2], "r1": [1, 3], "r2": [4, 5], "r3": []}
    rest = {id: table for id, table in everybody.items() if id != "r0"}
    expect.story(aborted("r0"), Scheduler).equals((["r1", "r2"], ["r3"], rest, [2, 6, 7, 8, 9, 10]))
    expect.story(aborted("r3", "r3", "r9"), Scheduler).equals(
        (["r0", "r1", "r2"], [], {id: everybody[id] for id in ("r0", "r1", "r2")}, [6, 7, 8, 9, 10])
    )
    expect.story(aborted("r2", "r0", "r1"), Scheduler).equals(([], ["r3"], {"r3": []}, [3, 2, 5, 6, 7, 8, 9, 10, 4, 1]))
    expect.story(aborted("r1", "r0", before=0), Scheduler).equals(
        ([], ["r2", "r3"], {"r2": [], "r3": []}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    )

    def of_a_preempted_one(cls):
        made = queue(cls, text(1, 4), text(2, 4), blocks=3)
        log = steps(made, 2)
        made.abort("r1")
        return log, [sequence.id for sequence in made.running], len(made.waiting), made.kv.pool.free_ids()

    expect.story(of_a_preempted_one, Scheduler).equals(
        ([({"r0": 4, "r1": 4}, [], []), ({"r0": 1}, ["r1"], [])], ["r0"], 0, [])
    )


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_fifteen_steps_of_a_pool_for_two_by_hand(expect):
    """3 blocks of 4, at most 2 at once, 6 new tokens each. r0 takes the last block, so r1 leaves; it comes back with
    4 + 1 tokens when r0 has ended, beside r2, which leaves for it later and comes back with 3 + 2. Nobody loses a token
    that was sent."""

    def two_preemptions(cls):
        made = queue(cls, text(1, 4), text(2, 4), text(3, 3), blocks=4, seqs=2, limit=6)
        outputs = [sequence.output for sequence in made.sequences.values()]
        return steps(made, 15), [len(output) for output in outputs], list(made.sequences), made.kv.pool.num_free

    def one(id, times, tokens=1):
        return [({id: tokens}, [], [])] * times

    right = [({"r0": 4, "r1": 4}, [], []), ({"r0": 1}, ["r1"], []), *one("r0", 3), ({"r0": 1}, [], ["r0"])]
    right += [({"r1": 5, "r2": 3}, [], []), ({"r1": 1, "r2": 1}, [], []), ({"r1": 1}, ["r2"], []), *one("r1", 1)]
    right += [({"r1": 1}, [], ["r1"]), *one("r2", 1, 5), *one("r2", 2), ({"r2": 1}, [], ["r2"])]
    expect.story(two_preemptions, Scheduler).equals((right, [6, 6, 6], [], 3))


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_a_reserve_by_hand(expect):
    """5 blocks of 4, a budget of 6, two prompts of 9, three new tokens each. With a reserve r1, of 3 blocks, waits
    while r0 holds 3. Without, it is let in with the 3 tokens that the second step has left, and leaves in the fourth,
    when its ninth token wants a block; then r0 ends, and r1 finds its own 8 tokens in the cache."""

    def reserve(full):
        def reserve_story(cls):
            made = queue(cls, text(1, 9), text(2, 9), blocks=6, budget=6, limit=3, options={"reserve_full": full})
            return [step for step in steps(made, 12) if any(step)]

        return reserve_story

    def planned(*pairs, preempted=(), ended=()):
        return dict(pairs), list(preempted), list(ended)

    def alone(id):
        return [planned((id, 6)), planned((id, 3)), planned((id, 1)), planned((id, 1), ended=[id])]

    expect.story(reserve(True), Scheduler).equals(alone("r0") + alone("r1"))
    right = [planned(("r0", 6)), planned(("r0", 3), ("r1", 3)), planned(("r0", 1), ("r1", 5))]
    right += [planned(("r0", 1), preempted=["r1"], ended=["r0"]), planned(("r1", 1)), planned(("r1", 1))]
    expect.story(reserve(False), Scheduler).equals([*right, planned(("r1", 1), ended=["r1"])])


def whole_runs(cls, seeds):
    """{} if schedulers do what the rules say, step by step, while requests come, end and are aborted."""
    for seed in seeds:
        draw = random.Random(seed)
        size, caching, reserve = draw.choice([2, 3, 4]), draw.random() < 0.8, draw.random() < 0.5
        blocks, budget, seqs, threshold = (
            draw.randint(6, 12),
            draw.choice([3, 6, 20]),
            draw.choice([2, 4]),
            seed % 3 * 2,
        )
        max_len, stem = (blocks - 1) * size, [draw.randrange(3) for _ in range(3 * size)]
        rules = Rules(blocks, size, budget, seqs, max_len, caching, reserve, threshold)
        options = {"enable_caching": caching, "reserve_full": reserve, "long_prefill_threshold": threshold}
        made = queue(cls, blocks=blocks, size=size, budget=budget, seqs=seqs, max_len=max_len, options=options)
        for number in range(25):
            if draw.random() < 0.4:
                prompt = stem[: draw.randrange(len(stem))] + [draw.randrange(3) for _ in range(draw.randint(1, 4))]
                limit, stop = draw.randint(1, 6), draw.choice([(), (), (2,)])
                if len(prompt) < max_len:
                    rules.add(f"r{number}", prompt, (), limit, stop)
                    made.add(Tracked(f"r{number}", prompt, limit=limit, stop_ids=stop))
            if draw.random() < 0.1 and rules.line:
                gone = draw.choice(rules.line).id
                rules.drop(gone)
                made.abort(gone)
            rows = {row.id: list(row.text) for row in rules.line}
            right = rules.step(sample)
            out = made.schedule()
            ended = made.update(out, {id: sample(rows.get(id, [])) for id in out.num_scheduled})
            scheduled = [list(pair) for pair in out.num_scheduled.items()]
            columns = scheduled, sorted(out.preempted), made.kv.pool.free_ids(), sorted(ended), out.tables
            for column, yours in zip(right, columns):
                if yours != right[column]:
                    return {"seed": seed, "step": number, "column": column, "yours": yours, "right": right[column]}
    return {}


def sample(tokens):
    """A next token that depends on all before it."""
    return (sum((i + 1) * token for i, token in enumerate(tokens)) + len(tokens)) % 3


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def test_whole_runs_as_the_rules_say(expect):
    """40 runs at random, by brute force: requests come and go while the pool is too small for them."""
    assert vllm_agrees()

    def by_the_rules(cls):
        return whole_runs(cls, range(40))

    expect.story(by_the_rules, Scheduler).equals({})
