"""Right programs, written another way, for level07.online. `alternative` is given when this is read."""

import itertools
import math

import numpy as np
import torch

# ---- online_logsumexp


def _block(block):
    if block < 1:
        raise ValueError("at least one score")


def _score_by_score(scores, block):
    """A block may as well be read one by one."""
    _block(block)
    largest, total = -math.inf, 0.0
    for score in scores.tolist():
        if score == -math.inf:
            continue
        if score > largest:
            largest, total = score, total * math.exp(largest - score) + 1
        else:
            total += math.exp(score - largest)
    return largest, total


def _as_pairs_that_add(scores, block):
    """(largest, sum) of each block by itself, and the sum of two such pairs."""
    _block(block)

    def of(part):
        seen = part[part > -np.inf]
        return (seen.max(), np.exp(seen - seen.max()).sum()) if seen.size else (-np.inf, 0.0)

    def plus(a, b):
        (m, x), (n, y) = max(a, b), min(a, b)
        return (m, x + y * np.exp(n - m)) if y else (m, x)

    pair = (-np.inf, 0.0)
    for start in range(0, len(scores), block):
        pair = plus(pair, of(scores[start : start + block]))
    return float(pair[0]), float(pair[1])


def _rescaled_when_needed(scores, block):
    _block(block)
    m, s, at = None, 0.0, 0
    while at < scores.size:
        part = np.array(scores[at : at + block])
        at += block
        top = part.max()
        if np.isneginf(top):
            continue
        if m is None:
            m = top
        elif top > m:
            s *= math.exp(m - top)
            m = top
        s += np.exp(part - m).sum()
    return (-math.inf, 0.0) if m is None else (float(m), float(s))


def _in_torch(scores, block):
    _block(block)
    m, s = torch.tensor(-torch.inf, dtype=torch.float64), torch.tensor(0.0, dtype=torch.float64)
    for part in torch.from_numpy(np.asarray(scores).copy()).split(block):
        new = torch.maximum(m, part.max())
        base = torch.nan_to_num(new, neginf=0.0)
        s, m = s * (m - base).exp() + (part - base).exp().sum(), new
    return m.item(), s.item()


def _by_log_sums(scores, block):
    """One number is enough while running: the log of the sum, and the largest score beside it."""
    _block(block)
    largest, lse = -np.inf, -np.inf
    for start in range(0, scores.shape[0], block):
        part = scores[start : start + block]
        largest, lse = max(largest, np.max(part)), np.logaddexp(lse, np.logaddexp.reduce(part))
    return float(largest), math.exp(lse - largest) if largest > -np.inf else 0.0


for program in (_score_by_score, _as_pairs_that_add, _rescaled_when_needed, _in_torch, _by_log_sums):
    alternative("level07.online.online_logsumexp", program.__name__[1:], program=program)

# ---- online_update


def _update_by_where(m, denominator, acc, scores, values):
    top = torch.maximum(m, scores.max(dim=-1).values)
    seen = top > -torch.inf
    old = torch.where(seen, torch.exp(m - top), 1.0)
    p = torch.where(seen.unsqueeze(-1), torch.exp(scores - top.unsqueeze(-1)), 0.0)
    return top, old * denominator + p.sum(dim=-1), old.unsqueeze(-1) * acc + torch.matmul(p, values)


def _update_row_by_row(m, denominator, acc, scores, values):
    """Clones, filled in row by row, key by key."""
    m, denominator, acc = m.clone(), denominator.clone(), acc.clone()
    for at in itertools.product(*map(range, m.shape)):
        for key in range(scores.shape[-1]):
            score = scores[at][key].item()
            if score == -math.inf:
                continue
            old = m[at].item()
            top = max(old, score)
            shrink, weight = math.exp(old - top), math.exp(score - top)
            m[at] = top
            denominator[at] = denominator[at] * shrink + weight
            acc[at] = acc[at] * shrink + weight * values[at[:-1]][key]
    return m, denominator, acc


def _update_by_joining(m, denominator, acc, scores, values):
    """What was seen so far is one more key: its score is the maximum, its weight the sum."""
    joined = torch.cat([m.unsqueeze(-1), scores], -1)
    top = joined.amax(-1)
    p = torch.exp(joined - top.clamp(min=torch.finfo(top.dtype).min).unsqueeze(-1))
    old, p = p[..., 0], p[..., 1:]
    return (
        top,
        torch.addcmul(p.sum(-1), denominator, old),
        torch.einsum("...qk,...kd->...qd", p, values) + old[..., None] * acc,
    )


def _update_of_one_sum(m, denominator, acc, scores, values):
    """Denominator and accumulator as one tensor: a value of 1 in front of each."""
    both = torch.cat([denominator[..., None], acc], -1)
    values = torch.cat([torch.ones_like(values[..., :1]), values], -1)
    new = torch.maximum(m, scores.amax(-1))
    base = torch.nan_to_num(new, neginf=0.0)[..., None]
    both = both * torch.exp(m[..., None] - base) + torch.exp(scores - base) @ values
    return new, both[..., 0], both[..., 1:]


def _update_by_logs(m, denominator, acc, scores, values):
    """The block as a finished attention of its own, taken apart again."""
    lse = scores.logsumexp(-1)
    mean = scores.softmax(-1).nan_to_num(nan=0.0) @ values
    top = torch.maximum(m, scores.amax(-1))
    base = torch.where(torch.isneginf(top), torch.zeros_like(top), top)
    old, new = (m - base).exp(), (lse - base).exp()
    return top, denominator * old + new, acc * old[..., None] + mean * new[..., None]


for program in (_update_by_where, _update_row_by_row, _update_by_joining, _update_of_one_sum, _update_by_logs):
    alternative("level07.online.online_update", program.__name__[1:], program=program)


def _finalize_by_clamping(m, denominator, acc):
    """A sum is 0 or at least 1."""
    return acc / denominator.clamp(min=1).unsqueeze(-1), m + torch.log(denominator)


def _finalize_by_nan(m, denominator, acc):
    return torch.nan_to_num(acc / denominator[..., None], nan=0.0), denominator.log().add(m)


def _finalize_what_is_seen(m, denominator, acc):
    seen = denominator > 0
    out, lse = torch.zeros_like(acc), torch.full_like(m, -math.inf)
    out[seen] = acc[seen] / denominator[seen][:, None]
    lse[seen] = m[seen] + denominator[seen].log()
    return out, lse


for program in (_finalize_by_clamping, _finalize_by_nan, _finalize_what_is_seen):
    alternative("level07.online.online_update", program.__name__[1:], program=program, part="finalize")

# ---- merge


def _merge_by_logistic(out_a, lse_a, out_b, lse_b):
    gap = torch.nan_to_num(lse_a - lse_b)  # two empty parts: any weights will do
    a, b = torch.sigmoid(gap)[..., None], torch.sigmoid(-gap)[..., None]
    return out_a * a + out_b * b, torch.logaddexp(lse_a, lse_b)


def _merge_from_the_larger(out_a, lse_a, out_b, lse_b):
    larger = torch.maximum(lse_a, lse_b)
    base = torch.where(larger.isneginf(), 0, larger)
    a, b = (lse_a - base).exp(), (lse_b - base).exp()
    total = torch.where(a + b == 0, 1, a + b)
    return (out_a * a[..., None] + out_b * b[..., None]) / total[..., None], base + (a + b).log()


def _merge_by_softmax(out_a, lse_a, out_b, lse_b):
    lses = torch.stack([lse_a, lse_b], -1)
    weights = torch.nan_to_num(lses.softmax(-1), nan=0.0).unsqueeze(-2)
    out = weights @ torch.stack([out_a, out_b], -2)
    return out.squeeze(-2), lses.logsumexp(-1)


def _merge_as_a_step(out_a, lse_a, out_b, lse_b):
    """From a towards b, as ring attention does it; a part without keys is left out."""
    step = torch.sigmoid(lse_b - lse_a)
    step = torch.where(lse_b.isneginf(), 0, torch.where(lse_a.isneginf(), 1, step))
    out = torch.lerp(out_a, out_b, step[..., None])
    return out, torch.where(
        lse_b.isneginf(), lse_a, lse_a + torch.nn.functional.softplus(lse_b - lse_a, threshold=700)
    ).where(~lse_a.isneginf(), lse_b)


def _merge_by_update(out_a, lse_a, out_b, lse_b):
    """Two parts are two keys."""
    scores = torch.stack([lse_a, lse_b], -1)
    base = scores.amax(-1, keepdim=True).nan_to_num(neginf=0)
    weights = (scores - base).exp()
    total = weights.sum(-1)
    out = torch.einsum("...n,...nd->...d", weights, torch.stack((out_a, out_b), -2))
    return out / total.clamp(min=1)[..., None], base[..., 0] + total.log()


def _merge_row_by_row(out_a, lse_a, out_b, lse_b):
    out, lse = torch.zeros_like(out_a), torch.full_like(lse_a, -math.inf)
    for at in itertools.product(*map(range, lse.shape)):
        a, b = lse_a[at].item(), lse_b[at].item()
        top = max(a, b)
        if top == -math.inf:
            continue
        x, y = math.exp(a - top), math.exp(b - top)
        out[at], lse[at] = (x * out_a[at] + y * out_b[at]) / (x + y), top + math.log(x + y)
    return out, lse


for program in (
    _merge_by_logistic,
    _merge_from_the_larger,
    _merge_by_softmax,
    _merge_as_a_step,
    _merge_by_update,
    _merge_row_by_row,
):
    alternative("level07.online.merge", program.__name__[1:], program=program)
