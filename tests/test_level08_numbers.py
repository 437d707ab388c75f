"""Every number in the lesson of level 08, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where drafts, rounds or trees themselves, right or wrong, are run.
"""

import contextlib
import importlib
import io
import re
import sys
from functools import cache
from itertools import count
from math import floor, log10, prod
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import checkpoint_of, module_at, solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level08/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level08/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(f"level{n:02}" for n in range(9))

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
SMALL = Config(16, 2048, 32, 8, 64, 8192, 128256)  # Llama-3.2-1B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value
P, Q = (0.2, 0.4, 0.4), (0.5, 0.25, 0.25)  # of the table in the big idea
GAMMA = 4


@cache
def read(config):
    """Weights that a step reads, and those of them in matrices."""
    sizes = {name: prod(shape) for name, shape in models.shapes(config).items()}
    if "lm_head.weight" in sizes:
        del sizes["model.embed_tokens.weight"]
    return sum(sizes.values()), sum(size for name, size in sizes.items() if "norm" not in name)


def work(batch, context, tokens=1, config=LLAMA):
    """(FLOPs, bytes) of a pass over some tokens of each sequence, in bfloat16: weights and caches are read once."""
    weights, matrices = read(config)
    pair = sum(2 * config.head_dim + 2 * config.head_dim for _ in range(config.n_layers * config.n_heads))
    entry = sum(2 * config.head_dim * config.n_kv_heads for _ in range(config.n_layers) for _ in "kv")
    return batch * tokens * (2 * matrices + context * pair), 2 * weights + batch * context * entry


def seconds(*args, **kwargs):
    flops, moved = work(*args, **kwargs)
    return max(flops / PEAK, moved / BANDWIDTH)


def steps(batch, context, gamma=GAMMA):
    return seconds(batch, context, gamma + 1) / seconds(batch, context)


def drafted(batch=1, context=1024):
    """Plain steps of the large model for a step of the small one."""
    return seconds(batch, context, config=SMALL) / seconds(batch, context)


def tokens(alpha, gamma=GAMMA):
    """Of a round: its probability of a given length, times the length."""
    return sum(alpha**i * (1 - alpha) * (i + 1) for i in range(gamma)) + alpha**gamma * (gamma + 1)


def gain(alpha, gamma, c=0.0, v=1.0):
    return tokens(alpha, gamma) / (gamma * c + v)


def best(alpha, c=0.0, cost=lambda gamma: 1.0):
    """The first of the best lengths up to 100."""
    gains = [gain(alpha, gamma, c, cost(gamma)) for gamma in range(100)]
    return gains.index(max(gains))


def digits(value, n=3):
    return f"{value:,.{max(0, n - 1 - floor(log10(value)))}f}"


def row(name, alpha, gamma=GAMMA):
    """A row of the first table."""
    (flops, moved), made = work(1, 1024, gamma + 1), tokens(alpha, gamma)
    cells = f"{moved / made / 1e9:.{1 if made == 1 else 2}f} | {flops / made / 1e9:.1f}"
    return f"| {name} | {f'{made:.2f}'.removesuffix('.00')} | {cells} | {made / seconds(1, 1024, gamma + 1):,.0f} |"


CONTEXTS = (1, 256, 512, 1024)
OVERLAP, AGREED = sum(map(min, P, Q)), sum(p * q for p, q in zip(P, Q))
ROUNDS = (4, 2, 4, 0, 1)
REJECTED = sum(accepted < 4 for accepted in ROUNDS)
FREE = next(context for context in count(1) if steps(128, context) == 1)
C = drafted()
BREAKS_EVEN = next(alpha / 1e4 for alpha in range(10**4) if gain(alpha / 1e4, 4, C) > 1)
WEIGHTS = 4 * read(SMOL)[0]

CLAIMS = [
    # the big idea
    row("no drafts", 0, 0),
    row("alpha 0", 0),
    row("alpha 0.5", 0.5),
    row("alpha 0.8", 0.8),
    row("alpha 1", 1.0),
    *(
        f"| {batch} sequences: a pass{said} | {' | '.join(f'{steps(batch, n):.3f}' for n in CONTEXTS)} |\n"
        f"| times as many tokens/s | {' | '.join(f'{gain(0.8, 4, 0, steps(batch, n)):.2f}' for n in CONTEXTS)} |"
        for batch, said in ((64, " over 5 tokens, in plain steps"), (128, ""), (256, ""))
    ),
    "| the drafter draws it, q | " + " | ".join(f"{x:g}" for x in (*Q, sum(Q))) + " |",
    "| and it is accepted, min(p, q) | " + " | ".join(f"{x:g}" for x in (*map(min, P, Q), OVERLAP)) + " |",
    "| it replaces a rejected one, max(p - q, 0) | "
    + " | ".join(f"{max(p - q, 0):g}" for p, q in zip(P, Q))
    + f" | {sum(max(p - q, 0) for p, q in zip(P, Q)):g} |",
    "| it comes out, p | " + " | ".join(f"{x:g}" for x in (*P, 1)) + " |",
    # the concepts
    f"it is {steps(64, 1):.3f} at batch 64, {steps(128, 1):.3f} at 128, {steps(256, 1):.3f} at 256: more than alpha",
    f"{steps(128, 1024):.3f} at batch 128 and 1,024 tokens, and 1 from {FREE:,} on",
    f"Pinky's table has {OVERLAP:g} instead of {AGREED:g}",
    f"alpha 0.7 and gamma 3 give {tokens(0.7, 3):.3f} tokens, not 1 + 3 · 0.7",
    f"With c = 0.1 and v = 1 that is {gain(0.7, 3, 0.1):.3f} times as fast",
    f"have {sum(ROUNDS)} accepted and {REJECTED} rejected: {sum(ROUNDS) / (sum(ROUNDS) + REJECTED):.3f}. Over all "
    f"{4 * len(ROUNDS)} it would be {sum(ROUNDS) / (4 * len(ROUNDS))}",
    f"Llama-3.2-1B {C:.3f} of Llama-3-8B's. At alpha 0.75 four such tokens give {gain(0.75, 4, C):.2f} times the "
    f"speed; below alpha {BREAKS_EVEN:.3f} they lose",
    f"At alpha 0.8 and c = 0.05 that ends with {best(0.8, 0.05)} tokens, {gain(0.8, best(0.8, 0.05), 0.05):.3f} times",
    f"gives {1 + 0.5:g}, a second one that is right in another quarter of the cases {1 + 0.5 + 0.25:g}",
    # pitfalls
    f"accepts {AGREED:g} of what was drawn instead of {OVERLAP:g}",
    f"{AGREED:g} or {1 - sum(abs(p - q) for p, q in zip(P, Q)):g} instead of {OVERLAP:g}",
    f"four drafted tokens give {tokens(0.8):.3f}, not {1 + 4 * 0.8:g} and not {tokens(0.8) - 1:.3f}",
    f"the one makes {sum(ROUNDS) / (4 * len(ROUNDS))} and the other {sum(ROUNDS) / (sum(ROUNDS) + len(ROUNDS)):.3f}; "
    f"right is {sum(ROUNDS) / (sum(ROUNDS) + REJECTED):.3f}",
    f"it says {5 * work(128, 1024)[0] / PEAK / (2 * read(LLAMA)[0] / BANDWIDTH):.3f} steps, and right is "
    f"{steps(128, 1024):.3f}",
    # the checkpoint
    f"{WEIGHTS / 4e6:.0f} MB, and plain decoding reads all {WEIGHTS / 1e6:.0f}",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


def computing(batch, tokens=1):
    return 1e3 * work(batch, 1, tokens)[0] / PEAK


@pytest.mark.parametrize(
    "claim",
    [
        f"In the lesson's table {min(P[1], Q[1]):g} + {P[1] - Q[1]:g} = {P[1]:g} for token 1",
        f"computes for {digits(computing(1))} ms and reads for {1e3 * work(1, 1)[1] / BANDWIDTH:.2f}",
        f"compute for {computing(128):.2f} ms; five times that is {computing(128, 5):.2f} ms, {steps(128, 1):.3f} st",
        f"it comes out with {0.8 * min(1, 0.6 / 0.8) + 0.2 * 0 + 0.15:.2f} instead of 0.6",
        f"the eighth token comes out with {0.8**8:.3f}, the ninth with {0.8**9:.3f}, and 0.05 steps are worth "
        f"{0.05 * gain(0.8, 8, 0.05):.3f} tokens: {best(0.8, 0.05)}",
        f"the best at alpha 0.8 is {best(0.8, 0, lambda gamma: 1 + gamma / 5)}",
        f"cost 128 sequences {steps(128, 1):.3f} steps at a context of 1, {steps(128, 1024):.3f} at 1,024, and nothing "
        f"from {FREE:,} on",
        f"the gain is {gain(0.8, 4, 0, steps(128, 1)):.2f} times at first and {gain(0.8, 4):.2f} in the end",
        f"costs {C:.3f} steps for one sequence and {drafted(128):.3f} for 128 of 1,024",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


def test_what_the_lesson_says_in_words():
    assert [round(drawn + put, 9) for drawn, put in zip(map(min, P, Q), (max(p - q, 0) for p, q in zip(P, Q)))] == [*P]
    assert 1 - sum(abs(p - q) for p, q in zip(P, Q)) / 2 == pytest.approx(OVERLAP)
    assert steps(256, 1) > tokens(0.8)  # "more than alpha 0.8 brings in"
    flip = next(batch for batch in count(1) if work(batch, 1)[0] / PEAK >= work(batch, 1)[1] / BANDWIDTH)
    assert steps(flip, 1) == pytest.approx(5) and steps(flip - 1, 1) < 4.99 and steps(512, 1) == pytest.approx(5)
    assert all(steps(128, context) == 1 for context in range(FREE, 8192, 97)) and steps(128, FREE - 1) > 1
    for alpha in (0.0, 0.3, 0.8, 1.0):  # the formula of concept 3
        assert tokens(alpha, 5) == pytest.approx(sum(alpha**i for i in range(6)))
    for alpha, c in ((0.8, 0.05), (0.5, 0.1), (0.9, 0.02), (0.3, 0.5)):  # the formula of concept 4
        pays = [alpha ** (gamma + 1) > c * gain(alpha, gamma, c) for gamma in range(100)]
        assert pays.index(False) == best(alpha, c) and not any(pays[best(alpha, c) :])
    assert best(0.3, 0.5) == 0 and best(0.19, 0.2) == 0 and best(0.21, 0.2) > 0  # "pays if alpha exceeds c"
    assert 1e3 * work(1, 1)[1] / BANDWIDTH == pytest.approx(
        1e3 * work(128, 1)[1] / BANDWIDTH, rel=0.01
    )  # "for as long"
    assert 5 * computing(1) < 1e3 * work(1, 1)[1] / BANDWIDTH
    taken = 0.2 * 0 + 0.8 * 0.75  # answer 4: were it drawn from its softmax, all would be well
    assert taken + 0.2 * 0 == pytest.approx(0.6)


def test_the_table_of_a_round_on_smollm2():
    text, drafts, accepted = 36, 4, 2
    heads, groups, width = SMOL.n_heads, SMOL.n_kv_heads, SMOL.head_dim
    rows, keys = 1 + drafts, text - 1 + 1 + drafts
    for cell in (
        f"SmolLM2 has {text} tokens of text, of which {text - 1} are cached",
        f"| token ids, the newest and the draft | `(1, {rows})` |",
        f"| positions | `{list(range(text - 1, keys))}` |",
        f"| queries | `(1, {heads}, {rows}, {width})` |",
        f"| keys of a layer, and values likewise | `(1, {groups}, {keys}, {width})` |",
        f"| scores | `(1, {heads}, {rows}, {keys})` |",
        f"| logits, of all five | `(1, {rows}, {SMOL.vocab_size})` |",
        f"after the round, with {text + accepted + 1} tokens of text | `(1, {groups}, {text + accepted}, {width})` |",
    ):
        assert cell in LESSON


@pytest.fixture(scope="module")
def solved():
    """The modules of level 08 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "verify", "draft", "loop", "speedup", "tree", "branches"
        yield SimpleNamespace(**{name: importlib.import_module(f"level08.{name}") for name in names})


def test_the_katas_give_the_lessons_numbers(solved):
    """The lesson is computed without them, and they are what a learner compares it with."""
    from level04.roofline import Hardware

    machine, made = Hardware("H100", PEAK, BANDWIDTH, 80e9), solved.speedup
    for batch in (1, 64, 128, 256):
        for context in CONTEXTS:
            right = steps(batch, context)
            assert made.verify_cost(LLAMA, batch, context, GAMMA, machine) == pytest.approx(right, rel=1e-12)
    assert made.expected_tokens(0.7, 3) == pytest.approx(tokens(0.7, 3))
    assert made.speedup(0.75, 4, C) == pytest.approx(gain(0.75, 4, C))
    assert made.best_gamma(0.8, 0.05, 50) == best(0.8, 0.05) and made.best_gamma(0.3, 0.5, 50) == best(0.3, 0.5)
    assert made.estimate_alpha(ROUNDS, [4] * 5) == pytest.approx(sum(ROUNDS) / (sum(ROUNDS) + REJECTED))
    assert solved.verify.acceptance_rate(torch.tensor(P), torch.tensor(Q)) == pytest.approx(OVERLAP)


def test_the_picture_of_rounds_is_what_the_loop_does(solved):
    """On a model that knows the alphabet, and a cache that remembers which tokens it holds."""
    drawn = [f"{'pass':<7}{'cached before':<16}{'runs':<16}{'choices':<11}{'kept':<11}taken back"]
    drafts, held, ran, chosen = iter(("cdx", "ygh", "ghi")), [], [], []
    config = Config(1, 8, 2, 1, 4, 8, 26, tie_embeddings=False)

    class Cache:
        length = property(lambda self: len(held))

        def truncate(self, length):
            del held[length:]

    def letters(ids):
        return " ".join(chr(97 + i) for i in ids)

    def forward(params, config, ids, cache):
        ran.append((list(held), ids[0].tolist()))
        held.extend(ids[0].tolist())
        places = torch.arange(cache.length - ids.shape[1], cache.length)
        return torch.nn.functional.one_hot(places + 1, 26).float()[None]

    def choose(logits, prompts, outputs):
        chosen.append(int(logits.argmax()))
        return logits.argmax(-1)

    rounds = solved.loop.speculate(
        {}, config, [0, 1], 8, lambda text, k: [ord(c) - 97 for c in next(drafts)], 3, (), Cache(), choose=choose,
        forward=forward,
    )  # fmt: skip
    for number, found in enumerate(rounds, 1):
        before, chunk = ran[-1]
        split = len(chunk) - found.proposed
        runs = f"{letters(chunk[:split])} | {letters(chunk[split:])}"
        back = f"{len(before) + len(chunk) - len(held)} of {len(chunk)}" + (" rows" if number == 1 else "")
        line = f"{number:<7}{letters(before):<16}{runs:<16}{letters(chosen):<11}{letters(found.tokens):<11}{back}"
        drawn.append(line)
        chosen.clear()
    assert "\n".join(drawn) in PARTS["Pinky"]
    assert held == list(range(9))  # "The newest token is never cached"


def test_the_picture_of_a_tree(solved):
    """Depths and ancestors by walking upwards from each node; the right functions agree."""
    parents, text = [-1, -1, 0, 0, 2, 1], 7
    drawn = ["node   parent   depth   position   sees the text and   0 1 2 3 4 5"]
    masks, depths = [], []
    for node, parent in enumerate(parents):
        above, at = [node], parent
        while at != -1:
            above.append(at)
            at = parents[at]
        depths.append(len(above) - 1)
        masks.append([i in above for i in range(6)])
        seen = " ".join("#" if s else "·" for s in masks[-1])
        drawn.append(f"{node:<7}{parent:<9}{depths[-1]:<8}{text + depths[-1]:<31}{seen}")
    assert "\n".join(drawn) in PARTS["Pinky"] and f"behind a text of {text} tokens" in LESSON
    assert solved.tree.tree_depths(parents) == depths and solved.tree.tree_mask(parents).tolist() == masks
    opened = f"Of the picture's {6 * 6} places, a causal mask opens {6 * 7 // 2} and right are {sum(map(sum, masks))}"
    assert opened in LESSON
    assert (1 - depths[1], 5 - depths[5]) == (1, 4)  # "one place too far to the right, and node 5 four"


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level08\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level08")]
    assert f"5 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 6))
    parts = {name for kata in catalog.katas("level08") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level02", "level04", "level05"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level08")] and len(asked) == 8
    assert "Then eight questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level08")) == 8 and "Eight numbers" in PARTS["Inky"]


def test_the_checkpoint_is_what_the_lesson_says(solved):
    [path] = (ROOT / "levels/level08/checkpoint").glob("test_*.py")
    source, made, power = path.read_text(encoding="utf-8"), checkpoint_of("level08"), PARTS["Power"]
    sampling = made.SEEDED[1]
    assert len(made.STORED) == 5 and made.GAMMA == 3 and len(made.STORED["count"]["answer"]) == 12
    assert sum(len(one["answer"]) for one in made.STORED.values()) == 44 and len(made.STORED["question"]["answer"]) == 8
    assert f"temperature {sampling.temperature} and top-p {sampling.top_p}" in power and sampling.seed is not None
    assert f"each of the {7 * SMOL.n_layers + 1} matrices 3 times, with {made.GAMMA + 1} rows" in power
    assert f"at most {made.MOST_READ} times a quarter of the weights" in power
    for asserted, said in (
        ('"gamma, total", [(0, 44), (4, 32)]', "44 without drafts, 32 with copied ones"),
        ("(right, ceil(n / 5))", "takes one for five tokens"),
        ('(STORED["count"]["answer"], 3, len(ids) + 10)', "12 tokens in 3 passes, and runs each token once"),
        ("length = len(ids) + len(answer) - 1", "ends with all tokens but the newest"),
        ('expect(told, 4).equals((one["answer"], 2))', "8 tokens take 2 passes"),
        ("equals((3 * 211, {GAMMA + 1}))", "Twelve tokens in 3 passes"),
        ("equals(8 / 11, rel=1e-9)", "found again in the rounds: 8 of 11"),
        ("[sweep() for _ in range(3)]", "timed against three sweeps over the weights"),
    ):
        assert asserted in source and said in power, said


def test_the_lab_is_what_the_lesson_says(solved):
    lab = module_at(ROOT / "levels/level08/labs/drafts.py")
    assert f"a pass over {lab.TOKENS[0]} to {lab.TOKENS[-1]} tokens" in LESSON and lab.DIAL[0] == 0


@pytest.fixture(scope="module")
def model(solved):
    from level00.tokenizer import SmolTokenizer

    config, params, data = models.load()
    return config, params, SmolTokenizer.from_model(data)


@torch.no_grad()
def test_the_lessons_program_runs(solved, model):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    from level01.generate import generate

    [program] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    names = dict(zip(("config", "params", "tokenizer"), model)) | {"speculate": solved.loop.speculate}
    names |= {"ngram_draft": solved.draft.ngram_draft, "estimate_alpha": solved.speedup.estimate_alpha}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program, names)
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]
    rounds, ids = names["rounds"], model[2].encode(names["text"])
    assert [t for r in rounds for t in r.tokens] == generate(model[1], model[0], ids, 24)
    assert sum(r.accepted for r in rounds) + len(rounds) == 24 and sum(r.proposed == 0 for r in rounds) == 3


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level08/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level08") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level08.haunted"] = ModuleType("level08.haunted")
    vars(module).update(given, __package__="level08")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


def comes_out(verify_sample):
    """Probability of each first token: drafts by q, both numbers on a grid whose points lie on no bound."""
    n, made = 20, [0.0, 0.0, 0.0]
    q, p = torch.tensor([Q], dtype=torch.float64), torch.tensor([P, P], dtype=torch.float64)
    points = [(i + 0.5) / n for i in range(n)]
    for token, probability in enumerate(Q):
        for u in points:
            for last in points:
                made[verify_sample([token], q, p, [u], last)[0]] += probability / n**2
    return made


def test_what_wrong_rules_make_of_the_distribution(solved):
    """The ghosts themselves, by enumeration."""
    assert comes_out(solved.verify.verify_sample) == pytest.approx(P)
    quoted = re.findall(r"`level08\.verify\.verify_sample · (\w+)` makes ([\d., ]+\d)", PARTS["Blinky"])
    assert len(quoted) == 5
    for name, numbers in quoted:
        made = comes_out(haunted("level08.verify.verify_sample", name).verify_sample)
        assert ", ".join(f"{round(x, 3):g}" for x in made) == numbers, name


@torch.no_grad()
def test_what_wrong_loops_say_on_the_real_model(solved, model):
    """The ghosts themselves, on the code lab's text; those whose words are right, on a stand-in that knows them."""
    config, params, tokenizer = model
    ids = tokenizer.encode(eval(re.search(r"^text = (.*)$", PARTS["Clyde"], re.M)[1]))
    whole = torch.tensor(ids + solved.loop.generate(params, config, ids, 26, solved.draft.ngram_draft, 4))

    def knowing(params, config, token_ids, cache):
        none = torch.zeros(1, config.n_kv_heads, token_ids.shape[1], config.head_dim)
        for layer in range(config.n_layers):
            cache.update(layer, none, none)
        places = torch.arange(cache.length - token_ids.shape[1], cache.length)
        return torch.nn.functional.one_hot(whole[places + 1], config.vocab_size)[None]

    def said(name, n=24, **seams):
        loop = haunted("level08.loop.speculate", name)
        rounds = list(loop.speculate(params, config, ids, n, solved.draft.ngram_draft, 4, **seams))
        return [token for round in rounds for token in round.tokens], len(rounds)

    right = whole[len(ids) :].tolist()
    assert tokenizer.decode(right).startswith(" width * height * depth")
    for name, passes, quoted in (
        ("rolls_back_too_far", 11, "The same text in the same 11 passes"),
        ("all_runs_again", 11, "The same text in the same 11 passes"),
        ("no_bonus", 12, "Right, in 12 and in 18 passes"),
        ("all_or_nothing", 18, "Right, in 12 and in 18 passes"),
        ("the_drafter_sees_the_output_only", 20, "Right, in 20 and in 21"),
        ("gives_up_after_a_rejection", 21, "Right, in 20 and in 21"),
    ):
        assert said(name, forward=knowing) == (right[:24], passes) and quoted in LESSON, name
    assert said("overshoots", forward=knowing) == (right, 11) and "26 tokens, and 24 were asked for" in LESSON
    for name, n, text, passes, quoted in (
        ("no_rollback", 24, " width * height */", None, 'it says " width * height */" with both'),
        ("rolls_back_one_less", 8, " width * height */", None, 'it says " width * height */" with both'),
        ("drops_the_newest_token", 12, " * * depth\n    depth return)", None, r'`" * * depth\n    depth return)"`'),
        ("rows_one_late", 12, " * * (width height depth depth)", None, '`" * * (width height depth depth)"`'),
        ("keeps_the_draft", 24, " width * height\n\ndef volume(width, height, depth):", 7, "in 7 passes"),
        ("keeps_later_matches", 24, " width * height * depth\n    return\nwidth#volume(", 9, "9 passes instead of 11"),
    ):
        tokens, made = said(name, n)
        assert tokenizer.decode(tokens).startswith(text) and quoted in LESSON and passes in (None, made), name
        if name == "no_rollback":
            assert "I, height *height, depth *height" in tokenizer.decode(tokens)
    assert 'with the one soon after "I, height *height, depth *height"' in LESSON
    assert r'`" width * height\n\ndef volume(width, height, depth):"`' in LESSON
    assert r'`"\n    return\nwidth#volume("`' in LESSON
