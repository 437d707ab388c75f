"""Known-wrong programs of level02.padding. `ghost` is given when this is read."""

LONGEST = "S = max(len(prompt) for prompt in prompts)"
IDS = "[pad_id] * (S - len(prompt)) + list(prompt)"
VALID = "[False] * (S - len(prompt)) + [True] * len(prompt)"


def _pad(name, sentence, *changes, convention=False):
    ghost("level02.padding.left_pad", name, sentence, change=list(changes), convention=convention)


_pad(
    "right_pad",
    "Pad on the left: every row's next token is predicted at its last token, and that is the last column.",
    (IDS, "list(prompt) + [pad_id] * (S - len(prompt))"),
    (VALID, "[True] * len(prompt) + [False] * (S - len(prompt))"),
)
_pad(
    "valid_by_id",
    "Validity comes from the lengths: the pad id, often the end-of-text token, may be a real token of a prompt.",
    ("return ids, valid", "return ids, ids != pad_id"),
)
_pad(
    "pads_shortest",
    "Pad to the longest prompt: cut to the shortest, the others lose their beginnings.",
    (LONGEST, LONGEST.replace("max", "min")),
    (IDS, "list(prompt)[-S:]"),
    (VALID, "[True] * S"),
)
_pad(
    "valid_on_the_left",
    "ids and valid belong together: the real tokens stand on the right in both.",
    (VALID, "[True] * len(prompt) + [False] * (S - len(prompt))"),
)
_pad(
    "all_valid",
    "Padding is not a token: its entries in valid are False.",
    (VALID, "[True] * S"),
)
_pad(
    "true_is_padding",
    "True means a real token here; in some libraries it marks the padding.",
    ("return ids, valid", "return ids, ~valid"),
    convention=True,
)
_pad(
    "ones_and_zeros",
    "valid is bool: 1 and 0 as int64 are another library's attention_mask.",
    ("return ids, valid", "return ids, valid.long()"),
    convention=True,
)
_pad(
    "valid_first",
    "First ids, then valid.",
    ("return ids, valid", "return valid, ids"),
)
_pad(
    "pads_with_zero",
    "Pad with pad_id, whichever it is.",
    (IDS, IDS.replace("[pad_id]", "[0]")),
)
_pad(
    "flipped",
    "Turning a right-padded row round puts the padding on the left, and the tokens backwards.",
    (IDS, f"{IDS}[::-1]"),
)
_pad(
    "sorted_by_length",
    "Rows keep the order of the prompts: the answers go back to the requests by row.",
    (LONGEST, f"prompts = sorted(prompts, key=len, reverse=True)\n    {LONGEST}"),
)
_pad(
    "multiple_of_8",
    "As many columns as the longest prompt has tokens; filling up to a multiple of 8 is something that some GPUs like.",
    (LONGEST, "S = (max(len(prompt) for prompt in prompts) + 7) // 8 * 8"),
    convention=True,
)
_pad(
    "one_column_more",
    "The longest prompt needs no padding: its first token stands in column 0.",
    (LONGEST, "S = 1 + max(len(prompt) for prompt in prompts)"),
)
_pad(
    "int32",
    "ids are int64, as in the rest of the course.",
    ("return ids, valid", "return ids.int(), valid"),
)
_pad(
    "through_float",
    "A token id is a whole number all the way: float32 has none between 16,777,216 and 16,777,218.",
    ("return ids, valid", "return ids.float().long(), valid"),
)
_pad(
    "lists_only",
    "A prompt may be any sequence: a tuple cannot be added to a list.",
    (IDS, IDS.replace("list(prompt)", "prompt")),
)


COUNT = "(valid.long().cumsum(-1) - 1).clamp(min=0)"


def _positions(name, sentence, new, convention=False):
    ghost("level02.padding.left_pad", name, sentence, change=(COUNT, new), convention=convention)


_positions(
    "shared_positions",
    "Each row has positions of its own: its first real token stands at 0, whatever the width of the batch.",
    "torch.arange(valid.shape[1]).expand(valid.shape)",
)
_positions(
    "one_based",
    "cumsum counts from 1 on, positions from 0.",
    "valid.long().cumsum(-1)",
)
_positions(
    "negative_pads",
    "Padding at -1 reads the last row of a table: give it position 0, which is in every table.",
    "valid.long().cumsum(-1) - 1",
)
_positions(
    "padding_moves_on",
    "Padding behind a row's end takes up no position: otherwise an ended row runs out of them.",
    "(torch.arange(valid.shape[1]) - valid.long().argmax(-1, keepdim=True)).clamp(min=0)",
)
_positions(
    "tokens_before",
    "In padded_positions, padding behind the last token repeats its position; yours stands one further.",
    "valid.long().cumsum(-1) - valid.long()",
)
_positions(
    "zero_at_all_padding",
    "Padding at the end repeats the last token's position; 0 is for padding at the start.",
    f"{COUNT} * valid",
)
_positions(
    "one_at_padding",
    "Padding at the start has position 0 here; 1 is what another library fills in.",
    f"{COUNT}.masked_fill(~valid, 1)",
    convention=True,
)
_positions(
    "down_the_rows",
    "Count along each row, over its columns; yours counts down the batch.",
    "(valid.long().cumsum(0) - 1).clamp(min=0)",
)
_positions(
    "from_the_end",
    "Positions grow from left to right: the first real token is 0, not the last.",
    "(valid.flip(-1).long().cumsum(-1).flip(-1) - 1).clamp(min=0)",
)
_positions(
    "positions_in_int32",
    "Positions are int64.",
    f"{COUNT}.int()",
)


CAUSAL = "causal_mask(q_len, valid.shape[1]).to(valid.device)"
BOTH = "causal & valid[:, None, None, :]  # (q_len, kv_len) and (B, 1, 1, kv_len)"


def _mask(name, sentence, new, convention=False):
    ghost("level02.padding.padded_mask", name, sentence, change=(BOTH, new), convention=convention)


_mask(
    "ignores_padding",
    "Padding is no word of the prompt: no query may see it.",
    "causal.expand(len(valid), 1, -1, -1)",
)
_mask(
    "masks_queries",
    "valid is about the keys: it goes along the last axis.",
    "causal & valid[:, None, valid.shape[1] - q_len :, None]",
)
_mask(
    "forgets_causal",
    "A padded prefill is causal all the same: no query sees a later column.",
    "valid[:, None, None, :].expand(-1, -1, causal.shape[0], -1)",
)
_mask(
    "either",
    "Both must hold, not one of them: not later than the query, and a real token.",
    "causal | valid[:, None, None, :]",
)
_mask(
    "not_itself",
    "A query sees itself too: a row's first token would see nothing.",
    "causal.tril(valid.shape[1] - q_len - 1) & valid[:, None, None, :]",
)
_mask(
    "from_the_upper_left",
    "The queries are the last columns: with a cache before them the triangle begins further right.",
    "torch.ones_like(causal).tril() & valid[:, None, None, :]",
)
_mask(
    "true_is_hidden",
    "True means may attend here; in other libraries it marks what is hidden.",
    "~(causal & valid[:, None, None, :])",
    convention=True,
)
_mask(
    "added_to_the_scores",
    "The mask is bool; 0 and -inf, to be added to the scores, is another library's form of it.",
    "torch.zeros(1).masked_fill(~(causal & valid[:, None, None, :]), -torch.inf)",
    convention=True,
)
_mask(
    "padding_sees_itself",
    "Padding that sees itself is what a softmax with NaN needs; level 00's makes zeros of a row that sees nothing.",
    "(causal & valid[:, None, None, :]) | (causal & ~causal.tril(valid.shape[1] - q_len - 1))",
    convention=True,
)
_mask(
    "no_axis_for_the_heads",
    "The mask is (B, 1, q_len, kv_len): without the axis for the heads its rows are taken for heads.",
    "causal & valid[:, None, :]",
)
_mask(
    "one_row_for_all",
    "Each row has padding of its own: the first row's mask does not fit the others.",
    "(causal & valid[:1, None, None, :]).expand(len(valid), -1, -1, -1)",
)
_mask(
    "valid_in_all_rows",
    "A column that is padding in one row holds a token in another: mask row by row.",
    "(causal & valid.all(0)).expand(len(valid), 1, -1, -1)",
)
_mask(
    "from_the_first_token_on",
    "Padding may stand behind a row's first token as well: ask valid at every column.",
    "causal & (torch.arange(valid.shape[1]) >= valid.long().argmax(-1)[:, None, None, None])",
)
_mask(
    "by_position",
    "Padding at the start counts as position 0, so by position it sees the row's first token, which is later: go by column.",
    "((p := padded_positions(valid)[:, None])[..., valid.shape[1] - q_len :, None] >= p[..., None, :]) & valid[:, None, None]",
    convention=True,
)
_mask(
    "columns_are_counted",
    "Which columns are padding matters, not only how many.",
    "causal & (torch.arange(valid.shape[1]) >= (~valid).sum(-1)[:, None, None, None])",
)
ghost(
    "level02.padding.padded_mask",
    "all_columns_as_queries",
    "Only the last q_len columns are queries: in a decode step one of them.",
    change=(CAUSAL, "causal_mask(q_len, valid.shape[1]).new_ones(valid.shape[1], valid.shape[1]).tril()"),
)


OUTPUTS = "outputs: list[list[int]] = [[] for _ in prompts]\n"
LIVE = "    live = [limit > 0 for limit in limits]\n"
ROOM = "    room = ids.shape[1] + max(limits)\n"
CACHE = '    cache = KVCache(config, len(prompts), room, params["model.embed_tokens.weight"].dtype)\n'
LOOP = "    while any(live):\n"
POSITIONS = "        positions = padded_positions(valid)[:, -q_len:]\n"
PASS = "        logits = forward(params, config, ids, cache, positions=positions, mask=padded_mask(valid, q_len))\n"
CHOOSE = "choose(logits[:, -1], [list(prompt) for prompt in prompts], [list(output) for output in outputs])"
APPEND = "            if live[row]:\n                outputs[row].append(token)\n"
ENDS = "live[row] = token not in stop_ids and len(outputs[row]) < limits[row]"
GROW = "        valid = torch.cat([valid, torch.tensor(live).unsqueeze(1)], 1)\n"
FEED = "        ids = torch.where(torch.tensor(live), tokens, pad_id).unsqueeze(1)\n"


def _batch(name, sentence, *changes, convention=False):
    ghost("level02.padding.generate_batch", name, sentence, change=list(changes), convention=convention)


_batch(
    "shared_positions",
    "Each row counts from its own first token. RoPE sees differences only, so the text hides it; windows, reused prefixes "
    "and the model's last position do not.",
    (
        POSITIONS,
        "        positions = (torch.arange(valid.shape[1]) % config.max_seq_len).expand(valid.shape)[:, -q_len:]\n",
    ),
)
_batch(
    "attends_to_padding",
    "Padding is in the cache: without the mask the shorter rows attend to it.",
    ("padded_mask(valid, q_len)", "padded_mask(torch.ones_like(valid), q_len)"),
)
_batch(
    "decode_at_cache_length",
    "cache.length counts columns, padding too: in a decode step as well, each row goes on from its own count.",
    (
        POSITIONS,
        POSITIONS
        + "        if cache.length:\n            positions = torch.full_like(positions, min(cache.length, config.max_seq_len - 1))\n",
    ),
)
_batch(
    "mask_only_in_prefill",
    "The padding stays in the cache: hide it in every decode step, not in the prefill alone.",
    ("padded_mask(valid, q_len)", "padded_mask(valid | (cache.length > 0), q_len)"),
)
_batch(
    "mask_of_the_new_columns",
    "A mask has a column for every cached token, kv_len in all, not only for those that are fed.",
    ("padded_mask(valid, q_len)", "padded_mask(valid[:, -q_len:], q_len)"),
)
_batch(
    "first_stop_ends_all",
    "A row that has ended waits; the others go on until each has ended.",
    (LOOP, "    while all(live):\n"),
)
_batch(
    "finished_rows_append",
    "A row that has ended gets no more tokens: what is chosen for it means nothing.",
    (APPEND, "            if outputs is not None:\n                outputs[row].append(token)\n"),
    (ENDS, f"live[row] = live[row] and {ENDS.removeprefix('live[row] = ')}"),
)
_batch(
    "rows_come_back",
    "An ended row stays ended: yours asks its newest token again, and that is no stop token any more.",
    (APPEND, APPEND.replace("if live[row]", "if len(outputs[row]) < limits[row]")),
)
_batch(
    "positions_restart",
    "A decode step goes on where the row's prompt ended; yours feeds every new token at position 0.",
    (POSITIONS, "        positions = padded_positions(valid)[:, :q_len]\n"),
)
_batch(
    "one_position_too_far",
    "A prompt of 2 tokens has positions 0 and 1: its first new token stands at 2, not at 3.",
    (POSITIONS, f"{POSITIONS[:-1]} + (cache.length > 0)\n"),
)
_batch(
    "first_column",
    "The next token is predicted at the last column; the first has seen nothing, or one token.",
    ("logits[:, -1]", "logits[:, 0]"),
)
_batch(
    "column_of_the_prompt_s_length",
    "Prompts are padded on the left: every row's last token stands in the last column, not in column len - 1.",
    (
        "logits[:, -1]",
        "logits[torch.arange(len(prompts)), [min(len(prompt), q_len) - 1 for prompt in prompts]]",
    ),
)
_batch(
    "new_cache_each_step",
    "One cache for all steps: a new one has forgotten the prompts.",
    (CACHE, ""),
    (LOOP, f"{LOOP}    {CACHE}"),
)
_batch(
    "recomputes_everything",
    "Right tokens, but every step runs all columns again: feed the newest token, the cache has the rest.",
    (CACHE, ""),
    (LOOP, f"{LOOP}    {CACHE}"),
    (FEED, "        ids = torch.cat([ids, tokens.unsqueeze(1)], 1)\n"),
)
_batch(
    "feeds_everything_again",
    "Only the newest token of each row is fed: what the cache holds would be stored twice.",
    (FEED, "        ids = torch.cat([ids, tokens.unsqueeze(1)], 1)\n"),
)
_batch(
    "no_cache",
    "Pass the cache on to `forward`: without it the newest tokens have no past, or all columns are run at every step.",
    (PASS, PASS.replace("cache,", "None,")),
    (FEED, "        ids = torch.cat([ids, tokens.unsqueeze(1)], 1)\n"),
)
_batch(
    "growing_cache",
    "Use a KVCache, whose room is reserved: level 01's copies everything at every step.",
    (CACHE, "    from level01.simple_cache import SimpleCache\n\n    cache = SimpleCache(config.n_layers)\n"),
)
_batch(
    "room_of_the_model",
    "Columns are not positions: beside a long prompt a short one goes on beyond max_seq_len columns.",
    (ROOM, "    room = config.max_seq_len\n"),
)
_batch(
    "no_room_at_all",
    "A cache has room for at least one token: for one prompt token and no new ones, S + 0 - 1 is none.",
    (ROOM, "    room = ids.shape[1] + max(limits) - 1\n"),
)
_batch(
    "always_float32",
    "The cache has the dtype of the weights: for a model in bfloat16, float32 takes twice the room.",
    (CACHE, "    cache = KVCache(config, len(prompts), room)\n"),
)
_batch(
    "room_for_max_tokens",
    "Reserve room for what can come, the largest of `limits`: max_tokens may be any number.",
    (ROOM, "    room = ids.shape[1] + max_tokens\n"),
)
_batch(
    "columns_are_positions",
    "Padding takes up no positions: a short prompt may go on for max_seq_len - len(prompt) tokens.",
    (LIVE, f"    limits = [min(limit, config.max_seq_len - ids.shape[1]) for limit in limits]\n{LIVE}"),
)
_batch(
    "ended_rows_go_on",
    "What an ended row is fed is padding and holds no position, or its positions run past the end of the model.",
    (GROW, "        valid = torch.cat([valid, torch.ones_like(valid[:, :1])], 1)\n"),
)
_batch(
    "ended_rows_are_fed_what_was_chosen",
    "Feed an ended row pad_id: what `choose` gives for it need not be a token of the vocabulary.",
    (FEED, "        ids = tokens.unsqueeze(1)\n"),
)
_batch(
    "the_last_token_is_fed",
    "A row's last token is not fed, as in level 01: the pass behind it gets pad_id in this row already.",
    (CACHE, f"{CACHE}    was = live[:]\n"),
    (FEED, FEED.replace("live", "was") + "        was = live[:]\n"),
    convention=True,
)
_batch(
    "ended_rows_are_fed_zero",
    "The id that pads is pad_id, in a decode step as in the prefill; 0 may be a word.",
    (FEED, FEED.replace("pad_id", "0")),
)
_batch(
    "pads_are_found_by_id",
    "A row may write the pad id as a real token: whether a column is padding depends on whether the row is live.",
    (GROW, "        valid = torch.cat([valid, torch.tensor(live).unsqueeze(1) & (ids != pad_id)], 1)\n"),
)
_batch(
    "the_pad_id_stops",
    "The pad id is a token like any other: only those in stop_ids end a row.",
    (ENDS, f"{ENDS} and token != pad_id"),
)
_batch(
    "ignores_stop",
    "A stop token ends its row: otherwise the request holds its place up to max_tokens.",
    (ENDS, "live[row] = len(outputs[row]) < limits[row]"),
)
_batch(
    "drops_the_stop_token",
    "The stop token is part of the row's result; whoever shows the text leaves it out.",
    (APPEND, APPEND.replace("outputs[row].append(token)", "outputs[row] += [token] * (token not in stop_ids)")),
    convention=True,
)
_batch(
    "one_too_many",
    "max_tokens counts the new tokens of each row exactly; yours makes one more.",
    (LIVE, f"    limits = [limit + 1 for limit in limits]\n{LIVE}"),
)
_batch(
    "at_least_one",
    "max_tokens may be 0, and a prompt may fill the model: ask before the first pass, not after it.",
    (LIVE, "    live = [True for limit in limits]\n"),
)
_batch(
    "prefill_for_nothing",
    "Where no row may have a token, no pass is made.",
    (
        LOOP,
        "    first = True\n    while any(live) or first:\n        first = False\n",
    ),
)
_batch(
    "runs_to_the_limit",
    "When the last row has ended, nothing is left to compute: yours goes on to the longest limit.",
    (LOOP, "    for _ in range(max(limits)):\n"),
)
_batch(
    "wasted_last_pass",
    "Ask whether a row is live before each pass: yours makes one more, whose tokens nobody gets.",
    (LOOP, "    while any(live) or cache.length < len(valid[0]) and cache.length:\n"),
)
_batch(
    "one_list_for_all",
    "[[]] * n is one list n times: every row then collects the tokens of all.",
    (OUTPUTS, "outputs: list[list[int]] = [[]] * len(prompts)\n"),
)
_batch(
    "padded_outputs",
    "Answers have lengths of their own: nothing is filled up behind a row's end.",
    (
        "    return outputs\n",
        "    return [output + [pad_id] * (max(map(len, outputs)) - len(output)) for output in outputs]\n",
    ),
)
_batch(
    "returns_the_prompts_too",
    "Return the new tokens alone, without the prompts.",
    ("    return outputs\n", "    return [[*prompt, *output] for prompt, output in zip(prompts, outputs)]\n"),
    convention=True,
)
_batch(
    "greedy_only",
    "Ask `choose` for the tokens: a sampler or a penalty comes in there, and yours always takes the most likely.",
    (CHOOSE, "logits[:, -1].argmax(-1)"),
)
_batch(
    "padded_prompts_in_the_histories",
    "The histories hold real tokens only: a penalty would count the padding.",
    ("[list(prompt) for prompt in prompts]", "left_pad(prompts, pad_id)[0].tolist()"),
)
_batch(
    "prompts_in_the_output_histories",
    "`choose` gets prompts and outputs apart: some penalties count the new tokens only.",
    (
        "[list(output) for output in outputs]",
        "[[*prompt, *output] for prompt, output in zip(prompts, outputs)]",
    ),
)
_batch(
    "newest_tokens_as_histories",
    "`choose` gets all tokens made so far, not the newest ones alone.",
    ("[list(output) for output in outputs]", "[output[-1:] for output in outputs]"),
)
_batch(
    "choose_row_by_row",
    "`choose` is called once for all rows, with logits (B, vocab): a sampler draws for the whole batch.",
    (
        CHOOSE,
        "torch.cat([choose(logits[i : i + 1, -1], [list(prompts[i])], [list(outputs[i])]) for i in range(len(prompts))])",
    ),
)
_batch(
    "the_default_forward",
    "Call the `forward` that was passed: yours uses level 00's whatever the caller gave.",
    (LIVE, f"    from level00.transformer import forward\n\n{LIVE}"),
)


def _row_by_row(params, config, prompts, max_tokens, stop_ids=(), pad_id=0, *, choose=None, forward=None):
    from level01.generate import generate

    if not prompts:
        raise ValueError("no prompts")
    seams = {name: seam for name, seam in {"choose": choose, "forward": forward}.items() if seam}
    return [generate(params, config, prompt, max_tokens, stop_ids, **seams) for prompt in prompts]


ghost(
    "level02.padding.generate_batch",
    "row_by_row",
    "Right tokens, but one row after the other reads the weights once for each: all rows share every pass.",
    program=_row_by_row,
)
