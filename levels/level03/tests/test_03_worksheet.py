"""The worksheet of level 03: right values by walking through the definitions in Python, or from the shapes."""

from itertools import combinations
from math import exp, inf, log, log2, prod

import pytest


def softmax(logits):
    weights = [exp(z) for z in logits]
    return [w / sum(weights) for w in weights]


@pytest.mark.kata("level03.worksheet.tempered_probability")
def test_temperature_divides_the_logits(answer):
    """Above 1 the best token loses: 0.705 at temperature 1. Oracle: powers of the probabilities, p^(1/T), rescaled."""
    powers = [p ** (1 / 2) for p in softmax([3, 2, 0])]
    answer("tempered_probability").equals(powers[0] / sum(powers), rel=0.01)


@pytest.mark.kata("level03.worksheet.entropy_bits")
def test_entropy_is_the_mean_surprise(answer):
    """How undecided the model is, in yes-or-no questions. Oracle: log2 of how many texts of n tokens are typical.

    Of n tokens 0.4 n, 0.3 n, 0.2 n and 0.1 n are of each kind; the arrangements are a multinomial coefficient.
    """
    n, steps = 100_000, [0.0]
    for i in range(1, n + 1):
        steps.append(steps[-1] + log2(i))  # log2 of i!
    arrangements = steps[n] - sum(steps[round(p * n)] for p in (0.4, 0.3, 0.2, 0.1))
    answer("entropy_bits").equals(arrangements / n, rel=0.01)


@pytest.mark.kata("level03.worksheet.nucleus_probability")
def test_the_nucleus_is_the_smallest_set_that_reaches_p(answer):
    """A cut makes what is left likelier. Oracle: of all sets of tokens with at least p, the smallest."""
    probs, p = [0.1, 0.4, 0.3, 0.15, 0.05], 0.82
    sets = [ids for n in range(1, 6) for ids in combinations(probs, n) if sum(ids) >= p]
    answer("nucleus_probability").equals(0.3 / sum(sets[0]), rel=0.01)


@pytest.mark.kata("level03.worksheet.least_logit")
def test_min_p_is_a_distance_on_logits(answer):
    """So min-p needs no softmax. Oracle: halve an interval until the probabilities have the ratio 0.3."""
    low, high = 0.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exp(middle) < 0.3 * exp(5) else (low, middle)
    answer("least_logit").equals(high, rel=0.01)


@pytest.mark.kata("level03.worksheet.new_token_probability")
def test_the_repetition_penalty_lowers_both_kinds_of_logits_once(answer):
    """3 becomes 1.5, -1 becomes -2, and the new token takes what they lose. Oracle: token by token, over a set."""
    logits, prompt, penalty = [3.0, 2.0, -1.0], [0, 2, 0], 2
    for token in set(prompt):
        logits[token] = min(logits[token] / penalty, logits[token] * penalty)  # whichever is lower
    answer("new_token_probability").equals(softmax(logits)[1], rel=0.01)


@pytest.mark.kata("level03.worksheet.perplexity")
def test_perplexity_is_a_number_of_equally_likely_tokens(answer):
    """The usual figure for a model's quality. Oracle: as many choices at each step give the text its probability."""
    text = prod((0.5, 0.2, 0.8, 0.05))
    choices = max(n / 1000 for n in range(1, 10_000) if (1 / (n / 1000)) ** 4 >= text)
    answer("perplexity").equals(choices, rel=0.01)


@pytest.mark.kata("level03.worksheet.beam_probability")
def test_a_beam_finds_what_its_width_lets_through(answer):
    """Neither the greedy text, 0.16, nor the best of all, 0.225. Oracle: keep two, extend them, take the best."""
    first, after = {"A": 0.40, "B": 0.35, "C": 0.25}, {"A": 0.40, "B": 0.50, "C": 0.90}
    beams = sorted(first, key=first.get, reverse=True)[:2]
    best = -inf
    for token in beams:
        best = max(best, log(first[token]) + log(after[token]))
    answer("beam_probability").equals(exp(best), rel=0.01)


@pytest.mark.kata("level03.worksheet.logits_percent")
def test_logits_of_a_batch_are_small_beside_a_large_model(answer):
    """A larger model has more weights for each entry of its vocabulary. Oracle: Llama-3-8B, counted by its shapes."""
    d, kv, ff, layers, vocab = 4096, 8 * 128, 14336, 32, 128256
    weights = layers * (2 * d * d + 2 * d * kv + 3 * d * ff + 2 * d) + d + 2 * vocab * d  # embedding and head, not tied
    answer("logits_percent").equals(100 * 64 * 4 * vocab / (2 * weights), rel=0.01)
