"""Right programs, written another way, for level14.grpo. `alternative` is given when this is read."""

import torch

GRPO = "level14.grpo.grpo_loss"


def _picked(
    logp,
    logp_old,
    advantages,
    mask,
    *,
    eps_low=0.2,
    eps_high=0.2,
    logp_ref=None,
    beta=0.0,
    weight=None,
    how="token",
    max_tokens=None,
):
    """Only the tokens of the answers are looked at, one flat list of them; each has its share in the divisor."""
    from level14.grpo import clipped_objective, kl_k3

    if not mask.any(1).all() or beta < 0 or beta and logp_ref is None:
        raise ValueError("nothing to learn from")
    rows = mask.nonzero()[:, 0]
    counts = mask.sum(1)[rows]
    share = {"token": len(rows), "sequence": counts * len(mask), "constant": len(mask) * (max_tokens or 0)}[how]
    loss = -clipped_objective(logp[mask], logp_old[mask], advantages[rows], eps_low, eps_high)
    if weight is not None:
        loss = loss * weight[mask].detach()
    if beta > 0:
        loss = loss + beta * kl_k3(logp[mask], logp_ref[mask])
    return (loss / share).sum()


def _row_by_row(logp, logp_old, advantages, mask, *, logp_ref=None, beta=0.0, weight=None, **options):
    from level14.grpo import aggregate, clipped_objective, kl_k3

    if not mask.any(1).all() or beta < 0 or beta and logp_ref is None:
        raise ValueError("nothing to learn from")
    eps = {name: options.pop(name) for name in ("eps_low", "eps_high") if name in options}
    losses = torch.zeros_like(logp)
    for i, (there, advantage) in enumerate(zip(mask, advantages)):
        each = -clipped_objective(logp[i, there], logp_old[i, there], advantage, **eps)
        each = each if weight is None else each * weight[i, there].detach()
        if beta:
            each = each + beta * kl_k3(logp[i, there], logp_ref[i, there])
        losses[i, there] = each
    return aggregate(losses, mask, **options)


def _advantages_in_a_loop(rewards, normalize_std=True, eps=1e-6):
    from statistics import mean, stdev

    if rewards.dim() != 2 or rewards.shape[1] < 2:
        raise ValueError("groups of 2 and more")
    found = torch.zeros_like(rewards)
    for i, row in enumerate(rewards.tolist()):
        there = [x for x in row if x == x]
        for j, x in enumerate(row):
            if x == x and len(there) > 1:
                found[i, j] = (x - mean(there)) / (stdev(there) + eps if normalize_std else 1)
    return found


def _advantages_by_torch(rewards, normalize_std=True, eps=1e-6):
    """torch's own std, of each row's rewards."""
    if rewards.dim() != 2 or rewards.shape[1] < 2:
        raise ValueError("groups of 2 and more")
    rows = []
    for row in rewards.double():
        there = ~row.isnan()
        known = row[there]
        row = torch.where(there, row - known.mean() if len(known) > 1 else 0 * row.nan_to_num(), 0)
        rows.append(row / (known.std() + eps) if normalize_std and len(known) > 1 else row)
    return torch.stack(rows).to(rewards.dtype)


def _objective_by_cases(logp, logp_old, advantages, eps_low=0.2, eps_high=0.2):
    """A bound on one side only: above where the advantage is positive, below where it is negative."""
    ratio = (logp - logp_old.detach()).clip(-20, 20).exp()
    advantages = advantages.detach()
    bounded = torch.where(advantages >= 0, ratio.clamp(max=1 + eps_high), ratio.clamp(min=1 - eps_low))
    return bounded * advantages


def _objective_as_a_loss(logp, logp_old, advantages, eps_low=0.2, eps_high=0.2):
    """Minus the larger of two losses, as in TRL and verl."""
    ratio = torch.exp(torch.clamp(logp - logp_old.detach(), min=-20, max=20))
    constant = advantages.detach()
    return -torch.max(-constant * ratio, -constant * torch.clip(ratio, 1 - eps_low, 1 + eps_high))


def _k3_by_expm1(logp, logp_ref):
    d = torch.clamp(logp_ref.detach() - logp, -20.0, 20.0)
    return torch.expm1(d) - d


def _weight_in_logs(logp_trainer, logp_engine, cap=2.0):
    from math import log

    if cap <= 0:
        raise ValueError("a cap above 0")
    with torch.no_grad():
        return (logp_trainer - logp_engine).clamp(max=log(cap)).exp()


def _shares(values, mask, how="token", max_tokens=None):
    """A weight for each token, and one sum."""
    if how not in ("token", "sequence", "constant") or (how == "constant") != (max_tokens is not None):
        raise ValueError("three divisors")
    B, counts = len(mask), mask.sum(1, keepdim=True)
    divisor = counts.sum() if how == "token" else B * counts if how == "sequence" else B * max_tokens
    return (torch.where(mask, values, 0.0) / divisor).sum()


alternative(GRPO, "picked", program=_picked)
alternative(GRPO, "row_by_row", program=_row_by_row)
alternative(GRPO, "advantages_in_a_loop", program=_advantages_in_a_loop, part="group_advantages")
alternative(GRPO, "advantages_by_torch", program=_advantages_by_torch, part="group_advantages")
alternative(GRPO, "objective_by_cases", program=_objective_by_cases, part="clipped_objective")
alternative(GRPO, "objective_as_a_loss", program=_objective_as_a_loss, part="clipped_objective")
alternative(GRPO, "k3_by_expm1", program=_k3_by_expm1, part="kl_k3")
alternative(GRPO, "weight_in_logs", program=_weight_in_logs, part="truncated_weight")
alternative(GRPO, "shares", program=_shares, part="aggregate")
