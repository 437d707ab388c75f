"""Right programs, written another way, for level06.blocks. `alternative` is given when this is read."""

import math
from collections import Counter, deque
from itertools import count


def _refuse(num_tokens, block_size):
    if num_tokens < 0 or block_size < 1:
        raise ValueError("tokens or slots")


def _needed_by_ceil(num_tokens, block_size):
    _refuse(num_tokens, block_size)
    return math.ceil(num_tokens / block_size)


def _needed_by_divmod(num_tokens, block_size):
    _refuse(num_tokens, block_size)
    full, rest = divmod(num_tokens, block_size)
    return full + bool(rest)


def _needed_by_range(num_tokens, block_size):
    _refuse(num_tokens, block_size)
    return len(range(0, num_tokens, block_size))


def _needed_by_adding(num_tokens, block_size):
    _refuse(num_tokens, block_size)
    return (num_tokens + block_size - 1) // block_size


def _wasted_by_remainder(lengths, block_size):
    for length in lengths:
        _refuse(length, block_size)
    return sum(-length % block_size for length in lengths)


def _wasted_by_counting(lengths, block_size):
    wasted = 0
    for length, times in Counter(lengths).items():
        _refuse(length, block_size)
        tail = length % block_size
        wasted += times * (block_size - tail if tail else 0)
    return wasted


def _wasted_by_totals(lengths, block_size):
    from level06.blocks import blocks_needed

    return block_size * sum(blocks_needed(n, block_size) for n in lengths) - sum(lengths)


alternative("level06.blocks.wasted_slots", "ceil", program=_needed_by_ceil, part="blocks_needed")
alternative("level06.blocks.wasted_slots", "divmod", program=_needed_by_divmod, part="blocks_needed")
alternative("level06.blocks.wasted_slots", "range", program=_needed_by_range, part="blocks_needed")
alternative("level06.blocks.wasted_slots", "adding", program=_needed_by_adding, part="blocks_needed")
alternative("level06.blocks.wasted_slots", "remainder", program=_wasted_by_remainder)
alternative("level06.blocks.wasted_slots", "counting", program=_wasted_by_counting)
alternative("level06.blocks.wasted_slots", "totals", program=_wasted_by_totals)


def _out():
    from level06.blocks import OutOfBlocks

    return OutOfBlocks("wait")


class _Counts:
    """Counts alone: a block is free when its count is 0, and is looked for from block 0 on."""

    def __init__(self, num_blocks):
        if num_blocks < 1:
            raise ValueError("no blocks")
        self._counts = [0] * num_blocks

    @property
    def num_free(self):
        return self._counts.count(0)

    def ref_count(self, block):
        return self._counts[block]

    def allocate(self):
        if 0 not in self._counts:
            raise _out()
        block = self._counts.index(0)
        self._counts[block] = 1
        return block

    def _owned(self, block):
        if block not in range(len(self._counts)) or self._counts[block] == 0:
            raise ValueError("not owned")

    def share(self, block):
        self._owned(block)
        self._counts[block] += 1

    def release(self, block):
        self._owned(block)
        self._counts[block] -= 1

    def make_writable(self, block):
        self._owned(block)
        if self._counts[block] < 2:
            return block, None
        new = self.allocate()
        self._counts[block] -= 1
        return new, block


class _Queue:
    """The block that has been free for longest comes first; only used blocks have an entry."""

    def __init__(self, num_blocks):
        if not num_blocks > 0:
            raise ValueError("no blocks")
        self.queue, self.used = deque(range(num_blocks)), {}

    @property
    def num_free(self):
        return len(self.queue)

    def ref_count(self, block):
        return self.used.get(block, 0)

    def allocate(self):
        try:
            block = self.queue.popleft()
        except IndexError:
            raise _out() from None
        self.used[block] = 1
        return block

    def share(self, block):
        if block not in self.used:
            raise ValueError("not owned")
        self.used[block] += 1
        return block

    def release(self, block):
        if block not in self.used:
            raise ValueError("not owned")
        if self.used[block] == 1:
            del self.used[block]
            self.queue.append(block)
        else:
            self.used[block] -= 1
        return self.used.get(block, 0)

    def make_writable(self, block):
        if block not in self.used:
            raise ValueError("not owned")
        shared = self.used[block] > 1
        if shared and not self.queue:
            raise _out()
        if shared:
            self.release(block)
        return (self.allocate(), block) if shared else (block, None)


class _Owners:
    """A set of names for each block, and blocks made when they are first needed: nothing is listed beforehand."""

    def __init__(self, num_blocks):
        if num_blocks <= 0:
            raise ValueError("no blocks")
        self.size, self.touched, self.names = num_blocks, 0, count()
        self.owners, self.returned = {}, set()

    @property
    def num_free(self):
        return self.size - sum(1 for owners in self.owners.values() if owners)

    def ref_count(self, block):
        return len(self.owners.get(block, ()))

    def allocate(self):
        if self.returned:
            block = self.returned.pop()
        elif self.touched < self.size:
            block, self.touched = self.touched, self.touched + 1
        else:
            raise _out()
        self.owners[block] = {next(self.names)}
        return block

    def share(self, block):
        self._of(block).add(next(self.names))

    def release(self, block):
        owners = self._of(block)
        owners.pop()
        if not owners:
            self.returned.add(block)

    def make_writable(self, block):
        if len(self._of(block)) == 1:
            return block, None
        new = self.allocate()
        self.release(block)
        return new, block

    def _of(self, block):
        if not self.owners.get(block):
            raise ValueError("not owned")
        return self.owners[block]


class _Random:
    """Any free block, drawn; a reference to a block is an entry of one list."""

    def __init__(self, num_blocks):
        import random

        if num_blocks < 1:
            raise ValueError("no blocks")
        self.draw, self.pool, self.references = random.Random(0), frozenset(range(num_blocks)), []

    num_free = property(lambda self: len(self.pool - set(self.references)))

    def ref_count(self, block):
        return self.references.count(block)

    def allocate(self):
        free = sorted(self.pool.difference(self.references))
        if not free:
            raise _out()
        self.references.append(self.draw.choice(free))
        return self.references[-1]

    def share(self, block):
        if block not in self.references:
            raise ValueError("not owned")
        self.references.append(block)

    def release(self, block):
        self.references.remove(block)  # ValueError by itself

    def make_writable(self, block):
        owners = self.references.count(block)
        if owners == 0:
            raise ValueError("not owned")
        if owners == 1:
            return block, None
        new = self.allocate()
        self.references.remove(block)
        return new, block


alternative("level06.blocks.BlockAllocator", "counts_alone", program=_Counts)
alternative("level06.blocks.BlockAllocator", "queue", program=_Queue)
alternative("level06.blocks.BlockAllocator", "sets_of_owners", program=_Owners)
alternative("level06.blocks.BlockAllocator", "drawn", program=_Random)
alternative(
    "level06.blocks.BlockAllocator",
    "smallest_first",
    change=[("self.free.pop()", "self.free.pop(self.free.index(min(self.free)))")],
)
alternative(
    "level06.blocks.BlockAllocator",
    "tensor_of_counts",
    change=[
        (
            "self.free = list(range(num_blocks))\n        self.owners = [0] * num_blocks\n",
            "import torch\n\n        self.free = set(range(num_blocks))\n"
            "        self.owners = torch.zeros(num_blocks, dtype=torch.int32)\n",
        ),
        ("return self.owners[block]", "return int(self.owners[block])"),
        ("self.free.append(block)", "self.free.add(block)"),
    ],
)
