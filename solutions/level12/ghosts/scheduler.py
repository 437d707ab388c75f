"""Known-wrong programs of level12.scheduler. `ghost` is given when this is read."""


def _running(name, sentence, *change, **how):
    ghost("level12.scheduler.Scheduler.schedule_running", name, sentence, change=change, **how)


def _waiting(name, sentence, *change, **how):
    ghost("level12.scheduler.Scheduler.schedule_waiting", name, sentence, change=change, **how)


def _update(name, sentence, *change, **how):
    ghost("level12.scheduler.Scheduler.update", name, sentence, change=change, **how)


# ---- schedule_running: who leaves, and who goes on

VICTIM = "victim = self.running.pop()"
NO_ROOM = "while self.kv.allocate_slots(sequence, tokens) is None:"
WALK = "        while at < len(self.running) and budget:\n            sequence = self.running[at]\n"
CHUNK = "tokens = self.chunk(sequence.pending, budget)"
PLAN = "            out.num_scheduled[sequence.id] = tokens\n            budget -= tokens\n            at += 1\n"
REQUEUE = "self.waiting.appendleft(sequence)"
LEAVE = "                self.preempt(victim)\n                out.preempted.append(victim.id)\n"

_running(
    "preempts_the_oldest",
    "Yours preempts the oldest one; the last of the running leaves, which came last and has the least to do again.",
    VICTIM,
    "victim = self.running.pop(0)",
)
_running(
    "preempts_itself",
    "The one that runs short leaves only when nobody stands behind it; yours preempts it instead of the last.",
    VICTIM,
    "victim = self.running.pop(at)",
)
_running(
    "sits_out_the_step",
    "When there is no block somebody has to leave; yours lets the sequence sit out the step, with all its blocks.",
    VICTIM,
    "at += 1\n                if at == len(self.running):\n                    return budget\n"
    "                sequence = self.running[at]\n                tokens = self.chunk(sequence.pending, budget)\n"
    "                continue",
)
_running(
    "never_preempts_itself",
    "The last one cannot have its block either, so it leaves as well; yours keeps it, with blocks that others need.",
    VICTIM,
    f"if self.running[-1] is sequence:\n                    return budget\n                {VICTIM}",
)
_running(
    "runs_on_without_its_blocks",
    "When the one that is looked at has to leave itself, the step ends there; yours asks on for it, and plans tokens for "
    "one that waits.",
    "                if victim is sequence:\n                    return budget\n",
    "",
)
_running(
    "one_victim_only",
    "One victim may not free enough: ask again after each; yours runs the tokens as if they had room.",
    NO_ROOM,
    "if self.kv.allocate_slots(sequence, tokens) is None:",
)
_running(
    "no_new_block_is_a_no",
    "allocate_slots says [] when the last block has room: that is a yes, and only None is a no; yours preempts for it.",
    NO_ROOM,
    "while not self.kv.allocate_slots(sequence, tokens):",
)
_running(
    "makes_do_with_less",
    "The chunk stays what it was and somebody leaves; yours shortens it until it fits.",
    CHUNK,
    f"{CHUNK}\n            free = (self.kv.pool.num_free + len(self.kv.block_table(sequence))) * self.kv.block_size\n"
    "            tokens = min(tokens, max(1, free - sequence.computed))",
)
_running(
    "victims_run_on",
    "Who was preempted gets nothing in this step; yours walks over a copy of the list and still plans for it.",
    WALK,
    "        for sequence in list(self.running):\n            if not budget:\n                break\n",
)
_running(
    "a_preemption_ends_the_step",
    "After a preemption those that are left still get their tokens; yours ends the step there.",
    PLAN,
    f"{PLAN}            if out.preempted:\n                break\n",
)
_running(
    "decodes_only",
    "A running sequence may be in the middle of its prompt: it gets a chunk of what is pending; yours gives it one token.",
    CHUNK,
    "tokens = 1",
)
_running(
    "threshold_forgotten",
    "The chunk of a long prompt is cut by the threshold too, beside others: self.chunk says how; yours looks at the "
    "budget only.",
    CHUNK,
    "tokens = min(sequence.pending, budget)",
)
_running(
    "budget_not_used_up",
    "What one sequence gets is missing for the next; in yours each may take the whole budget.",
    PLAN,
    PLAN.replace("            budget -= tokens\n", ""),
)
_running(
    "counts_them_as_computed",
    "computed grows in schedule(), after both loops; yours adds the tokens here too, so they count twice.",
    PLAN,
    f"{PLAN}            sequence.computed += tokens\n",
)
# ---- its part preempt: what is freed, and where it waits
_running(
    "requeued_at_the_back",
    "A preempted sequence waits before all others: it came first; yours stands behind those that came later.",
    REQUEUE,
    "self.waiting.append(sequence)",
)
_running(
    "victims_in_the_order_they_left",
    "Of two victims the one that came first stands first, so the second to leave goes before the first; in yours the "
    "first to leave does.",
    LEAVE,
    LEAVE.replace(
        "                self.preempt(victim)\n",
        "                self.preempt(victim)\n                self.waiting.popleft()\n"
        "                self.waiting.insert(len(out.preempted), victim)\n",
    ),
)
_running(
    "output_thrown_away",
    "Its output has been sent to the user already: only keys and values are computed again; yours begins the text anew.",
    REQUEUE,
    f"sequence.output.clear()\n        {REQUEUE}",
)
_running(
    "resumed_as_a_decode",
    "Without blocks nothing of it is computed any more, so computed is 0; yours comes back as if its cache were there.",
    "        sequence.computed = 0\n",
    "",
)
_running(
    "blocks_kept",
    "Preemption is there to free blocks; yours keeps those of the victim, and so the next one has to leave as well.",
    "        self.kv.free(sequence)\n",
    "",
)

# ---- schedule_waiting: who is let in, and with what

LOOP = "while self.waiting and budget and len(self.running) < self.max_num_seqs:"
HEAD = "sequence = self.waiting[0]"
REST = "tokens = self.chunk(sequence.num_tokens - num_cached, budget)"
FITS = "self.kv.allocate_slots(sequence, tokens, hit, self.reserve_full)"
STOP = "                break\n            self.running.append(self.waiting.popleft())\n"
ENTER = "self.running.append(self.waiting.popleft())"
CACHED = "            sequence.computed = num_cached\n"

_waiting(
    "lets_in_after_a_preemption",
    "In a step that has preempted nobody is let in: the blocks are for those that ran short; yours gives them away.",
    "if out.preempted:",
    "if False:",
)
_waiting(
    "max_num_seqs_ignored",
    "No more than max_num_seqs run at once, those that ran before included; yours lets everybody in that fits.",
    LOOP,
    "while self.waiting and budget:",
)
_waiting(
    "counts_only_new_ones",
    "max_num_seqs is for all that run; yours counts those of this step only.",
    LOOP,
    "before = len(self.running)\n        while self.waiting and budget and len(self.running) - before < self.max_num_seqs:",
)
_waiting(
    "one_too_many",
    "At max_num_seqs the next one waits; yours lets one more in.",
    LOOP,
    LOOP.replace("<", "<="),
)
_waiting(
    "one_a_step",
    "As many are let in as fit, one after the other; yours lets one in and is done.",
    "            budget -= tokens\n",
    "            budget -= tokens\n            break\n",
)
_waiting(
    "smaller_ones_overtake",
    "Nobody overtakes the first one that waits; yours tries those behind it, so a long prompt may never begin.",
    program=lambda self, out, budget: _lets_in(self, out, budget, list(self.waiting), skip=True),
)
_waiting(
    "shortest_first",
    "First come, first served: yours takes the shortest first, and long ones wait for ever under load.",
    program=lambda self, out, budget: _lets_in(self, out, budget, sorted(self.waiting, key=lambda s: s.num_tokens)),
)
_waiting(
    "last_come_first",
    "The first of the waiting is the next one, also one that was preempted; yours takes the last.",
    program=lambda self, out, budget: _lets_in(self, out, budget, list(self.waiting)[::-1]),
)
_waiting(
    "lost_when_it_does_not_fit",
    "One that does not fit stays the first to wait; yours has taken it off the queue already, and it is gone.",
    (HEAD, "sequence = self.waiting.popleft()"),
    (ENTER, "self.running.append(sequence)"),
)
_waiting(
    "to_the_back_when_it_does_not_fit",
    "One that does not fit stays the first to wait; yours goes to the back of the queue.",
    STOP,
    STOP.replace("                break\n", "                self.waiting.rotate(-1)\n                break\n"),
)
_waiting(
    "before_those_that_run",
    "New ones run behind those that run: the last of `running` is the one to be preempted; yours puts them in front.",
    ENTER,
    "self.running.insert(0, self.waiting.popleft())",
)
_waiting(
    "stays_in_the_queue",
    "Who is let in waits no more; in yours it is in both lists.",
    STOP,
    STOP.replace("self.waiting.popleft()", "sequence").replace(
        "self.running", "self.waiting.rotate(-1)\n            self.running"
    ),
)
_waiting(
    "cached_tokens_run_again",
    "What the cache has of it is computed: 8 of 10 leave 2 to run; yours plans all 10 behind the 8.",
    REST,
    REST.replace("sequence.num_tokens - num_cached", "sequence.num_tokens"),
)
_waiting(
    "hit_not_counted_as_computed",
    "The tokens of the hit are computed: set computed to their number; yours begins at 0 in the blocks of the hit.",
    CACHED,
    "",
)
_waiting(
    "hit_not_taken",
    "Give allocate_slots the blocks of the hit; yours counts their tokens as computed and gets new, empty blocks.",
    FITS,
    "self.kv.allocate_slots(sequence, tokens, (), self.reserve_full)",
)
_waiting(
    "cache_not_asked",
    "Ask the cache first: what another sequence has computed need not run again; yours computes all of it.",
    "hit, num_cached = self.kv.get_computed_blocks(sequence)",
    "hit, num_cached = [], 0",
)
_waiting(
    "computed_before_it_fits",
    "computed is set when it is let in; yours sets it before it is known that it fits, and then the hit counts twice.",
    REST,
    f"sequence.computed = num_cached\n            {REST}",
)
_waiting(
    "only_the_prompt",
    "One that comes back runs its prompt and its output again; yours plans the prompt only.",
    REST,
    REST.replace("sequence.num_tokens", "len(sequence.prompt)"),
)
_waiting(
    "no_chunks",
    "A prompt may begin with what is left of the budget; yours waits until all of it fits into one step.",
    "            if self.kv.allocate_slots",
    "            if tokens < sequence.num_tokens - num_cached:\n                break\n            if self.kv.allocate_slots",
)
_waiting(
    "budget_ignored",
    "A step has a budget: the chunk is what is left of it at most; yours plans all of the prompt.",
    REST,
    "tokens = sequence.num_tokens - num_cached",
)
_waiting(
    "threshold_forgotten",
    "The chunk of a long prompt is cut by the threshold too, beside others: self.chunk says how; yours looks at the "
    "budget only.",
    REST,
    "tokens = min(sequence.num_tokens - num_cached, budget)",
)
_waiting(
    "reserve_forgotten",
    "With reserve_full all of its tokens must find room, not only those of this step; yours lets it in for its chunk.",
    FITS,
    FITS.replace(", self.reserve_full", ""),
)
_waiting(
    "always_reserves",
    "Without reserve_full the room for this step's tokens is enough; yours asks for room for all of them.",
    FITS,
    FITS.replace("self.reserve_full", "True"),
)
_waiting(
    "reserves_the_limit",
    "reserve_full asks for room for the tokens that are there; yours also for those that `limit` allows, which may "
    "never come.",
    "            if self.kv.allocate_slots",
    "            most = -(-(sequence.num_tokens + sequence.limit) // self.kv.block_size) - len(hit)\n"
    "            if self.reserve_full and most > self.kv.pool.num_free:\n                break\n"
    "            if self.kv.allocate_slots",
)
_waiting(
    "budget_not_used_up",
    "What one sequence gets is missing for the next; in yours each may take the whole budget.",
    "            budget -= tokens\n",
    "",
)


def _lets_in(self, out, budget, order, skip=False):
    """As it should be but for the order; `skip` goes on behind one that does not fit."""
    for sequence in order:
        if out.preempted or not budget or len(self.running) >= self.max_num_seqs:
            break
        hit, num_cached = self.kv.get_computed_blocks(sequence)
        tokens = self.chunk(sequence.num_tokens - num_cached, budget)
        if self.kv.allocate_slots(sequence, tokens, hit, self.reserve_full) is None:
            if skip:
                continue
            break
        self.waiting.remove(sequence)
        self.running.append(sequence)
        sequence.computed = num_cached
        out.num_scheduled[sequence.id] = tokens
        budget -= tokens
    return budget


# ---- update: who gets a token, and when it ends

MIDDLE = "            if sequence.pending:\n                continue\n"
TOKEN = "            sequence.output.append(sampled[id])\n"
FULL = "full = len(sequence.output) == sequence.limit or sequence.num_tokens == self.max_model_len"
STOPS = "if full or sampled[id] in sequence.stop_ids:"
END = "        for id in finished:\n            self.abort(id)\n"

_update(
    "a_token_for_every_chunk",
    "In the middle of a prompt the next token is known: only a sequence that is up to date gets one; yours appends one "
    "for each chunk.",
    MIDDLE,
    "",
)
_update(
    "reads_the_token_of_each",
    "sampled need not have a token for one in the middle of its prompt; yours looks it up before it asks.",
    MIDDLE,
    f"            sampled[id]\n{MIDDLE}",
)
_update(
    "counts_it_as_computed",
    "The new token has not run yet: it is what is pending in the next step; yours counts it as computed.",
    TOKEN,
    f"{TOKEN}            sequence.computed += 1\n",
)
_update(
    "limit_of_prompt_and_output",
    "limit is for the new tokens; yours counts those of the prompt too.",
    FULL,
    FULL.replace("len(sequence.output)", "sequence.num_tokens"),
)
_update(
    "one_token_too_many",
    "After `limit` tokens it is finished; yours gives one more.",
    FULL,
    FULL.replace("== sequence.limit", "> sequence.limit"),
)
_update(
    "one_beyond_max_model_len",
    "With max_model_len tokens in all it is finished; yours gives one more, for which the model has no position.",
    FULL,
    FULL.replace("== self.max_model_len", "> self.max_model_len"),
)
_update(
    "max_model_len_forgotten",
    "A sequence ends with max_model_len tokens in all: the model has no position beyond; yours goes on to its limit.",
    FULL,
    "full = len(sequence.output) == sequence.limit",
)
_update(
    "max_model_len_of_the_output",
    "max_model_len is for prompt and output together; yours compares the output alone.",
    FULL,
    FULL.replace("sequence.num_tokens", "len(sequence.output)"),
)
_update(
    "stop_ids_ignored",
    "A token of its stop_ids ends it; yours goes on to the limit, behind the end of the text.",
    STOPS,
    "if full:",
)
_update(
    "stop_id_anywhere",
    "Only the new token may end it; yours also stops for a stop id in its prompt.",
    STOPS,
    "if full or any(token in sequence.stop_ids for token in sequence.tokens):",
)
_update(
    "first_stop_id_only",
    "Any of its stop_ids ends it, and it may have several; yours knows the first.",
    STOPS,
    "if full or sampled[id] == next(iter(sequence.stop_ids), None):",
)
_update(
    "stop_token_left_out",
    "The stop token is the last of the output, as of every other token; yours leaves it out.",
    TOKEN,
    "            if sampled[id] not in sequence.stop_ids:\n                sequence.output.append(sampled[id])\n",
)
_update(
    "finished_ones_stay",
    "Who is finished leaves the scheduler, and its blocks are free; yours says that it is finished, and keeps it.",
    END,
    "",
)
_update(
    "finished_ones_keep_their_ids",
    "Who is finished is none of `sequences` any more, and its id may be used again; yours frees its blocks only.",
    END,
    END.replace(
        "self.abort(id)", "self.running.remove(self.sequences[id])\n            self.kv.free(self.sequences[id])"
    ),
)
_update(
    "in_the_order_of_the_samples",
    "The ids come in the order of the batch, out.num_scheduled; yours goes through `sampled`, whose order says nothing.",
    "for id in out.num_scheduled:",
    "for id in [id for id in sampled if id in out.num_scheduled]:",
)
_update(
    "freed_from_the_last",
    "Finished ones are freed in the order of the batch, which decides whose blocks go first; yours frees the last first.",
    END,
    END.replace("in finished", "in reversed(finished)"),
)
_update(
    "finished_only_together",
    "One that is finished leaves at once and makes room; yours keeps it until all that run have ended.",
    END,
    "        if len(finished) < len(self.running):\n            return []\n" + END,
)
# ---- its part abort
_update(
    "blocks_kept",
    "Who leaves gives its blocks back; yours forgets the sequence, and its blocks are lost to the pool.",
    "        self.kv.free(sequence)\n",
    "",
)
_update(
    "id_stays_in_use",
    "Who leaves is no longer among the sequences, and its id is free again; yours keeps it there.",
    "self.sequences.pop(id, None)",
    "self.sequences.get(id)",
)
_update(
    "an_unknown_id_is_an_error",
    "An abort may come after the end: for an id that is not there nothing happens; yours raises.",
    "        if (sequence := self.sequences.pop(id, None)) is None:\n            return\n",
    "        sequence = self.sequences.pop(id)\n",
)
_update(
    "only_running_ones_leave",
    "A request can be aborted while it waits, and must not be let in later; yours leaves it in the queue.",
    "        else:\n            self.waiting.remove(sequence)\n",
    "",
)
_update(
    "goes_on_running",
    "Who leaves does not run any more; yours stays in `running`, without blocks.",
    "            self.running.remove(sequence)\n",
    "            pass\n",
)
