"""Right programs, written another way, for level15.selective. `alternative` is given when this is read."""

from fractions import Fraction
from itertools import accumulate
from math import floor

import torch

ID = "level15.selective.choose_tokens"


def _sorted_by_row(deviations, fraction):
    """Python's sort, a row at a time; the number of tokens from below."""
    if fraction < 0 or fraction > 1:
        raise ValueError("fraction")
    B, S = deviations.shape
    exact = fraction * S
    n = floor(exact) if exact - floor(exact) <= 1e-9 else floor(exact) + 1
    rows = [sorted(sorted(range(S), key=lambda s: -row[s])[:n]) for row in deviations.tolist()]
    return torch.tensor(rows, dtype=torch.int64).view(B, n)


def _counted(deviations, fraction):
    """A token is chosen when fewer than n stand before it: larger ones, and equal ones that come earlier."""
    if not 0 <= fraction <= 1:
        raise ValueError("fraction")
    B, S = deviations.shape
    n = -int(-(Fraction(fraction) * S - Fraction(1, 10**9)) // 1)
    earlier = torch.ones(S, S, dtype=torch.bool).tril(-1)
    larger = deviations[:, None, :] > deviations[:, :, None]
    equal = (deviations[:, None, :] == deviations[:, :, None]) & earlier
    return ((larger | equal).sum(-1) < n).nonzero()[:, 1].view(B, n)


def _norms(mapped_k, mapped_v, k, v):
    off = torch.cat([mapped_k - k, mapped_v - v], 3).transpose(1, 2).flatten(2)
    return torch.einsum("bsx,bsx->bs", off, off)


def _distances(mapped_k, mapped_v, k, v):
    keys, values = (mapped_k - k).pow(2), (mapped_v - v) ** 2
    return keys.sum(-1).sum(1) + values.sum(-1).sum(1)


def _gathered(mapped, exact, chosen):
    at = chosen[:, None, :, None].expand(-1, mapped.shape[1], -1, mapped.shape[3])
    return mapped.scatter(2, at, exact.gather(2, at))


def _row_by_row(mapped, exact, chosen):
    patched = mapped.clone()
    for b in range(chosen.shape[0]):
        patched[b][:, chosen[b]] = exact[b][:, chosen[b]]
    return patched


def _indexed(mapped, exact, chosen):
    patched, rows = mapped.clone(), torch.arange(len(chosen))[:, None]
    patched[rows, :, chosen] = exact[rows, :, chosen]
    return patched


def _running_sums(sensitivity, budget):
    if budget < 1 or budget > len(sensitivity):
        raise ValueError("budget")
    sums = [0, *accumulate(sensitivity)]
    best, first = None, 0
    for start in range(len(sensitivity) - budget + 1):
        weight = sums[start + budget] - sums[start]
        if best is None or weight > best:
            best, first = weight, start
    return first


def _unfolded(sensitivity, budget):
    if budget not in range(1, len(sensitivity) + 1):
        raise ValueError("budget")
    sums = torch.tensor(sensitivity, dtype=torch.float64).unfold(0, budget, 1).sum(1).tolist()
    return sums.index(max(sums))


alternative(ID, "sorted_by_row", program=_sorted_by_row)
alternative(ID, "counted", program=_counted)
alternative(ID, "norms", program=_norms, part="deviation")
alternative(ID, "distances", program=_distances, part="deviation")
alternative(ID, "gathered", program=_gathered, part="patch_tokens")
alternative(ID, "row_by_row", program=_row_by_row, part="patch_tokens")
alternative(ID, "indexed", program=_indexed, part="patch_tokens")
alternative(ID, "running_sums", program=_running_sums, part="contiguous_layers")
alternative(ID, "unfolded", program=_unfolded, part="contiguous_layers")
