"""What is timed at level 07: `nox -s bench -- level07`. A naive way and a library's stand beside yours."""

import pytest
import torch
import torch.nn.functional as F

from level00.layers import attention


def heads(n, queries=None):
    """q, k, v with the heads of one layer of SmolLM2, and k and v for every query head."""
    draw = torch.Generator().manual_seed(0)
    q = torch.randn(1, 9, queries or n, 64, generator=draw)
    k, v = torch.randn(2, 1, 3, n, 64, generator=draw)
    return q, k, v, *(x.repeat_interleave(3, 1) for x in (k, v))


@pytest.mark.kata("level07.flash.flash_attention")
def bench_prefill(bench):
    """Causal attention of 1,024 tokens, 9 query heads over 3 KV heads"""
    q, k, v, *wide = heads(1024)
    bench(
        lambda level: lambda: level.flash.flash_attention(q, k, v),
        naive=("the whole matrix", lambda: attention(q, k, v, "causal")),
        library=("PyTorch's SDPA", lambda: F.scaled_dot_product_attention(q, *wide, is_causal=True)),
        flops=4 * 9 * 64 * 1024 * 1025 // 2,
    )


@pytest.mark.kata("level07.paged.paged_attention")
def bench_paged(bench):
    """One token looks back at 1,024, in blocks of 64"""
    q, k, v, *wide = heads(1024, 1)
    k_pool, v_pool = (x[0].transpose(0, 1).reshape(16, 64, 3, 64).contiguous() for x in (k, v))
    table = list(range(16))

    def gathered():
        both = (pool[table].flatten(0, 1).transpose(0, 1)[None] for pool in (k_pool, v_pool))
        return attention(q, *both, "causal")

    bench(
        lambda level: lambda: level.paged.paged_attention(q, k_pool, v_pool, table, 1024),
        naive=("gathered first", gathered),
        library=("SDPA, no pool", lambda: F.scaled_dot_product_attention(q, *wide)),
        flops=4 * 9 * 64 * 1024,
        bytes=2 * 4 * 3 * 64 * 1024,
    )
