"""Slips of the worksheet of level10. `slip` is given when this is read."""

KV = 1500 * 2 * 28 * 4 * 128 * 2  # bytes of the prompt of number 7

slip(
    "level10.worksheet.num_chunks",
    "a_chunk_for_each_token",
    "10: that is a chunk for each token, and the usage; a token that shows no text gives none.",
    value=10,
)
slip(
    "level10.worksheet.num_chunks",
    "tokens",
    '9: a token is no chunk: of half an emoji nothing is shown, and "ST" waits until it is decided.',
    value=9,
)
slip(
    "level10.worksheet.num_chunks",
    "done_counted",
    '8: one too many: "[DONE]" is no chunk, and "T" shows nothing, since "ST" may begin the stop string.',
    value=8,
)
slip(
    "level10.worksheet.num_chunks",
    "one_missing",
    "6: one is missing: the usage has a chunk of its own, and so has the end, even if it shows no text.",
    value=6,
)
slip(
    "level10.worksheet.num_chunks",
    "two_missing",
    "5: those are the chunks with text; the end and the usage have one each.",
    value=5,
)
slip(
    "level10.worksheet.num_chunks",
    "held_too_long",
    '4: "OS" shows "O", and the next "S" shows the one before it: only what may begin the stop string waits.',
    value=4,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "chunks",
    "420: those are the gaps between chunks; a chunk of 4 tokens has 4 gaps.",
    value=1000 * (0.40 + 0.44 + 0.42) / 3,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "mean_of_means",
    "165: that is the mean of the two TPOTs; over all gaps the longer answer counts more.",
    value=1000 * (0.84 / 7 + 0.42 / 2) / 2,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "tokens_for_gaps",
    "114.5: 1260 ms were divided by the 11 tokens; n tokens have n - 1 gaps.",
    value=1260 / 11,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "role_counted",
    "161: the role was taken for a token; it has no text, and begins no gap.",
    value=(1260 + 350) / 10,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "first_chunk_is_one_token",
    "157.5: one gap is missing: the first chunk of the other answer has two tokens, 0 ms apart.",
    value=1260 / 8,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "ttft_included",
    "187.3: the time before the first token was counted; that is the TTFT.",
    value=(1340 + 720) / 11,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "first_answer_alone",
    "120: that is the chat alone.",
    value=840 / 7,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "other_answer_alone",
    "210: that is the other answer alone.",
    value=420 / 2,
)
slip(
    "level10.worksheet.mean_itl_ms",
    "seconds",
    "0.14: those are seconds.",
    value=0.14,
)
slip(
    "level10.worksheet.slow_part",
    "as_recorded",
    "0.0004165: that is the part of what was recorded, 1 of 2,401; 599 more should have been sent in those 12 s.",
    value=1 / 2401,
)
slip(
    "level10.worksheet.slow_part",
    "all_of_the_stall",
    "0.2: those are all 600 that were due during the stall; the last 25 of them waited for 0.5 s or less.",
    value=600 / 3000,
)
slip(
    "level10.worksheet.slow_part",
    "of_the_recorded",
    "0.2395: the omitted ones count below the line as well: 3,000 were due.",
    value=575 / 2401,
)
slip(
    "level10.worksheet.slow_part",
    "added_to_all",
    "0.1598: the omitted ones belong to the 3,000 that were due; the client sent 2,401.",
    value=575 / 3599,
)
slip(
    "level10.worksheet.slow_part",
    "one_extra",
    "0.0008326: one request was put back; every 20 ms of the stall hide one.",
    value=2 / 2402,
)
slip(
    "level10.worksheet.slow_part",
    "quick_ones_of_the_stall",
    "0.008333: those are the ones that were due in the last 0.5 s of the stall.",
    value=25 / 3000,
)
slip(
    "level10.worksheet.slow_part",
    "the_others",
    "0.8083: that is the part that took 0.5 s or less.",
    value=2425 / 3000,
)
slip(
    "level10.worksheet.slow_part",
    "percent",
    "19.17: that is in percent; asked is a part.",
    value=100 * 575 / 3000,
)
slip(
    "level10.worksheet.load_seconds",
    "no_window",
    "250: that is without the two ends, which are cut off; 2,000 requests have to be left.",
    value=250,
)
slip(
    "level10.worksheet.load_seconds",
    "one_end",
    "277.8: one end was cut off; there are two.",
    value=250 / 0.9,
)
slip(
    "level10.worksheet.load_seconds",
    "a_fifth_more",
    "300: a fifth of 250 s was added; a fifth of the whole load is cut off.",
    value=300,
)
slip(
    "level10.worksheet.load_seconds",
    "one_sample",
    "31.25: 200 requests have one beyond p99.5, or ten beyond p95; here it takes 2,000.",
    value=200 / 8 / 0.8,
)
slip(
    "level10.worksheet.load_seconds",
    "p99",
    "156.3: that is for p99; beyond p99.5 lies one in 200.",
    value=1000 / 8 / 0.8,
)
slip(
    "level10.worksheet.load_seconds",
    "below",
    "1.570: those are samples below the percentile; ten have to lie beyond it.",
    value=10 / 0.995 / 8 / 0.8,
)
slip(
    "level10.worksheet.load_seconds",
    "requests",
    "2500: those are requests; 8 of them come in a second.",
    value=2500,
)
slip(
    "level10.worksheet.load_seconds",
    "requests_that_count",
    "2000: those are the requests that count; 8 come in a second, and a fifth of the time does not count.",
    value=2000,
)
slip(
    "level10.worksheet.load_seconds",
    "one_in_2000",
    "3125: one in 2,000 was taken to lie beyond p99.5; it is one in 200.",
    value=10 / 0.0005 / 8 / 0.8,
)
slip(
    "level10.worksheet.half_width_ms",
    "spread_of_the_samples",
    "1764: that is how far the samples lie apart; their mean is known 20 times as well.",
    value=1764,
)
slip(
    "level10.worksheet.half_width_ms",
    "standard_error",
    "45: that is one standard error, which holds in 68% of resamples; 95% take 1.96 of them.",
    value=45,
)
slip(
    "level10.worksheet.half_width_ms",
    "whole_width",
    "176.4: that is from end to end; asked is how far it goes either way.",
    value=176.4,
)
slip(
    "level10.worksheet.half_width_ms",
    "one_tail",
    "74.03: 1.645 leaves 5% beyond one end; here 2.5% lie beyond each.",
    value=1.645 * 45,
)
slip(
    "level10.worksheet.half_width_ms",
    "divided_by_n",
    "4.41: the deviation was divided by 400; a mean of 400 is 20 times as steady.",
    value=1.96 * 900 / 400,
)
slip(
    "level10.worksheet.half_width_ms",
    "of_99_percent",
    "115.9: that is for 99% of resamples.",
    value=2.576 * 45,
)
slip(
    "level10.worksheet.half_width_ms",
    "mean_for_deviation",
    "166.6: the mean was taken for the standard deviation.",
    value=1.96 * 1700 / 20,
)
slip(
    "level10.worksheet.half_width_ms",
    "seconds",
    "0.0882: those are seconds.",
    value=0.0882,
)
slip(
    "level10.worksheet.seconds_in_system",
    "service_alone",
    "0.1667: that is a request alone; five others are there on average.",
    value=1 / 6,
)
slip(
    "level10.worksheet.seconds_in_system",
    "waiting_alone",
    "0.875: that is the waiting; its own service belongs to it.",
    value=0.84 / 0.96,
)
slip(
    "level10.worksheet.seconds_in_system",
    "number_in_system",
    "5.25: those are the requests in the system; Little's law turns them into seconds.",
    value=0.84 / 0.16,
)
slip(
    "level10.worksheet.seconds_in_system",
    "times_the_service",
    "6.25: that is how many times its own service time it takes.",
    value=1 / 0.16,
)
slip(
    "level10.worksheet.seconds_in_system",
    "arrival_rate",
    "0.1984: that is the time between two arrivals.",
    value=1 / 5.04,
)
slip(
    "level10.worksheet.seconds_in_system",
    "load_for_service",
    "1.190: that is one over the load; what counts is what the load leaves free.",
    value=1 / 0.84,
)
slip(
    "level10.worksheet.seconds_in_system",
    "a_bit_longer",
    "0.3067: 84% were added; the time grows with one over what is left free, 16%.",
    value=1.84 / 6,
)
slip(
    "level10.worksheet.seconds_in_system",
    "lengths_all_alike",
    "0.6042: that is for requests that all take equally long; these do not.",
    value=(1 + 0.84 / 2 / 0.16) / 6,
)
slip(
    "level10.worksheet.transfer_ms",
    "bits_for_bytes",
    "0.6301: the link carries 200e9 bits, which are 25e9 bytes per second.",
    value=0.2 + 1000 * KV / 200e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "eight_times_twice",
    "27.72: the bytes were multiplied by 8, and the link was divided by 8: do one of both.",
    value=0.2 + 1000 * 8 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "latency_forgotten",
    "3.441: the 0.2 ms before the first byte are missing.",
    value=1000 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "keys_alone",
    "1.920: the values travel as well.",
    value=0.2 + 500 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "query_heads",
    "24.28: there are 28 query heads, but only the 4 KV heads have a cache.",
    value=0.2 + 7000 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "one_layer",
    "0.3229: that is one layer of 28.",
    value=0.2 + 1000 * KV / 28 / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "four_bytes",
    "7.081: a number takes 2 bytes in bfloat16.",
    value=0.2 + 2000 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "latency_of_each_layer",
    "9.041: the latency was paid for each layer; all go in one transfer.",
    value=0.2 * 28 + 1000 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "latency_of_each_token",
    "303.4: the latency was paid for each token; all go in one transfer.",
    value=0.2 * 1500 + 1000 * KV / 25e9,
)
slip(
    "level10.worksheet.transfer_ms",
    "seconds",
    "0.003641: those are seconds.",
    value=0.0002 + KV / 25e9,
)
slip(
    "level10.worksheet.seconds_earlier",
    "free_transfer",
    "1.20: the cache has to travel, once.",
    value=1.2,
)
slip(
    "level10.worksheet.seconds_earlier",
    "one_stall",
    "0.52: that is with one prompt in the way; there are two, and one is prefilled after the other.",
    value=0.52,
)
slip(
    "level10.worksheet.seconds_earlier",
    "decode_first",
    "-0.08: that device decodes first; here a prompt that has arrived goes before the next step.",
    value=-0.08,
)
slip(
    "level10.worksheet.seconds_earlier",
    "transfer_of_each_step",
    "-0.40: the cache was sent before each of the 20 steps; it goes once, and then it is there.",
    value=-0.4,
)
slip(
    "level10.worksheet.seconds_earlier",
    "transfer_of_each_prompt",
    "1.04: the others' caches hold nobody up; only the stream's own was to be waited for.",
    value=1.04,
)
slip(
    "level10.worksheet.seconds_earlier",
    "one_device",
    "2.80: that is when one device is done; asked is the difference.",
    value=2.8,
)
slip(
    "level10.worksheet.seconds_earlier",
    "two_devices",
    "1.68: that is when two devices are done; asked is the difference.",
    value=1.68,
)
slip(
    "level10.worksheet.seconds_earlier",
    "longest_gap",
    "1.25: that is the longest gap on one device: two prompts and a step.",
    value=1.25,
)
slip(
    "level10.worksheet.seconds_earlier",
    "own_prefill_too",
    "1.72: the stream's own prefill takes as long on either.",
    value=1.72,
)
