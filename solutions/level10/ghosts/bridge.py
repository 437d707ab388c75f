"""Known-wrong programs of level10.bridge. `ghost` is given when this is read."""

STEP = "await self.in_thread(self.engine.step) if self.streams else []"
WHILE = "while self.streams or self.left:"
ARRIVE = "self.arrived.append(request)"
LEAVE = "self.left.append(id)"
POP = "if tokens := self.streams.pop(id, None):\n            self.left.append(id)"
FOUND = "if tokens := self.streams.get(id):"
PUT = "tokens.put((token, last))"
FREE = "                    if last:\n                        del self.streams[id]\n"
EVENTS = "for id, token, last in events:"
FAILED = "events, ended = [], failed(error)"
FAIL_ALL = "                for id in list(self.streams):\n                    self._end(id, ended)\n"
TAKE = "arrived, left, self.arrived, self.left = self.arrived, self.left, [], []"
RAN = "ran = self.streams.keys() - {request.id for request in self.arrived}\n        left, self.left = self.left, []\n"
STILL = "if request.id in self.streams:\n                try:"
REFUSE = "self._end(request.id, Invalid(str(error)))"
CLOSE = 'self._end(id, Closed("the server is shutting down: ask another one"))'
WAIT = "        if self.worker:\n            await asyncio.wait([self.worker])\n"


def _ghost(name, sentence, *pairs):
    ghost("level10.bridge.AsyncEngine", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- steps

_ghost(
    "step_in_the_event_loop",
    "step() blocks: it runs in a thread, through `await in_thread(engine.step)`; yours holds the whole event loop up.",
    STEP,
    "self.engine.step() if self.streams else []",
)
_ghost(
    "told_in_the_thread",
    "in_thread gets engine.step and nothing else: your lists and queues belong to the event loop's thread.",
    "                self._between_steps()\n",
    "",
    STEP,
    "await self.in_thread(lambda: (self._between_steps(), self.engine.step() if self.streams else [])[1])",
)
_ghost(
    "a_worker_for_each",
    "One worker steps for all: yours starts another for each request, and two steps run at once.",
    "self._wake()",
    "asyncio.create_task(self._work())",
)
_ghost(
    "wakes_once",
    "When the worker has run out of work it ends: the next request needs a new one, yours waits for ever.",
    "self._wake()",
    "if self.worker is None:\n            self._wake()",
)
_ghost(
    "overlooked_at_the_end",
    "Between the last look for work and the worker's end nothing may be awaited: who comes in that turn is overlooked.",
    FREE,
    FREE + "        await asyncio.sleep(0)\n",
)
_ghost(
    "steps_for_nobody",
    "A step is for somebody: when all have left, the engine hears of it and does not step; yours steps once more.",
    STEP,
    "await self.in_thread(self.engine.step)",
)
_ghost(
    "never_rests",
    "With nothing to do nothing is called; yours steps on, and an idle server takes a whole core.",
    WHILE,
    "while not self.closed:",
    STEP,
    "await self.in_thread(self.engine.step)",
)

# ---- who comes

_ghost(
    "added_at_once",
    "open() may be called during a step, and the engine is not made for that: leave the request for the time between.",
    ARRIVE,
    "self.engine.add(request)",
)
_ghost(
    "static_batch",
    "A request joins those that run before the next step; yours waits until all of them have ended.",
    TAKE,
    RAN + "        arrived, self.arrived = ([], self.arrived) if ran else (self.arrived, [])",
)
_ghost(
    "one_at_a_time",
    "The engine batches: give it all requests that came; yours gives it the next when the last has ended.",
    TAKE,
    RAN + "        n = 0 if ran else 1\n        arrived, self.arrived = self.arrived[:n], self.arrived[n:]",
)
_ghost(
    "one_for_each_step",
    "All that came are added before the next step, not one of them.",
    TAKE,
    "arrived, left, self.arrived, self.left = self.arrived[:1], self.left, self.arrived[1:], []",
)
_ghost(
    "newest_first",
    "First come, first added: yours gives the engine the newest request first.",
    "for request in arrived:",
    "for request in reversed(arrived):",
)
_ghost(
    "added_after_it_left",
    "Who came and left between two steps must not be in the engine: yours aborts it, and then adds it.",
    STILL,
    "if request:\n                try:",
)

# ---- tokens

_ghost(
    "tokens_at_the_end",
    "A token is in its Tokens as soon as its step has ended; yours keeps them until the answer is complete.",
    PUT,
    "tokens.made = [*getattr(tokens, 'made', []), (token, last)]\n"
    "                    for item in tokens.made if last else []:\n"
    "                        tokens.put(item)",
)
_ghost(
    "one_token_for_each_step",
    "A step may bring several tokens of a stream: yours keeps the last of them.",
    EVENTS,
    "for id, (token, last) in {id: (token, last) for id, token, last in events}.items():",
)
_ghost(
    "place_never_free",
    "With its last token a stream is over and its place free; yours keeps it, and goes on stepping.",
    FREE,
    "",
)
_ghost(
    "place_free_when_read",
    "A place is free when the last token is in its Tokens, be it read or not; yours waits for a reader that is slow.",
    FREE,
    "                    if last:\n                        self._reading = getattr(self, '_reading', {}) | {id: tokens}\n"
    "            for id, tokens in list(getattr(self, '_reading', {}).items()):\n"
    "                if tokens.queue.empty():\n"
    "                    self.streams.pop(id, None)\n"
    "            await asyncio.sleep(0)\n",
)
_ghost(
    "token_for_one_that_left",
    "The engine may still return a token of a stream that left during the step: drop it; yours fails, and all with it.",
    FOUND,
    "if tokens := self.streams[id]:",
)
_ghost(
    "stops_at_one_that_left",
    "The token of a stream that left is dropped, and those behind it in the list are given; yours loses them.",
    FOUND,
    "if id not in self.streams:\n                    break\n                if tokens := self.streams.get(id):",
)

# ---- who leaves

_ghost(
    "no_abort",
    "An engine that is not told goes on decoding for nobody: abort the request of one that left.",
    LEAVE,
    "pass",
)
_ghost(
    "aborted_at_once",
    "aclose() may come during a step, and the engine is not made for that: abort between this step and the next.",
    LEAVE,
    "self.engine.abort(id)",
)
_ghost(
    "place_free_after_the_step",
    "The place of one that leaves is free now, not when the step has ended: yours says Full to the next.",
    POP,
    "if tokens := self.streams.get(id):\n            self.left.append(id)",
    "            self.engine.abort(id)\n",
    "            self.engine.abort(id)\n            self.streams.pop(id, None)\n",
)
_ghost(
    "abort_with_the_next_request",
    "When the last one leaves, no step comes any more, and yours tells the engine nothing: its blocks stay taken.",
    WHILE,
    "while self.streams:",
)
_ghost(
    "closed_means_cancelled",
    "One that leaves ends its own stream: yours cancels the worker, and all others wait for ever.",
    LEAVE,
    "self.left.append(id)\n            self.worker.cancel()",
)

# ---- what fails

_ghost(
    "refused_for_all",
    "An add() that raises ValueError ends that stream alone; yours ends all of them.",
    REFUSE,
    "raise",
)
_ghost(
    "refused_in_silence",
    "Whoever is refused must hear it: yours drops the request, and its client waits for ever.",
    REFUSE,
    "pass",
)
_ghost(
    "refused_keeps_its_place",
    "A stream that an error ended is not open any more: its place is free, and nobody steps for it.",
    REFUSE,
    "self.streams[request.id].put(Invalid(str(error)))",
)
_ghost(
    "refused_as_it_was",
    "A request that the engine refuses is the client's mistake: it ends with Invalid and the same text, a 400.",
    REFUSE,
    "self._end(request.id, error)",
)
_ghost(
    "refused_as_failed",
    "A request that the engine refuses is the client's mistake, Invalid, and not a failure of the server's.",
    REFUSE,
    "self._end(request.id, failed(error))",
)
_ghost(
    "failure_ignored",
    "A step that raises ends all open streams with Failed; yours steps again, as if nothing had happened.",
    FAIL_ALL,
    "                ended = None\n",
)
_ghost(
    "failure_kills_the_worker",
    "After a step that raised, later requests are served, and the streams end with Failed; yours lets the worker die.",
    FAILED,
    "raise",
)
_ghost(
    "failure_as_it_was",
    "Clients hear of a failed step as the Failed that `failed` makes of it, with a status; yours passes the error on.",
    FAILED,
    "events, ended = [], error",
)
_ghost(
    "failed_not_aborted",
    "A step that raised left its requests in the engine: abort them, or it goes on with them.",
    FAIL_ALL,
    "                for id in list(self.streams):\n                    self.streams.pop(id).put(ended)\n",
)
_ghost(
    "failure_for_one",
    "A step is of all requests: when it raises, all open streams end; yours ends one, and the others go on.",
    FAIL_ALL,
    "                for id in list(self.streams)[:1]:\n                    self._end(id, ended)\n",
)
_ghost(
    "newcomers_survive_a_failure",
    "A step that raises ends all open streams, also those that came during the step.",
    FAIL_ALL,
    "                for id in self.streams.keys() - {request.id for request in self.arrived}:\n"
    "                    self._end(id, ended)\n",
)

# ---- close

_ghost(
    "close_forgets_who_left",
    "Who left during the last step is still in the engine: close() must not throw away the notes on them.",
    "        self.closed = True\n",
    "        self.closed, self.left = True, []\n",
)
_ghost(
    "close_does_not_wait",
    "close() returns when the engine is at rest; yours leaves a thread behind that still computes.",
    WAIT,
    "",
)
_ghost(
    "close_drains",
    "close() ends the streams now; yours waits for their last tokens, which may take minutes.",
    f"        for id in list(self.streams):\n            {CLOSE}\n",
    "",
)
_ghost(
    "close_in_silence",
    "Whoever waits for a token must hear that none will come: end each stream with Closed.",
    CLOSE,
    "self._end(id)",
)
_ghost(
    "close_tells_clients_only",
    "At a shutdown the engine hears of those that it loses, too: after close() it has no request left.",
    CLOSE,
    'self.streams.pop(id).put(Closed("the server is shutting down: ask another one"))',
)
_ghost(
    "close_cancels_the_worker",
    "A thread can't be cancelled: the step goes on while your close() returns. Wait for it.",
    "            await asyncio.wait([self.worker])\n",
    "            self.worker.cancel()\n            await asyncio.wait([self.worker])\n",
)
_ghost(
    "close_needs_a_worker",
    "A server may be closed before its first request: then there is no worker to wait for.",
    "        if self.worker:\n            await",
    "        if True:\n            await",
)
_ghost(
    "close_after_the_step",
    "Clients hear of a shutdown now, and not when the step has ended: end the streams first, then wait.",
    f"        for id in list(self.streams):\n            {CLOSE}\n{WAIT}",
    "        self.left += self.streams\n        ended, self.streams = self.streams, {}\n"
    f"{WAIT}        for tokens in ended.values():\n"
    '            tokens.put(Closed("the server is shutting down: ask another one"))\n',
)
_ghost(
    "step_with_a_time_limit",
    "A thread can't be stopped: a step that is given up goes on, and the next one begins beside it. Wait for its end.",
    STEP,
    "await asyncio.wait_for(self.in_thread(self.engine.step), 10) if self.streams else []",
)
