"""Slips of the worksheet of level06. `slip` is given when this is read."""

from math import log, sqrt

PARAMS = 34388917248
READ = PARAMS - 458752000  # weights that a step reads
TOKEN = 2 * 60 * 8 * 128 * 2  # bytes of a token's keys and values
LEFT = 0.9 * 141e9 - 2 * PARAMS
CACHE = 48000 * TOKEN
PREFILL = 1e3 * 2 * 33470545920 / (0.4 * 989e12)  # ms of a token


def fewer(bits=4.25, cache=CACHE):
    return (2 * READ + cache) / (READ * bits / 8 + cache)


slip(
    "level06.worksheet.empty_part",
    "reserved",
    "0.7147: that is with room for 2,048 tokens each; blocks of 16 leave only the rest of the last one empty.",
    value=1 - 2337 / (4 * 2048),
)
slip(
    "level06.worksheet.empty_part",
    "total_first",
    "0.006378: the sum of the lengths was rounded up; each sequence has a last block of its own.",
    value=1 - 2337 / (16 * 147),
)
slip(
    "level06.worksheet.empty_part",
    "of_the_used",
    "0.01326: that is over the tokens; asked is the part of all slots in the blocks.",
    value=31 / 2337,
)
slip(
    "level06.worksheet.empty_part",
    "half_a_block_each",
    "0.01351: half a block for each is the average; these four leave 12, 4, 11 and 4 slots empty.",
    value=32 / 2368,
)
slip(
    "level06.worksheet.empty_part",
    "one_slot_left",
    "0.02534: 15 empty slots are the most that a last block can have; count those of each sequence.",
    value=60 / 2368,
)
slip(
    "level06.worksheet.empty_part",
    "one_block_more",
    "0.03906: each got a block more than it needs: round up, and no further.",
    value=1 - 2337 / (16 * 152),
)
slip(
    "level06.worksheet.empty_part",
    "percent",
    "1.309: that is in percent; asked is the part.",
    value=100 * 31 / 2368,
)
slip(
    "level06.worksheet.empty_part",
    "slots",
    "31: those are the empty slots; divide them by all.",
    value=31,
)
slip(
    "level06.worksheet.empty_part",
    "used",
    "0.9869: that part is used; asked is the rest.",
    value=2337 / 2368,
)
slip(
    "level06.worksheet.pool_blocks",
    "keys_only",
    "29562: that is room for keys alone; a block has as many values.",
    value=LEFT // (8 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "query_heads",
    "2111: that is with 56 heads; keys and values have 8.",
    value=LEFT // (16 * 7 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "no_reserve",
    "18367: that is without the reserve: of 141 GB only 126.9 are shared out.",
    value=(141e9 - 2 * PARAMS) // (16 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "gibibytes",
    "17161: that is with 141 GiB; data sheets of GPUs, and this one, mean 141e9 bytes.",
    value=(0.9 * 141 * 2**30 - 2 * PARAMS) // (16 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "no_weights",
    "32272: the weights were left out; they take 68.78 GB first.",
    value=0.9 * 141e9 // (16 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "tokens",
    "236499: those are tokens; a block has 16.",
    value=LEFT // TOKEN,
)
slip(
    "level06.worksheet.pool_blocks",
    "float32",
    "7390: that is a cache in float32; in bfloat16 a number takes 2 bytes.",
    value=LEFT // (32 * TOKEN),
)
slip(
    "level06.worksheet.pool_blocks",
    "one_layer",
    "886873: that is a block of one layer; a block is the same block in all 60.",
    value=LEFT // (16 * TOKEN / 60),
)
slip(
    "level06.worksheet.sample_blocks",
    "nothing_shared",
    "45: that is five caches of their own; the full blocks of the prompt are there once.",
    value=45,
)
slip(
    "level06.worksheet.sample_blocks",
    "copies_only",
    "15: those are each one's own; the six full blocks of the prompt are in use as well.",
    value=15,
)
slip(
    "level06.worksheet.sample_blocks",
    "original_stays",
    "22: the prompt's last block was counted beside five copies; the last one to write owns it alone and needs none.",
    value=22,
)
slip(
    "level06.worksheet.sample_blocks",
    "last_block_shared",
    "17: the half-full block was shared to the end; whoever writes into it first gets a copy.",
    value=17,
)
slip(
    "level06.worksheet.sample_blocks",
    "tokens",
    "16: that is 250 tokens in full blocks; the samples' last blocks are not shared.",
    value=16,
)
slip(
    "level06.worksheet.sample_blocks",
    "one_sample",
    "9: that is a single sequence; each of the others has three blocks of its own.",
    value=9,
)
slip(
    "level06.worksheet.sample_blocks",
    "in_tokens",
    "250: those are tokens; asked are blocks.",
    value=250,
)
slip(
    "level06.worksheet.saved_ms",
    "whole_prefix",
    "169.2: all 1,000 tokens were reused; the last block of them is not full, and has another content here.",
    value=1000 * PREFILL,
)
slip(
    "level06.worksheet.saved_ms",
    "rounds_up",
    "173.3: the last block was counted; its other tokens differ.",
    value=1024 * PREFILL,
)
slip(
    "level06.worksheet.saved_ms",
    "at_the_peak",
    "64.98: that is at the full peak; 40% of it take longer.",
    value=0.4 * 960 * PREFILL,
)
slip(
    "level06.worksheet.saved_ms",
    "macs",
    "81.22: a multiply-add was counted once; it is two FLOPs.",
    value=960 * PREFILL / 2,
)
slip(
    "level06.worksheet.saved_ms",
    "seconds",
    "0.1624: those are seconds; asked are ms.",
    value=960 * PREFILL / 1e3,
)
slip(
    "level06.worksheet.saved_ms",
    "one_token",
    "0.1692: that is one token; 960 need not run.",
    value=PREFILL,
)
slip(
    "level06.worksheet.saved_ms",
    "blocks",
    "2.538: that is 15 tokens; those are 15 blocks of 64.",
    value=15 * PREFILL,
)
slip(
    "level06.worksheet.saved_ms",
    "the_rest",
    "6.769: those are the 40 tokens behind the last full block; asked is what is saved.",
    value=40 * PREFILL,
)
slip(
    "level06.worksheet.relative_error",
    "whole_step",
    "0.04724: that is one step; errors are spread over it, so divide by the root of 12.",
    value=0.42 / 127 / 0.07,
)
slip(
    "level06.worksheet.relative_error",
    "half_step",
    "0.02362: half a step is the largest error; asked is the root mean square.",
    value=0.42 / 127 / 2 / 0.07,
)
slip(
    "level06.worksheet.relative_error",
    "no_root",
    "0.003937: a twelfth is that of the squares; take the root.",
    value=0.42 / 127 / 12 / 0.07,
)
slip(
    "level06.worksheet.relative_error",
    "over_a_step_each_side",
    "0.02728: errors reach half a step to each side, not a whole one.",
    value=0.42 / 127 / sqrt(3) / 0.07,
)
slip(
    "level06.worksheet.relative_error",
    "unsigned",
    "0.006792: 255 codes were counted from 0 to 0.42; they also reach down to -0.42.",
    value=0.42 / 255 / sqrt(12) / 0.07,
)
slip(
    "level06.worksheet.relative_error",
    "absolute",
    "0.0009547: that is the error itself; divide it by the 0.07 of the weights.",
    value=0.42 / 127 / sqrt(12),
)
slip(
    "level06.worksheet.relative_error",
    "over_the_largest",
    "0.002273: that is over the largest weight; asked is over their root mean square.",
    value=1 / 127 / sqrt(12),
)
slip(
    "level06.worksheet.relative_error",
    "squared",
    "0.0001860: that is the ratio of the squares; take the root.",
    value=(0.42 / 127 / 0.07) ** 2 / 12,
)
slip(
    "level06.worksheet.relative_error",
    "four_bits",
    "0.2474: that is with 4 bits, whose largest code is 7; that of 8 bits is 127.",
    value=0.42 / 7 / sqrt(12) / 0.07,
)
slip(
    "level06.worksheet.lost_below",
    "whole_step",
    "3.429: that is a step; what lies above half of it is rounded up to it.",
    value=24 / 7,
)
slip(
    "level06.worksheet.lost_below",
    "divides_by_8",
    "1.5: the largest code is 7: with eight steps 24 itself would not fit.",
    value=24 / 8 / 2,
)
slip(
    "level06.worksheet.lost_below",
    "fifteen_steps",
    "0.8: that is asymmetric, 15 steps from 0 to 24; symmetric codes are there for -24 as well.",
    value=24 / 15 / 2,
)
slip(
    "level06.worksheet.lost_below",
    "range_over_15",
    "1.6: 48 was divided by 15; from -7 to 7 there are 14 steps.",
    value=48 / 15 / 2,
)
slip(
    "level06.worksheet.lost_below",
    "without_the_outlier",
    "0.07143: that is without the 24; it is in the group, and sets the scale for all.",
    value=1 / 7 / 2,
)
slip(
    "level06.worksheet.lost_below",
    "eight_bits",
    "0.09449: that is with 8 bits; the largest code of 4 is 7.",
    value=24 / 127 / 2,
)
slip(
    "level06.worksheet.lost_below",
    "cut_off_codes",
    "0.75: that is half of 24 / 16; 16 codes in 4 bits serve both signs.",
    value=24 / 16 / 2,
)
slip(
    "level06.worksheet.fewer_bytes",
    "weights_only",
    "3.765: those are the weights alone; the caches are read as well, and have not changed.",
    value=16 / 4.25,
)
slip(
    "level06.worksheet.fewer_bytes",
    "bits",
    "4: that is 16 bits over 4; there are a scale and a least value for each group, and caches.",
    value=4,
)
slip(
    "level06.worksheet.fewer_bytes",
    "metadata_is_free",
    "2.770: scale and least value were left out; they are a quarter of a bit more for each weight.",
    value=fewer(bits=4),
)
slip(
    "level06.worksheet.fewer_bytes",
    "scale_only",
    "2.719: only one number of 16 bits was counted for each group; there are two.",
    value=fewer(bits=4.125),
)
slip(
    "level06.worksheet.fewer_bytes",
    "metadata_in_bytes",
    "2.139: 32 bytes were counted for each group; a scale and a least value of 16 bits are four.",
    value=fewer(bits=6),
)
slip(
    "level06.worksheet.fewer_bytes",
    "one_sequence",
    "3.656: that is one sequence; each of the 16 has a cache.",
    value=fewer(cache=3000 * TOKEN),
)
slip(
    "level06.worksheet.fewer_bytes",
    "keys_only",
    "3.083: those are the keys; as many values are read.",
    value=fewer(cache=CACHE / 2),
)
slip(
    "level06.worksheet.fewer_bytes",
    "upside_down",
    "0.3744: that is the other way round: how much is left.",
    value=1 / fewer(),
)
slip(
    "level06.worksheet.kl_nats",
    "reversed",
    "0.04747: that weighs by the changed model; the weights of the sum are the reference's, 0.6, 0.3 and 0.1.",
    value=0.5 * log(0.5 / 0.6) + 0.2 * log(2),
)
slip(
    "level06.worksheet.kl_nats",
    "bits",
    "0.05782: that is in bits; nats take the natural logarithm.",
    value=(0.6 * log(1.2) - 0.1 * log(2)) / log(2),
)
slip(
    "level06.worksheet.kl_nats",
    "mean",
    "0.01336: that is the mean over the tokens; over the vocabulary KL is a sum.",
    value=(0.6 * log(1.2) - 0.1 * log(2)) / 3,
)
slip(
    "level06.worksheet.kl_nats",
    "magnitudes",
    "0.1787: all terms were taken as positive; the third is negative, and only the sum is at least 0.",
    value=0.6 * log(1.2) + 0.1 * log(2),
)
slip(
    "level06.worksheet.kl_nats",
    "one_token",
    "0.1094: that is the first term; add those of the other two.",
    value=0.6 * log(1.2),
)
slip(
    "level06.worksheet.kl_nats",
    "cross_entropy",
    "0.9380: that is the cross-entropy; the entropy of the reference has to be taken off.",
    value=-(0.6 * log(0.5) + 0.3 * log(0.3) + 0.1 * log(0.2)),
)
slip(
    "level06.worksheet.kl_nats",
    "differences",
    "0.2: those are the differences of the probabilities, summed up; KL weighs their ratios, as logarithms.",
    value=0.2,
)
slip(
    "level06.worksheet.kl_nats",
    "not_weighted",
    "-0.5108: the logarithms were added as they are; each is weighted by the reference's probability.",
    value=log(1.2) - log(2),
)
slip(
    "level06.worksheet.kl_nats",
    "ratios_upside_down",
    "-0.04008: the ratio is upside down: the reference's probability is on top, and a KL is never negative.",
    value=-(0.6 * log(1.2) - 0.1 * log(2)),
)
