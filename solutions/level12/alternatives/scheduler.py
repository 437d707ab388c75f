"""Right programs, written another way, for level12.scheduler. `alternative` is given when this is read."""

RUNNING, WAITING, UPDATE = (
    f"level12.scheduler.Scheduler.{name}" for name in ("schedule_running", "schedule_waiting", "update")
)


def _two_ends(self, out, budget):
    """A queue from whose front the next one is taken and from whose back the victims are; those planned stand apart."""
    queue, planned = type(self.waiting)(self.running), []
    while queue and budget:
        sequence = queue.popleft()
        tokens = self.chunk(sequence.pending, budget)
        while (new := self.kv.allocate_slots(sequence, tokens)) is None and queue:
            victim = queue.pop()
            out.preempted.append(victim.id)
            self.preempt(victim)
        if new is None:
            out.preempted.append(sequence.id)
            self.preempt(sequence)
            break
        planned.append(sequence)
        out.num_scheduled[sequence.id] = tokens
        budget -= tokens
    self.running = planned + list(queue)
    return budget


def _over_a_copy(self, out, budget):
    """A copy of the list, in which the victims are passed over."""
    for sequence in self.running[:]:
        if sequence.id in out.preempted or not budget:
            continue
        tokens = self.chunk(sequence.pending, budget)
        while self.kv.allocate_slots(sequence, tokens) is None:
            out.preempted += [self.running[-1].id]
            self.preempt(self.running.pop())
            if sequence.id in out.preempted:
                break
        else:
            out.num_scheduled |= {sequence.id: tokens}
            budget -= tokens
    return budget


def _without_its_part(self, out, budget):
    """Nobody is put back before the end of the step."""
    first, gone = 0, []
    while budget > 0 and first < len(self.running) - len(gone):
        sequence = self.running[first]
        n = self.chunk(sequence.pending, budget)
        while self.kv.allocate_slots(sequence, n) is None:
            gone.append(self.running[-1 - len(gone)])
            self.kv.free(gone[-1])
            gone[-1].computed = 0
            if gone[-1] is sequence:
                break
        else:
            out.num_scheduled[sequence.id] = n
            budget, first = budget - n, first + 1
    out.preempted.extend(sequence.id for sequence in gone)
    self.waiting.extendleft(gone)
    del self.running[len(self.running) - len(gone) :]
    return budget


def _by_recursion(self, out, budget, at=0):
    if at >= len(self.running) or not budget:
        return budget
    sequence = self.running[at]
    tokens = self.chunk(sequence.pending, budget)
    if self.kv.allocate_slots(sequence, tokens) is not None:
        out.num_scheduled[sequence.id] = tokens
        return self.schedule_running(out, budget - tokens, at + 1)
    out.preempted.append(self.running[-1].id)
    self.preempt(self.running.pop())
    return self.schedule_running(out, budget, at)


alternative(RUNNING, "two_ends", program=_two_ends)
alternative(RUNNING, "over_a_copy", program=_over_a_copy)
alternative(RUNNING, "without_its_part", program=_without_its_part)
alternative(RUNNING, "by_recursion", program=_by_recursion)


def _preempt_in_another_order(self, sequence):
    self.waiting.insert(0, sequence)
    sequence.computed -= sequence.computed
    self.kv.free(sequence)


alternative(RUNNING, "preempt_in_another_order", program=_preempt_in_another_order, part="Scheduler.preempt")


def _a_slice_at_the_end(self, out, budget):
    """Count how many can be let in, and move them together."""
    let_in = 0
    for sequence in [] if out.preempted else list(self.waiting)[: max(0, self.max_num_seqs - len(self.running))]:
        if not budget:
            break
        hit, sequence_has = self.kv.get_computed_blocks(sequence)
        n = self.chunk(sequence.num_tokens - sequence_has, budget)
        if self.kv.allocate_slots(sequence, n, hit, whole_must_fit=self.reserve_full) is None:
            break
        sequence.computed, out.num_scheduled[sequence.id] = sequence_has, n
        budget, let_in = budget - n, let_in + 1
    self.running += [self.waiting.popleft() for _ in range(let_in)]
    return budget


def _off_and_on(self, out, budget):
    """Taken off the queue first, and put back in front when it does not fit."""
    while not out.preempted and budget > 0 and self.waiting and len(self.running) < self.max_num_seqs:
        sequence = self.waiting.popleft()
        blocks, cached = self.kv.get_computed_blocks(sequence)
        n = self.chunk(len(sequence.tokens) - cached, budget)
        new = self.kv.allocate_slots(sequence, n, blocks, self.reserve_full)
        if new is None:
            self.waiting.appendleft(sequence)
            return budget
        sequence.computed = cached
        self.running.append(sequence)
        out.num_scheduled[sequence.id] = n
        budget -= n
    return budget


def _computed_first(self, out, budget):
    """The tokens are looked at before and after: what is pending behind the hit."""
    if not out.preempted and budget and self.waiting and len(self.running) < self.max_num_seqs:
        hit, cached = self.kv.get_computed_blocks(self.waiting[0])
        tokens = self.chunk(self.waiting[0].pending - cached, budget)
        if self.kv.allocate_slots(self.waiting[0], tokens, hit, self.reserve_full) is not None:
            self.waiting[0].computed += cached
            out.num_scheduled[self.waiting[0].id] = tokens
            self.running += [self.waiting.popleft()]
            return self.schedule_waiting(out, budget - tokens)
    return budget


alternative(WAITING, "a_slice_at_the_end", program=_a_slice_at_the_end)
alternative(WAITING, "off_and_on", program=_off_and_on)
alternative(WAITING, "computed_first", program=_computed_first)


def _over_those_that_run(self, out, sampled):
    """Who runs and has nothing pending has been scheduled: the batch is in the order of `running`."""
    ready = [sequence for sequence in self.running if not sequence.pending]
    for sequence in ready:
        sequence.output += [sampled[sequence.id]]
    ended = [
        sequence.id
        for sequence in ready
        if len(sequence.output) >= sequence.limit
        or len(sequence.tokens) >= self.max_model_len
        or sequence.output[-1] in sequence.stop_ids
    ]
    for id in ended:
        self.abort(id)
    return ended


def _at_once(self, out, sampled):
    """Each one that is finished leaves as soon as that is known."""
    ended = []
    for id, _ in out.num_scheduled.items():
        sequence = self.sequences[id]
        if sequence.computed < sequence.num_tokens:
            continue
        token = sampled[id]
        sequence.output.append(token)
        left = min(sequence.limit - len(sequence.output), self.max_model_len - sequence.num_tokens)
        if left == 0 or token in sequence.stop_ids:
            ended.append(id)
            self.kv.free(self.sequences.pop(id))
            self.running = [other for other in self.running if other.id != id]
    return ended


alternative(UPDATE, "over_those_that_run", program=_over_those_that_run)
alternative(UPDATE, "at_once", program=_at_once)


def _abort_by_id(self, id):
    """Whoever has another id stays, in both lists."""
    if id in self.sequences:
        self.running[:] = [sequence for sequence in self.running if sequence.id != id]
        stay = [sequence for sequence in self.waiting if sequence.id != id]
        self.waiting.clear()
        self.waiting.extend(stay)
        self.kv.free(self.sequences.pop(id))


def _abort_new_deque(self, id):
    sequence = self.sequences.pop(id, None)
    if sequence is not None and sequence in self.waiting:
        self.waiting = type(self.waiting)(other for other in self.waiting if other is not sequence)
    elif sequence is not None:
        del self.running[self.running.index(sequence)]
        self.kv.free(sequence)


alternative(UPDATE, "abort_by_id", program=_abort_by_id, part="Scheduler.abort")
alternative(UPDATE, "abort_new_deque", program=_abort_new_deque, part="Scheduler.abort")
