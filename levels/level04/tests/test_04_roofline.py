"""Judges roofline.py by data sheets, by times worked out in exact fractions, and by torch's FLOP counter.

What happens exactly at the ridge is tested with powers of two, where no order of operations rounds.
"""

from fractions import Fraction

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from level04.roofline import H100, Hardware, attainable, bound, matmul_intensity, ridge_point

EXACT = {"rel": 1e-9, "abs": 0.0}
SMALL = Hardware("as in the docstrings", 100.0, 10.0, 640.0)
TWOS = Hardware("powers of two", 4096.0, 64.0, 2.0**20)  # ridge 64
SLOW = Hardware("powers of two", 2.0, 8.0, 3.0)  # ridge 1/4: more bytes than FLOPs
A100 = Hardware("A100 SXM, bfloat16", 312e12, 2.039e12, 80e9)
H200 = Hardware("H200 SXM, bfloat16", 989e12, 4.8e12, 141e9)  # the H100's arithmetic, faster memory
H100_FP8 = Hardware("H100 SXM, float8", 1979e12, 3.35e12, 80e9)
LAPTOP = Hardware("one core", 99.4e9, 16.8e9, 16e9)


def seconds(flops, moved, hardware):
    """Oracle: how long the arithmetic takes and how long the bytes, as fractions."""
    return Fraction(flops) / Fraction(hardware.peak_flops), Fraction(moved) / Fraction(hardware.bandwidth)


# ---- ridge_point


@pytest.mark.kata("level04.roofline.ridge_point")
@pytest.mark.parametrize(
    "hardware, right",
    [
        (SMALL, 10.0),
        (H100, 989 / 3.35),  # 295.22
        (H100_FP8, 1979 / 3.35),  # 590.75: dense in float8, and what bfloat16 reaches with every second weight a zero
        (H200, 989 / 4.8),  # 206.0
        (A100, 312 / 2.039),  # 153.0
        (LAPTOP, 99.4 / 16.8),  # 5.917
        (SLOW, 0.25),
    ],
    ids=lambda x: x.name if isinstance(x, Hardware) else "",
)
def test_the_ridge_is_flops_per_byte(expect, hardware, right):
    """The one number that decides which of two machines suits a workload. By hand, from peak and bandwidth: the
    memory's size has no part in it, and below one FLOP per byte it is a fraction."""
    expect(ridge_point, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.roofline.ridge_point")
@pytest.mark.parametrize("hardware", [SMALL, TWOS, SLOW, A100, LAPTOP], ids=lambda x: x.name)
def test_at_the_ridge_arithmetic_and_bytes_take_equally_long(expect, hardware):
    """Oracle: the time of 1 GB at that intensity, in exact fractions."""

    def takes_equally_long(ridge):
        arithmetic, moving = seconds(Fraction(ridge) * 10**9, 10**9, hardware)
        return abs(arithmetic / moving - 1) < 1e-9 or f"{float(arithmetic)} s of arithmetic, {float(moving)} s of bytes"

    expect(ridge_point, hardware).holds(takes_equally_long, "both take equally long")


# ---- bound, judged with ridge_point


@pytest.mark.kata("level04.roofline.ridge_point")
@pytest.mark.parametrize(
    "hardware, intensity, right",
    [
        (SMALL, 3, "memory"),
        (SMALL, 50, "compute"),
        (H100, 1, "memory"),  # a decode step of one sequence
        (H100, 64.5, "memory"),
        (H100, 295, "memory"),
        (H100, 296, "compute"),
        (H100, 1365.3, "compute"),  # a matmul of 4096 x 4096 x 4096
        (H100_FP8, 500, "memory"),
        (H200, 250, "compute"),
        (A100, 200, "compute"),
        (LAPTOP, 1.2, "memory"),
        (LAPTOP, 5.9, "memory"),
        (LAPTOP, 6, "compute"),
        (LAPTOP, 250, "compute"),
        (SLOW, 0.2, "memory"),
        (SLOW, 0.3, "compute"),
        (SLOW, 0.9, "compute"),
    ],
    ids=lambda x: x.name if isinstance(x, Hardware) else str(x),
)
def test_left_of_the_ridge_memory_decides(expect, hardware, intensity, right):
    """What an optimisation can gain: to the left fewer bytes help and fewer FLOPs do not, to the right the reverse.
    Where the ridge lies is the machine's business: an intensity of 6 is low for an H100 and high for a CPU core."""
    expect(bound, intensity, hardware).equals(right)


@pytest.mark.kata("level04.roofline.ridge_point")
@pytest.mark.parametrize("hardware, ridge", [(TWOS, 64.0), (TWOS, 64), (SLOW, 0.25)], ids=["64.0", "64", "0.25"])
def test_at_the_ridge_it_counts_as_compute(expect, hardware, ridge):
    """Both take equally long there, so one more FLOP costs time; the docstring names the side, and tables agree."""
    expect(bound, ridge, hardware).equals("compute")
    expect(bound, ridge * 0.999, hardware).equals("memory")
    expect(bound, ridge * 1.001, hardware).equals("compute")


# ---- attainable


@pytest.mark.kata("level04.roofline.attainable")
@pytest.mark.parametrize(
    "hardware, intensity, right",
    [
        (SMALL, 3, 30.0),
        (SMALL, 50, 100.0),
        (H100, 1, 3.35e12),  # 0.34% of the peak
        (H100, 0.5, 1.675e12),
        (H100, 295, 988.25e12),
        (H100, 1000, 989e12),
        (H200, 200, 960e12),
        (A100, 12.2223, 24.9212697e12),
        (LAPTOP, 2, 33.6e9),
        (LAPTOP, 64, 99.4e9),
        (SLOW, 0.125, 1.0),
        (SLOW, 1, 2.0),
    ],
    ids=lambda x: x.name if isinstance(x, Hardware) else str(x),
)
def test_the_lower_roof_holds(expect, hardware, intensity, right):
    """No kernel gets above it, so a measurement that does is wrong. By hand: intensity · bandwidth, or the peak."""
    expect(attainable, intensity, hardware).equals(right, **EXACT)


@pytest.mark.kata("level04.roofline.attainable")
@pytest.mark.parametrize("intensity", [0.01, 0.25, 1, 5, 6, 9.99, 10.01, 63, 65, 150, 300, 1e4, 1e6], ids=str)
@pytest.mark.parametrize("hardware", [SMALL, TWOS, SLOW, A100, LAPTOP], ids=lambda x: x.name)
def test_flops_over_the_longer_of_two_times(expect, hardware, intensity):
    """Oracle: a kernel that moves 1 GB, its two times in exact fractions; they overlap, so the longer one counts."""
    flops = Fraction(intensity) * 10**9
    right = flops / max(seconds(flops, 10**9, hardware))
    expect(attainable, intensity, hardware).equals(float(right), **EXACT)


@pytest.mark.kata("level04.roofline.attainable")
def test_at_the_ridge_the_whole_peak_is_within_reach(expect):
    """Both roofs meet there: full overlap gives the peak, and not the half of it that one after the other would."""
    expect(attainable, 64, TWOS).equals(4096.0, **EXACT)
    expect(attainable, 32, TWOS).equals(2048.0, **EXACT)
    expect(attainable, 128, TWOS).equals(4096.0, **EXACT)


@pytest.mark.kata("level04.roofline.attainable")
def test_without_flops_the_rate_is_zero_and_below_it_is_refused(expect):
    """A copy has intensity 0. A negative one is a byte count that went wrong, and would pass for a low rate."""
    expect(attainable, 0, H100).equals(0.0)
    expect(attainable, -1, H100).raises(ValueError)
    expect(attainable, -0.001, SMALL).raises(ValueError)


# ---- matmul_intensity


def counted(m, n, k, dtype):
    """Oracle: torch's FLOP counter around the product, over the bytes of its three matrices."""
    left, right = torch.ones(m, k, dtype=dtype), torch.ones(k, n, dtype=dtype)
    with FlopCounterMode(display=False) as counter:
        product = left @ right
    return counter.get_total_flops() / (left.nbytes + right.nbytes + product.nbytes)


@pytest.mark.kata("level04.roofline.matmul_intensity")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "m, n, k", [(4, 4, 4), (1, 96, 64), (1, 1, 1), (5, 7, 3), (3, 1, 200), (200, 1, 3), (64, 48, 1)], ids=str
)
def test_intensity_is_what_torch_counts_over_what_it_holds(expect, m, n, k, dtype):
    """Oracle: FlopCounterMode and nbytes. A decode step is m = 1; an outer product is k = 1, and hardly any work."""
    expect(matmul_intensity, m, n, k, dtype.itemsize).equals(counted(m, n, k, dtype), **EXACT)


@pytest.mark.kata("level04.roofline.matmul_intensity")
@pytest.mark.parametrize(
    "m, n, k, width, right",
    [
        (4, 4, 4, 2, 128 / 96),  # the docstring's example
        (1, 4096, 4096, 2, 4096 / 4098),  # one token: 0.9995
        (256, 4096, 4096, 2, 2048 / 9),  # 227.6: 256 / (1 + 2 · 256 / 4096)
        (256, 4096, 4096, 1, 4096 / 9),  # half the bytes: 455.1
        (4096, 4096, 4096, 2, 4096 / 3),  # 1365.3
        (1, 4096, 4096, 0.5, 4 * 4096 / 4098),  # packed in 4 bits
        (8, 28672, 8192, 0.75, 8 / 0.75 / (0.5 + 4 / 8192 + 4 / 28672)),
        (131072, 131072, 131072, 4, 131072 / 6),  # 4.5e15 FLOPs, and exact
    ],
    ids=["4", "one token", "256 tokens", "8-bit", "square", "4-bit", "6-bit", "large"],
)
def test_known_products(expect, m, n, k, width, right):
    """By hand: 2 m n k FLOPs over width · (m k + k n + m n) bytes. In 16 bits it is about m while m is small, so 256
    tokens nearly reach the ridge of an H100, and one is 300 times below."""
    expect(matmul_intensity, m, n, k, width).equals(right, **EXACT)


@pytest.mark.kata("level04.roofline.matmul_intensity")
@pytest.mark.parametrize("m, n, k", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (-2, 3, 4)], ids=str)
def test_an_empty_matrix_is_refused(expect, m, n, k):
    """Nothing over nothing: a batch that has just become empty. The same with one row has a right value."""
    expect(matmul_intensity, 1, 4, 5, 2).equals(40 / 58, **EXACT)
    expect(matmul_intensity, m, n, k, 2).raises(ValueError)
