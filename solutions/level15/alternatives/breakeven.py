"""Right programs, written another way, for level15.breakeven. `alternative` is given when this is read."""

from fractions import Fraction

ID = "level15.breakeven.breakeven_bandwidth"


def _coefficients(target, source, num_source_layers, head_local=False):
    """Shape by shape: a weight matrix and a vector of biases for each KV head, of keys and of values."""
    if num_source_layers not in range(1, source.n_layers + 1):
        raise ValueError("layers")
    width = source.head_dim if head_local else source.n_kv_heads * source.head_dim
    total = 0
    for _ in range(target.n_layers):
        for _ in range(target.n_kv_heads):
            weights, biases = num_source_layers * width * target.head_dim, target.head_dim
            total += (weights + biases) + (weights + biases)
    return total


def _seconds(num_tokens, source_bytes_per_token, bandwidth, **how):
    """Step by step; what is not given costs nothing."""
    share = how.get("recomputed", 0.0)
    speeds = bandwidth, how.get("flops_per_second", 1.0), how.get("memory_bandwidth", 1.0)
    if share < 0 or share > 1 or any(speed <= 0 for speed in speeds):
        raise ValueError("share or speed")
    clock = (num_tokens * source_bytes_per_token) / speeds[0]
    arithmetic = how.get("map_flops_per_token", 0.0) / speeds[1] * num_tokens
    streaming = how.get("map_bytes", 0.0) / speeds[2]
    clock += arithmetic if arithmetic > streaming else streaming
    clock += how.get("prefill_seconds", 0.0) * share
    return clock


def _fraction(move_seconds, prefill_seconds):
    """In exact fractions: two that work side by side share the work as their speeds are."""
    if move_seconds < 0 or prefill_seconds < 0 or not (move_seconds or prefill_seconds):
        raise ValueError("times")
    return float(Fraction(move_seconds) / (Fraction(move_seconds) + Fraction(prefill_seconds)))


def _link(config, num_tokens, flops_per_second, bytes_per_element=2):
    """From the shapes alone, without level 01 and 02."""
    from math import prod

    from dojo.models import shapes

    if num_tokens < 1 or flops_per_second <= 0:
        raise ValueError("nothing to move")
    per_token = sum(prod(s) for name, s in shapes(config).items() if ".layers." in name and len(s) > 1)
    flops = 2 * (per_token * num_tokens + config.vocab_size * config.d_model)
    flops += 2 * config.n_layers * config.n_heads * config.head_dim * num_tokens * (num_tokens + 1)
    per_layer = 2 * num_tokens * config.n_kv_heads * config.head_dim * bytes_per_element
    return config.n_layers * per_layer * (flops_per_second / flops)


alternative(ID, "shape_by_shape", program=_coefficients, part="mapper_coefficients")
alternative(ID, "step_by_step", program=_seconds, part="transfer_seconds")
alternative(ID, "exact_fractions", program=_fraction, part="optimal_recompute_fraction")
alternative(ID, "from_the_shapes", program=_link)
