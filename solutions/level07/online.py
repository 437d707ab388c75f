"""Softmax in one pass: what is kept while scores arrive block by block, and how two unfinished results become one.

A fully masked row has seen no key: its maximum is -inf, its output 0, its log-sum-exp -inf, and nothing is ever NaN.
Letters in the shapes: Q queries, K keys of this block, D head_dim; "..." is the same everywhere: batch, heads.
"""

import numpy as np
import torch
from torch import Tensor


def online_logsumexp(scores: np.ndarray, block: int) -> tuple[float, float]:
    """Return (largest score, sum of exp(score - largest)), reading the scores once, `block` at a time.

    scores  (n,) float64, n at least 1; -inf entries are masked. If all are: (-inf, 0.0)

    Example: [1, 3, 2, 4] in blocks of 2: 1.135 after the first block, (4, 1.553) at the end, and their log-sum-exp is
    4 + log 1.553 = 4.44. ValueError: block below 1. Online softmax, arXiv 1805.02867.

    ● · about 8 lines
    """
    if block < 1:
        raise ValueError(f"a block holds at least one score, not {block}")
    # solution:begin what happens to the old sum when the maximum moves?
    largest, total = -np.inf, 0.0
    for start in range(0, len(scores), block):
        part = scores[start : start + block]
        new = max(largest, part.max())
        if new > -np.inf:  # subtle: -inf - -inf is NaN, and nothing was seen so far
            total = total * np.exp(largest - new) + np.exp(part - new).sum()
        largest = new
    return float(largest), float(total)
    # solution:end


def online_update(
    m: Tensor, denominator: Tensor, acc: Tensor, scores: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (m, denominator, acc) after one more block of keys.

    m            (..., Q) the largest score so far; -inf at the start, and as long as a row has seen no key
    denominator  (..., Q) the sum of exp(score - m) so far; 0 at the start
    acc          (..., Q, D) the sum of exp(score - m) · value so far; zeros at the start
    scores       (..., Q, K), scaled, with -inf where a query may not attend
    values       (..., K, D), all finite

    Nothing is divided yet: `finalize` does that once, at the end. The arguments are not changed.
    Example: scores [1, 3] with values 2 and 4 from the start: m = 3, denominator 1.135, acc 2 · 0.135 + 4 = 4.271.
    FlashAttention, arXiv 2205.14135.

    ●● · about 5 lines
    """
    # solution:begin the new maximum; what the old sums are in units of it; what the block adds
    new = torch.maximum(m, scores.amax(-1))
    base = new.masked_fill(new == -torch.inf, 0)  # subtle: -inf - -inf is NaN; exp(-inf - 0) is 0
    shrink, weights = torch.exp(m - base), torch.exp(scores - base[..., None])
    return new, denominator * shrink + weights.sum(-1), acc * shrink[..., None] + weights @ values
    # solution:end


def finalize(m: Tensor, denominator: Tensor, acc: Tensor) -> tuple[Tensor, Tensor]:
    """Return (out (..., Q, D), lse (..., Q)): the weighted mean of the values, and the log of the sum of exp(score).

    A row that has seen no key has out 0 and lse -inf.
    Example: m = 2, denominator 4, acc [8] -> out [2], lse 2 + log 4 = 3.386.

    ● · about 3 lines · part of online_update
    """
    # solution:begin divide, where there is something to divide by
    empty = denominator == 0
    out = acc / denominator.masked_fill(empty, 1)[..., None]
    return out, m + denominator.log()  # log 0 is -inf
    # solution:end


def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return (out, lse) of two sets of keys together, from what attention to each of them alone gave.

    out_a, out_b  (..., Q, D);  lse_a, lse_b  (..., Q), natural logarithms, of any size (exp(1000) is infinite)

    A part without keys is (0, -inf) and changes nothing; two of them are one. The order does not matter, nor how many
    parts there were before: splits of a cache, or of a sequence over several devices (level 09).
    Example: out 1 with lse 0, out 5 with lse log 3: weights 1/4 and 3/4, so 4, with lse log 4.

    ●● · about 4 lines
    """
    # solution:begin each part weighs what it has of the sum
    lse = torch.logaddexp(lse_a, lse_b)
    base = lse.masked_fill(lse == -torch.inf, 0)  # both are empty: their weights are 0
    weight_a, weight_b = torch.exp(lse_a - base)[..., None], torch.exp(lse_b - base)[..., None]
    return weight_a * out_a + weight_b * out_b, lse
    # solution:end
