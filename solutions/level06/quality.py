"""What quantization does to a model: three figures. Given.

The logits of a reference and of the changed model are both (n, vocab), at the same positions of the same text.
"""

from math import exp

import torch.nn.functional as F
from torch import Tensor

# what this level's figures on SmolLM2 are measured with: 169 tokens, and no text that a model could know by heart
TEXT = (
    "A library lends each book to one reader at a time, and for most of the year that works well. In the weeks before "
    "the examinations it does not: a hundred students want the same ten books, and the shelves where those books "
    "should stand are empty, while the rest of the building is full of books that nobody asks for. The librarian "
    "could buy more copies, but they would stand unused for the other eleven months. So she makes a rule instead. A "
    "book that many people wait for may be kept for two hours, in the reading room, and then it goes back to the "
    "desk. Nobody has the book for long, but everybody has it when it is needed, and the ten copies do the work of "
    "fifty. The students complain about the rule in the first week. In the second week they notice that the queue is "
    "gone."
)


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
