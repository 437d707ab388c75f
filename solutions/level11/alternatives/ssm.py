"""Right programs, written another way, for level11.ssm. `alternative` is given when this is read."""

import torch

CHUNKED = "level11.ssm.linear_attention_chunked"
SCAN = "level11.ssm.selective_scan"
DELTA = "level11.ssm.delta_step"


def _state(k, v, state):
    return torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1], dtype=k.dtype) if state is None else state


def _steps_by_outer_products(q, k, v, log_decay, state=None):
    """Lists and einsum, over slices of the time axis."""
    state, outs = _state(k, v, state), []
    for query, key, value, log in zip(*(x.unbind(2) for x in (q, k, v, log_decay))):
        state = torch.einsum("bhk,bhv->bhkv", key, value) + log.exp()[..., None, None] * state
        outs.append(torch.einsum("bhk,bhkv->bhv", query, state))
    return (torch.stack(outs, 2) if outs else v.clone()), state


def _steps_recursively(q, k, v, log_decay, state=None):
    """The last token from the state of all before it."""
    if v.shape[2] == 0:
        return v.clone(), _state(k, v, state)
    before, state = _steps_recursively(q[:, :, :-1], k[:, :, :-1], v[:, :, :-1], log_decay[:, :, :-1], state)
    state = log_decay[:, :, -1:, None].exp() * state + k[:, :, -1:].mT @ v[:, :, -1:]
    return torch.cat([before, q[:, :, -1:] @ state], 2), state


def _all_pairs_for_steps(q, k, v, log_decay, state=None):
    """The quadratic form, which a recurrence may be written as."""
    tokens, first = v.shape[2], _state(k, v, state)
    if not tokens:
        return v.clone(), first
    # each sum by itself: no difference of two large ones
    spread = log_decay.unsqueeze(-1).expand(*log_decay.shape, tokens)
    below = torch.ones(tokens, tokens, dtype=torch.bool).tril(-1)
    sums = spread.masked_fill(~below, 0).cumsum(-2).masked_fill(~(below | below.mT.logical_not()), -torch.inf)
    weights = (q @ k.mT) * sums.exp().tril()
    since = log_decay.cumsum(-1)
    out = weights @ v + (q * since.exp().unsqueeze(-1)) @ first
    last = (k * sums[..., -1, :].exp().unsqueeze(-1)).mT @ v
    return out, last + since[..., -1, None, None].exp() * first


for _name, _program in {
    "outer_products": _steps_by_outer_products,
    "recursively": _steps_recursively,
    "all_pairs": _all_pairs_for_steps,
}.items():
    alternative(CHUNKED, _name, program=_program, part="linear_attention_recurrent")


def _sums_of_segments(q, k, v, log_decay, chunk, state=None):
    """Mamba-2's `segsum`: each sum of logs is added up by itself."""
    if chunk < 1:
        raise ValueError("a chunk has a token")
    state, outs = _state(k, v, state), [v[:, :, :0]]
    for queries, keys, values, logs in zip(*(x.split(chunk, 2) for x in (q, k, v, log_decay))):
        size = logs.shape[-1]
        if not size:
            break
        lower = torch.ones(size, size, dtype=torch.bool).tril()
        spread = logs.unsqueeze(-1).expand(*logs.shape, size).masked_fill(~lower.tril(-1), 0)
        between = spread.cumsum(-2).masked_fill(~lower, -torch.inf).exp()
        since = logs.cumsum(-1).exp()
        outs.append(((queries @ keys.mT) * between) @ values + (queries * since.unsqueeze(-1)) @ state)
        state = since[..., -1, None, None] * state + (keys * between[..., -1, :].unsqueeze(-1)).mT @ values
    return torch.cat(outs, 2), state


def _einsum(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError("a chunk has a token")
    state, out = _state(k, v, state), torch.zeros_like(v)
    for start in range(0, v.shape[2], chunk):
        end = min(start + chunk, v.shape[2])
        a, b, c = q[:, :, start:end], k[:, :, start:end], v[:, :, start:end]
        logs = torch.cumsum(log_decay[:, :, start:end], 2)
        weights = torch.exp(logs[..., :, None] - logs[..., None, :]).tril()  # the future is set to 0, whatever it was
        scores = torch.einsum("bhtk,bhsk->bhts", a, b)
        out[:, :, start:end] = torch.einsum("bhts,bhsv->bhtv", scores * weights, c)
        out[:, :, start:end] += torch.einsum("bhtk,bhkv->bhtv", a, state) * logs.exp()[..., None]
        fresh = torch.einsum("bhsk,bhsv->bhkv", b, c * weights[:, :, -1, :, None])
        state = logs[:, :, -1].exp()[..., None, None] * state + fresh
    return out, state


def _all_chunks_in_one_product(q, k, v, log_decay, chunk, state=None):
    """Padded to whole chunks with tokens of no effect; only the states are passed on one by one."""
    if chunk < 1:
        raise ValueError("a chunk has a token")
    state, tokens = _state(k, v, state), v.shape[2]
    chunk = min(chunk, max(1, tokens))
    more = -tokens % chunk
    q, k, v = (torch.nn.functional.pad(x, (0, 0, 0, more)).unflatten(2, (-1, chunk)) for x in (q, k, v))
    logs = torch.nn.functional.pad(log_decay, (0, more)).unflatten(2, (-1, chunk)).cumsum(-1)
    between = (logs.unsqueeze(-1) - logs.unsqueeze(-2)).masked_fill(~torch.ones(chunk, chunk).tril().bool(), -torch.inf)
    out = (q @ k.mT * between.exp()) @ v
    fresh = (k * (logs[..., -1:] - logs).exp().unsqueeze(-1)).mT @ v
    befores = []
    for i in range(v.shape[2]):
        befores.append(state)
        state = logs[:, :, i, -1, None, None].exp() * state + fresh[:, :, i]
    if befores:
        out = out + logs.exp().unsqueeze(-1) * (q @ torch.stack(befores, 2))
    return out.flatten(2, 3)[:, :, :tokens], state


def _the_state_as_tokens_before(q, k, v, log_decay, chunk, state=None):
    """A state is the text `key i is the i-th unit vector, value i is row i`: put in front of each chunk."""
    if chunk < 1:
        raise ValueError("a chunk has a token")
    state, outs = _state(k, v, state), []
    units = torch.eye(k.shape[-1], dtype=k.dtype).expand(*k.shape[:2], -1, -1)
    for start in range(0, v.shape[2], chunk):
        part = slice(start, start + chunk)
        keys, values = torch.cat([units, k[:, :, part]], 2), torch.cat([state, v[:, :, part]], 2)
        logs = log_decay[:, :, part].cumsum(-1)
        of_keys = torch.cat([logs.new_zeros(*logs.shape[:2], k.shape[-1]), logs], -1)
        between = (logs.unsqueeze(-1) - of_keys.unsqueeze(-2)).exp().tril(k.shape[-1])
        outs.append((q[:, :, part] @ keys.mT * between) @ values)
        state = (keys * between[..., -1, :].unsqueeze(-1)).mT @ values
    return torch.cat(outs or [v], 2), state


def _three_axes(q, k, v, log_decay, chunk, state=None):
    """Batch and heads as one axis, and bmm."""
    if chunk < 1:
        raise ValueError("a chunk has a token")
    first = _state(k, v, state)
    shape, tokens = v.shape, v.shape[2]
    q, k, v, state = (x.flatten(0, 1) for x in (q, k, v, first))
    logs, out = log_decay.flatten(0, 1), torch.zeros(v.shape, dtype=v.dtype)
    start = 0
    while start < tokens:
        end = min(tokens, start + chunk)
        sums = logs[:, start:end].cumsum(1)
        between = sums[:, :, None] - sums[:, None, :]
        between = torch.where(torch.ones(end - start, end - start).tril() > 0, between, -float("inf")).exp()
        weights = torch.bmm(q[:, start:end], k[:, start:end].transpose(1, 2)) * between
        decayed = q[:, start:end] * sums.exp()[:, :, None]
        out[:, start:end] = torch.baddbmm(torch.bmm(weights, v[:, start:end]), decayed, state)
        carried = sums[:, -1].exp()[:, None, None] * state
        state = torch.baddbmm(carried, (k[:, start:end] * between[:, -1, :, None]).transpose(1, 2), v[:, start:end])
        start = end
    return out.view(shape), state.view(first.shape)


for _name, _program in {
    "sums_of_segments": _sums_of_segments,
    "einsum": _einsum,
    "all_chunks_in_one_product": _all_chunks_in_one_product,
    "the_state_as_tokens_before": _the_state_as_tokens_before,
    "three_axes": _three_axes,
}.items():
    alternative(CHUNKED, _name, program=_program)

CALL = "linear_attention_chunked(c, b, dt.unsqueeze(-1) * x, dt * a.unsqueeze(-1), chunk, state)"
alternative(
    SCAN,
    "step_on_b",
    change=[
        (
            CALL,
            CALL.replace("(c, b, dt.unsqueeze(-1) * x", "(c, b * dt.unsqueeze(-1), x"),
        )
    ],
)
alternative(
    SCAN,
    "heads_by_index",
    change=[
        ("part.repeat_interleave(x.shape[1] // b.shape[1], 1)", "part[:, torch.arange(x.shape[1]) // share]"),
        ("    b, c = (", "    share = x.shape[1] // b.shape[1]\n    b, c = ("),
    ],
)
alternative(
    SCAN,
    "heads_in_an_axis_of_their_own",
    change=[
        (
            "part.repeat_interleave(x.shape[1] // b.shape[1], 1)",
            "part.unsqueeze(2).expand(-1, -1, x.shape[1] // part.shape[1], -1, -1).flatten(1, 2)",
        ),
        ("y + d.view(-1, 1, 1) * x", "torch.einsum('h,bhtp->bhtp', d, x).add(y)"),
    ],
)


def _as_a_matrix(state, k, v, beta):
    """(1 - beta k kᵀ) state + beta k vᵀ"""
    eye = torch.eye(k.shape[-1], dtype=k.dtype)
    scaled = beta[..., None] * k
    forget = eye - scaled[..., :, None] * k[..., None, :]
    return forget @ state + scaled[..., :, None] * v[..., None, :]


def _einsum_delta(state, k, v, beta):
    found = torch.einsum("...k,...kv->...v", k, state)
    return state + torch.einsum("...k,...v,...->...kv", k, v - found, beta)


def _mixed_value(state, k, v, beta):
    """As the paper writes it: the old value goes, and a mixture of both comes."""
    old = (k[..., None] * state).sum(-2)
    new = beta[..., None] * v + (1 - beta[..., None]) * old
    return state - k[..., None] * old[..., None, :] + k[..., None] * new[..., None, :]


for _name, _program in {"as_a_matrix": _as_a_matrix, "einsum": _einsum_delta, "mixed_value": _mixed_value}.items():
    alternative(DELTA, _name, program=_program)
