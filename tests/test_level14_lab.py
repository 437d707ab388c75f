"""The labs of level 14 with few steps: what they learn, print and draw; no seconds."""

import pytest
import torch

from dojo import catalog
from tests.controls import module_at, solutions_of

LEVELS, LABS = [f"level{n:02}" for n in range(15)], catalog.ROOT / "levels" / "level14" / "labs"


@pytest.fixture(scope="module")
def labs():
    """The labs' modules by name, over the solutions."""
    with solutions_of(*LEVELS):
        yield {name: module_at(LABS / f"{name}.py") for name in ("tune", "grpo")}


def test_an_adapter_learns_and_the_whole_model_has_it(labs):
    tuning = labs["tune"].Tuning(2)
    losses, _ = labs["tune"].learn(tuning, 2, 0.02)
    assert losses[-1][0] < losses[0][0] - 0.5 and losses[-1][1] < losses[0][1]
    name = "model.layers.22.self_attn.q_proj.weight"
    whole = tuning.whole()
    assert not torch.equal(whole[name], tuning.params[name]) and whole.keys() == tuning.params.keys()
    ids, learned, positions, mask = tuning.rows[1]
    logits = labs["tune"].forward(whole, tuning.config, ids, positions=positions, mask=mask)
    assert labs["tune"].sft_loss(logits, ids, learned).item() == pytest.approx(losses[-1][1], abs=1e-3)


def test_tune_prints_and_leaves_a_picture(labs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(labs["tune"], "ASKED", ("Name a tree.",))
    labs["tune"].main(["--steps", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "tune.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "61,440 of 134,515,008 numbers learn; AdamW keeps 491,648 bytes" in printed
    assert printed.count("before") == printed.count("after") == 1
    assert max(map(len, printed.splitlines()[:-1])) <= 120


def test_rewards_rise_and_most_of_the_time_is_decoding(labs):
    values, share = labs["grpo"].train(0, 16, 8, 8)
    assert sum(values[:2]) / 2 < 0.35 < sum(values[-2:]) / 2 and 0 < share < 1


def test_on_paper_a_larger_group_decodes_less(labs):
    shares = labs["grpo"].on_paper()
    assert shares == sorted(shares, reverse=True) and shares[3] == pytest.approx(0.408, abs=5e-4)


def test_grpo_prints_and_leaves_a_picture(labs, tmp_path, capsys):
    labs["grpo"].main(["--steps", "2", "--group", "2", "--tokens", "2", "--seeds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "grpo.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "mean reward at step" in printed and "share of decoding" in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "name, argv, sentence",
    [
        ("tune", ["--steps", "0"], "at least 1 step, a rank of 1 to 192 and a rate above 0: give other numbers"),
        ("tune", ["--rank", "193"], "at least 1 step, a rank of 1 to 192 and a rate above 0: give other numbers"),
        ("grpo", ["--group", "1"], "at least 1 step and 1 seed, groups of 2 or more, 1 to 32 tokens"),
        ("grpo", ["--tokens", "33"], "at least 1 step and 1 seed, groups of 2 or more, 1 to 32 tokens"),
    ],
)
def test_bad_arguments_get_a_sentence(labs, name, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}"):
        labs[name].main(argv)
