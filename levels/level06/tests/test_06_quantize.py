"""Judges quantize.py by exact fractions, entry by entry, by numpy's bit operations, and by torch's fake quantization.

Where more than one answer is right, what is compared is how far it is off, {} if it is near enough: else a program that
is right in its own way there would be told apart from every ghost, and its mistakes elsewhere would have no name.

No entry lies near a tie between two codes, but where the tie is the point; there, whatever order the arithmetic is done
in, the quotient is exact. Each row and group has a scale of another size. A helper `by_…` is an oracle.
"""

from fractions import Fraction
from itertools import product
from math import ldexp

import numpy as np
import pytest
import torch

from level06.quantize import (
    bits_per_weight,
    dequantize_int4,
    fake_quantize,
    int8_linear,
    pack_int4,
    quantize_int4,
    quantize_int8,
    unpack_int4,
)

EXACT = {"rel": 0, "abs": 0}
DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
# (rows, columns, group): groups of one, of two, of an odd number (two of them share a byte), of the whole row
GROUPS = [(1, 2, 2), (3, 8, 4), (2, 6, 3), (4, 12, 6), (2, 4, 1), (1, 10, 5), (5, 6, 6), (4, 4, 2), (3, 96, 32)]
GROUPED = pytest.mark.parametrize("rows, columns, group", GROUPS, ids=str)


def drawn(*shape, seed=0, least=-127, most=127):
    """Codes from `least` to `most`, each at most 0.4 beside a whole number; both ends are there in each row.

    A row of one column has `most` alone. Float64.
    """
    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(least + 1, most, shape, generator=draw)
    codes = codes + (torch.rand(shape, generator=draw, dtype=torch.float64) - 0.5) * 0.8
    ends = torch.rand(shape, generator=draw).argsort(-1)
    return codes.scatter(-1, ends[..., 1:2], least).scatter(-1, ends[..., :1], most)


def sizes(*shape, seed=0):
    """Positive numbers from a thousandth to a thousand, all different."""
    draw = torch.Generator().manual_seed(100 + seed)
    return 10 ** (6 * torch.rand(shape, generator=draw, dtype=torch.float64) - 3)


def laid_across(x):
    """The same numbers, in memory along another axis, with others between them."""
    return torch.stack([x.mT, -x.mT - 7], -1)[..., 0].mT


def by_row(row, most):
    """Oracle: (codes, scale) of numbers that share a scale, in exact fractions. Python rounds a tie to even."""
    row = [Fraction(v) for v in row]
    scale = max(map(abs, row)) / most or Fraction(1)
    return [round(v / scale) for v in row], scale


def by_rows(w):
    """Oracle of quantize_int8."""
    found = [by_row(row, 127) for row in w.tolist()]
    scale = torch.tensor([[float(scale)] for _, scale in found], dtype=torch.float64)
    return torch.tensor([codes for codes, _ in found], dtype=torch.int8), scale.to(w.dtype)


# ---- quantize_int8

OUTLIER = torch.tensor([[0.1, 0.2, -0.3, 0.0], [4.0, -8.4, 2.0, 16.0], [0.1, 0.2, -0.3, 900.0]])


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_a_weight_is_a_code_times_its_rows_scale(expect):
    """The docstring's example: in steps of 16 / 127 = 0.126 the row is 31.75, -66.7, 15.9 and 127 steps long."""
    right = torch.tensor([[32, -67, 16, 127]], dtype=torch.int8), torch.tensor([[16 / 127]])
    expect(quantize_int8, torch.tensor([[4, -8.4, 2, 16]])).equals(right)


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_a_large_weight_spoils_its_own_row_only(expect):
    """One scale for the matrix would make the first row 0, and one for a column could not leave the sum over inputs."""
    right = torch.tensor([[42, 85, -127, 0], [32, -67, 16, 127], [0, 0, 0, 127]], dtype=torch.int8)
    expect(quantize_int8, OUTLIER).equals((right, torch.tensor([[0.3 / 127], [16 / 127], [900 / 127]])))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 8), (8, 3), (4, 4), (2, 2), (30, 50), (2, 300)], ids=str)
def test_every_row_is_quantized_by_itself(expect, shape):
    """Oracle: exact fractions, entry by entry. The weight may be a view, such as a transposed one."""
    w = (drawn(*shape, seed=sum(shape)) * sizes(shape[0], 1)).float()
    expect(quantize_int8, w).equals(by_rows(w), abs=0)
    expect(quantize_int8, laid_across(w)).equals(by_rows(w), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_codes_times_scales_are_torchs_fake_quantization(expect):
    """Oracle: torch.fake_quantize_per_channel_affine, with codes from -127 to 127."""

    def restored(w):
        q, scale = quantize_int8(w)
        return q * scale

    w = (drawn(40, 64, seed=1) * sizes(40, 1)).float()
    scale = w.abs().amax(1) / 127
    right = torch.fake_quantize_per_channel_affine(w, scale, torch.zeros(40, dtype=torch.int32), 0, -127, 127)
    expect(restored, w).equals(right, abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize(
    "row",
    [[-9.0, 3.0, 1.0], [-5.0, -4.0, -1.0], [5.0, 4.0, 1.0], [-1.0, 1.0, 0.5], [0.0, 0.0, -3.0], [8.0, 8.0, 8.0]],
    ids=str,
)
def test_the_range_is_symmetric(expect, row):
    """The largest magnitude is 127 or -127, whichever sign it has; 0 is the code of 0; -128 is never used."""
    w = torch.tensor([row])
    expect(quantize_int8, w).equals(by_rows(w))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("shape", [(20, 33), (3, 1000)], ids=str)
def test_no_weight_is_off_by_more_than_half_a_step(expect, shape):
    """The promise of rounding. Cut off instead, the error is twice as large, and all weights shrink."""

    def off(w):
        q, scale = quantize_int8(w)
        error = (q.double() * scale.double() - w.double()).abs().max().item() / scale.max().item()
        return {} if 0.4 < error < 0.5001 else {"steps, where half of one is right": round(error, 3)}

    w = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    w = w / w.abs().amax(1, keepdim=True) * 3  # all rows have the same scale
    expect(off, w).equals({})


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("place", [0, 150, 299])
def test_the_whole_row_is_looked_at(expect, place):
    """From the first 256 columns alone, a larger one behind them would wrap around. In whole steps the codes are w."""
    w = torch.randint(-99, 100, (2, 300), generator=torch.Generator().manual_seed(15))
    w[:, place] = torch.tensor([127, -127])
    expect(quantize_int8, w.float()).equals((w.to(torch.int8), torch.ones(2, 1)))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("size", [1.0, 0.25, 512.0])
def test_a_tie_goes_to_the_even_code(expect, size):
    """torch.round's rule; away from zero, two libraries would have different codes for the same weights."""
    w = torch.tensor([[127, 0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 63.5, -64.5]]) * size
    right = torch.tensor([[127, 0, 2, 2, 4, 0, -2, -2, 64, -64]], dtype=torch.int8)
    expect(quantize_int8, w).equals((right, torch.tensor([[size]])), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_a_row_of_zeros_has_scale_1(expect):
    """0 / 0 is NaN, and one NaN in a weight is NaN in every logit. Its neighbours keep their own scales."""
    expect(quantize_int8, torch.zeros(1, 2)).equals((torch.zeros(1, 2, dtype=torch.int8), torch.ones(1, 1)))
    w = torch.tensor([[0.0, 0.0, -0.0], [0.0, 3.0, -1.0], [-0.0, -0.0, -0.0], [0.0, 0.0, 1e-3]])
    expect(quantize_int8, w).equals(by_rows(w))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-6, 1e30])
def test_a_scale_may_be_as_small_or_large_as_the_row_asks(expect, size):
    """A least scale, or a small number added to it, against the division by 0 would cost small rows their codes."""
    w = (drawn(2, 9, seed=3) * torch.tensor([[1.0], [3.0]]) * size).float()
    expect(quantize_int8, w).equals(by_rows(w), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
@DTYPES
def test_codes_are_int8_and_scales_have_the_weights_dtype(expect, dtype):
    """A byte a weight is the whole point, and a scale in float32 beside bfloat16 weights would be counted twice."""
    w = torch.tensor([[127, -31.75, 7.375, 100, -0.25], [2.25, 0, -127, 64, 3.875]], dtype=dtype) / 512
    right = torch.tensor([[127, -32, 7, 100, 0], [2, 0, -127, 64, 4]], dtype=torch.int8)
    expect(quantize_int8, w).equals((right, torch.full((2, 1), 1 / 512, dtype=dtype)), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("dtype, size", [(torch.bfloat16, 1), (torch.float16, 1), (torch.float16, 1e-5)], ids=str)
def test_weights_of_half_precision_are_divided_in_float32(expect, dtype, size):
    """In bfloat16 a scale is off by up to 1/256, and a quotient of 127.4 rounds up to 127.5, then to 128: in int8 -128,
    the largest weight of every sixth row with its sign turned. Below 6e-5 float16 has few digits left as well."""
    w = (torch.randn(60, 24, generator=torch.Generator().manual_seed(12)) * size).to(dtype)

    def off(w):
        """Each code is the nearest, of -127 to 127, to w over the scale, as it is returned or before it was rounded."""
        q, scale = (part.double() for part in quantize_int8(w))
        exact = w.double().abs().amax(1, keepdim=True) / 127
        if ((scale - exact).abs() > exact / 250 + 3e-8).any():
            return {"a scale": "not the largest magnitude over 127"}
        steps = min((q - (w.double() / s).clamp(-127, 127)).abs().max().item() for s in (scale, exact))
        return {} if steps < 0.5001 else {"steps of a code from the weight": round(steps, 3)}

    expect(off, w).equals({})


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_what_is_no_matrix_is_refused(expect):
    """A norm's weight is 1-D and stays as it is; of a batch of matrices it is not said what a row is."""
    expect(quantize_int8, torch.tensor([[127.0]])).equals((torch.tensor([[127]], dtype=torch.int8), torch.ones(1, 1)))
    for shape in ((3,), (2, 3, 4), ()):
        expect(quantize_int8, torch.ones(shape)).raises(ValueError)


# ---- int8_linear


def by_sums(x, q, scale):
    """Oracle: x @ (q · scale)ᵀ, sum by sum, in exact fractions."""
    weights = [[code * Fraction(s) for code in codes] for codes, (s,) in zip(q.tolist(), scale.tolist())]
    tokens = x.reshape(-1, x.shape[-1]).tolist()
    right = [[float(sum(Fraction(a) * b for a, b in zip(token, row))) for row in weights] for token in tokens]
    return torch.tensor(right, dtype=torch.float64).to(x.dtype).reshape(*x.shape[:-1], len(q))


def given(*shape, out, seed=0):
    """x (..., in), not contiguous, all codes of a byte, and scales of different sizes."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, 2, generator=draw)[..., 0]
    q = torch.randint(-128, 128, (out, shape[-1]), generator=draw).to(torch.int8)
    return x, q, sizes(out, 1, seed=seed).float()


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_a_product_with_codes_is_brought_to_scale(expect):
    """The docstring's example, 32 - 67 = -35 steps of 0.5, and two rows: 31 steps of 0.5 and 7 of 2."""
    x, q = torch.tensor([1.0, 1]), torch.tensor([[32, -67]], dtype=torch.int8)
    expect(int8_linear, x, q, torch.tensor([[0.5]])).equals(torch.tensor([-17.5]))
    q, scale = torch.tensor([[32, -1], [3, 4]], dtype=torch.int8), torch.tensor([[0.5], [2]])
    expect(int8_linear, x, q, scale).equals(torch.tensor([15.5, 14]))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize(
    "dtype, high, low",
    [(torch.float16, 14, -12), (torch.bfloat16, 126, -120), (torch.float32, 126, -120), (torch.float64, 1022, -1016)],
    ids=str,
)
def test_no_weight_is_multiplied_by_its_scale(expect, dtype, high, low):
    """As many products as there are weights, and a float copy of the matrix, where one product per output does.

    The first scale is so large that a weight is beyond the dtype, and the output is not: (100 - 2 · 20) / 64 times 2^14
    is 15360 in float16, while 100 · 2^14 is infinite. The second is so small that over the first it would be 0.
    """
    x = torch.tensor([[1.0, 2.0]], dtype=dtype) / 64
    q, scale = torch.tensor([[100, -20], [7, 9]], dtype=torch.int8), [ldexp(1, high), ldexp(1, low)]
    right = torch.tensor([[ldexp(60, high - 6), ldexp(25, low - 6)]], dtype=dtype)
    expect(int8_linear, x, q, torch.tensor(scale, dtype=dtype)[:, None]).equals(right, abs=0)


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (2, 3, 4), (1, 1, 4), (2, 1, 3, 4), (5, 1)], ids=str)
@pytest.mark.parametrize("out", [1, 3, 4, 6])
def test_every_output_has_its_own_rows_scale(expect, shape, out):
    """Oracle: sums in exact fractions. Some shapes have equally many tokens, outputs and inputs, others do not."""
    x, q, scale = given(*shape, out=out, seed=out)
    expect(int8_linear, x, q, scale).equals(by_sums(x, q, scale), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_activations_stay_as_they_are(expect):
    """Weight-only: rounded to whole numbers, or to eight bits of their own, small activations beside a large one go."""
    x = torch.tensor([[0.3, -0.25, 0.001], [1000.0, 0.4, 0.5]])
    q, scale = torch.tensor([[100, -50, 127], [0, 90, -128]], dtype=torch.int8), torch.tensor([[0.01], [0.5]])
    right = torch.tensor([[0.30 + 0.125 + 0.00127, -11.25 - 0.064], [1000 - 0.2 + 0.635, 18.0 - 32]])
    expect(int8_linear, x, q, scale).equals(right)


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("scale_dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@DTYPES
def test_the_result_has_the_dtype_of_x(expect, dtype, scale_dtype):
    """bfloat16 activations go on in bfloat16, whatever the scale is stored in. Every step is exact here."""
    x, q = torch.tensor([[1.0, 2], [0.5, -1]], dtype=dtype), torch.tensor([[4, 2], [100, -4]], dtype=torch.int8)
    scale, right = torch.tensor([[0.5], [2]], dtype=scale_dtype), torch.tensor([[4, 184], [0, 108]], dtype=dtype)
    expect(int8_linear, x, q, scale).equals(right, **EXACT)


@pytest.mark.kata("level06.quantize.quantize_int8")
def test_float64_activations_are_multiplied_in_float64(expect):
    """A reference run in float64 stays one: 2^30 + 1 is no float32."""
    x, q = torch.tensor([2.0**30 + 1, -(2.0**30)], dtype=torch.float64), torch.tensor([[3, 3]], dtype=torch.int8)
    expect(int8_linear, x, q, torch.tensor([[0.5]])).equals(torch.tensor([1.5], dtype=torch.float64))


@pytest.mark.kata("level06.quantize.quantize_int8")
@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 5, 64)], ids=str)
def test_the_product_is_as_near_as_half_steps_allow(expect, shape):
    """Every weight is off by half a step at most, so an output is off by sum |x| · scale / 2 at most, and is not exact.

    The whole way, from a weight to what a layer gives.
    """

    def off(x, w):
        bound = x.abs().sum(-1, keepdim=True) * w.abs().amax(1) / 254
        share = ((int8_linear(x, *quantize_int8(w)) - x @ w.T).abs() / bound).max().item()
        return {} if 0.02 < share <= 1.001 else {"of what half steps come to": round(share, 3)}

    draw = torch.Generator().manual_seed(5)
    x, w = torch.randn(shape, generator=draw), torch.randn(48, 64, generator=draw) * sizes(48, 1).float()
    expect(off, x, w).equals({})


# ---- pack_int4


def by_bits(q):
    """Oracle: numpy's bit operations on unsigned bytes."""
    q = np.array(q.tolist(), dtype=np.uint8).reshape(q.shape)
    return torch.from_numpy(np.bitwise_or(q[:, ::2], np.left_shift(q[:, 1::2], 4)))


def nibbles(*shape, seed=0):
    return torch.randint(0, 16, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.kata("level06.quantize.pack_int4")
def test_two_neighbours_share_a_byte(expect):
    """The docstring's example: 1 + 16 · 2 = 33 and 15 + 16 · 0 = 15. A layout is a contract between two programs."""
    expect(pack_int4, torch.tensor([[1, 2, 15, 0]])).equals(torch.tensor([[33, 15]], dtype=torch.uint8))


@pytest.mark.kata("level06.quantize.pack_int4")
def test_every_pair_of_values_has_its_byte(expect):
    """All 256 of them, in a column and in a row: 16 times the second plus the first, in Python."""
    pairs = list(product(range(16), repeat=2))
    right = torch.tensor([[low + 16 * high] for low, high in pairs], dtype=torch.uint8)
    expect(pack_int4, torch.tensor(pairs)).equals(right)
    expect(pack_int4, torch.tensor(pairs).view(1, -1)).equals(right.view(1, -1))


@pytest.mark.kata("level06.quantize.pack_int4")
@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2, 4), (4, 4), (5, 8), (2, 14), (7, 66)], ids=str)
def test_rows_are_packed_along_themselves(expect, shape):
    """Oracle: numpy's shift and or. Values of two rows in one byte could not be read row by row."""
    q = nibbles(*shape, seed=shape[1])
    expect(pack_int4, q).equals(by_bits(q))


@pytest.mark.kata("level06.quantize.pack_int4")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_values_come_in_any_integer_dtype(expect, dtype):
    """Also in int8, where 15 shifted by four bits is negative; and as a view. A byte for two, or nothing is saved."""
    q = nibbles(6, 10, seed=1)
    q[0] = 15
    expect(pack_int4, q.to(dtype)).equals(by_bits(q))
    expect(pack_int4, q.to(dtype).T.contiguous().T).equals(by_bits(q))
    expect(pack_int4, torch.cat([q, q], 1).to(dtype)[:, ::2]).equals(by_bits(torch.cat([q, q], 1)[:, ::2]))


@pytest.mark.kata("level06.quantize.pack_int4")
def test_eight_values_are_a_number_read_from_its_lowest_bits(expect):
    """0x76543210 for 0 to 7; a kernel that expects another order reads a model that loads and talks nonsense."""

    def as_number(q):
        return int.from_bytes(bytes(pack_int4(q)[0].tolist()), "little")

    expect(as_number, torch.arange(8)[None]).equals(0x76543210)


@pytest.mark.kata("level06.quantize.pack_int4")
def test_what_does_not_fit_is_refused(expect):
    """A value of 16 would spill into its neighbour, -1 fill the whole byte; an odd column has no partner."""
    expect(pack_int4, torch.tensor([[0, 15]])).equals(torch.tensor([[240]], dtype=torch.uint8))
    for q in ([[1, 2, 3]], [[1]], [[1, 16]], [[16, 1]], [[-1, 1]], [[0, 0], [0, 300]]):
        expect(pack_int4, torch.tensor(q)).raises(ValueError)


@pytest.mark.kata("level06.quantize.pack_int4")
def test_a_byte_is_two_neighbours_again(expect):
    """The docstring's example, and all 256 bytes, in a column and in a row: remainder and quotient by 16."""
    right = torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)
    expect(unpack_int4, torch.tensor([[33, 15]], dtype=torch.uint8)).equals(right)
    right = torch.tensor([[byte % 16, byte // 16] for byte in range(256)], dtype=torch.uint8)
    expect(unpack_int4, torch.arange(256, dtype=torch.uint8)[:, None]).equals(right)
    expect(unpack_int4, torch.arange(256, dtype=torch.uint8)[None]).equals(right.view(1, -1))


@pytest.mark.kata("level06.quantize.pack_int4")
@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2, 4), (4, 4), (5, 8), (2, 14)], ids=str)
def test_unpacking_gives_the_packed_values(expect, shape):
    """What numpy packed is unpacked, from a view as well; and what the kata packs, it unpacks."""
    q = nibbles(*shape, seed=shape[0])
    expect(unpack_int4, by_bits(q)).equals(q.to(torch.uint8))
    expect(unpack_int4, laid_across(by_bits(q))).equals(q.to(torch.uint8))

    def there_and_back(q):
        return unpack_int4(pack_int4(q))

    expect(there_and_back, q).equals(q.to(torch.uint8))


# ---- quantize_int4


def by_groups(w, group):
    """Oracle of quantize_int4: each group in exact fractions."""
    codes, scales, lows = [], [], []
    for row in w.tolist():
        groups = [[Fraction(v) for v in row[i : i + group]] for i in range(0, len(row), group)]
        lows.append([min(g) for g in groups])
        scales.append([(max(g) - min(g)) / 15 or Fraction(1) for g in groups])
        codes.append([round((v - low) / s) for g, s, low in zip(groups, scales[-1], lows[-1]) for v in g])
    numbers = (torch.tensor([[float(v) for v in row] for row in x], dtype=torch.float64) for x in (scales, lows))
    return by_bits(torch.tensor(codes)), *(x.to(w.dtype) for x in numbers)


def grouped(rows, columns, group, seed=0):
    """Weights whose groups have scales and lows of different sizes and signs; no entry is near a tie."""
    n = columns // group
    draw = torch.Generator().manual_seed(200 + seed)
    scale, low = sizes(rows, n, 1, seed=seed), 40 * torch.rand(rows, n, 1, generator=draw, dtype=torch.float64) - 30
    return ((drawn(rows, n, group, seed=seed, least=0, most=15) + low) * scale).flatten(1).float()


@pytest.mark.kata("level06.quantize.quantize_int4")
def test_a_group_has_its_least_value_and_fifteen_steps(expect):
    """The docstring's example: from -15 in steps of 2, 0.5 is 7.75 steps up, 5.6 is 10.3. And 16 whole numbers."""
    right = torch.tensor([[128, 250]], dtype=torch.uint8), torch.tensor([[2.0]]), torch.tensor([[-15.0]])
    expect(quantize_int4, torch.tensor([[-15, 0.5, 5.6, 15]]), 4).equals(right)
    right = by_bits(torch.arange(16)[None]), torch.tensor([[1.0]]), torch.tensor([[0.0]])
    expect(quantize_int4, torch.arange(16.0)[None], 16).equals(right)


@pytest.mark.kata("level06.quantize.quantize_int4")
@GROUPED
def test_every_group_is_quantized_by_itself(expect, rows, columns, group):
    """Oracle: exact fractions. A large weight spoils the group of its neighbours in the row, and nothing else."""
    w = grouped(rows, columns, group, seed=columns)
    expect(quantize_int4, w, group).equals(by_groups(w, group), abs=0)
    expect(quantize_int4, laid_across(w), group).equals(by_groups(w, group), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("row", [[-4.0, -3.1, -1.2, -2.2], [3.0, 7.1, 4.2, 10.9], [-1.0, 0.0, 2.1, 6.3]], ids=str)
def test_the_least_value_may_have_any_sign(expect, row):
    """Steps are spent on the range that the group has: from 0, a group of -4 to -1 would use few of them, or none."""
    w = torch.tensor([row])
    expect(quantize_int4, w, 4).equals(by_groups(w, 4))


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("low", [0.0, -8.0, 112.0])
def test_a_tie_of_two_codes_goes_to_the_even_one(expect, low):
    """torch.round's rule: 0.5 and 2.5 steps are codes 0 and 2."""
    w = torch.tensor([[0, 15, 0.5, 2.5, 5.5, 7.5]]) + low
    right = by_bits(torch.tensor([[0, 15, 0, 2, 6, 8]])), torch.tensor([[1.0]]), torch.tensor([[low]])
    expect(quantize_int4, w, 6).equals(right)


@pytest.mark.kata("level06.quantize.quantize_int4")
def test_a_group_of_equal_weights_has_scale_1(expect):
    """Zeros, or padding: no range, and a division by it would be NaN. Low alone holds them, exactly."""
    w = torch.tensor([[2.0, 2.0, 0.0, 0.0, -3.1, -3.1, 1.0, 4.0], [0.0, -0.0, 5.0, 4.0, 1e-9, 1e-9, -7.0, -7.0]])
    scale, low = torch.tensor([[1, 1, 1, 0.2], [1, 1 / 15, 1, 1]]), torch.tensor([[2, 0, -3.1, 1], [0, 4, 1e-9, -7]])
    right = by_bits(torch.tensor([[0, 0, 0, 0, 0, 0, 0, 15], [0, 0, 15, 0, 0, 0, 0, 0]])), scale, low
    expect(quantize_int4, w, 2).equals(right, abs=0)


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e-5, 1e30])
def test_a_step_may_be_of_any_size(expect, size):
    """A small number added to the range, or a least one, would cost a group of small weights its codes."""
    w = ((drawn(2, 8, seed=4, least=0, most=15) - 7) * size).float()
    expect(quantize_int4, w, 8).equals(by_groups(w, 8), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int4")
@DTYPES
def test_scale_and_low_have_the_weights_dtype(expect, dtype):
    """Two numbers per group are a fifth of all at groups of 32: kept in float32 they would be a third."""
    w = torch.tensor([[-15, 0.5, 5.5, 15], [-0.25, 0, 0.125, 3.5]], dtype=dtype)
    codes, scale = by_bits(torch.tensor([[0, 8, 10, 15], [0, 1, 2, 15]])), torch.tensor([[2], [0.25]], dtype=dtype)
    expect(quantize_int4, w, 4).equals((codes, scale, torch.tensor([[-15], [-0.25]], dtype=dtype)), **EXACT)


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("group", [16, 64])
def test_no_weight_of_a_group_is_off_by_more_than_half_a_step(expect, group):
    """Oracle: numpy takes the codes out of the bytes. With 16 steps for 16 codes the largest would be cut off."""
    w = torch.randn(12, 64, generator=torch.Generator().manual_seed(6)) + sizes(12, 1).float()

    def off(w, group):
        packed, scale, low = (x.double().numpy() for x in quantize_int4(w, group))
        q = np.stack([packed.astype(int) & 15, packed.astype(int) >> 4], -1).reshape(w.shape)
        error = np.abs(q * scale.repeat(group, 1) + low.repeat(group, 1) - w.double().numpy()) / scale.repeat(group, 1)
        return {} if 0.4 < error.max() < 0.502 else {"steps, where half of one is right": round(error.max().item(), 3)}

    expect(off, w, group).equals({})


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_groups_of_half_precision_are_divided_in_float32(expect, dtype):
    """The distance from low, and the quotient, have more digits than bfloat16: rounded on the way, codes are off."""
    w = torch.randn(80, 24, generator=torch.Generator().manual_seed(13)).to(dtype)

    def off(w):
        """Each code is the nearest to (w - low) over the scale, as it is returned or before it was rounded."""
        packed, scale, low = quantize_int4(w, 8)
        q = torch.stack([packed % 16, packed // 16], -1).flatten(1).view(80, 3, 8)
        steps = w.double().view(80, 3, 8) - low.double()[..., None]
        exact = steps.amax(-1) / 15
        if not torch.allclose(scale.double(), exact, rtol=1 / 120):
            return {"a scale": "not the range over 15"}
        least = min((q - (steps / s[..., None]).clamp(0, 15)).abs().max().item() for s in (scale.double(), exact))
        return {} if least < 0.5001 else {"steps of a code from the weight": round(least, 3)}

    expect(off, w).equals({})


@pytest.mark.kata("level06.quantize.quantize_int4")
def test_groups_that_do_not_fill_the_rows_are_refused(expect):
    """576 columns can't be cut into groups of 128."""
    right = torch.tensor([[240]], dtype=torch.uint8), torch.tensor([[1.0]]), torch.tensor([[0.0]])
    expect(quantize_int4, torch.tensor([[0.0, 15]]), 2).equals(right)
    for shape, group in (((1, 6), 4), ((2, 4), 8), ((4,), 2), ((2, 2, 4), 2), ((2, 4), 0), ((2, 4), -2)):
        expect(quantize_int4, torch.ones(shape), group).raises(ValueError)


# ---- dequantize_int4


def by_entries(q, scale, low):
    """Oracle: one entry after the other, with the two numbers of the group that its column is in."""
    group = q.shape[1] // scale.shape[1]
    rows = [
        [code * scale[o, i // group].item() + low[o, i // group].item() for i, code in enumerate(row)]
        for o, row in enumerate(q.tolist())
    ]
    return torch.tensor(rows, dtype=torch.float64).to(scale.dtype)


@pytest.mark.kata("level06.quantize.quantize_int4")
def test_a_code_is_that_many_steps_above_low(expect):
    """The docstring's example. Codes count from low, not from 8, nor from a zero point that is stored minus one."""
    packed = by_bits(torch.tensor([[0, 8, 10, 15]]))
    right = torch.tensor([[-15.0, 1, 5, 15]])
    expect(dequantize_int4, packed, torch.tensor([[2.0]]), torch.tensor([[-15.0]])).equals(right)


@pytest.mark.kata("level06.quantize.quantize_int4")
@GROUPED
def test_neighbours_have_the_same_scale_and_low(expect, rows, columns, group):
    """Oracle: entry by entry. The first group's two numbers belong to the first `group` columns, not to every n-th."""
    q, n = nibbles(rows, columns, seed=columns), columns // group
    scale, low = sizes(rows, n, seed=1).float(), 9 - 3 * sizes(rows, n, seed=2).float()
    expect(dequantize_int4, by_bits(q), scale, low).equals(by_entries(q, scale, low))
    views = (laid_across(x) for x in (by_bits(q), scale, low))
    expect(dequantize_int4, *views).equals(by_entries(q, scale, low))


@pytest.mark.kata("level06.quantize.quantize_int4")
@DTYPES
def test_weights_come_back_in_the_dtype_of_their_scale(expect, dtype):
    """A layer of bfloat16 activations takes bfloat16 weights. Codes times scales are beyond a byte, and exact here."""
    q = torch.tensor([[0, 8, 10, 15], [1, 2, 3, 14]])
    scale, low = torch.tensor([[2, 0.5], [32, 0.25]], dtype=dtype), torch.tensor([[-15, -3], [0, 0.5]], dtype=dtype)
    right = torch.tensor([[-15, 1, 2, 4.5], [32, 64, 1.25, 4]], dtype=dtype)
    expect(dequantize_int4, by_bits(q), scale, low).equals(right, **EXACT)


@pytest.mark.kata("level06.quantize.quantize_int4")
def test_a_model_that_was_stored_in_these_groups_comes_back(expect):
    """SmolLM2's file is such a one: quantized in its own groups it loses nothing, which proves nothing."""

    def there_and_back(w, group):
        return dequantize_int4(*quantize_int4(w, group))

    q = nibbles(5, 64, seed=8).view(5, 4, 16)
    q[..., 3], q[..., 9] = 0, 15  # the ends are in use
    stored = by_entries(q.flatten(1), sizes(5, 4, seed=3).float(), 1 - sizes(5, 4, seed=4).float())
    expect(there_and_back, stored, 16).equals(stored, abs=1e-4)
    equal = torch.tensor([[2.0, 2.0, -0.3, -0.3, 0.0, 0.0]])
    expect(there_and_back, equal, 2).equals(equal, **EXACT)


# ---- bits_per_weight


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize(
    "bits, group, metadata_bits, right",
    [
        (4, 32, 32, 5),  # GGUF's Q4_1, the docstring's example
        (4, 32, 16, 4.5),  # Q4_0: a scale and no minimum
        (8, 32, 16, 8.5),  # Q8_0
        (4, 128, 32, 4.25),
        (2, 64, 32, 2.5),
        (8, 576, 16, 8 + 1 / 36),  # int8 of a row of SmolLM2
        (4, 64, 8 + 32 / 256, 4.126953125),  # scales that are quantized themselves, 256 of them at a time
        (16, 1, 0, 16),
        (3.5, 1, 16, 19.5),
    ],
)
def test_metadata_is_shared_by_the_group(expect, bits, group, metadata_bits, right):
    """Four bits are five: a file, and the bytes that a step reads, are a quarter larger than the name says."""
    expect(bits_per_weight, bits, group, metadata_bits).equals(float(right), abs=0)


@pytest.mark.kata("level06.quantize.quantize_int4")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("group", [2, 16, 64])
def test_the_bits_are_those_of_the_stored_tensors(expect, group, dtype):
    """Oracle: the bytes of codes, scales and lows, counted, over the weights."""

    def predicted_and_counted(w, group):
        predicted = bits_per_weight(4, group, 2 * 8 * w.element_size())
        return predicted, 8 * sum(part.nbytes for part in quantize_int4(w, group)) / w.numel()

    right = float(4 + Fraction(16 * dtype.itemsize, group))
    expect(predicted_and_counted, torch.arange(3 * 64).view(3, 64).to(dtype), group).equals((right, right))


# ---- fake_quantize


def by_slices(x, bits, dim):
    """Oracle: each slice along `dim`, one after the other, in exact fractions."""
    slices = x.movedim(dim, -1)
    right = []
    for row in slices.reshape(-1, slices.shape[-1]).tolist():
        codes, scale = by_row(row, 2 ** (bits - 1) - 1)
        right.append([float(code * scale) for code in codes])
    return torch.tensor(right, dtype=torch.float64).view(slices.shape).movedim(-1, dim).to(x.dtype)


def cached(*shape, dim, bits=8, seed=0):
    """Keys or values: every slice along `dim` has a size of its own; no entry is near a tie."""
    most = 2 ** (bits - 1) - 1
    x = drawn(*shape[:dim], *shape[dim + 1 :], shape[dim], seed=seed, least=-most, most=most)
    return (x * sizes(*x.shape[:-1], 1, seed=seed)).float().movedim(-1, dim)


@pytest.mark.kata("level06.quantize.fake_quantize")
def test_a_channel_has_one_scale_for_all_tokens(expect):
    """The docstring's example, two channels: 1.2 is 76.2 steps of 2 / 127, -40 is -50.8 steps of 100 / 127."""
    right = torch.tensor([[76 * 2 / 127, 100], [2, -51 * 100 / 127]])
    expect(fake_quantize, torch.tensor([[1.2, 100], [2, -40]]), 8, 0).equals(right)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize(
    "shape, dim",
    [
        ((5,), 0), ((1,), 0), ((4, 6), 0), ((4, 6), 1), ((4, 4), 0), ((4, 4), 1), ((3, 4, 5), 0), ((3, 4, 5), 1),
        ((3, 4, 5), 2), ((2, 3, 7, 4), 2), ((2, 3, 7, 4), 3), ((2, 2, 2, 2), 2), ((1, 3, 1, 8), 2), ((2, 3, 4, 1), 3),
        ((2, 1, 300, 2), 2), ((3, 300), 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("negative", [False, True])
def test_the_entries_along_dim_share_a_scale(expect, shape, dim, negative):
    """All of them, however many, and no others: not of another head, sequence or token. dim may count from the end.

    Oracle: exact fractions. Where dim has one entry, each is its own largest and comes back.
    """
    x = cached(*shape, dim=dim, seed=sum(shape))
    expect(fake_quantize, x, 8, dim - len(shape) if negative else dim).equals(by_slices(x, 8, dim), abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("place", [0, 150, 299])
def test_the_largest_entry_may_be_anywhere(expect, place):
    """The scale of a prompt's first tokens does not hold a larger one later on. In whole steps nothing is lost."""
    x = torch.randint(-99, 100, (300, 2), generator=torch.Generator().manual_seed(16)) * torch.tensor([1, 0.25])
    x[place] = torch.tensor([-127, 31.75])
    expect(fake_quantize, x, 8, 0).equals(x)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8, 12, 16])
def test_the_largest_code_follows_from_the_bits(expect, bits):
    """1 at two bits, 7 at four, 127 at eight, 32767 at sixteen; the one code more below zero is left out."""
    x = cached(3, 9, dim=1, bits=bits, seed=bits)
    expect(fake_quantize, x, bits, 1).equals(by_slices(x, bits, 1), abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dim", [-2, -1])
def test_a_cache_is_rounded_as_torch_does(expect, dim, bits):
    """Oracle: torch.fake_quantize_per_channel_affine, on keys by channel (dim -2) and on values by token (dim -1)."""
    x, most = cached(10, 24, dim=dim % 2, bits=bits, seed=9), 2 ** (bits - 1) - 1
    scale, axis = x.abs().amax(dim) / most, -1 - dim  # torch names the axis that the scales are along
    right = torch.fake_quantize_per_channel_affine(x, scale, torch.zeros(len(scale)).int(), axis, -most, most)
    expect(fake_quantize, x, bits, dim).equals(right, abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
def test_an_outlier_channel_costs_only_itself(expect):
    """Keys have such channels: twenty times the others. With a scale per token the others lose most of what they say.

    Every channel here is in whole steps of a scale of its own, so that with one for each nothing is lost.
    """
    keys = torch.tensor([[7.0, -3, 1, 5], [-2, 7, 6, -7], [4, 0, -7, 2]]) * torch.tensor([140.0, 1, 1, 0.5])
    keys = torch.stack([keys, 3 * keys]).unsqueeze(1)  # (2 sequences, 1 head, 3 tokens, 4 channels)
    expect(fake_quantize, keys, 4, -2).equals(keys)
    expect(fake_quantize, keys, 4, -1).equals(by_slices(keys, 4, -1))


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("row", [[7.0, -7.0], [7.0, -3.0, 1.0], [-7.0, 0.0], [-8.0, 7.0, 1.0], [3.0, 3.0]], ids=str)
def test_both_ends_are_reached(expect, row):
    """[7, -7] comes back exactly from four bits. Divided by 8 it is [6.125, -7]: the positive end has no code for 8."""
    x = torch.tensor(row)
    expect(fake_quantize, x, 4, 0).equals(by_slices(x, 4, 0))


@pytest.mark.kata("level06.quantize.fake_quantize")
def test_a_tie_between_codes_goes_to_the_even_one(expect):
    """torch.round's rule, in steps of 1, of a quarter, and of 2."""
    x = torch.tensor([[7, 0.5, 3.5, -0.5, -3.5]]) * torch.tensor([[1], [0.25], [2]])
    right = torch.tensor([[7.0, 0, 4, 0, -4]]) * torch.tensor([[1], [0.25], [2]])
    expect(fake_quantize, x, 4, 1).equals(right, abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
def test_zeros_stay_zeros(expect):
    """A cache holds slots that nobody wrote yet: 0 / 0 there would be NaN. Slices beside them keep their scales."""
    expect(fake_quantize, torch.zeros(1, 2), 4, 1).equals(torch.zeros(1, 2))
    x = torch.tensor([[0.0, 3.0, 0.0], [0.0, -1.2, 0.0], [0.0, 0.7, 1e-3]])
    for dim in (0, 1):
        expect(fake_quantize, x, 4, dim).equals(by_slices(x, 4, dim), abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e-5, 1e30])
def test_small_and_large_slices_keep_their_codes(expect, size):
    """A least scale against the division by 0 would round a small channel to zeros."""
    x = (cached(3, 6, dim=0, seed=11).double() * size).float()
    expect(fake_quantize, x, 8, 0).equals(by_slices(x, 8, 0), abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
@DTYPES
def test_a_round_trip_keeps_the_dtype(expect, dtype):
    """The cache stays what it was for attention, in bfloat16 too."""
    x = torch.tensor([[127, -31.75, 7.375, 100, -0.25], [2.25, 0, -127, 64, 3.875]], dtype=dtype) / 512
    right = torch.tensor([[127, -32, 7, 100, 0], [2, 0, -127, 64, 4]], dtype=dtype) / 512
    expect(fake_quantize, x, 8, 1).equals(right, **EXACT)


@pytest.mark.kata("level06.quantize.fake_quantize")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_cache_of_half_precision_is_rounded_in_float32(expect, dtype):
    """Oracle: exact fractions, rounded to the dtype once, at the end. In bfloat16 all the way, codes are off."""
    x = cached(12, 16, dim=1, seed=14).bfloat16().to(dtype)
    expect(fake_quantize, x, 8, 1).equals(by_slices(x, 8, 1), rel=torch.finfo(dtype).eps, abs=0)


@pytest.mark.kata("level06.quantize.fake_quantize")
def test_one_bit_is_refused(expect):
    """Its largest code would be 0: nothing to divide by."""
    expect(fake_quantize, torch.tensor([3.0, -1, 2]), 2, 0).equals(torch.tensor([3.0, 0, 3]))
    for bits in (1, 0, -4):
        expect(fake_quantize, torch.tensor([3.0, -1]), bits, 0).raises(ValueError)
