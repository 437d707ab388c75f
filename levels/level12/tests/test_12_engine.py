"""Judges engine.py by what each request gets alone.

Most tests replace the model by a stand-in: the pool is a dict of tokens by slot, `run` writes the tokens of the batch
into it and reads the texts through the block tables, and the next token is a random function of the whole text. So a
token that is missing, doubled, stale or another's shows. The last ones run paged_step, and level 01's generate is the
oracle. Where tokens are drawn, level 03's choose_tokens says which one a request gets by itself. Of an engine only add,
step, abort and unfinished are used, and the scheduler, `run` and pool that it is given.
"""

import random
from dataclasses import replace

import pytest
import torch

import level05.engine
from dojo.models import Config, random_params
from level01.generate import generate
from level03.sampler import SamplingParams, choose_tokens, chooser
from level12.engine import Engine, Request
from level12.paged import paged_step
from level12.scheduler import Scheduler

MODEL = Config(2, 20, 6, 3, 4, 28, 31, max_seq_len=24, tie_embeddings=False)
PARAMS = {name: w.double() for name, w in random_params(MODEL, seed=0).items()}
PENALTIES = {"repetition_penalty": 1.4, "presence_penalty": 0.7, "frequency_penalty": 0.5}


# ---- a stand-in for the model


def next_logits(tokens):
    """Of a text: random, and another row after each other text."""
    draw = random.Random(f"{list(tokens)}")
    return [6 * draw.random() for _ in range(MODEL.vocab_size)]


class Broken(Exception):
    """What a pass that fails raises."""


class Watched:
    """An engine on the stand-in, and what it runs: for each pass (tokens before, chunk), in the order of the batch."""

    def __init__(self, cls, num_blocks=40, block_size=4, budget=64, seqs=8, **options):
        self.scheduler, self.pool = Scheduler(num_blocks, block_size, budget, seqs, **options), {}
        self.passes, self.given, self.fails = [], [], 0
        self.engine = cls(PARAMS, MODEL, self.scheduler, run=self.run, pool=self.pool)

    def run(self, params, config, pool, batch):
        if self.fails:
            self.fails -= 1
            raise Broken("the pass has failed, and has written nothing")
        self.given.append(params is PARAMS and pool is self.pool)
        ids, B, first = batch.token_ids.tolist(), self.scheduler.kv.block_size, batch.query_start_loc
        for slot, token in zip(batch.slots.tolist(), ids, strict=True):
            pool[slot] = token
        chunks = [ids[start:end] for start, end in zip(first, first[1:])]
        self.passes.append([(n - len(chunk), chunk) for n, chunk in zip(batch.seq_lens, chunks, strict=True)])
        texts = [
            [pool.get(table[at // B] * B + at % B) for at in range(n)]
            for table, n in zip(batch.tables, batch.seq_lens, strict=True)
        ]
        return torch.tensor([next_logits(text) for text in texts], dtype=torch.float64)

    def add(self, *requests):
        """Each with a list of its own, so that a story can be told again whatever an engine does with it."""
        for request in requests:
            self.engine.add(replace(request, prompt=list(request.prompt)))

    def step(self):
        return [tuple(event) for event in self.engine.step()]

    def steps(self, n):
        return [self.step() for _ in range(n)]

    def finish(self, most=200):
        """{id: its tokens} of everything that is left to come."""
        texts = {}
        while self.engine.unfinished and (most := most - 1):
            for id, token, _ in self.step():
                texts.setdefault(id, []).append(token)
        return texts

    def left(self):
        """What is left behind: requests, and blocks that are not free."""
        pool = self.scheduler.kv.pool
        return self.engine.unfinished, pool.num_blocks - 1 - pool.num_free


def ask(id, prompt, max_tokens=4, stop_ids=(), **sampling):
    params = SamplingParams(**{"temperature": 0.0, "max_tokens": max_tokens, **sampling})
    return Request(id, list(prompt), params, stop_ids)


def alone(request, longest=MODEL.max_seq_len):
    """Oracle: the tokens of a request, one after the other, when there is nobody else."""
    prompt, output = list(request.prompt), []
    limit = min(request.sampling.max_tokens, longest - len(prompt))
    while len(output) < limit and not (output and output[-1] in request.stop_ids):
        logits = torch.tensor([next_logits(prompt + output)], dtype=torch.float64)
        output.append(int(choose_tokens(logits, [prompt], [output], [request.sampling])))
    return output


def events(request, longest=MODEL.max_seq_len):
    """Its tokens as steps tell them: [(id, token, finished)]."""
    output = alone(request, longest)
    return [(request.id, token, i == len(output) - 1) for i, token in enumerate(output)]


def stopping(id, prompt, place, max_tokens=8):
    """A request whose token number `place`, counted from 0, is one of its stop_ids."""
    text = alone(ask(id, prompt, max_tokens))
    assert text[place] not in [*text[:place], *prompt]
    return ask(id, prompt, max_tokens, [text[place]])


def tried(call, *args):
    """What a call comes to: "accepted", or the name of its exception."""
    try:
        call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    return "accepted"


# ---- one request


@pytest.mark.kata("level12.engine.Engine")
def test_each_step_gives_one_token_and_the_last_one_is_marked(expect):
    """The first pass runs the prompt, each further one the newest token. A client waits for the mark to close its
    stream."""

    def five_steps(cls):
        served = Watched(cls)
        served.add(ask("a", [3, 1, 4, 1, 5], 4))
        return served.steps(5), served.passes, served.left()

    request = ask("a", [3, 1, 4, 1, 5], 4)
    first, second, third, _ = alone(request)
    passes = [[(0, [3, 1, 4, 1, 5])], [(5, [first])], [(6, [second])], [(7, [third])]]
    expect.story(five_steps, Engine).equals(([[event] for event in events(request)] + [[]], passes, (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_without_work_nothing_runs(expect):
    """A server's loop steps on while nobody asks: a pass over no tokens is an error in most models."""

    def idle(cls):
        served = Watched(cls)
        before = served.steps(2), served.engine.unfinished, len(served.passes)
        served.add(ask("a", [7, 8], 1))
        return before, served.engine.unfinished, served.steps(3), len(served.passes), served.given

    expect.story(idle, Engine).equals((([[], []], 0, 0), 1, [events(ask("a", [7, 8], 1)), [], []], 1, [True]))


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("budget, passes", [(1, 7), (3, 3), (6, 2), (7, 1)])
def test_a_long_prompt_comes_in_chunks_and_answers_after_the_last(expect, budget, passes):
    """A token that is chosen after half a question answers half a question. One pass a step, and [] until the last."""

    def in_chunks(cls):
        served, seen = Watched(cls, budget=budget), []
        served.add(ask("a", [1, 2, 3, 4, 5, 6, 7], 2))
        for _ in range(passes + 1):
            seen.append((served.step(), len(served.passes)))
        return seen

    first, last = [[event] for event in events(ask("a", [1, 2, 3, 4, 5, 6, 7], 2))]
    told = [[]] * (passes - 1) + [first, last]
    expect.story(in_chunks, Engine).equals([(one, n) for n, one in enumerate(told, 1)])


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("max_tokens", [1, 5])
def test_no_more_tokens_than_were_asked_for(expect, max_tokens):
    """max_tokens is what the client pays for. The last token is given back and never run: nobody needs what follows."""

    def to_the_end(cls):
        served = Watched(cls)
        served.add(ask("a", [3, 1, 4], max_tokens))
        return served.steps(max_tokens + 1), len(served.passes), served.left()

    right = [[event] for event in events(ask("a", [3, 1, 4], max_tokens))] + [[]]
    expect.story(to_the_end, Engine).equals((right, max_tokens, (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("n, longest", [(1, 99), (23, 99), (3, 9), (8, 9)])
def test_the_last_position_ends_an_answer(expect, n, longest):
    """24 positions of the model, or fewer of the scheduler: a prompt of n gets what is left, whatever was asked for.
    One more would be an error of the model, for everybody in the batch."""
    request, end = ask("a", [5] * n, 100), min(longest, 24)

    def to_the_end(cls):
        served = Watched(cls, max_model_len=longest)
        served.add(request)
        return served.steps(end + 1 - n), served.left()

    right = [[event] for event in events(request, end)] + [[]]
    expect.story(to_the_end, Engine).equals((right, (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("place", [0, 1, 7], ids=["at once", "second", "at the limit"])
@pytest.mark.parametrize("kind", [set, list], ids=["set", "list"])
def test_a_stop_id_ends_the_answer_and_is_part_of_it(expect, place, kind):
    """An end-of-text token missed goes on talking to itself; one kept back leaves the client without the mark."""
    request = stopping("a", [4, 1, 4], place)
    right = [[event] for event in events(request)] + [[]]
    assert len(right) == place + 2

    def to_the_end(cls):
        served = Watched(cls)
        served.add(replace(request, stop_ids=kind([1, 4, *request.stop_ids])))
        return served.steps(place + 2), served.left()

    expect.story(to_the_end, Engine).equals((right, (0, 0)))


# ---- many requests


@pytest.mark.kata("level12.engine.Engine")
def test_one_pass_serves_all_and_the_events_are_in_the_order_of_the_batch(expect):
    """Budget 6: c answers when its prompt is over, d and e wait for room. One reading of the weights a step."""
    requests = [ask("z", [1, 2], 3), ask("b", [3], 5), ask("c", [4, 5, 6, 7], 3), ask("a", [8, 9], 1)]
    z, b, c, a = map(events, requests)

    def four_steps(cls):
        served = Watched(cls, budget=6)
        served.add(*requests)
        return [(served.step(), len(served.passes)) for _ in range(4)], [len(batch) for batch in served.passes]

    told = [[z[0], b[0]], [z[1], b[1], c[0], a[0]], [z[2], b[2], c[1]], [b[3], c[2]]]
    expect.story(four_steps, Engine).equals(([(one, n) for n, one in enumerate(told, 1)], [3, 4, 3, 2]))


@pytest.mark.kata("level12.engine.Engine")
def test_each_answer_goes_to_the_one_who_asked_whoever_is_in_the_middle_of_a_prompt(expect):
    """Rows of logits of unfinished prompts stand between the others: with chunks of 3, the third request answers before
    the second does."""
    requests = [ask("a", [1, 2], 6), ask("b", range(10, 19), 2), ask("c", [3, 4, 5], 4)]
    a, b, c = map(events, requests)

    def five_steps(cls):
        served = Watched(cls, budget=8, long_prefill_threshold=3)
        served.add(*requests)
        return served.steps(5), served.left()

    told = [[a[0], c[0]], [a[1], c[1]], [a[2], b[0], c[2]], [a[3], b[1], c[3]], [a[4]]]
    expect.story(five_steps, Engine).equals((told, (1, 2)))


@pytest.mark.kata("level12.engine.Engine")
def test_a_preempted_request_goes_on_where_it_was(expect):
    """The docstring's example. In step 6 a takes a block of b, which has sent 5 tokens; b waits until step 10, finds
    its first block in the cache, and runs the other 5 tokens again: its next token is the sixth."""
    requests = [ask("a", [1, 2, 3, 4], 9), ask("b", [5, 6, 7, 8], 9)]
    a, b = map(events, requests)

    def to_the_end(cls):
        served = Watched(cls, num_blocks=5)
        served.add(*requests)
        return served.steps(14), [(start, len(chunk)) for start, chunk in served.passes[9]], served.left()

    told = [*zip(a[:5], b[:5]), *zip(a[5:]), *zip(b[5:]), ()]
    expect.story(to_the_end, Engine).equals(([list(one) for one in told], [(4, 5)], (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_who_was_preempted_waits_before_those_who_came_later(expect):
    """The same with places for two, and c behind them: it gets its token in step 10, together with b, though it would
    have fitted in from step 7 on. A request that is overtaken after a preemption may wait for ever."""
    requests = [ask("a", [1, 2, 3, 4], 9), ask("b", [5, 6, 7, 8], 9), ask("c", [9], 1)]
    a, b, c = map(events, requests)

    def to_the_end(cls):
        served = Watched(cls, num_blocks=5, seqs=2)
        served.add(*requests)
        return served.steps(13), served.left()

    told = [*zip(a[:5], b[:5]), *zip(a[5:]), (b[5], c[0]), *zip(b[6:])]
    expect.story(to_the_end, Engine).equals(([list(one) for one in told], (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_what_was_sent_is_not_sent_again_while_it_is_computed_again(expect):
    """The same with 2 tokens a step and no cache: b runs its 4 + 3 tokens in four steps, all silent but the last.
    A text with words twice is what users of an engine under load have seen."""
    requests = [ask("a", [1, 2], 6), ask("b", [3, 4], 6)]
    a, b = map(events, requests)

    def to_the_end(cls):
        served = Watched(cls, num_blocks=5, block_size=2, budget=2, enable_caching=False)
        served.add(*requests)
        told, most = [], 40
        while served.engine.unfinished and (most := most - 1):
            told.append(served.step())
        ran = sum(len(chunk) for batch in served.passes for _, chunk in batch)
        return [[e for one in told for e in one if e[0] == id] for id in "ab"], ran > 14, served.left()

    expect.story(to_the_end, Engine).equals(([a, b], True, (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_a_prefix_that_is_cached_does_not_run_again(expect):
    """9 tokens in common: the second runs 2 of its 10 in the same step, and one that comes later 3 of 11. Level 05's
    Request is as good as this level's."""
    common = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    requests = [ask("a", common, 3), ask("b", [*common[:8], 11, 12], 3), ask("c", [*common[:8], 13, 14, 15], 2)]
    requests[1] = level05.engine.Request("b", requests[1].prompt, requests[1].sampling)
    a, b, c = map(events, requests)

    def three_steps(cls):
        served = Watched(cls)
        served.add(*requests[:2])
        first = served.steps(1)
        served.add(requests[2])
        ran = served.steps(3), [[(start, len(chunk)) for start, chunk in batch] for batch in served.passes[:2]]
        return first, *ran, served.left()

    told, sizes = [[a[1], b[1], c[0]], [a[2], b[2], c[1]], []], [[(0, 9), (8, 2)], [(9, 1), (10, 1), (8, 3)]]
    expect.story(three_steps, Engine).equals(([[a[0], b[0]]], told, sizes, (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_only_those_with_the_same_salt_share(expect):
    """How fast an answer begins says whether somebody else has asked the same: a salt keeps tenants apart."""
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    asked = [replace(ask(f"{i}", prompt, 1), salt=salt) for i, salt in enumerate([b"", b"x", b"x", b"y", b""])]

    def one_step(cls):
        served = Watched(cls)
        served.add(*asked)
        return served.step(), [(start, len(chunk)) for start, chunk in served.passes[0]]

    told = [event for request in asked for event in events(request)]
    expect.story(one_step, Engine).equals((told, [(0, 9), (0, 9), (8, 1), (0, 9), (8, 1)]))


@pytest.mark.kata("level12.engine.Engine")
def test_each_request_has_its_own_way_of_choosing(expect):
    """Four users in one batch: greedy, drawn with two seeds, and with penalties on what it has said itself. The fifth
    is preempted in between, and its penalties still know what it has said before."""
    drawn = {"temperature": 1.0, "top_p": 0.9}
    requests = [
        ask("a", [1, 2, 3], 9),
        ask("b", [1, 2, 3], 9, seed=5, **drawn),
        ask("c", [1, 2, 3], 9, seed=6, **drawn),
        ask("d", [7, 7], 12, seed=5, temperature=2.0, top_k=3, **PENALTIES),
        ask("e", [9, 8], 12, **{"presence_penalty": 9.0, "repetition_penalty": 9.0}),
    ]
    rights = {request.id: alone(request) for request in requests}

    def all_texts(cls):
        served = Watched(cls, num_blocks=11, block_size=3)
        served.add(*requests)
        texts = served.finish()
        return texts, sum(len(chunk) for batch in served.passes for _, chunk in batch) > 60, served.left()

    expect.story(all_texts, Engine).equals((rights, True, (0, 0)))


# ---- aborts, refusals, failures


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("state", ["new", "in its prompt", "running", "preempted", "finished", "unknown"])
def test_an_abort_in_every_state_leaves_nothing_behind(expect, state):
    """A client that hangs up costs nothing from then on: no token, no pass, no block; the others go on. Its id may be
    used again."""
    steps = {"new": 0, "in its prompt": 1, "running": 4, "preempted": 6, "finished": 5, "unknown": 2}[state]
    prompt, n = (range(10, 18), 3) if state == "in its prompt" else ([5, 6, 7, 8], 5 if state == "finished" else 9)
    a, b = ask("a", [1, 2, 3, 4], 9), ask("b", prompt, n)
    again = replace(ask("a" if state == "unknown" else "b", [2], 2), stop_ids=())
    gone = "nobody" if state == "unknown" else "b"

    def hangs_up(cls):
        served = Watched(cls, num_blocks=5, budget=8)
        served.add(a, b)
        served.steps(steps)
        before = served.engine.unfinished
        told = [served.engine.abort(gone), served.engine.abort(gone)]
        here = before, served.engine.unfinished, told
        told = served.step()
        texts = served.finish()
        end = served.left()
        served.add(again)
        return here, [event for event in told if event[0] == "b"], sorted(texts), end, served.finish(), served.left()

    before = 1 if state == "finished" else 2
    after = before - (state not in ("finished", "unknown"))
    others = ["a", "b"] if state == "unknown" else ["a"]
    said = [events(b)[2]] if state == "unknown" else []
    right = (before, after, [None, None]), said, others, (0, 0), {again.id: alone(again)}, (0, 0)
    expect.story(hangs_up, Engine).equals(right)


@pytest.mark.kata("level12.engine.Engine")
def test_a_request_that_can_never_fit_is_refused_at_the_door(expect):
    """4 usable blocks of 4 hold 16 tokens, and the last of an answer needs no place: 10 + 7 fit and 10 + 8 do not. Let
    in, it would wait for ever, and all others behind it."""

    def at_the_door(cls):
        served = Watched(cls, num_blocks=5)
        tries = [
            ("a", 17, 1),
            ("b", 10, 8),
            ("c", 10, 7),
            ("c", 2, 1),
            ("d", 0, 1),
            ("e", 1, 0),
            ("f", 24, 1),
            ("g", 16, 1),
        ]
        verdicts = [tried(served.engine.add, ask(id, [6] * n, tokens)) for id, n, tokens in tries]
        return (
            verdicts,
            served.engine.unfinished,
            {id: len(text) for id, text in served.finish().items()},
            served.left(),
        )

    no, yes = "ValueError", "accepted"
    right = [no, no, yes, no, no, no, no, yes], 2, {"c": 7, "g": 1}, (0, 0)
    expect.story(at_the_door, Engine).equals(right)


@pytest.mark.kata("level12.engine.Engine")
def test_what_a_request_may_get_has_to_fit_and_not_what_it_asks_for(expect):
    """An API's default of max_tokens is far more than a context. 16 slots, 12 positions, a prompt of 10: two tokens."""
    request = ask("a", [4, 7] * 5, 100)

    def to_the_end(cls):
        served = Watched(cls, num_blocks=5, max_model_len=12)
        served.add(request)
        return served.steps(3), served.left()

    expect.story(to_the_end, Engine).equals(([[event] for event in events(request, 12)] + [[]], (0, 0)))


@pytest.mark.kata("level12.engine.Engine")
def test_a_pass_that_fails_is_as_if_it_had_not_been(expect):
    """Blocks get their keys before their tokens have run: what a failed pass should have written must not be found by
    anybody. The client of b hangs up, and c asks the same and more. The error comes out, and the next step goes on."""
    a, b, c = (
        ask(id, [1, 2, 3, 4, *rest], n) for id, rest, n in zip("abc", ([5], [6, 7, 8, 9], [6, 7, 8, 9, 10]), (4, 3, 2))
    )

    def fails(cls):
        served = Watched(cls, block_size=2)
        served.add(a)
        first = served.steps(2)
        served.add(b)
        served.fails = 2
        errors = [tried(served.engine.step) for _ in range(2)]
        served.engine.abort("b")
        served.add(c)
        return first, errors, served.finish(), served.left()

    right = [[event] for event in events(a)[:2]], ["Broken", "Broken"], {"a": alone(a)[2:], "c": alone(c)}, (0, 0)
    expect.story(fails, Engine).equals(right)


@pytest.mark.kata("level12.engine.Engine")
def test_the_very_first_pass_may_fail(expect):
    """One more client with the same prompt comes before the second try: it shares what that writes."""
    a, b = ask("a", [1, 2, 3, 4, 5, 6], 3), ask("b", [1, 2, 3, 4, 5, 6], 3)

    def fails(cls):
        served = Watched(cls, block_size=2)
        served.add(a)
        served.fails = 1
        error = tried(served.engine.step)
        served.add(b)
        return error, served.steps(1), [(start, len(chunk)) for start, chunk in served.passes[0]], served.finish()

    told = [events(a)[0], events(b)[0]]
    right = "Broken", [told], [(0, 6), (4, 2)], {"a": alone(a)[1:], "b": alone(b)[1:]}
    expect.story(fails, Engine).equals(right)


@pytest.mark.kata("level12.engine.Engine")
def test_a_request_is_a_copy(expect):
    """A chat goes on with the same list: what it appends is not part of the question that it has asked."""
    request = ask("a", [1, 2, 3], 3)

    def goes_on(cls):
        served, prompt = Watched(cls), [1, 2, 3]
        served.engine.add(replace(request, prompt=prompt))
        prompt += [9]
        first = served.step()
        prompt.clear()
        told = first + sum(served.steps(2), [])
        return told, prompt

    expect.story(goes_on, Engine).equals((events(request), []))


@pytest.mark.kata("level12.engine.Engine")
def test_stop_strings_are_not_looked_at(expect):
    """They are text, and may begin in the middle of a token: whoever makes text of the ids looks for them."""
    request = ask("a", [3, 1, 4], 3, stop=("a", ""))

    def to_the_end(cls):
        served = Watched(cls)
        served.add(request)
        return served.steps(4)

    expect.story(to_the_end, Engine).equals([[event] for event in events(request)] + [[]])


# ---- random arrivals


def crowd(seed, n):
    """n requests whose prompts begin alike, drawn or greedy, some with penalties, some that end early; and when each
    comes and who hangs up: a list of requests and ids."""
    draw, script = random.Random(seed), []
    base = [[draw.randrange(31) for _ in range(12)] for _ in range(2)]
    for i in range(n):
        prompt = draw.choice(base)[: draw.randrange(13)] + [draw.randrange(31) for _ in range(draw.randrange(1, 5))]
        drawn = {"temperature": 1.0, "seed": i, "top_k": 4}
        how = draw.choice([{}, {}, {}, drawn, {"temperature": 0.0, **PENALTIES}])
        script.append(ask(f"r{i}", prompt, draw.randrange(1, 9), draw.choice([(), {3, 4, 5}]), **how))
        if draw.random() < 0.3:
            script.append(f"r{draw.randrange(i + 1)}")
    return script, draw.random()


def served_to(script, pace, rights, make):
    """A story: the script is played between steps, at random; then all that came out differently than alone, how many
    passes ran in a step with work, and what is left."""

    def play(cls):
        served, draw, todo = make(cls), random.Random(pace), list(script)
        told, gone, odd, most = {}, set(), 0, 600
        while (todo or served.engine.unfinished) and (most := most - 1):
            while todo and draw.random() < 0.6:
                if isinstance(what := todo.pop(0), str):
                    served.engine.abort(what)
                    gone |= {what} - {id for id, text in told.items() if text and text[-1][1]}
                    told.setdefault(what, [])
                else:
                    served.add(what)
            busy, ran = served.engine.unfinished > 0, len(served.passes)
            now = served.step()
            odd += len(served.passes) - ran != busy or len({id for id, *_ in now}) != len(now)
            for id, token, done in now:
                told.setdefault(id, []).append((token, done))
        wrong = {}
        for id, right in rights.items():
            text, marked = told.get(id, []), [(token, i == len(right) - 1) for i, token in enumerate(right)]
            if text != (marked[: len(text)] if id in gone else marked):
                wrong[id] = [token for token, _ in text]
        return wrong, odd, served.left()

    return play


SIZES = {  # num_blocks, block_size, budget, seqs
    "roomy": ((40, 4, 64, 8), {}),
    "small pool": ((7, 4, 16, 5), {"reserve_full": False}),
    "small blocks": ((13, 2, 5, 4), {}),
    "no cache": ((9, 3, 20, 6), {"enable_caching": False}),
    "chunks": ((9, 3, 12, 6), {"long_prefill_threshold": 2, "reserve_full": False}),
}


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("name", SIZES)
def test_everybody_gets_what_they_would_get_alone(expect, name):
    """16 requests come and go as they like, in pools with and without room for all. Nobody can tell from the answer who
    else was there, and in the end every block is free."""
    (script, pace), (sizes, options) = crowd(list(SIZES).index(name), 16), SIZES[name]
    rights = {request.id: alone(request) for request in script if not isinstance(request, str)}
    story = served_to(script, pace, rights, lambda cls: Watched(cls, *sizes, **options))
    expect.story(story, Engine).equals(({}, 0, (0, 0)))


class Real(Watched):
    """The same on paged_step and a pool of real keys and values, that begins full of NaN."""

    def __init__(self, cls, *sizes, **options):
        self.scheduler, self.passes = Scheduler(*sizes, **options), []
        self.engine = cls(PARAMS, MODEL, self.scheduler, run=self.run)

    def run(self, params, config, pool, batch):
        if not self.passes:
            pool.keys.fill_(float("nan"))
            pool.values.fill_(float("nan"))
        self.passes.append(len(batch.tables))
        return paged_step(params, config, pool, batch)


@pytest.mark.kata("level12.engine.Engine")
@pytest.mark.parametrize("name", ["small pool", "chunks"])
def test_a_model_gives_the_tokens_of_level_01(expect, name):
    """generate, with a cache of its own and nobody else, is the oracle: keys and values went to the right places."""
    (script, pace), (sizes, options) = crowd(25, 7), SIZES[name]
    requests = [request for request in script if not isinstance(request, str)]
    rights = {
        r.id: generate(PARAMS, MODEL, r.prompt, r.sampling.max_tokens, r.stop_ids, choose=chooser(r.sampling))
        for r in requests
    }
    story = served_to(script, pace, rights, lambda cls: Real(cls, *sizes, **options))
    expect.story(story, Engine).equals(({}, 0, (0, 0)))
