"""What a step of many sequences costs, from which batch on the arithmetic decides, and where a measured curve bends."""

from collections.abc import Sequence
from math import ceil, inf

import numpy as np

from dojo.models import Config
from level00.accounting import flops_per_token
from level02.cache import kv_bytes_per_token
from level04.ceiling import decode_step_cost
from level04.roofline import Hardware


def ragged_step_cost(
    config: Config, context_lens: Sequence[int], bytes_per_param: float = 2, bytes_per_element: float = 2
) -> dict[str, float]:
    """Return {"flops", "bytes"} of one decode step: one new token for each sequence, whatever their lengths.

    context_lens       tokens that each sequence attends to, its new one included
    bytes_per_param    of the weights; bytes_per_element likewise of the cache

    Weights and cache are counted as in level 04's decode_step_cost, which has one length for all sequences. Activations
    are left out. Example: SmolLM2-135M in 2 bytes, contexts 100 and 300: 269,030,016 + 400 · 23,040 bytes.
    ValueError: no sequences, a context below 1.

    ●● · about 4 lines
    """
    if not context_lens or min(context_lens) < 1:
        raise ValueError(f"a step needs at least one sequence, each of at least 1 token, not {list(context_lens)}")
    # solution:begin what does a second sequence share with the first, and what does it bring along?
    weights = decode_step_cost(config, 1, 1, bytes_per_param, bytes_per_element)["weight_bytes"]
    flops = sum(flops_per_token(config, context)["total"] for context in context_lens)
    return {"flops": flops, "bytes": weights + sum(context_lens) * kv_bytes_per_token(config, bytes_per_element)}
    # solution:end


def flip_batch(
    config: Config, context_len: int, hardware: Hardware, bytes_per_param: float = 2, bytes_per_element: float = 2
) -> int | None:
    """Return the smallest batch whose decode step computes at least as long as it reads; None when there is none.

    All sequences attend to context_len tokens. Costs as in level 04's decode_step_cost: unlike critical_batch, with the
    cache and the arithmetic of attention. Each further sequence adds reading as well as arithmetic; where it adds more
    of the former, no batch is large enough.
    Example: Llama-3-8B in bfloat16 on an H100: 296 at context 1, 601 at context 200, None at 1000.

    ●● · about 5 lines
    """
    # solution:begin two straight lines over the batch: where do they cross, if they do?
    one = decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element)
    gained = one["flops"] / hardware.peak_flops - one["kv_bytes"] / hardware.bandwidth  # seconds per sequence
    if gained <= 0:
        return None
    return max(1, ceil(one["weight_bytes"] / hardware.bandwidth / gained))
    # solution:end


def fit_step_time(batches: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return (fixed seconds, seconds per sequence) of the straight line through measured steps, by least squares.

    Example: batches 1, 2, 4 in 3, 4, 6 seconds -> (2, 1). Batches 1, 2, 3 in 1, 2, 2 seconds -> (0.6667, 0.5).
    ValueError: not as many seconds as batches, fewer than two different batches.

    ●● · about 4 lines
    """
    if len(batches) != len(seconds) or len(set(batches)) < 2:
        raise ValueError("a line needs a time for each batch, and at least two different batches")
    # solution:begin the slope from the deviations of both, then the intercept
    x, y = np.asarray(batches, float), np.asarray(seconds, float)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    return float(y.mean() - slope * x.mean()), float(slope)
    # solution:end


def measured_flip(fixed: float, per_sequence: float) -> float:
    """Return the batch at which all sequences together take as long as the fixed part; inf where one costs no time.

    A fitted cost of one may come out below 0, which counts as none. Throughput is half of what it can become there.
    Example: 2 s fixed, 0.5 s per sequence -> 4.

    ● · about 1 line · part of fit_step_time
    """
    # solution:begin how many sequences make up one fixed part?
    return fixed / per_sequence if per_sequence > 0 else inf
    # solution:end
