"""Lab: how many tokens per second do more sequences buy on this machine, and where does it stop?

    python -m dojo lab level05 flip [--batches 1,2,4,8,16,32] [--context 64] [--small] [--rounds 5] [--out DIR]

Nothing here is graded. Your packed_step decodes for 1, 2, 4 … sequences at once, on SmolLM2 (a random model with 4 of
its layers with --small), on one thread, by CPU time. Your fit_step_time puts a line through the seconds: what a step
costs whoever is served, and what one more sequence adds. From level 04's probes follow the roof's own two numbers, and
flip_batch says where the two roofs meet. Look for two things: where the measured flip lies against the predicted one,
and which of the two numbers of the line is further from its prediction.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from dojo.models import Config, load, random_params
from dojo.roofline import CLOCK, one_thread
from level02.cache import KVCache
from level04.ceiling import decode_step_cost
from level04.measure import best_time, cache_bytes, gemm_flops, probe_bytes, read_bandwidth
from level04.roofline import Hardware
from level05.packed import packed_step
from level05.throughput import fit_step_time, flip_batch, measured_flip

ROOT = Path(__file__).resolve().parents[3]


def stepping(params, config: Config, batch: int, context: int):
    """A decode step of `batch` sequences at `context`, the new token included, that leaves the caches as they were."""
    caches = [KVCache(config, 1, context) for _ in range(batch)]
    for cache in caches:
        for layer in range(config.n_layers):
            cache.update(layer, *(torch.ones(1, config.n_kv_heads, context - 1, config.head_dim) for _ in "kv"))

    def step():
        packed_step(params, config, caches, [[1]] * batch)
        for cache in caches:
            cache.truncate(context - 1)

    return step


def measure(params, config: Config, batches: list[int], context: int, rounds: int) -> tuple[Hardware, list[float]]:
    """This machine's two roofs, and the seconds of a step by batch: probes and model take turns."""
    size = min(probe_bytes(cache_bytes()), 2**29)
    with one_thread():
        steps = [stepping(params, config, batch, context) for batch in batches]
        seconds, bandwidth, flops = [float("inf")] * len(batches), 0.0, 0.0
        for _ in range(rounds):
            bandwidth = max(bandwidth, read_bandwidth(size, rounds=1, clock=CLOCK))
            flops = max(flops, gemm_flops(768, rounds=3, clock=CLOCK))
            for i, step in enumerate(steps):
                seconds[i] = min(seconds[i], best_time(step, rounds=1, clock=CLOCK))
    return Hardware("this machine, one thread, float32", flops, bandwidth, 0), seconds


def predicted(config: Config, here: Hardware, context: int) -> tuple[float, float]:
    """(fixed, per sequence) seconds by the roofs: reading the weights; the larger of its cache and its arithmetic."""
    cost = decode_step_cost(config, 1, context, 4, 4)
    return cost["weight_bytes"] / here.bandwidth, max(
        cost["kv_bytes"] / here.bandwidth, cost["flops"] / here.peak_flops
    )


def report(here: Hardware, batches, seconds, line, roof, flips) -> None:
    print(f"bandwidth {here.bandwidth / 1e9:.1f} GB/s, products {here.peak_flops / 1e9:.0f} GFLOP/s\n")
    print(f"{'batch':>6}{'ms':>9}{'tokens/s':>10}{'gain':>7}{'MB a token':>12}{'the line, ms':>14}")
    for batch, taken, bytes_moved in zip(batches, seconds, flips["bytes"]):
        print(
            f"{batch:>6}{1e3 * taken:>9.1f}{batch / taken:>10.1f}{batch / taken * seconds[0] / batches[0]:>7.1f}",
            end="",
        )
        print(f"{bytes_moved / batch / 1e6:>12.1f}{1e3 * (line[0] + batch * line[1]):>14.1f}")
    print(f"\n{'':<22}{'by your line':>14}{'by the roofs':>14}")
    print(f"{'a step, ms':<22}{1e3 * line[0]:>14.1f}{1e3 * roof[0]:>14.1f}   reading the weights")
    print(
        f"{'a sequence, ms':<22}{1e3 * line[1]:>14.2f}{1e3 * roof[1]:>14.2f}   its arithmetic, or its keys and values"
    )
    said = f"{flips['predicted']:>14}" if flips["predicted"] else f"{'never':>14}"
    print(f"{'flip, sequences':<22}{flips['measured']:>14.1f}{said}   see below")
    print("\nBy your line: the batch at which all sequences together cost as much as the fixed part. By the roofs: the")
    print("batch from which on a step computes longer than it reads. A product of a few rows reaches far less than the")
    print("peak of the probe, so a sequence costs more than its arithmetic, and the measured flip comes earlier.")


def draw(path: Path, batches, seconds, line, here: Hardware, config: Config, context: int, name: str) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed
    from matplotlib.ticker import LogLocator

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    costs = [decode_step_cost(config, batch, context, 4, 4) for batch in batches]
    roof = [max(c["bytes"] / here.bandwidth, c["flops"] / here.peak_flops) for c in costs]
    fitted = [line[0] + batch * line[1] for batch in batches]
    left.plot(batches, [1e3 * s for s in seconds], "o", color="tab:green", label="measured")
    left.plot(batches, [1e3 * s for s in fitted], color="tab:green", label="fitted line")
    left.plot(batches, [1e3 * s for s in roof], "k--", label="the roofs")
    left.axhline(1e3 * line[0], color="tab:gray", linewidth=0.8, label="fixed part")
    left.set(xlabel="sequences in a step", ylabel="milliseconds", title="A step", ylim=(0, None))
    right.plot(batches, [b / s for b, s in zip(batches, seconds)], "o-", color="tab:green", label="measured")
    right.plot(batches, [b / s for b, s in zip(batches, roof)], "k--", label="the roofs")
    if (flip := measured_flip(*line)) < 4 * batches[-1]:
        right.axvline(flip, color="tab:orange", linewidth=0.8, label=f"measured flip: {flip:.0f}")
    if flip := flip_batch(config, context, here, 4, 4):
        right.axvline(flip, color="tab:red", linewidth=0.8, linestyle="--", label=f"predicted flip: {flip}")
    right.set(xscale="log", yscale="log", xlabel="sequences in a step", ylabel="tokens per second", title=name)
    right.set_xticks(batches, labels=batches)
    right.minorticks_off()
    right.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    right.yaxis.set_major_formatter("{x:,g}")
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level05 flip", description="Throughput against batch size.")
    parser.add_argument("--batches", default="1,2,4,8,16,32", help="numbers of sequences, with commas")
    parser.add_argument("--context", type=int, default=64, help="tokens that each sequence attends to")
    parser.add_argument("--small", action="store_true", help="a random model with 4 layers instead of SmolLM2")
    parser.add_argument("--rounds", type=int, default=5, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level05")
    args = parser.parse_args(argv)
    try:
        args.batches = sorted({int(part) for part in args.batches.split(",")})
    except ValueError:
        raise SystemExit(f"--batches {args.batches} is not a list of numbers: write 1,2,4") from None
    if args.batches[0] < 1 or len(args.batches) < 2 or args.rounds < 1:
        raise SystemExit("a line needs two batches of at least 1 sequence, and at least 1 round: give more")
    most = load()[0].max_seq_len
    if not 1 < args.context <= most:
        raise SystemExit(f"--context {args.context} does not fit this model: give 2 to {most}")
    return args


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
    print(f"{name} parameters in float32, context {args.context}: measuring, {args.rounds} rounds\n", flush=True)
    here, seconds = measure(params, config, args.batches, args.context, args.rounds)
    line, roof = fit_step_time(args.batches, seconds), predicted(config, here, args.context)
    flips = {"measured": measured_flip(*line), "predicted": flip_batch(config, args.context, here, 4, 4)}
    flips["bytes"] = [decode_step_cost(config, batch, args.context, 4, 4)["bytes"] for batch in args.batches]
    report(here, args.batches, seconds, line, roof, flips)
    draw(args.out / "flip.png", args.batches, seconds, line, here, config, args.context, name)
    print(f"\nwrote {args.out / 'flip.png'}")
