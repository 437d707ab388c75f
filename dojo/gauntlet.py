"""Every ghost, alternative and unfilled stub against a level's tests, in warm worker processes.

The promise that a verdict can be trusted, tested: each wrong program must be refused, and named with its own sentence;
each right one must pass; each unfilled kata must be red in every test.
"""

import contextlib
import gc
import importlib.util
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue

from . import catalog, stubs
from .expect import Pickled
from .ghosts import BadGhost, Ghost, Servant, apply, explained, haunts, summon
from .mount import mount_all, one_thread, plan, unmount
from .outcome import Outcome
from .progress import Progress

SECONDS = 8  # for one test, and for one ghost on all its cases
PLENTY = 30  # for one test of a program that has to pass, on a machine that is busy with others
ENOUGH = 2  # red tests, if they name the ghost already
FEW = 20  # right cases that are tried on ghosts then, the last ones
PATIENCE = 180  # for one program; a worker that takes longer is killed
LEAN = ["benchmark", "unraisableexception", "threadexception", "logging", "doctest", "junitxml", "faulthandler"]
KNOWN = {}  # (id, name) of a ghost -> what it came to in the cases of other programs
KILLS = Counter()  # how often each test was red in this worker: those that kill most come first


@dataclass(frozen=True)
class Trial:
    """One program to try: which file it comes from, for which kata, and what should happen."""

    level: str
    kind: str  # ghost, alternative, stub
    id: str
    name: str
    file: str = ""  # an outsider's file; the repository's own otherwise


@dataclass(frozen=True)
class Result:
    trial: Trial
    ok: bool
    line: str  # "killed level03.sampling.top_p drops_it by test_… (named)"


def outsiders(file: str) -> dict[str, list[Ghost]]:
    """GHOSTS and ALTERNATIVES of anybody's file, keyed by kata or part relative to the level."""
    spec = importlib.util.spec_from_file_location("outsiders", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"ghost": getattr(module, "GHOSTS", {}), "alternative": getattr(module, "ALTERNATIVES", {})}


def foreign(level: str, key: str, name: str, program: Callable) -> Ghost:
    """A program from outside as a ghost: the key may name a kata or one of its parts."""
    module, _, function = key.partition(".")
    for k in catalog.katas(level):
        if k.module == module and function in k.names:
            return Ghost(k.id, name, "", program=program, part=function)
    raise catalog.UnknownId(
        f"{key!r} is no kata of {level}; its katas are {', '.join(k.id for k in catalog.katas(level))}"
    )


def trials(level: str, file: str = "") -> list[Trial]:
    if file:
        return [
            Trial(level, kind, key, name, file)
            for kind, programs in outsiders(file).items()
            for key, named in programs.items()
            for name in named
        ]
    found = [Trial(level, "ghost", g.id, g.name) for g in haunts(level)]
    found += [Trial(level, "alternative", g.id, g.name) for g in haunts(level, "alternatives")]
    return [*found, Trial(level, "stub", level, "unfilled")]


# ---- in the worker


class Here:
    """Names ghosts in this process, with an alarm instead of a kill, and all the time it takes."""

    budget = float("inf")

    def __init__(self, greens: int | None):
        self.greens = greens

    def stop(self) -> None: ...

    def ask(self, ghost: Ghost, cases: list[Pickled], hasty: bool = False, lenient: bool = False) -> list[bool]:
        if KNOWN and next(iter(KNOWN))[0] != ghost.id:  # all are of one kata: the programs come kata by kata
            KNOWN.clear()
        with alarm(SECONDS):
            return explained(ghost, cases, hasty, lenient, KNOWN.setdefault((ghost.id, ghost.name), {}))
        return [False] * len(cases)


class TooSlow(BaseException):
    """Raised by the alarm; no `except Exception` of a wrong program catches it."""


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Leave the block quietly after so much CPU time, whatever else the machine does; a worker that sleeps, or is on
    Windows, has its parent's patience.
    """
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(*_):
        raise TooSlow

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    except TooSlow:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Job:
    """The plugin's view of one trial: what to mount, which tests to keep, where the verdicts go."""

    __name__ = "dojo-job"  # as pytest knows it

    def __init__(self, trial: Trial, ghost: Ghost | None, folder: Path | None = None, enough: int = 0):
        self.enough, self.red = enough, 0
        self.levels, self.medium = [trial.level], Here(FEW if enough else None)
        self.seconds = SECONDS if trial.kind == "ghost" else PLENTY
        self.table = plan([], "solutions", Progress())
        if folder:
            self.table[trial.level] = folder
        self.ghost, self.only = ghost, ghost.id if ghost else ""
        self.verdicts, self.outcomes = {}, {}
        self.broken = False  # pytest itself failed: not all tests have run

    def mount(self) -> None:
        mount_all(self.table)
        if self.ghost:
            summon(self.ghost)

    def conclude(self, verdict, outcomes) -> None:
        self.verdicts[verdict.id], self.outcomes[verdict.id] = verdict, outcomes

    def pytest_collection_modifyitems(self, session, items) -> None:
        self.session = session
        if self.only:
            items[:] = [i for i in items if (m := i.get_closest_marker("kata")) and m.args[0] == self.only]
        if self.enough:
            items.sort(key=lambda item: -KILLS[item.nodeid])

    def pytest_runtest_logreport(self, report) -> None:
        self.red += report.failed
        KILLS[report.nodeid] += report.failed
        if self.enough and self.red >= self.enough:
            self.session.shouldfail = f"{self.red} red tests are enough"


def run(trial: Trial, ghost: Ghost | None, folder: Path | None = None, enough: int = 0) -> Job:
    """Run the trial's tests in this process, all of them, or until so many are red."""
    import pytest

    job = Job(trial, ghost, folder, enough)
    wanted = sorted({str(path) for path, _ in catalog.tests(trial.level).get(job.only, [])})
    tests = wanted or [str(catalog.ROOT / "levels" / trial.level / "tests")]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        # no other plugins: pytest-benchmark alone asks git seven times in each run
        args = ["-q", "-ppytest_timeout", *(f"-pno:{name}" for name in LEAN), "--rootdir", str(catalog.ROOT), *tests]
        job.broken = pytest.main(args, plugins=[job]) > 1
    unmount(trial.level)
    for name, module in list(sys.modules.items()):  # test files hold references into the ghost's module
        if (getattr(module, "__file__", "") or "").startswith(str(catalog.ROOT / "levels")):
            del sys.modules[name]
    return job


def judge(trial: Trial) -> Result:
    """Try one program and say what came of it."""
    label = f"{trial.id} {trial.name}"
    if trial.kind == "stub":
        return judge_stub(trial)
    try:
        ghost = find(trial)
        module = catalog.ROOT / "solutions" / trial.level / f"{ghost.id.split('.')[1]}.py"
        apply(ghost, module.read_text(encoding="utf-8"))  # here BadGhost can be told, inside of pytest it can't
        ours = trial.kind == "ghost" and not trial.file
        job = run(trial, ghost, enough=ENOUGH if ours else 0)
        # subtle: another one that explains all cases explains these few as well, so who is named now is named by all
        if ours and not named(ghost, job):
            job = run(trial, ghost)
    except (BadGhost, catalog.UnknownId) as error:
        return Result(trial, False, f"BAD {label}: {error}")
    verdict, sentences = job.verdicts.get(ghost.id), [g.sentence for g in haunts(trial.level) if g.id == ghost.id]
    if verdict is None:
        return Result(trial, False, f"BAD {label}: no test judges {ghost.id}")
    passed = verdict.state == "cleared"
    if passed and job.broken:
        return Result(trial, False, f"BAD {label}: pytest broke off, not all tests of {ghost.id} have run")
    if trial.kind == "alternative":
        return Result(
            trial, passed, f"ok {label}" if passed else f"REJECTED {label} by {verdict.test}: {verdict.lines}"
        )
    if passed:
        return Result(trial, False, f"SURVIVED {label}")
    known = named(ghost, job) if not trial.file else bool(set(sentences) & set(verdict.sentences))
    how = "named" if known else "unnamed"
    twins = f": {verdict.sentences}" if not known and verdict.sentences else ""
    return Result(trial, known or bool(trial.file), f"killed {label} by {verdict.test} ({how}{twins})")


def named(ghost: Ghost, job: Job) -> bool:
    """Did the verdict give this ghost's sentence?"""
    verdict = job.verdicts.get(ghost.id)
    return bool(verdict) and ghost.sentence in verdict.sentences


def find(trial: Trial) -> Ghost:
    if trial.file:
        return foreign(trial.level, trial.id, trial.name, outsiders(trial.file)[trial.kind][trial.id][trial.name])
    source = haunts(trial.level, f"{trial.kind}s")
    return next(g for g in source if (g.id, g.name) == (trial.id, trial.name))


def judge_stub(trial: Trial) -> Result:
    """The unfilled level: every test of every kata and answer is red, and says `todo` with its own id."""
    with tempfile.TemporaryDirectory() as folder:
        for module, text in stubs.derive(trial.level).items():
            Path(folder, f"{module}.py").write_text(text, encoding="utf-8")
        job = run(trial, None, Path(folder))
    expected = [id for id in catalog.ids(trial.level) if not id.endswith("checkpoint")]
    missing = [id for id in expected if id not in job.outcomes]
    green = [f"{id}: {r.test} is {r.kind}" for id, rs in job.outcomes.items() for r in rs if not unfilled(id, r)]
    total = sum(len(rs) for rs in job.outcomes.values())
    if missing or green:
        return Result(trial, False, f"REJECTED {trial.level} unfilled: {[*missing, *green][:5]}")
    return Result(trial, True, f"ok {trial.level} unfilled: red in all {total} tests")


def unfilled(id: str, outcome: Outcome) -> bool:
    """`todo` with its own id; or blocked by an unfilled kata that it needs, whose given lines run first."""
    if outcome.kind == "blocked" and "worksheet" not in id:
        return outcome.lines[0] in catalog.all_needs(id)
    return outcome.kind == "todo"


def _worker(channel) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to everybody: the parent decides
    import torch._dynamo  # noqa: F401  the first count would import it, within the time of its program

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    gc.freeze()  # a collection over torch's objects costs more than a run
    while (trial := channel.recv()) is not None:
        channel.send(judge(trial))


# ---- in the parent


def gauntlet(level: str, file: str = "", workers: int | None = None, words: str = "") -> Iterator[Result]:
    """Results of a level's trials, as they come; with `words`, of those whose id and name contain all of them."""
    one_thread()
    waiting, done = Queue(), Queue()
    queue = [one for one in trials(level, file) if all(word in f"{one.id} {one.name}" for word in words.split())]
    for trial in queue:
        waiting.put(trial)
    threads = [
        threading.Thread(target=_serve, args=(waiting, done), daemon=True)
        for _ in range(workers or os.cpu_count() or 2)
    ]
    for thread in threads:
        thread.start()
    for _ in queue:
        yield done.get()


def _serve(waiting: Queue, done: Queue) -> None:
    """One thread, one worker process; a worker that dies or hangs has killed its program, without a name."""
    servant = Servant(_worker, PATIENCE, PATIENCE)
    while True:
        try:
            trial = waiting.get_nowait()
        except Empty:
            break
        done.put(servant.ask(trial) or lost(trial))
    servant.stop()


def lost(trial: Trial) -> Result:
    """The result of a program that took its worker with it."""
    verdict = "killed" if trial.kind == "ghost" else "REJECTED"
    line = f"{verdict} {trial.id} {trial.name} by a hang or crash (unnamed)"
    return Result(trial, bool(trial.file) and trial.kind == "ghost", line)
