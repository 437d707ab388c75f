"""The contract of a level: what every folder in levels/ must have, so that the next one is content only."""

import ast
import re
import subprocess
import sys
from collections import Counter

import pytest

from dojo import catalog, ghosts, report, stubs

LEVELS = pytest.mark.parametrize("level", catalog.level_names())
# concepts of each lesson, the only place where these counts stand
CONCEPTS = dict(zip(range(16), (8, 6, 6, 7, 6, 6, 6, 6, 5, 7, 6, 8, 6, 6, 7, 7)))
PARTS = ("Pinky", "Pellets", "Inky", "Clyde", "The key", "Blinky", "Power pellet")


def lesson(level: str) -> str:
    return (catalog.ROOT / "levels" / level / "README.md").read_text(encoding="utf-8")


def parts(level: str) -> dict[str, str]:
    """Heading -> text of the lesson's `##` parts."""
    sections = re.split(r"^## ", lesson(level), flags=re.M)[1:]
    return {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}


def test_there_is_a_level():
    """Guards the tests below against passing because there was nothing to test."""
    assert catalog.level_names()


@LEVELS
def test_a_lesson_has_its_seven_parts_in_order(level):
    assert [heading.partition(" ·")[0] for heading in parts(level)] == list(PARTS)
    assert re.match(rf"# Level {level[-2:]} · \S", lesson(level))


@LEVELS
def test_a_lesson_has_its_number_of_concepts(level):
    concepts = next(text for heading, text in parts(level).items() if heading.startswith("Pellets"))
    numbers = [int(n) for n in re.findall(r"^### (\d+)\. ", concepts, flags=re.M)]
    assert numbers == list(range(1, CONCEPTS[int(level[-2:])] + 1))
    for text in re.split(r"^### .*$", concepts, flags=re.M)[1:]:
        assert 60 <= len(text.split()) <= 150, f"60 to 150 words, not {len(text.split())}: {text[:60]!r}"
        assert re.search(r"^    \S", text, flags=re.M), f"no formula: {text[:60]!r}"
        assert re.search(r"\d", text), f"no number: {text[:60]!r}"


@LEVELS
def test_the_code_lab_lists_the_katas_as_their_docstrings_do(level):
    clyde = next(text for heading, text in parts(level).items() if heading.startswith("Clyde"))
    rows = re.findall(r"^\| `(\S+)` \|.*\| (●+) \| (\d+) \|$", clyde, flags=re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas(level)]
    assert 5 <= len(rows) <= 12


@LEVELS
def test_every_pitfall_is_a_ghost(level):
    blinky = next(text for heading, text in parts(level).items() if heading.startswith("Blinky"))
    named = set(re.findall(r"`(level\d\d\.[\w.]+) · (\w+)`", blinky))
    items = re.findall(r"^\* ", blinky, flags=re.M)
    assert named and len(named) >= len(items)
    assert named <= {(g.id, g.name) for g in ghosts.haunts(level)}


@LEVELS
def test_katas_stand_after_what_they_need(level):
    done = {k.id for name in catalog.level_names() if name < level for k in catalog.katas(name)}
    for kata in catalog.katas(level):
        assert set(kata.needs) <= done, f"{kata.id} needs {set(kata.needs) - done} before it"
        done.add(kata.id)


@LEVELS
def test_every_kata_has_tests_hints_and_three_ghosts(level):
    tests, haunted = catalog.tests(level), Counter(g.id for g in ghosts.haunts(level))
    for kata in catalog.katas(level):
        assert tests.get(kata.id), f"{kata.id} has no test"
        assert len(report.hints(kata.id)) >= 2, f"{kata.id} has no staged hints"
        assert haunted[kata.id] >= (0 if kata.trivial else 3), f"{kata.id} has {haunted[kata.id]} ghosts"
        assert any(g.id == kata.id for g in ghosts.haunts(level, "alternatives")), f"{kata.id} has no alternative"


@LEVELS
def test_every_answer_has_a_test_and_two_slips(level):
    slips = Counter(g.id for g in ghosts.haunts(level))
    for id in catalog.answers(level):
        assert catalog.tests(level).get(id), f"{id} has no test"
        assert slips[id] >= 2, f"{id} has {slips[id]} slips"


@LEVELS
def test_what_tests_and_ghosts_name_exists(level):
    known = set(catalog.ids(level))
    assert set(catalog.tests(level)) <= known
    assert {g.id for file in ("ghosts", "alternatives") for g in ghosts.haunts(level, file)} <= known
    hinted = re.findall(r"^## (\S+)$", (catalog.ROOT / "solutions" / level / "hints.md").read_text("utf-8"), flags=re.M)
    assert hinted == [k.id for k in catalog.katas(level)]


@LEVELS
def test_every_ghost_can_be_made_and_says_something(level):
    """A ghost that no longer fits its solution is found here, by name, and is not killed for a wrong reason."""
    folder = catalog.ROOT / "solutions" / level
    found = [*ghosts.haunts(level), *ghosts.haunts(level, "alternatives")]
    assert len({(g.id, g.name) for g in found}) == len(found), "two programs of a kata share a name"
    for ghost in found:
        ghosts.apply(ghost, (folder / f"{ghost.id.split('.')[1]}.py").read_text(encoding="utf-8"))
    for ghost in ghosts.haunts(level):
        assert ghost.sentence.endswith((".", "!")) and len(ghost.sentence) <= 200, ghost.name
    sentences = Counter((g.id, g.sentence) for g in ghosts.haunts(level))
    assert max(sentences.values()) == 1, "two ghosts of a kata say the same"


@LEVELS
def test_solving_a_stub_only_adds_lines(level):
    for module, text in stubs.derive(level).items():
        solution = (catalog.ROOT / "solutions" / level / f"{module}.py").read_text(encoding="utf-8")
        if module != "worksheet":
            assert stubs.only_adds_lines(text, solution), module
        ast.parse(text)


@LEVELS
def test_every_kata_is_fenced_and_documented(level):
    """Shapes, errors and an example stand in the docstring; the fence carries the kata's id into the stub."""
    derived = stubs.derive(level)
    for kata in catalog.katas(level):
        assert f'raise NotImplementedError("{kata.id}")' in derived[kata.module]
        nodes = dict(catalog.definitions(ast.parse(derived[kata.module])))
        docs = [ast.get_docstring(nodes[name]) for name in kata.names]
        assert any("Example" in doc for doc in docs) or kata.dots == 3 or kata.id.endswith("hidden_states"), kata.id


@LEVELS
def test_a_level_has_benchmarks_that_fit_a_table(level):
    """What they measure is tested in test_bench.py."""
    [path] = (catalog.ROOT / "levels" / level / "benchmarks").glob("*.py")
    assert path.name == f"bench_{level[-2:]}.py"
    found = [n for n in ast.parse(path.read_text("utf-8")).body if getattr(n, "name", "").startswith("bench_")]
    assert found
    for node in found:
        [mark] = [ast.literal_eval(d.args[0]) for d in node.decorator_list if ast.unparse(d.func) == "pytest.mark.kata"]
        assert catalog.kata(mark).level == level, node.name
        title = ast.get_docstring(node)
        assert title and "\n" not in title and len(title) <= 80 and not title.endswith("."), f"{node.name} has no title"


def test_test_files_have_names_of_their_own():
    names = Counter(path.name for path in catalog.ROOT.glob("levels/*/*/test_*.py"))
    assert max(names.values()) == 1
    for path in catalog.ROOT.glob("levels/*/*/test_*.py"):
        assert path.name.startswith(f"test_{path.parts[-3][-2:]}_")


def test_no_test_of_a_level_reads_the_solutions():
    for path in catalog.ROOT.glob("levels/*/*/test_*.py"):
        source = path.read_text(encoding="utf-8")
        imported = [ast.unparse(n) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not any("solutions" in line for line in imported) and "/solutions" not in source, path.name


def test_every_test_of_a_level_says_its_kata_its_claim_and_why():
    for path in catalog.ROOT.glob("levels/*/*/test_*.py"):
        for name, node in catalog.definitions(ast.parse(path.read_text(encoding="utf-8"))):
            if re.fullmatch(r"(Test\w+\.)?test_\w+", name):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                assert sum("pytest.mark.kata(" in mark for mark in marks) == 1, f"{path.name}: {name} names no kata"
                assert ast.get_docstring(node), f"{path.name}: {name} does not say why it matters"


@LEVELS
def test_a_level_imports_earlier_levels_only(level):
    for path in [*(catalog.ROOT / "solutions" / level).glob("*.py"), *catalog.ROOT.glob(f"levels/{level}/*/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            later = [n for n in names if re.match(r"level\d\d", n) and n[:7] > level]
            assert not later, f"{path.name} imports {later}"


def test_the_code_is_formatted_and_linted():
    """Everything but the learner's own modules."""
    places = [
        ".",
        *(
            str(path)
            for folder in ("tests", "checkpoint", "labs", "benchmarks")
            for path in catalog.ROOT.glob(f"levels/*/{folder}")
        ),
    ]
    for arguments in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, *places]
        done = subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
