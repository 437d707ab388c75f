"""Known-wrong programs of level07.online. `ghost` is given when this is read."""

import math

import numpy as np

# ---- online_logsumexp

_PART = "part = scores[start : start + block]"
_NEW = "new = max(largest, part.max())"
_SUM = "total = total * np.exp(largest - new) + np.exp(part - new).sum()"
_END = "return float(largest), float(total)"


def _sums(name, sentence, *change):
    ghost("level07.online.online_logsumexp", name, sentence, change=[*zip(change[::2], change[1::2])])


_sums(
    "no_rescale",
    "When the maximum moves, the old sum must be multiplied by exp(old - new): it was counted in units of the old one.",
    "total * np.exp(largest - new)",
    "total",
)
_sums(
    "rescale_upside_down",
    "The factor is at most 1: exp(old maximum minus new), not new minus old.",
    "total * np.exp(largest - new)",
    "(total and total * np.exp(new - largest))",
)
_sums(
    "rescales_the_block_too",
    "What the block adds is in units of the new maximum already: only the old sum is multiplied.",
    _SUM,
    "total = (total + np.exp(part - new).sum()) * np.exp(largest - new) if total else np.exp(part - new).sum()",
)
_sums(
    "block_max_only",
    "The maximum never goes down: a smaller block leaves it where it was.",
    _NEW,
    "new = part.max()",
)
_sums(
    "units_of_the_block",
    "What the block adds counts in units of the running maximum, not of the block's own.",
    "np.exp(part - new).sum()",
    "(np.exp(part - part.max()).sum() if part.max() > -np.inf else 0.0)",
)
_sums(
    "nan_on_masked_start",
    "-inf minus -inf is NaN: as long as nothing was seen there is nothing to rescale.",
    "if new > -np.inf:",
    "if new == new:",
)
_sums(
    "begins_with_the_first_score",
    "The first score may be masked: with -inf as the maximum and 1 as its sum a masked score is counted.",
    "largest, total = -np.inf, 0.0",
    "largest, total = scores[0], 1.0",
    "for start in range(0, len(scores), block):",
    "for start in range(1, len(scores), block):",
)
_sums(
    "begins_at_0",
    "A maximum that begins at 0 is above every negative score; with all scores at -1000 the sum is 0.",
    "largest, total = -np.inf, 0.0",
    "largest, total = 0.0, 0.0",
)
_sums(
    "finite_sentinel",
    "-10,000 is no minus infinity: real scores can lie below it, and then it is returned as the largest.",
    "largest, total = -np.inf, 0.0",
    "largest, total = -1e4, 0.0",
)
_sums(
    "least_number",
    "The least float is a score like others: when all are masked the maximum is -inf.",
    "largest, total = -np.inf, 0.0",
    "largest, total = -float(np.finfo(np.float64).max), 0.0",
)
_sums(
    "mask_becomes_a_score",
    "-inf replaced by -10,000 is a score, and has a weight where the real ones are lower.",
    _PART,
    "part = np.maximum(scores[start : start + block], -1e4)",
)
_sums(
    "drops_the_ragged_block",
    "The last block may be smaller; it holds the newest keys.",
    "range(0, len(scores), block)",
    "range(0, len(scores) - block + 1, block)",
)
_sums(
    "pads_with_zeros",
    "A block filled up with zeros has scores that nobody gave: exp(0 - m) is not 0.",
    _PART,
    "part = np.pad(scores[start : start + block], (0, max(0, start + block - len(scores))))",
)
_sums(
    "blocks_overlap",
    "The end of a slice is not in it: with one more, the score between two blocks counts twice.",
    _PART,
    "part = scores[start : start + block + 1]",
)
_sums(
    "a_masked_score_drops_its_block",
    "Only a block that is masked whole adds nothing: beside a masked score others count.",
    "if new > -np.inf:",
    "if part.min() > -np.inf:",
)
_sums(
    "stops_at_a_masked_block",
    "Behind a masked block others may come: padding stands on the left as well.",
    _NEW,
    "if part.max() == -np.inf:\n            break\n        new = max(largest, part.max())",
)
_sums(
    "all_masked_is_0",
    "Without a score there is no maximum: it stays -inf. 0 would be a real score.",
    _END,
    "return (float(largest) if total else 0.0), float(total)",
)
_sums(
    "log_of_the_sum",
    "The sum itself is asked for: its log, plus the maximum, is what a caller may make of it.",
    _END,
    "return float(largest), float(np.log(total)) if total else -np.inf",
)
_sums(
    "sum_without_units",
    "The sum is of exp(score - largest), at least 1; multiplied by exp(largest) it is infinite at scores of 1000.",
    _END,
    "return float(largest), float(total * np.exp(largest)) if total else 0.0",
)
_sums(
    "counts_in_float32",
    "The scores are float64: in float32 a sum of thousands is wrong in the seventh digit.",
    _PART,
    "part = scores[start : start + block].astype(np.float32)",
)
_sums(
    "base_2",
    "Natural exponentials: 2^x is right only where the scores were multiplied by log2(e) before.",
    _SUM,
    "total = total * np.exp2(largest - new) + np.exp2(part - new).sum()",
)


def _all_at_once(scores, block):
    if block < 1:
        raise ValueError("block")
    largest = scores.max()
    return float(largest), float(np.exp(scores - largest).sum()) if largest > -math.inf else 0.0


def _two_passes(scores, block):
    if block < 1:
        raise ValueError("block")
    blocks = [scores[i : i + block] for i in range(0, len(scores), block)]
    largest = max(part.max() for part in blocks)
    return float(largest), float(sum(np.exp(part - largest).sum() for part in blocks)) if largest > -math.inf else 0.0


def _no_maximum(scores, block):
    if block < 1:
        raise ValueError("block")
    largest, total = -math.inf, 0.0
    for i in range(0, len(scores), block):
        part = scores[i : i + block]
        largest, total = max(largest, part.max()), total + np.exp(part).sum()
    return float(largest), float(total / np.exp(largest)) if largest > -math.inf else 0.0


ghost(
    "level07.online.online_logsumexp",
    "all_at_once",
    "Right, with all scores at once: here they come `block` at a time, because they do not fit on the chip.",
    program=_all_at_once,
)
ghost(
    "level07.online.online_logsumexp",
    "two_passes",
    "Right, in two passes: one for the maximum, one for the sum. By the second one the first scores are gone.",
    program=_two_passes,
)
ghost(
    "level07.online.online_logsumexp",
    "no_maximum",
    "exp(1000) is infinite, and exp(-1000) is 0: subtract the maximum before, not after.",
    program=_no_maximum,
)

# ---- online_update

_MAX = "new = torch.maximum(m, scores.amax(-1))"
_BASE = "base = new.masked_fill(new == -torch.inf, 0)"
_SHRINK = "torch.exp(m - base)"
_WEIGHTS = "torch.exp(scores - base[..., None])"
_DENOMINATOR = "denominator * shrink + weights.sum(-1)"
_ACC = "acc * shrink[..., None] + weights @ values"


def _update(name, sentence, *change, **more):
    ghost("level07.online.online_update", name, sentence, change=[*zip(change[::2], change[1::2])], **more)


_update(
    "acc_not_rescaled",
    "The sum and the accumulator are in units of the same maximum: rescale both.",
    "acc * shrink[..., None]",
    "acc",
)
_update(
    "sum_not_rescaled",
    "The denominator too is in units of the old maximum: rescale it with the accumulator.",
    "denominator * shrink",
    "denominator",
)
_update(
    "no_rescale",
    "When the maximum moves, all that was summed before must be multiplied by exp(old - new).",
    _SHRINK,
    "torch.ones_like(m)",
)
_update(
    "rescale_upside_down",
    "The factor is at most 1: exp(old maximum minus new).",
    _SHRINK,
    "torch.where(m == -torch.inf, 0, torch.exp(base - m))",
)
_update(
    "block_max_only",
    "The maximum never goes down: a block of smaller scores leaves it where it was.",
    _MAX,
    "new = scores.amax(-1)",
)
_update(
    "one_maximum_for_all_rows",
    "Each row has a maximum of its own: with one for all, rows of smaller scores come to 0.",
    _MAX,
    "new = torch.maximum(m, scores.amax().expand_as(m))",
)
_update(
    "one_maximum_for_a_head",
    "Each query has a maximum of its own, not each head.",
    _MAX,
    "new = torch.maximum(m, scores.amax((-1, -2))[..., None].expand_as(m))",
)
_update(
    "weights_of_the_block_alone",
    "The weights of the block count in units of the running maximum: with the block's own they are too large.",
    _WEIGHTS,
    "torch.exp(scores - scores.amax(-1, keepdim=True).nan_to_num(neginf=0))",
)
_update(
    "fully_masked_block_nan",
    "A row that has seen no key has -inf as its maximum, and -inf minus -inf is NaN: take 0 as the reference there.",
    _BASE,
    "base = new",
)
_update(
    "guard_for_the_whole_block",
    "A row without keys may stand beside rows that have some: guard each row, not only a block that is masked whole.",
    _MAX,
    "if bool((scores == -torch.inf).all()):\n        return m, denominator, acc\n    new = torch.maximum(m, scores.amax(-1))",
    _BASE,
    "base = new",
)
_update(
    "one_empty_row_skips_the_block",
    "One row that sees nothing in this block does not spare the others: their keys are in it.",
    _MAX,
    "if bool((scores.amax(-1) == -torch.inf).any()):\n        return m, denominator, acc\n    new = torch.maximum(m, scores.amax(-1))",
)
_update(
    "masked_row_is_a_mean",
    "NaN turned into 0 and then exp(0) = 1: in a row that sees nothing every hidden key has weight 1.",
    _WEIGHTS,
    "torch.exp((scores - new[..., None]).nan_to_num(nan=0.0, neginf=-torch.inf))",
)
_update(
    "finite_mask",
    "-10,000 instead of -inf is a score: where the real ones are lower, the hidden keys win.",
    _MAX,
    "scores = scores.clamp(min=-1e4)\n    new = torch.maximum(m, scores.amax(-1))",
)
_update(
    "very_finite_mask",
    "-1e30 instead of -inf is a score too: a row that sees nothing gets the mean of all hidden values.",
    _MAX,
    "scores = scores.clamp(min=-1e30)\n    new = torch.maximum(m, scores.amax(-1))",
)
_update(
    "maximum_from_a_sentinel",
    "A row that has seen no key keeps -inf as its maximum: from -1e30 its log-sum-exp would be a number.",
    _MAX,
    "new = torch.maximum(m, scores.amax(-1)).clamp(min=-1e30)",
)
_update(
    "reference_not_below_0",
    "The maximum may be negative: with 0 as the least reference exp(score) is 0 for rows at -1000.",
    _BASE,
    "base = new.clamp(min=0)",
)
_update(
    "no_maximum",
    "exp(1000) is infinite: only the difference to the maximum is safe.",
    _BASE,
    "base = torch.zeros_like(new)",
)
_update(
    "divides_every_block",
    "Nothing is divided here: `finalize` does it once, at the end. A mean can't be added to.",
    _ACC,
    "(acc * shrink[..., None] + weights @ values) / (denominator * shrink + weights.sum(-1))[..., None]",
)
_update(
    "softmax_of_the_block",
    "Weights are exp(score - m), not a softmax of the block: each block would count as much as all others.",
    _WEIGHTS,
    "scores.softmax(-1).nan_to_num(nan=0.0)",
)
_update(
    "factor_not_below_e_minus_30",
    "A maximum may rise by thousands, and what was before is 0 then: the exponent has no lower limit.",
    _SHRINK,
    "torch.exp((m - base).clamp(min=-30))",
)
_update(
    "old_maximum_returned",
    "The new maximum is part of the state: with the old one the next block is brought to the wrong units.",
    "return new, denominator",
    "return m, denominator",
)
_update(
    "sum_begins_anew",
    "The denominator goes on from what came before: this one is the block's alone.",
    _DENOMINATOR,
    "weights.sum(-1)",
)
_update(
    "acc_begins_anew",
    "The accumulator goes on from what came before: this one is the block's alone.",
    _ACC,
    "weights @ values",
)
_update(
    "weights_rescaled_too",
    "The weights are in units of the new maximum already: only what came before is multiplied by exp(old - new).",
    _WEIGHTS,
    "torch.exp(scores - base[..., None]) * torch.where(m == -torch.inf, 1, torch.exp(m - base))[..., None]",
)
_update(
    "a_factor_for_each_feature",
    "The factor belongs to the row: without a new last axis it stretches along the features, or does not fit.",
    "acc * shrink[..., None]",
    "acc * (shrink if shrink.shape[-1:] == acc.shape[-1:] else shrink[..., None])",
)
_update(
    "counts_keys",
    "The denominator is the sum of the weights, not the number of keys.",
    "weights.sum(-1)",
    "(scores > -torch.inf).sum(-1)",
)
_update(
    "base_2",
    "Natural exponentials: with 2^x the scores must be multiplied by log2(e) first.",
    _SHRINK,
    "torch.exp2(m - base)",
    _WEIGHTS,
    "torch.exp2(scores - base[..., None])",
)
_update(
    "weights_in_float32",
    "Float64 scores are for float64 weights: on the way through float32 nine digits are lost.",
    _WEIGHTS,
    "torch.exp((scores - base[..., None]).float()).to(values.dtype)",
)
_update(
    "adds_in_place",
    "The state that was given stays as it is: whoever tries a block, or keeps a split, still has it.",
    _ACC,
    "acc.mul_(shrink[..., None]).add_(weights @ values)",
)
_update(
    "sum_in_place",
    "The denominator that was given stays as it is, like the rest of the state.",
    _DENOMINATOR,
    "denominator.mul_(shrink).add_(weights.sum(-1))",
)
_update(
    "maximum_in_place",
    "The maximum that was given stays as it is; and exp(old - new) needs the old one.",
    _MAX,
    "new = torch.maximum(m, scores.amax(-1), out=m)",
)
_update(
    "mask_in_place",
    "The scores that were given stay as they are: work on a new tensor.",
    _WEIGHTS,
    "scores.sub_(base[..., None]).exp_()",
)

# ---- finalize

_EMPTY = "empty = denominator == 0"
_OUT = "out = acc / denominator.masked_fill(empty, 1)[..., None]"
_LSE = "return out, m + denominator.log()"

_update(
    "zero_over_zero",
    "A row that has seen no key gives 0, not 0 / 0, which is NaN.",
    _OUT,
    "out = acc / denominator[..., None]",
)
_update(
    "lse_without_the_maximum",
    "The sum is in units of exp(m): its log alone is too small by m.",
    _LSE,
    "return out, denominator.log()",
)
_update(
    "lse_is_the_maximum",
    "The maximum is the log of the largest term, not of the sum.",
    _LSE,
    "return out, m",
)
_update(
    "empty_lse_plus_inf",
    "log 0 is -inf; with +inf the part without keys would win every merge.",
    _LSE,
    "return out, (m + denominator.log()).masked_fill(empty, torch.inf)",
)
_update(
    "empty_lse_0",
    "The log-sum-exp of no keys is -inf: 0 is that of one key with score 0.",
    _LSE,
    "return out, (m + denominator.log()).masked_fill(empty, 0)",
)
_update(
    "epsilon",
    "A sum is 0 or at least 1: a small number added to all of them is seen in every mean.",
    _OUT,
    "out = acc / (denominator + 1e-6)[..., None]",
)
_update(
    "log_2",
    "Natural logarithms: a log of base 2 can't be added to m.",
    _LSE,
    "return out, m + denominator.log2()",
)
_update(
    "sum_without_log",
    "The denominator is no logarithm yet: m + log(denominator).",
    _LSE,
    "return out, (m + denominator).masked_fill(empty, -torch.inf)",
)
_update(
    "not_divided",
    "The accumulator is a sum: a mean needs the division by the denominator.",
    _OUT,
    "out = acc",
)
_update(
    "divides_features",
    "Each row is divided by its own sum: without a new last axis the sums lie along the features, or do not fit.",
    _OUT,
    "total = denominator.masked_fill(empty, 1)\n    out = acc / (total if total.shape[-1:] == acc.shape[-1:] else total[..., None])",
)
_update(
    "divides_in_place",
    "The accumulator that was given stays as it is: divide into a new tensor.",
    _OUT,
    "out = acc.div_(denominator.masked_fill(empty, 1)[..., None])",
)

# ---- merge

_LOGADD = "lse = torch.logaddexp(lse_a, lse_b)"
_REF = "base = lse.masked_fill(lse == -torch.inf, 0)"
_BOTH = "weight_a, weight_b = torch.exp(lse_a - base)[..., None], torch.exp(lse_b - base)[..., None]"
_MIX = "return weight_a * out_a + weight_b * out_b, lse"


def _merge(name, sentence, *change):
    ghost("level07.online.merge", name, sentence, change=[*zip(change[::2], change[1::2])])


_merge(
    "plain_average",
    "A part with more of the sum counts more: weight each by exp(lse), not both by a half.",
    _MIX,
    "return torch.where(lse_a.isneginf()[..., None], out_b, torch.where(lse_b.isneginf()[..., None], out_a, (out_a + out_b) / 2)), lse",
)
_merge(
    "adds_outputs",
    "Each part is normalised by itself: the sum of two means is no mean.",
    _MIX,
    "return out_a + out_b, lse",
)
_merge(
    "weights_are_logs",
    "lse is a logarithm: the weights are exponentials of the differences, not lse itself.",
    _BOTH,
    "weight_a, weight_b = ((x.nan_to_num(neginf=0) / (lse_a.nan_to_num(neginf=0) + lse_b.nan_to_num(neginf=0)))[..., None] for x in (lse_a, lse_b))",
)
_merge(
    "weights_exchanged",
    "The part with the larger log-sum-exp has the larger weight: these are exchanged.",
    _MIX,
    "return weight_b * out_a + weight_a * out_b, lse",
)
_merge(
    "larger_part_only",
    "Both parts count, the smaller one too: it is only e^(difference) times lighter.",
    _MIX,
    "return torch.where((lse_a > lse_b)[..., None], out_a, out_b), lse",
)
_merge(
    "overflow",
    "exp(1000) is infinite: subtract the larger log-sum-exp first.",
    _LOGADD,
    "lse = torch.log(lse_a.exp() + lse_b.exp())",
)
_merge(
    "clipped",
    "A limit against overflow makes all large log-sums equal: subtract the larger one instead.",
    _LOGADD,
    "lse_a, lse_b = lse_a.clamp(max=80), lse_b.clamp(max=80)\n    lse = torch.logaddexp(lse_a, lse_b)",
)
_merge(
    "nan_when_both_empty",
    "Two empty parts are an empty part: -inf minus -inf is NaN, and needs a guard.",
    _REF,
    "base = lse",
)
_merge(
    "guard_for_all_rows",
    "A row that is empty on both sides may stand beside rows that are not: guard each row.",
    _REF,
    "base = torch.zeros_like(lse) if bool(lse.isneginf().all()) else lse",
)
_merge(
    "one_empty_row_takes_the_other_part",
    "A row that is empty on one side says nothing about the other rows of that side.",
    _LOGADD,
    "if bool(lse_a.isneginf().any()):\n        return out_b, lse_b\n    if bool(lse_b.isneginf().any()):\n        return out_a, lse_a\n    lse = torch.logaddexp(lse_a, lse_b)",
)
_merge(
    "empty_becomes_a_score",
    "-10,000 instead of -inf is a log-sum like others: beside real ones that are lower the empty part wins.",
    _LOGADD,
    "lse_a, lse_b = lse_a.clamp(min=-1e4), lse_b.clamp(min=-1e4)\n    lse = torch.logaddexp(lse_a, lse_b)",
)
_merge(
    "empty_lse_is_a_number",
    "The log-sum of two empty parts is -inf, so that the next merge takes nothing of them either.",
    _LOGADD,
    "lse = torch.logaddexp(lse_a, lse_b)\n    lse = lse.clamp(min=-1e30)",
)
_merge(
    "logs_added",
    "Sums are added, not their logs: log 2 and log 6 make log 8.",
    _MIX,
    "return weight_a * out_a + weight_b * out_b, torch.where(lse_a.isneginf(), lse_b, torch.where(lse_b.isneginf(), lse_a, lse_a + lse_b))",
)
_merge(
    "larger_lse_only",
    "The log-sum of both is larger than each: with the maximum alone the next merge weighs this part too little.",
    _MIX,
    "return weight_a * out_a + weight_b * out_b, torch.maximum(lse_a, lse_b)",
)
_merge(
    "keeps_the_first_lse",
    "After a merge the part has grown: its log-sum is that of both.",
    _MIX,
    "return weight_a * out_a + weight_b * out_b, torch.where(lse_a.isneginf(), lse_b, lse_a)",
)
_merge(
    "log_of_the_mean",
    "The sums of both parts are added, not averaged: two equal ones have a log-sum that is larger by log 2.",
    _MIX,
    "both = (lse_a > -torch.inf) & (lse_b > -torch.inf)\n    return weight_a * out_a + weight_b * out_b, lse - both * np.log(2)",
)
_merge(
    "base_2",
    "Natural logarithms: powers of two make another weight of log 4 than 4.",
    _LOGADD,
    "lse = torch.logaddexp2(lse_a, lse_b)",
    _BOTH,
    "weight_a, weight_b = torch.exp2(lse_a - base)[..., None], torch.exp2(lse_b - base)[..., None]",
)
_merge(
    "not_normalised",
    "exp(lse - larger) are no weights yet: they do not add up to 1.",
    _REF,
    "base = torch.maximum(lse_a, lse_b)\n    base = base.masked_fill(base == -torch.inf, 0)",
)
_merge(
    "epsilon",
    "A small number against 0 / 0 is seen where both sums are small: e^-1000 is nothing beside it.",
    _BOTH,
    "weight_a, weight_b = (x.exp()[..., None] / (lse_a.exp() + lse_b.exp() + 1e-9)[..., None] for x in (lse_a, lse_b))",
)
_merge(
    "a_weight_for_each_feature",
    "A weight belongs to a row: without a new last axis it stretches along the features, or does not fit.",
    _BOTH,
    "weight_a, weight_b = (w if w.shape[-1:] == out_a.shape[-1:] else w[..., None] for w in (torch.exp(lse_a - base), torch.exp(lse_b - base)))",
)
_merge(
    "one_weight_for_all",
    "Each query has a log-sum of its own: one weight for all is wrong for every one of them.",
    _BOTH,
    "weight_a, weight_b = (torch.exp((x - base).mean()) for x in (lse_a, lse_b))",
)
_merge(
    "one_reference_for_all",
    "Each row is compared with its own two log-sums: with the largest of all as the reference, small rows come to 0.",
    _BOTH,
    "weights = [torch.exp(x - base.max()) for x in (lse_a, lse_b)]\n    total = sum(weights)\n    weight_a, weight_b = ((w / total.masked_fill(total == 0, 1))[..., None] for w in weights)",
)
_merge(
    "weights_in_float32",
    "Float64 log-sums are for float64 weights: on the way through float32 nine digits are lost.",
    _BOTH,
    "weight_a, weight_b = (torch.exp((x - base).float())[..., None].to(out_a.dtype) for x in (lse_a, lse_b))",
)
_merge(
    "into_the_first",
    "What was given stays as it is: another branch of the tree may merge the same part.",
    _MIX,
    "return out_a.mul_(weight_a).add_(weight_b * out_b), lse",
)
_merge(
    "lse_into_the_first",
    "The first part's log-sum stays as it is, and the weights need it after the sum is made.",
    _LOGADD,
    "lse = torch.logaddexp(lse_a, lse_b, out=lse_a)",
)

# ---- met by somebody who played the level

_sums(
    "infinite_factor",
    "exp(new - old) is upside down, and before the first score, with old = -inf, it is infinite: inf times 0 is NaN.",
    "np.exp(largest - new)",
    "np.exp(new - largest)",
)
_sums(
    "log_for_the_largest",
    "The first of the two is the largest score itself; its log-sum-exp is what a caller makes of both.",
    _END,
    "return float(largest + np.log(total)), float(total)",
)
_merge(
    "larger_not_added_back",
    "What was subtracted before the exponentials comes back behind the log: lse = larger + log(sum).",
    _MIX,
    "larger = torch.maximum(lse_a, lse_b)\n    return weight_a * out_a + weight_b * out_b, lse - larger.masked_fill(larger == -torch.inf, 0)",
)
