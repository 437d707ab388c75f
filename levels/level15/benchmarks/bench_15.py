"""What is timed at level 15: `nox -s bench -- level15`."""

import pytest
import torch


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.kata("level15.transfer.transfer_cache")
def bench_transfer(bench):
    """1,024 tokens of the pair's sender: strip, twelve maps, rotate"""
    from level15.cachemap import HeadMaps
    from level15.pairlab import RECEIVER, SENDER

    weights, bias = random(64, 16).double(), torch.zeros(16, dtype=torch.float64)
    maps, configs = [(HeadMaps([0, 1], [(weights, bias)] * 2, False),) * 2] * 3, (SENDER, RECEIVER)
    source, positions = [tuple(random(2, 1, 2, 1024, 16)) for _ in range(2)], torch.arange(1024)

    def blocks():
        from level15.transfer import transfer_cache

        for start in range(0, 1024, 16):
            part = [tuple(t[:, :, start : start + 16] for t in layer) for layer in source]
            here = positions[start : start + 16]
            transfer_cache(maps, part, here, here, *configs)

    rows = random(1024, 64).double()
    bench(
        lambda level: lambda: level.transfer.transfer_cache(maps, source, positions, positions, *configs),
        naive=("16 tokens at a time", blocks),
        library=("its 12 products alone", lambda: [rows @ weights for _ in range(12)]),
    )


@pytest.mark.kata("level15.rerope.move_positions")
def bench_move(bench):
    """8 heads of 4,096 keys of 64, by 100 positions"""
    keys, old = random(1, 8, 4096, 64), torch.arange(4096)

    half = 100 * 10000.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
    cos, sin = half.cos().repeat(2), half.sin().repeat(2)

    def in_one():
        x = keys.double()
        return (x * cos + torch.cat([-x[..., 32:], x[..., :32]], -1) * sin).float()

    bench(
        lambda level: lambda: level.rerope.move_positions(keys, old, old + 100, 10000.0),
        naive=("one rotation", in_one),
        library=("a copy in float64", lambda: (keys.double() * 1.0).float()),
    )
