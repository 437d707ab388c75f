"""Lab: the most tokens per second this machine can make, predicted before anything runs, then measured.

    python -m dojo lab level04 ceiling [--batches 1,2,4,8,16] [--context 128] [--small] [--rounds 5] [--out DIR]

Nothing here is graded. Two probes give the two roofs of this machine, on one thread, by CPU time. From them and from
the bytes of a step follows a ceiling; you are asked for yours first. Then SmolLM2 runs (a random
model of the same shape with fewer layers with --small). Look for two things: what share of the ceiling is reached, and
at which batch it drops. The same arithmetic follows for Llama-3-8B on the chips of hardware.yaml.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dojo.hardware import load as accelerators
from dojo.models import Config, load, random_params
from dojo.roofline import CLOCK, one_thread
from level00.transformer import forward
from level02.cache import KVCache
from level04.ceiling import critical_batch, decode_ceiling, decode_step_cost, mbu
from level04.measure import best_time, cache_bytes, gemm_flops, probe_bytes, read_bandwidth
from level04.roofline import Hardware, bound, ridge_point

ROOT = Path(__file__).resolve().parents[3]
LLAMA8B = Config(
    n_layers=32,
    d_model=4096,
    n_heads=32,
    n_kv_heads=8,
    head_dim=128,
    d_ff=14336,
    vocab_size=128256,
    tie_embeddings=False,
)
CHIPS = ("t4", "a10", "l4", "rtx4090", "a100_80_sxm", "h100_sxm", "h200_sxm", "mi300x", "b200", "tpu_v6e", "trn2")


@dataclass
class Point:
    """A batch: tokens per second of all its sequences."""

    batch: int
    ceiling: float
    intensity: float
    measured: float
    mbu: float


def stepping(params, config: Config, batch: int, context: int):
    """A decode step at `context`, the new token included, that leaves the cache as it was."""
    cache, ids = KVCache(config, batch, context), torch.ones(batch, 1, dtype=torch.long)
    for layer in range(config.n_layers):
        cache.update(layer, *(torch.ones(batch, config.n_kv_heads, context - 1, config.head_dim) for _ in "kv"))

    def step():
        forward(params, config, ids, cache)
        cache.truncate(context - 1)

    return step


def measure(params, config: Config, batches: list[int], context: int, rounds: int) -> tuple[Hardware, dict[int, float]]:
    """This machine's two roofs, and the seconds of a step by batch: probes and model take turns."""
    size = min(probe_bytes(cache_bytes()), 2**29)
    with one_thread():
        steps = {batch: stepping(params, config, batch, context) for batch in batches}
        seconds, bandwidth, flops = dict.fromkeys(batches, float("inf")), 0.0, 0.0
        for _ in range(rounds):
            bandwidth = max(bandwidth, read_bandwidth(size, rounds=1, clock=CLOCK))
            flops = max(flops, gemm_flops(768, rounds=3, clock=CLOCK))
            for batch, step in steps.items():
                seconds[batch] = min(seconds[batch], best_time(step, rounds=1, clock=CLOCK))
    return Hardware("this machine, one thread, float32", flops, bandwidth, 0), seconds


def points(config: Config, here: Hardware, seconds: dict[int, float], context: int) -> list[Point]:
    found = []
    for batch, taken in seconds.items():
        cost = decode_step_cost(config, batch, context, 4, 4)
        ceiling = decode_ceiling(config, batch, context, here, 4, 4)
        share = mbu(batch / taken, batch, cost["bytes"], here)
        found.append(Point(batch, ceiling, cost["intensity"], batch / taken, share))
    return found


def report(here: Hardware, found: list[Point], guess: float | None) -> None:
    print(f"bandwidth {here.bandwidth / 1e9:.1f} GB/s, products {here.peak_flops / 1e9:.0f} GFLOP/s, ridge", end=" ")
    print(f"{ridge_point(here):.1f} FLOP/byte, critical batch {critical_batch(here, 4)} in float32\n")
    print(f"{'batch':>6}{'FLOP/byte':>11}{'bound by':>10}{'ceiling':>10}{'measured':>10}{'reached':>9}{'MBU':>7}")
    for p in found:
        print(f"{p.batch:>6}{p.intensity:>11.2f}{bound(p.intensity, here):>10}{p.ceiling:>10,.1f}", end="")
        print(f"{p.measured:>10,.1f}{p.measured / p.ceiling:>9.0%}{p.mbu:>7.0%}")
    if guess is not None:
        print(f"\nYou said {guess:,.0f} tokens/s; the ceiling is {found[0].ceiling:,.0f}.")
    print(
        "\nceiling, measured: tokens per second of all sequences. What is missing at batch 1: matrices that are small"
    )
    print(
        "and are read with a pause between them, attention, and torch's calls. From a batch of 2 on the library takes"
    )
    print(
        "a general matrix product in place of one with a vector, and reads the weights more slowly. Which one is yours?"
    )


def on_chips() -> list[tuple[str, float, float, int]]:
    """(name, tokens/s of Llama-3-8B in 16 bits at context 1024 alone, the same for 64 sequences, critical batch)."""
    rows = []
    for chip in accelerators():
        used = chip.stand_in("bf16")
        if chip.id in CHIPS and used in chip.dense:
            there = Hardware(chip.name, 1e12 * chip.dense[used].value, 1e9 * chip.bandwidth.value, 0)
            speeds = [decode_ceiling(LLAMA8B, batch, 1024, there) for batch in (1, 64)]
            rows.append((f"{chip.vendor} {chip.name}", *speeds, critical_batch(there)))
    return sorted(rows, key=lambda row: row[1])


def report_chips(rows) -> None:
    print("\nLlama-3-8B in 16 bits at context 1,024: the ceilings by data sheet (some chips lack the memory for 64)\n")
    print(f"{'':<28}{'alone':>10}{'64 together':>14}{'critical batch':>17}")
    for name, alone, together, critical in rows:
        print(f"{name:<28}{alone:>10,.1f}{together:>14,.0f}{critical:>17}")


def draw(path: Path, here: Hardware, found: list[Point], rows, model: str) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed
    from matplotlib.ticker import LogLocator

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    batches = [p.batch for p in found]
    left.plot(batches, [p.ceiling for p in found], "k--", label="ceiling")
    left.plot(batches, [p.measured for p in found], "o-", color="tab:green", label="measured")
    for p in found:
        where = {"textcoords": "offset points", "xytext": (4, -12), "fontsize": 8}
        left.annotate(f"{p.measured / p.ceiling:.0%}", (p.batch, p.measured), **where)
    left.set(xscale="log", yscale="log", xlabel="sequences in the batch", ylabel="tokens per second")
    left.set_title(f"{model} on one thread: {here.bandwidth / 1e9:.1f} GB/s", fontsize=10)
    left.set_xticks(batches, labels=batches)
    left.minorticks_off()
    left.margins(0.1)  # room for the shares beside the first point and the last
    left.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.yaxis.set_major_formatter("{x:,g}")
    left.legend(fontsize=8)
    names = [row[0] for row in rows]
    right.barh(names, [row[2] for row in rows], color="tab:blue", alpha=0.4, label="64 sequences")
    right.barh(names, [row[1] for row in rows], color="tab:blue", label="one")
    right.set(xscale="log", xlabel="tokens per second at most")
    right.set_title("Llama-3-8B in 16 bits at context 1,024, by data sheet", fontsize=10)
    right.xaxis.set_major_formatter("{x:,g}")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level04 ceiling", description="Predict, then measure.")
    parser.add_argument("--batches", default="1,2,4,8,16", help="numbers of sequences, with commas")
    parser.add_argument("--context", type=int, default=128, help="tokens that each sequence attends to")
    parser.add_argument("--small", action="store_true", help="a random model with 4 layers instead of SmolLM2")
    parser.add_argument("--rounds", type=int, default=5, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level04")
    args = parser.parse_args(argv)
    try:
        args.batches = sorted({int(part) for part in args.batches.split(",")})
    except ValueError:
        raise SystemExit(f"--batches {args.batches} is not a list of numbers: write 1,2,4") from None
    if args.batches[0] < 1 or args.rounds < 1:
        raise SystemExit("a batch has at least 1 sequence, and at least 1 round is timed: give larger numbers")
    most = load()[0].max_seq_len
    if not 1 < args.context <= most:
        raise SystemExit(f"--context {args.context} does not fit this model: give 2 to {most}")
    return args


def asked() -> float | None:
    """What somebody at a terminal predicts; None where nobody sits or nothing usable is said."""
    if not sys.stdin.isatty():
        return None
    try:
        said = input("Your prediction, tokens per second for one sequence (Enter: none)? ").strip()
        return float(said) if said else None
    except ValueError:
        print("That is no number: going on without a prediction.")
    except EOFError:
        pass
    return None


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    config, params, _ = load()
    if args.small:
        config = replace(config, n_layers=4)
        params = random_params(config)
    name = f"{'a random model' if args.small else 'SmolLM2'}, {sum(p.numel() for p in params.values()) / 1e6:.0f} M"
    cost = decode_step_cost(config, 1, args.context, 4, 4)
    print(f"{name} parameters in float32: {cost['bytes'] / 1e6:,.0f} MB for a token at context {args.context}")
    guess = asked()
    print(f"measuring, {args.rounds} rounds\n", flush=True)
    here, seconds = measure(params, config, args.batches, args.context, args.rounds)
    found, rows = points(config, here, seconds, args.context), on_chips()
    report(here, found, guess)
    report_chips(rows)
    draw(args.out / "ceiling.png", here, found, rows, name)
    print(f"\nwrote {args.out / 'ceiling.png'}")
