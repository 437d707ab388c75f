"""The chain from raw logits to one token for each request of a batch."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from level01.generate import Choose

from .drawing import inverse_cdf
from .sampling import apply_penalties, apply_temperature, min_p, top_k, top_p


@dataclass(frozen=True)
class SamplingParams:
    """How one request wants its tokens chosen, with the names that serving APIs use. The defaults change nothing."""

    temperature: float = 1.0  # 0 is greedy
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None  # None: another text each time
    max_tokens: int = 128  # new tokens
    stop: tuple[str, ...] = ()


def uniform(seed: int | None, step: int) -> float:
    """The random number of a request's step-th token, in [0, 1). The same seed and step give the same number.

    It is computed from the two and from nothing else (Philox, a counter-based generator), so a request gets the same
    text alone and in any batch, and after it has been interrupted and taken up again.
    """
    if seed is None:
        return secrets.randbits(53) / 2**53
    return np.random.Generator(np.random.Philox(key=seed % 2**64, counter=step)).random()


def process(
    logits: Tensor,
    params: SamplingParams,
    prompt_ids: Sequence[Sequence[int]],
    output_ids: Sequence[Sequence[int]],
) -> Tensor:
    """Return the logits after penalties, temperature, top-k, top-p and min-p, in this order, as `params` asks for them.

    logits                  (B, V) float, raw; the result has its shape and dtype
    prompt_ids, output_ids  the tokens of each row so far

    Each step sees what the one before has left: after top-k the probabilities that top-p adds up are those of the k
    tokens, and they sum to 1. Other engines have other orders: llama.cpp applies the temperature last, vLLM cuts with
    min-p before top-k and top-p.
    Example: logits ln [.4, .3, .2, .1], top_k = 2, top_p = 0.5: .4 and .3 become .571 and .429, the first is kept.

    ●● · about 6 lines · needs level03.sampling.apply_temperature, level03.sampling.top_k,
    level03.sampling.top_p, level03.sampling.min_p, level03.sampling.apply_penalties
    """
    # TODO: in the stated order
    raise NotImplementedError("level03.sampler.process")


def choose_tokens(
    logits: Tensor,
    prompt_ids: Sequence[Sequence[int]],
    output_ids: Sequence[Sequence[int]],
    params: Sequence[SamplingParams],
) -> Tensor:
    """Return the next token of each request, (B,) int64.

    logits                  (B, V) float, raw
    prompt_ids, output_ids  the tokens of each request so far
    params                  one for each request

    A request's logits are processed as *its* params ask, and its token is the `inverse_cdf` of their softmax (in
    float32 or better) at `uniform(seed, number of its output tokens)`. So it does not depend on the other rows.
    Example: params with temperature 0 and logits [[1, 3, 2]] -> [1], whatever the seed.
    ValueError: not as many params as rows.

    ●● · about 6 lines · needs level03.sampler.process, level03.drawing.inverse_cdf
    """
    if len(params) != len(logits):
        raise ValueError(f"{len(logits)} rows of logits need as many SamplingParams, not {len(params)}")
    # TODO: each row with its own params, and with its own random number
    raise NotImplementedError("level03.sampler.choose_tokens")


def chooser(*params: SamplingParams) -> Choose:
    """`choose_tokens` as level 01's and level 02's loops call it: choose(logits, prompt_ids, output_ids)."""
    return partial(choose_tokens, params=params)
