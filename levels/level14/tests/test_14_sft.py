"""Judges sft.py by torch's cross_entropy on shifted labels, by values on paper, and by the softmax's gradient."""

import math

import pytest
import torch
import torch.nn.functional as F

from level14.sft import loss_mask, sft_loss, shifted_logprobs

T = torch.tensor
PAPER = T([[[0.5, 0.5], [0.2, 0.8], [0.6, 0.4], [0.9, 0.1]]]).log()  # probabilities after each of four tokens
FLOAT32 = {"rel": 1e-5, "abs": 1e-5}


def draw(*shape, seed=0, dtype=torch.float32):
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def drawn_ids(*shape, vocab=11, seed=1):
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def scored(logits, ids):
    """Oracle: torch's cross entropy of each token behind the first, with 0 before it."""
    lost = F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    return F.pad(-lost, (1, 0))


def right_loss(logits, ids, mask):
    """Oracle: torch's cross entropy, labels of -100 where nothing is learned."""
    labels = ids.masked_fill(~mask, -100)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100)


def rows(*rows):
    return T([[bool(x) for x in row] for row in rows])


# ---- shifted_logprobs


@pytest.mark.kata("level14.sft.shifted_logprobs")
def test_a_token_is_scored_by_the_logits_before_it(expect):
    """On paper: after the first token 1 has .5, then 1 has .8, then 0 has .6. What follows the last is not asked."""
    right = T([[0.0, math.log(0.5), math.log(0.8), math.log(0.6)]])
    expect(shifted_logprobs, PAPER, T([[0, 1, 1, 0]])).equals(right, **FLOAT32)
    expect(shifted_logprobs, PAPER[:, :1], T([[1]])).equals(T([[0.0]]))
    expect(shifted_logprobs, PAPER[:, :2], T([[1, 0]])).equals(T([[0.0, math.log(0.5)]]), **FLOAT32)


@pytest.mark.kata("level14.sft.shifted_logprobs")
@pytest.mark.parametrize("B, S, V", [(3, 7, 11), (4, 2, 5), (1, 5, 3)])
def test_each_row_has_its_own_tokens(expect, B, S, V):
    """All sizes differ. Oracle: torch's cross entropy. A policy's log-probabilities are its gradient's only source."""
    logits, ids = draw(B, S, V), drawn_ids(B, S, vocab=V)
    expect(shifted_logprobs, logits, ids).equals(scored(logits, ids), **FLOAT32)


@pytest.mark.kata("level14.sft.shifted_logprobs")
def test_nobody_reads_the_last_logits(expect):
    """They predict a token that is not there, and may be anything. Nor does the first token's id count."""
    logits, ids = draw(2, 4, 11), drawn_ids(2, 4)
    right = scored(logits, ids)
    spoiled = logits.clone()
    spoiled[:, -1] = torch.nan
    expect(shifted_logprobs, spoiled, ids).equals(right, **FLOAT32)
    expect(shifted_logprobs, logits, (ids + T([5, 0, 0, 0])) % 11).equals(right, **FLOAT32)


@pytest.mark.kata("level14.sft.shifted_logprobs")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_they_are_float32_whatever_the_logits(expect, dtype):
    """bfloat16 has three digits: ratios of probabilities rounded so are off by percents. The logits are rounded, the
    softmax is not: 1e-5 in float32."""
    logits, ids = draw(2, 5, 11, dtype=dtype), drawn_ids(2, 5)
    expect(shifted_logprobs, logits, ids).equals(scored(logits.double(), ids).float(), **FLOAT32)


@pytest.mark.kata("level14.sft.shifted_logprobs")
def test_an_unlikely_token_has_a_finite_logarithm(expect):
    """e^-200 is 0 in float32, and its logarithm -200. exp(300) is infinite. One such token must not end a run."""
    logits = T([[[300.0, 100.0, 0.0], [-300.0, -300.0, -500.0], [0.0, 0.0, 0.0]]])
    right = T([[0.0, -200.0, -200.0 - math.log(2)]])
    expect(shifted_logprobs, logits, T([[0, 1, 2]])).equals(right, **FLOAT32)


def gradient_of_logprobs(logits, ids, weights):
    logits = logits.clone().requires_grad_()
    (shifted_logprobs(logits, ids) * weights).sum().backward()
    return logits.grad


@pytest.mark.kata("level14.sft.shifted_logprobs")
def test_the_gradient_is_the_choice_minus_the_softmax(expect):
    """One-hot minus probabilities, at the position before; nothing at the last. Cut off from the logits, nothing would
    learn, and no error would say so."""
    logits, ids, weights = draw(2, 4, 5), drawn_ids(2, 4, vocab=5), draw(2, 4, seed=3)
    one_hot = F.one_hot(ids[:, 1:], 5) - logits[:, :-1].softmax(-1)
    right = F.pad(one_hot * weights[:, 1:, None], (0, 0, 0, 1))
    expect(gradient_of_logprobs, logits, ids, weights).equals(right, **FLOAT32)


# ---- loss_mask

CHAT = [("system", [9]), ("user", [1, 2]), ("assistant", [3, 7]), ("user", [4]), ("assistant", [5, 6, 7])]


@pytest.mark.kata("level14.sft.sft_loss")
def test_every_answer_is_learned_and_its_end(expect):
    """Without a loss on the end token the tuned model never stops; with one on the questions it learns to ask them.
    All answers teach, not only the last."""
    right = T([9, 1, 2, 3, 7, 4, 5, 6, 7]), rows([0, 0, 0, 1, 1, 0, 1, 1, 1])[0]
    expect(loss_mask, CHAT).equals(right)


@pytest.mark.kata("level14.sft.sft_loss")
@pytest.mark.parametrize(
    "segments, ids, mask",
    [
        ([("user", [1])], [1], [0]),
        ([("assistant", [4])], [4], [1]),
        ([("assistant", [3, 7]), ("user", [3, 7])], [3, 7, 3, 7], [1, 1, 0, 0]),
        ([("user", [1, 2]), ("assistant", [7]), ("system", [8, 8])], [1, 2, 7, 8, 8], [0, 0, 1, 0, 0]),
        ([("user", []), ("assistant", [5]), ("assistant", [6])], [5, 6], [1, 1]),
        ([("user", (7, 7)), ("assistant", (7, 7))], [7, 7, 7, 7], [0, 0, 1, 1]),
    ],
    ids=str,
)
def test_a_turn_is_learned_by_its_role(expect, segments, ids, mask):
    """Not by its place, and not by its tokens: the same ones may stand in a question."""
    expect(loss_mask, segments).equals((T(ids), rows(mask)[0]))


@pytest.mark.kata("level14.sft.sft_loss")
def test_no_turn_is_no_token(expect):
    """An empty conversation still has ids (int64) and a mask (bool): torch.tensor([]) is float."""
    expect(loss_mask, []).equals((torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool)))
    expect(loss_mask, [("tool", [1])]).raises(ValueError)


# ---- sft_loss


def loss_of(logits, ids, mask, *rest):
    """The number alone: how many digits a scalar has is not the question here."""
    return sft_loss(logits, ids, mask, *rest).item()


@pytest.mark.kata("level14.sft.sft_loss")
def test_one_mean_over_all_learned_tokens(expect):
    """Rows with 2 learned tokens and 1: -(ln .5 + ln .8 + ln .5) / 3 = .5364. A mean of each row's mean is .5756: the
    tokens of short answers would count more, a bug that several trainers had for years."""
    logits = torch.cat([PAPER, PAPER])
    ids, mask = T([[0, 1, 1, 0], [0, 1, 1, 0]]), rows([0, 1, 1, 0], [0, 1, 0, 0])
    expect(loss_of, logits, ids, mask).equals(-math.log(0.5 * 0.8 * 0.5) / 3, **FLOAT32)


@pytest.mark.kata("level14.sft.sft_loss")
def test_the_mask_names_tokens_not_logits(expect):
    """Prompt p0 p1, answer c0 c1: c0 is scored by the logits of p1, c1 by those of c0. Shifted twice, or not at all,
    the mask would teach half of the prompt, or leave out the first token of every answer."""
    ids = T([[0, 1, 1, 0]])
    expect(loss_of, PAPER, ids, rows([0, 0, 1, 1])).equals(-math.log(0.8 * 0.6) / 2, **FLOAT32)
    expect(loss_of, PAPER, ids, rows([0, 0, 1, 0])).equals(-math.log(0.8), **FLOAT32)
    expect(loss_of, PAPER, ids, rows([0, 0, 0, 1])).equals(-math.log(0.6), **FLOAT32)


@pytest.mark.kata("level14.sft.sft_loss")
def test_the_first_column_never_counts(expect):
    """Nothing predicts it. Counted with a loss of 0, it would make the mean smaller: ln 2 / 2."""
    ids = T([[0, 1, 1, 0]])
    expect(loss_of, PAPER, ids, rows([1, 1, 0, 0])).equals(math.log(2), **FLOAT32)
    expect(loss_of, PAPER, ids, rows([1, 1, 0, 0]), 4).equals(math.log(2) / 4, **FLOAT32)
    expect(loss_of, PAPER, ids, rows([1, 0, 0, 0])).raises(ValueError)


@pytest.mark.kata("level14.sft.sft_loss")
def test_it_is_the_cross_entropy_with_ignored_labels(expect):
    """3 rows of 7, learned here and there, one row nowhere. Oracle: torch's cross entropy, labels of -100."""
    logits, ids = draw(3, 7, 11), drawn_ids(3, 7)
    mask = rows([0, 1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0])
    expect(loss_of, logits, ids, mask).equals(right_loss(logits, ids, mask).item(), **FLOAT32)


@pytest.mark.kata("level14.sft.sft_loss")
def test_parts_of_a_batch_add_up_to_it(expect):
    """Gradient accumulation: each part divided by the learned tokens of all, 6. One of the three parts has none."""
    logits, ids = draw(3, 5, 11), drawn_ids(3, 5)
    mask = rows([0, 1, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1])
    whole = -(scored(logits, ids) * mask).sum(1) / 6
    for i in range(3):
        part = logits[i : i + 1], ids[i : i + 1], mask[i : i + 1]
        expect(loss_of, *part, 6).equals(whole[i].item(), **FLOAT32)
    expect(loss_of, logits, ids, mask, 6).equals(whole.sum().item(), **FLOAT32)
    expect(loss_of, logits, ids, mask, 12).equals(whole.sum().item() / 2, **FLOAT32)
    expect(loss_of, logits, ids, mask, 2).equals(whole.sum().item() * 3, **FLOAT32)


@pytest.mark.kata("level14.sft.sft_loss")
def test_what_is_not_learned_is_not_read(expect):
    """A prompt's token may be impossible (-inf) or padding may be NaN: times 0, either is NaN."""
    logits, ids, mask = draw(2, 5, 11), drawn_ids(2, 5), rows([0, 0, 1, 1, 0], [0, 0, 0, 1, 1])
    right = right_loss(logits, ids, mask).item()
    logits[0, 3:], logits[1, 0] = torch.nan, torch.nan
    logits[1, 1, ids[1, 2]] = -torch.inf
    expect(loss_of, logits, ids, mask).equals(right, **FLOAT32)


@pytest.mark.kata("level14.sft.sft_loss")
def test_what_is_learned_is_not_hidden(expect):
    """An impossible token to be learned is an infinite loss, and NaN stays NaN: turned into 0, either would go on as if
    nothing had happened."""
    logits, ids, mask = draw(2, 3, 11), drawn_ids(2, 3), rows([0, 1, 1], [0, 0, 1])
    logits[1, 1, ids[1, 2]] = -torch.inf
    expect(loss_of, logits, ids, mask).equals(math.inf)
    logits[0, 0] = torch.nan
    expect(loss_of, logits, ids, mask).equals(math.nan)


def gradient_of_loss(logits, ids, mask, *rest):
    logits = logits.clone().requires_grad_()
    sft_loss(logits, ids, mask, *rest).backward()
    return logits.grad


@pytest.mark.kata("level14.sft.sft_loss")
@pytest.mark.parametrize("num_tokens", [None, 8])
def test_the_gradient_touches_only_what_predicts_a_learned_token(expect, num_tokens):
    """Softmax minus one-hot, over the number of learned tokens, here 4, or what is given. One logit is -inf: its
    gradient is 0, and its neighbours' are not NaN."""
    logits, ids, mask = draw(2, 4, 5), drawn_ids(2, 4, vocab=5), rows([1, 0, 1, 1], [0, 1, 0, 1])
    logits[0, 0, ids[0, 1]] = -torch.inf  # of a token that is not learned
    errors = (logits[:, :-1].softmax(-1) - F.one_hot(ids[:, 1:], 5)) * mask[:, 1:, None] / (num_tokens or 4)
    expect(gradient_of_loss, logits, ids, mask, num_tokens).equals(F.pad(errors, (0, 0, 0, 1)), **FLOAT32)
