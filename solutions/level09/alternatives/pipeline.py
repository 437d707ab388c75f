"""Right programs, written another way, for level09.pipeline. `alternative` is given when this is read."""

import torch

_SCHEDULE = "level09.pipeline.pipeline_schedule"
_RUN = "level09.pipeline.pipeline_run"


def _refuse(*numbers):
    if min(numbers) < 1:
        raise ValueError("all are at least 1")


def _longer_ones_first(n_layers, num_stages):
    _refuse(num_stages, n_layers - num_stages + 1)
    size, more = divmod(n_layers, num_stages)
    ranges, start = [], 0
    for stage in range(num_stages):
        ranges.append(range(start, start + size + (stage < more)))
        start = ranges[-1].stop
    return ranges


def _longer_ones_last(n_layers, num_stages):
    _refuse(num_stages, n_layers - num_stages + 1)
    ranges, end = [], n_layers
    for left in range(num_stages, 0, -1):
        ranges.insert(0, range(end + -end // left, end))
        end = ranges[0].start
    return ranges


def _torchs_own(n_layers, num_stages):
    _refuse(num_stages, n_layers - num_stages + 1)
    return [range(int(p[0]), int(p[-1]) + 1) for p in torch.arange(n_layers).tensor_split(num_stages)]


def _rounded(n_layers, num_stages):
    _refuse(num_stages, n_layers - num_stages + 1)
    bounds = [(2 * n_layers * stage + num_stages) // (2 * num_stages) for stage in range(num_stages + 1)]
    return [range(bounds[stage], bounds[stage + 1]) for stage in range(num_stages)]


for _program in (_longer_ones_first, _longer_ones_last, _torchs_own, _rounded):
    alternative(_SCHEDULE, _program.__name__.strip("_"), program=_program, part="stage_ranges")


def _filled_in(num_stages, num_micro_batches):
    """An empty table, then each micro-batch on its diagonal."""
    _refuse(num_stages, num_micro_batches)
    table = [[None] * num_stages for _ in range(num_stages + num_micro_batches - 1)]
    for m in range(num_micro_batches):
        for stage in range(num_stages):
            table[m + stage][stage] = m
    return table


def _shifted(num_stages, num_micro_batches):
    """Each row is the one before it, moved by one stage, with the next micro-batch in front."""
    _refuse(num_stages, num_micro_batches)
    row, table = [None] * num_stages, []
    for step in range(num_stages + num_micro_batches - 1):
        row = [step if step < num_micro_batches else None, *row[:-1]]
        table.append(row)
    return table


def _by_stages(num_stages, num_micro_batches):
    """What each stage does over time, turned round."""
    _refuse(num_stages, num_micro_batches)
    columns = [
        [None] * stage + list(range(num_micro_batches)) + [None] * (num_stages - 1 - stage)
        for stage in range(num_stages)
    ]
    return [list(row) for row in zip(*columns)]


for _program in (_filled_in, _shifted, _by_stages):
    alternative(_SCHEDULE, _program.__name__.strip("_"), program=_program)


def _one_minus_the_work(num_stages, num_micro_batches):
    _refuse(num_stages, num_micro_batches)
    return 1 - num_micro_batches / (num_micro_batches + num_stages - 1)


def _counted(num_stages, num_micro_batches):
    from level09.pipeline import pipeline_schedule

    entries = [m for row in pipeline_schedule(num_stages, num_micro_batches) for m in row]
    return sum(m is None for m in entries) / len(entries)


alternative(_SCHEDULE, "one_minus_the_work", program=_one_minus_the_work, part="bubble_fraction")
alternative(_SCHEDULE, "counted", program=_counted, part="bubble_fraction")


def _three_kinds_of_ranks(comm, stage, micro_batches, num_micro_batches, shape, dtype):
    if comm.size == 1:
        return [stage(x) for x in micro_batches]
    if comm.rank == 0:
        for x in micro_batches:
            comm.send(stage(x), 1)
        return []
    outputs = []
    for _ in range(num_micro_batches):
        x = stage(comm.recv(shape, dtype, comm.rank - 1))
        if comm.rank < comm.size - 1:
            comm.send(x, comm.rank + 1)
        else:
            outputs.append(x)
    return outputs


def _sends_and_receives_at_once(comm, stage, micro_batches, num_micro_batches, shape, dtype):
    """A result leaves while the next input comes, between two micro-batches."""
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if first or last:
        outputs = []
        for index in range(num_micro_batches):
            x = stage(micro_batches[index] if first else comm.recv(shape, dtype, comm.rank - 1))
            outputs.append(x) if last else comm.send(x, comm.rank + 1)
        return outputs
    x = stage(comm.recv(shape, dtype, comm.rank - 1))
    for _ in range(num_micro_batches - 1):
        x = stage(comm.sendrecv(x, comm.rank + 1, comm.rank - 1, shape))
    comm.send(x, comm.rank + 1)
    return []


def _as_streams(comm, stage, micro_batches, num_micro_batches, shape, dtype):
    """Where they come from, as a generator; where they go, as a function."""

    def arriving():
        for index in range(num_micro_batches):
            yield micro_batches[index] if not comm.rank else comm.recv(shape, dtype, comm.rank - 1)

    outputs = []
    leave = outputs.append if comm.rank + 1 == comm.size else lambda x: comm.send(x, comm.rank + 1)
    for x in map(stage, arriving()):
        leave(x)
    return outputs


def _by_the_schedule(comm, stage, micro_batches, num_micro_batches, shape, dtype):
    """Step by step, what the table says."""
    outputs = []
    for step in range(comm.size + num_micro_batches - 1):
        index = step - comm.rank
        if not 0 <= index < num_micro_batches:
            continue
        x = stage(comm.recv(shape, dtype, comm.rank - 1) if comm.rank else micro_batches[index])
        if comm.rank == comm.size - 1:
            outputs += [x]
        else:
            comm.send(x, comm.rank + 1)
    return outputs


for _program in (_three_kinds_of_ranks, _sends_and_receives_at_once, _as_streams, _by_the_schedule):
    alternative(_RUN, _program.__name__.strip("_"), program=_program)
