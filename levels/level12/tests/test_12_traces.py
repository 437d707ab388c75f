"""Judges the whole scheduler: by what vLLM 0.33.0 did, step by step, and by a long run in which nothing may get lost.

vllm_0_33_0_traces.json says where it comes from. Of each step five columns are compared: the tokens of each request in
the order of the batch, who was preempted, the block tables, who has finished, and the order of the free queue.
"""

import json
import random
from pathlib import Path

import pytest

from level12.scheduler import Scheduler
from level12.state import Tracked
from level12.traces import first_difference, replay

TRACES = json.loads(Path(__file__).with_name("vllm_0_33_0_traces.json").read_text(encoding="utf-8"))["traces"]


def preempts(trace):
    return any(step["preempted"] for step in trace["steps"])


def shares(trace):
    """Two tables of a step begin with the same block."""
    firsts = [[table[0] for table in step["tables"].values()] for step in trace["steps"]]
    return any(len(set(blocks)) < len(blocks) for blocks in firsts)


def group(trace):
    """Each trace stands in one group, by the first of these that it has."""
    if not trace["enable_caching"]:
        return "no caching"
    if preempts(trace):
        return "preemption and threshold" if trace["long_prefill_threshold"] else "preemption"
    if trace["long_prefill_threshold"]:
        return "threshold"
    return "shared beginnings" if shares(trace) else "chunks and ends"


GROUPS = "chunks and ends", "shared beginnings", "threshold", "no caching", "preemption", "preemption and threshold"


@pytest.mark.kata("level12.scheduler.Scheduler.update")
@pytest.mark.parametrize("name", GROUPS)
def test_every_step_is_vllms(expect, name):
    """The same requests under the same settings: vLLM's own scheduler is the oracle for each decision, down to the
    order in which freed blocks will be given away."""
    number_of = {i: trace for i, trace in enumerate(TRACES) if group(trace) == name}
    chosen = sorted(number_of.items(), key=lambda item: (len(item[1]["steps"]), len(item[1]["prompts"])))

    def the_traces(cls):
        for number, trace in chosen:
            if difference := first_difference(trace["steps"], replay(trace, cls)):
                return f"trace {number}, {difference}"
        return ""

    expect.story(the_traces, Scheduler).holds(
        lambda difference: difference or True,
        f"each of the {len(chosen)} traces ({name}) is vLLM's in all five columns",
    )


def next_token(tokens):
    """The stand-in for a model: a token that depends on all before it."""
    return (tokens[-1] * 7 + len(tokens) * 3 + tokens[len(tokens) // 2]) % 11


def alone(prompt, limit, stop):
    """The output of a request that has the server to itself."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + limit:
        tokens.append(next_token(tokens))
        if tokens[-1] in stop:
            break
    return tokens[len(prompt) :]


def broken(made, live):
    """What is not as it must be: a block is null, free or in tables, and has as many users as it is in tables."""
    pool, users = made.kv.pool, {}
    for sequence in live.values():
        table = made.kv.block_table(sequence)
        if len(set(table)) < len(table):
            return f"{sequence.id} has a block twice"
        for block in table:
            users[block] = users.get(block, 0) + 1
    free = pool.free_ids()
    if sorted([*free, *users]) != list(range(1, pool.num_blocks)):
        return f"{sorted(free)} are free, {sorted(users)} are in tables, of {pool.num_blocks - 1}"
    if any(pool.ref_count(block) != users.get(block, 0) for block in range(1, pool.num_blocks)):
        return "a block has other users than the tables say"
    if [sequence.id for sequence in [*made.running, *made.waiting]] != list(live):
        return "those that run and then those that wait are not in the order in which they came"
    return ""


def serve(made, requests, draw, aborts):
    """Why it went wrong, or "", and how many ended by themselves.

    `memory` stands for the keys and values: for each slot the hash of the text up to its token. What a step reads must
    be its own text, whoever has written it.
    """
    size, memory, live, done = made.kv.block_size, {}, {}, 0
    come = iter(requests)
    ahead = next(come)
    for number in range(20 * len(requests)):
        while ahead and draw.random() < 0.5:
            id, prompt, limit, stop = ahead
            live[id] = Tracked(id, list(prompt), limit=limit, stop_ids=stop)
            made.add(live[id])
            ahead = next(come, None)
        if live and draw.random() < aborts:
            id = draw.choice(list(live))
            made.abort(id)
            del live[id]
        if not live and not ahead:
            return "" if not made.sequences and not broken(made, live) else "something is left at the end", done
        out = made.schedule()
        if sum(out.num_scheduled.values()) > made.max_num_batched_tokens or len(made.running) > made.max_num_seqs:
            return f"step {number}: more than the budget, or more sequences than max_num_seqs", done
        if live and not out.num_scheduled:
            return f"step {number}: nobody runs, and {len(live)} are there", done
        for write in (True, False):
            for id, n in out.num_scheduled.items():
                row, table, start = live[id].tokens, out.tables[id], out.starts[id]
                prefixes = [hash(tuple(row[: p + 1])) for p in range(start if write else 0, start + n)]
                slots = [(table[p // size], p % size) for p in range(start if write else 0, start + n)]
                if write:
                    memory.update(zip(slots, prefixes))
                elif [memory.get(slot) for slot in slots] != prefixes:
                    return f"step {number}: {id} reads keys and values of another text", done
        ready = [id for id in out.num_scheduled if not live[id].pending]
        for id in made.update(out, {id: next_token(live[id].tokens) for id in ready}):
            prompt, limit, stop = requests[int(id[1:])][1:]
            if live.pop(id).output != alone(prompt, limit, stop):
                return f"step {number}: {id} has not the tokens that it gets alone", done
            done += 1
        if wrong := broken(made, live):
            return f"step {number}: {wrong}", done
    return "too many steps", done


def thousand(draw, n, room):
    """Requests r0, r1, …: prompts of which many begin alike, and never more tokens than the pool has room for."""
    stems = [[draw.randrange(11) for _ in range(24)] for _ in range(3)]
    for i in range(n):
        prompt = draw.choice(stems)[: draw.randrange(24)] + [draw.randrange(11) for _ in range(draw.randint(1, 8))]
        yield f"r{i}", prompt, draw.randint(1, min(12, room - len(prompt))), draw.choice([(), (), (3,)])


@pytest.mark.kata("level12.scheduler.Scheduler.update")
@pytest.mark.parametrize(
    "n, seed, aborts, options",
    [
        (60, 1, 0.0, {}),
        (60, 2, 0.1, {"enable_caching": False}),
        (60, 3, 0.1, {"reserve_full": False, "long_prefill_threshold": 5}),
        (1000, 4, 0.05, {}),
    ],
    ids=["no aborts", "no caching", "no reserve", "1000 requests"],
)
def test_no_token_and_no_block_gets_lost(expect, n, seed, aborts, options):
    """Random arrivals and aborts in a pool too small for all of them: each block is free or somebody's, the order of
    arrival is kept, nobody reads another one's text, everybody gets the tokens that it would get alone, and at the end
    the pool is whole."""
    requests = list(thousand(random.Random(seed), n, room=60))

    def a_long_run(cls):
        return serve(cls(17, 4, 20, 5, 61, **options), requests, random.Random(seed), aborts)

    expect.story(a_long_run, Scheduler).holds(
        lambda got: got[0] or (got[1] == n if not aborts else 0.6 * n < got[1] < n),
        "every request that was not aborted ends, and nothing is wrong on the way",
    )
