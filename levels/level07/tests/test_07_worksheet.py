"""The worksheet of level 07: right values by walking over tiles, by torch, and from the shapes of Qwen2.5-14B."""

import pytest
import torch

HEADS, KV_HEADS, HEAD_DIM = 40, 8, 128  # of Qwen2.5-14B
PEAK, BANDWIDTH, PROCESSORS = 312e12, 2.039e12, 108  # of an A100, bfloat16


def tiled(n, block_q, block_k):
    """(elements, FLOPs) of one head in tiles, walked through one by one."""
    elements = flops = 0
    for top in range(0, n, block_q):
        rows = min(block_q, n - top)
        elements += 2 * rows * HEAD_DIM  # its queries, and in the end its output
        for left in range(0, n, block_k):
            keys = min(block_k, n - left)
            elements += 2 * keys * HEAD_DIM
            flops += 2 * (2 * rows * keys * HEAD_DIM)
    return elements, flops


@pytest.mark.kata("level07.worksheet.times_the_bytes")
def test_the_scores_are_most_of_what_moves(answer):
    """Nobody asks for them, and they take the time. Oracle: three steps, each with what it reads and writes."""
    n, matrix = 5000, 5000 * HEAD_DIM
    steps = (2 * matrix + n * n) + (n * n + n * n) + (n * n + matrix + matrix)
    answer("times_the_bytes").equals(steps / tiled(n, 192, 64)[0], rel=0.01)


@pytest.mark.kata("level07.worksheet.tiled_intensity")
def test_a_high_tile_makes_attention_wait_for_arithmetic(answer):
    """Above the A100's ridge, 153, bytes no longer decide. Oracle: the tiles walked through."""
    elements, flops = tiled(5000, 192, 64)
    answer("tiled_intensity").equals(flops / (2 * elements), rel=0.01)


@pytest.mark.kata("level07.worksheet.denominator")
def test_the_sum_is_kept_in_units_of_the_largest_score(answer):
    """It does not depend on how the scores came. Oracle: torch.logsumexp of all of them, less the maximum."""
    scores = torch.tensor([1, 2, 3.5, 0, 3, 2], dtype=torch.float64)
    answer("denominator").equals((scores.logsumexp(0) - scores.max()).exp().item(), rel=0.01)


@pytest.mark.kata("level07.worksheet.merged")
def test_splits_weigh_what_they_have_of_the_sum(answer):
    """Averaging them is the mistake that looks right. Oracle: torch.softmax of the log-sum-exps."""
    lses = torch.tensor([1, 2.5, 0.5], dtype=torch.float64)
    outs = torch.tensor([2, 6, -1], dtype=torch.float64)
    answer("merged").equals((lses.softmax(0) @ outs).item(), rel=0.01)


@pytest.mark.kata("level07.worksheet.tile_height")
def test_a_tile_needs_more_than_its_inputs(answer):
    """What does not fit does not run. Oracle: every multiple of 16 tried, each array of the tile summed up."""

    def fits(rows):
        narrow = [(rows, HEAD_DIM), (96, HEAD_DIM), (96, HEAD_DIM)]  # Q, K, V
        wide = [(rows, 96), (rows, HEAD_DIM), (rows, 1), (rows, 1)]  # scores, accumulator, maximum, denominator
        return sum(2 * a * b for a, b in narrow) + sum(4 * a * b for a, b in wide) <= 163 * 1024

    answer("tile_height").equals(max(rows for rows in range(16, 1024, 16) if fits(rows)), rel=0.01)


@pytest.mark.kata("level07.worksheet.computed_part")
def test_behind_a_cache_little_is_hidden(answer):
    """A chunk sees the whole cache before it. Oracle: the mask of all scores, cut into tiles."""
    seen = torch.ones(1024, 1536, dtype=torch.bool).tril(512)
    tiles = seen.unflatten(0, (-1, 128)).unflatten(2, (-1, 256)).any(3).any(1)
    answer("computed_part").equals(tiles.double().mean().item(), rel=0.01)


@pytest.mark.kata("level07.worksheet.below_the_ridge")
def test_decoding_has_few_flops_for_a_byte(answer):
    """So no tile helps it, only a smaller cache or more query heads for each KV head. Oracle: one KV head, counted."""
    group, kv_len = HEADS // KV_HEADS, 12000
    flops = sum(2 * (2 * HEAD_DIM * kv_len) for _ in range(group))
    read = 2 * HEAD_DIM * (kv_len + kv_len + group + group)
    answer("below_the_ridge").equals(PEAK / BANDWIDTH / (flops / read), rel=0.01)


@pytest.mark.kata("level07.worksheet.split_tokens")
def test_a_cache_is_shared_out_among_the_processors(answer):
    """Unsplit, 92 of 108 would have nothing to read. Oracle: numbers of splits tried, and the keys dealt out."""
    splits = next(n for n in range(1, 20000 // 256 + 1) if 2 * KV_HEADS * n >= PROCESSORS)
    answer("split_tokens").equals(max(len(range(i, 20000, splits)) for i in range(splits)), rel=0.01)
