"""Every number in the lesson of level 09, computed again: a claim is built here and must stand there verbatim.

The formulas here are this file's own; the solutions' are compared with them once, and run what the lesson shows.
"""

import contextlib
import importlib
import io
import re
import sys
from math import floor, log10, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level09/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level09/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(f"level{n:02}" for n in range(10))

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, MEMORY = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
BOTH_WAYS = H100.link.bandwidth.value
START, NVLINK = 3e-6, 1e9 * BOTH_WAYS / 2
NETWORK_START, NETWORK = 10e-6, 400e9 / 8
RANKS = (1, 2, 4, 8, 16)
TOKEN = 2 * LLAMA.d_model  # bytes of a hidden state, bfloat16
WEIGHTS = 2 * sum(prod(shape) for name, shape in models.shapes(LLAMA).items() if name != "model.embed_tokens.weight")
MATRICES = sum(prod(shape) for name, shape in models.shapes(LLAMA).items() if "proj" in name)
HEAD = LLAMA.vocab_size * LLAMA.d_model
CACHE = 1024 * 2 * 2 * LLAMA.n_layers * LLAMA.n_kv_heads * LLAMA.head_dim
REDUCES = 2 * LLAMA.n_layers + 1


def ring(n, num_bytes, start=START, link=NVLINK):
    """Seconds of an all-reduce: a chunk at a time, n - 1 of them to sum and n - 1 to spread."""
    return sum(start + num_bytes / n / link for _ in range(2 * (n - 1)))


def own_bytes(n, batch=1):
    """What a rank reads in a decode step: its KV heads are counted one by one."""
    group = LLAMA.n_heads // LLAMA.n_kv_heads
    kv_heads = {head // group for head in range(LLAMA.n_heads // n)}
    return WEIGHTS / n + batch * CACHE / LLAMA.n_kv_heads * len(kv_heads)


def token(n, batch=1, start=START, link=NVLINK):
    """Seconds of a decode step: these batches wait for bytes, not for arithmetic."""
    assert batch * (WEIGHTS + 4 * 1024 * LLAMA.n_layers * LLAMA.n_heads * LLAMA.head_dim) / PEAK < MEMORY
    return own_bytes(n, batch) / MEMORY + REDUCES * ring(n, batch * TOKEN, start, link)


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def row(n):
    """A row of the first table."""
    reading, talking = own_bytes(n) / MEMORY, REDUCES * ring(n, TOKEN)
    return (
        f"| {n} | {digits(own_bytes(n) / 1e9)} | {1e3 * reading:.3f} | {REDUCES * 2 * (n - 1):,} | "
        f"{1e3 * talking:.3f} | {1e3 * token(n):.3f} | {token(1) / token(n):.2f} |"
    )


def sum_over_8(tokens, name, start, link):
    moved = 1e6 * 14 * tokens * TOKEN / 8 / link
    what = "one token" if tokens == 1 else f"{tokens:,} tokens"
    way = f"{moved:.1f}" if tokens > 1 else digits(moved) if name == "network" else f"{moved:.3f}"
    return f"| {what}, {name} | {tokens * TOKEN:,} | {1e6 * 14 * start:.1f} | {way} |"


def shaped(name, whole, own):
    tail = ", whole" if whole == own else ""
    return f"| {name} | `{whole}` | `{own}`{tail} |"


S, G_OWN = models.shapes(SMOL), SMOL.n_kv_heads // 3
LAYER = "model.layers.0."
SMOL_BYTES = 4 * sum(map(prod, S.values()))
OWN_BYTES = 4 * sum(prod(shape) / 3 if len(shape) == 2 else prod(shape) for shape in S.values())
PROMPT = 4096
# a prompt's arithmetic: every matrix, the head for the last token only or all; scores and weighted values, causal
PROMPT_FLOPS = 2 * PROMPT * (MATRICES + HEAD) + 4 * LLAMA.n_layers * LLAMA.n_heads * LLAMA.head_dim * sum(
    range(1, PROMPT + 1)
)
SENT = (2 * SMOL.n_layers + 1) * 4 * 4 * SMOL.d_model // 3  # four chunks of a third, float32
ONE_SHOT = START + 7 * TOKEN / NVLINK
PART = 8192 // 4
KV_STEP = 2 * 2 * PART * LLAMA.n_kv_heads * LLAMA.head_dim
HALF_SEEN = 4 * LLAMA.n_heads * LLAMA.head_dim * PART * PART / 2 / PEAK
DISPATCH = 128 * 2 * 7 / 8 * 7168 * 2
PAIRS = [sum(range(PART * rank + 1, PART * (rank + 1) + 1)) for rank in range(4)]
HOPS = 3 * (START + TOKEN / NVLINK)


def bubble(p, m):
    """Empty cells of a schedule, counted."""
    cells = [0 <= step - stage < m for step in range(p + m - 1) for stage in range(p)]
    return 1 - sum(cells) / len(cells)


CLAIMS = [
    # the big idea
    f"memory at {MEMORY / 1e12:.2f} TB/s, and sends to a neighbour at {NVLINK / 1e9:.0f} GB/s, "
    f"{MEMORY / NVLINK:.2f} times slower; over a network of 400 Gbit/s it is {MEMORY / NETWORK:.0f} times",
    *map(row, RANKS),
    f"at 10 µs a message, two take {1e3 * token(2, 1, NETWORK_START, NETWORK):.3f} ms and four already "
    f"{1e3 * token(4, 1, NETWORK_START, NETWORK):.3f}",
    sum_over_8(1, "NVLink", START, NVLINK),
    sum_over_8(PROMPT, "NVLink", START, NVLINK),
    sum_over_8(1, "network", NETWORK_START, NETWORK),
    sum_over_8(PROMPT, "network", NETWORK_START, NETWORK),
    shaped("`q_proj`", S[LAYER + "self_attn.q_proj.weight"], (SMOL.n_heads // 3 * SMOL.head_dim, SMOL.d_model)),
    shaped(
        "`k_proj`, and `v_proj` likewise",
        S[LAYER + "self_attn.k_proj.weight"],
        (G_OWN * SMOL.head_dim, SMOL.d_model),
    ),
    shaped("`o_proj`", S[LAYER + "self_attn.o_proj.weight"], (SMOL.d_model, SMOL.n_heads // 3 * SMOL.head_dim)),
    shaped("`gate_proj`, and `up_proj` likewise", S[LAYER + "mlp.gate_proj.weight"], (SMOL.d_ff // 3, SMOL.d_model)),
    shaped("`down_proj`", S[LAYER + "mlp.down_proj.weight"], (SMOL.d_model, SMOL.d_ff // 3)),
    shaped(
        "embedding, which is the head as well",
        S["model.embed_tokens.weight"],
        (SMOL.vocab_size // 3, SMOL.d_model),
    ),
    shaped("a norm", S["model.norm.weight"], S["model.norm.weight"]),
    shaped("hidden state", (1, 1, SMOL.d_model), (1, 1, SMOL.d_model)),
    f"| keys of a layer, and values likewise | `(1, {SMOL.n_kv_heads}, K, {SMOL.head_dim})` | "
    f"`(1, {G_OWN}, K, {SMOL.head_dim})` |",
    shaped("logits", (1, SMOL.vocab_size), (1, SMOL.vocab_size // 3)),
    f"| all weights, float32 | {SMOL_BYTES / 1e6:.1f} MB | {OWN_BYTES / 1e6:.1f} MB |",
    # the concepts
    f"α = 3 µs and β = {NVLINK / 1e9:.0f} GB/s, which is one way; data sheets print {BOTH_WAYS:.0f} for both",
    f"A message of {START * NVLINK / 1e6:.2f} MB takes as long to start as to move",
    f"over 8 ranks a token's {TOKEN:,} bytes take {1e6 * ring(8, TOKEN):.2f} µs, "
    f"{1e6 * 14 * TOKEN / 8 / NVLINK:.3f} of them for the bytes",
    f"it would be {1e6 * ONE_SHOT:.2f} µs, for {7 / (14 / 8):.0f} times the bytes",
    f"one for the embedding, {REDUCES} in Llama-3-8B",
    f"{1e3 * token(1, 64):.3f} ms on one rank, {1e3 * token(4, 64):.3f} on four",
    f"on 8 takes {1e3 * PROMPT_FLOPS / 8 / PEAK:.1f} ms of arithmetic, at the full rate, and "
    f"{1e3 * REDUCES * ring(8, PROMPT * TOKEN):.1f} ms of all-reduces",
    f"are {8 + 8} bytes, where SmolLM2's {SMOL.vocab_size // 3:,} logits of a rank are {4 * SMOL.vocab_size // 3:,}",
    f"Four stages idle for {100 * bubble(4, 1):.0f}% with one micro-batch, for {100 * bubble(4, 16):.1f}% with 16, "
    f"for {100 * bubble(4, 27):.0f}% with 27",
    f"on 4 H100s {1e3 * (token(1) + HOPS):.3f} ms instead of {1e3 * token(1):.3f}",
    f"8 ranks: {DISPATCH / 1e6:.2f} MB out",
    f"Experts with 40, 20, 20 and 20 tokens have an imbalance of {40 / (100 / 4):.1f}",
    f"{KV_STEP / 1e6:.2f} MB in each of a layer's 3 steps, {1e6 * (START + KV_STEP / NVLINK):.1f} µs over NVLink as "
    "one message",
    f"takes {1e6 * HALF_SEEN:.1f} µs of arithmetic when half of it is seen",
    f"over the network, at {1e6 * (NETWORK_START + KV_STEP / NETWORK):.0f} µs",
    f"the last rank computes {PAIRS[-1] / (sum(PAIRS) / 4):.2f} times the mean",
    # the checkpoint
    f"the norms, {OWN_BYTES / 1e6:.1f} MB of {SMOL_BYTES / 1e6:.1f}; its cache has one of {SMOL.n_kv_heads} KV heads, "
    f"{2 * 4 * SMOL.n_layers * SMOL.head_dim:,} bytes for a token in float32 instead of "
    f"{2 * 4 * SMOL.n_layers * SMOL.n_kv_heads * SMOL.head_dim:,}",
    f"each rank sends {SENT + 2 * 16:,} bytes in {4 * (2 * SMOL.n_layers + 1) + 2} messages: "
    f"{2 * SMOL.n_layers + 1} all-reduces of {SMOL.d_model} numbers, {SENT:,} bytes in "
    f"{4 * (2 * SMOL.n_layers + 1)} messages",
    f"{SMOL.n_layers // 3} layers on each of 3 ranks",
    f"{168 * 169 // 2 // 3:,} pairs of a query and a key on every rank",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


LARGE = 70e9 * 2


@pytest.mark.parametrize(
    "claim",
    [
        f"on 8 ranks {1e6 * ring(8, TOKEN):.2f} µs, of which the bytes are {1e6 * 14 * TOKEN / 8 / NVLINK:.3f}",
        f"it would be {1e6 * ONE_SHOT:.2f} µs, and the step "
        f"{1e3 * (own_bytes(8) / MEMORY + REDUCES * ONE_SHOT):.3f} ms instead of {1e3 * token(8):.3f}",
        f"a rank of 16 reads {WEIGHTS / 16 / 1e9:.3f} GB of weights instead of {WEIGHTS / 8 / 1e9:.3f}, and for each "
        f"sequence of 1,024 tokens {CACHE / 8 / 1e6:.1f} MB of cache as before",
        f"There are {2 * 15} steps in each all-reduce instead of {2 * 7}",
        f"a token takes {1e3 * token(16):.3f} ms instead of {1e3 * token(8):.3f}",
        f"{1e3 * (token(1) + HOPS):.3f} ms instead of {1e3 * token(1):.3f} on 4 H100s",
        f"3 messages for a token, where tensor parallelism has {REDUCES * 2 * 3}",
        f"send {DISPATCH / 1e6:.2f} MB on the way out over 8 ranks",
        f"one rank's 128 tokens bring an expert {128 * 8 // 256} tokens on average, those of 32 ranks "
        f"{32 * 128 * 8 // 256}",
        f"each computes {sum(PAIRS) // 4:,} pairs, where neighbouring parts compute from {PAIRS[0]:,} to {PAIRS[3]:,}",
        f"the weights are {LARGE / 1e9:.0f} GB, more than one GPU has; on 8 each holds {LARGE / 8 / 1e9:.1f} GB and "
        f"reads them in {1e3 * LARGE / 8 / MEMORY:.2f} ms at {MEMORY / 1e12:.2f} TB/s",
        f"instead of {2 * 80 + 1} all-reduces",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert min(RANKS, key=token) == 4 and token(16) > token(1)  # "the best"; "longer than on one"
    assert token(2, 1, NETWORK_START, NETWORK) < token(1) < token(4, 1, NETWORK_START, NETWORK)
    assert min(RANKS, key=lambda n: token(n, 64)) == 4
    assert ring(8, TOKEN) > 100 * 14 * TOKEN / 8 / NVLINK  # decode waits for starts
    assert 14 * START < 14 * PROMPT * TOKEN / 8 / NVLINK  # a prompt for bytes
    assert all(2 * (n - 1) / n < 2 for n in range(1, 100))
    assert [n for n in range(2, 10) if 9 % n == 0] == [3, 9] and SMOL.d_ff % 9 and not SMOL.d_ff % 3
    assert bubble(4, 27) == pytest.approx(0.1) and bubble(4, 26) > 0.1
    assert bubble(3, 4) == pytest.approx(6 / 18)  # "Here 6 of 18 cells, 33%"
    assert START + KV_STEP / NVLINK < HALF_SEEN < NETWORK_START + KV_STEP / NETWORK
    for here in range(4):  # "of two blocks of queries and two of keys exactly half is seen", in every step
        for there in set(range(4)) - {here}:
            assert sum(k < q for q in (here, 7 - here) for k in (there, 7 - there)) == 2
            blocks = [torch.arange(8192).chunk(8)[b] for b in (here, 7 - here)]
        assert int((torch.cat(blocks) + 1).sum()) == sum(PAIRS) // 4
    assert 2 * 70e9 > 80e9


def test_the_picture_of_collectives_is_what_torch_makes_of_it():
    """Sums, rows and columns of one small matrix: a row for each rank."""
    has = torch.tensor([[1, 2, 3], [10, 20, 30], [100, 200, 300]])
    total = has.sum(0)
    rows = {
        "all-gather": (has[:, :1], has[:, 0].expand(3, 3)),
        "reduce-scatter": (has, total.view(3, 1)),
        "all-reduce": (has, total.expand(3, 3)),
        "all-to-all": (has, has.T),
    }
    drawn = [f"{'':<17}{'rank 0':<15}{'rank 1':<15}rank 2"]
    for name, (before, after) in rows.items():
        drawn.append("")
        for title, part in ((name, before), ("", after)):
            cells = "".join(f"{' '.join(map(str, one)):<15}" for one in part.tolist())
            drawn.append(f"{title:<17}{cells}".rstrip())
    assert "\n".join(drawn) in PARTS["Pinky"]


def test_the_picture_of_a_pipeline_is_a_schedule():
    """Each stage takes a micro-batch one step after the stage before it."""
    starts = {(stage, m): stage + m for stage in range(3) for m in range(4)}
    drawn = ["step       " + "  ".join(str(step) for step in range(6)), ""]
    for stage in range(3):
        busy = {starts[stage, m]: str(m) for m in range(4)}
        drawn.append(f"stage {stage}    " + "  ".join(busy.get(step, "·") for step in range(6)))
    assert "\n".join(drawn) in PARTS["Pellets"]


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level09\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level09")]
    assert f"7 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 8))
    parts = {name for kata in catalog.katas("level09") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level07"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level09")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level09")) == 8 and "Eight numbers" in PARTS["Inky"]


@pytest.fixture(scope="module")
def solved():
    """The modules of level 09 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "comm", "threads", "processes", "cost", "context", "pipeline", "expert", "shard", "tensor"
        yield SimpleNamespace(**{name: importlib.import_module(f"level09.{name}") for name in names})


def test_the_katas_agree_with_the_formulas_of_this_file(solved):
    """Learners compare the lesson's tables with their own functions."""
    from level04.roofline import H100 as machine

    cost = solved.cost
    links = ((cost.NVLINK, START, NVLINK), (cost.NETWORK, NETWORK_START, NETWORK))
    for n in RANKS:
        for link, start, bandwidth in links:
            assert cost.all_reduce_seconds(TOKEN, n, link) == pytest.approx(ring(n, TOKEN, start, bandwidth))
            for batch in (1, 64):
                said = cost.tp_decode_seconds(LLAMA, batch, 1024, n, machine, link)
                assert said == pytest.approx(token(n, batch, start, bandwidth), rel=1e-9)
    assert solved.context.causal_work(list(torch.arange(8192).chunk(4))) == PAIRS
    assert solved.pipeline.bubble_fraction(4, 16) == pytest.approx(bubble(4, 16))
    assert solved.expert.load_imbalance(torch.arange(4).repeat_interleave(torch.tensor([40, 20, 20, 20])), 4) == 1.6


@torch.no_grad()
def test_the_lessons_programs_run(solved):
    """They are shown to learners, so they have to work as they stand, and their output is beside them."""
    from level00.tokenizer import SmolTokenizer
    from level01.simple_cache import SimpleCache

    worlds, model = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    names = {"__name__": "__main__", "torch": torch, "models": models, "DeadlockError": solved.comm.DeadlockError}
    names |= {"run_threads": solved.threads.run_threads, "Ranks": solved.processes.Ranks}
    names |= {"parallel_generate": solved.tensor.parallel_generate}
    names |= {"SimpleCache": SimpleCache, "SmolTokenizer": SmolTokenizer}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(worlds, names)
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(model, names)
    assert f"print(run_threads(answer, 3)[0])  # {printed.getvalue()}" in model
    prompt = 5 * SENT + 2 * 16  # and three more tokens; each step has its messages
    assert printed.getvalue() == repr((" Paris.\n\n", 4 * 246, prompt + 3 * (SENT + 2 * 16))) + "\n"


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level09/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level09") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    return made(changed, **given)


def made(source, **given):
    module = sys.modules["level09.haunted"] = ModuleType("level09.haunted")
    vars(module).update(given, __package__="level09")
    exec(compile(source, "haunted", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def said(solved):
    """A function: what each of three ranks says after "The capital of France is" with a ghost of a kata."""
    from level00.tokenizer import SmolTokenizer
    from level01.simple_cache import SimpleCache

    config, params, data = models.load()
    tokenizer = SmolTokenizer.from_model(data)
    prompt = tokenizer.encode("The capital of France is")

    def texts(kata, name, n=8):
        module = haunted(f"level09.{kata}", name) if name else solved.tensor
        if not kata.startswith("tensor"):
            tensor = made((ROOT / "solutions/level09/tensor.py").read_text(encoding="utf-8"))
            used = {"ring_all_reduce", "ring_all_gather", "shard_params"} & set(vars(module))
            vars(tensor).update({function: getattr(module, function) for function in used})
            module = tensor

        def run(comm):
            with torch.inference_mode():
                ids = module.parallel_generate(comm, params, config, prompt, n, cache=SimpleCache(config.n_layers))
            return tokenizer.decode(ids)

        return solved.threads.run_threads(run, 3)

    texts.tokenizer = tokenizer
    return texts


RIGHT = " Paris.\n\nThe answer is:"


def is_quoted(text):
    """In the lesson, between quotation marks; where it has such marks itself, between backticks."""
    text = text.replace("\n", "\\n")
    return (f"`{text}`" if text.endswith('"') else f'"{text}"') in PARTS["Blinky"]


@pytest.mark.parametrize(
    ("kata", "name", "text"),
    [
        ("collectives.ring_reduce_scatter", "one_step_short", "airobi, for, your than now call"),
        ("collectives.ring_reduce_scatter", "chunk_of_the_neighbour", "airobiives than than than than than than"),
        ("tensor.row_parallel_linear", "mean_over_the_ranks", " the largest city in Europe, wisen"),
        ("tensor.row_parallel_linear", "partial_sum", "emeteriesiao Heanicanic Annotanicanic"),
        ("tensor.row_parallel_linear", "clamped_and_not_masked", "._._____"),
        ("shard.shard_params", "kv_whole", '." wis"]. wisiance dow reinst."'),
        ("shard.shard_params", "out_strided", "specialifera martyrs patrol Spatialyi Behindovere"),
        ("shard.shard_params", "in_strided", "ountainsleanormillaninguishablestr Barrett nargs linestyle"),
    ],
)
def test_what_three_wrong_ranks_say_together(said, kata, name, text):
    """The ghosts themselves, on SmolLM2; on threads, which take turns, sums have one order."""
    assert set(said(kata, name)) == {text} and is_quoted(text)
    assert f"level09.{kata} · {name}`" in PARTS["Blinky"]


def test_what_each_rank_says_alone(said):
    texts = said("tensor.vocab_parallel_argmax", "own_part_only")
    assert len(set(texts)) == 3 and all(map(is_quoted, texts))


@pytest.mark.parametrize(
    ("kata", "name"),
    [
        ("collectives.ring_all_reduce", "mean"),
        ("shard.heads_for_rank", "kv_modulo"),
        ("shard.heads_for_rank", "kv_by_division_only"),
        ("tensor.row_parallel_linear", "rows_too_large"),
        ("tensor.vocab_parallel_argmax", "number_in_the_part"),
    ],
)
def test_what_does_not_show_on_this_model(said, kata, name):
    """A text is no proof: the lesson says of each that the answer is the right one."""
    assert set(said(kata, name)) == {RIGHT} and is_quoted(RIGHT)
    assert f"level09.{kata} · {name}" in PARTS["Blinky"]
    assert max(said.tokenizer.encode("The capital of France is" + RIGHT)) < SMOL.vocab_size // 3 == 16384
    assert "ids below 16,384" in LESSON


def test_two_of_the_costs_always_like_more_ranks(solved):
    from level04.roofline import H100 as machine

    for name in ("communication_free", "no_latency"):
        cost = haunted("level09.cost.tp_decode_seconds", name)
        of_8, of_16 = (cost.tp_decode_seconds(LLAMA, 1, 1024, n, machine, cost.NVLINK) for n in (8, 16))
        assert of_16 < of_8


def test_a_bias_on_every_rank_counts_twice(solved):
    wrong = haunted("level09.tensor.row_parallel_linear", "bias_on_every_rank")
    x, w, bias = torch.tensor([1.0, 2]), torch.eye(2), torch.tensor([10.0, 20])

    def run(comm):
        own = slice(comm.rank, comm.rank + 1)
        return wrong.row_parallel_linear(comm, x[own], w[:, own], bias).tolist()

    assert solved.threads.run_threads(run, 2) == [[21, 42]] * 2
    assert "give [21, 42] instead of [11, 22]" in LESSON


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level09/checkpoint").glob("test_*.py")
    source, power = path.read_text(encoding="utf-8"), PARTS["Power"]
    for asserted, said in (
        ('"name", ["question", "list"]', "Two of level 05's stored requests on three threads"),
        ('for name in ("the", "letters")', "two others on three gloo processes"),
        ('["ids"][:20]', "20 tokens in two chunks"),
        ("forward(params, config, ids)[0], abs=1e-3", "are level 00's logits, to 0.001"),
        ('"size", [2, 4]', "9 heads on 2 or on 4 ranks"),
        ("[:16]).view(4, 4)", "four micro-batches"),
        ("hidden_states(plain, config, ids), abs=1e-3", "the hidden states of the whole model, to 0.001"),
        ("found[15]", "Layer 15's queries"),
        ("[:168]", "of 168 tokens, zigzag"),
        ("[work] * SIZE), abs=1e-4", "attention in one place, to 0.0001"),
        ("SIZE, CONTEXT = 3, 64", "on three ranks"),
        ("step, own, cache = on_rank(Echo(), model)", "One rank's decode step, without its messages"),
    ):
        assert asserted in source, asserted
        assert said in power, said
