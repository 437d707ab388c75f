"""What is timed at level 12: `nox -s bench -- level12`."""

from hashlib import sha256

import pytest
import torch


@pytest.mark.kata("level12.free_queue.FreeQueue")
def bench_free_queue(bench):
    """2,000 of 4,000 blocks leave the queue from its middle, and come back"""
    blocks = list(range(1000, 3000))

    def in_and_out(cls):
        def run():
            queue = cls(range(4000))
            for block in blocks:
                queue.remove(block)
            queue.append_n(blocks)

        return run

    class Listed(list):
        append_n = list.extend

    bench(lambda level: in_and_out(level.free_queue.FreeQueue), naive=("a list", in_and_out(Listed)))


@pytest.mark.kata("level12.scheduler.Scheduler.update")
def bench_steps(bench):
    """100 steps of 32 sequences of 300 to 400 tokens: plan and update, without a model"""
    from level12.state import Tracked

    def steps(scheduler):
        def run():
            engine = scheduler(1024, 16, 16384, 32)
            for i in range(32):
                engine.add(Tracked(f"r{i}", list(range(i, i + 300)), limit=101))
            for _ in range(100):
                out = engine.schedule()
                engine.update(out, dict.fromkeys(out.num_scheduled, 7))

        return run

    def keys_anew():
        for n in range(300, 400):  # what it costs to make the keys of all sequences anew in each step
            for i in range(32):
                tokens, key = list(range(i, i + n)), b""
                for start in range(0, n - 15, 16):
                    key = sha256(key + repr(tokens[start : start + 16]).encode()).digest()

    bench(lambda level: steps(level.scheduler.Scheduler), naive=("all keys anew", keys_anew))


@pytest.mark.kata("level12.paged.decode_attention")
def bench_decode_attention(bench):
    """32 sequences of 97 to 128 tokens, 9 query and 3 KV heads, blocks of 16"""
    from level00.layers import attention
    from level06.paged import gather

    draw = torch.Generator().manual_seed(0)
    k_pool, v_pool = torch.randn(2, 257, 16, 3, 64, generator=draw)
    q, tables = torch.randn(32, 9, 64, generator=draw), 1 + torch.randperm(256, generator=draw).view(32, 8)
    lengths = torch.arange(97, 129)

    def one_by_one():
        for i in range(32):
            held = (gather(pool, tables[i].tolist(), int(lengths[i])) for pool in (k_pool, v_pool))
            attention(q[i][None, :, None], *held, "causal")

    bench(
        lambda level: lambda: level.paged.decode_attention(q, k_pool, v_pool, tables, lengths),
        naive=("one by one", one_by_one),
    )
