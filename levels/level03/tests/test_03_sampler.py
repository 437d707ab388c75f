"""Judges sampler.py by plain Python: the chain as loops over one row, the draw as a walk along the running sum.

The random number of a step is computed here anew, from numpy's Philox. The oracles refuse a close call, so that float32
and float64 come to the same tokens. transformers' chains are stored (transformers_warpers.json).
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dojo.models import TINY
from level01.generate import generate
from level03.sampler import SamplingParams, choose_tokens, chooser, process

INF = math.inf
WARPERS = json.loads(Path(__file__).with_name("transformers_warpers.json").read_text(encoding="utf-8"))
GREEDY = SamplingParams(temperature=0.0, seed=3)


def logits_of(*shape, seed=0, scale=2.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale + 1


def of(*probs):
    """Float32 logits (1, V) with these probabilities, up to a constant."""
    return (torch.tensor([probs], dtype=torch.float64).log() + 2.5).float()


# ---- the oracle


def keep(row, ids):
    return [z if i in ids else -INF for i, z in enumerate(row)]


def probabilities(row):
    largest = max(row)
    weights = [math.exp(z - largest) for z in row]
    total = math.fsum(weights)
    return [w / total for w in weights]


def chain(row, p, prompt, output):
    """One row of logits, a list, after all steps; a token that lies within 1e-6 of a border is refused."""
    row = list(row)
    for token in {*prompt, *output}:
        z = row[token]
        row[token] = z / p.repetition_penalty if z > 0 else z * p.repetition_penalty
    for token in set(output):
        row[token] -= p.presence_penalty + p.frequency_penalty * list(output).count(token)
    ranked = sorted(range(len(row)), key=lambda i: (-row[i], i))
    if p.temperature == 0:
        return [0.0 if i == ranked[0] else -INF for i in range(len(row))]
    row = [z / p.temperature for z in row]
    if p.top_k:
        row = keep(row, ranked[: p.top_k])
    if p.top_p < 1:
        probs, ids = probabilities(row), []
        while math.fsum(probs[i] for i in ids) < p.top_p:
            assert not ids or p.top_p - math.fsum(probs[i] for i in ids) > 1e-6, "too close to call"
            ids.append(ranked[len(ids)])
        row = keep(row, ids)
    largest = max(row)
    ratios = [math.exp(z - largest) for z in row]
    assert not p.min_p or min(abs(r - p.min_p) for r in ratios) > 1e-6, "too close to call"
    return keep(row, [i for i, r in enumerate(ratios) if r >= p.min_p])


def processed(logits, p, prompts, outputs):
    rows = [chain(row, p, a, b) for row, a, b in zip(logits.tolist(), prompts, outputs)]
    return torch.tensor(rows, dtype=logits.dtype)


def random_number(seed, step):
    """What the given `uniform` promises: computed from the seed and the step, and from nothing else."""
    return np.random.Generator(np.random.Philox(key=seed % 2**64, counter=step)).random()


def drawn(row, p, prompt, output):
    """The token in whose part of [0, 1) the request's random number falls."""
    u, upper = random_number(p.seed, len(output)), 0.0
    for token, prob in enumerate(probabilities(chain(row, p, prompt, output))):
        upper += prob
        assert prob == 0 or upper > 1 - 1e-9 or abs(upper - u) > 1e-6, "too close to call"
        if prob > 0 and u < upper:
            return token
    raise AssertionError("u lies behind the last token")


def chosen(logits, prompts, outputs, params):
    return torch.tensor([drawn(*request) for request in zip(logits.tolist(), params, prompts, outputs)])


# ---- process


def none(n=1):
    """The histories of n requests that have none."""
    return [[]] * n, [[]] * n


PROMPTS, OUTPUTS = [[3, 3, 9], [], [10, 0]], [[0, 0, 4, 6], [7, 7, 7, 10], []]


@pytest.mark.kata("level03.sampler.process")
def test_the_docstring_s_example(expect):
    """.4 and .3 are .571 and .429 after top-k, so p = 0.5 is reached by the first. Of all four it would take two."""
    logits = of(0.4, 0.3, 0.2, 0.1)
    right = torch.tensor([[logits[0, 0], -INF, -INF, -INF]])
    expect(process, logits, SamplingParams(top_k=2, top_p=0.5), *none()).equals(right)


@pytest.mark.kata("level03.sampler.process")
def test_the_defaults_change_nothing(expect):
    """A request that asks for nothing gets the model's own distribution; seed, stop and max_tokens are others' work."""
    logits = logits_of(3, 11)
    expect(process, logits, SamplingParams(), PROMPTS, OUTPUTS).equals(logits, rel=0, abs=0)
    expect(process, logits, SamplingParams(seed=3, max_tokens=1, stop=("a",)), PROMPTS, OUTPUTS).equals(logits)
    fine = torch.tensor([[1e8, 1e8 + 1]], dtype=torch.float64)  # no tie, and in float32 the same number
    expect(process, fine, SamplingParams(), [[0]], [[1]]).equals(fine, rel=0, abs=0)


@pytest.mark.kata("level03.sampler.process")
@pytest.mark.parametrize(
    "name, value",
    [
        ("temperature", 0.7),
        ("temperature", 0),
        ("top_k", 1),
        ("top_k", 4),
        ("top_p", 0.8),
        ("min_p", 0.1),
        ("repetition_penalty", 1.6),
        ("presence_penalty", 0.9),
        ("frequency_penalty", 0.7),
    ],
)
def test_each_setting_does_its_own_work(expect, name, value):
    """One at a time, on three rows with different histories. Oracle: the chain as loops in Python."""
    logits, params = logits_of(3, 11, seed=1), replace(SamplingParams(), **{name: value})
    expect(process, logits, params, PROMPTS, OUTPUTS).equals(processed(logits, params, PROMPTS, OUTPUTS))


ALL_ON = SamplingParams(0.8, 7, 0.9, 0.05, 1.3, 0.4, 0.2)


@pytest.mark.kata("level03.sampler.process")
@pytest.mark.parametrize(
    "params",
    [
        ALL_ON,
        SamplingParams(1.5, 9, 0.8, 0.1, 1.2, 0.5, 0.3),
        SamplingParams(1.2, 0, 0.99, 0.01, 0.7, -0.5, 0.4),
        SamplingParams(2.0, 5, 0.7, 0.3, 2.0, 0.0, 1.0),
        SamplingParams(0.0, 3, 0.9, 0.1, 1.5, 1.0, 1.0),
    ],
    ids=["mild", "hot", "rewards", "narrow", "greedy"],
)
@pytest.mark.parametrize("seed", range(4))
def test_all_settings_together(expect, params, seed):
    """Three requests of one batch, each with its own history. Oracle: the chain as loops in Python."""
    logits = logits_of(3, 11, seed=10 + seed)
    expect(process, logits, params, PROMPTS, OUTPUTS).equals(processed(logits, params, PROMPTS, OUTPUTS))


def kept(logits, params, prompts, outputs):
    """The ids of each row that are left."""
    return [[i for i, z in enumerate(row) if z > -INF] for row in process(logits, params, prompts, outputs).tolist()]


@pytest.mark.kata("level03.sampler.process")
def test_temperature_comes_before_the_nucleus(expect):
    """[2, 1, 0, -1], p = 0.8: at T = 2 .455, .276, .167, so three. llama.cpp's chain tempers last and keeps two."""
    params = SamplingParams(temperature=2.0, top_p=0.8)
    expect(kept, torch.tensor([[2.0, 1, 0, -1]]), params, *none()).equals([[0, 1, 2]])


@pytest.mark.kata("level03.sampler.process")
def test_temperature_comes_before_min_p(expect):
    """.6, .3, .1 with m = 0.4: at T = 2 the smallest ratio is .408, so all three; at T = 1 two. The same settings give
    another variety in another engine."""
    expect(kept, of(0.6, 0.3, 0.1), SamplingParams(temperature=2.0, min_p=0.4), *none()).equals([[0, 1, 2]])
    expect(kept, of(0.6, 0.3, 0.1), SamplingParams(min_p=0.4), *none()).equals([[0, 1]])


@pytest.mark.kata("level03.sampler.process")
def test_penalties_act_on_the_raw_logits(expect):
    """[2, 1.5], r = 2, the first seen: it falls to 1, and greedy takes the second. And at T = 2 a presence penalty of 1
    is a step of 0.5: (2 - 1) / 2, not 2 / 2 - 1."""
    logits = torch.tensor([[2.0, 1.5, 0, -1]])
    expect(kept, logits, SamplingParams(temperature=0.0, repetition_penalty=2.0), [[0]], [[]]).equals([[1]])
    expect(kept, logits, SamplingParams(temperature=0.0, presence_penalty=1.0), [[]], [[0]]).equals([[1]])
    right = torch.tensor([[0.5, 0.75, 0, -0.5]])
    expect(process, logits, SamplingParams(temperature=2.0, presence_penalty=1.0), [[]], [[0]]).equals(right)


@pytest.mark.kata("level03.sampler.process")
def test_penalties_come_before_top_k(expect):
    """[3, 2.5, 2, 1], k = 2, the first made twice at 1 each: 1, 2.5, 2, so ids 1 and 2 are the best two."""
    logits = torch.tensor([[3.0, 2.5, 2, 1]])
    expect(kept, logits, SamplingParams(top_k=2, frequency_penalty=1.0), [[]], [[0, 0]]).equals([[1, 2]])
    expect(kept, logits, SamplingParams(top_p=0.6, frequency_penalty=1.0), [[]], [[0, 0]]).equals([[1, 2]])
    expect(kept, logits, SamplingParams(min_p=0.5, frequency_penalty=1.0), [[]], [[0, 0]]).equals([[1, 2]])


@pytest.mark.kata("level03.sampler.process")
def test_top_p_comes_before_min_p(expect):
    """.5, .3, .15, .05 with p = 0.6 and m = 0.5: two, both above half of .5. After min-p they would be .625 and .375,
    and p would keep one."""
    expect(kept, of(0.5, 0.3, 0.15, 0.05), SamplingParams(top_p=0.6, min_p=0.5), *none()).equals([[0, 1]])


@pytest.mark.kata("level03.sampler.process")
def test_top_p_adds_up_what_top_k_has_left(expect):
    """Five of .2, k = 2, p = 0.8: two of .5, and both are needed. Sums that are not renormalized end at 0.4: a sampler
    that waits for 0.8 has masked everything."""
    logits = torch.zeros(1, 5)
    expect(process, logits, SamplingParams(top_k=2, top_p=0.8), *none()).equals(
        torch.tensor([[0.0, 0, -INF, -INF, -INF]])
    )
    expect(kept, of(0.3, 0.3, 0.2, 0.1, 0.1), SamplingParams(top_k=3, top_p=0.7), *none()).equals([[0, 1]])


@pytest.mark.kata("level03.sampler.process")
@pytest.mark.parametrize("params", [GREEDY, replace(ALL_ON, temperature=0.0)], ids=["alone", "with all others"])
def test_at_temperature_0_one_token_is_left(expect, params):
    """Whatever p, k and m say: after temperature 0 there is nothing to truncate. Its logit is 0, the ln of 1."""
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    right = torch.tensor([[-INF, 0.0, -INF, -INF], [0.0, -INF, -INF, -INF]])
    expect(process, logits, params, *none(2)).equals(right)


@pytest.mark.kata("level03.sampler.process")
@pytest.mark.parametrize("top_k, n", [(0, 4), (1, 1), (3, 3), (4, 4), (100, 4)])
def test_top_k_0_means_all(expect, top_k, n):
    """0 is "off" in the APIs. One that is larger than the vocabulary keeps all of it, too."""
    logits = torch.tensor([[4.0, 3, 2, 1]])
    right = torch.tensor([[4.0, 3, 2, 1][:n] + [-INF] * (4 - n)])
    expect(process, logits, SamplingParams(top_k=top_k), *none()).equals(right)


@pytest.mark.kata("level03.sampler.process")
def test_prompt_and_output_are_not_the_same(expect):
    """Presence looks at the output alone; the repetition penalty at both. Rows of one batch have their own."""
    logits, params = torch.tensor([[4.0, 4, 4, 4]] * 2), SamplingParams(repetition_penalty=2.0, presence_penalty=0.5)
    right = torch.tensor([[2.0, 1.5, 4, 4], [1.5, 4, 4, 2]])
    expect(process, logits, params, [[0], [3]], [[1], [0]]).equals(right)


@pytest.mark.kata("level03.sampler.process")
def test_what_a_mask_has_excluded_stays_excluded(expect):
    """A grammar (constrained.py) masks the raw logits: no setting brings a token back, and p counts the others."""
    logits = of(0.4, 0.3, 0.2, 0.1).masked_fill(torch.tensor([[False, True, False, False]]), -INF)
    for params, ids in [(SamplingParams(), [0, 2, 3]), (SamplingParams(top_p=0.6), [0, 2]), (GREEDY, [0])]:
        expect(kept, logits, params, *none()).equals([ids])
    rewarded = SamplingParams(top_k=4, min_p=0.01, repetition_penalty=0.5, presence_penalty=-2.0)
    expect(kept, logits, rewarded, [[1]], [[1]]).equals([[0, 2, 3]])


@pytest.mark.kata("level03.sampler.process")
@pytest.mark.parametrize("params", [ALL_ON, GREEDY, SamplingParams()], ids=["all", "greedy", "defaults"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_chain_keeps_the_dtype(expect, dtype, params):
    """Logits of a bfloat16 model stay bfloat16. Tolerance: a few roundings to its 8 bits."""
    logits = torch.tensor([[4.0, 1.5, 3.0, -2.0, 0.0]], dtype=dtype)
    expect(process, logits, params, [[0]], [[2, 2]]).equals(processed(logits, params, [[0]], [[2, 2]]), rel=2e-2)


@pytest.mark.kata("level03.sampler.process")
def test_the_raw_logits_give_the_model_s_own_log_probability_afterwards(expect):
    """[2, 0] at T = 2: the sampler's ln p of token 0 is -0.313262, the model's -0.126928. A trainer that mixes them up
    gets its ratios wrong; a chain that works in place mixes them up for it."""

    def both(logits, params):
        raw = logits.clone()
        changed = process(raw, params, [[]], [[]])
        return [float(x.log_softmax(-1)[0, 0]) for x in (raw, changed)]

    expect(both, torch.tensor([[2.0, 0.0]]), SamplingParams(temperature=2.0)).equals([-0.126928, -0.313262])


@pytest.mark.kata("level03.sampler.process")
def test_chains_end_as_those_of_transformers(expect):
    """Oracle: RepetitionPenalty, Temperature, TopK, TopP and MinP of transformers, one after the other."""
    logits = torch.tensor(WARPERS["logits"])
    for stored in WARPERS["chains"]:
        r, temperature, k, p, m = stored["settings"]
        right = torch.full_like(logits, -INF)
        for row, ids, values in zip(right, stored["kept"], stored["values"]):
            row[ids] = torch.tensor(values)
        params = SamplingParams(temperature, k, p, m, repetition_penalty=r)
        expect(process, logits, params, WARPERS["prompts"], WARPERS["outputs"]).equals(right, abs=1e-5)


# ---- choose_tokens


def seeded(*seeds, **settings):
    return [SamplingParams(seed=seed, **settings) for seed in seeds]


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("seed", [1, 7, 1234567])
def test_temperature_0_needs_no_luck(expect, seed):
    """The docstring's example. Of a tie the smallest id: the same answer to the same request, on every server."""
    params = seeded(seed, temperature=0.0)
    expect(choose_tokens, torch.tensor([[1.0, 3, 2]]), [[]], [[]], params).equals(torch.tensor([1]))
    expect(choose_tokens, torch.tensor([[1.0, 3, 3]]), [[2, 2]], [[0]], params).equals(torch.tensor([1]))


def always(logits, params, right):
    """Does each request, without a history, get one of the tokens in `right`? Three times over.

    Programs that draw at random give no two outcomes alike; this one makes it the same outcome.
    """
    tries = [choose_tokens(logits, *none(len(params)), params).tolist() for _ in range(3)]
    return all(token in right for tokens in tries for token in tokens)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_temperature_0_needs_no_seed(expect):
    """Most greedy requests have none. 30 of them, three times: always token 1."""
    expect(always, torch.tensor([[1.0, 3, 2.5]]).repeat(30, 1), seeded(*[None] * 30, temperature=0.0), [1]).equals(True)


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.7}, {"temperature": 0.6, "top_p": 0.9}], ids=str)
@pytest.mark.parametrize("made", [0, 5])
def test_the_token_is_where_the_random_number_falls(expect, made, settings):
    """40 requests with seeds of their own and one distribution: the very tokens that a walk along the running sum
    finds. Another sampler with the right frequencies gives another text to a seed."""
    logits = logits_of(1, 9, seed=20, scale=1.0).repeat(40, 1)
    histories, params = ([[4, 2]] * 40, [[1] * made] * 40), seeded(*range(1, 41), **settings)
    expect(choose_tokens, logits, *histories, params).equals(chosen(logits, *histories, params))


REQUESTS = [
    (logits_of(9, seed=21), [4, 2], [1], SamplingParams(seed=5, temperature=1.3)),
    (logits_of(9, seed=22), [], [3, 3, 8], SamplingParams(seed=5, top_k=3, frequency_penalty=0.5)),
    (logits_of(9, seed=23), [7], [], SamplingParams(seed=11, top_p=0.9, min_p=0.05, repetition_penalty=1.4)),
    (logits_of(9, seed=24), [0, 1, 2], [5] * 6, GREEDY),
]


def batch(*requests):
    logits, prompts, outputs, params = zip(*requests)
    return torch.stack(logits), list(prompts), list(outputs), list(params)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_a_request_gets_the_same_token_alone_and_in_any_batch(expect):
    """Alone, and in every place of a batch: with one generator for all, a seed gives another text under load."""
    turned = [REQUESTS[i:] + REQUESTS[:i] for i in range(4)]
    for order in [*([request] for request in REQUESTS), *turned, REQUESTS[::-1], REQUESTS * 2]:
        expect(choose_tokens, *batch(*order)).equals(chosen(*batch(*order)))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_equal_requests_with_equal_seeds_get_equal_tokens(expect):
    """Two users send the same request with seed 7; others stand between them, with and without seeds."""
    flat, params = torch.zeros(7, 50), seeded(7, 8, 7, 9, 8, 7, 10)
    right = chosen(flat, *none(7), params)
    expect(choose_tokens, flat, *none(7), params).equals(right)

    def of_seed_7(logits, params):
        return choose_tokens(logits, *none(5), params)[::2]

    params = seeded(7, None, 7, None, 7)
    expect(of_seed_7, torch.zeros(5, 50), params).equals(right[[0, 2, 5]])


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_each_request_has_its_own_settings(expect):
    """One batch: greedy, k = 1, a narrow nucleus, a flat temperature. The settings of the first are not for all."""
    logits = logits_of(1, 30, seed=25, scale=1.0).repeat(8, 1)
    params = [
        *seeded(*range(2), temperature=0.0),
        *seeded(2, 3, temperature=20.0),
        *seeded(4, 5, top_k=2),
        *seeded(6, 7, top_p=0.3, temperature=3.0),
    ]
    for some in (params, params[::-1]):
        expect(choose_tokens, logits, *none(8), some).equals(chosen(logits, *none(8), some))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_each_request_has_its_own_history(expect):
    """Greedy, presence 1: the best token of row 0 has been made, that of row 1 stands in its prompt alone."""
    logits, params = torch.tensor([[2.0, 1.5, 0]] * 3), [replace(GREEDY, presence_penalty=1.0)] * 3
    expect(choose_tokens, logits, [[1], [0], []], [[0], [], [1]], params).equals(torch.tensor([1, 0, 0]))
    params = [replace(GREEDY, repetition_penalty=2.0)] * 3
    expect(choose_tokens, logits, [[2], [0], []], [[], [], [0]], params).equals(torch.tensor([0, 1, 1]))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_the_step_is_the_number_of_new_tokens(expect):
    """The prompt's length does not count: with a longer system prompt a seed's luck stays the same. And each step has
    its own number, or a text would repeat itself."""
    flat = torch.zeros(12, 100)
    prompts, outputs = [[1] * (i % 3) for i in range(12)], [[2] * (i // 3) for i in range(12)]
    params = seeded(*[42] * 12)
    right = chosen(flat, prompts, outputs, params)
    assert len(set(right.tolist())) == 4, "four steps, four tokens"
    expect(choose_tokens, flat, prompts, outputs, params).equals(right)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_a_request_that_was_interrupted_goes_on_as_if_nothing_had_happened(expect):
    """An engine that runs out of memory drops a request and takes it up later: the rest of the text is the same."""

    def continued(logits, prompt, output, n, params):
        output = list(output)
        while len(output) < n:
            output += choose_tokens(logits[len(output)].unsqueeze(0), [prompt], [output], [params]).tolist()
        return output

    logits, (params,), text = logits_of(8, 40, seed=26, scale=1.0), seeded(3, presence_penalty=0.7), []
    for step in range(8):
        text.append(drawn(logits[step].tolist(), params, [1, 2], text))
    for made in (0, 1, 5):
        expect(continued, logits, [1, 2], text[:made], 8, params).equals(text)


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("seed", [0, -1, 2**63, 2**64 + 5])
def test_any_integer_is_a_seed(expect, seed):
    """0 is a seed like any other, and not "none"; clients send negative and very large ones as well."""

    def as_promised(logits, outputs, params, right):
        return choose_tokens(logits, [[]] * 3, outputs, params).tolist() == right

    flat, outputs, params = torch.zeros(3, 1000), [[], [1], [1, 1]], seeded(seed, seed, seed)
    right = chosen(flat, [[]] * 3, outputs, params).tolist()
    expect(as_promised, flat, outputs, params, right).equals(True)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_without_a_seed_it_is_another_text_each_time(expect):
    """40 draws among 1000 tokens give some 39 different ones; fewer than 20 have a probability below 1e-20."""

    def varied(logits, params):
        rows = choose_tokens(logits, *none(40), params)
        alone = [int(choose_tokens(logits[:1], *none(1), params[:1])) for _ in range(40)]
        return [len(set(tokens)) >= 20 for tokens in (rows.tolist(), alone)]

    expect(varied, torch.zeros(40, 1000), seeded(*[None] * 40)).equals([True, True])


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_without_a_seed_the_settings_hold_all_the_same(expect):
    """Random, but among the two best only, and never what a mask has excluded."""
    logits = torch.tensor([[4.9, 5.0, -INF, 5.0, 4.8]]).repeat(30, 1)
    expect(always, logits, seeded(*[None] * 30, top_k=2), [1, 3]).equals(True)
    expect(always, logits, seeded(*[None] * 30, temperature=50.0), [0, 1, 3, 4]).equals(True)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_k_1_is_greedy_for_every_seed(expect):
    """[5, 5, 1], k = 1: always 0, also on a tie and without a seed. Several servers drew between the two."""
    logits = torch.tensor([[5.0, 5, 1]]).repeat(20, 1)
    for params in (seeded(*range(1, 21), top_k=1), seeded(*range(1, 21), top_p=0.3)):
        expect(choose_tokens, logits, *none(20), params).equals(torch.zeros(20, dtype=torch.int64))
    expect(always, logits, seeded(*[None] * 20, top_k=1), [0]).equals(True)


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_the_random_number_is_not_rounded(expect):
    """Seed 280361 has the number 0.9999999915 for its 174th token. Rounded to float32 it is 1, and no token is left:
    that happens once in 34 million tokens, which is every six minutes at 100,000 tokens a second."""
    u = random_number(280361, 173)
    assert u < 1 and np.float32(u) == 1
    logits = torch.zeros(2, 4)
    logits[1, 3] = -INF
    params, outputs = seeded(280361, 280361), [[1] * 173] * 2
    expect(choose_tokens, logits, [[], []], outputs, params).equals(torch.tensor([3, 2]))
    rare = torch.tensor([[0.0, math.log(2e-8)]], dtype=torch.float64)  # the second token's part begins at 0.99999998
    expect(choose_tokens, rare, [[]], [[1] * 173], params[:1]).equals(torch.tensor([1]))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_one_int64_for_each_row(expect):
    """Loops index with it: (B,), also for B = 1 and a vocabulary of one token. Params and histories may be tuples."""
    expect(choose_tokens, torch.zeros(1, 1), [[0]], [[0, 0]], seeded(1)).equals(torch.tensor([0]))
    expect(choose_tokens, torch.zeros(3, 1), *none(3), seeded(1, 2, 3)).equals(torch.tensor([0, 0, 0]))
    logits, prompts, outputs, params = batch(*REQUESTS)
    histories = tuple(map(tuple, prompts)), tuple(map(tuple, outputs))
    expect(choose_tokens, logits, *histories, tuple(params)).equals(chosen(logits, prompts, outputs, params))


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_logits_of_any_float_dtype(expect, dtype):
    """128 equal tokens: each has exactly 1/128, in every dtype, and the running sums are exact. Not contiguous, too."""
    logits, params = torch.zeros(128, 16, dtype=dtype).T, seeded(*range(1, 17))
    expect(choose_tokens, logits, *none(16), params).equals(chosen(logits, *none(16), params))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_probabilities_of_bfloat16_logits_are_not_bfloat16(expect):
    """They would have three digits, and 5 of these 256 requests another token."""
    torch.manual_seed(6)
    logits, params = torch.randn(256, 64).mul(2).bfloat16(), seeded(*range(1, 257))
    expect(choose_tokens, logits, *none(256), params).equals(chosen(logits, *none(256), params))


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("rows, given", [(2, 1), (1, 2), (3, 0)])
def test_each_row_needs_its_params(expect, rows, given):
    """Otherwise the rows without would silently get no token, or those of another request."""
    logits = torch.tensor([[1.0, 3, 2]] * rows)
    expect(choose_tokens, logits, *none(rows), [GREEDY] * rows).equals(torch.tensor([1] * rows))
    expect(choose_tokens, logits, *none(rows), [GREEDY] * given).raises(ValueError)


# ---- in the loops of other levels

NEXT = logits_of(TINY.vocab_size, TINY.vocab_size, seed=30, scale=1.5)  # the logits after each token
SETTINGS = {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "repetition_penalty": 1.3, "frequency_penalty": 0.2}


def bigrams(params, config, token_ids, cache=None):
    """Stands in for `forward`: a model that looks at the last token alone, so that it costs nothing."""
    return NEXT[token_ids]


def written(prompt, n, params):
    """Oracle: n tokens, each drawn by the walk along the running sum."""
    output = []
    for _ in range(n):
        output.append(drawn(NEXT[[*prompt, *output][-1]].tolist(), params, prompt, output))
    return output


@pytest.mark.kata("level03.sampler.choose_tokens")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_loop_of_level_01_draws_with_it(expect, seed):
    """The same seed gives the same text, token by token. Oracle: a loop of its own, written here."""

    def sampled(prompt, n, params):
        return generate(None, TINY, prompt, n, choose=chooser(params), forward=bigrams)

    params = SamplingParams(seed=seed, **SETTINGS)
    expect(sampled, [52, 71, 80], 20, params).equals(written([52, 71, 80], 20, params))


@pytest.mark.kata("level03.sampler.choose_tokens")
def test_a_batch_writes_what_each_request_writes_alone(expect):
    """Prompts of three lengths and settings of their own, one step for all at a time, and a fourth joins later."""

    def together(prompts, params, n):
        outputs = [[] for _ in prompts]
        for step in range(n + 2):
            rows = [i for i in range(len(prompts)) if len(outputs[i]) < n and (i < 3 or step >= 2)]
            logits = torch.stack([NEXT[[*prompts[i], *outputs[i]][-1]] for i in rows])
            choose = chooser(*[params[i] for i in rows])
            tokens = choose(logits, [prompts[i] for i in rows], [outputs[i] for i in rows]).tolist()
            for i, token in zip(rows, tokens):
                outputs[i].append(token)
        return outputs

    prompts = [[52, 71, 80], [5], [9, 9, 30, 7, 41], [52, 71, 80]]
    params = [SamplingParams(seed=1, **SETTINGS), GREEDY, *seeded(2, 1, **SETTINGS)]
    right = [written(prompt, 6, own) for prompt, own in zip(prompts, params)]
    expect(together, prompts, params, 6).equals(right)
