"""Judges rollout.py by one answer at a time without a cache, each with its own seed, and by the passes it makes.

The model is tiny and random. The oracle makes a full pass over everything for each token, and asks level 03 which token
that is and what its processed scores are.
"""

from dataclasses import replace
from functools import lru_cache

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level03.sampler import SamplingParams, choose_tokens, process
from level04.roofline import H100, Hardware
from level14.rollout import Answer, answer_mask, rollout, rollout_share

T = torch.tensor
CONFIG = Config(2, 16, 4, 2, 4, 24, 13, max_seq_len=16, tie_embeddings=False)
PARAMS = random_params(CONFIG, seed=4)
PROMPT = [3, 9, 1, 12, 5]
PLAIN = SamplingParams(seed=5, max_tokens=6)
FILTERED = SamplingParams(temperature=0.7, top_k=6, top_p=0.9, seed=5, max_tokens=6)
PENALIZED = SamplingParams(1.4, 8, 1.0, 0.05, 1.3, 0.4, 0.6, seed=40, max_tokens=6)
CLOSE = {"rel": 1e-4, "abs": 1e-4}  # a cache, and a batch: sums in another order


@lru_cache(None)
def raw(*history):
    """Logits of the next token, by a full pass over everything."""
    return forward(PARAMS, CONFIG, T([history]))[:, -1]


def alone(prompt, sampling, stop_ids):
    """Oracle: one answer. The room is the model's 16 positions."""
    answer = Answer()
    while len(answer.tokens) < min(sampling.max_tokens, CONFIG.max_seq_len - len(prompt)):
        logits = raw(*prompt, *answer.tokens)
        token = int(choose_tokens(logits, [prompt], [answer.tokens], [sampling]))
        scores = process(logits, sampling, [prompt], [answer.tokens]).double()
        answer.logprobs.append(float(scores.log_softmax(-1)[0, token]))
        answer.tokens.append(token)
        if token in stop_ids:
            break
    return answer


def one_by_one(prompt, group, sampling, stop_ids=()):
    """Oracle: each answer alone, with its own seed."""
    return [alone(prompt, replace(sampling, seed=sampling.seed + i), stop_ids) for i in range(group)]


def answered(prompt, group, sampling, stop_ids=()):
    return rollout(PARAMS, CONFIG, prompt, group, sampling, stop_ids)


def passes(prompt, group, sampling, stop_ids=(), config=CONFIG):
    """Shapes of the ids of each forward pass, and the answers' lengths."""
    made = []

    def counting(params, config, ids, *args, **kwargs):
        made.append(tuple(ids.shape))
        return forward(params, config, ids, *args, **kwargs)

    answers = rollout(PARAMS, config, prompt, group, sampling, stop_ids, forward=counting)
    return made, [len(answer.tokens) for answer in answers]


# ---- rollout


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("group, max_tokens", [(4, 3), (4, 1), (1, 3), (7, 6)])
def test_the_prompt_once_and_then_all_answers_together(expect, group, max_tokens):
    """Every pass reads all weights, for one answer or for seven. The last token is never fed: nobody needs what comes
    after it."""
    right = [(1, 5)] + [(group, 1)] * (max_tokens - 1), [max_tokens] * group
    expect(passes, PROMPT, group, replace(PLAIN, max_tokens=max_tokens)).equals(right)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("sampling", [PLAIN, replace(PLAIN, temperature=0.5)], ids=["plain", "temperature"])
def test_each_answer_is_the_one_of_its_own_seed(expect, sampling):
    """Its tokens, and ln of the probability with which each was drawn, after the temperature. The loss divides by that
    probability: with another one, a policy that has not changed has ratios other than 1."""
    expect(answered, PROMPT, 4, sampling).equals(one_by_one(PROMPT, 4, sampling), **CLOSE)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("sampling", [FILTERED, PENALIZED], ids=["filters", "penalties"])
def test_filters_and_penalties_are_in_the_log_probability(expect, sampling):
    """Among six tokens the drawn one was likelier than among all. Penalties see the prompt and the answer's own tokens,
    not its neighbours'."""
    expect(answered, PROMPT, 4, sampling).equals(one_by_one(PROMPT, 4, sampling), **CLOSE)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("stop_ids", [(2, 7), [10], {1, 9}], ids=str)
@pytest.mark.parametrize("sampling", [PLAIN, PENALIZED], ids=["plain", "penalties"])
def test_an_answer_ends_with_its_stop_token(expect, sampling, stop_ids):
    """The token itself is the last one, and scored: not scored, it is never learned, and the model never stops. The
    others go on as if nobody had ended."""
    expect(answered, PROMPT, 5, sampling, stop_ids).equals(one_by_one(PROMPT, 5, sampling, stop_ids), **CLOSE)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("stop_ids", [(2, 7), {1, 9}, range(13)], ids=str)
def test_no_pass_after_the_last_answer_has_ended(expect, stop_ids):
    """As many passes as the longest answer has tokens; all of one token: the prompt's pass is the only one."""
    lengths = [len(answer.tokens) for answer in one_by_one(PROMPT, 5, PLAIN, stop_ids)]
    expect(passes, PROMPT, 5, PLAIN, stop_ids).equals(([(1, 5)] + [(5, 1)] * (max(lengths) - 1), lengths))


@pytest.mark.kata("level14.rollout.rollout")
def test_it_ends_at_the_models_last_position(expect):
    """A prompt that leaves room for 3 tokens gets 3, for 1 gets 1; of a full one, nothing is run at all."""
    for room in (3, 1, 0):
        prompt = (PROMPT * 4)[: 16 - room]
        right = [(1, 16 - room)] * (room > 0) + [(2, 1)] * (room - 1)
        expect(passes, prompt, 2, PLAIN).equals((right, [room, room]))
        expect(answered, prompt, 2, PLAIN).equals(one_by_one(prompt, 2, PLAIN), **CLOSE)


@pytest.mark.kata("level14.rollout.rollout")
def test_no_tokens_asked_for_is_no_pass(expect):
    """The answers are there, and empty."""
    expect(passes, PROMPT, 3, replace(PLAIN, max_tokens=1)).equals(([(1, 5)], [1, 1, 1]))
    expect(passes, PROMPT, 3, replace(PLAIN, max_tokens=0)).equals(([], [0, 0, 0]))


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("prompt", [[7], (12, 12)], ids=str)
def test_a_short_prompt(expect, prompt):
    """One token, and a tuple; a group of one is a group."""
    expect(answered, prompt, 3, FILTERED).equals(one_by_one(prompt, 3, FILTERED), **CLOSE)
    expect(answered, prompt, 1, PENALIZED).equals(one_by_one(prompt, 1, PENALIZED), **CLOSE)


def unseeded_greedy(group, right):
    """Are all answers this one, and certain? The question is yes or no: a wrong program's answers may be any."""
    answers = answered(PROMPT, group, SamplingParams(top_k=1, max_tokens=6))
    return [answer.tokens for answer in answers] == [right] * group, sum(sum(x.logprobs) for x in answers) == 0


def unseeded_differ(group):
    return len({tuple(x.tokens) for x in answered(PROMPT, group, SamplingParams(max_tokens=6))}) > 1


@pytest.mark.kata("level14.rollout.rollout")
def test_without_a_seed_each_answer_is_any(expect):
    """With one token to choose from, all are the greedy answer, of probability 1. With 13, eight answers of six tokens
    are not all the same: equal ones have no advantage over each other, and teach nothing."""
    greedy = alone(PROMPT, replace(PLAIN, temperature=0), ()).tokens
    expect(unseeded_greedy, 3, greedy).equals((True, True))
    expect(unseeded_differ, 8).equals(True)


def as_the_seed_says(group):
    """Are these the answers of seeds 0, 1, ...? The question is yes or no: a wrong program's answers may be any."""
    zero = replace(PLAIN, seed=0)
    right = [each.tokens for each in one_by_one(PROMPT, group, zero)]
    return [each.tokens for each in answered(PROMPT, group, zero)] == right


@pytest.mark.kata("level14.rollout.rollout")
def test_zero_is_a_seed(expect):
    """0 is a seed like any other: `if sampling.seed` takes it for none, and no run can be repeated."""
    expect(as_the_seed_says, 8).equals(True)


def in_float64(prompt, group, sampling):
    wide = {name: part.double() for name, part in PARAMS.items()}
    return rollout(wide, CONFIG, prompt, group, sampling)


@pytest.mark.kata("level14.rollout.rollout")
def test_a_model_in_float64_gives_the_same_answers(expect):
    """The weights' type is that of the weights that are given: nothing else is promised."""
    expect(in_float64, PROMPT, 3, PLAIN).equals(one_by_one(PROMPT, 3, PLAIN), **CLOSE)


@pytest.mark.kata("level14.rollout.rollout")
def test_what_is_no_group_is_refused(expect):
    """At temperature 0 all answers are one."""
    expect(passes, PROMPT, 1, replace(PLAIN, max_tokens=1)).equals(([(1, 5)], [1]))
    expect(passes, PROMPT, 0, PLAIN).raises(ValueError)
    expect(passes, PROMPT, 2, replace(PLAIN, temperature=0)).raises(ValueError)
    expect(passes, [], 2, PLAIN).raises(ValueError)


# ---- answer_mask


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize(
    "tokens, stop_id, mask",
    [
        ([[5, 6, 2, 2], [5, 6, 7, 8]], 2, [[1, 1, 1, 0], [1, 1, 1, 1]]),
        ([[5, 6, 2, 0]], 2, [[1, 1, 1, 0]]),
        ([[2, 5, 2], [5, 2, 6], [5, 6, 2]], 2, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        ([[2, 2, 2, 2]], 2, [[1, 0, 0, 0]]),
        ([[0, 1, 0, 3, 0, 1]], 0, [[1, 0, 0, 0, 0, 0]]),
        ([[4], [2]], 2, [[1], [1]]),
        ([[], []], 2, [[], []]),
    ],
    ids=str,
)
def test_the_end_counts_and_what_follows_does_not(expect, tokens, stop_id, mask):
    """Where padding is the end token, as in many tokenizers, a mask of all that is no padding leaves the end out, and
    the model never learns to stop."""
    expect(answer_mask, T(tokens, dtype=torch.long), stop_id).equals(T(mask, dtype=torch.bool))


# ---- rollout_share

SLOW = Hardware("on paper", peak_flops=60.0, bandwidth=1.0, memory_bytes=100.0)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize(
    "prompt, new, group, right",
    [
        (2, 2, 1, 25 / 26),  # reads 10 + 2 and 10 + 3 bytes; 3 · 4 · 5 FLOPs at 60 a second
        (2, 2, 3, 35 / 38),  # 10 + 6 and 10 + 9; three times the FLOPs
        (2, 3, 2, 48 / 50.5),  # 10 + 4, 10 + 6, 10 + 8; 3 · 10 · 5
        (5, 1, 1, 15 / 16.5),
        (5, 0, 4, 0.0),
    ],
)
def test_bytes_of_decoding_against_flops_of_learning(expect, prompt, new, group, right):
    """On paper, with 10 bytes of weights, 1 of cache a token, 5 FLOPs, 1 byte/s and 60 FLOP/s, all of them used."""
    expect(rollout_share, prompt, new, group, 10, 1, 5, SLOW, 1.0).equals(right)


@pytest.mark.kata("level14.rollout.rollout")
@pytest.mark.parametrize("group, right", [(64, 0.408036), (1, 0.969408)])
def test_one_answer_at_a_time_would_be_nearly_all_of_the_time(expect, group, right):
    """8B, 1024 tokens after 256, on an H100 that learns at 40 % of its peak. 64 together: decoding 6.87 s, learning
    9.98 s. One alone: 4.94 s and 0.156 s."""
    expect(rollout_share, 256, 1024, group, 16.06e9, 131072, 16.06e9, H100).equals(right)
    expect(rollout_share, 256, 1024, group, 16.06e9, 131072, 16.06e9, H100, 0.4).equals(right)
    learning = 1 / right - 1  # in units of decoding; at 80 % of the peak it takes half as long
    expect(rollout_share, 256, 1024, group, 16.06e9, 131072, 16.06e9, H100, 0.8).equals(1 / (1 + learning / 2))
