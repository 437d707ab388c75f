"""Right programs, written another way, for level02.capacity. `alternative` is given when this is read."""

from math import floor, prod


def _weights(config):
    """Elements of all tensors."""
    from dojo.models import shapes

    return sum(map(prod, shapes(config).values()))


def _entry(config, bytes_per_element):
    """Bytes of one token's keys and values, added up by head."""
    return sum(2 * config.head_dim * bytes_per_element for _ in range(config.n_layers * config.n_kv_heads))


def _by_multiplying(config, memory_bytes, bytes_per_param, bytes_per_element, reserve=0.1):
    """Doubles and halves a guess until it fits and one more does not."""
    if reserve < 0 or reserve >= 1:
        raise ValueError("a part")
    used = _weights(config) * bytes_per_param + reserve * memory_bytes
    if used > memory_bytes:
        raise ValueError("too large")
    low, step = 0, 1
    while used + (low + step) * _entry(config, bytes_per_element) <= memory_bytes:
        step *= 2
    while step:
        if used + (low + step) * _entry(config, bytes_per_element) <= memory_bytes:
            low += step
        else:
            step //= 2
    return low


def _floor_of_a_quotient(config, memory_bytes, bytes_per_param, bytes_per_element, reserve=0.1):
    """In one formula, divided with / and rounded down."""
    if not 0 <= reserve < 1:
        raise ValueError("a part")
    left = memory_bytes - memory_bytes * reserve - bytes_per_param * _weights(config)
    if left < 0:
        raise ValueError("too large")
    return floor(left / _entry(config, bytes_per_element))


def _request_by_request(config, memory_bytes, context_len, bytes_per_param, bytes_per_element, reserve=0.1):
    """Whole requests until the next one would not fit."""
    from level02.capacity import max_cached_tokens

    if context_len <= 0:
        raise ValueError("at least one token")
    left = max_cached_tokens(config, memory_bytes, bytes_per_param, bytes_per_element, reserve=reserve)
    return len(range(context_len, left + 1, context_len))


def _bytes_over_a_request(config, memory_bytes, context_len, bytes_per_param, bytes_per_element, reserve=0.1):
    """Without counting tokens: the free bytes over the bytes of a request."""
    free = (1 - reserve) * memory_bytes - _weights(config) * bytes_per_param
    if context_len < 1 or free < 0 or not 0 <= reserve < 1:
        raise ValueError("nothing fits")
    return int(free / (context_len * _entry(config, bytes_per_element)))


def _crossover_by_tensors(config, bytes_per_param, bytes_per_element):
    """Tensor by tensor, the embedding skipped where there is a head."""
    from dojo.models import shapes

    names = shapes(config)
    if "lm_head.weight" in names:
        names.pop("model.embed_tokens.weight")
    return sum(prod(shape) * bytes_per_param for shape in names.values()) / _entry(config, bytes_per_element)


def _crossover_by_phases(config, bytes_per_param, bytes_per_element):
    """From level 01: what a step of one token reads, without its embedding row and its own keys and values."""
    from level01.phases import phase_cost

    moved = phase_cost(config, 1, 0, 1)["bytes"] - _entry(config, 1)
    moved -= 0 if config.tie_embeddings else config.d_model
    return bytes_per_param / bytes_per_element * moved / _entry(config, 1)


def _mean_of_rows(lengths, reserved):
    """The mean of what each row wastes: all rows are of one size."""
    if reserved < 1 or len(lengths) == 0 or not all(0 <= n <= reserved for n in lengths):
        raise ValueError("lengths in rows")
    return sum((reserved - n) / reserved for n in lengths) / len(lengths)


def _empty_over_all(lengths, reserved):
    if len(lengths) < 1 or reserved <= 0 or any(n < 0 or n > reserved for n in lengths):
        raise ValueError("lengths in rows")
    empty = [reserved - n for n in lengths]
    return sum(empty) / (reserved * len(empty))


alternative("level02.capacity.max_cached_tokens", "by_multiplying", program=_by_multiplying)
alternative("level02.capacity.max_cached_tokens", "floor_of_a_quotient", program=_floor_of_a_quotient)
alternative("level02.capacity.max_cached_tokens", "request_by_request", program=_request_by_request, part="max_batch")
alternative("level02.capacity.max_cached_tokens", "over_a_request", program=_bytes_over_a_request, part="max_batch")
alternative("level02.capacity.crossover_tokens", "tensor_by_tensor", program=_crossover_by_tensors)
alternative("level02.capacity.crossover_tokens", "by_phases", program=_crossover_by_phases)
alternative("level02.capacity.wasted_fraction", "mean_of_rows", program=_mean_of_rows)
alternative("level02.capacity.wasted_fraction", "empty_over_all", program=_empty_over_all)
