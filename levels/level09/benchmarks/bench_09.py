"""What is timed at level 09: `nox -s bench -- level09`. Ranks are threads: their messages cost next to nothing."""

import pytest
import torch

from dojo.models import SMOLLM2, random_params
from level09.threads import run_threads


@pytest.mark.kata("level09.collectives.ring_all_reduce")
def bench_all_reduce(bench):
    """8 MB over 4 ranks that are threads: the sums, and the copies that messages make"""
    draw = torch.Generator().manual_seed(0)
    xs = torch.randn(4, 2_000_000, generator=draw)

    def everything_to_everybody(comm):
        parts = [xs[comm.rank]]
        for _ in range(comm.size - 1):
            parts.append(comm.sendrecv(parts[-1], (comm.rank + 1) % 4, (comm.rank - 1) % 4))
        return sum(parts)

    bench(
        lambda level: lambda: run_threads(lambda comm: level.collectives.ring_all_reduce(comm, xs[comm.rank]), 4),
        naive=("all x go round", lambda: run_threads(everything_to_everybody, 4)),
        library=("torch.sum, no ranks", lambda: xs.sum(0)),
    )


@pytest.mark.kata("level09.shard.shard_params")
def bench_sharding(bench):
    """One of three ranks takes its part of a random SmolLM2 with 4 layers"""
    from dataclasses import replace

    config = replace(SMOLLM2, n_layers=4)
    params = random_params(config)
    bench(
        lambda level: lambda: level.shard.shard_params(params, config, 1, 3),
        naive=("a copy of everything", lambda: {name: w.clone() for name, w in params.items()}),
    )


@pytest.mark.kata("level09.expert.expert_parallel")
def bench_experts(bench):
    """512 tokens, 8 experts, two for each token, on one rank"""
    draw = torch.Generator().manual_seed(0)
    x, weights = torch.randn(512, 256, generator=draw), torch.randn(8, 256, 256, generator=draw)
    ids, gates = torch.rand(512, 8, generator=draw).topk(2).indices, torch.full((512, 2), 0.5)
    experts = [lambda rows, w=w: rows @ w.T for w in weights]

    def token_by_token():
        return torch.stack([sum(0.5 * experts[e](x[i]) for e in ids[i]) for i in range(512)])

    def all_of_them():
        y = torch.einsum("nd,eod->neo", x, weights)
        return (y.gather(1, ids[..., None].expand(-1, -1, 256)) * gates[..., None]).sum(1)

    def alone(level):
        return lambda: run_threads(lambda comm: level.expert.expert_parallel(comm, x, ids, gates, experts), 1)

    bench(alone, naive=("token by token", token_by_token), library=("every expert, einsum", all_of_them))
