"""Right programs, written another way, for level10.sse. `alternative` is given when this is read."""

import json
import re

# ---- sse_event


def _by_bytes(payload):
    if isinstance(payload, dict):
        payload = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return b"data: " + payload.encode("utf-8") + b"\n" * 2


def _by_an_encoder(payload):
    encoder = json.JSONEncoder(separators=(",", ":"), sort_keys=True)
    text = encoder.encode(payload) if not isinstance(payload, str) else payload
    return b"\n".join([("data: " + text).encode(), b"", b""])


for program in (_by_bytes, _by_an_encoder):
    alternative("level10.sse.SSEParser", program.__name__[1:], program=program, part="sse_event")

# ---- feed


def _events_first(self, chunk):
    """Cut at the empty lines, then each event into its lines; all that is not complete is kept as it came."""
    self.rest += chunk
    events = []
    while found := re.search(rb"(?:^|\n)\r?\n", self.rest):
        block, self.rest = self.rest[: found.start()], self.rest[found.end() :]
        values = []
        for line in block.split(b"\n"):
            name, _, value = line.removesuffix(b"\r").partition(b":")
            if name == b"data":
                values.append(value[1:] if value[:1] == b" " else value)
        if values:
            events.append(b"\n".join(values).decode())
    return events


def _byte_by_byte(self, chunk):
    """A line grows until its line feed has come."""
    events = []
    for byte in chunk:
        if byte != 10:
            self.rest += bytes([byte])
            continue
        line, self.rest = self.rest, b""
        if line.endswith(b"\r"):
            line = line[:-1]
        if line == b"":
            if self.data:
                events.append("\n".join(value.decode() for value in self.data))
            self.data = []
        elif line == b"data":
            self.data.append(b"")
        elif line.startswith(b"data: "):
            self.data.append(line[6:])
        elif line.startswith(b"data:"):
            self.data.append(line[5:])
    return events


def _by_a_pattern(self, chunk):
    """One pattern for all lines that mean something; the position of the last one says what is left."""
    stream, done, events = self.rest + chunk, 0, []
    for line in re.finditer(rb"(?m)^(?:(?P<data>data)(?:: ?(?P<value>[^\n]*?))?|[^\n]*?)\r?\n", stream):
        done = line.end()
        if line["data"]:
            self.data.append((line["value"] or b"").decode())
        elif line[0] in (b"\n", b"\r\n") and self.data:
            events.append("\n".join(self.data))
            self.data.clear()
    self.rest = stream[done:]
    return events


class _Generator:
    """A coroutine that takes chunks and gives lists of events."""

    __module__, __qualname__ = "level10.sse", "SSEParser"  # pickled as what it stands for

    def __init__(self):
        self._parser = self._parse()
        next(self._parser)

    def feed(self, chunk):
        return self._parser.send(chunk)

    @staticmethod
    def _parse():
        import codecs

        decoder, rest, event, events = codecs.getincrementaldecoder("utf-8")(), "", None, []
        while True:
            rest += decoder.decode((yield events))
            events = []
            while (end := rest.find("\n")) >= 0:
                line, rest = rest[:end], rest[end + 1 :]
                line = line[:-1] if line[-1:] == "\r" else line
                if not line:
                    events += [] if event is None else [event]
                    event = None
                    continue
                name, *value = line.split(":", 1)
                if name == "data":
                    text = "".join(value)
                    text = text[1:] if text.startswith(" ") else text
                    event = text if event is None else event + "\n" + text


for program in (_events_first, _byte_by_byte, _by_a_pattern):
    alternative("level10.sse.SSEParser", program.__name__[1:], program=program, part="SSEParser.feed")
alternative("level10.sse.SSEParser", "a_generator", program=_Generator)
