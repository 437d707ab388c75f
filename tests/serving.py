"""Servers for the tests of level 10: a process with the real model, a thread with an engine that waits for the test.

Both listen on loopback, on a port that the system chose, and are closed with certainty: what stays behind is an error.
"""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from urllib.parse import urlsplit

from dojo import catalog

PATIENCE = 50  # seconds for what takes a moment; on a machine that is busy with other things, too
LEVELS = ("level00", "level01", "level02", "level03", "level04", "level05", "level10")


def is_free(url: str) -> bool:
    """May the port be bound again, and does nobody answer there?"""
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(PATIENCE)
        if probe.connect_ex((parts.hostname, parts.port)) == 0:
            return False
    socket.create_server((parts.hostname, parts.port)).close()
    return True


class Process:
    """`python -m dojo serve --impl solutions --port 0 …`; `url` ends with /v1. Leaving the block is Ctrl-C."""

    def __init__(self, *words: str):
        command = [sys.executable, "-m", "dojo", "serve", "--impl", "solutions", "--port", "0", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, cwd=catalog.ROOT, text=True, **pipes)
        self.lines = []
        while not (self.lines and self.lines[-1].strip() == "Ctrl-C ends it"):
            line = self.process.stdout.readline()
            assert line, f"the server did not start: {self.lines}, exit code {self.process.wait(PATIENCE)}"
            self.lines.append(line)
        self.url = next(word for line in self.lines for word in line.split() if word.startswith("http"))

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        """(exit code, what it printed after its first lines)."""
        text, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, text

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if self.process.poll() is None:
                self.interrupt()
                code, text = self.ended()
                assert kind or (code, text.strip()) == (0, "ended"), (code, text)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        assert kind or is_free(self.url), f"something still listens at {self.url}"


class Gated:
    """An engine that makes one token for each of its requests when `let` allows a step; `slots` of them run at once.

    With `free` steps need no permission.
    """

    def __init__(self, slots: int = 99, free: bool = False):
        self.slots, self.free, self.permits, self.changed = slots, free, 0, threading.Condition()
        self.live, self.added, self.aborted, self.begun, self.steps = {}, [], [], 0, 0
        self.asked, self.prompts = [], []

    def add(self, request) -> None:
        with self.changed:
            self.live[request.id] = [0, request.sampling.max_tokens]
            self.added.append(request.id)
            self.asked.append(request.sampling)
            self.prompts.append(tuple(request.prompt))
            self.changed.notify_all()

    def abort(self, id: str) -> None:
        with self.changed:
            self.live.pop(id, None)
            self.aborted.append(id)
            self.changed.notify_all()

    def step(self) -> list:
        with self.changed:
            self.begun += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.free or self.permits, PATIENCE), "nobody lets it step"
            self.permits -= not self.free
            self.steps += 1
            events = []
            for id, row in list(self.live.items())[: self.slots]:
                row[0] += 1
                events.append((id, ord("x"), row[0] == row[1]))
                if row[0] == row[1]:
                    del self.live[id]
            self.changed.notify_all()
            return events

    def let(self, n: int = 1) -> None:
        """Allow n steps, and wait until they have ended."""
        with self.changed:
            self.permits += n
            self.changed.notify_all()
        self.until(lambda: not self.permits)

    def until(self, done) -> None:
        with self.changed:
            assert self.changed.wait_for(done, PATIENCE), vars(self)


class Letters:
    """A tokenizer whose tokens are bytes."""

    vocab_size, eos_id, special = 256, 0, {"<|endoftext|>": 1}

    def encode(self, text):
        return list(text.encode())

    def encode_chat(self, messages):
        return list("".join(message["content"] for message in messages).encode())

    def token_bytes(self, id):
        return bytes([id])


class Hosted:
    """The application over `engine` in a thread of this process; the level's solutions are mounted."""

    def __init__(self, engine, max_open: int = 8, room: int = 2000):
        import uvicorn

        from level10.app import make_app
        from level10.bridge import AsyncEngine
        from level10.serve import Server, listen

        self.bridge, self.up = AsyncEngine(engine, max_open), threading.Event()
        up = self.up
        self.socket = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        app = make_app(self.bridge, Letters(), "letters", room)
        config = uvicorn.Config(app, ws="none", log_level="critical", timeout_graceful_shutdown=5)

        class Announced(Server):
            async def startup(self, sockets=None):
                await super().startup(sockets)
                up.set()

        self.server = Announced(config, self.bridge, "")
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def stop(self) -> None:
        """Ask it to shut down, and return at once."""
        self.server.should_exit = True

    def __enter__(self):
        self.thread.start()
        assert self.up.wait(PATIENCE)
        return self

    def __exit__(self, kind, *_):
        self.stop()
        engine = self.bridge.engine
        with engine.changed:
            engine.free = True
            engine.changed.notify_all()
        self.thread.join(PATIENCE)
        self.socket.close()
        assert kind or (not self.thread.is_alive() and is_free(self.url)), f"{self.url} is not closed"


class Raw:
    """One connection: what is sent as it stands, and lines of what comes back."""

    def __init__(self, url: str, data: bytes):
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), PATIENCE)
        self.socket.sendall(data)
        self.file = self.socket.makefile("rb")

    def status(self) -> int:
        return int(self.file.readline().split()[1])

    def headers(self) -> dict[str, str]:
        found = {}
        while (line := self.file.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            found[name.lower()] = value.strip()
        return found

    def event(self) -> str:
        """The data of the next event."""
        while line := self.file.readline():
            if line.startswith(b"data: "):
                return line[6:].decode().strip()
        return ""

    def rest(self) -> bytes:
        return self.file.read()

    def hang_up(self) -> None:
        """Gone at once, as when a laptop is closed on a program: what has not been read is thrown away."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextlib.contextmanager
def sent(url: str, data: bytes):
    raw = Raw(url, data)
    try:
        yield raw
    finally:
        raw.close()


def post(path: str, body: dict | bytes, method: str = "POST") -> bytes:
    """A request as bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data
