"""Known-wrong programs of level03.sampling. `ghost` is given when this is read."""

from math import inf

# ---- apply_temperature

ghost(
    "level03.sampling.apply_temperature",
    "multiplies",
    "Divide by the temperature: a low one makes the differences larger and the distribution sharper.",
    change=("return logits / temperature", "return logits * temperature"),
)
ghost(
    "level03.sampling.apply_temperature",
    "on_probabilities",
    "Divide the logits, before the softmax; probabilities that are divided by a number keep their ratios.",
    change=("return logits / temperature", "return logits.softmax(-1) / temperature"),
)
ghost(
    "level03.sampling.apply_temperature",
    "zero_divides",
    "Temperature 0 means greedy and is a case of its own: a division gives inf and NaN.",
    change=("if temperature == 0:", "if temperature < 0:"),
)
ghost(
    "level03.sampling.apply_temperature",
    "zero_is_a_small_number",
    "Temperature 0 is not a small temperature: on a tie both tokens would still be drawn.",
    change=[
        ("if temperature == 0:", "if temperature < 0:"),
        ("logits / temperature\n", "logits / max(temperature, 1e-6)\n"),
    ],
)
ghost(
    "level03.sampling.apply_temperature",
    "no_less_than_1e_5",
    "A smallest temperature of 1e-5 is not greedy: both tokens of a tie stay. 0 is a case of its own, and 1e-6 divides.",
    change=[
        ("if temperature == 0:", "if temperature < 0:"),
        ("logits / temperature\n", "logits / max(temperature, 1e-5)\n"),
    ],
)
ghost(
    "level03.sampling.apply_temperature",
    "zero_changes_nothing",
    "Temperature 0 does not mean off, it means greedy: only the best token stays.",
    change=(
        "return torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), 0)",
        "return logits.clone()",
    ),
)
ghost(
    "level03.sampling.apply_temperature",
    "small_is_greedy",
    "Only temperature 0 itself is greedy; a small one is a division like any other.",
    change=("if temperature == 0:", "if temperature < 1e-5:"),
    convention=True,
)
ghost(
    "level03.sampling.apply_temperature",
    "keeps_all_of_a_tie",
    "On a tie the smallest id alone stays; with several left, greedy decoding would be random.",
    change=(
        "torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), 0)",
        "torch.full_like(logits, -inf).masked_fill(logits == logits.amax(-1, keepdim=True), 0)",
    ),
)
ghost(
    "level03.sampling.apply_temperature",
    "last_of_a_tie",
    "On a tie the smallest id stays, not the largest: two servers must give the same answer.",
    change=("logits.argmax(-1, keepdim=True)", "logits.shape[-1] - 1 - logits.flip(-1).argmax(-1, keepdim=True)"),
)
ghost(
    "level03.sampling.apply_temperature",
    "keeps_the_logit",
    "At temperature 0 the best token gets logit 0, not its old one.",
    change=(
        "torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), 0)",
        "torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), logits.amax(-1, keepdim=True))",
    ),
    convention=True,
)
ghost(
    "level03.sampling.apply_temperature",
    "one_hot",
    "These are logits, not probabilities: the best gets 0 and the others -inf, since a logit of 0 is not excluded.",
    change=(
        "torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), 0)",
        "torch.zeros_like(logits).scatter(-1, logits.argmax(-1, keepdim=True), 1)",
    ),
)
ghost(
    "level03.sampling.apply_temperature",
    "one_best_for_all",
    "Each row has a best token of its own: take the argmax along the last axis.",
    change=(
        "torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, keepdim=True), 0)",
        "torch.full_like(logits, -inf).masked_fill(torch.arange(logits.shape[-1]) == logits.argmax() % logits.shape[-1], 0)",
    ),
)
ghost(
    "level03.sampling.apply_temperature",
    "best_in_half_precision",
    "Find the best token in the dtype of the logits: rounded, two of them become a tie.",
    change=("logits.argmax(-1, keepdim=True)", "logits.half().argmax(-1, keepdim=True)"),
)
ghost(
    "level03.sampling.apply_temperature",
    "normalizes",
    "Only divide: log-probabilities have the same softmax, but they are other logits.",
    change=("return logits / temperature", "return (logits / temperature).log_softmax(-1)"),
)
ghost(
    "level03.sampling.apply_temperature",
    "in_place",
    "Return new logits: the raw ones are still needed for log-probabilities.",
    change=("return logits / temperature", "return logits.div_(temperature)"),
)
ghost(
    "level03.sampling.apply_temperature",
    "same_tensor_at_1",
    "At temperature 1 return a copy: a later step that works in place would change the raw logits.",
    change=("return logits / temperature", "return logits if temperature == 1 else logits / temperature"),
)
ghost(
    "level03.sampling.apply_temperature",
    "float32",
    "The result has the dtype of the logits.",
    change=("return logits / temperature", "return logits.float() / temperature"),
)
ghost(
    "level03.sampling.apply_temperature",
    "float32_at_0",
    "At temperature 0 the result has the dtype of the logits too: full_like takes it over, full does not.",
    change=("torch.full_like(logits, -inf)", "torch.full(logits.shape, -inf)"),
)
ghost(
    "level03.sampling.apply_temperature",
    "any_of_a_tie",
    "topk may return any of the equal logits; argmax returns the smallest id.",
    change=("logits.argmax(-1, keepdim=True)", "logits.topk(1).indices"),
)
ghost(
    "level03.sampling.apply_temperature",
    "whole_numbers",
    "Do not round the quotient: // divides to whole numbers.",
    change=("return logits / temperature", "return logits // temperature"),
)
ghost(
    "level03.sampling.apply_temperature",
    "clamped",
    "There is no upper limit: a temperature above 2 flattens the distribution further.",
    change=("return logits / temperature", "return logits / min(temperature, 2.0)"),
)

# ---- top_k

MASK = "logits.masked_fill(mask, -inf)"
ghost(
    "level03.sampling.top_k",
    "zeros",
    "Exclude with -inf: a logit of 0 still has a probability, often a large one.",
    change=(MASK, "logits.masked_fill(mask, 0.0)"),
)
ghost(
    "level03.sampling.top_k",
    "least_float",
    "Exclude with -inf: the steps after this one ask which logits are -inf, and half precision has another least number.",
    change=(MASK, "logits.masked_fill(mask, torch.finfo(logits.dtype).min)"),
    convention=True,
)
ghost(
    "level03.sampling.top_k",
    "threshold_ties",
    "Exactly k tokens are kept: of equal logits those with the smaller ids, not all that reach the k-th value.",
    change=(MASK, "logits.masked_fill(logits < logits.gather(-1, kept[..., -1:]), -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "above_the_kth",
    "The k-th token itself is kept as well: exclude what is smaller, not what is as large.",
    change=(MASK, "logits.masked_fill(logits <= logits.gather(-1, kept[..., -1:]), -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "drops_a_tie",
    "Exactly k tokens are kept: where a tie lies across the border, some of it stays.",
    change=(
        MASK,
        "logits.masked_fill(logits <= torch.cat([logits, torch.full_like(logits, -inf).expand(logits.shape)], -1).sort(-1, True).values[..., min(k, logits.shape[-1]), None], -inf)",
    ),
)
ghost(
    "level03.sampling.top_k",
    "zero_times_infinity",
    "-inf times 0 is NaN: exclude with masked_fill or where, not with a product.",
    change=(MASK, "logits * (~mask).to(logits.dtype) + (~mask).to(logits.dtype).log()"),
)
ghost(
    "level03.sampling.top_k",
    "ranks_probabilities",
    "Rank the logits: the probabilities of unlikely tokens round to 0, and become ties.",
    change=("kept = logits.sort(", "kept = logits.softmax(-1).sort("),
)
ghost(
    "level03.sampling.top_k",
    "one_more",
    "k tokens are kept, not k + 1.",
    change=("indices[..., :k]", "indices[..., : k + 1]"),
)
ghost(
    "level03.sampling.top_k",
    "any_of_a_tie",
    "torch.topk may return any of the equal logits; only a stable sort puts the smaller ids first.",
    change=(
        "logits.sort(dim=-1, descending=True, stable=True).indices[..., :k]",
        "logits.topk(min(k, logits.shape[-1])).indices",
    ),
)
ghost(
    "level03.sampling.top_k",
    "last_of_a_tie",
    "Of equal logits the smaller ids are kept: turning an ascending sort around puts the larger ones first.",
    change=(
        "logits.sort(dim=-1, descending=True, stable=True).indices[..., :k]",
        "logits.sort(dim=-1, stable=True).indices.flip(-1)[..., :k]",
    ),
)
ghost(
    "level03.sampling.top_k",
    "keeps_sorted_order",
    "Put every logit back at its own id; yours come sorted.",
    change=(MASK, "logits.sort(dim=-1, descending=True).values.masked_fill(torch.arange(logits.shape[-1]) >= k, -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "mask_in_sorted_order",
    "A mask over the sorted logits belongs to ranks: scatter it back to the ids.",
    change=(MASK, "logits.masked_fill(torch.arange(logits.shape[-1]) >= k, -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "only_the_k",
    "The result has V entries: excluded tokens stay in their places, at -inf.",
    change=(MASK, "logits.gather(-1, kept)"),
)
ghost(
    "level03.sampling.top_k",
    "the_smallest",
    "Keep the k largest: sort in descending order.",
    change=("descending=True", "descending=False"),
)


def _batch_threshold(logits, k):
    if k < 1:
        raise ValueError("k")
    least = logits.flatten().sort(descending=True).values[: logits[..., 0].numel() * k][-1]
    return logits.masked_fill(logits < least, -inf)


ghost(
    "level03.sampling.top_k",
    "batch_threshold",
    "Each row has its own top k, and not one threshold for the whole batch.",
    program=_batch_threshold,
)
ghost(
    "level03.sampling.top_k",
    "first_row_s",
    "Each row has its own best tokens; those of the first row are not the others'.",
    change=("indices[..., :k]", "indices[..., :k]\n    kept = kept.reshape(-1, kept.shape[-1])[0].expand(kept.shape)"),
)
ghost(
    "level03.sampling.top_k",
    "first_axis",
    "The vocabulary is the last axis, whatever stands before it.",
    change=[("dim=-1", "dim=0"), ("indices[..., :k]", "indices[:k]"), ("scatter(-1", "scatter(0")],
)
ghost(
    "level03.sampling.top_k",
    "k_beyond_the_vocabulary",
    "k may exceed the vocabulary: then min(k, V) entries are kept, and nothing is raised.",
    change=("logits.sort(", "logits.topk(k)\n    kept = logits.sort("),
)
ghost(
    "level03.sampling.top_k",
    "in_place",
    "Return new logits: the raw ones are still needed for log-probabilities.",
    change=(MASK, "logits.masked_fill_(mask, -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "same_tensor",
    "Return a copy even when everything is kept: a later step that works in place would change the raw logits.",
    change=(MASK, "logits if k >= logits.shape[-1] else logits.masked_fill(mask, -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "log_probabilities",
    "Kept logits are kept as they are: do not normalize them.",
    change=(MASK, "logits.masked_fill(mask, -inf).log_softmax(-1)"),
)
ghost(
    "level03.sampling.top_k",
    "float32",
    "The result has the dtype of the logits, and so has the sort: rounded, two of them become a tie.",
    change=(MASK, "logits.float().masked_fill(mask, -inf)"),
)
ghost(
    "level03.sampling.top_k",
    "ranks_in_half_precision",
    "Rank the logits in their own dtype: in a smaller one near neighbours become ties.",
    change=("kept = logits.sort(", "kept = logits.bfloat16().sort("),
)

# ---- top_p

BEYOND = "before >= p - 1e-12)"
ghost(
    "level03.sampling.top_p",
    "drops_crossing",
    "Keep the token that crosses p: the nucleus is the smallest set whose sum is at least p.",
    change=(BEYOND, "(probs.cumsum(-1) > p + 1e-12) & (before > 0))"),
)
ghost(
    "level03.sampling.top_p",
    "empty_nucleus",
    "The most likely token is always kept, even if it alone exceeds p: otherwise nothing is left to draw.",
    change=(BEYOND, "probs.cumsum(-1) > p + 1e-12)"),
)
ghost(
    "level03.sampling.top_p",
    "one_too_many",
    "Stop as soon as the sum has reached p: the token after the one that crosses it is out.",
    change=(
        "before = probs.cumsum(-1) - probs",
        "before = (probs.cumsum(-1) - probs).roll(1, -1)\n    before[..., 0] = 0.0",
    ),
)
ghost(
    "level03.sampling.top_p",
    "exact_hit_adds_one",
    "At least p means that p itself is enough: compare with >=, not with >.",
    change=(BEYOND, "before > p + 1e-12)"),
    convention=True,
)
ghost(
    "level03.sampling.top_p",
    "no_slack",
    "Rounding leaves a sum just below p: within 1e-12 it has reached p, or ten tokens of 0.1 need nine for 0.8.",
    change=(BEYOND, "before >= p)"),
)
ghost(
    "level03.sampling.top_p",
    "generous_slack",
    "The slack is 1e-12, enough for rounding in float64; with a larger one a token that is needed is lost.",
    change=(BEYOND, "before >= p - 1e-6)"),
)
ghost(
    "level03.sampling.top_p",
    "not_unsorted",
    "The mask is in sorted order: scatter it back to the ids.",
    change=("torch.empty_like(before, dtype=torch.bool).scatter(-1, ids, before >= p - 1e-12)", "before >= p - 1e-12"),
)
ghost(
    "level03.sampling.top_p",
    "gathers_back",
    "To put the mask back, scatter it: gathering with the same ids applies the permutation a second time.",
    change=(
        "torch.empty_like(before, dtype=torch.bool).scatter(-1, ids, before >= p - 1e-12)",
        "(before >= p - 1e-12).gather(-1, ids)",
    ),
)
ghost(
    "level03.sampling.top_p",
    "not_sorted",
    "Sort first: the nucleus is made of the most likely tokens, not of those with small ids.",
    change=(
        "logits.sort(dim=-1, descending=True, stable=True)",
        "logits, torch.arange(logits.shape[-1]).expand(logits.shape)",
    ),
)
ghost(
    "level03.sampling.top_p",
    "sums_logits",
    "Add up probabilities, not logits.",
    change=("ordered.double().softmax(-1)", "ordered.double()"),
)
ghost(
    "level03.sampling.top_p",
    "sums_log_probabilities",
    "Add up probabilities: sums of their logarithms are negative and never reach p.",
    change=("ordered.double().softmax(-1)", "ordered.double().log_softmax(-1)"),
)
ghost(
    "level03.sampling.top_p",
    "probability_threshold",
    "p is the sum that the kept tokens reach together, not what each one must have.",
    change=(BEYOND, "(probs < p) & (probs < probs[..., :1]))"),
)
ghost(
    "level03.sampling.top_p",
    "p_one_cuts",
    "p = 1 keeps everything: a rounded sum reaches 1 before the last token, and the tail would be cut.",
    change=("    if p == 1:\n        return logits.clone()\n", ""),
)
ghost(
    "level03.sampling.top_p",
    "float32_sum",
    "Sum in float64: over 50,000 tokens a float32 sum is off by more than a token of the tail has.",
    change=("ordered.double().softmax(-1)", "ordered.float().softmax(-1)"),
)
ghost(
    "level03.sampling.top_p",
    "float32_softmax",
    "Take the softmax in float64 too: its own sum over 50,000 tokens loses the tail in float32.",
    change=("ordered.double().softmax(-1)", "ordered.float().softmax(-1).double()"),
)
ghost(
    "level03.sampling.top_p",
    "softmax_in_the_logits_dtype",
    "Convert the logits to float64 before the softmax: afterwards its rounding is in every sum.",
    change=("ordered.double().softmax(-1)", "ordered.softmax(-1).double()"),
)
ghost(
    "level03.sampling.top_p",
    "sums_in_the_logits_dtype",
    "A bfloat16 sum stops growing: 0.5 + 0.001 is 0.5 there. Sum in float64.",
    change=("ordered.double().softmax(-1)", "ordered.softmax(-1)"),
)


def _as_in_transformers(logits, p):
    import torch

    if not 0 < p <= 1:
        raise ValueError("p")
    ordered, ids = torch.sort(logits, descending=False)
    removed = ordered.softmax(-1).cumsum(-1) <= 1 - p
    removed[..., -1:] = False
    return logits.masked_fill(removed.scatter(-1, ids, removed), -inf)


ghost(
    "level03.sampling.top_p",
    "as_in_transformers",
    "transformers' warper sums in the dtype of the logits and keeps the larger ids of a tie; here: float64, the smaller ids.",
    program=_as_in_transformers,
    convention=True,
)


def _shifted_by_one(logits, p):
    import torch

    if not 0 < p <= 1:
        raise ValueError("p")
    ordered, ids = torch.sort(logits, descending=True)
    removed = ordered.softmax(-1).cumsum(-1) > p
    removed[..., 1:] = removed[..., :-1].clone()
    removed[..., 0] = False
    return logits.masked_fill(removed.scatter(-1, ids, removed), -inf)


ghost(
    "level03.sampling.top_p",
    "shifted_by_one",
    "The well-known `cumsum > p`, shifted by one, adds a token to an exact hit, sums in the dtype of the logits, and its "
    "sort is not stable: here at least p, float64, the smaller ids.",
    program=_shifted_by_one,
    convention=True,
)


def _as_in_llama(logits, p):
    import torch

    if not 0 < p <= 1:
        raise ValueError("p")
    probs, ids = torch.sort(logits.softmax(-1), dim=-1, descending=True)
    beyond = probs.cumsum(-1) - probs > p
    return logits.masked_fill(torch.empty_like(beyond).scatter(-1, ids, beyond), -inf)


ghost(
    "level03.sampling.top_p",
    "as_in_llama",
    "Llama's reference compares with > and in the dtype of the logits: sum in float64, and let an exact hit add nothing.",
    program=_as_in_llama,
    convention=True,
)
ghost(
    "level03.sampling.top_p",
    "unstable_ties",
    "Of equally likely tokens the smaller ids come first: sort with stable=True.",
    change=(
        "logits.sort(dim=-1, descending=True, stable=True)",
        "logits.topk(logits.shape[-1])",
    ),
)
ghost(
    "level03.sampling.top_p",
    "last_of_a_tie",
    "Of equally likely tokens the smaller ids come first: an ascending sort turned around has them last.",
    change=(
        "ordered, ids = logits.sort(dim=-1, descending=True, stable=True)",
        "ordered, ids = (x.flip(-1) for x in logits.sort(dim=-1, stable=True))",
    ),
)
ghost(
    "level03.sampling.top_p",
    "keeps_the_whole_tie",
    "As few tokens as reach p: of equally likely ones only as many as are needed.",
    change=(
        "logits.masked_fill(beyond, -inf)",
        "logits.masked_fill(logits < logits.masked_fill(beyond, inf).amin(-1, keepdim=True), -inf)",
    ),
)
ghost(
    "level03.sampling.top_p",
    "least_likely_first",
    "The nucleus begins with the most likely token: sort in descending order.",
    change=("descending=True", "descending=False"),
)
ghost(
    "level03.sampling.top_p",
    "one_nucleus_for_all",
    "Each row has a nucleus of its own size, not that of the first row.",
    change=(
        BEYOND,
        "(torch.arange(before.shape[-1]) >= (before < p - 1e-12).reshape(-1, before.shape[-1])[0].sum()).expand(before.shape))",
    ),
)
ghost(
    "level03.sampling.top_p",
    "sums_the_whole_batch",
    "Each row is a distribution of its own: softmax and sum along the last axis only.",
    change=("ordered.double().softmax(-1)", "ordered.double().exp() / ordered.double().exp().sum()"),
)
ghost(
    "level03.sampling.top_p",
    "exp_overflows",
    "exp of a large logit overflows: softmax subtracts the maximum first.",
    change=("ordered.double().softmax(-1)", "ordered.double().exp()\n    probs = probs / probs.sum(-1, keepdim=True)"),
)
ghost(
    "level03.sampling.top_p",
    "zeros",
    "Exclude with -inf: a logit of 0 still has a probability.",
    change=("logits.masked_fill(beyond, -inf)", "logits.masked_fill(beyond, 0.0)"),
)
ghost(
    "level03.sampling.top_p",
    "returns_log_probabilities",
    "Kept logits are kept as they are: do not normalize them.",
    change=("logits.masked_fill(beyond, -inf)", "logits.masked_fill(beyond, -inf).log_softmax(-1)"),
)
ghost(
    "level03.sampling.top_p",
    "returns_float64",
    "Sum in float64, but return the dtype of the logits.",
    change=("logits.masked_fill(beyond, -inf)", "logits.double().masked_fill(beyond, -inf)"),
)
ghost(
    "level03.sampling.top_p",
    "in_place",
    "Return new logits: the raw ones are still needed for log-probabilities.",
    change=("logits.masked_fill(beyond, -inf)", "logits.masked_fill_(beyond, -inf)"),
)
ghost(
    "level03.sampling.top_p",
    "same_tensor_at_1",
    "At p = 1 return a copy: a later step that works in place would change the raw logits.",
    change=("return logits.clone()", "return logits"),
)

# ---- min_p

LEAST = "+ (log(m) if m else -inf)"
ghost(
    "level03.sampling.min_p",
    "absolute",
    "The threshold is relative: m times the probability of the most likely token, not m itself.",
    change=("logits < least", "logits.double().softmax(-1) < m"),
)
ghost(
    "level03.sampling.min_p",
    "logit_scale",
    "m is a ratio of probabilities: on logits the threshold is the largest plus ln m, not m times the largest.",
    change=(LEAST, "* m if m else -inf"),
)
ghost(
    "level03.sampling.min_p",
    "adds_m",
    "A ratio of probabilities is a difference of their logarithms: add ln m to the largest logit.",
    change=(LEAST, "- m if m else -inf"),
)
ghost(
    "level03.sampling.min_p",
    "other_logarithm",
    "Logits are natural logarithms, so the threshold is the largest plus ln m: log10 and log2 are others.",
    change=("log(m) if m", "log(m) / log(10) if m"),
)
ghost(
    "level03.sampling.min_p",
    "log2",
    "The natural logarithm of m, not the one to base 2: softmax is made of powers of e.",
    change=("log(m) if m", "log(m) / log(2) if m"),
)
ghost(
    "level03.sampling.min_p",
    "one_minus",
    "m is the part of the largest probability that a token needs, not the part that it may miss.",
    change=(LEAST, "+ (log(1 - m) if m < 1 else -inf)"),
)
ghost(
    "level03.sampling.min_p",
    "strict",
    "What is as likely as the threshold is kept: with m = 1 you would exclude the most likely token itself.",
    change=("logits < least", "logits <= least"),
)
ghost(
    "level03.sampling.min_p",
    "one_of_a_tie",
    "With m = 1 all tokens of a tie at the top are kept: none of them is less likely.",
    change=(
        "return logits.masked_fill(",
        "if m == 1:\n        return torch.full_like(logits, -inf).scatter(-1, logits.argmax(-1, True), logits.amax(-1, True))\n    return logits.masked_fill(",
    ),
)
ghost(
    "level03.sampling.min_p",
    "no_case_for_0",
    "m = 0 changes nothing; ln 0 does not exist.",
    change=("(log(m) if m else -inf)", "log(m)"),
)
ghost(
    "level03.sampling.min_p",
    "zero_with_an_epsilon",
    "m = 0 changes nothing, however small a probability is: do not put a small number in place of 0.",
    change=("(log(m) if m else -inf)", "log(m + 1e-10)"),
)
ghost(
    "level03.sampling.min_p",
    "largest_of_the_batch",
    "Each row has its own most likely token; the largest of the batch empties the other rows.",
    change=("logits.amax(-1, keepdim=True)", "logits.max()"),
)
ghost(
    "level03.sampling.min_p",
    "largest_of_the_first_axis",
    "The vocabulary is the last axis: the maximum is taken along it.",
    change=("logits.amax(-1, keepdim=True)", "logits.amax(0, keepdim=True)"),
)
ghost(
    "level03.sampling.min_p",
    "keeps_the_unlikely",
    "Exclude what lies below the threshold, not what lies above.",
    change=("logits < least", "logits > least"),
)
ghost(
    "level03.sampling.min_p",
    "zeros",
    "Exclude with -inf: a logit of 0 still has a probability.",
    change=("masked_fill(logits < least, -inf)", "masked_fill(logits < least, 0.0)"),
)
ghost(
    "level03.sampling.min_p",
    "returns_probabilities",
    "Logits in, logits out: the threshold may be found with probabilities, the result is not made of them.",
    change=("logits.masked_fill(logits < least, -inf)", "logits.masked_fill(logits < least, -inf).softmax(-1)"),
)
ghost(
    "level03.sampling.min_p",
    "in_place",
    "Return new logits: the raw ones are still needed for log-probabilities.",
    change=("logits.masked_fill(", "logits.masked_fill_("),
)
ghost(
    "level03.sampling.min_p",
    "same_tensor_at_0",
    "At m = 0 return a copy: a later step that works in place would change the raw logits.",
    change=("return logits.masked_fill(", "return logits if m == 0 else logits.masked_fill("),
)
ghost(
    "level03.sampling.min_p",
    "float32",
    "The result has the dtype of the logits.",
    change=("return logits.masked_fill(", "return logits.float().masked_fill("),
)
ghost(
    "level03.sampling.min_p",
    "softmax_in_the_logits_dtype",
    "Probabilities of bfloat16 logits are not bfloat16: three digits decide wrongly near the threshold.",
    change=("logits < least", "logits.softmax(-1) < m * logits.softmax(-1).amax(-1, keepdim=True)"),
)
ghost(
    "level03.sampling.min_p",
    "bfloat16_threshold",
    "Find the threshold at least in the precision of the logits: rounded, it cuts elsewhere.",
    change=("logits.amax(-1, keepdim=True)", "logits.amax(-1, keepdim=True).bfloat16()"),
)

# ---- apply_penalties

ghost(
    "level03.sampling.apply_penalties",
    "divides_negative",
    "A negative logit divided by 2 becomes more likely: multiply it.",
    change=(
        "torch.where(scores > 0, scores / repetition_penalty, scores * repetition_penalty)",
        "scores / repetition_penalty",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "turned_around",
    "Positive logits are divided and the others multiplied; yours the other way round, which rewards repetition.",
    change=("scores > 0", "scores < 0"),
)
ghost(
    "level03.sampling.apply_penalties",
    "subtracts_repetition",
    "The repetition penalty is a factor, not a difference: 1 is off.",
    change=(
        "torch.where(scores > 0, scores / repetition_penalty, scores * repetition_penalty)",
        "scores - (repetition_penalty - 1)",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "per_occurrence",
    "The repetition penalty counts once per token, however often it has occurred.",
    change=[
        (
            "row[seen] = torch.where(",
            "for token in [*prompt, *output]:\n            score = row[token].clone()\n            row[token] = torch.where(",
        ),
        ("scores > 0, scores / repetition_penalty, scores * ", "score > 0, score / repetition_penalty, score * "),
    ],
)
ghost(
    "level03.sampling.apply_penalties",
    "a_window",
    "All tokens of the prompt and the output count here; a window of the last 64 is llama.cpp's convention.",
    change=("{*prompt, *output}", "{*[*prompt, *output][-64:]}"),
    convention=True,
)
ghost(
    "level03.sampling.apply_penalties",
    "twice_in_both",
    "A token in the prompt and in the output is penalized once: it is the union that counts.",
    change=(
        "scores * repetition_penalty)\n",
        "scores * repetition_penalty)\n        both = torch.tensor(sorted({*prompt} & {*output}), dtype=torch.long)\n        row[both] = torch.where(row[both] > 0, row[both] / repetition_penalty, row[both] * repetition_penalty)\n",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "repetition_of_the_output",
    "The repetition penalty counts the prompt's tokens as well as the new ones.",
    change=("{*prompt, *output}", "{*output}"),
    convention=True,
)
ghost(
    "level03.sampling.apply_penalties",
    "repetition_of_the_prompt",
    "The repetition penalty counts the new tokens as well as the prompt's.",
    change=("{*prompt, *output}", "{*prompt}"),
)
ghost(
    "level03.sampling.apply_penalties",
    "presence_per_count",
    "Presence counts once; frequency counts every time.",
    change=("presence_penalty + frequency_penalty * count", "(presence_penalty + frequency_penalty) * count"),
)
ghost(
    "level03.sampling.apply_penalties",
    "frequency_once",
    "The frequency penalty grows with the number of occurrences.",
    change=("frequency_penalty * count", "frequency_penalty"),
)
ghost(
    "level03.sampling.apply_penalties",
    "swapped",
    "Presence is what counts once, frequency what counts every time; yours are swapped.",
    change=("presence_penalty + frequency_penalty * count", "frequency_penalty + presence_penalty * count"),
)
ghost(
    "level03.sampling.apply_penalties",
    "counts_prompt",
    "Presence and frequency look at the new tokens only; the repetition penalty counts the prompt as well.",
    change=("Counter(output)", "Counter([*prompt, *output])"),
)
ghost(
    "level03.sampling.apply_penalties",
    "frequency_of_the_prompt_too",
    "The frequency of a new token is counted in the output alone, also if the prompt has the token.",
    change=("frequency_penalty * count", "frequency_penalty * (count + list(prompt).count(token))"),
)
ghost(
    "level03.sampling.apply_penalties",
    "adds",
    "Penalties are subtracted: a positive one makes a token less likely.",
    change=("row[token] -=", "row[token] +="),
)
ghost(
    "level03.sampling.apply_penalties",
    "no_rewards",
    "A negative penalty is a reward, and allowed.",
    change=("presence_penalty + frequency_penalty * count", "max(0.0, presence_penalty + frequency_penalty * count)"),
)


def _repetition_last(
    logits, prompt_ids, output_ids, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0
):
    if repetition_penalty <= 0:
        raise ValueError("repetition_penalty")
    logits = logits.clone()
    for row, prompt, output in zip(logits, prompt_ids, output_ids):
        for token in {*output}:
            row[token] -= presence_penalty + frequency_penalty * list(output).count(token)
        for token in {*prompt, *output}:
            row[token] = row[token] / repetition_penalty if row[token] > 0 else row[token] * repetition_penalty
    return logits


ghost(
    "level03.sampling.apply_penalties",
    "repetition_last",
    "The repetition penalty comes first: it scales the raw logit, and presence and frequency are subtracted from that.",
    program=_repetition_last,
)
ghost(
    "level03.sampling.apply_penalties",
    "one_at_a_time",
    "Subtract the whole frequency penalty at once: in bfloat16 8 - 1/128 is 8, so many small steps get nowhere.",
    change=(
        "row[token] -= presence_penalty + frequency_penalty * count",
        "row[token] -= presence_penalty\n            for _ in range(count):\n                row[token] -= frequency_penalty",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "history_of_the_first",
    "Each row has a history of its own; yours are penalized for that of the first.",
    change=(
        "zip(logits, prompt_ids, output_ids)",
        "zip(logits, [prompt_ids[0]] * len(logits), [output_ids[0]] * len(logits))",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "shared_history",
    "Each row has a history of its own; one request must not pay for the words of another.",
    change=("row[seen] = torch", "logits[:, seen] = torch"),
)
ghost(
    "level03.sampling.apply_penalties",
    "first_row_alone",
    "Every row of the batch is penalized, not only the first.",
    change=("zip(logits, prompt_ids, output_ids)", "zip(logits[:1], prompt_ids, output_ids)"),
)
ghost(
    "level03.sampling.apply_penalties",
    "forgets_token_0",
    "Token 0 is a token like any other.",
    change=("{*prompt, *output}", "{*prompt, *output} - {0}"),
)
ghost(
    "level03.sampling.apply_penalties",
    "in_place",
    "Return new logits: the raw ones are still needed for log-probabilities.",
    change=("logits = logits.clone()", "logits = logits.view(logits.shape)"),
)
ghost(
    "level03.sampling.apply_penalties",
    "same_tensor_when_off",
    "Return a copy even when nothing is asked for: a later step that works in place would change the raw logits.",
    change=(
        "logits = logits.clone()",
        "if (repetition_penalty, presence_penalty, frequency_penalty) == (1, 0, 0):\n        return logits\n    logits = logits.clone()",
    ),
)
ghost(
    "level03.sampling.apply_penalties",
    "float32",
    "The result has the dtype of the logits.",
    change=("logits = logits.clone()", "logits = logits.float().clone()"),
)
ghost(
    "level03.sampling.apply_penalties",
    "lists_alone",
    "A history is any sequence: a tuple and a list cannot be joined with +.",
    change=("{*prompt, *output}", "set(prompt + output)"),
)
ghost(
    "level03.sampling.apply_penalties",
    "every_token",
    "Tokens that have not occurred keep their logits.",
    change=("sorted({*prompt, *output})", "range(len(row))"),
)
ghost(
    "level03.sampling.top_p",
    "slack_empties_it",
    "The most likely token is kept whatever p is: for p below the slack of 1e-12 yours keeps nothing.",
    change=("    p = max(p, 2e-12)  # else the slack alone would exclude the most likely token\n", ""),
)
ghost(
    "level03.sampling.min_p",
    "rounded_threshold",
    "The threshold is seldom a bfloat16 number: add ln m in a wider dtype, or it is rounded to a logit that it excludes.",
    change=("keepdim=True).double()", "keepdim=True)"),
)
