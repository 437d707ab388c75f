"""Right programs, written another way, for level07.decode. `alternative` is given when this is read."""

import math

import torch


def _longer_ones_first(kv_len, num_splits):
    if kv_len < 1 or num_splits < 1:
        raise ValueError("a key and a split at least")
    parts = min(kv_len, num_splits)
    size, more = divmod(kv_len, parts)
    ranges, start = [], 0
    for i in range(parts):
        end = start + size + (i < more)
        ranges.append((start, end))
        start = end
    return ranges


def _longer_ones_last(kv_len, num_splits):
    if kv_len < 1 or num_splits < 1:
        raise ValueError("a key and a split at least")
    ranges, end = [], kv_len
    for left in range(min(kv_len, num_splits), 0, -1):
        start = end - -(-end // left)
        ranges.insert(0, (start, end))
        end = start
    return ranges


def _torchs_own(kv_len, num_splits):
    if min(kv_len, num_splits) < 1:
        raise ValueError("a key and a split at least")
    parts = torch.arange(kv_len).tensor_split(min(kv_len, num_splits))
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


def _one_key_after_the_other(kv_len, num_splits):
    """Dealt out like cards: how many each part gets; then the parts are laid side by side."""
    if min(kv_len, num_splits) < 1:
        raise ValueError("a key and a split at least")
    if kv_len > 100_000:
        return _longer_ones_first(kv_len, num_splits)
    lengths = [0] * min(kv_len, num_splits)
    for key in range(kv_len):
        lengths[key * 7 % len(lengths) if len(lengths) % 7 else key % len(lengths)] += 1
    return [(sum(lengths[:i]), sum(lengths[: i + 1])) for i in range(len(lengths))]


def _rounded(kv_len, num_splits):
    """To the nearest key, in floating point."""
    if min(kv_len, num_splits) < 1:
        raise ValueError("a key and a split at least")
    parts = min(kv_len, num_splits)
    bounds = [round(kv_len / parts * i) for i in range(parts + 1)]
    return [(bounds[i], bounds[i + 1]) for i in range(parts)]


for _name, _program in {
    "rounded": _rounded,
    "longer_ones_first": _longer_ones_first,
    "longer_ones_last": _longer_ones_last,
    "torchs_own": _torchs_own,
    "dealt_out": _one_key_after_the_other,
}.items():
    alternative("level07.decode.choose_splits", _name, program=_program, part="split_ranges")


def _with_ceil(batch, n_kv_heads, kv_len, num_processors, min_chunk):
    if not all(x > 0 for x in (batch, n_kv_heads, kv_len, num_processors, min_chunk)):
        raise ValueError("all are at least 1")
    wanted = math.ceil(num_processors / (batch * n_kv_heads))
    while wanted > 1 and kv_len // wanted < min_chunk:
        wanted -= 1
    return wanted


def _one_more_at_a_time(batch, n_kv_heads, kv_len, num_processors, min_chunk):
    if min(batch, n_kv_heads, kv_len, num_processors, min_chunk) < 1:
        raise ValueError("all are at least 1")
    splits, busy = 1, batch * n_kv_heads
    while busy < num_processors and (splits + 1) * min_chunk <= kv_len:
        splits, busy = splits + 1, busy + batch * n_kv_heads
    return splits


def _in_cases(batch, n_kv_heads, kv_len, num_processors, min_chunk):
    if min(batch, n_kv_heads, kv_len, num_processors, min_chunk) < 1:
        raise ValueError("all are at least 1")
    work, most = batch * n_kv_heads, kv_len // min_chunk
    if work >= num_processors or most <= 1:
        return 1
    full, idle = divmod(num_processors, work)
    return min(full + bool(idle), most)


alternative("level07.decode.choose_splits", "with_ceil", program=_with_ceil)
alternative("level07.decode.choose_splits", "one_more_at_a_time", program=_one_more_at_a_time)
alternative("level07.decode.choose_splits", "in_cases", program=_in_cases)


def _checked(q, k, num_splits):
    if q.shape[2] != 1 or k.shape[2] < 1 or num_splits < 1:
        raise ValueError("one query, a key and a split at least")
    return torch.promote_types(q.dtype, torch.float32)


def _one_combination(q, k, v, num_splits):
    """All parts first; then each weighs its share of the sum of exp(lse)."""
    from level07.decode import split_ranges
    from level07.flash import flash_attention

    _checked(q, k, num_splits)
    parts = [
        flash_attention(q, k[:, :, a:b], v[:, :, a:b], None, 1, 5) for a, b in split_ranges(k.shape[2], num_splits)
    ]
    lses = torch.stack([lse for _, lse in parts])
    weights = lses.softmax(0)[..., None]
    return (torch.stack([out for out, _ in parts]) * weights).sum(0).to(q.dtype), lses.logsumexp(0)


def _in_pairs(q, k, v, num_splits):
    """Merged as a tournament, as processors would."""
    from level07.decode import split_ranges
    from level07.flash import flash_attention
    from level07.online import merge

    wide = _checked(q, k, num_splits)
    parts = []
    for start, end in split_ranges(k.shape[2], num_splits):
        part = slice(start, end)
        parts.append(flash_attention(q.to(wide), k[:, :, part].to(wide), v[:, :, part].to(wide), None))
    while len(parts) > 1:
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [merge(*a, *b) for a, b in zip(parts[::2], parts[1::2])] + odd
    return parts[0][0].to(q.dtype), parts[0][1]


def _from_the_last(q, k, v, num_splits):
    """An empty result first: merging with it changes nothing."""
    from level07.decode import split_ranges
    from level07.flash import flash_attention
    from level07.online import merge

    wide = _checked(q, k, num_splits)
    out, lse = torch.zeros(q.shape, dtype=wide), torch.full(q.shape[:3], -torch.inf, dtype=wide)
    for start, end in reversed(split_ranges(k.shape[2], num_splits)):
        out, lse = merge(*flash_attention(q, k[:, :, start:end], v[:, :, start:end], None), out, lse)
    return out.to(q.dtype), lse


def _online(q, k, v, num_splits):
    """Each split as a block of the online softmax."""
    from level07.decode import split_ranges
    from level07.online import finalize, online_update

    wide = _checked(q, k, num_splits)
    grouped = q.to(wide).view(q.shape[0], k.shape[1], -1, q.shape[3]) / math.sqrt(q.shape[3])
    m = torch.full(grouped.shape[:3], -torch.inf, dtype=wide)
    state = m, torch.zeros_like(m), torch.zeros_like(grouped)
    for start, end in split_ranges(k.shape[2], num_splits):
        keys, values = k[:, :, start:end].to(wide), v[:, :, start:end].to(wide)
        state = online_update(*state, grouped @ keys.transpose(2, 3), values)
    out, lse = finalize(*state)
    return out.view(q.shape).to(q.dtype), lse.view(q.shape[:3])


def _splits_as_a_batch(q, k, v, num_splits):
    """All splits of one length at once, as a further axis: first the longer ones, then the others."""
    wide = _checked(q, k, num_splits)
    B, H, _, D = q.shape
    G, K = k.shape[1:3]
    size, more = divmod(K, min(num_splits, K))
    grouped = q.reshape(B, G, 1, H // G, D).to(wide) * D**-0.5
    outs, lses = [], []
    for start, end, length in ((0, more * (size + 1), size + 1), (more * (size + 1), K, size)):
        if end > start:
            keys, values = (x[:, :, start:end].unflatten(2, (-1, length)).to(wide) for x in (k, v))  # (B, G, S, n, D)
            scores = torch.einsum("bgshd,bgsnd->bgshn", grouped.expand(-1, -1, keys.shape[2], -1, -1), keys)
            lses.append(scores.logsumexp(-1))
            outs.append(torch.einsum("bgshn,bgsnd->bgshd", scores.softmax(-1), values))
    out, lse = torch.cat(outs, 2), torch.cat(lses, 2)
    weights = (lse - lse.logsumexp(2, keepdim=True)).exp()[..., None]
    return (weights * out).sum(2).reshape(q.shape).to(q.dtype), lse.logsumexp(2).reshape(B, H, 1)


def _head_by_head(q, k, v, num_splits):
    """Every KV head of every sequence by itself, in float64, with the largest score of the whole in the end."""
    from level07.decode import split_ranges

    wide = _checked(q, k, num_splits)
    B, H, _, D = q.shape
    group = H // k.shape[1]
    out, lse = torch.empty_like(q), torch.empty(B, H, 1, dtype=wide)
    for b in range(B):
        for g in range(k.shape[1]):
            heads, found = slice(g * group, (g + 1) * group), []
            for start, end in split_ranges(k.shape[2], num_splits):
                scores = q[b, heads, 0].double() @ k[b, g, start:end].double().T / D**0.5
                top = scores.amax(1)
                weights = (scores - top[:, None]).exp()
                found.append((top, weights.sum(1), weights @ v[b, g, start:end].double()))
            top = torch.stack([part[0] for part in found]).amax(0)
            total = sum(s * (m - top).exp() for m, s, _ in found)
            acc = sum(acc * (m - top).exp()[:, None] for m, _, acc in found)
            out[b, heads, 0] = (acc / total[:, None]).to(q.dtype)
            lse[b, heads, 0] = (top + total.log()).to(wide)
    return out, lse


def _in_threads(q, k, v, num_splits):
    """Each split on a thread of its own, as on a GPU."""
    from concurrent.futures import ThreadPoolExecutor

    from level07.decode import split_ranges
    from level07.flash import flash_attention

    _checked(q, k, num_splits)
    ranges = split_ranges(k.shape[2], num_splits)
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda r: flash_attention(q, k[:, :, slice(*r)], v[:, :, slice(*r)], None), ranges))
    lse = parts[0][1]
    for _, more in parts[1:]:
        lse = torch.logaddexp(lse, more)
    out = sum(part.to(lse.dtype) * (own - lse).exp().unsqueeze(-1) for part, own in parts)
    return out.to(q.dtype), lse


for _name, _program in {
    "one_combination": _one_combination,
    "in_pairs": _in_pairs,
    "from_the_last": _from_the_last,
    "online": _online,
    "splits_as_a_batch": _splits_as_a_batch,
    "head_by_head": _head_by_head,
    "in_threads": _in_threads,
}.items():
    alternative("level07.decode.split_kv_decode", _name, program=_program)
