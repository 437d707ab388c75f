"""The flip lab of level 05 on a tiny model: each round runs the same, the lines are the katas'; no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import TINY, random_params
from tests.controls import module_at, solutions_of


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05"):
        yield module_at(catalog.ROOT / "levels" / "level05" / "labs" / "flip.py")


@pytest.fixture(autouse=True)
def quick(lab, monkeypatch):
    """Small probes, a tiny model in place of SmolLM2, and the number of threads put back."""
    monkeypatch.setattr(lab, "probe_bytes", lambda cache: 2**20)
    monkeypatch.setattr(lab, "load", lambda: (TINY, random_params(TINY), {}))
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_every_round_of_a_step_runs_one_token_of_each_sequence(lab, monkeypatch):
    runs, true = [], lab.packed_step

    def noting(params, config, caches, chunks):
        runs.append(([cache.length for cache in caches], list(map(len, chunks))))
        return true(params, config, caches, chunks)

    monkeypatch.setattr(lab, "packed_step", noting)
    step = lab.stepping(random_params(TINY), TINY, 3, 16)
    step(), step()
    assert runs == [([15] * 3, [1] * 3)] * 2


def test_the_roofs_predict_a_fixed_part_and_a_part_for_each_sequence(lab):
    cost = lab.decode_step_cost(TINY, 1, 16, 4, 4)
    fast_reader = lab.Hardware("x", 1e6, 1e12, 0)
    assert lab.predicted(TINY, fast_reader, 16) == (cost["weight_bytes"] / 1e12, cost["flops"] / 1e6)
    fast_products = lab.Hardware("x", 1e18, 1e6, 0)
    assert lab.predicted(TINY, fast_products, 16) == (cost["weight_bytes"] / 1e6, cost["kv_bytes"] / 1e6)


def test_it_prints_the_line_and_leaves_a_picture(lab, tmp_path, capsys, monkeypatch):
    here = lab.Hardware("x", 1e9, 1e8, 0)
    monkeypatch.setattr(lab, "measure", lambda *_: (here, [0.030, 0.033, 0.039]))
    lab.main(["--batches", "4,1,2", "--context", "16", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "flip.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line.strip()}
    assert rows["1"][1:4] == ["30.0", "33.3", "1.0"] and rows["4"][1:4] == ["39.0", "102.6", "3.1"]
    assert rows["4"][-1] == "39.0" and "a step, ms                      27.0" in printed
    assert "a sequence, ms                  3.00" in printed and "flip, sequences                  9.0" in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


def test_it_measures_for_real(lab, tmp_path, capsys):
    lab.main(["--batches", "1,2", "--context", "16", "--rounds", "1", "--out", str(tmp_path)])
    assert "by the roofs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--batches", "1,x"], "--batches 1,x is not a list of numbers: write 1,2,4"),
        (["--batches", "4"], "a line needs two batches of at least 1 sequence, and at least 1 round: give more"),
        (["--rounds", "0"], "a line needs two batches of at least 1 sequence, and at least 1 round: give more"),
        (["--context", "1"], f"--context 1 does not fit this model: give 2 to {TINY.max_seq_len}"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
