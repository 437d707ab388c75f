"""The negative controls of level 04's checkpoint: what it refuses, and the right programs that it accepts."""

from functools import partial

import pytest

from dojo.cost import count
from dojo.models import load, matrices
from dojo.roofline import CLOCK, Gemm, Gemv, Sweep, judge, one_thread
from tests.controls import checkpoint_of, copying, solutions_of
from tests.test_level01_controls import head_by_head, repeated

PROBES = "test_your_probes_find_the_roofs_that_others_find"
MBU = "test_the_mbu_of_a_real_step_is_a_share"


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level04"):
        yield checkpoint_of("level04")


@pytest.fixture(scope="module")
def sweep(checkpoint):
    return Sweep(matrices(load()[1]), checkpoint.BATCH)


def step(checkpoint, batch, **seams):
    return checkpoint.stepping(load(), batch, partial(checkpoint.forward, **seams))


def one_by_one(checkpoint):
    """The same tokens, a sequence at a time: the weights are read for each."""
    one = step(checkpoint, 1)
    return lambda: [one() for _ in range(checkpoint.BATCH)]


def predicted(checkpoint, batch=None):
    return checkpoint.decode_step_cost(load()[0], batch or checkpoint.BATCH, checkpoint.CONTEXT, 4, 4)


def says(checkpoint, test, *args):
    """What a test of the checkpoint raises: "" when it passes."""
    try:
        getattr(checkpoint, test)(*args)
    except (Exception, pytest.fail.Exception) as error:
        return str(error)
    return ""


# ---- the roofline


def test_one_sequence_after_the_other_is_too_slow(checkpoint, sweep):
    slow = judge(one_by_one(checkpoint), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(step(checkpoint, checkpoint.BATCH), sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


@pytest.mark.parametrize("attend", [head_by_head, repeated])
def test_other_right_attentions_pass_the_clock_and_the_counts(checkpoint, sweep, attend):
    slower = step(checkpoint, checkpoint.BATCH, attend=attend)
    cost, right = count(slower), predicted(checkpoint)
    assert cost.flops == right["flops"] and cost.bytes_read < checkpoint.MOST_READ * right["bytes"]
    assert (cost.result - step(checkpoint, checkpoint.BATCH)()).abs().max() < 1e-2, (
        "a random cache: the logits are large"
    )
    verdict = judge(slower, sweep, need=checkpoint.NEED)
    assert verdict.state == "pass", str(verdict)


def test_copied_weights_or_single_sequences_read_too_much(checkpoint):
    most = checkpoint.MOST_READ * predicted(checkpoint)["bytes"]
    assert count(step(checkpoint, checkpoint.BATCH, linear=copying)).bytes_read > most
    assert checkpoint.BATCH * count(step(checkpoint, 1)).bytes_read > 4 * most


# ---- the probes


def test_a_probe_that_fits_into_the_cache_is_refused(checkpoint, monkeypatch):
    true = checkpoint.read_bandwidth
    monkeypatch.setattr(checkpoint, "read_bandwidth", lambda n_bytes, **how: true(2**20, rounds=20, clock=CLOCK))
    assert "your bandwidth over that of another probe of 192 MiB" in says(checkpoint, PROBES)


@pytest.mark.parametrize("wrong", [1 / 2, 1 / 8, 8])
def test_products_that_are_miscounted_are_refused(checkpoint, monkeypatch, wrong):
    true = checkpoint.gemm_flops
    monkeypatch.setattr(checkpoint, "gemm_flops", lambda n, **how: wrong * true(n, **how))
    assert "your FLOP/s over those of another product" in says(checkpoint, PROBES)


def test_the_probes_of_the_solution_find_what_others_find(checkpoint):
    assert says(checkpoint, PROBES) == ""
    with one_thread():
        here, gemv, gemm = checkpoint.roofs(), Gemv(), Gemm()
        bandwidth = gemv.bytes / checkpoint.best_time(gemv, clock=CLOCK)
        flops = gemm.flops / checkpoint.best_time(gemm, clock=CLOCK)
    assert 0.6 < here.bandwidth / bandwidth < 1.6 and 0.6 < here.peak_flops / flops < 1.6


def test_an_mbu_of_tokens_and_not_of_steps_is_refused(checkpoint, monkeypatch):
    true = checkpoint.mbu
    monkeypatch.setattr(checkpoint, "mbu", lambda speed, batch, n_bytes, here: true(speed, 1, n_bytes, here))
    assert says(checkpoint, MBU, load(), 1) == ""
    assert "MBU of a step with 8 sequences" in says(checkpoint, MBU, load(), 8)


def test_an_unsteady_machine_leaves_the_question_open(checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoint, "unsteadiness", lambda call: 1.7)
    with pytest.raises(pytest.skip.Exception, match="inconclusive: the machine is unsteady"):
        checkpoint.within(lambda: 3.0, 0.5, 2, "a ratio")
    monkeypatch.setattr(checkpoint, "unsteadiness", lambda call: 1.1)
    with pytest.raises(pytest.fail.Exception, match="a ratio: 3.00, 3.00, 3.00, not 0.5 to 2"):
        checkpoint.within(lambda: 3.0, 0.5, 2, "a ratio")
    ratios = iter([3.0, 2.5, 1.5])
    checkpoint.within(lambda: next(ratios), 0.5, 2, "a ratio")
