"""Logits processors: each takes logits and returns new ones, in which what may not be chosen stands at -inf.

The last axis is the vocabulary, V entries; leading axes are rows, each on its own. Nothing is changed in place: the raw
logits are still needed for log-probabilities. -inf stays -inf, and a row has at least one finite logit.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf, log

import torch
from torch import Tensor


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Return logits / temperature: below 1 the distribution gets sharper, above 1 flatter.

    logits  (..., V) float; the result has its shape and dtype

    Temperature 0 means greedy: the largest logit becomes 0 and all others -inf; on a tie the smallest id stays.
    Example: [2, 1, 0], temperature 0.5 -> [4, 2, 0]; temperature 0 -> [0, -inf, -inf].
    ValueError: temperature below 0.

    ● · about 3 lines
    """
    if temperature < 0:
        raise ValueError(f"temperature is 0 (greedy) or more, not {temperature}")
    # TODO: what would division make of temperature 0?
    raise NotImplementedError("level03.sampling.apply_temperature")


def top_k(logits: Tensor, k: int) -> Tensor:
    """Return the logits with all but the k largest of each row at -inf.

    logits  (..., V) float; the result has its shape and dtype

    Exactly min(k, V) entries are kept; of equal logits those with the smaller ids.
    Example: [1, 3, 3, 3], k = 2 -> [-inf, 3, 3, -inf].
    ValueError: k below 1. Fan et al., arXiv 1805.04833.

    ●● · about 3 lines
    """
    if k < 1:
        raise ValueError(f"top_k keeps at least one token, so k is 1 or more, not {k}")
    # TODO: which ids are the first k, and how does a stable sort treat a tie?
    raise NotImplementedError("level03.sampling.top_k")


def top_p(logits: Tensor, p: float) -> Tensor:
    """Return the logits with all but each row's nucleus at -inf: the fewest most likely tokens that sum to at least p.

    logits  (..., V) float; the result has its shape and dtype

    The token with which the sum reaches p belongs to the nucleus, the next one does not; so it is never empty. Of
    equally likely tokens those with the smaller ids come first. p = 1 keeps everything. Probabilities are computed
    and summed in float64, and a sum within 1e-12 of p has reached it: an exact hit adds no further token.
    Example: probabilities .5, .3, .15, .05: p = 0.6 keeps two, p = 0.5 one, p = 0.01 one.
    ValueError: p outside (0, 1]. Nucleus sampling, Holtzman et al., arXiv 1904.09751.

    ●● · about 6 lines
    """
    if not 0 < p <= 1:
        raise ValueError(f"top_p is a probability, 0 < p <= 1, not {p}")
    # TODO: sort, sum what stands *before* each token, and put the answer back in the order of the ids
    raise NotImplementedError("level03.sampling.top_p")


def min_p(logits: Tensor, m: float) -> Tensor:
    """Return the logits with every token at -inf that is less likely than m times the most likely one of its row.

    logits  (..., V) float; the result has its shape and dtype

    m = 0 changes nothing; m = 1 keeps the most likely, all of them on a tie.
    Example: probabilities .5, .3, .15, .05, m = 0.2: the threshold is 0.1, three are kept.
    ValueError: m outside [0, 1]. Nguyen et al., arXiv 2407.01082.

    ● · about 2 lines
    """
    if not 0 <= m <= 1:
        raise ValueError(f"min_p is a part of the largest probability, 0 <= m <= 1, not {m}")
    # TODO: a ratio of probabilities is a difference of logits
    raise NotImplementedError("level03.sampling.min_p")


def apply_penalties(
    logits: Tensor,
    prompt_ids: Sequence[Sequence[int]],
    output_ids: Sequence[Sequence[int]],
    repetition_penalty: float = 1.0,
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
) -> Tensor:
    """Return the logits, lowered for tokens that have occurred.

    logits                  (B, V) float; the result has its shape and dtype
    prompt_ids, output_ids  the tokens of each row's prompt, and those made so far

    repetition_penalty r    a token in the prompt *or* the output: a positive logit is divided by r, any other is
                            multiplied by it; once, however often the token has occurred
    presence_penalty        subtracted, once, from every token in the *output*
    frequency_penalty       subtracted for each occurrence in the *output*

    In this order. Presence and frequency may be negative: a reward.
    Example: logits [2, -2, 1], prompt [1], output [0, 0], all else off: r = 2 gives [1, -4, 1]; presence 0.5 and
    frequency 0.25 give [1, -2, 1].
    ValueError: repetition_penalty 0 or below. CTRL, arXiv 1909.05858, with the sign mended; the other two are OpenAI's.

    ●● · about 9 lines
    """
    if repetition_penalty <= 0:
        raise ValueError(f"repetition_penalty divides logits, so it is above 0 (1 = off), not {repetition_penalty}")
    # TODO: row by row: which tokens have been seen, and how often has each been made?
    raise NotImplementedError("level03.sampling.apply_penalties")
