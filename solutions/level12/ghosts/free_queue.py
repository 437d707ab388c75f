"""Known-wrong programs of level12.free_queue. `ghost` is given when this is read."""


def _queue(name, sentence, *change, **how):
    ghost("level12.free_queue.FreeQueue", name, sentence, change=change, **how)


FRONT = "block = self.behind[END]\n"
REMOVE = "self.behind[before], self.before[behind] = behind, before"
APPEND = "        for block in ids:\n            self._link(self.before[END], block, END)"
PREPEND = "        for block in reversed(ids):\n            self._link(END, block, self.behind[END])"
LINK = "self.behind[before] = self.before[behind] = block"
LENGTH = "return len(self.behind) - 1"

_queue(
    "lifo_pop",
    "popleft takes the block in front, the one that has been free for longest; yours takes the newest, whose contents "
    "somebody may still want.",
    (FRONT, "block = self.before[END]\n"),
)
_queue(
    "looks_only",
    "popleft takes the block out of the queue; yours only looks at it, and gives it to two owners.",
    ("        self.remove(block)\n        return block", "        return block"),
)
_queue(
    "prepend_reversed",
    "prepend_n keeps the order that it is given: ids[0] is then in front. One after the other, each before all, they "
    "come out reversed.",
    (PREPEND, PREPEND.replace("reversed(ids)", "ids")),
)
_queue(
    "append_reversed",
    "append_n keeps the order that it is given: the last of the ids is the last in the queue.",
    (APPEND, APPEND.replace("in ids", "in reversed(ids)")),
)
_queue(
    "appends_in_front",
    "append_n puts blocks behind all others; yours puts them in front, where they are given away first.",
    (APPEND, APPEND.replace("self.before[END], block, END", "END, block, self.behind[END]")),
)
_queue(
    "prepends_behind",
    "prepend_n puts blocks before all others; yours puts them at the end.",
    (PREPEND, PREPEND.replace("END, block, self.behind[END]", "self.before[END], block, END")),
)
_queue(
    "remove_forgets_the_way_back",
    "When a block leaves, its neighbours become each other's, in both directions: the one behind still points back to "
    "it in yours.",
    (REMOVE, "self.behind[before] = behind"),
)
_queue(
    "remove_forgets_the_way_on",
    "When a block leaves, its neighbours become each other's, in both directions: the one before still points to it "
    "in yours.",
    (REMOVE, "self.before[behind] = before"),
)
_queue(
    "link_forgets_the_way_back",
    "A new block has four links: the one behind it must point back to it, or the next one to be appended takes its place.",
    (LINK, "self.behind[before] = block"),
)
_queue(
    "counts_the_end",
    "The sentinel is no block: do not count it.",
    (LENGTH, "return len(self.behind)"),
)
_queue(
    "ids_without_the_last",
    "ids() gives all blocks in order, the last one too.",
    ("return found[:-1]", "return found[:-2]"),
)
_queue(
    "ids_backwards",
    "ids() begins with the block in front; yours begins at the end.",
    ("return found[:-1]", "return found[-2::-1]"),
)

# ---- other ways to keep an order: the whole class is changed

WAYS = {
    "init": "self.before, self.behind = {END: END}, {END: END}",
    "len": LENGTH,
    "contains": "return block in self.behind",
    "popleft": "block = self.behind[END]\n        self.remove(block)\n        return block",
    "remove": "before, behind = self.before.pop(block), self.behind.pop(block)\n        " + REMOVE,
    "append_n": APPEND,
    "prepend_n": PREPEND,
    "ids": "found = [self.behind[END]]\n        while found[-1] is not END:\n"
    "            found.append(self.behind[found[-1]])\n        return found[:-1]",
}
DEQUE = {
    "init": "from collections import deque\n\n        self.row = deque()",
    "len": "return len(self.row)",
    "contains": "return block in self.row",
    "popleft": "return self.row.popleft()",
    "remove": "self.row.remove(block)",
    "append_n": "        self.row.extend(ids)",
    "prepend_n": "        self.row.extendleft(reversed(ids))",
    "ids": "return list(self.row)",
}
SET = DEQUE | {
    "init": DEQUE["init"] + "\n        self.there = set()",
    "len": "return len(self.there)",
    "contains": "return block in self.there",
    "popleft": "block = self.row.popleft()\n        self.there.discard(block)\n        return block",
    "remove": "self.row.remove(block)\n        self.there.discard(block)",
    "append_n": DEQUE["append_n"] + "\n        self.there.update(ids)",
    "prepend_n": DEQUE["prepend_n"] + "\n        self.there.update(ids)",
}


def _other(name, sentence, way, **changes):
    way = way | changes
    _queue(name, sentence, *[(WAYS[method], way[method]) for method in WAYS])


_other(
    "searches_a_deque",
    "deque.remove looks at every block before the one it wants: of 25,720 blocks a hit of 60 makes 1.5 million looks. "
    "Link the blocks.",
    DEQUE,
)
_other(
    "deque_and_set",
    "The set says at once whether a block is there, but deque.remove still goes through the queue to find it.",
    SET,
)
_other(
    "lazy_remove",
    "A removed block comes out of popleft: one that has a reader is given to somebody else. Take it out of the order.",
    SET,
    remove="self.there.discard(block)",
)
_other(
    "old_place_comes_back",
    "A block that was only marked as removed, and is added again, has two places in your queue: the old one counts again.",
    SET,
    remove="self.there.discard(block)",
    popleft="while (block := self.row.popleft()) not in self.there:\n            pass\n"
    "        self.there.discard(block)\n        return block",
    ids="return [block for block in dict.fromkeys(self.row) if block in self.there]",
)
_other(
    "last_one_fills_the_gap",
    "Moving the last block into the gap is fast, but it jumps ahead of all others: the order is what is forgotten first.",
    DEQUE,
    remove="at, last = self.row.index(block), self.row.pop()\n"
    "        if at < len(self.row):\n            self.row[at] = last",
)
_other(
    "smallest_first",
    "The blocks come in the order in which they were put in; yours come by their ids.",
    DEQUE,
    popleft="block = min(self.row)\n        self.row.remove(block)\n        return block",
    ids="return sorted(self.row)",
)
_queue(
    "makes_a_new_dict",
    "A dict has an order, but only new entries at its end: yours copies all of them to put one in front.",
    *[
        (WAYS[method], new)
        for method, new in {
            "init": "self.row = {}",
            "len": "return len(self.row)",
            "contains": "return block in self.row",
            "popleft": "block = next(iter(self.row))\n        del self.row[block]\n        return block",
            "remove": "del self.row[block]",
            "append_n": "        self.row.update(dict.fromkeys(ids))",
            "prepend_n": "        self.row = dict.fromkeys(ids) | self.row",
            "ids": "return list(self.row)",
        }.items()
    ],
)
_queue(
    "counts_by_walking",
    "len() is asked before each allocation: yours goes through the whole queue to count it.",
    (LENGTH, "return len(self.ids())"),
)
_queue(
    "looks_through_all",
    "Whether a block is there is one look into a dict: yours makes a list of the whole queue first.",
    (WAYS["contains"], "return block in self.ids()"),
)
