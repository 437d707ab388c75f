"""Right programs, written another way, for level10.bridge. `alternative` is given when this is read."""

import asyncio
from collections import deque

_TAKE = "arrived, left, self.arrived, self.left = self.arrived, self.left, [], []"
_SHUT = "the server is shutting down: ask another one"


def _given():
    """What stands in the level's files."""
    from level10.bridge import Tokens
    from level10.errors import Closed, Full, Invalid, failed

    return Tokens, Closed, Full, Invalid, failed


class _Sleeper:
    """One worker for ever, which sleeps on an Event; who leaves and who comes stand in one list, in their order."""

    def __init__(self, engine, max_open=32, *, in_thread=asyncio.to_thread):
        self._engine, self._most, self._in_thread = engine, max_open, in_thread
        self._open, self._news, self._task, self._shut = {}, deque(), None, False

    def open(self, request):
        Tokens, Closed, Full, _, _ = _given()
        if self._shut:
            raise Closed(_SHUT)
        if len(self._open) >= self._most:
            raise Full("full")
        if request.id in self._open:
            raise ValueError("twice")
        if self._task is None:
            self._bell, self._idle = asyncio.Event(), asyncio.Event()
            self._task = asyncio.create_task(self._forever())
        tokens = Tokens(lambda: self._leave(request.id))
        self._open[request.id] = tokens
        self._news.append((request.id, request))
        self._idle.clear()
        self._bell.set()
        return tokens

    def _leave(self, id, error=None):
        tokens = self._open.pop(id, None)
        if tokens is None:
            return
        if error is not None:
            tokens.put(error)
        self._news.append((id, None))
        self._idle.clear()
        self._bell.set()

    async def close(self):
        _, Closed, *_ = _given()
        self._shut = True
        for id in [*self._open]:
            self._leave(id, Closed(_SHUT))
        if self._task is not None:
            await self._idle.wait()
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _forever(self):
        *_, Invalid, failed = _given()
        while True:
            while self._news:
                id, request = self._news.popleft()
                try:
                    self._engine.abort(id) if request is None else self._engine.add(request)
                except ValueError as error:
                    self._leave(id, Invalid(str(error)))
            if not self._open:
                self._idle.set()
                self._bell.clear()
                await self._bell.wait()
                continue
            try:
                events = await self._in_thread(self._engine.step)
            except Exception as error:
                for id in [*self._open]:
                    self._leave(id, failed(error))
                continue
            for id, token, last in events:
                if id in self._open:
                    self._open[id].put((token, last))
                    if last:
                        self._open.pop(id)


class _AtOnceIfItRests:
    """Touches the engine at once when no step runs, and each step is a task of its own that starts the next."""

    def __init__(self, engine, max_open=32, *, in_thread=asyncio.to_thread):
        self.core, self.most, self.thread = engine, max_open, in_thread
        self.live, self.later, self.step, self.off = {}, [], None, False

    def open(self, request):
        Tokens, Closed, Full, _, _ = _given()
        if self.off:
            raise Closed(_SHUT)
        if len(self.live) == self.most:
            raise Full("full")
        if request.id in self.live:
            raise ValueError("twice")
        tokens = self.live[request.id] = Tokens(lambda: self.drop(request.id))
        self.when_it_rests(lambda: self.take(request))
        return tokens

    def when_it_rests(self, what):
        if self.step is None:
            what()
            self.go()
        else:
            self.later.append(what)

    def take(self, request):
        _, _, _, Invalid, _ = _given()
        if request.id in self.live:
            try:
                self.core.add(request)
            except ValueError as error:
                self.live.pop(request.id).put(Invalid(str(error)))

    def drop(self, id):
        if self.live.pop(id, None):
            self.when_it_rests(lambda: self.core.abort(id))

    def go(self):
        if self.live and self.step is None:
            self.step = asyncio.ensure_future(self.thread(self.core.step))
            self.step.add_done_callback(self.ended)

    def ended(self, step):
        *_, failed = _given()
        self.step = None
        if step.cancelled():
            return
        if step.exception():
            error = failed(step.exception())
            for id in list(self.live):
                self.live.pop(id).put(error)
                self.later.append(lambda id=id: self.core.abort(id))
        for id, *item in [] if step.exception() else step.result():
            if tokens := self.live.get(id):
                tokens.put(tuple(item))
                if item[-1]:
                    self.live.pop(id)
        later, self.later = self.later, []
        for what in later:
            what()
        self.go()

    async def close(self):
        _, Closed, *_ = _given()
        self.off = True
        for id in list(self.live):
            self.live[id].put(Closed(_SHUT))
            self.drop(id)
        while self.step or self.later:
            await asyncio.wait([self.step])
            await asyncio.sleep(0)


alternative(
    "level10.bridge.AsyncEngine",
    "added_then_aborted",
    change=[
        (f"        {_TAKE}\n        for id in left:\n            self.engine.abort(id)\n", f"        {_TAKE}\n"),
        ("if request.id in self.streams:\n                try:", "if True:\n                try:"),
        (
            "self._end(request.id, Invalid(str(error)))",
            "self._end(request.id, Invalid(str(error)))\n        for id in left:\n            self.engine.abort(id)",
        ),
    ],
)
alternative(
    "level10.bridge.AsyncEngine",
    "finished_ones_are_aborted_too",
    change=(
        "                    if last:\n                        del self.streams[id]\n",
        "                    if last:\n                        self._end(id)\n",
    ),
)
alternative(
    "level10.bridge.AsyncEngine",
    "worker_shielded",
    change=("await asyncio.wait([self.worker])", "await asyncio.shield(self.worker)"),
)
alternative("level10.bridge.AsyncEngine", "one_worker_for_ever", program=_Sleeper)
alternative("level10.bridge.AsyncEngine", "at_once_if_it_rests", program=_AtOnceIfItRests)
