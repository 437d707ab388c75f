"""Known-wrong programs of level14.rollout. `ghost` is given when this is read."""

_SEEDS = "seeds = [None if sampling.seed is None else sampling.seed + i for i in range(group)]"
_PREFILL = "logits = prefill(params, config, prompt, own, forward=forward).expand(group, -1)"
_REPEATED = "cache = repeated(own, config, group, len(prompt) + limit, dtype)"
_SCORES = "scores = process(logits, sampling, [prompt] * group, [answer.tokens for answer in answers])"
_U = "u = torch.tensor([uniform(seed, step) for seed in seeds], dtype=torch.float64)"
_TOKENS = "tokens = inverse_cdf(scores.double().softmax(-1), u)"
_LOGPROBS = "logprobs = token_logprobs(scores, tokens)"
_ALL = "for i in live:"
_LIVE = "live = {i for i in live if answers[i].tokens[-1] not in stop_ids}"
_OVER = "if not live or step + 1 == limit:"
_NEXT = "logits = forward(params, config, tokens.unsqueeze(1), cache)[:, -1]"
_BEFORE = "return ends.cumsum(1) - ends == 0"
_CACHED = "cached_tokens = group * (new * prompt + new * (new - 1) / 2)  # over all steps"


def _of(part=""):
    def add(name, sentence, *pairs, **more):
        if part:
            more["part"] = part
        ghost("level14.rollout.rollout", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)

    return add


_rollout, _mask, _share = _of(), _of("answer_mask"), _of("rollout_share")

# ---- rollout

_rollout(
    "one_answer_at_a_time",
    "One pass serves the whole group: yours decodes the answers one after another, and reads all weights for each.",
    _SEEDS,
    "from dataclasses import replace\n"
    "    if group > 1:\n"
    "        own = [None if sampling.seed is None else sampling.seed + i for i in range(group)]\n"
    "        args = [(params, config, prompt, 1, replace(sampling, seed=seed), stop_ids) for seed in own]\n"
    "        return [rollout(*each, forward=forward)[0] for each in args]\n"
    "    " + _SEEDS,
)
_rollout(
    "a_prompt_for_each_answer",
    "The prompt is run once, whatever the group is: yours runs one copy of it for each answer.",
    _PREFILL,
    "cache = KVCache(config, group, len(prompt) + limit, dtype)",
    _REPEATED,
    "logits = forward(params, config, torch.tensor([list(prompt)] * group), cache)[:, -1]",
)
_rollout(
    "the_whole_text_again",
    "The cache holds what has been run: yours feeds prompt and answer again at every step.",
    _NEXT,
    "text = torch.tensor([[*prompt, *answer.tokens, *[0] * (step + 1 - len(answer.tokens))] for answer in answers])\n"
    "        logits = forward(params, config, text, KVCache(config, group, text.shape[1], dtype))[:, -1]",
)
_rollout(
    "a_pass_for_nothing",
    "What follows the last token is not asked for: yours makes one more pass than tokens need.",
    _OVER,
    "logits = forward(params, config, tokens.unsqueeze(1), cache)[:, -1]\n        if not live or step + 1 == limit:",
    "            break\n        " + _NEXT,
    "            break",
)
_rollout(
    "passes_after_the_end",
    "When every answer has ended, no pass is needed: yours goes on to max_tokens, and throws the tokens away.",
    _OVER,
    "if step + 1 == limit:",
)
_rollout(
    "ends_with_the_first",
    "The group goes on until every answer has ended: yours stops all of them when the first one does.",
    _LIVE,
    "ended = [i for i in live if answers[i].tokens[-1] in stop_ids]\n        live = set() if ended else live",
)
_rollout(
    "stops_ignored",
    "An answer ends with a stop token: yours goes on to max_tokens, and what follows the end is trained on.",
    _LIVE,
    "pass",
)
_rollout(
    "end_token_dropped",
    "The stop token is part of its answer, and scored: without it the model never learns to stop.",
    _ALL,
    "live = {i for i in live if int(tokens[i]) not in stop_ids}\n        for i in live:",
    _LIVE,
    "pass",
)
_rollout(
    "end_token_not_scored",
    "Every token has its log-probability, the stop token too: yours has one fewer where an answer has ended.",
    "answers[i].logprobs.append(float(logprobs[i]))",
    "answers[i].logprobs += [] if int(tokens[i]) in stop_ids else [float(logprobs[i])]",
)
_rollout(
    "ended_rows_go_on",
    "A row that has ended is fed anything, and gets nothing: yours goes on writing into its answer.",
    _ALL,
    "for i in range(group):",
)
_rollout(
    "one_seed_for_all",
    "Answer i has the seed sampling.seed + i: with one seed for all, the answers are equal, and every advantage is 0.",
    "else sampling.seed + i for",
    "else sampling.seed for",
)
_rollout(
    "one_draw_repeated",
    "Each answer is drawn on its own: yours draws one and copies it, so that no answer is better than another.",
    _TOKENS,
    "tokens = inverse_cdf(scores.double().softmax(-1), u)[:1].expand(group)",
)
_rollout(
    "one_first_token_for_all",
    "The first logits are the same for all answers, the first tokens are not: each is drawn with its own seed's u.",
    _TOKENS,
    _TOKENS + "\n        tokens = tokens if step else tokens[:1].expand(group)",
)
_rollout(
    "prompt_not_penalized",
    "Penalties see the prompt as well: yours shows them the answer alone.",
    "[prompt] * group",
    "[[]] * group",
)
_rollout(
    "no_seed_is_seed_zero",
    "Without a seed each answer is any: yours takes 0 for it, and answers every time the same.",
    _SEEDS,
    "seeds = [0 if sampling.seed is None else sampling.seed + i for i in range(group)]",
)
_rollout(
    "seed_zero_is_none",
    "0 is a seed like any other: yours takes it for none, and answers differently every time.",
    _SEEDS,
    "seeds = [sampling.seed + i if sampling.seed else None for i in range(group)]",
)
_rollout(
    "the_same_number_each_step",
    "u depends on the number of the answer's tokens: yours uses the number of the first token at every step.",
    "uniform(seed, step)",
    "uniform(seed, 0)",
)
_rollout(
    "numbers_from_one",
    "The first token's random number is uniform(seed, 0): yours begins with 1.",
    "uniform(seed, step)",
    "uniform(seed, step + 1)",
)
_rollout(
    "by_the_position",
    "u is counted by the answer's tokens: yours counts the prompt's as well, and level 03 draws other tokens.",
    "uniform(seed, step)",
    "uniform(seed, len(prompt) + step)",
)
_rollout(
    "greedy",
    "Answers are drawn: yours takes the most likely token each time, and the group is one answer.",
    _TOKENS,
    "tokens = scores.argmax(-1)",
)
_rollout(
    "raw_log_probabilities",
    "A log-probability is that of the distribution drawn from: yours is the model's, before temperature and filters.",
    _LOGPROBS,
    "logprobs = token_logprobs(logits, tokens)",
)
_rollout(
    "temperature_alone",
    "A log-probability is that of the distribution drawn from: yours has the temperature, but no filters and penalties.",
    _LOGPROBS,
    "logprobs = token_logprobs(logits / sampling.temperature, tokens)",
)
_rollout(
    "temperature_twice",
    "The processed scores have the temperature already: yours divides by it once more for the log-probability.",
    _LOGPROBS,
    "logprobs = token_logprobs(scores / sampling.temperature, tokens)",
)
_rollout(
    "probabilities",
    "ln of the probability is asked for: yours is the probability.",
    _LOGPROBS,
    "logprobs = token_logprobs(scores, tokens).exp()",
)
_rollout(
    "logits_unprocessed",
    "The logits are processed as sampling asks, before a token is drawn: yours draws from the raw ones.",
    _SCORES,
    "scores = logits",
)
_rollout(
    "no_penalty_for_the_answer",
    "Penalties see the answer's tokens as well: yours shows them the prompt alone.",
    "[answer.tokens for answer in answers]",
    "[[]] * group",
)
_rollout(
    "prompt_among_the_output",
    "Presence and frequency count an answer's own tokens: yours counts the prompt's among them.",
    "[answer.tokens for answer in answers]",
    "[[*prompt, *answer.tokens] for answer in answers]",
)
_rollout(
    "penalties_of_a_neighbour",
    "An answer is penalized for its own tokens: yours uses the first answer's for all.",
    "[answer.tokens for answer in answers]",
    "[answers[0].tokens] * group",
)
_rollout(
    "empty_cache",
    "The group's rows begin with the prompt's keys and values: yours begin with an empty cache, at position 0.",
    _REPEATED,
    "cache = KVCache(config, group, len(prompt) + limit, dtype)",
)
_rollout(
    "one_token_fewer",
    "An answer has up to max_tokens tokens: yours ends one earlier.",
    "for step in range(limit):",
    "for step in range(max(1, limit - 1)):",
    _OVER,
    "if not live or step + 1 == max(1, limit - 1):",
)

# ---- answer_mask

_mask(
    "all_but_the_end_token",
    "The first end token counts: yours leaves every one out, as if it were padding, and the model never stops.",
    _BEFORE,
    "return ends == 0",
)
_mask(
    "up_to_the_end",
    "The first end token counts too: yours ends one token before it.",
    _BEFORE,
    "return ends.cumsum(1) == 0",
)
_mask(
    "every_end_token",
    "After the first end token nothing counts: yours counts the later ones as well, which are padding.",
    _BEFORE,
    "return (ends.cumsum(1) - ends == 0) | (ends == 1)",
)
_mask(
    "up_to_the_last_end",
    "The answer ends with the first end token: yours goes on to the last one.",
    _BEFORE,
    "later = ends.flip(1).cumsum(1).flip(1)\n    return (later > 0) | (ends.sum(1, keepdim=True) == 0)",
)
_mask(
    "one_after_the_end",
    "Nothing counts after the first end token: yours takes one more, whatever it is.",
    _BEFORE,
    "before = ends.cumsum(1) - ends\n    return torch.cat([before[:, :1], before[:, :-1]], 1) == 0",
)
_mask(
    "unfinished_left_out",
    "An answer without an end token counts whole: yours leaves it out.",
    _BEFORE,
    "return (ends.cumsum(1) - ends == 0) & (ends.sum(1, keepdim=True) > 0)",
)
_mask(
    "whole_numbers",
    "The mask is boolean: yours is made of whole numbers, and would pick rows instead of masking.",
    _BEFORE,
    "return (ends.cumsum(1) - ends == 0).long()",
)
_mask(
    "down_the_columns",
    "Each row is an answer: yours counts the ends of the rows above.",
    "ends.cumsum(1)",
    "ends.cumsum(0)",
)

# ---- rollout_share

_share(
    "no_cache_reads",
    "Each step reads every answer's keys and values too: yours reads the weights alone.",
    _CACHED,
    "cached_tokens = 0",
)
_share(
    "weights_for_each_answer",
    "A step reads the weights once for the whole group: yours reads them for each answer.",
    "(new * weight_bytes +",
    "(new * group * weight_bytes +",
)
_share(
    "one_cache_for_all",
    "Each answer has its own cached tokens: yours reads them of one.",
    "group * (new * prompt",
    "1 * (new * prompt",
)
_share(
    "cache_that_does_not_grow",
    "Step t reads prompt + t tokens: yours reads the prompt's alone.",
    "(new * prompt + new * (new - 1) / 2)",
    "(new * prompt)",
)
_share(
    "cache_as_at_the_end",
    "Step t reads prompt + t tokens: yours reads prompt + new at every step.",
    "(new * prompt + new * (new - 1) / 2)",
    "(new * (prompt + new))",
)
_share(
    "cache_after_the_step",
    "Step t, from 0 on, reads prompt + t tokens: yours counts from 1.",
    "new * (new - 1) / 2",
    "new * (new + 1) / 2",
)
_share(
    "forward_only",
    "Learning costs three forward passes, one and a backward pass of two: yours counts one.",
    "3 * group",
    "group",
)
_share(
    "learns_from_new_tokens_only",
    "The forward pass of learning runs over the prompt as well: yours counts the new tokens.",
    "group * (prompt + new)",
    "group * new",
)
_share(
    "one_prompt_for_the_group",
    "Learning runs over every answer with its prompt: yours runs over the prompt once.",
    "group * (prompt + new)",
    "(prompt + group * new)",
)
_share(
    "at_the_peak",
    "Learning reaches utilization times the peak: yours reaches the peak itself.",
    "(utilization * hardware.peak_flops)",
    "hardware.peak_flops",
)
_share(
    "ratio_instead_of_a_share",
    "A share lies between 0 and 1, decoding over both: yours is decoding over learning.",
    "return decoding / (decoding + learning)",
    "return decoding / learning",
)
_share(
    "share_of_learning",
    "The decoding's share is asked for: yours is the learning's.",
    "return decoding / (decoding + learning)",
    "return learning / (decoding + learning)",
)
_share(
    "two_passes",
    "Learning is three forward passes' worth: the backward pass takes two of them, and the forward pass comes on top.",
    "learning = 3 *",
    "learning = 2 *",
)
