"""Lab: how much of a prompt arrives with a foreign cache, and from which link speed on it is worth sending.

    python -m dojo lab level15 handoff [--pair a] [--prompts 1,2,4,8,32,256] [--out DIR]

Nothing here is graded. First, measured on the stored pair of models: maps that were fitted on more and more calibration
prompts of 16 tokens, reading all heads or head by head. For each: the retention of accuracy on 256 other prompts, R² of
the keys without their rotation, and the cosine of the attention outputs, over all layers and in layer 0 alone. Then, on
paper: the link on which moving a cache takes as long as making it, by context, on an H100 at half of its peak. Look for
three things: which of the three measures puts the maps in the order of the retention, how few prompts are enough, and
why a long context is worth a slower link.
"""

import argparse
from pathlib import Path

import torch

from dojo.models import SMOLLM2, Config
from level00.layers import attention
from level04.roofline import H100
from level15 import pairlab
from level15.align import r2_score
from level15.breakeven import breakeven_bandwidth
from level15.cachemap import fit_cache_map, to_rows
from level15.handoff import Layers
from level15.quality import attention_output_cosine, retention
from level15.rerope import strip_rope
from level15.transfer import transfer_cache

ROOT = Path(__file__).resolve().parents[3]
LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, rope_theta=500000.0, max_seq_len=131072, tie_embeddings=False)
MODELS = {"SmolLM2-135M": SMOLLM2, "Llama-3.1-8B": LLAMA_8B}
CONTEXTS = (512, 2048, 8192, 32768, 131072)
LEARNED, THERE = torch.arange(16), torch.arange(40, 56)


class Judged:
    """The receiver's own cache of 256 prompts, its queries behind it, and the measures of another cache beside it."""

    def __init__(self, seed: str):
        self.sender, self.receiver = pairlab.load_pair(seed)
        judged, self.queries, self.answers = pairlab.prompts(256, 6)
        self.sent, self.own = pairlab.prefill(self.sender, judged, 40), pairlab.prefill(self.receiver, judged, 40)
        self.native, self.floor = self.accuracy(self.own), self.accuracy(None)
        self.asked: list[torch.Tensor] = []
        pairlab.answer(self.receiver, self.own, self.queries, 56, attend=self.noting)

    def noting(self, q, k, v, mask):
        self.asked.append(q)
        return attention(q, k, v, mask)

    def accuracy(self, layers: Layers | None) -> float:
        return pairlab.accuracy(pairlab.answer(self.receiver, layers, self.queries, 56), self.answers)

    def measures(self, layers: Layers) -> list[float]:
        """Retention, R² of the keys, cosine of the attention outputs over all layers, and in layer 0."""
        theta = self.receiver.config.rope_theta
        r2, cosines = [], []
        for q, (own_k, own_v), (k, v) in zip(self.asked, self.own, layers):
            right, got = (to_rows(strip_rope(keys, THERE, theta)) for keys in (own_k, k))
            r2.append(r2_score(right, got))
            cosines.append(attention_output_cosine(q, k, v, own_k, own_v))
        kept = retention(self.accuracy(layers), self.native, self.floor)
        return [kept, sum(r2) / len(r2), sum(cosines) / len(cosines), cosines[0]]


MEASURES = ("retention", "R² of the keys", "cosine", "cosine of layer 0")


def maps(seed: str, counts: list[int]) -> dict[str, list[list[float]]]:
    """For maps that read all heads, and for those that go head by head: the measures, by number of prompts."""
    judged = Judged(seed)
    learned, _, _ = pairlab.prompts(max(counts), 5)
    source, target = (pairlab.prefill(model, learned) for model in (judged.sender, judged.receiver))
    configs, found = (judged.sender.config, judged.receiver.config), {}
    for name, head_local in (("all heads", False), ("head by head", True)):
        for n in counts:
            few = [[(k[:n], v[:n]) for k, v in layers] for layers in (source, target)]
            fitted = fit_cache_map(*few, LEARNED, *configs, k=2, head_local=head_local)
            moved = transfer_cache(fitted, judged.sent, THERE, THERE, *configs)
            found.setdefault(name, []).append(judged.measures(moved))
    return found


def links() -> dict[str, list[float]]:
    """GB/s of the link that breaks even, by context; bfloat16, a prefill at half of an H100's peak."""
    speed = 0.5 * H100.peak_flops
    return {name: [breakeven_bandwidth(config, n, speed) / 1e9 for n in CONTEXTS] for name, config in MODELS.items()}


def draw(path: Path, counts: list[int], found: dict[str, list[list[float]]], paper: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    for (name, rows), style in zip(found.items(), ("-", "--")):
        for measure, values, color in zip(MEASURES, zip(*rows), ("black", "C3", "C0", "C2")):
            left.plot(counts, values, style, marker="o", color=color, label=f"{measure}, {name}")
    left.set(xscale="log", xlabel="calibration prompts of 16 tokens", title="What a map is worth, measured here")
    left.set_ylim(-1, 1.1)
    for name, values in paper.items():
        right.plot(CONTEXTS, values, "o-", label=name)
    right.set(xscale="log", yscale="log", xlabel="tokens of context", ylabel="GB/s")
    right.set_title("A faster link: move the cache. A slower one: make it")
    for axes, ticks in ((left, counts), (right, CONTEXTS)):
        axes.xaxis.set_ticks(ticks, labels=[f"{n:,}" for n in ticks])
        axes.xaxis.set_minor_formatter("")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    right.yaxis.set_ticks([2, 5, 10, 20, 50])
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("")
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level15 handoff", description="What a foreign cache is worth.")
    parser.add_argument("--pair", default="a", choices=["a", "b", "c"], help="which stored pair of models")
    parser.add_argument("--prompts", default="1,2,4,8,32,256", help="calibration prompts, with commas")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level15")
    args = parser.parse_args(argv)
    try:
        args.counts = sorted({int(part) for part in args.prompts.split(",")})
    except ValueError:
        raise SystemExit(f"--prompts {args.prompts} is not a list of numbers: write 4,32,256") from None
    if not 1 <= args.counts[0] <= args.counts[-1] <= 4096:
        raise SystemExit("calibration takes 1 to 4096 prompts: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    found = maps(args.pair, args.counts)
    for name, rows in found.items():
        print(f"\n{name + ', calibration prompts':<36}" + "".join(f"{n:>10,}" for n in args.counts))
        for measure, values in zip(MEASURES, zip(*rows)):
            print(f"{measure:<36}" + "".join(f"{value:>10.3f}" for value in values), flush=True)
    paper = links()
    print(f"\n{'GB/s of a link that breaks even':<36}" + "".join(f"{n:>10,}" for n in CONTEXTS))
    for name, values in paper.items():
        print(f"{name:<36}" + "".join(f"{value:>10.3f}" for value in values))
    draw(args.out / "handoff.png", args.counts, found, paper)
    print(f"\nwrote {args.out / 'handoff.png'}")
