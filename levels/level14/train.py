"""Steps of training: a loss, its gradient, AdamW; and batches of answers to learn from. Given."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from time import process_time

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward
from level02.padding import left_pad
from level03.sampler import SamplingParams

from .dpo import padded_logprobs
from .grpo import group_advantages, grpo_loss
from .rollout import Answer, rollout


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


def grpo_step(
    params: Params,
    config: Config,
    prompts: Sequence[Sequence[int]],
    group: int,
    reward: Callable[[Sequence[int], list[int]], float | None],
    optimizer: torch.optim.Optimizer,
    sampling: SamplingParams,
    stop_ids: Collection[int] = (),
    *,
    forward: Callable = forward,
) -> dict[str, float]:
    """One step: a group of answers to each prompt, reward(prompt, tokens) for each answer, a step of `grpo_loss`.

    Returns {"reward": its mean, "loss", "decode_seconds", "learn_seconds"}, CPU time. sampling has a seed, another one
    for each step, and no filters or penalties: the loss scores tokens by the model's logits / temperature.
    """
    began = process_time()
    seeded = [replace(sampling, seed=sampling.seed + i * group) for i in range(len(prompts))]
    groups = [
        rollout(params, config, prompt, group, own, stop_ids, forward=forward) for prompt, own in zip(prompts, seeded)
    ]
    decoded = process_time()
    rewards = reward_tensor([[reward(p, answer.tokens) for answer in answers] for p, answers in zip(prompts, groups)])
    rows = [(prompt, answer) for prompt, answers in zip(prompts, groups) for answer in answers]
    ids, valid, mask, logp_old = answer_batch(*zip(*rows))
    logp = padded_logprobs(params, config, ids, valid, sampling.temperature, forward=forward)
    loss = step(optimizer, grpo_loss(logp, logp_old, group_advantages(rewards).flatten(), mask))
    seconds = {"decode_seconds": decoded - began, "learn_seconds": process_time() - decoded}
    return {"reward": rewards.nanmean().item(), "loss": loss, **seconds}
