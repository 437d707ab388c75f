"""The worksheet of level 08: right values by enumeration, by walking through rounds, and from a model's shapes."""

from fractions import Fraction
from itertools import product
from math import log, prod

import pytest

from dojo.models import Config, shapes

TARGET, DRAFT = [Fraction(n, 20) for n in (9, 5, 4, 2)], [Fraction(n, 20) for n in (4, 10, 2, 4)]
MISTRAL = Config(40, 5120, 32, 8, 128, 32768, 131072, tie_embeddings=False)  # Mistral Small 3
READ = sum(prod(shape) for name, shape in shapes(MISTRAL).items() if name != "model.embed_tokens.weight")
PEAK, BANDWIDTH = 1307e12, 5.3e12  # of an MI300X


def tokens_of_a_round(alpha, drafted):
    """Every way in which a draft may go: its probability times the tokens that come out."""
    mean = 0
    for tested in product((True, False), repeat=drafted):
        accepted = next((i for i, right in enumerate(tested) if not right), drafted)
        mean += prod(alpha if right else 1 - alpha for right in tested) * (accepted + 1)
    return mean


@pytest.mark.kata("level08.worksheet.acceptance")
def test_what_both_give_a_token_is_accepted(answer):
    """The rate decides whether a drafter is worth its time. Oracle: how often each is drawn and kept."""
    kept = sum(q * min(Fraction(1), p / q) for p, q in zip(TARGET, DRAFT))
    answer("acceptance").equals(float(kept), rel=0.01)


@pytest.mark.kata("level08.worksheet.replacement")
def test_a_replacement_makes_up_for_what_the_drafter_gives_too_little(answer):
    """From another distribution the output would not be the target's. Oracle: what must come out, less the accepted."""
    rejected = sum(q * (1 - min(Fraction(1), p / q)) for p, q in zip(TARGET, DRAFT))
    still_missing = TARGET[2] - DRAFT[2] * min(Fraction(1), TARGET[2] / DRAFT[2])
    answer("replacement").equals(float(still_missing / rejected), rel=0.01)


@pytest.mark.kata("level08.worksheet.round_tokens")
def test_a_late_token_is_rarely_reached(answer):
    """Tokens for a reading of the weights: the gain itself. Oracle: all 64 ways in which six tokens may be tested."""
    answer("round_tokens").equals(tokens_of_a_round(0.72, 6), rel=0.01)


@pytest.mark.kata("level08.worksheet.times_as_fast")
def test_the_draft_is_made_token_by_token(answer):
    """A drafter that is too large eats what it gains. Oracle: a round's readings, one by one."""
    read = sum(1.4e9 for _ in range(6)) + 22.90e9
    answer("times_as_fast").equals(tokens_of_a_round(0.72, 6) / (read / 22.90e9), rel=0.01)


@pytest.mark.kata("level08.worksheet.best_length")
def test_a_draft_may_be_too_long(answer):
    """An engine sets one length for all. Oracle: each from 0 to 24, in whole numbers, so that nothing is rounded."""

    def gain(length):
        alpha, cost = Fraction(85, 100), Fraction(4, 100)
        return (1 - alpha ** (length + 1)) / (1 - alpha) / (1 + length * cost)

    answer("best_length").equals(max(range(25), key=gain), rel=0.01)


@pytest.mark.kata("level08.worksheet.pass_cost")
def test_a_full_batch_pays_for_its_drafts(answer):
    """Where the arithmetic is used already, drafts are not free. Oracle: the model's shapes, head by head."""
    pair = sum(2 * MISTRAL.head_dim + 2 * MISTRAL.head_dim for _ in range(MISTRAL.n_layers * MISTRAL.n_heads))
    entry = sum(2 * MISTRAL.head_dim * MISTRAL.n_kv_heads for _ in range(MISTRAL.n_layers) for _ in "kv")
    reading = (2 * READ + 160 * 300 * entry) / BANDWIDTH
    plain, larger = (max(160 * n * (2 * READ + 300 * pair) / PEAK, reading) for n in (1, 4))
    answer("pass_cost").equals(larger / plain, rel=0.01)


@pytest.mark.kata("level08.worksheet.alpha_estimate")
def test_a_token_behind_a_rejected_one_was_not_tested(answer):
    """A rate that is too low switches drafts off too early. Oracle: the likelihood of these rounds, on a fine grid."""
    rounds = [(5, 5), (3, 5), (0, 5), (5, 5), (1, 5), (2, 2)]

    def likelihood(alpha):
        return sum(accepted * log(alpha) + (accepted < drafted) * log(1 - alpha) for accepted, drafted in rounds)

    answer("alpha_estimate").equals(max((i / 10000 for i in range(1, 10000)), key=likelihood), rel=0.01)


@pytest.mark.kata("level08.worksheet.tree_tokens")
def test_a_second_candidate_helps_all_that_comes_behind_it(answer):
    """Trees buy tokens with arithmetic. Oracle: every case of which candidate is right, and how far the chain goes."""
    mean = 0
    for first in (0.6, 0.2, None):  # neither of the two is right
        if first is None:
            mean += (1 - 0.6 - 0.2) * 1
        else:
            mean += first * (tokens_of_a_round(0.6, 2) + 1)
    answer("tree_tokens").equals(mean, rel=0.01)
