"""The power pellet of level 12: your engine serves SmolLM2-135M from one pool of blocks that is too small for all.

The stored answers were made by transformers' generate, each request alone; smollm2.json says which version. The best
logit leads by 0.02 or more at each of their steps, some hundred times what another order of additions changes. Equal
answers say nothing about how they came about, so steps, tokens, preemptions, blocks and bytes are counted as well.
"""

import json
import random
from pathlib import Path

import pytest
import torch

from dojo.cost import count
from dojo.models import load, matrices
from dojo.roofline import Sweep
from level03.sampler import SamplingParams
from level12.engine import Engine, Request
from level12.scheduler import Scheduler

LEVELS = Path(__file__).parents[2]
SHARED = json.loads((Path(__file__).parent / "smollm2.json").read_text(encoding="utf-8"))["requests"]
OTHERS = json.loads((LEVELS / "level05" / "checkpoint" / "smollm2.json").read_text(encoding="utf-8"))["requests"]
BLOCK, MAX_TOKENS = 16, 24
SEQS, CONTEXT = 16, 48  # of the step that is measured
MOST_READ = 1.6  # times the weights: a right step reads 1.1 times as much, one that copies them 2 times
NEED = 0.25  # of the sweep with 16 rows: right steps reach 0.46 to 0.82, one sequence after the other 0.11


@pytest.fixture(scope="module")
def model():
    return load()


def asked(i: int) -> Request:
    """One of the four whose prompts begin alike; no token ends it."""
    return Request(f"r{i}", SHARED[i]["ids"], SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS))


def others(eos_id: int) -> list[Request]:
    """Level 05's five, of all lengths."""
    return [
        Request(name, one["ids"], SamplingParams(temperature=0.0, max_tokens=one["max_tokens"]), {eos_id})
        for name, one in OTHERS.items()
    ]


def engine_of(model, num_blocks: int, max_seqs: int = 8, budget: int = 4096) -> Engine:
    config, params, _ = model
    return Engine(params, config, Scheduler(num_blocks, BLOCK, budget, max_seqs))


class Watched:
    """An engine whose steps are noted: how many tokens run in each, and who is preempted."""

    def __init__(self, engine: Engine):
        self.engine, self.sizes, self.preempted, self.outputs = engine, [], [], {}
        schedule = engine.scheduler.schedule

        def noting():
            out = schedule()
            self.sizes.append(sum(out.num_scheduled.values()))
            self.preempted += out.preempted
            return out

        engine.scheduler.schedule = noting

    @torch.inference_mode()
    def step(self) -> None:
        for id, token, _ in self.engine.step():
            self.outputs.setdefault(id, []).append(token)
        assert len(self.sizes) < 1000, "after 1,000 steps a few short requests are not done"

    def run(self) -> "Watched":
        while self.engine.unfinished:
            self.step()
        return self

    @property
    def free(self) -> int:
        return self.engine.scheduler.kv.pool.num_free


# ---- the same words from a pool that is too small


@pytest.mark.kata("level12.checkpoint")
@pytest.mark.parametrize("num_blocks, steps, tokens, preempted", [(24, 24, 228, 0), (13, 41, 276, 2), (12, 42, 260, 3)])
def test_everybody_gets_the_tokens_that_another_implementation_gives(
    expect, model, num_blocks, steps, tokens, preempted
):
    """Oracle: transformers' generate; steps and tokens are those that vLLM 0.33.0's rules give on paper."""

    def served(num_blocks):
        watched = Watched(engine_of(model, num_blocks))
        for i in range(4):
            watched.engine.add(asked(i))
        watched.run()
        counted = {"steps": len(watched.sizes), "tokens": sum(watched.sizes), "preemptions": len(watched.preempted)}
        return [watched.outputs[f"r{i}"] for i in range(4)], counted, watched.sizes[0], watched.free

    counted = {"steps": steps, "tokens": tokens, "preemptions": preempted}
    answers = [one["answer"] for one in SHARED]
    # 106 tokens of the first prompt, and 10 of each other one: the same step finds the first one's blocks
    expect(served, num_blocks).equals((answers, counted, 106 + 3 * 10, num_blocks - 1))


@pytest.mark.kata("level12.checkpoint")
@pytest.mark.parametrize("seed", [0, 1])
def test_whoever_comes_and_goes_gets_what_is_his_and_no_block_is_lost(expect, model, seed):
    """Nine requests at random times, 40 tokens a step, 14 blocks; two are aborted wherever they are then."""
    requests = [asked(i) for i in range(4)] + others(model[2]["eos_id"])
    rng = random.Random(seed)
    rng.shuffle(requests)
    gone = {request.id: rng.randint(1, 8) for request in requests[1:4:2]}  # id -> steps until its client leaves
    right = {f"r{i}": one["answer"] for i, one in enumerate(SHARED)} | {k: one["answer"] for k, one in OTHERS.items()}

    def served():
        watched, waiting, since = Watched(engine_of(model, 14, 4, 40)), list(requests), {}
        while waiting or watched.engine.unfinished:
            if waiting and rng.random() < 0.5:
                watched.engine.add(waiting[0])
                since[waiting.pop(0).id] = len(watched.sizes)
            for id, steps in gone.items():
                if id in since and len(watched.sizes) - since[id] == steps:
                    watched.engine.abort(id)
            watched.step()
        told = {id: watched.outputs.get(id, []) for id in right}
        whole = {id: tokens for id, tokens in told.items() if id not in gone}
        begun = all(tokens == right[id][: len(tokens)] for id, tokens in told.items())
        return whole, begun, watched.free

    expect(served).equals(({id: tokens for id, tokens in right.items() if id not in gone}, True, 13))


# ---- the work


def decoding(model, seqs: int = SEQS, max_seqs: int = SEQS) -> Engine:
    """An engine in which so many sequences decode behind CONTEXT tokens, each for as long as anybody asks."""
    draw = random.Random(0)
    engine = engine_of(model, seqs * 20 + 1, max_seqs)
    for i in range(seqs):
        prompt = [draw.randrange(1000, 40000) for _ in range(CONTEXT)]
        engine.add(Request(f"s{i}", prompt, SamplingParams(temperature=0.0, max_tokens=200)))
    with torch.inference_mode():
        engine.step()
    return engine


def stepping(engine: Engine):
    """Its step, in which every sequence must get a token: one that is done costs nothing."""

    def step():
        assert len(engine.step()) == len(engine.scheduler.running), "every sequence gets a token in every step"
        assert engine.unfinished, "all sequences are done: there is nothing to measure"

    return step


@pytest.mark.kata("level12.checkpoint")
def test_a_step_of_sixteen_reads_each_weight_once(expect, model):
    """538 MB, and 16 short contexts beside them: the whole point of running them together."""
    engine, weights = decoding(model), sum(w.numel() * w.element_size() for w in matrices(model[1]))

    def share():
        with torch.inference_mode():
            return count(engine.step).bytes_read / weights

    expect(share).holds(
        lambda times: 1 <= times <= MOST_READ,
        f"a step reads the weights once, at most {MOST_READ} times with what attention reads and copies",
    )


@pytest.mark.kata("level12.checkpoint")
@torch.inference_mode()
def test_a_step_of_sixteen_is_as_fast_as_its_matrices(roofline, model):
    """Plan, batch, attention from blocks, choice and update, all beside the products with 16 rows."""
    engine, sweep = decoding(model), Sweep(matrices(model[1]), SEQS)
    roofline(
        stepping(engine),
        sweep,
        need=NEED,
        flops=sweep.flops,
        bytes=sweep.bytes,
        name=f"a step of {SEQS} sequences from one pool",
    )
