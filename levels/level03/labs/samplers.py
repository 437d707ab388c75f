"""Lab: one prompt, one model, nine ways to choose its tokens; and how many tokens each truncation leaves.

    python -m dojo lab level03 samplers [--prompt TEXT] [--tokens 24] [--seed 0] [--out FOLDER]

Nothing here is graded. It runs your process, choose_tokens, beam_search and token_logprobs on SmolLM2: the samplers
side by side in level 02's batch, with the same random numbers. It prints the texts and a table, and leaves a picture.
Look for two things: which texts the model finds likely, and what a temperature does to a count, a mass and a ratio.
"""

import argparse
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from dojo.models import Config, load
from dojo.roofline import one_thread
from level00.tokenizer import SmolTokenizer
from level00.transformer import Params, forward
from level02.padding import generate_batch
from level03.drawing import token_logprobs
from level03.sampler import SamplingParams, chooser, process
from level03.search import beam_search

ROOT = Path(__file__).resolve().parents[3]
SAMPLERS = {
    "greedy": SamplingParams(temperature=0),
    "greedy, repetition penalty 1.3": SamplingParams(temperature=0, repetition_penalty=1.3),
    "temperature 0.7": SamplingParams(temperature=0.7),
    "temperature 1": SamplingParams(),
    "temperature 1.5": SamplingParams(temperature=1.5),
    "temperature 1, top-k 50": SamplingParams(top_k=50),
    "temperature 1, top-p 0.9": SamplingParams(top_p=0.9),
    "temperature 1, min-p 0.1": SamplingParams(min_p=0.1),
}
WIDTH = 4  # beams
TRUNCATIONS = {
    "top-k 50": SamplingParams(top_k=50),
    "top-p 0.5": SamplingParams(top_p=0.5),
    "top-p 0.9": SamplingParams(top_p=0.9),
    "top-p 0.99": SamplingParams(top_p=0.99),
    "min-p 0.1": SamplingParams(min_p=0.1),
    "min-p 0.02": SamplingParams(min_p=0.02),
}
PEAKED, FLAT = "The capital of France is", "The"
TEMPERATURES = [0.25, 0.5, 0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0]
SHOWN = [0.7, 1.0, 1.5]  # of them, in the table
PLOTTED = {"top-k 50": "tab:green", "top-p 0.9": "tab:blue", "min-p 0.1": "tab:orange"}


@dataclass
class Text:
    """What one sampler made of the prompt."""

    sampler: str
    tokens: list[int]
    logprob: float  # the model's own, of raw logits: nats per token
    distinct: float  # different tokens / tokens


def sampled(
    params: Params, config: Config, prompt: Sequence[int], tokens: int, stop_ids: Collection[int], seed: int
) -> dict[str, list[int]]:
    """One row for each of SAMPLERS. All have the same seed, so their random numbers are the same at each step."""
    choose = chooser(*(replace(settings, seed=seed) for settings in SAMPLERS.values()))
    rows = generate_batch(params, config, [prompt] * len(SAMPLERS), tokens, stop_ids, choose=choose)
    return dict(zip(SAMPLERS, rows))


def searched(params: Params, config: Config, prompt: Sequence[int], tokens: int, eos_id: int) -> list[int]:
    """The best hypothesis of a beam search. Without a cache: its rows would change their parents at every step."""

    def next_logprobs(beams: list[tuple[int, ...]]) -> Tensor:
        ids = torch.tensor([[*prompt, *beam] for beam in beams])
        return forward(params, config, ids)[:, -1].log_softmax(-1)

    return list(beam_search(next_logprobs, WIDTH, tokens, eos_id)[0][0])


def text_of(params: Params, config: Config, prompt: Sequence[int], sampler: str, tokens: list[int]) -> Text:
    """The text with what the model thinks of it, by one pass over prompt and text."""
    logits = forward(params, config, torch.tensor([[*prompt, *tokens]]))[0, len(prompt) - 1 : -1]
    logprob = token_logprobs(logits, torch.tensor(tokens)).mean().item()
    return Text(sampler, tokens, logprob, len(set(tokens)) / len(tokens))


def kept(logits: Tensor, settings: SamplingParams, temperature: float = 1.0) -> int:
    """How many tokens of one row (1, V) are left."""
    left = process(logits, replace(settings, temperature=temperature), [[]], [[]])
    return int((left > -torch.inf).sum())


def entropy(logits: Tensor) -> float:
    """Of one row (1, V), in bits."""
    probs = logits.double().softmax(-1)[0]
    return -(probs * probs.log2()).nansum().item()  # 0 · log 0 is NaN, and counts nothing


def report_texts(texts: list[Text], tokenizer: SmolTokenizer) -> None:
    print(f"\n{'':<34}log p per token{'distinct tokens':>18}")
    for text in texts:
        print(f"{text.sampler:<34}{text.logprob:>15.2f}{text.distinct:>18.0%}")
        shown = tokenizer.decode(text.tokens).replace("\n", "\\n")
        print(textwrap.fill(shown, 100, initial_indent="    …", subsequent_indent="    ", break_long_words=True))
    likely, unlikely = (pick(texts, key=lambda text: text.logprob) for pick in (max, min))
    print(f"\nMost likely: {likely.sampler}. Least likely: {unlikely.sampler}.")
    print("A search is after likely texts, a draw after typical ones. Neither greedy nor beams find the likeliest for")
    print("certain: a draw can beat them, above all one that repeats itself.")


def report_kept(rows: dict[str, Tensor]) -> None:
    print(f"\n{'tokens kept after':<28}" + "".join(f"{name:>12}" for name in TRUNCATIONS))
    for name, logits in rows.items():
        best = logits.softmax(-1).max().item()
        print(f'"{name}": the best has {best:.3f}, entropy {entropy(logits):.2f} bits')
        for temperature in SHOWN:
            counts = [kept(logits, settings, temperature) for settings in TRUNCATIONS.values()]
            print(f"{f'  temperature {temperature:g}':<28}" + "".join(f"{count:>12,}" for count in counts))


def draw(rows: dict[str, Tensor], path: Path) -> None:
    """On the left the two distributions, sorted; on the right what is left of them as the temperature rises."""
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(11, 4.5), layout="constrained")).subplots(1, 2)
    for (name, logits), line in zip(rows.items(), ("-", "--")):
        probs = logits.double().softmax(-1)[0].sort(descending=True).values
        left.plot(range(1, len(probs) + 1), probs, "k", linestyle=line, label=f'after "{name}"')
        right.plot([], [], "k", linestyle=line, label=f'after "{name}"')  # for the legend
        for rule, colour in PLOTTED.items():
            ends = kept(logits, TRUNCATIONS[rule])
            left.plot(ends, probs[ends - 1], "o", color=colour)
            counts = [kept(logits, TRUNCATIONS[rule], temperature) for temperature in TEMPERATURES]
            right.plot(TEMPERATURES, counts, color=colour, linestyle=line, marker=".")
    for rule, colour in PLOTTED.items():
        left.plot([], [], "o", color=colour, label=f"{rule} ends here")
        right.plot([], [], color=colour, label=rule)
    left.set(xscale="log", yscale="log", xlabel="rank of the token", ylabel="probability at temperature 1")
    left.set_ylim(1e-9, 2)
    left.set_title("Two distributions, and where each rule cuts them")
    right.set(yscale="log", xlabel="temperature", ylabel=f"tokens kept, of {len(probs):,}")
    right.set_title("A count stays, a mass spreads, a ratio follows")
    for axes, place in ((left, "upper right"), (right, "upper left")):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8, loc=place)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m dojo lab level03 samplers", description="Continue one prompt with each sampler."
    )
    parser.add_argument("--prompt", default="Once upon a time", help="plain text, without a chat's frame")
    parser.add_argument(
        "--tokens", type=int, default=24, help="new tokens of each text; the beams' time grows as a square"
    )
    parser.add_argument("--seed", type=int, default=0, help="another number, other random numbers")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=ROOT / "labs-out" / "level03")
    args = parser.parse_args(argv)
    if not args.prompt:
        raise SystemExit("--prompt is empty, and the model needs a token to go on from: give at least one character")
    if args.tokens < 1:
        raise SystemExit(f"--tokens {args.tokens} makes no text: give at least 1")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the texts are made: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    config, params, data = load()
    tokenizer = SmolTokenizer.from_model(data)
    prompt, eos = tokenizer.encode(args.prompt), tokenizer.eos_id
    if len(prompt) + args.tokens > config.max_seq_len:
        both = f"--tokens {args.tokens} after the {len(prompt)} of the prompt"
        raise SystemExit(f"{both} are more than the model's {config.max_seq_len}: give fewer")
    print(f'"{args.prompt}", {args.tokens} tokens, seed {args.seed}: {len(SAMPLERS)} samplers in one batch, then beams')
    with one_thread():  # these passes are small, and threads that wait for a busy core take its time
        made = sampled(params, config, prompt, args.tokens, {eos}, args.seed)
        made[f"beam search, {WIDTH} beams"] = searched(params, config, prompt, args.tokens, eos)
        report_texts([text_of(params, config, prompt, *each) for each in made.items()], tokenizer)
        rows = {name: forward(params, config, torch.tensor([tokenizer.encode(name)]))[:, -1] for name in (PEAKED, FLAT)}
        report_kept(rows)
        draw(rows, args.out / "samplers.png")
    print(f"\nwrote {args.out / 'samplers.png'}")
