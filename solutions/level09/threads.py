"""Ranks as threads of this process that take turns: always the same run, and a deadlock is seen, not waited for. Given.

One rank runs at a time, until it waits for another one or ends; then the next one that can go on has its turn. When
nobody can, all are told so: that costs no time, and the same program deadlocks every time or never.
"""

import contextlib
import ctypes
import threading
from collections.abc import Callable

from torch import Tensor

from .comm import Comm, DeadlockError, Incoming, Outgoing


class World:
    """Who waits for what, whose turn it is, and the one message that can be under way between any two ranks."""

    def __init__(self, size: int):
        self.size = size
        self.mail: dict[tuple[int, int], Tensor] = {}  # (from, to) -> what was sent and not received yet
        self.waits: dict[int, tuple[Callable[[], bool], str, int]] = {}  # rank -> can it go on? for what? from whom?
        self.ended: set[int] = set()
        self.failure: BaseException | None = None  # the first one: it ends all ranks
        self.turns = [threading.Semaphore(0) for _ in range(size)]
        self.over = threading.Event()

    def wait(self, rank: int, ready: Callable[[], bool], what: str, partner: int) -> None:
        """Let others run until `ready()`."""
        if not ready():
            self.waits[rank] = ready, what, partner
            self.next_turn(rank)
            self.turns[rank].acquire()
            self.waits.pop(rank, None)
        if self.failure:
            raise self.failure if isinstance(self.failure, DeadlockError) else ConnectionError("another rank failed")

    def next_turn(self, rank: int) -> None:
        """Wake the next rank that can go on; if there is none, it is a deadlock, and all can."""
        for other in (*range(rank + 1, self.size), *range(rank + 1)):
            if other not in self.ended and (self.failure or other not in self.waits or self.waits[other][0]()):
                return self.turns[other].release()
        if len(self.ended) == self.size:
            return self.over.set()
        self.failure = DeadlockError(", ".join(self.complaint(r) for r in sorted(self.waits)))
        self.next_turn(rank)

    def complaint(self, rank: int) -> str:
        _, what, partner = self.waits[rank]
        return f"rank {rank} waits for {what}" + (", which has ended" if partner in self.ended else "")


class ThreadComm(Comm):
    """The links of one rank of a `World`."""

    def __init__(self, rank: int, world: World):
        super().__init__(rank, world.size)
        self.world = world

    def _exchange(self, outgoing: Outgoing | None, incoming: Incoming | None) -> Tensor | None:
        mail, received = self.world.mail, None
        if outgoing:
            tensor, to = outgoing
            mail[self.rank, to] = tensor.detach().clone()  # ranks share no memory
        if incoming:
            shape, dtype, source = incoming
            here = source, self.rank
            self.world.wait(self.rank, lambda: here in mail, f"a message from rank {source}", source)
            received = mail.pop(here)
            if (tuple(received.shape), received.dtype) != (shape, dtype):
                raise ValueError(
                    f"rank {self.rank} expects {shape} {dtype} from rank {source}, which has sent "
                    f"{tuple(received.shape)} {received.dtype}: both have to know what is sent"
                )
        if outgoing:
            self.world.wait(self.rank, lambda: (self.rank, to) not in mail, f"rank {to} to receive", to)
        return received


def run_threads(fn: Callable, size: int, *args) -> list:
    """[fn(comm, *args) of rank 0, of rank 1, ...], each in a thread of its own.

    All get the same `args`, which they should only read. What the first rank to fail raises is raised here, and ends
    the others; DeadlockError when every rank waits, ValueError when a message is not what its receiver expects.
    """
    if size < 1:
        raise ValueError(f"a world has at least one rank, not {size}")
    world, results = World(size), [None] * size

    def live(rank: int) -> None:
        try:
            world.turns[rank].acquire()
            if not world.failure:
                results[rank] = fn(ThreadComm(rank, world), *args)
        except BaseException as error:
            world.failure = world.failure or error
        world.ended.add(rank)
        world.next_turn(rank)

    threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    world.turns[0].release()
    try:
        while not world.over.wait(0.1):  # woken at once; it looks up now and then, since a signal may not interrupt it
            pass
    except BaseException as interrupt:  # a timeout, Ctrl-C
        world.failure = interrupt
        for thread in filter(threading.Thread.is_alive, threads):  # one may loop for ever, beside the tests to come
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        with contextlib.suppress(Exception):
            world.over.wait(1)
        raise
    if world.failure:
        raise world.failure
    return results
