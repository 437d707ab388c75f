"""Judges tiling.py by numpy's product of whole numbers, and by a memory that writes down what is loaded from it."""

import numpy as np
import pytest

from level13.tiling import SlowMemory, largest_square_tile, tiled_matmul, tiled_traffic


class Ledger(SlowMemory):
    """Writes down (name, top, left, rows, columns) of each load."""

    def __init__(self, a, b):
        super().__init__(a, b)
        self.loads = []

    def load(self, name, top, bottom, left, right):
        tile = super().load(name, top, bottom, left, right)
        self.loads.append((name, top, left, *tile.shape))
        return tile


def two(m, n, k, seed=13):
    """Whole numbers, so that the product is exact in any order."""
    draw = np.random.default_rng(seed)
    return draw.integers(-9, 10, (m, k)).astype(float), draw.integers(-9, 10, (k, n)).astype(float)


def loads_of(a, b, tiles):
    """A story: the program's loads."""

    def loads(matmul):
        memory = Ledger(a, b)
        matmul(memory, *tiles)
        return memory.loads

    return loads


def elements(a, b, tiles):
    """A story: {name: elements that were loaded of it}."""
    loads = loads_of(a, b, tiles)

    def sums(matmul):
        seen = loads(matmul)
        return {x: sum(rows * cols for name, _, _, rows, cols in seen if name == x) for x in "ab"}

    return sums


def product(a, b, tiles):
    return lambda matmul: matmul(SlowMemory(a, b), *tiles)


def counted(m, n, k, tile_m, tile_n):
    """Oracle: every tile of the result, one after the other, with its rows and its columns."""
    a = b = out = 0
    for rows in [len(range(m)[i : i + tile_m]) for i in range(0, m, tile_m)]:
        for cols in [len(range(n)[i : i + tile_n]) for i in range(0, n, tile_n)]:
            a, b, out = a + rows * k, b + cols * k, out + rows * cols
    return a, b, out


SIZES = [
    ((4, 6, 5), (2, 4, 2)),  # the docstring's example
    ((7, 5, 9), (3, 2, 4)),  # ragged on every side
    ((3, 8, 2), (5, 4, 7)),  # tiles that are larger than the matrices
    ((1, 6, 4), (1, 6, 4)),
    ((6, 4, 8), (3, 2, 4)),  # nothing is left
    ((1, 1, 1), (2, 3, 4)),
]


@pytest.mark.kata("level13.tiling.tiled_matmul")
@pytest.mark.parametrize("sizes, tiles", SIZES)
def test_the_product(expect, sizes, tiles):
    """Vocabularies and heads are rarely multiples of a tile: what is left over at the edges counts as well. Oracle:
    numpy, exact in whole numbers."""
    a, b = two(*sizes)
    expect.story(product(a, b, tiles), tiled_matmul).equals(a @ b, rel=0, abs=0)


@pytest.mark.kata("level13.tiling.tiled_matmul")
@pytest.mark.parametrize("sizes, tiles", [*SIZES[:3], ((5, 4, 3), (1, 1, 1)), ((8, 8, 8), (2, 4, 8))])
def test_elements_that_are_loaded(expect, sizes, tiles):
    """This is what tiles are for: loaded once, used tile_m or tile_n times. Oracle: rows and columns of every tile of
    the result."""
    a, b, _ = counted(*sizes, *tiles[:2])
    expect.story(elements(*two(*sizes), tiles), tiled_matmul).equals({"a": a, "b": b})


@pytest.mark.kata("level13.tiling.tiled_matmul")
@pytest.mark.parametrize("sizes, tiles", [((7, 5, 9), (3, 2, 4)), ((9, 20, 30), (4, 2, 3)), ((6, 6, 20), (2, 3, 1))])
def test_no_load_is_larger_than_a_tile(expect, sizes, tiles):
    """The chip has room for a tile of each matrix, and for nothing else."""
    room = {"a": tiles[0] * tiles[2], "b": tiles[2] * tiles[1]}

    def too_large(matmul):
        seen = loads_of(*two(*sizes), tiles)(matmul)
        return sorted({x[0] for x in seen if x[3] * x[4] > room[x[0]]})

    expect.story(too_large, tiled_matmul).equals([])


@pytest.mark.kata("level13.tiling.tiled_matmul")
def test_sums_are_in_float64(expect):
    """16777216 + 1 + 1 is 16777218; in float32 each 1 is lost. Half of a model's numbers are smaller than the sum that
    they are added to."""
    a = np.array([[4096, 1, 1]], dtype=np.float32)
    b = np.array([[4096], [1], [1]], dtype=np.float32)
    expect.story(product(a, b, (1, 1, 1)), tiled_matmul).equals(np.array([[16777218.0]]), rel=0, abs=0)


@pytest.mark.kata("level13.tiling.tiled_matmul")
def test_products_are_in_the_tiles_own_dtype(expect):
    """(1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, and the last part has no room in float32: the matrix units of a chip multiply
    what they get."""
    one = np.array([[1 + 2.0**-12]], dtype=np.float32)
    expect.story(product(one, one, (2, 3, 4)), tiled_matmul).equals(np.array([[1 + 2.0**-11]]), rel=0, abs=0)


# ---- tiled_traffic


@pytest.mark.kata("level13.tiling.tiled_matmul")
@pytest.mark.parametrize(
    "sizes, tiles, width",
    [
        ((4, 6, 5), (2, 4), 1.0),  # the docstring's example
        ((64, 32, 16), (8, 16), 2.0),
        ((7, 5, 9), (3, 2), 0.5),
        ((3, 8, 2), (5, 4), 4.0),
        ((4, 4, 4), (1, 1), 1.0),
        ((100, 130, 7), (64, 48), 2.0),
    ],
)
def test_bytes_of_all_tiles(expect, sizes, tiles, width):
    """A product is limited by memory or by arithmetic, and this number decides. Oracle: what each tile of the result
    takes, added up."""
    right = width * sum(counted(*sizes, *tiles))
    expect(tiled_traffic, *sizes, *tiles, width).equals(float(right), rel=1e-12, abs=0)


@pytest.mark.kata("level13.tiling.tiled_matmul")
def test_traffic_of_a_large_product_and_of_one_token(expect):
    """4096^3 in bfloat16: 2 · 4096^2 · (32 + 32 + 1) bytes. One token: the weights once, its own 4096 numbers 32 times,
    and 4096 results."""
    expect(tiled_traffic, 4096, 4096, 4096, 128, 128, 2).equals(2181038080.0, rel=1e-12, abs=0)
    expect(tiled_traffic, 1, 4096, 4096, 128, 128, 2).equals(33824768.0, rel=1e-12, abs=0)


# ---- largest_square_tile


def tried(room, width, stages, multiple):
    """Oracle: every multiple, from the smallest on, as long as all tiles fit."""
    return max(t for t in range(multiple, 2000, multiple) if stages * (t * t + t * t) * width <= room)


@pytest.mark.kata("level13.tiling.tiled_matmul")
@pytest.mark.parametrize(
    "room, width, stages, multiple",
    [
        (49152, 4, 1, 16),  # 64, the docstring's example
        (232448, 2, 1, 16),  # 240; 241 would fit
        (232448, 2, 3, 16),  # 128
        (232448, 0.5, 2, 8),
        (65536, 2, 1, 16),  # 128, exactly full
        (65535, 2, 1, 16),  # one byte too few: 112
        (5000, 1, 2, 5),  # 35; exactly full with 35.36
        (100, 2, 1, 1),  # 5, exactly full
        (9, 0.5, 1, 1),  # 3, exactly full: half bytes are not rounded before the end
    ],
)
def test_the_largest_tile_that_fits(expect, room, width, stages, multiple):
    """Twice the side is half of the traffic; one byte too many, and the kernel does not start. Oracle: all sides."""
    expect(largest_square_tile, room, width, stages, multiple).equals(tried(room, width, stages, multiple))


@pytest.mark.kata("level13.tiling.tiled_matmul")
def test_a_tile_is_a_multiple_of_16_and_alone_if_nothing_is_said(expect):
    """227 KiB in bfloat16: 241 would fit, 240 is a multiple."""
    expect(largest_square_tile, 232448, 2).equals(240)
