"""Slips of the worksheet of level15. `slip` is given when this is read."""

from math import cos, exp, pi, sin

MOVED = 20000 * 2 * 48 * 8 * 128 * 2 / 1e9  # GB
MAP = 2 * 80 * 8 * (5 * 8 * 128 + 1) * 128 * 4 / 1e9  # GB
MS = 20000 * 2 * (2 * 80 * 8 * 5 * 8 * 128 * 128) / 200e12 * 1e3
PER = 8192 * 2 * 80 * 8 * 128 * 2 / 1e9  # GB, of the 72B's prompt
PREFILL = (2 * 70e9 * 8192 + 80 * 4 * 64 * 128 * 8192 * 8193 / 2) / 400e12  # seconds
MOVE = 20000 * 2 * 80 * 8 * 128 * 2 / 5e9  # seconds

slip(
    "level15.worksheet.moved_gb",
    "receivers_bytes",
    "6.554: those are the receiver's bytes; it maps what arrives, so the sender's cross the link.",
    value=MOVED * 80 / 48,
)
slip(
    "level15.worksheet.moved_gb",
    "keys_only",
    "1.966: half of the bytes are missing; a cache holds keys and values.",
    value=MOVED / 2,
)
slip(
    "level15.worksheet.moved_gb",
    "gib",
    "3.662: that is in GiB; a GB is 1e9 bytes.",
    value=MOVED * 1e9 / 2**30,
)
slip(
    "level15.worksheet.moved_gb",
    "bits",
    "31.46: those are gigabits; a byte has 8.",
    value=MOVED * 8,
)
slip(
    "level15.worksheet.moved_gb",
    "query_heads",
    "19.66: keys and values of 40 heads were moved; 8 KV heads have them.",
    value=MOVED * 5,
)
slip(
    "level15.worksheet.moved_gb",
    "a_layer",
    "0.08192: that is one layer; all 48 have a cache.",
    value=MOVED / 48,
)
slip(
    "level15.worksheet.moved_gb",
    "float32",
    "7.864: those are 4 bytes a number; the caches are in bfloat16.",
    value=MOVED * 2,
)
slip(
    "level15.worksheet.moved_gb",
    "bytes_of_a_token",
    "196,608: those are the bytes of one token; asked is the prompt, in GB.",
    value=MOVED * 1e9 / 20000,
)
slip(
    "level15.worksheet.map_gb",
    "keys_only",
    "1.678: half is missing; keys and values have maps of their own, and float32 takes 4 bytes.",
    value=MAP / 2,
)
slip(
    "level15.worksheet.map_gb",
    "head_local",
    "0.4201: each head read one head of each layer; here it reads all 8.",
    value=2 * 80 * 8 * (5 * 128 + 1) * 128 * 4 / 1e9,
)
slip(
    "level15.worksheet.map_gb",
    "senders_layers",
    "2.014: there were maps for 48 layers; the receiver's 80 have to be made.",
    value=MAP * 48 / 80,
)
slip(
    "level15.worksheet.map_gb",
    "one_source_layer",
    "0.6718: one layer of the sender was read; it is 5.",
    value=2 * 80 * 8 * (8 * 128 + 1) * 128 * 4 / 1e9,
)
slip(
    "level15.worksheet.map_gb",
    "all_source_layers",
    "32.22: all 48 layers of the sender were read; it is 5.",
    value=2 * 80 * 8 * (48 * 8 * 128 + 1) * 128 * 4 / 1e9,
)
slip(
    "level15.worksheet.map_gb",
    "query_heads",
    "26.85: maps were made for 64 heads; 8 KV heads have keys and values.",
    value=MAP * 8,
)
slip(
    "level15.worksheet.map_gb",
    "count",
    "0.839: those are 1e9 coefficients; each takes 4 bytes.",
    value=MAP / 4,
)
slip(
    "level15.worksheet.map_gb",
    "gib",
    "3.126: that is in GiB; a GB is 1e9 bytes.",
    value=MAP * 1e9 / 2**30,
)
slip(
    "level15.worksheet.map_ms",
    "macs",
    "83.89: half of the FLOPs are missing: a weight takes a multiplication and an addition, and values are mapped too.",
    value=MS / 2,
)
slip(
    "level15.worksheet.map_ms",
    "seconds",
    "0.1678: those are seconds.",
    value=MS / 1e3,
)
slip(
    "level15.worksheet.map_ms",
    "a_token",
    "0.008389: that is one token; all 20,000 are mapped.",
    value=MS / 20000,
)
slip(
    "level15.worksheet.map_ms",
    "head_local",
    "20.97: each head read one head of each layer; here it reads all 8.",
    value=MS / 8,
)
slip(
    "level15.worksheet.map_ms",
    "senders_layers",
    "100.7: there were maps for 48 layers; the receiver's 80 have to be made.",
    value=MS * 48 / 80,
)
slip(
    "level15.worksheet.map_ms",
    "bytes",
    "671.1: bytes of the maps were multiplied; a weight is two FLOPs a token, whatever it is stored in.",
    value=MS * 4,
)
slip(
    "level15.worksheet.map_ms",
    "pairs_of_tokens",
    "3.355e6: that is quadratic in the tokens; each token is mapped by itself.",
    value=MS * 20000,
)
slip(
    "level15.worksheet.ready_seconds",
    "no_repair",
    "0.561: the part of the prefill that is done after all was left out.",
    value=MOVED / 10 + MS / 1e3,
)
slip(
    "level15.worksheet.ready_seconds",
    "other_share",
    "8.211: 85% of the prefill were done; that is the share that is saved.",
    value=MOVED / 10 + MS / 1e3 + 0.85 * 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "free_map",
    "1.743: the map was free; it runs before the first token.",
    value=MOVED / 10 + 0.15 * 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "at_once",
    "1.35: only the longest step was counted; here one follows the other.",
    value=0.15 * 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "receivers_bytes",
    "2.173: the receiver's bytes were moved; the sender's are.",
    value=MOVED / 6 + MS / 1e3 + 0.15 * 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "gigabits",
    "4.664: the link was taken in gigabits; it has 10 GB/s.",
    value=MOVED * 8 / 10 + MS / 1e3 + 0.15 * 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "whole_prefill",
    "9.561: with the whole prefill nothing is gained; 15% of it are done.",
    value=MOVED / 10 + MS / 1e3 + 9,
)
slip(
    "level15.worksheet.ready_seconds",
    "without_the_link",
    "1.518: the cache has to get there, too.",
    value=MS / 1e3 + 0.15 * 9,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "no_attention",
    "0.9362: attention was left out; at 8,192 tokens it is 7% of a prefill.",
    value=PER / (2 * 70e9 * 8192 / 400e12),
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "not_causal",
    "0.8116: all pairs of tokens were counted; a causal mask leaves half of them.",
    value=PER / ((2 * 70e9 * 8192 + 80 * 4 * 64 * 128 * 8192**2) / 400e12),
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "macs",
    "1.739: a weight was counted as one FLOP; it is a multiplication and an addition.",
    value=2 * PER / PREFILL,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "keys_only",
    "0.4347: half of the bytes are missing; a cache holds keys and values.",
    value=PER / PREFILL / 2,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "inverted",
    "1.15: those are seconds for a GB; a larger cache needs a faster link.",
    value=PREFILL / PER,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "senders_bytes",
    "0.5217: that is the 14B's cache; here the 72B's own is moved.",
    value=PER * 48 / 80 / PREFILL,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "query_heads",
    "6.956: bytes were counted for 64 heads, or as bits; 8 KV heads have keys and values, and a byte is a byte.",
    value=8 * PER / PREFILL,
)
slip(
    "level15.worksheet.breakeven_gb_per_second",
    "prefill_seconds",
    "3.087: those are the seconds of the prefill.",
    value=PREFILL,
)
slip(
    "level15.worksheet.moved_feature",
    "wrong_sign",
    "0.2127: it was turned back by 2 radians; it goes from 9 to 11, so on.",
    value=0.8 * cos(2) + 0.6 * sin(2),
)
slip(
    "level15.worksheet.moved_feature",
    "on_top",
    "0.6035: it was turned by 11 radians; 9 of them are in it already.",
    value=0.8 * cos(11) - 0.6 * sin(11),
)
slip(
    "level15.worksheet.moved_feature",
    "degrees",
    "0.7786: it was turned by 2 degrees; a position is a radian.",
    value=0.8 * cos(pi / 90) - 0.6 * sin(pi / 90),
)
slip(
    "level15.worksheet.moved_feature",
    "not_turned",
    "0.8: that is where it stood; keys are stored rotated, so a move changes them.",
    value=0.8,
)
slip(
    "level15.worksheet.moved_feature",
    "stripped",
    "-0.4816: that is its content, without any position; it has to be rotated again.",
    value=0.8 * cos(9) + 0.6 * sin(9),
)
slip(
    "level15.worksheet.moved_feature",
    "second_feature",
    "0.4777: that is the second feature.",
    value=0.8 * sin(2) + 0.6 * cos(2),
)
slip(
    "level15.worksheet.moved_feature",
    "first_term",
    "-0.3329: half is missing: in a rotation each feature takes part of the other.",
    value=0.8 * cos(2),
)
slip(
    "level15.worksheet.slope",
    "lam_times_n",
    "0.8846: the sums were divided by 3, which makes lam count three times.",
    value=23 / (14 + 4 * 3),
)
slip(
    "level15.worksheet.slope",
    "no_price",
    "1.643: that is without lam.",
    value=23 / 14,
)
slip(
    "level15.worksheet.slope",
    "no_intercept",
    "1.511: it went through the origin; take the means off first, so that b is free.",
    value=68 / (41 + 4),
)
slip(
    "level15.worksheet.slope",
    "intercept_pays",
    "1.457: the intercept paid as well; centred columns leave it free.",
    value=341 / 234,
)
slip(
    "level15.worksheet.slope",
    "reverse",
    "1.826: the source was fitted to the target, and turned around; a map has a direction.",
    value=(38 + 4) / 23,
)
slip(
    "level15.worksheet.slope",
    "intercept",
    "1.167: that is b.",
    value=5 - 3 * 23 / 18,
)
slip(
    "level15.worksheet.slope",
    "lam_subtracted",
    "2.3: lam was taken off the sum of squares; it is added, and makes W smaller.",
    value=23 / (14 - 4),
)
slip(
    "level15.worksheet.retained",
    "ratio",
    "0.8852: losses were divided; that begins at 0 nats, and nobody does without a cache.",
    value=1.62 / 1.83,
)
slip(
    "level15.worksheet.retained",
    "ratio_upside_down",
    "1.13: losses were divided, and the larger one is the worse one.",
    value=1.83 / 1.62,
)
slip(
    "level15.worksheet.retained",
    "lost",
    "0.25: that share is lost.",
    value=0.25,
)
slip(
    "level15.worksheet.retained",
    "nats_lost",
    "0.21: those are the nats that are lost; asked is a share of what the context is worth.",
    value=0.21,
)
slip(
    "level15.worksheet.retained",
    "nats_gained",
    "0.63: those are the nats that the mapped cache is worth; its own is worth 0.84.",
    value=0.63,
)
slip(
    "level15.worksheet.retained",
    "probability",
    "0.8106: that is what is left of a token's probability; without a cache it would be 0.43, not 0.",
    value=exp(-0.21),
)
slip(
    "level15.worksheet.retained",
    "score_over_difference",
    "2.179: 1.83 was divided by what the context is worth; take it off the floor first.",
    value=1.83 / 0.84,
)
slip(
    "level15.worksheet.together_seconds",
    "all_moved",
    "1.311: all layers were moved; those that are recomputed need not be.",
    value=MOVE,
)
slip(
    "level15.worksheet.together_seconds",
    "sum",
    "2.244: the two times were added; they run at once.",
    value=2 * MOVE * 7.8 / (MOVE + 7.8),
)
slip(
    "level15.worksheet.together_seconds",
    "half",
    "3.9: half of the layers were recomputed; the link would have to wait for them.",
    value=3.9,
)
slip(
    "level15.worksheet.together_seconds",
    "inverted",
    "6.678: 86% of the layers were recomputed; the faster way takes the larger part.",
    value=7.8 * 7.8 / (MOVE + 7.8),
)
slip(
    "level15.worksheet.together_seconds",
    "share",
    "0.1439: that is the share to recompute; asked are seconds.",
    value=MOVE / (MOVE + 7.8),
)
slip(
    "level15.worksheet.together_seconds",
    "senders_bytes",
    "0.7144: the 14B's bytes were moved; this sender has the 72B's shape.",
    value=1 / (1 / (MOVE * 48 / 80) + 1 / 7.8),
)
slip(
    "level15.worksheet.together_seconds",
    "mean",
    "4.555: that is the mean of both times.",
    value=(MOVE + 7.8) / 2,
)
slip(
    "level15.worksheet.together_seconds",
    "gigabits",
    "4.474: the link was taken in gigabits; it has 5 GB/s.",
    value=1 / (1 / (MOVE * 8) + 1 / 7.8),
)
slip(
    "level15.worksheet.together_seconds",
    "all_then_a_share",
    "0.1887: the share was taken of the time to move; what is moved is the rest.",
    value=MOVE * MOVE / (MOVE + 7.8),
)
