"""How often does the clock err? Many verdicts of a level's roofline assertion and its negative control, under load.

    .venv/bin/python tools/steadiness.py level01 [--verdicts 50] [--busy 2]

Prints the states and the range of the fractions. The repository's tests run each of them once; this is for whoever
changes a threshold, or the clock.
"""

import argparse
import collections
import multiprocessing
import os
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


def spin() -> None:
    while True:
        pass


def main() -> None:
    levels = {f.__name__: f for f in (level00, level01, level02, level02_updates, level03)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("level", choices=levels)
    parser.add_argument("--verdicts", type=int, default=50, help="of each kind, in one warm process")
    parser.add_argument("--busy", type=int, default=2, help="processes that keep the cores busy meanwhile")
    options = parser.parse_args()
    from dojo.mount import mount, one_thread

    one_thread()
    for level in sorted({name[:7] for name in levels}):
        mount(level, ROOT / "solutions" / level)
    from dojo.roofline import judge

    need, right, wrong = levels[options.level]()
    for process in [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]:
        process.start()
    for name, (target, reference) in {"the assertion": right, "its negative control": wrong}.items():
        start = time.time()
        verdicts = [judge(target, reference, need=need) for _ in range(options.verdicts)]
        states, fractions = collections.Counter(v.state for v in verdicts), [v.fraction for v in verdicts]
        load_now = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
        print(
            f"{options.level}, {name}: {dict(states)}, {min(fractions):.2f} to {max(fractions):.2f} of the sweep "
            f"(need {need}), {time.time() - start:.0f} s{load_now}",
            flush=True,
        )


if __name__ == "__main__":
    main()
