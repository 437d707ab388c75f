"""Judges throughput.py by the tensors of the models, by steps that run under torch's FLOP counter, by a search for the
batch in exact fractions, and by numpy.polyfit.

Where a batch is a whole number exactly, no order of operations rounds; elsewhere no whole number is near.
"""

from fractions import Fraction
from math import inf, prod

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dojo.models import SMOLLM2, TINY, Config, random_params, shapes
from level00.transformer import forward
from level02.cache import KVCache
from level04.roofline import H100, Hardware
from level05.throughput import fit_step_time, flip_batch, measured_flip, ragged_step_cost

EXACT = {"rel": 1e-9, "abs": 0.0}
FITTED = {"rel": 1e-5, "abs": 2e-6}  # float32 will do: a microsecond in seconds
LLAMA8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
# d_model / n_heads is 80 here and head_dim 128, tied: the shape of Qwen3-4B
QWEN4B = Config(36, 2560, 32, 8, 128, 9728, 151936)
TIED = Config(2, 32, 4, 2, 8, 64, 101, max_seq_len=128)
# heads · head_dim is not d_model here either, and no size is a power of two
WIDE = Config(3, 21, 6, 3, 12, 56, 71, max_seq_len=128, tie_embeddings=False)
# every query head has a KV head of its own
NO_GROUPS = Config(4, 24, 3, 3, 8, 40, 50, max_seq_len=128, tie_embeddings=False)
A100 = Hardware("A100 SXM, bfloat16", 312e12, 2.039e12, 80e9)
LAPTOP = Hardware("one core", 99.4e9, 16.8e9, 16e9)
MODELS = {"SmolLM2": SMOLLM2, "Llama-3-8B": LLAMA8B, "Qwen3-4B": QWEN4B, "untied": TINY, "tied": TIED}
MODELS |= {"wide heads": WIDE, "no groups": NO_GROUPS}
ALL = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
MACHINES = pytest.mark.parametrize("hardware", [H100, A100, LAPTOP], ids=lambda x: x.name)
# bytes of a weight, bytes of a cached number: bfloat16, 4-bit weights, 8-bit cache, 6-bit and 4-bit, float32
WIDTHS = pytest.mark.parametrize("weight, entry", [(2, 2), (0.5, 2), (2, 1), (0.75, 0.5), (4, 4)], ids=str)


def parts(config, context_len, weight=2, entry=2):
    """Oracle: FLOPs of one sequence, bytes of the weights, bytes of its cache; tensor by tensor and head by head."""
    sizes = dict(shapes(config))
    if not config.tie_embeddings:
        del sizes["model.embed_tokens.weight"]  # looked up, not read
    flops, cached = sum(2 * prod(shape) for shape in sizes.values() if len(shape) == 2), 0
    for _ in range(config.n_layers):
        flops += sum(len(("q·k", "w·v")) * 2 * config.head_dim * context_len for _ in range(config.n_heads))
        cached += sum(len(("key", "value")) * config.head_dim * context_len for _ in range(config.n_kv_heads))
    return flops, sum(map(prod, sizes.values())) * Fraction(weight), cached * Fraction(entry)


def bill(config, context_lens, *widths):
    """Oracle: every sequence's own, and the weights of any of them."""
    each = [parts(config, context_len, *widths) for context_len in context_lens]
    moved = each[0][1] + sum(kv for _, _, kv in each)
    return {"flops": float(sum(flops for flops, _, _ in each)), "bytes": float(moved)}


# ---- ragged_step_cost


@pytest.mark.kata("level05.throughput.ragged_step_cost")
@pytest.mark.parametrize(
    "config, context_lens, flops, moved",
    [
        (SMOLLM2, [100, 300], 2 * 268_959_744 + 69_120 * 400, 269_030_016 + 400 * 23_040),
        (SMOLLM2, [256] * 8, 8 * 268_959_744 + 69_120 * 2048, 269_030_016 + 2048 * 23_040),
        (SMOLLM2, [1], 268_959_744 + 69_120, 269_030_016 + 23_040),
        (LLAMA8B, [2048] * 64, 64 * 15_009_316_864 + 524_288 * 131_072, 15_009_849_344 + 131_072 * 131_072),
        (LLAMA8B, [7, 8000, 1, 500], 4 * 15_009_316_864 + 524_288 * 8508, 15_009_849_344 + 131_072 * 8508),
    ],
    ids=["docstring", "eight alike", "one token", "8B, 64 of 2048", "8B, a mix"],
)
def test_known_models_pay_for_what_is_there(expect, config, context_lens, flops, moved):
    """In bfloat16, by default. By hand: two FLOPs per weight for each sequence and 4 · layers · heads · head_dim per
    token that it attends to; the weights once and 2 · layers · KV heads · head_dim · 2 bytes per cached token."""
    expect(ragged_step_cost, config, context_lens).equals({"flops": float(flops), "bytes": float(moved)}, **EXACT)


@pytest.mark.kata("level05.throughput.ragged_step_cost")
@pytest.mark.parametrize("context_lens", [[1], [5, 2], [3, 17, 1, 9], [2, 2, 40]], ids=str)
@pytest.mark.parametrize("config", [TINY, TIED, WIDE, NO_GROUPS], ids=["untied", "tied", "wide heads", "no groups"])
def test_a_ragged_step_costs_what_its_sequences_cost_alone_but_the_weights_once(expect, config, context_lens):
    """Oracle: level 00's forward makes the step of each sequence behind a cache of its own, in float32 under torch's
    counter; nbytes of the parameters, and of caches that are exactly full."""
    params, flops, kv = random_params(config), 0, 0
    for context_len in context_lens:
        cache, ids = KVCache(config, 1, context_len), torch.ones(1, context_len, dtype=torch.long)
        if context_len > 1:
            forward(params, config, ids[:, 1:], cache)
        with FlopCounterMode(display=False) as counter:
            forward(params, config, ids[:, :1], cache)
        flops, kv = flops + counter.get_total_flops(), kv + cache.nbytes
    weights = sum(w.nbytes for w in params.values())
    weights -= 0 if config.tie_embeddings else params["model.embed_tokens.weight"].nbytes
    right = {"flops": float(flops), "bytes": float(weights + kv)}
    expect(ragged_step_cost, config, context_lens, 4, 4).equals(right, **EXACT)


@pytest.mark.kata("level05.throughput.ragged_step_cost")
@WIDTHS
@ALL
def test_weights_once_and_each_sequence_its_own_cache(expect, config, weight, entry):
    """Oracle: tensor by tensor and head by head. Weights and cache have widths of their own; half bytes count."""
    for context_lens in ([1], [333], [2, 1, 90, 7], [50, 2000, 50], [12] * 9):
        right = bill(config, context_lens, weight, entry)
        expect(ragged_step_cost, config, context_lens, weight, entry).equals(right, **EXACT)


@pytest.mark.kata("level05.throughput.ragged_step_cost")
@pytest.mark.parametrize("context_lens", [[1] * 31 + [30_000], [30_000] + [1] * 31, [1, 2], [3, 1, 1, 4]], ids=len)
def test_a_long_neighbour_does_not_pad_the_short_ones(expect, context_lens):
    """Where a batch is padded to its longest member, 31 chats pay for one long document: a ragged batch reads and
    computes for the tokens that exist. Oracle: tensor by tensor."""
    expect(ragged_step_cost, LLAMA8B, context_lens).equals(bill(LLAMA8B, context_lens), **EXACT)


@pytest.mark.kata("level05.throughput.ragged_step_cost")
def test_each_width_of_a_ragged_step_may_be_given_alone(expect):
    """4-bit weights beside a cache in bfloat16, and an 8-bit cache beside such weights: the other stays at 2."""
    mix = [40, 1, 3000]
    expect(ragged_step_cost, QWEN4B, mix, bytes_per_param=0.5).equals(bill(QWEN4B, mix, 0.5, 2), **EXACT)
    expect(ragged_step_cost, QWEN4B, mix, bytes_per_element=1).equals(bill(QWEN4B, mix, 2, 1), **EXACT)
    swapped = {"bytes_per_element": 0.5, "bytes_per_param": 1}
    expect(ragged_step_cost, QWEN4B, mix, **swapped).equals(bill(QWEN4B, mix, 1, 0.5), **EXACT)


def three_steps(config):
    first = ragged_step_cost(config, [10, 20])
    second = ragged_step_cost(config, [11, 21, 1])
    third = ragged_step_cost(config, [33])
    return [first, second, third]


@pytest.mark.kata("level05.throughput.ragged_step_cost")
def test_the_next_step_has_a_bill_of_its_own(expect):
    """A simulator holds the costs of many steps at once: every sequence a token longer, one that has joined; and as
    many tokens of one sequence, which cost less."""
    right = [bill(WIDE, contexts) for contexts in ([10, 20], [11, 21, 1], [33])]
    expect(three_steps, WIDE).equals(right, **EXACT)


@pytest.mark.kata("level05.throughput.ragged_step_cost")
@pytest.mark.parametrize("context_lens", [[], [0], [5, 0], [3, -1, 9]], ids=str)
def test_a_step_of_nobody_or_of_an_empty_context_is_refused(expect, context_lens):
    """The new token attends at least to itself, and an idle server makes no step."""
    expect(ragged_step_cost, TINY, [2, 1]).equals(bill(TINY, [2, 1]), **EXACT)
    expect(ragged_step_cost, TINY, context_lens).raises(ValueError)


# ---- flip_batch


def first_batch(config, context_len, hardware, *widths):
    """Oracle: double, then halve the gap, in exact fractions, until the arithmetic is as long as the reading; None
    where it is not even at 2**60. It fails where a rounding might move the answer and does not have to be exact."""

    def computes_as_long(batch, slack=Fraction(0)):
        flops, weights, kv = parts(config, context_len, *widths)
        seconds = batch * Fraction(flops) / Fraction(hardware.peak_flops)
        return seconds * (1 + slack) >= (weights + batch * kv) / Fraction(hardware.bandwidth)

    high = 1
    while not computes_as_long(high):
        high *= 2
        if high > 2**60:
            assert not computes_as_long(high, Fraction(1, 10**9)), "too near to no flip at all"
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes_as_long(middle) else (middle, high)
    slack = Fraction(1, 10**12)
    assert computes_as_long(high, -slack) and not (low and computes_as_long(low, slack)), "too near to a whole number"
    return high


@pytest.mark.kata("level05.throughput.flip_batch")
@pytest.mark.parametrize(
    "config, context_len, widths, right",
    [
        (LLAMA8B, 1, (), 296),  # 295.4, where critical_batch has 295.2
        (LLAMA8B, 100, (), 396),
        (LLAMA8B, 200, (), 601),
        (LLAMA8B, 300, (), 1246),
        (LLAMA8B, 400, (), None),  # 17.2 µs of arithmetic for each sequence, 17.5 µs of reading
        (LLAMA8B, 1000, (), None),
        (LLAMA8B, 1, (1,), 148),  # weights in 8 bits
        (LLAMA8B, 200, (0.5,), 151),  # in 4
        (LLAMA8B, 400, (2, 1), 593),  # a cache in 8 bits
        (LLAMA8B, 1000, (2, 1), None),
        (SMOLLM2, 1, (), 303),
        (SMOLLM2, 30, (), 1186),  # small models carry a large cache for their weights
        (SMOLLM2, 64, (), None),
    ],
    ids=str,
)
def test_known_models_flip_on_an_h100(expect, config, context_len, widths, right):
    """By hand: the seconds to read the weights, over those that each sequence computes longer than it reads. A chat of
    400 tokens in bfloat16 never makes this chip compute-bound: a larger batch helps, but the bandwidth stays the limit.
    """
    assert first_batch(config, context_len, H100, *widths) == right
    expect(flip_batch, config, context_len, H100, *widths).equals(right)


@pytest.mark.kata("level05.throughput.flip_batch")
@WIDTHS
@ALL
def test_the_first_batch_that_computes_as_long_as_it_reads(expect, config, weight, entry):
    """Oracle: a search over batches in exact fractions, on three machines: all weights and one cache for each sequence
    on the one side, all FLOPs of each sequence, those of attention too, on the other."""
    for hardware in (H100, A100, LAPTOP):
        for context_len in (1, 17, 70, 250, 2500):
            right = first_batch(config, context_len, hardware, weight, entry)
            expect(flip_batch, config, context_len, hardware, weight, entry).equals(right)


@pytest.mark.kata("level05.throughput.flip_batch")
@pytest.mark.parametrize(
    "context_len, share, right",
    [
        (1, 2.0, 341),  # 341 s to read the weights, 1 s for a cache, 2 s to compute for one sequence
        (1, 1.5, 682),
        (1, 3.0, 171),  # 170.5
        (2, 1.25, 682),
        (2, 2.0, 171),  # 170.5
        (1, 1.0, None),  # what a sequence adds to both sides is the same, so the weights keep one ahead
        (2, 0.5, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [1.0, 2.0**30])
def test_as_long_is_long_enough(expect, context_len, share, right, scale):
    """A machine made for this model: a cache is read in one second, and computing for a sequence takes `share` times
    as long. The smallest batch whose two times are equal is the flip, and not one more; exact in any order."""
    flops, weights, kv = parts(TINY, context_len)
    hardware = Hardware("made for it", flops * scale / share, float(kv * scale), 1e9)
    assert Fraction(hardware.peak_flops) * Fraction(share) == flops * Fraction(scale)
    expect(flip_batch, TINY, context_len, hardware).equals(right)


@pytest.mark.kata("level05.throughput.flip_batch")
@pytest.mark.parametrize("context_len, right", [(1, 1), (50, 1)], ids=str)
def test_where_arithmetic_is_slow_one_sequence_is_enough(expect, context_len, right):
    """On a small processor decode is compute-bound from the first sequence on: batching gives it next to nothing."""
    slow = Hardware("slow arithmetic", 3e9, 40e9, 16e9)
    assert first_batch(TINY, context_len, slow) == right
    expect(flip_batch, TINY, context_len, slow).equals(right)


@pytest.mark.kata("level05.throughput.flip_batch")
@pytest.mark.parametrize(
    "context_len, peak, right",
    [(389, 989e12, 27_578), (393, 989e12, 554_092), (394, 986.8e12, 1_182_055), (394, 989e12, None)],
    ids=str,
)
def test_a_flip_may_be_far_away(expect, context_len, peak, right):
    """None says that there is no such batch; not that a search gave up, nor that memory_bytes has no room for it. The
    reader compares it with what fits, and wants to see how hopeless it is."""
    hardware = Hardware("an H100, or nearly", peak, 3.35e12, 80e9)
    assert first_batch(LLAMA8B, context_len, hardware) == right
    expect(flip_batch, LLAMA8B, context_len, hardware).equals(right)


@pytest.mark.kata("level05.throughput.flip_batch")
def test_a_flip_takes_each_width_alone(expect):
    """A config of an engine names the one that is not the default."""
    one = LLAMA8B, 150, H100
    expect(flip_batch, *one, bytes_per_param=1).equals(first_batch(*one, 1, 2))
    expect(flip_batch, *one, bytes_per_element=1).equals(first_batch(*one, 2, 1))
    expect(flip_batch, *one, bytes_per_element=0.5, bytes_per_param=4).equals(first_batch(*one, 4, 0.5))


# ---- fit_step_time


@pytest.mark.kata("level05.throughput.fit_step_time")
@pytest.mark.parametrize(
    "batches, seconds, right",
    [
        ([1, 2, 4], [3.0, 4.0, 6.0], (2.0, 1.0)),
        ([1, 2, 3], [1.0, 2.0, 2.0], (2 / 3, 0.5)),
        ([1, 2, 4, 8], [0.030, 0.033, 0.039, 0.051], (0.027, 0.003)),
        ([1, 8], [1.0, 8.0], (0.0, 1.0)),
        ([16, 2], [5.0, 5.0], (5.0, 0.0)),
        ([2, 1, 3], [1.0, 3.0, 1.0], (11 / 3, -1.0)),
        ([4, 1, 2, 1], [7, 1, 3, 1], (-1.0, 2.0)),
    ],
    ids=["docstring", "not on a line", "worksheet", "two points", "no slope", "falling", "unsorted, ints"],
)
def test_a_line_by_hand(expect, batches, seconds, right):
    """The first number is the time to stream the weights, the second what one more sequence costs: the two that tell
    how far batching carries on a machine."""
    expect(fit_step_time, batches, seconds).equals(right, **FITTED)


@pytest.mark.kata("level05.throughput.fit_step_time")
@pytest.mark.parametrize("seed", range(6))
def test_the_line_is_that_of_least_squares(expect, seed):
    """Every measurement has noise; the line that is nearest to all of them uses them all. Oracle: numpy.polyfit, on
    steps of milliseconds, some batches measured more than once, in no order."""
    draw = np.random.default_rng(seed)
    batches = draw.permutation([1, 2, 4, 8, 16, 32, 64, 1, 8, 8, *draw.integers(1, 65, size=seed)])
    seconds = 0.06 + 0.003 * batches + draw.normal(0, 0.01, len(batches))
    slope, fixed = np.polyfit(batches, seconds, 1)
    right = (float(fixed), float(slope))
    expect(fit_step_time, batches.tolist(), seconds.tolist()).equals(right, **FITTED)


@pytest.mark.kata("level05.throughput.fit_step_time")
def test_one_odd_measurement_moves_the_line_a_little(expect):
    """A shared machine gives this: batch 2 was slower than batch 4. Oracle: numpy.polyfit."""
    batches, seconds = [1, 2, 4, 8, 16, 32], [0.053, 0.089, 0.072, 0.084, 0.111, 0.161]
    slope, fixed = np.polyfit(batches, seconds, 1)
    assert (round(fixed, 3), round(slope, 4)) == (0.063, 0.003)
    expect(fit_step_time, batches, seconds).equals((float(fixed), float(slope)), **FITTED)


@pytest.mark.kata("level05.throughput.fit_step_time")
@pytest.mark.parametrize(
    "batches, seconds",
    [([2, 2], [1.0, 1.1]), ([1, 2, 3], [1.0, 2.0]), ([1, 2], [1.0, 2.0, 3.0]), ([5], [1.0]), ([], [])],
    ids=str,
)
def test_a_line_needs_two_different_batches(expect, batches, seconds):
    """Timing one batch size, however often, can't tell what is fixed from what grows."""
    expect(fit_step_time, [1, 2], [3.0, 5.0]).equals((1.0, 2.0), **FITTED)
    expect(fit_step_time, batches, seconds).raises(ValueError)


# ---- measured_flip, judged with fit_step_time


@pytest.mark.kata("level05.throughput.fit_step_time")
@pytest.mark.parametrize(
    "fixed, per_sequence, right",
    [
        (2.0, 0.5, 4.0),
        (0.027, 0.003, 9.0),
        (0.063, 0.0029, 0.063 / 0.0029),  # 21.7: a batch between two whole ones is a fine answer
        (0.5, 2.0, 0.25),  # not even one sequence is free
        (0.0, 0.5, 0.0),
        (4.48e-3, 1.518e-5, 4.48e-3 / 1.518e-5),  # an H100's: 295
        (1e-3, 1e-8, 1e5),
    ],
    ids=["docstring", "worksheet", "laptop", "below one", "nothing fixed", "H100", "next to nothing"],
)
def test_all_sequences_take_as_long_as_the_fixed_part(expect, fixed, per_sequence, right):
    """There a step takes twice the fixed time, and throughput is half of what any batch could reach: the knee of the
    measured curve, to compare with flip_batch."""
    step = fixed + right * per_sequence
    assert right * per_sequence == pytest.approx(fixed)
    assert right == 0 or right / step == pytest.approx(0.5 / per_sequence)
    expect(measured_flip, fixed, per_sequence).equals(right, **EXACT)


@pytest.mark.kata("level05.throughput.fit_step_time")
@pytest.mark.parametrize("fixed, per_sequence", [(2.0, 0.0), (2.0, -0.5), (0.0, 0.0), (0.06, -1e-9)], ids=str)
def test_where_a_sequence_costs_nothing_the_curve_never_bends(expect, fixed, per_sequence):
    """Noise makes a flat curve fall a little. A negative batch would be nonsense in a report, and a division by zero
    the end of the run."""
    expect(measured_flip, fixed, per_sequence).equals(inf)
