"""Learning from rewards: an answer is good if it is better than the others that the same prompt got.

Letters in the shapes: P prompts, G answers to each, B = P · G rows, T columns of a batch.
"""

import torch
from torch import Tensor

LIMIT = 20.0  # differences of log-probabilities are cut to ±LIMIT before they are exponentiated


def group_advantages(rewards: Tensor, normalize_std: bool = True, eps: float = 1e-6) -> Tensor:
    """Return how much better than its group each answer is, (P, G): (reward - mean) / (std + eps), of its own row.

    rewards        (P, G) float; NaN for an answer that got none: it is left out of mean and std, and its advantage is 0
    normalize_std  False leaves out the division, as Dr. GRPO does (arXiv 2503.20783)

    std is that of a sample (divided by one less than the number of rewards). Equal rewards, or a single one: all 0.
    Computed in float64, for in float32 the mean of 0.9 three times is not 0.9, and eps makes that an advantage of 0.06.
    Example: rewards 1, 0, 0, 1 -> 0.866, -0.866, -0.866, 0.866; without the division ±0.5.
    ValueError: not (P, G) with G at least 2. arXiv 2402.03300.

    ● · about 7 lines · part of grpo_loss
    """
    if rewards.dim() != 2 or rewards.shape[1] < 2:
        raise ValueError(f"rewards are (prompts, answers), of 2 or more answers each, not {tuple(rewards.shape)}")
    # solution:begin the mean of those that are there; how far from it is an answer without a reward?
    missing = rewards.isnan()
    # subtle: a reward that is missing is not a reward of 0, which would be a judgement
    exact = rewards.double()
    centred = (exact - exact.nanmean(1, keepdim=True)).masked_fill(missing, 0)
    if not normalize_std:
        return centred.to(rewards.dtype)
    others = ((~missing).sum(1, keepdim=True) - 1).clamp(min=1)
    std = (centred.square().sum(1, keepdim=True) / others).sqrt()
    return (centred / (std + eps)).to(rewards.dtype)
    # solution:end


def clipped_objective(
    logp: Tensor, logp_old: Tensor, advantages: Tensor, eps_low: float = 0.2, eps_high: float = 0.2
) -> Tensor:
    """Return min(ratio · advantage, clip(ratio, 1 - eps_low, 1 + eps_high) · advantage), elementwise: to be raised.

    logp, logp_old  log-probabilities of the tokens now, and when they were written; ratio = exp(logp - logp_old), of a
                    difference that is cut to ±20 first
    advantages      of a shape that broadcasts against them

    The gradient flows through logp alone. At ratio 1 it is advantage · (gradient of logp), not 0.
    Example: logp - logp_old of .5, -.5, .5, -.5, advantages 1, 1, -1, -1 -> 1.2, 0.6065, -1.6487, -0.8.
    PPO, arXiv 1707.06347; a larger eps_high: DAPO, arXiv 2503.14476.

    ● · about 3 lines · part of grpo_loss
    """
    # solution:begin a ratio with a gradient; which of the two is the smaller one where the advantage is negative?
    ratio = (logp - logp_old.detach()).clamp(-LIMIT, LIMIT).exp()
    clipped = ratio.clamp(1 - eps_low, 1 + eps_high)
    return torch.minimum(ratio * advantages.detach(), clipped * advantages.detach())
    # solution:end


def kl_k3(logp: Tensor, logp_ref: Tensor) -> Tensor:
    """Return exp(d) - d - 1 with d = logp_ref - logp, elementwise: an estimate of KL(model || reference), never below 0

    logp, logp_ref  log-probabilities by the model that wrote the tokens, and by the reference; d is cut to ±20 first

    Its mean over tokens that the model writes is the divergence (but for the cut). Where the two agree it is 0.
    Example: logp -2, logp_ref -1 -> e - 2 = 0.7183; the other way round 0.3679.
    Schulman, "Approximating KL divergence", 2020.

    ● · about 2 lines · part of grpo_loss
    """
    # solution:begin the tokens are the model's: which of the two is on top?
    d = (logp_ref.detach() - logp).clamp(-LIMIT, LIMIT)
    return d.exp() - d - 1
    # solution:end


def truncated_weight(logp_trainer: Tensor, logp_engine: Tensor, cap: float = 2.0) -> Tensor:
    """Return min(exp(logp_trainer - logp_engine), cap), elementwise, without a gradient: how to weigh tokens that one
    program wrote and another one learns from.

    logp_trainer, logp_engine  log-probabilities of the same tokens from the same weights: they differ by rounding, by
                               kernels, by a quantized cache

    Example: differences 0, 2, -1 -> 1, 2, 0.3679. ValueError: cap 0 or below. Behind it stands a report of 2025 (Yao et
    al., on engines that make training off-policy), and no paper behind the 2.

    ● · about 1 line · part of grpo_loss
    """
    if cap <= 0:
        raise ValueError(f"cap is the largest weight, above 0, not {cap}")
    # solution:begin a constant
    return (logp_trainer - logp_engine).exp().clamp(max=cap).detach()
    # solution:end


def aggregate(values: Tensor, mask: Tensor, how: str = "token", max_tokens: int | None = None) -> Tensor:
    """Return one number, a scalar, of a value for each token, (B, T), counting only where mask (B, T) is True.

    how  "token"     the mean of all tokens of the batch: a long answer has more say (DAPO)
         "sequence"  the mean of the rows' means: in a long answer each token has less say (GRPO as published)
         "constant"  the sum over B · max_tokens, the most that there could have been (Dr. GRPO)

    Every row has a token. Example: rows 4 and 0, 0, 0: "sequence" 2, "token" 1, "constant" with max_tokens 8: 0.25.
    ValueError: another how; "constant" without max_tokens.

    ● · about 5 lines · part of grpo_loss
    """
    if how not in ("token", "sequence", "constant") or (how == "constant") != (max_tokens is not None):
        raise ValueError(f'how is "token", "sequence", or "constant" with max_tokens, not {how!r} with {max_tokens}')
    # solution:begin three divisors
    sums, counts = values.masked_fill(~mask, 0).sum(1), mask.sum(1)
    if how == "sequence":
        return (sums / counts).mean()
    return sums.sum() / (counts.sum() if how == "token" else len(mask) * max_tokens)
    # solution:end


def grpo_loss(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    logp_ref: Tensor | None = None,
    beta: float = 0.0,
    weight: Tensor | None = None,
    how: str = "token",
    max_tokens: int | None = None,
) -> Tensor:
    """Return minus the `aggregate` of weight · clipped_objective - beta · kl_k3, over the tokens of the answers.

    logp        (B, T) of the model that learns: the gradient flows through it alone
    logp_old    (B, T) of the model that wrote the answers;  logp_ref  (B, T) of the reference, needed where beta > 0
    advantages  (B,): one for each answer, and every token of it gets that
    mask        (B, T) bool, True at the tokens of the answers, the end included. What stands elsewhere does not matter,
                NaN or not
    weight      (B, T) or None: of the objective, not of the KL

    Example: one row, logp = logp_old, advantage 1, mask 1, 1, 0, all else off: -1, and its gradient is -1/2, -1/2, 0.
    ValueError: a row without a token; beta below 0, or above 0 without logp_ref.
    arXiv 2402.03300, which takes how = "sequence"; "token", the default here, is that of arXiv 2503.14476.

    ●●● · about 7 lines
    """
    if not mask.any(1).all():
        raise ValueError("every answer has a token: leave out the rows in which the mask is False throughout")
    if beta < 0 or beta and logp_ref is None:
        raise ValueError(f"beta is 0, or above 0 with the log-probabilities of a reference, not {beta} with {logp_ref}")
    # solution:begin padding first; then objective, weight, penalty, mean; what is its sign?
    # subtle: infinities and NaN of the padding have to go before the arithmetic, since 0 · NaN is NaN in a gradient too
    logp, logp_old = (each.masked_fill(~mask, 0) for each in (logp, logp_old))
    gain = clipped_objective(logp, logp_old, advantages.unsqueeze(1), eps_low, eps_high)
    if weight is not None:
        gain = gain * weight.detach()
    if beta:
        gain = gain - beta * kl_k3(logp, logp_ref.masked_fill(~mask, 0))
    return -aggregate(gain, mask, how, max_tokens)
    # solution:end
