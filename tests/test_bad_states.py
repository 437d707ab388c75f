"""Every failure of a file, the environment or the command line: one sentence that ends with its fix, no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.miniature import changed, screen, solved, then, tidy, untouched, written
from tests.test_verdicts import FIRST_ONLY, LEVEL, block, total

SUMS = "levels/level00/sums.py"
LATIN = "def total(numbers):\n    return 'é'\n".encode("latin-1")


@screen(then(solved("level00"), written(SUMS, "def total(numbers):\n    return sum(numbers\n")))
def test_a_syntax_error_is_said_once(screen):
    """The other modules are judged all the same."""
    assert screen.code == 1
    assert tidy(screen.text) == tidy("""
level00 · Small sums

  error       level00.sums.total
                levels/level00/sums.py, line 2: '(' was never closed
                    return sum(numbers
                Mend that line; until then nothing in the file can run.
  error       level00.sums.mean                        for the same reason
  error       level00.sums.halves                      for the same reason
  cleared     level00.shelf.Shelf
  cleared     level00.worksheet.seconds
  cleared     level00.worksheet.kib
  error       level00.checkpoint                       for the same reason

  · ᗧ ○ ○ ○ ◉
  775 of 2200 points · next: level00.sums.total
  Mend levels/level00/sums.py, then run nox -s level00 again.
""")


BACK = "`nox -s reset -- level00.sums` brings the stubs back"
FILES = {
    "indentation": ("def total(numbers):\nreturn 1\n", "sums.py, line 2: expected an indented block"),
    "a name": (
        "x = nothing\n",
        "NameError: name 'nothing' is not defined\nlevels/level00/sums.py:1 in <module>: x = nothing",
    ),
    "a package": ("import pandas_ng\n", "No module named 'pandas_ng': leave that import out, or install the package"),
    "a deleted function": ("def total(numbers): ...\n", f"was it renamed or deleted? {BACK}"),
    "an empty file": ("", f"cannot import name 'halves' from 'level00.sums': was it renamed or deleted? {BACK}"),
    "another encoding": (LATIN, "levels/level00/sums.py is not UTF-8 text: save it in that encoding"),
    "NUL bytes": (b"x = 1\0\n", "levels/level00/sums.py is not UTF-8 text: save it in that encoding"),
    "UTF-16": ("x = 1\n".encode("utf-16"), "levels/level00/sums.py is not UTF-8 text: save it in that encoding"),
}


@pytest.mark.parametrize("said", [pytest.param(s, id=k, marks=screen(written(SUMS, t))) for k, (t, s) in FILES.items()])
def test_a_module_that_can_not_be_imported(screen, said):
    text = block(screen, "level00.sums.total")
    assert said in text.replace("\n  ", "\n") or said in text.replace("\n  ", " ")
    assert text.startswith("error       level00.sums.total\n") and "Traceback" not in screen.text + screen.err


@screen(lambda project: (project.root / SUMS).unlink())
def test_a_deleted_file(screen):
    assert f"levels/level00/sums.py is not there: {BACK}" in screen.text


def add_a_byte_order_mark(project):
    project.solve("level00")
    path = project.root / SUMS
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@screen(add_a_byte_order_mark)
def test_a_byte_order_mark_does_no_harm(screen):
    assert screen.code == 0 and "2200 of 2200" in screen.text


@screen(total("import os; os._exit(3)"), *LEVEL, DOJO_SUMMARY="summary")
def test_a_crash_leaves_a_line_for_nox(screen):
    assert (screen.project.root / "summary").read_text() == "the run ended while level00.sums.total was judged"


# ---- the record


@screen(then(solved("level00.shelf"), written(".dojo/progress.json", "{oops")))
def test_a_damaged_record_is_set_aside(screen):
    assert "progress.json was damaged" in screen.text and "run your levels again" in screen.text.replace("\n", " ")
    kept = [path for path in (screen.project.root / ".dojo").iterdir() if "damaged" in path.name]
    assert [path.read_text() for path in kept] == ["{oops"]
    assert screen.project.progress() == {"level00.shelf.Shelf"}


@screen(then(solved("level00"), written(".dojo", "a file")))
def test_a_record_that_can_not_be_written_does_no_harm(screen):
    """A file where the folder should be: even root can't write there."""
    assert screen.code == 0 and "cleared     level00.checkpoint" in screen.text
    assert screen.text.count("note:") == 1


@screen(
    then(
        solved("level00"),
        total("return sum(numbers)"),
        changed("level00.shelf", ("self.things.append(thing)", "import os; os._exit(9)")),
    )
)
def test_a_killed_run_keeps_what_it_said(screen):
    assert screen.code == 9 and "cleared     level00.sums.halves" in screen.text
    assert screen.project.progress() == {"level00.sums.total", "level00.sums.mean", "level00.sums.halves"}


@screen(untouched, *LEVEL, "--impl", "solutions")
def test_the_solutions_leave_no_record(screen):
    assert screen.code == 0 and "These are the solutions: nothing is recorded." in screen.text
    assert "2200 of 2200" in screen.text and not screen.project.progress()


@screen(solved("level00"), "pytest", "levels/level00/tests/test_00_sums.py::test_the_mean_is_between")
def test_some_of_the_tests_of_a_kata_change_nothing(screen):
    assert "cleared     level00.sums.mean                        only some of its tests ran" in screen.text
    assert "0 of 2200 points" in screen.text and "Run the whole level: nox -s level00." in screen.text
    assert not screen.project.progress()


@screen(solved("level00"), *LEVEL, "-k", "mean")
def test_all_tests_of_a_kata_count(screen):
    assert screen.code == 0 and screen.project.progress() == {"level00.sums.mean"}
    assert "Run the whole level: nox -s level00." in screen.text


# ---- Ctrl-C


@pytest.mark.skipif(os.name == "nt", reason="there is no group to interrupt")
def test_ctrl_c_keeps_what_was_judged(project):
    """The whole group is told, as a terminal does: the ghosts' process must not print a traceback of its own."""
    project.change("level00.sums", ("total(numbers) / len(numbers)", "total(numbers) // len(numbers)"))
    project.change(
        "level00.shelf", ("self.things.append(thing)", "open('here', 'w').close(); import time; time.sleep(30)")
    )
    run = subprocess.Popen(
        project.command(*LEVEL),
        cwd=project.root,
        env=project.environment(DOJO_SUMMARY="summary"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not (project.root / "here").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    out, err = (stream.decode() for stream in run.communicate(timeout=30))
    assert (run.returncode, err) == (2, "")
    assert "You divide whole numbers: the fraction is lost." in out
    assert tidy(out).endswith("\n\n  Stopped. What was judged so far is kept.")
    assert (project.root / "summary").read_text() == "stopped"
    assert project.progress() == {"level00.sums.total", "level00.sums.halves"}


# ---- terminals


@screen(total("print('héllo'); return 3"), *LEVEL, PYTHONIOENCODING="ascii")
def test_a_console_without_unicode(screen):
    assert screen.text.isascii() and "level00 . Small sums" in screen.text and "  . C o o o O\n" in screen.text
    assert "printed: h?llo" in screen.text and not screen.err


@screen(FIRST_ONLY, *LEVEL, COLUMNS="60")
def test_a_narrow_terminal(screen):
    assert max(map(len, screen.text.splitlines())) <= 60
    assert "  blocked     level00.sums.mean\n              by level00.sums.total: fix that first\n" in screen.text
    assert "  Mend levels/level00/sums.py, then run nox -s level00\n  again.\n" in screen.text


@screen(FIRST_ONLY)
def test_a_pipe_gets_no_colour(screen):
    assert "\x1b" not in screen.text


@screen(FIRST_ONLY, *LEVEL, "--color", "yes")
def test_colour_when_it_is_asked_for(screen):
    """And the state is a word besides."""
    assert "\x1b[31m  wrong       level00.sums.total" in screen.text


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
@pytest.mark.parametrize("arguments", [LEVEL, ("dojo", "maze")], ids=["run", "maze"])
def test_a_terminal_gets_colour_unless_no_color_is_set(project, arguments):
    assert "\x1b[" in on_a_terminal(project, *arguments)
    assert "\x1b[" not in on_a_terminal(project, *arguments, NO_COLOR="1")


def on_a_terminal(project, *arguments: str, **extra: str) -> str:
    import pty

    ours, theirs = pty.openpty()
    command = {"cwd": project.root, "env": project.environment(TERM="xterm", **extra)}
    with subprocess.Popen(project.command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, **command):
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 4096):
                said += piece
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    return said.decode()


# ---- the command line


@screen(solved("level00"), *LEVEL, "-k", "nothing")
def test_no_test_matches(screen):
    assert screen.code == 5
    assert "No test of level00 matches; see their names with `pytest --collect-only -q levels/level00`." in screen.text


@screen(untouched, *LEVEL, "-x")
def test_stop_at_the_first(screen):
    assert screen.code == 1 and "todo        level00.sums.total\n" in screen.text and "sums.mean" not in screen.text


@screen(total("print('live'); return 3"), *LEVEL, "-s")
def test_prints_come_at_once_with_s(screen):
    assert "\nlive\n" in screen.text and "printed:" not in screen.text


@pytest.mark.parametrize(
    "flag",
    [
        pytest.param(f, marks=screen(solved("level00"), *LEVEL, f))
        for f in ("-v", "-q", "--benchmark-skip", "--benchmark-disable")
    ],
)
def test_flags_that_change_nothing(screen, flag):
    assert screen.code == 0 and tidy(screen.text).splitlines()[2] == "  cleared     level00.sums.total"
    assert "2200 of 2200" in screen.text


@screen(untouched, *LEVEL, "--collect-only", "-q")
def test_names_only(screen):
    assert screen.code == 0 and "levels/level00/tests/test_00_shelf.py::test_last_in_first_out\n" in screen.text
    assert "todo" not in screen.text


@screen(untouched, *LEVEL, "--setup-plan")
def test_a_plan_is_no_verdict(screen):
    assert "cleared" not in screen.text


@screen(total("return numbers[5]"), *LEVEL, "--pdb")
def test_the_debugger_opens_and_ends_with_its_input(screen):
    assert "entering PDB" in screen.text and "-> expect(total, numbers).equals(right)" in screen.text
    assert "Stopped. What was judged so far is kept." in screen.text


@screen(untouched, *LEVEL, "--help")
def test_help_is_pytests_own(screen):
    assert screen.code == 0 and "--impl" in screen.text


@screen(solved("level00"), "pytest", cwd="levels/level00")
def test_inside_a_level(screen):
    assert screen.code == 0 and "2200 of 2200" in screen.text


def test_from_another_folder(project, tmp_path):
    project.solve("level00")
    said = project.run("pytest", str(project.root / "levels/level00"), cwd=str(tmp_path))
    assert said.code == 0 and "2200 of 2200" in said.text


@screen(then(solved("level00"), total("import warnings; warnings.warn('x'); return sum(numbers)")))
def test_a_warning_is_no_noise(screen):
    assert screen.code == 0 and "warning" not in screen.text.lower() + screen.err.lower()


@screen(solved("level00"), "pytest", "levels/level00", "levels/level01")
def test_two_levels_come_one_after_the_other(screen):
    first, second = screen.text.split("level01 · Later sums")
    assert "level01.later" not in first and "2200 of 2200" in first
    assert "level00.sums" not in second and "0 of 1800 points · next: level01.later.doubled" in second


@screen(solved("level01"), "pytest", "levels/level01")
def test_a_later_level_says_whose_code_it_imports(screen):
    assert screen.code == 0 and "  imports level00: solutions\n" in screen.text


def test_a_cleared_level_is_imported_by_the_next(project):
    project.solve("level00", "level01")
    assert project.run("pytest", "levels/level00").code == 0
    assert "  imports level00: yours\n" in project.run("pytest", "levels/level01").text


MODEL = """
from dojo.models import ModelMissing


@pytest.fixture(autouse=True)
def model():
    raise ModelMissing("no model: install it")
"""


def raise_model_missing(project):
    project.solve("level00")
    path = project.root / "levels/level00/checkpoint/test_00_checkpoint.py"
    path.write_text(path.read_text(encoding="utf-8") + MODEL, encoding="utf-8")


@screen(raise_model_missing)
def test_without_the_model_all_but_the_checkpoint_is_judged(screen):
    assert block(screen, "level00.checkpoint").endswith("\n  no model: install it") and "1400 of 2200" in screen.text
    assert "Only the checkpoint is left: mend what it says above." in screen.text


def test_a_level_without_torch_does_not_import_it(project):
    """The first screen of a learner comes in well under a second."""
    project.write("levels/level00/tests/conftest.py", "")
    script = "import sys, pytest; pytest.main(['levels/level00']); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project.root,
        env=project.environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.stdout.rstrip().endswith("False")
