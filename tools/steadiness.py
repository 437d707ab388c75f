"""How often does the clock err? Many verdicts of the roofline assertion and its negative control, under load.

    .venv/bin/python tools/steadiness.py [--verdicts 50] [--busy 2]

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
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def spin() -> None:
    while True:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--verdicts", type=int, default=50, help="of each kind, in one warm process")
    parser.add_argument("--busy", type=int, default=2, help="processes that keep the cores busy meanwhile")
    options = parser.parse_args()
    from dojo.mount import mount, one_thread

    one_thread()
    mount("level00", ROOT / "solutions" / "level00")
    from test_controls import TOKENS, checkpoint_of, load, matrices, prefill, token_by_token

    import level00.transformer as transformer
    from dojo.roofline import Sweep, judge

    checkpoint, weights = checkpoint_of("level00"), matrices(load()[1])
    ids, need = checkpoint.prompt(), checkpoint.NEED
    kinds = {
        "the assertion": (prefill(transformer, ids), Sweep(weights, checkpoint.PROMPT_TOKENS)),
        "its negative control": (prefill(transformer, ids[:, :TOKENS], linear=token_by_token), Sweep(weights, TOKENS)),
    }
    busy = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]
    for process in busy:
        process.start()
    for name, (target, reference) in kinds.items():
        start, verdicts = time.time(), []
        for _ in range(options.verdicts):
            verdicts.append(judge(target, reference, need=need))
        states, fractions = collections.Counter(v.state for v in verdicts), [v.fraction for v in verdicts]
        load_now = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
        print(
            f"{name}: {dict(states)}, {min(fractions):.2f} to {max(fractions):.2f} of the sweep (need {need}), "
            f"{time.time() - start:.0f} s, {load_now}",
            flush=True,
        )


if __name__ == "__main__":
    main()
