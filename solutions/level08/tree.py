"""Several drafts in one pass: continuations that begin alike share their beginning, and none sees another.

A tree of n drafted tokens is a list `parents`: parents[i] is the node before node i, with a smaller number, or -1 where
node i follows the text itself. Letters in the shapes: B batch, G KV heads, D head_dim.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def tree_depths(parents: Sequence[int]) -> list[int]:
    """Return how many nodes stand above each node. The token of node i has the position (length of the text) + depth.

    Example: parents -1, -1, 0, 0, 2, 1 -> 0, 0, 1, 1, 2, 1. ValueError: a parent that does not come before its child.

    ● · about 3 lines · part of tree_mask
    """
    check_parents(parents)
    # solution:begin each one is one below its parent
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent == -1 else depths[parent] + 1)
    return depths
    # solution:end


def tree_mask(parents: Sequence[int]) -> Tensor:
    """Return which nodes each node may attend to, (n, n) bool, True = may: itself, and all that stand above it.

    Example: parents -1, -1, 0: nodes 0 and 1 see themselves, node 2 sees 0 and 2. A chain gives the causal mask.
    ValueError: a parent that does not come before its child. Tree attention: SpecInfer, arXiv 2305.09781.

    ●● · about 4 lines
    """
    check_parents(parents)
    # solution:begin what does a node see that its parent does not?
    mask = torch.eye(len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent != -1:
            mask[node] |= mask[parent]
    return mask
    # solution:end


def walk_tree(
    parents: Sequence[int], tokens: Sequence[int], root_choice: int, choices: Sequence[int]
) -> tuple[list[int], int]:
    """Return (path, token): the accepted nodes from the top downwards, and the target's choice that follows them.

    tokens       of the nodes; children of one node have different tokens
    root_choice  what the target chooses after the text, and choices[i] after node i

    A node is accepted if its token is the target's choice after its parent, and its parent is accepted.
    Example: parents -1, -1, 1, tokens 7, 8, 9, root_choice 8, choices 0, 9, 4: 8 is node 1, 9 is node 2 -> ([1, 2], 4).
    ValueError: lists of different lengths; a parent that does not come before its child.

    ●● · about 7 lines
    """
    check_parents(parents)
    if not len(parents) == len(tokens) == len(choices):
        raise ValueError(f"{len(parents)} nodes have as many tokens and choices, not {len(tokens)} and {len(choices)}")
    # solution:begin from the text downwards: which child has the token that the target wants?
    path: list[int] = []
    at, wanted = -1, root_choice
    for node, parent in enumerate(parents):  # children come after their parents: once through is enough
        if parent == at and tokens[node] == wanted:
            path.append(node)
            at, wanted = node, choices[node]
    return path, wanted
    # solution:end


def compact_rows(rows: Tensor, start: int, path: Sequence[int]) -> Tensor:
    """Return the keys (or values) of the text and of the accepted nodes, (B, G, start + len(path), D).

    rows   (B, G, start + n, D): `start` tokens of text, then the n nodes of a tree; stays as it is
    path   the accepted nodes, in the order in which they now follow the text

    Example: start 2 and nodes 0, 1, 2, 3, path 0, 2: rows 0, 1, 2 and 4 are left.

    ● · about 2 lines · part of walk_tree
    """
    # solution:begin in which rows are the nodes?
    kept = [*range(start), *(start + node for node in path)]
    return rows[:, :, kept]
    # solution:end


# ---- given


def check_parents(parents: Sequence[int]) -> None:
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"node {node} has parent {parent}: it is -1 (the text) or a node with a smaller number")
