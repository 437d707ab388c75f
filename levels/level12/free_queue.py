"""The blocks that nobody uses, in the order in which they will be handed out: the order decides what is forgotten."""

from collections.abc import Iterable

END = None  # stands before the first block and behind the last one


class FreeQueue:
    """Block ids in a row, each at most once; any of them can be taken out of the middle.

    FreeQueue(ids)    begins with these, the first one in front
    popleft()         takes the block in front and returns it
    remove(block)     takes out a block, wherever it stands
    append_n(ids)     puts blocks behind the others, in the order given
    prepend_n(ids)    puts blocks before the others, in the order given: ids[0] is then in front
    ids()             all of them, in order
    len(queue), block in queue

    Each takes time in proportion to the blocks that it moves, however many there are in the queue (ids() alone goes
    through all): of a pool with 25,720 blocks, a prefix hit takes 60 out of the middle.
    Example: [1, 2, 3, 4, 5]; popleft gives 1, remove(3), append_n([3, 1]), prepend_n([7, 8]): [7, 8, 2, 4, 5, 3, 1].
    ValueError: popleft of an empty queue, a block that is not there to remove, one that is there (or twice in ids) to
    add; then nothing has changed.

    ●● · about 18 lines
    """

    def __init__(self, ids: Iterable[int] = ()):
        # TODO: who stands before each block, and who behind it?
        raise NotImplementedError("level12.free_queue.FreeQueue")
        self.append_n(ids)

    def __len__(self) -> int:
        # TODO: END is no block
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def __contains__(self, block: int) -> bool:
        # TODO: without going through them
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def popleft(self) -> int:
        if not len(self):
            raise ValueError("the free queue is empty: look at its length first")
        # TODO: which one is behind the beginning?
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def remove(self, block: int) -> None:
        if block not in self:
            raise ValueError(f"block {block} is not in the free queue: it has been taken out before, or never put in")
        # TODO: its neighbours become each other's
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def append_n(self, ids: Iterable[int]) -> None:
        ids = self._new(ids)
        # TODO: one after the other, behind the last
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def prepend_n(self, ids: Iterable[int]) -> None:
        ids = self._new(ids)
        # TODO: in which order must they be put in front?
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def ids(self) -> list[int]:
        # TODO: from the first to the last
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def _link(self, before: int | None, block: int, behind: int | None) -> None:
        """Put a block between two that are neighbours."""
        # TODO: four links
        raise NotImplementedError("level12.free_queue.FreeQueue")

    def _new(self, ids: Iterable[int]) -> list[int]:
        """The ids as a list, if none of them is in the queue already. Given."""
        ids = list(ids)
        if len(set(ids)) < len(ids) or any(block in self for block in ids):
            raise ValueError(f"a block is in the free queue once: {ids} has one twice, or one that is there already")
        return ids
