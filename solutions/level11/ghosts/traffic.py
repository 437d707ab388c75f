"""Known-wrong programs of level11.traffic. `ghost` is given when this is read."""


def _bytes(name, sentence, *change, **how):
    ghost("level11.traffic.decode_step_bytes", name, sentence, change=change, **how)


# ---- expected_experts_touched

TOUCHED = "n_experts * (1 - (1 - k / n_experts) ** batch)"

_bytes(
    "k_for_each_token",
    "Tokens share experts, and a shared one is read once: E (1 - (1 - k/E)^B), not k B.",
    (TOUCHED, "min(n_experts, k * batch)"),
)
_bytes(
    "k_whatever_the_batch",
    "k experts are one token's: each token of a batch chooses its own, and yours counts the first token's.",
    (TOUCHED, "k"),
)
_bytes(
    "every_expert_is_touched",
    "One token reads its k experts only: yours reads all of them at any batch.",
    (TOUCHED, "n_experts"),
)
_bytes(
    "drawn_one_by_one",
    "A token's k experts differ: it leaves one out with 1 - k/E, not with (1 - 1/E)^k, as if one could come twice.",
    (TOUCHED, "n_experts * (1 - (1 - 1 / n_experts) ** (k * batch))"),
)
_bytes(
    "a_share_of_the_experts",
    "The chance that an expert is touched, times the number of experts: yours is the chance alone.",
    (TOUCHED, "1 - (1 - k / n_experts) ** batch"),
)
_bytes(
    "experts_left_out",
    "(1 - k/E)^B is the chance that nobody needs an expert: yours counts those that are not read.",
    (TOUCHED, "n_experts * (1 - k / n_experts) ** batch"),
)
_bytes(
    "touched_by_every_token",
    "An expert is read if ANY token of the batch needs it: yours counts those that all of them need.",
    (TOUCHED, "n_experts * (k / n_experts) ** batch"),
)
_bytes(
    "whole_experts",
    "An average need not be whole: yours rounds it.",
    (TOUCHED, "float(round(n_experts * (1 - (1 - k / n_experts) ** batch)))"),
)

# ---- decode_step_bytes

EXPERTS = "arch.expert_params * expected_experts_touched(arch.n_experts, arch.k, batch)"
CACHE = "arch.global_kv_bytes * context_len + arch.local_kv_bytes * min(arch.window, context_len)"
SUM = "return params * arch.bytes_per_param + batch * (cache + 2 * arch.state_bytes)"

_bytes(
    "active_parameters",
    "Active parameters say what a token computes with. A batch reads every expert that any of its tokens needs.",
    (EXPERTS, "arch.expert_params * arch.k"),
)
_bytes(
    "all_parameters",
    "Experts that no token has chosen are not read: yours counts all that are stored.",
    (EXPERTS, "arch.expert_params * arch.n_experts"),
)
_bytes(
    "experts_for_each_sequence",
    "An expert is read once for all tokens that go to it: yours reads k of them for each sequence.",
    (EXPERTS, "arch.expert_params * arch.k * batch"),
)
_bytes(
    "one_expert",
    "expert_params are those of ONE expert: multiply by how many are touched.",
    (EXPERTS, "arch.expert_params"),
)
_bytes(
    "experts_alone",
    "Attention and embeddings are shared and read in every step, beside the experts.",
    ("params += arch", "params = arch"),
)
_bytes(
    "weights_for_each_sequence",
    "Weights are read once a step, for all sequences: that is what a batch is for.",
    (SUM, "return batch * (params * arch.bytes_per_param + cache + 2 * arch.state_bytes)"),
)
_bytes(
    "one_cache_for_all",
    "Each sequence has keys and values of its own: yours reads them once for the batch.",
    (SUM, "return params * arch.bytes_per_param + cache + batch * 2 * arch.state_bytes"),
)
_bytes(
    "one_state_for_all",
    "Each sequence has a state of its own: yours moves one for the batch.",
    (SUM, "return params * arch.bytes_per_param + batch * cache + 2 * arch.state_bytes"),
)
_bytes(
    "state_read_only",
    "A state is read and written in every step: count it twice.",
    ("2 * arch.state_bytes", "arch.state_bytes"),
)
_bytes(
    "state_for_each_token",
    "A state is as large after a million tokens as after one: yours grows with the context.",
    ("2 * arch.state_bytes", "2 * arch.state_bytes * context_len"),
)
_bytes(
    "parameters_for_bytes",
    "A parameter has bytes_per_param bytes: yours counts parameters.",
    ("params * arch.bytes_per_param", "params"),
)
_bytes(
    "caches_scaled_too",
    "bytes_per_param is the weights': caches and states are in bytes already.",
    (SUM, "return arch.bytes_per_param * (params + batch * (cache + 2 * arch.state_bytes))"),
)
_bytes(
    "two_bytes_always",
    "Weights may have 8 bits or 4: take bytes_per_param, not 2.",
    ("params * arch.bytes_per_param", "params * 2"),
)
_bytes(
    "no_window",
    "A local layer reads the last `window` tokens, however long the context is: yours reads all.",
    ("min(arch.window, context_len)", "context_len"),
)
_bytes(
    "window_always_full",
    "A short context does not fill the window: min(window, context_len).",
    ("min(arch.window, context_len)", "arch.window"),
)
_bytes(
    "local_layers_forgotten",
    "Local layers keep keys and values too, of their window.",
    (CACHE, "arch.global_kv_bytes * context_len"),
)
_bytes(
    "window_for_all_layers",
    "Global layers see everything: the window is for the local ones.",
    (CACHE, "(arch.global_kv_bytes + arch.local_kv_bytes) * min(arch.window, context_len)"),
)
_bytes(
    "the_new_token_too",
    "context_len tokens are read; the new token's keys and values are left out here.",
    (CACHE, "arch.global_kv_bytes * (context_len + 1) + arch.local_kv_bytes * min(arch.window, context_len + 1)"),
)
_bytes(
    "keys_and_values_again",
    "The bytes of a token are those of its keys and values together: yours doubles them.",
    ("batch * (cache + 2 *", "batch * (2 * cache + 2 *"),
)

# ---- crossover_context

BENDS = "bends = sorted({0, first.window, second.window})"
ABOVE = "crossing += excess(crossing) <= 0  # the first that is above, not the last that is not"
LOOP = "for start, end in zip(bends, [*bends[1:], float("

_bytes(
    "as_much_is_enough",
    "MORE bytes: where both move the same, the crossing is one token further.",
    (ABOVE, "crossing += excess(crossing) < 0"),
)
_bytes(
    "last_that_is_not_above",
    "A crossing is seldom a whole number: the first length above it is asked for, and yours lies below.",
    (ABOVE, "pass"),
)
_bytes(
    "always_one_further",
    "Where the crossing is no whole number, rounding up is enough: yours is a token too far.",
    ("crossing = start + int(-excess(start) / slope)", "crossing = start - int(excess(start) // slope)"),
    (ABOVE, "crossing += 1"),
)
_bytes(
    "windows_overlooked",
    "Where a window is full the line bends: yours draws it on from the first two lengths.",
    (BENDS, "bends = [0]"),
)
_bytes(
    "from_full_windows_on",
    "It may cross while a window still fills: yours looks only behind the longer one.",
    (BENDS, "bends = [max(first.window, second.window)]"),
)
_bytes(
    "only_one_window",
    "Both architectures may have a window, and the line bends at each of them.",
    (BENDS, "bends = sorted({0, second.window})"),
)
_bytes(
    "beyond_the_piece",
    "A crossing counts only where its piece of the line is: yours takes one beyond the bend.",
    ("if crossing <= end:", "if True:"),
)
_bytes(
    "not_at_the_start",
    "`first` may move more from the first token on: then the answer is 0, and yours looks on.",
    ("if excess(start) > 0:", "if excess(start) > 0 and start > 0:"),
)
_bytes(
    "never_is_zero",
    "Where they never cross the answer is None: 0 says that it is so from the start.",
    ("    return None\n", "    return 0\n"),
)
_bytes(
    "batch_of_one",
    "Caches grow with the batch and weights do not: with more sequences they cross earlier. Yours takes one.",
    (
        "decode_step_bytes(first, batch, context_len) - decode_step_bytes(second, batch, context_len)",
        "decode_step_bytes(first, 1, context_len) - decode_step_bytes(second, 1, context_len)",
    ),
)
_bytes(
    "the_other_way_round",
    "It is `first` that moves more from the crossing on: yours looks for where `second` does.",
    (
        "decode_step_bytes(first, batch, context_len) - decode_step_bytes(second, batch, context_len)",
        "decode_step_bytes(second, batch, context_len) - decode_step_bytes(first, batch, context_len)",
    ),
)


def _bisection(first, second, batch):
    from level11.traffic import decode_step_bytes

    def above(n):
        return decode_step_bytes(first, batch, n) > decode_step_bytes(second, batch, n)

    high = 1 << 50
    if not above(high):
        return 0 if above(0) else None
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


ghost(
    "level11.traffic.decode_step_bytes",
    "bisection",
    "With windows the difference falls and rises, so that halving an interval can miss the first crossing.",
    program=_bisection,
    part="crossover_context",
)


def _doubling(first, second, batch):
    from level11.traffic import decode_step_bytes

    def above(n):
        return decode_step_bytes(first, batch, n) > decode_step_bytes(second, batch, n)

    if above(0):
        return 0
    high = next((1 << i for i in range(60) if above(1 << i)), None)
    if high is None:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


ghost(
    "level11.traffic.decode_step_bytes",
    "doubling_and_bisection",
    "Where a window fills the difference may be above 0 for a few lengths only: trying 1, 2, 4, 8 steps over them.",
    program=_doubling,
    part="crossover_context",
)


def _tried_up_to_the_longest_text(first, second, batch):
    from level11.traffic import decode_step_bytes

    decode_step_bytes(first, batch, 0)
    for n in range(100_000):
        if decode_step_bytes(first, batch, n) > decode_step_bytes(second, batch, n):
            return n
    return None


ghost(
    "level11.traffic.decode_step_bytes",
    "tried_up_to_the_longest_text",
    "A crossing may lie beyond any length that you try: work it out from the difference and its slope.",
    program=_tried_up_to_the_longest_text,
    part="crossover_context",
)
