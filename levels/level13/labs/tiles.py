"""Lab: what tiles cost, on paper for an H100 and measured on this machine.

    python -m dojo lab level13 tiles [--stride 16] [--rounds 5] [--out DIR]

Nothing here is graded. First, on paper: the microseconds of one product (4096 x 4096, bfloat16) against the number of
tokens, for tiles of 16, 64 and 128 rows, beside the roofline without tiles. Then, measured: a float32 copy of as many
elements, side by side in memory and with a stride of --stride, which is what a warp that does not coalesce asks for;
and your tiled_matmul with tiles of several sides beside numpy's own product, with what it loads. Times are CPU seconds
of one thread, the best of some rounds. Look for three things: the tokens up to which the curve is flat, the steps in
it, and from which side on a larger tile loads less and gains no more.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from dojo.roofline import CLOCK, one_thread
from level04.ceiling import step_seconds
from level04.measure import best_time
from level04.roofline import H100
from level13.tiling import SlowMemory, tiled_matmul
from level13.waves import gemm_seconds

ROOT = Path(__file__).resolve().parents[3]
TOKENS = sorted({round(2 ** (i / 8)) for i in range(89)})  # 1 to 2048
ROWS = (16, 64, 128)
SIDE = 4096
SIDES = (1, 4, 16, 64, 256)
ELEMENTS = 2**22  # that are copied: 16 MiB of float32


def on_paper() -> dict[str, list[float]]:
    """Microseconds by number of tokens, for each height of a tile, and by the roofline alone."""
    rows = {f"tiles of {n} x 128": [1e6 * gemm_seconds(m, SIDE, SIDE, H100, n) for m in TOKENS] for n in ROWS}
    plain = ({"flops": 2 * m * SIDE**2, "bytes": 2 * (SIDE**2 + 2 * m * SIDE)} for m in TOKENS)
    return {**rows, "the roofline alone": [1e6 * step_seconds(cost, H100) for cost in plain]}


def strided(stride: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a copy of so many elements, side by side and a stride apart."""
    far, out = np.ones(ELEMENTS * stride, np.float32), np.empty(ELEMENTS, np.float32)
    with one_thread():
        near = best_time(lambda: np.copyto(out, far[:ELEMENTS]), rounds, clock=CLOCK)
        return 1e3 * near, 1e3 * best_time(lambda: np.copyto(out, far[::stride]), rounds, clock=CLOCK)


def tiled(rounds: int) -> dict[str, list[float]]:
    """For each side of a square tile: times as long as numpy's product, and elements loaded over elements there are."""
    draw = np.random.default_rng(0)
    a, b = draw.standard_normal((64, 256), np.float32), draw.standard_normal((256, 256), np.float32)

    def in_tiles(side: int) -> int:
        memory = SlowMemory(a, b)
        tiled_matmul(memory, side, side, 64)
        return memory.loaded

    with one_thread():
        product = best_time(lambda: a @ b, 20 * rounds, clock=CLOCK)
        longer = [best_time(partial(in_tiles, side), rounds, clock=CLOCK) / product for side in SIDES]
    there = a.size + b.size
    return {"times as long as numpy": longer, "loaded, over what there is": [in_tiles(n) / there for n in SIDES]}


def draw(path: Path, paper: dict[str, list[float]], measured: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    for name, values in paper.items():
        style = {"linestyle": "--", "color": "black"} if "roofline" in name else {"drawstyle": "steps-mid"}
        left.plot(TOKENS, values, label=name, **style)
    left.set(xscale="log", yscale="log", xlabel="tokens", ylabel="microseconds")
    left.set_title("4096 x 4096 on an H100, on paper")
    for name, values in measured.items():
        right.plot(SIDES, values, "o-", label=name)
    right.set(xscale="log", yscale="log", xlabel="side of a tile", title="64 x 256 times 256 x 256, measured here")
    for axes, ticks in ((left, [1, 8, 64, 512, 2048]), (right, SIDES)):
        axes.xaxis.set_ticks(ticks, labels=[f"{n:,}" for n in ticks])
        axes.xaxis.set_minor_formatter("")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}" if axes is left else "")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=9)
    figure.savefig(path, dpi=150)


def table(head: str, columns: list, rows: dict[str, list[float]], digits: int) -> None:
    print(f"\n{head:<40}" + "".join(f"{column:>10,}" for column in columns))
    for name, values in rows.items():
        print(f"{name:<40}" + "".join(f"{value:>10,.{digits}f}" for value in values), flush=True)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level13 tiles", description="What tiles cost.")
    parser.add_argument("--stride", type=int, default=16, help="elements between two that are copied")
    parser.add_argument("--rounds", type=int, default=5, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level13")
    args = parser.parse_args(argv)
    if not 2 <= args.stride <= 64 or args.rounds < 1:
        raise SystemExit("a stride of 2 to 64 elements, and at least 1 round: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    paper = on_paper()
    shown = [1, 8, 16, 64, 128, 512, 2048]
    few = {name: [values[TOKENS.index(n)] for n in shown] for name, values in paper.items()}
    table("microseconds on an H100, by tokens", shown, few, 1)
    near, far = strided(args.stride, args.rounds)
    print(
        f"\ncopying {ELEMENTS:,} float32 here: {near:.1f} ms side by side, {far:.1f} a stride of {args.stride} apart,"
    )
    print(f"{far / near:.1f} times as long: memory comes in lines of 64 bytes, 16 elements, whatever is used of them")
    measured = tiled(args.rounds)
    table("64 x 256 times 256 x 256, by side of a tile", list(SIDES), measured, 1)
    draw(args.out / "tiles.png", paper, measured)
    print(f"\nwrote {args.out / 'tiles.png'}")
