"""Learning from pairs: an answer that was preferred, and one that was not. No reward model, and no sampling.

Letters in the shapes: B rows, S tokens.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import logsigmoid

from dojo.models import Config
from level00.transformer import Params, forward
from level02.padding import padded_mask, padded_positions

from .sft import shifted_logprobs


def padded_logprobs(
    params: Params,
    config: Config,
    ids: Tensor,
    valid: Tensor,
    temperature: float = 1.0,
    *,
    forward: Callable = forward,
) -> Tensor:
    """Return the `shifted_logprobs` (B, S) of rows of different lengths, each as if it stood alone.

    ids, valid   (B, S), as level 02's left_pad gives them: valid is True at real tokens. Padding may also stand behind
    temperature  logits are divided by it first: that of the rollout, if the tokens come from one

    Padding, and the first real token of each row, which nothing predicts, get 0. One call of
    `forward(params, config, ids, positions=, mask=)`, with level 02's padded_positions and padded_mask.
    Example: [pad, 4, 9] -> 0, 0, and ln of the probability of 9 after 4 alone.

    ● · about 5 lines · part of dpo_loss
    """
    # solution:begin where does each token stand, whom does it see, and for which tokens is there a prediction?
    positions, mask = padded_positions(valid), padded_mask(valid, valid.shape[1])
    logprobs = shifted_logprobs(forward(params, config, ids, positions=positions, mask=mask) / temperature, ids)
    predicted = valid.clone()
    predicted[:, 1:] &= valid[:, :-1]
    return logprobs.masked_fill(~predicted, 0)
    # solution:end


def sequence_logprob(logprobs: Tensor, mask: Tensor) -> Tensor:
    """Return ln of the probability of each row's answer, (B,).

    logprobs  (B, S) as from shifted_logprobs;  mask  (B, S) bool, True at the tokens of the answer, its end included.
    What stands elsewhere, at the prompt and the padding, does not matter, NaN or not

    A sum and no mean: the longer of two answers is the less likely one, in policy and reference alike.
    Example: ln .5, ln .8, ln .6 with mask 0, 1, 1 -> ln .48.

    ● · about 1 line · part of dpo_loss
    """
    # solution:begin the probability of a sequence is a product
    return logprobs.masked_fill(~mask, 0).sum(1)
    # solution:end


def dpo_loss(
    chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (loss, chosen reward, rejected reward): a scalar and two (B,), the rewards without gradient.

    chosen, rejected          (B,) log-probabilities of the answers, by the model that learns
    ref_chosen, ref_rejected  (B,) the same by the model that it started from: constants

    reward = beta · (log-probability - that of the reference), and loss = the mean of -ln sigmoid(chosen reward -
    rejected reward). Finite, however far apart the rewards are.
    Example: -5, -9, reference -6, -8, beta 0.1: rewards 0.1 and -0.1, loss -ln sigmoid(0.2) = 0.5981. At the start,
    where model and reference are the same: ln 2.
    ValueError: beta 0 or below. arXiv 2305.18290.

    ● · about 3 lines · needs level14.sft.shifted_logprobs
    """
    if beta <= 0:
        raise ValueError(f"beta says how far the model may leave its reference, so it is above 0, not {beta}")
    # solution:begin which of four log-probabilities are constants? in what form is ln sigmoid finite?
    reward = beta * (chosen - ref_chosen.detach())
    rejected_reward = beta * (rejected - ref_rejected.detach())
    return -logsigmoid(reward - rejected_reward).mean(), reward.detach(), rejected_reward.detach()
    # solution:end
