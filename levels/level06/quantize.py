"""Weights and caches in fewer bits: integers times a scale, and who shares a scale.

Rounding is to the nearest integer, a tie to the even one (torch.round). All arithmetic is in float32 or better, unless
a function says in what.
"""

import torch
from torch import Tensor


def quantize_int8(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return (q (out, in) int8, scale (out, 1)) with w close to q · scale: symmetric, one scale for each output row.

    w  (out, in) float; scale has its dtype. The largest magnitude of a row becomes ±127; a row of zeros has scale 1.

    Example: [4, -8.4, 2, 16] -> [32, -67, 16, 127] with scale 16 / 127 = 0.126. ValueError: w is not 2-D.

    ●● · about 4 lines
    """
    if w.dim() != 2:
        raise ValueError(f"a weight is (out, in), not {tuple(w.shape)}")
    # TODO: the scale of each row; a row of zeros; round
    raise NotImplementedError("level06.quantize.quantize_int8")


def int8_linear(x: Tensor, q: Tensor, scale: Tensor) -> Tensor:
    """Return x @ (q · scale)ᵀ, (..., out) in x's dtype, without multiplying any weight by its scale.

    x  (..., in) float; q (out, in) int8 and scale (out, 1), of any float dtype, as from `quantize_int8`

    Weight-only: x stays as it is, the product runs in its dtype, and the scale is applied to what comes out of it (in
    float16 a sum of codes beyond 65504 is infinite before that).
    Example: x = [1, 1], q = [[32, -67]], scale = [[0.5]] -> [-17.5].

    ● · about 1 line · part of quantize_int8
    """
    # TODO: what is common to all terms of a sum can leave it
    raise NotImplementedError("level06.quantize.quantize_int8")


def pack_int4(q: Tensor) -> Tensor:
    """Return two values per byte, (out, in / 2) uint8: the even column in the low four bits, the odd one in the high.

    q  (out, in) of any integer dtype, in 0..15. Example: [1, 2, 15, 0] -> [33, 15].
    ValueError: an odd number of columns, a value outside 0..15.

    ● · about 2 lines
    """
    if q.shape[-1] % 2:
        raise ValueError(f"two values share a byte, so the number of columns is even, not {q.shape[-1]}")
    if q.min() < 0 or q.max() > 15:
        raise ValueError("four bits hold 0..15: shift the values there first")
    # TODO: every other column, the odd ones moved up
    raise NotImplementedError("level06.quantize.pack_int4")


def unpack_int4(packed: Tensor) -> Tensor:
    """Return the values of `pack_int4`, (out, in) uint8. Example: [33, 15] -> [1, 2, 15, 0].

    ● · about 1 line · part of pack_int4
    """
    # TODO: low and high of each byte, side by side again
    raise NotImplementedError("level06.quantize.pack_int4")


def quantize_int4(w: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (packed (out, in / 2) uint8, scale, low), the last two (out, in / group): w is close to q · scale + low.

    w  (out, in) float; scale and low have its dtype

    Asymmetric, q in 0..15: each `group` neighbours of a row share a scale and their least value, low. Their largest
    becomes 15. A group in which all are equal has scale 1 (and q = 0).
    Example: [-15, 0.5, 5.6, 15] as one group: scale 2, low -15, q = 0, 8, 10, 15.
    ValueError: w is not 2-D, the row is not a multiple of the group, or of two codes for each byte.

    ●● · about 6 lines · needs level06.quantize.pack_int4
    """
    if w.dim() != 2 or group < 1 or w.shape[1] % group:
        raise ValueError(f"the groups of {group} must fill the rows of a weight (out, in), not {tuple(w.shape)}")
    # TODO: each group: its least value, and how many steps lie between 16 codes
    raise NotImplementedError("level06.quantize.quantize_int4")


def dequantize_int4(packed: Tensor, scale: Tensor, low: Tensor) -> Tensor:
    """Return q · scale + low, (out, in), in the dtype of scale: the weights that `quantize_int4` leaves.

    Example: codes 0, 8, 10, 15 with scale 2 and low -15 -> [-15, 1, 5, 15].

    ● · about 2 lines · part of quantize_int4
    """
    # TODO: each code with its group's two numbers
    raise NotImplementedError("level06.quantize.quantize_int4")


def bits_per_weight(bits: float, group: int, metadata_bits: float) -> float:
    """Return the bits that a weight takes, its share of what its group stores beside the codes included.

    Example: 4 bits in groups of 32, with a scale and a low of 16 bits each: 5.

    ● · about 1 line · part of quantize_int4
    """
    # TODO: metadata is shared by the group
    raise NotImplementedError("level06.quantize.quantize_int4")


def fake_quantize(x: Tensor, bits: int, dim: int) -> Tensor:
    """Return x after a round trip through `bits`-bit integers: symmetric, all entries along `dim` share a scale.

    x  (...) float; the result has its shape and dtype; dim counts from either end

    The largest magnitude of a slice becomes 2^(bits - 1) - 1. For keys (.., tokens, head_dim) KIVI shares a scale
    along the tokens (dim -2: one for each channel), for values along the channels (dim -1: one for each token). Slices
    of zeros stay zeros.
    Example: [[1.2, 100], [2, -40]], 8 bits, dim 0 -> [[1.197, 100], [2, -40.16]]. ValueError: bits below 2.
    KIVI, arXiv 2402.02750.

    ●● · about 4 lines
    """
    if bits < 2:
        raise ValueError(f"a sign and a magnitude take at least 2 bits, not {bits}")
    # TODO: a scale for each slice along dim
    raise NotImplementedError("level06.quantize.fake_quantize")
