"""Yours, the solution, a naive way and a library's, timed in turn on one thread: the rows of `bench` and `compare`.

A level's benchmarks are `levels/levelNN/benchmarks/bench_NN.py`. Each is a function `bench_…(bench)` with a kata mark,
and its docstring is its title. Nothing here judges: it says what a way of writing costs.
"""

import contextlib
import functools
import importlib
import math
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from . import catalog
from .mount import mount, mount_all, one_thread, plan
from .progress import Progress
from .raced import WHO, Raced, folder, ratios, runs

SECONDS = 1.5  # for all rounds of one benchmark together
ROUNDS = 15  # at most, and
ROUND = 1e-3  # seconds that one takes at least: shorter calls are repeated within it
TIMEOUT = 60  # seconds of wall clock: a busy machine takes several times as long


class Copy:
    """One copy of a level: `level.cache.KVCache` is that of the learner, or of the solution."""

    def __init__(self, package: str):
        self.package = package

    def __getattr__(self, module: str):
        return importlib.import_module(f"{self.package}.{module}")


@dataclass
class Run:
    """A pytest plugin for the length of a run; `tell` gets the lines of each benchmark when it has been timed."""

    __name__ = "dojo-bench"  # as pytest knows it

    level: str
    what: str  # the level, one of its modules or a kata
    tell: Callable[[Raced], object]
    last: dict[str, float] = field(default_factory=dict)  # benchmark -> yours over the solution, in the last run
    raced: dict[str, Raced] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def pytest_exception_interact(self, node, call) -> None:
        """A benchmark that is wrong itself must not just be missing."""
        self.broken.append(f"{node.name}: {call.excinfo.exconly()}")

    def pytest_collection_modifyitems(self, items) -> None:
        mark = {item: item.get_closest_marker("kata").args[0] for item in items}
        items[:] = [item for item in items if f"{mark[item]}.".startswith(f"{self.what}.")]

    @pytest.fixture(params=WHO)
    def bench(self, request, benchmark):
        """bench(build, naive=…, library=…, flops=…, bytes=…): four entries of the benchmark, one for each way.

        build           build(level) makes the call to time, from a copy of the level
        naive, library  (what it is called, the call), or None
        flops, bytes    of one call, the least that it takes; 0 where that says nothing
        """

        def run(build, *, naive=None, library=None, flops=0, bytes=0):
            name, who = request.node.originalname, request.param
            if name not in self.raced:
                given = {key: pair for key, pair in (("naive", naive), ("library", library)) if pair}
                makers = {"yours": Copy(self.level), "solution": Copy(f"solution_of_{self.level}")}
                makers = {key: functools.partial(build, copy) for key, copy in makers.items()}
                makers |= {key: lambda call=call: call for key, (_, call) in given.items()}
                called = {key: label for key, (label, _) in given.items()}
                title, kata = request.function.__doc__.strip(), request.node.get_closest_marker("kata").args[0]
                raced = Raced(title, kata, flops, bytes, called, *race(makers), self.last.get(name))
                self.raced[name] = raced
                self.tell(raced)
            raced = self.raced[name]
            if who not in raced.seconds:
                pytest.skip(raced.why.get(who, "there is none"))
            benchmark.group = name
            benchmark.extra_info.update(who=who, kata=raced.kata, title=raced.title, flops=flops, bytes=bytes)
            benchmark.pedantic(lambda: None)
            benchmark.stats.stats.data[:] = raced.seconds[who]  # CPU seconds of the rounds in turn

        return run


def race(makers: dict[str, Callable]) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Make the calls and time them in turn: (CPU seconds of each round, or why there are none), by name."""
    from . import roofline

    calls, why = {}, {}
    with roofline.one_thread():
        for who, make in makers.items():
            try:
                call = make()
                call()  # warm, and what goes wrong goes wrong here
                calls[who] = call, max(1, math.ceil(ROUND / max(_round(call, 1), 1e-7)))
            except NotImplementedError as error:
                why[who] = f"not written yet: {error}"
            except (Exception, pytest.fail.Exception) as error:
                why[who] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        seconds, end = {who: [] for who in calls}, time.monotonic() + SECONDS
        for turn in range(ROUNDS if calls else 0):
            if turn > 1 and time.monotonic() > end:
                break
            for who in random.sample(list(calls), len(calls)):  # whoever runs before leaves caches warm or cold
                seconds[who].append(_round(*calls[who]))
    return seconds, why


def _round(call: Callable[[], object], repeats: int) -> float:
    from .roofline import CLOCK

    start = CLOCK()
    for _ in range(repeats):
        call()
    return (CLOCK() - start) / repeats


# ---- a whole run


def run(level: str, what: str, tell: Callable[[Raced], object]) -> list[Raced]:
    """Time the benchmarks of a level (a module, a kata); pytest-benchmark keeps the run. Lines come by `tell`."""
    one_thread()
    mount_all(plan([level], "levels", Progress()))
    mount(f"solution_of_{level}", catalog.ROOT / "solutions" / level)
    screen = sys.stdout

    def aloud(raced: Raced) -> None:
        with contextlib.redirect_stdout(screen):
            tell(raced)

    here = Run(level, what, aloud, {name: r for one in runs(level) for name, r in ratios(one).items()})
    arguments = [str(catalog.ROOT / "levels" / level / "benchmarks"), "--rootdir", str(catalog.ROOT), "-q", "-s"]
    arguments += ["-o", "python_files=bench_*.py", "-o", "python_functions=bench_*", f"--timeout={TIMEOUT}"]
    arguments += [f"--benchmark-storage=file://{folder().as_posix()}", f"--benchmark-save={level}"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        code = pytest.main(arguments, plugins=[here])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if here.broken:
        raise ValueError(f"a benchmark of {level} can't be run: {here.broken[0]}")
    return list(here.raced.values())
