"""Slips of the worksheet of level02. `slip` is given when this is read."""

slip(
    "level02.worksheet.token_bytes",
    "query_heads",
    "276480: that is 20 heads; keys and values have the 4 KV heads only.",
    value=2 * 36 * 20 * 96 * 2,
)
slip(
    "level02.worksheet.token_bytes",
    "keys_only",
    "27648: that is the keys alone; every token stores a key and a value.",
    value=36 * 4 * 96 * 2,
)
slip(
    "level02.worksheet.token_bytes",
    "one_layer",
    "1536: that is one layer; each of the 36 keeps keys and values of its own.",
    value=2 * 4 * 96 * 2,
)
slip(
    "level02.worksheet.token_bytes",
    "one_head",
    "13824: that is one head; each of the 4 KV heads has a key and a value.",
    value=2 * 36 * 96 * 2,
)
slip(
    "level02.worksheet.token_bytes",
    "bits",
    "442368: those are bits; a number in bfloat16 has 16 of them, in 2 bytes.",
    value=2 * 36 * 4 * 96 * 16,
)
slip(
    "level02.worksheet.token_bytes",
    "float32",
    "110592: that is 4 bytes a number, float32; bfloat16 takes 2.",
    value=2 * 36 * 4 * 96 * 4,
)
slip(
    "level02.worksheet.request_gigabytes",
    "bfloat16",
    "19.66: that is 2 bytes a number, bfloat16; 8 bits are 1 byte.",
    value=60000 * 2 * 80 * 8 * 128 * 2 / 1e9,
)
slip(
    "level02.worksheet.request_gigabytes",
    "gibibytes",
    "9.155: that is in GiB, 2**30 bytes; a GB is 1e9 bytes.",
    value=60000 * 2 * 80 * 8 * 128 / 2**30,
)
slip(
    "level02.worksheet.request_gigabytes",
    "keys_only",
    "4.915: that is the keys alone; every token stores a key and a value.",
    value=60000 * 80 * 8 * 128 / 1e9,
)
slip(
    "level02.worksheet.request_gigabytes",
    "eight_times",
    "78.64: eight times too much: only 8 KV heads are cached, not 64, and 8 bits are one byte.",
    value=60000 * 2 * 80 * 64 * 128 / 1e9,
)
slip(
    "level02.worksheet.request_gigabytes",
    "one_layer",
    "0.1229: that is one layer; each of the 80 keeps keys and values of its own.",
    value=60000 * 2 * 8 * 128 / 1e9,
)
slip(
    "level02.worksheet.request_gigabytes",
    "megabytes",
    "9830: that is in MB, 1e6 bytes; asked are GB, 1e9.",
    value=60000 * 2 * 80 * 8 * 128 / 1e6,
)
slip(
    "level02.worksheet.room_tokens",
    "forgets_weights",
    "387268: the weights are in the same memory, so their 70.55 GB come off first.",
    value=0.9 * 141e9 / 327680,
)
slip(
    "level02.worksheet.room_tokens",
    "reserve_of_free",
    "193487: the 10% were taken from what the weights leave; they are 10% of the whole 141 GB.",
    value=0.9 * (141e9 - 70553706496) / 327680,
)
slip(
    "level02.worksheet.room_tokens",
    "no_reserve",
    "214985: 10% of the 141 GB are to be kept free.",
    value=(141e9 - 70553706496) / 327680,
)
slip(
    "level02.worksheet.room_tokens",
    "gibibytes",
    "200513: 141 GB were taken for GiB; a GB is 1e9 bytes.",
    value=(0.9 * 141 * 2**30 - 70553706496) / 327680,
)
slip(
    "level02.worksheet.room_tokens",
    "half_an_entry",
    "343910: that is 163,840 bytes a token; a token has a key and a value, and bfloat16 takes 2 bytes.",
    value=(0.9 * 141e9 - 70553706496) / 163840,
)
slip(
    "level02.worksheet.room_tokens",
    "query_heads",
    "21494: the cache was counted for 64 heads; it holds 8 KV heads.",
    value=(0.9 * 141e9 - 70553706496) / (2 * 80 * 64 * 128 * 2),
)
slip(
    "level02.worksheet.room_tokens",
    "one_layer",
    "13756419: that is one layer's entry a token; each of the 80 keeps keys and values of its own.",
    value=(0.9 * 141e9 - 70553706496) / (2 * 8 * 128 * 2),
)
slip(
    "level02.worksheet.num_requests",
    "rounds_up",
    "42: they would need 172,032 tokens, and not quite so many fit; a request that fits in part does not fit.",
    value=42,
)
slip(
    "level02.worksheet.num_requests",
    "weights_per_request",
    "1: weights are held once, for all requests together; only the cache is per request.",
    value=1,
)
slip(
    "level02.worksheet.num_requests",
    "memory_over_request",
    "94: that is the whole memory over one request's cache; the weights come off first.",
    value=94,
)
slip(
    "level02.worksheet.num_requests",
    "no_reserve",
    "52: 10% of the memory are to be kept free.",
    value=52,
)
slip(
    "level02.worksheet.num_requests",
    "reserve_of_free",
    "47: the 10% were taken from what the weights leave; they are 10% of the whole memory.",
    value=47,
)
slip(
    "level02.worksheet.num_requests",
    "half_an_entry",
    "83: that is half an entry per token; a token has a key and a value, and bfloat16 takes 2 bytes.",
    value=83,
)
slip(
    "level02.worksheet.tokens_per_request",
    "whole_batch",
    "212106: that is the sum over the batch; it is shared by 16 requests.",
    value=(70553706496 - 1050673152) / 327680,
)
slip(
    "level02.worksheet.tokens_per_request",
    "reads_embedding",
    "13457: the embedding was counted as read; a step looks up one row of it per token.",
    value=70553706496 / 327680 / 16,
)
slip(
    "level02.worksheet.tokens_per_request",
    "no_head",
    "13056: the head was left out too; the logits are a product with all of it, so every step reads it.",
    value=(70553706496 - 2 * 1050673152) / 327680 / 16,
)
slip(
    "level02.worksheet.tokens_per_request",
    "same_width",
    "26513: twice too many: the weights take 1 byte each, a number of the cache 2, and a token has keys and values.",
    value=(70553706496 - 1050673152) / 163840 / 16,
)
slip(
    "level02.worksheet.tokens_per_request",
    "query_heads",
    "1657: the cache was counted for 64 heads; it holds 8 KV heads.",
    value=(70553706496 - 1050673152) / (2 * 80 * 64 * 128 * 2) / 16,
)
slip(
    "level02.worksheet.tokens_per_request",
    "weights_per_request",
    "3393703: the weights were counted 16 times; a step reads them once for the whole batch.",
    value=16 * (70553706496 - 1050673152) / 327680,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "only_new",
    "0.06912: that is the new tokens alone; each torch.cat writes all that it then holds.",
    value=1500 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "constant_start",
    "34.56: the cache grows, so the copies do: 501, 502, … 2,000 tokens, not 500 each time.",
    value=1500 * 500 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "final_length_each",
    "138.2: only the last copy has 2,000 tokens; the first has 501.",
    value=1500 * 2000 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "starts_empty",
    "51.87: the 500 tokens that were there are copied at each of the 1,500 steps as well.",
    value=1500 * 1501 / 2 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "counts_the_start",
    "92.21: the first 500 tokens were there already; the copies begin with 501.",
    value=2000 * 2001 / 2 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "half_an_entry",
    "43.22: half of the right value: a token has a key and a value, and float32 takes 4 bytes.",
    value=(1500 * 500 + 1500 * 1501 / 2) * 23040 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "gibibytes",
    "80.50: that is in GiB, 2**30 bytes; a GB is 1e9 bytes.",
    value=(1500 * 500 + 1500 * 1501 / 2) * 46080 / 2**30,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "query_heads",
    "259.3: the cache was counted for 9 heads; it holds 3 KV heads.",
    value=(1500 * 500 + 1500 * 1501 / 2) * 3 * 46080 / 1e9,
)
slip(
    "level02.worksheet.concat_gigabytes",
    "reads_too",
    "172.9: reading was counted as well; asked is what is written.",
    value=2 * (1500 * 500 + 1500 * 1501 / 2) * 46080 / 1e9,
)
slip(
    "level02.worksheet.slot_position",
    "time_order",
    "92: slots are not in time order; position p is in slot p % 12, and 92 % 12 is 8.",
    value=92,
)
slip(
    "level02.worksheet.slot_position",
    "not_yet_seen",
    "100: that one comes next; 100 tokens have positions 0 to 99.",
    value=100,
)
slip(
    "level02.worksheet.slot_position",
    "one_round_old",
    "76: position 76 was here one round earlier; a later one has taken its place.",
    value=76,
)
slip(
    "level02.worksheet.slot_position",
    "relative",
    "4: position 4 was the first in this slot; since then the ring went round several times.",
    value=4,
)
slip(
    "level02.worksheet.unused_percent",
    "used",
    "19.17: that is the part that is used; asked is the rest.",
    value=100 * 7850 / (5 * 8192),
)
slip(
    "level02.worksheet.unused_percent",
    "fraction",
    "0.8083: that is the fraction; asked are percent.",
    value=1 - 7850 / (5 * 8192),
)
slip(
    "level02.worksheet.unused_percent",
    "against_longest",
    "60.75: every row has room for 8,192 tokens, however long the longest request is.",
    value=100 * (1 - 7850 / (5 * 4000)),
)
slip(
    "level02.worksheet.unused_percent",
    "one_row",
    "4.175: that is one row for all; each of the five requests has a row of its own.",
    value=100 * (1 - 7850 / 8192),
)
slip(
    "level02.worksheet.unused_percent",
    "tokens",
    "33110: those are tokens; asked is their share of the 40,960, in percent.",
    value=5 * 8192 - 7850,
)
