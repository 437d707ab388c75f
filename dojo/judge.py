"""One run of a level: which tests run, what each kata's tests add up to, what is recorded and said."""

import gc
import os
from pathlib import Path

import pytest

from . import catalog, outcome, report
from .explain import Explainer
from .ghosts import Medium
from .mount import mount_all, plan
from .outcome import Outcome
from .progress import Progress

SECONDS = 20  # for one test of a kata
CHECKPOINT_SECONDS = 180  # for one test on the real model
GREENS = 80  # cases of a kata that came out right and are tried on ghosts, or two of each test


def kata_of(item: pytest.Item) -> str:
    mark = item.get_closest_marker("kata")
    return mark.args[0] if mark else ""


class Judge:
    """A pytest plugin for the length of a run. `job` is the gauntlet's: another program in a kata's place."""

    def __init__(self, config: pytest.Config, levels: list[str], job=None):
        self.config, self.levels, self.job = config, levels, job
        self.impl, self.progress = config.getoption("--impl"), Progress()
        self.table = job.table if job else plan(levels, self.impl, self.progress)
        self.medium = job.medium if job else Medium()
        job.mount() if job else mount_all(self.table)
        ids = [id for level in levels for id in catalog.ids(level)]
        self.places = {id: place for place, id in enumerate(ids)}
        self.explainer = Explainer(levels, self.medium)
        self.level = ""  # whose verdicts are being said
        self.verdicts, self.broken = self.explainer.verdicts, self.explainer.broken
        self.outcomes: dict[str, list[Outcome]] = {}  # of the kata whose tests are running
        self.total: dict[str, int] = {}  # id -> number of its test cases, chosen or not
        self.rows: list[report.Measured] = []
        self.interrupted = False

    def say(self, lines: list[report.Line]) -> None:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if not self.job and hasattr(terminal, "say"):
            terminal.say(lines)

    def place(self, id: str) -> int:
        return self.places.get(id, len(self.places))

    # ---- collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session):
        if len(self.levels) == 1:
            self.enter(self.levels[0])  # importing torch takes a second: show that something happens

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        """A test file that can't be imported, because the learner's module can't be, becomes one sentence."""
        found = yield
        if found.failed and getattr(found, "call", None) and found.call.excinfo:
            path = getattr(collector, "path", None)
            tests = [pair for level in self.levels for pair in catalog.tests(level).items()]
            if ids := [id for id, judges in tests if any(file == path for file, _ in judges)]:
                self.broken |= dict.fromkeys(ids, outcome.of_import(found.call.excinfo, self.table.values()))
                found.outcome, found.longrepr, found.result = "passed", None, []
                del found.call  # or --pdb would stop here, outside of anybody's code
        return found

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        items.sort(key=lambda item: self.place(kata_of(item)))  # within a kata as in the file
        by_hand = self.config.getoption("timeout", None) is not None
        for item in items:
            self.total[kata_of(item)] = self.total.get(kata_of(item), 0) + 1
            item.extra_keyword_matches.add(kata_of(item))  # -k rope means the katas, not the names of their tests
            if not item.get_closest_marker("timeout") and not by_hand:
                seconds = CHECKPOINT_SECONDS if kata_of(item).endswith("checkpoint") else SECONDS
                item.add_marker(pytest.mark.timeout(self.job.seconds if self.job else seconds))
        if not self.job:  # whose process has frozen once; again would keep each run's garbage
            gc.freeze()  # pytest collects at its end: over all of torch's objects that takes longer than the tests

    # ---- running

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        id = kata_of(item)
        self.catch_up(id)
        if id not in self.outcomes:
            self.summarise(f"the run ended while {id} was judged")  # unless more is said later
        done = yield
        if id and (nextitem is None or kata_of(nextitem) != id):
            self.conclude(id, self.outcomes.pop(id, []))
        return done

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        id = kata_of(item)
        if id.endswith(".checkpoint") and not self.opens(id.split(".")[0]):
            pytest.skip(outcome.LOCKED)
        if any(one.kind == "endless" for one in self.outcomes.get(id, ())):
            pytest.skip(outcome.STOPPED)
        if need := self.explainer.waits_for(id):
            raise NotImplementedError(need)  # it would hang as well, for as long

    def opens(self, level: str) -> bool:
        """The checkpoint opens when every kata is cleared, in this run or by an unedited record."""
        for kata in catalog.katas(level):
            if verdict := self.verdicts.get(kata.id):
                state = verdict.state
            else:
                state = self.progress.state(kata.id) if self.impl == "levels" else "cleared"
            if state != "cleared":
                return False
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        try:
            made = yield
        except TypeError:  # of pytest itself: a call that was stopped between two lines has no line number to show
            made = pytest.TestReport(item.nodeid, item.location, {}, "failed", None, call.when)
        if call.when == "call" or call.excinfo:
            one = outcome.of(item, call, kata_of(item), self.table.values())
            one.printed = outcome.excerpt(made.capstdout + made.capstderr)
            # each test has its share, so that which cases are tried does not depend on the order of the tests; where
            # one is red, what comes right before it tells most
            share = max(2, GREENS // self.total[kata_of(item)])
            one.seen = one.seen[-max(8, share) :] if one.red else one.seen[:share]
            self.outcomes.setdefault(kata_of(item), []).append(one)
        return made

    def catch_up(self, id: str = "") -> None:
        """Conclude what could not be imported, as far as it comes before `id`."""
        for other in sorted(self.broken, key=self.place):
            if other not in self.verdicts and (not id or self.place(other) < self.place(id)):
                self.conclude(other, [Outcome("error", lines=list(self.broken[other]))])

    # ---- verdicts

    def conclude(self, id: str, outcomes: list[Outcome]) -> None:
        """All tests of an id that will run have run: decide, name, record, say."""
        level = id.split(".")[0]
        self.enter(level)
        verdict = self.explainer.decide(id, outcomes, self.partial(id, outcomes))
        self.record(id, outcomes)
        if id.endswith(".checkpoint"):
            self.say(self.worksheet_left(level))
        if not ("worksheet" in id and verdict.state == "todo"):  # those get one line together
            self.say(report.verdict_lines(verdict))
        if self.job:
            self.job.conclude(verdict, outcomes)

    def partial(self, id: str, outcomes: list[Outcome]) -> bool:
        """Did only some of the tests of an id run?"""
        tests = {name for _, name in catalog.tests(id.split(".")[0]).get(id, [])}
        return len(outcomes) < self.total.get(id, 0) or {one.test for one in outcomes} < tests

    def record(self, id: str, outcomes: list[Outcome]) -> None:
        """Keep the verdict, unless only some of the tests ran; the clock does not decide about a checkpoint."""
        if self.job or self.impl != "levels" or self.verdicts[id].state == "locked":
            return
        if id in self.broken or not self.partial(id, outcomes):
            counted = [one for one in outcomes if not (one.timed and id.endswith("checkpoint"))]
            self.progress.record(id, not any(one.red for one in counted))

    # ---- what is said around the verdicts

    def enter(self, level: str) -> None:
        if level == self.level:
            return
        self.leave()
        self.level = level
        self.say(report.header(level))
        earlier = {name: folder for name, folder in self.table.items() if name < self.levels[0]}
        if earlier and self.impl == "levels":
            self.say(report.imports([n for n, f in earlier.items() if f.parent.name == "levels"], list(earlier)))

    def worksheet_left(self, level: str) -> list[report.Line]:
        return report.worksheet_left(level, [v for v in self.verdicts.values() if v.id.startswith(level)])

    def leave(self) -> None:
        """The end of a level: the table, the maze and what next."""
        mine = [verdict for verdict in self.verdicts.values() if verdict.id.startswith(self.level)]
        if not self.level or not mine:
            return
        if f"{self.level}.checkpoint" not in self.verdicts:
            self.say(self.worksheet_left(self.level))
        self.say(report.table(self.rows))
        self.rows.clear()
        if not self.interrupted:
            self.say(self.ending(self.level, mine))

    def ending(self, level: str, verdicts: list[report.Verdict]) -> list[report.Line]:
        ids = catalog.ids(level)
        if self.impl == "solutions":
            done = {verdict.id for verdict in verdicts if verdict.state == "cleared"}
            left = [id for id in ids if id not in done]
            return [*report.footer(level, done, left), ("  These are the solutions: nothing is recorded.", "")]
        done = {id for id in ids if self.progress.state(id) != "open"}
        left = [id for id in ids if id not in done and id not in self.explainer.blockers]
        return [*report.footer(level, done, left), (f"  {report.advice(verdicts, level, left)}", "")]

    def close(self, session: pytest.Session) -> None:
        """What is left to say; tell nox; set the exit status."""
        if not self.interrupted:
            self.catch_up()
            for id in [id for id in self.outcomes if id]:  # -x stopped in the middle of a kata
                self.conclude(id, self.outcomes.pop(id))
        self.leave()
        if self.interrupted:
            self.say([("", ""), ("  Stopped. What was judged so far is kept.", "bold")])
        elif not self.verdicts:
            self.say(report.nothing(self.levels))
        self.say([(f"  note: {note}", "warn") for note in self.progress.notes])
        self.say([("", "")])
        verdicts = self.verdicts.values()
        self.summarise("stopped" if self.interrupted else report.summary(verdicts))
        if session.exitstatus == 0 and any(verdict.state != "cleared" for verdict in verdicts):
            session.exitstatus = 1
        self.medium.stop()

    def summarise(self, text: str) -> None:
        """One line for whoever started this run: nox shows it in a frame of its own."""
        if (path := os.environ.get("DOJO_SUMMARY")) and not self.job:
            Path(path).write_text(text, encoding="utf-8")
