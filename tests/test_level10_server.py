"""The server of level 10 over real sockets: the official client on the real model, and an engine that counts its steps.

No seconds are judged. PATIENCE only bounds what would wait for ever.
"""

import contextlib
import json
import socket
import sys

import pytest

from tests.controls import solutions_of
from tests.serving import LEVELS, Gated, Hosted, Process, Raw, is_free, post, sent

FRANCE = "The capital of France is"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module", autouse=True)
def mounted():
    with contextlib.suppress(ImportError):
        import openai  # noqa: F401  before the levels are mounted: some of its packages make attributes up
    with solutions_of(*LEVELS):
        yield


# ---- the real model, in a process of its own


@pytest.fixture(scope="module")
def process():
    """Leaving it is Ctrl-C: exit code 0, and the port is free again."""
    with Process("--max-seqs", "4", "--room", "512") as process:
        yield process


@pytest.fixture
def openai():
    return pytest.importorskip("openai", reason="the official client is not installed: pip install openai")


@pytest.fixture
def client(openai, process):
    with openai.OpenAI(base_url=process.url, api_key="none", max_retries=0, timeout=50) as client:
        yield client


@pytest.fixture
def model(client):
    return client.models.list().data[0].id


def test_models(client, model):
    assert model == "SmolLM2-135M-Instruct" and client.models.retrieve(model).id == model
    assert [found.object for found in client.models.list()] == ["model"]


def test_a_completion_is_the_same_streamed_or_not(client, model):
    asked = {"model": model, "prompt": FRANCE, "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**asked)
    [choice] = whole.choices
    assert choice.text.startswith(" Paris") and choice.finish_reason == "length" and whole.object == "text_completion"
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (5, 8, 13)
    *chunks, last = client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text and len(chunks) <= 8 + 1
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert last.choices == [] and last.usage == whole.usage and {chunk.usage for chunk in chunks} == {None}
    assert len({chunk.id for chunk in [*chunks, last]}) == 1
    assert all(chunk.usage is None for chunk in client.completions.create(**asked, stream=True))


def test_a_chat_is_the_same_streamed_or_not(client, model):
    asked = {"model": model, "messages": QUESTION, "max_completion_tokens": 24, "temperature": 0}
    whole = client.chat.completions.create(**asked)
    [choice] = whole.choices
    assert choice.message.role == "assistant" and "Paris" in choice.message.content
    first, *chunks = client.chat.completions.create(**asked, stream=True)
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == choice.message.content
    assert chunks[-1].choices[0].finish_reason == choice.finish_reason


def test_stop_and_seed(client, model):
    asked = {"model": model, "prompt": FRANCE, "max_tokens": 8, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stopped = client.completions.create(**asked, stop=[text[4:6], "@@"])
    assert (stopped.choices[0].text, stopped.choices[0].finish_reason) == (text[:4], "stop")
    assert stopped.usage.completion_tokens < 8
    asked |= {"temperature": 1, "prompt": "Once", "max_tokens": 5}
    drawn = [client.completions.create(**asked, seed=seed).choices[0].text for seed in (5, 5, 6)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "change, error, status, param",
    [
        ({"max_tokens": 0}, "BadRequestError", 400, "max_tokens"),
        ({"temperature": 3}, "BadRequestError", 400, "temperature"),
        ({"n": 2}, "BadRequestError", 400, "n"),
        ({"prompt": "x " * 600}, "BadRequestError", 400, "prompt"),
        ({"prompt": [49152]}, "BadRequestError", 400, "prompt"),
        ({"model": "another"}, "NotFoundError", 404, "model"),
    ],
    ids=str,
)
def test_the_client_knows_the_errors(openai, client, model, change, error, status, param):
    with pytest.raises(getattr(openai, error)) as caught:
        client.completions.create(**{"model": model, "prompt": "x", "max_tokens": 2} | change)
    assert (caught.value.status_code, caught.value.param, caught.value.type) == (status, param, "invalid_request_error")
    assert param in str(caught.value)


def test_by_default_only_this_machine_is_served(process):
    from level10.serve import arguments_of

    assert arguments_of([]).host == "127.0.0.1" and process.url.startswith("http://127.0.0.1:")
    if sys.platform == "linux":  # where all of 127 is this machine, and a server on all addresses answers there
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.2", int(process.url.split(":")[2].removesuffix("/v1")))) != 0


def test_ctrl_c_in_mid_stream():
    """The stream ends with an error event, not in silence; the process with exit code 0, and its port is free."""
    asked = {"prompt": "Count", "max_tokens": 1500, "stream": True, "ignore_eos": True, "temperature": 0}
    with Process() as process, sent(process.url, post("/v1/completions", asked)) as raw:
        events = [raw.event()]
        process.interrupt()
        while events[-1] not in ("[DONE]", ""):
            events.append(raw.event())
        assert process.ended() == (0, "\nended\n")
    assert events[-1] == "[DONE]" and json.loads(events[-2])["error"]["code"] == "shutting_down"
    assert "choices" in json.loads(events[0]) and len(events) < 1500


# ---- an engine that waits for the test, in this process


@pytest.fixture
def engine():
    return Gated(slots=1)


@pytest.fixture
def hosted(engine):
    with Hosted(engine, max_open=2) as hosted:
        yield hosted


def asked(**more):
    return {"prompt": "abc", "max_tokens": 6, "stream": True, "temperature": 0, **more}


MALFORMED = {
    "bad JSON": (post("/v1/completions", b"{"), 400, None),
    "no JSON": (post("/v1/completions", b"prompt=x&max_tokens=3"), 400, None),
    "nothing": (post("/v1/completions", b""), 400, None),
    "a list": (post("/v1/completions", b"[]"), 400, None),
    "no UTF-8": (post("/v1/completions", b"\xff\xfe"), 400, None),
    "half a surrogate pair": (post("/v1/completions", b'{"prompt": "\\ud800"}'), 400, None),
    "too deep": (post("/v1/completions", b"[" * 100_000), 400, None),
    "no prompt": (post("/v1/completions", {}), 400, None),
    "no messages": (post("/v1/chat/completions", {"prompt": "x"}), 400, None),
    "too long": (post("/v1/completions", {"prompt": "x" * 3000}), 400, None),
    "too large": (post("/v1/completions", b" " * ((1 << 20) + 1)), 413, None),
    "unknown path": (post("/v1/embeddings", {}), 404, None),
    "unknown model": (post("/v1/completions", {"prompt": "x", "model": "y"}), 404, None),
    "GET of a POST": (post("/v1/completions", b"", "GET"), 405, "POST"),
    "POST of a GET": (post("/v1/models", {}), 405, "GET"),
    "DELETE": (post("/health", b"", "DELETE"), 405, "GET"),
}


def test_malformed_requests_are_refused_and_nothing_else_happens(hosted, engine):
    found = {}
    for name, (data, _, _) in MALFORMED.items():
        with sent(hosted.url, data) as raw:
            status, headers = raw.status(), raw.headers()
            error = json.loads(raw.rest())["error"]
        found[name] = status, headers.get("allow")
        assert set(error) == {"message", "type", "param", "code"} and error["message"], name
        assert (error["type"], headers["content-type"]) == ("invalid_request_error", "application/json"), name
    assert found == {name: (status, allow) for name, (_, status, allow) in MALFORMED.items()}
    for data in (b"nonsense\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\nContent-Length: many\r\n\r\n"):
        with sent(hosted.url, data) as raw:
            assert raw.status() == 400
    with sent(hosted.url, post("/v1/completions", b'{"prompt": ')[:-20]) as raw:
        raw.hang_up()  # in the middle of its own body
    with sent(hosted.url, post("/health", b"", "GET")) as raw:
        assert (raw.status(), json.loads(raw.rest().split(b"\r\n\r\n")[1])) == (200, {"status": "ok"})
    assert (engine.added, engine.begun) == ([], 0)


def until_open(hosted, n: int) -> None:
    """Requests sent one after the other may be read in any order, so ask until the server has so many."""
    while len(hosted.bridge.streams) < n:
        with sent(hosted.url, post("/health", b"", "GET")) as raw:
            assert raw.status() == 200


@pytest.mark.parametrize("stream", [True, False])
def test_when_a_client_vanishes_the_engine_stops(hosted, engine, stream):
    """Within two steps: the one that runs, and none in truth; a text of 500 tokens is not made for nobody."""
    with sent(hosted.url, post("/v1/completions", asked(stream=stream, max_tokens=500))) as raw:
        engine.until(lambda: engine.begun == 1)
        engine.let(5)
        if stream:
            assert json.loads([raw.event() for _ in range(5)][-1])["choices"][0]["text"] == "x"
        engine.until(lambda: engine.begun == 6)
        raw.hang_up()
        for _ in range(2000):  # until the server has noticed
            if not hosted.bridge.streams:
                break
            engine.changed.acquire()
            engine.changed.wait(0.01)
            engine.changed.release()
    engine.let()
    engine.until(lambda: engine.aborted == engine.added)
    with sent(hosted.url, post("/health", b"", "GET")) as raw:
        assert raw.status() == 200
    assert (engine.steps, engine.begun, engine.live, hosted.bridge.streams) == (6, 6, {}, {})


def test_more_requests_than_places(hosted, engine):
    """One runs, one waits, the third is told to try again later; and when one has ended, its place is free."""
    first = Raw(hosted.url, post("/v1/completions", asked(max_tokens=2)))
    engine.until(lambda: engine.begun == 1)
    second = Raw(hosted.url, post("/v1/completions", asked(max_tokens=2)))
    until_open(hosted, 2)
    with sent(hosted.url, post("/v1/completions", asked(stream=False))) as third:
        status, headers = third.status(), third.headers()
        error = json.loads(third.rest())["error"]
        assert (status, headers["retry-after"], error["type"]) == (429, "1", "rate_limit_error")
    engine.let(2)
    assert [first.event() for _ in range(3)][-1] == "[DONE]"
    with sent(hosted.url, post("/v1/completions", asked(stream=False, max_tokens=1))) as fourth:
        engine.let(3)
        assert [second.event() for _ in range(3)][-1] == "[DONE]"
        assert fourth.status() == 200
    for raw in (first, second):
        raw.close()
    assert (engine.steps, len(engine.added)) == (5, 3)


def test_a_shutdown_ends_streams_with_an_event_and_answers_with_503(engine):
    with Hosted(engine) as hosted, sent(hosted.url, post("/v1/completions", asked())) as stream:
        engine.until(lambda: engine.begun == 1)
        with sent(hosted.url, post("/v1/completions", asked(stream=False))) as whole:
            until_open(hosted, 2)
            engine.let(2)
            assert json.loads(stream.event())["choices"][0]["text"] == "x"
            hosted.stop()
            events = [stream.event() for _ in range(3)]
            assert json.loads(events[1])["error"]["code"] == "shutting_down" and events[2] == "[DONE]"
            assert whole.status() == 503
            engine.let()
            hosted.thread.join(50)
            assert not hosted.thread.is_alive() and (engine.live, engine.steps) == ({}, 3)
    assert is_free(hosted.url)


def test_a_port_that_is_taken_is_one_sentence():
    from level10.serve import listen

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ValueError, match="can't be had"):
        listen("127.0.0.1", taken.getsockname()[1])
