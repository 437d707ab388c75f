"""Right programs, written another way, for level03.sampler. `alternative` is given when this is read."""

import math
from math import inf

import numpy as np
import torch


def _chain(row, p, prompt, output):
    """One row, a list of floats, through all steps."""
    row = list(row)
    for token in {*prompt, *output}:
        row[token] = row[token] / p.repetition_penalty if row[token] > 0 else row[token] * p.repetition_penalty
    for token in {*output}:
        row[token] -= p.presence_penalty + p.frequency_penalty * list(output).count(token)
    ranked = sorted(range(len(row)), key=lambda i: -row[i])
    if p.temperature == 0:
        return [0.0 if i == ranked[0] else -inf for i in range(len(row))]
    row = [z / p.temperature for z in row]
    ranked = ranked[: p.top_k or None]
    largest = row[ranked[0]]
    weights = [math.exp(row[i] - largest) for i in ranked]
    kept, mass = set(), 0.0
    for i, weight in zip(ranked, weights):
        if p.top_p < 1 and kept and mass >= p.top_p - 1e-12:
            break
        mass += weight / math.fsum(weights)
        if weight >= p.min_p:
            kept.add(i)
        else:
            break  # the rest is less likely still
    return [z if i in kept else -inf for i, z in enumerate(row)]


def _process_by_lists(logits, params, prompt_ids, output_ids):
    rows = [_chain(row, params, a, b) for row, a, b in zip(logits.tolist(), prompt_ids, output_ids)]
    return torch.tensor(rows, dtype=logits.dtype)


def _process_row_by_row(logits, params, prompt_ids, output_ids):
    """The level's own functions, one row at a time, and only those that are asked for."""
    from level03.sampling import apply_penalties, apply_temperature, min_p, top_k, top_p

    out = []
    for i in range(logits.shape[0]):
        row = apply_penalties(
            logits[i : i + 1],
            [prompt_ids[i]],
            [output_ids[i]],
            presence_penalty=params.presence_penalty,
            repetition_penalty=params.repetition_penalty,
            frequency_penalty=params.frequency_penalty,
        )[0]
        row = apply_temperature(row, params.temperature) if params.temperature != 1 else row
        row = top_k(row, params.top_k or row.shape[-1])
        row = top_p(row, params.top_p) if params.top_p < 1 else row
        out.append(min_p(row, params.min_p) if params.min_p else row)
    return torch.stack(out)


def _process_by_steps(logits, params, prompt_ids, output_ids):
    """A list of functions, folded over the logits; at temperature 0 nothing is left to truncate."""
    from functools import partial, reduce

    from level03 import sampling

    penalties = (params.repetition_penalty, params.presence_penalty, params.frequency_penalty)
    steps = [lambda z: sampling.apply_penalties(z, prompt_ids, output_ids, *penalties)]
    steps += [partial(sampling.apply_temperature, temperature=params.temperature)]
    if params.temperature > 0:
        steps += [partial(sampling.top_k, k=params.top_k)] if params.top_k > 0 else []
        steps += [partial(sampling.top_p, p=params.top_p), partial(sampling.min_p, m=params.min_p)]
    return reduce(lambda z, step: step(z), steps, logits)


alternative("level03.sampler.process", "by_lists", program=_process_by_lists)
alternative("level03.sampler.process", "row_by_row", program=_process_row_by_row)
alternative("level03.sampler.process", "by_steps", program=_process_by_steps)


def _choose_by_lists(logits, prompt_ids, output_ids, params):
    from level03.sampler import uniform

    if len(params) != len(logits):
        raise ValueError("params")
    tokens = []
    for row, prompt, output, own in zip(logits.tolist(), prompt_ids, output_ids, params):
        row = _chain(row, own, prompt, output)
        largest = max(row)
        weights = [math.exp(z - largest) for z in row]
        target, mass = uniform(own.seed, len(output)) * math.fsum(weights), 0.0
        last = row.index(largest)
        for token, weight in enumerate(weights):
            mass += weight
            last = token if weight else last
            if weight and mass > target:
                break
        tokens.append(last)
    return torch.tensor(tokens)


def _choose_all_rows_at_once(logits, prompt_ids, output_ids, params):
    """Process row by row, but draw for the whole batch in one call."""
    from level03.drawing import inverse_cdf
    from level03.sampler import process, uniform

    if len(params) != len(logits):
        raise ValueError("params")
    rows = [
        process(logits[i : i + 1], params[i], prompt_ids[i : i + 1], output_ids[i : i + 1]) for i in range(len(params))
    ]
    u = [uniform(own.seed, len(output)) for own, output in zip(params, output_ids)]
    return inverse_cdf(torch.cat(rows).float().softmax(-1), torch.tensor(u, dtype=torch.float64))


def _choose_equal_params_together(logits, prompt_ids, output_ids, params):
    """Rows with the same settings go through the chain together; greedy ones need no random number."""
    from dataclasses import replace

    from level03.sampler import process, uniform

    if len(params) != len(logits):
        raise ValueError("params")
    groups, tokens = {}, np.zeros(len(params), dtype=np.int64)
    for i, own in enumerate(params):
        groups.setdefault(replace(own, seed=None), []).append(i)
    for own, rows in groups.items():
        z = process(logits[rows], own, [prompt_ids[i] for i in rows], [output_ids[i] for i in rows]).double()
        if own.temperature == 0:
            tokens[rows] = z.argmax(-1).numpy()
            continue
        sums = z.softmax(-1).cumsum(-1).numpy()
        for i, total in zip(rows, sums):
            u = uniform(params[i].seed, len(output_ids[i]))
            tokens[i] = np.searchsorted(total, min(u * total[-1], np.nextafter(total[-1], 0)), side="right")
    return torch.from_numpy(tokens)


alternative("level03.sampler.choose_tokens", "by_lists", program=_choose_by_lists)
alternative("level03.sampler.choose_tokens", "all_rows_at_once", program=_choose_all_rows_at_once)
alternative("level03.sampler.choose_tokens", "equal_params_together", program=_choose_equal_params_together)
