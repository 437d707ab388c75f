"""Right programs, written another way, for level14.rollout. `alternative` is given when this is read."""

from dataclasses import replace

import torch

from level00.transformer import forward as _forward
from level01.generate import allowed_tokens
from level01.simple_cache import SimpleCache
from level02.cache import KVCache
from level03.drawing import inverse_cdf
from level03.sampler import choose_tokens, process, uniform

_ROLLOUT = "level14.rollout.rollout"


def _limit(config, prompt, group, sampling):
    if group < 1 or sampling.temperature <= 0:
        raise ValueError("group or temperature")
    return allowed_tokens(config, prompt, sampling.max_tokens)


class _Shared:
    """A cache whose rows have the prompt in common, which is kept once."""

    def __init__(self, prompt, group):
        self.prompt, self.group, self.own = prompt, group, {}

    @property
    def length(self):
        held = self.own[max(self.own)][0].shape[2] if len(self.own) == len(self.prompt) else 0
        return self.prompt[0][0].shape[2] + held

    def update(self, layer, k, v):
        before = self.own.get(layer)
        self.own[layer] = (k, v) if before is None else (torch.cat([before[0], k], 2), torch.cat([before[1], v], 2))
        shared = (part.expand(self.group, -1, -1, -1) for part in self.prompt[layer])
        return tuple(torch.cat([own, new], 2) for own, new in zip(shared, self.own[layer]))


@torch.no_grad()
def _prompt_kept_once(params, config, prompt, group, sampling, stop_ids=(), *, forward=_forward):
    from level14.rollout import Answer

    limit = _limit(config, prompt, group, sampling)
    answers = [Answer([], []) for _ in range(group)]
    if limit == 0:
        return answers
    first = SimpleCache(config.n_layers)
    logits = forward(params, config, torch.tensor([list(prompt)]), first)[0, -1].repeat(group, 1)
    none = torch.empty(1, config.n_kv_heads, 0, config.head_dim, dtype=params["model.embed_tokens.weight"].dtype)
    cache = _Shared([first.update(layer, none, none) for layer in range(config.n_layers)], group)
    going = [True] * group
    own = [replace(sampling, seed=None if sampling.seed is None else sampling.seed + i) for i in range(group)]
    while True:
        histories = [list(prompt)] * group, [list(answer.tokens) for answer in answers]
        fed = []
        for i, answer in enumerate(answers):
            if not going[i]:
                fed.append(0)
                continue
            scores = process(logits[i : i + 1], own[i], [histories[0][i]], [histories[1][i]]).double()
            u = torch.tensor([uniform(own[i].seed, len(answer.tokens))], dtype=torch.float64)
            token = int(inverse_cdf(scores.softmax(-1), u))
            answer.tokens.append(token)
            answer.logprobs.append(float(scores[0, token] - scores[0].logsumexp(0)))
            going[i] = token not in stop_ids and len(answer.tokens) < limit
            fed.append(token)
        if not any(going):
            return answers
        logits = forward(params, config, torch.tensor(fed)[:, None], cache)[:, -1]


@torch.no_grad()
def _written_into_every_row(params, config, prompt, group, sampling, stop_ids=(), *, forward=_forward):
    """One cache, of a prompt that is run once: a wrapper writes its single row into all rows. Drawn by choose_tokens."""
    from level14.rollout import Answer

    limit = _limit(config, prompt, group, sampling)
    tokens, logprobs = [[] for _ in range(group)], [[] for _ in range(group)]
    if limit:
        cache = KVCache(config, group, len(prompt) + limit - 1 or 1, params["model.norm.weight"].dtype)

        class Spread:
            length = 0

            def update(self, layer, k, v):
                wide = cache.update(layer, k.repeat(group, 1, 1, 1), v.repeat(group, 1, 1, 1))
                return tuple(part[:1] for part in wide)

        logits = forward(params, config, torch.tensor([[*prompt]]), Spread())[:, -1].expand(group, -1)
    ended = [not limit] * group
    seeds = [None if sampling.seed is None else i + sampling.seed for i in range(group)]
    while not all(ended):
        prompts = [list(prompt) for _ in range(group)]
        if sampling.seed is None:
            drawn = choose_tokens(logits, prompts, tokens, [sampling] * group)
        else:  # a row that has ended is drawn for too; nobody looks at it
            drawn = choose_tokens(logits, prompts, tokens, [replace(sampling, seed=seed) for seed in seeds])
        logs = process(logits, sampling, prompts, tokens).float().log_softmax(-1)
        for i, token in enumerate(drawn.tolist()):
            if not ended[i]:
                logprobs[i].append(logs[i, token].item())
                tokens[i] = [*tokens[i], token]
                ended[i] = len(tokens[i]) == limit or token in stop_ids
        if not all(ended):
            logits = forward(params, config, drawn.view(group, 1), cache).squeeze(1)
    return list(map(Answer, tokens, logprobs))


alternative(_ROLLOUT, "prompt_kept_once", program=_prompt_kept_once)
alternative(_ROLLOUT, "written_into_every_row", program=_written_into_every_row)

# ---- answer_mask


def _first_end(tokens, stop_id):
    width = tokens.shape[1]
    places = torch.arange(width).expand_as(tokens)
    ends = places.masked_fill(tokens != stop_id, width)
    return places <= ends.amin(1, keepdim=True) if width else tokens.bool()


def _in_lists(tokens, stop_id):
    rows = [[stop_id not in row[:t] for t in range(len(row))] for row in tokens.tolist()]
    return torch.tensor(rows, dtype=torch.bool).view(tokens.shape)


def _products(tokens, stop_id):
    """1 as long as nothing before it has ended."""
    going = (tokens != stop_id).long()
    return torch.nn.functional.pad(going, (1, 0), value=1).cumprod(1)[:, : tokens.shape[1]].bool()


alternative(_ROLLOUT, "first_end", program=_first_end, part="answer_mask")
alternative(_ROLLOUT, "in_lists", program=_in_lists, part="answer_mask")
alternative(_ROLLOUT, "products", program=_products, part="answer_mask")

# ---- rollout_share


def _step_by_step(prompt, new, group, weight_bytes, kv_bytes_per_token, flops_per_token, hardware, utilization=0.4):
    decode = sum(weight_bytes + group * (prompt + t) * kv_bytes_per_token for t in range(new)) / hardware.bandwidth
    learn = 3 * flops_per_token * group * (prompt + new) / hardware.peak_flops / utilization
    return decode / (decode + learn)


def _as_odds(prompt, new, group, weight_bytes, kv_bytes_per_token, flops_per_token, hardware, utilization=0.4):
    read = new * weight_bytes + kv_bytes_per_token * group * sum(range(prompt, prompt + new))
    if not read:
        return 0.0
    flops = 3 * flops_per_token * group * (prompt + new)
    return 1 / (1 + flops * hardware.bandwidth / (read * utilization * hardware.peak_flops))


alternative(_ROLLOUT, "step_by_step", program=_step_by_step, part="rollout_share")
alternative(_ROLLOUT, "as_odds", program=_as_odds, part="rollout_share")
