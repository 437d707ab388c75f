"""The samplers' lab of level 03: right rows, right numbers beside them, a picture, and sentences for bad arguments."""

import pytest
import torch

from dojo import catalog
from dojo.models import TINY, random_params
from tests.controls import module_at, solutions_of

PROMPT = [5, 17, 3]


@pytest.fixture(scope="module")
def lab():
    """The lab's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03"):
        yield module_at(catalog.ROOT / "levels" / "level03" / "labs" / "samplers.py")


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before, "the lab puts the number of threads back"


def greedily(lab, params, prompt, tokens):
    """The most likely token again and again, without a cache and without this level."""
    ids = list(prompt)
    for _ in range(tokens):
        ids.append(int(lab.forward(params, TINY, torch.tensor([ids]))[0, -1].argmax()))
    return ids[len(prompt) :]


def test_every_sampler_has_its_row_and_the_seed_decides(lab):
    params = random_params(TINY)
    rows = lab.sampled(params, TINY, PROMPT, 8, (), 3)
    assert list(rows) == list(lab.SAMPLERS) and {len(row) for row in rows.values()} == {8}
    assert rows["greedy"] == greedily(lab, params, PROMPT, 8)
    assert rows == lab.sampled(params, TINY, PROMPT, 8, (), 3)
    other = lab.sampled(params, TINY, PROMPT, 8, (), 4)
    assert other["greedy"] == rows["greedy"] and other["temperature 1.5"] != rows["temperature 1.5"]


def test_the_settings_are_those_that_the_names_say(lab):
    named = {name: {word: float(number) for word, number in pairs(name)} for name in lab.SAMPLERS}
    for name, settings in lab.SAMPLERS.items():
        said = named[name]
        assert settings.temperature == (0 if name.startswith("greedy") else said["temperature"])
        assert settings.top_k == said.get("top-k", 0) and settings.top_p == said.get("top-p", 1)
        assert settings.min_p == said.get("min-p", 0) and settings.repetition_penalty == said.get("penalty", 1)
    for name, settings in lab.TRUNCATIONS.items():
        [(word, number)] = pairs(name)
        assert getattr(settings, word.replace("-", "_")) == float(number)


def pairs(name):
    """ "temperature 1, top-k 50" -> (temperature, 1), (top-k, 50)."""
    return [part.split()[-2:] for part in name.split(", ") if part.split()[-1][0].isdigit()]


def test_the_beams_find_a_text_at_least_as_likely_as_greedy_decoding(lab):
    """Per token: on this model no text ends early."""
    params = random_params(TINY)
    found = lab.searched(params, TINY, PROMPT, 5, -1)
    assert len(found) == 5
    best, greedy = (
        lab.text_of(params, TINY, PROMPT, "", tokens) for tokens in (found, greedily(lab, params, PROMPT, 5))
    )
    assert best.logprob >= greedy.logprob


def test_a_text_is_measured_by_the_model_s_own_log_probabilities(lab):
    params, tokens = random_params(TINY), [7, 7, 30, 7]
    text = lab.text_of(params, TINY, PROMPT, "some", tokens)
    total = 0.0
    for n, token in enumerate(tokens):
        logits = lab.forward(params, TINY, torch.tensor([[*PROMPT, *tokens[:n]]]))[0, -1]
        total += logits.double().log_softmax(-1)[token].item()
    assert text.logprob == pytest.approx(total / 4, abs=1e-4)
    assert text.distinct == 0.5 and text.sampler == "some"


def test_what_is_kept_and_how_undecided_a_distribution_is(lab):
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    assert lab.entropy(logits) == pytest.approx(1.75)
    counts = [lab.kept(logits, lab.SamplingParams(top_p=0.7), temperature) for temperature in (0.5, 1.0, 4.0)]
    assert counts == [1, 2, 3]  # at 0.5: 0.727; at 4: 0.311, 0.261, 0.22
    assert lab.kept(logits, lab.SamplingParams(top_k=3), 4.0) == 3
    assert lab.kept(logits, lab.SamplingParams(min_p=0.5), 0.5) == 1  # the second has a quarter of the first


def test_it_prints_texts_and_a_table_and_leaves_a_picture(lab, tmp_path, capsys):
    lab.main(["--prompt", "The capital of France is", "--tokens", "2", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "samplers.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for name in lab.SAMPLERS:
        assert f"\n{name:<34}" in printed
    assert "beam search, 4 beams" in printed and "… Paris." in printed
    assert f"{'  temperature 1':<28}{50:>12}{1:>12}{10:>12}{606:>12}{1:>12}{2:>12}" in printed
    assert f"{'  temperature 1.5':<28}{50:>12}{754:>12}{'11,303':>12}{'30,833':>12}{7:>12}{36:>12}" in printed
    assert str(tmp_path / "out" / "samplers.png") in printed
    assert max(map(len, printed.splitlines()[:-1])) <= 120


@pytest.mark.parametrize(
    "argv, sentence",
    [
        (["--prompt", ""], "--prompt is empty, and the model needs a token to go on from: give at least one character"),
        (["--tokens", "0"], "--tokens 0 makes no text: give at least 1"),
        (["--tokens", "9000"], "--tokens 9000 after the 4 of the prompt are more than the model's 8192: give fewer"),
        (["--out", __file__], "--out .* cannot be made .*: name another folder"),
    ],
)
def test_a_bad_argument_is_one_sentence_with_its_fix(lab, tmp_path, argv, sentence):
    with pytest.raises(SystemExit, match=sentence) as stop:
        lab.main(["--out", str(tmp_path), *argv])
    assert "\n" not in str(stop.value)
