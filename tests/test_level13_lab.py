"""The lab of level 13: what it predicts, counts, prints and draws; no seconds."""

import pytest

from dojo import catalog
from tests.controls import module_at, solutions_of

LEVELS = [f"level{n:02}" for n in range(14)]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield module_at(catalog.ROOT / "levels" / "level13" / "labs" / "tiles.py")


def test_decode_is_flat_and_a_tall_tile_makes_it_wait(lab):
    paper = lab.on_paper()
    low, tall, plain = (paper[name] for name in ("tiles of 16 x 128", "tiles of 128 x 128", "the roofline alone"))
    at = lab.TOKENS.index
    assert low[at(8)] < 1.01 * low[at(1)] and low[at(1)] == pytest.approx(plain[at(1)])
    assert tall[at(1)] == pytest.approx(17.91, abs=0.01) and tall[at(128)] == tall[at(1)]
    assert all(curve[i] >= plain[i] * 0.999999 for curve in paper.values() for i in range(len(plain)))


def test_larger_tiles_load_less(lab):
    loaded = lab.tiled(1)["loaded, over what there is"]
    assert loaded == sorted(loaded, reverse=True)
    assert loaded[0] == pytest.approx((64 * 256 * 256 + 256 * 256 * 64) / (64 * 256 + 256 * 256))
    assert loaded[-1] == 1


def test_it_prints_and_leaves_a_picture(lab, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lab, "ELEMENTS", 2**12)
    lab.main(["--stride", "4", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "tiles.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "microseconds on an H100, by tokens" in printed and "a stride of 4 apart" in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize("argv", [["--stride", "1"], ["--stride", "65"], ["--rounds", "0"]])
def test_bad_arguments_get_a_sentence(lab, argv):
    with pytest.raises(SystemExit, match="^a stride of 2 to 64 elements, and at least 1 round: give other numbers$"):
        lab.main(argv)
