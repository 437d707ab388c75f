"""Known-wrong programs, and which of them gives what the learner gave.

Each file in a level's `ghosts/` calls `ghost(...)` and `slip(...)`, which are given to it when it is read.
"""

import ast
import contextlib
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf
from time import perf_counter
from types import FunctionType
from typing import Any

from . import catalog, values
from .expect import Pickled, dumps
from .mount import compiled, mount, mount_from_environment

PATIENCE = 10.0  # seconds for one ghost on all red cases: some loop for ever


@dataclass(frozen=True)
class Ghost:
    """A wrong program for one kata: a change of its solution's text, or a program in its place."""

    id: str
    name: str
    sentence: str
    change: tuple[tuple[str, str], ...] = ()
    program: Callable | None = None
    part: str = ""  # which function of the kata `program` replaces; the kata itself by default
    convention: bool = False  # right elsewhere: another convention than the one the docstring names
    value: Any = None  # worksheet slips: the wrong answer


class BadGhost(ValueError):
    """A ghost that can't be made; the message says which and why."""


@cache
def haunts(level: str, kind: str = "ghosts") -> tuple[Ghost, ...]:
    """The ghosts of a level, or its alternatives: right programs written another way. A file for each module."""
    found = []

    def ghost(id, name, sentence="", change=(), program=None, part="", convention=False):
        pairs = (change,) if change and isinstance(change[0], str) else tuple(change)
        found.append(Ghost(id, name, sentence, pairs, program, part, convention))

    def slip(id, name, sentence, value):
        found.append(Ghost(id, name, sentence, value=value))

    for path in sorted((catalog.ROOT / "solutions" / level / kind).glob("*.py")):
        source = path.read_text(encoding="utf-8")
        given = {
            "ghost": ghost,
            "slip": slip,
            "alternative": ghost,
            "__name__": f"{level}_{kind}_{path.stem}",
            "__file__": str(path),
        }
        exec(compile(source, str(path), "exec"), given)
    return tuple(found)


@lru_cache(1024)
def definitions(source: str) -> dict[str, ast.stmt]:
    return dict(catalog.definitions(ast.parse(source)))


def apply(ghost: Ghost, source: str) -> tuple[str, dict]:
    """(source, extra globals) of the kata's module with the ghost in it. BadGhost says why it can't be."""
    if ghost.value is not None:
        return f"{source}\n{ghost.id.split('.')[2]} = {ghost.value!r}\n", {}
    kata = catalog.kata(ghost.id)
    nodes = definitions(source)
    label = f"ghost {ghost.name} of {ghost.id}"
    if ghost.program:
        name = ghost.part or kata.names[0]
        if name not in nodes:
            raise BadGhost(f"{label}: {kata.module}.py has no {name}")
        node, lines = nodes[name], source.splitlines()
        indent = " " * node.col_offset
        lines.insert(node.end_lineno, f"{indent}{name.rpartition('.')[2]} = __ghost__")
        return "\n".join(lines) + "\n", {"__ghost__": disguised(ghost.program, kata, name)}
    for old, new in ghost.change:
        source = replace_once(source, old, new, kata, label)
    try:
        compiled(source, str(catalog.ROOT / "solutions" / kata.level / f"{kata.module}.py"))  # mounted as that
    except SyntaxError as error:
        raise BadGhost(f"{label} does not compile: {error.msg}") from None
    return source, {}


def disguised(program: Callable, kata: catalog.Kata, name: str) -> Callable:
    """A copy that bears the name and module of what it replaces, so that it is pickled as that."""
    if isinstance(program, FunctionType):
        parts = program.__code__, program.__globals__, program.__name__, program.__defaults__, program.__closure__
        copy = FunctionType(*parts)
        copy.__kwdefaults__ = program.__kwdefaults__
        copy.__module__, copy.__qualname__ = f"{kata.level}.{kata.module}", name
        copy.__name__ = name.rpartition(".")[2]
        return copy
    return program


def replace_once(source: str, old: str, new: str, kata: catalog.Kata, label: str) -> str:
    """Replace a text that occurs exactly once within the kata and its parts."""
    nodes, lines, hits = definitions(source), source.splitlines(keepends=True), []
    for name in kata.names:
        start = sum(map(len, lines[: nodes[name].lineno - 1]))
        end = sum(map(len, lines[: nodes[name].end_lineno]))
        at = source.find(old, start, end)
        while at >= 0:
            hits.append(at)
            at = source.find(old, at + 1, end)
    if len(set(hits)) != 1:
        raise BadGhost(f"{label}: {old!r} occurs {len(set(hits))} times in the kata; it must occur once")
    return source[: hits[0]] + new + source[hits[0] + len(old) :]


def summon(ghost: Ghost) -> None:
    """Mount the ghost's level with the ghost in its kata's place."""
    level, module = ghost.id.split(".")[:2]
    folder = catalog.ROOT / "solutions" / level
    source = (folder / f"{module}.py").read_text(encoding="utf-8")
    mount(level, folder, {module: apply(ghost, source)})


# ---- naming a misconception, in a process that can be killed


def explained(
    ghost: Ghost, cases: list[Pickled], hasty: bool = False, lenient: bool = False, known: dict | None = None
) -> list[bool]:
    """Which of the cases come out the same with the ghost mounted? `hasty` ends at the first that does not.

    known  what it came to in earlier cases: whoever asks about many programs need not run it again
    """
    hits, mounted, known = [], False, {} if known is None else known
    for case in cases:
        try:
            again = None if lenient else known.get(case.asked)  # a check may ask more of what is mounted
            if again is None:
                if not mounted:
                    summon(ghost)
                mounted, again = True, case.again()
                # subtle: an object of a class of the level belongs to this mount alone
                if b"level" not in (kept := dumps(again)):
                    known[case.asked] = kept
            else:
                again = pickle.loads(again)
            hits.append(case.same_outcome(again, lenient))
        except Exception:  # whatever a wrong program does here, it is not what the learner's did; one that can't be
            hits.append(False)  # made is the contract tests' business
        if hasty and not hits[-1]:
            break
    return hits


class Servant:
    """A warm process that answers orders one at a time; killed, and replaced at the next order, when it hangs.

    serve     called in the process with the channel's end, answers each order with one object
    patience  seconds for an answer; the first of a new process waits for its imports, up to `first` seconds
    """

    def __init__(self, serve: Callable, patience: float, first: float):
        self.serve, self.patience, self.first = serve, patience, first
        self.process = self.channel = None

    def ask(self, order: Any) -> Any:
        """The answer, or None when there was none in time or the process died."""
        patience = self.patience
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.channel, theirs = context.Pipe()
            self.process = context.Process(target=self.serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()  # else a process that has died would be waited for
            patience = self.first
        try:
            self.channel.send(order)
            if self.channel.poll(patience):
                return self.channel.recv()
        except (EOFError, OSError):
            pass
        self.stop()
        return None

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def _medium(channel) -> None:
    """A servant's loop: (id, name, cases, hasty, lenient) in, a list of booleans out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to everybody: the parent decides
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # ghosts may print
    mount_from_environment()
    with contextlib.suppress(EOFError, OSError):  # whoever asked is gone: `watch` ends a run at the next save
        while (order := channel.recv()) is not None:
            id, name, *case = order
            ghost = next(g for g in haunts(id.split(".")[0]) if (g.id, g.name) == (id, name))
            channel.send(explained(ghost, *case))


class Medium(Servant):
    """Tries ghosts on the learner's cases."""

    budget = 10.0  # seconds for all ghosts of a kata, twice at most: a verdict without a name is better than none
    greens = None  # how many of the right cases are tried, all of them

    def __init__(self):
        super().__init__(_medium, PATIENCE, 4 * PATIENCE)

    def ask(self, ghost: Ghost, cases: list[Pickled], hasty: bool = False, lenient: bool = False) -> list[bool]:
        """Which of the pickled cases does the ghost explain?"""
        return super().ask((ghost.id, ghost.name, cases, hasty, lenient)) or [False] * len(cases)


def suspects(
    id: str, red: list[Pickled], green: list[Pickled], ask: Callable, order: list[Pickled] = (), budget: float = inf
) -> tuple[list[Ghost], bool]:
    """(ghosts that come to the learner's outcomes, do they explain all red cases?). `red` begins with the case shown.

    One ghost that explains all red cases, or two that do so together; failing that, of those that explain the case
    shown, the one that explains clearly most: somebody with two mistakes at once is helped with the first. A ghost
    that fails where the learner passes is somebody else's mistake. `order` has all cases, in the order of trying. No
    ghost is tried after `budget` seconds.
    """
    start = perf_counter()
    mine, hits = [ghost for ghost in haunts(id.split(".")[0]) if ghost.id == id], {}
    for ghost in mine:
        if all(ask(ghost, order or red + green, hasty=True)):  # most are out at the first case
            return [ghost], True
        if perf_counter() - start > budget:
            return [], False
    for ghost in mine:
        if perf_counter() - start > budget:
            break
        explains = ask(ghost, red)
        if any(explains) and all(ask(ghost, green, hasty=True)):
            hits[ghost] = explains
    for first, explains in hits.items():
        for second, others in hits.items():
            if all(x or y for x, y in zip(explains, others)):
                return [first, second] if explains[0] else [second, first], True  # that of the case shown comes first
    here = sorted(((sum(explains), g.name, g) for g, explains in hits.items() if explains[0]), reverse=True)
    clear = here and (len(here) == 1 or here[0][0] > here[1][0])
    return ([here[0][2]] if clear else []), False


def slips(id: str, answer: Any, rel: float) -> list[Ghost]:
    """The known slip of a worksheet answer that gives this very number, the nearest one if there are several."""
    mine = [g for g in haunts(id.split(".")[0]) if g.id == id]
    hits = [g for g in mine if values.compare(answer, float(g.value), rel) is None]
    return sorted(hits, key=lambda g: abs(answer - g.value))[:1]
