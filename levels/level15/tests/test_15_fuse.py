"""Judges fuse.py by hand, and by loops over single heads in Python's floats."""

from math import exp, inf

import pytest
import torch

from level15.fuse import gated_fuse


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def fused(own, mapped, logits):
    """Oracle: own + sigmoid(logit) · (mapped - own), a head at a time, in float64."""
    shares = [1 / (1 + exp(-logit)) for logit in logits]
    heads = [
        own[:, g].double() + share * (mapped[:, g].double() - own[:, g].double()) for g, share in enumerate(shares)
    ]
    return torch.stack(heads, 1).to(own.dtype)


@pytest.mark.kata("level15.fuse.gated_fuse")
def test_half_of_the_way_at_zero(expect):
    """By hand: own 1, mapped 3. Logit 0 is half of the way, log 3 three quarters, and no logit leads further than 3."""
    own, mapped = torch.ones(1, 4, 1, 1), torch.full((1, 4, 1, 1), 3.0)
    right = torch.tensor([2.0, 2.5, 1.5, 3.0]).view(1, 4, 1, 1)
    expect(gated_fuse, own, mapped, torch.tensor([0.0, 1.0986123, -1.0986123, 40.0])).equals(right)
    expect(gated_fuse, own, own, torch.tensor([1.0, 2.0, -1.0, 0.0])).equals(own)


@pytest.mark.kata("level15.fuse.gated_fuse")
def test_shut_and_open(expect):
    """A gate that is shut leaves the receiver as it was; one that is open takes the other model's keys."""
    own, mapped = draw(2, 3, 4, 5, seed=1), draw(2, 3, 4, 5, seed=2)
    right = torch.stack([own[:, 0], mapped[:, 1], own[:, 2]], 1)
    expect(gated_fuse, own, mapped, torch.tensor([-inf, inf, -inf])).equals(right)
    expect(gated_fuse, own, mapped, torch.tensor([-60.0, 60.0, -60.0])).equals(right)


@pytest.mark.kata("level15.fuse.gated_fuse")
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 2, 2, 2), (3, 1, 2, 4), (1, 4, 0, 2)], ids=str)
def test_a_gate_for_each_head(expect, shape):
    """Oracle: loops. Where all sizes are 2, only the numbers tell whose gate it is."""
    own, mapped = draw(*shape, seed=3), 3 * draw(*shape, seed=4) + 1
    logits = [1.5, -2.0, 0.25, -0.5][: shape[1]]
    expect(gated_fuse, own, mapped, torch.tensor(logits)).equals(fused(own, mapped, logits), abs=1e-5)


@pytest.mark.kata("level15.fuse.gated_fuse")
def test_the_cache_keeps_its_dtype(expect):
    """Gates are float32, caches are not. A bfloat16 share and difference are each off by 1/256 at the most, hence the
    tolerance; float64 keeps what float32 gates leave of it."""
    for dtype, near in ((torch.bfloat16, 0.05), (torch.float64, 1e-6)):
        own, mapped = draw(2, 3, 2, 4, seed=5).to(dtype), draw(2, 3, 2, 4, seed=6).to(dtype)
        right = fused(own, mapped, [0.5, -1.0, 2.0])
        expect(gated_fuse, own, mapped, torch.tensor([0.5, -1.0, 2.0])).equals(right, abs=near)


@pytest.mark.kata("level15.fuse.gated_fuse")
def test_nothing_is_broadcast(expect):
    """One gate for all heads, or one per token, or a cache of another batch would go unnoticed."""
    own, mapped = draw(2, 3, 4, 5, seed=7), draw(2, 3, 4, 5, seed=8)
    expect(gated_fuse, own, mapped, torch.tensor([1.0, 0.0, -1.0])).equals(fused(own, mapped, [1.0, 0.0, -1.0]))
    for gates in (torch.zeros(1), torch.zeros(4), torch.tensor(0.0)):
        expect(gated_fuse, own, mapped, gates).raises(ValueError)
    expect(gated_fuse, own, mapped[:1], torch.zeros(3)).raises(ValueError)
