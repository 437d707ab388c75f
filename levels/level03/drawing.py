"""From a distribution to a token, and back to what the token's probability was.

The last axis is the vocabulary, V entries; leading axes are rows. Random numbers are arguments: whoever calls decides
where they come from, and the same numbers give the same tokens.
"""

import torch
from torch import Tensor


def inverse_cdf(probs: Tensor, u: Tensor) -> Tensor:
    """Return the token of each row in whose part of [0, 1) the number u falls: the first i with p_0 + … + p_i > u.

    probs  (..., V) float, 0 or more; a row is normalized here if its sum is not quite 1
    u      (...) float in [0, 1), one for each row; the result is (...) int64

    Each token is chosen for a stretch of u as long as its probability. A token of probability 0 is never chosen,
    whatever the rounding; sums are taken in float64.
    Example: probabilities .1, .2, .3, .4: u = 0.05 -> 0, u = 0.35 -> 2; probabilities 0, 1: u = 0 -> 1.
    ValueError: u outside [0, 1).

    ●● · about 4 lines
    """
    if u.numel() and (u.min() < 0 or u.max() >= 1):
        raise ValueError(f"u lies in [0, 1), as torch.rand makes it, not in [{u.min()}, {u.max()}]")
    # TODO: a running sum, scaled to its own end; how many entries does u leave behind?
    raise NotImplementedError("level03.drawing.inverse_cdf")


def sample(logits: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return one token for each row, drawn from softmax(logits).

    logits     (..., V) float, -inf for what may not be drawn; the result is (...) int64
    generator  where the random numbers come from, one for each row; None is torch's global one

    The softmax is computed in float32 or better.
    Example: [-inf, 3, -inf] -> 1. ValueError: a row in which everything is at -inf.

    ● · about 2 lines · part of inverse_cdf
    """
    if (logits == -torch.inf).all(-1).any():
        raise ValueError("every token of a row is excluded, so there is nothing to draw: loosen what excludes them")
    # TODO: one number for each row
    raise NotImplementedError("level03.drawing.inverse_cdf")


def gumbel_max(logits: Tensor, u: Tensor) -> Tensor:
    """Return argmax(logits - ln(-ln u)) of each row: for uniform u it is distributed as softmax(logits).

    logits  (..., V) float, -inf for what may not be chosen; the result is (...) int64
    u       (..., V) float in [0, 1), one for each entry

    No sum over the vocabulary is needed, so parts of it can live on different devices. A u of 0 is a very small number
    here, and a token at -inf is never chosen. Computed in float64.
    Example: logits [1, 0, 2], u = [0.5, 0.9, 0.2]: 1.367, 2.250 and 1.524 -> 1.
    ValueError: logits and u of different shapes. Gumbel-max: Maddison et al., arXiv 1411.0030.

    ●● · about 2 lines
    """
    if logits.shape != u.shape:
        raise ValueError(f"each logit needs a random number: {tuple(logits.shape)} logits, {tuple(u.shape)} numbers")
    # TODO: two logarithms; what becomes of u = 0?
    raise NotImplementedError("level03.drawing.gumbel_max")


def token_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Return ln of the probability that the logits give to each of `ids`, (n,) float32.

    logits  (n, V) float; raw ones give the *model's* log-probabilities, which can be compared between settings of a
            sampler; processed ones give the sampler's
    ids     (n,) int

    Natural logarithm, computed in float32 or better. Finite wherever the difference of the logits is: a probability
    may be too small for a float. Example: [[1, 2], [0, 0]], ids [1, 0] -> [-0.3133, -0.6931].
    ValueError: ids not one for each row.

    ● · about 2 lines
    """
    if ids.shape != logits.shape[:-1]:
        raise ValueError(f"one id for each row: {tuple(ids.shape)} ids for logits {tuple(logits.shape)}")
    # TODO: log(softmax) in one step, then one entry of each row
    raise NotImplementedError("level03.drawing.token_logprobs")
