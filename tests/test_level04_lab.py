"""The ceiling lab of level 04 on a tiny model: the predictions are the katas', each round runs the same; no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import TINY, random_params
from tests.controls import module_at, solutions_of


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level04"):
        yield module_at(catalog.ROOT / "levels" / "level04" / "labs" / "ceiling.py")


@pytest.fixture(autouse=True)
def quick(lab, monkeypatch):
    """Small probes, a tiny model in place of SmolLM2, and the number of threads put back."""
    monkeypatch.setattr(lab, "probe_bytes", lambda cache: 2**20)
    monkeypatch.setattr(lab, "load", lambda: (TINY, random_params(TINY), {}))
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_every_round_of_a_step_runs_one_token_of_each_sequence(lab, monkeypatch):
    runs, true = [], lab.forward

    def noting(params, config, ids, cache):
        runs.append((tuple(ids.shape), cache.length))
        return true(params, config, ids, cache)

    monkeypatch.setattr(lab, "forward", noting)
    step = lab.stepping(random_params(TINY), TINY, 3, 16)
    step(), step()
    assert runs == [((3, 1), 15)] * 2


def test_the_points_are_what_the_katas_say(lab):
    here = lab.Hardware("slow", 1e9, 1e8, 0)
    one, eight = lab.points(TINY, here, {1: 0.5, 8: 1.0}, 16)
    cost = lab.decode_step_cost(TINY, 8, 16, 4, 4)
    assert (one.batch, one.measured, eight.measured) == (1, 2.0, 8.0)
    assert eight.ceiling == pytest.approx(8 / max(cost["flops"] / 1e9, cost["bytes"] / 1e8))
    assert eight.mbu == pytest.approx(cost["bytes"] / 1e8) and eight.intensity == cost["intensity"]


def test_the_chips_stand_in_the_order_of_their_bandwidth(lab):
    """Llama-3-8B on an H100 at context 1024: 221 tokens/s alone, 9,085 for 64, and 296 as critical batch."""
    rows = {name: row for name, *row in lab.on_chips()}
    assert len(rows) >= 8
    alone, together, critical = rows["NVIDIA H100 SXM5"]
    assert (alone, together) == (pytest.approx(221.2, abs=0.1), pytest.approx(9085, abs=1)) and critical == 296
    assert list(rows) == sorted(rows, key=lambda name: rows[name][0])


def test_it_prints_both_tables_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--batches", "2,1", "--context", "16", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "ceiling.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert " batch  FLOP/byte  bound by   ceiling  measured  reached    MBU\n     1 " in printed
    assert "64 together" in printed and "NVIDIA H100 SXM5" in printed and "You said" not in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


def test_who_sits_there_is_asked_first(lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lab.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "40")
    lab.main(["--batches", "1", "--context", "16", "--rounds", "1", "--out", str(tmp_path)])
    assert "You said 40 tokens/s; the ceiling is " in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda prompt: "no idea")
    assert lab.asked() is None


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--batches", "1,x"], "--batches 1,x is not a list of numbers: write 1,2,4"),
        (["--batches", "0,1"], "a batch has at least 1 sequence, and at least 1 round is timed: give larger numbers"),
        (["--rounds", "0"], "a batch has at least 1 sequence, and at least 1 round is timed: give larger numbers"),
        (["--context", "1"], f"--context 1 does not fit this model: give 2 to {TINY.max_seq_len}"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$".replace("(", r"\(").replace("+", r"\+")):
        lab.main(argv)


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(lab, tmp_path):
    tmp_path.joinpath("file").write_text("")
    with pytest.raises(SystemExit, match="cannot be made .*: name another folder"):
        lab.main(["--out", str(tmp_path / "file" / "out")])
