"""The loop on trees: several drafts a round, checked in one pass. Given; it runs on `tree.py`."""

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward
from level01.generate import allowed_tokens

from .loop import Round
from .tree import compact_rows, tree_depths, tree_mask, walk_tree


class TreeCache:
    """Level 01's simplest cache, which can also let go of rows in the middle: keep(start, path)."""

    def __init__(self, n_layers: int):
        self.rows: list[tuple[Tensor, Tensor] | None] = [None] * n_layers

    @property
    def length(self) -> int:
        return 0 if self.rows[-1] is None else self.rows[-1][0].shape[2]

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.rows[layer] is not None:
            k, v = (torch.cat(pair, 2) for pair in zip(self.rows[layer], (k, v)))
        self.rows[layer] = k, v
        return k, v

    def keep(self, start: int, path: Sequence[int]) -> None:
        self.rows = [tuple(compact_rows(held, start, path) for held in pair) for pair in self.rows]


def merge_drafts(drafts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """(tokens, parents) of the tree of some drafts, in which common beginnings are there once."""
    tokens, parents, known = [], [], {}
    for draft in drafts:
        at = -1
        for token in draft:
            if (at, token) not in known:
                known[at, token] = len(tokens)
                tokens.append(token)
                parents.append(at)
            at = known[at, token]
    return tokens, parents


def speculate_tree(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    max_tokens: int,
    propose: Callable[[list[int], int], Sequence[Sequence[int]]],
    gamma: int,
    stop_ids: Collection[int] = (),
    *,
    forward: Callable = forward,
) -> Iterator[Round]:
    """As `speculate`, greedy, with propose(tokens, k) giving several drafts of up to k tokens each."""
    cache, tokens = TreeCache(config.n_layers), list(prompt)
    left = allowed_tokens(config, prompt, max_tokens)
    while left > 0:
        k = min(gamma, left - 1)
        nodes, parents = merge_drafts([draft[:k] for draft in propose(list(tokens), k)] if k else [])
        rows = tree_pass(params, config, tokens, nodes, parents, cache, forward)
        root, *choices = rows.argmax(-1).tolist()
        path, bonus = walk_tree(parents, nodes, root, choices)
        cache.keep(len(tokens), path)
        new = [*(nodes[i] for i in path), bonus]
        new = new[: next((i + 1 for i, token in enumerate(new) if token in stop_ids), None)]
        tokens += new
        yield Round(new, len(nodes), min(len(path), len(new)))
        left = 0 if new[-1] in stop_ids else left - len(new)


def tree_pass(
    params: Params, config: Config, tokens: list[int], nodes: list[int], parents: list[int], cache, forward=forward
) -> Tensor:
    """Logits (1 + n, vocab) after the text and after each node, in one pass over what the cache lacks and the tree."""
    held, start, n = cache.length, len(tokens), len(nodes)
    text = torch.ones(start - held, start + n, dtype=torch.bool).tril(held)  # causal, and no node
    tree = torch.cat([torch.ones(n, start, dtype=torch.bool), tree_mask(parents)], 1)
    positions = [*range(held, start), *(start + depth for depth in tree_depths(parents))]
    ids = torch.tensor([tokens[held:] + nodes])
    logits = forward(params, config, ids, cache, positions=torch.tensor(positions), mask=torch.cat([text, tree]))
    return logits[0, start - held - 1 :]
