"""The load generator of level 10 against replies as other servers send them, and the whole verb against this project's.

Numbers are counts: how many seconds a reply took is nobody's business here.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from time import perf_counter

import pytest

from dojo import catalog
from tests.controls import solutions_of
from tests.serving import LEVELS, PATIENCE, Gated, Hosted, is_free


@pytest.fixture(scope="module", autouse=True)
def mounted():
    with solutions_of(*LEVELS):
        yield


# ---- the client, and replies that are written down


def event(data, newline=b"\n"):
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + 2 * newline


def chunk(text=None, tokens=None, chat=False, reason=None, **more):
    """One chunk of a stream; `tokens` is a usage, as vLLM's continuous_usage_stats gives it."""
    choice = {"index": 0, "finish_reason": reason, **({"delta": {"content": text}} if chat else {"text": text})}
    spent = {} if tokens is None else {"usage": {"prompt_tokens": 3, "completion_tokens": tokens}}
    return {"id": "x", "object": "text_completion", "choices": [choice], **spent, **more}


def usage(tokens):
    return {"id": "x", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens}}


DONE = event(b"[DONE]")
ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
OPEN_END = HEAD + b"Connection: close\r\n\r\n"  # the end of the connection is the end of the body


def chunked(*parts):
    framed = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *framed, b"0\r\n\r\n"]


def whole(status, body, length=None):
    size = len(body) if length is None else length
    return [b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, size) + body]


def cut(script, *places):
    """The same bytes, sent in parts that end at these places."""
    data = b"".join(script)
    return [data[a:b] for a, b in zip((0, *places), (*places, len(data)))]


@contextlib.asynccontextmanager
async def scripted(script, hang=False):
    """A server whose reply to each request is `script`, in these parts; its URL, and what it was asked."""
    heard, ends, tasks = [], asyncio.Event(), set()

    async def answer(reader, writer):
        tasks.add(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split()[0])
        heard.append((head, await reader.readexactly(size)))
        with contextlib.suppress(ConnectionError):
            for part in script:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if hang:
                await ends.wait()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield url, heard
    finally:
        ends.set()
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert is_free(url)


def record_of(script, hang=False, timeout=PATIENCE):
    from level10.client import stream_record

    async def play():
        async with scripted(script, hang) as (url, _):
            return await stream_record(f"{url}/completions", {"prompt": "x"}, perf_counter(), perf_counter, timeout)

    return asyncio.run(play())


# name: (reply, tokens in each chunk with text, tokens the server counted)
REPLIES = {
    "vLLM, usage in every chunk": (
        chunked(
            event(chunk("a", 1)), event(chunk("bcd", 4)), event(chunk("", 4, reason="length")), event(usage(4)), DONE
        ),
        [1, 3],
        4,
    ),
    "vLLM, usage at the end": (
        chunked(event(chunk("a")), event(chunk("bcdefg")), event(usage(4)), DONE),
        [1, 3],
        4,
    ),
    "llama.cpp: CRLF, timings, no created": (
        [
            OPEN_END,
            event(chunk("a"), b"\r\n"),
            event(chunk("b"), b"\r\n"),
            event(chunk("", 2, reason="stop", timings={"predicted_n": 2}), b"\r\n"),
            event(b"[DONE]", b"\r\n"),
        ],
        [1, 1],
        2,
    ),
    "a chat: role first, null at the end, a comment": (
        [
            OPEN_END,
            ROLE,
            b": ping\n\n",
            event(chunk("hi", chat=True)),
            event(chunk(None, chat=True, reason="stop")),
            DONE,
        ],
        [1],
        None,
    ),
    "a chat that reasons": (
        [
            OPEN_END,
            ROLE,
            event({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
            event(chunk("x", chat=True)),
            DONE,
        ],
        [1, 1],
        None,
    ),
    "nulls": (
        [OPEN_END, event({"choices": None, "usage": None}), event(chunk("x")), event(chunk("")), DONE],
        [1],
        None,
    ),
    "no [DONE]": ([OPEN_END, event(chunk("x")), event(chunk("y", reason="stop"))], [1, 1], None),
    "a known length": (whole(b"200 OK", event(chunk("a")) + event(chunk("b")) + DONE), [1, 1], None),
    "two events in one part": ([OPEN_END, event(chunk("a")) + event(chunk("b")), DONE], [1, 1], None),
}


@pytest.mark.parametrize("name", REPLIES)
def test_what_other_servers_send(name):
    script, tokens, counted = REPLIES[name]
    for way in (script, cut(script, 60), cut(script, 90, 130, 131, 180)):
        found = record_of(way)
        assert (found.error, found.chunk_tokens(), found.num_tokens) == ("", tokens, counted)
        due, times = found.request
        assert len(times) == sum(tokens) and times == sorted(times) and due <= found.sent <= times[0]


def test_the_first_token_is_not_the_role():
    """A chat's first chunk has no text: its time is not that of the first token (vLLM issue 15106)."""
    found = record_of(REPLIES["a chat: role first, null at the end, a comment"][0])
    assert len(found.chunk_times) == len(found.chunk_sizes) == 1 and found.chunk_sizes == [2]


# name: (reply, what the error begins with, chunks with text before it)
ERRORS = {
    "an event in mid-stream": (
        [OPEN_END, event(chunk("a")), event({"error": {"message": "out of memory", "code": 500}}), DONE],
        "out of memory",
        1,
    ),
    "an error that is a text": ([OPEN_END, event(chunk("a")), event({"error": "lost"})], "lost", 1),
    "429": (
        whole(b"429 Too Many Requests", b'{"error": {"message": "full"}}'),
        '429: {"error": {"message": "full"}}',
        0,
    ),
    "500 without a body": ([b"HTTP/1.1 500 Oh\r\n\r\n"], "500: ", 0),
    "cut in a chunk": ([*chunked(event(chunk("a")))[:2], b"40\r\ndata: {"], "IncompleteReadError", 1),
    "cut before its length": (whole(b"200 OK", event(chunk("a")), 500), "IncompleteReadError", 0),
    "cut in its head": ([b"HTTP/1.1 200 OK\r\nContent-"], "IncompleteReadError", 0),
    "not HTTP": ([b"hello\r\n\r\n"], "", 0),
    "not JSON": ([OPEN_END, event(b"{broken")], "JSONDecodeError", 0),
    "a number": ([OPEN_END, event(b"5")], "TypeError", 0),
    "a choice that is none": ([OPEN_END, event({"choices": [5]})], "AttributeError", 0),
    "no text at all": ([OPEN_END, DONE], "an answer without text", 0),
    "nothing": ([OPEN_END], "an answer without text", 0),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_goes_wrong_is_in_the_record(name):
    script, says, chunks = ERRORS[name]
    found = record_of(script)
    assert found.error and found.error.startswith(says) and len(found.chunk_times) == chunks


def test_a_server_that_falls_silent_and_one_that_is_not_there():
    found = record_of([OPEN_END, event(chunk("a"))], hang=True, timeout=0.3)
    assert (found.error, len(found.chunk_times)) == ("no end after 0.3 s", 1)

    from level10.client import stream_record

    async def gone():
        async with scripted([]) as (url, _):
            pass
        return await stream_record(f"{url}/completions", {}, 0.0, perf_counter, PATIENCE)

    found = asyncio.run(gone())
    assert found.error and not found.chunk_times


def test_the_model_is_asked_for():
    from level10.client import first_model

    async def ask(script):
        async with scripted(script) as (url, heard):
            try:
                return await first_model(url)
            except ValueError as error:
                assert url in str(error) and "nox -s serve" in str(error)
                return "ValueError"

    listed = b'{"object": "list", "data": [{"id": "one"}, {"id": "two"}]}'
    assert asyncio.run(ask(whole(b"200 OK", listed))) == "one"
    for bad in (whole(b"404 No", listed), whole(b"200 OK", b"<html>"), whole(b"200 OK", b'{"data": []}'), [b""]):
        assert asyncio.run(ask(bad)) == "ValueError"


# ---- the verb


@pytest.fixture
def engine():
    return Gated(slots=4, free=True)


@pytest.fixture
def hosted(engine):
    with Hosted(engine, max_open=8) as hosted:
        yield hosted


def test_the_whole_verb(hosted, engine, tmp_path):
    """In a process of its own: a table, JSON and a plot that say the same, and as many requests as were asked for."""
    data, picture = tmp_path / "deep" / "load.json", tmp_path / "plots" / "load.png"
    words = [hosted.url.removesuffix("/v1"), "--rate", "200", "--rate", "40", "--num-requests", "6"]
    words += ["--max-tokens", "3", "--warm-up", "0", "--json", str(data), "--plot", str(picture)]
    command = [sys.executable, "-m", "dojo", "load", "--impl", "solutions", *words]
    done = subprocess.run(command, cwd=catalog.ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert len(engine.added) == 12 and not engine.live
    assert {(asked.max_tokens, asked.temperature) for asked in engine.asked} == {(3, 0.0)}
    assert len(set(engine.prompts[:6])) == 6  # no prefix cache helps
    low, high = json.loads(data.read_text())
    assert (low["rate"], high["rate"]) == (40, 200)
    for found in (low, high):
        assert (found["done"], found["failed"], found["errors"]) == (5, 0, [])  # the last is due when the load ends
        assert [found[name]["n"] for name in ("ttft", "tpot", "itl", "e2e")] == [5, 5, 10, 5]
        for name in ("ttft", "tpot", "itl", "e2e"):
            for q in ("p50", "p90", "p99"):
                at, below, above = found[name][q]
                assert below <= at <= above
            assert found[name]["p50"][0] <= found[name]["p99"][0]
        assert found["ttft"]["mean"] <= found["e2e"]["mean"] and found["late"] >= 0
        assert found["goodput"] <= found["done"] / found["seconds"] * (1 + 1e-9)
    text = done.stdout
    rows = [
        line.split() for line in text.splitlines() if line.split()[:1] in (["40"], ["200"]) and "requests/s" not in line
    ]
    assert [row[:3] for row in rows] == [["40", "5", "0"], ["200", "5", "0"]]
    assert "40 requests/s: 5 done, 0 failed" in text and "a p99 takes 1000 requests, and here are 5" in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_chat_in_plain_words(hosted, engine, capsys):
    """With --plain no field is sent that a strict server would refuse; with --chat it is the other endpoint."""
    from level10 import load

    load.main([hosted.url, "--chat", "--plain", "--rate", "100", "--num-requests", "3", "--max-tokens", "2"])
    assert "3 done" not in capsys.readouterr().out and len(engine.added) == 3
    chosen = load.arguments_of(["x", "--chat", "--plain", "--max-tokens", "2", "--prompt-words", "5"])

    class First:
        def choice(self, words, n):
            return list(words)[:n]

    body = load.body_of(chosen, "m", First())
    assert set(body) == {"model", "messages", "max_tokens", "temperature", "stream", "stream_options"}
    assert body["messages"] == [{"role": "user", "content": " ".join(load.WORDS[:5])}]
    body = load.body_of(load.arguments_of(["x"]), "m", First())
    assert set(body) >= {"prompt", "ignore_eos"} and "messages" not in body


def test_requests_that_fail_are_counted_and_said(engine, capsys, tmp_path):
    """One place, and an engine that does not step before the last request has come: who has no place gets a 429."""
    from level10 import load

    engine.free = False
    with Hosted(engine, max_open=1) as hosted:
        refused = []

        async def measure(base, chosen, kept=load.measure):
            work = asyncio.create_task(kept(base, chosen))
            while len(refused) < 3:  # the server counts them
                await asyncio.sleep(0.01)
            with engine.changed:
                engine.free = True
                engine.changed.notify_all()
            return await work

        opened = hosted.bridge.open

        def counting(request):
            try:
                return opened(request)
            except Exception as error:
                refused.append(type(error).__name__)
                raise

        hosted.bridge.open = counting
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(load, "measure", measure)
            words = ["--rate", "50", "--num-requests", "4", "--warm-up", "0", "--max-tokens", "2"]
            load.main([hosted.url, *words, "--json", str(tmp_path / "x.json"), "--plot", str(tmp_path / "x.png")])
    [found] = json.loads((tmp_path / "x.json").read_text())
    assert refused == ["Full"] * 3 and found["done"] + found["failed"] == 3 and found["done"] == 1
    assert len(found["errors"]) == 1 and found["errors"][0].startswith("429: ")
    assert "failed: 429: " in capsys.readouterr().out and (tmp_path / "x.png").is_file()


def test_a_load_in_which_all_requests_fail(tmp_path):
    """Nothing is divided by nothing: the table has dashes, and the plot is drawn."""
    from level10.client import Record
    from level10.report import plot, summary, table

    found = summary([Record(float(i), float(i), error="429: full") for i in range(4)], 1.0, 0.0, (1.0, 1.0))
    assert (found["done"], found["failed"], found["goodput"], found["ttft"]) == (0, 3, 0, {"n": 0})
    text = table([found])
    plot([found], tmp_path / "none.png")
    assert text.count(" -") >= 5 and "failed: 429: full" in text and (tmp_path / "none.png").is_file()


@pytest.mark.parametrize(
    "words, says",
    [
        ("--num-requests 1", "at least 2 requests"),
        ("--rate 0", "a rate above 0"),
        ("--warm-up 0.5", "warm-up < 0.5"),
        ("--rate x", "invalid float"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(capsys, words, says):
    from level10.load import arguments_of

    with pytest.raises(SystemExit) as ended:
        arguments_of(["http://127.0.0.1:9", *words.split()])
    assert ended.value.code == 2 and says in capsys.readouterr().err


def test_nobody_at_the_address():
    from level10 import load

    async def closed():
        async with scripted([]) as (url, _):
            return url

    with pytest.raises(ValueError, match="no model server at .*nox -s serve"):
        load.main([asyncio.run(closed())])
