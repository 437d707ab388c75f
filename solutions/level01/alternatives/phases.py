"""Right programs, written another way, for level01.phases. `alternative` is given when this is read."""


def _cost_by_loops(config, q_len, cached_len, bytes_per_element=2, last_only=True):
    """Level 00's price of one token, for one query after the other; the head's is taken out where it is not wanted."""
    from level00.accounting import count_params, flops_per_token

    if q_len < 1 or cached_len < 0:
        raise ValueError("at least one token, behind none or more")
    steps = [flops_per_token(config, cached_len + i) for i in range(1, q_len + 1)]
    flops = sum(step["total"] for step in steps) - (q_len - 1) * steps[0]["lm_head"] * last_only
    counts = dict(count_params(config))
    del counts["total"]
    if not config.tie_embeddings:
        counts["embedding"] = q_len * config.d_model
    counts["cache"] = (cached_len + q_len) * config.n_layers * 2 * config.n_kv_heads * config.head_dim
    moved = sum(n * bytes_per_element for n in counts.values())
    return {"intensity": flops / moved, "bytes": moved, "flops": flops}


def _cost_by_shapes(config, q_len, cached_len, bytes_per_element=2, last_only=True):
    """From the list of shapes, in floats, as in a spreadsheet."""
    from dojo.models import shapes

    if q_len < 1 or cached_len < 0:
        raise ValueError("at least one token, behind none or more")
    flops = reads = 0.0
    for name, shape in shapes(config).items():
        rows, columns = shape if len(shape) == 2 else (1, shape[0])
        if "embed_tokens" in name or name == "lm_head.weight":
            logits = config.tie_embeddings or name == "lm_head.weight"
            flops += logits * 2.0 * rows * columns * (1 if last_only else q_len)
            rows = rows if logits else q_len
        elif len(shape) == 2:
            flops += 2.0 * rows * columns * q_len
        reads += rows * columns
    keys = (cached_len + 1 + cached_len + q_len) / 2 * q_len
    flops += config.n_layers * config.n_heads * config.head_dim * 4 * keys
    cache = (cached_len + q_len) * config.n_layers * config.n_kv_heads * config.head_dim * 2
    moved = (reads + cache) * bytes_per_element
    return {"flops": flops, "bytes": moved, "intensity": flops / moved}


alternative(
    "level01.phases.cached_token_count",
    "sum_of_a_range",
    part="naive_token_count",
    program=lambda prompt_len, new_tokens: sum(range(prompt_len, prompt_len + new_tokens)),
)
alternative(
    "level01.phases.cached_token_count",
    "gauss",
    part="naive_token_count",
    program=lambda prompt_len, new_tokens: new_tokens * (2 * prompt_len + new_tokens - 1) // 2,
)
alternative(
    "level01.phases.cached_token_count",
    "by_passes",
    program=lambda prompt_len, new_tokens: sum(prompt_len if step == 0 else 1 for step in range(new_tokens)),
)
alternative("level01.phases.phase_cost", "token_by_token", program=_cost_by_loops)
alternative("level01.phases.phase_cost", "shapes", program=_cost_by_shapes)
