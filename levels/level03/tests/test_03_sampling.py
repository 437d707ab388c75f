"""Judges sampling.py by plain Python, one row and one token after the other, and by transformers' logits warpers.

The warpers' values are stored (transformers_warpers.json, made by tools/oracles/level03_sampling.py). Where a token
lies at a border, that border is exact (equal logits, say); everywhere else the oracles refuse a close call.
"""

import json
import math
from itertools import accumulate, combinations, product
from pathlib import Path

import pytest
import torch

from level03.sampling import apply_penalties, apply_temperature, min_p, top_k, top_p

INF = math.inf
EXACT = {"rel": 0, "abs": 0}  # what is kept is kept as it was
WARPERS = json.loads(Path(__file__).with_name("transformers_warpers.json").read_text(encoding="utf-8"))
SHAPES = pytest.mark.parametrize("shape", [(7,), (4, 7), (2, 3, 7), (1, 1), (3, 1), (2, 1, 2, 5)], ids=str)
DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
FINE = torch.tensor([[1e8, 1e8 + 2, 1e8 + 1], [5.0, 5 - 1e-9, 5 + 1e-9]], dtype=torch.float64)  # ties in float32


def laid_out(*shape, seed=0, scale=3.0):
    """Random logits, not contiguous, not normalized, no two alike."""
    x = torch.randn(*reversed(shape), generator=torch.Generator().manual_seed(seed)) * scale + 1
    return x.permute(*reversed(range(len(shape))))


def of(*probs):
    """Float64 logits with these probabilities, up to a constant: logits have no fixed zero."""
    return torch.tensor(probs, dtype=torch.float64).log() + 2.5


def by_rank(row):
    """Ids from the most to the least likely; of equal ones the smaller first."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def only(logits, keep):
    """The frame of the oracles: `keep` is given each row as a list and says which ids stay."""
    rows = logits.reshape(-1, logits.shape[-1])
    right = torch.full_like(rows, -INF)
    for row, out in zip(rows, right):
        ids = keep(row.tolist())
        out[ids] = row[ids]
    return right.view(logits.shape)


def stored(kept):
    """transformers' logits with all but the stored ids of each row at -inf."""
    rows = iter(kept)
    return only(torch.tensor(WARPERS["logits"]), lambda row: next(rows))


# ---- apply_temperature


def greedy(logits):
    """Oracle of temperature 0: 0 at the best id of each row, -inf elsewhere."""
    best = only(logits, lambda row: by_rank(row)[:1])
    return best.masked_fill(best > -INF, 0.0)


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_a_low_temperature_sharpens_and_a_high_one_flattens(expect):
    """[2, 1, 0, -1] at 0.5: [4, 2, 0, -2], 0.8650 for the first; at 2: [1, 0.5, 0, -0.5], 0.4551 for the first."""
    logits = torch.tensor([2.0, 1, 0, -1])
    expect(apply_temperature, logits, 0.5).equals(torch.tensor([4.0, 2, 0, -2]))
    expect(apply_temperature, logits, 2.0).equals(torch.tensor([1.0, 0.5, 0, -0.5]))


@pytest.mark.kata("level03.sampling.apply_temperature")
@SHAPES
def test_every_logit_is_divided(expect, shape):
    """One number after the other, in Python. APIs allow up to 2; the function sets no limit."""
    logits = laid_out(*shape)
    for temperature in (1.0, 0.3, 1.5, 3.0, 50.0):
        right = torch.tensor([z / temperature for z in logits.flatten().tolist()]).view(shape)
        expect(apply_temperature, logits, temperature).equals(right)


@pytest.mark.kata("level03.sampling.apply_temperature")
@pytest.mark.parametrize("temperature", [1e-3, 1e-6, 1e-8, 1e-20])
def test_a_small_temperature_is_not_0(expect, temperature):
    """A tie stays a tie: only 0 itself decides it. Some servers take all below 1e-5 as greedy; here it is divided."""
    right = torch.tensor([2 / temperature, 2 / temperature, 0.0, -1 / temperature])
    expect(apply_temperature, torch.tensor([2.0, 2, 0, -1]), temperature).equals(right)


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_temperature_0_is_greedy(expect):
    """The docstring's example, and [1, 2]: a division gives inf and NaN there, in several published samplers."""
    expect(apply_temperature, torch.tensor([2.0, 1, 0]), 0.0).equals(torch.tensor([0.0, -INF, -INF]))
    expect(apply_temperature, torch.tensor([1.0, 2]), 0.0).equals(torch.tensor([-INF, 0.0]))


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_at_temperature_0_the_smallest_id_of_a_tie_stays(expect):
    """A second token at 0 would be drawn half of the time, and greedy decoding would be random. All 81 rows of 4."""
    logits = torch.tensor(list(product([-1.0, 0.0, 2.0], repeat=4)))
    expect(apply_temperature, logits, 0.0).equals(greedy(logits))


@pytest.mark.kata("level03.sampling.apply_temperature")
@SHAPES
def test_at_temperature_0_each_row_keeps_its_own_best(expect, shape):
    """A batch of requests has a best token each. Oracle: a sort of each row, in Python."""
    logits = laid_out(*shape, seed=1) - 8
    expect(apply_temperature, logits, 0.0).equals(greedy(logits))


@pytest.mark.kata("level03.sampling.apply_temperature")
@pytest.mark.parametrize("temperature", [0, 1, 2])
def test_a_temperature_may_be_an_int(expect, temperature):
    """JSON has one kind of number: a client sends 0 or 2. [3, 2] at 2 is [1.5, 1]."""
    right = torch.tensor([-INF, 0.0]) if temperature == 0 else torch.tensor([2.0, 3.0]) / float(temperature)
    expect(apply_temperature, torch.tensor([2.0, 3.0]), temperature).equals(right)


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_what_was_excluded_stays_excluded_at_any_temperature(expect):
    """A grammar's mask comes first: not even temperature 0 or a high one brings a token back."""
    logits = torch.tensor([[-INF, -3.0, -INF, -2.0], [-INF, -INF, -7.0, -INF], [5.0, -INF, 5.0, 5.0]])
    expect(apply_temperature, logits, 0.5).equals(
        torch.tensor([[-INF, -6.0, -INF, -4.0], [-INF, -INF, -14.0, -INF], [10.0, -INF, 10.0, 10.0]])
    )
    expect(apply_temperature, logits, 0.0).equals(
        torch.tensor([[-INF, -INF, -INF, 0.0], [-INF, -INF, 0.0, -INF], [0.0, -INF, -INF, -INF]])
    )


@pytest.mark.kata("level03.sampling.apply_temperature")
@pytest.mark.parametrize("temperature", [0.7, 1.0, 0.0])
@DTYPES
def test_temperature_keeps_the_dtype(expect, dtype, temperature):
    """Logits of a bfloat16 model stay bfloat16 (tolerance: its last bit). In float64 1e8 and 1e8 + 1 are no tie."""
    logits = FINE if dtype == torch.float64 else laid_out(2, 5, seed=2).to(dtype)
    right = greedy(logits)
    if temperature:
        right = torch.tensor([[z / temperature for z in row] for row in logits.tolist()], dtype=dtype)
    rel = 1e-10 if dtype == torch.float64 else 1e-2
    expect(apply_temperature, logits, temperature).equals(right, rel=rel, abs=0)


@pytest.mark.kata("level03.sampling.apply_temperature")
@pytest.mark.parametrize("temperature", [1, 1.0, 0.5, 0.0])
def test_temperature_leaves_the_raw_logits_alone(expect, temperature):
    """They are reported as log-probabilities later. The result is a tensor of its own even at temperature 1."""

    def raw_after_overwriting_the_result(logits, temperature):
        raw = logits.clone()
        apply_temperature(raw, temperature).fill_(7.0)
        return raw

    logits = torch.tensor([[2.0, 1, 0, -1]])
    expect(raw_after_overwriting_the_result, logits, temperature).equals(logits)


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_logits_are_tempered_as_transformers_does(expect):
    """Oracle: TemperatureLogitsWarper at 0.3, 0.7 and 1.6."""
    for temperature, right in WARPERS["temperature"]:
        expect(apply_temperature, torch.tensor(WARPERS["logits"]), temperature).equals(torch.tensor(right), abs=1e-5)


@pytest.mark.kata("level03.sampling.apply_temperature")
def test_a_temperature_below_0_is_refused(expect):
    """It would turn the distribution upside down."""
    expect(apply_temperature, torch.tensor([1.0, 2]), 4.0).equals(torch.tensor([0.25, 0.5]))
    expect(apply_temperature, torch.tensor([1.0, 2]), -1.0).raises(ValueError)
    expect(apply_temperature, torch.tensor([1.0, 2]), -1e-9).raises(ValueError)


# ---- top_k


def k_best(logits, k):
    """Oracle: the first k ids of each row, ranked in Python."""
    return only(logits, lambda row: by_rank(row)[:k])


@pytest.mark.kata("level03.sampling.top_k")
def test_k_tokens_are_kept_at_their_own_ids(expect):
    """[1, 3, 2, 0] and k = 2: ids 1 and 2, where they were. The others are -inf: a logit of 0 would still be drawn."""
    expect(top_k, torch.tensor([1.0, 3, 2, 0]), 2).equals(torch.tensor([-INF, 3, 2, -INF]), **EXACT)
    expect(top_k, torch.tensor([2.0, 1, 0, -1]), 2).equals(torch.tensor([2, 1, -INF, -INF]), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
def test_of_a_tie_the_smaller_ids_are_kept(expect):
    """The docstring's example, and [3, 2, 2, 1]: exactly k, or the same request has other candidates elsewhere."""
    expect(top_k, torch.tensor([1.0, 3, 3, 3]), 2).equals(torch.tensor([-INF, 3, 3, -INF]), **EXACT)
    expect(top_k, torch.tensor([3.0, 2, 2, 1]), 2).equals(torch.tensor([3, 2, -INF, -INF]), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_every_kind_of_tie_is_cut_at_k(expect, k):
    """All 81 rows of four logits out of three values. Oracle: a sort in Python."""
    logits = torch.tensor(list(product([-1.0, 0.0, 2.0], repeat=4)))
    expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("size, k", [(100, 40), (3000, 50), (3000, 1200), (50_000, 50)])
def test_ties_in_a_large_vocabulary_are_cut_at_k(expect, size, k):
    """bfloat16 has 256 numbers between 16 and 32, so real logits are full of ties, and fast sorts reorder them."""
    logits = torch.randint(0, 8, (2, size), generator=torch.Generator().manual_seed(4)).float()
    expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@SHAPES
def test_each_row_has_its_own_top_k(expect, shape):
    """Rows lie on different scales: a threshold of the whole batch would empty some. Oracle: a sort in Python."""
    logits = laid_out(*shape, seed=3)
    logits = logits * torch.linspace(1, 9, logits[..., 0].numel()).view(logits[..., :1].shape)
    for k in (1, 3, 5):
        expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("k", [2, 3, 5, 10**9])
def test_a_k_of_the_whole_vocabulary_or_more_keeps_everything(expect, k):
    """A request may ask for k = 1000 of a model with fewer tokens. Exactly as many and one less are no special case."""
    logits = torch.tensor([[0.5, -2.0, 1.0], [4.0, 4.0, 4.0]])
    expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_negative_logits_and_excluded_ones_are_ranked_too(expect, k):
    """Logits are often negative throughout. -inf stays -inf, also when k asks for more than there are finite ones."""
    logits = torch.tensor([[-5.0, -2.0, -9.0, -3.0], [-INF, -3.0, -INF, -2.0], [-INF, -INF, 0.0, -INF]])
    expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)
    far = torch.tensor([-900.0, -1100.0, -1050.0, 0.0])  # all but one have probability 0, even in float64
    expect(top_k, far, k).equals(k_best(far, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("k", [1, 2, 9])
@DTYPES
def test_top_k_keeps_the_dtype(expect, dtype, k):
    """And every kept value to its last bit: in float64 1e8 and 1e8 + 1 are no tie."""
    logits = FINE if dtype == torch.float64 else laid_out(2, 5, seed=5).to(dtype)
    expect(top_k, logits, k).equals(k_best(logits, k), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
@pytest.mark.parametrize("k", [2, 4, 9])
def test_top_k_leaves_the_raw_logits_alone(expect, k):
    """They are reported as log-probabilities later. The result is a tensor of its own even if all are kept."""

    def raw_after_overwriting_the_result(logits, k):
        raw = logits.clone()
        top_k(raw, k).fill_(7.0)
        return raw

    logits = torch.tensor([[2.0, 1, 0, -1]])
    expect(raw_after_overwriting_the_result, logits, k).equals(logits, **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
def test_the_k_of_transformers_are_kept(expect):
    """Oracle: TopKLogitsWarper at k = 1, 5, 17 and 40, on 24 tokens without ties."""
    for k, kept in WARPERS["top_k"]:
        expect(top_k, torch.tensor(WARPERS["logits"]), k).equals(stored(kept), **EXACT)


@pytest.mark.kata("level03.sampling.top_k")
def test_a_k_below_1_is_refused(expect):
    """Nothing would be left to draw. APIs use 0 and -1 for "off": that is decided before this function."""
    expect(top_k, torch.tensor([2.0, 1]), 1).equals(torch.tensor([2.0, -INF]), **EXACT)
    expect(top_k, torch.tensor([2.0, 1]), 0).raises(ValueError)
    expect(top_k, torch.tensor([2.0, 1]), -1).raises(ValueError)


# ---- top_p


def nucleus(row, p, margin=1e-6):
    """Oracle: the most likely tokens one after the other, until their sum is p. It refuses a close call."""
    largest = max(row)
    weights = [math.exp(z - largest) for z in row]
    ranked, total = by_rank(row), math.fsum(weights)
    sums = [0.0, *accumulate(weights[i] / total for i in ranked)]
    assert p == 1 or min(abs(mass - p) for mass in sums) > margin, "too close to call"
    return [i for i, before in zip(ranked, sums) if before < p or p == 1]


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize(
    "probs, p, n",
    [
        ((0.5, 0.3, 0.15, 0.05), 0.6, 2),
        ((0.5, 0.3, 0.15, 0.05), 0.9, 3),
        ((0.5, 0.35, 0.1, 0.05), 0.9, 3),
        ((0.4, 0.3, 0.2, 0.1), 0.8, 3),
        ((0.24, 0.22, 0.2, 0.18, 0.16), 0.5, 3),
    ],
    ids=str,
)
def test_the_token_that_crosses_p_is_kept(expect, probs, p, n):
    """Five published samplers drop it: .5, .3 and p = 0.6 then act like p = 0.5, and the answers lose variety."""
    expect(top_p, of(*probs), p).equals(only(of(*probs), lambda row: range(n)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize(
    "probs, p, n",
    [
        ((0.5, 0.3, 0.15, 0.05), 0.5, 1),
        ((0.5, 0.25, 0.125, 0.125), 0.75, 2),
        ((0.5, 0.25, 0.125, 0.125), 0.5, 1),
        ((0.25, 0.25, 0.25, 0.25), 0.5, 2),
        ((0.25, 0.25, 0.25, 0.25), 0.75, 3),
    ],
    ids=str,
)
def test_an_exact_hit_adds_no_further_token(expect, probs, p, n):
    """The sum is *at least* p, so p itself is enough: .5 + .25 reach 0.75, and a third token is one too many."""
    expect(top_p, of(*probs), p).equals(only(of(*probs), lambda row: range(n)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("n", range(1, 10))
def test_a_sum_that_rounding_left_below_p_has_reached_it(expect, n):
    """Ten tokens of 0.1 and p = n / 10: eight of them add up to 0.7999999999999999 in float64, which is 0.8 here."""
    logits = torch.full((10,), 3.0)
    expect(top_p, logits, n / 10).equals(only(logits, lambda row: range(n)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_a_sum_that_is_really_below_p_has_not(expect):
    """.5 + .3 is 0.8: within 1e-12 of 0.8 + 1e-13, but not of 0.8 + 1e-9. A slack of 1e-6 would cut tails off."""
    logits = of(0.5, 0.3, 0.15, 0.05)
    expect(top_p, logits, 0.8 + 1e-13).equals(only(logits, lambda row: [0, 1]), **EXACT)
    expect(top_p, logits, 0.8 + 1e-9).equals(only(logits, lambda row: [0, 1, 2]), **EXACT)
    expect(top_p, logits, 0.8 - 1e-9).equals(only(logits, lambda row: [0, 1]), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [0.3, 0.01, 1e-9, 1e-12, 1e-300])
def test_the_most_likely_token_is_always_kept(expect, p):
    """.9 alone exceeds p. A nucleus without a token leaves nothing to draw: NaN, or always the same text."""
    expect(top_p, of(0.9, 0.1), p).equals(only(of(0.9, 0.1), lambda row: [0]), **EXACT)
    expect(top_p, of(0.1, 0.2, 0.4, 0.3), p).equals(only(of(0.1, 0.2, 0.4, 0.3), lambda row: [2]), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [0.2, 0.35, 0.6, 0.83, 0.97])
def test_the_nucleus_is_the_smallest_set_that_reaches_p(expect, p):
    """Oracle: all 63 subsets of six tokens; of the smallest that reach p, the one with the largest sum."""

    def smallest(row):
        weights = [math.exp(z) for z in row]
        probs = [w / sum(weights) for w in weights]
        for size in range(1, 7):
            sums = {ids: math.fsum(probs[i] for i in ids) for ids in combinations(range(6), size)}
            if (best := max(sums, key=sums.get)) and sums[best] >= p:
                return best

    logits = laid_out(20, 6, seed=6, scale=1.5)
    expect(top_p, logits, p).equals(only(logits, lambda row: list(smallest(row))), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("order", [(2, 0, 3, 1), (3, 2, 1, 0), (1, 3, 0, 2)], ids=str)
def test_the_answer_stands_in_the_order_of_the_ids(expect, order):
    """Vocabularies are not sorted by probability: after the sort every decision goes back to its own token."""
    logits = of(0.5, 0.3, 0.15, 0.05)[list(order)]
    expect(top_p, logits, 0.6).equals(only(logits, lambda row: [order.index(0), order.index(1)]), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_of_equally_likely_tokens_the_smaller_ids_come_first(expect):
    """Four of 0.25 and p = 0.4: ids 0 and 1. Four of 0.242 behind a less likely one, p = 0.5: ids 1, 2 and 3."""
    expect(top_p, torch.zeros(4), 0.4).equals(torch.tensor([0.0, 0.0, -INF, -INF]), **EXACT)
    logits = torch.tensor([1.0, 3, 3, 3, 3])
    expect(top_p, logits, 0.5).equals(torch.tensor([-INF, 3, 3, 3, -INF]), **EXACT)
    logits = torch.randint(0, 3, (3, 600), generator=torch.Generator().manual_seed(7)).float()
    expect(top_p, logits, 0.37).equals(only(logits, lambda row: nucleus(row, 0.37)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@SHAPES
def test_each_row_has_its_own_nucleus(expect, shape):
    """A peaked row keeps one token where a flat one keeps all. Oracle: one token after the other, in Python."""
    logits = laid_out(*shape, seed=8)
    logits = logits * torch.linspace(0.1, 2, logits[..., 0].numel()).view(logits[..., :1].shape)
    for p in (0.05, 0.5, 0.8, 0.999):
        expect(top_p, logits, p).equals(only(logits, lambda row, p=p: nucleus(row, p)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("offset", [1000.0, -1000.0])
def test_the_nucleus_does_not_depend_on_the_zero_of_the_logits(expect, offset):
    """exp(1000) overflows even float64: it is the differences that count."""
    logits = torch.tensor([1.0, 0.0, 2.5, 2.0, -4.0]) + offset
    expect(top_p, logits, 0.75).equals(only(logits, lambda row: nucleus(row, 0.75)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [1, 1.0])
def test_p_1_keeps_everything(expect, p):
    """ "Off" is off: also for tokens whose probability is below 1e-12, or too small for a float."""
    logits = torch.tensor([[-30.0, 5.0, -40.0, 0.0], [0.0, -800.0, -3000.0, -INF], [2.0, 2.0, 2.0, 2.0]])
    expect(top_p, logits, p).equals(logits, **EXACT)
    expect(top_p, torch.zeros(3, 49), p).equals(torch.zeros(3, 49), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_a_p_that_no_rounded_sum_reaches_keeps_everything(expect):
    """p is the largest float below 1, and three thirds may add up to less. It is not "off": a tail of e^-40 is cut."""
    p = 1 - 2**-53
    for n in (1, 2, 3, 7, 10):
        expect(top_p, torch.full((2, n), 0.25), p).equals(torch.full((2, n), 0.25), **EXACT)
    expect(top_p, torch.tensor([0.0, 0.0, -40.0]), p).equals(torch.tensor([0.0, 0.0, -INF]), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_what_is_excluded_has_no_part_in_the_sum(expect):
    """After top-k two tokens of .4 and .3 are .571 and .429, and p = 0.5 keeps one. -inf stays -inf at every p."""
    logits = of(0.3, 0.2, 0.4, 0.1).masked_fill(torch.tensor([False, True, False, True]), -INF)
    expect(top_p, logits, 0.5).equals(only(logits, lambda row: [2]), **EXACT)
    expect(top_p, logits, 0.6).equals(logits, **EXACT)
    expect(top_p, logits, 1.0).equals(logits, **EXACT)
    alone = torch.tensor([[-INF, -INF, -4.0], [-INF, 2.0, -INF]])
    expect(top_p, alone, 0.9).equals(alone, **EXACT)
    low = torch.tensor([-INF, -52.0, -INF, -50.0, -INF])  # e^-2 against 1: .119 and .881
    expect(top_p, low, 0.87).equals(only(low, lambda row: [3]), **EXACT)
    expect(top_p, low, 0.89).equals(low, **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [0.9999, 0.99999])
def test_a_large_vocabulary_is_summed_in_float64(expect, p):
    """50,000 tokens, likely as 1 / rank²: p = 0.9999 keeps 5,420, the last of which adds 2e-8. That is less than
    the distance of two float32 numbers near 1, so a sum in float32 keeps other tokens."""
    order = torch.randperm(50_000, generator=torch.Generator().manual_seed(9))
    logits = -2 * (order + 1.0).log()
    expect(top_p, logits, p).equals(only(logits, lambda row: nucleus(row, p, margin=1e-11)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_logits_of_half_precision_are_summed_in_float64(expect, dtype):
    """Flat rows of 5,000: a bfloat16 sum stops growing at 0.06, where 1/5000 is less than half of its last bit."""
    logits = laid_out(2, 5000, seed=10, scale=0.5).to(dtype)
    for p in (0.3, 0.9):
        expect(top_p, logits, p).equals(only(logits, lambda row, p=p: nucleus(row, p)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [0.6, 0.9, 1.0])
@DTYPES
def test_top_p_keeps_the_dtype(expect, dtype, p):
    """And every kept value to its last bit: in float64 1e8 and 1e8 + 1 are no tie."""
    logits = FINE if dtype == torch.float64 else laid_out(2, 5, seed=11).to(dtype)
    expect(top_p, logits, p).equals(only(logits, lambda row: nucleus(row, p)), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
@pytest.mark.parametrize("p", [0.5, 1, 1.0])
def test_top_p_leaves_the_raw_logits_alone(expect, p):
    """They are reported as log-probabilities later. The result is a tensor of its own even if all are kept."""

    def raw_after_overwriting_the_result(logits, p):
        raw = logits.clone()
        top_p(raw, p).fill_(7.0)
        return raw

    logits = torch.tensor([[2.0, 1, 0, -1]])
    expect(raw_after_overwriting_the_result, logits, p).equals(logits, **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_the_nucleus_of_transformers_is_kept(expect):
    """Oracle: TopPLogitsWarper at p = 0.2, 0.55, 0.9 and 0.99, on flat and steep rows of 24 tokens."""
    for p, kept in WARPERS["top_p"]:
        expect(top_p, torch.tensor(WARPERS["logits"]), p).equals(stored(kept), **EXACT)


@pytest.mark.kata("level03.sampling.top_p")
def test_a_p_that_is_no_probability_is_refused(expect):
    """0 would keep nothing; 90 is a client that means 0.9."""
    expect(top_p, of(0.7, 0.3), 0.6).equals(only(of(0.7, 0.3), lambda row: [0]), **EXACT)
    for p in (0, 0.0, -0.1, 1.001, 90):
        expect(top_p, of(0.7, 0.3), p).raises(ValueError)


# ---- min_p


def likely(row, m, margin=1e-3):
    """Oracle: each token whose probability is at least m times the largest. It refuses a close call."""
    largest = max(row)
    ratios = [math.exp(z - largest) for z in row]
    assert m in (0, 1) or min(abs(r - m) for r in ratios) > margin * m, "too close to call"
    return [i for i, ratio in enumerate(ratios) if ratio >= m]


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m, kept", [(0.2, [0, 2, 3]), (0.5, [0, 2]), (0.8, [0]), (0.05, [0, 1, 2, 3])], ids=str)
def test_the_threshold_is_a_part_of_the_largest_probability(expect, m, kept):
    """.5, .05, .3, .15: m = 0.2 asks for 0.1. An absolute 0.2 would keep two, and nothing at all in a flat row."""
    expect(min_p, of(0.5, 0.05, 0.3, 0.15), m).equals(only(of(0.5, 0.05, 0.3, 0.15), lambda row: kept), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("offset", [0.0, 7.0, -7.0, 2000.0])
def test_a_ratio_of_probabilities_is_a_difference_of_logits(expect, offset):
    """[2, 1, 0, -1] and m = 0.3: e^-1 = 0.37 of the largest stays, e^-2 = 0.14 does not, wherever zero lies."""
    logits = torch.tensor([2.0, 1, 0, -1]) + offset
    expect(min_p, logits, 0.3).equals(only(logits, lambda row: [0, 1]), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@SHAPES
def test_each_row_has_its_own_threshold(expect, shape):
    """Rows lie on different scales. Oracle: exp of the difference to the row's largest, token by token."""
    logits = laid_out(*shape, seed=12, scale=1.0)
    logits = logits * torch.linspace(0.5, 4, logits[..., 0].numel()).view(logits[..., :1].shape)
    for m in (0.01, 0.1, 0.3, 0.7, 0.9):
        expect(min_p, logits, m).equals(only(logits, lambda row, m=m: likely(row, m)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m", [0, 0.0])
def test_m_0_changes_nothing(expect, m):
    """ "Off" is off, also for a token whose probability is too small for a float. And ln 0 does not exist."""
    logits = torch.tensor([[-30.0, 5.0, -40.0, 0.0], [0.0, -800.0, -3000.0, -INF]])
    expect(min_p, logits, m).equals(logits, **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m", [1, 1.0])
def test_m_1_keeps_the_most_likely_all_of_them_on_a_tie(expect, m):
    """A token as likely as the threshold is not less likely: no row is emptied. All 81 rows of 4."""
    logits = torch.tensor(list(product([-1.0, 0.0, 2.0], repeat=4)))
    expect(min_p, logits, m).equals(only(logits, lambda row: likely(row, 1)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
def test_a_very_small_m_is_a_threshold_too(expect):
    """e^-60 is 8.8e-27, above 1e-30; e^-80 is 1.8e-35, below."""
    logits = torch.tensor([-60.0, 0.0, -80.0])
    expect(min_p, logits, 1e-30).equals(torch.tensor([-60.0, 0.0, -INF]), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m", [0.0, 0.2, 1.0])
def test_min_p_ignores_what_is_excluded(expect, m):
    """The largest of what is left counts. -inf stays -inf, and the last token of a row is never lost."""
    logits = torch.tensor([[-INF, -3.0, -INF, -2.0], [-INF, -INF, -7.0, -INF], [1.0, -INF, -5.0, 1.0]])
    expect(min_p, logits, m).equals(only(logits, lambda row: likely(row, m)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("size", [1000, 50_000])
def test_min_p_in_a_large_vocabulary(expect, size):
    """The most likely of 50,000 flat tokens has 2e-5 or so: the threshold is a tenth of that."""
    logits = laid_out(2, size, seed=13, scale=0.7)
    expect(min_p, logits, 0.1).equals(only(logits, lambda row: likely(row, 0.1, margin=1e-5)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize(
    "m, row",
    [
        (0.1, [-0.076171875, -1.25, -1.0078125, -0.3203125, 1.1015625, 2.234375]),
        (0.2, [-0.73046875, -0.1416015625, 0.88671875, -0.051025390625, -0.52734375, 0.2451171875]),
        (0.0955, [20.0, 17.625, 17.75]),
    ],
    ids=str,
)
def test_probabilities_of_bfloat16_logits_are_not_bfloat16(expect, m, row):
    """exp(-0.0762 - 2.2344) is 0.0992 and less than 0.1. Probabilities in bfloat16 are rounded by more than that."""
    logits = torch.tensor(row, dtype=torch.bfloat16)
    expect(min_p, logits, m).equals(only(logits, lambda row: likely(row, m)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m", [0.0, 0.2, 0.5, 1.0])
@DTYPES
def test_min_p_keeps_the_dtype(expect, dtype, m):
    """And every kept value to its last bit: in float64 1e8 and 1e8 + 1 are no tie."""
    logits = FINE if dtype == torch.float64 else laid_out(2, 5, seed=14, scale=2.0).to(dtype)
    expect(min_p, logits, m).equals(only(logits, lambda row: likely(row, m)), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
@pytest.mark.parametrize("m", [0.2, 0, 0.0, 1.0])
def test_min_p_leaves_the_raw_logits_alone(expect, m):
    """They are reported as log-probabilities later. The result is a tensor of its own even if all are kept."""

    def raw_after_overwriting_the_result(logits, m):
        raw = logits.clone()
        min_p(raw, m).fill_(7.0)
        return raw

    logits = torch.tensor([[2.0, 1, 0, -1]])
    expect(raw_after_overwriting_the_result, logits, m).equals(logits, **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
def test_the_min_p_of_transformers_is_kept(expect):
    """Oracle: MinPLogitsWarper at m = 0.01, 0.1 and 0.5, on flat and steep rows of 24 tokens."""
    for m, kept in WARPERS["min_p"]:
        expect(min_p, torch.tensor(WARPERS["logits"]), m).equals(stored(kept), **EXACT)


@pytest.mark.kata("level03.sampling.min_p")
def test_an_m_that_is_no_part_is_refused(expect):
    """Above 1 nothing would be left to draw."""
    expect(min_p, of(0.7, 0.3), 0.6).equals(only(of(0.7, 0.3), lambda row: [0]), **EXACT)
    for m in (-0.1, 1.001, 5):
        expect(min_p, of(0.7, 0.3), m).raises(ValueError)


# ---- apply_penalties

LOGITS = torch.tensor([[2.0, -2, 1, 0]])


def penalized(logits, prompts, outputs, r=1.0, presence=0.0, frequency=0.0):
    """Oracle: every token of the vocabulary in turn, and what it has to pay."""
    right = logits.double().tolist()
    for row, prompt, output in zip(right, prompts, outputs):
        for token, z in enumerate(row):
            if token in prompt or token in output:
                z = z / r if z > 0 else z * r
            if token in output:
                z -= presence + frequency * list(output).count(token)
            row[token] = z
    return torch.tensor(right, dtype=logits.dtype)


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_the_docstring_s_example(expect):
    """[2, -2, 1], prompt [1], output [0, 0]: r = 2 gives [1, -4, 1], and 0.5 + 2 · 0.25 on token 0 gives [1, -2, 1]."""
    logits, prompt, output = torch.tensor([[2.0, -2, 1]]), [[1]], [[0, 0]]
    expect(apply_penalties, logits, prompt, output, 2.0).equals(torch.tensor([[1.0, -4, 1]]))
    expect(apply_penalties, logits, prompt, output, 1.0, 0.5, 0.25).equals(torch.tensor([[1.0, -2, 1]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_a_negative_logit_is_multiplied(expect):
    """[2, -2], both seen, r = 2: [1, -4]. Divided, -2 would become -1 and the token *more* likely: so in the paper, and
    in several libraries after it."""
    expect(apply_penalties, LOGITS, [[0, 1]], [[]], 2.0).equals(torch.tensor([[1.0, -4, 1, 0]]))
    expect(apply_penalties, LOGITS, [[]], [[3, 1]], 2.0).equals(torch.tensor([[2.0, -4, 1, 0]]))
    expect(apply_penalties, LOGITS, [[0]], [[1]], 0.5).equals(torch.tensor([[4.0, -1, 1, 0]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize("prompt, output", [([0, 0, 0], []), ([], [0, 0, 0]), ([0], [0]), ([0, 0], [0, 2, 0])], ids=str)
def test_the_repetition_penalty_counts_once(expect, prompt, output):
    """Logit 8, r = 2: 4, however often the token occurred and wherever. Powers of r silence a long text's words."""
    logits = torch.tensor([[8.0, 8, -8, 8]])
    right = torch.tensor([[4.0, 8, -16 if 2 in output else -8, 8]])
    expect(apply_penalties, logits, [prompt], [output], 2.0).equals(right)


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_a_history_counts_from_its_first_token(expect):
    """Token 0 stands at the beginning of 300: a repetition penalty with a window (llama.cpp's) has forgotten it."""
    logits, long = torch.tensor([[8.0, 8, -8, 8]]), [0] + [2] * 300
    right = torch.tensor([[4.0, 8, -16, 8]])
    expect(apply_penalties, logits, [long], [[]], 2.0).equals(right)
    expect(apply_penalties, logits, [[]], [long], 2.0).equals(right)


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize("output, right", [([2], -0.75), ([2, 2, 2], -1.75)], ids=str)
def test_presence_and_frequency_do_not_look_at_the_prompt(expect, output, right):
    """Prompt [1, 1], presence 0.25, frequency 0.5: token 1 pays nothing; token 2 pays 0.25 + 0.5 each time."""
    expect(apply_penalties, torch.zeros(1, 4), [[1, 1]], [output], presence_penalty=0.25, frequency_penalty=0.5).equals(
        torch.tensor([[0.0, 0, right, 0]])
    )


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_presence_counts_once_and_frequency_every_time(expect):
    """Output [0, 0, 2], presence 0.5, frequency 0.1: 2 - 0.5 - 0.2 = 1.3 and 1 - 0.5 - 0.1 = 0.4."""
    both = torch.tensor([[1.3, -2, 0.4, 0]])
    expect(apply_penalties, LOGITS, [[1]], [[0, 0, 2]], 1.0, 0.5, 0.1).equals(both)
    expect(apply_penalties, LOGITS, [[1]], [[0, 0, 2]], presence_penalty=0.5).equals(torch.tensor([[1.5, -2, 0.5, 0]]))
    expect(apply_penalties, LOGITS, [[1]], [[0, 0, 2]], frequency_penalty=0.1).equals(torch.tensor([[1.8, -2, 0.9, 0]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_the_repetition_penalty_comes_first(expect):
    """2 / 2 - 0.75 = 0.25, not (2 - 0.75) / 2. And 0.5 is positive when it is divided: 0.25 - 1 = -0.75, not -1."""
    expect(apply_penalties, torch.tensor([[2.0, 7]]), [[]], [[0]], 2.0, 0.5, 0.25).equals(torch.tensor([[0.25, 7]]))
    expect(apply_penalties, torch.tensor([[0.5, 7]]), [[]], [[0]], 2.0, 1.0).equals(torch.tensor([[-0.75, 7]]))
    expect(apply_penalties, torch.tensor([[-0.5, 7]]), [[]], [[0]], 2.0, -1.0).equals(torch.tensor([[0.0, 7]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_negative_penalties_are_rewards(expect):
    """Presence -0.5 on token 3: 0.5. APIs allow -2 to 2."""
    expect(apply_penalties, LOGITS, [[]], [[3]], presence_penalty=-0.5).equals(torch.tensor([[2.0, -2, 1, 0.5]]))
    expect(apply_penalties, LOGITS, [[]], [[3, 1, 3]], 1.0, 0.5, -1.0).equals(torch.tensor([[2.0, -1.5, 1, 1.5]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize("r", [1.0, 2.0])
def test_no_history_no_penalty(expect, r):
    """The first token of a request without a prompt that counts. All at their defaults change nothing either."""
    expect(apply_penalties, LOGITS, [[]], [[]], r, 0.5, 0.5).equals(LOGITS, **EXACT)
    expect(apply_penalties, LOGITS, [[0, 1]], [[]], 1.0, 0.5 * r, 0.5).equals(LOGITS, **EXACT)
    expect(apply_penalties, LOGITS, [[0, 1]], [[2, 2, 3]]).equals(LOGITS, **EXACT)


HISTORIES = [[3, 3, 9], [], [10, 0], [5], [1, 1, 1, 1, 2]], [[0, 0, 4], [7, 7, 7, 10], [], [5, 5], [8, 0, 1]]


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize(
    "penalties",
    [(1.7,), (0.6,), (1.0, 0.4), (1.0, 0.0, 0.3), (1.4, 0.4, 0.3), (1.3, -0.5, 0.2), (2, 1, 0)],
    ids=str,
)
def test_each_row_pays_for_its_own_history(expect, penalties):
    """Five requests with histories of different length, some empty. Oracle: token by token, in Python."""
    logits = laid_out(5, 11, seed=15)
    expect(apply_penalties, logits, *HISTORIES, *penalties).equals(penalized(logits, *HISTORIES, *penalties))


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_histories_may_be_tuples(expect):
    """Any sequences: an engine keeps the prompt as a tuple and the output as a list. A row of one token as well."""
    logits = laid_out(5, 11, seed=16)
    prompts, outputs = tuple(map(tuple, HISTORIES[0])), HISTORIES[1]
    right = penalized(logits, prompts, outputs, 1.5, 0.4, 0.3)
    expect(apply_penalties, logits, prompts, outputs, 1.5, 0.4, 0.3).equals(right)
    expect(apply_penalties, logits, HISTORIES[0], list(map(tuple, outputs)), 1.5, 0.4, 0.3).equals(right)
    expect(apply_penalties, torch.tensor([[3.0]]), [(0,)], [(0, 0)], 2.0, 0.5, 0.25).equals(torch.tensor([[0.5]]))


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_what_was_excluded_stays_excluded_whatever_it_pays(expect):
    """-inf · r and -inf - 2 are -inf; a reward does not bring a token back, and nothing becomes NaN."""
    logits = torch.tensor([[-INF, 1.0, -INF, 0.0]])
    expect(apply_penalties, logits, [[0, 1]], [[2, 2, 3]], 2.0, 0.5, 0.25).equals(
        torch.tensor([[-INF, 0.5, -INF, -0.75]])
    )
    expect(apply_penalties, logits, [[0, 1]], [[2, 2, 3]], 0.5, -0.5, -0.25).equals(
        torch.tensor([[-INF, 2.0, -INF, 0.75]])
    )


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_penalties_keep_the_dtype_and_count_far(expect, dtype):
    """Token 1 was made 300 times: 8 - 300/128 = 5.65625, also in bfloat16, where 8 - 1/128 is 8 and 256 + 1 is 256.
    What has not occurred is not touched: in float64 100,000,003 stays what it is."""
    big = 1e8 + 3 if dtype == torch.float64 else 3.0
    logits, output = torch.tensor([[big, 8.0, -1.0]], dtype=dtype), [1] * 300 + [2]
    rel = 1e-8 if dtype == torch.float64 else 1e-6 if dtype == torch.float32 else 1e-2
    right = torch.tensor([[big, 5.65625, -1.0078125]], dtype=dtype)
    expect(apply_penalties, logits, [[]], [output], 1.0, 0.0, 1 / 128).equals(right, rel=rel, abs=0)
    right = torch.tensor([[big, 2.15625, -1.5078125]], dtype=dtype)  # 8 / 2 + 0.5 - 300/128, -1 · 2 + 0.5 - 1/128
    expect(apply_penalties, logits, [[]], [output], 2.0, -0.5, 1 / 128).equals(right, rel=rel, abs=0)


@pytest.mark.kata("level03.sampling.apply_penalties")
@pytest.mark.parametrize("penalties", [(), (2.0,), (1.0, 0.5, 0.5)], ids=str)
def test_penalties_leave_the_raw_logits_alone(expect, penalties):
    """They are reported as log-probabilities later. The result is a tensor of its own even if nothing is asked for."""

    def raw_after_overwriting_the_result(logits, prompt, output, *penalties):
        raw = logits.clone()
        apply_penalties(raw, prompt, output, *penalties).fill_(7.0)
        return raw

    expect(raw_after_overwriting_the_result, LOGITS, [[0, 1]], [[2, 2]], *penalties).equals(LOGITS, **EXACT)


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_repetition_is_punished_as_in_transformers(expect):
    """Oracle: RepetitionPenaltyLogitsProcessor at 1.3 and 0.7, on prompt and output together."""
    for r, right in WARPERS["repetition"]:
        expect(apply_penalties, torch.tensor(WARPERS["logits"]), WARPERS["prompts"], WARPERS["outputs"], r).equals(
            torch.tensor(right), abs=1e-5
        )


@pytest.mark.kata("level03.sampling.apply_penalties")
def test_a_repetition_penalty_of_0_or_below_is_refused(expect):
    """It would divide by 0, or turn signs around. Off is 1."""
    expect(apply_penalties, LOGITS, [[0]], [[]], 4.0).equals(torch.tensor([[0.5, -2, 1, 0]]))
    expect(apply_penalties, LOGITS, [[0]], [[]], 0.0).raises(ValueError)
    expect(apply_penalties, LOGITS, [[0]], [[]], -1.0).raises(ValueError)
