"""What quantization does to a model: three figures. Given.

The logits of a reference and of the changed model are both (n, vocab), at the same positions of the same text.
"""

from math import exp

import torch.nn.functional as F
from torch import Tensor


def perplexity(logits: Tensor, targets: Tensor) -> float:
    """exp of the mean negative log-probability of the tokens that came next: targets (n,) of logits (n, vocab)."""
    return exp(F.cross_entropy(logits.double(), targets).item())


def mean_kl(reference: Tensor, logits: Tensor) -> float:
    """KL(reference || changed) in nats, the mean over the positions: 0 for equal distributions, whatever their text."""
    ours, theirs = logits.double().log_softmax(-1), reference.double().log_softmax(-1)
    return F.kl_div(ours, theirs, log_target=True, reduction="batchmean").item()


def top1_agreement(reference: Tensor, logits: Tensor) -> float:
    """Share of the positions at which both have the same best token."""
    return (reference.argmax(-1) == logits.argmax(-1)).double().mean().item()


def relative_error(x: Tensor, changed: Tensor) -> float:
    """|x - changed| / |x|, Euclidean, over all entries."""
    return ((x - changed).double().norm() / x.double().norm()).item()
