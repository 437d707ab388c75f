"""Ranks as real processes of this machine, over gloo: a pool that answers, or says in one sentence why not. Given.

with Ranks(3) as ranks:
    ranks.run("level09.collectives.ring_all_gather", torch.ones(2))
"""

import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import monotonic

import dojo
from dojo.expect import dumps
from dojo.mount import folder_of

from .distributed import Launched, is_launched

CHILD = "from dojo.mount import mount_from_environment as m; m(); from level09.child import serve; serve()"
START_SECONDS = 120  # importing torch, several times at once, on a busy machine
GRACE_SECONDS = 2  # for the others to say what they saw, once one has failed; and to end by themselves


class RankError(RuntimeError):
    """A rank raised, died or hung; the message says which one, and why. All ranks have been ended."""


class Ranks:
    """`size` processes, each with one thread, connected by gloo. They start with the first `run`, and stay.

    seconds  limit of each wait for another rank; a whole `run` may take that and GRACE_SECONDS more

    After a failure all are ended, and the next `run` starts others.
    """

    def __init__(self, size: int, seconds: float = 30):
        if size < 1:
            raise ValueError(f"a world has at least one rank, not {size}")
        self.size, self.seconds = size, seconds
        self.processes: list[subprocess.Popen] = []

    def run(self, fn: Callable | str, *args) -> list:
        """[fn(comm, *args) of rank 0, of rank 1, ...]; fn by its dotted name, or itself (one of a test will do).

        RankError, when one raises, dies, does not answer in time, or ran another file than the one mounted here;
        NotImplementedError as it is.
        """
        if not self.processes:
            self._start()
        order = dumps((fn, args))
        for process in self.processes:
            _tell(process, order)
        answers = self._collect(self.seconds + GRACE_SECONDS)
        for rank, (_, files) in enumerate(answers):
            for name, file in files.items():
                import_module(level := name.partition(".")[0])
                if Path(file).parent.resolve() != folder_of(level).resolve():
                    self.close(0)
                    raise RankError(f"rank {rank} ran {file}, but {level} is mounted from {folder_of(level)}")
        return [result for result, _ in answers]

    def close(self, seconds: float = GRACE_SECONDS) -> None:
        """End all processes: with the end of their orders, and after so many seconds by force."""
        for process in self.processes:
            with suppress(OSError):
                process.stdin.close()
        end = monotonic() + seconds
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0, end - monotonic()))
            process.kill()
            process.wait()
        self.processes = []

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _start(self) -> None:
        paths = [str(Path(dojo.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        if os.name == "posix":  # all ranks are on this machine, whatever its network is like
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        pipe, command = subprocess.PIPE, [sys.executable, "-c", CHILD]
        self.answers = queue.Queue()
        self.processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) for _ in range(self.size)]
        for rank, process in enumerate(self.processes):
            threading.Thread(target=_listen, args=(rank, process, self.answers), daemon=True).start()
        self._collect(START_SECONDS)  # subtle: all have imported torch before the first one waits for another
        with tempfile.TemporaryDirectory() as folder:  # they meet at a file: no port, no clash
            for rank, process in enumerate(self.processes):
                _tell(process, (rank, self.size, os.path.join(folder, "meet"), self.seconds, START_SECONDS))
            self._collect(START_SECONDS)

    def _collect(self, seconds: float) -> list:
        """One answer of each rank, by rank; or the end of all, and why."""
        good, bad, end = {}, {}, monotonic() + seconds
        try:
            while len(good) + len(bad) < self.size:
                rank, kind, value = self.answers.get(timeout=max(0.001, end - monotonic()))
                if kind == "good":
                    good[rank] = value
                    continue
                good.pop(rank, None)
                bad.setdefault(rank, (kind, value))
                # who lost a partner tells of a consequence: wait a little for the rank that caused it
                end = min(end, monotonic() + (GRACE_SECONDS if kind == "lost" else 0))
        except queue.Empty:
            pass
        except BaseException:  # a timeout of the test, Ctrl-C
            self.close(0)
            raise
        if len(good) == self.size:
            return [good[rank] for rank in range(self.size)]
        self.close(0)
        for rank, (kind, value) in sorted(bad.items()):
            if kind != "lost":
                error = NotImplementedError(value) if kind == "todo" else RankError(f"rank {rank} {value}")
                raise error
        silent = [rank for rank in range(self.size) if rank not in good and rank not in bad]
        told = [f"rank {rank} gave no answer in time, and was stopped" for rank in silent]
        raise RankError(", ".join(told + [value for _, (_, value) in sorted(bad.items())]))


def _tell(process: subprocess.Popen, order: object) -> None:
    with suppress(OSError):  # it is dead: its listener says so
        pickle.dump(order, process.stdin)
        process.stdin.flush()


def _listen(rank: int, process: subprocess.Popen, answers: queue.Queue) -> None:
    """In a thread for each process: put its answers into the queue, and at last that there will be none."""
    with suppress(Exception), process.stdout:
        while True:
            answers.put((rank, *pickle.load(process.stdout)))
    answers.put((rank, "died", f"ended with exit code {process.wait()}"))


def ranks(size: int, device: str = "cpu") -> Ranks | Launched:
    """The ranks that torchrun has started, if it has; else `size` processes on this machine, on its CPUs."""
    if not is_launched():
        return Ranks(size)
    launched = Launched(device)
    if launched.size != size:
        raise ValueError(f"torchrun has started {launched.size} ranks: give it --nproc-per-node {size}")
    return launched
