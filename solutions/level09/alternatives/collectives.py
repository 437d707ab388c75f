"""Right programs, written another way, for level09.collectives. `alternative` is given when this is read."""

import torch


def _whole(x, size):
    if x.dim() == 0 or x.shape[0] % size:
        raise ValueError("the first axis does not split")
    return x.shape[0] // size


def _in_a_copy(comm, x):
    """Partial sums are written into a copy of x, and sent from there."""
    k, n, r = _whole(x, comm.size), comm.size, comm.rank
    held = x.clone().view(n, k, *x.shape[1:]) if x.numel() else x.new_zeros(n, k, *x.shape[1:])
    for step in range(n - 1):
        out, into = (r - 1 - step) % n, (r - 2 - step) % n
        held[into] += comm.sendrecv(held[out], (r + 1) % n, (r - 1) % n)
    return held[r]


def _even_and_odd(comm, x):
    """Blocking sends and receives: rank 0 receives first, all others send first."""
    k, n, r = _whole(x, comm.size), comm.size, comm.rank
    right, left = (r + 1) % n, (r + n - 1) % n

    def chunk(i):
        return x[i % n * k : (i % n + 1) * k].contiguous()

    partial = chunk(r - 1)
    for step in range(2, n + 1):
        if r == 0:
            came = comm.recv(partial.shape, partial.dtype, left)
            comm.send(partial, right)
        else:
            comm.send(partial, right)
            came = comm.recv(partial.shape, partial.dtype, left)
        partial = chunk(r - step) + came
    return partial


def _rolled(comm, x):
    """Chunks in the order in which this rank needs them: roll once, then pop."""
    k, n = _whole(x, comm.size), comm.size
    chunks = [x[i * k : (i + 1) * k] for i in range(n)]
    mine = [chunks[(comm.rank + 1 + i) % n] for i in range(n)]  # the last two are rank - 1 and rank
    mine.insert(0, mine.pop())  # rank, rank + 1, .. , rank - 1
    travelling = mine.pop()
    while mine:
        came = comm.sendrecv(travelling, (comm.rank + 1) % n, (comm.rank - 1) % n)
        travelling = torch.add(mine.pop(), came)
    return travelling


def _recursive(comm, x):
    k, n, r = _whole(x, comm.size), comm.size, comm.rank

    def sum_after(steps, chunk):
        mine = x.narrow(0, chunk % n * k, k)
        if steps == 0:
            return mine
        before = sum_after(steps - 1, chunk + 1)
        return mine + comm.sendrecv(before, (r + 1) % n, (r - 1) % n)

    return sum_after(n - 1, r)


for _name, _program in {
    "in_a_copy": _in_a_copy,
    "even_and_odd": _even_and_odd,
    "rolled": _rolled,
    "recursive": _recursive,
}.items():
    alternative("level09.collectives.ring_reduce_scatter", _name, program=_program)
alternative(
    "level09.collectives.ring_reduce_scatter",
    "own_part_first",
    change=(
        "partial = comm.sendrecv(partial, right, left) + chunks[(left - step) % comm.size]",
        "partial = chunks[(comm.rank - 1 - step) % comm.size] + comm.sendrecv(partial, right, left, partial.shape)",
    ),
)
alternative(
    "level09.collectives.ring_reduce_scatter",
    "negative_indices",
    change=("chunks[(left - step) % comm.size]", "chunks[(comm.rank + 2 * comm.size - step - 1) % comm.size]"),
)

# ---- ring_all_gather, judged with ring_all_reduce


def _into_one_tensor(comm, shard):
    n, r = comm.size, comm.rank
    whole = shard.new_empty(n, *shard.shape)
    whole[r] = shard
    for step in range(n - 1):
        whole[(r - step - 1) % n] = comm.sendrecv(whole[(r - step) % n], (r + 1) % n, (r - 1) % n)
    return whole.flatten(0, 1)


def _backwards_and_rolled(comm, shard):
    came = [shard]
    for _ in range(comm.size - 1):
        came.insert(0, comm.sendrecv(came[0], (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size))
    return torch.cat(came[comm.size - 1 - comm.rank :] + came[: comm.size - 1 - comm.rank])


def _by_owner(comm, shard):
    """A dictionary of owners; rank 0 receives first."""
    held, owner = {comm.rank: shard}, comm.rank
    while len(held) < comm.size:
        right, left, theirs = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size, (owner - 1) % comm.size
        if comm.rank == 0:
            held[theirs] = comm.recv(shard.shape, shard.dtype, left)
            comm.send(held[owner], right)
        else:
            comm.send(held[owner], right)
            held[theirs] = comm.recv(shard.shape, shard.dtype, left)
        owner = theirs
    return torch.cat([held[rank] for rank in sorted(held)])


for _name, _program in {
    "into_one_tensor": _into_one_tensor,
    "backwards_and_rolled": _backwards_and_rolled,
    "by_owner": _by_owner,
}.items():
    alternative("level09.collectives.ring_all_reduce", _name, program=_program, part="ring_all_gather")

# ---- ring_all_reduce


def _one_loop(comm, x):
    """Both halves in one table of chunks, without the other two functions: sums for size - 1 steps, then copies."""
    n, r = comm.size, comm.rank
    k = -(-x.numel() // n)
    table = x.new_zeros(n * k)
    table[: x.numel()] = x.reshape(-1)
    table = table.view(n, k)
    for step in range(2 * (n - 1)):
        out = (r - step) % n
        into = (out - 1) % n
        came = comm.sendrecv(table[out], (r + 1) % n, (r - 1) % n)
        table[into] = table[into] + came if step < n - 1 else came
    return table.view(-1)[: x.numel()].reshape(x.shape)


alternative("level09.collectives.ring_all_reduce", "one_loop", program=_one_loop)
alternative(
    "level09.collectives.ring_all_reduce",
    "pad_and_unflatten",
    change=[
        (
            "padded = torch.cat([flat, flat.new_zeros(-len(flat) % comm.size)])",
            "padded = torch.nn.functional.pad(flat, (0, -flat.numel() % comm.size))",
        ),
        ("return total[: len(flat)].view(x.shape)", "return total.narrow(0, 0, x.numel()).reshape(x.shape)"),
    ],
)
alternative(
    "level09.collectives.ring_all_reduce",
    "a_row_for_each_rank",
    change=[
        (
            "total = ring_all_gather(comm, ring",
            "rows = padded.view(comm.size, -1)\n    total = ring_all_gather(comm, ring",
        ),
        ("ring_reduce_scatter(comm, padded))", "ring_reduce_scatter(comm, rows)).flatten()"),
    ],
)
alternative(
    "level09.collectives.ring_all_reduce",
    "one_rank_alone",
    change=("flat = x.flatten()", "if comm.size == 1:\n        return x\n    flat = x.reshape(-1)"),
)

# ---- all_to_all


def _lengths_first(comm, chunks):
    """All lengths, then all chunks."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    n, r = comm.size, comm.rank
    lengths = {}
    for step in range(1, n):
        mine = torch.tensor(chunks[(r + step) % n].shape[0])
        lengths[(r - step) % n] = comm.sendrecv(mine, (r + step) % n, (r - step) % n).item()
    result = [chunks[r] if j == r else None for j in range(n)]
    for step in reversed(range(1, n)):
        source = (r - step) % n
        shape = (lengths[source], *chunks[r].shape[1:])
        result[source] = comm.sendrecv(chunks[(r + step) % n], (r + step) % n, source, shape)
    return result


def _with_a_table(comm, chunks):
    """The lengths of all ranks go round the ring as a table; each chunk goes straight, and an empty one not at all."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    n, r = comm.size, comm.rank
    table, passing = {}, torch.tensor([len(x) for x in chunks])
    table[r] = passing
    for step in range(1, n):
        passing = comm.sendrecv(passing, (r + 1) % n, (r - 1) % n)
        table[(r - step) % n] = passing
    result = [chunks[r]] * n
    for step in range(1, n):
        to, source = (r + step) % n, (r - step) % n
        shape = (int(table[source][r]), *chunks[r].shape[1:])
        if len(chunks[to]) and shape[0]:
            result[source] = comm.sendrecv(chunks[to], to, source, shape)
        elif len(chunks[to]):
            comm.send(chunks[to], to)
        elif shape[0]:
            result[source] = comm.recv(shape, chunks[r].dtype, source)
        if not shape[0]:
            result[source] = chunks[r][:0]
    return result


def _pairs_in_turn(comm, chunks):
    """Every pair of ranks meets once, in an order that is the same everywhere; the lower one sends first."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    result = list(chunks)
    for low in range(comm.size):
        for high in range(low + 1, comm.size):
            other = high if comm.rank == low else low
            if comm.rank not in (low, high):
                continue
            count = torch.tensor([len(chunks[other])])
            if comm.rank == low:
                comm.send(count, other)
                comm.send(chunks[other], other)
            rows = int(comm.recv((1,), torch.int64, other))
            came = comm.recv((rows, *chunks[other].shape[1:]), chunks[other].dtype, other)
            if comm.rank == high:
                comm.send(count, other)
                comm.send(chunks[other], other)
            result[other] = came
    return result


def _each_rank_in_turn(comm, chunks):
    """Rank 0 sends to everybody, then rank 1, ..."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    result = []
    for sender in range(comm.size):
        if sender != comm.rank:
            rows = comm.recv((), torch.int32, sender)
            result.append(comm.recv((int(rows), *chunks[0].shape[1:]), chunks[0].dtype, sender))
            continue
        result.append(chunks[sender])
        for other in range(comm.size):
            if other != sender:
                comm.send(torch.tensor(len(chunks[other]), dtype=torch.int32), other)
                comm.send(chunks[other], other)
    return result


for _name, _program in {
    "lengths_first": _lengths_first,
    "with_a_table": _with_a_table,
    "pairs_in_turn": _pairs_in_turn,
    "each_rank_in_turn": _each_rank_in_turn,
}.items():
    alternative("level09.collectives.all_to_all", _name, program=_program)
alternative(
    "level09.collectives.all_to_all",
    "to_the_left_first",
    change=[
        (
            "to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size",
            "to, source = (comm.rank - step) % comm.size, (comm.rank + step) % comm.size",
        )
    ],
)
