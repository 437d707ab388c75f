"""Known-wrong programs of level05.throughput. `ghost` is given when this is read."""


def _cost(name, sentence, *change):
    ghost("level05.throughput.ragged_step_cost", name, sentence, change=change)


WEIGHTS = 'decode_step_cost(config, 1, 1, bytes_per_param, bytes_per_element)["weight_bytes"]'
FLOPS = 'sum(flops_per_token(config, context)["total"] for context in context_lens)'
CACHE = "sum(context_lens) * kv_bytes_per_token(config, bytes_per_element)"

# ---- what is read of the weights
_cost(
    "weights_per_sequence",
    "One step reads the weights once for the whole batch; that is what batching buys.",
    WEIGHTS,
    f"len(context_lens) * {WEIGHTS}",
)
_cost(
    "all_parameters",
    "Of an untied embedding a step looks up single rows; it does not read the matrix.",
    WEIGHTS,
    "sum(w for part, w in __import__('level00.accounting').accounting.count_params(config).items() "
    "if part != 'total') * bytes_per_param",
)
_cost(
    "without_the_embedding",
    "A tied embedding is read whole at every step, as the matrix that makes the logits.",
    WEIGHTS,
    "(lambda n: (n['total'] - n['embedding']) * bytes_per_param)"
    "(__import__('level00.accounting').accounting.count_params(config))",
)
_cost(
    "multiplied_weights_only",
    "Norm weights are weights: they are read too, few as they are.",
    WEIGHTS,
    'flops_per_token(config, 1)["total"] / 2 * bytes_per_param',
)
_cost(
    "weights_with_a_cache",
    "decode_step_cost's bytes hold a cache of their own already; what the sequences share is its weight_bytes.",
    WEIGHTS,
    WEIGHTS.replace("weight_bytes", "bytes"),
)
_cost(
    "weights_in_bfloat16",
    "Pass bytes_per_param on: weights need not be in bfloat16.",
    WEIGHTS,
    WEIGHTS.replace("bytes_per_param", "2"),
)

# ---- what is read of the cache
_cost(
    "kv_forgotten",
    "The step also reads every cached key and value.",
    CACHE,
    "0",
)
_cost(
    "kv_shared",
    "Every sequence has its own KV cache; it does not amortise over the batch.",
    CACHE,
    CACHE.replace("sum", "max"),
)
_cost(
    "padded_caches",
    "Each sequence reads the cache that it has; padding all to the longest is what a ragged step avoids.",
    CACHE,
    CACHE.replace("sum(context_lens)", "len(context_lens) * max(context_lens)"),
)
_cost(
    "first_context_for_all",
    "The contexts differ: add up all of them, not the first one's as many times.",
    CACHE,
    CACHE.replace("sum(context_lens)", "len(context_lens) * context_lens[0]"),
)
_cost(
    "whole_mean",
    "A mean context that is rounded to a whole token loses some of the cache: add the contexts up instead.",
    CACHE,
    CACHE.replace("sum(context_lens)", "len(context_lens) * (sum(context_lens) // len(context_lens))"),
)
_cost(
    "newest_tokens_only",
    "A step writes one token's keys and values for each sequence, but it reads those of the whole context.",
    CACHE,
    CACHE.replace("sum(context_lens)", "len(context_lens)"),
)
_cost(
    "one_more_token",
    "A context includes the new token: nothing comes on top of it.",
    CACHE,
    CACHE.replace("sum(context_lens)", "sum(context + 1 for context in context_lens)"),
)
_cost(
    "one_token_less",
    "The new token attends to itself as well: its keys and values are in the context that is read.",
    CACHE,
    CACHE.replace("sum(context_lens)", "sum(context - 1 for context in context_lens)"),
)
_cost(
    "reads_and_writes",
    "Keys and values are counted once, as in decode_step_cost: only the newest are written.",
    CACHE,
    f"2 * {CACHE}",
)
_cost(
    "keys_only",
    "Both the keys and the values of every token are read.",
    CACHE,
    f"{CACHE} / 2",
)
_cost(
    "query_heads",
    "What is cached are KV heads: each is read once for its whole group of query heads.",
    CACHE,
    f"{CACHE} * config.n_heads / config.n_kv_heads",
)
_cost(
    "hidden_over_heads",
    "The width of a head is config.head_dim, which need not be d_model / n_heads.",
    CACHE,
    f"{CACHE} * (config.d_model / config.n_heads) / config.head_dim",
)
_cost(
    "one_layer",
    "Every layer has a cache of its own.",
    CACHE,
    f"{CACHE} / config.n_layers",
)
_cost(
    "reserved_room",
    "A step reads the tokens that are there, not the room for max_seq_len.",
    CACHE,
    CACHE.replace("sum(context_lens)", "len(context_lens) * config.max_seq_len"),
)
_cost(
    "cache_in_bfloat16",
    "Pass bytes_per_element on: a cache in 8 bits is half of one in bfloat16.",
    CACHE,
    CACHE.replace("bytes_per_element", "2"),
)
_cost(
    "width_of_the_weights",
    "The cache has a width of its own, bytes_per_element: weights in 4 bits often go with a cache in 16.",
    CACHE,
    CACHE.replace("bytes_per_element", "bytes_per_param"),
)
_cost(
    "widths_swapped",
    "bytes_per_param is the width of the weights and bytes_per_element that of the cache: yours are swapped.",
    "    weights = decode",
    "    bytes_per_param, bytes_per_element = bytes_per_element, bytes_per_param\n    weights = decode",
)

# ---- the arithmetic
_cost(
    "batch_forgotten",
    "The bytes of the weights are shared, the arithmetic is not: each sequence needs its own two FLOPs per weight.",
    FLOPS,
    'flops_per_token(config, sum(context_lens))["total"]',
)
_cost(
    "attention_forgotten",
    "Attention over the context is arithmetic too.",
    FLOPS,
    'sum(flops_per_token(config, context)["total"] - flops_per_token(config, context)["scores"] for context in context_lens)',
)
_cost(
    "context_of_one",
    "A new token attends to its whole context, not to itself alone.",
    FLOPS,
    'sum(flops_per_token(config, 1)["total"] for context in context_lens)',
)
_cost(
    "one_flop_per_weight",
    "A multiply-add counts as two FLOPs, and flops_per_token has counted both.",
    FLOPS,
    f"{FLOPS} // 2",
)
_cost(
    "padded_attention",
    "Each sequence computes its own scores; those of padding are work that a ragged step does not do.",
    FLOPS,
    'len(context_lens) * flops_per_token(config, max(context_lens))["total"]',
)
_cost(
    "contexts_joined",
    "A token attends to its own sequence only; the other requests are not its context.",
    FLOPS,
    'len(context_lens) * flops_per_token(config, sum(context_lens))["total"]',
)
_cost(
    "whole_contexts_run_again",
    "A decode step runs one token for each sequence: the context is in the cache, and is not run again.",
    FLOPS,
    'sum(context * flops_per_token(config, context)["total"] for context in context_lens)',
)
_cost(
    "scores_of_kv_heads",
    "GQA saves bytes, not FLOPs: every query head computes its own scores.",
    FLOPS,
    f"{FLOPS} - sum(context_lens) * config.n_layers * (config.n_heads - config.n_kv_heads) * 4 * config.head_dim",
)
_cost(
    "two_per_parameter",
    "Two FLOPs per parameter is a rule of thumb: it leaves out the scores, and counts norms and look-ups.",
    FLOPS,
    f"len(context_lens) * 2 * {WEIGHTS.replace('bytes_per_param', '1')}",
)
_cost(
    "per_sequence",
    "The cost of the whole step is asked for, not each sequence's share of it.",
    'return {"flops": flops, "bytes": weights',
    "flops, weights = flops / len(context_lens), weights / len(context_lens)\n"
    '    bytes_per_element /= len(context_lens)\n    return {"flops": flops, "bytes": weights',
)
_cost(
    "no_duplicates",
    "Two sequences of the same length are two sequences.",
    "    weights = decode",
    "    context_lens = list(set(context_lens))\n    weights = decode",
)
_cost(
    "whole_bytes",
    "With packed entries a total may end in half a byte: don't cut it off.",
    f"weights + {CACHE}",
    f"int(weights) + int({CACHE})",
)


# ---- flip_batch

ONE = "one = decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element)"
GAINED = 'gained = one["flops"] / hardware.peak_flops - one["kv_bytes"] / hardware.bandwidth'
NONE = "    if gained <= 0:\n        return None\n"
BATCH = 'max(1, ceil(one["weight_bytes"] / hardware.bandwidth / gained))'


def _flip(name, sentence, *change):
    ghost("level05.throughput.flip_batch", name, sentence, change=change)


_flip(
    "a_float",
    "A batch is a whole number of sequences: return an int. np.ceil and // on floats give floats.",
    BATCH,
    f"float({BATCH})",
)
_flip(
    "ignores_kv",
    "Each extra sequence brings its own cache bytes; with enough context the flip never comes.",
    GAINED,
    'gained = one["flops"] / hardware.peak_flops',
)
_flip(
    "ridge_is_the_batch",
    "The ridge is in FLOPs per byte, not in sequences: compare the two times of a step.",
    BATCH,
    "ceil(hardware.peak_flops / hardware.bandwidth)",
)
_flip(
    "critical_batch",
    "critical_batch leaves out the cache and the arithmetic of attention; here both count.",
    f"    {ONE}",
    f"    return __import__('level04.ceiling').ceiling.critical_batch(hardware, bytes_per_param)\n    {ONE}",
)
_flip(
    "critical_batch_or_none",
    "The cache decides more than whether there is a flip: it also moves it to a larger batch.",
    BATCH,
    "ceil(hardware.peak_flops / hardware.bandwidth * bytes_per_param / 2)",
)
_flip(
    "absolute_value",
    "A negative margin means that more sequences make it more memory-bound: return None.",
    NONE,
    "    gained = abs(gained)\n    if not gained:\n        return None\n",
)
_flip(
    "no_guard",
    "Where a sequence adds more reading than arithmetic the two lines never cross: None, and no batch below 1.",
    NONE,
    "    if not gained:\n        return None\n",
)
_flip(
    "divides_by_nothing",
    "Where a sequence adds just as much reading as arithmetic the weights keep one ahead: None, not a division by 0.",
    "gained <= 0",
    "gained < 0",
)
_flip(
    "infinite_batch",
    "None says that there is no such batch; inf is no batch, and does not fit into an int.",
    "return None",
    'return float("inf")',
)
_flip(
    "refuses",
    "That decode never becomes compute-bound is an answer, None, and not the caller's error.",
    "return None",
    'raise ValueError("this model never flips")',
)
_flip(
    "rounds_down",
    "The smallest whole batch at which computing takes as long as reading: round up.",
    BATCH,
    BATCH.replace("ceil", "int"),
)
_flip(
    "rounds_to_nearest",
    "Round up, always: the whole batch below the crossing still reads for longer than it computes.",
    BATCH,
    BATCH.replace("ceil", "round"),
)
_flip(
    "longer_not_as_long",
    "Computing as long as reading is enough: at a crossing that is a whole number the batch is that number.",
    BATCH,
    BATCH.replace("ceil(", "1 + int("),
)
_flip(
    "unrounded",
    "A batch is a whole number of sequences: the smallest that is not below the crossing.",
    BATCH,
    'one["weight_bytes"] / hardware.bandwidth / gained',
)
_flip(
    "gives_up",
    "Don't search up to some largest batch: two lines cross at one place, wherever it is.",
    BATCH,
    f"{BATCH} if one['weight_bytes'] / hardware.bandwidth / gained < 1e5 else None",
)
_flip(
    "what_fits",
    "memory_bytes is not asked about: the batch is where the two times meet, whether it fits or not.",
    BATCH,
    f"(lambda b: b if one['weight_bytes'] + b * one['kv_bytes'] <= hardware.memory_bytes else None)({BATCH})",
)
_flip(
    "attention_is_free",
    "Attention over the context is arithmetic too: use all FLOPs of a token, not two per weight.",
    'one["flops"]',
    '(one["flops"] - flops_per_token(config, context_len)["scores"])',
)
_flip(
    "one_flop_per_weight",
    "flops are FLOPs: don't take them for multiply-adds, of which there are half as many.",
    'one["flops"]',
    'one["flops"] / 2',
)
_flip(
    "cache_of_one_token",
    "Each sequence reads the cache of all its context_len tokens, not only what it adds.",
    'one["kv_bytes"]',
    "kv_bytes_per_token(config, bytes_per_element)",
)
_flip(
    "context_of_one",
    "All sequences attend to context_len tokens: the cost of a context of one is that of the very first step.",
    ONE,
    ONE.replace("context_len", "1"),
)
_flip(
    "one_cache_for_all",
    "The cache is read for each sequence, so it belongs to what a sequence adds and not to what is read once.",
    GAINED,
    "one['weight_bytes'] = one['bytes']\n    gained = one['flops'] / hardware.peak_flops",
)
_flip(
    "cache_counted_twice",
    "What is read once are the weights alone: bytes has a cache in it, and that is in the other line already.",
    'one["weight_bytes"] /',
    'one["bytes"] /',
)
_flip(
    "weights_for_each",
    "The weights are read once for all: only the cache is read again for each sequence.",
    'one["kv_bytes"]',
    'one["bytes"]',
)
_flip(
    "adds_the_two",
    "What a sequence brings nearer to the flip is its arithmetic less its reading: subtract.",
    'peak_flops - one["kv_bytes"]',
    'peak_flops + one["kv_bytes"]',
)
_flip(
    "roofs_swapped",
    "FLOPs go over peak_flops, bytes over the bandwidth.",
    GAINED,
    'gained = one["flops"] / hardware.bandwidth - one["kv_bytes"] / hardware.peak_flops',
)
_flip(
    "weights_in_bfloat16",
    "Pass bytes_per_param on: weights in half the bytes flip at half the batch.",
    ONE,
    ONE.replace("bytes_per_param", "2"),
)
_flip(
    "cache_in_bfloat16",
    "Pass bytes_per_element on: a cache in 8 bits lets contexts flip that otherwise never do.",
    ONE,
    ONE.replace("bytes_per_element", "2"),
)
_flip(
    "widths_swapped",
    "bytes_per_param is the width of the weights and bytes_per_element that of the cache: yours are swapped.",
    ONE,
    ONE.replace("bytes_per_param, bytes_per_element", "bytes_per_element, bytes_per_param"),
)
_flip(
    "width_of_the_weights",
    "The cache has a width of its own, bytes_per_element.",
    ONE,
    ONE.replace("bytes_per_element", "bytes_per_param"),
)
_flip(
    "narrow_weights_compute_faster",
    "The arithmetic runs at peak_flops whatever the width of the weights: narrower ones are only read faster.",
    'one["flops"] /',
    'one["flops"] * bytes_per_param / 2 /',
)
_flip(
    "at_least_two",
    "Where arithmetic is slow, one sequence is a batch that computes as long as it reads.",
    "max(1, ceil",
    "max(2, ceil",
)


# ---- fit_step_time

SLOPE = "slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()"
FIT = "return float(y.mean() - slope * x.mean()), float(slope)"


def _fit(name, sentence, *change):
    ghost("level05.throughput.fit_step_time", name, sentence, change=change)


_fit(
    "through_the_origin",
    "The intercept is the time to stream the weights: the very thing being measured. The line need not pass through 0.",
    FIT,
    "return 0.0, float((x * y).sum() / (x * x).sum())",
)
_fit(
    "slope_through_the_origin",
    "The slope comes from the deviations from both means; without them it is that of a line through 0.",
    SLOPE,
    "slope = (x * y).sum() / (x * x).sum()",
)
_fit(
    "swapped",
    "Return (fixed seconds, seconds per sequence), in that order.",
    FIT,
    "return float(slope), float(y.mean() - slope * x.mean())",
)
_fit(
    "first_and_last_only",
    "Use every measurement: least squares, not the line through the first and the last.",
    SLOPE,
    f"{SLOPE}\n    if x[0] != x[-1]:\n        slope = (y[-1] - y[0]) / (x[-1] - x[0])\n"
    "        return float(y[0] - slope * x[0]), float(slope)",
)
_fit(
    "smallest_and_largest_only",
    "Use every measurement: the smallest and the largest batch alone carry all of their own noise into the line.",
    SLOPE,
    "a, b = x.argmin(), x.argmax()\n    slope = (y[b] - y[a]) / (x[b] - x[a])\n"
    "    return float(y[a] - slope * x[a]), float(slope)",
)
_fit(
    "end_point_slope",
    "The slope, too, is of least squares: that between the smallest and the largest batch is two measurements.",
    SLOPE,
    "a, b = x.argmin(), x.argmax()\n    slope = (y[b] - y[a]) / (x[b] - x[a])",
)
_fit(
    "fixed_is_the_fastest",
    "The fixed part is where the line meets batch 0; the fastest step already has a sequence's time in it.",
    FIT,
    "return float(y.min()), float(slope)",
)
_fit(
    "value_at_one",
    "The fixed part is the line at batch 0, not at batch 1.",
    FIT,
    "return float(y.mean() - slope * (x.mean() - 1)), float(slope)",
)
_fit(
    "mean_of_the_slopes",
    "A mean of the slopes between neighbours depends on the first and last only; least squares weighs all.",
    SLOPE,
    "order = x.argsort(kind='stable')\n    dx, dy = np.diff(x[order]), np.diff(y[order])\n"
    "    slope = (dy[dx > 0] / dx[dx > 0]).mean()",
)
_fit(
    "seconds_over_batch",
    "Seconds over batch share the fixed part out among the sequences: it must not be in the slope.",
    SLOPE,
    "slope = (y / x).mean()",
)
_fit(
    "regression_of_x_on_y",
    "The noise is in the seconds: divide by the spread of the batches, not by that of the seconds.",
    SLOPE,
    "spread = ((y - y.mean()) ** 2).sum()\n"
    "    slope = ((x - x.mean()) * (y - y.mean())).sum() and spread / ((x - x.mean()) * (y - y.mean())).sum()",
)
_fit(
    "inverse_slope",
    "Seconds per sequence, not sequences per second.",
    SLOPE,
    f"{SLOPE}\n    slope = 1 / slope if slope else 0.0",
)
_fit(
    "sample_variance",
    "Numerator and denominator count alike: both divided by n, by n - 1, or by nothing.",
    SLOPE,
    "slope = ((x - x.mean()) * (y - y.mean())).mean() / x.var(ddof=1)",
)
_fit(
    "each_batch_once",
    "A batch that was measured twice counts twice: no measurement replaces another.",
    "    x, y = np.asarray(batches, float), np.asarray(seconds, float)\n",
    "    once = dict(zip(batches, seconds))\n    x, y = np.asarray(list(once), float), np.asarray(list(once.values()), float)\n",
)
_fit(
    "best_of_each_batch",
    "Least squares over all measurements as they are given: which ones to keep is the caller's business.",
    "    x, y = np.asarray(batches, float), np.asarray(seconds, float)\n",
    "    best = {b: min(s for c, s in zip(batches, seconds) if c == b) for b in batches}\n"
    "    x, y = np.asarray(list(best), float), np.asarray(list(best.values()), float)\n",
)
_fit(
    "sorted_apart",
    "Sort the pairs or nothing: sorted apart, a time belongs to another batch.",
    "    x, y = np.asarray(batches, float), np.asarray(seconds, float)\n",
    "    x, y = np.sort(np.asarray(batches, float)), np.sort(np.asarray(seconds, float))\n",
)
_fit(
    "never_negative",
    "What noise made of it is what comes back: a slope or a fixed part below 0 is for the caller to see.",
    FIT,
    "return float(max(0, y.mean() - slope * x.mean())), float(max(0, slope))",
)
_fit(
    "in_milliseconds",
    "Seconds in, seconds out.",
    FIT,
    "return float(y.mean() - slope * x.mean()) * 1e3, float(slope) * 1e3",
)
_fit(
    "rounded",
    "Don't round: a sequence costs microseconds on a large machine.",
    FIT,
    "return round(float(y.mean() - slope * x.mean()), 4), round(float(slope), 4)",
)

# ---- measured_flip, a part of fit_step_time

FLIP = "fixed / per_sequence if per_sequence > 0 else inf"


def _measured(name, sentence, new):
    _fit(name, sentence, FLIP, new)


_measured(
    "slope_over_fixed",
    "How many sequences cost as much as the fixed part: fixed / per sequence.",
    "per_sequence / fixed if fixed and per_sequence > 0 else inf",
)
_measured(
    "slope_over_nothing",
    "How many sequences cost as much as the fixed part: fixed / per sequence, which a fixed part of 0 does not mind.",
    "per_sequence / fixed if per_sequence > 0 else inf",
)
_measured(
    "negative_flip",
    "A slope that is not positive means that no flip was seen: inf, not a batch below 0.",
    "fixed / per_sequence if per_sequence else inf",
)
_measured(
    "no_guard",
    "Where a further sequence costs no time there is nothing to divide by: inf.",
    "fixed / per_sequence",
)
_measured(
    "zero_is_still_divided",
    "A cost of exactly 0 is none as well: inf.",
    "fixed / per_sequence if per_sequence >= 0 else inf",
)
_measured(
    "none_for_inf",
    "Where one costs no time the batch is inf, which compares with any other number; None does not.",
    "fixed / per_sequence if per_sequence > 0 else None",
)
_measured(
    "zero_for_inf",
    "Where one costs no time no batch is large enough: inf. A flip at 0 says the opposite.",
    "fixed / per_sequence if per_sequence > 0 else 0.0",
)
_measured(
    "ridge",
    "Use the measured curve; the ridge of the data sheet is what it is compared with.",
    "989e12 / 3.35e12",
)
_measured(
    "whole_batches",
    "The crossing of two lines need not be a whole number: don't round it.",
    "float(ceil(fixed / per_sequence)) if per_sequence > 0 else inf",
)
_measured(
    "floor_division",
    "The flip need not be a whole batch: divide with /.",
    "fixed // per_sequence if per_sequence > 0 else inf",
)
_measured(
    "twice_the_fixed",
    "All sequences *together* take as long as the fixed part; where the step takes twice as long is that very batch.",
    "2 * fixed / per_sequence if per_sequence > 0 else inf",
)
_measured(
    "fixed_includes_one",
    "The fixed part has no sequence in it, so none is to be taken off or put back.",
    "fixed / per_sequence + 1 if per_sequence > 0 else inf",
)
_measured(
    "one_at_least",
    "Below 1 is a result as well: there not even one sequence is free.",
    "max(1.0, fixed / per_sequence) if per_sequence > 0 else inf",
)
