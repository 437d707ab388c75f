"""Who runs in which step: batches that are closed, batches that are refilled, and one step under a budget of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Arrival:
    """A request of a trace: it may run from step `arrival` on, and emits `output_len` >= 1 tokens, one per step."""

    id: int
    arrival: int
    output_len: int


@dataclass
class Running:
    """A request inside the engine. `computed` of its tokens have their keys and values in the cache."""

    id: str
    prompt: list[int]
    output: list[int] = field(default_factory=list)
    computed: int = 0

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.output

    @property
    def pending(self) -> int:
        """Tokens that have to run before the next one is known: all that are not computed yet."""
        return len(self.prompt) + len(self.output) - self.computed

    @property
    def decoding(self) -> bool:
        """Only its newest token is left to run."""
        return bool(self.output) and self.pending == 1


def static_trace(requests: Sequence[Arrival], max_batch: int) -> list[list[int]]:
    """Return, for each step, the ids that emit a token in it, when a batch is closed until its longest member is done.

    Whenever the machine is idle it takes up to max_batch of those that have arrived, by (arrival, id), in that order;
    nobody joins them. Who is done emits nothing more. A step in which nobody runs is empty. The trace ends with the
    last token. Example: output lengths 3, 1, 1, max_batch 2: [[0, 1], [0], [0], [2]].
    ValueError: max_batch below 1.

    ●● · about 11 lines
    """
    if max_batch < 1:
        raise ValueError(f"a batch has room for at least 1 request, not {max_batch}")
    # TODO: when does a batch begin, who is in it, and how long does it last?
    raise NotImplementedError("level05.scheduler.static_trace")


def continuous_trace(requests: Sequence[Arrival], max_batch: int) -> list[list[int]]:
    """Return the trace as `static_trace` does, when free slots are refilled before every step, by (arrival, id).

    First come, first served; in a step the ids stand in the order in which they were admitted. Iteration-level
    scheduling: Orca (OSDI 2022). Example: output lengths 3, 1, 1, max_batch 2: [[0, 1], [0, 2], [0]].
    ValueError: max_batch below 1.

    ●● · about 10 lines
    """
    if max_batch < 1:
        raise ValueError(f"a batch has room for at least 1 request, not {max_batch}")
    # TODO: admit, emit, let go; then the next step
    raise NotImplementedError("level05.scheduler.continuous_trace")


def utilization(trace: Sequence[Sequence[int]], max_batch: int) -> float:
    """Return the share of slots that emitted a token, over all steps of the trace, empty ones included.

    Example: [[0, 1], [0], [0], [2]] with 2 slots: 5 of 8 -> 0.625.
    ValueError: an empty trace.

    ● · about 1 line · part of continuous_trace
    """
    if not trace:
        raise ValueError("a trace without steps has no utilization")
    # TODO: useful slots over all slots
    raise NotImplementedError("level05.scheduler.continuous_trace")


def plan_step(
    running: Sequence[Running], waiting: Sequence[Running], token_budget: int, max_seqs: int
) -> list[tuple[str, int]]:
    """Return [(id, number of tokens)] of one engine step, at most token_budget tokens together.

    In this order, as far as the budget goes: running sequences that decode, one token each; the other running ones,
    which still fill their cache; waiting ones, while fewer than max_seqs run. Among themselves they keep their order.
    One that fills gets all that is left of the budget, and never more than its pending tokens. Nobody is skipped,
    nobody gets 0 tokens, and nothing is changed.
    Example: one decoding, waiting prompts of 3 and 8, budget 6 -> 1, 3 and 2 tokens. Sarathi-Serve, arXiv 2403.02310.
    ValueError: token_budget or max_seqs below 1.

    ●●● · about 10 lines
    """
    if token_budget < 1 or max_seqs < 1:
        raise ValueError(f"a step runs at least 1 token of 1 sequence, not {token_budget} of {max_seqs}")
    # TODO: who comes first, who next, and how much is left for each?
    raise NotImplementedError("level05.scheduler.plan_step")
