"""Known-wrong programs of level15.quality. `ghost` is given when this is read."""


def _cosine(name, sentence, *change, **how):
    ghost("level15.quality.attention_output_cosine", name, sentence, change=change, **how)


def _kept(name, sentence, *change, **how):
    ghost("level15.quality.retention", name, sentence, change=change, **how)


VISIBLE = "all_visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)"
OUTPUTS = "came, own = attention(q, k, v, all_visible), attention(q, own_k, own_v, all_visible)"
MEAN = "return cosine_similarity(came, own, dim=-1).mean().item()"
_cosine(
    "cosine_of_the_caches",
    "Similar keys and values are not similar attention: compare what a query reads out of them.",
    (OUTPUTS, "came, own = torch.cat([k, v]), torch.cat([own_k, own_v])"),
)
_cosine(
    "cosine_of_the_weights",
    "Weights without values miss half of the error: compare attention's outputs.",
    (
        OUTPUTS,
        "group = q.shape[1] // k.shape[1]\n"
        "    came, own = ((q @ x.repeat_interleave(group, 1).mT * q.shape[-1] ** -0.5).softmax(-1) for x in (k, own_k))",
    ),
)
_cosine(
    "one_long_vector",
    "A cosine for each query, then the mean: of one long vector, large outputs decide.",
    (MEAN, "return cosine_similarity(came.flatten(), own.flatten(), dim=0).item()"),
)
_cosine(
    "heads_joined",
    "A cosine for each head: joined, a head with large outputs hides the others.",
    (
        MEAN,
        "return cosine_similarity(came.transpose(1, 2).flatten(2), own.transpose(1, 2).flatten(2), dim=-1).mean().item()",
    ),
)
_cosine(
    "over_the_queries",
    "A cosine goes over the features of one output: yours goes over the queries.",
    (MEAN, "return cosine_similarity(came, own, dim=-2).mean().item()"),
)
_cosine(
    "means_compared",
    "Errors of single queries cancel in a mean: take the cosine of each, and then the mean.",
    (MEAN, "return cosine_similarity(came.mean(2), own.mean(2), dim=-1).mean().item()"),
)
_cosine(
    "worst_query",
    "The mean over all queries is asked for: yours is the smallest cosine.",
    (MEAN, "return cosine_similarity(came, own, dim=-1).min().item()"),
)
_cosine(
    "causal_by_name",
    "The queries stand behind the prompt, and each sees all of it: a mask that is all True, not a causal one.",
    (OUTPUTS, 'came, own = attention(q, k, v, "causal"), attention(q, own_k, own_v, "causal")'),
)
_cosine(
    "own_values_in_both",
    "What came are keys and values: yours reads the receiver's own values in both.",
    (OUTPUTS, "came, own = attention(q, k, own_v, all_visible), attention(q, own_k, own_v, all_visible)"),
)
_cosine(
    "own_keys_in_both",
    "What came are keys and values: yours looks the values up by the receiver's own keys in both.",
    (OUTPUTS, "came, own = attention(q, own_k, v, all_visible), attention(q, own_k, own_v, all_visible)"),
)
_cosine(
    "causal",
    "The queries stand behind the prompt: each sees all of it, also where there are as many as tokens.",
    (VISIBLE, "all_visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()"),
)
_cosine(
    "seen_from_the_end",
    "The queries stand behind the prompt: the last tokens are not theirs, and hidden from none.",
    (
        VISIBLE,
        "all_visible = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(max(k.shape[2] - q.shape[2], 0))",
    ),
)
_cosine(
    "absolute",
    "An output that points the other way is as wrong as can be: keep the cosine's sign.",
    (MEAN, "return cosine_similarity(came, own, dim=-1).abs().mean().item()"),
)
_cosine(
    "not_normalized",
    "A cosine has no scale: divide by both lengths.",
    (MEAN, "return (came * own).sum(-1).mean().item()"),
)
_cosine(
    "one_distance",
    "1 is alike, not 0: return the cosine, not the distance.",
    (MEAN, "return 1 - cosine_similarity(came, own, dim=-1).mean().item()"),
)

# ---- retention

KEPT = "return (score - floor) / (native - floor)"
_kept(
    "no_floor",
    "Without the context a model already scores something: subtract the floor from both.",
    (KEPT, "return score / native"),
)
_kept(
    "difference",
    "Retention is a share of what the context is worth, not a loss of points.",
    (KEPT, "return score - native"),
)
_kept(
    "floor_in_the_score_only",
    "The floor is part of the native score, too: subtract it above and below.",
    (KEPT, "return (score - floor) / native"),
)
_kept(
    "clipped",
    "Below 0 the cache did harm, and above 1 it helped more than the own one: do not clip.",
    (KEPT, "return min(1.0, max(0.0, (score - floor) / (native - floor)))"),
)
_kept(
    "not_below_zero",
    "Negative retention is news, namely that the cache did harm: yours stops at 0.",
    (KEPT, "return max(0.0, (score - floor) / (native - floor))"),
)
_kept(
    "share_lost",
    "What is still there is asked for: yours is what is lost.",
    (KEPT, "return (native - score) / (native - floor)"),
)
_kept(
    "size_of_the_worth",
    "Where the context misleads, native is below the floor: keep the sign of both differences.",
    (KEPT, "return (score - floor) / abs(native - floor)"),
)
LOSS = "return retention(-nll, -native, -no_context)"
_kept(
    "ratio_of_losses",
    "A ratio of losses forgets the floor: 2.0 / 2.2 looks like 91 % although a fifth of the gain is gone.",
    (LOSS, "return retention(1 / nll, 1 / native, 0.0) + 0 * retention(nll, native, no_context)"),
)
_kept(
    "floor_and_native_exchanged",
    "1 means native, and 0 means without the context: yours has them the wrong way round.",
    (LOSS, "return retention(nll, no_context, native)"),
)
_kept(
    "perplexities",
    "Nats are compared as they are: their exponentials weigh the same step differently.",
    (LOSS, "from math import exp\n\n    return retention(-exp(nll), -exp(native), -exp(no_context))"),
)
CONTROL = "return matched - mismatched >= margin"
_kept(
    "matched_alone",
    "Somebody else's cache may help as much: ask by how much the right one is better.",
    (CONTROL, "return matched >= margin"),
)
_kept(
    "any_gain",
    "Better by a hair is noise: the difference must reach the margin.",
    (CONTROL, "return matched > mismatched"),
)
_kept(
    "either_way",
    "If the wrong cache is the better one, nothing was transferred: keep the sign of the difference.",
    (CONTROL, "return abs(matched - mismatched) >= margin"),
)
_kept(
    "more_than_the_margin",
    "At least by the margin: a difference that equals it is enough.",
    (CONTROL, "return matched - mismatched > margin"),
)
_kept(
    "mismatched_near_zero",
    "Only the difference counts: a stranger's cache may do harm or help a little.",
    (CONTROL, "return matched >= margin and abs(mismatched) < margin"),
)
_kept(
    "ratio_to_the_control",
    "By a difference, not a ratio: the mismatched retention is near 0, and may be negative.",
    (CONTROL, "return matched >= mismatched * (1 + margin)"),
)
WORTH = "worth_it = cosine >= min_cosine and transfers and move_seconds < prefill_seconds"
_kept(
    "faster_is_enough",
    "A fast transfer of a cache that reads wrongly is no gain: all three must hold.",
    (WORTH, "worth_it = move_seconds < prefill_seconds"),
)
_kept(
    "quality_is_enough",
    "If moving takes as long as the prefill, recompute: the receiver's own cache is exact.",
    (WORTH, "worth_it = cosine >= min_cosine and transfers"),
)
_kept(
    "control_ignored",
    "A high cosine and a fast link do not help a pair that failed the control.",
    (WORTH, "worth_it = cosine >= min_cosine and move_seconds < prefill_seconds"),
)
_kept(
    "cosine_ignored",
    "Below min_cosine recompute, whatever the control and the clock say.",
    (WORTH, "worth_it = transfers and move_seconds < prefill_seconds"),
)
_kept(
    "as_long_is_fine",
    "As long as the prefill is not shorter: recompute, since that is exact.",
    (WORTH, "worth_it = cosine >= min_cosine and transfers and move_seconds <= prefill_seconds"),
)
_kept(
    "above_the_minimum",
    "Below min_cosine recompute: the minimum itself is enough.",
    (WORTH, "worth_it = cosine > min_cosine and transfers and move_seconds < prefill_seconds"),
)
_kept(
    "one_reason_is_not_enough",
    "Each of the three is a reason to recompute: yours asks for one that speaks for the transfer.",
    (WORTH, "worth_it = cosine >= min_cosine and transfers or move_seconds < prefill_seconds"),
)
_kept(
    "words_exchanged",
    "Worth it means transfer: yours says recompute.",
    ('return "transfer" if worth_it else "recompute"', 'return "recompute" if worth_it else "transfer"'),
)
