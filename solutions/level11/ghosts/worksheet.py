"""Slips of the worksheet of level11. `slip` is given when this is read."""

from math import exp

TOUCHED = 128 * (1 - (1 - 8 / 128) ** 24)
TOKEN = 48 * 2 * 4 * 128 * 2  # bytes that Qwen3-30B-A3B caches of a token
CACHE = 24 * 4000 * TOKEN
LATENT = 62 * (256 + 32) * 2 * 20000 / 1e6
DENSE = 40 * 2 * (288 + 256) / 576  # FLOPs for a byte
STATE = 48 * 4096 * 128 * 2


def ms(experts, cache=CACHE):
    """Milliseconds in which an A100 reads so many experts of each layer, the shared weights and so much cache."""
    return (2 * (1.23e9 + 226.5e6 * experts) + cache) / 2.039e9


slip(
    "level11.worksheet.touched",
    "k_times_batch",
    "192: the choices of 24 tokens were added up; tokens share experts, and there are 128.",
    value=24 * 8,
)
slip(
    "level11.worksheet.touched",
    "all_of_them",
    "128: all experts were counted; every token leaves 120 out, so some stay untouched.",
    value=128,
)
slip(
    "level11.worksheet.touched",
    "active",
    "8: that is the experts of one token; 24 tokens choose others.",
    value=8,
)
slip(
    "level11.worksheet.touched",
    "untouched",
    "27.20: those are the experts that nobody wants; asked are the others.",
    value=128 - TOUCHED,
)
slip(
    "level11.worksheet.touched",
    "one_expert_each",
    "21.96: a token got one expert; it has 8, so it leaves one out with 120/128.",
    value=128 * (1 - (1 - 1 / 128) ** 24),
)
slip(
    "level11.worksheet.touched",
    "with_replacement",
    "99.61: 192 single choices were drawn; the 8 of a token are all different.",
    value=128 * (1 - (1 - 1 / 128) ** 192),
)
slip(
    "level11.worksheet.touched",
    "share",
    "0.7875: that is the share of the experts; times 128.",
    value=TOUCHED / 128,
)
slip(
    "level11.worksheet.touched",
    "percent",
    "78.75: those are percent of the experts; asked is how many.",
    value=100 * TOUCHED / 128,
)
slip(
    "level11.worksheet.step_ms",
    "active_only",
    "7.612: the 8 experts of one token were read; 24 tokens touch 100.8 of them.",
    value=ms(8),
)
slip(
    "level11.worksheet.step_ms",
    "all_experts",
    "34.27: all 128 experts were read; 24 tokens leave 27.2 out.",
    value=ms(128),
)
slip(
    "level11.worksheet.step_ms",
    "no_cache",
    "23.60: the cache is missing: 9.437 GB.",
    value=ms(TOUCHED, 0),
)
slip(
    "level11.worksheet.step_ms",
    "one_cache",
    "23.79: one sequence's cache was read; there are 24.",
    value=ms(TOUCHED, TOKEN * 4000),
)
slip(
    "level11.worksheet.step_ms",
    "keys_only",
    "25.92: a token has keys and values; one of them is missing.",
    value=ms(TOUCHED, CACHE / 2),
)
slip(
    "level11.worksheet.step_ms",
    "weights_per_sequence",
    "76.24: each sequence read its weights for itself; a step reads them once for all.",
    value=24 * ms(8, 4000 * TOKEN),
)
slip(
    "level11.worksheet.step_ms",
    "half",
    "14.11: a number was taken for 1 byte; in bfloat16 it has 2.",
    value=ms(TOUCHED) / 2,
)
slip(
    "level11.worksheet.step_ms",
    "experts_only",
    "27.02: the 1.230e9 shared parameters are missing.",
    value=ms(TOUCHED) - 2.46e9 / 2.039e9,
)
slip(
    "level11.worksheet.step_ms",
    "seconds",
    "0.02823: those are seconds.",
    value=ms(TOUCHED) / 1e3,
)
slip(
    "level11.worksheet.step_ms",
    "gigabytes",
    "57.56: those are GB; divide by what an A100 reads in a ms, 2.039.",
    value=ms(TOUCHED) * 2.039,
)
slip(
    "level11.worksheet.last_gate",
    "bias_in_the_gate",
    "1.136: the bias is in the gate; it only chooses, and the gate is made of 0.2 and 0.6.",
    value=2.5 * 0.5 / 1.1,
)
slip(
    "level11.worksheet.last_gate",
    "no_scale",
    "0.2500: that is before scale; times 2.5.",
    value=0.25,
)
slip(
    "level11.worksheet.last_gate",
    "not_normalized",
    "0.5000: the score was scaled as it is; first divide by the sum of the two, 0.8.",
    value=0.5,
)
slip(
    "level11.worksheet.last_gate",
    "over_all_four",
    "0.3125: the sum is over all four; only the chosen two count.",
    value=2.5 * 0.2 / 1.6,
)
slip(
    "level11.worksheet.last_gate",
    "first_gate",
    "1.875: that is the gate of the first expert; asked is the last.",
    value=1.875,
)
slip(
    "level11.worksheet.last_gate",
    "bias_ignored",
    "0: without the bias the first two would be chosen; with it the sums are 0.6, 0.3, 0.4 and 0.5.",
    value=0,
)
slip(
    "level11.worksheet.last_gate",
    "softmax_of_scores",
    "1.003: a softmax was taken over the sigmoids; divide each by their sum.",
    value=2.5 / (1 + exp(0.4)),
)
slip(
    "level11.worksheet.last_gate",
    "best_score_beside",
    "0.7143: the second largest score, 0.5, was taken for the other one; with the biases 0.6 and 0.2 are chosen.",
    value=2.5 * 0.2 / 0.7,
)
slip(
    "level11.worksheet.balance_loss",
    "no_experts",
    "0.3250: the factor 4 is missing: the number of experts makes balance 1.",
    value=0.325,
)
slip(
    "level11.worksheet.balance_loss",
    "part_of_tokens",
    "2.600: the choices were divided by the 6 tokens, so f sums to 2; divide by all 12.",
    value=2.6,
)
slip(
    "level11.worksheet.balance_loss",
    "counts_squared",
    "1.500: that is made of f alone, squared; one factor is the mean probability.",
    value=1.5,
)
slip(
    "level11.worksheet.balance_loss",
    "probabilities_squared",
    "1.200: that is made of P alone, squared; one factor is the part of the choices.",
    value=1.2,
)
slip(
    "level11.worksheet.balance_loss",
    "used_experts",
    "0.9750: three experts were counted; the idle one counts as well.",
    value=0.975,
)
slip(
    "level11.worksheet.balance_loss",
    "over_k",
    "0.6500: it was divided by k; f is a part of all choices already.",
    value=0.65,
)
slip(
    "level11.worksheet.balance_loss",
    "imbalance",
    "2: that is the fullest over the mean; the loss weighs each f with its P.",
    value=2,
)
slip(
    "level11.worksheet.balance_loss",
    "counts",
    "15.60: counts were not divided by all 12 choices.",
    value=15.6,
)
slip(
    "level11.worksheet.latent_mb",
    "keys_and_values",
    "1428: a factor 2 for keys and values; both are made of one latent.",
    value=2 * LATENT,
)
slip(
    "level11.worksheet.latent_mb",
    "no_rotated_key",
    "634.9: the rotated key is missing: 32 numbers more.",
    value=LATENT * 256 / 288,
)
slip(
    "level11.worksheet.latent_mb",
    "all_heads",
    "28570: each of 40 heads got a latent; they share one.",
    value=40 * LATENT,
)
slip(
    "level11.worksheet.latent_mb",
    "heads_as_ever",
    "15872: those are keys and values of 40 heads; cached is what they are made of.",
    value=LATENT * 40 * (96 + 64) / 288,
)
slip(
    "level11.worksheet.latent_mb",
    "a_rotated_key_each",
    "3809: each head got a rotated key; they share one.",
    value=LATENT * (256 + 40 * 32) / 288,
)
slip(
    "level11.worksheet.latent_mb",
    "one_layer",
    "11.52: that is one layer; the model has 62.",
    value=LATENT / 62,
)
slip(
    "level11.worksheet.latent_mb",
    "numbers",
    "357.1: those are numbers; each takes 2 bytes.",
    value=LATENT / 2,
)
slip(
    "level11.worksheet.latent_mb",
    "mib",
    "681.2: those are MiB; an MB is 1e6 bytes.",
    value=LATENT / 1.048576,
)
slip(
    "level11.worksheet.latent_mb",
    "bits",
    "5714: those are megabits; a byte has 8.",
    value=LATENT * 8,
)
slip(
    "level11.worksheet.flops_per_byte",
    "one_head",
    "1.889: that is one head; 40 heads use the same bytes.",
    value=DENSE / 40,
)
slip(
    "level11.worksheet.flops_per_byte",
    "half",
    "37.78: half: a multiply-add is two FLOPs, and one latent serves scores and sums.",
    value=DENSE / 2,
)
slip(
    "level11.worksheet.flops_per_byte",
    "scores_only",
    "40: those are the scores; the weighted sum of latents comes on top.",
    value=40 * 2 * 288 / 576,
)
slip(
    "level11.worksheet.flops_per_byte",
    "sums_of_the_key",
    "80: the weighted sum took the rotated key along; only the latent is summed.",
    value=40 * 2 * 576 / 576,
)
slip(
    "level11.worksheet.flops_per_byte",
    "keys_made_first",
    "22.22: those are scores and sums of made keys and values, 96 and 64 wide; absorbed they are 288 and 256 wide.",
    value=40 * 2 * 160 / 576,
)
slip(
    "level11.worksheet.flops_per_byte",
    "no_rotated_key",
    "71.11: the rotated key is missing in the scores; they are 288 wide.",
    value=40 * 2 * 512 / 576,
)
slip(
    "level11.worksheet.flops_per_byte",
    "key_not_read",
    "85: the rotated key was not read; a token has 576 bytes in a layer.",
    value=40 * 2 * 544 / 512,
)
slip(
    "level11.worksheet.flops_per_byte",
    "per_number",
    "151.1: that is for each number; it has 2 bytes.",
    value=DENSE * 2,
)
slip(
    "level11.worksheet.flops_per_byte",
    "upside_down",
    "0.01324: that is bytes per FLOP; turn it over.",
    value=1 / DENSE,
)
slip(
    "level11.worksheet.windows_gb",
    "all_global",
    "19.66: all layers kept everything; 40 of them keep 1,024 tokens.",
    value=48 * 50000 * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "no_windows",
    "3.277: the local layers are missing: 40 times 1,024 tokens.",
    value=8 * 50000 * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "swapped",
    "16.45: 40 layers saw everything; those are the local ones.",
    value=(40 * 50000 + 8 * 1024) * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "half",
    "1.806: half is missing: keys and values, of 2 bytes a number.",
    value=(8 * 50000 + 40 * 1024) * 4096 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "every_fifth",
    "4.014: nine layers saw everything; every sixth does, 8 of 48.",
    value=(9 * 50000 + 39 * 1024) * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "all_local",
    "0.4027: all layers kept a window; 8 keep everything.",
    value=48 * 1024 * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "one_layer_each",
    "0.4180: one local layer's window was counted, and one global layer; there are 40 and 8.",
    value=(50000 + 1024) * 8192 / 1e9,
)
slip(
    "level11.worksheet.windows_gb",
    "gib",
    "3.364: those are GiB; a GB is 1e9 bytes.",
    value=(8 * 50000 + 40 * 1024) * 8192 / 2**30,
)
slip(
    "level11.worksheet.crossover",
    "one_sequence",
    "9664: that is for one sequence: caches and states are of each, weights are shared.",
    value=(216e6 + 2 * STATE) / 32768,
)
slip(
    "level11.worksheet.crossover",
    "read_only",
    "2360: states were read; each step writes them as well.",
    value=(216e6 + 8 * STATE) / 262144,
)
slip(
    "level11.worksheet.crossover",
    "one_state",
    "1208: one sequence's state; there are 8, as there are caches.",
    value=(216e6 + 2 * STATE) / 262144,
)
slip(
    "level11.worksheet.crossover",
    "weights_only",
    "824.0: that is the difference of the weights; the states come on top.",
    value=216e6 / 262144,
)
slip(
    "level11.worksheet.crossover",
    "states_only",
    "3072: those are the states; Mamba's weights are 216 MB more, too.",
    value=16 * STATE / 262144,
)
slip(
    "level11.worksheet.crossover",
    "keys_only",
    "7792: a token has keys and values; one of them is missing.",
    value=(216e6 + 16 * STATE) / 131072,
)
slip(
    "level11.worksheet.crossover",
    "weights_added",
    "22756: the weights were added up; what counts is by how much they differ.",
    value=(2 * (1.344e9 + 1.236e9) + 16 * STATE) / 262144,
)
slip(
    "level11.worksheet.crossover",
    "weights_the_other_way",
    "2248: the difference of the weights was subtracted; Mamba-2's are more.",
    value=(16 * STATE - 216e6) / 262144,
)
