"""A client that keeps the time of one answer, streamed from any OpenAI-compatible server. Given.

It takes the connection apart itself, so that nothing stands between the socket and the clock. It does without what
servers do not agree on: events without choices or without text are passed over, usage is read where it comes, and an
error in the middle of a stream ends it.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from level04.metrics import Request

from .sse import SSEParser
from .stats import token_times

ODD = (ValueError, TypeError, LookupError, AttributeError)  # what reading something else than the API's JSON raises


@dataclass
class Record:
    """What became of one request; times in seconds on the client's clock."""

    due: float  # when it should have started: what its latency is measured from
    sent: float = 0.0
    chunk_times: list[float] = field(default_factory=list)
    chunk_sizes: list[int] = field(default_factory=list)  # characters
    totals: list[int | None] = field(default_factory=list)  # tokens so far, where a chunk says so
    num_tokens: int | None = None  # what the server counted
    error: str = ""

    @property
    def request(self) -> Request:
        """(arrival, token times), for the metrics of level 04."""
        return self.due, token_times(self.chunk_times, self.chunk_tokens())

    def chunk_tokens(self) -> list[int]:
        """Tokens in each chunk: as the server says; else one each, and what is left over to the longest ones."""
        if self.totals and None not in self.totals:
            return [after - before for before, after in zip([0, *self.totals], self.totals)]
        counts = [1] * len(self.chunk_sizes)
        for _ in range(max(0, (self.num_tokens or 0) - len(counts)) if counts else 0):
            longest = max(range(len(counts)), key=lambda i: self.chunk_sizes[i] / counts[i])
            counts[longest] += 1
        return counts


@contextlib.asynccontextmanager
async def reply(url: str, body: dict | None = None) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Send a request (a POST if it has a body) on a connection of its own; (status, parts of the body as they come)."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or (443 if tls else 80), ssl=tls or None)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        verb, json_type = ("GET", "") if body is None else ("POST", "Content-Type: application/json\r\n")
        head = f"{verb} {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n{json_type}"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        yield int(status.split()[1]), body_parts(reader, headers)
    finally:
        writer.close()


async def body_parts(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The body as it comes: in chunks, of a known length, or up to the end of the connection."""
    if "chunked" in headers.get("transfer-encoding", ""):
        while size := int((await reader.readline()).split(b";")[0], 16):
            yield await reader.readexactly(size)
            await reader.readline()
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        while data := await reader.read(1 << 16):
            yield data


async def first_model(base: str) -> str:
    """The id of the first model that a server lists. ValueError: nothing useful answers there."""
    try:
        async with asyncio.timeout(10), reply(f"{base}/models") as (status, parts):
            data = b"".join([part async for part in parts])
        if status != 200:
            raise ValueError(f"it answers with {status}")
        return str(json.loads(data)["data"][0]["id"])
    except (OSError, EOFError, TimeoutError, *ODD) as error:
        said = str(error) or "no answer"
        raise ValueError(f"no model server at {base} ({said}): start one, nox -s serve, or name its --model") from error


def note(record: Record, event: dict, now: float) -> None:
    """Write down what one event of a stream says."""
    if "error" in event:
        said = event["error"]
        record.error = str(said.get("message", said) if isinstance(said, dict) else said)
    total = (event.get("usage") or {}).get("completion_tokens")
    record.num_tokens = total if total is not None else record.num_tokens
    choice = (event.get("choices") or [{}])[0]
    said = choice.get("delta") or choice
    text = said.get("text") or said.get("content") or said.get("reasoning_content") or said.get("reasoning")
    if text:
        record.chunk_times.append(now)
        record.chunk_sizes.append(len(text))
        record.totals.append(total)


async def stream_record(url: str, body: dict, due: float, clock: Callable[[], float], timeout: float) -> Record:
    """Stream one answer and return its Record; whatever goes wrong stands in its `error`."""
    record, parser = Record(due, clock()), SSEParser()
    try:
        async with asyncio.timeout(timeout), reply(url, body) as (status, parts):
            if status != 200:
                data = b"".join([part async for part in parts])
                record.error = f"{status}: {data[:300].decode('utf-8', 'replace')}"
                return record
            async for part in parts:
                now = clock()
                for data in parser.feed(part):
                    if data != "[DONE]":
                        note(record, json.loads(data), now)
    except TimeoutError:
        record.error = record.error or f"no end after {timeout:g} s"
    except (OSError, EOFError, *ODD) as error:
        record.error = record.error or f"{type(error).__name__}: {error}"
    if not record.chunk_times and not record.error:
        record.error = "an answer without text"
    return record
