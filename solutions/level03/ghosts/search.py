"""Known-wrong programs of level03.search. `ghost` is given when this is read."""

import math

EXTEND = "logprobs.double() + torch.tensor([[score] for _, score in beams], dtype=torch.float64)"
GOING_ON = "for hypothesis in ranked if hypothesis[0][-1] != eos_id"
BOUND = "beams[0][1] / max_tokens**length_penalty"
STOP = "if not beams or len(complete) >= width and (early_stopping or complete[width - 1][1] >= within_reach):"


# ---- one step


ghost(
    "level03.search.beam_search",
    "per_beam",
    "Choose among all extensions of all beams: two of the best may have the same parent, and a beam may have none.",
    part="beam_step",
    program=lambda beams, logprobs, width, eos_id: _best_of_each(beams, logprobs, width, eos_id),
)
ghost(
    "level03.search.beam_search",
    "ignores_history",
    "An extension's score is the beam's own score and the new log-probability together.",
    change=(EXTEND, "logprobs.double()"),
)
ghost(
    "level03.search.beam_search",
    "multiplies_logs",
    "Log-probabilities add: it is the probabilities that are multiplied.",
    change=("logprobs.double() + torch", "logprobs.double() * torch"),
)
ghost(
    "level03.search.beam_search",
    "adds_probabilities",
    "Add the log-probability as it is given, not its exponential.",
    change=("logprobs.double() +", "logprobs.double().exp() +"),
)
ghost(
    "level03.search.beam_search",
    "rounds_to_the_model_s_precision",
    "Add in float64: rounded to bfloat16, the sums of different texts become equal.",
    change=(EXTEND, EXTEND.replace("logprobs.double()", "logprobs") + ".to(logprobs.dtype)"),
)
ghost(
    "level03.search.beam_search",
    "adds_in_place",
    "The model's tensor is not yours: adding the scores in place spoils it for the next step.",
    change=(EXTEND, EXTEND.replace("logprobs.double() + ", "logprobs.add_(") + ".to(logprobs.dtype)).double()"),
)
ghost(
    "level03.search.beam_search",
    "narrows",
    "An end must not cost a beam: take the first `width` of the extensions that go on, even if others end above them.",
    change=(GOING_ON, GOING_ON.replace("in ranked", "in ranked[:width]")),
)
ghost(
    "level03.search.beam_search",
    "every_end_counts",
    "An end below the first `width` extensions is not a hypothesis: it is less likely than all beams that go on.",
    change=("for hypothesis in ranked[:width] if", "for hypothesis in ranked if"),
)
ghost(
    "level03.search.beam_search",
    "the_best_may_end_alone",
    "Every end among the first `width` extensions is finished, not only one that is the best of all.",
    change=("for hypothesis in ranked[:width] if", "for hypothesis in ranked[:1] if"),
)
ghost(
    "level03.search.beam_search",
    "past_eos",
    "A text that has ended in eos_id is complete: take it off the beams.",
    change=(GOING_ON, "for hypothesis in ranked"),
)
ghost(
    "level03.search.beam_search",
    "no_end",
    "A text that ends in eos_id is finished: set it aside as a hypothesis, do not just drop it.",
    change=("return going_on[:width], finished", "return going_on[:width], []"),
)
ghost(
    "level03.search.beam_search",
    "extends_with_the_impossible",
    "A token at -inf can't come: it extends nothing, even where fewer than `width` extensions are left.",
    change=("        if score > -torch.inf\n", ""),
)
ghost(
    "level03.search.beam_search",
    "later_beam_on_a_tie",
    "On a tie the earlier beam comes first, then the smaller id; yours takes the last.",
    part="beam_step",
    program=lambda beams, logprobs, width, eos_id: _ranked(
        beams, logprobs, width, eos_id, lambda beam, token: (-beam, -token)
    ),
)
ghost(
    "level03.search.beam_search",
    "smaller_id_first",
    "On a tie the earlier beam comes first, and only within one beam the smaller id.",
    part="beam_step",
    program=lambda beams, logprobs, width, eos_id: _ranked(
        beams, logprobs, width, eos_id, lambda beam, token: (token, beam)
    ),
)
ghost(
    "level03.search.beam_search",
    "in_the_order_of_the_tokens",
    "Beams are best first: the bound looks at the first one, and so do ties.",
    change=("return going_on[:width], finished", "return sorted(going_on[:width]), finished"),
)
ghost(
    "level03.search.beam_search",
    "lists_of_tokens",
    "A hypothesis holds a tuple of tokens: a list can be changed by whoever gets it, and is no key of a table.",
    change=(
        "((*beams[i // scores.shape[1]][0], i % scores.shape[1]), score)",
        "([*beams[i // scores.shape[1]][0], i % scores.shape[1]], score)",
    ),
)


def _ranked(beams, logprobs, width, eos_id, tie):
    """A step in Python, with a rule for ties."""
    extensions = [
        (-(score + x), tie(beam, token), (*tokens, token))
        for beam, ((tokens, score), row) in enumerate(zip(beams, logprobs.double().tolist()))
        for token, x in enumerate(row)
        if x > -math.inf
    ]
    texts = [(tokens, -cost) for cost, _, tokens in sorted(extensions)]
    return [t for t in texts if t[0][-1] != eos_id][:width], [t for t in texts[:width] if t[0][-1] == eos_id]


def _best_of_each(beams, logprobs, width, eos_id):
    best = []
    for (tokens, score), row in zip(beams, logprobs.double().tolist()):
        order = sorted(range(len(row)), key=lambda i: -row[i])[: width if len(beams) == 1 else 1]
        best += [((*tokens, i), score + row[i]) for i in order if row[i] > -math.inf]
    best.sort(key=lambda text: -text[1])
    return [t for t in best if t[0][-1] != eos_id][:width], [t for t in best[:width] if t[0][-1] == eos_id]


# ---- the search


ghost(
    "level03.search.beam_search",
    "bound_of_today",
    "A mean can still rise: the best that a beam of score s can come to is s / max_tokens ** length_penalty, not what it is now.",
    change=(BOUND, "beams[0][1] / len(beams[0][0]) ** length_penalty"),
    convention=True,
)
ghost(
    "level03.search.beam_search",
    "bound_without_penalty",
    "Compare like with like: completed scores are divided by length ** length_penalty, so the bound is, too.",
    change=(BOUND, "beams[0][1]"),
)
ghost(
    "level03.search.beam_search",
    "bound_of_the_worst_beam",
    "Go on while the best beam can get among the best; the last one's hopes do not matter.",
    change=(BOUND, BOUND.replace("beams[0]", "beams[-1]")),
)
ghost(
    "level03.search.beam_search",
    "compares_with_the_best",
    "A beam need not beat the best hypothesis: the width-th of the complete ones is what it would replace.",
    change=("complete[width - 1][1] >=", "complete[0][1] >="),
)
ghost(
    "level03.search.beam_search",
    "goes_on_for_a_tie",
    "A beam that can only reach the score of the last complete one does not replace it: end, one pass earlier.",
    change=("complete[width - 1][1] >= within_reach", "complete[width - 1][1] > within_reach"),
)
ghost(
    "level03.search.beam_search",
    "goes_on_for_nothing",
    "End when no beam can get among the best `width` any more: every further step is a pass through the model.",
    change=("(early_stopping or complete[width - 1][1] >= within_reach)", "early_stopping"),
)
ghost(
    "level03.search.beam_search",
    "ignores_early_stopping",
    "early_stopping True ends as soon as `width` hypotheses have ended, whatever the beams could still come to.",
    change=("(early_stopping or complete", "(complete"),
)
ghost(
    "level03.search.beam_search",
    "always_stops_early",
    "Without early_stopping it goes on until no beam can get among the best, though `width` hypotheses have ended.",
    change=("(early_stopping or complete", "(True or complete"),
)
ghost(
    "level03.search.beam_search",
    "first_eos_wins",
    "The first end is not the best end: go on, and compare by score when it is over.",
    change=(STOP, "if complete or not beams:"),
)
ghost(
    "level03.search.beam_search",
    "stops_early_at_the_first_end",
    "early_stopping waits for `width` ends, not for one.",
    change=(
        "if not beams or len(complete)",
        "if not beams or early_stopping and complete or len(complete)",
    ),
)
ghost(
    "level03.search.beam_search",
    "asks_about_nothing",
    "When no beam is left the search is over: there is nothing to ask the model about.",
    change=(STOP, STOP.replace("if not beams or", "if beams and")),
)
ghost(
    "level03.search.beam_search",
    "starts_with_copies",
    "Start with one empty text: `width` copies of it have the same extensions, and all beams stay the same.",
    change=("[((), 0.0)], []", "[((), 0.0)] * width, []"),
)
ghost(
    "level03.search.beam_search",
    "a_pass_for_each_beam",
    "Ask once for all beams of a step: one batch reads the model's weights once.",
    change=(
        "next_logprobs([tokens for tokens, _ in beams])",
        "torch.cat([next_logprobs([tokens]) for tokens, _ in beams])",
    ),
)
ghost(
    "level03.search.beam_search",
    "no_length_normalisation",
    "A sum of logarithms falls with every token: divide by length ** length_penalty, or short texts always win.",
    program=lambda *args, **how: _search(*args, **how, normalised=lambda score, length, p, ended: score),
)
ghost(
    "level03.search.beam_search",
    "returns_the_sums",
    "The score that comes back is the one that was compared: divided by length ** length_penalty.",
    program=lambda *args, **how: _search(*args, **how, raw=True),
)
ghost(
    "level03.search.beam_search",
    "ignores_the_exponent",
    "The length is raised to length_penalty before it divides; yours always takes the mean.",
    program=lambda *args, **how: _search(*args, **how, normalised=lambda score, length, p, ended: score / length),
)
ghost(
    "level03.search.beam_search",
    "penalty_times_length",
    "length ** length_penalty is a power, not a product.",
    program=lambda *args, **how: _search(
        *args, **how, normalised=lambda score, length, p, ended: score / (length * p or 1)
    ),
)
ghost(
    "level03.search.beam_search",
    "multiplies_by_the_length",
    "Divide by length ** length_penalty: multiplied, a longer text gets a worse score still.",
    program=lambda *args, **how: _search(*args, **how, normalised=lambda score, length, p, ended: score * length**p),
)
ghost(
    "level03.search.beam_search",
    "eos_not_counted",
    "The length counts eos_id as well here: x, y and the end are 3 tokens.",
    program=lambda *args, **how: _search(
        *args, **how, normalised=lambda score, length, p, ended: score / max(1, length - ended) ** p
    ),
    convention=True,
)
ghost(
    "level03.search.beam_search",
    "counts_the_start",
    "The length counts new tokens only: no prompt, and no start token.",
    program=lambda *args, **how: _search(
        *args, **how, normalised=lambda score, length, p, ended: score / (length + 1) ** p
    ),
)
ghost(
    "level03.search.beam_search",
    "google_s_length_penalty",
    "((5 + length) / 6) ** p is GNMT's formula; here the score is divided by length ** p.",
    program=lambda *args, **how: _search(
        *args, **how, normalised=lambda score, length, p, ended: score / ((5 + length) / 6) ** p
    ),
    convention=True,
)
ghost(
    "level03.search.beam_search",
    "drops_the_unfinished",
    "Beams that have reached max_tokens are complete as well: they are compared with those that ended.",
    program=lambda *args, **how: _search(*args, **how, cut="never"),
)
ghost(
    "level03.search.beam_search",
    "unfinished_only_to_fill_up",
    "Beams that have reached max_tokens compete with the ended ones even if those are `width` already.",
    program=lambda *args, **how: _search(*args, **how, cut="to fill up"),
)
ghost(
    "level03.search.beam_search",
    "stops_before_the_cut",
    "The last of `width` ends may come in the last step, where max_tokens completes the beams as well: compare them all.",
    change=(
        "finished += beams if length == max_tokens else []",
        "full = early_stopping and len(complete) + len(finished) >= width\n"
        "        finished += beams if length == max_tokens and not full else []",
    ),
)
ghost(
    "level03.search.beam_search",
    "ended_before_cut",
    "Sort what ended and what was cut at max_tokens together, by score: neither comes first.",
    program=lambda *args, **how: _search(*args, **how, cut="behind"),
)
ghost(
    "level03.search.beam_search",
    "in_order_of_completion",
    "Best first: sort by the normalised score before the list is cut to `width`.",
    program=lambda *args, **how: _search(*args, **how, final=lambda complete, width: complete[:width]),
)
ghost(
    "level03.search.beam_search",
    "all_that_ended",
    "At most `width` hypotheses come back.",
    program=lambda *args, **how: _search(
        *args, **how, final=lambda complete, width: sorted(complete, key=lambda text: -text[1])
    ),
)
ghost(
    "level03.search.beam_search",
    "worst_first",
    "The best hypothesis comes first, the one with the largest score.",
    program=lambda *args, **how: _search(
        *args, **how, final=lambda complete, width: sorted(complete, key=lambda text: -text[1])[:width][::-1]
    ),
)
ghost(
    "level03.search.beam_search",
    "the_later_on_a_tie",
    "On a tie of the final scores the hypothesis that was completed first comes first.",
    program=lambda *args, **how: _search(
        *args, **how, final=lambda complete, width: sorted(complete, key=lambda text: text[1])[::-1][:width]
    ),
)
ghost(
    "level03.search.beam_search",
    "ties_by_the_tokens",
    "Sorting tuples compares the tokens on a tie; what counts is which text was completed first.",
    program=lambda *args, **how: _search(
        *args, **how, final=lambda complete, width: sorted(complete, key=lambda text: (-text[1], text[0]))[:width]
    ),
)
ghost(
    "level03.search.beam_search",
    "drops_the_end_token",
    "The text that comes back holds its eos_id; whoever shows it leaves it out.",
    program=lambda *args, **how: _search(
        *args, **how, shown=lambda tokens, eos: tokens[: -1 if tokens[-1] == eos else None]
    ),
    convention=True,
)
ghost(
    "level03.search.beam_search",
    "one_token_too_many",
    "max_tokens counts all new tokens exactly; yours makes one step more.",
    program=lambda ask, width, max_tokens, *args, **how: _search(ask, width, max_tokens, *args, **how, more=1),
)
ghost(
    "level03.search.beam_search",
    "one_token_too_few",
    "max_tokens tokens are allowed: max_tokens - 1 steps after the first, not before it.",
    program=lambda ask, width, max_tokens, *args, **how: _search(ask, width, max_tokens, *args, **how, more=-1),
)


def _fewer_beams(ask, width, max_tokens, eos_id, length_penalty=1.0, early_stopping=False):
    from level03.search import beam_step

    if width < 1 or max_tokens < 1 or length_penalty < 0:
        raise ValueError("no such search")
    beams, ended = [((), 0.0)], []
    for _ in range(max_tokens):
        beams, new = beam_step(beams, ask([tokens for tokens, _ in beams]), width - len(ended), eos_id)
        ended += new
        if not beams or len(ended) >= width:
            break
    scored = [(tokens, score / len(tokens) ** length_penalty) for tokens, score in ended + beams]
    return sorted(scored, key=lambda text: -text[1])[:width]


ghost(
    "level03.search.beam_search",
    "fewer_beams_with_each_end",
    "The search keeps its width: a text that has ended does not cost the others a beam, and better ones may yet end.",
    program=_fewer_beams,
)


def _search(
    ask,
    width,
    max_tokens,
    eos_id,
    length_penalty=1.0,
    early_stopping=False,
    *,
    normalised=lambda score, length, p, ended: score / length**p,
    final=lambda complete, width: sorted(complete, key=lambda text: -text[1])[:width],
    cut="together",
    raw=False,
    shown=lambda tokens, eos: tokens,
    more=0,
):
    """A right search, with places where it can be made wrong."""
    from level03.search import beam_step

    if width < 1 or max_tokens < 1 or length_penalty < 0:
        raise ValueError("no such search")
    value = lambda text: normalised(text[1], len(text[0]), length_penalty, text[0][-1] == eos_id)  # noqa: E731
    beams, ended, steps = [((), 0.0)], [], max(1, max_tokens + more)
    for length in range(1, steps + 1):
        beams, new = beam_step(beams, ask([tokens for tokens, _ in beams]), width, eos_id)
        ended += new
        best = sorted(map(value, ended), reverse=True)[:width]
        full = len(best) == width
        if length < steps and (
            not beams or full and (early_stopping or best[-1] >= normalised(beams[0][1], steps, length_penalty, False))
        ):
            beams = []
            break
    last = {"together": beams, "behind": [], "never": [], "to fill up": beams[: max(0, width - len(ended))]}[cut]
    scored = [(shown(tokens, eos_id), value((tokens, score)), score) for tokens, score in ended + last]
    texts = [(tokens, score if raw else compared) for tokens, compared, score in final(scored, width)]
    if cut == "behind":
        texts = (texts + [(tokens, value((tokens, score))) for tokens, score in beams])[:width]
    return texts
