"""Lab: what an architecture moves for the next token, on paper, and what that costs on this machine.

    python -m dojo lab level11 bytes [--contexts 256,1024,4096,16384] [--batch 16] [--rounds 20] [--out DIR]

Nothing here is graded. First, on paper: the bytes of a decode step of five architectures, and the milliseconds that an
H100 needs to read them, against context and batch. Then, measured: the experts that random tokens touch, beside the
formula; and one step of one layer behind a growing context, four ways: keys and values made of latents, latents as they
are, a window, a state. Times are CPU seconds of one thread, the best of some rounds; all have the same width, and
random weights. Look for three things: where two architectures change places, how soon a batch has touched nearly all
experts, and which of the curves does not know the context.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from dojo.roofline import CLOCK, one_thread
from level00.layers import attention
from level04.measure import best_time
from level04.roofline import H100
from level11.mla import attend_absorbed, attend_naive
from level11.moe import route
from level11.ssm import linear_attention_recurrent
from level11.traffic import (
    DEEPSEEK_V3,
    GEMMA3_27B,
    LLAMA_8B,
    MAMBA2,
    MIXTRAL,
    decode_step_bytes,
    expected_experts_touched,
)

ROOT = Path(__file__).resolve().parents[3]
FAMILIES = (LLAMA_8B, MIXTRAL, DEEPSEEK_V3, GEMMA3_27B, MAMBA2)
BATCHES = (1, 4, 16, 64)
HEADS, WIDTH, ROPE, LATENT, WINDOW = 16, 64, 32, 128, 512


def on_paper(contexts: list[int], batch: int) -> dict[str, list[float]]:
    """GB of a step of each architecture, by context."""
    return {arch.name: [decode_step_bytes(arch, batch, n) / 1e9 for n in contexts] for arch in FAMILIES}


def experts_touched(n_experts: int, k: int, batch: int, draws: int = 50) -> float:
    """How many different experts random tokens chose, on average."""
    draw = torch.Generator().manual_seed(0)
    chosen = (route(torch.randn(batch, n_experts, generator=draw), k)[0] for _ in range(draws))
    return sum(len(ids.unique()) for ids in chosen) / draws


def steps(context_len: int) -> dict[str, Callable[[], object]]:
    """One decode step of one layer behind so many tokens, four ways, with the same number of heads and features."""
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    q, one, state = random(1, HEADS, 1, WIDTH), random(1, HEADS, 1, WIDTH), random(1, HEADS, WIDTH, WIDTH)
    w_uk, w_uv = random(2, HEADS, WIDTH, LATENT)
    latents = q, random(1, HEADS, 1, ROPE), random(1, context_len, LATENT), random(1, context_len, ROPE), w_uk, w_uv
    k, v = random(2, 1, HEADS, min(WINDOW, context_len), WIDTH)
    decay = torch.full((1, HEADS, 1), -0.1)
    return {
        "keys made of latents": lambda: attend_naive(*latents),
        "latents as they are": lambda: attend_absorbed(*latents),
        f"a window of {WINDOW}": lambda: attention(q, k, v, "causal"),
        "a state": lambda: linear_attention_recurrent(q, one, one, decay, state),
    }


def measure(contexts: list[int], rounds: int) -> dict[str, list[float]]:
    """Microseconds of a step of each kind, by context."""
    found: dict[str, list[float]] = {}
    with one_thread(), torch.inference_mode():
        for n in contexts:
            for name, step in steps(n).items():
                found.setdefault(name, []).append(1e6 * best_time(step, rounds, clock=CLOCK))
    return found


def draw(path: Path, contexts: list[int], batch: int, paper: dict, measured: dict) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    for axes, rows, title, unit in (
        (left, paper, f"A decode step of {batch} sequences, on paper", "GB"),
        (right, measured, "One layer, one sequence, measured here", "microseconds"),
    ):
        for name, values in rows.items():
            axes.plot(contexts, values, "o-", label=name)
        axes.set(xscale="log", yscale="log", xlabel="tokens of context", ylabel=unit, title=title)
        axes.xaxis.set_ticks(contexts, labels=[f"{n:,}" for n in contexts])
        axes.xaxis.set_minor_formatter("")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(True, alpha=0.3)
        axes.set_ylim(bottom=axes.get_ylim()[0] / 15)  # room for the legend
        axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=150)


def table(head: str, columns: list, rows: dict[str, list[float]], digits: int) -> None:
    print(f"\n{head:<42}" + "".join(f"{column:>12,}" for column in columns))
    for name, values in rows.items():
        print(f"{name:<42}" + "".join(f"{value:>12,.{digits}f}" for value in values), flush=True)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level11 bytes", description="What an architecture moves.")
    parser.add_argument("--contexts", default="256,1024,4096,16384", help="tokens behind a step, with commas")
    parser.add_argument("--batch", type=int, default=16, help="sequences of a step on paper")
    parser.add_argument("--rounds", type=int, default=20, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level11")
    args = parser.parse_args(argv)
    try:
        args.contexts = sorted({int(part) for part in args.contexts.split(",")})
    except ValueError:
        raise SystemExit(f"--contexts {args.contexts} is not a list of numbers: write 256,1024") from None
    if not 1 <= args.contexts[0] <= args.contexts[-1] <= 65536 or args.batch < 1 or args.rounds < 1:
        raise SystemExit("contexts of 1 to 65536 tokens, at least 1 sequence and 1 round: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    paper = on_paper(args.contexts, args.batch)
    table(f"GB a step at batch {args.batch}, by context", args.contexts, paper, 1)
    times = {name: [1e3 * gb / (H100.bandwidth / 1e9) for gb in values] for name, values in paper.items()}
    table("milliseconds on an H100, which reads them", args.contexts, times, 2)
    by_batch = {a.name: [decode_step_bytes(a, b, 4096) / b / 1e9 for b in BATCHES] for a in FAMILIES}
    table("GB a token at context 4,096, by batch", BATCHES, by_batch, 2)
    touched = {}
    for arch in (MIXTRAL, DEEPSEEK_V3):
        of = f"{arch.k} of {arch.n_experts}"
        touched[f"{of}, formula"] = [expected_experts_touched(arch.n_experts, arch.k, b) for b in BATCHES]
        touched[f"{of}, random tokens"] = [experts_touched(arch.n_experts, arch.k, b) for b in BATCHES]
    table("experts touched in a layer, by batch", BATCHES, touched, 2)
    measured = measure(args.contexts, args.rounds)
    table("microseconds of one layer here, by context", args.contexts, measured, 0)
    draw(args.out / "bytes.png", args.contexts, args.batch, paper, measured)
    print(f"\nwrote {args.out / 'bytes.png'}")
