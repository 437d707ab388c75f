"""Every number in the lesson of level 15, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where the stored pairs are run. What a paper reports is quoted, and named.
"""

import contextlib
import dataclasses
import importlib
import io
import re
import sys
from math import cos, prod, sin
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, report
from dojo.models import Config, shapes
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level15/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level15/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(level for level in catalog.level_names() if level <= "level15")

LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3.1-8B
SMALL = Config(40, 5120, 40, 8, 128, 17408, 151936, tie_embeddings=False)  # Qwen3-14B
LARGE = Config(64, 5120, 64, 8, 128, 25600, 151936, tie_embeddings=False)  # Qwen3-32B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
RATE, MEMORY = 0.5e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
TOKENS = 32_768
FLIP = 0.0015  # an answer of the 2,048 is worth .0005; machines round differently


def bytes_of(config, tokens=1, size=2):
    return tokens * size * sum(config.head_dim * config.n_kv_heads for _ in range(config.n_layers) for _ in "kv")


def prefill(config, tokens):
    """FLOPs: every matrix but the embedding for every token, the head for the last one, causal attention."""
    sizes = {name: prod(shape) for name, shape in shapes(config).items() if len(shape) == 2}
    head = sizes.pop("lm_head.weight")
    matrices = sum(sizes.values()) - sizes["model.embed_tokens.weight"]
    pairs = sum(range(1, tokens + 1))
    return 2 * (matrices * tokens + head) + config.n_layers * config.n_heads * 4 * config.head_dim * pairs


def maps(target, heads, layers, head_dim=128):
    """(weights, biases) of all maps."""
    outputs = 2 * target.n_layers * target.n_kv_heads * target.head_dim
    return outputs * layers * heads * head_dim, outputs


def breakeven(tokens, size=2):
    return bytes_of(LLAMA, tokens, size) / (prefill(LLAMA, tokens) / RATE) / 1e9


def row(name, heads, repaired=0.0):
    """Of the table in the big idea: move, then map or read the map, then repair."""
    weights, biases = maps(LARGE, heads, 8)
    apply = max(2 * weights * TOKENS / RATE, 4 * (weights + biases) / MEMORY) + repaired * prefill(LARGE, TOKENS) / RATE
    seconds = [bytes_of(SMALL, TOKENS) / link + apply for link in (450e9, 25e9, 1.25e9, 0.125e9)]
    return f"| {name} | {bytes_of(SMALL, TOKENS) / 1e9:.2f} | {' | '.join(f'{s:.3f}' for s in seconds)} |"


ALONE = f"{prefill(LARGE, TOKENS) / RATE:.3f}"
FULL, LOCAL = sum(maps(LARGE, 8, 8)), sum(maps(LARGE, 1, 8))
MOVE, MAKE = bytes_of(LLAMA, TOKENS) / 12.5e9, prefill(LLAMA, TOKENS) / RATE
SENT, OWN = Config(2, 48, 4, 2, 16, 128, 312), Config(3, 80, 4, 2, 16, 192, 312)  # the stored pair
CLAIMS = [
    # the big idea
    f"| reads the prompt itself | 0 | {' | '.join([ALONE] * 4)} |",
    row("takes the 14B's cache, each head mapped from all heads", 8),
    row("each head mapped from one of each layer", 1),
    row("all heads, and a tenth of the prefill after all", 8, 0.1),
    # the concepts
    f"is turned by {10 - 3} and becomes [{cos(7):.4f}, {sin(7):.4f}]",
    f"X = 0, 1, 2 and Y = 1, 2, 3 with λ = 2 give W = {2 / (2 + 2)} and b = {2 - 0.5}",
    f"Predicting Y = 1, 3 as 1, 2 has R² {1 - 1 / 2}",
    f"and all 8 heads: {FULL:,}, or {4 * FULL / 1e9:.4f} GB in float32",
    f"that of its own number, {LOCAL:,}",
    f"0.6 of 0.8 above 0.4 is {(0.6 - 0.4) / (0.8 - 0.4):.1f}",
    f"{breakeven(4096):.3f} GB/s at 4,096 tokens, {breakeven(TOKENS):.3f} at 32,768, "
    f"{breakeven(131_072):.3f} at 131,072",
    f"8B, 32,768 tokens, 12.5 GB/s: {MOVE / (MOVE + MAKE):.4f}, after {MOVE * MAKE / (MOVE + MAKE):.3f} s".replace(
        "0.1870", ".1870"
    ),
    # the checkpoint
    f"Over the wire go {bytes_of(SENT, size=4)} bytes a token in float32, the sender's, and not the "
    f"{bytes_of(OWN, size=4)} of the receiver",
    f"{sum(maps(OWN, 2, 2, 16)):,} coefficients, of which {maps(OWN, 2, 2, 16)[0]:,} are weights: "
    f"{2 * maps(OWN, 2, 2, 16)[0]:,} FLOPs a token",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


SHORT = bytes_of(LLAMA, 4096) / 1.25e9, prefill(LLAMA, 4096) / RATE


@pytest.mark.parametrize(
    "claim",
    [
        f"for Qwen3 14B to 32B these are {bytes_of(SMALL):,} bytes a token instead of {bytes_of(LARGE):,}",
        f"So five models have {5 * 4} directed pairs",
        f"Moving breaks even at {breakeven(4096):.3f} GB/s",
        f"the prefill takes {SHORT[1]:.3f} s, and moving {bytes_of(LLAMA, 4096) / 1e9:.3f} GB takes {SHORT[0]:.3f} s",
        f"At 131,072 tokens the link that breaks even has {breakeven(131_072):.3f} GB/s",
        f"recompute {100 * SHORT[0] / sum(SHORT):.0f}% of the layers at 4,096 tokens",
        f"With 4 bits a number, a quarter of the bytes, {breakeven(4096, 0.5):.3f} GB/s would do",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_the_picture_of_two_tokenizers():
    """Its last line, by characters."""
    sender, receiver, taken = (
        re.split(r"[ |,]+", re.sub(r" +tokens .*", "", line).partition(" ")[2].strip())
        for line in (
            *re.search(r"```\n(sender .*)\n(receiver .*?) +takes", PARTS["Pinky"]).groups(),
            "x " + re.search(r"takes +([\d, ]+)$", PARTS["Pinky"], re.M)[1],
        )
    )
    assert "".join(sender) == "".join(receiver)
    holds = [i for i, piece in enumerate(sender) for _ in piece]
    ends = [len("".join(receiver[: n + 1])) for n in range(len(receiver))]
    assert [holds[end - 1] for end in ends] == [int(number) for number in taken]
    read = [len("".join(sender[: int(number) + 1])) for number in taken]
    more = [there - end for there, end in zip(read, ends)]
    said = f'"unb" takes a state that has read {more[0]} characters more, "el" one with {more[1]} more'
    assert f"{said}, and {more.count(0)} token of {len(more)} an exact one" in PARTS["Pinky"]


# ---- the stored pairs


@pytest.fixture(scope="module")
def solved():
    """The modules of level 15, all solutions."""
    with solutions_of(*LEVELS):
        names = "pairlab", "cachemap", "transfer", "rerope", "align", "quality", "selective"
        yield SimpleNamespace(**{name: importlib.import_module(f"level15.{name}") for name in names})


class Pair:
    """One stored pair, and caches of 256 prompts that came in many ways."""

    def __init__(self, solved, seed):
        self.at = solved
        self.sender, self.receiver = solved.pairlab.load_pair(seed)
        learned, _, _ = solved.pairlab.prompts(256, 5)
        judged, self.queries, self.answers = solved.pairlab.prompts(256, 6)
        self.seen, self.stand = torch.arange(16), torch.arange(40, 56)
        self.source, self.target = (
            solved.pairlab.prefill(self.sender, learned),
            solved.pairlab.prefill(self.receiver, learned),
        )
        self.sent = solved.pairlab.prefill(self.sender, judged, 40)
        self.own = solved.pairlab.prefill(self.receiver, judged, 40)
        self.native, self.floor = self.accuracy(self.own), self.accuracy(None)

    def accuracy(self, layers):
        return self.at.pairlab.accuracy(self.at.pairlab.answer(self.receiver, layers, self.queries, 56), self.answers)

    def retention(self, layers):
        return (self.accuracy(layers) - self.floor) / (self.native - self.floor)

    def map(self, source=None, sent=None, rows=256, at=None, **options):
        """Fitted on `source` and applied to `sent`; at: positions for both, in place of the true ones."""
        source, sent = source or self.source, sent or self.sent
        config = dataclasses.replace(self.sender.config, n_layers=len(source))
        few = [[(k[:rows], v[:rows]) for k, v in layers] for layers in (source, self.target)]
        options = {"k": len(source)} | options
        seen, stand = (self.seen, self.stand) if at is None else (at, at)
        fitted = self.at.cachemap.fit_cache_map(*few, seen, config, self.receiver.config, **options)
        return self.at.transfer.transfer_cache(fitted, sent, stand, stand, config, self.receiver.config)

    def rows(self):
        """Name in the lesson's table -> the cache."""
        mine, theirs = self.receiver.config.rope_theta, self.sender.config.rope_theta
        full, few, local = self.map(), self.map(rows=4), self.map(head_local=True)
        shifted = [[(k.roll(1, 1), v.roll(1, 1)) for k, v in layers] for layers in (self.source, self.sent)]
        worst = sum(self.at.selective.deviation(*m, *e) for m, e in zip(local, self.own))
        some = torch.rand(worst.shape, generator=torch.Generator().manual_seed(7))
        move = self.at.rerope.move_positions
        return {
            "all heads of both layers": full,
            "of the first layer only": self.map(self.source[:1], self.sent[:1]),
            "of the last layer only": self.map(self.source[1:], self.sent[1:]),
            "λ times 4,096": self.map(lam=0.01 * 4096),
            "64 rows instead of 4,096": few,
            "64 rows, and keys made exact": [(own[0], layer[1]) for own, layer in zip(self.own, few)],
            "64 rows, and values made exact": [(layer[0], own[1]) for own, layer in zip(self.own, few)],
            "head by head": local,
            "head by head, shifted by one": self.map(*shifted, head_local=True),
            "head by head, and a random quarter of the tokens exact": self.patched(local, some, 0.25),
            "head by head, and the worst quarter exact": self.patched(local, worst, 0.25),
            "head by head, and layer 0 exact": [self.own[0], *local[1:]],
            "all heads, rotated again with the sender's base": [
                (move(k, self.stand, self.stand, mine, theirs), v) for k, v in full
            ],
            "all heads, fitted on keys with their rotation": self.map(at=torch.zeros_like(self.seen)),
            "the sender's own numbers, as they are": [self.sent[0], self.sent[1], self.sent[1]],
            "all heads, of another prompt": [(k.roll(1, 0), v.roll(1, 0)) for k, v in full],
        }

    def patched(self, layers, by, fraction):
        chosen, patch = self.at.selective.choose_tokens(by, fraction), self.at.selective.patch_tokens
        return [tuple(patch(m, e, chosen) for m, e in zip(*pair)) for pair in zip(layers, self.own)]

    def r2_of_keys(self, layers):
        strip, theta = self.at.rerope.strip_rope, self.receiver.config.rope_theta
        scores = []
        for (own, _), (keys, _) in zip(self.own, layers):
            Y, got = (
                strip(k.double(), self.stand, theta).transpose(1, 2).flatten(2).flatten(0, 1) for k in (own, keys)
            )
            scores.append(1 - ((Y - got).square().sum() / (Y - Y.mean(0)).square().sum()).item())
        return sum(scores) / len(scores)

    def cosines(self, layers):
        """Of the attention outputs, layer by layer, with the queries of the receiver on its own cache."""
        from level00.layers import attention

        queries = []

        def spy(q, k, v, mask):
            queries.append(q)
            return attention(q, k, v, mask)

        self.at.pairlab.answer(self.receiver, self.own, self.queries, 56, attend=spy)
        return [
            self.at.quality.attention_output_cosine(q, *layer, *own) for q, layer, own in zip(queries, layers, self.own)
        ]


@pytest.fixture(scope="module")
def pairs(solved):
    return {seed: Pair(solved, seed) for seed in "abc"}


@pytest.fixture(scope="module")
def caches(pairs):
    return {seed: pair.rows() for seed, pair in pairs.items()}


@pytest.fixture(scope="module")
def kept(pairs, caches):
    return {seed: {name: pairs[seed].retention(c) for name, c in found.items()} for seed, found in caches.items()}


def test_the_table_of_retentions(kept):
    number = r" (-?1?\.\d{3}) \|"
    found = re.findall(rf"^\| ([^|]+) \|{3 * number}$", PARTS["Power"], re.M)
    assert [name for name, *_ in found] == list(kept["a"])
    for name, *values in found:
        right = [kept[seed][name] for seed in "abc"]
        assert [float(value) for value in values] == pytest.approx(right, abs=FLIP), name


@pytest.mark.parametrize(
    "claim, name",
    [
        ("copied into the receiver as it is, retains {}", "the sender's own numbers, as they are"),
        ("the map retains {} instead of .996", "all heads, fitted on keys with their rotation"),
        ("rotated again with the sender's base, {}.", "all heads, rotated again with the sender's base"),
        ("here it takes .996 to {}", "λ times 4,096"),
        ("64 instead of 4,096 retain {}", "64 rows instead of 4,096"),
        ("from the first one alone it retains {}", "of the first layer only"),
        ("from the last one {}.", "of the last layer only"),
        ("Our pair retains {} head by head", "head by head"),
        ("head by head and {} shifted", "head by head, shifted by one"),
        ("a stranger's cache retains {},", "all heads, of another prompt"),
        ("head by head retains {}; any quarter", "head by head, and the worst quarter exact"),
        ("any quarter, {}.", "head by head, and a random quarter of the tokens exact"),
        ("with layer 0 exact, {}.", "head by head, and layer 0 exact"),
    ],
)
def test_the_concepts_repeat_the_table(claim, name):
    value = re.search(rf"^\| {re.escape(name)} \| ([^|]+) \|", PARTS["Power"], re.M)[1]
    assert claim.format(value) in PARTS["Pellets"]


def test_what_is_said_of_all_pairs(pairs, caches, kept):
    for seed, pair in pairs.items():
        values = kept[seed]
        assert pair.native >= 0.999 and values["all heads of both layers"] >= 0.95, seed
        few, local = caches[seed]["64 rows instead of 4,096"], caches[seed]["head by head"]
        assert values["64 rows instead of 4,096"] > values["head by head"]
        assert pair.r2_of_keys(few) < pair.r2_of_keys(local)
        # "On our maps the mean cosine misorders these two as well": not that of layer 0
        assert sum(pair.cosines(few)) < sum(pair.cosines(local))
        assert pair.cosines(few)[0] > pair.cosines(local)[0]
    shifted, straight = kept["c"]["head by head, shifted by one"], kept["c"]["head by head"]
    assert shifted > straight and "with another seed it is .702 and .709" in LESSON
    assert straight == pytest.approx(0.702, abs=FLIP) and shifted == pytest.approx(0.709, abs=FLIP)


def test_what_is_said_of_the_first_pair(pairs, caches, kept):
    pair, found = pairs["a"], caches["a"]
    assert f"The floor is the receiver without a cache, {pair.floor:.3f} here".replace("0.", ".") in LESSON
    few, local = (pair.r2_of_keys(found[name]) for name in ("64 rows instead of 4,096", "head by head"))
    assert f"keys of the map from 64 rows have {few:.2f}, those of the one head by head {local:.2f}" in LESSON
    assert f"A map has R² {few:.2f} and works, another has {local:.2f} and works less" in LESSON
    assert "the first retains more, .810 against .728" in LESSON
    assert "the mapped cache retains .996 and a stranger's -.006" in ANSWERS
    # answer 7: "the retention does not move if layer 1 or layer 2 is made exact instead"
    layers = found["head by head"]
    for layer in (1, 2):
        mixed = [pair.own[i] if i == layer else layers[i] for i in range(3)]
        assert pair.retention(mixed) == pytest.approx(kept["a"]["head by head"], abs=0.006)


def test_what_correlates_with_retention(pairs, caches, kept):
    """Over the first pair's table, and over the maps in it of which nothing was changed afterwards."""
    plain = ["all heads of both layers", "of the first layer only", "of the last layer only", "λ times 4,096"]
    plain += ["64 rows instead of 4,096", "head by head", "head by head, shifted by one"]

    def r(names, score):
        pairs_of = [[score(caches["a"][name]), kept["a"][name]] for name in names]
        return f"{torch.corrcoef(torch.tensor(pairs_of).T)[0, 1].item():.2f}".replace("0.", ".")

    r2, first = pairs["a"].r2_of_keys, lambda cache: pairs["a"].cosines(cache)[0]
    over = r(kept["a"], r2), r(plain, r2)
    said = "over our table it correlates with retention by {}, over its seven plain maps by {}".format(*over)
    assert said in LESSON and len(plain) == 7
    assert f"That of layer 0 orders best, {r(plain, first)}" in LESSON


def program(solved):
    """Runs the lesson's program with the modules as they are: name -> accuracy."""
    [code] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    names = {"pairlab": solved.pairlab, "torch": torch}
    names |= {"fit_cache_map": solved.cachemap.fit_cache_map, "transfer_cache": solved.transfer.transfer_cache}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    return accuracies(printed.getvalue())


def accuracies(text):
    return {name: float(value) for name, value in map(str.split, text.splitlines())}


def test_the_lessons_program_runs(solved):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    [shown] = re.findall(r"```python\n.*?```\n\n```\n(.*?)```", PARTS["Clyde"], re.S)
    found, said = program(solved), accuracies(shown)
    assert list(found) == list(said) and list(found.values()) == pytest.approx(list(said.values()), abs=FLIP)
    assert f"Without mistakes it is {said['mapped']:.3f}" in PARTS["Blinky"]


USED_BY = {  # where the lesson's program meets a function of these modules
    "align": {"cachemap": ("fit_ridge", "rank_source_layers"), "transfer": ("apply_map",)},
    "rerope": {"cachemap": ("strip_rope",), "transfer": ("strip_rope", "move_positions")},
    "cachemap": {"cachemap": ("fit_cache_map",), "transfer": ("head_columns",)},
    "transfer": {"transfer": ("transfer_cache",)},
}


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    module_name = id.split(".")[1]
    source = (ROOT / f"solutions/level15/{module_name}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level15") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level15.haunted"] = ModuleType("level15.haunted")
    vars(module).update(given, __package__="level15")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


def mapped_with(solved, patch, id, name):
    """What the lesson's program says of the mapped cache, with one ghost in it."""
    module = haunted(id, name)
    for user, functions in USED_BY[id.split(".")[1]].items():
        for function in functions:
            patch.setattr(getattr(solved, user), function, getattr(module, function))
    return program(solved)["mapped"]


def test_what_wrong_programs_come_to(solved, monkeypatch):
    """The ghosts themselves, in the code lab's program."""
    quoted = re.findall(r"`(level15\.[\w.]+) · (\w+)`: (0\.\d{3})", PARTS["Blinky"])
    assert len(quoted) >= 6
    for id, name, value in quoted:
        with monkeypatch.context() as patch:
            assert mapped_with(solved, patch, id, name) == pytest.approx(float(value), abs=2 * FLIP), name


def test_the_table_of_tensors(solved, pairs):
    """Shapes of one prompt on its way."""
    pair = pairs["a"]
    fitted = solved.cachemap.fit_cache_map(
        pair.source, pair.target, pair.seen, pair.sender.config, pair.receiver.config, k=2
    )
    keys = pair.sent[0][0][:1]
    assert f"`{tuple(keys.shape)}` | positions 40 to 55, base {pair.sender.config.rope_theta:,.0f} |" in LESSON
    rows = torch.cat([solved.cachemap.to_rows(k[:1]) for k, _ in pair.sent], 1)
    assert f"| rows: 2 layers of 2 heads side by side | `{tuple(rows.shape)}` |" in LESSON
    every = [heads for layer in fitted for part in layer for heads in part.heads]
    W, b = every[0]
    assert f"`{tuple(W.shape)}` and `{tuple(b.shape)}` | {len(every)} such maps |" in LESSON
    assert f"positions 40 to 55, base {pair.receiver.config.rope_theta:,.0f} |" in LESSON
    assert f"`{tuple(pair.queries[:1].shape)}` | positions 56 to 63 |" in LESSON


# ---- what the lesson announces


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level15\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level15")]
    assert f"7 concepts · {len(rows)} katas" in LESSON
    for kata in catalog.katas("level15"):
        [line] = [line for line in PARTS["Clyde"].splitlines() if line.startswith(f"| `{kata.id}`")]
        parts = re.findall(r"`(\w+)`", line)
        assert set(parts) == {name.rpartition(".")[2] for name in kata.names[1:]}


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level10", "level12"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level15")] and len(asked) == 7
    assert "Then seven questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level15")) == 9 and "Nine numbers" in PARTS["Inky"]
