"""Judges kv_manager.py by a manager on paper, which knows what each block holds: the whole beginning, as a tuple.

A test of get_computed_blocks fills the pool through the pool's own methods, one of allocate_slots takes blocks away
through the documented `tables` and `num_keyed`, so that no method that comes later in the lesson is needed.
"""

import random

import pytest

from level12.hash_chain import hash_full_blocks
from level12.kv_manager import KVCacheManager
from level12.state import Tracked


def asked(id, prompt, output=(), salt=b""):
    return Tracked(id, list(prompt), list(output), salt=salt)


def filled(beginnings, num_blocks=12, size=4, caching=True, salt=b""):
    """A manager in whose pool the next blocks hold these: lists of tokens, the last block of each is meant."""
    manager = KVCacheManager(num_blocks, size, caching)
    for block, tokens in zip(manager.pool.get_new_blocks(len(beginnings)), beginnings):
        manager.pool.cache_block(block, hash_full_blocks(list(tokens), size, salt)[-1])
    return manager


def up_to(*ends):
    """Beginnings of 0, 1, 2, …"""
    return [list(range(end)) for end in ends]


# ---- get_computed_blocks


def hits(beginnings, *sequences, free=(), **how):
    """What is found of each sequence; the sequence, the free blocks, users and tables must be as they were."""
    manager = filled(beginnings, **how)
    manager.pool.free_blocks(free)

    def state():
        users = [manager.pool.ref_count(block) for block in range(1, manager.pool.num_blocks)]
        return list(manager.pool.free_ids()), users, dict(manager.tables)

    before, sequences = state(), [asked("a", *sequence) for sequence in sequences]
    texts = [(one.tokens, 0) for one in sequences]
    found = [manager.get_computed_blocks(one) for one in sequences]
    same = state() == before and [(one.tokens, one.computed) for one in sequences] == texts
    return [(list(blocks), tokens) for blocks, tokens in found], same


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
@pytest.mark.parametrize(
    "length, right",
    [(9, ([1, 2], 8)), (8, ([1], 4)), (10, ([1, 2], 8)), (12, ([1, 2], 8)), (13, ([1, 2, 3], 12)),
     (14, ([1, 2, 3], 12)), (40, ([1, 2, 3], 12)), (5, ([1], 4)), (4, ([], 0)), (3, ([], 0)), (1, ([], 0))],
)  # fmt: skip
def test_the_last_token_is_left_to_run(expect, length, right):
    """By hand, blocks of 4, tokens 0 .. 11 cached: (length - 1) // 4 blocks at most. A token that is not run gives no
    logits; and since blocks are shared whole, one token more to run is a whole block more."""
    expect(hits, up_to(4, 8, 12), (range(length),)).equals(([right], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
@pytest.mark.parametrize(
    "cached, right",
    [
        (up_to(4, 12, 16), ([1], 4)),
        (up_to(8, 12, 16), ([], 0)),
        (up_to(4, 8, 16), ([1, 2], 8)),
        (up_to(16, 12, 8, 4), ([4, 3, 2, 1], 16)),
        (up_to(8, 4), ([2, 1], 8)),
        (up_to(4, 4, 8, 8), ([1, 3], 8)),
        ([[9, 1, 2, 3], [9, 1, 2, 3, 4, 5, 6, 7]], ([], 0)),
        ([[4, 5, 6, 7], *up_to(4)], ([2], 4)),
        ([], ([], 0)),
    ],
    ids=str,
)
def test_a_hit_ends_at_the_first_miss(expect, cached, right):
    """By hand. What comes behind a gap can't be used: nobody would have computed what stands in the gap. And a block of
    the same tokens behind other ones is another block. Of two with one key the first counts."""
    expect(hits, cached, (range(20),)).equals(([right], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
@pytest.mark.parametrize("free", [[], [1], [2, 1], [3, 2, 1]], ids=str)
def test_free_blocks_are_found_too(expect, free):
    """A block that nobody uses keeps what is in it until it is given away. Looking changes nothing: whether the
    sequence gets in is not known yet."""
    expect(hits, up_to(4, 8, 12), (range(13),), (range(9),), free=free).equals(([([1, 2, 3], 12), ([1, 2], 8)], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
def test_what_was_sent_counts_too(expect):
    """One that was preempted comes back with its prompt and its output: both may be in the cache."""
    sequences = (range(6), range(6, 13)), (range(6), range(6, 12)), (range(1), range(1, 9)), (range(6), [9, 9, 9])
    right = [([1, 2, 3], 12), ([1, 2], 8), ([1, 2], 8), ([1], 4)]
    expect(hits, up_to(4, 8, 12), *sequences).equals((right, True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
def test_another_salt_is_another_prompt(expect):
    """Two tenants with one prompt: who finds the other's block learns from the time of an answer what the other has
    asked."""
    sequences = (range(9), (), b"Ann"), (range(9), (), b"Bob"), (range(9),)
    expect(hits, up_to(4, 8), *sequences, salt=b"Ann").equals(([([1, 2], 8), ([], 0), ([], 0)], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
def test_without_caching_nothing_is_found(expect):
    """Though the pool has it."""
    expect(hits, up_to(4, 8), (range(9),), caching=False).equals(([([], 0)], True))
    expect(hits, up_to(4, 8), (range(9),)).equals(([([1, 2], 8)], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
@pytest.mark.parametrize(
    "size, length, right", [(1, 3, ([1, 2], 2)), (1, 1, ([], 0)), (3, 7, ([1, 2], 6)), (3, 6, ([1], 3))]
)
def test_blocks_of_other_sizes(expect, size, length, right):
    """By hand. With blocks of 1 only the last token is computed again."""
    expect(hits, up_to(size, 2 * size, 3 * size), (range(length),), size=size).equals(([right], True))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
def test_what_was_given_away_is_not_found(expect):
    """A block that has a new owner holds something else: another request's keys and values."""

    def stale():
        manager, seen = filled(up_to(4, 8, 12), num_blocks=5), []
        sequence = asked("a", range(13))
        manager.pool.free_blocks([3, 2, 1])
        for _ in range(4):
            blocks, tokens = manager.get_computed_blocks(sequence)
            seen.append((list(blocks), tokens))
            manager.pool.get_new_blocks(1)
        return seen

    expect(stale).equals([([1, 2, 3], 12), ([1, 2, 3], 12), ([1, 2], 8), ([1], 4)])


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
def test_a_sequence_that_grows_finds_more(expect):
    """Its keys are kept from call to call; a turn later there are more of them."""

    def grows():
        manager, sequence, seen = filled(up_to(4, 8, 12)), asked("a", range(4)), []
        for token in range(4, 14):
            sequence.output.append(token)
            seen.append(manager.get_computed_blocks(sequence)[1])
        return seen

    expect(grows).equals([4, 4, 4, 4, 8, 8, 8, 8, 12, 12])


@pytest.mark.kata("level12.kv_manager.KVCacheManager.get_computed_blocks")
@pytest.mark.parametrize(
    "max_tokens, right",
    [(11, [1, 2]), (12, [1, 2, 3]), (3, []), (4, [1]), (0, []), (7, [1]), (8, [1, 2]), (99, [1, 2, 3])],
)
def test_the_longest_hit(expect, max_tokens, right):
    """The part, by hand: as many blocks as max_tokens fill, in the order of the keys, if there are so many."""

    def longest(max_tokens):
        return list(filled(up_to(4, 8, 12)).find_longest_hit(hash_full_blocks(list(range(12)), 4), max_tokens))

    expect(longest, max_tokens).equals(right)


# ---- a manager on paper


class Paper:
    """Oracle: what each block holds, who uses it, and the free blocks, in lists. No keys: tuples of tokens."""

    def __init__(self, num_blocks, size, caching):
        self.num_blocks, self.size, self.caching = num_blocks, size, caching
        self.row, self.tables, self.holds = list(range(1, num_blocks)), {}, []  # holds: (block, what), in order

    def users(self, block):
        return sum(table.count(block) for table in self.tables.values())

    def find(self, what):
        return next((block for block, its in self.holds if its == what), None)

    def beginnings(self, sequence):
        ends = range(self.size, sequence.num_tokens + 1, self.size)
        return [(sequence.salt, *sequence.tokens[:end]) for end in ends]

    def hit(self, sequence):
        found = []
        for end, what in enumerate(self.beginnings(sequence), 1):
            if not self.caching or self.find(what) is None or end * self.size >= sequence.num_tokens:
                break
            found.append(self.find(what))
        return found

    def allocate(self, sequence, num_new, hit, whole):
        total = sequence.computed + len(hit) * self.size + num_new
        free = [block for block in self.row if block not in hit]
        table = [*self.tables.get(sequence.id, ()), *hit]

        def missing(tokens):
            return max(0, len(range(0, tokens, self.size)) - len(table))

        if missing(sequence.num_tokens if whole else total) > len(free):
            return None
        new = free[: missing(total)]
        self.row = free[len(new) :]
        self.holds = [(block, what) for block, what in self.holds if block not in new]
        self.tables[sequence.id] = table + new
        for block, what in list(zip(table + new, self.beginnings(sequence)))[
            : total // self.size if self.caching else 0
        ]:
            if block not in [one for one, _ in self.holds]:
                self.holds.append((block, what))
        return new

    def free(self, sequence):
        table = self.tables.pop(sequence.id, [])
        left = [block for block in reversed(table) if not self.users(block)]
        named = [block for block, _ in self.holds]
        self.row = [block for block in left if block not in named] + self.row
        self.row += [block for block in left if block in named]

    def state(self):
        named = [block for block, _ in self.holds]
        blocks = range(1, self.num_blocks)
        keyed = "".join("k" if block in named else "-" for block in blocks)
        return self.tables, self.row, [self.users(block) for block in blocks], keyed


def state_of(manager):
    """The same of a manager: tables, free blocks in order, users of each block, and which have a key."""
    pool = manager.pool
    blocks = range(1, pool.num_blocks)
    keyed = "".join("-" if pool.key_of(block) is None else "k" for block in blocks)
    tables = {id: list(table) for id, table in manager.tables.items()}
    return tables, list(pool.free_ids()), [pool.ref_count(block) for block in blocks], keyed


def let_go(manager, sequence):
    """As `free` will do it, by the documented state."""
    manager.pool.free_blocks(reversed(manager.tables.pop(sequence.id, [])))
    manager.num_keyed.pop(sequence.id, None)


class Desk:
    """Drives a manager as a scheduler does: a request comes with a hit or goes on, and its tokens count as computed."""

    def __init__(self, *how, let_go=let_go):
        self.manager, self.let_go, self.sequences = KVCacheManager(*how), let_go, {}

    def come(self, id, prompt, num_new, whole=False, hit=True, output=(), salt=b""):
        self.sequences[id] = asked(id, prompt, output, salt)
        return self.go(id, num_new, whole, hit)

    def go(self, id, num_new, whole=False, hit=False):
        """A list of new blocks, or None."""
        sequence = self.sequences[id]
        hit = self.manager.get_computed_blocks(sequence)[0] if hit else []
        before = list(hit)
        new = self.manager.allocate_slots(sequence, num_new, hit, whole)
        if list(hit) != before:
            return "the hit is the caller's own list"
        if new is not None:
            sequence.computed += len(hit) * self.manager.block_size + num_new
        return new if new is None else list(new)

    def say(self, id, *tokens):
        self.sequences[id].output.extend(tokens)

    def leave(self, id):
        self.let_go(self.manager, self.sequences.pop(id))


def told(size, num_blocks, *calls, caching=True, **how):
    """What each call said, and the state after the last one."""
    desk = Desk(num_blocks, size, caching, **how)
    return [getattr(desk, name)(*args) for name, *args in calls], state_of(desk.manager)


class OnPaper(Desk):
    def __init__(self, *how):
        self.paper, self.sequences = Paper(*how), {}

    def go(self, id, num_new, whole=False, hit=False):
        sequence = self.sequences[id]
        hit = self.paper.hit(sequence) if hit else []
        new = self.paper.allocate(sequence, num_new, hit, whole)
        if new is not None:
            sequence.computed += len(hit) * self.paper.size + num_new
        return new

    def leave(self, id):
        self.paper.free(self.sequences.pop(id))


def on_paper(size, num_blocks, *calls, caching=True):
    desk = OnPaper(num_blocks, size, caching)
    return [getattr(desk, name)(*args) for name, *args in calls], desk.paper.state()


# ---- allocate_slots

come, go, say, leave = "come", "go", "say", "leave"  # what a desk is told
A9, B5, C20 = list(range(9)), [50, 51, 52, 53, 54], list(range(20))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_the_example(expect):
    """The docstring's, by hand: a fourth token still fits into block 1, a fifth needs one more block."""
    calls = (come, "a", [1, 2, 3], 3), (say, "a", 7), (go, "a", 1), (say, "a", 7), (go, "a", 1)
    right = [[1], None, [], None, [2]], ({"a": [1, 2]}, [3, 4, 5, 6, 7], [1, 1, 0, 0, 0, 0, 0], "k------")
    expect(told, 4, 8, *calls).equals(right)


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
@pytest.mark.parametrize(
    "length, at_once, right",
    [(5, [5], [[1, 2]]), (4, [4], [[1]]), (9, [2, 2, 2, 2, 1], [[1], [], [2], [], [3]]), (8, [3, 5], [[1], [2]]),
     (12, [1, 11], [[1], [2, 3]]), (10, [4, 4, 2], [[1], [2], [3]]), (13, [6, 1, 1, 5], [[1, 2], [], [], [3, 4]])],
    ids=str,
)  # fmt: skip
def test_no_more_blocks_than_are_needed(expect, length, at_once, right):
    """By hand, a prompt in chunks: first the last block is filled, and only then there is a new one."""
    first, *others = [(come, "a", list(range(length)), at_once[0]), *[(go, "a", n) for n in at_once[1:]]]
    seen = on_paper(4, 8, first, *others)
    assert seen[0] == right
    expect(told, 4, 8, first, *others).equals(seen)


STORIES = {
    "a hit in use": (8, (come, "a", A9, 9), (come, "b", A9, 1)),
    "a hit in the same step": (8, (come, "a", A9, 9), (come, "b", [*A9[:8], 70, 71], 2), (come, "c", A9[:6], 2)),
    "a free hit": (8, (come, "a", A9, 9), (leave, "a"), (come, "b", C20, 5)),
    "a free hit that is just enough": (6, (come, "a", A9, 9), (leave, "a"), (come, "b", C20, 12)),
    "a free hit that is too large": (5, (come, "a", A9, 9), (leave, "a"), (come, "b", C20, 12)),
    "free hits count": (5, (come, "a", A9, 9), (leave, "a"), (come, "b", C20, 9), (come, "c", B5, 1)),
    "a hit that would be given away next": (4, (come, "a", A9, 9), (leave, "a"), (come, "c", B5, 2),
                                            (come, "b", A9, 1), (leave, "c"), (come, "d", A9, 1)),
    "all free blocks are the hit": (4, (come, "a", C20[:12], 12), (leave, "a"), (come, "b", C20[:13], 1),
                                    (come, "c", C20[:12], 4), (come, "d", C20[:12], 1)),
    "half of the hit is free": (7, (come, "a", A9, 9), (come, "b", A9[:5], 1), (leave, "a"), (come, "c", C20, 12),
                                (come, "d", A9, 1), (come, "e", B5, 5)),
    "the last one that is free": (3, (come, "a", B5, 4), (go, "a", 1)),
    "too few": (3, (come, "a", A9, 4), (go, "a", 5), (go, "a", 4), (go, "a", 1)),
    "nothing at all": (2, (come, "a", B5, 4), (come, "b", A9, 1), (come, "c", A9, 9)),
    "the whole must fit": (4, (come, "a", A9, 2, True), (come, "b", C20, 2, True), (come, "c", C20[8:], 2, True)),
    "the whole just fits": (4, (come, "a", C20[:12], 1, True), (go, "a", 4, True), (go, "a", 7, True)),
    "the whole does not fit": (4, (come, "a", C20[:13], 1, True), (come, "b", C20[:13], 1)),
    "the whole with its output": (4, (come, "a", C20[:9], 1, True, True, [1, 2, 3, 4]), (come, "b", A9, 9, True)),
    "the whole behind a hit": (6, (come, "a", A9, 9), (leave, "a"), (come, "c", C20[:19], 1, True),
                               (come, "b", C20, 1, True), (come, "d", [*C20, 0], 1, True)),
    "the whole behind a free hit": (5, (come, "a", A9, 9), (leave, "a"), (come, "b", C20[:17], 1, True),
                                    (come, "c", C20[:16], 1, True)),
    "the whole behind a hit in use": (6, (come, "a", A9, 9), (come, "b", C20[:17], 1, True), (leave, "a")),
    "room was asked for all": (6, (come, "a", C20, 1, True), (go, "a", 9), (come, "b", B5, 5)),
    "a key when it is full": (8, (come, "a", A9, 3), (come, "b", A9, 3), (go, "a", 1), (come, "c", A9, 5)),
    "a key for what a decode fills": (8, (come, "a", [1, 2, 3], 3), (say, "a", 4), (go, "a", 1), (say, "a", 5),
                                      (come, "b", [1, 2, 3, 4, 5], 1)),
    "a key in the middle of a chunk": (8, (come, "a", C20, 6), (go, "a", 7), (come, "b", C20, 1), (go, "a", 7)),
    "one key, two blocks": (9, (come, "a", A9, 9), (come, "b", A9, 9, False, False), (say, "a", 1), (go, "a", 1)),
    "the first of two is given away": (8, (come, "a", A9, 8), (come, "b", A9, 8, False, False), (leave, "a"),
                                       (come, "c", B5, 5), (come, "d", B5[1:], 4), (come, "e", A9, 1)),
    "comes back": (8, (come, "a", A9, 9), (leave, "a"), (come, "b", B5, 5), (come, "a", A9, 1, True, True, [9, 9, 9]),
                   (go, "a", 3), (say, "a", 9), (go, "a", 1)),
    "comes back alone": (4, (come, "a", A9, 9), (leave, "a"), (come, "a", A9, 4, False, False), (go, "a", 5)),
    "another salt": (9, (come, "a", A9, 9, False, True, (), b"x"), (come, "b", A9, 5),
                     (come, "c", A9, 1, False, True, (), b"x")),
    "a block twice in a prompt": (9, (come, "a", [5] * 13, 13), (come, "b", [5] * 13, 1), (come, "c", [5] * 9, 1)),
    "on and on": (9, (come, "a", A9, 9), *[(say, "a", 3), (go, "a", 1)] * 12, (come, "b", [*A9, 3, 3, 3, 3], 1)),
    "two in turn": (8, (come, "a", A9, 3), (come, "b", B5, 2), (go, "a", 2), (go, "b", 3), (go, "a", 4),
                    (say, "b", 1), (go, "b", 1)),
}  # fmt: skip


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
@pytest.mark.parametrize("story", STORIES)
def test_tables_and_free_blocks(expect, story):
    """Oracle: the paper, with blocks of 4. A hit that is free leaves the queue, so it counts as taken; it is taken
    before the new blocks, which may else be the same ones; and None must have changed nothing."""
    num_blocks, *calls = STORIES[story]
    expect(told, 4, num_blocks, *calls).equals(on_paper(4, num_blocks, *calls))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
@pytest.mark.parametrize("story", ["a free hit", "on and on", "too few", "one key, two blocks", "comes back"])
def test_without_caching(expect, story):
    """Oracle: the paper. No keys at all, so every block that is freed goes to the front."""
    num_blocks, *calls = STORIES[story]
    expect(told, 4, num_blocks, *calls, caching=False).equals(on_paper(4, num_blocks, *calls, caching=False))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_a_refusal_leaves_no_trace(expect):
    """`tables` has those that own blocks only; who was refused waits, and is asked for again in the next step."""

    def refused():
        desk = Desk(4, 4)
        seen = [desk.come("a", A9, 9), desk.come("b", B5, 1), desk.go("b", 5, True)]
        manager = desk.manager
        return seen, sorted(manager.tables), manager.block_table(desk.sequences["b"]), state_of(manager)[1:]

    expect(refused).equals(([[1, 2, 3], None, None], ["a"], [], ([], [1, 1, 1], "kk-")))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_each_key_finds_the_block_that_holds_its_beginning(expect):
    """By hand: a has its blocks 1 and 2 full and 3 not, b its 4; the keys are those of the whole beginnings."""

    def found():
        desk = Desk(9, 4)
        desk.come("a", A9, 9), desk.come("b", [*A9[4:8], 1], 5)
        texts = (A9[:4], A9[:8], A9[4:8], [*A9[4:8], 1], [*A9, 9, 9, 9])
        keys = [hash_full_blocks(text, 4)[-1] for text in texts]
        return [desk.manager.pool.get_cached_block(key) for key in keys]

    expect(found).equals([1, 2, 4, 4, None])


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_blocks_taken(expect):
    """The part, by hand: a owns [1, 2], 1 and 2 have keys, 3 and 4 too but are free; blocks of 4. Room that is there
    already is never negative: with 3 tokens of room asked for, a would take none."""

    def taken():
        manager = filled([[7] * 4, [7] * 8, [8] * 4, [8] * 8])
        manager.tables["a"] = [1, 2]
        manager.pool.free_blocks([4, 3])
        a, b = asked("a", [7] * 20), asked("b", [8] * 20)
        with_a = [manager.blocks_taken(a, tokens, []) for tokens in (3, 8, 9, 12, 13, 20)]
        hits = (4, []), (5, []), (9, [1]), (9, [1, 2]), (9, [3]), (9, [3, 4]), (12, [1, 3]), (17, [3, 4]), (8, [3, 4])
        with_b = [manager.blocks_taken(b, tokens, hit) for tokens, hit in hits]
        return with_a, with_b, state_of(manager)[0]

    right = [0, 0, 1, 1, 2, 3], [1, 2, 2, 1, 3, 3, 2, 5, 2], {"a": [1, 2]}
    expect(taken).equals(right)


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_no_tokens_no_step(expect):
    """Who is planned for a step has something to run."""

    def none(num_new):
        return Desk(8, 4).come("a", B5, num_new)

    expect(none, 5).equals([1, 2])
    for num_new in (0, -1):
        expect(none, num_new).raises(ValueError)


def lived(size, num_blocks, seed, caching=True, steps=60, **how):
    """Random requests that share beginnings, on the desk and on paper; {} or the first difference."""
    draw = random.Random(seed)
    desk, paper = Desk(num_blocks, size, caching, **how), OnPaper(num_blocks, size, caching)
    texts = [[draw.randrange(3) for _ in range(4 * size)] for _ in range(2)]
    owners = []
    for step in range(steps):
        act = draw.choice(["come", "go", "go", "leave"])
        if act == "come" or not owners:
            prompt = draw.choice(texts)[: draw.randrange(3 * size)] + [draw.randrange(3)]
            output = [draw.randrange(3) for _ in range(draw.choice([0, 0, size]))]
            cached = len(paper.paper.hit(asked("x", prompt, output))) * size
            num_new = draw.randrange(len(prompt) + len(output) - cached) + 1
            call = come, f"r{step}", prompt, num_new, draw.random() < 0.4, True, output
        elif act == "go":
            id = draw.choice(owners)
            if not paper.sequences[id].pending:
                for one in (desk, paper):
                    one.say(id, step % 3)
            call = go, id, draw.randrange(paper.sequences[id].pending) + 1
        else:
            call = leave, draw.choice(owners)
        name, *args = call
        yours = getattr(desk, name)(*args), state_of(desk.manager)
        right = getattr(paper, name)(*args), paper.paper.state()
        if yours != right:
            return {"step": step, "call": call, "yours": yours, "right": right}
        owners = list(paper.paper.tables)
        for what in {what for _, what in paper.paper.holds}:
            key = hash_full_blocks(list(what[1:]), size)[-1]
            if desk.manager.pool.get_cached_block(key) != paper.paper.find(what):
                return {"step": step, "call": call, "beginning": what, "right": paper.paper.find(what)}
    return {}


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
@pytest.mark.parametrize("size, num_blocks", [(4, 7), (2, 12), (1, 9), (3, 30)])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_life(expect, size, num_blocks, seed):
    """Oracle: the paper. Every block is free or in tables, has as many users as tables, and is found by the key of the
    beginning that it holds, and by no other."""
    expect(lived, size, num_blocks, seed).equals({})


@pytest.mark.kata("level12.kv_manager.KVCacheManager.allocate_slots")
def test_a_long_life_without_caching(expect):
    """Oracle: the paper."""
    expect(lived, 2, 9, 5, False).equals({})


# ---- free


def by_free(manager, sequence):
    manager.free(sequence)


def freed(size, num_blocks, *calls):
    return told(size, num_blocks, *calls, let_go=by_free)


def lived_by_free(size, num_blocks, seed):
    return lived(size, num_blocks, seed, let_go=by_free)


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
@pytest.mark.parametrize(
    "length, right",
    [(9, [3, 4, 5, 6, 7, 2, 1]), (8, [3, 4, 5, 6, 7, 2, 1]), (3, [1, 2, 3, 4, 5, 6, 7]), (13, [4, 5, 6, 7, 3, 2, 1]),
     (28, [7, 6, 5, 4, 3, 2, 1]), (7, [2, 3, 4, 5, 6, 7, 1])],
)  # fmt: skip
def test_the_end_is_forgotten_first(expect, length, right):
    """By hand, 8 blocks of 4: the free queue afterwards. Without the first block nothing behind it can be hit, so the
    first is the last to be given away; the block that is not full has no key, and goes to the front."""
    calls = (come, "a", list(range(length)), length), (leave, "a")
    keyed = "k" * (length // 4) + "-" * (7 - length // 4)
    seen = [list(range(1, -(-length // 4) + 1)), None], ({}, right, [0] * 7, keyed)
    expect(freed, 4, 8, *calls).equals(seen)


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
@pytest.mark.parametrize("story", [name for name in STORIES if "leave" in str(STORIES[name])])
def test_others_stay(expect, story):
    """Oracle: the paper. What others share stays theirs, what is cached stays found, and who comes back starts anew."""
    num_blocks, *calls = STORIES[story]
    expect(freed, 4, num_blocks, *calls).equals(on_paper(4, num_blocks, *calls))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
def test_without_keys_the_last_block_is_in_front(expect):
    """By hand: without caching, [1, 2, 3] freed from behind go before 4, the 3 first."""

    def uncached():
        desk = Desk(6, 4, False, let_go=by_free)
        desk.come("a", A9, 9), desk.leave("a")
        return state_of(desk.manager)

    expect(uncached).equals(({}, [3, 2, 1, 4, 5], [0] * 5, "-----"))


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
def test_who_owns_nothing(expect):
    """A request that is aborted while it waits, and one that is freed twice: the blocks of others are untouched."""

    def nothing():
        desk = Desk(6, 4)
        a, b = asked("a", A9), asked("b", B5)
        manager = desk.manager
        manager.free(a)
        seen = [state_of(manager)]
        manager.allocate_slots(a, 9), manager.allocate_slots(b, 5)
        manager.free(asked("c", A9)), manager.free(a), manager.free(a)
        return [*seen, state_of(manager), manager.block_table(a)]

    right = [({}, [1, 2, 3, 4, 5], [0] * 5, "-----"), ({"b": [4, 5]}, [3, 2, 1], [0, 0, 0, 1, 1], "kk-k-"), []]
    expect(nothing).equals(right)


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
def test_who_comes_back_gets_its_keys_again(expect):
    """By hand: preempted, its blocks given to b, which leaves 1, 2, 4, 3 in the queue; let in again, a fills 1 and 2.
    They get their keys, as if it had never been there, and a third one finds them."""

    def again():
        desk = Desk(5, 4, let_go=by_free)
        seen = [desk.come("a", A9, 9)]
        desk.leave("a")
        seen.append(desk.come("b", [9] * 16, 16))
        desk.leave("b")
        seen += [desk.come("a", A9, 4), desk.go("a", 4), desk.go("a", 1), state_of(desk.manager)[3]]
        return [*seen, desk.manager.get_computed_blocks(asked("d", A9))]

    expect(again).equals([[1, 2, 3], [3, 4, 2, 1], [1], [2], [4], "kkk-", ([1, 2], 8)])


@pytest.mark.kata("level12.kv_manager.KVCacheManager.free")
@pytest.mark.parametrize("size, num_blocks", [(4, 7), (2, 12), (1, 9)])
@pytest.mark.parametrize("seed", range(10, 12))
def test_a_long_life_of_many(expect, size, num_blocks, seed):
    """Oracle: the paper. Blocks that were freed are given away again and again; none is lost, none has two owners that
    do not share it."""
    expect(lived_by_free, size, num_blocks, seed).equals({})
