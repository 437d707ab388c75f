"""Judges bridge.py with an engine whose steps take a while, and end when the test says so: no clock is read.

Request "a" of length 3 gets the tokens 1, 2, 3. The stand-in writes down as a fault what the docstring forbids: that it
is touched during a step, that a step begins without a request that came, or with one that left. Waiting is counted in
turns of the event loop, so a program that hangs says what it has come to. Of an AsyncEngine only open, close and the
Tokens are used.
"""

import asyncio
import logging
import random
import threading
from itertools import count
from types import SimpleNamespace

import pytest

from level10.bridge import AsyncEngine


async def turns(n=40):
    """Let everything run that can run without another step."""
    for _ in range(n):
        await asyncio.sleep(0)


class Desk:
    """An engine, and the thread in which it steps. With `held` a step ends when `let` is called.

    slots  requests that run in one step; script  {number of a step: what it raises, or what it does at its end}
    """

    def __init__(self, slots=99, held=True, script=()):
        self.slots, self.held, self.script = slots, held, dict(script)
        self.waiting, self.running, self.added = [], {}, []  # requests; id -> [tokens, length]; ids
        self.expected = []  # ids of the requests that a step must find here
        self.gate, self.busy, self.steps, self.faults = asyncio.Event(), False, 0, set()

    def add(self, request):
        self.touched()
        if request.length == 0:
            raise ValueError(f"nothing to do for {request.id}")
        self.waiting.append(request)
        self.added.append(request.id)

    def abort(self, id):
        self.touched()
        self.waiting = [request for request in self.waiting if request.id != id]
        self.running.pop(id, None)

    def touched(self):
        if self.busy:
            self.faults.add("touched during a step")

    def ids(self):
        return [*self.running, *(request.id for request in self.waiting)]

    def in_thread(self, call, *args):
        if self.busy:
            self.faults.add("two steps at once")
        if set(self.expected) - set(self.ids()):
            self.faults.add("a step without one that came")
        if set(self.ids()) - set(self.expected):
            self.faults.add("a step with one that left")
        self.busy = True
        return self.wait_for(call, *args)

    async def wait_for(self, call, *args):
        # a thread goes on when nobody waits for it any more
        return await asyncio.shield(asyncio.create_task(self.thread(call, *args)))

    async def thread(self, call, *args):
        try:
            await (self.gate.wait() if self.held else asyncio.sleep(0))
            self.gate.clear()
            return call(*args)
        finally:
            self.busy = False

    def step(self):
        if not self.busy:
            self.faults.add("a step outside of in_thread")
        self.steps += 1
        while self.waiting and len(self.running) < self.slots:
            request = self.waiting.pop(0)
            self.running[request.id] = [0, request.length]
        happens = self.script.get(self.steps)
        if isinstance(happens, Exception):
            self.expected.clear()
            raise happens
        events = []
        for id, row in list(self.running.items()):
            row[0] += 1
            events.append((id, row[0], row[0] == row[1]))
            if row[0] == row[1]:
                del self.running[id]
                self.expected = [other for other in self.expected if other != id]
        return happens(events) if happens else events

    async def let(self, n=1):
        """Let n steps end, one after the other, if they are running."""
        for _ in range(n):
            self.gate.set()
            await turns()
            self.gate.clear()


class Clients:
    """Clients of an AsyncEngine, each with all that it has heard."""

    def __init__(self, cls, desk, max_open=8):
        self.desk, self.engine = desk, cls(desk, max_open, in_thread=desk.in_thread)
        self.heard, self.tokens, self.tasks = {}, {}, {}

    def open(self, id, length=3, listen=True):
        """The name of what it raises, or "open"."""
        if length:
            self.desk.expected.append(id)  # already now: a program may begin with a step at once
        try:
            tokens = self.engine.open(SimpleNamespace(id=id, length=length))
        except NotImplementedError:
            raise
        except Exception as error:
            self.desk.expected = [other for other in self.desk.expected if other != id]
            return type(error).__name__
        self.tokens[id], self.heard[id] = tokens, []
        if listen:
            self.listen(id)
        return "open"

    async def come(self, lengths):
        """One after the other, so that the first step is of the first one, and the others come during it."""
        for id, length in lengths.items():
            self.open(id, length)
            await turns()

    def listen(self, id):
        self.tasks[id] = asyncio.create_task(self.read(self.tokens[id], self.heard[id]))

    async def read(self, tokens, heard):
        try:
            async for token in tokens:
                heard.append(token)
            heard.append("end")
        except NotImplementedError:
            raise
        except Exception as error:
            heard.append(f"{type(error).__name__}: {error}")

    async def leave(self, id):
        if id in self.tasks:
            self.tasks[id].cancel()
            await turns(2)
        self.desk.expected = [other for other in self.desk.expected if other != id]
        await self.tokens[id].aclose()

    def close(self):
        """The task that closes the engine."""

        async def closing():
            self.desk.expected.clear()
            await self.engine.close()

        self.tasks["close"] = asyncio.create_task(closing())
        return self.tasks["close"]

    def seen(self, *more):
        """What was heard, who is left in the engine, the faults; and what a caller adds."""
        for task in self.tasks.values():
            if task.done() and not task.cancelled():
                task.result()
        heard = {id: list(said) for id, said in self.heard.items()}
        return (heard, self.desk.ids(), sorted(self.desk.faults), *more)


def told(scene, *settings):
    """A story: a scene in an event loop of its own, whose clock runs fast: whoever sets a time limit meets it."""

    async def quiet(cls):
        loop, clock = asyncio.get_running_loop(), count()
        loop.time = lambda: float(next(clock))
        loop.set_exception_handler(lambda *_: None)
        return await scene(cls, *settings)

    def story(cls):
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            return asyncio.run(quiet(cls))
        finally:
            logging.disable(before)

    story.__name__ = scene.__name__
    return story


def whole(length):
    """All that a client hears whose request has that many tokens."""
    return [*((i, i == length) for i in range(1, length + 1)), "end"]


def part(n):
    return [(i, False) for i in range(1, n + 1)]


# ---- tokens


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_streams_share_the_steps(expect):
    """One step makes a token for each: served one after the other, ten clients would wait ten times as long."""

    async def two_streams(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        await clients.come({"a": 3, "b": 2})
        seen = []
        for _ in range(3):
            await desk.let()
            seen.append(clients.seen()[0])
        return seen, clients.seen()[1:], desk.steps

    right = [{"a": part(1), "b": []}, {"a": part(2), "b": part(1)}, {"a": whole(3), "b": whole(2)}]
    expect.story(told(two_streams), AsyncEngine).equals((right, ([], []), 3))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_it_steps_while_somebody_waits_and_no_longer(expect):
    """As many steps as the longest answer has tokens, then none: an idle server that steps takes a whole core."""

    async def count_steps(cls):
        desk = Desk()
        clients, steps = Clients(cls, desk), []
        await desk.let(2)
        steps.append(desk.steps)
        for lengths in ({"a": 5, "b": 3, "c": 1}, {"d": 2}, {"e": 1}):
            await clients.come(lengths)
            await desk.let(8)
            steps.append(desk.steps)
        return clients.seen(steps, desk.busy)

    heard = {"a": whole(5), "b": whole(3), "c": whole(1), "d": whole(2), "e": whole(1)}
    expect.story(told(count_steps), AsyncEngine).equals((heard, [], [], [0, 5, 7, 8], False))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_the_event_loop_goes_on_during_a_step(expect):
    """The step here ends only when another coroutine says so: in a blocked loop no client could even connect."""

    async def a_step_that_waits(cls):
        said, home, asked = threading.Event(), threading.get_ident(), []
        del asyncio.get_running_loop().time  # a thread has the clock that everybody has

        class Engine:
            def add(self, request): ...
            def abort(self, id): ...

            def step(self):
                asked.append(threading.get_ident() == home or said.wait(30))
                return [("a", 7, True)] if threading.get_ident() != home else [("a", 0, True)]

        tokens = cls(Engine()).open(SimpleNamespace(id="a"))
        try:
            first = asyncio.create_task(anext(tokens))
            await asyncio.sleep(0)
        finally:  # asyncio.run waits for the thread
            said.set()
        async with asyncio.timeout(20):
            return await first, asked[0]

    expect.story(told(a_step_that_waits), AsyncEngine).equals(((7, True), True))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_who_comes_during_a_step_is_added_before_the_next(expect):
    """Continuous batching: a new request waits for one step, not for the answers of the others. And no engine is made
    for two threads: a request that is added while it plans may be lost, or bring it down."""

    async def one_comes_later(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        clients.open("a", 4)
        await desk.let()
        clients.open("b", 2)
        await turns()
        seen = [clients.seen()[0]]
        for _ in range(3):
            await desk.let()
            seen.append(clients.seen()[0])
        return seen, clients.seen()[1:], desk.steps

    later = [{"a": part(1), "b": []}, {"a": part(2), "b": []}, {"a": part(3), "b": part(1)}]
    right = [*later, {"a": whole(4), "b": whole(2)}]
    expect.story(told(one_comes_later), AsyncEngine).equals((right, ([], []), 4))


@pytest.mark.kata("level10.bridge.AsyncEngine")
@pytest.mark.parametrize("held", [True, False])
def test_first_come_first_added(expect, held):
    """An engine serves those first that came first; who adds the newest first lets the oldest wait for ever."""

    async def many_come(cls):
        desk = Desk(slots=1, held=held)
        clients = Clients(cls, desk)
        ids = ["c", "a", "e"] if not held else ["x", "c", "a", "e", "b", "d"]
        for i, id in enumerate(ids):
            clients.open(id, 1)
            if held and i == 0:
                await turns()  # the others come during its step
        await (desk.let(len(ids)) if held else turns(100))
        return clients.seen(desk.added)

    ids = ["x", "c", "a", "e", "b", "d"] if held else ["c", "a", "e"]
    expect.story(told(many_come), AsyncEngine).equals(({id: whole(1) for id in ids}, [], [], ids))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_a_slow_reader_holds_nobody_up(expect):
    """A client on a bad line reads late: its tokens wait for it, the other's do not, and its place is free."""

    async def one_reads_late(cls):
        desk = Desk(held=False)
        clients = Clients(cls, desk, max_open=2)
        clients.open("a", 4, listen=False), clients.open("b", 5)
        await turns(100)
        before = clients.seen()[0], clients.open("c", 1)
        clients.listen("a")
        await turns()
        return before, clients.seen()

    right = ({"a": [], "b": whole(5)}, "open"), ({"a": whole(4), "b": whole(5), "c": whole(1)}, [], [])
    expect.story(told(one_reads_late), AsyncEngine).equals(right)


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_a_step_may_bring_several_tokens_of_a_stream(expect):
    """A step's list is a list: an engine that guesses ahead has several tokens for a request at once."""

    async def tokens_in_pairs(cls):
        def doubled(events):
            return [(id, token + more, last and more > 0) for id, token, last in events for more in (0, 10)]

        desk = Desk(script={1: doubled, 2: doubled})
        clients = Clients(cls, desk)
        await clients.come({"a": 2, "b": 1})
        await desk.let(2)
        return clients.seen()

    heard = {"a": [(1, False), (11, False), (2, False), (12, True), "end"], "b": [(1, False), (11, True), "end"]}
    expect.story(told(tokens_in_pairs), AsyncEngine).equals((heard, [], []))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_each_request_follows_the_last_token_of_the_one_before(expect):
    """A client that asks again at once comes in the very turn in which the work ends: it must not be overlooked."""

    async def one_after_the_other(cls):
        desk = Desk(held=False)
        clients = Clients(cls, desk, max_open=1)

        async def ask(n):
            for i in range(n):
                clients.open(f"r{i}", 1 + i % 2, listen=False)
                await clients.read(clients.tokens[f"r{i}"], clients.heard[f"r{i}"])

        clients.tasks["asking"] = asyncio.create_task(ask(5))
        await turns(200)
        return clients.seen(desk.steps)

    heard = {f"r{i}": whole(1 + i % 2) for i in range(5)}
    expect.story(told(one_after_the_other), AsyncEngine).equals((heard, [], [], 7))


# ---- who leaves


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_who_leaves_during_a_step_is_aborted_before_the_next(expect):
    """An engine that isn't told decodes for nobody. The token that was under way is dropped, the others' are not."""

    async def one_leaves(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        await clients.come({"a": 4, "b": 4, "c": 4})
        await desk.let(2)
        await clients.leave("a")
        seen = [clients.seen()]
        for _ in range(3):
            await desk.let()
            seen.append(clients.seen())
        return seen, desk.steps

    def after(n, running):
        heard = {id: whole(4) if n == 4 else part(n) for id in "bc"}
        return {"a": part(2), **heard}, running, []

    right = [after(1, ["a", "b", "c"]), after(2, ["b", "c"]), after(3, ["b", "c"]), after(4, [])]
    expect.story(told(one_leaves), AsyncEngine).equals((right, 5))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_when_all_have_left_the_engine_stops(expect):
    """The step that runs is the last one, and the engine keeps nothing: its blocks are for those that come."""

    async def all_leave(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        await clients.come({"a": 50, "b": 50})
        await desk.let(2)
        await clients.leave("a")
        await clients.leave("b")
        await desk.let(3)
        return clients.seen(desk.steps, desk.busy)

    expect.story(told(all_leave), AsyncEngine).equals(({"a": part(2), "b": part(1)}, [], [], 3, False))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_who_leaves_before_a_step_begins_never_runs(expect):
    """Came and left between two steps: told in the wrong order, the engine would keep it for ever."""

    async def come_and_go(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        clients.open("a", 3)
        await desk.let()
        clients.open("b", 3)
        await clients.leave("b")
        await desk.let(2)
        clients.open("c", 3, listen=False)
        await clients.leave("c")
        await desk.let()
        clients.open("d", 1)
        await desk.let(2)
        return clients.seen()

    heard = {"a": whole(3), "b": [], "c": [], "d": whole(1)}
    expect.story(told(come_and_go), AsyncEngine).equals((heard, [], []))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_the_place_of_one_that_leaves_is_free_at_once(expect):
    """Not after the step that runs: the next client is already there."""

    async def swap(cls):
        desk = Desk()
        clients = Clients(cls, desk, max_open=2)
        await clients.come({"a": 3, "b": 3})
        said = [clients.open("c")]
        await clients.leave("a")
        said += [clients.open("d", 2), clients.open("e")]
        await desk.let(4)
        return clients.seen(said, desk.steps)

    said = ["Full", "open", "Full"]
    expect.story(told(swap), AsyncEngine).equals(({"a": [], "b": whole(3), "d": whole(2)}, [], [], said, 4))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_places_are_those_that_run_and_those_that_wait(expect):
    """One runs, one waits in the engine, one for the next step: three places. Each last token makes one free."""

    async def fill(cls):
        desk, said = Desk(slots=1), []
        clients = Clients(cls, desk, max_open=3)
        for i in range(8):
            said.append([clients.open(f"r{i}.{k}", 1) for k in range(4)])
            await desk.let(1 + i % 2)
        return said, clients.seen()[1:], desk.steps

    full = ["Full"] * 4
    said = [["open"] * 3 + ["Full"], ["open", *full[1:]]]
    said += [["open", "open", *full[2:]], ["open", *full[1:]]] * 3
    left = ["r7.0"]
    expect.story(told(fill), AsyncEngine).equals((said, (left, []), 12))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_closing_tokens_that_have_ended_changes_nothing(expect):
    """Whoever closes in a `finally` does so after the last token as well, and twice: the others keep their places."""

    async def close_again(cls):
        desk = Desk()
        clients = Clients(cls, desk, max_open=2)
        await clients.come({"a": 1, "b": 3})
        await desk.let()
        for _ in range(2):
            await clients.leave("a")
        said = [clients.open("c", 2), clients.open("d")]
        await clients.leave("a")
        said.append(clients.open("e"))
        await desk.let(3)
        return clients.seen(said, desk.steps)

    heard = {"a": whole(1), "b": whole(3), "c": whole(2)}
    expect.story(told(close_again), AsyncEngine).equals((heard, [], [], ["open", "Full", "Full"], 4))


# ---- what goes wrong


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_a_request_that_the_engine_refuses_ends_alone(expect):
    """One bad request is one client's problem: those beside it, before and behind, get their tokens."""

    async def one_is_refused(cls):
        desk = Desk()
        clients = Clients(cls, desk, max_open=3)
        await clients.come({"a": 2, "bad": 0, "c": 3})
        await desk.let()
        said = [clients.open("d", 1), clients.open("e", 1)]
        await desk.let(3)
        clients.open("worse", 0)
        await turns()
        return clients.seen(said, desk.steps, desk.busy)

    heard = {"a": whole(2), "bad": ["Invalid: nothing to do for bad"], "c": whole(3), "d": whole(1)}
    heard["worse"] = ["Invalid: nothing to do for worse"]
    expect.story(told(one_is_refused), AsyncEngine).equals((heard, [], [], ["open", "Full"], 4, False))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_a_step_that_raises_ends_all_open_streams(expect):
    """Those that it ran, those that wait in the engine, and those that came meanwhile: nobody hangs. The engine keeps
    none of them, and serves the next."""

    async def one_step_fails(cls):
        desk = Desk(slots=2, script={2: RuntimeError("out of memory"), 4: KeyError("block")})
        clients = Clients(cls, desk, max_open=4)
        await clients.come({"a": 4, "b": 4, "c": 4})
        await desk.let()
        clients.open("d", 4)
        await desk.let()
        seen = [clients.seen(desk.steps, desk.busy)]
        await clients.come(dict.fromkeys("efgh", 1))
        await desk.let(2)
        return seen, clients.seen(desk.steps)

    lost = "Failed: the engine failed: RuntimeError: out of memory"
    heard = {"a": [*part(1), lost], "b": [lost], "c": [lost], "d": [lost]}
    right = [(dict(heard), [], [], 2, False)]
    again = "Failed: the engine failed: KeyError: 'block'"
    heard |= {"e": whole(1), "f": [again], "g": [again], "h": [again]}
    expect.story(told(one_step_fails), AsyncEngine).equals((right, (heard, [], [], 4)))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_a_step_that_raises_when_all_have_left(expect):
    """Nobody is there to hear of it, and those that come later are served."""

    async def fails_for_nobody(cls):
        desk = Desk(script={1: RuntimeError("boom")})
        clients = Clients(cls, desk, max_open=1)
        clients.open("a")
        await turns()
        await clients.leave("a")
        await desk.let()
        said = clients.open("b", 2)
        await desk.let(2)
        return clients.seen(said, desk.steps)

    expect.story(told(fails_for_nobody), AsyncEngine).equals(({"a": [], "b": whole(2)}, [], [], "open", 3))


# ---- close


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_close_ends_the_streams_and_waits_for_the_step(expect):
    """Clients hear of it at once; the process must not end while a thread still computes. Then nothing is left."""

    async def shut_down(cls):
        desk = Desk(slots=1)
        clients = Clients(cls, desk)
        clients.open("a"), clients.open("b")
        await desk.let()
        clients.open("c")
        closing = clients.close()
        await turns()
        seen = [(closing.done(), clients.seen(desk.busy))]
        said = clients.open("d")
        await desk.let()
        seen.append((closing.done(), clients.seen(desk.busy)))
        await desk.let(2)
        return seen, said, clients.open("e"), desk.steps, sorted(desk.faults)

    gone = "Closed: the server is shutting down: ask another one"
    heard = {"a": [(1, False), gone], "b": [gone], "c": [gone]}
    right = [(False, (heard, ["a", "b"], [], True)), (True, (heard, [], [], False))]
    expect.story(told(shut_down), AsyncEngine).equals((right, "Closed", "Closed", 2, []))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_close_after_one_left(expect):
    """Who left during the step that runs is not open any more, but the engine has not heard of it: nothing is left."""

    async def one_left(cls):
        desk = Desk()
        clients = Clients(cls, desk)
        await clients.come({"a": 5, "b": 5})
        await desk.let()
        await clients.leave("a")
        closing = clients.close()
        await turns()
        seen = closing.done()
        await desk.let()
        return seen, closing.done(), clients.seen(desk.busy, desk.steps)

    heard = {"a": part(1), "b": ["Closed: the server is shutting down: ask another one"]}
    expect.story(told(one_left), AsyncEngine).equals((False, True, (heard, [], [], False, 2)))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_close_when_nothing_runs(expect):
    """Never used, idle after work, closed already: it returns. Closed just after an open, the engine has no request."""

    async def close_idle(cls):
        seen = []
        for lengths in ([], [2], [2, 1]):
            desk = Desk(held=False)
            clients = Clients(cls, desk)
            for i, length in enumerate(lengths):
                clients.open(f"r{i}", length)
            await turns(60)
            for _ in range(2):
                closing = clients.close()
                await turns()
                seen.append(closing.done())
            seen.append(clients.seen(desk.steps))
        desk = Desk(held=False)
        clients = Clients(cls, desk)
        clients.open("a", 5)
        closing = clients.close()
        await turns()
        return seen, closing.done(), clients.seen(desk.busy)

    seen = []
    for lengths in ([], [2], [2, 1]):
        heard = {f"r{i}": whole(length) for i, length in enumerate(lengths)}
        seen += [True, True, (heard, [], [], max([0, *lengths]))]
    gone = {"a": ["Closed: the server is shutting down: ask another one"]}
    expect.story(told(close_idle), AsyncEngine).equals((seen, True, (gone, [], [], False)))


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_tokens_that_were_made_come_before_the_end(expect):
    """What a slow reader has not read yet when the engine closes or fails, it reads first; who has all, has all."""

    async def read_after_the_end(cls, fails):
        desk = Desk(script={3: RuntimeError("boom")} if fails else {})
        clients = Clients(cls, desk)
        clients.open("a", 2, listen=False)
        await turns()
        clients.open("b", 9, listen=False)
        await desk.let(2)
        if not fails:
            clients.close()
        await desk.let()
        clients.listen("a"), clients.listen("b")
        await turns()
        return clients.seen()

    for fails, said in (
        (False, "Closed: the server is shutting down: ask another one"),
        (True, "Failed: the engine failed: RuntimeError: boom"),
    ):
        right = {"a": whole(2), "b": [*part(1), said]}, [], []
        expect.story(told(read_after_the_end, fails), AsyncEngine).equals(right)


# ---- all of it together


@pytest.mark.kata("level10.bridge.AsyncEngine")
def test_any_traffic(expect):
    """Oracle: who stays hears the tokens 1 to its length, who leaves the first of them. Clients come and go at random
    moments, and some requests are refused."""

    async def random_traffic(cls, seed):
        draw, desk = random.Random(seed), Desk(slots=2, held=False)
        clients, lengths, gone, said = Clients(cls, desk, max_open=3), {}, set(), set()
        for i in range(60):
            if draw.random() < 0.6:
                id, length = f"r{i}", draw.choice([0, 1, 2, 5, 9])
                said.add(found := clients.open(id, length))
                if found == "open":
                    lengths[id] = length
            elif stay := [id for id in lengths if id not in gone]:
                gone.add(id := draw.choice(stay))
                await clients.leave(id)
            await turns(draw.randrange(6))
        await turns(600)
        wrong = []
        for id, length in lengths.items():
            right = whole(length) if length else [f"Invalid: nothing to do for {id}"]
            heard = clients.heard[id]
            if heard != (right[: len(heard)] if id in gone else right):
                wrong.append(id)
        return wrong, clients.seen()[1:], sorted(said), desk.busy

    for seed in range(12):
        expect.story(told(random_traffic, seed), AsyncEngine).equals(([], ([], []), ["Full", "open"], False))
