"""Slips of the worksheet of level01. `slip` is given when this is read."""

slip(
    "level01.worksheet.naive_tokens",
    "constant_length",
    "600: the sequence grows; add the 0 + 1 + … + 19 new tokens that stand in front of each step.",
    value=20 * 30,
)
slip(
    "level01.worksheet.naive_tokens",
    "one_to_n",
    "810: the first pass sees the prompt alone, so the new tokens add 0 + 1 + … + 19, not 1 + … + 20.",
    value=20 * 30 + 20 * 21 // 2,
)
slip(
    "level01.worksheet.naive_tokens",
    "one_pass_more",
    "840: that is one pass too many, of all 50 tokens; nobody asks what follows the last one.",
    value=20 * 30 + 20 * 21 // 2 + 30,
)
slip(
    "level01.worksheet.naive_tokens",
    "final_length_each",
    "1000: only the finished sequence has 50 tokens; the passes before had fewer.",
    value=20 * 50,
)
slip(
    "level01.worksheet.naive_tokens",
    "prompt_once",
    "220: the prompt was counted once; without a cache it goes through in each of the 20 passes.",
    value=30 + 20 * 19 // 2,
)
slip(
    "level01.worksheet.cached_tokens",
    "one_extra",
    "50: the last new token is never fed; nobody asks what follows it.",
    value=30 + 20,
)
slip(
    "level01.worksheet.cached_tokens",
    "no_prompt",
    "19: those are the decode steps; the 30 tokens of the prompt go through the model as well.",
    value=19,
)
slip(
    "level01.worksheet.cached_tokens",
    "passes",
    "20: that is the number of passes; the first of them takes 30 tokens.",
    value=20,
)
slip(
    "level01.worksheet.cached_tokens",
    "prompt_fed_twice",
    "51: the last prompt token and the last new one were fed too often: the prefill gives the first new token.",
    value=30 + 1 + 20,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "drops_remainder",
    "3.766: the last 104 tokens are a chunk too, and it reads all the weights.",
    value=7 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "share_of_a_pass",
    "4.204: a shorter chunk is a whole pass: it reads all the weights, not 104/128 of them.",
    value=1000 / 128 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "one_reading",
    "0.538: that is one reading; each chunk is a pass of its own and reads the weights again.",
    value=4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "once_per_token",
    "538.1: that is one reading per token; the tokens of a chunk share one.",
    value=1000 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "bfloat16",
    "2.152: that is 2 bytes a weight, bfloat16; float32 takes 4.",
    value=8 * 2 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "gibibytes",
    "4.009: that is in GiB, 2**30 bytes; a GB is 1e9 bytes.",
    value=8 * 4 * 134515008 / 2**30,
)
slip(
    "level01.worksheet.decode_intensity",
    "no_kv_read",
    "2.052: a decode step also reads the keys and values of all 4096 tokens.",
    value=552075264 / (2 * 134515008),
)
slip(
    "level01.worksheet.decode_intensity",
    "kv_query_heads",
    "0.9999: the cache was counted for 9 heads; it holds 3 KV heads.",
    value=552075264 / (2 * (134515008 + 2 * 30 * 9 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "keys_only",
    "1.746: that is the cache with keys alone; every token stores a key and a value.",
    value=552075264 / (2 * (134515008 + 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "half",
    "0.7596: half of the right value: a multiply-add is two FLOPs, and a number in bfloat16 has two bytes.",
    value=552075264 / (4 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "no_scores",
    "0.7401: the scores are missing; a query meets all 4096 keys, twice: q kᵀ and the weighted sum.",
    value=268959744 / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "no_head",
    "1.363: the vocabulary projection is missing; a decode step needs the logits of its token.",
    value=(2 * 106168320 + 69120 * 4096) / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "one_product",
    "1.130: only one product per key was counted; after q kᵀ the weights multiply the values.",
    value=(268959744 + 69120 // 2 * 4096) / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_microseconds",
    "no_kv_read",
    "80.31: that is the weights alone; the step also reads the keys and values of 4096 tokens.",
    value=2 * 134515008 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "arithmetic",
    "0.5582: that is the time of the arithmetic; the bytes take longer, and the longer of the two decides.",
    value=552075264 / 989e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "float32",
    "217.0: that is 4 bytes a number, float32; bfloat16 takes 2.",
    value=2 * 363401856 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "kv_query_heads",
    "164.8: the cache was counted for 9 heads; it holds 3 KV heads.",
    value=2 * (134515008 + 2 * 30 * 9 * 64 * 4096) / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "milliseconds",
    "0.1085: that is in milliseconds; asked are microseconds.",
    value=363401856 / 3.35e12 * 1e3,
)
slip(
    "level01.worksheet.decode_microseconds",
    "keys_only",
    "94.39: that is the cache with keys alone; every token stores a key and a value.",
    value=2 * (134515008 + 30 * 3 * 64 * 4096) / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "bytes",
    "108.5: that is the time of the bytes; here the arithmetic takes longer, and the longer of the two decides.",
    value=363401856 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "full_square",
    "2052: all pairs were counted; a causal mask allows 4096 · 4097 / 2.",
    value=(2 * 4096 * 106168320 + 69120 * 4096**2 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "all_logits",
    "1700: the vocabulary projection was counted for all 4096 tokens; only the last one's logits are asked for.",
    value=(2 * 4096 * 134479872 + 69120 * 4096 * 4097 / 2) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "no_scores",
    "879.5: the scores are missing; at this length they cost two thirds of what the matrices cost.",
    value=(2 * 4096 * 106168320 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "sum",
    "1574: bytes and arithmetic were added; they go on at the same time, and the longer of the two decides.",
    value=1465.874 + 108.478,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "mac_is_one",
    "732.9: a multiply-add was counted as one FLOP; it is two.",
    value=1465.874 / 2,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "decode_steps",
    "2286: that is 4096 times the decode step; most tokens see fewer keys, and only the last one needs logits.",
    value=4096 * 552075264 / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "one_product",
    "1173: only one product per key was counted; after q kᵀ the weights multiply the values.",
    value=(2 * 4096 * 106168320 + 69120 // 2 * 4096 * 4097 / 2 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "upside_down",
    "0.003299: that is upside down: the decode steps in the time of one prompt token.",
    value=1465.874 / 4096 / 108.478,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "whole_prefill",
    "13.51: that is the time of the whole prefill over the decode step; divide the prefill by its 4096 tokens first.",
    value=1465.874 / 108.478,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "intensities",
    "2626: that is the ratio of the intensities; beyond 295 FLOP/byte the arithmetic sets the time, not the bytes.",
    value=3989.384 / 1.519187,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "bytes_only",
    "4096: that is the ratio of bytes per token; the prefill is longer than its bytes, since arithmetic decides there.",
    value=4096,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "flops_only",
    "1.560: that is the ratio of FLOPs per token; the decode step waits for its bytes.",
    value=552075264 / (1449749643264 / 4096),
)
slip(
    "level01.worksheet.shown_characters",
    "piece_by_piece",
    '9: "Hum" may be the beginning of "Human:", and what has been shown cannot be taken back.',
    value=9,
)
slip(
    "level01.worksheet.shown_characters",
    "keeps_the_line_end",
    '5: the line end had to wait for one more character; an H came, so it is no part of "\\n\\n" and may go.',
    value=5,
)
slip(
    "level01.worksheet.shown_characters",
    "always_five",
    "4: five characters were held back, as many as might ever be needed; hold only a tail that begins a stop string.",
    value=9 - 5,
)
slip(
    "level01.worksheet.shown_characters",
    "held_characters",
    "3: those are the characters that are held back; asked are the others.",
    value=3,
)
slip(
    "level01.worksheet.shown_characters",
    "holds_everything",
    "0: text that cannot become a stop string may be shown at once; a user is waiting for it.",
    value=0,
)
