"""Known-wrong programs of level01.streaming. `ghost` is given when this is read."""

ghost(
    "level01.streaming.StopStrings",
    "piece_by_piece",
    "A stop string can be spread over several pieces: what ends with the beginning of one must be held back.",
    change=[("text = self.held + piece", "text = piece"), ("hold = next(sizes, 0)", "hold = 0")],
)
ghost(
    "level01.streaming.StopStrings",
    "searches_the_newest_piece",
    "Look for the stop string in what is held and the new piece together: half of it came before.",
    change=("if stop in text]", "if stop in piece]"),
)
ghost(
    "level01.streaming.StopStrings",
    "first_listed",
    "Cut before the stop string that stands first in the text, not before the one that is listed first.",
    change=("return text[: min(found)[1]]", "return text[: found[0][1]]"),
)
ghost(
    "level01.streaming.StopStrings",
    "earliest_beginning",
    "The stop string that is complete first ends the answer, or the cut decides: in abcd, bc is complete before abcd.",
    change=("min(found)[1]", "min(start for _, start in found)"),
)
ghost(
    "level01.streaming.StopStrings",
    "last_in_the_text",
    "Of several places cut at the earliest: everything after the first stop string is not meant for the user.",
    change=("return text[: min(found)[1]]", "return text[: max(start for _, start in found)]"),
)
ghost(
    "level01.streaming.StopStrings",
    "last_occurrence",
    "A stop string may occur twice in a piece: cut at the first occurrence (find, not rfind).",
    change=("len(stop), text.find(stop))", "len(stop), text.rfind(stop))"),
)
ghost(
    "level01.streaming.StopStrings",
    "only_at_the_end",
    "A stop string can stand in the middle of a piece: a token does not end where it ends.",
    change=(
        "[(text.find(stop) + len(stop), text.find(stop)) for stop in self.stops if stop in text]",
        "[(len(text), len(text) - len(stop)) for stop in self.stops if text.endswith(stop)]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "shows_the_stop",
    "The stop string itself is not shown: the text ends before it.",
    change=("min(found)[1]", "min(found)[0]"),
    convention=True,
)
ghost(
    "level01.streaming.StopStrings",
    "swallows_the_text_before",
    "The piece that holds the stop string may begin with text that belongs to the answer: show it.",
    change=("return text[: min(found)[1]]", 'return ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_everything",
    "Hold back only what may be the beginning of a stop string; the rest is shown at once, or it is no stream.",
    change=("hold = next(sizes, 0)", "hold = len(text) if self.stops else 0"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_a_fixed_number",
    "Hold back a tail only while some stop string begins with it; the length of a stop string less one is too much.",
    change=("hold = next(sizes, 0)", "hold = min(longest, len(text))"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_any_part",
    "A tail is held if a stop string begins with it; that it occurs somewhere inside of one does not matter.",
    change=("any(stop.startswith(tail) for", "any(tail in stop for"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_the_shortest_tail",
    "Hold the longest tail that a stop string begins with: with aab and text aa both letters, not the last one.",
    change=("range(min(longest, len(text)), 0, -1)", "range(1, min(longest, len(text)) + 1)"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_the_whole_text_or_nothing",
    "The beginning of a stop string can follow other text in its piece: try every tail, not the whole text alone.",
    change=("hold = next(sizes, 0)", "hold = len(text) if text and self._begins_a_stop(text) else 0"),
)
ghost(
    "level01.streaming.StopStrings",
    "one_letter_too_few",
    "All letters of a stop string but the last must be held: your longest tail is one letter short.",
    change=("default=1) - 1", "default=2) - 2"),
)
ghost(
    "level01.streaming.StopStrings",
    "as_long_as_the_shortest",
    "How much may have to be held is decided by the longest stop string, not by the shortest.",
    change=("max(map(len, self.stops), default=1)", "min(map(len, self.stops), default=1)"),
)
ghost(
    "level01.streaming.StopStrings",
    "watches_one_stop",
    "Every stop string may begin at the end of the text, not only the first of the list.",
    change=(
        "any(stop.startswith(tail) for stop in self.stops)",
        "any(stop.startswith(tail) for stop in self.stops[:1])",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "drops_what_was_held",
    "What was held and did not become a stop string belongs to the answer: show it before the new text.",
    change=(
        "shown, self.held = text[: len(text) - hold], text[len(text) - hold :]",
        "shown, self.held = text[len(self.held) : len(text) - hold], text[len(text) - hold :]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "loses_the_tail",
    "At the end of the stream no more can come, so the tail was innocent: flush returns it.",
    change=('shown, self.held = self.held, ""', 'shown, self.held = "", ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "flushes_again",
    "flush empties what it returns: a second call would show the tail twice.",
    change=('shown, self.held = self.held, ""', "shown = self.held"),
)
ghost(
    "level01.streaming.StopStrings",
    "flushes_half_a_stop",
    "After a stop nothing is left to flush: the tail that was held is part of the stop string.",
    change=('self.stopped, self.held = True, ""', "self.stopped = True"),
)
ghost(
    "level01.streaming.StopStrings",
    "goes_on_after_the_stop",
    "Once stopped, feed returns nothing more, whatever still comes.",
    change=("if self.stopped:", "if False:"),
)
ghost(
    "level01.streaming.StopStrings",
    "never_says_so",
    "stopped must become True, or the engine goes on making tokens that nobody sees.",
    change=('self.stopped, self.held = True, ""', 'self.stops, self.held = [""], ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "waits_for_the_longest",
    "A complete stop string ends the answer now, even if a longer one may still be on its way.",
    change=(
        "if found:",
        "if found and not any(len(stop) > n and stop.startswith(text[-n:]) for stop in self.stops for n in range(1, len(text) + 1)):",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "ignores_case",
    "Compare letters as they are: end does not stop where END is asked for.",
    change=(
        "[(text.find(stop) + len(stop), text.find(stop)) for stop in self.stops if stop in text]",
        "[(0, text.lower().find(stop.lower())) for stop in self.stops if stop.lower() in text.lower()]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "strips",
    "Spaces and line ends are text like any other: do not strip pieces.",
    change=("text = self.held + piece", "text = self.held + piece.strip()"),
)


def _as_pattern(self, piece):
    import re

    if self.stopped:
        return ""
    text = self.held + piece
    if self.stops and (found := re.search("|".join(self.stops).replace("(", "[(]"), text)):
        self.stopped, self.held = True, ""
        return text[: found.start()]
    tails = (n for n in range(len(text), 0, -1) if any(s.startswith(text[-n:]) for s in self.stops))
    hold = next(tails, 0)
    self.held = text[len(text) - hold :]
    return text[: len(text) - hold]


ghost(
    "level01.streaming.StopStrings",
    "a_pattern",
    "A stop string is no regular expression: a dot in it is a dot. re.escape makes one of it.",
    part="StopStrings.feed",
    program=_as_pattern,
)


def _restarts(self, piece):
    """Counts matched letters, and starts anew from 0 where a letter does not fit."""
    shown = ""
    for letter in piece:
        if self.stopped:
            break
        if any(stop.startswith(self.held + letter) for stop in self.stops):
            self.held += letter
        else:
            fits = any(stop.startswith(letter) for stop in self.stops)
            shown, self.held = shown + self.held + ("" if fits else letter), letter if fits else ""
        if self.held in self.stops:
            self.stopped, self.held = True, ""
    return shown


ghost(
    "level01.streaming.StopStrings",
    "starts_anew",
    "When a letter does not fit, the stop string may still have begun inside of what is held: aaab contains aab.",
    part="StopStrings.feed",
    program=_restarts,
)
ghost(
    "level01.streaming.StopStrings",
    "one_text_for_all",
    "Keep the held text in the object, not in the class: two requests would read each other's.",
    change=[
        ('        self.held = ""  #', '        type(self).held = ""  #'),
        (
            "shown, self.held = text[: len(text) - hold], text[len(text) - hold :]",
            "shown, type(self).held = text[: len(text) - hold], text[len(text) - hold :]",
        ),
        ('self.stopped, self.held = True, ""', 'self.stopped, type(self).held = True, ""'),
        ('shown, self.held = self.held, ""', 'shown, type(self).held = self.held, ""'),
    ],
)
ghost(
    "level01.streaming.utf8_pieces",
    "each_chunk_alone",
    "Keep an incomplete character until its last byte has come: decoded alone, each part becomes U+FFFD.",
    change=("decoder.decode(chunk)", 'chunk.decode(errors="replace")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "drops_bytes",
    "Invalid bytes are replaced with U+FFFD, so that they can be seen, not ignored.",
    change=('errors="replace"', 'errors="ignore"'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "strict",
    "A model can emit bytes that are no text: replace them, do not raise.",
    change=('errors="replace"', 'errors="strict"'),
)


def _waits_for_ever(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        try:
            text, held = held.decode(), b""
        except UnicodeDecodeError:
            continue
        if text:
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "waits_for_ever",
    "Only an incomplete character is worth waiting for; an invalid byte never becomes one, and text behind it waits too.",
    program=_waits_for_ever,
)


def _shows_whole_chunks(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        if "\ufffd" not in (text := held.decode(errors="replace")) or len(held) > 3 + len(chunk):
            held = b""
            if text:
                yield text
    if held:
        yield held.decode(errors="replace")


def _waits_for_a_clean_end(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        text = held.decode(errors="replace")
        if text and not text.endswith("\ufffd"):
            held = b""
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "waits_for_a_clean_end",
    "U+FFFD at the end is no proof that more will come: the byte may be invalid, or the text may hold that very character.",
    program=_waits_for_a_clean_end,
)
ghost(
    "level01.streaming.utf8_pieces",
    "holds_the_whole_chunk",
    "Hold the incomplete character alone: the complete ones before it in the chunk can be shown.",
    program=_shows_whole_chunks,
)
ghost(
    "level01.streaming.utf8_pieces",
    "bytes_are_letters",
    "A byte is not a character: é is two of them, an emoji four.",
    change=('getincrementaldecoder("utf-8")', 'getincrementaldecoder("latin-1")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "eats_the_byte_order_mark",
    "U+FEFF is a character of the text like any other: utf-8-sig removes it.",
    change=('getincrementaldecoder("utf-8")', 'getincrementaldecoder("utf-8-sig")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "yields_nothing_to_say",
    "Do not yield an empty string: a chunk may complete no character.",
    change=(
        "        if text := decoder.decode(chunk):\n            yield text\n",
        "        yield decoder.decode(chunk)\n",
    ),
)
ghost(
    "level01.streaming.utf8_pieces",
    "loses_the_end",
    "An incomplete character at the end of the stream is replaced, not forgotten: tell the decoder that it is the end.",
    change=("final=True", "final=False"),
)
ghost(
    "level01.streaming.utf8_pieces",
    "always_a_mark_at_the_end",
    "Add U+FFFD at the end only if a character is incomplete there.",
    change=('if text := decoder.decode(b"", final=True):', 'if text := decoder.decode(b"", final=True) or "\\ufffd":'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "a_mark_for_each_byte",
    "One U+FFFD for the incomplete character at the end, not one for each of its bytes.",
    change=(
        'if text := decoder.decode(b"", final=True):',
        'if text := "\\ufffd" * len(decoder.getstate()[0]):',
    ),
)
ghost(
    "level01.streaming.utf8_pieces",
    "collects_first",
    "Yield a chunk's text before asking for the next: joined first, the stream comes when it is over.",
    change=("for chunk in chunks:", "for chunk in list(chunks):"),
)


def _one_chunk_late(chunks):
    from codecs import getincrementaldecoder

    decoder, waiting = getincrementaldecoder("utf-8")("replace"), ""
    for chunk in chunks:
        if waiting:
            yield waiting
        waiting = decoder.decode(chunk)
    if waiting:
        yield waiting
    if text := decoder.decode(b"", True):
        yield text


ghost(
    "level01.streaming.utf8_pieces",
    "one_chunk_late",
    "A complete character need not wait for the next chunk: yield it with the chunk that completes it.",
    program=_one_chunk_late,
)
ghost(
    "level01.streaming.utf8_pieces",
    "letter_by_letter",
    "One yield for a chunk: yield its text as a whole, not each character.",
    change=(
        "        if text := decoder.decode(chunk):\n            yield text\n",
        "        yield from decoder.decode(chunk)\n",
    ),
    convention=True,
)
ghost(
    "level01.streaming.utf8_pieces",
    "a_new_decoder_for_each_chunk",
    "Make the decoder once, before the loop: what it holds is lost with it.",
    change=(
        "for chunk in chunks:\n",
        'for chunk in chunks:\n        decoder = getincrementaldecoder("utf-8")(errors="replace")\n',
    ),
)


def _held(chunks, incomplete):
    held = b""
    for chunk in chunks:
        held += chunk
        n = next((n for n in (3, 2, 1) if n <= len(held) and incomplete(held[-n:])), 0)
        text, held = held[: len(held) - n].decode(errors="replace"), held[len(held) - n :]
        if text:
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "three_bytes_at_most",
    "Characters have up to four bytes: F0 to F4 begin one that three more follow.",
    program=lambda chunks: _held(chunks, lambda t: 0xC2 <= t[0] < 0xE0 + 0x10 and len(t) < 2 + (t[0] >= 0xE0)),
)
ghost(
    "level01.streaming.utf8_pieces",
    "trusts_the_first_byte",
    "The first byte says how many should follow; whether they can be its continuation must be looked at.",
    program=lambda chunks: _held(chunks, lambda t: t[0] >= 0xC0 and len(t) < 2 + (t[0] >= 0xE0) + (t[0] >= 0xF0)),
)


def _surrogates_pass(chunks):
    from codecs import getincrementaldecoder

    loose, strict = (getincrementaldecoder("utf-8")(errors) for errors in ("surrogatepass", "replace"))
    for chunk, final in [*((chunk, False) for chunk in chunks), (b"", True)]:
        text = strict.decode(chunk, final)
        try:
            text = loose.decode(chunk, final)
        except UnicodeDecodeError:
            loose.reset()
        if text:
            yield text


ghost(
    "level01.streaming.utf8_pieces",
    "lets_surrogates_pass",
    "D800 to DFFF are halves of UTF-16 pairs, not characters: replace their bytes.",
    program=_surrogates_pass,
)
