"""The lab of level 12 with a tiny model: what it serves, counts, prints and draws; no seconds."""

from dataclasses import replace

import pytest
import torch

from dojo import catalog
from dojo.models import SMOLLM2, random_params
from tests.controls import module_at, solutions_of

LEVELS = [level for level in catalog.level_names() if level <= "level12"]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of(*LEVELS), torch.inference_mode():
        yield module_at(catalog.ROOT / "levels" / "level12" / "labs" / "pool.py")


@pytest.fixture(scope="module")
def tiny():
    config = replace(SMOLLM2, n_layers=1, d_model=36, n_heads=3, n_kv_heads=1, head_dim=12, d_ff=16, vocab_size=300)
    return random_params(config), config


def test_a_small_pool_runs_more_tokens_and_more_steps_for_the_same_answers(lab, tiny):
    requests = lab.requests_of(12, 300)
    prompts, asked = sum(len(r.prompt) for r in requests), sum(r.sampling.max_tokens for r in requests)
    wide, narrow = (lab.serve(*tiny, requests, blocks, False) for blocks in (400, 24))
    assert (wide.preempted, wide.new, wide.tokens) == (0, asked, prompts + asked - len(requests))
    assert narrow.new == asked and narrow.preempted > 0
    assert narrow.tokens > wide.tokens and narrow.steps > wide.steps


def test_with_the_prefix_cache_the_shared_beginning_runs_once(lab, tiny):
    requests = lab.requests_of(12, 300)
    cached, plain = (lab.serve(*tiny, requests, 400, caching) for caching in (True, False))
    assert plain.tokens - cached.tokens == 11 * lab.SHARED


def test_it_prints_and_leaves_a_picture(lab, tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lab, "load", lambda: (tiny[1], tiny[0]))
    lab.main(["--blocks", "40,12", "--requests", "4", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "pool.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert printed.count(" yes ") == printed.count(" no ") == 2
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--blocks", "64,x"], "--blocks 64,x is not a list of numbers: write 96,48"),
        (["--blocks", "11"], "pools of 12 blocks or more, and at least 1 request: give other numbers"),
        (["--requests", "0"], "pools of 12 blocks or more, and at least 1 request: give other numbers"),
    ],
)
def test_bad_arguments_get_a_sentence(lab, argv, sentence):
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        lab.main(argv)
