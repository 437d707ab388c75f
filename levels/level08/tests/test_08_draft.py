"""Judges draft.py: the lookup by Python's own str.rfind, the model's drafter by what its model says of the whole text.

That model is a stand-in for `forward` that notes what it is fed. Its best next token depends on all tokens that the
cache holds and on their order, so one that is missing, doubled or rejected shows in the next proposal. A wrong drafter
makes no wrong text, only a slow one: so its proposals are judged here, and what was run for them.
"""

import random
from itertools import product

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level08.draft import ModelDrafter, ngram_draft

# ---- ngram_draft


@pytest.mark.kata("level08.draft.ngram_draft")
@pytest.mark.parametrize(
    "case, right",
    [
        (([1, 2, 3, 4, 1, 2], 3), [3, 4, 1]),
        (([1, 2, 9, 1, 2, 5, 1, 2], 2), [5, 1]),
        (([1, 2, 8, 2, 9, 1, 2], 1), [8]),
        (([1, 2, 3], 4), []),
        (([7, 7], 3), [7]),
        (([7, 7, 7, 7, 7], 3), [7]),
        (([1, 2, 1, 2, 1, 2], 5), [1, 2]),
        (([4, 6, 4, 5, 4], 9), [5, 4]),
        (([3, 5, 1, 5], 3, 3, 2), []),
        (([3, 5, 1, 5], 3, 3, 1), [1, 5]),
        (([1, 2, 3, 4, 9, 2, 3, 4, 8, 1, 2, 3, 4], 2), [8, 1]),
        (([1, 2, 3, 4, 9, 2, 3, 4, 8, 1, 2, 3, 4], 2, 4), [9, 2]),
        (([1, 2, 3, 4, 9, 2, 3, 4, 8, 1, 2, 3, 4, 7, 4], 2, 1), [7, 4]),
        (([1, 2, 7, 11, 2, 9, 1, 2], 2), [7, 11]),
        (([5, 1, 261, 2, 5], 1), [1]),
        (([0, 5, 0], 2), [5, 0]),
        (([5, 0, 6, 5], 2, 9), [0, 6]),
    ],
    ids=str,
)
def test_what_followed_the_last_time(expect, case, right):
    """By hand, tokens and k, then max_ngram and min_ngram. The longest n that occurs decides, then the latest place."""
    expect(ngram_draft, *case).equals(right)


@pytest.mark.kata("level08.draft.ngram_draft")
@pytest.mark.parametrize("tokens", [[], [4], [4, 5], [1, 2, 3, 4, 5, 6]], ids=str)
def test_nothing_is_drafted_from_what_never_was(expect, tokens):
    """A new request has no past; an empty draft costs nothing, a guess costs a place in the pass."""
    expect(ngram_draft, tokens, 4).equals([])
    expect(ngram_draft, tokens, 1, 5, 2).equals([])


def by_rfind(tokens, k, max_ngram=3, min_ngram=1):
    """Oracle: tokens as letters. rfind finds the latest place; what it looks through is without the last letter."""
    text = "".join(chr(token + 1) for token in tokens)
    for n in range(max_ngram, min_ngram - 1, -1):
        if n < len(text) and (start := text.rfind(text[-n:], 0, len(text) - 1)) >= 0:
            return [ord(letter) - 1 for letter in text[start + n : start + n + k]]
    return []


def first_wrong(cases):
    """{} when ngram_draft is right in all cases; else the first case in which it is not, and both results."""
    for case in cases:
        yours, right = list(ngram_draft(*case)), by_rfind(*case)
        if yours != right:
            return {"case": case, "yours": yours, "right": right}
    return {}


@pytest.mark.kata("level08.draft.ngram_draft")
@pytest.mark.parametrize("letters, longest", [(1, 9), (2, 8), (3, 5)])
def test_every_short_text(expect, letters, longest):
    """Oracle: str.rfind. Of one letter, and of two, nearly all that is before the end occurs, over and over."""
    for length in range(longest + 1):
        texts = [list(text) for text in product(range(letters), repeat=length)]
        for k, *sizes in ((1,), (2, 2, 1), (4, 4, 2), (20, 9, 1), (3, 1, 1), (2, 3, 3)):
            expect(first_wrong, [(text, k, *sizes) for text in texts]).equals({})


@pytest.mark.kata("level08.draft.ngram_draft")
@pytest.mark.parametrize("letters", [3, 12, 300])
def test_long_texts(expect, letters):
    """Oracle: str.rfind. Ids of one, two and three digits: token 11 does not end with token 1."""
    draw = random.Random(letters)
    cases = []
    for _ in range(60):
        text = [draw.randrange(letters) for _ in range(draw.randrange(2, 60))]
        cases.append(
            (text + text[: draw.randrange(9)], draw.randrange(1, 9), draw.randrange(2, 7), draw.randrange(1, 3))
        )
    expect(first_wrong, cases).equals({})


@pytest.mark.kata("level08.draft.ngram_draft")
def test_the_text_may_be_a_tuple_and_stays_as_it_is(expect):
    """The loop's list is the text itself: a drafter that shortens it would take back what a user has read."""
    expect(ngram_draft, (1, 2, 3, 4, 1, 2), 3).equals([3, 4, 1])
    expect(ngram_draft, (1, 2, 3), 3).equals([])

    def twice(tokens):
        drafts = [ngram_draft(tokens, 2), ngram_draft(tokens, 2)]
        drafts[0].append(99)  # a draft is the caller's own
        return [*drafts, ngram_draft(tokens, 2), ngram_draft(tokens, 3)]

    expect(twice, [1, 2, 3, 1]).equals([[2, 3, 99], [2, 3], [2, 3], [2, 3, 1]])


@pytest.mark.kata("level08.draft.ngram_draft")
def test_a_draft_of_nothing_is_refused(expect):
    """No token to draft, no n to try: a caller's mistake."""
    expect(ngram_draft, [1, 2, 1], 1).equals([2])
    for k, *sizes in ((0,), (-1,), (1, 1, 2), (1, 3, 0), (1, 0, 0), (1, 2, -1)):
        expect(ngram_draft, [1, 2, 1], k, *sizes).raises(ValueError)


# ---- ModelDrafter, with a stand-in for its model: 31 tokens, at most 40 of them in a row

SHAPE = Config(2, 8, 2, 1, 4, 16, vocab_size=31, max_seq_len=40, tie_embeddings=False)
WEIGHTS = random_params(SHAPE, seed=0)  # not read by the stand-in
TEXT = [5, 9, 20]


def best_after(tokens):
    """The stand-in's best next token: depends on every token, its place and the number of them."""
    return (sum((i + 2) * (i + 3) * t for i, t in enumerate(tokens)) + len(tokens)) % SHAPE.vocab_size


def drafted(tokens, k):
    """Oracle: k times the best token after the whole text."""
    text = list(tokens)
    for _ in range(k):
        text.append(best_after(text))
    return text[len(tokens) :]


class Model:
    """Stands in for `forward`: notes the tokens of each call, and finds those before them in the cache."""

    def __init__(self):
        self.fed = []

    def __call__(self, params, config, token_ids, cache=None, **seams):
        if token_ids.min() < 0 or token_ids.max() >= config.vocab_size:
            raise ValueError("not a token of the vocabulary")
        self.fed += token_ids.tolist()  # one row in each call
        whole = seen = token_ids.view(1, 1, -1, 1).float()
        for layer in range(config.n_layers if cache is not None else 0):
            whole, _ = cache.update(layer, seen, -seen)
        row = whole[0, 0, :, 0].long().tolist()
        if len(row) > config.max_seq_len:
            raise ValueError("beyond the model's length")
        best = [best_after(row[: i + 1]) for i in range(len(row) - token_ids.shape[1], len(row))]
        return torch.nn.functional.one_hot(torch.tensor([best]), config.vocab_size).float()


def told(calls, drafter=ModelDrafter):
    """Of each call (tokens, k): the proposals, and the passes that were run for them."""
    model = Model()
    drafter, seen = drafter(WEIGHTS, SHAPE, forward=model), []
    for tokens, k in calls:
        model.fed.clear()
        seen.append((list(drafter.propose(tokens, k)), list(model.fed)))
    return seen


def expected(calls):
    """Oracle: what `told` says of a drafter that knows what its earlier calls have run."""
    run, seen = [], []
    for tokens, k in calls:
        draft = drafted(tokens, k)
        same = max(n for n in range(len(tokens)) if list(tokens[:n]) == run[:n])
        run = [*tokens, *draft[:-1]]
        seen.append((draft, [list(tokens[same:]), *([token] for token in draft[:-1])]))
    return seen


A, B, C, D = drafted(TEXT, 4)
X = (A + 1) % 31  # not what it would propose

STORIES = {
    "one call": [(TEXT, 3)],
    "one token of a draft": [(TEXT, 1)],
    "a long draft": [(TEXT, 20), ([*TEXT, *drafted(TEXT, 15), 8], 12)],
    "all are right": [(TEXT, 4), ([*TEXT, A, B, C, D, 8], 4)],
    "two of four are right": [(TEXT, 4), ([*TEXT, A, B, X], 4)],
    "none is right": [(TEXT, 4), ([*TEXT, X], 4), ([*TEXT, X, X], 2)],
    "the last is wrong": [(TEXT, 4), ([*TEXT, A, B, C, X], 1)],
    "all are right, then none": [(TEXT, 2), ([*TEXT, A, B, 8], 2), ([*TEXT, A, B, 8, 0], 2)],
    "the same again": [(TEXT, 3), (TEXT, 3), (TEXT, 1)],
    "what it has run": [(TEXT, 4), ([*TEXT, A, B], 2)],
    "all that it has proposed": [(TEXT, 4), ([*TEXT, A, B, C, D], 2)],
    "a shorter one": [(TEXT, 3), (TEXT[:1], 2), (TEXT[:2], 2)],
    "another one": [(TEXT, 3), ([9, 5, 20, 3], 2), (TEXT, 1)],
    "another one of the same length": [(TEXT, 3), ([6, 9, 20], 2), ([6, 10, 20], 2)],
    "another beginning": [([1, 2, 3, 4, 5, 6], 1), ([1, 2, 9, 4, 5, 6], 1), ([1, 2, 9, 4, 5, 6, 7], 3)],
    "one token": [([0], 3), ([0, 0], 3), ([0], 1)],
    "a tuple": [(tuple(TEXT), 2), ((*TEXT, A, X), 2)],
    "back to the first": [(TEXT, 2), ([7], 5), (TEXT, 2), ([7, 8], 5), ([7, 8, 9, 10, 11], 1)],
}


@pytest.mark.kata("level08.draft.ModelDrafter")
@pytest.mark.parametrize("story", STORIES)
def test_each_kept_token_runs_once(expect, story):
    """(proposals, passes) of each call. After a round in which all was right, the last proposal still has to run: it
    never has. After another, what follows the first wrong one goes. Oracle: the whole text; a list of what has run."""
    expect(told, STORIES[story]).equals(expected(STORIES[story]))


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_the_example(expect):
    """The docstring's, counted by hand: 2 tokens and 1, then 1 and 1. Afresh, the second call would run 4 and 1."""
    a = best_after([5, 9])
    c = (a + 7) % 31
    e = best_after([5, 9, a, c])
    right = [([a, best_after([5, 9, a])], [[5, 9], [a]]), ([e, best_after([5, 9, a, c, e])], [[c], [e]])]
    expect(told, [([5, 9], 2), ([5, 9, a, c], 2)]).equals(right)


def conversation(seed):
    """Calls as a loop makes them: some of the draft is right, then comes another token; at times another text."""
    draw, calls, text = random.Random(seed), [], [3]
    for _ in range(12):
        k = draw.randrange(1, 5)
        calls.append((text, k))
        kept = drafted(text, k)[: draw.randrange(k + 1)]
        text = [*text, *kept, draw.randrange(31)]
        if len(text) > 30 or draw.random() < 0.2:
            text = text[: draw.randrange(1, 6)] + draw.choices(range(31), k=draw.randrange(3))
    return calls


@pytest.mark.kata("level08.draft.ModelDrafter")
@pytest.mark.parametrize("seed", range(8))
def test_any_text_after_any_other(expect, seed):
    """Oracle: as above. What is wrong in the cache is never seen in a server's text: only how few drafts are right."""
    calls = conversation(seed)
    expect(told, calls).equals(expected(calls))


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_the_caller_s_list_goes_on(expect):
    """The text is one list, and grows between the calls; a draft that was given away may be cut by its owner."""

    def as_one_list(text, more):
        model = Model()
        drafter, text, drafts = ModelDrafter(WEIGHTS, SHAPE, forward=model), list(text), []
        for new in more:
            draft = drafter.propose(text, 3)
            drafts.append(list(draft))
            text += [draft[0], new]
            draft.clear()
            draft.append(30)
        return drafts, model.fed

    text, calls = list(TEXT), []
    for new in (X, 4, 4, 11):
        calls.append((list(text), 3))
        text += [*drafted(text, 1), new]
    right = expected(calls)
    drafts, passes = [draft for draft, _ in right], [row for _, rows in right for row in rows]
    expect(as_one_list, TEXT, (X, 4, 4, 11)).equals((drafts, passes))


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_the_caller_s_list_is_cut(expect):
    """A text that loses its end in place, as one that is edited; then it goes on otherwise."""

    def edited(text):
        model = Model()
        drafter, text = ModelDrafter(WEIGHTS, SHAPE, forward=model), list(text)
        first = drafter.propose(text, 2)
        text[1:] = [8, 8]
        return first, drafter.propose(text, 2), model.fed

    (first, passes), (second, others) = expected([(TEXT, 2), ([TEXT[0], 8, 8], 2)])
    expect(edited, TEXT).equals((first, second, passes + others))


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_two_requests_have_two_drafters(expect):
    """Each has its own cache, and knows nothing of the other's text, though both run the same model."""

    def in_turn(texts):
        model = Model()
        drafters = [ModelDrafter(WEIGHTS, SHAPE, forward=model) for _ in texts]
        return [drafter.propose(text[:n], 2) for n in (2, 4) for drafter, text in zip(drafters, texts)], model.fed

    one, two = [1, 2, 3, 4], [1, 2, 30, 30]
    right = [expected([(text[:2], 2), (text, 2)]) for text in (one, two)]
    calls = [right[0][0], right[1][0], right[0][1], right[1][1]]
    expect(in_turn, (one, two)).equals(([draft for draft, _ in calls], [row for _, rows in calls for row in rows]))


@pytest.mark.kata("level08.draft.ModelDrafter")
@pytest.mark.parametrize("length, k, right", [(37, 9, 4), (39, 9, 2), (40, 9, 1), (40, 1, 1), (41, 9, 0), (36, 5, 5)])
def test_the_model_s_length_ends_the_draft(expect, length, k, right):
    """Of 40 places the last proposal needs none: it does not run. A text that is too long has no draft, and nothing
    breaks: the target may be longer than its drafter."""
    text = [(3 * i) % 31 for i in range(length)]
    seen = expected([(text, right)]) if right else [([], [])]
    expect(told, [(text, k)]).equals(seen)


@pytest.mark.kata("level08.draft.ModelDrafter")
@pytest.mark.parametrize("k", [0, -1])
def test_no_tokens_no_pass(expect, k):
    """Nothing asked, nothing run, and nothing forgotten: the next call goes on from the one before."""
    first, second = expected([(TEXT, 3), ([*TEXT, A, X], 2)])
    expect(told, [(TEXT, 3), ([7, 7], k), ([*TEXT, A, X], 2)]).equals([first, ([], []), second])


@pytest.mark.kata("level08.draft.ModelDrafter")
@pytest.mark.parametrize("text", [[5, 31], [31], [7, 8, 31, 9], [5, -1], [5, 9, 20, A, 99]], ids=str)
def test_an_unknown_token_is_refused_and_nothing_is_lost(expect, text):
    """Two models, two vocabularies: ids that one of them does not have are an error, not an index past the end. The
    next text gets its proposals all the same; how much of it runs again is left open."""
    expect(told, [(TEXT, 4), (text, 2)]).raises(ValueError)

    def after_it(text, *others):
        drafter = ModelDrafter(WEIGHTS, SHAPE, forward=Model())
        drafter.propose(TEXT, 4)
        try:
            drafter.propose(text, 2)
        except ValueError:
            return [drafter.propose(other, 2) for other in others]

    mended = [token if token in range(31) else 2 for token in text]
    others = [*mended, 4], [*TEXT, A, B, C, D, 8], [5], [5, 9, 8]
    for texts in (others, others[::-1], others[1:]):
        expect(after_it, text, *texts).equals([drafted(other, 2) for other in texts])


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_a_draft_follows_something(expect):
    """There is no best token after nothing."""
    expect(told, [(TEXT, 1)]).equals(expected([(TEXT, 1)]))
    expect(told, [([], 2)]).raises(ValueError)
    expect(told, [(TEXT, 2), ([], 2)]).raises(ValueError)


# ---- with level 00's forward, on a random model

MODEL = Config(2, 16, 4, 2, 6, 24, vocab_size=53, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=3)
CALLS = [([5, 9, 11], 4), ([5, 9, 11, 2], 3), ([5, 9], 2), ([8], 5), ([8, 5, 9, 11, 2, 7, 3], 4)]


def continued(text, n, params=PARAMS):
    """Oracle: the n most likely next tokens, each from a pass over the whole, without a cache."""
    text = list(text)
    for _ in range(n):
        best, second = forward(params, MODEL, torch.tensor([text]))[0, -1].topk(2)[0]
        assert best - second > 1e-3, "too close to call"
        text.append(int(forward(params, MODEL, torch.tensor([text]))[0, -1].argmax()))
    return text[-n:]


@pytest.mark.kata("level08.draft.ModelDrafter")
def test_proposals_are_what_the_model_finds_most_likely(expect):
    """Positions go on behind what is kept. Oracle: level 00's forward, which is the default, over the whole text."""

    def proposed(params, calls):
        drafter = ModelDrafter(params, MODEL)
        return [drafter.propose(tokens, k) for tokens, k in calls]

    right = [continued(tokens, k) for tokens, k in CALLS]
    expect(proposed, PARAMS, CALLS).equals(right)

    def accepted_in_part(params, text, rounds):
        drafter, text = ModelDrafter(params, MODEL), list(text)
        for kept in rounds:
            text += [*drafter.propose(text, 4)[:kept], 17]
        return text

    text = [5, 9, 11]
    for kept in (4, 0, 2, 4, 1, 3):
        text += [*continued(text, 4)[:kept], 17]
    expect(accepted_in_part, PARAMS, [5, 9, 11], (4, 0, 2, 4, 1, 3)).equals(text)
