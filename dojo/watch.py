"""Runs the tests again that a saved file may change, in a process that is warm before the file is saved.

Each run has a process of its own, so no run can spoil the next one. It is started ahead of time, imports what takes
long, and waits: a verdict then takes about as long as its tests.
"""

import ast
import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from . import catalog
from .mount import one_thread

PAUSE = 200  # ms between two looks at whether a run has ended


def affected(level: str, saved: Collection[str]) -> set[str]:
    """The modules of a level that are among `saved`, or import one that is, also by way of others."""
    imports = {module: imported(level, module) for module in catalog.modules(level)}
    found = set(saved) & set(imports)
    while more := {module for module, names in imports.items() if names & found} - found:
        found |= more
    return found


def imported(level: str, module: str) -> set[str]:
    """The siblings that a module imports, in the learner's file; in the solution's while that one does not parse."""
    for tree in ("levels", "solutions"):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            nodes = list(ast.walk(ast.parse(catalog.read(catalog.ROOT / tree / level / f"{module}.py"))))
            froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 1]
            return {n for node in froms for n in ([node.module] if node.module else [a.name for a in node.names])}
    return set()


def tests(level: str, saved: Collection[str]) -> list[Path]:
    """The test files that judge what the saved modules may change."""
    modules, judges = affected(level, saved), catalog.tests(level)
    return sorted({path for id, pairs in judges.items() if id.split(".")[1] in modules for path, _ in pairs})


class Warm:
    """A process that has imported everything and waits for its tests."""

    def __init__(self):
        spawn = multiprocessing.get_context("spawn")
        self.channel, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_wait, args=(theirs,))  # a daemon may not have the children that try ghosts
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: a Ctrl-C finds it deaf from its first moment
        self.process.start()
        signal.signal(signal.SIGINT, before)
        theirs.close()

    def run(self, files: Collection[Path]) -> None:
        self.channel.send([str(file) for file in files])

    def ended(self) -> bool:
        return not self.process.is_alive()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _wait(channel) -> None:
    """In the process. Ctrl-C goes to everybody: whoever waits leaves it to the parent, a run ends by itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import pytest
    import pytest_benchmark.plugin  # noqa: F401
    import torch  # noqa: F401

    with contextlib.suppress(EOFError):  # the parent is gone
        files = channel.recv()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pytest.main(["--rootdir", str(catalog.ROOT), *files])


def watch(level: str, say: Callable[[str], object], changes: Iterator[Collection[Path]] | None = None) -> None:
    """Judge what is affected at each save in the level's folder, until Ctrl-C. A save during a run starts it anew.

    changes  what was saved since the last look, again and again; by default from the file system
    """
    one_thread()
    waiting, running, due = Warm(), None, set()
    try:
        for saved in changes or saves(catalog.ROOT / "levels" / level):
            due |= {path.stem for path in saved if path.suffix == ".py"} & set(catalog.modules(level))
            if running and running.ended():
                say(f"watching levels/{level}: save a file, or Ctrl-C")
                running, due, waiting = None, due & {path.stem for path in saved}, waiting or Warm()
            if files := due and saved and tests(level, due):
                if running:
                    running.stop()  # what it judged before it was stopped is recorded
                say(f"saved: {', '.join(sorted(due))}")
                running, waiting = waiting or Warm(), None  # the next one is warmed when this one leaves the cores
                running.run(files)
    except KeyboardInterrupt:
        pass
    finally:
        for one in filter(None, (running, waiting)):
            one.stop()


def saves(folder: Path) -> Iterator[set[Path]]:
    """The files that were saved in a folder; nothing every PAUSE while none was."""
    import watchfiles

    for found in watchfiles.watch(folder, recursive=False, yield_on_timeout=True, rust_timeout=PAUSE, step=20):
        yield {Path(path) for _, path in found}
