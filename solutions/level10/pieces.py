"""From the tokens of an engine to the text that a client may see: as early as possible, and never more than that."""

from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from level01.streaming import StopStrings


@dataclass(frozen=True)
class Piece:
    """Text that may be shown now, how many tokens the answer has so far, and why it ends, if this is its last piece."""

    text: str
    num_tokens: int
    finish_reason: str | None = None


async def text_pieces(
    tokens: AsyncIterator[tuple[int, bool]],
    spell: Callable[[int], bytes],
    stop_ids: Collection[int] = (),
    stop: Sequence[str] = (),
) -> AsyncIterator[Piece]:
    """Yield an answer in pieces of text, each as soon as its token is known.

    tokens    (token id, is it the last one), at least one; has a method aclose(), as async generators have
    spell     the bytes of a token; a character may be spread over several tokens, and is never split
    stop_ids  tokens that end an answer; the engine gives them as the last one, and they are not shown
    stop      the answer ends before the first of these strings, as level 01's StopStrings says

    A token gives at most one piece. One that shows no text gives none, but counts: num_tokens includes those that are
    held back or not shown.
    The last piece has a finish_reason, be its text "" or not, and no other piece has: "stop" after one of stop_ids or
    before a stop string (also when its last token is the last that the engine would have made), else "length". What was
    held back comes with it: text that turned out to be no stop string, an incomplete character as U+FFFD.
    However it ends (last token, stop string, an error, its reader leaves), `tokens` is closed, since that is how the
    engine learns that nobody listens. After a stop string no further token is asked for.
    Example: tokens that spell "a", "EN", "Db" with stop "END": Piece("a", 1), Piece("", 3, "stop").

    ●●● · about 13 lines
    """
    decoder = getincrementaldecoder("utf-8")("replace")  # level 01's utf8_pieces pulls its bytes; here they are pushed
    stops = StopStrings(stop)
    # solution:begin decode, feed the stop strings, and say why it ends; and what if the reader leaves?
    num_tokens = 0
    # subtle: leaving an `async for` early does not close what it runs over
    async with aclosing(tokens):
        async for token, last in tokens:
            num_tokens += 1
            ended = token in stop_ids
            text = stops.feed(decoder.decode(b"" if ended else spell(token), final=last))
            if last:
                text += stops.flush()
            if last or stops.stopped:
                break
            if text:
                yield Piece(text, num_tokens)
    reason = "stop" if stops.stopped or ended else "length"
    # solution:end
    yield Piece(text, num_tokens, reason)
