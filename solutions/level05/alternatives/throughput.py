"""Right programs, written another way, for level05.throughput. `alternative` is given when this is read."""

import statistics
from fractions import Fraction
from math import inf, prod


def _cost_by_tensors(config, context_lens, bytes_per_param=2, bytes_per_element=2):
    """Tensor by tensor, sequence by sequence; the entries in the other order."""
    from dojo.models import shapes

    if len(context_lens) == 0 or any(context < 1 for context in context_lens):
        raise ValueError("at least one sequence of at least one token")
    tensors = shapes(config)
    if "lm_head.weight" in tensors:
        tensors.pop("model.embed_tokens.weight")
    moved = sum(prod(shape) * bytes_per_param for shape in tensors.values())
    flops = 0
    for context in context_lens:
        flops += sum(2 * prod(shape) for shape in tensors.values() if len(shape) > 1)
        flops += 2 * config.n_layers * config.n_heads * 2 * config.head_dim * context
        moved += 2 * config.n_layers * config.n_kv_heads * config.head_dim * context * bytes_per_element
    return {"bytes": float(moved), "flops": flops}


def _cost_by_the_mean(config, context_lens, bytes_per_param=2, bytes_per_element=2):
    """Both costs are straight lines over the context, so a batch of the mean length costs the same, unrounded."""
    from level04.ceiling import decode_step_cost

    if not context_lens or min(context_lens) <= 0:
        raise ValueError("at least one sequence of at least one token")
    mean = Fraction(sum(context_lens), len(context_lens))
    cost = decode_step_cost(config, len(context_lens), mean, bytes_per_param, bytes_per_element)
    return {"flops": float(cost["flops"]), "bytes": float(cost["bytes"])}


def _cost_of_each_alone(config, context_lens, bytes_per_param=2, bytes_per_element=2):
    """Every sequence by itself, in numpy; and what they have read too often is given back."""
    import numpy as np

    from level04.ceiling import decode_step_cost

    if not context_lens or min(context_lens) < 1:
        raise ValueError("at least one sequence of at least one token")
    alone = [decode_step_cost(config, 1, context, bytes_per_param, bytes_per_element) for context in context_lens]
    table = np.array([(cost["flops"], cost["bytes"], cost["weight_bytes"]) for cost in alone], dtype=np.float64)
    flops, moved, weights = table.sum(axis=0)
    return {"flops": flops, "bytes": moved - (weights - table[0, 2])}


def _cost_by_recursion(config, context_lens, bytes_per_param=2, bytes_per_element=2):
    """The first, and those behind it."""
    from level00.accounting import flops_per_token
    from level02.cache import kv_bytes_per_token
    from level04.ceiling import decode_step_cost

    if not context_lens or min(context_lens) < 1:
        raise ValueError("at least one sequence of at least one token")
    first, *others = context_lens
    if not others:
        cost = decode_step_cost(config, 1, first, bytes_per_param, bytes_per_element)
        return {key: cost[key] for key in ("flops", "bytes")}
    rest = _cost_by_recursion(config, others, bytes_per_param, bytes_per_element)
    rest["flops"] += flops_per_token(config, first)["total"]
    rest["bytes"] += first * kv_bytes_per_token(config, bytes_per_element)
    return rest


def _flip_multiplied_out(config, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """No quotient but the last, in exact fractions."""
    from level00.accounting import flops_per_token
    from level02.cache import kv_bytes_per_token
    from level04.ceiling import decode_step_cost

    peak, bandwidth = Fraction(hardware.peak_flops), Fraction(hardware.bandwidth)
    weights = Fraction(decode_step_cost(config, 1, 1, bytes_per_param)["weight_bytes"])
    cache = Fraction(kv_bytes_per_token(config, bytes_per_element)) * context_len
    gained = flops_per_token(config, context_len)["total"] * bandwidth - cache * peak
    return -(-weights * peak // gained) if gained > 0 else None


def _flip_by_search(config, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """Doubling and halving over whole steps; whether it ends is seen from two steps."""
    from level04.ceiling import decode_step_cost

    def ahead(batch):
        cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)
        return cost["flops"] / hardware.peak_flops - cost["bytes"] / hardware.bandwidth

    one = decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element)
    if one["flops"] / one["kv_bytes"] <= hardware.peak_flops / hardware.bandwidth:
        return None
    high = 1
    while ahead(high) < 0:
        high += high
    low = high // 2
    while low + 1 < high:
        middle = low + (high - low) // 2
        if ahead(middle) < 0:
            low = middle
        else:
            high = middle
    return high


def _flip_by_ridge(config, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """Where the intensity of a step reaches the ridge: all in bytes, no seconds; one of numpy's whole numbers."""
    import numpy as np

    from level04.ceiling import decode_step_cost
    from level04.roofline import ridge_point

    one = decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element)
    readable = one["flops"] / ridge_point(hardware)  # bytes that a sequence's arithmetic leaves time for
    if readable <= one["kv_bytes"]:
        return None
    return np.int64(np.ceil(one["weight_bytes"] / (readable - one["kv_bytes"])))


def _flip_batch_by_batch(config, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """One more sequence after the other, for as long as it takes; the slope of the lead says whether it ends."""
    from level04.ceiling import decode_step_cost

    one = decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element)
    compute, read = one["flops"] / hardware.peak_flops, one["kv_bytes"] / hardware.bandwidth
    weights, batch = one["weight_bytes"] / hardware.bandwidth, 1
    if not compute > read:
        return None
    while batch * compute < weights + batch * read:
        batch += 1
    return batch


def _fit_by_polyfit(batches, seconds):
    """Numpy has it; the highest power comes first there."""
    import numpy as np

    if len(batches) != len(seconds) or len(set(batches)) < 2:
        raise ValueError("not a line")
    slope, fixed = np.polyfit(batches, seconds, 1)
    return fixed, slope


def _fit_by_matrix(batches, seconds):
    """As a system with a column of ones."""
    import numpy as np

    if len(batches) != len(seconds) or np.unique(batches).size < 2:
        raise ValueError("not a line")
    table = np.stack([np.ones(len(batches)), np.asarray(batches, dtype=float)], axis=1)
    return tuple(np.linalg.lstsq(table, np.asarray(seconds, dtype=float), rcond=None)[0].tolist())


def _fit_by_sums(batches, seconds):
    """The normal equations, by Cramer's rule."""
    if len(batches) != len(seconds) or len(set(batches)) < 2:
        raise ValueError("not a line")
    n, sx, sy = len(batches), sum(batches), sum(seconds)
    sxx, sxy = sum(x * x for x in batches), sum(x * y for x, y in zip(batches, seconds))
    below = n * sxx - sx * sx
    return (sy * sxx - sx * sxy) / below, (n * sxy - sx * sy) / below


def _fit_by_statistics(batches, seconds):
    """The standard library."""
    if len(batches) != len(seconds) or len(set(batches)) < 2:
        raise ValueError("not a line")
    slope, fixed = statistics.linear_regression(batches, seconds)
    return fixed, slope


def _fit_in_fractions(batches, seconds):
    """Exactly, from the means."""
    if len(batches) != len(seconds) or min(batches, default=0) == max(batches, default=0):
        raise ValueError("not a line")
    xs, ys = [Fraction(x) for x in batches], [Fraction(y) for y in seconds]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - x_mean) * y for x, y in zip(xs, ys)) / sum((x - x_mean) ** 2 for x in xs)
    return float(y_mean - slope * x_mean), float(slope)


def _measured_asks_first(fixed, per_sequence):
    """Ask first."""
    if not per_sequence > 0:
        return float("inf")
    return fixed * (1 / per_sequence)


def _measured_by_exception(fixed, per_sequence):
    """Divide first."""
    try:
        return inf if per_sequence < 0 else fixed / per_sequence
    except ZeroDivisionError:
        return inf


alternative("level05.throughput.ragged_step_cost", "by_tensors", program=_cost_by_tensors)
alternative("level05.throughput.ragged_step_cost", "by_the_mean", program=_cost_by_the_mean)
alternative("level05.throughput.ragged_step_cost", "of_each_alone", program=_cost_of_each_alone)
alternative("level05.throughput.ragged_step_cost", "by_recursion", program=_cost_by_recursion)
alternative("level05.throughput.flip_batch", "multiplied_out", program=_flip_multiplied_out)
alternative("level05.throughput.flip_batch", "by_search", program=_flip_by_search)
alternative("level05.throughput.flip_batch", "by_ridge", program=_flip_by_ridge)
alternative("level05.throughput.flip_batch", "batch_by_batch", program=_flip_batch_by_batch)
alternative("level05.throughput.fit_step_time", "by_polyfit", program=_fit_by_polyfit)
alternative("level05.throughput.fit_step_time", "by_matrix", program=_fit_by_matrix)
alternative("level05.throughput.fit_step_time", "by_sums", program=_fit_by_sums)
alternative("level05.throughput.fit_step_time", "by_statistics", program=_fit_by_statistics)
alternative("level05.throughput.fit_step_time", "in_fractions", program=_fit_in_fractions)
for _name, _program in (("asks_first", _measured_asks_first), ("by_exception", _measured_by_exception)):
    alternative("level05.throughput.fit_step_time", _name, program=_program, part="measured_flip")
