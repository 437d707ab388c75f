"""What the negative controls of several levels share."""

import importlib.util

from dojo import catalog


def checkpoint_of(level):
    """The module of a level's checkpoint tests, for its thresholds and prompts."""
    [path] = (catalog.ROOT / "levels" / level / "checkpoint").glob("test_*.py")
    spec = importlib.util.spec_from_file_location(f"checkpoint_{level}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copying(x, weight):
    """A `linear` that makes a transposed copy of every weight at every call."""
    return x @ weight.T.contiguous()
