"""Known-wrong programs of level10.respond. `ghost` is given when this is read."""

TASKS = "task, gone = asyncio.create_task(work), asyncio.create_task(disconnected(receive))"
WAIT = "await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)"
CANCEL = "        task.cancel()\n        gone.cancel()\n"
CLEAN = "        await asyncio.gather(task, gone, return_exceptions=True)  # a cancelled task has still to clean up\n"
RAISE = "    if not task.cancelled():\n        task.result()  # raises what `work` raised\n"
RETURN = "return not task.cancelled()"
MADE = "made = [piece async for piece in pieces]"
TEXT = '"".join(piece.text for piece in made)'
COST = "usage(len(job.request.prompt), last.num_tokens)"
WHOLE = "await send_json(send, 200, completion(job.head, text, last.finish_reason, spent))"
START = "            if not started:\n                await start(send, 200, EVENTS)\n"
BODY = "await body(send, event, more=True)"
LOOP = f"        async for event in events:\n{START}            started = True\n            {BODY}\n"
END = '    await body(send, b"")\n'
OPEN = "async with aclosing(engine.open(job.request)) as tokens:"
PIECES = "text_pieces(tokens, spell, job.request.stop_ids, job.request.sampling.stop)"
ANSWER = "answer = send_events if job.stream else send_whole"
UNLESS = "await unless_gone(answer(pieces, job, send), receive)"


def _ghost(name, sentence, *pairs):
    ghost("level10.respond.complete", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- unless_gone

_ghost(
    "never_listens",
    "To send to a client that has gone is no error: somebody must wait for http.disconnect, yours never does.",
    WAIT,
    "await asyncio.wait({task})",
)
_ghost(
    "waits_for_both",
    "The first of the two to end decides; yours waits for the client to go after the work is done.",
    "asyncio.FIRST_COMPLETED",
    "asyncio.ALL_COMPLETED",
)
_ghost(
    "time_limit",
    "Work ends by itself or when the client goes: yours gives it up after a while, and long answers are cut.",
    WAIT,
    "await asyncio.wait({task, gone}, timeout=10, return_when=asyncio.FIRST_COMPLETED)",
)
_ghost(
    "listens_first",
    "Work and listening go on side by side; yours waits for the client to go, and then begins.",
    TASKS,
    "await disconnected(receive)\n    " + TASKS,
)
_ghost(
    "receive_goes_on",
    "When work has ended, nobody may wait on receive() any more: yours leaves its listener behind.",
    CANCEL + CLEAN,
    "        task.cancel()\n        await asyncio.gather(task, return_exceptions=True)\n",
)
_ghost(
    "work_goes_on",
    "A client that has gone needs no answer: cancel the work. Yours waits for its end.",
    "        task.cancel()\n",
    "",
)
_ghost(
    "work_left_alone",
    "A client that has gone needs no answer: cancel the work. Yours returns, and it goes on in the background.",
    CANCEL + CLEAN,
    "        gone.cancel()\n        await asyncio.gather(gone, return_exceptions=True)\n        if not task.done():\n"
    "            return False\n",
)
_ghost(
    "cleaning_up_not_awaited",
    "cancel() only asks: wait until the work has cleaned up, which may take a while.",
    CLEAN,
    "",
    "    return not task.cancelled()",
    "    return task.done() and not task.cancelled()",
    "    if not task.cancelled():\n        task.result()",
    "    if task.done() and not task.cancelled():\n        task.result()",
)
_ghost(
    "error_lost",
    "What work raises passes on; yours returns as if it had ended well.",
    RAISE,
    "",
)
_ghost(
    "error_of_cleaning_up_lost",
    "What work raises passes on, also while it cleans up because the client has gone: yours loses that.",
    WAIT,
    "done, _ = " + WAIT,
    RAISE + "    " + RETURN,
    "    if task in done:\n        task.result()\n    return task in done",
)
_ghost(
    "error_is_a_client_that_left",
    "What work raises passes on; yours returns False, as if the client had gone.",
    RAISE + "    " + RETURN,
    "    return not task.cancelled() and not task.exception()",
)
_ghost(
    "always_true",
    "False when the client has gone: the caller can't tell otherwise.",
    RETURN,
    "return True",
)
_ghost(
    "asks_when_both_have_ended",
    "Who ended first is known before you cancel: afterwards both have ended, and yours always says that the client went.",
    RETURN,
    "return not gone.done()",
)
_ghost(
    "upside_down",
    "True says that the work came to its end, False that the client went.",
    RETURN,
    "return task.cancelled()",
)
_ghost(
    "any_message_is_a_farewell",
    "receive() may give something else first: only http.disconnect says that the client has gone.",
    "asyncio.create_task(disconnected(receive))",
    "asyncio.create_task(receive())",
)
_ghost(
    "cleaning_only_after_the_wait",
    "When this call is cancelled itself, the wait raises: the work must be cancelled then, too, in a `finally`.",
    f"    try:\n        {WAIT}\n    finally:\n{CANCEL}{CLEAN}",
    f"    {WAIT}\n" + (CANCEL + CLEAN).replace("        ", "    "),
)
_ghost(
    "cancelled_is_false",
    "Cancelled from outside, the CancelledError passes on when the work has ended; yours returns False.",
    f"    try:\n        {WAIT}\n    finally:\n",
    f"    try:\n        {WAIT}\n    except asyncio.CancelledError:\n        pass\n    finally:\n",
)

# ---- send_whole

_ghost(
    "pieces_for_tokens",
    "A piece may have several tokens: the last one knows how many the answer has, their number does not.",
    COST,
    "usage(len(job.request.prompt), len(made))",
)
_ghost(
    "tokens_summed_up",
    "num_tokens counts from the beginning of the answer: take the last, do not add them up.",
    COST,
    "usage(len(job.request.prompt), sum(piece.num_tokens for piece in made))",
)
_ghost(
    "prompt_for_free",
    "The usage has the tokens of the prompt as well.",
    COST,
    "usage(0, last.num_tokens)",
)
_ghost(
    "last_piece_only",
    "The answer is the text of all pieces; yours sends the last one.",
    TEXT,
    "made[-1].text",
)
_ghost(
    "last_piece_left_out",
    "The last piece has a finish_reason, and text, too: what was held back comes with it.",
    TEXT,
    '"".join(piece.text for piece in made[:-1])',
)
_ghost(
    "pieces_as_words",
    "A piece has its own spaces: join them without any.",
    TEXT,
    '" ".join(piece.text for piece in made)',
)
_ghost(
    "always_at_its_length",
    "Why the answer ended stands in the last piece: `stop` or `length`.",
    "text, last.finish_reason, spent",
    'text, "length", spent',
)
_ghost(
    "first_piece_knows_why",
    "Only the last piece has a finish_reason: the first one's is None.",
    "text, last.finish_reason, spent",
    "text, made[0].finish_reason, spent",
)
_ghost(
    "half_an_answer_is_no_error",
    "An error of `pieces` passes on, and nothing is sent; yours sends what there is.",
    MADE,
    "made = []\n    try:\n        async for piece in pieces:\n            made.append(piece)\n"
    "    except Exception:\n        if not made:\n            raise",
)
_ghost(
    "whole_status_first",
    "The status is sent with the answer: until then an error can still say 500.",
    MADE,
    'await start(send, 200, {"content-type": "application/json"})\n    ' + MADE,
    WHOLE,
    "await body(send, json.dumps(completion(job.head, text, last.finish_reason, spent)).encode())",
)

# ---- send_events

_ghost(
    "status_first",
    "The status leaves with the first event: before it, an error can still say 400 or 500.",
    "    started = False\n",
    "    started = True\n    await start(send, 200, EVENTS)\n",
)
_ghost(
    "status_each_time",
    "A response has one status; yours sends another before each event.",
    "            started = True\n",
    "",
)
_ghost(
    "no_status",
    "Before the first part of the body a status and the headers must be sent.",
    START,
    "",
)
_ghost(
    "no_end",
    "A response ends with a part that has no more to come: without it the client waits.",
    END,
    "",
)
_ghost(
    "each_is_the_last",
    "After an event more is to come: with more=False the server ends the response behind the first one.",
    BODY,
    "await body(send, event)",
)
_ghost(
    "collected",
    "Each event leaves as soon as it is made; yours collects them, and the first token comes with the last.",
    LOOP,
    "        collected = [event async for event in events]\n"
    + LOOP.replace("async for event in events", "for event in collected"),
)
_ghost(
    "one_behind",
    "An event leaves when it is made; yours keeps it until it knows whether another one follows.",
    LOOP,
    "        held = None\n        async for event in events:\n            if held is not None:\n"
    "                if not started:\n                    await start(send, 200, EVENTS)\n"
    "                started = True\n                await body(send, held, more=True)\n"
    "            held = event\n        if not started:\n            await start(send, 200, EVENTS)\n"
    "        await body(send, held, more=True)\n",
)
_ghost(
    "all_in_one_part",
    "A part of the body for each event; yours sends a single one at the end.",
    BODY,
    "whole = (whole if 'whole' in locals() else b'') + event",
    END,
    "    await body(send, whole, more=True)\n" + END,
)
_ghost(
    "headers_of_json",
    "A stream of events has the headers in EVENTS: clients look at the content type, proxies at the others.",
    "await start(send, 200, EVENTS)",
    'await start(send, 200, {"content-type": "application/json"})',
)
_ghost(
    "content_type_alone",
    "EVENTS has more than the content type: without `no-cache` and the like a proxy may keep the stream back.",
    "await start(send, 200, EVENTS)",
    'await start(send, 200, {"content-type": EVENTS["content-type"]})',
)
_ghost(
    "errors_become_events",
    "An error before the first event passes on: with a status of its own, not in a stream with status 200.",
    LOOP,
    "        try:\n"
    + LOOP.replace("\n    ", "\n        ").replace("        async for", "            async for", 1)
    + "        except Exception as error:\n            if not started:\n"
    "                await start(send, 200, EVENTS)\n"
    '            await body(send, f"data: {error}\\n\\n".encode(), more=True)\n',
)
_ghost(
    "done_twice",
    "stream_completion ends with [DONE]: yours says it once more.",
    END,
    '    await body(send, b"data: [DONE]\\n\\n", more=True)\n' + END,
)

# ---- complete

_ghost(
    "no_abort",
    "Close the Tokens yourself, whatever happens: text_pieces closes them once it has begun, and it may never begin.",
    OPEN,
    "tokens = engine.open(job.request)\n    if tokens:",
)
_ghost(
    "client_not_watched",
    "Sending does not tell that the client has gone: answer by way of unless_gone.",
    UNLESS,
    "await answer(pieces, job, send)",
)
_ghost(
    "whole_answers_not_watched",
    "A client that does not stream may go as well, and its answer is the longer wait.",
    UNLESS,
    "await (unless_gone(send_events(pieces, job, send), receive) if job.stream else send_whole(pieces, job, send))",
)
_ghost(
    "streams_not_watched",
    "A client that streams may go as well: its connection does not raise.",
    UNLESS,
    "await (send_events(pieces, job, send) if job.stream else unless_gone(send_whole(pieces, job, send), receive))",
)
_ghost(
    "always_streamed",
    "A client that does not ask for a stream gets one object.",
    ANSWER,
    "answer = send_events",
)
_ghost(
    "never_streamed",
    "A client that asks for a stream gets events.",
    ANSWER,
    "answer = send_whole",
)
_ghost(
    "stop_ids_forgotten",
    "The request's stop_ids end the answer with `stop`, and are not shown: hand them on to text_pieces.",
    PIECES,
    "text_pieces(tokens, spell, (), job.request.sampling.stop)",
)
_ghost(
    "stop_strings_forgotten",
    "The stop strings stand in the request's sampling: hand them on to text_pieces.",
    PIECES,
    "text_pieces(tokens, spell, job.request.stop_ids)",
)
_ghost(
    "refusal_answered_here",
    "What open() raises passes on: whoever calls this knows the status for it, yours sends a 200.",
    f"    {OPEN}\n",
    "    try:\n        opened = engine.open(job.request)\n    except Exception as error:\n"
    '        return await send_json(send, 200, {"error": str(error)})\n'
    "    async with aclosing(opened) as tokens:\n",
)
_ghost(
    "farewell",
    "Nobody is there: after the client has gone nothing is sent any more.",
    UNLESS,
    f'if not {UNLESS}:\n            await body(send, b"")',
)
_ghost(
    "cancellation_swallowed",
    "A CancelledError passes on, or a server that shuts down waits for requests that look finished.",
    UNLESS,
    f"try:\n            {UNLESS}\n        except asyncio.CancelledError:\n            pass",
)
_ghost(
    "errors_swallowed",
    "An error that comes before anything was sent passes on: yours answers nothing at all.",
    UNLESS,
    f"try:\n            {UNLESS}\n        except Exception:\n            pass",
)
