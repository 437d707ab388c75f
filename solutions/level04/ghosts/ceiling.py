"""Known-wrong programs of level04.ceiling. `ghost` is given when this is read."""


def _cost(name, sentence, *change):
    ghost("level04.ceiling.decode_step_cost", name, sentence, change=change)


READ = 'read = counts["total"] if config.tie_embeddings else counts["total"] - counts["embedding"]'
FLOPS = 'flops = batch * flops_per_token(config, context_len)["total"]'
WEIGHTS = "read * bytes_per_param"
CACHE = "batch * context_len * kv_bytes_per_token(config, bytes_per_element)"
INTENSITY = '"intensity": flops / total'

# ---- what is read of the weights
_cost(
    "weights_per_sequence",
    "The weights are read once for the whole batch: that is what batching buys.",
    WEIGHTS,
    f"batch * {WEIGHTS}",
)
_cost(
    "reads_embedding",
    "Of an untied embedding a step looks up single rows; it does not read the matrix.",
    READ,
    'read = counts["total"]',
)
_cost(
    "tied_left_out",
    "A tied embedding is read whole at every step, as the matrix that makes the logits.",
    READ,
    'read = counts["total"] - counts["embedding"]',
)
_cost(
    "tied_twice",
    "A tied matrix is stored once and read once: the rows of the new tokens are among what was read.",
    READ,
    READ.replace('counts["total"] if', 'counts["total"] + counts["embedding"] if'),
)
_cost(
    "no_head",
    "An untied head is a matrix of its own, and every step multiplies by it.",
    READ,
    f'{READ} - counts["lm_head"]',
)
_cost(
    "embedding_rows",
    "The rows of the embedding that are looked up are left out here: a few kilobytes a sequence.",
    READ,
    f"{READ} + batch * config.d_model",
)
_cost(
    "no_norms",
    "Norm weights are weights: they are read too, few as they are.",
    READ,
    f'{READ}; read -= counts["norm"]',
)
_cost(
    "weights_in_bfloat16",
    "Multiply the weights by bytes_per_param: they need not be in bfloat16.",
    WEIGHTS,
    "read * 2",
)
_cost(
    "weights_in_bits",
    "bytes_per_param is in bytes already: 0.5 for 4 bits.",
    WEIGHTS,
    f"{WEIGHTS} / 8",
)

# ---- what is read of the cache
_cost(
    "kv_once",
    "Every sequence has its own cache: nothing there is shared.",
    CACHE,
    CACHE.removeprefix("batch * "),
)
_cost(
    "no_kv",
    "The cache is read at every step too: at batch 8 and 1024 tokens of SmolLM2 it is 41% of the bytes.",
    CACHE,
    "0 * context_len",
)
_cost(
    "newest_token_only",
    "A step writes one token's keys and values, but it reads those of all context_len.",
    CACHE,
    CACHE.replace("context_len * ", ""),
)
_cost(
    "one_more_token",
    "context_len includes the new token: nothing comes on top of it.",
    CACHE,
    CACHE.replace("context_len", "(context_len + 1)"),
)
_cost(
    "one_token_less",
    "The new token attends to itself as well: its keys and values are among the context_len.",
    CACHE,
    CACHE.replace("context_len", "(context_len - 1)"),
)
_cost(
    "reads_and_writes",
    "Keys and values move once each: only the newest are written, and they are not read on top.",
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
    "What is cached are KV heads, of which there are fewer than query heads: each is read once for its whole group.",
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
    "Every layer reads a cache of its own.",
    CACHE,
    f"{CACHE} / config.n_layers",
)
_cost(
    "reserved_room",
    "Read is what the sequences hold, context_len tokens each, not the room for max_seq_len.",
    CACHE,
    CACHE.replace("context_len", "config.max_seq_len"),
)
_cost(
    "width_of_the_weights",
    "The cache has a width of its own, bytes_per_element: weights in 4 bits often go with a cache in 16.",
    CACHE,
    CACHE.replace("bytes_per_element", "bytes_per_param"),
)
_cost(
    "cache_in_bfloat16",
    "Use bytes_per_element: a cache in 8 bits is read twice as fast as one in bfloat16.",
    CACHE,
    CACHE.replace("bytes_per_element", "2"),
)
_cost(
    "widths_swapped",
    "bytes_per_param is the width of the weights and bytes_per_element that of the cache: yours are swapped.",
    f"{WEIGHTS}, {CACHE}",
    f"read * bytes_per_element, {CACHE.replace('bytes_per_element', 'bytes_per_param')}",
)

# ---- the arithmetic
_cost(
    "flops_not_batched",
    "Arithmetic grows with the batch: every sequence multiplies by all the weights.",
    FLOPS,
    FLOPS.replace("batch * ", ""),
)
_cost(
    "no_scores",
    "The scores cost FLOPs too, 4 · head_dim for each query head and token of the context: pass context_len on.",
    FLOPS,
    f"{FLOPS}; flops -= batch * flops_per_token(config, context_len)['scores']",
)
_cost(
    "context_of_one",
    "Every new token attends to context_len tokens, not to itself alone.",
    FLOPS,
    FLOPS.replace("context_len", "1"),
)
_cost(
    "two_per_parameter",
    "Two FLOPs per parameter is a rule of thumb: it counts look-ups and norms, and leaves the scores out.",
    FLOPS,
    'flops = batch * 2 * counts["total"]',
)
_cost(
    "two_per_weight_read",
    "The matrices are not all: the scores grow with the context, and norms are no matrix products.",
    FLOPS,
    "flops = batch * 2 * read",
)
_cost(
    "mac",
    "A multiply-add is two FLOPs, and flops_per_token counts both.",
    FLOPS,
    f"{FLOPS} // 2",
)
_cost(
    "scores_of_kv_heads",
    "GQA saves bytes, not FLOPs: every query head computes its own scores.",
    FLOPS,
    f"{FLOPS}; flops -= batch * (config.n_heads - config.n_kv_heads) * config.n_layers * 4 * config.head_dim "
    "* context_len",
)
_cost(
    "whole_context",
    "A decode step runs one token for each sequence; the context is in the cache and is not run again.",
    FLOPS,
    FLOPS.replace("batch *", "batch * context_len *"),
)
_cost(
    "contexts_joined",
    "Each token attends to its own sequence only, not to those of the whole batch.",
    FLOPS,
    FLOPS.replace("context_len", "batch * context_len"),
)

# ---- what is made of them
_cost(
    "weights_are_all_bytes",
    "bytes is the sum of both, weights and cache.",
    "total = weights + kv",
    "total = weights",
)
_cost(
    "intensity_of_the_weights",
    "The intensity is over all bytes, the cache's as well.",
    INTENSITY,
    '"intensity": flops / weights',
)
_cost(
    "intensity_upside_down",
    "FLOPs per byte, not bytes per FLOP.",
    INTENSITY,
    '"intensity": total / flops',
)
_cost(
    "intensity_is_the_batch",
    "The batch is the intensity only in bfloat16, and only while the cache is small.",
    INTENSITY,
    '"intensity": batch',
)
_cost(
    "intensity_of_one_sequence",
    "FLOPs and bytes of the same thing: those of the whole batch, or the weights would count for each sequence.",
    INTENSITY,
    '"intensity": flops / batch / total',
)
_cost(
    "whole_intensity",
    "An intensity is seldom a whole number: divide with /.",
    INTENSITY,
    '"intensity": flops // total',
)
_cost(
    "in_gigabytes",
    "Bytes are asked for, not GB: the caller divides by a bandwidth in bytes per second.",
    "total = weights + kv",
    "weights, kv = weights / 1e9, kv / 1e9; total = weights + kv",
)
_cost(
    "whole_bytes",
    "With packed weights a matrix may end in half a byte: don't cut it off.",
    "total = weights + kv",
    "weights, kv = int(weights), int(kv); total = weights + kv",
)


# ---- step_seconds, a part of decode_ceiling


def _seconds(name, sentence, new):
    old = 'max(cost["flops"] / hardware.peak_flops, cost["bytes"] / hardware.bandwidth)'
    ghost("level04.ceiling.decode_ceiling", name, sentence, change=(old, new))


_seconds(
    "adds",
    "A roofline assumes full overlap: the slower of the two decides, not their sum.",
    'cost["flops"] / hardware.peak_flops + cost["bytes"] / hardware.bandwidth',
)
_seconds(
    "faster",
    "The step ends when both are done: take the longer time.",
    'min(cost["flops"] / hardware.peak_flops, cost["bytes"] / hardware.bandwidth)',
)
_seconds(
    "compute_only",
    "Reading takes time too: at batch 1 a GPU reads 300 times as long as it computes.",
    'cost["flops"] / hardware.peak_flops',
)
_seconds(
    "memory_only",
    "Arithmetic takes time too: with a large batch it is the slower of the two.",
    'cost["bytes"] / hardware.bandwidth',
)
_seconds(
    "milliseconds",
    "In seconds: rates are per second throughout.",
    '1000 * max(cost["flops"] / hardware.peak_flops, cost["bytes"] / hardware.bandwidth)',
)
_seconds(
    "rates_not_times",
    "Work divided by a rate is a time: yours divides the rate by the work.",
    'max(hardware.peak_flops / cost["flops"], hardware.bandwidth / cost["bytes"])',
)
_seconds(
    "sparse_peak",
    "peak_flops is the dense rate and counts both FLOPs of a multiply-add, as the cost does: nothing is to be halved.",
    'max(cost["flops"] / (2 * hardware.peak_flops), cost["bytes"] / hardware.bandwidth)',
)
_seconds(
    "bandwidth_in_bits",
    "Both are in bytes, the traffic and the bandwidth: there are no bits to convert.",
    'max(cost["flops"] / hardware.peak_flops, 8 * cost["bytes"] / hardware.bandwidth)',
)
_seconds(
    "gib",
    "A GB is 1e9 bytes on both sides of the division: 2**30 makes the step 7% longer or shorter than it is.",
    'max(cost["flops"] / hardware.peak_flops, cost["bytes"] / (hardware.bandwidth / 1e9 * 2**30))',
)
_seconds(
    "swapped_roofs",
    "FLOPs go over the peak, and bytes over the bandwidth.",
    'max(cost["flops"] / hardware.bandwidth, cost["bytes"] / hardware.peak_flops)',
)


# ---- decode_ceiling

STEP = "cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)"
RATE = "batch / step_seconds(cost, hardware)"


def _ceiling(name, sentence, *change):
    ghost("level04.ceiling.decode_ceiling", name, sentence, change=change)


_ceiling(
    "per_sequence",
    "A step makes one token for every sequence of the batch, and all of them count.",
    RATE,
    "1 / step_seconds(cost, hardware)",
)
_ceiling(
    "scales_linearly",
    "The cache grows with the batch, so 64 times the batch is not 64 times the tokens.",
    STEP,
    STEP.replace("batch", "1"),
)
_ceiling(
    "seconds_per_token",
    "Tokens per second, not seconds per token.",
    RATE,
    "step_seconds(cost, hardware) / batch",
)
_ceiling(
    "tokens_of_the_context",
    "A step makes one new token for each sequence; the tokens of its context were made before.",
    RATE,
    "batch * context_len / step_seconds(cost, hardware)",
)
_ceiling(
    "quantised_flops_only",
    "Fewer bytes per weight is speed, even if the arithmetic stays in 16 bits: pass bytes_per_param on.",
    STEP,
    STEP.replace("bytes_per_param", "2"),
)
_ceiling(
    "cache_in_bfloat16",
    "A narrower cache is read faster: pass bytes_per_element on.",
    STEP,
    STEP.replace("bytes_per_element", "2"),
)
_ceiling(
    "widths_swapped",
    "First the width of the weights, then that of the cache: yours are swapped.",
    STEP,
    STEP.replace("bytes_per_param, bytes_per_element", "bytes_per_element, bytes_per_param"),
)
_ceiling(
    "batch_and_context_swapped",
    "First the batch, then the context: yours are swapped.",
    STEP,
    STEP.replace("batch, context_len", "context_len, batch"),
)
_ceiling(
    "narrow_arithmetic",
    "Narrow weights are widened before they are multiplied: the arithmetic stays at hardware.peak_flops.",
    STEP,
    f'{STEP}; cost["flops"] *= bytes_per_param / 2',
)
_ceiling(
    "eight_bit_peak",
    "A data sheet's 8-bit rate is for 8-bit arithmetic: narrow weights alone leave it at hardware.peak_flops.",
    STEP,
    f'{STEP}; cost["flops"] /= 2 if bytes_per_param <= 1 else 1',
)
_ceiling(
    "weights_alone",
    "The cache is read at every step too: bandwidth over the weights is the ceiling of an empty context.",
    STEP,
    f'{STEP}; cost["bytes"] = cost["weight_bytes"]',
)
_ceiling(
    "cache_twice",
    'cost["bytes"] holds the cache already.',
    STEP,
    f'{STEP}; cost["bytes"] += cost["kv_bytes"]',
)
_ceiling(
    "whole_tokens",
    "A rate is no count: don't round it. A slow machine makes less than one token in a second.",
    RATE,
    "batch // step_seconds(cost, hardware)",
)
_ceiling(
    "one_more_token_of_context",
    "context_len includes the new token already.",
    STEP,
    STEP.replace("context_len", "context_len + 1"),
)


# ---- critical_batch


def _critical(name, sentence, new):
    old = "ceil(ridge_point(hardware) * bytes_per_param / 2)"
    ghost("level04.ceiling.critical_batch", name, sentence, change=(old, new))


_critical(
    "ridge_always",
    "Narrow weights are read sooner, so fewer sequences suffice: the width of a weight counts.",
    "ceil(ridge_point(hardware))",
)
_critical(
    "mac",
    "Two FLOPs per weight and sequence, a multiply and an add: half as many sequences suffice.",
    "ceil(ridge_point(hardware) * bytes_per_param)",
)
_critical(
    "floor",
    "Rounded down, reading still takes longer than the arithmetic: round up.",
    "int(ridge_point(hardware) * bytes_per_param / 2)",
)
_critical(
    "nearest",
    "The nearest whole number may lie below, where reading still takes longer: round up.",
    "round(ridge_point(hardware) * bytes_per_param / 2)",
)
_critical(
    "nearly_up",
    "Adding 0.99 and cutting off does not round up: what lies a thousandth above a whole number is lost.",
    "int(ridge_point(hardware) * bytes_per_param / 2 + 0.99)",
)
_critical(
    "one_too_many",
    "Equally long is long enough: where it is a whole number already, add nothing.",
    "int(ridge_point(hardware) * bytes_per_param / 2) + 1",
)
_critical(
    "a_float",
    "Sequences are counted: the smallest whole number, as an int.",
    "ridge_point(hardware) * bytes_per_param / 2",
)
_critical(
    "a_float_rounded",
    "An int: of floats, // gives a float.",
    "-(-ridge_point(hardware) * bytes_per_param // 2)",
)
_critical(
    "wider_is_sooner",
    "Wider weights take longer to read, so more sequences are needed: multiply by the width.",
    "ceil(ridge_point(hardware) * 2 / bytes_per_param)",
)
_critical(
    "divides_by_the_width",
    "The ridge is FLOPs per byte: a weight of b bytes pays for b times as many, and each sequence takes two.",
    "ceil(ridge_point(hardware) / (2 * bytes_per_param))",
)
_critical(
    "bits",
    "bytes_per_param is in bytes already.",
    "ceil(ridge_point(hardware) * bytes_per_param / 8 / 2)",
)
_critical(
    "ridge_rounded_first",
    "Round once, at the end: a ridge that is rounded up first may give a sequence too many.",
    "ceil(ceil(ridge_point(hardware)) * bytes_per_param / 2)",
)
_critical(
    "ridge_cut_first",
    "Round once, at the end: what is cut off the ridge may be what calls for one more sequence.",
    "ceil(int(ridge_point(hardware)) * bytes_per_param / 2)",
)
_critical(
    "whole_bytes",
    "A weight may have half a byte: don't round its width.",
    "ceil(ridge_point(hardware) * ceil(bytes_per_param) / 2)",
)
_critical(
    "peak_grows_with_narrow_weights",
    "Narrow weights are widened before they are multiplied: the peak stays what it is, so the ridge does.",
    "ceil(ridge_point(hardware) * (2 / min(bytes_per_param, 2)) * bytes_per_param / 2)",
)
_critical(
    "largest_that_fits",
    "This is where the arithmetic catches up, not how many sequences the memory holds.",
    "int(hardware.memory_bytes / bytes_per_param / 2)",
)


# ---- mfu, a part of mbu


def _mfu(name, sentence, new):
    old = "tokens_per_second * flops_per_token / hardware.peak_flops"
    ghost("level04.ceiling.mbu", name, sentence, change=(old, new))


_mfu(
    "mfu_of_macs",
    "flops_per_token counts both FLOPs of a multiply-add already: don't double it.",
    "2 * tokens_per_second * flops_per_token / hardware.peak_flops",
)
_mfu(
    "sparse_peak",
    "peak_flops is the dense rate, and flops_per_token counts both FLOPs of a multiply-add: yours looks half as good as it is.",
    "tokens_per_second * flops_per_token / (2 * hardware.peak_flops)",
)
_mfu(
    "peak_inverted",
    "Utilization is what was achieved over the peak, not the peak over it.",
    "hardware.peak_flops / (tokens_per_second * flops_per_token)",
)
_mfu(
    "mfu_in_percent",
    "MFU is 1 at the peak, not 100: no percent.",
    "100 * tokens_per_second * flops_per_token / hardware.peak_flops",
)
_mfu(
    "mfu_over_the_bandwidth",
    "FLOP/s go over peak_flops; the bandwidth is MBU's.",
    "tokens_per_second * flops_per_token / hardware.bandwidth",
)
_mfu(
    "mfu_of_training",
    "There is no backward pass here: flops_per_token is all that a token takes.",
    "3 * tokens_per_second * flops_per_token / hardware.peak_flops",
)
_mfu(
    "seconds_per_token",
    "tokens_per_second is a rate: multiply the FLOPs of a token by it.",
    "flops_per_token / tokens_per_second / hardware.peak_flops",
)
_mfu(
    "of_one_token",
    "FLOPs of one token over the peak are seconds; times tokens per second they are a utilization.",
    "flops_per_token / hardware.peak_flops",
)
_mfu(
    "mfu_cut_off",
    "Show an MFU above 1 as it is: cut off, nobody learns that FLOPs or tokens were miscounted.",
    "min(1.0, tokens_per_second * flops_per_token / hardware.peak_flops)",
)


# ---- mbu


def _mbu(name, sentence, new):
    old = "tokens_per_second / batch * bytes_per_step / hardware.bandwidth"
    ghost("level04.ceiling.mbu", name, sentence, change=(old, new))


_mbu(
    "tokens_not_steps",
    "The bytes are those of a step, which makes a token for each sequence: divide tokens per second by the batch.",
    "tokens_per_second * bytes_per_step / hardware.bandwidth",
)
_mbu(
    "times_the_batch",
    "tokens_per_second counts all sequences, and bytes_per_step too: divide by the batch, don't multiply.",
    "tokens_per_second * batch * bytes_per_step / hardware.bandwidth",
)
_mbu(
    "per_sequence",
    "The weights are read once for all sequences: dividing by the batch twice gives each its own share of a step.",
    "tokens_per_second / batch * bytes_per_step / batch / hardware.bandwidth",
)
_mbu(
    "free_peak",
    "Both are in bytes per second, what moved and the bandwidth: there are no bits to convert.",
    "tokens_per_second / batch * bytes_per_step / (8 * hardware.bandwidth)",
)
_mbu(
    "bandwidth_inverted",
    "Utilization is what moved over the bandwidth, not the bandwidth over what moved.",
    "hardware.bandwidth / (tokens_per_second / batch * bytes_per_step)",
)
_mbu(
    "mbu_in_percent",
    "MBU is 1 at the roof, not 100: no percent.",
    "100 * tokens_per_second / batch * bytes_per_step / hardware.bandwidth",
)
_mbu(
    "mbu_over_the_peak",
    "Bytes go over the bandwidth; peak_flops is MFU's.",
    "tokens_per_second / batch * bytes_per_step / hardware.peak_flops",
)
_mbu(
    "over_the_memory",
    "Divide by the bandwidth, how fast bytes come, not by memory_bytes, how many there is room for.",
    "tokens_per_second / batch * bytes_per_step / hardware.memory_bytes",
)
_mbu(
    "whole_steps",
    "Steps per second are a rate and need not be whole: divide with /.",
    "tokens_per_second // batch * bytes_per_step / hardware.bandwidth",
)
_mbu(
    "mbu_cut_off",
    "Show an MBU above 1 as it is: cut off, nobody learns that the bytes or the bandwidth are wrong.",
    "min(1.0, tokens_per_second / batch * bytes_per_step / hardware.bandwidth)",
)
_mbu(
    "gib",
    "A GB is 1e9 bytes above and below the line: 2**30 on one side shifts every figure by 7%.",
    "tokens_per_second / batch * bytes_per_step / (hardware.bandwidth / 1e9 * 2**30)",
)
_mbu(
    "reads_and_writes",
    "bytes_per_step is all that moves in a step: don't double it.",
    "2 * tokens_per_second / batch * bytes_per_step / hardware.bandwidth",
)
