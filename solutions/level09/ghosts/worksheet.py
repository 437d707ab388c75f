"""Slips of the worksheet of level09. `slip` is given when this is read."""

TENSOR = 512 * 8192 * 2
CHUNK = TENSOR / 4
READ = 142.9e9 / 2.039e12 * 1e3  # ms of all weights on one A100
ONE = 14 * (4e-3 + 2048 / 300e6)  # ms of an all-reduce of one token over 8
STATES = 24 * 8192 * 2 / 1e6  # MB that are summed
CACHE = 80 * 2 * 8 * 128 * 2 * 30000 / 1e9
ROWS = 96 * 4 * 5120 * 2 / 1e6


def steps(number, num_bytes=CHUNK):
    """Microseconds of so many messages of so many bytes, one after the other."""
    return number * (4 + num_bytes / 300e3)


slip(
    "level09.worksheet.all_reduce_us",
    "one_round",
    "32.97: half of the steps are missing: chunks go round once to be summed, and once more to be spread.",
    value=steps(3),
)
slip(
    "level09.worksheet.all_reduce_us",
    "whole_tensor_each_step",
    "191.8: the whole tensor was sent in every step; each moves a chunk, a quarter of it.",
    value=steps(6, TENSOR),
)
slip(
    "level09.worksheet.all_reduce_us",
    "a_step_too_many",
    "87.92: eight steps were counted; in each of the two rounds a chunk passes from rank to rank three times.",
    value=steps(8),
)
slip(
    "level09.worksheet.all_reduce_us",
    "one_start",
    "45.94: the 4 us were counted once; each of the six steps waits for them.",
    value=4 + 6 * CHUNK / 300e3,
)
slip(
    "level09.worksheet.all_reduce_us",
    "no_start",
    "41.94: those are the bytes alone; each of the six steps takes 4 us besides.",
    value=6 * CHUNK / 300e3,
)
slip(
    "level09.worksheet.all_reduce_us",
    "no_bytes",
    "24: those are the starts alone, or one token; with 512 the bytes take longer.",
    value=24,
)
slip(
    "level09.worksheet.all_reduce_us",
    "both_ways",
    "44.97: 600 GB/s are both directions together; a message goes one way, at 300.",
    value=6 * (4 + CHUNK / 600e3),
)
slip(
    "level09.worksheet.all_reduce_us",
    "bits",
    "359.5: the chunk was taken in bits; 300 GB/s are bytes.",
    value=6 * (4 + 8 * CHUNK / 300e3),
)
slip(
    "level09.worksheet.all_reduce_us",
    "four_bytes",
    "107.9: a number was taken for 4 bytes; in bfloat16 it has 2.",
    value=steps(6, 2 * CHUNK),
)
slip(
    "level09.worksheet.decode_ms",
    "no_messages",
    "8.760: that is the reading, without messages or their starts; 161 all-reduces are 2,254 in a row.",
    value=READ / 8,
)
slip(
    "level09.worksheet.decode_ms",
    "half_of_the_messages",
    "13.30: half of the messages are missing: a layer has two all-reduces, and each goes round twice.",
    value=READ / 8 + 81 * ONE,
)
slip(
    "level09.worksheet.decode_ms",
    "not_split",
    "79.11: each rank read all the weights; it has an eighth of them.",
    value=READ + 161 * ONE,
)
slip(
    "level09.worksheet.decode_ms",
    "one_rank",
    "70.08: that is one A100 by itself; eight read an eighth each, and then there are messages.",
    value=READ,
)
slip(
    "level09.worksheet.decode_ms",
    "messages_divided",
    "9.889: the messages were divided by 8 as well; only the reading is.",
    value=READ / 8 + 161 * ONE / 8,
)
slip(
    "level09.worksheet.decode_ms",
    "overlapped",
    "9.031: that is the larger of the two; a sum is needed before the next matrix, so reading and messages add up.",
    value=161 * ONE,
)
slip(
    "level09.worksheet.decode_ms",
    "one_start_each",
    "9.420: an all-reduce got one start; it has 14 steps, and each waits 4 us.",
    value=READ / 8 + 161 * (4e-3 + 14 * 2048 / 300e6),
)
slip(
    "level09.worksheet.decode_ms",
    "gib",
    "18.44: 142.9 was taken for GiB; a GB is 1e9 bytes.",
    value=READ / 8 * 1.073741824 + 161 * ONE,
)
slip(
    "level09.worksheet.sent_mb",
    "half",
    "47.48: half is missing: two all-reduces in a layer, two rounds in each, and two bytes in a number.",
    value=161 * 0.75 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "all_ranks",
    "379.8: that is what all ranks send together, or whole tensors in each step; one rank sends a quarter of it.",
    value=161 * 6 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "twice_the_tensor",
    "126.6: all of the tensor went round, twice; a rank sends three of the four chunks in each round.",
    value=161 * 2 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "once_the_tensor",
    "63.31: the tensor was counted once for each all-reduce; it is 2 (n - 1) / n of it.",
    value=161 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "a_chunk_each",
    "15.83: one chunk was counted for each all-reduce; a rank sends six.",
    value=161 * STATES / 4,
)
slip(
    "level09.worksheet.sent_mb",
    "one_all_reduce",
    "0.5898: that is one all-reduce; a step has 161 of them.",
    value=1.5 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "one_sequence",
    "3.957: that is for one sequence; 24 make a token in the step.",
    value=161 * 1.5 * STATES / 24,
)
slip(
    "level09.worksheet.sent_mb",
    "four_bytes",
    "189.9: a number was taken for 4 bytes; in bfloat16 it has 2.",
    value=161 * 3 * STATES,
)
slip(
    "level09.worksheet.sent_mb",
    "mib",
    "90.56: those are MiB; an MB is 1e6 bytes.",
    value=161 * 1.5 * STATES / 1.048576,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "a_32nd",
    "0.3072: that is a 32nd; with 8 KV heads each is held by 4 ranks, and none holds less than one.",
    value=CACHE / 32,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "half",
    "0.6144: half is missing: keys and values, of two bytes a number.",
    value=CACHE / 16,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "not_divided",
    "9.830: that is the cache of all 8 KV heads; a rank needs one of them.",
    value=CACHE,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "query_heads",
    "2.458: two heads were counted; a rank has two query heads, but they read the same KV head.",
    value=CACHE / 4,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "all_heads",
    "78.64: that is a cache for each of the 64 query heads; 8 KV heads are cached, and one of them here.",
    value=CACHE * 8,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "one_layer",
    "0.01536: that is one layer; the model has 80.",
    value=CACHE / 8 / 80,
)
slip(
    "level09.worksheet.rank_cache_gb",
    "gib",
    "1.144: those are GiB; a GB is 1e9 bytes.",
    value=CACHE / 8 / 1.073741824,
)
slip(
    "level09.worksheet.micro_batches",
    "part_of_the_busy_steps",
    "63: idle was taken as a part of the busy steps, or all steps were counted; it is 5 of m + 5.",
    value=63,
)
slip(
    "level09.worksheet.micro_batches",
    "rounded_down",
    "57: with one fewer than needed 8.06% are idle: round up.",
    value=57,
)
slip(
    "level09.worksheet.micro_batches",
    "a_step_for_each_stage",
    "69: six idle steps were counted; filling takes one less than there are stages.",
    value=69,
)
slip(
    "level09.worksheet.micro_batches",
    "stages_over_micro_batches",
    "75: 6 / m was taken; idle are 5 of m + 5 steps.",
    value=75,
)
slip(
    "level09.worksheet.micro_batches",
    "fill_and_drain",
    "115: ten idle steps were counted; a stage waits before its first micro-batch and after its last, five in all.",
    value=115,
)
slip(
    "level09.worksheet.micro_batches",
    "percent",
    "6245: that is for a bubble of 0.08%; 8% is 0.08.",
    value=6245,
)
slip(
    "level09.worksheet.micro_batches",
    "busy_part",
    "1: that pipe is busy for 8% of the time; it shall be idle for so long.",
    value=1,
)
slip(
    "level09.worksheet.imbalance",
    "used_experts",
    "1.600: the mean was taken over the four experts that got tokens; the two idle ones count.",
    value=96 / 60,
)
slip(
    "level09.worksheet.imbalance",
    "share",
    "0.4000: that is the share of the fullest; divide by the mean, a sixth of all.",
    value=96 / 240,
)
slip(
    "level09.worksheet.imbalance",
    "median",
    "2.286: that is over the median; the imbalance is over the mean.",
    value=96 / 42,
)
slip(
    "level09.worksheet.imbalance",
    "over_the_least",
    "2.667: that is over the smallest load above 0; the imbalance is over the mean.",
    value=96 / 36,
)
slip(
    "level09.worksheet.imbalance",
    "difference",
    "56: that is maximum minus mean; it is the quotient.",
    value=56,
)
slip(
    "level09.worksheet.imbalance",
    "upside_down",
    "0.4167: that is the other way round: the part of the time in which an average rank works.",
    value=40 / 96,
)
slip(
    "level09.worksheet.imbalance",
    "mean",
    "40: that is the mean; divide the fullest by it.",
    value=40,
)
slip(
    "level09.worksheet.dispatch_mb",
    "all_travel",
    "3.932: all rows were counted; a sixth are for experts of their own rank, and stay.",
    value=ROWS,
)
slip(
    "level09.worksheet.dispatch_mb",
    "one_expert",
    "0.8192: each token was sent once; it goes to four experts.",
    value=ROWS / 4 * 5 / 6,
)
slip(
    "level09.worksheet.dispatch_mb",
    "out_and_home",
    "6.554: that is out and home, or 4 bytes a number; asked is the way out, in bfloat16.",
    value=ROWS * 5 / 3,
)
slip(
    "level09.worksheet.dispatch_mb",
    "all_ranks",
    "19.66: that is what all six ranks send; asked is one.",
    value=ROWS * 5,
)
slip(
    "level09.worksheet.dispatch_mb",
    "what_stays",
    "0.6554: that is the part that stays at home; the other five sixths travel.",
    value=ROWS / 6,
)
slip(
    "level09.worksheet.dispatch_mb",
    "numbers",
    "1.638: those are numbers; in bfloat16 each takes 2 bytes.",
    value=ROWS * 5 / 12,
)
slip(
    "level09.worksheet.dispatch_mb",
    "mib",
    "3.125: those are MiB; an MB is 1e6 bytes.",
    value=ROWS * 5 / 6 / 1.048576,
)
slip(
    "level09.worksheet.dispatch_mb",
    "bits",
    "26.21: those are megabits; a byte has 8.",
    value=ROWS * 20 / 3,
)
slip(
    "level09.worksheet.last_rank",
    "over_the_first",
    "11.00: that is over the first rank; asked is over the mean of all.",
    value=22001 / 2001,
)
slip(
    "level09.worksheet.last_rank",
    "last_token",
    "2: that is its last token, which sees all 12,000 keys; the first of the part sees 10,001.",
    value=2,
)
slip(
    "level09.worksheet.last_rank",
    "first_token",
    "1.667: that is its first token, which sees 10,001 keys; the last one sees 12,000.",
    value=10001 / 6000.5,
)
slip(
    "level09.worksheet.last_rank",
    "whole_parts",
    "1.714: each rank's own part was counted in full; a causal mask leaves half of it.",
    value=6 / 3.5,
)
slip(
    "level09.worksheet.last_rank",
    "share",
    "0.3055: that is its share of all pairs; divide by that of the mean, a sixth.",
    value=22001 / 72006,
)
slip(
    "level09.worksheet.last_rank",
    "as_much",
    "1: all ranks have as many queries, but those of the last one see more keys.",
    value=1,
)
slip(
    "level09.worksheet.last_rank",
    "upside_down",
    "0.5455: that is the other way round: the mean, over the last rank.",
    value=12001 / 22001,
)
