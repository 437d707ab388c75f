"""The lab of level 11 with short contexts: what it predicts, prints and draws; no seconds."""

import pytest
import torch

from dojo import catalog
from tests.controls import module_at, solutions_of

LEVELS = [f"level{n:02}" for n in range(12)]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield module_at(catalog.ROOT / "levels" / "level11" / "labs" / "bytes.py")


def test_on_paper_two_architectures_change_places(lab):
    """At batch 1 the 670 billion parameters read less than Gemma's 27, at batch 16 four times as much."""
    alone, crowd = lab.on_paper([1024], 1), lab.on_paper([1024], 16)
    assert alone["DeepSeek-V3"] < alone["Gemma-3-27B"] and crowd["DeepSeek-V3"] > 4 * crowd["Gemma-3-27B"]
    assert len(set(lab.on_paper([256, 65536], 16)["Mamba-2-2.7B"])) == 1


def test_random_tokens_touch_as_many_experts_as_the_formula_says(lab):
    for n_experts, k, batch in ((8, 2, 1), (8, 2, 4), (256, 8, 16)):
        right = lab.expected_experts_touched(n_experts, k, batch)
        assert lab.experts_touched(n_experts, k, batch, 200) == pytest.approx(right, rel=0.03)


def test_both_ways_over_latents_give_the_same_and_a_state_knows_no_context(lab):
    short, long = lab.steps(32), lab.steps(600)
    for steps in (short, long):
        made, absorbed = steps["keys made of latents"](), steps["latents as they are"]()
        assert torch.allclose(made, absorbed, atol=1e-3)
    assert torch.equal(short["a state"]()[0], long["a state"]()[0])


def test_it_prints_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--contexts", "16,64", "--batch", "2", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "bytes.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "GB a step at batch 2, by context" in printed and printed.count("DeepSeek-V3") == 3
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--contexts", "8,x"], "--contexts 8,x is not a list of numbers: write 256,1024"),
        (["--contexts", "0"], "contexts of 1 to 65536 tokens, at least 1 sequence and 1 round: give other numbers"),
        (["--batch", "0"], "contexts of 1 to 65536 tokens, at least 1 sequence and 1 round: give other numbers"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
