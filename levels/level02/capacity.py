"""What fits, what is read, what is wasted: the arithmetic of a cache. Bytes are bytes; 1 GB = 1e9, 1 GiB = 2**30."""

from collections.abc import Sequence

from dojo.models import Config
from level00.accounting import count_params, weight_bytes

from .cache import kv_bytes_per_token


def max_batch(
    config: Config,
    memory_bytes: float,
    context_len: int,
    bytes_per_param: float,
    bytes_per_element: float,
    reserve: float = 0.1,
) -> int:
    """Return how many requests of context_len cached tokens each fit beside the weights; the rest as in
    max_cached_tokens. A request that fits only in part does not fit.

    Example: room for 426,784 tokens, context_len 8192: 52. ValueError: context_len below 1; as max_cached_tokens.

    ● · about 1 line · part of max_cached_tokens
    """
    if context_len < 1:
        raise ValueError(f"a request holds at least one token, so context_len is 1 or more, not {context_len}")
    # TODO: whose room is shared by the requests?
    raise NotImplementedError("level02.capacity.max_cached_tokens")


def max_cached_tokens(
    config: Config, memory_bytes: float, bytes_per_param: float, bytes_per_element: float, reserve: float = 0.1
) -> int:
    """Return how many tokens' keys and values fit beside the weights, over all requests.

    memory_bytes       of the device
    bytes_per_param    of the weights, 2 in bfloat16; bytes_per_element likewise of the cache
    reserve            the part of memory_bytes, 0 <= reserve < 1, that is kept free for activations and the rest

    Weights are held once, whatever the batch. A token fits as a whole or not at all.
    Example: Llama-3-8B, 80 GB, bfloat16 throughout, reserve 0.1: (72 - 16.06) GB / 131,072 bytes -> 426784.
    ValueError: reserve outside [0, 1); weights that do not fit.

    ● · about 2 lines · needs level02.cache.kv_bytes_per_token
    """
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve is a part of the memory, 0 <= reserve < 1, not {reserve}")
    free = (1 - reserve) * memory_bytes - weight_bytes(config, bytes_per_param)
    if free < 0:
        raise ValueError(f"the weights alone take {-free:.3g} bytes more than there are: shard or quantize the model")
    # TODO: how often does a token's entry go into what is free?
    raise NotImplementedError("level02.capacity.max_cached_tokens")


def crossover_tokens(config: Config, bytes_per_param: float, bytes_per_element: float) -> float:
    """Return the number of cached tokens, over the whole batch, at which a decode step reads as many bytes of cache as
    of weights.

    A step reads every weight once, but of an untied embedding only the rows of its tokens, which are left out here.
    Example: SmolLM2-135M in bfloat16: 269.0 MB / 23,040 bytes -> 11,676.6.

    ●● · about 4 lines · needs level02.cache.kv_bytes_per_token
    """
    # TODO: which weights does a step read?
    raise NotImplementedError("level02.capacity.crossover_tokens")


def wasted_fraction(lengths: Sequence[int], reserved: int) -> float:
    """Return which part of the cache stays empty when every request gets `reserved` tokens of room.

    lengths  tokens that each request really holds, one entry per request

    Example: 100 and 300 tokens in rows of 1000 -> 0.8.
    ValueError: no requests, reserved below 1, a negative length, or one beyond `reserved`.

    ● · about 1 line
    """
    if reserved < 1 or not lengths or min(lengths) < 0 or max(lengths) > reserved:
        raise ValueError(f"lengths are one or more numbers in 0..reserved, not {list(lengths)} in rows of {reserved}")
    # TODO: held over reserved, and the rest of it
    raise NotImplementedError("level02.capacity.wasted_fraction")
