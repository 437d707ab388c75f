"""Every number in the lesson of level 12, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where steps or words themselves, right or wrong, are run.
"""

import contextlib
import importlib
import io
import json
import re
import sys
from functools import cache
from math import ceil, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level12/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level12/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(level for level in catalog.level_names() if level <= "level12")

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
PROMPT, SHARED, ANSWER, BLOCK = 2048, 1536, 512, 16  # of the table in the big idea


@cache
def parameters(config):
    """All of them, and those that a step reads: the embedding is looked up."""
    sizes = {name: prod(shape) for name, shape in models.shapes(config).items()}
    return sum(sizes.values()), sum(sizes.values()) - sizes["model.embed_tokens.weight"]


ENTRY = sum(2 * LLAMA.head_dim * LLAMA.n_kv_heads for _ in range(LLAMA.n_layers) for _ in "kv")  # bytes of a token
BLOCKS = int((0.9 * 80e9 - 2 * parameters(LLAMA)[0] - 2e9) // (BLOCK * ENTRY))
ONE = 2 * parameters(LLAMA)[0] / (0.5 * PEAK)  # seconds that a token computes
SWAP = sum(1800 * ENTRY / 64e9 for _ in ("out", "in"))
HALF = PROMPT + ANSWER // 2


def blocks(tokens):
    return ceil(tokens / BLOCK)


def row(name, each, shared=0):
    """A row of the table: how many find room, and the step in which all of them make a token."""
    requests = (BLOCKS - 1 - shared) // each
    moved = 2 * parameters(LLAMA)[1] + requests * HALF * ENTRY
    flops = requests * (2 * parameters(LLAMA)[1] + HALF * 4 * LLAMA.n_layers * LLAMA.n_heads * LLAMA.head_dim)
    seconds = max(moved / BANDWIDTH, flops / PEAK)
    cells = f"{each} | {requests} | {moved / 1e9:.1f} | {moved / requests / 1e6:.0f} | {requests / seconds:,.0f}"
    return f"| {name} | {cells} |"


def found(tokens, cached, size=BLOCK):
    """Blocks that hit, when one token has to run."""
    return next(n for n in reversed(range(cached // size + 1)) if n * size < tokens)


CLAIMS = [
    # the big idea
    row("8,192 tokens, the most it may have", blocks(8192)),
    row("its prompt and all of its answer", blocks(PROMPT + ANSWER)),
    row("what it has so far", blocks(HALF)),
    row("the same, and what all share is held once", blocks(HALF) - blocks(SHARED), blocks(SHARED)),
    f"a new prompt also runs {PROMPT - SHARED} tokens instead of {PROMPT:,}",
    # the concepts
    f"{2 * parameters(LLAMA)[0] / 1e9:.2f} GB of weights of Llama-3-8B and 2 GB for activations, {BLOCK} tokens a "
    f"block, these are {BLOCKS:,}",
    f"on average {sum(range(BLOCK)) / BLOCK} of {BLOCK} slots stay empty",
    f"Of 1,000 tokens at most {found(1000, 1000)} blocks hit, {found(1000, 1000) * BLOCK} tokens; of 960 only "
    f"{found(960, 960)}",
    f"60 blocks out of {BLOCKS:,} are 60 moves, and up to {60 * BLOCKS:,} looks",
    f"of which 1,024 hit: {1800 - 1024} tokens take {1e3 * ONE * (1800 - 1024):.1f} ms",
    f"Swapping all 1,800 over 64 GB/s takes {1e3 * SWAP:.2f} ms. Computing is cheaper if at most {int(SWAP / ONE)} are",
    # the checkpoint: prompts of 96 shared tokens and 10 others
    f"The first step runs {106 + 3 * (106 - found(106, 96) * BLOCK)} tokens instead of {4 * 106}, 106 of the first "
    f"request and {106 - found(106, 96) * BLOCK} of each other one",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"1,800 tokens of Llama-3-8B go over 64 GB/s, out and in, in {1e3 * SWAP:.2f} ms. At half of an H100's rate, "
        f"that is the time of {int(SWAP / ONE)} tokens",
        f"With 1,024 of them still cached {1800 - 1024} are left, {1e3 * ONE * (1800 - 1024):.1f} ms, and swapping "
        f"would be quicker; with 1,600 only {1800 - 1600} are left",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert 1024 % BLOCK == SHARED % BLOCK == 1600 % BLOCK == 0 and 1800 - 1600 < SWAP / ONE < 1800 - 1024
    assert [9 - 4 * found(9, 9, 4), 8 - 4 * found(8, 8, 4)] == [1, 4]  # answer 6: "nine and one; of 8, eight and four"
    assert "of 9 tokens in blocks of 4, nine and one; of 8, eight and four" in ANSWERS


@pytest.fixture(scope="module")
def solved():
    """The modules of level 12 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "state", "block_pool", "kv_manager", "scheduler", "batch", "paged", "engine"
        yield SimpleNamespace(**{name: importlib.import_module(f"level12.{name}") for name in names})


def steps_of(solved, prompts, limit, *sizes, **options):
    """[(plan, finished, free queue)] of a scheduler; outputs are all different, and in no prompt."""
    scheduler, steps = solved.scheduler.Scheduler(*sizes, **options), []
    for i, prompt in enumerate(prompts):
        scheduler.add(solved.state.Tracked(f"r{i}", list(prompt), limit=limit))
    while scheduler.sequences:
        out = scheduler.schedule()
        finished = scheduler.update(out, {id: 1000 + 10 * len(steps) + int(id[1]) for id in out.num_scheduled})
        steps.append((out, finished, scheduler.kv.pool.free_ids()))
    return steps


def picture(steps, ids, events):
    lines = [["step", *ids, *(["leaves", "done"] if events else []), "free queue after it"]]
    for number, (out, finished, free) in enumerate(steps, 1):
        runs = [
            f"{out.num_scheduled[id]} in {' '.join(map(str, out.tables[id]))}" if id in out.tables else "" for id in ids
        ]
        told = [" ".join(out.preempted), " ".join(finished)] if events else []
        lines.append([str(number), *runs, *told, " ".join(map(str, free))])
    wide = [max(map(len, column)) + 3 for column in zip(*lines)]
    return "\n".join("".join(map(str.ljust, line, wide)).rstrip() for line in lines)


def test_the_picture_of_sharing(solved):
    begin = list(range(8))
    steps = steps_of(solved, [[*begin, 8], [*begin, 10, 11]], 4, 11, 4, 64, 8)
    assert f"```\n{picture(steps, ['r0', 'r1'], False)}\n```" in PARTS["Pinky"]
    [out, _, _] = steps[0]
    assert (out.num_scheduled, out.starts["r1"]) == ({"r0": 9, "r1": 2}, 8)


def test_the_picture_of_preemption(solved):
    steps = steps_of(solved, [range(6), range(50, 56), range(80, 83)], 5, 6, 4, 8, 8)
    assert f"```\n{picture(steps, ['r0', 'r1', 'r2'], True)}\n```" in PARTS["Pinky"]
    resumed = steps[5][0]
    assert (resumed.starts, resumed.num_scheduled) == ({"r1": 8, "r2": 0}, {"r1": 1, "r2": 5})  # "runs a single one"


def test_small_schedules_of_the_concepts(solved):
    """Vectors of the concepts 3 and 4."""
    prompts = [range(10), [50, 51, 52]]
    four = steps_of(solved, prompts, 3, 11, 4, 4, 8)
    assert [list(out.num_scheduled.values()) for out, _, _ in four[:3]] == [[4], [4], [2, 2]]
    assert "steps run 4, then 4, then 2 and 2" in LESSON
    three = steps_of(solved, prompts, 3, 11, 4, 8, 8, long_prefill_threshold=3)
    assert [list(out.num_scheduled.values()) for out, _, _ in three[:3]] == [[3, 3], [3, 1], [3, 1]]
    assert "the same two run 3 and 3, 3 and 1, 3 and 1" in LESSON
    [(_, _, free)] = steps_of(solved, [range(9)], 1, 8, 4, 64, 8)
    assert f"in blocks 1, 2 and 3 of 8 leaves the queue {' '.join(map(str, free))}" in LESSON
    assert f"in blocks 1, 2 and 3, of 8, the queue is {' '.join(map(str, free))}" in ANSWERS


def test_the_schedules_of_the_checkpoint(solved):
    """Plans depend on the tokens only through what is equal, so no model is needed: here all outputs differ."""
    prompts = [[*range(96), *range(100 * i, 100 * i + 10)] for i in range(1, 5)]
    found = {}
    for num_blocks in (24, 13, 12):
        plans = [out for out, _, _ in steps_of(solved, prompts, 24, num_blocks, 16, 4096, 8)]
        ran = [sum(out.num_scheduled.values()) for out in plans]
        found[num_blocks] = len(plans), sum(ran), sum(len(out.preempted) for out in plans)
        assert ran[0] == 136
    steps, tokens, preempted = zip(*found.values())
    said = "A pool of 24 blocks, block 0 among them, takes {} steps, 13 blocks take {}, and 12 take {}.".format(*steps)
    assert said in LESSON
    assert "{}, {} and {}, with {}, {} and {} preemptions".format(*tokens, *preempted) in LESSON


def test_the_table_of_a_step_on_smollm2(solved):
    """Every cell from the rules; the right batch is the same."""
    tables, starts, ends = [[1, 2, 3], [1, 2, 4]], (0, 8), (9, 10)
    positions = [at for start, end in zip(starts, ends) for at in range(start, end)]
    slots = [4 * table[at // 4] + at % 4 for table, start, end in zip(tables, starts, ends) for at in range(start, end)]
    heads, groups, width = SMOL.n_heads, SMOL.n_kv_heads, SMOL.head_dim
    for cell in (
        f"| token ids | `({len(positions)},)` |",
        f"| positions | `{positions}` |",
        f"| slots | `{slots}` |",
        "| `query_start_loc` | `[0, 9, 11]` |",
        f"| `seq_lens` | `{list(ends)}` |",
        f"| keys of the pool, and values likewise | `({SMOL.n_layers}, 11, 4, {groups}, {width})` |",
        f"| queries of a layer | `(1, {heads}, {len(positions)}, {width})` |",
        f"| keys of r1, as attention gets them | `(1, {groups}, {ends[1]}, {width})` |",
        f"| logits | `({len(tables)}, {SMOL.vocab_size})` |",
    ):
        assert cell in LESSON
    out = solved.state.SchedulerOutput(
        {"r0": 9, "r1": 2}, [], dict(zip(("r0", "r1"), starts)), dict(zip(("r0", "r1"), tables))
    )
    sequences = {id: solved.state.Tracked(id, list(range(end)), [], end) for id, end in zip(("r0", "r1"), ends)}
    batch = solved.batch.build_batch(out, sequences, 4)
    assert (batch.positions.tolist(), batch.slots.tolist()) == (positions, slots)
    assert (batch.query_start_loc, batch.seq_lens) == ([0, 9, 11], [9, 10])


def test_the_recorded_traces_are_what_the_lesson_says():
    data = json.loads((ROOT / "levels/level12/tests/vllm_0_33_0_traces.json").read_text(encoding="utf-8"))
    steps = [step for trace in data["traces"] for step in trace["steps"]]
    preempted = sum(len(step["preempted"]) for step in steps)
    said = f"{len(data['traces'])} small random traces, {len(steps)} steps with {preempted} preemptions"
    assert said in LESSON and "vllm 0.33.0" in data["made"]["from"] and "vLLM 0.33.0" in LESSON
    assert {len(step) for step in steps} == {5} and "of each step five columns were kept" in LESSON


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level12\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level12")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    parts = {name.rpartition(".")[2] for kata in catalog.katas("level12") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level02", "level05", "level06"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level12")] and len(asked) == 7
    assert "Then seven questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level12")) == 8 and "Eight numbers" in PARTS["Inky"]


def test_the_options_of_serve_are_what_the_lesson_says(solved):
    chosen = importlib.import_module("level12.serve").arguments_of(["--blocks", "256", "--no-prefix-cache"])
    assert (chosen.blocks, chosen.no_prefix_cache) == (256, True)
    assert "nox -s serve -- --blocks 256" in LESSON and "--no-prefix-cache" in LESSON


def test_what_wrong_orders_make_of_the_free_queue(solved, monkeypatch):
    """The ghosts themselves, on concept 3's 9 tokens."""
    quoted = re.findall(r"`(level12\.[\w.]+) · (\w+)` leaves ((?:\d )+\d)", PARTS["Blinky"])
    assert len(quoted) == 2
    for id, name, queue in quoted:
        with monkeypatch.context() as patch:
            put(patch, solved, id, haunted(id, name))
            [(_, _, free)] = steps_of(solved, [range(9)], 1, 8, 4, 64, 8)
        assert " ".join(map(str, free)) == queue, name


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level12/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level12") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level12.haunted"] = ModuleType("level12.haunted")
    vars(module).update(given, __package__="level12")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


def put(patch, solved, id, module):
    """A wrong program takes the right one's place, where that is used."""
    place, name = {
        "block_pool": (solved.kv_manager, "BlockPool"),
        "kv_manager": (solved.scheduler, "KVCacheManager"),
        "scheduler": (solved.scheduler, "Scheduler"),
        "batch": (solved.engine, "build_batch"),
        "paged": (solved.paged, "decode_attention"),
        "engine": (solved.engine, "Engine"),
    }[id.split(".")[1]]
    patch.setattr(place, name, getattr(module, name))


@pytest.fixture(scope="module")
def model(solved):
    from level00.tokenizer import SmolTokenizer

    config, params, data = models.load()
    return config, params, SmolTokenizer.from_model(data)


def program(solved, model):
    """Runs the lesson's program with the modules as they are; what it printed, its names, and the words of j."""
    from level03.sampler import SamplingParams

    [code] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    said = []

    class Engine(solved.engine.Engine):
        def step(self):
            events = super().step()
            said.extend(token for id, token, _ in events if id == "j")
            return events

    names = dict(zip(("config", "params", "tokenizer"), model)) | {"SamplingParams": SamplingParams, "Engine": Engine}
    names |= {"Scheduler": solved.scheduler.Scheduler, "Request": solved.engine.Request}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return printed.getvalue(), names, model[2].decode(said)


@torch.no_grad()
def test_the_lessons_program_runs(solved, model):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    from level01.generate import generate

    printed, names, words = program(solved, model)
    assert f"```\n{printed}```" in PARTS["Clyde"]
    prompt = names["prompt"]  # of Japan
    assert printed.count("\n") == 12
    alone = model[2].decode(generate(model[1], model[0], prompt, 10))
    assert words == alone and f"`{json.dumps(words)}`" in PARTS["Blinky"]
    assert len(prompt) == 25 and "Each prompt has 25 tokens. Why are 23 of j" in LESSON


@torch.no_grad()
def test_what_wrong_programs_say_on_the_real_model(solved, model, monkeypatch):
    """The ghosts themselves, on the code lab's program."""
    quoted = re.findall(r"`(level12\.[\w.]+) · (\w+)`: `(\".*?\")`", PARTS["Blinky"])
    assert len(quoted) >= 6
    quoted.append(("level12.engine.Engine", "token_after_every_chunk", None))
    for id, name, words in quoted:
        with monkeypatch.context() as patch:
            put(patch, solved, id, haunted(id, name))
            printed, _, said = program(solved, model)
        if words is None:
            assert said.startswith(" the Tokyo") and 'the second one gives `" the Tokyo"` first' in PARTS["Blinky"]
        else:
            assert json.dumps(said, ensure_ascii=False) == words, name
        if name == "output_thrown_away":
            assert f"in {printed.count(chr(10))} steps instead of 12" in PARTS["Blinky"]
