"""Prompts of different lengths in one batch: pad them on the left, and keep the padding out of everything.

Letters in the shapes: B batch, S the longest prompt.
"""

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import causal_mask
from level00.transformer import Params, forward
from level01.generate import Choose, allowed_tokens, greedy

from .cache import KVCache


def padded_positions(valid: Tensor) -> Tensor:
    """Return each token's position in its own row, (B, S) int64: of a real one, how many real ones stand before it.

    valid  (B, S) bool, True = a real token

    At the padding before a row's first token the position is 0, which is in every table. A column that is not valid
    behind it repeats the position of the last real token. Example: [[False, True, True, False]] -> [[0, 0, 1, 1]].

    ● · about 1 line · part of left_pad
    """
    # solution:begin count along the row
    return (valid.long().cumsum(-1) - 1).clamp(min=0)
    # solution:end


def left_pad(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return (ids, valid), both (B, S): the prompts, each moved to the right edge, and which entries are real tokens.

    ids    int64, pad_id to the left of shorter prompts
    valid  bool; a prompt may hold pad_id as a token of its own, and that one is real

    The last column holds the last token of every prompt, so one slice of the logits serves all rows.
    Example: [[1, 2, 3], [4]], pad_id 0 -> [[1, 2, 3], [0, 0, 4]] and [[True, True, True], [False, False, True]].
    ValueError: no prompts, or an empty one.

    ● · about 4 lines
    """
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise ValueError("every row needs at least one token to go on from, and a batch at least one row")
    # solution:begin how much is missing from each row?
    S = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[pad_id] * (S - len(prompt)) + list(prompt) for prompt in prompts])
    valid = torch.tensor([[False] * (S - len(prompt)) + [True] * len(prompt) for prompt in prompts])
    return ids, valid
    # solution:end


def padded_mask(valid: Tensor, q_len: int) -> Tensor:
    """Return the boolean mask (B, 1, q_len, kv_len) of the last q_len columns as queries; True = may attend.

    valid  (B, kv_len) bool: which of all columns, cached ones included, hold real tokens

    Causal, by column, and no key that is padding. Before a row's first token a query sees nothing at all: level 00's
    softmax makes zeros of such a row. What padding further behind sees is read by nobody.
    Example: [[False, True, True]], q_len 2 -> [[[[False, True, False], [False, True, True]]]].
    ValueError: q_len beyond kv_len.

    ●● · about 2 lines
    """
    # solution:begin two conditions on a key; which axis is valid's?
    causal = causal_mask(q_len, valid.shape[1]).to(valid.device)
    return causal & valid[:, None, None, :]  # (q_len, kv_len) and (B, 1, 1, kv_len)
    # solution:end


def generate_batch(
    params: Params,
    config: Config,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    stop_ids: Collection[int] = (),
    pad_id: int = 0,
    *,
    choose: Choose = greedy,
    forward: Callable = forward,
) -> list[list[int]]:
    """Return the new tokens of every prompt, each row as level 01's `generate` would give it alone.

    One prefill of the padded prompts, then one pass for all rows at each step, in one KVCache of the weights' dtype. A
    row ends as in level 01, after max_tokens, at the model's last position, or after one of stop_ids; the others go on,
    and no pass is made after the last row has ended. `choose(logits, prompts, outputs)` gets the logits (B, vocab) of
    all rows and both histories; what it gives for a row that has ended is ignored. A row's last token is never fed: in
    its place, and from then on, the row gets pad_id, which is no token of it.
    `forward(params, config, ids, cache, positions=, mask=)` gets positions (B, q) and mask (B, 1, q, kv).
    Example: prompts of 4 and 2 tokens: `forward` is called with (2, 4) ids, row 1 at positions [0, 0, 0, 1], then
    (2, 1) ids at positions [4] and [2].
    ValueError: no prompts, an empty one, one longer than the model, max_tokens below 0.

    ●●● · about 17 lines · needs level02.padding.left_pad, level02.padding.padded_mask, level02.cache.KVCache
    """
    ids, valid = left_pad(prompts, pad_id)
    limits = [allowed_tokens(config, prompt, max_tokens) for prompt in prompts]
    # solution:begin level 01's loop for all rows at once; what grows at each step? what does an ended row do?
    outputs: list[list[int]] = [[] for _ in prompts]
    live = [limit > 0 for limit in limits]
    room = ids.shape[1] + max(limits)
    cache = KVCache(config, len(prompts), room, params["model.embed_tokens.weight"].dtype)
    while any(live):
        q_len = ids.shape[1]
        positions = padded_positions(valid)[:, -q_len:]
        logits = forward(params, config, ids, cache, positions=positions, mask=padded_mask(valid, q_len))
        tokens = choose(logits[:, -1], [list(prompt) for prompt in prompts], [list(output) for output in outputs])
        for row, token in enumerate(tokens.tolist()):
            if live[row]:
                outputs[row].append(token)
                live[row] = token not in stop_ids and len(outputs[row]) < limits[row]
        # an ended row is fed padding: what `choose` gave for it need not be a token at all
        ids = torch.where(torch.tensor(live), tokens, pad_id).unsqueeze(1)
        # subtle: what follows a row's end is padding, or its positions would run past the end of the model
        valid = torch.cat([valid, torch.tensor(live).unsqueeze(1)], 1)
    return outputs
    # solution:end
