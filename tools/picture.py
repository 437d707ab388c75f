"""Make the README's pictures from real runs: docs/verdict.svg, level 00 in a copy with some katas filled in, and
docs/chat.svg, a conversation typed into a terminal (on a quiet machine: it shows the speed).

.venv/bin/python tools/picture.py [verdict] [chat]
"""

import ast
import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dojo import catalog, ghosts, stubs  # noqa: E402

RIGHT = {"train_bpe", "merge_pair", "apply_merges", "decode", "softmax", "rms_norm", "rope_tables", "apply_rope"}
WRONG = ("level00.layers.causal_mask", "top_left")
TYPED = ["My name is Ada. What is a cache, in one sentence?", "What is my name?", "/quit"]
WIDTH = 112


def filled(module: str) -> str:
    """The stub of a module with the chosen functions solved, one of them wrongly."""
    source = (ROOT / "solutions" / "level00" / f"{module}.py").read_text(encoding="utf-8")
    chosen = set(RIGHT)
    if WRONG[0].split(".")[1] == module:
        ghost = next(g for g in ghosts.haunts("level00") if (g.id, g.name) == WRONG)
        source, _ = ghosts.apply(ghost, source)
        chosen.add(WRONG[0].split(".")[2])
    text = stubs.derive("level00")[module]
    solved, open_ = (dict(catalog.definitions(ast.parse(x))) for x in (source, text))
    lines, theirs = text.splitlines(), source.splitlines()
    for name in sorted(chosen & set(open_), key=lambda name: -open_[name].lineno):
        mine, right = open_[name], solved[name]
        lines[mine.lineno - 1 : mine.end_lineno] = theirs[right.lineno - 1 : right.end_lineno]
    return "\n".join(lines) + "\n"


def verdict() -> str:
    """What the run of a level prints, with its colours as escape codes."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "kata")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "site", "labs-out"))
        for module in ("bpe", "layers"):
            (copy / "levels" / "level00" / f"{module}.py").write_text(filled(module), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "levels/level00"]
        colours = os.environ | {"PY_COLORS": "1", "COLUMNS": str(WIDTH)}
        done = subprocess.run(command, cwd=copy, env=colours, capture_output=True, text=True, encoding="utf-8")
    return "$ nox -s level00\n" + done.stdout


def chat() -> str:
    """What a conversation looks like: a terminal of its own, into which the next line is typed at each prompt."""
    command = [sys.executable, "-m", "dojo", "chat", "--seed", "3", "--temperature", "0.2"]
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "dumb"}
    )
    os.close(theirs)
    text, typed = "", 0
    while True:
        try:
            text += os.read(mine, 4096).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            break
        if text.endswith("\n> ") and typed < len(TYPED):
            os.write(mine, f"{TYPED[typed]}\n".encode())
            typed += 1
    process.wait()
    return "$ nox -s chat\n" + text.replace("\r\n", "\n").removesuffix("\n> /quit\n")


def main(names: list[str]) -> None:
    for name in names or ["verdict", "chat"]:
        console = Console(record=True, width=WIDTH, file=io.StringIO())
        # the player as on a plain console: not every reader's fonts have the glyph
        console.print(Text.from_ansi({"verdict": verdict, "chat": chat}[name]().rstrip().replace("ᗧ", "C")))
        svg = console.export_svg(title="")
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # no font from another site
        target = ROOT / "docs" / f"{name}.svg"
        target.parent.mkdir(exist_ok=True)
        target.write_text(svg, encoding="utf-8")
        print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
