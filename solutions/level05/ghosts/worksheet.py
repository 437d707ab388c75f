"""Slips of the worksheet of level05. `slip` is given when this is read."""

WEIGHTS = 2 * (13015864320 - 163840000)  # bytes in bfloat16, the embedding left out
TOKEN = 2 * 40 * 40 * 128 * 2  # bytes of a token's keys and values
BANDWIDTH, PEAK = 2.039e12, 312e12
MATRICES = 13015864320 - 163840000 - 414720
READING = WEIGHTS / BANDWIDTH  # seconds


def flip(flops=2 * MATRICES + 80 * 4 * 40 * 40 * 128, cache=80 * TOKEN, reading=READING):
    return reading / (flops / PEAK - cache / BANDWIDTH)


slip(
    "level05.worksheet.step_ms",
    "weights_per_sequence",
    "66.04: the weights were read five times; a step reads them once for all of its sequences.",
    value=1e3 * (5 * WEIGHTS + 7500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "padded",
    "19.34: each cache was padded to the longest, 3,350 tokens; a step reads what is in them, 7,500 together.",
    value=1e3 * (WEIGHTS + 5 * 3350 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "longest_cache",
    "13.95: that is the longest cache alone; each sequence has its own.",
    value=1e3 * (WEIGHTS + 3350 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "mean_cache",
    "13.21: that is the cache of one sequence of 1,500 tokens, the mean; there are five.",
    value=1e3 * (WEIGHTS + 1500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "no_cache",
    "12.61: those are the weights alone; the caches of 7,500 tokens are 6.144 GB more.",
    value=1e3 * READING,
)
slip(
    "level05.worksheet.step_ms",
    "half_a_cache",
    "14.11: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=1e3 * (WEIGHTS + 7500 * TOKEN / 2) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "reads_embedding",
    "15.78: the embedding was counted as read; a step looks up one row of it for each sequence.",
    value=1e3 * (2 * 13015864320 + 7500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "one_byte_weights",
    "9.316: that is with one byte a weight; bfloat16 has two.",
    value=1e3 * (WEIGHTS / 2 + 7500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "adds",
    "16.05: the time of the arithmetic was added; at best it goes on during the reading, so the slower one decides.",
    value=1e3 * ((WEIGHTS + 7500 * TOKEN) / BANDWIDTH + (5 * 2 * MATRICES + 7500 * 4 * 40 * 40 * 128) / PEAK),
)
slip(
    "level05.worksheet.step_ms",
    "arithmetic",
    "0.4316: that is the arithmetic; reading takes 36 times as long, and the slower one decides.",
    value=1e3 * (5 * 2 * MATRICES + 7500 * 4 * 40 * 40 * 128) / PEAK,
)
slip(
    "level05.worksheet.step_ms",
    "per_sequence",
    "3.124: that was divided by the five sequences; a step makes a token for each, but takes its time once.",
    value=1e3 * (WEIGHTS + 7500 * TOKEN) / BANDWIDTH / 5,
)
slip(
    "level05.worksheet.step_ms",
    "seconds",
    "0.01562: those are seconds; asked are ms.",
    value=(WEIGHTS + 7500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.step_ms",
    "bits",
    "125.0: the bytes were multiplied by 8; the bandwidth counts bytes.",
    value=8e3 * (WEIGHTS + 7500 * TOKEN) / BANDWIDTH,
)
slip(
    "level05.worksheet.flip_sequences",
    "ignores_kv",
    "154: that is without the caches; each sequence brings its own reading, so it takes more of them.",
    value=154,
)
slip(
    "level05.worksheet.flip_sequences",
    "adds_the_two",
    "109.9: arithmetic and reading of a sequence were added; what brings it nearer to the flip is the difference.",
    value=READING / ((2 * MATRICES + 80 * 4 * 40 * 40 * 128) / PEAK + 80 * TOKEN / BANDWIDTH),
)
slip(
    "level05.worksheet.flip_sequences",
    "macs",
    "1361: a weight was counted as one FLOP for each sequence; a multiply-add is two.",
    value=flip(flops=MATRICES + 80 * 4 * 40 * 40 * 128),
)
slip(
    "level05.worksheet.flip_sequences",
    "half_a_cache",
    "189.5: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=flip(cache=80 * TOKEN / 2),
)
slip(
    "level05.worksheet.flip_sequences",
    "reads_embedding",
    "253.1: the embedding was counted as read; a step looks up one row of it for each sequence.",
    value=flip(reading=2 * 13015864320 / BANDWIDTH),
)
slip(
    "level05.worksheet.flip_sequences",
    "one_byte_weights",
    "124.9: that is with one byte a weight; bfloat16 has two.",
    value=flip(reading=READING / 2),
)
slip(
    "level05.worksheet.last_context",
    "macs",
    "103: a weight was counted as one FLOP for each sequence; a multiply-add is two.",
    value=103,
)
slip(
    "level05.worksheet.last_context",
    "half_a_cache",
    "415: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=415,
)
slip(
    "level05.worksheet.last_context",
    "as_much_as_the_weights",
    "31377: at this context one cache is as large as the weights; asked is where it takes as long as its own arithmetic.",
    value=WEIGHTS / TOKEN,
)
slip(
    "level05.worksheet.last_context",
    "ridge",
    "153: that is the ridge, in FLOPs per byte; compare the seconds that a sequence adds to both sides.",
    value=PEAK / BANDWIDTH,
)
slip(
    "level05.worksheet.last_context",
    "scores_of_one_layer",
    "8256: that is the cache of one layer; all 40 have theirs.",
    value=2 * MATRICES / PEAK / (TOKEN / 40 / BANDWIDTH - 4 * 40 * 128 / PEAK),
)
slip(
    "level05.worksheet.last_context",
    "bits",
    "25: the bytes of the cache were multiplied by 8; the bandwidth counts bytes.",
    value=25,
)
slip(
    "level05.worksheet.most_tokens",
    "one_sequence",
    "75.71: that is a single sequence, with all of the weights; in a larger batch its share of them gets ever smaller.",
    value=BANDWIDTH / (WEIGHTS + 1500 * TOKEN),
)
slip(
    "level05.worksheet.most_tokens",
    "arithmetic",
    "11587: that is what the arithmetic would allow; the caches are the lower limit at this length.",
    value=PEAK / (2 * MATRICES + 1500 * 4 * 40 * 40 * 128),
)
slip(
    "level05.worksheet.most_tokens",
    "half_a_cache",
    "3319: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=BANDWIDTH / (1500 * TOKEN / 2),
)
slip(
    "level05.worksheet.most_tokens",
    "no_cache",
    "79.32: those are readings of the weights in a second; a large batch shares each of them among many.",
    value=1 / READING,
)
slip(
    "level05.worksheet.most_tokens",
    "fits",
    "1116: that is with 43 sequences, which fit beside the weights into 80 GB; asked is the limit of ever larger batches.",
    value=43 * BANDWIDTH / (WEIGHTS + 43 * 1500 * TOKEN),
)
slip(
    "level05.worksheet.most_tokens",
    "cached_tokens",
    "2489014: those are cached tokens that are read in a second; each new token reads 1,500 of them.",
    value=BANDWIDTH / TOKEN,
)
slip(
    "level05.worksheet.most_tokens",
    "bits",
    "207.4: the bytes were multiplied by 8; the bandwidth counts bytes.",
    value=BANDWIDTH / (8 * 1500 * TOKEN),
)
slip(
    "level05.worksheet.measured_flip",
    "slope_over_fixed",
    "0.07143: upside down: the fixed part is to be divided by what a sequence adds.",
    value=1.5 / 21,
)
slip(
    "level05.worksheet.measured_flip",
    "first_step",
    "15: the step of one sequence was taken for the fixed part; it has one sequence in it already.",
    value=22.5 / 1.5,
)
slip(
    "level05.worksheet.measured_flip",
    "fixed",
    "21: that is the fixed part in ms; asked is how many sequences add as much.",
    value=21,
)
slip(
    "level05.worksheet.measured_flip",
    "per_sequence",
    "1.5: those are the ms that a sequence adds; divide the fixed part by them.",
    value=1.5,
)
slip(
    "level05.worksheet.measured_flip",
    "twice_the_fixed",
    "28: there the sequences cost twice the fixed part; at half of it both are equal.",
    value=2 * 21 / 1.5,
)
slip(
    "level05.worksheet.measured_flip",
    "most_tokens",
    "666.7: those are the tokens/s that a large batch comes near to; asked is a number of sequences.",
    value=1000 / 1.5,
)
slip(
    "level05.worksheet.saved_steps",
    "static",
    "75: those are the steps of the static batches; take off those of continuous batching.",
    value=75,
)
slip(
    "level05.worksheet.saved_steps",
    "continuous",
    "47: those are the steps of continuous batching; the static batches take 75.",
    value=47,
)
slip(
    "level05.worksheet.saved_steps",
    "no_empty_slots",
    "35: 120 tokens over three slots would be 40 steps; at the end two slots are empty, as nobody waits any more.",
    value=35,
)
slip(
    "level05.worksheet.saved_steps",
    "slot_free_one_step_late",
    "24: the slots were refilled one step too late; who comes next runs in the step after the last token.",
    value=24,
)
slip(
    "level05.worksheet.saved_steps",
    "longest_first",
    "33: the longest were taken first; first come, first served, since nobody knows the lengths.",
    value=33,
)
slip(
    "level05.worksheet.saved_steps",
    "shortest_first",
    "27: the shortest were taken first; first come, first served, since nobody knows the lengths.",
    value=27,
)
slip(
    "level05.worksheet.saved_steps",
    "one_at_a_time",
    "73: that is against one answer after the other, 120 steps; a static batch runs three at once.",
    value=120 - 47,
)
slip(
    "level05.worksheet.prompt_steps",
    "decodes_are_free",
    "20: the 96 decodes were left out of the budget; 416 tokens a step are left for the prompt.",
    value=20,
)
slip(
    "level05.worksheet.prompt_steps",
    "rounds_down",
    "24: after 24 steps 16 tokens of the prompt have not run yet.",
    value=24,
)
slip(
    "level05.worksheet.prompt_steps",
    "shares_the_budget",
    "1895: the prompt got as much as each of the decodes; it gets all that they leave.",
    value=10000 / (512 / 97),
)
slip(
    "level05.worksheet.prompt_steps",
    "one_step",
    "1: then this step would have 10,096 tokens; the budget is 512.",
    value=1,
)
slip(
    "level05.worksheet.prompt_steps",
    "a_step_for_the_token",
    "26: the first new token needs no step of its own: it is chosen from the logits of the last chunk.",
    value=26,
)
slip(
    "level05.worksheet.running_at_once",
    "counts_the_waiting",
    "75.6: those are all that are in the server; whoever waits does not run yet.",
    value=18 * 4.2,
)
slip(
    "level05.worksheet.running_at_once",
    "only_the_waiting",
    "12.6: those are the ones that wait.",
    value=18 * 0.7,
)
slip(
    "level05.worksheet.running_at_once",
    "divides",
    "5.143: rate over time; whoever comes in 3.5 s is still there at their end, so multiply.",
    value=18 / 3.5,
)
slip(
    "level05.worksheet.running_at_once",
    "arrivals",
    "18: those arrive in one second; each runs for longer than that.",
    value=18,
)
slip(
    "level05.worksheet.running_at_once",
    "adds_the_wait",
    "88.2: the wait was added; the 4.2 s are counted from the arrival, so it is in them.",
    value=18 * (4.2 + 0.7),
)
