"""Lab: where the scores are. Bytes by tile height, time by length, and a cache that is read where it lies.

    python -m dojo lab level07 tiles [--lengths 256,512,1024,2048] [--context 1024] [--rounds 3] [--out DIR]

Nothing here is graded. Attention with the heads of one SmolLM2 layer (9 query heads, 3 KV heads of 64), on one thread.
First the bytes that cross the edge of a chip which holds the tensors of one tile: by your formula, and counted. Then
the CPU time of your tiles beside the whole matrix of scores and PyTorch's own kernel. Last a decode step from a pool:
gathered first, and through the block table. Look for three things: how the bytes fall with the height of a tile, from
which length on the whole matrix falls behind, and a step that moves a third of the bytes and takes longer.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F

from dojo.cost import count
from dojo.models import SMOLLM2
from dojo.roofline import CLOCK, one_thread
from level00.layers import attention
from level04.measure import best_time
from level06.paged import PagedCache, Pool
from level07.flash import flash_attention
from level07.paged import BlockCache, paged_attend
from level07.traffic import flash_attention_bytes, naive_attention_bytes

ROOT = Path(__file__).resolve().parents[3]
CONFIG = SMOLLM2
H, G, D = CONFIG.n_heads, CONFIG.n_kv_heads, CONFIG.head_dim
HEIGHTS = (16, 32, 64, 128, 256)
BLOCKS = (16, 64, 256)


def heads(n: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, count, n, D, generator=draw) for count in (H, G, G)]


def traffic(n: int) -> list[tuple[str, float, float]]:
    """(tile, predicted MB, counted MB): Q and out for each query head, K and V for each KV head."""
    q, k, v = heads(n)
    rows, ends = [], 2 * 4 * n * D
    for tile in (size for size in HEIGHTS if H * size * max(size, D) < G * n * D):  # K does not fit on the chip
        predicted = H * ends + G * (flash_attention_bytes(n, D, tile, tile, 4, True) - ends)
        counted = count(flash_attention, q, k, v, "causal", tile, tile, on_chip=4 * H * tile * max(tile, D))
        rows.append((f"{tile}", predicted / 1e6, counted.bytes / 1e6))
    whole = count(attention, q, k, v, "causal", on_chip=4 * H * 64 * 64)
    return [*rows, ("whole", H * naive_attention_bytes(n, D, 4) / 1e6, whole.bytes / 1e6)]


def ways(n: int) -> list:
    """The same attention three times: the whole matrix, tiles of 128, PyTorch's kernel."""
    q, k, v = heads(n)
    wide = [x.repeat_interleave(H // G, 1) for x in (k, v)]
    return [
        lambda: attention(q, k, v, "causal"),
        lambda: flash_attention(q, k, v, "causal"),
        lambda: F.scaled_dot_product_attention(q, *wide, is_causal=True),
    ]


def speeds(lengths: list[int], rounds: int) -> list[tuple[int, list[float]]]:
    """(n, CPU seconds of each way), in turn."""
    found = []
    for n in lengths:
        calls = ways(n)
        times = [[best_time(call, rounds=1, clock=CLOCK) for call in calls] for _ in range(rounds)]
        found.append((n, [min(column) for column in zip(*times)]))
    return found


def stepping(cache, attend, context: int):
    """The attention of a decode step in all layers, without the weights, that leaves the cache as it was."""
    q, one = torch.ones(1, H, 1, D), torch.ones(1, G, 1, D)
    for layer in range(CONFIG.n_layers):
        cache.update(layer, *(torch.ones(1, G, context - 1, D) for _ in "kv"))

    def step():
        for layer in range(CONFIG.n_layers):
            attend(q, *cache.update(layer, one, one), "causal")
        cache.truncate(context - 1)

    return step


def decoding(context: int, rounds: int) -> list[tuple[str, float, float]]:
    """(way, MB, milliseconds): from the pool by way of a copy, and through the block table."""
    rows = []
    for size in BLOCKS:
        for name, cls, attend in (("gathered", PagedCache, attention), ("through the table", BlockCache, paged_attend)):
            pool = Pool(CONFIG, -(-context // size), size)
            step = stepping(cls(pool), attend, context)
            moved = count(step, on_chip=4 * size * G * D, known=[pool.keys, pool.values]).bytes
            seconds = min(best_time(step, rounds=1, clock=CLOCK) for _ in range(rounds))
            rows.append((f"{name}, blocks of {size}", moved / 1e6, 1e3 * seconds))
    return rows


def draw(path: Path, n: int, bytes_moved, times) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed
    from matplotlib.ticker import LogLocator

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    *tiles, (_, _, whole) = bytes_moved
    names = [name for name, _, _ in tiles]
    left.plot(names, [p for _, p, _ in tiles], "k--", label="your formula")
    left.plot(names, [c for _, _, c in tiles], "o", color="tab:green", label="counted")
    left.axhline(whole, color="tab:red", label="the whole matrix, counted")
    left.set(xlabel="queries in a tile", ylabel="MB", yscale="log", title=f"Bytes that cross the edge, {n} tokens")
    for name, color, i in (("whole matrix", "tab:red", 0), ("tiles of 128", "tab:green", 1), ("PyTorch", "k", 2)):
        ms = [1e3 * seconds[i] for _, seconds in times]
        right.plot([n for n, _ in times], ms, "o-", color=color, label=name)
    right.set(xscale="log", yscale="log", xlabel="tokens", ylabel="milliseconds", title="Causal attention of one layer")
    right.set_xticks([n for n, _ in times], labels=[n for n, _ in times])
    right.minorticks_off()
    for axes in (left, right):
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,g}")
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level07 tiles", description="Where the scores are.")
    parser.add_argument("--lengths", default="256,512,1024,2048", help="tokens, with commas")
    parser.add_argument("--context", type=int, default=1024, help="tokens of the decode step")
    parser.add_argument("--rounds", type=int, default=3, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level07")
    args = parser.parse_args(argv)
    try:
        args.lengths = sorted({int(part) for part in args.lengths.split(",")})
    except ValueError:
        raise SystemExit(f"--lengths {args.lengths} is not a list of numbers: write 256,512") from None
    if args.lengths[0] < 1 or args.lengths[-1] < 64 or args.context < 2 or args.rounds < 1:
        raise SystemExit("a length of at least 64, a context of at least 2 and at least 1 round: give more")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    n = args.lengths[-1]
    with one_thread():
        print(f"{n} tokens, causal\n\n{'tile':<10}{'MB, formula':>12}{'MB, counted':>12}", flush=True)
        moved = traffic(n)
        for name, predicted, counted in moved:
            print(f"{name:<10}{predicted:>12.1f}{counted:>12.1f}")
        print(f"\n{'tokens':<10}{'whole, ms':>12}{'tiles, ms':>12}{'PyTorch, ms':>12}{'whole / tiles':>15}", flush=True)
        times = speeds(args.lengths, args.rounds)
        for length, (whole, tiles, library) in times:
            print(f"{length:<10}{1e3 * whole:>12.2f}{1e3 * tiles:>12.2f}{1e3 * library:>12.2f}{whole / tiles:>15.1f}")
        print(f"\n{f'a decode step at {args.context}':<36}{'MB':>8}{'ms':>8}", flush=True)
        for name, megabytes, ms in decoding(args.context, args.rounds):
            print(f"{name:<36}{megabytes:>8.1f}{ms:>8.1f}")
    print(
        "\nThrough the table nothing is copied: a third of the bytes move. But here Python walks from block to block,"
    )
    print(
        "a dozen calls for each, and in small blocks that takes longer than copying them. On a GPU one kernel does it:"
    )
    print("count bytes to see what a technique saves, and time to see whether this program gets it.")
    draw(args.out / "tiles.png", n, moved, times)
    print(f"\nwrote {args.out / 'tiles.png'}")
