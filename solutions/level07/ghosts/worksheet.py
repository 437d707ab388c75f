"""Slips of the worksheet of level07. `slip` is given when this is read."""

from math import ceil, exp

N, D = 5000, 128
MATRIX = N * D  # elements of Q, of K, of V and of the output
STEPS = 4 * MATRIX + 4 * N * N
TILED = 2 * MATRIX * (1 + 27)
RIDGE = 312e12 / 2.039e12
FIRST = 1 + exp(-1)  # the first block of scores, in its own units
SECOND = FIRST * exp(-1.5) + 1 + exp(-3.5)


def height(shared=163 * 1024, inputs=2, of_a_row=4 * (96 + 128 + 2), keys=2 * 96, multiple=16):
    """Rows of a tile: what is left beside the keys and values, over what a row takes."""
    rows = (shared - inputs * D * keys) / (inputs * D + of_a_row)
    return int(rows // multiple) * multiple


slip(
    "level07.worksheet.times_the_bytes",
    "keys_read_once",
    "40.06: K and V were read once; every tile of queries reads them again.",
    value=STEPS / (4 * MATRIX),
)
slip(
    "level07.worksheet.times_the_bytes",
    "keys_without_values",
    "5.526: only the keys were read again; the values are as many.",
    value=STEPS / (2 * MATRIX + 27 * MATRIX),
)
slip(
    "level07.worksheet.times_the_bytes",
    "tiles_rounded_down",
    "2.968: 26 tiles of queries were counted; what is left over is a tile as well.",
    value=STEPS / (2 * MATRIX * 27),
)
slip(
    "level07.worksheet.times_the_bytes",
    "keys_for_queries",
    "1.002: the tiles were counted by their 64 keys; how often K and V are read is decided by the 192 queries.",
    value=STEPS / (2 * MATRIX * (1 + 79)),
)
slip(
    "level07.worksheet.times_the_bytes",
    "scores_move_once",
    "0.7690: the scores were counted once; scores and weights are each written and read.",
    value=(4 * MATRIX + N * N) / TILED,
)
slip(
    "level07.worksheet.times_the_bytes",
    "scores_move_twice",
    "1.467: the scores were written and read; the weights that softmax makes of them are, too.",
    value=(4 * MATRIX + 2 * N * N) / TILED,
)
slip(
    "level07.worksheet.times_the_bytes",
    "scores_only",
    "2.790: in three steps Q, K and V are read as well, and the output is written.",
    value=4 * N * N / TILED,
)
slip(
    "level07.worksheet.times_the_bytes",
    "upside_down",
    "0.3494: that is the other way round: the part that is left.",
    value=TILED / STEPS,
)
slip(
    "level07.worksheet.tiled_intensity",
    "half_of_the_flops",
    "89.29: half of the FLOPs are missing: there are two products, and a multiply-add is two.",
    value=N / 28 / 2,
)
slip(
    "level07.worksheet.tiled_intensity",
    "elements",
    "357.1: that is for each number; in bfloat16 it takes two bytes.",
    value=2 * N / 28,
)
slip(
    "level07.worksheet.tiled_intensity",
    "three_steps",
    "62.40: those are the bytes of attention in three steps; in tiles the scores stay on the chip.",
    value=N * D / (2 * (D + N)),
)
slip(
    "level07.worksheet.tiled_intensity",
    "everything_moves_once",
    "2500: that is with K and V read once; every tile of queries reads them again.",
    value=N / 2,
)
slip(
    "level07.worksheet.tiled_intensity",
    "height_of_the_tile",
    "192: that is what it would come to if Q and the output took nothing, and the last tile were full.",
    value=192,
)
slip(
    "level07.worksheet.tiled_intensity",
    "tiles_rounded_down",
    "185.2: 26 tiles of queries were counted; there are 27, the last one smaller.",
    value=N / 27,
)
slip(
    "level07.worksheet.denominator",
    "no_rescale",
    "3.228: the first block's sum was added as it was; it counts in units of exp(2), and the maximum has moved to 3.5.",
    value=FIRST + 1 + exp(-3.5) + exp(-0.5) + exp(-1.5),
)
slip(
    "level07.worksheet.denominator",
    "upside_down",
    "7.990: the old sum was multiplied by exp(new - old); the factor is at most 1.",
    value=FIRST * exp(1.5) + 1 + exp(-3.5) + exp(-0.5) + exp(-1.5),
)
slip(
    "level07.worksheet.denominator",
    "maximum_goes_down",
    "3.570: the last block brought the maximum down to 3; it stays at 3.5.",
    value=SECOND * exp(0.5) + 1 + exp(-1),
)
slip(
    "level07.worksheet.denominator",
    "units_of_the_block",
    "2.703: the last block was added in units of its own maximum, 3; the running one is 3.5.",
    value=SECOND + 1 + exp(-1),
)
slip(
    "level07.worksheet.denominator",
    "last_block_alone",
    "0.8297: that is the last block alone; what came before is part of the sum.",
    value=exp(-0.5) + exp(-1.5),
)
slip(
    "level07.worksheet.denominator",
    "two_blocks",
    "1.335: that is after the second block; the third adds to it.",
    value=SECOND,
)
slip(
    "level07.worksheet.denominator",
    "log_sum_exp",
    "4.272: that is the log-sum-exp, 3.5 plus the log of the denominator.",
    value=4.272446,
)
slip(
    "level07.worksheet.denominator",
    "no_maximum",
    "71.70: that is the sum of exp(score); the denominator counts in units of the largest one.",
    value=exp(1) + 2 * exp(2) + exp(3.5) + exp(0) + exp(3),
)
slip(
    "level07.worksheet.merged",
    "plain_mean",
    "2.333: the three were averaged; each weighs what it has of the sum, exp(lse).",
    value=7 / 3,
)
slip(
    "level07.worksheet.merged",
    "weights_are_logs",
    "4.125: 1, 2.5 and 0.5 were taken as weights; they are logarithms.",
    value=(2 * 1 + 6 * 2.5 - 0.5) / 4,
)
slip(
    "level07.worksheet.merged",
    "halves_again_and_again",
    "1.5: half of each, twice; then the third split weighs as much as the first two.",
    value=((2 + 6) / 2 - 1) / 2,
)
slip(
    "level07.worksheet.merged",
    "keeps_the_first_lse",
    "2.902: after the first merge the left side still had a log-sum-exp of 1; it has grown to 2.701.",
    value=((2 * exp(1) + 6 * exp(2.5)) / (exp(1) + exp(2.5)) * exp(1) - exp(0.5)) / (exp(1) + exp(0.5)),
)
slip(
    "level07.worksheet.merged",
    "added",
    "7: the outputs were added; each is a mean already.",
    value=7,
)
slip(
    "level07.worksheet.merged",
    "largest_only",
    "6: that is the split with the largest log-sum-exp; the others have a quarter of the weight.",
    value=6,
)
slip(
    "level07.worksheet.merged",
    "base_2",
    "4.027: the weights are powers of two; these log-sum-exps are natural.",
    value=(2 * 2 + 6 * 2**2.5 - 2**0.5) / (2 + 2**2.5 + 2**0.5),
)
slip(
    "level07.worksheet.merged",
    "two_splits",
    "5.270: that is without the third split.",
    value=(2 * exp(1) + 6 * exp(2.5)) / (exp(1) + exp(2.5)),
)
slip(
    "level07.worksheet.tile_height",
    "no_scores",
    "144: the scores were left out; they are on the chip as well, 96 float32 numbers for each query.",
    value=height(of_a_row=4 * (128 + 2)),
)
slip(
    "level07.worksheet.tile_height",
    "no_accumulator",
    "176: the accumulator was left out; it has 128 float32 numbers for each query.",
    value=height(of_a_row=4 * (96 + 2)),
)
slip(
    "level07.worksheet.tile_height",
    "everything_narrow",
    "160: scores, accumulator and sums were counted in bfloat16; they take 4 bytes each.",
    value=height(of_a_row=2 * (96 + 128 + 2)),
)
slip(
    "level07.worksheet.tile_height",
    "everything_wide",
    "48: Q, K and V were counted in float32; they stay in bfloat16.",
    value=height(inputs=4),
)
slip(
    "level07.worksheet.tile_height",
    "no_values",
    "112: room for the keys alone; the values of the tile are there, too.",
    value=height(keys=96),
)
slip(
    "level07.worksheet.tile_height",
    "keys_take_nothing",
    "128: keys and values were left out; they take 49,152 bytes before the first query.",
    value=height(keys=0),
)
slip(
    "level07.worksheet.tile_height",
    "any_number",
    "101: so many fit, but asked is a multiple of 16.",
    value=height(multiple=1),
)
slip(
    "level07.worksheet.tile_height",
    "power_of_two",
    "64: every multiple of 16 counts, not only powers of two.",
    value=64,
)
slip(
    "level07.worksheet.computed_part",
    "top_left",
    "0.4167: the first query was taken for token 0; 512 are cached before it.",
    value=sum(ceil(128 * i / 256) for i in range(1, 9)) / 48,
)
slip(
    "level07.worksheet.computed_part",
    "half",
    "0.5: a half is left without a cache, and of tiles that are small; here most of the keys come before the chunk.",
    value=0.5,
)
slip(
    "level07.worksheet.computed_part",
    "all",
    "1: all tiles were computed; whoever begins behind the last query of a tile is skipped.",
    value=1,
)
slip(
    "level07.worksheet.computed_part",
    "visible_scores",
    "0.6670: that is the part of the scores; a tile that is seen in part is computed whole.",
    value=(512 * 1024 + 1024 * 1025 / 2) / (1024 * 1536),
)
slip(
    "level07.worksheet.computed_part",
    "full_tiles",
    "0.5833: those are the tiles that need no mask; the eight on the diagonal are computed as well.",
    value=28 / 48,
)
slip(
    "level07.worksheet.computed_part",
    "partial_tiles",
    "0.1667: those are the tiles on the diagonal; all that lie before them are computed, too.",
    value=8 / 48,
)
slip(
    "level07.worksheet.computed_part",
    "skipped",
    "0.25: that is the part that is skipped; asked is the rest.",
    value=12 / 48,
)
slip(
    "level07.worksheet.computed_part",
    "tile_numbers",
    "0.6875: tile i of the queries was compared with tile j of the keys; they have different sizes, and a cache before.",
    value=sum(min(i, 6) for i in range(1, 9)) / 48,
)
slip(
    "level07.worksheet.computed_part",
    "tiles",
    "36: those are the tiles; divide them by all 48.",
    value=36,
)
slip(
    "level07.worksheet.below_the_ridge",
    "one_query_head",
    "153.0: a byte of cache was used by one query head; five of them share it.",
    value=RIDGE * 12001 / 12000,
)
slip(
    "level07.worksheet.below_the_ridge",
    "group_of_the_lesson",
    "38.27: four query heads share a KV head in the lesson's model; here it is 40 / 8, five.",
    value=RIDGE * 12004 / (4 * 12000),
)
slip(
    "level07.worksheet.below_the_ridge",
    "kv_heads",
    "19.14: 8 is the number of KV heads; what counts is how many query heads share one.",
    value=RIDGE * 12008 / (8 * 12000),
)
slip(
    "level07.worksheet.below_the_ridge",
    "query_heads",
    "3.838: all 40 query heads were taken for one KV head; 5 share it.",
    value=RIDGE * 12040 / (40 * 12000),
)
slip(
    "level07.worksheet.below_the_ridge",
    "half_of_the_flops",
    "61.23: half of the FLOPs are missing: there are two products, and a multiply-add is two.",
    value=2 * RIDGE * 12005 / 60000,
)
slip(
    "level07.worksheet.below_the_ridge",
    "elements",
    "15.31: that is FLOPs for each number; in bfloat16 it takes two bytes.",
    value=RIDGE * 12005 / 60000 / 2,
)
slip(
    "level07.worksheet.below_the_ridge",
    "intensity",
    "4.998: those are the FLOPs per byte; asked is how many times as many the ridge asks for.",
    value=60000 / 12005,
)
slip(
    "level07.worksheet.below_the_ridge",
    "upside_down",
    "0.03266: that is the other way round: the part of the peak that is reached.",
    value=60000 / 12005 / RIDGE,
)
slip(
    "level07.worksheet.split_tokens",
    "rounded_down",
    "3334: six splits leave 12 of the processors idle: round up.",
    value=ceil(20000 / 6),
)
slip(
    "level07.worksheet.split_tokens",
    "one_sequence",
    "1429: that is for one sequence; two bring 16 pieces of work.",
    value=ceil(20000 / 14),
)
slip(
    "level07.worksheet.split_tokens",
    "heads_forgotten",
    "371: the KV heads were left out; each has keys of its own to read.",
    value=ceil(20000 / 54),
)
slip(
    "level07.worksheet.split_tokens",
    "query_heads",
    "10000: that is with 40 query heads; five of them read the same keys, and belong to one piece of work.",
    value=10000,
)
slip(
    "level07.worksheet.split_tokens",
    "as_many_as_fit",
    "257: that is as many splits as 256 tokens each allow; beyond one for each processor they only cost merges.",
    value=ceil(20000 / 78),
)
slip(
    "level07.worksheet.split_tokens",
    "a_split_for_each_processor",
    "186: 108 splits of each cache make 1,728 pieces of work for 108 processors.",
    value=ceil(20000 / 108),
)
slip(
    "level07.worksheet.split_tokens",
    "not_split",
    "20000: without splitting only 16 of 108 processors have something to read.",
    value=20000,
)
slip(
    "level07.worksheet.split_tokens",
    "splits",
    "7: that is the number of splits; asked are the tokens of one.",
    value=7,
)
