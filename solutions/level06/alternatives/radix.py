"""Right programs, written another way, for level06.radix. `alternative` is given when this is read."""

from bisect import bisect_left
from collections import defaultdict


def _common(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


class _Trie:
    """A dict of dicts, a token each, and a count that grows."""

    def __init__(self):
        self._below, self._count = {}, 0

    num_tokens = property(lambda self: self._count)

    def match(self, token_ids):
        here = self._below
        for n, token in enumerate(token_ids):
            if token not in here:
                return n
            here = here[token]
        return len(token_ids)

    def insert(self, token_ids):
        here, new = self._below, 0
        for token in token_ids:
            new += token not in here
            here = here.setdefault(token, {})
        self._count += new
        return new


class _States:
    """An automaton: (state, token) -> the next state."""

    def __init__(self):
        self.steps = {}

    @property
    def num_tokens(self):
        return len(self.steps)

    def _follow(self, token_ids):
        state = 0
        for n, token in enumerate(token_ids):
            if (state, token) not in self.steps:
                return state, n
            state = self.steps[state, token]
        return state, len(token_ids)

    def match(self, token_ids):
        return self._follow(token_ids)[1]

    def insert(self, token_ids):
        state, n = self._follow(token_ids)
        for token in token_ids[n:]:
            self.steps[state, token] = len(self.steps) + 1
            state = len(self.steps)
        return len(token_ids) - n


class _Sorted:
    """No tree: the sequences in order, where the one with the most in common is a neighbour."""

    def __init__(self):
        self.all = []

    @property
    def num_tokens(self):
        return sum(len(ids) - _common(ids, before) for before, ids in zip([(), *self.all], self.all))

    def match(self, token_ids):
        token_ids = tuple(token_ids)
        place = bisect_left(self.all, token_ids)
        return max((_common(token_ids, ids) for ids in self.all[max(0, place - 1) : place + 1]), default=0)

    def insert(self, token_ids):
        token_ids = tuple(token_ids)
        known = self.match(token_ids)
        self.all.insert(bisect_left(self.all, token_ids), token_ids)
        return len(token_ids) - known


class _Scan:
    """No tree: each sequence is kept whole, and all are looked through."""

    def __init__(self):
        self.all, self.num_tokens = [], 0

    def match(self, token_ids):
        return max((_common(ids, token_ids) for ids in self.all), default=0)

    def insert(self, token_ids):
        new = len(token_ids) - self.match(token_ids)
        if new:
            self.all.append(tuple(token_ids))
        self.num_tokens += new
        return new


class _Recursive:
    """A radix tree with a call for each node; an edge is (tokens, tree), and edges are a list."""

    def __init__(self):
        self.edges = []

    @property
    def num_tokens(self):
        return sum(len(tokens) + tree.num_tokens for tokens, tree in self.edges)

    def match(self, token_ids):
        for tokens, tree in self.edges:
            if same := _common(tokens, token_ids):
                return same + (tree.match(token_ids[same:]) if same == len(tokens) else 0)
        return 0

    def insert(self, token_ids):
        for i, (tokens, tree) in enumerate(self.edges):
            if same := _common(tokens, token_ids):
                if same < len(tokens):
                    lower, tree = (tokens[same:], tree), type(self)()
                    tree.edges.append(lower)
                    self.edges[i] = tokens[:same], tree
                return tree.insert(token_ids[same:])
        if len(token_ids):
            self.edges.append((tuple(token_ids), type(self)()))
        return len(token_ids)


class _Spans:
    """A radix tree over one long row of tokens: a node is where its tokens begin and end in it."""

    def __init__(self):
        self.row, self.begin, self.end, self.next = [], [0], [0], defaultdict(dict)

    @property
    def num_tokens(self):
        return sum(self.end) - sum(self.begin)

    def _place(self, token_ids):
        """(node, how far in it, tokens known)"""
        node = inside = at = 0
        for at, token in enumerate(token_ids):
            if self.begin[node] + inside < self.end[node]:
                if self.row[self.begin[node] + inside] != token:
                    return node, inside, at
            elif token in self.next[node]:
                node, inside = self.next[node][token], 0
            else:
                return node, inside, at
            inside += 1
        return node, inside, len(token_ids)

    def match(self, token_ids):
        return self._place(token_ids)[2]

    def _node(self, begin, end):
        self.begin.append(begin)
        self.end.append(end)
        return len(self.begin) - 1

    def insert(self, token_ids):
        node, inside, at = self._place(token_ids)
        if at == len(token_ids):
            return 0  # a sequence that ends within a node needs no split
        cut = self.begin[node] + inside
        if cut < self.end[node]:
            lower = self._node(cut, self.end[node])
            self.next[lower], self.next[node] = self.next[node], {self.row[cut]: lower}
            self.end[node] = cut
        new = list(token_ids[at:])
        self.next[node][new[0]] = self._node(len(self.row), len(self.row) + len(new))
        self.row += new
        return len(new)


for program in (_Trie, _States, _Sorted, _Scan, _Recursive, _Spans):
    alternative("level06.radix.RadixTree", program.__name__[1:].lower(), program=program)

alternative(
    "level06.radix.RadixTree",
    "splits_at_the_end_only_where_needed",
    change=(
        "            if same < len(child.tokens):",
        "            if at == len(token_ids):\n                return 0\n            if same < len(child.tokens):",
    ),
)
alternative(
    "level06.radix.RadixTree",
    "splits_one_token_early",
    change=(
        "same = common(child.tokens, token_ids[at:])",
        "same = max(1, common(child.tokens, token_ids[at:]) - 1)",
    ),
)
alternative(
    "level06.radix.RadixTree",
    "keeps_a_count",
    change=[
        ("        self.root = Node()\n", "        self.root, self.count = Node(), 0\n"),
        (
            "        nodes, total = [self.root], 0\n",
            "        return self.count\n        nodes, total = [self.root], 0\n",
        ),
        ("return len(new)", "self.count += len(new)\n        return len(new)"),
    ],
)
alternative(
    "level06.radix.RadixTree",
    "insert_asks_match_first",
    change=(
        "        new = list(token_ids[at:])\n",
        "        assert at == self.match(token_ids)\n        new = [*token_ids][self.match(token_ids) :]\n",
    ),
)
