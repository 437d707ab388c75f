"""The clock, the reference kernels, and the three-way verdict: pass, fail or inconclusive.

Seconds are never judged, and the wall clock is never asked: the CPU time of a call is compared with that of the ideal
work on the same buffers, in turn, on one thread. Where CPU time ticks too coarsely (Windows) nothing is judged.
"""

import contextlib
import ctypes
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

STEADY = 1.5  # a reference whose median is further above its minimum has been disturbed


def _tick(clock: Callable[[], float]) -> float:
    """Seconds by which the clock advances when it does: what it says about itself is not to be trusted."""
    start = now = clock()
    while now == start:
        now = clock()
    return now - start


# all threads of this process, so work that is moved to another thread still counts
CAN_JUDGE = median(_tick(time.process_time) for _ in range(5)) < 1e-4
CLOCK = time.process_time if CAN_JUDGE else time.perf_counter


class Sweep:
    """One product per weight matrix with `tokens` rows: the least that decode (1) or prefill (many) must do.

    It reads the very buffers of the model under test: other buffers of the same size are up to 1.7 times faster.
    """

    def __init__(self, weights: Iterable[Tensor], tokens: int = 1):
        self.weights = list(weights)
        self.bytes = sum(w.numel() * w.element_size() for w in self.weights)
        self.flops = 2 * tokens * sum(w.numel() for w in self.weights)
        self.inputs = {(w.shape[1], w.dtype): w.new_ones(tokens, w.shape[1]) for w in self.weights}
        self.outputs = {(w.shape[0], w.dtype): w.new_empty(tokens, w.shape[0]) for w in self.weights}

    def __call__(self) -> None:
        for w in self.weights:
            torch.mm(self.inputs[w.shape[1], w.dtype], w.T, out=self.outputs[w.shape[0], w.dtype])


class Gemv:
    """y = W x with W of 192 MiB, beyond a laptop's caches: the steadiest probe of bandwidth, the pattern of decode."""

    def __init__(self, rows: int = 12288, columns: int = 4096):
        self.w, self.x, self.y = torch.ones(rows, columns), torch.ones(columns), torch.empty(rows)
        self.bytes, self.flops = 4 * self.w.numel(), 2 * self.w.numel()

    def __call__(self) -> None:
        torch.mv(self.w, self.x, out=self.y)


class Gemm:
    """c = a b with float32 matrices that stay in cache: the probe of arithmetic."""

    def __init__(self, n: int = 768):
        self.a, self.b, self.c = torch.ones(n, n), torch.ones(n, n), torch.empty(n, n)
        self.bytes, self.flops = 12 * n * n, 2 * n**3

    def __call__(self) -> None:
        torch.mm(self.a, self.b, out=self.c)


@dataclass(frozen=True)
class Verdict:
    """fraction: reference seconds / target seconds, minima of one attempt; log: (fraction, unsteadiness) of each."""

    state: str  # "pass", "fail" or "inconclusive"
    need: float
    fraction: float = 0.0
    target_seconds: float = 0.0
    reference_seconds: float = 0.0
    attempts: int = 0
    log: tuple[tuple[float, float], ...] = ()

    def __str__(self) -> str:
        if not self.attempts:
            return "inconclusive: CPU time is too coarse on this system, only the counts judge here"
        said = f"{self.state}: {self.fraction:.0%} of the reference's speed, {self.need:.0%} needed"
        why = "; the reference itself ran unsteadily, so try again on a calmer machine"
        return said + f" (best of {self.attempts} attempts)" + (why if self.state == "inconclusive" else "")


def judge(
    target: Callable[[], object],
    reference: Callable[[], object],
    *,
    need: float,
    rounds: int = 5,
    attempts: int = 3,
    observe: Callable[[float], object] | None = None,
) -> Verdict:
    """Compare the CPU time of `target` with that of `reference`, called in turn on one thread.

    need     passes at the first attempt in which min(reference) / min(target) reaches it
    observe  is told the seconds of each call of the target

    Retrying is safe on this clock only: by the wall clock, the best of three let 3 to 6% of wrong programs pass.
    "inconclusive": no attempt passed, and the reference's own median / min exceeded 1.5 in each of them.
    """
    if not CAN_JUDGE:
        return Verdict("inconclusive", need)
    best, log = Verdict("fail", need), []
    with one_thread():
        reference(), target()  # warm: caches, lazy imports, first touch of the buffers
        for attempt in range(attempts):
            time.sleep(attempt / 4)  # lets a burst of foreign load pass
            pairs = [(_seconds(reference), _seconds(target, observe)) for _ in range(rounds)]
            references, targets = zip(*pairs)
            fraction = min(references) / min(targets)
            log.append((fraction, median(references) / min(references)))
            if fraction > best.fraction:
                best = Verdict("fail", need, fraction, min(targets), min(references))
            if fraction >= need:
                break
    steady = min(unsteadiness for _, unsteadiness in log) <= STEADY
    state = "pass" if best.fraction >= need else "fail" if steady else "inconclusive"
    return Verdict(state, need, best.fraction, best.target_seconds, best.reference_seconds, len(log), tuple(log))


def _seconds(call: Callable[[], object], observe: Callable[[float], object] | None = None) -> float:
    start = CLOCK()
    call()
    seconds = CLOCK() - start
    if observe:
        observe(seconds)
    return seconds


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch, and for numpy's BLAS where it can be told so late; both are set back afterwards.

    Threads that wait for a busy core spin, and so inflate CPU time: up to 10 times for numpy on two loaded cores.
    """
    blas, threads = _openblas(), torch.get_num_threads()
    blas_threads = blas and blas.scipy_openblas_get_num_threads64_()
    torch.set_num_threads(1)
    if blas:
        blas.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if blas:
            blas.scipy_openblas_set_num_threads64_(blas_threads)


@functools.cache
def _openblas() -> ctypes.CDLL | None:
    """The OpenBLAS inside numpy's wheel; None where numpy has another BLAS (Accelerate on macOS, MKL from conda)."""
    import numpy

    package = Path(numpy.__file__).parent
    for path in [*package.parent.glob("numpy.libs/*openblas64*"), *package.glob(".dylibs/*openblas64*")]:
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(path))
            if library.scipy_openblas_get_num_threads64_():  # AttributeError: an OpenBLAS under other names
                return library
    return None


@dataclass(frozen=True)
class Machine:
    """What one thread of this machine reaches: its two roofs."""

    bytes_per_second: float
    flops_per_second: float

    def roof(self, intensity: float) -> float:
        """Highest FLOP/s for a program of `intensity` FLOPs per byte; bandwidth binds left of the ridge."""
        return min(self.flops_per_second, self.bytes_per_second * intensity)


@functools.cache
def machine() -> Machine:
    """The roofs of this machine by `Gemv` and `Gemm`, about a second; for the report, never for a verdict."""
    with one_thread():
        gemv, gemm = Gemv(), Gemm()
        return Machine(gemv.bytes / _best(gemv), gemm.flops / _best(gemm))


def _best(call: Callable[[], object], rounds: int = 15) -> float:
    call()
    return min(_seconds(call) for _ in range(rounds))


def unsteadiness(call: Callable[[], object], rounds: int = 9) -> float:
    """Median over minimum of the CPU seconds of some rounds: above STEADY nothing can be judged."""
    with one_thread():
        call()
        taken = [_seconds(call) for _ in range(rounds)]
    return median(taken) / min(taken)


@dataclass(frozen=True)
class Row:
    """One measured program: a point under the roof."""

    name: str
    flops: float
    bytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes

    @property
    def bound(self) -> str:
        """Which roof binds on this machine: "memory" or "compute"."""
        return (
            "memory" if self.bytes / machine().bytes_per_second > self.flops / machine().flops_per_second else "compute"
        )

    @property
    def percent(self) -> float:
        """Percent of the speed that the machine's roofs allow; also for what only moves bytes."""
        here = machine()
        least = max(self.bytes / here.bytes_per_second, self.flops / here.flops_per_second)
        return 100 * least / self.seconds
