"""Judges pieces.py with an engine that notes how many tokens it has given, and whether it was told to stop.

Oracle for the text: the bytes of all tokens so far, decoded at once, and searched with a regular expression. An answer
is observed piece by piece as (text, tokens it says it has, why it ends, tokens that were given by then).
"""

import asyncio
import random
import re

import pytest

from level10.pieces import text_pieces


class Source:
    """Tokens 0, 1, 2 …; the last one is marked. In place of one there may be an error to raise, or None: no answer.

    closed  set at the end of aclose(), which takes a turn, as the real one may
    """

    def __init__(self, parts):
        self.parts, self.given, self.closed, self.waited = parts, 0, False, False

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        if self.given == len(self.parts) or self.waited or self.closed:
            raise StopAsyncIteration
        part = self.parts[self.given]
        if part is None:
            self.waited = True
            await asyncio.get_running_loop().create_future()
        self.given += 1
        if isinstance(part, Exception):
            raise part
        return self.given - 1, self.given == len(self.parts)

    async def aclose(self):
        await asyncio.sleep(0)
        self.closed = True

    def spell(self, token):
        if isinstance(self.parts[token], str):
            raise KeyError(self.parts[token])  # a token that has no bytes
        return self.parts[token]


async def read(source, stop_ids, stop, seen, pieces=None):
    """Note the pieces, and say how it ended: at its end, after so many pieces, or with what it raised."""
    stream = text_pieces(source, source.spell, stop_ids, stop)
    try:
        async for piece in stream:
            seen.append((piece.text, piece.num_tokens, piece.finish_reason, source.given))
            if len(seen) == pieces:
                break
        await stream.aclose()
        return "left" if len(seen) == pieces else "end"
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__} {error}"


def answered(parts, stop_ids=(), stop=(), pieces=None):
    """The pieces, how it ended, and whether the engine was told."""

    async def answer():
        source, seen = Source(parts), []
        return seen, await read(source, stop_ids, stop, seen, pieces), source.closed

    return asyncio.run(answer())


def right(*pieces):
    """Pieces as (text, tokens) and a last one with a reason; each comes with the token that it ends with."""
    return [(*piece, *[None] * (3 - len(piece)), piece[1]) for piece in pieces], "end", True


# ---- text


@pytest.mark.kata("level10.pieces.text_pieces")
def test_each_token_is_shown_before_the_next_is_asked_for(expect):
    """The user reads along: what is collected first, or given a token late, is no stream. The last piece says why."""
    expect(answered, [b"It", b" is", b" so", b"."]).equals(
        right(("It", 1), (" is", 2), (" so", 3), (".", 4, "length")),
    )
    expect(answered, [b"a"]).equals(right(("a", 1, "length")))
    expect(answered, [b" \n", b"\t", b" b "]).equals(right((" \n", 1), ("\t", 2), (" b ", 3, "length")))
    expect(answered, ["\ufb01\r\n".encode(), "e\u0301".encode()]).equals(
        right(("\ufb01\r\n", 1), ("e\u0301", 2, "length")),
    )


@pytest.mark.kata("level10.pieces.text_pieces")
@pytest.mark.parametrize(
    "parts, pieces",
    [
        ([b"a", b"\xf0\x9f", b"\x98\x80", b"!"], [("a", 1), ("😀", 3), ("!", 4, "length")]),
        ([b"\xf0", b"\x9f", b"\xa4", b"\x97", b"b"], [("🤗", 4), ("b", 5, "length")]),
        ([b"\xea", b"\xb9", b"\xb0"], [("깰", 3, "length")]),
        ([b"a\xc3", b"\xa9b\xe2", b"\x82", b"\xac", b"c"], [("a", 1), ("éb", 2), ("€", 4), ("c", 5, "length")]),
        ([b"\xf0\x9f", b"\x98\x80"], [("😀", 2, "length")]),
        ([b"a", b"\xef\xbf\xbd", b"b"], [("a", 1), ("\ufffd", 2), ("b", 3, "length")]),
    ],
)
def test_a_character_over_several_tokens_comes_whole(expect, parts, pieces):
    """Byte-level vocabularies spell emoji and rare letters in up to four tokens. A half of one is no text: no piece,
    but a token all the same."""
    expect(answered, parts).equals(right(*pieces))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_an_incomplete_character_at_the_end_is_replaced(expect):
    """A length limit may cut a character: one U+FFFD says so, in the last piece."""
    expect(answered, [b"a", b"\xe2\x82"]).equals(right(("a", 1), ("\ufffd", 2, "length")))
    expect(answered, [b"a", b"b\xf0\x9f\x98"]).equals(right(("a", 1), ("b\ufffd", 2, "length")))
    expect(answered, [b"a\xf0", b"\x9f", b"END"], {2}).equals(right(("a", 1), ("\ufffd", 3, "stop")))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_a_token_without_text_gives_no_piece_but_counts(expect):
    """A client that counts chunks instead of reading the usage is wrong about both of these."""
    expect(answered, [b"a", b"", b"", b"b", b""]).equals(right(("a", 1), ("b", 4), ("", 5, "length")))
    expect(answered, [b"", b"a", b"b"]).equals(right(("a", 2), ("b", 3, "length")))
    expect(answered, [b""]).equals(right(("", 1, "length")))


def joined(parts):
    pieces, how, closed = answered(parts)
    return "".join(text for text, *_ in pieces), how, closed


@pytest.mark.kata("level10.pieces.text_pieces")
def test_bytes_that_are_no_text_do_not_stop_the_stream(expect):
    """A model may give any bytes. Oracle: all of them decoded at once."""
    for parts in ([b"a", b"\xff", b"b"], [b"\x80", b"a\xc3", b"(b"], [b"\xe2", b"\xe2\x82", b"\xac", b"c"]):
        expect(joined, parts).equals((b"".join(parts).decode("utf-8", "replace"), "end", True))


# ---- what ends it


@pytest.mark.kata("level10.pieces.text_pieces")
def test_a_stop_token_is_counted_but_not_shown(expect):
    """Its spelling, "<|im_end|>" say, is nobody's text. The engine made it, so it is in the usage; and it may well be
    token 0, or one of several."""
    expect(answered, [b"a", b"b", b"<end>"], {2}).equals(right(("a", 1), ("b", 2), ("", 3, "stop")))
    expect(answered, [b"a", b"<end>"], [7, 1, -1]).equals(right(("a", 1), ("", 2, "stop")))
    expect(answered, [b"<end>"], (0,)).equals(right(("", 1, "stop")))
    expect(answered, [b"a", b"b"], {7}).equals(right(("a", 1), ("b", 2, "length")))


@pytest.mark.kata("level10.pieces.text_pieces")
@pytest.mark.parametrize(
    "parts, pieces",
    [
        ([b"a", b"EN", b"Db"], [("a", 1), ("", 3, "stop")]),
        ([b"a", b"EN", b"Db", b"c", b"d"], [("a", 1), ("", 3, "stop")]),
        ([b"a", b"bEND", b"c", b"d"], [("a", 1), ("b", 2, "stop")]),
        ([b"ENDa", b"b"], [("", 1, "stop")]),
        ([b"E", b"N", b"D", b"a", b"b"], [("", 3, "stop")]),
        ([b"aE", b"N", b"END", b"b"], [("a", 1), ("EN", 3, "stop")]),
        ([b"aend", b"b", b"END", b"c"], [("aend", 1), ("b", 2), ("", 3, "stop")]),
        ([b"a", b"END\xe2\x82"], [("a", 1), ("", 2, "stop")]),
        ([b"a", b"END\xe2\x82", b"b"], [("a", 1), ("", 2, "stop")]),
        ([b"a\xc3", b"\xa9END", b"b"], [("a", 1), ("é", 2, "stop")]),
    ],
)
def test_a_stop_string_ends_it_and_no_further_token_is_asked_for(expect, parts, pieces):
    """It may be spread over tokens, and a token may hold more than its end. What was on the screen can't be taken
    back; and each further token costs a step for nothing."""
    expect(answered, parts, (), ["END"]).equals(right(*pieces))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_held_text_that_is_no_stop_string_is_shown(expect):
    """As soon as that is known, and with the last piece at the latest, whatever ends the answer."""
    expect(answered, [b"aE", b"N", b"x", b"b"], (), ["END"]).equals(
        right(("a", 1), ("ENx", 3), ("b", 4, "length")),
    )
    expect(answered, [b"a", b"EN"], (), ["END"]).equals(right(("a", 1), ("EN", 2, "length")))
    expect(answered, [b"a", b"bE", b""], (), ["END"]).equals(right(("a", 1), ("b", 2), ("E", 3, "length")))
    expect(answered, [b"a", b"EN", b"<end>"], {2}, ["END"]).equals(right(("a", 1), ("EN", 3, "stop")))
    expect(answered, [b"a", b"EN\xe2"], (), ["END"]).equals(right(("a", 1), ("EN\ufffd", 2, "length")))
    expect(answered, [b"aEN\xe2", b"<end>"], {1}, ["END"]).equals(right(("a", 1), ("EN\ufffd", 2, "stop")))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_the_last_token_may_complete_a_stop_string(expect):
    """The answer ends before it, so the reason is "stop", though the engine had reached its limit."""
    expect(answered, [b"a", b"EN", b"D"], (), ["END"]).equals(right(("a", 1), ("", 3, "stop")))
    expect(answered, [b"aEND"], (), ["END"]).equals(right(("a", 1, "stop")))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_a_stop_token_is_no_part_of_a_stop_string(expect):
    """What is not shown can't complete one; and text that spells a stop token does not end anything."""
    expect(answered, [b"aEN", b"D"], {1}, ["END"]).equals(right(("a", 1), ("EN", 2, "stop")))
    expect(answered, [b"a", b"<end>", b"b"], {5}).equals(right(("a", 1), ("<end>", 2), ("b", 3, "length")))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_of_several_stop_strings_the_first_in_the_text_ends_it(expect):
    """As level 01's StopStrings says: the one that is complete first, not the one that is listed first."""
    expect(answered, [b"axbyy", b"c"], (), ("yy", "x")).equals(right(("a", 1, "stop")))
    expect(answered, [b"a", b"b", b"c", b"d", b"e"], (), ["abcd", "bc"]).equals(right(("a", 3, "stop")))
    expect(answered, ["日".encode(), b"\xe6\x9c", b"\xacb", b"c"], (), ["本"]).equals(right(("日", 1), ("", 3, "stop")))


# ---- closing


@pytest.mark.kata("level10.pieces.text_pieces")
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_when_the_reader_leaves_the_engine_is_told(expect, pieces):
    """A client hangs up in the middle of an answer. Leaving an `async for` closes nothing by itself, and the engine
    goes on for nobody."""
    shown = [("a", 1, None, 1), ("b", 2, None, 2), ("c", 3, None, 3), ("d", 4, "length", 4)][:pieces]
    expect(answered, [b"a", b"b", b"c", b"d"], (), ["END"], pieces).equals((shown, "left", True))


def cancelled(parts):
    """The reader's task is cancelled while it waits for a token: what it saw, what became of it, who was told."""

    async def answer():
        source, seen = Source(parts), []
        task = asyncio.create_task(read(source, (), ["END"], seen))
        await turns()
        task.cancel()
        await turns()
        if not task.done():
            return seen, "goes on", source.closed
        return seen, "cancelled" if task.cancelled() else task.result(), source.closed

    async def turns():
        for _ in range(50):
            await asyncio.sleep(0)

    return asyncio.run(answer())


@pytest.mark.kata("level10.pieces.text_pieces")
def test_when_the_reader_is_cancelled_the_engine_is_told(expect):
    """A server cancels the task of a client that has gone, most often while it waits for the next token. The
    cancellation passes on; no piece is made up for it."""
    expect(cancelled, [b"a", b"EN", None]).equals(([("a", 1, None, 1)], "cancelled", True))
    expect(cancelled, [None]).equals(([], "cancelled", True))


@pytest.mark.kata("level10.pieces.text_pieces")
def test_an_error_passes_on_and_the_engine_is_told(expect):
    """Be it of the engine or of the spelling. What was held back is not shown: the answer has no last piece."""
    boom = RuntimeError("boom")
    expect(answered, [b"a", b"bEN", boom, b"c"], (), ["END"]).equals(
        ([("a", 1, None, 1), ("b", 2, None, 2)], "RuntimeError boom", True),
    )
    expect(answered, [boom]).equals(([], "RuntimeError boom", True))
    expect(answered, [b"a", "x", b"c"]).equals(([("a", 1, None, 1)], "KeyError 'x'", True))


# ---- all at once


def judged(parts, stop, ends):
    """Oracle: after each token look at all bytes so far. `ends`: the last token is one of stop_ids."""
    beginnings = {text[:size] for text in stop for size in range(1, len(text))}
    shown, pieces = "", []
    for n in range(1, len(parts) + 1):
        last = n == len(parts)
        data = b"".join(parts[: n - (last and ends)])
        text = data.decode("utf-8", "replace" if last else "ignore")  # valid, but for what is not complete yet
        pattern = "|".join(map(re.escape, stop)) or r"\b\B"
        found = next((m for end in range(len(text) + 1) if (m := re.search(pattern, text[:end]))), None)
        tail = max((len(one) for one in beginnings if text.endswith(one)), default=0)
        safe = text[: found.start() if found else len(text) - (0 if last else tail)]
        new, shown = safe[len(shown) :], safe
        if found or last:
            return right(*pieces, (new, n, "stop" if found or ends else "length"))
        pieces += [(new, n)] if new else []


@pytest.mark.kata("level10.pieces.text_pieces")
@pytest.mark.parametrize("seed", range(20))
def test_random_tokens_stop_strings_and_stop_tokens(expect, seed):
    """Two letters and two long ones, cut into tokens anywhere, also within a letter, and stop strings of the same."""
    rng = random.Random(seed)
    for _ in range(6):
        data = "".join(rng.choices("ab€😀", k=rng.randint(1, 14))).encode()
        data = data[: len(data) - rng.choice([0, 0, 1, 2])]  # the last one may be incomplete
        cuts = sorted(rng.randint(0, len(data)) for _ in range(rng.randint(0, 8)))
        parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)])]
        stop = ["".join(rng.choices("ab€😀", k=rng.randint(2, 4))) for _ in range(rng.randint(0, 3))]
        ends = len(parts) > 1 and rng.random() < 0.3
        parts += [b"b"] if ends else []
        expect(answered, parts, [len(parts) - 1] if ends else [], stop).equals(judged(parts, stop, ends))


# ---- many answers


def in_turn(*answers):
    """Each answer's texts, read one piece at a time in turn."""

    async def answer():
        streams = []
        for parts, stop in answers:
            source = Source(parts)
            streams.append(text_pieces(source, source.spell, (), stop))
        seen = [[] for _ in answers]
        for _ in range(4):
            for stream, texts in zip(streams, seen):
                piece = await anext(stream, None)
                texts += [piece.text] if piece else []
        return seen

    return asyncio.run(answer())


@pytest.mark.kata("level10.pieces.text_pieces")
def test_two_answers_share_nothing(expect):
    """A server streams many at a time: half a character, or half a stop string, must not meet that of another user."""
    answers = ([b"a\xc3", b"\xa9EN", b"c"], ["END"]), ([b"b\xc3", b"\xbcEN", b"D"], ["ENT"])
    expect(in_turn, *answers).equals([["a", "é", "ENc"], ["b", "ü", "END"]])


@pytest.mark.kata("level10.pieces.text_pieces")
def test_a_long_answer(expect):
    """900 tokens, each shown with its own piece and count: an answer may not grow more expensive as it grows."""
    parts = [b"a", b"\xe2", b"\x82\xac"] * 300
    pieces = [(("a", "", "€")[i % 3], i + 1) for i in range(900) if i % 3 != 1]
    expect(answered, parts, {900}, ["END"]).equals(right(*pieces[:-1], (*pieces[-1], "length")))
