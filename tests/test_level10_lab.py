"""The labs of level 10, smaller: what they compute, print and draw. Both are simulations, so numbers repeat."""

import numpy as np
import pytest

from dojo import catalog
from tests.controls import module_at, solutions_of

LABS = catalog.ROOT / "levels" / "level10" / "labs"


@pytest.fixture(scope="module")
def labs():
    """{name: module}, over the solutions."""
    with solutions_of(*(f"level{n:02}" for n in range(11))):
        yield {name: module_at(LABS / f"{name}.py") for name in ("honest", "split")}


def test_a_client_that_waits_hides_what_open_loop_shows(labs):
    views = labs["honest"].three_views(8.0, 400.0, 10.0, np.random.default_rng(1))
    waiting, repaired, open_loop = (np.percentile(x, 99) for x in views.values())
    assert waiting < 1 < open_loop and waiting <= repaired < open_loop
    assert sum(x > 1 for x in views["one client that waits"]) == 1, "the whole stall is one sample"


def test_a_queue_by_hand(labs):
    """Arrivals 0, 1, 1.5 of 1 s of work each, and a stall from 2 to 5: ends at 1, 2 and 6."""
    ends = labs["honest"].answer_times([0, 1, 1.5], [1, 1, 1], (2, 5))
    assert ends.tolist() == [1, 2, 6]


def test_near_saturation_the_formula_holds(labs):
    for _, mean, formula in labs["honest"].near_saturation(np.random.default_rng(2), 40_000)[:3]:
        assert mean == pytest.approx(formula, rel=0.2)


def test_chosen_by_their_end_the_slow_ones_are_left_out(labs):
    due, answered = labs["honest"].chosen_wrongly(8.0, np.random.default_rng(3))
    assert due > 1.2 * answered


def test_splitting_ends_the_gaps_and_an_average_does_not_see_them(labs):
    """At 3 requests a second: nobody's average is too slow, and alike most streams stand still once."""
    split = labs["split"]
    prefill, step, transfer = split.durations(4000, 50)
    assert (prefill, step, transfer) == pytest.approx((0.1299, 0.00698, 0.01059), rel=0.01)
    rate, found = split.sweep(4000, 150, 50, 100)[1]
    assert [*found["split"][2:], found["alike"][2]] == pytest.approx([1, 1, 1]) and found["alike"][3] < 0.5
    gaps = split.one_stream(4000, 50)
    assert max(gaps["alike"]) == pytest.approx(prefill + step) and max(gaps["split"]) == pytest.approx(step + transfer)


@pytest.mark.parametrize(
    "name, argv", [("honest", ["--seconds", "100", "--stall", "5"]), ("split", ["--tokens", "20"])]
)
def test_they_print_and_leave_a_picture(labs, name, argv, tmp_path, capsys, monkeypatch):
    if name == "split":
        monkeypatch.setattr(labs[name], "SHARES", (0.2, 0.9))
        argv = [*argv, "--num-requests", "30"]
    labs[name].main([*argv, "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert max(map(len, capsys.readouterr().out.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "name, argv, sentence",
    [
        ("honest", ["--rate", "12"], "a rate below 10, at least 100 seconds and a stall of less than a quarter"),
        (
            "split",
            ["--link", "0"],
            "at least 1 token, a link above 0 GB/s and at least 20 requests: give other numbers",
        ),
    ],
)
def test_bad_arguments_get_a_sentence(labs, name, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}"):
        labs[name].main(argv)
