"""What is timed at level 10: `nox -s bench -- level10`. What a token costs beside the model."""

import asyncio

import numpy as np
import pytest

EVENTS = b"".join(b'data: {"choices":[{"index":0,"text":" word %d"}]}\n\n' % i for i in range(500))


@pytest.mark.kata("level10.sse.SSEParser")
def bench_parsing(bench):
    """500 events in pieces of 100 bytes"""
    pieces = [EVENTS[i : i + 100] for i in range(0, len(EVENTS), 100)]

    def through(level):
        def parse():
            parser = level.sse.SSEParser()
            return [event for piece in pieces for event in parser.feed(piece)]

        return parse

    def again_from_the_start():
        held, events = b"", []
        for piece in pieces[:120]:  # it gets slower with every piece: a third of them is enough
            held += piece
            events = held.split(b"\n\n")[:-1]
        return events

    bench(through, naive=("all again, a third", again_from_the_start), library=("bytes.split", lambda: EVENTS.split()))


@pytest.mark.kata("level10.pieces.text_pieces")
def bench_pieces(bench):
    """2,000 tokens to text, with two stop strings"""
    words = {i: b" word%d" % i for i in range(2000)}

    class Source:
        def __init__(self):
            self.items = iter([(i, i == 1999) for i in range(2000)])

        def __aiter__(self):
            return self

        async def __anext__(self):
            try:
                return next(self.items)
            except StopIteration:
                raise StopAsyncIteration from None

        async def aclose(self):
            pass

    def through(level):
        async def collect():
            return [piece async for piece in level.pieces.text_pieces(Source(), words.get, (), ("END", "STOP"))]

        return lambda: asyncio.run(collect())

    def all_text_again():
        text = b""
        for i in range(2000):
            text += words[i]
            text.decode().find("END"), text.decode().find("STOP")

    async def only_read():
        return [item async for item in Source()]

    bench(
        through,
        naive=("all text, each time", all_text_again),
        library=("an empty async for", lambda: asyncio.run(only_read())),
    )


@pytest.mark.kata("level10.stats.bootstrap_interval")
def bench_bootstrap(bench):
    """The mean of 200 latencies, 300 resamples"""
    values = np.random.default_rng(0).exponential(1, 200).tolist()
    mean = lambda x: sum(x) / len(x)  # noqa: E731

    def one_by_one():
        rng = np.random.default_rng(0)
        return sorted(mean([values[rng.integers(200)] for _ in range(200)]) for _ in range(300))

    def whole():
        return np.asarray(values)[np.random.default_rng(0).integers(200, size=(300, 200))].mean(1)

    bench(
        lambda level: lambda: level.stats.bootstrap_interval(values, mean, np.random.default_rng(0), 300),
        naive=("value by value", one_by_one),
        library=("NumPy, means only", whole),
    )
