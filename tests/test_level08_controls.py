"""The negative controls of level 08's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.cost import count
from dojo.expect import Expect, Mismatch
from dojo.models import load, matrices
from dojo.roofline import Sweep, judge
from tests.controls import checkpoint_of, copying, solutions_of

LEVELS = [f"level{n:02}" for n in range(9)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level08")


def sweeps(checkpoint):
    """The reference: 3 readings of the weights, each with 4 rows."""
    sweep = Sweep(matrices(load()[1]), checkpoint.GAMMA + 1)
    return lambda: [sweep() for _ in range(3)]


def token_by_token(params, config, prompt, max_tokens, propose, gamma, stop_ids, cache, forward=None):
    """Drafts, and checks each drafted token in a pass of its own: the same rounds, and the work of plain decoding."""
    from level00.transformer import forward as true
    from level08.loop import Round

    tokens, left = list(prompt), max_tokens
    while left > 0:
        draft = propose(list(tokens), min(gamma, left - 1)) if left > 1 else []
        new = []
        while not new or new == draft[: len(new)]:
            logits = (forward or true)(params, config, torch.tensor([tokens[-1:]]), cache)
            new.append(int(logits[0, -1].argmax()))
            tokens.append(new[-1])
            if len(new) == len(draft) + 1:
                break
        left -= len(new)
        yield Round(new, len(draft), sum(a == b for a, b in zip(new, draft)))


def one_by_one(checkpoint):
    answer = checkpoint.counting(load(), checkpoint.always_right())
    return lambda **seams: answer(token_by_token, **seams)


def test_the_slow_loop_gives_the_right_words(checkpoint):
    """Else it would be no control."""
    right = checkpoint.STORED["count"]["answer"]
    assert one_by_one(checkpoint)() == checkpoint.counting(load(), checkpoint.always_right())() == right


def test_a_draft_checked_token_by_token_is_too_slow(checkpoint):
    slow = judge(one_by_one(checkpoint), sweeps(checkpoint), need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    answer = checkpoint.counting(load(), checkpoint.always_right())
    right = judge(answer, sweeps(checkpoint), need=checkpoint.NEED)
    assert right.state == "pass", str(right)


def test_token_by_token_and_copied_weights_read_too_much(checkpoint):
    most = checkpoint.MOST_READ * 3 * sum(weight.nbytes for weight in matrices(load()[1]))
    answer = checkpoint.counting(load(), checkpoint.always_right())
    assert count(answer).bytes_read < most
    assert count(one_by_one(checkpoint)).bytes_read > 2 * most
    forward = checkpoint.partial(checkpoint.forward, linear=copying)
    assert count(lambda: answer(forward=forward)).bytes_read > most


def test_token_by_token_uses_every_matrix_twelve_times(checkpoint, monkeypatch):
    """Its words are right: only the count of products tells."""
    slow = one_by_one(checkpoint)
    monkeypatch.setattr(checkpoint, "counting", lambda model, propose: slow)
    with pytest.raises(Mismatch, match="2532"):
        checkpoint.test_a_pass_uses_every_matrix_once(Expect(), load())


def test_no_seeded_token_is_drawn_close_to_an_edge(checkpoint):
    """The seeded text must not depend on the order of additions: it moves a probability by a millionth."""
    from level01.generate import generate
    from level03.sampler import choose_tokens, process, uniform

    config, params, data = load()
    text, sampling = checkpoint.SEEDED
    ids = checkpoint.SmolTokenizer.from_model(data).encode(text)
    nearest = []

    def noting(logits, prompts, outputs):
        probs = process(logits, sampling, prompts, outputs).double().softmax(-1)
        nearest.append((probs.cumsum(-1) - uniform(sampling.seed, len(outputs[0]))).abs().min().item())
        return choose_tokens(logits, prompts, outputs, [sampling])

    generate(params, config, ids, 12, choose=noting)
    assert min(nearest) > 1e-4, min(nearest)
