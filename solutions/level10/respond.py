"""One request to an engine, answered over ASGI: while its client listens, and not a step longer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass

from level05.engine import Request

from .bridge import AsyncEngine
from .pieces import Piece, text_pieces
from .stream import Head, completion, stream_completion, usage

Receive, Send = Callable[[], Awaitable[dict]], Callable[[dict], Awaitable[None]]
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}


@dataclass(frozen=True)
class Job:
    """A request as the engine takes it, and how its answer is to look."""

    request: Request
    head: Head
    stream: bool = False
    include_usage: bool = False


async def start(send: Send, status: int, headers: dict[str, str]) -> None:
    """Send status and headers. Given."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def body(send: Send, data: bytes, more: bool = False) -> None:
    """Send a part of the body; the response is complete when there is no more. Given."""
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def send_json(send: Send, status: int, shown: dict, headers: dict[str, str] | None = None) -> None:
    """Send a whole response. Given."""
    data = json.dumps(shown).encode()
    own = {"content-type": "application/json", "content-length": str(len(data))}
    await start(send, status, own | (headers or {}))
    await body(send, data)


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone. Given."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(work: Coroutine, receive: Receive) -> bool:
    """Run `work` to its end, and return True; or cancel it as soon as the client has gone, and return False.

    receive  of ASGI: to send to a client that has gone is no error, so this is the only way to hear of it; it may wait
             for ever, and must not be waited for any more when `work` has ended

    When this returns, `work` has ended, its cleaning up included, and nothing waits on receive(). What `work` raises
    passes on. If this is cancelled itself, so is `work`, and ends before the CancelledError passes on.
    Example: work that takes 5 ms, a client that goes after 2 ms: `work` gets a CancelledError, and False is returned.

    ●● · about 10 lines · part of complete
    """
    # solution:begin two tasks; the first to end decides about the other
    task, gone = asyncio.create_task(work), asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)  # a cancelled task has still to clean up
    if not task.cancelled():
        task.result()  # raises what `work` raised
    return not task.cancelled()
    # solution:end


async def send_whole(pieces: AsyncIterator[Piece], job: Job, send: Send) -> None:
    """Collect the answer and send it as one object, `completion`, with its usage.

    An error of `pieces` passes on, and nothing has been sent then. Example: pieces "a" and ("b", 2, "length") of a
    prompt of 3 tokens: text "ab", finish_reason "length", 3 + 2 tokens.

    ● · about 4 lines · part of complete
    """
    # solution:begin all pieces; the last one knows the rest
    made = [piece async for piece in pieces]
    text, last = "".join(piece.text for piece in made), made[-1]
    spent = usage(len(job.request.prompt), last.num_tokens)
    await send_json(send, 200, completion(job.head, text, last.finish_reason, spent))
    # solution:end


async def send_events(pieces: AsyncIterator[Piece], job: Job, send: Send) -> None:
    """Send the answer as `stream_completion` makes it: status 200 and EVENTS, a part of the body per event, the end.

    An error before the first event passes on, and nothing has been sent then: not even the status.
    Example: two events: a start, two bodies with more to come, and an empty one.

    ●● · about 8 lines · part of complete
    """
    events = stream_completion(pieces, job.head, len(job.request.prompt), job.include_usage)
    # solution:begin when is the status known?
    started = False
    async with aclosing(events):
        async for event in events:
            if not started:
                await start(send, 200, EVENTS)
            started = True
            await body(send, event, more=True)
    await body(send, b"")
    # solution:end


async def complete(engine: AsyncEngine, job: Job, spell: Callable[[int], bytes], receive: Receive, send: Send) -> None:
    """Open the job's request, and send its answer: by send_events if it streams, else by send_whole.

    engine         has open(request), which returns the request's Tokens;  spell  the bytes of a token
    receive, send  of ASGI; the body of the request has been received already

    The text comes from `text_pieces`, with the stop_ids and the stop strings of the request. When the client goes, the
    answer ends, streamed or not. What open() raises passes on, and so does an error that comes before anything has been
    sent. In every case the Tokens are closed when this returns: the engine does not decode for nobody.
    Example: a client goes after 5 of 100 tokens: the Tokens are closed at once, and no more is sent.

    ●●● · about 4 lines · needs level10.pieces.text_pieces, level10.stream.stream_completion
    """
    # solution:begin open, answer unless the client goes, and close whatever happens
    # subtle: a task that is cancelled before it starts runs none of its `finally`s, so the outermost one is here
    async with aclosing(engine.open(job.request)) as tokens:
        pieces = text_pieces(tokens, spell, job.request.stop_ids, job.request.sampling.stop)
        answer = send_events if job.stream else send_whole
        await unless_gone(answer(pieces, job, send), receive)
    # solution:end
