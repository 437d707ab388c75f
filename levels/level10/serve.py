"""The model behind an OpenAI-compatible endpoint, on the engine of level 05. Given; `nox -s serve` runs it."""

import argparse
import os
import socket
from dataclasses import replace

import uvicorn

from dojo import models
from level00.tokenizer import SmolTokenizer
from level05.engine import Engine

from .app import make_app
from .bridge import AsyncEngine

PARTS = {"forward": "level00", "sampler": "level03", "engine": "level05", "server": "level10"}
GRACE = 5  # seconds that a client has, at a shutdown, to take the rest of its answer


class Server(uvicorn.Server):
    """uvicorn, which at a shutdown ends open streams with an error event instead of waiting for their last token."""

    def __init__(self, config: uvicorn.Config, engine: AsyncEngine, ready: str):
        super().__init__(config)
        self.engine, self.ready = engine, ready

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        print(self.ready, flush=True)

    async def shutdown(self, sockets=None) -> None:
        await self.engine.close()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """A socket that nobody else has. ValueError: the port is taken, the host is not this machine."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(
            f"port {port} of {host} can't be had ({os.strerror(error.errno)}): take another, or --port 0 for any"
        ) from error


def launch(engine: AsyncEngine, tokenizer, max_seq_len: int, host: str, port: int, parts: str = "") -> None:
    """Serve until Ctrl-C. Whatever has add(request), step() and abort(id) can be the engine behind it."""
    with listen(host, port) as taken:
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{taken.getsockname()[1]}/v1"
        app = make_app(engine, tokenizer, models.NAME, max_seq_len)
        config = uvicorn.Config(app, ws="none", log_level="warning", timeout_graceful_shutdown=GRACE)
        try:
            Server(config, engine, f"{models.NAME} at {url}\n  {parts}\n  Ctrl-C ends it").run(sockets=[taken])
        except KeyboardInterrupt:
            print("\nended", flush=True)


def arguments(description: str, max_seqs: int, max_open: int) -> argparse.ArgumentParser:
    """What any engine's server can be told; another one may add to it."""
    parser = argparse.ArgumentParser("serve", description=description)
    parser.add_argument("--host", default="127.0.0.1", help="by default this machine only: there is no password")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any that is free")
    parser.add_argument("--max-seqs", type=int, default=max_seqs, help="requests that run in one step")
    parser.add_argument("--max-open", type=int, default=max_open, help="requests that run or wait; more get a 429")
    parser.add_argument("--room", type=int, default=2048, help="tokens of a prompt and its answer")
    parser.add_argument("--token-budget", type=int, default=256, help="tokens that run in one step")
    return parser


def arguments_of(words: list[str]) -> argparse.Namespace:
    return arguments(__doc__, max_seqs=8, max_open=32).parse_args(words)


def main(words: list[str], parts: str = "") -> None:
    chosen = arguments_of(words)
    config, params, data = models.load()
    config = replace(config, max_seq_len=min(chosen.room, config.max_seq_len))
    engine = AsyncEngine(Engine(params, config, chosen.token_budget, chosen.max_seqs), chosen.max_open)
    launch(engine, SmolTokenizer.from_model(data), config.max_seq_len, chosen.host, chosen.port, parts)
