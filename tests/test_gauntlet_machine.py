"""The gauntlet itself, on a miniature level: what it must notice."""

from types import SimpleNamespace

import pytest

from dojo import gauntlet, judge
from dojo.outcome import Outcome
from dojo.report import Verdict
from tests.miniature import screen, then, untouched, written

GAUNTLET = ("dojo", "gauntlet", "level00", "--workers", "1")


@screen(untouched, *GAUNTLET)
def test_all_is_as_it_should_be(screen):
    assert screen.code == 0 and not screen.err
    assert "killed level00.sums.total first_only by test_all_numbers_count (named)\n" in screen.text
    assert "killed level00.shelf.Shelf queue by test_last_in_first_out (named)\n" in screen.text
    assert "killed level00.worksheet.seconds minutes by test_seconds (named)\n" in screen.text
    assert "ok level00.sums.total loop\n" in screen.text
    assert "ok level00 unfilled: red in all 13 tests\n" in screen.text
    assert screen.text.endswith("\n11 programs, 0 of them not as they should be\n")
    assert not screen.project.progress()


@screen(untouched, *GAUNTLET, "-k", "sums.total loop")
def test_some_programs_only(screen):
    assert screen.code == 0
    assert screen.text.endswith("ok level00.sums.total loop\n1 program, 0 of them not as they should be\n")


@screen(untouched, *GAUNTLET, "-k", "nonsense")
def test_no_program_is_no_success(screen):
    assert screen.code == 1
    assert "no program's id and name contain 'nonsense': try without -k" in screen.err


GHOSTS = """
ghost("level00.sums.total", "right_after_all", "It is not.", change=("sum(numbers)", "sum(list(numbers))"))
mean = "total(numbers) / len(numbers)"
ghost("level00.sums.mean", "one", "You give the first number.", change=(mean, "numbers[0] * 1.0"))
ghost("level00.sums.mean", "twin", "You never use the rest.", change=(mean, "float(numbers[0])"))
ghost("level00.sums.mean", "gone", "Nothing.", change=("no such text", ""))
"""
ALTERNATIVES = 'alternative("level00.sums.total", "wrong", change=("sum(numbers)", "max(numbers, default=0)"))\n'


@screen(
    then(
        written("solutions/level00/ghosts/sums.py", GHOSTS),
        written("solutions/level00/alternatives/sums.py", ALTERNATIVES),
    ),
    *GAUNTLET,
)
def test_what_is_not_as_it_should_be(screen):
    """A right program among the ghosts, two ghosts that nobody can tell apart, one that can't be made."""
    assert screen.code == 1
    assert "SURVIVED level00.sums.total right_after_all\n" in screen.text
    assert "killed level00.sums.mean one by test_the_mean_is_between (named)\n" in screen.text
    assert "killed level00.sums.mean twin by test_the_mean_is_between (unnamed" in screen.text
    assert "BAD level00.sums.mean gone: ghost gone of level00.sums.mean: 'no such text' occurs 0 times" in screen.text
    assert "REJECTED level00.sums.total wrong by test_all_numbers_count" in screen.text
    assert screen.text.endswith("\n6 programs, 4 of them not as they should be\n")


OUTSIDERS = """
GHOSTS = {
    "sums.total": {"zero": lambda numbers: 0, "honest": lambda numbers: sum(numbers)},
    "sums.middle": {"floor": lambda numbers: len(numbers) // 2},
    "sums.nothing": {"x": lambda: None},
}
ALTERNATIVES = {"sums.total": {"plus": lambda numbers: sum(numbers) + 0}}
"""


@screen(written("mine.py", OUTSIDERS), *GAUNTLET, "--from", "mine.py")
def test_programs_from_outside(screen):
    """Keys are relative to the level, and may name a part; a ghost of somebody else's needs no name."""
    assert screen.code == 1
    assert "killed sums.total zero by test_all_numbers_count (unnamed)\n" in screen.text
    assert "SURVIVED sums.total honest\n" in screen.text
    assert "killed sums.middle floor by test_halves_make_the_whole (named)\n" in screen.text
    assert "ok sums.total plus\n" in screen.text
    assert "BAD sums.nothing x: 'sums.nothing' is no kata of level00; its katas are level00.sums.total" in screen.text
    assert screen.text.endswith("\n5 programs, 2 of them not as they should be\n")


def test_a_test_whose_report_pytest_cannot_make_is_judged_all_the_same(monkeypatch):
    """A call that is stopped between two lines has no line number, and pytest fails while it looks for one."""
    item = SimpleNamespace(nodeid="test_x", location=("test_x.py", 1, "test_x"), get_closest_marker=lambda _: None)
    call = SimpleNamespace(when="call", excinfo=SimpleNamespace(value=ZeroDivisionError()))
    whole = SimpleNamespace(table={}, outcomes={}, total={"": 1})
    monkeypatch.setattr(judge.outcome, "of", lambda *_: Outcome("endless"))
    hook = judge.Judge.pytest_runtest_makereport(whole, item, call)
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.throw(TypeError("unsupported operand type(s) for -: 'NoneType' and 'int'"))
    assert done.value.value.failed and [one.kind for one in whole.outcomes[""]] == ["endless"]


def test_a_run_that_breaks_off_clears_nothing(monkeypatch):
    """pytest's own failure leaves tests out, and the program would seem to pass."""
    [trial] = [t for t in gauntlet.trials("level00") if (t.kind, t.name) == ("alternative", "from_shapes")]
    for broken, begins in ((True, "BAD "), (False, "ok ")):
        job = SimpleNamespace(verdicts={trial.id: Verdict(trial.id, "cleared")}, broken=broken)
        monkeypatch.setattr(gauntlet, "run", lambda *_, job=job, **__: job)
        assert gauntlet.judge(trial).line.startswith(begins)
