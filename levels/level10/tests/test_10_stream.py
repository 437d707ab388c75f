"""Judges stream.py by what a client reads: the data of each event, as the json module understands it.

The pieces come from a source that notes how many it has given, and whether it was closed. An event is observed as
(its data, pieces that were given by then).
"""

import asyncio
import json

import pytest

from level10.errors import Failed, Full
from level10.pieces import Piece
from level10.stream import Head, completion_chunk, stream_completion

TEXT, CHAT = Head("cmpl-1", "m", 1700000000), Head("chatcmpl-2", "n", 1700000001, chat=True)
ANSWER = [Piece("It", 1), Piece(" is\n", 4), Piece("é", 6), Piece("", 7, "length")]


class Source:
    """Pieces, one after the other; in their place there may be an error to raise, or None: no answer."""

    def __init__(self, pieces):
        self.pieces, self.given, self.closed, self.waited = pieces, 0, False, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        if self.given == len(self.pieces) or self.waited or self.closed:
            raise StopAsyncIteration
        piece = self.pieces[self.given]
        if piece is None:
            self.waited = True
            await asyncio.get_running_loop().create_future()
        self.given += 1
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def aclose(self):
        await asyncio.sleep(0)
        self.closed = True


def data_of(event):
    """What the JSON of an event says; a text that is none, and what is not one event, as it is."""
    if event[:6] != b"data: " or event.find(b"\n\n") != len(event) - 2:
        return event
    text = event[6:-2].decode()
    return json.loads(text) if text.startswith("{") else text


async def read(source, head, usage, seen, events=None):
    """Note the events, and say how it ended: at its end, after so many events, or with what it raised."""
    stream = stream_completion(source, head, 5, usage)
    try:
        async for data in stream:
            seen.append((data_of(data), source.given))
            if len(seen) == events:
                break
        await stream.aclose()
        return "left" if len(seen) == events else "end"
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__} {error}"


def streamed(pieces, head, usage=False, events=None):
    """All that a client sees, how it ended, and whether the source was closed."""

    async def answer():
        source, seen = Source(pieces), []
        return seen, await read(source, head, usage, seen, events), source.closed

    return asyncio.run(answer())


def brief(pieces, head=TEXT, usage=False, events=None):
    """As `streamed`, of each chunk only what it adds: what is said and why it ends, or the usage."""

    def added(data):
        if not isinstance(data, dict) or "choices" not in data:
            return data
        if "usage" in data or len(data["choices"]) != 1:
            return data.get("usage"), data["choices"]
        choice = data["choices"][0]
        return choice.get("delta", choice.get("text")), choice["finish_reason"]

    seen, *how = streamed(pieces, head, usage, events)
    return [(added(data), given) for data, given in seen], *how


def of_text(text, reason=None):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    return {"id": "cmpl-1", "object": "text_completion", "created": 1700000000, "model": "m", "choices": [choice]}


def of_chat(reason=None, **delta):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    head = {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1700000001, "model": "n"}
    return head | {"choices": [choice]}


def tokens(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error(message, kind="server_error", code=None):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


# ---- completion_chunk, judged with stream_completion


@pytest.mark.kata("level10.stream.stream_completion")
def test_a_chunk_of_text(expect):
    """The docstring's example. finish_reason is null until the last one: "" ends the loop of many a client. `created`
    is in seconds, as the head has it."""
    expect(completion_chunk, Head("i", "m", 5), "hi").equals(
        {
            "id": "i",
            "object": "text_completion",
            "created": 5,
            "model": "m",
            "choices": [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": None}],
        }
    )
    expect(completion_chunk, TEXT, "a", "length").equals(of_text("a", "length"))
    expect(completion_chunk, TEXT).equals(of_text(""))
    expect(completion_chunk, TEXT, "", "stop").equals(of_text("", "stop"))
    expect(completion_chunk, TEXT, "a", first=True).equals(of_text("a"))


@pytest.mark.kata("level10.stream.stream_completion")
def test_a_chunk_of_a_chat(expect):
    """A delta in place of the text, with the role in the first chunk and in no other."""
    expect(completion_chunk, CHAT, "hi").equals(of_chat(content="hi"))
    expect(completion_chunk, CHAT, "hi", "stop", first=True).equals(of_chat("stop", role="assistant", content="hi"))
    expect(completion_chunk, CHAT, first=True).equals(of_chat(role="assistant", content=""))
    expect(completion_chunk, CHAT, "", "length").equals(of_chat("length", content=""))
    expect(completion_chunk, CHAT).equals(of_chat(content=""))


@pytest.mark.kata("level10.stream.stream_completion")
@pytest.mark.parametrize("head, like", [(TEXT, of_text("")), (CHAT, of_chat(content=""))])
def test_a_chunk_with_the_usage_has_no_choices(expect, head, like):
    """An empty list: clients tell this chunk from the others by it."""
    right = like | {"choices": [], "usage": tokens(5, 7)}
    expect(completion_chunk, head, usage=tokens(5, 7)).equals(right)
    expect(completion_chunk, head, usage={"prompt_tokens": 1}).equals(right | {"usage": {"prompt_tokens": 1}})


# ---- stream_completion


@pytest.mark.kata("level10.stream.stream_completion")
def test_each_piece_is_a_chunk_and_leaves_at_once(expect):
    """Collected and sent together, the answer is complete but the user has waited for all of it. "[DONE]" ends every
    stream: strict clients wait for it. The last piece has a chunk also if its text is empty: it says why it ends."""
    chunks = [of_text("It"), of_text(" is\n"), of_text("é"), of_text("", "length")]
    right = [*zip(chunks, (1, 2, 3, 4)), ("[DONE]", 4)], "end", True
    expect(streamed, ANSWER, TEXT).equals(right)
    expect(streamed, [Piece("a", 2, "stop")], TEXT).equals(([(of_text("a", "stop"), 1), ("[DONE]", 1)], "end", True))


@pytest.mark.kata("level10.stream.stream_completion")
def test_a_chat_begins_with_the_role(expect):
    """One chunk with the role and no text, then the text: a client that takes the first chunk for the first token
    measures a TTFT that is too good. It comes with the first piece: until then an HTTP status can still be sent."""
    chunks = [of_chat(content="It"), of_chat(content=" is\n"), of_chat(content="é"), of_chat("length", content="")]
    right = [(of_chat(role="assistant", content=""), 1), *zip(chunks, (1, 2, 3, 4)), ("[DONE]", 4)], "end", True
    expect(streamed, ANSWER, CHAT).equals(right)
    right = [(of_chat(role="assistant", content=""), 1), (of_chat("stop", content=""), 1), ("[DONE]", 1)]
    expect(streamed, [Piece("", 1, "stop")], CHAT).equals((right, "end", True))


@pytest.mark.kata("level10.stream.stream_completion")
@pytest.mark.parametrize("head", [TEXT, CHAT])
def test_the_usage_comes_last_in_a_chunk_without_choices(expect, head):
    """Tokens, not chunks: some show no text. 5 of the prompt and 7 of the answer here."""
    kind = {"object": "text_completion" if head is TEXT else "chat.completion.chunk", "choices": []}
    last = {"id": head.id, "created": head.created, "model": head.model, **kind, "usage": tokens(5, 7)}
    expect(ending, ANSWER, head, True, 3).equals(([reason_of(head, "length"), last, "[DONE]"], "end", True))
    expect(ending, ANSWER[:1] + [Piece("b", 2, "stop")], head, True, 3).equals(
        ([reason_of(head, "stop", "b"), last | {"usage": tokens(5, 2)}, "[DONE]"], "end", True)
    )


def ending(pieces, head, usage, n):
    """The last n events."""
    seen, *how = streamed(pieces, head, usage)
    return [data for data, _ in seen[-n:]], *how


def reason_of(head, reason, text=""):
    return of_chat(reason, content=text) if head.chat else of_text(text, reason)


@pytest.mark.kata("level10.stream.stream_completion")
def test_the_usage_is_sent_to_those_who_ask(expect):
    """To others its chunk has no choices, and choices[0] fails: a bug of many clients, which don't expect it."""
    said = [("It", None), (" is\n", None), ("é", None), ("", "length")]
    chunks = list(zip(said, (1, 2, 3, 4)))
    expect(brief, ANSWER).equals(([*chunks, ("[DONE]", 4)], "end", True))
    expect(brief, ANSWER, TEXT, True).equals(([*chunks, ((tokens(5, 7), []), 4), ("[DONE]", 4)], "end", True))


@pytest.mark.kata("level10.stream.stream_completion")
@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize("head", [TEXT, CHAT])
@pytest.mark.parametrize("raised, text", [(Full("no place"), "Full no place"), (KeyError("k"), "KeyError 'k'")])
def test_an_error_before_the_first_piece_passes_on(expect, raised, text, head, usage):
    """The status line has not been sent: the client gets a 429, say, and not a stream that begins well and breaks."""
    expect(brief, [raised], head, usage).equals(([], text, True))


@pytest.mark.kata("level10.stream.stream_completion")
@pytest.mark.parametrize("usage", [False, True])
@pytest.mark.parametrize(
    "raised, event",
    [
        (Failed("boom"), error("boom")),
        (RuntimeError("boom"), error("RuntimeError: boom")),
        (ValueError("boom"), error("ValueError: boom")),
        (KeyError("k"), error("KeyError: 'k'")),
        (Full("no place"), error("no place", "rate_limit_error", "server_full")),
    ],
)
def test_a_later_error_is_an_event(expect, raised, event, usage):
    """Status 200 has been sent. The client gets an error in place of what would have come, no usage that looks like a
    success, and the end that it waits for."""
    right = [(("It", None), 1), ((" is\n", None), 2), (event, 3), ("[DONE]", 3)]
    expect(brief, [*ANSWER[:2], raised], TEXT, usage).equals((right, "end", True))
    right = [(({"role": "assistant", "content": ""}, None), 1), (({"content": "It"}, None), 1)]
    right += [(event, 2), ("[DONE]", 2)]
    expect(brief, [ANSWER[0], raised], CHAT, usage).equals((right, "end", True))


@pytest.mark.kata("level10.stream.stream_completion")
@pytest.mark.parametrize("events", [1, 2, 4])
@pytest.mark.parametrize("head", [TEXT, CHAT])
def test_when_the_reader_leaves_the_pieces_are_closed(expect, head, events):
    """Else the engine goes on for a client that has gone. No event can be sent any more, not even an error."""
    all_said = [(piece.text, piece.finish_reason) for piece in ANSWER]
    seen = list(zip(all_said, (1, 2, 3, 4)))
    if head.chat:
        seen = [(({"content": text}, reason), given) for (text, reason), given in seen]
        seen = [(({"role": "assistant", "content": ""}, None), 1), *seen]
    expect(brief, ANSWER, head, False, events).equals((seen[:events], "left", True))


def cancelled(pieces, head):
    """The reader's task is cancelled while it waits for a piece: events, what became of it, was the source closed?"""

    async def answer():
        source, seen = Source(pieces), []
        task = asyncio.create_task(read(source, head, True, seen))
        await turns()
        task.cancel()
        await turns()
        if not task.done():
            return len(seen), "goes on", source.closed
        return len(seen), "cancelled" if task.cancelled() else task.result(), source.closed

    async def turns():
        for _ in range(50):
            await asyncio.sleep(0)

    return asyncio.run(answer())


@pytest.mark.kata("level10.stream.stream_completion")
def test_when_the_reader_is_cancelled_the_pieces_are_closed(expect):
    """That is how a server ends an answer whose client has gone. It is no error of the stream, and passes on."""
    expect(cancelled, [*ANSWER[:2], None], TEXT).equals((2, "cancelled", True))
    expect(cancelled, [*ANSWER[:2], None], CHAT).equals((3, "cancelled", True))
    expect(cancelled, [None], CHAT).equals((0, "cancelled", True))


@pytest.mark.kata("level10.stream.stream_completion")
def test_two_streams_share_nothing(expect):
    """Their heads and their counts are their own."""

    def in_turn(*requests):
        async def answer():
            streams = [stream_completion(Source(pieces), head, 5, True) for pieces, head in requests]
            seen = [[] for _ in requests]
            for _ in range(5):
                for stream, events in zip(streams, seen):
                    data = data_of(await anext(stream))
                    events.append((data.get("id"), data.get("usage")) if isinstance(data, dict) else data)
            return seen

        return asyncio.run(answer())

    one, other = [Piece("a", 3), Piece("b", 4), Piece("c", 8, "stop")], [Piece("d", 1), Piece("e", 2, "length")]
    right = [[("cmpl-1", None)] * 3 + [("cmpl-1", tokens(5, 8)), "[DONE]"]]
    right += [[("chatcmpl-2", None)] * 3 + [("chatcmpl-2", tokens(5, 2)), "[DONE]"]]
    expect(in_turn, (one, TEXT), (other, CHAT)).equals(right)
