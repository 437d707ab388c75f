"""What it costs to move a cache, to map it, and to make it again: when does which one win? Plain arithmetic."""

from dojo.models import Config
from level01.phases import phase_cost
from level02.cache import kv_bytes_per_token


def mapper_coefficients(target: Config, source: Config, num_source_layers: int, head_local: bool = False) -> int:
    """Return how many numbers the maps from one model's cache to another's hold: keys and values, weights and biases.

    num_source_layers  the layers of the source that each layer of the target reads
    head_local         False: each head of the target reads all KV heads of those layers; True: one head of each

    Example: both of 1 layer with 1 KV head of 2, 1 source layer: for the keys 2 · 2 weights and 2 biases, as many for
    the values: 12. Qwen3 14B -> 32B, 8 source layers: 1,073,872,896, 4.2955 GB in float32, the size that is reported.
    ValueError: num_source_layers below 1 or above the source's. arXiv 2608.03893; head-local: arXiv 2609.00891.

    ● · about 3 lines · part of breakeven_bandwidth
    """
    if not 1 <= num_source_layers <= source.n_layers:
        raise ValueError(f"a map reads 1..{source.n_layers} layers of the source, not {num_source_layers}")
    # solution:begin how many numbers come in, how many go out, and how many such maps are there?
    heads = 1 if head_local else source.n_kv_heads
    inputs = num_source_layers * heads * source.head_dim
    return 2 * target.n_layers * target.n_kv_heads * (inputs + 1) * target.head_dim
    # solution:end


def transfer_seconds(
    num_tokens: int,
    source_bytes_per_token: float,
    bandwidth: float,
    *,
    map_flops_per_token: float = 0.0,
    map_bytes: float = 0.0,
    flops_per_second: float = 1.0,
    memory_bandwidth: float = 1.0,
    prefill_seconds: float = 0.0,
    recomputed: float = 0.0,
) -> float:
    """Return the seconds until the receiver can decode from a cache that it did not make: move, map, repair, in turn.

    source_bytes_per_token  of the source's cache: it is mapped where it arrives
    bandwidth               of the link, bytes/s
    map_flops_per_token     of the map, at flops_per_second for all tokens together
    map_bytes               of its weights, read once at memory_bandwidth while it computes: the slower of both counts
    recomputed              the share of the prefill, 0 .. 1, that the receiver does after all; prefill_seconds is all

    Example: 10 tokens of 100 bytes at 1000 bytes/s, 1 FLOP a token at 1 FLOP/s, 500 bytes at 10 bytes/s, a quarter of
    8 s again: 1 + max(10, 50) + 2 = 53.
    ValueError: recomputed outside 0 .. 1; bandwidth, flops_per_second or memory_bandwidth not above 0.

    ● · about 3 lines · part of breakeven_bandwidth
    """
    if not 0 <= recomputed <= 1:
        raise ValueError(f"recomputed is a share of the prefill, 0..1, not {recomputed}")
    if min(bandwidth, flops_per_second, memory_bandwidth) <= 0:
        raise ValueError("bandwidths and FLOPs per second are above 0")
    # solution:begin three steps; two things happen at once in one of them
    move = num_tokens * source_bytes_per_token / bandwidth
    apply = max(num_tokens * map_flops_per_token / flops_per_second, map_bytes / memory_bandwidth)
    return move + apply + recomputed * prefill_seconds
    # solution:end


def optimal_recompute_fraction(move_seconds: float, prefill_seconds: float) -> float:
    """Return the share of the layers to recompute, so that moving the rest, at the same time, is done at the same time.

    move_seconds     for the cache of all layers; what is recomputed need not be moved
    prefill_seconds  for recomputing all layers

    Example: 1 s to move all, 3 s to recompute all: 0.25, and both are done after 0.75 s.
    ValueError: a negative time, or both 0. DroidSpeak, arXiv 2411.02820.

    ● · about 1 line · part of breakeven_bandwidth
    """
    if min(move_seconds, prefill_seconds) < 0 or move_seconds + prefill_seconds == 0:
        raise ValueError("times are 0 or more, and not both are 0")
    # solution:begin solve move · (1 - share) = prefill · share
    return move_seconds / (move_seconds + prefill_seconds)
    # solution:end


def breakeven_bandwidth(
    config: Config, num_tokens: int, flops_per_second: float, bytes_per_element: float = 2
) -> float:
    """Return the bytes/s of the link on which moving a prompt's cache takes as long as making it: no map, no latency.

    config             of the receiver, which would make it by one prefill of all num_tokens (FLOPs as in level 01)
    flops_per_second   that a prefill reaches on the receiver's device
    bytes_per_element  of the cache

    A faster link: move. A slower one: recompute. Example: a cache of 1000 bytes in all, whose prefill is 4000 FLOP:
    at 8000 FLOP/s it takes 0.5 s, so 2000 bytes/s.
    ValueError: num_tokens below 1, flops_per_second not above 0.

    ●● · about 2 lines
    """
    if num_tokens < 1 or flops_per_second <= 0:
        raise ValueError(f"at least 1 token and some FLOP/s are needed, not {num_tokens} and {flops_per_second}")
    # solution:begin bytes of all tokens, over the seconds of their prefill
    prefill_seconds = phase_cost(config, num_tokens, 0, bytes_per_element)["flops"] / flops_per_second
    return num_tokens * kv_bytes_per_token(config, bytes_per_element) / prefill_seconds
    # solution:end
