"""Right programs, written another way, for level10.protocol. `alternative` is given when this is read."""

import math
import numbers as abstract

# ---- number


def _number_by_type(body, name, default, low=-math.inf, high=math.inf, whole=False):
    """type() knows bool from int; NaN is in no range."""
    from level10.errors import Invalid

    value = body.get(name, None)
    if value is None:
        return default
    good = type(value) is int or (type(value) is float and not whole)
    if good and low <= value and value <= high:
        return value if whole else value * 1.0
    raise Invalid(f"The field {name} takes {'integers' if whole else 'numbers'} of {low} to {high} only.", param=name)


def _number_in_steps(body, name, default, low=-math.inf, high=math.inf, whole=False):
    from level10.errors import Invalid

    def refuse(why):
        raise Invalid(f"{name}: {why}", name)

    if (value := body.get(name, None)) is None:
        return default
    if value is True or value is False:
        refuse("true and false are no numbers")
    if not isinstance(value, abstract.Integral if whole else abstract.Real):
        refuse(f"{value!r} is of the wrong kind")
    if not whole and math.isnan(value):
        refuse("NaN")
    if value < low:
        refuse(f"less than {low}")
    if value > high:
        refuse(f"more than {high}")
    return int(value) if whole else float(value)


for program in (_number_by_type, _number_in_steps):
    alternative("level10.protocol.parse_request", program.__name__[1:], program=program, part="number")

# ---- parse_request


def _request_field_by_field(body, chat=False):
    """Each field on its own, the lengths and numbers from dictionaries."""
    from level03.sampler import SamplingParams
    from level10 import protocol as p

    if type(body) is not dict:
        raise p.Invalid("send an object")
    p.refuse_unsupported(body)
    fields = {name: p.number(body, name, *p.NUMBERS[name]) for name in p.NUMBERS}
    default = p.DEFAULT_TOKENS["chat"] if chat else p.DEFAULT_TOKENS["text"]
    lengths = [
        p.number(body, name, None, low=1, whole=True) for name in ["max_tokens", "max_completion_tokens"][: 1 + chat]
    ]
    fields["max_tokens"] = next((length for length in reversed(lengths) if length is not None), default)
    match body.get("stop"):
        case None:
            pass
        case str(text) if text:
            fields["stop"] = (text,)
        case list(texts) if len(texts) < 5 and {*map(type, texts)} <= {str} and "" not in texts:
            fields["stop"] = (*texts,)
        case other:
            raise p.Invalid(f"stop can't be {other!r}", "stop")
    stream, usage = p.flag(body, "stream"), False
    if (options := body.get("stream_options")) is not None:
        if type(options) is not dict:
            raise p.Invalid("stream_options is an object", "stream_options")
        if not stream:
            raise p.Invalid("stream_options without stream", "stream_options")
        usage = p.flag(options, "include_usage")
    return p.Call(
        prompt=p.read_messages(body) if chat else p.read_prompt(body),
        sampling=SamplingParams(**fields),
        chat=chat,
        stream=stream,
        include_usage=usage,
        ignore_eos=p.flag(body, "ignore_eos"),
    )


def _request_without_nulls(body, chat=False):
    """Leave out all that is null first; then a field that is there has a value."""
    from dataclasses import replace

    from level03.sampler import SamplingParams
    from level10.protocol import (
        DEFAULT_TOKENS,
        NUMBERS,
        Call,
        Invalid,
        flag,
        number,
        read_messages,
        read_prompt,
        refuse_unsupported,
    )

    if not isinstance(body, dict):
        raise Invalid("an object, please")
    refuse_unsupported(body)
    said = {name: value for name, value in body.items() if value is not None}
    call = Call((read_prompt, read_messages)[bool(chat)](said), SamplingParams(), chat)
    name = "max_completion_tokens" if "max_completion_tokens" in said and chat else "max_tokens"
    length = number(said, name, DEFAULT_TOKENS["text" if not chat else "chat"], 1, whole=True)
    number(said, "max_tokens", None, 1, whole=True)
    sampling = SamplingParams(max_tokens=length)
    for key in said.keys() & NUMBERS.keys():
        sampling = replace(sampling, **{key: number(said, key, *NUMBERS[key])})
    if "stop" in said:
        stops = said["stop"] if isinstance(said["stop"], list) else [said["stop"]]
        if not (0 <= len(stops) <= 4) or any(not isinstance(one, str) or one == "" for one in stops):
            raise Invalid("stop: up to 4 strings", "stop")
        sampling = replace(sampling, stop=tuple(stops))
    for field in ("stream", "ignore_eos"):
        call = replace(call, **{field: flag(said, field)})
    if "stream_options" in said:
        if not call.stream or not isinstance(said["stream_options"], dict):
            raise Invalid("stream_options goes with stream", "stream_options")
        call = replace(call, include_usage=flag(said["stream_options"], "include_usage"))
    return replace(call, sampling=sampling)


for program in (_request_field_by_field, _request_without_nulls):
    alternative("level10.protocol.parse_request", program.__name__[1:], program=program)
