"""dojo.catalog: what exists, read from the text of solutions, lessons and tests."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from dojo import catalog

PARTS = '''
def helper(x):
    """A given function without metadata."""


def small(x):
    """Return x.

    ● · about 2 lines · part of large
    """


async def large(x):
    """Return more of x.

    Second paragraph.

    ●●● · about 1 line · needs level00.parts.Pool, level00.parts.Pool.take · trivial
    """


class Pool:
    """Hold things.

    ●● · about 7 lines
    """

    def take(self):
        """Return a thing.

        ●● · about 3 lines · needs level00.parts.large
        """
'''
TESTS = """
import pytest

@pytest.mark.kata("level00.parts.large")
@pytest.mark.parametrize("x", [1, 2])
def test_one(x): ...

class TestIt:
    @pytest.mark.kata("level00.parts.large")
    def test_two(self): ...

@pytest.mark.kata("level00.worksheet.a_number")
def test_three(): ...

@pytest.fixture
def given(): ...
"""
FILES = {
    "solutions/level00/parts.py": PARTS,
    "solutions/level00/given.py": "X = 1\n",
    "solutions/level00/ghosts/parts.py": "ghost()\n",
    "solutions/level00/alternatives/parts.py": "",
    "solutions/level00/worksheet.py": '"""Two."""\nfrom math import pi\na_number = 2 * pi\nother = 3\n',
    "levels/level00/README.md": "# Level 00 · Parts of things\n`level00.parts.large`\n\n## Clyde · code lab\n"
    "| `level00.parts.Pool` |\n| `level00.parts.Pool.take` |\n| `level00.parts.large` |\n",
    "levels/level00/tests/test_00_parts.py": TESTS,
    "levels/level07/README.md": "",
    "levels/notes/README.md": "",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        forget()

    def forget():
        for function in (catalog.katas, catalog.answers, catalog.tests, catalog.points, catalog.title):
            function.cache_clear()

    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    for name, text in FILES.items():
        write(name, text)
    yield write
    forget()


def test_katas_come_in_the_order_of_the_lesson(project):
    """Of the lesson's table: what its text mentions before does not count."""
    assert [k.id for k in catalog.katas("level00")] == [
        "level00.parts.Pool",
        "level00.parts.Pool.take",
        "level00.parts.large",
    ]
    project("levels/level00/README.md", "# no table yet")
    assert [k.id.split(".")[-1] for k in catalog.katas("level00")] == ["large", "Pool", "take"], "as in the file"


def test_a_kata_is_what_its_docstring_says(project):
    large = catalog.kata("level00.parts.large")
    assert (large.dots, large.lines, large.trivial, large.names) == (3, 3, True, ("large", "small"))
    assert large.needs == ("level00.parts.Pool", "level00.parts.Pool.take")
    assert (large.summary, large.level, large.module) == ("Return more of x.", "level00", "parts")
    assert catalog.kata("level00.parts.Pool").needs == ()


@pytest.mark.parametrize(
    "line", ["●● about 3 lines", "●●●● · about 3 lines", "● · about 3 lines · neds level00.a.b", "● · 3 lines"]
)
def test_a_typo_does_not_make_a_kata_disappear(line):
    node = ast.parse(f'def f():\n    """Return.\n\n    {line}\n    """').body[0]
    with pytest.raises(ValueError, match="f: .* is not metadata; write "):
        catalog.metadata(node)


def test_part_of_what_is_not_there_is_refused(project):
    project("solutions/level00/parts.py", PARTS.replace("part of large", "part of lrge"))
    with pytest.raises(ValueError, match="small is part of lrge, which is no kata there"):
        catalog.katas("level00")


def test_a_level_has_given_modules_and_a_worksheet_as_well(project):
    assert catalog.modules("level00") == ["given", "parts", "worksheet"]
    assert catalog.answers("level00") == ("level00.worksheet.a_number", "level00.worksheet.other")
    assert catalog.ids("level00")[-3:] == [*catalog.answers("level00"), "level00.checkpoint"]
    assert catalog.katas("level07") == () and catalog.answers("level07") == ()


def test_tests_are_found_by_their_marker(project):
    found = {id: [name for _, name in places] for id, places in catalog.tests("level00").items()}
    assert found == {
        "level00.parts.large": ["test_one", "TestIt.test_two"],
        "level00.worksheet.a_number": ["test_three"],
    }


def test_levels_are_folders_with_a_number(project):
    assert catalog.level_names() == ["level00", "level07"]
    assert {catalog.level_name(text) for text in ("7", "07", "level07", "level7", "Level07")} == {"level07"}
    for text in ("5", "levels", "", "-7", "notes", "²"):
        with pytest.raises(catalog.UnknownId, match="the levels are level00, level07"):
            catalog.level_name(text)
    assert catalog.title("level00") == "Parts of things" and catalog.title("level07") == ""


def test_an_unknown_kata_is_told_with_the_nearest(project):
    for wrong, near in [("level00.parts.lrage", "parts.large"), ("large", "parts.large"), ("level00", "parts.Pool")]:
        with pytest.raises(catalog.UnknownId, match=f"there is no kata '{wrong}'; did you mean .*{near}"):
            catalog.kata(wrong)
    with pytest.raises(catalog.UnknownId, match="the lesson of each level lists its katas"):
        catalog.kata("§")


def test_points_are_whole_and_add_up(project):
    points = catalog.points("level00")
    assert sum(points.values()) == 2200 and all(isinstance(n, int) for n in points.values())
    assert sum(n for id, n in points.items() if ".parts." in id) == 1000
    assert points["level00.parts.large"] > points["level00.parts.Pool"] == points["level00.parts.Pool.take"]
    assert points["level00.worksheet.other"] == 200 and points["level00.checkpoint"] == 800


@pytest.mark.parametrize("weights", [[1], [1, 1, 1], [3, 1, 2, 2, 1, 1, 3], [1] * 7, []], ids=str)
def test_a_split_loses_nothing_and_is_fair(weights):
    shares = catalog.split(1000, {str(i): w for i, w in enumerate(weights)})
    assert sum(shares.values()) == (1000 if weights else 0)
    assert all(abs(share - 1000 * w / sum(weights)) < 1 for share, w in zip(shares.values(), weights))


def test_sources_are_read_as_python_reads_them(tmp_path):
    """A learner on Windows may save with a byte order mark and CRLF."""
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbfx = 1\r\ny = '\xc3\xa9'\r\n")
    assert catalog.read(path) == "x = 1\ny = 'é'\n"
    path.write_bytes(b"# coding: latin-1\ny = '\xe9'\n")
    assert catalog.read(path).endswith("y = 'é'\n")


def test_nothing_is_imported_and_the_root_may_be_another(tmp_path):
    """A half-written level must not stop the maze; `dojo` finds the levels by path."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1 / 0\n" + text if name.endswith("parts.py") else text, encoding="utf-8")
    code = "import sys; from dojo import catalog as c; print(len(c.katas('level00')), c.ROOT, 'torch' in sys.modules)"
    env = os.environ | {"DOJO_ROOT": ".", "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert run.stdout.strip() == f"3 {tmp_path.resolve()} False", run.stderr


def test_this_repository_has_its_levels():
    catalog.katas.cache_clear()
    assert catalog.level_names() and all(catalog.katas(level) for level in catalog.level_names())
    assert all(sum(catalog.points(level).values()) == 2200 for level in catalog.level_names())
