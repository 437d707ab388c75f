"""The drafts lab of level 08 on a tiny model with SmolLM2's vocabulary: what it measures and draws; no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import Config, load, random_params
from tests.controls import module_at, solutions_of

MODEL = Config(2, 64, 4, 2, 16, 64, 49152, max_seq_len=512, tie_embeddings=False)


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*(f"level{n:02}" for n in range(9))):
        yield module_at(catalog.ROOT / "levels" / "level08" / "labs" / "drafts.py")


@pytest.fixture(scope="module")
def model():
    return MODEL, random_params(MODEL), load()[2]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


def test_the_dial_sets_the_acceptance_rate(lab, model):
    bench = lab.Bench(model, "any text", 40, 1)
    draw = torch.Generator().manual_seed(0)
    for alpha, passes in ((0.0, 40), (1.0, 8)):
        _, found, number = bench.timed(bench.dial(alpha, draw), 4)
        assert (found, number) == (alpha, passes)
    _, found, number = bench.timed(bench.dial(0.5, draw), 4)
    assert 0.3 <= found <= 0.7 and 8 < number < 40


def test_every_drafter_is_there_with_what_it_was_predicted_to_gain(lab, model):
    costs, dial, real = lab.measure(model, 16, 3, 1)
    assert set(costs) == {1, 2, 3, 4, 5, 9, 17} and len(dial) == len(lab.DIAL)
    assert [row[0] for row in real[:: len(real) // 2]] == ["copied words, old text", "copied words, new text"]
    assert dial[0][1] == 0 and dial[-1][1:3] == (1.0, 4)


def test_it_prints_and_leaves_a_picture(lab, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lab, "load", lambda: model)
    lab.main(["--tokens", "8", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "drafts.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.count("dial at") == 6 and "copied words, new text" in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--tokens", "2"], "at least 8 tokens, drafts of 1 to 16 and at least 1 round: give other numbers"),
        (["--gamma", "0"], "at least 8 tokens, drafts of 1 to 16 and at least 1 round: give other numbers"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=sentence):
        lab.main(argv)
