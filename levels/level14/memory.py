"""The bill of a tuning: scales that have scales of their own, and the bytes that training holds beside the weights."""

import torch
from torch import Tensor


def dynamic_map() -> Tensor:
    """The 256 values of an 8-bit code in bitsandbytes, (256,) float32, ascending from -0.993 to 1. Given.

    Seven decades, each with twice as many values as the one below it, on either side of 0: arXiv 1511.04561.
    """
    values = [0.0, 1.0]
    for i in range(7):
        edges = torch.linspace(0.1, 1, 2**i + 1)
        middles = (10.0 ** (i - 6) * ((edges[:-1] + edges[1:]) / 2)).tolist()
        values += [sign * middle for middle in middles for sign in (1, -1)]
    return torch.tensor(sorted(values))


def double_quantize(absmax: Tensor, block: int = 256) -> tuple[Tensor, Tensor, Tensor]:
    """Return (codes (n,) uint8, scale (ceil(n / block),) float32, mean () float32): the scales of NF4, in 8 bits.

    absmax  (n,) float32, n at least 1: the scales of `quantize_nf4`

    Their mean is taken off, since scales are positive and codes are not. What is left is quantized in blocks of `block`
    neighbours, of which the last may be shorter: divided by its block's largest magnitude, it gets the number of the
    nearest value of `dynamic_map`, halfway between two the lower one. A block of zeros has scale 0 and the code of 0.
    Example: 3, 1, 2 -> mean 2, scale [1], codes of the values 1, -0.993 and 0: 255, 0, 127.
    ValueError: absmax not (n,), or empty; block below 1. arXiv 2305.14314, section 3, as bitsandbytes does it.

    ●● · about 7 lines
    """
    if absmax.dim() != 1 or not len(absmax) or block < 1:
        raise ValueError(f"absmax is (n,) with n at least 1, in blocks of at least 1, not {tuple(absmax.shape)}")
    # TODO: centre; a scale for each block, the short one as well; the nearest value
    raise NotImplementedError("level14.memory.double_quantize")


def double_dequantize(codes: Tensor, scale: Tensor, mean: Tensor, block: int = 256) -> Tensor:
    """Return the scales (n,) float32 that double_quantize has stored, up to its error.

    Example: codes 255, 0, 127, scale [1], mean 2 -> 3, 1.007, 2.

    ● · about 1 line · part of double_quantize
    """
    # TODO: value, scale, mean
    raise NotImplementedError("level14.memory.double_quantize")


def nf4_bits_per_weight(block: int = 64, second_block: int | None = None) -> float:
    """Return the bits that a weight takes: a code of 4, and its share of its block's scale.

    second_block  None: a scale is a float32. Else it is an 8-bit code, and second_block of them share a float32; the
                  one mean of the whole matrix is left out

    Example: blocks of 64: 4.5; with second_block 256: 4.127.

    ● · about 2 lines · part of double_quantize
    """
    # TODO: whose share of what?
    raise NotImplementedError("level14.memory.double_quantize")


def training_bytes(
    num_params: float, num_trainable: float, weight_bytes: float = 2, grad_bytes: float = 2, optim_bytes: float = 12
) -> float:
    """Return the bytes that weights, gradients and optimizer hold; activations come on top.

    weight_bytes  of each of num_params, trainable or not; grad_bytes and optim_bytes of each trainable one. 12 is
                  AdamW's: two float32 moments, and a float32 copy of a bfloat16 weight

    Example: 100 parameters, 10 of them trainable: 200 + 140 = 340. Mixed precision: arXiv 1710.03740.

    ● · about 1 line · part of double_quantize
    """
    # TODO: what does a frozen weight need?
    raise NotImplementedError("level14.memory.double_quantize")
