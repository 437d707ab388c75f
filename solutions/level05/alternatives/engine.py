"""Right programs, written another way, for level05.engine. `alternative` is given when this is read."""

from collections import OrderedDict, deque


def _room(config, request):
    """How many new tokens a request may get; ValueError if none."""
    if not len(request.prompt) or request.sampling.max_tokens < 1 or len(request.prompt) >= config.max_seq_len:
        raise ValueError(f"no token for {request.id}")
    return min(request.sampling.max_tokens, config.max_seq_len - len(request.prompt))


def _parts(params, config, run, new_cache):
    """The caller's pass and caches, or level 05's and level 02's."""
    from level02.cache import KVCache
    from level05.packed import packed_step

    dtype = params["model.embed_tokens.weight"].dtype
    return run or packed_step, new_cache or (lambda room: KVCache(config, 1, room, dtype))


def _leave(cache):
    """Tell a cache that its request is gone, if it wants to know."""
    getattr(cache, "release", lambda: None)()


class _Deque:
    """A deque of who waits, an ordered dict of who runs, and a plan of its own."""

    class Row:
        def __init__(self, request, limit):
            self.request, self.limit, self.cache = request, limit, None
            self.todo, self.prompt, self.output = deque(request.prompt), list(request.prompt), []

    def __init__(self, params, config, token_budget=256, max_seqs=32, *, run=None, new_cache=None):
        if min(token_budget, max_seqs) < 1:
            raise ValueError("nothing would ever run")
        self._model, self._limits = (params, config), (token_budget, max_seqs)
        self._run, self._new_cache = _parts(params, config, run, new_cache)
        self._queue, self._active = deque(), OrderedDict()

    @property
    def unfinished(self):
        return sum(map(len, (self._queue, self._active)))

    def add(self, request):
        row = self.Row(request, _room(self._model[1], request))
        if request.id in self._active or any(other.request.id == request.id for other in self._queue):
            raise ValueError(f"{request.id} is in use")
        self._queue.append(row)

    def abort(self, request_id):
        if row := self._active.pop(request_id, None):
            _leave(row.cache)
        else:
            self._queue = deque(row for row in self._queue if row.request.id != request_id)

    def step(self):
        from level03.sampler import choose_tokens

        budget, places = self._limits
        work = []
        for row in sorted(self._active.values(), key=lambda row: not row.output):  # stable: decodes first
            if budget:
                chunk = [row.todo.popleft() for _ in range(min(budget, len(row.todo)))]
                work.append((row, chunk))
                budget -= len(chunk)
        while budget and self._queue and len(self._active) < places:
            row = self._queue.popleft()
            self._active[row.request.id] = row
            row.cache = self._new_cache(len(row.prompt) + row.limit - 1)
            chunk = [row.todo.popleft() for _ in range(min(budget, len(row.todo)))]
            work.append((row, chunk))
            budget -= len(chunk)
        if not work:
            return []
        logits = self._run(*self._model, [row.cache for row, _ in work], [chunk for _, chunk in work])
        told = []
        for (row, _), scores in zip(work, logits):
            if row.todo:
                continue
            [token] = choose_tokens(scores[None], [row.prompt], [row.output], [row.request.sampling]).tolist()
            row.output.append(token)
            row.todo.append(token)
            over = len(row.output) >= row.limit or token in row.request.stop_ids
            told.append((row.request.id, token, over))
            if over:
                _leave(self._active.pop(row.request.id).cache)
        return told


class _Slots:
    """A fixed number of slots, whose caches are used again where they are large enough; told apart by numbers."""

    def __init__(self, params, config, token_budget=256, max_seqs=32, *, run=None, new_cache=None):
        if token_budget < 1 or max_seqs < 1:
            raise ValueError("nothing would ever run")
        self.params, self.config, self.token_budget, self.count = params, config, token_budget, 0
        self.run, self.new_cache = _parts(params, config, run, new_cache)
        self.slots = [{"request": None, "cache": None, "room": 0} for _ in range(max_seqs)]
        self.pending = {}

    def used(self):
        """Slots in the order in which their requests came."""
        return sorted((slot for slot in self.slots if slot["request"]), key=lambda slot: slot["number"])

    @property
    def unfinished(self):
        return len(self.pending) + len(self.used())

    def add(self, request):
        limit = _room(self.config, request)
        if request.id in self.pending or request.id in [slot["request"].id for slot in self.used()]:
            raise ValueError(f"{request.id} is in use")
        self.count += 1
        self.pending[request.id] = {"request": request, "text": list(request.prompt), "limit": limit} | {
            "number": self.count,
            "prompt": len(request.prompt),
            "ran": 0,
        }

    def abort(self, request_id):
        self.pending.pop(request_id, None)
        for slot in self.used():
            if slot["request"].id == request_id:
                slot["request"] = None
                _leave(slot["cache"])

    def take(self, wanted):
        need = len(wanted["text"]) + wanted["limit"]
        free = [slot for slot in self.slots if not slot["request"]]
        slot = next((slot for slot in free if slot["room"] >= need), free[0])
        if slot["room"] >= need:
            slot["cache"].truncate(0)
        else:
            slot["cache"] = None  # before another one is made
            slot["cache"], slot["room"] = self.new_cache(need), need
        slot.update(wanted)
        return slot

    def step(self):
        from level03.sampler import choose_tokens

        left, chosen = self.token_budget, []
        running = self.used()
        order = [s for s in running if len(s["text"]) > s["prompt"]] + [
            s for s in running if len(s["text"]) == s["prompt"]
        ]
        while left > 0 and (order or (self.pending and len(self.used()) < len(self.slots))):
            slot = order.pop(0) if order else self.take(self.pending.pop(next(iter(self.pending))))
            chunk = slot["text"][slot["ran"] :][:left]
            left -= len(chunk)
            slot["ran"] += len(chunk)
            chosen.append((slot, chunk))
        if not chosen:
            return []
        logits = self.run(
            params=self.params,
            config=self.config,
            caches=tuple(slot["cache"] for slot, _ in chosen),
            chunks=tuple(tuple(chunk) for _, chunk in chosen),
        )
        rows = [i for i, (slot, _) in enumerate(chosen) if slot["ran"] == len(slot["text"])]
        if not rows:
            return []
        ready = [chosen[i][0] for i in rows]
        prompts, outputs = [s["text"][: s["prompt"]] for s in ready], [s["text"][s["prompt"] :] for s in ready]
        tokens = choose_tokens(logits[rows], prompts, outputs, [s["request"].sampling for s in ready])
        told = []
        for slot, token in zip(ready, tokens):
            slot["text"].append(int(token))
            request, made = slot["request"], len(slot["text"]) - slot["prompt"]
            finished = made == slot["limit"] or int(token) in request.stop_ids
            told.append((request.id, int(token), finished))
            if finished:
                slot["request"] = None
                _leave(slot["cache"])
        return told


class _Generators:
    """Each request is a generator: it yields what it has to run, and is sent the logits that come of it."""

    def __init__(self, params, config, token_budget=256, max_seqs=32, *, run=None, new_cache=None):
        if token_budget < 1 or max_seqs < 1:
            raise ValueError("nothing would ever run")
        self.model, self.budget, self.places = (params, config), token_budget, max_seqs
        self.run, self.new_cache = _parts(params, config, run, new_cache)
        self.lives = {}  # id -> [generator, tokens to run, decodes?, cache], in the order of arrival

    @property
    def unfinished(self):
        return len(self.lives)

    def add(self, request):
        limit = _room(self.model[1], request)
        if request.id in self.lives:
            raise ValueError(f"{request.id} is in use")
        life = self.life(request, list(request.prompt), limit)
        self.lives[request.id] = [life, next(life), False, None]

    def abort(self, request_id):
        if life := self.lives.pop(request_id, None):
            _leave(life[3])

    @staticmethod
    def life(request, prompt, limit):
        from level03.sampler import choose_tokens

        output, todo = [], prompt
        while True:
            logits = yield todo, len(prompt) + limit
            output.append(int(choose_tokens(logits, [prompt], [output], [request.sampling])))
            todo = output[-1:]
            if len(output) == limit or output[-1] in request.stop_ids:
                return output[-1]

    def step(self):
        started = [id for id, (_, _, _, cache) in self.lives.items() if cache is not None]
        new = [id for id in self.lives if id not in started][: max(0, self.places - len(started))]
        left, work = self.budget, []
        for id in sorted(started, key=lambda id: not self.lives[id][2]) + new:
            if not left:
                break
            life = self.lives[id]
            (todo, room), life[3] = life[1], life[3] if id in started else self.new_cache(life[1][1])
            chunk, rest = todo[:left], todo[left:]
            left -= len(chunk)
            life[1] = rest, room
            work.append((id, life, chunk))
        if not work:
            return []
        logits = self.run(*self.model, [life[3] for _, life, _ in work], [chunk for _, _, chunk in work])
        told = []
        for row, (id, life, _) in enumerate(work):
            if life[1][0]:
                continue
            try:
                life[1], life[2] = life[0].send(logits[row : row + 1]), True
                told.append((id, life[1][0][-1], False))
            except StopIteration as end:
                told.append((id, end.value, True))
                _leave(self.lives.pop(id)[3])
        return told


alternative("level05.engine.Engine", "deque", program=_Deque)
alternative("level05.engine.Engine", "slots_used_again", program=_Slots)
alternative("level05.engine.Engine", "generators", program=_Generators)
