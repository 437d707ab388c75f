"""Lab: one load, served from pools of several sizes: where does a pool begin to be too small, and what does it cost?

    python -m dojo lab level12 pool [--blocks 160,96,…] [--requests 24] [--small] [--out DIR]

Nothing here is graded. Requests whose prompts share a beginning come a few steps apart and ask for some tokens, on
SmolLM2 (a random model with 4 of its layers with --small), on one thread; the same ones for every pool, with the prefix
cache and without. Times are CPU seconds. Look for two things: which comes first as the pool shrinks, the first
preemption or the first loss of throughput; and what the prefix cache does for a pool that is too small.
"""

import argparse
import random
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import torch

from dojo.models import load, random_params
from dojo.roofline import one_thread
from level03.sampler import SamplingParams
from level12.engine import Engine, Request
from level12.scheduler import Scheduler

ROOT = Path(__file__).resolve().parents[3]
BLOCK, SHARED, BUDGET, SEQS = 16, 64, 128, 16


@dataclass
class Served:
    """What serving the load came to."""

    steps: int = 0
    tokens: int = 0  # that ran
    preempted: int = 0
    new: int = 0  # tokens of answers
    seconds: float = 0.0


def requests_of(n: int, vocab: int) -> list[Request]:
    """Prompts of 72 to 120 tokens, of which the first 64 are the same; 16 to 48 new tokens each."""
    rng = random.Random(0)
    shared, found = [rng.randrange(100, vocab) for _ in range(SHARED)], []
    for i in range(n):
        own = [rng.randrange(100, vocab) for _ in range(rng.randint(8, 56))]
        found.append(Request(f"r{i}", shared + own, SamplingParams(temperature=0.0, max_tokens=rng.randint(16, 48))))
    return found


def serve(params, config, requests: list[Request], num_blocks: int, caching: bool) -> Served:
    """One request comes every second step; the whole load is served."""
    engine = Engine(params, config, Scheduler(num_blocks, BLOCK, BUDGET, SEQS, enable_caching=caching))
    plan, waiting, found = engine.scheduler.schedule, list(requests), Served()

    def noted():
        out = plan()
        found.tokens += sum(out.num_scheduled.values())
        found.preempted += len(out.preempted)
        return out

    engine.scheduler.schedule = noted
    start = process_time()
    while waiting or engine.unfinished:
        if waiting and found.steps % 2 == 0:
            engine.add(waiting.pop(0))
        found.new += len(engine.step())
        found.steps += 1
    found.seconds = process_time() - start
    return found


def draw(path: Path, blocks: list[int], rows: dict[bool, list[Served]]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    for caching, served in rows.items():
        label, style = ("with the prefix cache", "o-") if caching else ("without", "s--")
        left.plot(blocks, [one.new / one.seconds for one in served], style, label=label)
        right.plot(blocks, [one.tokens for one in served], style, label=f"tokens that ran, {label}")
        for n, one in zip(blocks, served):
            right.annotate(one.preempted, (n, one.tokens), xytext=(0, 7), textcoords="offset points", ha="center")
    left.set(xlabel="blocks in the pool", ylabel="new tokens per CPU second", title="Throughput")
    right.set(xlabel="blocks in the pool", ylabel="tokens", title="Work; the numbers are preemptions")
    for axes in (left, right):
        axes.set_ylim(bottom=0)
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level12 pool", description="What a small pool costs.")
    parser.add_argument("--blocks", default="160,96,64,48,40,24", help="sizes of the pool, with commas")
    parser.add_argument("--requests", type=int, default=24, help="of the load")
    parser.add_argument("--small", action="store_true", help="a random model with 4 layers instead of SmolLM2")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level12")
    args = parser.parse_args(argv)
    try:
        args.blocks = sorted({int(part) for part in args.blocks.split(",")}, reverse=True)
    except ValueError:
        raise SystemExit(f"--blocks {args.blocks} is not a list of numbers: write 96,48") from None
    least = -(-(SHARED + 56 + 48) // BLOCK) + 1  # the longest request, and block 0
    if args.blocks[-1] < least or args.requests < 1:
        raise SystemExit(f"pools of {least} blocks or more, and at least 1 request: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    config, params, *_ = load()
    if args.small:
        config = replace(config, n_layers=4)
        params = random_params(config)
    requests = requests_of(args.requests, config.vocab_size)
    prompts = sum(len(request.prompt) for request in requests)
    print(
        f"{args.requests} requests, {prompts:,} tokens of prompts, {SHARED} of each the same; one comes in two steps\n"
    )
    print(f"{'blocks':>8}{'cache':>8}{'steps':>8}{'tokens run':>12}{'preempted':>11}{'tokens/s':>10}")
    rows: dict[bool, list[Served]] = {True: [], False: []}
    with one_thread(), torch.inference_mode():
        serve(params, config, requests[:1], args.blocks[0], True)  # warm
        for num_blocks in args.blocks:
            for caching in (True, False):
                one = serve(params, config, requests, num_blocks, caching)
                rows[caching].append(one)
                numbers = f"{one.steps:>8}{one.tokens:>12,}{one.preempted:>11}{one.new / one.seconds:>10.1f}"
                print(f"{num_blocks:>8}{'yes' if caching else 'no':>8}{numbers}", flush=True)
    draw(args.out / "pool.png", args.blocks, rows)
    print(f"\nwrote {args.out / 'pool.png'}")
