"""Known-wrong programs of level06.radix. `ghost` is given when this is read."""


def _tree(name, sentence, *change, **how):
    ghost("level06.radix.RadixTree", name, sentence, change=change, **how)


# num_tokens
START = "nodes, total = [self.root], 0"
TOTAL = "            total += len(node.tokens)\n"
BELOW = "nodes += node.children.values()"
SUM = "        return total\n"
# match
NEXT = "            node = node.children[token_ids[at]]\n"
COMMON = "common(node.tokens, token_ids[at:])"
STOP = "            if same < len(node.tokens):\n                break\n"
FOUND = "        return at\n"
# insert
CHILD = "            child = node.children[token_ids[at]]\n"
SAME = "same = common(child.tokens, token_ids[at:])"
SPLIT = "if same < len(child.tokens):"
UPPER = "upper = Node(child.tokens[:same], {child.tokens[same]: child})"
LINK = "                node.children[upper.tokens[0]] = upper\n"
CUT = "                child.tokens = child.tokens[same:]\n"
GO_ON = "                child = upper\n"
REST = "new = list(token_ids[at:])"
ADD = "node.children[new[0]] = Node(new)"
SAID = "return len(new)"

# ---- num_tokens
_tree(
    "counts_nodes",
    "num_tokens counts tokens, not nodes: a node has one or more of them.",
    TOTAL,
    "            total += 1\n",
)
_tree(
    "counts_nodes_below_the_root",
    "A node holds a list of tokens: num_tokens is the sum of their lengths, not the number of nodes below the root.",
    TOTAL,
    "            total += node is not self.root\n",
)
_tree("counts_the_root", "The root is empty: it is no token.", START, "nodes, total = [self.root], 1")
_tree(
    "counts_the_ends",
    "What is shared is kept as well: count all nodes, not only those that nothing comes after.",
    TOTAL,
    "            total += 0 if node.children else len(node.tokens)\n",
)
_tree(
    "counts_one_level",
    "The root's children have children too: num_tokens is the sum over all levels.",
    BELOW,
    "nodes += node.children.values() if node is self.root else []",
)
_tree(
    "counts_one_way",
    "A node may have several children: num_tokens is the sum over all of them, not over one way down.",
    BELOW,
    "nodes += list(node.children.values())[:1]",
)
_tree(
    "counts_the_longest_way",
    "num_tokens is all that is kept, not the longest sequence.",
    SUM,
    "        def longest(node):\n"
    "            return len(node.tokens) + max(map(longest, node.children.values()), default=0)\n\n"
    "        return longest(self.root)\n",
)
_tree(
    "counts_once_for_all",
    "num_tokens says what is there now: remembered from the first time, it is old after the next insert.",
    SUM,
    "        self.size = self.__dict__.get('size', total)\n        return self.size\n",
)
_tree(
    "counts_ids_once",
    "The same token behind another beginning is another one: its keys and values differ, and both are kept.",
    ("        nodes, total = [self.root], 0\n", "        nodes, seen = [self.root], set()\n"),
    (TOTAL, "            seen.update(node.tokens)\n"),
    (SUM, "        return len(seen)\n"),
)
_tree(
    "counts_all_that_came",
    "A shared beginning is kept once, so it counts once: num_tokens is less than the sum of all lengths.",
    (SUM, "        return self.__dict__.get('came', 0)\n"),
    (SAID, "self.came = self.__dict__.get('came', 0) + len(token_ids)\n        return len(new)"),
)
_tree(
    "counts_a_split_twice",
    "A split adds no tokens: what the upper node gets, the lower one loses.",
    (SUM, "        return self.__dict__.get('kept', 0)\n"),
    (CUT, "                self.kept += same\n" + CUT),
    (SAID, "self.kept = self.__dict__.get('kept', 0) + len(new)\n        return len(new)"),
)

# ---- match
_tree(
    "whole_nodes_only",
    "A match may end within a node: the tokens up to there are shared, whether or not anybody has split it there.",
    FOUND,
    "        return at if at == 0 or same == len(node.tokens) else at - same\n",
)
_tree(
    "first_token_is_enough",
    "The first token says which child to look at; its other tokens are still to be compared.",
    COMMON,
    "min(len(node.tokens), len(token_ids) - at)",
)
_tree(
    "goes_on_after_a_difference",
    "Where a node and the sequence differ the match has ended; below it only what agrees with the whole node is to be found.",
    STOP,
    "",
)
_tree(
    "counts_equal_places",
    "Only a beginning is shared: tokens that agree behind the first difference have other keys and values.",
    COMMON,
    "sum(x == y for x, y in zip(node.tokens, token_ids[at:]))",
)
_tree(
    "compares_from_the_start",
    "A node's tokens begin where those above it end: compare them with the sequence from `at` on.",
    COMMON,
    "common(node.tokens, token_ids)",
)
_tree("last_node_alone", "The match is the whole way, not its last node.", FOUND, "        return same if at else 0\n")
_tree(
    "counts_steps",
    "match counts tokens; yours counts the nodes on the way.",
    (NEXT, NEXT + "            steps = locals().get('steps', 0) + 1\n"),
    (FOUND, "        return steps if at else 0\n"),
)
_tree(
    "whole_sequences_only",
    "What is found need not be a whole sequence of those inserted: any beginning that it has in common counts.",
    FOUND,
    "        ends = self.__dict__.get('ends', set())\n"
    "        return max((n for n in range(at + 1) if tuple(token_ids[:n]) in ends), default=0)\n",
)
_tree(
    "all_or_nothing",
    "match says how far the sequence is known, not whether all of it is.",
    FOUND,
    "        return at if at == len(token_ids) else 0\n",
)
_tree(
    "leaves_one_token",
    "That one token is left to run is a matter for whoever uses the match; the tree says what is known, all of it.",
    FOUND,
    "        return min(at, max(0, len(token_ids) - 1))\n",
    convention=True,
)
_tree(
    "even_numbers",
    "Nodes are no blocks: a match may be of any length.",
    FOUND,
    "        return at - at % 2\n",
)
_tree(
    "match_inserts",
    "match only looks: what is asked for has no keys and values yet, and must not be found by the next.",
    FOUND,
    "        self.insert(token_ids)\n        return at\n",
)
_tree(
    "match_splits",
    "A match may cut a node in two, but nothing gets lost: the lower half keeps its tokens and children.",
    STOP,
    "            if same < len(node.tokens):\n                node.tokens = node.tokens[:same]\n                break\n",
)
_tree(
    "match_from_anywhere",
    "Only beginnings count: a sequence that occurs in the middle of another has other keys and values there.",
    "        node, at = self.root, 0\n        while at < len(token_ids) and token_ids[at] in node.children:\n" + NEXT,
    "        node, at = self.root, 0\n"
    "        nodes = [self.root]\n"
    "        while nodes and token_ids and token_ids[0] not in node.children:\n"
    "            node = nodes.pop()\n"
    "            nodes += node.children.values()\n"
    "        while at < len(token_ids) and token_ids[at] in node.children:\n" + NEXT,
)

# ---- insert: what it returns
_tree(
    "returns_the_length", "insert returns what is new; what the tree has already is not.", SAID, "return len(token_ids)"
)
_tree(
    "returns_the_length_of_a_new_one",
    "Of a new sequence only the rest is new: its beginning may be in the tree already.",
    SAID,
    "return len(token_ids) if new else 0",
)
_tree("returns_what_is_known", "insert returns how many tokens are new; yours, how many were known.", SAID, "return at")
_tree(
    "returns_num_tokens",
    "insert returns the new tokens of this call, not all of the tree.",
    SAID,
    "return self.num_tokens",
)
_tree("returns_nothing", "insert returns how many tokens are new: so much memory is needed.", SAID, "return None")
_tree(
    "returns_the_first_difference_only",
    "Up to where a node is split the tokens are known: new are only those behind it.",
    SAID,
    "return len(new) if node is self.root or len(node.children) != 2 else len(new) + len(node.tokens)",
)

# ---- insert: splitting
_tree(
    "no_split",
    "A sequence that leaves a node in its middle splits it; below the whole node it would go on with tokens that it has not.",
    "            if same < len(child.tokens):  # a new node above, with what both have in common\n"
    "                upper = Node(child.tokens[:same], {child.tokens[same]: child})\n" + LINK + CUT + GO_ON,
    "",
)
_tree(
    "loses_the_lower_half",
    "A split keeps both halves: the lower one, with the children, hangs below the upper one.",
    UPPER,
    "upper = Node(child.tokens[:same])",
)
_tree(
    "loses_the_children",
    "The lower half of a split keeps the children of the node.",
    UPPER,
    "upper = Node(child.tokens[:same], {child.tokens[same]: Node(child.tokens)})\n                child = upper.children[child.tokens[same]]",
)
_tree(
    "children_go_up",
    "The children of a split node come after all of its tokens: they belong to the lower half.",
    UPPER,
    "upper = Node(child.tokens[:same], {**child.children, child.tokens[same]: child})\n                child.children = {}",
)
_tree("lower_half_uncut", "After a split the lower half begins behind the upper one: its tokens are cut.", CUT, "")
_tree(
    "cut_one_too_late",
    "The lower half begins with the token at the split, which is not dropped.",
    CUT,
    "                child.tokens = child.tokens[same + 1 :] or child.tokens[same:]\n",
)
_tree(
    "upper_half_lost",
    "The parent must get the upper half in the node's place, or nobody comes to what hangs below it.",
    LINK,
    "",
)
_tree(
    "upper_half_in_the_root",
    "The upper half takes the node's place below its own parent, which need not be the root.",
    LINK,
    "                self.root.children[upper.tokens[0]] = upper\n",
)
_tree(
    "lower_half_by_the_first_token",
    "A child is found by its own first token: the lower half's is the one at the split.",
    UPPER,
    "upper = Node(child.tokens[:same], {child.tokens[0]: child})",
)
_tree(
    "goes_on_below",
    "What is new hangs below the upper half, beside the lower one, not behind it.",
    GO_ON,
    "",
)
_tree(
    "splits_below_only",
    "A node may be left in its middle at any depth: your split does nothing below the root's children.",
    SPLIT,
    "if same < len(child.tokens) and node is not self.root:\n                return len(token_ids) - at\n            if same < len(child.tokens):",
)
_tree(
    "ends_without_a_split",
    "A sequence that ends within a node is known whole; one that leaves it there later must still find the place.",
    SPLIT,
    "if at == len(token_ids) and same < len(child.tokens):\n                child.tokens = child.tokens[:same]\n            elif same < len(child.tokens):",
)

# ---- insert: what is added
_tree(
    "adds_all_tokens",
    "Below the node only what is behind it is added: the whole sequence would be there twice.",
    REST,
    "new = list(token_ids if len(token_ids) > at else [])",
)
_tree(
    "empty_rest",
    "Nothing may be left to add: the sequence is known, or empty, and an empty node has no first token.",
    "        if new:\n            node.children",
    "        if True:\n            node.children",
)
_tree(
    "drops_the_last",
    "The last token belongs to the sequence: its keys and values are kept as well.",
    REST,
    "new = list(token_ids[at:-1])",
)
_tree(
    "adds_one_token",
    "All tokens behind the place are new, not only the first.",
    REST,
    "new = list(token_ids[at : at + 1])",
)
_tree(
    "one_child_each",
    "A node may have several children: a new one does not replace the others.",
    ADD,
    "node.children = {new[0]: Node(new)}",
)
_tree(
    "forgets_the_old_tree",
    "Other sequences stay when one comes that has nothing in common with them.",
    ADD,
    "node.children[new[0]] = Node(new)\n            if not at:\n                self.root = Node([], {new[0]: Node(new)})",
)
_tree(
    "keeps_the_callers_list",
    "The tree needs tokens of its own: whoever goes on writing into the list that was inserted changes the tree.",
    REST,
    "new = token_ids[at:] if at else token_ids",
)
_tree(
    "uses_up_the_list",
    "The sequence belongs to the caller: insert reads it, and leaves it as it is.",
    SAID,
    "if isinstance(token_ids, list):\n            del token_ids[:at]\n        return len(new)",
)
_tree(
    "lists_alone",
    "A prompt may be a tuple, or any other sequence, as well as a list.",
    REST,
    "new = token_ids[at:] + []",
)
_tree(
    "new_by_its_length",
    "Of a sequence as long as one that is known the tokens may still be new.",
    REST,
    "new = list(token_ids[at:]) if len(token_ids) not in self.__dict__.setdefault('lengths', set()) else []\n        self.lengths.add(len(token_ids))",
)

# ---- both
_tree(
    "token_0_is_nothing",
    "0 is a token like any other: ask whether there is a child, not whether its token is true.",
    "        while at < len(token_ids) and token_ids[at] in node.children:\n" + CHILD,
    "        while at < len(token_ids) and token_ids[at] and token_ids[at] in node.children:\n" + CHILD,
)
_tree(
    "match_stops_at_token_0",
    "0 is a token like any other: a match goes on behind it.",
    "        while at < len(token_ids) and token_ids[at] in node.children:\n" + NEXT,
    "        while at < len(token_ids) and token_ids[at] and token_ids[at] in node.children:\n" + NEXT,
)
_tree(
    "same_object",
    "Equal ids may be two objects: compare with ==, for `is` holds by chance, for small numbers.",
    SAME,
    "same = next((i for i, (x, y) in enumerate(zip(child.tokens, token_ids[at:])) if x is not y), min(len(child.tokens), len(token_ids) - at))",
)


# ---- other structures
WALK = "        node, at = self.root, 0\n        while at < len(token_ids) and token_ids[at] in node.children:\n"
SIZE = f"        {START}\n        while nodes:\n            node = nodes.pop()\n{TOTAL}            {BELOW}\n{SUM}"
MATCH = f"{WALK}{NEXT}            same = {COMMON}\n            at += same\n{STOP}{FOUND}"
INSERT = f"{WALK}{CHILD}            {SAME}\n            at += same\n"


def _known(name, sentence, beginnings):
    """A set of what `beginnings` says of a sequence, one for each of its tokens."""
    _tree(
        name,
        sentence,
        ("        self.root = Node()\n", "        self.known = set()\n"),
        (SIZE, "        return len(self.known)\n"),
        (
            MATCH,
            f"        beginnings = {beginnings}\n"
            "        return next((n for n, begin in enumerate(beginnings) if begin not in self.known), len(beginnings))\n",
        ),
        (
            INSERT,
            f"        new = set({beginnings}) - self.known\n        self.known |= new\n        return len(new)\n{INSERT}",
        ),
    )


_known(
    "digits_joined",
    "1, 23 and 12, 3 are the same digits: compare numbers, or put something between them.",
    '["".join(map(str, token_ids[max(0, n - 30) : n + 1])) for n in range(len(token_ids))]',
)
_known(
    "bag_of_tokens",
    "A token is known only behind the same tokens: that it occurs somewhere does not count.",
    "list(token_ids)",
)
_known(
    "pairs_of_tokens",
    "The token before is not enough: what a position depends on is all tokens before it.",
    "[*zip([None, *token_ids], token_ids)]",
)
_known(
    "places_of_tokens",
    "Position and token are not enough: the tokens before it must be the same too.",
    "[*enumerate(token_ids)]",
)
_known(
    "sums_of_tokens",
    "A sum says nothing of the order: other tokens before it can have the same.",
    "[(n, sum(token_ids[:n]), token_ids[n]) for n in range(len(token_ids))]",
)
_known(
    "lengths_of_prompts",
    "Two sequences of the same length have nothing in common but that: compare their tokens.",
    "list(range(len(token_ids)))",
)
_tree(
    "last_one_only",
    "All sequences are kept, not only the one that came last.",
    INSERT,
    f"        at = self.match(token_ids)\n"
    "        self.root = Node([], {token_ids[0]: Node(list(token_ids))} if len(token_ids) else {})\n"
    f"        return len(token_ids) - at\n{INSERT}",
)
_tree(
    "longest_one_only",
    "Each sequence is kept, also one that is shorter than another.",
    INSERT,
    f"        if len(token_ids) <= max((len(child.tokens) for child in self.root.children.values()), default=0):\n"
    f"            return len(token_ids) - self.match(token_ids)\n{INSERT}",
)
_tree(
    "a_call_for_each_token",
    "A prompt has thousands of tokens, and Python's stack has room for a thousand calls: go down in a loop.",
    MATCH,
    "        def known(node, at, i):\n"
    "            if at == len(token_ids):\n"
    "                return at\n"
    "            if i < len(node.tokens):\n"
    "                return known(node, at + 1, i + 1) if node.tokens[i] == token_ids[at] else at\n"
    "            child = node.children.get(token_ids[at])\n"
    "            return known(child, at, 0) if child else at\n\n"
    "        return known(self.root, 0, 0)\n",
)
_tree(
    "blocks_of_tokens",
    "The tree works token by token: a beginning need not fill a block to be shared.",
    REST,
    "new = list(token_ids[at : at + (len(token_ids) - at) // 2 * 2])",
)
