"""Judges capacity.py by filling memory token by token, by adding up tensors, and by counting empty places.

Exactly full memory is tested with powers of two, where no order of operations rounds. Everywhere else the quotient is
not near a whole number.
"""

from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest

from dojo.models import SMOLLM2, TINY, Config, random_params, shapes
from level02.capacity import crossover_tokens, max_batch, max_cached_tokens, wasted_fraction

LLAMA8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
LLAMA70B = Config(80, 8192, 64, 8, 128, 28672, 128256, tie_embeddings=False)
TIED = replace(TINY, tie_embeddings=True)
# heads · head_dim is not d_model here, as in several real models, and no size is a power of two
WIDE = Config(3, 21, 6, 3, 12, 56, 71, tie_embeddings=False)
CONFIGS = pytest.mark.parametrize("config", [TINY, TIED, WIDE], ids=["untied", "tied", "wide heads"])
# bytes of a weight, bytes of a cached number: bfloat16, 4-bit weights, 8-bit cache, 4-bit cache, float32, float32 cache
WIDTHS = pytest.mark.parametrize("weight, entry", [(2, 2), (0.5, 2), (2, 1), (1, 0.5), (4, 4), (2, 4)], ids=str)


def weight_count(config):
    """Oracle: the elements of every tensor."""
    return sum(prod(shape) for shape in shapes(config).values())


def entry_bytes(config, width):
    """Oracle: a key and a value of head_dim numbers, for every layer and every KV head."""
    numbers = 0
    for _ in range(config.n_layers):
        for _ in range(config.n_kv_heads):
            numbers += len(("key", "value")) * config.head_dim
    return numbers * Fraction(width)


def filled(config, memory_bytes, weight, entry, reserve=0.1):
    """Oracle: put the weights and then one token after the other into what is not reserved, in exact fractions."""
    free = memory_bytes - Fraction(reserve) * memory_bytes - weight_count(config) * Fraction(weight)
    tokens = 0
    while free >= entry_bytes(config, entry):
        free -= entry_bytes(config, entry)
        tokens += 1
    assert 0.01 < free / entry_bytes(config, entry) < 0.99, "rounding would decide"
    return tokens


# ---- max_cached_tokens


@pytest.mark.kata("level02.capacity.max_cached_tokens")
def test_beside_llama_3_8b_an_h100_holds_426_784_tokens(expect):
    """The docstring's example: (0.9 · 80 GB - 2 · 8,030,261,248) / 131,072 = 426,784.3. What fits only in part does
    not fit: the last token would lie in somebody else's memory."""
    expect(max_cached_tokens, LLAMA8B, 80e9, 2, 2).equals(426_784)
    expect(max_cached_tokens, LLAMA8B, 80_000_000_000, 2, 2).equals(426_784)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize(
    "config, memory_bytes, weight, entry, reserve, right",
    [
        (SMOLLM2, 1e9, 2, 2, 0.0, 31_726),  # (1 GB - 269.03 MB) / 23,040 = 31,726.1
        (LLAMA8B, 80e9, 1, 1, 0.1, 976_100),  # (72 - 8.030) GB / 65,536 = 976,100.8
        (LLAMA8B, 80e9, 0.5, 2, 0.1, 518_683),  # (72 - 4.015) GB / 131,072 = 518,683.4
        (LLAMA8B, 24e9, 2, 2, 0.05, 51_418),  # (22.8 - 16.061) GB / 131,072 = 51,418.1
        (LLAMA70B, 640e9, 2, 2, 0.1, 1_327_186),  # (576 - 141.107) GB / 327,680 = 1,327,186.9
        (LLAMA8B, 640e9, 2, 1, 0.1, 8_543_998),  # (576 - 16.061) GB / 65,536 = 8,543,998.4
    ],
    ids=["SmolLM2 in 1 GB", "8-bit", "4-bit weights", "a small card", "8 H100s", "8 H100s, 8-bit cache"],
)
def test_other_models_other_widths_other_memories(expect, config, memory_bytes, weight, entry, reserve, right):
    """Weights and cache may have different widths, and a gigabyte is 1e9 bytes: 2**30 would promise 7% too much."""
    expect(max_cached_tokens, config, memory_bytes, weight, entry, reserve).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@WIDTHS
@CONFIGS
def test_tokens_are_those_that_memory_filled_one_by_one_takes(expect, config, weight, entry):
    """Oracle: a loop, in exact fractions. The weights are there once, however many requests there are."""
    for memory_bytes in (149_444, 401_694):
        right = filled(config, memory_bytes, weight, entry)
        expect(max_cached_tokens, config, memory_bytes, weight, entry).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("reserve", [0, 0.0, 0.05, 0.25, 0.6])
def test_the_reserve_is_a_part_of_the_whole_memory(expect, reserve):
    """As engines define it: 0.1 of 80 GB is 8 GB, whatever the weights take. Without one, all of it is used."""
    expect(max_cached_tokens, WIDE, 401_694, 2, 1, reserve).equals(filled(WIDE, 401_694, 2, 1, reserve))


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("reserve", [0.0, 0.5])
def test_exactly_full_is_not_too_full(expect, reserve):
    """128 bytes a token: room for 5 holds 5, a byte less holds 4; and weights that fill it leave room for none."""
    weights = 2 * weight_count(TINY)
    whole = 1 - reserve
    for free, right in ((5 * 128, 5), (5 * 128 - 1, 4), (5 * 128 + 1, 5), (128, 1), (127, 0), (0, 0)):
        expect(max_cached_tokens, TINY, (weights + free) / whole, 2, 2, reserve).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("reserve", [1, 1.5, -0.1], ids=str)
def test_a_reserve_that_is_no_part_is_refused(expect, reserve):
    """10 for 10% is the usual slip, and would leave less than nothing."""
    expect(max_cached_tokens, LLAMA8B, 80e9, 2, 2, 0).equals(487_819)  # (80 - 16.061) GB / 131,072 = 487,819.5
    expect(max_cached_tokens, LLAMA8B, 80e9, 2, 2, reserve).raises(ValueError)
    expect(max_batch, LLAMA8B, 80e9, 1024, 2, 2, reserve).raises(ValueError)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
def test_weights_that_do_not_fit_are_refused(expect):
    """141 GB of Llama-3-70B on one card of 80 GB: 0 tokens would look like a full server. In 8 bits it fits."""
    expect(max_cached_tokens, LLAMA70B, 80e9, 1, 1).equals(8_827)  # (72 - 70.554) GB / 163,840 = 8,827.5
    expect(max_cached_tokens, LLAMA70B, 80e9, 2, 2).raises(ValueError)
    expect(max_batch, LLAMA70B, 80e9, 1024, 2, 2).raises(ValueError)


# ---- max_batch, judged with max_cached_tokens


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize(
    "context_len, weight, entry, right",
    [(8192, 2, 2, 52), (2048, 2, 2, 208), (2048, 1, 1, 476), (128_000, 2, 2, 3), (85_357, 2, 2, 4), (500_000, 2, 2, 0)],
    ids=str,
)
def test_requests_that_fit_whole(expect, context_len, weight, entry, right):
    """426,784 tokens are 52.1 requests of 8192: the 53rd would be thrown out in the middle of its answer. In 8 bits,
    weights and cache, 976,100 tokens are 476.6 of 2048. Five of 85,357 lack a single token."""
    expect(max_batch, LLAMA8B, 80e9, context_len, weight, entry).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("context_len", [1, 3, 7, 40, 5000])
@pytest.mark.parametrize("weight, entry, reserve", [(2, 2, 0.1), (0.5, 2, 0.3), (1, 4, 0)], ids=str)
def test_requests_share_the_weights_and_nothing_else(expect, context_len, weight, entry, reserve):
    """Oracle: the memory filled token by token, dealt out to whole requests; with every width and every reserve."""
    right = filled(WIDE, 401_694, weight, entry, reserve) // context_len
    expect(max_batch, WIDE, 401_694, context_len, weight, entry, reserve).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("context_len, right", [(1, 40), (8, 5), (9, 4), (39, 1), (40, 1), (41, 0)])
def test_the_last_request_may_fill_it_exactly(expect, context_len, right):
    """Room for exactly 40 tokens: five requests of 8, four of 9, one of 40, none of 41."""
    memory_bytes = 2 * weight_count(TINY) + 40 * 128
    expect(max_batch, TINY, memory_bytes, context_len, 2, 2, 0).equals(right)


@pytest.mark.kata("level02.capacity.max_cached_tokens")
@pytest.mark.parametrize("context_len", [0, -1])
def test_a_request_of_no_tokens_is_refused(expect, context_len):
    """Any number of them would fit. Of one token each, as many fit as tokens."""
    expect(max_batch, LLAMA8B, 80e9, 1, 2, 2).equals(426_784)
    expect(max_batch, LLAMA8B, 80e9, context_len, 2, 2).raises(ValueError)


# ---- crossover_tokens


def read_by_a_step(config):
    """Oracle: the elements of the tensors of a model, but of an untied embedding none."""
    params = random_params(config)
    looked_up = None if config.tie_embeddings else "model.embed_tokens.weight"
    return sum(w.numel() for name, w in params.items() if name != looked_up)


@pytest.mark.kata("level02.capacity.crossover_tokens")
@pytest.mark.parametrize(
    "config, weight, entry, right",
    [
        (SMOLLM2, 2, 2, 269_030_016 / 23_040),  # 11,676.65
        (SMOLLM2, 0.5, 2, 67_257_504 / 23_040),  # 2919.16
        (SMOLLM2, 2, 1, 269_030_016 / 11_520),  # 23,353.3
        (LLAMA8B, 2, 2, 2 * 7_504_924_672 / 131_072),  # 114,516.1
        (LLAMA70B, 1, 2, 69_503_033_344 / 327_680),  # 212,106.4
    ],
    ids=["SmolLM2", "4-bit weights", "8-bit cache", "Llama-3-8B", "Llama-3-70B, 8-bit weights"],
)
def test_known_models_cross_over_at(expect, config, weight, entry, right):
    """Up to there a larger batch is nearly free, since all share the weights; beyond it every request adds what it
    costs. Over the whole batch: SmolLM2's 11,677 tokens are 12 chats of 1000."""
    expect(crossover_tokens, config, weight, entry).equals(right, rel=1e-9)


@pytest.mark.kata("level02.capacity.crossover_tokens")
@WIDTHS
@CONFIGS
def test_at_the_crossover_as_many_bytes_of_cache_as_of_weights_are_read(expect, config, weight, entry):
    """Oracle: the tensors of a random model, and loops over layers and heads. A tied embedding is read as the head;
    an untied one is looked up."""
    right = float(read_by_a_step(config) * Fraction(weight) / entry_bytes(config, entry))
    expect(crossover_tokens, config, weight, entry).equals(right, rel=1e-9)


# ---- wasted_fraction


def empty_places(lengths, reserved):
    """Oracle: go through every place of every row and count those that hold no token."""
    empty = sum(place >= length for length in lengths for place in range(reserved))
    return empty / sum(1 for _ in lengths for _ in range(reserved))


@pytest.mark.kata("level02.capacity.wasted_fraction")
@pytest.mark.parametrize(
    "lengths, reserved",
    [
        ([100, 300], 1000),
        ([200, 600, 1000, 1800], 4096),
        ([7], 9),
        ([3, 3, 3], 4),
        ([1, 2, 3, 4, 5, 6, 7], 7),
        ([0, 5], 10),
        ([10, 1, 1], 10),
        ([1], 10_000),
    ],
    ids=str,
)
def test_what_is_reserved_and_not_held_is_wasted(expect, lengths, reserved):
    """100 and 300 tokens in rows of 1000: 1600 of 2000 places are empty, 0.8. Before paging (level 06) engines wasted
    60 to 80% in this way. Oracle: every place of every row, one by one."""
    expect(wasted_fraction, lengths, reserved).equals(empty_places(lengths, reserved), rel=1e-9, abs=1e-12)


@pytest.mark.kata("level02.capacity.wasted_fraction")
@pytest.mark.parametrize("reserved", [1, 3, 1000])
def test_full_rows_waste_nothing_and_empty_ones_all(expect, reserved):
    """Requests that have just arrived hold nothing yet, and count; any sequence of lengths will do."""
    expect(wasted_fraction, [reserved], reserved).equals(0.0, abs=1e-12)
    expect(wasted_fraction, (reserved, reserved, reserved), reserved).equals(0.0, abs=1e-12)
    expect(wasted_fraction, (0, 0), reserved).equals(1.0, rel=1e-12)
    expect(wasted_fraction, [0, reserved, 0, 0], reserved).equals(0.75, rel=1e-12)


@pytest.mark.kata("level02.capacity.wasted_fraction")
@pytest.mark.parametrize(
    "lengths, reserved",
    [([], 1000), ([2000], 1000), ([5, 1001], 1000), ([5, -1], 1000), ([0], 0), ([1], -1)],
    ids=["no request", "longer", "one longer", "negative", "no room", "less than no room"],
)
def test_lengths_that_do_not_fit_their_rows_are_refused(expect, lengths, reserved):
    """More than 1, or less than 0, is no part of anything: a request that was cut off would count as used room."""
    expect(wasted_fraction, [5, 1000], 1000).equals(0.4975, rel=1e-9)
    expect(wasted_fraction, lengths, reserved).raises(ValueError)
