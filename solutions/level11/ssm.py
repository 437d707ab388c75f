"""A state instead of a cache: one matrix for each head, as large after a million tokens as after one.

Letters in the shapes: B batch, H heads, T tokens, K features of a key, V features of a value.
"""

import torch
from torch import Tensor


def linear_attention_recurrent(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return (out (B, H, T, V), state (B, H, K, V)), token by token: the state first decays, then takes the token in,
    and is read by it then: state = exp(log_decay) · state + k vᵀ, out = qᵀ state.

    q, k       (B, H, T, K);  v  (B, H, T, V);  one dtype throughout
    log_decay  (B, H, T), finite and at most 0
    state      that of the tokens before, or None: zeros. It is not changed

    Neither a softmax nor a scale. T may be 0: out is empty, and the state comes back as it was.
    Example: q and k all 1, v = 1, 2, 4, decay 1/2: states 1, 2.5, 5.25, and out the same. From state 8 on, v = 1: 5.
    Linear attention, arXiv 2006.16236; with decay RetNet, 2307.08621.

    ●● · about 6 lines · part of linear_attention_chunked
    """
    # solution:begin decay, write, read
    state = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    out = torch.empty_like(v)
    for t in range(v.shape[2]):
        decay = log_decay[:, :, t, None, None].exp()
        state = decay * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        out[:, :, t] = (q[:, :, t, None, :] @ state).squeeze(2)
    return out, state
    # solution:end


def linear_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, chunk: int, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return what linear_attention_recurrent returns, `chunk` tokens at a time: matrix products instead of steps.

    Four products a chunk, the last of which may be shorter, and no loop over its tokens. Decays multiply up and leave
    the range of a float, however short the chunk is; their logs, which add, do not.
    Example: as linear_attention_recurrent, for any chunk.
    ValueError: chunk below 1. Mamba-2, arXiv 2405.21060, section 6.

    ●●● · about 13 lines
    """
    if chunk < 1:
        raise ValueError(f"a chunk has at least 1 token, not {chunk}")
    # solution:begin what does a token get from its own chunk, what from the state, and what is the state then?
    state = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    out = torch.empty_like(v)
    for start in range(0, v.shape[2], chunk):
        part = slice(start, start + chunk)
        queries, keys, values = q[:, :, part], k[:, :, part], v[:, :, part]
        since_start = log_decay[:, :, part].cumsum(-1)  # (B, H, c): log of the decay from before the chunk to here
        between = since_start.unsqueeze(-1) - since_start.unsqueeze(-2)  # (B, H, c, c): from column to row
        # subtle: masked before exp, where the future would overflow
        between = between.masked_fill(between.new_ones(between.shape[-2:]).triu(1).bool(), -torch.inf)
        inside = (queries @ keys.mT * between.exp()) @ values
        out[:, :, part] = inside + since_start.exp().unsqueeze(-1) * (queries @ state)
        to_end = (since_start[..., -1:] - since_start).exp().unsqueeze(-1)
        state = since_start[..., -1, None, None].exp() * state + (keys * to_end).mT @ values
    return out, state
    # solution:end


def selective_scan(
    x: Tensor,
    dt: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    chunk: int,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (y (B, H, T, P), state (B, H, N, P)) of Mamba-2's state space, P features a head and N of its state:
    state = exp(dt a) · state + b (dt x)ᵀ, y = cᵀ state + d · x, for each head and token.

    x      (B, H, T, P);  dt  (B, H, T), the step, at least 0;  a, d  (H,), a below 0
    b, c   (B, G, T, N): head h reads group h // (H / G)
    chunk  as linear_attention_chunked, and so is state: that of the tokens before, or None

    A step of 0 leaves the state as it is, as for a padding token.
    Example: one head, P = N = 1, x = 1, 1, dt = 0.5, a = -1, b = c = 1, d = 0: y = 0.5, then 0.5 e^-0.5 + 0.5 = 0.8033.
    ValueError: H is not a multiple of G; chunk below 1. Mamba-2, arXiv 2405.21060.

    ●● · about 4 lines · needs level11.ssm.linear_attention_chunked
    """
    if x.shape[1] % b.shape[1]:
        raise ValueError(f"the {x.shape[1]} heads must be a multiple of the {b.shape[1]} groups")
    # solution:begin which of these is the query, which the key, the value, and the decay?
    b, c = (part.repeat_interleave(x.shape[1] // b.shape[1], 1) for part in (b, c))
    y, state = linear_attention_chunked(c, b, dt.unsqueeze(-1) * x, dt * a.unsqueeze(-1), chunk, state)
    return y + d.view(-1, 1, 1) * x, state
    # solution:end


def delta_step(state: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Return the state after one token under the delta rule: what k finds is moved towards v by the part beta.

    state  (..., K, V), not changed;  k  (..., K) of length 1;  v  (..., V);  beta  (...,) in 0 .. 1

    beta 1 replaces what is stored under k, 0 changes nothing, and what is stored under keys orthogonal to k stays.
    Example: state [[1, 2], [3, 4]], k = [1, 0], v = [9, 9], beta 0.5 -> [[5, 5.5], [3, 4]].
    DeltaNet, arXiv 2406.06484; with a decay before it, 2412.06464.

    ● · about 2 lines
    """
    # solution:begin what does k find, and how far is that from v?
    found = (k.unsqueeze(-2) @ state).squeeze(-2)  # (..., V)
    return state + k.unsqueeze(-1) * (beta.unsqueeze(-1) * (v - found)).unsqueeze(-2)
    # solution:end
