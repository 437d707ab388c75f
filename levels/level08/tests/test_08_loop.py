"""Judges loop.py by texts that are known beforehand: whatever is drafted, the output is theirs, and so is each round.

The target is a stand-in for `forward` that notes what it is fed; its best next token depends on all tokens that the
cache holds and on their order. The cache keeps the tokens themselves, so that a round's end shows what is in it. At
the end of the file level 00's forward takes its place, and level 01's loop is the oracle.
"""

import random

import numpy as np
import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level01 import generate as level01
from level02.cache import KVCache
from level03.sampler import SamplingParams, chooser
from level06.paged import PagedCache, Pool
from level08.loop import generate, speculate

SHAPE = Config(2, 8, 2, 1, 4, 16, vocab_size=31, max_seq_len=60, tie_embeddings=False)
WEIGHTS = random_params(SHAPE, seed=0)  # not read by the stand-in
PROMPT = [3, 1, 4, 1]
HELD = (6, 2, 30)  # of a conversation that the cache holds already


def best_after(tokens):
    """The stand-in's best next token: depends on every token, its place and the number of them."""
    return (sum((i + 2) * (i + 3) * t for i, t in enumerate(tokens)) + len(tokens)) % SHAPE.vocab_size


def scores_after(tokens):
    """Its logits (vocab,): 30 for the best token, 29 for the one after it in the vocabulary, and so on to 0."""
    return ((best_after(tokens) - 1 - torch.arange(SHAPE.vocab_size)) % SHAPE.vocab_size).float()


class Model:
    """Stands in for `forward`: notes the tokens of each call, and finds those before them in the cache."""

    def __init__(self):
        self.fed = []

    def __call__(self, params, config, token_ids, cache=None, **seams):
        if token_ids.shape[0] != 1 or token_ids.min() < 0 or token_ids.max() >= config.vocab_size:
            raise ValueError("token_ids is one row of tokens of the vocabulary")
        self.fed += token_ids.tolist()
        whole = seen = token_ids.view(1, 1, -1, 1).float()
        for layer in range(config.n_layers if cache is not None else 0):
            whole, _ = cache.update(layer, seen, -seen)
        row = whole[0, 0, :, 0].long().tolist()
        if len(row) > config.max_seq_len:
            raise ValueError("beyond the model's length")
        return torch.stack([scores_after(row[: i + 1]) for i in range(len(row) - token_ids.shape[1], len(row))])[None]


class Cache:
    """A KV cache that can say which tokens it holds. Empty it counts as false."""

    def __init__(self, held=()):
        self.rows = [None, None]
        if held:
            Model()(WEIGHTS, SHAPE, torch.tensor([held]), self)

    @property
    def length(self):
        return 0 if self.rows[-1] is None else self.rows[-1].shape[2]

    def __len__(self):
        return self.length

    @property
    def tokens(self):
        return [] if self.rows[-1] is None else self.rows[-1].flatten().long().tolist()

    def update(self, layer, k, v):
        self.rows[layer] = k if self.rows[layer] is None else torch.cat([self.rows[layer], k], 2)
        return self.rows[layer], -self.rows[layer]

    def truncate(self, n):
        if not 0 <= n <= self.length:
            raise ValueError(f"{self.length} tokens can't be cut to {n}")
        self.rows = [k if k is None else k[:, :, :n] for k in self.rows]


def best(prompt, output):
    return 0


def kth(prompt, output):
    """Which one `Choice` takes: depends on how many tokens there are, on the last, and on the prompt's first."""
    return (2 * len(output) + sum(output[-1:]) + prompt[0]) % SHAPE.vocab_size


class Choice:
    """A `choose` that takes the kth best token, and notes what it is given."""

    def __init__(self):
        self.seen = []

    def __call__(self, logits, prompt_ids, output_ids):
        prompts, outputs = ([[int(token) for token in ids] for ids in history] for history in (prompt_ids, output_ids))
        self.seen.append((logits.clone(), prompts, outputs))
        return logits.argsort(descending=True)[:, kth(prompts[0], outputs[0])]


def written(prompt, n, held=(), rank=best):
    """Oracle: the n tokens of a plain loop, each the rank-th best."""
    output = []
    for _ in range(n):
        output.append((best_after([*held, *prompt, *output]) + rank(prompt, output)) % SHAPE.vocab_size)
    return output


# ---- drafters, by name

DRAFTERS = (
    *("right", "wrong", "every third is wrong", "every second is right", "right at times", "nothing"),
    *("nothing at times", "one", "too many", "too many wrong", "one too early", "first wrong, then right"),
    *("always the same", "a tuple", "numpy"),
)
WRONG = {
    "wrong": (1, 0),
    "every third is wrong": (3, 2),
    "every second is right": (2, 0),
}  # from which on, each how many


def draft_by(name, truth, at, k):
    """The draft behind the first `at` tokens of `truth`, which is all that the target will write."""
    right = truth[at : at + k]
    if name == "right at times":
        return [token if (i * i + 3) % 7 < 3 else (token + 5) % 31 for i, token in enumerate(right, at)]
    if name == "nothing" or name == "nothing at times" and at % 2 == 0:
        return []
    if name == "one":
        return right[:1]
    if name.startswith("too many"):
        return [*right, 0, 0, 0, 0, 0] if "wrong" in name else truth[at : at + k + 3]
    if name == "one too early":
        return truth[at + 1 : at + 1 + k]
    if name == "first wrong, then right":
        return [(right[0] + 1) % 31, *right[1:]]
    if name == "always the same":
        return truth[:1] * k
    if name == "a tuple":
        return tuple(right[:2])
    if name == "numpy":
        return list(np.array(right, dtype=np.int64))
    every, first = WRONG.get(name, (1, 999))
    return [(token + 30 * (i >= first and i % every == first)) % 31 for i, token in enumerate(right, at)]


class Drafter:
    """propose(tokens, k) of one of these; it notes how it is asked, and spoils the list that it is given."""

    def __init__(self, name, prompt, truth):
        self.name, self.prompt, self.truth, self.asked = name, list(prompt), truth, []

    def __call__(self, tokens, k):
        self.asked.append((list(tokens), k))
        at = len(tokens) - len(self.prompt)
        draft = draft_by(self.name, self.truth, at, k) if 0 <= at < len(self.truth) else []
        tokens += [30, 30]
        tokens[0] = 30
        return draft


def expected(name, prompt, n, gamma, held=(), rank=best):
    """Oracle: the rounds, as (tokens, proposed, accepted), of one who knows the text; and how the drafter is asked."""
    truth, rounds, asked = written(prompt, n + 20, held, rank), [], []
    at = 0
    while at < n:
        k = min(gamma, n - at - 1)
        draft = list(draft_by(name, truth, at, k))[:k] if k else []
        asked += [([*prompt, *truth[:at]], k)] if k else []
        right = 0
        while right < len(draft) and draft[right] == truth[at + right]:
            right += 1
        rounds.append((truth[at : at + right + 1], len(draft), right))
        at += right + 1
    return rounds, asked


def plain(rounds):
    return [(list(each.tokens), each.proposed, each.accepted) for each in rounds]


def rounds_of(name, prompt, n, gamma, held=(), sampled=False):
    """The rounds, each as (tokens, proposed, accepted)."""
    more = {"choose": Choice()} if sampled else {}
    drafter = Drafter(name, prompt, written(prompt, n + 20, held, kth if sampled else best))
    cache = Cache(held) if held else None
    return plain(speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, (), cache, forward=Model(), **more))


@pytest.mark.kata("level08.loop.speculate")
def test_the_example(expect):
    """The docstring's: 3 tokens, gamma 2. All right is one pass, all wrong three, of one token each; the last one is
    not drafted. By hand, the model's next tokens are a, b, c."""
    a, b, c = written(PROMPT, 3)
    expect(rounds_of, "right", PROMPT, 3, 2).equals([([a, b, c], 2, 2)])
    expect(rounds_of, "wrong", PROMPT, 3, 2).equals([([a], 2, 0), ([b], 1, 0), ([c], 0, 0)])


def passes(name, prompt, n, gamma, held=()):
    """The tokens of each pass."""
    model, drafter = Model(), Drafter(name, prompt, written(prompt, n + 20, held))
    list(speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, (), Cache(held), forward=model))
    return model.fed


def fed(name, prompt, n, gamma, held=()):
    """Oracle: one pass a round, over the prompt or the newest token, and the draft."""
    rounds, asked = expected(name, prompt, n, gamma, held)
    truth, at, rows = written(prompt, n + 20, held), 0, []
    for tokens, proposed, _ in rounds:
        draft = draft_by(name, truth, at, min(gamma, n - at - 1))
        rows.append([*(truth[at - 1 : at] or prompt), *list(draft)[:proposed]])
        at += len(tokens)
    return rows


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["right", "wrong", "every third is wrong", "nothing", "too many", "a tuple"])
@pytest.mark.parametrize("held", [(), HELD], ids=["", "held"])
def test_a_round_is_one_pass_over_the_newest_token_and_the_draft(expect, name, held):
    """One read of the weights a round is all that is won. The prompt shares its pass with the first draft, and what was
    right is not run again."""
    expect(passes, name, PROMPT, 11, 3, held).equals(fed(name, PROMPT, 11, 3, held))


def kept(name, prompt, n, gamma, held=()):
    """The tokens that the cache holds when each round is yielded, and at the end."""
    cache, drafter = Cache(held), Drafter(name, prompt, written(prompt, n + 20, held))
    rounds = speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, (), cache, forward=Model())
    return [*(cache.tokens for _ in rounds), cache.tokens]


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["every third is wrong", "right", "wrong", "right at times", "nothing"])
@pytest.mark.parametrize("held", [(), HELD], ids=["", "held"])
def test_the_cache_holds_all_but_the_newest(expect, name, held):
    """What was rejected has keys and values in there: one row too many, and every later token sees it and stands one
    place too far. The newest token was not run yet."""
    made, right = [], []
    for tokens, _, _ in expected(name, PROMPT, 11, 4, held)[0]:
        made += tokens
        right.append([*held, *PROMPT, *made[:-1]])
    expect(kept, name, PROMPT, 11, 4, held).equals([*right, right[-1]])


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["right", "wrong", "every third is wrong"])
@pytest.mark.parametrize("gamma", [0, 1, 3])
def test_a_conversation_goes_on(expect, name, gamma):
    """The cache holds 3 tokens of it; the prompt follows them. The drafter knows the prompt and the output alone."""

    def asked(name, prompt, n, gamma, held):
        drafter = Drafter(name, prompt, written(prompt, n + 20, held))
        rounds = speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, (), Cache(held), forward=Model())
        return plain(rounds), drafter.asked

    expect(asked, name, (5, 2), 9, gamma, HELD).equals(expected(name, [5, 2], 9, gamma, HELD))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["right", "every third is wrong", "wrong", "nothing at times"])
@pytest.mark.parametrize("gamma", [0, 1, 4, 50])
def test_the_drafter_is_asked_for_what_there_is_room_for(expect, name, gamma):
    """(tokens, k) of each call: with 14 tokens to go at most 13 are drafted, since the pass gives one of its own. It is
    not asked for none: a model that drafts would run for nothing. It gets a list of its own, which it may spoil."""

    def asked(name, prompt, n, gamma):
        drafter = Drafter(name, prompt, written(prompt, n + 20))
        list(speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, forward=Model()))
        return drafter.asked

    for n in (1, 2, 14):
        expect(asked, name, PROMPT, n, gamma).equals(expected(name, PROMPT, n, gamma)[1])


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize(
    "name", ["right", "wrong", "every third is wrong", "every second is right", "too many", "numpy"]
)
@pytest.mark.parametrize("gamma", [3, 0])
def test_sampling_draws_what_it_would_draw_without_a_draft(expect, name, gamma):
    """A `choose` that depends on the histories, as penalties and seeds do: drafted tokens before a position are part of
    its output. Oracle: the same choice, one token after the other."""
    expect(rounds_of, name, PROMPT, 11, gamma, (), True).equals(expected(name, PROMPT, 11, gamma, (), kth)[0])
    expect(rounds_of, name, (9, 2), 6, gamma, HELD, True).equals(expected(name, (9, 2), 6, gamma, HELD, kth)[0])


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["right", "wrong", "every third is wrong", "first wrong, then right", "nothing"])
def test_choose_gets_one_position_after_the_other(expect, name):
    """Logits (1, vocab) and both histories, as in level 01, once for each new token. Behind a wrong token the logits
    follow a text that nobody has written: a grammar (level 03) would refuse it."""

    def chosen(name, prompt, n, gamma):
        choose, drafter = Choice(), Drafter(name, prompt, written(prompt, n + 20, (), kth))
        list(speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, choose=choose, forward=Model()))
        return choose.seen

    output = written(PROMPT, 8, (), kth)
    right = [(scores_after([*PROMPT, *output[:i]])[None], [PROMPT], [output[:i]]) for i in range(8)]
    expect(chosen, name, PROMPT, 8, 3).equals(right)


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", DRAFTERS)
def test_any_drafter_gives_the_same_text(expect, name):
    """No draft changes the output: it says how many tokens a pass gives. Oracle: the text, known beforehand, cut into
    rounds. Exactly 11 tokens: a round that makes more is billed, and needs places that the request does not have."""
    for gamma in (2, 4, 1, 0):
        expect(rounds_of, name, PROMPT, 11, gamma).equals(expected(name, PROMPT, 11, gamma)[0])


# ---- where it ends


def stopped(name, prompt, n, gamma, stop_ids, held=()):
    """(tokens, accepted) of each round, and what the cache holds at the end. How long the draft was is left open."""
    cache, drafter = Cache(held), Drafter(name, prompt, written(prompt, n + 20, held))
    rounds = plain(speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, stop_ids, cache, forward=Model()))
    return [(tokens, accepted) for tokens, _, accepted in rounds], cache.tokens


def ended(name, prompt, n, gamma, stop_ids, held=()):
    """Oracle: the rounds up to the first stop token; what follows it in its round is gone."""
    rounds, made = [], []
    for tokens, _, accepted in expected(name, prompt, n, gamma, held)[0]:
        at = next((i for i, token in enumerate(tokens) if token in stop_ids), len(tokens))
        rounds.append((tokens[: at + 1], min(accepted, at + 1)))
        made += tokens[: at + 1]
        if at < len(tokens):
            break
    return rounds, [*held, *prompt, *made[:-1]]


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("at", [0, 1, 2, 4])
@pytest.mark.parametrize("name", ["right", "every third is wrong", "wrong", "nothing"])
def test_a_stop_token_ends_the_text_wherever_it_stands(expect, name, at):
    """Among the drafted ones, as the target's own, or first of all. It is the last token; those behind it in the same
    pass were never said, and are not in the cache."""
    for held, more in ((), {99}), (HELD, set()):
        truth = written(PROMPT, 11, held)
        for stop_ids in {truth[at], *more}, [truth[at + 1], truth[at]], (truth[at], truth[at + 2]):
            expect(stopped, name, PROMPT, 11, 4, stop_ids, held).equals(ended(name, PROMPT, 11, 4, stop_ids, held))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("gamma", [1, 4])
def test_a_stop_token_that_was_only_drafted_ends_nothing(expect, gamma):
    """It is the target who stops, not the drafter. The prompt's tokens stop nothing either."""
    truth = written(PROMPT, 9)
    stops = {*PROMPT, *((token + 30) % 31 for token in truth)} - {*truth}
    assert 3 in stops and len(stops) > 5
    for name in ("wrong", "every third is wrong", "right"):
        expect(stopped, name, PROMPT, 9, gamma, tuple(stops)).equals(ended(name, PROMPT, 9, gamma, ()))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", ["right", "wrong", "every third is wrong", "too many"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_exactly_max_tokens(expect, name, n):
    """With a gamma that divides them or not, smaller or larger: never one more, and the last pass has no place to spare
    for tokens that nobody will see."""
    for gamma in (1, 2, 9):
        expect(rounds_of, name, PROMPT, n, gamma).equals(expected(name, PROMPT, n, gamma)[0])
        expect(passes, name, PROMPT, n, gamma).equals(fed(name, PROMPT, n, gamma))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("room", [7, 1, 0])
def test_the_model_s_length_ends_the_text(expect, room):
    """max_seq_len 60, of which the cache and the prompt take all but 7, 1 or 0. No draft reaches beyond it."""
    held, prompt = HELD, [(3 * i) % 31 for i in range(57 - room)]
    for name in ("right", "wrong", "every third is wrong"):
        expect(rounds_of, name, prompt, 30, 4, held).equals(expected(name, prompt, room, 4, held)[0])
        expect(passes, name, prompt, 30, 4, held).equals(fed(name, prompt, room, 4, held))


@pytest.mark.kata("level08.loop.speculate")
def test_no_tokens_no_pass(expect):
    """A request for nothing costs nothing: no pass, no draft, and the cache stays as it is."""

    def work(n, held):
        model, cache, drafter = Model(), Cache(held), Drafter("right", PROMPT, written(PROMPT, 20, held))
        rounds = plain(speculate(WEIGHTS, SHAPE, PROMPT, n, drafter, 3, (), cache, forward=model))
        return len(rounds), len(model.fed), len(drafter.asked), cache.length

    expect(work, 0, HELD).equals((0, 0, 0, 3))
    expect(work, 1, HELD).equals((1, 1, 0, 7))


# ---- rounds as they come


@pytest.mark.kata("level08.loop.speculate")
def test_a_round_is_out_before_the_next_one_runs(expect):
    """Passes before the first round is asked for, after each round, and at the end. A user who closes the page after
    one round pays for one."""

    def passes_so_far(name, prompt, n, gamma):
        model, drafter = Model(), Drafter(name, prompt, written(prompt, n + 20))
        rounds = speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, forward=model)
        return [len(model.fed), *(len(model.fed) for _ in rounds), len(model.fed)]

    expect(passes_so_far, "right", PROMPT, 9, 2).equals([0, 1, 2, 3, 3])

    def left_after_one(name, prompt, n, gamma):
        model, cache, drafter = Model(), Cache(), Drafter(name, prompt, written(prompt, n + 20))
        rounds = speculate(WEIGHTS, SHAPE, prompt, n, drafter, gamma, (), cache, forward=model)
        first = next(rounds)
        rounds.close()
        return first.tokens, len(model.fed), cache.tokens

    truth = written(PROMPT, 2)
    expect(left_after_one, "every second is right", PROMPT, 9, 2).equals((truth[:1], 1, PROMPT))
    expect(left_after_one, "one", PROMPT, 9, 2).equals((truth, 1, [*PROMPT, truth[0]]))


@pytest.mark.kata("level08.loop.speculate")
def test_a_second_turn_in_the_same_cache(expect):
    """The first answer's last token has not run, so the next prompt begins with it. Behind a round that was cut by a
    stop token nothing is left of its draft."""

    def two_turns(first, second, stop_ids, names):
        cache, model, answers = Cache(), Model(), []
        prompt = first
        for name in names:
            truth = written(prompt, 30, cache.tokens)
            drafter = Drafter(name, prompt, truth)
            rounds = list(speculate(WEIGHTS, SHAPE, prompt, 8, drafter, 4, stop_ids, cache, forward=model))
            answers.append([token for each in rounds for token in each.tokens])
            prompt = [answers[-1][-1], *second]
        return answers, cache.tokens

    stop = written(PROMPT, 3)[2]
    one = written(PROMPT, 3)
    two = written([one[-1], 9, 0], 8, [*PROMPT, *one[:-1]])
    assert stop not in two
    for names in (("right", "wrong"), ("every third is wrong", "right")):
        whole = [*PROMPT, *one, 9, 0, *two[:-1]]
        expect(two_turns, PROMPT, [9, 0], {stop}, names).equals(([one, two], whole))


@pytest.mark.kata("level08.loop.speculate")
def test_two_requests_in_turn(expect):
    """A server has many of them at once: no round of one shows in the other. Without a cache each makes its own."""

    def in_turn(one, two):
        rounds = []
        for name, prompt in (one, two):
            drafter = Drafter(name, prompt, written(prompt, 30))
            rounds.append(speculate(WEIGHTS, SHAPE, prompt, 8, drafter, 2, forward=Model()))
        return [[token for each in pair for token in each.tokens] for pair in zip(*rounds)]

    one, two = written(PROMPT, 8), written([5, 2], 8)
    right = [[*one[i : i + 3], *two[i : i + 3]] for i in (0, 3, 6)]
    expect(in_turn, ("right", PROMPT), ("right", [5, 2])).equals(right)


@pytest.mark.kata("level08.loop.speculate")
def test_a_draft_belongs_to_the_drafter(expect):
    """A lookup may give out a list that it keeps. It is longer than asked for, and the same in the next round."""

    def from_a_script(prompt, n, gamma):
        script = written(prompt, 12)
        rounds = plain(speculate(WEIGHTS, SHAPE, prompt, n, lambda tokens, k: script, gamma, forward=Model()))
        return rounds, script == written(prompt, 12)

    truth = written(PROMPT, 7)
    assert truth[0] not in truth[1:]
    right = [(truth[:4], 3, 3), (truth[4:5], 2, 0), (truth[5:6], 1, 0), (truth[6:7], 0, 0)]
    expect(from_a_script, PROMPT, 7, 3).equals((right, True))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("token", [31, -1, 5000])
def test_a_drafted_token_outside_the_vocabulary_is_refused(expect, token):
    """The drafter's model has another vocabulary: that is an error that somebody sees, not a token that is read past
    the end. Beyond what was asked for it is ignored with all the rest."""

    def with_a_foreign_token(gamma, *draft):
        return plain(speculate(WEIGHTS, SHAPE, PROMPT, 3, lambda tokens, k: list(draft), gamma, forward=Model()))

    a, b, c = written(PROMPT, 3)
    expect(with_a_foreign_token, 1, a, token).equals([([a, b], 1, 1), ([c], 0, 0)])
    expect(with_a_foreign_token, 2, a, token).raises(ValueError)


@pytest.mark.kata("level08.loop.speculate")
def test_what_is_no_request_is_refused(expect):
    """At the first round, since nothing runs before it."""
    expect(rounds_of, "right", PROMPT, 2, 1).equals(expected("right", PROMPT, 2, 1)[0])
    expect(rounds_of, "right", PROMPT, 2, -1).raises(ValueError)
    expect(rounds_of, "right", PROMPT, -1, 2).raises(ValueError)
    expect(lambda: list(speculate(WEIGHTS, SHAPE, [], 2, None, 2, forward=Model()))).raises(ValueError)


# ---- with level 00's forward: level 01's loop is the oracle

MODEL = Config(2, 16, 4, 2, 6, 24, vocab_size=53, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=3)
QUESTION = [5, 9, 11, 2, 7, 3]
SAMPLED = {
    "greedy": None,
    "at 1": SamplingParams(seed=5),
    "cut and punished": SamplingParams(0.8, top_k=9, top_p=0.9, seed=6, frequency_penalty=0.5, repetition_penalty=1.2),
}


def choose_by(name):
    return level01.greedy if SAMPLED[name] is None else chooser(SAMPLED[name])


def surely(logits, prompt_ids, output_ids):
    """Greedy; it refuses a text that another order of additions may change: their difference is below 1e-5."""
    best, second = logits[0].topk(2).values
    assert best - second > 1e-3, "too close to call"
    return logits.argmax(-1)


def by_level01(prompt, n, name, stop_ids=()):
    choose = surely if name == "greedy" else choose_by(name)
    return level01.generate(PARAMS, MODEL, prompt, n, stop_ids, choose=choose)


def script(truth, prompt, how_often):
    """propose: the truth, with other tokens in between."""

    def propose(tokens, k):
        draw, at = random.Random(len(tokens)), len(tokens) - len(prompt)
        return [token if draw.random() < how_often else (token + 7) % 53 for token in truth[at : at + k]]

    return propose


def drafted(prompt, n, truth, gamma, how_often, name="greedy", stop_ids=(), cache=None):
    propose = script(truth, prompt, how_often)
    return generate(PARAMS, MODEL, prompt, n, propose, gamma, stop_ids, cache, choose=choose_by(name))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("how_often", [1, 0.7, 0])
def test_the_text_is_level_01_s(expect, name, how_often):
    """Greedy, or sampled with a seed: the user can't tell that there is a drafter. Up to the model's last place, with
    the forward and the cache that it takes by default."""
    right = by_level01(QUESTION, 16, name)
    for gamma in (0, 1, 4):
        expect(drafted, QUESTION, 16, right, gamma, how_often, name).equals(right)
    stop = {right[5], right[9]}
    cut = by_level01(QUESTION, 16, name, stop)
    expect(drafted, QUESTION, 16, right, 4, how_often, name, stop).equals(cut)
    expect(drafted, [4], 60, by_level01([4], 60, name), 3, how_often, name).equals(by_level01([4], 60, name))


@pytest.mark.kata("level08.loop.speculate")
@pytest.mark.parametrize("how_often", [1, 0.7, 0])
def test_any_cache_can_be_rolled_back(expect, how_often):
    """Level 02's, of a fixed size, and level 06's, in blocks of 4: those of which only rejected tokens are left go back
    to the pool, so that 6 + 15 tokens have 6 blocks. In another turn there are 3 more tokens before."""

    def in_blocks(prompt, n, truth, gamma, how_often):
        cache = PagedCache(Pool(MODEL, 20, 4))
        return drafted(prompt, n, truth, gamma, how_often, cache=cache), cache.length, len(cache.block_table)

    def of_fixed_size(held, prompt, n, truth, gamma, how_often):
        cache = KVCache(MODEL, 1, 40)
        forward(PARAMS, MODEL, torch.tensor([held]), cache)
        return drafted(prompt, n, truth, gamma, how_often, cache=cache), cache.length

    right = by_level01(QUESTION, 16, "greedy")
    expect(in_blocks, QUESTION, 16, right, 4, how_often).equals((right, 21, 6))
    later = by_level01([40, 41, 42, *QUESTION], 16, "greedy")
    expect(of_fixed_size, [40, 41, 42], QUESTION, 16, later, 4, how_often).equals((later, 24))
