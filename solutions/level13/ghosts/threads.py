"""Known-wrong programs of level13.threads. `ghost` is given when this is read."""

_INDEX = "i = thread.block * thread.block_size + lane"
_FIRST = "shared[lane] = x[i] if i < n else 0\n    yield\n"
_START = "distance = 1\n"
_WHILE = "while distance < thread.block_size:"
_MINE = "mine = shared[lane] + shared[lane - distance] if lane >= distance else shared[lane]"
_READ = "yield  # subtle: all have read before anybody writes\n        "
_WRITE = "shared[lane] = mine\n"
_WRITTEN = "        yield  # subtle: and all have written before anybody reads\n"
_TWICE = "distance *= 2"
_GUARD = "if i < n:  # subtle: a guard around the writing alone; a thread that returned early would leave the others waiting\n        "
_OUT = "out[i] = shared[lane]"


def _scan(name, sentence, *pairs, **how):
    ghost("level13.threads.scan_kernel", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **how)


_scan(
    "in_place",
    "Another thread may have written the word that you are about to read: all must have read before anybody writes.",
    _READ,
    "",
)
_scan(
    "next_round_too_early",
    "Another thread may not have written yet what you read in the next round: a barrier belongs behind the writing, too.",
    _WRITTEN,
    "",
)
_scan(
    "no_barrier_in_a_round",
    "A barrier in front of the rounds is not enough: inside each, others still write what you read.",
    _READ,
    "",
    _WRITTEN,
    "",
)
_scan(
    "no_barrier_after_loading",
    "The neighbour's element is there only when it has been loaded: a barrier must come before the first round.",
    _FIRST,
    _FIRST.replace("    yield\n", ""),
)
_scan(
    "early_return",
    "A thread beyond n must come to every barrier; one that returns leaves the others waiting. Guard the accesses alone.",
    _INDEX,
    _INDEX + "\n    if i >= n:\n        return",
)
_scan(
    "barrier_for_some",
    "All threads of a block come to every barrier: it stands in no `if`, and in no loop that some of them leave early.",
    _READ,
    "if lane >= distance:\n            yield\n        ",
)
_scan(
    "reads_beyond_n",
    "The last block has threads without an element: what lies beyond n isn't yours to read.",
    _FIRST,
    _FIRST.replace(" if i < n else 0", ""),
)
_scan(
    "reads_to_the_end_of_the_memory",
    "What lies beyond n isn't yours to read, however long the memory is: the guard is i < n.",
    _FIRST,
    _FIRST.replace("i < n", "i < len(x)"),
)
_scan(
    "writes_beyond_n",
    "The last block has threads without an element: yours write beyond n, over what belongs to somebody else.",
    _GUARD,
    "if i < len(out):\n        ",
)
_scan(
    "one_too_far",
    "n elements are 0 ... n - 1: the guard is i < n, not i <= n.",
    _GUARD,
    "if i <= n:\n        ",
)
_scan(
    "every_block_the_first",
    "A thread's element is block · block_size + lane: yours works on the first block's elements in every block.",
    _INDEX,
    "i = lane",
)
_scan(
    "blocks_of_their_own_number",
    "Blocks before this one have block_size elements each: i = block · block_size + lane.",
    _INDEX,
    "i = thread.block + lane * -(-n // thread.block_size)",
)
_scan(
    "one_thread_adds_all",
    "One thread that adds a block's elements one by one has all others wait: in each round let every thread add two.",
    _START,
    "distance = thread.block_size\n    if lane == 0:\n        for j in range(1, thread.block_size):\n"
    "            shared[j] = shared[j] + shared[j - 1]\n    yield\n",
)
_scan(
    "each_adds_its_own",
    "Each thread adds all elements before its own: the last one reads the whole block. Use the sums of others.",
    _START,
    "distance = thread.block_size\n    mine = sum(shared[j] for j in range(lane + 1))\n    yield\n"
    "    shared[lane] = mine\n",
)
_scan(
    "exclusive",
    "The sum includes x[i] itself: yours ends before it.",
    _OUT,
    "out[i] = shared[lane - 1] if lane else 0",
)
_scan(
    "distance_stays",
    "The distance doubles from round to round; with 1 each time a sum only grows by its neighbour.",
    _WHILE,
    "for _ in range((thread.block_size - 1).bit_length()):",
    _TWICE,
    "pass",
)
_scan(
    "distance_grows_by_one",
    "After a round each word is the sum of twice as many elements: the distance doubles. Plus 1 counts some twice.",
    _TWICE,
    "distance += 1",
)
_scan(
    "one_round_too_few",
    "Rounds go on while distance < block_size: for 5 threads distances 1, 2 and 4. Yours rounds down.",
    _WHILE,
    "while 2 * distance <= thread.block_size:",
)
_scan(
    "a_warp_alone",
    "A block may have several warps: rounds go on until distance reaches block_size, not 32.",
    _WHILE,
    "while distance < min(thread.block_size, 32):",
)
_scan(
    "leaves_out_the_nearest",
    "Lane `distance` has an element to add, that of lane 0: the condition is lane >= distance.",
    _MINE,
    "mine = shared[lane] + shared[lane - distance] if lane > distance else shared[lane]",
)
_scan(
    "behind_the_first_lane",
    "In front of lane 0 there is no word: a thread with lane < distance has nothing to add.",
    _MINE,
    "mine = shared[lane] + shared[lane - distance]",
)
_scan(
    "sums_from_behind",
    "Sums go from the block's first element up to i; yours goes from i to the last one.",
    _MINE,
    "mine = shared[lane] + shared[lane + distance] if lane + distance < thread.block_size else shared[lane]",
)
_scan(
    "rounds_for_all_elements",
    "Only the threads of a block share sums: log2(block_size) rounds are enough, however large n is.",
    _WHILE,
    "while distance < max(n, thread.block_size):",
)
_scan(
    "adds_up_in_the_input",
    "x is only read: another kernel needs it as it was. The threads of a block share thread.shared.",
    _OUT,
    "out[i] = x[i] = shared[lane]",
)
_scan(
    "adds_up_in_the_output",
    "out is written, never read: between the rounds sums belong in thread.shared, which is close to the threads.",
    _FIRST,
    "if i < n:\n        out[i] = x[i]\n    yield\n",
    _MINE,
    "mine = out[i] + out[i - distance] if lane >= distance and i < n else out[i] if i < n else 0",
    "shared[lane] = mine\n",
    "if i < n:\n            out[i] = mine\n",
    _GUARD + _OUT,
    "",
)


def _without_a_barrier(thread, n, x, out):
    i = thread.block * thread.block_size + thread.lane
    if i < n:
        out[i] = sum(x[j] for j in range(i - thread.lane, i + 1))


def _two_halves(both):
    def kernel(thread, n, x, out):
        shared, lane, size = thread.shared, thread.lane, thread.block_size
        i = thread.block * size + lane
        shared[lane] = x[i] if i < n else 0
        if both:
            shared[size + lane] = shared[lane]
        yield
        source, distance = 0, 1
        while distance < size:
            if lane >= distance:
                shared[size - source + lane] = shared[source + lane] + shared[source + lane - distance]
            yield
            source, distance = size - source, 2 * distance
        if i < n:
            out[i] = shared[source + lane]

    return kernel


ghost(
    "level13.threads.scan_kernel",
    "without_a_barrier",
    "A kernel is a generator, and a function without a `yield` is none: yours has no barrier, so nothing can be shared.",
    program=_without_a_barrier,
)
for _both, _rest in ((False, "."), (True, ", in every round and not only at first.")):
    ghost(
        "level13.threads.scan_kernel",
        f"not_copied_to_the_other_half{'_but_once' * _both}",
        f"With two halves of the memory a thread that adds nothing in a round still copies its sum to the other half{_rest}",
        program=_two_halves(_both),
    )
# ---- grid_size
_scan(
    "last_block_lost",
    "10 elements in blocks of 4 take 3 blocks: rounded down, the last elements are never computed.",
    "return -(-n // block_size)",
    "return n // block_size",
)
_scan(
    "a_block_too_many",
    "Where n divides evenly no further block is needed.",
    "return -(-n // block_size)",
    "return n // block_size + 1",
)
_scan(
    "at_least_one_block",
    "For no elements there is no block.",
    "return -(-n // block_size)",
    "return max(1, -(-n // block_size))",
)
_scan(
    "threads_for_blocks",
    "A grid is a number of blocks, not of threads.",
    "return -(-n // block_size)",
    "return -(-n // block_size) * block_size",
)
