"""Known-wrong programs of level12.block_pool. `ghost` is given when this is read."""


def _pool(name, sentence, *change, **how):
    ghost("level12.block_pool.BlockPool", name, sentence, change=change, **how)


QUEUE = "self.free = FreeQueue(range(1, num_blocks))"
NUM_FREE = "return len(self.free)"
GET = "return next(iter(self.found.get(key, ())), None)"
CACHE = "self.found.setdefault(key, {})[block] = None"
POP = "blocks = [self.free.popleft() for _ in range(n)]"
EVICT = "            self.forget(block)\n"
FIRST = "            self.users[block] = 1\n"
LEAVE = "            if not self.users[block]:\n                self.free.remove(block)\n"
MORE = "            self.users[block] += 1\n"
FEWER = "            self.users[block] -= 1\n"
FREE = "free = [block for block in blocks if not self.users[block]]"
BACK = "        self.free.append_n(block for block in free if self.key[block] is not None)\n"
FRONT = "        self.free.prepend_n(block for block in free if self.key[block] is None)\n"
TAKE_KEY = "key, self.key[block] = self.key[block], None"
DROP = (
    "            del self.found[key][block]\n            if not self.found[key]:\n                del self.found[key]\n"
)

# ---- who is free

_pool(
    "null_block_allocated",
    "Block 0 is where padding points to: it must never be given away, so the queue begins with 1.",
    (QUEUE, "self.free = FreeQueue(range(num_blocks))"),
)
_pool(
    "last_block_left_out",
    "Of num_blocks blocks only block 0 is never given away: yours leaves out the last one too.",
    (QUEUE, "self.free = FreeQueue(range(1, num_blocks - 1))"),
)
_pool(
    "block_0_is_counted",
    "Block 0 is not free: who believes num_free and asks for so many gets none.",
    (NUM_FREE, "return len(self.free) + 1"),
)
_pool(
    "cached_is_not_free",
    "A block that nobody uses is free, also if a key finds it: else a cache that is full lets nobody in.",
    (NUM_FREE, "return sum(self.key[block] is None for block in self.free.ids())"),
)
_pool(
    "no_user_at_first",
    "Who gets a new block is its first user: with a count of 0 it can't be freed, and the next hit looks for it in the "
    "queue.",
    (FIRST, ""),
)
_pool(
    "touch_leaves_in_queue",
    "A free block that is hit leaves the queue: yours is given to somebody else while it is read.",
    (LEAVE, ""),
)
_pool(
    "touch_takes_all_out",
    "Only a free block is in the queue: one that is in use already gets one user more, and no more.",
    (LEAVE, "            self.free.remove(block)\n"),
)
_pool(
    "touch_sets_one",
    "A hit is one user more, not one user: with a count of 1 the first who leaves frees it for all.",
    (MORE, "            self.users[block] = 1\n"),
)
_pool(
    "free_shared",
    "You free a block that another request still reads: one user less, and free only at 0.",
    (FEWER, "            self.users[block] = 0\n"),
)
_pool(
    "never_free_if_shared",
    "When its last user has left, a block is free: yours frees only blocks that have had a single one.",
    (FREE, "free = [block for block in blocks if not self.users[block] and len(blocks) and block not in self.shared]"),
    ("self.users = [0] * num_blocks\n", "self.users = [0] * num_blocks\n        self.shared = set()\n"),
    (MORE, MORE + "            if self.users[block] > 1:\n                self.shared.add(block)\n"),
)
_pool(
    "puts_all_back",
    "Only blocks without a user go back into the queue: yours puts back those that others still read.",
    (FREE, "free = [block for block in blocks if block not in self.free]"),
)

# ---- where the free ones go

_pool(
    "append_all_on_free",
    "A block without a key can't be hit again: it goes to the front, so that cached ones live longer (vLLM before the "
    "change appended all).",
    (BACK + FRONT, "        self.free.append_n(free)\n"),
    convention=True,
)
_pool(
    "prepend_all_on_free",
    "A block with a key goes to the back of the queue: in front it is the next one to be forgotten.",
    (BACK + FRONT, "        self.free.prepend_n(free)\n"),
)
_pool(
    "back_and_front_exchanged",
    "Those with a key go to the back, where they live long, and those without to the front; yours the other way round.",
    (BACK + FRONT, BACK.replace("is not None", "is None") + FRONT.replace("is None", "is not None")),
)
_pool(
    "front_one_by_one",
    "Several blocks without a key go to the front in the order given: one after the other, each before all, they come "
    "out reversed.",
    (
        FRONT,
        "        for block in free:\n            if self.key[block] is None:\n                self.free.prepend_n([block])\n",
    ),
)
_pool(
    "back_reversed",
    "Blocks with a key go to the back in the order given: who frees has put the end of its chain first.",
    (BACK, BACK.replace("in free if", "in reversed(free) if")),
)
_pool(
    "sorted_on_free",
    "The order in which blocks are freed is the order in which they are given away: don't sort them.",
    (FREE, "free = sorted(block for block in blocks if not self.users[block])"),
)
_pool(
    "unkeyed_leaks",
    "A block without a key is free as well: yours gets lost, one for each request that ends in the middle of a block.",
    (FRONT, ""),
)

# ---- what is in them

_pool(
    "stale_hash_map",
    "A block that is given away is still found under its old key: the next hit reads another request's keys and values.",
    (EVICT, ""),
)
_pool(
    "stale_key",
    "A block that is given away keeps its old key in your list, so it can never have a new one.",
    (TAKE_KEY, "key = self.key[block]"),
)
_pool(
    "forget_on_free",
    "Freed is not forgotten: a free block keeps its key until it is given away as a new one.",
    (BACK + FRONT, BACK + FRONT + "        for block in free:\n            self.forget(block)\n"),
)
_pool(
    "touch_forgets",
    "A hit keeps its key: it is used because of what is in it, and the next request may hit it too.",
    (
        LEAVE,
        "            if not self.users[block]:\n                self.free.remove(block)\n                self.forget(block)\n",
    ),
)
_pool(
    "last_of_several",
    "Of several blocks with one key the one that had it first counts; yours gives the newest.",
    (GET, "return next(reversed(self.found.get(key, {})), None)"),
)
_pool(
    "smallest_of_several",
    "Of several blocks with one key the one that had it first counts; yours gives the one with the smallest number.",
    (GET, "return min(self.found.get(key, ()), default=None)"),
)
_pool(
    "newest_only",
    "Two blocks may have one key: yours forgets the first when the second comes, though both hold it.",
    (CACHE, "self.found[key] = {block: None}"),
)
_pool(
    "first_only",
    "Two blocks may have one key: when the first is given away, the second must still be found.",
    (CACHE, "self.found.setdefault(key, {block: None})"),
    (DROP, "            self.found.get(key, {}).pop(block, None)\n"),
)
_pool(
    "all_of_a_key_forgotten",
    "Only the block that is given away loses its key: another one that has the same key keeps it.",
    (DROP, "            self.found.pop(key, None)\n"),
)
_pool(
    "only_those_in_use",
    "A key finds free blocks as well: most hits are what a request that has ended left behind.",
    (GET, "return next((block for block in self.found.get(key, ()) if self.users[block]), None)"),
)
_pool(
    "only_free_ones",
    "A key finds blocks in use as well: two requests that run at once share their beginning.",
    (GET, "return next((block for block in self.found.get(key, ()) if not self.users[block]), None)"),
)
_pool(
    "a_hit_is_not_found_again",
    "Finding a block takes nothing: its key stays, and the next request finds it too.",
    (GET, "return next(iter(self.found.pop(key, ())), None)"),
    (DROP, "            self.found.get(key, {}).pop(block, None)\n"),
)
_pool(
    "forget_frees",
    "forget() takes the key from a block and nothing else: its users still use it, and a free one keeps its place.",
    (
        TAKE_KEY,
        TAKE_KEY
        + "\n        if block in self.free:\n            self.free.remove(block)\n            self.free.prepend_n([block])",
    ),
)
