"""What is timed at level 02: `nox -s bench -- level02`. A naive way and a library's stand beside yours."""

import pytest
import torch

from dojo.models import Config, random_params
from level01.generate import generate

CONFIG = Config(
    n_layers=4, d_model=256, n_heads=4, n_kv_heads=2, head_dim=64, d_ff=768, vocab_size=3072, max_seq_len=2048
)
HELD = WINDOW = 1024
NEW = 8 * CONFIG.n_layers * CONFIG.n_kv_heads * CONFIG.head_dim  # bytes of a token's keys and values in float32


def keys(tokens):
    return torch.randn(1, CONFIG.n_kv_heads, tokens, CONFIG.head_dim)


def joined(window=HELD + 1):
    """Keys and values of one token joined to those of each layer, the last `window` of them."""
    held, one = [(keys(window - 1), keys(window - 1)) for _ in range(CONFIG.n_layers)], keys(1)
    return lambda: [torch.cat([side, one], 2)[:, :, -window:] for pair in held for side in pair]


def copied():
    """The same into buffers of a fixed size, as a static cache of transformers does."""
    buffers, one = [keys(2 * HELD) for _ in range(2 * CONFIG.n_layers)], keys(1)
    at = torch.tensor([HELD])
    return lambda: [buffer.index_copy_(2, at, one) for buffer in buffers]


def filled(cache, tokens):
    for layer in range(CONFIG.n_layers):
        cache.update(layer, keys(tokens), keys(tokens))
    return cache


@pytest.mark.kata("level02.cache.KVCache")
def bench_update(bench):
    """Keys and values of one token behind 1,024"""

    def build(level):
        cache, one = filled(level.cache.KVCache(CONFIG, 1, 2 * HELD), HELD), keys(1)

        def update():
            for layer in range(CONFIG.n_layers):
                cache.update(layer, one, one)
            cache.truncate(HELD)

        return update

    bench(build, naive=("torch.cat", joined()), library=("index_copy_", copied()), bytes=2 * NEW)


@pytest.mark.kata("level02.window.RingCache")
def bench_ring(bench):
    """Keys and values of one token into a full window of 1,024"""

    def build(level):
        cache, one = filled(level.window.RingCache(CONFIG, 1, WINDOW), WINDOW), keys(1)

        def update():
            for layer in range(CONFIG.n_layers):
                cache.update(layer, one, one)

        return update

    bench(build, naive=("torch.cat, sliced", joined(WINDOW)), bytes=2 * NEW)


@pytest.mark.kata("level02.padding.generate_batch")
def bench_batch(bench):
    """8 tokens for each of 8 prompts, on a random model of 4 million parameters"""
    params = random_params(CONFIG)
    prompts = [list(range(10, 12 + length)) for length in range(8)]
    weights = 4 * sum(w.numel() for name, w in params.items() if w.ndim == 2 and "embed" not in name)
    bench(
        lambda level: lambda: level.padding.generate_batch(params, CONFIG, prompts, 8),
        naive=("one by one", lambda: [generate(params, CONFIG, prompt, 8) for prompt in prompts]),
        flops=2 * weights // 4 * (sum(map(len, prompts)) + 8 * 7),
        bytes=8 * weights,
    )
