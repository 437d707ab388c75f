"""What the parts of the engine tell each other: a request on its way, and what one step runs of it. Given."""

from collections.abc import Collection
from dataclasses import dataclass, field

from level05.scheduler import Running


@dataclass
class Tracked(Running):
    """A request as the scheduler sees it: level 05's, and when it ends. `keys` are those of its full blocks."""

    limit: int = 16  # of new tokens
    stop_ids: Collection[int] = ()
    salt: bytes = b""
    keys: list[bytes] = field(default_factory=list, repr=False)

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + len(self.output)


@dataclass
class SchedulerOutput:
    """One step: what runs, from where, and in which blocks; the dicts are by id, in the order of the batch."""

    num_scheduled: dict[str, int] = field(default_factory=dict)  # tokens of each
    preempted: list[str] = field(default_factory=list)
    starts: dict[str, int] = field(default_factory=dict)  # tokens of each that are in the cache before the step
    tables: dict[str, list[int]] = field(default_factory=dict)
