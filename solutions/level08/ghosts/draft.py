"""Known-wrong programs of level08.draft. `ghost` is given when this is read."""


def _ngram(name, sentence, *change, **how):
    ghost("level08.draft.ngram_draft", name, sentence, change=change, **how)


SIZES = "range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1)"
STARTS = "range(len(tokens) - n - 1, -1, -1)"
SAME = "if tokens[start : start + n] == tokens[-n:]:"
FOLLOWS = "return tokens[start + n : start + n + k]"
NONE = "    return []\n"

_ngram(
    "oldest_match",
    "Of several occurrences the latest counts; yours takes the first.",
    (STARTS, "range(len(tokens) - n)"),
)
_ngram(
    "matches_itself",
    "The end of the text always equals itself, and nothing follows it: yours finds that first.",
    (STARTS, "range(len(tokens) - n, -1, -1)"),
)
_ngram(
    "shortest_first",
    "A longer match is better evidence: yours tries the shortest n first.",
    (SIZES, "range(min_ngram, min(max_ngram, len(tokens) - 1) + 1)"),
)
_ngram(
    "returns_the_match",
    "Propose what follows the match; yours begins with the match's last token, which is there already.",
    (FOLLOWS, "return tokens[start + n - 1 : start + n - 1 + k]"),
)
_ngram(
    "returns_the_whole_match",
    "The draft begins behind the n tokens that match; yours begins with them.",
    (FOLLOWS, "return tokens[start : start + k]"),
)
_ngram(
    "skips_a_token",
    "The token right behind the match is the first one of the draft: yours leaves it out.",
    (FOLLOWS, "return tokens[start + n + 1 : start + n + 1 + k]"),
)
_ngram(
    "no_overlap",
    "An occurrence may overlap the last n tokens: in 7 7 the 7 before the last one counts.",
    (STARTS, "range(len(tokens) - 2 * n, -1, -1)"),
)
_ngram(
    "only_with_k_tokens_behind_it",
    "The latest occurrence counts, however little follows it; yours looks for one with k tokens behind it.",
    (SAME, SAME[:-1] + " and start + n + k <= len(tokens):"),
)
_ngram(
    "prefers_k_tokens_behind_it",
    "The latest occurrence counts, however little follows it; yours takes an earlier one that has more behind it.",
    (STARTS, "sorted(range(len(tokens) - n), key=lambda s: (min(k, len(tokens) - n - s), s), reverse=True)"),
)
_ngram(
    "all_that_follows",
    "At most k tokens: what the target can't check in this pass is thrown away.",
    (FOLLOWS, "return tokens[start + n :]"),
)
_ngram(
    "goes_on_where_the_text_ends",
    "The draft is cut where the tokens end; yours goes on with its own first tokens to make it k.",
    (FOLLOWS, "return (tokens[start + n :] * (k + 1))[:k]"),
)
_ngram(
    "only_the_longest",
    "If the longest n does not occur, shorter ones are tried, down to min_ngram.",
    (SIZES, "range(max_ngram, max_ngram - 1, -1)"),
)
_ngram(
    "min_ngram_left_out",
    "n = min_ngram is tried as well: the range ends one too early.",
    (SIZES, "range(min(max_ngram, len(tokens) - 1), min_ngram, -1)"),
)
_ngram(
    "down_to_one",
    "min_ngram is the shortest n that counts: a single token that occurred before is weak evidence.",
    (SIZES, "range(min(max_ngram, len(tokens) - 1), 0, -1)"),
)
_ngram(
    "max_ngram_left_out",
    "n = max_ngram is tried first: yours begins one below it.",
    (SIZES, "range(min(max_ngram - 1, len(tokens) - 1), min_ngram - 1, -1)"),
)
_ngram(
    "always_three",
    "How long an n-gram may be is an argument: 3 is only the default.",
    (SIZES, "range(min(3, len(tokens) - 1), min_ngram - 1, -1)"),
)
_ngram(
    "first_place_left_out",
    "An occurrence may stand at the very beginning of the text: start 0 counts.",
    (STARTS, "range(len(tokens) - n - 1, 0, -1)"),
)
_ngram(
    "last_place_left_out",
    "An occurrence may end right before the last token: the latest start is len(tokens) - n - 1.",
    (STARTS, "range(len(tokens) - n - 2, -1, -1)"),
)
_ngram(
    "a_repeated_token_if_there_is_none",
    "[] when nothing occurred before: a guess costs the target a place in its pass.",
    (NONE, "    return tokens[-1:] * k\n"),
)
_ngram(
    "none_if_there_is_none",
    "No draft is an empty list, not None: the loop goes on from what it gets.",
    (NONE, "    return None\n"),
)
_ngram(
    "as_digits",
    "Token 11 does not end with token 1: compare tokens, not the text of their digits.",
    (SAME, 'if " ".join(map(str, tokens[: start + n])).endswith(" ".join(map(str, tokens[-n:]))):'),
)
_ngram(
    "in_any_order",
    "The n tokens must stand in the same order.",
    (SAME, "if sorted(tokens[start : start + n]) == sorted(tokens[-n:]):"),
)
_ngram(
    "only_the_last_token_compared",
    "All n tokens must be equal, not only the last of them.",
    (SAME, "if tokens[start + n - 1] == tokens[-1]:"),
)
_ngram(
    "asks_the_beginning",
    "It is the last n tokens that are looked for; yours looks for the first n.",
    (SAME, "if tokens[start : start + n] == tokens[:n]:"),
)


def _model(name, sentence, *change, **how):
    ghost("level08.draft.ModelDrafter", name, sentence, change=change, **how)


INIT = "        self.cached: list[int] = []  # the tokens whose keys and values are there\n"
COMMON = "same = common(self.cached, tokens[:-1])"
CUT = "        self.cache.truncate(same)\n"
FORGET = "        del self.cached[same:]  # now: forward may refuse the rest\n"
FEED = "feed = [], list(tokens[same:])"
LOOP = "while len(draft) < k:"
RUN = "logits = self.forward(self.params, self.config, torch.tensor([feed]), self.cache)"
BEST = "draft.append(int(logits[0, -1].argmax()))"
NEXT = "            feed = draft[-1:]\n"
KEEP = "self.cached = [*tokens, *draft[:-1]]"
GIVE = "        return draft\n"

_model(
    "feeds_only_the_last_token",
    "After a round in which all was right, the last proposal has still to run: run all that the cache does not hold.",
    (FEED, "feed = [], list(tokens[-1:])"),
)
_model(
    "never_truncates",
    "What was rejected must leave the drafter's cache: all later proposals are made behind it.",
    (CUT, ""),
)
_model(
    "all_of_the_text_behind_the_cache",
    "The cache holds the text of the call before: yours runs all of the new one behind it, at other positions.",
    (COMMON, "same = 0"),
    (CUT, ""),
    (FORGET, ""),
)
_model(
    "starts_afresh",
    "Right, but all of the text runs again in every round: keep what is common with the text before.",
    (COMMON, "same = 0"),
)
_model(
    "starts_afresh_after_a_rejection",
    "A rejection spoils the end of the cache, not its beginning: cut it off and keep the rest.",
    (COMMON, COMMON + "\n        same = same if same == len(self.cached) else 0"),
)
_model(
    "the_last_token_is_there_as_well",
    "The last token always runs, also when the cache holds it: without a pass there are no logits after it.",
    (COMMON, "same = common(self.cached, tokens)"),
)
_model(
    "proposals_are_forgotten",
    "Proposals have run too, all but the last: those that were accepted need not run again.",
    (KEEP, "self.cached = list(tokens)"),
    (CUT, "        self.cache.truncate(min(same, self.cache.length))\n"),
)
_model(
    "the_last_proposal_is_held_to_have_run",
    "The last proposal of a call was never run: its keys and values are not in the cache.",
    (KEEP, "self.cached = [*tokens, *draft]"),
)
_model(
    "the_last_proposal_runs_too",
    "The last proposal need not run: nobody asks what follows it. Yours takes one pass more than it makes proposals.",
    (GIVE, "        self.forward(self.params, self.config, torch.tensor([draft[-1:]]), self.cache)\n" + GIVE),
    (KEEP, "self.cached = [*tokens, *draft]"),
)
_model(
    "trusts_the_length",
    "A text of some length need not begin like the one before: compare the tokens, not how many there are.",
    (COMMON, "same = min(len(self.cached), len(tokens) - 1)"),
)
_model(
    "trusts_the_text_before",
    "`tokens` may be any text, also a shorter one or another: only what both have in common can stay.",
    (INIT, INIT + "        self.before = 0  # tokens of the call before\n"),
    (COMMON, "same = min(self.before, len(tokens) - 1)"),
    (KEEP, KEEP + "\n        self.before = len(tokens)"),
)
_model(
    "keeps_one_too_many",
    "The first token that differs is not common: the cache is cut before it.",
    (COMMON, COMMON + "\n        same = min(same + 1, len(self.cached), len(tokens) - 1)"),
)
_model(
    "keeps_one_less",
    "All common tokens stay: yours runs the last of them again.",
    (COMMON, COMMON + "\n        same = max(0, same - 1)"),
)
_model(
    "common_from_the_end",
    "Keys depend on the position and on all before it: only a common beginning can stay, not a common end.",
    (COMMON, "same = common(self.cached[::-1], tokens[:-1][::-1])"),
)
_model(
    "counts_equal_places",
    "The common beginning ends with the first token that differs; equal ones behind it followed another text.",
    (COMMON, "same = sum(x == y for x, y in zip(self.cached, tokens[:-1]))"),
)
_model(
    "back_to_the_last_that_agrees",
    "Common is what stands before the first token that differs: yours goes back to the last place that agrees.",
    (COMMON, "same = max((i + 1 for i, (x, y) in enumerate(zip(self.cached, tokens[:-1])) if x == y), default=0)"),
)
_model(
    "cut_by_the_rejected",
    "Of the k proposals only k - 1 have run: the drafter cuts one row less than the target, and never below what is common.",
    (COMMON, COMMON + "\n        same = max(0, same - (same < len(self.cached)))"),
)
_model(
    "logits_of_the_first_token",
    "What follows the text is said by the logits of its last token: yours takes the first one of the pass.",
    (BEST, "draft.append(int(logits[0, 0].argmax()))"),
)
_model(
    "logits_of_all_tokens",
    "argmax over the last token's logits only: over all positions at once it is no token.",
    (BEST, "draft.append(int(logits[0].argmax()))"),
)
_model(
    "all_from_one_pass",
    "One pass gives one token: the second proposal follows the first, so that has to run before.",
    (LOOP, "draft = self.forward(self.params, self.config, torch.tensor([feed]), self.cache)[0, -1]"
     "\n        draft = draft.argsort(descending=True, stable=True)[:k].tolist()\n        while len(draft) < k:"),
    (KEEP, "self.cached = list(tokens)"),
)  # fmt: skip
_model(
    "the_text_again_in_each_pass",
    "From the second proposal on only the newest one runs: the text before it is in the cache.",
    (NEXT, "            self.cache.truncate(0)\n            feed = [*tokens, *draft]\n"),
)
_model(
    "proposal_not_run",
    "Each proposal is what the next one follows: run it, not the last token of the text again.",
    (NEXT, "            feed = list(tokens[-1:])\n"),
)
_model(
    "one_token_a_pass",
    "What has to run before the first proposal runs in one pass: each pass reads all weights.",
    (LOOP, "for token in feed[:-1]:\n            self.forward(self.params, self.config, torch.tensor([[token]]), self.cache)"
     "\n        feed = feed[-1:]\n        while len(draft) < k:"),
)  # fmt: skip
_model(
    "one_proposal_less",
    "k proposals are asked for, and each costs one small pass: yours makes one less.",
    (LOOP, "while len(draft) < max(1, k - 1):"),
)
_model(
    "one_proposal_more",
    "At most k proposals: the target has no place for more.",
    (LOOP, "while len(draft) < k + 1:"),
)
_model(
    "keeps_the_caller_s_list",
    "The caller's list goes on after the call: remember a copy of it, or what has run changes behind your back.",
    (INIT, INIT + "        self.text, self.draft = [], []\n"),
    (COMMON, "self.cached = [*self.text, *self.draft[:-1]]\n        " + COMMON),
    (CUT, "        self.cache.truncate(min(same, self.cache.length))\n"),
    (KEEP, "self.text, self.draft = tokens, list(draft)"),
)
_model(
    "keeps_the_draft_that_it_gives_away",
    "The caller may change the list that it gets: remember a copy of it.",
    (INIT, INIT + "        self.text, self.draft = [], []\n"),
    (COMMON, "self.cached = [*self.text, *self.draft[:-1]]\n        " + COMMON),
    (CUT, "        self.cache.truncate(min(same, self.cache.length))\n"),
    (KEEP, "self.text, self.draft = list(tokens), draft"),
)
_model(
    "a_refused_text_is_remembered",
    "A call that raises has cut the cache already: remember the cut before running anything.",
    (FORGET, ""),
)
_model(
    "remembers_before_it_has_run",
    "A call that raises has not run its tokens: remember them when they are in the cache.",
    (FORGET, "        self.cached = list(tokens)\n"),
)
_model(
    "its_own_forward",
    "Run the `forward` that was given: tests, counters and compiled models come in by it.",
    (RUN, "logits = forward(self.params, self.config, torch.tensor([feed]), self.cache)"),
)
_model(
    "without_the_cache",
    "The cache must be part of the pass: without it the model sees only what is fed.",
    (RUN, "logits = self.forward(self.params, self.config, torch.tensor([feed]))"),
    (CUT, ""),
)
_model(
    "no_cache_at_all",
    "Right, but without a cache each proposal runs the whole text again.",
    (RUN, "logits = self.forward(self.params, self.config, torch.tensor([[*tokens, *draft]]))"),
    (CUT, ""),
)
_model(
    "tensors",
    "Proposals are ints: the loop compares them with the target's tokens.",
    (BEST, "draft.append(logits[0, -1].argmax())"),
)
