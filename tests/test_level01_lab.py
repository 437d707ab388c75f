"""The cache lab of level 01 at tiny lengths: it runs the right tokens, draws, and says what is wrong. No seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import TINY, random_params
from tests.controls import module_at, solutions_of


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01"):
        yield module_at(catalog.ROOT / "levels" / "level01" / "labs" / "cache_curve.py")


@pytest.mark.parametrize("length", [2, 16, 32])
def test_the_ratio_of_the_tokens_that_run_is_the_length(lab, length):
    params, sizes = random_params(TINY), []

    def noting(params, config, token_ids, *rest, **how):
        sizes.append(token_ids.numel())
        return lab.forward(params, config, token_ids, *rest, **how)

    for make in (lab.without_cache, lab.with_cache):
        make(params, TINY, list(range(length)), forward=noting)()
    assert sizes == [length, 1]


def test_every_round_of_a_step_finds_the_same_cache(lab):
    """Otherwise the fifth round would be measured at another length than the first."""
    params, behind = random_params(TINY), []

    def noting(params, config, token_ids, cache, **how):
        behind.append(cache.length)
        return lab.forward(params, config, token_ids, cache, **how)

    step = lab.with_cache(params, TINY, [1] * 8, forward=noting)
    for _ in range(3):
        step()
    assert behind == [7, 7, 7]


def test_the_prediction_is_that_of_the_counts(lab):
    """With a cache the FLOPs agree exactly; without one the whole square of scores is computed."""
    for step in lab.steps_at(random_params(TINY), TINY, 16):
        masked = 0 if step.way == lab.WITH else 4 * TINY.n_layers * TINY.n_heads * TINY.head_dim * 16 * 15 // 2
        assert step.cost.flops == step.predicted["flops"] + masked


def test_both_roofs_bind(lab):
    step = lab.Step(lab.WITH, 8, lambda: None, {"flops": 600, "bytes": 100}, None)
    assert step.least_seconds(bandwidth=10, arithmetic=100) == 10  # moving 100 bytes takes longer than 600 FLOPs
    assert step.least_seconds(bandwidth=1000, arithmetic=100) == 6


def test_the_model_without_width_starts_as_many_operators(lab):
    """What it takes is then the price of starting them."""
    thin = lab.thin(TINY)
    calls = [lab.count(lab.with_cache(random_params(c), c, [1] * 8)).calls.total() for c in (TINY, thin)]
    assert calls[0] == calls[1]


def test_it_prints_a_table_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--lengths", "8,4", "--rounds", "1", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "cache_curve.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for fed, held in ((8, 0), (1, 7)):
        cost = lab.phase_cost(lab.SMALL, fed, held, 4, last_only=False)
        assert f"{8:>8}{fed:>8}{cost['flops'] / 1e6:>12,.1f}{cost['bytes'] / 1e6:>9,.1f}" in printed
    assert "From 4 tokens of prompt until 8 have been fed, 30 tokens run without it, 8 with it." in printed
    assert str(tmp_path / "out" / "cache_curve.png") in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before, "the lab puts the number of threads back"


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--lengths", "16,x"], "--lengths 16,x is not a list of numbers: write 16,32,64"),
        (["--lengths", ""], "--lengths  is not a list of numbers: write 16,32,64"),
        (["--lengths", "1,16"], "--lengths holds 1, and a cache needs something to hold: give at least 2"),
        (["--lengths", "16,5000"], "--lengths holds 5000, and this model ends at 4096 tokens: give at most 4096"),
        (["--rounds", "0"], "--rounds 0 measures nothing: give at least 1"),
        (["--out", __file__], "--out .* cannot be made .*: name another folder"),
    ],
)
def test_a_bad_argument_is_one_sentence_with_its_fix(lab, tmp_path, argv, sentence):
    with pytest.raises(SystemExit, match=sentence) as stop:
        lab.main(["--out", str(tmp_path), *argv])
    assert "\n" not in str(stop.value)
