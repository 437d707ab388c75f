"""Open-loop load on any OpenAI-compatible server: Poisson arrivals, latencies from when a request was due. Given.

    python -m dojo load URL [--rate 1 --rate 2 …] [--num-requests 60] [--max-tokens 32] [--json FILE] [--plot FILE]

URL is http://host:port of this project's server (nox -s serve), of vLLM, of llama.cpp … Each request has a prompt that
begins differently, so that no prefix cache helps.
"""

import argparse
import asyncio
import json
from pathlib import Path
from time import perf_counter

import numpy as np

from .client import Record, first_model, stream_record
from .openloop import poisson_arrivals, run_open_loop
from .report import plot, summary, table

PARTS = {"metrics": "level04", "load": "level10"}
WORDS = ["time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state"]


def prompt_of(num_words: int, rng: np.random.Generator) -> str:
    """A text of so many words, that no other request has."""
    return " ".join(str(word) for word in rng.choice(WORDS, num_words))


def body_of(chosen: argparse.Namespace, model: str, rng: np.random.Generator) -> dict:
    """A streamed request whose answer has max_tokens tokens, where the server knows ignore_eos."""
    prompt = prompt_of(chosen.prompt_words, rng)
    text = {"messages": [{"role": "user", "content": prompt}]} if chosen.chat else {"prompt": prompt}
    body = {"model": model, **text, "max_tokens": chosen.max_tokens, "temperature": 0.0, "stream": True}
    return body | {"stream_options": {"include_usage": True}} | ({} if chosen.plain else {"ignore_eos": True})


async def offer(base: str, chosen: argparse.Namespace, model: str, rate: float) -> list[Record]:
    """One load: the records of all its requests."""
    rng = np.random.default_rng(chosen.seed)
    arrivals = poisson_arrivals(rate, chosen.num_requests, rng)
    bodies = [body_of(chosen, model, rng) for _ in arrivals]
    url = f"{base}/chat/completions" if chosen.chat else f"{base}/completions"

    async def send(i: int, due: float) -> Record:
        return await stream_record(url, bodies[i], due, perf_counter, chosen.timeout)

    return await run_open_loop(send, arrivals, perf_counter, asyncio.sleep)


async def measure(base: str, chosen: argparse.Namespace) -> list[dict]:
    """The summaries of all rates, the lowest first."""
    model = chosen.model or await first_model(base)
    found = []
    for rate in sorted(chosen.rate or [1.0]):
        records = await offer(base, chosen, model, rate)
        slos = chosen.ttft_slo, chosen.tpot_slo
        warm_up = chosen.warm_up * chosen.num_requests / rate
        found.append(summary(records, rate, warm_up, slos, chosen.seed))
        done, failed = found[-1]["done"], found[-1]["failed"]
        ends = f"the first and the last {warm_up:.1f} s do not count"
        print(f"  {rate:g} requests/s: {done} done, {failed} failed, of {len(records)} sent: {ends}", flush=True)
    return found


def arguments_of(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("load", description="Open-loop load on any OpenAI-compatible server.")
    parser.add_argument("url", help="http://host:port, with or without /v1")
    parser.add_argument("--rate", type=float, action="append", help="requests per second; may be given again [1]")
    parser.add_argument("--num-requests", type=int, default=60, help="for each rate")
    parser.add_argument("--max-tokens", type=int, default=32, help="of each answer")
    parser.add_argument("--prompt-words", type=int, default=24)
    parser.add_argument("--warm-up", type=float, default=0.1, help="the part at each end of a load that does not count")
    parser.add_argument("--ttft-slo", type=float, default=2.0, help="seconds")
    parser.add_argument("--tpot-slo", type=float, default=0.2, help="seconds")
    parser.add_argument("--chat", action="store_true", help="use /chat/completions")
    parser.add_argument("--plain", action="store_true", help="no ignore_eos: for servers that refuse unknown fields")
    parser.add_argument("--model", help="by default the first that the server lists")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds of one request")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    chosen = parser.parse_args(words)
    if chosen.num_requests < 2 or min(chosen.rate or [1.0]) <= 0 or not 0 <= chosen.warm_up < 0.5:
        parser.error("a load has at least 2 requests, a rate above 0, and 0 <= warm-up < 0.5")
    return chosen


def main(words: list[str], parts: str = "") -> None:
    chosen = arguments_of(words)
    base = chosen.url.rstrip("/").removesuffix("/v1") + "/v1"
    base = base if "://" in base else f"http://{base}"
    print(f"{base} · {parts}")
    try:
        found = asyncio.run(measure(base, chosen))
    except KeyboardInterrupt:
        print("\nstopped")
        return
    print(f"\n{table(found)}")
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if chosen.plot:
        plot(found, chosen.plot)
