"""The wires lab of level 09 with a tiny model and few bytes: what it predicts, prints and draws; no seconds."""

import pytest

from dojo import catalog
from tests.controls import module_at, solutions_of

LEVELS = [f"level{n:02}" for n in range(10)]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield module_at(catalog.ROOT / "levels" / "level09" / "labs" / "wires.py")


def test_a_prediction_needs_two_measured_messages(lab, monkeypatch):
    """Oracle: a link of 1 ms and 8 GB/s, which answers at once."""

    class Known:
        size = 4

        def run(self, fn, num_bytes, rounds):
            steps = 1 if fn is lab.exchange else 6
            return [steps * (1e-3 + num_bytes * (1 if steps == 1 else 1 / 4) / 8e9)] * 4

    link = lab.measure_link(Known(), 3)
    assert (link.latency, link.bandwidth) == pytest.approx((1e-3, 8e9), rel=1e-5)
    for _, predicted, measured in lab.reduces(Known(), link, 3):
        assert predicted == pytest.approx(measured, rel=1e-3)


def test_on_paper_more_gpus_are_slower_from_some_number_on(lab):
    paper = lab.on_paper()
    assert paper["without messages"] == sorted(paper["without messages"], reverse=True)
    for name, fastest in (("NVLink", 4), ("a network", 2)):
        assert min(zip(paper[name], lab.GPUS))[1] == fastest


@pytest.mark.timeout(180)
def test_it_prints_and_leaves_a_picture(lab, tmp_path, capsys, monkeypatch):
    """Real processes, two of them, and three for the model's tokens."""
    monkeypatch.setattr(lab, "SIZES", (8, 2304))
    lab.main(["--ranks", "2", "--tokens", "2", "--rounds", "2", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "wires.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "on three, with 246 messages for a token" in printed and printed.count("2,304") == 1
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--ranks", "2,x"], "--ranks 2,x is not a list of numbers: write 2,3"),
        (["--ranks", "1"], "2 to 4 ranks, at least 2 tokens and at least 1 round: give other numbers"),
        (["--tokens", "1"], "2 to 4 ranks, at least 2 tokens and at least 1 round: give other numbers"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
