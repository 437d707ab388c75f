"""Right programs, written another way, for level06.prefix. `alternative` is given when this is read."""

import hashlib
import heapq
import struct
from collections import Counter, OrderedDict
from itertools import accumulate, count, takewhile

import numpy as np


def _checked(token_ids, block_size):
    if block_size < 1 or any(token < 0 or token >= 1 << 32 for token in token_ids):
        raise ValueError("no block, or no id")


# ---- block_keys


def _whole_beginnings(token_ids, block_size, salt=b""):
    """No chain: each key is the hash of the whole beginning, behind the salt and how long it is."""
    _checked(token_ids, block_size)
    head, keys = struct.pack("<Q", len(salt)) + salt, []
    for n in range(len(token_ids) // block_size):
        begin = token_ids[: (n + 1) * block_size]
        keys.append(hashlib.sha256(head + struct.pack(f"<{len(begin)}I", *begin)).digest())
    return keys


def _one_hash_that_grows(token_ids, block_size, salt=b""):
    """A copy of its state for each key; 16 bytes are enough."""
    _checked(token_ids, block_size)
    state, keys = hashlib.blake2b(hashlib.sha1(salt).digest(), digest_size=16), []
    for n, token in enumerate(token_ids, 1):
        state.update(token.to_bytes(8, "big"))
        if n % block_size == 0:
            keys.append(state.copy().digest())
    return keys


def _as_text(token_ids, block_size, salt=b""):
    """Keys in hex, with signs between all that is put together."""
    _checked(token_ids, block_size)
    keys, block = [salt.hex() + "!"], []
    for token in token_ids:
        block.append(str(token))
        if len(block) == block_size:
            keys.append(hashlib.sha512(f"{keys[-1]}|{','.join(block)}".encode()).hexdigest())
            block.clear()
    return [key.encode() for key in keys[1:]]


def _no_hash_at_all(token_ids, block_size, salt=b""):
    """The beginning itself is its key: long, and never equal to another."""
    _checked(token_ids, block_size)
    ends = range(block_size, len(token_ids) + 1, block_size)
    return [repr((bytes(salt), list(token_ids[:end]))).encode() for end in ends]


def _numpy_and_accumulate(token_ids, block_size, salt=b""):
    _checked(token_ids, block_size)
    n = len(token_ids) // block_size
    blocks = np.array(token_ids[: n * block_size], dtype=">u4").reshape(n, block_size)
    own = [hashlib.sha3_256(block.tobytes()).digest() for block in blocks]
    chain = accumulate(own, lambda parent, x: hashlib.sha256(parent + x).digest(), initial=b"")
    return [salt + key for key in list(chain)[1:]]  # the salt in front of 32 bytes


def _backwards(token_ids, block_size, salt=b""):
    """The last key by way of the others: a call for each block would be too deep, so a dict of what is done."""
    _checked(token_ids, block_size)
    done = {0: hashlib.sha256(b"salt" + salt).digest()}
    for end in range(block_size, len(token_ids) + 1, block_size):
        own = "-".join(f"{token:x}" for token in reversed(token_ids[end - block_size : end]))
        done[end] = hashlib.sha256(own.encode() + b" " + done[end - block_size] + b"block").digest()
    return list(done.values())[1:]


for program in (
    _whole_beginnings,
    _one_hash_that_grows,
    _as_text,
    _no_hash_at_all,
    _numpy_and_accumulate,
    _backwards,
):
    alternative("level06.prefix.block_keys", program.__name__[1:], program=program)

alternative(
    "level06.prefix.block_keys",
    "salt_at_the_end",
    change=("hashlib.sha256(parent + salted + own)", "hashlib.sha256(own + (parent or bytes(32)) + salt)"),
)
alternative(
    "level06.prefix.block_keys",
    "hash_of_the_salt_as_the_first_parent",
    change=[
        (
            'keys, parent, salted = [], b"", hashlib.sha256(salt).digest()',
            "keys, parent = [], hashlib.sha256(salt).digest()",
        ),
        ("parent + salted + own", "parent + own"),
    ],
)

# ---- PrefixCache


class _Tree:
    """A tree of blocks, each child under its own tokens: no keys. A node knows its parent and its children."""

    class Node:
        def __init__(self, parent=None, tokens=None, block=None):
            self.parent, self.tokens, self.block, self.children, self.last = parent, tokens, block, {}, 0

    def __init__(self, allocator, block_size):
        self._pool, self._size, self._roots, self._time = allocator, block_size, {}, 0

    def _nodes(self):
        todo = [child for root in self._roots.values() for child in root.children.values()]
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children.values())

    @property
    def num_cached(self):
        return sum(1 for _ in self._nodes())

    def _blocks(self, token_ids, n):
        return [tuple(token_ids[i * self._size : (i + 1) * self._size]) for i in range(n)]

    def match(self, token_ids, salt=b""):
        self._time += 1
        node, table = self._roots.get(salt, self.Node()), []
        for tokens in self._blocks(token_ids, (len(token_ids) - 1) // self._size if len(token_ids) else 0):
            node = node.children.get(tokens)
            if node is None:
                return table
            node.last = self._time
            self._pool.share(node.block)
            table += [node.block]
        return table

    def insert(self, token_ids, block_table, salt=b""):
        full = len(token_ids) // self._size
        if full > len(block_table):
            raise ValueError("whose tokens are these?")
        self._time += 1
        node = self._roots.setdefault(salt, self.Node())
        for tokens, block in zip(self._blocks(token_ids, full), block_table):
            if tokens not in node.children:
                node.children[tokens] = self.Node(node, tokens, block)
                self._pool.share(block)
            node = node.children[tokens]
            node.last = self._time

    def evict(self, num_blocks):
        for n in range(num_blocks):
            ends = [node for node in self._nodes() if not node.children and self._pool.ref_count(node.block) < 2]
            if not ends:
                return n
            end = min(ends, key=lambda node: node.last)
            del end.parent.children[end.tokens]
            self._pool.release(end.block)
        return max(num_blocks, 0)


class _Ordered:
    """An OrderedDict in the order of use, the ends of chains before what they stand on; tuples in place of keys."""

    def __init__(self, allocator, block_size):
        self.allocator, self.block_size, self.blocks = allocator, block_size, OrderedDict()

    num_cached = property(lambda self: len(self.blocks))

    def _begins(self, token_ids, salt, last):
        return [(salt, *token_ids[:end]) for end in range(self.block_size, last + 1, self.block_size)]

    def _use(self, begins):
        for begin in reversed(begins):
            self.blocks.move_to_end(begin)

    def match(self, token_ids, salt=b""):
        begins = list(takewhile(self.blocks.__contains__, self._begins(token_ids, salt, len(token_ids) - 1)))
        self._use(begins)
        for begin in begins:
            self.allocator.share(self.blocks[begin])
        return [self.blocks[begin] for begin in begins]

    def insert(self, token_ids, block_table, salt=b""):
        begins = self._begins(token_ids, salt, len(token_ids))
        if len(begins) > len(block_table):
            raise ValueError(len(block_table))
        for begin, block in zip(begins, block_table):
            if self.blocks.setdefault(begin, None) is None:
                self.blocks[begin] = block
                self.allocator.share(block)
        self._use(begins)

    def evict(self, num_blocks):
        gone = 0
        while gone < num_blocks:
            inner = {begin[: -self.block_size] for begin in self.blocks}
            for begin, block in self.blocks.items():
                if begin not in inner and self.allocator.ref_count(block) == 1:
                    break
            else:
                break
            self.allocator.release(self.blocks.pop(begin))
            gone += 1
        return gone


class _Heap:
    """Counts of children, a heap of uses in which most are out of date, and a tick for each block."""

    def __init__(self, allocator, block_size):
        self.pool, self.size = allocator, block_size
        self.block, self.above, self.last, self.below = {}, {}, {}, Counter()
        self.ticks, self.heap = count(1), []

    @property
    def num_cached(self):
        return len(self.block)

    def _keys(self, token_ids, salt):
        from level06.prefix import block_keys

        return block_keys(token_ids, self.size, salt)

    def _touch(self, key):
        self.last[key] = next(self.ticks)
        heapq.heappush(self.heap, (self.last[key], key))

    def match(self, token_ids, salt=b""):
        if len(token_ids) < 2:
            return []
        hits = []
        for key in self._keys(token_ids[:-1], salt):  # all but one
            if key in self.block:
                hits.append(key)
        for key in hits:
            self._touch(key)
            self.pool.share(self.block[key])
        return list(map(self.block.get, hits))

    def insert(self, token_ids, block_table, salt=b""):
        keys = self._keys(token_ids, salt)
        if len(keys) > len(block_table):
            raise ValueError
        for i, key in enumerate(keys):
            if key not in self.block:
                self.pool.share(block_table[i])
                self.block[key], self.above[key] = block_table[i], keys[i - 1] if i else None
                self.below[self.above[key]] += 1
            self._touch(key)

    def evict(self, num_blocks):
        freed, aside = 0, []
        while freed < num_blocks and self.heap:
            used, key = heapq.heappop(self.heap)
            if self.last.get(key) != used:
                continue
            if self.below[key] or self.pool.ref_count(self.block[key]) > 1:
                aside.append((used, key))
                continue
            parent = self.above.pop(key)
            self.pool.release(self.block.pop(key))
            del self.last[key]
            self.below[parent] -= 1
            freed += 1
            for item in aside:
                heapq.heappush(self.heap, item)
            aside = []
        for item in aside:
            heapq.heappush(self.heap, item)
        return freed


class _Rows:
    """A list of rows; the longest beginning is tried first, and the oldest goes after sorting all."""

    def __init__(self, allocator, block_size):
        self.rows, self.allocator, self.block_size, self.now = [], allocator, block_size, 0.0

    @property
    def num_cached(self):
        return len(self.rows)

    def _chain(self, token_ids, salt, n):
        """Rows of the first n tokens, or None."""
        begins = [(salt, list(token_ids[:end])) for end in range(self.block_size, n + 1, self.block_size)]
        chain = [next((row for row in self.rows if row["begin"] == begin), None) for begin in begins]
        return None if None in chain else chain

    def match(self, token_ids, salt=b""):
        self.now += 0.5
        for n in range((len(token_ids) - 1) // self.block_size, 0, -1):
            if chain := self._chain(token_ids, salt, n * self.block_size):
                for row in chain:
                    row["used"] = self.now
                    self.allocator.share(row["block"])
                return [row["block"] for row in chain]
        return []

    def insert(self, token_ids, block_table, salt=b""):
        if len(block_table) * self.block_size + self.block_size <= len(token_ids):
            raise ValueError("too few")
        self.now += 0.5
        for i in range(len(token_ids) // self.block_size):
            begin = salt, list(token_ids[: (i + 1) * self.block_size])
            known = [row for row in self.rows if row["begin"] == begin]
            if not known:
                known = [{"begin": begin, "block": block_table[i]}]
                self.allocator.share(block_table[i])
                self.rows += known
            known[0]["used"] = self.now

    def evict(self, num_blocks):
        return sum(self._evict_one() for _ in range(num_blocks))

    def _evict_one(self):
        self.rows.sort(key=lambda row: (row["used"], -len(row["begin"][1])))
        for row in self.rows:
            salt, tokens = row["begin"]
            longer = [r for r in self.rows if r["begin"][0] == salt and r["begin"][1][: len(tokens)] == tokens]
            if len(longer) == 1 and self.allocator.ref_count(row["block"]) == 1:
                self.rows.remove(row)
                self.allocator.release(row["block"])
                return True
        return False


for program in (_Tree, _Ordered, _Heap, _Rows):
    alternative("level06.prefix.PrefixCache", program.__name__[1:].lower(), program=program)

alternative(
    "level06.prefix.PrefixCache",
    "looks_behind_gaps_that_are_never_there",
    change=(
        "            if key not in self.entries:\n                break\n",
        "            if key not in self.entries:\n                continue\n",
    ),
)
alternative(
    "level06.prefix.PrefixCache",
    "a_tick_for_each_block",
    change=[
        ("            entry.used = self.clock\n", "            self.clock += 1\n            entry.used = self.clock\n"),
        (
            "            self.entries[key].used = self.clock\n",
            "            self.clock += 1\n            self.entries[key].used = self.clock\n",
        ),
    ],
)
alternative(
    "level06.prefix.PrefixCache",
    "matches_what_is_left_without_the_last_token",
    change=(
        "block_keys(token_ids, self.block_size, salt)[: max(0, len(token_ids) - 1) // self.block_size]",
        "block_keys(token_ids[: len(token_ids) - 1], self.block_size, salt)",
    ),
)
