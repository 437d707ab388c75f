"""Judges blocks.py by reserving block after block, and by a list of owners for each block, kept here on paper.

Which free block is handed out is left open: only that nobody owns it. Of an allocator the documented methods are used.
"""

import random
from itertools import count

import pytest

from level06.blocks import BlockAllocator, blocks_needed, wasted_slots

# ---- blocks_needed, judged with wasted_slots


def one_at_a_time(num_tokens, block_size):
    """Oracle: a sequence that grows token by token, and takes a block when its last one is full."""
    blocks, room = 0, 0
    for _ in range(num_tokens):
        if room == 0:
            blocks, room = blocks + 1, block_size
        room -= 1
    return blocks


def tabulated(function, sizes, tokens):
    return {(n, size): function(n, size) for size in sizes for n in tokens}


@pytest.mark.kata("level06.blocks.wasted_slots")
@pytest.mark.parametrize("num_tokens, right", [(17, 2), (16, 1), (15, 1), (1, 1), (32, 2), (33, 3), (0, 0)])
def test_the_last_block_may_be_partly_full(expect, num_tokens, right):
    """The docstring's example and its neighbours: the 17th token needs a block of its own, the 16th does not."""
    expect(blocks_needed, num_tokens, 16).equals(right)


@pytest.mark.kata("level06.blocks.wasted_slots")
def test_a_block_is_taken_when_the_last_one_is_full(expect):
    """Oracle: a sequence that grows token by token. Blocks may have any size; one of a single token is always full."""
    sizes, tokens = (1, 2, 3, 5, 16, 21), range(40)
    expect(tabulated, blocks_needed, sizes, tokens).equals(tabulated(one_at_a_time, sizes, tokens))


@pytest.mark.kata("level06.blocks.wasted_slots")
@pytest.mark.parametrize(
    "num_tokens, block_size, right",
    [(1_000_000, 16, 62_500), (1_000_001, 16, 62_501), (16_777_217, 16, 1_048_577), (131_073, 131_072, 2)],
)
def test_long_sequences_are_counted_exactly(expect, num_tokens, block_size, right):
    """16 · 62,500 is a million; 2^24 + 1, which float32 can't hold, needs one block more than 2^20. A server without
    paging has one block of 131,072 tokens for a request, and one token more is a second."""
    expect(blocks_needed, num_tokens, block_size).equals(right)


@pytest.mark.kata("level06.blocks.wasted_slots")
def test_less_than_nothing_is_refused(expect):
    """A negative length is a mistake of the caller's, and a block without slots would never be full."""
    expect(blocks_needed, 3, 2).equals(2)
    for bad in ((-1, 16), (-16, 16), (4, 0), (4, -2), (0, 0)):
        expect(blocks_needed, *bad).raises(ValueError)


# ---- wasted_slots


def slot_by_slot(lengths, block_size):
    """Oracle: every slot of every block, and who is in it."""
    rows = [[t < n for b in range(one_at_a_time(n, block_size)) for t in range(b * block_size, (b + 1) * block_size)]
            for n in lengths]  # fmt: skip
    return sum(row.count(False) for row in rows)


@pytest.mark.kata("level06.blocks.wasted_slots")
@pytest.mark.parametrize(
    "lengths, block_size, right",
    [
        ([100, 37, 16], 16, 23),
        ([16, 32], 16, 0),
        ([1], 16, 15),
        ([15], 16, 1),
        ([17], 16, 15),
        ([1, 1, 1], 4, 9),
        ([5, 5], 4, 6),
        ([0], 16, 0),
        ([0, 3], 4, 1),
        ([], 16, 0),
        ((7, 9), 1, 0),
        ((6, 10), 7, 5),
    ],
    ids=str,
)
def test_waste_is_what_is_allocated_and_empty(expect, lengths, block_size, right):
    """By hand: 12 + 11 + 0 for the docstring's example. Two sequences can't share a block, even if they are alike; a
    full block wastes nothing, and a request that has not begun has none."""
    expect(wasted_slots, lengths, block_size).equals(right)


@pytest.mark.kata("level06.blocks.wasted_slots")
@pytest.mark.parametrize("block_size, right", [(1, 0), (16, 31), (256, 479), (2048, 5855)])
def test_paging_wastes_less_than_reserving(expect, block_size, right):
    """Four chats, 2337 tokens: with room for 2048 reserved for each 71% of 8192 slots are empty, in blocks of 16 1.3%
    (by hand: 12 + 4 + 11 + 4). This is where vLLM's larger batches came from."""
    lengths = [100, 700, 37, 1500]
    assert slot_by_slot(lengths, block_size) == right
    expect(wasted_slots, lengths, block_size).equals(right)


@pytest.mark.kata("level06.blocks.wasted_slots")
@pytest.mark.parametrize("seed", range(8))
def test_waste_slot_by_slot(expect, seed):
    """Oracle: every slot, looked at. The sequences are in any order, and some are of equal length."""
    draw = random.Random(seed)
    lengths, size = [draw.choice([0, 1, 7, 8, 9, 30, 41]) for _ in range(draw.randint(1, 9))], draw.choice([2, 3, 8, 9])
    expect(wasted_slots, lengths, size).equals(slot_by_slot(lengths, size))


@pytest.mark.kata("level06.blocks.wasted_slots")
def test_waste_of_impossible_lengths_is_refused(expect):
    """As for blocks_needed: a negative length among others would hide their waste."""
    expect(wasted_slots, [3], 2).equals(1)
    for lengths, block_size in (([5, -1], 4), ([-4], 4), ([5], 0), ([5], -2)):
        expect(wasted_slots, lengths, block_size).raises(ValueError)


# ---- BlockAllocator


def tried(call, *args):
    """What a call returns, or the name of its exception."""
    try:
        return call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return next((name for name in ("OutOfBlocks", "ValueError") if name in kinds), kinds[0])


def refusal(call, *args):
    """The name of a call's exception, or None: what share and release return is nobody's business."""
    found = tried(call, *args)
    return found if isinstance(found, str) else None


def counts(allocator, blocks):
    """(free blocks, owners of each of these blocks)."""
    return allocator.num_free, [allocator.ref_count(block) for block in blocks]


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_a_block_is_free_when_its_last_owner_has_gone(expect):
    """The docstring's example. Freed at the first release it would be handed to somebody else while it is read."""

    def shared(cls):
        pool = cls(2)
        seen, block = [counts(pool, [])], pool.allocate()
        for change in (pool.share, pool.release, pool.release):
            seen.append(counts(pool, [block]))
            change(block)
        return [*seen, counts(pool, [block])]

    right = [(2, []), (1, [1]), (1, [2]), (1, [1]), (2, [0])]
    expect.story(shared, BlockAllocator).equals(right)


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("num_blocks", [1, 2, 5, 30])
def test_every_block_of_the_pool_is_handed_out_once(expect, num_blocks):
    """All of 0 .. num_blocks - 1, the last one too, and no other: a block that two sequences get is a leak of what one
    user said to another. Then the pool is used up, and says so."""

    def all_of_them(cls):
        pool = cls(num_blocks)
        blocks, free = [], [pool.num_free]
        for _ in range(num_blocks):
            blocks.append(pool.allocate())
            free.append(pool.num_free)
        return sorted(blocks), free, [pool.ref_count(block) for block in blocks], tried(pool.allocate), pool.num_free

    right = list(range(num_blocks)), list(range(num_blocks, -1, -1)), [1] * num_blocks, "OutOfBlocks", 0
    expect.story(all_of_them, BlockAllocator).equals(right)


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_what_was_released_is_handed_out_again(expect):
    """The pool of a server that runs for weeks is handed out a million times. The new owner is the only one."""

    def again_and_again(cls):
        pool = cls(3)
        blocks, seen = [pool.allocate() for _ in range(3)], []
        for i in (0, 2, 1, 1, 0, 0, 2):
            pool.share(blocks[i]), pool.release(blocks[i]), pool.release(blocks[i])
            free, given = blocks[i], pool.allocate()
            seen.append((given == free, counts(pool, sorted(blocks)), tried(pool.allocate)))
        return seen

    expect.story(again_and_again, BlockAllocator).equals([(True, (0, [1, 1, 1]), "OutOfBlocks")] * 7)


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("owners", [2, 3, 5])
def test_sharing_takes_no_block(expect, owners):
    """Sixteen answers to one prompt hold it once. Each owner lets go by itself."""

    def shared(cls):
        pool = cls(4)
        block, other = pool.allocate(), pool.allocate()
        seen = [refusal(pool.share, block) for _ in range(owners - 1)] + [counts(pool, [block, other])]
        for _ in range(owners):
            pool.release(block)
            seen.append(counts(pool, [block, other]))
        return seen

    falls = [(2, [n, 1]) for n in range(owners, 0, -1)]
    expect.story(shared, BlockAllocator).equals([None] * (owners - 1) + [*falls, (3, [0, 1])])


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_two_pools_share_nothing(expect):
    """The draft model of level 08 has a pool of its own."""

    def two(cls):
        large, small = cls(3), cls(1)
        block = small.allocate()
        before = counts(large, range(3)), counts(small, [0])
        small.share(block), large.allocate()
        return block, before, (large.num_free, sum(map(large.ref_count, range(3)))), counts(small, [0])

    expect.story(two, BlockAllocator).equals((0, ((3, [0, 0, 0]), (0, [1])), (2, 1), (0, [2])))


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_a_pool_has_at_least_one_block(expect):
    """With none every request would wait for ever."""
    expect.story(lambda cls: [refusal(cls, 0), refusal(cls, -3), cls(1).num_free], BlockAllocator).equals(
        ["ValueError", "ValueError", 1]
    )


# ---- BlockAllocator: before a write


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_the_only_owner_writes_in_place(expect):
    """Copying what nobody else reads would be a block of traffic for each token; and it needs no free block."""

    def alone(cls):
        pool = cls(2)
        block, other = pool.allocate(), pool.allocate()
        pool.share(block), pool.release(block)
        return pool.make_writable(block) == (block, None), counts(pool, [block, other])

    expect.story(alone, BlockAllocator).equals((True, (0, [1, 1])))


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("owners", [2, 3, 4])
def test_one_of_several_owners_gets_a_block_of_its_own(expect, owners):
    """Copy-on-write: the others keep the old block, with one owner less, and are told nothing. Once only one is left
    it writes in place: of n owners n - 1 copy."""

    def one_after_the_other(cls):
        pool = cls(6)
        block, seen, mine = pool.allocate(), [], set()
        for _ in range(owners - 1):
            pool.share(block)
        for _ in range(owners - 1):
            new, old = pool.make_writable(block)
            mine.add(new)
            seen.append((new != block, old == block, counts(pool, [new, block])))
        return seen, len(mine - {block}), pool.make_writable(block) == (block, None), counts(pool, [block, *mine])

    seen = [(True, True, (6 - i, [1, owners - i + 1])) for i in range(2, owners + 1)]
    expect.story(one_after_the_other, BlockAllocator).equals((seen, owners - 1, True, (6 - owners, [1] * owners)))


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_what_was_made_writable_belongs_to_the_pool(expect):
    """The new block can be shared and released like any other, and then both are free: nothing leaks."""

    def to_the_end(cls):
        pool = cls(3)
        block = pool.allocate()
        pool.share(block)
        new, _ = pool.make_writable(block)
        pool.share(new)
        newer, old = pool.make_writable(new)
        seen = [old == new, len({block, new, newer}), tried(pool.allocate)]
        for one in (new, block, newer):
            pool.release(one)
            seen.append(pool.num_free)
        return seen, [refusal(pool.release, one) for one in (block, new, newer)], sorted(pool.allocate() for _ in "abc")

    right = [True, 3, "OutOfBlocks", 1, 2, 3], ["ValueError"] * 3, [0, 1, 2]
    expect.story(to_the_end, BlockAllocator).equals(right)


@pytest.mark.kata("level06.blocks.BlockAllocator")
def test_without_a_free_block_nothing_changes(expect):
    """The owner keeps the old block and can try again when somebody has let go: its reference was not given up for a
    block that does not come."""

    def full(cls):
        pool = cls(2)
        block, other = pool.allocate(), pool.allocate()
        pool.share(block)
        seen = [tried(pool.make_writable, block), tried(pool.allocate), counts(pool, [block, other])]
        pool.release(other)
        return seen, pool.make_writable(block) == (other, block), counts(pool, [block, other])

    seen = ["OutOfBlocks", "OutOfBlocks", (0, [2, 1])]
    expect.story(full, BlockAllocator).equals((seen, True, (0, [1, 1])))


# ---- BlockAllocator: what is refused


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("method", ["share", "release", "make_writable"])
def test_a_block_that_nobody_owns_is_refused(expect, method):
    """Released twice, a block would be handed to two sequences. Also a block that was owned once, and one that is not
    in the pool: -1 is no way to say the last one. Nothing changes."""

    def strangers(cls):
        pool = cls(3)
        first, second = pool.allocate(), pool.allocate()
        never = ({0, 1, 2} - {first, second}).pop()
        pool.release(second)
        seen = [tried(getattr(pool, method), block) for block in (second, never, -1, 3, -3, 99)]
        seen += [counts(pool, [first, second, never])]
        blocks = {pool.allocate(), pool.allocate()}
        return seen, blocks == {second, never}, tried(pool.allocate)

    expect.story(strangers, BlockAllocator).equals((["ValueError"] * 6 + [(2, [1, 0, 0])], True, "OutOfBlocks"))


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("owners", [1, 2, 3])
def test_one_release_too_many_is_refused(expect, owners):
    """A request that is aborted after it has finished releases again: the block may be another's by then."""

    def once_more(cls):
        pool = cls(2)
        block = pool.allocate()
        for _ in range(owners - 1):
            pool.share(block)
        seen = [refusal(pool.release, block) for _ in range(owners + 2)]
        return seen, pool.num_free, sorted((pool.allocate(), pool.allocate())), tried(pool.allocate)

    right = [None] * owners + ["ValueError"] * 2, 2, [0, 1], "OutOfBlocks"
    expect.story(once_more, BlockAllocator).equals(right)


# ---- BlockAllocator: a long life


def lived(num_blocks, seed, steps=120):
    """A story of random operations beside a paper on which each block has a set of owners; {}, or what went wrong."""

    def life(cls):
        draw, pool, names = random.Random(seed), cls(num_blocks), count()
        owners = {block: set() for block in range(num_blocks)}

        def state():
            return num_blocks - sum(map(bool, owners.values())), [len(owners[block]) for block in range(num_blocks)]

        for step in range(steps):
            used = [block for block in owners if owners[block]]
            free = sorted(set(owners) - set(used))
            # spells of growth and of decline, so that the pool is full and empty again and again
            act = draw.choice(
                ["allocate", "share", "write", "release", "misuse", *["allocate", "release"][step // 20 % 2 :]]
            )
            act = "allocate" if not used else act
            block = draw.choice(used) if used else None
            if act == "allocate":
                got = tried(pool.allocate)
                right = "OutOfBlocks" if not free else got if got in free else "a free block"
                if free and got in free:
                    owners[got].add(next(names))
            elif act == "share":
                got, right = refusal(pool.share, block), None
                owners[block].add(next(names))
            elif act == "release":
                got, right = refusal(pool.release, block), None
                owners[block].pop()
            elif act == "write":
                got = tried(pool.make_writable, block)
                if len(owners[block]) == 1:
                    right = block, None
                elif not free:
                    right = "OutOfBlocks"
                else:
                    new = got[0] if isinstance(got, tuple) else None
                    right = (new if new in free else "a free block", block)
                    if new in free:
                        owners[new].add(owners[block].pop())
            else:
                method = draw.choice([pool.share, pool.release, pool.make_writable])
                got, right = tried(method, draw.choice([*free, -1, num_blocks])), "ValueError"
            yours = got, counts(pool, range(num_blocks))
            if yours != (right, state()):
                return {"step": step, "act": act, "block": block, "yours": yours, "right": (right, state())}
        return {}

    return life


@pytest.mark.kata("level06.blocks.BlockAllocator")
@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(6))
def test_a_long_life_loses_no_block(expect, num_blocks, seed):
    """Oracle: who owns what, on paper. After each operation free + used is the whole pool, every block has as many
    owners as took it, and no block is handed out that anybody owns. Leaks of real servers show after days."""
    expect.story(lived(num_blocks, seed), BlockAllocator).equals({})
