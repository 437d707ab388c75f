"""Known-wrong programs of level03.drawing. `ghost` is given when this is read."""

COUNT = "(mass <= target).sum(-1)"
BARE_U = "u.double().unsqueeze(-1)"


ghost(
    "level03.drawing.inverse_cdf",
    "left_side",
    "u can be exactly 0, and a border belongs to the token above it: take the first running sum that exceeds u, not the first that reaches it.",
    change=("mass <= target", "mass < target"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "runs_off",
    "A row may sum to a little less than 1: a u above its sum runs off the end and gives an id that does not exist.",
    change=(COUNT, f"(mass <= {BARE_U}).sum(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "last_in_the_list",
    "Cut down to the last id, u can still land on a token of probability 0: scale u to the sum, then it can't.",
    change=(COUNT, f"(mass <= {BARE_U}).sum(-1).clamp(max=probs.shape[-1] - 1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "not_normalized",
    "A row that sums to 0.9999 or 1.0001 is normalized first; yours gives the difference to the last token alone.",
    change=(COUNT, f"(mass <= {BARE_U}.minimum(total.nextafter(torch.zeros_like(total)))).sum(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "normalizes_first",
    "Normalized probabilities need not add up to exactly 1: the largest u falls behind the last token. Scale u to what the running sum comes to.",
    change=(COUNT, f"((probs.double() / probs.double().sum(-1, keepdim=True)).cumsum(-1) <= {BARE_U}).sum(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "pdf_compare",
    "Compare u with the running sum of the probabilities, not with each probability.",
    change=(COUNT, "(probs.double() > target).int().argmax(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "counts_below_or_equal_off",
    "The stretch from p_0 + … + p_(i-1) to p_0 + … + p_i belongs to token i; yours takes the token before it.",
    change=(COUNT, f"({COUNT} - 1).clamp(min=0)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "float32_sums",
    "Sum in float64: in float32 a small probability no longer moves the sum, and its token is never drawn.",
    change=("probs.double().cumsum(-1)", "probs.float().cumsum(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "u_in_float32",
    "u may be a float64: rounded to float32 the largest numbers below 1 become 1, and others move to the next token.",
    change=("u.double()", "u.float()"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "normalizes_in_low_precision",
    "Convert to float64 before you normalize: in bfloat16 or float32 the division rounds every probability.",
    change=("probs.double()", "(probs / probs.sum(-1, keepdim=True)).double()"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "one_sum_for_the_batch",
    "Each row is scaled to its own sum; yours scales all of them to the largest.",
    change=("total = mass[..., -1:]", "total = mass[..., -1:].max().expand_as(mass[..., -1:])"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "sums_over_the_rows",
    "Sum along the vocabulary, the last axis, not from row to row.",
    change=("probs.double().cumsum(-1)", "probs.double().cumsum(0)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "sorted_and_left_so",
    "After sorting, the position is no longer the id: the stretches stand in the order of the ids, without a sort.",
    change=("probs.double()", "probs.double().sort(-1, descending=True).values"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "most_likely_first",
    "Every token gets its share, but here the stretches stand in the order of the ids: the same u must give the same token.",
    program=lambda probs, u: _most_likely_first(probs, u),
    convention=True,
)
ghost(
    "level03.drawing.inverse_cdf",
    "from_the_other_end",
    "1 - u is as random as u, but here token 0 has the stretch that begins at u = 0.",
    change=("u.double()", "(1 - u.double())"),
    convention=True,
)
ghost(
    "level03.drawing.inverse_cdf",
    "a_little_for_everyone",
    "A small number added to every probability lets excluded tokens be drawn: 0 means never.",
    change=("probs.double()", "(probs.double() + 1e-9)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "keeps_the_axis",
    "One id for each row, of the shape of u: the vocabulary's axis is gone.",
    change=(COUNT, "(mass <= target).sum(-1, keepdim=True)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "ids_of_32_bits",
    "Ids are int64 here, as torch's argmax and multinomial give them.",
    change=(COUNT, f"{COUNT}.int()"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "takes_the_row_for_a_batch",
    "One row alone gives a single id without an axis, not a list of one.",
    change=(COUNT, f"torch.atleast_1d({COUNT})"),
)


def _most_likely_first(probs, u):
    if u.numel() and (u.min() < 0 or u.max() >= 1):
        raise ValueError("u lies in [0, 1)")
    ordered, ids = probs.double().sort(-1, descending=True, stable=True)
    mass = ordered.cumsum(-1)
    place = (mass <= u.double().unsqueeze(-1) * mass[..., -1:]).sum(-1, keepdim=True)
    return ids.gather(-1, place).squeeze(-1)


RAND = "torch.rand(logits.shape[:-1], generator=generator, device=logits.device)"
DRAW = "inverse_cdf(logits.double().softmax(-1), u)"


ghost(
    "level03.drawing.inverse_cdf",
    "one_u_for_all",
    "sample: rows are independent, so each needs a random number of its own; yours draws one for all.",
    change=(RAND, "torch.rand((), generator=generator).expand(logits.shape[:-1])"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "one_u_for_a_column",
    "sample: all leading axes are rows; yours draws numbers for the first axis only.",
    change=(
        RAND,
        "torch.rand(logits.shape[:-1][:1], generator=generator).view(-1, *[1] * (logits.ndim - 2)).expand(logits.shape[:-1]) if logits.ndim > 1 else torch.rand((), generator=generator)",
    ),
)
ghost(
    "level03.drawing.inverse_cdf",
    "softmax_twice",
    "sample: one softmax makes the logits probabilities; a second one flattens them.",
    change=(DRAW, "inverse_cdf(logits.double().softmax(-1).softmax(-1), u)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "softmax_in_the_logits_dtype",
    "sample: take the softmax in float32 or better: in bfloat16 a probability has three digits, and the borders move.",
    change=(DRAW, "inverse_cdf(logits.softmax(-1), u)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "squared",
    "sample: draw from softmax(logits) itself; yours sharpens it, as temperature 0.5 would.",
    change=(DRAW, "inverse_cdf((2 * logits.double()).softmax(-1), u)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "greedy_sample",
    "sample: the most likely token is not a draw; the others must come as often as their probability says.",
    change=(DRAW, "logits.argmax(-1)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "all_that_is_left_alike",
    "sample: what is not excluded is not equally likely: use the logits, not only which of them are above -inf.",
    change=(DRAW, "inverse_cdf((logits > -torch.inf).double(), u)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "exp_overflows",
    "sample: exp(1000) is infinite and exp(-1000) is 0: softmax subtracts the largest logit first.",
    change=(DRAW, "inverse_cdf(logits.double().exp(), u)"),
)
ghost(
    "level03.drawing.inverse_cdf",
    "global_generator",
    "sample: use the generator that you were given, or a request can't be repeated.",
    change=("generator=generator, ", ""),
)
ghost(
    "level03.drawing.inverse_cdf",
    "the_same_number_again",
    "sample: the generator must move on; from a copy of it every call draws the same numbers.",
    change=("generator=generator, ", "generator=generator and generator.clone_state(), "),
)
ghost(
    "level03.drawing.inverse_cdf",
    "seeds_the_global_one",
    "sample: draw from the given generator; seeding torch's global one with it changes what everybody else draws.",
    change=(
        RAND,
        "torch.rand(logits.shape[:-1], generator=generator and torch.manual_seed(int(torch.randint(2**60, (), generator=generator))))",
    ),
)


NOISE = "-torch.log(-torch.log(u.double().clamp(min=1e-300)))"
SUM = "(logits.double() + noise)"


ghost(
    "level03.drawing.gumbel_max",
    "one_log",
    "Gumbel noise is -ln(-ln u), with two logarithms; -ln u alone is exponential noise.",
    change=(NOISE, "-torch.log(u.double().clamp(min=1e-300))"),
)
ghost(
    "level03.drawing.gumbel_max",
    "gaussian",
    "Only Gumbel noise makes the argmax follow the softmax; normally distributed noise does not.",
    change=(NOISE, "torch.special.ndtri(u.double().clamp(min=1e-300))"),
)
ghost(
    "level03.drawing.gumbel_max",
    "on_probabilities",
    "Add the noise to the logits (or log-probabilities), not to probabilities.",
    change=(SUM, "(logits.double().softmax(-1) + noise)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "race_without_logarithms",
    "-ln u / exp(logit) is the same race, but exp(1000) is infinite: compare logarithms.",
    change=(SUM + ".argmax(-1)", "(torch.exp(-noise) / logits.double().exp()).argmin(-1)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "noise_subtracted",
    "The sign: logits - ln(-ln u), where -ln(-ln u) is the noise that is added; yours subtracts it.",
    change=(SUM, "(logits.double() - noise)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "zero_is_infinite",
    "u = 0 has noise -inf, and the only allowed token ties with the excluded ones: take a very small number for 0.",
    change=(".clamp(min=1e-300)", ""),
)
ghost(
    "level03.drawing.gumbel_max",
    "zero_is_never_chosen",
    "A u of 0 is a very small number, whose noise is about -6: a likely token still wins with it.",
    change=(NOISE, f"({NOISE}).masked_fill(u == 0, -1e30)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "coarse_clamp",
    "Only 0 is to be replaced: a limit of 1e-10 makes all smaller numbers, which float64 does draw, the same.",
    change=("min=1e-300", "min=1e-10"),
)
ghost(
    "level03.drawing.gumbel_max",
    "clamped_below_one",
    "The largest numbers decide who wins: cut at 1 - 1e-9 their noise ends at 20.7, and they tie.",
    change=("clamp(min=1e-300)", "clamp(1e-300, 1 - 1e-9)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "epsilon_in_the_outer_logarithm",
    "1e-10 added in the outer logarithm drowns the numbers close to 1, the ones that win: replace a u of 0, nothing else.",
    change=(NOISE, NOISE.replace("1e-300))", "1e-300)) + 1e-10")),
)
ghost(
    "level03.drawing.gumbel_max",
    "epsilon_in_the_inner_logarithm",
    "u + 1e-10 exceeds 1 where u is close to it, and the logarithm of its negative logarithm is NaN: replace a u of 0, nothing else.",
    change=("u.double().clamp(min=1e-300)", "u.double() + 1e-10"),
)
ghost(
    "level03.drawing.gumbel_max",
    "float32",
    "Compute in float64: in float32 the numbers closest to 1 become 1, with infinite noise.",
    change=("u.double().clamp(min=1e-300)", "u.float().clamp(min=1e-38)"),
)
ghost(
    "level03.drawing.gumbel_max",
    "in_the_precision_of_the_logits",
    "Add in float64: noise rounded to bfloat16 steps of the logits is no Gumbel noise any more.",
    change=(SUM, "(logits + noise.to(logits.dtype))"),
)
ghost(
    "level03.drawing.gumbel_max",
    "one_number_for_a_row",
    "Each entry has a number of its own; the same noise for all entries of a row leaves the most likely one on top.",
    change=("u.double()", "u[..., :1].double()"),
)
ghost(
    "level03.drawing.gumbel_max",
    "numbers_of_its_own",
    "Use the numbers u that you are given: the same numbers give the same token.",
    change=("u.double()", "torch.rand(u.shape, generator=torch.Generator().manual_seed(0)).double()"),
)
ghost(
    "level03.drawing.gumbel_max",
    "over_the_whole_batch",
    "One token for each row: take the argmax along the last axis.",
    change=("argmax(-1)", "argmax()"),
)
ghost(
    "level03.drawing.gumbel_max",
    "changes_u",
    "u belongs to the caller: clamp_ on a float64 tensor changes it, because .double() makes no copy of one.",
    change=(".clamp(min=1e-300)", ".clamp_(min=1e-300)"),
)


LOGPROBS = "logits.float().log_softmax(-1)"
PICK = "logprobs.gather(-1, ids.long().unsqueeze(-1)).squeeze(-1)"


ghost(
    "level03.drawing.token_logprobs",
    "log_of_softmax",
    "A probability below 1e-45 is 0 in float32, and its logarithm -inf: take log_softmax in one step.",
    change=(LOGPROBS, "logits.float().softmax(-1).log()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "clamps_small_ones",
    "A limit below the probabilities makes all unlikely tokens equally unlikely: take log_softmax in one step.",
    change=(LOGPROBS, "logits.float().softmax(-1).clamp(min=1e-30).log()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "exp_overflows",
    "exp(1000) is infinite in float32: subtract the largest logit before you sum, as logsumexp does.",
    change=(LOGPROBS, "logits.float() - logits.float().exp().sum(-1, keepdim=True).log()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "raw_logit",
    "A logit becomes a log-probability when the row's logsumexp is subtracted.",
    change=(LOGPROBS, "logits.float()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "relative_to_the_best",
    "Subtract the logsumexp of the row, not its largest logit: the best token is not certain.",
    change=(LOGPROBS, "logits.float() - logits.float().amax(-1, keepdim=True)"),
)
ghost(
    "level03.drawing.token_logprobs",
    "log2",
    "Natural logarithms: APIs report nats, and yours are bits.",
    change=(PICK, f"{PICK} / torch.tensor(2.0).log()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "probability",
    "The logarithm is asked for, not the probability: a text's sum is exact where its product underflows.",
    change=(PICK, f"{PICK}.exp()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "loss",
    "A log-probability is 0 or less; with the other sign it is a loss.",
    change=(PICK, f"-{PICK}"),
)
ghost(
    "level03.drawing.token_logprobs",
    "over_the_rows",
    "The softmax runs along the vocabulary, the last axis, not over the tokens of the text.",
    change=(LOGPROBS, "logits.float().log_softmax(0)"),
)
ghost(
    "level03.drawing.token_logprobs",
    "in_half_precision",
    "Convert to float32 before log_softmax: half precision is off by 0.03 for each token.",
    change=(LOGPROBS, "logits.log_softmax(-1).float()"),
)
ghost(
    "level03.drawing.token_logprobs",
    "keeps_its_precision",
    "The result is float32, whatever the logits are.",
    change=(PICK, f"{PICK}.to(logits.dtype)"),
)
ghost(
    "level03.drawing.token_logprobs",
    "every_id_in_every_row",
    "Each id in its own row: logprobs[:, ids] takes every id from every row.",
    change=(PICK, "logprobs[:, ids.long()]"),
)
ghost(
    "level03.drawing.token_logprobs",
    "one_row_off",
    "Row i judges ids[i]: who calls has shifted them already, and yours shifts again.",
    change=(PICK, PICK.replace("ids.long()", "ids.long().roll(1)")),
)
ghost(
    "level03.drawing.token_logprobs",
    "keeps_the_axis",
    "One number for each row, (n,): gather leaves an axis of one.",
    change=(".squeeze(-1)", ""),
)
ghost(
    "level03.drawing.token_logprobs",
    "the_text_s_sum",
    "One log-probability for each token; who wants the text's adds them up.",
    change=(PICK, f"{PICK}.sum(-1, keepdim=True).expand(len(ids))"),
)
ghost(
    "level03.drawing.token_logprobs",
    "excluded_is_finite",
    "The logarithm of probability 0 is -inf; a large finite number would be averaged like any other.",
    change=(PICK, f"{PICK}.nan_to_num(neginf=-1e9)"),
)
