"""Judges cache.py by joins that are really made and counted, by slices of one long tensor, and by level 00's forward.

Of a KVCache only what `update`, `length` and `nbytes` give back is looked at, the addresses of those tensors, and the
bytes that an update allocates and writes. No two axes have the same size where shapes matter: 5 layers, 2 rows, 3 KV
heads, 4 features.
"""

from dataclasses import replace

import pytest
import torch

from dojo.cost import count
from dojo.models import SMOLLM2, Config, random_params
from level00.transformer import hidden_states
from level02.cache import KVCache, concat_copy_bytes, kv_bytes_per_token

# 6 query heads of 4 features are not d_model wide
MODEL = Config(5, 20, 6, 3, 4, 28, 101, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=0)
IDS = torch.tensor([[3, 14, 15, 92, 65, 35, 89], [27, 18, 28, 18, 28, 45, 90]])
FLAT = replace(MODEL, n_layers=1)
ONE = Config(1, 4, 2, 1, 2, 8, 101)  # one layer, one KV head of two features: small enough to be printed whole
LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
LLAMA_70B = Config(80, 8192, 64, 8, 128, 28672, 128256, tie_embeddings=False)


# ---- how many bytes


@pytest.mark.kata("level02.cache.kv_bytes_per_token")
def test_a_token_is_a_key_and_a_value_per_kv_head_and_layer(expect):
    """The docstring's example: 2 layers · (3 keys + 3 values) · 4 features · 2 bytes, whatever the 9 query heads do."""
    expect(kv_bytes_per_token, Config(2, 20, 9, 3, 4, 28, 101), 2).equals(96.0, rel=1e-12)


@pytest.mark.kata("level02.cache.kv_bytes_per_token")
@pytest.mark.parametrize(
    "config, bytes_per_element, right",
    [(SMOLLM2, 2, 23_040.0), (LLAMA_8B, 2, 131_072.0), (LLAMA_70B, 2, 327_680.0), (LLAMA_70B, 1, 163_840.0)],
    ids=["SmolLM2", "Llama-3-8B", "Llama-3-70B", "Llama-3-70B in 8 bits"],
)
def test_real_models_in_real_types(expect, config, bytes_per_element, right):
    """23 kB to 328 kB a token: the number that decides how many users a card can hold."""
    expect(kv_bytes_per_token, config, bytes_per_element).equals(right, rel=1e-12)


@pytest.mark.kata("level02.cache.kv_bytes_per_token")
def test_without_groups_the_cache_of_llama_is_four_times_as_large(expect):
    """32 KV heads instead of 8: 524,288 bytes. This is what grouped-query attention was made for."""
    expect(kv_bytes_per_token, replace(LLAMA_8B, n_kv_heads=32), 2).equals(524_288.0, rel=1e-12)


@pytest.mark.kata("level02.cache.kv_bytes_per_token")
@pytest.mark.parametrize("bytes_per_element", [4, 2, 1, 0.5, 0.53125])
def test_entries_need_not_be_whole_bytes(expect, bytes_per_element):
    """4 bits are half a byte, with a 2-byte scale for each 64 entries 0.53125. Oracle: a real token, entry by entry."""
    entries = sum(
        torch.empty(MODEL.n_kv_heads, 1, MODEL.head_dim).numel()
        for _ in range(MODEL.n_layers)
        for _ in ("key", "value")
    )
    expect(kv_bytes_per_token, MODEL, bytes_per_element).equals(entries * float(bytes_per_element), rel=1e-12)


# ---- the price of growing


def joined(start, steps, bytes_per_token):
    """Oracle: a cache that really grows by torch.cat, a row of bytes for each token; the bytes of all its results."""
    held, written = torch.zeros(start, bytes_per_token, dtype=torch.uint8), 0
    for _ in range(steps):
        held = torch.cat([held, torch.ones(1, bytes_per_token).byte()])
        written += held.nbytes
    return float(written)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
def test_every_step_writes_all_that_it_then_holds(expect):
    """The docstring's example: 101 tokens, then 102, of 10 bytes each. From nothing, 1 + 2 + 3 + 4 tokens."""
    expect(concat_copy_bytes, 100, 2, 10).equals(2030.0, rel=1e-12)
    expect(concat_copy_bytes, 0, 4, 1).equals(10.0, rel=1e-12)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
@pytest.mark.parametrize("start, steps", [(0, 1), (1, 1), (0, 2), (1, 2), (7, 3), (3, 7), (50, 20)])
def test_as_many_bytes_as_torch_cat_writes(expect, start, steps):
    """Oracle: the joins themselves. Start and steps differ, so that neither passes for the other."""
    expect(concat_copy_bytes, start, steps, 12).equals(joined(start, steps, 12), rel=1e-12)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
def test_no_step_writes_nothing(expect):
    """What is there already stays where it is; only a step copies it."""
    expect(concat_copy_bytes, 100, 0, 10).equals(0.0)
    expect(concat_copy_bytes, 0, 0, 10).equals(0.0)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
def test_1000_tokens_of_smollm2_write_500_times_their_size(expect):
    """23,040 · 1000 · 1001 / 2 = 11.53 GB for a cache of 0.023 GB: why nobody's server grows a cache by joining."""
    expect(concat_copy_bytes, 0, 1000, 23_040).equals(11_531_520_000.0, rel=1e-12)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
def test_a_token_need_not_be_whole_bytes(expect):
    """5 tokens and then 6, of 11.25 bytes each: packed entries (4 bits and their scales) have such sizes."""
    expect(concat_copy_bytes, 4, 2, 11.25).equals(123.75, rel=1e-12)


@pytest.mark.kata("level02.cache.concat_copy_bytes")
def test_less_than_no_token_is_refused(expect):
    """A negative count is a caller's mistake, which a sum over nothing would hide."""
    expect(concat_copy_bytes, 1, 1, 1).equals(2.0)
    expect(concat_copy_bytes, -1, 5, 1).raises(ValueError)
    expect(concat_copy_bytes, 5, -1, 1).raises(ValueError)


# ---- the cache: what it gives back


def pair(*tokens):
    """Keys and values of one row, one head: token t has the key [t, t] and the value [-t, -t]."""
    k = torch.tensor(tokens, dtype=torch.float32).view(1, 1, -1, 1).expand(1, 1, -1, 2).clone()
    return k, -k


def long_pair(layer, dtype=torch.float32):
    """Oracle: keys and values (2, 3, 9, 4) of nine tokens of `layer`, no two elements alike and none of them 0."""
    k = torch.arange(2 * 3 * 9 * 4).view(2, 3, 9, 4).to(dtype) + 1000 * layer + 1
    return k, k + 500


def cut(kv, start, stop):
    """The part of keys and values that belongs to the tokens start..stop - 1."""
    return tuple(x[:, :, start:stop].clone() for x in kv)


def made(cls, *args):
    """A cache of `cls`. Memory that it does not write holds NaN, as it may at any time; here torch sees to that."""
    was = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return cls(*args)
    finally:
        torch.set_deterministic_debug_mode(was)


def as_of_now(kv):
    """A copy of what an update returned, since views change with the buffer; zeros for what was never written."""
    return tuple(torch.where(x.isnan(), torch.zeros_like(x), x) for x in kv)


def forward_pass(cache, start, stop, n_layers=5):
    """Update every layer in order with its tokens start..stop - 1; what each update returns."""
    return [as_of_now(cache.update(layer, *cut(long_pair(layer), start, stop))) for layer in range(n_layers)]


def tried(call, *args):
    """What a call comes to: "accepted", or the name of its exception."""
    try:
        call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return "accepted"


@pytest.mark.kata("level02.cache.KVCache")
def test_update_returns_all_tokens_so_far_in_their_order(expect):
    """A query attends to the whole past and to nothing else: a row of zeros would still get the weight exp(0)."""

    def three_updates(cls):
        cache = made(cls, ONE, 1, 8)
        return [as_of_now(cache.update(0, *pair(*new)))[0] for new in ((1, 2), (3,), (4, 5, 6))]

    right = [pair(1, 2)[0], pair(1, 2, 3)[0], pair(1, 2, 3, 4, 5, 6)[0]]
    expect.story(three_updates, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
def test_keys_and_values_are_kept_apart(expect):
    """Keys decide where a query looks, values what it finds: mixed up, the text is fluent nonsense."""

    def two_updates(cls):
        cache = made(cls, ONE, 1, 5)
        cache.update(0, *pair(1, 2))
        return as_of_now(cache.update(0, *pair(3)))

    expect.story(two_updates, KVCache).equals(pair(1, 2, 3))


@pytest.mark.kata("level02.cache.KVCache")
def test_layers_rows_and_heads_are_kept_apart(expect):
    """Each layer looks things up in its own keys. Oracle: slices of one long tensor for each of five layers."""

    def three_forward_passes(cls):
        cache = made(cls, MODEL, 2, 9)
        return [forward_pass(cache, start, stop) for start, stop in ((0, 2), (2, 3), (3, 9))]

    right = [[cut(long_pair(layer), 0, stop) for layer in range(5)] for stop in (2, 3, 9)]
    expect.story(three_forward_passes, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
def test_caches_share_nothing(expect):
    """A server holds one cache for each batch; what one user said must not turn up in another's answer."""

    def two_caches(cls):
        first, second = made(cls, ONE, 1, 4), made(cls, ONE, 1, 4)
        mine = first.update(0, *pair(1, 2))
        lengths = first.length, second.length
        other = as_of_now(second.update(0, *pair(7)))
        return lengths, as_of_now(mine), other, as_of_now(first.update(0, *pair(3))), first.length, second.length

    right = (2, 0), pair(1, 2), pair(7), pair(1, 2, 3), 3, 1
    expect.story(two_caches, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize(
    "given", [torch.float32, torch.float64, torch.bfloat16], ids=["float32", "float64", "bfloat16"]
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16], ids=["float32", "bfloat16", "float16"]
)
def test_entries_have_the_type_of_the_cache(expect, dtype, given):
    """What was reserved decides, not what comes: in bfloat16 257 becomes 256, and the bytes are those planned for."""

    def in_two_updates(cls):
        cache, kv = made(cls, FLAT, 2, 9, dtype), long_pair(0, given)
        cache.update(0, *cut(kv, 0, 4))
        return as_of_now(cache.update(0, *cut(kv, 4, 9)))

    right = tuple(x.to(dtype) for x in long_pair(0, given))
    expect.story(in_two_updates, KVCache).equals(right, rel=0, abs=0)


@pytest.mark.kata("level02.cache.KVCache")
def test_unless_told_otherwise_the_cache_is_float32(expect):
    """The default of the signature, and the width in which this course runs its model."""

    def by_default(cls):
        cache = made(cls, ONE, 1, 3)
        return as_of_now(cache.update(0, *(x.bfloat16() for x in pair(1, 2))))

    expect.story(by_default, KVCache).equals(pair(1, 2))


@pytest.mark.kata("level02.cache.KVCache")
def test_memory_may_lie_in_any_order(expect):
    """Keys come as a transposed view of (B, n, G · D), the new token as one row that is expanded over the batch."""

    def strided(cls):
        cache, (k, v) = made(cls, FLAT, 2, 9), long_pair(0)
        first = (x[:, :, :4].transpose(1, 2).contiguous().transpose(1, 2) for x in (k, v))
        cache.update(0, *first)
        return as_of_now(cache.update(0, *(x[:1, :, 4:5].expand(2, 3, 1, 4) for x in (k, v))))

    right = tuple(torch.cat([x[:, :, :4], x[:1, :, 4:5].expand(2, 3, 1, 4)], 2) for x in long_pair(0))
    expect.story(strided, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
def test_the_caller_keeps_its_tensors(expect):
    """The cache writes what it is given into its own room: a step's buffer is used again for the next token."""

    def one_buffer_for_every_token(cls):
        cache, (k, v) = made(cls, ONE, 1, 3), pair(0)
        given = []
        for token in (5, 6, 7):
            k.fill_(token), v.fill_(-token)
            seen = cache.update(0, k, v)
            given.append(as_of_now((k, v)))
        return as_of_now(seen), given

    expect.story(one_buffer_for_every_token, KVCache).equals((pair(5, 6, 7), [pair(5), pair(6), pair(7)]))


@pytest.mark.kata("level02.cache.KVCache")
def test_a_whole_prompt_is_copied_too(expect):
    """Also where it fills the cache in one update: the caller's tensor is no room of the cache's."""

    def overwritten_by_its_owner(cls):
        cache, (k, v) = made(cls, ONE, 1, 3), pair(1, 2, 3)
        seen = cache.update(0, k, v)
        k.zero_(), v.zero_()
        return as_of_now(seen)

    expect.story(overwritten_by_its_owner, KVCache).equals(pair(1, 2, 3))


@pytest.mark.kata("level02.cache.KVCache")
def test_what_was_returned_stays_right_while_tokens_are_added(expect):
    """Attention may still read the views of an earlier step: new tokens are written behind them, never over them."""

    def looked_at_later(cls):
        cache = made(cls, ONE, 1, 6)
        returned = [cache.update(0, *pair(*new)) for new in ((1, 2), (3,), (4, 5, 6))]
        return [as_of_now(kv) for kv in returned]

    expect.story(looked_at_later, KVCache).equals([pair(1, 2), pair(1, 2, 3), pair(1, 2, 3, 4, 5, 6)])


# ---- the cache: length, truncate


@pytest.mark.kata("level02.cache.KVCache")
def test_the_length_moves_after_the_last_layer(expect):
    """A forward pass reads it first: layer 1 must not see another position than layer 0."""

    def length_after_each_update(cls):
        cache = made(cls, replace(ONE, n_layers=2), 1, 8)
        seen = [cache.length]
        for layer in (0, 1):
            cache.update(layer, *pair(5, 6))
            seen.append(cache.length)
        return seen

    expect.story(length_after_each_update, KVCache).equals([0, 0, 2])


@pytest.mark.kata("level02.cache.KVCache")
def test_the_length_counts_tokens(expect):
    """Not updates, layers, rows, heads or room: 4 tokens and then 1, in five layers, for 2 rows of 3 heads."""

    def length_during_two_passes(cls):
        cache, seen = made(cls, MODEL, 2, 9), []
        for start, stop in ((0, 4), (4, 5)):
            for layer in range(5):
                cache.update(layer, *cut(long_pair(layer), start, stop))
                seen.append(cache.length)
        return seen, cache.max_cached_tokens

    expect.story(length_during_two_passes, KVCache).equals(([0, 0, 0, 0, 4, 4, 4, 4, 4, 5], 9))


@pytest.mark.kata("level02.cache.KVCache")
def test_truncate_keeps_the_first_tokens_of_keys_and_values(expect):
    """A rejected draft (level 08) is taken back by it: the newest tokens go, and the next one follows what is left."""

    def cut_to_one_and_go_on(cls):
        cache = made(cls, ONE, 1, 4)
        cache.update(0, *pair(1, 2, 3))
        cache.truncate(1)
        length = cache.length
        return length, as_of_now(cache.update(0, *pair(4))), cache.length

    expect.story(cut_to_one_and_go_on, KVCache).equals((1, pair(1, 4), 2))


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("n", range(6))
def test_truncate_cuts_every_layer(expect, n):
    """Of 5 tokens in five layers to n, from none of them to the whole, and on from there."""

    def cut_and_go_on(cls):
        cache = made(cls, MODEL, 2, 9)
        forward_pass(cache, 0, 5)
        cache.truncate(n)
        length = cache.length
        return length, forward_pass(cache, 7, 9), cache.length

    both = [tuple(torch.cat(x, 2) for x in zip(cut(pair, 0, n), cut(pair, 7, 9))) for pair in map(long_pair, range(5))]
    expect.story(cut_and_go_on, KVCache).equals((n, both, n + 2))


@pytest.mark.kata("level02.cache.KVCache")
def test_truncate_works_again_and_again(expect):
    """Speculation takes tokens back at every step: what was cut off once must not come back when more is cut."""

    def take_back_three_times(cls):
        cache, seen = made(cls, ONE, 1, 5), []
        for new, n in (((1, 2, 3, 4), 3), ((5,), 2), ((6, 7), 4)):
            cache.update(0, *pair(*new))
            cache.truncate(n)
            seen.append(cache.length)
        return seen, as_of_now(cache.update(0, *pair(8)))

    expect.story(take_back_three_times, KVCache).equals(([3, 2, 4], pair(1, 2, 6, 7, 8)))


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("held, n", [(4, 3), (4, 4), (4, 0), (0, 0)])
def test_a_pass_that_broke_off_can_be_taken_back(expect, held, n):
    """The first layers then hold more than the last. Every layer keeps the first n, also where n is the length."""

    def broken_off(cls):
        cache = made(cls, MODEL, 2, 9)
        forward_pass(cache, 0, held, n_layers=5 if held else 0)
        forward_pass(cache, held, held + 2, n_layers=2)
        cache.truncate(n)
        return cache.length, forward_pass(cache, n, n + 2), cache.length

    right = n, [cut(long_pair(layer), 0, n + 2) for layer in range(5)], n + 2
    expect.story(broken_off, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
def test_truncated_tokens_make_room(expect):
    """A cache is used for one request after the other: what was taken back does not count towards what fits."""

    def filled_again(cls):
        cache = made(cls, ONE, 1, 4)
        cache.update(0, *pair(1, 2, 3, 4))
        cache.truncate(1)
        second = as_of_now(cache.update(0, *pair(5, 6, 7)))
        cache.truncate(0)
        return second, as_of_now(cache.update(0, *pair(8, 9, 10, 11))), cache.length

    expect.story(filled_again, KVCache).equals((pair(1, 5, 6, 7), pair(8, 9, 10, 11), 4))


# ---- the cache: what does not fit


@pytest.mark.kata("level02.cache.KVCache")
def test_the_last_slot_can_be_used(expect):
    """Room for 3 is room for 3, at once and one by one; a request of exactly its limit is not refused."""

    def full(cls):
        at_once, one_by_one, single = made(cls, ONE, 1, 3), made(cls, ONE, 1, 3), made(cls, ONE, 1, 1)
        found = [as_of_now(at_once.update(0, *pair(1, 2, 3)))]
        found.append([as_of_now(one_by_one.update(0, *pair(token))) for token in (1, 2, 3)][-1])
        return found, as_of_now(single.update(0, *pair(4))), at_once.length, one_by_one.length, single.length

    expect.story(full, KVCache).equals(([pair(1, 2, 3)] * 2, pair(4), 3, 3, 1))


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("held, new", [(3, 1), (3, 2), (2, 2), (0, 4), (1, 9)], ids=str)
def test_more_tokens_than_fit_are_refused(expect, held, new):
    """The docstring's example and its neighbours, in room for 3. Dropped in silence they come back as nonsense text."""

    def too_many(cls):
        cache = made(cls, ONE, 1, 3)
        fits = tried(cache.update, 0, *pair(*range(held))) if held else "accepted"
        return fits, tried(cache.update, 0, *pair(*range(7, 7 + new)))

    expect.story(too_many, KVCache).equals(("accepted", "ValueError"))


@pytest.mark.kata("level02.cache.KVCache")
def test_a_refused_update_changes_nothing(expect):
    """The server answers "too long", and the request goes on with what it held: nothing is written over or counted."""

    def refused_and_gone_on(cls):
        cache, refused = made(cls, MODEL, 2, 4), []
        for start in (0, 3):
            refused.append(tried(cache.update, 0, *cut(long_pair(0), start, start + 5)))
            last = forward_pass(cache, start, 3 if start == 0 else 4)
        refused.append(tried(cache.update, 0, *cut(long_pair(0), 4, 5)))
        length = cache.length
        cache.truncate(3)
        return refused, last, length, forward_pass(cache, 5, 6)

    whole = [cut(long_pair(layer), 0, 4) for layer in range(5)]
    again = [tuple(torch.cat([x[:, :, :3], x[:, :, 5:6]], 2) for x in long_pair(layer)) for layer in range(5)]
    expect.story(refused_and_gone_on, KVCache).equals((["ValueError"] * 3, whole, 4, again))


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("n", [-1, 4, 5], ids=["to -1", "3 to 4", "3 to 5"])
def test_truncate_refuses_what_it_does_not_hold(expect, n):
    """A negative n would cut from the end, as slices do, and one beyond the length would make garbage of fresh memory
    into tokens: room for 5 does not mean that 5 are held."""

    def cut_elsewhere(cls):
        cache = made(cls, ONE, 1, 5)
        cache.update(0, *pair(1, 2, 3))
        refused = tried(cache.truncate, n)
        return refused, cache.length, as_of_now(cache.update(0, *pair(4)))

    expect.story(cut_elsewhere, KVCache).equals(("ValueError", 3, pair(1, 2, 3, 4)))


@pytest.mark.kata("level02.cache.KVCache")
def test_a_cache_of_nothing_and_keys_of_another_shape_are_refused(expect):
    """One row broadcast over a batch of two would give both users the same past."""

    def odd(cls):
        cache, k = made(cls, MODEL, 2, 4), torch.ones(2, 3, 2, 4)
        shapes = [(k[:1], k[:1]), (k, k[:, :, :1]), (k[:, :, :1], k), (k, k[..., :2]), (torch.ones(3, 3, 2, 4),) * 2]
        sizes = [(0, 4), (-1, 4), (2, 0), (2, -3)]
        refused = [tried(cache.update, 0, *kv) for kv in shapes] + [tried(cls, MODEL, *size) for size in sizes]
        return refused, tried(cache.update, 0, k, k)

    expect.story(odd, KVCache).equals((["ValueError"] * 9, "accepted"))


# ---- the cache: memory

LONG, TOKEN = 200, 192  # tokens, and bytes of one: 2 rows of 3 heads with a key and a value of 4 features


@pytest.mark.kata("level02.cache.KVCache")
def test_each_token_is_written_once_and_never_moved(expect):
    """What joining costs is what this cache is for. Filled token by token, it allocates only what one token needs.

    Largest allocation of a right update 384 bytes (keys and values joined in float64), of a wrong one 19,200 (the keys
    once more). Written by right ones up to 200 · 5 · 192 bytes in all, by a wrong one 200 · 201 / 2 · 96. The limits
    are the square roots of the products: 14 tokens, and each token 16 times.
    """

    def token_by_token(cls):
        cache = made(cls, FLAT, 2, LONG)
        k = torch.arange(2 * 3 * LONG * 4, dtype=torch.float32).view(2, 3, LONG, 4)

        def fill():
            for t in range(LONG):
                cache.update(0, k[:, :, t : t + 1], k[:, :, t : t + 1])

        cost = count(fill)
        return {
            "tokens": cache.length,
            "allocates as much as 14 tokens": cost.largest.bytes > 14 * TOKEN,
            "writes each token 16 times": cost.bytes_written > 16 * LONG * TOKEN,
        }

    right = {"tokens": LONG, "allocates as much as 14 tokens": False, "writes each token 16 times": False}
    expect.story(token_by_token, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_update_returns_views_of_the_same_memory(expect, dtype):
    """A copy for each layer and step would bring back the traffic that the reserved room saves. The first token of a
    layer has one address for keys and one for values, however often it is returned, and after truncate too."""

    def addresses(cls):
        cache, seen = made(cls, MODEL, 2, 9, dtype), []
        for start, stop in ((0, 2), (2, 3), (3, 8), (5, 9), (0, 4)):
            if start < cache.length:
                cache.truncate(start)
            seen += [(layer, cache.update(layer, *cut(long_pair(layer), start, stop))) for layer in range(5)]
        places = {(layer, side, kv[side].data_ptr()) for layer, kv in seen for side in (0, 1)}  # seen keeps all alive
        return [len([1 for layer, side, _ in places if (layer, side) == (i, s)]) for i in range(5) for s in (0, 1)]

    expect.story(addresses, KVCache).equals([1] * 10)


@pytest.mark.kata("level02.cache.KVCache")
def test_what_is_written_into_a_view_is_in_the_cache(expect):
    """The other side of "no copy": a later level turns keys in place, where they lie."""

    def turned_in_place(cls):
        cache = made(cls, ONE, 1, 4)
        k, v = cache.update(0, *pair(1, 2))
        k[:, :, 0], v[:, :, 1] = 8, 9
        return as_of_now(cache.update(0, *pair(3)))

    k, v = pair(1, 2, 3)
    k[:, :, 0], v[:, :, 1] = 8, 9
    expect.story(turned_in_place, KVCache).equals((k, v))


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize(
    "config, batch, room, dtype, right",
    [
        (ONE, 1, 1, torch.float32, 2 * 2 * 4),
        (MODEL, 2, 9, torch.float32, 2 * 5 * 2 * 3 * 9 * 4 * 4),
        (MODEL, 3, 7, torch.bfloat16, 2 * 5 * 3 * 3 * 7 * 4 * 2),
        (MODEL, 1, 8, torch.float64, 2 * 5 * 3 * 8 * 4 * 8),
        (SMOLLM2, 2, 128, torch.bfloat16, 5_898_240),
    ],
    ids=["smallest", "float32", "bfloat16", "float64", "SmolLM2"],
)
def test_the_room_of_a_cache_in_bytes(expect, config, batch, room, dtype, right):
    """Rows · room · bytes per token, of keys and values in all layers; SmolLM2: 2 · 128 · 23,040. All of it is taken
    whether it is used or not: reserved rows are what level 06 gets rid of."""

    def nbytes(cls):
        return made(cls, config, batch, room, dtype).nbytes

    expect.story(nbytes, KVCache).equals(right)


@pytest.mark.kata("level02.cache.KVCache")
def test_the_bytes_are_the_same_empty_half_full_and_full(expect):
    """Nothing grows, and nothing is given back: what was planned at the start is what the request takes."""

    def nbytes_on_the_way(cls):
        cache = made(cls, MODEL, 2, 9)
        seen = [cache.nbytes]
        for start, stop in ((0, 4), (4, 9)):
            forward_pass(cache, start, stop)
            seen.append(cache.nbytes)
        cache.truncate(1)
        return [*seen, cache.nbytes]

    expect.story(nbytes_on_the_way, KVCache).equals([2 * 5 * 2 * 3 * 9 * 4 * 4] * 4)


@pytest.mark.kata("level02.cache.KVCache")
def test_the_buffers_are_no_larger_than_nbytes_says(expect):
    """A card is filled by what is allocated, not by what a property says. Each memory block behind the views, once."""

    def behind_the_views(cls):
        cache = made(cls, MODEL, 2, 9, torch.bfloat16)
        returned = [x for layer in range(5) for x in cache.update(layer, *cut(long_pair(layer), 0, 2))]
        blocks = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in returned}
        return "more" if sum(blocks.values()) > 2 * 5 * 2 * 3 * 9 * 4 * 2 else "no more"

    expect.story(behind_the_views, KVCache).equals("no more")


# ---- the cache: in a model


@pytest.mark.kata("level02.cache.KVCache")
@pytest.mark.parametrize("room", [7, 20])
@pytest.mark.parametrize("chunks", [(7,), (4, 3), (1, 1, 5), (1,) * 7], ids=str)
def test_a_text_in_chunks_gives_the_hidden_states_of_the_whole(expect, chunks, room):
    """What the cache is for: level 00's forward, five layers deep, also full to the last slot. Oracle: no cache."""

    def in_chunks(cls):
        cache = made(cls, MODEL, 2, room)
        parts = [hidden_states(PARAMS, MODEL, part, cache) for part in IDS.split(list(chunks), 1)]
        return torch.cat(parts, 1), cache.length

    expect.story(in_chunks, KVCache).equals((hidden_states(PARAMS, MODEL, IDS), 7), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level02.cache.KVCache")
def test_a_text_can_be_gone_back_into(expect):
    """Seven tokens, back to three, another four: as if the first four had never been there. Oracle: no cache."""

    def another_ending(cls):
        cache = made(cls, MODEL, 2, 7)
        hidden_states(PARAMS, MODEL, IDS, cache)
        cache.truncate(3)
        return hidden_states(PARAMS, MODEL, IDS.flip(1)[:, :4], cache)

    right = hidden_states(PARAMS, MODEL, torch.cat([IDS[:, :3], IDS.flip(1)[:, :4]], 1))[:, 3:]
    expect.story(another_ending, KVCache).equals(right, rel=1e-4, abs=1e-4)
