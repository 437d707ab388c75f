"""Sparse experts: a router sends each token to k of E MLPs, so a token reads k/E of their weights.

Letters in the shapes: T tokens, E experts, k experts of a token, d is d_model.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def route(logits: Tensor, k: int, renormalize: bool = True) -> tuple[Tensor, Tensor]:
    """Return (expert_ids, gates), each (T, k): the k most likely experts of each token, and how much each one counts.

    logits      (T, E) float, the router's scores; softmax is over all E experts, in float32 or better
    expert_ids  int64, the most likely first; of equally likely experts the lower id
    gates       in logits' dtype, rounded last: the experts' probabilities, divided by their sum if `renormalize`

    Mixtral renormalizes, Qwen-MoE models do or do not (norm_topk_prob).
    Example: logits [1, 3, 2, 0], k = 2: experts [1, 2], gates [0.7311, 0.2689]; [0.6439, 0.2369] as they are.
    ValueError: k outside 1 .. E. Mixtral, arXiv 2401.04088.

    ● · about 4 lines
    """
    check_k(logits, k)
    # TODO: probabilities first, then who has the largest, then do they sum to 1?
    raise NotImplementedError("level11.moe.route")


def route_sigmoid(logits: Tensor, bias: Tensor, k: int, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return (expert_ids, gates), each (T, k), where the router's scores are sigmoid(logits), each expert for itself.

    logits  (T, E) float;  bias  (E,), raised for experts that get too few tokens and lowered for those with too many
    gates   in logits' dtype, rounded last: the k scores over their sum, times `scale`

    Chosen are the k largest of score + bias, the largest first, of equal ones the lower id. The bias chooses; it is no
    part of a gate. Scores in float32 or better.
    Example: logits [0, 0, 2], bias [0, 0.9, 0], k = 2: scores [0.5, 0.5, 0.881], experts [1, 2], gates
    [0.3621, 0.6379]. ValueError: k outside 1 .. E. DeepSeek-V3, arXiv 2412.19437, section 2.1.2 (one group of experts).

    ●● · about 4 lines
    """
    check_k(logits, k)
    # TODO: who is chosen, and what are they worth?
    raise NotImplementedError("level11.moe.route_sigmoid")


def adjust_bias(bias: Tensor, expert_ids: Tensor, speed: float) -> Tensor:
    """Return the bias (E,) for the next batch: lower by `speed` for experts with more than the mean load, higher by
    `speed` for those with less, the same for those with exactly the mean.

    bias  (E,) float, not changed;  expert_ids  (T, k) int64, what route_sigmoid chose; the mean is T · k / E

    No gradient is needed, and no loss. Example: experts [[0, 1], [0, 2]] of 4, speed 0.1: loads 2, 1, 1, 0 beside a
    mean of 1: [-0.1, 0, 0, 0.1] is added. DeepSeek-V3, arXiv 2412.19437, section 2.1.2.

    ● · about 2 lines · part of route_sigmoid
    """
    # TODO: who is above the mean, who below?
    raise NotImplementedError("level11.moe.route_sigmoid")


def load_balance_loss(probs: Tensor, expert_ids: Tensor) -> Tensor:
    """Return E · sum over experts of f_i P_i, a scalar: 1 when tokens and probabilities are spread evenly.

    probs       (T, E) float, of the router, each row sums to 1
    expert_ids  (T, k) int64;  f_i is the part of all T · k choices that fell on expert i, so f sums to 1
    P_i         the mean of probs[:, i]. The gradient reaches the router through it alone

    transformers' loss for Mixtral is k times this one (its f sums to k).
    Example: probs [[0.9, 0.1], [0.8, 0.2]], both tokens to expert 0: 2 · (1 · 0.85 + 0 · 0.15) = 1.7.
    ValueError: no tokens. Switch Transformer, arXiv 2101.03961, section 2.2.

    ● · about 3 lines
    """
    if not probs.shape[0]:
        raise ValueError("the load of no tokens is not defined: give at least one")
    # TODO: count what was chosen, average what was likely
    raise NotImplementedError("level11.moe.load_balance_loss")


def moe_forward(x: Tensor, expert_ids: Tensor, gates: Tensor, experts: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """Return sum over j of gates[:, j] · expert expert_ids[:, j] of x: (T, d); level 09's expert_parallel on one rank.

    x           (T, d) float; T may be 0
    expert_ids  (T, k) int64, different ones in each row;  gates  (T, k), of x's dtype
    experts     E functions (m, d) -> (m, d), row by row, m at least 1; a call reads all weights of that expert

    An expert is called once with all its tokens, in their order in x, and not at all if it has none. No token is
    dropped, however full an expert is.
    Example: experts x + 1 and 10x, x = [[3]], expert_ids [[0, 1]], gates [[0.5, 0.1]]: 0.5 · 4 + 0.1 · 30 = [[5]].

    ●●● · about 5 lines · needs level11.moe.route
    """
    # TODO: for each expert that is wanted: which tokens, and at which of their k places?
    raise NotImplementedError("level11.moe.moe_forward")


def check_k(logits: Tensor, k: int) -> None:
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"a token goes to 1..{logits.shape[-1]} experts, not {k}")
