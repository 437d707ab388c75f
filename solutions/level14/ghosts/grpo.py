"""Known-wrong programs of level14.grpo. `ghost` is given when this is read."""

_CENTRED = "(exact - exact.nanmean(1, keepdim=True)).masked_fill(missing, 0)"
_OTHERS = "((~missing).sum(1, keepdim=True) - 1).clamp(min=1)"
_STD = "(centred.square().sum(1, keepdim=True) / others).sqrt()"
_DIVIDED = "(centred / (std + eps)).to(rewards.dtype)"
_RATIO = "(logp - logp_old.detach()).clamp(-LIMIT, LIMIT).exp()"
_CLIPPED = "ratio.clamp(1 - eps_low, 1 + eps_high)"
_SMALLER = "torch.minimum(ratio * advantages.detach(), clipped * advantages.detach())"
_D = "d = (logp_ref.detach() - logp).clamp(-LIMIT, LIMIT)"
_K3 = "return d.exp() - d - 1"
_WEIGHT = "(logp_trainer - logp_engine).exp().clamp(max=cap).detach()"
_SUMS = "values.masked_fill(~mask, 0).sum(1), mask.sum(1)"
_ROWS = "(sums / counts).mean()"
_TOTAL = 'sums.sum() / (counts.sum() if how == "token" else len(mask) * max_tokens)'
_PADDING = "logp, logp_old = (each.masked_fill(~mask, 0) for each in (logp, logp_old))"
_GAIN = "clipped_objective(logp, logp_old, advantages.unsqueeze(1), eps_low, eps_high)"
_WEIGHTED = "gain = gain * weight.detach()"
_KL = "gain = gain - beta * kl_k3(logp, logp_ref.masked_fill(~mask, 0))"
_LOSS = "return -aggregate(gain, mask, how, max_tokens)"


def _grpo(name, sentence, *pairs):
    ghost("level14.grpo.grpo_loss", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- the loss

_grpo(
    "sign",
    "A loss is lowered: it is minus what is to be raised.",
    _LOSS,
    "return aggregate(gain, mask, how, max_tokens)",
)
_grpo(
    "kl_rewarded",
    "The KL is a penalty: yours pays the model for leaving its reference.",
    _KL,
    "gain = gain + beta * kl_k3(logp, logp_ref.masked_fill(~mask, 0))",
)
_grpo(
    "kl_weighted",
    "The weight is of the objective, not of the KL: the penalty comes behind it.",
    "if weight is not None:\n        gain = gain * weight.detach()\n    if beta:\n        " + _KL,
    "if beta:\n        " + _KL + "\n    if weight is not None:\n        gain = gain * weight.detach()",
)
_grpo(
    "kl_without_beta",
    "The penalty is beta times the KL.",
    _KL,
    "gain = gain - kl_k3(logp, logp_ref.masked_fill(~mask, 0))",
)
_grpo(
    "kl_whenever_there_is_a_reference",
    "beta says how much a distance from the reference costs, 0 by default; that a reference is given costs nothing.",
    "    if beta:",
    "    if logp_ref is not None:",
    _KL,
    "gain = gain - (beta or 0.04) * kl_k3(logp, logp_ref.masked_fill(~mask, 0))",
)
_grpo(
    "padding_multiplied_away",
    "0 · NaN is NaN, in a gradient as well: fill the padding with 0 before the arithmetic begins.",
    _PADDING,
    "logp, logp_old = logp * mask, logp_old * mask",
)
_grpo(
    "padding_filled_afterwards",
    "The value of NaN at the padding can be filled with 0 at the end, its gradient cannot: fill it before.",
    _PADDING,
    "pass",
)
_grpo(
    "old_is_now",
    "The old log-probabilities are those with which the tokens were written: with today's the ratio is always 1.",
    _GAIN,
    "clipped_objective(logp, logp.detach(), advantages.unsqueeze(1), eps_low, eps_high)",
)
_grpo(
    "advantage_for_a_column",
    "An advantage belongs to an answer, a row, and to all of its tokens; yours gives it to a position.",
    _GAIN,
    "clipped_objective(logp, logp_old, advantages.unsqueeze(int(logp.shape[0] != logp.shape[1])), eps_low, eps_high)",
)
_grpo(
    "ends_exchanged",
    "eps_low is the room below ratio 1, eps_high that above.",
    "advantages.unsqueeze(1), eps_low, eps_high)",
    "advantages.unsqueeze(1), eps_high, eps_low)",
)
_grpo(
    "ends_not_given_on",
    "eps_low and eps_high are arguments: give them on to the objective.",
    "advantages.unsqueeze(1), eps_low, eps_high)",
    "advantages.unsqueeze(1))",
)
_grpo(
    "weight_learns",
    "The weight is a constant: yours lets a gradient through.",
    _WEIGHTED,
    "gain = gain * weight",
)
_grpo(
    "weight_ignored",
    "The weight multiplies the objective of its token.",
    _WEIGHTED,
    "pass",
)
_grpo(
    "always_tokens",
    "how and max_tokens choose the divisor: give them on.",
    _LOSS,
    "return -aggregate(gain, mask)",
)

# ---- advantages

_grpo(
    "baseline_of_the_batch",
    "An answer is compared with the others to the same prompt: mean and deviation are of its own row.",
    _CENTRED,
    "(exact - exact.nanmean()).masked_fill(missing, 0)",
)
_grpo(
    "deviation_of_the_batch",
    "The standard deviation is that of the answer's own row, as the mean is.",
    _STD,
    "(centred.square().sum() / ((~missing).sum() - 1).clamp(min=1)).sqrt()",
)
_grpo(
    "no_baseline",
    "Without the group's mean every rewarded answer is pushed up, the worse half as well.",
    _CENTRED,
    "exact.masked_fill(missing, 0)",
)
_grpo(
    "population_deviation",
    "The deviation is that of a sample: divide by one less than the number of rewards.",
    _OTHERS,
    "(~missing).sum(1, keepdim=True).clamp(min=1)",
)
_grpo(
    "missing_counts_as_an_answer",
    "The deviation is over the rewards that are there: an answer without one is not counted.",
    _OTHERS,
    "rewards.shape[1] - 1",
)
_grpo(
    "missing_is_0",
    "A missing reward is not a reward of 0: it is left out of the mean, and its answer gets advantage 0.",
    _CENTRED,
    "(exact.nan_to_num() - exact.nan_to_num().mean(1, keepdim=True))",
    "missing = rewards.isnan()",
    "missing = rewards.isnan() & False",
)
_grpo(
    "missing_is_the_worst",
    "An answer that was not judged gets advantage 0; yours gets that of a reward of 0.",
    _CENTRED,
    "exact.nan_to_num() - exact.nanmean(1, keepdim=True).nan_to_num()",
    "(centred.square().sum(1",
    "(centred.masked_fill(missing, 0).square().sum(1",
)
_grpo(
    "missing_spreads",
    "One NaN makes the mean NaN, and with it the whole group: leave missing rewards out.",
    _CENTRED,
    "exact - exact.mean(1, keepdim=True)",
)
_grpo(
    "no_eps",
    "Where all rewards are equal you divide 0 by 0: NaN, and the run is dead.",
    "(centred / (std + eps))",
    "(centred / std)",
)
_grpo(
    "eps_in_the_root",
    "eps is added to the standard deviation, not to the variance.",
    "/ others).sqrt()",
    "/ others + eps).sqrt()",
    "(centred / (std + eps))",
    "(centred / std)",
)
_grpo(
    "variance",
    "Divide by the standard deviation, the root of the variance.",
    "/ others).sqrt()",
    "/ others)",
)
_grpo(
    "float32_mean",
    "In float32 equal rewards are not equal to their rounded mean, and divided by eps the difference is a signal.",
    "exact = rewards.double()",
    "exact = rewards",
)
_grpo(
    "always_divided",
    "normalize_std=False leaves out the division.",
    "if not normalize_std:",
    "if False:",
)

# ---- the clip

_grpo(
    "no_clip",
    "Without the clip one step may move the model arbitrarily far.",
    _SMALLER,
    "ratio * advantages.detach()",
)
_grpo(
    "clip_alone",
    "The smaller of the two: clipped alone, a bad answer that became likelier costs no more than 1 + eps_high.",
    _SMALLER,
    "clipped * advantages.detach()",
)
_grpo(
    "larger_one",
    "The smaller of clipped and unclipped: what is raised must not look better than it is.",
    "torch.minimum(",
    "torch.maximum(",
)
_grpo(
    "smaller_ratio",
    "The smaller of the two products: with a negative advantage that is not the one with the smaller ratio.",
    _SMALLER,
    "torch.minimum(ratio, clipped) * advantages.detach()",
)
_grpo(
    "one_eps",
    "Above there is eps_high, below eps_low: two bounds.",
    _CLIPPED,
    "ratio.clamp(1 - eps_low, 1 + eps_low)",
)
_grpo(
    "inverted_ratio",
    "ratio = exp(logp - logp_old): how much likelier the token is now. Yours is the inverse.",
    _RATIO,
    "(logp_old.detach() - logp).clamp(-LIMIT, LIMIT).exp()",
)
_grpo(
    "difference_as_ratio",
    "The difference of log-probabilities is the logarithm of the ratio: exponentiate it.",
    _RATIO,
    "1 + (logp - logp_old.detach()).clamp(-LIMIT, LIMIT)",
)
_grpo(
    "old_learns",
    "Only logp carries a gradient: where old and new are one tensor, yours cancels.",
    _RATIO,
    "(logp - logp_old).clamp(-LIMIT, LIMIT).exp()",
)
_grpo(
    "ratio_detached",
    "The gradient flows through the ratio: detached, nothing is learned.",
    _RATIO,
    "(logp - logp_old).detach().clamp(-LIMIT, LIMIT).exp() + 0 * logp",
)
_grpo(
    "ratio_not_cut",
    "Cut the difference to ±20 before it is exponentiated: exp(500) is inf.",
    _RATIO,
    "(logp - logp_old.detach()).exp()",
)

# ---- the distance from the reference

_grpo(
    "kl_other_way_round",
    "The model wrote the tokens: d = logp_ref - logp. Yours estimates with the two exchanged.",
    _D,
    "d = (logp - logp_ref.detach()).clamp(-LIMIT, LIMIT)",
)
_grpo(
    "log_ratio",
    "logp - logp_ref is right on the average, but below 0 for many tokens: take exp(d) - d - 1.",
    _K3,
    "return -d",
)
_grpo(
    "half_a_square",
    "d² / 2 is near exp(d) - d - 1 for small d only: its mean is not the divergence.",
    _K3,
    "return d.square() / 2",
)
_grpo(
    "one_forgotten",
    "exp(d) - d - 1 is 0 where the two agree; yours is 1.",
    _K3,
    "return d.exp() - d",
)
_grpo(
    "kl_not_cut",
    "Cut d to ±20 before it is exponentiated: one token that the model rules out gives inf.",
    _D,
    "d = logp_ref.detach() - logp",
)
_grpo(
    "kl_cut_at_10",
    "d is cut to ±20: yours cuts earlier.",
    _D,
    "d = (logp_ref.detach() - logp).clamp(-10, 10)",
)
_grpo(
    "kl_without_gradient",
    "The penalty has to be felt: its gradient by logp is 1 - exp(d).",
    "logp_ref.detach() - logp)",
    "logp_ref.detach() - logp.detach())",
)
_grpo(
    "advantages_learn",
    "Advantages are constants: the gradient flows through logp alone, and yours gives them one.",
    "return torch.minimum(ratio * advantages.detach(), clipped * advantages.detach())",
    "return torch.minimum(ratio * advantages, clipped * advantages)",
)
_grpo(
    "reference_learns",
    "The reference is a constant: yours gets a gradient.",
    "logp_ref.detach()",
    "logp_ref",
)

# ---- what the engine wrote

_grpo(
    "weight_inverted",
    "The trainer's probability over the engine's, which drew the token; yours is the inverse.",
    _WEIGHT,
    "(logp_engine - logp_trainer).exp().clamp(max=cap).detach()",
)
_grpo(
    "weight_not_capped",
    "No weight is above the cap: one odd token would outweigh the batch.",
    _WEIGHT,
    "(logp_trainer - logp_engine).exp().detach()",
)
_grpo(
    "weight_capped_below_too",
    "The cap is from above only: a token that the trainer finds unlikely keeps its small weight.",
    "clamp(max=cap)",
    "clamp(1 / cap, cap)",
)
_grpo(
    "difference_capped",
    "The weight is capped, not its logarithm.",
    _WEIGHT,
    "(logp_trainer - logp_engine).clamp(max=cap).exp().detach()",
)
_grpo(
    "masked_and_not_truncated",
    "A weight above the cap is cut down to it; yours drops the token.",
    _WEIGHT,
    "(logp_trainer - logp_engine).exp().masked_fill((logp_trainer - logp_engine).exp() > cap, 0).detach()",
)
_grpo(
    "weight_carries_a_gradient",
    "The weight is a constant: detach it.",
    ".clamp(max=cap).detach()",
    ".clamp(max=cap)",
)

# ---- one number of many

_grpo(
    "tokens_and_sequences_exchanged",
    '"token" is the mean of all tokens, "sequence" the mean of the rows\' means; yours has them exchanged.',
    'if how == "sequence":',
    'if how == "token":',
    'counts.sum() if how == "token"',
    'counts.sum() if how == "sequence"',
)
_grpo(
    "rows_added",
    'With "sequence" the rows\' means are averaged, not added up.',
    _ROWS,
    "(sums / counts).sum()",
)
_grpo(
    "all_columns_count",
    "Padding is no token: only where the mask is True there is something to count.",
    _SUMS,
    "values.masked_fill(~mask, 0).sum(1), torch.full_like(mask.sum(1), mask.shape[1])",
)
_grpo(
    "padding_summed",
    "What stands where the mask is False does not matter; yours adds it up.",
    _SUMS,
    "values.sum(1), mask.sum(1)",
)
_grpo(
    "values_times_mask",
    "0 · NaN is NaN: fill what is masked with 0 instead of multiplying.",
    _SUMS,
    "(values * mask).sum(1), mask.sum(1)",
)
_grpo(
    "constant_for_one_row",
    'With "constant" the divisor is B · max_tokens, of all rows.',
    "len(mask) * max_tokens)",
    "max_tokens)",
)
_grpo(
    "longest_as_constant",
    "The constant is max_tokens, not the width of this batch: it must not depend on how long the answers are.",
    "len(mask) * max_tokens)",
    "mask.numel())",
)
