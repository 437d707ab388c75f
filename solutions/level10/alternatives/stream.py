"""Right programs, written another way, for level10.stream. `alternative` is given when this is read."""

# ---- completion_chunk


def _chunk_by_cases(head, text="", finish_reason=None, *, first=False, usage=None):
    if usage is not None:
        chunk = head.object("chat.completion.chunk" if head.chat else "text_completion", choices=[])
        chunk["usage"] = usage
        return chunk
    choice = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
    if not head.chat:
        return head.object("text_completion", [{**choice, "text": text}])
    choice["delta"] = {"content": text}
    if first:
        choice["delta"]["role"] = "assistant"
    return head.object("chat.completion.chunk", [choice])


def _chunk_from_scratch(head, text="", finish_reason=None, *, first=False, usage=None):
    chunk = {"model": head.model, "created": head.created, "id": head.id, "choices": []}
    chunk["object"] = ("text_completion", "chat.completion.chunk")[head.chat]
    if usage is None:
        choice = {"finish_reason": finish_reason, "logprobs": None, "index": 0}
        choice |= {"delta": dict([("role", "assistant")] * first, content=text)} if head.chat else {"text": text}
        chunk["choices"].append(choice)
    else:
        chunk |= {"usage": usage}
    return chunk


for program in (_chunk_by_cases, _chunk_from_scratch):
    alternative("level10.stream.stream_completion", program.__name__[1:], program=program, part="completion_chunk")

# ---- stream_completion


async def _first_piece_apart(pieces, head, prompt_tokens, include_usage=False):
    """The first piece is asked for outside of the `try`: its error passes on by itself."""
    from level10.errors import error_object
    from level10.sse import sse_event
    from level10.stream import completion_chunk, usage

    try:
        piece = await anext(pieces)
        if head.chat:
            yield sse_event(completion_chunk(head, first=True))
        while piece is not None:
            n = piece.num_tokens
            yield sse_event(completion_chunk(head, piece.text, piece.finish_reason))
            try:
                piece = await anext(pieces, None)
            except Exception as error:
                yield sse_event(error_object(error))
                break
        else:
            if include_usage:
                yield sse_event(completion_chunk(head, usage=usage(prompt_tokens, n)))
        yield sse_event("[DONE]")
    finally:
        await pieces.aclose()


async def _ends_with_the_reason(pieces, head, prompt_tokens, include_usage=False):
    """Asks for no piece behind the one that has a reason."""
    from contextlib import AsyncExitStack

    from level10.errors import error_object
    from level10.sse import sse_event
    from level10.stream import completion_chunk, usage

    started = ended = False
    async with AsyncExitStack() as stack:
        stack.push_async_callback(pieces.aclose)
        while not ended:
            try:
                piece = await anext(pieces)
            except Exception as error:
                if not started:
                    raise
                yield sse_event(error_object(error))
                yield sse_event("[DONE]")
                return
            if head.chat and not started:
                yield sse_event(completion_chunk(head, first=True))
            yield sse_event(completion_chunk(head, piece.text, piece.finish_reason))
            started, ended = True, piece.finish_reason is not None
    if include_usage:
        yield sse_event(completion_chunk(head, usage=usage(prompt_tokens, piece.num_tokens)))
    yield sse_event("[DONE]")


async def _payloads_first(pieces, head, prompt_tokens, include_usage=False):
    """One generator says what is said, another how it is written."""
    from contextlib import aclosing

    from level10.errors import error_object
    from level10.sse import sse_event
    from level10.stream import completion_chunk, usage

    async def payloads():
        last, late = None, None
        try:
            async for piece in pieces:
                if last is None and head.chat:
                    yield completion_chunk(head, "", None, first=True)
                last = piece
                yield completion_chunk(head, piece.text, piece.finish_reason)
        except Exception as error:
            if last is None:
                raise
            late = error
        finally:
            await pieces.aclose()
        if late is not None:
            yield error_object(late)
        elif include_usage:
            yield completion_chunk(head, usage=usage(prompt_tokens, last.num_tokens))
        yield "[DONE]"

    async with aclosing(payloads()) as parts:
        async for part in parts:
            yield sse_event(part)


for program in (_first_piece_apart, _ends_with_the_reason, _payloads_first):
    alternative("level10.stream.stream_completion", program.__name__[1:], program=program)
