"""Judges free_queue.py by a plain list: the same order, from which anything can be taken out, only slowly.

How long an operation takes is counted, not timed: comparisons and hashes of ids, steps of Python, bytes allocated.
"""

import random
import sys
import tracemalloc
from statistics import median

import pytest

from level12.free_queue import FreeQueue


class Row:
    """Oracle: a list."""

    def __init__(self, ids=()):
        self.row = []
        self.append_n(ids)

    def __len__(self):
        return len(self.row)

    def __contains__(self, block):
        return block in self.row

    def ids(self):
        return list(self.row)

    def popleft(self):
        if not self.row:
            raise ValueError
        return self.row.pop(0)

    def remove(self, block):
        self.row.remove(block)

    def _new(self, ids):
        if len({*ids, *self.row}) < len(ids) + len(self.row):
            raise ValueError
        return list(ids)

    def append_n(self, ids):
        self.row = self.row + self._new(list(ids))

    def prepend_n(self, ids):
        self.row = self._new(list(ids)) + self.row


def tried(call, *args):
    """What a call returns, or "ValueError"; what adding and removing return is nobody's business."""
    try:
        found = call(*args)
    except ValueError:
        return "ValueError"
    return found if call.__name__ == "popleft" else None


def told(cls, begin, *calls):
    """After each call: what it said, the ids in order, and how many they are."""
    queue, seen = cls(begin), []
    for name, *args in calls:
        seen.append((tried(getattr(queue, name), *args), list(queue.ids()), len(queue)))
    return seen


EXAMPLE = [1, 2, 3, 4, 5], ("popleft",), ("remove", 3), ("append_n", [3, 1]), ("prepend_n", [7, 8])


@pytest.mark.kata("level12.free_queue.FreeQueue")
def test_the_example(expect):
    """The docstring's, by hand: 1 and 3 are taken out and come back behind, 7 and 8 before all others, 7 first."""
    rows = [[2, 3, 4, 5], [2, 4, 5], [2, 4, 5, 3, 1], [7, 8, 2, 4, 5, 3, 1]]
    right = [(said, row, len(row)) for said, row in zip([1, None, None, None], rows)]
    expect.story(lambda cls: told(cls, *EXAMPLE), FreeQueue).equals(right)


pop, take, append, prepend = "popleft", "remove", "append_n", "prepend_n"

STORIES = {
    "the next one": ([1, 2, 3], (take, 1), (pop,), (pop,), (append, [1]), (pop,)),
    "the last of all": ([1, 2, 3], (take, 3), (append, [4]), (take, 4), (take, 2), (append, [9, 3])),
    "empty again": ([5], (pop,), (append, [6, 5]), (pop,), (pop,), (prepend, [4, 2])),
    "from nothing": ([], (prepend, [3, 1]), (append, [2]), (prepend, [9])),
    "nothing to add": ([2, 1], (append, []), (prepend, []), (pop,), (pop,), (append, [])),
    "comes back elsewhere": ([1, 2, 3, 4], (take, 2), (append, [2]), (pop,), (pop,), (pop,)),
    "comes back in front": ([1, 2, 3, 4], (take, 3), (prepend, [3]), (pop,), (append, [3]), (pop,)),
    "neighbours": ([1, 2, 3, 4, 5], (take, 3), (take, 2), (take, 4), (append, [3]), (pop,)),
    "three in front": ([4], (prepend, [1, 2, 3]), (prepend, [9, 8]), (pop,), (pop,), (pop,)),
    "no order of ids": ([30, 10, 20], (pop,), (append, [5, 30, 1]), (pop,), (pop,), (pop,)),
    "with a 0": ([0, 3], (pop,), (append, [0]), (prepend, [0, 5]), (take, 3), (pop,), (take, 0)),
    "nobody there": ([], (pop,), (take, 1), (append, [1]), (pop,), (pop,), (take, 1)),
    "twice": ([1, 2], (append, [3, 1]), (prepend, [2]), (append, [4, 4]), (take, 1), (take, 1)),
    "one or none": ([7], (take, 7), (prepend, [7]), (take, 7), (append, [7]), (pop,), (pop,)),
    "the middle of six": ([6, 1, 5, 2, 4, 3], (take, 2), (take, 6), (take, 3), (pop,), (append, [6])),
}  # fmt: skip


@pytest.mark.kata("level12.free_queue.FreeQueue")
@pytest.mark.parametrize("story", STORIES)
def test_the_order_is_that_of_a_list(expect, story):
    """Oracle: a list. The block in front is the one whose contents are forgotten next; one that is taken out of the
    middle has a reader, and must not come out again."""
    begin, *calls = STORIES[story]
    expect.story(lambda cls: told(cls, begin, *calls), FreeQueue).equals(told(Row, begin, *calls))


@pytest.mark.kata("level12.free_queue.FreeQueue")
def test_who_is_in_the_queue(expect):
    """Membership follows every move: the pool asks it before it takes a block out."""

    def asked(cls):
        queue = cls([4, 0, 6])
        seen = [[block in queue for block in range(8)]]
        for act in (
            queue.popleft,
            lambda: queue.remove(6),
            lambda: queue.append_n([4, 7]),
            lambda: queue.prepend_n([6]),
        ):
            act()
            seen.append([block in queue for block in range(8)])
        return ["".join("-x"[there] for there in row) for row in seen]

    right = ["x---x-x-", "x-----x-", "x-------", "x---x--x", "x---x-xx"]
    expect.story(asked, FreeQueue).equals(right)


@pytest.mark.kata("level12.free_queue.FreeQueue")
def test_ids_come_from_anywhere(expect):
    """A range, a generator, a reversed table; and what ids() gave is the caller's own."""

    def given(cls):
        queue = cls(block for block in (3, 1))
        queue.append_n(reversed([6, 5]))
        queue.prepend_n(iter([9, 8]))
        own = queue.ids()
        own.clear()
        return queue.ids(), cls().ids(), cls(range(1, 4)).ids(), len(cls(()))

    expect.story(given, FreeQueue).equals(([9, 8, 3, 1, 5, 6], [], [1, 2, 3], 0))


class Counted(int):
    """An id that counts how often it is compared or hashed."""

    work = 0

    def __eq__(self, other):
        Counted.work += 1
        return int(self) == other

    def __ne__(self, other):
        Counted.work += 1
        return int(self) != other

    def __hash__(self):
        Counted.work += 1
        return int.__hash__(self)


def compared(act):
    Counted.work = 0
    act()
    return Counted.work


def stepped(act):
    """Lines of Python that it runs."""
    lines = 0

    def watch(frame, event, arg):
        nonlocal lines
        lines += 1
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines


def allocated(act):
    running = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        act()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()


ACTS = {
    "remove": lambda queue, block: queue.remove(block),
    "popleft": lambda queue, block: queue.popleft(),
    "append_n": lambda queue, block: queue.append_n([Counted(block + 10_000)]),
    "prepend_n": lambda queue, block: queue.prepend_n([Counted(block + 20_000)]),
    "in": lambda queue, block: block in queue,
    "len": lambda queue, block: len(queue),
}


def is_slow(cls, act):
    """Which of the three counts of one operation grow with a queue of 4,000? The median of nine: a table may grow."""
    slow = []
    for measure, most in ((compared, 300), (stepped, 300), (allocated, 8_000)):
        queue = cls(map(Counted, range(4_000)))
        found = [measure(lambda: ACTS[act](queue, Counted(i))) for i in range(2_020, 3_820, 200)]  # noqa: B023
        if median(found) > most:
            slow.append(measure.__name__)
    return slow


@pytest.mark.kata("level12.free_queue.FreeQueue")
@pytest.mark.parametrize("act", ACTS)
def test_no_operation_goes_through_the_queue(expect, act):
    """With 4,000 blocks: some 10 comparisons and hashes and 20 lines for one block, less than 1 KB; who looks for it
    needs 2,000 comparisons or lines, who makes a new list 32 KB. The limits lie between: 300, and 8,000 bytes."""
    expect.story(lambda cls: is_slow(cls, act), FreeQueue).equals([])


def lived(seed, steps=150):
    """A story of random operations beside a list; {} or the first difference."""

    def life(cls):
        draw, begin = random.Random(seed), random.Random(seed).sample(range(12), 5)
        queue, row = cls(begin), Row(begin)
        for step in range(steps):
            name = draw.choice(["popleft", "remove", "remove", "append_n", "prepend_n"])
            out = [block for block in range(12) if block not in row]
            few = draw.sample(out, min(len(out), draw.randrange(4)))
            wrong = draw.random() < 0.1
            if name == "popleft":
                args = ()
            elif name == "remove":
                args = (draw.choice(out if wrong and out or not len(row) else row.ids()),)
            else:
                args = (few + [draw.choice(few + row.ids())] if wrong and few + row.ids() else few,)
            yours = tried(getattr(queue, name), *args), list(queue.ids()), len(queue)
            right = tried(getattr(row, name), *args), row.ids(), len(row)
            if yours != right:
                return {"step": step, "call": (name, *args), "yours": yours, "right": right}
        return {}

    return life


@pytest.mark.kata("level12.free_queue.FreeQueue")
@pytest.mark.parametrize("seed", range(8))
def test_a_long_life(expect, seed):
    """Oracle: a list. A refused call changes nothing, so a server that caught its mistake goes on."""
    expect.story(lived(seed), FreeQueue).equals({})
