"""Right programs, written another way, for level13.threads. `alternative` is given when this is read."""

import math


def _double_buffer(thread, n, x, out):
    """Reads from one half of the shared memory and writes to the other: one barrier a round."""
    shared, lane, size = thread.shared, thread.lane, thread.block_size
    i = thread.block * size + lane
    source, target, distance = 0, size, 1
    shared[lane] = x[i] if i < n else 0
    yield
    while distance < size:
        word = shared[source + lane]
        shared[target + lane] = word + shared[source + lane - distance] if lane >= distance else word
        source, target, distance = target, source, 2 * distance
        yield
    if i < n:
        out[i] = shared[source + lane]


def _own_sum_in_a_register(thread, n, x, out):
    """Reads the neighbour's word alone, and leaves out the barriers behind the last round."""
    shared, lane, size = thread.shared, thread.lane, thread.block_size
    i = thread.block * size + lane
    total = x[i] if i < n else 0
    rounds = (size - 1).bit_length()
    for k in range(rounds):
        shared[lane] = total
        yield
        total += shared[lane - 2**k] if lane >= 2**k else 0
        if k < rounds - 1:
            yield
    if i < n:
        out[i] = total


def _idle_beyond_n(thread, n, x, out):
    """Threads without an element come to the barriers and do nothing else."""
    shared, lane, size = thread.shared, thread.lane, thread.block_size
    i = thread.block * size + lane
    works = i < n
    if works:
        shared[lane] = x[i]
    for k in range(math.ceil(math.log2(size))):
        yield
        adds = works and lane - 2**k >= 0
        neighbour = shared[lane - 2**k] if adds else 0
        yield
        if adds:
            shared[lane] = shared[lane] + neighbour
    if works:
        out[i] = shared[lane]


def _sums_of_halves(thread, n, x, out):
    """Sklansky: the upper half of each group adds the last sum of its lower half. It never reads what is written."""
    shared, lane, size = thread.shared, thread.lane, thread.block_size
    i = thread.block * size + lane
    shared[lane] = x[i] if i < n else 0
    yield
    half = 1
    while half < size:
        if lane // half % 2:
            shared[lane] = shared[lane] + shared[lane // half * half - 1]
        yield
        half *= 2
    if i < n:
        out[i] = shared[lane]


def _rounds(thread):
    """Of one thread, as a generator of its own."""
    distance = 1
    while distance < thread.block_size:
        mine = thread.shared[thread.lane]
        if thread.lane >= distance:
            mine += thread.shared[thread.lane - distance]
        yield
        thread.shared[thread.lane] = mine
        yield
        distance <<= 1


def _generator_in_a_generator(thread, n, x, out):
    i = thread.block * thread.block_size + thread.lane
    thread.shared[thread.lane] = 0
    if i < n:
        thread.shared[thread.lane] = x[i]
    yield
    yield from _rounds(thread)
    if i < n:
        out[i] = thread.shared[thread.lane]


for _program in (
    _double_buffer,
    _own_sum_in_a_register,
    _idle_beyond_n,
    _sums_of_halves,
    _generator_in_a_generator,
):
    alternative("level13.threads.scan_kernel", _program.__name__[1:], program=_program)

for _name, _line in {
    "plus_block_size": "return (n + block_size - 1) // block_size",
    "first_elements": "return len(range(0, n, block_size))",
    "divided_with_rest": "return n // block_size + (n % block_size > 0)",
}.items():
    alternative("level13.threads.scan_kernel", _name, change=("return -(-n // block_size)", _line))
alternative(  # no sum has more than n elements
    "level13.threads.scan_kernel",
    "rounds_of_the_shorter",
    change=("while distance < thread.block_size:", "while distance < min(thread.block_size, n):"),
)
alternative(  # in the last round those that are read write what they had
    "level13.threads.scan_kernel",
    "last_round_without_its_barrier",
    change=(
        "yield  # subtle: all have read before anybody writes",
        "if 2 * distance < thread.block_size:\n            yield",
    ),
)
