"""Accelerators from hardware.yaml: what their data sheets say, checked, and the ridge that follows from it.

A leaf: it imports nothing of the dojo, and PyYAML only when the file is read. The head of hardware.yaml says what the
figures mean and how an entry is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "hardware.yaml"
DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp16 acc fp16", "fp8", "fp8 acc fp16", "fp6", "fp4", "int8", "int4")
RATES = ("dense", "sparse", "measured")
DIRECTIONS = ("one way", "both ways", "not said")
TWO_OF_FOUR = ("NVIDIA", "AMD")  # their sparse rate is twice the dense one
NEEDED = ("name", "vendor", "year", "memory type", "memory GB/s", "sources")
# what an entry may have, its parts spelled out: a text, one of several words, texts, or a figure (least, most, unit)
RULES: dict[str, object] = dict.fromkeys(("name", "vendor", "status", "memory type", "link kind"), str)
RULES |= {"link direction": DIRECTIONS, "sources": list, "notes": list, "year": (1990, 2027, "years")}
RULES |= {"memory GB": (1, 10_000, "GB"), "memory GB/s": (5, 50_000, "GB/s"), "link GB/s": (1, 20_000, "GB/s")}
RULES |= {"watts": (1, 5_000, "watts")}
RULES |= {f"{part} {dtype}": (0.1, 100_000, "TFLOP/s") for part in RATES for dtype in DTYPES}
ON_CHIP = r"on_chip (.+ [KM]i?B( per \w+)?|\w+s)"  # `L2 MiB`, `L1 KB per SM`; or a count: `SMs`


@dataclass(frozen=True)
class Figure:
    """A number; remark is "" where a source has it, "unverified", or how it was worked out."""

    value: float
    remark: str = ""


@dataclass(frozen=True)
class Link:
    """What one accelerator exchanges with the others; direction says what its GB/s count."""

    kind: str
    bandwidth: Figure | None
    direction: str | None


@dataclass(frozen=True)
class Accelerator:
    """One entry: memory in GB, bandwidths in GB/s, rates in TFLOP/s by dtype; what is not known is None or empty."""

    id: str
    name: str
    vendor: str
    year: int
    memory: Figure | None
    memory_type: str
    bandwidth: Figure
    dense: Mapping[str, Figure]
    sparse: Mapping[str, Figure]
    measured: Mapping[str, Figure]
    on_chip: Mapping[str, Figure]
    link: Link | None
    watts: Figure | None
    status: str
    sources: tuple[str, ...]
    notes: tuple[str, ...]

    def ridge(self, dtype: str) -> float | None:
        """FLOP per byte from which on arithmetic is the limit: dense FLOP/s over bytes per second."""
        return 1000 * self.dense[dtype].value / self.bandwidth.value if dtype in self.dense else None

    def stand_in(self, dtype: str) -> str:
        """The dtype to look up for `dtype`: itself, or fp16 for bf16 where there is only that."""
        return "fp16" if dtype == "bf16" and "bf16" not in self.dense and "fp16" in self.dense else dtype


def load(path: str | Path = FILE) -> list[Accelerator]:
    """All accelerators, in the file's order. ValueError says all that is wrong with the file."""
    import yaml

    name = Path(path).name
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict) or not all(isinstance(data.get(key), dict) for key in ("sources", "accelerators")):
        raise ValueError(f"{name} has not both `sources` and `accelerators`, each with entries below it")
    entries = data["accelerators"].items()
    if wrong := [f"{id}: {said}" for id, raw in entries for said in check(raw, data["sources"])]:
        raise ValueError(f"{name}, {'; '.join(wrong)}")
    return [_accelerator(id, dict(_flat(raw))) for id, raw in entries]


def check(raw: object, sources: Collection[str]) -> list[str]:
    """What is wrong with one entry as the file has it, a sentence each; [] when it is sound."""
    if not isinstance(raw, dict):
        return [f"an entry has {', '.join(NEEDED)}; this is {raw!r}"]
    entry = dict(_flat(raw))
    said = [f"{key} is missing" for key in NEEDED if key not in entry]
    said += [sentence for key, value in entry.items() if (sentence := _wrong(key, value))]
    if "link GB/s" in entry and "link direction" not in entry:
        said.append(f"link direction is missing: {', '.join(DIRECTIONS)}?")
    if said:
        return said
    said += [f"source {key!r} is not in the list at the top" for key in entry["sources"] if key not in sources]
    for dtype, dense in _figures(entry, "dense").items():
        sparse, measured = (_figures(entry, part).get(dtype, dense).value for part in ("sparse", "measured"))
        # 1% is left to the sheet's rounding
        if f"sparse {dtype}" in entry and entry["vendor"] in TWO_OF_FOUR and dense.value > 1.01 * sparse / 2:
            said.append(f"dense {dtype} is {dense.value:g} and sparse {sparse:g}: dense is at most half of it")
        if measured > dense.value:
            said.append(f"measured {dtype} is {measured:g}, more than its peak, dense {dense.value:g}")
    return said


def _flat(raw: dict) -> Iterator[tuple[str, object]]:
    """("name", "T4"), ("memory GB/s", 320) and so on."""
    for key, value in raw.items():
        if isinstance(value, dict) and value:
            yield from ((f"{key} {inner}", below) for inner, below in value.items())
        else:
            yield str(key), value


def _wrong(key: str, value: object) -> str:
    """What is wrong with one text or figure, or ""."""
    rule = RULES.get(key) or (re.fullmatch(ON_CHIP, key) and (0.5, 10_000, key.split()[-1]))
    if not rule:
        near = difflib.get_close_matches(key, [*RULES, "on_chip L2 MiB", "on_chip L1 KB per SM"], 1)
        return f"{key!r} is unknown{f': did you mean {near[0]!r}?' if near else '; see the other entries'}"
    if rule is str:
        return "" if isinstance(value, str) and value else f"{key} is a text, not {value!r}"
    if rule is list:
        sound = isinstance(value, list) and value and all(isinstance(text, str) and text for text in value)
        return "" if sound else f"{key} is a list of texts, not {value!r}"
    if rule is DIRECTIONS:
        return "" if value in DIRECTIONS else f"{key} is one of {', '.join(DIRECTIONS)}; not {value!r}"
    if key == "year" and type(value) is not int:
        return f"year is a whole number, not {value!r}"
    figure, (low, high, unit) = _figure(value), rule
    if figure is None:
        return f"{key} is a figure (300, `300 unverified`, `300 = how it was worked out`), not {value!r}"
    sound = low <= figure.value <= high
    return "" if sound else f"{key} is {figure.value:,g}, outside {low:,} to {high:,}: is it in {unit}?"


def _figure(raw: object) -> Figure | None:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return Figure(raw)
    found = re.fullmatch(r"(\d+(?:\.\d+)?) (unverified|= \S.*)", raw) if isinstance(raw, str) else None
    return found and Figure(float(found[1]), found[2].removeprefix("= "))


def _figures(entry: dict, part: str) -> dict[str, Figure]:
    return {key.partition(" ")[2]: _figure(value) for key, value in entry.items() if key.startswith(f"{part} ")}


def _accelerator(id: str, entry: dict) -> Accelerator:
    """What a sound entry says, given flat."""
    link = "link kind" in entry and Link(
        entry["link kind"], _figure(entry.get("link GB/s")), entry.get("link direction")
    )
    return Accelerator(
        id=id,
        name=entry["name"],
        vendor=entry["vendor"],
        year=entry["year"],
        memory=_figure(entry.get("memory GB")),
        memory_type=entry["memory type"],
        bandwidth=_figure(entry["memory GB/s"]),
        **{part: _figures(entry, part) for part in (*RATES, "on_chip")},
        link=link or None,
        watts=_figure(entry.get("watts")),
        status=entry.get("status", ""),
        sources=tuple(entry["sources"]),
        notes=tuple(entry.get("notes", ())),
    )
