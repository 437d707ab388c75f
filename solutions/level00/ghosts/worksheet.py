"""Slips of the worksheet of level00. `slip` is given when this is read."""

from math import exp, pi, sqrt

slip(
    "level00.worksheet.tokens_left",
    "one_merge",
    "5: that is after one merge; the pair of two merged tokens still occurs twice.",
    value=5,
)
slip(
    "level00.worksheet.tokens_left",
    "merges_runs",
    "3: a run of three equal tokens gives one merge and leaves the third; pairs that overlap are counted, not merged.",
    value=3,
)
slip(
    "level00.worksheet.tokens_left",
    "one_token_a_merge",
    "6: a merge replaces every occurrence of its pair, so the first one alone takes three tokens off.",
    value=8 - 2,
)
slip(
    "level00.worksheet.tokens_left",
    "vocabulary_size",
    "258: that is the size of the vocabulary; asked is the length of the text.",
    value=256 + 2,
)
slip(
    "level00.worksheet.first_weight",
    "mask_as_zero",
    "0.3995: the masked key took part with exp(0) = 1; a masked score is -inf after the shift too, and exp(-inf) is 0.",
    value=1 / (2 + exp(-1) + exp(-2)),
)
slip(
    "level00.worksheet.first_weight",
    "no_exponential",
    "0.3366: that is the share of the scores themselves; softmax takes the share of their exponentials.",
    value=102 / (102 + 101 + 100),
)
slip(
    "level00.worksheet.first_weight",
    "powers_of_two",
    "0.5714: these are powers of 2; softmax uses powers of e.",
    value=1 / (1 + 1 / 2 + 1 / 4),
)
slip(
    "level00.worksheet.first_weight",
    "second_weight",
    "0.2447: that is the weight of the second score.",
    value=exp(-1) / (1 + exp(-1) + exp(-2)),
)
slip(
    "level00.worksheet.normed_feature",
    "layer_norm",
    "1.260: the mean was subtracted first; RMSNorm does not, LayerNorm does.",
    value=(4 - 1.75) / sqrt(6.25 - 1.75**2),
)
slip(
    "level00.worksheet.normed_feature",
    "l2_norm",
    "0.8: that divides by the root of the sum of squares; RMSNorm takes their mean.",
    value=4 / sqrt(25),
)
slip(
    "level00.worksheet.normed_feature",
    "no_root",
    "0.64: that divides by the mean square; take its root.",
    value=4 / 6.25,
)
slip(
    "level00.worksheet.normed_feature",
    "mean_magnitude",
    "1.778: that divides by the mean of the magnitudes; square first, then mean, then root.",
    value=4 / (9 / 4),
)
slip(
    "level00.worksheet.plane_angle",
    "half_exponent",
    "56.23: the exponent lost its factor 2; plane i turns at theta^(-2i / head_dim).",
    value=1000 * 100000 ** (-16 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "theta_of_the_paper",
    "10: that is theta 10,000, the value of the paper; SmolLM2 has 100,000.",
    value=1000 * 10000 ** (-2 * 16 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "degrees",
    "181.2: that is in degrees; asked are radians.",
    value=1000 * 100000 ** (-2 * 16 / 64) * 180 / pi,
)
slip(
    "level00.worksheet.plane_angle",
    "planes_from_one",
    "4.532: that is plane 15; planes are counted from 0, and plane 0 turns by 1 radian a token.",
    value=1000 * 100000 ** (-2 * 15 / 64),
)
slip(
    "level00.worksheet.plane_angle",
    "angle_of_one_token",
    "0.003162: that is the angle for one token; at position 1000 it is a thousand times as large.",
    value=100000 ** (-2 * 16 / 64),
)
slip(
    "level00.worksheet.attended_weight",
    "unscaled",
    "0.9997: the scores were not divided by sqrt(head_dim), so one key takes nearly everything.",
    value=1 / (1 + exp(-8)),
)
slip(
    "level00.worksheet.attended_weight",
    "scale_by_dim",
    "0.5312: the scores were divided by head_dim; divide by its root, 8.",
    value=1 / (1 + exp(-8 / 64)),
)
slip(
    "level00.worksheet.attended_weight",
    "no_exponential",
    "0.6667: that is the share of the scores; softmax takes the share of their exponentials.",
    value=16 / (16 + 8),
)
slip(
    "level00.worksheet.attended_weight",
    "second_key",
    "0.2689: that is the weight of the second key.",
    value=exp(1) / (exp(2) + exp(1)),
)
slip(
    "level00.worksheet.layer_megabytes",
    "mebibytes",
    "6.75: that is in MiB, 2**20 bytes; a MB is 1e6 bytes.",
    value=2 * 3538944 / 2**20,
)
slip(
    "level00.worksheet.layer_megabytes",
    "mha",
    "7.963: K and V are as wide as Q there; 3 KV heads of 64 make them 192 wide.",
    value=2 * (4 * 576 * 576 + 3 * 576 * 1536) / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "two_matrix_mlp",
    "5.308: SwiGLU has three matrices: gate, up and down.",
    value=2 * (2 * 576 * 576 + 2 * 576 * 192 + 2 * 576 * 1536) / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "parameters",
    "3.539: that is millions of parameters; each takes 2 bytes in bfloat16.",
    value=3538944 / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "float32",
    "14.16: that is 4 bytes a parameter, float32; bfloat16 takes 2.",
    value=4 * 3538944 / 1e6,
)
slip(
    "level00.worksheet.layer_megabytes",
    "no_output_projection",
    "6.414: the output projection is missing; attention has four matrices: Q, K, V and O.",
    value=2 * (3538944 - 576 * 576) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "mac_is_one",
    "205.3: a multiply-add was counted as one FLOP; it is two.",
    value=(30 * 3538944 + 49152 * 576 + 30 * 9 * 2 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_head",
    "353.9: the vocabulary projection is missing; its matrix is shared with the embedding, but it is multiplied.",
    value=(2 * 30 * 3538944 + 30 * 9 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "embedding_is_matmul",
    "467.1: the embedding was counted twice; the look-up copies a row and costs no FLOPs.",
    value=(2 * (30 * 3538944 + 2 * 49152 * 576) + 30 * 9 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "kv_heads_in_scores",
    "316.1: the scores were counted for 3 KV heads; each of the 9 query heads computes its own.",
    value=(2 * (30 * 3538944 + 49152 * 576) + 30 * 3 * 4 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_weighted_sum",
    "339.7: only one product per key was counted; after q kᵀ the weights multiply v, which costs as much.",
    value=(2 * (30 * 3538944 + 49152 * 576) + 30 * 9 * 2 * 64 * 2048) / 1e6,
)
slip(
    "level00.worksheet.token_megaflops",
    "no_scores",
    "269.0: that is the matrices alone; scores and weighted sum come on top and grow with the context.",
    value=2 * (30 * 3538944 + 49152 * 576) / 1e6,
)
slip(
    "level00.worksheet.even_context",
    "mac_is_one",
    "1946: the matrices were counted with one FLOP per multiply-add, the scores with two.",
    value=(30 * 3538944 + 49152 * 576) / (30 * 9 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "kv_heads_in_scores",
    "11674: the scores were counted for 3 KV heads; each of the 9 query heads computes its own.",
    value=2 * (30 * 3538944 + 49152 * 576) / (30 * 3 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "no_head",
    "3072: that is the layers alone; the vocabulary projection is a matrix product as well.",
    value=2 * 30 * 3538944 / (30 * 9 * 4 * 64),
)
slip(
    "level00.worksheet.even_context",
    "no_weighted_sum",
    "7782: only one product per key was counted; after q kᵀ the weights multiply v, which costs as much.",
    value=2 * (30 * 3538944 + 49152 * 576) / (30 * 9 * 2 * 64),
)
slip(
    "level00.worksheet.even_context",
    "scores_of_one_layer",
    "116736: the scores of one layer stand against the matrices of all; attention runs in each of the 30 layers.",
    value=2 * (30 * 3538944 + 49152 * 576) / (9 * 4 * 64),
)
