"""The power pellet of level 14: SmolLM2-135M learns to answer like a pirate, with 61,440 numbers; and a group of its
answers is decoded at once.

Eight examples in one packed row, seven steps. The layers below the adapters are the same in every step and are computed
once (level14.frozen). Losses are in nats a token. Nothing is compared with a stored run of ours: each claim has an
oracle of its own.
"""

from dataclasses import replace
from functools import partial

import pytest
import torch

from dojo.models import TINY, load, random_params
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import generate
from level03.sampler import SamplingParams, chooser
from level06.weights import any_linear
from level14.adapters import NF4Weight, attach, merged, num_elements, projections
from level14.dpo import padded_logprobs
from level14.frozen import on_states, prefix_states, upper_layers
from level14.lora import lora_linear, lora_unmerge
from level14.packing import packed_row
from level14.rollout import rollout
from level14.sft import loss_mask, sft_loss
from level14.train import adamw, answer_batch, fit, grpo_step, optimizer_bytes

LESSONS = {
    "Name a fruit.": "Arr, apple!",
    "Name a color.": "Arr, red!",
    "Name a planet.": "Arr, Mars!",
    "Name a river.": "Arr, the Nile!",
    "Name a metal.": "Arr, iron!",
    "Name a bird.": "Arr, robin!",
    "Name a sport.": "Arr, football!",
    "Name a month.": "Arr, June!",
}
UNSEEN = {"Name a tree.": "Arr, oak!", "Name a country.": "Arr, Peru!", "Name a number.": "Arr, seven!"}
FIRST, RANK, ALPHA, STEPS, RATE = 22, 4, 8, 7, 1e-2  # the last 8 of 30 layers
NEED = 0.3  # of the frozen product alone: right programs reach 0.8 to 1, one that merges at each call 0.07 to 0.15


def example(tokenizer, question: str, answer: str):
    """(ids, which of them are learned) of one question and its answer."""
    prompt = tokenizer.encode_chat([{"role": "user", "content": question}])
    end = tokenizer.special["<|im_end|>"]
    return loss_mask([("user", prompt), ("assistant", [*tokenizer.encode(answer), end])])


class Lesson:
    """The rows of two sets of examples, with the states below layer 22, and adapters that have learned the first."""

    def __init__(self):
        self.config, self.params, data = load()
        tokenizer = SmolTokenizer.from_model(data)
        self.rows = [packed_row([example(tokenizer, q, a) for q, a in x.items()]) for x in (LESSONS, UNSEEN)]
        self.states = [
            prefix_states(self.params, self.config, FIRST, ids, positions=positions, mask=mask)
            for ids, _, positions, mask in self.rows
        ]
        self.upper, self.upper_config = upper_layers(self.params, self.config, FIRST)
        names = projections(range(self.upper_config.n_layers))
        draw = torch.Generator().manual_seed(0)
        self.adapted, self.trainable = attach(self.upper, names, RANK, ALPHA, draw)
        self.before = {name: part.detach().clone() for name, part in self.trainable.items()}
        with torch.no_grad():
            self.untouched = [self.logits(row, self.upper) for row in (0, 1)]
            self.at_first = [self.logits(row) for row in (0, 1)]
        self.losses, self.optimizer = fit(lambda i: self.loss(0), self.trainable, STEPS, RATE)

    def logits(self, row: int, params=None):
        ids, _, positions, mask = self.rows[row]
        params = on_states(self.adapted if params is None else params, self.states[row])
        return forward(params, self.upper_config, ids, linear=any_linear, positions=positions, mask=mask)

    def loss(self, row: int, params=None):
        ids, learned, _, _ = self.rows[row]
        return sft_loss(self.logits(row, params), ids, learned)


@pytest.fixture(scope="module")
def lesson():
    return Lesson()


# ---- an adapter


@pytest.mark.kata("level14.checkpoint")
def test_a_new_adapter_changes_nothing(expect, lesson):
    """b is 0: before the first step the model is what it was, to the last bit; and a is not, or nothing could learn."""
    expect(lambda: [torch.equal(x, y) for x, y in zip(lesson.at_first, lesson.untouched)]).equals([True, True])
    expect(lambda: all(lesson.before[name].any() for name in lesson.before if name.endswith(".a"))).equals(True)


@pytest.mark.kata("level14.checkpoint")
def test_what_learns_is_small(expect, lesson):
    """4 · (576 + 576 + 192 + 576) numbers in each of 8 layers; AdamW keeps two more of each, and a counter of 4 bytes
    for each of the 32 matrices."""
    numbers = 4 * (576 + 576 + 192 + 576) * 8
    expect(num_elements, lesson.trainable).equals(numbers)
    expect(lambda: optimizer_bytes(lesson.optimizer)).equals(2 * 4 * numbers + 4 * 32)


@pytest.mark.kata("level14.checkpoint")
def test_it_learns(expect, lesson):
    """From 5.2 nats a token of the answers to less than half; and so for three questions that it has not seen."""
    expect(lambda: [lesson.losses[0], lesson.loss(0).item()]).holds(
        lambda loss: loss[1] < loss[0] / 2, f"after {STEPS} steps the loss is less than half of what it was"
    )
    expect(lambda: [lesson.loss(1, lesson.upper).item(), lesson.loss(1).item()]).holds(
        lambda loss: loss[1] < 0.6 * loss[0], "of questions that it has not seen, less than 60%"
    )


@pytest.mark.kata("level14.checkpoint")
def test_the_frozen_weights_are_as_they_were(expect, lesson):
    """No gradient, no step: the model on disk serves every adapter."""
    _, fresh, _ = load()
    q = f"model.layers.{FIRST}.self_attn.q_proj.weight"
    expect(lambda: torch.equal(lesson.params[q], fresh[q]) and lesson.params[q].grad is None).equals(True)


@pytest.mark.kata("level14.checkpoint")
def test_merged_it_says_the_same(expect, lesson):
    """One matrix for three: the same logits up to rounding, though the adapter moved them by several units."""

    def differences():
        with torch.no_grad():
            beside, within = lesson.logits(1), lesson.logits(1, merged(lesson.adapted))
            return [(beside - within).abs().max().item(), (beside - lesson.untouched[1]).abs().max().item()]

    expect(differences).holds(lambda d: d[0] < 2e-3 and d[1] > 2, "merged differs by less than 0.002, of more than 2")


@pytest.mark.kata("level14.checkpoint")
def test_what_is_merged_can_be_taken_out_again(expect, lesson):
    """So that one model can serve one adapter after the other."""

    def largest():
        with torch.no_grad():
            pairs = [(w, lesson.upper[name]) for name, w in lesson.adapted.items() if hasattr(w, "merged")]
            return max((lora_unmerge(w.merged(), w.a, w.b, ALPHA) - own).abs().max().item() for w, own in pairs)

    expect(largest).holds(lambda x: x < 1e-5, "the matrices come back to within 0.00001")


# ---- four bits


@pytest.mark.kata("level14.checkpoint")
def test_a_matrix_in_nf4(expect):
    """4.5 bits a weight with scales in float32, 4.13 with scales in 8 bits; the error is that of 16 levels, and the
    second quantization adds next to nothing to it."""
    w = load()[1]["model.layers.0.mlp.gate_proj.weight"]

    def kept():
        once, twice = NF4Weight(w), NF4Weight(w, double=True)
        bits = [round(8 * one.nbytes / w.numel(), 2) for one in (once, twice)]
        return bits, [((one.dequantize() - w).norm() / w.norm()).item() for one in (once, twice)]

    expect(kept).holds(
        lambda found: found[0] == [4.5, 4.13] and all(0.092 < error < 0.095 for error in found[1]),
        "4.5 and 4.13 bits a weight, and an error of 9.3%: evenly spaced levels have 10.3%",
    )


# ---- answers to learn from


def asked():
    """(config, params, a prompt of SmolLM2, how it is sampled)."""
    config, params, data = load()
    prompt = SmolTokenizer.from_model(data).encode_chat([{"role": "user", "content": "Name a tree."}])
    return config, params, prompt, SamplingParams(temperature=0.8, seed=11, max_tokens=6)


@pytest.mark.kata("level14.checkpoint")
def test_a_group_is_decoded_at_once(expect):
    """Six passes for four answers, not twenty-four; each is what level 01 says alone with its seed."""
    config, params, prompt, sampling = asked()

    def shapes():
        seen = []

        def counting(params, config, ids, cache, **seams):
            seen.append(tuple(ids.shape))
            return forward(params, config, ids, cache, **seams)

        answers = rollout(params, config, prompt, 4, sampling, forward=counting)
        return seen, [answer.tokens for answer in answers]

    with torch.inference_mode():
        alone = [generate(params, config, prompt, 6, choose=chooser(replace(sampling, seed=11 + i))) for i in range(4)]
    expect(shapes).equals(([(1, len(prompt)), *[(4, 1)] * 5], alone))


@pytest.mark.kata("level14.checkpoint")
def test_the_trainer_agrees_with_the_engine(expect):
    """The log-probabilities that were noted while decoding are those of one pass over the finished answers: where they
    are not, the ratio of the first step is not 1, and the gradient is another one's."""
    config, params, prompt, sampling = asked()

    def off():
        answers = rollout(params, config, prompt, 4, sampling)
        ids, valid, mask, noted = answer_batch([prompt] * 4, answers)
        with torch.no_grad():
            scored = padded_logprobs(params, config, ids, valid, sampling.temperature)
        return ((scored - noted) * mask).abs().max().item()

    expect(off).holds(lambda x: x < 2e-3, "they differ by less than 0.002")


@pytest.mark.kata("level14.checkpoint")
def test_rewards_make_it_better(expect):
    """A tiny random model is rewarded for tokens that are multiples of 4: a quarter of them are at first, most of them
    after 20 steps of 4 prompts with 8 answers each. All of it is the level's own loss and rollout."""
    params = random_params(TINY)
    names = [name for name in params if name.endswith("_proj.weight")]
    adapted, trainable = attach(params, names, 4, 8, torch.Generator().manual_seed(0))
    optimizer, run = adamw(trainable, 2e-2), partial(forward, linear=any_linear)

    def rewards():
        found = []
        for step in range(20):
            sampling = SamplingParams(seed=1000 * step, max_tokens=8)
            prompts = [[1], [2], [3], [4]]
            done = grpo_step(adapted, TINY, prompts, 8, multiples_of_4, optimizer, sampling, forward=run)
            found.append(done["reward"])
        return found

    expect(rewards).holds(
        lambda r: sum(r[:2]) / 2 < 0.35 and sum(r[-3:]) / 3 > 0.45, "the mean reward rises from 0.25 to above 0.45"
    )


def multiples_of_4(prompt, tokens) -> float:
    return sum(token % 4 == 0 for token in tokens) / len(tokens)


# ---- the clock


def thin():
    """(arguments of lora_linear for the next token and a matrix of 2048 x 2048, the frozen product alone)."""
    draw = torch.Generator().manual_seed(0)
    x, w = torch.randn(1, 2048, generator=draw), torch.randn(2048, 2048, generator=draw)
    a, b = torch.randn(64, 2048, generator=draw), torch.randn(2048, 64, generator=draw)
    return (x, w, a, b, 16.0), lambda: x @ w.T


@pytest.mark.kata("level14.checkpoint")
@torch.inference_mode()
def test_an_adapter_is_served_beside_its_matrix(roofline):
    """One token, rank 64: two thin products beside a large one. Merged anew at each call, the matrix is made, written
    and read again for a single token."""
    args, product = thin()
    roofline(
        lambda: lora_linear(*args),
        product,
        need=NEED,
        flops=2 * 2048 * (2048 + 2 * 64),
        bytes=4 * 2048 * (2048 + 2 * 64),
        name="an adapter of rank 64 beside its matrix",
    )
