"""Judges respond.py with a client and an engine that wait for the test: receive and send of ASGI are two methods here.

What `send` was given is told in short: ("start", status, content type), then each part of the body as (what it says, is
there more to come). Waiting is counted in turns of the event loop: what hangs "still waits". At the very moment when a
call returns it is written down whether anybody still waits on receive(), and whether the Tokens are closed.
"""

import asyncio
import json
import logging
from itertools import count

import pytest

from level03.sampler import SamplingParams
from level05.engine import Request
from level10.pieces import Piece
from level10.respond import Job, complete, send_events, send_whole, unless_gone
from level10.stream import Head

STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}


async def turns(n=40):
    for _ in range(n):
        await asyncio.sleep(0)


async def outcome(task, n=100):
    """What a task has come to after n turns at most."""
    for _ in range(n):
        if task.done():
            break
        await asyncio.sleep(0)
    if not task.done():
        return "still waits"
    if task.cancelled():
        return "CancelledError"
    if isinstance(task.exception(), NotImplementedError):
        raise task.exception()
    return f"{type(task.exception()).__name__}: {task.exception()}" if task.exception() else task.result()


def told(scene, *settings):
    """A story: a scene in an event loop of its own, whose clock runs fast: whoever sets a time limit meets it."""

    kept = []  # a task that nobody holds is thrown away in mid-wait, and Python prints that its work goes on waiting

    def keeping(loop, coro, **named):
        kept.append(asyncio.Task(coro, loop=loop, **named))
        return kept[-1]

    async def quiet(thing):
        loop, clock = asyncio.get_running_loop(), count()
        loop.time = lambda: float(next(clock))
        loop.set_exception_handler(lambda *_: None)
        loop.set_task_factory(keeping)
        return await scene(thing, *settings)

    def story(thing):
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            return asyncio.run(quiet(thing))
        finally:
            logging.disable(before)
            kept.clear()

    story.__name__ = scene.__name__
    return story


class Client:
    """receive and send of one connection. `early` comes before it goes; `breaks` is the message that can't be sent."""

    def __init__(self, early=0, breaks=None):
        self.gone, self.waiting, self.early, self.breaks, self.sent = asyncio.Event(), 0, early, breaks, []

    async def receive(self):
        if self.early:
            self.early -= 1
            return {"type": "http.request", "body": b"", "more_body": False}
        self.waiting += 1
        try:
            await self.gone.wait()
        finally:
            self.waiting -= 1
        return {"type": "http.disconnect"}

    async def send(self, message):
        if self.breaks == len(self.sent):
            raise OSError("broken pipe")
        self.sent.append(message)
        await asyncio.sleep(0)

    def got(self):
        """What was sent, in short."""
        found = []
        for message in self.sent:
            if message["type"] == "http.response.start":
                headers = {name.decode(): value.decode() for name, value in message["headers"]}
                found.append(("start", message["status"], headers["content-type"]))
            else:
                found.append((said(message["body"]), message.get("more_body", False)))
        return found


def said(data):
    """What a part of the body says, if it is one event, or nothing."""
    if not data:
        return ""
    if not (data.startswith(b"data: ") and data.endswith(b"\n\n") and data.count(b"\n\n") == 1):
        return data.decode()
    if data == b"data: [DONE]\n\n":
        return "[DONE]"
    event = json.loads(data[6:])
    if "error" in event:
        return f"error: {event['error']['message']}"
    if "usage" in event:
        return list(event["usage"].values())
    [choice] = event["choices"]
    text = choice.get("text", choice.get("delta"))
    return text if choice["finish_reason"] is None else (text, choice["finish_reason"])


START = ("start", 200, "text/event-stream; charset=utf-8")
END = [("[DONE]", True), ("", False)]


def whole_answer(client):
    """(status, content type, the object) of an answer in one piece; None when nothing was sent."""
    if not client.sent:
        return None
    (_, status, kind), *_ = client.got()
    bodies = client.sent[1:]
    ends = [message.get("more_body", False) for message in bodies]
    data = b"".join(message["body"] for message in bodies)
    return status, kind, json.loads(data), ends == [True] * (len(ends) - 1) + [False]


def job(stream=True, chat=False, usage=False, prompt=3, stop=(), stop_ids=()):
    request = Request("cmpl-1", list(range(prompt)), SamplingParams(stop=stop), set(stop_ids))
    return Job(request, Head("cmpl-1", "m", 5, chat), stream, usage)


async def of(*pieces):
    """Pieces; an exception among them is raised there."""
    for piece in pieces:
        if isinstance(piece, Exception):
            raise piece
        await asyncio.sleep(0)
        yield piece


# ---- unless_gone


def working(log, ends=None, raises=None, cleans=None):
    """Work that ends after so many turns, or never; whose cleaning up takes a while, and may fail."""

    async def work():
        log.append("begun")
        try:
            await (asyncio.Event().wait() if ends is None else turns(ends))
            if raises:
                raise raises
            log.append("done")
        finally:
            await turns(3)
            log.append("cleaned")
            if cleans:
                raise cleans

    return work()


async def watched(unless_gone, log, client, **work):
    """A call, and what is the case when it returns."""
    to_do = working(log, **work)
    try:
        return await unless_gone(to_do, client.receive)
    except NotImplementedError:
        to_do.close()  # else Python prints that it was never awaited
        raise
    finally:
        log.append("returned" if not client.waiting else "returned, and somebody waits on receive()")


async def work_and_client(unless_gone, goes=None, cancelled=None, early=0, **work):
    """Work against a client that goes, or a caller that is cancelled, after so many turns."""
    log, client = [], Client(early)
    task = asyncio.create_task(watched(unless_gone, log, client, **work))
    await turns(goes if goes is not None else cancelled or 0)
    if goes is not None:
        client.gone.set()
    if cancelled is not None:
        task.cancel()
    found = await outcome(task)
    await turns()
    return found, list(log)  # a copy: when the loop ends, it cancels what still waits


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("goes", [4, 7, 12])
def test_work_is_cancelled_when_the_client_goes(expect, goes):
    """And has cleaned up when the call returns: what it holds is free for the next client."""
    right = False, ["begun", "cleaned", "returned"]
    expect.story(told(work_and_client, goes), unless_gone).equals(right)


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("ends", [0, 1, 5, 20])
def test_work_that_ends_first_returns_true(expect, ends):
    """The client stays: nobody waits for it to go. A server that does never ends a request."""

    async def work_ends(unless_gone):
        return await work_and_client(unless_gone, ends=ends)

    expect.story(told(work_ends), unless_gone).equals((True, ["begun", "done", "cleaned", "returned"]))


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("ends", [0, 5])
def test_what_work_raises_passes_on(expect, ends):
    """An engine that fails is a 500, not a client that has gone."""

    async def work_raises(unless_gone):
        return await work_and_client(unless_gone, ends=ends, raises=KeyError("block"))

    expect.story(told(work_raises), unless_gone).equals(("KeyError: 'block'", ["begun", "cleaned", "returned"]))


@pytest.mark.kata("level10.respond.complete")
def test_what_cleaning_up_raises_passes_on(expect):
    """The client has gone, and giving back what the request holds fails: nobody would hear of it otherwise."""

    async def cleaning_raises(unless_gone):
        return await work_and_client(unless_gone, goes=5, cleans=OSError("lost"))

    expect.story(told(cleaning_raises), unless_gone).equals(("OSError: lost", ["begun", "cleaned", "returned"]))


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("cancelled", [4, 9])
def test_cancelled_from_outside_it_ends_the_work_first(expect, cancelled):
    """A server that shuts down cancels its requests: none of them may leave a task behind."""

    async def cancelled_outside(unless_gone):
        return await work_and_client(unless_gone, cancelled=cancelled)

    expect.story(told(cancelled_outside), unless_gone).equals(("CancelledError", ["begun", "cleaned", "returned"]))


@pytest.mark.kata("level10.respond.complete")
def test_only_a_disconnect_is_a_client_that_goes(expect):
    """receive() may give other messages first, such as the empty rest of a body."""

    async def other_messages(unless_gone):
        stays = await work_and_client(unless_gone, early=2, ends=9)
        return stays, await work_and_client(unless_gone, early=2, goes=9)

    right = (True, ["begun", "done", "cleaned", "returned"]), (False, ["begun", "cleaned", "returned"])
    expect.story(told(other_messages), unless_gone).equals(right)


@pytest.mark.kata("level10.respond.complete")
def test_gone_or_cancelled_at_any_moment(expect):
    """Also before anything has begun: then there is nothing to clean up, but what has begun is cleaned up."""

    async def any_moment(unless_gone):
        found = []
        for how in ("goes", "cancelled"):
            for n in range(8):
                result, log = await work_and_client(unless_gone, **{how: n})
                begun = log[:1] == ["begun"]
                tidy = log == (["begun", "cleaned", "returned"] if begun else log[:1]) and set(log[-1:]) <= {"returned"}
                found.append((result, tidy))
        return found

    right = [(False, True)] * 8 + [("CancelledError", True)] * 8
    expect.story(told(any_moment), unless_gone).equals(right)


# ---- send_whole


async def sent_whole(send_whole, wanted, *pieces):
    client = Client()
    found = await outcome(asyncio.create_task(send_whole(of(*pieces), wanted, client.send)))
    return found, whole_answer(client)


def completion(said, reason, prompt_tokens, tokens, chat=False):
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
    spent = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
    kind = "chat.completion" if chat else "text_completion"
    head = {"id": "cmpl-1", "object": kind, "created": 5, "model": "m", "choices": [choice]}
    return 200, "application/json", {**head, "usage": spent}, True


@pytest.mark.kata("level10.respond.complete")
def test_a_whole_answer_has_all_text_and_its_cost(expect):
    """The docstring's example, then pieces of several tokens: who pays by the token pays for those, not for pieces."""
    story = told(sent_whole, job(), Piece("a", 1), Piece("b", 2, "length"))
    expect.story(story, send_whole).equals((None, completion({"text": "ab"}, "length", 3, 2)))
    story = told(sent_whole, job(prompt=7), Piece(" one", 2), Piece("\n", 3), Piece(" two", 7), Piece("", 9, "stop"))
    expect.story(story, send_whole).equals((None, completion({"text": " one\n two"}, "stop", 7, 9)))


@pytest.mark.kata("level10.respond.complete")
def test_a_whole_answer_in_one_piece_and_of_a_chat(expect):
    """An answer may have a single piece, and be empty; a chat's is a message of the assistant's."""
    story = told(sent_whole, job(prompt=1), Piece("", 4, "stop"))
    expect.story(story, send_whole).equals((None, completion({"text": ""}, "stop", 1, 4)))
    story = told(sent_whole, job(chat=True), Piece("é", 2), Piece("!", 5, "length"))
    message = {"message": {"role": "assistant", "content": "é!"}}
    expect.story(story, send_whole).equals((None, completion(message, "length", 3, 5, chat=True)))


@pytest.mark.kata("level10.respond.complete")
def test_a_whole_answer_that_fails_has_sent_nothing(expect):
    """There is still time for a 500: a status that was sent too early can't be taken back."""
    for pieces in ([ValueError("boom")], [Piece("a", 1), Piece("b", 2), ValueError("boom")]):
        expect.story(told(sent_whole, job(), *pieces), send_whole).equals(("ValueError: boom", None))


# ---- send_events


async def sent_events(send_events, wanted, *pieces):
    client = Client()
    found = await outcome(asyncio.create_task(send_events(of(*pieces), wanted, client.send)))
    return found, client.got()


@pytest.mark.kata("level10.respond.complete")
def test_an_event_is_a_part_of_the_body(expect):
    """The status, each event with more to come, and an empty part that ends it."""
    pieces = Piece("a", 1), Piece("bc", 3), Piece("", 4, "length")
    right = [START, ("a", True), ("bc", True), (("", "length"), True)]
    expect.story(told(sent_events, job(), *pieces), send_events).equals((None, right + END))
    with_usage = [*right, ([6, 4, 10], True), *END]
    expect.story(told(sent_events, job(usage=True, prompt=6), *pieces), send_events).equals((None, with_usage))
    first = {"role": "assistant", "content": ""}
    chat = [START, (first, True), (({"content": "hi"}, "stop"), True), *END]
    expect.story(told(sent_events, job(chat=True), Piece("hi", 2, "stop")), send_events).equals((None, chat))


@pytest.mark.kata("level10.respond.complete")
def test_the_headers_are_those_of_a_stream(expect):
    """A proxy that keeps the answer until it is complete makes a stream of it no more."""

    async def headers_of(send_events):
        client = Client()
        await send_events(of(Piece("a", 1, "stop")), job(), client.send)
        return {name.decode().lower(): value.decode() for name, value in client.sent[0]["headers"]}

    expect.story(told(headers_of), send_events).equals(STREAM)


@pytest.mark.kata("level10.respond.complete")
def test_each_event_leaves_before_the_next_piece_is_asked_for(expect):
    """That is streaming: collected and sent at the end, the first token would come with the last. The status leaves
    with the first event, not before."""

    async def piece_by_piece(send_events):
        client, seen = Client(), []

        async def slowly():
            for i in range(1, 4):
                seen.append((f"piece {i} is asked for", len(client.sent)))
                await turns(5)
                yield Piece("x", i, "stop" if i == 3 else None)

        await outcome(asyncio.create_task(send_events(slowly(), job(), client.send)))
        return seen, len(client.sent)

    seen = [("piece 1 is asked for", 0), ("piece 2 is asked for", 2), ("piece 3 is asked for", 3)]
    expect.story(told(piece_by_piece), send_events).equals((seen, 6))


@pytest.mark.kata("level10.respond.complete")
def test_an_error_before_the_first_event_is_no_stream(expect):
    """A request that the engine refuses gets its 400, which is impossible once a 200 has been sent."""
    for wanted in (job(), job(chat=True), job(usage=True)):
        expect.story(told(sent_events, wanted, OSError("boom")), send_events).equals(("OSError: boom", []))


@pytest.mark.kata("level10.respond.complete")
def test_an_error_in_mid_stream_is_an_event(expect):
    """The status has been sent: what is left to say is said in the stream, and it ends as every stream does."""
    right = [START, ("a", True), ("error: ValueError: boom", True), *END]
    expect.story(told(sent_events, job(), Piece("a", 1), ValueError("boom")), send_events).equals((None, right))


# ---- complete


class Source:
    """Tokens: gives those that it has, then waits; an exception among them is raised."""

    def __init__(self, items, slow):
        self.items, self.slow, self.asked, self.closed, self.more = list(items), slow, 0, False, asyncio.Event()

    def __aiter__(self):
        return self

    async def __anext__(self):
        self.asked += 1
        await turns(self.slow)
        while not self.items:
            self.more.clear()
            await self.more.wait()
        item = self.items.pop(0)
        if isinstance(item, Exception):
            raise item
        return item

    async def aclose(self):
        self.closed = True

    def give(self, *items):
        self.items += items
        self.more.set()


class Engine:
    """open() gives the Source, or raises."""

    def __init__(self, *items, refuses=None, slow=0):
        self.source, self.refuses, self.opened = Source(items, slow), refuses, []

    def open(self, request):
        if self.refuses:
            raise self.refuses
        self.opened.append(request.id)
        return self.source


SPELLED = {1: b"a", 2: b"b", 3: b" c", 4: b"\xf0\x9f", 5: b"\x98\x80", 6: b"EN", 7: b"D!", 9: b"</s>"}
FIVE = [(i, i == 3) for i in (1, 2, 1, 2, 3)]


def answering(complete, engine, wanted, client):
    """The task, and a list for what is the case when it returns."""
    log = []

    async def answer():
        try:
            await complete(engine, wanted, SPELLED.__getitem__, client.receive, client.send)
        finally:
            log.append("closed" if engine.source.closed else "open" if engine.opened else "never opened")
            if client.waiting:
                log.append("somebody waits on receive()")

    return asyncio.create_task(answer()), log


async def answered(complete, wanted, items=(), refuses=None, early=0):
    """(what complete came to, what is the case at that moment, what was opened, tokens asked for, what was sent)."""
    engine, client = Engine(*items, refuses=refuses), Client(early)
    task, log = answering(complete, engine, wanted, client)
    found = await outcome(task, 200)
    sent = client.got() if wanted.stream else whole_answer(client)
    return found, list(log), engine.opened, engine.source.asked, sent


@pytest.mark.kata("level10.respond.complete")
def test_a_request_is_answered_streamed_or_whole(expect):
    """The same text either way, as soon as it may be seen, and at the end the engine is told."""
    items = [(1, False), (4, False), (5, False), (3, True)]
    parts = [("a", True), ("😀", True), ((" c", "length"), True), ([3, 4, 7], True)]
    right = None, ["closed"], ["cmpl-1"], 4, [START, *parts, *END]
    expect.story(told(answered, job(usage=True), items), complete).equals(right)
    right = None, ["closed"], ["cmpl-1"], 4, completion({"text": "a😀 c"}, "length", 3, 4)
    expect.story(told(answered, job(stream=False), items), complete).equals(right)
    early = None, ["closed"], ["cmpl-1"], 4, [START, *parts[:3], *END]
    expect.story(told(answered, job(), items, None, 1), complete).equals(early)


@pytest.mark.kata("level10.respond.complete")
def test_it_ends_at_the_stops_of_the_request(expect):
    """At one of its stop_ids, or before one of its stop strings: then no further token is asked for."""
    ids = [(1, False), (2, False), (9, True)]
    right = None, ["closed"], ["cmpl-1"], 3, [START, ("a", True), ("b", True), (("", "stop"), True), *END]
    expect.story(told(answered, job(stop_ids=[8, 9]), ids), complete).equals(right)
    strings = [(1, False), (6, False), (7, False), (2, False), (2, True)]
    right = None, ["closed"], ["cmpl-1"], 3, [START, ("a", True), (("", "stop"), True), *END]
    expect.story(told(answered, job(stop=("x", "END")), strings), complete).equals(right)
    right = None, ["closed"], ["cmpl-1"], 3, completion({"text": "a"}, "stop", 2, 3)
    expect.story(told(answered, job(False, prompt=2, stop=("END",)), strings), complete).equals(right)


@pytest.mark.kata("level10.respond.complete")
def test_what_open_raises_passes_on(expect):
    """A full server says 429 and not 200: nothing is sent here, and nobody waits for the client to go."""
    for wanted in (job(), job(stream=False)):
        right = "OSError: full", ["never opened"], [], 0, [] if wanted.stream else None
        expect.story(told(answered, wanted, (), OSError("full")), complete).equals(right)


@pytest.mark.kata("level10.respond.complete")
def test_an_error_of_the_engine(expect):
    """Before anything was sent it passes on; in mid-stream it is an event. The Tokens are closed in any case."""
    first, later = [ValueError("boom")], [(1, False), (2, False), ValueError("boom")]
    expect.story(told(answered, job(), first), complete).equals(("ValueError: boom", ["closed"], ["cmpl-1"], 1, []))
    right = [START, ("a", True), ("b", True), ("error: ValueError: boom", True), *END]
    expect.story(told(answered, job(), later), complete).equals((None, ["closed"], ["cmpl-1"], 3, right))
    for items, asked in ((first, 1), (later, 3)):
        right = "ValueError: boom", ["closed"], ["cmpl-1"], asked, None
        expect.story(told(answered, job(stream=False), items), complete).equals(right)


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_that_can_not_begin_closes_the_tokens(expect, stream):
    """Whatever goes wrong between open() and the first token: here it is a stop string that level 01 refuses."""

    async def can_not_begin(complete):
        found, *rest = await answered(complete, job(stream, stop=("",)), FIVE)
        return found.partition(":")[0], *rest

    right = "ValueError", ["closed"], ["cmpl-1"], 0, [] if stream else None
    expect.story(told(can_not_begin), complete).equals(right)


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_when_the_client_goes_the_engine_stops(expect, stream, n):
    """To send to a client that has gone is no error: who only sends decodes for nobody, up to the last token. After n
    of many tokens the client goes; the tokens that the engine makes then go nowhere."""

    async def client_goes(complete):
        engine, client = Engine(*[(1, False)] * n), Client()
        task, log = answering(complete, engine, job(stream), client)
        await turns()
        before, asked = client.got(), engine.source.asked
        client.gone.set()
        found = await outcome(task)
        engine.source.give(*FIVE)
        await turns()
        return found, list(log), before, client.got() == before, asked, engine.source.asked

    before = [START, *[("a", True)] * n] if stream and n else []
    right = None, ["closed"], before, True, n + 1, n + 1
    expect.story(told(client_goes), complete).equals(right)


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("stream", [True, False])
def test_tokens_are_closed_whenever_the_client_goes(expect, stream):
    """At any moment, also before the first line of the answer's task has run: nothing that would close them has begun
    then. The moments at which somebody is left to decode for nobody, or to wait on receive(), are told."""

    async def goes_at_any_moment(complete):
        wrong = []
        for n in range(40):
            engine, client = Engine(*FIVE, slow=1), Client()
            task, log = answering(complete, engine, job(stream), client)
            await turns(n)
            client.gone.set()
            found = await outcome(task)
            if (found, log) not in ((None, ["closed"]), (None, ["never opened"])):
                wrong.append((n, found, *log))
        return wrong

    expect.story(told(goes_at_any_moment), complete).equals([])


@pytest.mark.kata("level10.respond.complete")
@pytest.mark.parametrize("stream", [True, False])
def test_tokens_are_closed_whenever_it_is_cancelled(expect, stream):
    """A server that shuts down cancels its requests at any moment. What was cancelled says so."""

    async def cancelled_at_any_moment(complete):
        wrong = []
        for n in range(1, 40):
            engine, client = Engine(*FIVE, slow=1), Client()
            task, log = answering(complete, engine, job(stream), client)
            await turns(n)
            running = task.cancel()
            found = await outcome(task)
            if found != ("CancelledError" if running else None) or log not in (["closed"], ["never opened"]):
                wrong.append((n, found, *log))
        return wrong

    expect.story(told(cancelled_at_any_moment), complete).equals([])


@pytest.mark.kata("level10.respond.complete")
def test_tokens_are_closed_when_sending_fails(expect):
    """Some servers do raise when a connection is broken. Whatever becomes of the error, the engine is told."""

    async def sending_fails(complete):
        found = []
        for stream, breaks in [(True, 0), (True, 1), (True, 4), (True, 7), (False, 0), (False, 1)]:
            engine, client = Engine(*FIVE), Client(breaks=breaks)
            task, log = answering(complete, engine, job(stream), client)
            found.append((await outcome(task) != "still waits", list(log)))
        return found

    expect.story(told(sending_fails), complete).equals([(True, ["closed"])] * 6)


@pytest.mark.kata("level10.respond.complete")
def test_one_client_goes_and_another_stays(expect):
    """Many requests share the event loop: each has its own client, and its own end."""

    async def two_clients(complete):
        engines, clients = [Engine((1, False)), Engine((2, False))], [Client(), Client()]
        tasks = [answering(complete, *each) for each in zip(engines, [job(), job()], clients)]
        await turns()
        clients[0].gone.set()
        await turns()
        engines[1].source.give((3, True))
        return [(await outcome(task), list(log)) for task, log in tasks], clients[1].got()

    right = [START, ("b", True), ((" c", "length"), True), *END]
    expect.story(told(two_clients), complete).equals(([(None, ["closed"])] * 2, right))
