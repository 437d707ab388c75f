"""Right programs, written another way, for level11.moe. `alternative` is given when this is read."""

import math

import torch
import torch.nn.functional as F

_ROUTE = "level11.moe.route"
_SIGMOID = "level11.moe.route_sigmoid"
_LOSS = "level11.moe.load_balance_loss"
_FORWARD = "level11.moe.moe_forward"

# ---- route


def _softmax_of_the_chosen(logits, k, renormalize=True):
    """The order of the logits is that of the probabilities, and a softmax over k logits renormalizes."""
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError("k")
    ids = logits.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    wide = logits.double()
    best = wide.gather(-1, ids)
    gates = best.softmax(-1) if renormalize else (best - wide.logsumexp(-1, keepdim=True)).exp()
    return ids, gates.to(logits.dtype)


def _k_times_the_maximum(logits, k, renormalize=True):
    """argmax gives the first of equals; who is taken leaves the field."""
    if k < 1 or k > logits.shape[1]:
        raise ValueError("k")
    probs = F.softmax(logits.float(), dim=1)
    left, ids = probs.clone(), []
    for _ in range(k):
        ids.append(left.argmax(1, keepdim=True))
        left.scatter_(1, ids[-1], -1.0)
    ids = torch.cat(ids, 1)
    gates = torch.take_along_dim(probs, ids, 1)
    return ids, (F.normalize(gates, p=1, dim=1) if renormalize else gates).type_as(logits)


def _in_python(logits, k, renormalize=True):
    if k not in range(1, logits.shape[1] + 1):
        raise ValueError("k")
    ids, gates = [], []
    for row in logits.tolist():
        odds = [math.exp(z - max(row)) for z in row]
        best = sorted(range(len(row)), key=row.__getitem__, reverse=True)[:k]  # sorted is stable, reversed too
        total = math.fsum(odds[e] for e in best) if renormalize else math.fsum(odds)
        ids.append(best)
        gates.append([odds[e] / total for e in best])
    return torch.tensor(ids), torch.tensor(gates, dtype=torch.float64).to(logits.dtype)


def _negated_argsort(logits, k, renormalize=True):
    if not 0 < k <= logits.size(-1):
        raise ValueError("k")
    probs = logits.float().log_softmax(-1).exp()
    ids = (-probs).argsort(dim=-1, stable=True).narrow(1, 0, k)
    gates = probs.gather(1, ids)
    return ids, (gates / gates.sum(1)[:, None] if renormalize else gates).to(logits.dtype)


alternative(_ROUTE, "softmax_of_the_chosen", program=_softmax_of_the_chosen)
alternative(_ROUTE, "k_times_the_maximum", program=_k_times_the_maximum)
alternative(_ROUTE, "in_python", program=_in_python)
alternative(_ROUTE, "negated_argsort", program=_negated_argsort)

# ---- route_sigmoid, adjust_bias


def _as_deepseek_writes_it(logits, bias, k, scale=1.0):
    """With the tiny number in the denominator, and the flag's branch taken."""
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError("k")
    scores = logits.float().sigmoid()
    order = torch.argsort(scores + bias.unsqueeze(0), dim=-1, descending=True, stable=True)
    ids = order[:, :k]
    weights = scores.gather(1, ids)
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20)
    return ids, (weights * scale).to(logits.dtype)


def _row_by_row(logits, bias, k, scale=1.0):
    if k < 1 or k > len(bias):
        raise ValueError("k")
    ids = torch.empty(len(logits), k, dtype=torch.int64)
    gates = torch.empty(len(logits), k, dtype=logits.dtype)
    for t, row in enumerate(logits):
        scores = (1 / (1 + (-row.float()).exp())).tolist()
        keys = (torch.tensor(scores) + bias.float()).tolist()
        best = sorted(range(len(keys)), key=lambda e: (-keys[e], e))[:k]
        total = sum(scores[e] for e in best)
        for j, e in enumerate(best):
            ids[t, j], gates[t, j] = e, scale * scores[e] / total
    return ids, gates


def _masked_scores(logits, bias, k, scale=1.0):
    """All other scores are 0, and all are divided by what is left."""
    if not 1 <= k <= logits.shape[1]:
        raise ValueError("k")
    scores = torch.sigmoid(logits.double())
    ids = (scores + bias).sort(dim=1, descending=True, stable=True)[1][:, :k]
    kept = torch.zeros_like(scores).scatter(1, ids, scores.gather(1, ids))
    return ids, (kept / kept.sum(1, keepdim=True) * scale).gather(1, ids).to(logits.dtype)


def _compared(bias, expert_ids, speed):
    """In integers: load · E beside T · k."""
    loads = F.one_hot(expert_ids, len(bias)).sum((0, 1)) * len(bias)
    mean = expert_ids.numel()
    return torch.where(loads > mean, bias - speed, torch.where(loads < mean, bias + speed, bias))


def _in_a_list(bias, expert_ids, speed):
    choices = expert_ids.flatten().tolist()
    new = []
    for e, b in enumerate(bias.tolist()):
        excess = choices.count(e) * len(bias) - len(choices)
        new.append(b - speed * (excess > 0) + speed * (excess < 0))
    return torch.tensor(new, dtype=bias.dtype)


alternative(_SIGMOID, "as_deepseek_writes_it", program=_as_deepseek_writes_it)
alternative(_SIGMOID, "row_by_row", program=_row_by_row)
alternative(_SIGMOID, "masked_scores", program=_masked_scores)
alternative(_SIGMOID, "adjusted_by_comparison", program=_compared, part="adjust_bias")
alternative(_SIGMOID, "adjusted_in_a_list", program=_in_a_list, part="adjust_bias")

# ---- load_balance_loss


def _one_hot(probs, expert_ids):
    if not len(probs):
        raise ValueError("no tokens")
    hot = F.one_hot(expert_ids, probs.shape[1]).sum(1).to(probs.dtype)  # (T, E): 1 where chosen
    return probs.shape[1] * torch.dot(hot.mean(0) / expert_ids.shape[1], probs.mean(0))


def _looked_up(probs, expert_ids):
    """sum over choices of P of the chosen expert: E / (T k) times it."""
    if len(probs) == 0:
        raise ValueError("no tokens")
    return probs.mean(0)[expert_ids].mean() * probs.shape[1]


def _scattered(probs, expert_ids):
    if probs.numel() == 0:
        raise ValueError("no tokens")
    n_tokens, n_experts = probs.shape
    counts = torch.zeros(n_experts, dtype=probs.dtype)
    counts.scatter_add_(0, expert_ids.reshape(-1), torch.ones(expert_ids.numel(), dtype=probs.dtype))
    loss = probs.new_zeros(())
    for i in range(n_experts):
        loss = loss + counts[i] / (n_tokens * expert_ids.shape[1]) * probs[:, i].sum() / n_tokens
    return n_experts * loss


alternative(_LOSS, "one_hot", program=_one_hot)
alternative(_LOSS, "looked_up", program=_looked_up)
alternative(_LOSS, "scattered", program=_scattered)

# ---- moe_forward


def _sorted_by_expert(x, expert_ids, gates, experts):
    """As the grouped kernels have it: sort, one slice an expert, undo the sort, weigh."""
    flat = expert_ids.flatten()
    order = flat.argsort(stable=True)
    counts = flat.bincount(minlength=len(experts)).tolist()
    parts = (x[order // expert_ids.shape[1]]).split(counts)
    done = [expert(part) for expert, part in zip(experts, parts) if len(part)]
    choices = torch.empty(len(flat), x.shape[1], dtype=x.dtype)
    if done:
        choices[order] = torch.cat(done)
    return (gates.unsqueeze(-1) * choices.view(*expert_ids.shape, x.shape[1])).sum(1)


def _a_place_for_each_choice(x, expert_ids, gates, experts):
    """First all outputs, (T, k, d), then one product for each token."""
    choices = x.new_empty(*expert_ids.shape, x.shape[1])
    for e, expert in enumerate(experts):
        hits = expert_ids == e
        if hits.any():
            choices[hits] = expert(x.unsqueeze(1).expand_as(choices)[hits])
    return torch.einsum("tk,tkd->td", gates, choices)


def _gates_of_all_experts(x, expert_ids, gates, experts):
    """A (T, E) matrix of gates, column after column, from the last expert to the first."""
    dense = gates.new_zeros(len(x), len(experts)).scatter(1, expert_ids, gates)
    chosen = torch.zeros(len(x), len(experts), dtype=torch.bool).scatter(1, expert_ids, True)
    out = x.new_zeros(x.shape)
    for e in reversed(range(len(experts))):
        rows = chosen[:, e].nonzero().squeeze(1)
        if rows.numel():
            out[rows] += dense[rows, e, None] * experts[e](x[rows])
    return out


def _lists_of_tokens(x, expert_ids, gates, experts):
    """A dict of who wants which expert; added up in float64."""
    wanted = {}
    for t, row in enumerate(expert_ids.tolist()):
        for j, e in enumerate(row):
            wanted.setdefault(e, []).append((t, j))
    out = torch.zeros(x.shape, dtype=torch.float64)
    for e, places in wanted.items():
        made = experts[e](x[[t for t, _ in places]])
        for (t, j), row in zip(places, made):
            out[t] += gates[t, j].double() * row.double()
    return out.to(x.dtype)


def _one_token_after_the_other(x, expert_ids, gates, experts):
    """Each expert once; then each token collects what is its own."""
    made = {}
    for e in set(expert_ids.flatten().tolist()):
        at = (expert_ids == e).any(dim=1).nonzero()[:, 0].tolist()
        made[e] = dict(zip(at, experts[e](x[at])))
    rows = [sum(g * made[e][t] for e, g in zip(row, gates[t])) for t, row in enumerate(expert_ids.tolist())]
    return torch.stack(rows) if rows else torch.empty_like(x)


alternative(_FORWARD, "sorted_by_expert", program=_sorted_by_expert)
alternative(_FORWARD, "a_place_for_each_choice", program=_a_place_for_each_choice)
alternative(_FORWARD, "gates_of_all_experts", program=_gates_of_all_experts)
alternative(_FORWARD, "lists_of_tokens", program=_lists_of_tokens)
alternative(_FORWARD, "one_token_after_the_other", program=_one_token_after_the_other)
