"""The pytest plugin: its options, its terminal, and the fixtures of the levels' tests."""

import importlib
import sys
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from . import catalog, report
from .expect import Expect, Mismatch
from .ghosts import slips
from .judge import Judge, kata_of
from .mount import mount_all, one_thread, plan
from .progress import Progress
from .values import a, compare, show

MARKUP = {"good": {"green": True}, "bad": {"red": True}, "warn": {"yellow": True}, "bold": {"bold": True}}
MARKUP |= {"dim": {"light": True}, "": {}}

LISTS = ("collectonly", "setupplan", "show_fixtures_per_test", "showfixtures", "markers")  # nothing is judged


def pytest_addoption(parser):
    group = parser.getgroup("dojo")
    group.addoption(
        "--impl", default="levels", choices=["levels", "solutions"], help="judge your code or the solutions"
    )


@pytest.hookimpl(trylast=True)  # after the terminal reporter, which is replaced
def pytest_configure(config):
    config.addinivalue_line("markers", "kata(id): the kata, worksheet answer or checkpoint that a test judges")
    if config.pluginmanager.get_plugin("dojo-bench"):  # times, and judges nothing
        return
    job = config.pluginmanager.get_plugin("dojo-job")
    levels = job.levels if job else levels_in(config)
    if not levels or config.option.help:
        return
    one_thread()
    if any(getattr(config.option, name, False) for name in LISTS):  # pytest's own output
        mount_all(plan(levels, config.getoption("--impl"), Progress()))
        return
    config.option.tbstyle = "no"  # formatting frames that nobody sees takes longer than the tests
    config.option.benchmark_quiet = True
    judge = Judge(config, levels, job)
    config.pluginmanager.register(judge, "dojo")
    if standard := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.unregister(standard)
        config.pluginmanager.register(Terminal(config, judge), "terminalreporter")


def levels_in(config) -> list[str]:
    """The levels that the command line names: levels/level04, something in it, or all of `levels`."""
    found = set()
    for arg in config.args:
        path = (Path(config.invocation_params.dir) / arg.split("::")[0]).resolve()
        parts = path.relative_to(catalog.ROOT).parts if path.is_relative_to(catalog.ROOT) else ()
        if parts[:1] == ("levels",):
            found |= {parts[1]} if len(parts) > 1 else set(catalog.level_names())
    return sorted(found & set(catalog.level_names()))


class Terminal(TerminalReporter):
    """The terminal of a level's run: verdicts, where pytest has dots, frames and summaries."""

    def __init__(self, config, judge: Judge):
        config.option.verbose = min(config.option.verbose, -2)
        super().__init__(config)
        self.judge = judge
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        self.plain = not report.printable(encoding)

    def say(self, lines):
        for text, style in lines:
            text = report.wrapped(report.plain(text) if self.plain else text)
            self._tw.line(text, **MARKUP[style])
        self._tw.flush()

    def pytest_collection(self): ...
    def pytest_collectreport(self, report): ...
    def pytest_collection_finish(self, session): ...
    def pytest_runtest_logstart(self, nodeid, location): ...
    def pytest_runtest_logreport(self, report): ...
    def pytest_runtest_logfinish(self, nodeid): ...
    def pytest_warning_recorded(self, warning_message, nodeid): ...
    def pytest_unconfigure(self): ...
    def report_collect(self, final=False): ...

    def pytest_keyboard_interrupt(self, excinfo):
        self.judge.interrupted = True

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session, exitstatus):
        done = yield
        self.judge.close(session)
        return done


@pytest.fixture
def expect():
    """expect(fn, *args).equals(right): calls the learner's code on protected arguments and compares."""
    return Expect()


class Answer:
    """An answer of the worksheet: answer(NAME).equals(right). The right value is not shown."""

    def __init__(self, id: str, name: str):
        self.id, self.name = id, name
        self.sheet = importlib.import_module(id.rpartition(".")[0])

    def equals(self, right: float, rel: float = 0.01) -> None:
        __tracebackhide__ = True
        if not hasattr(self.sheet, self.name):
            raise Mismatch([f"{self.name} is gone from the worksheet: put the line `{self.name} = ...` back"])
        value = getattr(self.sheet, self.name)
        if value is ...:
            raise NotImplementedError(self.id)
        if (found := compare(value, float(right), rel)) is None:
            return
        if found.kind == "type":
            raise Mismatch([f"{self.name} = {show(value)} is {a(type(value).__name__)}: give a number"])
        said = f"{self.name} = {show(value)}, which is not right within {100 * rel:g}%"
        raise Mismatch([said], sentences=[ghost.sentence for ghost in slips(self.id, value, rel)])


@pytest.fixture
def answer(request):
    id = kata_of(request.node)
    return lambda name: Answer(id, name)


@pytest.fixture
def roofline(request, benchmark):
    """roofline(target, reference, need=…, flops=…, bytes=…, name=…): the clock's verdict, and a row in the table.

    Passes, fails, or skips as inconclusive; see dojo.roofline.judge. With --benchmark-disable it calls target once.
    """
    from .roofline import Row
    from .roofline import judge as clock

    rows = getattr(request.config.pluginmanager.get_plugin("dojo"), "rows", [])

    def run(target, reference, *, need, flops, bytes, name, notes=()):
        __tracebackhide__ = True
        if benchmark.disabled:
            benchmark.pedantic(target)
            return
        rounds = []
        verdict = clock(target, reference, need=need, observe=rounds.append)
        benchmark.pedantic(target, rounds=1)
        if verdict.attempts:
            benchmark.stats.stats.data[:] = rounds  # CPU seconds of the judged rounds, for the benchmark's own JSON
            measured = report.Measured(Row(name, flops, bytes, verdict.target_seconds), verdict, list(notes))
            rows.append(measured)
            benchmark.extra_info.update(report.as_json(measured))
        if verdict.state == "inconclusive":
            pytest.skip(str(verdict))
        if verdict.state == "fail":
            pytest.fail(f"{name}: {str(verdict).removeprefix('fail: ')}", pytrace=False)

    return run
