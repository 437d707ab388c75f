"""The lab of level 15 with few prompts: what it measures, prints and draws; no seconds."""

import pytest

from dojo import catalog
from tests.controls import module_at, solutions_of

LEVELS = [f"level{n:02}" for n in range(16)]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield module_at(catalog.ROOT / "levels" / "level15" / "labs" / "handoff.py")


def test_the_receivers_own_cache_has_full_marks(lab):
    judged = lab.Judged("a")
    assert judged.measures(judged.own) == pytest.approx([1, 1, 1, 1], abs=1e-6)


def test_more_prompts_help_and_all_heads_are_better(lab):
    found = lab.maps("a", [1, 4, 64])
    kept = {name: [row[0] for row in rows] for name, rows in found.items()}
    assert kept["all heads"] == sorted(kept["all heads"]) and kept["all heads"][-1] > 0.95
    assert kept["all heads"][-1] > kept["head by head"][-1] + 0.1


def test_a_long_context_is_worth_a_slower_link(lab):
    """8B: 4.3 GB/s at 4,096 tokens, and half of it at 65,536, since attention grows with the square."""
    paper = lab.links()
    assert all(values == sorted(values, reverse=True) for values in paper.values())
    assert paper["Llama-3.1-8B"][-1] == pytest.approx(1.341, abs=1e-3)


def test_it_prints_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--prompts", "2,8", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "handoff.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "GB/s of a link that breaks even" in printed and printed.count("R² of the keys") == 2
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--prompts", "8,x"], "--prompts 8,x is not a list of numbers: write 4,32,256"),
        (["--prompts", "0"], "calibration takes 1 to 4096 prompts: give other numbers"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
