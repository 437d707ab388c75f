"""The negative controls of level 09's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.models import load
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(10)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level09")


def rank_alone(checkpoint):
    """(a rank's decode step, its reference)"""
    step, own, _ = checkpoint.on_rank(checkpoint.Echo(), load())
    return step, checkpoint.reading(own)


def whole_model(checkpoint):
    """A decode step of the whole model, as on a rank that was given nothing less."""
    step, _, _ = checkpoint.on_rank(checkpoint.Comm(0, 1), load())
    return step


def test_the_whole_model_on_each_rank_is_too_slow(checkpoint):
    step, sweep = rank_alone(checkpoint)
    slow = judge(whole_model(checkpoint), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(step, sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_the_whole_model_on_each_rank_is_too_large(checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoint, "parallel_params", lambda comm, params, config: (params, config))
    with pytest.raises(Mismatch, match="538060032"):
        checkpoint.test_each_rank_holds_a_third(Expect(), load())


def test_gathered_logits_are_too_many_bytes(checkpoint, monkeypatch):
    """The right token, and 49,152 numbers on the wire for it."""

    def gathering(comm, logits):
        return checkpoint.ring_all_gather(comm, logits.T.contiguous()).argmax(0)

    monkeypatch.setattr(checkpoint, "vocab_parallel_argmax", gathering)
    with pytest.raises(Mismatch, match=str(187_392 + 2 * 4 * 49_152 // 3)):
        checkpoint.test_what_a_token_sends_is_what_the_formula_says(Expect(), load())


def test_neighbouring_positions_are_unequal_work(checkpoint, monkeypatch):
    """The sums are right: only the work of the ranks tells."""
    monkeypatch.setattr(checkpoint, "zigzag_positions", lambda n, rank, size: torch.arange(n).chunk(size)[rank])
    with pytest.raises(Mismatch, match="yours  1596\nright  4732"):
        checkpoint.test_keys_that_go_round_are_seen_by_position(Expect(), load())


def test_no_process_is_left_behind(checkpoint):
    with checkpoint.Ranks(2) as ranks:
        assert ranks.run("level09.collectives.ring_all_gather", torch.ones(1))[1].tolist() == [1, 1]
        running = list(ranks.processes)
    assert len(running) == 2 and all(process.poll() is not None for process in running)
