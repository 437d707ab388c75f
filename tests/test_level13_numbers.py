"""Every number in the lesson of level 13, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where programs, right or wrong, are run.
"""

import contextlib
import importlib
import io
import re
import sys
from collections import Counter
from math import ceil, isqrt, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level13/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level13/answers.md").read_text(encoding="utf-8")
CHECKPOINT = (ROOT / "levels/level13/checkpoint/test_13_checkpoint.py").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(level for level in catalog.level_names() if level <= "level13")

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3.1-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
[V5E] = [machine for machine in hardware.load() if machine.name == "TPU v5e"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
SMS, N = 132, 4096
ROOM = 227 * 1024  # bytes of shared memory that a block may have


def moved(m, n, k):
    return 2 * (m * k + k * n + m * n)


def computed(m, n, k, rows):
    """Seconds of whole waves of whole tiles, rows x 128, on an H100: handed out until none is left."""
    tiles, waves = ceil(m / rows) * ceil(n / 128), 0
    while tiles > 0:
        tiles, waves = tiles - SMS, waves + 1
    return waves * 2 * rows * 128 * k / (PEAK / SMS)


def product(m, n, k, rows):
    return max(moved(m, n, k) / BANDWIDTH, computed(m, n, k, rows))


def linears(config):
    """(n, k) of all that a token is multiplied with, written out."""
    width, heads = config.d_model, config.head_dim
    queries, keys = config.n_heads * heads, config.n_kv_heads * heads
    layer = [(queries, width), (keys, width), (keys, width), (width, queries)]
    layer += [(config.d_ff, width)] * 2 + [(width, config.d_ff)]
    return layer * config.n_layers + [(config.vocab_size, width)]


def model_us(config, tokens, rows):
    return 1e6 * sum(product(tokens, n, k, rows) for n, k in linears(config))


def array_cycles(m, n, k, side=128):
    return ceil(k / side) * ceil(n / side) * (side + m + side + side - 2)


def traffic(m, n, k, rows, cols):
    """Bytes of every tile of the result, one by one."""
    tiles = ((min(rows, m - top), min(cols, n - left)) for top in range(0, m, rows) for left in range(0, n, cols))
    return 2 * sum(height * k + k * width + height * width for height, width in tiles)


def first_ready(warps, iterations, compute, latency):
    """For each warp what it does in each cycle; the first one that can go on does."""
    todo = [[latency, *[1] * compute] * iterations for _ in range(warps)]
    rows, ready, cycle = [[] for _ in range(warps)], [0] * warps, 0
    while any(todo):
        chosen = next((w for w in range(warps) if todo[w] and ready[w] <= cycle), None)
        for warp, row in enumerate(rows):
            row.append("·" if warp != chosen else "c" if todo[warp][0] == 1 else "L")
        if chosen is not None:
            ready[chosen] = cycle + todo[chosen].pop(0)
        cycle += 1
    return rows


def busy(warps):
    """Share of the cycles that some warp fills, four loads each with 3 instructions behind 10 cycles."""
    rows = first_ready(warps, 4, 3, 10)
    return warps * 16 / len(rows[0])


def conflicts(row_words):
    """Words of a column that the busiest bank holds."""
    return max(Counter(row_words * row % 32 for row in range(32)).values())


def square(stages):
    return isqrt(ROOM // (2 * stages * 2)) // 16 * 16


def row(tokens, rows):
    """A row of the big idea's table; the TPU has four arrays of 128 x 128 cells at 1.5 GHz."""
    arrays = (N // 128) ** 2 * max(128, tokens) / 4 / 1.5e9
    bytes = moved(tokens, N, N)
    cells = bytes / BANDWIDTH, computed(tokens, N, N, rows), bytes / (1e9 * V5E.bandwidth.value), arrays
    return f"| {tokens:,} | {rows} | " + " | ".join(f"{1e6 * cell:.2f}" for cell in cells) + " |"


IN_FLIGHT = BANDWIDTH * 600e-9 / SMS
CLAIMS = [
    # the big idea
    *[row(*cells) for cells in ((1, 16), (8, 16), (64, 64), (512, 128), (2048, 128), (1, 128))],
    f"the layer takes {computed(1, N, N, 128) / (moved(1, N, N) / BANDWIDTH):.2f} times as long as its bytes",
    f"cross {(N // 128) ** 2:,} tiles of its cells",
    # the concepts
    f"{(N // 128) ** 2:,} tiles of {array_cycles(1, 128, 128)} cycles, {array_cycles(1, N, N):,} in all. That is "
    f"{N * N / (array_cycles(1, N, N) * 128**2):.3%} of what the cells could do; 4,096 tokens reach "
    f"{N**3 / (array_cycles(N, N, N) * 128**2):.1%}",
    f"a tile takes max(R, M) cycles, {(N // 128) ** 2 * 128:,} for one token",
    f"one lane with 100 cycles among 31 with 10 makes {100 + 10}",
    f"one warp is busy {busy(1):.0%} of the time, and four could",
    f"even 8 reach only {busy(8):.0%}",
    f"{IN_FLIGHT:,.0f} bytes under way in each SM, {ceil(IN_FLIGHT / 128)} loads of a warp",
    f"1,024 prefixes in {(1024 - 1).bit_length()} rounds instead of 1,023 steps",
    f"33 for a thread cost {ceil(33 * 32 / 256) * 256 // 32}",
    f"256 threads of 128 registers: {65536 // (256 * 128)} blocks, {2 * 8} warps, {16 / 64:.0%}",
    f"4 bytes each, take {32 * 4 // 32}, shifted by 4 bytes {len({(4 * i + 4) // 32 for i in range(32)})}, and 128 "
    f"bytes apart {len({128 * i // 32 for i in range(32)})}: of what moves {4 / 32:.1%} is wanted",
    f"Rows of 33 words take {conflicts(33)}, and {1 / 32:.0%} more room",
    f"Down a column of rows of 32 words all are in one bank: {conflicts(32)} cycles",
    f"{traffic(64, 64, N, 1, 1) * 64**2 / 1e9:.0f} GB element by element, 0.5 FLOPs for a byte, and "
    f"{traffic(N, N, N, 128, 128) / 1e9:.2f} GB in tiles of 128 x 128, "
    f"{2 * N**3 / traffic(N, N, N, 128, 128):.1f} FLOPs. An H100's ridge is {PEAK / BANDWIDTH:.0f}",
    f"In the {ROOM:,} bytes of a block two square ones have {square(1)} a side, or {square(3)} if three pairs",
    f"136 tiles on 132 SMs are two waves, and {136 / 264:.1%} of them is work",
    f"takes {1e6 * moved(1, N, N) / BANDWIDTH:.2f} us of bytes and {1e6 * computed(1, N, N, 16):.2f} us of arithmetic",
    f"Eight take {1e6 * product(8, N, N, 16):.2f}",
    f"A tile of 128 rows takes {1e6 * product(1, N, N, 128):.1f} us, for one token as for 512",
    f"576 columns are {ceil(576 / 128)}, for 132 SMs",
    # the checkpoint
    "{:.1f}, {:.1f}, {:.1f} and {:.1f} us, beside {:.1f} us for reading the weights".format(
        *(model_us(LLAMA, m, rows) for m, rows in ((1, 16), (8, 16), (64, 64), (512, 128))),
        1e6 * 2 * sum(map(prod, linears(LLAMA))) / BANDWIDTH,
    ),
    f"Eight tokens take {model_us(LLAMA, 8, 16) / model_us(LLAMA, 1, 16):.3f} times as long as one",
    "SmolLM2 takes {:.1f}, {:.1f}, {:.1f} and {:.1f} us, beside {:.1f}.".format(
        *(model_us(SMOL, m, rows) for m, rows in ((1, 16), (8, 16), (64, 64), (512, 128))),
        1e6 * 2 * sum(map(prod, linears(SMOL))) / BANDWIDTH,
    ),
    f"the two take {model_us(LLAMA, 1, 128):.0f} and {model_us(SMOL, 1, 128):.0f} us",
    f"{sum(array_cycles(1, *size) for size in linears(SMOL)):,} cycles for one token, "
    f"{sum(array_cycles(512, *size) for size in linears(SMOL)):,} for 512",
    f"along a row of these weights asks for {len({2 * i // 32 for i in range(32)})} sectors, down a column for "
    f"{len({2 * 576 * i // 32 for i in range(32)})}",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"{ceil(620 / 21)}. From load to load a warp takes 620 cycles and issues 21 instructions; 620 / 21 is "
        f"{620 / 21:.1f}",
        f"For 64 warps each thread can have {65536 // (64 * 32)} registers",
        f"{136 / 264:.1%} of the SMs' time is work",
        f"an H100 moves for one token {1e6 * moved(1, N, N) / BANDWIDTH:.2f} us, for eight "
        f"{1e6 * moved(8, N, N) / BANDWIDTH:.2f}, and multiplies 16 rows in {1e6 * computed(8, N, N, 16):.2f} us",
        f"its arrays take {1e6 * (N // 128) ** 2 * 128 / 4 / 1.5e9:.2f} for any number up to 128",
        f"128 rows take {1e6 * product(1, N, N, 128):.1f} us",
        f"SmolLM2 takes {model_us(SMOL, 64, 64):.1f} us for 64 tokens, three times as long as for one",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert 64 * 2 >= ceil(IN_FLIGHT / 128) <= 15 * 8 and IN_FLIGHT / 128 > 14 * 8  # "of 64 warps with two, or of 15"
    assert ceil((10 + 3) / (1 + 3)) == 4  # "four could fill all cycles"
    assert round(2 * N**3 / (traffic(64, 64, N, 1, 1) * 64**2), 2) == 0.5
    assert 1024 == 4 * 256 and 4 * (16384 // 1280) // 3 == 16 != 65536 // 1280 // 3  # partitions lend nothing
    one, many = (sum(array_cycles(m, *size) for size in linears(SMOL)) for m in (1, 512))
    assert f"One takes {one / many:.0%} of what 512 take" in LESSON
    widths = {n for n, _ in linears(SMOL)[:-1]}
    tiles = sorted(ceil(n / 128) for n in widths)
    assert f"{min(widths)} to {max(widths):,} columns wide, which gives {tiles[0]} to {tiles[-1]} tiles" in LESSON
    assert 2.9 < model_us(SMOL, 64, 64) / model_us(SMOL, 1, 16) < 3.2
    times = [1e6 * product(m, N, N, rows) for m, rows in ((1, 16), (64, 64))]
    assert times[1] / times[0] < 1.04  # "in the first three rows that is the reading"
    assert 8 / 64**0.5 == 1 and round(8 / 128**0.5, 3) == 0.707 and "a score of 8/8 = 1 becomes 0.707" in LESSON
    assert float(np.float32(1 + 2**-12)) > 1 == round((1 + 2**-12) * 2**10) / 2**10
    assert 33 * 4 == 132 and "starts at a multiple of 132" in ANSWERS


def test_what_the_checkpoint_asks_is_what_the_lesson_says():
    [need] = re.findall(r"^NEED = ([\d.]+)", CHECKPOINT, re.M)
    assert f"they have to reach {float(need):.0%} of its speed" in LESSON
    assert "(96, 128)" in CHECKPOINT and "Six arrays of 96 x 128 cells" in LESSON and 6 * 96 == 576
    assert "np.float32)" in CHECKPOINT and "(256, 576)" in CHECKPOINT and "256 tokens through `gate_proj`" in LESSON


def table(lines):
    wide = [max(map(len, column)) + 3 for column in zip(*lines)]
    return "\n".join("".join(map(str.ljust, line, wide)).rstrip() for line in lines)


def test_the_picture_of_the_array():
    """Cell by cell, in plain Python."""
    x, w = [[1, 2, 3], [4, 5, 6]], [[1, 2], [3, 4], [5, 6]]
    lines = [["cycle", "enters row 0", "row 1", "row 2", "leaves column 0", "column 1"]]
    activations, sums = [[0] * 2 for _ in w], [[0] * 2 for _ in w]
    for cycle in range(2 + 3 + 2 - 2):
        enter = [x[cycle - r][r] if 0 <= cycle - r < 2 else None for r in range(3)]
        for r in reversed(range(3)):
            activations[r] = [enter[r] or 0, activations[r][0]]
            sums[r] = [(sums[r - 1][c] if r else 0) + activations[r][c] * w[r][c] for c in range(2)]
        leave = [sums[2][c] if 0 <= cycle - 2 - c < 2 else None for c in range(2)]
        lines.append([str(cycle), *("·" if v is None else str(v) for v in (*enter, *leave))])
    assert f"```\n{table(lines)}\n```" in PARTS["Pinky"]
    assert np.array_equal(np.array(x) @ w, [[22, 28], [49, 64]])


def test_the_picture_of_warps():
    [alone], three = first_ready(1, 2, 2, 6), first_ready(3, 2, 2, 6)
    lines = ["alone   " + " ".join(alone), "", *(f"warp {i}  " + " ".join(cells) for i, cells in enumerate(three))]
    assert "```\n" + "\n".join(lines) + "\n```" in PARTS["Pinky"]
    assert (len(alone), len(three[0])) == (16, 24) and "One warp fills 6 of 16 cycles, three fill 18 of 24" in LESSON


def test_the_picture_of_waves():
    lines = [f"SM {sm}   " + "  ".join(str(t) if t < 10 else "·" for t in (sm, sm + 4, sm + 8)) for sm in range(4)]
    assert "```\n" + "\n".join(lines) + "\n```" in PARTS["Pinky"]


def test_the_table_of_a_layer_in_tiles():
    m, n, k, tile = 5, SMOL.d_ff, SMOL.d_model, (4, 128, 64)
    down, across = ceil(m / tile[0]), ceil(n / tile[1])
    for cell in (
        f"| activations | `({m}, {k})` |",
        f"| weights | `({k}, {n})` |",
        f"| a tile of the result, of {down} x {across} | `(4, 128)`, in the second row of tiles `({m - 4}, 128)` |",
        f"| a load of activations | `({tile[0]}, {tile[2]})` |",
        f"| a load of weights | `({tile[2]}, {tile[1]})` |",
        f"| activations loaded, {across} times | {across * m * k:,} |",
        f"| weights loaded, twice | {down * k * n:,} |",
        f"| in all | {across * m * k + down * k * n:,} |",
        f"| the same, one row at a time | {across * m * k + m * k * n:,} |",
    ):
        assert cell in LESSON
    assert f"load {across * m * k + down * k * n:,} elements" in PARTS["Power"]


@pytest.fixture(scope="module")
def solved():
    """The modules of level 13 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "systolic", "warps", "threads", "occupancy", "coalescing", "banks", "tiling", "waves"
        yield SimpleNamespace(**{name: importlib.import_module(f"level13.{name}") for name in names})


def test_the_lessons_program_runs(solved):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    [code] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {"gemm_seconds": solved.waves.gemm_seconds, "tiled_traffic": solved.tiling.tiled_traffic})
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]
    for line in printed.getvalue().splitlines():  # each number once more
        m, *cells = [float(cell) for cell in line.split() if cell not in ("us", "MB")]
        right = [[1e6 * product(int(m), N, N, rows), traffic(int(m), N, N, rows, 128) / 1e6] for rows in (16, 64, 128)]
        assert cells == pytest.approx(sum(right, []), abs=0.051)


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level13\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level13")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    parts = {name.rpartition(".")[2] for kata in catalog.katas("level13") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level04"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level13")] and len(asked) == 7
    assert "Then seven questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level13")) == 8 and "Eight numbers" in PARTS["Inky"]


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level13/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level13") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level13.haunted"] = ModuleType("level13.haunted")
    vars(module).update(given, __package__="level13")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


QUOTED = {  # what wrong programs give, as the lesson tells it, and what is right
    ("systolic.systolic_matmul", "not_skewed"): (
        lambda m: m.systolic_matmul([[1, 2, 3], [4, 5, 6]], m.SystolicArray([[1, 2], [3, 4], [5, 6]]))[0].tolist(),
        [[16, 22], [4, 8]],
        "16 22 and 4 8, instead of 22 28 and 49 64",
    ),
    ("systolic.systolic_cycles", "free_weight_load"): (
        lambda m: m.systolic_cycles(1, N, N, 128, 128),
        261_120,
        f"gives one token 261,120 cycles instead of {array_cycles(1, N, N):,}",
    ),
    ("systolic.systolic_cycles", "every_cell_works"): (lambda m: m.systolic_cycles(1, N, N, 128, 128), 1024, "1,024."),
    ("systolic.systolic_cycles", "padding_is_useful"): (
        lambda m: round(m.systolic_utilization(4096, 130, 128, 128, 128), 3),
        0.915,
        f"{4096 * 130 * 128 / (array_cycles(4096, 130, 128) * 128**2):.1%}, and not 91.5%",
    ),
    ("warps.warp_cycles", "one_warp_after_the_other"): (
        lambda m: m.warp_cycles(3, 2, 2, 6),
        48,
        "takes 48 cycles for the three warps of the picture",
    ),
    ("warps.warp_cycles", "latency_always_hidden"): (lambda m: m.warp_cycles(3, 2, 2, 6), 18, "18. Right is 24:"),
    ("warps.warp_cycles", "takes_turns"): (lambda m: m.warp_cycles(8, 4, 3, 10), 136, "take 136 and"),
    ("warps.warp_cycles", "longest_waiting_first"): (
        lambda m: m.warp_cycles(8, 4, 3, 10),
        130,
        f"take 136 and 130 cycles for concept 2's 8 warps, in place of {len(first_ready(8, 4, 3, 10)[0])}",
    ),
    ("warps.warp_cycles", "rule_of_thumb"): (
        lambda m: m.warps_to_hide(20, 600),
        31,
        f"31 warps for 600 cycles behind 20 instructions, where {ceil(620 / 21)} fill all of them",
    ),
    ("threads.scan_kernel", "in_place"): (
        lambda m: scans(m),
        ["1 3 7 13", "1 3 6 10"],
        "makes 1 3 7 13 of 1 2 3 4 if thread 0 comes first, and the right 1 3 6 10 if it comes last",
    ),
    ("threads.scan_kernel", "next_round_too_early"): (
        lambda m: scans(m),
        ["1 3 6 10", "1 3 6 9"],
        "is right in the first case, and makes 1 3 6 9 in the second",
    ),
    ("occupancy.occupancy", "registers_ignored"): (
        lambda m: m.occupancy(256, 128, 0)[0],
        8,
        f"finds 8 blocks where concept 3 has {65536 // (256 * 128)}",
    ),
    ("occupancy.occupancy", "registers_not_rounded"): (
        lambda m: m.occupancy(96, 33, 0)[0],
        20,
        "puts 20 blocks of 96 threads with 33 registers on an SM",
    ),
    ("occupancy.occupancy", "one_register_file"): (
        lambda m: m.occupancy(96, 33, 0)[0],
        17,
        f"17. It holds {4 * (16384 // 1280) // 3}: {16384 // 1280} warps in each partition",
    ),
    ("occupancy.occupancy", "warps_by_fours"): (lambda m: m.occupancy(96, 33, 0)[0], 12, "puts 12 there"),
    ("occupancy.occupancy", "reserved_bytes_forgotten"): (
        lambda m: m.occupancy(128, 32, 114 * 1024)[0],
        2,
        "Two blocks of half an SM's shared memory each are one block",
    ),
    ("coalescing.sectors", "the_whole_span"): (
        lambda m: m.sectors([128 * i for i in range(32)], 4),
        125,
        "128 bytes apart they take 32, and not 125",
    ),
    ("coalescing.sectors", "lanes_counted"): (
        lambda m: m.load_efficiency([0] * 32, 4),
        4.0,
        f"so that {4 / 32:.1%} is wanted, and not 400%",
    ),
    ("banks.bank_conflict_degree", "banks_of_bytes"): (
        lambda m: m.bank_conflict_degree([4 * i for i in range(32)]),
        4,
        "takes 4 cycles for lanes side by side, which need 1",
    ),
    ("banks.swizzle", "rotation"): (
        lambda m: [m.swizzle(1, c, 4) for c in range(4)],
        [1, 2, 3, 0],
        "columns 0 1 2 3 of row 1 are at 1 2 3 0",
    ),
    ("tiling.tiled_matmul", "row_at_a_time"): (
        lambda m: elements_of_a_layer(m),
        12 * 5 * 576 + 5 * 576 * 1536,
        f"loads {12 * 5 * 576 + 5 * 576 * 1536:,} elements for the layer of the big idea",
    ),
    ("tiling.tiled_matmul", "stages_ignored"): (
        lambda m: m.largest_square_tile(ROOM, 2, 3),
        square(1),
        f"finds a side of {square(1)} for three stages, where {square(3)} is right",
    ),
    ("waves.gemm_seconds", "sum_of_both"): (
        lambda m: f"{1e6 * m.gemm_seconds(1, N, N, tile_m=16):.2f}",
        "12.26",
        f"gives one token 12.26 us in place of {1e6 * product(1, N, N, 16):.2f}",
    ),
    ("waves.gemm_seconds", "products_without_sums"): (
        lambda m: f"{1e6 * m.gemm_seconds(N, N, N):.1f}",
        "71.7",
        f"gives 4,096 tokens 71.7 us. The peak is in FLOPs, so it is {1e6 * product(N, N, N, 128):.1f}",
    ),
    ("waves.gemm_seconds", "plain_roofline"): (
        lambda m: f"{1e6 * m.gemm_seconds(1, N, N, tile_m=128):.2f}",
        "10.02",
        "gives one token 10.02 us even in tiles of 128 rows",
    ),
}


def elements_of_a_layer(module):
    """What is loaded for 5 tokens of gate_proj, in the lesson's tiles."""
    memory = module.SlowMemory(np.ones((5, SMOL.d_model)), np.ones((SMOL.d_model, SMOL.d_ff)))
    assert np.array_equal(module.tiled_matmul(memory, 4, 128, 64), np.full((5, SMOL.d_ff), SMOL.d_model))
    return memory.loaded


def scans(module):
    """What a scan makes of 1 2 3 4, when the first thread goes first, and when the last one does."""
    made = []
    for order in (module.ascending, module.descending):
        out = module.Words([-1] * 4)
        module.launch(module.scan_kernel, 1, 4, 4, module.Words([1, 2, 3, 4]), out, order=order)
        made.append(" ".join(map(str, out.words)))
    return made


@pytest.mark.parametrize("id, name", QUOTED)
def test_what_wrong_programs_give_is_what_the_lesson_tells(solved, id, name):
    """The ghosts themselves."""
    run, wrong, told = QUOTED[id, name]
    assert run(haunted(f"level13.{id}", name)) == wrong
    [line] = [line for line in PARTS["Blinky"].splitlines() if f"`level13.{id} · {name}`" in line]
    assert told in line
