"""Every number in the lesson of level 03, computed again: a claim is built here and must stand there verbatim.

What concerns one row of probabilities is computed in plain Python from logits that the real model gives; the solutions
run where a text is made.
"""

import importlib
import re
import sys
from collections import Counter
from math import erfc, exp, inf, log, log2, pi, sqrt
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, models, report

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level03/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level03/answers.md").read_text(encoding="utf-8")
FRANCE, THE, ONCE = "The capital of France is", "The", "Once upon a time"
LEVELS = ("level00", "level01", "level03")

C = models.SMOLLM2
WEIGHTS = 2 * sum(torch.Size(shape).numel() for shape in models.shapes(C).values())  # bytes in bfloat16
ROW = 4 * C.vocab_size


def softmax(logits, temperature=1.0):
    best = max(logits)
    weights = [exp((z - best) / temperature) for z in logits]
    total = sum(weights)
    return [w / total for w in weights]


def nucleus(probs, p):
    """How many of the most likely tokens it takes to reach p."""
    mass = 0.0
    for count, prob in enumerate(sorted(probs, reverse=True), 1):
        mass += prob
        if mass >= p - 1e-12:
            return count
    return len(probs)


def entropy(probs):
    return -sum(p * log2(p) for p in probs if p)


def chi_square(ids, probs):
    """The distance of counts from what is expected; ids are draws."""
    counts = Counter(ids)
    return sum((counts[i] - len(ids) * p) ** 2 / (len(ids) * p) for i, p in enumerate(probs))


PENALIZED = 2 / 1.3
CLAIMS = [
    # the big idea
    f"`forward` gives {C.vocab_size:,} numbers",
    f"The weights of SmolLM2, {WEIGHTS / 1e6:.0f} MB in bfloat16",
    f"| logits of the last position | `(1, {C.vocab_size})` | `(256, {C.vocab_size})` |",
    f"| their bytes in float32 | {ROW:,} | {256 * ROW:,} |",
    f"| beside the weights | {100 * ROW / WEIGHTS:.3f}% | {100 * 256 * ROW / WEIGHTS:.1f}% |",
    # the concepts
    f"of logits 2, 1, 0 the first has {softmax([2, 1, 0])[0]:.4f}, and {softmax([2, 1, 0], 0.5)[0]:.4f} at T = 0.5",
    f"{log2(C.vocab_size):.2f} if all {C.vocab_size:,} tokens were equally likely",
    f"falls from {softmax([2, 1])[0]:.4f} to {softmax([PENALIZED, 1])[0]:.4f}",
    f"and r = 1.3 makes {softmax([12 / 1.3, 11])[0]:.4f} of it",
    f"u = 0, once in {2**24:,} float32 numbers",
    f"A first token of .5 that leads on to .4 makes {f'{0.5 * 0.4:.1f}'[1:]}; "
    f"one of .4 with .9 behind it makes {f'{0.4 * 0.9:.2f}'[1:]}",
    # pitfalls
    f"would get {softmax([1, 0.5, 0])[0]:.4f} instead of {softmax([2, 1, 0], 0.5)[0]:.4f}",
    f"For m = 0.5 and a best logit of 2 the threshold is {2 + log(0.5):.3f}, not {0.5 * 2:.0f}",
    f"would divide a logit by {1.3**10:.1f}",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


def test_what_the_lesson_says_in_words():
    assert softmax([12, 11]) == pytest.approx(softmax([2, 1]))  # "the same distribution"
    beyond = erfc(sqrt(16.27 / 2)) + sqrt(2 * 16.27 / pi) * exp(-16.27 / 2)  # chi-square, 3 degrees of freedom
    assert beyond == pytest.approx(0.001, rel=0.01)  # "once in a thousand times"
    assert 3 * log(0.5) < 2 * log(0.4) and log(0.5) > log(0.4)  # "lose against two of 0.4", by sums only
    assert f"-4 after 4 tokens has a mean of {-4 / 4:.0f}, but in 10 tokens it may come to {-4 / 10}" in LESSON
    assert exp(-1000) == 0  # "a probability of 0 in any float"
    assert torch.rand(1 << 20, generator=torch.Generator().manual_seed(0)).mul(2**24).frac().any().item() is False


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level03\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level03")]
    assert f"7 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 8))


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert linked
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    rounding = (ROOT / "levels/level01/README.md").read_text(encoding="utf-8")
    assert re.search(r"^6\. In bfloat16 the two loops may give different texts", rounding, re.M)  # "question 6"


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*\?)$", LESSON.partition("## Power pellet")[2], re.M)
    assert asked == [question for question, _ in report.questions("level03")] and len(asked) == 8
    assert "Then eight questions" in LESSON


@pytest.fixture(scope="module")
def solved():
    """The modules of level 03 and what they stand on, all solutions, and the real model."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in LEVELS}
    for name in kept:
        del sys.modules[name]
    for level in LEVELS:
        package = sys.modules[level] = ModuleType(level)
        package.__path__ = [str(ROOT / "solutions" / level)]
    names = ("automaton", "constrained", "drawing", "sampler", "sampling", "search")
    made = SimpleNamespace(**{name: importlib.import_module(f"level03.{name}") for name in names})
    made.loop = importlib.import_module("level01.generate")
    made.config, made.params, data = models.load()
    made.tokenizer = importlib.import_module("level00.tokenizer").SmolTokenizer.from_model(data)
    made.logits = {text: next_logits(made, made.tokenizer.encode(text), [()])[0] for text in (FRANCE, THE)}
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] in LEVELS]:
        del sys.modules[name]
    sys.modules.update(kept)


@torch.no_grad()
def next_logits(solved, prompt, outputs):
    """Logits (n, vocab) of what follows the prompt and each of n outputs."""
    ids = torch.tensor([[*prompt, *output] for output in outputs])
    return solved.loop.forward(solved.params, solved.config, ids)[:, -1]


def paris(solved):
    (token,) = solved.tokenizer.encode(" Paris")
    return token


def test_how_undecided_the_real_model_is(solved):
    probs = {text: softmax(solved.logits[text].tolist()) for text in (FRANCE, THE)}
    bits = {text: f"{entropy(probs[text]):.3f}" for text in probs}
    assert f'{bits[FRANCE]} bits after "{FRANCE}", {bits[THE]} after "{THE}"' in LESSON
    flat = softmax(solved.logits[FRANCE].tolist(), 1.5)[paris(solved)]
    assert f'at T = 1.5 " Paris" falls from {probs[FRANCE][paris(solved)]:.4f} to {flat:.4f}' in LESSON
    assert max(probs[FRANCE]) == probs[FRANCE][paris(solved)]
    assert f'" Paris" alone has {max(probs[FRANCE]):.4f}' in LESSON  # so p = 0.5 is crossed by the first token


@pytest.mark.parametrize("text, stated", [(FRANCE, (50, 1, 10, 606, 1)), (THE, (50, 3, 501, 8031, 3))])
def test_what_each_truncation_keeps_on_the_real_model(solved, text, stated):
    """Stated numbers and computed ones may differ by 1 in 1000: rounding moves the border of a large nucleus."""
    probs = softmax(solved.logits[text].tolist())
    least = 0.1 * max(probs)
    kept = [50, *(nucleus(probs, p) for p in (0.5, 0.9, 0.99)), sum(p >= least for p in probs)]
    assert kept == pytest.approx(stated, rel=1e-3)
    assert f'| "{text}" | ' + " | ".join(f"{n:,}" for n in stated) + " |" in LESSON
    assert "keep 1, 10 and 606 tokens" in LESSON and 'and 3, 501 and 8,031 after "The"' in LESSON
    assert f"{C.vocab_size - 10:,} of them share 10%" in LESSON


def test_orders_of_the_chain_on_the_real_model(solved):
    probs = sorted(softmax(solved.logits[FRANCE].tolist()), reverse=True)
    first, mass = probs[:50], sum(probs[:50])
    k_then_p, p_then_k = nucleus([p / mass for p in first], 0.9), min(50, nucleus(probs, 0.9))
    assert f"top_k = 50 and then top_p = 0.9 keep {k_then_p} tokens. Top-p first would keep {p_then_k}" in LESSON
    assert f"the 50 have a mass of {mass:.3f}" in LESSON
    hot = nucleus(softmax(solved.logits[FRANCE].tolist(), 1.5), 0.9)
    assert hot == pytest.approx(3285, rel=1e-3)
    assert f"A temperature of 1.5 before p = 0.9 leaves 3,285 tokens; after it {nucleus(probs, 0.9)}" in LESSON
    assert "keeps 3,285 tokens" in ANSWERS and f"and {nucleus(probs, 0.9)} when it comes last" in ANSWERS


def test_the_chain_in_the_picture(solved):
    s, token, row = solved.sampling, paris(solved), solved.logits[FRANCE].unsqueeze(0)
    steps = [
        ("logits (B, 49152)", row),
        ("apply_penalties", row := s.apply_penalties(row, [solved.tokenizer.encode(FRANCE)], [[]], 1.1)),
        ("apply_temperature", row := s.apply_temperature(row, 1.5)),
        ("top_k", row := s.top_k(row, 50)),
        ("top_p", row := s.top_p(row, 0.9)),
        ("min_p", row := s.min_p(row, 0.05)),
    ]
    for name, logits in steps:
        left, probability = int((logits > -inf).sum()), float(logits[0].double().softmax(-1)[token])
        assert re.search(rf"{re.escape(name)} +{left:,} +{probability:.4f}", LESSON), (name, left, probability)
    params = solved.sampler.SamplingParams(1.5, 50, 0.9, 0.05, 1.1)
    whole = solved.sampler.process(solved.logits[FRANCE].unsqueeze(0), params, [solved.tokenizer.encode(FRANCE)], [[]])
    assert torch.equal(whole, row)


def test_negative_logits_and_ties_on_the_real_model(solved):
    negative = {text: 100 * float((solved.logits[text] < 0).double().mean()) for text in (FRANCE, THE)}
    assert f'{negative[FRANCE]:.0f}% of SmolLM2\'s logits are negative, after "The" {negative[THE]:.2f}%' in LESSON
    rounded = solved.logits[FRANCE].bfloat16()
    tenth = rounded.topk(10).values[-1]
    tied = [solved.tokenizer.decode([i]) for i in (rounded == tenth).nonzero().flatten().tolist()]
    assert sorted(tied) == [" a", " capital"] and f"k = 10 would keep {int((rounded >= tenth).sum())}" in LESSON


def test_draws_and_what_statistics_tell(solved):
    probs, n = (0.5, 0.3, 0.15, 0.05), 20_000
    logits = torch.tensor(probs, dtype=torch.float64).log().expand(n, 4)

    def seeded():
        return torch.Generator().manual_seed(0)

    u = torch.rand(n, 4, generator=seeded()).double()
    noise = torch.randn(n, 4, generator=seeded(), dtype=torch.float64)
    drawn = [solved.drawing.sample(logits, seeded()), solved.drawing.gumbel_max(logits, u)]
    drawn += [(logits + noise).argmax(-1), (logits - u.log()).argmax(-1)]
    inverse, gumbel, gaussian, one_log = (chi_square(ids.tolist(), probs) for ids in drawn)
    assert f"come to a chi-square of {inverse:.2f} and {gumbel:.2f}; a right sampler exceeds 16.27" in LESSON
    assert f"Gaussian noise in place of Gumbel's gives {gaussian:.0f}" in LESSON
    assert (
        f"chi-square {one_log:.0f}." in LESSON and max(Counter(drawn[3].tolist()).items(), key=lambda x: x[1])[0] == 0
    )
    assert f"with Gaussian noise come to a chi-square of {gaussian:.0f}, where the limit is 16.27" in ANSWERS


def test_log_probabilities_of_the_model_and_of_the_sampler(solved):
    raw = log(softmax(solved.logits[FRANCE].tolist())[paris(solved)])
    assert f'gives " Paris" {raw:.3f}' in LESSON
    assert nucleus(softmax(solved.logits[FRANCE].tolist(), 0.7), 0.9) == 1  # "nothing else is left"
    first, tempered = log(softmax([2, 0])[0]), log(softmax([2, 0], 2)[0])
    assert f"the first token has {first:.3f} raw and {tempered:.3f} at temperature 2" in ANSWERS


def test_beams_find_a_likelier_text_than_greedy(solved):
    prompt = solved.tokenizer.encode(ONCE)
    greedy = solved.loop.generate(solved.params, solved.config, prompt, 4)
    score = sum(
        float(next_logits(solved, prompt, [greedy[:i]])[0].log_softmax(-1)[token]) for i, token in enumerate(greedy)
    )

    def next_logprobs(outputs):
        return next_logits(solved, prompt, outputs).log_softmax(-1)

    tokens, best = solved.search.beam_search(next_logprobs, 4, 4, solved.tokenizer.eos_id, length_penalty=0)[0]
    texts = solved.tokenizer.decode(greedy), solved.tokenizer.decode(tokens)
    said = f'after "{ONCE}" greedy finds "{texts[0]}", {exp(score):.4f}, four beams "{texts[1]}", {exp(best):.4f}'
    assert said in LESSON
    assert f"a text of four tokens that is {exp(best - score):.1f} times as likely" in ANSWERS


def test_a_mask_makes_the_real_model_write_json(solved):
    made, tok = solved.constrained, solved.tokenizer
    schema = {"type": "object", "properties": {"ok": {"enum": [True, False, None]}}}
    dfa = solved.automaton.compile_pattern(solved.automaton.schema_pattern(schema))
    vocab = made.token_texts(tok)

    def answer(ids):
        choose = made.Constrained(solved.loop.greedy, dfa, vocab, tok.eos_id)
        return choose, solved.loop.generate(solved.params, solved.config, ids, 20, [tok.eos_id], choose=choose)

    start = made.allowed_tokens(dfa, dfa.start, vocab, tok.eos_id)
    allowed = [vocab[i] for i in start.nonzero().flatten().tolist()]
    begin = torch.tensor([text.startswith("{") for text in vocab])
    assert f'{int(begin.sum())} tokens begin with "{{" and {len(allowed)} are allowed' in LESSON
    assert sorted(allowed) == ["{", '{"']
    mass = float(solved.logits[FRANCE].double().softmax(-1)[start].sum())
    assert f"those {len(allowed)} tokens had {100 * mass:.5f}% together" in LESSON
    assert f"had {100 * mass:.5f}% of the probability together" in ANSWERS
    wrong = vocab[int(made.constrain(solved.logits[FRANCE], begin).argmax())]
    assert f'"{wrong}" begins well, and greedy decoding would choose it' in LESSON

    choose, ids = answer(tok.encode(FRANCE))
    text, own = tok.decode(ids[:-1]), len(tok.encode('{"ok": null}'))
    assert ids[-1] == tok.eos_id and f'SmolLM2 says `{text}` after "{FRANCE}", in {len(ids)} tokens' in LESSON
    assert f"its tokenizer spells it with {own}" in LESSON
    assert f"each of the {len(choose.masks)} is computed once, over {len(vocab):,} tokens" in LESSON
    assert f"{len(ids)} tokens, where the tokenizer uses {own} and the end" in ANSWERS

    question = 'Is Paris the capital of France? Answer with JSON only: {"ok": true} or {"ok": false}.'
    _, ids = answer(tok.encode_chat([{"role": "user", "content": question}]))
    assert ids == [*tok.encode('{"ok": true}'), tok.eos_id] and len(ids) - 1 == own
    assert f'writes `{{"ok": true}}` with those {own}' in ANSWERS
