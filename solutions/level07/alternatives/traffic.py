"""Right programs, written another way, for level07.traffic. `alternative` is given when this is read."""

from fractions import Fraction
from math import ceil


def _above_zero(*sizes):
    if any(size <= 0 for size in sizes):
        raise ValueError("sizes are above 0")


def _naive_step_by_step(n, head_dim, bytes_per_element):
    _above_zero(n, head_dim, bytes_per_element)
    row, square = n * head_dim, n * n
    scores = row + row + square
    softmax = square + square
    out = square + row + row
    return (scores + softmax + out) * bytes_per_element


def _naive_factored(n, head_dim, bytes_per_element):
    _above_zero(n, head_dim, bytes_per_element)
    return float(Fraction(bytes_per_element) * n * 4 * (n + head_dim))


def _flash_all_tiles(n, head_dim, block_q, block_k, bytes_per_element, causal=False):
    """Every tile in turn, kept in a list; those above the diagonal are left out."""
    _above_zero(n, head_dim, block_q, block_k, bytes_per_element)
    rows = []
    for top in range(0, n, block_q):
        bottom = min(n, top + block_q)
        rows.append(2 * (bottom - top))
        rows += [2 * (min(n, left + block_k) - left) for left in range(0, n, block_k) if not causal or left < bottom]
    return sum(rows) * head_dim * bytes_per_element


def _flash_key_by_key(n, head_dim, block_q, block_k, bytes_per_element, causal=False):
    """From the side of the keys: a key is read by every tile of queries that sees its tile."""
    _above_zero(n, head_dim, block_q, block_k, bytes_per_element)
    tiles = ceil(n / block_q)
    elements = 2 * n
    for key in range(n):
        first = key // block_k * block_k  # of its tile: who sees that one has the tile read
        elements += 2 * (tiles - (first // block_q if causal else 0))
    return elements * head_dim * float(bytes_per_element)


def _flash_two_formulas(n, head_dim, block_q, block_k, bytes_per_element, causal=False):
    _above_zero(n, head_dim, block_q, block_k, bytes_per_element)
    tiles = (n + block_q - 1) // block_q
    if not causal:
        return bytes_per_element * (2 * n * head_dim + 2 * tiles * n * head_dim)
    total = 0
    for i in range(tiles):
        last = min((i + 1) * block_q, n) - 1
        total += min((last // block_k + 1) * block_k, n)
    return bytes_per_element * 2 * head_dim * (n + total)


alternative(
    "level07.traffic.flash_attention_bytes", "naive_steps", program=_naive_step_by_step, part="naive_attention_bytes"
)
alternative(
    "level07.traffic.flash_attention_bytes", "naive_factored", program=_naive_factored, part="naive_attention_bytes"
)
alternative("level07.traffic.flash_attention_bytes", "all_tiles", program=_flash_all_tiles)
alternative("level07.traffic.flash_attention_bytes", "key_by_key", program=_flash_key_by_key)
alternative("level07.traffic.flash_attention_bytes", "two_formulas", program=_flash_two_formulas)


def _sram_one_by_one(block_q, block_k, head_dim, bytes_per_element):
    _above_zero(block_q, block_k, head_dim, bytes_per_element)
    q, k, v = block_q * head_dim, block_k * head_dim, block_k * head_dim
    scores, acc, m, denominator = block_q * block_k, block_q * head_dim, block_q, block_q
    return (q + k + v) * bytes_per_element + (scores + acc + m + denominator) * 4


def _sram_by_rows(block_q, block_k, head_dim, bytes_per_element):
    _above_zero(block_q, block_k, head_dim, bytes_per_element)
    row = Fraction(bytes_per_element) * head_dim + 4 * block_k + 4 * head_dim + 8
    return float(block_q * row + 2 * block_k * head_dim * Fraction(bytes_per_element))


def _needed(block_q, block_k, head_dim, bytes_per_element):
    if min(block_q, block_k, head_dim, bytes_per_element) <= 0:
        raise ValueError("sizes are above 0")
    inputs = bytes_per_element * (block_q * head_dim + 2 * block_k * head_dim)
    return inputs + 4 * block_q * (block_k + head_dim + 2)


def _largest_by_search(sram_bytes, block_k, head_dim, bytes_per_element, multiple_of=16):
    """One multiple after the other."""
    if multiple_of < 1:
        raise ValueError("a multiple of at least 1")
    found = 0
    while _needed(found + multiple_of, block_k, head_dim, bytes_per_element) <= sram_bytes:
        found += multiple_of
    if not found:
        raise ValueError("nothing fits")
    return found


def _largest_by_bisection(sram_bytes, block_k, head_dim, bytes_per_element, multiple_of=16):
    """Doubled until it does not fit, then halved between what fits and what does not."""
    if multiple_of < 1 or _needed(multiple_of, block_k, head_dim, bytes_per_element) > sram_bytes:
        raise ValueError("nothing fits")
    low, high = 1, 2
    while _needed(high * multiple_of, block_k, head_dim, bytes_per_element) <= sram_bytes:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _needed(middle * multiple_of, block_k, head_dim, bytes_per_element) <= sram_bytes:
            low = middle
        else:
            high = middle
    return low * multiple_of


def _largest_down_from_the_top(sram_bytes, block_k, head_dim, bytes_per_element, multiple_of=16):
    """In exact fractions, rounded down to a row, then down to a multiple."""
    if multiple_of < 1:
        raise ValueError("a multiple of at least 1")
    width = Fraction(bytes_per_element)
    rows = (Fraction(sram_bytes) - 2 * width * block_k * head_dim) // (width * head_dim + 4 * (block_k + head_dim + 2))
    rows -= rows % multiple_of
    if rows < multiple_of:
        raise ValueError("nothing fits")
    return int(rows)


alternative("level07.traffic.largest_block_q", "sram_one_by_one", program=_sram_one_by_one, part="tile_sram_bytes")
alternative("level07.traffic.largest_block_q", "sram_by_rows", program=_sram_by_rows, part="tile_sram_bytes")
alternative("level07.traffic.largest_block_q", "by_search", program=_largest_by_search)
alternative("level07.traffic.largest_block_q", "by_bisection", program=_largest_by_bisection)
alternative("level07.traffic.largest_block_q", "down_from_the_top", program=_largest_down_from_the_top)


def _intensity_matrix_by_matrix(q_len, kv_len, group, head_dim, bytes_per_element):
    _above_zero(q_len, kv_len, group, head_dim, bytes_per_element)
    flops = 0
    elements = 2 * kv_len * head_dim
    for _ in range(group):
        flops += 2 * q_len * kv_len * head_dim
        flops += 2 * q_len * kv_len * head_dim
        elements += 2 * q_len * head_dim
    return flops / (elements * bytes_per_element)


def _intensity_cancelled(q_len, kv_len, group, head_dim, bytes_per_element):
    """head_dim cancels: what is left is a harmonic mean of the keys and the rows of queries."""
    _above_zero(q_len, kv_len, group, head_dim, bytes_per_element)
    rows = group * q_len
    return 2 / bytes_per_element / (1 / kv_len + 1 / rows)


def _intensity_exact(q_len, kv_len, group, head_dim, bytes_per_element):
    _above_zero(q_len, kv_len, group, head_dim, bytes_per_element)
    moved = Fraction(bytes_per_element) * head_dim * 2 * (kv_len + group * q_len)
    return float(Fraction(4 * group * q_len * kv_len * head_dim) / moved)


alternative("level07.traffic.attention_intensity", "matrix_by_matrix", program=_intensity_matrix_by_matrix)
alternative("level07.traffic.attention_intensity", "cancelled", program=_intensity_cancelled)
alternative("level07.traffic.attention_intensity", "exact", program=_intensity_exact)
