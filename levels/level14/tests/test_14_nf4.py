"""Judges nf4.py by bitsandbytes' stored levels, codes and scales, and by a search for the nearest level."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import tensor

from level14.nf4 import dequantize_nf4, nf4_levels, quantize_nf4

STORED = json.loads((Path(__file__).parent / "peft_bitsandbytes.json").read_text(encoding="utf-8"))["nf4"]
TABLE = tensor(STORED["levels"])
PACKED = torch.frombuffer(bytearray.fromhex(STORED["codes"]), dtype=torch.uint8)
CODES = torch.stack([PACKED >> 4, PACKED & 15], 1).flatten()  # the first of two codes in the high four bits
ABSMAX = tensor(STORED["absmax"])


def stored_weights():
    """The weights that bitsandbytes quantized, drawn as tools/oracles/level14.py draws them: 300 blocks of 64."""
    generator = np.random.RandomState(16)
    spread = 0.02 * (1 + 3 * generator.random_sample((300, 1)))
    return torch.from_numpy((generator.standard_normal((300, 64)) * spread).astype(np.float32).ravel())


# ---- the levels


@pytest.mark.kata("level14.nf4.nf4_levels")
def test_the_levels_are_those_of_bitsandbytes(expect):
    """Codes are stored without their table: whoever reads them has to have the same 16 values. 5e-7 is rounding."""
    expect(nf4_levels).equals(TABLE, rel=0, abs=5e-7)


@pytest.mark.kata("level14.nf4.nf4_levels")
def test_zero_and_both_ends_are_levels_exactly(expect):
    """A weight of 0 stays 0, and the largest of each block comes back as it was, whichever its sign."""
    exact = lambda levels: levels[[0, 7, 15]].tolist() == [-1, 0, 1] and bool((levels.diff() > 0).all())  # noqa: E731
    expect(nf4_levels).holds(exact, "ascending, with -1, 0 and 1 as numbers 0, 7 and 15, exactly")


@pytest.mark.kata("level14.nf4.nf4_levels")
@pytest.mark.parametrize("offset", [0.9, 0.995, 0.55])
def test_another_offset_gives_other_quantiles(expect, offset):
    """Oracle: torch's quantiles, at 9 and at 8 evenly spaced probabilities down to 1/2, which itself is level 0."""
    above, below = (torch.special.ndtri(torch.linspace(offset, 0.5, n, dtype=torch.float64)[:-1]) for n in (9, 8))
    right = torch.cat([-below, torch.zeros(1), above.flip(0)]) / above[0]
    expect(nf4_levels, offset).equals(right.float())


@pytest.mark.kata("level14.nf4.nf4_levels")
@pytest.mark.parametrize("offset", [0.5, 1.0, 0.2])
def test_an_offset_without_a_quantile_is_refused(expect, offset):
    """The quantile of 1 is infinite, and that of 1/2 is 0, by which nothing is divided."""
    expect(nf4_levels, 0.9677083).equals(TABLE, rel=0, abs=5e-7)
    expect(nf4_levels, offset).raises(ValueError)


# ---- weights to codes


def nearest(w, block):
    """Oracle: for each weight the level that is nearest, among all 16, in float64."""
    blocks = w.double().reshape(-1, block)
    absmax = blocks.abs().amax(1)
    unit = blocks / absmax.unsqueeze(1)
    codes = (unit.unsqueeze(-1) - TABLE.double()).abs().argmin(-1)
    return codes.to(torch.uint8).reshape(w.shape), absmax.float()


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_the_example_has_these_codes(expect):
    """The docstring's: 1/2 lies between 0.4407 and 0.5626, and is nearer to the first."""
    w = tensor([0.0, 2.0, -2.0, 1.0] * 16)
    expect(quantize_nf4, w).equals((tensor([7, 15, 0, 12] * 16, dtype=torch.uint8), tensor([2.0])))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_the_nearest_level_is_the_nearest_in_value(expect):
    """Levels are not evenly spaced: the border between the last two is 0.8615, and index 12.5 is 0.5017."""
    w = tensor([1.0, -0.7, 0.85, 0.87, -0.84, -0.86, 0.03, 0.05, -0.04, -0.05, 0.501, 0.502])
    right = tensor([15, 1, 14, 15, 1, 0, 7, 8, 7, 6, 12, 13], dtype=torch.uint8)
    expect(quantize_nf4, w, 12).equals((right, tensor([1.0])))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_the_largest_magnitude_may_be_a_negative_one(expect):
    """The scale is of magnitudes: by the largest value, -4 would be -4 times as large as what has a level."""
    right = tensor([0, 11, 15, 7], dtype=torch.uint8), tensor([4.0, 1.0])
    expect(quantize_nf4, tensor([-4.0, 1.25, 1.0, 0.0]), 2).equals(right)
    expect(quantize_nf4, tensor([-3.0, -1.0]), 2).equals((tensor([0, 4], dtype=torch.uint8), tensor([3.0])))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_each_block_has_a_scale_of_its_own(expect):
    """One outlier costs its own block its precision, and no other. Rows of 6 hold one block and a half, of 4."""
    w = drawn(2, 6, seed=1) * tensor([1.0, 1, 100, 0.01, 1, 5])
    expect(quantize_nf4, w, 4).equals(nearest(w, 4))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_codes_and_scales_are_those_of_bitsandbytes(expect):
    """19,200 weights in 300 blocks of 64, as a matrix whose rows of 100 end inside blocks."""
    right = CODES.view(192, 100), ABSMAX
    expect(quantize_nf4, stored_weights().view(192, 100)).equals(right)


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_a_block_of_zeros_is_zero(expect):
    """An expert that is never used, or a pruned row: 0 / 0 would be NaN, in its block or in the whole matrix."""
    w = torch.cat([torch.zeros(4), tensor([0.5, 0.0, -1.0, 1.0])])
    right = tensor([7, 7, 7, 7, 12, 7, 0, 15], dtype=torch.uint8), tensor([0.0, 1.0])
    expect(quantize_nf4, w, 4).equals(right)


@pytest.mark.kata("level14.nf4.quantize_nf4")
@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_the_size_of_the_weights_does_not_matter(expect, scale):
    """A block is divided by its largest magnitude, however small: only a 0 needs care."""
    w = drawn(8, 16, seed=2) * scale
    codes, absmax = nearest(w, 16)
    expect(quantize_nf4, w, 16).equals((codes, absmax), rel=1e-5, abs=0)


def halfway(up, down):
    """Codes of weights that lie exactly between level 7, which is 0, and its neighbours."""
    levels = nf4_levels()
    return quantize_nf4(torch.stack([levels[up] / 2, levels[down] / 2, levels[15], levels[0]]), 4)[0]


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_halfway_between_two_levels_the_lower_one_is_taken(expect):
    """Whichever is taken, two programs have to agree. Half of a float is exact, and so is the distance to it."""
    expect(halfway, 8, 6).equals(tensor([7, 6, 15, 0], dtype=torch.uint8))


@pytest.mark.kata("level14.nf4.quantize_nf4")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_divided_in_float32(expect, dtype):
    """A bfloat16 quotient has 8 bits: near a border between levels it falls on the wrong side."""
    w = drawn(40, 32, seed=3, dtype=dtype)
    expect(quantize_nf4, w).equals(nearest(w, 64))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_a_view_is_quantized_in_the_order_that_it_shows(expect):
    """A transposed weight is no rarity, and its memory has another order than its flatten()."""
    w = drawn(6, 4, seed=4).T
    expect(quantize_nf4, w, 3).equals(nearest(w, 3))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_a_block_may_be_one_weight_or_all_of_them(expect):
    """Each weight its own scale: only signs are left. One scale for all: the shape of absmax stays (blocks,)."""
    w = tensor([[3.0, -0.2], [0.0, 1.5]])
    expect(quantize_nf4, w, 1).equals((tensor([[15, 0], [7, 15]], dtype=torch.uint8), tensor([3.0, 0.2, 0.0, 1.5])))
    expect(quantize_nf4, w, 4).equals((tensor([[15, 6], [7, 12]], dtype=torch.uint8), tensor([3.0])))


@pytest.mark.kata("level14.nf4.quantize_nf4")
@pytest.mark.parametrize("n, block", [(65, 64), (63, 64), (4, 0)])
def test_weights_that_do_not_fill_their_blocks_are_refused(expect, n, block):
    """A short block would get its neighbour's scale, or none."""
    expect(quantize_nf4, torch.ones(6), 3).equals((torch.full((6,), 15, dtype=torch.uint8), torch.ones(2)))
    expect(quantize_nf4, torch.ones(n), block).raises(ValueError)


# ---- and back


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_codes_come_back_as_level_times_scale(expect):
    """The docstring's example, and a block of two for which the sizes alone say where it ends."""
    codes = tensor([7, 15, 0, 12] * 16, dtype=torch.uint8)
    right = tensor([0, 2, -2, 2 * float(TABLE[12])] * 16)
    expect(dequantize_nf4, codes, tensor([2.0])).equals(right)
    codes, absmax = tensor([[0, 15, 14], [1, 7, 8]], dtype=torch.uint8), tensor([3.0, 0.5, 0.0])
    right = tensor([[-3.0, 3.0, TABLE[14] / 2], [TABLE[1] / 2, 0, 0]])
    expect(dequantize_nf4, codes, absmax).equals(right)


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_bitsandbytes_codes_come_back(expect):
    """Oracle: its own table and scales. A block has 64 weights, a row 100."""
    right = (TABLE[CODES.long()].view(300, 64) * ABSMAX.unsqueeze(1)).view(192, 100)
    expect(dequantize_nf4, CODES.view(192, 100), ABSMAX).equals(right)
    expect(dequantize_nf4, CODES[:24].view(3, 8).T, ABSMAX[:2]).equals(
        (TABLE[CODES[:24].view(3, 8).T.reshape(2, 12).long()] * ABSMAX[:2].unsqueeze(1)).view(8, 3)
    )


def there_and_back(w, block):
    return dequantize_nf4(*quantize_nf4(w, block))


@pytest.mark.kata("level14.nf4.quantize_nf4")
def test_the_error_is_at_most_half_a_gap_between_levels(expect):
    """The widest gap is from -1 to -0.696: no weight is further off than 0.152 times its block's largest."""
    w = drawn(6, 16, seed=5)
    bound = 0.15191 * w.abs().view(12, 8).amax(1).repeat_interleave(8).view(6, 16)
    expect(there_and_back, w, 8).holds(lambda back: bool(((back - w).abs() <= bound).all()), "near its weight")


@pytest.mark.kata("level14.nf4.quantize_nf4")
@pytest.mark.parametrize("n, blocks", [(5, 2), (4, 0)])
def test_codes_that_do_not_fill_their_blocks_are_refused(expect, n, blocks):
    """Codes and scales of two matrices, exchanged."""
    expect(dequantize_nf4, torch.zeros(6, dtype=torch.uint8), torch.ones(2)).equals(-torch.ones(6))
    expect(dequantize_nf4, torch.zeros(n, dtype=torch.uint8), torch.ones(blocks)).raises(ValueError)
