"""dojo.mount: which folder `import levelNN` means, in this process and in its children."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dojo import catalog, mount
from dojo.progress import Progress

KATA = '''
def value():
    """Return a number.

    ● · about 1 line
    """
    return {}
'''
FILES = {
    "level70/given.py": "WHOSE = __file__\n",
    "level70/sums.py": "from .given import WHOSE\n" + KATA.format(70),
    "level71/more.py": "from level70 import sums\nfrom . import own\n" + KATA.format("sums.value() + own.ONE"),
    "level71/own.py": "ONE = 1\n",
    "level72/last.py": "import level71.more\n" + KATA.format("72"),
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    monkeypatch.delenv(mount.VARIABLE, raising=False)
    for tree in ("levels", "solutions"):
        for name, text in FILES.items():
            (tmp_path / tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / tree / name).write_text(text, encoding="utf-8")
    yield tmp_path
    for name in [m for m in sys.modules if m.startswith(("level7", "private"))]:
        sys.modules.pop(name, None)


def owners(table: dict[str, Path]) -> str:
    return " ".join(folder.parent.name for folder in table.values())


def clear(level):
    progress = Progress()
    for id in [*(k.id for k in catalog.katas(level)), f"{level}.checkpoint"]:
        progress.record(id, True)


# ---- the plan


def test_the_level_under_test_is_the_learners_and_earlier_ones_when_cleared(root):
    assert owners(mount.plan(["level71"], "levels", Progress())) == "solutions levels solutions"
    clear("level70")
    assert owners(mount.plan(["level71"], "levels", Progress())) == "levels levels solutions"


def test_an_edited_level_comes_from_the_solutions_until_it_is_run_again(root):
    clear("level70")
    (root / "levels/level70/given.py").write_text("WHOSE = ''  # another\n", encoding="utf-8")
    assert owners(mount.plan(["level71"], "levels", Progress())) == "solutions levels solutions"
    assert owners(mount.plan(["level70"], "levels", Progress())) == "levels solutions solutions"


def test_several_levels_in_one_run_are_all_the_learners(root):
    assert owners(mount.plan(["level70", "level72"], "levels", Progress())) == "levels solutions levels"


def test_solutions_everywhere_when_asked_for(root):
    clear("level70")
    assert owners(mount.plan(["level71"], "solutions", Progress())) == "solutions solutions solutions"


def test_a_kata_alone_does_not_bring_the_learners_folder(root):
    Progress().record("level70.sums.value", True)
    assert owners(mount.plan(["level71"], "levels", Progress())) == "solutions levels solutions"


# ---- the mount


def test_a_mounted_level_is_one_folder_and_never_a_mixture(root):
    (root / "levels/level70/given.py").unlink()
    mount.mount("level70", root / "levels/level70")
    with pytest.raises(ModuleNotFoundError, match=r"level70\.given"):
        importlib.import_module("level70.sums")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("level70.tests")


def test_levels_import_each_other_as_mounted(root):
    (root / "levels/level70/sums.py").write_text(KATA.format(700), encoding="utf-8")
    mount.mount_all(mount.plan(["level70"], "levels", Progress()))
    assert mount.resolve("level71.more.value")() == 701
    mount.mount_all(mount.plan([], "solutions", Progress()))
    assert mount.resolve("level71.more.value")() == 71
    assert mount.folder_of("level70") == root / "solutions/level70"


def test_mounting_again_forgets_what_was_loaded(root):
    mount.mount("level70", root / "levels/level70")
    first = mount.resolve("level70.sums.value")
    mount.mount("level70", root / "solutions/level70")
    second = mount.resolve("level70.sums.value")
    assert first is not second and second.__code__.co_filename == str(root / "solutions/level70/sums.py")
    mount.unmount("level70")
    assert not [name for name in sys.modules if name.startswith("level70")]


def test_an_edit_within_the_same_second_and_of_the_same_size_is_seen(root, monkeypatch):
    """Python trusts cached bytecode by second and size. Then an edit would be judged late."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = root / "levels/level70/sums.py"
    for number in range(10, 15):
        path.write_text(KATA.format(number), encoding="utf-8")
        os.utime(path, (1e9, 1e9))
        mount.mount("level70", root / "levels/level70")
        assert mount.resolve("level70.sums.value")() == number
    assert not list(root.rglob("__pycache__")), "and the learner's folder stays tidy"


def test_a_replaced_module_is_what_its_siblings_import(root):
    program = (KATA.format("__ghost__()"), {"__ghost__": lambda: 5})
    mount.mount("level71", root / "solutions/level71", {"own": ("ONE = 1000", {})})
    mount.mount("level70", root / "solutions/level70", {"sums": program})
    assert mount.resolve("level71.more.value")() == 1005
    assert mount.resolve("level70.sums").__file__ == str(root / "solutions/level70/sums.py")
    assert mount.resolve("level70.given.WHOSE") == str(root / "solutions/level70/given.py"), "the others are the files"


def test_a_replaced_module_may_import_its_own_level(root):
    source = "from .given import WHOSE\nfrom . import given\nimport level70.given as same\n"
    mount.mount("level70", root / "solutions/level70", {"sums": (source, {})})
    assert mount.resolve("level70.sums").given is mount.resolve("level70.sums").same


def test_a_replaced_module_that_raises_leaves_nothing_behind(root):
    with pytest.raises(ZeroDivisionError):
        mount.mount("level70", root / "solutions/level70", {"sums": ("1 / 0", {})})
    assert not [name for name in sys.modules if name.startswith("level70")]


def test_a_second_copy_has_a_private_name_and_private_siblings(root):
    mount.mount("level70", root / "levels/level70")
    mount.mount("private70", root / "solutions/level70")
    assert mount.resolve("private70.sums.WHOSE") == str(root / "solutions/level70/given.py")
    assert mount.resolve("level70.sums.WHOSE") == str(root / "levels/level70/given.py")
    assert mount.resolve("private70.sums").__package__ == "private70"
    mount.unmount("private70")
    assert "level70.sums" in sys.modules


def test_packages_that_make_their_names_when_asked_are_left_alone(root, tmp_path, monkeypatch):
    """Such as pydantic: whoever asks it for a name that it does not have sends it to import, and that asks again."""
    package = tmp_path / "lazy_one"
    package.mkdir()
    lazy = "def __getattr__(name):\n    import importlib\n    return importlib.import_module(f'.{name}', __name__)\n"
    package.joinpath("__init__.py").write_text(lazy, encoding="utf-8")
    package.joinpath("part.py").write_text("ONE = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    mount.mount("level70", root / "solutions/level70")
    assert importlib.import_module("lazy_one.part").ONE == 1


def test_an_id_leads_to_the_object(root):
    (root / "levels/level70/sums.py").write_text("class A:\n    def f(self): ...\n", encoding="utf-8")
    mount.mount("level70", root / "levels/level70")
    assert mount.resolve("level70.sums.A.f").__qualname__ == "A.f"
    with pytest.raises(AttributeError):
        mount.resolve("level70.sums.B")


def test_children_mount_what_their_parent_has(root):
    """Ranks and servers are processes of their own: they must run the learner's file, and say which it was."""
    mount.mount_all(table := mount.plan(["level70"], "levels", Progress()))
    assert json.loads(os.environ[mount.VARIABLE]) == {name: str(folder) for name, folder in table.items()}
    code = "from dojo import mount\nmount.mount_from_environment()\n"
    code += "print(mount.resolve('level70.sums').__file__, mount.resolve('level71.more.value').__code__.co_filename)"
    env = os.environ | {"PYTHONPATH": str(Path(mount.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert run.stdout.split() == [str(root / "levels/level70/sums.py"), str(root / "solutions/level71/more.py")], (
        run.stderr
    )


def test_a_child_without_a_table_mounts_nothing(root):
    mount.mount_from_environment()
    assert "level70" not in sys.modules


def test_threads_are_limited_unless_the_learner_says_otherwise(monkeypatch):
    for name in mount.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    mount.one_thread()
    assert [os.environ[name] for name in mount.THREADS] == ["4", "1", "1", "1"]
