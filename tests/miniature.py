"""A small project with the shape of this one, to see what is printed: two levels of plain Python, one with torch."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
MINI = REPOSITORY / "tests/mini"


@dataclass(frozen=True)
class Screen:
    """What a command left: its exit code, what it printed, what it printed to stderr, and the project it ran in."""

    code: int
    text: str
    err: str
    project: "Miniature"


class Miniature:
    """The project in a folder, unfilled at first."""

    def __init__(self, root: Path):
        self.root = root
        shutil.copytree(MINI, root, dirs_exist_ok=True)
        for path in sorted(root.glob("solutions/*/*.py")):
            self.write(f"levels/{path.parent.name}/{path.name}", unfilled(path))

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else dedent(text).lstrip("\n").encode())

    def solve(self, *modules: str) -> None:
        """Put solutions in the stubs' place; `level00` means all its modules."""
        for module in modules:
            level, _, name = module.partition(".")
            for path in self.root.glob(f"solutions/{level}/{name or '*'}.py"):
                self.write(f"levels/{level}/{path.name}", path.read_bytes())

    def change(self, module: str, *pairs: tuple[str, str]) -> None:
        """Solve a module, then replace texts in it."""
        self.solve(module)
        path = self.root / "levels" / f"{module.replace('.', '/')}.py"
        text = path.read_text(encoding="utf-8")
        for old, new in pairs:
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        path.write_bytes(text.encode())

    def command(self, *args: str) -> list[str]:
        return [sys.executable, "-m", *args]

    def environment(self, **extra: str) -> dict[str, str]:
        mine = {k: v for k, v in os.environ.items() if not k.startswith(("DOJO_", "PYTEST_", "COV_"))}
        mine |= {"DOJO_ROOT": str(self.root), "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8"}
        return mine | {"OMP_NUM_THREADS": "1", "COLUMNS": "110"} | extra

    def run(self, *args: str, cwd: str = "", input: str = "", **extra: str) -> Screen:
        """`python -m ARGS` in the project's folder, as if typed there; output goes into a pipe."""
        done = subprocess.run(
            self.command(*args),
            cwd=self.root / cwd,
            env=self.environment(**extra),
            input=input.encode(),
            capture_output=True,
            timeout=60,
        )
        texts = (
            stream.decode("utf-8", "backslashreplace").replace("\r\n", "\n") for stream in (done.stdout, done.stderr)
        )
        return Screen(done.returncode, *texts, self)

    def progress(self) -> set[str]:
        """The ids that are on record as cleared."""
        path = self.root / ".dojo/progress.json"
        return set(json.loads(path.read_text(encoding="utf-8"))["cleared"]) if path.is_file() else set()


def unfilled(path: Path) -> str:
    """The stub of a solution."""
    from dojo import stubs

    return stubs.stub(path.read_text(encoding="utf-8"), path.parent.name, path.stem)


def untouched(project: Miniature) -> None:
    """A setup that does nothing."""


def screen(setup: Callable[[Miniature], None] = untouched, *args: str, **how: str) -> pytest.MarkDecorator:
    """A mark: what the test's `screen` shows. By default the run of level00."""
    return pytest.mark.screen.with_args(setup, *(args or ("pytest", "levels/level00")), **how)


def solved(*modules: str) -> Callable[[Miniature], None]:
    return lambda project: project.solve(*modules)


def changed(module: str, *pairs: tuple[str, str]) -> Callable[[Miniature], None]:
    return lambda project: project.change(module, *pairs)


def written(name: str, text: str | bytes) -> Callable[[Miniature], None]:
    return lambda project: project.write(name, text)


def then(*steps: Callable[[Miniature], None]) -> Callable[[Miniature], None]:
    return lambda project: [step(project) for step in steps] and None


def tidy(text: str) -> str:
    """Trailing blanks off, so that a golden text can stand in a test."""
    return re.sub(r"[ \t]+$", "", text, flags=re.M).strip("\n")
