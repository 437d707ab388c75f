"""Right programs, written another way, for level04.ceiling. `alternative` is given when this is read."""

from fractions import Fraction
from math import floor, prod


def _cost_by_tensors(config, batch, context_len, bytes_per_param=2, bytes_per_element=2):
    """Tensor by tensor, sequence by sequence; the entries in another order."""
    from dojo.models import shapes

    if batch < 1 or context_len < 1:
        raise ValueError("at least one of each")
    tensors = shapes(config)
    if "lm_head.weight" in tensors:
        tensors.pop("model.embed_tokens.weight")
    weights = sum(prod(shape) * bytes_per_param for shape in tensors.values())
    flops = kv = 0
    for _ in range(batch if batch < 1000 else 1):
        flops += sum(2 * prod(shape) for shape in tensors.values() if len(shape) > 1)
        flops += 2 * config.n_layers * config.n_heads * 2 * config.head_dim * context_len
        kv += 2 * config.n_layers * config.n_kv_heads * config.head_dim * context_len * bytes_per_element
    if batch >= 1000:
        flops, kv = flops * batch, kv * batch
    both = float(weights + kv)
    return {"intensity": flops / both, "bytes": both, "kv_bytes": kv, "weight_bytes": weights, "flops": float(flops)}


def _cost_by_phases(config, batch, context_len, bytes_per_param=2, bytes_per_element=2):
    """From level 01: a pass of one token behind the others, without its embedding row; weights are what is no cache."""
    from level01.phases import phase_cost

    if min(batch, context_len) <= 0:
        raise ValueError("at least one of each")
    one = phase_cost(config, 1, context_len - 1, 1)
    entry = phase_cost(config, 1, 1, 1)["bytes"] - phase_cost(config, 1, 0, 1)["bytes"]
    weights = one["bytes"] - context_len * entry - (0 if config.tie_embeddings else config.d_model)
    cost = {"flops": one["flops"] * batch, "weight_bytes": weights * bytes_per_param}
    cost["kv_bytes"] = bytes_per_element * entry * context_len * batch
    cost["bytes"] = cost["weight_bytes"] + cost["kv_bytes"]
    cost["intensity"] = cost["flops"] / cost["bytes"]
    return cost


def _cost_in_fractions(config, batch, context_len, bytes_per_param=2, bytes_per_element=2):
    """Exactly: what a sequence adds, times the batch, and what all share."""
    from level00.accounting import count_params, flops_per_token

    if not (batch >= 1 and context_len >= 1):
        raise ValueError("at least one of each")
    parts = count_params(config)
    shared = parts["attention"] + parts["mlp"] + parts["norm"] + (parts["lm_head"] or parts["embedding"])
    own = Fraction(bytes_per_element) * config.n_layers * config.n_kv_heads * (config.head_dim + config.head_dim)
    weights, kv = Fraction(bytes_per_param) * shared, own * batch * context_len
    flops = flops_per_token(config, context_len)["total"] * batch
    found = {"flops": flops, "weight_bytes": weights, "kv_bytes": kv, "bytes": weights + kv}
    return {name: float(x) for name, x in (found | {"intensity": flops / (weights + kv)}).items()}


def _seconds_by_the_roof(cost, hardware):
    """By intensity: the FLOPs over the rate that the lower roof allows."""
    from level04.roofline import attainable

    return cost["flops"] / attainable(cost["flops"] / cost["bytes"], hardware)


def _seconds_by_bound(cost, hardware):
    """First which of the two it is, then that one's time."""
    from level04.roofline import bound

    if bound(cost["flops"] / cost["bytes"], hardware) == "compute":
        return cost["flops"] / hardware.peak_flops
    return cost["bytes"] / hardware.bandwidth


def _ceiling_is_the_lower_of_two(config, batch, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """One rate by arithmetic, one by bytes."""
    from level04.ceiling import decode_step_cost

    cost = decode_step_cost(
        config, batch, context_len, bytes_per_element=bytes_per_element, bytes_per_param=bytes_per_param
    )
    return min(batch * hardware.peak_flops / cost["flops"], batch * hardware.bandwidth / cost["bytes"])


def _ceiling_by_intensity(config, batch, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """Attainable FLOP/s over the FLOPs of a token."""
    from level00.accounting import flops_per_token
    from level04.ceiling import decode_step_cost
    from level04.roofline import attainable

    intensity = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)["intensity"]
    return attainable(intensity, hardware) / flops_per_token(config, context_len)["total"]


def _ceiling_without_a_cost(config, batch, context_len, hardware, bytes_per_param=2, bytes_per_element=2):
    """From earlier levels alone: the bytes of weights and cache for each token, in numpy."""
    import numpy as np

    from level00.accounting import count_params, flops_per_token
    from level02.cache import kv_bytes_per_token

    counts = count_params(config)
    read = counts["total"] - counts["embedding"] * (not config.tie_embeddings)
    moved = read * bytes_per_param / batch + context_len * kv_bytes_per_token(config, bytes_per_element)
    seconds = np.array([flops_per_token(config, context_len)["total"], moved], dtype=np.float64)
    return (1 / (seconds / [hardware.peak_flops, hardware.bandwidth])).min()


def _critical_batch_by_batch(hardware, bytes_per_param=2):
    """Try one after the other: is its arithmetic as long as the reading of a weight?"""
    batch = 1
    while 2 * batch / hardware.peak_flops < bytes_per_param / hardware.bandwidth:
        batch += 1
    return batch


def _critical_by_halving(hardware, bytes_per_param=2):
    """Bisection, multiplied out, on exact fractions."""
    wanted = Fraction(hardware.peak_flops) * Fraction(bytes_per_param)
    low, high = 0, 1
    while 2 * high * Fraction(hardware.bandwidth) < wanted:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * middle * Fraction(hardware.bandwidth) < wanted else (low, middle)
    return high


def _critical_by_negation(hardware, bytes_per_param=2):
    """Up is down of the negative; peak times width first."""
    return -floor(-hardware.peak_flops * bytes_per_param / (2 * hardware.bandwidth))


def _critical_in_numpy(hardware, bytes_per_param=2):
    """One of numpy's whole numbers; the time to read over the time of a sequence."""
    import numpy as np

    return np.ceil((bytes_per_param / hardware.bandwidth) / (2 / hardware.peak_flops)).astype(np.int64)


def _critical_forgives(hardware, bytes_per_param=2):
    """A whole number that rounding has lifted by a hair counts as whole."""
    exact = hardware.peak_flops * bytes_per_param / hardware.bandwidth / 2
    nearest = round(exact)
    return max(nearest, 1) if nearest >= exact * (1 - 1e-12) else nearest + 1


def _mfu_by_times(tokens_per_second, flops_per_token, hardware):
    """How long a token should take at the peak, over how long it took."""
    return flops_per_token / hardware.peak_flops / (1 / tokens_per_second)


def _mfu_by_rates(tokens_per_second, flops_per_token, hardware):
    """Achieved over possible tokens per second."""
    return tokens_per_second / (hardware.peak_flops / flops_per_token)


def _mbu_by_times(tokens_per_second, batch, bytes_per_step, hardware):
    """How long a step should take at the bandwidth, over how long it took."""
    if batch < 1:
        raise ValueError("at least one sequence")
    took = batch / tokens_per_second
    return bytes_per_step / hardware.bandwidth / took


def _mbu_per_token(tokens_per_second, batch, bytes_per_step, hardware):
    """Each token's share of a step's bytes."""
    if not batch > 0:
        raise ValueError("at least one sequence")
    share = bytes_per_step / batch
    return float(Fraction(tokens_per_second) * Fraction(share) / Fraction(hardware.bandwidth))


alternative("level04.ceiling.decode_step_cost", "by_tensors", program=_cost_by_tensors)
alternative("level04.ceiling.decode_step_cost", "by_phases", program=_cost_by_phases)
alternative("level04.ceiling.decode_step_cost", "in_fractions", program=_cost_in_fractions)
alternative("level04.ceiling.decode_ceiling", "by_the_roof", program=_seconds_by_the_roof, part="step_seconds")
alternative("level04.ceiling.decode_ceiling", "by_bound", program=_seconds_by_bound, part="step_seconds")
alternative("level04.ceiling.decode_ceiling", "lower_of_two", program=_ceiling_is_the_lower_of_two)
alternative("level04.ceiling.decode_ceiling", "by_intensity", program=_ceiling_by_intensity)
alternative("level04.ceiling.decode_ceiling", "without_a_cost", program=_ceiling_without_a_cost)
alternative("level04.ceiling.critical_batch", "batch_by_batch", program=_critical_batch_by_batch)
alternative("level04.ceiling.critical_batch", "by_halving", program=_critical_by_halving)
alternative("level04.ceiling.critical_batch", "by_negation", program=_critical_by_negation)
alternative("level04.ceiling.critical_batch", "in_numpy", program=_critical_in_numpy)
alternative("level04.ceiling.critical_batch", "forgives", program=_critical_forgives)
alternative("level04.ceiling.mbu", "mfu_by_times", program=_mfu_by_times, part="mfu")
alternative("level04.ceiling.mbu", "mfu_by_rates", program=_mfu_by_rates, part="mfu")
alternative("level04.ceiling.mbu", "by_times", program=_mbu_by_times)
alternative("level04.ceiling.mbu", "per_token", program=_mbu_per_token)
