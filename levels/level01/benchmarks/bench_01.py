"""What is timed at level 01: `nox -s bench -- level01`. A naive way and a library's stand beside yours."""

import codecs

import pytest
import torch

from dojo.models import load, matrices
from dojo.roofline import Sweep
from level00.transformer import forward

HELD = 127  # tokens in the cache before the one that is timed
TEXT = "Ein Bär trinkt Tee in 東京, čaj in Praha und 🍵 überall. " * 20


@pytest.mark.kata("level01.generate.decode_step")
def bench_decode_step(bench):
    """SmolLM2's next token behind 127"""
    config, params, _ = load()
    ids, sweep = list(range(1000, 1001 + HELD)), Sweep(matrices(params), 1)

    def build(level):
        cache = level.simple_cache.SimpleCache(config.n_layers)
        level.generate.prefill(params, config, ids[:-1], cache)

        def step():
            level.generate.decode_step(params, config, ids[-1], cache)
            cache.truncate(HELD)  # the next round finds what this one found

        return step

    kv = 2 * config.n_layers * config.n_kv_heads * config.head_dim * len(ids)
    bench(
        build,
        naive=("all tokens again", lambda: forward(params, config, torch.tensor([ids]))),
        library=("the products alone", sweep),
        flops=sweep.flops + 4 * config.n_layers * config.n_heads * config.head_dim * len(ids),
        bytes=sweep.bytes + 4 * kv,
    )


def decoded_anew(chunks):
    """All bytes again at every chunk."""
    seen, said = b"", ""
    for chunk in chunks:
        seen += chunk
        text = seen.decode(errors="ignore")
        yield text[len(said) :]
        said = text


def decoded_by_codecs(chunks):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield from map(decoder.decode, chunks)


@pytest.mark.kata("level01.streaming.utf8_pieces")
def bench_utf8_pieces(bench):
    """Text from 1,280 chunks of one byte"""
    chunks = [bytes([byte]) for byte in TEXT.encode()]
    bench(
        lambda level: lambda: list(level.streaming.utf8_pieces(chunks)),
        naive=("all bytes again", lambda: list(decoded_anew(chunks))),
        library=("codecs", lambda: list(decoded_by_codecs(chunks))),
    )
