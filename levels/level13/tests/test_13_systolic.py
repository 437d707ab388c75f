"""Judges systolic.py by where each product goes in time: what enters row r in cycle t meets column c's sum c cycles
later, and leaves at the bottom rows - 1 - r cycles after that. Whole numbers, so everything is exact.
"""

import numpy as np
import pytest

from level13.systolic import SystolicArray, systolic_cycles, systolic_matmul, systolic_utilization

rng = np.random.default_rng(13)


def whole(*shape):
    return rng.integers(-9, 10, shape).astype(float)


def leaving(weights, fed):
    """Oracle: what leaves in the last cycle of `fed`, from all that has entered; nothing is stored in cells."""
    rows, cols = weights.shape
    sums = np.zeros(cols)
    for c in range(cols):
        for r in range(rows):
            entered = len(fed) - 1 - (rows - 1 - r) - c
            if entered >= 0:
                sums[c] += fed[entered][r] * weights[r, c]
    return sums


# ---- step


def fed_with(weights, feed):
    def rows_that_leave(cls):
        array = cls(weights)
        return [array.step(left) for left in feed]

    return rows_that_leave


@pytest.mark.kata("level13.systolic.SystolicArray.step")
def test_the_example(expect):
    """By hand: 1 meets 2 in column 0 and then 3 in column 1; a row later 4 and 5 are added to those sums."""
    story = fed_with([[2, 3], [4, 5]], [[1, 0], [0, 1], [0, 0], [0, 0]])
    expect.story(story, SystolicArray).equals([np.array(row, float) for row in ([0, 0], [6, 0], [0, 8], [0, 0])])


ONE = [1.0, 0, 0, 0, 0, 0, 0]
FEEDS = {
    "one number into the top row": (whole(3, 4), [[x, 0, 0] for x in ONE]),
    "one number into the bottom row": (whole(3, 4), [[0, 0, x] for x in ONE]),
    "a single cell": (whole(1, 1), [[3], [0], [-2]]),
    "one row": (whole(1, 4), whole(7, 1)),
    "one column": (whole(4, 1), whole(7, 4)),
    "every row in every cycle": (whole(2, 5), whole(9, 2)),
    "more rows than columns": (whole(4, 3), whole(12, 4)),
    "bubbles in between": (whole(3, 3), whole(12, 3) * (rng.random((12, 1)) < 0.4)),
    "a long pause": (whole(3, 2), np.concatenate([whole(2, 3), np.zeros((6, 3)), whole(5, 3)])),
}


@pytest.mark.kata("level13.systolic.SystolicArray.step")
@pytest.mark.parametrize("name", FEEDS)
def test_each_product_reaches_the_bottom_in_its_cycle(expect, name):
    """Oracle: the cycle of each product, by counting cells. A sum that arrives a cycle early or late is added to
    another token's, and the layer's output is a mixture of requests."""
    weights, feed = FEEDS[name]
    right = [leaving(weights, feed[: t + 1]) for t in range(len(feed))]
    expect.story(fed_with(weights, feed), SystolicArray).equals(right)


@pytest.mark.kata("level13.systolic.SystolicArray.step")
def test_fractions_keep_their_digits(expect):
    """float64 all the way: 1 + 2^-40 is another number than 1, and 1 is all that float32 leaves of it."""
    expect.story(fed_with([[1.0]], [[1 + 2**-40]]), SystolicArray).equals([np.array([1 + 2**-40])], rel=0, abs=0)


@pytest.mark.kata("level13.systolic.SystolicArray.step")
def test_two_arrays_keep_apart(expect):
    """A chip has four arrays and more: what is on its way in one of them is not seen in another."""
    weights, feed = [whole(2, 3), whole(2, 3)], whole(6, 2)

    def in_turn(cls):
        arrays = [cls(w) for w in weights]
        return [[array.step(left) for array in arrays] for left in feed]

    expect.story(in_turn, SystolicArray).equals(
        [[leaving(w, feed[: t + 1]) for w in weights] for t in range(len(feed))]
    )


@pytest.mark.kata("level13.systolic.SystolicArray.step")
def test_the_callers_buffers_are_its_own(expect):
    """The caller fills one buffer again and again, and overwrites what it got: the array has its own copies."""
    weights, feed = whole(3, 2), whole(6, 3)

    def one_buffer(cls):
        array, left, seen = cls(weights), np.zeros(3), []
        for row in feed:
            left[:] = row
            bottom = array.step(left)
            seen.append((bottom.copy(), left.copy()))
            left[:] = bottom[:] = 77
        return seen

    right = [(leaving(weights, feed[: t + 1]), feed[t]) for t in range(len(feed))]
    expect.story(one_buffer, SystolicArray).equals(right)


# ---- systolic_matmul


class Pipes:
    """An array without cells: it keeps all that entered, and its weights to itself."""

    def __init__(self, weights):
        self.__weights, self.__fed = np.array(weights, float), []
        self.shape = self.__weights.shape

    def step(self, left):
        left = np.array(left, float)
        if left.shape != self.shape[:1]:
            raise ValueError(f"{left.shape} for {self.shape[0]} rows")
        self.__fed.append(left)
        return leaving(self.__weights, self.__fed)

    def num_steps(self):
        return len(self.__fed)

    def __reduce_ex__(self, protocol):
        raise TypeError("there is one array, and no copy of it to try things on")


def streamed(x, weights):
    """What comes back, and how often the array really stepped."""

    def product_and_steps(matmul):
        array = Pipes(weights)
        y, cycles = matmul(x, array)
        return y, cycles, array.num_steps()

    return product_and_steps


SIZES = [(1, 1, 1), (5, 3, 4), (1, 4, 3), (2, 5, 1), (6, 1, 3), (1, 1, 5), (1, 6, 1), (2, 4, 6), (8, 2, 2)]


@pytest.mark.kata("level13.systolic.systolic_matmul")
@pytest.mark.parametrize("tokens, rows, cols", SIZES)
def test_the_product_comes_out_of_the_array(expect, tokens, rows, cols):
    """Oracle: numpy's product. The last token's last sum crosses rows + cols - 2 cells more than the first cycle's,
    which is why one token costs almost as much as a hundred."""
    x, weights = whole(tokens, rows), whole(rows, cols)
    cycles = len(range(tokens - 1 + rows - 1 + cols - 1 + 1))
    expect.story(streamed(x, weights), systolic_matmul).equals((x @ weights, cycles, cycles))


@pytest.mark.kata("level13.systolic.systolic_matmul")
def test_x_may_be_lists_of_integers(expect):
    """The docstring's example: 1 · 2 + 2 · 4 = 10 after 2 cycles, as float64."""
    expect(systolic_matmul, [[1, 2]], SystolicArray([[2], [4]])).equals((np.array([[10.0]]), 2))


@pytest.mark.kata("level13.systolic.systolic_matmul")
def test_fractions_are_kept(expect):
    """Activations are real numbers: rounded to the type of the weights they would be lost."""
    x, weights = whole(3, 2) / 8, whole(2, 4) / 4
    expect.story(streamed(x, weights), systolic_matmul).equals((x @ weights, 7, 7))


@pytest.mark.kata("level13.systolic.systolic_matmul")
def test_zeros_and_equal_tokens_take_their_cycles_too(expect):
    """Padding is streamed like all else: the array does not know what it multiplies. 7 tokens take 7 + 2 + 3 - 2."""
    x, weights = np.array([[0, 0], [3, 1], [0, 0], [3, 1], [0, 5], [3, 1], [0, 0]]), whole(2, 3)
    expect.story(streamed(x, weights), systolic_matmul).equals((x @ weights, 10, 10))


@pytest.mark.kata("level13.systolic.systolic_matmul")
def test_the_array_is_empty_afterwards(expect):
    """The next request streams through the same array: what is still on its way would be added to its sums."""
    x, weights = whole(3, 4) + 20, whole(4, 3) + 20

    def what_still_comes(matmul):
        array = Pipes(weights)
        matmul(x, array)
        return sum(np.abs(array.step(np.zeros(4))).sum() for _ in range(9))

    expect.story(what_still_comes, systolic_matmul).equals(0.0)


@pytest.mark.kata("level13.systolic.systolic_matmul")
def test_two_requests_one_after_the_other(expect):
    """On your own array, used twice: the second request's tokens are not mixed with the first one's."""
    weights, first, second = whole(3, 4), whole(5, 3), whole(2, 3)

    def twice(matmul):
        array = SystolicArray(weights)
        return matmul(first, array), matmul(second, array)

    expect.story(twice, systolic_matmul).equals(((first @ weights, 10), (second @ weights, 7)))


# ---- systolic_cycles


def tile_by_tile(m, n, k, rows, cols):
    """Oracle: the cycle in which the last sum of each tile leaves, one tile after the other."""
    cycles = 0
    for _ in range(0, k, rows):
        for _ in range(0, n, cols):
            begin = cycles + rows  # the weights are in
            last_enters = begin + (m - 1) + (rows - 1)
            cycles = last_enters + (cols - 1) + 1
    return cycles


TILES = [(5, 4, 3, 2, 4), (3, 7, 5, 2, 3), (1, 1, 1, 1, 1), (1, 2, 3, 4, 6), (8, 1, 130, 128, 128), (9, 6, 4, 2, 3)]


@pytest.mark.kata("level13.systolic.systolic_cycles")
@pytest.mark.parametrize("m, n, k, rows, cols", TILES)
def test_tiles_one_after_the_other(expect, m, n, k, rows, cols):
    """Oracle: a loop over tiles. The part that is left over is padded, and takes as long as a whole tile."""
    expect(systolic_cycles, m, n, k, rows, cols).equals(tile_by_tile(m, n, k, rows, cols))


@pytest.mark.kata("level13.systolic.systolic_cycles")
def test_one_token_through_a_large_layer(expect):
    """32 · 32 tiles of 128 + 1 + 254 cycles: 392,192. Decoding is all loading of weights and crossing of cells."""
    expect(systolic_cycles, 1, 4096, 4096, 128, 128).equals(392192)


@pytest.mark.kata("level13.systolic.systolic_cycles")
@pytest.mark.parametrize("m, n, k, rows, cols", TILES)
def test_useful_work_over_possible_work(expect, m, n, k, rows, cols):
    """Every multiply-add of the product, over one for each cell in each cycle of the oracle above."""
    useful = len(range(m)) * n * k
    possible = tile_by_tile(m, n, k, rows, cols) * rows * cols
    expect(systolic_utilization, m, n, k, rows, cols).equals(useful / possible, rel=1e-9, abs=0)


@pytest.mark.kata("level13.systolic.systolic_cycles")
def test_what_one_token_makes_of_the_peak(expect):
    """4096² of 392,192 · 128² multiply-adds: 0.26 %. With 4096 tokens it is 91 %: this machine lives from batches."""
    expect(systolic_utilization, 1, 4096, 4096, 128, 128).equals(1024 / 392192, rel=1e-9, abs=0)
    expect(systolic_utilization, 4096, 4096, 4096, 128, 128).equals(4096 / 4478, rel=1e-9, abs=0)
