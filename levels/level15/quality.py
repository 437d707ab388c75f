"""Did the transfer work? What attention reads out of a cache, what is left of the score, and who else would do.

Letters in the shapes: B batch, H query heads, Q queries, G KV heads, S cached tokens, D head_dim.
"""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from level00.layers import attention


def attention_output_cosine(q: Tensor, k: Tensor, v: Tensor, own_k: Tensor, own_v: Tensor) -> float:
    """Return how alike two caches are to those who read them: the mean cosine of attention's two outputs.

    q             (B, H, Q, D) float: the receiver's queries, after the prompt, so that each sees all S tokens
    k, v          (B, G, S, D), the cache that came
    own_k, own_v  the cache that the receiver would have made

    One cosine per row, query head and query, over D; then the mean of all. Attention is level 00's.
    Example: one query [1, 0], keys the two unit vectors, values the same: outputs [0.67, 0.33]. With the two keys
    exchanged [0.33, 0.67]: cosine 0.7933.
    ValueError: caches of different shapes. Reported as a predictor of quality (r = 0.57; R²: -0.20), arXiv 2608.03893.

    ●● · about 4 lines
    """
    if not k.shape == v.shape == own_k.shape == own_v.shape:
        raise ValueError(f"the two caches have one shape, {tuple(own_k.shape)}: map first")
    # TODO: two outputs for every query
    raise NotImplementedError("level15.quality.attention_output_cosine")


def retention(score: float, native: float, floor: float) -> float:
    """Return which share of what the context is worth is still there: 1 native, 0 as without the context.

    score   of the receiver with the cache that came, native: with its own, floor: without any; higher is better

    Not clipped: below 0 the cache did harm. Example: 0.6 of 0.8, floor 0.4 -> 0.5.
    ValueError: native equals floor, so that the task measures nothing.

    ● · about 1 line
    """
    if native == floor:
        raise ValueError("native equals the floor: the task does not need the context, so take another one")
    # TODO: from the floor up
    raise NotImplementedError("level15.quality.retention")


def nll_retention(nll: float, native: float, no_context: float) -> float:
    """Return the retention of a negative log-likelihood, where lower is better.

    Example: 2.2 nats where the own cache gives 2.0 and none 3.0 -> 0.8.
    ValueError: as retention.

    ● · about 1 line · part of retention
    """
    # TODO: what is higher when the loss is lower?
    raise NotImplementedError("level15.quality.retention")


def is_transfer(matched: float, mismatched: float, margin: float) -> bool:
    """Return whether the gain hangs on *this* prompt's cache: matched beats mismatched by at least margin.

    matched, mismatched  retention with the cache of the prompt, and with that of somebody else's prompt

    Example: 0.8 and 0.7, margin 0.2 -> False: whatever helped, it was not the content.
    ValueError: a margin not above 0. The control of arXiv 2608.04893.

    ● · about 1 line · part of retention
    """
    if margin <= 0:
        raise ValueError(f"a margin is above 0, not {margin}: otherwise noise counts as transfer")
    # TODO: by how much is the right one better?
    raise NotImplementedError("level15.quality.retention")


def decide(cosine: float, min_cosine: float, transfers: bool, move_seconds: float, prefill_seconds: float) -> str:
    """Return "transfer" or "recompute" for one prompt of a pair of models.

    cosine         of the attention outputs on held-out prompts, min_cosine: below it, recompute
    transfers      what is_transfer said of this pair
    move_seconds   until the receiver can decode, all steps together; as long as prefill_seconds or longer: recompute

    Example: (0.95, 0.9, True, 0.5, 7.0) -> "transfer"; the same with 7.0 s to move -> "recompute".
    ValueError: min_cosine outside -1 .. 1, a negative time.

    ● · about 2 lines · part of retention
    """
    if not -1 <= min_cosine <= 1 or min(move_seconds, prefill_seconds) < 0:
        raise ValueError("a cosine lies in -1..1, and times are 0 or more")
    # TODO: three reasons to refuse
    raise NotImplementedError("level15.quality.retention")
