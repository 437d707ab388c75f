"""Judges protocol.py by a table of what a body may say in each of its fields, and what each of these means.

The values are the API's own: the right Call is written out, and what is refused names its field.
"""

import math

import pytest

from level03.sampler import SamplingParams
from level10.errors import Invalid
from level10.protocol import Call, number, parse_request

TALK = [{"role": "user", "content": "hi"}]


def of_text(stream=False, include_usage=False, ignore_eos=False, max_tokens=16, **sampling):
    """The right answer to a body with the prompt "x"."""
    return Call("x", SamplingParams(max_tokens=max_tokens, **sampling), False, stream, include_usage, ignore_eos)


def of_chat(max_tokens=256, **sampling):
    return Call(TALK, SamplingParams(max_tokens=max_tokens, **sampling), chat=True)


def refusal(function, *args):
    """What is said of a body that is refused: its param, and whether the sentence names it. Else the value."""
    try:
        return function(*args)
    except Invalid as error:
        return "Invalid", error.param, f"{error.param}" in str(error)


def refused(body, chat=False):
    return refusal(parse_request, body, chat)


def number_refused(value, *limits):
    return refusal(number, {"field": value}, "field", *limits)


def told(name):
    return "Invalid", name, True


# ---- parse_request


@pytest.mark.kata("level10.protocol.parse_request")
def test_what_is_absent_or_null_has_its_default(expect):
    """Most clients send two fields; some libraries send every field they know, as null. The docstring's example
    last."""
    expect(parse_request, {"prompt": "x"}).equals(of_text())
    names = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"]
    names += ["seed", "max_tokens", "stop", "stream", "stream_options", "ignore_eos", "n", "logit_bias", "suffix"]
    expect(parse_request, {"prompt": "x", **dict.fromkeys(names)}).equals(of_text())
    body = {"prompt": "x", "temperature": 0, "stop": "a"}
    expect(parse_request, body).equals(of_text(temperature=0.0, stop=("a",)))


@pytest.mark.kata("level10.protocol.parse_request")
def test_every_field_arrives_where_it_belongs(expect):
    """All values differ from each other and from the defaults: a field that is dropped changes answers in silence."""
    numbers = {"temperature": 0.25, "top_p": 0.75, "top_k": 7, "min_p": 0.125, "repetition_penalty": 1.5}
    numbers |= {"presence_penalty": -0.5, "frequency_penalty": 0.375, "seed": 11, "max_tokens": 5}
    body = {"prompt": "x", **numbers, "stop": ["b", "a"], "stream": True, "stream_options": {"include_usage": True}}
    right = of_text(stream=True, include_usage=True, ignore_eos=True, stop=("b", "a"), **numbers)
    expect(parse_request, body | {"ignore_eos": True, "model": "m"}).equals(right)


@pytest.mark.kata("level10.protocol.parse_request")
def test_one_stop_string_or_a_list_of_four_at_most(expect):
    """They become a tuple, in the order in which they came. A string is one stop string, not a list of letters."""
    for stop, right in [
        ("END", ("END",)),
        ("abcdefg", ("abcdefg",)),
        (" ", (" ",)),
        ("\nUser: ", ("\nUser: ",)),
        ([], ()),
        (["b"], ("b",)),
        (["b", "a", "d", "c"], ("b", "a", "d", "c")),
        (["a", "a"], ("a", "a")),
        (None, ()),
    ]:
        expect(parse_request, {"prompt": "x", "stop": stop}).equals(of_text(stop=right))


@pytest.mark.kata("level10.protocol.parse_request")
def test_streaming_and_its_options(expect):
    """Usage comes in a chunk of its own, which clients that did not ask for it do not expect. Of the options, those
    that are unknown are ignored, as elsewhere."""
    for body, stream, usage in [
        ({"stream": True}, True, False),
        ({"stream": False}, False, False),
        ({"stream": True, "stream_options": None}, True, False),
        ({"stream_options": None}, False, False),
        ({"stream": True, "stream_options": {}}, True, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, True, False),
        ({"stream": True, "stream_options": {"include_usage": None}}, True, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True, True),
        ({"stream": True, "stream_options": {"continuous_usage_stats": True}}, True, False),
        ({"stream": True, "include_usage": True}, True, False),
    ]:
        expect(parse_request, {"prompt": "x", **body}).equals(of_text(stream, usage))


@pytest.mark.kata("level10.protocol.parse_request")
def test_a_chat_has_its_own_limit(expect):
    """max_completion_tokens is the newer name, and only a chat has it. A server that takes the smaller of both, or the
    default of the other endpoint, cuts answers short."""
    for limits, right in [
        ({}, 256),
        ({"max_tokens": 3}, 3),
        ({"max_tokens": 300}, 300),
        ({"max_completion_tokens": 9}, 9),
        ({"max_completion_tokens": 3, "max_tokens": 9}, 3),
        ({"max_completion_tokens": 9, "max_tokens": 3}, 9),
        ({"max_completion_tokens": 300, "max_tokens": None}, 300),
        ({"max_completion_tokens": None, "max_tokens": 5}, 5),
        ({"max_completion_tokens": None, "max_tokens": None}, 256),
    ]:
        expect(parse_request, {"messages": TALK, **limits}, True).equals(of_chat(right))
    expect(parse_request, {"prompt": "x", "max_completion_tokens": 9}).equals(of_text())
    expect(parse_request, {"prompt": "x", "max_completion_tokens": 9, "max_tokens": 3}).equals(of_text(max_tokens=3))


@pytest.mark.kata("level10.protocol.parse_request")
def test_unknown_fields_are_ignored(expect):
    """Every client library sends some of its own, and another server's names do no harm here."""
    more = {"user": "u", "metadata": {"a": 1}, "n_predict": 3, "stops": 5, "max_new_tokens": 3, "Stop": 1}
    expect(parse_request, {"prompt": "x", **more}).equals(of_text())
    expect(parse_request, {"messages": TALK, **more}, True).equals(of_chat())
    expect(parse_request, {"prompt": "x", "model": 5}).equals(of_text())


@pytest.mark.kata("level10.protocol.parse_request")
def test_a_chat_reads_messages_and_a_completion_its_prompt(expect):
    """One function for two endpoints; the sampling is the same. A content in parts arrives as one text."""
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    body = {"messages": [{"role": "user", "content": parts, "name": "n"}], "prompt": "x", "temperature": 0.5}
    expect(parse_request, body, True).equals(of_chat(temperature=0.5))
    expect(parse_request, body | {"messages": 5}, False).equals(of_text(temperature=0.5))
    more = {"stop": ["a"], "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "seed": 3}
    sampling = SamplingParams(max_tokens=256, seed=3, stop=("a",))
    expect(parse_request, {"messages": TALK, **more}, chat=True).equals(Call(TALK, sampling, True, True, True, True))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "body",
    [
        {"stream_options": {}},
        {"stream_options": {"include_usage": True}},
        {"stream": False, "stream_options": {"include_usage": False}},
        {"stream": None, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": []},
        {"stream": True, "stream_options": ["include_usage"]},
        {"stream": True, "stream_options": 0},
        {"stream": True, "stream_options": ""},
        {"stream": True, "stream_options": False},
        {"stream": True, "stream_options": True},
    ],
)
def test_options_of_a_stream_need_a_stream(expect, body):
    """Who asks for the usage of a stream and has not asked for a stream is told so: also with an empty object."""
    expect(refused, {"prompt": "x", **body}).equals(told("stream_options"))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize("name", ["max_completion_tokens", "max_tokens"])
@pytest.mark.parametrize("value", [0, -1, True, 2.0, "5"])
def test_a_chats_limits_are_checked(expect, name, value):
    """Also the newer name has to be an integer of at least 1: 0 is not "no limit"."""
    expect(refused, {"messages": TALK, name: value}, True).equals(told(name))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "stop",
    ["", ["a", ""], [""], ["", "", ""], list("abcde"), ["a"] * 5, [1], ["a", None], [["a"]], 5, 0, True, False, {}]
    + [{"a": 1}, {"a": "b"}, 1.5],
)
def test_other_stops_are_refused(expect, stop):
    """An empty string stands at the beginning of every answer; 0 and {} are wrong, however empty they look."""
    expect(refused, {"prompt": "x", "stop": stop}).equals(told("stop"))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "name, value",
    [("temperature", 0), ("temperature", 2), ("temperature", 0.0), ("top_p", 1e-6), ("top_p", 1), ("top_k", 0)]
    + [("top_k", 10**6), ("min_p", 0), ("min_p", 1), ("repetition_penalty", 1e-6), ("repetition_penalty", 100)]
    + [("presence_penalty", -2), ("presence_penalty", 0), ("presence_penalty", 2), ("frequency_penalty", -2)]
    + [
        ("frequency_penalty", 0),
        ("frequency_penalty", 2),
        ("seed", 0),
        ("seed", -1),
        ("seed", 2**64),
        ("max_tokens", 1),
    ]
    + [("max_tokens", 10**6)],
)
def test_a_number_at_its_limit_is_accepted(expect, name, value):
    """Temperature 0 is greedy, and seed 0 a seed like any other: neither means that the field was left out."""
    exact = value if name in ("top_k", "seed", "max_tokens") else float(value)
    expect(parse_request, {"prompt": "x", name: value}).equals(of_text(**{name: exact}))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "name, value",
    [("max_tokens", value) for value in (0, True, False, -1, 2.0, 2.5, "5", [], [5], {}, math.nan)]
    + [("temperature", value) for value in (-0.01, 2.01, "1", True, False, math.nan, math.inf, [1.0], {})]
    + [("top_p", value) for value in (0, -0.5, 1.01, "", math.nan, False)]
    + [("top_k", value) for value in (-1, 1.5, 2.0, True, "3")]
    + [("min_p", value) for value in (-0.01, 1.01, True)]
    + [("repetition_penalty", value) for value in (0, -1, 100.5, True)]
    + [("presence_penalty", value) for value in (-2.01, 2.01, math.nan)]
    + [("frequency_penalty", value) for value in (-2.5, 3, "0")]
    + [("seed", value) for value in (1.5, 7.0, True, False, "7", math.inf)],
)
def test_what_is_no_number_or_out_of_range_is_refused(expect, name, value):
    """The field is named: a client's author has to find it. In JSON true is no number, and a NaN compares with
    nothing: it would reach the sampler."""
    expect(refused, {"prompt": "x", name: value}).equals(told(name))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize("name", ["stream", "ignore_eos"])
@pytest.mark.parametrize("value", [1, 0, "true", "false", "", [], {}])
def test_a_flag_is_true_or_false(expect, name, value):
    """The string "false" counts as true in Python."""
    expect(refused, {"prompt": "x", name: value}).equals(told(name))


def usage_flag(value):
    """The sentence names include_usage; how its place is written is left open."""
    try:
        return parse_request({"prompt": "x", "stream": True, "stream_options": {"include_usage": value}})
    except Invalid as error:
        return "include_usage" in str(error)


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize("value", [1, 0, "true", {}])
def test_so_is_the_one_for_the_usage(expect, value):
    """A flag within an object is a flag all the same."""
    expect(usage_flag, value).equals(True)


@pytest.mark.kata("level10.protocol.parse_request")
def test_token_ids_are_a_prompt_too(expect):
    """A load generator that knows its lengths in tokens sends ids."""
    expect(parse_request, {"prompt": [5, 0, 7]}).equals(Call([5, 0, 7], SamplingParams(max_tokens=16)))
    expect(parse_request, {"prompt": ""}).equals(Call("", SamplingParams(max_tokens=16)))


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "body, chat, name",
    [({}, False, "prompt"), ({"prompt": [True]}, False, "prompt"), ({"messages": TALK}, False, "prompt")]
    + [({}, True, "messages"), ({"messages": []}, True, "messages"), ({"prompt": "x"}, True, "messages")],
)
def test_nothing_to_answer_is_refused(expect, body, chat, name):
    """The two given readers decide what a prompt is; they have to be asked."""
    expect(refused, body, chat).equals(told(name))


# ---- number, judged with parse_request


def kind_and_value(value, *limits):
    read = number({"field": value, "other": 3}, "field", *limits)
    return type(read).__name__, read


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "args, right",
    [
        ((0, 1.0), ("float", 0.0)),
        ((7, None), ("float", 7.0)),
        ((-0.5, 1.0), ("float", -0.5)),
        ((2, 1.0, 2, 3), ("float", 2.0)),
        ((3, 1.0, 2, 3), ("float", 3.0)),
        ((-7, 1.0, -math.inf, -1), ("float", -7.0)),
        ((0, 5, -1, 1, True), ("int", 0)),
        ((2**70, None, -math.inf, math.inf, True), ("int", 2**70)),
        ((10**400, None, 0, math.inf, True), ("int", 10**400)),
        ((None, 1.0), ("float", 1.0)),
        ((None, 5, 6, 7, True), ("int", 5)),
        ((None, None, 0, 1), ("NoneType", None)),
        ((None, "left", 0, 1), ("str", "left")),
    ],
)
def test_a_number_is_a_float_or_if_asked_for_an_int(expect, args, right):
    """A client writes 0 or 0.0; the sampler gets one type. The default is taken as it is: it need not lie within."""
    expect(kind_and_value, *args).equals(right, rel=0, abs=0)


@pytest.mark.kata("level10.protocol.parse_request")
def test_a_field_that_is_absent_has_the_default(expect):
    """Another field's value is not its own."""
    expect(number, {"a": 3.0}, "b", 1.5, 0, 9).equals(1.5)
    expect(number, {"a": 3, "b": 4}, "b", 1, 0, 9, True).equals(4)
    expect(number, {"a": 3, "b": 4}, "a", 1, low=0, high=9, whole=True).equals(3)


@pytest.mark.kata("level10.protocol.parse_request")
@pytest.mark.parametrize(
    "args",
    [
        (True, 1.0),
        (False, 1.0),
        (True, 1, 0, 9, True),
        (False, 1, 0, 9, True),
        (2.0, 1, 0, 9, True),
        (1.0, 1, -math.inf, math.inf, True),
        (math.nan, 1.0),
        (math.nan, 1, 0, 9, True),
        ("1", 1.0),
        ("", 1.0),
        ([], 1.0),
        ([1], 1.0),
        ({}, 1.0),
        (1j, 1.0),
        (1.999, 1.0, 2, 3),
        (3.001, 1.0, 2, 3),
        (-1, 0, 0, math.inf, True),
        (4, 0, -math.inf, 3, True),
        (0, 5, 1, 9, True),
        (-math.inf, 1.0, 0),
    ],
)
def test_what_no_number_is(expect, args):
    """Each is refused with the field's name, whatever its limits are."""
    expect(number_refused, *args).equals(told("field"))
