"""From the body of a request, as the API defines it, to what the engine needs, or to a sentence on what is wrong."""

from dataclasses import dataclass
from math import inf

from level03.sampler import SamplingParams

from .errors import Invalid

DEFAULT_TOKENS = {"text": 16, "chat": 256}  # the API has no limit for chat: this keeps the room of a request small
# default, least, largest, is it an integer: the fields of SamplingParams that are numbers
NUMBERS = {"temperature": (1.0, 0, 2), "top_p": (1.0, 1e-6, 1), "top_k": (0, 0, inf, True), "min_p": (0.0, 0, 1)}
NUMBERS |= {"repetition_penalty": (1.0, 1e-6, 100), "seed": (None, -inf, inf, True)}
NUMBERS |= {"presence_penalty": (0.0, -2, 2), "frequency_penalty": (0.0, -2, 2)}
NEUTRAL = {"n": 1, "best_of": 1, "logprobs": False, "echo": False, "suffix": "", "logit_bias": {}, "tools": []}
NEUTRAL |= {"functions": [], "response_format": {"type": "text"}}


@dataclass(frozen=True)
class Call:
    """What a client asks for. `prompt` is a text or token ids, of a chat the list of messages."""

    prompt: str | list
    sampling: SamplingParams
    chat: bool = False
    stream: bool = False
    include_usage: bool = False
    ignore_eos: bool = False  # vLLM's and llama.cpp's: go on to max_tokens, so that a benchmark knows the lengths


def flag(body: dict, name: str) -> bool:
    """The value of a field that is true or false; false when it is absent or null. Given."""
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise Invalid(f"{name!r} must be true or false, not {value!r}", name)
    return bool(value)


def refuse_unsupported(body: dict) -> None:
    """A field that would change the answer is not passed over in silence. Given."""
    for name, neutral in NEUTRAL.items():
        value = body.get(name)
        if value is not None and (type(value) is not type(neutral) or value != neutral):
            raise Invalid(f"{name!r} is not supported here: leave it out, or send {neutral!r}", name)


def read_prompt(body: dict) -> str | list[int]:
    """A text, or a list of token ids. Given."""
    prompt = body.get("prompt")
    whole = isinstance(prompt, list) and prompt and all(type(id) is int for id in prompt)
    if not whole and not isinstance(prompt, str):
        raise Invalid("'prompt' must be one string, or one list of token ids", "prompt")
    return prompt


def read_messages(body: dict) -> list[dict[str, str]]:
    """Messages with role and text; a content that comes in parts of type "text" is joined. Given."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Invalid("'messages' must be a list of at least one message", "messages")
    read = []
    for message in messages:
        role, content = (message.get(key) if isinstance(message, dict) else None for key in ("role", "content"))
        if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            texts = [part.get("text") for part in content]
            content = "".join(texts) if all(isinstance(text, str) for text in texts) else None
        if role not in ("system", "user", "assistant") or not isinstance(content, str):
            raise Invalid(
                "'messages' must be objects with a 'role' (system, user or assistant) and a text as 'content'",
                "messages",
            )
        read.append({"role": role, "content": content})
    return read


def limits(low: float, high: float) -> str:
    """The words for a range. Given."""
    least = f" of at least {low}" if low > -inf else ""
    return f" from {low} to {high}" if high < inf else least


def number(body: dict, name: str, default, low: float = -inf, high: float = inf, whole: bool = False):
    """Return the number in body[name], a float, or an int if `whole`; `default` when it is absent or null.

    Invalid, with the field's name in its sentence and as its param: no number, true or false (in JSON these are no
    numbers, to Python they are), one with a decimal point where an int is wanted (also 2.0), outside low..high, NaN.
    Example: {"temperature": 0} -> 0.0, with the default 1.0; {"max_tokens": true} -> Invalid.

    ●● · about 7 lines · part of parse_request
    """
    # TODO: absent, of the wrong kind, out of range; else the number
    raise NotImplementedError("level10.protocol.parse_request")


def parse_request(body: object, chat: bool = False) -> Call:
    """Return what a request asks for, from the JSON of /v1/completions, or with `chat` of /v1/chat/completions.

    NUMBERS has the numbers that SamplingParams takes, with their defaults. max_tokens is an integer of at least 1, by
    default DEFAULT_TOKENS; a chat may say max_completion_tokens, which wins over it. stop is a string or a list of at
    most 4, none of them empty, and becomes a tuple; by default there are none. `stream`, `ignore_eos` and
    stream_options.include_usage are flags; stream_options is an object, and needs stream: true. A null asks for the
    default. Unknown fields are ignored, and so is `model`, which is not looked at here.
    Example: {"prompt": "x", "temperature": 0, "stop": "a"} -> Call("x", SamplingParams(temperature=0.0, stop=("a",),
    max_tokens=16)), not streamed.
    Invalid (a ValueError), with a sentence that names the field, and the field as its param: whatever breaks these
    rules. A body that is no object, and fields that nobody here can obey, are refused too (given).

    ●● · about 14 lines
    """
    if not isinstance(body, dict):
        raise Invalid("the body must be a JSON object")
    refuse_unsupported(body)
    # TODO: stop, stream_options, max_tokens; then the numbers
    raise NotImplementedError("level10.protocol.parse_request")
