"""Every number in the lesson of level 06, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where caches or quantizers themselves, right or wrong, are run.
"""

import contextlib
import importlib
import io
import re
import sys
from dataclasses import replace
from functools import cache
from math import ceil, floor, log10, prod, sqrt
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, module_at, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level06/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level06/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = ("level00", "level01", "level02", "level03", "level04", "level05", "level06")

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
PEAK, BANDWIDTH = 989e12, 3.35e12  # H100 SXM, dense bfloat16
ROOM = 0.9 * 80e9
BLOCK = 16
REQUESTS = (200, 600, 1000, 1800)  # of concept 1, as in level 02
FRANCE = [504, 3575, 282, 4649, 314]  # "The capital of France is"


@cache
def sizes(config=LLAMA):
    return {name: prod(shape) for name, shape in models.shapes(config).items()}


def stored(config=LLAMA):
    return sum(sizes(config).values())


def read(config=LLAMA):
    """Weights that a step reads."""
    return stored(config) - (0 if config.tie_embeddings else sizes(config)["model.embed_tokens.weight"])


def entry(config=LLAMA, size=2):
    """Bytes of one token's keys and values."""
    return sum(size * config.head_dim * config.n_kv_heads for _ in range(config.n_layers) for _ in "kv")


def flops(n, cached, config=LLAMA):
    """FLOPs of a pass over n tokens behind cached ones, with one row of logits."""
    head = config.vocab_size * config.d_model
    matrices = sum(size for name, size in sizes(config).items() if "proj" in name)
    pairs = sum(range(cached + 1, cached + n + 1))
    return 2 * n * matrices + 2 * head + 4 * config.head_dim * config.n_heads * config.n_layers * pairs


def bits(k, group, *metadata):
    """Bits of a weight, counted over one group."""
    return (group * k + sum(metadata)) / group


def moved(sequences, weight_bits=16, context=1024):
    """Bytes of a decode step of Llama-3-8B, its caches in bfloat16."""
    return read() * weight_bits / 8 + sequences * context * entry()


def prefill(n, cached, weight_bits=16):
    """Seconds at least."""
    return max(flops(n, cached) / PEAK, moved(1, weight_bits, n + cached) / BANDWIDTH)


def server(held, config=LLAMA, shared=0, size=2, weight_bits=16):
    """A row of the first table: `held` tokens for each request beside `shared` ones for all, 1,024 of them read."""
    size *= entry(config) / 2
    embedding = 2 * (stored(config) - read(config))  # stays in bfloat16
    weights = read(config) * weight_bits / 8
    fits = int((ROOM - embedding - weights - shared * size) // (held * size))
    step = weights + fits * 1024 * size
    seconds = max(step / BANDWIDTH, fits * flops(1, 1023, config) / PEAK)
    cells = held * size / 1e6, fits, step / 1e9, fits / seconds, step / fits / 1e6
    return " | ".join(
        (digits(cells[0]), f"{cells[1]:,}", f"{cells[2]:.1f}", f"{cells[3]:,.0f}", digits(cells[4])),
    )


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def blocks(*lengths, size=BLOCK):
    return sum(len(range(0, length, size)) for length in lengths)


def empty(*lengths, size=BLOCK):
    return 1 - sum(lengths) / (size * blocks(*lengths, size=size))


def samples(n, prompt, more, size=BLOCK):
    """Blocks in use: each is known by all that has been written into it."""
    names = set()
    for who in range(n):
        tokens = [("prompt", i) for i in range(prompt)] + [(who, i) for i in range(more)]
        names |= {tuple(tokens[i : i + size]) for i in range(0, len(tokens), size)}
    return len(names)


def round_trip_error(dim):
    """Relative error of the usual channels in 4 bits: 1,024 random keys of 128 channels, of which one is 20 times."""
    keys = torch.randn(1024, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    keys[:, 0] *= 20
    step = keys.abs().amax(dim, keepdim=True) / 7
    lost = (keys / step).round() * step - keys
    return (lost[:, 1:].norm() / keys[:, 1:].norm()).item()


ALL_HEADS = replace(LLAMA, n_kv_heads=32)
NARROW = bits(4, 64, 16, 16)
PROJECTIONS = {name: shape for name, shape in models.shapes(SMOL).items() if "proj" in name}
QUANTIZED = sum(prod(shape) for shape in PROJECTIONS.values())
ROWS = sum(shape[0] for shape in PROJECTIONS.values())
WASTED = (100, 37, 16)
MANY = ("no", "one", "two")

CLAIMS = [
    # the big idea
    f"| room for 8,192, a KV head for each query head | {server(8192, ALL_HEADS)} |",
    f"| {LLAMA.n_kv_heads} KV heads instead of {LLAMA.n_heads} | {server(8192)} |",
    f"| blocks of 16, taken when they are needed | {server(1024)} |",
    f"| the system prompt held once | {server(512, shared=512)} |",
    f"| the cache in 8 bits | {server(512, shared=512, size=1)} |",
    f"| the weights in {NARROW} bits | {server(512, shared=512, size=1, weight_bits=NARROW)} |",
    f"alone makes {moved(1) / moved(1, NARROW):.2f} times the tokens",
    f"| `({SMOL.n_layers}, 64, 16, {SMOL.n_kv_heads}, {SMOL.head_dim})` |",
    f"| one block, in all layers | {BLOCK * entry(SMOL, 4):,} bytes |",
    # the concepts
    f"leaves {100 * (1 - sum(REQUESTS) / (len(REQUESTS) * 4096)):.1f}% empty for requests of 200, 600, 1,000 and 1,800",
    f"these four take {blocks(*REQUESTS)} blocks, of which {100 * empty(*REQUESTS):.1f}% is empty",
    f"in blocks of 16, take {samples(4, 500, 100)} blocks, not {4 * blocks(600)}",
    f"takes Llama-3-8B on an H100 {1e3 * prefill(512, 1536):.1f} ms instead of {1e3 * prefill(2048, 0):.1f}",
    f"reads {1536 * entry() / 1e9:.3f} GB of cache in place of {(flops(2048, 0) - flops(512, 1536)) / 1e12:.1f} TFLOP",
    f"takes {entry():,} bytes; with a KV head for each of its {LLAMA.n_heads} query heads it would be "
    f"{entry(ALL_HEADS):,}",
    f"comes with {4 * LLAMA.n_heads // (2 * LLAMA.n_kv_heads * 2)} FLOPs instead of {4 * 32 // (2 * 32 * 2)}",
    f"weights up to 1 have steps of {1 / 7:.3f}. One of 20 among them makes the steps {20 / 7:.2f}, and whatever is "
    f"below {20 / 7 / 2:.2f}",
    f"4 bits are {bits(4, 32, 16, 16):.0f} in groups of 32 and {NARROW} in groups of 64",
    f"With weights in {NARROW} bits a step of Llama-3-8B at 1,024 tokens gains {moved(1) / moved(1, NARROW):.2f} times "
    f"for one sequence, {moved(64) / moved(64, NARROW):.2f} for 64",
    f"an error of {100 * round_trip_error(1):.0f}%, against {100 * round_trip_error(0):.0f}% per channel",
    # pitfalls
    f"leave {sum(blocks(n) * 16 - n for n in WASTED)} slots empty; the one says "
    f"{blocks(sum(WASTED)) * 16 - sum(WASTED)}, the other {8 * len(WASTED)}",
    f"used up {SMOL.n_layers} times as fast",
    f"Of 32 tokens in blocks of 16 {MANY[(32 - 1) // 16]} block can be reused, of 33 {MANY[(33 - 1) // 16]}",
    f"{100 * round_trip_error(1):.0f}% of error in concept 6's keys instead of {100 * round_trip_error(0):.0f}%",
    # the checkpoint
    f"has 32 of its 35 prompt tokens in common with the first. It runs {35 - 32} tokens",
    f"Written out for {SMOL.n_heads} KV heads the model gives the same logits, and a token takes "
    f"{entry(replace(SMOL, n_kv_heads=9), 4):,} bytes of cache in float32 instead of {entry(SMOL, 4):,}",
    f"take {4 * stored(SMOL) / 1e6:.1f} MB in float32 and {2 * stored(SMOL) / 1e6:.1f} in bfloat16",
    f"in 8 bits it is {(4 * (stored(SMOL) - QUANTIZED) + QUANTIZED + 4 * ROWS) / 1e6:.1f} MB, in 4 bits and groups of "
    f"64 it is {(4 * (stored(SMOL) - QUANTIZED) + QUANTIZED * bits(4, 64, 32, 32) / 8) / 1e6:.1f}",
    f"has {4 * sizes(SMOL)['model.embed_tokens.weight'] / 1e6:.1f} of them",
    f"reads {bits(4, 64, 32, 32) / 8} bytes a weight, and then writes and reads the 4 of the float copy: "
    f"{bits(4, 64, 32, 32) / 8 + 4 + 4:.1f} bytes instead of 4",
    # questions
    f"are {16 / NARROW:.2f} times fewer bytes. Why are the tokens not {16 / NARROW:.2f} times as many?",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


FITS = int((ROOM - 2 * stored()) // (1024 * entry()))
COPIED = moved(64) + 2 * 64 * 1024 * entry()  # the caches read, written, and read again


@pytest.mark.parametrize(
    "claim",
    [
        f"empty: {256 // 2} tokens for blocks of 256, which with {FITS} sequences of Llama-3-8B is "
        f"{digits(FITS * 128 * entry() / 1e9)} GB, against {digits(FITS * 8 * entry() / 1e9)} GB for blocks of 16",
        f"one token in one layer are {2 * LLAMA.n_kv_heads * LLAMA.head_dim:,} bytes, those of 16 are "
        f"{16 * 2 * LLAMA.n_kv_heads * LLAMA.head_dim:,}",
        f"stands for {BLOCK * entry() / 1e6:.1f} MB",
        f"{40 // 16 * 16}. A block is known by all of its tokens, and in the third one {40 % 16} are common and "
        f"{16 - 40 % 16} are not",
        f"equal and 48 long, it would be {(48 - 1) // 16 * 16} as well",
        f"takes {NARROW} bits, and 16 / {NARROW} is {16 / NARROW:.2f}",
        f"gains {moved(1) / moved(1, NARROW):.2f} times, with those of 64 it is "
        f"{moved(64) / moved(64, NARROW):.2f}, and with those of {FITS} it is {moved(FITS) / moved(FITS, NARROW):.2f}",
        f"0.05 nats may mean that up to {100 * sqrt(0.05 / 2):.0f}% of the probability has moved",
        f"these are {3 * 64 * 1024 * entry() / 1e9:.1f} GB instead of {64 * 1024 * entry() / 1e9:.2f}, and a step "
        f"takes at least {1e3 * COPIED / BANDWIDTH:.1f} ms instead of {1e3 * moved(64) / BANDWIDTH:.2f}",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert empty(*REQUESTS, size=4096) == pytest.approx(0.780, abs=5e-4)  # "paging with one block of 4,096"
    full, whole = 500 // 16, ceil(600 / 16)  # the formula of concept 2
    assert samples(4, 500, 100) == full + 4 * (whole - full)
    assert 500 % 16 and "is copied 3 times" in LESSON  # by all but the last owner
    for weight_bits in (16, NARROW):  # "a prefill of 1,024 nothing, as arithmetic decides"
        assert prefill(1024, 0, weight_bits) == flops(1024, 0) / PEAK
    assert 4 * LLAMA.n_heads / (2 * LLAMA.n_kv_heads * 2) == LLAMA.n_heads / LLAMA.n_kv_heads  # "the number ... share"
    for hidden in (moved(1) / moved(1, 16), (read(ALL_HEADS) * 2 + 1024 * entry(ALL_HEADS)) / moved(1)):
        assert hidden < 1.15  # "the others hardly count" for one sequence
    assert bits(4, 32, 16, 16) - 4 == bits(4, 32, 16, 16) / 5 and "it is a fifth of all bits" in LESSON
    assert hash((-1,)) == hash((-2,))
    errors = torch.linspace(-0.5, 0.5, 100_001, dtype=torch.float64)  # concept 5: rms error = step / √12
    assert errors.square().mean().sqrt().item() == pytest.approx(1 / sqrt(12), rel=1e-4)
    assert torch.iinfo(torch.int8).max < 128 and torch.tensor(128).to(torch.int8) == -128
    p, q = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.tensor([0.66, 0.34], dtype=torch.float64)
    assert 0.05 < (p * (p / q).log()).sum() < 0.06  # so 16% can move for little more than 0.05 nats


@pytest.fixture(scope="module")
def solved():
    """The modules of level 06 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "blocks", "paged", "prefix", "quantize", "gqa"
        yield SimpleNamespace(**{name: importlib.import_module(f"level06.{name}") for name in names})


def test_the_picture_of_blocks_is_what_the_cache_does(solved):
    """Each token's key is its number in the picture; letters are blocks in the order of their first use."""
    pool = solved.paged.Pool(Config(1, 1, 1, 1, 1, 1, 1), 8, 4)
    marks, letters, caches, drawn = ["0", "1", "2", "3", "4", "5", "p", "q"], {}, {}, []

    def add(who, *tokens):
        new = torch.tensor([float(marks.index(token)) for token in tokens]).reshape(1, 1, -1, 1)
        caches[who].update(0, new, new)

    def row(said):
        for held in caches.values():
            for block in held.block_table:
                letters[block] = letters.get(block) or "ABC"[len(letters)]
        tables = [
            " ".join(letters[block] for block in caches[who].block_table) if who in caches else "" for who in "ab"
        ]
        cells = []
        for block in letters:
            owners = pool.allocator.ref_count(block)
            ends = [
                min(4, held.length - 4 * held.block_table.index(block))
                for held in caches.values()
                if block in held.block_table
            ]
            full = max(ends, default=0)
            kept = [marks[int(pool.keys[0, block, i])] if i < full else "·" for i in range(4)]
            cells.append(f"{' '.join(kept)}  x{owners}" if owners else "")
        cells += [""] * (3 - len(cells))
        line = f"{said:<16}" + "".join(f"{table:<12}" for table in tables) + "".join(f"{cell:<15}" for cell in cells)
        drawn.append(f"{line}{pool.allocator.num_free}")

    caches["a"] = solved.paged.PagedCache(pool)
    add("a", "0", "1", "2", "3", "4", "5")
    row("a, 6 tokens")
    caches["b"] = caches["a"].fork()
    row("b = a.fork()")
    add("b", "p")
    row("b adds p")
    add("a", "q")
    row("a adds q")
    caches["a"].release()
    row("a.release()")
    head = f"{'':<16}{'a' + chr(39) + 's table':<12}{'b' + chr(39) + 's table':<12}"
    head += "".join(f"{'block ' + letter:<15}" for letter in "ABC") + "free"
    assert "\n".join([head, *drawn]) in PARTS["Pinky"]


@torch.no_grad()
def test_the_table_of_shapes_is_what_the_modules_make(solved):
    pool = solved.paged.Pool(SMOL, 64)
    cache = solved.paged.PagedCache(pool)
    for layer in range(SMOL.n_layers):
        keys, _ = cache.update(layer, *torch.zeros(2, 1, SMOL.n_kv_heads, 35, SMOL.head_dim))
    at = solved.paged.slots(cache.block_table, 30, 35, 16)
    touched = {slot // 16 for slot in at.tolist()}
    weight = torch.ones(SMOL.n_heads * SMOL.head_dim, SMOL.d_model)
    q, scale = solved.quantize.quantize_int8(weight)
    packed, steps, low = solved.quantize.quantize_int4(weight, 64)
    assert steps.shape == low.shape and q.dtype == torch.int8 and packed.dtype == torch.uint8
    for cell in (
        f"| keys of the pool, and values likewise | `{tuple(pool.keys.shape)}` |",
        f"| one block, in all layers | {(pool.keys[:, 0].nbytes + pool.values[:, 0].nbytes):,} bytes |",
        f"| slots of the tokens 30 to 34, in a layer | `{tuple(at.shape)}`, from {len(touched)} blocks |",
        f"| keys of a layer as attention gets them | `{tuple(keys.shape)}`, from {len(cache.block_table)} blocks |",
        f"| a `q_proj` in 8 bits | `{tuple(q.shape)}` int8, scale `{tuple(scale.shape)}` |",
        f"groups of 64 | `{tuple(packed.shape)}` uint8, scale and low `{tuple(steps.shape)}` each |",
    ):
        assert cell in LESSON


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level06\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level06")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))
    parts = {name for kata in catalog.katas("level06") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level01", "level02", "level05"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level06/checkpoint").glob("test_*.py")
    source, made, power = path.read_text(encoding="utf-8"), checkpoint_of("level06"), PARTS["Power"]
    [two, five] = re.findall(r"\[\((\d+), \d+, 2\), \((\d+), \d+, 5\), ", source)[0]
    room = SMOL.max_seq_len // made.BLOCK
    assert f"{two} blocks of {made.BLOCK} are enough for two at a time, {five} for all five" in power
    assert f"room for the {SMOL.max_seq_len:,} tokens that the model can take would be {room} for each" in power
    assert len(made.STORED) == 5 and '({}, {3: "question", 6: "count"})' in source  # "two requests are aborted"
    prompt = made.STORED["question"]["ids"]
    full = len(prompt) // made.BLOCK
    assert f"Three continuations of a prompt of {len(prompt)} tokens" in power and "2 + 3, 12), abs=1e-3" in source
    assert f"{full} blocks are held by all and one by each" in power
    assert "second = [*ids[:32], 504, 260, 2]" in source and "equals((3, right, []), abs=1e-3)" in source
    assert made.WEIGHTS == QUANTIZED and made.ROWS == ROWS
    text = made.SmolTokenizer.from_model(models.load()[2]).encode(made.TEXT)
    assert f"over {len(text)} tokens of text" in power
    for asserted, said in (
        ("0.0005 < d[1] < 0.01 and d[2] > 0.96", "below 0.01 nats, and more than 96% of the best tokens are the same"),
        ("0.15 < d[1] < 0.5 and 0.5 < d[2] < 0.8", "it is between 0.15 and 0.5, and 50 to 80% are"),
        ("0.02 < by_channel < 0.1", "costs less than 0.1 with a scale for each channel of the keys"),
        ("0.15 < by_token < 0.5", "and more than 0.15 with one for each token"),
        (f"CONTEXT = 16, {made.CONTEXT}", f"A decode step at {made.CONTEXT:,} tokens, on a paged cache"),
    ):
        assert asserted in source and said in power


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level06")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level06")) == 8 and "Eight numbers" in PARTS["Inky"]


@pytest.fixture(scope="module")
def model(solved):
    from level00.tokenizer import SmolTokenizer

    config, params, data = models.load()
    return config, params, SmolTokenizer.from_model(data)


@torch.no_grad()
def test_the_lessons_program_runs(solved, model):
    """It is shown to learners, so it has to work as it stands."""
    from level05.packed import packed_step

    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    config, params, tokenizer = model
    names = vars(solved.paged) | vars(solved.prefix) | {"packed_step": packed_step}
    names |= {"config": config, "params": params, "tokenizer": tokenizer}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, names)
    first, second = printed.getvalue().splitlines()
    assert f"# {first}, then {second}\n" in program
    (total, hit, free), (_, reused, _) = map(int, first.split()), map(int, second.split())
    assert hit == 0 and reused == 32 and free == 64 - blocks(total)
    whole = names["packed_step"](params, config, [solved.paged.PagedCache(names["pool"])], [names["ids"]])
    assert (whole - names["logits"]).abs().max() < 1e-3


def text(model, params, n=8, **changes):
    """What the model says after "The capital of France is"."""
    from level01.generate import generate

    config, _, tokenizer = model
    return tokenizer.decode(generate(params, replace(config, **changes), FRANCE, n))


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level06/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level06") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level06.haunted"] = ModuleType("level06.haunted")
    vars(module).update(given, __package__="level06")
    exec(compile(changed, name, "exec"), vars(module))
    return module


@torch.no_grad()
def test_what_wrong_weights_say_on_the_real_model(solved, model):
    """The ghosts themselves, on all projections of SmolLM2."""
    _, params, _ = model

    def projections(change, names=("_proj",)):
        return {k: change(w) if any(f"{name}.weight" in k for name in names) else w for k, w in params.items()}

    def eight(module):
        return projections(lambda w: prod(module.quantize_int8(w)))

    def four(module, group=64):
        return projections(lambda w: module.dequantize_int4(*module.quantize_int4(w, group or w.shape[1])))

    def nine(module):
        return projections(lambda w: module.expand_kv_heads(w, SMOL.head_dim, 9), ("k_proj", "v_proj"))

    for weights, heads in ((params, 3), (eight(solved.quantize), 3), (nine(solved.gqa), 9)):
        assert text(model, weights, 2, n_kv_heads=heads) == " Paris."
    tiled = text(model, nine(haunted("level06.gqa.pool_kv_heads", "tile")), n_kv_heads=9)
    assert f"goes on with `{tiled}`" in LESSON
    wrapped = text(model, eight(haunted("level06.quantize.quantize_int8", "divides_by_128")), 5)
    assert wrapped.startswith("CLC one round square") and 'France\'s capital is "CLC one round square"' in LESSON
    assert text(model, four(haunted("level06.quantize.quantize_int4", "truncates"))) == 8 * "erc"
    assert 'the model says "erc" eight times' in LESSON
    for weights in (four(solved.quantize), four(solved.quantize, 192), four(solved.quantize, None)):
        assert text(model, weights, 1) == " Paris"  # "like that of every other grouping here"
    one = four(haunted("level06.quantize.quantize_int4", "one_group_per_row"))
    assert text(model, one, 1) == " Paris" and 'still begins with " Paris"' in LESSON


@torch.no_grad()
def test_groups_of_32_give_the_stored_projections_back(solved, model):
    """The trap of the checkpoint's table: load() returns a copy of weights that have these groups already."""
    _, params, _ = model
    for name in PROJECTIONS:
        w = params[f"{name}"]
        found = solved.quantize.dequantize_int4(*solved.quantize.quantize_int4(w, 32))
        assert torch.equal(found, w), name


@torch.no_grad()
def test_what_two_forks_without_a_copy_say(solved, model):
    """Both write into the block that they share: the later one's token is there for both."""
    from level05.packed import packed_step

    config, params, tokenizer = model

    def forks(alone):
        pool = solved.paged.Pool(config, 8)
        if not alone:
            pool.allocator.ref_count = lambda block: 1
        first = solved.paged.PagedCache(pool)
        packed_step(params, config, [first], [tokenizer.encode("The capital of")])
        caches, chunks = [first, first.fork()], [tokenizer.encode(" France"), tokenizer.encode(" Germany")]
        said = [list(chunk) for chunk in chunks]
        for _ in range(2):
            chunks = [[int(row.argmax())] for row in packed_step(params, config, caches, chunks)]
            for tokens, new in zip(said, chunks):
                tokens += new
        return [tokenizer.decode(tokens) for tokens in said]

    assert forks(alone=True) == [" France is Paris", " Germany is Berlin"]
    assert forks(alone=False) == [" France is Berlin", " Germany is Berlin"]
    assert "and then the capital of France is Berlin." in LESSON


def test_the_lab_is_what_the_lesson_says(solved):
    """The columns of bytes are recomputed for every row, and what the clock said is only divided; damage for some."""
    lab = module_at(ROOT / "levels/level06/labs/quantize.py")
    config, params, data = models.load()
    table = LESSON.partition("| weights | MB a token |")[2].partition("\n\n")[0]
    rows = {cells[0]: cells[1:] for line in table.splitlines()[2:] if (cells := line.strip("| ").split(" | "))}
    made = dict(lab.variants(params, lab.parse([]).groups))
    assert list(rows) == list(made)
    first, ids = lab.read_bytes(params), lab.text_ids(data)
    reference = lab.forward(params, config, ids)[0]
    for name, make in made.items():
        changed = make()
        size = lab.read_bytes(changed)
        assert (rows[name][0], rows[name][5]) == (f"{size / 1e6:.1f}", f"{first / size:.2f}"), name
        assert float(rows[name][1]) == pytest.approx(lab.first_product_error(params, changed), abs=1e-3), name
        if name in ("bfloat16", "int8", "int4, groups of 64"):
            logits = lab.forward(changed, config, ids, linear=lab.any_linear)[0].float()
            assert float(rows[name][2]) == pytest.approx(lab.perplexity(logits[:-1], ids[0, 1:]), rel=0.03), name
            assert float(rows[name][3]) == pytest.approx(lab.mean_kl(reference, logits), rel=0.2), name
            assert float(rows[name][4].rstrip("%")) == pytest.approx(100 * lab.top1_agreement(reference, logits), abs=3)
    table = LESSON.partition("| keys and values in |")[2].partition("\n\n")[0]
    assert [line.strip("| ").split(" | ")[0] for line in table.splitlines()[2:]] == [row[0] for row in lab.CACHES]
