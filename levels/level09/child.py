"""What each process of `Ranks` runs: connect, then one order after the other until there are no more. Given."""

import os
import pickle
import signal
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

from dojo.mount import resolve

from .distributed import Disconnected, TorchComm


def serve() -> None:
    """Orders come on stdin, answers (kind, value) go to what was stdout; what a rank prints goes to stderr."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to everybody: the parent decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    torch.set_num_threads(1)

    def answer(kind: str, value: object = None) -> None:
        answers.write(pickle.dumps((kind, value)))
        answers.flush()

    answer("good")  # torch is there
    rank, size, path, seconds, start_seconds = pickle.load(sys.stdin.buffer)
    store = dist.FileStore(path, size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=start_seconds))
    answer("good")
    try:
        while True:
            fn, args = pickle.loads(pickle.load(sys.stdin.buffer))
            answer(*obeyed(fn, args, seconds))
    except EOFError:
        dist.destroy_process_group()


def obeyed(fn, args: tuple, seconds: float) -> tuple[str, object]:
    """("good", (result, files of the levels' modules)), or what kind of failure and its sentence."""
    try:
        result = (resolve(fn) if isinstance(fn, str) else fn)(TorchComm(seconds), *args)
        pickle.dumps(result)  # here it can still be told
        modules = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        return "good", (result, {name: file for name, file in modules.items() if file and is_ours(name)})
    except NotImplementedError as error:
        return "todo", str(error)
    except Disconnected as error:
        return "lost", str(error)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is this function's
        own = [frame for frame in frames if "level" in frame.filename]  # not torch's
        where = f" ({os.path.basename(own[-1].filename)}, line {own[-1].lineno})" if own else ""
        return "raised", f"raised {type(error).__name__}: {error}{where}"


def is_ours(name: str) -> bool:
    """Is it a module of a level, such as level09.collectives?"""
    return name.startswith("level") and name[5:7].isdigit() and "." in name
