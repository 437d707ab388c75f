"""Right programs, written another way, for level09.tensor. `alternative` is given when this is read."""

import torch

_LINEAR = "level09.tensor.row_parallel_linear"
_ARGMAX = "level09.tensor.vocab_parallel_argmax"


def _bias_on_rank_0(comm, x, shard, bias=None):
    """One rank's partial sum carries the bias."""
    from level06.weights import any_linear
    from level09.collectives import ring_all_reduce

    part = any_linear(x, shard)
    return ring_all_reduce(comm, part + bias if bias is not None and comm.rank == 0 else part)


def _bias_on_the_last_rank(comm, x, shard, bias=None):
    from level06.weights import any_linear
    from level09.collectives import ring_all_reduce

    part = any_linear(x, shard)
    if bias is not None:
        part = part + bias * (comm.rank == comm.size - 1)
    return ring_all_reduce(comm, part)


def _in_two_halves(comm, x, shard, bias=None):
    """Reduce-scatter, the bias on each rank's own part of the sum, all-gather."""
    from level06.weights import any_linear
    from level09.collectives import ring_all_gather, ring_reduce_scatter

    y = any_linear(x, shard)
    flat = torch.nn.functional.pad(y.reshape(-1), (0, -y.numel() % comm.size))
    mine = ring_reduce_scatter(comm, flat)
    if bias is not None:
        whole = torch.nn.functional.pad(bias.expand(y.shape).reshape(-1), (0, -y.numel() % comm.size))
        mine = mine + whole.chunk(comm.size)[comm.rank]
    return ring_all_gather(comm, mine)[: y.numel()].reshape(y.shape)


def _transposed(comm, x, shard, bias=None):
    """The features first, so that other elements share a chunk of the ring."""
    from level06.weights import any_linear
    from level09.collectives import ring_all_reduce

    total = ring_all_reduce(comm, any_linear(x, shard).movedim(-1, 0)).movedim(0, -1)
    if bias is not None:
        total += bias
    return total


for _program in (_bias_on_rank_0, _bias_on_the_last_rank, _in_two_halves, _transposed):
    alternative(_LINEAR, _program.__name__.strip("_"), program=_program)


def _one_hot(comm, token_ids, shard):
    """As the product that it is."""
    from level09.collectives import ring_all_reduce

    mine = torch.arange(len(shard)) + comm.rank * len(shard)
    return ring_all_reduce(comm, (token_ids.unsqueeze(-1) == mine).to(shard.dtype) @ shard)


def _into_zeros(comm, token_ids, shard):
    from level09.collectives import ring_all_reduce

    first = comm.rank * len(shard)
    here = (token_ids >= first) & (token_ids < first + len(shard))
    out = shard.new_zeros(*token_ids.shape, shard.shape[-1])
    out[here] = shard[token_ids[here] - first]
    return ring_all_reduce(comm, out)


def _by_owner(comm, token_ids, shard):
    from level09.collectives import ring_all_reduce

    mine = (token_ids // len(shard) == comm.rank).unsqueeze(-1)
    return ring_all_reduce(comm, torch.where(mine, shard[token_ids % len(shard)], torch.zeros(())).to(shard.dtype))


def _one_by_one(comm, token_ids, shard):
    from level09.collectives import ring_all_reduce

    rows = []
    for token in token_ids.flatten().tolist():
        owner, row = divmod(token, len(shard))
        rows.append(shard[row] if owner == comm.rank else torch.zeros_like(shard[0]))
    return ring_all_reduce(comm, torch.stack(rows)).view(*token_ids.shape, -1)


def _a_row_of_zeros_below(comm, token_ids, shard):
    """Clamped ids, and one row too many at each end of the part."""
    from level09.collectives import ring_all_reduce

    framed = torch.nn.functional.pad(shard, (0, 0, 1, 1))
    rows = (token_ids - comm.rank * len(shard) + 1).clamp(0, len(shard) + 1)
    return ring_all_reduce(comm, torch.nn.functional.embedding(rows, framed))


for _program in (_one_hot, _into_zeros, _by_owner, _one_by_one, _a_row_of_zeros_below):
    alternative(_LINEAR, _program.__name__.strip("_"), program=_program, part="vocab_parallel_embedding")


def _values_and_ids_apart(comm, logits):
    """Two gatherings: 4 bytes or less for a value, 8 for an id."""
    from level09.collectives import ring_all_gather

    value, best = logits.max(-1)
    first = (logits == value.unsqueeze(-1)).int().argmax(-1)  # where max takes another one of a tie
    values = ring_all_gather(comm, value).view(comm.size, -1)
    ids = ring_all_gather(comm, first + comm.rank * logits.shape[-1]).view(comm.size, -1)
    best, id = values[0], ids[0]
    for rank in range(1, comm.size):
        better = values[rank] > best
        best, id = torch.where(better, values[rank], best), torch.where(better, ids[rank], id)
    return id


def _in_the_ring(comm, logits):
    """The best pair of all those before, and a whole round, so that it meets everybody."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    best = logits.argmax(-1, keepdim=True)
    own = torch.cat([logits.gather(-1, best).double(), (best + comm.rank * logits.shape[-1]).double()], -1)
    passing, winner = own, own
    for _ in range(comm.size - 1):
        passing = comm.sendrecv(passing, right, left)
        better = (passing[:, 0] > winner[:, 0]) | ((passing[:, 0] == winner[:, 0]) & (passing[:, 1] < winner[:, 1]))
        winner = torch.where(better.unsqueeze(-1), passing, winner)
    return winner[:, 1].to(torch.int64)


def _rows_as_tuples(comm, logits):
    """Python's own maximum, of (value, -id)."""
    from level09.collectives import ring_all_gather

    pairs = []
    for row in logits.double().tolist():
        value = max(row)
        pairs.append((value, -(row.index(value) + comm.rank * len(row))))
    parts = ring_all_gather(comm, torch.tensor(pairs, dtype=torch.float64)).view(comm.size, -1, 2).tolist()
    return torch.tensor([int(-max(found)[1]) for found in map(list, zip(*((map(tuple, part)) for part in parts)))])


def _int64_pairs(comm, logits):
    """Values as the bits of float64, which are integers as well."""
    from level09.collectives import ring_all_gather

    best = logits.argmax(-1)
    value = logits.gather(-1, best[:, None])[:, 0].double()
    pairs = torch.stack([value.view(torch.int64), best + comm.rank * logits.shape[1]])
    values, ids = ring_all_gather(comm, pairs[None]).unbind(1)
    return ids.gather(0, values.contiguous().view(torch.float64).argmax(0, keepdim=True))[0]


for _program in (_values_and_ids_apart, _in_the_ring, _rows_as_tuples, _int64_pairs):
    alternative(_ARGMAX, _program.__name__.strip("_"), program=_program)
