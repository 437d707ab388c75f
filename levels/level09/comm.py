"""What a rank can do: send a tensor to another rank, receive one, or both at once. Given.

A rank is one of `size` programs that run the same code and share no memory; it knows its number and nothing else. The
katas get a `Comm` and never ask which world is behind it: threads (`run_threads`) or processes (`Ranks`, torchrun).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

Outgoing = tuple[Tensor, int]  # what, to whom
Incoming = tuple[tuple[int, ...], torch.dtype, int]  # which shape and dtype, from whom


class DeadlockError(RuntimeError):
    """Ranks wait for one another, or for one that has ended; the message says who waits for what."""


class Comm:
    """One rank's place among `size` ranks, 0 .. size - 1, and the count of what it has sent.

    bytes_sent  bytes of all tensors that this rank has sent
    messages    how many they were
    device      where its tensors live

    A message arrives as a copy, and only in the order in which its sender sent it.
    """

    def __init__(self, rank: int, size: int, device: torch.device | str = "cpu"):
        self.rank, self.size, self.device = rank, size, torch.device(device)
        self.bytes_sent = self.messages = 0

    def send(self, tensor: Tensor, to: int) -> None:
        """Send to rank `to`; returns when that rank has received it."""
        self._check(to)
        self._count(tensor)
        self._exchange((tensor, to), None)

    def recv(self, shape: Sequence[int], dtype: torch.dtype, source: int) -> Tensor:
        """Receive from rank `source` what has this shape and dtype; waits until it is there."""
        self._check(source)
        return self._exchange(None, (tuple(shape), dtype, source))

    def sendrecv(self, tensor: Tensor, to: int, source: int, shape: Sequence[int] | None = None) -> Tensor:
        """Send to rank `to` and at the same time receive from rank `source`: neither waits for the other.

        What comes has the dtype of `tensor`, and its shape unless another is given. To and from oneself it is a copy,
        and no message.
        """
        shape = tuple(tensor.shape if shape is None else shape)
        if to == source == self.rank:
            return tensor.detach().clone()
        self._check(to)
        self._check(source)
        self._count(tensor)
        return self._exchange((tensor, to), (shape, tensor.dtype, source))

    def _exchange(self, outgoing: Outgoing | None, incoming: Incoming | None) -> Tensor | None:
        """Do both, or the one that is not None; returns what came. Each world has its own."""
        raise TypeError("a Comm of its own moves nothing: take one from run_threads, Ranks or Launched")

    def _check(self, partner: int) -> None:
        if not 0 <= partner < self.size or partner == self.rank:
            others = [r for r in range(self.size) if r != self.rank]
            raise ValueError(f"rank {self.rank} has no partner {partner}: the others are {others}")

    def _count(self, tensor: Tensor) -> None:
        self.bytes_sent += tensor.nbytes
        self.messages += 1
