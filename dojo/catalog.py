"""What exists: levels, katas, worksheet answers and the tests that judge them. Read by AST; nothing is imported.

The solutions are the source: a learner's file may be half-written, its docstrings gone.
"""

import ast
import difflib
import os
import re
import tokenize
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(os.environ.get("DOJO_ROOT") or Path(__file__).parent.parent).resolve()
METADATA = re.compile(r"(●{1,3}) · about (\d+) lines?((?: · (?:needs \S+(?:, \S+)*|part of \S+|trivial))*)")
POINTS = {"katas": 1000, "worksheet": 400, "checkpoint": 800}


@dataclass(frozen=True)
class Kata:
    """One graded exercise: a function, method or class with the small functions that are part of it."""

    id: str  # level03.sampling.top_p
    dots: int
    lines: int
    needs: tuple[str, ...]
    trivial: bool
    summary: str
    names: tuple[str, ...]  # qualified names in the module: its own first, then its parts

    @property
    def level(self) -> str:
        return self.id.split(".")[0]

    @property
    def module(self) -> str:
        return self.id.split(".")[1]


class UnknownId(ValueError):
    """An id or level that does not exist; the message names the nearest that does."""


def read(path: Path) -> str:
    """The text of a source file as Python reads it: with any line ends, a byte order mark, a coding line."""
    with tokenize.open(path) as file:
        return file.read()


def level_names() -> list[str]:
    return sorted(p.name for p in (ROOT / "levels").glob("level[0-9][0-9]") if p.is_dir())


def level_name(text: str) -> str:
    """`4`, `04`, `level4` or `level04` -> "level04"; UnknownId when there is no such folder."""
    number = text.lower().removeprefix("level")
    name = f"level{int(number):02d}" if number.isdecimal() else text
    if name not in level_names():
        raise UnknownId(f"there is no {text!r}; the levels are {', '.join(level_names())}")
    return name


@cache
def title(level: str) -> str:
    """The lesson's title, without its number; empty when the lesson is missing."""
    lesson = ROOT / "levels" / level / "README.md"
    first = lesson.read_text(encoding="utf-8").partition("\n")[0] if lesson.is_file() else ""
    return first.partition("·")[2].strip()


def definitions(tree: ast.AST, prefix: str = ""):
    """Every def and class with its qualified name, outer before inner."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = prefix + node.name
            yield name, node
            yield from definitions(node, name + ".")


def metadata(node: ast.AST) -> tuple[int, int, dict[str, str]] | None:
    """(dots, lines, extras) from the end of a docstring, or None: extras are `needs …`, `part of …`, `trivial`.

    It begins on a line of its own with a dot, and may be wrapped. ValueError: what begins so is not metadata. A typo
    must not make a kata disappear.
    """
    before, dot, rest = f"\n{ast.get_docstring(node) or ''}".partition("\n●")
    if not dot:
        return None
    last = " ".join(f"●{rest}".split())
    found = METADATA.fullmatch(last)
    if not found:
        raise ValueError(
            f"{node.name}: {last!r} is not metadata; write `●● · about 6 lines`, then ` · needs ID` or ` · part of X`"
        )
    extras = {}
    for extra in filter(None, found[3].split(" · ")):
        key, _, value = extra.replace("part of", "part_of").partition(" ")
        extras[key] = value
    return len(found[1]), int(found[2]), extras


def module_katas(level: str, path: Path) -> list[Kata]:
    """The katas of one solution module, in the order of the file."""
    whole: dict[str, Kata] = {}
    parts: list[tuple[str, str, int]] = []
    for name, node in definitions(ast.parse(read(path))):
        if (found := metadata(node)) is None:
            continue
        dots, lines, extras = found
        if "part_of" in extras:
            parts.append((extras["part_of"], name, lines))
            continue
        id, summary = f"{level}.{path.stem}.{name}", ast.get_docstring(node).partition("\n")[0]
        needs = tuple(extras["needs"].split(", ")) if "needs" in extras else ()
        whole[name] = Kata(id, dots, lines, needs, "trivial" in extras, summary, (name,))
    for owner, name, lines in parts:
        if owner not in whole:
            raise ValueError(
                f"{level}/{path.name}: {name} is part of {owner}, which is no kata there; correct the name"
            )
        old = whole[owner]
        whole[owner] = replace(old, lines=old.lines + lines, names=(*old.names, name))
    return list(whole.values())


@cache
def katas(level: str) -> tuple[Kata, ...]:
    """The level's katas in the order in which its lesson lists them, which is the order to do them in."""
    folder = ROOT / "solutions" / level
    found = [k for name in modules(level) if name != "worksheet" for k in module_katas(level, folder / f"{name}.py")]
    lesson = ROOT / "levels" / level / "README.md"
    text = lesson.read_text(encoding="utf-8") if lesson.is_file() else ""
    _, _, table = text.partition("\n## Clyde")
    place = {k.id: table.find(f"`{k.id}`") for k in found}
    return tuple(sorted(found, key=lambda k: place[k.id] if place[k.id] >= 0 else len(table) + found.index(k)))


def modules(level: str) -> list[str]:
    """Names of the level's modules, given ones and the worksheet included."""
    return sorted(p.stem for p in (ROOT / "solutions" / level).glob("*.py"))


@cache
def answers(level: str) -> tuple[str, ...]:
    """Ids of the worksheet answers, level03.worksheet.NAME, in their order."""
    path = ROOT / "solutions" / level / "worksheet.py"
    tree = ast.parse(read(path)) if path.is_file() else ast.Module([])
    return tuple(f"{level}.worksheet.{ast.unparse(n.targets[0])}" for n in tree.body if isinstance(n, ast.Assign))


def ids(level: str) -> list[str]:
    """Everything that is judged in a level: katas, answers, checkpoint."""
    return [*(k.id for k in katas(level)), *answers(level), f"{level}.checkpoint"]


def kata(id: str) -> Kata:
    """The kata with this id; UnknownId names the nearest ones."""
    level = id.split(".")[0]
    known = {k.id: k for name in level_names() for k in katas(name)}
    if id in known:
        return known[id]
    same = [k for k in known if k.endswith("." + id.rpartition(".")[2])]
    near = same or difflib.get_close_matches(id, known, 3, 0.4) or [k for k in known if k.startswith(level)]
    if not near:
        raise UnknownId(f"there is no kata {id!r}: the lesson of each level lists its katas")
    raise UnknownId(f"there is no kata {id!r}; did you mean {' or '.join(near[:3])}?")


def all_needs(id: str) -> set[str]:
    """The katas that a kata needs, and those that they need."""
    needs = kata(id).needs
    return {*needs, *(further for need in needs for further in all_needs(need))}


@cache
def tests(level: str) -> dict[str, list[tuple[Path, str]]]:
    """id -> the (file, test) pairs that judge it, from the `kata` markers."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for path in sorted((ROOT / "levels" / level).glob("*/test_*.py")):
        for name, node in definitions(ast.parse(read(path))):
            for mark in getattr(node, "decorator_list", []):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.kata":
                    found.setdefault(ast.literal_eval(mark.args[0]), []).append((path, name))
    return found


@cache
def points(level: str) -> dict[str, int]:
    """id -> points: katas by dots, answers in equal shares, whole numbers that add up."""
    weights = {k.id: k.dots for k in katas(level)}
    shares = split(POINTS["katas"], weights) | split(POINTS["worksheet"], dict.fromkeys(answers(level), 1))
    return shares | {f"{level}.checkpoint": POINTS["checkpoint"]}


def split(total: int, weights: dict[str, int]) -> dict[str, int]:
    """Share `total` in proportion to the weights; what rounding leaves goes to the largest remainders."""
    whole = sum(weights.values())
    shares = {key: total * weight // whole for key, weight in weights.items()}
    by_remainder = sorted(weights, key=lambda key: -(total * weights[key] % whole))
    for key in by_remainder[: total - sum(shares.values())] if weights else []:
        shares[key] += 1
    return shares
