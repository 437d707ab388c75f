"""What has been cleared: .dojo/progress.json in the clone, keyed by id, written at once and whole."""

import ast
import contextlib
import hashlib
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from . import catalog

VERSION = 1  # of the file
UNREADABLE = ""
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _digest(source: str, name: str | None) -> str:
    try:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        if name:
            tree.body = [n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
        # not ast.dump, which names the fields of the tree: those change with the version of Python
        return hashlib.sha256(ast.unparse(tree).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    except (SyntaxError, ValueError, RecursionError):
        return UNREADABLE


def code_digest(path: Path, name: str | None = None) -> str:
    """Digest of a module's code without docstrings, comments and formatting; of one assignment if `name` is given."""
    try:
        return _digest(catalog.read(path), name)
    except (OSError, SyntaxError, ValueError):
        return UNREADABLE


def digest(id: str) -> str:
    """What must stay the same for a clearance of `id` to count: its module, its answer, or the whole level."""
    level, module, *rest = id.split(".")
    folder = catalog.ROOT / "levels" / level
    if module == "checkpoint":
        parts = [code_digest(folder / f"{m}.py") for m in catalog.modules(level) if m != "worksheet"]
        return "+".join(part[:6] for part in parts) if all(parts) else UNREADABLE
    return code_digest(folder / f"{module}.py", ".".join(rest) if module == "worksheet" else None)


class Progress:
    """The learner's record. `notes` collects sentences that somebody should print."""

    def __init__(self, folder: Path | None = None):
        self.path = (folder or catalog.ROOT / ".dojo") / "progress.json"
        self.notes: list[str] = []
        self.writable = True
        self.mine: dict[tuple[str, str], Any] = {}  # what this run has changed: (section, id) -> entry or None
        self.data = self._read()

    def _read(self) -> dict:
        """The file's content; an empty record, with a note, where there is none that can be used."""
        empty = {"version": VERSION, "cleared": {}, "hints": {}, "quiz": {}}
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            sections = data["cleared"], data["hints"], data.setdefault("quiz", {})  # older records have no quiz
            if not all(isinstance(section, dict) for section in sections):
                raise TypeError
        except FileNotFoundError:
            return empty
        except OSError as error:
            self._keep_off(f"can't be read ({error.strerror}), so nothing is recorded: make it readable")
            return empty
        except (ValueError, KeyError, TypeError, RecursionError):
            self._set_aside()
            return empty
        if data.setdefault("version", VERSION) != VERSION:
            self._keep_off("comes from a newer version of the kata, so nothing is recorded: update this clone")
        return data

    def _keep_off(self, why: str) -> None:
        """A record that this program can't read or understand is never overwritten."""
        self.writable = False
        self._note(f"{self.path} {why}")

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _set_aside(self) -> None:
        """A damaged file is kept under another name."""
        kept = self.path.with_name(f"progress.damaged-{time.strftime('%Y%m%d-%H%M%S')}.json")
        while kept.exists():  # twice within a second
            kept = kept.with_stem(kept.stem + "+")
        try:
            os.replace(self.path, kept)
        except OSError:
            return self._keep_off("is damaged and can't be moved, so nothing is recorded: delete it")
        self._note(f"{self.path} was damaged and is kept as {kept.name}: run your levels again to fill a new one")

    def save(self) -> None:
        """Write the whole record in one step; a folder that can't be written is said once and does no harm.

        What another run has recorded meanwhile stays: only this run's own changes are put on top.
        """
        current = self._read() if self.writable else self.data
        for (section, id), entry in self.mine.items():
            current[section][id] = entry
            if entry is None:
                del current[section][id]
        self.data = current
        if not self.writable:
            return
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(current, indent=1) + "\n", encoding="utf-8")
            os.replace(temporary, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            self._note(f"progress can't be saved in {self.path.parent} ({error.strerror}): make that folder writable")

    def record(self, id: str, cleared: bool) -> None:
        """Note a verdict; saved at once, so that an interrupted run loses nothing."""
        if not cleared and id not in self.data["cleared"]:
            return
        entry = {"digest": digest(id), "when": time.strftime("%Y-%m-%d %H:%M")}
        self.mine["cleared", id] = entry if cleared else None
        self.save()

    def state(self, id: str) -> str:
        """`cleared`, `edited` (cleared, but its code has changed since, or can't be read) or `open`."""
        entry = self.data["cleared"].get(id)
        if not isinstance(entry, dict):
            return "open"
        now = digest(id)
        return "cleared" if now == entry.get("digest") and now != UNREADABLE else "edited"

    def level_cleared(self, level: str) -> bool:
        """Katas and checkpoint cleared and not edited since; the worksheet locks nothing."""
        needed = [*(k.id for k in catalog.katas(level)), f"{level}.checkpoint"]
        return all(self.state(id) == "cleared" for id in needed)

    def reveal_hint(self, id: str, total: int) -> int:
        """One more hint of `id` may be seen; returns how many."""
        before = self.data["hints"].get(id, 0)
        shown = min((before if isinstance(before, int) else 0) + 1, total)
        self.mine["hints", id] = shown
        self.save()
        return shown

    def grade(self, level: str, question: str, right: bool) -> None:
        """Note how somebody has graded their own answer."""
        self.mine["quiz", f"{level}: {question}"] = right
        self.save()

    def had(self, level: str, question: str) -> bool:
        """Was the last answer to this question right?"""
        return self.data["quiz"].get(f"{level}: {question}") is True

    def score(self, level: str) -> int:
        """Points of a level; what was edited since it was cleared keeps them."""
        return sum(n for id, n in catalog.points(level).items() if self.state(id) != "open")
