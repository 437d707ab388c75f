"""The quantize lab of level 06 on a tiny model: its rows, its table, its picture; no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import Config, random_params
from tests.controls import module_at, solutions_of

MODEL = Config(2, 64, 4, 2, 16, 128, 101, max_seq_len=64, tie_embeddings=False)


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05", "level06"):
        yield module_at(catalog.ROOT / "levels" / "level06" / "labs" / "quantize.py")


@pytest.fixture(autouse=True)
def quick(lab, monkeypatch):
    """A tiny model and a text of random tokens, and the number of threads put back."""
    ids = torch.randint(0, 101, (1, 40), generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(lab, "load", lambda: (MODEL, random_params(MODEL), {}))
    monkeypatch.setattr(lab, "text_ids", lambda data: ids)
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_it_measures_prints_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--groups", "64,32", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "quantize.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    names = [name for name, _ in lab.variants(random_params(MODEL), [64, 32])]
    lines = {name: next(line for line in printed.splitlines() if line.startswith(name)) for name in names}
    assert lines["float32"].split()[2:6] == ["0.0000", lines["float32"].split()[3], "0.0000", "100%"]
    assert lines["float32"].split()[-2] == "1.00" and float(lines["bfloat16"].split()[-2]) == 2
    assert printed.count("keys by") == 3 and max(map(len, printed.splitlines()[:-1])) <= 120


def test_kernels_are_used_where_there_are_any(lab, monkeypatch):
    assert [name for name, _ in lab.variants({}, [64])][-1] == "int4 of 64, kernel, head int8"
    assert [name for name, _ in lab.variants({}, [32])][-1] == "int8, kernel, head too"
    monkeypatch.setattr(lab, "available", lambda: False)
    assert [name for name, _ in lab.variants({}, [64])][-1] == "int4, groups of 64"


def test_the_kernels_compute_what_the_codes_say(lab):
    """Oracle: the same codes, times their scales, in float64."""
    w = random_params(MODEL)["model.layers.0.mlp.up_proj.weight"]
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(1))
    for slow, fast in ((lab.Int8Weight(w), lab.Int8Kernel(w)), (lab.Int4Weight(w, 64), lab.Int4Kernel(w, 64))):
        right, found = slow.linear(x.double() if isinstance(slow, lab.Int8Weight) else x), fast.linear(x)
        assert found.dtype == torch.float32 and found.shape == (2, 3, 128)
        assert lab.relative_error(right.double(), found.double()) < 0.01
        assert fast.nbytes < 0.3 * w.nbytes


def test_a_step_leaves_the_cache_as_it_was(lab, monkeypatch):
    seen, true = [], lab.forward

    def noting(params, config, ids, cache=None, **seams):
        seen.append((cache.length, ids.shape[1]))
        return true(params, config, ids, cache, **seams)

    monkeypatch.setattr(lab, "forward", noting)
    step = lab.stepping(MODEL, random_params(MODEL), torch.ones(1, 40, dtype=torch.int64))
    step(), step()
    assert seen == [(0, 16), (16, 1), (16, 1)]


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--groups", "1,x"], "--groups 1,x is not a list of numbers: write 32,64,192"),
        (["--groups", "48"], "--groups 48 does not divide the rows of 64 and 128 weights: try 64"),
        (["--groups", "32", "--rounds", "0"], "at least 1 round, and more than 16 tokens: give more"),
        (["--groups", "32", "--tokens", "16"], "at least 1 round, and more than 16 tokens: give more"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
