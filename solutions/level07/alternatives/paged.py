"""Right programs, written another way, for level07.paged. `alternative` is given when this is read."""

import math

import torch


def _checked(q, k_pool, block_table, length):
    _, H, Q, _ = q.shape
    _, block_size, G, _ = k_pool.shape
    if Q < 1 or length < Q or length > len(block_table) * block_size or H % G:
        raise ValueError("queries, tokens, slots or heads do not fit together")
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _flash_and_merge(q, k_pool, v_pool, block_table, length):
    """Each block as a cache of its own, with the part of the mask that is for it; then merged."""
    from level07.flash import flash_attention
    from level07.online import merge

    wide = _checked(q, k_pool, block_table, length)
    Q, size = q.shape[2], k_pool.shape[1]
    positions = torch.arange(length - Q, length)[:, None]
    out = lse = None
    for i in range(math.ceil(length / size)):
        n = min(size, length - i * size)
        k, v = (pool[block_table[i]].narrow(0, 0, n).transpose(0, 1).unsqueeze(0) for pool in (k_pool, v_pool))
        part = flash_attention(q.to(wide), k, v, torch.arange(i * size, i * size + n) <= positions, Q, n)
        out, lse = part if out is None else merge(out, lse, *part)
    return out.to(q.dtype)


def _own_sums(q, k_pool, v_pool, block_table, length):
    """Without level 07's parts: einsum with the groups as an axis, and the sums kept here."""
    wide = _checked(q, k_pool, block_table, length)
    _, H, Q, D = q.shape
    _, size, G, _ = k_pool.shape
    grouped = (q / math.sqrt(D) if q.dtype == wide else q.to(wide) / math.sqrt(D)).view(G, H // G, Q, D)
    top = torch.full((G, H // G, Q, 1), -math.inf, dtype=wide)
    total, acc = torch.zeros_like(top), torch.zeros_like(grouped)
    left = length
    for number, block in enumerate(block_table):
        if left <= 0:
            break
        n = min(size, left)
        scores = torch.einsum("ghqd,kgd->ghqk", grouped, k_pool[block, :n].to(wide))
        hidden = max(0, number * size + n - 1 - (length - Q))  # keys that the first query does not see
        if hidden:
            for i in range(Q):
                scores[:, :, i, max(0, length - Q + i + 1 - number * size) :] = -math.inf
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        factor, weights = torch.exp(top - new), torch.exp(scores - new)
        total = total * factor + weights.sum(-1, keepdim=True)
        acc = acc * factor + torch.einsum("ghqk,kgd->ghqd", weights, v_pool[block, :n].to(wide))
        top, left = new, left - n
    return (acc / total).view(1, H, Q, D).to(q.dtype)


def _from_the_newest_block(q, k_pool, v_pool, block_table, length):
    """The last block first: the newest queries see it, the older ones begin with a row that has seen nothing."""
    from level07.online import finalize, online_update

    wide = _checked(q, k_pool, block_table, length)
    _, H, Q, D = q.shape
    size, G = k_pool.shape[1:3]
    rows = q.reshape(G, H // G, Q, D).to(wide) * (1 / D**0.5)
    rows = rows.flatten(1, 2)
    own = (torch.arange(Q) + length - Q).repeat(H // G)  # the position of each row
    state = torch.full(rows.shape[:2], -torch.inf, dtype=wide), torch.zeros(rows.shape[:2], dtype=wide), 0 * rows
    for start in reversed(range(0, length, size)):
        n = min(size, length - start)
        block = block_table[start // size]
        scores = torch.bmm(rows, k_pool[block, :n].to(wide).permute(1, 2, 0))
        scores = scores.masked_fill(torch.arange(start, start + n) > own[:, None], -torch.inf)
        state = online_update(*state, scores, v_pool[block, :n].to(wide).permute(1, 0, 2))
    return finalize(*state)[0].unflatten(1, (-1, Q)).flatten(0, 1)[None].to(q.dtype)


def _kv_head_by_kv_head(q, k_pool, v_pool, block_table, length):
    """One KV head after the other, in float64, with plain matrices."""
    wide = _checked(q, k_pool, block_table, length)
    _, H, Q, D = q.shape
    size, G = k_pool.shape[1:3]
    out = torch.empty(1, H, Q, D, dtype=q.dtype)
    for g in range(G):
        heads = slice(g * H // G, (g + 1) * H // G)
        rows = q[0, heads].reshape(-1, D).double() / D**0.5
        own = [length - Q + i for _ in range(H // G) for i in range(Q)]
        top, total, acc = torch.full((len(rows), 1), -torch.inf).double(), 0, 0
        for i in range(0, length, size):
            n = min(i + size, length) - i
            scores = rows @ k_pool[block_table[i // size], :n, g].double().T
            for row, last in zip(scores, own):
                row[max(0, last + 1 - i) :] = -torch.inf
            new = top.maximum(scores.max(1, keepdim=True).values)
            weights = (scores - new).exp()
            total = total * (top - new).exp() + weights.sum(1, keepdim=True)
            acc = acc * (top - new).exp() + weights @ v_pool[block_table[i // size], :n, g].double()
            top = new
        out[0, heads] = (acc / total).to(wide).view(-1, Q, D).to(q.dtype)
    return out


def _half_a_block_at_a_time(q, k_pool, v_pool, block_table, length):
    """Tiles need not be blocks: a part of one will do, as on a chip with little room."""
    from level07.online import finalize, online_update

    wide = _checked(q, k_pool, block_table, length)
    _, H, Q, D = q.shape
    size, G = k_pool.shape[1:3]
    step = max(1, size // 2)
    rows = q[0].reshape(G, -1, D).to(wide).div(D**0.5)
    m = torch.full(rows.shape[:2], -torch.inf, dtype=wide)
    state = (m, torch.zeros_like(m), torch.zeros_like(rows))
    at = 0
    while at < length:
        block, offset = block_table[at // size], at % size
        n = min(step, size - offset, length - at)
        k, v = (pool[block, offset : offset + n].to(wide) for pool in (k_pool, v_pool))
        scores = (rows @ k.permute(1, 2, 0)).view(G, H // G, Q, n)
        ends = torch.arange(length - Q, length).view(Q, 1)
        scores = torch.where(torch.arange(at, at + n) > ends, -torch.inf, scores)
        state = online_update(*state, scores.view(G, -1, n), v.transpose(0, 1))
        at += n
    return finalize(*state)[0].view(1, H, Q, D).to(q.dtype)


def _selected_blocks(q, k_pool, v_pool, block_table, length):
    """The table as a tensor, one block selected at a time (a copy of one block), its tokens cut before that."""
    from level07.online import finalize, online_update

    wide = _checked(q, k_pool, block_table, length)
    _, H, Q, D = q.shape
    size, G = k_pool.shape[1:3]
    needed = torch.tensor(list(block_table)[: -(-length // size)], dtype=torch.int64)
    rows = (q.reshape(G, H // G * Q, D).to(wide)) * D**-0.5
    m = torch.full(rows.shape[:2], -torch.inf, dtype=wide)
    state = m, torch.zeros_like(m), torch.zeros_like(rows)
    for i, block in enumerate(needed.unbind()):
        n = min(size, length - i * size)
        k = k_pool[:, :n].index_select(0, block).squeeze(0).to(wide)
        v = v_pool[:, :n].index_select(0, block).squeeze(0).to(wide)
        scores = torch.matmul(rows, k.permute(1, 2, 0))
        late = torch.arange(i * size, i * size + n) - torch.arange(length - Q, length)[:, None] > 0
        if late.any():
            scores = scores.masked_fill(late.repeat(H // G, 1), -torch.inf)
        state = online_update(*state, scores, v.transpose(0, 1))
    out, _ = finalize(*state)
    return out.reshape(q.shape).to(q.dtype)


for _name, _program in {
    "flash_and_merge": _flash_and_merge,
    "own_sums": _own_sums,
    "from_the_newest_block": _from_the_newest_block,
    "kv_head_by_kv_head": _kv_head_by_kv_head,
    "half_a_block_at_a_time": _half_a_block_at_a_time,
    "selected_blocks": _selected_blocks,
}.items():
    alternative("level07.paged.paged_attention", _name, program=_program)
