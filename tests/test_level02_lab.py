"""The memory lab of level 02 at tiny lengths: the right tokens run, the counts are the predictions, no seconds."""

import pytest
import torch

from dojo import catalog
from dojo.models import TINY, random_params
from tests.controls import module_at, solutions_of


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02"):
        yield module_at(catalog.ROOT / "levels" / "level02" / "labs" / "memory_curve.py")


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before, "the lab puts the number of threads back"


def test_every_round_of_a_step_runs_the_same_tokens_behind_the_same_cache(lab):
    """Otherwise the fifth round would be measured at another length than the first."""
    params, runs = random_params(TINY), []

    def noting(params, config, token_ids, cache=None, **how):
        runs.append((token_ids.numel(), cache.length if cache else 0))
        return lab.forward(params, config, token_ids, cache, **how)

    steps = [lab.without_cache(params, TINY, 8, forward=noting)]
    steps += [
        lab.with_cache(params, TINY, 8, lab.new_cache(way, TINY, 8), noting) for way in (lab.GROWING, lab.RESERVED)
    ]
    for step in steps:
        for _ in range(3):
            step()
    assert runs == [(8, 0)] * 3 + [(1, 7)] * 6


def test_what_the_caches_take_and_write_is_what_is_predicted(lab):
    per_token, length, room = lab.kv_bytes_per_token(TINY, 4), 16, 64
    found = lab.memory_at(TINY, length, room)
    assert found.held == length * per_token and found.reserved == room * per_token
    assert found.written == {lab.GROWING: found.joined, lab.RESERVED: per_token}
    assert found.joined == length * per_token
    # while the last layer's new keys and values are made, its old ones are still there
    assert found.peak == found.held + (length - 1) * per_token // TINY.n_layers


def test_growth_moves_what_it_joins_and_no_cache_is_left_out_where_it_takes_too_long(lab, monkeypatch):
    monkeypatch.setattr(lab, "LONGEST", 8)
    params = random_params(TINY)
    assert list(lab.steps_at(params, TINY, 8, 16)) == [(way, 8) for way in lab.LOOKS]
    steps = lab.steps_at(params, TINY, 16, 16)
    assert list(steps) == [(lab.GROWING, 16), (lab.RESERVED, 16)]
    growing, reserved = steps.values()
    joined = 16 * lab.kv_bytes_per_token(TINY, 4)
    assert growing.predicted - reserved.predicted == 2 * joined
    # one token's keys and values are read and written by both, and each is joined or put in its place
    assert 2 * (joined - 2 * joined / 16) <= growing.counted - reserved.counted <= 2 * joined


def test_it_prints_two_tables_and_leaves_two_pictures(lab, tmp_path, capsys):
    lab.main(["--lengths", "8,4", "--rounds", "1", "--out", str(tmp_path / "out")])
    for picture in ("speed_curve.png", "memory_curve.png"):
        assert (tmp_path / "out" / picture).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "4,096 bytes per token, KVCache with room for 8" in printed
    # a length; alive in both and the part unused; written for the last token, twice, and in the right cache; for all
    assert (
        "       4         0.02     0.03     50%            0.02      0.02    0.004               0.0      0.0"
        in printed
    )
    assert (
        "       8         0.04     0.03      0%            0.03      0.03    0.004               0.1      0.0"
        in printed
    )
    assert str(tmp_path / "out" / "memory_curve.png") in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--lengths", "16,x"], "--lengths 16,x is not a list of numbers: write 64,128,256"),
        (["--lengths", ""], "--lengths  is not a list of numbers: write 64,128,256"),
        (["--lengths", "1,16"], "--lengths holds 1, and a cache needs something to hold: give at least 2"),
        (["--lengths", "16,5000"], "--lengths holds 5000, and this model ends at 4096: give at most 4096"),
        (["--rounds", "0"], "--rounds 0 measures nothing: give at least 1"),
        (["--out", __file__], "--out .* cannot be made .*: name another folder"),
    ],
)
def test_a_bad_argument_is_one_sentence_with_its_fix(lab, tmp_path, argv, sentence):
    with pytest.raises(SystemExit, match=sentence) as stop:
        lab.main(["--out", str(tmp_path), *argv])
    assert "\n" not in str(stop.value)
