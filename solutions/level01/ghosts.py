"""Known-wrong programs of level 01, and the slips of its worksheet. `ghost` and `slip` are given when this is read."""

# ---- simple_cache

STORED = "        self.keys[layer], self.values[layer] = k, v\n"
JOINED = "            k, v = torch.cat([self.keys[layer], k], 2), torch.cat([self.values[layer], v], 2)\n"
LENGTH = "return 0 if last is None else last.shape[2]"


ghost(
    "level01.simple_cache.SimpleCache",
    "returns_new_only",
    "update gives back all keys and values, old and new: the query attends to the whole past.",
    change=(
        JOINED + STORED,
        JOINED.replace("k, v =", "joined =") + "        else:\n            joined = k, v\n"
        "        self.keys[layer], self.values[layer] = joined\n",
    ),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "forgets_the_past",
    "Append to what the layer holds; yours replaces it by the new tokens.",
    change=("if self.keys[layer] is not None:", "if False:"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "one_list",
    "Keys and values need a place each; yours appends the new values to the old keys.",
    change=("torch.cat([self.values[layer], v], 2)", "torch.cat([self.keys[layer], v], 2)"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "values_first",
    "update returns (keys, values), in this order.",
    change=("        return k, v\n", "        return v, k\n"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "along_the_heads",
    "Tokens are axis 2 of (B, n_kv_heads, n, head_dim); you append along the heads.",
    change=(JOINED, JOINED.replace("2)", "1)")),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "newest_first",
    "Append the new tokens after the old ones: the causal mask takes the last keys for the newest.",
    change=(
        JOINED,
        "            k, v = torch.cat([k, self.keys[layer]], 2), torch.cat([v, self.values[layer]], 2)\n",
    ),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "one_for_all_layers",
    "Each layer has keys and values of its own; in yours all layers append to the same.",
    change=("if self.keys[layer] is not None:", "layer = -1\n        if self.keys[layer] is not None:"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "widens_to_float32",
    "Keep the dtype of the keys and values: bfloat16 widened to float32 is twice the bytes at every step.",
    change=(STORED, "        k, v = k.float(), v.float()\n" + STORED),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_per_layer",
    "length counts tokens, not updates: summed over 30 layers it is 30 times too long, and every position is wrong.",
    change=(LENGTH, "return sum(0 if k is None else k.shape[2] for k in self.keys)"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "counts_every_update",
    "Every layer's update adds to your count; length moves once a pass, when the last layer has been updated.",
    change=[
        (
            "        self.values: list[Tensor | None] = [None] * n_layers\n",
            "        self.values: list[Tensor | None] = [None] * n_layers\n        self.count = 0\n",
        ),
        (
            "        if self.keys[layer] is not None:\n",
            "        self.count += k.shape[2]\n        if self.keys[layer] is not None:\n",
        ),
        (LENGTH, "return self.count"),
        (
            "        self.values = [v if v is None else v[:, :, :n] for v in self.values]\n",
            "        self.values = [v if v is None else v[:, :, :n] for v in self.values]\n        self.count = n\n",
        ),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_of_the_first_layer",
    "length is what every layer holds, so the last one decides: yours moves while the pass is still running.",
    change=("last = self.keys[-1]", "last = self.keys[0]"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_along_the_heads",
    "length is the size of axis 2, the tokens; yours counts the heads.",
    change=(LENGTH, LENGTH.replace("shape[2]", "shape[1]")),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "truncates_keys_only",
    "Truncate the values as well: a key without its own value makes every later look-up wrong.",
    change=("v[:, :, :n]", "v"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "keeps_the_newest",
    "truncate(n) keeps the first n tokens: it forgets the newest, not the oldest.",
    change=[("k[:, :, :n]", "k[:, :, -n:]"), ("v[:, :, :n]", "v[:, :, -n:]")],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "drops_n",
    "truncate(n) keeps n tokens; yours drops the last n.",
    change=[
        ("k[:, :, :n]", "k[:, :, : k.shape[2] - n]"),
        ("v[:, :, :n]", "v[:, :, : v.shape[2] - n]"),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "truncates_the_last_layer",
    "Truncate every layer: yours shortens the one that length is read from, and the others still hold everything.",
    change=[
        ("self.keys = [k if k is None else k[:, :, :n] for k in self.keys]", "k, v = self.keys[-1], self.values[-1]"),
        (
            "self.values = [v if v is None else v[:, :, :n] for v in self.values]",
            "self.keys[-1], self.values[-1] = (x if x is None else x[:, :, :n] for x in (k, v))",
        ),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "drops_as_many_everywhere",
    "Keep the first n in every layer; yours drops equally many, but after a broken-off pass some layers hold more.",
    change=[
        (
            "self.keys = [k if k is None else k[:, :, :n] for k in self.keys]",
            "drop = self.length - n\n"
            "        self.keys = [k if k is None else k[:, :, : k.shape[2] - drop] for k in self.keys]",
        ),
        ("v[:, :, :n]", "v[:, :, : v.shape[2] - drop]"),
    ],
)


# ---- generate

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


# ---- streaming

ghost(
    "level01.streaming.StopStrings",
    "piece_by_piece",
    "A stop string can be spread over several pieces: what ends with the beginning of one must be held back.",
    change=[("text = self.held + piece", "text = piece"), ("hold = next(sizes, 0)", "hold = 0")],
)
ghost(
    "level01.streaming.StopStrings",
    "searches_the_newest_piece",
    "Look for the stop string in what is held and the new piece together: half of it came before.",
    change=("if stop in text]", "if stop in piece]"),
)
ghost(
    "level01.streaming.StopStrings",
    "first_listed",
    "Cut before the stop string that stands first in the text, not before the one that is listed first.",
    change=("return text[: min(found)[1]]", "return text[: found[0][1]]"),
)
ghost(
    "level01.streaming.StopStrings",
    "earliest_beginning",
    "The stop string that is complete first ends the answer, or the cut decides: in abcd, bc is complete before abcd.",
    change=("min(found)[1]", "min(start for _, start in found)"),
)
ghost(
    "level01.streaming.StopStrings",
    "last_in_the_text",
    "Of several places cut at the earliest: everything after the first stop string is not meant for the user.",
    change=("return text[: min(found)[1]]", "return text[: max(start for _, start in found)]"),
)
ghost(
    "level01.streaming.StopStrings",
    "last_occurrence",
    "A stop string may occur twice in a piece: cut at the first occurrence (find, not rfind).",
    change=("len(stop), text.find(stop))", "len(stop), text.rfind(stop))"),
)
ghost(
    "level01.streaming.StopStrings",
    "only_at_the_end",
    "A stop string can stand in the middle of a piece: a token does not end where it ends.",
    change=(
        "[(text.find(stop) + len(stop), text.find(stop)) for stop in self.stops if stop in text]",
        "[(len(text), len(text) - len(stop)) for stop in self.stops if text.endswith(stop)]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "shows_the_stop",
    "The stop string itself is not shown: the text ends before it.",
    change=("min(found)[1]", "min(found)[0]"),
    convention=True,
)
ghost(
    "level01.streaming.StopStrings",
    "swallows_the_text_before",
    "The piece that holds the stop string may begin with text that belongs to the answer: show it.",
    change=("return text[: min(found)[1]]", 'return ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_everything",
    "Hold back only what may be the beginning of a stop string; the rest is shown at once, or it is no stream.",
    change=("hold = next(sizes, 0)", "hold = len(text) if self.stops else 0"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_a_fixed_number",
    "Hold back a tail only while some stop string begins with it; the length of a stop string less one is too much.",
    change=("hold = next(sizes, 0)", "hold = min(longest, len(text))"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_any_part",
    "A tail is held if a stop string begins with it; that it occurs somewhere inside of one does not matter.",
    change=("any(stop.startswith(tail) for", "any(tail in stop for"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_the_shortest_tail",
    "Hold the longest tail that a stop string begins with: with aab and text aa both letters, not the last one.",
    change=("range(min(longest, len(text)), 0, -1)", "range(1, min(longest, len(text)) + 1)"),
)
ghost(
    "level01.streaming.StopStrings",
    "holds_the_whole_text_or_nothing",
    "The beginning of a stop string can follow other text in its piece: try every tail, not the whole text alone.",
    change=("hold = next(sizes, 0)", "hold = len(text) if text and self._begins_a_stop(text) else 0"),
)
ghost(
    "level01.streaming.StopStrings",
    "one_letter_too_few",
    "All letters of a stop string but the last must be held: your longest tail is one letter short.",
    change=("default=1) - 1", "default=2) - 2"),
)
ghost(
    "level01.streaming.StopStrings",
    "as_long_as_the_shortest",
    "How much may have to be held is decided by the longest stop string, not by the shortest.",
    change=("max(map(len, self.stops), default=1)", "min(map(len, self.stops), default=1)"),
)
ghost(
    "level01.streaming.StopStrings",
    "watches_one_stop",
    "Every stop string may begin at the end of the text, not only the first of the list.",
    change=(
        "any(stop.startswith(tail) for stop in self.stops)",
        "any(stop.startswith(tail) for stop in self.stops[:1])",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "drops_what_was_held",
    "What was held and did not become a stop string belongs to the answer: show it before the new text.",
    change=(
        "shown, self.held = text[: len(text) - hold], text[len(text) - hold :]",
        "shown, self.held = text[len(self.held) : len(text) - hold], text[len(text) - hold :]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "loses_the_tail",
    "At the end of the stream no more can come, so the tail was innocent: flush returns it.",
    change=('shown, self.held = self.held, ""', 'shown, self.held = "", ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "flushes_again",
    "flush empties what it returns: a second call would show the tail twice.",
    change=('shown, self.held = self.held, ""', "shown = self.held"),
)
ghost(
    "level01.streaming.StopStrings",
    "flushes_half_a_stop",
    "After a stop nothing is left to flush: the tail that was held is part of the stop string.",
    change=('self.stopped, self.held = True, ""', "self.stopped = True"),
)
ghost(
    "level01.streaming.StopStrings",
    "goes_on_after_the_stop",
    "Once stopped, feed returns nothing more, whatever still comes.",
    change=("if self.stopped:", "if False:"),
)
ghost(
    "level01.streaming.StopStrings",
    "never_says_so",
    "stopped must become True, or the engine goes on making tokens that nobody sees.",
    change=('self.stopped, self.held = True, ""', 'self.stops, self.held = [""], ""'),
)
ghost(
    "level01.streaming.StopStrings",
    "waits_for_the_longest",
    "A complete stop string ends the answer now, even if a longer one may still be on its way.",
    change=(
        "if found:",
        "if found and not any(len(stop) > n and stop.startswith(text[-n:]) for stop in self.stops for n in range(1, len(text) + 1)):",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "ignores_case",
    "Compare letters as they are: end does not stop where END is asked for.",
    change=(
        "[(text.find(stop) + len(stop), text.find(stop)) for stop in self.stops if stop in text]",
        "[(0, text.lower().find(stop.lower())) for stop in self.stops if stop.lower() in text.lower()]",
    ),
)
ghost(
    "level01.streaming.StopStrings",
    "strips",
    "Spaces and line ends are text like any other: do not strip pieces.",
    change=("text = self.held + piece", "text = self.held + piece.strip()"),
)


def _as_pattern(self, piece):
    import re

    if self.stopped:
        return ""
    text = self.held + piece
    if self.stops and (found := re.search("|".join(self.stops).replace("(", "[(]"), text)):
        self.stopped, self.held = True, ""
        return text[: found.start()]
    tails = (n for n in range(len(text), 0, -1) if any(s.startswith(text[-n:]) for s in self.stops))
    hold = next(tails, 0)
    self.held = text[len(text) - hold :]
    return text[: len(text) - hold]


ghost(
    "level01.streaming.StopStrings",
    "a_pattern",
    "A stop string is no regular expression: a dot in it is a dot. re.escape makes one of it.",
    part="StopStrings.feed",
    program=_as_pattern,
)


def _restarts(self, piece):
    """Counts matched letters, and starts anew from 0 where a letter does not fit."""
    shown = ""
    for letter in piece:
        if self.stopped:
            break
        if any(stop.startswith(self.held + letter) for stop in self.stops):
            self.held += letter
        else:
            fits = any(stop.startswith(letter) for stop in self.stops)
            shown, self.held = shown + self.held + ("" if fits else letter), letter if fits else ""
        if self.held in self.stops:
            self.stopped, self.held = True, ""
    return shown


ghost(
    "level01.streaming.StopStrings",
    "starts_anew",
    "When a letter does not fit, the stop string may still have begun inside of what is held: aaab contains aab.",
    part="StopStrings.feed",
    program=_restarts,
)
ghost(
    "level01.streaming.StopStrings",
    "one_text_for_all",
    "Keep the held text in the object, not in the class: two requests would read each other's.",
    change=[
        ('        self.held = ""  #', '        type(self).held = ""  #'),
        (
            "shown, self.held = text[: len(text) - hold], text[len(text) - hold :]",
            "shown, type(self).held = text[: len(text) - hold], text[len(text) - hold :]",
        ),
        ('self.stopped, self.held = True, ""', 'self.stopped, type(self).held = True, ""'),
        ('shown, self.held = self.held, ""', 'shown, type(self).held = self.held, ""'),
    ],
)
ghost(
    "level01.streaming.utf8_pieces",
    "each_chunk_alone",
    "Keep an incomplete character until its last byte has come: decoded alone, each part becomes U+FFFD.",
    change=("decoder.decode(chunk)", 'chunk.decode(errors="replace")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "drops_bytes",
    "Invalid bytes are replaced with U+FFFD, so that they can be seen, not ignored.",
    change=('errors="replace"', 'errors="ignore"'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "strict",
    "A model can emit bytes that are no text: replace them, do not raise.",
    change=('errors="replace"', 'errors="strict"'),
)


def _waits_for_ever(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        try:
            text, held = held.decode(), b""
        except UnicodeDecodeError:
            continue
        if text:
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "waits_for_ever",
    "Only an incomplete character is worth waiting for; an invalid byte never becomes one, and text behind it waits too.",
    program=_waits_for_ever,
)


def _shows_whole_chunks(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        if "\ufffd" not in (text := held.decode(errors="replace")) or len(held) > 3 + len(chunk):
            held = b""
            if text:
                yield text
    if held:
        yield held.decode(errors="replace")


def _waits_for_a_clean_end(chunks):
    held = b""
    for chunk in chunks:
        held += chunk
        text = held.decode(errors="replace")
        if text and not text.endswith("\ufffd"):
            held = b""
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "waits_for_a_clean_end",
    "U+FFFD at the end is no proof that more will come: the byte may be invalid, or the text may hold that very character.",
    program=_waits_for_a_clean_end,
)
ghost(
    "level01.streaming.utf8_pieces",
    "holds_the_whole_chunk",
    "Hold the incomplete character alone: the complete ones before it in the chunk can be shown.",
    program=_shows_whole_chunks,
)
ghost(
    "level01.streaming.utf8_pieces",
    "bytes_are_letters",
    "A byte is not a character: é is two of them, an emoji four.",
    change=('getincrementaldecoder("utf-8")', 'getincrementaldecoder("latin-1")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "eats_the_byte_order_mark",
    "U+FEFF is a character of the text like any other: utf-8-sig removes it.",
    change=('getincrementaldecoder("utf-8")', 'getincrementaldecoder("utf-8-sig")'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "yields_nothing_to_say",
    "Do not yield an empty string: a chunk may complete no character.",
    change=(
        "        if text := decoder.decode(chunk):\n            yield text\n",
        "        yield decoder.decode(chunk)\n",
    ),
)
ghost(
    "level01.streaming.utf8_pieces",
    "loses_the_end",
    "An incomplete character at the end of the stream is replaced, not forgotten: tell the decoder that it is the end.",
    change=("final=True", "final=False"),
)
ghost(
    "level01.streaming.utf8_pieces",
    "always_a_mark_at_the_end",
    "Add U+FFFD at the end only if a character is incomplete there.",
    change=('if text := decoder.decode(b"", final=True):', 'if text := decoder.decode(b"", final=True) or "\\ufffd":'),
)
ghost(
    "level01.streaming.utf8_pieces",
    "a_mark_for_each_byte",
    "One U+FFFD for the incomplete character at the end, not one for each of its bytes.",
    change=(
        'if text := decoder.decode(b"", final=True):',
        'if text := "\\ufffd" * len(decoder.getstate()[0]):',
    ),
)
ghost(
    "level01.streaming.utf8_pieces",
    "collects_first",
    "Yield a chunk's text before asking for the next: joined first, the stream comes when it is over.",
    change=("for chunk in chunks:", "for chunk in list(chunks):"),
)


def _one_chunk_late(chunks):
    from codecs import getincrementaldecoder

    decoder, waiting = getincrementaldecoder("utf-8")("replace"), ""
    for chunk in chunks:
        if waiting:
            yield waiting
        waiting = decoder.decode(chunk)
    if waiting:
        yield waiting
    if text := decoder.decode(b"", True):
        yield text


ghost(
    "level01.streaming.utf8_pieces",
    "one_chunk_late",
    "A complete character need not wait for the next chunk: yield it with the chunk that completes it.",
    program=_one_chunk_late,
)
ghost(
    "level01.streaming.utf8_pieces",
    "letter_by_letter",
    "One yield for a chunk: yield its text as a whole, not each character.",
    change=(
        "        if text := decoder.decode(chunk):\n            yield text\n",
        "        yield from decoder.decode(chunk)\n",
    ),
    convention=True,
)
ghost(
    "level01.streaming.utf8_pieces",
    "a_new_decoder_for_each_chunk",
    "Make the decoder once, before the loop: what it holds is lost with it.",
    change=(
        "for chunk in chunks:\n",
        'for chunk in chunks:\n        decoder = getincrementaldecoder("utf-8")(errors="replace")\n',
    ),
)


def _held(chunks, incomplete):
    held = b""
    for chunk in chunks:
        held += chunk
        n = next((n for n in (3, 2, 1) if n <= len(held) and incomplete(held[-n:])), 0)
        text, held = held[: len(held) - n].decode(errors="replace"), held[len(held) - n :]
        if text:
            yield text
    if held:
        yield held.decode(errors="replace")


ghost(
    "level01.streaming.utf8_pieces",
    "three_bytes_at_most",
    "Characters have up to four bytes: F0 to F4 begin one that three more follow.",
    program=lambda chunks: _held(chunks, lambda t: 0xC2 <= t[0] < 0xE0 + 0x10 and len(t) < 2 + (t[0] >= 0xE0)),
)
ghost(
    "level01.streaming.utf8_pieces",
    "trusts_the_first_byte",
    "The first byte says how many should follow; whether they can be its continuation must be looked at.",
    program=lambda chunks: _held(chunks, lambda t: t[0] >= 0xC0 and len(t) < 2 + (t[0] >= 0xE0) + (t[0] >= 0xF0)),
)


def _surrogates_pass(chunks):
    from codecs import getincrementaldecoder

    loose, strict = (getincrementaldecoder("utf-8")(errors) for errors in ("surrogatepass", "replace"))
    for chunk, final in [*((chunk, False) for chunk in chunks), (b"", True)]:
        text = strict.decode(chunk, final)
        try:
            text = loose.decode(chunk, final)
        except UnicodeDecodeError:
            loose.reset()
        if text:
            yield text


ghost(
    "level01.streaming.utf8_pieces",
    "lets_surrogates_pass",
    "D800 to DFFF are halves of UTF-16 pairs, not characters: replace their bytes.",
    program=_surrogates_pass,
)

# ---- phases

ghost(
    "level01.phases.cached_token_count",
    "constant_length",
    "Without a cache the sequence grows by one a step: add 0 + 1 + … + (n - 1).",
    change=("new_tokens * prompt_len + new_tokens * (new_tokens - 1) // 2", "new_tokens * prompt_len"),
)
ghost(
    "level01.phases.cached_token_count",
    "off_by_one_sum",
    "The first step reads the prompt alone, so what comes on top starts at 0, not at 1.",
    change=("(new_tokens - 1) // 2", "(new_tokens + 1) // 2"),
)
ghost(
    "level01.phases.cached_token_count",
    "final_length_each",
    "Only the last step is that long: the earlier ones read fewer new tokens.",
    change=("new_tokens * (new_tokens - 1) // 2", "new_tokens * new_tokens"),
)
ghost(
    "level01.phases.cached_token_count",
    "sum_of_squares",
    "0 + 1 + … + (n - 1) is n (n - 1) / 2: each new token is read by the steps after it, once each.",
    change=("new_tokens * (new_tokens - 1) // 2", "new_tokens * (new_tokens - 1)"),
)
ghost(
    "level01.phases.cached_token_count",
    "prompt_once",
    "Without a cache the prompt is read again at every step.",
    change=("new_tokens * prompt_len + new_tokens *", "prompt_len * bool(new_tokens) + new_tokens *"),
)
ghost(
    "level01.phases.cached_token_count",
    "a_float",
    "A count is an int: divide with //.",
    change=("(new_tokens - 1) // 2", "(new_tokens - 1) / 2"),
)
ghost(
    "level01.phases.cached_token_count",
    "one_extra",
    "The last new token is never fed back: nobody asks what comes after it.",
    change=("prompt_len + new_tokens - 1 if", "prompt_len + new_tokens if"),
)
ghost(
    "level01.phases.cached_token_count",
    "no_prompt",
    "The prompt goes through the model too, once.",
    change=("prompt_len + new_tokens - 1 if new_tokens else 0", "max(0, new_tokens - 1)"),
)
ghost(
    "level01.phases.cached_token_count",
    "nothing_asked",
    "No new tokens asked, nothing computed: the prompt is read for the first new token.",
    change=("prompt_len + new_tokens - 1 if new_tokens else 0", "prompt_len + max(0, new_tokens - 1)"),
)
ghost(
    "level01.phases.cached_token_count",
    "no_case_for_nothing",
    "prompt + n - 1 holds from one new token on; for none the answer is 0.",
    change=("prompt_len + new_tokens - 1 if new_tokens else 0", "prompt_len + new_tokens - 1"),
)
ghost(
    "level01.phases.phase_cost",
    "weights_per_token",
    "One pass reads the weights once for all its tokens: that is why a prefill is efficient.",
    change=("bytes_per_element * (read +", "bytes_per_element * (q_len * read +"),
)
ghost(
    "level01.phases.phase_cost",
    "no_kv_read",
    "Each pass reads the keys and values of all cached tokens, besides the weights.",
    change=("kv_per_token * (cached_len + q_len)", "kv_per_token * q_len"),
)
ghost(
    "level01.phases.phase_cost",
    "no_kv_written",
    "The keys and values of the new tokens are written: that is traffic as well.",
    change=("kv_per_token * (cached_len + q_len)", "kv_per_token * cached_len"),
)
ghost(
    "level01.phases.phase_cost",
    "kv_per_query",
    "One pass reads the cache once; the queries of a chunk share what was read.",
    change=("kv_per_token * (cached_len + q_len)", "kv_per_token * (q_len * cached_len + q_len)"),
)
ghost(
    "level01.phases.phase_cost",
    "keys_alone",
    "Every token has a key and a value: twice as many bytes.",
    change=("kv_per_token = 2 * config", "kv_per_token = config"),
)
ghost(
    "level01.phases.phase_cost",
    "cache_of_query_heads",
    "The cache holds KV heads, of which there are fewer than query heads.",
    change=("config.n_kv_heads * config.head_dim", "config.n_heads * config.head_dim"),
)
ghost(
    "level01.phases.phase_cost",
    "cache_of_one_layer",
    "Each layer has keys and values of its own: multiply by the number of layers.",
    change=("2 * config.n_layers * config.n_kv_heads", "2 * config.n_kv_heads"),
)
ghost(
    "level01.phases.phase_cost",
    "scores_of_kv_heads",
    "GQA saves bytes, not FLOPs: every query head computes its own scores.",
    change=("4 * config.n_heads", "4 * config.n_kv_heads"),
)
ghost(
    "level01.phases.phase_cost",
    "scores_once",
    "Two products for each pair of query and key: q kᵀ, and the weight times v.",
    change=("4 * config.n_heads", "2 * config.n_heads"),
)
ghost(
    "level01.phases.phase_cost",
    "scores_of_one_layer",
    "Queries meet keys in every layer: multiply the pairs by the number of layers.",
    change=("config.n_layers * 4 *", "4 *"),
)
ghost(
    "level01.phases.phase_cost",
    "scores_of_d_model",
    "The heads are n_heads · head_dim wide together, which need not be d_model.",
    change=("4 * config.n_heads * config.head_dim", "4 * config.d_model"),
)
ghost(
    "level01.phases.phase_cost",
    "full_square",
    "Causal: the i-th of the new tokens sees i of them, so q (q + 1) / 2 pairs, not the whole square.",
    change=("q_len * (q_len + 1) // 2", "q_len * q_len"),
)
ghost(
    "level01.phases.phase_cost",
    "not_itself",
    "A token attends to itself too: q (q + 1) / 2 pairs within the chunk, not q (q - 1) / 2.",
    change=("q_len * (q_len + 1) // 2", "q_len * (q_len - 1) // 2"),
)
ghost(
    "level01.phases.phase_cost",
    "no_cached_pairs",
    "Every new query also meets all cached keys: q_len · cached_len pairs.",
    change=("pairs = q_len * cached_len + q_len", "pairs = q_len"),
)
ghost(
    "level01.phases.phase_cost",
    "cached_pairs_once",
    "Each of the q_len queries meets the cached keys, not only one of them.",
    change=("pairs = q_len * cached_len +", "pairs = cached_len +"),
)
ghost(
    "level01.phases.phase_cost",
    "always_all_logits",
    "With last_only one token alone is projected onto the vocabulary.",
    change=("2 * head * (1 if last_only else q_len)", "2 * head * q_len"),
)
ghost(
    "level01.phases.phase_cost",
    "never_all_logits",
    "Without last_only all q_len tokens are projected onto the vocabulary.",
    change=("2 * head * (1 if last_only else q_len)", "2 * head"),
)
ghost(
    "level01.phases.phase_cost",
    "logits_in_every_weight",
    "2 · parameters · tokens counts the projection, the embedding and the norms for every token: only the layers' matrices are.",
    change=[
        ('2 * q_len * (weights["attention"] + weights["mlp"])', '2 * q_len * weights["total"]'),
        ("        + 2 * head * (1 if last_only else q_len)\n", ""),
    ],
)
ghost(
    "level01.phases.phase_cost",
    "no_head",
    "A tied head is a product as well, though count_params has no weights for it.",
    change=("2 * head * (1", '2 * weights["lm_head"] * (1'),
)
ghost(
    "level01.phases.phase_cost",
    "mac_is_one",
    "A multiply and an add are two FLOPs.",
    change=[
        ('2 * q_len * (weights["attention"]', 'q_len * (weights["attention"]'),
        ("config.n_layers * 4 *", "config.n_layers * 2 *"),
        ("2 * head * (1", "head * (1"),
    ],
)
ghost(
    "level01.phases.phase_cost",
    "whole_embedding",
    "Of an untied embedding only the rows of the q_len tokens are read, not the whole table.",
    change=('weights["total"] - head + q_len * config.d_model', 'weights["total"]'),
)
ghost(
    "level01.phases.phase_cost",
    "no_embedding_rows",
    "The rows of an untied embedding are read as well, one for each token.",
    change=('weights["total"] - head + q_len * config.d_model', 'weights["total"] - head'),
)
ghost(
    "level01.phases.phase_cost",
    "one_embedding_row",
    "Each of the q_len tokens has a row of the embedding, not the last one alone.",
    change=("- head + q_len * config.d_model", "- head + config.d_model"),
)
ghost(
    "level01.phases.phase_cost",
    "tied_rows_twice",
    "A tied embedding is read once, as the head; its rows are among what was read.",
    change=(
        'read = weights["total"] if config.tie_embeddings else weights["total"]',
        'read = weights["total"] + q_len * config.d_model if config.tie_embeddings else weights["total"]',
    ),
)
ghost(
    "level01.phases.phase_cost",
    "no_norms",
    "Norm weights are weights: they are read too, few as they are.",
    change=("bytes_per_element * (read +", 'bytes_per_element * (read - weights["norm"] +'),
)
ghost(
    "level01.phases.phase_cost",
    "always_bfloat16",
    "Multiply by bytes_per_element; not every model is stored in two bytes.",
    change=("moved = bytes_per_element *", "moved = 2 *"),
)
ghost(
    "level01.phases.phase_cost",
    "cache_in_bfloat16",
    "bytes_per_element holds for the cache as well as for the weights.",
    change=(
        "bytes_per_element * (read + kv_per_token * (cached_len + q_len))",
        "bytes_per_element * read + 2 * kv_per_token * (cached_len + q_len)",
    ),
)
ghost(
    "level01.phases.phase_cost",
    "whole_bytes",
    "bytes_per_element can be 0.5: do not round it.",
    change=("moved = bytes_per_element *", "moved = int(bytes_per_element) *"),
)
ghost(
    "level01.phases.phase_cost",
    "upside_down",
    "Intensity is FLOPs per byte: divide the FLOPs by the bytes.",
    change=('"intensity": flops / moved', '"intensity": moved / flops'),
)
# ---- worksheet

slip(
    "level01.worksheet.naive_tokens",
    "constant_length",
    "600: the sequence grows; add the 0 + 1 + … + 19 new tokens that stand in front of each step.",
    value=20 * 30,
)
slip(
    "level01.worksheet.naive_tokens",
    "one_to_n",
    "810: the first pass sees the prompt alone, so the new tokens add 0 + 1 + … + 19, not 1 + … + 20.",
    value=20 * 30 + 20 * 21 // 2,
)
slip(
    "level01.worksheet.naive_tokens",
    "one_pass_more",
    "840: that is one pass too many, of all 50 tokens; nobody asks what follows the last one.",
    value=20 * 30 + 20 * 21 // 2 + 30,
)
slip(
    "level01.worksheet.naive_tokens",
    "final_length_each",
    "1000: only the finished sequence has 50 tokens; the passes before had fewer.",
    value=20 * 50,
)
slip(
    "level01.worksheet.naive_tokens",
    "prompt_once",
    "220: the prompt was counted once; without a cache it goes through in each of the 20 passes.",
    value=30 + 20 * 19 // 2,
)
slip(
    "level01.worksheet.cached_tokens",
    "one_extra",
    "50: the last new token is never fed; nobody asks what follows it.",
    value=30 + 20,
)
slip(
    "level01.worksheet.cached_tokens",
    "no_prompt",
    "19: those are the decode steps; the 30 tokens of the prompt go through the model as well.",
    value=19,
)
slip(
    "level01.worksheet.cached_tokens",
    "passes",
    "20: that is the number of passes; the first of them takes 30 tokens.",
    value=20,
)
slip(
    "level01.worksheet.cached_tokens",
    "prompt_fed_twice",
    "51: the last prompt token and the last new one were fed too often: the prefill gives the first new token.",
    value=30 + 1 + 20,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "drops_remainder",
    "3.766: the last 104 tokens are a chunk too, and it reads all the weights.",
    value=7 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "share_of_a_pass",
    "4.204: a shorter chunk is a whole pass: it reads all the weights, not 104/128 of them.",
    value=1000 / 128 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "one_reading",
    "0.538: that is one reading; each chunk is a pass of its own and reads the weights again.",
    value=4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "once_per_token",
    "538.1: that is one reading per token; the tokens of a chunk share one.",
    value=1000 * 4 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "bfloat16",
    "2.152: that is 2 bytes a weight, bfloat16; float32 takes 4.",
    value=8 * 2 * 134515008 / 1e9,
)
slip(
    "level01.worksheet.chunked_gigabytes",
    "gibibytes",
    "4.009: that is in GiB, 2**30 bytes; a GB is 1e9 bytes.",
    value=8 * 4 * 134515008 / 2**30,
)
slip(
    "level01.worksheet.decode_intensity",
    "no_kv_read",
    "2.052: a decode step also reads the keys and values of all 4096 tokens.",
    value=552075264 / (2 * 134515008),
)
slip(
    "level01.worksheet.decode_intensity",
    "kv_query_heads",
    "0.9999: the cache was counted for 9 heads; it holds 3 KV heads.",
    value=552075264 / (2 * (134515008 + 2 * 30 * 9 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "keys_only",
    "1.746: that is the cache with keys alone; every token stores a key and a value.",
    value=552075264 / (2 * (134515008 + 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "half",
    "0.7596: half of the right value: a multiply-add is two FLOPs, and a number in bfloat16 has two bytes.",
    value=552075264 / (4 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "no_scores",
    "0.7401: the scores are missing; a query meets all 4096 keys, twice: q kᵀ and the weighted sum.",
    value=268959744 / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "no_head",
    "1.363: the vocabulary projection is missing; a decode step needs the logits of its token.",
    value=(2 * 106168320 + 69120 * 4096) / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_intensity",
    "one_product",
    "1.130: only one product per key was counted; after q kᵀ the weights multiply the values.",
    value=(268959744 + 69120 // 2 * 4096) / (2 * (134515008 + 2 * 30 * 3 * 64 * 4096)),
)
slip(
    "level01.worksheet.decode_microseconds",
    "no_kv_read",
    "80.31: that is the weights alone; the step also reads the keys and values of 4096 tokens.",
    value=2 * 134515008 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "arithmetic",
    "0.5582: that is the time of the arithmetic; the bytes take longer, and the longer of the two decides.",
    value=552075264 / 989e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "float32",
    "217.0: that is 4 bytes a number, float32; bfloat16 takes 2.",
    value=2 * 363401856 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "kv_query_heads",
    "164.8: the cache was counted for 9 heads; it holds 3 KV heads.",
    value=2 * (134515008 + 2 * 30 * 9 * 64 * 4096) / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.decode_microseconds",
    "milliseconds",
    "0.1085: that is in milliseconds; asked are microseconds.",
    value=363401856 / 3.35e12 * 1e3,
)
slip(
    "level01.worksheet.decode_microseconds",
    "keys_only",
    "94.39: that is the cache with keys alone; every token stores a key and a value.",
    value=2 * (134515008 + 30 * 3 * 64 * 4096) / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "bytes",
    "108.5: that is the time of the bytes; here the arithmetic takes longer, and the longer of the two decides.",
    value=363401856 / 3.35e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "full_square",
    "2052: all pairs were counted; a causal mask allows 4096 · 4097 / 2.",
    value=(2 * 4096 * 106168320 + 69120 * 4096**2 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "all_logits",
    "1700: the vocabulary projection was counted for all 4096 tokens; only the last one's logits are asked for.",
    value=(2 * 4096 * 134479872 + 69120 * 4096 * 4097 / 2) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "no_scores",
    "879.5: the scores are missing; at this length they cost two thirds of what the matrices cost.",
    value=(2 * 4096 * 106168320 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "sum",
    "1574: bytes and arithmetic were added; they go on at the same time, and the longer of the two decides.",
    value=1465.874 + 108.478,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "mac_is_one",
    "732.9: a multiply-add was counted as one FLOP; it is two.",
    value=1465.874 / 2,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "decode_steps",
    "2286: that is 4096 times the decode step; most tokens see fewer keys, and only the last one needs logits.",
    value=4096 * 552075264 / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prefill_microseconds",
    "one_product",
    "1173: only one product per key was counted; after q kᵀ the weights multiply the values.",
    value=(2 * 4096 * 106168320 + 69120 // 2 * 4096 * 4097 / 2 + 2 * 28311552) / 989e12 * 1e6,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "upside_down",
    "0.003299: that is upside down: the decode steps in the time of one prompt token.",
    value=1465.874 / 4096 / 108.478,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "whole_prefill",
    "13.51: that is the time of the whole prefill over the decode step; divide the prefill by its 4096 tokens first.",
    value=1465.874 / 108.478,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "intensities",
    "2626: that is the ratio of the intensities; beyond 295 FLOP/byte the arithmetic sets the time, not the bytes.",
    value=3989.384 / 1.519187,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "bytes_only",
    "4096: that is the ratio of bytes per token; the prefill is longer than its bytes, since arithmetic decides there.",
    value=4096,
)
slip(
    "level01.worksheet.prompt_tokens_per_step",
    "flops_only",
    "1.560: that is the ratio of FLOPs per token; the decode step waits for its bytes.",
    value=552075264 / (1449749643264 / 4096),
)
slip(
    "level01.worksheet.shown_characters",
    "piece_by_piece",
    '9: "Hum" may be the beginning of "Human:", and what has been shown cannot be taken back.',
    value=9,
)
slip(
    "level01.worksheet.shown_characters",
    "keeps_the_line_end",
    '5: the line end had to wait for one more character; an H came, so it is no part of "\\n\\n" and may go.',
    value=5,
)
slip(
    "level01.worksheet.shown_characters",
    "always_five",
    "4: five characters were held back, as many as might ever be needed; hold only a tail that begins a stop string.",
    value=9 - 5,
)
slip(
    "level01.worksheet.shown_characters",
    "held_characters",
    "3: those are the characters that are held back; asked are the others.",
    value=3,
)
slip(
    "level01.worksheet.shown_characters",
    "holds_everything",
    "0: text that cannot become a stop string may be shown at once; a user is waiting for it.",
    value=0,
)
