"""Judges tree.py by chains: a node of a tree is the end of one draft, which can be run alone. On small trees every one
that there is. At the end of the file the loop of branches.py runs on these functions, against greedy decoding."""

import random
from itertools import product

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level01.simple_cache import SimpleCache
from level08.branches import TreeCache, speculate_tree
from level08.tree import compact_rows, tree_depths, tree_mask, walk_tree

EXACT = {"rel": 0, "abs": 0}


def every_tree(n):
    """All lists of n parents: -1 or a node with a smaller number."""
    return [list(parents) for parents in product(*(range(-1, node) for node in range(n)))]


def chain(parents, node):
    """Oracle: the nodes from the top down to this one."""
    return [*chain(parents, parents[node]), node] if node >= 0 else []


TREES = [
    [-1, -1, 0, 0, 2, 1],
    [-1, 0, 1, 1],
    [-1],
    [-1, -1, -1],
    [-1, 0, 1, 2, 3],
    [-1, 0, 0, 1, 2, 3, 4, 4, 7],
    [-1, -1, 1, 0, 3, 2, 4],
    (-1, 0, -1, 2),
]

# ---- tree_depths, judged with tree_mask


@pytest.mark.kata("level08.tree.tree_mask")
@pytest.mark.parametrize(
    "parents, right",
    [
        ([-1, -1, 0, 0, 2, 1], [0, 0, 1, 1, 2, 1]),
        ([-1], [0]),
        ([-1, 0, 1, 1], [0, 1, 2, 2]),
        ([-1, -1, -1], [0, 0, 0]),
        ([-1, 0, 0, 1, 2, 3, -1, 6], [0, 1, 1, 2, 2, 3, 0, 1]),
        ((-1, 0), [0, 1]),
        ([], []),
    ],
    ids=str,
)
def test_a_depth_is_the_number_of_nodes_above(expect, parents, right):
    """By hand. Siblings stand at the same place of the text, whatever their numbers: it decides their rotation (RoPE),
    and the first drafted token stands right behind the text."""
    expect(tree_depths, parents).equals(right)


@pytest.mark.kata("level08.tree.tree_mask")
def test_every_small_tree_has_its_depths(expect):
    """Oracle: the chain from the top, counted. All 153 trees of up to 5 nodes, and some of 40."""
    draw = random.Random(0)
    larger = [[draw.randrange(-1, node) for node in range(40)] for _ in range(5)]
    for parents in [*(tree for n in range(6) for tree in every_tree(n)), *larger]:
        expect(tree_depths, parents).equals([len(chain(parents, node)) - 1 for node in range(len(parents))])


@pytest.mark.kata("level08.tree.tree_mask")
@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, 2, 0], [-2], [-1, 0, -2], [-1, 0, 1, 3]], ids=str)
def test_a_parent_comes_before_its_child(expect, parents):
    """Nobody stands above himself, and -2 is not the second to last node."""
    expect(tree_depths, [-1, 0]).equals([0, 1])
    expect(tree_depths, parents).raises(ValueError)
    expect(tree_mask, [-1]).equals(torch.tensor([[True]]))
    expect(tree_mask, parents).raises(ValueError)


# ---- tree_mask


@pytest.mark.kata("level08.tree.tree_mask")
@pytest.mark.parametrize(
    "parents, right",
    [
        ([-1, -1, 0], [[1, 0, 0], [0, 1, 0], [1, 0, 1]]),
        ([-1, 0, 1], [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
        ([-1], [[1]]),
        ([-1, -1], [[1, 0], [0, 1]]),
        ([-1, 0, 0], [[1, 0, 0], [1, 1, 0], [1, 0, 1]]),
        ([-1, -1, 1, 2], [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]),
        ((-1, 0), [[1, 0], [1, 1]]),
    ],
    ids=str,
)
def test_a_node_sees_itself_and_what_stands_above(expect, parents, right):
    """By hand. A cousin is a token that stands nowhere in this node's text, and grandparents are part of it."""
    expect(tree_mask, parents).equals(torch.tensor(right, dtype=torch.bool))


@pytest.mark.kata("level08.tree.tree_mask")
def test_no_nodes_have_an_empty_mask(expect):
    """A round without a draft is a tree of none: the mask is joined to that of the text, so it has two axes."""
    expect(tree_mask, []).equals(torch.zeros(0, 0, dtype=torch.bool))


@pytest.mark.kata("level08.tree.tree_mask")
def test_every_small_tree_has_its_mask(expect):
    """Oracle: the chains. All trees of up to 5 nodes, and some of 40."""
    draw = random.Random(1)
    larger = [[draw.randrange(-1, node) for node in range(40)] for _ in range(5)]
    for parents in [*(tree for n in range(1, 6) for tree in every_tree(n)), *larger]:
        n = len(parents)
        seen = [[other in chain(parents, node) for other in range(n)] for node in range(n)]
        expect(tree_mask, parents).equals(torch.tensor(seen))


MODEL = Config(2, 16, 4, 2, 6, 24, vocab_size=53, max_seq_len=64, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=3)
CLOSE = {"rel": 1e-4, "abs": 1e-4}  # another order of additions; a node too many or too few is 0.1 and more
TEXT = [5, 9, 11, 2]


def in_one_pass(parents, tokens):
    """Logits (n, vocab) after each node: the tree behind a text that the cache holds."""
    cache, n = SimpleCache(MODEL.n_layers), len(parents)
    forward(PARAMS, MODEL, torch.tensor([TEXT]), cache)
    mask = torch.cat([torch.ones(n, len(TEXT), dtype=torch.bool), tree_mask(parents)], 1)
    positions = torch.tensor([len(TEXT) + depth for depth in tree_depths(parents)])
    return forward(PARAMS, MODEL, torch.tensor([tokens]), cache, positions=positions, mask=mask)[0]


@pytest.mark.kata("level08.tree.tree_mask")
@pytest.mark.parametrize("parents", TREES, ids=str)
def test_a_tree_in_one_pass_is_each_chain_alone(expect, parents):
    """What a tree is worth: all drafts in one read of the weights, each as if there were no other. Oracle: level 00's
    forward over the text and the chain."""
    tokens = [(17 * i + 3) % 53 for i in range(len(parents))]
    chains = [[*TEXT, *(tokens[i] for i in chain(parents, node))] for node in range(len(parents))]
    right = torch.stack([forward(PARAMS, MODEL, torch.tensor([text]))[0, -1] for text in chains])
    expect(in_one_pass, parents, tokens).equals(right, **CLOSE)


# ---- walk_tree


@pytest.mark.kata("level08.tree.walk_tree")
@pytest.mark.parametrize(
    "case, right",
    [
        (([-1, -1, 1], [7, 8, 9], 8, [0, 9, 4]), ([1, 2], 4)),
        (([-1, -1, 0, 0, 2], [7, 8, 9, 10, 11], 7, [9, 0, 11, 0, 5]), ([0, 2, 4], 5)),
        (([-1, -1], [7, 8], 3, [0, 0]), ([], 3)),
        (([-1, -1, 0, 1], [7, 8, 9, 9], 8, [9, 9, 1, 2]), ([1, 3], 2)),
        (([-1, -1, 1], [7, 8, 9], 7, [5, 9, 4]), ([0], 5)),
        (([-1, 0, 1], [7, 8, 9], 7, [3, 9, 4]), ([0], 3)),
        (([-1, 0, 1], [7, 8, 9], 8, [8, 9, 4]), ([], 8)),
        (([-1, 0, 1], [7, 7, 7], 7, [7, 7, 7]), ([0, 1, 2], 7)),
        (([-1, -1, 0, 1, 2], [7, 8, 8, 7, 7], 7, [8, 7, 7, 8, 6]), ([0, 2, 4], 6)),
        (([], [], 6, []), ([], 6)),
        (([-1], [0], 0, [0]), ([0], 0)),
        (([-1, -1, -1, 2, 1, 0], [1, 2, 3, 4, 4, 4], 2, [0, 4, 0, 0, 9, 0]), ([1, 4], 9)),
    ],
    ids=str,
)
def test_the_target_leads_the_way(expect, case, right):
    """By hand. A node counts if the target wants its token after its own parent, and all above it were wanted. The
    target's choice behind the last one is there already: a bonus, or the correction."""
    expect(walk_tree, *case).equals(right)


def by_chains(parents, tokens, root_choice, choices):
    """Oracle: of the chains whose every token was wanted, the longest; and what is wanted after it."""
    best = []
    for node in range(len(parents)):
        path = chain(parents, node)
        wanted = [root_choice, *(choices[i] for i in path)]
        if all(tokens[i] == token for i, token in zip(path, wanted)) and len(path) > len(best):
            best = path
    return best, choices[best[-1]] if best else root_choice


def first_wrong(cases):
    """{} when walk_tree is right in all cases; else the first case in which it is not, and both results."""
    for case in cases:
        path, token = walk_tree(*case)
        if (list(path), token) != by_chains(*case):
            return {"case": case, "yours": (path, token), "right": by_chains(*case)}
    return {}


def siblings_differ(parents, tokens):
    return len(set(zip(parents, tokens))) == len(tokens)


@pytest.mark.kata("level08.tree.walk_tree")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_every_small_tree_every_choice(expect, n):
    """Oracle: all chains, each asked whether all of it was wanted. Any tokens of 0, 1 and 2, and any choices."""
    for parents in every_tree(n):
        nodes = [list(tokens) for tokens in product(range(3), repeat=n) if siblings_differ(parents, tokens)]
        choices = list(product(range(2 if n == 3 else 3), repeat=n + 1))
        expect(
            first_wrong, [(parents, tokens, root, list(rest)) for tokens in nodes for root, *rest in choices]
        ).equals({})


@pytest.mark.kata("level08.tree.walk_tree")
def test_larger_trees(expect):
    """Oracle: as above. 30 nodes of 4 tokens, in any order that has parents first; most choices are some child's."""
    draw, cases = random.Random(2), []
    while len(cases) < 60:
        nodes = []
        while len(nodes) < 30:
            node = draw.randrange(-1, len(nodes)), draw.randrange(4)
            nodes += [node] * (node not in nodes)
        children = [[token for parent, token in nodes if parent == i] or [3] for i in range(-1, 30)]
        root, *choices = (draw.choice(tokens) if draw.random() < 0.9 else 0 for tokens in children)
        cases.append(([parent for parent, _ in nodes], [token for _, token in nodes], root, choices))
    assert max(len(by_chains(*case)[0]) for case in cases) > 5
    expect(first_wrong, cases).equals({})


@pytest.mark.kata("level08.tree.walk_tree")
def test_tuples_are_trees_too(expect):
    """The path is a list, whatever the tree was."""
    expect(walk_tree, (-1, -1, 1), (7, 8, 9), 8, (0, 9, 4)).equals(([1, 2], 4))


@pytest.mark.kata("level08.tree.walk_tree")
def test_what_does_not_fit_together_is_refused(expect):
    """A choice too few is one of another position; a parent behind its child is no tree."""
    expect(walk_tree, [-1, 0], [7, 8], 7, [8, 1]).equals(([0, 1], 1))
    for case in (([-1, 0], [7], 7, [8, 1]), ([-1, 0], [7, 8], 7, [8]), ([-1], [7, 8], 7, [8, 1]), ([], [], 7, [1])):
        expect(walk_tree, *case).raises(ValueError)
    for parents in ([0, 0], [-1, 1], [-2, 0]):
        expect(walk_tree, parents, [7, 8], 7, [8, 1]).raises(ValueError)


# ---- compact_rows, judged with walk_tree


def rows_of(n, B=1, G=1, D=1, dtype=torch.float32):
    """(B, G, n, D): all numbers different, and with one head of one feature row i is [i]."""
    return torch.arange(B * G * n * D).view(B, G, n, D).to(dtype)


@pytest.mark.kata("level08.tree.walk_tree")
@pytest.mark.parametrize(
    "n, start, path, right",
    [
        (6, 2, [0, 2], [0, 1, 2, 4]),
        (4, 2, [], [0, 1]),
        (3, 0, [2], [2]),
        (9, 3, [1, 2, 5], [0, 1, 2, 4, 5, 8]),
        (5, 2, [0, 1, 2], [0, 1, 2, 3, 4]),
        (3, 3, [], [0, 1, 2]),
        (5, 1, [3], [0, 4]),
        (2, 0, [], []),
        (6, 2, (1, 3), [0, 1, 3, 5]),
    ],
    ids=str,
)
def test_the_accepted_nodes_follow_the_text(expect, n, start, path, right):
    """By hand: node i is row start + i. Rejected siblings lie in between, so cutting off the end would keep them."""
    expect(compact_rows, rows_of(n), start, path).equals(
        torch.tensor(right, dtype=torch.float32).view(1, 1, -1, 1), **EXACT
    )


@pytest.mark.kata("level08.tree.walk_tree")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_all_heads_and_rows_of_a_batch(expect, dtype):
    """No two axes have the same size. What goes is NaN, and nothing is computed: the rows are the old ones bit for bit,
    and the cache that they come from stays as it is."""
    whole = rows_of(7, B=2, G=3, D=5, dtype=dtype)
    for start, path in ((3, [0, 2]), (0, [1, 4, 6]), (6, []), (1, [5])):
        kept = [*range(start), *(start + node for node in path)]
        rows = torch.full_like(whole, torch.nan)
        rows[:, :, kept] = whole[:, :, kept]
        right = torch.stack([whole[:, :, row] for row in kept], 2)
        expect(compact_rows, rows, start, path).equals(right, **EXACT)


@pytest.mark.kata("level08.tree.walk_tree")
def test_a_view_of_a_cache(expect):
    """Level 02's cache hands out the front of a longer buffer: rows behind it are not the tree's."""
    buffer = torch.full((1, 2, 12, 3), torch.nan)
    buffer[:, :, :7] = rows_of(7, 1, 2, 3)

    def of_the_front(buffer, n, start, path):
        return compact_rows(buffer[:, :, :n], start, path)

    expect(of_the_front, buffer, 7, 4, [0, 2]).equals(rows_of(7, 1, 2, 3)[:, :, [0, 1, 2, 3, 4, 6]], **EXACT)


# ---- the loop of branches.py, which runs on all of these


def greedy(prompt, n):
    """Oracle: the n most likely next tokens, each from a pass over the whole, without a cache."""
    text = list(prompt)
    for _ in range(n):
        best, second = forward(PARAMS, MODEL, torch.tensor([text]))[0, -1].topk(2)[0]
        assert best - second > 1e-3, "too close to call"
        text.append(int(forward(PARAMS, MODEL, torch.tensor([text]))[0, -1].argmax()))
    return text[len(prompt) :]


def several(prompt, truth, names):
    """propose: the drafts named, each of k tokens."""

    def propose(tokens, k):
        at = len(tokens) - len(prompt)
        right = truth[at : at + k]
        drafts = {
            "right": right,
            "wrong": [(token + 1) % 53 for token in right],
            "wrong at the end": [*right[: k // 2], *((token + 1) % 53 for token in right[k // 2 :])],
            "one": right[:1],
            "nothing": [],
        }
        return [drafts[name] for name in names]

    return propose


FORESTS = {
    ("right",): [4, 4, 4],
    ("wrong", "right"): [4, 4, 4],
    ("wrong at the end", "right", "wrong"): [4, 4, 4],
    ("wrong", "wrong at the end"): [2, 2, 2, 2, 2, 1, 1],
    ("one", "wrong", "nothing"): [2, 2, 2, 2, 2, 2],
    ("wrong",): [1] * 12,
    (): [1] * 12,
}


@pytest.mark.kata("level08.tree.walk_tree")
@pytest.mark.parametrize("names", FORESTS, ids=str)
def test_several_drafts_in_one_pass_change_no_token(expect, names):
    """12 tokens, drafts of up to 3: the output is greedy decoding's, and a round has as many tokens as the best draft
    of its tree allows. By hand: all of one right is 3 + 1 in a round, 1 of 3 is 1 + 1, none is 1. Where 2 tokens are to
    go, 1 is drafted, and it is the wrong end."""

    def tokens_of_each_round(names, prompt, n, gamma):
        propose = several(prompt, greedy(prompt, n + gamma), names)
        return [each.tokens for each in speculate_tree(PARAMS, MODEL, prompt, n, propose, gamma)]

    expect(walk_tree, [-1], [7], 7, [3]).equals(([0], 3))
    truth, right = greedy(TEXT, 12), []
    for size in FORESTS[names]:
        right.append(truth[sum(map(len, right)) :][:size])
    expect(tokens_of_each_round, names, TEXT, 12, 3).equals(right)


@pytest.mark.kata("level08.tree.walk_tree")
def test_the_cache_of_a_tree_is_that_of_the_text(expect):
    """A path in the middle of the tree, nodes 1 and 3 of 5: what is left is what a pass over text and path leaves. The
    next token sees nothing else."""

    def after(parents, tokens, root_choice, choices):
        cache = TreeCache(MODEL.n_layers)
        forward(PARAMS, MODEL, torch.tensor([TEXT]), cache)
        mask = torch.tensor([[j in chain(parents, i) for j in range(5)] for i in range(5)])
        mask = torch.cat([torch.ones(5, len(TEXT), dtype=torch.bool), mask], 1)
        positions = torch.tensor([len(TEXT) + len(chain(parents, node)) - 1 for node in range(5)])
        forward(PARAMS, MODEL, torch.tensor([tokens]), cache, positions=positions, mask=mask)
        path, token = walk_tree(parents, tokens, root_choice, choices)
        cache.keep(len(TEXT), path)
        return cache.length, forward(PARAMS, MODEL, torch.tensor([[token]]), cache)[0]

    tree = [-1, -1, 0, 1, 1], [7, 8, 9, 10, 11], 8, [9, 10, 0, 30, 0]
    right = 6, forward(PARAMS, MODEL, torch.tensor([[*TEXT, 8, 10, 30]]))[0, -1:]
    expect(after, *tree).equals(right, **CLOSE)
