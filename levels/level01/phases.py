"""What prefill and decode cost: tokens, FLOPs, bytes. Plain arithmetic from a model's configuration."""

from dojo.models import Config
from level00.accounting import count_params


def naive_token_count(prompt_len: int, new_tokens: int) -> int:
    """Return how many tokens go through the model in all when new_tokens are made without a cache.

    Every step runs the whole sequence so far. Example: prompt of 4, 3 new tokens: 4 + 5 + 6 = 15.

    ● · about 1 line · part of cached_token_count
    """
    # TODO: how long is the sequence at each step?
    raise NotImplementedError("level01.phases.cached_token_count")


def cached_token_count(prompt_len: int, new_tokens: int) -> int:
    """Return how many tokens go through the model in all when new_tokens are made with a cache.

    The prompt once, then each new token except the last, which nobody reads. No new tokens: nothing runs at all.
    Example: prompt of 4, 3 new tokens: 4 + 1 + 1 = 6.

    ● · about 1 line
    """
    # TODO: which tokens are fed?
    raise NotImplementedError("level01.phases.cached_token_count")


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
    # TODO: weights times tokens, pairs of queries and keys, and what moves once
    raise NotImplementedError("level01.phases.phase_cost")
