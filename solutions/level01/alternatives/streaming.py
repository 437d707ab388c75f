"""Right programs, written another way, for level01.streaming. `alternative` is given when this is read."""


def _searches_the_whole_text(self, piece):
    """Keeps all text and searches it anew for every piece, backwards from the end for what to hold."""
    if self.stopped:
        return ""
    self.text, before = getattr(self, "text", "") + piece, getattr(self, "shown", 0)
    places = sorted((at + len(stop), at) for stop in self.stops if (at := self.text.find(stop)) >= 0)
    self.stopped, end = bool(places), len(self.text)
    hold = max((n for stop in self.stops for n in range(1, len(stop)) if self.text.endswith(stop[:n])), default=0)
    self.shown = places[0][1] if places else end - hold
    self.held = "" if places else self.text[self.shown :]
    return self.text[before : self.shown]


class _Automaton:
    """Letter by letter: how much of each stop string has been matched, from each place where it may have begun."""

    __module__, __qualname__ = "level01.streaming", "StopStrings"  # pickled as what it stands for

    def __init__(self, stops):
        self._stops = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(self._stops):
            raise ValueError("a stop string has at least one letter")
        self._tail, self._live, self._ended = [], [], False

    @property
    def stopped(self):
        return self._ended

    def feed(self, piece):
        shown = []
        for letter in piece:
            if self._ended:
                break
            self._tail.append(letter)
            grown = [(stop, n + 1) for stop, n in (*self._live, *((s, 0) for s in self._stops)) if stop[n] == letter]
            longest = max((n for stop, n in grown if n == len(stop)), default=0)
            self._live = [(stop, n) for stop, n in grown if n < len(stop)]
            keep = longest or max((n for _, n in self._live), default=0)
            shown += self._tail[: len(self._tail) - keep]
            self._tail = [] if longest else self._tail[len(self._tail) - keep :]
            self._ended = longest > 0
        return "".join(shown)

    def flush(self):
        rest = "".join(self._tail)
        self._tail.clear()
        return rest


def _by_regular_expressions(self, piece):
    """Patterns find whole stop strings, another one what begins at the end: the leftmost match is the longest."""
    import re

    if self.stopped or not self.stops:
        return "" if self.stopped else piece
    text, self.held = self.held + piece, ""
    matches = [found for stop in self.stops if (found := re.search(re.escape(stop), text))]
    if first := min(matches, key=lambda found: (found.end(), found.start()), default=None):
        self.stopped = True
        return text[: first.start()]
    nested = ["".join(f"(?:{re.escape(c)}" for c in stop[:-1]) + ")?" * (len(stop) - 1) for stop in self.stops]
    tail = re.search("|".join(rf"(?:{pattern})\Z" for pattern in nested), text)
    self.held = text[tail.start() :]
    return text[: tail.start()]


alternative("level01.streaming.StopStrings", "whole_text", part="StopStrings.feed", program=_searches_the_whole_text)
alternative("level01.streaming.StopStrings", "automaton", program=_Automaton)
alternative("level01.streaming.StopStrings", "patterns", part="StopStrings.feed", program=_by_regular_expressions)


def _by_iterdecode(chunks):
    from codecs import iterdecode

    return iterdecode(chunks, "utf-8", errors="replace")


def _by_the_table(chunks):
    """Table 3-7 of the Unicode standard, byte by byte: a surrogate's bytes are replaced with the second of them."""
    second = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
    code, missing, low, high = 0, 0, 0x80, 0xBF
    for chunk in chunks:
        text = ""
        for byte in chunk:
            if missing:
                if low <= byte <= high:
                    code, missing, low, high = code << 6 | byte & 0x3F, missing - 1, 0x80, 0xBF
                    text += "" if missing else chr(code)
                    continue
                text, missing = text + "\ufffd", 0
            if byte < 0x80:
                text += chr(byte)
            elif 0xC2 <= byte <= 0xF4:
                missing = 1 + (byte >= 0xE0) + (byte >= 0xF0)
                code = byte & (0x3F >> missing)
                low, high = second.get(byte, (0x80, 0xBF))
            else:
                text += "\ufffd"
        if text:
            yield text
    if missing:
        yield "\ufffd"


def _by_the_error(chunks):
    """The exception of a strict decoder says whether the end was unexpected."""
    rest = b""
    for chunk in chunks:
        rest, text = rest + chunk, ""
        while rest:
            try:
                text, rest = text + rest.decode(), b""
            except UnicodeDecodeError as error:
                text, rest = text + rest[: error.start].decode(), rest[error.start :]
                if error.reason == "unexpected end of data":
                    break
                text, rest = text + "\ufffd", rest[error.end - error.start :]
        if text:
            yield text
    if rest:
        yield rest.decode(errors="replace")


alternative("level01.streaming.utf8_pieces", "iterdecode", program=_by_iterdecode)
alternative("level01.streaming.utf8_pieces", "by_the_table", program=_by_the_table)
alternative("level01.streaming.utf8_pieces", "by_the_error", program=_by_the_error)
