"""What `nox` prints around a run: the list of sessions, a level's last line, nothing else of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import noxfile

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A small clone in a path with a space, its .venv ready: the packages are this environment's."""
    root = tmp_path_factory.mktemp("with space") / "kata"
    level = root / "levels/level00"
    level.mkdir(parents=True)
    shutil.copytree(ROOT / "environment", root / "environment", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    level.joinpath("README.md").write_text("# level00 · Transformer fundamentals\n\nThesis.\n", encoding="utf-8")
    level.joinpath("test_00.py").write_text("def test_kata():\n    assert False\n\n\ndef test_fine():\n    pass\n")
    root.joinpath("conftest.py").write_text(
        "import os, pathlib\n\n\ndef pytest_sessionfinish(session):\n"
        "    pathlib.Path(os.environ['DOJO_SUMMARY']).write_text(f'{session.testsfailed} todo, 0 wrong')\n"
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    packages = next((root / ".venv").rglob("site-packages"))
    packages.joinpath("here.pth").write_text(str(Path(pytest.__file__).parent.parent))
    write_stamp = "import environment as e; e.STAMP.write_text(e.stamp('cpu'))"
    subprocess.run([sys.executable, "-c", write_stamp], cwd=root, check=True)
    return root


def nox(clone: Path, *args: str) -> tuple[int, str]:
    """Run nox in the clone; (exit code, what it printed)."""
    env = {name: value for name, value in os.environ.items() if name not in ("KATA_TORCH", "FORCE_COLOR", "PY_COLORS")}
    command = [sys.executable, "-m", "nox", "--no-color", *args]
    done = subprocess.run(command, cwd=clone, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def test_the_list_names_each_level_by_its_lesson(clone):
    code, output = nox(clone, "-l")
    assert code == 0 and "* level00 -> Transformer fundamentals\n" in output
    assert all(f"- {verb} -> " in output for verb in [*noxfile.VERBS, "levels", "tests", "noise", "fresh_clone"])


def test_a_level_ends_with_the_summary_of_its_report(clone):
    """No stack, no `Command … failed`: the last line is the one to act on."""
    code, output = nox(clone, "-s", "level00")
    assert code == 1 and "Command" not in output and "Running session" not in output
    assert output.splitlines()[-1].startswith("nox > level00: 1 todo, 0 wrong")


def test_arguments_after_the_dashes_reach_pytest(clone):
    """And a green run says nothing after pytest's own last line."""
    code, output = nox(clone, "-s", "level00", "--", "-k", "fine")
    assert code == 0 and "1 passed, 1 deselected" in output.splitlines()[-1]
    code, output = nox(clone, "-s", "level00", "--", "-k", "nothing_is_called_that")
    assert code == 1 and "level00: no test was selected" in output


def test_the_gauntlets_run_beside_the_other_tests_and_report_last(clone):
    folder = clone / "tests"
    folder.mkdir()
    folder.joinpath("test_other.py").write_text("def test_fine():\n    pass\n")
    for body, failed in (("pass", False), ("assert 0", True)):
        folder.joinpath("test_gauntlet.py").write_text(f"def test_ghosts():\n    {body}\n")
        code, output = nox(clone, "-s", "tests")
        both = output.index("1 passed"), output.rindex("1 failed" if failed else "1 passed")
        assert both[0] < both[1] and code == failed
        assert ("tests: tests/test_gauntlet.py failed, see above" in output.splitlines()[-1]) is failed
    folder.joinpath("test_other.py").write_text("def test_fine():\n    assert 0\n")
    assert "tests: 1 todo, 0 wrong; tests/test_gauntlet.py failed" in nox(clone, "-s", "tests")[1]


def test_a_run_without_a_summary_still_ends_in_a_sentence(monkeypatch):
    monkeypatch.setattr(noxfile, "run", lambda *command, **extra: 3)
    assert noxfile.judge("levels/level00") == "the run stopped early"


def test_a_bare_nox_runs_the_next_level(tmp_path, monkeypatch):
    """The first whose checkpoint is not on record; a damaged record counts as none."""
    monkeypatch.setattr(noxfile, "ROOT", tmp_path)
    monkeypatch.setattr(noxfile, "LEVELS", ["level00", "level01"])
    record = tmp_path / ".dojo/progress.json"
    record.parent.mkdir()
    assert noxfile.next_level() == "level00"
    record.write_text('{"cleared": {"level00.checkpoint": {}}}')
    assert noxfile.next_level() == "level01"
    record.write_text("{")
    assert noxfile.next_level() == "level00"
