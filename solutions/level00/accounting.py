"""What a model weighs and what a token costs, from its configuration alone: no tensor is touched."""

from dojo.models import Config


def count_params(config: Config) -> dict[str, int]:
    """Return the number of parameters by part: embedding, attention, mlp, norm, lm_head and their total.

    attention, mlp and norm are sums over all layers; norm includes the final one. With tied embeddings lm_head is 0:
    the matrix is stored once, as embedding. Q and O are n_heads · head_dim wide, K and V n_kv_heads · head_dim.
    Example: SmolLM2-135M has 28,311,552 in its embedding and 134,515,008 in all.

    ● · about 7 lines · part of flops_per_token
    """
    # solution:begin how many matrices has each part, and of what shape?
    d, layers = config.d_model, config.n_layers
    heads, kv_heads = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    counts = {
        "embedding": config.vocab_size * d,
        "attention": layers * d * (2 * heads + 2 * kv_heads),  # Q and O, K and V
        "mlp": layers * 3 * d * config.d_ff,  # gate, up, down
        "norm": layers * 2 * d + d,
        "lm_head": 0 if config.tie_embeddings else config.vocab_size * d,
    }
    return counts | {"total": sum(counts.values())}
    # solution:end


def flops_per_token(config: Config, context_len: int) -> dict[str, int]:
    """Return the FLOPs of one new token by part: projections, scores, mlp, lm_head and their total.

    The token attends to context_len tokens, itself included. A multiply-add is two FLOPs. Matrix products only:
    norms, rotations, softmax and the embedding look-up are left out (under 1%). `scores` is q kᵀ and weights · v,
    for every *query* head; `lm_head` is the product with the vocabulary, tied or not.
    Example: SmolLM2-135M at context 1024: 70,778,880 in scores, 339,738,624 in all.
    ValueError: context_len below 1. Table 1 of arXiv 2001.08361 has the same sum.

    ●● · about 7 lines
    """
    if context_len < 1:
        raise ValueError(f"the token itself counts, so context_len is at least 1, not {context_len}")
    # solution:begin two FLOPs per weight that is multiplied, and two products per key
    weights = count_params(config)
    flops = {
        "projections": 2 * weights["attention"],
        "scores": config.n_layers * config.n_heads * 4 * config.head_dim * context_len,
        "mlp": 2 * weights["mlp"],
        "lm_head": 2 * config.vocab_size * config.d_model,
    }
    return flops | {"total": sum(flops.values())}
    # solution:end


def weight_bytes(config: Config, bytes_per_param: float) -> float:
    """Bytes of all parameters, which one decoded token must read: 4 a parameter in float32, 2 in bfloat16."""
    return count_params(config)["total"] * bytes_per_param
