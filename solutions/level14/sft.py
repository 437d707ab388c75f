"""Which token each number belongs to: log-probabilities, the shift, and the mean that a training step lowers.

Letters in the shapes: B rows of a batch, S tokens, V entries of the vocabulary. torch's autograd runs through it all.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from level03.drawing import token_logprobs

ROLES = ("system", "user", "assistant")


def shifted_logprobs(logits: Tensor, ids: Tensor) -> Tensor:
    """Return ln of the probability that each token had, given those before it, (B, S) float32.

    logits  (B, S, V) float of one forward pass over ids;  ids  (B, S) int64

    Column t belongs to ids[:, t], which logits[:, t - 1] predict. Nothing predicts a row's first token: column 0 is 0.
    Example: logits ln of [.5, .5], [.2, .8] and [.9, .1] over ids [0, 1, 1] -> [0, ln .5, ln .8].
    ValueError: ids not (B, S), one for each row of logits.

    ● · about 2 lines
    """
    if ids.dim() != 2 or logits.shape[:-1] != ids.shape:
        raise ValueError(f"one row of logits for each id: {tuple(logits.shape)} do not fit {tuple(ids.shape)}")
    # solution:begin which logits have not seen the token yet?
    scored = token_logprobs(logits[:, :-1], ids[:, 1:])
    return torch.cat([scored.new_zeros(len(ids), 1), scored], 1)
    # solution:end


def loss_mask(segments: Sequence[tuple[str, Sequence[int]]]) -> tuple[Tensor, Tensor]:
    """Return (ids, mask), both (S,): a conversation's tokens, and True for those that the model shall learn to write.

    segments  (role, tokens) in order; the tokens of a turn with the end token that closes it

    Learned is all of every assistant turn, its end token included, and nothing else.
    Example: ("user", [1, 2]), ("assistant", [3, 7]), ("user", [4]) -> [1, 2, 3, 7, 4], mask [0, 0, 1, 1, 0].
    ValueError: a role that is not system, user or assistant.

    ● · about 3 lines · part of sft_loss
    """
    if unknown := [role for role, _ in segments if role not in ROLES]:
        raise ValueError(f"a turn is one of {', '.join(ROLES)}, not {unknown[0]!r}")
    # solution:begin one decision for each turn, as often as it has tokens
    ids = [token for _, tokens in segments for token in tokens]
    mask = [role == "assistant" for role, tokens in segments for _ in tokens]
    return torch.tensor(ids, dtype=torch.long), torch.tensor(mask, dtype=torch.bool)
    # solution:end


def sft_loss(logits: Tensor, ids: Tensor, mask: Tensor, num_tokens: int | None = None) -> Tensor:
    """Return minus the mean log-probability of the masked tokens: one mean over the whole batch, a scalar.

    logits      (B, S, V);  ids  (B, S) int64;  mask  (B, S) bool, True = learned. Column 0 never counts
    num_tokens  divide by this instead: the learned tokens of *all* parts, when a batch is run in parts whose gradients
                are added up

    Example: log-probabilities of the learned tokens ln .5 and ln .8 in one row, ln .4 in another: -ln(.16) / 3 = 0.611.
    ValueError: no learned token behind column 0 (where num_tokens is given, a part without any is 0);
    num_tokens below 1.

    ● · about 3 lines · needs level14.sft.shifted_logprobs
    """
    if num_tokens is None and not mask[:, 1:].any():
        raise ValueError("no token carries a loss: the mask is False behind the first column of every row")
    if num_tokens is not None and num_tokens < 1:
        raise ValueError(f"num_tokens counts the learned tokens of the whole batch, 1 or more, not {num_tokens}")
    # solution:begin the mask belongs to tokens, as the log-probabilities do; divide once
    learned = mask[:, 1:]
    total = shifted_logprobs(logits, ids)[:, 1:].masked_fill(~learned, 0).sum()
    # subtle: a mean for each row, or for each part of the batch, would give the tokens of short answers more weight
    return -total / (learned.sum() if num_tokens is None else num_tokens)
    # solution:end
