"""Judges speedup.py by all rounds that can happen, in exact fractions, and by matrices and caches that are added up.

Fractions are those of the floats that are given: 0.8 is 0.8 as a float.
"""

from fractions import Fraction
from itertools import product
from math import prod

import pytest

from dojo.models import SMOLLM2, TINY, Config, shapes
from level04.roofline import H100, Hardware
from level08.speedup import best_gamma, estimate_alpha, expected_tokens, speedup, verify_cost

CLOSE = {"rel": 1e-9, "abs": 0}  # the sum and its closed form differ by 1e-13 at alpha .999


def tokens_of_all_rounds(alpha, gamma):
    """Oracle: every pattern of accepted and rejected tokens, its probability times what the round gives."""
    alpha, mean = Fraction(alpha), Fraction(0)
    for pattern in product([True, False], repeat=gamma):
        probability = prod((alpha if accepted else 1 - alpha for accepted in pattern), start=Fraction(1))
        before = [*pattern, False].index(False)  # accepted ones before the first rejection
        mean += probability * (before + 1)
    return mean


# ---- expected_tokens


@pytest.mark.kata("level08.speedup.expected_tokens")
@pytest.mark.parametrize(
    "alpha, gamma, right",
    [
        (0.5, 2, 1.75),
        (0.8, 4, 3.3616),  # 1 + .8 + .64 + .512 + .4096; were acceptances independent of earlier ones, 4.2
        (0.7, 3, 2.533),
        (0.5, 0, 1.0),
        (0.0, 4, 1.0),
        (0.0, 0, 1.0),
        (1.0, 4, 5.0),
        (1.0, 0, 1.0),
        (1, 7, 8.0),
        (0.9, 100, 10 * (1 - 0.9**101)),
    ],
)
def test_tokens_of_a_round_by_hand(expect, alpha, gamma, right):
    """A token counts only if all before it were accepted, and the target's own comes on top: without a draft a round
    is a plain step, with one that is never right as well, and with one that is always right nothing is divided by 0."""
    expect(expected_tokens, alpha, gamma).equals(right, **CLOSE)


@pytest.mark.kata("level08.speedup.expected_tokens")
@pytest.mark.parametrize("gamma", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.25, 0.6, 0.999, 1.0])
def test_tokens_of_all_rounds(expect, alpha, gamma):
    """Oracle: all patterns of accepted and rejected tokens. A round of more than gamma + 1 tokens does not exist."""
    expect(expected_tokens, alpha, gamma).equals(float(tokens_of_all_rounds(alpha, gamma)), **CLOSE)


@pytest.mark.kata("level08.speedup.expected_tokens")
@pytest.mark.parametrize("alpha, gamma", [(1.2, 3), (-0.1, 3), (0.5, -1)])
def test_what_is_no_probability_is_refused(expect, alpha, gamma):
    """80 for 80% would promise three million tokens a round."""
    expect(expected_tokens, 0.5, 3).equals(1.875, **CLOSE)
    expect(expected_tokens, alpha, gamma).raises(ValueError)


# ---- estimate_alpha


@pytest.mark.kata("level08.speedup.estimate_alpha")
@pytest.mark.parametrize(
    "accepted, proposed, right",
    [
        ([4, 1, 0], [4, 4, 4], 5 / 7),
        ([4, 4, 1, 0], [4, 4, 4, 4], 9 / 11),
        ([4, 2, 4, 0, 1], [4, 4, 4, 4, 4], 11 / 14),  # of those proposed, 11 / 20 would be 0.55
        ([4], [4], 1.0),
        ([0], [4], 0.0),
        ([2], [4], 2 / 3),
        ([0, 0, 0], [1, 5, 2], 0.0),
        ([0, 2], [0, 4], 2 / 3),  # an empty draft tests nothing
        ([0, 3, 0, 0], [0, 3, 0, 0], 1.0),
        ([3, 2, 1, 5, 0], [3, 4, 1, 8, 2], 11 / 14),
        ([2, 1], [2, 9], 3 / 4),
    ],
)
def test_only_tested_tokens_count(expect, accepted, proposed, right):
    """A round that accepts a of its n tokens has tested a, and one more if there was one. With accepted / proposed a
    drafter of .79 looks like one of .55, and is switched off."""
    expect(estimate_alpha, accepted, proposed).equals(right, **CLOSE)


@pytest.mark.kata("level08.speedup.estimate_alpha")
@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("yes, of", [(1, 2), (1, 4), (3, 4), (4, 5)])
def test_the_rounds_of_a_known_alpha_give_it_back(expect, yes, of, gamma):
    """As many rounds of each kind as their probabilities say, of^gamma in all: the estimate is alpha, for any gamma.

    A share of the proposed ones falls as drafts grow: of alpha .5 and gamma 5 it would say .19.
    """
    rounds = [yes**a * (of - yes) * of ** (gamma - a - 1) for a in range(gamma)] + [yes**gamma]
    assert sum(rounds) == of**gamma
    accepted = [a for a, times in enumerate(rounds) for _ in range(times)]
    expect(estimate_alpha, accepted, [gamma] * len(accepted)).equals(yes / of, **CLOSE)


@pytest.mark.kata("level08.speedup.estimate_alpha")
def test_no_other_alpha_makes_the_rounds_likelier(expect):
    """What maximum likelihood means. Oracle: the probability of these very rounds, for 10,000 alphas."""

    def likelihood(alpha):
        return prod(alpha**a * (1 - alpha if a < n else 1) for a, n in rounds)

    rounds = [(3, 3), (0, 2), (1, 4), (5, 8), (0, 0), (2, 2), (1, 1), (6, 7)]
    right = max((i / 10_000 for i in range(10_001)), key=likelihood)
    accepted, proposed = map(list, zip(*rounds))
    expect(estimate_alpha, accepted, proposed).equals(right, rel=0, abs=1e-4)  # half a step of the grid, twice
    expect(estimate_alpha, tuple(accepted), tuple(proposed)).equals(18 / 22, **CLOSE)


@pytest.mark.kata("level08.speedup.estimate_alpha")
@pytest.mark.parametrize(
    "accepted, proposed", [([5], [4]), ([0], [0]), ([], []), ([0, 0], [0, 0]), ([1, 2], [4]), ([-1], [4])]
)
def test_rounds_that_tell_nothing_are_refused(expect, accepted, proposed):
    """More accepted than proposed is a counter that includes the bonus; without a test nothing is known, and 0 or 1
    would be taken for a measurement."""
    expect(estimate_alpha, [1], [4]).equals(0.5, **CLOSE)
    expect(estimate_alpha, accepted, proposed).raises(ValueError)


# ---- speedup, judged with best_gamma


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize(
    "alpha, gamma, draft_cost, right",
    [
        (0.5, 2, 0.1, 1.75 / 1.2),
        (0.8, 4, 0.05, 3.3616 / 1.2),
        (0.7, 3, 0.1, 2.533 / 1.3),
        (0.3, 4, 0.2, 1.4251 / 1.8),  # a loss
        (0.75, 4, 0.125, 3.05078125 / 1.5),
        (0.0, 3, 0.5, 0.4),
        (1.0, 4, 1.0, 1.0),
        (0.9, 0, 0.5, 1.0),
        (0.5, 2, 0.0, 1.75),
        (0.5, 2, 2.0, 0.35),
    ],
)
def test_tokens_of_a_round_over_its_steps(expect, alpha, gamma, draft_cost, right):
    """A draft is made token by token, so it costs gamma small steps, right or wrong; one pass verifies all of it."""
    expect(speedup, alpha, gamma, draft_cost).equals(right, **CLOSE)


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize("cost", [0.5, 1, 1.5, 5.0])
@pytest.mark.parametrize("gamma, draft_cost", [(0, 0.25), (1, 0.0), (3, 0.25), (4, 1.5)])
def test_a_dearer_pass(expect, gamma, draft_cost, cost):
    """At a large batch a pass over more tokens costs more than a step; the draft's own cost stays what it is. Oracle:
    all patterns of a round, in exact fractions."""
    right = tokens_of_all_rounds(0.75, gamma) / (gamma * Fraction(draft_cost) + Fraction(cost))
    expect(speedup, 0.75, gamma, draft_cost, cost).equals(float(right), **CLOSE)
    expect(speedup, 0.75, gamma, draft_cost, verify_cost=cost).equals(float(right), **CLOSE)


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize(
    "bad", [(0.5, 1, -1.0), (0.5, 1, 0.1, 0.0), (0.5, 1, 0.1, -1.0), (1.5, 1, 0.1), (0.5, -1, 0.1)]
)
def test_costs_below_0_are_refused(expect, bad):
    """A pass for nothing would be infinitely fast."""
    expect(speedup, 0.5, 1, 0.0, 0.1).equals(15.0, **CLOSE)
    expect(speedup, *bad).raises(ValueError)


# ---- best_gamma


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize(
    "alpha, draft_cost, max_gamma, right",
    [
        (0.5, 0.1, 3, 2),  # 1, 1.364, 1.458, 1.442
        (0.8, 0.05, 16, 8),
        (0.8, 0.05, 5, 5),
        (0.3, 0.5, 16, 0),  # drafts do not pay
        (1.0, 0.1, 8, 8),  # never rejected: as long as allowed
        (0.9, 0.0, 6, 6),  # a free draft as well
        (0.0, 0.1, 8, 0),
        (0.9, 0.1, 0, 0),
        (0.9, 0.1, 1, 1),
        (0.0, 0.0, 8, 0),  # all of them are 1
        (1.0, 1.0, 8, 0),  # and here, 2 tokens in 2 steps, 3 in 3, …
        (0.5, 0.5, 8, 0),  # 1 and 1.5 / 1.5
    ],
)
def test_the_length_that_pays_most(expect, alpha, draft_cost, max_gamma, right):
    """Late tokens are rarely reached but always drafted. 0 is an answer: the engine decodes plainly. On a tie the
    shorter draft, which writes less into the cache."""
    expect(best_gamma, alpha, draft_cost, max_gamma).equals(right)


def table(*costs):
    """Costs of passes over 1, 2, … tokens, and of no others."""
    return {gamma: float(cost) for gamma, cost in enumerate(costs)}.__getitem__


def linear(gamma):
    return 1 + 0.2 * gamma


def in_tiles_of_four(gamma):
    """Tensor cores take tokens four at a time: a fifth costs as much as an eighth."""
    return 0.5 + 0.5 * (-(-(gamma + 1) // 4))


def dear_to_start(gamma):
    """The second token costs a step of its own, all others nothing."""
    return 1.0 if gamma == 0 else 2.0


def steep(gamma):
    return (gamma + 1) ** 2


def early(gamma):
    """A pass that pays at once and not any more."""
    return (1.0, 1.0, 2.0, 3.0, 4.0)[min(gamma, 4)]


COSTS = [linear, in_tiles_of_four, dear_to_start, steep, early]


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize(
    "alpha, draft_cost, costs, right",
    [
        (0.5, 0.0, (1, 0.75, 0.875, 1.875), 1),  # 1, 2, 2, 1: the shorter of the two
        (0.5, 0.0, (0.25, 1, 1, 1), 0),  # 4 without a draft
        (0.5, 0.0, (1.5, 1.5, 1.75, 1.875), 1),  # 2/3, 1, 1, 1
        (0.5, 0.25, (1, 1.25, 1.25, 0.1875), 3),  # 1, 1, 1, 2: what falls or stays may rise again
        (1.0, 0.0, (1, 4, 4, 2), 3),  # 1, .5, .75, 2
        (1.0, 0.0, (1, 1, 4, 2, 2.5, 3), 1),  # 2, 2, .75, 2, 2, 2 with 2 first reached at 1
        (0.0, 0.0, (2, 1, 1.5), 1),
        (0.5, 0.0, (1, 1.499999), 1),  # a little is more, too
        (0.5, 0.0, (1, 1.500001), 0),
    ],
)
def test_the_pass_has_a_price_for_each_length(expect, alpha, draft_cost, costs, right):
    """verify_cost is called with the draft's length, 0 included, and with none above max_gamma: a profile of an engine
    has been measured for these."""
    expect(best_gamma, alpha, draft_cost, len(costs) - 1, table(*costs)).equals(right)


def longest_that_pays(alpha, draft_cost, max_gamma, cost):
    """Oracle: all lengths in exact fractions, the first of the best."""
    worth = []
    for gamma in range(max_gamma + 1):
        tokens = sum(Fraction(alpha) ** i for i in range(gamma + 1))
        worth.append(tokens / (gamma * Fraction(draft_cost) + Fraction(cost(gamma))))
    return worth.index(max(worth))


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.__name__)
@pytest.mark.parametrize("draft_cost", [0.0, 0.0625, 0.3])
def test_all_lengths_are_compared(expect, draft_cost, cost):
    """Oracle: each length in exact fractions. With tiles the speed-up rises and falls several times: who stops at the
    first fall stops too early. The arguments are such that no two lengths are nearly equal."""
    for alpha in (0.15, 0.4, 0.7, 0.95, 1.0):
        for max_gamma in (1, 4, 7, 20):
            right = longest_that_pays(alpha, draft_cost, max_gamma, cost)
            expect(best_gamma, alpha, draft_cost, max_gamma, cost).equals(right)
            expect(best_gamma, alpha, draft_cost, max_gamma, verify_cost=cost).equals(right)


@pytest.mark.kata("level08.speedup.best_gamma")
@pytest.mark.parametrize("bad", [(0.5, 0.1, -1), (1.5, 0.1, 4), (0.5, -0.1, 4), (0.5, 0.1, 4, lambda gamma: 0.0)])
def test_a_draft_of_less_than_nothing_is_refused(expect, bad):
    """Nor is a search over nothing an answer."""
    expect(best_gamma, 0.5, 0.0, 0).equals(0)
    expect(best_gamma, *bad).raises(ValueError)


# ---- verify_cost

LLAMA8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
# heads · head_dim is not d_model here, and no size is a power of two
WIDE = Config(3, 21, 6, 3, 12, 56, 71, max_seq_len=128, tie_embeddings=False)
LAPTOP = Hardware("one core", 99.4e9, 16.8e9, 16e9)
SMALL = Hardware("as in level 04's docstrings", 100.0, 10.0, 640.0)


def cost_in_steps(config, batch, context_len, gamma, hardware, weight=2, entry=2):
    """Oracle: matrix by matrix and head by head, in exact fractions; the longer of arithmetic and memory."""
    sizes = dict(shapes(config))
    if not config.tie_embeddings:
        del sizes["model.embed_tokens.weight"]  # looked up, not read
    moved = sum(map(prod, sizes.values())) * Fraction(weight)
    moved += batch * context_len * config.n_layers * 2 * config.n_kv_heads * config.head_dim * Fraction(entry)

    def seconds(tokens):
        flops = sum(2 * prod(shape) for shape in sizes.values() if len(shape) == 2) * batch * tokens
        flops += config.n_layers * config.n_heads * 2 * 2 * config.head_dim * context_len * batch * tokens
        return max(flops / Fraction(hardware.peak_flops), moved / Fraction(hardware.bandwidth))

    return float(seconds(gamma + 1) / seconds(1))


@pytest.mark.kata("level08.speedup.verify_cost")
@pytest.mark.parametrize(
    "batch, context_len, right",
    [
        (1, 1, 1.0),  # five tokens for the price of one
        (128, 1, 2.165),  # 640 tokens where 295.6 take as long as the weights
        (200, 1, 3.381),
        (512, 1, 5.0),  # the step itself is busy: each token at its full price
        (200, 8192, 1.0),  # 215 GB of cache, read once, hide it all
        (64, 8192, 1.0),
    ],
)
def test_five_tokens_of_llama_on_an_h100(expect, batch, context_len, right):
    """Drafts fill the time in which the arithmetic waits. A large batch has taken that time already, unless its caches
    are long: then extra tokens are free again."""
    expect(verify_cost, LLAMA8B, batch, context_len, 4, H100).equals(right, rel=0, abs=0.0005)


@pytest.mark.kata("level08.speedup.verify_cost")
@pytest.mark.parametrize("gamma", [0, 1, 4, 15])
@pytest.mark.parametrize("batch, context_len", [(1, 1), (1, 700), (37, 1), (64, 2048), (300, 100), (7, 5)])
@pytest.mark.parametrize(
    "config, hardware",
    [(LLAMA8B, H100), (SMOLLM2, H100), (SMOLLM2, LAPTOP), (TINY, LAPTOP), (WIDE, SMALL)],
    ids=["Llama-3-8B", "SmolLM2", "SmolLM2 on a laptop", "untied", "wide heads"],
)
def test_a_pass_in_plain_steps(expect, config, hardware, batch, context_len, gamma):
    """Oracle: matrices, heads and caches in exact fractions. Each token attends to the context, its sequence's cache
    and the weights are read once; both passes last as long as the slower of the two."""
    right = cost_in_steps(config, batch, context_len, gamma, hardware)
    expect(verify_cost, config, batch, context_len, gamma, hardware).equals(right, **CLOSE)


@pytest.mark.kata("level08.speedup.verify_cost")
@pytest.mark.parametrize("weight, entry", [(0.5, 2), (2, 0.5), (1, 1), (4, 4), (0.5625, 1)])
def test_narrower_weights_leave_less_room(expect, weight, entry):
    """In 4 bits the weights are read in a quarter of the time, and drafts cost more at a quarter of the batch."""
    for batch, context_len in ((1, 1), (32, 64), (64, 4096), (100, 300)):
        right = cost_in_steps(LLAMA8B, batch, context_len, 5, H100, weight, entry)
        expect(verify_cost, LLAMA8B, batch, context_len, 5, H100, weight, entry).equals(right, **CLOSE)
    right = cost_in_steps(LLAMA8B, 100, 300, 5, H100, weight, entry)
    named = {"bytes_per_element": entry, "bytes_per_param": weight}
    expect(verify_cost, LLAMA8B, 100, 300, 5, H100, **named).equals(right, **CLOSE)


@pytest.mark.kata("level08.speedup.verify_cost")
def test_a_pass_over_nothing_is_refused(expect):
    """A pass has at least the last token of one sequence."""
    expect(verify_cost, TINY, 1, 1, 0, LAPTOP).equals(1.0, **CLOSE)
    for batch, context_len, gamma in ((0, 1, 1), (1, 0, 1), (1, 1, -1)):
        expect(verify_cost, TINY, batch, context_len, gamma, LAPTOP).raises(ValueError)
