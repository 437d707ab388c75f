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
    # TODO: decay, write, read
    raise NotImplementedError("level11.ssm.linear_attention_chunked")


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
    # TODO: what does a token get from its own chunk, what from the state, and what is the state then?
    raise NotImplementedError("level11.ssm.linear_attention_chunked")


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
    # TODO: which of these is the query, which the key, the value, and the decay?
    raise NotImplementedError("level11.ssm.selective_scan")


def delta_step(state: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Return the state after one token under the delta rule: what k finds is moved towards v by the part beta.

    state  (..., K, V), not changed;  k  (..., K) of length 1;  v  (..., V);  beta  (...,) in 0 .. 1

    beta 1 replaces what is stored under k, 0 changes nothing, and what is stored under keys orthogonal to k stays.
    Example: state [[1, 2], [3, 4]], k = [1, 0], v = [9, 9], beta 0.5 -> [[5, 5.5], [3, 4]].
    DeltaNet, arXiv 2406.06484; with a decay before it, 2412.06464.

    ● · about 2 lines
    """
    # TODO: what does k find, and how far is that from v?
    raise NotImplementedError("level11.ssm.delta_step")
