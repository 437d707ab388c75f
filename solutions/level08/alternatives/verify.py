"""Right programs, written another way, for level08.verify. `alternative` is given when this is read."""

from collections.abc import Sequence
from itertools import chain, islice, takewhile

import numpy as np
import torch

from level03.drawing import inverse_cdf


def _checked_choices(draft, choices):
    if isinstance(choices, Sequence) and len(choices) != len(draft) + 1:
        raise ValueError("a choice for each drafted token and one more")
    return iter(choices)


def _choices_recursive(draft, choices):
    choices = _checked_choices(draft, choices)

    def rest(i):
        choice = next(choices)
        return [choice, *rest(i + 1)] if i < len(draft) and draft[i] == choice else [choice]

    return rest(0)


def _choices_with_an_end(draft, choices):
    """A token that no choice is behind the draft: the bonus differs from it."""
    kept = []
    for token, choice in zip(chain(draft, [None]), _checked_choices(draft, choices)):
        kept.append(int(choice))
        if token is None or int(token) != kept[-1]:
            break
    return kept


def _choices_counted(draft, choices):
    """How many are accepted, then that many of the draft, and the choice that ended it."""
    choices, last, n = _checked_choices(draft, choices), None, 0
    while True:
        last = next(choices)
        if n == len(draft) or last != draft[n]:
            return [*islice(draft, n), last]
        n += 1


def _choices_takewhile(draft, choices):
    choices, ended = _checked_choices(draft, choices), []

    def accepted(token):
        ended[:] = [next(choices)]
        return ended[0] == token

    kept = list(takewhile(accepted, draft))
    return kept + (ended if len(kept) < len(draft) else [next(choices)])


alternative("level08.verify.verify_choices", "recursive", program=_choices_recursive)
alternative("level08.verify.verify_choices", "with_an_end", program=_choices_with_an_end)
alternative("level08.verify.verify_choices", "counted", program=_choices_counted)
alternative("level08.verify.verify_choices", "takewhile", program=_choices_takewhile)


def _same(p, q):
    if p.ndim != 1 or p.shape != q.shape:
        raise ValueError("one vocabulary")


def _rate_by_distance(p, q):
    _same(p, q)
    return 1 - (p - q).abs().sum().item() / 2


def _rate_by_surplus(p, q):
    _same(p, q)
    return 1 - (p.double() - q.double()).clamp(min=0).sum().item()


def _rate_weighted(p, q):
    _same(p, q)
    drafted = q > 0
    return float((q[drafted] * (p[drafted] / q[drafted]).clamp(max=1)).sum())


def _rate_in_python(p, q):
    _same(p, q)
    return sum(map(min, p.tolist(), q.tolist()))


def _residual_of_the_minimum(p, q):
    """p without what both have."""
    _same(p, q)
    left = p - torch.minimum(p, q)
    return left / left.sum() if bool(left.any()) else p.clone()


def _residual_in_float64(p, q):
    _same(p, q)
    left = torch.relu(p.double() - q.double())
    return (left / left.sum()).to(p.dtype) if left.max() > 0 else p


def _residual_in_place_on_a_copy(p, q):
    _same(p, q)
    left = p.clone()
    left -= q
    left[left < 0] = 0
    if not left.sum():
        return p.clone()
    return left.div_(left.sum())


def _residual_by_numpy(p, q):
    _same(p, q)
    left = np.maximum(p.numpy() - q.numpy(), 0)
    total = left.sum()
    return torch.from_numpy(left / total) if total else p.detach().clone()


def _residual_of_rows(p, q):
    """As for many rows, without a branch."""
    _same(p, q)
    left = torch.where(p > q, p - q, 0)
    total = left.sum(-1, keepdim=True)
    return torch.where(total > 0, left / total, p)


alternative("level08.verify.residual", "rate_by_distance", program=_rate_by_distance, part="acceptance_rate")
alternative("level08.verify.residual", "rate_by_surplus", program=_rate_by_surplus, part="acceptance_rate")
alternative("level08.verify.residual", "rate_weighted", program=_rate_weighted, part="acceptance_rate")
alternative("level08.verify.residual", "rate_in_python", program=_rate_in_python, part="acceptance_rate")
alternative("level08.verify.residual", "of_the_minimum", program=_residual_of_the_minimum)
alternative("level08.verify.residual", "through_float64", program=_residual_in_float64)
alternative("level08.verify.residual", "in_place_on_a_copy", program=_residual_in_place_on_a_copy)
alternative("level08.verify.residual", "by_numpy", program=_residual_by_numpy)
alternative("level08.verify.residual", "of_rows", program=_residual_of_rows)


def _checked_rows(draft, q, p, accept_u):
    g = len(draft)
    if len(q) != g or len(p) != g + 1 or len(accept_u) != g or q.shape[1:] != p.shape[1:]:
        raise ValueError("a row of q for each drafted token, and one more of p")
    if any((rows < 0).any() or ((rows.sum(-1) - 1).abs() > 1e-3).any() for rows in (q, p)):
        raise ValueError("rows of probabilities")
    if any(q[i, token] <= 0 for i, token in enumerate(draft)):
        raise ValueError("drawn from q")


def _at(probs, u):
    return int(inverse_cdf(probs, torch.tensor(u, dtype=torch.float64)))


def _sample_all_at_once(draft, q, p, accept_u, final_u):
    """All ratios at once, then the number of ones before the first zero."""
    _checked_rows(draft, q, p, accept_u)
    g = len(draft)
    ids = torch.tensor([int(x) for x in draft], dtype=torch.long)
    u = torch.tensor(accept_u, dtype=torch.float64)
    places = torch.arange(g)
    accepted = u * q[places, ids].double() < p[places, ids].double()
    n = int(accepted.long().cumprod(0).sum())
    row = p[n]
    if n < g:
        surplus = (p[n] - q[n]).clamp(min=0)
        row = surplus if surplus.sum() > 0 else p[n]
    return [*ids[:n].tolist(), _at(row, final_u)]


def _sample_with_an_empty_row(draft, q, p, accept_u, final_u):
    """Behind the draft q is 0: the residual there is p itself."""
    _checked_rows(draft, q, p, accept_u)
    padded = torch.cat([q, torch.zeros_like(p[:1])])
    n = 0
    while n < len(draft) and accept_u[n] < p[n, draft[n]].item() / q[n, draft[n]].item():
        n += 1
    left = (p[n] - padded[n]).clamp(min=0)
    return list(draft[:n]) + [_at(left if left.any() else p[n], final_u)]


def _sample_recursive(draft, q, p, accept_u, final_u):
    from level08.verify import residual

    _checked_rows(draft, q, p, accept_u)
    if not len(draft):
        return [_at(p[0], final_u)]
    token = int(draft[0])
    if accept_u[0] < min(1.0, float(p[0, token] / q[0, token])):
        return [token, *_sample_recursive(draft[1:], q[1:], p[1:], accept_u[1:], final_u)]
    return [_at(residual(p[0], q[0]), final_u)]


def _sample_in_python(draft, q, p, accept_u, final_u):
    """Lists and sums of Python, without torch."""
    _checked_rows(draft, q, p, accept_u)
    out, rows = [], p.tolist()
    last = rows[-1]
    for token, have, want, u in zip(draft, q.tolist(), rows, accept_u):
        if not u * have[token] < want[token]:
            last = [max(0.0, w - h) for w, h in zip(want, have)]
            last = last if sum(last) else want
            break
        out.append(int(token))
    goal, running = final_u * sum(last), 0.0
    for token, share in enumerate(last):
        running += share
        if running > goal:
            return [*out, token]
    return [*out, max(token for token, share in enumerate(last) if share)]


alternative("level08.verify.verify_sample", "all_at_once", program=_sample_all_at_once)
alternative("level08.verify.verify_sample", "with_an_empty_row", program=_sample_with_an_empty_row)
alternative("level08.verify.verify_sample", "recursive", program=_sample_recursive)
alternative("level08.verify.verify_sample", "in_python", program=_sample_in_python)
