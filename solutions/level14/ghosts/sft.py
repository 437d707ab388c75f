"""Known-wrong programs of level14.sft. `ghost` is given when this is read."""

_SCORED = "scored = token_logprobs(logits[:, :-1], ids[:, 1:])"
_PADDED = "return torch.cat([scored.new_zeros(len(ids), 1), scored], 1)"
_IDS = "ids = [token for _, tokens in segments for token in tokens]"
_MASK = 'mask = [role == "assistant" for role, tokens in segments for _ in tokens]'
_PAIR = "return torch.tensor(ids, dtype=torch.long), torch.tensor(mask, dtype=torch.bool)"
_LEARNED = "learned = mask[:, 1:]"
_TOTAL = "total = shifted_logprobs(logits, ids)[:, 1:].masked_fill(~learned, 0).sum()"
_MEAN = "return -total / (learned.sum() if num_tokens is None else num_tokens)"


def _of(kata, part=""):
    def add(name, sentence, *pairs, **more):
        if part:
            more["part"] = part
        ghost(f"level14.sft.{kata}", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)

    return add


_logprobs, _mask, _loss = _of("shifted_logprobs"), _of("sft_loss", "loss_mask"), _of("sft_loss")

# ---- shifted_logprobs

_logprobs(
    "no_shift",
    "Token t is predicted by the logits at t - 1: yours scores it by those at t, which have read it already.",
    _SCORED,
    "scored = token_logprobs(logits[:, 1:], ids[:, 1:])",
)
_logprobs(
    "shifted_the_wrong_way",
    "The logits at t - 1 predict token t: yours asks those at t for token t - 1, which they have just read.",
    _SCORED,
    "scored = token_logprobs(logits[:, 1:], ids[:, :-1])",
)
_logprobs(
    "by_the_predicting_position",
    "Column t belongs to token t, so the 0 comes first: yours has it last, and every number stands one column early.",
    _PADDED,
    "return torch.cat([scored, scored.new_zeros(len(ids), 1)], 1)",
)
_logprobs(
    "first_column_missing",
    "There is a column for each token, and 0 in the first: yours has one column fewer than the ids.",
    _PADDED,
    "return scored",
)
_logprobs(
    "probabilities",
    "Logarithms of the probabilities are asked for: yours are the probabilities.",
    _SCORED,
    "scored = token_logprobs(logits[:, :-1], ids[:, 1:]).exp()",
)
_logprobs(
    "raw_logits",
    "A logit is no log-probability before ln of the row's sum of exponentials is taken off: yours are the raw logits.",
    _SCORED,
    "scored = logits[:, :-1].float().gather(-1, ids[:, 1:, None]).squeeze(-1)",
)
_logprobs(
    "logarithm_of_a_softmax",
    "ln(softmax) of an unlikely token is -inf in yours, as its probability rounds to 0: log_softmax stays finite.",
    _SCORED,
    "scored = logits[:, :-1].float().softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).log()",
)
_logprobs(
    "in_the_logits_type",
    "Log-probabilities are computed in float32: yours have the precision of the logits, three digits in bfloat16.",
    _SCORED,
    "scored = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1).float()",
)
_logprobs(
    "cut_off",
    "The loss learns through these numbers: yours are detached from the logits, so that no gradient reaches the model.",
    _SCORED,
    "scored = token_logprobs(logits[:, :-1].detach(), ids[:, 1:])",
)

# ---- loss_mask

_mask(
    "everything",
    "Only what the assistant says is learned: yours trains the model to write the user's turns too.",
    _MASK,
    "mask = [True for role, tokens in segments for _ in tokens]",
)
_mask(
    "no_end_token",
    "The end token of an answer is learned too: with yours the tuned model never learns to stop.",
    _MASK,
    'mask = [role == "assistant" and i + 1 < len(tokens) for role, tokens in segments for i, _ in enumerate(tokens)]',
)
_mask(
    "last_answer_only",
    "Every assistant turn is learned: yours takes only the last turn of the conversation.",
    _MASK,
    'mask = [role == "assistant" and i + 1 == len(segments) for i, (role, t) in enumerate(segments) for _ in t]',
)
_mask(
    "no_first_token",
    "An answer's first token is learned too, predicted by the prompt's last: yours begins with the second.",
    _MASK,
    'mask = [role == "assistant" and i > 0 for role, tokens in segments for i, _ in enumerate(tokens)]',
)
_mask(
    "predicting_positions",
    "The mask marks the tokens to be learned: yours marks the positions that predict them, one earlier.",
    _PAIR,
    "mask = mask[1:] + mask[:1] * 0 + [False] * bool(mask)\n"
    "    return torch.tensor(ids, dtype=torch.long), torch.tensor(mask, dtype=torch.bool)",
)
_mask(
    "after_the_first_answer_all",
    "A user's turn between two answers is not learned: yours learns everything after the first answer has begun.",
    _PAIR,
    "mask = [any(mask[: i + 1]) for i in range(len(mask))]\n"
    "    return torch.tensor(ids, dtype=torch.long), torch.tensor(mask, dtype=torch.bool)",
)
_mask(
    "all_but_the_user",
    "The system's turn is not learned either: yours leaves out only the user's.",
    _MASK,
    'mask = [role != "user" for role, tokens in segments for _ in tokens]',
)
_mask(
    "answers_alone",
    "The answers are conditioned on the questions, so all tokens stay in ids: yours keeps only the learned ones.",
    _PAIR,
    "ids = [token for token, learned in zip(ids, mask) if learned]\n"
    "    return torch.tensor(ids, dtype=torch.long), torch.tensor(mask, dtype=torch.bool)",
)
_mask(
    "types_guessed",
    "ids are int64 and the mask is bool, of an empty conversation too: yours leaves the types to torch.",
    _PAIR,
    "return torch.tensor(ids), torch.tensor(mask)",
)

# ---- sft_loss

_loss(
    "mean_of_means",
    "There is one mean over all learned tokens: yours is a mean of the rows' means, where short answers weigh more.",
    _TOTAL,
    "lost = shifted_logprobs(logits, ids)[:, 1:].masked_fill(~learned, 0).sum(1)\n"
    "    counts = learned.sum(1)\n"
    "    total = (lost / counts.clamp(min=1)).sum() / (counts > 0).sum() * counts.sum()",
)
_loss(
    "mean_of_means_in_parts_too",
    "A row's tokens weigh what all others do, also where num_tokens is given: yours divides each row by its own count.",
    _TOTAL,
    "lost = shifted_logprobs(logits, ids)[:, 1:].masked_fill(~learned, 0).sum(1)\n"
    "    total = (lost / learned.sum(1).clamp(min=1)).mean() * (num_tokens or learned.sum())",
)
_loss(
    "over_all_tokens",
    "The sum is divided by the number of learned tokens: yours divides by all, so that a long prompt lowers the loss.",
    "(learned.sum() if",
    "(learned.numel() if",
)
_loss(
    "a_sum",
    "The loss is a mean: yours is a sum, whose steps grow with the batch.",
    "(learned.sum() if",
    "(1 if",
)
_loss(
    "mask_not_shifted",
    "mask[:, t] belongs to token t, as column t does: yours pairs it with the token after it.",
    _LEARNED,
    "learned = mask[:, :-1]",
)
_loss(
    "mask_shifted_twice",
    "Log-probabilities are by token already, like the mask: yours shifts once more, and loses each answer's first token.",
    _TOTAL,
    "total = shifted_logprobs(logits, ids)[:, :-1].masked_fill(~learned, 0).sum()",
)
_loss(
    "mask_ignored",
    "Only masked tokens are learned: yours takes the mean over prompt and padding too.",
    _LEARNED,
    "learned = torch.ones_like(mask[:, 1:])",
)
_loss(
    "first_column_counted",
    "Column 0 never counts, since nothing predicts it: yours counts it among the tokens to divide by.",
    "(learned.sum() if",
    "(mask.sum() if",
)
_loss(
    "times_the_mask",
    "What is not learned must not be read: yours multiplies it by 0, and -inf or NaN times 0 is NaN.",
    ".masked_fill(~learned, 0).sum()",
    ".mul(learned).sum()",
)
_loss(
    "nan_hidden",
    "A learned token of probability 0 is an infinite loss, and NaN stays NaN: yours turns both into 0.",
    ".masked_fill(~learned, 0).sum()",
    ".nan_to_num(0, 0, 0).mul(learned).sum()",
)
_loss(
    "sign",
    "The loss is minus the mean log-probability: yours has the other sign, and training makes the answers unlikely.",
    _MEAN,
    _MEAN.replace("-total", "total"),
)
_loss(
    "num_tokens_ignored",
    "num_tokens is what the sum is divided by: yours divides by its own part's count, and short parts weigh more.",
    _MEAN,
    "return -total / learned.sum().clamp(min=1)",
)
_loss(
    "num_tokens_on_top",
    "num_tokens takes the place of the part's own count: yours divides by both.",
    _MEAN,
    "return -total / learned.sum().clamp(min=1) / (num_tokens or 1)",
)
_loss(
    "perplexity",
    "The loss is the mean itself: yours is its exponential, the perplexity.",
    _MEAN,
    "return (-total / (learned.sum() if num_tokens is None else num_tokens)).exp()",
)
_loss(
    "without_a_gradient",
    "The loss learns through the logits: yours is a number cut off from them, with no gradient.",
    _TOTAL,
    "total = shifted_logprobs(logits, ids)[:, 1:].masked_fill(~learned, 0).sum().detach()",
)
