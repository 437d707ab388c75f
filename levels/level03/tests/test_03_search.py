"""Judges search.py by all texts of a small vocabulary, by a plain beam search in Python, and by transformers' generate.

Models are tables here: what follows a text is looked up, or made of random numbers seeded by the text. Where ties
matter, log-probabilities are quarters, so that every order of additions gives the same sum.
"""

import json
import math
import random
from pathlib import Path

import pytest
import torch

from level03.search import beam_search, beam_step

INF = math.inf
STORED = json.loads(Path(__file__).with_name("transformers_beams.json").read_text(encoding="utf-8"))
END = 2  # the token that ends a text, where nothing else is said


def logs(*probs):
    """Their natural logarithms; ln 0 is -inf."""
    return [math.log(p) if p else -INF for p in probs]


# ---- models: each answers with (n, V), a row for each text


class Table:
    """What follows each text of a table, and after every other text the default."""

    def __init__(self, default, rows=(), dtype=torch.float64):
        self.default, self.rows, self.dtype = default, dict(rows), dtype

    def row(self, tokens):
        return self.rows.get(tokens, self.default)

    def __call__(self, beams):
        if not beams:
            raise ValueError("there is no text that could go on, so there is nothing to ask")
        return torch.tensor([self.row(tokens) for tokens in beams], dtype=self.dtype)

    def __repr__(self):
        """As a verdict prints it: what follows each text."""
        shown = {text: [float(f"{x:.4g}") for x in row] for text, row in {**self.rows, "else": self.default}.items()}
        return f"Table({shown})"


class Noise(Table):
    """The softmax of random logits, seeded by the text. tools/oracles/level03_search.py makes the same."""

    def __init__(self, seed, vocab):
        super().__init__(None)
        self.seed, self.vocab = seed, vocab

    def row(self, tokens):
        if tokens not in self.rows:
            rng = random.Random(f"{self.seed} {tokens}")
            self.rows[tokens] = log_softmax([6 * rng.random() for _ in range(self.vocab)])
        return self.rows[tokens]

    def __repr__(self):
        return f"Noise(seed={self.seed}, vocab={self.vocab})"


def log_softmax(logits):
    total = math.log(math.fsum(map(math.exp, logits)))
    return [z - total for z in logits]


def searched(model, width, max_tokens, eos_id=END, **how):
    """The hypotheses, and the texts that the model was asked about at each step."""
    asked = []

    def next_logprobs(beams):
        asked.append(beams[:])
        return model(beams)

    return beam_search(next_logprobs, width, max_tokens, eos_id, **how), asked


def found(*args, **how):
    """The hypotheses alone."""
    return searched(*args, **how)[0]


# ---- oracles


def every_text(model, max_tokens, eos_id, length_penalty):
    """All texts that can be made, best first, by brute force."""
    texts, complete = [((), 0.0)], []
    for _ in range(max_tokens):
        longer = [((*tokens, i), score + x) for tokens, score in texts for i, x in enumerate(model.row(tokens))]
        longer = [(tokens, score) for tokens, score in longer if score > -INF]
        complete += [text for text in longer if text[0][-1] == eos_id]
        texts = [text for text in longer if text[0][-1] != eos_id]
    scored = [(tokens, score / len(tokens) ** length_penalty) for tokens, score in complete + texts]
    return sorted(scored, key=lambda text: -text[1])


def one_step(beams, rows, width, eos_id):
    """A step of a beam search: one list of all extensions, sorted."""
    extensions = [
        (-(score + x), beam, token)
        for beam, (_, score) in enumerate(beams)
        for token, x in enumerate(rows[beam])
        if x > -INF
    ]
    ranked = [((*beams[beam][0], token), -cost) for cost, beam, token in sorted(extensions)]
    ended = [text for text in ranked[:width] if text[0][-1] == eos_id]
    return [text for text in ranked if text[0][-1] != eos_id][:width], ended


def by_hand(model, width, max_tokens, eos_id=END, length_penalty=1.0, early_stopping=False):
    """A plain beam search: the hypotheses, and the texts of each step."""
    beams, complete, asked = [((), 0.0)], [], []
    for length in range(1, max_tokens + 1):
        asked.append([tokens for tokens, _ in beams])
        beams, ended = one_step(beams, [model.row(tokens) for tokens, _ in beams], width, eos_id)
        ended += beams if length == max_tokens else []
        complete = sorted(complete + [(t, s / length**length_penalty) for t, s in ended], key=lambda text: -text[1])
        reach = [score / max_tokens**length_penalty for _, score in beams]
        full = len(complete) >= width
        if not beams or full and early_stopping or full and complete[width - 1][1] >= max(reach):
            break
    return complete[:width], asked


# ---- beam_step, a part of beam_search


def stepped(beams, rows, width, eos_id=END, dtype=torch.float64):
    return beam_step(beams, torch.tensor(rows, dtype=dtype), width, eos_id)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_step_adds_logarithms_and_chooses_among_all(expect, dtype):
    """The example: the second beam's best extension, .4 · .9, beats the first's, .6 · .5. And two from one beam."""
    beams = [((0,), math.log(0.6)), ((1,), math.log(0.4))]
    right = [((1, 0), math.log(0.36)), ((0, 0), math.log(0.3))], []
    expect(stepped, beams, [logs(0.5, 0.45, 0.05), logs(0.9, 0.05, 0.05)], 2, dtype=dtype).equals(right)
    right = [((0, 0), math.log(0.3)), ((0, 1), math.log(0.27))], []
    expect(stepped, beams, [logs(0.5, 0.45, 0.05), logs(0.3, 0.3, 0.4)], 2, dtype=dtype).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_a_step_begins_with_one_beam(expect):
    """The first step has one text, the empty one, and already gives `width` beams; a beam may be long, too."""
    expect(stepped, [((), 0.0)], [logs(0.6, 0.3, 0.1)], 2).equals(([((0,), math.log(0.6)), ((1,), math.log(0.3))], []))
    right = [((5, 0, 3, 1), math.log(0.3) - 4), ((5, 0, 3, 0), math.log(0.25) - 4)], []
    expect(stepped, [((5, 0, 3), -4.0)], [logs(0.25, 0.3, 0.1, 0.15, 0.2)], 2, 4).equals(right)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize(
    "row, width, going_on, finished",
    [
        ([0.5, 0.25, 0.25, 0.0], 2, [0, 1], []),
        ([0.2, 0.1, 0.6, 0.1], 2, [0, 1], [2]),
        ([0.5, 0.1, 0.3, 0.1], 2, [0, 1], [2]),
        ([0.5, 0.3, 0.15, 0.05], 2, [0, 1], []),
        ([0.5, 0.2, 0.3, 0.0], 1, [0], []),
        ([0.3, 0.2, 0.5, 0.0], 1, [0], [2]),
        ([0.1, 0.3, 0.2, 0.4], 4, [3, 1, 0], [2]),
        ([0.1, 0.3, 0.2, 0.4], 9, [3, 1, 0], [2]),
        ([0.0, 0.0, 1.0, 0.0], 2, [], [2]),
        ([0.0, 0.0, 0.0, 0.0], 2, [], []),
        ([0.0, 0.7, 0.0, 0.3], 3, [1, 3], []),
    ],
    ids=["never", "best", "second", "third of two", "second of one", "best of one", "all", "more than there are"]
    + ["only the end", "nothing", "two that can"],
)
def test_the_end_counts_among_the_first_and_its_place_is_filled(expect, row, width, going_on, finished):
    """An end that is not among the first `width` is no hypothesis; one that is does not take a beam's place, or the
    search would narrow with every end. What is at -inf extends nothing."""
    right = ([((7, i), math.log(row[i]) - 1) for i in group] for group in (going_on, finished))
    expect(stepped, [((7,), -1.0)], [logs(*row)], width).equals(tuple(right))


@pytest.mark.kata("level03.search.beam_search")
def test_unlikely_is_not_impossible(expect):
    """-1000 is a log-probability like others: where nothing better is left, it makes a beam. Only -inf does not."""
    right = [((7, 0), -1001.0), ((7, 1), -2001.0)], [((7, 2), -501.0)]
    expect(stepped, [((7,), -1.0)], [[-1000.0, -2000.0, -500.0, -INF]], 4).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_a_step_in_which_every_beam_wants_to_end(expect):
    """Three ends are the three best extensions: they finish, best first, and three others go on."""
    beams = [((0,), -1.0), ((1,), -1.25), ((3,), -1.5)]
    rows = [[-3.0, -4.0, -0.25, -5.0], [-3.0, -2.5, -0.5, -4.5], [-6.0, -6.0, -0.125, -4.0]]
    right = (
        [((1, 1), -3.75), ((0, 0), -4.0), ((1, 0), -4.25)],
        [((0, 2), -1.25), ((3, 2), -1.625), ((1, 2), -1.75)],
    )
    expect(stepped, beams, rows, 3).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_on_a_tie_the_earlier_beam_then_the_smaller_id(expect):
    """Two servers, or two runs, that break ties differently give different answers to one request."""
    beams = [((4,), -1.0), ((3,), -1.0), ((1,), -1.5)]
    rows = [[-2.0, -1.0, -9.0, -1.0, -2.0], [-1.0, -2.0, -9.0, -2.0, -1.0], [-0.5, -0.5, -9.0, -0.5, -0.5]]
    right = [((4, 1), -2.0), ((4, 3), -2.0), ((3, 0), -2.0), ((3, 4), -2.0), ((1, 0), -2.0)], []
    expect(stepped, beams, rows, 5).equals(right)
    right = [((4, 1), -2.0), ((4, 3), -2.0), ((3, 0), -2.0)], []
    expect(stepped, beams, rows, 3).equals(right)
    expect(stepped, beams, rows, 3, 1).equals(([((4, 3), -2.0), ((3, 0), -2.0), ((3, 4), -2.0)], [((4, 1), -2.0)]))
    expect(stepped, beams, rows, 3, 4).equals(([((4, 1), -2.0), ((4, 3), -2.0), ((3, 0), -2.0)], []))


def quarters(seed):
    """Beams and rows with many ties and some -inf: their number, the vocabulary and the width vary."""
    rng = random.Random(seed)
    width, vocab = rng.randint(1, 5), rng.randint(1, 6)
    beams = [(tuple(rng.choices(range(9), k=3)), -rng.randint(0, 12) / 4) for _ in range(rng.randint(1, width))]
    beams.sort(key=lambda text: -text[1])
    rows = [[-rng.randint(0, 8) / 4 if rng.random() < 0.8 else -INF for _ in range(vocab)] for _ in beams]
    return beams, rows, width, rng.randrange(vocab)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_steps_with_many_ties(expect, dtype):
    """Oracle: one sorted list of all extensions, 100 random steps; all sums are quarters, exact in every dtype."""

    def steps(cases):
        return [stepped(*case, dtype=dtype) for case in cases]

    cases = [quarters(seed) for seed in range(100)]
    expect(steps, cases).equals([one_step(*case) for case in cases])


@pytest.mark.kata("level03.search.beam_search")
def test_a_step_on_a_large_vocabulary(expect):
    """3 beams of 5000 tokens in bfloat16, transposed: no sum is rounded to 8 bits, no id is taken for another."""
    torch.manual_seed(0)
    logprobs = torch.randn(5000, 3).mul(3).log_softmax(0).bfloat16().T
    beams = [((1,), -20.3), ((2,), -20.45), ((3,), -20.7)]
    expect(beam_step, beams, logprobs, 3, 17).equals(one_step(beams, logprobs.tolist(), 3, 17))


# ---- beam_search

# the first token has .5, .4, .1; after 0 comes .4, .3, .3; after 1 comes .05, .05, .9; after all else .3, .3, .4
TREE = Table(logs(0.3, 0.3, 0.4), {(): logs(0.5, 0.4, 0.1), (0,): logs(0.4, 0.3, 0.3), (1,): logs(0.05, 0.05, 0.9)})


@pytest.mark.kata("level03.search.beam_search")
def test_a_better_text_may_begin_with_a_worse_token(expect):
    """Greedy takes .5 · .4 = .2; two beams find .4 · .9 = .36. Width 1 is greedy."""
    expect(searched, TREE, 1, 2, length_penalty=0).equals(([((0, 0), math.log(0.2))], [[()], [(0,)]]))
    right = [((1, 2), math.log(0.36)), ((0, 0), math.log(0.2))], [[()], [(0,), (1,)]]
    expect(searched, TREE, 2, 2, length_penalty=0).equals(right)


# ---- by hand: log-probabilities are quarters and eighths


@pytest.mark.kata("level03.search.beam_search")
def test_what_has_ended_is_left_alone(expect):
    """The end as the best first token: it is a hypothesis, is not asked about again, and both beams go on."""
    model = Table([-1.0, -2.0, -0.25])
    right = [((2,), -0.25), ((0, 2), -1.25)], [[()], [(0,), (1,)]]
    expect(searched, model, 2, 9, length_penalty=0).equals(right)
    right = [((2,), -0.25), ((0, 2), -0.625), ((0, 0, 2), -0.75)]
    expect(found, model, 3, 3).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_the_first_end_is_not_the_best(expect):
    """.45 at once, or .45 · .9 after two tokens: by the sum the short text wins, by the mean the longer one."""
    model = Table(logs(0.3, 0.4, 0.3), {(): logs(0.1, 0.45, 0.45), (1,): logs(0.05, 0.9, 0.05)})
    short, long, other = math.log(0.45), math.log(0.45 * 0.9), math.log(0.1 * 0.4)
    expect(found, model, 2, 2, length_penalty=0).equals([((2,), short), ((1, 1), long)])
    expect(found, model, 2, 2).equals([((1, 1), long / 2), ((2,), short)])
    expect(found, model, 2, 2, length_penalty=3).equals([((1, 1), long / 8), ((0, 1), other / 8)])


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("length_penalty", [0, 0.5, 1, 2, 3.5])
def test_length_counts_every_new_token_and_the_end(expect, length_penalty):
    """A sum of -6 over x, y and the end is -2 at penalty 1: not -3, and not less because a prompt was long."""
    model = Table([-INF, -INF, -1.0, -INF], {(): [-3.0, -INF, -INF, -INF], (0,): [-INF, -INF, -INF, -2.0]})
    expect(found, model, 1, 5, length_penalty=length_penalty).equals([((0, 3, 2), -6 / 3**length_penalty)])
    expect(found, model, 3, 2, length_penalty=length_penalty).equals([((0, 3), -5 / 2**length_penalty)])


@pytest.mark.kata("level03.search.beam_search")
def test_by_default_it_compares_means_and_goes_on(expect):
    """length_penalty 1, early_stopping False: two ends are there after two steps, the best two after five."""
    model = Table([-0.5, -3.0, -0.75])
    right = [((0, 0, 0, 0, 0), -0.5), ((0, 0, 0, 0, 2), -0.55)]
    asked = [[()], *([(0,) * i, (*(0,) * (i - 1), 1)] for i in range(1, 5))]
    expect(searched, model, 2, 5).equals((right, asked))


@pytest.mark.kata("level03.search.beam_search")
def test_early_stopping_ends_with_the_last_of_width_ends(expect):
    """The same model: with two ends after two steps it stops, though the beam at -1 could still come to -1 / 5."""
    right = [((0, 2), -0.625), ((2,), -0.75)], [[()], [(0,), (1,)]]
    expect(searched, Table([-0.5, -3.0, -0.75]), 2, 5, early_stopping=True).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_early_stopping_counts_ends_and_nothing_else(expect):
    """Without ends it goes on to max_tokens; where there are fewer than `width`, texts that were cut fill the list."""
    model = Table([-0.5, -1.0, -INF])
    right = [((0, 0, 0), -0.5), ((0, 0, 1), -2 / 3)], [[()], [(0,), (1,)], [(0, 0), (0, 1)]]
    expect(searched, model, 2, 3, early_stopping=True).equals(right)
    model = Table([-0.5, -1.0, -9.0], {(): [-0.5, -1.0, -0.25]})
    right = [((2,), -0.25), ((0, 0, 0), -0.5), ((0, 0, 1), -2 / 3)]
    expect(found, model, 3, 3, early_stopping=True).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_what_is_cut_in_the_last_step_is_compared_with_what_ended(expect):
    """The second end and max_tokens come together: the beam that was cut there has the better score, and wins."""
    model = Table([-0.5, -3.0, -0.75])
    right = [((0, 0), -0.5), ((0, 2), -0.625)], [[()], [(0,), (1,)]]
    expect(searched, model, 2, 2, early_stopping=True).equals(right)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("early_stopping", [True, False])
def test_of_more_ends_than_asked_for_the_best_are_returned(expect, early_stopping):
    """One end from the first step, three from the second, width 3: by the mean, the first one is out again."""
    rows = {(): [-0.5, -1.5, -1.0, -0.75]}
    rows |= {(0,): [-9.0, -9.0, -0.75, -9.0], (1,): [-9.0, -9.0, -0.25, -9.0], (3,): [-9.0, -9.0, -0.25, -9.0]}
    model = Table([-9.0] * 4, rows)
    right = [((3, 2), -0.5), ((0, 2), -0.625), ((1, 2), -0.875)], [[()], [(0,), (3,), (1,)]]
    expect(searched, model, 3, 6, early_stopping=early_stopping).equals(right)
    right = [((2,), -1.0), ((3, 2), -1.0), ((0, 2), -1.25)], right[1]
    expect(searched, model, 3, 6, length_penalty=0, early_stopping=early_stopping).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_it_goes_on_while_a_beam_can_reach_the_best(expect):
    """Sum -4 after 4 tokens, 10 allowed: the mean may still become -.4, so an end at -.8 is no reason to stop. Judged
    by the mean so far, -1, the search would return the -.8."""
    rows = {(0,) * i: [-1.0, -9.0, -0.8 if i == 0 else -9.0] for i in range(4)}
    model = Table([0.0, -INF, -INF], rows)
    expect(searched, model, 1, 10).equals(([((0,) * 10, -0.4)], [[(0,) * i] for i in range(10)]))


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize(
    "end, length_penalty, goes_on",
    [(-0.25, 0, False), (-0.5, 0, False), (-0.0625, 1, False), (-0.125, 1, False), (-0.25, 1, True)]
    + [(-0.03125, 2, False), (-0.0625, 2, True), (-0.25, 0.5, False), (-0.375, 0.5, True), (-0.1251, 1, True)],
)
def test_it_ends_when_no_beam_can(expect, end, length_penalty, goes_on):
    """The beam has -.5 after the first of 4 tokens: at penalties 0, .5, 1 and 2 it can come to -.5, -.25, -.125 and
    -.03125. On a tie what was completed first is first: a pass for nothing costs as much as any other."""
    model = Table([-INF, 0.0, -INF], {(): [end, -0.5, -8.0]})
    right = [((0,), end)], [[()]]
    if goes_on:
        right = [((1, 1, 1, 1), -0.5 / 4**length_penalty)], [[(1,) * i] for i in range(4)]
    expect(searched, model, 1, 4, 0, length_penalty=length_penalty).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_a_beam_that_can_become_the_second_is_enough_to_go_on(expect):
    """Width 2: nothing can beat the end at -.25 any more, but the one at -2 can still be beaten."""
    model = Table([-0.5, -8.0, -8.0], {(): [-2.0, -1.0, -0.25], (1,): [-0.25, -8.0, -1.0]})
    right = [((2,), -0.25), ((1, 0, 0), -1.75)], [[()], [(1,), (0,)], [(1, 0), (0, 0)]]
    expect(searched, model, 2, 3, length_penalty=0).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_of_equal_scores_the_one_completed_first_is_first(expect):
    """Means of -1 after one, two and three tokens: the order is the same on every machine, and so is what is cut."""
    rows = {(): [-1.0, -1.5, -1.0], (0,): [-9.0, -9.0, -1.0], (1,): [-0.5, -9.0, -9.0], (1, 0): [-9.0, -9.0, -1.0]}
    model = Table([-9.0, -9.0, -9.0], rows)
    right = [((2,), -1.0), ((0, 2), -1.0), ((1, 0, 2), -1.0)]
    expect(found, model, 2, 6).equals(right[:2])
    expect(found, model, 3, 3).equals(right)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_one_token(expect, width):
    """max_tokens 1 ranks the first row, the end among the rest; width 7 of 4 tokens gives 4."""
    row = logs(0.2, 0.1, 0.4, 0.3)
    right = [((i,), row[i]) for i in (2, 3, 0, 1)][:width]
    expect(searched, Table(row), width, 1).equals((right, [[()]]))


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("early_stopping", [True, False])
def test_a_beam_that_can_not_go_on_is_dropped(expect, early_stopping):
    """A grammar can leave it nothing. When no beam is left the search ends, with what is complete, be it nothing."""
    rows = {(): [-0.5, -1.0, -INF], (1,): [-1.0, -INF, -INF]}
    model, asked = Table([-INF] * 3, rows), [[()], [(0,), (1,)], [(1, 0)]]
    expect(searched, model, 2, 9, early_stopping=early_stopping).equals(([], asked))
    model = Table([-INF] * 3, rows | {(1,): [-1.0, -INF, -2.0]})
    expect(searched, model, 2, 9, early_stopping=early_stopping).equals(([((1, 2), -1.5)], asked))
    model = Table([-INF] * 3)
    expect(searched, model, 2, 9, early_stopping=early_stopping).equals(([], [[()]]))


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_certain_text_has_score_0(expect, length_penalty):
    """Probability 1 at every step, as a grammar forces it. A score of 0 is a score: nothing is `if score`."""
    model = Table([0.0, -INF, -INF])
    right = [((0, 0, 0), 0.0)], [[()], [(0,)], [(0, 0)]]
    expect(searched, model, 2, 3, length_penalty=length_penalty).equals(right)
    model = Table([-INF, -INF, 0.0], {(): [0.0, -INF, -1.0]})
    right = [((0, 2), 0.0), ((2,), -1.0)], [[()], [(0,)]]
    expect(searched, model, 2, 3, length_penalty=length_penalty).equals(right)


# ---- against the oracles


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("length_penalty", [0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("vocab, max_tokens, eos_id", [(3, 3, 2), (3, 4, 0), (4, 3, 1), (2, 5, 1), (3, 1, 2)])
def test_wide_enough_it_finds_every_text(expect, vocab, max_tokens, eos_id, length_penalty):
    """Oracle: brute force over all texts. All of them in their order, with their normalised scores: what ended early
    and what was cut at max_tokens side by side."""
    model = Noise(vocab, vocab)
    right = every_text(model, max_tokens, eos_id, length_penalty)
    expect(found, model, 99, max_tokens, eos_id, length_penalty=length_penalty).equals(right)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("length_penalty", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_it_keeps_what_a_plain_search_keeps(expect, width, length_penalty):
    """Oracle: a beam search written with Python's sort. 8 random models; the texts asked about at each step as well:
    every question is a pass through the model."""
    models = [(Noise(seed, 3 + seed % 3), width, 3 + seed % 4, seed % 3) for seed in range(8)]
    for model in models:
        expect(searched, *model, length_penalty=length_penalty).equals(by_hand(*model, length_penalty))


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("max_tokens", [2, 4, 15])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_it_stops_early_where_a_plain_search_does(expect, width, length_penalty, max_tokens):
    """The same with early_stopping: with 15 tokens allowed all have ended before, with 2 or 4 the last step decides."""
    models = [(Noise(seed, 3 + seed % 3), width, max_tokens, seed % 3) for seed in range(8)]
    for model in models:
        right = by_hand(*model, length_penalty, True)
        assert len(right[1]) < 15
        expect(searched, *model, length_penalty=length_penalty, early_stopping=True).equals(right)


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("early_stopping", [True, "never"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_it_finds_what_transformers_finds(expect, length_penalty, early_stopping):
    """Stored results of generate(num_beams=…): texts, scores, and how often the model was asked.

    "never" is what early_stopping False means here; made by tools/oracles/level03_search.py.
    """

    def all_found(cases):
        results = []
        for case in cases:
            model = Noise(case["seed"], case["vocab"])
            how = {"length_penalty": case["length_penalty"], "early_stopping": case["early_stopping"] is True}
            texts, asked = searched(model, case["width"], case["max_tokens"], STORED["eos_id"], **how)
            results.append((texts, len(asked)))
        return results

    same = {"length_penalty": length_penalty, "early_stopping": early_stopping}
    cases = [case for case in STORED["cases"] if case | same == case]
    assert len(cases) == 7
    right = [([(tuple(tokens), score) for tokens, score in case["found"]], case["steps"]) for case in cases]
    inputs = [{key: case[key] for key in case if key not in ("found", "steps")} for case in cases]
    expect(all_found, inputs).equals(right, rel=1e-4, abs=1e-4)


# ---- its manners


@pytest.mark.kata("level03.search.beam_search")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_model_s_tensor_is_only_read(expect, dtype):
    """It may be a view of a buffer that the next step uses again: adding the scores in place would spoil it."""

    def kept(rows, width, max_tokens):
        buffer = torch.tensor(rows, dtype=dtype)
        texts = beam_search(lambda beams: buffer[: len(beams)], width, max_tokens, END)
        return texts, buffer

    rows = [[-1.0, -2.0, -1.5, -0.75]] * 4
    right = by_hand(Table(rows[0]), 4, 6)[0], torch.tensor(rows, dtype=dtype)
    expect(kept, rows, 4, 6).equals(right)


@pytest.mark.kata("level03.search.beam_search")
def test_a_search_without_beams_or_tokens_is_refused(expect):
    """And one below penalty 0, which would reward short texts: there s / max_tokens ** penalty bounds nothing."""
    expect(found, TREE, 1, 1).equals([((0,), math.log(0.5))])
    expect(found, TREE, 0, 3).raises(ValueError)
    expect(found, TREE, 2, 0).raises(ValueError)
    expect(found, TREE, 2, 3, length_penalty=-0.5).raises(ValueError)
