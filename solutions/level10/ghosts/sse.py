"""Known-wrong programs of level10.sse. `ghost` is given when this is read."""

TEXT = 'payload if isinstance(payload, str) else json.dumps(payload, separators=(",", ":"))'
DUMPS = 'json.dumps(payload, separators=(",", ":"))'
EVENT = 'f"data: {text}\\n\\n".encode()'
CUT = '*lines, self.rest = (self.rest + chunk).split(b"\\n")'
BEGIN = "        events = []\n"
PARTS = 'field, _, value = line.removesuffix(b"\\r").partition(b":")'
IS_DATA = 'if field == b"data":'
VALUE = 'self.data.append(value.removeprefix(b" "))'
IS_END = 'elif line in (b"", b"\\r") and self.data:'
JOINED = 'events.append(b"\\n".join(self.data).decode("utf-8", "replace"))'
FORGET = "                self.data = []\n"


def _ghost(name, sentence, *pairs):
    ghost("level10.sse.SSEParser", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- sse_event

_ghost(
    "one_line_feed",
    "An event ends with an empty line, so with two line feeds: with one the client waits for more of it.",
    EVENT,
    'f"data: {text}\\n".encode()',
)
_ghost(
    "event_with_carriage_returns",
    "The events that you write end their lines with a line feed alone; a parser must know the other line end as well.",
    EVENT,
    'f"data: {text}\\r\\n\\r\\n".encode()',
)
_ghost(
    "pretty_json",
    "A line break within the JSON ends the line of data; yours spreads the JSON over several lines.",
    DUMPS,
    "json.dumps(payload, indent=1)",
)
_ghost(
    "spaces_in_the_json",
    "Compact JSON has no spaces between its parts, which json.dumps writes by default: look at its separators.",
    DUMPS,
    "json.dumps(payload)",
)
_ghost(
    "python_for_json",
    'str() of a dict is Python, not JSON: quotes, None and True have to become ", null and true.',
    DUMPS,
    'str(payload).replace(": ", ":").replace(", ", ",")',
)
_ghost(
    "quotes_around_done",
    'A string stays as it is: "[DONE]" in quotation marks is not what clients look for.',
    TEXT,
    DUMPS,
)
_ghost(
    "no_space_behind_the_colon",
    "The event that is asked for has a space between `data:` and the payload; yours has none.",
    EVENT,
    'f"data:{text}\\n\\n".encode()',
)
_ghost(
    "json_with_raw_line_breaks",
    "A line break in a text must stay escaped, as JSON writes it: yours puts it into the line as it is.",
    DUMPS,
    'json.dumps(payload, separators=(",", ":")).replace("\\\\n", "\\n")',
)
_ghost(
    "only_ascii",
    "A string stays as it is, in UTF-8: yours loses the letters that are not ASCII.",
    EVENT,
    'f"data: {text}\\n\\n".encode("ascii", "replace")',
)

# ---- SSEParser: lines

_ghost(
    "a_read_is_an_event",
    "A read is not an event: keep the incomplete line for the next call, yours drops it.",
    CUT,
    '*lines, _ = (self.rest + chunk).split(b"\\n")',
)
_ghost(
    "a_read_ends_a_line",
    "A read may end within a line: what has no line feed yet must wait for the rest of it.",
    CUT,
    'lines = (self.rest + chunk).split(b"\\n")',
)
_ghost(
    "an_empty_read_ends_the_stream",
    "An empty read completes nothing: the event whose empty line has not come is kept.",
    BEGIN,
    '        lines += [self.rest, b""] if not chunk else []\n' + BEGIN,
)
_ghost(
    "an_event_in_one_read",
    "The lines of an event may come in several reads: yours forgets those of the read before.",
    BEGIN,
    "        self.data = []\n" + BEGIN,
)
_ghost(
    "line_feeds_only",
    "A line may end with a carriage return and a line feed: an empty line that has one is empty all the same.",
    PARTS,
    'field, _, value = line.partition(b":")',
    IS_END,
    'elif line == b"" and self.data:',
)
_ghost(
    "keeps_the_carriage_return",
    "The carriage return before a line feed belongs to the line's end, not to its value.",
    PARTS,
    'field, _, value = line.partition(b":")',
)
_ghost(
    "carriage_returns_only",
    "A line may end with a line feed alone: yours waits for a carriage return as well.",
    CUT,
    '*lines, self.rest = (self.rest + chunk).split(b"\\r\\n")',
)
_ghost(
    "two_line_feeds_in_a_row",
    "An event ends with an empty line, and with CRLF there is a carriage return between the two line feeds.",
    IS_END,
    'elif line == b"" and self.data:',
)
_ghost(
    "reads_decoded_one_by_one",
    "A read may end within a character: decode whole lines, not reads.",
    CUT,
    '*lines, self.rest = (self.rest + chunk.decode("utf-8", "replace").encode()).split(b"\\n")',
)
_ghost(
    "every_line_end_of_unicode",
    "Only a line feed ends a line: str.splitlines also cuts at U+2028, U+0085 and others, which JSON may contain.",
    BEGIN,
    '        lines = [part.encode() for line in lines for part in line.decode("utf-8", "replace").splitlines() or [""]]\n'
    + BEGIN,
)
_ghost(
    "every_line_end_of_bytes",
    "A cut between carriage return and line feed makes yours see two line ends, one of them an empty line.",
    CUT,
    '*lines, self.rest = [b"", b""] if not self.rest + chunk else [*(self.rest + chunk).splitlines(), *([b""] if chunk[-1:] in (b"\\r", b"\\n") else [])]',
)

# ---- SSEParser: fields

_ghost(
    "a_comment_ends_the_event",
    "A line that begins with a colon is a comment, not the end of an event: only an empty line is.",
    IS_END,
    'elif field == b"" and self.data:',
)
_ghost(
    "a_comment_is_data",
    "A line that begins with a colon is a comment, to keep the connection alive: skip it.",
    IS_DATA,
    'if field in (b"data", b"") and line not in (b"", b"\\r"):',
)
_ghost(
    "all_fields_are_data",
    "Only `data` fields make an event's data: `event`, `id` and all others are skipped.",
    IS_DATA,
    "if field:",
)
_ghost(
    "fields_that_begin_with_data",
    "A field's name is all that stands before the colon: `database` is not `data`.",
    IS_DATA,
    'if field.startswith(b"data"):',
)
_ghost(
    "space_is_required",
    "The space behind the colon may be missing: `data:x` is data as well.",
    IS_DATA,
    'if line.startswith(b"data: "):',
)
_ghost(
    "colon_is_required",
    "A line `data` without a colon is a field whose value is empty: yours skips it.",
    IS_DATA,
    'if line.startswith(b"data:"):',
)
_ghost(
    "strips_the_value",
    "Only one space behind the colon goes away: the others are text, as in a token that begins with a space.",
    VALUE,
    "self.data.append(value.strip())",
)
_ghost(
    "strips_all_spaces_in_front",
    "Only the first space behind the colon goes away; yours removes all that follow it too.",
    VALUE,
    'self.data.append(value.lstrip(b" "))',
)
_ghost(
    "keeps_the_space",
    "One space behind the colon does not belong to the value: yours keeps it.",
    VALUE,
    "self.data.append(value)",
)
_ghost(
    "value_up_to_the_second_colon",
    "The value is all that follows the first colon: JSON is full of colons.",
    PARTS,
    'field, value = (line.removesuffix(b"\\r").split(b":") + [b""])[:2]',
)
_ghost(
    "value_from_the_last_colon",
    "The first colon ends the field's name, not the last one: JSON is full of colons.",
    PARTS,
    'field, _, value = line.removesuffix(b"\\r").rpartition(b":")',
    IS_DATA,
    'if field.partition(b":")[0] == b"data":',
)
_ghost(
    "any_case",
    "A field is called `data` and nothing else: `Data` is another one.",
    IS_DATA,
    'if field.lower() == b"data":',
)
_ghost(
    "spaces_around_the_field",
    "A field is all that stands before the colon, with its spaces: ` data` and `data ` are other fields.",
    IS_DATA,
    'if field.strip() == b"data":',
)

# ---- SSEParser: events

_ghost(
    "each_line_is_an_event",
    "The data lines up to the empty line are one event, joined by line feeds: yours makes an event of each.",
    JOINED,
    'events += [value.decode("utf-8", "replace") for value in self.data]',
)
_ghost(
    "joined_without_line_feeds",
    "The values of one event are joined with a line feed between them; yours runs them together.",
    JOINED,
    'events.append(b"".join(self.data).decode("utf-8", "replace"))',
)
_ghost(
    "the_last_line_is_the_event",
    "All data lines of an event count, not only its last one.",
    VALUE,
    'self.data = [value.removeprefix(b" ")]',
)
_ghost(
    "a_line_feed_at_the_end",
    "Line feeds stand between the values of an event, none behind the last one.",
    JOINED,
    'events.append(b"".join(value + b"\\n" for value in self.data).decode("utf-8", "replace"))',
)
_ghost(
    "events_without_data",
    "An event without a data field is none: empty lines in a row, or a comment alone, bring nothing.",
    IS_END,
    'elif line in (b"", b"\\r"):',
)
_ghost(
    "empty_data_is_nothing",
    "A data field whose value is empty is a data field: it adds an empty line, and an event may have no other.",
    IS_DATA,
    'if field == b"data" and value.strip():',
)
_ghost(
    "empty_text_is_no_event",
    'An event whose only data field is empty is an event, with the data "": yours takes it for none.',
    IS_END,
    'elif line in (b"", b"\\r") and not any(self.data):\n'
    "                self.data = []\n"
    '            elif line in (b"", b"\\r"):',
)
_ghost(
    "keeps_the_old_data",
    "An event begins anew after its empty line: yours hands out the data of the one before again.",
    FORGET,
    "",
)
_ghost(
    "swallows_done",
    'The parser hands out the data of every event, "[DONE]" too: what it means is for its caller to know.',
    JOINED,
    'events += [] if self.data == [b"[DONE]"] else [b"\\n".join(self.data).decode("utf-8", "replace")]',
)
_ghost(
    "bytes_for_text",
    "The data of an event are a str: decode them, as UTF-8.",
    JOINED,
    'events.append(b"\\n".join(self.data))',
)
_ghost(
    "latin_1",
    "Text is UTF-8: with one letter for each byte, é becomes Ã©.",
    JOINED,
    'events.append(b"\\n".join(self.data).decode("latin-1"))',
)
_ghost(
    "an_event_a_call",
    "A read may complete several events: hand out all of them, yours stops at the first.",
    FORGET,
    FORGET
    + '                self.rest = b"\\n".join([*lines[lines.index(line) + 1 :], self.rest])\n                break\n',
)
_ghost(
    "one_object_for_all",
    "Each stream has its own rest: yours keeps it in the class, where all streams meet.",
    "        # solution:begin whole lines only",
    "        self = SSEParser  # solution:begin whole lines only",
    'self.rest = b""  # of a line that is not complete',
    'SSEParser.rest = b""',
    "self.data: list[bytes] = []  # of the event that is not complete",
    "SSEParser.data = []",
)
_ghost(
    "lines_of_a_limited_length",
    "A line may be longer than any read, however large: yours keeps only the end of what is not complete yet.",
    BEGIN,
    "        self.rest = self.rest[-65536:]\n" + BEGIN,
)
_ghost(
    "a_line_of_spaces_is_empty",
    "A line that has a space is a field of that name, and is skipped: only a line without anything ends an event.",
    IS_END,
    "elif not line.strip() and self.data:",
)
