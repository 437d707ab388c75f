"""What is timed at level 03: `nox -s bench -- level03`. A naive way and a library's stand beside yours."""

import pytest
import torch

VOCAB, K, P = 49_152, 50, 0.9
LOGITS = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(0)) * 3
BYTES = 2 * LOGITS.nbytes  # read once, written once
U = torch.rand(1, VOCAB, generator=torch.Generator().manual_seed(1))


def sorted_whole():
    order = LOGITS.sort(-1, descending=True)
    return torch.full_like(LOGITS, -torch.inf).scatter(-1, order.indices[:, :K], order.values[:, :K])


def largest():
    values, ids = LOGITS.topk(K)
    return torch.full_like(LOGITS, -torch.inf).scatter(-1, ids, values)


@pytest.mark.kata("level03.sampling.top_k")
def bench_top_k(bench):
    """The best 50 of 49,152 logits"""
    bench(
        lambda level: lambda: level.sampling.top_k(LOGITS, K),
        naive=("sorts all of them", sorted_whole),
        library=("torch.topk", largest),
        bytes=BYTES,
    )


def nucleus_in_python():
    probs = LOGITS[0].double().softmax(-1).tolist()
    kept, total = torch.full_like(LOGITS, -torch.inf), 0.0
    for i in sorted(range(VOCAB), key=lambda i: (-probs[i], i)):
        if total >= P:
            break
        kept[0, i], total = LOGITS[0, i], total + probs[i]
    return kept


@pytest.mark.kata("level03.sampling.top_p")
def bench_top_p(bench):
    """The smallest set of 49,152 tokens that holds 90%"""
    bench(
        lambda level: lambda: level.sampling.top_p(LOGITS, P),
        naive=("token by token", nucleus_in_python),
        bytes=BYTES,
    )


def running_sum():
    left = 0.5  # half of the mass: about half of the way
    for i, p in enumerate(PROBS):
        left -= p
        if left < 0:
            return i
    return VOCAB - 1


PROBS = LOGITS[0].double().softmax(-1).tolist()


@pytest.mark.kata("level03.drawing.gumbel_max")
def bench_gumbel_max(bench):
    """One of 49,152 tokens, drawn"""
    probs = LOGITS.softmax(-1)
    bench(
        lambda level: lambda: level.drawing.gumbel_max(LOGITS, U),
        naive=("a running sum in Python", running_sum),
        library=("torch.multinomial", lambda: torch.multinomial(probs, 1)),
        bytes=2 * LOGITS.nbytes,
    )
