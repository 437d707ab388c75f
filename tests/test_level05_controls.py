"""The negative controls of level 05's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.cost import count
from dojo.expect import Expect, Mismatch
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of
from tests.test_level01_controls import head_by_head, repeated

LENGTHS = [31 + 8 * i for i in range(8)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05"):
        yield checkpoint_of("level05")


@pytest.fixture(scope="module")
def sweep(checkpoint):
    return Sweep(matrices(load()[1]), checkpoint.BATCH)


def one_by_one(checkpoint):
    """The same tokens, a sequence at a time: the weights are read for each."""
    steps = [checkpoint.stepping(load(), [length]) for length in LENGTHS]
    return lambda: torch.cat([step() for step in steps])


def predicted(checkpoint):
    return checkpoint.ragged_step_cost(load()[0], [length + 1 for length in LENGTHS], 4, 4)


def test_one_sequence_after_the_other_is_too_slow(checkpoint, sweep):
    slow = judge(one_by_one(checkpoint), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(checkpoint.stepping(load(), LENGTHS), sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


@pytest.mark.parametrize("attend", [head_by_head, repeated])
def test_other_right_attentions_pass_the_clock_and_the_counts(checkpoint, sweep, attend):
    slower, right = checkpoint.stepping(load(), LENGTHS, attend=attend), predicted(checkpoint)
    cost = count(slower)
    assert cost.flops == right["flops"] and cost.bytes_read < checkpoint.MOST_READ * right["bytes"]
    verdict = judge(slower, sweep, need=checkpoint.NEED)
    assert verdict.state == "pass", str(verdict)


def test_copied_weights_or_single_sequences_read_too_much(checkpoint):
    most = checkpoint.MOST_READ * predicted(checkpoint)["bytes"]
    assert count(checkpoint.stepping(load(), LENGTHS)).bytes_read < most
    assert count(checkpoint.stepping(load(), LENGTHS, linear=copying)).bytes_read > most
    assert count(one_by_one(checkpoint)).bytes_read > 4 * most


def test_a_loop_over_the_sequences_uses_every_matrix_eight_times(checkpoint, monkeypatch):
    """Its logits are right: only the count of products tells."""
    true = checkpoint.packed_step

    def looping(params, config, caches, chunks, **seams):
        return torch.cat([true(params, config, [cache], [chunk], **seams) for cache, chunk in zip(caches, chunks)])

    monkeypatch.setattr(checkpoint, "packed_step", looping)
    with pytest.raises(Mismatch, match="1688"):
        checkpoint.test_every_matrix_is_used_once_in_a_step_of_any_number_of_sequences(Expect(), load())


def test_every_step_of_the_stored_answers_has_a_clear_winner(checkpoint):
    assert min(one["margin"] for one in checkpoint.STORED.values()) >= 0.4
    ended = [one["answer"][-1] == load()[2]["eos_id"] for one in checkpoint.STORED.values()]
    assert ended.count(True) == 1, "one answer ends by itself, the others with max_tokens"
    lengths = sorted(len(one["ids"]) for one in checkpoint.STORED.values())
    assert lengths[0] == 1 and lengths[-1] > 16, "one token, and more than a budget"
