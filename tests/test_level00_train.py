"""The training lab of level 00 on a tiny model: it learns, its arithmetic is right, and it says what is wrong."""

import math
import subprocess
from pathlib import Path

import pytest
import torch

from tests.controls import module_at, solutions_of

ROOT = Path(__file__).resolve().parent.parent
RHYME = "the cat sat on the mat.\nthe dog sat on the log.\nthe cat saw the dog and the dog saw the cat.\n" * 20
TINY = ["--layers", "1", "--heads", "2", "--d", "32", "--context", "16", "--batch", "8", "--steps", "60"]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00"):
        yield module_at(ROOT / "levels" / "level00" / "labs" / "train.py")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rhyme(tmp_path):
    file = tmp_path / "rhyme.txt"
    file.write_text(RHYME, "utf-8")
    return ["--text", str(file), "--out", str(tmp_path / "out")]


@pytest.fixture
def small(lab):
    """(params, config, x, y): eight windows of the rhyme for a model of one layer."""
    args = lab.parse(TINY)
    characters = sorted(set(RHYME))
    ids = torch.tensor([characters.index(c) for c in RHYME])
    config = lab.shape(args, len(characters))
    return lab.initial_params(config, 0), config, *lab.windows(ids, 40 * torch.arange(8), args.context)


def gradient(params):
    return torch.cat([p.grad.flatten() for p in params.values()])


@pytest.mark.parametrize("switch", [[], ["--amp"], ["--accum", "4"]], ids=["plain", "amp", "accum"])
def test_the_loss_starts_at_the_uniform_guess_and_falls(lab, rhyme, switch):
    args = lab.parse([*TINY, *switch])
    characters = sorted(set(RHYME))
    ids = torch.tensor([characters.index(c) for c in RHYME])
    _, losses, exams = lab.train(ids, lab.shape(args, len(characters)), args)
    uniform = math.log(len(characters))
    assert abs(losses[0] / uniform - 1) < 0.15 and abs(exams[0][1] / uniform - 1) < 0.15
    assert losses[-1] < 0.75 * losses[0] and exams[-1][1] < 0.75 * exams[0][1]
    assert len(losses) == 60 and exams[0][0] == 0 and exams[-1][0] == 60


def test_the_loss_is_that_of_the_next_character(lab, small):
    """Oracle: the negative log probability of text[i + 1] after the logits at i, summed by hand."""
    params, config, x, y = small
    assert torch.equal(y[:, :-1], x[:, 1:])
    log_probs = lab.forward(params, config, x).log_softmax(-1)
    by_hand = -sum(log_probs[b, i, y[b, i]].item() for b in range(8) for i in range(16)) / (8 * 16)
    assert lab.lm_loss(params, config, x, y).item() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("accum", [2, 4, 8])
def test_accumulated_gradients_are_those_of_the_whole_batch(lab, small, monkeypatch, accum):
    params, config, x, y = small
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)
    optimizer = torch.optim.SGD(params.values(), lr=0.0)
    losses, gradients = [], []
    for parts in (1, accum):
        losses.append(lab.train_step(params, config, optimizer, x, y, accum=parts))
        gradients.append(gradient(params).clone())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    error = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert error < 1e-4


def test_the_gradient_is_clipped_to_length_one(lab, small):
    params, config, x, y = small
    with torch.no_grad():
        params["model.embed_tokens.weight"] *= 200  # large logits that are wrong: a gradient longer than 1
    lab.train_step(params, config, torch.optim.SGD(params.values(), lr=0.0), x, y)
    assert gradient(params).norm().item() == pytest.approx(1.0, rel=1e-3)


def test_it_leaves_a_picture_and_a_sample(lab, rhyme, tmp_path, capsys):
    lab.main([*TINY, *rhyme])
    out = tmp_path / "out"
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    sample = (out / "sample.txt").read_text("utf-8")
    assert len(sample) == 301 and set(sample) <= set(RHYME)
    printed = capsys.readouterr().out
    assert str(out / "loss.png") in printed and str(out / "sample.txt") in printed
    assert "tokens/s" in printed and "bits per character" in printed


def test_equal_seeds_give_equal_runs(lab, rhyme, tmp_path):
    samples = []
    for seed in "001":
        lab.main([*TINY, *rhyme, "--seed", seed])
        samples.append((tmp_path / "out" / "sample.txt").read_text("utf-8"))
    assert samples[0] == samples[1] != samples[2]


def test_compile_falls_back_with_one_sentence(lab, small, monkeypatch, capsys):
    params, config, x, y = small

    def broken(_):
        def fails(*_, **__):
            raise RuntimeError("no compiler")

        return fails

    monkeypatch.setattr(torch, "compile", broken)
    assert lab.compiled(params, config, x, y, amp=False) is lab.forward
    assert "--compile is left out (RuntimeError): it needs a C++ compiler" in capsys.readouterr().out


def test_without_a_network_it_trains_on_the_standard_librarys_text(lab, tmp_path, monkeypatch, capsys):
    def offline(*_, **__):
        raise subprocess.TimeoutExpired("pip", 60)

    monkeypatch.setenv("KATA_CACHE", str(tmp_path))
    monkeypatch.setattr(lab, "find_spec", lambda _: None)
    monkeypatch.setattr(subprocess, "run", offline)
    assert len(lab.corpus(None)) > 100_000
    assert "text: Python's help texts" in capsys.readouterr().out


def test_the_plays_are_kept_as_plain_text(lab, tmp_path, monkeypatch):
    markdown = "# Macbeth\n\n**First Witch**  \nWhen shall we three meet _again_\n"
    monkeypatch.setenv("KATA_CACHE", str(tmp_path))
    monkeypatch.setattr(lab, "find_spec", lambda _: None)
    monkeypatch.setattr(lab, "download_plays", lambda: [markdown])
    text = "Macbeth\n\nFirst Witch\nWhen shall we three meet again\n"
    assert lab.plays() == text
    monkeypatch.setattr(lab, "download_plays", lambda: pytest.fail("downloaded twice"))
    assert lab.plays() == text


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--d", "30", "--heads", "4"], "--d 30 cannot be shared by 4 heads .* give a multiple of 8"),
        (["--d", "12", "--heads", "4"], "give a multiple of 8"),
        (["--context", "1"], "--context 1 leaves nothing to look back at: give at least 2"),
        (["--steps", "0"], "--steps 0 is too small: give at least 1"),
        (["--batch", "16", "--accum", "3"], "--batch 16 is not 3 equal parts: give an --accum that divides it"),
        (["--text", "no-such-file.txt"], "no-such-file.txt cannot be read .*: name a UTF-8 text file"),
        (["--context", "500"], "the text has 1860 characters.* give a text of at least 5010, or a smaller --context"),
    ],
)
def test_a_bad_argument_is_one_sentence_with_its_fix(lab, rhyme, argv, sentence):
    with pytest.raises(SystemExit, match=sentence) as stop:
        lab.main([*rhyme, *argv])
    assert "\n" not in str(stop.value)
