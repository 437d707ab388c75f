"""Right programs, written another way, for level12.engine. `alternative` is given when this is read."""

READY = "ready = [row for row, sequence in enumerate(chosen) if not sequence.pending]"
TOKENS = "tokens = self._choose(logits[ready], [chosen[row] for row in ready])"
SAMPLED = "sampled = {chosen[row].id: token for row, token in zip(ready, tokens)}"
UPDATE = "finished = self.scheduler.update(out, sampled)"
TELL = "return [(id, token, id in finished) for id, token in sampled.items()]"
ID = "level12.engine.Engine"

alternative(
    ID,
    "tokens_for_all",
    change=[
        (READY, "done = [sequence.id for sequence in chosen if not sequence.pending]"),
        (TOKENS, "tokens = self._choose(logits, chosen)"),
        (SAMPLED, "sampled = {sequence.id: token for sequence, token in zip(chosen, tokens)}"),
        (TELL, "return [(id, sampled[id], id in set(finished)) for id in done]"),
    ],
)
alternative(
    ID,
    "looks_who_is_left",
    change=[
        (UPDATE, "self.scheduler.update(out, sampled)"),
        (TELL, TELL.replace("id in finished", "id not in self.scheduler.sequences")),
    ],
)
alternative(
    ID,
    "one_by_one",
    change=(
        TOKENS,
        "tokens = [self._choose(logits[row : row + 1], [chosen[row]])[0] for row in ready]",
    ),
)


class _Own:
    """Without the given helpers: a table of rows beside the scheduler, and its own undo."""

    def __init__(self, params, config, scheduler, *, run=None, pool=None):
        from level06.paged import Pool
        from level12.paged import paged_step

        self.model, self.scheduler, self.run, self.requests = (params, config), scheduler, run or paged_step, {}
        manager, dtype = scheduler.kv, params["model.embed_tokens.weight"].dtype
        self.size, self.blocks = manager.block_size, manager.pool.num_blocks
        self.memory = Pool(config, self.blocks, self.size, dtype) if pool is None else pool
        self.longest = min(config.max_seq_len, scheduler.max_model_len)

    @property
    def unfinished(self):
        return len(self.requests)

    def add(self, request):
        from level12.state import Tracked

        limit = min(request.sampling.max_tokens, self.longest - len(request.prompt))
        if limit < 1 or not len(request.prompt) or request.id in self.requests:
            raise ValueError(f"no room for {request.id}, or no question")
        if len(request.prompt) + limit - 1 > (self.blocks - 1) * self.size:
            raise ValueError(f"{request.id} would wait for ever")
        row = Tracked(request.id, [*request.prompt], limit=limit, stop_ids=request.stop_ids)
        row.salt = getattr(request, "salt", b"")
        self.scheduler.add(row)
        self.requests[request.id] = request, row

    def abort(self, request_id):
        if self.requests.pop(request_id, None):
            self.scheduler.abort(request_id)

    def step(self):
        from level03.sampler import choose_tokens
        from level12.batch import build_batch

        plan = self.scheduler.schedule()
        if plan.num_scheduled == {}:
            return []
        batch = build_batch(plan, self.scheduler.sequences, self.size)
        try:
            logits = self.run(*self.model, self.memory, batch)
        except BaseException:
            self.scheduler.undo(plan)
            raise
        told = {}
        for scores, id, length in zip(logits, plan.num_scheduled, batch.seq_lens):
            request, row = self.requests[id]
            if length == row.num_tokens:
                [told[id]] = choose_tokens(scores[None], [row.prompt], [row.output], [request.sampling]).tolist()
        gone = self.scheduler.update(plan, told)
        for id in gone:
            del self.requests[id]
        return [(id, token, id not in self.requests) for id, token in told.items()]


alternative(ID, "own_table", program=_Own)
