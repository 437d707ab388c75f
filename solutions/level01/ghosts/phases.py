"""Known-wrong programs of level01.phases. `ghost` is given when this is read."""

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
