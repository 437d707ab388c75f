"""Right programs, written another way, for level14.sft. `alternative` is given when this is read."""

import torch
import torch.nn.functional as F

_LOGPROBS = "level14.sft.shifted_logprobs"
_LOSS = "level14.sft.sft_loss"


def _guarded(logits, ids):
    if ids.dim() != 2 or logits.shape[:-1] != ids.shape:
        raise ValueError("ids")


def _cross_entropy(logits, ids):
    _guarded(logits, ids)
    lost = F.cross_entropy(logits[:, :-1].float().transpose(1, 2), ids[:, 1:], reduction="none")
    return F.pad(-lost, (1, 0))


def _chosen_minus_logsumexp(logits, ids):
    _guarded(logits, ids)
    before = logits[:, :-1].double()
    chosen = torch.take_along_dim(before, ids[:, 1:, None], 2)[..., 0]
    return torch.cat([torch.zeros(len(ids), 1), (chosen - before.logsumexp(2)).float()], dim=1)


def _row_by_row(logits, ids):
    _guarded(logits, ids)
    rows = []
    for scores, row in zip(logits, ids.tolist()):
        logs = scores.float().log_softmax(-1)
        rows.append(torch.stack([torch.zeros(()), *(logs[t - 1, row[t]] for t in range(1, len(row)))]))
    return torch.stack(rows)


def _rolled(logits, ids):
    """Every position is scored, with the next token; the last one's number is thrown away."""
    _guarded(logits, ids)
    logs = logits.float().log_softmax(-1).gather(2, ids.roll(-1, 1).unsqueeze(2)).squeeze(2)
    first = torch.arange(ids.shape[1], device=ids.device) == 0
    return logs.roll(1, 1).masked_fill(first, 0)


alternative(_LOGPROBS, "cross_entropy", program=_cross_entropy)
alternative(_LOGPROBS, "chosen_minus_logsumexp", program=_chosen_minus_logsumexp)
alternative(_LOGPROBS, "row_by_row", program=_row_by_row)
alternative(_LOGPROBS, "rolled", program=_rolled)

# ---- loss_mask


def _turn_by_turn(segments):
    ids, mask = [torch.zeros(0, dtype=torch.int64)], [torch.zeros(0, dtype=torch.bool)]
    for role, tokens in segments:
        if role not in ("system", "user", "assistant"):
            raise ValueError(role)
        ids.append(torch.tensor(list(tokens), dtype=torch.int64))
        mask.append(torch.full((len(tokens),), role == "assistant"))
    return torch.cat(ids), torch.cat(mask)


alternative(_LOSS, "turn_by_turn", program=_turn_by_turn, part="loss_mask")

# ---- sft_loss


def _checked(mask, num_tokens):
    if num_tokens is None and not mask[:, 1:].any():
        raise ValueError("mask")
    if num_tokens is not None and num_tokens < 1:
        raise ValueError("num_tokens")


def _ignored_labels(logits, ids, mask, num_tokens=None):
    _checked(mask, num_tokens)
    labels = ids.where(mask, -100)[:, 1:].flatten()
    total = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels, ignore_index=-100, reduction="sum")
    return total / (num_tokens or (labels != -100).sum())


def _picked(logits, ids, mask, num_tokens=None):
    """Only what is learned is looked at, so a batch of long prompts costs little."""
    _checked(mask, num_tokens)
    learned = mask[:, 1:]
    logs = logits[:, :-1][learned].float().log_softmax(-1)
    return -logs.gather(1, ids[:, 1:][learned].unsqueeze(1)).sum() / (num_tokens or len(logs))


def _by_hand(logits, ids, mask, num_tokens=None):
    _checked(mask, num_tokens)
    pairs = [(row, t) for row, t in mask.nonzero().tolist() if t]
    lost = [logits[row, t - 1].double().logsumexp(0) - logits[row, t - 1, ids[row, t]] for row, t in pairs]
    return sum(lost, logits.sum() * 0 if not lost else 0) / (len(lost) if num_tokens is None else num_tokens)


alternative(_LOSS, "ignored_labels", program=_ignored_labels)
alternative(_LOSS, "picked", program=_picked)
alternative(_LOSS, "by_hand", program=_by_hand)
