"""The negative controls of level 12's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo import catalog
from dojo.expect import Expect, Mismatch
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of

LEVELS = [level for level in catalog.level_names() if level <= "level12"]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS), torch.inference_mode():
        yield checkpoint_of("level12")


def together(checkpoint):
    """(a step of all sequences, its reference); they last for 200 steps, about 25 verdicts"""
    step = checkpoint.stepping(checkpoint.decoding(load()))
    return step, Sweep(matrices(load()[1]), checkpoint.SEQS)


def one_by_one(checkpoint):
    """As many tokens, in steps of one sequence each."""
    engine = checkpoint.decoding(load(), max_seqs=1)

    def steps():
        for _ in range(checkpoint.SEQS):
            engine.step()

    return steps


@pytest.mark.timeout(180)
def test_one_sequence_after_the_other_is_too_slow(checkpoint):
    step, sweep = together(checkpoint)
    slow = judge(one_by_one(checkpoint), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(step, sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_weights_that_are_copied_are_too_many_bytes(checkpoint, monkeypatch):
    import level12.paged as paged

    true = paged.hidden_states
    monkeypatch.setattr(paged, "hidden_states", lambda *args, linear, **how: true(*args, linear=copying, **how))
    with pytest.raises(Mismatch, match=r"at most 1\.6 times"):
        checkpoint.test_a_step_of_sixteen_reads_each_weight_once(Expect(), load())


def served(checkpoint, *row):
    checkpoint.test_everybody_gets_the_tokens_that_another_implementation_gives(Expect(), load(), *row)


def test_a_prefix_that_is_not_found_runs_again(checkpoint, monkeypatch):
    """The words are the same: only the steps and the tokens that ran tell."""
    import level12.scheduler as scheduler

    true = scheduler.KVCacheManager
    monkeypatch.setattr(scheduler, "KVCacheManager", lambda blocks, size, caching: true(blocks, size, False))
    with pytest.raises(Mismatch, match="differs at .*steps"):
        served(checkpoint, 24, 24, 228, 0)


def test_blocks_of_those_who_left_must_come_back(checkpoint, monkeypatch):
    import level12.scheduler as scheduler

    def forget(self, id):
        sequence = self.sequences.pop(id, None)
        for queue in (self.running, self.waiting):
            if sequence in queue:
                queue.remove(sequence)

    monkeypatch.setattr(scheduler.Scheduler, "abort", forget)
    with pytest.raises((Mismatch, AssertionError)):
        checkpoint.test_whoever_comes_and_goes_gets_what_is_his_and_no_block_is_lost(Expect(), load(), 0)
