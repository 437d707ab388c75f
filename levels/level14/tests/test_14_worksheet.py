"""The worksheet of level 14: right values by counting matrices, steps and tokens one by one, and by a slow search."""

from math import exp, log
from statistics import mean, stdev

import pytest

LAYERS, WIDTH, MLP, KV_HEADS, HEAD_DIM, PARAMETERS, LINEAR = 28, 3584, 18944, 4, 128, 7.616e9, 6.525e9  # Qwen2.5-7B
BANDWIDTH, PEAK = 2039e9, 312e12  # of an A100


@pytest.mark.kata("level14.worksheet.loss")
def test_all_learned_tokens_share_one_mean(answer):
    """Else tokens of short answers weigh more. Oracle: the probability of all five, and its fifth root."""
    product = 1.0
    for probability in (0.9, 0.5, 0.6, 0.8, 0.25):
        product *= probability
    answer("loss").equals(-log(product ** (1 / 5)), rel=0.01)


@pytest.mark.kata("level14.worksheet.filled_percent")
def test_longest_first_into_the_first_row_with_room(answer):
    """What a padded batch would waste. Oracle: rows are filled one example after the other."""
    rows = []
    for length in sorted((800, 500, 1100, 300, 900, 400, 1300), reverse=True):
        for row in rows:
            if sum(row) + length <= 2000:
                row.append(length)
                break
        else:
            rows.append([length])
    answer("filled_percent").equals(100 * mean(sum(row) / 2000 for row in rows), rel=0.01)


@pytest.mark.kata("level14.worksheet.num_trainable")
def test_an_adapter_has_two_thin_matrices(answer):
    """They are all that gets gradients. Oracle: a row of A and a column of B for each rank, layer and matrix."""
    numbers = 0
    for _ in range(LAYERS):
        for out in (28 * HEAD_DIM, KV_HEADS * HEAD_DIM):
            for _ in range(12):
                numbers += WIDTH  # a row of A
                numbers += out  # a column of B
    answer("num_trainable").equals(numbers, rel=0.01)


@pytest.mark.kata("level14.worksheet.tuning_gb")
def test_frozen_weights_shrink_and_adapters_have_an_optimizer(answer):
    """Whether it fits a card. Oracle: bits of a block of blocks, divided by its weights; then each kind of number."""
    codes, scales, second_scale = 32 * 128 * 4, 128 * 8, 32  # of 128 blocks
    frozen = LINEAR * (codes + scales + second_scale) / (32 * 128) / 8
    adapter = sum({"weight": 2, "gradient": 2, "moments": 4 + 4, "float32 copy": 4}.values())
    answer("tuning_gb").equals((frozen + (PARAMETERS - LINEAR) * 2 + 161.5e6 * adapter) / 1e9, rel=0.01)


@pytest.mark.kata("level14.worksheet.preference_loss")
def test_both_log_ratios_count(answer):
    """The sign decides what is learned. Oracle: the probability that the chosen one wins, by odds."""
    odds = (exp(-31.5) / exp(-33.5)) ** 0.3 / (exp(-24) / exp(-22.5)) ** 0.3
    answer("preference_loss").equals(-log(odds / (1 + odds)), rel=0.01)


@pytest.mark.kata("level14.worksheet.advantage")
def test_a_missing_reward_is_no_reward_of_zero(answer):
    """A task that could not be judged must not push the others up. Oracle: the standard library's statistics."""
    rewards = [3, 1, 0, 0]
    answer("advantage").equals((rewards[0] - mean(rewards)) / stdev(rewards), rel=0.01)


@pytest.mark.kata("level14.worksheet.objective")
def test_a_token_is_clipped_and_pays_for_leaving_the_reference(answer):
    """One wrong direction, and the penalty rewards. Oracle: ratios of the probabilities themselves."""
    ratio, back = 0.35 / 0.2, 0.7 / 0.35
    gain = min(ratio * 0.8, sorted((1 - 0.2, ratio, 1 + 0.28))[1] * 0.8)
    answer("objective").equals(gain - 0.4 * (back - 1 - log(back)), rel=0.01)


@pytest.mark.kata("level14.worksheet.decode_percent")
def test_a_step_of_learning_waits_for_its_answers(answer):
    """Where the time of training goes. Oracle: the decode steps themselves."""
    read = 0
    for new in range(768):
        read += 2 * PARAMETERS
        read += 32 * (512 + new) * sum(HEAD_DIM * KV_HEADS * 2 * LAYERS for _ in "kv")
    decoding = read / BANDWIDTH
    forward = 32 * (512 + 768) * 2 * PARAMETERS / (0.35 * PEAK)
    learning = forward + 2 * forward  # and backward
    answer("decode_percent").equals(100 * decoding / (decoding + learning), rel=0.01)
