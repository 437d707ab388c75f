"""The API as an ASGI application: which path does what, and what a client hears when it can't be done. Given.

ASGI: a coroutine app(scope, receive, send), where scope says what is asked for, receive() gives the body and says when
the client has gone, and send(message) answers. There is no framework in between.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Callable

from level00.tokenizer import SmolTokenizer
from level05.engine import Request

from .bridge import AsyncEngine
from .errors import ApiError, Full, Invalid, NotAllowed, NotFound, TooLarge, error_object, log
from .protocol import Call, parse_request
from .respond import Job, Receive, Send, complete, send_json
from .stream import Head

MAX_BODY = 1 << 20  # bytes


async def read_body(receive: Receive, limit: int = MAX_BODY) -> bytes | None:
    """The body of a request; None when the client has gone before its end."""
    data, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        data, more = data + message.get("body", b""), message.get("more_body", False)
        if len(data) > limit:
            raise TooLarge(f"the body has more than {limit} bytes: send a shorter prompt")
    return data


def read_json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the body must be JSON ({error})") from None


def prompt_ids(call: Call, tokenizer: SmolTokenizer, max_seq_len: int) -> list[int]:
    """The prompt in tokens: an id that the model does not have would bring down the step of all others."""
    if isinstance(call.prompt, str) or call.chat:
        try:
            ids = tokenizer.encode_chat(call.prompt) if call.chat else tokenizer.encode(call.prompt)
        except UnicodeEncodeError:
            raise Invalid("the text must be Unicode: it has half of a surrogate pair in it") from None
    else:
        ids = call.prompt
    name = "messages" if call.chat else "prompt"
    if not all(0 <= id < tokenizer.vocab_size for id in ids):
        raise Invalid(f"'prompt' must hold token ids from 0 to {tokenizer.vocab_size - 1}", name)
    if not 0 < len(ids) < max_seq_len:
        raise Invalid(f"{name!r} has {len(ids)} tokens: it must have from 1 to {max_seq_len - 1}", name)
    return ids


def make_app(engine: AsyncEngine, tokenizer: SmolTokenizer, model_id: str, max_seq_len: int) -> Callable:
    """The ASGI application: /health, /v1/models, /v1/models/ID, /v1/completions and /v1/chat/completions."""
    began = int(time.time())
    card = {"id": model_id, "object": "model", "created": began, "owned_by": "you", "max_model_len": max_seq_len}

    def job(body: object, chat: bool) -> Job:
        call = parse_request(body, chat)
        if body.get("model", model_id) not in (model_id, None):
            raise NotFound(f"there is no model {body['model']!r}: this server has {model_id!r}", "model")
        id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        stop_ids = () if call.ignore_eos else (tokenizer.eos_id, tokenizer.special["<|endoftext|>"])
        request = Request(id, prompt_ids(call, tokenizer, max_seq_len), call.sampling, stop_ids)
        return Job(request, Head(id, model_id, int(time.time()), chat), call.stream, call.include_usage)

    async def answer(path: str, method: str, receive: Receive, send: Send) -> None:
        gets = {"/health": {"status": "ok"}, "/v1/models": {"object": "list", "data": [card]}}
        gets[f"/v1/models/{model_id}"] = card
        posts = ("/v1/completions", "/v1/chat/completions")
        if path not in gets and path not in posts:
            raise NotFound(f"there is no {path}: the paths are {', '.join([*gets, *posts])}")
        if method != ("GET" if path in gets else "POST"):
            raise NotAllowed(f"{path} does not know {method}: use {'GET' if path in gets else 'POST'}")
        if path in gets:
            await send_json(send, 200, gets[path])
        elif (data := await read_body(receive)) is not None:
            wanted = await asyncio.to_thread(job, read_json(data), "chat" in path)  # a long prompt takes its time
            await complete(engine, wanted, tokenizer.token_bytes, receive, send)

    async def app(scope: dict, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send, engine)
        if scope["type"] != "http":
            return
        started = False

        async def watched(message: dict) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await answer(scope["path"], scope["method"], receive, watched)
        except Exception as error:
            if started:  # half an answer has been sent: the server breaks the connection off
                raise
            if not isinstance(error, ApiError):
                log.error("a request failed", exc_info=error)
            headers = {"retry-after": "1"} if isinstance(error, Full) else {}
            if isinstance(error, NotAllowed):
                headers = {"allow": "POST" if "completions" in scope["path"] else "GET"}
            await send_json(send, getattr(error, "status", 500), error_object(error), headers)

    return app


async def live(receive: Receive, send: Send, engine: AsyncEngine) -> None:
    """The server says when it starts and when it stops."""
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await engine.close()
    await send({"type": "lifespan.shutdown.complete"})
