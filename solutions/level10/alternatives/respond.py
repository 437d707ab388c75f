"""Right programs, written another way, for level10.respond. `alternative` is given when this is read."""

import asyncio
import json

_KATA = "level10.respond.complete"


async def _watcher_cancels(work, receive):
    """A listener that cancels the work; awaited directly, a task passes a cancellation from outside on by itself."""
    task = asyncio.create_task(work)

    async def listen():
        while (await receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    listener = asyncio.create_task(listen())
    try:
        await task
    except asyncio.CancelledError:
        if asyncio.current_task().cancelling():
            raise
        return False
    finally:
        listener.cancel()
        await asyncio.wait([listener])
    return True


async def _callbacks(work, receive):
    """What the listener's end does to the work, as a callback."""
    went = []

    async def listen():
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return

    async def run():
        await work

    listener, task = asyncio.ensure_future(listen()), asyncio.ensure_future(run())

    def hang_up(done):
        if not done.cancelled() and not task.done():
            went.append(True)
            task.cancel()

    listener.add_done_callback(hang_up)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    finally:
        listener.remove_done_callback(hang_up)
        listener.cancel()
        await asyncio.gather(listener, return_exceptions=True)
        work.close()  # if it never began
    if task.cancelled() and went:
        return False
    task.result()
    return True


async def _group(work, receive):
    """Both in a TaskGroup, which cancels and waits by itself; what is raised is taken out of its group."""
    task = None

    async def listen():
        while (await receive())["type"] != "http.disconnect":
            pass
        task.cancel()

    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            listener = group.create_task(listen())
            task.add_done_callback(lambda _: listener.cancel())
    except* Exception as errors:
        raised = errors.exceptions[0]
    else:
        raised = None
    if raised:
        raise raised
    return not task.cancelled()


async def _whole_by_hand(pieces, job, send):
    """The message by hand, piece after piece, in one part with the status before it."""
    from level10.stream import completion, usage

    text, last = "", None
    async for last in pieces:
        text += last.text
    spent = usage(len(job.request.prompt), last.num_tokens)
    data = json.dumps(completion(job.head, text, last.finish_reason, spent), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def _events_first_apart(pieces, job, send):
    """The first event apart from the others."""
    from level10.respond import EVENTS, body, start
    from level10.stream import stream_completion

    events = stream_completion(pieces, job.head, len(job.request.prompt), job.include_usage)
    try:
        first = await anext(events)
        await start(send, 200, EVENTS)
        await body(send, first, more=True)
        async for event in events:
            await body(send, event, more=True)
        await body(send, b"", more=False)
    finally:
        await events.aclose()


async def _opened_inside(engine, job, spell, receive, send):
    """Opened, answered and closed in the work itself: what is cancelled before it begins has opened nothing."""
    from level10.pieces import text_pieces
    from level10.respond import send_events, send_whole, unless_gone

    async def work():
        tokens = engine.open(job.request)
        try:
            pieces = text_pieces(tokens, spell, job.request.stop_ids, job.request.sampling.stop)
            await (send_events if job.stream else send_whole)(pieces, job, send)
        finally:
            await tokens.aclose()

    await unless_gone(work(), receive)


async def _closed_in_finally(engine, job, spell, receive, send):
    from level10.pieces import text_pieces
    from level10.respond import send_events, send_whole, unless_gone

    request = job.request
    tokens = engine.open(request)
    try:
        pieces = text_pieces(tokens, spell, stop=request.sampling.stop, stop_ids=request.stop_ids)
        if job.stream:
            await unless_gone(send_events(pieces, job, send), receive)
        else:
            await unless_gone(send_whole(pieces, job, send), receive)
    finally:
        await tokens.aclose()


alternative(_KATA, "watcher_cancels", program=_watcher_cancels, part="unless_gone")
alternative(_KATA, "callbacks", program=_callbacks, part="unless_gone")
alternative(_KATA, "task_group", program=_group, part="unless_gone")
alternative(_KATA, "whole_by_hand", program=_whole_by_hand, part="send_whole")
alternative(_KATA, "first_event_apart", program=_events_first_apart, part="send_events")
alternative(_KATA, "opened_inside", program=_opened_inside)
alternative(_KATA, "closed_in_finally", program=_closed_in_finally)
