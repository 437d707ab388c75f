"""Given: two models of one family, and a task that neither can do without the prompt's keys and values.

A prompt is 16 pairs, one token each: token key · 12 + value says that this key has this value. Then come 8 queries, a
token each that names a key: the answer is the value that the prompt gave it. Values are drawn anew for each prompt, so
a model that has not read the prompt, and holds no cache of it, guesses. Weights are stored for three seeds, "a", "b"
and "c", trained by tools/oracles/level15_pair.py; both models run on level 00's forward pass.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import forward
from level02.cache import KVCache

from .handoff import Layers, load_cache, read_cache

N_KEYS, N_VALUES, NUM_PAIRS, NUM_QUERIES = 24, 12, 16, 8
VOCAB = N_KEYS * N_VALUES + N_KEYS  # pairs, then queries
STORED = Path(__file__).resolve().parents[2] / "levels" / "level15" / "checkpoint"
# two widths and depths, two RoPE bases; both have 2 KV heads of 16
SENDER = Config(2, 48, 4, 2, 16, 128, VOCAB, rope_theta=10000.0, max_seq_len=256, tie_embeddings=False)
RECEIVER = Config(3, 80, 4, 2, 16, 192, VOCAB, rope_theta=500000.0, max_seq_len=256, tie_embeddings=False)


class Model(NamedTuple):
    params: dict[str, Tensor]
    config: Config


def prompts(batch: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(prompts (batch, 16), queries (batch, 8), answers (batch, 8) in 0..11): keys of a prompt differ."""
    draw = torch.Generator().manual_seed(seed)
    keys = torch.stack([torch.randperm(N_KEYS, generator=draw)[:NUM_PAIRS] for _ in range(batch)])
    values = torch.randint(0, N_VALUES, (batch, NUM_PAIRS), generator=draw)
    asked = torch.stack([torch.randperm(NUM_PAIRS, generator=draw)[:NUM_QUERIES] for _ in range(batch)])
    return keys * N_VALUES + values, N_KEYS * N_VALUES + keys.gather(1, asked), values.gather(1, asked)


def table(of_keys: Tensor, of_values: Tensor) -> Tensor:
    """Embeddings (312, d) from those of 24 keys and of 12 values and "unknown": a pair's is the sum of its two parts.

    That is the structure that the two models share. With a free vector for each pair both learn the task as well, and
    no linear map leads from one to the other.
    """
    pairs = of_keys[:, None] + of_values[None, :N_VALUES]
    return torch.cat([pairs.flatten(0, 1), of_keys + of_values[N_VALUES]])


@cache
def load_pair(seed: str = "a") -> tuple[Model, Model]:
    """(sender, receiver), float32, from the stored float16."""
    from safetensors.torch import load_file

    stored = {name: weight.float() for name, weight in load_file(STORED / f"pair_{seed}.safetensors").items()}
    models = []
    for role, config in (("sender", SENDER), ("receiver", RECEIVER)):
        params = {name.removeprefix(role + "."): w for name, w in stored.items() if name.startswith(role + ".")}
        params["model.embed_tokens.weight"] = table(params.pop("keys"), params.pop("values"))
        models.append(Model(params, config))
    return models[0], models[1]


def prefill(model: Model, token_ids: Tensor, start: int = 0) -> Layers:
    """The layers' keys and values of token_ids (B, S), whose first token stands at position `start`."""
    batch, num_tokens = token_ids.shape
    held = KVCache(model.config, batch, num_tokens)
    with torch.no_grad():
        forward(model.params, model.config, token_ids, held, positions=torch.arange(start, start + num_tokens))
    return read_cache(held, model.config, batch)


def answer(model: Model, layers: Layers | None, queries: Tensor, start: int, **seams) -> Tensor:
    """Logits (B, 8, 12) of queries (B, 8), the first at position `start`, behind a cache from anywhere, or none.

    The prompt itself is not among the arguments: whatever is known of it comes out of `layers`.
    """
    batch, num_queries = queries.shape
    held = None
    if layers is not None:
        held = KVCache(model.config, batch, layers[0][0].shape[2] + num_queries)
        load_cache(held, model.config, dict(enumerate(layers)))
    positions = torch.arange(start, start + num_queries)
    with torch.no_grad():
        return forward(model.params, model.config, queries, held, positions=positions, **seams)


def accuracy(logits: Tensor, answers: Tensor) -> float:
    return (logits.argmax(-1) == answers).double().mean().item()
