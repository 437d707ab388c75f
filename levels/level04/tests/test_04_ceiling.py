"""Judges ceiling.py by the tensors of real and random models, by torch's FLOP counter, and by times in exact fractions.

Exact equality of two times is tested where no order of operations rounds; elsewhere no whole number is near.
"""

from fractions import Fraction
from math import prod

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dojo.models import SMOLLM2, TINY, Config, random_params, shapes
from level00.transformer import forward
from level02.cache import KVCache
from level04.ceiling import critical_batch, decode_ceiling, decode_step_cost, mbu, mfu, step_seconds
from level04.roofline import H100, Hardware

EXACT = {"rel": 1e-9, "abs": 0.0}
LLAMA8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
LLAMA70B = Config(80, 8192, 64, 8, 128, 28672, 128256, tie_embeddings=False)
# d_model / n_heads is 80 here and head_dim 128, tied: the shape of Qwen3-4B
QWEN4B = Config(36, 2560, 32, 8, 128, 9728, 151936)
TIED = Config(2, 32, 4, 2, 8, 64, 101, max_seq_len=128)
# heads · head_dim is not d_model here either, and no size is a power of two
WIDE = Config(3, 21, 6, 3, 12, 56, 71, max_seq_len=128, tie_embeddings=False)
SMALL = Hardware("as in the docstrings", 100.0, 10.0, 640.0)
A100 = Hardware("A100 SXM, bfloat16", 312e12, 2.039e12, 80e9)
LAPTOP = Hardware("one core", 99.4e9, 16.8e9, 16e9)
MODELS = {"SmolLM2": SMOLLM2, "Llama-3-8B": LLAMA8B, "Llama-3-70B": LLAMA70B, "Qwen3-4B": QWEN4B}
MODELS |= {"untied": TINY, "tied": TIED, "wide heads": WIDE}
ALL = pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
MACHINES = pytest.mark.parametrize("hardware", [H100, A100, LAPTOP, SMALL], ids=lambda x: x.name)
# bytes of a weight, bytes of a cached number: bfloat16, narrower weights, narrower cache, 6-bit and 4-bit, float32
PAIRS = [(2, 2), (0.5, 2), (1, 2), (2, 1), (0.75, 0.5), (4, 4)]
WIDTHS = pytest.mark.parametrize("weight, entry", PAIRS, ids=str)


def step(config, batch, context_len, weight=2, entry=2):
    """Oracle: tensor by tensor, two FLOPs per element of a matrix, and head by head, in exact fractions."""
    sizes = dict(shapes(config))
    if not config.tie_embeddings:
        del sizes["model.embed_tokens.weight"]  # looked up, not read
    one = sum(2 * prod(shape) for shape in sizes.values() if len(shape) == 2)
    cached = 0
    for _ in range(config.n_layers):
        one += sum(len(("q·k", "w·v")) * 2 * config.head_dim * context_len for _ in range(config.n_heads))
        cached += sum(len(("key", "value")) * config.head_dim * context_len for _ in range(config.n_kv_heads))
    weights = sum(map(prod, sizes.values())) * Fraction(weight)
    return batch * one, weights, batch * cached * Fraction(entry)


def cost_of(*args):
    """The whole of the oracle's step, as floats."""
    flops, weights, kv = step(*args)
    parts = {"flops": flops, "weight_bytes": weights, "kv_bytes": kv, "bytes": weights + kv}
    return {name: float(x) for name, x in (parts | {"intensity": flops / (weights + kv)}).items()}


def times(flops, moved, hardware):
    """Oracle: the arithmetic's and the bytes' seconds, as fractions."""
    return Fraction(flops) / Fraction(hardware.peak_flops), Fraction(moved) / Fraction(hardware.bandwidth)


# ---- decode_step_cost


@pytest.mark.kata("level04.ceiling.decode_step_cost")
@pytest.mark.parametrize(
    "config, batch, context_len, flops, weights, kv",
    [
        (SMOLLM2, 64, 1024, 64 * 339_738_624, 269_030_016, 64 * 1024 * 23_040),  # 21.7 GFLOP, intensity 12.2
        (SMOLLM2, 1, 1024, 339_738_624, 269_030_016, 23_592_960),  # intensity 1.161
        (SMOLLM2, 8, 1024, 2_717_908_992, 269_030_016, 188_743_680),  # the cache is 41% of the bytes
        (SMOLLM2, 1, 1, 269_028_864, 269_030_016, 23_040),
        (LLAMA8B, 1, 1, 15_009_841_152, 15_009_849_344, 131_072),
        (LLAMA8B, 64, 1024, 64 * 15_546_187_776, 15_009_849_344, 8_589_934_592),
        (LLAMA70B, 1, 32_768, 2 * 69_501_714_432 + 80 * 64 * 4 * 128 * 32_768, 139_006_066_688, 10_737_418_240),
    ],
    ids=["docstring", "one sequence", "eight", "first token", "8B", "8B, batch 64", "70B, 10 GiB of cache"],
)
def test_known_models_cost(expect, config, batch, context_len, flops, weights, kv):
    """In bfloat16, by default: the bill of one step, from which everything else in this level follows. By hand: level
    00's FLOPs per token, two bytes per weight that is read, 2 · layers · KV heads · head_dim · 2 per cached token."""
    right = {"flops": flops, "weight_bytes": weights, "kv_bytes": kv, "bytes": weights + kv}
    right = {name: float(x) for name, x in right.items()} | {"intensity": flops / (weights + kv)}
    expect(decode_step_cost, config, batch, context_len).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_step_cost")
@pytest.mark.parametrize("batch, context_len", [(1, 1), (3, 1), (2, 9), (5, 40)], ids=str)
@pytest.mark.parametrize("config", [TINY, TIED, WIDE], ids=["untied", "tied", "wide heads"])
def test_a_step_costs_what_torch_counts_and_what_the_tensors_weigh(expect, config, batch, context_len):
    """Oracle: level 00's forward runs the step behind level 02's cache, in float32 under FlopCounterMode; nbytes of
    the parameters and of a cache that is exactly full."""
    params, cache = random_params(config), KVCache(config, batch, context_len)
    ids = torch.ones(batch, context_len, dtype=torch.long)
    if context_len > 1:
        forward(params, config, ids[:, 1:], cache)
    with FlopCounterMode(display=False) as counter:
        forward(params, config, ids[:, :1], cache)
    flops = counter.get_total_flops()
    weights = sum(w.nbytes for w in params.values())
    weights -= 0 if config.tie_embeddings else params["model.embed_tokens.weight"].nbytes
    right = {"flops": flops, "weight_bytes": weights, "kv_bytes": cache.nbytes, "bytes": weights + cache.nbytes}
    right = {name: float(x) for name, x in right.items()} | {"intensity": flops / (weights + cache.nbytes)}
    expect(decode_step_cost, config, batch, context_len, 4, 4).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_step_cost")
@WIDTHS
@ALL
def test_weights_once_and_a_cache_for_each_sequence(expect, config, weight, entry):
    """Oracle: tensor by tensor and head by head. Weights and cache have widths of their own; half bytes count."""
    for batch, context_len in ((1, 1), (7, 1), (1, 333), (48, 2000)):
        right = cost_of(config, batch, context_len, weight, entry)
        expect(decode_step_cost, config, batch, context_len, weight, entry).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_step_cost")
def test_each_width_may_be_given_alone(expect):
    """4-bit weights beside a cache in bfloat16, and an 8-bit cache beside such weights: the other stays at 2."""
    expect(decode_step_cost, LLAMA8B, 4, 500, bytes_per_param=0.5).equals(cost_of(LLAMA8B, 4, 500, 0.5, 2), **EXACT)
    expect(decode_step_cost, LLAMA8B, 4, 500, bytes_per_element=1).equals(cost_of(LLAMA8B, 4, 500, 2, 1), **EXACT)


@pytest.mark.kata("level04.ceiling.decode_step_cost")
@pytest.mark.parametrize(
    "batch, context_len, limit",
    [(1, 10**10, 4), (10**8, 8192, 17.98), (10**9, 10**6, 4.11), (32, 1, 32)],
    ids=["one long context", "many of 8192", "many long ones", "short ones"],
)
def test_a_larger_batch_helps_the_weights_and_not_the_cache(expect, batch, context_len, limit):
    """Llama-3-8B: while the weights are most of the bytes, the intensity is the batch. The cache ends that: 32 query
    heads over 8 KV heads are 4 FLOPs per byte, far below any GPU's ridge, whatever the batch."""
    right = cost_of(LLAMA8B, batch, context_len)
    assert right["intensity"] == pytest.approx(limit, rel=2e-3)
    expect(decode_step_cost, LLAMA8B, batch, context_len).equals(right, **EXACT)


def two_steps(config):
    first = decode_step_cost(config, 1, 100)
    second = decode_step_cost(config, 8, 200)
    return [first, second]


@pytest.mark.kata("level04.ceiling.decode_step_cost")
def test_two_steps_have_two_bills(expect):
    """Whoever compares two batches holds both results at once."""
    expect(two_steps, WIDE).equals([cost_of(WIDE, 1, 100), cost_of(WIDE, 8, 200)], **EXACT)


@pytest.mark.kata("level04.ceiling.decode_step_cost")
@pytest.mark.parametrize("batch, context_len", [(0, 1), (1, 0), (-3, 5)], ids=str)
def test_a_step_without_a_sequence_is_refused(expect, batch, context_len):
    """The new token attends at least to itself, and an idle server makes no step."""
    expect(decode_step_cost, WIDE, 1, 1).equals(cost_of(WIDE, 1, 1), **EXACT)
    expect(decode_step_cost, WIDE, batch, context_len).raises(ValueError)


# ---- step_seconds, judged with decode_ceiling


@pytest.mark.kata("level04.ceiling.decode_ceiling")
@pytest.mark.parametrize(
    "flops, moved, hardware, right",
    [
        (300, 50, SMALL, 5.0),  # the docstring's example: 3 s of arithmetic, 5 s of bytes
        (300, 7, SMALL, 3.0),
        (100, 10, SMALL, 1.0),  # both at once, and not one after the other
        (1, 1, SMALL, 0.1),
        (989e12, 3.35e12, H100, 1.0),
        (989e12, 6.7e12, H100, 2.0),
        (15_546_187_776, 15_144_067_072, H100, 15_144_067_072 / 3.35e12),  # Llama-3-8B: 4.52 ms, 0.016 of arithmetic
        (15_546_187_776, 1e6, H100, 15_546_187_776 / 989e12),
        (3e9, 269e6, LAPTOP, 3 / 99.4),
        (2.5e7, 4.25e6, A100, 4.25e6 / 2.039e12),  # microseconds
    ],
    ids=["docstring", "arithmetic", "equal", "short", "one second", "two", "8B", "8B, no bytes", "laptop", "A100"],
)
def test_a_step_ends_when_both_are_done(expect, flops, moved, hardware, right):
    """By hand: FLOPs over the peak, bytes over the bandwidth. An engine that reads while it computes needs the longer
    of the two; less than that is no better engine but a wrong clock."""
    expect(step_seconds, {"flops": flops, "bytes": moved}, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_ceiling")
@MACHINES
@pytest.mark.parametrize("batch, context_len", [(1, 1), (1, 4000), (256, 1), (300, 700)], ids=str)
def test_a_step_of_a_model_takes_at_least(expect, batch, context_len, hardware):
    """Oracle: the cost from the tensors, both times in exact fractions. weight_bytes and kv_bytes are in bytes already:
    counting them again would double the bill."""
    cost = cost_of(SMOLLM2, batch, context_len)
    right = float(max(times(cost["flops"], cost["bytes"], hardware)))
    expect(step_seconds, cost, hardware).equals(right, **EXACT)


# ---- decode_ceiling


def ceiling_of(config, batch, context_len, hardware, *widths):
    """Oracle: tokens of a step over its longer time."""
    flops, weights, kv = step(config, batch, context_len, *widths)
    return float(batch / max(times(flops, weights + kv, hardware)))


@pytest.mark.kata("level04.ceiling.decode_ceiling")
@pytest.mark.parametrize(
    "batch, context_len, widths, right",
    [
        (1, 1024, (), 3.35e12 / (15_009_849_344 + 134_217_728)),  # 221.2
        (64, 1024, (), 64 * 3.35e12 / (15_009_849_344 + 64 * 134_217_728)),  # 9085: 41 times as many, not 64
        (1, 1024, (0.5,), 3.35e12 / (15_009_849_344 / 4 + 134_217_728)),  # 861.9
        (1, 1, (), 3.35e12 / (15_009_849_344 + 131_072)),  # 223.2: whoever reports 300 has miscounted
        (64, 8192, (2, 1), 64 * 3.35e12 / (15_009_849_344 + 64 * 8192 * 65_536)),  # an 8-bit cache
        (1024, 1, (), 989e12 / 15_009_841_152),  # beyond the critical batch: 65,890, and
        (1024, 1, (1,), 989e12 / 15_009_841_152),  # narrower weights no longer help
        (1024, 1, (0.5,), 989e12 / 15_009_841_152),
    ],
    ids=["one", "64", "4-bit weights", "empty context", "8-bit cache", "compute-bound", "in 8 bits", "in 4 bits"],
)
def test_llama_3_8b_on_an_h100_reaches_at_most(expect, batch, context_len, widths, right):
    """Tokens per second of the whole batch. By hand: bandwidth over the bytes of a step, or the peak over the FLOPs of
    a token. What a vendor or a colleague reports above this is wrong, whatever the engine."""
    expect(decode_ceiling, LLAMA8B, batch, context_len, H100, *widths).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_ceiling")
@pytest.mark.parametrize("batch, context_len", [(1, 1), (1, 777), (12, 60), (2000, 3)], ids=str)
@MACHINES
@ALL
def test_a_batch_over_the_longer_of_two_times(expect, config, hardware, batch, context_len):
    """Oracle: tensor by tensor, in exact fractions, on both sides of the ridge of four machines."""
    right = ceiling_of(config, batch, context_len, hardware)
    expect(decode_ceiling, config, batch, context_len, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_ceiling")
@WIDTHS
@pytest.mark.parametrize("batch, context_len", [(2, 900), (400, 5), (9, 6000)], ids=str)
def test_narrower_weights_and_caches_raise_the_memory_roof_alone(expect, batch, context_len, weight, entry):
    """Oracle: as above. The arithmetic runs at the peak that the machine was given with, in 4 bits or in 32."""
    for hardware in (A100, LAPTOP):
        right = ceiling_of(QWEN4B, batch, context_len, hardware, weight, entry)
        expect(decode_ceiling, QWEN4B, batch, context_len, hardware, weight, entry).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.decode_ceiling")
def test_a_ceiling_takes_each_width_alone(expect):
    """A config of an engine names the one that is not the default."""
    sixteen = LLAMA8B, 16, 3000, H100
    expect(decode_ceiling, *sixteen, bytes_per_param=0.5).equals(ceiling_of(*sixteen, 0.5, 2), **EXACT)
    expect(decode_ceiling, *sixteen, bytes_per_element=1).equals(ceiling_of(*sixteen, 2, 1), **EXACT)
    swapped = {"bytes_per_element": 0.5, "bytes_per_param": 1}
    expect(decode_ceiling, *sixteen, **swapped).equals(ceiling_of(*sixteen, 1, 0.5), **EXACT)


# ---- critical_batch


def first_batch(hardware, width):
    """Oracle: try one batch after the other, in exact fractions: B times two FLOPs against one weight's bytes."""
    batch = 1
    while Fraction(2 * batch) / Fraction(hardware.peak_flops) < Fraction(width) / Fraction(hardware.bandwidth):
        batch += 1
    return batch


@pytest.mark.kata("level04.ceiling.critical_batch")
@pytest.mark.parametrize(
    "hardware, width, right",
    [
        (H100, 2, 296),  # 295.2
        (H100, 1, 148),  # 147.6
        (H100, 0.5, 74),  # 73.8
        (H100, 4, 591),  # 590.4
        (A100, 2, 154),  # 153.02
        (A100, 1, 77),  # 76.5
        (LAPTOP, 4, 12),  # 11.8
        (LAPTOP, 0.5, 2),  # 1.48
        (Hardware("slow arithmetic", 30e9, 40e9, 16e9), 2, 1),  # 0.75
        (Hardware("slower still", 3e9, 40e9, 16e9), 2, 1),  # 0.075
    ],
    ids=lambda x: x.name if isinstance(x, Hardware) else str(x),
)
def test_the_critical_batch_of_known_machines(expect, hardware, width, right):
    """Up to there another sequence is nearly free, so a scheduler should fill the batch. By hand: ridge · width / 2, up
    to the next whole number. Where arithmetic is slow, one sequence is enough."""
    assert first_batch(hardware, width) == right
    expect(critical_batch, hardware, width).equals(right)


@pytest.mark.kata("level04.ceiling.critical_batch")
@pytest.mark.parametrize("width, right", [(2, 1024), (1, 512), (0.5, 256), (0.75, 384), (4, 2048), (3, 1536)], ids=str)
def test_equally_long_is_long_enough(expect, width, right):
    """Exact in any order of operations: 2**50 FLOP/s and 2**40 bytes/s. At least as long, so not one more."""
    expect(critical_batch, Hardware("powers of two", 2.0**50, 2.0**40, 1e9), width).equals(right)


@pytest.mark.kata("level04.ceiling.critical_batch")
@pytest.mark.parametrize(
    "peak, width, right",
    [
        (1023.5, 2, 1024),
        (1024, 2, 1024),
        (1024.5, 2, 1025),
        (1024.001, 2, 1025),
        (1025, 1, 513),
        (1024, 1, 512),
        (1023, 1, 512),
        (1026, 0.5, 257),
        (1, 1, 1),
        (3, 1, 2),
    ],
    ids=str,
)
def test_one_flop_more_may_take_one_sequence_more(expect, peak, width, right):
    """A machine of one byte per second: a weight of 2 bytes takes 2 s, in which 2 · peak FLOPs are done. Below a whole
    number the batch is that number, just above it one more."""
    expect(critical_batch, Hardware("a byte a second", float(peak), 1.0, 1e9), width).equals(right)


@pytest.mark.kata("level04.ceiling.critical_batch")
def test_weights_have_two_bytes_unless_said_otherwise(expect):
    """bfloat16 is the default, here as in decode_ceiling; the docstring's examples."""
    expect(critical_batch, H100).equals(296)
    expect(critical_batch, SMALL).equals(10)
    expect(critical_batch, SMALL, 1).equals(5)
    expect(critical_batch, SMALL, bytes_per_param=0.5).equals(3)


# ---- mfu, judged with mbu


@pytest.mark.kata("level04.ceiling.mbu")
@pytest.mark.parametrize(
    "rate, flops, hardware, right",
    [
        (10, 4, SMALL, 0.4),
        (170, 15_546_187_776, H100, 170 * 15_546_187_776 / 989e12),  # 0.27% for decoding, which is no fault
        (10_000, 16e9, H100, 160 / 989),  # 16%
        (1, 989e12, H100, 1.0),
        (0.5, 312e12, A100, 0.5),
        (240, 269e6, LAPTOP, 240 * 269 / 99_400),  # a prefill: 65%
        (17.2, 2.69e8, LAPTOP, 17.2 * 2.69e8 / 99.4e9),
    ],
    ids=["docstring", "decode", "prefill", "all", "half", "a slow laptop", "decode on it"],
)
def test_useful_flops_over_the_peak(expect, rate, flops, hardware, right):
    """The figure to compare training runs and prefills by, across models and machines. By hand; 1 is the peak."""
    expect(mfu, rate, flops, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.mbu")
def test_more_than_the_peak_is_shown_as_it_is(expect):
    """1.3 tells that FLOPs were counted twice, or tokens; cut off at 1 it would look like a record."""
    expect(mfu, 13, 10, SMALL).equals(1.3, **EXACT)
    expect(mfu, 400, 989e12, H100).equals(400.0, **EXACT)


# ---- mbu


@pytest.mark.kata("level04.ceiling.mbu")
@pytest.mark.parametrize(
    "rate, batch, moved, hardware, right",
    [
        (8, 4, 3, SMALL, 0.6),
        (170, 1, 15_144_067_072, H100, 170 * 15_144_067_072 / 3.35e12),  # 76.9%, of the run whose MFU is 0.27%
        (1200, 8, 15.14e9, H100, 150 * 15.14e9 / 3.35e12),  # 67.8%: 150 steps a second
        (6400, 64, 23_599_783_936, H100, 100 * 23_599_783_936 / 3.35e12),  # 70.4%
        (1, 1, 3.35e12, H100, 1.0),
        (17.2, 1, 538.2e6, LAPTOP, 17.2 * 538.2 / 16_800),  # 55%
        (7, 2, 1.5, SMALL, 0.525),  # 3.5 steps a second
        (1, 3, 12, SMALL, 0.4),  # a step takes three seconds
        (5, 64, 1.28e9, LAPTOP, 5 / 64 * 1.28 / 16.8),
    ],
    ids=["docstring", "one", "eight", "64", "all", "laptop", "odd rate", "slow", "few bytes"],
)
def test_bytes_of_the_steps_over_the_bandwidth(expect, rate, batch, moved, hardware, right):
    """The figure to compare decoding by: what is missing to 1 is what a better kernel could win. By hand: steps per
    second are tokens per second over the batch."""
    expect(mbu, rate, batch, moved, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.ceiling.mbu")
@pytest.mark.parametrize("batch, context_len", [(1, 1), (16, 1000), (64, 300)], ids=str)
@pytest.mark.parametrize("hardware", [H100, A100], ids=lambda x: x.name)
def test_at_the_memory_roof_it_is_one(expect, batch, context_len, hardware):
    """Oracle: a run that moves the bytes of its steps, counted tensor by tensor, and never waits."""
    _, weights, kv = step(LLAMA8B, batch, context_len)
    rate = batch * Fraction(hardware.bandwidth) / (weights + kv)
    expect(mbu, float(rate), batch, float(weights + kv), hardware).equals(1.0, **EXACT)
    expect(mbu, float(rate) / 4, batch, float(weights + kv), hardware).equals(0.25, **EXACT)


@pytest.mark.kata("level04.ceiling.mbu")
def test_more_than_the_bandwidth_is_shown_as_it_is(expect):
    """1.3 is a probe that fitted into the cache, or a tied embedding counted twice: cut off at 1 nobody would look."""
    expect(mbu, 13, 1, 1, SMALL).equals(1.3, **EXACT)
    expect(mbu, 40, 2, 10, SMALL).equals(20.0, **EXACT)


@pytest.mark.kata("level04.ceiling.mbu")
@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_of_nobody_is_refused(expect, batch):
    """There are no steps without a sequence. Of one sequence, every token is a step."""
    expect(mbu, 8, 1, 1, SMALL).equals(0.8, **EXACT)
    expect(mbu, 8, batch, 1, SMALL).raises(ValueError)
