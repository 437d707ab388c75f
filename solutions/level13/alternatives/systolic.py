"""Right programs, written another way, for level13.systolic. `alternative` is given when this is read."""

import math

import numpy as np


def _cell_by_cell(self, left):
    """In place, from the last cell to the first, so that each still finds what its neighbours had."""
    left = np.asarray(left, float)
    if left.shape != (self.shape[0],):
        raise ValueError("one activation for each row")
    rows, cols = self.shape
    for r in reversed(range(rows)):
        for c in reversed(range(cols)):
            self.activations[r, c] = self.activations[r, c - 1] if c else left[r]
            above = self.sums[r - 1, c] if r else 0.0
            self.sums[r, c] = above + self.activations[r, c] * self.weights[r, c]
    return self.sums[-1].copy()


def _shifted_in_place(self, left):
    """Slices that are moved by one."""
    left = np.asarray(left, float)
    if left.shape != (self.shape[0],):
        raise ValueError("one activation for each row")
    self.activations[:, 1:] = self.activations[:, :-1].copy()
    self.activations[:, 0] = left
    self.sums[1:] = self.sums[:-1].copy()
    self.sums[0] = 0
    self.sums += self.activations * self.weights
    return np.array(self.sums[-1])


def _from_what_entered(self, left):
    """No cells: the last rows + cols - 1 inputs, from which each column takes a diagonal."""
    left = np.array(left, float)
    if left.shape != (self.shape[0],):
        raise ValueError("one activation for each row")
    rows, cols = self.shape
    before = self.__dict__.get("entered", [np.zeros(rows)] * (rows + cols - 1))
    self.entered = [left, *before[:-1]]  # the newest first
    row = np.arange(rows)
    diagonals = [np.array(self.entered)[rows - 1 - row + c, row] for c in range(cols)]
    return np.array([diagonal @ self.weights[:, c] for c, diagonal in enumerate(diagonals)])


for _program in (_cell_by_cell, _shifted_in_place, _from_what_entered):
    alternative("level13.systolic.SystolicArray.step", _program.__name__[1:], program=_program)


def _checked(x, array):
    x = np.asarray(x, float)
    if x.ndim != 2 or not len(x) or x.shape[1] != array.shape[0]:
        raise ValueError("x is (tokens, rows)")
    return x, len(x), *array.shape


def _sheared(x, array):
    """All inputs are sheared first, and all outputs sheared back at the end."""
    x, tokens, rows, cols = _checked(x, array)
    cycles = tokens + rows + cols - 2
    feed = np.zeros((cycles, rows))
    for r in range(rows):
        feed[r : r + tokens, r] = x[:, r]
    out = np.array([array.step(left) for left in feed])
    return np.column_stack([out[rows - 1 + c : rows - 1 + c + tokens, c] for c in range(cols)]), cycles


def _appointments(x, array):
    """A dictionary of who enters when, and one of who leaves when; it stops when nobody is left."""
    x, tokens, rows, cols = _checked(x, array)
    enters = {(t + r, r): x[t, r] for t in range(tokens) for r in range(rows)}
    leaves = {(t + rows - 1 + c, c): t for t in range(tokens) for c in range(cols)}
    y, cycle = np.zeros((tokens, cols)), 0
    while leaves:
        bottom = array.step([enters.get((cycle, r), 0.0) for r in range(rows)])
        for c in range(cols):
            if (cycle, c) in leaves:
                y[leaves.pop((cycle, c)), c] = bottom[c]
        cycle += 1
    return y, cycle


def _queues(x, array):
    """A queue before each row, with as many bubbles in front as it has rows above; a list for each column's sums."""
    from collections import deque

    x, tokens, rows, cols = _checked(x, array)
    queues = [deque([0.0] * r + list(x[:, r])) for r in range(rows)]
    sums, cycles = [[] for _ in range(cols)], 0
    while len(sums[-1]) < tokens + rows - 1 + cols - 1:
        bottom = array.step([queue.popleft() if queue else 0.0 for queue in queues])
        for c in range(cols):
            sums[c].append(bottom[c])
        cycles += 1
    return np.array([column[rows - 1 + c :][:tokens] for c, column in enumerate(sums)]).T, cycles


for _program in (_sheared, _appointments, _queues):
    alternative("level13.systolic.systolic_matmul", _program.__name__[1:], program=_program)


def _loop(m, n, k, rows, cols):
    if min(m, n, k, rows, cols) < 1:
        raise ValueError("sizes are at least 1")
    return sum(2 * rows + m + cols - 2 for _ in range(0, k, rows) for _ in range(0, n, cols))


def _ceil(m, n, k, rows, cols):
    if min(m, n, k, rows, cols) < 1:
        raise ValueError("sizes are at least 1")
    return math.ceil(k / rows) * math.ceil(n / cols) * (2 * rows + cols + m - 2)


def _shares(m, n, k, rows, cols):
    """Of time, and of the cells of the tiles."""
    if min(m, n, k, rows, cols) < 1:
        raise ValueError("sizes are at least 1")
    padded = math.ceil(k / rows) * rows * math.ceil(n / cols) * cols
    return m / (m + 2 * rows + cols - 2) * (k * n / padded)


alternative("level13.systolic.systolic_cycles", "loop", program=_loop)
alternative("level13.systolic.systolic_cycles", "ceil", program=_ceil)
alternative("level13.systolic.systolic_cycles", "shares", program=_shares, part="systolic_utilization")
