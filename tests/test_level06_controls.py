"""The negative controls of level 06's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, solutions_of


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05", "level06"):
        yield checkpoint_of("level06")


@pytest.fixture(scope="module")
def reference(checkpoint):
    ids = torch.tensor([checkpoint.SmolTokenizer.from_model(load()[2]).encode(checkpoint.TEXT)])
    return ids, checkpoint.forward(load()[1], load()[0], ids)[0]


def token_by_token(checkpoint):
    """A cache that gathers with a loop over tokens: the same keys and values."""

    class Looping(checkpoint.PagedCache):
        def update(self, layer, k, v):
            end, size = self.length + k.shape[2], self.pool.block_size
            self.write(layer, k, v)
            where = [(self.block_table[t // size], t % size) for t in range(end)]
            both = self.pool.keys[layer], self.pool.values[layer]
            return tuple(torch.stack([held[block, at] for block, at in where], 1)[None] for held in both)

    return Looping


def whole_pool(checkpoint):
    """A cache that copies every block of the pool before it takes its own."""

    class Copying(checkpoint.PagedCache):
        def update(self, layer, k, v):
            end = self.length + k.shape[2]
            self.write(layer, k, v)
            both = (held[layer].clone()[self.block_table] for held in (self.pool.keys, self.pool.values))
            return tuple(held.flatten(0, 1)[:end].transpose(0, 1)[None] for held in both)

    return Copying


def by_block(checkpoint):
    """Right in another way: whole blocks by index, cut afterwards."""

    class Blocks(checkpoint.PagedCache):
        def update(self, layer, k, v):
            end = self.length + k.shape[2]
            self.write(layer, k, v)
            both = (held[layer][torch.tensor(self.block_table)] for held in (self.pool.keys, self.pool.values))
            return tuple(held.flatten(0, 1)[:end].transpose(0, 1)[None] for held in both)

    return Blocks


def test_gathering_token_by_token_is_too_slow(checkpoint):
    sweep = Sweep(matrices(load()[1]))
    slow = judge(checkpoint.stepping(load(), token_by_token(checkpoint)), sweep, need=checkpoint.NEED, attempts=1)
    assert slow.state == "fail", str(slow)
    for right in (checkpoint.PagedCache, by_block(checkpoint)):
        verdict = judge(checkpoint.stepping(load(), right), sweep, need=checkpoint.NEED)
        assert verdict.state == "pass", str(verdict)


def test_copying_the_pool_is_counted(checkpoint, monkeypatch):
    test = checkpoint.test_gathering_moves_the_cache_and_not_the_pool
    monkeypatch.setattr(checkpoint, "PagedCache", by_block(checkpoint))
    test(Expect(), load())
    monkeypatch.setattr(checkpoint, "PagedCache", whole_pool(checkpoint))
    with pytest.raises(Mismatch, match="1 to 3 times"):
        test(Expect(), load())


def test_a_reservation_for_everybody_uses_more_than_the_pool_has(checkpoint, monkeypatch):
    """Blocks for all the tokens a request may ever have, at its first step: five do not fit then."""

    class Reserving(checkpoint.PagedCache):
        def write(self, layer, k, v):
            if not self.length and not self.block_table:
                self._reserve(0, 64)
            super().write(layer, k, v)

    monkeypatch.setattr(checkpoint, "PagedCache", Reserving)
    with pytest.raises(Mismatch):
        checkpoint.test_five_requests_share_a_pool_and_get_their_answers(Expect(), load(), 9, 16, 5)
    with pytest.raises(Mismatch):
        checkpoint.test_blocks_follow_the_tokens_and_all_come_back(Expect(), load())


def test_the_bounds_on_damage_refuse_what_is_not_quantized(checkpoint, reference, monkeypatch):
    """Codes that are thrown away leave a perfect model: the lower bound is for them."""

    class Kept(checkpoint.Int8Weight):
        def __init__(self, w):
            super().__init__(w)
            self.w = w

        def linear(self, x):
            return x @ self.w.T

    monkeypatch.setattr(checkpoint, "Int8Weight", Kept)
    with pytest.raises(Mismatch, match="KL"):
        checkpoint.test_eight_bits_a_weight_are_almost_the_model(Expect(), load(), reference)
    monkeypatch.setattr(checkpoint, "fake_quantize", lambda x, bits, dim: x)
    with pytest.raises(Mismatch, match="by channel"):
        checkpoint.test_keys_want_a_scale_for_each_channel(Expect(), load(), reference)
