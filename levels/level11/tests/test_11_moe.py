"""Judges moe.py by exact sums in Python, token by token, by what its experts see, and by the logits of transformers.

Experts are curves, no two alike: neither an exchange of two of them nor a gate before one goes unnoticed.
"""

import json
import math
from pathlib import Path
from unittest import mock

import pytest
import torch

from dojo.models import Config
from level02.cache import KVCache
from level11 import families
from level11.moe import adjust_bias, load_balance_loss, moe_forward, route, route_sigmoid

STORED = Path(__file__).with_name("transformers_families.json")
CLOSE = {"rel": 1e-12, "abs": 1e-12}  # float64 in another order
ROUNDED = {"rel": 1e-4, "abs": 0}  # less than a bfloat16's last digit: rounded once, from the right value


def draw(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))


def chosen(keys, k):
    """Oracle: the k largest, the largest first, of equal ones the lower index."""
    return sorted(range(len(keys)), key=lambda e: (-keys[e], e))[:k]


def routed(logits, k, renormalize=True):
    """Oracle: row by row, in Python's floats; the exponentials relative to the largest."""
    ids, gates = [], []
    for row in logits.double().tolist():
        weights = [math.exp(z - max(row)) for z in row]
        best = chosen(row, k)
        total = sum(weights[e] for e in best) if renormalize else sum(weights)
        ids.append(best)
        gates.append([weights[e] / total for e in best])
    return torch.tensor(ids), torch.tensor(gates, dtype=torch.float64).to(logits.dtype)


def routed_by_sigmoid(logits, bias, k, scale=1.0):
    """Oracle, likewise."""
    ids, gates = [], []
    for row in logits.double().tolist():
        scores = [sigmoid(z) for z in row]
        best = chosen([s + b for s, b in zip(scores, bias.tolist())], k)
        ids.append(best)
        gates.append([scale * scores[e] / sum(scores[i] for i in best) for e in best])
    return torch.tensor(ids), torch.tensor(gates, dtype=torch.float64).to(logits.dtype)


# ---- route


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize(
    "logits, k, renormalize, ids, gates",
    [
        ([1.0, 3.0, 2.0, 0.0], 2, True, [1, 2], [0.7310586, 0.2689414]),
        ([1.0, 3.0, 2.0, 0.0], 2, False, [1, 2], [0.6439143, 0.2368828]),
        ([1.0, 3.0, 2.0, 0.0], 1, True, [1], [1.0]),
        ([1.0, 3.0, 2.0, 0.0], 1, False, [1], [0.6439143]),
        ([-1.0, -2.0, -0.5], 2, True, [2, 0], [0.6224593, 0.3775407]),
        ([1.0, 1.0001, -9.0], 1, True, [1], [1.0]),
    ],
    ids=str,
)
def test_softmax_then_the_best_then_perhaps_their_sum(expect, logits, k, renormalize, ids, gates):
    """e^3 / (e + e^3 + e^2 + 1) = 0.6439. Two models differ in the last step only, and a server that takes the other
    one's makes every layer's output too small or too large."""
    right = torch.tensor([ids]), torch.tensor([gates])
    expect(route, torch.tensor([logits]), k, renormalize).equals(right)


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("k", [2, 1, 4, 5])
def test_each_token_stands_alone(expect, k, renormalize):
    """7 tokens, 5 experts: what a token gets must not depend on who else is in the batch."""
    logits = 2 * draw(7, 5, seed=k)
    expect(route, logits, k, renormalize).equals(routed(logits, k, renormalize))


@pytest.mark.kata("level11.moe.route")
def test_gates_are_renormalized_unless_said_otherwise(expect):
    """As in Mixtral; the keyword is the one of the signature."""
    logits = torch.tensor([[0.5, 2.0, 1.0], [5.0, 0.0, 0.25]])
    expect(route, logits, 2).equals(routed(logits, 2))
    expect(route, logits, 2, renormalize=False).equals(routed(logits, 2, False))


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize(
    "logits, k, ids",
    [
        ([0.0, 0.0, 0.0], 2, [0, 1]),
        ([1.0, 2.0, 1.0, 2.0, 0.0], 3, [1, 3, 0]),
        ([3.0] * 40, 6, [0, 1, 2, 3, 4, 5]),
        ([0.0] * 30 + [1.0] + [0.5] * 33, 5, [30, 31, 32, 33, 34]),
    ],
    ids=["3 equal", "in pairs", "40 equal", "64 experts"],
)
def test_of_equally_likely_experts_the_lower_id(expect, logits, k, ids):
    """torch.topk promises no order of equals: the same request would get another answer on another machine."""
    logits = torch.tensor([logits, logits[::-1]])
    expect(route, logits, k).equals(routed(logits, k))


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("renormalize", [True, False])
def test_half_precision_logits_are_not_softmaxed_in_half_precision(expect, renormalize):
    """Expert 2 is 0.2 % more likely than expert 0, and more likely by less than bfloat16 can tell: in bfloat16 they
    are equal. The gates are rounded once, at the end."""
    logits = torch.tensor([[0.25, -1.0, 0.251953125, -2.0]], dtype=torch.bfloat16)
    expect(route, logits, 1, renormalize).equals(routed(logits, 1, renormalize), **ROUNDED)
    logits = torch.tensor(HALF, dtype=torch.bfloat16)
    expect(route, logits, 3, renormalize).equals(routed(logits, 3, renormalize), **ROUNDED)


HALF = [[0.5, -2.5625, -0.859375, -2.515625, 1.34375], [-0.90625, -0.453125, -1.140625, 1.21875, -1.890625]]


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("shifts", [[1000.0], [-1000.0], [1000.0, -1000.0, 0.0]], ids=str)
def test_large_logits_are_no_trouble(expect, shifts):
    """exp(1000) is infinite, exp(-1000) is 0: a router that is sure of itself must not make NaN. Nor must its neighbour
    in the batch: the largest logit of the token is taken off, not that of all tokens."""
    logits = torch.tensor([[0.0, 1.5, 0.5, -1.0]]) + torch.tensor(shifts).unsqueeze(1)
    expect(route, logits, 2).equals(routed(logits, 2))
    expect(route, logits, 2, False).equals(routed(logits, 2, False))


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_gates_have_the_type_of_the_logits(expect, dtype):
    """They weigh activations: a float32 gate would make the rest of a half-precision model float32."""
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0]], dtype=dtype)
    right = torch.tensor([[0, 1]]), torch.tensor([[0.25, 0.25]], dtype=dtype)
    expect(route, logits, 2, False).equals(right)


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("k", [0, 4, -1])
def test_a_token_has_between_one_and_all_experts(expect, k):
    """A config with more experts a token than there are is not a model."""
    expect(route, torch.tensor([[1.0, 2.0, 3.0]]), 3).equals(routed(torch.tensor([[1.0, 2.0, 3.0]]), 3))
    expect(route, torch.tensor([[1.0, 2.0, 3.0]]), k).raises(ValueError)


# ---- route_sigmoid


@pytest.mark.kata("level11.moe.route_sigmoid")
@pytest.mark.parametrize(
    "scores, bias, k, scale, ids, gates",
    [
        ([0.5, 0.5, 0.8807971], [0.0, 0.9, 0.0], 2, 1.0, [1, 2], [0.3621, 0.6379]),
        ([0.9, 0.8, 0.1], [0.0, 0.0, 1.0], 2, 1.0, [2, 0], [0.1, 0.9]),
        ([0.5, 0.5, 0.5], [0.0, 0.3, 0.1], 2, 1.0, [1, 2], [0.5, 0.5]),
        ([0.75, 0.75], [0.0, 0.0], 2, 2.5, [0, 1], [1.25, 1.25]),
        ([0.9, 0.8, 0.1], [0.0, 0.0, 0.0], 1, 2.5, [0], [2.5]),
        ([0.9, 0.6, 0.2], [-0.5, 0.0, 0.0], 2, 1.0, [1, 0], [0.4, 0.6]),
        ([0.9, 0.90002, 0.2], [0.0, 0.0, 0.0], 1, 1.0, [1], [1.0]),
        ([0.9, 0.6, 0.2], [-0.75, -0.25, 0.0], 2, 3.0, [1, 2], [2.25, 0.75]),
    ],
    ids=str,
)
def test_the_bias_chooses_and_weighs_nothing(expect, scores, bias, k, scale, ids, gates):
    """Scores 0.9, 0.8, 0.1 and a bias of 1 for the last: it is chosen first, and counts 0.1. With the bias in its gate,
    0.55: the model would put out something else whenever its load is adjusted."""
    logits = torch.tensor([[math.log(s / (1 - s)) for s in scores]])
    right = torch.tensor([ids]), torch.tensor([gates])
    expect(route_sigmoid, logits, torch.tensor(bias), k, scale).equals(right, rel=1e-4)


@pytest.mark.kata("level11.moe.route_sigmoid")
@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("k", [3, 1, 2, 6])
def test_each_token_has_its_own_scores(expect, k, scale):
    """8 tokens, 6 experts; the order of an expert's score + bias is not that of its score. Oracle: row by row."""
    logits, bias = 2 * draw(8, 6, seed=k), 0.3 * draw(6, seed=9)
    expect(route_sigmoid, logits, bias, k, scale).equals(routed_by_sigmoid(logits, bias, k, scale))


@pytest.mark.kata("level11.moe.route_sigmoid")
def test_the_scale_is_one_unless_said_otherwise(expect):
    """It stands for the shared expert's share in DeepSeek-V3, 2.5, and comes after the division."""
    logits, bias = draw(3, 4, seed=5), 0.2 * draw(4, seed=6)
    expect(route_sigmoid, logits, bias, 2).equals(routed_by_sigmoid(logits, bias, 2))
    expect(route_sigmoid, logits, bias, 2, scale=4.0).equals(routed_by_sigmoid(logits, bias, 2, 4.0))


@pytest.mark.kata("level11.moe.route_sigmoid")
def test_a_small_score_survives_a_large_bias(expect):
    """Scores of 1e-8 and 3e-8 behind biases of 12 and 12.5. In float32 (1e-8 + 12) - 12 is 0, and 0 / 0 is NaN."""
    logits, bias = torch.tensor([[-18.420681, -17.322068, 0.0]]), torch.tensor([12.0, 12.5, 0.0])
    expect(route_sigmoid, logits, bias, 2).equals((torch.tensor([[1, 0]]), torch.tensor([[0.75, 0.25]])), rel=1e-4)


@pytest.mark.kata("level11.moe.route_sigmoid")
@pytest.mark.parametrize(
    "logits, bias, k, ids",
    [
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 2, [0, 1]),
        ([0.0, 1.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.5, 0.0, 0.5], 4, [0, 2, 4, 1]),
        ([1.0] * 40, [0.25] * 40, 7, [0, 1, 2, 3, 4, 5, 6]),
    ],
    ids=["3 equal", "in groups", "40 equal"],
)
def test_of_equal_ones_the_lower_id(expect, logits, bias, k, ids):
    """At the start of training all are equal, and torch.topk promises no order of them."""
    logits, bias = torch.tensor([logits]), torch.tensor(bias)
    right = torch.tensor([ids]), routed_by_sigmoid(logits, bias, k)[1]
    expect(route_sigmoid, logits, bias, k).equals(right)


@pytest.mark.kata("level11.moe.route_sigmoid")
def test_scores_of_half_precision_logits_are_not_half_precision(expect):
    """sigmoid(7) and sigmoid(8) are both 1 in bfloat16, as is 0.99909 + 0.002. The bias stays float32; the gates become
    what the logits are, at the end."""
    logits = torch.tensor([[7.0, 7.0, -1.0, 2.0]], dtype=torch.bfloat16)
    bias = torch.tensor([0.0, 0.002, 0.0, 0.0])
    expect(route_sigmoid, logits, bias, 1).equals(routed_by_sigmoid(logits, bias, 1), **ROUNDED)
    logits = torch.tensor([[7.0, 8.0, -1.0, 2.0]], dtype=torch.bfloat16)
    bias = torch.tensor([0.0, 0.0, 0.0, 0.0])
    expect(route_sigmoid, logits, bias, 1).equals(routed_by_sigmoid(logits, bias, 1), **ROUNDED)
    logits, bias = torch.tensor(HALF_SIGMOID, dtype=torch.bfloat16), torch.tensor([0.0, 0.001, -0.001, 0.5])
    expect(route_sigmoid, logits, bias, 3, 2.5).equals(routed_by_sigmoid(logits, bias, 3, 2.5), **ROUNDED)


HALF_SIGMOID = [[-1.6875, -0.9375, -0.4375, -0.109375], [-1.453125, 0.5625, -0.15625, -0.71875]]


@pytest.mark.kata("level11.moe.route_sigmoid")
@pytest.mark.parametrize("k", [0, 4])
def test_no_more_experts_than_there_are(expect, k):
    """As in route."""
    logits, bias = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([0.0, 0.0, 0.0])
    expect(route_sigmoid, logits, bias, 3).equals(routed_by_sigmoid(logits, bias, 3))
    expect(route_sigmoid, logits, bias, k).raises(ValueError)


# ---- adjust_bias, judged with route_sigmoid


@pytest.mark.kata("level11.moe.route_sigmoid")
@pytest.mark.parametrize(
    "bias, expert_ids, speed, steps",
    [
        ([0.0, 0.0, 0.0, 0.0], [[0, 1], [0, 2]], 0.1, [-1, 0, 0, 1]),
        ([1.0, 2.0, 3.0], [[0], [0], [0], [1]], 0.5, [-1, 1, 1]),
        ([0.0, 0.0, 0.0], [[0, 1], [1, 2], [1, 0], [1, 2]], 0.25, [1, -1, 1]),
        ([0.5, -0.5, 0.0, 0.25, 0.0], [[3, 1], [1, 3], [3, 0]], 0.001, [1, -1, 1, -1, 1]),
        ([0.0, 1.0], [[0, 1], [1, 0], [0, 1]], 0.1, [0, 0]),
        ([0.0, 0.0], [[0]] * 10 + [[1]] * 11, 0.1, [1, -1]),
        ([0.0] * 7, [[6]] * 7 + [[0]] * 7 + [[3]] * 7, 1.0, [-1, 1, 1, -1, 1, 1, -1]),
        ([3.0] * 3, [[2]] * 7 + [[0]] * 7 + [[1]] * 7, 1.0, [0, 0, 0]),
    ],
    ids=str,
)
def test_the_bias_moves_by_one_step_against_the_load(expect, bias, expert_ids, speed, steps):
    """Lower for experts above the mean load, higher for those below, idle ones among them; one step, however far. All
    k choices of a token are load."""
    right = torch.tensor([b + speed * s for b, s in zip(bias, steps)])
    expect(adjust_bias, torch.tensor(bias), torch.tensor(expert_ids), speed).equals(right)


@pytest.mark.kata("level11.moe.route_sigmoid")
def test_no_tokens_no_step(expect):
    """An idle batch: every load is the mean, 0. The bias keeps its type."""
    nobody = torch.zeros(0, 2, dtype=torch.int64)
    for dtype in (torch.float32, torch.float64):
        bias = torch.tensor([0.5, -1.0, 0.0], dtype=dtype)
        expect(adjust_bias, bias, nobody, 0.1).equals(bias)


@pytest.mark.kata("level11.moe.route_sigmoid")
def test_the_router_and_its_bias_balance_the_load(expect):
    """Expert 0 starts with all 60 tokens of 4 experts. 200 steps of 0.01 later none has above 1.4 times the mean, 30,
    without a loss that the model would have to trade its quality for."""
    logits = draw(60, 4, seed=11) + torch.tensor([4.0, 0.0, 0.0, 0.0])

    def fullest():
        bias = torch.zeros(4, dtype=torch.float64)
        for _ in range(200):
            bias = adjust_bias(bias, route_sigmoid(logits, bias, 2)[0], 0.01)
        return int(route_sigmoid(logits, bias, 2)[0].flatten().bincount(minlength=4).max()) < 42

    expect(fullest).equals(True)


# ---- load_balance_loss


def loss_of(probs, expert_ids):
    loss = load_balance_loss(torch.tensor(probs), torch.tensor(expert_ids))
    return float(loss), tuple(loss.shape)


@pytest.mark.kata("level11.moe.load_balance_loss")
@pytest.mark.parametrize(
    "probs, expert_ids, right",
    [
        ([[0.9, 0.1], [0.8, 0.2]], [[0], [0]], 1.7),
        ([[0.5, 0.5], [0.5, 0.5]], [[0], [1]], 1.0),
        ([[0.9, 0.1], [0.8, 0.2]], [[0, 1], [0, 1]], 1.0),
        ([[0.9, 0.1], [0.1, 0.9]], [[0], [1]], 1.0),
        ([[0.2] * 5] * 5, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], 1.0),
        ([[1.0, 0.0, 0.0]] * 4, [[0]] * 4, 3.0),
        ([[0.5, 0.25, 0.25], [0.25, 0.75, 0.0]], [[0, 1], [1, 0]], 1.3125),
        ([[0.25, 0.5, 0.25]], [[1, 0]], 1.125),
        ([[0.5, 0.25, 0.125, 0.125], [0.25, 0.5, 0.125, 0.125], [0.5, 0.0, 0.25, 0.25]], [[0], [1], [2]], 1.11111111),
    ],
    ids=str,
)
def test_one_when_balanced_and_more_when_not(expect, probs, expert_ids, right):
    """E · sum f_i P_i by hand. 1.7 for two tokens that both want expert 0 (P = 0.85); at the worst E, one for all."""
    expect(loss_of, probs, expert_ids).equals((right, ()))


@pytest.mark.kata("level11.moe.load_balance_loss")
def test_any_batch(expect):
    """9 tokens, 6 experts of which nobody takes the last, k = 1 to 3. Oracle: counted one by one."""
    probs = draw(9, 6, seed=3).softmax(-1)
    for k in (1, 2, 3):
        expert_ids = torch.stack([torch.randperm(5, generator=torch.Generator().manual_seed(t))[:k] for t in range(9)])
        choices = expert_ids.flatten().tolist()
        f = [choices.count(i) / (9 * k) for i in range(6)]
        right = 6 * sum(f[i] * sum(row[i] for row in probs.tolist()) / 9 for i in range(6))
        expect(loss_of, probs.tolist(), expert_ids.tolist()).equals((right, ()))


@pytest.mark.kata("level11.moe.load_balance_loss")
def test_the_gradient_comes_through_the_probabilities_alone(expect):
    """dL/dp_ti = E · f_i / T: the router learns to want a full expert less. Counts have no gradient, and without one
    the loss is a number on a screen."""
    expert_ids = torch.tensor([[0], [0], [2], [0]])

    def gradient():
        probs = torch.full((4, 3), 1 / 3, requires_grad=True)
        load_balance_loss(probs, expert_ids).backward()
        return probs.grad

    expect(gradient).equals(torch.tensor([[0.5625, 0.0, 0.1875]] * 4))


@pytest.mark.kata("level11.moe.load_balance_loss")
def test_the_load_of_nobody_is_not_defined(expect):
    """0 / 0 would be NaN in the sum of all layers' losses."""
    expect(loss_of, [[1.0]], [[0]]).equals((1.0, ()))
    expect(load_balance_loss, torch.zeros(0, 4), torch.zeros(0, 2, dtype=torch.int64)).raises(ValueError)


# ---- moe_forward


def curve(e):
    """Expert e, row by row: no two are alike, and none is linear."""
    return lambda x: torch.sin(x * (e + 1)) + e


def tokens(n_tokens, n_experts, k, d=3, seed=0, dtype=torch.float64):
    """(x, expert_ids, gates): a token's experts are different ones, its gates do not sum to 1."""
    generator = torch.Generator().manual_seed(seed)
    ids = [torch.randperm(n_experts, generator=generator)[:k] for _ in range(n_tokens)]
    gates = torch.rand(n_tokens, k, generator=generator, dtype=torch.float64) + 0.25
    x = torch.randn(n_tokens, d, generator=generator, dtype=torch.float64)
    return x.to(dtype), torch.stack(ids) if ids else torch.zeros(0, k, dtype=torch.int64), gates.to(dtype)


def by_loop(x, expert_ids, gates, experts):
    """Oracle: token by token, choice by choice."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for t in range(len(x)):
        for j in range(expert_ids.shape[1]):
            out[t] += gates[t, j].double() * experts[int(expert_ids[t, j])](x[t : t + 1])[0].double()
    return out.to(x.dtype)


def calls_of(x, expert_ids, gates, n_experts):
    """A story: (expert, the rows it was called with) of each call, in the order of the experts."""

    def calls(fn):
        seen = []

        def expert(e):
            def call(rows):
                seen.append((e, rows.tolist()))
                return curve(e)(rows)

            return call

        fn(x.clone(), expert_ids.clone(), gates.clone(), [expert(e) for e in range(n_experts)])
        return sorted(seen)

    return calls


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize(
    "x, expert_ids, gates, right",
    [
        ([[3.0]], [[0, 1]], [[0.5, 0.1]], [[5.0]]),
        ([[3.0]], [[1, 0]], [[0.5, 0.1]], [[15.4]]),
        ([[100.0]], [[1, 0]], [[0.001, 1.0]], [[102.0]]),
        ([[3.0, 1.0], [2.0, 0.0]], [[2], [0]], [[1.0], [2.0]], [[9.0, 1.0], [6.0, 2.0]]),
        (
            [[1.0], [2.0], [3.0]],
            [[2, 0], [0, 1], [1, 2]],
            [[1.0, 0.5], [2.0, 0.5], [0.25, 1.0]],
            [[2.0], [16.0], [16.5]],
        ),
    ],
    ids=str,
)
def test_gates_weigh_what_the_experts_make(expect, x, expert_ids, gates, right):
    """Experts x + 1, 10x and x². By hand: 0.5 · (3 + 1) + 0.1 · 10 · 3 = 5; the other way round 0.5 · 30 + 0.1 · 4."""
    experts = [lambda x: x + 1, lambda x: 10 * x, lambda x: x * x]
    given = torch.tensor(x), torch.tensor(expert_ids), torch.tensor(gates)
    expect(moe_forward, *given, experts).equals(torch.tensor(right))


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("n_tokens, n_experts, k", [(5, 4, 2), (7, 5, 1), (6, 4, 3), (1, 6, 2), (4, 3, 3), (2, 9, 4)])
def test_every_token_meets_its_experts(expect, n_tokens, n_experts, k):
    """Oracle: token by token. What a token gets back depends on no other token of the batch."""
    given = tokens(n_tokens, n_experts, k, seed=k)
    experts = [curve(e) for e in range(n_experts)]
    expect(moe_forward, *given, experts).equals(by_loop(*given, experts), **CLOSE)


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("n_tokens, n_experts, k", [(5, 4, 2), (3, 8, 1), (2, 6, 3), (9, 3, 2), (1, 4, 4)])
def test_an_expert_is_called_once_with_its_tokens_only(expect, n_tokens, n_experts, k):
    """In their order, and not at all without tokens. A call reads all weights of its expert: at 1 token a model of 8
    experts with k = 2 reads a quarter, and one call a token would read an expert again for each of its tokens."""
    x, expert_ids, gates = tokens(n_tokens, n_experts, k, d=2, seed=10 + k)
    wanted = {e: (expert_ids == e).any(1) for e in range(n_experts)}
    right = [(e, x[mask].tolist()) for e, mask in wanted.items() if mask.any()]
    expect.story(calls_of(x, expert_ids, gates, n_experts), moe_forward).equals(right)


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("favourite", [0, 2, 3])
def test_no_token_is_dropped(expect, favourite):
    """300 tokens, and all want one expert: with a capacity, an answer would depend on who else is being served.
    Nor are they cut into portions: each would read the weights again."""
    x, expert_ids, gates = tokens(300, 4, 1, d=1, seed=1)
    given = x, torch.full_like(expert_ids, favourite), gates
    experts = [curve(e) for e in range(4)]
    expect(moe_forward, *given, experts).equals(by_loop(*given, experts), **CLOSE)
    expect.story(calls_of(*given, 4), moe_forward).equals([(favourite, x.tolist())])


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("k", [2, 1])
def test_a_batch_may_be_empty(expect, k):
    """A rank or a step without tokens: nothing comes out, and nobody is asked."""
    given = tokens(0, 3, k, d=4)
    expect(moe_forward, *given, [curve(e) for e in range(3)]).equals(torch.zeros(0, 4, dtype=torch.float64))
    expect.story(calls_of(*given, 3), moe_forward).equals([])


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("broken", [0, 2])
def test_a_broken_token_breaks_no_other(expect, broken):
    """A row of NaN, padding say: products with a matrix of zeros and gates would carry it into each row."""
    x, expert_ids, gates = tokens(4, 3, 2, seed=4)
    x[broken] = torch.nan
    experts = tuple(curve(e) for e in range(3))
    expect(moe_forward, x, expert_ids, gates, experts).equals(by_loop(x, expert_ids, gates, experts), **CLOSE)


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_comes_out_is_of_the_type_of_what_goes_in(expect, dtype):
    """The rest of the model is. bfloat16 keeps 8 bits: an error of 1 % of the experts' values, which are below 5."""
    given = tokens(5, 4, 2, seed=6, dtype=dtype)
    experts = [curve(e) for e in range(4)]
    close = {"abs": 0.06} if dtype is torch.bfloat16 else {}
    expect(moe_forward, *given, experts).equals(by_loop(*given, experts), **close)


# ---- whole models, of which transformers gave the logits


def stored(name):
    families_of = json.loads(STORED.read_text(encoding="utf-8"))
    return families_of["seed"], torch.tensor(families_of["ids"]), families_of["families"][name]


def logits(name, chunks, forward=None):
    """Logits of a tiny Mixtral or Qwen3-MoE. Its text comes in chunks, behind level 02's cache; `forward` in place of
    moe_forward."""
    seed, ids, family = stored(name)
    c, params = family["config"], families.random_weights(family["shapes"], seed)
    theta, eps = c["rope_parameters"]["rope_theta"], c.get("rms_norm_eps", 1e-6)
    heads = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    config = Config(c["num_hidden_layers"], c["hidden_size"], *heads, 0, c["vocab_size"], theta, eps, 64, False)
    more = {"k": c["num_experts_per_tok"], "renormalize": c.get("norm_topk_prob", True)}
    cache = KVCache(config, len(ids), ids.shape[1])
    with mock.patch.object(families, "moe_forward", forward or families.moe_forward):
        parts = [families.sparse_decoder(params, config, part, cache, **more) for part in ids.split(chunks, 1)]
    return torch.cat(parts, 1)


@pytest.mark.kata("level11.moe.moe_forward")
@pytest.mark.parametrize("chunks", [[11], [5, 1, 1, 4]], ids=["at once", "in chunks"])
@pytest.mark.parametrize("name", ["Mixtral", "Qwen3Moe"])
def test_a_whole_model_says_what_it_says_in_transformers(expect, name, chunks):
    """2 layers, 5 experts with 2 a token (Mixtral), 6 with 3 and gates that do not sum to 1 (Qwen3-MoE). Your route
    and moe_forward give the logits that transformers has stored; float32 sums in another order differ by 1e-5."""
    expect(logits, name, chunks).equals(torch.tensor(stored(name)[2]["logits"]), rel=0, abs=1e-4)


@pytest.mark.kata("level11.moe.route")
@pytest.mark.parametrize("name", ["Qwen3Moe", "Mixtral"])
def test_the_routers_of_two_families(expect, name):
    """The same models on your route and a loop over tokens in place of moe_forward: Qwen3-MoE was trained with gates
    as they are, Mixtral with gates that sum to 1."""
    expect(logits, name, [11], by_loop).equals(torch.tensor(stored(name)[2]["logits"]), rel=0, abs=1e-4)
