"""Right programs, written another way, for level12.paged. `alternative` is given when this is read."""


def _one_by_one(q, k_pool, v_pool, tables, lengths):
    """Level 06's gather and level 00's attention, a sequence at a time."""
    import torch

    from level00.layers import attention
    from level06.paged import gather

    if q.shape[1] % k_pool.shape[2]:
        raise ValueError("H is no multiple of G")
    rows = []
    for row, table, length in zip(q, tables.tolist(), lengths.tolist()):
        k, v = (gather(pool, table, length).to(q.dtype) for pool in (k_pool, v_pool))
        rows.append(attention(row[None, :, None], k, v, "causal")[0, :, 0])
    return torch.stack(rows)


def _by_hand(q, k_pool, v_pool, tables, lengths):
    """Scores, softmax and sum as einsums, with a copy of the keys for each query head."""
    import torch

    if q.shape[1] % k_pool.shape[2]:
        raise ValueError("H is no multiple of G")
    B, G = k_pool.shape[1:3]
    slots = (tables[:, :, None] * B + torch.arange(B)).flatten(1)  # (N, M · B)
    hidden = torch.arange(slots.shape[1]) >= lengths[:, None]
    k, v = (pool.flatten(0, 1)[slots].to(q.dtype) for pool in (k_pool, v_pool))
    k, v = (torch.where(hidden[:, :, None, None], 0, x).repeat_interleave(q.shape[1] // G, 2) for x in (k, v))
    scores = torch.einsum("nhd,nthd->nht", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(hidden[:, None], -torch.inf).softmax(-1)
    return torch.einsum("nht,nthd->nhd", weights, v)


def _online(q, k_pool, v_pool, tables, lengths):
    """A column of blocks at a time, with a running maximum and sum, as flash attention does."""
    import torch

    if q.shape[1] % k_pool.shape[2]:
        raise ValueError("H is no multiple of G")
    (N, H, D), (B, G) = q.shape, k_pool.shape[1:3]
    q = q.view(N, G, H // G, D) / D**0.5
    top = torch.full((N, G, H // G), -torch.inf, dtype=q.dtype)
    total, out = torch.zeros_like(top), torch.zeros_like(q)
    for column in range(tables.shape[1]):
        seen = column * B + torch.arange(B) < lengths[:, None]  # (N, B)
        k, v = (pool[tables[:, column]].to(q.dtype) for pool in (k_pool, v_pool))  # (N, B, G, D)
        k, v = (torch.where(seen[:, :, None, None], x, torch.zeros_like(x)) for x in (k, v))
        scores = torch.einsum("ngrd,nbgd->ngrb", q, k)
        scores = torch.where(seen[:, None, None], scores, -torch.inf)
        new = torch.maximum(top, scores.amax(-1))
        old, weights = (top - new).exp(), (scores - new[..., None]).exp()
        total, top = total * old + weights.sum(-1), new
        out = out * old[..., None] + torch.einsum("ngrb,nbgd->ngrd", weights, v)
    return (out / total[..., None]).reshape(N, H, D)


def _ragged(q, k_pool, v_pool, tables, lengths):
    """Only the slots that count are gathered, as one long row that split() cuts apart."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    if q.shape[1] % k_pool.shape[2]:
        raise ValueError("H is no multiple of G")
    B = k_pool.shape[1]
    sizes = lengths.tolist()
    slots = torch.cat([table[torch.arange(n) // B] * B + torch.arange(n) % B for table, n in zip(tables, sizes)])
    parts = zip(q, *(pool.flatten(0, 1)[slots].to(q.dtype).split(sizes) for pool in (k_pool, v_pool)))
    rows = [
        scaled_dot_product_attention(row[:, None], k.transpose(0, 1), v.transpose(0, 1), enable_gqa=True)[:, 0]
        for row, k, v in parts
    ]
    return torch.stack(rows)


alternative("level12.paged.decode_attention", "one_by_one", program=_one_by_one)
alternative("level12.paged.decode_attention", "by_hand", program=_by_hand)
alternative("level12.paged.decode_attention", "online", program=_online)
alternative("level12.paged.decode_attention", "ragged", program=_ragged)
