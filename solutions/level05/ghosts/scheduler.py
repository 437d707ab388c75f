"""Known-wrong programs of level05.scheduler. `ghost` is given when this is read."""


def _static(name, sentence, *change, **how):
    ghost("level05.scheduler.static_trace", name, sentence, change=change, **how)


SORT = "queue = sorted(requests, key=lambda request: (request.arrival, request.id))"
BATCH = "batch = [request for request in queue if request.arrival <= len(trace)][:max_batch]"
LONGEST = "range(max(request.output_len for request in batch))"
STEP = "trace.append([request.id for request in batch if step < request.output_len])"
IDLE = "        if not batch:\n            trace.append([])\n            continue\n"

# ---- static_trace: when a batch begins, and who is in it
_static(
    "refills_freed_slots",
    "That is continuous batching; a static batch is closed until its longest request ends.",
    program=lambda requests, max_batch: _slots(requests, max_batch),
)
_static(
    "fills_up_a_running_batch",
    "Nobody joins a batch that runs, even if it has begun with slots to spare.",
    program=lambda requests, max_batch: _slots(requests, max_batch, used="ever"),
)
_static(
    "waits_for_a_full_batch",
    "Begin with those that are there; waiting until the batch is full is a different policy.",
    "        if not batch:\n",
    "        if len(batch) < min(max_batch, len(queue)):\n",
)
_static(
    "waits_for_everybody",
    "A batch takes those that have arrived; it does not wait for requests that nobody has made yet.",
    "        if not batch:\n",
    "        if queue[-1].arrival > len(trace):\n",
)
_static(
    "one_arrival_step_only",
    "All that wait when the machine is free go into the batch, whichever step each has come in.",
    BATCH,
    "batch = [r for r in queue if r.arrival == min(queue[0].arrival, len(trace)) <= len(trace)][:max_batch]",
)
_static(
    "ignores_arrival",
    "A request can't run before its arrival step.",
    BATCH,
    "batch = queue[:max_batch]",
)
_static(
    "one_step_late",
    "A request may run from step `arrival` on, that step included.",
    BATCH,
    BATCH.replace("<=", "<"),
)
_static(
    "batches_without_limit",
    "A batch has room for max_batch requests; the others wait for the next.",
    BATCH,
    BATCH.replace("[:max_batch]", ""),
)
_static(
    "one_too_many",
    "max_batch requests fit, and not one more.",
    BATCH,
    BATCH.replace("[:max_batch]", "[: max_batch + 1]"),
)
_static(
    "drops_the_last_batch",
    "The last requests need not fill a batch: they are served all the same.",
    "    while queue:",
    "    while len(queue) >= max_batch:",
)
_static(
    "skips_idle_steps",
    "A step in which nobody runs is a step: it is in the trace, empty.",
    program=lambda requests, max_batch: [step for step in _closed(requests, max_batch) if step],
)
_static(
    "clock_of_batches",
    "Arrivals are steps: time goes on by a step for every token of the longest, not by one for each batch.",
    program=lambda requests, max_batch: _closed(requests, max_batch, took=lambda batch: 1),
)

# ---- static_trace: in which order
_static(
    "ties_in_list_order",
    "Of those that arrive in the same step the smaller id comes first, wherever it stands in the list.",
    SORT,
    "queue = sorted(requests, key=lambda request: request.arrival)",
)
_static(
    "list_order",
    "The list may be in any order: sort it by (arrival, id) first.",
    program=lambda requests, max_batch: _closed(requests, max_batch, key=lambda request: 0),
)
_static(
    "by_id",
    "First come, first served: the arrival decides, and the id only where arrivals are equal.",
    program=lambda requests, max_batch: _closed(requests, max_batch, key=lambda request: request.id),
)
_static(
    "shortest_first",
    "Take them by (arrival, id): how long an answer gets is not known when its request comes.",
    program=lambda requests, max_batch: _closed(
        requests, max_batch, key=lambda request: (request.output_len, request.arrival, request.id)
    ),
)
_static(
    "latest_first",
    "The earliest request comes first; yours serves the newest.",
    program=lambda requests, max_batch: _closed(
        requests, max_batch, key=lambda request: (-request.arrival, request.id)
    ),
)
_static(
    "ids_sorted_in_a_step",
    "In a step the ids stand in the order in which the batch took them, by (arrival, id).",
    STEP,
    "trace.append(sorted(request.id for request in batch if step < request.output_len))",
)
_static(
    "sorts_the_argument",
    "Sort a copy: the caller's list is not yours to reorder.",
    SORT,
    "requests.sort(key=lambda request: (request.arrival, request.id)); queue = requests",
)

# ---- static_trace: how long it lasts
_static(
    "finished_rows_still_work",
    "A finished row burns a slot but emits nothing: it is waste, not work.",
    STEP,
    STEP.replace(" if step < request.output_len", ""),
)
_static(
    "ends_with_the_shortest",
    "A batch ends when its longest member is done: the others' tokens would be lost.",
    LONGEST,
    LONGEST.replace("max(", "min("),
)
_static(
    "ends_with_the_first",
    "The longest member decides how long a batch lasts, whichever it is; yours asks the first.",
    LONGEST,
    "range(batch[0].output_len)",
)
_static(
    "one_after_the_other",
    "The members of a batch run side by side: it lasts as long as the longest, not as all together.",
    LONGEST,
    LONGEST.replace("max(", "sum("),
)
_static(
    "a_pause_between_batches",
    "The next batch begins in the step after the last token: nothing lies between.",
    LONGEST,
    LONGEST.replace("range(", "range(1 + "),
)
_static(
    "one_token_too_many",
    "A request emits output_len tokens, in steps 0 to output_len - 1 of its batch.",
    f"{LONGEST}:\n            {STEP}",
    f"{LONGEST.replace('range(', 'range(1 + ')}:\n            {STEP.replace('<', '<=')}",
)
_static(
    "prefill_takes_a_step",
    "A request emits its first token in the step in which it begins: here a prompt takes no step of its own.",
    "        for step in range",
    "        trace.append([])\n        for step in range",
)
_static(
    "a_row_for_each_batch",
    "The trace has an entry for every step, not for every batch.",
    f"        for step in {LONGEST}:\n            {STEP}\n",
    "        trace.append([request.id for request in batch])\n",
)
_static(
    "counts_not_ids",
    "An entry lists the ids that emit a token, not how many there are.",
    STEP,
    "trace.append(sum(step < request.output_len for request in batch))",
)


def _closed(requests, max_batch, key=lambda request: (request.arrival, request.id), took=None):
    """A right trace of closed batches, with places where it can be made wrong."""
    if max_batch < 1:
        raise ValueError("no room")
    waiting, trace, now = list(requests), [], 0
    while waiting:
        batch = sorted((request for request in waiting if request.arrival <= now), key=key)[:max_batch]
        if not batch:
            trace.append([])
            now += 1
            continue
        waiting = [request for request in waiting if request not in batch]
        steps = max(request.output_len for request in batch)
        now += took(batch) if took else steps
        trace += [[request.id for request in batch if step < request.output_len] for step in range(steps)]
    return trace


def _slots(requests, max_batch, used="now", key=lambda request: (request.arrival, request.id)):
    """Refilled slots; with used="ever" a slot is free again only when all are."""
    if max_batch < 1:
        raise ValueError("no room")
    waiting, running, taken, trace = list(requests), [], 0, []
    while waiting or running:
        taken = len(running) if used == "now" or not running else taken
        for request in sorted((r for r in waiting if r.arrival <= len(trace)), key=key)[: max_batch - taken]:
            waiting.remove(request)
            running.append([request.id, request.output_len])
            taken += 1
        trace.append([id for id, _ in running])
        running = [[id, left - 1] for id, left in running if left > 1]
    return trace


# ---- continuous_trace


def _continuous(name, sentence, *change, **how):
    ghost("level05.scheduler.continuous_trace", name, sentence, change=change, **how)


WHILE = "while queue and queue[0].arrival <= len(trace) and len(left) < max_batch:"
LET_GO = "left = {id: n - 1 for id, n in left.items() if n > 1}"
ADMIT = f"        {WHILE}\n            request = queue.pop(0)\n            left[request.id] = request.output_len\n"

_continuous(
    "slot_free_one_step_late",
    "A request that ended in step t frees its slot for step t + 1.",
    f"        trace.append(list(left))\n        {LET_GO}",
    "        trace.append([id for id, n in left.items() if n > 0])\n"
    "        left = {id: n - 1 for id, n in left.items() if n > (0 if queue else 1)}",
)
_continuous(
    "waits_for_the_batch",
    "That is a static batch: here a free slot is refilled while the others go on.",
    f"        {WHILE}",
    f"        room = max_batch if not left else 0\n        {WHILE.replace('max_batch', 'room')}",
)
_continuous(
    "only_joins_while_there_is_room_at_first",
    "A slot whose request has ended is free for another one, though the batch it began with still runs.",
    f"        {WHILE}",
    "        used = (used if left else 0) if trace else 0\n"
    f"        {WHILE.replace('len(left) < max_batch', 'used < max_batch')}\n            used += 1",
)
_continuous(
    "waits_for_a_full_machine",
    "Run those that are there: an empty slot is no reason to wait.",
    f"        {WHILE}",
    "        there = sum(request.arrival <= len(trace) for request in queue)\n"
    "        if len(left) + there < min(max_batch, len(left) + len(queue)) and not left:\n"
    "            trace.append([])\n            continue\n"
    f"        {WHILE}",
)
_continuous(
    "forgets_who_waits",
    "Whoever finds no free slot waits for one: a request is not gone after the step of its arrival.",
    "        trace.append(list(left))\n",
    "        queue = [request for request in queue if request.arrival > len(trace)]\n        trace.append(list(left))\n",
)
_continuous(
    "ignores_arrival",
    "A request can't run before its arrival step.",
    WHILE,
    WHILE.replace(" and queue[0].arrival <= len(trace)", ""),
)
_continuous(
    "one_step_late",
    "A request may run from step `arrival` on, that step included.",
    WHILE,
    WHILE.replace("<=", "<"),
)
_continuous(
    "one_admission_per_step",
    "Fill every free slot before a step, not one of them.",
    WHILE,
    WHILE.replace("while", "if", 1),
)
_continuous(
    "unlimited_slots",
    "No more than max_batch requests run at once; the others wait for a slot.",
    WHILE,
    WHILE.replace(" and len(left) < max_batch", ""),
)
_continuous(
    "one_slot_too_many",
    "max_batch slots, and not one more.",
    WHILE,
    WHILE.replace("len(left) <", "len(left) <="),
)
_continuous(
    "shortest_first",
    "First come, first served: the output length is not known in advance.",
    program=lambda requests, max_batch: _slots(
        requests, max_batch, key=lambda request: (request.output_len, request.arrival, request.id)
    ),
)
_continuous(
    "latest_first",
    "First come, first served: yours lets the newest overtake, and the oldest may wait for ever.",
    program=lambda requests, max_batch: _slots(requests, max_batch, key=lambda request: (-request.arrival, request.id)),
)
_continuous(
    "by_id",
    "First come, first served: the arrival decides, and the id only where arrivals are equal.",
    program=lambda requests, max_batch: _slots(requests, max_batch, key=lambda request: request.id),
)
_continuous(
    "list_order",
    "The list may be in any order: sort it by (arrival, id) first.",
    program=lambda requests, max_batch: _slots(requests, max_batch, key=lambda request: 0),
)
_continuous(
    "blocked_by_the_list",
    "Whoever has arrived may run: a request that stands earlier in the list but comes later must not hold it up.",
    SORT,
    "queue = list(requests)",
)
_continuous(
    "ties_in_list_order",
    "Of those that arrive in the same step the smaller id comes first, wherever it stands in the list.",
    SORT,
    "queue = sorted(requests, key=lambda request: request.arrival)",
)
_continuous(
    "slot_order",
    "In a step the ids stand in the order of admission: whoever gets a freed slot stands last, not in its place.",
    program=lambda requests, max_batch: _refilled_in_place(requests, max_batch),
    convention=True,
)
_continuous(
    "ids_sorted_in_a_step",
    "In a step the ids stand in the order of admission, and not by their size.",
    "trace.append(list(left))",
    "trace.append(sorted(left))",
)
_continuous(
    "newest_first_in_a_step",
    "In a step the ids stand in the order of admission, the oldest first.",
    "trace.append(list(left))",
    "trace.append(list(left)[::-1])",
)
_continuous(
    "takes_turns",
    "Who is admitted keeps its slot, and its cache, until it is done: nobody takes turns.",
    program=lambda requests, max_batch: _round_robin(requests, max_batch),
)
_continuous(
    "emits_before_it_admits",
    "Refill before the step: whoever is admitted emits its first token in that very step.",
    f"{ADMIT}        trace.append(list(left))\n        {LET_GO}",
    f"        trace.append(list(left))\n        {LET_GO}\n{ADMIT}",
)
_continuous(
    "removes_while_it_walks",
    "Removing from a list while walking along it skips the next one: build the list of those that stay.",
    program=lambda requests, max_batch: _removing(requests, max_batch),
)
_continuous(
    "one_list_for_all_steps",
    "Append a copy: all steps of the trace are one and the same list, which ends up empty.",
    program=lambda requests, max_batch: _aliased(requests, max_batch),
)
_continuous(
    "one_token_too_many",
    "A request emits output_len tokens: with its last one it has ended.",
    LET_GO,
    LET_GO.replace("n > 1", "n > 0"),
)
_continuous(
    "one_token_too_few",
    "A request emits output_len tokens, the one of its first step included.",
    LET_GO,
    LET_GO.replace("n > 1", "n > 2"),
)
_continuous(
    "ends_with_the_queue",
    "When the queue is empty those that run still have tokens to emit.",
    "while queue or left:",
    "while queue:",
)
_continuous(
    "stops_at_the_first_pause",
    "An idle step is not the end: later arrivals are still to come.",
    "        trace.append(list(left))\n",
    "        if trace and trace[-1] and not left:\n            break\n        trace.append(list(left))\n",
)
_continuous(
    "skips_idle_steps",
    "A step in which nobody runs is a step: it is in the trace, empty.",
    program=lambda requests, max_batch: [step for step in _slots(requests, max_batch) if step],
)
_continuous(
    "a_last_empty_step",
    "The trace ends with the last token.",
    "    return trace\n",
    "    return [*trace, []]\n",
)
_continuous(
    "sorts_the_argument",
    "Sort a copy: the caller's list is not yours to reorder, nor to empty.",
    SORT,
    "requests.sort(key=lambda request: (request.arrival, request.id)); queue = requests",
)


def _refilled_in_place(requests, max_batch):
    if max_batch < 1:
        raise ValueError("no room")
    queue = sorted(requests, key=lambda request: (request.arrival, request.id))
    slots, trace = [None] * max_batch, []
    while queue or any(slots):
        for i, slot in enumerate(slots):
            if not slot and queue and queue[0].arrival <= len(trace):
                request = queue.pop(0)
                slots[i] = [request.id, request.output_len]
        trace.append([slot[0] for slot in slots if slot])
        slots = [[slot[0], slot[1] - 1] if slot and slot[1] > 1 else None for slot in slots]
    return trace


def _round_robin(requests, max_batch):
    if max_batch < 1:
        raise ValueError("no room")
    coming = sorted(requests, key=lambda request: (request.arrival, request.id))
    ready, trace = [], []
    while coming or ready:
        while coming and coming[0].arrival <= len(trace):
            ready.append([coming[0].id, coming.pop(0).output_len])
        now, ready = ready[:max_batch], ready[max_batch:]
        trace.append([id for id, _ in now])
        ready += [[id, left - 1] for id, left in now if left > 1]
    return trace


def _removing(requests, max_batch):
    if max_batch < 1:
        raise ValueError("no room")
    queue = sorted(requests, key=lambda request: (request.arrival, request.id))
    running, left, trace = [], {}, []
    while queue or running:
        while queue and queue[0].arrival <= len(trace) and len(running) < max_batch:
            left[queue[0].id] = queue[0].output_len
            running.append(queue.pop(0).id)
        trace.append(list(running))
        for id in running:
            left[id] -= 1
            if left[id] <= 0:
                running.remove(id)
    return trace


def _aliased(requests, max_batch):
    if max_batch < 1:
        raise ValueError("no room")
    queue = sorted(requests, key=lambda request: (request.arrival, request.id))
    running, left, trace = [], {}, []
    while queue or running:
        while queue and queue[0].arrival <= len(trace) and len(running) < max_batch:
            left[queue[0].id] = queue[0].output_len
            running.append(queue.pop(0).id)
        trace.append(running)
        for id in list(running):
            left[id] -= 1
            if not left[id]:
                running.remove(id)
    return trace


# ---- utilization, a part of continuous_trace


def _used(name, sentence, new):
    old = "return sum(map(len, trace)) / (len(trace) * max_batch)"
    ghost("level05.scheduler.continuous_trace", name, sentence, change=(old, f"return {new}"))


_used(
    "per_request",
    "Count slots of steps, used ones over all of them: a request uses one in each of its steps.",
    "len({id for step in trace for id in step}) / max_batch",
)
_used(
    "each_request_once",
    "A request that emits in several steps uses a slot in each of them: don't count it once.",
    "len({id for step in trace for id in step}) / (len(trace) * max_batch)",
)
_used(
    "peak",
    "The fullest step hides all others: take the share over the whole trace.",
    "max(map(len, trace)) / max_batch",
)
_used(
    "skips_idle_steps_in_the_mean",
    "An idle step is the worst step; it counts.",
    "sum(map(len, trace)) / (max(1, sum(map(bool, trace))) * max_batch)",
)
_used(
    "only_idle_steps",
    "An idle step counts: without the empty steps nothing may be left to divide by.",
    "sum(map(len, trace)) / (sum(map(bool, trace)) * max_batch)",
)
_used(
    "until_the_last_token",
    "All steps of the trace count, those after its last token as well.",
    "sum(map(len, trace)) / (max([1, *(i for i, step in enumerate(trace, 1) if step)]) * max_batch)",
)
_used(
    "busy_steps",
    "A step with one slot in use is not full: count slots, not steps in which somebody ran.",
    "sum(map(bool, trace)) / len(trace)",
)
_used(
    "full_steps",
    "A step that is partly full counts for the part: count slots, not steps that were full.",
    "sum(len(step) == max_batch for step in trace) / len(trace)",
)
_used(
    "of_the_widest_step",
    "All slots are max_batch in every step, whether or not a trace ever fills them.",
    "sum(map(len, trace)) / (len(trace) * max(1, *map(len, trace), 0))",
)
_used(
    "mean_batch",
    "A share, at most 1: divide the mean number of running requests by max_batch.",
    "sum(map(len, trace)) / len(trace)",
)
_used(
    "tokens_per_slot",
    "All slots over all steps: divide by the number of steps as well.",
    "sum(map(len, trace)) / max_batch",
)
_used(
    "waste",
    "The share that was used is asked for; yours is the share that was wasted.",
    "1 - sum(map(len, trace)) / (len(trace) * max_batch)",
)
_used(
    "percent",
    "A share between 0 and 1, not a percentage.",
    "100 * sum(map(len, trace)) / (len(trace) * max_batch)",
)
_used(
    "whole_share",
    "A share is seldom a whole number: divide with /.",
    "sum(map(len, trace)) // (len(trace) * max_batch)",
)
_used(
    "upside_down",
    "Used slots over all slots, not the other way round.",
    "len(trace) * max_batch / (sum(map(len, trace)) or 1)",
)


# ---- plan_step


def _plan(name, sentence, *change, **how):
    """`change` is old and new, or pairs of them."""
    ghost("level05.scheduler.plan_step", name, sentence, change=change, **how)


ORDER = "(*decoding, *filling, *admitted)"
DECODING = "decoding = [sequence for sequence in running if sequence.decoding]"
FILLING = "filling = [sequence for sequence in running if not sequence.decoding]"
ADMITTED = "admitted = waiting[: max(0, max_seqs - len(running))]"
TOKENS = "tokens = min(sequence.pending, left)"
STOP = "        if not left:\n            break\n"
SPEND = "left -= tokens"
APPEND = "plan.append((sequence.id, tokens))"

# ---- plan_step: who comes first
_plan(
    "prefill_first",
    "A long prompt then stalls every running stream: decodes go first.",
    ORDER,
    "(*filling, *admitted, *decoding)",
)
_plan(
    "running_prefill_first",
    "Sequences that decode go before a prompt that is half done, too: a token each, and a user watches it.",
    ORDER,
    "(*filling, *decoding, *admitted)",
)
_plan(
    "new_prompts_first",
    "Strictly prefill-first starves the streams: while new prompts keep coming, nobody decodes.",
    ORDER,
    "(*admitted, *decoding, *filling)",
)
_plan(
    "new_before_half_done",
    "Finish prompts that run before new ones begin: each holds a cache, and its user has waited longer.",
    ORDER,
    "(*decoding, *admitted, *filling)",
)
_plan(
    "as_they_run",
    "Running sequences are of two kinds: those that decode go first, wherever they stand in the list.",
    ORDER,
    "(*running, *admitted)",
)
_plan(
    "shortest_prompt_first",
    "Waiting prompts keep their order: with the shortest first, a long one may never begin.",
    ADMITTED,
    ADMITTED.replace("waiting", "sorted(waiting, key=lambda sequence: sequence.pending)"),
)
_plan(
    "shortest_rest_first",
    "Prompts that run keep their order, however little is left of each.",
    FILLING,
    f"{FILLING}; filling.sort(key=lambda sequence: sequence.pending)",
)
_plan(
    "newest_waiting_first",
    "First come, first served: the waiting one in front is the oldest.",
    ADMITTED,
    ADMITTED.replace("waiting", "waiting[::-1]"),
)
_plan(
    "sorted_by_id",
    "An id is a name and says nothing about the order: keep the one of the lists.",
    "decoding = [sequence for sequence in running if",
    "running, waiting = (sorted(some, key=lambda sequence: sequence.id) for some in (running, waiting))\n"
    "    decoding = [sequence for sequence in running if",
)
_plan(
    "one_token_left_is_decoding",
    "The last token of a prompt is still prefill: without an output there is no stream that waits for it.",
    f"{DECODING}\n    {FILLING}",
    "decoding = [s for s in running if s.pending == 1]\n    filling = [s for s in running if s.pending != 1]",
)
_plan(
    "any_output_is_decoding",
    "A sequence that lost its cache has an output and much to run again: it decodes when one token is pending.",
    f"{DECODING}\n    {FILLING}",
    "decoding = [s for s in running if s.output]\n    filling = [s for s in running if not s.output]",
)
_plan(
    "prompt_done_is_decoding",
    "Not only prompts fill a cache: an output that has to run again does, too, until one token is pending.",
    f"{DECODING}\n    {FILLING}\n",
    "decoding = [s for s in running if s.computed >= len(s.prompt)]\n"
    "    filling = [s for s in running if s.computed < len(s.prompt)]\n",
)

# ---- plan_step: what it costs
_plan(
    "decodes_are_free",
    "The budget is tokens per step, decode tokens included.",
    SPEND,
    "left -= tokens * (sequence not in decoding)",
)
_plan(
    "decodes_overdraw",
    "Decoding sequences, too, only as far as the budget goes: the others wait for the next step.",
    (ORDER, "(*filling, *admitted)"),
    (STOP, STOP.replace("not left", "left <= 0")),
    ("plan, left = [], token_budget", "plan, left = [(s.id, 1) for s in decoding], token_budget - len(decoding)"),
)
_plan(
    "decodes_are_not_counted_in_full",
    "Every token of the step is in the budget, that of each decoding sequence as well, not one for all of them.",
    "plan, left = [], token_budget",
    "plan, left = [], token_budget + max(0, len(decoding) - 1)",
)
_plan(
    "budget_for_each",
    "One budget for the step: what one sequence has taken is not there for the next.",
    SPEND,
    "left -= 0",
)
_plan(
    "budget_counts_sequences",
    "The budget is in tokens; a prompt of 100 is not one of them.",
    f"{TOKENS}\n        {APPEND}\n        {SPEND}",
    f"tokens = sequence.pending\n        {APPEND}\n        left -= 1",
)
_plan(
    "last_one_overdraws",
    "The last prompt is cut as well: a step never runs more than token_budget tokens.",
    f"{STOP}        {TOKENS}",
    "        if left <= 0:\n            break\n        tokens = sequence.pending",
)
_plan(
    "whole_prompt_is_charged",
    "Charge what runs in this step, not the whole prompt of which a part is computed already.",
    f"{STOP}        {TOKENS}\n        {APPEND}\n        {SPEND}",
    f"        if left <= 0:\n            break\n        {TOKENS}\n        {APPEND}\n"
    "        left -= 1 if sequence in decoding else len(sequence.prompt)",
)
_plan(
    "prompt_from_the_start",
    "Part of the prompt is in the cache already: what is left to run is `pending`, not the prompt.",
    TOKENS,
    "tokens = min(1 if sequence.decoding else len(sequence.prompt), left)",
)
_plan(
    "prompt_without_output",
    "`pending` counts the output as well: a sequence that lost its cache runs prompt and output again.",
    TOKENS,
    "tokens = min(1 if sequence.decoding else len(sequence.prompt) - sequence.computed, left)",
)
_plan(
    "all_but_the_last",
    "The last token of a prompt runs too: the first new token is chosen from its logits.",
    TOKENS,
    "tokens = min(max(1, sequence.pending - 1), left)",
)
_plan(
    "one_token_each",
    "A prompt gets all that is left of the budget: a token a step would take as many steps as it is long.",
    TOKENS,
    "tokens = 1",
)
_plan(
    "a_token_stays_in_the_budget",
    "The last token of the budget may be used as well.",
    STOP,
    STOP.replace("not left", "left <= 1 and token_budget > 1"),
)
_plan(
    "shares_the_budget",
    "The first prompt gets all that is left, not a fair share: it is done sooner, and the others lose nothing on average.",
    TOKENS,
    "tokens = min(sequence.pending, left)\n"
    "        if not sequence.decoding:\n"
    "            share = (token_budget - len(decoding)) // max(1, len(filling) + len(admitted))\n"
    "            tokens = min(sequence.pending, max(1, share), left)",
)
_plan(
    "keeps_some_for_prompts",
    "Decoding sequences come first: nothing of the budget is kept for prompts while one of them has no token.",
    ORDER,
    "(*decoding[: max(1, token_budget - 1) if filling or admitted else None], *filling, *admitted)",
)

# ---- plan_step: cut, skipped, left out
_plan(
    "never_chunks",
    "Cut the first prompt to what is left; skipping it lets short prompts overtake it for ever.",
    f"{TOKENS}\n",
    f"{TOKENS}\n        if tokens < sequence.pending:\n            continue\n",
)
_plan(
    "fits_first",
    "A prompt that would fit whole must not overtake one that has to be cut: a long one would wait for ever.",
    f"    {ADMITTED}\n",
    f"    {ADMITTED}\n    rest = token_budget - len(decoding) - sum(sequence.pending for sequence in filling)\n"
    "    admitted = sorted(admitted, key=lambda sequence: sequence.pending > rest)\n",
)
_plan(
    "whole_blocks",
    "A chunk need not be a whole number of blocks: what is left of the budget is used to the last token.",
    TOKENS,
    f"{TOKENS}\n        if 4 < tokens < sequence.pending:\n            tokens -= tokens % 4",
)
_plan(
    "waits_for_room",
    "A prompt that does not fit is cut, not put off: one that is longer than the budget would never begin.",
    f"{TOKENS}\n",
    f"{TOKENS}\n        if tokens < sequence.pending:\n            break\n",
)
_plan(
    "new_ones_only_whole",
    "A waiting prompt is cut to what is left as well, and goes on in the next step.",
    f"{TOKENS}\n",
    f"{TOKENS}\n        if tokens < sequence.pending and sequence not in filling:\n            break\n",
)
_plan(
    "one_prompt_per_step",
    "A step has room for many prompts: what the first leaves of the budget goes to the next.",
    f"        {SPEND}\n",
    f"        {SPEND}\n        if sequence not in decoding:\n            break\n",
)
_plan(
    "one_admission_per_step",
    "Admit as many as the budget and max_seqs allow, not one in each step.",
    ADMITTED,
    ADMITTED.replace("max(0, max_seqs - len(running))", "int(max_seqs > len(running))"),
)
_plan(
    "admits_when_no_prompt_runs",
    "A new prompt need not wait until those that run are all prefilled: what they leave of the budget is for it.",
    ADMITTED,
    f"{ADMITTED} if not filling else []",
)
_plan(
    "admits_when_nobody_runs",
    "That is a static batch: new ones join while others run, as long as there is room.",
    ADMITTED,
    f"{ADMITTED} if not running else []",
)
_plan(
    "prompts_or_streams",
    "A step runs both: prompts fill what the decoding sequences leave of the budget.",
    ORDER,
    "(decoding or [*filling, *admitted])",
)
_plan(
    "all_decode_or_none",
    "Where the budget is smaller than the number of streams, the first of them get their token.",
    ORDER,
    "(*(decoding if len(decoding) <= token_budget else []), *filling, *admitted)",
)
_plan(
    "running_prompts_forgotten",
    "A prompt of which a part has run goes on in the next step, before new ones.",
    ORDER,
    "(*decoding, *admitted)",
)
_plan(
    "nothing_for_the_rest",
    "Who gets no token is not in the plan: a chunk of 0 tokens has no last row to choose from.",
    STOP,
    "",
)

# ---- plan_step: how many run
_plan(
    "ignores_max_seqs",
    "max_seqs bounds running sequences, the token budget bounds work.",
    ADMITTED,
    "admitted = waiting",
)
_plan(
    "running_not_counted",
    "Those that run already count among max_seqs: each of them holds a cache.",
    ADMITTED,
    "admitted = waiting[:max_seqs]",
)
_plan(
    "only_decoding_ones_run",
    "A prompt that is half done holds a cache as well: all that run count among max_seqs.",
    ADMITTED,
    "admitted = waiting[: max(0, max_seqs - len(decoding))]",
)
_plan(
    "from_the_other_end",
    "With more than max_seqs running the difference is below 0, and waiting[:-2] is all but two: nobody is admitted.",
    ADMITTED,
    "admitted = waiting[: max_seqs - len(running)]",
)
_plan(
    "one_below_max_seqs",
    "max_seqs sequences may run, and not one fewer.",
    ADMITTED,
    "admitted = waiting[: max(0, max_seqs - len(running) - 1)]",
)
_plan(
    "one_above_max_seqs",
    "While *fewer* than max_seqs run: when max_seqs do, nobody is admitted.",
    ADMITTED,
    "admitted = waiting[: max(0, max_seqs - len(running) + 1)]",
)
_plan(
    "running_ones_cut_off",
    "max_seqs holds up new ones only: those that run are planned even where they are more.",
    DECODING,
    f"running = running[:max_seqs]\n    {DECODING}",
)

# ---- plan_step: what comes back, and what must not change
_plan(
    "admits_into_the_lists",
    "A plan changes nothing: who admits is the engine, after the step has run.",
    f"    {ADMITTED}",
    f"    {ADMITTED}\n    running += admitted\n    del waiting[: len(admitted)]",
)
_plan(
    "counts_as_computed",
    "A plan changes nothing: tokens are computed when they have run, which the engine counts.",
    SPEND,
    f"{SPEND}\n        sequence.computed += tokens",
)
_plan(
    "sorts_the_running",
    "A plan changes nothing, not even the order of the list of running sequences.",
    DECODING,
    f"running.sort(key=lambda sequence: not sequence.decoding)\n    {DECODING}",
)
_plan(
    "in_the_order_of_the_lists",
    "The plan stands in the order in which it was made, decoding ones first; not in that of the lists.",
    "    return plan\n",
    "    place = {sequence.id: i for i, sequence in enumerate((*running, *waiting))}\n"
    "    return sorted(plan, key=lambda entry: place[entry[0]])\n",
)
_plan(
    "counts_first",
    "(id, number of tokens), in that order.",
    APPEND,
    "plan.append((tokens, sequence.id))",
)
_plan(
    "a_dict",
    "A list of pairs is asked for, not a dict.",
    "    return plan\n",
    "    return dict(plan)\n",
)
_plan(
    "sequences_not_ids",
    "Return ids, which can be logged and sent; yours returns the sequences themselves.",
    APPEND,
    "plan.append((sequence, tokens))",
)
_plan(
    "what_remains",
    "The number that runs in this step is asked for, not what is pending after it.",
    APPEND,
    "plan.append((sequence.id, sequence.pending - tokens))",
)
