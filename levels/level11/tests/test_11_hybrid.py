"""Judges hybrid.py by loops over tokens and their slots, by level 00's forward over a whole text under masks made here,
and by Gemma 3's logits. Of a HybridCache only what it gives back is looked at, and the memory that is alive.

No two axes have the same size: 5 layers, 2 rows, 3 KV heads, 4 features.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dojo.cost import count
from dojo.models import Config, random_params
from level00.layers import attention
from level00.transformer import forward
from level11.families import gemma3, random_weights
from level11.hybrid import HybridCache, forward_hybrid, hybrid_kv_bytes, layer_is_global, receptive_field

count(torch.zeros, 1)  # at its first count torch imports its compiler: not on the clock of a test

# ---- which layers, how far, how many bytes: judged with HybridCache


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_the_last_layer_of_a_period_is_global(expect):
    """The docstring's example, Gemma 3's five to one: numbers 5 and 11 of 12, and ten of the 62 of the 27B."""
    expect(layer_is_global, 12, 6).equals([False] * 5 + [True] + [False] * 5 + [True])
    expect(layer_is_global, 62, 6).equals([number % 6 == 5 for number in range(62)])


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize(
    "n_layers, period, right", [(7, 3, [2, 5]), (4, 2, [1, 3]), (3, 1, [0, 1, 2]), (2, 3, []), (3, 3, [2]), (0, 4, [])]
)
def test_a_period_may_be_cut_off_or_be_all_there_is(expect, n_layers, period, right):
    """The last layers of a stack need not end a period: Gemma 3's 26 layers end with two local ones."""
    expect(layer_is_global, n_layers, period).equals([number in right for number in range(n_layers)])


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_a_period_without_layers_is_refused(expect):
    """There is no last one of no layers."""
    expect(layer_is_global, 2, 1).equals([True, True])
    expect(layer_is_global, 3, 0).raises(ValueError)


def reached(n_layers, window):
    """Oracle: follow the keys that a late token sees down through the layers, and count them."""
    last = 200
    seen = {last}
    for _ in range(n_layers):
        seen = {key for query in seen for key in range(query - window + 1, query + 1)}
    return len(seen)


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize("n_layers, window", [(3, 4), (1, 4), (5, 2), (4, 1), (0, 3), (2, 30)])
def test_each_layer_looks_a_window_further_back(expect, n_layers, window):
    """What is further away cannot reach the answer, however it is trained. Oracle: a walk down through the layers."""
    expect(receptive_field, n_layers, window).equals(reached(n_layers, window))


GEMMA_27B = Config(62, 5376, 32, 16, 128, 21504, 262144)
MODEL = Config(5, 20, 6, 3, 4, 28, 101, max_seq_len=64, tie_embeddings=False)


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize(
    "config, is_global, window, context_len, size, right",
    [
        (Config(2, 1, 1, 1, 1, 1, 1), [False, True], 8, 100, 2, 432),
        (GEMMA_27B, [number % 6 == 5 for number in range(62)], 1024, 32_768, 2, 3_120_562_176),
        (GEMMA_27B, [number % 6 == 5 for number in range(62)], 1024, 512, 2, 260_046_848),
        (MODEL, [True, False, False, False, True], 7, 9, 2, (2 * 9 + 3 * 7) * 2 * 3 * 4 * 2),
        (MODEL, [True, False, False, False, True], 7, 7, 4, 5 * 7 * 2 * 3 * 4 * 4),
        (MODEL, [False] * 5, 7, 1000, 0.5, 5 * 7 * 2 * 3 * 4 * 0.5),
        (MODEL, [True, False, False, False, True], 7, 9, 0.5625, (2 * 9 + 3 * 7) * 13.5),  # 4 bits and their scales
        (MODEL, (True,) * 5, 7, 30, 1, 5 * 30 * 2 * 3 * 4),
        (MODEL, [False, True, False, False, False], 7, 0, 2, 0),
    ],
    ids=["example", "27B", "27B, short", "not its last", "as its window", "local", "scales", "global", "no text"],
)
def test_local_layers_stop_growing(expect, config, is_global, window, context_len, size, right):
    """By hand: tokens held, summed over the layers, times 2 · KV heads · head_dim · bytes. Of Gemma 3's 27B at 32,768
    tokens that is 3.1 GB, where all layers global would need 16.6."""
    expect(hybrid_kv_bytes, config, is_global, window, context_len, size).equals(float(right), rel=1e-12)


# ---- the cache: what it gives back

LAST, FIRST = [False, False, True, False, True], [True, False, False, False, False]
PATTERNS = {
    "last": LAST,
    "first": FIRST,
    "in turn": [False, True, False, True, False],
    "one local": [True, True, False, True, True],
    "blocks": [True, True, False, False, False],
}
EACH_PATTERN = pytest.mark.parametrize("pattern", PATTERNS)


def slots(length, window):
    """Oracle: put one position after the other into its slot of the ring."""
    ring = [-1] * window
    for p in range(length):
        ring[p % window] = p
    return ring


def keys_of(sees_all, start, stop, window):
    """Oracle: the positions of the keys that a layer's update returns, -1 for an empty slot."""
    return list(range(stop)) if sees_all else [*slots(start, window), *range(start, stop)]


def right_mask(sees_all, start, stop, window):
    """Oracle: one question for each pair of a query and a key."""
    keys = keys_of(sees_all, start, stop, window)
    reach = stop if sees_all else window
    return torch.tensor([[key >= 0 and query - reach < key <= query for key in keys] for query in range(start, stop)])


def long_pair(layer, dtype=torch.float32):
    """Oracle: keys and values (2, 3, 20, 4) of twenty tokens of `layer`, no two elements alike and none of them 0."""
    k = torch.arange(2 * 3 * 20 * 4).view(2, 3, 20, 4).to(dtype) + 1000 * layer + 1
    return k, k + 500


def tokens_at(kv, positions):
    """Keys and values at these positions, zeros at -1."""
    padded = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in kv)  # -1 is the last one
    return tuple(x[:, :, list(positions)] for x in padded)


def as_of_now(kv, mask):
    """A copy of what an update returned, with zeros for whatever finite numbers stand where nobody looks."""
    unseen = ~mask.any(0)
    copies = [x.clone() for x in kv]
    for x in copies:
        if x.shape[2] == len(unseen):
            x[:, :, unseen] = x[:, :, unseen].masked_fill(x[:, :, unseen].isfinite(), 0)
    return tuple(copies)


def one_pass(cache, is_global, start, stop, window, source=None, upto=5):
    """What each layer's mask and update give for the tokens start..stop - 1; of `source`, if those are others."""
    found = []
    for layer in range(upto):
        mask = cache.mask_for(layer, stop - start)
        new = tokens_at(long_pair(layer), source or range(start, stop))
        seen = right_mask(is_global[layer], start, stop, window)
        found.append((mask, as_of_now(cache.update(layer, *new), seen)))
    return found


def right_pass(is_global, start, stop, window, history=range(20), upto=5):
    """Oracle: masks, and each layer's tokens in their order. `history`: which tokens stand at the positions 0, 1, …"""
    right = []
    for layer in range(upto):
        mask = right_mask(is_global[layer], start, stop, window)
        order = [-1 if p < 0 else history[p] for p in keys_of(is_global[layer], start, stop, window)]
        right.append((mask, as_of_now(tokens_at(long_pair(layer), order), mask)))
    return right


def tried(call, *args):
    """What a call comes to: "accepted", or the name of its exception."""
    try:
        call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return "accepted"


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_a_local_layer_shows_its_ring_and_a_global_one_everything(expect):
    """The docstring's example: window 3 after 5 tokens. Slots hold 3, 4, 2; the sixth token sees 3, 4 and itself."""

    def masks_of_the_sixth_token(cls):
        cache = cls(replace(MODEL, n_layers=6), [False] * 5 + [True], 2, 3, 9)
        for layer in range(6):
            cache.update(layer, *tokens_at(long_pair(layer), range(5)))
        return cache.mask_for(0, 1), cache.mask_for(5, 1)

    right = torch.tensor([[True, True, False, True]]), torch.tensor([[True] * 6])
    expect.story(masks_of_the_sixth_token, HybridCache).equals(right)


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
@pytest.mark.parametrize("chunks", [(1,) * 7, (2, 3, 4), (5, 1, 6)], ids=lambda x: "+".join(map(str, x)))
def test_every_layer_gives_back_its_own_keys_and_who_sees_them(expect, pattern, chunks):
    """Chunks shorter and longer than the window of 4, rings that are empty, full and overwritten. A mask is asked for
    just before its layer's update, as Gemma's layers do it."""
    is_global = PATTERNS[pattern]

    def passes(cls):
        cache, found, start = cls(MODEL, is_global, 2, 4, 12), [], 0
        for n in chunks:
            found.append((cache.length, one_pass(cache, is_global, start, start + n, 4)))
            start += n
        return found, cache.length

    right, start = [], 0
    for n in chunks:
        right.append((start, right_pass(is_global, start, start + n, 4)))
        start += n
    expect.story(passes, HybridCache).equals((right, start))


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
def test_masks_may_be_asked_for_before_the_pass(expect, pattern):
    """All of them and in any order, as forward_hybrid does it. Asking changes nothing."""
    is_global = PATTERNS[pattern]

    def asked_first(cls):
        cache, found = cls(MODEL, is_global, 2, 3, 12), []
        for start, stop in ((0, 4), (4, 5), (5, 7)):
            for layer in (4, 2, 0, 3, 1):
                found.append((cache.mask_for(layer, stop - start), cache.mask_for(layer, 2)))
            one_pass(cache, is_global, start, stop, 3)
        return found

    right = [
        (right_mask(is_global[layer], start, stop, 3), right_mask(is_global[layer], start, start + 2, 3))
        for start, stop in ((0, 4), (4, 5), (5, 7))
        for layer in (4, 2, 0, 3, 1)
    ]
    expect.story(asked_first, HybridCache).equals(right)


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
def test_the_length_moves_with_the_last_layer_of_the_model(expect, pattern):
    """Whichever kind it is: a forward pass takes the positions of its tokens from it."""
    is_global = PATTERNS[pattern]

    def during_two_passes(cls):
        cache = cls(MODEL, is_global, 2, 3, 9)
        seen = [cache.length]
        for n in (4, 1):
            for layer in range(5):
                cache.update(layer, *tokens_at(long_pair(layer), range(n)))
                seen.append(cache.length)
        return seen

    expect.story(during_two_passes, HybridCache).equals([0] * 5 + [4] * 5 + [5])


# ---- the cache: bytes


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize(
    "is_global, batch, window, room, dtype, right",
    [
        (LAST, 1, 3, 8, torch.float32, (2 * 8 + 3 * 3) * 2 * 3 * 4 * 4),
        (FIRST, 2, 4, 12, torch.bfloat16, (12 + 4 * 4) * 2 * 2 * 3 * 4 * 2),
        (PATTERNS["one local"], 3, 5, 7, torch.float64, (4 * 7 + 5) * 3 * 2 * 3 * 4 * 8),
    ],
    ids=["last", "first", "one local"],
)
def test_the_cache_in_bytes(expect, is_global, batch, window, room, dtype, right):
    """Rows times tokens held, summed over the layers, times what a layer keeps of a token; the same empty and full."""

    def nbytes(cls):
        cache = cls(MODEL, is_global, batch, window, room, dtype)
        empty = cache.nbytes
        for layer in range(5):
            cache.update(layer, *(x[:, :, :room] for x in [torch.ones(batch, 3, room, 4)] * 2))
        return empty, cache.nbytes

    expect.story(nbytes, HybridCache).equals((right, right))


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_a_local_layer_has_no_room_for_the_text(expect):
    """20 layers, one of them global, window 4, room for 2,000 tokens: what is really allocated, whatever nbytes says.

    A layer's room for all of the text is 192,000 bytes, a ring 384. A right program holds 1.04 of the former (with the
    old ring beside the new one 1.08), one that gives it to each layer 20. The limit is 4.
    """

    def read_in_chunks(cls):
        config, k = replace(MODEL, n_layers=20), torch.ones(1, 3, 4, 4)

        def read():
            cache = cls(config, [False] * 19 + [True], 1, 4, 2000)
            for _ in range(3):
                for layer in range(20):
                    cache.update(layer, k, k)
            return cache

        return "more" if count(read).peak_bytes > 4 * 192_000 else "at most 4 layers' room"

    expect.story(read_in_chunks, HybridCache).equals("at most 4 layers' room")


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_both_kinds_have_the_type_of_the_cache(expect, dtype):
    """A cache in half precision is half as large, in each of its layers. float32 unless told otherwise."""

    def types(cls):
        cache = cls(MODEL, LAST, 2, 3, 9) if dtype == torch.float32 else cls(MODEL, LAST, 2, 3, 9, dtype)
        given = [tokens_at(long_pair(layer, torch.float64), (0, 1)) for layer in range(5)]
        return [str(x.dtype) for layer in range(5) for x in cache.update(layer, *given[layer])]

    expect.story(types, HybridCache).equals([str(dtype)] * 10)


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_two_caches_share_nothing(expect):
    """A server holds one for each batch."""

    def two(cls):
        first, second = cls(MODEL, LAST, 2, 3, 9), cls(MODEL, LAST, 2, 3, 9)
        one_pass(first, LAST, 0, 2, 3)
        other = second.length, one_pass(second, LAST, 0, 1, 3, source=(9,))
        return other, one_pass(first, LAST, 2, 3, 3), (first.length, second.length)

    right = (0, right_pass(LAST, 0, 1, 3, [9])), right_pass(LAST, 2, 3, 3), (3, 1)
    expect.story(two, HybridCache).equals(right)


# ---- the cache: going back


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
@pytest.mark.parametrize("chunks", [(3,), (4, 2)], ids=str)
def test_truncate_goes_back_in_all_layers_or_in_none(expect, pattern, chunks):
    """A rejected draft. Rings of 4 that have been overwritten refuse, and then no global layer has moved either: the
    next pass would join two texts. To 0 always. Oracle: is all that a ring held still there?"""
    length, is_global = sum(chunks), PATTERNS[pattern]

    def back_and_on(cls):
        found = []
        for n in (0, 1, length - 1, length):
            cache, start = cls(MODEL, is_global, 2, 4, 12), 0
            for size in chunks:
                one_pass(cache, is_global, start, start + size, 4)
                start += size
            came = tried(cache.truncate, n)
            at = n if came == "accepted" else length
            found.append((n, came, cache.length, one_pass(cache, is_global, at, at + 2, 4, source=(18, 19))))
        return found

    right = []
    for n in (0, 1, length - 1, length):
        possible = {p for p in slots(n, 4) if p >= 0} <= set(slots(length, 4))
        at = n if possible else length
        passed = right_pass(is_global, at, at + 2, 4, [*range(at), 18, 19])
        right.append((n, "accepted" if possible else "ValueError", at, passed))
    expect.story(back_and_on, HybridCache).equals(right)


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_back_at_0_the_cache_serves_the_next_request(expect):
    """Long after the rings were overwritten. Nothing of the last text is seen."""

    def next_request(cls):
        cache = cls(MODEL, LAST, 2, 3, 9)
        one_pass(cache, LAST, 0, 8, 3)
        cache.truncate(0)
        back = cache.length
        passes = one_pass(cache, LAST, 0, 2, 3, source=(11, 12)), one_pass(cache, LAST, 2, 5, 3)
        return back, *passes, cache.length

    right = right_pass(LAST, 0, 2, 3, [11, 12]), right_pass(LAST, 2, 5, 3, [11, 12, 2, 3, 4])
    expect.story(next_request, HybridCache).equals((0, *right, 5))


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
def test_a_length_that_never_was_is_refused(expect, pattern):
    """By each kind of layer, and nothing has moved."""
    is_global = PATTERNS[pattern]

    def odd(cls):
        cache = cls(MODEL, is_global, 2, 4, 12)
        one_pass(cache, is_global, 0, 3, 4)
        refused = [tried(cache.truncate, n) for n in (-1, 4)]
        return refused, cache.length, one_pass(cache, is_global, 3, 4, 4)

    expect.story(odd, HybridCache).equals((["ValueError"] * 2, 3, right_pass(is_global, 3, 4, 4)))


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_what_makes_no_sense_is_refused(expect):
    """More tokens than the global layers hold, one user's keys for two, no rows, and a stack of one kind."""

    def odd(cls):
        cache, k = cls(MODEL, LAST, 2, 3, 4), torch.ones(2, 3, 5, 4)
        refused = [tried(cls, MODEL, *rest) for rest in ((LAST, 0, 3, 9), (LAST, 2, 0, 9), (LAST, 2, 3, 0))]
        refused += [tried(cls, MODEL, kinds, 2, 3, 9) for kinds in ([True] * 5, [False] * 5, [False, True], [])]
        refused += [tried(cache.update, layer, *kv) for layer in (0, 2) for kv in ((k[:1], k[:1]), (k, k[:, :, :1]))]
        return [*refused, tried(cache.update, 2, k, k), tried(cache.update, 2, k[:, :, :4], k[:, :, :4])]

    expect.story(odd, HybridCache).equals(["ValueError"] * 12 + ["accepted"])


@pytest.mark.kata("level11.hybrid.HybridCache")
def test_which_layers_are_global_may_be_a_tuple(expect):
    """A Sequence, such as a configuration that cannot be changed."""

    def from_a_tuple(cls):
        cache = cls(MODEL, tuple(LAST), 2, 3, 9)
        return one_pass(cache, LAST, 0, 4, 3)

    expect.story(from_a_tuple, HybridCache).equals(right_pass(LAST, 0, 4, 3))


# ---- the cache: in a model

WEIGHTS = random_params(MODEL, seed=0)
IDS = torch.tensor([[3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26], [27, 18, 28, 18, 28, 45, 90, 45, 23, 53, 60, 28]])


def whole(is_global, window):
    """Oracle: one pass without a cache, each layer's attention under a mask that is made here."""
    masks = iter([right_mask(sees_all, 0, 12, window)[:, -12:] for sees_all in is_global])
    return forward(WEIGHTS, MODEL, IDS, attend=lambda q, k, v, _: attention(q, k, v, next(masks)))


@pytest.mark.kata("level11.hybrid.HybridCache")
@EACH_PATTERN
@pytest.mark.parametrize("chunks", [(1,) * 12, (5, 3, 4)], ids=lambda x: "+".join(map(str, x)))
def test_a_text_in_chunks_gives_the_logits_of_the_whole(expect, pattern, chunks):
    """Level 00's Llama with windows in some of its layers, through forward_hybrid. Oracle: one pass without a cache."""
    is_global = PATTERNS[pattern]

    def in_chunks(cls):
        cache = cls(MODEL, is_global, 2, 4, 12)
        return torch.cat([forward_hybrid(WEIGHTS, MODEL, part, cache) for part in IDS.split(list(chunks), 1)], 1)

    expect.story(in_chunks, HybridCache).equals(whole(is_global, 4), rel=1e-4, abs=1e-4)


FAMILY = json.loads(Path(__file__).with_name("transformers_families.json").read_text(encoding="utf-8"))
TEXT, GEMMA = torch.tensor(FAMILY["ids"]), FAMILY["families"]["Gemma3"]
ABOUT, LOGITS = GEMMA["config"], torch.tensor(GEMMA["logits"])
PARAMS = random_weights(GEMMA["shapes"], FAMILY["seed"])
TINY = Config(
    n_layers=ABOUT["num_hidden_layers"],
    d_model=ABOUT["hidden_size"],
    n_heads=ABOUT["num_attention_heads"],
    n_kv_heads=ABOUT["num_key_value_heads"],
    head_dim=ABOUT["head_dim"],
    d_ff=ABOUT["intermediate_size"],
    vocab_size=ABOUT["vocab_size"],
    rope_theta=ABOUT["rope_parameters"]["full_attention"]["rope_theta"],
    norm_eps=1e-6,
    tie_embeddings=False,
)
LOCAL_THETA = ABOUT["rope_parameters"]["sliding_attention"]["rope_theta"]


@pytest.mark.kata("level11.hybrid.HybridCache")
@pytest.mark.parametrize("chunks", [(11,), (3, 1, 1, 1, 1, 4), (6, 5)], ids=lambda x: "+".join(map(str, x)))
def test_gemma_3_gives_the_logits_of_transformers(expect, chunks):
    """Six layers, two local ones to each global one, two RoPE bases, a window of 4. Oracle: transformers' values,
    stored; in chunks as well."""

    def logits(cls):
        kinds = [kind == "full_attention" for kind in ABOUT["layer_types"]]
        cache = cls(TINY, kinds, len(TEXT), ABOUT["sliding_window"], TEXT.shape[1])
        parts = TEXT.split(list(chunks), 1)
        return torch.cat([gemma3(PARAMS, TINY, ids, cache, period=3, local_theta=LOCAL_THETA) for ids in parts], 1)

    # float32 through six layers
    expect.story(logits, HybridCache).equals(LOGITS, rel=1e-4, abs=1e-4)
