"""Judges window.py against loops, each token put into its slot and each query asked about each key, and against level
00's forward over the whole text at once, under a window mask that is made here.

Of a RingCache only what `update`, `positions_for`, `length` and `nbytes` give back is looked at, and the memory that is
alive. No two axes have the same size where shapes matter: 5 layers, 2 rows, 3 KV heads, 4 features.
"""

from dataclasses import replace

import pytest
import torch

from dojo.cost import count
from dojo.models import SMOLLM2, Config, random_params
from level00.transformer import hidden_states
from level02.window import RingCache, ring_positions, window_mask


def slots(length, window):
    """Oracle: put one position after the other into its slot."""
    ring = [-1] * window
    for p in range(length):
        ring[p % window] = p
    return ring


# ---- which position is where


@pytest.mark.kata("level02.window.ring_positions")
def test_slots_are_not_in_the_order_of_time(expect):
    """The docstring's example: token 3 has taken the place of token 0. Keys were rotated by their true positions."""
    expect(ring_positions, 5, 3).equals(torch.tensor([3, 4, 2]))


@pytest.mark.kata("level02.window.ring_positions")
@pytest.mark.parametrize("window", range(1, 7))
def test_every_slot_holds_the_newest_of_its_positions(expect, window):
    """Before the ring is full, when it is, and in every round after. Oracle: a loop over the tokens."""
    for length in range(14):
        expect(ring_positions, length, window).equals(torch.tensor(slots(length, window)))


@pytest.mark.kata("level02.window.ring_positions")
def test_slots_that_were_never_written_are_marked(expect):
    """-1 and not 0: position 0 is a token, and an empty slot taken for it is attended to."""
    expect(ring_positions, 2, 4).equals(torch.tensor([0, 1, -1, -1]))
    expect(ring_positions, 0, 2).equals(torch.tensor([-1, -1]))
    expect(ring_positions, 1, 9).equals(torch.tensor([0] + [-1] * 8))


@pytest.mark.kata("level02.window.ring_positions")
@pytest.mark.parametrize("length", [4095, 4096, 4097, 131_072])
def test_a_ring_as_large_as_mistral_s(expect, length):
    """4096 slots, up to 131,072 tokens seen. Oracle: the same loop."""
    expect(ring_positions, length, 4096).equals(torch.tensor(slots(length, 4096)))


@pytest.mark.kata("level02.window.ring_positions")
def test_a_ring_without_slots_and_a_negative_length_are_refused(expect):
    """A window of 0 has no slot p % 0, and nobody has seen -1 tokens."""
    expect(ring_positions, 1, 1).equals(torch.tensor([0]))
    expect(ring_positions, 3, 0).raises(ValueError)
    expect(ring_positions, 3, -2).raises(ValueError)
    expect(ring_positions, -1, 3).raises(ValueError)


# ---- which key may be seen


def visible(queries, keys, window):
    """Oracle: a list of lists, from one question for each pair: is the key one of the query's last `window` tokens?"""
    return [[k in range(max(0, q - window + 1), q + 1) for k in keys] for q in queries]


@pytest.mark.kata("level02.window.window_mask")
def test_a_window_counts_the_query_itself(expect):
    """The docstring's example: 2 and 3, not 1. FlashAttention calls this window 1: libraries differ by one."""
    expect(window_mask, torch.tensor([3]), torch.tensor([0, 1, 2, 3]), 2).equals(
        torch.tensor([[False, False, True, True]])
    )


@pytest.mark.kata("level02.window.window_mask")
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 6, 7, 100])
def test_a_whole_text_under_a_window(expect, window):
    """Six tokens without a cache: in a window of 3 they see 1, 2, 3, 3, 3, 3 keys. Oracle: one question per pair."""
    right = torch.tensor(visible(range(6), range(6), window))
    expect(window_mask, torch.arange(6), torch.arange(6), window).equals(right)


@pytest.mark.kata("level02.window.window_mask")
@pytest.mark.parametrize("window", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_ring_and_the_new_tokens_behind_it(expect, window, n):
    """Keys in the order of the slots, some empty, and a chunk that may be longer than the window."""
    for length in (0, 1, 3, 4, 9):
        queries, keys = range(length, length + n), slots(length, window) + list(range(length, length + n))
        right = torch.tensor(visible(queries, keys, window))
        expect(window_mask, torch.tensor(list(queries)), torch.tensor(keys), window).equals(right)


@pytest.mark.kata("level02.window.window_mask")
def test_an_empty_slot_is_no_key(expect):
    """Position -1 is one step before position 0, and would be seen by the first queries of every text."""
    keys = torch.tensor([-1, 0, -1, 1])
    right = torch.tensor([[False, True, False, False], [False, True, False, True]])
    expect(window_mask, torch.tensor([0, 1]), keys, 4).equals(right)
    expect(window_mask, torch.tensor([1, 0]), keys, 4).equals(right.flip(0))


@pytest.mark.kata("level02.window.window_mask")
def test_positions_decide_and_not_the_order(expect):
    """Queries and keys in any order, with gaps: a ring that was cut, or the rows that a scheduler picks."""
    queries, keys = [9, 2, 5], [5, 9, 0, 7, 2, 8, 1, 6]
    right = torch.tensor(visible(queries, keys, 3))
    expect(window_mask, torch.tensor(queries), torch.tensor(keys), 3).equals(right)


@pytest.mark.kata("level02.window.window_mask")
def test_a_key_in_the_future_is_not_seen(expect):
    """A window looks back only, however near the later token is."""
    expect(window_mask, torch.tensor([2]), torch.tensor([2, 3, 4]), 2).equals(torch.tensor([[True, False, False]]))


@pytest.mark.kata("level02.window.window_mask")
def test_far_into_a_long_text_the_window_is_exact(expect):
    """At 20 million tokens float32 counts in twos, and int16 comes round to the same number every 65,536."""
    queries, keys = [20_000_003, 20_000_004], [0, 20_000_003 - 65_536, *range(19_999_998, 20_000_005)]
    right = torch.tensor(visible(queries, keys, 3))
    expect(window_mask, torch.tensor(queries), torch.tensor(keys), 3).equals(right)


@pytest.mark.kata("level02.window.window_mask")
def test_positions_may_be_of_any_integer_type_and_layout(expect):
    """int32 tables are common in kernels, and a column of a table is not contiguous."""
    queries = torch.tensor([[4, 0], [5, 0]], dtype=torch.int32)[:, 0]
    keys = torch.tensor([[3, 9], [1, 9], [2, 9], [4, 9], [5, 9]], dtype=torch.int32)[:, 0]
    right = torch.tensor([[True, False, True, True, False], [True, False, False, True, True]])
    expect(window_mask, queries, keys, 3).equals(right)


# ---- the ring: what it gives back

# 6 query heads of 4 features are not d_model wide
MODEL = Config(5, 20, 6, 3, 4, 28, 101, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=0)
IDS = torch.tensor([[3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26], [27, 18, 28, 18, 28, 45, 90, 45, 23, 53, 60, 28]])
FLAT = replace(MODEL, n_layers=1)
ONE = Config(1, 4, 2, 1, 2, 8, 101)  # one layer, one KV head of two features: small enough to be printed whole


def pair(*tokens):
    """Keys and values of one row, one head: token t has the key [t, t] and the value [-t, -t]."""
    k = torch.tensor(tokens, dtype=torch.float32).view(1, 1, -1, 1).expand(1, 1, -1, 2).clone()
    return k, -k


def long_pair(layer, dtype=torch.float32):
    """Oracle: keys and values (2, 3, 20, 4) of twenty tokens of `layer`, no two elements alike and none of them 0."""
    k = torch.arange(2 * 3 * 20 * 4).view(2, 3, 20, 4).to(dtype) + 1000 * layer + 1
    return k, k + 500


def tokens_at(kv, positions):
    """Keys and values at these positions, zeros at -1."""
    padded = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in kv)  # -1 is the last one
    return tuple(x[:, :, list(positions)] for x in padded)


def as_of_now(kv, empty=()):
    """A copy of what an update returned, with zeros for whatever finite numbers stand in the empty slots."""
    copies = [x.clone() for x in kv]
    for x in copies:
        slots = [slot for slot in empty if slot < x.shape[2]]
        x[:, :, slots] = x[:, :, slots].masked_fill(x[:, :, slots].isfinite(), 0)
    return tuple(copies)


def updated(cache, start, stop, window, n_layers=5, source=None):
    """One pass with the tokens start..stop - 1; what the layers' updates return. `source`: whose tokens they are."""
    empty, tokens = range(min(start, window), window), source or range(start, stop)
    new = [tokens_at(long_pair(layer), tokens) for layer in range(n_layers)]
    return by_layer([as_of_now(cache.update(layer, *new[layer]), empty) for layer in range(n_layers)])


def right_update(start, stop, window, history=None, n_layers=5):
    """Oracle: the tokens in the slots, then the new ones. `history`: which tokens stand at the positions 0, 1, …"""
    history = history or range(20)
    order = [-1 if p < 0 else history[p] for p in [*slots(start, window), *range(start, stop)]]
    return by_layer([tokens_at(long_pair(layer), order) for layer in range(n_layers)])


def by_layer(pairs):
    """(keys, values) of all layers, each (layers, B, G, window + n, D); a list where the layers differ in shape."""
    return tuple(torch.stack(x) if len({y.shape for y in x}) == 1 else list(x) for x in zip(*pairs))


def tried(call, *args):
    """What a call comes to: "accepted", or the name of its exception."""
    try:
        call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return "accepted"


def made(cls, *args):
    """A cache of `cls`. Memory that it does not write holds NaN, as it may at any time; here torch sees to that."""
    was = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return cls(*args)
    finally:
        torch.set_deterministic_debug_mode(was)


@pytest.mark.kata("level02.window.RingCache")
def test_update_returns_the_ring_slot_by_slot_and_then_the_new_token(expect):
    """The docstring's example: window 3 after 5 tokens gives the positions 3, 4, 2 and then 5."""

    def the_sixth_token(cls):
        cache = made(cls, ONE, 1, 3)
        for token in range(5):
            cache.update(0, *pair(token))
        return cache.positions_for(1), as_of_now(cache.update(0, *pair(5)))

    expect.story(the_sixth_token, RingCache).equals((torch.tensor([3, 4, 2, 5]), pair(3, 4, 2, 5)))


@pytest.mark.kata("level02.window.RingCache")
def test_a_chunk_still_sees_what_it_is_about_to_overwrite(expect):
    """The first query of a chunk looks at the oldest token of the ring, whose place the chunk's last token takes."""

    def two_chunks(cls):
        cache = made(cls, ONE, 1, 3)
        cache.update(0, *pair(1, 2, 3))
        return as_of_now(cache.update(0, *pair(4, 5, 6))), as_of_now(cache.update(0, *pair(7)))

    expect.story(two_chunks, RingCache).equals((pair(1, 2, 3, 4, 5, 6), pair(4, 5, 6, 7)))


@pytest.mark.kata("level02.window.RingCache")
def test_of_a_chunk_longer_than_the_window_the_last_tokens_stay(expect):
    """All of it is returned, for its own queries; of 8 tokens the ring of 3 keeps 5, 6 and 7, each in its slot."""

    def one_long_chunk(cls):
        cache = made(cls, ONE, 1, 3)
        seen = as_of_now(cache.update(0, *pair(*range(1, 9))), empty=range(3))
        return seen, cache.positions_for(1), as_of_now(cache.update(0, *pair(9)))

    right = pair(0, 0, 0, *range(1, 9)), torch.tensor([6, 7, 5, 8]), pair(7, 8, 6, 9)
    expect.story(one_long_chunk, RingCache).equals(right)


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("window", [1, 3, 4, 7, 20])
@pytest.mark.parametrize("chunks", [(1,) * 12, (2, 3, 4, 3), (5, 1, 6)], ids=lambda x: "+".join(map(str, x)))
def test_every_update_returns_ring_and_chunk_in_every_layer(expect, window, chunks):
    """Whatever the chunks, rounds and empty slots. Oracle: positions put into their slots one by one."""

    def passes(cls):
        cache, found, start = made(cls, MODEL, 2, window), [], 0
        for n in chunks:
            found.append((cache.length, cache.positions_for(n), updated(cache, start, start + n, window)))
            start += n
        return found, cache.length

    right, start = [], 0
    for n in chunks:
        positions = torch.tensor([*slots(start, window), *range(start, start + n)])
        right.append((start, positions, right_update(start, start + n, window)))
        start += n
    expect.story(passes, RingCache).equals((right, 12))


@pytest.mark.kata("level02.window.RingCache")
def test_caches_share_nothing(expect):
    """A server holds one cache for each batch; what one user said must not turn up in another's answer."""

    def two_caches(cls):
        first, second = made(cls, ONE, 1, 2), made(cls, ONE, 1, 2)
        first.update(0, *pair(1, 2))
        lengths = first.length, second.length
        other = as_of_now(second.update(0, *pair(7)), empty=(0, 1))
        return lengths, other, as_of_now(first.update(0, *pair(3))), as_of_now(second.update(0, *pair(8)), empty=(1,))

    right = (2, 0), pair(0, 0, 7), pair(1, 2, 3), pair(7, 0, 8)
    expect.story(two_caches, RingCache).equals(right)


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize(
    "given", [torch.float32, torch.float64, torch.bfloat16], ids=["float32", "float64", "bfloat16"]
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"]
)
def test_entries_have_the_type_of_the_cache(expect, dtype, given):
    """Old and new alike: a token must not be 257 in its own pass and 256, its bfloat16, from the next one on."""

    def in_two_updates(cls):
        cache, kv = made(cls, FLAT, 2, 4, dtype), long_pair(0, given)
        first = as_of_now(cache.update(0, *tokens_at(kv, range(4))), empty=range(4))
        return first, as_of_now(cache.update(0, *tokens_at(kv, range(4, 6))))

    kv = tuple(x.to(dtype) for x in long_pair(0, given))
    right = tokens_at(kv, [-1, -1, -1, -1, 0, 1, 2, 3]), tokens_at(kv, range(6))
    expect.story(in_two_updates, RingCache).equals(right, rel=0, abs=0)


@pytest.mark.kata("level02.window.RingCache")
def test_unless_told_otherwise_the_cache_is_float32(expect):
    """The default of the signature, and the width in which this course runs its model."""

    def by_default(cls):
        cache = made(cls, ONE, 1, 2)
        cache.update(0, *(x.bfloat16() for x in pair(1, 2)))
        return as_of_now(cache.update(0, *(x.bfloat16() for x in pair(3))))

    expect.story(by_default, RingCache).equals(pair(1, 2, 3))


@pytest.mark.kata("level02.window.RingCache")
def test_memory_may_lie_in_any_order(expect):
    """Keys come as a transposed view of (B, n, G · D), the new token as one row that is expanded over the batch."""

    def strided(cls):
        cache, (k, v) = made(cls, FLAT, 2, 3), long_pair(0)
        cache.update(0, *(x[:, :, :4].transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v)))
        cache.update(0, *(x[:1, :, 4:5].expand(2, 3, 1, 4) for x in (k, v)))
        return as_of_now(cache.update(0, *(x[:, :, 5:6] for x in (k, v))))

    row = tuple(torch.cat([x[:, :, :4], x[:1, :, 4:5].expand(2, 3, 1, 4), x[:, :, 5:6]], 2) for x in long_pair(0))
    expect.story(strided, RingCache).equals(tokens_at(row, [3, 4, 2, 5]))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("chunks", [(1, 1, 1, 1), (2, 2), (3, 1), (5, 1)], ids=str)
def test_the_caller_keeps_its_tensors(expect, chunks):
    """The ring stores what it is given: a step's buffer is used again for the next token, and is never written to."""

    def overwritten_by_their_owner(cls):
        cache, token, given = made(cls, ONE, 1, 3), 0, []
        for n in chunks:
            k, v = pair(*range(token, token + n))
            seen = as_of_now(cache.update(0, k, v), empty=range(min(token, 3), 3))
            given.append(as_of_now((k, v)))
            k.fill_(99), v.fill_(99)
            token += n
        return seen, given

    ends = [sum(chunks[: i + 1]) for i in range(len(chunks))]
    given = [pair(*range(end - n, end)) for n, end in zip(chunks, ends)]
    order = [max(p, 0) for p in slots(ends[-2], 3)] + list(range(ends[-2], ends[-1]))
    expect.story(overwritten_by_their_owner, RingCache).equals((pair(*order), given))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_an_empty_slot_holds_finite_numbers(expect, dtype):
    """A masked value is multiplied by 0, and 0 · NaN is NaN: fresh memory holds anything, here NaN."""

    def before_the_ring_is_full(cls):
        cache, found = made(cls, MODEL, 2, 6, dtype), []
        for start in (0, 3):
            seen = [cache.update(layer, *tokens_at(long_pair(layer), range(start, start + 3))) for layer in range(5)]
            found.append([bool(x.isfinite().all()) for kv in seen for x in kv])
        return found

    expect.story(before_the_ring_is_full, RingCache).equals([[True] * 10] * 2)


# ---- the ring: length, positions


@pytest.mark.kata("level02.window.RingCache")
def test_the_length_moves_after_the_last_layer(expect):
    """A forward pass reads it first. Within the pass the next layer's update still returns what the first one did."""

    def during_a_pass(cls):
        cache = made(cls, replace(ONE, n_layers=2), 1, 3)
        seen = [(cache.length, cache.positions_for(2))]
        for layer in (0, 1):
            cache.update(layer, *pair(5, 6))
            seen.append((cache.length, cache.positions_for(2)))
        return seen

    before, after = torch.tensor([-1, -1, -1, 0, 1]), torch.tensor([0, 1, -1, 2, 3])
    expect.story(during_a_pass, RingCache).equals([(0, before), (0, before), (2, after)])


@pytest.mark.kata("level02.window.RingCache")
def test_the_length_counts_all_tokens_seen(expect):
    """Not those held: it is the next token's position. 4 tokens, then 1, then 7, in a window of 3 and five layers."""

    def length_after_each_pass(cls):
        cache, seen = made(cls, MODEL, 2, 3), []
        for start, stop in ((0, 4), (4, 5), (5, 12)):
            updated(cache, start, stop, 3)
            seen.append(cache.length)
        return seen, cache.window

    expect.story(length_after_each_pass, RingCache).equals(([4, 5, 12], 3))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("length", [0, 2, 4, 11])
def test_positions_are_told_before_they_are_there(expect, length):
    """The mask is made before the pass, for all its layers. Asking changes nothing. Oracle: the loop over slots."""

    def asked_again_and_again(cls):
        cache = made(cls, ONE, 1, 4)
        for token in range(length):
            cache.update(0, *pair(token))
        return [cache.positions_for(n) for n in (1, 9, 2, 0, 1)], cache.length

    right = [torch.tensor([*slots(length, 4), *range(length, length + n)]) for n in (1, 9, 2, 0, 1)]
    expect.story(asked_again_and_again, RingCache).equals((right, length))


# ---- the ring: going back


def can_go_back(length, n, window):
    """Oracle: is each token that the ring held after n tokens among those that it holds after `length`?"""
    return {p for p in slots(n, window) if p >= 0} <= set(slots(length, window))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("chunks", [(), (1,), (3,), (4,), (5,), (9,), (4, 1), (3, 3)], ids=str)
def test_truncate_goes_back_where_no_token_is_missed(expect, chunks):
    """A ring of 4 can go back until it is full, then only to where it is, or to 0: rejected drafts and sliding windows
    do not go together. Oracle: the sets of what was held. After a refusal all is as before."""
    length = sum(chunks)

    def told(n, came):
        return f"window 4, {length} tokens, truncate({n}): {came}"

    def back_and_on(cls):
        found = []
        for n in range(length + 1):
            cache = made(cls, MODEL, 2, 4)
            for size in chunks:
                updated(cache, cache.length, cache.length + size, 4)
            came = tried(cache.truncate, n)
            at = n if came == "accepted" else length
            held = cache.length, cache.positions_for(2)
            found.append((told(n, came), *held, updated(cache, at, at + 2, 4, source=(18, 19))))
        return found

    right = []
    for n in range(length + 1):
        possible = can_go_back(length, n, 4)
        at = n if possible else length
        positions = torch.tensor([*slots(at, 4), at, at + 1])
        passed = right_update(at, at + 2, 4, [*range(at), 18, 19])
        right.append((told(n, "accepted" if possible else "ValueError"), at, positions, passed))
    expect.story(back_and_on, RingCache).equals(right)


@pytest.mark.kata("level02.window.RingCache")
def test_back_at_0_the_ring_is_as_good_as_new(expect):
    """A slot of the server serves the next request: what the last one has overwritten no longer counts."""

    def three_requests(cls):
        cache = made(cls, ONE, 1, 3)
        cache.update(0, *pair(1, 2, 3, 4, 5))
        cache.truncate(0)
        second = cache.positions_for(1), as_of_now(cache.update(0, *pair(6)), empty=range(3))
        cache.update(0, *pair(7, 8))
        cache.truncate(1)
        third = cache.positions_for(2), as_of_now(cache.update(0, *pair(9, 10)), empty=(1, 2))
        return second, third, as_of_now(cache.update(0, *pair(11)))

    second = torch.tensor([-1, -1, -1, 0]), pair(0, 0, 0, 6)
    third = torch.tensor([0, -1, -1, 1, 2]), pair(6, 0, 0, 9, 10)
    expect.story(three_requests, RingCache).equals((second, third, pair(6, 9, 10, 11)))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize("held, n", [(3, 2), (3, 3), (3, 0), (0, 0), (6, 0)])
def test_a_pass_that_broke_off_can_be_taken_back(expect, held, n):
    """The first layers have then seen more than the last. As long as nothing was overwritten each goes back to n; to 0
    always. The window is 5."""

    def broken_off(cls):
        cache = made(cls, MODEL, 2, 5)
        if held:
            updated(cache, 0, held, 5)
        updated(cache, held, held + 2, 5, n_layers=2)
        cache.truncate(n)
        return cache.length, updated(cache, n, n + 2, 5), updated(cache, n + 2, n + 3, 5), cache.length

    right = n, right_update(n, n + 2, 5), right_update(n + 2, n + 3, 5), n + 3
    expect.story(broken_off, RingCache).equals(right)


@pytest.mark.kata("level02.window.RingCache")
def test_what_makes_no_sense_is_refused(expect):
    """Lengths that it has never had, a ring without slots or rows, one user's keys for two."""

    def odd(cls):
        cache, k = made(cls, MODEL, 2, 4), torch.ones(2, 3, 2, 4)
        refused = [tried(cls, MODEL, *size) for size in ((0, 4), (-1, 4), (2, 0), (2, -3))]
        shapes = [(k[:1], k[:1]), (k, k[:, :, :1]), (k[:, :, :1], k), (k, k[..., :2]), (torch.ones(3, 3, 2, 4),) * 2]
        refused += [tried(cache.update, 0, *kv) for kv in shapes]
        updated(cache, 0, 3, 4)
        refused += [tried(cache.truncate, n) for n in (-1, 4, 5)]
        return refused, cache.length, updated(cache, 3, 4, 4)

    expect.story(odd, RingCache).equals((["ValueError"] * 12, 3, right_update(3, 4, 4)))


# ---- the ring: memory


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize(
    "config, batch, window, dtype, right",
    [
        (ONE, 1, 1, torch.float32, 2 * 2 * 4),
        (MODEL, 2, 9, torch.float32, 2 * 5 * 2 * 3 * 9 * 4 * 4),
        (MODEL, 3, 7, torch.bfloat16, 2 * 5 * 3 * 3 * 7 * 4 * 2),
        (SMOLLM2, 2, 128, torch.bfloat16, 5_898_240),
    ],
    ids=["smallest", "float32", "bfloat16", "SmolLM2"],
)
def test_the_ring_in_bytes(expect, config, batch, window, dtype, right):
    """Rows · window · bytes per token, of keys and values in all layers: the longest text takes no more."""

    def nbytes(cls):
        return made(cls, config, batch, window, dtype).nbytes

    expect.story(nbytes, RingCache).equals(right)


@pytest.mark.kata("level02.window.RingCache")
def test_the_bytes_are_the_same_empty_full_and_long_after(expect):
    """A ring never grows: that is what it is for."""

    def nbytes_on_the_way(cls):
        cache = made(cls, MODEL, 2, 4)
        seen = [cache.nbytes]
        for start, stop in ((0, 3), (3, 4), (4, 15)):
            updated(cache, start, stop, 4)
            seen.append(cache.nbytes)
        cache.truncate(0)
        return [*seen, cache.nbytes]

    expect.story(nbytes_on_the_way, RingCache).equals([2 * 5 * 2 * 3 * 4 * 4 * 4] * 5)


@pytest.mark.kata("level02.window.RingCache")
def test_a_long_text_leaves_only_a_window_behind(expect):
    """300 tokens of 192 bytes through a window of 4, in chunks of 4: what is not in the ring is given back.

    Alive at once in a right program: up to 7,000 bytes (old and new ring, what is returned, some scratch); in one that
    keeps all keys 28,800. The limit is 14,000.
    """

    def chunk_by_chunk(cls):
        cache, k = made(cls, FLAT, 2, 4), torch.ones(2, 3, 4, 4)

        def read():
            for chunk in range(75):
                cache.update(0, k * chunk, k * -chunk)

        return "more" if count(read).peak_bytes > 14_000 else "at most 14,000 bytes"

    expect.story(chunk_by_chunk, RingCache).equals("at most 14,000 bytes")


@pytest.mark.kata("level02.window.RingCache")
def test_a_long_prompt_leaves_only_a_window_behind(expect):
    """A chunk of 300 tokens in each of 20 layers: a view of the last 4 would keep the whole chunk alive.

    A chunk's keys and values are 57,600 bytes. Alive at once in a right program: five times that, in one that keeps
    every layer's 20 times. The limit is 10 times.
    """

    def layer_by_layer(cls):
        cache, k = made(cls, replace(MODEL, n_layers=20), 2, 4), torch.ones(2, 3, 300, 4)

        def read():
            for layer in range(20):
                cache.update(layer, k * 2, k * 3)

        return "more" if count(read).peak_bytes > 10 * 57_600 else "at most ten chunks"

    expect.story(layer_by_layer, RingCache).equals("at most ten chunks")


# ---- the ring: in a model


def windowed(cache, ids, window):
    """Hidden states of ids behind a ring, by level 00's forward, with a mask from the oracle of this file."""
    start, n = cache.length, ids.shape[1]
    queries = range(start, start + n)
    mask = torch.tensor(visible(queries, cache.positions_for(n).tolist(), window))
    return hidden_states(PARAMS, MODEL, ids, cache, positions=torch.tensor(list(queries)), mask=mask)


def whole(ids, window):
    """Oracle: all of it in one pass, without a cache, under the window mask."""
    n = ids.shape[1]
    return hidden_states(PARAMS, MODEL, ids, mask=torch.tensor(visible(range(n), range(n), window)))


@pytest.mark.kata("level02.window.RingCache")
@pytest.mark.parametrize(
    "window, chunks",
    [(4, (12,)), (4, (1,) * 12), (4, (5, 3, 4)), (1, (2, 9, 1)), (20, (5, 3, 4)), (12, (6, 6))],
    ids=str,
)
def test_a_text_in_chunks_gives_the_hidden_states_of_the_whole(expect, window, chunks):
    """Five layers deep, chunks longer than the window, a window longer than the text. Oracle: one pass, no cache."""

    def in_chunks(cls):
        cache = made(cls, MODEL, 2, window)
        parts = [windowed(cache, part, window) for part in IDS.split(list(chunks), 1)]
        return torch.cat(parts, 1), cache.length

    expect.story(in_chunks, RingCache).equals((whole(IDS, window), 12), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level02.window.RingCache")
def test_a_text_can_be_gone_back_into_until_the_ring_is_full(expect):
    """Seven tokens in a window of 7, back to three, another nine: as if the first four had never been there."""

    def another_ending(cls):
        cache = made(cls, MODEL, 2, 7)
        windowed(cache, IDS[:, :7], 7)
        cache.truncate(3)
        return torch.cat([windowed(cache, part, 7) for part in IDS.flip(1)[:, :9].split([1, 6, 2], 1)], 1)

    right = whole(torch.cat([IDS[:, :3], IDS.flip(1)[:, :9]], 1), 7)[:, 3:]
    expect.story(another_ending, RingCache).equals(right, rel=1e-4, abs=1e-4)
