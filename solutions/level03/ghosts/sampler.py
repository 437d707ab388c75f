"""Known-wrong programs of level03.sampler. `ghost` is given when this is read."""

# ---- process

TEMPERATURE = "    logits = apply_temperature(logits, p.temperature)\n"
TOP_K = "    if p.top_k:\n        logits = top_k(logits, p.top_k)\n"
REST = "return min_p(top_p(logits, p.top_p), p.min_p)"
PENALTIES = "    logits = apply_penalties(logits, prompt_ids, output_ids, *penalties)\n"
ghost(
    "level03.sampler.process",
    "temperature_last",
    "Temperature comes before the truncation here; llama.cpp's chain does it last: the same settings, other tokens.",
    change=[
        (TEMPERATURE, ""),
        (REST, "return apply_temperature(min_p(top_p(logits, p.top_p), p.min_p), p.temperature)"),
    ],
    convention=True,
)
ghost(
    "level03.sampler.process",
    "temperature_before_min_p_alone",
    "Temperature comes before all three truncations: top-k and top-p see the tempered logits too.",
    change=[
        (TEMPERATURE, ""),
        (REST, "return min_p(apply_temperature(top_p(logits, p.top_p), p.temperature), p.min_p)"),
    ],
)
ghost(
    "level03.sampler.process",
    "min_p_before_temperature",
    "Temperature comes before min-p: at T = 2 more tokens are within reach of the most likely one.",
    change=[
        (TEMPERATURE, "    logits = apply_temperature(min_p(logits, p.min_p), p.temperature)\n"),
        (REST, "return top_p(logits, p.top_p)"),
    ],
    convention=True,
)
ghost(
    "level03.sampler.process",
    "p_before_k",
    "Top-k comes before top-p, and what is left is renormalized: .4 and .3 become .571 and .429, so p = 0.5 keeps one.",
    change=[
        (TOP_K, ""),
        (
            REST,
            "logits = top_p(logits, p.top_p)\n    return min_p(top_k(logits, p.top_k) if p.top_k else logits, p.min_p)",
        ),
    ],
    convention=True,
)
ghost(
    "level03.sampler.process",
    "min_p_before_p",
    "Top-p comes before min-p: after it the probabilities that top-p adds up would be larger.",
    change=(REST, "return top_p(min_p(logits, p.min_p), p.top_p)"),
)
ghost(
    "level03.sampler.process",
    "penalty_after_temperature",
    "Penalties act on the raw logits, before the temperature: greedy decoding would never see them.",
    change=[
        (PENALTIES, ""),
        (TEMPERATURE, TEMPERATURE + PENALTIES),
    ],
)
ghost(
    "level03.sampler.process",
    "penalties_last",
    "Penalties come first: they decide which tokens are among the k best, and which are the nucleus.",
    change=[
        (PENALTIES, ""),
        (
            REST,
            "logits = min_p(top_p(logits, p.top_p), p.min_p)\n    return apply_penalties(logits, prompt_ids, output_ids, *penalties)",
        ),
    ],
)
ghost(
    "level03.sampler.process",
    "penalties_after_top_k",
    "Penalties come before top-k: a token that has been made too often gives its place to another.",
    change=[
        (PENALTIES, ""),
        (TOP_K, TOP_K + PENALTIES),
    ],
)
ghost(
    "level03.sampler.process",
    "greedy_at_once",
    "At temperature 0 the penalties still count: the argmax of the raw logits is not the answer.",
    change=(PENALTIES, "    if p.temperature == 0:\n        return apply_temperature(logits, 0)\n" + PENALTIES),
)
ghost(
    "level03.sampler.process",
    "zero_is_off",
    "Temperature 0 is greedy, not off: 1 changes nothing.",
    change=("apply_temperature(logits, p.temperature)", "apply_temperature(logits, p.temperature or 1.0)"),
)
ghost(
    "level03.sampler.process",
    "top_k_0_is_refused",
    "top_k = 0 means all: do not pass it on, top_k itself needs at least 1.",
    change=(TOP_K, "    logits = top_k(logits, p.top_k)\n"),
)
ghost(
    "level03.sampler.process",
    "top_k_0_is_1",
    "top_k = 0 means all tokens, not one.",
    change=(TOP_K, "    logits = top_k(logits, max(1, p.top_k))\n"),
)
ghost(
    "level03.sampler.process",
    "top_k_is_left_out",
    "The chain has a step for top_k.",
    change=(TOP_K, ""),
)
ghost(
    "level03.sampler.process",
    "top_p_is_left_out",
    "The chain has a step for top_p.",
    change=(REST, "return min_p(logits, p.min_p)"),
)
ghost(
    "level03.sampler.process",
    "min_p_is_left_out",
    "The chain has a step for min_p.",
    change=(REST, "return top_p(logits, p.top_p)"),
)
ghost(
    "level03.sampler.process",
    "penalties_are_left_out",
    "The chain begins with the three penalties.",
    change=(PENALTIES, ""),
)
ghost(
    "level03.sampler.process",
    "frequency_is_left_out",
    "There are three penalties: repetition, presence and frequency.",
    change=("p.presence_penalty, p.frequency_penalty", "p.presence_penalty, 0.0"),
)
ghost(
    "level03.sampler.process",
    "presence_and_frequency_swapped",
    "apply_penalties takes repetition, presence and frequency in this order; yours are swapped.",
    change=("p.presence_penalty, p.frequency_penalty", "p.frequency_penalty, p.presence_penalty"),
)
ghost(
    "level03.sampler.process",
    "histories_swapped",
    "The prompt comes first, then the output: only the output counts for presence and frequency.",
    change=("logits, prompt_ids, output_ids, *penalties", "logits, output_ids, prompt_ids, *penalties"),
)
ghost(
    "level03.sampler.process",
    "one_history",
    "Prompt and output are told apart: presence and frequency do not look at the prompt.",
    change=(
        "logits, prompt_ids, output_ids, *penalties",
        "logits, output_ids, [[*a, *b] for a, b in zip(prompt_ids, output_ids)], *penalties",
    ),
)
ghost(
    "level03.sampler.process",
    "normalizes",
    "Processors return logits: do not normalize them at the end.",
    change=(REST, "return min_p(top_p(logits, p.top_p), p.min_p).log_softmax(-1)"),
)
ghost(
    "level03.sampler.process",
    "returns_probabilities",
    "Processors return logits: the softmax comes when a token is drawn.",
    change=(REST, "return min_p(top_p(logits, p.top_p), p.min_p).softmax(-1)"),
)
ghost(
    "level03.sampler.process",
    "float32",
    "The result has the dtype of the logits.",
    change=(PENALTIES, "    logits = apply_penalties(logits.float(), prompt_ids, output_ids, *penalties)\n"),
)
ghost(
    "level03.sampler.process",
    "in_place",
    "Leave the raw logits alone: they give the model's own log-probabilities afterwards.",
    change=[
        (PENALTIES, "    raw = logits\n" + PENALTIES),
        (REST, "return raw.copy_(min_p(top_p(logits, p.top_p), p.min_p))"),
    ],
)

# ---- choose_tokens

NUMBER = "uniform(own.seed, len(output))"
ghost(
    "level03.sampler.choose_tokens",
    "settings_of_the_first",
    "Each request has settings of its own; those of the first row are not for all.",
    change=(
        "zip(logits, prompt_ids, output_ids, params)",
        "zip(logits, prompt_ids, output_ids, [params[0]] * len(params))",
    ),
)
ghost(
    "level03.sampler.choose_tokens",
    "seed_of_the_first",
    "Each request has a seed of its own: with the first one's, a text depends on who else is in the batch.",
    change=(NUMBER, "uniform(params[0].seed, len(output))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "one_number_for_all",
    "Each row has its own random number: one for the batch makes all rows lucky or unlucky together.",
    change=(NUMBER, "uniform(params[0].seed, len(output_ids[0]))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "row_in_the_seed",
    "The row is no part of the seed: a request gets the same text wherever it stands in the batch.",
    change=(NUMBER, "uniform(None if own.seed is None else own.seed + len(tokens), len(output))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "step_of_the_first",
    "The step is the number of the request's own output tokens, not of the first one's.",
    change=(NUMBER, "uniform(own.seed, len(output_ids[0]))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "same_number_each_step",
    "Each step has its own random number: with one for all of them a text repeats itself.",
    change=(NUMBER, "uniform(own.seed, 0)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "counts_the_prompt",
    "The step is the number of new tokens: with a longer prompt the same seed would have other numbers.",
    change=(NUMBER, "uniform(own.seed, len(prompt) + len(output))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "length_of_the_prompt",
    "The step is the number of output tokens, which grows; that of prompt tokens stays the same.",
    change=(NUMBER, "uniform(own.seed, len(prompt))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "steps_from_1",
    "Steps begin at 0: the first token is chosen when there are no output tokens.",
    change=(NUMBER, "uniform(own.seed, len(output) + 1)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "last_token_in_place_of_the_step",
    "The step is how many tokens there are, not which one is the last.",
    change=(NUMBER, "uniform(own.seed, output[-1] if output else 0)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "without_a_seed_seed_0",
    "No seed means another text each time: None is not 0.",
    change=(NUMBER, "uniform(own.seed or 0, len(output))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "seed_0_is_none",
    "0 is a seed like any other: ask whether it is None, not whether it is true.",
    change=(NUMBER, "uniform(own.seed or None, len(output))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "a_generator_for_the_batch",
    "One generator for all rows gives a request other numbers when another one stands before it.",
    change=[
        (
            "    tokens = []\n",
            "    tokens = []\n    generator = torch.Generator().manual_seed((params[0].seed or 0) % 2**63)\n",
        ),
        (NUMBER, "float(torch.rand((), generator=generator))"),
    ],
)
ghost(
    "level03.sampler.choose_tokens",
    "another_generator",
    "The random number is uniform(seed, step), and nothing else: another generator gives a seed another text.",
    change=(
        NUMBER,
        "float(torch.rand((), generator=torch.Generator().manual_seed(((own.seed or 0) + len(output)) % 2**63)))",
    ),
)
ghost(
    "level03.sampler.choose_tokens",
    "rounded_number",
    "Keep the number in float64: in float32 it can be 1, and then there is no token left.",
    change=(", dtype=torch.float64)", ")"),
)
ghost(
    "level03.sampler.choose_tokens",
    "clamped_number",
    "Keep the number in float64: rounded to float32 and pushed below 1, it never reaches the rarest tokens.",
    change=("inverse_cdf(probs, u)", "inverse_cdf(probs, u.float().clamp(max=1 - 2**-24))"),
)
ghost(
    "level03.sampler.choose_tokens",
    "always_greedy",
    "Draw a token: the largest probability is only the choice at temperature 0.",
    change=("inverse_cdf(probs, u)", "probs.argmax(-1)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "raw_logits",
    "Draw from what `process` has left, not from the raw logits.",
    change=("process(row.unsqueeze(0), own, [prompt], [output])", "row.unsqueeze(0)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "from_the_logits",
    "inverse_cdf takes probabilities: softmax comes first.",
    change=(".double().softmax(-1)", ".double()"),
)
ghost(
    "level03.sampler.choose_tokens",
    "softmax_in_the_logits_dtype",
    "Take the softmax in float32 or better: in bfloat16 a probability has three digits, and the borders move.",
    change=(".double().softmax(-1)", ".softmax(-1)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "softmax_twice",
    "One softmax is enough: a second one makes the distribution almost flat.",
    change=(".double().softmax(-1)", ".double().softmax(-1).softmax(-1)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "sorted_first",
    "The running sum goes along the ids, not from the most likely token on.",
    change=(
        "tokens.append(inverse_cdf(probs, u))",
        "ordered, ids = probs.sort(descending=True, stable=True)\n        tokens.append(ids[0, inverse_cdf(ordered, u)])",
    ),
)
ghost(
    "level03.sampler.choose_tokens",
    "from_the_other_end",
    "The token is the inverse_cdf at u itself, not at 1 - u: as good a number, but another text.",
    change=("inverse_cdf(probs, u)", "probs.shape[-1] - 1 - inverse_cdf(probs.flip(-1), u)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "history_of_the_first",
    "Each request is penalized for its own history, not for that of the first row.",
    change=("own, [prompt], [output])", "own, prompt_ids, output_ids)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "histories_swapped",
    "`process` takes the prompt first and then the output.",
    change=("own, [prompt], [output])", "own, [output], [prompt])"),
)
ghost(
    "level03.sampler.choose_tokens",
    "no_history",
    "Pass the histories on: without them no penalty works.",
    change=("own, [prompt], [output])", "own, [[]], [[]])"),
)
ghost(
    "level03.sampler.choose_tokens",
    "one_row",
    "One token for each row, not for the first alone.",
    change=("torch.cat(tokens)", "tokens[0]"),
)
ghost(
    "level03.sampler.choose_tokens",
    "a_column",
    "The tokens are (B,), not (B, 1).",
    change=("torch.cat(tokens)", "torch.stack(tokens)"),
)
ghost(
    "level03.sampler.choose_tokens",
    "a_list",
    "Return a tensor of int64, not a list: the loops index with it.",
    change=("torch.cat(tokens)", "torch.cat(tokens).tolist()"),
)
ghost(
    "level03.sampler.choose_tokens",
    "int32",
    "Token ids are int64: embeddings are looked up with them.",
    change=("torch.cat(tokens)", "torch.cat(tokens).int()"),
)
