"""What is timed at level 06: `nox -s bench -- level06`. A naive way and a library's stand beside yours."""

import hashlib

import pytest
import torch

from dojo.models import SMOLLM2, load


@pytest.mark.kata("level06.paged.gather")
def bench_gather(bench):
    """1,024 tokens of one layer, from 64 blocks in any order"""
    pool = torch.randn(128, 16, SMOLLM2.n_kv_heads, SMOLLM2.head_dim, generator=torch.Generator().manual_seed(0))
    table = torch.randperm(128, generator=torch.Generator().manual_seed(1))[:64].tolist()

    def token_by_token():
        return torch.stack([pool[table[t // 16], t % 16] for t in range(1024)], 1)[None]

    bench(
        lambda level: lambda: level.paged.gather(pool, table, 1024),
        naive=("one token after the other", token_by_token),
        library=("index_select of whole blocks", lambda: pool.index_select(0, torch.tensor(table))),
    )


@pytest.mark.kata("level06.quantize.quantize_int8")
def bench_int8(bench):
    """One token through up_proj, 1536 x 576, in 8 bits"""
    w = load()[1]["model.layers.0.mlp.up_proj.weight"]
    x = torch.randn(1, 576, generator=torch.Generator().manual_seed(0))
    scale = w.abs().amax(1, keepdim=True) / 127
    q = (w / scale).round().to(torch.int8)
    bench(
        lambda level: lambda: level.quantize.int8_linear(x, q, scale),
        naive=("make the weights again, then multiply", lambda: x @ (q * scale).T),
        library=("float32, not quantized", lambda: x @ w.T),
        flops=2 * w.numel(),
        bytes=q.nbytes,
    )


@pytest.mark.kata("level06.prefix.block_keys")
def bench_block_keys(bench):
    """Keys of a prompt of 2,000 tokens"""
    tokens = list(range(2000))

    def every_prefix():
        starts = (b"".join(token.to_bytes(4, "little") for token in tokens[:end]) for end in range(16, 2001, 16))
        return [hashlib.sha256(start).digest() for start in starts]

    bench(
        lambda level: lambda: level.prefix.block_keys(tokens, 16),
        naive=("each prefix hashed from its start", every_prefix),
    )
