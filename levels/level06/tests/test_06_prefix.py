"""Judges prefix.py by the beginnings themselves: a key stands for one beginning, and a cache kept on paper has tuples
of tokens in the place of keys.

What a key looks like is open, and which free block is handed out: a key is only compared with other keys, and blocks
get letters in the order in which requests take them. Two blocks that nothing comes after were never last used by the
same call, so that the order of eviction is never a tie.
"""

import os
import random
import struct
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import cloudpickle
import pytest

import dojo
from level06.blocks import BlockAllocator
from level06.prefix import PrefixCache, block_keys

# ---- block_keys


def kinds(*args):
    """What is returned, and what is in it."""
    keys = block_keys(*args)
    return [type(x).__name__ for x in (keys, *keys)]


def equal(*calls):
    """Of two calls: which keys, one beside the other, are equal?"""
    return [x == y for x, y in zip(*(block_keys(*args) for args in calls), strict=True)]


def confused(block_sizes, prompts):
    """Two beginnings with the same key, or one with two; {} if there are none. Prompts are (token_ids, salt)."""
    for block_size in block_sizes:
        begins, keys = {}, {}
        for token_ids, salt in prompts:
            for i, key in enumerate(block_keys(list(token_ids), block_size, salt)):
                begin = salt, tuple(token_ids[: (i + 1) * block_size])
                if keys.setdefault(begin, key) != key:
                    return {"two keys": begin}
                if begins.setdefault(key, begin) != begin:
                    return {"one key": [begins[key], begin]}
    return {}


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize("block_size", [1, 2, 4, 5])
def test_each_full_block_has_a_key(expect, block_size):
    """A block that is not full still changes: cached, it would answer for tokens that it doesn't hold yet."""
    expect(kinds, [1, 2, 3, 4, 5], 2).equals(["list", "bytes", "bytes"])  # the docstring's example

    def numbers(block_size):
        return [kinds(list(range(30, 30 + n)), block_size, b"lora").count("bytes") for n in (*range(12), 2000)]

    expect(numbers, block_size).equals([n // block_size for n in (*range(12), 2000)])


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize(
    "first, second, right",
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], "=="),
        ([1, 2, 3, 4], (1, 2, 3, 4), "=="),
        ([5, 6, 7, 8], range(5, 9), "=="),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6], "=="),
        ([1, 2, 3, 4], [1, 2, 3, 5], "=!"),
        ([1, 2, 3, 4], [1, 2, 9, 4], "=!"),
        ([9, 9, 3, 4], [1, 2, 3, 4], "!!"),
        ([9, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], "!!!"),
        ([1, 9, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], "!!!"),
        ([1, 2, 3, 4], [2, 1, 3, 4], "!!"),
        ([1, 2, 3, 4, 5, 6], [3, 4, 1, 2, 5, 6], "!!!"),
        ([1, 1, 5, 6], [2, 2, 5, 6], "!!"),
        ([1, 4, 5, 6], [2, 3, 5, 6], "!!"),
        ([1, 23, 5, 6], [12, 3, 5, 6], "!!"),
        ([65, 66], [321, 66], "!"),
        ([65, 66], [65, 66 + 2**16], "!"),
        ([65, 66], [65 + 2**24, 66], "!"),
        ([2**31, 7], [0, 7], "!"),
        ([0, 256], [1, 0], "!"),
        ([2**32 - 1, 2**32 - 1], [2**32 - 1, 2**32 - 2], "!"),
    ],
    ids=str,
)
def test_a_key_stands_for_all_tokens_up_to_its_blocks_end(expect, first, second, right):
    """K and V of [3, 4] behind [1, 2] are others than behind [9, 9]: in all layers but the first they have seen it."""
    right = [sign == "=" for sign in right]
    expect(equal, (first, 2), (second, 2)).equals(right)
    expect(equal, (second, 2, b"lora"), (first, 2, b"lora")).equals(right)


@pytest.mark.kata("level06.prefix.block_keys")
def test_equal_blocks_of_one_prompt_have_different_keys(expect):
    """Padding, or a table of zeros: the second block of zeros has another past than the first."""
    for token in (0, 7):
        expect(confused, [2], [([token] * 12, b""), ([token] * 4, b"x")]).equals({})


EVERY_SIZE = [0, 1, 2, 12, 256, 2**24, 2**32 - 1]
SALTS = [b"", b"\0", b"\0\0\0\0", b"\1\0\0\0", b"\0\0\0\1", b"\1", b"1", b"2,", b"a", b"b", b"ab"]
SALTS += [b"a" * 99, b"a" * 100, b"a" * 99 + b"b", b"A", b"a ", b" a", b"aa", b"ba", b"\xff", b"\xfe"]


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize("block_size, longest", [(1, 3), (2, 4), (3, 4)], ids=str)
def test_no_two_beginnings_share_a_key(expect, block_size, longest):
    """Oracle: the beginnings. All sequences of some ids, in bytes of every number, with salts that look like them."""
    tokens = EVERY_SIZE if longest < 4 else [0, 1, 256, 2**24]
    prompts = [(ids, salt) for ids in product(tokens, repeat=longest) for salt in SALTS[::4]]
    prompts += [(ids[:n], salt) for ids in product(tokens[:3], repeat=longest) for salt in SALTS for n in (2, longest)]
    expect(confused, [block_size], prompts).equals({})


@pytest.mark.kata("level06.prefix.block_keys")
def test_all_that_is_before_counts(expect):
    """A long prompt differs in its first token, and so in each of its 125 keys; and 1500 first tokens, or salts, are
    more than two bytes of them can tell apart."""

    def shared(n):
        texts = [[first, *range(16 * n)][: 16 * n] for first in (5, 6)]
        return sum(x == y for x, y in zip(*(block_keys(text, 16) for text in texts)))

    expect(shared, 125).equals(0)
    prompts = [([i, 7], b"") for i in range(1500)] + [([7], str(i).encode()) for i in range(1500)]
    expect(confused, [1], prompts).equals({})


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize("block_size", [1, 2])
def test_another_salt_gives_other_keys(expect, block_size):
    """Tenants must not find out what others ask, and under another adapter the same tokens have other K and V."""
    prompt, n = [1, 2, 3, 4, 5, 6], 6 // block_size

    def others(*salts):
        """For each: which keys are those without a salt, and which are those of the next salt?"""
        pairs = [((), (salt,)) for salt in salts], [((x,), (y,)) for x, y in zip(salts, salts[1:] + salts[:1])]
        return [[equal((prompt, block_size, *x), (prompt, block_size, *y)) for x, y in some] for some in pairs]

    expect(others, *SALTS[1:]).equals([[[False] * n] * len(SALTS[1:])] * 2)
    expect(equal, (prompt, block_size), (prompt, block_size, b"")).equals([True] * n)
    expect(equal, (prompt, block_size, b"lora"), (tuple(prompt), block_size, b"lora")).equals([True] * n)


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize("form", ["<I", ">I", "<Q", ">Q", "<H", "B", "text", "text,", "text "])
def test_a_salt_is_no_part_of_the_tokens(expect, form):
    """Salt and ids in a row, with nothing that says where the one ends: then a salt may look like the first tokens."""
    prompt = [11, 2, 3, 45, 6, 7]
    if form.startswith("text"):
        written = [f"{token}{form[4:]}".encode() for token in prompt]
    else:
        written = [struct.pack(form, token) for token in prompt]
    prompts = [(prompt[n:], b"".join(written[:n])) for n in range(4)]
    prompts += [([1, *prompt[1:]], b"1"), (prompt[:4], b"t"), ([1, *prompt[1:4]], b"t1")]  # or the first digit
    expect(confused, [1, 2, 3], prompts).equals({})


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize("block_size", [1, 2])
def test_a_salt_is_no_key(expect, block_size):
    """Whoever may choose a salt would get the blocks behind another's prompt, if a key taken as salt stood for it."""

    def taken_over(token_ids):
        keys = block_keys(token_ids, block_size)
        salted = [
            block_keys(token_ids[(i + 1) * block_size :], block_size, salt)
            for i, key in enumerate(keys)
            for salt in (key, key.hex().encode())
        ]
        return [key in keys for found in salted for key in found]

    n = 4 // block_size
    expect(taken_over, [1, 2, 3, 4]).equals([False] * (n * (n - 1)))


@pytest.mark.kata("level06.prefix.block_keys")
@pytest.mark.parametrize(
    "first, second",
    [
        ([214610310, 1755844991], [1297062708, 7]),  # Python's hash((a, b))
        ([1254760695, 2676812903], [1325940508, 7]),  # Python's hash((0, a, b))
        ([1, 2], [3681617472, 3]),  # a CRC-32 of four bytes each, behind whatever
    ],
    ids=["hash", "hash behind 0", "CRC-32"],
)
def test_what_is_no_cryptographic_hash_collides(expect, first, second):
    """Each has the same for both. Such pairs are found within a minute, and with one of them another's blocks."""
    expect(equal, (first, 2), (second, 2)).equals([False])
    expect(equal, (first, 1), (second, 1)).equals([False, False])


@pytest.mark.kata("level06.prefix.block_keys")
def test_a_key_is_too_long_to_collide(expect):
    """Of keys with 8 bytes, two among some billions are equal: 2^32 of them are enough. SHA-256 has 32 bytes."""

    def too_short(block_size):
        return sorted({len(k) for k in block_keys(range(1000, 1160), block_size, b"lora") if len(k) < 16})

    expect(too_short, 16).equals([])


@pytest.mark.kata("level06.prefix.block_keys")
def test_a_call_leaves_nothing_behind(expect):
    """A chain begins anew with every prompt, whatever was asked before."""

    def again(*prompts):
        first = [block_keys(prompt, 2, salt) for prompt, salt in prompts]
        return [block_keys(prompt, 2, salt) == keys for (prompt, salt), keys in reversed([*zip(prompts, first)])]

    prompts = [([1, 2, 3, 4], b""), ([1, 2, 3, 4], b"x"), ([1, 2], b""), ([5, 6, 7, 8, 9], b"")]
    expect(again, *prompts).equals([True] * 4)


CHILD = """
import sys, cloudpickle, dojo.mount
dojo.mount.mount_from_environment()
block_keys, calls = cloudpickle.loads(sys.stdin.buffer.read())
print([[key.hex() for key in block_keys(*args)] for args in calls])
"""


def elsewhere(*calls, seed):
    """The keys of these calls, as text, in a process of its own, where Python's hash has another seed."""
    module = sys.modules[block_keys.__module__]
    cloudpickle.register_pickle_by_value(module)  # by name it would be what the file says
    try:
        order = cloudpickle.dumps((block_keys, calls))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    home = str(Path(dojo.__file__).parent.parent)
    child = [sys.executable, "-c", CHILD]
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": home}
    done = subprocess.run(child, input=order, capture_output=True, env=environment, timeout=60, check=True)
    return done.stdout.decode().strip()


@pytest.mark.kata("level06.prefix.block_keys")
def test_keys_are_the_same_in_every_process(expect):
    """Servers share a store of blocks, and a store outlives its server; hash(b"x") is another after each restart."""

    def two_servers(*calls):
        here = str([[key.hex() for key in block_keys(*args)] for args in calls])
        return [elsewhere(*calls, seed=seed) == here for seed in (1, 2)]

    calls = ([1, 2, 3, 4], 2), ([1, 2, 3, 4, 5], 2, b"lora"), ([7, 7], 1, b"tenant")
    expect(two_servers, *calls).equals([True, True])


@pytest.mark.kata("level06.prefix.block_keys")
def test_what_is_no_block_or_no_id_is_refused(expect):
    """A padding of -1 must not become somebody's prompt, and 2^32 does not fit into four bytes."""
    expect(kinds, [0, 2**32 - 1, 3], 2).equals(["list", "bytes"])
    for block_size in (0, -1):
        expect(block_keys, [1, 2], block_size).raises(ValueError)
    for token_ids in ([-1, 2], [1, 2**32], [1, 2, -1], [1, 2, 2**32]):
        expect(block_keys, token_ids, 2).raises(ValueError)


# ---- PrefixCache


class Server:
    """A cache on a pool, and whoever asks. A token is a letter of a text; blocks are A, B, … as requests take them."""

    def __init__(self, cls, block_size=4, num_blocks=12):
        self.pool = BlockAllocator(num_blocks)
        self.cache, self.size, self.letters, self.taken = cls(self.pool, block_size), block_size, {}, 0

    def take(self):
        block = self.pool.allocate()
        self.letters[block] = chr(ord("A") + self.taken)
        self.taken += 1
        return block

    def names(self, blocks):
        return "".join(self.letters.get(block, "?") for block in blocks)

    def blocks(self, names):
        block_of = {name: block for block, name in self.letters.items()}
        return [block_of[name] for name in names]

    def match(self, text, *salt):
        """What a prompt finds; the request then holds it."""
        return self.names(self.cache.match([ord(letter) for letter in text], *salt))

    def insert(self, text, names, *salt):
        self.cache.insert([ord(letter) for letter in text], self.blocks(names), *salt)

    def compute(self, text, *salt):
        """A request that finds nothing: it takes all its blocks, and hands them to the cache. Their names."""
        table = self.names([self.take() for _ in range(-(-len(text) // self.size))])
        self.insert(text, table, *salt)
        return table

    def release(self, names):
        """A request ends."""
        for block in self.blocks(names):
            self.pool.release(block)

    def serve(self, text, *salt):
        """A request from its begin to its end, behind what it finds: its whole table."""
        table = self.match(text, *salt)
        table += self.names([self.take() for _ in range(-(-len(text) // self.size) - len(table))])
        self.insert(text, table, *salt)
        self.release(table)
        return table

    def evict(self, num_blocks):
        """(what it says, which blocks are free now)"""
        before = self.owners()
        said = self.cache.evict(num_blocks)
        return said, "".join(name for name in before if name not in self.owners())

    def owners(self):
        """{block: its owners}, of those in use."""
        counts = {name: self.pool.ref_count(block) for block, name in self.letters.items()}
        return {name: counts[name] for name in sorted(counts) if counts[name]}


def cached(cls, *texts, **sizes):
    """A server that has served these texts, one after the other."""
    served = Server(cls, **sizes)
    for text in texts:
        served.serve(text)
    return served


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_what_has_been_computed_is_found(expect):
    """The docstring's example: 8 tokens in blocks of 4 are found by a prompt with one more; by the 8 alone, one is."""

    def example(cls):
        served = Server(cls)
        served.compute("abcdefgh")
        return served.match("abcdefghi"), served.match("abcdefgh")

    expect.story(example, PrefixCache).equals(("AB", "A"))


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_one_token_is_left_to_run(expect, block_size):
    """The next token's logits come from running the last one: with a whole prompt from the cache there are none."""

    def lengths(cls):
        served = cached(cls, "abcdefghijkl", block_size=block_size)
        return [len(served.match("abcdefghijkl"[:n])) for n in range(13)] + [len(served.match("abcdefghijklmnop"))]

    right = [max(0, n - 1) // block_size for n in range(13)] + [12 // block_size]
    expect.story(lengths, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize(
    "prompt, right",
    [
        ("abcdefghijkl!", "ABC"),
        ("abcdefghijkl", "AB"),
        ("abcdefghijk!", "AB"),
        ("abcdefgh!jkl!", "AB"),
        ("abcd", ""),
        ("abcde", "A"),
        ("abc!efghijkl!", ""),
        ("!bcdefghijkl!", ""),
        ("abcd!fghijkl!", "A"),
        ("efghijkl!", ""),
        ("abcdijkl!", "A"),
        ("abcdabcd!", "A"),
        ("efghabcd!", ""),
        ("abcdEFGHijkl!", "AE"),
        ("abcdEFGHIJKL!", "AEF"),
        ("ABCDEFGHIJKL!", ""),
        ("", ""),
        ("a", ""),
    ],
)
def test_the_longest_beginning_is_found(expect, prompt, right):
    """Block by block from the start, up to the first that is unknown. The same tokens behind others don't count."""

    def find(cls):
        served = Server(cls)
        served.compute("abcdefghijklm")  # A, B, C, and D that is not full
        served.serve("abcdEFGHIJKL")  # A, and behind it E and F
        return served.match(prompt)

    expect.story(find, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_match_is_held_by_whoever_asked(expect):
    """Without a reference of its own, a request reads blocks that an eviction has given to somebody else.

    What does not match, like C, gets none; nor does a prompt that finds nothing.
    """

    def holders(cls):
        served = cached(cls, "abcdefghijkl")
        counts = [served.owners()]
        for prompt in ("abcdefghi", "abcdefgh", "wxyz", "abcdefghijklm"):
            served.match(prompt)
            counts.append(served.owners())
        served.release("ABAABC")
        return [*counts, served.owners(), served.pool.num_free, served.cache.num_cached]

    right = [{"A": 1, "B": 1, "C": 1}, {"A": 2, "B": 2, "C": 1}, {"A": 3, "B": 2, "C": 1}, {"A": 3, "B": 2, "C": 1}]
    right += [{"A": 4, "B": 3, "C": 2}, {"A": 1, "B": 1, "C": 1}, 9, 3]
    expect.story(holders, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 8, 10, 12])
def test_the_cache_owns_each_full_block(expect, n):
    """It outlives its request, which ends with the references it had; the last block, if not full, is its own alone."""

    def outlives(cls):
        served = Server(cls)
        table = served.compute("abcdefghijkl"[:n])
        counts = [(served.cache.num_cached, served.owners())]
        served.release(table)
        return [*counts, (served.cache.num_cached, served.owners()), served.pool.num_free]

    full, table = "ABC"[: n // 4], "ABC"[: -(-n // 4)]
    right = [(len(full), {name: 1 + (name in full) for name in table}), (len(full), dict.fromkeys(full, 1))]
    expect.story(outlives, PrefixCache).equals([*right, 12 - len(full)])


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_table_may_have_more_blocks(expect):
    """There may be room for tokens to come; a table with fewer blocks than are full belongs to other tokens."""

    def reserved(cls):
        served = Server(cls)
        table = served.names([served.take() for _ in range(5)])
        served.insert("abcdefghij", table)
        found = served.match("abcdefghijklmnop"), served.cache.num_cached, served.owners()
        try:
            served.insert("ABCDEFGHI", "A")
        except ValueError:
            return *found, "ValueError", served.owners()
        return found

    counts = {"A": 3, "B": 3, "C": 1, "D": 1, "E": 1}
    expect.story(reserved, PrefixCache).equals(("AB", 2, counts, "ValueError", counts))


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_known_key_keeps_its_block(expect):
    """Two requests with the same prompt in one step find nothing, and both compute it: of what holds the same, one is
    enough. The other's blocks stay the other's, and are free when it ends. What is new behind them is taken."""

    def twice(cls):
        served = Server(cls)
        counts = []
        first, second = (served.names([served.take() for _ in range(n)]) for n in (2, 4))  # A B and C D E F
        for text, table in (("abcdefgh", first), ("abcdefghijklmn", second), ("abcdefgh", first)):
            served.insert(text, table)
            counts.append((served.cache.num_cached, served.owners()))
        served.release(first)
        served.release(second)
        return counts, served.owners(), served.match("abcdefghijkl!"), served.pool.num_free

    counts = [
        (2, {"A": 2, "B": 2, "C": 1, "D": 1, "E": 1, "F": 1}),
        (3, {"A": 2, "B": 2, "C": 1, "D": 1, "E": 2, "F": 1}),
        (3, {"A": 2, "B": 2, "C": 1, "D": 1, "E": 2, "F": 1}),
    ]
    expect.story(twice, PrefixCache).equals((counts, {"A": 1, "B": 1, "E": 1}, "ABE", 9))


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_block_behind_a_duplicate_has_its_parent(expect):
    """E stands behind B in the cache, whichever block its request had there: E goes first, and then B can."""

    def behind(cls):
        served = Server(cls)
        first, second = (served.names([served.take() for _ in range(n)]) for n in (2, 3))
        served.insert("abcdefgh", first)
        served.insert("abcdefghijkl", second)
        served.release(first + second)
        return [served.evict(1) for _ in range(4)]

    expect.story(behind, PrefixCache).equals([(1, "E"), (1, "B"), (1, "A"), (0, "")])


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_salt_keeps_prompts_apart(expect):
    """Each tenant finds its own blocks and nobody else's, and so does who has none."""

    def tenants(cls):
        served = Server(cls)
        for salt in ((), (b"eve",), (b"bob",)):
            served.compute("abcdefgh", *salt)
        found = [served.match("abcdefghi", *salt) for salt in ((b"bob",), (b"eve",), (), (b"",), (b"joe",), (b"ev",))]
        served.serve("abcdefghijkl", b"eve")
        return found, served.match("abcdefghijkl!", b"bob"), served.match("abcdefghijkl!", b"eve")

    right = ["EF", "CD", "AB", "AB", "", ""], "EF", "CDG"
    expect.story(tenants, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize(
    "texts, asked, right",
    [
        (("aaaa", "bbbb", "cccc"), (), "ABC"),
        (("aaaa", "bbbb", "cccc"), ("aaaa!",), "BCA"),
        (("aaaa", "bbbb", "cccc"), ("bbbb!", "aaaa!"), "CBA"),
        (("aaaa", "bbbb", "cccc"), ("aaaa!", "aaaa!", "aaaa!", "cccc!", "bbbb!"), "ACB"),
        (("aaaa", "bbbb", "cccc"), ("aaaa",), "ABC"),
        (("aaaa", "bbbb", "cccc"), ("aaa", "aaa!a"), "ABC"),
        (("aaaabbbb",), (), "BA"),
        (("aaaabbbbcccc",), ("aaaa!",), "CBA"),
        (("aaaabbbb", "cccc"), (), "BAC"),
        (("cccc", "aaaabbbb"), (), "ACB"),
        (("aaaabbbb", "ccccdddd"), (), "BADC"),
        (("aaaabbbb", "ccccdddd"), ("aaaa!",), "BDCA"),
        (("aaaabbbb", "ccccdddd"), ("aaaabbbb",), "BDCA"),
        (("aaaabbbb", "ccccdddd"), ("aaaabbbb!",), "DCBA"),
        (("aaaabbbb", "aaaacccc", "aaaadddd"), (), "BCDA"),
        (("aaaabbbb", "aaaacccc", "aaaadddd"), ("aaaabbbb!",), "CDBA"),
        (("aaaa", "aaaabbbb", "cccc"), (), "BAC"),
        (("aaaabbbbcccc", "dddd", "aaaabbbbeeee"), (), "CDEBA"),
    ],
    ids=str,
)
def test_the_one_not_used_for_longest_goes_first(expect, texts, asked, right):
    """What was asked for lately is asked for again. Of a chain the end goes first: without the blocks before it nobody
    finds it, and it would fill the pool for ever."""

    def order(cls):
        served = cached(cls, *texts)
        for prompt in asked:
            served.release(served.match(prompt))
        return "".join(served.evict(1)[1] for _ in range(len(right) + 1))

    expect.story(order, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("again", ["aaaabbbb", "aaaa", "aaaabbbb!", "aaaax"])
def test_an_insert_is_a_use(expect, again):
    """Whoever has computed the same again, in blocks of its own, has used what the cache has: it is in demand."""

    def order(cls):
        served = cached(cls, "aaaabbbb", "cccc")
        served.release(served.compute(again))
        return "".join(served.evict(1)[1] for _ in range(4))

    expect.story(order, PrefixCache).equals("CBA" if again.startswith("aaaabbbb") else "BCA")


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("again", ["match", "insert"])
def test_all_blocks_of_a_use_are_used(expect, again):
    """C is matched, then A and B are used. B goes first all the same, as C is held; then C, which is older than A."""

    def order(cls):
        served = cached(cls, "aaaabbbb", "cccc")
        held = served.match("cccc!")
        served.release(served.match("aaaabbbb!") if again == "match" else served.compute("aaaabbbb"))
        first = served.evict(1)
        served.release(held)
        return [first, *(served.evict(1) for _ in range(3))]

    expect.story(order, PrefixCache).equals([(1, "B"), (1, "C"), (1, "A"), (0, "")])


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 6, 99])
def test_as_many_blocks_are_free_as_asked_for(expect, n):
    """As many as the next request needs, and no more: what stays in the cache saves somebody's prefill. The order is C
    and B, which "aaaa!" does not use, then E, D, and A: once C has gone, nothing comes after B."""

    def room(cls):
        served = cached(cls, "aaaabbbbcccc", "ddddeeee")
        served.release(served.match("aaaa!"))
        return *served.evict(n), served.cache.num_cached, served.pool.num_free

    gone = sorted("CBEDA"[:n])
    expect.story(room, PrefixCache).equals((len(gone), "".join(gone), 5 - len(gone), 7 + len(gone)))


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize(
    "held, asked_for, right",
    [
        (["aaaabbbbcccc!"], 9, [(1, "D"), (3, "ABC")]),
        (["aaaabbbb!"], 9, [(2, "CD"), (2, "AB")]),
        (["aaaabbbb!"], 1, [(1, "C"), (1, "D")]),
        (["aaaa!"], 9, [(3, "BCD"), (1, "A")]),
        (["dddd!"], 9, [(3, "ABC"), (1, "D")]),
        (["dddd!"], 2, [(2, "BC"), (2, "AD")]),
        (["dddd!", "aaaabbbbcccc!"], 9, [(0, ""), (1, "D")]),
        (["aaaa!", "aaaabbbbcccc!"], 9, [(1, "D"), (0, "")]),
        (["aaaabbbbcccc!", "aaaa!"], 9, [(1, "D"), (2, "BC")]),
    ],
    ids=str,
)
def test_what_a_request_holds_stays(expect, held, asked_for, right):
    """It is being read in every step. Others go in its stead, if they are there, and it can go when its request has
    ended: here that of the first prompt ends between two evictions."""

    def busy(cls):
        served = cached(cls, "aaaabbbbcccc", "dddd")
        tables = [served.match(prompt) for prompt in held]
        first = served.evict(asked_for)
        served.release(tables[0])
        return [first, served.evict(asked_for)]

    expect.story(busy, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_what_a_running_request_has_inserted_stays(expect):
    """Its blocks are found by others while it runs; all of them are in use until it ends, and nothing changes."""

    def running(cls):
        served = Server(cls)
        served.compute("aaaabbbbcc")
        nothing = served.evict(1), served.evict(9), served.owners(), served.cache.num_cached
        found = served.match("aaaabbbb!")
        served.release("ABC")
        still = served.evict(9), served.owners()
        served.release(found)
        return nothing, found, still, served.evict(9), served.pool.num_free

    nothing = (0, ""), (0, ""), {"A": 2, "B": 2, "C": 1}, 2
    expect.story(running, PrefixCache).equals((nothing, "AB", ((0, ""), {"A": 2, "B": 2}), (2, "AB"), 12))


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_block_in_use_keeps_those_before_it(expect):
    """A request has computed the whole prompt in C, D and E while another did: of its blocks the cache took E alone.
    Nobody holds A and B; without them E would not be found."""

    def behind(cls):
        served = Server(cls)
        tables = [served.names([served.take() for _ in range(n)]) for n in (2, 3)]
        served.insert("aaaabbbb", tables[0])
        served.insert("aaaabbbbcccc", tables[1])
        served.release(tables[0])
        nothing = served.evict(9), served.owners()
        served.release(tables[1])
        return nothing, served.evict(9)

    nothing = (0, ""), {"A": 1, "B": 1, "C": 1, "D": 1, "E": 2}
    expect.story(behind, PrefixCache).equals((nothing, (3, "ABE")))


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_what_was_evicted_is_not_found(expect):
    """Its block is somebody else's now. Computed again it is found in its new block, which nobody has used before."""

    def again(cls):
        served = cached(cls, "aaaabbbb", "cccc")
        one_gone = served.evict(1), served.match("aaaabbbb!"), served.cache.num_cached
        served.release("A")
        all_gone = served.evict(2), served.match("cccc!"), served.match("aaaabbbb!"), served.cache.num_cached
        anew = served.serve("cccc"), served.serve("aaaabbbb"), served.evict(1), served.serve("cccc"), served.owners()
        return one_gone, all_gone, anew, [served.evict(1) for _ in range(4)]

    one_gone, all_gone = ((1, "B"), "A", 2), ((2, "AC"), "", "", 0)
    anew = "D", "EF", (1, "D"), "G", {"E": 1, "F": 1, "G": 1}
    right = one_gone, all_gone, anew, [(1, "F"), (1, "E"), (1, "G"), (0, "")]
    expect.story(again, PrefixCache).equals(right)


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_a_sequence_may_be_inserted_as_it_grows(expect):
    """After its prompt, and after its answer: the blocks that the cache owns already get no second reference."""

    def grows(cls):
        served = Server(cls)
        table, text, counts = "", "abcdefghijklm", []
        for n in (3, 4, 6, 8, 8, 13):
            table += served.names([served.take() for _ in range(-(-n // 4) - len(table))])
            served.insert(text[:n], table)
            counts.append((served.cache.num_cached, served.owners()))
        return counts

    right = [(0, {"A": 1}), (1, {"A": 2}), (1, {"A": 2, "B": 1}), (2, {"A": 2, "B": 2}), (2, {"A": 2, "B": 2})]
    expect.story(grows, PrefixCache).equals([*right, (3, {"A": 2, "B": 2, "C": 2, "D": 1})])


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_belong_to_the_caller(expect, kind):
    """A request writes its next tokens and blocks behind those that it has handed over, and behind what it has got."""

    def goes_on(cls):
        pool = BlockAllocator(6)
        cache, table = cls(pool, 2), kind(pool.allocate() for _ in range(2))
        token_ids, blocks = kind([1, 2, 3, 4]), list(table)
        cache.insert(token_ids, table)
        if kind is list:
            token_ids[:], table[:] = [9, 9, 9], [5]
        found = cache.match(kind([1, 2, 3, 4, 5]))
        same = found == blocks, isinstance(found, list)
        found[:] = [7]
        again = cache.match(kind([1, 2, 3, 4, 5])) == blocks
        for block in 3 * blocks:
            pool.release(block)
        return *same, again, cache.evict(1), pool.num_free, cache.match(kind([1, 2, 3, 4, 5])) == blocks[:1]

    expect.story(goes_on, PrefixCache).equals((True, True, True, 1, 5, True))


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_two_caches_know_nothing_of_each_other(expect):
    """Each model of a server has a cache of its own, on a pool of its own: other weights, other keys and values."""

    def two(cls):
        first, second = Server(cls), Server(cls)
        first.serve("aaaabbbb")
        nothing = second.match("aaaabbbb!"), second.cache.num_cached, second.evict(9)
        second.serve("aaaa")
        return *nothing, first.evict(9), second.cache.num_cached, second.match("aaaabbbb!")

    expect.story(two, PrefixCache).equals(("", 0, (0, ""), (2, "AB"), 1, "A"))


# ---- PrefixCache: traces


class Paper:
    """Oracle: (salt, all tokens up to the end of a block) -> (block, last use); and how many hold which block."""

    def __init__(self, block_size):
        self.size, self.cached, self.held, self.now = block_size, {}, Counter(), 0

    def match(self, token_ids, salt):
        self.now, found = self.now + 1, []
        for end in range(self.size, len(token_ids), self.size):
            begin = salt, tuple(token_ids[:end])
            if begin not in self.cached:
                break
            block, _ = self.cached[begin]
            self.cached[begin] = block, self.now
            found.append(block)
        self.held.update(found)
        return found

    def insert(self, token_ids, table, salt):
        self.now += 1
        for end in range(self.size, len(token_ids) + 1, self.size):
            begin = salt, tuple(token_ids[:end])
            block, _ = self.cached.get(begin, (table[end // self.size - 1], 0))
            self.cached[begin] = block, self.now

    def evict(self, num_blocks):
        for gone in range(num_blocks):
            inner = {(salt, token_ids[: -self.size]) for salt, token_ids in self.cached}
            ends = [begin for begin, (block, _) in self.cached.items() if begin not in inner and not self.held[block]]
            if not ends:
                return gone
            del self.cached[min(ends, key=lambda begin: self.cached[begin][1])]
        return num_blocks

    def owners(self, num_blocks):
        blocks = [block for block, _ in self.cached.values()]
        return [self.held[block] + blocks.count(block) for block in range(num_blocks)]


class Day:
    """Requests that come, find, take blocks, evict where there are none, grow, are inserted or not, and end.

    `wrong` is {} while the cache does what is on paper; then the calls so far, and the first difference.
    """

    def __init__(self, cls, seed):
        self.draw, self.running, self.calls, self.wrong = random.Random(seed), [], [], {}
        self.size, self.num_blocks = self.draw.choice([1, 2, 3]), self.draw.choice([3, 5, 8, 12, 20, 30])
        self.salts, self.letters = self.draw.choice([[b""], [b"", b"s"]]), self.draw.choice(["a", "ab", "ab", "abc"])
        self.pool, self.paper = BlockAllocator(self.num_blocks), Paper(self.size)
        self.cache = cls(self.pool, self.size)

    def compare(self, call, yours=None, right=None):
        owners = self.paper.owners(self.num_blocks)
        counts = [self.pool.ref_count(block) for block in range(self.num_blocks)]
        pairs = {
            "result": (yours, right),
            "num_cached": (self.cache.num_cached, len(self.paper.cached)),
            "owners of each block": (counts, owners),
            "num_free": (self.pool.num_free, owners.count(0)),
        }
        self.calls.append(call)
        if differ := {name: {"yours": y, "right": r} for name, (y, r) in pairs.items() if y != r}:
            self.wrong = {f"blocks of {self.size}": self.calls, **differ}

    def text(self, n):
        return [ord(self.draw.choice(self.letters)) for _ in range(n)]

    def come(self):
        salt, prompt = self.draw.choice(self.salts), self.text(self.draw.randint(0, 4 * self.size + 1))
        right, table = self.paper.match(prompt, salt), self.cache.match(list(prompt), salt)
        self.compare(f"match({bytes(prompt)}, {salt})", table, right)
        request = salt, prompt[: len(right) * self.size], list(right)
        self.running.append(request)
        self.grow(request, prompt[len(request[1]) :])

    def grow(self, request, more):
        """Blocks for more tokens, if there are enough; else the request ends."""
        _, token_ids, table = request
        needed = -(-(len(token_ids) + len(more)) // self.size) - len(table)
        if needed > self.pool.num_free and not self.wrong:
            self.evict(needed - self.pool.num_free)
        if self.wrong:
            return
        if needed > self.pool.num_free:
            return self.end(request)
        new = [self.pool.allocate() for _ in range(needed)]
        self.paper.held.update(new)
        table += new
        token_ids += more

    def insert(self, request):
        salt, token_ids, table = request
        yours = self.cache.insert(list(token_ids), list(table), salt)
        right = self.paper.insert(token_ids, table, salt)
        self.compare(f"insert({bytes(token_ids)}, {table}, {salt})", yours, right)

    def end(self, request):
        for block in request[2]:
            self.pool.release(block)
        self.paper.held.subtract(request[2])
        self.running.remove(request)
        self.compare(f"release {request[2]}")

    def evict(self, n):
        self.compare(f"evict({n})", self.cache.evict(n), self.paper.evict(n))

    def goes_wrong(self, steps):
        while len(self.calls) < steps and not self.wrong:
            what, request = self.draw.choice("CCCGIIIEEX"), self.draw.choice(self.running or [None])
            what = "E" if len(self.running) > self.num_blocks // 6 + 1 else what
            if what == "C":
                self.come()
            elif what == "X":
                self.evict(self.draw.choice([0, 1, 1, 1, 2, 3] + [99] * (len(self.calls) < 30)))
            elif request and what == "G":
                self.grow(request, self.text(self.draw.randint(1, self.size + 1)))
            elif request:
                self.insert(request) if what == "I" else self.end(request)
        return self.wrong


@pytest.mark.kata("level06.prefix.PrefixCache")
def test_short_days(expect):
    """Oracle: a cache on paper, in tuples of tokens. Shown are all calls of one of the shortest days that go wrong."""

    def short_days(cls):
        return next((wrong for seed in range(400) if (wrong := Day(cls, seed).goes_wrong(4 + seed // 20))), {})

    expect.story(short_days, PrefixCache).equals({})


@pytest.mark.kata("level06.prefix.PrefixCache")
@pytest.mark.parametrize("seed", range(6))
def test_a_long_day(expect, seed):
    """Oracle: as above. After each call all blocks are accounted for: free, held by requests, or owned by the cache."""

    def long_day(cls):
        return Day(cls, 1000 + seed).goes_wrong(600)

    expect.story(long_day, PrefixCache).equals({})
