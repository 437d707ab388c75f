"""Every number in the lesson of level 11, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where they themselves are compared with the lesson, or run.
"""

import contextlib
import importlib
import io
import re
import sys
from itertools import count
from math import exp, floor, log10, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level11/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level11/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(f"level{n:02}" for n in range(12))

[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value


def model(shared, expert=0.0, experts=0, k=0, global_=0, local=0, window=0, state=0, b=2):
    return SimpleNamespace(**locals())


LLAMA = model(7.505e9, global_=32 * 2 * 8 * 128 * 2)
MIXTRAL = model(1.475e9, 5.637e9, 8, 2, global_=32 * 2 * 8 * 128 * 2)
DEEPSEEK = model(16.19e9, 2.554e9, 256, 8, global_=61 * (512 + 64) * 2, b=1)
GEMMA = model(27.0e9, global_=10 * 2 * 16 * 128 * 2, local=52 * 2 * 16 * 128 * 2, window=1024)
MAMBA = model(2.7e9, state=64 * 5120 * 128 * 2)
HYBRID = model(12e9, global_=16384, local=114688, window=1024)
NAMES = {
    "LLAMA_8B": ("Llama-3.1-8B", LLAMA),
    "MIXTRAL": ("Mixtral-8x7B", MIXTRAL),
    "DEEPSEEK_V3": ("DeepSeek-V3, weights in 8 bits", DEEPSEEK),
    "GEMMA3_27B": ("Gemma-3-27B", GEMMA),
    "MAMBA2": ("Mamba-2-2.7B", MAMBA),
}


def touched(arch, batch):
    """Token by token: of the experts that nobody has had so far, each is among the next k."""
    untouched = arch.experts
    for _ in range(batch):
        untouched -= untouched * arch.k / arch.experts
    return arch.experts - untouched


def weights(arch, batch=1):
    return arch.b * (arch.shared + (arch.expert * touched(arch, batch) if arch.experts else 0))


def kept(arch, context):
    return sum(arch.global_ + (arch.local if i < arch.window else 0) for i in range(context)) + arch.state


def moved(arch, batch, context):
    cache = arch.global_ * context + arch.local * min(context, arch.window)
    return weights(arch, batch) + batch * (cache + arch.state + arch.state)


def ms(num_bytes):
    return 1e3 * num_bytes / BANDWIDTH


def first(one, other, batch):
    """The first context at which `one` moves more, walked in steps of 1."""
    return next(n for n in count() if moved(one, batch, n) > moved(other, batch, n))


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def softmax(logits):
    return [exp(x) / sum(map(exp, logits)) for x in logits]


def sigmoid(x):
    return 1 / (1 + exp(-x))


COLUMNS = ((1, 1024), (1, 131072), (16, 8192), (64, 8192))
PROBS = softmax([1, 3, 2, 0])
PLAIN = [PROBS[1], PROBS[2]]
GATES = [p / sum(PLAIN) for p in PLAIN]
CHOSEN = [sigmoid(0), sigmoid(2)]
MHA, GQA, LATENT = 128 * (128 + 128), 8 * (128 + 128), 512 + 64
STATES_WEIGH_MORE = next(n for n in count() if n * 2 * MAMBA.state > weights(MAMBA))

CLAIMS = [
    # the big idea
    *(
        f"| {name} | {' | '.join(digits(moved(arch, *column) / 1e9) for column in COLUMNS)} |"
        for name, arch in NAMES.values()
    ),
    f"has {(DEEPSEEK.shared + 256 * DEEPSEEK.expert) / 1e9:.0f} billion parameters besides its embedding",
    f"keys and values | {LLAMA.global_:,} | {kept(LLAMA, 32768) / 1e9:.3f} |",
    f"a rotated key | {DEEPSEEK.global_:,} | {kept(DEEPSEEK, 32768) / 1e9:.3f} |",
    f"10 of 62 layers see everything | {GEMMA.global_ + GEMMA.local:,}, and {GEMMA.global_:,} when the windows are full"
    f" | {kept(GEMMA, 32768) / 1e9:.3f} |",
    f"a state | none | {kept(MAMBA, 32768) / 1e9:.3f} |",
    f"With S = 8,192 the latents and rotated keys of the layer have {8192 * LATENT * 2 / 1e6:.2f} MB, and the keys and "
    f"values {8192 * MHA * 2 / 1e6:.0f}",
    # the concepts
    f"16 sequences of 8,192 tokens: {moved(LLAMA, 16, 8192) / 1e9:.1f} GB, of which {weights(LLAMA) / 1e9:.1f} are "
    f"weights; on an H100 {ms(moved(LLAMA, 16, 8192)):.2f} ms",
    f"keep {HYBRID.global_:,} bytes of a token, and the local ones {HYBRID.local:,} of up to 1,024 tokens, moves fewer "
    f"bytes than Llama-3.1-8B from {first(LLAMA, HYBRID, 1):,} tokens on",
    f"With eight sequences that is from {first(LLAMA, HYBRID, 8):,} on",
    f"one token touches {touched(MIXTRAL, 1):g}, eight touch {touched(MIXTRAL, 8):.2f}, sixteen "
    f"{touched(MIXTRAL, 16):.2f}",
    f"takes an H100 {ms(weights(MIXTRAL)):.2f} ms for one and {ms(weights(MIXTRAL, 16)):.2f} for sixteen",
    f"active parameters, {(MIXTRAL.shared + 2 * MIXTRAL.expert) / 1e9:.2f} billion of "
    f"{(MIXTRAL.shared + 8 * MIXTRAL.expert) / 1e9:.2f}",
    f"DeepSeek-V3's 64 tokens touch {touched(DEEPSEEK, 64):.1f} of 256",
    f"give experts 1 and 2 with gates {GATES[0]:.4f} and {GATES[1]:.4f}",
    f"they'd be {PLAIN[0]:.4f} and {PLAIN[1]:.4f}",
    f"choose experts 1 and 2 by {CHOSEN[0] + 0.9:.1f} and {CHOSEN[1]:.3f}, and their gates are made of {CHOSEN[0]:g} "
    f"and {CHOSEN[1]:.3f}: {CHOSEN[0] / sum(CHOSEN):.4f} and {CHOSEN[1] / sum(CHOSEN):.4f}",
    f"with a mean probability of 0.85: {2 * (1 * 0.85 + 0 * 0.15):g}",
    f"512 and 64 in DeepSeek-V3: {61 * LATENT * 2:,} bytes in 61 layers",
    f"would be {MHA / LATENT:.1f} times as many numbers, those of 8 KV heads {GQA / LATENT:.2f} times",
    f"{128 + 64} and 128 wide, scores are {LATENT} wide and sums 512: {(LATENT + 512) / (128 + 64 + 128):g} times the "
    f"FLOPs for 1/{MHA / LATENT:.1f} of the bytes",
    f"gives {128 * 2 * (LATENT + 512) / (LATENT * 2):.0f} FLOPs a byte, near an H100's ridge of {PEAK / BANDWIDTH:.0f}",
    f"at 32,768 tokens {100 * kept(GEMMA, 32768) / (32768 * (GEMMA.global_ + GEMMA.local)):.2f}% of what",
    f"3 layers with a window of 4 reach {1 + 3 * 3}",
    f"states are {MAMBA.state / 1e6:.1f} MB, the cache of {MAMBA.state / LLAMA.global_:g} tokens of Llama-3.1-8B",
    f"from {STATES_WEIGH_MORE} sequences on they move more than the weights",
    "give [[5, 5.5], [3, 4]]",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"{weights(MIXTRAL) / 1e9:.1f} GB of weights are read; sixty-four touch all 8, and that is "
        f"{weights(MIXTRAL, 64) / 1e9:.1f} GB, {weights(MIXTRAL, 64) / weights(MIXTRAL):.2f} times as many",
        f"each of its experts then serves {64 * 2 // 8} tokens",
        f"of {(MIXTRAL.shared + 2 * MIXTRAL.expert) / 1e9:.2f} billion parameters would read "
        f"{2 * (MIXTRAL.shared + 2 * MIXTRAL.expert) / 1e9:.1f} GB for any batch",
        f"{LLAMA.global_:,} bytes a token in Llama-3.1-8B, {DEEPSEEK.global_:,} in DeepSeek-V3",
        f"goes from {GEMMA.global_ + GEMMA.local:,} bytes a token to {GEMMA.global_:,}, those of the 10 global layers",
        f"read and written: {MAMBA.state / 1e6:.1f} MB",
        f"made in time, at {MAMBA.state / 1e6:.1f} MB each",
        f"holds {100 * kept(GEMMA, 32768) / (32768 * (GEMMA.global_ + GEMMA.local)):.2f}% at 32,768 tokens, and "
        f"{1000 / 62:.1f}%, a share of 10 / 62",
        f"experts has {64 * 8 // 256} tokens on average",
        f"both give {GATES[0]:.4f} and {GATES[1]:.4f}",
        f"matter, {PLAIN[0]:.4f} and {PLAIN[1]:.4f}",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert moved(DEEPSEEK, 1, 131072) < moved(GEMMA, 1, 131072)  # "takes it fewer bytes than Gemma-3"
    assert moved(DEEPSEEK, 16, 8192) / moved(GEMMA, 16, 8192) == pytest.approx(4, rel=0.01)  # "four times"
    assert moved(MIXTRAL, 1, 1024) < moved(GEMMA, 1, 1024) / 2 and moved(MIXTRAL, 16, 8192) > moved(GEMMA, 16, 8192)
    assert moved(MIXTRAL, 64, 8192) > moved(GEMMA, 64, 8192)
    assert 8 - touched(MIXTRAL, 64) < 1e-6  # "sixty-four touch all 8"
    assert kept(GEMMA, 1000) == 1000 * (GEMMA.global_ + GEMMA.local)  # "shorter than the window nothing is saved"
    kept_softmax = softmax([3, 2])  # answer 7
    assert kept_softmax == pytest.approx(GATES) and sum(PLAIN) < 1
    loads, mean = (2, 1, 1, 0), 1
    steps = [0.1 * ((mean > load) - (mean < load)) for load in loads]
    assert f"by {steps[0]:g}, {steps[1]:g}, {steps[2]:g} and {steps[3]:g}" in LESSON


def test_the_constants_of_the_model_cards(solved):
    """From published configurations: what a step reads, without norms and biases. Within the digits that are given."""
    config = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
    llama = sum(prod(shape) for name, shape in models.shapes(config).items() if "embed" not in name)
    mixtral = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 8 * 4096) + 32000 * 4096
    queries, keys = 7168 * 1536 + 1536 * 128 * (128 + 64), 7168 * 576 + 512 * 128 * (128 + 128)
    deepseek = 61 * (queries + keys + 128 * 128 * 7168) + 3 * (3 * 7168 * 18432)
    deepseek += 58 * (3 * 7168 * 2048 + 256 * 7168) + 129280 * 7168
    gemma = 62 * (2 * 32 * 128 * 5376 + 2 * 16 * 128 * 5376 + 3 * 5376 * 21504) + 262208 * 5376
    mamba = 64 * (2560 * (2 * 5120 + 2 * 128 + 80) + 5120 * 2560) + 50288 * 2560
    expert, small = 32 * 3 * 4096 * 14336, 58 * 3 * 7168 * 2048
    for name, (_, right) in NAMES.items():
        given = getattr(solved.traffic, name)
        assert (given.shared_params, given.expert_params) == (right.shared, right.expert), name
        assert (given.n_experts, given.k, given.window) == (right.experts, right.k, right.window), name
        assert (given.global_kv_bytes, given.local_kv_bytes) == (right.global_, right.local), name
        assert (given.state_bytes, given.bytes_per_param) == (right.state, right.b), name
    found = (llama, mixtral, deepseek, gemma, mamba)
    assert found == pytest.approx([arch.shared for _, arch in NAMES.values()], rel=1e-3)
    assert (expert, small) == pytest.approx((MIXTRAL.expert, DEEPSEEK.expert), rel=2e-4)


def test_the_table_of_latents_and_keys(solved):
    """Shapes of the tensors that a decode step makes; S is a number that no width is."""
    heads, s, latent, rope, nope, v = 128, 7, 512, 64, 128, 128
    for cells in (
        f"| kept latents | `(1, S, {latent})` | `(1, S, {latent})` |",
        f"| kept rotated keys | `(1, S, {rope})` | `(1, S, {rope})` |",
        f"| `(1, {heads}, 1, {nope})` | times `w_uk`: `(1, {heads}, 1, {latent})` |",
        f"| queries, the rotated part | `(1, {heads}, 1, {rope})` | `(1, {heads}, 1, {rope})` |",
        f"| keys of all heads | `(1, {heads}, S, {nope})` | none |",
        f"| values of all heads | `(1, {heads}, S, {v})` | none |",
        f"| scores | `(1, {heads}, 1, S)` | `(1, {heads}, 1, S)` |",
        f"| weighted sum | of values: `(1, {heads}, 1, {v})` | of latents: `(1, {heads}, 1, {latent})` |",
        f"| result | `(1, {heads}, 1, {v})` | times `w_uv`: `(1, {heads}, 1, {v})` |",
    ):
        assert cells in LESSON
    generator = torch.Generator().manual_seed(0)

    def some(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    tensors = some(1, heads, 1, nope), some(1, heads, 1, rope), some(1, s, latent), some(1, s, rope)
    tensors += some(heads, nope, latent) / 30, some(heads, v, latent) / 30
    made, absorbed = (way(*tensors) for way in (solved.mla.attend_naive, solved.mla.attend_absorbed))
    assert made.shape == (1, heads, 1, v) and torch.allclose(made, absorbed, atol=1e-10)  # "Both ways give the same"


def test_the_picture_of_windows(solved):
    config = Config(6, 8, 2, 1, 4, 8, 16)
    is_global = [layer in (2, 5) for layer in range(6)]
    lines = [
        f"layer {layer}   {'global' if sees else 'local '}   "
        + " ".join("#" if sees or token >= 8 - 3 else "·" for token in range(8))
        for layer, sees in enumerate(is_global)
    ]
    assert "\n".join(lines) in PARTS["Pinky"] and solved.hybrid.layer_is_global(6, 3) == is_global
    places = sum(line.count("#") for line in lines)
    assert solved.hybrid.hybrid_kv_bytes(config, is_global, 3, 8, 1) == places * 2 * 4


def test_the_picture_of_decays(solved):
    """Rows of a causal matrix, by multiplying decays one by one, and what the two forms of the kata give."""
    values, decay = [1.0, 2.0, 4.0], 0.5
    drawn, state, outs = ["token   from 0   from 1   from 2   out"], 0.0, []
    for token, value in enumerate(values):
        state = decay * state + value
        outs.append(state)
        cells = [f"{prod([decay] * (token - j)):g}" if j <= token else "·" for j in range(3)]
        assert sum(prod([decay] * (token - j)) * values[j] for j in range(token + 1)) == state
        drawn.append(f"{token:<8}" + "".join(f"{cell:<9}" for cell in cells) + f"{state:g}")
    assert "\n".join(drawn) in PARTS["Pinky"]
    assert f"the value added: {outs[0]:g}, {outs[1]:g}, {outs[2]:g}." in LESSON
    ones, v = torch.ones(1, 1, 3, 1).double(), torch.tensor(values).double().view(1, 1, 3, 1)
    logs = torch.full((1, 1, 3), decay).double().log()
    for out, _ in (
        solved.ssm.linear_attention_recurrent(ones, ones, v, logs),
        solved.ssm.linear_attention_chunked(ones, ones, v, logs, 3),
    ):
        assert out.flatten().tolist() == pytest.approx(outs)


@pytest.fixture(scope="module")
def solved():
    """The modules of level 11 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "moe", "mla", "hybrid", "ssm", "traffic"
        yield SimpleNamespace(**{name: importlib.import_module(f"level11.{name}") for name in names})


def test_the_katas_give_the_lessons_numbers(solved):
    """The lesson is computed without them, and they are what a learner compares it with."""
    traffic, moe = solved.traffic, solved.moe
    for name, (_, arch) in NAMES.items():
        for column in COLUMNS:
            given = traffic.decode_step_bytes(getattr(traffic, name), *column)
            assert given == pytest.approx(moved(arch, *column), rel=1e-12)
    hybrid = traffic.Architecture("", 12e9, global_kv_bytes=16384, local_kv_bytes=114688, window=1024)
    for batch in (1, 8):
        assert traffic.crossover_context(traffic.LLAMA_8B, hybrid, batch) == first(LLAMA, HYBRID, batch)
    assert traffic.expected_experts_touched(256, 8, 64) == pytest.approx(touched(DEEPSEEK, 64))
    ids, gates = moe.route(torch.tensor([[1.0, 3, 2, 0]]), 2)
    assert ids.tolist() == [[1, 2]] and gates[0].tolist() == pytest.approx(GATES)
    assert moe.route(torch.tensor([[1.0, 3, 2, 0]]), 2, False)[1][0].tolist() == pytest.approx(PLAIN)
    ids, gates = moe.route_sigmoid(torch.tensor([[0.0, 0, 2]]), torch.tensor([0, 0.9, 0]), 2)
    assert ids.tolist() == [[1, 2]] and gates[0].tolist() == pytest.approx([s / sum(CHOSEN) for s in CHOSEN])
    loss = moe.load_balance_loss(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.zeros(2, 1, dtype=torch.long))
    assert loss.item() == pytest.approx(1.7)
    moved_bias = moe.adjust_bias(torch.zeros(4), torch.tensor([[0, 1], [0, 2]]), 0.1)
    assert moved_bias.tolist() == pytest.approx([-0.1, 0, 0, 0.1])
    assert solved.mla.latent_bytes_per_token(61, 512, 64, 2) == DEEPSEEK.global_
    assert solved.hybrid.receptive_field(3, 4) == 10
    pair = torch.tensor([1.0, 0]), torch.tensor([9.0, 9])
    after = solved.ssm.delta_step(torch.tensor([[1.0, 2], [3, 4]]), *pair, torch.tensor(0.5))
    assert after.tolist() == [[5, 5.5], [3, 4]]


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level11\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level11")]
    assert f"8 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 9))
    parts = {name for kata in catalog.katas("level11") for name in kata.names[1:]}
    assert len(parts) == 8 and all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level02", "level04", "level05", "level06", "level09"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level11")] and len(asked) == 7
    assert "Then seven questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level11")) == 8 and "Eight numbers" in PARTS["Inky"]


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level11/checkpoint").glob("test_*.py")
    source, made, power = path.read_text(encoding="utf-8"), checkpoint_of("level11"), PARTS["Power"]
    smol = models.SMOLLM2
    kept = [1024 if layer % made.PERIOD == made.PERIOD - 1 else made.WINDOW for layer in range(smol.n_layers)]
    token = 2 * smol.n_kv_heads * smol.head_dim * 4
    assert f"windows of {made.WINDOW} in two layers of three" in power and made.PERIOD == 3
    assert f"cut into {made.N_EXPERTS} experts of {smol.d_ff // made.N_EXPERTS} features" in power
    assert f"For 1,024 tokens {kept.count(1024)} layers hold all and {kept.count(64)} hold 64" in power
    assert f"{sum(kept) * token / 1e6:.1f} MB instead of {len(kept) * 1024 * token / 1e6:.1f}" in power
    assert f"k quarters of an MLP's {3 * smol.d_model * smol.d_ff * 4 / 1e6:.1f} MB" in power
    assert all(len(made.STORED[name]["ids"] + made.STORED[name]["answer"]) <= 64 for name in ("question", "letters"))
    for asserted, said in (
        ('parametrize("name", ["question", "letters"])', "two of level 05's stored requests"),
        ("169 tokens", "A text of 169 tokens"),
        ("expect(in_parts, 40, 41, 120).equals(right, abs=2e-3)", "read in four parts"),
        ("abs=2e-3", "to 0.002"),
        (
            "equals([3.577, 4.082, 4.218]",
            "3.577 for the whole model, 4.082 with windows in two layers of three, and 4.218",
        ),
        ("right, abs=1e-2", "to 0.01 in the logits"),
        ("1.02 * k * quarter", "at most 2% besides"),
        ("equals([3.577, 6.288, 10.355, 13.211]", "3.577, 6.288, 10.355 and 13.211 with 4, 3, 2 and 1 experts"),
        ("HEADS, LATENTS = 16, 2048", "behind 2,048 latents"),
        ("256 tokens through their 2 of 8 experts", "256 tokens through 2 of 8 experts"),
    ):
        assert asserted in source and said in power, said


@torch.no_grad()
def test_the_lessons_program_runs(solved):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    from level00.tokenizer import SmolTokenizer
    from level01.generate import generate
    from level02.cache import KVCache

    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    config, params, data = models.load()
    names = vars(solved.hybrid) | vars(solved.traffic) | {"generate": generate}
    names |= {"config": config, "params": params, "tokenizer": SmolTokenizer.from_model(data)}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, names)
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]
    ids, decode = names["ids"], names["tokenizer"].decode
    whole = generate(params, config, ids, 8, cache=KVCache(config, 1, 64))
    assert f"{len(ids)} tokens of a prompt and 8 of an answer" in LESSON and len(ids) + 8 <= 64
    assert f"64 {KVCache(config, 1, 64).nbytes} {decode(whole)!r}" in printed.getvalue()  # what sees everything says


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level11/{id.split('.')[0]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level11") if (g.id, g.name) == (f"level11.{id}", name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level11.haunted"] = ModuleType("level11.haunted")
    vars(module).update(given, __package__="level11")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


def gates(module):
    ids, found = module.route_sigmoid(torch.tensor([[0.0, 0, 2]]), torch.tensor([0, 0.9, 0]), 2)
    return ", ".join(f"{x:.4f}" for x in found[0].tolist())


def loss(module):
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    return f"{module.load_balance_loss(probs, torch.zeros(2, 1, dtype=torch.long)).item():g}"


def recurrence(module, *chunk):
    ones, v = torch.ones(1, 1, 3, 1).double(), torch.tensor([1.0, 2, 4]).double().view(1, 1, 3, 1)
    run = module.linear_attention_chunked if chunk else module.linear_attention_recurrent
    out = run(ones, ones, v, torch.full((1, 1, 3), 0.5).double().log(), *chunk)[0]
    return ", ".join(f"{round(x, 9):g}" for x in out.flatten().tolist())


def replaced(module):
    args = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([1.0, 0]), torch.tensor([9.0, 9]), torch.tensor(0.5)
    return str([[float(f"{x:g}") for x in row] for row in module.delta_step(*args).tolist()]).replace(".0", "")


def gigabytes(name):
    return lambda module: f"{module.decode_step_bytes(getattr(module, name), 16, 8192) / 1e9:.1f} GB"


MADE = {
    "moe.route_sigmoid": lambda module: "gates " + gates(module),
    "moe.load_balance_loss": loss,
    "ssm.delta_step": replaced,
    "ssm.linear_attention_chunked · reads_before_it_writes": recurrence,
    "ssm.linear_attention_chunked · decays_the_new_token": recurrence,
    "ssm.linear_attention_chunked": lambda module: recurrence(module, 2),
    "traffic.decode_step_bytes · active_parameters": gigabytes("MIXTRAL"),
    "traffic.decode_step_bytes · experts_for_each_sequence": gigabytes("MIXTRAL"),
    "traffic.decode_step_bytes · state_read_only": gigabytes("MAMBA2"),
    "traffic.decode_step_bytes": gigabytes("GEMMA3_27B"),
}


def test_what_wrong_programs_make(solved):
    """The ghosts themselves, on the numbers of the concepts."""
    quoted = re.findall(r"`level11\.(\S+) · (\w+)` makes ([^`]*)", PARTS["Blinky"])
    assert len(quoted) == 15
    for id, name, said in quoted:
        made = MADE.get(f"{id} · {name}", MADE.get(id))(haunted(id, name))
        assert said.startswith(made), (id, name, made, said)
    mixtral, mamba, gemma = (moved(arch, 16, 8192) / 1e9 for arch in (MIXTRAL, MAMBA, GEMMA))
    for right in (f"Mixtral's {mixtral:.1f}", f"Mamba-2's {mamba:.1f}", f"Gemma-3's {gemma:.1f}"):
        assert right in PARTS["Blinky"]
    touches = [
        haunted("traffic.decode_step_bytes", name).expected_experts_touched(8, 2, 8)
        for name in ("k_for_each_token", "drawn_one_by_one")
    ]
    assert f"touch {touches[0]:g} of Mixtral's experts by the one and {touches[1]:.3f}" in PARTS["Blinky"]
    assert f"right is {touched(MIXTRAL, 8):.3f}, as" in PARTS["Blinky"]
    assert haunted("hybrid.HybridCache", "layers_times_window").receptive_field(3, 4) == 12


def test_wrong_chunks_show_when_the_lesson_says_so(solved):
    """Which chunk is the first to be wrong, at random values."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 6, 2, generator=generator).double() for _ in "qkv")
    logs = -torch.rand(1, 1, 6, generator=generator).double()
    right = solved.ssm.linear_attention_recurrent(q, k, v, logs)[0]
    for name, chunk in (
        ("chunks_apart", 2),
        ("carried_state_read_undecayed", 2),
        ("decays_since_the_text_began", 2),
        ("carry_not_decayed", 3),
    ):
        out = haunted("ssm.linear_attention_chunked", name).linear_attention_chunked(q, k, v, logs, 2)[0]
        wrong = (out - right).abs().amax((0, 1, 3)).view(3, 2).amax(1) > 1e-6
        assert wrong.tolist().index(True) == chunk - 1, name


@torch.no_grad()
def test_what_wrong_caches_say_on_the_real_model(solved):
    from level00.tokenizer import SmolTokenizer
    from level01.generate import generate

    config, params, data = models.load()
    tokenizer = SmolTokenizer.from_model(data)
    ids = tokenizer.encode(eval(re.search(r'^ids = tokenizer.encode\((".*")\)$', PARTS["Clyde"], re.M)[1]))

    def says(module):
        is_global = module.layer_is_global(config.n_layers, 3)
        cache = module.HybridCache(config, is_global, 1, 16, 64)
        text = tokenizer.decode(generate(params, config, ids, 8, cache=cache, forward=module.forward_hybrid))
        return '`"' + text.replace("\n", "\\n") + '"`', cache.nbytes

    right, saved = says(solved.hybrid)
    assert f"right there is {right}" in PARTS["Blinky"]
    names = "first_of_a_period", "local_and_global_swapped", "windows_everywhere", "ring_masked_by_slot"
    texts = [says(haunted("hybrid.HybridCache", name))[0] for name in names]
    assert texts[0] == texts[1] and f"Both say {texts[0]}" in PARTS["Blinky"]
    assert f"{texts[2]} and {texts[3]}" in PARTS["Blinky"]
    same = [says(haunted("hybrid.HybridCache", n)) for n in ("window_one_too_wide", "rings_as_long_as_the_text")]
    assert [text for text, _ in same] == [right, right] and same[0][1] == saved < same[1][1]
