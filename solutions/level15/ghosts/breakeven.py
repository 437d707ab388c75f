"""Known-wrong programs of level15.breakeven. `ghost` is given when this is read."""


def _ghost(name, sentence, *change):
    ghost("level15.breakeven.breakeven_bandwidth", name, sentence, change=change)


INPUTS = "inputs = num_source_layers * heads * source.head_dim"
COUNT = "return 2 * target.n_layers * target.n_kv_heads * (inputs + 1) * target.head_dim"
HEADS = "heads = 1 if head_local else source.n_kv_heads"
MOVE = "move = num_tokens * source_bytes_per_token / bandwidth"
APPLY = "max(num_tokens * map_flops_per_token / flops_per_second, map_bytes / memory_bandwidth)"
SUM = "return move + apply + recomputed * prefill_seconds"
SHARE = "return move_seconds / (move_seconds + prefill_seconds)"
FLOPS = 'phase_cost(config, num_tokens, 0, bytes_per_element)["flops"] / flops_per_second'
LINK = "return num_tokens * kv_bytes_per_token(config, bytes_per_element) / prefill_seconds"

# ---- mapper_coefficients

_ghost(
    "no_bias",
    "The map is affine: each feature that comes out has a bias besides its weights.",
    ("(inputs + 1)", "inputs"),
)
_ghost("one_map_for_both", "Keys have a map and values another: count both.", ("return 2 * target", "return target"))
_ghost(
    "always_all_heads",
    "A head-local map reads one head of each source layer, not all of them.",
    (HEADS, "heads = source.n_kv_heads"),
)
_ghost(
    "one_layer_read",
    "Each layer of the target reads num_source_layers layers: the inputs are those of all of them side by side.",
    (INPUTS, "inputs = heads * source.head_dim"),
)
_ghost(
    "layers_of_the_source",
    "There is a map for each layer of the target; yours counts one for each of the source.",
    ("2 * target.n_layers", "2 * source.n_layers"),
)
_ghost(
    "heads_of_the_source",
    "There is a map for each KV head of the target; yours counts one for each of the source.",
    ("target.n_layers * target.n_kv_heads", "target.n_layers * source.n_kv_heads"),
)
_ghost(
    "heads_of_the_target_come_in",
    "What is read are the source's KV heads; yours counts as many as the target has.",
    (HEADS, "heads = 1 if head_local else target.n_kv_heads"),
)
_ghost(
    "target_comes_in",
    "What comes in is the source's: its KV heads and its head_dim, which need not be the target's.",
    (HEADS, "heads = 1 if head_local else target.n_kv_heads"),
    (INPUTS, "inputs = num_source_layers * heads * target.head_dim"),
)
_ghost(
    "query_heads",
    "A cache holds KV heads: with grouped queries there are fewer of them than of n_heads.",
    ("target.n_kv_heads", "target.n_heads"),
)

# ---- transfer_seconds

_ghost(
    "arithmetic_and_weights_added",
    "The map's weights are read while it computes: the slower of both counts, not their sum.",
    (APPLY, "num_tokens * map_flops_per_token / flops_per_second + map_bytes / memory_bandwidth"),
)
_ghost(
    "map_is_free",
    "Moving is not all: the map, and what is recomputed, take their time after it.",
    (SUM, "return move"),
)
_ghost(
    "share_that_is_kept",
    "recomputed is the share of the prefill that is done again, not the one that is saved.",
    (SUM, "return move + apply + (1 - recomputed) * prefill_seconds"),
)
_ghost(
    "all_at_once",
    "Move, map, repair, in turn: each needs what the one before it made, so their seconds add up.",
    (SUM, "return max(move, apply, recomputed * prefill_seconds)"),
)
_ghost(
    "mapped_while_it_moves",
    "Move, then map: here the map begins when all has arrived, so both times count, not the longer one.",
    (SUM, "return max(move, apply) + recomputed * prefill_seconds"),
)
_ghost(
    "repaired_tokens_not_moved",
    "Here the whole cache is moved first: recomputing a share of it saves no bytes.",
    (MOVE, "move = (1 - recomputed) * num_tokens * source_bytes_per_token / bandwidth"),
)
_ghost(
    "map_of_one_token",
    "The FLOPs are given for one token: every token of the prompt is mapped.",
    (APPLY, "max(map_flops_per_token / flops_per_second, map_bytes / memory_bandwidth)"),
)
_ghost(
    "weights_read_for_each_token",
    "All tokens are mapped together: the map's weights are read once, not once a token.",
    (APPLY, "max(num_tokens * map_flops_per_token / flops_per_second, num_tokens * map_bytes / memory_bandwidth)"),
)
_ghost(
    "weights_over_the_link",
    "The map lies in the receiver's memory: its bytes are read at memory_bandwidth, not sent over the link.",
    ("map_bytes / memory_bandwidth", "map_bytes / bandwidth"),
)

# ---- optimal_recompute_fraction

_ghost(
    "share_to_move",
    "The slower the link, the more is recomputed: yours is the share that is moved.",
    (SHARE, "return prefill_seconds / (move_seconds + prefill_seconds)"),
)
_ghost(
    "all_or_nothing",
    "Link and device work at the same time, so a share of each is done sooner than all of the faster one.",
    (SHARE, "return float(move_seconds > prefill_seconds)"),
)
_ghost(
    "half",
    "Half of the layers is best only where both take the same time.",
    (SHARE, "return 0.5"),
)
_ghost(
    "quotient_of_the_times",
    "Solve move · (1 - share) = prefill · share: below is the sum of both times, not the prefill's alone.",
    (SHARE, "return min(1.0, move_seconds / prefill_seconds) if prefill_seconds else 1.0"),
)

# ---- breakeven_bandwidth

_ghost(
    "bytes_of_one_token",
    "The seconds are those of all tokens, so the bytes must be, too.",
    (LINK, "return kv_bytes_per_token(config, bytes_per_element) / prefill_seconds"),
)
_ghost(
    "seconds_over_bytes",
    "Bytes over seconds: yours is upside down.",
    (LINK, "return prefill_seconds / (num_tokens * kv_bytes_per_token(config, bytes_per_element))"),
)
_ghost(
    "bits",
    "The link is asked for in bytes per second, not bits: no factor of 8.",
    (LINK, LINK.replace("return ", "return 8 * ")),
)
_ghost(
    "sent_and_received",
    "The cache crosses the link once: what leaves on one side arrives on the other.",
    (LINK, LINK.replace("return ", "return 2 * ")),
)
_ghost(
    "always_two_bytes",
    "bytes_per_element says how wide the cache is: yours is always two bytes wide.",
    (LINK, LINK.replace("bytes_per_element", "2")),
)
_ghost(
    "all_logits",
    "A prefill projects its last token onto the vocabulary: the logits of the others are not needed.",
    (FLOPS, FLOPS.replace("bytes_per_element", "bytes_per_element, False")),
)
_ghost(
    "one_decode_step",
    "The prompt is made by one prefill of all its tokens; yours prices one token behind a full cache.",
    (FLOPS, 'phase_cost(config, 1, num_tokens - 1, bytes_per_element)["flops"] / flops_per_second'),
)
_ghost(
    "one_token_behind_all",
    "The prompt is made by one prefill of all its tokens; yours prices the next token, behind a full cache.",
    (FLOPS, 'phase_cost(config, 1, num_tokens, bytes_per_element)["flops"] / flops_per_second'),
)
_ghost(
    "one_token_times_all",
    "Attention grows with the square of the prompt: a first token's FLOPs times all tokens leave that out.",
    (FLOPS, 'num_tokens * phase_cost(config, 1, 0, bytes_per_element)["flops"] / flops_per_second'),
)
_ghost(
    "all_pairs",
    "A token sees itself and what came before: half of the pairs, not all of them.",
    (
        FLOPS,
        "("
        + FLOPS.replace(" / flops_per_second", "")
        + " + 2 * config.n_layers * config.n_heads * config.head_dim * num_tokens * (num_tokens - 1)"
        ") / flops_per_second",
    ),
)
_ghost(
    "bytes_of_the_pass",
    "What crosses the link is the cache; yours are all bytes that a prefill moves, its weights among them.",
    (LINK, 'return phase_cost(config, num_tokens, 0, bytes_per_element)["bytes"] / prefill_seconds'),
)
