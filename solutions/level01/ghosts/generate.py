"""Known-wrong programs of level01.generate. `ghost` is given when this is read."""

NAIVE = "        logits = forward(params, config, torch.tensor([[*prompt, *output]]))\n"
STOP = "        if output[-1] in stop_ids:\n            break\n"


ghost(
    "level01.generate.generate_naive",
    "first_position",
    "The next token is predicted at the last position; position 0 has seen the first token alone.",
    change=("logits[:, -1]", "logits[:, 0]"),
)
ghost(
    "level01.generate.generate_naive",
    "stays_at_the_prompt",
    "The last position moves: the sequence grows by a token at each step, and you read where the prompt ends.",
    change=("logits[:, -1]", "logits[:, len(prompt) - 1]"),
)
ghost(
    "level01.generate.generate_naive",
    "forgets_the_past",
    "Without a cache the whole sequence is fed at every step: the newest token alone has no past.",
    change=("[[*prompt, *output]]", "[output[-1:] or list(prompt)]"),
)
ghost(
    "level01.generate.generate_naive",
    "forgets_the_prompt",
    "The prompt is part of the sequence at every step; yours goes on from the new tokens alone.",
    change=("[[*prompt, *output]]", "[output or list(prompt)]"),
)
ghost(
    "level01.generate.generate_naive",
    "feeds_the_prompt_only",
    "Feed each new token too: the model sees the same prompt at every step, and says the same token.",
    change=("[[*prompt, *output]]", "[list(prompt)]"),
)
ghost(
    "level01.generate.generate_naive",
    "with_a_cache",
    "Right tokens, but this loop is the one without a cache: it runs the whole sequence at every step.",
    change=[
        ("    output: list[int] = []\n", "    output: list[int] = []\n    cache = SimpleCache(config.n_layers)\n"),
        (NAIVE, "        logits = forward(params, config, torch.tensor([output[-1:] or list(prompt)]), cache)\n"),
    ],
)
ghost(
    "level01.generate.generate_naive",
    "ignores_stop",
    "A stop token ends the text: otherwise the request runs on to max_tokens.",
    change=(STOP, ""),
)
ghost(
    "level01.generate.generate_naive",
    "drops_the_stop_token",
    "The stop token is part of the result; whoever shows the text leaves it out.",
    change=(STOP, STOP.replace("break", "return output[:-1]")),
    convention=True,
)
ghost(
    "level01.generate.generate_naive",
    "one_too_many",
    "max_tokens counts the new tokens exactly; yours makes one more.",
    change=("while len(output) < max_tokens:", "while len(output) <= max_tokens:"),
)
ghost(
    "level01.generate.generate_naive",
    "counts_the_prompt",
    "max_tokens counts new tokens only: the prompt's are not among them.",
    change=("while len(output) < max_tokens:", "while len(prompt) + len(output) < max_tokens:"),
)
ghost(
    "level01.generate.generate_naive",
    "at_least_one",
    "max_tokens may be 0: ask before the first pass, not after it.",
    change=("while len(output) < max_tokens:", "while not output or len(output) < max_tokens:"),
)
ghost(
    "level01.generate.generate_naive",
    "returns_the_prompt_too",
    "Return the new tokens alone, without the prompt.",
    change=("    return output\n", "    return [*prompt, *output]\n"),
    convention=True,
)
ghost(
    "level01.generate.generate_naive",
    "greedy_only",
    "Ask `choose` for the token: a sampler or a penalty comes in there, and yours always takes the most likely.",
    change=("int(choose(logits[:, -1], [list(prompt)], [list(output)]))", "int(logits[0, -1].argmax())"),
)
ghost(
    "level01.generate.generate_naive",
    "prompt_in_the_output_history",
    "`choose` gets prompt and output apart: some penalties count the new tokens only.",
    change=("[list(output)]", "[[*prompt, *output]]"),
)
ghost(
    "level01.generate.generate_naive",
    "empty_output_history",
    "`choose` gets the tokens made so far: yours shows it an empty output at every step.",
    change=("[list(output)]", "[[]]"),
)
ghost(
    "level01.generate.generate_naive",
    "flat_histories",
    "Histories are lists of lists, a row for each sequence: [prompt] and [output].",
    change=("[list(prompt)], [list(output)]", "list(prompt), list(output)"),
)


CHUNKS = "    for chunk in ids.split(chunk_size or ids.shape[1], dim=1):\n"
PASS = "forward(params, config, chunk, cache)"


ghost(
    "level01.generate.prefill",
    "positions_restart",
    "A chunk's positions start at cache.length, not at 0. Leave `positions` out, and forward does that.",
    change=(PASS, "forward(params, config, chunk, cache, positions=torch.arange(chunk.shape[1]))"),
)
ghost(
    "level01.generate.prefill",
    "positions_of_the_prompt",
    "Positions count from the first cached token on: a prompt that follows others does not start at 0.",
    change=[
        (CHUNKS, "    done = 0\n" + CHUNKS),
        (
            PASS,
            "forward(params, config, chunk, cache, positions=torch.arange(done, done + chunk.shape[1]))\n"
            "        done += chunk.shape[1]",
        ),
    ],
)
ghost(
    "level01.generate.prefill",
    "mask_from_the_upper_left",
    "A mask is aligned to the end of the keys: the new queries see all that is cached, and themselves.",
    change=(
        PASS,
        "forward(params, config, chunk, cache, mask=torch.ones(chunk.shape[1], cache.length + chunk.shape[1]).tril().bool())",
    ),
)
ghost(
    "level01.generate.prefill",
    "no_mask_in_a_chunk",
    "Prefill is parallel but causal: no token may see the ones after it, though they are in the same pass.",
    change=(
        PASS,
        "forward(params, config, chunk, cache, mask=torch.ones(chunk.shape[1], cache.length + chunk.shape[1]).bool())",
    ),
)
ghost(
    "level01.generate.prefill",
    "chunks_see_only_themselves",
    "Every chunk attends to all that came before it, not to itself alone.",
    change=(
        PASS,
        "forward(params, config, chunk, cache, mask=torch.ones(chunk.shape[1], cache.length + chunk.shape[1])"
        ".tril(cache.length).triu(cache.length - chunk.shape[1] + 1).bool() & "
        "(torch.arange(cache.length + chunk.shape[1]) >= cache.length))",
    ),
)
ghost(
    "level01.generate.prefill",
    "without_the_cache",
    "Give the cache to forward: prefill is there to fill it.",
    change=(PASS, "forward(params, config, chunk)"),
)
ghost(
    "level01.generate.prefill",
    "starts_with_an_empty_cache",
    "The cache may hold tokens already: the prompt follows them, they are not thrown away.",
    change=("    ids = ", "    cache.truncate(0)\n    ids = "),
)
ghost(
    "level01.generate.prefill",
    "feeds_the_start_again",
    "With a cache only the new chunk is fed: the chunks before it are there, and would be stored twice.",
    change=[
        (CHUNKS, "    end = 0\n" + CHUNKS + "        end += chunk.shape[1]\n"),
        (PASS, "forward(params, config, ids[:, :end], cache)"),
    ],
)
ghost(
    "level01.generate.prefill",
    "first_logits",
    "Return the logits of the last token: they have seen the whole prompt.",
    change=("logits[:, -1]", "logits[:, 0]"),
)
ghost(
    "level01.generate.prefill",
    "all_positions",
    "Return the logits of one position, (1, vocab): the last one's.",
    change=("logits[:, -1]", "logits"),
)
ghost(
    "level01.generate.prefill",
    "no_batch_axis",
    "Logits are (1, vocab) here, a row for each sequence, as `choose` wants them.",
    change=("logits[:, -1]", "logits[0, -1]"),
    convention=True,
)
ghost(
    "level01.generate.prefill",
    "loses_what_is_left",
    "The last, shorter chunk belongs to the prompt too.",
    change=(
        CHUNKS,
        "    whole = ids.shape[1] // (chunk_size or ids.shape[1]) * (chunk_size or ids.shape[1]) or ids.shape[1]\n"
        + CHUNKS.replace("ids.split", "ids[:, :whole].split"),
    ),
)
ghost(
    "level01.generate.prefill",
    "short_chunk_first",
    "Full chunks first: the last pass takes what is left, not the first one.",
    change=(
        CHUNKS,
        "    size = chunk_size or ids.shape[1]\n"
        "    first = [ids.shape[1] % size] if ids.shape[1] % size else []\n"
        "    for chunk in ids.split(first + [size] * (ids.shape[1] // size), dim=1):\n",
    ),
)
ghost(
    "level01.generate.prefill",
    "ignores_chunk_size",
    "At most chunk_size tokens in a pass: a long prompt in one piece makes everybody else wait.",
    change=("chunk_size or ids.shape[1]", "ids.shape[1]"),
)
ghost(
    "level01.generate.prefill",
    "chunk_size_is_the_number_of_chunks",
    "chunk_size is the number of tokens in a chunk, not the number of chunks.",
    change=("ids.split(chunk_size or ids.shape[1], dim=1)", "ids.chunk(chunk_size or 1, dim=1)"),
)
ghost(
    "level01.generate.prefill",
    "one_token_at_a_time",
    "Without a chunk_size all tokens go in one pass: that is what makes prefill cheap.",
    change=("chunk_size or ids.shape[1]", "chunk_size or 1"),
)


STEP = "return forward(params, config, torch.tensor([[token]]), cache)[:, -1]"


def _step(new):
    return STEP, STEP.replace("cache)[:, -1]", new)


ghost(
    "level01.generate.decode_step",
    "position_zero",
    "The new token stands at position cache.length, not at 0. Leave `positions` out, and forward does that.",
    change=_step("cache, positions=torch.tensor([0]))[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "position_plus_one",
    "Positions count from 0: after 3 cached tokens the next one has position 3, not 4.",
    change=_step("cache, positions=torch.tensor([cache.length + 1]))[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "position_of_the_one_before",
    "The last cached token has position cache.length - 1; the new one stands one further.",
    change=_step("cache, positions=torch.tensor([max(cache.length - 1, 0)]))[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "without_the_cache",
    "Give the cache to forward: alone, the new token has no past.",
    change=_step("None)[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "sees_only_itself",
    "The new token sees everything cached as well as itself; a 1 x 1 causal mask is the corner of the wrong end.",
    change=_step("cache, mask=torch.arange(cache.length + 1) == cache.length)[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "sees_the_past_only",
    "A token sees itself too, not only what is before it.",
    change=_step("cache, mask=torch.arange(cache.length + 1) < max(cache.length, 1))[:, -1]"),
)
ghost(
    "level01.generate.decode_step",
    "takes_it_back",
    "The token stays in the cache: the next one must see it.",
    change=(
        STEP,
        "held = cache.length\n    logits = forward(params, config, torch.tensor([[token]]), cache)\n"
        "    cache.truncate(held)\n    return logits[:, -1]",
    ),
)
ghost(
    "level01.generate.decode_step",
    "feeds_it_twice",
    "One token, once: fed twice it is stored twice, and every later position is one too far.",
    change=("[[token]]", "[[token, token]]"),
)
ghost(
    "level01.generate.decode_step",
    "keeps_the_axis_of_the_tokens",
    "Logits are (1, vocab) here: take the one position out of (1, 1, vocab).",
    change=_step("cache)"),
)
ghost(
    "level01.generate.decode_step",
    "no_batch_axis",
    "Logits are (1, vocab) here, a row for each sequence, as `choose` wants them.",
    change=_step("cache)[0, -1]"),
    convention=True,
)


FIRST = "            logits = prefill(params, config, prompt, cache, chunk_size, forward=forward)\n"
NEXT = "            logits = decode_step(params, config, output[-1], cache, forward=forward)\n"
CHOOSE = "        output.append(int(choose(logits, [list(prompt)], [list(output)])))\n"
YIELD = "        yield output[-1]  # before the next step: a user should not wait for a token that is known\n"
ENDS = "        if output[-1] in stop_ids:\n            return\n"


ghost(
    "level01.generate.stream",
    "wasted_last_step",
    "The last token is never fed: n tokens need one prefill and n - 1 decode steps.",
    change=(ENDS, ENDS + f"        if len(output) == max_tokens:\n{NEXT}"),
)
ghost(
    "level01.generate.stream",
    "last_prompt_token_twice",
    "The first token is in the prefill's logits already; feeding the prompt's last token again stores it twice.",
    change=(FIRST, FIRST + "            logits = decode_step(params, config, prompt[-1], cache, forward=forward)\n"),
)
ghost(
    "level01.generate.stream",
    "new_cache_each_step",
    "One cache for the whole stream: a new one at each step has forgotten everything.",
    change=(NEXT, NEXT.replace("cache,", "SimpleCache(config.n_layers),")),
)
ghost(
    "level01.generate.stream",
    "recomputes_everything",
    "Right tokens, but every step runs the whole sequence: feed the newest token, the cache has the rest.",
    change=[
        (
            FIRST,
            "            held = cache.length\n" + FIRST,
        ),
        (
            NEXT,
            "            cache.truncate(held)\n"
            "            logits = prefill(params, config, [*prompt, *output], cache, chunk_size, forward=forward)\n",
        ),
    ],
)
ghost(
    "level01.generate.stream",
    "feeds_the_past_again",
    "Feed the newest token alone: the cache holds all before it, and would hold it twice.",
    change=(NEXT, "            logits = prefill(params, config, [*prompt, *output], cache, forward=forward)\n"),
)
ghost(
    "level01.generate.stream",
    "collects_first",
    "Yield each token when it is known, not all after the last step: the user waits for the first as for the whole.",
    change=[(YIELD, ""), (ENDS, ENDS.replace("return", "break") + "    yield from output\n")],
)
ghost(
    "level01.generate.stream",
    "one_step_late",
    "Yield the token before you compute the next one: otherwise every token arrives one step late.",
    change=[
        (FIRST + "        else:\n" + NEXT, FIRST),
        (YIELD, "        if len(output) < max_tokens and output[-1] not in stop_ids:\n" + NEXT + YIELD),
    ],
)
ghost(
    "level01.generate.stream",
    "prefills_at_once",
    "Nothing runs before the first token is asked for: a stream that nobody reads should cost nothing.",
    program=lambda *args, **kwargs: _started_at_once(*args, **kwargs),
)
ghost(
    "level01.generate.stream",
    "prefills_for_nothing",
    "Of no tokens none needs a prefill: with max_tokens 0 nothing runs.",
    change=[
        (
            "    while len(output) < max_tokens:\n        if not output:\n" + FIRST + "        else:\n",
            FIRST[8:] + "    while len(output) < max_tokens:\n        if output:\n",
        )
    ],
)
ghost(
    "level01.generate.stream",
    "ignores_stop",
    "A stop token ends the stream: otherwise the request holds its place up to max_tokens.",
    change=(ENDS, ""),
)
ghost(
    "level01.generate.stream",
    "drops_the_stop_token",
    "The stop token is part of the stream; whoever shows the text leaves it out.",
    change=(YIELD + ENDS, ENDS + YIELD),
    convention=True,
)
ghost(
    "level01.generate.stream",
    "stops_at_the_first_only",
    "Any of the new tokens may be the stop token, not only the first.",
    change=(ENDS, ENDS.replace("output[-1]", "output[0]")),
)
ghost(
    "level01.generate.stream",
    "one_too_many",
    "max_tokens counts the new tokens exactly; yours makes one more.",
    change=("while len(output) < max_tokens:", "while len(output) <= max_tokens:"),
)
ghost(
    "level01.generate.stream",
    "counts_the_prompt",
    "max_tokens counts new tokens only: the prompt's are not among them.",
    change=("while len(output) < max_tokens:", "while len(prompt) + len(output) < max_tokens:"),
)
ghost(
    "level01.generate.stream",
    "ignores_chunk_size",
    "Pass chunk_size on to the prefill: a long prompt in one piece makes everybody else wait.",
    change=("cache, chunk_size, forward", "cache, forward"),
)
ghost(
    "level01.generate.stream",
    "chunks_the_steps_too",
    "The first token follows the whole prompt; yours takes the logits after the first chunk.",
    change=("prompt, cache, chunk_size", "prompt[:chunk_size], cache, chunk_size"),
)
ghost(
    "level01.generate.stream",
    "greedy_only",
    "Ask `choose` for the token: a sampler or a penalty comes in there, and yours always takes the most likely.",
    change=("int(choose(logits, [list(prompt)], [list(output)]))", "int(logits.argmax())"),
)
ghost(
    "level01.generate.stream",
    "prompt_in_the_output_history",
    "`choose` gets prompt and output apart: some penalties count the new tokens only.",
    change=("[list(output)]", "[[*prompt, *output]]"),
)
ghost(
    "level01.generate.stream",
    "history_of_one",
    "`choose` gets all tokens made so far, not only the newest.",
    change=("[list(output)]", "[output[-1:]]"),
)
ghost(
    "level01.generate.stream",
    "zero_is_no_token",
    "Token 0 is a token: `if token` takes it for none, and the prompt is prefilled again.",
    change=("if not output:", "if not any(output[-1:]):"),
)
ghost(
    "level01.generate.stream",
    "the_default_forward",
    "Pass `forward` on to the decode steps as well: yours uses level 00's whatever the caller gave.",
    change=(NEXT, NEXT.replace(", forward=forward", "")),
)


def _started_at_once(
    params, config, prompt, max_tokens, stop_ids=(), cache=None, chunk_size=None, *, choose=None, forward=None
):
    from level01 import generate
    from level01.simple_cache import SimpleCache

    cache = SimpleCache(config.n_layers) if cache is None else cache
    max_tokens = generate.allowed_tokens(config, prompt, max_tokens, cache.length)
    choose, seams = choose or generate.greedy, {"forward": forward} if forward else {}
    logits = generate.prefill(params, config, prompt, cache, chunk_size, **seams) if max_tokens else None

    def rest(logits):
        output = []
        while len(output) < max_tokens:
            if output:
                logits = generate.decode_step(params, config, output[-1], cache, **seams)
            output.append(int(choose(logits, [list(prompt)], [list(output)])))
            yield output[-1]
            if output[-1] in stop_ids:
                return

    return rest(logits)
