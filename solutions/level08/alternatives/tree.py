"""Right programs, written another way, for level08.tree. `alternative` is given when this is read."""

import torch


def _checked(parents):
    if any(not -1 <= parent < node for node, parent in enumerate(parents)):
        raise ValueError("a parent is -1 or a node with a smaller number")


def _depths_upwards(parents):
    """From each node up to the text, step by step."""
    _checked(parents)
    depths = []
    for node in range(len(parents)):
        depth = 0
        while (node := parents[node]) >= 0:
            depth += 1
        depths.append(depth)
    return depths


def _depths_by_level(parents):
    """All nodes of a level, then those of the next."""
    _checked(parents)
    depths, level, depth = [0] * len(parents), {-1}, 0
    while level:
        level = {node for node, parent in enumerate(parents) if parent in level}
        for node in level:
            depths[node] = depth
        depth += 1
    return depths


def _depths_of_the_mask(parents):
    """A node sees itself and those above: one more than its depth."""
    from level08.tree import tree_mask

    _checked(parents)
    return (tree_mask(parents).sum(1) - 1).tolist()


for program in (_depths_upwards, _depths_by_level, _depths_of_the_mask):
    alternative("level08.tree.tree_mask", program.__name__[1:], program=program, part="tree_depths")


def _upwards(parents):
    """From each node up to the text."""
    _checked(parents)
    mask = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node in range(len(parents)):
        at = node
        while at != -1:
            mask[node, at] = True
            at = parents[at]
    return mask


def _powers(parents):
    """(I + A)^n > 0, with A the matrix of parents: squared until nothing new is seen."""
    _checked(parents)
    n = len(parents)
    seen = torch.eye(n)
    for node, parent in enumerate(parents):
        if parent >= 0:
            seen[node, parent] = 1
    for _ in range(n.bit_length()):
        seen = (seen @ seen).clamp(max=1)
    return seen > 0


def _columns(parents):
    """Column by column: who sees this node? Itself, its children, and theirs."""
    _checked(parents)
    n = len(parents)
    mask = torch.zeros(n, n, dtype=torch.bool)
    for column in range(n):
        below = {column}
        for node in range(column + 1, n):
            if parents[node] in below:
                below.add(node)
        mask[list(below), column] = True
    return mask


def _paths(parents):
    """Sets of ancestors, then one tensor."""
    _checked(parents)
    above = []
    for node, parent in enumerate(parents):
        above.append({node} | (above[parent] if parent >= 0 else set()))
    rows = [[other in seen for other in range(len(parents))] for seen in above]
    return torch.tensor(rows, dtype=torch.bool).reshape(len(parents), len(parents))


for program in (_upwards, _powers, _columns, _paths):
    alternative("level08.tree.tree_mask", program.__name__[1:], program=program)


def _fitting(parents, tokens, choices):
    _checked(parents)
    if {len(tokens), len(choices)} != {len(parents)}:
        raise ValueError("as many tokens and choices as nodes")


def _children(parents, tokens, root_choice, choices):
    """A dict from (parent, token) to the node: follow it."""
    _fitting(parents, tokens, choices)
    child = {(parent, token): node for node, (parent, token) in enumerate(zip(parents, tokens))}
    path, token = [], root_choice
    at = child.get((-1, token))
    while at is not None:
        path.append(at)
        token = choices[at]
        at = child.get((at, token))
    return path, token


def _recursive(parents, tokens, root_choice, choices, at=-1):
    """The child that is wanted, and then the way from there."""
    _fitting(parents, tokens, choices)
    for node in range(at + 1, len(parents)):
        if parents[node] == at and tokens[node] == root_choice:
            below, token = _recursive(parents, tokens, choices[node], choices, node)
            return [node, *below], token
    return [], root_choice


def _deepest_accepted(parents, tokens, root_choice, choices):
    """Accepted or not, node by node; the way up from the last one that is."""
    _fitting(parents, tokens, choices)
    accepted = []
    for node, parent in enumerate(parents):
        wanted = root_choice if parent < 0 else choices[parent]
        accepted.append(tokens[node] == wanted and (parent < 0 or accepted[parent]))
    last = max((node for node in range(len(parents)) if accepted[node]), default=-1)
    path, at = [], last
    while at >= 0:
        path.insert(0, at)
        at = parents[at]
    return path, choices[last] if path else root_choice


for program in (_children, _recursive, _deepest_accepted):
    alternative("level08.tree.walk_tree", program.__name__[1:], program=program)


def _two_parts(rows, start, path):
    at = torch.tensor(list(path), dtype=torch.int64) + start
    return torch.cat([rows[:, :, :start], rows.index_select(2, at)], 2)


def _row_by_row(rows, start, path):
    result = rows.new_empty(*rows.shape[:2], start + len(path), rows.shape[3])
    result[..., :start, :] = rows[..., :start, :]
    for i, node in enumerate(path):
        result[..., start + i, :] = rows[..., start + node, :]
    return result


def _by_a_mask(rows, start, path):
    keep = torch.zeros(rows.shape[2], dtype=torch.bool)
    keep[:start] = True
    keep[[start + node for node in path]] = True
    return rows.transpose(0, 2)[keep].transpose(0, 2)


for program in (_two_parts, _row_by_row, _by_a_mask):
    alternative("level08.tree.walk_tree", program.__name__[1:], program=program, part="compact_rows")
