"""What a decode step costs, how fast it can be at most, and how much of that was reached."""

from math import ceil

from dojo.models import Config
from level00.accounting import count_params, flops_per_token
from level02.cache import kv_bytes_per_token

from .roofline import Hardware, ridge_point


def decode_step_cost(
    config: Config, batch: int, context_len: int, bytes_per_param: float = 2, bytes_per_element: float = 2
) -> dict[str, float]:
    """Return {"flops", "weight_bytes", "kv_bytes", "bytes", "intensity"} of one decode step: one new token for each of
    `batch` sequences.

    context_len        tokens that each sequence attends to, its new one included
    bytes_per_param    of the weights, 2 in bfloat16, 0.5 in 4 bits; bytes_per_element likewise of the cache

    flops are those of level 00's flops_per_token, for every sequence. All weights, norms included, are read once for
    all sequences (of an untied embedding only a row each, which is left out here); the keys and values of context_len
    tokens of every sequence move once each. bytes is the sum of both, intensity is flops / bytes. Activations are left
    out.
    Example: SmolLM2-135M, batch 64, context 1024, 2 bytes: 21.7 GFLOP, 0.269 + 1.510 GB, intensity 12.2.
    ValueError: batch or context_len below 1.

    ●● · about 6 lines
    """
    if batch < 1 or context_len < 1:
        raise ValueError(f"a step makes a token for at least 1 sequence of 1 token, not {batch} and {context_len}")
    # TODO: what is read once, and what for each sequence?
    raise NotImplementedError("level04.ceiling.decode_step_cost")


def step_seconds(cost: dict[str, float], hardware: Hardware) -> float:
    """Return the seconds that a step of cost["flops"] and cost["bytes"] takes at least: the two overlap fully.

    Both are above 0, and nothing else in `cost` is needed.
    Example: 100 FLOP/s and 10 bytes/s: 300 FLOPs and 50 bytes -> 5.

    ● · about 1 line · part of decode_ceiling
    """
    # TODO: both at once: when are both done?
    raise NotImplementedError("level04.ceiling.decode_ceiling")


def decode_ceiling(
    config: Config,
    batch: int,
    context_len: int,
    hardware: Hardware,
    bytes_per_param: float = 2,
    bytes_per_element: float = 2,
) -> float:
    """Return the most tokens per second that `batch` sequences can get together, by the cost of one decode step.

    Arguments as in decode_step_cost. The arithmetic runs at hardware.peak_flops, whatever the width of the weights.
    Example: Llama-3-8B at context 1024 on an H100: 221.2 for one sequence, 9085 for 64.

    ●● · about 2 lines · needs level04.ceiling.decode_step_cost
    """
    # TODO: how long is a step, and how many tokens does it make?
    raise NotImplementedError("level04.ceiling.decode_ceiling")


def critical_batch(hardware: Hardware, bytes_per_param: float = 2) -> int:
    """Return the smallest batch at which the arithmetic of the weights takes at least as long as reading them.

    Two FLOPs per weight and sequence, whatever the weight's width; the cache is left out.
    Example: 100 FLOP/s, 10 bytes/s: 2 bytes -> 10, 1 byte -> 5, 0.5 bytes -> 3.

    ●● · about 1 line · needs level04.roofline.ridge_point
    """
    # TODO: a weight: how long to read, how long to use B times?
    raise NotImplementedError("level04.ceiling.critical_batch")


def mfu(tokens_per_second: float, flops_per_token: float, hardware: Hardware) -> float:
    """Return the model FLOPs utilization: the useful FLOP/s over the peak, 1 at the peak.

    tokens_per_second  of all sequences together

    More than 1 comes back as it is: then something is miscounted.
    Example: 10 tokens/s of 4 FLOPs each on a machine of 100 FLOP/s -> 0.4. PaLM, arXiv 2204.02311.

    ● · about 1 line · part of mbu
    """
    # TODO: achieved over possible
    raise NotImplementedError("level04.ceiling.mbu")


def mbu(tokens_per_second: float, batch: int, bytes_per_step: float, hardware: Hardware) -> float:
    """Return the model bandwidth utilization: the bytes that had to move per second over the bandwidth, 1 at the roof.

    tokens_per_second  of all `batch` sequences together; a step makes one token for each
    bytes_per_step     weights once, and the cache of all sequences

    Example: 8 tokens/s at batch 4, 3 bytes a step, 10 bytes/s -> 0.6. More than 1 comes back as it is, as in mfu.
    ValueError: batch below 1.

    ● · about 1 line
    """
    if batch < 1:
        raise ValueError(f"a step makes a token for at least one sequence, not {batch}")
    # TODO: how many steps are that, and what do they move?
    raise NotImplementedError("level04.ceiling.mbu")
