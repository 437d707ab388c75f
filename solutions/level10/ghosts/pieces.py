"""Known-wrong programs of level10.pieces. `ghost` is given when this is read."""

CLOSING = "    async with aclosing(tokens):\n"
COUNT = "            num_tokens += 1\n"
ENDED = "ended = token in stop_ids"
DECODE = 'decoder.decode(b"" if ended else spell(token), final=last)'
FEED = f"text = stops.feed({DECODE})"
FLUSH = "            if last:\n                text += stops.flush()\n"
BREAK = "            if last or stops.stopped:\n                break\n"
SHOW = "            if text:\n                yield Piece(text, num_tokens)\n"
REASON = 'reason = "stop" if stops.stopped or ended else "length"'
LAST = "yield Piece(text, num_tokens, reason)"

LOOP = (
    "        async for token, last in tokens:\n"
    + COUNT
    + f"            {ENDED}\n            {FEED}\n"
    + FLUSH
    + BREAK
    + SHOW
)


def _ghost(name, sentence, *pairs):
    ghost("level10.pieces.text_pieces", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _own_closing(before, behind):
    """The same loop with other lines around it than `async with aclosing`."""
    return CLOSING + LOOP, before + LOOP + behind


# ---- text

_ghost(
    "decodes_each_token",
    "A character may be spread over several tokens: keep its first bytes until the last one has come.",
    DECODE,
    '(b"" if ended else spell(token)).decode("utf-8", "replace")',
)
_ghost(
    "drops_what_it_cannot_decode",
    "A character over several tokens is text: ignoring the bytes that can't be decoded alone deletes every emoji.",
    DECODE,
    '(b"" if ended else spell(token)).decode("utf-8", "ignore")',
)
_ghost(
    "incomplete_character_lost",
    "An answer may end within a character: at its end one U+FFFD comes out, where yours says nothing.",
    DECODE,
    'decoder.decode(b"" if ended else spell(token))',
)
_ghost(
    "incomplete_character_lost_at_a_stop_token",
    "A stop token ends the answer too: the incomplete character before it comes out as U+FFFD.",
    FEED,
    f'text = stops.feed("" if ended else {DECODE})',
)
_ghost(
    "strict_decoding",
    "A model may give any bytes: what is no UTF-8 becomes U+FFFD, it does not raise.",
    'getincrementaldecoder("utf-8")("replace")',
    'getincrementaldecoder("utf-8")("strict")',
)
_ghost(
    "waits_at_a_replacement_mark",
    "U+FFFD at the end of the text may be a token's own: hold bytes back that are incomplete, not a mark that is text.",
    "    num_tokens = 0\n",
    '    num_tokens, held = 0, b""\n',
    FEED,
    'held += b"" if ended else spell(token)\n'
    '            text = held.decode("utf-8", "replace")\n'
    '            text = "" if text.endswith("\\ufffd") and not last else text\n'
    '            held = held if text == "" else b""\n'
    "            text = stops.feed(text)",
)
_ghost(
    "strips_spaces",
    "Spaces and line breaks at a token's ends are text: without them all words run together.",
    f"            {FEED}\n",
    f"            {FEED}.strip()\n",
)
_ghost(
    "blank_text_is_no_text",
    "A piece of nothing but spaces or line breaks is text: it is shown as soon as its token is known.",
    SHOW,
    "            if text.strip():\n                yield Piece(text, num_tokens)\n",
)
_ghost(
    "bytes_of_the_answer_decoded_as_latin_1",
    "Tokens are UTF-8: read as one letter for each byte, é becomes Ã©.",
    DECODE,
    '(b"" if ended else spell(token)).decode("latin-1")',
)

# ---- stop strings

_ghost(
    "searches_each_piece_alone",
    "A stop string may be spread over several tokens: yours has shown the first half when the second one comes.",
    FEED,
    f"stops = StopStrings(stop)\n            text = stops.feed({DECODE})\n            text += stops.flush()",
)
_ghost(
    "forgets_what_it_held",
    "Text that is held back is shown as soon as it is known to be no stop string: yours begins anew at each token.",
    FEED,
    f"stops = StopStrings(stop)\n            text = stops.feed({DECODE})",
)
_ghost(
    "held_text_lost_at_the_end",
    "What was held back and turned out to be no stop string comes with the last piece.",
    FLUSH,
    "",
)
_ghost(
    "held_text_lost_at_a_stop_token",
    "A stop token ends the answer too: the text that was held back before it is shown.",
    FLUSH,
    "            if last and not ended:\n                text += stops.flush()\n",
)
_ghost(
    "flushes_before_the_last_token",
    "The last token may complete a stop string: feed it before you flush, or the beginning of the stop string is shown.",
    FEED,
    f'before = stops.flush() if last else ""\n            text = before + stops.feed({DECODE})',
)
_ghost(
    "rest_of_the_decoder_in_front",
    "An incomplete character stands behind the text that was held back; it goes through the stop strings like all text.",
    DECODE,
    'decoder.decode(b"" if ended else spell(token))',
    FLUSH,
    '            if last:\n                text += decoder.decode(b"", final=True) + stops.flush()\n',
)
_ghost(
    "rest_of_the_decoder_in_front_unless_stopped",
    "What the decoder still holds came last: it stands behind the text that was held back, as one U+FFFD.",
    DECODE,
    'decoder.decode(b"" if ended else spell(token))',
    FLUSH,
    "            if last and not stops.stopped:\n"
    '                text += decoder.decode(b"", final=True) + stops.flush()\n',
)
_ghost(
    "no_stop_strings_at_all",
    "The answer ends before the first of the stop strings: yours does not look for them.",
    FEED,
    f"text = {DECODE}",
)
_ghost(
    "stop_strings_only_at_the_end",
    "Yours shows a stop string that the text goes on after: cut it where it begins, whatever follows in its token.",
    FEED,
    f"text = {DECODE}\n"
    "            if any(text.endswith(one) for one in stop):\n"
    "                text = stops.feed(text)",
)
_ghost(
    "goes_on_after_a_stop_string",
    "After a stop string no further token is asked for: each costs the engine a step, and none is shown.",
    BREAK,
    "            if last:\n                break\n",
)
_ghost(
    "one_token_more",
    "The answer ends with the token that completes the stop string: yours asks for one more before it notices.",
    COUNT,
    "            if stops.stopped:\n                break\n" + COUNT,
    BREAK,
    "            if last:\n                break\n",
    SHOW,
    "            if text and not stops.stopped:\n                yield Piece(text, num_tokens)\n",
    LAST,
    'yield Piece("" if stops.stopped and not last else text, num_tokens, reason)',
)
_ghost(
    "text_before_a_stop_string_lost",
    "The text before the stop string belongs to the answer, also when it comes with the same token.",
    REASON,
    'text = "" if stops.stopped else text\n    ' + REASON,
)
_ghost(
    "shows_the_stop_string",
    "The answer ends before the stop string: it is not shown itself.",
    REASON,
    'text += stop[0] if stops.stopped else ""\n    ' + REASON,
)

# ---- stop tokens

_ghost(
    "shows_the_stop_token",
    "A stop token ends the answer and is not shown: nobody wants to read <|im_end|>.",
    DECODE,
    "decoder.decode(spell(token), final=last)",
)
_ghost(
    "stop_token_not_counted",
    "A stop token is not shown, but the engine has made it: num_tokens counts it.",
    COUNT,
    "            num_tokens += token not in stop_ids\n",
)
_ghost(
    "one_stop_token",
    "There may be several stop tokens: any of them ends the answer, not only the first.",
    ENDED,
    "ended = token in list(stop_ids)[:1]",
)
_ghost(
    "token_zero_stops_nothing",
    "Token 0 may be a stop token like any other: a condition that takes 0 for nothing misses it.",
    ENDED,
    "ended = bool(token) and token in stop_ids",
)
_ghost(
    "last_token_never_shown",
    "The last token is a stop token only if it is one of stop_ids: at a length limit it is text.",
    DECODE,
    'decoder.decode(b"" if last else spell(token), final=last)',
)

# ---- the pieces

_ghost(
    "collects_the_answer",
    "A piece is yielded as soon as its token is known: yours collects them all, and the user waits for the last one.",
    LOOP,
    LOOP.replace(
        "            if text:\n                yield ", "            if text:\n                pieces.append("
    ).replace("Piece(text, num_tokens)\n", "Piece(text, num_tokens))\n"),
    "    num_tokens = 0\n",
    "    num_tokens, pieces = 0, []\n",
    REASON,
    "for piece in pieces:\n        yield piece\n    " + REASON,
)
_ghost(
    "a_token_late",
    "A piece is yielded before the next token is asked for: yours waits for that one first, and is a token late.",
    "    num_tokens = 0\n",
    "    num_tokens, waiting = 0, None\n",
    COUNT,
    "            if waiting:\n                yield waiting\n                waiting = None\n" + COUNT,
    SHOW,
    "            if text:\n                waiting = Piece(text, num_tokens)\n",
)
_ghost(
    "one_piece_at_the_end",
    "An answer comes in pieces, each as soon as its token is known: yours is one piece, at the end.",
    "    num_tokens = 0\n",
    '    num_tokens, whole = 0, ""\n',
    FLUSH,
    FLUSH + "            whole += text\n            text = whole\n",
    SHOW,
    "",
)
_ghost(
    "repeats_the_answer",
    "A piece has the text that is new, not all of the answer so far.",
    "    num_tokens = 0\n",
    '    num_tokens, whole = 0, ""\n',
    FLUSH,
    FLUSH + "            whole += text\n            text = whole if text else text\n",
)
_ghost(
    "empty_pieces",
    "A token that shows no text gives no piece; only the last piece may be empty.",
    SHOW,
    "            yield Piece(text, num_tokens)\n",
)
_ghost(
    "last_text_apart",
    "A token gives at most one piece: the text of the last one comes with the reason, not in a piece before it.",
    BREAK + SHOW,
    SHOW + '            if last or stops.stopped:\n                text = ""\n                break\n',
)
_ghost(
    "counts_the_pieces",
    "num_tokens is how many tokens the answer has so far, those that gave no piece included: yours counts pieces.",
    COUNT,
    "",
    SHOW,
    "            if text:\n                num_tokens += 1\n                yield Piece(text, num_tokens)\n",
    LAST,
    "yield Piece(text, num_tokens + 1, reason)",
)
_ghost(
    "counts_anew_for_each_piece",
    "num_tokens is of the answer so far: yours begins at 0 again after each piece.",
    SHOW,
    SHOW + "                num_tokens = 0\n",
)
_ghost(
    "counts_from_zero",
    "The first token is the first: after it the answer has one token, not none.",
    COUNT,
    "",
    SHOW,
    SHOW + COUNT,
)
_ghost(
    "counts_letters",
    "num_tokens counts tokens: a token may be several letters, or none.",
    COUNT,
    "            num_tokens += len(spell(token))\n",
)

# ---- why it ends

_ghost(
    "length_after_a_stop_string",
    'An answer that ends before a stop string ended with "stop", as after one of stop_ids.',
    REASON,
    'reason = "stop" if ended else "length"',
)
_ghost(
    "length_after_a_stop_token",
    'An answer that ends with one of stop_ids ended with "stop", as before a stop string.',
    REASON,
    'reason = "stop" if stops.stopped else "length"',
)
_ghost(
    "always_stop",
    'An answer that the engine ends for its length has the reason "length".',
    REASON,
    'reason = "stop"',
)
_ghost(
    "always_length",
    'An answer that ends with one of stop_ids or before a stop string has the reason "stop".',
    REASON,
    'reason = "length"',
)
_ghost(
    "the_limit_wins_over_a_stop_string",
    'The last token may complete a stop string: the reason is "stop" then, though the limit was reached too.',
    REASON,
    'reason = "stop" if stops.stopped and not last or ended else "length"',
)
_ghost(
    "the_engine_decides",
    'That the engine is done is no reason: with the last token it is "stop" only if this is one of stop_ids.',
    REASON,
    'reason = "stop" if last else "length"',
)
_ghost(
    "eos_for_stop",
    'The reason after a stop token is "stop", as the API has it, not a name of its own.',
    REASON,
    'reason = "stop" if stops.stopped else "eos" if ended else "length"',
)

# ---- closing

_ghost(
    "never_closed",
    "Leaving an `async for` closes nothing: await tokens.aclose() however the answer ends, or the engine goes on.",
    CLOSING,
    "    if True:\n",
)
_ghost(
    "closed_when_all_is_well",
    "`tokens` is closed also when something raises and when the reader leaves: a line behind the loop does not run then.",
    *_own_closing("    if True:\n", "    await tokens.aclose()\n"),
)
_ghost(
    "closed_on_an_exception",
    "A reader who leaves raises GeneratorExit, which `except Exception` does not see: `tokens` stays open.",
    *_own_closing(
        "    try:\n",
        "    except Exception:\n        await tokens.aclose()\n        raise\n    await tokens.aclose()\n",
    ),
)
_ghost(
    "open_after_a_cancellation",
    "A task that is cancelled raises CancelledError, which is neither an Exception nor a GeneratorExit: use `finally`.",
    *_own_closing(
        "    try:\n",
        "    except (Exception, GeneratorExit):\n        await tokens.aclose()\n        raise\n    await tokens.aclose()\n",
    ),
)
_ghost(
    "open_after_an_error",
    "After an error of `tokens` it is closed as well; yours closes it only for a reader who leaves.",
    *_own_closing(
        "    import asyncio\n\n    try:\n",
        "    except (GeneratorExit, asyncio.CancelledError):\n        await tokens.aclose()\n        raise\n    await tokens.aclose()\n",
    ),
)
_ghost(
    "open_after_a_stop_string",
    "A stop string ends the answer before the engine does: that is when closing `tokens` saves the most steps.",
    *_own_closing(
        "    try:\n",
        "    except BaseException:\n        await tokens.aclose()\n        raise\n    if not stops.stopped:\n        await tokens.aclose()\n",
    ),
)
_ghost(
    "closed_only_after_a_stop_string",
    "`tokens` is closed however the answer ends; yours closes it only after a stop string.",
    *_own_closing("    if True:\n", "    if stops.stopped:\n        await tokens.aclose()\n"),
)
_ghost(
    "error_is_an_end",
    "An error passes on: yours ends the answer as if it were complete, and the client takes half for the whole.",
    *_own_closing(
        '    text, ended = "", False\n    try:\n',
        "    except Exception:\n        pass\n    finally:\n        await tokens.aclose()\n",
    ),
)
_ghost(
    "cancellation_is_an_end",
    "A cancellation passes on: who catches it and goes on yielding can't be stopped.",
    *_own_closing(
        '    import asyncio\n\n    text, ended = "", False\n    try:\n',
        "    except asyncio.CancelledError:\n        pass\n    finally:\n        await tokens.aclose()\n",
    ),
)
_ghost(
    "held_text_shown_after_an_error",
    "After an error there is no last piece: yours still shows what was held back.",
    *_own_closing(
        "    try:\n",
        "    except Exception:\n        if rest := stops.flush():\n            yield Piece(rest, num_tokens)\n        raise\n"
        "    finally:\n        await tokens.aclose()\n",
    ),
)
