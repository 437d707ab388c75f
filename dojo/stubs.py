"""Solutions -> stubs: what stands between `# solution:begin` and `# solution:end` becomes a TODO and a raise.

Rule: a stub without its TODO and raise lines is a subsequence of the solution, so solving only adds lines.
"""

import ast
import difflib
import io
import os
import re
import shutil
import time
import tokenize
from pathlib import Path

from . import catalog

BEGIN, END = re.compile(r"^(\s*)# solution:begin (.+)$"), re.compile(r"^\s*# solution:end$")
FENCE = re.compile(r"#\s*solution\s*:", re.IGNORECASE)  # also one that is misspelt: it must not give the solution away


class BadFence(SyntaxError):
    """Fences that do not pair up, or stand outside any kata."""


def stub(source: str, level: str, module: str) -> str:
    """The stub of a solution module; of a worksheet, the answers replaced by `...`.

    BadFence: a fence that is misspelt, does not pair up, is in no kata, or leaves a stub that does not parse.
    """
    if module == "worksheet":
        return empty_worksheet(source)
    file, fences = f"{level}/{module}.py", fence_lines(source)
    out, opened = [], 0
    for number, line in enumerate(lines_of(source), 1):
        begin, end = (BEGIN.match(line), END.match(line)) if number in fences else (None, None)
        if number in fences and not (begin or end):
            raise BadFence(
                f"{file}, line {number}: write `# solution:begin HINT` or `# solution:end`, on a line of its own"
            )
        if begin and opened or end and not opened:
            raise BadFence(f"{file}, line {number}: this fence does not pair up; close one before the next")
        if begin:
            opened, id = number, owner(source, level, module, number)
            out += [f"{begin[1]}# TODO: {begin[2]}", f'{begin[1]}raise NotImplementedError("{id}")']
        elif end:
            opened = 0
        elif not opened:
            out.append(line)
    if opened:
        raise BadFence(f"{file}, line {opened}: this fence is never closed; add `# solution:end`")
    text = "\n".join(out) + "\n"
    try:
        ast.parse(text)  # an unfilled level must import
    except SyntaxError as error:
        raise BadFence(f"{file}: its stub does not parse ({error.msg}); fence whole statements") from None
    return text


def fence_lines(source: str) -> set[int]:
    """Numbers of the lines with a comment that is meant as a fence; one inside a string is text."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0] for t in tokens if t.type == tokenize.COMMENT and FENCE.match(t.string)}


def lines_of(text: str) -> list[str]:
    """The lines as Python counts them: `splitlines` would also cut at a form feed or U+2028 inside a string."""
    return text.removesuffix("\n").split("\n") if text else []


def owner(source: str, level: str, module: str, line: int) -> str:
    """Id of the kata around a line: the innermost def or class with metadata, or the kata that it is part of."""
    found = None
    for name, node in catalog.definitions(ast.parse(source)):
        if node.lineno <= line <= node.end_lineno and (meta := catalog.metadata(node)):
            found = meta[2].get("part_of", name)
    if found is None:
        raise BadFence(f"{level}/{module}.py, line {line}: a fence outside any kata; give its function a metadata line")
    return f"{level}.{module}.{found}"


def empty_worksheet(source: str) -> str:
    lines = lines_of(source)
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.AnnAssign | ast.AugAssign):
            raise BadFence(f"worksheet.py, line {node.lineno}: an answer is `name = value`; nothing else is emptied")
        if isinstance(node, ast.Assign):
            lines[node.lineno - 1 : node.end_lineno] = [f"{ast.unparse(node.targets[0])} = ..."]
    return "\n".join(lines) + "\n"


def only_adds_lines(stub_text: str, solution: str) -> bool:
    """The stub rule: everything in the stub but TODO and raise lines is in the solution, in the same order."""
    remaining = iter(lines_of(solution))
    kept = [x for x in lines_of(stub_text) if "# TODO: " not in x and "raise NotImplementedError(" not in x]
    return all(any(line == other for other in remaining) for line in kept)


def derive(level: str) -> dict[str, str]:
    """module -> stub text, for every module of a level."""
    folder = catalog.ROOT / "solutions" / level
    return {m: stub(catalog.read(folder / f"{m}.py"), level, m) for m in catalog.modules(level)}


def differences(level: str, folder: Path) -> list[str]:
    """Unified diff lines between the derived stubs and the files in `folder`."""
    lines = []
    for module, text in derive(level).items():
        path = folder / f"{module}.py"
        lines += difflib.unified_diff(
            lines_of(present(path)), lines_of(text), str(path), f"stub of {level}.{module}", lineterm=""
        )
    return lines


def present(path: Path) -> str:
    """The text of a file; nothing when there is none, or none that can be read as source."""
    try:
        return catalog.read(path)
    except (OSError, SyntaxError, ValueError):
        return ""


def write(level: str, folder: Path) -> list[Path]:
    """Write the stubs that differ into `folder`, each replaced file copied first; returns what was written."""
    written = []
    for module, text in derive(level).items():
        path = folder / f"{module}.py"
        if present(path) != text:
            replace(path, text)
            written.append(path)
    return written


def replace(path: Path, text: str) -> Path | None:
    """Put `text` in place of a file; what stood there is kept under .dojo/kept, whose path is returned."""
    kept = None
    if path.is_file():
        kept = catalog.ROOT / ".dojo" / "kept" / f"{path.parent.name}.{path.stem}.{time.strftime('%Y%m%d-%H%M%S')}.py"
        kept.parent.mkdir(parents=True, exist_ok=True)
        while kept.exists():  # twice within a second
            kept = kept.with_stem(kept.stem + "+")
        shutil.copy2(path, kept)
    ends = "\r\n" if kept and b"\r\n" in kept.read_bytes() else "\n"  # as the learner's editor has them
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8", newline=ends)
    os.replace(temporary, path)
    return kept


def reset_kata(id: str) -> str:
    """The learner's module with one kata put back to its stub; the rest of the file stays as it is.

    Raises ValueError when the learner's file does not parse or the kata is gone from it: then reset the module.
    """
    kata = catalog.kata(id)
    path = catalog.ROOT / "levels" / kata.level / f"{kata.module}.py"
    fresh = derive(kata.level)[kata.module]
    try:
        source = catalog.read(path)
        mine, stubs = (dict(catalog.definitions(ast.parse(text))) for text in (source, fresh))
        spans = sorted(((mine[n], stubs[n]) for n in kata.names), key=lambda pair: -pair[0].lineno)
    except (OSError, SyntaxError, KeyError, ValueError):
        raise ValueError(
            f"levels/{kata.level}/{kata.module}.py can't be taken apart: reset the whole file with "
            f"`nox -s reset -- {kata.level}.{kata.module}`"
        ) from None
    lines, fresh_lines = lines_of(source), lines_of(fresh)
    for old, new in spans:
        lines[first_line(old) - 1 : old.end_lineno] = fresh_lines[first_line(new) - 1 : new.end_lineno]
    return "\n".join(lines) + "\n"


def first_line(node: ast.AST) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def fresh(what: str) -> list[tuple[Path, str]]:
    """(path, text) of the learner's files that a reset of a level, a module or a kata replaces."""
    folder = catalog.ROOT / "levels"
    if what.count(".") == 0:
        level = catalog.level_name(what)
        return [(folder / level / f"{module}.py", text) for module, text in derive(level).items()]
    level, module = what.split(".")[:2]
    if what.count(".") == 1 and module in catalog.modules(catalog.level_name(level)):
        return [(folder / level / f"{module}.py", derive(level)[module])]
    kata = catalog.kata(what)
    return [(folder / level / f"{kata.module}.py", reset_kata(what))]


def compare(what: str) -> list[str]:
    """Unified diff from the learner's code to the solution's, for a level, a module or a kata; fences left out."""
    parts = what.split(".")
    level = catalog.level_name(parts[0])
    names = set(catalog.kata(what).names) if len(parts) > 2 else set()
    modules = [parts[1]] if len(parts) > 1 else catalog.modules(level)
    lines = []
    for module in modules:
        mine, theirs = (
            excerpt((catalog.ROOT / tree / level / f"{module}.py"), names) for tree in ("levels", "solutions")
        )
        titles = f"levels/{level}/{module}.py (yours)", f"solutions/{level}/{module}.py"
        lines += difflib.unified_diff(mine, theirs, *titles, lineterm="", n=2)
    return lines


def excerpt(path: Path, names: set[str]) -> list[str]:
    """The lines of a module, or of some of its functions, without docstrings and fences."""
    if not path.is_file():
        return []
    source = catalog.read(path)
    lines: list[str | None] = list(lines_of(source))
    try:
        nodes = dict(catalog.definitions(ast.parse(source)))
    except SyntaxError:
        return [line for line in lines if line is not None]
    keep = {i for n in names if n in nodes for i in range(first_line(nodes[n]) - 1, nodes[n].end_lineno)}
    for node in nodes.values():
        if ast.get_docstring(node) is not None:
            lines[node.body[0].lineno - 1 : node.body[0].end_lineno] = [None] * (
                node.body[0].end_lineno - node.body[0].lineno + 1
            )
    chosen = [line for i, line in enumerate(lines) if line is not None and (not names or i in keep)]
    return without_fences(chosen)


def without_fences(lines: list[str]) -> list[str]:
    return [line for line in lines if not BEGIN.match(line) and not END.match(line)]


def solutions_branch() -> str:
    """Make the branch `solutions` beside the current commit, with the stubs replaced; returns a sentence.

    The work tree and the index stay as they are: the commit is put together in an index of its own.
    """
    import subprocess
    import tempfile

    def git(*arguments: str, **extra) -> str:
        done = subprocess.run(["git", *arguments], cwd=catalog.ROOT, capture_output=True, text=True, **extra)
        if done.returncode:
            raise ValueError(f"git {arguments[0]} failed ({done.stderr.strip()}): is this a clone, and git installed?")
        return done.stdout.strip()

    with tempfile.TemporaryDirectory() as folder:
        own = {"env": os.environ | {"GIT_INDEX_FILE": str(Path(folder, "index"))}}
        git("read-tree", "HEAD", **own)
        for level in catalog.level_names():
            for module in catalog.modules(level):
                text = catalog.read(catalog.ROOT / "solutions" / level / f"{module}.py")
                shown = "\n".join(without_fences(lines_of(text))) + "\n"
                blob = git("hash-object", "-w", "--stdin", input=shown)
                git("update-index", "--add", "--cacheinfo", f"100644,{blob},levels/{level}/{module}.py", **own)
        tree = git("write-tree", **own)
    who = ["-c", "user.name=kata", "-c", "user.email=kata@localhost"]
    commit = git(*who, "commit-tree", tree, "-p", "HEAD", "-m", "Every stub replaced by its solution")
    git("branch", "--force", "solutions", commit)
    return f"the branch `solutions` is made: git diff HEAD..solutions -- levels/{catalog.level_names()[0]}"
