"""Which folder `import level03` means: the learner's, the solution's, or a copy with one module replaced."""

import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from pathlib import Path

from . import catalog
from .progress import Progress

VARIABLE = "DOJO_MOUNT"  # the table, for child processes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def plan(under_test: list[str], impl: str, progress: Progress) -> dict[str, Path]:
    """Level -> folder: the learner's for the levels under test and the cleared ones, else the solution's."""
    table = {}
    for level in catalog.level_names():
        mine = impl == "levels" and (level in under_test or progress.level_cleared(level))
        table[level] = catalog.ROOT / ("levels" if mine else "solutions") / level
    return table


def mount_all(table: dict[str, Path]) -> None:
    for level, folder in table.items():
        mount(level, folder)
    os.environ[VARIABLE] = json.dumps({level: str(folder) for level, folder in table.items()})


def one_thread() -> None:
    """Before torch and numpy are imported, for this process and its children: small tests gain nothing from more."""
    for name in THREADS:
        os.environ.setdefault(name, "1")


def mount_from_environment() -> None:
    """For a child process: the parent's table, before any level is imported."""
    for level, folder in json.loads(os.environ.get(VARIABLE, "{}")).items():
        mount(level, Path(folder))


class Source(importlib.machinery.SourceFileLoader):
    """Compiles what the file says now. Cached bytecode is trusted by second and size: too coarse for quick edits."""

    def get_code(self, fullname: str) -> types.CodeType:
        return compiled(self.get_data(self.path), self.path)


class Finder:
    """Finds the modules of mounted levels, so that they are loaded by `Source`."""

    @staticmethod
    def find_spec(fullname: str, path=None, target=None) -> importlib.machinery.ModuleSpec | None:
        level, _, module = fullname.partition(".")
        # subtle: not hasattr: a package with a __getattr__ of its own would import what is just being looked for
        if not module or "__mounted__" not in getattr(sys.modules.get(level), "__dict__", {}):
            return None
        file = folder_of(level).joinpath(*module.split(".")).with_suffix(".py")
        if not file.is_file():
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=Source(fullname, str(file)))


def mount(name: str, folder: Path, replaced: dict[str, tuple[str, dict]] | None = None) -> None:
    """Make `name` a package over `folder`, forgetting what it was; a second copy of a level gets a name of its own.

    replaced  module name -> (source, extra globals): executed instead of the module's file; if that raises,
              nothing is mounted and the exception passes on
    """
    unmount(name)
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)
    package = types.ModuleType(name)
    package.__path__, package.__mounted__ = [str(folder)], True
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    package.__spec__.submodule_search_locations = package.__path__
    sys.modules[name] = package
    for module, (source, extra) in (replaced or {}).items():
        path = folder / f"{module}.py"
        loaded = types.ModuleType(f"{name}.{module}")
        loaded.__file__, loaded.__package__ = str(path), name
        loaded.__dict__.update(extra)
        sys.modules[loaded.__name__] = loaded
        setattr(package, module, loaded)
        try:
            exec(compiled(source, str(path)), loaded.__dict__)
        except BaseException:
            unmount(name)
            raise


@functools.lru_cache(1024)  # a gauntlet tries each ghost many times
def compiled(source: str | bytes, path: str) -> types.CodeType:
    return compile(source, path, "exec")


def unmount(name: str) -> None:
    for key in [k for k in sys.modules if k == name or k.startswith(name + ".")]:
        del sys.modules[key]


def folder_of(level: str) -> Path:
    """The folder that `import levelNN` reads now."""
    return Path(sys.modules[level].__path__[0])


def resolve(dotted: str):
    """`level03.sampling.top_p` or `level12.pool.BlockPool.allocate` -> the object, in whatever is mounted."""
    level, module, *names = dotted.split(".")
    thing = importlib.import_module(f"{level}.{module}")
    for name in names:
        thing = getattr(thing, name)
    return thing
