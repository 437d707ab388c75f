"""Right programs, written another way, for level00.accounting. `alternative` is given when this is read."""

from collections import OrderedDict


def _params_by_shapes(config):
    """From the list of shapes, with numpy's integers, as in a spreadsheet."""
    import numpy as np

    from dojo.models import shapes

    sizes = {name: np.prod(shape, dtype=np.int64) for name, shape in shapes(config).items()}
    keys = {"embedding": "embed_tokens", "attention": "self_attn", "mlp": "mlp.", "norm": "norm", "lm_head": "lm_head"}
    counts = {part: sum(n for name, n in sizes.items() if key in name) for part, key in keys.items()}
    return OrderedDict(counts, total=sum(sizes.values()))


def _flops_by_loops(config, context_len):
    if context_len < 1:
        raise ValueError("context_len is at least 1")
    flops = dict.fromkeys(("total", "lm_head", "mlp", "scores", "projections"), 0)
    for _ in range(config.n_layers):
        for heads in (config.n_heads, config.n_kv_heads, config.n_kv_heads, config.n_heads):
            flops["projections"] += 2 * config.d_model * heads * config.head_dim
        for _ in range(config.n_heads):
            flops["scores"] += 2 * (2 * config.head_dim * context_len)
        flops["mlp"] += 3 * (2 * config.d_model * config.d_ff)
    flops["lm_head"] += 2 * config.d_model * config.vocab_size
    flops["total"] = sum(flops.values())
    return flops


alternative("level00.accounting.flops_per_token", "from_shapes", program=_params_by_shapes, part="count_params")
alternative("level00.accounting.flops_per_token", "loops", program=_flops_by_loops)
