"""The LLM inference kata. `nox -s level00` judges a level; what follows `--` goes to pytest or to the verb."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import environment  # noqa: E402  nox does not put the noxfile's folder on the path
from environment import PYTHON, run  # noqa: E402

LEVELS = sorted(path.name for path in (ROOT / "levels").glob("level[0-9][0-9]") if path.is_dir())
VERBS = {
    "maze": "where you stand, and what comes next",
    "hint": "one more hint: nox -s hint -- level00.layers.attention",
    "reset": "a stub anew, yours is kept: nox -s reset -- level00.layers.attention",
    "compare": "yours beside the solution: nox -s compare -- level00",
    "bench": "yours, the solution, a naive way and a library's, timed: nox -s bench -- level00",
    "watch": "judge what a save may have changed, at each save: nox -s watch -- level00",
    "doctor": "what is installed, and the fix for what is not",
    "gauntlet": "known-wrong programs against a level's tests: nox -s gauntlet -- level00",
    "stubs": "write the stubs from the solutions; --check only compares",
    "chat": "talk to the model, on your code where a level is cleared",
    "serve": "the model behind an OpenAI-compatible endpoint: nox -s serve -- --port 8000",
    "load": "open-loop load on such an endpoint, yours or another's: nox -s load -- http://127.0.0.1:8000",
    "lab": "scripts that measure and plot: nox -s lab -- level00",
    "hardware": "accelerators, their ridges, and this machine: nox -s hardware -- h100 --plot",
    "quiz": "a level's questions, one at a time: nox -s quiz -- level00",
    "solutions_branch": "a local git branch with every stub solved",
}
GAUNTLETS = "tests/test_gauntlet.py"  # half of the time, in two processes that wait for each other now and then
NO_VERDICT = {4: "pytest did not understand an argument", 5: "no test was selected"}


class Plain(logging.Filter):
    """Leaves out nox's frame around a session; a session that ends early says why, under its name."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if re.match(r"Running session|Session \S+ was successful|uv binary not found", text):
            return False
        record.msg, record.args = re.sub(r"^Session (\S+) aborted: ", r"\1: ", text), ()
        return True


logging.getLogger("nox").addFilter(Plain())


def next_level() -> str:
    """The first level whose checkpoint is not on record, so that a bare `nox` does the next thing."""
    try:
        cleared = json.loads((ROOT / ".dojo/progress.json").read_text(encoding="utf-8"))["cleared"]
    except (OSError, ValueError, KeyError, TypeError):
        cleared = {}
    return next((name for name in LEVELS if f"{name}.checkpoint" not in cleared), LEVELS[0])


def title(name: str) -> str:
    """What the level's lesson calls itself: `# level00 · Transformer fundamentals`."""
    lesson = ROOT / "levels" / name / "README.md"
    first = lesson.read_text(encoding="utf-8").partition("\n")[0] if lesson.is_file() else ""
    return first.partition("·")[2].strip() or first.lstrip("# ")


def prepare(session: nox.Session) -> None:
    """Make the environment ready, or end the session with the sentence that says why not."""
    try:
        environment.ensure(session.log)
    except environment.SetupError as error:
        session.error(str(error))


def judge(*args: str) -> str:
    """Run pytest; "" when all is well, else what its report comes to: "12 todo, 3 wrong"."""
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary"
        code = run(PYTHON, "-m", "pytest", *args, DOJO_SUMMARY=str(summary))
        line = summary.read_text(encoding="utf-8").strip() if summary.is_file() else ""
    if code == 0:
        return ""
    return NO_VERDICT.get(code) or line or {1: "some tests failed, see above"}.get(code, "the run stopped early")


def add_level(name: str) -> None:
    """A session that judges one level."""

    def level(session: nox.Session) -> None:
        prepare(session)
        if verdict := judge(f"levels/{name}", *session.posargs):
            session.error(verdict)

    level.__doc__ = title(name)
    nox.session(level, name=name, venv_backend="none")


def add_verb(name: str, text: str) -> None:
    """A session that runs `python -m dojo NAME`."""

    def verb(session: nox.Session) -> None:
        prepare(session)
        if code := run(PYTHON, "-m", "dojo", name, *session.posargs):
            session.error(f"stopped with exit code {code}, for the reason above")

    verb.__doc__ = text
    nox.session(verb, name=name, venv_backend="none")


for _name in LEVELS:
    add_level(_name)
for _name, _text in VERBS.items():
    add_verb(_name, _text)


@nox.session(venv_backend="none")
def levels(session: nox.Session) -> None:
    """every level, each in a process of its own"""
    prepare(session)
    verdicts = {name: judge(f"levels/{name}", *session.posargs) for name in LEVELS}
    for name, verdict in verdicts.items():
        session.log(f"{name}  {verdict or 'cleared'}")
    left = [name for name, verdict in verdicts.items() if verdict]
    if left:
        session.error(f"{len(LEVELS) - len(left)} of {len(LEVELS)} levels cleared, next: nox -s {left[0]}")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """the tests of this repository itself"""
    prepare(session)
    if session.posargs:
        verdicts = [judge(*session.posargs)]
    else:
        timed = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("tests/test_*controls.py"))]
        verdicts = beside(GAUNTLETS, *(f"--ignore={name}" for name in (GAUNTLETS, *timed)))
        verdicts += [judge(*timed)] if timed else []  # they ask the clock: alone
    if any(verdicts):
        session.error("; ".join(filter(None, verdicts)))


def beside(apart: str, *others: str) -> list[str]:
    """The verdicts of two pytest runs at the same time: what is `apart` keeps its own report, which is printed last."""
    with tempfile.TemporaryFile() as report:
        command = [str(PYTHON), "-m", "pytest", apart]
        env = environment.child_environment(DOJO_SUMMARY=os.devnull)
        first = subprocess.Popen(command, cwd=ROOT, env=env, stdout=report, stderr=subprocess.STDOUT)
        try:
            verdict = judge(*others)
            code = first.wait()
        finally:
            first.kill()
        report.seek(0)
        print(report.read().decode("utf-8", "replace"), flush=True)
    return [verdict, f"{apart} failed, see above" if code else ""]


@nox.session(venv_backend="none")
def noise(session: nox.Session) -> None:
    """how often the clock errs on this machine: nox -s noise -- level01 --verdicts 20"""
    prepare(session)
    if code := run(PYTHON, ROOT / "tools/noise.py", *session.posargs):
        session.error(f"stopped with exit code {code}, for the reason above")


@nox.session(venv_backend="none")
def fresh_clone(session: nox.Session) -> None:
    """what a newcomer gets: clone, set up, run level00, timed"""
    if run(sys.executable, ROOT / ".ci/fresh_clone.py", *session.posargs):
        session.error("the clone did not behave, see above")


nox.options.sessions = [next_level()] if LEVELS else ["tests"]
