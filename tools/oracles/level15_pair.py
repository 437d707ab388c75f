"""Train level 15's pairs of models again: python tools/oracles/level15_pair.py [a b c]. About a minute a pair.

`free` instead of a letter trains a control and stores nothing: each pair token has a vector of its own, so the models
share no structure that a linear map could carry. It prints what both know, and what is retained of it.

Writes levels/level15/checkpoint/pair_{a,b,c}.safetensors, float16, with embeddings as their two parts. Another torch
build gives other weights, and other figures in the lesson's table: the tests hold for all three pairs.
"""

import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from dojo.models import random_params  # noqa: E402
from dojo.mount import mount_all, plan  # noqa: E402
from dojo.progress import Progress  # noqa: E402

STEPS, BATCH, PEAK = 500, 64, 3e-3


def start(config, seed, free=False):
    from level15 import pairlab

    params = {name: weight.clone() for name, weight in random_params(config, seed).items()}
    for weight in params.values():
        if weight.dim() == 1:
            weight.fill_(1)
    draw = torch.Generator().manual_seed(seed)
    del params["model.embed_tokens.weight"]
    if free:
        params["model.embed_tokens.weight"] = torch.randn(pairlab.VOCAB, config.d_model, generator=draw) * 0.3
    params["keys"] = torch.randn(pairlab.N_KEYS, config.d_model, generator=draw) * 0.3
    params["values"] = torch.randn(pairlab.N_VALUES + 1, config.d_model, generator=draw) * 0.3
    params["lm_head.weight"] = torch.randn(pairlab.N_VALUES, config.d_model, generator=draw) * config.d_model**-0.5
    return {name: weight.requires_grad_() for name, weight in params.items()}


def train(config, params, seed, steps=STEPS):
    from level00.transformer import forward
    from level15 import pairlab

    optimizer = torch.optim.AdamW(params.values(), lr=PEAK, weight_decay=0.01)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK * min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
        prompt, queries, answers = pairlab.prompts(BATCH, 1_000_000 * seed + step)
        first = int(torch.randint(0, 64, (1,), generator=draw))  # the task must not hang on absolute positions
        tokens = torch.cat([prompt, queries], 1)
        model = {"model.embed_tokens.weight": pairlab.table(params["keys"], params["values"]), **params}
        positions = torch.arange(first, first + tokens.shape[1])
        logits = forward(model, config, tokens, positions=positions)[:, pairlab.NUM_PAIRS :]
        loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        optimizer.step()
    return loss.item()


def control():
    """Train both with free embeddings and print (accuracy native, without context, with the mapped cache), and R²."""
    from level15 import align, cachemap, pairlab, quality, rerope, transfer

    models = []
    for i, config in enumerate((pairlab.SENDER, pairlab.RECEIVER), 1):
        params = start(config, i, free=True)
        print("loss", train(config, params, i + 2, steps=900), flush=True)
        models.append(pairlab.Model({name: weight.detach() for name, weight in params.items()}, config))
    sender, receiver = models
    (seen, _, _), (prompt, queries, answers) = pairlab.prompts(256, 5), pairlab.prompts(256, 6)
    early, late = torch.arange(16), torch.arange(40, 56)
    ours, theirs = pairlab.prefill(receiver, prompt, 40), pairlab.prefill(sender, prompt, 40)
    both = sender.config, receiver.config
    maps = cachemap.fit_cache_map(
        pairlab.prefill(sender, seen), pairlab.prefill(receiver, seen), early, *both, lam=0.01, k=2
    )
    mapped = transfer.transfer_cache(maps, theirs, late, late, *both)

    def score(layers):
        return pairlab.accuracy(pairlab.answer(receiver, layers, queries, 56), answers)

    native, floor = score(ours), score(None)
    for name, layers in (("mapped", mapped), ("mapped, layer 0 exact", [ours[0], *mapped[1:]])):
        keys = [[cachemap.to_rows(rerope.strip_rope(one[0], late, 5e5)) for one in cache] for cache in (ours, layers)]
        r2 = sum(align.r2_score(*pair) for pair in zip(*keys)) / 3
        print(name, "retained", quality.retention(score(layers), native, floor), "of", native, "R² of keys", r2)


def main(seeds):
    from safetensors.torch import save_file

    from level15 import pairlab

    for letter in seeds:
        began, offset, stored = time.time(), 10 * "abc".index(letter), {}
        for i, (role, config) in enumerate((("sender", pairlab.SENDER), ("receiver", pairlab.RECEIVER)), 1):
            params = start(config, i + offset)
            loss = train(config, params, i + 2 + offset)
            stored |= {f"{role}.{name}": weight.detach().half() for name, weight in params.items()}
            print(letter, role, f"loss {loss:.4f}", f"{time.time() - began:.0f} s", flush=True)
        save_file(stored, pairlab.STORED / f"pair_{letter}.safetensors")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mount_all(plan([], "solutions", Progress()))
    control() if "free" in sys.argv else main(sys.argv[1:] or ["a", "b", "c"])
