"""The negative controls of level 14's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(15)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level14")


def merging(x, weight, a, b, alpha):
    """What lora_linear returns, by a matrix that is merged anew at each call."""
    return x @ (weight + alpha / len(a) * b @ a).T


def served(checkpoint):
    """(an adapter beside its matrix, the two merged at each call, the frozen product), for the clock."""
    args, product = checkpoint.thin()

    def beside():
        with torch.inference_mode():
            return checkpoint.lora_linear(*args)

    def anew():
        with torch.inference_mode():
            return merging(*args)

    return beside, anew, product


def test_the_clock_tells_right_from_wrong(checkpoint):
    right, wrong, product = served(checkpoint)
    assert torch.allclose(right(), wrong(), rtol=1e-3, atol=1e-2), "only the work differs"
    slow = judge(wrong, product, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    passed = judge(right, product, need=checkpoint.NEED)
    assert passed.state == "pass", str(passed)


def refuses(test, *args, match: str | None = None) -> None:
    with pytest.raises(Mismatch, match=match):
        test(Expect(), *args)


def short(checkpoint, monkeypatch, steps: int = 1, **replaced):
    """A lesson of so many steps, with other functions in it."""
    monkeypatch.setattr(checkpoint, "STEPS", steps)
    for name, function in replaced.items():
        monkeypatch.setattr(checkpoint, name, function)
    return checkpoint.Lesson()


def test_an_adapter_that_starts_somewhere_is_refused(checkpoint, monkeypatch):
    from level14 import adapters

    true = adapters.lora_init

    def both_random(out_features, in_features, r, generator):
        a, b = true(out_features, in_features, r, generator)
        return a, b + 0.01 * torch.randn(b.shape, generator=generator)

    monkeypatch.setattr(adapters, "lora_init", both_random)
    lesson = short(checkpoint, monkeypatch)
    refuses(checkpoint.test_a_new_adapter_changes_nothing, lesson)


def test_an_adapter_that_can_not_learn_is_refused(checkpoint, monkeypatch):
    """Both factors 0: no gradient ever reaches either."""
    from level14 import adapters

    true = adapters.lora_init
    monkeypatch.setattr(adapters, "lora_init", lambda *args: tuple(0 * part for part in true(*args)))
    lesson = short(checkpoint, monkeypatch)
    refuses(checkpoint.test_a_new_adapter_changes_nothing, lesson)
    refuses(checkpoint.test_it_learns, lesson, match="less than half")
    refuses(checkpoint.test_merged_it_says_the_same, lesson)


def test_a_loss_on_the_questions_is_not_one_on_the_answers(checkpoint, monkeypatch):
    """Everything is learned but the answers: the loss falls, and the answers' does not."""
    true, steps = checkpoint.sft_loss, 3
    lesson = short(checkpoint, monkeypatch, steps, sft_loss=lambda logits, ids, mask: true(logits, ids, ~mask))
    monkeypatch.setattr(checkpoint, "sft_loss", true)
    lesson.losses[0] = true(lesson.untouched[0], *lesson.rows[0][:2]).item()
    refuses(checkpoint.test_it_learns, lesson, match="less than half")


def test_a_merge_with_another_scale_is_refused(checkpoint, monkeypatch):
    from level14 import adapters

    true = adapters.lora_merge
    lesson = short(checkpoint, monkeypatch, 4)
    monkeypatch.setattr(adapters, "lora_merge", lambda w, a, b, alpha, *rest: true(w, a, b, alpha * len(a), *rest))
    refuses(checkpoint.test_merged_it_says_the_same, lesson, match="merged differs")
    refuses(checkpoint.test_what_is_merged_can_be_taken_out_again, lesson)


def test_levels_that_are_evenly_spaced_are_refused(checkpoint, monkeypatch):
    from level14 import nf4

    monkeypatch.setattr(nf4, "nf4_levels", lambda: torch.linspace(-1, 1, 16))
    refuses(checkpoint.test_a_matrix_in_nf4)


def test_answers_one_by_one_are_too_many_passes(checkpoint, monkeypatch):
    true = checkpoint.rollout

    def one_by_one(params, config, prompt, group, sampling, stop_ids=(), **seams):
        own = [checkpoint.replace(sampling, seed=sampling.seed + i) for i in range(group)]
        return [answer for one in own for answer in true(params, config, prompt, 1, one, stop_ids, **seams)]

    monkeypatch.setattr(checkpoint, "rollout", one_by_one)
    refuses(checkpoint.test_a_group_is_decoded_at_once)


def test_log_probabilities_before_the_temperature_are_refused(checkpoint, monkeypatch):
    from level14 import rollout

    config, params, prompt, sampling = checkpoint.asked()
    true = rollout.token_logprobs
    monkeypatch.setattr(rollout, "token_logprobs", lambda scores, ids: true(sampling.temperature * scores, ids))
    refuses(checkpoint.test_the_trainer_agrees_with_the_engine)


def test_a_loss_of_the_other_sign_makes_it_worse(checkpoint, monkeypatch):
    from level14 import train

    true = train.grpo_loss
    monkeypatch.setattr(train, "grpo_loss", lambda *args, **how: -true(*args, **how))
    refuses(checkpoint.test_rewards_make_it_better, match="the mean reward rises")
