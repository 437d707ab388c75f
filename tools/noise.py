"""How often does the clock err? Many verdicts of the roofline assertions and their negative controls, under noise.

    nox -s noise -- [level02 …] [--verdicts 5] [--controls 5] [--under quiet busy1 busy2 hog bursts]
    nox -s noise -- --probes                     how well the two probes of this machine repeat themselves

The repository's tests run each of them once; this is for whoever changes a threshold, or the clock, and for whoever
doubts a verdict. reference/noise.md says what the numbers mean.
"""

import argparse
import collections
import contextlib
import multiprocessing
import random
import re
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def level00():
    """(threshold, the assertion, its negative control), the last two as (target, reference)."""
    import level00.transformer as transformer
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_controls import TOKENS, checkpoint_of, prefill, token_by_token

    checkpoint, weights = checkpoint_of("level00"), matrices(load()[1])
    ids = checkpoint.prompt()
    right = prefill(transformer, ids), Sweep(weights, checkpoint.PROMPT_TOKENS)
    return (
        checkpoint.NEED,
        right,
        (prefill(transformer, ids[:, :TOKENS], linear=token_by_token), Sweep(weights, TOKENS)),
    )


def level01():
    """As level00."""
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_level01_controls import cached_step, checkpoint_of, uncached_step

    checkpoint, sweep = checkpoint_of("level01"), Sweep(matrices(load()[1]), 1)
    return checkpoint.NEED, (cached_step(checkpoint), sweep), (uncached_step(checkpoint), sweep)


def level02():
    """As level00."""
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_level02_controls import cached_step, checkpoint_of, copying

    checkpoint, sweep = checkpoint_of("level02"), Sweep(matrices(load()[1]), 1)
    return checkpoint.NEED, (cached_step(checkpoint), sweep), (cached_step(checkpoint, linear=copying), sweep)


def level02_updates():
    """As level00, for the second clock of level 02: its slowest right cache, its fastest wrong one."""
    from tests.test_level02_controls import CloneOfKeys, Indexed, checkpoint_of, timed_updates

    checkpoint = checkpoint_of("level02")
    return checkpoint.NEED_UPDATE, timed_updates(checkpoint, Indexed), timed_updates(checkpoint, CloneOfKeys)


def level03():
    """As level00: the slowest right choice, and one that visits the entries one by one."""
    from tests.test_level03_controls import checkpoint_of, entry_by_entry, in_lists, timed_choice

    checkpoint = checkpoint_of("level03")
    return checkpoint.NEED, timed_choice(checkpoint, in_lists), timed_choice(checkpoint, entry_by_entry)


def level04():
    """As level00: a step of 8 sequences, and one sequence after the other."""
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_level04_controls import checkpoint_of, one_by_one, step

    checkpoint = checkpoint_of("level04")
    sweep = Sweep(matrices(load()[1]), checkpoint.BATCH)
    return checkpoint.NEED, (step(checkpoint, checkpoint.BATCH), sweep), (one_by_one(checkpoint), sweep)


def level05():
    """As level00: a packed step of 8 sequences, and one sequence after the other."""
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_level05_controls import LENGTHS, checkpoint_of, one_by_one

    checkpoint = checkpoint_of("level05")
    sweep = Sweep(matrices(load()[1]), checkpoint.BATCH)
    return checkpoint.NEED, (checkpoint.stepping(load(), LENGTHS), sweep), (one_by_one(checkpoint), sweep)


def level06():
    """As level00: a step on a paged cache, and one that gathers token by token."""
    from dojo.models import load, matrices
    from dojo.roofline import Sweep
    from tests.test_level06_controls import checkpoint_of, token_by_token

    checkpoint = checkpoint_of("level06")
    sweep = Sweep(matrices(load()[1]))
    slow = checkpoint.stepping(load(), token_by_token(checkpoint))
    return checkpoint.NEED, (checkpoint.stepping(load()), sweep), (slow, sweep)


def level07():
    """As level00: causal attention in tiles, and the whole matrix of scores."""
    from tests.test_level07_controls import checkpoint_of, timed

    checkpoint = checkpoint_of("level07")
    products = checkpoint.Products(checkpoint.long_heads(), checkpoint.TIMED_TILE)
    slow = timed(checkpoint, lambda q, k, v, *_: checkpoint.attention(q, k, v, "causal"))
    return checkpoint.NEED, (timed(checkpoint, checkpoint.flash_attention), products), (slow, products)


def level08():
    """As level00: 12 tokens in 3 passes, and the same tokens checked one by one."""
    from dojo.models import load
    from tests.test_level08_controls import checkpoint_of, one_by_one, sweeps

    checkpoint = checkpoint_of("level08")
    right, reference = checkpoint.counting(load(), checkpoint.always_right()), sweeps(checkpoint)
    return checkpoint.NEED, (right, reference), (one_by_one(checkpoint), reference)


def level09():
    """As level00: the decode step of one of three ranks, and one of the whole model."""
    from tests.test_level09_controls import checkpoint_of, rank_alone, whole_model

    checkpoint = checkpoint_of("level09")
    step, sweep = rank_alone(checkpoint)
    return checkpoint.NEED, (step, sweep), (whole_model(checkpoint), sweep)


def level10():
    """As level00: 8 streams over HTTP, and a server that runs one at a time; both servers stay until the end."""
    from dojo.models import load
    from tests.test_level10_controls import checkpoint_of

    checkpoint = checkpoint_of("level10")
    right, slow = (checkpoint.Serving(load(), max_seqs=n).__enter__() for n in (checkpoint.STREAMS, 1))
    alone = checkpoint.alone(load())
    return checkpoint.NEED, (checkpoint.streaming(right), alone), (checkpoint.streaming(slow), alone)


def level11():
    """As level00: attention over 2,048 latents as they are, and over keys that are made of them."""
    from tests.test_level11_controls import checkpoint_of, making_keys

    checkpoint = checkpoint_of("level11")
    right, wrong, products = making_keys(checkpoint)
    return checkpoint.NEED, (right, products), (wrong, products)


def level11_experts():
    """As level00: experts on their own tokens, and all experts on all tokens."""
    from tests.test_level11_controls import checkpoint_of, everybody

    checkpoint = checkpoint_of("level11")
    right, wrong, alone = everybody(checkpoint)
    return checkpoint.NEED_GROUPED, (right, alone), (wrong, alone)


def level12():
    """As level00: a step of 16 sequences, and 16 steps of one; for 25 verdicts in a run, since they grow and end."""
    from tests.test_level12_controls import checkpoint_of, one_by_one, together

    checkpoint = checkpoint_of("level12")
    step, sweep = together(checkpoint)
    return checkpoint.NEED, (step, sweep), (one_by_one(checkpoint), sweep)


def level13():
    """As level00: a product in tiles, and one row of a tile at a time."""
    from tests.test_level13_controls import checkpoint_of, timed

    checkpoint = checkpoint_of("level13")
    right, wrong, product = timed(checkpoint)
    return checkpoint.NEED, (right, product), (wrong, product)


def level14():
    """As level00: an adapter beside its matrix, and the two merged at each call."""
    from tests.test_level14_controls import checkpoint_of, served

    checkpoint = checkpoint_of("level14")
    right, wrong, product = served(checkpoint)
    return checkpoint.NEED, (right, product), (wrong, product)


def level15():
    """As level00: a prompt mapped as a whole, and in blocks of 16 tokens."""
    from tests.test_level15_controls import checkpoint_of, in_blocks

    checkpoint = checkpoint_of("level15")
    right, wrong, products = in_blocks(checkpoint)
    return checkpoint.NEED, (right, products), (wrong, products)


# ---- noise


def spin() -> None:
    """Keeps one core busy."""
    while True:
        pass


def hog() -> None:
    """Keeps the memory bus busy."""
    import numpy

    one, other = numpy.ones(2**24), numpy.empty(2**24)  # 128 MiB each
    while True:
        numpy.copyto(other, one)


def bursts() -> None:
    """Either of them, now and then."""
    import numpy

    one, other = numpy.ones(2**24), numpy.empty(2**24)
    while True:
        end, kind = time.monotonic() + random.uniform(0.05, 0.5), random.choice(("spin", "hog", "rest"))
        while time.monotonic() < end:
            if kind == "hog":
                numpy.copyto(other, one)
            elif kind == "rest":
                time.sleep(0.01)


NOISES = {"quiet": [], "busy1": [spin], "busy2": [spin, spin], "hog": [hog], "bursts": [bursts, bursts]}


@contextlib.contextmanager
def noise(kind: str):
    processes = [multiprocessing.Process(target=program, daemon=True) for program in NOISES[kind]]
    for process in processes:
        process.start()
    yield
    for process in processes:
        process.kill()


# ---- the verdicts


def main() -> None:
    levels = {name: thing for name, thing in globals().items() if re.fullmatch(r"level\d\d\w*", name)}
    parser = argparse.ArgumentParser("nox -s noise --", description=__doc__.partition("\n")[0])
    parser.add_argument("levels", nargs="*", metavar="level", help=f"{', '.join(levels)}; by default all of them")
    parser.add_argument("--verdicts", type=int, default=5, help="of each kind, under each noise [5]")
    parser.add_argument("--controls", type=int, help="of the negative controls, which take longer [as many]")
    parser.add_argument("--under", nargs="+", default=list(NOISES), choices=NOISES, help="beside whatever runs anyway")
    parser.add_argument("--probes", action="store_true", help="20 repeats of each probe instead")
    options = parser.parse_args()
    if options.probes:
        return probes(options.under)
    if unknown := set(options.levels) - set(levels):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(levels)}")
    from dojo.mount import mount, one_thread

    one_thread()
    for level in sorted({name[:7] for name in levels}):
        mount(level, ROOT / "solutions" / level)
    judged = collections.Counter()
    numbers = options.verdicts, options.verdicts if options.controls is None else options.controls
    print(f"{'':<17}{'noise':<8}{'':<11}{'pass':>6}{'fail':>6}{'inconclusive':>14}   of its reference")
    for name in options.levels or levels:
        need, *both = levels[name]()
        for kind in options.under:
            for what, pair, number in zip(("assertion", "control"), both, numbers):
                if number:
                    judged += many(f"{name:<17}{kind:<8}{what:<11}", what, pair, need, kind, number)
    for what, wrong, said in (("assertion", "fail", "false red"), ("control", "pass", "false green")):
        number, errors = judged[what], judged[what, wrong]
        if number:
            print(f"{said}: {errors} of {number} verdicts; 95% sure that it is below {bound(errors, number):.1%}")


def probes(kinds: list[str], repeats: int = 20) -> None:
    """Print how far the best of 15 rounds is from itself, by the CPU clock and by the wall clock."""
    from dojo.roofline import Gemm, Gemv, one_thread

    print(f"{'':<8}{'noise':<8}{'clock':<7}{'median':>16}{'least':>8}{'most':>8}   of the median")
    with one_thread():
        kernels = {"reading": (Gemv(), "bytes", "GB/s"), "products": (Gemm(), "flops", "GFLOP/s")}
        for kind in kinds:
            with noise(kind):
                for name, (kernel, amount, unit) in kernels.items():
                    found = [rates(kernel, getattr(kernel, amount)) for _ in range(repeats)]
                    for clock, values in zip(("CPU", "wall"), zip(*found)):
                        middle = statistics.median(values)
                        line = f"{name:<9}{kind:<8}{clock:<6}{middle / 1e9:>8.1f} {unit:<8}"
                        print(f"{line}{min(values) / middle:>7.2f}{max(values) / middle:>8.2f}", flush=True)


def rates(kernel, amount: float, rounds: int = 15) -> tuple[float, float]:
    """Amount per second in the best of some rounds: of CPU time, and of what a clock on the wall shows."""
    best = [float("inf")] * 2
    for _ in range(rounds):
        start = time.process_time(), time.perf_counter()
        kernel()
        taken = time.process_time() - start[0], time.perf_counter() - start[1]
        best = [min(pair) for pair in zip(best, taken)]
    return amount / best[0], amount / best[1]


def many(label: str, what: str, pair, need: float, kind: str, number: int) -> collections.Counter:
    """Print a line, return counts: all verdicts by `what`, and by (what, state)."""
    from dojo.roofline import judge

    with noise(kind):
        verdicts = [judge(*pair, need=need) for _ in range(number)]
    states, fractions = collections.Counter(v.state for v in verdicts), [v.fraction for v in verdicts]
    numbers = f"{states['pass']:>6}{states['fail']:>6}{states['inconclusive']:>14}"
    print(f"{label}{numbers}   {min(fractions):.2f} to {max(fractions):.2f}, need {need}", flush=True)
    return collections.Counter({what: number, **{(what, state): n for state, n in states.items()}})


def bound(errors: int, number: int) -> float:
    """The largest error rate under which so few errors still happen in 1 of 20 tries (Clopper and Pearson)."""
    from math import comb

    low, high = errors / number, 1.0
    for _ in range(50):
        p = (low + high) / 2
        seen = sum(comb(number, k) * p**k * (1 - p) ** (number - k) for k in range(errors + 1))
        low, high = (p, high) if seen > 0.05 else (low, p)
    return high


if __name__ == "__main__":
    main()
