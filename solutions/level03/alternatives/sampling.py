"""Right programs, written another way, for level03.sampling. `alternative` is given when this is read."""

import math
from math import inf

import torch


def _rows(logits):
    """Each row as a list of Python floats."""
    return logits.double().reshape(-1, logits.shape[-1]).tolist()


def _like(logits, rows):
    return torch.tensor(rows, dtype=torch.float64).to(logits.dtype).reshape(logits.shape)


def _temperature_by_lists(logits, temperature):
    if temperature < 0:
        raise ValueError("temperature")
    rows = _rows(logits)
    if temperature:
        return _like(logits, [[z / temperature for z in row] for row in rows])
    return _like(logits, [[0.0 if i == row.index(max(row)) else -inf for i in range(len(row))] for row in rows])


def _temperature_by_one_hot(logits, temperature):
    if temperature < 0:
        raise ValueError("temperature")
    if temperature > 0:
        return logits * (1 / temperature)
    best = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1])
    return torch.where(best.bool(), 0.0, -inf).to(logits.dtype)


def _temperature_by_first_maximum(logits, temperature):
    """The first of a tie is where the count of maxima so far is 1."""
    if temperature < 0:
        raise ValueError("temperature")
    if temperature != 0:
        return torch.div(logits.float() if logits.element_size() == 2 else logits, temperature).to(logits.dtype)
    top = logits == logits.max(dim=-1, keepdim=True).values
    first = top & (top.cumsum(-1) == 1)
    return torch.zeros_like(logits).masked_fill(~first, -inf)


alternative("level03.sampling.apply_temperature", "by_lists", program=_temperature_by_lists)
alternative("level03.sampling.apply_temperature", "by_one_hot", program=_temperature_by_one_hot)
alternative("level03.sampling.apply_temperature", "by_first_maximum", program=_temperature_by_first_maximum)


def _k_by_lists(logits, k):
    if k < 1:
        raise ValueError("k")
    out = []
    for row in _rows(logits):
        kept = set(sorted(range(len(row)), key=lambda i: (-row[i], i))[:k])
        out.append([z if i in kept else -inf for i, z in enumerate(row)])
    return _like(logits, out)


def _k_by_filling_up_a_tie(logits, k):
    """What exceeds the k-th value is in; of what equals it, as many as there is room for."""
    if k < 1:
        raise ValueError("k")
    if k >= logits.shape[-1]:
        return logits.clone()
    least = logits.topk(k).values[..., -1:]
    above, equal = logits > least, logits == least
    room = k - above.sum(-1, keepdim=True)
    return torch.where(above | (equal & (equal.cumsum(-1) <= room)), logits, torch.full_like(logits, -inf))


def _k_by_ranks(logits, k):
    """The rank of a token is the place of its id in the sorted order: a permutation turned around."""
    if k < 1:
        raise ValueError("k")
    rank = (-logits.double()).argsort(dim=-1, stable=True).argsort(dim=-1)
    return logits + torch.zeros_like(logits).masked_fill(rank >= k, -inf)


def _k_by_numpy(logits, k):
    import numpy as np

    if k < 1:
        raise ValueError("k")
    flat = logits.double().reshape(-1, logits.shape[-1]).numpy()
    order = np.argsort(-flat, axis=-1, kind="stable")
    out = np.full_like(flat, -np.inf)
    np.put_along_axis(out, order[:, :k], np.take_along_axis(flat, order[:, :k], -1), -1)
    return torch.from_numpy(out).to(logits.dtype).reshape(logits.shape)


alternative("level03.sampling.top_k", "by_lists", program=_k_by_lists)
alternative("level03.sampling.top_k", "by_filling_up_a_tie", program=_k_by_filling_up_a_tie)
alternative("level03.sampling.top_k", "by_ranks", program=_k_by_ranks)
alternative("level03.sampling.top_k", "by_numpy", program=_k_by_numpy)


def _p_by_lists(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p")
    out = []
    for row in _rows(logits):
        largest = max(row)
        weights = [math.exp(z - largest) for z in row]
        total, mass, kept = math.fsum(weights), 0.0, set()
        for i in sorted(range(len(row)), key=lambda i: -row[i]):
            if p < 1 and kept and mass >= p - 1e-12:
                break
            kept.add(i)
            mass += weights[i] / total
        out.append([z if i in kept else -inf for i, z in enumerate(row)])
    return _like(logits, out)


def _p_by_counting(logits, p):
    """How many sums fall short of p? One token more than those."""
    if not 0 < p <= 1:
        raise ValueError("p")
    probs, ids = logits.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
    short = (probs.cumsum(-1) < p - 1e-12).sum(-1, keepdim=True)
    size = torch.full_like(short, logits.shape[-1]) if p == 1 else short + 1
    return logits.masked_fill(ids.argsort(-1) >= size, -inf)


def _p_from_the_least_likely(logits, p):
    """As transformers does it: remove from the tail while what is removed is at most 1 - p."""
    if not 0 < p <= 1:
        raise ValueError("p")
    if p == 1:
        return logits + 0
    ordered, ids = logits.double().flip(-1).sort(dim=-1, stable=True)
    ids = logits.shape[-1] - 1 - ids
    removed = ordered.softmax(-1).cumsum(-1) <= 1 - p + 1e-12
    removed[..., -1] = False
    return torch.where(torch.zeros_like(removed).scatter(-1, ids, removed), -inf, logits.double()).to(logits.dtype)


def _p_by_searchsorted(logits, p):
    if not 0 < p <= 1:
        raise ValueError("p")
    flat = logits.reshape(-1, logits.shape[-1])
    out = torch.full_like(flat, -inf)
    for row, new in zip(flat, out):
        order = row.argsort(descending=True, stable=True)
        sums = torch.log_softmax(row.double(), -1).exp()[order].cumsum(0)
        size = int(torch.searchsorted(sums, torch.tensor(p - 1e-12, dtype=torch.float64))) + 1
        kept = order if p == 1 else order[:size]
        new[kept] = row[kept]
    return out.reshape(logits.shape)


alternative("level03.sampling.top_p", "by_lists", program=_p_by_lists)
alternative("level03.sampling.top_p", "by_counting", program=_p_by_counting)
alternative("level03.sampling.top_p", "from_the_least_likely", program=_p_from_the_least_likely)
alternative("level03.sampling.top_p", "by_searchsorted", program=_p_by_searchsorted)


def _m_by_probabilities(logits, m):
    if not 0 <= m <= 1:
        raise ValueError("m")
    probs = logits.double().softmax(-1)
    return torch.where(probs >= m * probs.amax(-1, keepdim=True), logits, torch.full_like(logits, -inf))


def _m_by_lists(logits, m):
    if not 0 <= m <= 1:
        raise ValueError("m")
    rows = [(row, max(row)) for row in _rows(logits)]
    return _like(logits, [[z if math.exp(z - largest) >= m else -inf for z in row] for row, largest in rows])


def _m_by_differences(logits, m):
    if not 0 <= m <= 1:
        raise ValueError("m")
    if m == 0:
        return logits.clone()
    below = (logits - logits.max(-1, keepdim=True).values).exp() < m
    return logits + torch.zeros_like(logits).masked_fill(below, -inf)


alternative("level03.sampling.min_p", "by_probabilities", program=_m_by_probabilities)
alternative("level03.sampling.min_p", "by_lists", program=_m_by_lists)
alternative("level03.sampling.min_p", "by_differences", program=_m_by_differences)


def _penalties_by_lists(
    logits, prompt_ids, output_ids, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0
):
    if repetition_penalty <= 0:
        raise ValueError("repetition_penalty")
    rows = logits.double().tolist()
    for i, row in enumerate(rows):
        for token in set(prompt_ids[i]) | set(output_ids[i]):
            row[token] *= repetition_penalty if row[token] <= 0 else 1 / repetition_penalty
        for token in output_ids[i]:
            row[token] -= frequency_penalty
        for token in set(output_ids[i]):
            row[token] -= presence_penalty
    return torch.tensor(rows, dtype=logits.dtype)


def _penalties_by_counts(
    logits, prompt_ids, output_ids, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0
):
    """Tables (B, V) of how often each token has occurred, as engines on accelerators have them."""
    if repetition_penalty <= 0:
        raise ValueError("repetition_penalty")
    size = logits.shape[-1]

    def counts(histories):
        return torch.stack(
            [torch.bincount(torch.tensor([*ids], dtype=torch.long), minlength=size) for ids in histories]
        )

    made = counts(output_ids)
    seen = (made + counts(prompt_ids)) > 0
    factor = torch.where(logits > 0, 1 / repetition_penalty, repetition_penalty)
    new = torch.where(seen, logits.double() * factor, logits.double())
    return (new - frequency_penalty * made - presence_penalty * (made > 0)).to(logits.dtype)


def _penalties_by_masks(
    logits, prompt_ids, output_ids, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0
):
    if repetition_penalty <= 0:
        raise ValueError("repetition_penalty")
    out = []
    for row, prompt, output in zip(logits.unbind(0), prompt_ids, output_ids):
        seen = torch.zeros(row.shape, dtype=torch.bool)
        seen[list(prompt) + list(output)] = True
        row = torch.where(seen & (row > 0), row / repetition_penalty, torch.where(seen, row * repetition_penalty, row))
        times = torch.zeros(row.shape, dtype=torch.float64)
        times.index_add_(0, torch.tensor(list(output), dtype=torch.int64), torch.ones(len(output), dtype=torch.float64))
        out.append(row - (presence_penalty * times.clamp(max=1) + frequency_penalty * times).to(row.dtype))
    return torch.stack(out)


alternative("level03.sampling.apply_penalties", "by_lists", program=_penalties_by_lists)
alternative("level03.sampling.apply_penalties", "by_counts", program=_penalties_by_counts)
alternative("level03.sampling.apply_penalties", "by_masks", program=_penalties_by_masks)
