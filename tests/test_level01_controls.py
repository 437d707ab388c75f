"""The negative controls of level 01's checkpoint: what it refuses, and the right programs that it accepts."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from dojo.cost import count
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01"):
        yield checkpoint_of("level01")


@pytest.fixture(scope="module")
def sweep():
    return Sweep(matrices(load()[1]), 1)


def cached_step(checkpoint, **seams):
    """A decode step at the checkpoint's context, that leaves the cache as it was."""
    config, params, _ = load()
    held, forward = checkpoint.CONTEXT - 1, partial(checkpoint.forward, **seams)
    cache, token = checkpoint.filled(load(), held), checkpoint.context(held + 1)[-1]

    def step():
        logits = checkpoint.decode_step(params, config, token, cache, forward=forward)
        cache.truncate(held)
        return logits

    return step


def uncached_step(checkpoint):
    """The same token, with everything before it run again."""
    config, params, _ = load()
    ids = torch.tensor([checkpoint.context(checkpoint.CONTEXT)])
    return lambda: checkpoint.forward(params, config, ids)[:, -1]


def predicted(checkpoint):
    return checkpoint.phase_cost(load()[0], 1, checkpoint.CONTEXT - 1, 4, last_only=False)


def visible(q, k, mask):
    """The mask as (Q, K); "causal": the queries are the last ones."""
    return (
        torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]) if mask == "causal" else mask
    )


def head_by_head(q, k, v, mask):
    """Python loops over the heads: the slowest right attention that anyone has written here."""
    seen, out, group = visible(q, k, mask), torch.empty_like(q), q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h] @ k[b, h // group].T * q.shape[-1] ** -0.5
            out[b, h] = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v[b, h // group]
    return out


def repeated(q, k, v, mask):
    """Every KV head copied once for each of its query heads."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v, visible(q, k, mask))


def test_a_step_without_a_cache_is_too_slow(checkpoint, sweep):
    slow = judge(uncached_step(checkpoint), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(cached_step(checkpoint), sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_a_step_that_copies_the_weights_is_too_slow(checkpoint, sweep):
    slow = judge(cached_step(checkpoint, linear=copying), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)


def test_slow_steps_are_right_otherwise(checkpoint):
    """The controls waste and do nothing else: their logits are those of the solution."""
    right = cached_step(checkpoint)()
    for slow in (uncached_step(checkpoint), cached_step(checkpoint, linear=copying)):
        assert (slow() - right).abs().max() < 1e-3


def test_without_a_cache_or_with_copied_weights_too_many_bytes_are_read(checkpoint):
    most = checkpoint.MOST_READ * predicted(checkpoint)["bytes"]
    assert count(uncached_step(checkpoint)).bytes_read > most
    assert count(cached_step(checkpoint, linear=copying)).bytes_read > most


def test_a_step_done_twice_costs_too_many_flops(checkpoint):
    """The clock may let it pass (0.33 to 0.40 of the sweep): the count of FLOPs is exact."""
    step = cached_step(checkpoint)
    most = predicted(checkpoint)["flops"]
    assert count(step).flops == most
    assert count(lambda: (step(), step())).flops == 2 * most
    assert count(uncached_step(checkpoint)).flops == checkpoint.CONTEXT * most


@pytest.mark.parametrize("attend", [head_by_head, repeated])
def test_other_right_steps_pass_the_clock_and_the_counts(checkpoint, sweep, attend):
    step, right = cached_step(checkpoint, attend=attend), predicted(checkpoint)
    cost = count(step)
    assert cost.flops == right["flops"] and cost.bytes_read < checkpoint.MOST_READ * right["bytes"]
    assert (cost.result - cached_step(checkpoint)()).abs().max() < 1e-3
    verdict = judge(step, sweep, need=checkpoint.NEED)
    assert verdict.state == "pass", str(verdict)


def test_the_stored_answers_tell_positions_that_restart(checkpoint):
    """A decode step at position 0 writes other answers than those stored, for every prompt."""
    config, params, data = load()

    def restarting(params, config, token_ids, *rest):
        return checkpoint.forward(params, config, token_ids, *rest, positions=torch.arange(token_ids.shape[1]))

    for name, case in checkpoint.CASES.items():
        arguments = (params, config, case["ids"], checkpoint.MAX_TOKENS, {data["eos_id"]})
        assert checkpoint.generate(*arguments, forward=restarting) != case["answer"], name


def test_every_step_of_the_stored_answers_has_a_clear_winner(checkpoint):
    assert min(case["margin"] for case in checkpoint.CASES.values()) > 0.1
    assert sum(case["answer"][-1] == load()[2]["eos_id"] for case in checkpoint.CASES.values()) == 1
