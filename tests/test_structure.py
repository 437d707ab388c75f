"""The house rules: arrows point downwards, the machinery knows no level, nothing points outside the clone."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LEAVES = ["values", "cost", "roofline", "models", "hardware"]
# each module imports only from those before it
ORDER = [
    *LEAVES,
    "catalog",
    "progress",
    "stubs",
    "mount",
    "expect",
    "ghosts",
    "report",
    "raced",
    "outcome",
    "explain",
    "judge",
]
ORDER += ["plugin", "gauntlet", "bench", "watch", "doctor", "chat", "machine", "verbs", "__main__", "__init__"]
WITH_PYTEST = {"outcome", "judge", "plugin", "gauntlet", "bench", "watch"}
DOJO = sorted((ROOT / "dojo").glob("*.py"))
MODULES = pytest.mark.parametrize("path", DOJO, ids=lambda path: path.stem)
JUDGES = sorted(path for part in ("tests", "checkpoint") for path in ROOT.glob(f"levels/level*/{part}/**/*.py"))
LINES = 3660  # of code, without docstrings, comments and blank lines: a new module should replace something


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path) -> set[str]:
    """Full names of what a file imports anywhere, also inside functions; relative ones of the dojo as dojo.NAME."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ["dojo" if node.level else "", node.module]))
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "dojo" else {base}
    return found


def siblings(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("dojo.")}


def strings(path: Path) -> list[tuple[int, str]]:
    """(line, text) of the strings of a file, docstrings left out."""
    nodes = list(ast.walk(tree(path)))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docs = {id(n.body[0].value) for n in nodes if isinstance(n, documented) and ast.get_docstring(n) is not None}
    return [
        (n.lineno, n.value)
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs
    ]


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    nodes = ast.walk(tree(path))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    bare = [n.body[0] for n in nodes if isinstance(n, documented) and ast.get_docstring(n) is not None]
    skipped = {line for n in bare for line in range(n.lineno, n.end_lineno + 1)}
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return sum(bool(line.strip()) and line.lstrip()[0] != "#" and i not in skipped for i, line in lines)


def project_files() -> list[Path]:
    """Everything that git tracks or would track."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in sorted(set(filter(None, names))) if (ROOT / name).is_file()]


@MODULES
def test_imports_in_the_dojo_point_downwards(path):
    assert path.stem in ORDER, f"{path.name} is new: give it its place in ORDER"
    assert siblings(path) <= set(ORDER[: ORDER.index(path.stem)])


@MODULES
def test_leaves_need_no_other_module_and_few_need_pytest(path):
    """A lab, a script or a child process can use them alone."""
    names = {name.split(".")[0] for name in imported(path)}
    assert path.stem not in LEAVES or not siblings(path)
    assert path.stem in WITH_PYTEST or not names & {"pytest", "_pytest", "pytest_benchmark"}
    assert not [name for name in names if re.match(r"levels|solutions|level\d\d", name)], "levels are found by path"


@MODULES
def test_the_dojo_names_no_level(path):
    """Whatever one level needs is a module of that level; the next level is content only."""
    assert [found for found in strings(path) if re.search(r"level_?\d", found[1])] == []


def test_tests_of_the_levels_know_no_solution():
    """The learner's tests judge by oracles; a solution beside them would be the answer, and could be wrong as well."""
    assert JUDGES
    for path in JUDGES:
        names = {name.split(".")[0] for name in imported(path)}
        assert "solutions" not in names and not [text for _, text in strings(path) if "solutions" in text], path


def test_nothing_points_to_what_a_clone_does_not_have():
    """The drafts that this was built from are no part of it."""
    drafts = ["DESIGN", "EXEMPLAR", "BUGS", "NOISE", "FEASIBILITY"]
    words = [r"(?<![\w-])shared" + "/", *(name + r"\.md" for name in drafts), r"verify_level" + r"\d", "/" + "work/"]
    pattern, files = re.compile("|".join(words)), project_files()
    assert ROOT / "pyproject.toml" in files
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # data
        found += [f"{path.relative_to(ROOT)}: {m[0]}" for m in pattern.finditer(text)]
    assert found == []


def test_the_dojo_stays_small_enough_to_read():
    sizes = {path.stem: code_lines(path) for path in DOJO}
    print("\n", sum(sizes.values()), sizes)
    assert sum(sizes.values()) <= LINES, f"{sum(sizes.values())} lines of code: {sizes}"
