"""Every number in the lesson of level 05, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where the engine itself, right or wrong, is run.
"""

import contextlib
import importlib
import io
import re
import sys
from functools import cache
from itertools import count
from math import ceil, floor, log10, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy
import pytest
import torch

from dojo import catalog, ghosts, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, module_at, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level05/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level05/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = ("level00", "level01", "level02", "level03", "level04", "level05")

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
PEAK, BANDWIDTH = 989e12, 3.35e12  # H100 SXM, dense bfloat16
OUTPUTS = (40, 8, 8, 8, 24, 8, 8, 8)
TIMED = ((1, 2, 4, 8), (11, 12, 14, 18))  # batches and ms of concept 3
FRANCE, WHERE = [504, 3575, 282, 4649, 314], [9576]  # "The capital of France is", "Where"


@cache
def read(config=LLAMA):
    """Weights that a step reads, and those of them in matrices."""
    sizes = {name: prod(shape) for name, shape in models.shapes(config).items()}
    if "lm_head.weight" in sizes:
        del sizes["model.embed_tokens.weight"]
    return sum(sizes.values()), sum(size for name, size in sizes.items() if "norm" not in name)


@cache
def entry(config=LLAMA, size=2):
    """Bytes of one token's keys and values."""
    return sum(size * config.head_dim * config.n_kv_heads for _ in range(config.n_layers) for _ in "kv")


def step(*chunks, config=LLAMA, param=2, size=2):
    """(FLOPs, bytes) of one pass over chunks, each (n tokens, cached before them), with one row of logits each."""
    weights, matrices = read(config)
    head = config.vocab_size * config.d_model
    pairs = sum(sum(range(cached + 1, cached + n + 1)) for n, cached in chunks)
    flops = sum(2 * n * (matrices - head) + 2 * head for n, _ in chunks)
    flops += (2 + 2) * config.head_dim * config.n_heads * config.n_layers * pairs
    return flops, param * weights + entry(config, size) * sum(n + cached for n, cached in chunks)


def decodes(*contexts, **more):
    return step(*((1, context - 1) for context in contexts), **more)


def ms(cost, bandwidth=BANDWIDTH):
    flops, moved = cost
    return 1e3 * max(flops / PEAK, moved / bandwidth)


def flips(batch, context, config=LLAMA, param=2, size=2, bandwidth=BANDWIDTH):
    """Does a step of `batch` sequences compute at least as long as it reads?"""
    (flops, moved), (_, weights) = decodes(context, config=config, param=param, size=size), (0, param * read(config)[0])
    return batch * flops / PEAK >= (weights + batch * (moved - weights)) / bandwidth


def flip(context, **more):
    """The smallest such batch, by bisection; None if none of a billion is."""
    low, high = 0, 10**9
    if not flips(high, context, **more):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if flips(middle, context, **more) else (middle, high)
    return high


def last_flip(**more):
    return next(context for context in count(1) if flip(context + 1, **more) is None)


def prompt_in_steps(budget, prompt=4096, streams=32):
    """ms of each step in which some of the prompt runs, beside the decodes."""
    taken, cached = [], 0
    while cached < prompt:
        n = min(budget - streams, prompt - cached)
        taken.append(ms(step(*[(1, 1023)] * streams, (n, cached))))
        cached += n
    return taken


def slots(outputs, places, late=0, refill=True):
    """For each slot the steps in which it emits, as (first, length, who)."""
    free, rows = [0] * places, [[] for _ in range(places)]
    for who, length in enumerate(outputs):
        if not refill and who % places == 0:
            free = [max(free)] * places  # a closed batch begins when the one before it has ended
        at = who % places if not refill else free.index(min(free))
        rows[at].append((free[at], length, who))
        free[at] += length + late
    return rows, max(begin + length for row in rows for begin, length, _ in row)


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def share(outputs, places, steps):
    return 100 * sum(outputs) / (places * steps)


MIXED = [256] * 32 + [1792] * 32
LIMIT = BANDWIDTH / (1024 * entry())
FIT = numpy.polyfit(*TIMED, 1)[::-1]  # fixed, per sequence
FITS = int((0.9 * 80e9 - 2 * sum(prod(shape) for shape in models.shapes(LLAMA).values())) // entry()) // 1024
IN_STEPS = {budget: prompt_in_steps(budget) for budget in (10**9, 1024, 512, 256)}
STREAMS = ms(decodes(*[1024] * 32))
BATCH = ms(decodes(*[1024] * 64))
LATENCY = 300 * BATCH / 1e3
PICTURE = (8, 2, 2, 2)
STATIC, REFILLED = slots(PICTURE, 2, refill=False)[1], slots(PICTURE, 2)[1]
SMALL = 2 * read(SMOL)[0], entry(SMOL)  # bytes of weights and of a token, in bfloat16

CLAIMS = [
    # the big idea
    f"takes {BATCH / ms(decodes(1024)):.2f} times as long as a step of one",
    f"{decodes(*[1024] * 64)[1] / 64e9:.3f} GB are read for a token, not {decodes(1024)[1] / 1e9:.1f}",
    f"{STATIC} steps, {share(PICTURE, 2, STATIC):.0f}% of the slots are used",
    f"{REFILLED} steps, {share(PICTURE, 2, REFILLED):.1f}%",
    # the concepts
    f"read {decodes(*MIXED)[1] / 1e9:.1f} GB, like 64 of 1,024",
    f"{LIMIT:,.0f} on an H100 at 1,024. With 64 sequences {100 * 64e3 / BATCH / LIMIT:.0f}% of that can be reached, "
    f"with the {FITS} that",
    f"{100 * FITS * 1e3 / ms(decodes(*[1024] * FITS)) / LIMIT:.0f}%. A single sequence of 100,000 tokens makes a step "
    f"as much longer as {100_000 / 1024:.0f} of 1,024 do",
    "| flip at B = | " + " | ".join(f"{flip(context):,}" for context in (1, 100, 200, 300, 390)) + " | never |",
    f"From {last_flip() + 1} tokens on",
    f"leave its last context, {last_flip(param=1)}, where it is; a cache in 8 bits moves it to {last_flip(size=1)}. "
    f"SmolLM2's is {last_flip(config=SMOL)}:",
    f"are {FIT[0]:.0f} ms and {FIT[1]:.0f} ms each",
    f"here {FIT[0] / FIT[1]:.0f}, both are equal",
    f"{1e3 * FIT[0] / FIT[1] / (2 * FIT[0]):.0f} of {1e3 / FIT[1]:,.0f} tokens/s",
    f"Eight sequences get {8 * TIMED[1][0] / TIMED[1][3]:.2f} times the tokens of one",
    f"take {slots(OUTPUTS, 4, refill=False)[1]} steps at {share(OUTPUTS, 4, slots(OUTPUTS, 4, refill=False)[1])}% or "
    f"{slots(OUTPUTS, 4)[1]} at {share(OUTPUTS, 4, slots(OUTPUTS, 4)[1]):.0f}%",
    f"a chunk of 61 tokens are {3 + 61} tokens packed, and {4 * 61} padded",
    f"{100 * SMOL.vocab_size * SMOL.d_model / read(SMOL)[1]:.0f}% of SmolLM2's FLOPs without the scores",
    f"32 sequences of 1,024 tokens in {STREAMS:.2f} ms",
    "| steps | " + " | ".join(str(len(taken)) for taken in IN_STEPS.values()) + " |",
    "| longest step, ms | " + " | ".join(f"{max(taken):.1f}" for taken in IN_STEPS.values()) + " |",
    "| prompt done after, ms | " + " | ".join(digits(sum(taken)) for taken in IN_STEPS.values()) + " |",
    f"64 sequences at {BATCH:.2f} ms a step and 300 tokens each are {64 / LATENCY:.1f} requests/s",
    # pitfalls
    f"at contexts of 100 and 300 reads {(SMALL[0] + 400 * SMALL[1]) / 1e6:.1f} MB",
    f"it would be {(2 * SMALL[0] + 400 * SMALL[1]) / 1e6:.1f},",
    f"the longest cache for both {(SMALL[0] + 300 * SMALL[1]) / 1e6:.1f},",
    f"would read {decodes(*[1792] * 64)[1] / 1e9:.1f} GB, not {decodes(*MIXED)[1] / 1e9:.1f}",
    f"says {flip(1)} at every context",
    f"says {ceil(2 * read()[0] / BANDWIDTH / (decodes(1000)[0] / PEAK))} at 1,000 tokens, where no batch",
    f"Right is {flip(300):,} at 300, and from {last_flip() + 1} on never",
    f"With 2 s and -0.5 s a sequence no flip was seen, and {2 / -0.5:.0f} is no batch",
    f"{flip(1) - 1} sequences still read for longer",
    f"makes {numpy.linalg.lstsq(numpy.array([TIMED[0]]).T, numpy.array(TIMED[1]), rcond=None)[0][0]:.2f} ms a sequence",
    f"the fastest step, {min(TIMED[1])} ms, has a sequence in it",
    f"the {share(PICTURE, 2, STATIC):.0f}% of the first picture would be 100%",
    f"take {slots((2, 2, 2, 2), 2, late=1)[1]} steps instead of {slots((2, 2, 2, 2), 2)[1]}",
    f"With 32 decodes a step of 512 would have {512 + 32}",
    f"512 rows of {SMOL.vocab_size:,} logits",
    # questions
    f"each takes {LATENCY:.2f} s for its 300 tokens",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


SHORT, LONG = decodes(*[256] * 32), decodes(*[2048] * 32)
(ONE, HELD), MORE = decodes(200), ms(decodes(*[1024] * 256))
APART = 2 * read()[0] / BANDWIDTH / (ONE / PEAK + (HELD - 2 * read()[0]) / BANDWIDTH)  # nothing overlaps


@pytest.mark.parametrize(
    "claim",
    [
        f"read {SHORT[1] / 1e9:.1f} GB at 256 tokens each and {LONG[1] / 1e9:.1f} GB at 2,048, at least "
        f"{ms(SHORT):.2f} and {ms(LONG):.2f} ms",
        f"One sequence of {32 * 2048:,} tokens among 31 very short ones",
        f"the last context is {last_flip()}; with a cache in 8 bits it is {last_flip(size=1)}, with 4.8 TB/s "
        f"instead of 3.35 it is {last_flip(bandwidth=4.8e12)}",
        f"at {flip(100, param=0.5)} sequences instead of {flip(100)} at a context of 100",
        f"would flip at {APART:.0f} instead of {flip(200)}",
        f"{slots(OUTPUTS, 4, refill=False)[1]} steps against {slots(OUTPUTS, 4)[1]} for the eight answers",
        f"with 32 streams {512 - 32} of 512 tokens are left",
        f"a step takes {max(IN_STEPS[512]):.1f} ms instead of {max(IN_STEPS[10**9]):.1f}",
        f"all chunks before it: {sum(IN_STEPS[512]):.1f} ms",
        f"at 256 a step takes {max(IN_STEPS[256]):.1f} ms instead of {STREAMS:.2f}",
        f"the prompt pays alone, {sum(IN_STEPS[256]):.0f} ms",
        f"64 in flight at {LATENCY:.2f} s each are {64 / LATENCY:.1f} requests/s. The other "
        f"{40 - 64 / LATENCY:.1f} join",
        f"256 of them take {MORE:.1f} ms a step, {0.3 * MORE:.2f} s for an answer, and serve "
        f"{256 / 0.3 / MORE:.1f} requests/s",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert decodes(*MIXED) == decodes(*[1024] * 64)  # "only the summed context counts"
    for context in (1, 100, 200, 300):  # "Weights in 8 bits halve each flip"
        assert flip(context, param=1) == pytest.approx(flip(context) / 2, abs=0.5)
    assert [flip(context) for context in (393, 394)] == [pytest.approx(554_092), None]
    sign = 2 * read()[0] / BANDWIDTH / abs(decodes(1000)[0] / PEAK - 1000 * entry() / BANDWIDTH)
    assert f"the two times would cross at {ceil(sign)} sequences" in LESSON
    fixed, each = FIT  # "throughput is half of its limit"
    assert fixed / each / (fixed + each * fixed / each) == pytest.approx(1 / each / 2)
    slope = numpy.cov(*TIMED)[0, 1] / numpy.var(TIMED[0], ddof=1)  # the formula of concept 3
    assert (slope, numpy.mean(TIMED[1]) - slope * numpy.mean(TIMED[0])) == pytest.approx((each, fixed))
    for outputs, places in ((PICTURE, 2), (OUTPUTS, 4)):
        steps = slots(outputs, places)[1]
        assert steps >= max(ceil(sum(outputs) / places), max(outputs))  # the bound of concept 4
        groups = [outputs[i : i + places] for i in range(0, len(outputs), places)]
        assert slots(outputs, places, refill=False)[1] == sum(map(max, groups))
    assert slots(OUTPUTS, 8)[1] == max(OUTPUTS) == slots(OUTPUTS, 4)[1]  # "more slots would not help"
    for budget, taken in IN_STEPS.items():  # the formula of concept 6
        assert len(taken) == ceil(4096 / (budget - 32))
    assert max(IN_STEPS[256]) < 1.03 * STREAMS  # "next to nothing"
    assert sum(len(taken) for taken in (IN_STEPS[512], IN_STEPS[256])) == 9 + 19
    ridge = PEAK / BANDWIDTH
    within = next(n for n in count(1) if (cost := step(*[(1, 1023)] * 32, (n, 0)))[0] / PEAK > cost[1] / BANDWIDTH)
    assert ridge < within < 1.3 * ridge  # "some 300 tokens, or a few more"
    assert 0.5 * BATCH < 0.5 * MORE < 1.1 * BATCH  # "Each user reads at half the speed"
    assert decodes(*[1] * 31, 32 * 2048)[1] == pytest.approx(LONG[1], rel=0.001)


def test_the_picture_of_slots():
    """Each row of the picture is a slot; a letter is a token of a, b, c or d."""
    block = PARTS["Pinky"].split("```")[1]
    drawn = ["".join(cell for cell in line.split() if cell in "abcd·") for line in block.splitlines()]
    drawn = [line for line in drawn if line]
    for refill, shown in ((False, drawn[:2]), (True, drawn[2:])):
        made, steps = slots(PICTURE, 2, refill=refill)
        for row, line in zip(made, shown, strict=True):
            cells = ["·"] * steps
            for begin, length, who in row:
                cells[begin : begin + length] = "abcd"[who] * length
            assert line == "".join(cells)


@pytest.fixture(scope="module")
def solved():
    """The modules of level 05 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "engine", "packed", "scheduler"
        yield SimpleNamespace(**{name: importlib.import_module(f"level05.{name}") for name in names})


PROMPTS, NEWS = {"a": 2, "b": 7, "c": 3}, {"a": 3, "b": 2, "c": 2}  # tokens of the second picture


@pytest.fixture(scope="module")
def served(solved):
    """(steps, shapes) of the second picture, as the engine does it: (id, cached, tokens) of each pass, and its events;
    and of each call of attention the queries and keys, of each pass the logits' rows."""
    config = Config(1, 8, 2, 1, 4, 8, 16, tie_embeddings=False)
    steps, shapes, names = [], [], {}

    def noting(q, k, v, mask):
        shapes[-1].append((q.shape[2], k.shape[2]))
        return attention(q, k, v, mask)

    def run(params, config, caches, chunks):
        for held in caches:
            names[held] = names.get(held) or "abc"[len(names)]
        steps.append([(names[held], held.length, len(chunk)) for held, chunk in zip(caches, chunks)])
        shapes.append([])
        return solved.packed.packed_step(params, config, caches, chunks, attend=noting)

    from level00.layers import attention

    engine = solved.engine.Engine(models.random_params(config), config, token_budget=6, run=run)
    for who, tokens in PROMPTS.items():
        sampling = solved.engine.SamplingParams(temperature=0, max_tokens=NEWS[who])
        engine.add(solved.engine.Request(who, [1] * tokens, sampling))
    events = []
    while engine.unfinished:
        events.append([(who, finished) for who, _, finished in engine.step()])
    return list(zip(steps, events, strict=True)), shapes


def test_the_picture_of_steps_is_what_the_engine_does(served):
    steps, _ = served
    ran, known, gone = dict.fromkeys(PROMPTS, 0), dict(PROMPTS), set()
    for number, (row, events) in enumerate(steps, 1):
        pending = "  ".join("   " if who in gone else f"{who} {known[who] - ran[who]}" for who in PROMPTS)
        drawn = " | ".join(" ".join(f"{who}{cached + i}" for i in range(n)) for who, cached, n in row)
        new = "  ".join(f"{who}{known[who]}" for who, _ in events)
        done = [who for who, finished in events if finished]
        said = f"{' and '.join(done)} {'are' if len(done) > 1 else 'is'} done" if done else ""
        assert f"\n  {number}    {pending:<18}{drawn:<32}{new:<15}{said}".rstrip() + "\n" in LESSON
        ran |= {who: ran[who] + n for who, _, n in row}
        known |= {who: known[who] + 1 for who, _ in events}
        gone |= set(done)
    together = sum(ran.values())
    assert together == sum(PROMPTS.values()) + sum(n - 1 for n in NEWS.values())
    alone = f"{' + '.join(map(str, NEWS.values()))} = {sum(NEWS.values())}"  # a pass for each new token
    assert f"\n{'alone, each':<25}{alone:<32}{together}\n" in LESSON
    assert f"\n{'in these steps':<25}{len(steps):<32}{together}\n" in LESSON
    last = [f"{who}{known[who] - 1}" for who in PROMPTS]
    assert f"and {last[0]}, {last[1]} and {last[2]} never do" in LESSON


def test_the_table_of_the_second_step(served):
    (_, (row, _), *_), (_, pairs, *_) = served
    positions = [cached + i for _, cached, n in row for i in range(n)]
    heads, groups, width = SMOL.n_heads, SMOL.n_kv_heads, SMOL.head_dim
    keys = ", ".join(f"`(1, {groups}, {held}, {width})`" for _, held in pairs)
    scores = ", ".join(f"`(1, {heads}, {queries}, {held})`" for queries, held in pairs)
    for cell in (
        f"| token ids | `(1, {len(positions)})` |",
        f"| positions | `{positions}` |",
        f"| queries | `(1, {heads}, {len(positions)}, {width})` |",
        f"of a, b and c | {keys} |",
        f"| scores of a, b and c | {scores} |",
        f"| logits, of the last token of each | `({len(row)}, {SMOL.vocab_size})` |",
    ):
        assert cell in LESSON


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level05\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level05")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))
    parts = {name for kata in catalog.katas("level05") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level02", "level03", "level04"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level05/checkpoint").glob("test_*.py")
    source, made = path.read_text(encoding="utf-8"), checkpoint_of("level05")
    asked, many = made.STORED.values(), ["no", "one", "two", "three", "four", "Five"]
    lengths = [len(one["ids"]) for one in asked]
    assert f"{many[len(lengths)]} requests with prompts of {min(lengths)} to {max(lengths)} tokens" in LESSON
    [budgets] = re.findall(r'"token_budget, max_seqs", \[\((\d+), \d+\), \((\d+), \d+\), \((\d+), \d+\)\]', source)
    assert "The budgets are {}, {} and {} tokens".format(*budgets) in LESSON
    ran = sum(len(one["ids"]) + len(one["answer"]) - 1 for one in asked)
    assert f"In all passes together {ran} tokens run" in LESSON
    assert f"Each of the {7 * SMOL.n_layers + 1} matrices is used once" in LESSON
    moved = decodes(*[20 * (i + 1) for i in range(made.BATCH)], config=SMOL, param=4, size=4)[1]
    assert f"read {moved / 1e6:.0f} MB by `ragged_step_cost`, of which {4 * read(SMOL)[0] / 1e6:.0f} are" in LESSON
    assert f"what is counted may be {made.MOST_READ} times as much" in LESSON and "d <= 1e-3" in source
    assert made.BATCH == 8 and "a product of 8 rows with each matrix" in LESSON and "to 0.001," in LESSON
    assert (
        f"{slots(OUTPUTS, 4, refill=False)[1]} for the closed batches of concept 4, {slots(OUTPUTS, 4)[1]} " in LESSON
    )


def test_the_lab_is_what_the_lesson_says(solved):
    lab = module_at(ROOT / "levels/level05/labs/flip.py")
    batches = lab.parse([]).batches
    assert f"SmolLM2 with {batches[0]} to {batches[-1]} sequences" in LESSON


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level05")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level05")) == 8 and "Eight numbers" in PARTS["Inky"]


@torch.no_grad()
def test_the_lessons_program_runs(solved):
    """It is shown to learners, so it has to work as it stands."""
    from level00.tokenizer import SmolTokenizer
    from level01.generate import generate

    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    config, params, data = models.load()
    tokenizer, printed = SmolTokenizer.from_model(data), io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, vars(solved.engine) | {"config": config, "params": params, "tokenizer": tokenizer})
    events = [eval(line) for line in printed.getvalue().splitlines()]
    made = {who: [token for step in events for id, token, _ in step if id == who] for who in "ab"}
    assert made["a"] == generate(params, config, FRANCE, 8) and len(made["b"]) == 8
    assert f'# [("a", {made["a"][0]}, False), ("b", ' in program


@pytest.fixture(scope="module")
def say(solved):
    """say(budget, **wrong): the texts of "The capital of France is" and "Where", with parts of packed.py replaced."""
    config, params, data = models.load()
    assert "".join(data["tokens"][i] for i in FRANCE + WHERE) == "TheĠcapitalĠofĠFranceĠisWhere"

    def text(ids):
        return "".join(data["tokens"][i] for i in ids).replace("Ġ", " ").replace("Ċ", "\n")

    @torch.no_grad()
    def say(budget=64, engine=solved.engine.Engine, **wrong):
        right = {name: getattr(solved.packed, name) for name in wrong}
        try:
            for name, function in wrong.items():
                setattr(solved.packed, name, function)
            serving = engine(params, config, token_budget=budget)
            for who, prompt in (("France", FRANCE), ("Where", WHERE)):
                sampling = solved.engine.SamplingParams(temperature=0, max_tokens=8)
                serving.add(solved.engine.Request(who, prompt, sampling))
            made = {"France": [], "Where": []}
            while serving.unfinished:
                for who, token, _ in serving.step():
                    made[who].append(token)
        finally:
            for name, function in right.items():
                setattr(solved.packed, name, function)
        return {who: text(ids) for who, ids in made.items()}

    return say


def test_what_wrong_rows_say_on_the_real_model(say, solved):
    pack, alone = solved.packed.pack, say()
    assert alone["France"].startswith(" Paris.") and alone == say(budget=4)

    def positions_run_on(chunks, starts):
        ids, positions, last = pack(chunks, starts)
        return ids, torch.arange(len(positions)), last

    def see_each_other(q, keys, values, mask, sizes, attend):
        return attend(q, torch.cat(keys, 2), torch.cat(values, 2), mask)

    assert say(pack=positions_run_on)["Where"] == "--------" and 'falls into "--------" behind "Where"' in LESSON
    from_zero = say(pack=lambda chunks, starts: pack(chunks, [0] * len(chunks)))["France"]
    assert from_zero == " Paris.\n\nParis\nParis\n"  # "line after line"
    leak = say(packed_attention=see_each_other)["Where"]
    begin = " is the United States."
    assert leak.startswith(begin) and f'"Where" is continued by "{begin}" The answer of one user' in LESSON


def test_what_wrong_engines_say_on_the_real_model(say, solved):
    """The ghosts themselves, with a budget of 4 tokens."""
    source = (ROOT / "solutions/level05/engine.py").read_text(encoding="utf-8")
    for name, begin, quoted in (
        ("token_after_every_chunk", " isle de la lune.", 'begins with " isle de la lune."'),
        ("chunk_from_the_end", " 1000.", 'the capital of France is " 1000."'),
    ):
        [wrong] = [g for g in ghosts.haunts("level05") if (g.id, g.name) == ("level05.engine.Engine", name)]
        text, given = ghosts.apply(wrong, source)
        module = sys.modules["level05.haunted"] = ModuleType("level05.haunted")  # dataclasses look for it there
        vars(module).update(given, __package__="level05")
        exec(compile(text, name, "exec"), vars(module))
        assert say(4, vars(module)["Engine"])["France"].startswith(begin) and quoted in LESSON
