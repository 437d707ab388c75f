"""Ranks as processes of torch.distributed: gloo on CPUs, NCCL on GPUs; and those that torchrun has started. Given.

torchrun --nproc-per-node 2 script.py    with `Launched("cuda").run(fn, *args)` in the script
"""

import os
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from .comm import Comm, Incoming, Outgoing


class Disconnected(ConnectionError):
    """A partner is gone, or was waited for too long: the consequence of what happened there."""


class TorchComm(Comm):
    """The links of one process of the group that `torch.distributed` has set up; each wait has a limit in seconds.

    Nobody compares what is sent with what is expected: gloo kills a rank that gets more, and leaves the rest of a
    larger tensor unwritten. Threads notice: run them first.
    """

    def __init__(self, seconds: float, device: torch.device | str = "cpu"):
        super().__init__(dist.get_rank(), dist.get_world_size(), device)
        self.seconds = seconds

    def _exchange(self, outgoing: Outgoing | None, incoming: Incoming | None) -> Tensor | None:
        tasks, received = [], None
        if outgoing:
            tensor, to = outgoing
            tasks.append((dist.P2POp(dist.isend, tensor.detach().contiguous(), to), f"rank {to} to receive"))
        if incoming:
            shape, dtype, source = incoming
            received = torch.empty(shape, dtype=dtype, device=self.device)
            tasks.append((dist.P2POp(dist.irecv, received, source), f"a message from rank {source}"))
        what = " and ".join(name for _, name in tasks)
        try:
            for work in dist.batch_isend_irecv([task for task, _ in tasks]):
                work.wait(timedelta(seconds=self.seconds))
        except RuntimeError as error:
            late = "timed out" in str(error).lower()
            why = f", more than {self.seconds:g} s" if late else ", but the connection is closed"
            raise Disconnected(f"rank {self.rank} waits for {what}{why}") from error
        return received


class Launched:
    """The ranks that torchrun has started, of which this process is one; `run` as in `Ranks`."""

    def __init__(self, device: str = "cpu", seconds: float = 60):
        cuda = device == "cuda" and torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=seconds))
        self.size, self.device, self.seconds = dist.get_world_size(), "cuda" if cuda else "cpu", seconds

    def run(self, fn: Callable, *args) -> list:
        """fn(comm, *args) on every rank; the results by rank, on every rank."""
        results = [None] * self.size
        dist.all_gather_object(results, fn(TorchComm(self.seconds, self.device), *args))
        return results

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_) -> None:
        dist.destroy_process_group()


def is_launched() -> bool:
    """Has torchrun (or somebody who sets what it sets) started this process?"""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ
