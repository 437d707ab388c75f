"""Right programs, written another way, for level09.expert. `alternative` is given when this is read."""

from collections import Counter

import torch

_ID = "level09.expert.expert_parallel"


def _gates_travel_too(comm, x, expert_ids, gates, experts):
    """Weighed where the expert is, and added up at home as rows come in."""
    from level09.collectives import all_to_all

    n, k = expert_ids.shape
    tokens, flat = torch.arange(n).repeat_interleave(k), expert_ids.flatten()
    places = [(flat // len(experts) == rank).nonzero().flatten() for rank in range(comm.size)]
    rows = all_to_all(comm, [x[tokens[at]] for at in places])
    wanted = all_to_all(comm, [flat[at] - rank * len(experts) for rank, at in enumerate(places)])
    weights = torch.cat(all_to_all(comm, [gates.flatten()[at] for at in places]))
    sizes, rows, wanted = [len(part) for part in rows], torch.cat(rows), torch.cat(wanted)
    done = torch.zeros_like(rows)
    for index, expert in enumerate(experts):
        here = (wanted == index).nonzero().flatten()
        done.index_copy_(0, here, expert(rows[here]) * weights[here].unsqueeze(1))
    out = torch.zeros_like(x)
    for at, part in zip(places, all_to_all(comm, done.split(sizes))):
        out.index_add_(0, tokens[at], part)
    return out


def _a_message_for_each_expert(comm, x, expert_ids, gates, experts):
    """Rows for one of a rank's experts after the other, so that no numbers of experts travel. Idle ones are not called."""
    from level09.collectives import all_to_all

    came = []
    for index in range(len(experts)):
        chosen = [(expert_ids == rank * len(experts) + index).nonzero() for rank in range(comm.size)]
        came.append((chosen, all_to_all(comm, [x[at[:, 0]] for at in chosen])))
    out = torch.zeros_like(x)
    for expert, (chosen, rows) in zip(experts, came):
        sizes, rows = [len(part) for part in rows], torch.cat(rows)
        done = expert(rows) if len(rows) else rows
        for at, part in zip(chosen, all_to_all(comm, list(done.split(sizes)))):
            for (i, j), row in zip(at.tolist(), part):
                out[i] += gates[i, j] * row
    return out


def _choice_after_choice(comm, x, expert_ids, gates, experts):
    """All first choices stand before all second ones; the sort is undone by a sort."""
    from level09.collectives import all_to_all

    each, k = len(experts), expert_ids.shape[1]
    flat = expert_ids.T.reshape(-1)
    order = flat.argsort()
    counts = [int((flat // each == rank).sum()) for rank in range(comm.size)]
    rows = all_to_all(comm, list(x.repeat(k, 1)[order].split(counts)))
    wanted = torch.cat(all_to_all(comm, list(flat[order].split(counts)))) - comm.rank * each
    arrived = torch.cat(rows)
    by_expert = wanted.argsort()
    parts = arrived[by_expert].split(wanted.bincount(minlength=each).tolist())
    done = torch.cat([expert(part) for expert, part in zip(experts, parts)])[by_expert.argsort()]
    home = torch.cat(all_to_all(comm, list(done.split([len(part) for part in rows]))))[order.argsort()]
    return torch.einsum("nk,knd->nd", gates, home.view(k, *x.shape))


def _own_rows_stay(comm, x, expert_ids, gates, experts):
    """Ranks after each other by sendrecv, without all_to_all, and no sort."""
    each, (n, k), d = len(experts), expert_ids.shape, x.shape[-1]
    flat = expert_ids.flatten()
    place = [(flat // each == rank).nonzero()[:, 0] for rank in range(comm.size)]
    mine = place[comm.rank]
    rows, wanted = {comm.rank: x[mine // k]}, {comm.rank: flat[mine] % each}
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        length = int(comm.sendrecv(torch.tensor(len(place[to])), to, source))
        rows[source] = comm.sendrecv(x[place[to] // k], to, source, (length, d))
        wanted[source] = comm.sendrecv(flat[place[to]] % each, to, source, (length,))
    done = {rank: torch.empty_like(part) for rank, part in rows.items()}
    for index, expert in enumerate(experts):
        made = expert(torch.cat([rows[rank][wanted[rank] == index] for rank in range(comm.size)]))
        lengths = [int((wanted[rank] == index).sum()) for rank in range(comm.size)]
        for rank, part in enumerate(made.split(lengths)):
            done[rank][wanted[rank] == index] = part
    choices = x.new_zeros(n * k, d)
    choices[mine] = done[comm.rank]
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        choices[place[source]] = comm.sendrecv(done[to], to, source, (len(place[source]), d))
    return (gates.reshape(n, 1, k) @ choices.view(n, k, d)).squeeze(1)


def _lists_of_rows(comm, x, expert_ids, gates, experts):
    """With Python's own lists, token by token."""
    from level09.collectives import all_to_all

    boxes = [[] for _ in range(comm.size)]
    for i, chosen in enumerate(expert_ids.tolist()):
        for j, e in enumerate(chosen):
            boxes[e // len(experts)].append((i, j, e))
    rows = all_to_all(comm, [x[torch.tensor([i for i, _, _ in box], dtype=torch.int64)] for box in boxes])
    wanted = all_to_all(comm, [torch.tensor([e for _, _, e in box], dtype=torch.int64) for box in boxes])
    done = [torch.empty_like(part) for part in rows]
    for index, expert in enumerate(experts):
        at = [
            (rank, i)
            for rank, part in enumerate(wanted)
            for i, e in enumerate(part.tolist())
            if e % len(experts) == index
        ]
        if at:
            for (rank, i), row in zip(at, expert(torch.stack([rows[rank][i] for rank, i in at]))):
                done[rank][i] = row
    out = torch.zeros_like(x)
    for box, part in zip(boxes, all_to_all(comm, done)):
        for (i, j, _), row in zip(box, part):
            out[i] = out[i] + gates[i, j] * row
    return out


for _program in (
    _gates_travel_too,
    _a_message_for_each_expert,
    _choice_after_choice,
    _own_rows_stay,
    _lists_of_rows,
):
    alternative(_ID, _program.__name__.strip("_"), program=_program)


def _checked(expert_ids, n_experts):
    flat = expert_ids.flatten().tolist()
    if not flat or min(flat) < 0 or max(flat) >= n_experts:
        raise ValueError("at least one token, and experts that exist")
    return flat


def _with_a_counter(expert_ids, n_experts):
    flat = _checked(expert_ids, n_experts)
    return max(Counter(flat).values()) * n_experts / len(flat)


def _one_hot(expert_ids, n_experts):
    _checked(expert_ids, n_experts)
    loads = torch.nn.functional.one_hot(expert_ids.reshape(-1), n_experts).double().mean(0)
    return loads.max().item() * n_experts


def _in_float32(expert_ids, n_experts):
    _checked(expert_ids, n_experts)
    loads = torch.bincount(expert_ids.flatten(), minlength=n_experts).float()
    return (loads.max() / loads.mean()).item()


alternative(_ID, "in_float32", program=_in_float32, part="load_imbalance")
alternative(_ID, "with_a_counter", program=_with_a_counter, part="load_imbalance")
alternative(_ID, "one_hot", program=_one_hot, part="load_imbalance")
