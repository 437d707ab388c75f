"""The negative controls of level 11's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.models import load
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(12)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS), torch.inference_mode():
        yield checkpoint_of("level11")


@pytest.fixture(scope="module")
def text(checkpoint):
    return torch.tensor([checkpoint.SmolTokenizer.from_model(load()[2]).encode(checkpoint.TEXT)])


def making_keys(checkpoint):
    """(attention over latents, attention over keys that are made of them, the products), for the clock."""
    from level11.mla import attend_naive

    args, products = checkpoint.latents()
    return lambda: checkpoint.attend_absorbed(*args), lambda: attend_naive(*args), products


def all_of_them(x, chosen, gates, experts):
    """What moe_forward returns, by all experts on all tokens."""
    share = torch.zeros(len(x), len(experts)).scatter(1, chosen, gates)
    return sum(share[:, e, None] * expert(x) for e, expert in enumerate(experts))


def everybody(checkpoint):
    """(experts on their own tokens, all experts on all tokens, each expert alone), for the clock."""
    args, alone = checkpoint.crowd(load())
    return lambda: checkpoint.moe_forward(*args), lambda: all_of_them(*args), alone


@pytest.mark.parametrize("pair, need", [(making_keys, "NEED"), (everybody, "NEED_GROUPED")])
def test_the_clock_tells_right_from_wrong(checkpoint, pair, need):
    right, wrong, reference = pair(checkpoint)
    assert torch.allclose(right(), wrong(), atol=1e-4), "only the work differs"
    slow = judge(wrong, reference, need=getattr(checkpoint, need), rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    passed = judge(right, reference, need=getattr(checkpoint, need))
    assert passed.state == "pass", str(passed)


def refuses(test, *args, match: str | None = None) -> None:
    with pytest.raises(Mismatch, match=match):
        test(Expect(), load(), *args)


def test_rings_in_the_wrong_layers_are_refused(checkpoint, text, monkeypatch):
    """The first of every three layers global instead of the last: as many bytes, other words."""
    monkeypatch.setattr(checkpoint, "layer_is_global", lambda n, period: [layer % period == 0 for layer in range(n)])
    checkpoint.test_two_layers_of_three_keep_a_window(Expect(), load())
    refuses(checkpoint.test_a_long_text_read_in_parts_gives_what_masks_give, text)
    refuses(checkpoint.test_what_windows_cost_a_model_that_was_not_trained_for_them, text)


def test_a_cache_that_keeps_everything_is_too_large(checkpoint, monkeypatch):
    from level02.cache import KVCache

    monkeypatch.setattr(checkpoint, "hybrid_of", lambda config, tokens: KVCache(config, 1, tokens))
    refuses(checkpoint.test_two_layers_of_three_keep_a_window, match=f"{30 * 1024 * 1536}")


def test_gates_that_are_left_out_are_refused(checkpoint, text, monkeypatch):
    from level11 import families

    true = families.moe_forward
    monkeypatch.setattr(families, "moe_forward", lambda x, ids, gates, experts: true(x, ids, 1 + 0 * gates, experts))
    refuses(checkpoint.test_all_experts_together_are_the_dense_model, text)


def test_all_experts_for_a_token_that_has_one_are_too_many_bytes(checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoint, "moe_forward", all_of_them)
    refuses(checkpoint.test_a_token_reads_the_weights_of_its_experts, 1, match="1 of 4 experts are 2,654,208 bytes")
    checkpoint.test_a_token_reads_the_weights_of_its_experts(Expect(), load(), 4)
