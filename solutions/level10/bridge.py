"""An engine whose step() blocks, and many coroutines that each wait for their own tokens."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from .errors import Closed, Full, Invalid, failed


class Tokens:
    """The tokens of one request: an async iterator over (token, is it the last one). Given.

    aclose()   says that nobody listens any more; also when it has ended, or never begun: an async generator that was
               never started would pass its `finally` by
    put(item)  a pair, or the exception that ends it
    """

    def __init__(self, leave: Callable[[], None]):
        self.queue, self.leave, self.over = asyncio.Queue(), leave, False
        self.put = self.queue.put_nowait

    def __aiter__(self):
        return self

    async def __anext__(self) -> tuple[int, bool]:
        if self.over:
            raise StopAsyncIteration
        item = await self.queue.get()
        self.over = isinstance(item, Exception) or item[1]
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self) -> None:
        self.over = True
        self.leave()


class AsyncEngine:
    """Lets many coroutines of one event loop share an engine: add(request), step(), abort(request_id).

    open(request)  takes the request and returns its Tokens at once, without waiting
    close()        (to be awaited) ends every stream with the Closed that open() raises from now on, in the same words;
                   then waits for the step that runs, so that the engine is at rest, and has no request left

    While there are open streams, step() is called again and again, through `await in_thread(engine.step)`; in between
    the event loop goes on. The engine is not made for two threads: it is touched only between two steps. So a
    request is added before the next step, those that came first before the others; and one whose Tokens were closed is
    aborted before the next step, and also if there is none to come. With nothing to do, nothing is called.
    A stream is open until its last token is in its Tokens, until these are closed, or until an error ends it; then its
    place is free. What the engine still returns for it is dropped.
    An add() that raises ValueError ends that stream alone, with Invalid and the same text. A step() that raises ends
    all open streams with the Failed that `failed` makes of it; their requests are aborted, and later ones are served.
    An id is used once; abort() of one that the engine does not have does nothing.
    Example: two open streams, and a step that returns [("a", 7, False), ("b", 8, True)]: a's Tokens give (7, False),
    b's (8, True), and b's place is free.
    Full: max_open streams are open (those that run and those that wait). Closed: after close(). ValueError: a request
    whose id is that of an open stream.

    ●●● · about 34 lines
    """

    def __init__(self, engine, max_open: int = 32, *, in_thread: Callable[..., Awaitable] = asyncio.to_thread):
        if max_open < 1:
            raise ValueError(f"a server has room for at least 1 request, not {max_open}")
        self.engine, self.max_open, self.in_thread = engine, max_open, in_thread
        self.streams: dict[str, Tokens] = {}  # those that are open
        self.arrived: list = []  # requests that the engine does not know yet
        self.left: list[str] = []  # ids of requests that it should forget
        self.closed = False
        self.worker: asyncio.Task | None = None

    def open(self, request) -> Tokens:
        if self.closed:
            raise Closed("the server is shutting down: ask another one")
        if len(self.streams) >= self.max_open:
            raise Full(f"all {self.max_open} places are taken: try again later")
        if request.id in self.streams:
            raise ValueError(f"request {request.id!r} is not finished yet: give this one another id")
        # solution:begin take a place, leave the request where it will be found, and see that somebody works
        tokens = self.streams[request.id] = Tokens(partial(self._end, request.id))
        self.arrived.append(request)
        self._wake()
        return tokens
        # solution:end

    async def close(self) -> None:
        self.closed = True
        # solution:begin end all of them, then wait for the worker
        for id in list(self.streams):
            self._end(id, Closed("the server is shutting down: ask another one"))
        if self.worker:
            await asyncio.wait([self.worker])
        # solution:end

    def _wake(self) -> None:
        """Start the worker unless it works; if it dies of a mistake, all streams end with that. Given."""
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._work())
            self.worker.add_done_callback(self._died)

    def _died(self, worker: asyncio.Task) -> None:
        if not worker.cancelled() and (error := worker.exception()):
            for tokens in self.streams.values():
                tokens.put(error)
            self.streams.clear()

    def _end(self, id: str, error: Exception | None = None) -> None:
        """End an open stream, with an error if somebody listens. It may be called from outside during a step."""
        # solution:begin free its place now; the engine hears of it before the next step
        if tokens := self.streams.pop(id, None):
            self.left.append(id)
            if error:
                tokens.put(error)
        # solution:end

    async def _work(self) -> None:
        """Run the engine while there is something to do."""
        # solution:begin between the steps: who came, who left; after a step: whose tokens are these?
        while self.streams or self.left:
            try:
                self._between_steps()
                events = await self.in_thread(self.engine.step) if self.streams else []
            except Exception as error:
                events, ended = [], failed(error)
                for id in list(self.streams):
                    self._end(id, ended)
            for id, token, last in events:
                if tokens := self.streams.get(id):  # else it left during the step
                    tokens.put((token, last))
                    if last:
                        del self.streams[id]
        # solution:end

    def _between_steps(self) -> None:
        """Tell the engine who came and who left."""
        # solution:begin in which order, if one came and left since the last step?
        arrived, left, self.arrived, self.left = self.arrived, self.left, [], []
        for id in left:
            self.engine.abort(id)
        for request in arrived:
            if request.id in self.streams:
                try:
                    self.engine.add(request)
                except ValueError as error:
                    self._end(request.id, Invalid(str(error)))
        # solution:end
