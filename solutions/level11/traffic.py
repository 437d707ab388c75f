"""Bytes a decode step moves, for any architecture: weights, of which a batch touches part; caches; and states."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """What a decode step reads and writes, from a model's configuration. Bytes are sums over all layers.

    Parameters are those that are read: of an untied embedding a step needs a row for each sequence, so it is left out,
    as in level 04's decode_step_cost. A model's name may count it.
    """

    name: str
    shared_params: float  # read in every step
    expert_params: float = 0  # of one expert in every layer
    n_experts: int = 0  # of a layer; 0 for a dense model
    k: int = 0  # experts of a token
    global_kv_bytes: float = 0  # of one token, in the layers that see everything
    local_kv_bytes: float = 0  # of one token, in the layers that see a window
    window: int = 0
    state_bytes: float = 0  # of one sequence, whatever its length
    bytes_per_param: float = 2


LLAMA_8B = Architecture("Llama-3.1-8B", 7.505e9, global_kv_bytes=131072)
MIXTRAL = Architecture("Mixtral-8x7B", 1.475e9, 5.637e9, 8, 2, global_kv_bytes=131072)
# 61 layers of which 58 have experts; weights in 8 bits, latents in 16
DEEPSEEK_V3 = Architecture("DeepSeek-V3", 16.19e9, 2.554e9, 256, 8, global_kv_bytes=70272, bytes_per_param=1)
# 10 layers of 62 see everything; 16 KV heads of 128 features
GEMMA3_27B = Architecture("Gemma-3-27B", 27.0e9, global_kv_bytes=81920, local_kv_bytes=425984, window=1024)
MAMBA2 = Architecture("Mamba-2-2.7B", 2.7e9, state_bytes=64 * 5120 * 128 * 2)


def expected_experts_touched(n_experts: int, k: int, batch: int) -> float:
    """Return how many of a layer's experts a step of `batch` tokens reads, on average.

    Each token goes to k different experts, every choice of k as likely as any other, independently of other tokens.
    Example: 8 experts, k = 2: 2 for one token, 3.5 for two, 7.2 for 8.

    ● · about 1 line · part of decode_step_bytes
    """
    # solution:begin how likely is it that all of them leave an expert out?
    return n_experts * (1 - (1 - k / n_experts) ** batch)
    # solution:end


def decode_step_bytes(arch: Architecture, batch: int, context_len: int) -> float:
    """Return the bytes that a decode step of `batch` sequences moves, each of which attends to context_len tokens.

    Shared weights and the experts that are touched (on average, as expected_experts_touched) are read once a step.
    For each sequence keys and values are read, by local layers those of min(window, context_len) tokens; its state is
    read and written. The new token's keys and values, and activations, are left out.
    Example: Mixtral-8x7B, no context: 25.5 GB at batch 1, 92.2 GB at batch 16.
    ValueError: batch below 1, context_len below 0.

    ●● · about 5 lines
    """
    if batch < 1 or context_len < 0:
        raise ValueError(f"a step has at least 1 sequence of 0 or more tokens, not {batch} and {context_len}")
    # solution:begin what does everybody share, and what has each sequence of its own?
    params = arch.shared_params
    if arch.n_experts:
        params += arch.expert_params * expected_experts_touched(arch.n_experts, arch.k, batch)
    cache = arch.global_kv_bytes * context_len + arch.local_kv_bytes * min(arch.window, context_len)
    return params * arch.bytes_per_param + batch * (cache + 2 * arch.state_bytes)
    # solution:end


def crossover_context(first: Architecture, second: Architecture, batch: int) -> int | None:
    """Return the smallest context_len, from 0 on, at which a step of `first` moves more bytes than one of `second`;
    None if there is none.

    Bytes as decode_step_bytes counts them, the same batch for both.
    Example: 100 parameters and 4 bytes a token beside 110 parameters and 2 bytes a token, 2 bytes a parameter, batch 1:
    200 + 4 n is more than 220 + 2 n from n = 11 on. ValueError: batch below 1.

    ●● · about 9 lines · part of decode_step_bytes
    """

    def excess(context_len: int) -> float:
        return decode_step_bytes(first, batch, context_len) - decode_step_bytes(second, batch, context_len)

    # solution:begin a line that bends where a window is full: where does each piece rise above 0?
    bends = sorted({0, first.window, second.window})
    for start, end in zip(bends, [*bends[1:], float("inf")]):
        slope = excess(start + 1) - excess(start)
        if excess(start) > 0:
            return start
        if slope > 0:
            crossing = start + int(-excess(start) / slope)
            crossing += excess(crossing) <= 0  # the first that is above, not the last that is not
            if crossing <= end:
                return crossing
    return None
    # solution:end
