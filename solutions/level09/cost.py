"""What communication costs: a message takes `latency` seconds, and its bytes over the link's bandwidth."""

from dataclasses import dataclass

from dojo.models import Config
from level04.ceiling import decode_step_cost, step_seconds
from level04.roofline import Hardware


@dataclass(frozen=True)
class Link:
    """What connects two ranks: seconds for each message, and bytes/s in one direction."""

    name: str
    latency: float
    bandwidth: float


NVLINK = Link("NVLink 4", 3e-6, 450e9)
NETWORK = Link("400 Gbit/s network", 10e-6, 50e9)


def all_reduce_seconds(num_bytes: float, size: int, link: Link) -> float:
    """Return the seconds of a ring all-reduce of num_bytes over `size` ranks: all links busy in every step.

    num_bytes need not divide by size, and nothing is rounded.
    Example: 1 MB over 4 ranks, 5 us and 100 GB/s: 6 · (5 + 2.5) us = 45 us. One rank: 0.
    ValueError: size below 1.

    ● · about 1 line · part of tp_decode_seconds
    """
    if size < 1:
        raise ValueError(f"an all-reduce has at least one rank, not {size}")
    # solution:begin how many steps, and what does each one move?
    return 2 * (size - 1) * (link.latency + num_bytes / size / link.bandwidth)
    # solution:end


def tp_decode_seconds(
    config: Config,
    batch: int,
    context_len: int,
    size: int,
    hardware: Hardware,
    link: Link,
    bytes_per_param: float = 2,
    bytes_per_element: float = 2,
) -> float:
    """Return the seconds of one decode step under tensor parallelism: each rank's share of the step, and the messages.

    Costs as in level 04's decode_step_cost. FLOPs and weights divide by `size`; the cache divides by it as well, but no
    further than there are KV heads. On each rank arithmetic and memory overlap fully, communication with neither.
    All-reduces, by ring: two in each layer and one for the embedding, of d_model numbers of 2 bytes for each sequence.
    Example: SmolLM2-135M on 3 H100s over NVLink, batch 1, context 1: 26.8 us, and 61 all-reduces of 12.0 us.
    ValueError: size below 1. Pope et al., arXiv 2211.05102.

    ● · about 6 lines
    """
    if size < 1:
        raise ValueError(f"a model is on at least one rank, not {size}")
    # solution:begin what divides, and how far? then what is added
    cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)
    own_bytes = cost["weight_bytes"] / size + cost["kv_bytes"] / min(size, config.n_kv_heads)
    compute = step_seconds({"flops": cost["flops"] / size, "bytes": own_bytes}, hardware)
    one = all_reduce_seconds(batch * config.d_model * 2, size, link)
    return compute + (2 * config.n_layers + 1) * one
    # solution:end
