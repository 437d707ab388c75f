"""Every number in the lesson of level 04, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where the lesson's own program runs.
"""

import contextlib
import importlib
import io
import re
from itertools import count
from math import ceil, floor, log10, prod
from pathlib import Path

import numpy
import pytest
import torch

from dojo import catalog, hardware, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level04/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level04/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
PEAK, BANDWIDTH = 989e12, 3.35e12  # H100 SXM, dense bfloat16
RIDGE = PEAK / BANDWIDTH
REPORTED = 170  # tokens/s
REQUESTS = [(0, [1, 2, 3]), (1, [2, 2.5]), (2, [4])]
VALUES = [1, 2, 3, 4, 10]


def read(config):
    """Weights that a decode step reads, and those of them in matrices."""
    sizes = {name: prod(shape) for name, shape in models.shapes(config).items()}
    if "lm_head.weight" in sizes:
        del sizes["model.embed_tokens.weight"]
    return sum(sizes.values()), sum(size for name, size in sizes.items() if "norm" not in name)


def entry(config, size=2):
    return sum(size * config.head_dim * config.n_kv_heads for _ in range(config.n_layers) for _ in "kv")


def flops(context, config=LLAMA):
    """Of one token: two for each weight of a matrix, and two products with each key, in every layer and query head."""
    return 2 * read(config)[1] + 2 * 2 * config.head_dim * config.n_heads * config.n_layers * context


class Step:
    """A decode step of Llama-3-8B: what it does, and how long that takes an H100 at least."""

    def __init__(self, batch, context=1024, param=2.0):
        self.batch, self.flops = batch, batch * flops(context)
        self.weights, self.cache = param * read(LLAMA)[0], batch * context * entry(LLAMA)
        self.bytes = self.weights + self.cache
        self.intensity = self.flops / self.bytes
        self.computing, self.moving = 1e3 * self.flops / PEAK, 1e3 * self.bytes / BANDWIDTH  # ms
        self.speed = batch / (max(self.computing, self.moving) / 1e3)


def product(m, n, k, size=2):
    return 2 * m * n * k / (size * (m * k + k * n + m * n))


def prefill(tokens):
    """Intensity of a whole prompt's pass: logits of the last token only, causal pairs, rows of the embedding."""
    weights, matrices = read(LLAMA)
    head = LLAMA.vocab_size * LLAMA.d_model
    pairs = sum(range(1, tokens + 1))
    work = 2 * tokens * (matrices - head) + 2 * head + 4 * LLAMA.head_dim * LLAMA.n_heads * LLAMA.n_layers * pairs
    return work / (2 * (weights + tokens * LLAMA.d_model) + tokens * entry(LLAMA))


def critical(param):
    return next(batch for batch in count(1) if 2 * batch / PEAK >= param / BANDWIDTH)


def digits(value):
    """Three digits, or all of a larger number."""
    return f"{value:,.{max(0, 2 - floor(log10(value)))}f}"


ONE, MANY = Step(1), Step(64)
STEPS = [ONE, Step(8), MANY, Step(256)]
MBU, MFU = REPORTED * ONE.bytes / BANDWIDTH, REPORTED * ONE.flops / PEAK
TOKENS = sum(len(times) for _, times in REQUESTS)
CHIPS = hardware.load()
RIDGES = sorted((chip.ridge("bf16"), chip.name) for chip in CHIPS if "bf16" in chip.dense)
REACHED = sorted(
    (figure.value / chip.dense[dtype].value, chip.name) for chip in CHIPS for dtype, figure in chip.measured.items()
)

CLAIMS = [
    # the big idea
    f"More than {ONE.speed:.0f} tokens/s are impossible",
    f"it gains {100 * (ONE.speed / REPORTED - 1):.0f}% at most",
    f"| sequences in a step | {' | '.join(str(step.batch) for step in STEPS)} |",
    f"| TFLOP | {' | '.join(digits(step.flops / 1e12) for step in STEPS)} |",
    f"| GB of weights | {' | '.join(digits(step.weights / 1e9) for step in STEPS)} |",
    f"| GB of keys and values | {' | '.join(digits(step.cache / 1e9) for step in STEPS)} |",
    f"| FLOP per byte | {' | '.join(digits(step.intensity) for step in STEPS)} |",
    f"| ms for the arithmetic | {' | '.join(digits(step.computing) for step in STEPS)} |",
    f"| ms for the bytes | {' | '.join(digits(step.moving) for step in STEPS)} |",
    f"| tokens/s, all together | {' | '.join(f'{step.speed:,.0f}' for step in STEPS)} |",
    f"| tokens/s, each sequence | {' | '.join(digits(step.speed / step.batch) for step in STEPS)} |",
    # the picture: the roof over each intensity
    f"{min(PEAK, RIDGE * BANDWIDTH) / 1e12:.0f} ┤",
    f"{MANY.intensity * BANDWIDTH / 1e12:.0f} ┤",
    f"{STEPS[1].intensity * BANDWIDTH / 1e12:.0f} ┤",
    f"{ONE.intensity * BANDWIDTH / 1e12:.1f} ┤",
    f"{ONE.intensity:.1f}           {STEPS[1].intensity:.1f}         {MANY.intensity:.1f}         {RIDGE:.0f}      "
    f"{prefill(1024):.0f}",
    # the concepts
    f"of {1000 + 1:,} tokens it adds {1000 / 1000:.0f} ms to TPOT",
    f"and at 4: {TOKENS / 4} tokens/s",
    f"The p99 of 1, 2, 3, 4 and 10 is {numpy.percentile(VALUES, 99):.2f}, the mean {numpy.mean(VALUES):.0f}",
    f"{product(1, 4096, 4096):.1f} for m = 1, {product(256, 4096, 4096):.1f} for m = 256 at 4096 × 4096",
    f"{RIDGE:.1f} for an H100, {RIDGES[0][0]:.0f} (RTX 3090) to {RIDGES[-1][0]:.0f} (TPU v6e)",
    f"gets {ONE.speed:.1f}, or {Step(1, param=0.5).speed:.1f} with weights in 4 bits",
    f"64 get {MANY.speed / ONE.speed:.1f} times as much as one",
    f"{critical(2)} sequences in bfloat16, {critical(1)} with weights in 8 bits",
    f"{flops(1024) / (1024 * entry(LLAMA)):.1f} at 1,024 tokens, {flops(8192) / (8192 * entry(LLAMA)):.1f} at 8,192, "
    f"in the end {LLAMA.n_heads // LLAMA.n_kv_heads},",
    f"From {next(n for n in count(1) if flops(n) / (n * entry(LLAMA)) < RIDGE)} tokens on no batch",
    f"an MBU of {100 * MBU:.1f}% and an MFU of {100 * MFU:.2f}%",
    f"The other {100 * (1 - MBU):.0f}% went",
    f"measured products come to {100 * REACHED[0][0]:.0f}% to {100 * REACHED[-1][0]:.0f}% of the peak",
    f"{max(4 * 32, 64)} MiB for 32 MiB",
    f"of 9, 3, 2 and 5 s it is {min(9, 3, 2, 5)}, the mean is {numpy.mean([9, 3, 2, 5])}",
    # pitfalls
    f"a TPOT of {0.3 / 3:.1f} s, the other, which puts the first wait into the mean, {0.8 / 3:.3f}; right is {0.3 / 2}",
    f"the median of 1, 2, 3, 4 and 10 is {VALUES[2] + (0.5 * 5 - 2) * (VALUES[3] - VALUES[2])}",
    f"gets {numpy.mean([len(times) / (times[-1] - start) for start, times in REQUESTS]):.3f} tokens/s and the other "
    f"{TOKENS / sum(times[-1] - start for start, times in REQUESTS):.3f}, not {TOKENS / 4}",
    f"It moves the ridge to {1979e12 / BANDWIDTH:.0f}",
    f"The ridge would be at {RIDGE / 8:.1f}",
    f"the intensity is {product(4096, 4096, 4096):,.0f}, not 4,096",
    f"64 sequences get {MANY.speed:,.0f} tokens/s. One of them gets {MANY.speed / 64:.0f}, and 64 times what one alone "
    f"gets would be {64 * ONE.speed:,.0f}",
    f"so fewer sequences are enough: {critical(1)} in 8 bits",
    f"an MBU of {150 * 15.14e9 / BANDWIDTH:.2f} would come out as {8 * 150 * 15.14e9 / BANDWIDTH:.2f}",
    # checkpoint, questions
    f"reads {4 * read(SMOL)[0]:,} + n · {entry(SMOL, 4):,} bytes",
    f"would be {BANDWIDTH / (2 * read(SMOL)[0] + entry(SMOL)):,.0f} tokens/s at most",
    f"an MFU of {100 * MFU:.2f}%. What would you fix",
    f"An engine has an MBU of {100 * MBU:.0f}%",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"The ceiling is {Step(1, 1).speed:.1f} with a context of one token and {ONE.speed:.1f} at 1,024",
        f"300 would be an MBU of {100 * 300 / Step(1, 1).speed:.0f}%",
        f"weights in 8 bits (the ceiling is {Step(1, param=1).speed:.1f})",
        f"the ridge of an H100 is at {RIDGE:.0f}, so even at the ceiling the MFU is {100 * ONE.intensity / RIDGE:.2f}%",
        f"With an MBU of {100 * MBU:.0f}% this engine",
        f"that is {MANY.cache / 1e9:.2f} GB beside {MANY.weights / 1e9:.1f} GB of weights, so the step takes "
        f"{MANY.moving / ONE.moving:.2f} times as long, and the tokens are {MANY.speed / ONE.speed:.1f} times as many",
        f"At 4,096 tokens the caches are {Step(64, 4096).cache / 1e9:.1f} GB, and 64 sequences get "
        f"{Step(64, 4096).speed / Step(1, 4096).speed:.1f} times as much as one",
        f"256 sequences of 1,024 tokens read {STEPS[3].cache / 1e9:.1f} GB of cache beside {ONE.weights / 1e9:.1f} GB",
        f"4 bits make them {Step(256, param=0.5).speed / STEPS[3].speed:.2f} times as fast, where a single sequence "
        f"gets {Step(1, param=0.5).speed / ONE.speed:.2f} times as much",
        f"which is {critical(0.5)} sequences with 4 bits",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert read(LLAMA)[0] == 8_030_261_248 - LLAMA.vocab_size * LLAMA.d_model
    assert "8 KV heads of 128, d_ff 14,336, a vocabulary of 128,256" in LESSON and LLAMA.vocab_size == 128256
    assert all(step.moving > step.computing for step in STEPS)  # "Left of it work is memory-bound"
    assert prefill(1024) > RIDGE  # "arithmetic decides"
    ends = [(flops(n) - flops(0)) / (n * entry(LLAMA)) for n in (1, 10**6)]
    assert ends == [LLAMA.n_heads / LLAMA.n_kv_heads] * 2  # "in the end 4, the query heads per KV head"
    assert "RTX 3090" in RIDGES[0][1] and "TPU v6e" in RIDGES[-1][1]
    at_the_ridge = RIDGE / PEAK + 1 / BANDWIDTH  # seconds for one byte, one after the other
    assert RIDGE / at_the_ridge == pytest.approx(PEAK / 2)  # "gets half at the ridge"
    moved = [4096 * 4096] * 3
    assert sum(moved[1:]) / sum(moved) == pytest.approx(2 / 3)  # "two thirds of the bytes"
    assert product(64, 4096, 4096) == pytest.approx(2 * product(64, 4096, 4096, 4))
    assert product(1, 64, 64, 2) == product(1, 64, 64, 1) / 2  # "Who forgets both is right": mac / elements
    share = 8 * 1024 * entry(SMOL) / (2 * read(SMOL)[0] + 8 * 1024 * entry(SMOL))
    assert f"keys and values are {100 * share:.0f}% of what SmolLM2 reads" in LESSON
    pooled = [numpy.percentile(values, 75) for values in ([1, 1, 1, 9], [1, 1, 1, 1], [1, 1, 1, 9, 1, 1, 1, 1])]
    assert (
        f"have a p75 of {pooled[0]:.0f} and of {pooled[1]:.0f}: not {sum(pooled[:2]) / 2:.0f} together, "
        f"but {pooled[2]:.0f}"
    ) in LESSON
    assert f"by nearest rank the p99 of these five is {sorted(VALUES)[ceil(0.99 * 5) - 1]}" in LESSON


def test_the_examples_of_the_latencies():
    arrival, times = 10.0, [10.5, 10.6, 10.8]
    ttft, gaps = times[0] - arrival, numpy.diff(times)
    assert f"the TTFT is {ttft} s and the TPOT {gaps.mean():.2f}" in LESSON
    drawn = f"TTFT {ttft} ─────────►│◄─ {gaps[0]:.1f} ─►│◄────── {gaps[1]:.1f} ──────►│"
    assert drawn in LESSON and f"TPOT {gaps.mean():.2f} each" in LESSON
    assert f"E2E {times[-1] - arrival:.1f} " in LESSON
    assert times[-1] - arrival == pytest.approx(ttft + len(gaps) * gaps.mean())  # "E2E = TTFT + (n - 1) · TPOT"
    kept = [times[0] - start <= 1 and (len(times) == 1 or numpy.diff(times).mean() <= 1) for start, times in REQUESTS]
    assert f"In {['none', 'one', 'two'][sum(kept)]} of them TTFT and TPOT are at most 1 s" in LESSON
    assert f"so the goodput is {sum(kept) / 4} requests/s" in LESSON
    assert max(times[-1] for _, times in REQUESTS) - min(start for start, _ in REQUESTS) == 4  # "Within 4 seconds"


def test_the_picture_of_the_roof_is_drawn_to_scale():
    """16 columns for a factor of 10 in intensity, from 1 on; the slope falls by a row every 4.9 columns."""
    lines = LESSON.splitlines()
    bottom, axis = next((i, line) for i, line in enumerate(lines) if line.startswith("       └┬"))
    ticks = [i - 8 for i, mark in enumerate(axis) if mark == "┬"]
    shown = [ONE.intensity, STEPS[1].intensity, MANY.intensity, RIDGE, prefill(1024)]
    assert ticks == pytest.approx([16 * numpy.log10(x) for x in shown], abs=0.7)
    slope = [(bottom - row, mark) for row in range(bottom - 9, bottom) for mark in [re.search("[┌●·]", lines[row])]]
    assert [mark.start() - 8 for _, mark in slope] == pytest.approx([4.9 * (row - 1) for row, _ in slope], abs=2)


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level04\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level04")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))
    parts = {name for kata in catalog.katas("level04") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level01", "level02"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_checkpoint_is_what_the_lesson_says():
    [path] = (ROOT / "levels/level04/checkpoint").glob("test_*.py")
    source, made = path.read_text(encoding="utf-8"), checkpoint_of("level04")
    assert f"with {made.BATCH} sequences the weights once, as with one" in LESSON
    [(low, high)] = re.findall(r"within\(share, ([\d.]+), ([\d.]+),", source)
    assert f"The MBU of a real step is between {low} and {high}, for one sequence and for {made.BATCH}" in LESSON
    [least] = re.findall(r"within\(times, (\d+), ", source)
    assert f"a prefill of {made.PROMPT} tokens is at least {['', 'once', 'twice'][int(least)]} that of decode" in LESSON


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level04")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level04")) == 8


def test_the_lessons_program_runs(monkeypatch):
    """It is shown to learners, so it has to work as it stands; here with a model that is small."""
    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    config = Config(2, 32, 2, 1, 16, 64, 128)
    monkeypatch.setattr("dojo.models.load", lambda: (config, models.random_params(config), {}))
    monkeypatch.setattr("dojo.mount.mount_all", lambda table: None)
    threads, printed = torch.get_num_threads(), io.StringIO()
    with solutions_of("level00", "level01", "level02", "level04"):
        measure = importlib.import_module("level04.measure")
        monkeypatch.setattr(measure, "cache_bytes", lambda: 1)  # the smallest probe will do here
        try:
            with contextlib.redirect_stdout(printed), torch.no_grad():
                exec(program, {})
        finally:
            torch.set_num_threads(threads)
    _, speed, ceiling, mbu = map(float, printed.getvalue().split())
    assert mbu == pytest.approx(speed / ceiling)  # both by the bytes: this model is left of any ridge
