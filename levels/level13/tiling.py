"""A matrix product in tiles: what is loaded once, and used often."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray


class SlowMemory:
    """Two matrices a (m, k) and b (k, n) that are far away; what is loaded from them is counted, in elements."""

    def __init__(self, a: NDArray, b: NDArray):
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            raise ValueError(f"a is (m, k) and b is (k, n), not {a.shape} and {b.shape}")
        self.matrices = {"a": a, "b": b}
        self.shape = (a.shape[0], b.shape[1], a.shape[1])  # (m, n, k)
        self.loaded = 0  # elements so far
        self.largest = 0  # elements of the largest load

    def load(self, name: str, top: int, bottom: int, left: int, right: int) -> NDArray:
        """Rows top..bottom - 1 and columns left..right - 1 of "a" or "b". IndexError: they reach beyond the matrix."""
        matrix = self.matrices[name]
        if not (0 <= top <= bottom <= matrix.shape[0] and 0 <= left <= right <= matrix.shape[1]):
            raise IndexError(f"[{top}:{bottom}, {left}:{right}] reaches beyond {name}, which is {matrix.shape}")
        tile = matrix[top:bottom, left:right].copy()
        self.loaded += tile.size
        self.largest = max(self.largest, tile.size)
        return tile


def tiled_traffic(m: int, n: int, k: int, tile_m: int, tile_n: int, bytes_per_element: float) -> float:
    """Return the bytes between memory and chip for (m, k) times (k, n): each tile of the result, (tile_m, tile_n), is
    made from all of its rows of the one and all of its columns of the other, and is written once.

    Nothing stays on the chip from one tile of the result to the next. Ragged tiles load what there is, no padding.
    Example: m = 4, n = 6, k = 5, tiles of 2 x 4, 1 byte: 20 twice, 30 twice and 24: 124. ValueError: anything not above
    0.

    ● · about 2 lines · part of tiled_matmul
    """
    _check(m, n, k, tile_m, tile_n, bytes_per_element)
    # TODO: how often is each matrix read?
    raise NotImplementedError("level13.tiling.tiled_matmul")


def tiled_matmul(memory: SlowMemory, tile_m: int, tile_n: int, tile_k: int) -> NDArray:
    """Return a @ b (m, n) in float64, for the two matrices in memory; m, n, k are memory.shape.

    They are used through memory.load alone. A load brings no more than a tile: (tile_m, tile_k) of a, (tile_k, tile_n)
    of b; at the edges what is left. In all exactly what tiled_traffic says is loaded, the result not counted. Products
    of two tiles are in their own dtype; sums over them are in float64. m, n and k may be anything from 1 on.
    Example: 4 x 5 times 5 x 6 in tiles of 2 x 4 x 2: 12 loads of a, 12 of b, 100 elements in all.
    ValueError: a tile below 1.

    ●● · about 11 lines
    """
    _check(tile_m, tile_n, tile_k)
    m, n, k = memory.shape
    out = np.zeros((m, n))
    # TODO: fill out, one tile after the other, each along k
    raise NotImplementedError("level13.tiling.tiled_matmul")
    return out


def largest_square_tile(shared_bytes: int, bytes_per_element: float, stages: int = 1, multiple_of: int = 16) -> int:
    """Return the largest t, a multiple of `multiple_of`, for which `stages` tiles (t, t) of a and as many of b fit.

    stages  pairs of tiles at once: one in use, the others on their way

    The result is in registers. Example: 48 KiB (49152 bytes), 4 bytes -> 64 (78 would fit).
    ValueError: anything not above 0, or not even the smallest tile fits.

    ● · about 2 lines · part of tiled_matmul
    """
    _check(shared_bytes, bytes_per_element, stages, multiple_of)
    if 2 * stages * multiple_of**2 * bytes_per_element > shared_bytes:
        raise ValueError(f"not even tiles of {multiple_of} x {multiple_of} fit into {shared_bytes} bytes: fewer stages")
    # TODO: how many elements has one tile at most, and which side is that?
    raise NotImplementedError("level13.tiling.tiled_matmul")


def _check(*sizes: float) -> None:
    if min(sizes) <= 0:
        raise ValueError(f"sizes are above 0, not {min(sizes)}")
