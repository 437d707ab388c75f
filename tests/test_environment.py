"""What `nox` installs into .venv, when, and what it says when it can't. No network, no real pip."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

import environment
from environment import install

ROOT = Path(__file__).resolve().parent.parent
MINOR = "3.12"


class Machine:
    """Stands in for virtualenv and pip: notes each command, leaves behind what it would, fails where it is told to."""

    def __init__(self, root: Path):
        self.venv = root / ".venv"
        self.python = self.venv / environment.PYTHON.relative_to(environment.VENV)
        folder = "Lib" if os.name == "nt" else f"lib/python{MINOR}"
        self.packages = self.venv / folder / "site-packages"
        self.commands: list[str] = []
        self.failing: dict[str, str] = {}  # a part of the command -> what it prints before it exits 1

    def run(self, *command, output=None, **extra):
        line = " ".join(map(str, command))
        self.commands.append(line)
        for part, text in self.failing.items():
            if part in line:
                output.write(text)
                output.flush()
                return 1
        if "virtualenv" in line:
            self.make()
        elif not self.python.exists():
            raise FileNotFoundError(f"no {self.python}")
        for word in command:
            name, _, version = str(word).partition("==")
            if version:
                self.install(name, version)
        if "uninstall" in command:
            shutil.rmtree(next(self.packages.glob(f"{command[-1]}-*")))
        return 0

    def make(self, version=f"{MINOR}.3"):
        shutil.rmtree(self.venv, ignore_errors=True)
        self.packages.mkdir(parents=True)
        self.python.parent.mkdir(exist_ok=True)
        self.python.touch()
        (self.venv / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion_info = {version}.final.0\n")

    def install(self, name, version):
        metadata = self.packages / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.touch()

    def installs(self):
        """The arguments of each `pip install` that installs something."""
        return [c.partition("--no-input ")[2] for c in self.commands if "pip install" in c and "--help" not in c]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """An empty clone on Linux, in a path with a space."""
    root = tmp_path / "my katas"
    (root / "levels").mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", root)
    machine = Machine(root)
    for module in (environment, install):
        for name, value in {"ROOT": root, "VENV": machine.venv, "PYTHON": machine.python}.items():
            monkeypatch.setattr(module, name, value)
        monkeypatch.setattr(module, "STAMP", machine.venv / "kata.stamp")
    monkeypatch.setattr(install, "NOTES", root / ".nox")
    monkeypatch.setattr(install, "LOG", root / ".nox/install.log")
    monkeypatch.setattr(install, "run", machine.run)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("KATA_TORCH", raising=False)
    return machine


def setup() -> list[str]:
    """Make the environment ready; the lines that were said."""
    said: list[str] = []
    environment.ensure(said.append)
    return said


def settings() -> dict:
    return install.settings()["tool"]["kata"]


def test_a_first_run_installs_the_cpu_build_alone_then_the_rest_then_the_model(machine):
    """The default Linux wheel brings several GB; a requirement resolved before torch is there could choose it."""
    said = setup()
    torch, rest, model = machine.installs()
    assert torch.endswith(f"--extra-index-url {install.CPU_INDEX} torch=={settings()['torch']}+cpu")
    assert "--no-deps" in torch  # else an index out of reach would be asked about each dependency
    assert rest.startswith(f"torch=={settings()['torch']}+cpu numpy")
    assert model.startswith("--no-deps") and model.endswith(settings()["model"])
    assert len(said) == 4  # .venv, torch, the rest, the model: one line each


def test_a_ready_environment_starts_no_process(machine):
    """pip takes a second to find out that there is nothing to do."""
    setup()
    machine.commands.clear()
    assert setup() == [] and machine.commands == []


def test_the_levels_are_importable_from_anywhere_even_after_the_clone_moved(machine):
    """`python -m level00.bpe` and the REPL; the path is relative to the file that holds it."""
    setup()
    line = (machine.packages / "kata.pth").read_text().strip()
    assert (machine.packages / line).resolve() == environment.ROOT / "levels"


@pytest.mark.parametrize("change", ["pyproject", "interpreter", "stamp", "KATA_TORCH"])
def test_what_the_environment_was_made_from_decides_whether_it_is_ready(machine, monkeypatch, change):
    """Else an updated clone runs with the packages of last month."""
    setup()
    machine.commands.clear()
    if change == "pyproject":
        with (environment.ROOT / "pyproject.toml").open("a") as file:
            file.write("# one more line\n")
    elif change == "interpreter":
        machine.make("3.12.9")
    elif change == "stamp":
        environment.STAMP.unlink()
    else:
        monkeypatch.setenv("KATA_TORCH", "cuda")
    setup()
    assert machine.installs()
    machine.commands.clear()
    assert setup() == [] and machine.commands == []


def test_the_cuda_build_replaces_the_cpu_build_and_stays(machine, monkeypatch):
    """To pip 2.13.0+cpu satisfies ==2.13.0, so it is uninstalled; later runs need not repeat the variable."""
    setup()
    monkeypatch.setenv("KATA_TORCH", "cuda")
    machine.commands.clear()
    setup()
    assert any("pip uninstall" in c for c in machine.commands)
    assert machine.installs()[0] == f"torch=={settings()['torch']}"
    monkeypatch.delenv("KATA_TORCH")
    machine.commands.clear()
    assert setup() == [] and machine.commands == []


def test_an_unknown_build_is_refused(machine, monkeypatch):
    monkeypatch.setenv("KATA_TORCH", "rocm")
    with pytest.raises(environment.SetupError, match="KATA_TORCH is cpu or cuda, not 'rocm'"):
        setup()


def test_a_torch_of_the_users_own_that_fits_is_kept(machine):
    """Somebody filled .venv themselves; nobody asked for another build."""
    machine.make()
    machine.install("torch", "2.14.0")
    setup()
    assert machine.installs()[0].startswith("torch==2.14.0 numpy")
    assert not any("uninstall" in c for c in machine.commands)


def test_without_the_cpu_index_the_default_build_is_taken_and_its_size_said(machine):
    machine.failing["+cpu"] = "ERROR: No matching distribution found for torch"
    said = setup()
    assert machine.installs()[1] == f"torch=={settings()['torch']}"
    assert any("several GB" in line for line in said)


def test_a_full_disk_is_not_answered_with_a_larger_wheel(machine):
    machine.failing["+cpu"] = "ERROR: [Errno 28] No space left on device"
    with pytest.raises(environment.SetupError, match="PyTorch could not be installed: the disk .* is full; free about"):
        setup()
    assert len(machine.installs()) == 1


def test_elsewhere_the_plain_wheel_is_the_cpu_build(machine, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    setup()
    assert machine.installs()[0] == f"torch=={settings()['torch']}"


def test_without_the_model_the_katas_still_run(machine):
    """One sentence, no error, and no new attempt on each run."""
    machine.failing[settings()["model"]] = "ERROR: No matching distribution found"
    assert "`nox -s doctor` says how" in setup()[-1]
    assert setup() == []


@pytest.mark.parametrize(
    "printed, sentence",
    [
        ("WARNING: Retrying after NameResolutionError\nERROR: No matching distribution found", "there is no network; "),
        ("ERROR: No matching distribution found for numpy", "there is none for Python 3.12.3 "),
        ("OSError: [Errno 28] No space left on device", "the disk that holds "),
        ("SSLError(CERTIFICATE_VERIFY_FAILED)", "set PIP_CERT "),
        ("Traceback\nERROR: something else broke.", r"something else broke \(more in \.nox/install\.log\)"),
        ("", "it stopped without a word"),
    ],
)
def test_a_failed_install_ends_in_one_sentence_with_the_fix(machine, printed, sentence):
    machine.failing[" numpy"] = printed
    with pytest.raises(environment.SetupError, match=sentence) as error:
        setup()
    assert str(error.value).endswith("run the same command again") and "\n" not in str(error.value)


def test_an_interrupted_first_run_is_taken_up_again(machine, monkeypatch):
    """Ctrl-C after torch: the second run keeps it and goes on."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(install, "fill_model", lambda say: (_ for _ in ()).throw(KeyboardInterrupt))
        setup()
    machine.commands.clear()
    setup()
    assert not any("virtualenv" in c or "+cpu --" in c for c in machine.commands)
    assert setup() == []


def test_an_environment_whose_pip_is_broken_is_made_anew(machine):
    machine.make()
    machine.failing[" install --quiet --disable-pip-version-check --no-input --help"] = "ModuleNotFoundError: pip"
    assert setup()[0].startswith("making .venv")


def test_but_not_the_environment_that_nox_runs_from(machine, monkeypatch):
    machine.make()
    machine.failing["--help"] = "ModuleNotFoundError: pip"
    monkeypatch.setattr(sys, "prefix", str(machine.venv))
    with pytest.raises(environment.SetupError, match="nox runs from there: delete .venv and make it anew"):
        setup()


def test_a_python_that_does_not_fit_is_refused_before_anything_is_made(machine, monkeypatch):
    """uvx takes the newest interpreter it finds; PyTorch may have no wheel for it."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(environment.SetupError, match=r"and this is 3\.10\.4: run `uvx --python 3\.12 nox`"):
        setup()
    assert not machine.venv.exists()


def test_the_callers_shell_does_not_reach_the_child(monkeypatch):
    """A PYTHONPATH of another project shadows ours; PIP_USER installs beside .venv."""
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example")
    env = environment.child_environment(DOJO_SUMMARY="here")
    assert "elsewhere" not in env.values()
    assert env["PIP_INDEX_URL"] == "https://mirror.example" and env["DOJO_SUMMARY"] == "here"


@pytest.mark.skipif(os.name == "nt", reason="os.kill can't press Ctrl-C there")
@pytest.mark.parametrize("code", [0, 2])
def test_ctrl_c_lets_the_child_end_in_its_own_way(code):
    """pytest prints what it has; a pdb session in which it was pressed goes on. Nothing else of the run follows."""
    child = f"import os, signal; os.kill(os.getppid(), signal.SIGINT); raise SystemExit({code})"
    if code:
        with pytest.raises(KeyboardInterrupt):
            environment.run(sys.executable, "-c", child)
    else:
        assert environment.run(sys.executable, "-c", child) == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
