"""Lab: what drafts gain, and when. Speed-up against acceptance rate, predicted and measured, on SmolLM2.

    python -m dojo lab level08 drafts [--tokens 48] [--gamma 4] [--rounds 2] [--out DIR]

Nothing here is graded. First what a pass over several tokens costs on this machine. Then a drafter with a dial: it
knows the answer and spoils some of its tokens, so the acceptance rate is what you set, and drafts are free. Then real
drafters on two prompts, one whose answer is in its text and one whose answer is new: words copied from the text, and a
copy of the model in 8 bits, which is nearly always right and not nearly cheap enough. Look for three things: the loss
at acceptance 0, a prediction that needs only two measured numbers, and how much of it depends on the prompt.
"""

import argparse
from functools import partial
from pathlib import Path

import torch

from dojo.models import load
from dojo.roofline import CLOCK, one_thread
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import generate
from level02.cache import KVCache
from level04.measure import best_time
from level06.kernels import Int8Kernel, available
from level06.weights import any_linear, quantized
from level08.draft import ModelDrafter, ngram_draft
from level08.loop import speculate
from level08.speedup import best_gamma, estimate_alpha, speedup

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = {
    "old": "Repeat this text word for word: The quick brown fox jumps over the lazy dog. The five boxing wizards jump "
    "quickly.",
    "new": "Write a short story about a lighthouse.",
}
DIAL = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
TOKENS = (1, 2, 3, 5, 9, 17)  # of a pass whose cost is measured


class Bench:
    """A prompt in a cache, and its answer: timed with and without drafts, again and again from the same place."""

    def __init__(self, model, text: str, tokens: int, rounds: int):
        self.config, self.params, data = model
        ids = SmolTokenizer.from_model(data).encode(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
        self.prompt, self.tokens, self.rounds = ids, tokens, rounds
        self.cache = KVCache(self.config, 1, len(ids) + tokens + max(TOKENS))
        forward(self.params, self.config, torch.tensor([ids[:-1]]), self.cache)
        self.answer = generate(self.params, self.config, ids, tokens)
        self.plain = self.timed(lambda tokens, k: [], 0)[0]
        self.plain_step = self.plain / tokens

    def timed(self, propose, gamma: int) -> tuple[float, float, int]:
        """(CPU seconds of the answer, acceptance rate, passes); the drafter sees the whole text."""
        start, seen = len(self.prompt) - 1, []

        def run():
            rounds = list(
                speculate(
                    self.params,
                    self.config,
                    self.prompt[-1:],
                    self.tokens,
                    lambda tokens, k: propose(self.prompt[:-1] + tokens, k),
                    gamma,
                    (),
                    self.cache,
                )
            )
            self.cache.truncate(start)
            seen[:] = rounds

        seconds = best_time(run, rounds=self.rounds, warmup=0, clock=CLOCK)
        accepted, proposed = [r.accepted for r in seen], [r.proposed for r in seen]
        return seconds, estimate_alpha(accepted, proposed) if any(proposed) else 0.0, len(seen)

    def pass_seconds(self, n: int) -> float:
        """Of one pass over n tokens behind the prompt."""
        start, ids = len(self.prompt) - 1, torch.tensor([(self.prompt * 2)[:n]])

        def run():
            forward(self.params, self.config, ids, self.cache)
            self.cache.truncate(start)

        return best_time(run, rounds=3 * self.rounds, clock=CLOCK)

    def dial(self, alpha: float, generator: torch.Generator):
        """A drafter that is right with probability alpha, whatever it has said before."""
        spoiled = torch.rand(self.tokens, generator=generator) >= alpha

        def propose(tokens, k):
            at = len(tokens) - len(self.prompt)
            return [token + int(wrong) for token, wrong in zip(self.answer[at : at + k], spoiled[at : at + k])]

        return propose


def eight_bits(model):
    """The same model with matrices in 8 bits, as a drafter; None where PyTorch has no such kernel."""
    config, params, _ = model
    if not available():
        return None
    small = quantized(params, Int8Kernel, Int8Kernel)
    return lambda: ModelDrafter(small, config, forward=partial(forward, linear=any_linear)).propose


def draft_cost(bench: Bench, make) -> float:
    """Of one drafted token, in plain steps: what the drafter takes for 16 tokens behind the prompt, but the prompt."""
    propose = make()
    propose(bench.prompt, 1)
    return best_time(lambda: propose(bench.prompt, 16), rounds=bench.rounds, clock=CLOCK) / 16 / bench.plain_step


def measure(model, tokens: int, gamma: int, rounds: int):
    """Costs of passes, rows of the dial, rows of real drafters; each row (name, alpha, passes, predicted, measured)."""
    benches = {name: Bench(model, text, tokens, rounds) for name, text in PROMPTS.items()}
    new = benches["new"]
    costs = {n: new.pass_seconds(n) for n in sorted({*TOKENS, gamma + 1})}
    v = costs[gamma + 1] / costs[1]
    draw, dial, real = torch.Generator().manual_seed(0), [], []
    for alpha in DIAL:
        seconds, found, passes = new.timed(new.dial(alpha, draw), gamma)
        dial.append((f"dial at {alpha:g}", found, passes, speedup(found, gamma, 0, v), new.plain / seconds))
    drafters = {"copied words": lambda: ngram_draft, "8-bit copy": eight_bits(model)}
    for where, bench in benches.items():
        for name, make in drafters.items():
            if make is None:
                continue
            cost = 0.0 if name == "copied words" else draft_cost(bench, make)
            seconds, found, passes = bench.timed(make(), gamma)
            predicted = speedup(found, gamma, cost, v)
            real.append((f"{name}, {where} text", found, passes, predicted, bench.plain / seconds, cost))
    return costs, dial, real


def draw(path: Path, gamma: int, costs, dial, real) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(12, 4.5), layout="constrained")).subplots(1, 2)
    v, grid = costs[gamma + 1] / costs[1], [i / 50 for i in range(51)]
    left.plot(grid, [speedup(a, gamma, 0, v) for a in grid], "k--", label="predicted, drafts free")
    left.plot([row[1] for row in dial], [row[4] for row in dial], "o", color="tab:green", label="dial, measured")
    for color, row in zip(("tab:blue", "tab:orange", "tab:cyan", "tab:red"), real):
        left.plot(row[1], row[4], "s", color=color, label=f"{row[0]}, measured")
        left.plot(row[1], row[3], "_", color=color, markersize=14)
    left.axhline(1, color="0.6", linewidth=1)
    title = f"Drafts of {gamma}: dashes are predictions"
    left.set(xlabel="acceptance rate", ylabel="speed-up", ylim=(0, None), title=title)
    steps = sorted(costs)
    right.plot(steps, [costs[n] / costs[1] for n in steps], "o-", color="tab:green", label="measured")
    right.plot(steps, [1] * len(steps), "k--", label="if only bytes counted")
    right.plot(steps, steps, ":", color="0.5", label="one pass for each token")
    right.set(xscale="log", yscale="log", xlabel="tokens of a pass", ylabel="plain steps", title="What a pass costs")
    for axis in (right.xaxis, right.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    right.set_xticks(steps)
    right.set_yticks([1, 2, 5, 10])
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level08 drafts", description="What drafts gain, and when.")
    parser.add_argument("--tokens", type=int, default=48, help="of each answer")
    parser.add_argument("--gamma", type=int, default=4, help="tokens of a draft")
    parser.add_argument("--rounds", type=int, default=2, help="each is timed so often; the best counts")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level08")
    args = parser.parse_args(argv)
    if args.tokens < 8 or not 1 <= args.gamma <= 16 or args.rounds < 1:
        raise SystemExit("at least 8 tokens, drafts of 1 to 16 and at least 1 round: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    with one_thread(), torch.inference_mode():
        print(
            f"SmolLM2, answers of {args.tokens} tokens, drafts of {args.gamma}, one thread; about a minute", flush=True
        )
        costs, dial, real = measure(load(), args.tokens, args.gamma, args.rounds)
    print(f"\n{'tokens of a pass':<28}" + "".join(f"{n:>8}" for n in costs))
    print(f"{'plain steps':<28}" + "".join(f"{seconds / costs[1]:>8.2f}" for seconds in costs.values()))
    print(f"\n{'drafter':<28}{'accepted':>10}{'passes':>8}{'predicted':>11}{'measured':>10}")
    for name, alpha, passes, predicted, measured, *cost in [*dial, *real]:
        beside = f"   a drafted token costs {cost[0]:.2f} steps" if cost and cost[0] else ""
        print(f"{name:<28}{alpha:>10.2f}{passes:>8}{predicted:>11.2f}{measured:>10.2f}{beside}")
    known = sorted(costs)

    def cost(gamma):  # the nearest measured pass that is not smaller
        return costs[next(n for n in known if n >= gamma + 1)] / costs[1]

    best = [best_gamma(alpha, 0, known[-1] - 1, cost) for alpha in (0.5, 0.8, 0.95)]
    print(f"\nFree drafts here are best with {best[0]}, {best[1]} and {best[2]} tokens at acceptance .5, .8 and .95.")
    print("Where copying finds nothing it drafts nothing, and that pass costs a plain step: the prediction is too low.")
    print("The words are the same in every row: a draft decides how fast an answer comes, never what it says.")
    draw(args.out / "drafts.png", args.gamma, costs, dial, real)
    print(f"\nwrote {args.out / 'drafts.png'}")
