"""Lab: the speed of one more token, without a cache and with yours, as the sequence grows.

    python -m dojo lab level01 cache_curve [--lengths 16,32,64,128,256,512] [--real] [--rounds 5] [--out FOLDER]

Nothing here is graded. It runs your generate_naive, decode_step and SimpleCache on a random model of 4 million
parameters, or on SmolLM2 with --real, and sets your phase_cost beside what it measures. It prints a table and leaves
a picture. Look for two things: where the curve without a cache bends, and what stays between the dashed line and yours.
"""

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dojo.cost import Cost, count
from dojo.models import Config, load, matrices, random_params
from dojo.roofline import CLOCK, Gemm, Sweep, one_thread
from level00.transformer import forward
from level01.generate import decode_step, generate_naive, prefill
from level01.phases import cached_token_count, naive_token_count, phase_cost
from level01.simple_cache import SimpleCache

ROOT = Path(__file__).resolve().parents[3]
SMALL = Config(
    n_layers=4, d_model=256, n_heads=4, n_kv_heads=2, head_dim=64, d_ff=768, vocab_size=3072, max_seq_len=4096
)
WITHOUT, WITH = "without a cache", "SimpleCache"


@dataclass
class Step:
    """One more token at a sequence of `length` tokens, itself included: measured, counted and predicted."""

    way: str
    length: int
    run: Callable[[], object]
    predicted: dict[str, float]  # by phase_cost
    cost: Cost  # counted operator by operator
    seconds: float = float("inf")  # the least of all rounds

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return 1 / self.seconds

    def least_seconds(self, bandwidth: float, arithmetic: float) -> float:
        """What the two roofs allow, in bytes and FLOPs per second: the slower of moving and computing decides."""
        return max(self.predicted["bytes"] / bandwidth, self.predicted["flops"] / arithmetic)


def without_cache(params, config: Config, ids: Sequence[int], forward=forward) -> Callable[[], object]:
    """The step that makes a token after `ids` by running all of them."""
    return lambda: generate_naive(params, config, ids, 1, forward=forward)


def with_cache(params, config: Config, ids: Sequence[int], forward=forward) -> Callable[[], object]:
    """The step that makes a token after `ids` by running the last one: the cache holds the others already."""
    cache = SimpleCache(config.n_layers)
    prefill(params, config, ids[:-1], cache)

    def step():
        decode_step(params, config, ids[-1], cache, forward=forward)
        cache.truncate(len(ids) - 1)  # the next round finds what this one found; it costs some 1% of the step

    return step


def steps_at(params, config: Config, length: int) -> list[Step]:
    """Both ways at one length. float32: 4 bytes per element. All logits are computed, so none are left out."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(config.vocab_size, (length,), generator=generator).tolist()
    ways = {WITHOUT: (without_cache, length, 0), WITH: (with_cache, 1, length - 1)}
    steps = []
    for way, (make, fed, held) in ways.items():
        run = make(params, config, ids)
        predicted = phase_cost(config, fed, held, 4, last_only=False)
        steps.append(Step(way, length, run, predicted, count(run)))  # counting it is also its warm-up
    return steps


def thin(config: Config) -> Config:
    """A model that starts as many operators as `config` and gives them next to nothing to do."""
    return dataclasses.replace(config, d_model=16, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=16, vocab_size=64)


def seconds_of(call: Callable[[], object]) -> float:
    start = CLOCK()  # CPU time of this process where it is fine enough: other programs do not count
    call()
    return CLOCK() - start


def measure(params, config: Config, lengths: Sequence[int], rounds: int):
    """(steps, bytes per second, FLOPs per second, seconds of the operators alone), each the best of all rounds."""
    with one_thread():  # a second thread speeds up long passes and not single tokens: it would bend the comparison
        steps = [step for length in lengths for step in steps_at(params, config, length)]
        sweep, product = Sweep(matrices(params)), Gemm()
        small = thin(config)
        # torch spends some microseconds on each operator before it computes anything, whatever the size
        idle = with_cache(random_params(small), small, [1] * 16)
        best = {call: float("inf") for call in (sweep, product, idle)}
        for call in best:
            call()
        for _ in range(rounds):
            # in turn, and the least of each: what disturbs the machine for a second then hits all of them alike
            for step in steps:
                step.seconds = min(step.seconds, seconds_of(step.run))
            for call in best:
                best[call] = min(best[call], seconds_of(call))
    return steps, sweep.bytes / best[sweep], product.flops / best[product], best[idle]


def report(steps: list[Step], bandwidth: float, arithmetic: float, idle: float) -> None:
    """The table, and where measurement and prediction part."""
    print(f"one thread: {bandwidth / 1e9:.1f} GB/s over these weights, {arithmetic / 1e9:.0f} GFLOP/s in one product")
    without, cached = ([step for step in steps if step.way == way] for way in (WITHOUT, WITH))
    for mine in (without, cached):
        print(f"\n{mine[0].way:<18}one token, by phase_cost{'tokens per second':>29}")
        print(f"{'length':>8}{'fed':>8}{'MFLOP':>12}{'MB':>9}{'at most':>14}{'measured':>12}{'of that':>9}")
        for step in mine:
            fed, most = step.length if mine is without else 1, 1 / step.least_seconds(bandwidth, arithmetic)
            flops, moved = step.predicted["flops"] / 1e6, step.predicted["bytes"] / 1e6
            print(f"{step.length:>8,}{fed:>8,}{flops:>12,.1f}{moved:>9,.1f}", end="")
            print(f"{most:>14,.1f}{step.speed:>12,.1f}{step.speed / most:>9.0%}")
    saved = ", ".join(f"{one.seconds / two.seconds:.1f}" for one, two in zip(without, cached))
    first, last = without[0], without[-1]
    new = last.length - first.length + 1
    runs = naive_token_count(first.length, new), cached_token_count(first.length, new)
    print(f"\nThe cache makes a step {saved} times faster, and not {last.length:,} times at {last.length:,} tokens:")
    print("without it the weights are read once as well, for all tokens of the pass.")
    print(f"From {first.length:,} tokens of prompt until {last.length:,} have been fed, ", end="")
    print(f"{runs[0]:,} tokens run without it, ", end="")
    print(f"{runs[1]:,} with it.")
    print("\nWhere the rest of the time goes")
    for step in (last, cached[-1]):
        seconds, least = 1e3 * step.seconds, 1e3 * step.least_seconds(bandwidth, arithmetic)
        print(f"  {step.way}, {step.length:,} tokens: {seconds:.2f} ms, at least {least:.2f} ms predicted.")
        moved, predicted = step.cost.bytes / 1e6, step.predicted["bytes"] / 1e6
        print(f"    Counted operator by operator it moves {moved:,.1f} MB, not {predicted:,.1f} MB:")
        if step is last:
            print("    phase_cost leaves activations out, and the scores, length x length for every head, pass through")
            print("    memory several times; half of them are computed only to be masked.")
        else:
            print("    joining tensors copies all that the cache holds.")
    print(f"    A step starts {cached[-1].cost.calls.total():,} operators of torch, whatever their size. With next to")
    print(f"    nothing to compute (a model as deep, 16 features wide) that takes {1e3 * idle:.2f} ms.")


def draw(steps: list[Step], bandwidth: float, arithmetic: float, name: str, path: Path) -> None:
    """Tokens per second over the length, both axes logarithmic: a straight line that falls by 10 per 10 is 1 / n."""
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    axes = (figure := Figure(figsize=(7, 4.5), layout="constrained")).subplots()
    for way, colour, marker in ((WITHOUT, "tab:orange", "o"), (WITH, "tab:blue", "s")):
        mine = [step for step in steps if step.way == way]
        lengths = [step.length for step in mine]
        least = [1 / step.least_seconds(bandwidth, arithmetic) for step in mine]
        axes.plot(lengths, least, color=colour, linestyle="--", label=f"{way}, at most by phase_cost")
        axes.plot(lengths, [step.speed for step in mine], color=colour, marker=marker, label=f"{way}, measured")
    axes.set(
        xscale="log", yscale="log", xlabel="length of the sequence (tokens)", ylabel="tokens per second, one thread"
    )
    axes.set_xticks(lengths, labels=[str(length) for length in lengths])
    axes.minorticks_off()
    axes.set_title(f"One more token: {name}")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m dojo lab level01 cache_curve", description="Time one more token without a cache and with yours."
    )
    parser.add_argument("--lengths", default="16,32,64,128,256,512", help="numbers of tokens, with commas between them")
    parser.add_argument("--real", action="store_true", help="SmolLM2-135M instead of a small random model")
    parser.add_argument("--rounds", type=int, default=5, help="each step is timed so often; the least counts")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=ROOT / "labs-out" / "level01")
    args = parser.parse_args(argv)
    try:
        args.lengths = sorted({int(part) for part in args.lengths.split(",")})
    except ValueError:
        raise SystemExit(f"--lengths {args.lengths} is not a list of numbers: write 16,32,64") from None
    if args.lengths[0] < 2:
        raise SystemExit(f"--lengths holds {args.lengths[0]}, and a cache needs something to hold: give at least 2")
    most = load()[0].max_seq_len if args.real else SMALL.max_seq_len
    if args.lengths[-1] > most:
        raise SystemExit(
            f"--lengths holds {args.lengths[-1]}, and this model ends at {most} tokens: give at most {most}"
        )
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
    print(f"{name}: measuring, {args.rounds} rounds", flush=True)
    steps, *roofs, idle = measure(params, config, args.lengths, args.rounds)
    report(steps, *roofs, idle)
    draw(steps, *roofs, name, args.out / "cache_curve.png")
    print(f"\nwrote {args.out / 'cache_curve.png'}")
