"""`watch`: which tests a save may change, that a run begins warm, and what a save during a run does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojo import catalog, watch
from tests.miniature import Miniature

BPE, ACCOUNTING = Path("levels/level00/bpe.py"), Path("levels/level00/accounting.py")


def names(paths) -> set[str]:
    return {path.name for path in paths}


# ---- what is affected


def test_a_module_affects_those_that_import_it_also_by_way_of_others():
    assert watch.affected("level00", {"layers"}) == {"layers", "transformer"}
    assert watch.affected("level00", {"transformer"}) == {"transformer"}
    assert watch.affected("level03", {"sampling"}) >= {"sampler", "chat"}
    assert watch.affected("level02", {"README", "nothing"}) == set()


def test_what_the_learner_imports_counts_and_the_solutions_imports_while_it_does_not_parse(project, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", project.root)
    project.write("levels/level00/shelf.py", "from .sums import total\n")
    assert watch.affected("level00", {"sums"}) == {"sums", "shelf"}
    project.write("levels/level00/shelf.py", "from . import (sums, worksheet)\n")
    assert watch.imported("level00", "shelf") == {"sums", "worksheet"}
    project.write("levels/level00/shelf.py", "from .sums import (\n")
    assert watch.imported("level00", "shelf") == set()


def test_the_tests_are_those_of_the_affected_modules():
    assert names(watch.tests("level00", {"layers"})) == {"test_00_layers.py", "test_00_transformer.py"}
    assert names(watch.tests("level00", {"worksheet"})) == {"test_00_worksheet.py"}
    assert watch.tests("level00", {"nothing"}) == []


# ---- the loop


class Process:
    """Stands for a warm process: notes what it is told, and runs until `over` is set."""

    made: list["Process"] = []

    def __init__(self):
        self.files, self.over, self.stopped = None, False, False
        Process.made.append(self)

    def run(self, files):
        self.files = names(files)

    def ended(self):
        return self.over

    def stop(self):
        self.stopped = True


@pytest.fixture
def follow(monkeypatch):
    """follow(*looks): what is said; each look is what was saved since, or a function that is called in between."""
    monkeypatch.setattr(watch, "Warm", Process)
    Process.made = []

    def run(*looks):
        def changes():
            for look in looks:
                yield look() or set() if callable(look) else look
            raise KeyboardInterrupt

        said = []
        watch.watch("level00", said.append, changes())
        return said

    return run


def end_of(number):
    def end():
        Process.made[number].over = True

    return end


def test_a_save_runs_its_tests_in_the_process_that_waits(follow):
    said = follow(set(), {BPE}, set())
    [first] = Process.made
    assert first.files == {"test_00_bpe.py"}, "the run has the cores to itself"
    assert said == ["saved: bpe"] and first.stopped, "Ctrl-C leaves no process"


def test_the_next_process_is_warmed_when_a_run_has_ended(follow):
    follow({BPE}, end_of(0), set())
    first, second = Process.made
    assert first.files and second.files is None and second.stopped


def test_a_save_during_a_run_starts_it_anew_with_both(follow):
    said = follow({BPE}, {ACCOUNTING}, set())
    first, second = Process.made
    assert first.stopped and second.files == {"test_00_bpe.py", "test_00_accounting.py"}
    assert said == ["saved: bpe", "saved: accounting, bpe"]


def test_after_a_run_only_the_new_save_counts(follow):
    said = follow({BPE}, end_of(0), set(), {ACCOUNTING})
    assert Process.made[1].files == {"test_00_accounting.py"}
    assert said == ["saved: bpe", "watching levels/level00: save a file, or Ctrl-C", "saved: accounting"]


def test_what_is_no_module_of_the_level_runs_nothing(follow):
    assert follow({Path("levels/level00/README.md"), Path("levels/level00/notes.py"), Path("x/.bpe.py.swp")}) == []
    assert len(Process.made) == 1


# ---- the real thing


def wait_for(text: str, log: Path, seconds: float = 45, after: str = "") -> str:
    end = time.monotonic() + seconds
    while text not in (said := log.read_text(encoding="utf-8")[len(after) :]):
        assert time.monotonic() < end, said
        time.sleep(0.05)
    return said


@pytest.mark.timeout(120)
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent by a signal")
def test_a_save_is_judged_and_recorded(project: Miniature, tmp_path):
    log = tmp_path / "log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "dojo", "watch", "level00"]
        env = project.environment()
        running = subprocess.Popen(command, cwd=project.root, env=env, stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for("watching levels/level00", log)
            time.sleep(1)  # the watcher of files is set up after that line
            project.solve("level00.sums")
            said = wait_for("\nwatching levels/level00", log)
            recorded = project.progress()
            project.change("level00.sums", ("sum(numbers)\n", "sum(numbers[:1])\n"))
            wrong = wait_for("\nwatching levels/level00", log, after=said)
        finally:
            os.killpg(running.pid, signal.SIGINT)
            code = running.wait(10)
    assert "saved: sums" in said and "cleared     level00.sums.total" in said and "todo" not in said
    assert code == 0 and "Traceback" not in log.read_text()
    assert "You return the first number: add all of them." in wrong, "a run may start the process that tries ghosts"
    assert "level00.sums.mean" in recorded


@pytest.mark.timeout(120)
def test_a_process_is_warm_before_its_tests_come(project, monkeypatch):
    """Torch is imported while nobody waits: what is left is the tests' own time."""
    monkeypatch.setenv("DOJO_ROOT", str(project.root))
    project.solve("level00")
    noting = "import sys, pathlib\npathlib.Path('warm').write_text(str('torch' in sys.modules))\n"
    project.write("conftest.py", noting + (project.root / "conftest.py").read_text())
    monkeypatch.chdir(project.root)
    warm = watch.Warm()
    try:
        warm.run([project.root / "levels/level00/tests/test_00_sums.py"])
        warm.process.join(60)
    finally:
        warm.stop()
    assert (project.root / "warm").read_text() == "True" and "level00.sums.mean" in project.progress()
