"""A cache that is nearly right: which part of it is worth making again?

Letters in the shapes: B batch, G KV heads, S tokens, D head_dim.
"""

from collections.abc import Sequence
from math import ceil

import torch
from torch import Tensor


def deviation(mapped_k: Tensor, mapped_v: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return how far each token is off: squared differences, of keys and values, summed over heads and features.

    All four (B, G, S, D) float; the result is (B, S).
    Example: one head, D = 1, keys off by [1, 0], values by [0, -2] -> [1, 4].

    ● · about 2 lines · part of choose_tokens
    """
    # TODO: which axes go?
    raise NotImplementedError("level15.selective.choose_tokens")


def choose_tokens(deviations: Tensor, fraction: float) -> Tensor:
    """Return the positions of the tokens that are furthest off, in ascending order.

    deviations  (B, S) float
    fraction    0 .. 1 of the S tokens, rounded up to a whole number n (a product within 1e-9 above one is that one)

    The result is (B, n) int64. Among equals the earlier token is chosen.
    Example: [1, 9, 4, 2], fraction 0.3: 1.2 is rounded up to 2 -> [1, 2].
    ValueError: fraction outside 0 .. 1. CacheBlend, arXiv 2405.16444 (for another reason: text that was moved).

    ●● · about 3 lines
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"a fraction lies in 0..1, not {fraction}")
    # TODO: how many, which ones, in which order?
    raise NotImplementedError("level15.selective.choose_tokens")


def patch_tokens(mapped: Tensor, exact: Tensor, chosen: Tensor) -> Tensor:
    """Return a copy of `mapped` in which the chosen tokens of each row are those of `exact`.

    mapped, exact  (B, G, S, D) float; mapped stays as it is
    chosen         (B, n) int64, positions in 0 .. S - 1, from choose_tokens; n may be 0

    ● · about 3 lines · part of choose_tokens
    """
    # TODO: rows differ in what they choose
    raise NotImplementedError("level15.selective.choose_tokens")


def contiguous_layers(sensitivity: Sequence[float], budget: int) -> int:
    """Return the first of the `budget` consecutive layers whose sensitivities have the largest sum.

    Equal sums: the earliest. A block in one piece needs the sender's activations only where it begins.
    Example: [1, 6, 1, 4, 4, 1], budget 2 -> 3, since 4 + 4 beats 6 + 1.
    ValueError: budget outside 1 .. the number of layers. DroidSpeak, arXiv 2411.02820.

    ● · about 2 lines · part of choose_tokens
    """
    if not 1 <= budget <= len(sensitivity):
        raise ValueError(f"a block has 1..{len(sensitivity)} layers, not {budget}")
    # TODO: of all blocks the heaviest; max takes the first of equals
    raise NotImplementedError("level15.selective.choose_tokens")
