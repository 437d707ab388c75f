"""Known-wrong programs of level10.protocol. `ghost` is given when this is read."""

# number
GET = "    value = body.get(name)\n"
ABSENT = "    if value is None:\n        return default\n    # subtle"
IS_BOOL = "isinstance(value, bool) or not"
KIND = "not isinstance(value, int if whole else int | float)"
RANGE = "not low <= value <= high"
SAID = 'f"{name!r} must be {kind}{limits(low, high)}, not {value!r}", name'
GIVEN = "return value if whole else float(value)"
# parse_request
STOP = 'stop = body.get("stop")'
STOPS = "stop = [] if stop is None else [stop] if isinstance(stop, str) else stop"
STOP_OK = "if not isinstance(stop, list) or len(stop) > 4 or not all(isinstance(s, str) and s for s in stop):"
STOP_SAID = 'of at most 4 strings, none of them empty", "stop")'
FLAGS = 'stream, options = flag(body, "stream"), body.get("stream_options")'
OPTIONS_OK = "if options is not None and (not isinstance(options, dict) or not stream):"
MAX = 'number(body, "max_tokens", DEFAULT_TOKENS["chat" if chat else "text"], 1, whole=True)'
CHAT_MAX = '    if chat:\n        max_tokens = number(body, "max_completion_tokens", max_tokens, 1, whole=True)\n'
NUMBERS = "{name: number(body, name, *limits) for name, limits in NUMBERS.items()}"
SAMPLING = "SamplingParams(**numbers, max_tokens=max_tokens, stop=tuple(stop))"
PROMPT = "prompt = read_messages(body) if chat else read_prompt(body)"
CALL = 'Call(prompt, sampling, chat, stream, flag(options or {}, "include_usage"), flag(body, "ignore_eos"))'


def _ghost(name, sentence, *pairs):
    ghost("level10.protocol.parse_request", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- number

_ghost(
    "zero_is_absent",
    "0 is a value: temperature 0 is greedy. Only an absent or null field has its default; `or` and `if not` take 0 too.",
    ABSENT,
    "    if not value:\n        return default\n    # subtle",
)
_ghost(
    "zero_becomes_the_default",
    "0 is a value, and temperature 0 is greedy: your `or` puts the default in its place.",
    GIVEN,
    "return value or default if whole else float(value or default or 0)",
)
_ghost(
    "null_is_a_value",
    "null asks for the default, as if the field were absent: body.get(name, default) gives None for it.",
    GET,
    "    value = body.get(name, default)\n    if name not in body:\n        return default\n",
    ABSENT,
    "    # subtle",
)
_ghost(
    "true_is_one",
    "To Python True is an int, to JSON true is no number: ask for bool first.",
    IS_BOOL,
    "not",
)
_ghost(
    "nan_is_in_range",
    "A comparison with NaN is false: ask whether the value lies within, not whether it lies outside.",
    RANGE,
    "(value < low or value > high)",
)
_ghost(
    "any_number_is_whole",
    "Where an integer is wanted, 2.5 and 2.0 are refused: yours takes any number.",
    KIND,
    "not isinstance(value, int | float)",
)
_ghost(
    "whole_floats_are_integers",
    "2.0 has a decimal point, and is refused where an integer is wanted: yours takes it for 2.",
    KIND,
    "not (isinstance(value, int | float) and (not whole or value == value // 1))",
    GIVEN,
    "return int(value) if whole else float(value)",
)
_ghost(
    "integers_are_cut",
    "int() takes 2.5 and cuts it to 2: an integer is asked for, and something else refused.",
    KIND,
    "not isinstance(value, int | float)",
    GIVEN,
    "return int(value) if whole else float(value)",
)
_ghost(
    "floats_only",
    "JSON writes 1 for 1.0: an integer is a number as well, and becomes a float.",
    KIND,
    "not isinstance(value, int if whole else float)",
)
_ghost(
    "integers_stay_integers",
    "Where no integer is asked for the result is a float, also for 0 and 1.",
    GIVEN,
    "return value",
)
_ghost(
    "integers_become_floats",
    "With `whole` the result is an int: a seed of 2**70 is not the same as a float.",
    GIVEN,
    "return float(value)",
)
_ghost(
    "strings_of_digits_are_numbers",
    'A string is no number in JSON, also "5": float() and int() read it all the same.',
    IS_BOOL,
    "isinstance(value, str) and value.isdigit() and (value := int(value)) is None or isinstance(value, bool) or not",
)
_ghost(
    "limits_are_outside",
    "The limits belong to the range: temperature 0 and 2, top_p 1 are fine.",
    RANGE,
    "not low < value < high",
)
_ghost(
    "upper_limit_is_outside",
    "The largest value belongs to the range: temperature 2 and top_p 1 are fine.",
    RANGE,
    "not low <= value < high",
)
_ghost(
    "clamped_to_the_range",
    "A value outside of the range is refused: the client shall know that it does not get what it asked for.",
    RANGE,
    "value != value",
    GIVEN,
    "value = min(max(value, low), high)\n    return value if whole else float(value)",
)
_ghost(
    "default_for_what_is_wrong",
    "A value that is wrong is refused: yours takes the default, and the client never learns that it was not obeyed.",
    f"        raise Invalid({SAID})\n    return value",
    "        return default\n    return value",
)
_ghost(
    "no_lower_limit",
    "A number has a least value too: max_tokens 0 and temperature -1 are refused.",
    RANGE,
    "not value <= high",
)
_ghost(
    "no_upper_limit",
    "A number has a largest value too: temperature 2.01 and top_p 1.5 are refused.",
    RANGE,
    "not low <= value",
)
_ghost(
    "minus_one_is_allowed",
    "-1 stands for `no limit` elsewhere: here it is outside of low..high like any other number.",
    RANGE,
    "not (low <= value <= high or value == -1)",
)
_ghost(
    "field_is_not_named",
    "The sentence names the field, so that the client's author finds it: `must be a number` says nothing of which.",
    SAID,
    'f"this must be {kind}{limits(low, high)}, not {value!r}", name',
)
_ghost(
    "no_param",
    "Invalid takes the field as its second argument, its param: programs read that, not the sentence.",
    SAID,
    'f"{name!r} must be {kind}{limits(low, high)}, not {value!r}"',
)
_ghost(
    "plain_value_error",
    "What is wrong with a request is Invalid, which has a status and a param: a mere ValueError becomes a 500.",
    f"raise Invalid({SAID})",
    'raise ValueError(f"{name!r} must be {kind}{limits(low, high)}, not {value!r}")',
)
_ghost(
    "default_is_checked",
    "The default is taken as it is: it may be None, or outside of the range.",
    ABSENT,
    "    if value is None:\n        value = default\n    # subtle",
)

# ---- parse_request: stop

_ghost(
    "stop_as_letters",
    "A string is one stop string: tuple() and list() take it apart into its letters.",
    STOPS,
    "stop = list(stop or []) if isinstance(stop, str | None) else stop",
    "len(stop) > 4 or",
    "",
)
_ghost(
    "stop_list_only",
    "stop may be one string alone, not only a list.",
    STOPS,
    "stop = [] if stop is None else stop",
)
_ghost(
    "what_is_empty_is_no_stop",
    'Only an absent or null stop means none: "", 0 and {} are refused, which `or []` lets pass.',
    STOPS,
    "stop = stop or []\n    stop = [stop] if isinstance(stop, str) else stop",
)
_ghost(
    "empty_stop_strings",
    "An empty stop string would end every answer before it begins: refuse it, alone and in a list.",
    "isinstance(s, str) and s for",
    "isinstance(s, str) for",
)
_ghost(
    "empty_stop_strings_are_dropped",
    "An empty stop string in a list is refused; yours leaves it out in silence.",
    STOP_OK,
    'stop = [s for s in stop if s != ""] if isinstance(stop, list) and stop != [""] else stop\n    ' + STOP_OK,
)
_ghost(
    "any_number_of_stops",
    "The API allows at most 4 stop strings: a fifth is refused.",
    "len(stop) > 4 or",
    "",
)
_ghost(
    "three_stops",
    "At most 4 stop strings means that 4 are allowed.",
    "len(stop) > 4 or",
    "len(stop) >= 4 or",
)
_ghost(
    "four_stops_are_taken",
    "A list of more than 4 is refused: yours takes the first 4 and says nothing.",
    "len(stop) > 4 or",
    "",
    SAMPLING,
    "SamplingParams(**numbers, max_tokens=max_tokens, stop=tuple(stop[:4]))",
)
_ghost(
    "stops_of_any_kind",
    "Each stop is a string: a number or a list among them is refused.",
    "all(isinstance(s, str) and s for s in stop)",
    "all(s or s is None for s in stop)",
)
_ghost(
    "stop_stays_a_list",
    "stop becomes a tuple: SamplingParams is frozen, and a list in it could still change.",
    SAMPLING,
    "SamplingParams(**numbers, max_tokens=max_tokens, stop=stop)",
)
_ghost(
    "stops_sorted",
    "The stop strings keep their order and their number: yours goes through a set, or sorts them.",
    SAMPLING,
    "SamplingParams(**numbers, max_tokens=max_tokens, stop=tuple(sorted(set(stop))))",
)
_ghost(
    "stop_dropped",
    "The stop strings belong into SamplingParams: yours checks them and leaves them out.",
    SAMPLING,
    "SamplingParams(**numbers, max_tokens=max_tokens)",
)
_ghost(
    "stop_is_not_named",
    'What is wrong with stop has "stop" as its param: yours leaves the param out.',
    STOP_SAID,
    'of at most 4 strings, none of them empty")',
)

# ---- parse_request: stream and its options

_ghost(
    "streams_by_default",
    "A request that says nothing of it is not streamed.",
    FLAGS,
    'stream, options = flag({"stream": True, **body}, "stream"), body.get("stream_options")',
)
_ghost(
    "anything_true_is_a_flag",
    'A flag is true or false: bool() takes the string "false" for true.',
    FLAGS,
    'stream, options = bool(body.get("stream")), body.get("stream_options")',
)
_ghost(
    "ignore_eos_is_anything",
    'ignore_eos is a flag, true or false: 1 and "true" are refused.',
    'flag(body, "ignore_eos")',
    'bool(body.get("ignore_eos"))',
)
_ghost(
    "include_usage_is_anything",
    'stream_options.include_usage is a flag, true or false: 1 and "true" are refused.',
    'flag(options or {}, "include_usage")',
    'bool((options or {}).get("include_usage"))',
)
_ghost(
    "options_without_a_stream",
    "stream_options needs stream: true; without it the request is refused.",
    " or not stream)",
    ")",
)
_ghost(
    "empty_options_without_a_stream",
    "stream_options needs stream: true, also if it is an empty object: only null is as good as absent.",
    OPTIONS_OK,
    "if options and (not isinstance(options, dict) or not stream) or options is not None and not isinstance(options, dict):",
)
_ghost(
    "options_need_to_ask_for_usage",
    "stream_options without stream is refused whatever it says, not only where it asks for the usage.",
    " or not stream)",
    ' or options.get("include_usage") and not stream)',
)
_ghost(
    "options_of_any_kind",
    "stream_options is an object: a list, true, 0 or an empty string is refused.",
    "options is not None and (not isinstance(options, dict) or not stream)",
    "options and not stream or options == {} and not stream",
    'flag(options or {}, "include_usage")',
    'flag(options if isinstance(options, dict) else {}, "include_usage")',
)
_ghost(
    "empty_options_of_any_kind",
    "stream_options is an object: [], 0, false and an empty string are none, though `or {}` takes them for one.",
    OPTIONS_OK,
    "options = {} if options is not None and not options else options\n    " + OPTIONS_OK,
)
_ghost(
    "null_options_are_refused",
    "A null asks for the default: stream_options null is as good as absent.",
    OPTIONS_OK,
    'if "stream_options" in body and (not isinstance(options, dict) or not stream):',
)
_ghost(
    "usage_always",
    "The usage of a stream is sent when include_usage asks for it, not with every stream.",
    'flag(options or {}, "include_usage")',
    'flag(options or {}, "include_usage") or stream',
)
_ghost(
    "options_ask_for_usage",
    "stream_options may be there without asking for the usage: its field include_usage decides.",
    'flag(options or {}, "include_usage")',
    'flag(options or {}, "include_usage") or options is not None',
)
_ghost(
    "include_usage_beside_the_options",
    "include_usage is a field of stream_options, not of the body.",
    'flag(options or {}, "include_usage")',
    'flag(body, "include_usage")',
)
_ghost(
    "unknown_options_are_refused",
    "Unknown fields are ignored, within stream_options as well: other servers know more of them.",
    OPTIONS_OK,
    'if options is not None and (not isinstance(options, dict) or not stream or set(options) - {"include_usage"}):',
)
_ghost(
    "options_are_not_named",
    'What is wrong with stream_options has "stream_options" as its param: yours blames `stream`.',
    'needs \'stream\': true", "stream_options")',
    'needs \'stream\': true", "stream")',
)
_ghost(
    "ignore_eos_dropped",
    "ignore_eos belongs into the Call: without it a benchmark gets answers that end early.",
    CALL,
    'Call(prompt, sampling, chat, stream, flag(options or {}, "include_usage"), flag(body, "ignore_eos") and False)',
)

# ---- parse_request: lengths and numbers

_ghost(
    "one_default_length",
    "Chat and completion have different defaults for max_tokens: DEFAULT_TOKENS has both.",
    'DEFAULT_TOKENS["chat" if chat else "text"]',
    'DEFAULT_TOKENS["text"]',
)
_ghost(
    "length_of_the_sampler",
    "Without max_tokens its default is that of DEFAULT_TOKENS: yours leaves it to SamplingParams, which has another.",
    SAMPLING,
    'SamplingParams(**numbers, stop=tuple(stop), **({"max_tokens": max_tokens} if body.get("max_tokens") or body.get("max_completion_tokens") else {}))',
)
_ghost(
    "newer_name_ignored",
    "A chat may say max_completion_tokens in place of max_tokens.",
    CHAT_MAX,
    "",
)
_ghost(
    "newer_name_for_all",
    "max_completion_tokens is a field of chats: /v1/completions does not know it, and ignores it.",
    CHAT_MAX,
    '    max_tokens = number(body, "max_completion_tokens", max_tokens, 1, whole=True)\n',
)
_ghost(
    "older_name_wins",
    "max_completion_tokens wins over max_tokens; yours lets the older name win.",
    CHAT_MAX,
    '    if chat:\n        newer = number(body, "max_completion_tokens", max_tokens, 1, whole=True)\n'
    '        max_tokens = newer if body.get("max_tokens") is None else max_tokens\n',
)
_ghost(
    "smaller_length_wins",
    "max_completion_tokens wins over max_tokens, also when it is the larger one.",
    CHAT_MAX,
    '    if chat:\n        max_tokens = min(number(body, "max_completion_tokens", max_tokens, 1, whole=True), max_tokens)\n',
)
_ghost(
    "older_name_is_none_in_a_chat",
    "A chat that says max_tokens is obeyed as well: most clients use the older name.",
    CHAT_MAX,
    '    if chat:\n        max_tokens = number(body, "max_completion_tokens", 256, 1, whole=True)\n',
)
_ghost(
    "newer_name_unless_zero",
    "max_completion_tokens 0 is refused, like max_tokens 0; your `or` passes it over.",
    CHAT_MAX,
    '    if chat:\n        body = {**body, "max_completion_tokens": body.get("max_completion_tokens") or None}\n'
    '        max_tokens = number(body, "max_completion_tokens", max_tokens, 1, whole=True)\n',
)
_ghost(
    "no_tokens_at_all",
    "max_tokens is at least 1: an answer of 0 tokens is refused.",
    MAX,
    'number(body, "max_tokens", DEFAULT_TOKENS["chat" if chat else "text"], 0, whole=True)',
)
_ghost(
    "length_of_any_number",
    "max_tokens is an integer: 2.0 and 2.5 are refused.",
    MAX,
    'number(body, "max_tokens", DEFAULT_TOKENS["chat" if chat else "text"], 1)',
)
_ghost(
    "length_is_not_checked",
    "max_tokens is an integer of at least 1; yours takes whatever the client sends.",
    MAX,
    'DEFAULT_TOKENS["chat" if chat else "text"] if body.get("max_tokens") is None else body["max_tokens"]',
)
_ghost(
    "only_the_temperature",
    "NUMBERS has all the numbers that SamplingParams takes: one that is left out changes the answer in silence.",
    NUMBERS,
    '{"temperature": number(body, "temperature", *NUMBERS["temperature"])}',
)
_ghost(
    "limits_of_numbers_unused",
    "NUMBERS has least and largest values beside the defaults: hand them on to `number`.",
    NUMBERS,
    "{name: number(body, name, default, whole=bool(more[2:])) for name, (default, *more) in NUMBERS.items()}",
)
_ghost(
    "seed_of_any_number",
    "seed and top_k are integers: the fourth entry of NUMBERS says which fields are.",
    NUMBERS,
    "{name: number(body, name, *limits[:3]) for name, limits in NUMBERS.items()}",
)
_ghost(
    "seed_zero_by_default",
    "Without a seed each answer is another one: its default is None, not 0.",
    SAMPLING,
    'SamplingParams(**numbers | {"seed": numbers["seed"] or 0}, max_tokens=max_tokens, stop=tuple(stop))',
)
_ghost(
    "seed_zero_lost",
    "Seed 0 is a seed like any other: your `or None` draws another answer each time.",
    SAMPLING,
    'SamplingParams(**numbers | {"seed": numbers["seed"] or None}, max_tokens=max_tokens, stop=tuple(stop))',
)
_ghost(
    "greedy_by_default",
    "Without a temperature it is 1.0, as the API says, not 0.",
    NUMBERS,
    '{name: number({"temperature": 0.0, **body}, name, *limits) for name, limits in NUMBERS.items()}',
)
_ghost(
    "penalties_exchanged",
    "presence_penalty and frequency_penalty are two fields: yours exchanges them.",
    SAMPLING,
    'SamplingParams(**numbers | {"presence_penalty": numbers["frequency_penalty"], '
    '"frequency_penalty": numbers["presence_penalty"]}, max_tokens=max_tokens, stop=tuple(stop))',
)

# ---- parse_request: the rest

_ghost(
    "prompt_for_all",
    "A chat has messages in place of a prompt: with `chat` read those.",
    PROMPT,
    "prompt = read_prompt(body)",
)
_ghost(
    "messages_where_there_are_some",
    "`chat` says which endpoint it is: a completion reads its prompt, whatever else the body has.",
    PROMPT,
    'prompt = read_messages(body) if chat or "messages" in body else read_prompt(body)',
)
_ghost(
    "messages_as_they_came",
    "read_messages checks the messages and joins contents that come in parts: yours passes them on as they came.",
    PROMPT,
    'prompt = body.get("messages") if chat and body.get("messages") else read_messages(body) if chat else read_prompt(body)',
)
_ghost(
    "prompt_as_it_came",
    "read_prompt refuses what is no prompt: yours passes on whatever is there, also nothing.",
    PROMPT,
    'prompt = read_messages(body) if chat else body.get("prompt")',
)
_ghost(
    "not_a_chat",
    "The Call knows that it is a chat: its answer has another shape.",
    CALL,
    'Call(prompt, sampling, False, stream, flag(options or {}, "include_usage"), flag(body, "ignore_eos"))',
)
_ghost(
    "unknown_fields_are_refused",
    "Unknown fields are ignored: each client library sends some of its own.",
    STOP,
    'unknown = set(body) - {"prompt", "messages", "model", "stop", "stream", "stream_options", "max_tokens"} - set(NUMBERS)\n'
    '    if unknown - set(NEUTRAL) - {"max_completion_tokens", "ignore_eos"}:\n'
    '        raise Invalid("unknown field")\n'
    '    stop = body.get("stop")',
)
_ghost(
    "model_has_to_be_a_string",
    "`model` is not looked at here: whether there is such a model is decided elsewhere.",
    STOP,
    'if not isinstance(body.get("model"), str | None):\n        raise Invalid("\'model\' must be a string", "model")\n'
    '    stop = body.get("stop")',
)
_ghost(
    "eats_the_body",
    "Leave the body as it is: its caller may still need it. Yours takes the fields out.",
    STOP,
    'stop = body.pop("stop", None)',
)
