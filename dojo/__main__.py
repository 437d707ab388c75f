"""python -m dojo VERB: everything around the katas. It runs itself again in .venv where its libraries are missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def in_the_right_environment() -> None:
    """Go on where the libraries are; else hand over to .venv; else say how to make it."""
    if importlib.util.find_spec("click") and importlib.util.find_spec("torch"):
        return
    if not PYTHON.exists() or Path(sys.prefix).resolve() == PYTHON.parent.parent.resolve():
        sys.exit("the kata's environment is not complete: run `nox` (or `uvx nox`) in this folder once")
    sys.exit(subprocess.call([str(PYTHON), "-m", "dojo", *sys.argv[1:]], cwd=ROOT))


if __name__ == "__main__":
    in_the_right_environment()
    from .verbs import main

    main(prog_name="python -m dojo")
