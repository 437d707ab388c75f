"""What a newcomer gets: clone HEAD into a path with a space, run the README's venv line, look at what it says.

Prints the seconds of that first set-up beside those of installing PyTorch alone. Exits 1 with the first thing amiss.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ".venv\\Scripts\\" if os.name == "nt" else ".venv/bin/"
BUDGET = 2.5  # first set-up, in installs of PyTorch alone
NO_COLOUR = {"NO_COLOR": "1", "PYTHONUTF8": "1"}


def shell(command: str, folder: Path) -> tuple[int, str, float]:
    """Run a command line as a newcomer would; (exit code, what it printed, seconds)."""
    start = time.perf_counter()
    done = subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, **NO_COLOUR}, encoding="utf-8", errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, time.perf_counter() - start


def check(fact: bool, sentence: str, output: str) -> None:
    """Exit 1 with the sentence and the output it is about, unless it is a fact."""
    if not fact:
        sys.exit(f"{output}\nfresh_clone: {sentence}")


def readme_line(clone: Path) -> str:
    """The command that the README gives to who has no uvx."""
    start = "py -m venv" if os.name == "nt" else "python3 -m venv"
    found = re.search(
        rf"^\W*({start} .+?nox -s level00)", (clone / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    check(found is not None, f"README.md has no line `{start} … nox -s level00`", "")
    return found[1]


def check_first_run(clone: Path) -> float:
    """Run the README's line: every kata is todo, nothing else goes wrong. Returns its seconds."""
    stubs = "".join(path.read_text(encoding="utf-8") for path in sorted((clone / "levels/level00").glob("*.py")))
    katas = set(re.findall(r'NotImplementedError\("(level00\.[\w.]+)"\)', stubs))
    code, output, seconds = shell(readme_line(clone), clone)
    check(code == 1, f"the first run exits {code}, not 1", output)
    check("Traceback" not in output, "the first run shows a traceback", output)
    missing = [id for id in katas if not re.search(rf"todo\s+{re.escape(id)}\b", output)]
    check(bool(katas) and not missing, f"not shown as todo: {', '.join(sorted(missing)) or 'any kata'}", output)
    print(f"first run: {len(katas)} katas, all todo, after {seconds:.0f} s")
    return seconds


def torch_seconds(folder: Path) -> float:
    """The seconds that a virtual environment with PyTorch alone takes."""
    torch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["kata"]["torch"]
    cpu = "+cpu --retries 1 --extra-index-url https://download.pytorch.org/whl/cpu" * (sys.platform == "linux")
    line = f'"{sys.executable}" -m venv .venv && {BIN}pip install --quiet torch=={torch}{cpu}'
    code, output, seconds = shell(line, folder)
    check(code == 0, "PyTorch alone could not be installed", output)
    return seconds


def main() -> None:
    """Clone, run, time."""
    with tempfile.TemporaryDirectory(prefix="fresh clone ", ignore_cleanup_errors=True) as folder:
        clone, alone = Path(folder, "kata"), Path(folder, "alone")
        alone.mkdir()
        code, output, _ = shell(f'git clone --quiet "{ROOT}" "{clone}"', ROOT)
        check(code == 0, "HEAD could not be cloned", output)
        if shell("git status --porcelain", ROOT)[1]:
            print("what is not committed is not in the clone")
        seconds = check_first_run(clone)
        code, output, again = shell(f"{BIN}nox -s level00 -- --impl solutions", clone)
        check(code == 0, f"the solutions of level00 exit {code}", output)
        print(f"solutions: green in {again:.0f} s")
        ratio = seconds / torch_seconds(alone)
        print(f"first set-up: {ratio:.1f} x PyTorch alone, budget {BUDGET}" + " EXCEEDED" * (ratio > BUDGET))


if __name__ == "__main__":
    main()
