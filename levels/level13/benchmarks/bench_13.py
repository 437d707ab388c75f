"""What is timed at level 13: `nox -s bench -- level13`."""

from itertools import product

import numpy as np
import pytest


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.kata("level13.tiling.tiled_matmul")
def bench_tiled(bench):
    """256 x 576 times 576 x 1536 in tiles of 128 x 128 x 64"""
    a, b = random(256, 576), random(576, 1536)

    def mine(level):
        memory = level.tiling.SlowMemory(a, b)
        return lambda: level.tiling.tiled_matmul(memory, 128, 128, 64)

    def naive():
        out = np.zeros((256, 1536))
        for row, left, start in product(range(256), range(0, 1536, 128), range(0, 576, 64)):
            out[row, left : left + 128] += a[row, start : start + 64] @ b[start : start + 64, left : left + 128]
        return out

    bench(mine, naive=("a row of a tile at a time", naive), library=("numpy", lambda: a @ b))


@pytest.mark.kata("level13.systolic.systolic_matmul")
def bench_array(bench):
    """32 tokens through 64 x 64 cells, cycle by cycle"""
    x, weights = random(32, 64), random(64, 64)

    def cell_by_cell():
        moving, sums = np.zeros((64, 64)), np.zeros((64, 64))
        for _ in range(32 + 64 + 64 - 2):
            for row in range(63, -1, -1):
                for col in range(63, -1, -1):
                    moving[row, col] = moving[row, col - 1] if col else 0
                    sums[row, col] = (sums[row - 1, col] if row else 0) + moving[row, col] * weights[row, col]

    bench(
        lambda level: lambda: level.systolic.systolic_matmul(x, level.systolic.SystolicArray(weights)),
        naive=("cell by cell", cell_by_cell),
        library=("numpy", lambda: x @ weights),
    )
