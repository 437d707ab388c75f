"""Lab: a tiny model gets better at what it is rewarded for, and most of the time goes into decoding.

    python -m dojo lab level14 grpo [--steps 30] [--group 8] [--tokens 8] [--seeds 3] [--out DIR]

Nothing here is graded. A random model of two layers answers four prompts, --group times each; an answer is worth the
share of its tokens that are multiples of 4, by chance a quarter. Each step is a rollout and a step of grpo_loss on
adapters of rank 4. It prints the mean reward, for several seeds, and the share of the CPU time that went into decoding;
and what that share is on paper for a model of 8 billion parameters on an H100, by group. Look for three things: that
the reward rises for every seed, that the share of decoding is large although nothing is learned in it, and what a
larger group does to it, here and on paper.
"""

import argparse
from functools import partial
from pathlib import Path

import torch

from dojo.models import TINY, random_params
from dojo.roofline import one_thread
from level00.transformer import forward
from level03.sampler import SamplingParams
from level04.roofline import H100
from level06.weights import any_linear
from level14.adapters import attach
from level14.rollout import rollout_share
from level14.train import adamw, grpo_step

ROOT = Path(__file__).resolve().parents[3]
PROMPTS = [[1, 5], [2], [3, 9, 9], [4, 4]]
GROUPS = (1, 4, 16, 64, 256)
WEIGHT_BYTES, KV_BYTES, FLOPS = 16.06e9, 131072, 16.06e9  # of Llama-3.1-8B, bfloat16, a token


def reward(prompt: list[int], tokens: list[int]) -> float:
    return sum(token % 4 == 0 for token in tokens) / len(tokens)


def train(seed: int, steps: int, group: int, tokens: int) -> tuple[list[float], float]:
    """(mean reward of each step, share of the CPU time that went into decoding)."""
    params = random_params(TINY)
    names = [name for name in params if name.endswith("proj.weight")] + ["lm_head.weight"]
    adapted, trainable = attach(params, names, 4, 8, torch.Generator().manual_seed(seed))
    optimizer, run = adamw(trainable, 0.01), partial(forward, linear=any_linear)
    done = []
    for number in range(steps):
        sampling = SamplingParams(seed=10**6 * seed + 1000 * number, max_tokens=tokens)
        done.append(grpo_step(adapted, TINY, PROMPTS, group, reward, optimizer, sampling, forward=run))
    decoding, learning = (sum(one[f"{what}_seconds"] for one in done) for what in ("decode", "learn"))
    return [one["reward"] for one in done], decoding / (decoding + learning)


def on_paper() -> list[float]:
    """Share of decoding in a step of an 8B model, by group: 1024 tokens after 256, learning at 40% of the peak."""
    return [rollout_share(256, 1024, group, WEIGHT_BYTES, KV_BYTES, FLOPS, H100, 0.4) for group in GROUPS]


def draw(path: Path, rewards: list[list[float]], shares: list[float]) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, right = (figure := Figure(figsize=(11, 4.2), layout="constrained")).subplots(1, 2)
    for seed, values in enumerate(rewards):
        left.plot(values, label=f"seed {seed}")
    left.axhline(0.25, color="black", linestyle="--", label="chance")
    left.set(xlabel="steps", ylabel="mean reward", title="Rewarded: multiples of 4", ylim=(0, 1))
    left.xaxis.get_major_locator().set_params(integer=True)
    right.plot(GROUPS, shares, "o-", label="8B on an H100, on paper")
    right.set(xscale="log", xlabel="answers decoded at once", ylabel="share of decoding", ylim=(0, 1))
    right.set_title("How much of a step is decoding")
    right.xaxis.set_ticks(GROUPS, labels=[str(group) for group in GROUPS])
    right.xaxis.set_minor_formatter("")
    for axes in (left, right):
        axes.grid(True, alpha=0.3)
        axes.legend()
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level14 grpo", description="Rewards, and where the time goes.")
    parser.add_argument("--steps", type=int, default=30, help="each with a group of answers to four prompts")
    parser.add_argument("--group", type=int, default=8, help="answers to each prompt, decoded together")
    parser.add_argument("--tokens", type=int, default=8, help="of an answer, 1 to 32")
    parser.add_argument("--seeds", type=int, default=3, help="how often all of it is done")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level14")
    args = parser.parse_args(argv)
    if min(args.steps, args.seeds) < 1 or args.group < 2 or not 1 <= args.tokens <= 32:
        raise SystemExit("at least 1 step and 1 seed, groups of 2 or more, 1 to 32 tokens: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)  # before the measurement: a bad folder fails at once
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    shown, rewards = sorted({0, args.steps // 4, args.steps // 2, 3 * args.steps // 4, args.steps - 1}), []
    print(f"\n{'mean reward at step':<24}" + "".join(f"{n:>8}" for n in shown) + f"{'decoding':>12}")
    with one_thread():
        for seed in range(args.seeds):
            values, share = train(seed, args.steps, args.group, args.tokens)
            rewards.append(values)
            row = "".join(f"{values[n]:>8.3f}" for n in shown)
            print(f"{f'seed {seed}':<24}{row}{share:>11.0%}", flush=True)
    shares = on_paper()
    print(f"\n{'8B on an H100, group':<24}" + "".join(f"{group:>8}" for group in GROUPS))
    print(f"{'share of decoding':<24}" + "".join(f"{share:>8.0%}" for share in shares))
    draw(args.out / "grpo.png", rewards, shares)
    print(f"\nwrote {args.out / 'grpo.png'}")
