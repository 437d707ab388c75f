"""The power pellet of level 10: SmolLM2-135M behind your endpoint, asked over HTTP by many at once.

The answers are level 05's stored ones, made by transformers' generate; there the best logit leads by 0.4 or more at
every step. So whoever is served at the same time, and however the text is cut into events, a client must get these
words. The server is uvicorn on a port of this machine, in a thread of its own; requests are real ones. What the engine
did for them is counted in its steps.
"""

import asyncio
import json
import threading
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from dojo.models import NAME, load
from level00.tokenizer import SmolTokenizer
from level03.sampler import SamplingParams
from level05.engine import Engine, Request
from level10.app import make_app
from level10.bridge import AsyncEngine
from level10.client import reply
from level10.openloop import poisson_arrivals, run_open_loop
from level10.serve import listen
from level10.sse import SSEParser

LEVELS = Path(__file__).parents[2]
STORED = json.loads((LEVELS / "level05" / "checkpoint" / "smollm2.json").read_text(encoding="utf-8"))["requests"]
STREAMS, TOKENS = 8, 4  # of what is timed
NEED = 0.5  # of the engine's own time for the same requests: right servers reach 0.9, one stream at a time 0.25


class Counting:
    """An engine whose steps are counted, and which can be told to wait before a step."""

    def __init__(self, engine: Engine):
        self.engine, self.steps = engine, 0
        self.add, self.abort = engine.add, engine.abort

    def step(self):
        self.steps += 1
        return self.engine.step()


class Serving:
    """The app on a free port, in a thread with an event loop of its own, until the end of a `with`."""

    def __init__(self, model, max_open: int = 32, max_seqs: int = STREAMS):
        config, params, data = model
        self.tokenizer = SmolTokenizer.from_model(data)
        self.counted = Counting(Engine(params, config, 64, max_seqs))
        self.async_engine = AsyncEngine(self.counted, max_open)
        app = make_app(self.async_engine, self.tokenizer, NAME, config.max_seq_len)
        self.server = uvicorn.Server(uvicorn.Config(app, ws="none", log_level="warning"))
        self.socket = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        run = lambda: asyncio.run(self.server.serve(sockets=[self.socket]))  # noqa: E731
        self.thread = threading.Thread(target=run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()
        assert not self.thread.is_alive(), "the server did not end within 20 s of being told to"


async def ask(url: str, body: dict, leave_after: int | None = None) -> tuple[int, list]:
    """(status, events of a stream or the one object); hangs up after so many events."""
    events, parser = [], SSEParser()
    async with reply(url, body) as (status, parts), aclosing(parts):
        data = b""
        async for part in parts:
            if not body.get("stream") or status != 200:
                data += part
                continue
            events += parser.feed(part)
            if leave_after is not None and len(events) >= leave_after:
                return status, events
    return (status, [json.loads(data)]) if data else (status, events)


def body_of(name: str, **more) -> dict:
    """A stored request, streamed, its prompt as token ids."""
    one = STORED[name]
    body = {"prompt": one["ids"], "max_tokens": one["max_tokens"], "temperature": 0, "stream": True}
    return body | {"stream_options": {"include_usage": True}} | more


def heard(events: list[str]) -> tuple[str, str | None, dict | None, str]:
    """(text, finish_reason, usage, last event) of a streamed completion."""
    chunks = [json.loads(event) for event in events[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    usage = next((chunk["usage"] for chunk in chunks if "usage" in chunk), None)
    return "".join(c["text"] for c in choices), choices[-1]["finish_reason"], usage, events[-1]


def right(name: str, tokenizer) -> tuple:
    """What `heard` must come to: the end token is counted, and not shown."""
    one = STORED[name]
    ended = one["answer"][-1] == tokenizer.eos_id
    text = tokenizer.decode(one["answer"][: len(one["answer"]) - ended])
    counts = len(one["ids"]), len(one["answer"]), len(one["ids"]) + len(one["answer"])
    usage = dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), counts))
    return text, "stop" if ended else "length", usage, "[DONE]"


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def serving(model):
    with Serving(model) as server:
        yield server


async def together(url: str, bodies: list[dict]) -> list[tuple[int, list]]:
    async with asyncio.timeout(50):
        return await asyncio.gather(*(ask(f"{url}/completions", body) for body in bodies))


# ---- the words


@pytest.mark.kata("level10.checkpoint")
def test_everybody_reads_the_answer_of_another_implementation(expect, serving):
    """Oracle: transformers' generate, each request alone. Five clients at once, streamed: text, reason, usage, end."""

    def read(names):
        answers = asyncio.run(together(serving.url, [body_of(name) for name in names]))
        return [heard(events) for _, events in answers]

    expect(read, list(STORED)).equals([right(name, serving.tokenizer) for name in STORED])


@pytest.mark.kata("level10.checkpoint")
def test_requests_that_come_by_chance_share_the_steps(expect, serving):
    """Twelve requests of a Poisson process, in a burst: each text is right, and the engine makes far fewer steps than
    the 104 tokens that they get. A server that serves one after the other makes a step for each."""
    names = [name for name in STORED for _ in range(3)][:12]
    arrivals = poisson_arrivals(50.0, 12, np.random.default_rng(0))

    async def send(i, due):
        return await ask(f"{serving.url}/completions", body_of(names[i]))

    async def offered():
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(50):
            return await run_open_loop(send, arrivals, clock, asyncio.sleep)

    def read(names):
        before = serving.counted.steps
        texts = [heard(events)[0] for _, events in asyncio.run(offered())]
        return texts, serving.counted.steps - before

    tokens = sum(len(STORED[name]["answer"]) for name in names)
    expect(read, names).holds(
        lambda found: found[0] == [right(name, serving.tokenizer)[0] for name in names] and found[1] <= 0.6 * tokens,
        f"the stored texts, in at most 60% of {tokens} steps",
    )


@pytest.mark.kata("level10.checkpoint")
def test_a_chat_is_one_request_in_the_models_own_template(expect, serving):
    """Not streamed. The stored question was asked in ChatML with SmolLM2's own system prompt, and so must this be."""
    body = {"messages": [{"role": "user", "content": "What is the capital of France? One word."}]}
    body |= {"temperature": 0, "max_tokens": 12}

    def read(body):
        status, [answer] = asyncio.run(ask(f"{serving.url}/chat/completions", body))
        choice = answer["choices"][0]
        return status, choice["message"]["content"], choice["finish_reason"], answer["usage"]["prompt_tokens"]

    expect(read, body).equals((200, "The capital of France is Paris.", "stop", len(STORED["question"]["ids"])))


@pytest.mark.kata("level10.checkpoint")
def test_a_stop_string_ends_the_answer_and_the_work(expect, serving):
    """' 7, 8, 9, 10' would follow: the text ends before '9', and no step is made for what nobody reads."""

    def read(stop):
        before = serving.counted.steps
        [(_, events)] = asyncio.run(together(serving.url, [body_of("count", stop=stop)]))
        text, reason, usage, _ = heard(events)
        return (
            text,
            reason,
            usage["completion_tokens"],
            serving.counted.steps - before <= usage["completion_tokens"] + 2,
        )

    expect(read, ["Z", "9"]).equals((" 7, 8, ", "stop", 8, True))


@pytest.mark.kata("level10.checkpoint")
def test_a_seed_gives_the_same_text_in_any_company(expect, serving):
    """Sampled. Oracle: the same engine without a server, and the request alone in it."""
    prompt, sampling = "Once upon a time", {"temperature": 0.8, "top_p": 0.95, "seed": 7, "max_tokens": 10}
    engine, ids = Engine(serving.counted.engine.params, serving.counted.engine.config), []
    engine.add(Request("a", serving.tokenizer.encode(prompt), SamplingParams(**sampling)))
    while engine.unfinished:
        ids += [token for _, token, _ in engine.step()]

    def read(prompt):
        body = {"prompt": prompt, "stream": True} | sampling
        others = [body_of("count"), body_of("letters")]
        return heard(asyncio.run(together(serving.url, [*others, body]))[-1][1])[0]

    expect(read, prompt).equals(serving.tokenizer.decode(ids))


# ---- the work


@pytest.mark.kata("level10.checkpoint")
def test_a_client_that_hangs_up_is_decoded_for_no_longer(expect, serving):
    """It asked for 80 tokens, and left after the third event. At most two more steps, and its place is free."""

    async def left(max_tokens):
        body = body_of("the", max_tokens=max_tokens, ignore_eos=True)
        await ask(f"{serving.url}/completions", body, leave_after=3)
        async with asyncio.timeout(30):
            while serving.async_engine.streams or not serving.async_engine.worker.done():
                await asyncio.sleep(0.01)
        return serving.counted.steps

    def steps(max_tokens):
        before = serving.counted.steps
        return asyncio.run(left(max_tokens)) - before

    expect(steps, 80).holds(lambda n: 3 <= n <= 12, "3 events were read: 3 to 12 steps, of 80")


@pytest.mark.kata("level10.checkpoint")
def test_one_too_many_is_told_so_and_the_others_are_served(expect, model):
    """Two places, three requests: a 429 in the API's shape, which the client's library answers by trying again."""
    with Serving(model, max_open=2) as small:

        def asked(name):
            answers = asyncio.run(together(small.url, [body_of(name)] * 3))
            refused = [body[0]["error"]["type"] for status, body in answers if status == 429]
            return sorted(status for status, _ in answers), refused

        expect(asked, "count").equals(([200, 200, 429], ["rate_limit_error"]))


@pytest.mark.kata("level10.checkpoint")
def test_an_event_is_sent_when_its_token_is_known(expect, serving):
    """Ten letters, ten tokens: at most two events more than tokens, and as many pieces of text as steps could show."""

    def sizes(name):
        [(_, events)] = asyncio.run(together(serving.url, [body_of(name)]))
        texts = [json.loads(event)["choices"] for event in events[:-1]]
        return len(events), sum(bool(choices and choices[0]["text"]) for choices in texts)

    n = len(STORED["letters"]["answer"])
    expect(sizes, "letters").holds(lambda found: found[0] <= n + 2 and found[1] >= n - 1, f"{n} tokens: {n} pieces")


# ---- the roofline


def alone(model):
    """The engine by itself: 8 requests of 4 tokens, and the texts nobody sees."""
    config, params, _ = model

    def run():
        engine = Engine(params, config, 64, STREAMS)
        for i in range(STREAMS):
            sampling = SamplingParams(temperature=0.0, max_tokens=TOKENS)
            engine.add(Request(str(i), STORED["the"]["ids"], sampling))
        while engine.unfinished:
            engine.step()

    return run


def streaming(server: Serving):
    """The same requests over HTTP, all at once, client included."""
    bodies = [body_of("the", max_tokens=TOKENS)] * STREAMS
    return lambda: asyncio.run(together(server.url, bodies))


@pytest.mark.kata("level10.checkpoint")
def test_the_wire_costs_little_beside_the_engine(roofline, model, serving):
    """Sockets, events, JSON and threads, for 8 streams at once: CPU time beside that of the engine alone."""
    weights = sum(w.nbytes for w in model[1].values() if w.dim() == 2)
    run = STREAMS * (len(STORED["the"]["ids"]) + TOKENS - 1)  # tokens that go through the model
    roofline(
        streaming(serving),
        alone(model),
        need=NEED,
        flops=run * 2 * weights // 4,
        bytes=TOKENS * weights,
        name=f"{STREAMS} streams over HTTP",
        notes=[f"{STREAMS} requests of {TOKENS} tokens; one read of the weights serves all {STREAMS}"],
    )
