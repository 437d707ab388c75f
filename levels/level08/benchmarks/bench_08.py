"""What is timed at level 08: `nox -s bench -- level08`. A naive way stands beside yours."""

import pytest
import torch

from dojo.models import SMOLLM2, Config, random_params
from level00.transformer import forward
from level01.generate import generate

TOKENS = torch.randint(0, 300, (4096,), generator=torch.Generator().manual_seed(0)).tolist()
SMALL = Config(4, 256, 4, 2, 64, 1024, 4096, max_seq_len=512, tie_embeddings=False)


@pytest.mark.kata("level08.verify.verify_sample")
def bench_sampling(bench):
    """Four drafted tokens over SmolLM2's vocabulary"""
    draw = torch.Generator().manual_seed(0)
    q, p = torch.randn(2, 5, SMOLLM2.vocab_size, generator=draw).softmax(-1)
    draft = q[:4].argmax(-1).tolist()

    def through_lists():
        left = [max(a - b, 0.0) for a, b in zip(p[0].tolist(), q[0].tolist())]
        return [x / sum(left) for x in left[:1]]

    bench(
        lambda level: lambda: level.verify.verify_sample(draft, q[:4], p, [0.0] * 3 + [0.999], 0.5),
        naive=("one residual, in lists", through_lists),
    )


@pytest.mark.kata("level08.draft.ngram_draft")
def bench_ngram(bench):
    """The last three of 4,096 tokens, looked for in all that came before"""
    bench(
        lambda level: lambda: level.draft.ngram_draft(TOKENS, 4),
        naive=("every start, every n", lambda: every_start(TOKENS, 4)),
    )


def every_start(tokens, k, longest=3):
    found = {}
    for start in range(len(tokens) - 1):
        for n in range(1, longest + 1):
            end = start + n
            if end < len(tokens) and tokens[start:end] == tokens[-n:]:
                found[n] = tokens[end : end + k]
    return found[max(found)] if found else []


@pytest.mark.kata("level08.loop.speculate")
def bench_speculation(bench):
    """20 tokens of a small model, four of five drafted and right"""
    params = random_params(SMALL)
    prompt = [5, 9, 11, 2]
    answer = generate(params, SMALL, prompt, 20)

    def propose(tokens, k):
        return answer[len(tokens) - len(prompt) :][:k]

    bench(
        lambda level: lambda: list(level.loop.speculate(params, SMALL, prompt, 20, propose, 4)),
        naive=("one token to a pass", lambda: generate(params, SMALL, prompt, 20)),
        library=("one pass over all", lambda: forward(params, SMALL, torch.tensor([prompt + answer]))),
    )
