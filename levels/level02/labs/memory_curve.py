"""Lab: what a cache saves and what it takes, in time and in memory, as the sequence grows.

    python -m dojo lab level02 memory_curve [--lengths 64,128,256,512,1024,2048,4096] [--real] [--rounds 5] [--out DIR]

Nothing here is graded. It makes one more token without a cache, with level 01's SimpleCache and with your KVCache, on
a random model of 4 million parameters, or on SmolLM2 with --real. What it measures and counts stands beside what
phase_cost, kv_bytes_per_token and concat_copy_bytes predict. It prints two tables and leaves two pictures. Look for
two things: the length from which joining costs more than it is worth, and who needs less memory at which length.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dojo.cost import count
from dojo.models import Config, load, random_params
from dojo.roofline import CLOCK, one_thread
from level00.transformer import forward
from level01.generate import decode_step, generate_naive
from level01.phases import phase_cost
from level01.simple_cache import SimpleCache
from level02.cache import KVCache, concat_copy_bytes, kv_bytes_per_token
from level02.capacity import wasted_fraction

ROOT = Path(__file__).resolve().parents[3]
SMALL = Config(
    n_layers=4, d_model=256, n_heads=4, n_kv_heads=2, head_dim=64, d_ff=768, vocab_size=3072, max_seq_len=4096
)
NONE, GROWING, RESERVED = "no cache", "SimpleCache", "KVCache"
LOOKS = {NONE: {"color": "tab:orange", "marker": "o"}, GROWING: {"color": "tab:blue", "marker": "s"}}
LOOKS |= {RESERVED: {"color": "tab:green", "marker": "^"}}
LONGEST = 1024  # tokens that are run again without a cache: 4096 would take as long as all the rest


@dataclass
class Step:
    """One more token at a sequence of `length` tokens, itself included."""

    run: Callable[[], object]
    predicted: float  # bytes moved, by phase_cost and concat_copy_bytes
    counted: int  # the same, operator by operator
    seconds: float = float("inf")  # the least of all rounds


@dataclass
class Memory:
    """Bytes around the update that makes a cache hold `length` tokens."""

    length: int
    held: float  # by kv_bytes_per_token
    peak: int  # most that is alive in a SimpleCache meanwhile
    reserved: int  # KVCache.nbytes
    joined: float  # written by a SimpleCache, by concat_copy_bytes
    written: dict[str, int]  # the same counted, for each cache


def new_cache(way: str, config: Config, room: int):
    return SimpleCache(config.n_layers) if way == GROWING else KVCache(config, 1, room)


def add(cache, config: Config, tokens: int):
    """The cache with more tokens in all layers: neither seconds nor bytes depend on what they say."""
    for layer in range(config.n_layers):
        cache.update(layer, *(torch.ones(1, config.n_kv_heads, tokens, config.head_dim) for _ in "kv"))
    return cache


def without_cache(params, config: Config, length: int, forward=forward) -> Callable[[], object]:
    """The step that runs all `length` tokens for one more."""
    return lambda: generate_naive(params, config, [1] * length, 1, forward=forward)


def with_cache(params, config: Config, length: int, cache, forward=forward) -> Callable[[], object]:
    """The step that feeds the last of `length` tokens to a cache that holds the others."""
    add(cache, config, length - 1)

    def step():
        decode_step(params, config, 1, cache, forward=forward)
        cache.truncate(length - 1)  # the next round finds what this one found

    return step


def steps_at(params, config: Config, length: int, room: int) -> dict[tuple[str, int], Step]:
    """All ways at one length, in float32: 4 bytes per element."""
    runs = {NONE: without_cache(params, config, length)} if length <= LONGEST else {}
    runs |= {way: with_cache(params, config, length, new_cache(way, config, room)) for way in (GROWING, RESERVED)}
    steps = {}
    for way, run in runs.items():
        fed = length if way == NONE else 1
        predicted = phase_cost(config, fed, length - fed, 4, last_only=False)["bytes"]
        if way == GROWING:  # joining reads and writes once more all that is held
            predicted += 2 * concat_copy_bytes(length - 1, 1, kv_bytes_per_token(config, 4))
        steps[way, length] = Step(run, predicted, count(run).bytes)  # counting it is also its warm-up
    return steps


def memory_at(config: Config, length: int, room: int) -> Memory:
    """Counted, without a model."""
    per_token = kv_bytes_per_token(config, 4)
    new = torch.ones(2, 1, config.n_kv_heads, 1, config.head_dim)

    def one_more(cache):
        for layer in range(config.n_layers):
            cache.update(layer, *new)

    caches = {way: add(new_cache(way, config, room), config, length - 1) for way in (GROWING, RESERVED)}
    written = {way: count(one_more, cache).bytes_written for way, cache in caches.items()}
    peak = count(lambda: one_more(add(new_cache(GROWING, config, room), config, length - 1))).peak_bytes
    joined = concat_copy_bytes(length - 1, 1, per_token)
    return Memory(length, length * per_token, peak, caches[RESERVED].nbytes, joined, written)


def measure(params, config: Config, lengths: Sequence[int], rounds: int) -> dict[tuple[str, int], Step]:
    with one_thread():
        steps = {}
        for length in lengths:
            steps |= steps_at(params, config, length, lengths[-1])
        for _ in range(rounds):  # in turn: what disturbs the machine for a second then hits all of them alike
            for step in steps.values():
                start = CLOCK()  # CPU time of this process where it is fine enough: other programs do not count
                step.run()
                step.seconds = min(step.seconds, CLOCK() - start)
    return steps


def report_speed(steps: dict[tuple[str, int], Step]) -> None:
    print(f"{'':10}" + "".join(f"{way:<37}" for way in LOOKS).rstrip())
    print(f"{'length':>8}" + f"{'predicted':>11}{'counted':>9}{'tokens/s':>10}{'times':>7}" * len(LOOKS))
    for length in sorted({length for _, length in steps}):
        print(f"{length:>8,}", end="")
        for way in LOOKS:
            if step := steps.get((way, length)):
                times = step.seconds / steps[RESERVED, length].seconds
                print(f"{step.predicted / 1e6:>11,.1f}{step.counted / 1e6:>9,.1f}{1 / step.seconds:>10,.1f}", end="")
                print(f"{times:>7.1f}", end="")
            else:
                print(f"{'-':>11}{'-':>9}{'-':>10}{'-':>7}", end="")
        print()
    print("\npredicted, counted: MB moved for one token; phase_cost leaves out activations, and a long pass's scores.")
    print("times: the time of a step, divided by that of a step with KVCache.")


def report_memory(memory: Sequence[Memory], config: Config, room: int) -> None:
    per_token, layers = kv_bytes_per_token(config, 4), config.n_layers
    print(f"\nMemory in MB: {per_token:,.0f} bytes per token, KVCache with room for {room:,}")
    print(f"{'':18}alive at most{'':19}written for the last token{'':11}written for all")
    print(f"{'length':>8}{GROWING:>13}{RESERVED:>9}{'unused':>8}", end="")
    print(f"{GROWING:>16}{'counted':>10}{RESERVED:>9}{GROWING:>18}{RESERVED:>9}")
    for at in memory:
        print(f"{at.length:>8,}{at.peak / 1e6:>13,.2f}{at.reserved / 1e6:>9,.2f}", end="")
        print(f"{wasted_fraction([at.length], room):>8.0%}{at.joined / 1e6:>16,.2f}", end="")
        print(f"{at.written[GROWING] / 1e6:>10,.2f}{at.written[RESERVED] / 1e6:>9,.3f}", end="")
        print(f"{concat_copy_bytes(0, at.length, per_token) / 1e6:>18,.1f}{at.held / 1e6:>9,.1f}")
    print(f"\nA growing cache has old and new together in one layer of {layers} at a time, so it takes at its peak")
    print(f"{layers + 1}/{layers} of what it holds. KVCache takes all its room at once, and never more. To a CPU the")
    print("system gives pages when they are first written; on a GPU they are gone for everybody else.")


def draw(path: Path, *panels: tuple[str, str, list]) -> None:
    """A picture of panels (title, unit, lines), both axes logarithmic; a line is (label, lengths, values, look)."""
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    figure = Figure(figsize=(2 + 5 * len(panels), 4.5), layout="constrained")
    for axes, (title, unit, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        for label, lengths, values, look in lines:
            axes.plot(lengths, values, label=label, **look)
        axes.set(xscale="log", yscale="log", xlabel="length of the sequence (tokens)", ylabel=unit, title=title)
        axes.set_xticks(lengths, labels=[f"{length:,}" for length in lengths])
        axes.xaxis.minorticks_off()
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def pictures(steps: dict[tuple[str, int], Step], memory: Sequence[Memory], config: Config, name: str, out: Path):
    speed = []
    for way, look in LOOKS.items():
        mine = {length: 1 / step.seconds for (other, length), step in steps.items() if other == way}
        speed.append((way, list(mine), list(mine.values()), look))
    draw(out / "speed_curve.png", (f"One more token: {name}", "tokens per second, one thread", speed))
    lengths, held = [at.length for at in memory], [at.held / 1e6 for at in memory]
    joined = [concat_copy_bytes(0, length, kv_bytes_per_token(config, 4)) / 1e6 for length in lengths]
    alive = [
        (f"{RESERVED}, room for {lengths[-1]:,}", lengths, [at.reserved / 1e6 for at in memory], LOOKS[RESERVED]),
        (f"{GROWING}, at its peak", lengths, [at.peak / 1e6 for at in memory], LOOKS[GROWING]),
        ("keys and values alone", lengths, held, {"color": "black", "linestyle": "--"}),
    ]
    written = [(GROWING, lengths, joined, LOOKS[GROWING]), (RESERVED, lengths, held, LOOKS[RESERVED])]
    panels = [("Memory taken", "MB", alive), ("Written in all, one token at a time", "MB", written)]
    draw(out / "memory_curve.png", *panels)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m dojo lab level02 memory_curve", description="Time and weigh three ways to remember a sequence."
    )
    parser.add_argument("--lengths", default="64,128,256,512,1024,2048,4096", help="numbers of tokens, with commas")
    parser.add_argument("--real", action="store_true", help="SmolLM2-135M instead of a small random model")
    parser.add_argument("--rounds", type=int, default=5, help="each step is timed so often; the least counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level02")
    args = parser.parse_args(argv)
    try:
        args.lengths = sorted({int(part) for part in args.lengths.split(",")})
    except ValueError:
        raise SystemExit(f"--lengths {args.lengths} is not a list of numbers: write 64,128,256") from None
    if args.lengths[0] < 2:
        raise SystemExit(f"--lengths holds {args.lengths[0]}, and a cache needs something to hold: give at least 2")
    most = load()[0].max_seq_len if args.real else SMALL.max_seq_len
    if args.lengths[-1] > most:
        raise SystemExit(f"--lengths holds {args.lengths[-1]}, and this model ends at {most}: give at most {most}")
    if args.rounds < 1:
        raise SystemExit(f"--rounds {args.rounds} measures nothing: give at least 1")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    config, params = load()[:2] if args.real else (SMALL, random_params(SMALL))
    millions = sum(w.numel() for w in params.values()) / 1e6
    name = f"{'SmolLM2' if args.real else 'a random model'}, {millions:.0f} M parameters, float32"
    print(f"{name}: measuring, {args.rounds} rounds\n", flush=True)
    steps = measure(params, config, args.lengths, args.rounds)
    memory = [memory_at(config, length, args.lengths[-1]) for length in args.lengths]
    report_speed(steps)
    report_memory(memory, config, args.lengths[-1])
    pictures(steps, memory, config, name, args.out)
    print(f"\nwrote {args.out / 'speed_curve.png'} and {args.out / 'memory_curve.png'}")
