"""Lab: what messages cost. Latency and bandwidth between processes, an all-reduce predicted from them, and a model on
three ranks.

    python -m dojo lab level09 wires [--ranks 2,3,4] [--tokens 16] [--rounds 20] [--out DIR]

Nothing here is graded. Real processes of this machine talk over gloo. Two messages, a small and a large one, give the
link: seconds for a message, and bytes a second. From these two numbers your formula says how long an all-reduce takes,
and that is measured. Then SmolLM2 on one process and on three. Last, on paper, Llama-3-8B on up to 16 H100s: over
NVLink, and over a network. All times are on the wall, the best of some rounds: other programs make them longer, and
more ranks than cores make them much longer. Look for three things: how little an all-reduce of a decode step has to do
with its bytes, why three ranks on this machine are slower than one, and where more GPUs begin to be slower.
"""

import argparse
from pathlib import Path

import torch

from dojo.models import Config, load
from dojo.roofline import one_thread
from level00.tokenizer import SmolTokenizer
from level01.generate import generate
from level02.cache import KVCache
from level04.measure import best_time
from level04.roofline import H100
from level09.collectives import ring_all_reduce
from level09.comm import Comm
from level09.cost import NETWORK, NVLINK, Link, all_reduce_seconds, tp_decode_seconds
from level09.processes import Ranks
from level09.tensor import parallel_generate

ROOT = Path(__file__).resolve().parents[3]
SIZES = (8, 2304, 32_768, 524_288, 8_388_608)  # bytes; 2,304 are one token of SmolLM2
LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
GPUS = (1, 2, 4, 8, 16)
PROMPT = "The capital of France is"


def exchange(comm: Comm, num_bytes: int, rounds: int) -> float:
    """Of one message to the right and one from the left, at the same time."""
    x = torch.ones(num_bytes // 4)
    return best_time(lambda: comm.sendrecv(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size), rounds)


def all_reduce(comm: Comm, num_bytes: int, rounds: int) -> float:
    x = torch.ones(num_bytes // 4)
    return best_time(lambda: ring_all_reduce(comm, x), rounds)


def measure_link(ranks: Ranks, rounds: int) -> Link:
    """From the smallest and the largest message; the slowest rank counts."""
    small, large = (max(ranks.run(exchange, num_bytes, rounds)) for num_bytes in (SIZES[0], SIZES[-1]))
    return Link(f"gloo, {ranks.size} ranks", small, SIZES[-1] / max(large - small, 1e-9))


def reduces(ranks: Ranks, link: Link, rounds: int) -> list[tuple[int, float, float]]:
    """(bytes, predicted seconds, measured seconds) of an all-reduce."""
    found = []
    for num_bytes in SIZES:
        seconds = max(ranks.run(all_reduce, num_bytes, rounds))
        found.append((num_bytes, all_reduce_seconds(num_bytes, ranks.size, link), seconds))
    return found


def tokens_per_second(comm: Comm | None, tokens: int) -> float:
    """Of SmolLM2 after a short prompt, on this rank with the others; alone if there are none."""
    config, params, data = load()
    prompt = SmolTokenizer.from_model(data).encode(PROMPT)

    def run(n: int):
        with torch.inference_mode():
            if comm is None:
                return generate(params, config, prompt, n, (), KVCache(config, 1, len(prompt) + n))
            return parallel_generate(comm, params, config, prompt, n)

    return (tokens - 1) / max(best_time(lambda: run(tokens), 1) - best_time(lambda: run(1), 1), 1e-9)


def on_paper() -> dict[str, list[float]]:
    """Milliseconds of a decode step of Llama-3-8B at context 1,024, batch 1, by number of H100s."""
    steps = {"without messages": Link("none", 0, 1e30), "NVLink": NVLINK, "a network": NETWORK}
    return {
        name: [1e3 * tp_decode_seconds(LLAMA_8B, 1, 1024, size, H100, link) for size in GPUS]
        for name, link in steps.items()
    }


def draw(path: Path, measured: dict[int, list], paper: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    for color, (size, rows) in zip(("tab:blue", "tab:green", "tab:orange", "tab:red"), measured.items()):
        left.plot([r[0] for r in rows], [1e3 * r[1] for r in rows], "--", color=color)
        left.plot([r[0] for r in rows], [1e3 * r[2] for r in rows], "o", color=color, label=f"{size} ranks")
    title = "All-reduce: points measured, dashes predicted"
    left.set(xscale="log", yscale="log", xlabel="bytes", ylabel="milliseconds", title=title)
    left.yaxis.set_major_formatter("{x:g}")
    styles = {"without messages": "k:", "NVLink": "o-", "a network": "s-"}
    for name, values in paper.items():
        right.plot(GPUS, values, styles[name], label=name)
    title = "Llama-3-8B on H100s, one token, on paper"
    right.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="milliseconds", title=title)
    for axis, ticks in ((right.xaxis, GPUS), (right.yaxis, (0.5, 1, 2, 5, 10, 20))):
        axis.set_minor_formatter("")
        axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level09 wires", description="What messages cost.")
    parser.add_argument("--ranks", default="2,3,4", help="numbers of processes, with commas")
    parser.add_argument("--tokens", type=int, default=16, help="of SmolLM2's answer")
    parser.add_argument("--rounds", type=int, default=20, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level09")
    args = parser.parse_args(argv)
    try:
        args.ranks = sorted({int(part) for part in args.ranks.split(",")})
    except ValueError:
        raise SystemExit(f"--ranks {args.ranks} is not a list of numbers: write 2,3") from None
    if not 2 <= args.ranks[0] <= args.ranks[-1] <= 4 or args.tokens < 2 or args.rounds < 1:
        raise SystemExit("2 to 4 ranks, at least 2 tokens and at least 1 round: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    measured = {}
    print(
        f"{'ranks':<8}{'us a message':>14}{'GB/s':>8}{'bytes':>12}{'predicted, ms':>16}{'measured, ms':>14}", flush=True
    )
    for size in args.ranks:
        with Ranks(size) as ranks:
            link = measure_link(ranks, args.rounds)
            measured[size] = reduces(ranks, link, args.rounds)
        for i, (num_bytes, predicted, seconds) in enumerate(measured[size]):
            own = f"{size:<8}{1e6 * link.latency:>14.0f}{link.bandwidth / 1e9:>8.2f}" if i == 0 else " " * 30
            print(f"{own}{num_bytes:>12,}{1e3 * predicted:>16.2f}{1e3 * seconds:>14.2f}", flush=True)
    with one_thread():
        alone = tokens_per_second(None, args.tokens)
    with Ranks(3, seconds=120) as ranks:
        together = min(ranks.run(tokens_per_second, args.tokens))
    print(f"\nSmolLM2, tokens/s: {alone:.1f} on one process, {together:.1f} on three, with 246 messages for a token.")
    print("Three ranks read a third each, at the same time, if there are three memories to read from. Here it is one.")
    paper = on_paper()
    print(f"\n{'Llama-3-8B, ms a token':<24}" + "".join(f"{size:>8}" for size in GPUS) + "   H100s, on paper")
    for name, values in paper.items():
        print(f"{name:<24}" + "".join(f"{value:>8.2f}" for value in values))
    draw(args.out / "wires.png", measured, paper)
    print(f"\nwrote {args.out / 'wires.png'}")
