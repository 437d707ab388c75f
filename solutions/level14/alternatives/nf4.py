"""Right programs, written another way, for level14.nf4. `alternative` is given when this is read."""

import torch

LEVELS, QUANTIZE = "level14.nf4.nf4_levels", "level14.nf4.quantize_nf4"


def _as_bitsandbytes(offset=0.9677083):
    """create_normal_map, with torch's quantiles, sorted at the end."""
    if not 0.5 < offset < 1:
        raise ValueError("0.5 < offset < 1")
    above = torch.special.ndtri(torch.linspace(offset, 0.5, 9, dtype=torch.float64)[:-1])
    below = -torch.special.ndtri(torch.linspace(offset, 0.5, 8, dtype=torch.float64)[:-1])
    values = torch.cat([above, torch.zeros(1, dtype=torch.float64), below]).sort().values
    return (values / values.max()).float()


def _bisected(offset=0.9677083):
    """Quantiles by bisection of the error function."""
    from math import erf, sqrt

    if not 0.5 < offset < 1:
        raise ValueError("0.5 < offset < 1")

    def quantile(p):
        low, high = -10.0, 10.0
        for _ in range(70):
            middle = (low + high) / 2
            low, high = (middle, high) if (1 + erf(middle / sqrt(2))) / 2 < p else (low, middle)
        return low

    largest = quantile(offset)
    below = [-quantile(offset - (offset - 0.5) * i / 7) / largest for i in range(7)]
    above = [quantile(offset - (offset - 0.5) * i / 8) / largest for i in range(7, -1, -1)]
    return torch.tensor([*below, 0.0, *above], dtype=torch.float32)


def _table_of_distances(w, block=64):
    from level14.nf4 import nf4_levels

    if block < 1 or w.numel() % block:
        raise ValueError("blocks are full")
    blocks = w.flatten().float().view(-1, block)
    absmax, _ = blocks.abs().max(1)
    unit = torch.nan_to_num(blocks / absmax[:, None], nan=0.0)
    codes = (unit[..., None] - nf4_levels()).abs().argmin(-1)  # of two that are equally near the first is the lower one
    return codes.byte().reshape(w.shape), absmax


def _block_by_block(w, block=64):
    from level14.nf4 import nf4_levels

    if block < 1 or w.numel() % block:
        raise ValueError("blocks are full")
    levels = nf4_levels().double()
    codes, scales = [], []
    for part in w.flatten().to(torch.float32).split(block):
        scales.append(part.abs().max())
        unit = (part / scales[-1] if scales[-1] > 0 else part).double()
        codes.append((unit[:, None] > (levels[1:] + levels[:-1]) / 2).sum(1))
    return torch.cat(codes).to(torch.uint8).view(*w.shape), torch.stack(scales)


def _looked_up_one_by_one(codes, absmax):
    from level14.nf4 import nf4_levels

    if not len(absmax) or codes.numel() % len(absmax):
        raise ValueError("blocks are full")
    size = codes.numel() // len(absmax)
    return nf4_levels()[codes.reshape(-1).int()].mul(absmax.repeat_interleave(size)).reshape(codes.shape)


def _outer_product(codes, absmax):
    """All 16 weights that a block can have, and of these the ones that it has."""
    from level14.nf4 import nf4_levels

    if not len(absmax) or codes.numel() % len(absmax):
        raise ValueError("blocks are full")
    tables = torch.outer(absmax, nf4_levels())
    return tables.gather(1, codes.reshape(len(absmax), -1).long()).reshape(codes.shape)


alternative(LEVELS, "as_bitsandbytes", program=_as_bitsandbytes)
alternative(LEVELS, "bisected", program=_bisected)
alternative(QUANTIZE, "table_of_distances", program=_table_of_distances)
alternative(QUANTIZE, "block_by_block", program=_block_by_block)
alternative(QUANTIZE, "looked_up_one_by_one", program=_looked_up_one_by_one, part="dequantize_nf4")
alternative(QUANTIZE, "outer_product", program=_outer_product, part="dequantize_nf4")
