"""This machine among the accelerators: measured, beside them in a table, and under their rooflines."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .hardware import Accelerator, Figure
from .report import COLUMNS, Line

AT_MOST = 8  # rooflines that can be told apart in one picture
KEYS: dict[str, Callable[[Accelerator, str], float | None]] = {  # what the table can be sorted by
    "ridge": lambda chip, dtype: chip.ridge(chip.stand_in(dtype)),
    "bandwidth": lambda chip, dtype: chip.bandwidth.value,
    "memory": lambda chip, dtype: chip.memory and chip.memory.value,
    "year": lambda chip, dtype: chip.year,
    "rate": lambda chip, dtype: _rate(chip, dtype) and _rate(chip, dtype).value,
}
LEFT = ("id", "name", "type")  # columns of text
DROPPED = ("type", "id", "year", "GB")  # where the terminal is too narrow, in this order


def chosen(chips: Sequence[Accelerator], words: Sequence[str]) -> list[Accelerator]:
    """Those that any word names: by its id, else as a part of id, vendor and name. Without words all of them."""
    found: set[str] = set()
    for word in map(str.lower, words):
        hits = {chip.id for chip in chips if chip.id == word}
        hits = hits or {chip.id for chip in chips if word in f"{chip.id} {chip.vendor} {chip.name}".lower()}
        if not hits:
            raise ValueError(f"no accelerator has {word!r} in its name: `nox -s hardware` shows them all")
        found |= hits
    return [chip for chip in chips if chip.id in found or not words]


def ordered(chips: Sequence[Accelerator], by: str | None, dtype: str) -> list[Accelerator]:
    """By name, or by one of KEYS: the largest first, the unknown last. None keeps the file's order."""
    if by is None:
        return list(chips)
    if by == "name":
        return sorted(chips, key=_name)
    return sorted(chips, key=lambda chip: -(KEYS[by](chip, dtype) or 0))


@dataclass(frozen=True)
class Here:
    """What all threads of this machine reach in float32, in bytes and FLOPs per second."""

    bandwidth: float
    flops: float
    threads: int
    unsteady: float  # median / min of the probe that suffered more

    @property
    def name(self) -> str:
        return f"this machine ({self.threads} thread{'s' * (self.threads > 1)}, fp32)"


def measure(seconds: float = 1.5) -> Here:
    """Both roofs by the wall clock, for show: what a program can get that has the machine to itself."""
    import torch

    from .roofline import Gemm, Gemv

    probes = (Gemv(), []), (Gemm(), [])
    for probe, _ in probes:
        probe()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(probes[0][1]) < 5:
        for probe, taken in probes:
            start = time.perf_counter()
            probe()
            taken.append(time.perf_counter() - start)
    (gemv, reading), (gemm, computing) = probes
    unsteady = max(median(taken) / min(taken) for taken in (reading, computing))
    return Here(gemv.bytes / min(reading), gemm.flops / min(computing), torch.get_num_threads(), unsteady)


def disturbed(here: Here | None) -> list[Line]:
    """What to think of a measurement whose own rounds differ too much, and what to do."""
    from .roofline import STEADY

    if here is None or here.unsteady <= STEADY:
        return []
    said = f"This machine was busy: its median round took {here.unsteady:.2f} times the best (up to {STEADY} is calm)."
    return [(f"  {said} Its figures may be too low: stop what else runs and ask again, or --no-measure.", "warn")]


def table(chips: Sequence[Accelerator], dtype: str, here: Here | None) -> list[Line]:
    """A line for each chip, the last one for this machine; columns are left out until it fits the terminal."""
    width = min(COLUMNS, shutil.get_terminal_size((COLUMNS, 24)).columns)
    # a cell is its text and its marks, which stand outside the column's right edge
    head = {c: (c, "") for c in ("id", "name", "year", "GB", "type", "GB/s", f"{dtype} TFLOP/s", "ridge")}
    rows = [head, *(_row(chip, dtype) for chip in chips), *([_last(here, dtype)] if here else [])]
    marks = {c: max(len(row[c][1]) for row in rows) for c in head}
    sizes = {c: max(len(row[c][0]) for row in rows) + marks[c] for c in head}
    for c in DROPPED:
        if sum(2 + size for size in sizes.values()) > width:
            del sizes[c]
    rest = sum(2 + size for size in sizes.values()) - sizes["name"]
    sizes["name"] = max(12, min(sizes["name"], width - rest))

    def line(row: dict[str, tuple[str, str]]) -> str:
        cells = {c: (row[c][0] + row[c][1].ljust(marks[c]))[: sizes[c]] for c in sizes}
        return "  ".join(["", *(f"{cells[c]:{'<' if c in LEFT else '>'}{sizes[c]}}" for c in sizes)]).rstrip()

    styles = ["bold", *("dim" if chip.status else "" for chip in chips), "warn" if disturbed(here) else "good"]
    return [("", ""), *zip(map(line, rows), styles), ("", "")]


def notes(chips: Sequence[Accelerator], dtype: str) -> list[Line]:
    """What the marks mean, and for a few chips what is worth knowing of them."""
    rows = [_row(chip, dtype) for chip in chips]
    seen = {mark for row in rows for _, marks in row.values() for mark in marks}
    meant = {"?": "not confirmed by a source", "=": "worked out from another figure", "*": "fp16: it has no bf16"}
    lines = ["GB/s and TFLOP/s are peaks from data sheets, without sparsity; ridge: FLOP per byte"]
    lines += [", ".join(f"{mark} {text}" for mark, text in meant.items() if mark in seen)]
    announced = ", ".join(_name(chip) for chip in chips if chip.status)
    lines += [announced and f"announced, not sold yet: {announced}"]
    lines += ["hardware.yaml has the rest: other dtypes, links, watts, what was measured, notes and sources"]
    said: list[Line] = [(f"  {line}", "dim") for line in lines if line]
    for chip in chips if len(chips) <= 4 else ():
        said += [("", ""), (f"  {_name(chip)}", "bold")] if chip.notes else []
        said += [(f"    {note}", "") for note in chip.notes]
    return [*said, ("", "")]


def drawable(chips: Sequence[Accelerator], dtype: str) -> list[Accelerator]:
    """Those with a rate for `dtype`: a roof of which only the slope is known is none."""
    found = [chip for chip in chips if _rate(chip, dtype)]
    if not found:
        raise ValueError(f"nothing to draw: no {dtype} rate is known of these; try others, or another --dtype")
    if len(found) > AT_MOST:
        few = "`nox -s hardware -- h100_sxm mi300x --plot`"
        raise ValueError(f"{len(found)} rooflines are too many for one picture: name {AT_MOST} at most, as in {few}")
    return found


def draw(
    chips: Sequence[Accelerator],
    dtype: str,
    here: Here | None,
    points: Sequence[tuple[str, float, float]],
    path: Path,
) -> None:
    """Draw the roofline of each chip and of this machine into the picture `path`.

    points  (name, FLOP per byte, FLOPs per second): programs that were measured on this machine
    """
    from matplotlib.figure import Figure as Picture  # without pyplot: no window system, no global state

    roofs = [_roof(chip, dtype) for chip in chips]
    mine = f"{here.name}: ridge {here.flops / here.bandwidth:,.1f}" if here else ""
    roofs += [(mine, here.bandwidth, here.flops)] if here else []
    axes = (figure := Picture(figsize=(10, 5), layout="constrained")).subplots()
    for i, (label, bandwidth, flops) in enumerate(sorted(roofs, key=lambda roof: -roof[2])):
        # the roofs of neighbours may coincide: dashes let the one below show
        style = {"color": "black" if label == mine else f"C{i}", "linestyle": ("-", "--")[i % 2]}
        ridge, peak = flops / bandwidth, flops / 1e12
        axes.plot([1 / 4, ridge, 4096], [bandwidth / 4e12, peak, peak], label=label, **style)
        axes.plot(ridge, peak, "o", color=style["color"], markersize=4)
    for name, intensity, flops in points:
        yours = "your code in the last bench" if name == points[0][0] else ""
        axes.plot(intensity, flops / 1e12, "D", color="black", markersize=4, label=yours)
        axes.annotate(name, (intensity, flops / 1e12), (6, -3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=(1 / 4, 4096), ylabel="attainable TFLOP/s")
    axes.set_xlabel("FLOP per byte (a step of decode with 16-bit weights: about its batch size)")
    axes.set_title(f"Rooflines: {dtype}, dense, from data sheets" + "; this machine measured" * bool(here), fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
    axes.grid(True, which="both", alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _name(chip: Accelerator) -> str:
    return f"{chip.vendor} {chip.name}"


def _rate(chip: Accelerator, dtype: str) -> Figure | None:
    return chip.dense.get(chip.stand_in(dtype))


def _roof(chip: Accelerator, dtype: str) -> tuple[str, float, float]:
    """(label, bytes per second, FLOPs per second)."""
    used, ridge = chip.stand_in(dtype), "".join(_row(chip, dtype)["ridge"])
    label = f"{_name(chip)}{f' ({used})' * (used != dtype)}: ridge {ridge}"
    return label, 1e9 * chip.bandwidth.value, 1e12 * chip.dense[used].value


def _number(value: float) -> str:
    if value < 10:
        return f"{value:.3g}"
    return f"{value:,.{0 if value >= 1000 or value == int(value) else 1}f}"


def _cell(figure: Figure | None, mark: str = "") -> tuple[str, str]:
    if figure is None:
        return "-", ""
    return _number(figure.value), {"": "", "unverified": "?"}.get(figure.remark, "=") + mark


def _row(chip: Accelerator, dtype: str) -> dict[str, tuple[str, str]]:
    used = chip.stand_in(dtype)
    rate, ridge = _rate(chip, dtype), chip.ridge(used)
    unsure = any(figure and figure.remark == "unverified" for figure in (rate, chip.bandwidth))
    kind, unconfirmed, _ = chip.memory_type.partition(" unverified")
    return {
        "id": (chip.id, ""),
        "name": (_name(chip), ""),
        "year": (str(chip.year), ""),
        "GB": _cell(chip.memory),
        "type": (kind, "?" * bool(unconfirmed)),
        "GB/s": _cell(chip.bandwidth),
        f"{dtype} TFLOP/s": _cell(rate, "*" * (used != dtype)),
        "ridge": ("-", "") if ridge is None else (f"{ridge:,.1f}", "?" * unsure),
    }


def _last(here: Here, dtype: str) -> dict[str, tuple[str, str]]:
    texts = {"id": "", "name": here.name, "year": "", "GB": "", "type": "", "GB/s": _number(here.bandwidth / 1e9)}
    texts |= {f"{dtype} TFLOP/s": _number(here.flops / 1e12), "ridge": f"{here.flops / here.bandwidth:,.1f}"}
    return {column: (text, "") for column, text in texts.items()}
