"""Judges traffic.py by tensors that are really made and counted, and by tiles that are read one after the other.

dojo.cost counts what each operator reads and writes; a float may come back as an int and the other way round.
"""

from fractions import Fraction
from math import ceil

import pytest
import torch

from dojo.cost import count
from level07.traffic import (
    attention_intensity,
    flash_attention_bytes,
    largest_block_q,
    naive_attention_bytes,
    tile_sram_bytes,
)

EXACT = {"rel": 1e-12, "abs": 0}
ELEMENTS = [(torch.bfloat16, 2), (torch.float32, 4), (torch.float64, 8)]
WIDTHS = [0.5, 0.5625, 1, 2, 4]  # four bits, four and a half with the scales, int8, bfloat16, float32


def refused(expect, function, *good):
    """Each argument in turn is 0, then negative; as they stand, all are accepted."""
    expect(function, *good).holds(lambda value: value > 0, "these arguments are accepted")
    for i in range(len(good)):
        for bad in (0, -1):
            expect(function, *good[:i], bad, *good[i + 1 :]).raises(ValueError)


# ---- naive_attention_bytes, judged with flash_attention_bytes


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_scores_and_weights_cross_memory_four_times(expect):
    """The docstring's example: 6 + 6 read, 4 written; 4 read, 4 written; 4 + 6 read, 6 written. At 4096 tokens, the
    case of the lesson, two matrices of 33.55 MB dwarf the four of 1 MB: 138.4 MB."""
    expect(naive_attention_bytes, 2, 3, 1).equals(40.0, **EXACT)
    expect(naive_attention_bytes, 1, 1, 2).equals(16.0, **EXACT)
    expect(naive_attention_bytes, 4096, 128, 2).equals(138_412_032.0, **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
@pytest.mark.parametrize("dtype, width", ELEMENTS, ids=str)
@pytest.mark.parametrize("n, head_dim", [(1, 1), (5, 3), (3, 7), (6, 6), (17, 4)])
def test_three_steps_move_what_the_operators_move(expect, n, head_dim, dtype, width):
    """Oracle: the three steps run on tensors, and what each operator reads and writes is counted."""
    q, k, v = torch.ones(3, n, head_dim, dtype=dtype)
    moved = count(lambda q, k, v: torch.mm(torch._softmax(torch.mm(q, k.mT), -1, False), v), q, k, v)
    expect(naive_attention_bytes, n, head_dim, width).equals(float(moved.bytes), **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
@pytest.mark.parametrize("width", WIDTHS)
def test_three_steps_in_elements_of_any_width(expect, width):
    """A quantized cache has less than a byte per number, and nothing here is rounded to whole bytes."""
    n, d = 7, 3
    elements = [n * d, n * d, n * n, n * n, n * n, n * n, n * d, n * d]  # in the order in which they are moved
    expect(naive_attention_bytes, n, d, width).equals(float(sum(elements) * Fraction(width)), **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_three_steps_of_nothing_are_refused(expect):
    """Half a byte per element is a size, 0 and less are mistakes."""
    refused(expect, naive_attention_bytes, 3, 2, 0.5)


# ---- flash_attention_bytes


def read_tile_by_tile(n, head_dim, block_q, block_k, width, causal=False):
    """Oracle: all tiles, one after the other; a causal one is read if any of its queries sees any of its keys."""
    elements = 0
    for top in range(0, n, block_q):
        queries = range(top, min(top + block_q, n))
        elements += 2 * len(queries) * head_dim  # Q read, the output written
        for left in range(0, n, block_k):
            keys = range(left, min(left + block_k, n))
            if not causal or any(key <= query for query in queries for key in keys):
                elements += 2 * len(keys) * head_dim  # K and V
    return float(elements * Fraction(width))


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_keys_and_values_are_read_for_each_tile_of_queries(expect):
    """The docstring's example: Q and out 5 each, 3 tiles of queries times 5 keys and 5 values. At 4096 tokens with
    tiles of 128 it is half of what three steps move, however fast the arithmetic is."""
    expect(flash_attention_bytes, 5, 1, 2, 2, 1).equals(40.0, **EXACT)
    expect(flash_attention_bytes, 4096, 128, 128, 128, 2).equals(69_206_016.0, **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_causal_tiles_are_read_up_to_the_diagonal(expect):
    """The docstring's example: 2 + 4 + 5 keys and as many values. Tiles above the diagonal cost nothing, which is
    nearly half of all: at 4096 tokens 528 of 32 x 32 tiles are left."""
    expect(flash_attention_bytes, 5, 1, 2, 2, 1, True).equals(32.0, **EXACT)
    tile = 128 * 128 * 2
    expect(flash_attention_bytes, 4096, 128, 128, 128, 2, causal=True).equals(tile * 2.0 * (32 + 528), **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 13, 17])
def test_tiles_of_all_heights_and_widths(expect, n, causal):
    """Oracle: tile by tile. Tiles taller than wide and the other way round, smaller last ones, larger than n."""
    for block_q in (1, 2, 3, 4, 5, 8, 12, 13, 20):
        for block_k in (1, 2, 3, 4, 5, 8, 12, 13, 20):
            right = read_tile_by_tile(n, 3, block_q, block_k, 2, causal)
            expect(flash_attention_bytes, n, 3, block_q, block_k, 2, causal).equals(right, **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_a_tile_that_is_seen_in_part_is_read_whole(expect):
    """One query at a time, keys four at a time: query 0 reads four keys to see one. Only the last tile ends early:
    4 + 4 + 4 + 4 + 6 + 6 keys. By positions it would be 1 + 2 + ... + 6."""
    expect(flash_attention_bytes, 6, 1, 1, 4, 1, True).equals(float(12 + 2 * 28), **EXACT)
    expect(flash_attention_bytes, 6, 1, 6, 4, 1, True).equals(float(12 + 2 * 6), **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_in_elements_of_any_width(expect, width, causal):
    """Half of an odd number of elements: 7 x 3 of four bits are 10.5 bytes."""
    for head_dim in (1, 3, 8):
        right = read_tile_by_tile(7, head_dim, 2, 3, width, causal)
        expect(flash_attention_bytes, 7, head_dim, 2, 3, width, causal).equals(right, **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_taller_tiles_read_less_and_wider_ones_do_not(expect):
    """The height is the lever: of a prompt of 1024, each doubling of block_q halves what is read of K and V, until one
    tile reads every byte once. block_k only has to fit on the chip."""
    n, d = 1024, 64
    for block_q in (64, 128, 256, 512, 1024, 2048):
        for block_k in (16, 48, 1024):
            right = 2.0 * (2 * n * d + 2 * n * d * ceil(n / block_q))
            expect(flash_attention_bytes, n, d, block_q, block_k, 2).equals(right, **EXACT)
    expect(flash_attention_bytes, 10_007, 65, 64, 128, 1).equals(65.0 * (2 + 2 * 157) * 10_007, **EXACT)


@pytest.mark.kata("level07.traffic.flash_attention_bytes")
def test_tiles_of_nothing_are_refused(expect):
    """A tile without queries would never come to the end."""
    refused(expect, flash_attention_bytes, 5, 2, 2, 3, 0.5)


# ---- tile_sram_bytes, judged with largest_block_q


@pytest.mark.kata("level07.traffic.largest_block_q")
def test_a_tile_by_hand(expect):
    """The docstring's example: Q, K and V of 16 x 8 in 4 bytes are 1536; 256 scores, 128 of the accumulator, 16 maxima
    and 16 denominators. With one of everything in 2 bytes: 3 · 2 + 4 · (1 + 1 + 1 + 1)."""
    expect(tile_sram_bytes, 16, 16, 8, 4).equals(3200.0, **EXACT)
    expect(tile_sram_bytes, 1, 1, 1, 2).equals(22.0, **EXACT)
    expect(tile_sram_bytes, 64, 64, 64, 2).equals(57_856.0, **EXACT)


@pytest.mark.kata("level07.traffic.largest_block_q")
@pytest.mark.parametrize("dtype, width", ELEMENTS, ids=str)
@pytest.mark.parametrize("block_q, block_k, head_dim", [(2, 3, 5), (7, 2, 4), (3, 11, 2), (1, 6, 6), (9, 1, 3)])
def test_what_a_tile_has_on_the_chip(expect, block_q, block_k, head_dim, dtype, width):
    """Oracle: the tensors, made and weighed. What is computed is float32 even where the inputs are not."""
    inputs = [torch.empty(rows, head_dim, dtype=dtype) for rows in (block_q, block_k, block_k)]
    shapes = [(block_q, block_k), (block_q, head_dim), (block_q,), (block_q,)]
    right = sum(t.nbytes for t in [*inputs, *map(torch.empty, shapes)])
    expect(tile_sram_bytes, block_q, block_k, head_dim, width).equals(float(right), **EXACT)


@pytest.mark.kata("level07.traffic.largest_block_q")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_inputs_of_a_tile_in_elements_of_any_width(expect, width):
    """Only Q, K and V shrink with their elements; scores and sums do not."""
    right = Fraction(width) * 5 * (3 + 2 * 7) + 4 * (3 * 7 + 3 * 5 + 3 + 3)
    expect(tile_sram_bytes, 3, 7, 5, width).equals(float(right), **EXACT)


@pytest.mark.kata("level07.traffic.largest_block_q")
def test_a_tile_of_nothing_is_refused(expect):
    """A tile has rows, keys and a width; a kernel compiled for none of them computes nothing, and says nothing."""
    refused(expect, tile_sram_bytes, 3, 7, 5, 0.5)


# ---- largest_block_q


def weighed(block_q, block_k, head_dim, width):
    return Fraction(width) * head_dim * (block_q + 2 * block_k) + 4 * block_q * (block_k + head_dim + 2)


def highest(sram, block_k, head_dim, width, multiple_of=16):
    """Oracle: one multiple after the other, until the next one does not fit any more."""
    block_q = multiple_of
    while weighed(block_q + multiple_of, block_k, head_dim, width) <= sram:
        block_q += multiple_of
    return block_q


@pytest.mark.kata("level07.traffic.largest_block_q")
@pytest.mark.parametrize(
    "sram, block_k, head_dim, right",
    [(48 * 1024, 64, 64, 48), (227 * 1024, 128, 128, 128), (227 * 1024, 64, 64, 320), (227 * 1024, 64, 128, 192)],
)
def test_tiles_of_real_chips(expect, sram, block_k, head_dim, right):
    """48 KiB is what any GPU gives a block of threads, 227 KiB the most of an H100; by hand, in bfloat16: K and V are
    4 · block_k · head_dim bytes, and a row 6 · head_dim + 4 · block_k + 8. The first is the docstring's example."""
    expect(largest_block_q, sram, block_k, head_dim, 2).equals(right)


@pytest.mark.kata("level07.traffic.largest_block_q")
def test_a_chip_with_room_for_thousands_of_queries(expect):
    """A TPU has 128 MiB of such memory. Oracle: all multiples in turn; nothing but the chip is the limit."""
    for block_k, multiple_of in ((512, 128), (4096, 16)):
        right = highest(128 * 2**20, block_k, 128, 2, multiple_of)
        expect(largest_block_q, 128 * 2**20, block_k, 128, 2, multiple_of).equals(right)


@pytest.mark.kata("level07.traffic.largest_block_q")
@pytest.mark.parametrize("multiple_of", [1, 8, 16, 48, 100])
@pytest.mark.parametrize(
    "block_k, head_dim, width", [(64, 64, 2), (16, 128, 4), (128, 32, 1), (48, 80, 0.5), (1, 1, 2)]
)
def test_the_largest_multiple_that_fits(expect, block_k, head_dim, width, multiple_of):
    """Oracle: all multiples in turn. Tensor cores take queries by 8 or 16, another kernel by as many as it likes."""
    least = weighed(multiple_of, block_k, head_dim, width)
    for times in (1, 1.3, 2, 2.9, 5, 7.77):
        sram = int(least * Fraction(times))
        right = highest(sram, block_k, head_dim, width, multiple_of)
        expect(largest_block_q, sram, block_k, head_dim, width, multiple_of).equals(right)


@pytest.mark.kata("level07.traffic.largest_block_q")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("block_q, multiple_of", [(1, 1), (5, 1), (16, 16), (32, 16), (48, 16), (48, 8), (120, 40)])
def test_what_fits_exactly_fits(expect, block_q, multiple_of, width):
    """Not a byte must be left over; with half a byte less it is one multiple less."""
    full = float(weighed(block_q, 24, 40, width))
    expect(largest_block_q, full, 24, 40, width, multiple_of).equals(block_q)
    if block_q > multiple_of:
        expect(largest_block_q, full - 0.5, 24, 40, width, multiple_of).equals(block_q - multiple_of)
    else:
        expect(largest_block_q, full - 0.5, 24, 40, width, multiple_of).raises(ValueError)


@pytest.mark.kata("level07.traffic.largest_block_q")
def test_multiples_of_16_unless_told_otherwise(expect):
    """A tensor core multiplies 16 rows at a time. It is no power of two that is asked for: 48 and 80 are fine."""
    for right in (16, 48, 80, 112):
        expect(largest_block_q, float(weighed(right + 15, 32, 64, 2)), 32, 64, 2).equals(right)


@pytest.mark.kata("level07.traffic.largest_block_q")
def test_a_chip_for_not_even_one_multiple_is_refused(expect):
    """Zero queries would be a kernel that never ends; nor may more be promised than fit."""
    expect(largest_block_q, float(weighed(1, 64, 64, 2)), 64, 64, 2, 1).equals(1)
    for sram in (100, float(weighed(15, 64, 64, 2)), float(weighed(16, 64, 64, 2)) - 1, 0):
        expect(largest_block_q, sram, 64, 64, 2).raises(ValueError)
    for multiple_of in (0, -16):
        expect(largest_block_q, 48 * 1024, 64, 64, 2, multiple_of).raises(ValueError)


# ---- attention_intensity


@pytest.mark.kata("level07.traffic.attention_intensity")
def test_an_intensity_by_hand(expect):
    """The docstring's example: 4 heads times 2 products of 100 keys and 2 features, 2 FLOPs each: 3200. 200 + 200
    numbers of K and V are read once for the four heads, 8 of Q read, 8 of the output written: 416."""
    expect(attention_intensity, 1, 100, 4, 2, 1).equals(3200 / 416, **EXACT)


@pytest.mark.kata("level07.traffic.attention_intensity")
def test_decoding_does_one_flop_for_a_byte_per_head_of_the_group(expect):
    """With one query the cache is all there is to read: the size of the group is nearly all that can be won, and far
    from the 295 FLOPs per byte at which an H100 is busy. A prompt of n has n / 2."""
    expect(attention_intensity, 1, 4096, 1, 128, 2).equals(4096 / 4097, **EXACT)
    expect(attention_intensity, 1, 4096, 4, 128, 2).equals(4 * 4096 / 4100, **EXACT)
    expect(attention_intensity, 4096, 4096, 1, 128, 2).equals(2048.0, **EXACT)


@pytest.mark.kata("level07.traffic.attention_intensity")
@pytest.mark.parametrize("dtype, width", ELEMENTS, ids=str)
@pytest.mark.parametrize(
    "q_len, kv_len, group, head_dim",
    [(1, 7, 1, 3), (1, 5, 4, 2), (3, 11, 2, 5), (4, 4, 3, 6), (6, 6, 1, 6), (2, 1, 5, 7)],
)
def test_intensity_is_flops_over_the_bytes_of_the_matrices(expect, q_len, kv_len, group, head_dim, dtype, width):
    """Oracle: the FLOPs of the two products, counted as they run, over the bytes of the tensors that go in and out."""
    q = torch.ones(group, q_len, head_dim, dtype=dtype)
    k, v = torch.ones(2, kv_len, head_dim, dtype=dtype)
    cost = count(lambda: q.flatten(0, 1) @ k.mT @ v)
    right = cost.flops / (q.nbytes + k.nbytes + v.nbytes + cost.result.nbytes)
    expect(attention_intensity, q_len, kv_len, group, head_dim, width).equals(right, **EXACT)


@pytest.mark.kata("level07.traffic.attention_intensity")
@pytest.mark.parametrize("width", WIDTHS)
def test_intensity_in_elements_of_any_width(expect, width):
    """A cache in four bits has four times the intensity of bfloat16: the same arithmetic on fewer bytes."""
    right = Fraction(4 * 3 * 2 * 9 * 5) / (Fraction(width) * 5 * (9 + 9 + 6 + 6))
    expect(attention_intensity, 2, 9, 3, 5, width).equals(float(right), **EXACT)


@pytest.mark.kata("level07.traffic.attention_intensity")
def test_an_intensity_of_nothing_is_refused(expect):
    """Without a query, a key or a head nothing is read: FLOPs per byte would be 0 by 0."""
    refused(expect, attention_intensity, 2, 9, 3, 5, 0.5)
