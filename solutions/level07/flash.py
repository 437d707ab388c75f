"""Attention in tiles: the matrix of scores is never there, only a tile of it at a time.

Letters in the shapes: B batch, H query heads, G KV heads, Q queries, K keys, D head_dim. Query i stands at position
K - Q + i: the last query sees the last key.
"""

import torch
from torch import Tensor

from .online import finalize, online_update


def tile_kind(q_start: int, q_end: int, k_start: int, k_end: int, offset: int) -> str:
    """Return what a causal mask leaves of a tile of queries q_start .. q_end - 1 and keys k_start .. k_end - 1.

    "skip" if no query of the tile sees a key of it, "full" if every query sees every key, "partial" otherwise. Query i
    sees the keys 0 .. offset + i; offset may be negative.
    Example: offset 0, queries 2 and 3: keys 0, 1 are "full", keys 2, 3 "partial", keys 4, 5 "skip".
    ValueError: an empty range.

    ●● · about 5 lines
    """
    if q_start >= q_end or k_start >= k_end:
        raise ValueError(f"queries {q_start} to {q_end}, keys {k_start} to {k_end}: a tile has at least one of each")
    # solution:begin which query sees least, and which one most?
    if k_start > offset + q_end - 1:
        return "skip"
    return "full" if k_end - 1 <= offset + q_start else "partial"
    # solution:end


def visible(mask: Tensor | str, q_start: int, q_end: int, k_start: int, k_end: int, offset: int) -> Tensor:
    """The part of a mask in a tile, bool (..., queries, keys): of "causal" by position, else a view. Given."""
    if isinstance(mask, str):
        return torch.arange(k_start, k_end) <= offset + torch.arange(q_start, q_end)[:, None]
    return mask[..., q_start:q_end, k_start:k_end]


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | str | None = "causal", block_q: int = 128, block_k: int = 128
) -> tuple[Tensor, Tensor]:
    """Return (out (B, H, Q, D), lse (B, H, Q)): level 00's attention, and the log of each query's sum of exp(score).

    q     (B, H, Q, D) float; out has its dtype
    k, v  (B, G, K, D), each of any float dtype; query head h reads KV head h // (H / G)
    mask  "causal" (aligned to the last key), None (all may attend to all), or bool, broadcastable to (B, H, Q, K)

    Tiles of block_q queries and block_k keys, the last ones smaller; a tile has all heads. Each is computed once, and
    its scores are not kept; a causal tile that nobody sees is neither read nor computed. No tensor is made that has
    more elements than the largest input, or than the scores of one tile, B · H · block_q · block_k, and a KV head is
    not copied for each of its query heads, not even by a product (torch copies what it broadcasts there).
    Arithmetic and lse in float32, or in float64 if q is. Rows that may attend to nothing: out 0, lse -inf.
    Example: q = k = v of one token: out = v, lse = q · k / sqrt(D).
    ValueError: a block below 1, H not a multiple of G. FlashAttention, arXiv 2205.14135, without its backward pass.

    ●●● · about 19 lines · needs level07.online.online_update, level07.flash.tile_kind
    """
    B, H, Q, D = q.shape
    G, K = k.shape[1:3]
    if block_q < 1 or block_k < 1:
        raise ValueError(f"a tile has at least one query and one key, not {block_q} x {block_k}")
    if H % G:
        raise ValueError(f"the {H} query heads must be a multiple of the {G} KV heads")
    if isinstance(mask, Tensor):
        mask = mask.broadcast_to(B, H, Q, K).unflatten(1, (G, H // G))  # a view
    wide = torch.promote_types(q.dtype, torch.float32)
    # solution:begin for each tile of queries: all tiles of keys that it sees, then divide once
    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []  # (B, G, H / G, Q, D)
    for top in range(0, Q, block_q):
        bottom = min(top + block_q, Q)
        # the heads of a group are neighbours: stacked as extra rows they meet a tile of k and v without a copy of it
        queries = grouped[..., top:bottom, :].to(wide).flatten(2, 3) * D**-0.5  # (B, G, H / G * rows, D)
        m = queries.new_full(queries.shape[:-1], -torch.inf)
        state = m, torch.zeros_like(m), torch.zeros_like(queries)
        for left in range(0, K, block_k):
            right = min(left + block_k, K)
            kind = tile_kind(top, bottom, left, right, K - Q) if isinstance(mask, str) else "partial"
            if kind == "skip":
                break  # nor does it see any key behind these
            scores = queries @ k[:, :, left:right].to(wide).mT
            if kind == "partial" and mask is not None:
                rows = scores.unflatten(2, (H // G, bottom - top))  # (B, G, H / G, rows, keys)
                rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q), -torch.inf)
            state = online_update(*state, scores, v[:, :, left:right].to(wide))
        out, lse = finalize(*state)
        outs.append(out.unflatten(2, (H // G, -1)).to(q.dtype))
        lses.append(lse.unflatten(2, (H // G, -1)))
    return torch.cat(outs, 3).flatten(1, 2), torch.cat(lses, 3).flatten(1, 2)
    # solution:end


def flash_attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | str) -> Tensor:
    """What level 00's forward takes as `attend`. Given."""
    return flash_attention(q, k, v, mask)[0]
