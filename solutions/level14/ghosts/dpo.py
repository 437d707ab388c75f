"""Known-wrong programs of level14.dpo. `ghost` is given when this is read."""

import torch

_CHOSEN = "reward = beta * (chosen - ref_chosen.detach())"
_REJECTED = "rejected_reward = beta * (rejected - ref_rejected.detach())"
_LOSS = "-logsigmoid(reward - rejected_reward).mean()"
_REWARDS = "reward.detach(), rejected_reward.detach()"
_SUM = "logprobs.masked_fill(~mask, 0).sum(1)"
_ASKED = "positions=positions, mask=mask)"
_SCORED = "logprobs = shifted_logprobs(forward(params, config, ids, positions=positions, mask=mask) / temperature, ids)"
_FIRST = "predicted[:, 1:] &= valid[:, :-1]"
_FILLED = "logprobs.masked_fill(~predicted, 0)"


def _dpo(name, sentence, *pairs):
    ghost("level14.dpo.dpo_loss", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- the loss

_dpo(
    "chosen_and_rejected_exchanged",
    "You teach the rejected answer: the loss falls when the chosen reward is above the rejected one.",
    _LOSS,
    "-logsigmoid(rejected_reward - reward).mean()",
)
_dpo(
    "no_reference",
    "A reward is how far the model has left its reference; yours takes the model's log-probability alone.",
    _CHOSEN,
    "reward = beta * chosen",
    _REJECTED,
    "rejected_reward = beta * rejected",
)
_dpo(
    "references_exchanged",
    "Each answer is compared with the reference's log-probability of the same answer; yours exchanges the two.",
    "ref_chosen.detach()",
    "ref_rejected.detach()",
    "beta * (rejected - ref_rejected.detach())",
    "beta * (rejected - ref_chosen.detach())",
)
_dpo(
    "reference_plus",
    "The reference's log-probability is subtracted: a reward is the logarithm of a ratio.",
    "chosen - ref_chosen",
    "chosen + ref_chosen",
    "rejected - ref_rejected",
    "rejected + ref_rejected",
)
_dpo(
    "beta_dropped",
    "beta multiplies both rewards: without it the model leaves its reference as far as it likes.",
    _CHOSEN,
    "reward = chosen - ref_chosen.detach()",
    _REJECTED,
    "rejected_reward = rejected - ref_rejected.detach()",
)
_dpo(
    "beta_outside_the_sigmoid",
    "beta belongs to the rewards, inside the sigmoid; as a factor of the loss it is only another step size.",
    _LOSS,
    "-beta * logsigmoid((reward - rejected_reward) / beta).mean()",
)
_dpo(
    "rewards_without_beta",
    "The rewards that are given back have beta in them, as they have in the loss.",
    _REWARDS,
    "reward.detach() / beta, rejected_reward.detach() / beta",
)
_dpo(
    "sigmoid_without_logarithm",
    "The loss is -ln sigmoid: without the logarithm the worst pairs have the smallest gradient.",
    _LOSS,
    "-(reward - rejected_reward).sigmoid().mean()",
)
_dpo(
    "logarithm_of_sigmoid",
    "sigmoid of a large negative margin is 0 in float32, and its logarithm -inf: take logsigmoid, or softplus.",
    _LOSS,
    "-(reward - rejected_reward).sigmoid().log().mean()",
)
_dpo(
    "loss_of_the_mean_margin",
    "The mean of the pairs' losses, not the loss of their mean margin: a lost pair hides behind a won one.",
    _LOSS,
    "-logsigmoid((reward - rejected_reward).mean())",
)
_dpo(
    "sum_of_pairs",
    "The mean over the pairs: with a sum the step grows with the batch.",
    _LOSS,
    "-logsigmoid(reward - rejected_reward).sum()",
)
_dpo(
    "loss_of_each_pair",
    "One number for the batch, the mean of the pairs' losses.",
    _LOSS,
    "-logsigmoid(reward - rejected_reward)",
)
_dpo(
    "hinge",
    "A margin of the pairs is not cut at 1: the loss is -ln sigmoid, which never quite ends.",
    _LOSS,
    "(1 - (reward - rejected_reward)).clamp(min=0).mean()",
)
_dpo(
    "reference_learns",
    "The reference is a constant: yours gives it a gradient, and it would run away from the model.",
    "ref_chosen.detach()",
    "ref_chosen",
    "ref_rejected.detach()",
    "ref_rejected",
)
_dpo(
    "rejected_is_a_constant",
    "Both answers teach: the chosen one becomes likelier, and the rejected one less likely.",
    "(rejected - ref_rejected",
    "(rejected.detach() - ref_rejected",
)
_dpo(
    "rewards_with_gradient",
    "The rewards are there to be looked at: detach them, or whoever keeps them keeps the whole graph.",
    _REWARDS,
    "reward, rejected_reward",
)

# ---- one number for an answer

_dpo(
    "mean_of_tokens",
    "The probability of an answer is a product: a sum of logarithms. The mean over its tokens is another method's.",
    _SUM,
    "logprobs.masked_fill(~mask, 0).sum(1) / mask.sum(1)",
)
_dpo(
    "whole_row",
    "Only the tokens of the answer count, not those of the prompt, nor the padding.",
    _SUM,
    "logprobs.sum(1)",
)
_dpo(
    "times_mask",
    "0 · NaN is NaN: fill what is not of the answer with 0 instead of multiplying it by 0.",
    _SUM,
    "(logprobs * mask).sum(1)",
)
_dpo(
    "mask_shifted",
    "Log-probabilities stand at their own tokens already: the mask is not to be shifted against them again.",
    _SUM,
    "logprobs[:, :-1].masked_fill(~mask[:, 1:], 0).sum(1)",
)
_dpo(
    "end_left_out",
    "The answer's last token counts, its end: a model that is not taught it never stops.",
    _SUM,
    "logprobs[:, :-1].masked_fill(~mask[:, :-1], 0).sum(1)",
)
_dpo(
    "one_sum_for_all",
    "A number for each row: the pairs are compared one by one.",
    _SUM,
    "logprobs.masked_fill(~mask, 0).sum()",
)
_dpo(
    "probabilities_added",
    "Log-probabilities are added up, which multiplies the probabilities; yours turns them into probabilities first.",
    _SUM,
    "logprobs.exp().masked_fill(~mask, 0).sum(1)",
)

# ---- rows of different lengths

_dpo(
    "padding_is_seen",
    "Padding is no key for real tokens: a causal mask alone lets every row read the padding before it.",
    "padded_mask(valid, valid.shape[1])",
    "padded_mask(valid | ~valid, valid.shape[1])",
)
_dpo(
    "positions_count_padding",
    "Behind padding a row begins at position 0 all the same; yours counts the padding.",
    "padded_positions(valid)",
    "padded_positions(valid | ~valid)",
)
_dpo(
    "temperature_forgotten",
    "Logits are divided by the temperature before the softmax, or the probabilities are not those of the rollout.",
    "mask=mask) / temperature",
    "mask=mask)",
)
_dpo(
    "temperature_on_logprobs",
    "The temperature divides logits: a log-probability divided by it belongs to no distribution.",
    "mask=mask) / temperature, ids)",
    "mask=mask), ids) / temperature",
)
_dpo(
    "times_temperature",
    "Logits are divided by the temperature: below 1 the distribution gets sharper.",
    "mask=mask) / temperature",
    "mask=mask) * temperature",
)
_dpo(
    "first_token_scored",
    "A row's first real token is predicted by nothing: what the padding before it says is no log-probability of it.",
    _FIRST,
    "pass",
)
_dpo(
    "padding_behind_scored",
    "Padding behind a row gets 0: no token of it was written by anyone.",
    "predicted = valid.clone()\n    predicted[:, 1:] &= valid[:, :-1]",
    "predicted = valid.clone()\n    predicted[:, 1:] = valid[:, :-1]\n    predicted[:, 0] = False",
)
_dpo(
    "last_token_dropped",
    "Every real token but the first is predicted; yours gives 0 to the last one of each row as well.",
    _FIRST,
    "predicted[:, :-1] &= valid[:, 1:]\n    predicted[:, -1] = False\n    predicted[:, 1:] &= valid[:, :-1]",
)
_dpo(
    "logprobs_times_mask",
    "What a model says at padding may be NaN, and 0 · NaN is NaN: fill it with 0.",
    _FILLED,
    "logprobs * predicted",
)
_dpo(
    "no_gradient",
    "These are the log-probabilities that the model learns from: yours cuts their gradient.",
    _FILLED,
    "logprobs.masked_fill(~predicted, 0).detach()",
)


def _row_by_row(params, config, ids, valid, temperature=1.0, *, forward=None):
    import level00.transformer
    from level02.padding import padded_mask, padded_positions
    from level14.sft import shifted_logprobs

    forward = forward or level00.transformer.forward
    positions, mask = padded_positions(valid), padded_mask(valid, valid.shape[1])
    rows = [
        forward(params, config, ids[i : i + 1], positions=positions[i : i + 1], mask=mask[i : i + 1])
        for i in range(len(ids))
    ]
    logprobs = shifted_logprobs(torch.cat(rows) / temperature, ids)
    predicted = valid.clone()
    predicted[:, 1:] &= valid[:, :-1]
    return logprobs.masked_fill(~predicted, 0)


ghost(
    "level14.dpo.dpo_loss",
    "row_by_row",
    "One call of forward for the whole batch: that is what positions and mask are for.",
    program=_row_by_row,
    part="padded_logprobs",
)
