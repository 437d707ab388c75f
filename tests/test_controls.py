"""The negative controls: what each roofline and counting assertion exists to refuse, put to it on the real model.

A threshold that nothing fails is no assertion. 16 tokens are enough for the slow ones.
"""

import pytest
import torch

from dojo.cost import count
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of

TOKENS = 16


@pytest.fixture(scope="module")
def level00():
    """The transformer of level 00's solutions, and its checkpoint."""
    with solutions_of("level00"):
        import level00.transformer as transformer

        yield transformer, checkpoint_of("level00")


def token_by_token(x, weight):
    """Every weight is read once per token, as in a loop over positions."""
    return torch.stack([row @ weight.T for row in x[0]]).unsqueeze(0)


def prefill(transformer, ids, **seams):
    config, params, _ = load()
    return lambda: transformer.forward(params, config, ids, **seams)


def test_prefill_that_goes_token_by_token_is_too_slow(level00):
    transformer, checkpoint = level00
    ids = checkpoint.prompt()[:, :TOKENS]
    sweep = Sweep(matrices(load()[1]), TOKENS)
    slow = judge(prefill(transformer, ids, linear=token_by_token), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(prefill(transformer, ids), sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_the_same_products_token_by_token_are_right_otherwise(level00):
    """The control is slow and nothing else: its logits are those of the solution."""
    transformer, checkpoint = level00
    ids = checkpoint.prompt()[:, :TOKENS]
    slow, right = prefill(transformer, ids, linear=token_by_token)(), prefill(transformer, ids)()
    assert (slow - right).abs().max() < 1e-3


def test_copied_weights_read_too_many_bytes(level00):
    """The clock lets a copy pass (0.66 to 0.71 of the sweep): the count of bytes does not."""
    transformer, checkpoint = level00
    weights = 4 * sum(w.numel() for w in load()[1].values())
    assert count(prefill(transformer, checkpoint.prompt(), linear=copying)).bytes_read > checkpoint.MOST_READ * weights
    assert count(prefill(transformer, checkpoint.prompt())).bytes_read < checkpoint.MOST_READ * weights


def test_a_forward_done_twice_costs_too_many_flops(level00):
    """Twice the work is still 0.42 to 0.44 of the sweep, near the clock's threshold: the count of FLOPs is exact."""
    transformer, checkpoint = level00
    once = prefill(transformer, checkpoint.prompt())
    single, double = count(once).flops, count(lambda: (once(), once())).flops
    assert double == 2 * single
    config = load()[0]
    predicted = checkpoint.flops_per_token(config, checkpoint.PROMPT_TOKENS)["total"] * checkpoint.PROMPT_TOKENS
    assert single <= predicted < double
