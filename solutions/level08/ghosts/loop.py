"""Known-wrong programs of level08.loop. `ghost` is given when this is read."""


def _loop(name, sentence, *change, **how):
    ghost("level08.loop.speculate", name, sentence, change=change, **how)


BEGIN = "    start, tokens = cache.length, list(prompt)\n"
WHILE = "    while left > 0:\n"
ROOM = "k = min(gamma, left - 1)"
DRAFT = "draft = list(propose(list(tokens), k))[:k] if k else []"
CHUNK = "chunk = tokens[cache.length - start :] + draft"
PASS = "rows = forward(params, config, torch.tensor([chunk]), cache)[0, -len(draft) - 1 :]"
OUTPUT = "output = tokens[len(prompt) :]"
CHOICES = "choices = (int(choose(r[None], [list(prompt)], [output + draft[:i]])) for i, r in enumerate(rows))"
VERIFY = "new = verify_choices(draft, choices)"
STOP = "new = new[: next((i + 1 for i, token in enumerate(new) if token in stop_ids), None)]"
GROW = "        tokens += new\n"
ROLL = "        cache.truncate(start + len(tokens) - 1)\n"
YIELD = "        yield Round(new, len(draft), sum(a == b for a, b in zip(new, draft)))\n"
LEFT = "left = 0 if new[-1] in stop_ids else left - len(new)"

# ---- the cache

_loop(
    "no_rollback",
    "Rejected tokens stay in your cache: later tokens see them, and stand too far back.",
    (ROLL, ""),
    (CHUNK, "chunk = (tokens[-1:] if len(tokens) > len(prompt) else tokens) + draft"),
)
_loop(
    "rolls_back_too_far",
    "Accepted tokens have run: keep their keys and values. Yours runs them again in the next pass.",
    (GROW, "        before = cache.length - len(draft)\n" + GROW),
    (ROLL, "        cache.truncate(before)\n"),
)
_loop(
    "rolls_back_to_the_accepted_ones",
    "The newest token stands behind the accepted ones and has not run: yours runs the last accepted one again, too.",
    (ROLL, "        cache.truncate(max(start, start + len(tokens) - 2))\n"),
)
_loop(
    "rolls_back_one_less",
    "The newest token has no keys and values yet: the row in its place is a rejected token's.",
    (ROLL, "        cache.truncate(min(cache.length, start + len(tokens)))\n"),
    (CHUNK, "chunk = (tokens[-1:] if len(tokens) > len(prompt) else tokens) + draft"),
)
_loop(
    "all_runs_again",
    "Right, but each round runs the whole text: what was accepted stays in the cache.",
    (ROLL, "        cache.truncate(start)\n"),
)
_loop(
    "forgets_what_the_cache_held",
    "The cache may hold a conversation already: its tokens come before the prompt's, and stay.",
    (ROLL, "        cache.truncate(len(tokens) - 1)\n"),
)
_loop(
    "counts_from_the_prompt_on",
    "A cache that is given may hold tokens already: its length counts those and yours, so subtract what it began with.",
    (CHUNK, "chunk = tokens[cache.length :] + draft"),
    (ROLL, "        cache.truncate(len(tokens) - 1)\n"),
)
_loop(
    "takes_the_held_tokens_for_the_prompt_s",
    "What the cache held before is not part of the prompt: all of the prompt has to run.",
    (CHUNK, "chunk = tokens[min(cache.length, len(tokens) - 1) :] + draft"),
)
_loop(
    "rolls_back_after_the_yield",
    "When a round is yielded the cache must be right already: whoever stops there goes on with it.",
    (ROLL, ""),
    (YIELD, YIELD + ROLL),
)
_loop(
    "rolls_back_before_the_next_pass",
    "Roll back at the end of each round, the last one as well: the next turn goes on in this cache.",
    (ROLL, ""),
    (CHUNK, "cache.truncate(min(cache.length, max(start, start + len(tokens) - 1)) if len(tokens) > len(prompt) else start)"
     "\n        " + CHUNK),
)  # fmt: skip
_loop(
    "a_full_round_is_not_rolled_back",
    "Also a round in which all of the draft was right may have to be cut: a stop token ends it in the middle.",
    (ROLL, "        if sum(a == b for a, b in zip(new, draft)) < len(new):\n    " + ROLL),
)
_loop(
    "leaves_the_cache_after_a_stop",
    "After a stop token as well the cache holds all tokens but the newest: the next turn begins behind them.",
    (ROLL, "        if new[-1] not in stop_ids:\n    " + ROLL),
)
_loop(
    "the_newest_token_runs_in_a_pass_of_its_own",
    "The newest token shares the pass with the next draft: yours takes a pass for it alone.",
    (ROLL, "        cache.truncate(start + len(tokens) - 1)\n        held = cache.length\n"),
    (PASS, "first = forward(params, config, torch.tensor([chunk[: len(chunk) - len(draft)]]), cache)[0, -1:]\n"
     "        more = [forward(params, config, torch.tensor([draft]), cache)[0]] if draft else []\n"
     "        rows = torch.cat([first, *more])"),
)  # fmt: skip
_loop(
    "the_prompt_runs_in_a_pass_of_its_own",
    "The first draft shares the prompt's pass: yours runs the prompt alone, one pass more for each request.",
    (BEGIN, BEGIN + "    if left > 0 and len(prompt) > 1:\n"
     "        forward(params, config, torch.tensor([tokens[:-1]]), cache)\n"),
)  # fmt: skip
_loop(
    "the_first_round_has_no_draft",
    "The first pass can check a draft as well: it follows the prompt.",
    (ROOM, "k = min(gamma, left - 1) if len(tokens) > len(prompt) else 0"),
)
_loop(
    "a_pass_for_each_drafted_token",
    "All of the draft is checked in one pass: that is what speculation wins.",
    (PASS, "rows = torch.cat([forward(params, config, torch.tensor([[token]]), cache)[0] for token in chunk])"
     "[-len(draft) - 1 :]"),
)  # fmt: skip
_loop(
    "drops_the_newest_token",
    "The logits of the newest token check the first drafted one: it has to run before the draft.",
    (CHUNK, "chunk = (tokens if len(tokens) == len(prompt) else tokens[-1:] if not draft else []) + draft"),
    (PASS, PASS + "\n        rows = torch.cat([rows, rows[-1:]])[-len(draft) - 1 :]"),
    (ROLL, "        cache.truncate(min(cache.length, start + len(tokens) - 1))\n"),
)

# ---- what is checked

_loop(
    "rows_from_the_front",
    "The last rows of the pass check the draft: in the first round the prompt's rows come before them.",
    (PASS, PASS.replace("[0, -len(draft) - 1 :]", "[0, : len(draft) + 1]")),
)
_loop(
    "rows_one_late",
    "Row i predicts draft[i]: it is the row of the token before. Yours begins with the row of draft[0].",
    (PASS, PASS.replace("[0, -len(draft) - 1 :]", "[0, -max(1, len(draft)) :]")),
    (VERIFY, "new = verify_choices(draft[: len(rows) - 1], choices)"),
)
_loop(
    "no_bonus",
    "If all of the draft is right, the last row gives one more token: yours throws it away.",
    (VERIFY, VERIFY + "\n        new = new[: max(1, len(draft))]"),
)
_loop(
    "keeps_later_matches",
    "Behind the first wrong token everything was computed from a text that is not there: nothing of it counts.",
    (VERIFY, "choices = list(choices)\n        new = [*(c for c, d in zip(choices, draft) if c == d)]\n"
     "        new.append(choices[next((i for i, d in enumerate(draft) if choices[i] != d), len(draft))])"),
)  # fmt: skip
_loop(
    "keeps_the_draft",
    "A wrong token is replaced by the target's choice; yours keeps what was drafted.",
    (VERIFY, VERIFY + "\n        new = [*draft[: len(new)], *new[len(draft) :]]"),
)
_loop(
    "all_or_nothing",
    "The right beginning of a draft stays, though its end is wrong: yours keeps all of it or none.",
    (VERIFY, VERIFY + "\n        new = new if len(new) > len(draft) else new[:1]"),
)
_loop(
    "greedy_whatever_was_asked",
    "What the target's token is, `choose` decides: yours takes the most likely one.",
    (CHOICES, "choices = (int(r.argmax()) for r in rows)"),
)
_loop(
    "only_the_last_token_is_chosen",
    "Each token of the pass is chosen by `choose`, those that confirm a draft as well.",
    (VERIFY, "found = verify_choices(draft, rows.argmax(-1).tolist())\n"
     "        new = [*found[:-1], *(int(choose(rows[i][None], [list(prompt)], [output + draft[:i]]))"
     " for i in [len(found) - 1])]"),
)  # fmt: skip
_loop(
    "chooses_behind_the_wrong_token",
    "Behind the first wrong token nothing is chosen: its logits follow a text that nobody has written.",
    (VERIFY, "new = verify_choices(draft, list(choices))"),
)
_loop(
    "history_without_the_draft",
    "At position i the drafted tokens before it are part of the output: penalties and seeds depend on them.",
    (CHOICES, CHOICES.replace("output + draft[:i]", "list(output)")),
)
_loop(
    "history_with_its_own_token",
    "The drafted token that is checked is not part of the history yet: only those before it.",
    (CHOICES, CHOICES.replace("draft[:i]", "draft[: i + 1]")),
)
_loop(
    "history_of_all_tokens",
    "choose gets the prompt and the output apart: a frequency penalty counts the output only.",
    (CHOICES, CHOICES.replace("[output + draft[:i]]", "[tokens + draft[:i]]")),
)
_loop(
    "prompt_of_all_tokens",
    "choose gets the prompt as it was given; the output so far is another list.",
    (CHOICES, CHOICES.replace("[list(prompt)]", "[list(tokens)]")),
)
_loop(
    "logits_without_a_batch",
    "choose gets logits (1, vocab): one row of a batch.",
    (CHOICES, CHOICES.replace("r[None]", "r")),
)
# ---- the draft

_loop(
    "overshoots",
    "A round gives one token more than its draft: with n tokens to go, draft at most n - 1.",
    (ROOM, "k = gamma"),
)
_loop(
    "one_too_many_at_the_end",
    "The pass gives a token of its own: with n tokens to go, at most n - 1 are drafted.",
    (ROOM, "k = min(gamma, left)"),
)
_loop(
    "drafts_what_it_throws_away",
    "The last drafted token can't be used, since the pass gives one of its own: draft n - 1, not n that are cut later.",
    (ROOM, "k = min(gamma, left)"),
    (STOP, STOP + "[:left]"),
)
_loop(
    "gamma_drafted_then_cut",
    "Ask the drafter only for what there is room for: what it makes beyond that costs time.",
    (DRAFT, "draft = list(propose(list(tokens), gamma))[:k] if k else []"),
)
_loop(
    "takes_all_that_is_proposed",
    "A drafter may give more than it was asked for: what is beyond k is ignored.",
    (DRAFT, DRAFT.replace("[:k]", "")),
)
_loop(
    "asks_for_nothing",
    "With no room for a draft the drafter is not asked: a model that drafts would run for nothing.",
    (DRAFT, "draft = list(propose(list(tokens), k))[:k]"),
)
_loop(
    "the_drafter_s_list_is_the_text",
    "The drafter gets a list of its own: whatever it does to it, the text stays.",
    (DRAFT, DRAFT.replace("list(tokens)", "tokens")),
)
_loop(
    "the_drafter_s_list_is_the_text_and_not_the_output",
    "The drafter gets a list of its own: yours is the text itself, so what the drafter does to it, runs.",
    (BEGIN, BEGIN + "    output: list[int] = []\n"),
    (DRAFT, DRAFT.replace("list(tokens)", "tokens")),
    ("        " + OUTPUT + "\n", ""),
    (GROW, GROW + "        output += new\n"),
)
_loop(
    "the_draft_is_cut_in_place",
    "The list that a drafter gives may be its own: take the first k of it, and leave it as it is.",
    (DRAFT, "draft = propose(list(tokens), k) if k else []\n        if isinstance(draft, list):\n"
     "            del draft[k:]\n        draft = list(draft)[:k]"),
)  # fmt: skip
_loop(
    "the_drafter_sees_the_output_only",
    "The drafter gets prompt and output: a lookup finds most in the prompt.",
    (DRAFT, DRAFT.replace("list(tokens)", "tokens[len(prompt) :]")),
)
_loop(
    "the_drafter_sees_the_prompt_only",
    "The drafter gets prompt and output so far: its draft follows the newest token.",
    (DRAFT, DRAFT.replace("list(tokens)", "list(prompt)")),
)
_loop(
    "the_newest_token_is_kept_from_the_drafter",
    "The draft follows the newest token: the drafter has to see it.",
    (DRAFT, DRAFT.replace("list(tokens)", "tokens[:-1] or tokens[:]")),
)
_loop(
    "drafts_once",
    "Each round has a draft of its own: yours asks in the first one only.",
    (ROOM, "k = min(gamma, left - 1) if len(tokens) == len(prompt) else 0"),
)
_loop(
    "gives_up_after_a_rejection",
    "A draft that was wrong says nothing about the next one: each round asks again.",
    (GROW, GROW + "        gamma = 0 if draft and new[0] != draft[0] else gamma\n"),
)
_loop(
    "gives_up_after_an_empty_draft",
    "Where nothing is found once, something may be found one token later: each round asks again.",
    (GROW, GROW + "        gamma = 0 if k and not draft else gamma\n"),
)
_loop(
    "no_draft_no_more_text",
    "An empty draft is no end: the pass still gives one token.",
    (PASS, "if k and not draft:\n            return\n        " + PASS),
)
_loop(
    "foreign_tokens_are_left_out",
    "A drafted id outside the vocabulary is an error of the setup: yours hides it.",
    (DRAFT, DRAFT + "\n        draft = [token for token in draft if 0 <= token < config.vocab_size]"),
)

# ---- the end

_loop(
    "looks_for_a_stop_at_the_end_only",
    "A stop token may stand among the drafted ones: what follows it in the pass is cut off.",
    (STOP, ""),
)
_loop(
    "goes_on_after_a_stop_in_the_draft",
    "The text ends with a stop token that was drafted and right, too: yours cuts the round there and goes on.",
    (LEFT, "left = 0 if new[-1] in stop_ids and len(new) > len(draft) else left - len(new)"),
)
_loop(
    "goes_on_after_a_stop",
    "The first stop token is the last token.",
    (LEFT, "left -= len(new)"),
)
_loop(
    "stop_token_left_out",
    "The stop token is part of the output, as in level 01.",
    (STOP, STOP + "\n        ended = new[-1] in stop_ids\n        new = new[: len(new) - ended]"),
    (LEFT, "left = 0 if ended else left - len(new)"),
)
_loop(
    "last_of_several_stops",
    "The first stop token ends the text, not the last one of the pass.",
    (STOP, "new = new[: max((i + 1 for i, token in enumerate(new) if token in stop_ids), default=None)]"),
)
_loop(
    "stops_where_the_drafter_would",
    "A stop token that was drafted and is wrong ends nothing: it is the target who stops.",
    (LEFT, "left = 0 if {*new, *draft} & {*stop_ids} else left - len(new)"),
)
_loop(
    "counts_rounds",
    "max_tokens counts tokens, and a round may give several.",
    (LEFT, "left = 0 if new[-1] in stop_ids else left - 1"),
)
_loop(
    "counts_accepted_tokens",
    "The target's own token of each round counts towards max_tokens as well.",
    (LEFT, "left = 0 if new[-1] in stop_ids else left - max(1, len(new) - 1)"),
)
_loop(
    "too_much_is_cut_at_the_end_of_the_text",
    "What is left is known before the round: it is max_tokens, or fewer where the model's length comes first.",
    (BEGIN, BEGIN + "    left = max_tokens\n"),
)

# ---- rounds

_loop(
    "accepted_counts_the_bonus",
    "accepted counts tokens of the draft: the target's own one is not among them.",
    (YIELD, "        yield Round(new, len(draft), len(new))\n"),
)
_loop(
    "accepted_is_one_less_than_the_tokens",
    "If a drafted stop token ends the round there is no token of the target's own: all of the new ones are the draft's.",
    (YIELD, "        yield Round(new, len(draft), len(new) - 1)\n"),
)
_loop(
    "accepted_before_the_cut",
    "accepted counts new tokens: what was right behind a stop token is not one of them.",
    (VERIFY, VERIFY + "\n        right = sum(a == b for a, b in zip(new, draft))"),
    (YIELD, "        yield Round(new, len(draft), right)\n"),
)
_loop(
    "accepted_are_all_that_match",
    "Behind the first wrong token a match is an accident: only the beginning of the draft is accepted.",
    (YIELD, "        yield Round(new, len(draft), sum(token in new for token in draft))\n"),
)
_loop(
    "proposed_is_what_was_asked_for",
    "proposed is how many were drafted: a drafter may give fewer than it was asked for.",
    (YIELD, YIELD.replace("len(draft)", "k")),
)
_loop(
    "proposed_is_gamma",
    "gamma is the most that is drafted: near the end, or when the drafter has little, it is less.",
    (YIELD, YIELD.replace("len(draft)", "gamma")),
)
_loop(
    "proposed_before_the_cut",
    "What a drafter gives beyond k is not drafted: it is ignored before the pass.",
    (DRAFT, "whole = list(propose(list(tokens), k)) if k else []\n        draft = whole[:k]"),
    (YIELD, YIELD.replace("len(draft)", "len(whole)")),
)
_loop(
    "all_rounds_at_the_end",
    "Yield a round as soon as it is known: a user waits for its tokens.",
    (BEGIN, BEGIN + "    rounds = []\n"),
    (YIELD, YIELD.replace("yield Round", "rounds.append(Round").rstrip() + ")\n"),
    (LEFT, LEFT + "\n    yield from rounds"),
)
_loop(
    "one_pass_ahead",
    "Yield a round before the next pass: who stops reading should not pay for one more.",
    (BEGIN, BEGIN + "    ready = None\n"),
    (YIELD, "        if ready:\n            yield ready\n" + YIELD.replace("yield", "ready =")),
    (LEFT, LEFT + "\n    if ready:\n        yield ready"),
)
_loop(
    "the_prompt_grows",
    "The prompt is the caller's list: work on a copy.",
    (
        BEGIN,
        "    start, tokens, size = cache.length, prompt if isinstance(prompt, list) else list(prompt), len(prompt)\n",
    ),
    (OUTPUT, "output = tokens[size:]"),
    (CHOICES, CHOICES.replace("list(prompt)", "list(prompt[:size])")),
)
