"""Known-wrong programs of level08.verify. `ghost` is given when this is read."""

_KEPT = "kept.append(next(choices))"
_DIFFERS = "kept[-1] != token"
_STOPS = "return kept\n"
_BONUS = "return [*kept, next(choices)]"
_RATE = "float(torch.minimum(p, q).sum())"
_MISSING = "(p - q).clamp(min=0)"
_SCALED = "missing / total if total > 0 else p.clone()"
_REJECTED = "accept_u[i] * q[i, token] >= p[i, token]"
_LAST = "draw(residual(p[i], q[i]), final_u)"
_REPLACED = f"return [*draft[:i], {_LAST}]"
_ALL = "return [*draft, draw(p[-1], final_u)]"


def _choices(name, sentence, *pairs):
    ghost("level08.verify.verify_choices", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _residual(name, sentence, *pairs):
    ghost("level08.verify.residual", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _sample(name, sentence, *pairs):
    ghost("level08.verify.verify_sample", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- verify_choices

_choices(
    "no_bonus",
    "When all of the draft is right, the pass has one row more: its choice is a free token, which yours leaves out.",
    _BONUS,
    "return kept",
)
_choices(
    "nothing_after_a_mismatch",
    "The first choice that differs is the target's own token, and right: yours drops it, so a round may give nothing.",
    _STOPS,
    "return kept[:-1]\n",
)
_choices(
    "keeps_the_wrong_token",
    "A choice replaces the rejected token: yours keeps the drafted one.",
    _STOPS,
    "return [*kept[:-1], token]\n",
)
_choices(
    "wrong_token_and_correction",
    "The rejected token goes; only the target's choice takes its place. Yours keeps both.",
    _STOPS,
    "return [*kept[:-1], token, kept[-1]]\n",
)
ghost(
    "level08.verify.verify_choices",
    "keeps_later_matches",
    "After the first mismatch the target has read a token that is not there: yours keeps matches behind it.",
    program=lambda draft, choices: (
        (lambda all: [c for c, d in zip(all, draft) if c == d] + [all[-1]])(list(choices))
        if draft
        else [next(iter(choices))]
    ),
)


def _matches_counted(draft, choices):
    choices = list(choices)
    return choices[: sum(int(d) == int(c) for d, c in zip(draft, choices)) + 1]


ghost(
    "level08.verify.verify_choices",
    "matches_counted",
    "What counts is how many match before the first that does not; yours counts all places that match.",
    program=_matches_counted,
)
_choices(
    "never_stops",
    "Choices behind the first mismatch answer another text: yours returns all g + 1 of them.",
    _DIFFERS,
    "False",
)
_choices(
    "one_place_late",
    "choices[i] is what the target says in draft[i]'s place: yours compares draft[i] with the choice after it.",
    "kept: list[int] = []",
    "kept: list[int] = [next(choices)]",
    _BONUS,
    "return kept",
)
_choices(
    "all_choices_taken",
    "A choice may be work, such as a number drawn for it: take one after the other, and none behind the mismatch.",
    "choices = iter(choices)",
    "choices = iter(list(choices))",
)
_choices(
    "looks_one_ahead",
    "Yours takes one choice more than it returns: see whether the draft goes on before you ask the target.",
    _STOPS,
    "return (next(choices, None), kept)[1]\n",
)
_choices(
    "identity",
    "Two equal ids need not be one object: compare with ==, or !=, not with `is`.",
    _DIFFERS,
    "kept[-1] is not token",
)
_choices(
    "all_or_nothing",
    "The right beginning of a draft stays, even if its end is wrong: yours takes all of it or only one token.",
    _STOPS,
    "return kept[:1]\n",
)
_choices(
    "bonus_always",
    "After a mismatch no choice is left that counts: the bonus is for a draft that is right to its end.",
    _STOPS,
    "return [*kept, next(choices)]\n",
)


def _zipped_the_other_way(draft, choices):
    choices, kept = iter(choices), []
    for choice, token in zip(choices, draft):
        kept.append(choice)
        if choice != token:
            return kept
    return [*kept, next(choices)]


ghost(
    "level08.verify.verify_choices",
    "zipped_the_other_way",
    "zip takes a choice before it sees that the draft is at its end, and the bonus is lost: draft comes first in it.",
    program=_zipped_the_other_way,
)

# ---- acceptance_rate


def _rate(name, sentence, new):
    _residual(name, sentence, _RATE, new)


_rate(
    "rate_of_the_maximum",
    "Both must give the token room: sum the smaller of p and q, not the larger.",
    "float(torch.maximum(p, q).sum())",
)
_rate(
    "rate_of_two_samples",
    "The sum of p · q says how often two samples agree; a draft may stay far more often: the sum of the smaller.",
    "float((p * q).sum())",
)
_rate(
    "rate_by_cosine",
    "The rate is 1 minus the total variation distance, not an angle between vectors.",
    "float(torch.cosine_similarity(p, q, dim=0))",
)
_rate(
    "rate_without_half",
    "Each difference is there twice, once above and once below: the distance is half of their sum.",
    "1 - float((p - q).abs().sum())",
)
_rate(
    "rate_of_the_likeliest",
    "The rate is a mean over all drafts, not that of the likeliest token.",
    "float(min(1, p[q.argmax()] / q[q.argmax()]))",
)
_rate(
    "rate_not_weighted",
    "How often a token is drafted counts: weight min(1, p / q) by q, as the sum of the smaller does.",
    "float((p / q).nan_to_num(nan=0, posinf=1).clamp(max=1).mean())",
)
_rate(
    "rate_of_rejection",
    "That is the distance, the share that is rejected: the rate is 1 minus that.",
    "float((p - q).clamp(min=0).sum())",
)
_rate(
    "rate_by_the_largest_difference",
    "Total variation adds up the differences; yours takes the largest one.",
    "1 - float((p - q).abs().max())",
)

# ---- residual

_residual(
    "just_p",
    "Drawn from p, tokens that the draft likes come twice, accepted and again: subtract q.",
    "return " + _SCALED,
    "return p.clone()",
)
_residual("absolute", "Only what p has beyond q is missing; where q is larger, nothing is.", _MISSING, "(p - q).abs()")
_residual("reversed", "Missing is what p has beyond q: yours takes q beyond p.", _MISSING, "(q - p).clamp(min=0)")
_residual(
    "not_normalized",
    "A distribution sums to 1: divide by what is left.",
    _SCALED,
    "missing if total > 0 else p.clone()",
)
_residual(
    "nan_when_equal",
    "Where p has nothing beyond q, yours divides 0 by 0: the result is p there.",
    _SCALED,
    "missing / total",
)
_residual(
    "nothing_when_equal",
    "Where p has nothing beyond q, the result is p, and not a row of zeros, from which nothing can be drawn.",
    _SCALED,
    "missing / total.clamp(min=torch.finfo(p.dtype).tiny)",
)
_residual(
    "only_if_the_very_same",
    "p may have nothing beyond q without being equal to it, by rounding: ask whether anything is left.",
    "if total > 0 else",
    "if not torch.equal(p, q) else",
)
_residual(
    "uniform_when_equal",
    "Where p has nothing beyond q, the two are equal: the result is p, not a uniform row.",
    "p.clone()",
    "torch.full_like(p, 1 / len(p))",
)
_residual(
    "epsilon_below",
    "A small number below the fraction bar is not small beside a small surplus: the row no longer sums to 1.",
    _SCALED,
    "missing / (total + 1e-6) if total > 0 else p.clone()",
)
_residual(
    "small_is_equal",
    "A small surplus is one all the same: yours takes p and q for equal, and draws from p.",
    "total > 0",
    "total > 1e-5",
)
_residual(
    "nearly_equal_is_equal",
    "The least surplus is one: ask whether anything at all is left, not whether more than some small number is.",
    "total > 0",
    "total > 1e-9",
)
_residual(
    "by_the_ratio",
    "p - q is exact where the two are near; p · (1 - q / p) rounds the ratio, and most of a small surplus is lost.",
    _MISSING,
    "(p * (1 - q / p)).nan_to_num(nan=0).clamp(min=0)",
)
_residual(
    "one_minus_the_rate",
    "1 minus the rate is what is left only if rows sum to exactly 1: divide by the sum of what is left.",
    "total = missing.sum()",
    "total = 1 - torch.minimum(p, q).sum()",
)
_residual(
    "softmax",
    "What is left is scaled to sum to 1, not passed through softmax, which gives something to each token.",
    _SCALED,
    "missing.softmax(-1) if total > 0 else p.clone()",
)
_residual(
    "not_clamped",
    "p - q sums to 0, and negative shares are none: clamp before the sum.",
    _SCALED,
    "(p - q) / total if total > 0 else p.clone()",
)
_residual(
    "clamped_after",
    "Clamp first and sum what is left: p - q as a whole sums to 0, and dividing by that is noise.",
    "missing.sum()",
    "(p - q).sum().abs()",
)
_residual(
    "without_the_drafts_tokens",
    "Subtract q from p: yours cuts out every token that the draft may propose, even where p has more.",
    _MISSING,
    "p.masked_fill(q > 0, 0)",
)
_residual(
    "p_of_what_is_left",
    "A token comes back for what p has beyond q, not for all of its p.",
    _MISSING,
    "p.masked_fill(p <= q, 0)",
)
_residual(
    "divided_by_p_and_q",
    "Subtract q, do not divide by it: where p has ten times a small q, little is missing all the same.",
    _MISSING,
    "(p / q - 1).clamp(min=0).nan_to_num(nan=0, posinf=1)",
)
_residual(
    "in_float64",
    "The result has the dtype of p and q: float64 rows of a whole vocabulary are twice the traffic.",
    _MISSING,
    "(p.double() - q.double()).clamp(min=0)",
)
ghost(
    "level08.verify.residual",
    "in_place",
    "p belongs to the caller, who needs it for the next token: yours subtracts q from it in place.",
    change=(_MISSING, "p.sub_(q).clamp_(min=0)"),
)

# ---- verify_sample

_sample(
    "resamples_from_p",
    "Drawn from p, what the draft likes comes out too often: after a rejection the residual is due.",
    _LAST,
    "draw(p[i], final_u)",
)
_sample(
    "argmax_after_rejection",
    "A rejected token is replaced by a draw from the residual; yours takes its likeliest token, whatever final_u.",
    _LAST,
    "int(residual(p[i], q[i]).argmax())",
)
_sample(
    "residual_reversed",
    "The residual is p beyond q; yours is q beyond p, which is what was proposed too often.",
    "residual(p[i], q[i])",
    "residual(q[i], p[i])",
)
_sample(
    "zeros_where_nothing_is_left",
    "p may have nothing beyond q, by rounding: `residual` gives p then, and from yours, all zeros, no token comes.",
    "residual(p[i], q[i])",
    "(p[i] - q[i]).clamp(min=0)",
)
_sample(
    "residual_of_another_row",
    "The residual is that of the rejected place: yours takes the rows behind it.",
    "residual(p[i], q[i])",
    "residual(p[i + 1], q[i])",
)
_sample(
    "token_taken_out",
    "The rejected token may not be all that q has too much of: subtract all of q, not that one token.",
    "residual(p[i], q[i])",
    "residual(p[i], torch.nn.functional.one_hot(torch.tensor(int(token)), p.shape[1]).to(p.dtype))",
)
_sample(
    "ratio_upside_down",
    "Accepted is what the target likes at least as much as the draft: p / q above u, not q / p.",
    _REJECTED,
    "accept_u[i] * p[i, token] >= q[i, token]",
)
_sample(
    "accepts_by_p_alone",
    "The draft has been drawn from q already: u · q < p, and not u < p, which accepts too little.",
    _REJECTED,
    "accept_u[i] >= p[i, token]",
)
_sample(
    "accepts_if_p_is_larger",
    "Where q is larger the token still stays with probability p / q; yours always rejects it.",
    _REJECTED,
    "q[i, token] > p[i, token]",
)
_sample(
    "threshold",
    "Accepting what is likely enough is another rule, which changes the distribution: compare u · q with p.",
    _REJECTED,
    "p[i, token] < 0.3",
)
_sample(
    "accepts_if_the_target_draws_it",
    "A token drawn from p meets the draft less often than p / q: the rest is replaced, and the sums do not fit.",
    _REJECTED,
    "draw(p[i], accept_u[i]) != token",
)
_sample(
    "keeps_the_targets_samples",
    "Exact, but it wastes drafts: a sample of p meets the draft with p alone; u · q < p keeps it more often.",
    _REJECTED,
    "draw(p[i], accept_u[i]) != token",
    _LAST,
    "draw(p[i], accept_u[i])",
)


def _acceptances_counted(draft, q, p, accept_u, final_u):
    from level08.verify import draw, residual

    n = sum(bool(accept_u[i] * q[i, token] < p[i, token]) for i, token in enumerate(draft))
    return [*draft[:n], draw(residual(p[n], q[n]) if n < len(draft) else p[n], final_u)]


ghost(
    "level08.verify.verify_sample",
    "acceptances_counted",
    "Accepted are those before the first rejection; yours counts those behind it, too. At once: cumprod, then sum.",
    program=_acceptances_counted,
)
_sample(
    "compares_with_the_largest",
    "The bound is the drafted token's own p / q, not one over the likeliest token's p.",
    _REJECTED,
    "accept_u[i] * p[i].max() >= p[i, token]",
)
_sample(
    "accepts_what_is_excluded",
    "u may be 0: where p is 0, u · q is not below p, and the token must go. Yours accepts when they are equal.",
    _REJECTED,
    "accept_u[i] * q[i, token] > p[i, token]",
)
_sample(
    "one_minus_u",
    "Accepted if u · q < p: yours takes 1 - u, so it keeps drafts that should go and the other way round.",
    _REJECTED,
    "(1 - accept_u[i]) * q[i, token] >= p[i, token]",
)
_sample(
    "one_number_for_all",
    "Each drafted token has a number of its own, accept_u[i]; with the first for all, acceptances hang together.",
    _REJECTED,
    "accept_u[0] * q[i, token] >= p[i, token]",
)
_sample(
    "final_u_used_twice",
    "final_u is for the last token only: used to accept as well, it is no longer uniform when it is needed.",
    _REJECTED,
    "final_u * q[i, token] >= p[i, token]",
)
_sample(
    "accept_u_for_the_residual",
    "After a rejection accept_u[i] is known to be large: the last token needs a number of its own, final_u.",
    _LAST,
    "draw(residual(p[i], q[i]), accept_u[i])",
)
_sample(
    "row_after_the_token",
    "p[i] is the target's after draft[:i], so it judges draft[i]: yours asks the row that has read it.",
    _REJECTED,
    "accept_u[i] * q[i, token] >= p[i + 1, token]",
)
_sample(
    "first_row_for_all",
    "q and p have a row for each drafted token: yours judges all by the first.",
    _REJECTED,
    "accept_u[i] * q[0, token] >= p[0, token]",
)
_sample(
    "product_of_the_ratios",
    "Each token is judged by its own ratio, not by the product up to it.",
    _REJECTED,
    "accept_u[i] * q[range(i + 1), draft[: i + 1]].prod() >= p[range(i + 1), draft[: i + 1]].prod()",
)
_sample(
    "no_bonus",
    "When all is accepted, p[g] is there for one token more, which yours leaves out.",
    _ALL,
    "return [*draft] or [draw(p[-1], final_u)]",
)
_sample(
    "bonus_from_the_draft",
    "The last token comes from the target's last row, not from a row of q.",
    _ALL,
    "return [*draft, draw(q[-1] if len(draft) else p[-1], final_u)]",
)
_sample(
    "bonus_one_row_early",
    "The bonus follows the whole draft: it comes from p[g], not p[g - 1].",
    _ALL,
    "return [*draft, draw(p[max(len(draft) - 1, 0)], final_u)]",
)
_sample(
    "bonus_from_the_residual",
    "Nothing was rejected, so nothing is missing: the bonus comes from p[g] as it is.",
    _ALL,
    "return [*draft, draw(residual(p[-1], q[-1]) if len(draft) else p[-1], final_u)]",
)
_sample(
    "bonus_is_the_likeliest",
    "The bonus is drawn at final_u like every other token, not the argmax of its row.",
    _ALL,
    "return [*draft, int(p[-1].argmax())]",
)
_sample(
    "continues_after_rejection",
    "Rows behind a rejected token were computed after it: stop there. Yours replaces it and goes on.",
    _REPLACED,
    f"draft = [*draft[:i], {_LAST}, *draft[i + 1 :]]",
)
_sample(
    "keeps_the_rejected_token",
    "The rejected token goes: yours puts the new one behind it.",
    "[*draft[:i], draw(res",
    "[*draft[: i + 1], draw(res",
)
_sample(
    "nothing_after_rejection",
    "A rejection gives a token as well, from the residual: a round that gives none may go on for ever.",
    _REPLACED,
    "return [*draft[:i]]",
)
_sample(
    "judged_last_first",
    "Judge the tokens in their order and end at the first rejection; yours ends at the last one.",
    "for i, token in enumerate(draft):",
    "for i, token in reversed(list(enumerate(draft))):",
)
_sample(
    "all_or_nothing",
    "A rejection does not undo what was accepted before it.",
    _REPLACED,
    "return [draw(residual(p[0], q[0]), final_u)]",
)
_sample(
    "draws_its_own_numbers",
    "The numbers are arguments, from the request's own generator: yours draws others from one of its own.",
    _REJECTED,
    "float(torch.rand((), generator=torch.Generator().manual_seed(i))) * q[i, token] >= p[i, token]",
)
_sample(
    "as_if_drafted_greedily",
    "q is what the draft was drawn from, as given: yours takes it for a greedy draft's, 1 for the drafted token.",
    _REJECTED,
    "accept_u[i] >= p[i, token]",
    "residual(p[i], q[i])",
    "residual(p[i], torch.eye(p.shape[1], dtype=p.dtype)[int(token)])",
)
