"""The one environment: where `.venv` is, whether it is ready, and how to run something in it.

This runs in the interpreter that nox runs in, whichever that is, before each session: it is to cost nothing.
What fills `.venv` is in install.py, which is only imported when there is something to do.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "kata.stamp"
# variables of the caller's shell that would send a child to another interpreter, other packages or another folder
LEAKS = {"PYTHONPATH", "PYTHONHOME", "PYTHONEXECUTABLE", "PYTHONSAFEPATH", "PYTHONOPTIMIZE", "__PYVENV_LAUNCHER__"}
LEAKS |= {"VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_PYTHON"}

Say = Callable[[str], None]


class SetupError(Exception):
    """The environment can't be made; one sentence that ends with the fix."""


def ensure(say: Say) -> None:
    """Make or fill .venv unless it is ready, with a line to `say` for each long step; SetupError when it can't be."""
    choice = torch_choice()
    if not ready(choice):
        from .install import fill_once

        fill_once(say, choice)


def ready(choice: str) -> bool:
    """Whether .venv is complete and up to date; starts no process."""
    return PYTHON.exists() and STAMP.is_file() and STAMP.read_text() == stamp(choice)


def stamp(choice: str) -> str:
    """What .venv was made from; while STAMP holds it, nothing needs to be installed."""
    made_from = (ROOT / "pyproject.toml").read_bytes(), venv_version(), str(PYTHON.resolve()), sys.platform
    return f"{choice} {hashlib.sha256(repr(made_from).encode()).hexdigest()}"


def torch_choice() -> str:
    """Which build, cpu or cuda: KATA_TORCH, else what was chosen when .venv was filled, else cpu."""
    recorded = STAMP.read_text().split() if STAMP.is_file() else []
    chosen = os.environ.get("KATA_TORCH") or (recorded or ["cpu"])[0]
    if chosen not in ("cpu", "cuda"):
        raise SetupError(f"KATA_TORCH is cpu or cuda, not {chosen!r}: set it to one of them, or unset it")
    return chosen


def venv_version() -> str:
    """The version of .venv's interpreter, "3.11.7", without starting it; "" when there is none."""
    settings = VENV / "pyvenv.cfg"
    text = settings.read_text(encoding="utf-8") if settings.is_file() else ""
    found = re.search(r"^version(?:_info)? *= *(\d+\.\d+\.\d+)", text, re.MULTILINE)
    return found[1] if found else ""


def child_environment(**extra: str) -> dict[str, str]:
    """The caller's variables without those that lead elsewhere, and with `extra`."""
    env = {name: value for name, value in os.environ.items() if name not in LEAKS}
    if os.name == "nt":
        env["PYTHONUTF8"] = "1"  # else a child's "●" dies in cp1252
    return {**env, **extra}


def run(*command: str | Path, output=None, **extra: str) -> int:
    """Run a child on this terminal (or into the file `output`), with `extra` variables, and return its exit code.

    Ctrl-C reaches the child too, and it ends in its own way: pytest still reports, pdb stays. KeyboardInterrupt after.
    """
    pressed = []
    # a handler, not SIG_IGN: a child would inherit that
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        streams = {"stdout": output, "stderr": subprocess.STDOUT} if output else {}
        env = child_environment(**extra)
        code = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=env, **streams).wait()
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed and code:
        raise KeyboardInterrupt
    return code
