"""The tiles lab of level 07 with the heads of a tiny model: what it counts, prints and draws; no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import Config
from tests.controls import module_at, solutions_of

MODEL = Config(2, 32, 4, 2, 8, 64, 101, max_seq_len=128)


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05", "level06", "level07"):
        yield module_at(catalog.ROOT / "levels" / "level07" / "labs" / "tiles.py")


@pytest.fixture(autouse=True)
def quick(lab, monkeypatch):
    """The tiny model's heads, and the number of threads put back."""
    for name, value in (("CONFIG", MODEL), ("H", 4), ("G", 2), ("D", 8), ("BLOCKS", (4, 16))):
        monkeypatch.setattr(lab, name, value)
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_what_is_counted_is_what_the_formula_says(lab):
    *tiles, (name, predicted, counted) = lab.traffic(256)
    assert [row[0] for row in tiles] == ["16"] and name == "whole" and counted > predicted
    for _, formula, measured in tiles:
        assert measured == pytest.approx(formula, rel=0.05)


def test_all_ways_give_the_same(lab):
    whole, tiles, library = (call() for call in lab.ways(96))
    assert torch.allclose(tiles[0], whole, atol=1e-5) and torch.allclose(library, whole, atol=1e-5)


def test_a_decode_step_moves_the_cache_once_or_three_times(lab):
    rows = {name: megabytes for name, megabytes, _ in lab.decoding(64, 1)}
    held = 2 * 2 * 2 * 8 * 4 * 64 / 1e6  # layers, keys and values, heads, head_dim, float32, tokens
    assert rows["through the table, blocks of 16"] == pytest.approx(held, rel=0.2)
    assert rows["gathered, blocks of 16"] == pytest.approx(3 * held, rel=0.2)


def test_it_prints_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--lengths", "64,128", "--context", "32", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "tiles.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "128 tokens, causal" in printed and printed.count("through the table, blocks") == 2
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--lengths", "64,x"], "--lengths 64,x is not a list of numbers: write 256,512"),
        (["--lengths", "32"], "a length of at least 64, a context of at least 2 and at least 1 round: give more"),
        (["--context", "1"], "a length of at least 64, a context of at least 2 and at least 1 round: give more"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
