"""Slips of the worksheet of level14. `slip` is given when this is read."""

from math import exp, log

ONE, OTHER = -log(0.9 * 0.5 * 0.6 * 0.8), -log(0.25)
LINEAR, REST, ADAPTERS = 6.525e9, 1.091e9, 161.5e6
NF4 = (4 + (8 + 32 / 128) / 32) / 8 * LINEAR / 1e9  # GB
PLAIN, TUNED = 2 * REST / 1e9, ADAPTERS * 16 / 1e9
K3 = 2 - log(2) - 1
TOKEN = 2 * 28 * 4 * 128 * 2
CACHED = 32 * (768 * 512 + 768 * 767 / 2)  # tokens read in all steps
DECODE = (768 * 2 * 7.616e9 + TOKEN * CACHED) / 2039e9
FORWARD = 32 * (512 + 768) * 2 * 7.616e9 / (0.35 * 312e12)


def share(decode, learn):
    return 100 * decode / (decode + learn)


slip(
    "level14.worksheet.loss",
    "mean_of_means",
    "0.885: each conversation got a mean of its own; one mean over all five tokens gives each the same weight.",
    value=(ONE / 4 + OTHER) / 2,
)
slip(
    "level14.worksheet.loss",
    "sum",
    "2.919: that is the sum; the loss is a mean, or a step would grow with the batch.",
    value=ONE + OTHER,
)
slip(
    "level14.worksheet.loss",
    "log_of_the_mean",
    "0.494: the probabilities were averaged before the logarithm; their logarithms are.",
    value=-log((0.9 + 0.5 + 0.6 + 0.8 + 0.25) / 5),
)
slip(
    "level14.worksheet.loss",
    "two_conversations",
    "1.459: the sum was divided by the conversations; it is divided by the learned tokens.",
    value=(ONE + OTHER) / 2,
)
slip(
    "level14.worksheet.loss",
    "padding_counted",
    "0.365: the padding of the short one was counted; only learned tokens are.",
    value=(ONE + OTHER) / 8,
)
slip(
    "level14.worksheet.loss",
    "first_only",
    "0.383: that is the mean of the first conversation alone.",
    value=ONE / 4,
)
slip(
    "level14.worksheet.loss",
    "bits",
    "0.842: those are bits; the logarithm is the natural one.",
    value=(ONE + OTHER) / 5 / log(2),
)
slip(
    "level14.worksheet.loss",
    "sign",
    "-0.584: that is the mean log-probability; the loss is minus that, so that a step downhill raises it.",
    value=-(ONE + OTHER) / 5,
)
slip(
    "level14.worksheet.filled_percent",
    "in_the_order_given",
    "66.25: that takes 4 rows, because the examples went in as they came; the longest go first.",
    value=100 * 5300 / 8000,
)
slip(
    "level14.worksheet.filled_percent",
    "next_fit",
    "53: that takes 5 rows, because only the newest row was asked for room; ask every open one.",
    value=100 * 5300 / 10000,
)
slip(
    "level14.worksheet.filled_percent",
    "padded",
    "58.24: that is a batch that is padded to its longest; here rows of 2,000 hold several examples.",
    value=100 * 5300 / (7 * 1300),
)
slip(
    "level14.worksheet.filled_percent",
    "a_row_each",
    "37.86: each example got a row of its own.",
    value=100 * 5300 / (7 * 2000),
)
slip(
    "level14.worksheet.filled_percent",
    "all_full",
    "100: 5,300 tokens do not fill three rows of 2,000.",
    value=100,
)
slip(
    "level14.worksheet.filled_percent",
    "wasted",
    "11.67: those places stay empty; asked is what is filled.",
    value=100 * 700 / 6000,
)
slip(
    "level14.worksheet.filled_percent",
    "fraction",
    "0.8833: that is a fraction, and asked are percent.",
    value=5300 / 6000,
)
slip(
    "level14.worksheet.filled_percent",
    "last_row",
    "75: that is the last row alone; asked are all three.",
    value=100 * 1500 / 2000,
)
slip(
    "level14.worksheet.num_trainable",
    "a_only",
    "2,408,448: those are the two A, or q alone; q and v have an A and a B each, of rank times their outputs.",
    value=12 * 2 * 3584 * 28,
)
slip(
    "level14.worksheet.num_trainable",
    "b_only",
    "1,376,256: those are the two B, or v alone; q and v have an A and a B each, of rank times their inputs.",
    value=12 * (3584 + 512) * 28,
)
slip(
    "level14.worksheet.num_trainable",
    "v_as_wide_as_q",
    "4,816,896: v was taken as wide as q; with 4 KV heads it has 512 outputs.",
    value=12 * 4 * 3584 * 28,
)
slip(
    "level14.worksheet.num_trainable",
    "one_layer",
    "135,168: that is one layer; there are 28.",
    value=12 * (2 * 3584 + 512 + 3584),
)
slip(
    "level14.worksheet.num_trainable",
    "whole_matrices",
    "411,041,792: those are the matrices themselves, which stay frozen.",
    value=3584 * (3584 + 512) * 28,
)
slip(
    "level14.worksheet.num_trainable",
    "compressed",
    "34,253,483: the matrices were divided by the rank; an adapter has rank times (outputs + inputs).",
    value=3584 * (3584 + 512) * 28 / 12,
)
slip(
    "level14.worksheet.num_trainable",
    "rank_one",
    "315,392: that is one rank; there are 12.",
    value=(2 * 3584 + 512 + 3584) * 28,
)
slip(
    "level14.worksheet.num_trainable",
    "bytes",
    "7,569,408: those are bytes in bfloat16; asked are numbers.",
    value=2 * 12 * (2 * 3584 + 512 + 3584) * 28,
)
slip(
    "level14.worksheet.tuning_gb",
    "codes_alone",
    "8.028: the scales were forgotten; a block of 32 has one, and it takes its share of bits.",
    value=LINEAR * 0.5 / 1e9 + PLAIN + TUNED,
)
slip(
    "level14.worksheet.tuning_gb",
    "scales_in_float32",
    "8.844: that is with scales in float32; they are 8-bit codes themselves.",
    value=LINEAR * 5 / 8 / 1e9 + PLAIN + TUNED,
)
slip(
    "level14.worksheet.tuning_gb",
    "optimizer_forgotten",
    "6.301: the optimizer was forgotten; two moments and a float32 copy are 12 bytes of each number that learns.",
    value=NF4 + PLAIN + ADAPTERS * 4 / 1e9,
)
slip(
    "level14.worksheet.tuning_gb",
    "two_moments_only",
    "7.593: the float32 copy was forgotten, which a step that is too small for bfloat16 needs; it is among the 12.",
    value=NF4 + PLAIN + ADAPTERS * 12 / 1e9,
)
slip(
    "level14.worksheet.tuning_gb",
    "adapters_forgotten",
    "5.655: those are the frozen numbers; the adapters, their gradients and the optimizer come on top.",
    value=NF4 + PLAIN,
)
slip(
    "level14.worksheet.tuning_gb",
    "linear_layers_alone",
    "6.057: the embedding and the head were left out; they stay in bfloat16.",
    value=NF4 + TUNED,
)
slip(
    "level14.worksheet.tuning_gb",
    "everything_in_4_bits",
    "6.637: the embedding and the head were put into NF4 too; only the linear layers are.",
    value=NF4 * (LINEAR + REST) / LINEAR + TUNED,
)
slip(
    "level14.worksheet.tuning_gb",
    "bits_for_bytes",
    "32.55: the bits of NF4 were counted as bytes; eight of them make one.",
    value=8 * NF4 + PLAIN + TUNED,
)
slip(
    "level14.worksheet.tuning_gb",
    "nothing_quantized",
    "17.82: that is LoRA on bfloat16 weights; the linear layers are in NF4.",
    value=2 * LINEAR / 1e9 + PLAIN + TUNED,
)
slip(
    "level14.worksheet.preference_loss",
    "beta_forgotten",
    "0.02975: beta was forgotten; it scales both rewards.",
    value=log(1 + exp(-3.5)),
)
slip(
    "level14.worksheet.preference_loss",
    "sign",
    "1.35: chosen and rejected were exchanged, or model and reference; that teaches the rejected answer.",
    value=log(1 + exp(1.05)),
)
slip(
    "level14.worksheet.preference_loss",
    "no_reference",
    "2.35: the reference was forgotten; what counts is how far the model has moved away from it.",
    value=log(1 + exp(0.3 * 7.5)),
)
slip(
    "level14.worksheet.preference_loss",
    "probability",
    "0.7408: that is the probability that the chosen one wins; the loss is minus its logarithm.",
    value=1 / (1 + exp(-1.05)),
)
slip(
    "level14.worksheet.preference_loss",
    "chosen_alone",
    "0.4375: the rejected answer was left out; its log-ratio of -1.5 counts as well.",
    value=log(1 + exp(-0.6)),
)
slip(
    "level14.worksheet.preference_loss",
    "rewards_added",
    "0.621: the rewards were added; the margin is their difference, 0.6 + 0.45.",
    value=log(1 + exp(-0.15)),
)
slip(
    "level14.worksheet.preference_loss",
    "start",
    "0.6931: that is where training starts, while model and reference are the same.",
    value=log(2),
)
slip(
    "level14.worksheet.preference_loss",
    "margin",
    "1.05: that is the margin; the loss is -ln sigmoid of it.",
    value=1.05,
)
slip(
    "level14.worksheet.advantage",
    "missing_as_zero",
    "1.687: the missing reward was counted as 0, which is a judgement; four rewards are there.",
    value=(3 - 0.8) / (6.8 / 4) ** 0.5,
)
slip(
    "level14.worksheet.advantage",
    "population_std",
    "1.633: the squares were divided by their number, 4; a sample's std divides by one less.",
    value=2 / (6 / 4) ** 0.5,
)
slip(
    "level14.worksheet.advantage",
    "missing_as_zero_population_std",
    "1.887: the missing reward was counted as 0, and the std is that of a population.",
    value=2.2 / (6.8 / 5) ** 0.5,
)
slip(
    "level14.worksheet.advantage",
    "not_divided",
    "2: that is without the division by the std, as Dr. GRPO has it.",
    value=2,
)
slip(
    "level14.worksheet.advantage",
    "variance",
    "1: it was divided by the variance; the std is its root.",
    value=1,
)
slip(
    "level14.worksheet.advantage",
    "no_baseline",
    "3: that is the reward itself; an answer is as good as it is better than its group.",
    value=3,
)
slip(
    "level14.worksheet.advantage",
    "mean_not_taken_off",
    "2.121: the mean of the group was not taken off.",
    value=3 / 2**0.5,
)
slip(
    "level14.worksheet.objective",
    "not_clipped",
    "1.277: the ratio of 1.75 was not clipped; beyond 1.28 nothing is gained.",
    value=1.75 * 0.8 - 0.4 * K3,
)
slip(
    "level14.worksheet.objective",
    "one_clip_for_both",
    "0.8373: it was clipped at 1.2; above it is 1.28.",
    value=1.2 * 0.8 - 0.4 * K3,
)
slip(
    "level14.worksheet.objective",
    "kl_swapped",
    "0.9467: d went the wrong way; it is ln of the reference's probability over the model's.",
    value=1.28 * 0.8 - 0.4 * (0.5 + log(2) - 1),
)
slip(
    "level14.worksheet.objective",
    "kl_added",
    "1.147: the KL was added; it is what the token pays.",
    value=1.28 * 0.8 + 0.4 * K3,
)
slip(
    "level14.worksheet.objective",
    "no_kl",
    "1.024: that is without the KL.",
    value=1.28 * 0.8,
)
slip(
    "level14.worksheet.objective",
    "beta_forgotten",
    "0.7171: beta was forgotten; it is 0.4 of the KL.",
    value=1.28 * 0.8 - K3,
)
slip(
    "level14.worksheet.objective",
    "log_ratio_as_kl",
    "1.301: the log-ratio itself was taken for the KL; it is negative half of the time, and k3 never is.",
    value=1.28 * 0.8 + 0.4 * log(2),
)
slip(
    "level14.worksheet.objective",
    "reference_as_old",
    "0.2773: the ratio is to the probability with which the token was written, not to the reference's.",
    value=0.5 * 0.8 - 0.4 * K3,
)
slip(
    "level14.worksheet.objective",
    "loss",
    "-0.9013: that is the loss; the objective is minus that.",
    value=-(1.28 * 0.8 - 0.4 * K3),
)
slip(
    "level14.worksheet.decode_percent",
    "no_cache",
    "25.07: the caches were forgotten; every step reads those of all 32 answers.",
    value=share(768 * 2 * 7.616e9 / 2039e9, 3 * FORWARD),
)
slip(
    "level14.worksheet.decode_percent",
    "weights_for_each_answer",
    "91.49: each answer read the weights; the group shares one reading in a step.",
    value=share((32 * 768 * 2 * 7.616e9 + TOKEN * CACHED) / 2039e9, 3 * FORWARD),
)
slip(
    "level14.worksheet.decode_percent",
    "forward_alone",
    "52.66: learning was one forward pass; the backward pass takes two more.",
    value=share(DECODE, FORWARD),
)
slip(
    "level14.worksheet.decode_percent",
    "full_rate",
    "51.46: learning ran at the full rate; it reaches 35% of it.",
    value=share(DECODE, 3 * FORWARD * 0.35),
)
slip(
    "level14.worksheet.decode_percent",
    "usual_rate",
    "29.77: learning ran at 40% of the rate, as in the lesson; here it reaches 35%.",
    value=share(DECODE, 3 * FORWARD * 0.35 / 0.4),
)
slip(
    "level14.worksheet.decode_percent",
    "one_flop",
    "42.59: half of the FLOPs are missing; a parameter takes a multiplication and an addition.",
    value=share(DECODE, 1.5 * FORWARD),
)
slip(
    "level14.worksheet.decode_percent",
    "answers_alone",
    "38.2: learning ran over the answers alone; the prompt runs with each.",
    value=share(DECODE, 3 * FORWARD * 768 / 1280),
)
slip(
    "level14.worksheet.decode_percent",
    "learning",
    "72.94: that is the part of learning; asked is that of decoding.",
    value=100 - share(DECODE, 3 * FORWARD),
)
slip(
    "level14.worksheet.decode_percent",
    "fraction",
    "0.2706: that is a fraction, and asked are percent.",
    value=share(DECODE, 3 * FORWARD) / 100,
)
