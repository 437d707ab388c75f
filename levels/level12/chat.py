"""The conversation of level 03 on this level's engine: what is cached of it, the engine finds by itself. Given.

`nox -s chat` runs it.
"""

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

import level07.chat as earlier
from dojo.cost import count
from level01.phases import phase_cost

from .engine import Engine, Request
from .scheduler import Scheduler

PARTS = earlier.PARTS | {"loop": "level12", "cache": "level12", "attention": "level12"}
BLOCK = 16  # tokens
BUDGET = 256  # tokens of a step


class Held:
    """How many tokens of the conversation have run; they are in the engine's pool, as long as nobody needs the room."""

    length = 0

    def truncate(self, n: int) -> None:
        self.length = min(n, self.length)


class Conversation(earlier.Conversation):
    """As level 03's; each answer is a request for the whole conversation, and only what is new of it runs."""

    def new_cache(self) -> Held:
        num_blocks = -(-self.room // BLOCK) + 1  # block 0 is nobody's
        self.engine = Engine(self.params, self.config, Scheduler(num_blocks, BLOCK, BUDGET, 1))
        return Held()

    def _chunks(self, prompt: list[int], max_tokens: int) -> Iterator[bytes]:
        eos, sampling = self.tokenizer.eos_id, replace(self.sampling, max_tokens=max_tokens)
        self.engine.add(Request("answer", list(self.ids), sampling, {eos}))
        try:
            while self.engine.unfinished:
                for _, token, _ in self.engine.step():
                    self.cache.length = len(self.ids)  # all but the new one
                    self.times.append(perf_counter())
                    self.ids.append(token)
                    if token != eos:
                        yield self.tokenizer.token_bytes(token)
        finally:
            self.engine.abort("answer")

    def bytes_per_token(self) -> tuple[float, float]:
        """(predicted, counted) bytes that move for one token behind those that are cached, in float32."""
        held = self.cache.length
        predicted = phase_cost(self.config, 1, held - 1, 4)["bytes"]
        self.engine.add(Request("again", self.ids[: held - 1], replace(self.sampling, max_tokens=2)))
        while not self.engine.step():  # what is not cached of it, up to a token
            pass
        counted = count(self.engine.step).bytes
        self.engine.abort("again")
        return predicted, counted
