"""What one test came to: a kind, the lines that a learner should see, and for a wrong answer the case itself."""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import pytest

from . import catalog
from .expect import Case, Mismatch

# the first of these among a kata's red tests is its state
RANK = ["locked", "todo", "blocked", "endless", "error", "wrong", "slow"]
LOCKED, STOPPED = "locked", "stopped once already"


@dataclass
class Outcome:
    """Of one test. kind: cleared, inconclusive, or one of RANK."""

    kind: str
    test: str = ""
    lines: list[str] = field(default_factory=list)
    timed: bool = False  # a roofline assertion: it never decides whether a level is cleared
    case: Case | None = None  # the red comparison, for the ghosts
    seen: list[Case] = field(default_factory=list)  # the green ones
    sentences: list[str] = field(default_factory=list)  # of a worksheet answer's slips
    printed: list[str] = field(default_factory=list)

    @property
    def red(self) -> bool:
        return self.kind in RANK


def of(item: pytest.Item, call: pytest.CallInfo, id: str, folders: Iterable[Path]) -> Outcome:
    """The outcome of a test that judges `id`, while the levels are mounted from `folders`."""
    error = call.excinfo.value if call.excinfo else None
    found = Outcome("cleared", item.originalname, timed="roofline" in item.fixturenames)
    found.seen = getattr(item.funcargs.get("expect"), "seen", [])
    if error is None:
        return found
    text = str(error).strip()
    name = text.partition(" ")[0]
    if isinstance(error, pytest.skip.Exception):
        # subtle: only the clock may leave a question open; a kata that skips its own test has not passed it
        other = "inconclusive" if found.timed else "error"
        found.kind = {LOCKED: "locked", STOPPED: "endless"}.get(str(error.msg), other)
        found.lines = [str(error.msg)] if found.kind != "error" else [f"the test was skipped ({error.msg})"]
    elif isinstance(error, NotImplementedError) and name.startswith("level"):
        found.kind, found.lines = ("todo", []) if name == id else ("blocked", [name])
    elif isinstance(error, Mismatch):
        found.kind = "error" if error.cause and "right  raises" not in str(error) else "wrong"
        found.lines = [line for line in error.lines if line.strip() != "differs"]  # plain to see
        found.lines += frames(error.cause.__traceback__, folders) if error.cause else []
        found.case, found.sentences = error.case, error.sentences
    elif isinstance(error, pytest.fail.Exception) and "imeout" in text.partition("\n")[0]:
        mark = item.get_closest_marker("timeout")
        seconds = mark.args[0] if mark else item.config.getoption("timeout")
        where = frames(error.__traceback__, folders)[-1:]
        found.kind, found.lines = "endless", [f"still running after {seconds:g} s, so it was stopped", *where]
    elif isinstance(error, pytest.fail.Exception):
        found.kind, found.lines = "slow" if found.timed else "wrong", text.splitlines()
    elif isinstance(error, AssertionError):
        found.kind = "wrong"
        found.lines = [line for line in text.splitlines() if not line.lstrip().startswith("+")][:6]  # pytest's "where"
        found.lines += frames(error.__traceback__, folders)
    elif type(error).__name__ == "ModelMissing":
        found.kind, found.lines = "error", [text]
    else:
        found.kind, found.lines = "error", of_import(call.excinfo, folders)
    return found


def excerpt(printed: str, most: int = 6) -> list[str]:
    """The first lines of what the learner's code printed."""
    lines = printed.splitlines()
    more = [f"… and {len(lines) - most} more lines"] if len(lines) > most else []
    return [line if len(line) <= 300 else f"{line[:300]} …" for line in lines[:most]] + more


def frames(trace: TracebackType | None, folders: Iterable[Path]) -> list[str]:
    """The last few lines of a traceback that are in the levels' own modules; a recursion's line once.

    One of them is in a module with katas, if any is: what is given may call itself a few times behind it.
    """
    starts = tuple(f"{folder}" for folder in folders)
    mine = [f for f in traceback.extract_tb(trace) if f.filename.startswith(starts) and "test_" not in f.filename]
    found = {f"{relative(f.filename)}:{f.lineno} in {f.name}: {f.line}": Path(f.filename) for f in mine}
    last, graded = list(found)[-3:], [line for line, path in found.items() if has_katas(path)]
    return [graded[-1], *last[-2:]] if graded and not set(graded) & set(last) else last


def has_katas(path: Path) -> bool:
    return any(kata.id.split(".")[1] == path.stem for kata in catalog.katas(path.parent.name))


def of_import(excinfo: pytest.ExceptionInfo, folders: Iterable[Path]) -> list[str]:
    """What an exception in somebody's code says; most of all why a module could not be imported, and the fix."""
    error = excinfo.value
    while isinstance(error, pytest.Collector.CollectError) and error.__cause__:
        error = error.__cause__
    text = str(error).partition("\n")[0]
    if isinstance(error, SyntaxError):
        return of_syntax(error, folders)
    mine, name = frames(error.__traceback__, folders), getattr(error, "name", None) or ""
    level, _, module = name.partition(".")
    back = f"`nox -s reset -- {name}` brings the stubs back, and keeps your file"
    if isinstance(error, ModuleNotFoundError) and level in catalog.level_names() and module in catalog.modules(level):
        return [f"levels/{level}/{module}.py is not there: {back.partition(',')[0]}"]
    if isinstance(error, ModuleNotFoundError):
        return [f"{text}: leave that import out, or install the package beside the others", *mine]
    if isinstance(error, ImportError) and error.name and error.path:
        return [f"{text.partition(' (')[0]}: was it renamed or deleted? {back}"]
    return [f"{type(error).__name__}: {text}" if text else type(error).__name__, *mine]


def of_syntax(error: SyntaxError, folders: Iterable[Path]) -> list[str]:
    """A module that does not parse: where, and the line; or which file is no text at all."""
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        try:
            whole = "\0" not in path.read_text(encoding="utf-8")
        except ValueError:
            whole = False
        if not whole:
            return [f"{relative(str(path))} is not UTF-8 text: save it in that encoding"]
    where = f"{relative(error.filename or 'the file')}, line {error.lineno}: {error.msg}"
    line = [f"    {error.text.strip()}"] if error.text else []
    return [where, *line, "Mend that line; until then nothing in the file can run."]


def relative(path: str) -> str:
    return Path(path).relative_to(catalog.ROOT).as_posix() if Path(path).is_relative_to(catalog.ROOT) else path
