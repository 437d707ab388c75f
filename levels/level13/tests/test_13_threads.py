"""Judges threads.py by running sums of a list, in several orders of the threads.

Memories give their words out by index alone, so each reading is counted, and the input has no word behind the last one.
"""

from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest

from level13.threads import Words, ascending, descending, grid_size, launch, scan_kernel


def by_index(memory, end):
    """Another memory's words, by index and by nothing else; from `end` on nobody may read or write."""

    class Window(Words):
        def __init__(self):
            pass

        @property
        def num_reads(self):
            return memory.num_reads

        def __len__(self):
            return len(memory)

        def __getitem__(self, i):
            return memory[inside(i)]

        def __setitem__(self, i, word):
            memory[inside(i)] = word

    def inside(i):
        if not 0 <= i < end:
            raise IndexError(f"word {i}, where {end} are in use")
        return i

    return Window()


def data(n):
    """Neither constant nor in order, with a zero and negative numbers among them."""
    return [(7 * i * i + 5 * i) % 23 - 8 for i in range(n)]


def running_sums(words, block_size):
    """Oracle: itertools, block by block."""
    blocks = [words[i : i + block_size] for i in range(0, len(words), block_size)]
    return [total for block in blocks for total in accumulate(block)]


def shuffled(seed):
    rng = Random(seed)
    return lambda n: rng.sample(range(n), n)


def odd_ones_first(n):
    return sorted(range(n), key=lambda lane: (lane + 1) % 2)


ORDERS = {
    "ascending": lambda: ascending,
    "descending": lambda: descending,
    "shuffled": lambda: shuffled(3),
    "odd ones first": lambda: odd_ones_first,
}


def run(kernel, words, block_size, order, space=0):
    """The output, behind which lie `space` words of others; the chain of reads; the input as it is afterwards; and how
    often the output was read."""
    n = len(words)
    x, out = Words(words + [None] * space), Words([-1] * (n + space))

    def hidden(thread, n, x, out):
        return kernel(replace(thread, shared=by_index(thread.shared, 2 * block_size)), n, x, out)

    blocks = len(range(0, n, block_size))
    chain = launch(hidden, blocks, block_size, n, by_index(x, n), out, order=ORDERS[order]())
    return out.words, chain, x.words[:n], out.num_reads


def scanned(n, block_size, order, space=0):
    def output(kernel):
        return run(kernel, data(n), block_size, order, space)[0]

    return output


@pytest.mark.kata("level13.threads.scan_kernel")
@pytest.mark.parametrize("order", ORDERS)
def test_sums_of_a_block_in_any_order_of_the_threads(expect, order):
    """1 2 3 4 gives 1 3 6 10. Without its barriers a kernel is right on one GPU and wrong on the next."""
    expect.story(lambda kernel: run(kernel, [1, 2, 3, 4], 4, order)[0], scan_kernel).equals([1, 3, 6, 10])


@pytest.mark.kata("level13.threads.scan_kernel")
def test_ten_elements_in_blocks_of_eight(expect):
    """Oracle: itertools. The last block has 6 threads too many: the 6 words behind the output are somebody else's."""
    right = [*running_sums(data(10), 8), *[-1] * 6]
    expect.story(scanned(10, 8, "ascending", space=6), scan_kernel).equals(right)


SHAPES = [(6, 4), (7, 1), (3, 3), (11, 5), (1, 5), (4, 32), (40, 32), (13, 6), (9, 2), (70, 64)]


@pytest.mark.kata("level13.threads.scan_kernel")
@pytest.mark.parametrize("n, block_size", SHAPES)
def test_blocks_of_any_size(expect, n, block_size):
    """Oracle: itertools. Sizes that are no power of two, a ragged last block, one thread, too many threads."""
    seen = {order: scanned(n, block_size, order, space=2) for order in ORDERS}
    right = [*running_sums(data(n), block_size), -1, -1]
    expect.story(lambda kernel: [seen[order](kernel) for order in seen], scan_kernel).equals([right] * len(seen))


# The worst right chains are 2 · ceil(log2) + 2; one thread that adds all has block_size and more.
CHAINS = [(64, 32, 18), (1, 1, 3), (6, 3, 9), (5, 5, 12), (128, 128, 24), (140, 3, 9)]


@pytest.mark.kata("level13.threads.scan_kernel")
@pytest.mark.parametrize("n, block_size, most", CHAINS)
def test_the_threads_share_the_work(expect, n, block_size, most):
    """3 · ceil(log2(block_size)) + 3 reads one after the other: one thread that adds all keeps the others waiting."""

    def chain(kernel):
        return run(kernel, data(n), block_size, "ascending")[1]

    expect.story(chain, scan_kernel).holds(lambda reads: reads <= most, f"at most {most} reads one after the other")


@pytest.mark.kata("level13.threads.scan_kernel")
def test_the_input_stays(expect):
    """Another kernel reads the same input: the threads work in the memory that they share."""
    expect.story(lambda kernel: run(kernel, data(9), 4, "ascending")[2], scan_kernel).equals(data(9))


@pytest.mark.kata("level13.threads.scan_kernel")
def test_the_output_is_written_and_not_read(expect):
    """An answer of memory takes hundreds of cycles, one of shared memory some thirty: that is why a block has one."""
    expect.story(lambda kernel: run(kernel, data(9), 4, "ascending")[3], scan_kernel).equals(0)


@pytest.mark.kata("level13.threads.scan_kernel")
@pytest.mark.parametrize("n, block_size", [(10, 4), (0, 4), (8, 4), (50000, 32768), (1, 5), (70000, 1)])
def test_as_many_blocks_as_it_takes(expect, n, block_size):
    """Oracle: the first elements of the blocks, counted. Without the last block its elements are never written."""
    expect(grid_size, n, block_size).equals(len(range(0, n, block_size)))
