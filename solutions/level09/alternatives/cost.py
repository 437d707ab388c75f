"""Right programs, written another way, for level09.cost. `alternative` is given when this is read."""

from level04.ceiling import decode_step_cost


def _step_by_step(num_bytes, size, link):
    if size < 1:
        raise ValueError("a rank at least")
    seconds = 0.0
    for _ in ("reduce-scatter", "all-gather"):
        for _ in range(size - 1):
            seconds += link.latency + num_bytes / (size * link.bandwidth)
    return seconds


def _latency_and_bytes_apart(num_bytes, size, link):
    if size < 1:
        raise ValueError("a rank at least")
    steps = 2 * size - 2
    return steps * link.latency + steps / size * (num_bytes / link.bandwidth)


for _name, _program in {"step_by_step": _step_by_step, "apart": _latency_and_bytes_apart}.items():
    alternative("level09.cost.tp_decode_seconds", _name, program=_program, part="all_reduce_seconds")


def _all_in_one(config, batch, context_len, size, hardware, link, bytes_per_param=2, bytes_per_element=2):
    """Without the other functions: the messages are counted one by one."""
    if size < 1:
        raise ValueError("a rank at least")
    cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)
    heads = max(1, config.n_kv_heads / size)  # of a rank, on average
    reading = (cost["weight_bytes"] / size + cost["kv_bytes"] * heads / config.n_kv_heads) / hardware.bandwidth
    computing = cost["flops"] / hardware.peak_flops / size
    messages = 2 * (size - 1) * (1 + 2 * config.n_layers)
    moved = messages * 2 * batch * config.d_model / size
    return (reading if reading > computing else computing) + messages * link.latency + moved / link.bandwidth


alternative("level09.cost.tp_decode_seconds", "all_in_one", program=_all_in_one)
alternative(
    "level09.cost.tp_decode_seconds",
    "copies_of_heads",
    change=(
        'own_bytes = cost["weight_bytes"] / size + cost["kv_bytes"] / min(size, config.n_kv_heads)',
        "copies = max(1, size / config.n_kv_heads)\n"
        '    own_bytes = (cost["weight_bytes"] + copies * cost["kv_bytes"]) / size',
    ),
)
