"""The power pellet of level 03: your chain stands between SmolLM2-135M's logits and its text.

The stored values were made by transformers' warpers, processors and beams; smollm2.json says which version. Where a
rounding of the logits could decide otherwise, nothing is stored, but for the sizes of large nuclei, which hold within
2%. The seeded texts are worked out here, in plain Python over sorted probabilities.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from pathlib import Path

import pytest
import torch
from torch import Tensor

import level03.constrained as constrained
from dojo.cost import count, count_calls
from dojo.models import load, matrices
from level00.accounting import count_params
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import generate, greedy
from level02.padding import generate_batch
from level03.automaton import DFA, compile_pattern, schema_pattern
from level03.constrained import Constrained, allowed_tokens, token_texts
from level03.drawing import token_logprobs
from level03.sampler import SamplingParams, choose_tokens, chooser, process, uniform
from level03.sampling import min_p, top_k
from level03.search import beam_search

STORED = json.loads((Path(__file__).parent / "smollm2.json").read_text(encoding="utf-8"))
CUTS, CHAINS, BEAMS, WORDS = (STORED[key] for key in ("cuts", "chains", "beams", "words"))
NAMES = pytest.mark.parametrize("name", ["capital", "the"])
NEW = 6  # tokens of each seeded text
SCHEMA = {"city": {"type": "string"}, "rank": {"type": "integer"}, "big": {"type": "boolean"}}
MASKED = SamplingParams(temperature=0), SamplingParams(temperature=0.7, seed=1), SamplingParams(seed=3)
HISTORY = list(range(1000, 1256)), list(range(2000, 2064))  # prompt and output of the choice that is measured
MOST_BYTES = 0.09  # of the weights': right choices 0.02 to 0.035, with a new row for each token seen 0.25
MOST_CALLS = 14_000  # operators: right choices 400 to 4,000, one that visits the entries one by one 49,000 or more
NEED = 0.85  # of the sweep: right choices 1.3 (plain lists) to 9, one that visits the entries one by one 0.56


@dataclass(frozen=True)
class Request:
    prompt: str
    params: SamplingParams


EVERYTHING = SamplingParams(
    temperature=1.2,
    top_k=40,
    top_p=0.9,
    min_p=0.02,
    repetition_penalty=1.1,
    presence_penalty=0.5,
    frequency_penalty=0.2,
    seed=7,
)
REQUESTS = [
    Request("Once upon a time", SamplingParams(temperature=0.8, top_p=0.95, seed=7)),
    Request("The capital of France is", SamplingParams(temperature=0, repetition_penalty=1.3, seed=7)),
    Request("Once upon a time", SamplingParams(temperature=0.8, top_p=0.95, seed=8)),
    Request("My favourite colour is", EVERYTHING),
]


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def tokenizer(model):
    return SmolTokenizer.from_model(model[2])


@pytest.fixture(scope="module")
def vocab(tokenizer):
    return token_texts(tokenizer)


@pytest.fixture(scope="module")
def logits(model):
    """ids -> the real logits (seq, vocab); each prompt runs once."""
    config, params, _ = model

    @cache
    def logits(ids: tuple[int, ...]) -> Tensor:
        return forward(params, config, torch.tensor([ids]))[0]

    return lambda ids: logits(tuple(ids))


@pytest.fixture(scope="module")
def right(model, tokenizer):
    """The texts of REQUESTS, all of them chosen by `exact`."""
    return batch(model, tokenizer, REQUESTS, exact_choice)


def exact(row: Sequence[float], prompt: Sequence[int], output: Sequence[int], p: SamplingParams) -> int:
    """The token that the distribution and the random number give: no tensor, and nothing of this level's katas."""
    z, r = list(row), p.repetition_penalty
    for token in {*prompt, *output}:
        z[token] = z[token] / r if z[token] > 0 else z[token] * r
    for token in output:
        z[token] -= p.frequency_penalty
    for token in set(output):
        z[token] -= p.presence_penalty
    ids = sorted(range(len(z)), key=lambda i: (-z[i], i))
    if p.temperature == 0:
        return ids[0]
    odds = {i: exp((z[i] - z[ids[0]]) / p.temperature) for i in ids[: p.top_k or None]}  # of the best: 1
    total, mass, kept = sum(odds.values()), 0.0, []
    for i, odd in odds.items():
        if mass >= p.top_p * total or odd < p.min_p:
            break
        kept.append(i)
        mass += odd
    u, mass = uniform(p.seed, len(output)) * mass, 0.0
    for i in sorted(kept):
        mass += odds[i]
        if mass > u:
            return i
    return max(kept)


def exact_choice(*params: SamplingParams):
    """`exact` for the rows of a batch, as `chooser` makes it of choose_tokens."""

    def choose(logits, prompt_ids, output_ids):
        return torch.tensor([exact(*row) for row in zip(logits.tolist(), prompt_ids, output_ids, params)])

    return choose


def batch(model, tokenizer, requests, made_by=chooser) -> list[list[int]]:
    """The tokens of several requests side by side."""
    config, params, _ = model
    prompts = [tokenizer.encode(request.prompt) for request in requests]
    return generate_batch(params, config, prompts, NEW, choose=made_by(*(request.params for request in requests)))


def state_after(dfa: DFA, text: str) -> int:
    state = dfa.start
    for char in text:
        state = dfa.step(state, char)
    return state


def words_dfa() -> DFA:
    return compile_pattern(schema_pattern({"enum": [json.loads(word) for word in WORDS]}))


def kept_in(row: Tensor) -> list[int]:
    return [i for i, z in enumerate(row.tolist()) if z > -torch.inf]


@pytest.mark.kata("level03.checkpoint")
@NAMES
def test_a_nucleus_has_the_size_that_another_implementation_finds(expect, logits, name):
    """Oracle: transformers' warpers. With the temperature first, 0.9 of the mass is 3,285 tokens after "The capital of
    France is" at T = 1.5; with the temperature last it would be 10, as at T = 1."""
    row = logits(CUTS[name]["ids"])[-1:]

    def nucleus(row, temperature, p):
        processed = process(row, SamplingParams(temperature=temperature, top_p=p), [CUTS[name]["ids"]], [[]])
        stays = processed > -torch.inf
        return int(stays.sum()), bool(row[stays].min() >= row[~stays].max())

    for temperature, p, size in CUTS[name]["nucleus"]:
        expect(nucleus, row, temperature, p).holds(
            lambda found, size=size: abs(found[0] - size) <= 0.02 * size and found[1],
            f"(tokens kept, are they the most likely ones?): {size} within 2%, and True",
        )


@pytest.mark.kata("level03.checkpoint")
@NAMES
def test_top_k_and_min_p_keep_the_tokens_that_another_implementation_keeps(expect, logits, name):
    """Oracle: transformers' warpers, on logits of 49,152 tokens instead of a handful."""
    row = logits(CUTS[name]["ids"])[-1:]

    def kept(cut, row, setting):
        return kept_in(cut(row, setting)[0])

    for k, ids in CUTS[name]["top_k"]:
        expect(kept, top_k, row, k).equals(ids)
    for m, ids in CUTS[name]["min_p"]:
        expect(kept, min_p, row, m).equals(ids)


@pytest.fixture(scope="module")
def histories():
    """(prompts, outputs) of the four places in "Row, row, row your boat": half of what stands before is the prompt."""
    ids, halves = STORED["text"]["ids"], [(place, (place + 1) // 2) for place in STORED["places"]]
    return [ids[:half] for _, half in halves], [ids[half : place + 1] for place, half in halves]


@pytest.mark.kata("level03.checkpoint")
def test_penalties_lower_what_has_been_seen_as_another_implementation_does(expect, logits, histories):
    """Oracle: transformers' repetition penalty, presence and frequency subtracted by the oracle's script. Of the tokens
    seen here, "row" and "merrily" many times, some have negative logits."""
    rows = STORED["penalties"]["rows"]

    def lowered(logits, settings):
        processed = process(logits, SamplingParams(**settings), *histories)
        return [row[stored["seen"]] for row, stored in zip(processed, rows)]

    right = [torch.tensor(row["logits"]) for row in rows]
    places = logits(STORED["text"]["ids"])[STORED["places"]]
    expect(lowered, places, STORED["penalties"]["settings"]).equals(right, rel=0, abs=2e-3)


@pytest.mark.kata("level03.checkpoint")
@pytest.mark.parametrize("name", CHAINS)
def test_the_whole_chain_gives_the_logits_that_another_implementation_gives(expect, logits, histories, name):
    """Oracle: transformers' processors in the same order, on four rows with histories that repeat themselves. Each row
    keeps other tokens, between 1 and 27 of them."""

    def left(rows, settings):
        processed = process(rows, SamplingParams(**settings), *histories)
        return [(kept_in(row), row[row > -torch.inf]) for row in processed]

    right = [(row["kept"], torch.tensor(row["logits"])) for row in CHAINS[name]["rows"]]
    places = logits(STORED["text"]["ids"])[STORED["places"]]
    expect(left, places, CHAINS[name]["settings"]).equals(right, rel=0, abs=2e-3)


@pytest.mark.kata("level03.checkpoint")
def test_a_text_is_as_likely_as_another_implementation_says(expect, logits):
    """Oracle: transformers' logits and log_softmax. 3.50 nats per token; tokens between -0.0001 and -14 are in it."""
    stored = STORED["text"]
    rows, ids = logits(stored["ids"])[:-1], torch.tensor(stored["ids"][1:])
    expect(token_logprobs, rows, ids).equals(torch.tensor(stored["logprobs"]), rel=0, abs=1e-3)

    def mean_loss(rows, ids):
        return -token_logprobs(rows, ids).mean().item()

    expect(mean_loss, rows, ids).equals(stored["mean_loss"], rel=0, abs=1e-3)


@pytest.fixture(scope="module")
def next_logprobs(model):
    """The model over all beams of a step. The searches begin alike, and what has been computed is kept."""
    config, params, _ = model

    @cache
    def known(beams: tuple[tuple[int, ...], ...]) -> Tensor:
        ids = torch.tensor([[*BEAMS["ids"], *beam] for beam in beams])
        return forward(params, config, ids)[:, -1].log_softmax(-1)

    return lambda beams: known(tuple(map(tuple, beams)))


@pytest.mark.kata("level03.checkpoint")
@pytest.mark.parametrize("case", BEAMS["searches"], ids=lambda case: f"{case['length_penalty']}")
def test_beam_search_finds_what_another_implementation_finds(expect, next_logprobs, case):
    """Oracle: transformers' generate with 4 beams (early_stopping True, or "never"), after "She opened the door and",
    where "." ends a text. The longer the favoured texts, the longer the search goes on."""

    def search(length_penalty, early_stopping):
        how = BEAMS["width"], BEAMS["max_tokens"], BEAMS["eos_id"], length_penalty, early_stopping
        return beam_search(next_logprobs, *how)

    right = [(tuple(tokens), score) for tokens, score in case["found"]]
    expect(search, case["length_penalty"], case["early_stopping"]).equals(right, rel=0, abs=1e-3)


@pytest.mark.kata("level03.checkpoint")
@pytest.mark.parametrize("which", [0, 3])
def test_a_seeded_text_is_what_its_random_numbers_say(expect, model, tokenizer, right, which):
    """Oracle: plain Python over the sorted probabilities, with uniform(seed, step). A user who sends the request again
    gets the same text, and whoever keeps seed and settings can explain every token of it."""
    config, params, _ = model

    def alone(prompt, settings):
        return generate(params, config, prompt, NEW, choose=chooser(settings))

    request = REQUESTS[which]
    expect(alone, tokenizer.encode(request.prompt), request.params).equals(right[which])


@pytest.mark.kata("level03.checkpoint")
def test_a_seeded_text_is_the_same_in_any_company(expect, model, tokenizer, right):
    """The oracle is the same. Four requests side by side in level 02's loop, two of them with one prompt and two seeds,
    then two in another order: nobody gets another text because of its neighbours."""

    def together(which):
        return batch(model, tokenizer, [REQUESTS[i] for i in which])

    for which in ([0, 1, 2, 3], [3, 0]):
        expect(together, which).equals([right[i] for i in which])


@pytest.mark.kata("level03.checkpoint")
def test_a_seed_repeats_itself_and_no_seed_does_not(expect, logits):
    """Oracle: `exact`. 20 equal draws without a seed at T = 1.5 happen once in 10**11 runs."""
    ids = CUTS["capital"]["ids"]
    row, hot = logits(ids)[-1:], SamplingParams(temperature=1.5, seed=7)

    def draws(params):
        return [choose_tokens(row, [ids], [[]], [params]).tolist() for _ in range(20)]

    expect(draws, hot).equals([[exact(row[0].tolist(), ids, [], hot)]] * 20)
    unseeded = expect(draws, SamplingParams(temperature=1.5))
    unseeded.holds(lambda found: len({token for [token] in found}) > 1, "not 20 times the same token")


@pytest.mark.kata("level03.checkpoint")
def test_masked_texts_are_json_of_the_schema_and_a_mask_is_made_once(expect, model, tokenizer, vocab):
    """Oracle: json.loads. One greedy and two seeded texts side by side over the real vocabulary; 49,152 tokens are
    walked through for each state that any of them visits, and for no state twice."""
    config, params, _ = model
    dfa = compile_pattern(schema_pattern({"type": "object", "properties": SCHEMA}))
    prompt, end = CUTS["capital"]["ids"], tokenizer.eos_id

    def texts(prompt):
        masks = count_calls(allowed_tokens)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(constrained, "allowed_tokens", masks)
            choose = Constrained(chooser(*MASKED), dfa, vocab, end)
            outputs = generate_batch(params, config, [prompt] * 3, 28, [end], choose=choose)
        states = {state_after(dfa, tokenizer.decode(output[:n])) for output in outputs for n in range(len(output))}
        return [tokenizer.decode(output) for output in outputs], masks.calls - len(states)

    def check(found):
        texts, extra = found
        for text in texts:
            if not text.endswith("<|im_end|>"):
                return f"{text!r} has no end"
            value = json.loads(text.removesuffix("<|im_end|>"))
            if [(key, type(part)) for key, part in value.items()] != [("city", str), ("rank", int), ("big", bool)]:
                return f"{text!r} does not fit the schema"
        return True if extra == 0 else f"{extra} masks more than there are states"

    claim = "three texts with their ends, each JSON with city, rank and big, and one mask for each state visited"
    expect(texts, prompt).holds(check, claim)


@pytest.mark.kata("level03.checkpoint")
@pytest.mark.parametrize("before", ["", '{"ok":', '{"ok": n', '{"ok": true}'])
def test_of_the_real_vocabulary_exactly_what_can_be_completed_is_allowed(expect, tokenizer, vocab, before):
    """Oracle: str.startswith over the three texts {"ok": true}, {"ok": false} and {"ok": null}. Eight tokens begin with
    "{"; two of them are allowed at the start."""
    dfa, end = words_dfa(), tokenizer.eos_id

    def allowed(state):
        mask = allowed_tokens(dfa, state, vocab, end)
        return [(i, vocab[i]) for i, yes in enumerate(mask.tolist()) if yes]

    right = {i for i, text in enumerate(vocab) if text and any(word.startswith(before + text) for word in WORDS)}
    right = right - {end} | ({end} if before in WORDS else set())
    expect(allowed, state_after(dfa, before)).equals([(i, vocab[i]) for i in sorted(right)])


@pytest.mark.kata("level03.checkpoint")
def test_within_a_string_every_token_of_text_is_allowed_and_no_control_token(expect, tokenizer, vocab):
    """Oracle: re.fullmatch, with each end that the text could have. 48,543 tokens may come, of any length and any
    script; some close the string and go on; <|im_start|> would forge the next turn of a conversation."""
    pattern = schema_pattern({"type": "object", "properties": SCHEMA})
    dfa, before = compile_pattern(pattern), '{"city": "'
    end = '", "rank": 1, "big": true}'
    ends = [end, f"n{end}", *(f"{'0' * n}{end}" for n in range(1, 5)), *(end[n:] for n in range(1, len(end)))]

    def allowed(state):
        mask = allowed_tokens(dfa, state, vocab, tokenizer.eos_id)
        return [(i, vocab[i]) for i, yes in enumerate(mask.tolist()) if yes]

    matches, control = re.compile(pattern).fullmatch, set(tokenizer.special.values())
    texts = {i: before + text for i, text in enumerate(vocab) if text and i not in control}
    right = [(i, vocab[i]) for i, text in texts.items() if any(matches(text + rest) for rest in ends)]
    expect(allowed, state_after(dfa, before)).equals(right)


@pytest.mark.kata("level03.checkpoint")
def test_of_three_texts_greedy_decoding_chooses_one(expect, model, tokenizer, vocab):
    """Oracle: transformers' generate with the same three texts. 12 tokens with the end, where the tokenizer spells this
    text with 5: what conforms need not be spelt the usual way."""
    config, params, _ = model

    def answer(prompt):
        choose = Constrained(greedy, words_dfa(), vocab, tokenizer.eos_id)
        return generate(params, config, prompt, 20, [tokenizer.eos_id], choose=choose)

    expect(answer, CUTS["capital"]["ids"]).equals(STORED["word"]["tokens"])


@pytest.fixture(scope="module")
def choice(logits):
    """A call that chooses one token with everything on, after 256 tokens of prompt and 64 of output."""
    row, (prompt, output) = logits(CUTS["capital"]["ids"])[-1:], HISTORY

    def one_choice():
        return choose_tokens(row, [prompt], [output], [EVERYTHING])

    return one_choice


@pytest.mark.kata("level03.checkpoint")
def test_a_choice_moves_a_small_part_of_the_bytes_that_the_weights_have(expect, model, choice):
    """11 MB beside 538 MB. Who copies the row for each token of the history moves 130 MB, and more with each token."""
    most = MOST_BYTES * 4 * count_params(model[0])["total"]
    counted = expect.cost(choice, of=("bytes",))
    counted.holds(lambda cost: cost["bytes"] <= most, f"at most {most:,.0f} bytes, {MOST_BYTES} of the weights'")


@pytest.mark.kata("level03.checkpoint")
def test_a_choice_does_not_visit_the_vocabulary_one_by_one(expect, choice):
    """An operator of torch takes a microsecond before it computes anything: 49,152 take longer than a decode step."""
    counted = expect.cost(choice, of=("calls",))
    counted.holds(lambda cost: sum(cost["calls"].values()) <= MOST_CALLS, f"at most {MOST_CALLS:,} operators started")


@pytest.mark.kata("level03.checkpoint")
def test_a_choice_takes_a_small_part_of_a_decode_step(model, logits, choice, roofline):
    """The reference is the weights of a decode step, read once. A choice with everything on takes an eighth of that."""
    from dojo.roofline import CLOCK, Sweep

    row, sweep = logits(CUTS["capital"]["ids"])[-1:], Sweep(matrices(model[1]), 1)

    def milliseconds(call) -> float:
        seconds = []
        for _ in range(5):
            start = CLOCK()
            call()
            seconds.append(CLOCK() - start)
        return 1e3 * min(seconds)

    cost, whole, alone = count(choice), milliseconds(choice), milliseconds(lambda: row.argmax(-1))
    sort, best = milliseconds(lambda: row.sort(descending=True)), milliseconds(lambda: row.topk(64))
    notes = [
        f"bytes per choice: {cost.bytes / 1e6:.1f} MB counted, {100 * cost.bytes / sweep.bytes:.1f}% of the weights'",
        f"the sweep takes {milliseconds(sweep) / whole:.1f} times as long as this chain; greedy alone {alone:.3f} ms",
        f"a sort of the row {sort:.2f} ms, its 64 best {best:.3f} ms: top-p needs no more where their mass exceeds p",
    ]
    flops = 10 * row.numel()  # some ten operations for each logit: the bytes bind, whatever the number
    roofline(choice, sweep, need=NEED, flops=flops, bytes=cost.bytes, name="one choice", notes=notes)
