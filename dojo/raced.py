"""What was timed: the tables of `bench` and `compare`, the picture, and the runs that are kept."""

import contextlib
import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import catalog
from .progress import Progress
from .report import Line
from .roofline import Row, machine

WHO = ("yours", "solution", "naive", "library")
LOOKS = dict(zip(WHO, ("o", "s", "v", "^")))


@dataclass
class Raced:
    """One benchmark: what a call takes at least, and the seconds of each way, or why it has none."""

    title: str
    kata: str
    flops: float
    bytes: float
    called: dict[str, str]  # naive, library: their names
    seconds: dict[str, list[float]]
    why: dict[str, str]
    last: float | None  # yours over the solution in the last run


def folder() -> Path:
    """Where the runs are kept, by pytest-benchmark, one JSON file each."""
    return catalog.ROOT / ".dojo" / "bench"


def has_benchmarks(level: str) -> bool:
    return any((catalog.ROOT / "levels" / level / "benchmarks").glob("bench_*.py"))


def runs(level: str) -> list[list[dict]]:
    """The kept runs of a level, oldest first; of each the benchmarks as pytest-benchmark wrote them."""
    found = []
    for path in sorted(folder().glob(f"*/[0-9]*_{level}.json")):
        with contextlib.suppress(OSError, ValueError, KeyError):  # one that broke off tells nothing
            found.append(json.loads(path.read_text(encoding="utf-8"))["benchmarks"])
    return found


def ratios(benchmarks: list[dict]) -> dict[str, float]:
    """Benchmark -> seconds of yours over those of the solution: the machine's mood is in both."""
    best = {(one["group"], one["extra_info"]["who"]): one["stats"]["min"] for one in benchmarks}
    return {
        name: best[name, "yours"] / s for (name, who), s in best.items() if who == "solution" if (name, "yours") in best
    }


def points() -> Iterator[tuple[str, float, float]]:
    """(name, FLOP per byte, FLOPs per second) of the learner's benchmarks, each as it ran last."""
    for level in catalog.level_names():
        for one in {one["name"]: one for run in runs(level) for one in run}.values():
            info = one["extra_info"]
            if info["who"] == "yours" and info["flops"] and info["bytes"]:
                yield info["title"], info["flops"] / info["bytes"], info["flops"] / one["stats"]["min"]


# ---- what is said


def lines(raced: Raced) -> list[Line]:
    """The table of one benchmark: a row for each way, and what the shares are shares of."""
    head = f"    {'':<34}{'ms':>9}{'GFLOP/s':>9}{'GB/s':>7}{'bound by':>10}{'of roof':>9}{'x solution':>12}"
    out: list[Line] = [("", ""), (f"  {raced.title}", "bold"), (f"{head}{'last run':>10}", "dim")]
    theirs = min(raced.seconds.get("solution", [math.nan]))
    for who in WHO:
        label = f"{who} ({raced.called[who]})" if who in raced.called else who
        if who in raced.why:
            out.append((f"    {label:<34}  {raced.why[who]}", "warn"))
        if who not in raced.seconds:
            continue
        row = Row(label, raced.flops, raced.bytes, min(raced.seconds[who]))
        text = f"    {label:<34}{1e3 * row.seconds:>9,.3g}{_rates(row)}{row.seconds / theirs:>12,.2f}"
        if who == "yours" and raced.last:
            text += f"{raced.last:>10,.2f}"
        out.append((text, "good" if who == "yours" else ""))
    if "yours" in raced.seconds and Progress().state(raced.kata) != "cleared":
        out.append((f"    ({raced.kata} is not cleared: fast and wrong is not fast)", "dim"))
    return out


def _rates(row) -> str:
    if not row.bytes:
        return f"{'-':>9}{'-':>7}{'-':>10}{'-':>9}"
    flops = f"{row.flops / row.seconds / 1e9:>9,.1f}" if row.flops else f"{'-':>9}"
    return f"{flops}{row.bytes / row.seconds / 1e9:>7,.1f}{row.bound:>10}{row.percent:>8,.0f}%"


def legend(raced: Collection[Raced]) -> list[Line]:
    said = "One thread, CPU time, best of rounds in turn. x solution: time over the solution's"
    said += "; last run: yours then." if any(one.last for one in raced) else "."
    return [("", ""), (f"  {said}", "dim")]


def draw(raced: Collection[Raced], path: Path) -> bool:
    """Draw what computes and moves something under this machine's roof; False when nothing does."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    shown = sorted((one for one in raced if one.flops and one.bytes), key=lambda one: one.flops / one.bytes)
    if not shown:
        return False
    here, axes = machine(), (figure := Figure(figsize=(9, 5), layout="constrained")).subplots()
    ridge, found = here.flops_per_second / here.bytes_per_second, [one.flops / one.bytes for one in shown]
    corners = [min(ridge, *found) / 4, ridge, max(ridge, *found) * 4]
    looks = axes.plot(corners, [here.roof(x) / 1e9 for x in corners], "k-", label="roof, one thread")
    tasks = [axes.axvline(x, color=f"C{i}", linewidth=1, label=shown[i].title) for i, x in enumerate(found)]
    for number, one in enumerate(shown):
        for who, seconds in one.seconds.items():
            axes.plot(found[number], one.flops / min(seconds) / 1e9, LOOKS[who], color=f"C{number}", fillstyle="none")
    for who, look in LOOKS.items():
        looks += axes.plot([], [], look, color="gray", fillstyle="none", label=who)
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte", ylabel="GFLOP/s", title="Under this machine's roof")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
        axis.set_minor_formatter("")  # else a short axis gets 6 × 10⁰ between 1 and 10
    axes.grid(True, which="both", alpha=0.25)
    figure.legend(handles=looks, loc="outside right upper", fontsize=8)
    figure.legend(handles=tasks, loc="outside lower center", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    return True
