"""Steps of training: a loss, its gradient, AdamW; and batches of answers to learn from. Given."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from level02.padding import left_pad

from .rollout import Answer


def adamw(trainable: Mapping[str, Tensor], learning_rate: float) -> torch.optim.AdamW:
    """AdamW without decay: the adapters start at 0 and need nothing that pulls them back there."""
    return torch.optim.AdamW(trainable.values(), lr=learning_rate, weight_decay=0.0)


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    """One step downhill; the value of the loss before it."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def fit(
    loss: Callable[[int], Tensor], trainable: Mapping[str, Tensor], num_steps: int, learning_rate: float
) -> tuple[list[float], torch.optim.AdamW]:
    """(losses, optimizer) of num_steps steps; loss(i) is that of step i, 0, 1, …"""
    optimizer = adamw(trainable, learning_rate)
    return [step(optimizer, loss(i)) for i in range(num_steps)], optimizer


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of what the optimizer keeps: for AdamW two moments of every number that learns, and a counter."""
    return sum(part.nbytes for state in optimizer.state.values() for part in state.values())


def answer_batch(
    prompts: Sequence[Sequence[int]], answers: Sequence[Answer], pad_id: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(ids, valid, mask, logp_old), all (B, S): each prompt with its answer, moved to the right edge.

    mask is True at the answers' tokens, and logp_old holds their log-probabilities there, 0 elsewhere.
    """
    ids, valid = left_pad([[*prompt, *answer.tokens] for prompt, answer in zip(prompts, answers)], pad_id)
    mask, logp_old = torch.zeros_like(valid), torch.zeros(ids.shape)
    for row, answer in enumerate(answers):
        start = ids.shape[1] - len(answer.tokens)
        mask[row, start:] = True
        logp_old[row, start:] = torch.tensor(answer.logprobs)
    return ids, valid, mask, logp_old


def reward_tensor(rewards: Sequence[Sequence[float | None]]) -> Tensor:
    """(P, G) float32 of lists, with NaN for None: no reward is not a reward of 0."""
    return torch.tensor([[torch.nan if reward is None else reward for reward in row] for row in rewards])
