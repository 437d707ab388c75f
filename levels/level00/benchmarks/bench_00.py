"""What is timed at level 00: `nox -s bench -- level00`. A naive way and a library's stand beside yours."""

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tokenizers.models import BPE

from dojo.models import load, matrices
from dojo.roofline import Sweep

TEXT = "the cat sat on the mat, and the hat that the cat had sat on was flat. " * 12
PROMPT = [1, 504, 3575, 282, 4649, 314] + list(range(1000, 1010))  # 16 tokens: what they say does not matter
HEADS, KV_HEADS, TOKENS, WIDTH, MODEL = 9, 3, 128, 64, 576  # SmolLM2's


def learned(text: str, merges: int) -> dict[tuple[int, int], int]:
    """Merges of the most frequent pairs, as plainly as can be: ids from 256."""
    ids, found = list(text.encode()), {}
    for new in range(256, 256 + merges):
        pairs = list(zip(ids, ids[1:]))
        found[best := max(pairs, key=pairs.count)] = new
        ids = replaced(ids, best, new)
    return found


def replaced(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        hit = tuple(ids[i : i + 2]) == pair
        out.append(new if hit else ids[i])
        i += 1 + hit
    return out


def one_place_at_a_time(ids, merges):
    """Looks at all pairs, joins the best one in one place, and begins again."""
    ids = list(ids)
    while True:
        found = [(merges[pair], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in merges]
        if not found:
            return ids
        new, i = min(found)
        ids[i : i + 2] = [new]


@pytest.mark.kata("level00.bpe.apply_merges")
def bench_encode(bench):
    """Encoding 840 bytes with 40 merges"""
    merges, ids = learned(TEXT[:70], 40), list(TEXT.encode())
    names = {i: chr(256 + i) for i in range(256)}
    for (a, b), new in merges.items():
        names[new] = names[a] + names[b]
    model = BPE({name: i for i, name in names.items()}, [(names[a], names[b]) for a, b in merges])
    tokenizer, text = Tokenizer(model), "".join(names[i] for i in ids)
    bench(
        lambda level: lambda: level.bpe.apply_merges(ids, merges),
        naive=("one place at a time", lambda: one_place_at_a_time(ids, merges)),
        library=("tokenizers", lambda: tokenizer.encode(text).ids),
    )


@pytest.mark.kata("level00.layers.rms_norm")
def bench_rms_norm(bench):
    """RMSNorm of 128 tokens"""
    x, weight = torch.randn(1, TOKENS, MODEL), torch.randn(MODEL)
    rows = x[0].unbind()
    bench(
        lambda level: lambda: level.layers.rms_norm(x, weight, 1e-5),
        naive=("row by row", lambda: [row * (row @ row / MODEL + 1e-5) ** -0.5 * weight for row in rows]),
        library=("torch", lambda: F.rms_norm(x, (MODEL,), weight, 1e-5)),
        flops=4 * x.numel(),
        bytes=8 * x.numel(),
    )


def head_by_head(q, k, v, causal):
    """One head and one query after the other."""
    out = torch.empty_like(q)
    for h in range(HEADS):
        for i in range(TOKENS):
            scores = k[0, h // 3] @ q[0, h, i] * WIDTH**-0.5
            out[0, h, i] = scores.masked_fill(~causal[i], -torch.inf).softmax(-1) @ v[0, h // 3]
    return out


@pytest.mark.kata("level00.layers.attention")
def bench_attention(bench):
    """Causal attention of 128 tokens, one layer of SmolLM2"""
    q, k, v = (torch.randn(1, heads, TOKENS, WIDTH) for heads in (HEADS, KV_HEADS, KV_HEADS))
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    bench(
        lambda level: lambda: level.layers.attention(q, k, v, "causal"),
        naive=("query by query", lambda: head_by_head(q, k, v, causal)),
        library=("torch SDPA", lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)),
        flops=4 * HEADS * TOKENS * TOKENS * WIDTH,
        bytes=4 * (2 * q.numel() + k.numel() + v.numel()),
    )


@pytest.mark.kata("level00.transformer.hidden_states")
def bench_prefill(bench):
    """SmolLM2 over 16 tokens at once"""
    config, params, _ = load()
    ids, sweep = torch.tensor([PROMPT]), Sweep(matrices(params), len(PROMPT))
    alone = Sweep(matrices(params), 1)
    bench(
        lambda level: lambda: level.transformer.forward(params, config, ids),
        naive=("products, token by token", lambda: [alone() for _ in PROMPT]),
        library=("the products alone", sweep),
        flops=sweep.flops,
        bytes=sweep.bytes,
    )
