"""Judges streaming.py by every way of cutting a text into pieces, against oracles that see the text as a whole."""

import random
import re
from itertools import product

import pytest

from level01.streaming import StopStrings, utf8_pieces


def cuts(whole):
    """Every way of cutting a text, or bytes, into pieces: 2 ** (length - 1) of them."""
    for cut in product((False, True), repeat=max(0, len(whole) - 1)):
        ends = [*(i + 1 for i, here in enumerate(cut) if here), len(whole)]
        yield [whole[start:end] for start, end in zip([0, *ends], ends)]


# ---- StopStrings


def fed(stops, pieces):
    """What a server sees: the text to show and the state after each piece, and what the end adds."""
    guard = StopStrings(stops)
    seen = [(guard.feed(piece), guard.stopped) for piece in pieces]
    return {"shown": [text for text, _ in seen], "stopped": [state for _, state in seen], "flushed": guard.flush()}


def searched(stops, pieces):
    """Oracle: look at the whole text so far, with a regular expression and with a list of all beginnings of stops."""
    beginnings = {stop[:size] for stop in stops for size in range(1, len(stop))}
    text, before, found, seen = "", "", None, {"shown": [], "stopped": [], "flushed": ""}
    for piece in pieces:
        text += "" if found else piece
        pattern = "|".join(map(re.escape, stops)) or r"\b\B"
        found = found or next((m for end in range(len(text) + 1) if (m := re.search(pattern, text[:end]))), None)
        tail = max((len(beginning) for beginning in beginnings if text.endswith(beginning)), default=0)
        safe = text[: found.start() if found else len(text) - tail]
        seen["shown"].append(safe[len(before) :])
        seen["stopped"].append(found is not None)
        before = safe
    return seen | {"flushed": "" if found else text[len(before) :]}


@pytest.mark.kata("level01.streaming.StopStrings")
@pytest.mark.parametrize(
    "stops, pieces, shown, flushed, last",
    [
        (["END"], ["a", "END", "b"], ["a", "", ""], "", 1),
        (["END"], ["aENDb"], ["a"], "", 0),
        (["END"], ["a", "EN", "D", "b"], ["a", "", "", ""], "", 2),
        (["END"], ["EN", "D!"], ["", ""], "", 1),
        (["DEFGHIJ"], ["DEF", "G", "HI", "J"], ["", "", "", ""], "", 3),
        (["own fox"], ["The quick br", "own f", "ox jumps"], ["The quick br", "", ""], "", 2),
        (["END"], ["aE", "Nx"], ["a", "ENx"], "", None),
        (["END"], ["E"], [""], "E", None),
        (["END"], ["aEN"], ["a"], "EN", None),
        (["abc"], ["hello ab"], ["hello "], "ab", None),
        (["abc"], ["hello xy", "bc", "c"], ["hello xy", "bc", "c"], "", None),
        (["abc"], ["a", "a", "ab", "b"], ["", "a", "a", "abb"], "", None),
        (["xxxxxxxxxx"], ["xx", "x", "y"], ["", "", "xxxy"], "", None),
        (["\n\nObservation:"], ["ok\n\nObserve", " it"], ["ok\n\nObserve", " it"], "", None),
        (["\n\n#"], ["a \n", "\n"], ["a ", ""], "\n\n", None),
        (["a1", "b2", "c3", "d4", "e5", "f6"], ["xf", "6"], ["x", ""], "", 1),
        (["f6", "e5", "d4", "c3", "b2", "a1"], ["xf", "6"], ["x", ""], "", 1),
    ],
    ids=["one piece", "text on both sides", "two pieces", "text after it", "four pieces", "words", "not a stop", "half"]
    + [
        "half behind text",
        "hold two",
        "hold nothing",
        "hold anew",
        "longer than the text",
        "a long beginning",
        "line ends",
        "six stops",
        "in another order",
    ],
)
def test_a_stop_string_is_cut_out_wherever_the_pieces_end(expect, stops, pieces, shown, flushed, last):
    """Tokens do not end where stop strings do. Part of one on the screen can't be taken back; text that is held for
    nothing makes the stream lag. `last` is the piece that completes the stop string."""
    stopped = [last is not None and i >= last for i in range(len(pieces))]
    expect(fed, stops, pieces).equals({"shown": shown, "stopped": stopped, "flushed": flushed})


@pytest.mark.kata("level01.streaming.StopStrings")
@pytest.mark.parametrize(
    "stops, pieces, shown",
    [
        (["re", "he"], ["there"], ["t"]),
        (["he", "re"], ["there"], ["t"]),
        (["ab", "b"], ["xab"], ["x"]),
        (["b", "ab"], ["x", "a", "b"], ["x", "", ""]),
        (["ab", "abcd"], ["xa", "b"], ["x", ""]),
        (["abcd", "ab"], ["xa", "b"], ["x", ""]),
        (["END", "."], ["aE", "N."], ["a", "EN"]),
        (["\nUser:", "\n\n"], ["Hi.\n", "\n"], ["Hi.", ""]),
    ],
    ids=["there", "there, other order", "suffix", "suffix, other order", "prefix", "prefix, other order"]
    + ["the short one", "one letter in common"],
)
def test_of_several_stop_strings_the_first_in_the_text_wins(expect, stops, pieces, shown):
    """A request lists its stop strings in any order; whichever the text comes to first ends it, with its last piece."""
    stopped = [i == len(pieces) - 1 for i in range(len(pieces))]
    expect(fed, stops, pieces).equals({"shown": shown, "stopped": stopped, "flushed": ""})


@pytest.mark.kata("level01.streaming.StopStrings")
def test_a_complete_stop_string_does_not_wait_for_a_longer_one(expect):
    """abc may become abcd, but bc is complete: the request ends now, and its place in the batch is free."""
    right = {"shown": ["", "", "a"], "stopped": [False, False, True], "flushed": ""}
    expect(fed, ["abcd", "bc"], ["a", "b", "c"]).equals(right)


def every_cut(stops, text):
    return {"|".join(pieces): fed(stops, pieces) for pieces in cuts(text)}


@pytest.mark.kata("level01.streaming.StopStrings")
@pytest.mark.parametrize(
    "stops, text",
    [
        (["END"], "aENDEND"),
        (["aab"], "aaabaab"),
        (["abcabd"], "abcabcabd"),
        (["abab", "bb"], "aabaababb"),
        (["aa"], "baaab"),
        (["ab", "b"], "acabb"),
        (["abc", "ab"], "aacabca"),
        (["re", "he"], "where"),
        (["abcd", "bc"], "xabcdab"),
        (["abcd", "bc", "c"], "abxabcd"),
        (["abc", "bcd", "cda"], "ababdcdac"),
        (["xabcd", "abx"], "xabcabxy"),
        (["abcdefghijkl"], "abcabcd"),
        (["\n\n", "\n#"], " a\n \n\n#"),
        (["🙂é", "日本"], "日é🙂🙂é日"),
    ],
)
def test_any_cut_of_a_text_shows_what_stands_before_the_first_stop(expect, stops, text):
    """Oracle: a regular expression over the whole text so far. At every piece, not only at the end: nothing that may
    belong to a stop string is shown, and nothing else is held."""
    expect(every_cut, stops, text).equals({"|".join(pieces): searched(stops, pieces) for pieces in cuts(text)})


def each_fed(requests):
    return [fed(stops, pieces) for stops, pieces in requests]


def random_request(rng):
    """Stop strings over two letters, and a text in pieces, some of them empty."""
    letters = lambda low, high: "".join(rng.choices("ab", k=rng.randint(low, high)))  # noqa: E731
    stops = [letters(2, 6) for _ in range(rng.randint(1, 3))]
    return stops, [letters(0, 3) for _ in range(rng.randint(1, 8))]


@pytest.mark.kata("level01.streaming.StopStrings")
def test_stop_strings_of_repeated_letters_in_random_pieces(expect):
    """Two letters make stop strings that overlap themselves and each other. Oracle: as before, 500 requests."""
    rng = random.Random(0)
    requests = [random_request(rng) for _ in range(500)]
    expect(each_fed, requests).equals([searched(stops, pieces) for stops, pieces in requests])


@pytest.mark.kata("level01.streaming.StopStrings")
def test_without_stop_strings_everything_passes(expect):
    """Most requests have none: they pay no delay."""
    right = {"shown": ["a ", "", "END", "\n"], "stopped": [False] * 4, "flushed": ""}
    expect(fed, [], ["a ", "", "END", "\n"]).equals(right)


@pytest.mark.kata("level01.streaming.StopStrings")
def test_an_empty_piece_changes_nothing(expect):
    """A token that is half a character brings no text: what is held stays held, and nothing else is."""
    right = {"shown": ["", "a", "", "", "ENx", ""], "stopped": [False] * 6, "flushed": ""}
    expect(fed, ["END"], ["", "aEN", "", "", "x", ""]).equals(right)
    right = {"shown": ["", "", "", ""], "stopped": [False, False, True, True], "flushed": ""}
    expect(fed, ["END"], ["EN", "", "D", ""]).equals(right)


@pytest.mark.kata("level01.streaming.StopStrings")
@pytest.mark.parametrize(
    "stop, text",
    [("a.c", "abc"), ("(", "f()"), ("a|b", "a b"), ("END", "end"), ("é", "e\u0301"), ("a c", "a  c")]
    + [("END ", "END."), (" END", "\tEND"), ("\n\n", "\r\n\r\n")],
)
def test_a_stop_string_is_compared_letter_by_letter(expect, stop, text):
    """It is no pattern, and neither case nor spaces nor the form of an accent are forgiven: the API says a string."""
    expect(fed, [stop], [text, "x", stop, "y"]).equals(searched([stop], [text, "x", stop, "y"]))


def stops_twice(cls):
    guard = cls(["END"])
    shown = [guard.feed(piece) for piece in ("aEN", "Db", "cENDd", "e", "EN")]
    return shown, guard.stopped, [guard.flush(), guard.flush()], guard.stopped


@pytest.mark.kata("level01.streaming.StopStrings")
def test_once_stopped_nothing_is_shown_any_more(expect):
    """An engine may have made the next token already when the stop string is found."""
    expect.story(stops_twice, StopStrings).equals((["a", "", "", "", ""], True, ["", ""], True))


def flushes_twice(cls):
    guard = cls(["END"])
    return guard.feed("aE"), guard.flush(), guard.flush(), guard.stopped


@pytest.mark.kata("level01.streaming.StopStrings")
def test_what_was_held_is_flushed_once(expect):
    """The end of a stream may be signalled twice, by the length limit and by the closing connection."""
    expect.story(flushes_twice, StopStrings).equals(("a", "E", "", False))


def two_streams(cls):
    first, second = cls(["END"]), cls(["!", "ENT"])
    shown = [first.feed("aE"), second.feed("bEN"), first.feed("ND"), second.feed("D"), second.feed("?")]
    return shown, first.stopped, second.stopped, first.flush(), second.flush()


@pytest.mark.kata("level01.streaming.StopStrings")
def test_two_streams_do_not_share_their_text(expect):
    """A server has one for each request: text held in the class, not in the object, reaches another user."""
    expect.story(two_streams, StopStrings).equals((["a", "b", "", "END", "?"], True, False, "", ""))


@pytest.mark.kata("level01.streaming.StopStrings")
def test_a_long_answer_in_single_letters(expect):
    """5,000 pieces, as an answer has tokens, and a stop string of 200 letters that begins again and again."""
    expect(fed, ["END"], [*"abEN" * 1250]).equals(searched_in_long_text())
    stop = "a" * 199 + "b"
    pieces = [*"a" * 300, "b", "a"]
    right = [""] * 199 + ["a"] * 101 + ["", ""]
    expect(fed, [stop], pieces).equals({"shown": right, "stopped": [False] * 300 + [True] * 2, "flushed": ""})


def searched_in_long_text():
    """By hand: every E and N is held, and comes with the next a; the last EN comes at the end."""
    shown = ["a", "b", "", ""] + ["ENa", "b", "", ""] * 1249
    return {"shown": shown, "stopped": [False] * 5000, "flushed": "EN"}


def refuses(stops):
    return StopStrings(stops).feed("a")


@pytest.mark.kata("level01.streaming.StopStrings")
def test_an_empty_stop_string_is_refused(expect):
    """It stands at the beginning of every text. One string alone, as the API allows, is not a list of its letters."""
    expect(fed, "END", ["aE", "N"]).equals({"shown": ["a", ""], "stopped": [False, False], "flushed": "EN"})
    expect(refuses, ["END", ""]).raises(ValueError)
    expect(refuses, [""]).raises(ValueError)


# ---- utf8_pieces

# all beginnings of characters of two to four bytes; the last byte has 64 values and does not matter here
BEGINNINGS = {
    chr(code).encode()[:size]
    for code in range(0x80, 0x110000, 0x40)
    if not 0xD800 <= code < 0xE000
    for size in range(1, len(chr(code).encode()))
}


def decoded(chunks):
    """Oracle: decode all bytes so far at once, but for a tail that is the beginning of some character."""
    data, before, pieces = b"", "", []
    for chunk in chunks:
        data += chunk
        held = max((size for size in range(1, min(4, len(data) + 1)) if data[-size:] in BEGINNINGS), default=0)
        text = data[: len(data) - held].decode(errors="replace")
        pieces.append(text[len(before) :])
        before = text
    pieces.append(data.decode(errors="replace")[len(before) :])
    return [piece for piece in pieces if piece]


@pytest.mark.kata("level01.streaming.utf8_pieces")
@pytest.mark.parametrize(
    "chunks, right",
    [
        ([b"a\xe2", b"\x82", b"\xacb"], ["a", "€b"]),
        ([b"\xf0", b"\x9f", b"\x99", b"\x82"], ["🙂"]),
        ([b"\xc3\xa9\xc3", b"\xa9"], ["é", "é"]),
        ([b"Hello", b", ", b"world"], ["Hello", ", ", "world"]),
        (["日本".encode(), b" \r\n\t\0", b"\r", b"\n"], ["日本", " \r\n\t\0", "\r", "\n"]),
        ([b"\xef\xbb\xbfa", b"\xef\xbb", b"\xbf"], ["\ufeffa", "\ufeff"]),
        ([b"\xef\xbf\xbd", b"a\xef\xbf", b"\xbd"], ["\ufffd", "a", "\ufffd"]),
        (["\uffff\ufdd0".encode(), b"\xf4\x8f\xbf\xbf"], ["\uffff\ufdd0", "\U0010ffff"]),
    ],
    ids=["euro", "four bytes alone", "two bytes", "plain", "white space", "byte order marks"]
    + ["a mark in the text", "no characters yet"],
)
def test_a_character_comes_when_its_last_byte_has_come(expect, chunks, right):
    """A token may end inside of a character: shown at once it is a replacement mark, and so is the other half."""
    expect(utf8_pieces, chunks).equals(iter(right))


@pytest.mark.kata("level01.streaming.utf8_pieces")
@pytest.mark.parametrize(
    "chunks, right",
    [
        ([b"\xff", b"a"], ["\ufffd", "a"]),
        ([b"\x80", b"a"], ["\ufffd", "a"]),
        ([b"\xc0", b"\xaf"], ["\ufffd", "\ufffd"]),
        ([b"\xe2\x82", b"a"], ["\ufffda"]),
        ([b"\xe2", b"\xe2\x82", b"\xac"], ["\ufffd", "€"]),
        ([b"\xe0", b"\x80", b"a"], ["\ufffd\ufffd", "a"]),
        ([b"\xf4", b"\x90", b"a"], ["\ufffd\ufffd", "a"]),
        ([b"\xf5", b"a"], ["\ufffd", "a"]),
        ([b"\xf0\x9f\x99", b"\xf0\x9f\x99", b"\x82"], ["\ufffd", "🙂"]),
    ],
    ids=[
        "no such byte",
        "a lone second byte",
        "overlong",
        "another letter",
        "another beginning",
        "overlong, three bytes",
    ]
    + ["beyond the last", "far beyond the last", "four bytes anew"],
)
def test_what_cannot_become_a_character_is_replaced_at_once(expect, chunks, right):
    """Waiting for it would stop the stream for good; a model can emit any bytes."""
    expect(utf8_pieces, chunks).equals(iter(right))


@pytest.mark.kata("level01.streaming.utf8_pieces")
@pytest.mark.parametrize(
    "chunks, right",
    [
        ([b"\xe2\x82"], ["\ufffd"]),
        ([b"ab", b"\xf0\x9f\x99"], ["ab", "\ufffd"]),
        ([b"a\xc3"], ["a", "\ufffd"]),
        ([b"ok"], ["ok"]),
    ],
    ids=["two of three", "three of four", "one of two", "complete"],
)
def test_an_incomplete_character_at_the_end_is_replaced(expect, chunks, right):
    """A length limit can cut a character: one mark says so, where silence would hide it."""
    expect(utf8_pieces, chunks).equals(iter(right))


@pytest.mark.kata("level01.streaming.utf8_pieces")
def test_nothing_to_say_is_not_said(expect):
    """An empty event on the wire is traffic for nothing; an empty chunk inside of a character does not end it."""
    expect(utf8_pieces, [b"", b"\xe2", b"", b"\x82", b"", b"\xac", b""]).equals(iter(["€"]))
    expect(utf8_pieces, [b"", b""]).equals(iter([]))
    expect(utf8_pieces, []).equals(iter([]))


def every_cut_decoded(data):
    return {" | ".join(chunk.hex(" ") for chunk in chunks): list(utf8_pieces(chunks)) for chunks in cuts(data)}


@pytest.mark.kata("level01.streaming.utf8_pieces")
@pytest.mark.parametrize(
    "data",
    ["aé€🙂".encode(), "é\u0301🏳\u200d".encode(), b"\x80a\xff\xc0\xaf\xe2\x28\xa1", b"\xe2\x82\xf0\x9f\x99\xc3\xe2\x82"]
    + [b"\xf0\x80\x80a\xe0\x9f\xbf\xf4", b"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"],
    ids=["one to four bytes", "joined", "invalid", "cut short", "overlong", "borders"],
)
def test_any_cut_of_the_bytes_gives_each_character_as_early_as_can_be(expect, data):
    """Oracle: all bytes so far, decoded at once, but for a tail that begins some character of Unicode."""
    right = {" | ".join(chunk.hex(" ") for chunk in chunks): decoded(chunks) for chunks in cuts(data)}
    expect(every_cut_decoded, data).equals(right)


def each_decoded(streams):
    return [list(utf8_pieces(chunks)) for chunks in streams]


# Python's own decoder waits for the third byte of a surrogate, which can't become a character: tested by its text alone
SECOND = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xE2, 0xFF)
PAIRS = [bytes(pair) for pair in product(range(0x7E, 0x100), SECOND)]


@pytest.mark.kata("level01.streaming.utf8_pieces")
def test_every_first_byte_with_every_kind_of_second(expect):
    """Which second bytes are allowed depends on the first, for E0, ED, F0 and F4. Oracle: as before."""
    streams = [[pair[:1], pair[1:], b"a"] for pair in PAIRS if not b"\xed\xa0" <= pair <= b"\xed\xbf"]
    expect(each_decoded, streams).equals([decoded(chunks) for chunks in streams])


def joined_cuts(data):
    return {"".join(utf8_pieces(chunks)) for chunks in cuts(data)}


@pytest.mark.kata("level01.streaming.utf8_pieces")
@pytest.mark.parametrize(
    "data", [b"a\xed\xa0\x80b", b"\xed\xbf\xbf\xe2\x82\xac", b"\xed\xa0", b"\xed\xa0\xbd\xed\xb8\x80"]
)
def test_surrogates_are_no_characters(expect, data):
    """Half of a UTF-16 pair in the text would fail later, where it is sent. Oracle: all bytes decoded at once."""
    expect(joined_cuts, data).equals({data.decode(errors="replace")})


def order_of_events(chunks):
    events = []

    def source():
        for chunk in chunks:
            events.append(f"asks for {chunk}")
            yield chunk
        events.append("asks in vain")

    for text in utf8_pieces(source()):
        events.append(f"gives {text}")
    return events


@pytest.mark.kata("level01.streaming.utf8_pieces")
def test_text_is_given_before_the_next_chunk_is_asked_for(expect):
    """Asking takes as long as the model needs for a token: whoever asks first shows every text a token late."""
    right = ["asks for b'a'", "gives a", "asks for b'b\\xc3'", "gives b", "asks for b'\\xa9'", "gives é"]
    right += ["asks for b'\\xe2'", "asks in vain", "gives \ufffd"]
    expect(order_of_events, [b"a", b"b\xc3", b"\xa9", b"\xe2"]).equals(right)


def taken_in_turn(*streams):
    streams = [iter(utf8_pieces(chunks)) for chunks in streams]
    return [[next(stream, None) for stream in streams] for _ in range(3)]


@pytest.mark.kata("level01.streaming.utf8_pieces")
def test_two_streams_do_not_share_their_bytes(expect):
    """A server decodes many at a time: half a character of one must not meet the half of another."""
    right = [["a", "b"], ["é", "ü"], [None, "\ufffd"]]
    expect(taken_in_turn, [b"a\xc3", b"\xa9"], [b"b\xc3", b"\xbc\xe2"]).equals(right)


@pytest.mark.kata("level01.streaming.utf8_pieces")
def test_a_long_stream_and_a_long_chunk(expect):
    """One yield for a chunk, however many characters it has; and 3,000 chunks are an ordinary answer."""
    expect(utf8_pieces, [b"x" * 70_000 + b"\xe2", b"\x82\xac" + "é".encode() * 9]).equals(
        iter(["x" * 70_000, "€" + "é" * 9])
    )
    expect(each_decoded, [["é".encode()[i % 2 :][:1] for i in range(6000)]]).equals([["é"] * 3000])
