"""An answer in the API's own shape: whole, or as a stream of events."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from .errors import error_object
from .pieces import Piece
from .sse import sse_event


@dataclass(frozen=True)
class Head:
    """What all parts of one answer begin with; `created` in whole seconds since 1970."""

    id: str
    model: str
    created: int
    chat: bool = False

    def object(self, kind: str, choices: list[dict]) -> dict:
        """A response object of that kind. Given."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, "choices": choices}


def usage(prompt_tokens: int, completion_tokens: int) -> dict:
    """What the answer cost, in tokens. Given."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}


def completion(head: Head, text: str, finish_reason: str, usage: dict) -> dict:
    """The answer as one object, for a client that does not stream. Given."""
    said = {"message": {"role": "assistant", "content": text}} if head.chat else {"text": text}
    choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
    return {**head.object("chat.completion" if head.chat else "text_completion", [choice]), "usage": usage}


def completion_chunk(
    head: Head, text: str = "", finish_reason: str | None = None, *, first: bool = False, usage: dict | None = None
) -> dict:
    """Return one chunk of a streamed answer, as head.object(kind, choices) and what follows.

    kind     "text_completion", of a chat "chat.completion.chunk"
    choices  one: {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}; a chat has "delta":
             {"content": text} in place of "text": ..., and {"role": "assistant", "content": text} in its first chunk
    usage    if given, the chunk has no choices at all, [], and this under "usage"; no other chunk has that key

    finish_reason is null (None) in all chunks but the last one with text.
    Example: completion_chunk(Head("i", "m", 5), "hi") -> {"id": "i", "object": "text_completion", "created": 5,
    "model": "m", "choices": [{"index": 0, "text": "hi", "logprobs": None, "finish_reason": None}]}.

    ● · about 6 lines · part of stream_completion
    """
    # TODO: what is said, in which choice, in which object
    raise NotImplementedError("level10.stream.stream_completion")


async def stream_completion(
    pieces: AsyncIterator[Piece], head: Head, prompt_tokens: int, include_usage: bool = False
) -> AsyncIterator[bytes]:
    """Yield a streamed answer, one server-sent event (bytes) at a time, each as soon as its piece is known.

    pieces         of the answer, at least one; has a method aclose(), as async generators have
    prompt_tokens  for the usage

    In this order: in a chat a first chunk with the role and the text "", and it comes with the first piece, not before;
    one chunk for each piece; if include_usage asks for it, one with the usage; and always "[DONE]" (given). An error of
    `pieces` before its first piece passes on: there is still time for an HTTP status. Later it is too late for that,
    and the error becomes an event, error_object(error), in place of all that would have come, but for "[DONE]".
    However it ends, `pieces` is closed.
    Example: pieces "a", and "" with "length": two chunks and b"data: [DONE]\\n\\n".

    ●● · about 14 lines · needs level10.sse.SSEParser
    """
    # TODO: chunks, usage; and what if something raises, before the first piece or behind it?
    raise NotImplementedError("level10.stream.stream_completion")
    yield sse_event("[DONE]")
