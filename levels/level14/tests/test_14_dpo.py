"""Judges dpo.py by rows run alone, by the formula in Python's floats, and by its derivative."""

import math

import pytest
import torch
from torch import tensor
from torch.nn.functional import log_softmax

from dojo.models import Config, random_params
from level00.transformer import forward
from level14.dpo import dpo_loss, padded_logprobs, sequence_logprob

NAN = float("nan")
MODEL = Config(1, 12, 2, 1, 6, 16, 13, max_seq_len=16)
PARAMS = random_params(MODEL)

# ---- the loss


def by_hand(chosen, rejected, ref_chosen, ref_rejected, beta):
    """Oracle: in Python's floats, pair by pair."""
    rewards = [[beta * (x - r) for x, r in zip(*pair)] for pair in ((chosen, ref_chosen), (rejected, ref_rejected))]
    losses = [math.log1p(math.exp(lost - won)) for won, lost in zip(*rewards)]
    return tensor(sum(losses) / len(losses)), tensor(rewards[0]), tensor(rewards[1])


PAIRS = [-5.0, -3.5, -20.0], [-9.0, -2.0, -21.0], [-6.0, -3.0, -19.0], [-8.0, -4.0, -21.5]


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_the_loss_of_a_pair_that_is_in_order_is_0_598(expect):
    """The docstring's example: the margin is 0.1 · (1 + 1). The wrong way round it would be 0.798."""
    args = [tensor([x]) for x in (-5.0, -9.0, -6.0, -8.0)]
    expect(dpo_loss, *args, 0.1).equals((tensor(0.5981389), tensor([0.1]), tensor([-0.1])))


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_at_the_start_the_loss_is_ln_2(expect):
    """Model and reference are the same: no pair is won or lost yet, whatever its answers' probabilities."""
    args = [tensor(x) for x in PAIRS[:2] * 2]
    expect(dpo_loss, *args, 0.3).equals((tensor(math.log(2)), torch.zeros(3), torch.zeros(3)))


@pytest.mark.kata("level14.dpo.dpo_loss")
@pytest.mark.parametrize("beta", [0.05, 0.7])
def test_the_loss_is_the_mean_of_the_pairs_losses(expect, beta):
    """Not the loss of the mean margin: a lost pair weighs more than a won one. Oracle: Python's floats."""
    expect(dpo_loss, *[tensor(x) for x in PAIRS], beta).equals(by_hand(*PAIRS, beta))


def gradients(chosen, rejected, ref_chosen, ref_rejected, beta):
    """Of the loss by each of the four, 0 where none arrives, and whether a reward carries a gradient."""
    args = [x.clone().requires_grad_() for x in (chosen, rejected, ref_chosen, ref_rejected)]
    loss, *rewards = dpo_loss(*args, beta)
    loss.backward()
    found = [torch.zeros_like(x) if x.grad is None else x.grad for x in args]
    return torch.stack(found), any(reward.requires_grad for reward in rewards)


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_the_gradient_is_largest_where_a_pair_is_lost(expect):
    """-beta · sigmoid(-margin) / B for the chosen answer, its opposite for the other; the reference learns nothing."""
    margins = [0.4 * (c - rc - r + rr) for c, r, rc, rr in zip(*PAIRS)]
    slope = tensor([-0.4 / (1 + math.exp(m)) / 3 for m in margins])
    right = torch.stack([slope, -slope, torch.zeros(3), torch.zeros(3)]), False
    expect(gradients, *[tensor(x) for x in PAIRS], 0.4).equals(right)


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_the_loss_is_finite_however_far_apart_the_answers_are(expect):
    """sigmoid(-10000) is 0 in any float, and its logarithm -inf: a single bad pair would end the run."""
    far = tensor([-1e5, 0.0]), tensor([0.0, -1e5]), torch.zeros(2), torch.zeros(2), 0.1
    expect(dpo_loss, *far).equals((tensor(5000.0), tensor([-1e4, 0]), tensor([0, -1e4])))
    expect(gradients, *far).equals((tensor([[-0.05, 0], [0.05, 0], [0, 0], [0, 0]]), False))


@pytest.mark.kata("level14.dpo.dpo_loss")
@pytest.mark.parametrize("beta", [0, -0.1])
def test_a_beta_that_is_not_above_0_is_refused(expect, beta):
    """With 0 nothing is learned, below it the answers are exchanged."""
    expect(dpo_loss, *[torch.zeros(1)] * 4, 1e-3).equals((tensor(math.log(2)), torch.zeros(1), torch.zeros(1)))
    expect(dpo_loss, *[torch.zeros(1)] * 4, beta).raises(ValueError)


# ---- one number for an answer

LOGPROBS = tensor([[0.5, 0.8, 0.6, 0.9], [0.3, 0.7, 0.2, 0.4], [0.1, 0.6, 0.5, 0.8]]).log()
MASK = tensor([[0, 1, 1, 0], [0, 0, 0, 1], [1, 0, 1, 1]]).bool()


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_an_answers_probability_is_the_product_over_its_tokens(expect):
    """The docstring's .8 · .6, and answers of other lengths, one of two turns. A mean would be another method's."""
    expect(sequence_logprob, LOGPROBS, MASK).equals(tensor([0.48, 0.4, 0.04]).log())


@pytest.mark.kata("level14.dpo.dpo_loss")
@pytest.mark.parametrize("other", [NAN, -math.inf, -3.0])
def test_prompt_and_padding_do_not_matter(expect, other):
    """Two pads more on the rejected answer, and the margin must stay: 0 · NaN is NaN, and so is 0 · inf."""
    expect(sequence_logprob, LOGPROBS.masked_fill(~MASK, other), MASK).equals(tensor([0.48, 0.4, 0.04]).log())


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_an_answer_without_tokens_has_probability_1(expect):
    """An empty product. And one with a token that cannot be has probability 0."""
    lost = tensor([[-1.0, -math.inf, -2.0]]), tensor([[False, True, True]])
    expect(sequence_logprob, *lost).equals(tensor([-math.inf]))
    expect(sequence_logprob, torch.full((1, 2), NAN), torch.zeros(1, 2).bool()).equals(tensor([0.0]))


def gradient_of_sequences(logprobs, mask):
    logprobs = logprobs.clone().requires_grad_()
    sequence_logprob(logprobs, mask).sum().backward()
    return logprobs.grad


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_each_token_of_the_answer_learns_equally_and_no_other(expect):
    """A gradient of 1 for each of its tokens, of 0 elsewhere, though there stands NaN."""
    expect(gradient_of_sequences, LOGPROBS.masked_fill(~MASK, NAN), MASK).equals(MASK.float())


# ---- rows of different lengths

ROWS = [[5, 7, 9, 2], [3], [8, 8, 1]]


def padded(left, pad=0):
    """ids and valid of the rows, with padding before or behind, and one column of it for all."""
    pads = [[pad] * (5 - len(row)) for row in ROWS]
    ids = [more + row if left else row + more for row, more in zip(ROWS, pads)]
    real = [[False] * len(more) + [True] * len(row) for row, more in zip(ROWS, pads)]
    return tensor(ids), tensor([row if left else row[::-1] for row in real])


def alone(row, temperature=1.0):
    """Oracle: the row by itself, its log-probabilities picked one by one."""
    logits = forward(PARAMS, MODEL, tensor([row]))[0] / temperature
    return [0.0] + [float(log_softmax(logits[t - 1], -1)[row[t]]) for t in range(1, len(row))]


@pytest.mark.kata("level14.dpo.dpo_loss")
@pytest.mark.parametrize("left, temperature", [(True, 1.0), (False, 1.0), (True, 0.7)], ids=["left", "right", "0.7"])
def test_a_row_has_the_log_probabilities_that_it_has_alone(expect, left, temperature):
    """Without positions and mask a score would depend on how long the longest row is. Oracle: each row alone."""
    ids, valid = padded(left, pad=4)
    right = torch.zeros(3, 5)
    for r, row in enumerate(ROWS):
        right[r, valid[r]] = tensor(alone(row, temperature))
    expect(padded_logprobs, PARAMS, MODEL, ids, valid, temperature).equals(right, abs=1e-5)


def what_is_asked(ids, valid):
    """The calls of `forward`: ids, positions where tokens are real, and what real tokens may see."""
    calls = []

    def recorder(params, config, ids, **given):
        mask = given["mask"].expand(len(ids), 1, ids.shape[1], ids.shape[1])[:, 0]
        calls.append((ids.tolist(), (given["positions"] * valid).tolist(), (mask & valid.unsqueeze(2)).int().tolist()))
        return torch.zeros(*ids.shape, 13)

    return calls, padded_logprobs(PARAMS, MODEL, ids, valid, forward=recorder)


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_one_call_says_where_each_token_stands_and_whom_it_sees(expect):
    """Left padding with default positions is the bug; a call for each row would cost the batch. A 0 is a token here."""
    ids, valid = tensor([[7, 7, 0], [1, 0, 3], [0, 5, 7]]), tensor([[0, 0, 1], [1, 1, 1], [1, 1, 0]]).bool()
    masks = [[[0, 0, 0], [0, 0, 0], [0, 0, 1]], [[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 0], [0, 0, 0]]]
    scored = -math.log(13) * tensor([[0.0, 0, 0], [0, 1, 1], [0, 1, 0]])
    right = [(ids.tolist(), [[0, 0, 0], [0, 1, 2], [0, 1, 0]], masks)], scored
    expect(what_is_asked, ids, valid).equals(right)


def nan_at_padding(ids, valid, value):
    """A model whose logits at padding are `value`, as some kernels give for a query that sees nothing."""
    fake = lambda params, config, ids, **_: torch.full((*ids.shape, 13), value).masked_fill(valid[..., None], 0)  # noqa: E731
    return padded_logprobs(None, None, ids, valid, forward=fake)


@pytest.mark.kata("level14.dpo.dpo_loss")
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_padding_and_first_tokens_get_0_whatever_the_model_says_there(expect, left):
    """The first real token is not predicted by the padding before it, nor is padding by the last real token."""
    ids, valid = padded(left)
    right = torch.zeros(3, 5)
    for r in range(3):
        right[r, valid[r].nonzero()[1:, 0]] = -math.log(13)
    expect(nan_at_padding, ids, valid, NAN).equals(right)


def gradient_of_table(ids, valid, temperature):
    """Of the sum, by a table that is the whole model: logits are the row of the token."""
    table = torch.zeros(13, 13, requires_grad=True)
    look_up = lambda params, config, ids, **_: table[ids]  # noqa: E731
    padded_logprobs(None, None, ids, valid, temperature, forward=look_up).sum().backward()
    return table.grad


@pytest.mark.kata("level14.dpo.dpo_loss")
def test_the_model_learns_through_the_log_probabilities(expect):
    """(1 - p) / temperature for the token that followed, -p / temperature for others; nothing from padding."""
    right = torch.zeros(13, 13)
    for row in ROWS:
        for before, after in zip(row, row[1:]):
            right[before] -= 1 / 13 / 0.5
            right[before, after] += 1 / 0.5
    expect(gradient_of_table, *padded(True, pad=11), 0.5).equals(right)
