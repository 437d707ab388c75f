"""Every number in the lesson of level 07, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where attention itself, right or wrong, is run.
"""

import contextlib
import importlib
import io
import re
import sys
from math import ceil, exp, floor, log, log10, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.cost import count
from dojo.models import Config
from tests.controls import checkpoint_of, module_at, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level07/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level07/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(f"level{n:02}" for n in range(8))

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
PROCESSORS, L2 = int(H100.on_chip["SMs"].value), 2**20 * H100.on_chip["L2 MiB"].value
SHARED = 227 * 1024  # of a kernel on each, by NVIDIA's tuning guide
D = LLAMA.head_dim


def tiles(n, block_q, block_k, causal=False):
    """(first query, rows, keys) of each tile that is computed: a mask of all scores, cut up and looked at."""
    for top in range(0, n, block_q):
        rows = min(block_q, n - top)
        for left in range(0, n, block_k):
            if not causal or left <= top + rows - 1:
                yield top, rows, min(block_k, n - left)


def in_tiles(n, block_q, block_k=128, causal=False, d=D):
    """(elements moved, FLOPs) of one head: queries and output once, keys and values for each tile."""
    found = list(tiles(n, block_q, block_k, causal))
    return d * (2 * n + sum(2 * keys for *_, keys in found)), sum(4 * d * rows * keys for _, rows, keys in found)


def in_steps(n, d=D):
    """The same in three steps: each reads and writes."""
    first, second, third = (2 * n * d) + n * n, n * n + n * n, (n * n + n * d) + n * d
    return first + second + third, 2 * (2 * n * n * d)


def on_chip(block_q, block_k, d=D, size=2):
    """Bytes of a tile: Q, K and V as they come, scores, accumulator, maximum and denominator in float32."""
    narrow = [(block_q, d), (block_k, d), (block_k, d)]
    wide = [(block_q, block_k), (block_q, d), (block_q, 1), (block_q, 1)]
    return sum(size * a * b for a, b in narrow) + sum(4 * a * b for a, b in wide)


def highest(block_k):
    return max(rows for rows in range(16, 2048, 16) if on_chip(rows, block_k) <= SHARED)


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def row(name, moved, flops):
    """A row of the first table."""
    seconds = f"{1e3 * moved / BANDWIDTH:.1f} | {1e3 * flops / PEAK:.1f}"
    return f"| {name} | {digits(moved / 1e9)} | {flops / 1e12:.1f} | {seconds} |"


PROMPT, LONG = 8192, 32768
ALL = LLAMA.n_layers * LLAMA.n_heads
(STEP_ELEMENTS, STEP_FLOPS), (TILE_ELEMENTS, TILE_FLOPS) = in_steps(PROMPT), in_tiles(PROMPT, 128)
SKIP_ELEMENTS, SKIP_FLOPS = in_tiles(PROMPT, 128, causal=True)
ONCE = 2 * LLAMA.n_layers * 2 * PROMPT * D * (LLAMA.n_heads + LLAMA.n_kv_heads)  # Q, output, K and V once
MATRICES = sum(prod(shape) for name, shape in models.shapes(LLAMA).items() if "proj" in name)
KV_OF_A_LAYER = 2 * 2 * LLAMA.n_kv_heads * PROMPT * D
TOKEN = 2 * 2 * LLAMA.n_layers * LLAMA.n_kv_heads * D  # bytes of a token's keys and values
HELD = LONG * TOKEN
PIECES = LLAMA.n_kv_heads
SPLITS = next(n for n in range(1, LONG // 256) if PIECES * n >= PROCESSORS)
PARTIAL = LLAMA.n_layers * LLAMA.n_heads * SPLITS * (D + 1) * 4 * 2  # out and lse, written and read
GROUP = LLAMA.n_heads // LLAMA.n_kv_heads
DECODED = GROUP * 4 * 8192 * D / (2 * D * (2 * 8192 + 2 * GROUP))
SIDE = 4096 // 128
SQUARE = torch.ones(SIDE, SIDE, dtype=torch.bool).tril()
STEPS, TILED = in_steps(4096), in_tiles(4096, 128)
N = 512  # of the table of shapes, and of the program
WEIGHTS = sum(prod(shape) for name, shape in models.shapes(LLAMA).items() if name != "model.embed_tokens.weight")


def shaped(name, *shape):
    return f"| {name} | `{shape}` | {4 * prod(shape):,} |"


CLAIMS = [
    # the big idea
    row("three steps, scores in memory", 2 * ALL * STEP_ELEMENTS, ALL * STEP_FLOPS),
    row("tiles of 128 queries, scores on the chip", 2 * ALL * TILE_ELEMENTS, ALL * TILE_FLOPS),
    row("tiles that nobody sees are skipped", 2 * ALL * SKIP_ELEMENTS, ALL * SKIP_FLOPS),
    row("keys and values are read again from the L2 cache", ONCE, ALL * SKIP_FLOPS),
    f"All matrix products of the layers take {1e3 * 2 * PROMPT * MATRICES / PEAK:.1f} ms",
    f"{KV_OF_A_LAYER / 1e6:.1f} MB of keys and values of a layer fit into an L2 of {L2 / 1e6:.1f} MB",
    f"| | GB moved | of {PROCESSORS} processors at work |",
    f"| gathered from the pool, then read | {3 * HELD / 1e9:.1f} | {PIECES} |",
    f"| read through the block table | {HELD / 1e9:.2f} | {PIECES} |",
    f"| in {SPLITS} splits | {(HELD + PARTIAL) / 1e9:.2f} | {min(PROCESSORS, PIECES * SPLITS)} |",
    shaped("queries, and the output likewise", 1, SMOL.n_heads, N, SMOL.head_dim),
    shaped("keys, and values likewise", 1, SMOL.n_kv_heads, N, SMOL.head_dim),
    shaped("scores of all", 1, SMOL.n_heads, N, N),
    shaped("scores of a tile", 1, SMOL.n_heads, 64, 64),
    shaped("maximum of a tile's queries, and denominator likewise", 1, SMOL.n_heads, 64),
    shaped("accumulator of a tile's queries", 1, SMOL.n_heads, 64, SMOL.head_dim),
    shaped("log-sum-exp", 1, SMOL.n_heads, N),
    # the concepts
    f"reads its large memory at {BANDWIDTH / 1e12:.2f} TB/s. On the chip it has {PROCESSORS} processors",
    f"in bfloat16 that is {2 * 4096**2 / 1e6:.1f} MB, more than the {PROCESSORS * SHARED / 1e6:.1f} MB of all SMs",
    f"{2 * 4 * 4096**2 / 1e6:.1f} of {2 * STEPS[0] / 1e6:.1f} MB",
    f"that is {2 * TILED[0] / 1e6:.1f} MB in tiles of 128 queries, half of the {2 * STEPS[0] / 1e6:.1f} in three "
    f"steps: {TILED[1] / (2 * TILED[0]):.1f} FLOPs for a byte instead of {STEPS[1] / (2 * STEPS[0]):.1f}",
    f"128 queries by 128 keys take {on_chip(128, 128):,} bytes with the float32 state, of {SHARED:,}",
    f"Of {SIDE} × {SIDE} square tiles {SQUARE.sum()} are left, {100 * SQUARE.double().mean():.1f}%, and of these only "
    f"{SQUARE.diagonal().sum()} need a mask",
    f"At K = 8,192 and four query heads for each KV head that is {DECODED:.3f} in bfloat16, "
    f"{PEAK / BANDWIDTH / DECODED:.1f} times too few",
    f"has {PIECES} KV heads, so {PIECES} of {PROCESSORS} SMs would work. If each of them gets a "
    "132nd of the bandwidth, 32,768 tokens take "
    f"{1e3 * HELD / BANDWIDTH * PROCESSORS / PIECES:.1f} ms instead of {1e3 * HELD / BANDWIDTH:.2f}",
    f"In {SPLITS} splits of about {ceil(LONG / SPLITS):,} tokens",
    f"That moves {PARTIAL / 1e6:.1f} MB more than the {HELD / 1e6:,.0f} of the cache",
    # the checkpoint
    f"Of 8 × 8 tiles at most {len(list(tiles(N, 64, 64, True)))} are computed",
    f"no tensor has more than {SMOL.n_heads * N * SMOL.head_dim:,} elements, which is q. The matrix of scores would "
    f"have {SMOL.n_heads * N * N:,}",
    f"those of {len(list(tiles(1536, 128, 128, True)))} of {len(list(tiles(1536, 128, 128)))} tiles",
    f"waits for {4 * SMOL.n_heads * 1536**2 / 1e6:.0f} MB of scores",
    f"the {1024 * 2 * 4 * SMOL.n_layers * SMOL.n_kv_heads * SMOL.head_dim / 1e6:.0f} MB of the cache",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


A_ROW = on_chip(2, 128) - on_chip(1, 128)
SPLIT = ceil(LONG / SPLITS)


@pytest.mark.parametrize(
    "claim",
    [
        f"tiles of 128 queries {2 * 2 * 4096 * D * SIDE / 1e6:.1f} MB of K and V in place of "
        f"{2 * 2 * 4096 * D / 1e6:.2f}, against {2 * 4 * 4096**2 / 1e6:.1f} MB of scores and weights",
        f"1/{SMOL.head_dim} of the output of SmolLM2",
        f"that is {A_ROW:,} bytes, beside {on_chip(1, 128) - A_ROW:,} for K and V, so 227 KiB end at {highest(128)} "
        f"queries in multiples of 16",
        f"with 64 keys it is {highest(64)}",
        f"a prompt of 1,024 in tiles of 128 gives {1024 // 128} for each head",
        f"above {PEAK / BANDWIDTH:.0f} FLOPs for a byte an H100 waits for arithmetic",
        f"{GROUP} in Llama-3-8B",
        f"are {PIECES} pieces of work for {PROCESSORS} SMs",
        f"that is {2 * 4 * (D + 1):,} bytes, and a split of {SPLIT:,} tokens has {2 * 2 * SPLIT * D:,} bytes",
        f"That makes {100 * GROUP * 2 * 4 * (D + 1) / (2 * 2 * SPLIT * D):.2f}%",
        f"holds {128 // 8} queries of 8 heads instead of 128 of one",
        f"32 sequences with 8 KV heads are {32 * 8} pieces for {PROCESSORS} SMs",
        f"1,000 tokens in chunks of at least 256 are {1000 // 256} splits at most",
        f"the cache of one sequence of Llama-3-8B is {1024 * TOKEN / 1e9:.3f} GB beside {2 * WEIGHTS / 1e9:.1f} GB of "
        f"weights",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    products = 2 * PROMPT * MATRICES / PEAK
    steps = 2 * ALL * STEP_ELEMENTS / BANDWIDTH
    assert steps > products  # "would be the larger part"
    skipped = ALL * SKIP_FLOPS / PEAK
    assert skipped < products / 5  # "it is a small one"
    assert KV_OF_A_LAYER < L2
    assert STEPS[0] - in_tiles(4096, 4096)[0] == 4 * 4096**2 and PROCESSORS * SHARED < 2 * 4096**2
    assert TILED[1] == STEPS[1]  # "not one FLOP"
    for height in (64, 128, 256):  # "The limit is about block_q"
        moved, flops = in_tiles(2**17, height, block_k=2**15)
        assert 0.99 * height < flops / (2 * moved) <= height
    assert in_tiles(4096, 128, 32)[0] == in_tiles(4096, 128, 512)[0] and on_chip(128, 64) < on_chip(128, 128)
    assert SQUARE.sum() == SIDE * (SIDE + 1) // 2  # the formula of concept 5
    assert torch.tensor(89.0).exp() == torch.inf and torch.tensor(88.0).exp() < torch.inf  # "exp(89)"
    out, lse = (1 * 1 + 5 * 3) / 4, log(1 + 3)
    assert f"have the weights 1/4 and 3/4: out {out:.0f}, lse {lse:.3f}" in LESSON
    whole = torch.tensor([1.0, 3, 2, 4], dtype=torch.float64).logsumexp(0).item()
    assert f"give l = {exp(whole - 4):.3f} and the *log-sum-exp*, m + log l = {whole:.3f}" in LESSON
    q = torch.ones(1, 1, 2, 1)  # "PyTorch's `is_causal` begins in the upper left": of two queries and five keys
    v = torch.arange(1.0, 6).reshape(1, 1, 5, 1)
    seen = torch.nn.functional.scaled_dot_product_attention(q, torch.ones_like(v), v, is_causal=True)
    assert seen.flatten().tolist() == [1, 1.5]


def test_the_picture_of_blocks_is_a_sum_over_all_keys_so_far():
    """m, denominator and acc after each block, from all scores up to there at once."""
    scores, values = torch.tensor([[1.0, 3, 2, 4], [2, 4, 6, 8]], dtype=torch.float64)
    drawn = [f"{'block':<11}{'m':<7}{'exp(old m - m)':<17}{'denominator':<14}{'acc':<10}acc / denominator"]
    drawn.append(f"{'':<11}{'-inf':<7}{'':<17}{'0':<14}0")
    before = -torch.inf
    for end in (2, 4):
        m = scores[:end].max().item()
        weights = (scores[:end] - m).exp()
        total, acc = weights.sum().item(), (weights @ values[:end]).item()
        block, shrink = "  ".join(f"{s:.0f}" for s in scores[end - 2 : end].tolist()), exp(before - m)
        line = f"{block:<11}{m:<7.0f}{shrink and f'{shrink:.3f}' or '0':<17}{total:<14.3f}{acc:<10.3f}"
        drawn.append((line + (f"{acc / total:.3f}" if end == 4 else "")).rstrip())
        before = m
    assert "\n".join(drawn) in PARTS["Pinky"]


def test_the_picture_of_tiles_is_a_mask_cut_up():
    """Two queries and four keys a tile; "partial" and the others from all and any of what is seen."""
    seen = torch.ones(6, 8, dtype=torch.bool).tril(2)
    lines = [f"{'':<11}keys  0 1 2 3   4 5 6 7"]
    for i, row_seen in enumerate(seen):
        marks = "   ".join(" ".join("#" if s else "·" for s in part) for part in row_seen.split(4))
        line = f"query {i:<11}{marks}"
        if i % 2 == 0:
            kinds = ["full" if t.all() else "partial" if t.any() else "skip" for t in seen[i : i + 2].split(4, 1)]
            line = f"\n{line}      {kinds[0]:<10}{kinds[1]}"
        lines.append(line)
    assert "\n".join(lines) in PARTS["Pinky"]


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level07\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level07")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))
    parts = {name for kata in catalog.katas("level07") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level05", "level06"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level07")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level07")) == 8 and "Eight numbers" in PARTS["Inky"]


@pytest.fixture(scope="module")
def solved():
    """The modules of level 07 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "online", "flash", "decode", "paged"
        yield SimpleNamespace(**{name: importlib.import_module(f"level07.{name}") for name in names})


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level07/checkpoint").glob("test_*.py")
    source, made, power = path.read_text(encoding="utf-8"), checkpoint_of("level07"), PARTS["Power"]
    text = made.SmolTokenizer.from_model(models.load()[2]).encode(made.TEXT)
    assert len(made.ANSWERS) == 5 and (made.N, made.TILE, made.TIMED, made.TIMED_TILE) == (512, 64, 1536, 128)
    assert f"{len(text)} tokens in tiles of 16, 48 and 128" in power
    for asserted, said in (
        ('"block", [16, 48, 128]', "in tiles of 16, 48 and 128"),
        ("attend=attend)\n\n    expect(logits, block).equals(forward(params, config, text), abs=1e-3)", "to 0.001"),
        ('"token_budget, max_seqs", [(6, 2), (128, 5)]', "under budgets of 6 and 128 tokens"),
        ('"num_blocks, token_budget, max_seqs", [(6, 6, 2), (9, 16, 5)]', "from pools of 6 and 9 blocks"),
        ('"num_splits", [1, 7, 64]', "in 1, 7 and 64 splits"),
        (", n)[0], num_splits).equals(right, abs=1e-4)", "to 0.0001"),
        ('(("causal", 36), (None, 64))', "at most 36 are computed"),
        ('"tile", [32, 64]', "In tiles of 32 and of 64"),
        ("0.95 * p[0] <= counted <= 1.3 * p[1]", "at least 0.95 times"),
        ("for readers in (3, 9)", "once for each of 3 KV heads, and at most 1.3 times what it would be for each of 9"),
        ("p <= counted <= 5 * p", "moves 1 to 5 times what `naive_attention_bytes` says"),
        ("0.95 * held <= bytes <= 1.3 * held", "behind 1,024 tokens moves 0.95 to 1.3 times"),
        ("expect(logits, 100).equals", "in chunks of 100 and 60 tokens"),
    ):
        assert asserted in source and said in power


@pytest.fixture(scope="module")
def model(solved):
    from level00.tokenizer import SmolTokenizer

    config, params, data = models.load()
    return config, params, SmolTokenizer.from_model(data)


@pytest.fixture(scope="module")
def words(solved, model):
    """The checkpoint's text, 169 tokens."""
    from level06.quality import TEXT

    return torch.tensor([model[2].encode(TEXT)])


@torch.no_grad()
def test_the_lessons_program_runs(solved, model, words):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    from level00.layers import attention
    from level00.transformer import forward

    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    names = {"forward": forward, "attention": attention, "count": count, "config": model[0], "params": model[1]}
    names |= {"flash_attention": solved.flash.flash_attention, "ids": words.repeat(1, 4)[:, :N]}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, names)
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]
    G, heads, d = SMOL.n_kv_heads, SMOL.n_heads, SMOL.head_dim
    for tile, line in zip((16, 32, 64), printed.getvalue().splitlines()[1:]):  # "count" agrees with the formula
        keys = in_tiles(N, tile, tile, True, d)[0] - 2 * N * d
        moved, flops = 4 * (heads * 2 * N * d + G * keys), heads * in_tiles(N, tile, tile, True, d)[1]
        assert line.startswith(f"{moved / 1e6:.1f} MB, {flops / 1e6:.0f} MFLOP")
    worst = (names["tiled"].result[0] - names["whole"].result).abs().max()
    assert worst < 1e-5 and "On SmolLM2's layer 15 they are some millionths" in ANSWERS


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level07/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level07") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    return made(changed, **given)


def made(source, **given):
    module = sys.modules["level07.haunted"] = ModuleType("level07.haunted")
    vars(module).update(given, __package__="level07")
    exec(compile(source, "haunted", "exec"), vars(module))
    return module


def tiled(name, tile):
    """An `attend` of square tiles, with a ghost of flash_attention, or of online_update below it."""
    if any(g.name == name for g in ghosts.haunts("level07") if g.id == "level07.flash.flash_attention"):
        module = haunted("level07.flash.flash_attention", name)
    else:
        wrong = haunted("level07.online.online_update", name)
        module = made((ROOT / "solutions/level07/flash.py").read_text(encoding="utf-8"))
        module.online_update, module.finalize = wrong.online_update, wrong.finalize
    return lambda q, k, v, mask: module.flash_attention(q, k, v, mask, tile, tile)[0]


def said(model, attend, n=8, cache=None):
    """What the model says after "The capital of France is": one prefill, then a token at a time."""
    from level01.simple_cache import SimpleCache
    from level05.packed import packed_step

    config, params, tokenizer = model
    cache = cache or SimpleCache(config.n_layers)
    chunk, output = tokenizer.encode("The capital of France is"), []
    while len(output) < n:
        output.append(int(packed_step(params, config, [cache], [chunk], attend=attend)[0].argmax()))
        chunk = output[-1:]
    return tokenizer.decode(output)


@torch.no_grad()
def test_what_wrong_tiles_say_on_the_real_model(model):
    """The ghosts themselves, on SmolLM2."""
    right = said(model, tiled("finite_mask", 16))
    assert right == " Paris.\n\nThe answer is:"  # no score of the model is as low as -10,000
    for name, quoted in (
        ("top_left_causal", '" Paris and,,,,,,"'),
        ("diagonal_hidden", '" a nation that has been shaped by the"'),
        ("partial_not_masked", '"__ wishershire.com/"'),
        ("partial_skipped", '"_to_string(obj) {"'),
        ("gqa_modulo", '`." wis"]. wisiance dow reinst."`'),
        ("scale_forgotten", '" the capital of the country of the French"'),
    ):
        assert said(model, tiled(name, 16)) == quoted[1:-1] and quoted in LESSON, name
    assert said(model, tiled("tiles_averaged", 2)) == " the capital is the the the land of"
    assert '" the capital is the the the land of"' in LESSON
    assert said(model, tiled("acc_not_rescaled", 16), 2) == " Paris."
    assert 'the answer is " Paris.", as it should be' in LESSON


@torch.no_grad()
def test_how_many_of_a_texts_tokens_notice(solved, model, words):
    """Tiles of 16, and a mistake that a short prompt does not show."""
    from level00.transformer import forward
    from level06.quality import top1_agreement

    config, params, _ = model
    right = forward(params, config, words)[0]
    for name, kept in (("acc_not_rescaled", "24% of the best tokens are left"), ("ragged_keys_dropped", "97% of the")):
        wrong = forward(params, config, words, attend=tiled(name, 16))[0]
        assert kept.startswith(f"{100 * top1_agreement(right, wrong):.0f}%") and kept in LESSON, name
    assert f"the checkpoint's {words.shape[1]} tokens" in LESSON


@torch.no_grad()
def test_what_wrong_splits_say_on_the_real_model(solved, model):
    def splits(name):
        module = haunted("level07.decode.split_kv_decode", name)

        def attend(q, k, v, mask):
            return solved.flash.flash_attend(q, k, v, mask) if q.shape[2] > 1 else module.split_kv_decode(q, k, v, 3)[0]

        return said(model, attend)

    assert splits("mean_of_parts") == " Paris is Paris is Paris is Paris is"
    assert 'In 3 splits the capital of France is " Paris is Paris is Paris is Paris is"' in LESSON
    assert splits("first_lse_kept") == " Paris.\n\nThe answer is:" and '`" Paris.\\n\\nThe answer is:"`' in LESSON


@torch.no_grad()
def test_what_wrong_readings_of_a_pool_say_on_the_real_model(solved, model):
    """In a pool of 8 blocks of 4 that another text has filled before; a third sequence holds one of them."""
    from level05.packed import packed_step
    from level06.paged import Pool

    config, params, tokenizer = model
    berlin = "Berlin is the capital and the largest city of Germany, and by far the most visited one. It lies on the "
    berlin += "river Spree, and has many lakes and museums of art."

    def answer(name):
        pool = Pool(config, 8, 4)
        for text, kept in ((berlin, False), ("Where is", True)):
            cache = solved.paged.BlockCache(pool)
            ids = tokenizer.encode(text)[: 8 * 4]
            packed_step(params, config, [cache], [ids], attend=solved.paged.paged_attend)
            if not kept:
                assert not pool.allocator.num_free
                cache.release()
        module = haunted("level07.paged.paged_attention", name) if name else solved.paged
        return said(model, module.paged_attend, cache=module.BlockCache(pool))

    assert "the largest city of Germany" in berlin and answer("") == " Paris.\n\nThe answer is:"
    for name, quoted in (
        ("whole_last_block", r'`" Paris.\n\nThe city is also"`'),
        ("last_tokens_of_the_block", '" Paris is the largest city\'s Latin Quarter"'),
        ("blocks_in_the_order_of_the_pool", r'`"lei...\n\n\n\n\n"`'),
    ):
        assert answer(name) == quoted.strip("`")[1:-1].replace(r"\n", "\n") and quoted in LESSON, name


def rows_below(head):
    table = LESSON.partition(head)[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def test_the_lab_is_what_the_lesson_says(solved):
    """Bytes are counted again, at a quarter of the length by the same formulas; what the clock said is only divided."""
    lab = module_at(ROOT / "levels/level07/labs/tiles.py")
    for tile, predicted, _ in (rows := rows_below("| tile | MB, formula | MB, counted |"))[:-1]:
        keys = sum(min(-(-(top + int(tile)) // int(tile)) * int(tile), 2048) for top in range(0, 2048, int(tile)))
        assert float(predicted) == pytest.approx(4 * 64 * (9 * 2 * 2048 + 3 * 2 * keys) / 1e6, abs=0.06)
    assert float(rows[-1][1]) == pytest.approx(9 * 4 * (4 * 2048 * 64 + 4 * 2048**2) / 1e6, abs=0.06)
    assert all(float(counted) == pytest.approx(float(said), rel=0.01) for _, said, counted in rows[:-1])
    for _, predicted, counted in lab.traffic(512)[:-1]:
        assert counted == pytest.approx(predicted, rel=0.01)
    for n, whole, tiles, _, ratio in rows_below("| tokens | whole, ms | tiles, ms | PyTorch, ms | whole / tiles |"):
        assert int(n) in (256, 512, 1024, 2048) and f"{float(whole) / float(tiles):.1f}" == ratio
    said = {way: float(megabytes) for way, megabytes, _ in rows_below("| a decode step at 1024 | MB | ms |")}
    for way, megabytes, _ in lab.decoding(1024, 1):
        assert said[way] == pytest.approx(megabytes, abs=0.06)
