"""Judges grpo.py by the papers' formulas in Python's floats, token by token, and by their derivatives."""

import math

import pytest
import torch
from torch import tensor

from level14.grpo import aggregate, clipped_objective, group_advantages, grpo_loss, kl_k3, truncated_weight

NAN = float("nan")

# ---- the loss, by hand


def by_hand(logp, logp_old, advantages, mask, low=0.2, high=0.2, ref=None, beta=0.0, weight=None, how="token", most=0):
    """Oracle: (loss, its gradient by logp), one token after the other; no difference is near a cut."""
    counts = [sum(row) for row in mask]
    shares = {"token": lambda i: sum(counts), "sequence": lambda i: counts[i] * len(mask), "constant": lambda i: 0}
    loss, gradient = 0.0, [[0.0] * len(row) for row in mask]
    for i, row in enumerate(mask):
        for t in (t for t, there in enumerate(row) if there):
            ratio, a = math.exp(logp[i][t] - logp_old[i][t]), advantages[i]
            cut = (a > 0 and ratio > 1 + high) or (a < 0 and ratio < 1 - low)
            w = 1.0 if weight is None else weight[i][t]
            gain = w * a * ((1 + high if a > 0 else 1 - low) if cut else ratio)
            slope = 0.0 if cut else w * a * ratio
            if beta:
                d = ref[i][t] - logp[i][t]
                gain -= beta * (math.exp(d) - d - 1)
                slope -= beta * (1 - math.exp(d))
            share = len(mask) * most if how == "constant" else shares[how](i)
            loss -= gain / share
            gradient[i][t] = -slope / share
    return tensor(loss), tensor(gradient)


def loss_and_gradient(logp, *args, **options):
    logp = logp.clone().requires_grad_()
    loss = grpo_loss(logp, *args, **options)
    loss.backward()
    return loss.detach(), logp.grad


MASK = [[0, 1, 1, 1, 1], [0, 1, 1, 0, 0], [1, 1, 1, 0, 0]]
THERE = tensor(MASK).bool()


def drawn(seed, size=0.5, middle=-1.5):
    return middle + size * torch.randn(3, 5, generator=torch.Generator().manual_seed(seed))


LOGP, OLD, REF, WEIGHT = drawn(1), drawn(2), drawn(3), drawn(4, 0.3, 1.2)
ADVANTAGES = tensor([1.1, -0.7, -0.4])
PLAIN = LOGP, OLD, ADVANTAGES, THERE
NUMBERS = [x.tolist() for x in PLAIN]


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_at_ratio_1_the_gradient_is_the_advantage_and_not_0(expect):
    """The docstring's example. The value says nothing about the step: each token of the answer gets -1/2."""
    logp = tensor([[-0.5, -2.0, -1.0]])
    right = tensor(-1.0), tensor([[-0.5, -0.5, 0.0]])
    expect(loss_and_gradient, logp, logp, tensor([1.0]), tensor([[1, 1, 0]]).bool()).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("how, most", [("token", None), ("sequence", None), ("constant", 8)])
def test_the_three_divisors(expect, how, most):
    """Papers and trainers differ here: tokens of all, of each answer first, or the most that there could be."""
    right = by_hand(*NUMBERS, how=how, most=most)
    expect(loss_and_gradient, *PLAIN, how=how, max_tokens=most).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_kl_is_a_penalty(expect):
    """Beta times the distance from the reference is paid, not won, by each token of the answers and of no other."""
    right = by_hand(*NUMBERS, ref=REF.tolist(), beta=0.4)
    expect(loss_and_gradient, *PLAIN, logp_ref=REF, beta=0.4).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_weight_is_of_the_objective_and_not_of_the_kl(expect):
    """The KL is the model's own: that another program wrote the tokens is a matter of the objective."""
    right = by_hand(*NUMBERS, ref=REF.tolist(), beta=0.4, weight=WEIGHT.tolist(), how="sequence")
    given = {"logp_ref": REF, "beta": 0.4, "weight": WEIGHT, "how": "sequence"}
    expect(loss_and_gradient, *PLAIN, **given).equals(right)
    right = by_hand(*NUMBERS, ref=REF.tolist(), beta=0.7, weight=WEIGHT.tolist(), how="constant", most=7)
    given = {"logp_ref": REF, "beta": 0.7, "weight": WEIGHT, "how": "constant", "max_tokens": 7}
    expect(loss_and_gradient, *PLAIN, **given).equals(right)
    expect(loss_and_gradient, *PLAIN, weight=WEIGHT).equals(by_hand(*NUMBERS, weight=WEIGHT.tolist()))


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_both_ends_of_the_clip_are_given(expect):
    """DAPO leaves more room above than below. 0.1 and 0.5: some ratios here are cut by one and not by the other."""
    expect(loss_and_gradient, *PLAIN, eps_low=0.1, eps_high=0.5).equals(by_hand(*NUMBERS, low=0.1, high=0.5))


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_every_token_gets_its_own_answers_advantage(expect):
    """As many answers as tokens: by the other axis it would fit too, and reward a position instead of an answer."""
    logp = LOGP[:, :3]
    right = by_hand(logp.tolist(), logp.tolist(), NUMBERS[2], [[1, 1, 1]] * 3)
    expect(loss_and_gradient, logp, logp, ADVANTAGES, torch.ones(3, 3).bool()).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize(
    "other, which",
    [(NAN, (0, 1, 2, 3)), (-math.inf, (0, 1, 2, 3)), (NAN, (3,)), (NAN, (1,)), (NAN, (2,)), (90.0, (0, 2))],
    ids=["NaN", "inf", "weight", "old", "reference", "finite"],
)
def test_what_stands_at_the_padding_does_not_matter(expect, other, which):
    """0 · NaN is NaN, in a value and in a gradient: one padded row would end the run."""
    tensors = [x.masked_fill(~THERE, other) if i in which else x for i, x in enumerate((LOGP, OLD, REF, WEIGHT))]
    logp, old, ref, weight = tensors
    right = by_hand(*NUMBERS, ref=REF.tolist(), beta=0.4, weight=WEIGHT.tolist())
    expect(loss_and_gradient, logp, old, ADVANTAGES, THERE, logp_ref=ref, beta=0.4, weight=weight).equals(right)


def who_learns(logp, logp_old, advantages, mask, logp_ref, weight):
    """Which of logp, logp_old, advantages, logp_ref and weight get a gradient."""
    tensors = [x.clone().requires_grad_() for x in (logp, logp_old, advantages, logp_ref, weight)]
    logp, logp_old, advantages, logp_ref, weight = tensors
    grpo_loss(logp, logp_old, advantages, mask, logp_ref=logp_ref, beta=0.4, weight=weight).backward()
    return [x.grad is not None and bool(x.grad.any()) for x in tensors]


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_gradient_flows_through_logp_alone(expect):
    """A reference or an engine that is trained along with the model is no fixed point any more."""
    expect(who_learns, *PLAIN, REF, WEIGHT).equals([True, False, False, False, False])


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_a_reference_without_a_beta_changes_nothing(expect):
    """Beta is 0 by default, as in DAPO and Dr. GRPO: no penalty."""
    expect(loss_and_gradient, *PLAIN, logp_ref=REF).equals(by_hand(*NUMBERS))


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize(
    "empty, options",
    [(True, {}), (False, {"beta": -0.1, "logp_ref": REF}), (False, {"beta": 0.1})],
    ids=["a row without a token", "beta below 0", "no reference"],
)
def test_what_has_no_loss_is_refused(expect, empty, options):
    """An answer without a token has no mean; a penalty needs something to be far from."""
    mask = THERE & tensor([[True], [not empty], [True]])
    expect(grpo_loss, *PLAIN).equals(by_hand(*NUMBERS)[0])
    expect(grpo_loss, LOGP, OLD, ADVANTAGES, mask, **options).raises(ValueError)


# ---- advantages


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_an_answer_is_compared_with_its_own_group(expect):
    """The docstring's example. Two prompts, one harder: its answers are not worse for that."""
    expect(group_advantages, tensor([[1.0, 0, 0, 1]])).equals(tensor([[0.866024, -0.866024, -0.866024, 0.866024]]))
    right = tensor([[-1.0, 0.0, 1.0], [-1.0911, 0.2182, 0.8729]])
    expect(group_advantages, tensor([[5.0, 7.0, 9.0], [-2.0, 1.0, 2.5]])).equals(right, abs=1e-4)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_without_the_division_the_distance_from_the_mean_is_left(expect):
    """Dr. GRPO: a group in which nearly all agree would otherwise count most."""
    expect(group_advantages, tensor([[1.0, 0, 0, 1], [8.0, 2, 1, 1]]), False).equals(
        tensor([[0.5, -0.5, -0.5, 0.5], [5.0, -1, -2, -2]])
    )


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_eps_is_added_to_the_standard_deviation(expect):
    """Not to the variance: 0.5 / (0.57735 + 0.1). TRL's 1e-4 gives 0.865875."""
    expect(group_advantages, tensor([[1.0, 0, 0, 1]]), eps=0.1).equals(
        tensor([[0.738173, -0.738173] * 2])[:, [0, 1, 3, 2]]
    )
    expect(group_advantages, tensor([[1.0, 0, 0, 1]]), eps=1e-4).equals(
        tensor([[0.865875, -0.865875] * 2])[:, [0, 1, 3, 2]]
    )


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("reward, answers", [(1.0, 4), (0.9, 3), (0.1, 7), (0.0, 2)])
def test_equal_rewards_are_no_signal(expect, reward, answers):
    """All right or all wrong: 0 / 0 would be NaN, and a rounded mean over eps an advantage out of nothing."""
    rewards = torch.full((2, answers), reward)
    rewards[1, 0] = 0.25
    alone = math.copysign((answers - 1) / answers**0.5, 0.25 - reward)
    right = torch.zeros(2, answers)
    right[1] = -alone / (answers - 1)
    right[1, 0] = alone
    expect(group_advantages, rewards).equals(right, abs=1e-4)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_a_missing_reward_is_not_a_reward_of_0(expect):
    """A judge that timed out has not judged: mean and deviation are those of the others, and the answer gets 0."""
    rewards = tensor([[1, NAN, 1.0, 1], [1, NAN, 0, NAN], [NAN, NAN, NAN, NAN], [3, NAN, NAN, NAN], [5, NAN, 1, 0]])
    right = tensor(
        [[0.0, 0, 0, 0], [0.70711, 0, -0.70711, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1.13389, 0, -0.37796, -0.75593]]
    )
    expect(group_advantages, rewards).equals(right, abs=1e-5)
    right = tensor([[0.0, 0, 0, 0], [0.5, 0, -0.5, 0], [0, 0, 0, 0], [0, 0, 0, 0], [3, 0, -1, -2]])
    expect(group_advantages, rewards, False).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("shape", [(3, 1), (4,), (0,)])
def test_a_group_of_one_is_refused(expect, shape):
    """Its answer is its own mean."""
    expect(group_advantages, tensor([[2.0, 4.0]]), False).equals(tensor([[-1.0, 1.0]]))
    expect(group_advantages, torch.ones(shape)).raises(ValueError)


# ---- the clip

FOUR = tensor([0.5, -0.5, 0.5, -0.5]), torch.zeros(4), tensor([1.0, 1, -1, -1])


def objective_and_gradient(logp, logp_old, advantages, *eps):
    """The values, and their gradient by logp."""
    logp = logp.clone().requires_grad_()
    values = clipped_objective(logp, logp_old, advantages, *eps)
    values.sum().backward()
    return values.detach(), logp.grad


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_smaller_one_of_clipped_and_unclipped(expect):
    """A bad answer that became likelier costs all that it costs; of what is cut the gradient is 0."""
    right = tensor([1.2, 0.60653, -1.64872, -0.8]), tensor([0, 0.60653, -1.64872, 0])
    expect(objective_and_gradient, *FOUR).equals(right)
    right = tensor([1.28, 0.60653, -1.64872, -0.9]), tensor([0, 0.60653, -1.64872, 0])
    expect(objective_and_gradient, *FOUR, 0.1, 0.28).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_one_advantage_broadcasts_over_its_tokens(expect):
    """(B, 1) against (B, T), and a small step that is not clipped."""
    old, advantages = tensor([[-1.0, -2.0, -0.5], [-3.0, -0.1, -0.7]]), tensor([[2.0], [-0.5]])
    right = 1.10517 * advantages.expand(2, 3)
    expect(objective_and_gradient, old + 0.1, old, advantages).equals((right, right))


def by_itself(logp, advantages):
    """The gradient where the old log-probabilities are the very tensor that learns."""
    logp = logp.clone().requires_grad_()
    clipped_objective(logp, logp, advantages).sum().backward()
    return logp.grad


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_first_step_learns(expect):
    """New and old are the same tensor, the ratio is 1, and the gradient is the advantage."""
    expect(by_itself, tensor([-0.3, -2.0, -1.0]), tensor([3.0, -1.5, 0.0])).equals(tensor([3.0, -1.5, 0.0]))


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_a_ratio_is_finite_however_far_the_model_went(expect):
    """exp(500) is inf, and a single token ends the run. Up to 20 a ratio is what it is."""
    logp, advantages = tensor([500.0, -500.0, 500.0, 19.0]), tensor([-1.0, 1.0, 1.0, -1.0])
    right = tensor([-math.exp(20), math.exp(-20), 1.2, -math.exp(19)])
    expect(clipped_objective, logp, torch.zeros(4), advantages).equals(right, rel=1e-4, abs=1e-12)


# ---- the distance from the reference


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_direction_of_the_kl(expect):
    """The docstring's example: the reference over the model, since the model wrote the tokens."""
    right = tensor([0, 0.367879, 0.718282])
    expect(kl_k3, tensor([0.0, -1, -2]), tensor([0.0, -2, -1])).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_its_mean_over_the_models_tokens_is_the_divergence(expect):
    """Enumerated: each of three tokens as often as the model writes it. Oracle: the sum of p ln(p / q)."""
    p, q = tensor([0.6, 0.3, 0.1]), tensor([0.2, 0.5, 0.3])
    exact = float((p * (p / q).log()).sum())
    claim = f"0 or more for each token, and {exact:.4f} on the average"
    expect(kl_k3, p.log(), q.log()).holds(
        lambda k3: bool((k3 >= 0).all()) and abs(float((p * k3).sum()) - exact) < 1e-5, claim
    )


def kl_and_gradients(logp, logp_ref):
    """The values, and the gradients by both."""
    both = [x.clone().requires_grad_() for x in (logp, logp_ref)]
    values = kl_k3(*both)
    values.sum().backward()
    return values.detach(), *[torch.zeros_like(x) if x.grad is None else x.grad for x in both]


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_penalty_draws_the_model_and_leaves_the_reference(expect):
    """1 - exp(d): 0 where they agree, towards the reference elsewhere."""
    right = tensor([0, 0.367879, 0.718282]), tensor([0, 1 - math.exp(-1), 1 - math.e]), torch.zeros(3)
    expect(kl_and_gradients, tensor([-3.0, -1, -2]), tensor([-3.0, -2, -1])).equals(right)


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_difference_is_cut_to_20_before_it_is_exponentiated(expect):
    """A token that the model has all but ruled out would give inf. By hand: exp(20) - 21, exp(-20) + 19."""
    right = tensor([math.exp(20) - 21, math.exp(-20) + 19, math.exp(19) - 20, 18])
    expect(kl_k3, tensor([-500.0, 500.0, -19.0, 19.0]), torch.zeros(4)).equals(right)


# ---- what the engine wrote


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_a_token_weighs_what_the_trainer_gives_it_over_what_the_engine_did(expect):
    """The docstring's example, another cap, and a difference whose exponential is inf."""
    trainer, engine = tensor([0.0, 2.0, -1.0, 500.0]), tensor([0.0, 0.0, 0.0, 0.0])
    expect(truncated_weight, trainer - 3, engine - 3).equals(tensor([1.0, 2.0, 0.367879, 2.0]))
    expect(truncated_weight, trainer, engine, 5.0).equals(tensor([1.0, 5.0, 0.367879, 5.0]))
    expect(truncated_weight, tensor([[0.1, -0.1]]), tensor([[0.0, 0.0]]), 1.0).equals(tensor([[1.0, 0.904837]]))


def carries_a_gradient(logp_trainer, logp_engine):
    return truncated_weight(logp_trainer.clone().requires_grad_(), logp_engine).requires_grad


@pytest.mark.kata("level14.grpo.grpo_loss")
def test_the_weight_is_a_constant(expect):
    """A gradient through it would teach the trainer to disagree with its engine."""
    expect(carries_a_gradient, tensor([-1.0, -0.5]), tensor([-1.0, -1.0])).equals(False)


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("cap", [0, -1.0])
def test_a_cap_that_is_not_above_0_is_refused(expect, cap):
    """It would switch the objective off, or turn it round."""
    expect(truncated_weight, torch.zeros(1), torch.zeros(1), 0.5).equals(tensor([0.5]))
    expect(truncated_weight, torch.zeros(1), torch.zeros(1), cap).raises(ValueError)


# ---- one number of many

FOUR_AND_0 = tensor([[4.0, NAN, 9], [0, 0, 0]]), tensor([[1, 0, 0], [1, 1, 1]]).bool()


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("how, most, right", [("sequence", None, 2.0), ("token", None, 1.0), ("constant", 8, 0.25)])
def test_a_long_answer_has_more_say_or_less(expect, how, most, right):
    """The docstring's example: an answer of one token at 4, and one of three at 0."""
    expect(aggregate, *FOUR_AND_0, how, most).equals(tensor(right))


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("how, most, right", [("token", None, 4.6), ("sequence", None, 5.25), ("constant", 10, 1.15)])
def test_a_mean_counts_answers_and_their_tokens(expect, how, most, right):
    """Two answers of (2, 1, 3) and (10, 7): 23 of 5 tokens, (2 + 8.5) / 2 of 2 rows, 23 of 20 places."""
    values, mask = tensor([[50.0, 2, 1, 3], [60.0, 10, 7, 70]]), tensor([[0, 1, 1, 1], [0, 1, 1, 0]]).bool()
    expect(aggregate, values, mask, how, most).equals(tensor(right))
    if how == "token":
        expect(aggregate, values, mask).equals(tensor(4.6))


@pytest.mark.kata("level14.grpo.grpo_loss")
@pytest.mark.parametrize("how, most", [("mean", None), ("constant", None), ("token", 8)])
def test_a_divisor_without_a_name_is_refused(expect, how, most):
    """A misspelt option would be another paper's loss."""
    expect(aggregate, *FOUR_AND_0).equals(tensor(1.0))
    expect(aggregate, *FOUR_AND_0, how, most).raises(ValueError)
