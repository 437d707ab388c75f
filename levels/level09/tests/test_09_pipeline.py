"""Judges pipeline.py by simulating the stages step by step, by composing them on one rank, and by level 00's model.

What each rank receives and sends is written down by a Comm of the tests, around the one that moves it.
"""

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import hidden_states
from level09.comm import Comm
from level09.pipeline import bubble_fraction, layer_stage, pipeline_run, pipeline_schedule, stage_ranges
from level09.threads import run_threads

EXACT = {"rel": 0, "abs": 0}
SIZES = pytest.mark.parametrize("size", [3, 2, 4, 1])


# ---- pipeline_schedule


def simulated(num_stages, num_micro_batches):
    """Oracle: in each step every stage takes its next micro-batch, if the stage before had it in an earlier step."""
    done, rows = [0] * num_stages, []
    while done[-1] < num_micro_batches:
        ready = [num_micro_batches, *done[:-1]]  # how many have left the stage before
        row = [mine if mine < there else None for mine, there in zip(done, ready)]
        done = [mine + (m is not None) for mine, m in zip(done, row)]
        rows.append(row)
    return rows


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
def test_each_micro_batch_is_one_stage_further_in_each_step(expect):
    """The docstring's example by hand: while stage 1 has micro-batch 0, stage 0 has 1 already."""
    expect(pipeline_schedule, 2, 3).equals([[0, None], [1, 0], [2, 1], [None, 2]])
    expect(pipeline_schedule, 3, 2).equals([[0, None, None], [1, 0, None], [None, 1, 0], [None, None, 1]])


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
def test_as_early_as_it_can_be_there(expect):
    """Oracle: a simulation, for all small numbers; more stages than micro-batches and fewer. A step too many is idle
    GPUs in every batch."""
    for num_stages in range(1, 7):
        for num_micro_batches in range(1, 7):
            right = simulated(num_stages, num_micro_batches)
            expect(pipeline_schedule, num_stages, num_micro_batches).equals(right)


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
@pytest.mark.parametrize(
    "case, right",
    [((2, 3), 0.25), ((4, 8), 3 / 11), ((4, 1), 0.75), ((1, 5), 0.0), ((4, 16), 3 / 19), ((4, 27), 0.1), ((3, 2), 0.5)],
    ids=str,
)
def test_the_bubble_is_what_stands_idle(expect, case, right):
    """By hand: 2 stages and 3 micro-batches have 8 entries, 2 of them None. One micro-batch on 4 GPUs leaves three
    quarters idle: there is no backward pass, but the pipe fills and drains all the same."""
    expect(bubble_fraction, *case).equals(right, rel=1e-12, abs=1e-12)


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
def test_the_bubble_of_every_small_schedule(expect):
    """Oracle: idle entries of the simulation, counted."""
    for num_stages in range(1, 6):
        for num_micro_batches in range(1, 8):
            entries = [m for row in simulated(num_stages, num_micro_batches) for m in row]
            right = entries.count(None) / len(entries)
            expect(bubble_fraction, num_stages, num_micro_batches).equals(right, rel=1e-12, abs=1e-12)


def shared_out(n_layers, num_stages):
    """A check: so many ranges that hold all layers once, in order, with nearly as many each."""

    def check(ranges):
        if not isinstance(ranges, list) or not all(isinstance(r, range) for r in ranges):
            return "a list of ranges"
        lengths = [len(r) for r in ranges]
        whole = [layer for r in ranges for layer in r] == list(range(n_layers))
        return whole and len(ranges) == num_stages and max(lengths) - min(lengths) <= 1

    return check


SHARED_OUT = "as many ranges as stages hold every layer once, in order, and lengths differ by at most 1"


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
@pytest.mark.parametrize("n_layers, num_stages", [(7, 3), (30, 4), (5, 4), (2, 2), (8, 1), (12, 3), (61, 16)], ids=str)
def test_every_layer_is_on_one_stage(expect, n_layers, num_stages):
    """SmolLM2's 30 layers on 4 ranks are 7, 7, 8 and 8, in any order: with 7, 7, 7 and 9 all wait for the ninth."""
    expect(stage_ranges, n_layers, num_stages).holds(shared_out(n_layers, num_stages), SHARED_OUT)


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
def test_every_number_of_layers_and_stages(expect):
    """The slowest stage sets the pace of all. Where the layers divide evenly there is no choice."""
    expect(stage_ranges, 6, 3).equals([range(0, 2), range(2, 4), range(4, 6)])
    for n_layers in range(1, 25):
        for num_stages in range(1, n_layers + 1):
            expect(stage_ranges, n_layers, num_stages).holds(shared_out(n_layers, num_stages), SHARED_OUT)


@pytest.mark.kata("level09.pipeline.pipeline_schedule")
def test_nothing_to_do_is_refused(expect):
    """A stage without a layer is a GPU that only passes messages on."""
    expect(stage_ranges, 2, 2).equals([range(0, 1), range(1, 2)])
    for case in ((2, 3), (2, 0), (0, 1), (3, -1)):
        expect(stage_ranges, *case).raises(ValueError)
    for case in ((0, 1), (1, 0), (-1, 3), (2, -2)):
        expect(pipeline_schedule, *case).raises(ValueError)
        expect(bubble_fraction, *case).raises(ValueError)


# ---- pipeline_run


def ranks(size, live):
    """A story: [live(comm, kata) of rank 0, of rank 1, ...]."""

    def on_ranks(fn):
        return run_threads(live, size, fn)

    on_ranks.__name__ = f"on_{size}_ranks"
    return on_ranks


def inputs(comm, micro_batches):
    """They are on rank 0; the others have nothing to look at."""
    return [x.clone() for x in micro_batches] if comm.rank == 0 else None


def composed(micro_batches, stages):
    """Oracle: all stages, one after the other, on each micro-batch."""
    outputs = []
    for x in micro_batches:
        for stage in stages:
            x = stage(x)
        outputs.append(x)
    return outputs


@pytest.mark.kata("level09.pipeline.pipeline_run")
@SIZES
def test_all_stages_in_the_order_of_the_ranks(expect, size):
    """x -> (r + 2) x + r on rank r: no other order gives the same, nor does a stage left out or done twice. Results are
    on the last rank only, in the order of the inputs; a rank alone is first and last."""
    stages = [lambda x, r=r: x * (r + 2) + r for r in range(size)]
    micro_batches = [torch.tensor([5, -1]), torch.tensor([2, 7]), torch.tensor([0, 3]), torch.tensor([2, 8])]

    def live(comm, fn):
        return fn(comm, stages[comm.rank], inputs(comm, micro_batches), 4, (2,), torch.int64)

    right = [[]] * (size - 1) + [composed(micro_batches, stages)]
    expect.story(ranks(size, live), pipeline_run).equals(right)


class Watched(Comm):
    """Counts what has come and gone so far, around a rank's own links."""

    def __init__(self, comm):
        super().__init__(comm.rank, comm.size)
        self.links, self.come, self.gone, self.gone_at = comm, 0, 0, []

    def _exchange(self, outgoing, incoming):
        if incoming is not None:
            self.gone_at.append(self.gone + (outgoing is not None))
        received = self.links._exchange(outgoing, incoming)
        self.come += incoming is not None
        self.gone += outgoing is not None
        return received


@pytest.mark.kata("level09.pipeline.pipeline_run")
@pytest.mark.parametrize("num_micro_batches", [4, 1, 2])
@SIZES
def test_a_micro_batch_is_passed_on_before_the_next_one_begins(expect, size, num_micro_batches):
    """At its call m a stage has passed m on and has received m + 1, the one in its hands. A rank that computes all
    first lets the next one wait, with all batches in its memory; one that reads ahead holds two."""

    def live(comm, fn):
        watched, calls = Watched(comm), []

        def stage(x):
            calls.append({"received": watched.come, "sent": watched.gone})
            return x + 1

        fn(watched, stage, inputs(comm, [torch.zeros(3)] * num_micro_batches), num_micro_batches, (3,), torch.float32)
        return calls

    right = [
        [{"received": m + 1 if r > 0 else 0, "sent": m if r < size - 1 else 0} for m in range(num_micro_batches)]
        for r in range(size)
    ]
    expect.story(ranks(size, live), pipeline_run).equals(right)


@pytest.mark.kata("level09.pipeline.pipeline_run")
@pytest.mark.parametrize("num_micro_batches", [4, 1, 2])
@SIZES
def test_a_micro_batch_is_passed_on_before_the_next_one_is_taken(expect, size, num_micro_batches):
    """When a rank asks for m + 1, it has sent m, or sends it in the same exchange. Whoever takes the next one first
    holds two, and the next rank waits: each micro-batch then takes two steps on a stage."""

    def live(comm, fn):
        watched = Watched(comm)
        batches = inputs(comm, [torch.zeros(3)] * num_micro_batches)
        fn(watched, torch.cos, batches, num_micro_batches, (3,), torch.float32)
        return watched.gone_at

    sent = list(range(num_micro_batches))
    right = [[] if r == 0 else sent if r < size - 1 else [0] * len(sent) for r in range(size)]
    expect.story(ranks(size, live), pipeline_run).equals(right)


@pytest.mark.kata("level09.pipeline.pipeline_run")
@SIZES
def test_every_result_is_sent_once(expect, size):
    """5 micro-batches of 6 float64 numbers: 5 messages of 48 bytes from each rank but the last, which sends nothing;
    results that go back to rank 0, or to all, are as much again."""

    def live(comm, fn):
        fn(comm, torch.sin, inputs(comm, [torch.ones(2, 3).double()] * 5), 5, (2, 3), torch.float64)
        return comm.bytes_sent, comm.messages

    right = [(5 * 48, 5)] * (size - 1) + [(0, 0)]
    expect.story(ranks(size, live), pipeline_run).equals(right)


@pytest.mark.kata("level09.pipeline.pipeline_run")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 4), (5,), ()], ids=str)
def test_shape_and_dtype_are_known_to_every_rank(expect, shape, dtype):
    """A message does not say what it is: bfloat16 read as float32 would be half as many numbers, all of them wrong."""
    length = max(1, torch.Size(shape).numel())
    micro_batches = [((torch.arange(length) + 2**53 - m) / 7).to(dtype).view(shape) for m in (1, 9)]

    def stage(x):
        assert (tuple(x.shape), x.dtype) == (shape, dtype), f"a stage is given {tuple(x.shape)} {x.dtype}"
        return -x

    def live(comm, fn):
        return fn(comm, stage, inputs(comm, micro_batches), 2, shape, dtype)

    for size in (4, 1):
        right = [[]] * (size - 1) + [composed(micro_batches, [stage] * size)]
        expect.story(ranks(size, live), pipeline_run).equals(right, **EXACT)


@pytest.mark.kata("level09.pipeline.pipeline_run")
@SIZES
def test_the_inputs_stay_as_they_are(expect, size):
    """They are the requests' prompts: a list that is emptied, or a tensor that is written over, is gone for a retry."""

    def live(comm, fn):
        mine = inputs(comm, [torch.tensor([4.0]), torch.tensor([6.0]), torch.tensor([9.0])])
        fn(comm, lambda x: x * 2, mine, 3, (1,), torch.float32)
        return mine

    right = [[torch.tensor([4.0]), torch.tensor([6.0]), torch.tensor([9.0])]] + [None] * (size - 1)
    expect.story(ranks(size, live), pipeline_run).equals(right, **EXACT)


@pytest.mark.kata("level09.pipeline.pipeline_run")
@pytest.mark.parametrize(
    "stages", [[range(0, 1), range(1, 3), range(3, 4)], [range(0, 3), range(3, 4)], [range(0, 4)]], ids=len
)
def test_a_models_layers_on_several_ranks(expect, stages):
    """Oracle: level 00's hidden states of the whole model. The embedding is before the pipe; the final norm, x over
    its root mean square, behind it."""
    config = Config(4, 16, 2, 1, 8, 24, 32, max_seq_len=16)
    params = random_params(config, 5)
    prompts = [torch.tensor([[1, 2, 3, 4, 9]]) + shift for shift in (0, 5, 20)]

    def live(comm, fn):
        embedded = [params["model.embed_tokens.weight"][ids] for ids in prompts]
        layers = layer_stage(params, config, stages[comm.rank])
        return fn(comm, layers, inputs(comm, embedded), 3, (1, 5, 16), torch.float32)

    def normed(results):
        scale = params["model.norm.weight"]
        return [scale * x * (x.pow(2).mean(-1, keepdim=True) + config.norm_eps).rsqrt() for x in results[-1]]

    right = [hidden_states(params, config, ids) for ids in prompts]

    def same(results):
        found = normed(results)
        return len(found) == 3 and all(torch.allclose(x, y, rtol=1e-4, atol=1e-5) for x, y in zip(found, right))

    story = expect.story(ranks(len(stages), live), pipeline_run)
    story.holds(same, "the last rank has the hidden states of the whole model")
