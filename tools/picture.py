"""Make docs/verdict.svg, the README's picture: a real run of level 00 in a copy, with some katas filled in.

.venv/bin/python tools/picture.py
"""

import ast
import io
import os
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


def run() -> str:
    """What the run prints, with its colours as escape codes."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "kata")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "site", "labs-out"))
        for module in ("bpe", "layers"):
            (copy / "levels" / "level00" / f"{module}.py").write_text(filled(module), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "levels/level00"]
        colours = os.environ | {"PY_COLORS": "1", "COLUMNS": str(WIDTH)}
        done = subprocess.run(command, cwd=copy, env=colours, capture_output=True, text=True, encoding="utf-8")
    return done.stdout


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    # the player as on a plain console: not every reader's fonts have the glyph
    console.print(Text.from_ansi("$ nox -s level00\n" + run().rstrip().replace("ᗧ", "C")))
    svg = console.export_svg(title="")
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.S)  # no font from another site
    target = ROOT / "docs" / "verdict.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(svg, encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
