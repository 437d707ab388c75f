"""Slips of the worksheet of level04. `slip` is given when this is read."""

WEIGHTS = 70553706496 - 1050673152  # bytes in 8 bits, the embedding left out
CACHE = 8192 * 2 * 80 * 8 * 128 * 2  # bytes of one sequence

slip(
    "level04.worksheet.tpot_ms",
    "divides_by_n",
    "75: the time from the first token to the last was divided by 4; four tokens have three gaps.",
    value=1000 * (4.25 - 3.95) / 4,
)
slip(
    "level04.worksheet.tpot_ms",
    "includes_ttft",
    "262.5: that is the whole time over the tokens; the wait for the first one is the TTFT's, TPOT begins behind it.",
    value=1000 * (4.25 - 3.20) / 4,
)
slip(
    "level04.worksheet.tpot_ms",
    "e2e_over_gaps",
    "350: that is E2E over the three gaps; the gaps begin at the first token, not at the arrival.",
    value=1000 * (4.25 - 3.20) / 3,
)
slip(
    "level04.worksheet.tpot_ms",
    "seconds",
    "0.1: those are seconds; asked are ms.",
    value=(4.25 - 3.95) / 3,
)
slip(
    "level04.worksheet.tpot_ms",
    "ttft",
    "750: that is the TTFT, from the arrival to the first token.",
    value=1000 * (3.95 - 3.20),
)
slip(
    "level04.worksheet.tpot_ms",
    "median",
    "60: that is the median of the gaps; TPOT is their mean, so the long one counts.",
    value=60,
)
slip(
    "level04.worksheet.tpot_ms",
    "sum",
    "300: that is all three gaps together; TPOT is their mean.",
    value=1000 * (4.25 - 3.95),
)
slip(
    "level04.worksheet.ridge",
    "sparse_peak",
    "412.3: that is with the sparse rate; dense is half of it, and the weights of a language model are dense.",
    value=1979e12 / 4.8e12,
)
slip(
    "level04.worksheet.ridge",
    "macs",
    "103.1: half of the right value: the sheet counts a multiply-add as two FLOPs already, so halve once, for sparsity.",
    value=1979e12 / 4 / 4.8e12,
)
slip(
    "level04.worksheet.ridge",
    "bits",
    "25.77: the bandwidth was multiplied by 8; memory's is in bytes already.",
    value=1979e12 / 2 / 8 / 4.8e12,
)
slip(
    "level04.worksheet.ridge",
    "upside_down",
    "0.004851: that is bytes per FLOP; the ridge is FLOP/s over bytes/s.",
    value=4.8e12 / (1979e12 / 2),
)
slip(
    "level04.worksheet.ridge",
    "tebibytes",
    "187.5: 4.8 TB were taken for TiB, 2**40 bytes; a TB is 1e12 bytes.",
    value=1979e12 / 2 / (4.8 * 2**40),
)
slip(
    "level04.worksheet.ridge",
    "thousand",
    "0.2061: a factor of 1,000 is missing: TFLOP/s go with TB/s, not with GB/s.",
    value=1979 / 2 / 4800,
)
slip(
    "level04.worksheet.product_intensity",
    "weights_only",
    "1024: those are the bytes of the larger matrix alone; the other one is read too, and the result is written.",
    value=1024,
)
slip(
    "level04.worksheet.product_intensity",
    "no_result",
    "988.7: the bytes of the result are missing: (1024, 28672) is written.",
    value=1024 * 28672 / (1024 + 28672),
)
slip(
    "level04.worksheet.product_intensity",
    "no_input",
    "910.2: the bytes of (1024, 8192) are missing; both factors are read.",
    value=1024 * 8192 / (1024 + 8192),
)
slip(
    "level04.worksheet.product_intensity",
    "half",
    "441.1: half of the right value: a multiply-add is two FLOPs, and a number in bfloat16 takes 2 bytes, not 4.",
    value=882.2154 / 2,
)
slip(
    "level04.worksheet.product_intensity",
    "elements",
    "1764: those are FLOPs per number; a number in bfloat16 has two bytes.",
    value=882.2154 * 2,
)
slip(
    "level04.worksheet.product_intensity",
    "bits",
    "110.3: those are FLOPs per bit; a byte has eight.",
    value=882.2154 / 8,
)
slip(
    "level04.worksheet.single_ceiling",
    "no_cache",
    "69.06: that is the weights alone; a step also reads the keys and values of 8,192 tokens, 2.684 GB.",
    value=4.8e12 / WEIGHTS,
)
slip(
    "level04.worksheet.single_ceiling",
    "all_parameters",
    "68.03: all parameters and no cache; of the embedding a row is looked up, but keys and values are read, 2.684 GB.",
    value=4.8e12 / 70553706496,
)
slip(
    "level04.worksheet.single_ceiling",
    "half_a_cache",
    "67.75: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=4.8e12 / (WEIGHTS + CACHE / 2),
)
slip(
    "level04.worksheet.single_ceiling",
    "reads_embedding",
    "65.54: the embedding was counted as read; a step looks up one row of it.",
    value=4.8e12 / (70553706496 + CACHE),
)
slip(
    "level04.worksheet.single_ceiling",
    "bfloat16_weights",
    "33.88: that is with 2 bytes a weight; 8 bits are one byte.",
    value=4.8e12 / (2 * WEIGHTS + CACHE),
)
slip(
    "level04.worksheet.single_ceiling",
    "query_heads",
    "52.76: the cache was counted for 64 heads; it holds 8 KV heads.",
    value=4.8e12 / (WEIGHTS + 8 * CACHE),
)
slip(
    "level04.worksheet.single_ceiling",
    "arithmetic",
    "6163: that is what the arithmetic would allow; reading the bytes takes 93 times as long, and the slower one decides.",
    value=989e12 / (2 * 69501714432 + 4 * 80 * 64 * 128 * 8192),
)
slip(
    "level04.worksheet.single_ceiling",
    "milliseconds",
    "15.04: those are the ms of a step; asked are tokens per second.",
    value=1000 * (WEIGHTS + CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.single_ceiling",
    "bits",
    "8.312: the bytes were multiplied by 8; weights in 8 bits are one byte each, and the bandwidth counts bytes.",
    value=4.8e12 / 8 / (WEIGHTS + CACHE),
)
slip(
    "level04.worksheet.single_ceiling",
    "tebibytes",
    "73.11: 4.8 TB were taken for TiB, 2**40 bytes; a TB is 1e12 bytes.",
    value=4.8 * 2**40 / (WEIGHTS + CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "scales_linearly",
    "1064: that is 16 times the one sequence; the weights are shared, but each sequence has a cache of its own.",
    value=16 * 4.8e12 / (WEIGHTS + CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "per_sequence",
    "42.68: those are steps per second, or tokens/s of one sequence; a step makes a token for each of the 16.",
    value=4.8e12 / (WEIGHTS + 16 * CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "weights_per_sequence",
    "66.49: then a batch would gain nothing: the weights are read once for all 16.",
    value=4.8e12 / (WEIGHTS + CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "no_cache",
    "1105: that is the weights alone; the caches of 16 sequences are 42.95 GB more.",
    value=16 * 4.8e12 / WEIGHTS,
)
slip(
    "level04.worksheet.batch_ceiling",
    "half_a_cache",
    "844.2: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=16 * 4.8e12 / (WEIGHTS + 8 * CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "adds",
    "614.8: the time of the arithmetic was added; at best it goes on during the reading, so the slower one decides.",
    value=16 / ((WEIGHTS + 16 * CACHE) / 4.8e12 + 16 * 160478265344 / 989e12),
)
slip(
    "level04.worksheet.batch_ceiling",
    "bfloat16_weights",
    "422.1: that is with 2 bytes a weight; 8 bits are one byte.",
    value=16 * 4.8e12 / (2 * WEIGHTS + 16 * CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "query_heads",
    "185.9: the cache was counted for 64 heads; it holds 8 KV heads.",
    value=16 * 4.8e12 / (WEIGHTS + 16 * 8 * CACHE),
)
slip(
    "level04.worksheet.batch_ceiling",
    "tebibytes",
    "750.9: 4.8 TB were taken for TiB, 2**40 bytes; a TB is 1e12 bytes.",
    value=16 * 4.8 * 2**40 / (WEIGHTS + 16 * CACHE),
)
slip(
    "level04.worksheet.critical_sequences",
    "ridge_always",
    "207: that is the ridge, right for 2 bytes a weight; narrower weights are read sooner, so fewer are enough.",
    value=207,
)
slip(
    "level04.worksheet.critical_sequences",
    "twice",
    "104: twice too many: 4 bits are half a byte, a weight costs two FLOPs for each sequence, and 989 is the dense rate.",
    value=104,
)
slip(
    "level04.worksheet.critical_sequences",
    "not_rounded",
    "51.51: there is no half of a sequence; asked is the first whole number that is enough.",
    value=989e12 / 4.8e12 * 0.5 / 2,
)
slip(
    "level04.worksheet.critical_sequences",
    "floor",
    "51: with 51 the reading still takes a little longer; the first batch at which it does not is one more.",
    value=51,
)
slip(
    "level04.worksheet.critical_sequences",
    "bits",
    "413: that is with 4 bytes a weight; 4 bits are half a byte.",
    value=413,
)
slip(
    "level04.worksheet.mbu_percent",
    "tokens_not_steps",
    "937.1: 400 are tokens; a step makes 16 of them, so there are 25 steps a second.",
    value=100 * 400 * (WEIGHTS + 16 * CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "weights_only",
    "36.20: the caches are missing; each step reads those of all 16 sequences too, 42.95 GB.",
    value=100 * 25 * WEIGHTS / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "one_cache",
    "37.60: that is the cache of one sequence; each of the 16 has its own.",
    value=100 * 25 * (WEIGHTS + CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "half_a_cache",
    "47.38: that is half of the cache: each token has a key and a value, and a number in bfloat16 takes 2 bytes.",
    value=100 * 25 * (WEIGHTS + 8 * CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "weights_per_sequence",
    "601.6: the weights were counted for each sequence; a step reads them once. More than 100% gives it away.",
    value=100 * 25 * 16 * (WEIGHTS + CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "bfloat16_weights",
    "94.77: that is with 2 bytes a weight; 8 bits are one byte.",
    value=100 * 25 * (2 * WEIGHTS + 16 * CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "fraction",
    "0.5857: that is the fraction; asked are percent.",
    value=25 * (WEIGHTS + 16 * CACHE) / 4.8e12,
)
slip(
    "level04.worksheet.mbu_percent",
    "bits",
    "7.321: the bandwidth was multiplied by 8; both count bytes.",
    value=100 * 25 * (WEIGHTS + 16 * CACHE) / 4.8e12 / 8,
)
slip(
    "level04.worksheet.mfu_percent",
    "half",
    "3.245: half of the right value: a weight costs two FLOPs for each token, and 989 TFLOP/s is the dense rate.",
    value=100 * 400 * 160478265344 / 989e12 / 2,
)
slip(
    "level04.worksheet.mfu_percent",
    "per_step",
    "0.4057: that is one token a step; FLOPs belong to tokens, and there are 400 a second.",
    value=100 * 25 * 160478265344 / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "no_scores",
    "5.622: the scores are missing: 4 · 80 · 64 · 128 FLOPs for each of the 8,192 tokens.",
    value=100 * 400 * 2 * 69501714432 / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "all_parameters",
    "5.707: two FLOPs for each of all parameters; the embedding is not multiplied, and the scores are missing.",
    value=100 * 400 * 2 * 70553706496 / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "kv_heads",
    "5.730: the scores were counted for 8 heads; each of the 64 query heads has its own.",
    value=100 * 400 * (2 * 69501714432 + 4 * 80 * 8 * 128 * 8192) / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "half_the_scores",
    "6.056: that is one product per key; there are two, the score and the weighted sum.",
    value=100 * 400 * (2 * 69501714432 + 2 * 80 * 64 * 128 * 8192) / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "counts_embedding",
    "6.576: the embedding was counted as multiplied; a token's row of it is copied.",
    value=100 * 400 * (2 * 70553706496 + 4 * 80 * 64 * 128 * 8192) / 989e12,
)
slip(
    "level04.worksheet.mfu_percent",
    "fraction",
    "0.06491: that is the fraction; asked are percent.",
    value=400 * 160478265344 / 989e12,
)
