"""A kernel as a GPU runs it: blocks of threads, a memory that a block shares, and barriers. Given, but for the kernel.

A kernel is a generator, one for each thread, and `yield` is a barrier (CUDA: __syncthreads): no thread of a block goes
on until all of them are there. Between two barriers nobody knows who comes first: here `order` says so.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field


class Words:
    """A memory that is read and written word by word, `words[i]`, and counts how often it is read."""

    def __init__(self, words: Iterable):
        self.words = list(words)
        self.num_reads = 0

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, i: int):
        self.num_reads += 1
        return self.words[self._inside(i)]

    def __setitem__(self, i: int, word) -> None:
        self.words[self._inside(i)] = word

    def _inside(self, i: int) -> int:
        if not 0 <= i < len(self):
            raise IndexError(f"word {i} of {len(self)}: a GPU would take whatever lies there")
        return i


@dataclass(frozen=True)
class Thread:
    block: int  # which block, from 0
    lane: int  # which thread of it, from 0
    block_size: int  # threads in each block
    shared: Words = field(repr=False)  # of the block: 2 · block_size words, at first whatever was there


Kernel = Callable[..., Iterator[None]]
ascending = range  # orders for launch: of n threads, who runs first, who next


def descending(n: int) -> Sequence[int]:
    return range(n)[::-1]


def launch(kernel: Kernel, num_blocks: int, block_size: int, *args, order=ascending) -> int:
    """Run kernel(thread, *args) for every thread of every block, and return the longest chain of reads: from barrier to
    barrier the most that one thread reads, from the shared memory and from those of args that are Words; of these the
    sum; of the slowest block.

    RuntimeError: some threads of a block wait at a barrier that others, which are done, never come to. On a GPU that is
    undefined: it may hang.
    """
    slowest = 0
    for block in range(num_blocks):
        shared = Words([None] * 2 * block_size)
        memories = [shared, *(arg for arg in args if isinstance(arg, Words))]
        threads = [kernel(Thread(block, lane, block_size, shared), *args) for lane in range(block_size)]
        chain, waiting = 0, block_size
        while waiting:
            longest, waiting = 0, 0
            for lane in order(block_size):
                before = sum(memory.num_reads for memory in memories)
                waiting += next(threads[lane], "done") != "done"
                longest = max(longest, sum(memory.num_reads for memory in memories) - before)
            if waiting not in (0, block_size):
                raise RuntimeError(f"{waiting} of {block_size} threads wait at a barrier that the others never reach")
            chain += longest
        slowest = max(slowest, chain)
    return slowest


def grid_size(n: int, block_size: int) -> int:
    """Return how many blocks it takes for a thread for each of n elements. ValueError: n below 0, block_size below 1.

    Example: n = 10, blocks of 4 -> 3.

    ● · about 1 line · part of scan_kernel
    """
    if n < 0 or block_size < 1:
        raise ValueError(f"0 or more elements in blocks of at least 1 thread, not {n} and {block_size}")
    # TODO: the last block may be ragged
    raise NotImplementedError("level13.threads.scan_kernel")


def scan_kernel(thread: Thread, n: int, x: Words, out: Words) -> Iterator[None]:
    """Write to out[i] the sum of the elements from the first one of i's block up to x[i], included, for each i below n.

    One thread for each element: i = block · block_size + lane. block_size is anything from 1 on.
    x, out  two different memories, both maybe longer than n: what lies beyond n is neither read nor written, and out is
            never read

    The threads of a block share the work through thread.shared: the chain of reads that launch returns is at most
    3 · ceil(log2(block_size)) + 3. The result is the same in every order of the threads.
    Example: blocks of 4, x = 1 2 3 4 5 6, n = 6: out = 1 3 6 10 5 11.
    Hillis and Steele, Data parallel algorithms, CACM 1986.

    ●●● · about 12 lines
    """
    # TODO: who adds what in each round, and what must have happened before anybody may?
    raise NotImplementedError("level13.threads.scan_kernel")
