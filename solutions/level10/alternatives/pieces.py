"""Right programs, written another way, for level10.pieces. `alternative` is given when this is read."""


async def _with_finally(tokens, spell, stop_ids=(), stop=()):
    """Step by step, and closed behind the last piece."""
    from codecs import getincrementaldecoder

    from level01.streaming import StopStrings
    from level10.pieces import Piece

    decoder, stops, count = getincrementaldecoder("utf-8")(errors="replace"), StopStrings(stop), 0
    try:
        while True:
            token, last = await anext(tokens)
            count += 1
            if token in stop_ids:
                text = stops.feed(decoder.decode(b"", True)) + stops.flush()
                yield Piece(text=text, num_tokens=count, finish_reason="stop")
                return
            text = stops.feed(decoder.decode(spell(token)))
            if stops.stopped:
                yield Piece(text, count, "stop")
                return
            if last:
                text += stops.feed(decoder.decode(b"", True))
                text += stops.flush()
                yield Piece(text, count, "stop" if stops.stopped else "length")
                return
            if text != "":
                yield Piece(text, count)
    finally:
        await tokens.aclose()


async def _bytes_kept_by_hand(tokens, spell, stop_ids=(), stop=()):
    """No incremental decoder: what can be decoded of the bytes so far is taken off, and at most three bytes wait."""
    from contextlib import AsyncExitStack

    from level01.streaming import StopStrings
    from level10.pieces import Piece

    stops, data, n, reason = StopStrings(list(stop)), b"", 0, None

    def incomplete(data):
        """How many bytes at the end may be the beginning of a character."""
        for size in range(1, min(3, len(data)) + 1):
            lead = data[-size]
            need = 2 if 0xC2 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 4 if 0xF0 <= lead < 0xF5 else 0
            if need > size:
                return 0 if "\ufffd\ufffd" in data[-size:].decode("utf-8", "replace") else size
            if lead >= 0xC0:
                return 0
        return 0

    async with AsyncExitStack() as stack:
        stack.push_async_callback(tokens.aclose)
        async for token, last in tokens:
            n += 1
            if token in stop_ids:
                reason = "stop"
            else:
                data += spell(token)
            keep = 0 if last else incomplete(data)
            text, data = data[: len(data) - keep].decode("utf-8", "replace"), data[len(data) - keep :]
            text = stops.feed(text)
            if stops.stopped:
                reason = "stop"
            elif last:
                text, reason = text + stops.flush(), reason or "length"
            if reason:
                break
            if text:
                yield Piece(text, n)
    yield Piece(text, n, reason)


async def _whole_text_each_time(tokens, spell, stop_ids=(), stop=()):
    """Decodes and searches all that came so far at each token, and shows what is new."""
    from level10.pieces import Piece

    stop = [stop] if isinstance(stop, str) else list(stop)
    spelled, shown, count = [], 0, 0
    try:
        async for token, last in tokens:
            count += 1
            stopped = token in set(stop_ids)
            spelled += [] if stopped else [spell(token)]
            data = b"".join(spelled)
            text = data.decode("utf-8", "replace")
            if not last:
                import codecs

                text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
            ends = sorted((text.index(one) + len(one), text.index(one)) for one in stop if one in text)
            if ends:
                text, stopped = text[: ends[0][1]], True
            end = len(text)
            if not (ends or last):
                end -= max((k for one in stop for k in range(1, len(one)) if text.endswith(one[:k])), default=0)
            new, shown = text[shown:end], max(shown, end)
            if ends or last:
                yield Piece(new, count, "stop" if stopped else "length")
                break
            if new:
                yield Piece(new, count)
    finally:
        await tokens.aclose()


async def _in_two_stages(tokens, spell, stop_ids=(), stop=()):
    """A stage that makes text of tokens, and one that looks for stop strings; each closes the one below."""
    from codecs import getincrementaldecoder
    from contextlib import aclosing

    from level01.streaming import StopStrings
    from level10.pieces import Piece

    async def texts():
        decoder = getincrementaldecoder("utf-8")("replace")
        try:
            async for token, last in tokens:
                ended = token in stop_ids
                yield decoder.decode(b"" if ended else spell(token), last), last, ended
        finally:
            await tokens.aclose()

    stops, number = StopStrings(stop), 0
    async with aclosing(texts()) as stream:
        async for text, last, ended in stream:
            number += 1
            shown = stops.feed(text) + (stops.flush() if last else "")
            if last or stops.stopped:
                yield Piece(shown, number, "stop" if ended or stops.stopped else "length")
                break
            if shown:
                yield Piece(shown, number)


for program in (_with_finally, _bytes_kept_by_hand, _whole_text_each_time, _in_two_stages):
    alternative("level10.pieces.text_pieces", program.__name__[1:], program=program)
alternative(
    "level10.pieces.text_pieces",
    "reads_to_the_end",
    change=[
        (
            "            if last or stops.stopped:\n                break\n            if text:",
            "            if stops.stopped:\n                break\n            if text and not last:",
        )
    ],
)
LOOP = """        async for token, last in tokens:
            num_tokens += 1
            ended = token in stop_ids
            text = stops.feed(decoder.decode(b"" if ended else spell(token), final=last))
            if last:
                text += stops.flush()
            if last or stops.stopped:
                break
            if text:
                yield Piece(text, num_tokens)
"""
alternative(
    "level10.pieces.text_pieces",
    "closed_by_hand",
    change=(
        "    async with aclosing(tokens):\n" + LOOP,
        "    try:\n" + LOOP + "    finally:\n        await tokens.aclose()\n",
    ),
)
