"""Products that read a quantized weight as it is stored: PyTorch's own CPU kernels for 8 and for 4 bits. Given.

What `Int8Weight` and `Int4Weight` do in several steps, each with a float copy of the matrix, these do in one: a code is
made a number in a register. They compute in bfloat16. The operators' names begin with "_": PyTorch may move them, so
ask `available()` first.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from .quantize import unpack_int4
from .weights import Int4Weight, Int8Weight

INT8 = "_weight_int8pack_mm"
PACK4, INT4 = "_convert_weight_to_int4pack_for_cpu", "_weight_int4pack_mm_for_cpu"
INNER = 1  # k-tiles that the packing of int4 interleaves: a layout of the kernel's


def available() -> bool:
    """Does this PyTorch have the three operators?"""
    return all(hasattr(torch.ops.aten, name) for name in (INT8, PACK4, INT4))


def flat(kernel: Callable, x: Tensor) -> Tensor:
    """kernel takes (tokens, in) in bfloat16; x is (..., in) of any dtype, and so is the result."""
    return kernel(x.reshape(-1, x.shape[-1]).bfloat16()).to(x.dtype).unflatten(0, x.shape[:-1])


class Int8Kernel(Int8Weight):
    """The codes of `quantize_int8`, 8 bits and a scale in bfloat16 for each row."""

    def __init__(self, w: Tensor):
        super().__init__(w)
        self.scale = self.scale.squeeze(1).bfloat16()
        self.nbytes = self.q.nbytes + self.scale.nbytes

    def linear(self, x: Tensor) -> Tensor:
        return flat(lambda rows: getattr(torch.ops.aten, INT8)(rows, self.q, self.scale), x)


class Int4Kernel(Int4Weight):
    """The codes of `quantize_int4`, 4 bits, a scale and a zero in bfloat16 for each group of 32, 64, 128 or 256.

    The kernel's w is (code - 8) · scale + zero, so its zero is low + 8 · scale.
    """

    def __init__(self, w: Tensor, group: int):
        super().__init__(w, group)
        codes = unpack_int4(self.packed).to(torch.int32)
        self.group, self.packed = group, getattr(torch.ops.aten, PACK4)(codes, INNER)
        both = torch.stack([self.scale, self.low + 8 * self.scale], -1)  # (out, in / group, 2)
        self.scales_and_zeros = both.transpose(0, 1).contiguous().bfloat16()
        self.nbytes = self.packed.nbytes + self.scales_and_zeros.nbytes
        del self.scale, self.low

    def linear(self, x: Tensor) -> Tensor:
        kernel = getattr(torch.ops.aten, INT4)
        return flat(lambda rows: kernel(rows, self.packed, self.group, self.scales_and_zeros), x)
