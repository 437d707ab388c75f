"""Known-wrong programs of level12.engine. `ghost` is given when this is read."""

ID = "level12.engine.Engine"
SALT = 'salt = getattr(request, "salt", b"")'
ADD = "self.scheduler.add(Active(request.id, prompt, [], 0, limit, request.stop_ids, salt, sampling=request.sampling))"
ABORT = "self.scheduler.abort(request_id)"
PLAN = "out = self.scheduler.schedule()"
IDLE = "        if not out.num_scheduled:\n            return []\n"
CHOSEN = "chosen = [self.scheduler.sequences[id] for id in out.num_scheduled]"
LOGITS = "logits = self._run(out, build_batch(out, self.scheduler.sequences, self.block_size))"
READY = "ready = [row for row, sequence in enumerate(chosen) if not sequence.pending]"
TOKENS = "tokens = self._choose(logits[ready], [chosen[row] for row in ready])"
SAMPLED = "sampled = {chosen[row].id: token for row, token in zip(ready, tokens)}"
UPDATE = "finished = self.scheduler.update(out, sampled)"
TELL = "return [(id, token, id in finished) for id, token in sampled.items()]"
ROWS = "[chosen[row] for row in ready]"


def chosen_by(prompts="s.prompt", outputs="s.output", params="s.sampling"):
    """A change of how tokens are chosen: past _choose, for each `s` of those that are ready."""
    return (
        TOKENS,
        f"rows = {ROWS}\n        tokens = choose_tokens(logits[ready], [{prompts} for s in rows],"
        f" [{outputs} for s in rows], [{params} for s in rows]).tolist() if rows else []",
    )


# ---- step

ghost(
    ID,
    "token_after_every_chunk",
    "Only a sequence whose tokens have all run has a next token: after half of a question there is nothing to answer.",
    change=(READY, "ready = list(range(len(chosen)))"),
)
ghost(
    ID,
    "first_rows_of_the_logits",
    "A row of logits belongs to its sequence: leave out the rows in the middle of a prompt, wherever they stand.",
    change=(TOKENS, f"tokens = self._choose(logits[: len(ready)], {ROWS})"),
)
ghost(
    ID,
    "last_rows_of_the_logits",
    "Unfinished prompts need not come first in the batch: pick the rows of those that are ready, not the last ones.",
    change=(TOKENS, f"tokens = self._choose(logits[len(logits) - len(ready) :], {ROWS})"),
)
ghost(
    ID,
    "tokens_to_the_first_ids",
    "Token and id belong to one row: zip with those that are ready, not with all that have run.",
    change=(
        SAMPLED,
        "first = dict(zip(out.num_scheduled, tokens))\n"
        "        sampled = {chosen[row].id: first.get(chosen[row].id, 0) for row in ready}",
    ),
)
ghost(
    ID,
    "no_tokens_in_silence",
    "Nobody is ready in the middle of a prompt: the step has run all the same, and is over.",
    change=(
        IDLE,
        IDLE + "        if self.scheduler.waiting and self.scheduler.running[0].pending:\n            return []\n",
    ),
)
ghost(
    ID,
    "idle_step_raises",
    "Without work a step returns []: a batch of no tokens is an error.",
    change=(IDLE, ""),
)
ghost(
    ID,
    "waits_for_somebody_running",
    "Who waits is let in by schedule(): a step that looks at `running` first never begins.",
    change=(PLAN, "if not self.scheduler.running:\n            return []\n        " + PLAN),
)
ghost(
    ID,
    "runs_until_a_token_comes",
    "A step is one pass, and [] is a good answer: others want to come in between the chunks of a prompt.",
    change=(TELL, TELL.replace("return ", "told = ") + "\n        return told or self.step()"),
)
ghost(
    ID,
    "a_pass_for_each_sequence",
    "One pass runs the whole batch, so that the weights are read once; yours runs each sequence by itself.",
    change=(
        LOGITS,
        "alone = [replace(out, num_scheduled={id: n}) for id, n in out.num_scheduled.items()]\n        "
        "logits = __import__('torch').cat("
        "[self._run(out, build_batch(one, self.scheduler.sequences, self.block_size)) for one in alone])",
    ),
)
ghost(
    ID,
    "failed_pass_not_undone",
    "Blocks have their keys before the pass: when it fails, _run takes the plan back; yours leaves blocks of nothing.",
    change=(LOGITS, LOGITS.replace("self._run(out, ", "self.run(self.params, self.config, self.pool, ")),
)
ghost(
    ID,
    "failed_pass_only_counted_back",
    "What a failed pass should have written can still be found: its blocks have keys. Undo takes those back, too.",
    change=(
        LOGITS,
        "before = {s.id: s.computed - out.num_scheduled[s.id] for s in chosen}\n        try:\n            "
        + LOGITS.replace("self._run(out, ", "self.run(self.params, self.config, self.pool, ")
        + "\n        except BaseException:\n            for s in chosen:\n                s.computed = before[s.id]\n            raise",
    ),
)
ghost(
    ID,
    "failed_pass_swallowed",
    "An error of the pass belongs to the caller; yours says that the step gave no token.",
    change=(LOGITS, f"try:\n            {LOGITS}\n        except Exception:\n            return []"),
)
ghost(
    ID,
    "failed_pass_drops_the_requests",
    "A pass that fails is undone, and its requests wait for the next one; yours drops them without a word.",
    change=(
        LOGITS,
        f"try:\n            {LOGITS}\n        except Exception:\n"
        "            for id in out.num_scheduled:\n                self.abort(id)\n            raise",
    ),
)
ghost(
    ID,
    "finished_never_told",
    "The last token of a request is marked as its last: the client waits for that to close its stream.",
    change=(TELL, TELL.replace("id in finished", "False")),
)
ghost(
    ID,
    "finished_by_the_count_alone",
    "A stop id finishes a request as well: update() says who is finished, be it before the last of its tokens.",
    change=(
        TELL,
        "lengths = {s.id: (len(s.output), s.limit) for s in chosen}\n        return [(id, token, lengths[id][0] == lengths[id][1]) for id, token in sampled.items()]",
    ),  # fmt: skip
)
ghost(
    ID,
    "finished_by_stop_ids_alone",
    "The last of max_tokens finishes a request as well, without a stop id.",
    change=(
        TELL,
        "stops = {s.id: s.stop_ids for s in chosen}\n        return [(id, token, token in stops[id]) for id, token in sampled.items()]",
    ),  # fmt: skip
)
ghost(
    ID,
    "stop_id_kept_back",
    "A stop id is the last token of its request: without it nobody hears that the answer is over.",
    change=(
        TELL,
        "stops = {s.id: s.stop_ids for s in chosen}\n        return [(id, token, id in finished) for id, token in sampled.items() if token not in stops[id]]",
    ),  # fmt: skip
)
ghost(
    ID,
    "finished_come_first",
    "Events are in the order of the batch; yours tells those that are finished first.",
    change=(TELL, TELL.replace("sampled.items()", "sorted(sampled.items(), key=lambda one: one[0] not in finished)")),
)
ghost(
    ID,
    "events_sorted_by_id",
    "Events are in the order of the batch; yours are sorted by id.",
    change=(TELL, TELL.replace("sampled.items()", "sorted(sampled.items())")),
)
ghost(
    ID,
    "sent_again",
    "A sequence that is computed again has no new token until all of it has run; yours sends its newest one again.",
    change=(
        TELL,
        "return [(s.id, s.output[-1], s.id in finished) for s in chosen if s.output]",
    ),
)
ghost(
    ID,
    "all_sent_again",
    "What was sent before a preemption is not sent again; yours tells the whole output once it has been computed again.",
    change=[
        (
            PLAN,
            "self.back = getattr(self, 'back', set())\n        " + PLAN + "\n        self.back.update(out.preempted)",
        ),
        (
            TELL,
            "old = [(s.id, token, False) for s in chosen if s.id in self.back and s.id in sampled for token in s.output[:-1]]\n"
            "        self.back -= set(sampled)\n        " + TELL.replace("return ", "return old + "),
        ),
    ],
)
ghost(
    ID,
    "preempted_is_aborted",
    "A preempted request waits to go on; yours drops it, and its client never gets the rest.",
    change=(PLAN, PLAN + "\n        for id in out.preempted:\n            self.abort(id)"),
)
ghost(
    ID,
    "preempted_waits_at_the_back",
    "A preempted request waits before all others; yours sends it to the back, where newer ones overtake it.",
    change=(PLAN, PLAN + "\n        if out.preempted:\n            self.scheduler.waiting.rotate(-len(out.preempted))"),
)
ghost(
    ID,
    "preempted_starts_a_new_answer",
    "Only keys and values are lost in a preemption: yours forgets the output, and tells another one from the start.",
    change=(
        PLAN,
        PLAN + "\n        for id in out.preempted:\n            self.scheduler.sequences[id].output.clear()",
    ),
)
ghost(
    ID,
    "preempted_keeps_its_answer_as_a_prompt",
    "A preempted request has had some of its max_tokens already: as a new prompt its output is not counted any more.",
    change=(
        PLAN,
        PLAN + "\n        for id in out.preempted:\n            s = self.scheduler.sequences[id]\n"
        "            s.prompt, s.output = s.tokens, []",
    ),
)

# ---- how tokens are chosen

ghost(
    ID,
    "greedy_for_all",
    "Each request has its own sampling params; yours takes the best token for everybody.",
    change=(TOKENS, "tokens = logits[ready].argmax(-1).tolist()"),
)
ghost(
    ID,
    "params_of_the_first",
    "Each request has its own sampling params; yours chooses for all with those of the first.",
    change=chosen_by(params="rows[0].sampling"),
)
ghost(
    ID,
    "output_forgotten",
    "Penalties and seeds need the output so far: without it, every token is drawn with the same random number.",
    change=chosen_by(outputs="[]"),
)
ghost(
    ID,
    "prompt_forgotten",
    "The repetition penalty counts the tokens of the prompt, too; yours only knows the output.",
    change=chosen_by(prompts="[]"),
)
ghost(
    ID,
    "one_history",
    "Prompt and output are two histories: presence and frequency penalties are about the output alone.",
    change=chosen_by(outputs="s.tokens"),
)
ghost(
    ID,
    "params_by_row_of_the_batch",
    "After the rows in the middle of a prompt are left out, params must be left out with them; yours slip by a row.",
    change=chosen_by(params="chosen[rows.index(s)].sampling"),
)

# ---- add and abort

ghost(
    ID,
    "limit_is_max_tokens",
    "`limit` is max_tokens, or fewer where the model ends: yours runs on behind its last position.",
    change=(ADD, ADD.replace("limit", "request.sampling.max_tokens")),
)
ghost(
    ID,
    "stop_ids_not_passed_on",
    "The scheduler ends a sequence at its stop_ids: it has to be told of them.",
    change=(ADD, ADD.replace("request.stop_ids", "()")),
)
ghost(
    ID,
    "salt_not_passed_on",
    "Requests with different salts must not share blocks: yours drops the salt.",
    change=(SALT, 'salt = b""'),
)
ghost(
    ID,
    "salt_demanded",
    "The engine takes level 05's requests as well, which have no salt: b'' then.",
    change=(SALT, "salt = request.salt"),
)
ghost(
    ID,
    "salt_for_everybody",
    "Requests with the same salt share blocks, and no salt is a salt as well; with the id in it nobody shares.",
    change=(SALT, "salt = request.id.encode()"),
)
ghost(
    ID,
    "prompt_not_copied",
    "A client goes on with its list: keep a copy of the prompt.",
    change=(ADD, ADD.replace("prompt,", "request.prompt,")),
)
ghost(
    ID,
    "abort_does_nothing",
    "An aborted request leaves at once, and its blocks with it; yours runs on to its end.",
    change=(ABORT, "return"),
)
ghost(
    ID,
    "abort_keeps_the_blocks",
    "Whoever leaves gives back blocks: to take it out of the lists is not enough.",
    change=(
        ABORT,
        "s = self.scheduler.sequences.pop(request_id, None)\n"
        "        for row in (self.scheduler.running, self.scheduler.waiting):\n"
        "            if s in row:\n                row.remove(s)",
    ),
)
ghost(
    ID,
    "abort_only_forgets_the_id",
    "A request is in `running` or `waiting` as well: let the scheduler abort it.",
    change=(ABORT, "self.scheduler.sequences.pop(request_id, None)"),
)
ghost(
    ID,
    "aborts_only_who_runs",
    "Who waits, new or preempted, can hang up as well.",
    change=(ABORT, "if request_id in [s.id for s in self.scheduler.running]:\n            " + ABORT),
)
ghost(
    ID,
    "aborts_only_who_waits",
    "Who runs can hang up as well, and holds blocks.",
    change=(ABORT, "if request_id in [s.id for s in self.scheduler.waiting]:\n            " + ABORT),
)
ghost(
    ID,
    "abort_raises",
    "Nothing happens when the request is not there (any more): an abort and the last token may cross.",
    change=(
        ABORT,
        "if request_id not in self.scheduler.sequences:\n            raise KeyError(request_id)\n        " + ABORT,
    ),
)
ghost(
    ID,
    "aborted_is_finished_later",
    "An aborted request gets no token more; yours ends it with its next one.",
    change=(
        ABORT,
        "if request_id in self.scheduler.sequences:\n            self.scheduler.sequences[request_id].limit = 1 + len(self.scheduler.sequences[request_id].output)",
    ),
)
