"""Judges block_pool.py by a pool on paper: a list of free blocks, a count of users, and keys in the order in which
blocks got them. Keys are any bytes here.
"""

import random

import pytest

from level12.block_pool import BlockPool


class Paper:
    """Oracle: everything in lists, and looked for from the beginning."""

    def __init__(self, num_blocks):
        self.num_blocks, self.row, self.users, self.keys = num_blocks, list(range(1, num_blocks)), [0] * num_blocks, []

    @property
    def num_free(self):
        return len(self.row)

    def free_ids(self):
        return list(self.row)

    def ref_count(self, block):
        return self.users[block]

    def key_of(self, block):
        return next((key for one, key in self.keys if one == block), None)

    def get_cached_block(self, key):
        return next((one for one, its in self.keys if its == key), None)

    def forget(self, block):
        self.keys = [pair for pair in self.keys if pair[0] != block]

    def cache_block(self, block, key):
        if self.key_of(block) is not None:
            raise ValueError
        self.keys.append((block, key))

    def get_new_blocks(self, n):
        if n > len(self.row):
            raise ValueError
        new, self.row = self.row[:n], self.row[n:]
        for block in new:
            self.forget(block)
            self.users[block] = 1
        return new

    def touch(self, blocks):
        for block in blocks:
            self.users[block] += 1
            self.row = [one for one in self.row if one != block]

    def free_blocks(self, blocks):
        blocks = list(blocks)
        if not all(self.users[block] for block in blocks):
            raise ValueError
        for block in blocks:
            self.users[block] -= 1
        free = [block for block in blocks if not self.users[block]]
        front = [block for block in free if self.key_of(block) is None]
        self.row = front + self.row + [block for block in free if block not in front]


def tried(call, *args):
    """What get_new_blocks returns, or "ValueError"; what the others return is nobody's business."""
    try:
        found = call(*args)
    except ValueError:
        return "ValueError"
    return list(found) if call.__name__ == "get_new_blocks" else None


def state(pool, keys=b"abcd"):
    """Free blocks in order, users of each block, keys of each, and the block that each key finds."""
    blocks = range(1, pool.num_blocks)
    return (
        list(pool.free_ids()),
        [pool.ref_count(block) for block in blocks],
        "".join((pool.key_of(block) or b"-").decode() for block in blocks),
        [pool.get_cached_block(bytes([key])) for key in keys],
    )


def told(cls, num_blocks, *calls):
    """What each call said, and the state after the last one."""
    pool = cls(num_blocks)
    return [tried(getattr(pool, name), *args) for name, *args in calls], pool.num_free, state(pool)


new, touch, free, cache, forget = "get_new_blocks", "touch", "free_blocks", "cache_block", "forget"
THREE = (new, 3), (cache, 1, b"a"), (cache, 2, b"b")


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_the_example(expect):
    """The docstring's, by hand. 3 has no key and nobody can hit it: it goes first. 1 and 2 can be found until they are
    given away, 1 for longest, since without it 2 cannot be hit either."""
    right = [[1, 2, 3], None, None, None], 7, ([3, 4, 5, 6, 7, 2, 1], [0] * 7, "ab-----", [1, 2, None, None])
    expect.story(lambda cls: told(cls, 8, *THREE, (free, [3, 2, 1])), BlockPool).equals(right)


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_a_new_pool(expect):
    """Block 0 is where padding points to: it is never given away, though all others are."""
    right = [[1], [], [2, 3], "ValueError", []], 0, ([], [1, 1, 1], "---", [None] * 4)
    expect.story(lambda cls: told(cls, 4, (new, 1), (new, 0), (new, 2), (new, 1), (new, 0)), BlockPool).equals(right)
    expect.story(lambda cls: told(cls, 2), BlockPool).equals(([], 1, ([1], [0], "-", [None] * 4)))


STORIES = {
    "a shared block": (8, *THREE, (touch, [1, 2]), (free, [3, 2, 1])),
    "the last user": (8, *THREE, (touch, [1, 2]), (free, [3, 2, 1]), (free, [2, 1])),
    "three users": (5, *THREE, (touch, [1]), (touch, [1, 3]), (free, [1]), (free, [3, 1])),
    "given away": (4, *THREE, (free, [3, 2, 1]), (new, 2)),
    "all given away": (4, *THREE, (free, [3, 2, 1]), (new, 3), (cache, 2, b"c"), (cache, 1, b"a")),
    "a hit of free blocks": (5, *THREE, (free, [3, 2, 1]), (touch, [1, 2]), (new, 2)),
    "a hit in the middle": (7, *THREE, (free, [2, 1]), (new, 1), (touch, [2]), (new, 2), (free, [2])),
    "a hit of one in use, and of one that is free": (6, *THREE, (free, [2]), (touch, [1, 2]), (free, [1])),
    "two with one key": (6, *THREE, (cache, 3, b"a")),
    "the first of two leaves": (6, *THREE, (cache, 3, b"a"), (free, [1]), (new, 2), (new, 1)),
    "the second of two leaves": (4, *THREE, (cache, 3, b"a"), (free, [3, 1]), (new, 1)),
    "the first of two gets it again": (6, *THREE, (cache, 3, b"a"), (forget, 1), (cache, 1, b"a")),
    "the larger one had it first": (6, (new, 3), (cache, 3, b"a"), (cache, 1, b"a"), (cache, 2, b"a"), (forget, 3)),
    "both are free": (4, *THREE, (cache, 3, b"a"), (free, [1, 3, 2])),
    "several without a key": (7, (new, 5), (cache, 2, b"a"), (free, [5, 4, 3, 2, 1])),
    "several with keys": (6, *THREE, (cache, 3, b"c"), (free, [2, 3, 1])),
    "one after the other": (6, *THREE, (free, [1]), (free, [3]), (free, [2])),
    "none without a key is new before": (5, (new, 4), (free, [2, 4]), (new, 1), (free, [1, 3])),
    "forgotten in use": (5, *THREE, (forget, 1), (forget, 3), (free, [3, 2, 1])),
    "forgotten while free": (5, *THREE, (free, [3, 2, 1]), (forget, 2), (new, 2), (forget, 4)),
    "another key after it": (5, *THREE, (forget, 2), (cache, 2, b"d"), (forget, 1), (forget, 1)),
    "a second key": (5, *THREE, (cache, 1, b"c"), (cache, 1, b"a"), (cache, 3, b"c")),
    "too many": (4, (new, 1), (cache, 1, b"a"), (free, [1]), (new, 4), (new, 3)),
    "freed twice": (5, *THREE, (free, [1]), (free, [1]), (free, [3, 1]), (free, [4]), (free, [3])),
    "freed before it was taken": (4, (free, [1]), (new, 1), (free, [1]), (free, [1])),
    "nothing to do": (4, (touch, []), (free, []), (new, 0)),
    "hit and let go, again and again": (4, *THREE, (free, [2, 1]), *[(touch, [1]), (free, [1])] * 3, (new, 2)),
    "the order of a hit": (6, *THREE, (free, [2, 1]), (touch, [1]), (free, [1]), (touch, [2]), (free, [2])),
}


@pytest.mark.kata("level12.block_pool.BlockPool")
@pytest.mark.parametrize("story", STORIES)
def test_blocks_change_hands(expect, story):
    """Oracle: lists on paper. Freed is not forgotten: what a block holds costs nothing until somebody needs the block.
    And what has a reader is neither given away nor forgotten."""
    num_blocks, *calls = STORIES[story]
    expect.story(lambda cls: told(cls, num_blocks, *calls), BlockPool).equals(told(Paper, num_blocks, *calls))


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_after_each_call(expect):
    """By hand, the free blocks after each: taken, freed, hit while free, hit while in use, and let go one by one."""

    def step_by_step(cls):
        pool, seen = cls(6), []
        calls = (
            *THREE,
            (free, [3, 2, 1]),
            (touch, [1]),
            (touch, [1, 2]),
            (free, [1]),
            (free, [1]),
            (free, [2]),
            (new, 4),
        )
        for name, *args in calls:
            getattr(pool, name)(*args)
            seen.append((list(pool.free_ids()), pool.num_free))
        return seen

    rows = [[4, 5], [4, 5], [4, 5], [3, 4, 5, 2, 1], [3, 4, 5, 2], [3, 4, 5], [3, 4, 5], [3, 4, 5, 1]]
    rows += [[3, 4, 5, 1, 2], [2]]
    expect.story(step_by_step, BlockPool).equals([(row, len(row)) for row in rows])


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_blocks_come_from_anywhere(expect):
    """A table, backwards or not, as an iterator that can be gone through once."""

    def given(cls):
        pool = cls(6)
        table = pool.get_new_blocks(3)
        pool.cache_block(2, b"a")
        pool.touch(iter(table))
        pool.free_blocks(reversed(table))
        pool.free_blocks(block for block in table)
        table.clear()
        pool.touch(block for block in (2, 4))
        return state(pool)

    right = [1, 3, 5], [0, 1, 0, 1, 0], "-a---", [2, None, None, None]
    expect.story(given, BlockPool).equals(right)


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_two_pools_share_nothing(expect):
    """A draft model has a pool of its own."""

    def two(cls):
        one, other = cls(4), cls(4)
        one.get_new_blocks(2)
        one.cache_block(2, b"a")
        return state(other)

    expect.story(two, BlockPool).equals(([1, 2, 3], [0, 0, 0], "---", [None] * 4))


@pytest.mark.kata("level12.block_pool.BlockPool")
def test_a_pool_has_at_least_two_blocks(expect):
    """With block 0 alone no request would ever get one."""
    sizes = [2, 1, 0, -4]
    expect.story(lambda cls: [tried(cls, size) for size in sizes], BlockPool).equals([None] + ["ValueError"] * 3)


def lived(num_blocks, seed, steps=120):
    """A story of random calls beside the paper; {} or the first difference. The paper's user is a list of tables."""

    def life(cls):
        draw, pool, paper, tables = random.Random(seed), cls(num_blocks), Paper(num_blocks), []
        for step in range(steps):
            name = draw.choice([new, new, touch, free, free, cache, cache, forget, "misuse"])
            used = [block for block in range(1, num_blocks) if paper.users[block]]
            if name == new:
                args = (draw.randrange(min(4, paper.num_free + 2)),)
                if args[0] <= paper.num_free:
                    tables.append(paper.free_ids()[: args[0]])
            elif name == touch:  # of those with a key, as a hit is
                found = [block for block, _ in paper.keys]
                args = (draw.sample(found, min(len(found), draw.randrange(3))),)
                tables.append(args[0])
            elif name == free and tables:
                args = (tables.pop(draw.randrange(len(tables)))[:: draw.choice([1, -1])],)
            elif name == cache and used:
                args = (draw.choice(used), draw.choice([b"a", b"b", b"c", b"d"]))
            elif name == forget:
                args = (draw.randrange(1, num_blocks),)
            else:
                name, args = free, ([*used[:1], draw.choice([0, num_blocks, *paper.row])],)
                yours, right = tried(pool.free_blocks, *args), "ValueError"
                if yours != right:
                    return {"step": step, "call": (name, *args), "yours": yours, "right": right}
                continue
            yours = tried(getattr(pool, name), *args), pool.num_free, state(pool)
            right = tried(getattr(paper, name), *args), paper.num_free, state(paper)
            if yours != right:
                return {"step": step, "call": (name, *args), "yours": yours, "right": right}
            taken = [block for table in tables for block in table]
            assert all(paper.users[block] == taken.count(block) for block in range(1, num_blocks))
            assert sorted({*taken}) + sorted(paper.row) == [
                *sorted({*taken}),
                *sorted({*range(1, num_blocks)} - {*taken}),
            ]
        return {}

    return life


@pytest.mark.kata("level12.block_pool.BlockPool")
@pytest.mark.parametrize("num_blocks", [2, 4, 9])
@pytest.mark.parametrize("seed", range(4))
def test_a_long_life_loses_no_block(expect, num_blocks, seed):
    """Oracle: the paper, of which each block is in the row or in tables, as often as it has users. A leak of one block
    a day ends a server after weeks; one block too many ends it at once."""
    expect.story(lived(num_blocks, seed), BlockPool).equals({})
