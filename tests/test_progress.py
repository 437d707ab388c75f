"""dojo.progress: what is recorded, when it still counts, and that no record is ever lost or overwritten unread."""

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojo import catalog
from dojo.progress import UNREADABLE, Progress, code_digest, digest

KATA, OTHER, ANSWER, CHECKPOINT = "level00.sums.total", "level00.more.mean", "level00.worksheet.a", "level00.checkpoint"
SOURCE = '"""Sums."""\n\n\ndef total(x):\n    """Return the sum.\n\n    ● · about 1 line\n    """\n    return sum(x)\n'
FILES = {
    "sums.py": SOURCE,
    "more.py": SOURCE.replace("total", "mean"),
    "worksheet.py": "from math import pi\n\na = 2 * pi\nb = 1\n",
}


@pytest.fixture
def level(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    for tree in ("levels", "solutions"):
        (tmp_path / tree / "level00").mkdir(parents=True)
        for name, text in FILES.items():
            (tmp_path / tree / "level00" / name).write_text(text, encoding="utf-8")
    for function in (catalog.katas, catalog.answers, catalog.points):
        function.cache_clear()
    yield tmp_path / "levels/level00"
    for function in (catalog.katas, catalog.answers, catalog.points):
        function.cache_clear()


def record(*ids):
    progress = Progress()
    for id in ids:
        progress.record(id, True)
    return progress


def content(level) -> dict:
    return json.loads((level.parents[1] / ".dojo/progress.json").read_text(encoding="utf-8"))


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


# ---- what counts


def test_a_verdict_is_on_the_disk_at_once(level):
    """An interrupted run loses nothing."""
    record(KATA)
    assert Progress().state(KATA) == "cleared" and Progress().state(OTHER) == "open"
    record(OTHER).record(KATA, False)
    assert Progress().state(KATA) == "open" and Progress().state(OTHER) == "cleared"
    assert [p.name for p in (level.parents[1] / ".dojo").iterdir()] == ["progress.json"], "no temporary file is left"


@pytest.mark.parametrize(
    "old, new",
    [
        ("Return the sum.", "Add them up."),
        ('"""Sums."""\n', "# my own\n"),
        ("sum(x)", "sum( x )  # all of them"),
        ("return sum(x)", "return (sum(\n        x))"),
        ("\n", "\n\n"),
    ],
)
def test_docstrings_comments_and_formatting_are_no_edits(level, old, new):
    progress = record(KATA)
    edit(level / "sums.py", old, new)
    assert progress.state(KATA) == "cleared"


@pytest.mark.parametrize("new", ["sum(x, 0)", "sum(y)", "sum(x) if x else 0", "sum(x", "'sum'"])
def test_code_edits_show_and_undoing_them_too(level, new):
    progress = record(KATA, OTHER, CHECKPOINT)
    edit(level / "sums.py", "sum(x)", new)
    assert [progress.state(id) for id in (KATA, OTHER, CHECKPOINT)] == ["edited", "cleared", "edited"]
    assert not progress.level_cleared("level00")
    edit(level / "sums.py", new, "sum(x)")
    assert progress.level_cleared("level00")


def test_line_ends_and_a_byte_order_mark_are_no_edits(level):
    progress = record(KATA)
    (level / "sums.py").write_bytes(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode())
    assert progress.state(KATA) == "cleared"


def test_a_file_that_can_not_be_read_is_never_cleared(level):
    """Or the next thing written into it would count as cleared."""
    for spoil in (b"def (", b"\0", b"\xff\xfe", None):
        (level / "sums.py").write_bytes(spoil) if spoil else (level / "sums.py").unlink()
        assert digest(KATA) == code_digest(level / "sums.py") == UNREADABLE
        assert record(KATA, CHECKPOINT).state(KATA) == "edited" and Progress().state(CHECKPOINT) == "edited"


def test_worksheet_answers_stand_for_themselves(level):
    progress = record(ANSWER, "level00.worksheet.b", CHECKPOINT)
    edit(level / "worksheet.py", "b = 1", "b = 7")
    states = [progress.state(id) for id in (ANSWER, "level00.worksheet.b", CHECKPOINT)]
    assert states == ["cleared", "edited", "cleared"]


def test_a_level_is_cleared_by_its_katas_and_checkpoint(level):
    assert not record(KATA, OTHER).level_cleared("level00")
    assert record(CHECKPOINT).level_cleared("level00"), "the worksheet locks nothing"
    edit(level / "worksheet.py", "a = 2", "a = 3")
    assert Progress().level_cleared("level00")


def test_the_score_keeps_what_was_edited_since(level):
    progress = record(KATA, ANSWER)
    edit(level / "sums.py", "sum(x)", "max(x)")
    assert progress.score("level00") == 500 + 200


def test_the_digest_is_the_same_in_every_python(level):
    """It goes by the code's text, not by how one version of Python names the parts of a tree."""
    text = b"def total(x):\n    return sum(x)"
    assert code_digest(level / "sums.py") == hashlib.sha256(text).hexdigest()[:16]


# ---- the file


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"cleared": {}}', '{"cleared": [], "hints": {}}', "[" * 100_000]
)
def test_a_damaged_file_is_set_aside_and_said(level, text):
    record(KATA)
    path = level.parents[1] / ".dojo/progress.json"
    for _ in range(2):  # also twice within a second
        path.write_text(text, encoding="utf-8")
        (note,) = Progress().notes
        assert "was damaged and is kept as progress.damaged-" in note
    kept = list(path.parent.glob("progress.damaged-*.json"))
    assert [p.read_text(encoding="utf-8") for p in kept] == [text, text]
    assert record(KATA).notes == [] and Progress().state(KATA) == "cleared"


def test_a_file_that_is_no_text_is_set_aside(level):
    record(KATA)
    (level.parents[1] / ".dojo/progress.json").write_bytes(b"\xff\xfe\0")
    assert "was damaged" in Progress().notes[0]


@pytest.mark.parametrize("entry", [3, None, "x", [], {}, {"digest": 3}])
def test_a_strange_entry_is_not_cleared(level, entry):
    record(KATA)
    data = content(level) | {"hints": {KATA: "x"}}
    data["cleared"][KATA] = entry
    (level.parents[1] / ".dojo/progress.json").write_text(json.dumps(data), encoding="utf-8")
    assert Progress().state(KATA) != "cleared" and Progress().reveal_hint(KATA, 3) == 1


def test_ids_that_no_longer_exist_do_no_harm_and_stay(level):
    record(KATA)
    data = content(level)
    data["cleared"]["level99.gone.kata"] = data["cleared"]["nonsense"] = {"digest": "1"}
    (level.parents[1] / ".dojo/progress.json").write_text(json.dumps(data), encoding="utf-8")
    record(OTHER)
    assert {"level99.gone.kata", "nonsense", KATA, OTHER} == set(content(level)["cleared"])
    assert Progress().score("level00") == 1000


def test_a_record_of_a_newer_version_is_read_and_left_alone(level):
    record(KATA)
    path = level.parents[1] / ".dojo/progress.json"
    path.write_text(newer := json.dumps(content(level) | {"version": 2}), encoding="utf-8")
    progress = record(OTHER)
    assert progress.state(KATA) == progress.state(OTHER) == "cleared", "for this run"
    assert path.read_text(encoding="utf-8") == newer and "a newer version" in progress.notes[0]


def test_a_file_that_can_not_be_read_is_left_alone(level, monkeypatch):
    record(KATA)
    before = content(level)
    with monkeypatch.context() as patch:
        patch.setattr(
            Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
        )
        progress = record(OTHER)
        assert "can't be read (Permission denied), so nothing is recorded: make it readable" in progress.notes[0]
    assert content(level) == before and progress.state(OTHER) == "cleared"


@pytest.mark.parametrize("call", ["os.replace", "pathlib.Path.mkdir", "pathlib.Path.write_text"])
def test_a_folder_that_can_not_be_written_is_said_once(level, monkeypatch, call):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(call, refuse)
    progress = record(KATA, OTHER)
    assert [note.endswith("(Read-only file system): make that folder writable") for note in progress.notes] == [True]
    assert progress.state(KATA) == progress.state(OTHER) == "cleared", "for this run"


def test_a_damaged_file_that_can_not_be_moved_is_left_alone(level, monkeypatch):
    record(KATA)
    path = level.parents[1] / ".dojo/progress.json"
    path.write_text("{", encoding="utf-8")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert "is damaged and can't be moved, so nothing is recorded: delete it" in record(OTHER).notes[0]
    assert path.read_text(encoding="utf-8") == "{"


def test_two_runs_at_once_keep_each_others_verdicts(level):
    """`watch` in one window, a full run in the other."""
    first, second = Progress(), Progress()
    first.record(KATA, True)
    second.record(OTHER, True)
    first.record(ANSWER, True)
    assert {KATA, OTHER, ANSWER} == set(content(level)["cleared"])


def test_hints_are_counted_and_stop_at_the_last(level):
    assert [Progress().reveal_hint(KATA, 3) for _ in range(5)] == [1, 2, 3, 3, 3]
    assert Progress().reveal_hint(OTHER, 0) == 0


def test_a_killed_writer_leaves_a_whole_file(level):
    """Killed between two records, at any moment: the file is one of the two whole ones."""
    code = "from dojo.progress import Progress\np = Progress()\nwhile True:\n    p.record('level00.sums.total', True)\n"
    env = os.environ | {"DOJO_ROOT": str(level.parents[1]), "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    path = level.parents[1] / ".dojo/progress.json"
    for wait in (0.01, 0.013, 0.017, 0.02):
        path.unlink(missing_ok=True)
        child = subprocess.Popen([sys.executable, "-c", code], env=env)
        while not path.exists() and child.poll() is None:
            time.sleep(0.001)
        time.sleep(wait)
        child.kill(), child.wait()
        progress = Progress()
        assert (progress.notes, progress.state(KATA)) == ([], "cleared")
