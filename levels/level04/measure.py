"""Measuring one's own machine: bytes per second and FLOPs per second, without measuring its cache or its noise.

The clock is an argument: a function without arguments that returns seconds. With a clock of its own a test is exact.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import torch

Clock = Callable[[], float]
ROW = 1024  # float32 numbers, 4096 bytes


def best_time(function: Callable[[], object], rounds: int = 5, warmup: int = 1, clock: Clock = perf_counter) -> float:
    """Return the seconds of the fastest of `rounds` calls.

    `warmup` calls come first and are not timed: the first one allocates, fills caches and loads code. The clock is read
    right before and right after each timed call, and not otherwise. Noise only ever adds time, so the minimum is the
    nearest to what the machine can do.
    Example: clock readings 0, 9, 10, 13, 20, 22 (three rounds) -> 2.
    ValueError: rounds below 1, warmup below 0.

    ● · about 7 lines
    """
    if rounds < 1 or warmup < 0:
        raise ValueError(f"at least one round is timed, and warm-up is 0 or more: not {rounds} and {warmup}")
    # TODO: warm up, then time each call by itself
    raise NotImplementedError("level04.measure.best_time")


def cache_bytes() -> int | None:
    """Size of this machine's last-level cache, where Linux tells it; None elsewhere."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = path.read_text().strip()
            sizes.append(int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1))
    return max(sizes, default=None)


def probe_bytes(cache: int | None) -> int:
    """Return how many bytes a probe of memory must read so that the cache cannot hold them.

    Four times the last-level cache, at least 64 MiB, rounded up to whole rows of 4096 bytes; 256 MiB where the size of
    the cache is not known (None). Example: cache of 32 MiB -> 134217728.
    ValueError: a cache below 1 byte.

    ● · about 4 lines · part of read_bandwidth
    """
    if cache is not None and cache < 1:
        raise ValueError(f"a cache has at least 1 byte, or None where its size is not known: not {cache}")
    # TODO: four times, at least, rounded up
    raise NotImplementedError("level04.measure.read_bandwidth")


def read_bandwidth(n_bytes: int, rounds: int = 5, clock: Clock = perf_counter) -> float:
    """Return bytes per second of reading a float32 matrix once: a product with a vector, as decode does with weights.

    n_bytes  size of the matrix; it has rows of 1024 numbers, as many as fit whole, and their bytes are what is counted

    The matrix is a torch tensor that is made and filled before the clock runs: memory to which nothing was ever written
    is one page of zeros, and the cache holds that. Each call multiplies all of it.
    One warm-up, then the best of `rounds` (`best_time`). Example: a clock that shows 2 s per call, 1,048,576 bytes ->
    524288. ValueError: n_bytes below one row, 4096.

    ●● · about 5 lines · needs level04.measure.best_time
    """
    if n_bytes < 4 * ROW:
        raise ValueError(f"a row of the matrix takes {4 * ROW} bytes, so n_bytes is at least that, not {n_bytes}")
    # TODO: a matrix, a vector, their product; how many bytes were read?
    raise NotImplementedError("level04.measure.read_bandwidth")


def gemm_flops(n: int, rounds: int = 5, clock: Clock = perf_counter) -> float:
    """Return FLOP/s of the product of two (n, n) float32 matrices: one warm-up, then the best of `rounds`.

    The matrices are torch tensors that are made and filled before the clock runs.
    Example: a clock that shows 1 s per call, n = 64 -> 524288. ValueError: n below 1.

    ● · about 3 lines · part of read_bandwidth
    """
    if n < 1:
        raise ValueError(f"a matrix has at least one row, not {n}")
    # TODO: the same with two matrices; two FLOPs per multiply-add
    raise NotImplementedError("level04.measure.read_bandwidth")
