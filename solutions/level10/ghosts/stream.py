"""Known-wrong programs of level10.stream. `ghost` is given when this is read."""

# completion_chunk
KIND = 'kind = "chat.completion.chunk" if head.chat else "text_completion"'
IF_USAGE = "    if usage is not None:\n"
USAGE = 'return {**head.object(kind, []), "usage": usage}'
ROLE = 'role = {"role": "assistant"} if first else {}'
SAID = 'said = {"delta": {**role, "content": text}} if head.chat else {"text": text}'
CHOICE = '{"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}'
CHUNK = f"return head.object(kind, [{CHOICE}])"
# stream_completion
CLOSING = "    async with aclosing(pieces):\n"
FIRST = "                if head.chat and not num_tokens:\n"
SEND_ROLE = "                    yield sse_event(completion_chunk(head, first=True))\n"
COUNT = "                num_tokens = piece.num_tokens\n"
SEND = "                yield sse_event(completion_chunk(head, piece.text, piece.finish_reason))\n"
IF_ASKED = "            if include_usage:\n"
SEND_USAGE = "                yield sse_event(completion_chunk(head, usage=usage(prompt_tokens, num_tokens)))\n"
EXCEPT = "        except Exception as error:\n"
EARLY = "            if not num_tokens:\n                raise\n"
SEND_ERROR = "            yield sse_event(error_object(error))\n"
DONE = '    yield sse_event("[DONE]")'

BODY = (
    "        try:\n            async for piece in pieces:\n"
    + FIRST + SEND_ROLE + COUNT + SEND + IF_ASKED + SEND_USAGE + EXCEPT + EARLY + SEND_ERROR
)  # fmt: skip


def _ghost(name, sentence, *pairs, **more):
    ghost("level10.stream.stream_completion", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


def _own_closing(before, behind):
    """The same body with other lines around it than `async with aclosing`."""
    return CLOSING + BODY, before + BODY + behind


# ---- completion_chunk

_ghost(
    "usage_beside_a_choice",
    "The chunk with the usage has no choices, []: clients tell it from the others by that.",
    USAGE,
    f'said = {{"delta": {{"content": text}}}} if head.chat else {{"text": text}}\n        '
    f'return {{**head.object(kind, [{CHOICE}]), "usage": usage}}',
)
_ghost(
    "usage_without_a_list",
    "The chunk with the usage has an empty list under choices; yours has no such key, and clients index it.",
    USAGE,
    'return {k: v for k, v in {**head.object(kind, []), "usage": usage}.items() if k != "choices"}',
)
_ghost(
    "usage_of_null_in_all_chunks",
    "No other chunk than that with the usage has the key `usage`: others send null in it when include_usage is asked for.",
    CHUNK,
    f'return {{**head.object(kind, [{CHOICE}]), "usage": None}}',
    convention=True,
)
_ghost(
    "reason_is_an_empty_string",
    'finish_reason is null until the answer ends: the loop of many a client ends at "".',
    CHOICE,
    '{"index": 0, **said, "logprobs": None, "finish_reason": finish_reason or ""}',
)
_ghost(
    "reason_left_out",
    "finish_reason is there in every chunk, as null until the answer ends: clients read it without asking.",
    CHOICE,
    '{"index": 0, **said, "logprobs": None, **({"finish_reason": finish_reason} if finish_reason else {})}',
)
_ghost(
    "reason_never",
    "The last chunk says why the answer ends: yours passes no finish_reason on.",
    CHOICE,
    '{"index": 0, **said, "logprobs": None, "finish_reason": None}',
)
_ghost(
    "reason_outside_of_the_choice",
    "finish_reason belongs into the choice, not beside it.",
    CHUNK,
    'return {**head.object(kind, [{"index": 0, **said, "logprobs": None}]), "finish_reason": finish_reason}',
)
_ghost(
    "created_in_milliseconds",
    "created is in whole seconds, as the head has it.",
    CHUNK,
    f'return {{**head.object(kind, [{CHOICE}]), "created": head.created * 1000}}',
)
_ghost(
    "created_anew",
    "All chunks of an answer have the head's `created`: it says when the request came, not when the chunk was made.",
    CHUNK,
    f'return {{**head.object(kind, [{CHOICE}]), "created": int(__import__("time").time())}}',
)
_ghost(
    "kind_of_a_whole_chat",
    'A chunk of a chat is a "chat.completion.chunk"; "chat.completion" is the answer as a whole.',
    KIND,
    'kind = "chat.completion" if head.chat else "text_completion"',
)
_ghost(
    "kind_of_a_chunk_of_text",
    'A chunk of a completion is a "text_completion", like the whole of one: only chats have a name of their own for it.',
    KIND,
    'kind = "chat.completion.chunk" if head.chat else "text_completion.chunk"',
)
_ghost(
    "kind_of_text_always",
    'A chunk of a chat is a "chat.completion.chunk", not a "text_completion".',
    KIND,
    'kind = "text_completion"',
)
_ghost(
    "text_in_a_chat",
    'A chat\'s choice has a "delta" with the content in place of "text".',
    SAID,
    'said = {"text": text}',
)
_ghost(
    "delta_in_a_completion",
    'A completion\'s choice has its text under "text": "delta" is for chats.',
    SAID,
    'said = {"delta": {**role, "content": text}}',
)
_ghost(
    "message_for_delta",
    'A chunk of a chat has a "delta"; the "message" is in the answer as a whole.',
    SAID,
    'said = {"message": {**role, "content": text}} if head.chat else {"text": text}',
)
_ghost(
    "delta_of_text",
    'A chat\'s delta is an object with "content", not the text itself.',
    SAID,
    'said = {"delta": {**role, "content": text} if first else text} if head.chat else {"text": text}',
)
_ghost(
    "role_in_every_chunk",
    "The role is in the first chunk of a chat and in no other: clients add up the deltas.",
    ROLE,
    'role = {"role": "assistant"}',
)
_ghost(
    "no_role",
    "The first chunk of a chat says who speaks: its delta has the role.",
    ROLE,
    "role = {}",
)
_ghost(
    "role_of_the_user",
    'It is the assistant who answers: the role is "assistant".',
    ROLE,
    'role = {"role": "user"} if first else {}',
)
_ghost(
    "role_without_content",
    "The first chunk of a chat has the role and the content, its text: yours leaves the content out.",
    SAID,
    'said = {"delta": role if first else {"content": text}} if head.chat else {"text": text}',
)
_ghost(
    "role_beside_the_text",
    "Only a chat has roles: the first chunk of a completion looks like the others.",
    SAID,
    'said = {"delta": {**role, "content": text}} if head.chat else {**role, "text": text}',
)
_ghost(
    "empty_delta_at_the_end",
    'Your last chunk of a chat has an empty delta: here each one has "content", which may be "".',
    SAID,
    'said = {"delta": {**role, **({"content": text} if text or first else {})}} if head.chat else {"text": text}',
    convention=True,
)
_ghost(
    "no_index",
    "A choice has an index, 0 here: there could be several.",
    CHOICE,
    '{**said, "logprobs": None, "finish_reason": finish_reason}',
)
_ghost(
    "no_logprobs",
    'A choice has the key "logprobs", as null: there are none here.',
    CHOICE,
    '{"index": 0, **said, "finish_reason": finish_reason}',
)

# ---- stream_completion: the chunks

_ghost(
    "collects_the_pieces",
    "Each chunk leaves as soon as its piece is known: yours collects them, and the user waits for the whole answer.",
    BODY,
    BODY.replace("async for piece in pieces:", "for piece in [piece async for piece in pieces]:"),
)
_ghost(
    "a_piece_late",
    "Each chunk leaves as soon as its piece is known: yours waits for the next piece first.",
    SEND,
    "                if waiting:\n                    yield waiting\n"
    "                waiting = sse_event(completion_chunk(head, piece.text, piece.finish_reason))\n",
    "    num_tokens = 0\n",
    "    num_tokens, waiting = 0, None\n",
    IF_ASKED,
    "            yield waiting\n" + IF_ASKED,
)
_ghost(
    "skips_empty_pieces",
    "Each piece has its chunk: the last one may have no text, and it says why the answer ends.",
    SEND,
    "                if piece.text:\n    " + SEND,
)
_ghost(
    "skips_the_last_piece",
    "The last piece may have text: it is a chunk like the others, with a reason.",
    SEND,
    SEND.replace("piece.text", '"" if piece.finish_reason else piece.text'),
)
_ghost(
    "reason_in_a_chunk_of_its_own",
    "Each piece is one chunk: the last one has its text and the reason together.",
    SEND,
    "                yield sse_event(completion_chunk(head, piece.text))\n"
    "                if piece.finish_reason:\n"
    '                    yield sse_event(completion_chunk(head, "", piece.finish_reason))\n',
)
_ghost(
    "reasons_are_not_passed_on",
    "A piece's finish_reason belongs into its chunk: without it no client knows why the answer ended.",
    SEND,
    "                yield sse_event(completion_chunk(head, piece.text))\n",
)
_ghost(
    "text_so_far",
    "A chunk has the text that is new: clients add it to what they have.",
    SEND,
    "                text += piece.text\n"
    "                yield sse_event(completion_chunk(head, text, piece.finish_reason))\n",
    "    num_tokens = 0\n",
    '    num_tokens, text = 0, ""\n',
)
_ghost(
    "chunks_are_not_events",
    "What is yielded is bytes, one event each: sse_event makes them of a chunk.",
    SEND,
    "                yield completion_chunk(head, piece.text, piece.finish_reason)\n",
)
_ghost(
    "role_before_the_first_piece",
    "The role's chunk comes with the first piece: sent before, it fixes status 200, and an early error can't have its own.",
    FIRST + SEND_ROLE,
    "",
    "    num_tokens = 0\n",
    "    num_tokens = 0\n    if head.chat:\n        yield sse_event(completion_chunk(head, first=True))\n",
)
_ghost(
    "role_chunk_before_each_piece",
    "The chunk with the role is the first of the stream, and there is one: yours sends it before each piece.",
    FIRST,
    "                if head.chat:\n",
)
_ghost(
    "no_role_chunk",
    "A chat begins with a chunk that has the role and no text.",
    FIRST + SEND_ROLE,
    "",
)
_ghost(
    "role_with_the_first_text",
    "The chunk with the role has no text: the first piece has a chunk of its own.",
    FIRST + SEND_ROLE,
    "",
    COUNT + SEND,
    "                yield sse_event(completion_chunk(head, piece.text, piece.finish_reason, first=not num_tokens))\n"
    + COUNT,
)
_ghost(
    "role_and_text_at_once",
    "One event at a time: yours yields the role's chunk and the first text's as one.",
    FIRST + SEND_ROLE,
    "",
    COUNT + SEND,
    '                role = sse_event(completion_chunk(head, first=True)) if head.chat and not num_tokens else b""\n'
    "                yield role + sse_event(completion_chunk(head, piece.text, piece.finish_reason))\n" + COUNT,
)
_ghost(
    "role_chunk_in_a_completion",
    "Only a chat begins with a chunk of its own: a completion begins with its text.",
    FIRST,
    "                if not num_tokens:\n",
)

# ---- stream_completion: usage and end

_ghost(
    "usage_unasked",
    "The usage is sent only if include_usage asks for it: other clients index the choices of its chunk.",
    IF_ASKED,
    "            if True:\n",
)
_ghost(
    "usage_never",
    "include_usage asks for a chunk with the usage, behind the last piece's.",
    IF_ASKED + SEND_USAGE,
    "",
)
_ghost(
    "usage_after_each_piece",
    "There is one chunk with the usage, behind all pieces: yours sends one after each.",
    IF_ASKED + SEND_USAGE,
    "                if include_usage:\n    " + SEND_USAGE,
)
_ghost(
    "usage_of_chunks",
    "completion_tokens counts tokens: a piece may stand for several, so the last one's num_tokens is their number.",
    COUNT,
    "                num_tokens += 1\n",
)
_ghost(
    "usage_of_all_counts_added_up",
    "num_tokens of a piece is that of the answer so far: the last one's is the total, not their sum.",
    COUNT,
    "                num_tokens += piece.num_tokens\n",
)
_ghost(
    "usage_exchanged",
    "usage() takes the tokens of the prompt first, then those of the answer.",
    SEND_USAGE,
    SEND_USAGE.replace("prompt_tokens, num_tokens", "num_tokens, prompt_tokens"),
)
_ghost(
    "usage_without_the_prompt",
    "The prompt's tokens are part of the usage: the caller gives their number.",
    SEND_USAGE,
    SEND_USAGE.replace("prompt_tokens, num_tokens", "0, num_tokens"),
)
_ghost(
    "usage_beside_the_last_text",
    "The usage has a chunk of its own, behind that of the last piece: yours puts it in the latter's place.",
    SEND,
    "                if include_usage and piece.finish_reason:\n                    continue\n" + SEND,
)
_ghost(
    "usage_behind_done",
    '"[DONE]" is the last event: nobody reads a usage that comes behind it.',
    IF_ASKED + SEND_USAGE,
    "",
    DONE,
    DONE
    + "\n    if include_usage:\n        yield sse_event(completion_chunk(head, usage=usage(prompt_tokens, num_tokens)))",
)
_ghost(
    "usage_after_an_error",
    "An error comes in place of all that would have come: a usage behind it looks like a success.",
    IF_ASKED + SEND_USAGE,
    "",
    DONE,
    "    if include_usage:\n        yield sse_event(completion_chunk(head, usage=usage(prompt_tokens, num_tokens)))\n"
    + DONE,
)
_ghost(
    "usage_before_the_last_piece",
    "The usage comes behind the last piece, whose chunk ends the answer.",
    IF_ASKED + SEND_USAGE,
    "",
    SEND,
    "                if include_usage and piece.finish_reason:\n    " + SEND_USAGE + SEND,
)

# ---- stream_completion: errors

_ghost(
    "early_error_as_an_event",
    "Before the first piece there is still time for an HTTP status: such an error passes on.",
    EARLY,
    "",
)
_ghost(
    "late_error_passes_on",
    "Status 200 has been sent: a later error becomes an event, else the connection just breaks off.",
    EARLY + SEND_ERROR,
    "            raise\n",
)
_ghost(
    "late_error_in_silence",
    "A later error becomes an event: a client that reads only [DONE] takes half an answer for the whole.",
    SEND_ERROR,
    "            pass\n",
)
_ghost(
    "late_error_as_a_reason",
    "A later error is an event of its own, error_object(error): yours is a chunk that ends like an answer.",
    SEND_ERROR,
    '            yield sse_event(completion_chunk(head, "", "error"))\n',
)
_ghost(
    "late_error_as_text",
    "A later error is an object with message, type, param and code: error_object makes it.",
    SEND_ERROR,
    '            yield sse_event({"error": str(error)})\n',
)
_ghost(
    "late_error_of_its_own_shape",
    'An error in a stream has the shape {"error": {...}}, which error_object makes: yours leaves the outer object out.',
    SEND_ERROR,
    '            yield sse_event(error_object(error)["error"])\n',
)
_ghost(
    "late_error_without_details",
    "An error keeps its own message, type and code: error_object(error) is made of the error that was raised.",
    SEND_ERROR,
    '            yield sse_event(error_object(RuntimeError("internal error")))\n',
)
_ghost(
    "no_done_after_an_error",
    '"[DONE]" comes always, also behind an error: strict clients wait for it.',
    SEND_ERROR,
    SEND_ERROR + "            return\n",
)
_ghost(
    "error_and_raise",
    "The error has become an event: raised as well, it breaks the stream before [DONE].",
    SEND_ERROR,
    SEND_ERROR + "            raise\n",
)
_ghost(
    "only_known_errors",
    "Any later error becomes an event, also one that the server does not know: error_object takes them all.",
    EXCEPT,
    '        except __import__("level10.errors").errors.ApiError as error:\n',
)
_ghost(
    "late_value_error_passes_on",
    "Late is late: also a ValueError, which a bad request would be, can't have a status of its own any more.",
    EARLY,
    "            if not num_tokens or isinstance(error, ValueError):\n                raise\n",
)
_ghost(
    "early_means_before_two_chunks",
    "Late begins with the first piece: once its chunk has been sent an error can't have a status any more.",
    EARLY,
    "            if num_tokens < 2:\n                raise\n",
)

# ---- stream_completion: closing

_ghost(
    "never_closed",
    "Leaving an `async for` closes nothing: await pieces.aclose() however the stream ends, or the engine goes on.",
    CLOSING,
    "    if True:\n",
)
_ghost(
    "closed_at_the_end_only",
    "`pieces` is closed also when an error passes on and when the reader leaves: a line at the end does not run then.",
    *_own_closing("    if True:\n", "    await pieces.aclose()\n"),
)
_ghost(
    "closed_on_an_exception",
    "A reader who leaves raises GeneratorExit, which `except Exception` does not see: `pieces` stays open.",
    *_own_closing(
        "    try:\n",
        "    except Exception:\n        await pieces.aclose()\n        raise\n    await pieces.aclose()\n",
    ),
)
_ghost(
    "open_after_a_cancellation",
    "A task that is cancelled raises CancelledError, which is neither an Exception nor a GeneratorExit: use `finally`.",
    *_own_closing(
        "    try:\n",
        "    except (Exception, GeneratorExit):\n        await pieces.aclose()\n        raise\n    await pieces.aclose()\n",
    ),
)
_ghost(
    "open_after_an_early_error",
    "`pieces` is closed however the stream ends, also when an early error passes on.",
    *_own_closing(
        "    try:\n",
        "    except BaseException:\n        if num_tokens:\n            await pieces.aclose()\n        raise\n    await pieces.aclose()\n",
    ),
)
_ghost(
    "open_after_a_late_error",
    "`pieces` is closed however the stream ends, also behind an error that became an event.",
    CLOSING + BODY,
    "    raised = False\n    try:\n"
    + BODY.replace(SEND_ERROR, "            raised = True\n" + SEND_ERROR)
    + "    finally:\n        if not raised:\n            await pieces.aclose()\n",
)
_ghost(
    "leaving_is_an_error",
    "Whoever leaves raises GeneratorExit, and nothing can be yielded then: only an Exception becomes an event.",
    EXCEPT,
    "        except BaseException as error:\n",
)
_ghost(
    "cancellation_is_an_error",
    "A cancelled task is no error of the stream: CancelledError passes on, no event is made of it.",
    EXCEPT,
    '        except (Exception, __import__("asyncio").CancelledError) as error:\n',
)
