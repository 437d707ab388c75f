"""Expert parallelism: experts live on different ranks, tokens travel to theirs and come home.

n tokens of a rank, each with k experts; d is d_model.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .collectives import all_to_all
from .comm import Comm


def load_imbalance(expert_ids: Tensor, n_experts: int) -> float:
    """Return the load of the fullest expert over the mean load of all n_experts: 1 is balanced.

    expert_ids  int64, any shape: the experts that tokens were sent to

    Example: [0, 0, 1, 3] on 4 experts: 2 over 1 -> 2. ValueError: no tokens, an expert outside 0 .. n_experts - 1.

    ● · about 2 lines · part of expert_parallel
    """
    if expert_ids.numel() == 0 or expert_ids.min() < 0 or expert_ids.max() >= n_experts:
        raise ValueError(f"at least one token, and experts in 0..{n_experts - 1}")
    # TODO: count, idle ones too
    raise NotImplementedError("level09.expert.expert_parallel")


def expert_parallel(
    comm: Comm, x: Tensor, expert_ids: Tensor, gates: Tensor, experts: Sequence[Callable[[Tensor], Tensor]]
) -> Tensor:
    """Return sum over j of gates[:, j] · expert expert_ids[:, j] of x, for this rank's own tokens: (n, d).

    x           (n, d), this rank's tokens; n may differ between ranks, and may be 0
    expert_ids  (n, k) int64, over the experts of all ranks: expert e is experts[e % len(experts)] of rank
                e // len(experts)
    gates       (n, k), of x's dtype
    experts     this rank's own, equally many on each: functions (m, d) -> (m, d), row by row, m may be 0

    A row of x travels once for each of its experts, and one row comes back; what stays on its rank does not travel. No
    token is dropped, however full an expert is. Each expert is called once, with the tokens of all ranks; one that
    nobody wants may be left out.
    Example: 2 ranks with one expert each, x + 1 and 10x. Rank 0's x = [[3]] with experts [[0, 1]] and gates
    [[0.5, 0.1]] gives 0.5 · 4 + 0.1 · 30 = [[5]]. GShard, arXiv 2006.16668.

    ●●● · about 16 lines · needs level09.collectives.all_to_all
    """
    # TODO: sort by expert, out, the local experts, home, undo the sort, weigh
    raise NotImplementedError("level09.expert.expert_parallel")
