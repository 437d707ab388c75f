"""Judges generate.py twice: with a stand-in for the model that notes what it is fed, and with level 00's own forward.

The stand-in's best next token is a fixed function of all tokens so far, so a token that is missing, doubled or out of
its place shows in the next one. The oracle of both is a plain loop over the whole sequence, written here.
"""

from itertools import islice

import pytest
import torch

from dojo.models import TINY, Config, random_params
from level00.transformer import forward
from level01.generate import decode_step, generate_naive, prefill, stream

# ---- the stand-in: 11 tokens, at most 20 of them in a row

SHAPE = Config(2, 8, 2, 1, 4, 16, vocab_size=11, max_seq_len=20, tie_embeddings=False)
WEIGHTS = random_params(SHAPE, seed=0)  # not read
PROMPT = [3, 1, 4, 1]


def best_after(tokens):
    """The stand-in's best next token: depends on every token, its place and the number of them."""
    return (sum((i + 2) * t for i, t in enumerate(tokens)) + len(tokens)) % SHAPE.vocab_size


def scores_after(tokens):
    """Its logits (vocab,): 10 for the best token, 9 for the one after it in the vocabulary, and so on to 0."""
    return ((best_after(tokens) - 1 - torch.arange(SHAPE.vocab_size)) % SHAPE.vocab_size).float()


class Model:
    """Stands in for `forward`: notes the tokens of each call, and keeps them in the cache if there is one."""

    def __init__(self):
        self.fed = []

    def __call__(self, params, config, token_ids, cache=None, **seams):
        self.fed += token_ids.tolist()  # one row in each call
        if token_ids.shape[0] != 1:
            raise ValueError(f"one sequence at a time: token_ids is (1, seq), not {tuple(token_ids.shape)}")
        seen = token_ids.view(1, 1, -1, 1).float()
        for layer in range(config.n_layers if cache is not None else 0):
            whole, _ = cache.update(layer, seen, -seen)
        row = (seen if cache is None else whole).flatten().long().tolist()
        before = len(row) - token_ids.shape[1]
        return torch.stack([scores_after(row[: i + 1]) for i in range(before, len(row))]).unsqueeze(0)


class Choice:
    """A `choose` that depends on the histories: it takes the k-th best token, k = 2 · tokens made + the prompt's first.

    It notes what it is given, of the histories what they hold at that time.
    """

    def __init__(self):
        self.seen = []

    def __call__(self, logits, prompt_ids, output_ids):
        prompts, outputs = ([list(ids) for ids in history] for history in (prompt_ids, output_ids))
        self.seen.append((logits.clone(), prompts, outputs))
        return logits.argsort(descending=True)[:, kth(prompts[0], outputs[0])]


def kth(prompt, output):
    return (2 * len(output) + prompt[0]) % SHAPE.vocab_size


def written(prompt, n, rank=lambda prompt, output: 0):
    """Oracle: the stand-in's next n tokens, each the rank-th best."""
    output = []
    for _ in range(n):
        output.append((best_after([*prompt, *output]) + rank(prompt, output)) % SHAPE.vocab_size)
    return output


# prompts, and which new token ends the text: the first; the third; one that the prompt holds as well; token 0
STOPS = [([3, 1, 4, 1], 0), ([3, 1, 4, 1], 2), ([5, 2], 3), ([5, 2], 5)]


def never(prompt):
    """A token of the vocabulary that the stand-in does not write after the prompt."""
    return min(set(range(SHAPE.vocab_size)) - set(written(prompt, 9)))


class Cache:
    """The simplest KV cache: everything so far, joined. Empty it counts as false."""

    def __init__(self, n_layers=2):
        self.kept, self.last = {}, n_layers - 1

    @property
    def length(self):  # grows when the last layer has been updated
        return self.kept[self.last][0].shape[2] if self.last in self.kept else 0

    def __len__(self):
        return self.length

    def update(self, layer, k, v):
        if layer in self.kept:
            k, v = (torch.cat([old, new], 2) for old, new in zip(self.kept[layer], (k, v)))
        self.kept[layer] = (k, v)
        return k, v

    def truncate(self, n):
        self.kept = {layer: tuple(x[:, :, :n] for x in pair) for layer, pair in self.kept.items()}


def cached(*tokens):
    """A cache that holds these tokens for the stand-in."""
    cache = Cache()
    if tokens:
        Model()(WEIGHTS, SHAPE, torch.tensor([tokens]), cache)
    return cache


# ---- the real thing: level 00's forward on a tiny random model, and a text whose tokens it is sure of

PARAMS = random_params(TINY, seed=0)
TEXT = [52, 71, 80, 76, 7]
CLOSE = {"rel": 1e-3, "abs": 1e-3}  # another order of additions; the margins are 400 times as wide


def logits_of(tokens):
    """Oracle: (seq, vocab), one pass over the whole, no cache."""
    return forward(PARAMS, TINY, torch.tensor([tokens]))[0]


def continued(text, n):
    """Oracle: the n most likely next tokens, each from a pass over the whole. It refuses a text that tests little."""
    tokens = list(text)
    for _ in range(n):
        best, second = logits_of(tokens)[-1].topk(2).values
        assert best - second > 0.1, "too close to call"
        tokens.append(int(logits_of(tokens)[-1].argmax()))
    assert n < 6 or len(set(tokens[len(text) :])) >= 4, "a model that repeats itself hides most mistakes"
    return tokens[len(text) :]


# ---- generate_naive


def new_tokens(prompt, max_tokens, stop_ids=()):
    return generate_naive(WEIGHTS, SHAPE, prompt, max_tokens, stop_ids, forward=Model())


@pytest.mark.kata("level01.generate.generate_naive")
def test_every_step_runs_the_whole_sequence(expect):
    """The docstring's example: 4, 5 and 6 tokens. What a cache saves can only be said of a loop that has none."""

    def uncached_loop(prompt, max_tokens):
        model = Model()
        return generate_naive(WEIGHTS, SHAPE, prompt, max_tokens, forward=model), model.fed

    a, b, c = written(PROMPT, 3)
    expect(uncached_loop, PROMPT, 3).equals(([a, b, c], [PROMPT, [*PROMPT, a], [*PROMPT, a, b]]))


@pytest.mark.kata("level01.generate.generate_naive")
@pytest.mark.parametrize("n", [10, 1, 0])
def test_the_new_tokens_and_no_more(expect, n):
    """max_tokens is billed: it counts new tokens, not the prompt's. The tokens are ints, as in every later level."""
    expect(new_tokens, (5, 2), n).equals(written((5, 2), n))


@pytest.mark.kata("level01.generate.generate_naive")
def test_a_long_text_is_written_to_its_end(expect):
    """120 tokens after 4: nothing is left out of the sequence, however long it has become."""

    def long_text(prompt):
        return generate_naive(PARAMS, TINY, prompt, 120, forward=Model())

    expect(long_text, PROMPT).equals(written(PROMPT, 120))


@pytest.mark.kata("level01.generate.generate_naive")
def test_no_tokens_no_pass(expect):
    """Nothing asked, nothing computed; and one token is one pass."""

    def passes(prompt):
        calls = []
        for max_tokens in (0, 1):
            model = Model()
            generate_naive(WEIGHTS, SHAPE, prompt, max_tokens, forward=model)
            calls.append(len(model.fed))
        return calls

    expect(passes, PROMPT).equals([0, 1])


@pytest.mark.kata("level01.generate.generate_naive")
@pytest.mark.parametrize("kind", [set, list, tuple, frozenset], ids=lambda kind: kind.__name__)
def test_a_stop_token_ends_the_text_and_is_part_of_it(expect, kind):
    """Otherwise the request holds its place up to max_tokens. Any of several, token 0 too, those of the prompt not."""

    def stopped(prompt, stop_ids):
        model = Model()
        return generate_naive(WEIGHTS, SHAPE, prompt, 9, stop_ids, forward=model), len(model.fed)

    for prompt, at in STOPS:
        right = written(prompt, at + 1)
        expect(stopped, prompt, kind([never(prompt), right[at]])).equals((right, at + 1))
    expect(stopped, [5, 2], kind([never([5, 2])])).equals((written([5, 2], 9), 9))


@pytest.mark.kata("level01.generate.generate_naive")
def test_choose_gets_the_last_logits_and_the_histories(expect):
    """Penalties (level 03) look at the tokens so far: lists of lists, a row for each sequence."""

    def chosen(prompt, max_tokens):
        choose = Choice()
        return generate_naive(WEIGHTS, SHAPE, prompt, max_tokens, choose=choose, forward=Model()), choose.seen

    expect(chosen, PROMPT, 5).equals((written(PROMPT, 5, kth), notes(PROMPT, 5)))


def notes(prompt, n):
    """What `Choice` notes in n calls: the logits (1, vocab) and both histories."""
    output = written(prompt, n, kth)
    return [(scores_after([*prompt, *output[:i]]).unsqueeze(0), [prompt], [output[:i]]) for i in range(n)]


@pytest.mark.kata("level01.generate.generate_naive")
@pytest.mark.parametrize("room", [12, 1, 0])
def test_the_model_s_length_ends_the_text(expect, room):
    """max_seq_len 20, a prompt of 8, 20 tokens asked for: 12 new ones. Of that limit servers are off by one."""
    prompt = [(3 * i) % 11 for i in range(20 - room)]
    expect(new_tokens, prompt, 20).equals(written(prompt, room))


@pytest.mark.kata("level01.generate.generate_naive")
def test_it_writes_what_the_model_finds_most_likely(expect):
    """On level 00's forward, which is what it runs by default. Oracle: a loop over whole passes, written here."""

    def most_likely(prompt, max_tokens, stop_ids=()):
        return generate_naive(PARAMS, TINY, prompt, max_tokens, stop_ids)

    right = continued(TEXT, 10)
    expect(most_likely, TEXT, 10).equals(right)
    expect(most_likely, TEXT, 10, {right[3]}).equals(right[:4])


@pytest.mark.kata("level01.generate.generate_naive")
def test_without_a_prompt_or_with_less_than_no_tokens_it_refuses(expect):
    """An empty prompt has no last position; a negative number is a caller's mistake, not a request for nothing."""
    expect(new_tokens, [7], 1).equals(written([7], 1))
    expect(new_tokens, [], 3).raises(ValueError)
    expect(new_tokens, PROMPT, -1).raises(ValueError)


# ---- prefill


@pytest.mark.kata("level01.generate.prefill")
@pytest.mark.parametrize(
    "chunk_size, sizes",
    [(None, [7]), (1, [1] * 7), (2, [2, 2, 2, 1]), (3, [3, 3, 1]), (6, [6, 1]), (7, [7]), (50, [7])],
    ids=str,
)
def test_chunks_are_fed_in_order_and_the_last_takes_what_is_left(expect, chunk_size, sizes):
    """A chunk is what fits beside the decode steps of others (level 05); each token goes through the model once."""

    def fed(prompt, chunk_size):
        model, cache = Model(), Cache()
        logits = prefill(WEIGHTS, SHAPE, prompt, cache, chunk_size, forward=model)
        return model.fed, logits, cache.length

    prompt, parts = [3, 1, 4, 1, 5, 9, 2], iter([3, 1, 4, 1, 5, 9, 2])
    right = [list(islice(parts, size)) for size in sizes], scores_after(prompt).unsqueeze(0), 7
    expect(fed, prompt, chunk_size).equals(right)


@pytest.mark.kata("level01.generate.prefill")
def test_chunks_may_divide_the_prompt_exactly(expect):
    """6 tokens by 2 and by 3: no empty pass at the end. A tuple is a prompt too, and one token is enough."""

    def fed(prompt, *chunk_size):
        model = Model()
        logits = prefill(WEIGHTS, SHAPE, prompt, Cache(), *chunk_size, forward=model)
        return model.fed, logits

    last = scores_after((3, 1, 4, 1, 5, 9)).unsqueeze(0)
    expect(fed, (3, 1, 4, 1, 5, 9), 2).equals(([[3, 1], [4, 1], [5, 9]], last))
    expect(fed, (3, 1, 4, 1, 5, 9), 3).equals(([[3, 1, 4], [1, 5, 9]], last))
    expect(fed, [8]).equals(([[8]], scores_after([8]).unsqueeze(0)))


@pytest.mark.kata("level01.generate.prefill")
def test_without_a_chunk_size_even_a_long_prompt_is_one_pass(expect):
    """100 tokens share one read of the weights; a limit that nobody asked for would read them again."""

    def passes(prompt):
        model = Model()
        prefill(PARAMS, TINY, prompt, Cache(), forward=model)
        return [len(row) for row in model.fed]

    expect(passes, PROMPT * 25).equals([100])


@pytest.mark.kata("level01.generate.prefill")
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_a_prompt_follows_what_the_cache_holds(expect, chunk_size):
    """The second turn of a chat, or a shared system prompt: what is cached stays, and is not fed again."""

    def fed(held, prompt, chunk_size):
        model, cache = Model(), cached(*held)
        return prefill(WEIGHTS, SHAPE, prompt, cache, chunk_size, forward=model), sum(map(len, model.fed)), cache.length

    right = scores_after([6, 6, 2, 3, 1, 4]).unsqueeze(0), 3, 6
    expect(fed, [6, 6, 2], [3, 1, 4], chunk_size).equals(right)


@pytest.mark.kata("level01.generate.prefill")
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 3, 4, 5], ids=str)
@pytest.mark.parametrize("held", [0, 3])
def test_chunks_give_the_logits_of_one_pass(expect, chunk_size, held):
    """Positions go on and masks see the past, whatever is cached before. Oracle: one pass of level 00's forward."""

    def after(held, prompt, chunk_size):
        cache = Cache()
        if held:
            forward(PARAMS, TINY, torch.tensor([held]), cache)
        return prefill(PARAMS, TINY, prompt, cache, chunk_size), cache.length

    text = [52, 71, 80, 76, 7, 41, 84, 23]
    right = logits_of(text)[-1:], len(text)
    expect(after, text[:held], text[held:], chunk_size).equals(right, **CLOSE)


@pytest.mark.kata("level01.generate.prefill")
@pytest.mark.parametrize("chunk_size", [None, 2], ids=["whole", "chunks of 2"])
def test_what_prefill_caches_serves_the_tokens_after_it(expect, chunk_size):
    """Every later token reads these keys: a wrong one shows long after the prompt. Oracle: one pass over all."""

    def later(prompt, rest):
        cache = Cache()
        prefill(PARAMS, TINY, prompt, cache, chunk_size)
        return forward(PARAMS, TINY, torch.tensor([rest]), cache)[0]

    expect(later, TEXT, [9, 9, 30]).equals(logits_of([*TEXT, 9, 9, 30])[-3:], **CLOSE)


@pytest.mark.kata("level01.generate.prefill")
def test_an_empty_prompt_and_an_empty_chunk_are_refused(expect):
    """Neither has a last token; a chunk of none would never end."""

    def prefilled(prompt, chunk_size):
        return prefill(WEIGHTS, SHAPE, prompt, Cache(), chunk_size, forward=Model())

    expect(prefilled, PROMPT, 4).equals(scores_after(PROMPT).unsqueeze(0))
    expect(prefilled, [], None).raises(ValueError)
    expect(prefilled, PROMPT, 0).raises(ValueError)
    expect(prefilled, PROMPT, -1).raises(ValueError)


# ---- decode_step


@pytest.mark.kata("level01.generate.decode_step")
@pytest.mark.parametrize("token", [7, 0])
def test_a_step_feeds_one_token(expect, token):
    """The rest is in the cache. One row of one token, and logits (1, vocab): token 0 is a token like any other."""

    def step(held, token):
        model, cache = Model(), cached(*held)
        return decode_step(WEIGHTS, SHAPE, token, cache, forward=model), model.fed, cache.length

    right = scores_after([*PROMPT, token]).unsqueeze(0), [[token]], 5
    expect(step, PROMPT, token).equals(right)


@pytest.mark.kata("level01.generate.decode_step")
def test_steps_follow_one_another(expect):
    """Each token is fed once and kept. Also the first of all, into a cache that holds nothing yet."""

    def steps(held, tokens):
        model, cache = Model(), cached(*held)
        return [decode_step(WEIGHTS, SHAPE, t, cache, forward=model) for t in tokens], model.fed, cache.length

    for held in ([6, 2], []):
        right = [scores_after([*held, 5, 5, 0, 8][: len(held) + n]).unsqueeze(0) for n in (1, 2, 3, 4)]
        expect(steps, held, [5, 5, 0, 8]).equals((right, [[5], [5], [0], [8]], len(held) + 4))


@pytest.mark.kata("level01.generate.decode_step")
@pytest.mark.parametrize("held", [5, 1, 0])
def test_decoding_with_a_cache_equals_recomputing(expect, held):
    """A token stands at position cache.length and sees all that is cached. Oracle: one pass of level 00's forward."""

    def step_by_step(held, rest):
        cache = Cache()
        if held:
            forward(PARAMS, TINY, torch.tensor([held]), cache)
        return torch.cat([decode_step(PARAMS, TINY, token, cache) for token in rest]), cache.length

    text = [52, 71, 80, 76, 7, 41, 84, 23, 23, 14, 0, 99]
    expect(step_by_step, text[:held], text[held:]).equals((logits_of(text)[held:], len(text)), **CLOSE)


# ---- stream


def streamed(prompt, max_tokens, stop_ids=()):
    return stream(WEIGHTS, SHAPE, prompt, max_tokens, stop_ids, forward=Model())


@pytest.mark.kata("level01.generate.stream")
def test_one_prefill_and_then_one_token_a_step(expect):
    """The docstring's example: 4, 1 and 1 tokens. Nobody reads what would follow the last token, so it is never fed."""

    def cached_loop(prompt, max_tokens):
        model = Model()
        return list(stream(WEIGHTS, SHAPE, prompt, max_tokens, forward=model)), model.fed

    a, b, c = written(PROMPT, 3)
    expect(cached_loop, PROMPT, 3).equals(([a, b, c], [PROMPT, [a], [b]]))


@pytest.mark.kata("level01.generate.stream")
@pytest.mark.parametrize("n", [10, 1, 0])
def test_the_stream_has_the_tokens_of_the_naive_loop(expect, n):
    """A cache saves work and changes nothing. Oracle: the stand-in's rule, over all tokens from the start."""
    expect(streamed, (5, 2), n).equals(iter(written((5, 2), n)))


@pytest.mark.kata("level01.generate.stream")
def test_a_long_stream_is_written_to_its_end(expect):
    """120 tokens after 4, up to the cache's last: 119 steps of one token each."""

    def long_text(prompt):
        model = Model()
        return list(stream(PARAMS, TINY, prompt, 120, forward=model)), [len(row) for row in model.fed]

    expect(long_text, PROMPT).equals((written(PROMPT, 120), [4] + [1] * 119))


@pytest.mark.kata("level01.generate.stream")
def test_a_token_is_out_as_soon_as_it_is_known(expect):
    """Passes before the stream is asked, and after each token: 0, then 1, 2, 3. One later, and every token is late."""

    def passes_so_far(prompt, max_tokens):
        model = Model()
        tokens = stream(WEIGHTS, SHAPE, prompt, max_tokens, forward=model)
        seen = [len(model.fed)]
        for _ in tokens:
            seen.append(len(model.fed))
        return [*seen, len(model.fed)]

    expect(passes_so_far, PROMPT, 3).equals([0, 1, 2, 3, 3])


@pytest.mark.kata("level01.generate.stream")
def test_a_stream_that_is_left_stops_working(expect):
    """A user closes the page after two tokens: 4 and 1 were fed, and the rest of the 100 is never computed."""

    def left_after_two(prompt):
        model, cache = Model(), Cache()
        tokens = stream(WEIGHTS, SHAPE, prompt, 100, cache=cache, forward=model)
        first = next(tokens), next(tokens)
        tokens.close()
        return first, model.fed, cache.length

    a, b = written(PROMPT, 2)
    expect(left_after_two, PROMPT).equals(((a, b), [PROMPT, [a]], 5))


@pytest.mark.kata("level01.generate.stream")
def test_no_tokens_no_prefill(expect):
    """A request for nothing costs nothing, and leaves the cache as it is; one token costs the prefill alone."""

    def fed(prompt, max_tokens):
        model, cache = Model(), cached(6, 2)
        return list(stream(WEIGHTS, SHAPE, prompt, max_tokens, cache=cache, forward=model)), model.fed, cache.length

    expect(fed, PROMPT, 0).equals(([], [], 2))
    expect(fed, PROMPT, 1).equals(([best_after([6, 2, *PROMPT])], [PROMPT], 6))


@pytest.mark.kata("level01.generate.stream")
@pytest.mark.parametrize("kind", [set, list, tuple, frozenset], ids=lambda kind: kind.__name__)
def test_a_stop_token_ends_the_stream_and_is_part_of_it(expect, kind):
    """It is yielded, nothing is computed after it. Any of several, token 0 too, those of the prompt not."""

    def stopped(prompt, stop_ids):
        model = Model()
        return list(stream(WEIGHTS, SHAPE, prompt, 9, stop_ids, forward=model)), len(model.fed)

    for prompt, at in STOPS:
        right = written(prompt, at + 1)
        expect(stopped, prompt, kind([never(prompt), right[at]])).equals((right, at + 1))
    expect(stopped, [5, 2], kind([never([5, 2])])).equals((written([5, 2], 9), 9))


@pytest.mark.kata("level01.generate.stream")
@pytest.mark.parametrize("chunk_size, sizes", [(1, [1, 1, 1, 1, 1]), (3, [3, 2]), (5, [5]), (9, [5])], ids=str)
def test_the_prompt_goes_in_by_chunks(expect, chunk_size, sizes):
    """The size of a chunk reaches the prefill, and the decode steps after it take one token as before."""

    def tokens_in_each_pass(prompt, chunk_size):
        model = Model()
        tokens = list(stream(WEIGHTS, SHAPE, prompt, 4, chunk_size=chunk_size, forward=model))
        return tokens, [len(row) for row in model.fed]

    prompt = [3, 1, 4, 1, 5]
    expect(tokens_in_each_pass, prompt, chunk_size).equals((written(prompt, 4), [*sizes, 1, 1, 1]))


@pytest.mark.kata("level01.generate.stream")
def test_choose_is_called_as_in_the_naive_loop(expect):
    """Logits (1, vocab) of the last token and both histories, lists of lists. Once for each token."""

    def chosen(prompt, max_tokens):
        choose = Choice()
        return list(stream(WEIGHTS, SHAPE, prompt, max_tokens, choose=choose, forward=Model())), choose.seen

    expect(chosen, PROMPT, 5).equals((written(PROMPT, 5, kth), notes(PROMPT, 5)))


@pytest.mark.kata("level01.generate.stream")
@pytest.mark.parametrize("room", [12, 1, 0])
def test_the_model_s_length_ends_the_stream(expect, room):
    """max_seq_len 20, a prompt of 8, 20 tokens asked for: 12 new ones. Of that limit servers are off by one."""
    prompt = [(3 * i) % 11 for i in range(20 - room)]
    expect(streamed, prompt, 20).equals(iter(written(prompt, room)))


@pytest.mark.kata("level01.generate.stream")
def test_a_second_turn_goes_on_in_the_same_cache(expect):
    """The first answer's last token was never fed, so the next prompt begins with it. An empty cache may be falsy."""

    def two_turns(first, second, chunk_size):
        model, cache = Model(), Cache()
        answer = list(stream(WEIGHTS, SHAPE, first, 4, (), cache, forward=model))
        prompt = [answer[-1], *second]
        again = list(stream(WEIGHTS, SHAPE, prompt, 3, (), cache, chunk_size, choose=Choice(), forward=model))
        return answer, again, [len(row) for row in model.fed], cache.length

    answer = written(PROMPT, 4)
    again = []
    for _ in range(3):
        row = [*PROMPT, *answer, 9, 0, *again]
        again.append((best_after(row) + kth([answer[-1]], again)) % SHAPE.vocab_size)
    right = answer, again, [4, 1, 1, 1, 2, 1, 1, 1], 4 + 3 + 3 + 2
    expect(two_turns, PROMPT, [9, 0], 2).equals(right)


@pytest.mark.kata("level01.generate.stream")
def test_what_the_cache_holds_counts_towards_the_model_s_length(expect):
    """A second turn behind 10 cached tokens: 20 places, 3 for the prompt, so 7 new ones and no exception."""

    def second_turn(first, second):
        model, cache = Model(), Cache()
        list(stream(WEIGHTS, SHAPE, first, 1, (), cache, forward=model))
        return len(list(stream(WEIGHTS, SHAPE, second, 20, (), cache, forward=model))), cache.length

    expect(second_turn, [i % 11 for i in range(10)], [1, 2, 3]).equals((7, 19))


@pytest.mark.kata("level01.generate.stream")
@pytest.mark.parametrize("chunk_size", [None, 1, 2], ids=str)
def test_cached_or_not_chunked_or_not_the_text_is_the_same(expect, chunk_size):
    """On level 00's forward, with the cache that it makes itself. Oracle: a loop over whole passes, written here."""

    def most_likely(prompt, max_tokens, stop_ids=()):
        return stream(PARAMS, TINY, prompt, max_tokens, stop_ids, chunk_size=chunk_size)

    right = continued(TEXT, 10)
    expect(most_likely, TEXT, 10).equals(iter(right))
    expect(most_likely, TEXT, 10, [right[3]]).equals(iter(right[:4]))


@pytest.mark.kata("level01.generate.stream")
def test_a_stream_without_a_prompt_or_with_less_than_no_tokens_is_refused(expect):
    """An empty prompt has no last position; a negative number is a caller's mistake, not a request for nothing."""
    expect(streamed, [7], 1).equals(iter(written([7], 1)))
    expect(streamed, [], 3).raises(ValueError)
    expect(streamed, PROMPT, -1).raises(ValueError)
