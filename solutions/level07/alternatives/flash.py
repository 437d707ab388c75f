"""Right programs, written another way, for level07.flash. `alternative` is given when this is read."""

import math

import numpy as np
import torch

# ---- tile_kind


def _tile(q_start, q_end, k_start, k_end):
    if q_end <= q_start or k_end <= k_start:
        raise ValueError("an empty tile")


def _kind_by_how_far_each_query_sees(q_start, q_end, k_start, k_end, offset):
    _tile(q_start, q_end, k_start, k_end)
    numbers = [min(max(offset + query + 1 - k_start, 0), k_end - k_start) for query in (q_start, q_end - 1)]
    if numbers[1] == 0:
        return "skip"
    return "full" if numbers[0] == k_end - k_start else "partial"


def _kind_by_two_corners(q_start, q_end, k_start, k_end, offset):
    """What sees least is the upper right corner, what sees most the lower left one."""
    _tile(q_start, q_end, k_start, k_end)
    corners = [key <= offset + query for query, key in ((q_start, k_end - 1), (q_end - 1, k_start))]
    return ["skip", "partial", "full"][sum(corners)]


def _kind_by_cells(q_start, q_end, k_start, k_end, offset):
    _tile(q_start, q_end, k_start, k_end)
    sees = torch.arange(k_start, k_end) <= torch.arange(q_start, q_end).add(offset).unsqueeze(1)
    return "full" if sees.all() else "partial" if sees.any() else "skip"


def _kind_by_ranges(q_start, q_end, k_start, k_end, offset):
    """Every number counted from the position of the first query."""
    _tile(q_start, q_end, k_start, k_end)
    first, last = k_start - offset - q_start, k_end - 1 - offset - q_start
    if last <= 0:
        return "full"
    return "partial" if first in range(min(first, 0), q_end - q_start) else "skip"


for program in (_kind_by_how_far_each_query_sees, _kind_by_two_corners, _kind_by_cells, _kind_by_ranges):
    alternative("level07.flash.tile_kind", program.__name__[1:], program=program)

# ---- flash_attention


def _checked(q, k, block_q, block_k):
    if min(block_q, block_k) < 1 or q.shape[1] % k.shape[1]:
        raise ValueError("blocks, or heads")
    return torch.promote_types(q.dtype, torch.float32), q.shape[1] // k.shape[1]


def _full_mask(mask, q, k):
    """A view, or None where positions decide."""
    if mask is None or isinstance(mask, str):
        return None
    B, H, Q, _ = q.shape
    return mask.expand(B, H, Q, k.shape[2])


def _keys_outside(q, k, v, mask="causal", block_q=128, block_k=128):
    """FlashAttention's first order: each tile of keys meets all queries, whose states are as long as q."""
    from level07.flash import tile_kind

    wide, group = _checked(q, k, block_q, block_k)
    B, H, Q, D = q.shape
    G, K = k.shape[1:3]
    whole, q = _full_mask(mask, q, k), q.reshape(B, G, group, Q, D)
    acc = torch.zeros(q.shape, dtype=wide)
    m, total = torch.full(q.shape[:-1], -math.inf, dtype=wide), torch.zeros(q.shape[:-1], dtype=wide)
    for c in range(0, K, block_k):
        cols = slice(c, min(c + block_k, K))
        for r in range(0, Q, block_q):
            rows = slice(r, min(r + block_q, Q))
            kind = tile_kind(rows.start, rows.stop, cols.start, cols.stop, K - Q) if mask == "causal" else "full"
            if kind == "skip":
                continue
            scores = torch.einsum("bgrqd,bgkd->bgrqk", q[..., rows, :].to(wide), k[:, :, cols].to(wide)) / D**0.5
            if whole is not None:
                scores = torch.where(whole[:, :, rows, cols].reshape(scores.shape), scores, -torch.inf)
            elif kind == "partial":
                late = torch.arange(cols.start, cols.stop) > torch.arange(rows.start, rows.stop)[:, None] + K - Q
                scores[..., late] = -torch.inf
            new = torch.maximum(m[..., rows], scores.max(-1).values)
            safe = torch.where(new == -torch.inf, 0, new)
            p, old = torch.exp(scores - safe.unsqueeze(-1)), torch.exp(m[..., rows] - safe)
            m[..., rows] = new
            total[..., rows] = total[..., rows] * old + p.sum(-1)
            added = torch.einsum("bgrqk,bgkd->bgrqd", p, v[:, :, cols].to(wide))
            acc[..., rows, :] = acc[..., rows, :] * old.unsqueeze(-1) + added
    acc /= torch.where(total == 0, 1, total).unsqueeze(-1)
    return acc.reshape(B, H, Q, D).to(q.dtype), (m + total.log()).reshape(B, H, Q)


def _by_merging(q, k, v, mask="causal", block_q=128, block_k=128):
    """Every tile as an attention of its own, merged with what came before it."""
    from level07.flash import tile_kind
    from level07.online import merge

    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K = q.shape, k.shape[2]
    whole = _full_mask(mask, q, k)
    out, lse = torch.empty_like(q), torch.empty(B, H, Q, dtype=wide)
    for r in range(0, Q, block_q):
        e = min(r + block_q, Q)
        done = torch.zeros(B, H, e - r, D, dtype=wide), torch.full((B, H, e - r), -torch.inf, dtype=wide)
        tile = q[:, :, r:e].to(wide).reshape(B, -1, group * (e - r), D)
        for c in range(0, K, block_k):
            f = min(c + block_k, K)
            if isinstance(mask, str) and tile_kind(r, e, c, f, K - Q) == "skip":
                continue
            scores = (tile @ k[:, :, c:f].to(wide).transpose(-1, -2)).mul_(D**-0.5)
            seen = torch.arange(c, f) - (K - Q) <= torch.arange(r, e).unsqueeze(1)
            if mask is not None:
                part = scores.view(B, H, e - r, f - c)
                part.masked_fill_(~(seen if whole is None else whole[:, :, r:e, c:f]), -torch.inf)
            own = scores.logsumexp(-1)
            mixed = torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v[:, :, c:f].to(wide)
            done = merge(*done, mixed.view(B, H, e - r, D), own.view(B, H, e - r))
        out[:, :, r:e], lse[:, :, r:e] = done
    return out, lse


def _head_by_head(q, k, v, mask="causal", block_q=128, block_k=128):
    """Matrices only: a KV head is read once for each of its query heads, and never copied."""
    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K = q.shape, k.shape[2]
    whole = _full_mask(mask, q, k)
    out, lse = q.new_zeros(B, H, Q, D), q.new_full((B, H, Q), -math.inf, dtype=wide)
    for b in range(B):
        for h in range(H):
            keys, values = k[b, h // group], v[b, h // group]
            for r in range(0, Q, block_q):
                tile = q[b, h, r : r + block_q].to(wide)
                at = torch.arange(r, r + len(tile)) + K - Q
                last = int(at[-1]) + 1 if isinstance(mask, str) else K
                m = tile.new_full((len(tile), 1), -math.inf)
                total, acc = torch.zeros_like(m), torch.zeros_like(tile)
                for c in range(0, min(last, K), block_k):
                    part = keys[c : min(c + block_k, last)].to(wide)
                    scores = tile @ part.T * (1 / math.sqrt(D))
                    if whole is not None:
                        scores[~whole[b, h, r : r + block_q, c : c + block_k]] = -math.inf
                    elif mask is not None:
                        scores[torch.arange(c, c + len(part)) > at[:, None]] = -math.inf
                    new = torch.maximum(m, scores.amax(1, keepdim=True))
                    base = new.clamp(min=torch.finfo(wide).min)
                    p = (scores - base).exp_()
                    old = (m - base).exp_()
                    total, acc, m = (
                        total * old + p.sum(1, True),
                        acc * old + p @ values[c : c + len(part)].to(wide),
                        new,
                    )
                seen = total[:, 0] > 0
                out[b, h, r : r + block_q][seen] = (acc[seen] / total[seen]).to(q.dtype)
                lse[b, h, r : r + block_q] = (m + total.log())[:, 0]
    return out, lse


def _backwards(q, k, v, mask="causal", block_q=128, block_k=128):
    """The last tiles first, wide copies of all inputs, powers of two, and the rescaling left out where it is by 1."""
    from level07.flash import tile_kind, visible

    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K, dtype = q.shape, k.shape[2], q.dtype
    whole = _full_mask(mask, q, k)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    outs, lses = [], []
    for r in reversed(range(0, Q, block_q)):
        tile = q[:, :, r : r + block_q]
        n = tile.shape[2]
        tile = tile.reshape(B, H // group, group * n, D)
        m = torch.full(tile.shape[:3], -torch.inf, dtype=wide)
        total, acc = torch.zeros_like(m), torch.zeros_like(tile)
        for c in reversed(range(0, K, block_k)):
            keys, values = k[:, :, c : c + block_k], v[:, :, c : c + block_k]
            kind = tile_kind(r, r + n, c, c + keys.shape[2], K - Q) if isinstance(mask, str) else "partial"
            if kind == "skip":
                continue
            scores = torch.matmul(tile, keys.mT) * (math.log2(math.e) / math.sqrt(D))
            if whole is not None:
                scores = scores.view(B, H, n, -1).where(whole[:, :, r : r + n, c : c + block_k], -torch.inf)
            elif kind == "partial" and mask is not None:
                sees = visible(mask, r, r + n, c, c + keys.shape[2], K - Q)
                scores = scores.view(B, H, n, -1).where(sees, -torch.inf)
            scores = scores.reshape(*tile.shape[:3], -1)
            new = torch.maximum(scores.amax(-1), m)
            base = torch.nan_to_num(new, neginf=0.0)
            if (new > m).any():
                old = torch.exp2(m - base)
                total, acc, m = total * old, acc * old[..., None], new
            p = torch.exp2(scores - base[..., None])
            total, acc = (
                total + p.sum(-1),
                torch.baddbmm(acc.flatten(0, 1), p.flatten(0, 1), values.flatten(0, 1)).view_as(acc),
            )
        outs.insert(0, (acc / total.clamp(min=1)[..., None]).view(B, H, n, D))
        lses.insert(0, ((m + total.log2()) * math.log(2)).view(B, H, n))
    return torch.cat(outs, 2).to(dtype), torch.cat(lses, 2)


def _ones_beside_the_values(q, k, v, mask="causal", block_q=128, block_k=128):
    """A column of ones among the values sums the weights in the same product; pieces of keys are cut beforehand."""
    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K = q.shape, k.shape[2]
    whole = _full_mask(mask, q, k)
    pieces = list(zip(range(0, K, block_k), k.split(block_k, 2), v.split(block_k, 2)))
    out, lse = [], []
    for r, tile in zip(range(0, Q, block_q), q.split(block_q, 2)):
        n = tile.shape[2]
        tile = tile.to(wide).unflatten(1, (-1, group)).flatten(2, 3) / math.sqrt(D)
        m, acc = tile.new_full((*tile.shape[:3], 1), -torch.inf), tile.new_zeros(*tile.shape[:3], D + 1)
        for c, keys, values in pieces:
            if isinstance(mask, str) and c > K - Q + r + n - 1:
                break
            scores = tile @ keys.to(wide).mT
            if mask is not None:
                if whole is None:
                    sees = torch.ones(n, keys.shape[2], dtype=torch.bool).tril(K - Q + r - c)
                else:
                    sees = whole[:, :, r : r + n, c : c + block_k]
                scores = scores.unflatten(2, (group, n))
                scores = scores.masked_fill(~sees.expand(B, H, n, keys.shape[2]).unflatten(1, (-1, group)), -torch.inf)
                scores = scores.flatten(2, 3)
            new = torch.maximum(m, scores.amax(-1, keepdim=True))
            base = new.masked_fill(new.isneginf(), 0)
            ones = torch.ones(*values.shape[:3], 1, dtype=wide)
            acc = acc * (m - base).exp() + (scores - base).exp() @ torch.cat([values.to(wide), ones], -1)
            m = new
        total = acc[..., D:]
        out.append((acc[..., :D] / total.clamp(min=1e-30)).reshape(B, H, n, D).to(q.dtype))
        lse.append((m + total.log()).reshape(B, H, n))
    return torch.cat(out, 2), torch.cat(lse, 2)


def _less_of_the_diagonal(q, k, v, mask="causal", block_q=128, block_k=128):
    """Of a tile on the diagonal only the queries and keys that meet anything."""
    from level07.online import finalize, online_update

    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K = q.shape, k.shape[2]
    whole = _full_mask(mask, q, k)
    out, lse = torch.zeros_like(q, memory_format=torch.contiguous_format), torch.zeros(B, H, Q, dtype=wide)
    heads = [slice(g * group, (g + 1) * group) for g in range(k.shape[1])]
    for r in range(0, Q, block_q):
        for g, head in enumerate(heads):
            tile = q[:, head, r : r + block_q].to(wide) * D**-0.5
            n = tile.shape[2]
            state = tile.new_full(tile.shape[:3], -torch.inf), tile.new_zeros(tile.shape[:3]), torch.zeros_like(tile)
            for c in range(0, K, block_k):
                first, end = 0, min(c + block_k, K)
                if isinstance(mask, str):
                    first, end = max(0, c - (K - Q) - r), min(end, K - Q + r + n)
                if first >= n or end <= c:
                    continue
                rows = tile[:, :, first:]
                scores = (rows.flatten(1, 2) @ k[:, g, c:end].to(wide).mT).view(*rows.shape[:3], end - c)
                if whole is not None:
                    scores = torch.where(whole[:, head, r : r + n, c:end], scores, -torch.inf)
                elif mask is not None:
                    late = torch.arange(c, end) > K - Q + torch.arange(r + first, r + n)[:, None]
                    scores = scores.masked_fill(late, -torch.inf)
                values = v[:, g, c:end].to(wide)
                before = [x[:, :, first:].flatten(1, 2) for x in state]
                after = online_update(*before, scores.flatten(1, 2), values)
                for x, new in zip(state, after):
                    x[:, :, first:] = new.view_as(x[:, :, first:])
            o, l = finalize(*state)
            out[:, head, r : r + n], lse[:, head, r : r + n] = o.to(q.dtype), l
    return out, lse


def _in_numpy(q, k, v, mask="causal", block_q=128, block_k=128):
    wide, group = _checked(q, k, block_q, block_k)
    (B, H, Q, D), K = q.shape, k.shape[2]
    whole = _full_mask(mask, q, k)
    a, b, c = (x.to(wide).numpy() for x in (q, k, v))
    out, lse = np.zeros(q.shape, a.dtype), np.full(q.shape[:3], -np.inf, a.dtype)
    for r in range(0, Q, block_q):
        rows = slice(r, min(r + block_q, Q))
        for i, h in np.ndindex(B, H):
            total, acc, m = np.zeros(rows.stop - r), np.zeros((rows.stop - r, D)), np.full(rows.stop - r, -np.inf)
            for s in range(0, K, block_k):
                cols = slice(s, min(s + block_k, K))
                if isinstance(mask, str) and s > K - Q + rows.stop - 1:
                    break
                scores = a[i, h, rows] @ b[i, h // group, cols].T / np.sqrt(D)
                if whole is not None:
                    scores = np.where(whole[i, h, rows, cols].numpy(), scores, -np.inf)
                elif mask is not None:
                    sees = np.arange(cols.start, cols.stop) <= np.arange(rows.start, rows.stop)[:, None] + K - Q
                    scores = np.where(sees, scores, -np.inf)
                new = np.maximum(m, scores.max(1))
                base = np.where(np.isinf(new), 0, new)
                p, old = np.exp(scores - base[:, None]), np.exp(m - base)
                total, m = total * old + p.sum(1), new
                acc = acc * old[:, None] + p @ c[i, h // group, cols]
            seen = total > 0
            out[i, h, rows][seen] = acc[seen] / total[seen, None]
            lse[i, h, rows][seen] = m[seen] + np.log(total[seen])
    return torch.from_numpy(out).to(q.dtype), torch.from_numpy(lse)


for program in (
    _keys_outside,
    _by_merging,
    _head_by_head,
    _backwards,
    _ones_beside_the_values,
    _less_of_the_diagonal,
    _in_numpy,
):
    alternative("level07.flash.flash_attention", program.__name__[1:], program=program)
