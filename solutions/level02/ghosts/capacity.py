"""Known-wrong programs of level02.capacity. `ghost` is given when this is read."""

ENTRY = "kv_bytes_per_token(config, bytes_per_element)"
WEIGHTS = "weight_bytes(config, bytes_per_param)"


def _tokens(name, sentence, new):
    ghost("level02.capacity.max_cached_tokens", name, sentence, change=(f"int(free // {ENTRY})", new))


_tokens(
    "forgets_weights",
    "The weights lie in the same memory: only what they leave free is for the cache.",
    f"int((1 - reserve) * memory_bytes // {ENTRY})",
)
_tokens(
    "gib",
    "80 GB are 80e9 bytes; 80 GiB would be 7% more. memory_bytes is in bytes already.",
    f"int(((1 - reserve) * memory_bytes * 2**30 / 1e9 - {WEIGHTS}) // {ENTRY})",
)
_tokens(
    "reserve_of_free",
    "The reserve is a part of the whole memory, as engines define it, not of what the weights leave.",
    f"int((1 - reserve) * (memory_bytes - {WEIGHTS}) // {ENTRY})",
)
_tokens(
    "ignores_reserve",
    "Keep the reserve free: activations need room too, or the first long prompt runs out of memory.",
    f"int((memory_bytes - {WEIGHTS}) // {ENTRY})",
)
_tokens(
    "reserve_twice",
    "The reserve is taken once: `free` is already without it.",
    f"int((1 - reserve) * free // {ENTRY})",
)
_tokens(
    "weights_twice",
    "The weights are taken off once: `free` is already without them.",
    f"int(max(free - {WEIGHTS}, 0) // {ENTRY})",
)
_tokens(
    "last_token_in_part",
    "A token that fits only in part does not fit: round down, not up.",
    f"int(-(-free // {ENTRY}))",
)
_tokens(
    "nearest_token",
    "Rounding to the nearest sometimes counts a token that only half fits: take the whole number below.",
    f"round(free / {ENTRY})",
)
_tokens(
    "a_float",
    "A number of tokens is an int: of floats, // gives a float.",
    f"free // {ENTRY}",
)
_tokens(
    "width_of_the_weights",
    "The cache has a width of its own, bytes_per_element: weights in 4 bits often go with a cache in 16.",
    "int(free // kv_bytes_per_token(config, bytes_per_param))",
)
_tokens(
    "cache_in_bfloat16",
    "Use bytes_per_element: a cache in 8 bits holds twice as many tokens as one in bfloat16.",
    "int(free // kv_bytes_per_token(config, 2))",
)
_tokens(
    "query_heads",
    "What is cached are KV heads, of which there are fewer than query heads.",
    f"int(free // ({ENTRY} * config.n_heads / config.n_kv_heads))",
)
_tokens(
    "one_layer",
    "Every layer keeps an entry of its own for each token.",
    f"int(free // ({ENTRY} / config.n_layers))",
)
_tokens(
    "one_request",
    "max_seq_len limits one request; these are the tokens of all requests together.",
    f"min(int(free // {ENTRY}), config.max_seq_len)",
)


ROOM = "max_cached_tokens(config, memory_bytes, bytes_per_param, bytes_per_element, reserve)"


def _batch(name, sentence, new):
    ghost("level02.capacity.max_cached_tokens", name, sentence, change=(f"{ROOM} // context_len", new))


_batch(
    "rounds_up",
    "Part of a request does not fit: round the number of requests down.",
    f"-(-{ROOM} // context_len)",
)
_batch(
    "nearest_request",
    "476.6 requests are 476: the nearest whole number may be one too many.",
    f"round({ROOM} / context_len)",
)
_batch(
    "a_fraction",
    "A number of requests is an int: divide with //.",
    f"{ROOM} / context_len",
)
_batch(
    "weights_per_sequence",
    "All requests share one copy of the weights; only the cache is kept for each.",
    f"int((1 - reserve) * memory_bytes // ({WEIGHTS} + context_len * {ENTRY}))",
)
_batch(
    "memory_over_request",
    "Take the weights off before you divide by what one request needs.",
    f"int((1 - reserve) * memory_bytes // (context_len * {ENTRY}))",
)
_batch(
    "default_reserve",
    "Pass `reserve` on: yours always takes the default of 0.1.",
    f"{ROOM.replace(', reserve', '')} // context_len",
)
_batch(
    "widths_swapped",
    "First the width of the weights, then that of the cache: yours are swapped.",
    f"{ROOM.replace('bytes_per_param, bytes_per_element', 'bytes_per_element, bytes_per_param')} // context_len",
)
_batch(
    "at_least_one",
    "A request that is longer than the room does not fit: then the answer is 0.",
    f"max({ROOM} // context_len, 1)",
)
_batch(
    "one_place_more",
    "context_len counts all tokens that a request caches: nothing comes on top of it.",
    f"{ROOM} // (context_len + 1)",
)


READ = 'read = counts["total"] if config.tie_embeddings else counts["total"] - counts["embedding"]'
RATIO = f"read * bytes_per_param / {ENTRY}"


def _crossover(name, sentence, *change):
    ghost("level02.capacity.crossover_tokens", name, sentence, change=change)


_crossover(
    "per_sequence",
    "Count tokens over the whole batch: its requests share the weights, and share nothing of the cache.",
    RATIO,
    f"{RATIO} / 8",
)
_crossover(
    "reads_embedding",
    "Of an untied embedding a step looks up single rows; it does not read the matrix.",
    READ,
    'read = counts["total"]',
)
_crossover(
    "tied_left_out",
    "A tied embedding is read whole at every step, as the matrix that makes the logits.",
    READ,
    'read = counts["total"] - counts["embedding"]',
)
_crossover(
    "tied_twice",
    "A tied matrix is stored once and read once: its rows for the new tokens are among what was read.",
    READ,
    READ.replace('counts["total"] if', 'counts["total"] + counts["embedding"] if'),
)
_crossover(
    "no_head",
    "An untied head is a matrix of its own, and every step multiplies by it.",
    READ,
    f'{READ} - counts["lm_head"]',
)
_crossover(
    "embedding_rows",
    "The rows that are looked up depend on the batch and are left out here.",
    READ,
    f"{READ} + config.d_model",
)
_crossover(
    "no_norms",
    "Norm weights are weights: they are read too, few as they are.",
    READ,
    f'{READ}; read -= counts["norm"]',
)
_crossover(
    "same_width",
    "Weights and cache have widths of their own: with 4-bit weights the cache weighs as much four times earlier.",
    RATIO,
    f"read * bytes_per_element / {ENTRY}",
)
_crossover(
    "weights_in_bfloat16",
    "Multiply the weights by bytes_per_param: they need not be in bfloat16.",
    RATIO,
    f"read * 2 / {ENTRY}",
)
_crossover(
    "cache_in_bfloat16",
    "Use bytes_per_element: in a cache of 8 bits a step reads twice as many tokens before it weighs as much.",
    RATIO,
    "read * bytes_per_param / kv_bytes_per_token(config, 2)",
)
_crossover(
    "upside_down",
    "Bytes of weights over bytes of one token, not the other way round.",
    RATIO,
    f"{ENTRY} / (read * bytes_per_param)",
)
_crossover(
    "whole_tokens",
    "A crossover is a point on a line, 11,676.6, and not a number of tokens that fit: do not round it.",
    RATIO,
    f"{RATIO.replace(' / ', ' // ')}",
)
_crossover(
    "query_heads",
    "A step reads cached KV heads, of which there are fewer than query heads.",
    RATIO,
    f"{RATIO} * config.n_kv_heads / config.n_heads",
)


HELD = "1 - sum(lengths) / (len(lengths) * reserved)"


def _wasted(name, sentence, new):
    ghost("level02.capacity.wasted_fraction", name, sentence, change=(HELD, new))


_wasted(
    "used_fraction",
    "Wasted is what is not used: one minus that.",
    "sum(lengths) / (len(lengths) * reserved)",
)
_wasted(
    "against_longest",
    "Every row reserves the same room, whatever the longest request needs: that reservation is the waste.",
    "1 - sum(lengths) / (len(lengths) * max(lengths))",
)
_wasted(
    "per_row_mean_of_ratio_to_first",
    "All rows count, not the first alone.",
    "1 - lengths[0] / reserved",
)
_wasted(
    "one_row_reserved",
    "Each request has a row of its own: `reserved` is the room of one of them.",
    "1 - sum(lengths) / reserved",
)
_wasted(
    "longest_row",
    "The longest request is the one that wastes least: add up all of them.",
    "1 - max(lengths) / reserved",
)
_wasted(
    "emptiest_row",
    "The shortest request is the one that wastes most: add up all of them.",
    "1 - min(lengths) / reserved",
)
_wasted(
    "tokens_not_a_part",
    "A fraction is asked for: divide the empty places by all places.",
    "float(len(lengths) * reserved - sum(lengths))",
)
_wasted(
    "percent",
    "A part of 1, not of 100.",
    "100 * (1 - sum(lengths) / (len(lengths) * reserved))",
)
_wasted(
    "of_what_is_held",
    "Divide by what is reserved, not by what is held.",
    "(len(lengths) * reserved - sum(lengths)) / sum(lengths)",
)
_wasted(
    "empty_rows_left_out",
    "A request that holds nothing yet has its whole row all the same.",
    "1 - sum(lengths) / (max(sum(n > 0 for n in lengths), 1) * reserved)",
)
_wasted(
    "whole_division",
    "Divide with /: // gives 0 for everything that is not full.",
    "float(1 - sum(lengths) // (len(lengths) * reserved))",
)
_wasted(
    "two_digits",
    "Do not round: 0.99987 of a large server is not all of it.",
    "round(1 - sum(lengths) / (len(lengths) * reserved), 2)",
)
