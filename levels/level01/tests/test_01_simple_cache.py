"""Judges simple_cache.py through what `update` and `length` give back, against slices of one long tensor.

No two axes have the same size where shapes matter: 2 sequences, 3 KV heads, 4 features, other numbers of tokens.
"""

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import hidden_states
from level01.simple_cache import SimpleCache

MODEL = Config(3, 20, 6, 2, 4, 28, 101, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=0)
IDS = torch.tensor([[3, 14, 15, 92, 65, 35, 89], [27, 18, 28, 18, 28, 45, 90]])


def pair(*tokens):
    """Keys and values of one sequence with one head of two features: token t has the key [t, t] and the value [-t, -t].

    Small enough to be printed whole.
    """
    k = torch.tensor(tokens, dtype=torch.float32).view(1, 1, -1, 1).expand(1, 1, -1, 2).clone()
    return k, -k


def long_pair(layer, dtype=torch.float32):
    """Oracle: keys and values (2, 3, 9, 4) of nine tokens of `layer`, no two elements alike."""
    k = torch.arange(2 * 3 * 9 * 4).view(2, 3, 9, 4).to(dtype) + 1000 * layer
    return k, k + 500


def cut(kv, start, stop):
    """The part of keys and values that belongs to the tokens start..stop - 1."""
    return tuple(x[:, :, start:stop].clone() for x in kv)


def forward_pass(cache, start, stop, n_layers=3):
    """Update every layer in order with its tokens start..stop - 1; what each update returns."""
    return [cache.update(layer, *cut(long_pair(layer), start, stop)) for layer in range(n_layers)]


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_update_returns_all_tokens_so_far_in_their_order(expect):
    """A query attends to the whole past, so it needs old keys and new ones; their places tell which is which."""

    def three_updates(cls):
        cache = cls(1)
        return [cache.update(0, *pair(*new))[0] for new in ((0, 1), (2,), (3, 4, 5))]

    right = [pair(0, 1)[0], pair(0, 1, 2)[0], pair(0, 1, 2, 3, 4, 5)[0]]
    expect.story(three_updates, SimpleCache).equals(right)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_keys_and_values_are_kept_apart(expect):
    """Keys decide where a query looks, values what it finds: mixed up, the text is fluent nonsense."""

    def two_updates(cls):
        cache = cls(1)
        cache.update(0, *pair(1, 2))
        return cache.update(0, *pair(3))

    expect.story(two_updates, SimpleCache).equals(pair(1, 2, 3))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_layers_are_kept_apart(expect):
    """Each layer looks things up in its own keys. Oracle: slices of one long tensor for each of three layers."""

    def two_forward_passes(cls):
        cache = cls(3)
        return forward_pass(cache, 0, 2), forward_pass(cache, 2, 7)

    right = tuple([cut(long_pair(layer), 0, stop) for layer in range(3)] for stop in (2, 7))
    expect.story(two_forward_passes, SimpleCache).equals(right)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_caches_share_nothing(expect):
    """A server holds one cache for each request; what one user said must not turn up in another's answer."""

    def two_requests(cls):
        first, second = cls(2), cls(2)
        first.update(0, *pair(1, 2))
        first.update(1, *pair(3, 4))
        return second.length, second.update(0, *pair(7)), second.update(1, *pair(8)), first.length, second.length

    expect.story(two_requests, SimpleCache).equals((0, pair(7), pair(8), 2, 1))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=["bfloat16", "float64"])
def test_tokens_are_the_third_axis_and_the_type_stays(expect, dtype):
    """(batch, heads, tokens, features); a cache that widens bfloat16 to float32 reads twice the bytes at every step."""

    def one_by_one(cls):
        cache = cls(1)
        for i in range(3):
            cache.update(0, *cut(long_pair(0, dtype), i, i + 1))
        return cache.update(0, *cut(long_pair(0, dtype), 3, 9))

    expect.story(one_by_one, SimpleCache).equals(long_pair(0, dtype), rel=0, abs=0)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_a_long_text_is_kept_whole(expect):
    """1200 tokens, one at a time, equal neighbours among them: no window, no capacity, nothing taken for known."""

    def token_by_token(cls):
        cache = cls(1)
        for i in range(1200):
            k, v = cache.update(0, *pair(i // 2))
        return cache.length, k, v

    right = pair(*(i // 2 for i in range(1200)))
    expect.story(token_by_token, SimpleCache).equals((1200, *right))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_the_length_moves_after_the_last_layer(expect):
    """The docstring's example. A forward pass reads it first: layer 1 must not see another position than layer 0."""

    def length_after_each_update(cls):
        cache = cls(2)
        seen = [cache.length]
        for layer in (0, 1):
            cache.update(layer, *pair(5, 6))
            seen.append(cache.length)
        return seen

    expect.story(length_after_each_update, SimpleCache).equals([0, 0, 2])


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_the_length_counts_tokens(expect):
    """Not updates, layers, sequences or heads: 4 tokens and then 1, in three layers, for 2 sequences of 3 heads."""

    def length_during_two_passes(cls):
        cache, seen = cls(3), []
        for start, stop in ((0, 4), (4, 5)):
            for layer in range(3):
                cache.update(layer, *cut(long_pair(layer), start, stop))
                seen.append(cache.length)
        return seen

    expect.story(length_during_two_passes, SimpleCache).equals([0, 0, 4, 4, 4, 5])


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_truncate_keeps_the_first_tokens_of_keys_and_values(expect):
    """A rejected draft (level 08) is taken back by it: the newest tokens go, and the next one follows what is left."""

    def cut_to_one_and_go_on(cls):
        cache = cls(1)
        cache.update(0, *pair(1, 2, 3))
        cache.truncate(1)
        length = cache.length
        return length, cache.update(0, *pair(4)), cache.length

    expect.story(cut_to_one_and_go_on, SimpleCache).equals((1, pair(1, 4), 2))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
@pytest.mark.parametrize("n", range(6))
def test_truncate_cuts_every_layer(expect, n):
    """Of 5 tokens in three layers to n, from none of them to the whole, and on from there."""

    def cut_and_go_on(cls):
        cache = cls(3)
        forward_pass(cache, 0, 5)
        cache.truncate(n)
        length = cache.length
        return length, forward_pass(cache, 7, 9), cache.length

    both = [tuple(torch.cat(x, 2) for x in zip(cut(pair, 0, n), cut(pair, 7, 9))) for pair in map(long_pair, range(3))]
    expect.story(cut_and_go_on, SimpleCache).equals((n, both, n + 2))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_truncate_works_again_and_again(expect):
    """Speculation takes tokens back at every step: what was cut off once must not come back when more is cut."""

    def take_back_three_times(cls):
        cache, seen = cls(1), []
        for new, n in (((1, 2, 3, 4), 3), ((5,), 2), ((6, 7), 4)):
            cache.update(0, *pair(*new))
            cache.truncate(n)
            seen.append(cache.length)
        return seen, cache.update(0, *pair(8))

    expect.story(take_back_three_times, SimpleCache).equals(([3, 2, 4], pair(1, 2, 6, 7, 8)))


@pytest.mark.kata("level01.simple_cache.SimpleCache")
@pytest.mark.parametrize("held, n", [(4, 3), (4, 4), (4, 0), (0, 0)])
def test_a_pass_that_broke_off_can_be_taken_back(expect, held, n):
    """The first layers then hold more than the last. Every layer keeps the first n, also where n is the length."""

    def broken_off(cls):
        cache = cls(3)
        forward_pass(cache, 0, held, n_layers=3 if held else 0)
        forward_pass(cache, held, held + 2, n_layers=2)
        cache.truncate(n)
        return cache.length, forward_pass(cache, n, n + 2), cache.length

    right = n, [cut(long_pair(layer), 0, n + 2) for layer in range(3)], n + 2
    expect.story(broken_off, SimpleCache).equals(right)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_later_updates_leave_alone_what_was_returned_and_what_was_given(expect):
    """Attention may still read the tensors of an earlier step, and the new keys belong to the caller."""

    def kept_from_before(cls):
        cache = cls(2)
        given = [pair(1, 2), pair(3), pair(4, 5)]
        returned = [cache.update(0, *kv) for kv in given]
        return returned[:2], given

    right = [pair(1, 2), pair(1, 2, 3)], [pair(1, 2), pair(3), pair(4, 5)]
    expect.story(kept_from_before, SimpleCache).equals(right)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
@pytest.mark.parametrize(
    "call, argument",
    [("update", -1), ("update", 2), ("truncate", -1), ("truncate", 4)],
    ids=["layer -1", "layer 2 of 2", "truncate to -1", "truncate 3 to 4"],
)
def test_what_it_does_not_hold_is_refused(expect, call, argument):
    """Python would take -1 for the last layer, and a slice beyond the end for the whole: wrong, and silent."""

    def refused(cls):
        cache = cls(2)
        cache.update(0, *pair(1, 2, 3))
        cache.update(1, *pair(1, 2, 3))
        return cache.update(argument, *pair(4)) if call == "update" else cache.truncate(argument)

    expect.story(refused, SimpleCache).raises(ValueError)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
@pytest.mark.parametrize("chunks", [(7,), (4, 3), (1, 1, 5), (1,) * 7], ids=str)
def test_a_text_in_chunks_gives_the_hidden_states_of_the_whole(expect, chunks):
    """What the cache is for: level 00's forward pass, three layers deep. Oracle: one pass without a cache."""

    def in_chunks(cls):
        cache = cls(MODEL.n_layers)
        parts = [hidden_states(PARAMS, MODEL, part, cache) for part in IDS.split(list(chunks), 1)]
        return torch.cat(parts, 1), cache.length

    expect.story(in_chunks, SimpleCache).equals((hidden_states(PARAMS, MODEL, IDS), 7), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level01.simple_cache.SimpleCache")
def test_a_text_can_be_gone_back_into(expect):
    """Seven tokens, back to three, another four: as if the first four had never been there. Oracle: no cache."""

    def another_ending(cls):
        cache = cls(MODEL.n_layers)
        hidden_states(PARAMS, MODEL, IDS, cache)
        cache.truncate(3)
        return hidden_states(PARAMS, MODEL, IDS.flip(1)[:, :4], cache)

    right = hidden_states(PARAMS, MODEL, torch.cat([IDS[:, :3], IDS.flip(1)[:, :4]], 1))[:, 3:]
    expect.story(another_ending, SimpleCache).equals(right, rel=1e-4, abs=1e-4)
