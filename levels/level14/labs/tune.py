"""Lab: SmolLM2 learns a rule from a few examples, with an adapter; what it says before and after, and the bill.

    python -m dojo lab level14 tune [--steps 12] [--rank 4] [--rate 0.01] [--out DIR]

Nothing here is graded. Eight questions with the answers of a pirate stand in one packed row; adapters on q and v of the
last 8 layers learn them. The lab prints the loss of each step, on the examples and on questions that are not among
them; answers before and after, decoded greedily with the adapters merged in; and the bytes: what learns, what AdamW
keeps of it, and what both would be if all weights learned. Look for three things: how few steps it takes, what the
model does with questions of another kind, and which of the two losses stops falling first.
"""

import argparse
from pathlib import Path
from time import process_time

import torch

from dojo.models import load
from dojo.roofline import one_thread
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import generate
from level02.cache import KVCache
from level06.weights import any_linear
from level14.adapters import attach, merged, num_elements, projections
from level14.frozen import on_states, prefix_states, upper_layers
from level14.memory import training_bytes
from level14.packing import packed_row
from level14.sft import loss_mask, sft_loss
from level14.train import adamw, optimizer_bytes, step

ROOT = Path(__file__).resolve().parents[3]
FIRST = 22  # of 30 layers: those before it are frozen, and run once
NAMES = {"fruit": "apple", "color": "red", "planet": "Mars", "river": "the Nile"}
NAMES |= {"metal": "iron", "bird": "robin", "sport": "football", "month": "June"}
UNSEEN = {"tree": "oak", "country": "Peru", "number": "seven"}
ASKED = ("Name a tree.", "Name a country.", "What is the capital of France?")


def row(tokenizer: SmolTokenizer, pairs: dict[str, str]) -> tuple:
    """A packed row of questions and their answers."""
    examples, end = [], tokenizer.special["<|im_end|>"]
    for thing, name in pairs.items():
        prompt = tokenizer.encode_chat([{"role": "user", "content": f"Name a {thing}."}])
        examples.append(loss_mask([("user", prompt), ("assistant", [*tokenizer.encode(f"Arr, {name}!"), end])]))
    return packed_row(examples)


class Tuning:
    """The layers from FIRST on with their adapters, and two rows: to learn from, and to look at."""

    def __init__(self, rank: int):
        self.config, self.params, data = load()
        self.tokenizer = SmolTokenizer.from_model(data)
        self.rows = [row(self.tokenizer, pairs) for pairs in (NAMES, UNSEEN)]
        self.states = [
            prefix_states(self.params, self.config, FIRST, ids, positions=positions, mask=mask)
            for ids, _, positions, mask in self.rows
        ]
        upper, self.upper = upper_layers(self.params, self.config, FIRST)
        draw = torch.Generator().manual_seed(0)
        self.adapted, self.trainable = attach(upper, projections(range(self.upper.n_layers)), rank, 2 * rank, draw)

    def loss(self, which: int) -> torch.Tensor:
        ids, learned, positions, mask = self.rows[which]
        params = on_states(self.adapted, self.states[which])
        logits = forward(params, self.upper, ids, linear=any_linear, positions=positions, mask=mask)
        return sft_loss(logits, ids, learned)

    def whole(self) -> dict:
        """All layers, with the adapters merged into theirs."""
        found = dict(self.params)
        for name, weight in merged(self.adapted).items():
            if name.startswith("model.layers."):
                number, _, rest = name.removeprefix("model.layers.").partition(".")
                found[f"model.layers.{int(number) + FIRST}.{rest}"] = weight
        return found

    def answer(self, params: dict, question: str, tokens: int = 16) -> str:
        ids, end = self.tokenizer.encode_chat([{"role": "user", "content": question}]), self.tokenizer.special
        cache = KVCache(self.config, 1, len(ids) + tokens)
        with torch.inference_mode():
            said = generate(params, self.config, ids, tokens, {end["<|im_end|>"]}, cache)
        return self.tokenizer.decode([token for token in said if token != end["<|im_end|>"]]).strip()


def learn(tuning: Tuning, steps: int, rate: float) -> tuple[list[tuple[float, float]], int]:
    """(losses before each step and after the last: examples, unseen questions; bytes of the optimizer)."""
    optimizer, found = adamw(tuning.trainable, rate), []
    print(f"\n{'step':>4}{'loss':>10}{'unseen':>10}{'seconds':>10}")
    for number in range(steps + 1):
        began = process_time()
        with torch.no_grad():
            unseen = tuning.loss(1).item()
        loss = step(optimizer, tuning.loss(0)) if number < steps else tuning.loss(0).item()
        found.append((loss, unseen))
        print(f"{number:>4}{loss:>10.3f}{unseen:>10.3f}{process_time() - began:>10.1f}", flush=True)
    return found, optimizer_bytes(optimizer)


def draw(path: Path, losses: list[tuple[float, float]]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    axes = (figure := Figure(figsize=(7, 4.5), layout="constrained")).subplots()
    for name, values in zip(("the examples", "questions it has not seen"), zip(*losses)):
        axes.plot(values, "o-", label=name)
    axes.set(xlabel="steps", ylabel="nats a token", title="SmolLM2 learns to answer like a pirate", ylim=(0, None))
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level14 tune", description="A rule, learned by an adapter.")
    parser.add_argument("--steps", type=int, default=12, help="of AdamW, about a second each")
    parser.add_argument("--rank", type=int, default=4, help="of the adapters; alpha is twice as much")
    parser.add_argument("--rate", type=float, default=0.01, help="the learning rate")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level14")
    args = parser.parse_args(argv)
    if args.steps < 1 or not 1 <= args.rank <= 192 or args.rate <= 0:
        raise SystemExit("at least 1 step, a rank of 1 to 192 and a rate above 0: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    with one_thread():
        tuning = Tuning(args.rank)
        before = [tuning.answer(tuning.params, question) for question in ASKED]
        losses, kept = learn(tuning, args.steps, args.rate)
        whole = tuning.whole()
        print()
        for question, old in zip(ASKED, before):
            print(f"{question}\n    before  {old!r}\n    after   {tuning.answer(whole, question)!r}")
    count, numbers = sum(w.numel() for w in tuning.params.values()), num_elements(tuning.trainable)
    print(f"\n{numbers:,} of {count:,} numbers learn; AdamW keeps {kept:,} bytes of them, in float32.")
    print(f"In bfloat16 with AdamW: {training_bytes(count, numbers) / 1e6:,.0f} MB to train the adapters,", end=" ")
    print(f"{training_bytes(count, count) / 1e6:,.0f} MB to train all of it.")
    draw(args.out / "tune.png", losses)
    print(f"\nwrote {args.out / 'tune.png'}")
