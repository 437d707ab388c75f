"""Right programs, written another way, for level03.drawing. `alternative` is given when this is read."""

import math

import numpy as np
import torch


def _refuse(u):
    if u.numel() and not ((u >= 0) & (u < 1)).all():
        raise ValueError("u lies in [0, 1)")


def _searched(probs, u):
    """A binary search in the running sum."""
    _refuse(u)
    mass = probs.to(torch.float64).cumsum(-1).contiguous()
    return torch.searchsorted(mass, (u.to(torch.float64) * mass[..., -1]).unsqueeze(-1), right=True).squeeze(-1)


def _row_by_row(probs, u):
    """numpy, one row after the other; normalized first, and never behind the last possible token."""
    _refuse(u)
    ids = []
    for row, x in zip(probs.double().reshape(-1, probs.shape[-1]).numpy(), u.double().reshape(-1).tolist()):
        mass = np.cumsum(row / row.sum())
        ids.append(min(int(np.searchsorted(mass, x, side="right")), int(np.flatnonzero(row)[-1])))
    return torch.tensor(ids, dtype=torch.int64).reshape(u.shape)


def _first_true(probs, u):
    """The first place where the running sum is beyond; a token without probability is left out by hand."""
    _refuse(u)
    mass = torch.cumsum(probs.double(), dim=-1)
    beyond = (mass > u.double()[..., None] * mass[..., -1:]) & (probs > 0)
    return beyond.to(torch.uint8).argmax(dim=-1)


def _multinomial(logits, generator=None):
    """torch's own draw, over rows that are flattened."""
    if torch.isneginf(logits).all(-1).any():
        raise ValueError("nothing is left")
    flat = torch.softmax(logits.double(), -1).reshape(-1, logits.shape[-1])
    return torch.multinomial(flat, 1, generator=generator).reshape(logits.shape[:-1])


def _by_gumbel(logits, generator=None):
    """A number for each entry, in float64."""
    from level03.drawing import gumbel_max

    if (logits.amax(-1) == -math.inf).any():
        raise ValueError("nothing is left")
    return gumbel_max(logits, torch.rand(logits.shape, generator=generator, dtype=torch.float64))


def _exponential_race(logits, u):
    """The smallest of -ln(u) / p, in logarithms: the same comparison, turned around."""
    if logits.shape != u.shape:
        raise ValueError("a number for each logit")
    waiting = -torch.log(u.double().maximum(torch.tensor(2.0**-1000, dtype=torch.float64)))
    return (waiting.log() - logits.double()).argmin(-1)


def _gumbel_of_logprobs(logits, u):
    """On log-probabilities, and the 0 is replaced by where."""
    if logits.shape != u.shape:
        raise ValueError("a number for each logit")
    u = torch.where(u == 0, 1e-40, u.double())
    return torch.argmax(logits.double().log_softmax(-1).sub(u.log().neg().log()), dim=-1)


def _in_numpy(logits, u):
    """numpy's argmax of the sum."""
    if logits.shape != u.shape:
        raise ValueError("a number for each logit")
    u = np.maximum(u.double().numpy(), np.finfo(np.float64).tiny)
    return torch.as_tensor(np.argmax(logits.double().numpy() - np.log(-np.log(u)), axis=-1), dtype=torch.int64)


def _logit_less_logsumexp(logits, ids):
    if len(ids) != len(logits) or ids.ndim != 1:
        raise ValueError("one id for each row")
    wide = logits.float()
    return wide[torch.arange(len(ids)), ids.long()] - torch.logsumexp(wide, dim=-1)


def _cross_entropy(logits, ids):
    """A loss without reduction is the negative log-probability."""
    if ids.shape != logits.shape[:1]:
        raise ValueError("one id for each row")
    return -torch.nn.functional.cross_entropy(logits.double(), ids.long(), reduction="none").float()


def _from_the_largest(logits, ids):
    """By hand in float64: subtract the largest, sum, one row at a time."""
    if ids.shape != logits.shape[:-1]:
        raise ValueError("one id for each row")
    rows = [row - row.max() for row in logits.double()]
    return torch.stack([row[i] - row.exp().sum().log() for row, i in zip(rows, ids.tolist())]).to(torch.float32)


alternative("level03.drawing.inverse_cdf", "searched", program=_searched)
alternative("level03.drawing.inverse_cdf", "row_by_row", program=_row_by_row)
alternative("level03.drawing.inverse_cdf", "first_true", program=_first_true)
alternative("level03.drawing.inverse_cdf", "multinomial", program=_multinomial, part="sample")
alternative("level03.drawing.inverse_cdf", "by_gumbel", program=_by_gumbel, part="sample")
alternative(
    "level03.drawing.inverse_cdf",
    "a_number_of_64_bits",
    change=("device=logits.device)", "device=logits.device, dtype=torch.float64)"),
)
alternative("level03.drawing.gumbel_max", "exponential_race", program=_exponential_race)
alternative("level03.drawing.gumbel_max", "of_logprobs", program=_gumbel_of_logprobs)
alternative("level03.drawing.gumbel_max", "in_numpy", program=_in_numpy)
alternative("level03.drawing.token_logprobs", "logit_less_logsumexp", program=_logit_less_logsumexp)
alternative("level03.drawing.token_logprobs", "cross_entropy", program=_cross_entropy)
alternative("level03.drawing.token_logprobs", "from_the_largest", program=_from_the_largest)
