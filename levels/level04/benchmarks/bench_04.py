"""What is timed at level 04: `nox -s bench -- level04`. A naive way and a library's stand beside yours."""

import random

import numpy
import pytest
import torch

DRAW = random.Random(0)
LATENCIES = [DRAW.expovariate(1) for _ in range(1_000)]
SIZE = 64 * 2**20


def by_counting():
    """The values whose ranks surround 989.01, each found by counting how many are smaller."""
    ranked = {sum(other < value for other in LATENCIES): value for value in LATENCIES}
    return 0.99 * ranked[989] + 0.01 * ranked[990]


@pytest.mark.kata("level04.metrics.percentile")
def bench_percentile(bench):
    """The p99 of 1,000 latencies"""
    bench(
        lambda level: lambda: level.metrics.percentile(LATENCIES, 99),
        naive=("counts the smaller ones", by_counting),
        library=("numpy", lambda: numpy.percentile(LATENCIES, 99)),
    )


@pytest.mark.kata("level04.measure.read_bandwidth")
def bench_read_bandwidth(bench):
    """A probe of 64 MiB: filled, read to warm up, and read once"""
    matrix, vector = torch.ones(SIZE // 4096, 1024), torch.ones(1024)

    def row_by_row():
        fresh = torch.ones(SIZE // 4096, 1024)
        return [[row @ vector for row in fresh] for _ in range(2)]

    def filled_and_read():
        matrix.fill_(1)
        return matrix @ vector, matrix @ vector

    bench(
        lambda level: lambda: level.measure.read_bandwidth(SIZE, rounds=1),
        naive=("one row at a time", row_by_row),
        library=("torch, memory used before", filled_and_read),
        flops=SIZE,
        bytes=3 * SIZE,
    )
