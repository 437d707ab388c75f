"""What is timed at level 05: `nox -s bench -- level05`. A naive way and a library's stand beside yours."""

import random

import numpy
import pytest
import torch

from dojo.models import load, matrices
from dojo.roofline import Sweep
from level00.transformer import forward
from level02.cache import KVCache

BATCH, HELD = 8, 31


def caches(config):
    found = [KVCache(config, 1, HELD + 1) for _ in range(BATCH)]
    for cache in found:
        for layer in range(config.n_layers):
            cache.update(layer, *(torch.ones(1, config.n_kv_heads, HELD, config.head_dim) for _ in "kv"))
    return found


@pytest.mark.kata("level05.packed.packed_step")
def bench_packed_step(bench):
    """SmolLM2's next token for each of 8 sequences"""
    config, params, _ = load()
    mine, theirs, sweep = caches(config), caches(config), Sweep(matrices(params), BATCH)

    def build(level):
        def step():
            level.packed.packed_step(params, config, mine, [[314]] * BATCH)
            for cache in mine:
                cache.truncate(HELD)

        return step

    def one_by_one():
        for cache in theirs:
            forward(params, config, torch.tensor([[314]]), cache)
            cache.truncate(HELD)

    bench(
        build,
        naive=("one sequence after the other", one_by_one),
        library=("the products alone", sweep),
        flops=sweep.flops,
        bytes=sweep.bytes,
    )


@pytest.mark.kata("level05.throughput.fit_step_time")
def bench_fit(bench):
    """A line through 1,000 measured steps"""
    draw = random.Random(0)
    batches = [draw.randrange(1, 64) for _ in range(1000)]
    seconds = [0.02 + 0.001 * batch + draw.uniform(0, 0.001) for batch in batches]
    bench(
        lambda level: lambda: level.throughput.fit_step_time(batches, seconds),
        library=("numpy.polyfit", lambda: numpy.polyfit(batches, seconds, 1)),
    )
