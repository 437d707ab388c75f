"""NF4: 16 levels where a normal distribution has its weights, times the largest magnitude of a block.

QLoRA, arXiv 2305.14314, and bitsandbytes: the codes are those of bitsandbytes' `quantize_4bit`.
"""

from statistics import NormalDist

import torch
from torch import Tensor

OFFSET = 0.9677083  # the outermost probability: 1 - (1/30 + 1/32) / 2 was meant, and this is what bitsandbytes has


def nf4_levels(offset: float = OFFSET) -> Tensor:
    """Return the 16 levels of NF4, (16,) float32, ascending from -1 to 1, with an exact 0 as number 7.

    The 8 above 0 are the quantiles of the standard normal distribution at the first 8 of 9 evenly spaced probabilities
    from offset down to 1/2; the 7 below 0 are minus those at the first 7 of 8. All are divided by the largest, so that
    both ends are ±1: it is not symmetric. Computed in float64.
    Example: with offset 0.9677083, level 8 is 0.0796, level 6 is -0.0911, and level 14 is 0.7230.
    ValueError: offset outside (1/2, 1).

    ●● · about 6 lines
    """
    if not 0.5 < offset < 1:
        raise ValueError(f"offset is the largest probability that has a level, 0.5 < offset < 1, not {offset}")
    # solution:begin quantiles of two halves, the half with one more, and 0 between them
    quantile = NormalDist().inv_cdf

    def half(n: int) -> list[float]:
        return [quantile(offset + (0.5 - offset) * i / n) for i in range(n)]

    levels = [-z for z in half(7)] + [0.0] + half(8)[::-1]
    return torch.tensor([z / levels[-1] for z in levels])
    # solution:end


def quantize_nf4(w: Tensor, block: int = 64) -> tuple[Tensor, Tensor]:
    """Return (codes uint8 in w's shape, 0..15; absmax (w.numel() / block,) float32): w is near level · absmax.

    w  float, of any shape: a block is `block` neighbours of w.flatten()

    Each block is divided by its largest magnitude, in float32, and each entry gets the nearest level; halfway between
    two the lower one. A block of zeros has absmax 0 and code 7.
    Example: 0, 2, -2, 1 repeated: codes 7, 15, 0, 12, and absmax 2 (1/2 lies between 0.4407 and 0.5626).
    ValueError: block below 1, or entries that do not fill the blocks.

    ●● · about 5 lines · needs level14.nf4.nf4_levels
    """
    if block < 1 or w.numel() % block:
        raise ValueError(f"{w.numel()} weights do not fill blocks of {block}: choose a block that divides them")
    # solution:begin one scale for each block; between which two levels does the choice change?
    blocks = w.float().reshape(-1, block)
    absmax = blocks.abs().amax(1)
    unit = blocks / torch.where(absmax == 0, 1, absmax).unsqueeze(1)
    levels = nf4_levels().to(w.device)
    borders = (levels[:-1] + levels[1:]) / 2
    # nearest by value, and 15 comparisons with no (n, 16) table of distances
    return torch.bucketize(unit, borders).to(torch.uint8).view(w.shape), absmax
    # solution:end


def dequantize_nf4(codes: Tensor, absmax: Tensor) -> Tensor:
    """Return the weights that codes and absmax of `quantize_nf4` stand for, float32, in the shape of codes.

    Example: codes 7, 15, 0, 12 repeated, absmax 2 -> 0, 2, -2, 0.8814. The block is what the two sizes make it.
    ValueError: codes that do not fill the blocks of absmax.

    ● · about 2 lines · part of quantize_nf4
    """
    if not absmax.numel() or codes.numel() % absmax.numel():
        raise ValueError(f"{codes.numel()} codes do not fill {absmax.numel()} blocks")
    # solution:begin look up, scale
    blocks = nf4_levels().to(codes.device)[codes.long()].reshape(len(absmax), -1)
    return (blocks * absmax.unsqueeze(1)).view(codes.shape)
    # solution:end
