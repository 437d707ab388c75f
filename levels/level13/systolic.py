"""The machine of a TPU: a grid of cells that multiply and add, each of which talks to its neighbours only.

Weights stay in their cells, activations move to the right, sums move down. All of them move once a cycle:

          w00   w01            cycle 0: x00 enters row 0 from the left
    x00 →  ·  →  ·             cycle 1: x00 is one cell further, x10 enters row 0 and x01 row 1
           ↓     ↓             the bottom of column 0 has now x00·w00 + x01·w10, and it leaves
    x01 →  ·  →  ·
           ↓     ↓
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


class SystolicArray:
    """An array of (rows, cols) cells with a weight each; what is on its way in them starts as zeros."""

    def __init__(self, weights: ArrayLike):
        weights = np.array(weights, float)
        if weights.ndim != 2 or not weights.size:
            raise ValueError(
                f"an array of cells has rows and columns, so weights are (rows, cols), not {weights.shape}"
            )
        self.weights = weights
        self.activations = np.zeros_like(weights)  # of each cell: what it multiplied in the last cycle
        self.sums = np.zeros_like(weights)  # and what it then sent down

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape

    def step(self, left: ArrayLike) -> NDArray:
        """Run one cycle and return what leaves the bottom in it: (cols,) float64.

        left  (rows,): what enters each row from the left in this cycle

        In a cycle a cell takes the activation that its left neighbour had in the cycle before (at the edge: `left`) and
        the sum that the cell above sent in the cycle before (at the top: 0). It adds activation · weight to that sum,
        and sends it down. The bottom row's sums are those that leave. Neither `left` nor a returned row changes later,
        and the caller may overwrite both.
        Example: weights [[2, 3], [4, 5]]: [1, 0] -> [0, 0], and then [0, 1] -> [6, 0], [0, 0] -> [0, 8].
        ValueError: not one value for each row. In-datacenter performance analysis of a TPU, arXiv 1704.04760, figure 4.

        ●● · about 4 lines
        """
        left = np.asarray(left, float)
        if left.shape != (self.shape[0],):
            raise ValueError(f"one activation enters each of the {self.shape[0]} rows, not {left.shape}")
        # TODO: one cycle for all cells at once: where does each activation come from, and each sum?
        raise NotImplementedError("level13.systolic.SystolicArray.step")


def systolic_matmul(x: ArrayLike, array: SystolicArray) -> tuple[NDArray, int]:
    """Return (x @ weights (tokens, cols) float64, cycles), where the weights are in the array already.

    x      (tokens, rows), at least one token
    array  an empty one (nothing but zeros on its way), which is used through array.shape and array.step alone

    A new token enters every cycle, its first activation in the first cycle. cycles is how often the array stepped: up
    to the one in which the last sum leaves, and no further. Then the array is empty again: it can be used once more.
    Example: x = [[1, 2]], weights [[2], [4]]: row 0 gets 1 and then 0, row 1 gets 0 and then 2; out comes 10, after
    2 cycles.
    ValueError: x without tokens, or with another number of columns than the array has rows.

    ●●● · about 12 lines
    """
    x = np.asarray(x, float)
    rows, cols = array.shape
    if x.ndim != 2 or not len(x) or x.shape[1] != rows:
        raise ValueError(f"x is (tokens, {rows}) for an array of {rows} rows, not {x.shape}")
    # TODO: in which cycle does token t enter row r, and in which does it leave column c?
    raise NotImplementedError("level13.systolic.systolic_matmul")


def systolic_cycles(m: int, n: int, k: int, rows: int, cols: int) -> int:
    """Return the cycles of (m, k) times (k, n) on an array of (rows, cols) cells, one tile of the weights at a time.

    A tile is what the array holds: rows of the k, cols of the n. The weights of a tile move in from the top, a row a
    cycle: `rows` cycles. Then all m tokens stream through it, as in systolic_matmul. Nothing overlaps: the next tile
    begins when the last sum has left. A ragged tile is padded, and takes as long as a whole one.
    Example: m = 5, n = 4, k = 3 on 2 x 4: two tiles of 2 + 9 cycles -> 22.
    ValueError: a size below 1. SCALE-Sim, arXiv 1811.02883, has 2·rows + cols + m - 2 for a tile.

    ● · about 2 lines
    """
    _check(m, n, k, rows, cols)
    # TODO: how many tiles, and how long does each of them take?
    raise NotImplementedError("level13.systolic.systolic_cycles")


def systolic_utilization(m: int, n: int, k: int, rows: int, cols: int) -> float:
    """Return the useful multiply-adds over those that all cells could have done in the same cycles: in (0, 1].

    Those of the padding are not useful. Example: as above, 60 of 22 · 8 -> 0.341. ValueError: a size below 1.

    ● · about 1 line · part of systolic_cycles
    """
    _check(m, n, k, rows, cols)
    # TODO: useful over possible
    raise NotImplementedError("level13.systolic.systolic_cycles")


def _check(*sizes: int) -> None:
    if min(sizes) < 1:
        raise ValueError(f"sizes are at least 1, not {min(sizes)}")
