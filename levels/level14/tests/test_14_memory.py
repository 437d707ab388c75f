"""Judges memory.py by bitsandbytes' stored codes of scales, by a search for the nearest value, and by hand."""

import json
from pathlib import Path

import pytest
import torch
from torch import tensor

from level14.memory import double_dequantize, double_quantize, nf4_bits_per_weight, training_bytes

STORED = json.loads((Path(__file__).parent / "peft_bitsandbytes.json").read_text(encoding="utf-8"))["nf4"]
MAP = tensor(STORED["dynamic_map"])
ABSMAX = tensor(STORED["absmax"])  # of 300 blocks: 256 in the first block of scales, 44 in the second
CODES = torch.frombuffer(bytearray.fromhex(STORED["absmax_codes"]), dtype=torch.uint8)
SCALE, MEAN = tensor(STORED["absmax_scale"]), tensor(STORED["absmax_mean"])


def u8(*codes):
    return tensor(codes, dtype=torch.uint8)


def by_search(absmax, block):
    """Oracle: one scale after the other, the nearest of 256 values, in Python's floats."""
    mean = sum(absmax) / len(absmax)
    rest = [x - mean for x in absmax]
    scales = [max(abs(x) for x in rest[i : i + block]) for i in range(0, len(rest), block)]
    values = MAP.tolist()
    codes = [min(range(256), key=lambda c: abs(values[c] - x / scales[i // block])) for i, x in enumerate(rest)]
    return u8(*codes), tensor(scales), tensor(mean)


@pytest.mark.kata("level14.memory.double_quantize")
def test_the_mean_goes_first_then_the_largest_then_the_nearest_value(expect):
    """The docstring's example. No code is -1: the lowest value is -0.993."""
    expect(double_quantize, tensor([3.0, 1.0, 2.0])).equals((u8(255, 0, 127), tensor([1.0]), tensor(2.0)))


@pytest.mark.kata("level14.memory.double_quantize")
@pytest.mark.parametrize("block", [2, 4, 11, 12])
def test_every_block_has_its_scale_the_short_one_as_well(expect, block):
    """Eleven scales: 6 blocks of 2, 3 of 4, 1 of 11 or 12. One mean is for all of them."""
    absmax = [0.5, 0.125, 9.0, 2.0, 2.25, 0.0, 3.5, 30.0, 1.0, 1.5, 0.625]
    expect(double_quantize, tensor(absmax), block).equals(by_search(absmax, block))


@pytest.mark.kata("level14.memory.double_quantize")
def test_codes_are_those_of_bitsandbytes(expect):
    """300 scales of real blocks, in the block of 256 that is the default, and what is left over."""
    expect(double_quantize, ABSMAX).equals((CODES, SCALE, MEAN))


@pytest.mark.kata("level14.memory.double_quantize")
def test_scales_that_do_not_differ_have_the_code_of_zero(expect):
    """Nothing is left when the mean is off, and 0 / 0 would be NaN: of one scale, and of a block at the mean."""
    expect(double_quantize, tensor([3.0])).equals((u8(127), tensor([0.0]), tensor(3.0)))
    expect(double_quantize, tensor([0.5] * 4), 2).equals((u8(127, 127, 127, 127), tensor([0.0, 0]), tensor(0.5)))
    right = u8(0, 255, 127, 127, 0, 255), tensor([1.0, 0.0, 2.0]), tensor(2.0)
    expect(double_quantize, tensor([1.0, 3.0, 2.0, 2.0, 0.0, 4.0]), 2).equals(right)


@pytest.mark.kata("level14.memory.double_quantize")
def test_the_size_of_the_scales_does_not_matter(expect):
    """Scales of small weights differ by little; it is their own largest difference that counts."""
    absmax = [2e-9, 1e-9, 7e-9, 4e-9, 3e-9]
    codes, scale, mean = by_search(absmax, 3)
    expect(double_quantize, tensor(absmax), 3).equals((codes, scale, mean), rel=1e-5, abs=0)


@pytest.mark.kata("level14.memory.double_quantize")
def test_halfway_between_two_values_the_lower_one_is_taken(expect):
    """2, 1 - h, h have the mean 1, and the second of them is then -h: h is halfway between two values, exactly."""
    middles = MAP[:60].double() + MAP[1:61]
    number = next(i for i, m in enumerate(middles.tolist()) if i > 5 and m * 2**23 % 1 == 0)
    h = float(-middles[number] / 2)
    expect(double_quantize, tensor([2.0, 1 - h, h])).holds(
        lambda found: int(found[0][1]) == number, f"the code of the lower of two values, {number}"
    )


@pytest.mark.kata("level14.memory.double_quantize")
@pytest.mark.parametrize("shape, block", [((0,), 4), ((2, 3), 4), ((3,), 0)])
def test_no_scales_or_a_matrix_of_them_are_refused(expect, shape, block):
    """A mean of nothing is NaN, and would get into the file."""
    expect(double_quantize, torch.ones(1), 1).equals((u8(127), torch.zeros(1), tensor(1.0)))
    expect(double_quantize, torch.ones(shape), block).raises(ValueError)


@pytest.mark.kata("level14.memory.double_quantize")
def test_codes_come_back_as_value_times_scale_plus_mean(expect):
    """The docstring's example, and bitsandbytes' own 300."""
    right = tensor([3.0, 2 - 0.99296875, 2.0])
    expect(double_dequantize, u8(255, 0, 127), tensor([1.0]), tensor(2.0)).equals(right)
    expect(double_dequantize, CODES, SCALE, MEAN).equals(tensor(STORED["double_dequantized"]))


@pytest.mark.kata("level14.memory.double_quantize")
@pytest.mark.parametrize("block", [2, 3, 5, 9])
def test_the_last_block_of_codes_may_be_short(expect, block):
    """Five scales in blocks of 2: the third scale is for one of them."""
    codes, scale, mean = u8(255, 0, 200, 40, 131), tensor([2.0, 0.25, 3.0])[: -(-5 // block)], tensor(1.5)
    right = tensor([float(MAP[int(c)]) * float(scale[i // block]) + 1.5 for i, c in enumerate(codes)])
    expect(double_dequantize, codes, scale, mean, block).equals(right)


@pytest.mark.kata("level14.memory.double_quantize")
def test_a_weight_takes_its_code_and_its_share_of_the_scale(expect):
    """By hand: 4 + 32/64; 4 + 8/64 + 32/(64 · 256); the smaller the block, the dearer its scale."""
    expect(nf4_bits_per_weight).equals(4.5)
    expect(nf4_bits_per_weight, 64, 256).equals(4.126953125, rel=1e-9)
    expect(nf4_bits_per_weight, 32).equals(5.0)
    expect(nf4_bits_per_weight, 16, 4).equals(4 + 8 / 16 + 32 / 64)
    expect(nf4_bits_per_weight, second_block=64).equals(4 + 8 / 64 + 32 / 4096, rel=1e-9)


@pytest.mark.kata("level14.memory.double_quantize")
def test_only_trainable_weights_have_gradients_and_optimizer_state(expect):
    """By hand: an 8B model whole needs 128 GB; with 42M of adapters 16.6; with the rest in 4.127 bits, 4.7."""
    expect(training_bytes, 100, 10).equals(340.0)
    expect(training_bytes, 8.03e9, 8.03e9).equals(128.48e9)
    expect(training_bytes, 8.03e9, 42e6).equals(16.648e9)
    expect(training_bytes, 8.03e9, 42e6, 0.516).equals(4.73148e9)
    expect(training_bytes, 10, 3, 1.5, 5, 7).equals(15.0 + 3 * 12)
    expect(training_bytes, 10, 0, 0.5).equals(5.0)
