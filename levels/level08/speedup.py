"""What a draft is worth: tokens for a round, seconds for a round, and how long the draft should be.

Costs are in units of one plain decode step of the target at the same batch, so a speed-up is without a unit.
"""

from collections.abc import Callable, Sequence

from dojo.models import Config
from level04.ceiling import decode_step_cost, step_seconds
from level04.roofline import Hardware


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return how many tokens a round gives on average, the target's own last one included.

    alpha  the probability, 0 to 1, that a drafted token is accepted, if all before it were; gamma, the draft's length

    Example: alpha 0.5, gamma 2: 1 + 0.5 + 0.25 = 1.75. arXiv 2211.17192, equation 1.
    ValueError: alpha outside [0, 1], gamma below 0.

    ● · about 1 line
    """
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"alpha is a probability and gamma 0 or more, not {alpha} and {gamma}")
    # TODO: with what probability does a round reach each of its tokens?
    raise NotImplementedError("level08.speedup.expected_tokens")


def estimate_alpha(accepted: Sequence[int], proposed: Sequence[int]) -> float:
    """Return the share of accepted tokens among those that were tested: the maximum-likelihood alpha of some rounds.

    accepted, proposed  of each round, drafted tokens that were accepted, and that there were

    A token behind a rejected one was not tested: nobody knows whether it would have been accepted.
    Example: accepted 4, 1 and 0 of 4 each: 5 accepted, 2 rejected -> 0.714.
    ValueError: lists of different lengths, more accepted than proposed, nothing tested.

    ● · about 3 lines
    """
    if len(accepted) != len(proposed) or not all(0 <= a <= n for a, n in zip(accepted, proposed)):
        raise ValueError("each round accepts 0 or more tokens, and at most those that were proposed in it")
    if not any(proposed):
        raise ValueError("no token was tested, so nothing is known: give rounds with a draft")
    # TODO: which rounds ended with a rejection?
    raise NotImplementedError("level08.speedup.estimate_alpha")


def speedup(alpha: float, gamma: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Return how many times as many tokens a second come out as without drafts.

    draft_cost   of one drafted token, and verify_cost of the pass over gamma + 1 tokens, both in plain decode steps

    The draft is made one token after the other, then the pass runs. Below 1 it is a loss.
    Example: alpha 0.5, gamma 2, draft_cost 0.1: 1.75 tokens in 1.2 steps -> 1.458.
    ValueError: draft_cost below 0, verify_cost not above 0; as expected_tokens.

    ● · about 1 line · part of best_gamma
    """
    if draft_cost < 0 or verify_cost <= 0:
        raise ValueError(f"a draft costs 0 or more and a pass more than 0, not {draft_cost} and {verify_cost}")
    # TODO: tokens of a round over its steps
    raise NotImplementedError("level08.speedup.best_gamma")


def best_gamma(
    alpha: float, draft_cost: float, max_gamma: int, verify_cost: Callable[[int], float] = lambda gamma: 1.0
) -> int:
    """Return the draft length, 0 to max_gamma, with the largest speedup; the smallest such length on a tie.

    verify_cost(gamma)  of the pass over gamma + 1 tokens; the rest as in `speedup`

    0 says that drafts do not pay. Example: alpha 0.5, draft_cost 0.1: 1, 1.364, 1.458, 1.442 for gamma 0 to 3 -> 2.
    ValueError: max_gamma below 0; as speedup.

    ●● · about 2 lines · needs level08.speedup.expected_tokens
    """
    if max_gamma < 0:
        raise ValueError(f"a draft has 0 or more tokens, so max_gamma is 0 or more, not {max_gamma}")
    # TODO: the largest of a few numbers; which one on a tie?
    raise NotImplementedError("level08.speedup.best_gamma")


def verify_cost(
    config: Config,
    batch: int,
    context_len: int,
    gamma: int,
    hardware: Hardware,
    bytes_per_param: float = 2,
    bytes_per_element: float = 2,
) -> float:
    """Return what a pass over gamma + 1 tokens of each of `batch` sequences costs, in plain decode steps of that batch.

    gamma  drafted tokens of a sequence, 0 or more; the other arguments as in level 04's decode_step_cost

    Both passes last as level 04's step_seconds says. The larger one does the FLOPs of a decode step gamma + 1 times,
    each token attending to context_len tokens, and moves the bytes of one: a sequence's cache is read once for all of
    its tokens. Example: Llama-3-8B in bfloat16 on an H100, context 1, gamma 4: 1 for batch 1, 2.165 for 128.
    ValueError: gamma below 0; as decode_step_cost.

    ●● · about 3 lines
    """
    if gamma < 0:
        raise ValueError(f"gamma counts drafted tokens, so it is 0 or more, not {gamma}")
    # TODO: what do more tokens of the same sequences add to a step?
    raise NotImplementedError("level08.speedup.verify_cost")
