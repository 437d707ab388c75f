"""What prefill and decode cost: tokens, FLOPs, bytes. Plain arithmetic from a model's configuration."""

from dojo.models import Config
from level00.accounting import count_params


def naive_token_count(prompt_len: int, new_tokens: int) -> int:
    """Return how many tokens go through the model in all when new_tokens are made without a cache.

    Every step runs the whole sequence so far. Example: prompt of 4, 3 new tokens: 4 + 5 + 6 = 15.

    ● · about 1 line · part of cached_token_count
    """
    # solution:begin how long is the sequence at each step?
    return new_tokens * prompt_len + new_tokens * (new_tokens - 1) // 2
    # solution:end


def cached_token_count(prompt_len: int, new_tokens: int) -> int:
    """Return how many tokens go through the model in all when new_tokens are made with a cache.

    The prompt once, then each new token except the last, which nobody reads. No new tokens: nothing runs at all.
    Example: prompt of 4, 3 new tokens: 4 + 1 + 1 = 6.

    ● · about 1 line
    """
    # solution:begin which tokens are fed?
    return prompt_len + new_tokens - 1 if new_tokens else 0
    # solution:end


def phase_cost(
    config: Config, q_len: int, cached_len: int, bytes_per_element: float = 2, last_only: bool = True
) -> dict[str, float]:
    """Return {"flops", "bytes", "intensity"} of one forward pass of q_len tokens behind cached_len cached ones.

    bytes_per_element  of weights and cache alike: 2 in bfloat16
    last_only          the vocabulary projection of the last token alone, as generation needs; else of all q_len

    FLOPs: per token two for each weight of the attention and MLP matrices, two per weight of the head and projected
    token (norms are left out), and
    4 · n_heads · head_dim per layer for each pair of a query and a key that it may see (causal: cached_len, itself, and
    those of the q_len before it). Bytes: every weight read once, however many tokens share it (of an untied embedding
    only q_len rows), the cached keys and values read, the new ones written. Activations are left out.
    intensity = flops / bytes. Example: SmolLM2-135M, 1 token behind 1023: 339.7 MFLOP, 292.6 MB, intensity 1.16.
    ValueError: q_len below 1, cached_len below 0.

    ●● · about 12 lines
    """
    if q_len < 1:
        raise ValueError(f"a forward pass takes at least one token, not {q_len}")
    if cached_len < 0:
        raise ValueError(f"a cache holds 0 tokens or more, not {cached_len}")
    # solution:begin weights times tokens, pairs of queries and keys, and what moves once
    weights = count_params(config)
    head = config.vocab_size * config.d_model
    pairs = q_len * cached_len + q_len * (q_len + 1) // 2
    flops = (
        2 * q_len * (weights["attention"] + weights["mlp"])
        + config.n_layers * 4 * config.n_heads * config.head_dim * pairs
        + 2 * head * (1 if last_only else q_len)
    )
    read = weights["total"] if config.tie_embeddings else weights["total"] - head + q_len * config.d_model
    kv_per_token = 2 * config.n_layers * config.n_kv_heads * config.head_dim
    moved = bytes_per_element * (read + kv_per_token * (cached_len + q_len))
    return {"flops": flops, "bytes": moved, "intensity": flops / moved}
    # solution:end
