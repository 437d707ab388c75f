"""What the tests of several levels share."""

import contextlib
import importlib.util
import os

from dojo import catalog
from dojo.mount import VARIABLE, mount_all, unmount


@contextlib.contextmanager
def solutions_of(*levels):
    """The levels' solutions under their names, here and in child processes, for the length of the block."""
    before = os.environ.get(VARIABLE)
    mount_all({level: catalog.ROOT / "solutions" / level for level in levels})
    yield
    for level in levels:
        unmount(level)
    os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})


def module_at(path):
    """The module in a file that no package holds: a lab, a checkpoint's tests."""
    spec = importlib.util.spec_from_file_location(f"{path.parts[-3]}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def checkpoint_of(level):
    """The module of a level's checkpoint tests, for its thresholds and prompts."""
    [path] = (catalog.ROOT / "levels" / level / "checkpoint").glob("test_*.py")
    return module_at(path)


def copying(x, weight):
    """A `linear` that makes a transposed copy of every weight at every call."""
    return x @ weight.T.contiguous()
