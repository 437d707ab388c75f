"""What is timed at level 14: `nox -s bench -- level14`."""

import pytest
import torch

from dojo.models import Config, random_params


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.kata("level14.lora.lora_linear")
def bench_lora(bench):
    """8 tokens, a matrix of 1536 x 576, rank 8"""
    x, w, a, b = random(8, 576), random(1536, 576), random(8, 576), random(1536, 8)
    bench(
        lambda level: lambda: level.lora.lora_linear(x, w, a, b, 16.0),
        naive=("merged at each call", lambda: x @ (w + 2.0 * b @ a).T),
        library=("the frozen product alone", lambda: x @ w.T),
    )


@pytest.mark.kata("level14.nf4.quantize_nf4")
def bench_nf4(bench):
    """A matrix of 1536 x 576 in blocks of 64"""
    w = random(1536, 576)

    def all_distances():
        from level14.nf4 import nf4_levels

        levels, blocks = nf4_levels(), w.view(-1, 64)
        scaled = blocks / blocks.abs().amax(1, keepdim=True)
        return (scaled.unsqueeze(-1) - levels).abs().argmin(-1)

    bench(
        lambda level: lambda: level.nf4.quantize_nf4(w),
        naive=("all 16 distances", all_distances),
        library=("torch, 8 bits a channel", lambda: (w / w.abs().amax(1, keepdim=True) * 127).round().to(torch.int8)),
    )


@pytest.mark.kata("level14.rollout.rollout")
def bench_rollout(bench):
    """8 answers of 12 tokens, four layers of 256"""
    from level03.sampler import SamplingParams

    config = Config(4, 256, 8, 4, 32, 704, 1024)
    params, sampling = random_params(config), SamplingParams(seed=0, max_tokens=12)

    def one_by_one():
        from level14.rollout import rollout

        return [rollout(params, config, [1, 2, 3], 1, sampling) for _ in range(8)]

    bench(
        lambda level: lambda: level.rollout.rollout(params, config, [1, 2, 3], 8, sampling),
        naive=("one by one", one_by_one),
    )
