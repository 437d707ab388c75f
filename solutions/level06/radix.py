"""The same question by a tree: the longest known beginning, token by token instead of block by block (SGLang)."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Node:
    """Tokens on the way to this node, and where it goes on: the first token of each child -> child. Given."""

    tokens: list[int] = field(default_factory=list)
    children: dict[int, "Node"] = field(default_factory=dict)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class RadixTree:
    """All inserted sequences, each shared beginning kept once.

    match(token_ids)   number of tokens of the longest beginning that some inserted sequence has as well
    insert(token_ids)  adds a sequence and returns how many of its tokens are new to the tree
    num_tokens         tokens in the tree: what has to be kept of all sequences together

    No node but the root is empty, and a node's children begin with different tokens; a node is split where a sequence
    leaves it in the middle. Example: insert [1, 2, 3, 4] -> 4, insert [1, 2, 9] -> 1, match [1, 2, 3, 7] -> 3, and
    num_tokens is 5. SGLang, arXiv 2312.07104.

    ●●● · about 22 lines
    """

    def __init__(self):
        self.root = Node()

    @property
    def num_tokens(self) -> int:
        # solution:begin of all nodes
        nodes, total = [self.root], 0
        while nodes:
            node = nodes.pop()
            total += len(node.tokens)
            nodes += node.children.values()
        return total
        # solution:end

    def match(self, token_ids: Sequence[int]) -> int:
        # solution:begin from child to child, as long as whole nodes agree
        node, at = self.root, 0
        while at < len(token_ids) and token_ids[at] in node.children:
            node = node.children[token_ids[at]]
            same = common(node.tokens, token_ids[at:])
            at += same
            if same < len(node.tokens):
                break
        return at
        # solution:end

    def insert(self, token_ids: Sequence[int]) -> int:
        # solution:begin down as match goes; where does it leave the tree, and what becomes of the node there?
        node, at = self.root, 0
        while at < len(token_ids) and token_ids[at] in node.children:
            child = node.children[token_ids[at]]
            same = common(child.tokens, token_ids[at:])
            at += same
            if same < len(child.tokens):  # a new node above, with what both have in common
                upper = Node(child.tokens[:same], {child.tokens[same]: child})
                node.children[upper.tokens[0]] = upper
                child.tokens = child.tokens[same:]
                child = upper
            node = child
        new = list(token_ids[at:])
        if new:
            node.children[new[0]] = Node(new)
        return len(new)
        # solution:end
