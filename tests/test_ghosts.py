"""dojo.ghosts: making a ghost out of a solution, and which ghost a learner's outcomes accuse."""

import pytest

from dojo import catalog, ghosts
from dojo.expect import Outcome, dumps
from dojo.ghosts import BadGhost, Ghost, Pickled, apply, explained, suspects

ID = "level00.layers.softmax"


class Oracle:
    """Stands in for the process: which cases each ghost explains is given by name."""

    def __init__(self, **explains):
        self.explains = explains

    def ask(self, ghost, cases, hasty=False):
        return [int(case) in self.explains[ghost.name] for case in cases]


def accused(monkeypatch, red, green, **explains):
    """(names, wholly) for the red and green cases, numbered, and the numbers that each ghost explains."""
    found = tuple(Ghost(ID, name, f"{name}.") for name in explains)
    monkeypatch.setattr(ghosts, "haunts", lambda level: found)
    numbers = [[str(n).encode() for n in cases] for cases in (red, green)]
    guilty, wholly = suspects(ID, *numbers, Oracle(**explains).ask)
    return [ghost.name for ghost in guilty], wholly


def test_the_ghost_that_explains_all_red_cases_is_named(monkeypatch):
    assert accused(monkeypatch, [1, 2], [], a={1}, b={1, 2}) == (["b"], True)


def test_a_ghost_that_fails_where_the_learner_passes_is_somebody_else(monkeypatch):
    assert accused(monkeypatch, [1, 2], [7], a={1, 2}, b={1, 2, 7}) == (["b"], True)
    assert accused(monkeypatch, [1, 2], [7], a={1, 2}) == ([], False)


def test_two_mistakes_in_different_cases_are_both_named(monkeypatch):
    assert accused(monkeypatch, [1, 2, 3], [], a={1, 3}, b={2}) == (["a", "b"], True)


def test_two_mistakes_in_one_case_leave_the_one_that_explains_what_is_shown(monkeypatch):
    """The first red case is the one shown; cases 2 and 3 suffer from both."""
    assert accused(monkeypatch, [1, 2, 3], [], a={1}, b={2}) == (["a"], False)
    assert accused(monkeypatch, [1, 2, 3], [], b={2}) == ([], False)


def test_of_several_that_explain_what_is_shown_only_a_clear_one_is_named(monkeypatch):
    assert accused(monkeypatch, [1, 2, 3], [], a={1, 2}, b={1}) == (["a"], False)
    assert accused(monkeypatch, [1, 2, 3], [], a={1}, b={1}) == ([], False)


def solution() -> str:
    return (catalog.ROOT / "solutions" / "level00" / "layers.py").read_text(encoding="utf-8")


def test_a_change_must_occur_once_in_its_kata_and_compile():
    """Elsewhere in the file it may occur as often as it likes: `.float()` does."""
    changed, given = apply(Ghost(ID, "x", "", (("weights = (x - largest).exp()", "weights = x.exp()"),)), solution())
    assert "weights = x.exp()" in changed and given == {}
    for old, times in (("nowhere", 0), ("largest", 5)):
        with pytest.raises(BadGhost, match=rf"'{old}' occurs {times} times"):
            apply(Ghost(ID, "x", "", ((old, "y"),)), solution())
    with pytest.raises(BadGhost, match="does not compile"):
        apply(Ghost(ID, "x", "", (("(x - largest).exp()", "("),)), solution())


def test_a_program_takes_the_name_and_the_module_of_what_it_replaces():
    """So that it is pickled as that, and the other process finds its own ghost there."""
    source, given = apply(Ghost(ID, "x", "", program=lambda x, dim=-1: x), solution())
    assert "\nsoftmax = __ghost__\n" in source
    program = given["__ghost__"]
    assert (program.__module__, program.__qualname__, program.__name__) == ("level00.layers", "softmax", "softmax")
    assert program(3) == 3


def test_a_slip_is_known_by_its_number_whatever_its_type():
    right, slip = 4, next(g for g in ghosts.haunts("level00") if g.value is not None)
    assert ghosts.slips(slip.id, slip.value, 0.01) == [slip]
    assert ghosts.slips(slip.id, float(slip.value), 0.01) == [slip]
    assert ghosts.slips(slip.id, right * 1000.5, 0.01) == []


def test_who_tries_ghosts_ends_in_silence_when_the_run_that_asks_was_killed(capfd):
    medium = ghosts.Medium()
    medium.ask(next(g for g in ghosts.haunts("level00") if g.value is None), [])
    medium.channel.close()
    medium.process.join(10)
    assert medium.process.exitcode == 0 and capfd.readouterr().err == ""


def test_of_two_slips_that_are_close_together_the_nearer_one_is_named():
    named = [ghosts.slips("level04.worksheet.mfu_percent", answer, 0.01)[0].name for answer in (5.707, 5.73)]
    assert named == ["all_parameters", "kv_heads"]


def test_what_a_ghost_came_to_is_not_run_again(monkeypatch):
    """In the gauntlet, where many programs fail in the same case. A lenient question is asked of the mounted ghost."""
    runs, mounted = [], []
    monkeypatch.setattr(ghosts, "summon", mounted.append)
    monkeypatch.setattr(Pickled, "again", lambda case: runs.append(case) or Outcome(7))
    told = dumps((Outcome(7), 1e-5, 1e-6, None)), dumps((Outcome(8), 1e-5, 1e-6, None))
    same, other = (Pickled(b"question", answer) for answer in told)
    known = {}
    assert explained("a ghost", [same], known=known) == [True] and (len(runs), len(mounted)) == (1, 1)
    assert explained("a ghost", [other, same], known=known) == [False, True]
    assert (len(runs), len(mounted)) == (1, 1)
    assert explained("a ghost", [same], lenient=True, known=known) == [True] and len(runs) == 2
    assert explained("another", [same], known={}) == [True] and (len(runs), len(mounted)) == (3, 3)
