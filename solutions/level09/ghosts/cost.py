"""Known-wrong programs of level09.cost. `ghost` is given when this is read."""

_RING = "return 2 * (size - 1) * (link.latency + num_bytes / size / link.bandwidth)"
_OWN = 'cost["weight_bytes"] / size + cost["kv_bytes"] / min(size, config.n_kv_heads)'
_COMPUTE = 'step_seconds({"flops": cost["flops"] / size, "bytes": own_bytes}, hardware)'
_ONE = "all_reduce_seconds(batch * config.d_model * 2, size, link)"
_ALL = "return compute + (2 * config.n_layers + 1) * one"


def _cost(name, sentence, *pairs):
    ghost("level09.cost.tp_decode_seconds", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- all_reduce_seconds

_cost(
    "whole_tensor_per_step",
    "Each step of the ring moves one chunk, bytes / size; yours moves the whole tensor every time.",
    _RING,
    "return 2 * (size - 1) * (link.latency + num_bytes / link.bandwidth)",
)
_cost(
    "no_latency",
    "Every message waits for the latency first: for one token the 2 (size - 1) latencies are nearly all of it.",
    _RING,
    "return 2 * (size - 1) * num_bytes / size / link.bandwidth",
)
_cost(
    "one_phase",
    "Reduce-scatter and all-gather: twice round the ring. Yours goes once.",
    _RING,
    "return (size - 1) * (link.latency + num_bytes / size / link.bandwidth)",
)
_cost(
    "size_steps",
    "A ring of n ranks has n - 1 steps to go in each half, not n; with one rank there is nothing to do.",
    _RING,
    "return 2 * size * (link.latency + num_bytes / size / link.bandwidth)",
)
_cost(
    "one_latency",
    "Every one of the 2 (size - 1) messages has a latency: the next one waits for what this one brings.",
    _RING,
    "return (size > 1) * link.latency + 2 * (size - 1) * num_bytes / size / link.bandwidth",
)
_cost(
    "all_messages_in_turn",
    "All links of the ring are busy at once: a step lasts as long as one message, not as those of all ranks.",
    _RING,
    "return 2 * (size - 1) * size * (link.latency + num_bytes / size / link.bandwidth)",
)
_cost(
    "bits_for_bytes",
    "The bandwidth is in bytes per second, as num_bytes is in bytes: no factor of 8.",
    _RING,
    "return 2 * (size - 1) * (link.latency + 8 * num_bytes / size / link.bandwidth)",
)
_cost(
    "whole_bytes",
    "num_bytes / size may be a fraction: // cuts it off.",
    _RING,
    "return 2 * (size - 1) * (link.latency + num_bytes // size / link.bandwidth)",
)
_cost(
    "latency_divided",
    "Only bytes are shared out: a small message has the whole latency.",
    _RING,
    "return 2 * (size - 1) / size * (link.latency + num_bytes / link.bandwidth)",
)
_cost(
    "chunks_of_size_minus_1",
    "A tensor is cut into size chunks, one for each rank.",
    _RING,
    "return 2 * (size - 1) * link.latency + 2 * num_bytes / link.bandwidth * (size > 1)",
)
_cost(
    "latency_or_bytes",
    "First the latency, then the bytes: a message takes both, not the longer one of the two.",
    _RING,
    "return 2 * (size - 1) * max(link.latency, num_bytes / size / link.bandwidth)",
)

# ---- tp_decode_seconds

_cost(
    "communication_free",
    "Ranks have to talk: the all-reduces come on top, and do not divide.",
    _ALL,
    "return compute",
)
_cost(
    "one_all_reduce_per_layer",
    "Two in each layer: one after attention, one after the MLP.",
    _ALL,
    "return compute + (config.n_layers + 1) * one",
)
_cost(
    "embedding_forgotten",
    "The embedding is split by tokens: it takes an all-reduce of its own, before the first layer.",
    _ALL,
    "return compute + 2 * config.n_layers * one",
)
_cost(
    "one_more_for_the_head",
    "The head's logits stay on their ranks: no all-reduce for them.",
    _ALL,
    "return compute + (2 * config.n_layers + 2) * one",
)
_cost(
    "three_in_a_layer",
    "Query, key, value, gate and up projections need no sum: only o_proj and down_proj end with an all-reduce.",
    _ALL,
    "return compute + (3 * config.n_layers + 1) * one",
)
_cost(
    "weights_not_sharded",
    "Each rank reads its share of the weights only; yours reads all of them on each.",
    _OWN,
    'cost["weight_bytes"] + cost["kv_bytes"] / min(size, config.n_kv_heads)',
)
_cost(
    "cache_divides_for_ever",
    "With fewer KV heads than ranks several ranks read a copy of the same one: the cache divides by n_kv_heads at most.",
    _OWN,
    'cost["bytes"] / size',
)
_cost(
    "cache_not_sharded",
    "Each rank has the keys and values of its own KV heads: the cache divides, too.",
    _OWN,
    'cost["weight_bytes"] / size + cost["kv_bytes"]',
)
_cost(
    "cache_by_its_heads_always",
    "The cache divides by the ranks as long as there are KV heads enough; yours divides it further than there are ranks.",
    _OWN,
    'cost["weight_bytes"] / size + cost["kv_bytes"] / config.n_kv_heads',
)
_cost(
    "cache_by_query_heads",
    "The cache has KV heads: they, not the query heads, limit how far it divides.",
    _OWN,
    'cost["weight_bytes"] / size + cost["kv_bytes"] / min(size, config.n_heads)',
)
_cost(
    "cache_forgotten",
    "A rank reads its part of the cache as well as of the weights.",
    _OWN,
    'cost["weight_bytes"] / size',
)
_cost(
    "flops_not_sharded",
    "Each rank does its share of the arithmetic: FLOPs divide by size.",
    _COMPUTE,
    'step_seconds({"flops": cost["flops"], "bytes": own_bytes}, hardware)',
)
_cost(
    "flops_like_the_cache",
    "Query heads are not copied: arithmetic divides by size, however few KV heads there are.",
    _COMPUTE,
    'step_seconds({"flops": cost["flops"] / min(size, config.n_kv_heads), "bytes": own_bytes}, hardware)',
)
_cost(
    "reading_alone",
    "With a large batch arithmetic takes longer than reading: the slower of the two decides.",
    _COMPUTE,
    "own_bytes / hardware.bandwidth",
)
_cost(
    "reading_and_arithmetic_in_turn",
    "Arithmetic and memory overlap fully: the slower of the two decides, not their sum.",
    _COMPUTE,
    'cost["flops"] / size / hardware.peak_flops + own_bytes / hardware.bandwidth',
)
_cost(
    "slowest_of_the_whole_divided",
    "What decides on the whole machine need not decide on a rank, since the cache may not divide as the rest does.",
    _COMPUTE,
    'step_seconds(cost, hardware) * (own_bytes / cost["bytes"] if cost["bytes"] / hardware.bandwidth >= '
    'cost["flops"] / hardware.peak_flops else 1 / size)',
)
_cost(
    "messages_overlap",
    "Every all-reduce waits for the layer before, and the next layer for it: communication overlaps with neither.",
    _ALL,
    "return max(compute, (2 * config.n_layers + 1) * one)",
)
_cost(
    "batch_not_sent",
    "A hidden state for each sequence is summed: the bytes grow with the batch.",
    _ONE,
    "all_reduce_seconds(config.d_model * 2, size, link)",
)
_cost(
    "an_all_reduce_for_each_sequence",
    "All sequences are summed in one all-reduce: its latency does not grow with the batch.",
    _ONE,
    "batch * all_reduce_seconds(config.d_model * 2, size, link)",
)
_cost(
    "activations_as_wide_as_weights",
    "Activations have 2 bytes a number, whatever the weights are packed into.",
    _ONE,
    "all_reduce_seconds(batch * config.d_model * bytes_per_param, size, link)",
)
_cost(
    "activations_as_wide_as_the_cache",
    "Activations have 2 bytes a number, whatever the cache has.",
    _ONE,
    "all_reduce_seconds(batch * config.d_model * bytes_per_element, size, link)",
)
_cost(
    "numbers_for_bytes",
    "d_model numbers of 2 bytes each are sent: yours counts numbers.",
    _ONE,
    "all_reduce_seconds(batch * config.d_model, size, link)",
)
_cost(
    "a_share_is_sent",
    "Partial sums are whole hidden states, d_model numbers on every rank: the ring cuts them, and all_reduce_seconds "
    "knows that.",
    _ONE,
    "all_reduce_seconds(batch * config.d_model * 2 / size, size, link)",
)
_cost(
    "the_whole_context_sent",
    "Only the new token's hidden state is summed: the context is in the cache.",
    _ONE,
    "all_reduce_seconds(batch * context_len * config.d_model * 2, size, link)",
)
_cost(
    "features_of_the_mlp_sent",
    "What is summed is d_model wide: the d_ff features stay on their ranks.",
    _ALL,
    "return compute + (config.n_layers + 1) * one + config.n_layers * "
    "all_reduce_seconds(batch * config.d_ff * 2, size, link)",
)
_cost(
    "seconds_per_token",
    "A step makes a token for each sequence; asked for are the seconds of the step.",
    _ALL,
    "return (compute + (2 * config.n_layers + 1) * one) / batch",
)
_cost(
    "widths_left_out",
    "The widths of weights and cache are arguments: pass them on.",
    "decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)",
    "decode_step_cost(config, batch, context_len)",
)
_cost(
    "widths_swapped",
    "bytes_per_param is of the weights, bytes_per_element of the cache.",
    "decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)",
    "decode_step_cost(config, batch, context_len, bytes_per_element, bytes_per_param)",
)
