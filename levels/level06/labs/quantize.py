"""Lab: fewer bits in SmolLM2's weights and in its cache. What do they save, and what do they cost?

    python -m dojo lab level06 quantize [--groups 32,64,192] [--rounds 5] [--tokens 169] [--out DIR]

Nothing here is graded. Each row is the model with the matrices of its blocks (and its head, where the row says so)
through your quantizers: bytes, damage on a text of 169 tokens against float32, and CPU time of a decode step on one
thread, in turn with float32. "saved" is what fewer bytes would give if nothing else counted. Look for three things:
rows that store little and are slower than float32, what perplexity does not show, and one row that is too good.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from dojo.models import load
from dojo.roofline import CLOCK, one_thread
from level00.layers import attention
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level02.cache import KVCache
from level04.measure import best_time
from level06.kernels import Int4Kernel, Int8Kernel, available
from level06.quality import TEXT, mean_kl, perplexity, relative_error, top1_agreement
from level06.quantize import fake_quantize
from level06.weights import Int4Weight, Int8Weight, any_linear, quantized

ROOT = Path(__file__).resolve().parents[3]
PROMPT = 16  # tokens before the step that is timed
CACHES = [("8 bits, keys by channel", 8, -2), ("4 bits, keys by channel", 4, -2), ("4 bits, keys by token", 4, -1)]


@dataclass(frozen=True)
class Row:
    """One variant of the model, and what was measured of it."""

    name: str
    megabytes: float  # that a token reads: the blocks' matrices and the head, as they are stored
    error: float  # of a product of the first up_proj, relative
    perplexity: float
    kl: float
    agreement: float
    seconds: float  # of a decode step
    reference_seconds: float  # of float32's, in turn with it


def variants(params, groups: list[int]) -> list[tuple[str, Callable]]:
    """(name, a function that makes the parameters): made one after the other, so that one is in memory at a time."""

    def bf16():
        return {name: w.bfloat16() for name, w in params.items()}

    found = [("float32", lambda: params), ("bfloat16", bf16), ("int8", lambda: quantized(params, Int8Weight))]
    found += [
        (f"int4, groups of {g}", lambda g=g: quantized(params, partial(Int4Weight, group=g))) for g in sorted(groups)
    ]
    if available():
        found.append(("int8, kernel, head too", lambda: quantized(bf16(), Int8Kernel, Int8Kernel)))
        if 64 in groups:
            four = partial(Int4Kernel, group=64)
            found.append(("int4 of 64, kernel, head int8", lambda: quantized(bf16(), four, Int8Kernel)))
    return found


def read_bytes(params) -> int:
    """Bytes of every matrix that a token meets; the embedding only if it is the head."""
    head = "lm_head.weight" if "lm_head.weight" in params else "model.embed_tokens.weight"
    return sum(w.nbytes for name, w in params.items() if name.endswith("_proj.weight") or name == head)


def stepping(config, params, ids):
    """A decode step behind PROMPT tokens, that leaves the cache as it was."""
    cache = KVCache(config, 1, PROMPT + 1, params["model.embed_tokens.weight"].dtype)
    forward(params, config, ids[:, :PROMPT], cache, linear=any_linear)

    def step():
        forward(params, config, ids[:, PROMPT : PROMPT + 1], cache, linear=any_linear)
        cache.truncate(PROMPT)

    return step


def first_product_error(params, changed) -> float:
    """Of one product of the first block, relative: before later layers add theirs."""
    name = "model.layers.0.mlp.up_proj.weight"
    x = torch.randn(64, params[name].shape[1], generator=torch.Generator().manual_seed(0))
    dtype = changed["model.embed_tokens.weight"].dtype
    return relative_error(any_linear(x, params[name]), any_linear(x.to(dtype), changed[name]).float())


def measure(config, params, ids, groups: list[int], rounds: int) -> list[Row]:
    with one_thread():
        reference, theirs, rows = forward(params, config, ids)[0], stepping(config, params, ids), []
        for name, make in variants(params, groups):
            changed = make()
            logits = forward(changed, config, ids, linear=any_linear)[0].float()
            step, times = stepping(config, changed, ids), []
            for _ in range(rounds):
                times.append([best_time(one, rounds=1, clock=CLOCK) for one in (step, theirs)])
            rows.append(
                Row(
                    name,
                    read_bytes(changed) / 1e6,
                    first_product_error(params, changed),
                    perplexity(logits[:-1], ids[0, 1:]),
                    mean_kl(reference, logits),
                    top1_agreement(reference, logits),
                    *map(min, zip(*times)),
                )
            )
            print(line(rows[-1], rows[0]), flush=True)
    return rows


def line(row: Row, first: Row) -> str:
    saved, faster = first.megabytes / row.megabytes, row.reference_seconds / row.seconds
    return (
        f"{row.name:<30}{row.megabytes:>8.1f}{row.error:>9.4f}{row.perplexity:>9.2f}{row.kl:>9.4f}"
        f"{row.agreement:>7.0%}{1 / row.seconds:>10.1f}{saved:>8.2f}{faster:>10.2f}"
    )


def caches(config, params, ids) -> None:
    """The cache in fewer bits: values always share a scale by token, keys as the row says."""
    reference = forward(params, config, ids)[0]
    print(f"\n{'keys and values in':<30}{'perplexity':>12}{'KL':>9}{'top-1':>7}")
    for name, bits, dim in CACHES:

        def attend(q, k, v, mask, bits=bits, dim=dim):
            return attention(q, fake_quantize(k, bits, dim), fake_quantize(v, bits, -1), mask)

        logits = forward(params, config, ids, attend=attend)[0]
        kl, same = mean_kl(reference, logits), top1_agreement(reference, logits)
        print(f"{name:<30}{perplexity(logits[:-1], ids[0, 1:]):>12.2f}{kl:>9.4f}{same:>7.0%}")


def draw(path: Path, rows: list[Row]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.8), layout="constrained")).subplots(1, 2)
    places = range(len(rows))
    saved = [rows[0].megabytes / row.megabytes for row in rows]
    faster = [row.reference_seconds / row.seconds for row in rows]
    left.barh([p - 0.2 for p in places], saved, 0.4, color="lightgray", label="bytes saved")
    left.barh([p + 0.2 for p in places], faster, 0.4, color="tab:green", label="measured")
    left.axvline(1, color="k", linewidth=0.8)
    left.set_yticks(list(places), labels=[f"{row.name}  {place}" for place, row in enumerate(rows)])
    left.invert_yaxis()
    left.set(xlabel="decode, times float32", title="What fewer bytes could give, and what they gave")
    left.legend(fontsize=8)
    for place, row in list(enumerate(rows))[1:]:
        at = row.megabytes, max(row.kl, 1e-5)
        right.plot(*at, "o", color="tab:red")
        right.annotate(place, at, xytext=(6, 4), textcoords="offset points")
    right.set(
        xlabel="MB that a token reads",
        ylabel="KL to float32, nats (less than 1e-5 is drawn there)",
        title="What they cost",
        yscale="log",
    )
    right.set(xlim=(0, 1.1 * max(row.megabytes for row in rows[1:])), ylim=(5e-6, 3))
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level06 quantize", description="Bits, bytes and damage.")
    parser.add_argument("--groups", default="32,64,192", help="group sizes of int4, with commas")
    parser.add_argument("--rounds", type=int, default=5, help="each step is timed so often; the best counts")
    parser.add_argument("--tokens", type=int, default=10**6, help="so much of the text")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level06")
    args = parser.parse_args(argv)
    try:
        args.groups = sorted({int(part) for part in args.groups.split(",")})
    except ValueError:
        raise SystemExit(f"--groups {args.groups} is not a list of numbers: write 32,64,192") from None
    config = load()[0]
    widths = config.d_model, config.d_ff, config.n_heads * config.head_dim
    if bad := [group for group in args.groups if group < 1 or any(width % group for width in widths)]:
        raise SystemExit(
            f"--groups {bad[0]} does not divide the rows of {min(widths)} and {max(widths)} weights: try 64"
        )
    if args.rounds < 1 or args.tokens <= PROMPT:
        raise SystemExit(f"at least 1 round, and more than {PROMPT} tokens: give more")
    return args


def text_ids(data) -> torch.Tensor:
    return torch.tensor([SmolTokenizer.from_model(data).encode(TEXT)])


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    config, params, data = load()
    ids = text_ids(data)[:, : args.tokens]
    print(f"{ids.shape[1]} tokens; decode behind {PROMPT}, {args.rounds} rounds, one thread\n")
    print(f"{'weights':<30}{'MB/token':>8}{'error':>9}{'perplex.':>9}{'KL':>9}{'top-1':>7}", end="")
    print(f"{'tokens/s':>10}{'saved':>8}{'measured':>10}")
    rows = measure(config, params, ids, args.groups, args.rounds)
    caches(config, params, ids)
    print(
        "\nWithout a kernel every step makes a float copy of every matrix: little is stored, and more is moved than in"
    )
    print(
        "float32. int8 makes one such copy, which may stay in the chip's cache; int4 makes several, and is slower than"
    )
    print(
        "float32. A kernel reads the codes as they are. The file that this model comes from has 4 bits in groups of 32"
    )
    print("already, so that row only finds its codes again: it says nothing about a quantizer.")
    if not available():
        print("This PyTorch has no kernels for 8 and 4 bits: their rows are left out.")
    draw(args.out / "quantize.png", rows)
    print(f"\nwrote {args.out / 'quantize.png'}")
