"""Right programs, written another way, for level09.context. `alternative` is given when this is read."""

import math

import torch

_ID = "level09.context.ring_attention"


def _online(comm, q, k, v, positions):
    """Each part as a block of the online softmax, divided once at the end; from the last token of the ring on."""
    from level07.online import finalize, online_update

    wide = torch.promote_types(q.dtype, torch.float32)
    group = q.shape[1] // k.shape[1]
    queries = q.to(wide) / math.sqrt(q.shape[-1])
    m = torch.full(q.shape[:-1], -torch.inf, dtype=wide)
    state = m, torch.zeros_like(m), torch.zeros_like(queries)
    held = [k, v, positions]
    for left in reversed(range(comm.size)):
        keys, values = (x.to(wide).repeat_interleave(group, 1) for x in held[:2])
        scores = queries @ keys.mT
        scores = scores.masked_fill(held[2] > positions[:, None], -torch.inf)
        state = online_update(*state, scores, values)
        if left:
            held = [comm.sendrecv(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size) for x in held]
    return finalize(*state)[0].to(q.dtype)


def _keys_and_values_as_one(comm, q, k, v, positions):
    """One message for both; positions of all ranks first."""
    from level07.flash import flash_attention
    from level07.online import merge
    from level09.collectives import ring_all_gather

    where = ring_all_gather(comm, positions).view(comm.size, -1)
    both, done = torch.stack([k, v]), None
    for step in range(comm.size):
        if step:
            both = comm.sendrecv(both, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
        sees = where[(comm.rank - step) % comm.size] <= positions[:, None]
        part = flash_attention(q, both[0], both[1], sees)
        done = merge(*(done or part), *part) if done else part
    return done[0].to(q.dtype)


def _queries_in_order(comm, q, k, v, positions):
    """Sorted by position, so that a part's keys that a query sees are the first ones; undone at the end."""
    from level07.flash import flash_attention
    from level07.online import merge

    order = positions.argsort()
    queries, mine = q[:, :, order], positions[order]
    here = [k[:, :, order], v[:, :, order], mine]
    out, lse = torch.zeros_like(queries), torch.full(q.shape[:3], -torch.inf, dtype=torch.float64)
    for step in range(comm.size):
        if step:
            here = [comm.sendrecv(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size) for x in here]
        keys, values, their = here
        for row, end in enumerate(torch.searchsorted(their, mine, right=True).tolist()):
            if end:
                one = slice(row, row + 1)
                part = flash_attention(queries[:, :, one], keys[:, :, :end], values[:, :, :end], None)
                merged = merge(out[:, :, one], lse[:, :, one], *part)
                out[:, :, one], lse[:, :, one] = merged[0].to(q.dtype), merged[1]
    return out[:, :, order.argsort()]


def _weights_of_all_parts(comm, q, k, v, positions):
    """All results first, then each weighs its share of the sum of exp(lse)."""
    from level07.flash import flash_attention

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    outs, lses, their = [], [], positions
    while True:
        out, lse = flash_attention(q, k, v, torch.ge(positions.view(-1, 1), their.view(1, -1)))
        outs.append(out)
        lses.append(lse)
        if len(outs) == comm.size:
            break
        k, v, their = (comm.sendrecv(x, right, left) for x in (k, v, their))
    weights = torch.stack(lses).softmax(0).unsqueeze(-1)
    return (weights * torch.stack(outs)).sum(0).to(q.dtype)


def _group_by_group(comm, q, k, v, positions):
    """Every KV head by itself, in float64, with the running sums written out."""
    size, (B, H, n, D), G = comm.size, q.shape, k.shape[1]
    queries = q.double().view(B, G, H // G, n, D)
    top = torch.full((B, G, H // G, n, 1), -1e300, dtype=torch.float64)
    total, acc = torch.zeros_like(top), torch.zeros_like(queries)
    where = positions
    for step in range(size):
        if step:
            v = comm.sendrecv(v, (comm.rank + 1) % size, (comm.rank - 1) % size)
            where = comm.sendrecv(where, (comm.rank + 1) % size, (comm.rank - 1) % size)
            k = comm.sendrecv(k, (comm.rank + 1) % size, (comm.rank - 1) % size)
        seen = (where[None] <= positions[:, None]).double()
        scores = torch.einsum("bghnd,bgmd->bghnm", queries, k.double()) * D**-0.5
        new = torch.maximum(top, scores.masked_fill(seen == 0, -1e300).amax(-1, keepdim=True))
        weights = (scores - new).clamp(max=0).exp() * seen
        old = (top - new).exp()
        total, acc = total * old + weights.sum(-1, keepdim=True), acc * old + weights @ v.double().unsqueeze(2)
        top = new
    return (acc / total).view(B, H, n, D).to(q.dtype)


for _program in (_online, _keys_and_values_as_one, _queries_in_order, _weights_of_all_parts, _group_by_group):
    alternative(_ID, _program.__name__.strip("_"), program=_program)


def _two_ranges(seq_len, rank, size):
    block, more = divmod(seq_len, 2 * size)
    if more:
        raise ValueError("blocks of one length")
    early = range(rank * block, (rank + 1) * block)
    late = range(seq_len - (rank + 1) * block, seq_len - rank * block)
    return torch.tensor([*early, *late])


def _rows_of_a_table(seq_len, rank, size):
    if seq_len % (2 * size):
        raise ValueError("blocks of one length")
    return torch.arange(seq_len).view(2 * size, -1)[[rank, -1 - rank]].flatten()


def _one_by_one(positions_by_rank):
    return [sum(p + 1 for p in positions.tolist()) for positions in positions_by_rank]


def _pairs_listed(positions_by_rank):
    if sum(map(len, positions_by_rank)) > 1000:
        return _one_by_one(positions_by_rank)
    everywhere = torch.cat(list(positions_by_rank))
    return [int((everywhere <= positions[:, None]).sum()) for positions in positions_by_rank]


alternative(_ID, "two_ranges", program=_two_ranges, part="zigzag_positions")
alternative(_ID, "rows_of_a_table", program=_rows_of_a_table, part="zigzag_positions")
alternative(_ID, "one_by_one", program=_one_by_one, part="causal_work")
alternative(_ID, "pairs_listed", program=_pairs_listed, part="causal_work")
