"""Judges sse.py by streams whose events, and the byte with which each is complete, are known as they are written.

JSON is read by the json module. A stream is cut into two and three reads in every way, and into single bytes.
"""

import json
import random
from itertools import combinations_with_replacement

import pytest

from level10.sse import SSEParser, sse_event


def fed(*chunks):
    """What each read brings."""
    parser = SSEParser()
    return [parser.feed(chunk) for chunk in chunks]


# ---- sse_event, judged with SSEParser


@pytest.mark.kata("level10.sse.SSEParser")
def test_an_event_is_one_line_of_data_and_an_empty_one(expect):
    """Without the empty line no client sees the event. The docstring's examples, in bytes."""
    expect(sse_event, {"a": 1}).equals(b'data: {"a":1}\n\n')
    expect(sse_event, "[DONE]").equals(b"data: [DONE]\n\n")
    expect(sse_event, {"a": None, "b": [True, {"c": "d"}], "e": 0.5}).equals(
        b'data: {"a":null,"b":[true,{"c":"d"}],"e":0.5}\n\n'
    )
    expect(sse_event, {}).equals(b"data: {}\n\n")
    expect(sse_event, "é, {a: 1}").equals("data: é, {a: 1}\n\n".encode())
    expect(sse_event, "").equals(b"data: \n\n")
    expect(sse_event, " a  ").equals(b"data:  a  \n\n")


def decoded(payload):
    """The lines of an event, and what JSON says that its data are."""
    lines = sse_event(payload).split(b"\n")
    return lines[0][:6], json.loads(lines[0][6:]), lines[1:]


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize(
    "text", ["a\nb", "a\n\nb", "\r\n", '"\\n"', "é 😀", "a, b: c", "\ufffd\u2028\x85", "\t\x00'", ""]
)
def test_a_text_of_any_characters_stays_on_one_line(expect, text):
    """A line break within the text would end the line of data, and two of them the event. Oracle: the json module."""
    payload = {"text": text, text: [text]}
    expect(decoded, payload).equals((b"data: ", payload, [b"", b""]))


# ---- SSEParser


@pytest.mark.kata("level10.sse.SSEParser")
def test_an_event_is_complete_with_its_empty_line(expect):
    """A read is what the network had at that moment: half an event, or three of them. The docstring's example first;
    an event whose empty line never comes is not handed out."""
    expect(fed, b'data: {"a"', b":1}\n\ndata: [D").equals([[], ['{"a":1}']])
    expect(fed, b'data: {"a"', b":1}\n", b"\ndata: [DONE]\n\n").equals([[], [], ['{"a":1}', "[DONE]"]])
    expect(fed, b"data: 1\n\ndata: 1\n\ndata: 3\n\ndata: un").equals([["1", "1", "3"]])
    expect(fed, b"data: 1\n", b"data: 2\n", b"\n").equals([[], [], ["1\n2"]])
    expect(fed, b"data: un\n").equals([[]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_a_comment_is_skipped(expect):
    """Servers send lines like ": ping" while nothing happens, so that no proxy hangs up. One within an event is part
    of nothing: it neither ends the event nor adds to it."""
    expect(fed, b": ping\n\ndata: 1\n\n").equals([["1"]])
    expect(fed, b"data: 1\n: ping\ndata: 2\n:\n\n").equals([["1\n2"]])
    expect(fed, b":data: 0\n:\n\n", b"data: 1\n", b":\r\n", b"\n").equals([[], [], [], ["1"]])


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize(
    "line, data",
    [
        (b"data: x", "x"),
        (b"data:x", "x"),
        (b"data:  x", " x"),
        (b"data: x  ", "x  "),
        (b"data:\tx", "\tx"),
        (b"data: a: b:c", "a: b:c"),
        (b"data: :", ":"),
        (b"data: data: x", "data: x"),
        (b"data: [DONE]", "[DONE]"),
        (b"data:", ""),
        (b"data: ", ""),
        (b"data", ""),
    ],
)
def test_the_value_follows_the_first_colon_and_one_space(expect, line, data):
    """That space is optional, and only the first goes away: the others belong to the text, as in " is"."""
    expect(fed, line + b"\n\n").equals([[data]])
    expect(fed, line + b"\r\n", b"\r\n").equals([[], [data]])


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize("line", [b"event: x", b"id: 7", b"retry: 9", b"id", b"x: data: 1", b" "])
def test_other_fields_are_no_data(expect, line):
    """Some servers name their events or number them; an event that has nothing but such fields is none."""
    expect(fed, b"data: 1\n" + line + b"\ndata: 2\n\n").equals([["1\n2"]])
    expect(fed, line + b"\n\ndata: 1\n\n" + line + b"\n\n").equals([["1"]])


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize("line", [b"database: 1", b"Data: 1", b" data: 1", b"data : 1", b"metadata: 1", b"data2", b"d"])
def test_a_field_has_that_very_name(expect, line):
    """A name that only looks like "data" is another field."""
    expect(fed, line + b"\n\ndata: 2\n" + line + b"\n\n").equals([["2"]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_values_of_one_event_are_joined(expect):
    """A text with line breaks comes in several lines of data; an empty one among them is a line as well."""
    expect(fed, b"data: a\ndata:\ndata: b\n\n").equals([["a\n\nb"]])
    expect(fed, b"data: a\ndata\n\ndata\ndata:\n\n").equals([["a\n", "\n"]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_empty_lines_alone_are_no_event(expect):
    """Nothing was said between them."""
    expect(fed, b"\n\n\n", b"\r\n\r\n", b"data: 1\n\n\n\n", b"\n", b"data: 2\n\n").equals([[], [], ["1"], [], ["2"]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_lines_may_end_with_a_carriage_return_too(expect):
    """HTTP's own line ends; a stream may mix both, and the cut may fall between the two characters."""
    expect(fed, b"data: x\r\n\r\ndata:y\r\n\r\n").equals([["x", "y"]])
    expect(fed, b"data: x\r", b"\n\r", b"\ndata: y\n", b"\r\n").equals([[], [], ["x"], ["y"]])
    expect(fed, b"data: x\r\n\ndata: y\n\r\n: c\r\n\r\n").equals([["x", "y"]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_only_a_line_feed_ends_a_line(expect):
    """str.splitlines knows ten line ends; a server that leaves U+2028 or U+0085 unescaped in its JSON is right."""
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    expect(fed, f"data: {text}\n\n".encode()).equals([[text]])


@pytest.mark.kata("level10.sse.SSEParser")
def test_a_line_may_be_longer_than_any_read(expect):
    """A prompt of 100 kB comes back in one event, if its client asked for it, and a read has less."""
    text, size = "0123456789" * 10_000, 30_000
    stream = f"data: {text}\n\n".encode()
    reads = [stream[i : i + size] for i in range(0, len(stream), size)]
    expect(longest, *reads).equals([[], [], [], [(100_000, text[-9:])]])


def longest(*reads):
    """Length and end of each event."""
    return [[(len(text), text[-9:]) for text in events] for events in fed(*reads)]


@pytest.mark.kata("level10.sse.SSEParser")
def test_an_empty_read_changes_nothing(expect):
    """It ends neither the line nor the event."""
    expect(fed, b"", b"data: 1", b"", b"2\n", b"", b"\n", b"").equals([[], [], [], [], [], ["12"], []])


# (bytes, the data that is complete with them)
BLOCKS = [
    (b": hi\n\n", []),
    ('data: {"t":"😀é"}\n\n'.encode(), ['{"t":"😀é"}']),
    (b"event: x\nid\n\n", []),
    ("data:  ü\n: no\ndata\ndatax: q\ndata:b\n\n".encode(), [" ü\n\nb"]),
    (b"data: [DONE]\n\n", ["[DONE]"]),
]


def ended(blocks, line_end):
    return [(block.replace(b"\n", line_end), data) for block, data in blocks]


def all_cuts(stream, reads):
    """Every different list of events that some cut into so many reads gives."""
    found = set()
    for cut in combinations_with_replacement(range(len(stream) + 1), reads - 1):
        parser, ends = SSEParser(), [0, *cut, len(stream)]
        found.add(tuple(event for start, end in zip(ends, ends[1:]) for event in parser.feed(stream[start:end])))
    return sorted(found)


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize("reads", [2, 3])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_no_cut_changes_the_events(expect, line_end, reads):
    """Oracle: the stream is made of known blocks, and cut in every way into two and three reads: within a field, a
    character, a line end, an empty line."""
    stream = b"".join(block for block, _ in ended(BLOCKS[1:], line_end))
    right = tuple(data for _, events in BLOCKS for data in events)
    expect(all_cuts, stream, reads).equals([right])


def events_by_first_read(stream):
    """How many events the first of two reads brings, for each of its lengths; and how many both bring."""
    pairs = [fed(stream[:size], stream[size:]) for size in range(len(stream) + 1)]
    return [len(first) for first, _ in pairs], {len(first) + len(second) for first, second in pairs}


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_an_event_comes_with_the_read_that_completes_it(expect, line_end):
    """A token that waits for the next read is a token late. Oracle: the last byte of each block, by its length."""
    blocks = ended(BLOCKS, line_end)
    stream = b"".join(block for block, _ in blocks)
    at = [sum(len(block) for block, _ in blocks[: i + 1]) for i, (_, events) in enumerate(blocks) if events]
    right = [sum(end <= size for end in at) for size in range(len(stream) + 1)]
    expect(events_by_first_read, stream).equals((right, {3}))


def byte_by_byte(stream):
    return [event for events in fed(*(stream[i : i + 1] for i in range(len(stream)))) for event in events]


@pytest.mark.kata("level10.sse.SSEParser")
@pytest.mark.parametrize("seed", range(6))
def test_random_streams_of_single_bytes(expect, seed):
    """Events of random fields, with either line end. Oracle: what was written into them."""
    rng = random.Random(seed)
    stream, right = b"", []
    for _ in range(40):
        values = []
        for _ in range(rng.randrange(4)):
            field = rng.choice(["data", "data", "data", "", "id", "dat"])
            value = "".join(rng.choices("a: é😀\u2028", k=rng.randrange(5)))
            stream += f"{field}:{rng.choice(['', ' ']) if value[:1] != ' ' else ' '}{value}".encode()
            stream += rng.choice([b"\n", b"\r\n"])
            values += [value] if field == "data" else []
        stream += rng.choice([b"\n", b"\r\n"])
        right += ["\n".join(values)] if values else []
    expect(byte_by_byte, stream).equals(right)


def two_streams():
    first, second = SSEParser(), SSEParser()
    reads = [(first, b"data: 1\nda"), (second, b"data: 2"), (first, b"ta: 3\n\n"), (second, b"4\n\n"), (first, b"\n")]
    return [parser.feed(chunk) for parser, chunk in reads]


@pytest.mark.kata("level10.sse.SSEParser")
def test_two_streams_share_nothing(expect):
    """A load generator reads hundreds of streams at the same time."""
    expect(two_streams).equals([[], [], ["1\n3"], ["24"], []])


def through_both(payloads):
    return byte_by_byte(b"".join(sse_event(payload) for payload in payloads))


@pytest.mark.kata("level10.sse.SSEParser")
def test_what_the_server_writes_the_client_reads(expect):
    """Many events in one stream, in single bytes: each comes back as it was meant."""
    payloads = [{"t": "\n\n"}, "[DONE]", {"t": "data: x"}, "", {"n": -1}, "x"]
    right = ['{"t":"\\n\\n"}', "[DONE]", '{"t":"data: x"}', "", '{"n":-1}', "x"]
    expect(through_both, payloads).equals(right)
