"""hardware.yaml entry by entry, the ridges that follow from it, and the verb that shows it."""

import copy
import datetime
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dojo import catalog, hardware, machine, roofline
from dojo.verbs import main
from tests.miniature import screen, untouched

TEXT = hardware.FILE.read_text(encoding="utf-8")
DATA = yaml.safe_load(TEXT)
ENTRIES = DATA["accelerators"]
CHIPS = hardware.load()  # once: YAML is slow
EACH = pytest.mark.parametrize("id", ENTRIES)
HERE = machine.Here(bandwidth=20e9, flops=0.2e12, threads=2, unsteady=1.1)


def number(figure: object) -> float:
    """The number of a figure, by the three forms that the head of the file allows."""
    if isinstance(figure, str):
        assert re.fullmatch(r"[\d.]+ (unverified|= .+)", figure), figure
        return float(figure.split()[0])
    assert type(figure) in (int, float), figure
    return figure


def sketch(**changes: object) -> dict:
    """A sound entry with some keys changed; a None takes the key away."""
    entry = {"name": "X1", "vendor": "NVIDIA", "year": 2024, "sources": ["a"], "watts": 700}
    entry |= {"memory": {"GB": 80, "type": "HBM3", "GB/s": 3350}, "dense": {"bf16": 989, "fp8": 1979}}
    entry |= {"sparse": {"bf16": 1979}, "measured": {"bf16": 794.5}, "on_chip": {"L2 MiB": 50, "SMs": 132}}
    entry |= {"link": {"kind": "NVLink 4", "GB/s": 900, "direction": "both ways"}, "notes": ["450 GB/s each way."]}
    return {key: value for key, value in (entry | changes).items() if value is not None}


# ---- the file


def test_every_accelerator_is_read_once():
    """YAML lets the last of two equal keys win; a copied entry would silently replace the first."""
    assert [chip.id for chip in CHIPS] == list(ENTRIES) and len(ENTRIES) >= 61

    def keys_are_unique(node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), keys
            for _, below in node.value:
                keys_are_unique(below)

    keys_are_unique(yaml.compose(TEXT))


@EACH
def test_an_entry_has_what_the_head_of_the_file_promises(id):
    """Checked here without dojo.hardware, so that neither the file nor its check can be wrong alone."""
    entry = ENTRIES[id]
    assert re.fullmatch(r"[a-z0-9_]+", id)
    assert {"name", "vendor", "year", "memory", "sources"} <= set(entry)
    optional = {"dense", "sparse", "measured", "on_chip", "link", "watts", "status", "notes"}
    assert set(entry) <= {"name", "vendor", "year", "memory", "sources"} | optional
    assert type(entry["year"]) is int and 1990 <= entry["year"] <= 2027
    assert not entry["name"].startswith(entry["vendor"]), "the vendor is printed before the name"
    memory = entry["memory"]
    assert {"type", "GB/s"} <= set(memory) <= {"GB", "type", "GB/s"}
    assert 5 <= number(memory["GB/s"]) <= 50_000 and 4 <= number(memory.get("GB", 4)) <= 1000
    for part in ("dense", "sparse", "measured"):
        rates = entry.get(part, {"fp32": 1})
        assert rates and set(rates) <= set(hardware.DTYPES)
        assert all(1 <= number(rate) <= 50_000 for rate in rates.values())
    for key, size in entry.get("on_chip", {}).items():
        assert re.search(r" [KM]i?B( per \w+)?$|^(SMs|XCDs)$", key) and 0 < number(size) <= 1024
    assert 10 <= number(entry.get("watts", 10)) <= 2500
    link = entry.get("link", {"kind": "none"})
    assert ("GB/s" in link) == ("direction" in link) and link["kind"]
    assert link.get("direction", "one way") in ("one way", "both ways", "not said")
    assert 10 <= number(link.get("GB/s", 10)) <= 5000
    assert all(isinstance(note, str) and note.endswith(".") for note in entry.get("notes", []))


@EACH
def test_dense_is_at_most_half_of_sparse_and_at_least_what_was_measured(id):
    """The commonest mistake in public tables: a sparse figure in a dense row. 1% is the sheets' rounding."""
    entry = ENTRIES[id]
    dense = {dtype: number(rate) for dtype, rate in entry.get("dense", {}).items()}
    for dtype in dense.keys() & entry.get("sparse", {}).keys():
        if entry["vendor"] in ("NVIDIA", "AMD"):
            assert dense[dtype] <= 1.01 * entry["sparse"][dtype] / 2
    for dtype, rate in entry.get("measured", {}).items():
        assert rate <= dense[dtype]


def test_sources_have_an_address_and_a_date_and_are_all_used():
    assert DATA["read_on"] == datetime.date(2026, 11, 30)
    used = {key for entry in ENTRIES.values() for key in entry["sources"]}
    assert used == set(DATA["sources"])
    for source in DATA["sources"].values():
        assert set(source) == {"what", "at", "date"} and isinstance(source["date"], datetime.date)
        assert source["date"] <= DATA["read_on"]
        assert source["at"].startswith("https://") or source["at"] in ("second hand", "none needed")


def test_what_a_person_reads_stays_short():
    entries = re.split(r"\n\n  (?=\w+:\n)", TEXT.partition("\naccelerators:\n")[2])
    assert len(entries) == len(ENTRIES) and max(text.count("\n") for text in entries) <= 16
    assert max(map(len, TEXT.splitlines())) <= 120
    assert not re.search(r"^ +ridge", TEXT, re.M), "a ridge is computed, never stored"


# ---- ridges

# worked out by hand from the two printed figures, or printed elsewhere: 989 / 3.35, 2307 / 7.38 and so on
RIDGES = {"h100_sxm": 295, "a100_80_sxm": 153, "h200_sxm": 206, "tpu_v5e": 240, "b200": 281, "tpu_v7x": 312.6}
RIDGES |= {"mi300x": 246.6, "tpu_v6e": 560, "trn3": 137, "l40s": 419}


@pytest.mark.parametrize("id", RIDGES)
def test_the_ridge_is_dense_flops_over_bytes(id):
    chip = next(chip for chip in CHIPS if chip.id == id)
    assert chip.ridge("bf16") == pytest.approx(RIDGES[id], rel=0.01)


def test_there_is_a_ridge_for_each_dtype_that_has_a_rate():
    chips = {chip.id: chip for chip in CHIPS}
    assert chips["h100_sxm"].ridge("fp8") == pytest.approx(590.7, rel=0.001)
    assert chips["gaudi3"].ridge("fp16") == pytest.approx(459 / 3.7) and chips["gaudi3"].ridge("int4") is None
    assert chips["m4"].ridge("bf16") is None
    assert [chips["t4"].stand_in(dtype) for dtype in ("bf16", "fp16", "fp8")] == ["fp16", "fp16", "fp8"]
    assert chips["m4"].stand_in("bf16") == "bf16" and chips["h100_sxm"].stand_in("bf16") == "bf16"


def test_a_figure_keeps_what_is_said_of_it():
    chips = {chip.id: chip for chip in CHIPS}
    assert chips["h100_sxm"].dense["bf16"] == hardware.Figure(989)
    assert chips["v100_sxm2"].link == hardware.Link("NVLink 2", hardware.Figure(300, "unverified"), "both ways")
    assert chips["a10g"].watts == hardware.Figure(300, "unverified")
    assert chips["a10"].dense["tf32"] == hardware.Figure(62.5, "half of bf16")
    assert chips["inf2"].link == hardware.Link("NeuronLink v2", None, None)
    m4 = chips["m4"]
    assert (m4.link, m4.watts, m4.dense, m4.status, m4.notes) == (None, None, {}, "", ())
    assert m4.memory == hardware.Figure(32, "unverified") and chips["ddr4_3200_2ch"].memory is None


# ---- what is wrong with an entry: (changes to a sound one, all that is said)

MEMORY, LINK = {"GB": 80, "type": "HBM3", "GB/s": 3350}, {"kind": "NVLink 4", "GB/s": 900, "direction": "both ways"}
BAD = {
    "no name": ({"name": None}, ["name is missing"]),
    "two missing": ({"year": None, "sources": None}, ["year is missing", "sources is missing"]),
    "empty name": ({"name": ""}, ["name is a text, not ''"]),
    "year in a text": ({"year": "2024"}, ["year is a whole number, not '2024'"]),
    "half a year": ({"year": 2024.5}, ["year is a whole number, not 2024.5"]),
    "year of a flag": ({"year": True}, ["year is a whole number, not True"]),
    "two digits": ({"year": 24}, ["year is 24, outside 1,990 to 2,027: is it in years?"]),
    "TB/s": (
        {"memory": MEMORY | {"GB/s": 3.35}},
        ["memory GB/s is 3.35, outside 5 to 50,000: is it in GB/s?"],
    ),
    "bytes": ({"memory": MEMORY | {"GB": 80e9}}, ["memory GB is 8e+10, outside 1 to 10,000: is it in GB?"]),
    "no bandwidth": ({"memory": {"GB": 80, "type": "HBM3"}}, ["memory GB/s is missing"]),
    "no memory": ({"memory": None}, ["memory type is missing", "memory GB/s is missing"]),
    "no number": ({"memory": MEMORY | {"GB/s": float("nan")}}, ["memory GB/s is nan, outside "]),
    "PFLOP/s": ({"dense": {"fp4": 0.015}}, ["dense fp4 is 0.015, outside 0.1 to 100,000: is it in TFLOP/s?"]),
    "FLOP/s": ({"dense": {"bf16": 989e12}}, ["dense bf16 is 9.89e+14, outside 0.1 to 100,000: is it in TFLOP/s?"]),
    "negative": ({"watts": -1}, ["watts is -1, outside 1 to 5,000: is it in watts?"]),
    "sparse as dense": ({"dense": {"bf16": 1979}}, ["dense bf16 is 1979 and sparse 1979: dense is at most half of it"]),
    "a little too dense": (
        {"dense": {"bf16": 1010}},
        ["dense bf16 is 1010 and sparse 1979: dense is at most half of it"],
    ),
    "AMD": ({"vendor": "AMD", "dense": {"bf16": 1979}}, ["dense bf16 is 1979 and sparse 1979: "]),
    "above its peak": (
        {"measured": {"bf16": 990}},
        ["measured bf16 is 990, more than its peak, dense 989"],
    ),
    "unknown key": ({"tdp": 700}, ["'tdp' is unknown"]),
    "typo": ({"wats": 700}, ["'wats' is unknown: did you mean 'watts'?"]),
    "a ridge": ({"ridge": 295}, ["'ridge' is unknown"]),
    "unknown dtype": ({"dense": {"bf17": 989}}, ["'dense bf17' is unknown: did you mean 'dense bf16'?"]),
    "unit in a key": ({"memory": MEMORY | {"GBps": 1}}, ["'memory GBps' is unknown: did you mean 'memory GB/s'?"]),
    "no unit": ({"on_chip": {"L2": 50}}, ["'on_chip L2' is unknown: did you mean 'on_chip L2 MiB'?"]),
    "too much on chip": ({"on_chip": {"L2 MiB": 50e6}}, ["on_chip L2 MiB is 5e+07, outside 0.5 to 10,000"]),
    "no direction": (
        {"link": {"kind": "NVLink 4", "GB/s": 900}},
        ["link direction is missing: one way, both ways, not said?"],
    ),
    "other direction": (
        {"link": LINK | {"direction": "bidirectional"}},
        ["link direction is one of one way, both ways, not said; not 'bidirectional'"],
    ),
    "no figure": ({"watts": "about 700"}, ["watts is a figure (300, `300 unverified`, `300 = how it was worked out`)"]),
    "a remark without words": ({"watts": "700 = "}, ["watts is a figure (300, "]),
    "nothing": ({"dense": {"bf16": None}}, ["dense bf16 is a figure (300, "]),
    "a flag": ({"watts": True}, ["watts is a figure (300, "]),
    "an empty part": ({"dense": {}}, ["'dense' is unknown"]),
    "a part without keys": (
        {"memory": 80},
        ["memory type is missing", "memory GB/s is missing", "'memory' is unknown"],
    ),
    "a source of its own": ({"sources": ["a", "b"]}, ["source 'b' is not in the list at the top"]),
    "a source alone": ({"sources": "a"}, ["sources is a list of texts, not 'a'"]),
    "no sources": ({"sources": []}, ["sources is a list of texts, not []"]),
    "a note alone": ({"notes": "fast"}, ["notes is a list of texts, not 'fast'"]),
}


@pytest.mark.parametrize(("changes", "said"), BAD.values(), ids=BAD)
def test_a_bad_entry_gets_its_sentence(changes, said):
    entry = sketch(**changes)
    before = copy.deepcopy(entry)
    found = hardware.check(entry, {"a": {}})
    assert len(found) == len(said) and all(sentence.startswith(start) for sentence, start in zip(found, said)), found
    assert entry == before


SOUND = {
    "full": {},
    "bare": dict.fromkeys(["watts", "dense", "sparse", "measured", "on_chip", "link", "notes"]),
    "remarks": {"watts": "700 unverified", "dense": {"bf16": "989 = half of sparse"}},
    "rounded sheet": {"dense": {"bf16": 999}},
    "4 of 16": {
        "vendor": "AWS",
        "dense": {"bf16": 667, "fp8": 1299},
        "sparse": {"bf16": 2563, "fp8": 2563},
        "measured": None,
    },
    "sparse alone": {"dense": None, "measured": None},
    "a link of unknown speed": {"link": {"kind": "UALink"}},
    "units": {"on_chip": {"L1 KiB per SM": 256, "Infinity Cache MiB": 256, "XCDs": 8}},
    "announced": {"status": "announced 2026-04-22"},
    "the least": {"year": 1990, "memory": MEMORY | {"GB/s": 5}},
    "the most": {"year": 2027, "memory": MEMORY | {"GB/s": 50_000}},
}


@pytest.mark.parametrize("changes", SOUND.values(), ids=SOUND)
def test_a_sound_entry_passes(changes):
    assert hardware.check(sketch(**changes), {"a": {}}) == []


@pytest.mark.parametrize("entry", [None, 5, "T4", ["T4"]])
def test_what_is_no_entry_at_all(entry):
    assert hardware.check(entry, {})[0].startswith("an entry has name, vendor, year, ")


def test_a_file_with_mistakes_names_all_of_them(tmp_path):
    path = tmp_path / "mine.yaml"
    one, two = sketch(year=24), sketch(watts="?")
    path.write_text(yaml.safe_dump({"sources": {"a": {}}, "accelerators": {"one": one, "two": two, "three": sketch()}}))
    with pytest.raises(ValueError, match=r"^mine\.yaml, one: year is 24, .+; two: watts is a figure .+$"):
        hardware.load(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\n", "mine.yaml is not YAML: "),
        ("watts: {a: 300?, b: 1}\n", "mine.yaml is not YAML: "),
        ("", "mine.yaml has not both `sources` and `accelerators`"),
        ("sources: {a: {}}\naccelerators:\n", "mine.yaml has not both `sources` and `accelerators`"),
    ],
)
def test_a_file_that_is_no_table(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        hardware.load(path)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


# ---- the verb


@pytest.fixture
def show(monkeypatch):
    """`hardware ARGS` in this process: its exit code and what it printed."""

    def run(*args: str, columns: int = 110, here: machine.Here | None = None, **how) -> tuple[int, str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(machine, "measure", lambda: here)
        monkeypatch.setattr(hardware, "load", lambda: CHIPS)
        done = CliRunner().invoke(main, ["hardware", *([] if here else ["--no-measure"]), *args], **how)
        return done.exit_code, done.output

    return run


def ids(text: str) -> list[str]:
    """The first column below the head."""
    table = text.strip().partition("\n\n")[0].splitlines()[1:]
    return [line.split()[0] for line in table]


@screen(untouched, "dojo", "hardware", "h100_sxm", "t4", "m4", "--no-measure")
def test_what_the_verb_prints(screen):
    assert screen.code == 0 and not screen.err
    assert (
        screen.text
        == """
  id        name              year  GB   type    GB/s  bf16 TFLOP/s   ridge
  t4        NVIDIA T4         2018  16   GDDR6    320            65*  203.1
  h100_sxm  NVIDIA H100 SXM5  2022  80   HBM3   3,350           989   295.2
  m4        Apple M4          2024  32?  LPDDR    120             -       -

  GB/s and TFLOP/s are peaks from data sheets, without sparsity; ridge: FLOP per byte
  ? not confirmed by a source, * fp16: it has no bf16
  hardware.yaml has the rest: other dtypes, links, watts, what was measured, notes and sources

  NVIDIA T4
    Turing: no bf16. fp16 has less range; float32 is 8 times slower.
    Some databases print the tensor rate, 65, as plain fp16, which is 16.3.

  NVIDIA H100 SXM5
    450 GB/s each way; measured 396 one way and 784 both (nvbandwidth).
    1979 is sparse bf16 and dense fp8.
    989 belongs to 1830 MHz; with the 1980 MHz that many quote it would be 1070.
    The full die has 144 SMs and 60 MB of L2; the product has 132 and 50 MiB.

"""
    )


def test_all_are_shown_in_the_files_order(show):
    code, text = show()
    assert code == 0 and ids(text) == list(ENTRIES)
    assert max(map(len, text.splitlines())) <= 110


def test_words_choose_by_id_vendor_and_name(show):
    assert ids(show("h100", "trainium")[1]) == ["h100_pcie", "h100_sxm", "h100_nvl", "trn2", "trn3"]
    assert ids(show("INTEL")[1]) == ["gaudi3"]
    assert ids(show("a100_80")[1]) == ["a100_80_pcie", "a100_80_sxm"]
    assert ids(show("a10")[1]) == ["a10"], "a word that is an id means that one"
    assert ids(show("tpu_v5e", "v5p", "v5e")[1]) == ["tpu_v5e", "tpu_v5p"]
    assert show("h1OO") == (1, "Error: no accelerator has 'h1oo' in its name: `nox -s hardware` shows them all\n")


def test_sorted_by_each_column(show):
    words = ("h100_sxm", "t4", "m4", "tpu_v6e", "rubin", "ddr5_5600_2ch")
    right = {
        "ridge": "tpu_v6e h100_sxm t4 rubin m4 ddr5_5600_2ch",
        "bandwidth": "rubin h100_sxm tpu_v6e t4 m4 ddr5_5600_2ch",
        "memory": "rubin h100_sxm tpu_v6e m4 t4 ddr5_5600_2ch",
        "year": "rubin tpu_v6e m4 h100_sxm ddr5_5600_2ch t4",
        "rate": "rubin h100_sxm tpu_v6e t4 m4 ddr5_5600_2ch",
        "name": "m4 ddr5_5600_2ch tpu_v6e h100_sxm rubin t4",  # Apple, CPU, Google, NVIDIA
    }
    assert {by: " ".join(ids(show(*words, "--sort", by)[1])) for by in right} == right
    assert ids(show("h100_sxm", "a10g", "--sort", "rate", "--dtype", "int8")[1]) == ["h100_sxm", "a10g"]


def test_the_rate_and_the_ridge_are_of_the_dtype(show):
    _, text = show("h100_sxm", "t4", "--dtype", "fp8")
    assert "fp8 TFLOP/s" in text and re.search(r"H100 SXM5 .* 1,979  590\.7", text)
    assert re.search(r"NVIDIA T4 .* 320 +-      -", text) and "bf16" not in text.partition("\n\n")[0]
    _, text = show("t4", "--dtype", "bf16")
    assert " 65*  203.1" in text and "* fp16: it has no bf16" in text
    _, text = show("t4", "--dtype", "fp16")
    assert " 65  203.1" in text and "fp16: it has no bf16" not in text


def test_unconfirmed_and_derived_figures_are_marked(show):
    _, text = show("a10g", "rtx5090")
    assert re.search(r"A10G \(AWS\) .* 600 +70\?  116\.7\?", text), "a ridge is as sure as its rate"
    assert re.search(r"RTX 5090 .* 1,792 +209\.6=  117\.0\n", text)
    assert "? not confirmed by a source, = worked out from another figure" in text
    _, text = show("h100_pcie")
    assert "HBM2e?" in text and "? not confirmed by a source" in text
    _, text = show("h100_sxm")
    assert "not confirmed" not in text and "worked out" not in text and "has no bf16" not in text


def test_what_was_only_announced_is_named(show):
    assert "announced, not sold yet: NVIDIA Rubin NVL72 (one GPU), Google TPU 8t (training)" in show("rubin", "8t")[1]
    assert "announced, not" not in show("h100")[1]


def test_a_few_come_with_their_notes(show):
    assert "\n  NVIDIA H200 SXM\n    450 GB/s each way.\n" in show("h200", "m3_ultra")[1]
    assert "450 GB/s each way." not in show("nvidia")[1]


@pytest.mark.parametrize("columns", [100, 80, 72, 60, 46])
def test_a_narrow_terminal_leaves_columns_out(show, columns):
    """Name, bandwidth, rate and ridge stay, whatever the width."""
    code, text = show(columns=columns, here=HERE)
    assert code == 0 and max(map(len, text.splitlines())) <= columns
    assert re.match(r"  (id +)?name .*GB/s +bf16 TFLOP/s +ridge$", text.splitlines()[1])
    assert re.search(r"NVIDIA H.* 3,350 +989 +295\.2", text) and re.search(r"this machi.* 20 +0\.2 +10\.0", text)


def test_no_line_is_ever_wider_than_the_terminal(monkeypatch):
    for columns in range(46, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = [text for text, _ in machine.table(CHIPS, "bf16", HERE)]
        assert max(map(len, lines)) <= min(columns, 110)
        assert columns < 68 or any("NVIDIA H100 NVL (one of the pair)  " in line for line in lines), "names come first"


def test_at_eighty_columns_year_and_memory_are_still_there(show):
    assert re.search(r"^  name +year +GB +GB/s +bf16 TFLOP/s +ridge$", show(columns=80)[1], re.M)


def test_colour_is_for_terminals_that_want_it(show, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in show("h100", color=True)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in show("h100", color=True)[1]


# ---- this machine


def test_this_machine_is_the_last_row(show):
    _, text = show("h100", "--sort", "ridge", here=HERE)
    rows = text.strip("\n").partition("\n\n")[0].splitlines()
    assert re.fullmatch(r" +this machine \(2 threads, fp32\) +20 +0\.2 +10\.0", rows[-1])
    assert "busy" not in text and "this machine" not in show("h100")[1]


def test_a_disturbed_measurement_says_so_and_what_to_do(show):
    said = "This machine was busy: its median round took 2.30 times the best (up to 1.5 is calm)."
    text = " ".join(show("h100", here=machine.Here(20e9, 0.2e12, 1, unsteady=2.3))[1].split())
    assert said in text and "stop what else runs and ask again, or --no-measure." in text
    assert "this machine (1 thread, fp32)" in text
    chips = machine.chosen(CHIPS, ["h100_sxm", "rubin"])
    styles = [style for _, style in machine.table(chips, "bf16", machine.Here(20e9, 0.2e12, 1, unsteady=2.3))]
    assert styles == ["", "bold", "", "dim", "warn", ""]
    assert [style for _, style in machine.table(chips, "bf16", HERE)][-2] == "good"
    calm = show("h100", here=machine.Here(20e9, 0.2e12, 1, unsteady=roofline.STEADY))[1]
    assert "busy" not in calm


class Clock:
    """A clock that only the probes move."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def probe(clock: Clock, seconds: list[float], **size: float):
    class Probe:
        bytes, flops = size.get("bytes"), size.get("flops")

        def __call__(self) -> None:
            clock.now += seconds.pop(0)

    return Probe


def test_both_roofs_are_the_best_rounds_of_the_probes(monkeypatch):
    """The first call of each warms up; five rounds at least, taken in turn; the median tells how steady it was."""
    clock = Clock()
    monkeypatch.setattr(machine, "time", clock)
    monkeypatch.setattr(roofline, "Gemv", probe(clock, [0.01, 4.0, 2.0, 5.0, 6.0, 3.0], bytes=40e9))
    monkeypatch.setattr(roofline, "Gemm", probe(clock, [0.01, 1.0, 1.0, 1.0, 1.0, 1.25], flops=3e12))
    here = machine.measure(seconds=9.0)
    assert (here.bandwidth, here.flops, here.unsteady) == pytest.approx((20e9, 3e12, 2.0))
    assert here.threads >= 1


def test_it_measures_for_the_time_that_is_given(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(machine, "time", clock)
    reading, computing = [0.1] * 100, [0.1] * 100
    monkeypatch.setattr(roofline, "Gemv", probe(clock, reading, bytes=1e9))
    monkeypatch.setattr(roofline, "Gemm", probe(clock, computing, flops=1e12))
    machine.measure(seconds=1.5)
    assert 100 - len(reading) == 100 - len(computing) and 8 <= 100 - len(reading) <= 10


# ---- the picture


def test_the_picture_is_written(show, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    (tmp_path / "levels/level00").mkdir(parents=True)
    code, text = show("h100", "--plot", here=HERE)
    picture = tmp_path / "labs-out/hardware.png"
    assert code == 0 and text.endswith(f"  wrote {picture}\n\n")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000


def test_a_word_after_plot_is_a_word_and_a_picture_is_a_picture(show, tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    (tmp_path / "levels/level00").mkdir(parents=True)
    _, text = show("--plot", "h100_sxm", "a10")
    assert ids(text) == ["a10", "h100_sxm"] and (tmp_path / "labs-out/hardware.png").is_file()
    file = tmp_path / "new folder/mine.SVG"
    code, text = show("--plot", str(file), "h100_sxm")
    assert code == 0 and ids(text) == ["h100_sxm"] and "<svg" in file.read_text()
    code, text = show("h100_sxm", "m4", "--plot", str(file))
    assert code == 0 and ids(text) == ["h100_sxm", "m4"], "no bf16 rate is known of the M4: it has no roofline"


def test_too_many_or_no_rooflines_are_answered_before_anything_is_measured(show):
    code, text = show("--plot")
    assert code == 1 and text.startswith("Error: 38 rooflines are too many for one picture: name 8 at most, as in ")
    code, text = show("m3", "--plot")
    assert code == 1 and text.startswith("Error: nothing to draw: no bf16 rate is known of these")
    assert len(machine.drawable(CHIPS[:8], "bf16")) == 8


def words(path: Path) -> str:
    """What is written in an SVG: matplotlib draws its letters and leaves the text as a comment."""
    return "\n".join(re.findall(r"<!-- (.+?) -->", path.read_text(encoding="utf-8")))


def test_rooflines_this_machine_and_points_are_in_the_picture(tmp_path):
    chips = machine.chosen(CHIPS, ["h100_sxm", "t4", "a10g"])
    points = [("decode_step", 0.5, 4e9), ("prefill", 60.0, 1.5e11)]
    machine.draw(chips, "bf16", HERE, points, tmp_path / "all.svg")
    found = words(tmp_path / "all.svg")
    assert "NVIDIA H100 SXM5: ridge 295.2" in found and "NVIDIA T4 (fp16): ridge 203.1" in found
    assert "NVIDIA A10G (AWS): ridge 116.7?" in found and "this machine (2 threads, fp32): ridge 10.0" in found
    assert "decode_step" in found and "prefill" in found and "FLOP per byte" in found and "attainable TFLOP/s" in found
    machine.draw(chips[:1], "bf16", None, [], tmp_path / "one.svg")
    found = words(tmp_path / "one.svg")
    assert "this machine" not in found and "H100" not in found


def test_a_roofline_rises_with_the_bandwidth_up_to_the_ridge(tmp_path, monkeypatch):
    """Read from the picture's own lines: at 1 FLOP per byte H100 gets 3.35 TFLOP/s, from the ridge on 989."""
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **how: drawn.append(figure))
    machine.draw(machine.chosen(CHIPS, ["h100_sxm"]), "bf16", HERE, [], tmp_path / "x.png")
    axes = drawn[0].axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    h100, _, mine, _ = axes.lines
    for line, bandwidth, peak, ridge in ((h100, 3.35, 989, 295.22), (mine, 0.02, 0.2, 10)):
        (x0, x1, x2), (y0, y1, y2) = line.get_xdata(), line.get_ydata()
        assert x0 < 1 and y0 == pytest.approx(x0 * bandwidth)
        assert (x1, y1, y2) == pytest.approx((ridge, peak, peak), rel=1e-4) and x2 > x1
    assert mine.get_color() == "black" and h100.get_color() != "black"


def test_roofs_that_coincide_can_both_be_seen(tmp_path, monkeypatch):
    """B200 and B300 have the same bandwidth and the same bf16 rate."""
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *args, **how: drawn.append(figure))
    machine.draw(machine.chosen(CHIPS, ["b200", "b300"]), "bf16", None, [], tmp_path / "x.png")
    below, _, above, _ = drawn[0].axes[0].lines
    assert (below.get_linestyle(), above.get_linestyle()) == ("-", "--")
