"""Make, or check, the stored values of level 03's sampling tests: what transformers' logits warpers keep.

    python tools/oracles/level03_sampling.py [--check]

Needs transformers and torch (the contributors' extra), no model. The logits have two decimals and no ties within a row:
on ties transformers' top-k keeps more than k tokens, and level 03 does not. A nucleus or a threshold that comes within
MARGIN of a token is refused, since float32 could decide it either way. transformers has no presence and no frequency
penalty, so the repetition penalty stands alone.
"""

import argparse
import json
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "levels" / "level03" / "tests" / "transformers_warpers.json"
VOCAB = 24
MARGIN = 1e-4
PROMPTS = [[3, 3, 9], [0, 23, 5, 7], [11], [2, 4, 6, 8, 10]]
OUTPUTS = [[1, 3], [], [11, 11, 12], [20]]
TEMPERATURES = [0.3, 0.7, 1.6]
TOP_KS = [1, 5, 17, 40]
TOP_PS = [0.2, 0.55, 0.9, 0.99]
MIN_PS = [0.01, 0.1, 0.5]
REPETITIONS = [1.3, 0.7]
# repetition penalty, temperature, top-k, top-p, min-p; 0 and 1 are off as in SamplingParams
CHAINS = [[1.2, 0.7, 8, 0.9, 0.0], [1.0, 1.8, 12, 0.8, 0.15], [1.5, 1.3, 0, 0.75, 0.25], [0.8, 0.5, 6, 1.0, 0.02]]


def compute() -> dict:
    """What goes into the JSON."""
    import torch
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    generator = torch.Generator().manual_seed(1)
    # different hundredths, so no ties; from a flat row to a steep one
    rows = [(torch.randperm(301, generator=generator)[:VOCAB] - 150) * step for step in (1, 2, 3, 5)]
    logits = torch.stack(rows).div(100)

    def run(*warpers):
        scores = logits.clone()
        return torch.cat(
            [
                LogitsProcessorList(warpers)(torch.tensor([prompt + output]), scores[i : i + 1])
                for i, (prompt, output) in enumerate(zip(PROMPTS, OUTPUTS))
            ]
        )

    def kept(scores) -> list[list[int]]:
        return [[i for i, z in enumerate(row) if z > -torch.inf] for row in scores.tolist()]

    def clear(scores, p: float = 1.0, m: float = 0.0) -> None:
        probs = scores.double().softmax(-1).sort(descending=True).values
        assert probs.cumsum(-1).sub(p).abs().min() > MARGIN or p == 1, f"p = {p} is too close to a sum"
        ratios = probs / probs[:, :1] / m if m else torch.zeros(1)
        assert (ratios - 1).abs().min() > MARGIN, f"m = {m} is too close to a ratio"

    for p in TOP_PS:
        clear(logits, p=p)
    for m in MIN_PS:
        clear(logits, m=m)
    chains = []
    for r, temperature, k, p, m in CHAINS:
        steps = [RepetitionPenaltyLogitsProcessor(r), TemperatureLogitsWarper(temperature)]
        steps += [TopKLogitsWarper(k)] if k else []
        clear(run(*steps), p=p)
        steps += [TopPLogitsWarper(p)] if p < 1 else []
        clear(run(*steps), m=m)
        steps += [MinPLogitsWarper(m)] if m else []
        scores = run(*steps)
        values = [[round(row[i], 5) for i in ids] for row, ids in zip(scores.tolist(), kept(scores))]
        chains.append({"settings": [r, temperature, k, p, m], "kept": kept(scores), "values": values})
    return {
        "logits": [[round(z, 2) for z in row] for row in logits.tolist()],
        "prompts": PROMPTS,
        "outputs": OUTPUTS,
        "temperature": [[t, rounded(run(TemperatureLogitsWarper(t)))] for t in TEMPERATURES],
        "top_k": [[k, kept(run(TopKLogitsWarper(k)))] for k in TOP_KS],
        "top_p": [[p, kept(run(TopPLogitsWarper(p)))] for p in TOP_PS],
        "min_p": [[m, kept(run(MinPLogitsWarper(m)))] for m in MIN_PS],
        "repetition": [[r, rounded(run(RepetitionPenaltyLogitsProcessor(r)))] for r in REPETITIONS],
        "chains": chains,
    }


def rounded(scores) -> list[list[float]]:
    return [[round(z, 5) for z in row] for row in scores.tolist()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    text = json.dumps(compute(), separators=(",", ":")).replace('],"', '],\n"') + "\n"
    if parser.parse_args().check:
        same = FILE.read_text(encoding="utf-8") == text
        print("the stored values of level 03's warpers still hold" if same else "the stored values differ")
        return 0 if same else 1
    FILE.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {FILE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
