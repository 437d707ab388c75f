"""Known-wrong programs of level09.pipeline. `ghost` is given when this is read."""

_BOUNDS = "bounds = [n_layers * stage // num_stages for stage in range(num_stages + 1)]"
_RANGES = "return [range(start, end) for start, end in zip(bounds, bounds[1:])]"
_STEPS = "steps = range(num_stages + num_micro_batches - 1)"
_AT = "at = [[step - stage for stage in range(num_stages)] for step in steps]"
_TABLE = "return [[m if 0 <= m < num_micro_batches else None for m in row] for row in at]"
_BUBBLE = "return (num_stages - 1) / (num_stages + num_micro_batches - 1)"
_X = "x = micro_batches[index] if comm.rank == 0 else comm.recv(shape, dtype, comm.rank - 1)"
_STAGE = "x = stage(x)"
_LAST = "if comm.rank == comm.size - 1:"
_KEEP = "outputs.append(x)"
_SEND = "comm.send(x, comm.rank + 1)"
_LOOP = "for index in range(num_micro_batches):"
_RETURN = "return outputs"


def _schedule(name, sentence, *pairs):
    ghost("level09.pipeline.pipeline_schedule", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _run(name, sentence, *pairs):
    ghost("level09.pipeline.pipeline_run", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- stage_ranges

_schedule(
    "remainder_dropped",
    "The layers that do not divide evenly are the model's last ones: every layer is on some stage.",
    _BOUNDS,
    "bounds = [n_layers // num_stages * stage for stage in range(num_stages + 1)]",
)
_schedule(
    "remainder_on_the_last",
    "The slowest stage sets the pace: what is left over is shared out, one layer to a stage.",
    _BOUNDS,
    "bounds = [n_layers // num_stages * stage for stage in range(num_stages)] + [n_layers]",
)
_schedule(
    "rounded_up",
    "Rounded up, the first stages take too much and the last ones are short, or have none.",
    _BOUNDS,
    "bounds = [min(n_layers, -(-n_layers // num_stages) * stage) for stage in range(num_stages + 1)]",
)
_schedule(
    "round_robin",
    "Neighbouring layers belong together: dealt out like cards, every layer is another message.",
    _RANGES,
    "return [range(stage, n_layers, num_stages) for stage in range(num_stages)]",
)
_schedule(
    "bounds_for_ranges",
    "Each stage's layers are a range, not a pair of bounds.",
    _RANGES,
    "return list(zip(bounds, bounds[1:]))",
)
_schedule(
    "last_layer_left_out",
    "A range ends before its end: with end - 1 each stage loses a layer.",
    _RANGES,
    "return [range(start, max(start + 1, end - 1)) for start, end in zip(bounds, bounds[1:])]",
)
_schedule(
    "one_layer_each",
    "A stage has its share of all layers: yours takes one layer for each stage.",
    _BOUNDS,
    "bounds = list(range(num_stages)) + [n_layers]",
)

# ---- pipeline_schedule

_schedule(
    "no_overlap",
    "Stage 0 takes the next micro-batch while stage 1 has the first: yours waits for one to leave the pipe.",
    _TABLE,
    "return [\n"
    "        [m if at == stage else None for stage in range(num_stages)]\n"
    "        for m in range(num_micro_batches)\n"
    "        for at in range(num_stages)\n    ]",
)
_schedule(
    "all_stages_at_once",
    "Stage s needs what stage s - 1 has made of the same micro-batch: it has it one step later.",
    _TABLE,
    "return [[m] * num_stages for m in range(num_micro_batches)]",
)
_schedule(
    "does_not_drain",
    "The last micro-batch still has to pass all stages: num_stages - 1 more steps.",
    _STEPS,
    "steps = range(num_micro_batches)",
)
_schedule(
    "one_step_too_many",
    "The last micro-batch leaves in step num_stages + num_micro_batches - 2, counted from 0: the last row has work.",
    _STEPS,
    "steps = range(num_stages + num_micro_batches)",
)
_schedule(
    "rows_are_stages",
    "Rows are steps and columns are stages: yours is the other way round.",
    _TABLE,
    "return [[row[s] if 0 <= row[s] < num_micro_batches else None for row in at] for s in range(num_stages)]",
)
_schedule(
    "last_stage_first",
    "Micro-batches enter at stage 0: yours enter at the last one.",
    _AT,
    "at = [[step - (num_stages - 1 - stage) for stage in range(num_stages)] for step in steps]",
)
_schedule(
    "idle_is_minus_one",
    "An idle stage is None in the table.",
    _TABLE,
    "return [[m if 0 <= m < num_micro_batches else -1 for m in row] for row in at]",
)
_schedule(
    "idle_is_left_out",
    "A row has an entry for every stage, None for an idle one.",
    _TABLE,
    "return [[m for m in row if 0 <= m < num_micro_batches] for row in at]",
)
_schedule(
    "pipe_not_emptied",
    "Behind the last micro-batch stages are idle: yours goes on counting.",
    _TABLE,
    "return [[m if m >= 0 else None for m in row] for row in at]",
)
_schedule(
    "negative_micro_batches",
    "Before its first micro-batch a stage is idle, None: there is none with a negative number.",
    _TABLE,
    "return [[m if m < num_micro_batches else None for m in row] for row in at]",
)
_schedule(
    "a_step_between",
    "What a stage has made is there for the next one in the very next step: yours lets a step pass.",
    _STEPS,
    "steps = range(2 * num_stages + num_micro_batches - 2)",
    _AT,
    "at = [[step - 2 * stage for stage in range(num_stages)] for step in steps]",
)
_schedule(
    "with_a_way_back",
    "Inference is forward only: no micro-batch comes back through the stages.",
    _TABLE,
    "rows = [[m if 0 <= m < num_micro_batches else None for m in row] for row in at]\n"
    "    return rows + [row[::-1] for row in rows]",
)
_schedule(
    "last_one_first",
    "Micro-batches come in order, 0 first.",
    _TABLE,
    "return [[num_micro_batches - 1 - m if 0 <= m < num_micro_batches else None for m in row] for row in at]",
)

# ---- bubble_fraction

_schedule(
    "idle_over_work",
    "A part of all the time, work and idling together: (p - 1) / (m + p - 1), below 1. Yours is in parts of the work.",
    _BUBBLE,
    "return (num_stages - 1) / num_micro_batches",
)
_schedule(
    "a_step_too_many_idle",
    "Filling the pipe takes num_stages - 1 steps: in the last one of those that you count all work.",
    _BUBBLE,
    "return num_stages / (num_stages + num_micro_batches)",
)
_schedule(
    "no_bubble_in_inference",
    "There is no backward pass, but the pipe fills and drains all the same.",
    _BUBBLE,
    "return 0.0",
)
_schedule(
    "filled_and_drained",
    "A stage idles while the pipe fills or while it drains, num_stages - 1 steps together, not twice as many.",
    _BUBBLE,
    "return 2 * (num_stages - 1) / (num_stages + num_micro_batches - 1)",
)
_schedule(
    "utilization",
    "The idle part: yours is the busy one, 1 minus that.",
    _BUBBLE,
    "return num_micro_batches / (num_stages + num_micro_batches - 1)",
)
_schedule(
    "idle_entries",
    "A fraction, 0 to 1: yours counts the idle entries.",
    _BUBBLE,
    "return float(num_stages * (num_stages - 1))",
)
_schedule(
    "idle_over_steps",
    "Idle entries over all entries, steps times stages: yours divides by the steps alone.",
    _BUBBLE,
    "return num_stages * (num_stages - 1) / (num_stages + num_micro_batches - 1)",
)
_schedule(
    "in_percent",
    "A fraction, 0 to 1, not a percentage.",
    _BUBBLE,
    "return 100 * (num_stages - 1) / (num_stages + num_micro_batches - 1)",
)
_schedule(
    "steps_without_the_fill",
    "All steps are num_stages + num_micro_batches - 1: the pipe's filling takes one step less than it has stages.",
    _BUBBLE,
    "return (num_stages - 1) / (num_stages + num_micro_batches)",
)

# ---- pipeline_run

_run(
    "all_before_it_sends",
    "Pass a micro-batch on before the next one: yours computes all first, and the next rank waits.",
    _LAST,
    "if comm.rank >= 0:",
    _RETURN,
    "if comm.rank < comm.size - 1:\n        for x in outputs:\n            comm.send(x, comm.rank + 1)\n"
    "        outputs = []\n    return outputs",
)
_run(
    "all_before_it_begins",
    "One micro-batch at a time: yours receives all of them before it computes, and holds them together.",
    _LOOP,
    "if comm.rank:\n        micro_batches = [comm.recv(shape, dtype, comm.rank - 1) for _ in range(num_micro_batches)]\n    "
    + _LOOP,
    _X,
    "x = micro_batches[index]",
)
_run(
    "reads_ahead",
    "A rank holds one micro-batch: yours receives the next before it computes this one.",
    _LOOP,
    "def get():\n        return comm.recv(shape, dtype, comm.rank - 1)\n\n    ahead = get() if comm.rank else None\n    "
    + _LOOP,
    _X,
    "if comm.rank:\n            x, ahead = ahead, get() if index < num_micro_batches - 1 else None\n"
    "        else:\n            x = micro_batches[index]",
)
_run(
    "takes_the_next_first",
    "A result goes on at once: yours waits for the next micro-batch before it sends, and the next rank waits with it.",
    _LOOP,
    "def get(index):\n        return micro_batches[index] if comm.rank == 0 else comm.recv(shape, dtype, comm.rank - 1)\n\n"
    "    ahead = get(0)\n    " + _LOOP,
    _X,
    "x = ahead",
    _STAGE,
    "x = stage(x)\n        ahead = get(index + 1) if index + 1 < num_micro_batches else None",
)
_run(
    "sends_one_late",
    "A result goes on at once: yours is sent when the next one is done.",
    _LOOP,
    "late = []\n    " + _LOOP,
    _SEND,
    "late.append(x)\n            if len(late) > 1:\n                comm.send(late.pop(0), comm.rank + 1)",
    _RETURN,
    "if late:\n        comm.send(late[0], comm.rank + 1)\n    return outputs",
)
_run(
    "round_the_ring",
    "A pipe is no ring: the last rank keeps its results and sends nothing, and rank 0 has the inputs and receives nothing.",
    _LAST,
    "comm.send(x, (comm.rank + 1) % comm.size)\n        if comm.rank == comm.size - 1:",
    _SEND,
    "pass",
)
_run(
    "results_everywhere",
    "Only the last rank has results: what other stages make is not finished, and their list is empty.",
    f"{_LAST}\n            {_KEEP}\n        else:",
    f"{_KEEP}\n        if comm.rank < comm.size - 1:",
)
_run(
    "results_back_to_rank_0",
    "The results stay on the last rank: yours sends them home as well.",
    _RETURN,
    "if comm.size > 1 and comm.rank == comm.size - 1:\n"
    "        for x in outputs:\n            comm.send(x, 0)\n"
    "    elif comm.size > 1 and comm.rank == 0:\n"
    "        outputs = [comm.recv(shape, dtype, comm.size - 1) for _ in range(num_micro_batches)]\n"
    "    return outputs",
)
_run(
    "results_for_all",
    "Results are wanted on the last rank alone: yours are handed on to every rank.",
    _RETURN,
    "for x in outputs:\n        for other in range(comm.size - 1):\n            comm.send(x, other)\n"
    "    if comm.rank < comm.size - 1:\n"
    "        for _ in range(num_micro_batches):\n            comm.recv(shape, dtype, comm.size - 1)\n"
    "    return outputs",
)
_run(
    "no_stage_on_rank_0",
    "Rank 0 is a stage as well: it has the inputs, and the first layers.",
    _STAGE,
    "x = stage(x) if comm.rank else x",
)
_run(
    "no_stage_on_the_last",
    "The last rank is a stage as well: what it receives is not finished.",
    _STAGE,
    "x = stage(x) if comm.rank < comm.size - 1 else x",
)
_run(
    "passes_its_input_on",
    "What goes on is what this stage has made, not what it was given.",
    _STAGE,
    "given, x = x, stage(x)",
    _SEND,
    "comm.send(given, comm.rank + 1)",
)
_run(
    "stage_twice",
    "Each stage takes a micro-batch once.",
    _STAGE,
    "x = stage(stage(x))",
)
_run(
    "last_rank_reversed",
    "Results come in the order of the inputs.",
    _KEEP,
    "outputs.insert(0, x)",
)
_run(
    "last_micro_batch_only",
    "The results of all micro-batches are returned: yours keeps the last one.",
    _KEEP,
    "outputs = [x]",
)
_run(
    "one_micro_batch",
    "All micro-batches go through the pipe: yours ends after the first.",
    _RETURN,
    "return outputs[:1]",
    _LOOP,
    "for index in range(min(1, num_micro_batches)):",
)
_run(
    "first_micro_batch_always",
    "Each step takes the next micro-batch: yours takes the first every time.",
    _X,
    "x = micro_batches[0] if comm.rank == 0 else comm.recv(shape, dtype, comm.rank - 1)",
)
_run(
    "everyone_reads_the_inputs",
    "The inputs are on rank 0 alone: every other rank receives from the one before it.",
    _X,
    "x = micro_batches[index]\n        if comm.rank:\n            x = comm.recv(shape, dtype, comm.rank - 1)",
)
_run(
    "from_rank_0",
    "A stage receives from the rank before it and sends to the one behind it: yours takes another one.",
    _X,
    "x = micro_batches[index] if comm.rank == 0 else comm.recv(shape, dtype, 0)",
)
_run(
    "alone_it_sends",
    "A rank alone is the first and the last: it keeps its results, and has nobody to send them to.",
    _LAST,
    "if comm.rank and comm.rank == comm.size - 1:",
)
_run(
    "float32_assumed",
    "Messages have the dtype that the caller names.",
    _X,
    "x = micro_batches[index] if comm.rank == 0 else comm.recv(shape, torch.float32, comm.rank - 1)",
)
_run(
    "flat_messages",
    "What a stage is given has the shape that the caller names.",
    _X,
    "x = micro_batches[index] if comm.rank == 0 else comm.recv((shape.numel() if isinstance(shape, torch.Size) else "
    "torch.Size(shape).numel(),), dtype, comm.rank - 1)",
    _SEND,
    "comm.send(x.flatten(), comm.rank + 1)",
)
_run(
    "none_elsewhere",
    "Ranks without results return an empty list, not None.",
    _RETURN,
    "return outputs or None",
)
_run(
    "one_tensor",
    "The results are a list, one tensor for each micro-batch.",
    _RETURN,
    "return torch.stack(outputs) if outputs else outputs",
)
_run(
    "inputs_used_up",
    "The list of inputs is the caller's: read it, and leave it as it is.",
    _X,
    "x = micro_batches.pop(0) if comm.rank == 0 else comm.recv(shape, dtype, comm.rank - 1)",
)
_run(
    "sent_in_pieces",
    "A result is one message: each further one costs a latency.",
    _X,
    "pieces = [] if comm.rank == 0 else [comm.recv(shape[1:], dtype, comm.rank - 1) for _ in range(shape[0])]\n"
    "        x = torch.stack(pieces) if pieces else micro_batches[index]",
    _SEND,
    "for row in x:\n                comm.send(row, comm.rank + 1)",
)
