"""Known-wrong programs of level08.tree. `ghost` is given when this is read."""


def _mask(name, sentence, *change, **how):
    ghost("level08.tree.tree_mask", name, sentence, change=change, **how)


DEPTH = "depths.append(0 if parent == -1 else depths[parent] + 1)"
DEPTHS = "    return depths\n"
EYE = "mask = torch.eye(len(parents), dtype=torch.bool)"
IF = "        if parent != -1:\n"
ABOVE = "mask[node] |= mask[parent]"
MASK = "    return mask\n"

# ---- tree_depths

_mask(
    "index_as_position",
    "Siblings stand at the same place of the text: a node's depth, not its number, says where it is.",
    (DEPTH, "depths.append(len(depths))"),
)
_mask(
    "root_is_one",
    "The first drafted token stands right behind the text: its depth is 0.",
    (DEPTH, "depths.append(1 if parent == -1 else depths[parent] + 1)"),
)
_mask(
    "counts_children",
    "A depth is the number of nodes above, not of the children below.",
    (DEPTH, "depths.append(list(parents).count(len(depths)))"),
)
_mask(
    "counts_siblings",
    "Siblings stand side by side: a depth is the number of nodes above, not of those with the same parent.",
    (DEPTH, "depths.append(list(parents[: len(depths)]).count(parent))"),
)
_mask(
    "parent_plus_one",
    "One more than the parent's depth, not than the parent's number.",
    (DEPTH, "depths.append(parent + 1)"),
)
_mask(
    "depth_below_the_last_one",
    "The node before in the list need not be the parent: look the parent's depth up.",
    (DEPTH, "depths.append(0 if parent == -1 else depths[-1] + 1)"),
)
_mask(
    "two_levels",
    "A tree may have more than two levels: one more than the parent's depth.",
    (DEPTH, "depths.append(int(parent != -1))"),
)
_mask(
    "node_zero_is_the_text",
    "-1 is the text; node 0 is a drafted token like the others, and its children are one deeper.",
    (DEPTH, "depths.append(0 if parent <= 0 else depths[parent] + 1)"),
)
_mask(
    "depths_as_a_tensor",
    "A list of ints, as documented: callers add the length of the text to each.",
    (DEPTHS, "    return torch.tensor(depths)\n"),
)

# ---- tree_mask

_mask(
    "causal",
    "Siblings and cousins must not see each other: what comes before in the list need not stand above.",
    (ABOVE, "mask[node, :node] = True"),
    (IF, "        if node > 0:\n"),
)
_mask(
    "causal_below_the_first_level",
    "A node below another sees what stands above it, not all nodes with a smaller number.",
    (ABOVE, "mask[node, :node] = True"),
)
_mask(
    "parent_only",
    "A node sees all that stand above it, not only its parent: together they are its text.",
    (ABOVE, "mask[node, parent] = True"),
)
_mask(
    "grandparents_and_no_more",
    "All the way up: yours ends at the grandparent.",
    (ABOVE, "mask[node, parent] = True\n            mask[node, parents[parent]] |= parents[parent] != -1"),
)
_mask(
    "not_itself",
    "A token attends to itself as well: the diagonal is True.",
    (MASK, "    return mask & ~torch.eye(len(parents), dtype=torch.bool)\n"),
)
_mask(
    "ancestors_without_the_parent_s_self",
    "What the parent sees includes the parent: yours takes only what stands above it.",
    (ABOVE, "mask[node] |= mask[parent] & (torch.arange(len(parents)) != parent)"),
)
_mask(
    "descendants",
    "A node sees those above it; yours sees those below: the mask is transposed.",
    (MASK, "    return mask.T.contiguous()\n"),
)
_mask(
    "both_ways",
    "A token does not see what follows it, though that sees the token.",
    (MASK, "    return mask | mask.T\n"),
)
_mask(
    "siblings_see_each_other",
    "Siblings are alternatives for the same place: none is part of the other's text.",
    (MASK, "    own = torch.tensor(list(parents))\n    return mask | (own[:, None] == own)\n"),
)
_mask(
    "older_siblings_are_seen",
    "A sibling with a smaller number is another draft, not what comes before.",
    (MASK, "    own = torch.tensor(list(parents))\n    return mask | (own[:, None] == own).tril()\n"),
)
_mask(
    "all_of_the_same_depth_or_above",
    "Of the level above a node sees its own parent only: the others are other drafts.",
    (MASK, "    depths = torch.tensor(tree_depths(parents))\n"
     "    return (depths[:, None] > depths) | torch.eye(len(parents), dtype=torch.bool)\n"),
)  # fmt: skip
_mask(
    "minus_one_is_the_last_node",
    "Parent -1 is the text, not the last node: mask[-1] is another row.",
    (IF, "        if True:\n"),
)
_mask(
    "node_zero_has_no_children",
    "0 is a node like any other: only -1 is the text.",
    (IF, "        if parent > 0:\n"),
)
_mask(
    "true_is_hidden",
    "True = may attend, as in all of this project; yours says what is hidden.",
    (MASK, "    return ~mask\n"),
    convention=True,
)
_mask(
    "added_to_the_scores",
    "The mask is bool, True = may attend; yours is to be added to the scores.",
    (MASK, "    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)\n"),
    convention=True,
)
_mask(
    "integers",
    "The mask is bool: 1 and 0 would be taken as indices, or added.",
    (MASK, "    return mask.long()\n"),
)


def _walk(name, sentence, *change, **how):
    ghost("level08.tree.walk_tree", name, sentence, change=change, **how)


START = "at, wanted = -1, root_choice"
FOR = "    for node, parent in enumerate(parents):  # children come after their parents: once through is enough\n"
TEST = "if parent == at and tokens[node] == wanted:"
STEP = "at, wanted = node, choices[node]"
RETURN = "return path, wanted"

_walk(
    "first_child_only",
    "Any child may have the token that is wanted: yours looks at the first one only.",
    (TEST, "if parent == at and node == list(parents).index(at) and tokens[node] == wanted:"),
)
_walk(
    "any_node_with_the_token",
    "The next node must be a child of the last one: the same token elsewhere follows another text.",
    (TEST, "if tokens[node] == wanted:"),
)
_walk(
    "longest_branch",
    "Accept what the target chooses, not the longest draft.",
    (START, START + "\n    depths = tree_depths(parents)\n    ends, best = [[]], []\n"
     "    for node, parent in enumerate(parents):\n        ends.append([*ends[parent + 1], node])\n"
     "    best = max(ends, key=len)"),
    (RETURN, "return best, choices[best[-1]] if best else root_choice"),
)  # fmt: skip
_walk(
    "goes_on_from_the_text",
    "After an accepted node its own choice says what is wanted: yours keeps asking for the text's.",
    (STEP, "at = node"),
)
_walk(
    "choices_one_early",
    "choices[i] follows node i, and root_choice the text: choices do not begin with the root's.",
    (STEP, "at, wanted = node, [root_choice, *choices][node]"),
)
_walk(
    "choices_one_late",
    "choices[i] follows node i: yours takes that of the node after it.",
    (STEP, "at, wanted = node, [*choices, root_choice][node + 1]"),
)
_walk(
    "choices_by_depth",
    "choices has one for each node, not for each level: the next one is that of the accepted node.",
    (STEP, "at, wanted = node, choices[len(path) - 1]"),
)
_walk(
    "token_in_its_own_choice",
    "A node is judged by the choice after its parent, not by the one after itself.",
    (TEST, "if parent == at and tokens[node] == (wanted if at == -1 else choices[node]):"),
)
_walk(
    "one_node_only",
    "The way goes on below an accepted node.",
    (STEP, STEP + "\n            break"),
)
_walk(
    "children_must_be_neighbours",
    "A child may stand anywhere behind its parent: other nodes may come in between.",
    (TEST, "if parent == at and node <= at + list(parents).count(at) and tokens[node] == wanted:"),
)
_walk(
    "no_token_of_the_target",
    "The target's choice after the last accepted node is there already: a bonus, or the correction.",
    (RETURN, "return path, tokens[path[-1]] if path else root_choice"),
)
_walk(
    "the_root_s_choice_again",
    "What follows the path is the choice after its last node.",
    (RETURN, "return path, root_choice"),
)
_walk(
    "path_of_tokens",
    "The path is of nodes, not of tokens: their rows of the cache have to be found.",
    ("path.append(node)", "path.append(tokens[node])"),
)
_walk(
    "path_from_below",
    "The path goes from the top downwards, in the order of the text.",
    (RETURN, "return path[::-1], wanted"),
)
_walk(
    "path_with_the_text",
    "The path has the accepted nodes only: -1 is the text, which has no row of its own.",
    ("path: list[int] = []", "path: list[int] = [-1]"),
)
_walk(
    "every_accepted_token_in_any_order",
    "A node counts only if its parent is accepted: equal tokens below a rejected one followed another text.",
    (FOR, FOR + "        before = root_choice if parent == -1 else choices[parent]\n"),
    (TEST, "if tokens[node] == before:"),
)
_walk(
    "token_zero_is_none",
    "Token 0 is a token like any other.",
    (TEST, "if wanted and parent == at and tokens[node] == wanted:"),
)

# ---- compact_rows

KEPT = "kept = [*range(start), *(start + node for node in path)]"
ROWS = "return rows[:, :, kept]"

_walk(
    "first_rows",
    "The accepted path is scattered between rejected siblings: pick its rows, do not cut off the end.",
    (KEPT, "kept = list(range(start + len(path)))"),
)
_walk(
    "start_forgotten",
    "Node i lies in row start + i.",
    (KEPT, "kept = [*range(start), *path]"),
)
_walk(
    "text_dropped",
    "The text's rows stay: the path follows them.",
    (KEPT, "kept = [start + node for node in path]"),
)
_walk(
    "path_dropped",
    "The accepted nodes have been run: their rows stay behind the text's.",
    (KEPT, "kept = list(range(start))"),
)
_walk(
    "one_row_late",
    "Node 0 is the row right behind the text: start + 0.",
    (KEPT, "kept = [*range(start), *(start + 1 + node for node in path if start + 1 + node < rows.shape[2])]"),
)
_walk(
    "one_row_of_text_less",
    "All `start` tokens of the text stay.",
    (KEPT, "kept = [*range(start - 1), *(start + node for node in path)]"),
)
_walk(
    "up_to_the_last_accepted",
    "Rejected nodes before the last accepted one go as well.",
    (KEPT, "kept = list(range(start + (path[-1] + 1 if path else 0)))"),
)
_walk(
    "along_the_heads",
    "Tokens are axis 2 of (B, G, tokens, D).",
    (ROWS, "return rows[:, kept]"),
)
_walk(
    "in_place",
    "The rows stay as they are: the result is another tensor. Level 02's buffer may still be read.",
    (ROWS, "rows[:, :, : len(kept)] = rows[:, :, kept]\n    return rows[:, :, : len(kept)]"),
)
_walk(
    "rejected_rows_zeroed",
    "Rows of rejected nodes go; set to zero they are still attended to, with a score of 0.",
    (ROWS, "gone = torch.ones(rows.shape[2], dtype=torch.bool)\n    gone[kept] = False\n"
     "    return rows.masked_fill(gone[:, None], 0)"),
)  # fmt: skip
_walk(
    "by_a_product",
    "Rows are moved, nothing is computed: 0 times NaN is NaN, and a rejected row may hold it.",
    (ROWS, "return torch.eye(rows.shape[2], dtype=rows.dtype)[kept] @ rows"),
)
