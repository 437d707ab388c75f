"""Answers to learn from: decoding, with the cache, for all answers of a group at once.

Letters in the shapes: G answers of a group, V entries of the vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward
from level01.generate import allowed_tokens, prefill
from level02.cache import KVCache
from level03.drawing import inverse_cdf, token_logprobs
from level03.sampler import SamplingParams, process, uniform
from level04.roofline import Hardware


@dataclass
class Answer:
    """The tokens of an answer, and ln of the probability with which each was drawn."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


def repeated(cache, config: Config, group: int, room: int, dtype: torch.dtype) -> KVCache:
    """A KVCache of `group` rows with room for `room` tokens, each row beginning with what `cache` holds. Given."""
    wide, nothing = KVCache(config, group, room, dtype), torch.empty(1, config.n_kv_heads, 0, config.head_dim)
    for layer in range(config.n_layers):
        held = cache.update(layer, nothing, nothing)  # adds nothing, and returns all
        wide.update(layer, *(part.expand(group, -1, -1, -1) for part in held))
    return wide


@torch.no_grad()
def rollout(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    group: int,
    sampling: SamplingParams,
    stop_ids: Collection[int] = (),
    *,
    forward: Callable = forward,
) -> list[Answer]:
    """Return `group` answers to one prompt, with the log-probabilities of their tokens; no gradient is kept.

    An answer ends after sampling.max_tokens tokens, at the model's last position, or after one of stop_ids, which is
    its last token and has a log-probability like the others.

    A token is drawn as level 03's choose_tokens draws it: the logits are processed as `sampling` asks, and u is
    uniform(seed, number of the answer's tokens), where answer i has the seed sampling.seed + i (None: any). The
    log-probability is that of the distribution drawn from: after temperature and filters, not before.
    `forward(params, config, ids, cache)` is called once for the prompt, with (1, n) ids, whatever the group is; then
    once for each further token, with (G, 1) ids, until every answer has ended: no pass is made that no token needs. A
    row that has ended before the others is fed anything.
    Example: prompt of 5, group 4, max_tokens 3, no stop: `forward` is called with (1, 5), (4, 1) and (4, 1) ids.
    ValueError: group below 1, temperature 0, where nothing is drawn; as level 01's allowed_tokens.

    ●●● · about 16 lines
    """
    if group < 1:
        raise ValueError(f"a group has at least one answer, not {group}")
    if sampling.temperature <= 0:
        raise ValueError("answers of a group are drawn, so the temperature is above 0: at 0 they are all the same")
    limit = allowed_tokens(config, prompt, sampling.max_tokens)
    answers, live = [Answer() for _ in range(group)], set(range(group))
    if not limit:
        return answers
    # solution:begin one prefill; then draw for all, append for those that go on, and run all once more
    seeds = [None if sampling.seed is None else sampling.seed + i for i in range(group)]
    dtype = params["model.embed_tokens.weight"].dtype
    own = KVCache(config, 1, len(prompt), dtype)
    logits = prefill(params, config, prompt, own, forward=forward).expand(group, -1)
    cache = repeated(own, config, group, len(prompt) + limit, dtype)
    for step in range(limit):
        scores = process(logits, sampling, [prompt] * group, [answer.tokens for answer in answers])
        u = torch.tensor([uniform(seed, step) for seed in seeds], dtype=torch.float64)
        tokens = inverse_cdf(scores.double().softmax(-1), u)
        # subtle: of the processed scores, since the loss divides by the probability with which a token was drawn
        logprobs = token_logprobs(scores, tokens)
        for i in live:
            answers[i].tokens.append(int(tokens[i]))
            answers[i].logprobs.append(float(logprobs[i]))
        live = {i for i in live if answers[i].tokens[-1] not in stop_ids}
        if not live or step + 1 == limit:
            break
        logits = forward(params, config, tokens.unsqueeze(1), cache)[:, -1]
    return answers
    # solution:end


def answer_mask(tokens: Tensor, stop_id: int) -> Tensor:
    """Return which tokens of a rectangle of answers count, (G, T) bool: all up to the first stop_id, and that one too.

    tokens  (G, T) int64; what follows the first stop_id is padding, which may be stop_id itself

    Example: stop_id 2: [5, 6, 2, 2] -> [1, 1, 1, 0], and [5, 6, 7, 8] -> [1, 1, 1, 1].

    ● · about 2 lines · part of rollout
    """
    # solution:begin how many ends stand before each token?
    ends = (tokens == stop_id).long()
    return ends.cumsum(1) - ends == 0
    # solution:end


def rollout_share(
    prompt: int,
    new: int,
    group: int,
    weight_bytes: float,
    kv_bytes_per_token: float,
    flops_per_token: float,
    hardware: Hardware,
    utilization: float = 0.4,
) -> float:
    """Return the part of a step's seconds that goes into decoding, 0 to 1; the rest goes into learning.

    prompt, new, group  `group` answers of `new` tokens each to a prompt of `prompt` tokens, decoded together
    flops_per_token     of a forward pass

    Decoding is bound by hardware.bandwidth: `new` steps, of which step t = 0, 1, … reads the weights once, and prompt +
    t tokens of every answer's cache. Learning is bound by arithmetic: three forward passes (one, and a backward pass of
    two) over all prompt + new tokens of every answer, at utilization · peak_flops. The prefill is left out.
    Example: prompt 2, new 2, group 1, 10 weight bytes, 1 cache byte a token, 5 FLOPs, 1 byte/s and 60 FLOP/s fully
    used: 25 s and 1 s -> 0.9615.

    ● · about 4 lines · part of rollout
    """
    # solution:begin bytes over bandwidth, FLOPs over what is reached of the peak
    cached_tokens = group * (new * prompt + new * (new - 1) / 2)  # over all steps
    decoding = (new * weight_bytes + kv_bytes_per_token * cached_tokens) / hardware.bandwidth
    learning = 3 * group * (prompt + new) * flops_per_token / (utilization * hardware.peak_flops)
    return decoding / (decoding + learning)
    # solution:end
