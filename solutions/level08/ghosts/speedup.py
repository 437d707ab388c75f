"""Known-wrong programs of level08.speedup. `ghost` is given when this is read."""

_TOKENS = "sum(alpha**i for i in range(gamma + 1))"
_SHARE = "sum(accepted) / (sum(accepted) + rejections)"
_REJECTIONS = "sum(a < n for a, n in zip(accepted, proposed))"
_SPEEDUP = "expected_tokens(alpha, gamma) / (gamma * draft_cost + verify_cost)"
_BEST = "max(range(max_gamma + 1), key=lambda gamma: (speedup(alpha, gamma, draft_cost, verify_cost(gamma)), -gamma))"
_LARGER = '{"flops": (gamma + 1) * step["flops"], "bytes": step["bytes"]}'
_IN_STEPS = "step_seconds(larger, hardware) / step_seconds(step, hardware)"


def _tokens(name, sentence, new):
    ghost("level08.speedup.expected_tokens", name, sentence, change=(_TOKENS, new))


def _alpha(name, sentence, *pairs):
    ghost("level08.speedup.estimate_alpha", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _best(name, sentence, old, new):
    ghost("level08.speedup.best_gamma", name, sentence, change=(old, new))


def _cost(name, sentence, *pairs):
    ghost("level08.speedup.verify_cost", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- expected_tokens

_tokens(
    "without_bonus",
    "Each round gives one token of the target's own as well: yours counts the accepted ones alone.",
    "sum(alpha**i for i in range(1, gamma + 1))",
)
_tokens(
    "linear",
    "A token counts only if all before it were accepted: its probability is alpha to its place, not alpha.",
    "1 + alpha * gamma",
)
_tokens(
    "division_by_zero",
    "With alpha 1 the closed form divides 0 by 0: there all gamma + 1 tokens come.",
    "(1 - alpha ** (gamma + 1)) / (1 - alpha)",
)
_tokens(
    "gamma_at_1",
    "With alpha 1 all of the draft is accepted, and the target's token comes on top: gamma + 1.",
    "gamma if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)",
)
_tokens(
    "never_ends",
    "1 / (1 - alpha) is what a draft without an end gives: a round has gamma + 1 tokens at most.",
    "1 / (1 - alpha) if alpha < 1 else gamma + 1",
)
_tokens(
    "one_term_more",
    "A round reaches gamma + 1 tokens: the powers of alpha go from 0 to gamma, yours go one further.",
    "sum(alpha**i for i in range(gamma + 2))",
)
_tokens(
    "one_term_less",
    "gamma drafted tokens and the one after them are gamma + 1 powers of alpha, 0 to gamma; yours leaves out the last.",
    "sum(alpha**i for i in range(gamma)) or 1.0",
)
_tokens(
    "all_or_one",
    "The right beginning of a draft counts, too: yours gives all of it or a single token.",
    "1 + gamma * alpha**gamma",
)
_tokens(
    "bonus_only_if_all_are_accepted",
    "After a rejection the target's own token comes as well, from the residual: yours gives one only after a full draft.",
    "sum(alpha**i for i in range(1, gamma + 1)) + alpha**gamma",
)

# ---- estimate_alpha

_alpha(
    "accepted_over_proposed",
    "Tokens behind a rejected one were not tested: yours counts them as failures, and alpha comes out too low.",
    _SHARE,
    "sum(accepted) / sum(proposed)",
)
_alpha(
    "counts_every_round",
    "A round that accepts its whole draft has no rejection: yours counts one for every round.",
    _REJECTIONS,
    "len(accepted)",
)
_alpha(
    "counts_every_draft",
    "An empty draft tests nothing, and a full one has no rejection: only rounds with fewer accepted than proposed do.",
    _REJECTIONS,
    "sum(n > 0 for n in proposed)",
)
_alpha(
    "mean_of_the_rounds",
    "Tokens are counted, not rounds: a mean of shares gives a round with one test the weight of one with eight.",
    _SHARE,
    "sum(a / (a + (a < n)) for a, n in zip(accepted, proposed) if n) / sum(n > 0 for n in proposed)",
)
_alpha(
    "rounds_without_rejection",
    "That is the share of rounds that were accepted whole: it is about alpha to the power of gamma.",
    _SHARE,
    "1 - rejections / sum(n > 0 for n in proposed)",
)
_alpha(
    "first_tokens_only",
    "Every tested token tells something: yours looks at the first of each round alone.",
    _SHARE,
    "sum(a > 0 for a in accepted) / sum(n > 0 for n in proposed)",
)
_alpha(
    "accepted_to_rejected",
    "A share is of all that were tested, accepted and rejected: yours divides by the rejections.",
    _SHARE,
    "sum(accepted) / max(rejections, 1)",
)
_alpha(
    "bonus_counted",
    "The target's own token was not drafted: it is neither accepted nor tested.",
    _SHARE,
    "(sum(accepted) + len(accepted)) / (sum(accepted) + rejections + len(accepted))",
)
_alpha(
    "one_of_each_assumed",
    "That is a prior of one accepted and one rejected token: maximum likelihood takes the counts as they are.",
    _SHARE,
    "(sum(accepted) + 1) / (sum(accepted) + rejections + 2)",
)

# ---- speedup

_best(
    "draft_is_free",
    "The draft takes time as well: gamma small steps before each pass.",
    _SPEEDUP,
    "expected_tokens(alpha, gamma) / verify_cost",
)
_best(
    "one_draft_step",
    "A draft is made token by token: it costs gamma · draft_cost, yours counts one step of it.",
    "gamma * draft_cost",
    "draft_cost",
)
_best(
    "pass_for_each_token",
    "One pass verifies all of the draft, at verify_cost: yours pays it for each of the gamma + 1 tokens.",
    "+ verify_cost)",
    "+ (gamma + 1) * verify_cost)",
)
_best(
    "draft_of_gamma_plus_1",
    "The draft has gamma tokens; the last one of a round is the target's and costs no draft step.",
    "gamma * draft_cost",
    "(gamma + 1) * draft_cost",
)
_best(
    "drafts_only_what_is_accepted",
    "All gamma tokens are drafted before any is tested: rejected ones cost as much.",
    "gamma * draft_cost",
    "(expected_tokens(alpha, gamma) - 1) * draft_cost",
)
_best(
    "draft_beside_the_pass",
    "The pass needs the draft, so it waits for it: their times add up.",
    "(gamma * draft_cost + verify_cost)",
    "max(gamma * draft_cost, verify_cost)",
)
_best(
    "pass_is_a_step",
    "The pass costs verify_cost, which is more than a step at large batches; yours takes 1.",
    "+ verify_cost)",
    "+ 1)",
)
_best(
    "draft_cost_of_a_pass",
    "draft_cost is in plain decode steps, not in passes: a dearer pass does not make the draft dearer.",
    "gamma * draft_cost + verify_cost",
    "verify_cost * (gamma * draft_cost + 1)",
)
_best(
    "upside_down",
    "Tokens over steps: yours is the time of a token, which falls as the speed rises.",
    _SPEEDUP,
    "(gamma * draft_cost + verify_cost) / expected_tokens(alpha, gamma)",
)
_best(
    "never_a_loss",
    "Drafts can lose: below 1 the speed-up says so, and yours hides it.",
    "return " + _SPEEDUP,
    "return max(1.0, " + _SPEEDUP + ")",
)
_best(
    "accepted_tokens_only",
    "All tokens of a round count, the target's own as well.",
    "return expected_tokens(alpha, gamma)",
    "return (expected_tokens(alpha, gamma) - 1)",
)
_best(
    "all_drafted_count",
    "Only accepted tokens come out: take expected_tokens, not gamma + 1.",
    "return expected_tokens(alpha, gamma)",
    "return (gamma + 1)",
)

# ---- best_gamma

_best(
    "longest",
    "Late tokens are rarely reached but always drafted: the longest draft is seldom the best.",
    _BEST,
    "max_gamma",
)
_best(
    "at_least_one",
    "0 is an answer, too: where drafts do not pay, the engine decodes plainly.",
    "max(range(max_gamma + 1),",
    "max(range(1, max_gamma + 1), default=0,",
)
_best(
    "tokens_of_a_round",
    "The largest speed-up is asked for, not the most tokens a round: those never fall as the draft grows.",
    "(speedup(alpha, gamma, draft_cost, verify_cost(gamma)), -gamma)",
    "(expected_tokens(alpha, gamma), -gamma)",
)
_best("longer_on_a_tie", "On a tie the smallest length wins; yours takes the largest.", ", -gamma))", ", gamma))")
_best(
    "without_max_gamma",
    "max_gamma itself is allowed: the lengths are 0 to max_gamma.",
    "range(max_gamma + 1)",
    "range(max(max_gamma, 1))",
)
_best(
    "pass_always_one",
    "The pass over gamma + 1 tokens costs verify_cost(gamma), not always one step.",
    ", verify_cost(gamma))",
    ")",
)
_best(
    "price_of_the_longest",
    "Each length has its own price, verify_cost(gamma): yours takes that of the longest for all.",
    "draft_cost, verify_cost(gamma))",
    "draft_cost, verify_cost(max_gamma))",
)
_best(
    "price_of_one_more",
    "verify_cost is called with the draft's length, gamma; that the pass has one token more it knows itself.",
    "draft_cost, verify_cost(gamma))",
    "draft_cost, verify_cost(gamma + 1))",
)
_best(
    "no_draft_is_1",
    "Without a draft the price is verify_cost(0), which need not be 1.",
    "draft_cost, verify_cost(gamma))",
    "draft_cost, verify_cost(gamma) if gamma else 1.0)",
)
_best(
    "stops_at_the_first_fall",
    "The speed-up may fall and rise again, where the price grows in steps: compare all lengths.",
    _BEST,
    """next(
        (
            g
            for g in range(max_gamma)
            if speedup(alpha, g + 1, draft_cost, verify_cost(g + 1)) <= speedup(alpha, g, draft_cost, verify_cost(g))
        ),
        max_gamma,
    )""",
)
_best(
    "last_that_pays",
    "The best length is asked for, not the longest that is no loss.",
    _BEST,
    "max(g for g in range(max_gamma + 1) if g == 0 or speedup(alpha, g, draft_cost, verify_cost(g)) > 1)",
)
_best(
    "worst",
    "The largest speed-up is the best one: yours takes the smallest.",
    _BEST,
    "min(range(max_gamma + 1), key=lambda gamma: speedup(alpha, gamma, draft_cost, verify_cost(gamma)))",
)
_best(
    "the_speedup_itself",
    "The length is asked for, not its speed-up.",
    _BEST,
    "max(speedup(alpha, gamma, draft_cost, verify_cost(gamma)) for gamma in range(max_gamma + 1))",
)
_best(
    "marginal_token_pays",
    "Whether one more token pays is no matter of alpha^gamma against draft_cost: it must raise tokens per second.",
    _BEST,
    "sum(alpha**g > draft_cost for g in range(1, max_gamma + 1))",
)

# ---- verify_cost

_cost(
    "always_one",
    "More tokens are free only while memory is the limit: at a large batch their arithmetic takes longer.",
    "return " + _IN_STEPS,
    "return 1.0",
)
_cost(
    "longer_context_for_the_draft",
    "context_len is what a token attends to, in both passes: here the bytes are the plain step's, without the draft's.",
    "decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)",
    "decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)\n"
    "    more = decode_step_cost(config, batch, context_len + gamma, bytes_per_param, bytes_per_element)",
    '"bytes": step["bytes"]',
    '"bytes": more["bytes"]',
)
_cost(
    "always_gamma_plus_one",
    "The weights are read once for all tokens of a pass: where memory is the limit, more tokens are free.",
    "return " + _IN_STEPS,
    "return gamma + 1.0",
)
_cost(
    "batch_of_one",
    "The pass has gamma + 1 tokens of each sequence: the batch decides how busy the arithmetic is already.",
    "decode_step_cost(config, batch,",
    "decode_step_cost(config, 1,",
)
_cost(
    "cache_for_each_token",
    "A sequence's cache is read once for all of its tokens: only the arithmetic grows. Yours is a larger batch.",
    "{" + _LARGER[1:],
    "decode_step_cost(config, batch * (gamma + 1), context_len, bytes_per_param, bytes_per_element)",
)
_cost(
    "cache_left_out",
    "Both passes read the caches as well: at a long context they take longest, and extra tokens are free.",
    _IN_STEPS,
    'step_seconds(larger | {"bytes": step["weight_bytes"]}, hardware)'
    ' / step_seconds(step | {"bytes": step["weight_bytes"]}, hardware)',
)
_cost(
    "gamma_tokens",
    "The pass takes the last token and the draft: gamma + 1 tokens.",
    '(gamma + 1) * step["flops"]',
    'max(gamma, 1) * step["flops"]',
)
_cost(
    "in_seconds",
    "The cost is in plain decode steps: divide by the seconds of one.",
    _IN_STEPS,
    "step_seconds(larger, hardware)",
)
_cost(
    "over_the_bytes",
    "A plain step is not always bound by memory: divide by how long it takes, not by its bytes' time.",
    _IN_STEPS,
    'step_seconds(larger, hardware) / (step["bytes"] / hardware.bandwidth)',
)
_cost(
    "one_step_of_batch_1",
    "The unit is a plain step of the same batch, not of one sequence.",
    _IN_STEPS,
    "step_seconds(larger, hardware)"
    " / step_seconds(decode_step_cost(config, 1, context_len, bytes_per_param, bytes_per_element), hardware)",
)
_cost(
    "times_add_up",
    "Arithmetic and memory overlap: a pass lasts as long as the slower of the two, not as both.",
    _IN_STEPS,
    'sum(larger[k] / r for k, r in (("flops", hardware.peak_flops), ("bytes", hardware.bandwidth)))'
    ' / sum(step[k] / r for k, r in (("flops", hardware.peak_flops), ("bytes", hardware.bandwidth)))',
)
_cost(
    "flops_only",
    "Where memory is the limit, more arithmetic costs nothing: a pass lasts as long as the slower of the two.",
    _IN_STEPS,
    'larger["flops"] / step["flops"]'
    + ' * max(1.0, step["flops"] / hardware.peak_flops * hardware.bandwidth / step["bytes"])',
)
_cost(
    "longer_contexts",
    "Each token attends to context_len tokens, as in a plain step; yours lets the context grow with the draft.",
    _LARGER,
    '{"flops": (gamma + 1) * decode_step_cost(config, batch, context_len + gamma)["flops"], "bytes": step["bytes"]}',
)
_cost(
    "scores_of_one_token",
    "Each of the gamma + 1 tokens attends to the whole context: its scores are arithmetic as well.",
    '(gamma + 1) * step["flops"]',
    'step["flops"] + gamma * decode_step_cost(config, batch, 1)["flops"]',
)
_cost(
    "widths_forgotten",
    "How many bytes a weight and a cached number have is given: pass both on to the step's cost.",
    ", bytes_per_param, bytes_per_element)",
    ")",
)
_cost(
    "widths_exchanged",
    "bytes_per_param is of the weights, bytes_per_element of the cache: yours has them the wrong way round.",
    ", bytes_per_param, bytes_per_element)",
    ", bytes_per_element, bytes_per_param)",
)
