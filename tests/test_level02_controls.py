"""The negative controls of level 02's checkpoint: what it refuses, and the right programs that it accepts.

A cache is judged by the checkpoint's own tests, with another class in KVCache's place.
"""

from functools import partial

import numpy as np
import pytest
import torch

from dojo.cost import count
from dojo.expect import Expect, Mismatch
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of

WRITTEN = "test_all_updates_of_a_generation_write_each_token_once"
CONSTANT = "test_what_a_token_more_and_less_costs_does_not_grow_with_the_context"
PLACE = "test_a_token_stays_where_it_was_written"
ALIVE = "test_a_generation_needs_its_buffers_and_one_pass_at_a_time"
ANSWERS = "test_a_batch_answers_as_another_implementation_answers_each_row_alone"
ROW_LOGITS = "test_every_row_of_a_padded_batch_has_the_logits_that_it_has_alone"
RING = "test_a_ring_gives_the_logits_of_another_implementation_s_window"
RING_STEP = "test_a_step_behind_a_ring_costs_what_its_window_costs"


class Held:
    """What the caches below share: a tensor of keys and one of values for each layer, and a count."""

    def __init__(self, config, batch, max_cached_tokens, dtype=torch.float32):
        self.batch, self.counts = batch, [0] * config.n_layers
        shape = (batch, config.n_kv_heads, max_cached_tokens, config.head_dim)
        self.keys, self.values = ([self.empty(shape, dtype) for _ in self.counts] for _ in range(2))

    def empty(self, shape, dtype):
        return torch.empty(shape, dtype=dtype)

    def update(self, layer, k, v):
        start, end = self.counts[layer], self.counts[layer] + k.shape[2]
        self.counts[layer] = end
        for held, new in ((self.keys, k), (self.values, v)):
            held[layer] = self.put(held[layer], new, start, end)
        return self.given(self.keys[layer], end), self.given(self.values[layer], end)

    def put(self, held, new, start, end):
        held[:, :, start:end] = new
        return held

    def given(self, held, end):
        return held[:, :, :end]

    @property
    def length(self):
        return self.counts[-1]

    def truncate(self, n):
        self.counts = [n] * len(self.counts)


class Indexed(Held):
    """Right: by index. The slowest right cache that anyone has written here."""

    def put(self, held, new, start, end):
        where = torch.arange(start, end)[None, None, :, None].expand(new.shape)
        return held.scatter_(2, where, new.to(held.dtype))


class Stacked(Held):
    """Right: one tensor for all, zeros at first, and a copy of what is new before it is written."""

    def __init__(self, config, batch, max_cached_tokens, dtype=torch.float32):
        self.batch, self.counts = batch, [0] * config.n_layers
        shape = (config.n_layers, 2, batch, config.n_kv_heads, max_cached_tokens, config.head_dim)
        self.both = torch.zeros(shape, dtype=dtype)

    def update(self, layer, k, v):
        start, end = self.counts[layer], self.counts[layer] + k.shape[2]
        self.both[layer, :, :, :, start:end], self.counts[layer] = torch.stack([k, v]), end
        return tuple(self.both[layer, :, :, :, :end])


class TokenMajor(Held):
    """Right: the tokens come first in memory, so that one token's keys lie together."""

    def empty(self, shape, dtype):
        return torch.empty([shape[0], shape[2], shape[1], shape[3]], dtype=dtype).transpose(1, 2)


def simple_cache(config, batch, max_cached_tokens, dtype=torch.float32):
    """Level 01's: torch.cat."""
    from level01.simple_cache import SimpleCache

    return SimpleCache(config.n_layers)


class Unreserved(Held):
    """No room at first."""

    def empty(self, shape, dtype):
        return torch.empty((*shape[:2], 0, shape[3]), dtype=dtype)


class NumpyGrowing(Unreserved):
    """Joined by numpy, whose reading and writing is not counted."""

    def put(self, held, new, start, end):
        return torch.from_numpy(np.concatenate([held[:, :, :start].numpy(), new.numpy()], 2))


class Doubling(Unreserved):
    """Room for twice as many tokens, whenever there is none: few copies, but tokens move."""

    def put(self, held, new, start, end):
        if end > held.shape[2]:
            wider = held.new_empty((*held.shape[:2], max(end, 2 * held.shape[2]), held.shape[3]))
            wider[:, :, :start] = held[:, :, :start]
            held = wider
        return super().put(held, new, start, end)


class Functional(Held):
    """A new buffer at each update, as where nothing may be changed in place."""

    def put(self, held, new, start, end):
        return torch.slice_scatter(held, new, 2, start, end)


class Clones(Held):
    """The buffers are right; what is returned is a copy."""

    def given(self, held, end):
        return held[:, :, :end].clone()


class Contiguous(Held):
    """The same in disguise: a part of a buffer is contiguous only when it is all of it."""

    def given(self, held, end):
        return held[:, :, :end].contiguous()


class CloneOfKeys(Held):
    """Half of that."""

    def update(self, layer, k, v):
        k, v = super().update(layer, k, v)
        return k.clone(), v


class Wiping(Held):
    """Puts zeros into all that is not yet written, at every update."""

    def given(self, held, end):
        held[:, :, end:] = 0
        return held[:, :, :end]


class Keeping(Held):
    """Right in all it gives, and keeps a copy of each pass's whole history beside it."""

    def given(self, held, end):
        self.kept = [*getattr(self, "kept", []), held.clone()]
        return held[:, :, :end]


class Remembering(Held):
    """Right in all it gives, and keeps what it was given."""

    def put(self, held, new, start, end):
        self.given_before = [*getattr(self, "given_before", []), new]
        return super().put(held, new, start, end)


class Shrinking(Held):
    """Makes smaller buffers when tokens are forgotten."""

    def truncate(self, n):
        super().truncate(n)
        for held in (self.keys, self.values):
            held[:] = [torch.cat([t[:, :, :n], torch.empty_like(t[:, :, n:])], 2) for t in held]


class Checking(Held):
    """Right in all it gives, but numpy looks for NaN among all that is held."""

    def given(self, held, end):
        assert np.isfinite(held[:, :, :end].numpy()).all()
        return held[:, :, :end]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01", "level02"):
        yield checkpoint_of("level02")


@pytest.fixture(scope="module")
def sweep():
    return Sweep(matrices(load()[1]), 1)


def passes(checkpoint, name, *args) -> bool:
    """Does one of the checkpoint's tests pass?"""
    try:
        getattr(checkpoint, name)(Expect(), load(), *args)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize("cache", [Held, Indexed, Stacked, TokenMajor])
def test_other_right_caches_pass_the_counts_and_the_clock(checkpoint, monkeypatch, cache):
    monkeypatch.setattr(checkpoint, "KVCache", cache)
    assert [name for name in (WRITTEN, CONSTANT, PLACE) if not passes(checkpoint, name)] == []
    verdict = judge(*timed_updates(checkpoint, cache), need=checkpoint.NEED_UPDATE)
    assert verdict.state == "pass", str(verdict)


@pytest.mark.parametrize(
    "cache, refused",
    [
        (simple_cache, {WRITTEN, CONSTANT, PLACE}),
        (NumpyGrowing, {PLACE}),
        (Doubling, {PLACE}),
        (Functional, {WRITTEN, CONSTANT, PLACE}),
        (Clones, {WRITTEN, CONSTANT, PLACE}),
        (CloneOfKeys, {WRITTEN, CONSTANT, PLACE}),
        (Contiguous, {WRITTEN, CONSTANT, PLACE}),
        (Wiping, {WRITTEN, CONSTANT}),
        (Remembering, {WRITTEN}),
        (Shrinking, {CONSTANT}),
    ],
)
def test_a_cache_that_copies_is_refused_by_the_counts(checkpoint, monkeypatch, cache, refused):
    monkeypatch.setattr(checkpoint, "KVCache", cache)
    assert {name for name in (WRITTEN, CONSTANT, PLACE) if not passes(checkpoint, name)} >= refused


def test_a_cache_that_keeps_more_than_its_buffers_is_refused(checkpoint, monkeypatch):
    monkeypatch.setattr(checkpoint, "KVCache", Keeping)
    assert not passes(checkpoint, ALIVE)


def timed_updates(checkpoint, cache):
    """(target, reference) of the checkpoint's second clock."""
    config = load()[0]
    mine = cache(config, 1, checkpoint.HELD + checkpoint.CONTEXT)
    return checkpoint.updates(mine, config, 10), checkpoint.bare_writes(config, 10)


@pytest.mark.parametrize("cache", [simple_cache, NumpyGrowing, Clones, CloneOfKeys, Checking])
def test_updates_that_touch_all_that_is_held_are_too_slow(checkpoint, cache):
    slow = judge(*timed_updates(checkpoint, cache), need=checkpoint.NEED_UPDATE, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)


def cached_step(checkpoint, cache=None, **seams):
    """A decode step at the checkpoint's context, that leaves the cache as it was."""
    config, params, _ = load()
    held, forward = checkpoint.CONTEXT - 1, partial(checkpoint.forward, **seams)
    cache = checkpoint.filled((cache or checkpoint.KVCache)(config, 1, 2 * checkpoint.CONTEXT), config, held)

    def step():
        logits = checkpoint.decode_step(params, config, 5, cache, forward=forward)
        cache.truncate(held)
        return logits

    return step


def uncached_step(checkpoint):
    """A token of the same context, with everything before it run again."""
    config, params, _ = load()
    ids = torch.full((1, checkpoint.CONTEXT), 5)
    return lambda: checkpoint.forward(params, config, ids)[:, -1]


def predicted(checkpoint):
    return checkpoint.phase_cost(load()[0], 1, checkpoint.CONTEXT - 1, 4, last_only=False)


def test_a_step_without_a_cache_is_too_slow(checkpoint, sweep):
    slow = judge(uncached_step(checkpoint), sweep, need=checkpoint.NEED, rounds=1, attempts=1)
    assert slow.state == "fail", str(slow)
    right = judge(cached_step(checkpoint), sweep, need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_a_step_that_copies_the_weights_is_too_slow(checkpoint, sweep):
    slow = judge(cached_step(checkpoint, linear=copying), sweep, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)


def test_a_step_done_twice_costs_too_many_flops(checkpoint):
    """The clock may let it pass (0.32 of the sweep): the count of FLOPs is exact."""
    step, most = cached_step(checkpoint), predicted(checkpoint)["flops"]
    assert count(step).flops == most
    assert count(lambda: (step(), step())).flops == 2 * most


def head_by_head(q, k, v, mask):
    """Python loops over the heads: the slowest right attention that anyone has written here."""
    out, group = torch.empty_like(q), q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = q[b, h] @ k[b, h // group].T * q.shape[-1] ** -0.5
            out[b, h] = scores.softmax(-1) @ v[b, h // group]  # one query, the last: it sees everything
    return out


def test_other_right_steps_pass_the_clock(checkpoint, sweep):
    """Growth is among them: at this context it costs 5% of a step, which is why bytes are counted."""
    for step in (cached_step(checkpoint, attend=head_by_head), cached_step(checkpoint, simple_cache)):
        verdict = judge(step, sweep, need=checkpoint.NEED)
        assert verdict.state == "pass", str(verdict)


# ---- the padded batch, by a forward that is handed other positions or another mask
# (a constant shift of all positions of a row passes: with RoPE only differences count, so the kata looks at positions)


def everything_visible(checkpoint):
    """Padding is attended to."""
    return lambda *args, positions, mask: checkpoint.forward(*args, positions=positions)


def masked_in_prefill_only(checkpoint):
    def forward(params, config, ids, cache, *, positions, mask):
        return checkpoint.forward(
            params, config, ids, cache, positions=positions, mask=mask if cache.length == 0 else "causal"
        )

    return forward


def decoding_at_the_padded_length(checkpoint):
    def forward(params, config, ids, cache, *, positions, mask):
        if cache.length:
            positions = torch.full_like(positions, cache.length)
        return checkpoint.forward(params, config, ids, cache, positions=positions, mask=mask)

    return forward


def one_position_late(checkpoint):
    """In the decode steps: the next token stands two behind the last."""

    def forward(params, config, ids, cache, *, positions, mask):
        return checkpoint.forward(params, config, ids, cache, positions=positions + (cache.length > 0), mask=mask)

    return forward


@pytest.mark.parametrize(
    "slip", [everything_visible, masked_in_prefill_only, decoding_at_the_padded_length, one_position_late]
)
def test_a_slip_with_the_padding_changes_answers_and_logits(checkpoint, monkeypatch, slip):
    wrong = partial(checkpoint.generate_batch, forward=slip(checkpoint))
    monkeypatch.setattr(checkpoint, "generate_batch", wrong)
    assert [name for name in (ANSWERS, ROW_LOGITS) if passes(checkpoint, name)] == []


def test_every_step_of_the_stored_answers_has_a_clear_winner(checkpoint):
    assert min(row["margin"] for row in checkpoint.ROWS.values()) >= 0.4
    ended = [answer[-1] == load()[2]["eos_id"] for answer in checkpoint.ANSWERS]
    assert ended == [False, True, False] and max(map(len, checkpoint.PROMPTS)) == len(checkpoint.PROMPTS[1])


# ---- the ring


def window_of(extra):
    """Given the window's mask, but for one that is larger by `extra`."""

    def wrong(checkpoint):
        def forward_windowed(params, config, ids, cache):
            from level02.window import window_mask

            positions = torch.arange(cache.length, cache.length + ids.shape[1])
            mask = window_mask(positions, cache.positions_for(ids.shape[1]), cache.window + extra)
            return checkpoint.forward(params, config, ids, cache, positions=positions, mask=mask)

        return forward_windowed

    return wrong


@pytest.mark.parametrize("extra", [-1, 1])
def test_a_window_that_is_off_by_one_is_refused(checkpoint, monkeypatch, extra):
    monkeypatch.setattr(checkpoint, "forward_windowed", window_of(extra)(checkpoint))
    assert not passes(checkpoint, RING)


def test_a_ring_that_overwrites_first_is_refused(checkpoint, monkeypatch):
    """The first of the new queries still look at the oldest keys."""

    class OverwritesFirst(checkpoint.RingCache):
        def update(self, layer, k, v):
            super().update(layer, k, v)
            return torch.cat([self.keys[layer], k], 2), torch.cat([self.values[layer], v], 2)

    monkeypatch.setattr(checkpoint, "RingCache", OverwritesFirst)
    assert not passes(checkpoint, RING)


def test_a_ring_that_keeps_everything_costs_too_many_flops(checkpoint, monkeypatch):
    """The logits are right: a mask hides what is too old. Only the count shows that all of it is still there."""

    class Everything(checkpoint.KVCache):
        def __init__(self, config, batch, window):
            super().__init__(config, batch, 1000)
            self.window = window

        def positions_for(self, n):
            return torch.arange(self.length + n)

    monkeypatch.setattr(checkpoint, "RingCache", Everything)
    assert passes(checkpoint, RING)
    assert not passes(checkpoint, RING_STEP)
