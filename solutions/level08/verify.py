"""Which of the drafted tokens stay, and which token comes after them: the output is what it would be without a draft.

Letters in the shapes: g drafted tokens, V entries of the vocabulary. Random numbers are arguments, as in level 03.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from level03.drawing import inverse_cdf


def verify_choices(draft: Sequence[int], choices: Iterable[int]) -> list[int]:
    """Return the tokens that a pass over the draft gives: 1 to g + 1 of them, each one of the target's choices.

    draft    g tokens, may be empty
    choices  g + 1 tokens: choices[i] is what the target chooses after draft[:i]. They may come from a generator, which
             works for each one: no more of them are taken than the result has

    Choices are kept up to and with the first that is not the drafted token: what comes after it was computed behind a
    token that is not there. If all of the draft is right, the last choice is a bonus.
    Example: draft 4, 7, 9: choices 4, 7, 2, 5 -> [4, 7, 2]; choices 4, 7, 9, 5 -> [4, 7, 9, 5].
    ValueError: a sequence of another length. arXiv 2211.17192, at temperature 0.

    ● · about 6 lines
    """
    if isinstance(choices, Sequence) and len(choices) != len(draft) + 1:
        raise ValueError(f"{len(draft)} drafted tokens need {len(draft) + 1} choices, not {len(choices)}")
    # solution:begin in turn: is the choice the drafted token?
    choices = iter(choices)
    kept: list[int] = []
    for token in draft:
        kept.append(next(choices))
        if kept[-1] != token:
            return kept
    return [*kept, next(choices)]
    # solution:end


def acceptance_rate(p: Tensor, q: Tensor) -> float:
    """Return the probability that a token drawn from q is accepted, if p is what it should have been drawn from.

    p, q  (V,) float, probabilities

    It is 1 minus the total variation distance. Example: p = .2, .4, .4 and q = .5, .25, .25 -> 0.7.
    ValueError: p and q of different shapes.

    ● · about 1 line · part of residual
    """
    same_vocabulary(p, q)
    # solution:begin of each token: how much of q is accepted?
    return float(torch.minimum(p, q).sum())
    # solution:end


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Return the distribution (V,) to draw from after a rejection: what p has beyond q, made to sum to 1.

    p, q  (V,) float of one dtype, probabilities; both stay as they are. The result has that dtype

    Where p has nothing at all beyond q, the result is p: the two are equal, up to rounding. The least surplus counts.
    Example: p = .2, .4, .4 and q = .5, .25, .25: .15 and .15 are left over -> [0, .5, .5].
    ValueError: p and q of different shapes. arXiv 2211.17192, section 2.3; arXiv 2302.01318, theorem 1.

    ●● · about 3 lines
    """
    same_vocabulary(p, q)
    # solution:begin only what is missing; is there any?
    missing = (p - q).clamp(min=0)
    total = missing.sum()
    return missing / total if total > 0 else p.clone()
    # solution:end


def verify_sample(draft: Sequence[int], q: Tensor, p: Tensor, accept_u: Sequence[float], final_u: float) -> list[int]:
    """Return 1 to g + 1 tokens, distributed as if each had been drawn from the target: accepted ones and one more.

    draft     g tokens, may be empty; draft[i] was drawn from q[i]
    q         (g, V) float, and p (g + 1, V) float: probabilities of the drafter and of the target, after temperature
              and filters; p[i] is the target's after draft[:i]. Both stay as they are
    accept_u  g numbers in [0, 1): draft[i], call it x, is accepted if accept_u[i] · q[i, x] < p[i, x]
    final_u   a number in [0, 1): the last token is the `inverse_cdf` of its distribution at final_u

    The first rejection ends it, with a token from the `residual` there. If nothing is rejected, the last token comes
    from p[g]. Example: p = .2, .4, .4 and q = .5, .25, .25, draft 0: accept_u .39 accepts it, .41 does not, and a token
    from [0, .5, .5] replaces it: 1 for final_u .2.
    ValueError: lengths that do not fit, rows that are no probabilities, a drafted token of probability 0 in q.
    Speculative sampling: arXiv 2211.17192, algorithm 1; arXiv 2302.01318, algorithm 2.

    ●●● · about 5 lines · needs level08.verify.residual
    """
    fitting(draft, q, p, accept_u)
    # solution:begin accept in turn; from what does the last token come, after a rejection and without one?
    for i, token in enumerate(draft):
        # subtle: p < q · u and not the ratio p / q: nothing to divide by
        if accept_u[i] * q[i, token] >= p[i, token]:
            return [*draft[:i], draw(residual(p[i], q[i]), final_u)]
    return [*draft, draw(p[-1], final_u)]
    # solution:end


# ---- given


def draw(probs: Tensor, u: float) -> int:
    """The token of (V,) probabilities in whose part of [0, 1) the number u falls: level 03's inverse_cdf for a row."""
    return int(inverse_cdf(probs, torch.tensor(u, dtype=torch.float64)))


def same_vocabulary(p: Tensor, q: Tensor) -> None:
    if p.shape != q.shape or p.dim() != 1:
        raise ValueError(f"p and q are distributions over one vocabulary, not {tuple(p.shape)} and {tuple(q.shape)}")


def fitting(draft: Sequence[int], q: Tensor, p: Tensor, accept_u: Sequence[float]) -> None:
    """Raise ValueError for what `verify_sample` cannot be right on."""
    g = len(draft)
    if len(q) != g or len(p) != g + 1 or len(accept_u) != g or q.shape[1:] != p.shape[1:]:
        raise ValueError(
            f"{g} drafted tokens need as many rows of q and numbers, and one more row of p over the same vocabulary, "
            f"not q {tuple(q.shape)}, p {tuple(p.shape)} and {len(accept_u)} numbers"
        )
    for name, rows in (("q", q), ("p", p)):
        if rows.numel() and (rows.min() < 0 or (rows.sum(-1) - 1).abs().max() > 1e-3):
            raise ValueError(f"each row of {name} holds probabilities, which sum to 1: apply softmax to logits first")
    if any(q[i, token] <= 0 for i, token in enumerate(draft)):
        raise ValueError("a drafted token has probability 0 in q: q must be what the draft was drawn from")
