"""The worksheet of level 00: right values by formula from the configuration, or by brute force."""

from collections import Counter
from math import exp

import pytest

from dojo.models import SMOLLM2

MATRICES_OF_A_LAYER = (
    2 * SMOLLM2.d_model * SMOLLM2.n_heads * SMOLLM2.head_dim  # Q and O
    + 2 * SMOLLM2.d_model * SMOLLM2.n_kv_heads * SMOLLM2.head_dim  # K and V
    + 3 * SMOLLM2.d_model * SMOLLM2.d_ff  # gate, up and down
)
MATRIX_FLOPS = 2 * (SMOLLM2.n_layers * MATRICES_OF_A_LAYER + SMOLLM2.vocab_size * SMOLLM2.d_model)
# q kᵀ and weights · v are head_dim multiply-adds each, per layer, query head and token of context
SCORE_FLOPS_PER_CONTEXT_TOKEN = SMOLLM2.n_layers * SMOLLM2.n_heads * 2 * 2 * SMOLLM2.head_dim


@pytest.mark.kata("level00.worksheet.tokens_left")
def test_two_merges_leave_this_many_tokens(answer):
    """Oracle: the merges themselves, on strings: a merged token is the text it stands for.

    "ab" occurs three times: ab ab ab c b. Then "abab", counted twice, merges once: abab ab c b.
    """
    tokens = list("abababcb")
    for _ in range(2):
        counts = Counter(zip(tokens, tokens[1:]))
        left, right = min(counts, key=lambda pair: (-counts[pair], pair))
        merged = []
        for token in tokens:
            if merged and (merged[-1], token) == (left, right):  # a merged text equals neither part: no overlap
                merged[-1] += token
            else:
                merged.append(token)
        tokens = merged
    answer("tokens_left").equals(len(tokens), rel=0.01)


@pytest.mark.kata("level00.worksheet.first_weight")
def test_softmax_sees_differences_only(answer):
    """exp overflows float32 near 89, so a server could not compute this one without the shift.

    Shifted by 102 the scores are 0, -1, -2 and -inf, and exp(-inf) = 0.
    """
    powers = [exp(score - 102) for score in (102, 101, 100, float("-inf"))]
    answer("first_weight").equals(powers[0] / sum(powers), rel=0.01)


@pytest.mark.kata("level00.worksheet.normed_feature")
def test_rms_norm_divides_by_the_root_of_the_mean_square(answer):
    """(4 + 1 + 16 + 4) / 4 = 6.25, the root is 2.5, and 4 / 2.5 = 1.6."""
    x = [2, -1, 4, 2]
    answer("normed_feature").equals(x[2] / (sum(value * value for value in x) / len(x)) ** 0.5, rel=0.01)


@pytest.mark.kata("level00.worksheet.plane_angle")
def test_a_rope_plane_turns_in_proportion_to_the_position(answer):
    """theta^(-2 · 16 / 64) = 100000^(-1/2) = 0.0031623 radians a token, times 1000."""
    per_token = SMOLLM2.rope_theta ** (-2 * 16 / SMOLLM2.head_dim)
    answer("plane_angle").equals(1000 * per_token, rel=0.01)


@pytest.mark.kata("level00.worksheet.attended_weight")
def test_scores_are_divided_by_the_root_of_head_dim(answer):
    """16 / 8 and 8 / 8 are the scores; softmax of two depends on their difference: 1 / (1 + e^-1)."""
    difference = (16 - 8) / SMOLLM2.head_dim**0.5
    answer("attended_weight").equals(1 / (1 + exp(-difference)), rel=0.01)


@pytest.mark.kata("level00.worksheet.layer_megabytes")
def test_the_bytes_of_one_layer(answer):
    """What a decoded token reads of each layer.

    Q and O 2 · 576 · 576 = 663,552, K and V 2 · 576 · 192 = 221,184, MLP 3 · 576 · 1536 = 2,654,208; 2 bytes each.
    """
    answer("layer_megabytes").equals(2 * MATRICES_OF_A_LAYER / 1e6, rel=0.01)


@pytest.mark.kata("level00.worksheet.token_megaflops")
def test_the_flops_of_one_token(answer):
    """Matrices 2 · (30 · 3,538,944 + 49,152 · 576) = 268.96 M, scores 69,120 · 2048 = 141.56 M."""
    answer("token_megaflops").equals((MATRIX_FLOPS + SCORE_FLOPS_PER_CONTEXT_TOKEN * 2048) / 1e6, rel=0.01)


@pytest.mark.kata("level00.worksheet.even_context")
def test_where_the_scores_cost_as_much_as_the_matrices(answer):
    """Beyond it attention, not the weights, decides the arithmetic of a prefill: 268,959,744 / 69,120."""
    answer("even_context").equals(MATRIX_FLOPS / SCORE_FLOPS_PER_CONTEXT_TOKEN, rel=0.01)
