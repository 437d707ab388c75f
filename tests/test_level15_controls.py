"""The negative controls of level 15's checkpoint: what it refuses, and the right programs that it accepts."""

from dataclasses import replace

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(16)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level15")


@pytest.fixture(scope="module")
def one(checkpoint):
    return checkpoint.Pair("a")


@pytest.fixture(scope="module")
def reader(checkpoint):
    return checkpoint.reader.__wrapped__()


def in_blocks(checkpoint, size: int = 16):
    """(a prompt as a whole, blocks of 16 tokens, the twelve products), for the clock."""
    one = checkpoint.Pair("a")
    source, positions, products = checkpoint.long_prompt(one)
    maps, configs = one.fit(), (one.sender.config, one.receiver.config)

    def whole():
        return checkpoint.transfer_cache(maps, source, positions, positions, *configs)

    def blocks():
        parts = []
        for start in range(0, len(positions), size):
            here = positions[start : start + size]
            part = [tuple(t[:, :, start : start + size] for t in layer) for layer in source]
            parts.append(checkpoint.transfer_cache(maps, part, here, here, *configs))
        return [tuple(torch.cat(pieces, 2) for pieces in zip(*layer)) for layer in zip(*parts)]

    return whole, blocks, products


def test_the_clock_tells_right_from_wrong(checkpoint):
    right, wrong, products = in_blocks(checkpoint)
    pairs = zip(right(), wrong())
    assert all(torch.allclose(x, y, atol=1e-5) for a, b in pairs for x, y in zip(a, b)), "only the work differs"
    slow = judge(wrong, products, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    passed = judge(right, products, need=checkpoint.NEED)
    assert passed.state == "pass", str(passed)


def refuses(test, *args, match: str | None = None) -> None:
    with pytest.raises(Mismatch, match=match):
        test(Expect(), *args)


def without_a_map(maps, source, *rest):
    return [source[0], source[1], source[1]]


def test_a_copy_is_no_transfer(checkpoint, one, monkeypatch):
    monkeypatch.setattr(checkpoint, "transfer_cache", without_a_map)
    refuses(checkpoint.test_the_receiver_answers_from_the_senders_cache, one, match="at least 0.95")
    refuses(checkpoint.test_a_cache_as_it_is_and_a_strangers_are_worth_nothing, one)
    refuses(checkpoint.test_a_map_costs_a_token_its_coefficients_twice, one)


def test_keys_with_the_senders_base_are_refused(checkpoint, one, monkeypatch):
    true = checkpoint.transfer_cache

    def wrong(maps, source, old, new, source_config, target_config):
        base = replace(target_config, rope_theta=source_config.rope_theta)
        return true(maps, source, old, new, source_config, base)

    monkeypatch.setattr(checkpoint, "transfer_cache", wrong)
    refuses(checkpoint.test_the_receiver_answers_from_the_senders_cache, one, match="at least 0.95")


def test_the_receivers_own_cache_is_no_transfer_of_the_strangers(checkpoint, one, monkeypatch):
    """Whoever makes the cache anew, of whatever prompt, is told by the control."""
    monkeypatch.setattr(checkpoint, "transfer_cache", lambda *_: [(k.roll(-1, 0), v.roll(-1, 0)) for k, v in one.own])
    refuses(checkpoint.test_a_cache_as_it_is_and_a_strangers_are_worth_nothing, one)


def test_the_best_tokens_are_not_worth_a_repair(checkpoint, one, monkeypatch):
    true = checkpoint.choose_tokens
    monkeypatch.setattr(checkpoint, "choose_tokens", lambda off, fraction: true(-off, fraction))
    refuses(checkpoint.test_a_repair_helps_most_where_the_map_is_worst, one)


def test_a_block_in_the_wrong_place_is_refused(checkpoint, reader, monkeypatch):
    monkeypatch.setattr(checkpoint, "contiguous_layers", lambda sensitivity, budget: 0)
    refuses(checkpoint.test_a_block_where_the_weights_differ_brings_the_words_back, reader)


def test_layers_that_are_loaded_in_another_order_are_refused(checkpoint, one, reader, monkeypatch):
    """The cache takes layers by number: a handoff that fills them from the last one gives each the wrong one."""
    from level15 import pairlab

    true = pairlab.load_cache

    def upside_down(cache, config, layers):
        true(cache, config, {len(layers) - 1 - n: layer for n, layer in layers.items()})

    monkeypatch.setattr(pairlab, "load_cache", upside_down)
    refuses(checkpoint.test_the_receiver_answers_from_the_senders_cache, one)
