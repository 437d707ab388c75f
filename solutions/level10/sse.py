"""Server-sent events: how a stream of answers is cut on the wire, and how a client puts it together again."""

import json


def sse_event(payload: dict | str) -> bytes:
    """Return one event: `data: ` and the payload on one line, then an empty line; lines end with a line feed.

    payload  a dict becomes compact JSON (no spaces between its parts); a string without line breaks stays as it is

    A line break in a text of the dict must not break the line: JSON writes it as backslash n.
    Example: {"a": 1} -> b'data: {"a":1}\\n\\n'; "[DONE]" -> b"data: [DONE]\\n\\n".

    ● · about 2 lines · part of SSEParser
    """
    # solution:begin one line of data, one empty line
    text = payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))
    return f"data: {text}\n\n".encode()
    # solution:end


class SSEParser:
    """Finds the events in a stream of bytes, however the network has cut it.

    feed(chunk)  takes the next bytes, and returns the data of the events that they complete, a list of str; b"" too

    A line ends with a line feed, with or without a carriage return before it; an empty line ends an event. What stands
    before a line's first colon is its field, what stands behind it the value, without one space if it starts with one;
    a line without a colon is a field whose value is empty.
    The values of an event's `data` fields are joined with "\\n". Every other field, and a line that begins with a colon
    (a comment, to keep the connection alive), is skipped; an event without a data field is none. Text is UTF-8. An
    event whose empty line has not come yet is kept for the next call. A stream may be fed in pieces of any size.
    Example: feed(b'data: {"a"') -> []; feed(b':1}\\n\\ndata: [D') -> ['{"a":1}'].
    Out of scope: lines that end with a lone carriage return. WHATWG HTML, section 9.2.

    ●● · about 10 lines
    """

    def __init__(self):
        self.rest = b""  # of a line that is not complete
        self.data: list[bytes] = []  # of the event that is not complete

    def feed(self, chunk: bytes) -> list[str]:
        # solution:begin whole lines only; what does each of them say?
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        events = []
        for line in lines:
            field, _, value = line.removesuffix(b"\r").partition(b":")
            if field == b"data":
                self.data.append(value.removeprefix(b" "))
            # subtle: the line is empty, not its field alone: a comment has no field either
            elif line in (b"", b"\r") and self.data:
                events.append(b"\n".join(self.data).decode("utf-8", "replace"))
                self.data = []
        return events
        # solution:end
