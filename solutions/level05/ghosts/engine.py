"""Known-wrong programs of level05.engine. `ghost` is given when this is read."""

PLAN = "dict(plan_step(self.running, self.waiting, self.token_budget, self.max_seqs))"
ROOM = "self.new_cache(len(sequence.prompt) + sequence.limit)"
MAKE = f"        for sequence in admitted:\n            sequence.cache = {ROOM}\n"
JOIN = "self.running, self.waiting = self.running + admitted, self.waiting[len(admitted) :]"
IDLE = "        if not chosen:\n            return []\n"
CHUNKS = "[s.tokens[s.computed : s.computed + plan[s.id]] for s in chosen]"
RUN = "self.run(self.params, self.config, [s.cache for s in chosen], chunks)"
READY = "[row for row, sequence in enumerate(chosen) if not sequence.pending]"
EMIT = "return self._emit([chosen[row] for row in ready], logits[ready])"
CHOOSE = "choose_tokens(logits, [s.prompt for s in ready], [s.output for s in ready], params)"
PARAMS = "[sequence.request.sampling for sequence in ready]"
DONE = "token in sequence.request.stop_ids or len(sequence.output) == sequence.limit"
TELL = "            events.append((sequence.id, token, done))\n"
GO = "        self.running = [sequence for sequence in self.running if sequence.id not in gone]\n        return events"
LIMIT = "allowed_tokens(self.config, request.prompt, request.sampling.max_tokens)"
IN_USE = "{sequence.id for sequence in self.waiting + self.running}"
ADD = "self.waiting.append(Active(request.id, list(request.prompt), request=request, limit=limit))"
COUNT = "return len(self.waiting) + len(self.running)"
ABORT_RELEASE = "self._release({request_id})\n        self.waiting"
ABORT_WAITING = "self.waiting = [sequence for sequence in self.waiting if sequence.id != request_id]"
ABORT_RUNNING = "self.running = [sequence for sequence in self.running if sequence.id != request_id]"


def own_plan(*lines):
    """A change of the plan: `s` are the sequences in order, `left` is the budget."""
    return (
        f"        plan = {PLAN}\n",
        "        plan, left = {}, self.token_budget\n"
        "        room = max(0, self.max_seqs - len(self.running))\n"
        "        decoding = [s for s in self.running if s.decoding]\n"
        "        filling = [s for s in self.running if not s.decoding]\n"
        + "".join(f"        {line}\n" for line in lines),
    )


# ---- step: what runs

ghost(
    "level05.engine.Engine",
    "token_after_every_chunk",
    "Only the chunk that ends a prompt yields a token: after half of a question there is nothing to answer.",
    change=(READY, "list(range(len(chosen)))"),
)
ghost(
    "level05.engine.Engine",
    "token_one_too_early",
    "A token is known when nothing is pending; yours chooses it with one token still to run.",
    change=("if not sequence.pending]", "if sequence.pending <= 1]"),
)
ghost(
    "level05.engine.Engine",
    "chunk_from_the_end",
    "A chunk goes on at `computed`: the last n tokens skip the middle of the prompt.",
    change=(CHUNKS, "[s.tokens[-plan[s.id] :] for s in chosen]"),
)
ghost(
    "level05.engine.Engine",
    "chunk_from_the_start",
    "A chunk goes on at `computed`; yours begins at the first token again.",
    change=(CHUNKS, "[s.tokens[: plan[s.id]] for s in chosen]"),
)
ghost(
    "level05.engine.Engine",
    "runs_all_again",
    "What has run is in the cache: only the tokens from `computed` on run, each of them once.",
    change=(CHUNKS, "[s.tokens[: s.computed + plan[s.id]] for s in chosen]"),
)
ghost(
    "level05.engine.Engine",
    "runs_the_newest_twice",
    "The token at `computed` has not run, the one before it has: your chunks begin one too early.",
    change=(CHUNKS, "[s.tokens[max(0, s.computed - 1) : s.computed + plan[s.id]] for s in chosen]"),
)
ghost(
    "level05.engine.Engine",
    "runs_the_last_token",
    "Nobody needs what follows the last token: a finished request leaves at once, it is not run once more.",
    change=[
        (
            READY,
            "[row for row, s in enumerate(chosen) if not s.pending and not self._over(s)]\n"
            "        self.running = [s for s in self.running if not (self._over(s) and not s.pending)]",
        ),
        (
            GO,
            "        return events\n\n    def _over(self, s):\n        return bool(s.output) and (s.output[-1] in s.request.stop_ids or len(s.output) == s.limit)\n",
        ),
        ("        gone = {id for id, _, done in events if done}\n", ""),
    ],
)
ghost(
    "level05.engine.Engine",
    "runs_with_no_work",
    "Without work there is no pass: a model cannot run a row of no tokens.",
    change=(IDLE, ""),
)
ghost(
    "level05.engine.Engine",
    "loop_over_sequences",
    "One pass for all sequences of a step: yours reads all weights once for each of them.",
    change=[
        (
            RUN,
            "[self.run(self.params, self.config, [s.cache], [chunk])[0] for s, chunk in zip(chosen, chunks)]",
        ),
        ("logits[ready])", "[logits[row] for row in ready])"),
        (CHOOSE, CHOOSE.replace("logits,", "logits[0].new_tensor([row.tolist() for row in logits]),")),
    ],
)
ghost(
    "level05.engine.Engine",
    "prompts_and_decodes_apart",
    "Prompts and decodes run in the same pass: two passes read the weights twice.",
    change=(
        f"        logits = {RUN}\n",
        "        rows = {}\n"
        "        for kind in (True, False):\n"
        "            some = [(s, chunk) for s, chunk in zip(chosen, chunks) if s.decoding == kind]\n"
        "            if some:\n"
        "                caches, parts = [s.cache for s, _ in some], [chunk for _, chunk in some]\n"
        "                out = self.run(self.params, self.config, caches, parts)\n"
        "                rows |= {s.id: row for (s, _), row in zip(some, out)}\n"
        "        logits = out.new_tensor([rows[s.id].tolist() for s in chosen])\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "runs_until_a_token",
    "A step is one pass, also where it yields no token: one that goes on to the end of a prompt stalls whoever comes.",
    change=(
        EMIT,
        "events = self._emit([chosen[row] for row in ready], logits[ready])\n        return events or self.step()",
    ),
)
ghost(
    "level05.engine.Engine",
    "rows_in_front",
    "Row i of the logits belongs to sequence i of the pass: choose the rows of those that are ready, not the first ones.",
    change=("logits[ready])", "logits[len(chosen) - len(ready) :])"),
)
ghost(
    "level05.engine.Engine",
    "ignores_run",
    "The pass is the caller's `run`: a paged or a counted one comes in here.",
    change=(RUN, RUN.replace("self.run", "packed_step")),
)

# ---- step: who runs

ghost(
    "level05.engine.Engine",
    "prefill_first",
    "Decodes go first: a long prompt before them stalls every stream that somebody is reading.",
    change=own_plan(
        "for s in (*filling, *self.waiting[:room], *decoding):",
        "    if left:",
        "        plan[s.id] = min(s.pending, left)",
        "        left -= plan[s.id]",
    ),
)
ghost(
    "level05.engine.Engine",
    "decodes_are_free",
    "The budget is tokens per step, those of the decodes included.",
    change=own_plan(
        "plan = {s.id: 1 for s in decoding}",
        "for s in (*filling, *self.waiting[:room]):",
        "    if left:",
        "        plan[s.id] = min(s.pending, left)",
        "        left -= plan[s.id]",
    ),
)
ghost(
    "level05.engine.Engine",
    "budget_for_each",
    "The budget is for the step, not for each sequence in it.",
    change=own_plan("plan = {s.id: min(s.pending, left) for s in (*decoding, *filling, *self.waiting[:room])}"),
)
ghost(
    "level05.engine.Engine",
    "ignores_the_budget",
    "A step runs at most token_budget tokens: a prompt of any length would make a step of any length.",
    change=("self.token_budget, self.max_seqs))", "10**9, self.max_seqs))"),
)
ghost(
    "level05.engine.Engine",
    "ignores_max_seqs",
    "At most max_seqs requests run: each of them holds a cache, and memory has an end.",
    change=("self.token_budget, self.max_seqs))", "self.token_budget, 10**9))"),
)
ghost(
    "level05.engine.Engine",
    "whole_prompts_only",
    "A prompt that does not fit is cut to what is left: waiting for room, it waits for ever or lets others overtake.",
    change=own_plan(
        "for s in (*decoding, *filling, *self.waiting[:room]):",
        "    if s.pending <= left:",
        "        plan[s.id] = s.pending",
        "        left -= s.pending",
    ),
)
ghost(
    "level05.engine.Engine",
    "one_prompt_a_step",
    "A step takes as many new requests as there is room for, not one.",
    change=("(self.running, self.waiting,", "(self.running, self.waiting[:1],"),
)
ghost(
    "level05.engine.Engine",
    "closed_batch",
    "Whoever comes joins the next step: that is what continuous batching means. Yours waits until the batch is done.",
    change=("(self.running, self.waiting,", "(self.running, [] if self.running else self.waiting,"),
)
ghost(
    "level05.engine.Engine",
    "waits_for_a_full_batch",
    "Run what is there: waiting until max_seqs have come keeps the first ones waiting for the last.",
    change=(
        f"        plan = {PLAN}\n",
        f"        plan = {PLAN} if self.running or len(self.waiting) >= self.max_seqs else {{}}\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "place_free_one_step_late",
    "A place is free as soon as its request is finished: the next step uses it.",
    change=[
        ("(self.running, self.waiting,", "(self.running, self.waiting[: self._free()],"),
        (
            GO,
            "        self.late = len(gone)\n" + GO + "\n\n    def _free(self):\n"
            "        late, self.late = getattr(self, 'late', 0), 0\n"
            "        return max(0, self.max_seqs - len(self.running) - late)\n",
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "newest_waits_least",
    "First come, first served: yours takes the newest request first, and the oldest may wait for ever.",
    change=(ADD, ADD.replace("append(", "insert(0, ")),
)
ghost(
    "level05.engine.Engine",
    "shortest_prompt_first",
    "First come, first served: with the shortest prompt first a long one may wait for ever.",
    change=(ADD, ADD + "\n        self.waiting.sort(key=lambda sequence: len(sequence.prompt))"),
)
ghost(
    "level05.engine.Engine",
    "newest_runs_first",
    "Those that run stand in the order in which they came: the newest goes behind them, not before.",
    change=(JOIN, JOIN.replace("self.running + admitted", "admitted + self.running")),
)
ghost(
    "level05.engine.Engine",
    "each_newcomer_in_front",
    "Whoever is admitted is appended: put in front one by one, the newcomers of a step run in reverse.",
    change=(JOIN, JOIN.replace("self.running + admitted", "admitted[::-1] + self.running")),
)
ghost(
    "level05.engine.Engine",
    "takes_turns",
    "The order stays that of arrival; yours moves the first to the end at each step.",
    change=(EMIT, "self.running = self.running[1:] + self.running[:1]\n        " + EMIT),
)

# ---- step: memory

ghost(
    "level05.engine.Engine",
    "new_cache_each_step",
    "A cache lasts as long as its request: a new one at each step has forgotten all that ran before.",
    change=(
        IDLE,
        IDLE
        + "        for sequence in chosen:\n            sequence.cache = self.new_cache(len(sequence.prompt) + sequence.limit)\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "one_cache_for_all",
    "Each request has a cache of its own: in a common one everybody continues everybody's text.",
    change=(MAKE, MAKE.replace(ROOM, "self.cache = getattr(self, 'cache', None) or self.new_cache(999)")),
)
ghost(
    "level05.engine.Engine",
    "recycled_slot",
    "A cache that is used again still holds the text of the request before: cut it to 0, or take a new one.",
    change=[
        ("self.running: list[Active] = []", "self.running: list[Active] = []\n        self.free = []"),
        (MAKE, MAKE.replace(ROOM, f"self.free.pop() if self.free else {ROOM}")),
        (GO, "        self.free += [s.cache for s in self.running if s.id in gone]\n" + GO),
    ],
)
ghost(
    "level05.engine.Engine",
    "cache_on_arrival",
    "A cache is made when a request first runs: one for each that waits fills the memory before anybody runs.",
    change=[
        (MAKE, ""),
        (ADD, ADD + "\n        self.waiting[-1].cache = self.new_cache(len(request.prompt) + limit)"),
    ],
)
ghost(
    "level05.engine.Engine",
    "cache_before_its_turn",
    "A cache is made for the step in which a request first runs, not as soon as there is a place for it.",
    change=(
        MAKE,
        "        for sequence in self.waiting[: max(0, self.max_seqs - len(self.running))]:\n"
        f"            sequence.cache = sequence.cache or {ROOM}\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "room_for_the_prompt",
    "The tokens of the answer need room as well, all but the last.",
    change=(ROOM, "self.new_cache(len(sequence.prompt))"),
)
ghost(
    "level05.engine.Engine",
    "room_for_the_answer",
    "The prompt stands in the cache too: room for prompt and answer.",
    change=(ROOM, "self.new_cache(sequence.limit)"),
)
ghost(
    "level05.engine.Engine",
    "room_of_the_model",
    "Room for prompt and answer is enough: the model's whole context for each request wastes most of the memory.",
    change=(ROOM, "self.new_cache(self.config.max_seq_len)"),
)
ghost(
    "level05.engine.Engine",
    "room_of_max_tokens",
    "The answer ends at the model's last position at the latest: max_tokens may ask for more room than can be filled.",
    change=(ROOM, "self.new_cache(len(sequence.prompt) + sequence.request.sampling.max_tokens)"),
)
ghost(
    "level05.engine.Engine",
    "room_two_short",
    "All tokens but the very last go into the cache: your room is one too small.",
    change=(ROOM, "self.new_cache(max(1, len(sequence.prompt) + sequence.limit - 2))"),
)
ghost(
    "level05.engine.Engine",
    "cache_always_in_float32",
    "The cache has the type of the params: a bfloat16 model's in float32 takes twice the bytes.",
    change=("KVCache(config, 1, room, dtype)", "KVCache(config, 1, room)"),
)
ghost(
    "level05.engine.Engine",
    "keeps_finished_caches",
    "Let go of a finished request's cache: what is still referred to is memory that no other request gets.",
    change=[
        ("self.running: list[Active] = []", "self.running: list[Active] = []\n        self.finished = []"),
        (GO, "        self.finished += [s for s in self.running if s.id in gone]\n" + GO),
    ],
)
ghost(
    "level05.engine.Engine",
    "keeps_aborted_caches",
    "Let go of an aborted request's cache: what is still referred to is memory that no other request gets.",
    change=[
        ("self.running: list[Active] = []", "self.running: list[Active] = []\n        self.aborted = []"),
        (ABORT_RUNNING, "self.aborted += [s for s in self.running if s.id == request_id]\n        " + ABORT_RUNNING),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborted_blocks_stay_lent",
    "Release the aborted request's cache: a pool does not see that nobody refers to its blocks any more, and runs dry.",
    change=(ABORT_RELEASE, "self.waiting"),
)
ghost(
    "level05.engine.Engine",
    "an_abort_releases_all",
    "Release the one cache: the others' blocks are still read, and would be handed to somebody else.",
    change=(ABORT_RELEASE, "self._release({s.id for s in self.running})\n        self.waiting"),
)
ghost(
    "level05.engine.Engine",
    "finished_blocks_stay_lent",
    "Release a finished request's cache: else the pool is empty after as many answers as it has room for.",
    change=("        self._release(gone)\n", ""),
)
ghost(
    "level05.engine.Engine",
    "releases_at_the_first_token",
    "A request that goes on needs its cache: release it with its last token.",
    change=("self._release(gone)", "self._release({s.id for s in ready})"),
)
ghost(
    "level05.engine.Engine",
    "ignores_new_cache",
    "The caches are those of the caller's new_cache: a pool of blocks comes in here.",
    change=(ROOM, "KVCache(self.config, 1, len(sequence.prompt) + sequence.limit)"),
)

# ---- step: the end of a request

ghost(
    "level05.engine.Engine",
    "one_token_too_many",
    "Stop when max_tokens tokens are out, not one later.",
    change=("== sequence.limit", "> sequence.limit"),
)
ghost(
    "level05.engine.Engine",
    "one_token_too_few",
    "The last of max_tokens tokens is a token of the answer, too.",
    change=("== sequence.limit", ">= sequence.limit - 1"),
)
ghost(
    "level05.engine.Engine",
    "counts_the_prompt",
    "max_tokens counts new tokens; the prompt is not among them.",
    change=("len(sequence.output) == sequence.limit", "len(sequence.tokens) >= sequence.limit"),
)
ghost(
    "level05.engine.Engine",
    "ignores_max_tokens",
    "An answer ends after max_tokens tokens, not only at the model's end.",
    change=(LIMIT, "allowed_tokens(self.config, request.prompt, min(1, request.sampling.max_tokens) * 10**9)"),
)
ghost(
    "level05.engine.Engine",
    "ignores_the_model_s_end",
    "The model has max_seq_len positions: an answer ends at the last one, whatever max_tokens says.",
    change=(LIMIT, f"{LIMIT} and request.sampling.max_tokens"),
)
ghost(
    "level05.engine.Engine",
    "one_short_of_the_model_s_end",
    "The model's last position can be used: prompt and answer together have max_seq_len tokens.",
    change=(LIMIT, "allowed_tokens(self.config, request.prompt, request.sampling.max_tokens, 1)"),
)
ghost(
    "level05.engine.Engine",
    "limit_of_the_first",
    "Each request has a max_tokens of its own; the first one's is not for all.",
    change=("== sequence.limit", "== ready[0].limit"),
)
ghost(
    "level05.engine.Engine",
    "ignores_stop_ids",
    "An answer ends after one of the request's stop_ids; yours goes on to max_tokens.",
    change=(DONE, "len(sequence.output) == sequence.limit"),
)
ghost(
    "level05.engine.Engine",
    "only_the_first_stop_id",
    "Any of the stop_ids ends the answer: a model has an end of text and an end of turn.",
    change=("token in sequence.request.stop_ids or", "token in sorted(sequence.request.stop_ids)[:1] or"),
)
ghost(
    "level05.engine.Engine",
    "stop_ids_of_the_first",
    "Each request has stop_ids of its own; those of the first one are not for all.",
    change=("token in sequence.request.stop_ids", "token in ready[0].request.stop_ids"),
)
ghost(
    "level05.engine.Engine",
    "stop_ids_of_all",
    "What ends one answer need not end another: only the request's own stop_ids count.",
    change=("token in sequence.request.stop_ids", "any(token in s.request.stop_ids for s in self.running)"),
)
ghost(
    "level05.engine.Engine",
    "stop_id_in_the_prompt",
    "Only a token that is made ends the answer: prompts are full of end-of-turn tokens.",
    change=("token in sequence.request.stop_ids", "set(sequence.tokens) & set(sequence.request.stop_ids)"),
)
ghost(
    "level05.engine.Engine",
    "stop_token_kept_back",
    "The stop token is the last token of the answer: it is told, with the mark that this is the end.",
    change=(TELL, "            if token not in sequence.request.stop_ids:\n    " + TELL),
)
ghost(
    "level05.engine.Engine",
    "never_marked",
    "The last token is marked as finished: the client has no other way to know.",
    change=[
        (TELL, TELL.replace("token, done", "token, False")),
        (
            "{id for id, _, done in events if done}",
            "{s.id for s in ready if s.output[-1] in s.request.stop_ids or len(s.output) == s.limit}",
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "marked_by_length_alone",
    "finished is true after a stop id too, not only after max_tokens tokens.",
    change=[
        (TELL, TELL.replace("token, done", "token, len(sequence.output) == sequence.limit")),
        (
            "{id for id, _, done in events if done}",
            "{s.id for s in ready if s.output[-1] in s.request.stop_ids or len(s.output) == s.limit}",
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "end_told_in_the_next_step",
    "The mark comes with the last token, not as an event of its own one step later.",
    change=[
        (TELL, TELL.replace("token, done", "token, False")),
        (
            "{id for id, _, done in events if done}",
            "{s.id for s in ready if s.output[-1] in s.request.stop_ids or len(s.output) == s.limit}",
        ),
        (
            GO,
            GO.replace(
                "return events",
                "self.ended, before = [(s.id, s.output[-1], True) for s in ready if s.id in gone], getattr(self, 'ended', [])\n        return before + events",
            ),
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "never_leaves",
    "A finished request leaves the engine: yours goes on making tokens in its place.",
    change=(GO, "        return events"),
)
ghost(
    "level05.engine.Engine",
    "removes_while_it_counts",
    "Removing from a list while going through it skips the next one: make a new list of those that stay.",
    change=(
        GO,
        "        for sequence in self.running:\n"
        "            if sequence.id in gone:\n"
        "                self.running.remove(sequence)\n"
        "        return events",
    ),
)
ghost(
    "level05.engine.Engine",
    "removes_one",
    "Several requests may end in one step, and all of them leave.",
    change=("{id for id, _, done in events if done}", "[id for id, _, done in events if done][:1]"),
)
ghost(
    "level05.engine.Engine",
    "removes_by_old_places",
    "After the first removal the places of the others have changed: yours removes a neighbour.",
    change=(
        GO,
        "        places = [i for i, sequence in enumerate(self.running) if sequence.id in gone]\n"
        "        for place in places:\n"
        "            del self.running[min(place, len(self.running) - 1)]\n"
        "        return events",
    ),
)

# ---- step: which token, and how it is told

ghost(
    "level05.engine.Engine",
    "params_of_the_first",
    "Each request has params of its own: the first one's temperature and seed are not for all.",
    change=(PARAMS, "[ready[0].request.sampling] * len(ready)"),
)
ghost(
    "level05.engine.Engine",
    "always_greedy",
    "A request says how its tokens are chosen: greedy is only what it gets when it says nothing.",
    change=(PARAMS, "[GREEDY] * len(ready)"),
)
ghost(
    "level05.engine.Engine",
    "seed_of_the_batch",
    "The seed is the request's: with a number that depends on who else is there, a text cannot be had again.",
    change=(
        PARAMS,
        "[SamplingParams(**{**vars(s.request.sampling), 'seed': (s.request.sampling.seed or 0) + i}) for i, s in enumerate(ready)]",
    ),
)
ghost(
    "level05.engine.Engine",
    "histories_swapped",
    "choose_tokens takes the prompts first and then the outputs.",
    change=(CHOOSE, "choose_tokens(logits, [s.output for s in ready], [s.prompt for s in ready], params)"),
)
ghost(
    "level05.engine.Engine",
    "no_history",
    "Penalties and seeds need what was said before: pass prompts and outputs on.",
    change=(CHOOSE, "choose_tokens(logits, [[]] * len(ready), [[]] * len(ready), params)"),
)
ghost(
    "level05.engine.Engine",
    "no_prompts",
    "The repetition penalty looks at the prompt as well.",
    change=("[s.prompt for s in ready]", "[[] for s in ready]"),
)
ghost(
    "level05.engine.Engine",
    "prompt_among_the_outputs",
    "The output is what was made: with the prompt in it, seeds get other numbers and penalties another text.",
    change=("[s.output for s in ready]", "[s.tokens for s in ready]"),
)
ghost(
    "level05.engine.Engine",
    "outputs_of_the_first",
    "Each request is penalized for its own output, not for that of the first one.",
    change=("[s.output for s in ready]", "[ready[0].output for s in ready]"),
)
ghost(
    "level05.engine.Engine",
    "prompts_of_the_first",
    "Each request is penalized for its own prompt, not for that of the first one.",
    change=("[s.prompt for s in ready]", "[ready[0].prompt for s in ready]"),
)
ghost(
    "level05.engine.Engine",
    "outputs_of_the_rows",
    "The histories are those of the sequences that are ready, row for row.",
    change=("[s.output for s in ready]", "[s.output for s in self.running[-len(ready) :]]"),
)
ghost(
    "level05.engine.Engine",
    "tokens_as_tensors",
    "A token is an int: a tensor of one element is no id that a client can read.",
    change=("params).tolist()", "params)"),
)
ghost(
    "level05.engine.Engine",
    "sorted_by_id",
    "Tokens come in the order of the plan, not of the ids.",
    change=(EMIT, EMIT.replace("return ", "return sorted(") + ")"),
)
ghost(
    "level05.engine.Engine",
    "whole_answers",
    "A step tells each token as soon as it is known; yours waits for the end of the answer.",
    change=(
        GO,
        GO.replace(
            "return events",
            "return [(s.id, token, i == len(s.output) - 1) for s in ready if s.id in gone for i, token in enumerate(s.output)]",
        ),
    ),
)
ghost(
    "level05.engine.Engine",
    "tells_who_has_no_token",
    "Only sequences with a token are told: half a prompt yields nothing, not even None.",
    change=(
        EMIT,
        "told = self._emit([chosen[row] for row in ready], logits[ready])\n"
        "        return told + [(s.id, None, False) for row, s in enumerate(chosen) if row not in ready]",
    ),
)

# ---- add, unfinished, the prompt

ghost(
    "level05.engine.Engine",
    "accepts_an_id_twice",
    "Two streams of one id could not be told apart: an id that waits or runs is refused.",
    change=(IN_USE, "()"),
)
ghost(
    "level05.engine.Engine",
    "asks_who_waits",
    "An id is in use while it runs, too, not only while it waits.",
    change=(IN_USE, "{sequence.id for sequence in self.waiting}"),
)
ghost(
    "level05.engine.Engine",
    "asks_who_runs",
    "An id is in use while it waits, too, not only while it runs.",
    change=(IN_USE, "{sequence.id for sequence in self.running}"),
)
ghost(
    "level05.engine.Engine",
    "never_again",
    "Once a request is finished or aborted its id is free: a client may use it again.",
    change=[
        ("self.running: list[Active] = []", "self.running: list[Active] = []\n        self.seen = set()"),
        (IN_USE, "self.seen"),
        (ADD, ADD + "\n        self.seen.add(request.id)"),
    ],
)
ghost(
    "level05.engine.Engine",
    "never_again_after_an_abort",
    "An aborted request's id is free, as a finished one's is.",
    change=[
        ("self.running: list[Active] = []", "self.running: list[Active] = []\n        self.aborted = set()"),
        (IN_USE, IN_USE + " | self.aborted"),
        (ABORT_RUNNING, ABORT_RUNNING + "\n        self.aborted.add(request_id)"),
    ],
)
ghost(
    "level05.engine.Engine",
    "takes_what_it_refuses",
    "Ask first, then take: a refused request must not wait in the queue.",
    change=(
        "        if limit < 1:\n",
        f"        if request.id not in {IN_USE}:\n"
        "            self.waiting.append(Active(request.id, list(request.prompt), request=request, limit=max(1, limit)))\n"
        "            if limit >= 1:\n"
        "                return\n"
        "        if limit < 1:\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "answers_0_tokens",
    "A request that can get no token is refused, not answered with one.",
    change=("if limit < 1:", "if limit < 0:"),
)
ghost(
    "level05.engine.Engine",
    "the_caller_s_list",
    "Copy the prompt: the caller goes on with its list while the engine runs.",
    change=("list(request.prompt)", "request.prompt"),
)
ghost(
    "level05.engine.Engine",
    "answers_into_the_caller_s_list",
    "The prompt belongs to the caller: the answer goes into a list of the engine's own.",
    change=(
        "sequence.output.append(token)\n",
        "sequence.output.append(token)\n            getattr(sequence.request.prompt, 'append', id)(token)\n",
    ),
)
ghost(
    "level05.engine.Engine",
    "counts_who_runs",
    "Who waits is unfinished as well: a server that stops now leaves them unanswered.",
    change=(COUNT, "return len(self.running)"),
)
ghost(
    "level05.engine.Engine",
    "counts_who_waits",
    "Who runs is unfinished as well, until its last token.",
    change=(COUNT, "return len(self.waiting)"),
)

# ---- abort

ghost(
    "level05.engine.Engine",
    "aborts_who_runs",
    "A request that still waits can be aborted, too.",
    change=(ABORT_WAITING, "pass"),
)
ghost(
    "level05.engine.Engine",
    "aborts_who_waits",
    "A request that runs already can be aborted, too: its client has gone, and its place is needed.",
    change=(ABORT_RUNNING, "pass"),
)
ghost(
    "level05.engine.Engine",
    "aborts_nobody",
    "abort must take the request out of the engine.",
    change=[(ABORT_WAITING, "pass"), (ABORT_RUNNING, "pass")],
)
ghost(
    "level05.engine.Engine",
    "aborts_all_that_run",
    "Only the one whose id was given is aborted; the others go on.",
    change=(ABORT_RUNNING, "self.running = [] if request_id in [s.id for s in self.running] else self.running"),
)
ghost(
    "level05.engine.Engine",
    "aborts_the_oldest",
    "Find the request by its id: it need not be the one that came first.",
    change=(ABORT_RUNNING, "self.running = self.running[request_id in [s.id for s in self.running] :]"),
)
ghost(
    "level05.engine.Engine",
    "aborts_the_newest",
    "Find the request by its id: it need not be the one that came last.",
    change=(
        ABORT_RUNNING,
        "self.running = self.running[: len(self.running) - (request_id in [s.id for s in self.running])]",
    ),
)
ghost(
    "level05.engine.Engine",
    "aborts_similar_ids",
    "An id is compared as a whole: one that begins with it is another request.",
    change=[
        (ABORT_WAITING, ABORT_WAITING.replace("sequence.id != request_id", "not sequence.id.startswith(request_id)")),
        (ABORT_RUNNING, ABORT_RUNNING.replace("sequence.id != request_id", "not sequence.id.startswith(request_id)")),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborts_ids_within",
    "An id is compared as a whole: `in` finds shorter ids within longer ones.",
    change=[
        (ABORT_WAITING, ABORT_WAITING.replace("sequence.id != request_id", "sequence.id not in request_id")),
        (ABORT_RUNNING, ABORT_RUNNING.replace("sequence.id != request_id", "sequence.id not in request_id")),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborts_equal_prompts",
    "Two users may ask the same: a request is known by its id, not by its prompt.",
    change=(
        ABORT_RUNNING,
        "same = [s.prompt for s in self.running if s.id == request_id]\n"
        "        self.running = [s for s in self.running if s.prompt not in same]",
    ),
)
ghost(
    "level05.engine.Engine",
    "stops_at_stop_strings",
    "Stop strings are for whoever turns ids into text: the engine ends an answer at stop_ids.",
    change=(
        DONE,
        "token in sequence.request.stop_ids or sequence.request.sampling.stop or len(sequence.output) == sequence.limit",
    ),
)
ghost(
    "level05.engine.Engine",
    "abort_raises",
    "Nothing happens when the request is not there (any more): an abort and the last token may cross.",
    change=(
        ABORT_WAITING,
        f"if request_id not in {IN_USE}:\n            raise KeyError(request_id)\n        " + ABORT_WAITING,
    ),
)
ghost(
    "level05.engine.Engine",
    "aborted_runs_on_in_silence",
    "An aborted request leaves at once: to run it on and tell nobody costs as much as before.",
    change=[
        (ABORT_RUNNING, "self.silent = {*getattr(self, 'silent', ()), request_id}"),
        (
            GO,
            GO.replace(
                "return events", "return [event for event in events if event[0] not in getattr(self, 'silent', ())]"
            ),
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborted_tells_its_end",
    "An aborted request gives no more events: its client is gone, and no token was made.",
    change=[
        (
            ABORT_RUNNING,
            "self.left = [(s.id, s.output[-1], True) for s in self.running if s.id == request_id and s.output]\n        "
            + ABORT_RUNNING,
        ),
        (EMIT, EMIT.replace("return ", "left, self.left = getattr(self, 'left', []), []\n        return left + ")),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborted_runs_once_more",
    "An abort holds from the next step on: it is too late to look for it after the pass.",
    change=[
        (ABORT_RUNNING, "self.leaving = {*getattr(self, 'leaving', ()), request_id}"),
        (
            EMIT,
            EMIT.replace("return ", "told = ")
            + "\n        self.running = [s for s in self.running if s.id not in getattr(self, 'leaving', ())]"
            + "\n        return told",
        ),
    ],
)
ghost(
    "level05.engine.Engine",
    "aborted_starts_again",
    "Abort is not preempt: the request is forgotten, and does not go back to the queue.",
    change=(
        ABORT_RUNNING,
        "again = [Active(s.id, s.prompt, request=s.request, limit=s.limit) for s in self.running if s.id == request_id]\n"
        "        self.waiting = again + self.waiting\n        " + ABORT_RUNNING,
    ),
)
