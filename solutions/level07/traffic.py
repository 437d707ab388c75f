"""Bytes between the large memory and the chip: what attention moves, by where its intermediates live.

All of one head, Q and K of the same length n; multiply-add is 2 FLOPs.
"""


def naive_attention_bytes(n: int, head_dim: int, bytes_per_element: float) -> float:
    """Return the bytes that attention in three steps moves, each step reading from memory and writing to it.

    scores = Q Kᵀ;  weights = softmax(scores);  out = weights V. All elements take bytes_per_element.
    Example: n = 2, head_dim 3, 1 byte: 6 + 6 read, 4 written; 4 read, 4 written; 4 + 6 read, 6 written: 40.
    ValueError: anything not above 0.

    ● · about 1 line · part of flash_attention_bytes
    """
    _check(n, head_dim, bytes_per_element)
    # solution:begin four matrices of n x head_dim; how often is one of n x n moved?
    return bytes_per_element * (4 * n * head_dim + 4 * n * n)
    # solution:end


def flash_attention_bytes(
    n: int, head_dim: int, block_q: int, block_k: int, bytes_per_element: float, causal: bool = False
) -> float:
    """Return the bytes that attention in tiles moves: Q is read and the output written once; for each tile of queries
    the tiles of K and of V that it computes are read. Scores never leave the chip; lse is not counted.

    A causal tile of which nobody sees anything is not read; one of which a part is seen is read whole. The last tile
    of queries or keys may be smaller.
    Example: n = 5, head_dim 1, tiles of 2 x 2, 1 byte: Q and out 5 each, 3 tiles of queries times 5 keys and 5 values:
    40; causal: 2 + 4 + 5 keys and as many values: 32. ValueError: anything not above 0.
    FlashAttention, arXiv 2205.14135, theorem 2.

    ● · about 4 lines
    """
    _check(n, head_dim, block_q, block_k, bytes_per_element)
    # solution:begin how many keys does each tile of queries read?
    ends = [min(top + block_q, n) for top in range(0, n, block_q)]
    keys = [min(-(-end // block_k) * block_k, n) if causal else n for end in ends]
    return bytes_per_element * head_dim * (2 * n + 2 * sum(keys))
    # solution:end


def tile_sram_bytes(block_q: int, block_k: int, head_dim: int, bytes_per_element: float) -> float:
    """Return the bytes that a tile needs on the chip: its Q, K and V in bytes_per_element, and in float32 its scores,
    the accumulator (block_q, head_dim), the maximum and the denominator of each row.

    Example: block_q 16, block_k 16, head_dim 8, 4 bytes: 1536 + 4 · (256 + 128 + 32) = 3200.
    ValueError: anything not above 0.

    ● · about 2 lines · part of largest_block_q
    """
    _check(block_q, block_k, head_dim, bytes_per_element)
    # solution:begin what comes from memory, and what is made here
    inputs = bytes_per_element * head_dim * (block_q + 2 * block_k)
    return inputs + 4 * (block_q * block_k + block_q * head_dim + 2 * block_q)
    # solution:end


def largest_block_q(
    sram_bytes: float, block_k: int, head_dim: int, bytes_per_element: float, multiple_of: int = 16
) -> int:
    """Return the largest block_q, a multiple of `multiple_of`, whose tile fits into sram_bytes.

    Example: 48 KiB (49152 bytes), block_k 64, head_dim 64, 2 bytes -> 48.
    ValueError: not even one multiple fits, multiple_of below 1.

    ● · about 4 lines
    """
    if multiple_of < 1:
        raise ValueError(f"a multiple of 1 or more, not of {multiple_of}")
    if tile_sram_bytes(multiple_of, block_k, head_dim, bytes_per_element) > sram_bytes:
        raise ValueError(f"not even {multiple_of} queries fit into {sram_bytes} bytes: take fewer keys")
    # solution:begin what every row takes; the rest is there once
    fixed = bytes_per_element * head_dim * 2 * block_k
    of_a_row = tile_sram_bytes(1, block_k, head_dim, bytes_per_element) - fixed
    return int((sram_bytes - fixed) // (of_a_row * multiple_of)) * multiple_of
    # solution:end


def attention_intensity(q_len: int, kv_len: int, group: int, head_dim: int, bytes_per_element: float) -> float:
    """Return the FLOPs per byte of one KV head and the `group` query heads that share it: all matrices moved once.

    Two products (scores, and weights times values), not causal; Q, K and V are read and the output is written.
    Example: one query, 100 keys, group 4, head_dim 2, 1 byte: 3200 / 416 = 7.69. ValueError: anything not above 0.

    ● · about 3 lines
    """
    _check(q_len, kv_len, group, head_dim, bytes_per_element)
    # solution:begin arithmetic for each query head, K and V once for the group
    flops = 4 * group * q_len * kv_len * head_dim
    return flops / (bytes_per_element * head_dim * (2 * kv_len + 2 * group * q_len))
    # solution:end


def _check(*sizes: float) -> None:
    if min(sizes) <= 0:
        raise ValueError(f"sizes are above 0, not {min(sizes)}")
