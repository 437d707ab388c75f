"""Tensor parallelism: level 00's forward pass on a rank's part of the model, with the other ranks behind two seams.

A matrix that is split by inputs gives a partial sum, and so does an embedding that is split by tokens: those two, and
nothing else of a layer, talk to the other ranks.
"""

from collections.abc import Collection, Sequence
from functools import partial

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward
from level01.generate import generate
from level06.weights import any_linear

from .collectives import ring_all_gather, ring_all_reduce
from .comm import Comm
from .shard import shard_params


def row_parallel_linear(comm: Comm, x: Tensor, shard: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return what the whole matrix, and its bias, make of the whole input: (..., out), the same on every rank.

    x      (..., in / size): this rank's features of the input, in the order of the ranks
    shard  (out, in / size): this rank's part of the weight; whatever level 06's any_linear takes
    bias   (out,), whole on every rank, or None

    One all-reduce of the result's size, and x stays as it is.
    Example: two ranks, x = [1, 2], W = [[1, 0], [0, 1]], bias [10, 20]: both get [11, 22].

    ●● · about 2 lines · needs level09.collectives.ring_all_reduce
    """
    # solution:begin a partial sum; when is it complete?
    total = ring_all_reduce(comm, any_linear(x, shard))
    return total if bias is None else total + bias  # subtle: added before the sum it would count once for every rank
    # solution:end


def vocab_parallel_embedding(comm: Comm, token_ids: Tensor, shard: Tensor) -> Tensor:
    """Return the embeddings of token_ids, (..., d_model), the same on every rank.

    token_ids  (...) int64, whole on every rank
    shard      (vocab / size, d_model): rank r has the rows of the tokens r · vocab / size and up

    A look-up is a product with rows of zeros and a one, so that this is row parallel too: one all-reduce.
    Example: 2 ranks, 4 tokens: token 3 is row 1 of rank 1, and rank 0 contributes zeros.

    ●● · about 4 lines · part of row_parallel_linear
    """
    # solution:begin what does a rank contribute for a token that is not its own?
    rows = token_ids - comm.rank * len(shard)
    theirs = (rows < 0) | (rows >= len(shard))
    own = shard[rows.masked_fill(theirs, 0)].masked_fill(theirs.unsqueeze(-1), 0)
    return ring_all_reduce(comm, own)
    # solution:end


def vocab_parallel_argmax(comm: Comm, logits: Tensor) -> Tensor:
    """Return the most likely token of each row over all ranks, (n,) int64, the same on every rank; a tie: smallest id.

    logits  (n, vocab / size): of this rank's part of the vocabulary, as for vocab_parallel_embedding; float32 or less

    It sends no more than 16 bytes for each row to the right neighbour, size - 1 times: not the logits.
    Example: 2 ranks with [[0.5, 2]] and [[2, 1]]: token 1.

    ●● · about 5 lines · needs level09.collectives.ring_all_reduce
    """
    # solution:begin two numbers tell all that matters of a rank's part
    best = logits.argmax(-1)
    value = logits.gather(-1, best.unsqueeze(-1)).squeeze(-1)
    pair = torch.stack([value.double(), best + comm.rank * logits.shape[-1]], -1)  # float64 holds both exactly
    values, ids = ring_all_gather(comm, pair.unsqueeze(0)).unbind(-1)  # (size, n)
    winner = values.argmax(0, keepdim=True)  # the first of a tie: lower ranks have lower ids
    return ids.gather(0, winner).squeeze(0).long()
    # solution:end


class RowParallel:
    """A matrix split by inputs, as `any_linear` takes it in place of a tensor. Given."""

    def __init__(self, comm: Comm, shard: Tensor):
        self.comm, self.shard = comm, shard
        self.nbytes = shard.nbytes

    def linear(self, x: Tensor) -> Tensor:
        return row_parallel_linear(self.comm, x, self.shard)


class VocabParallel:
    """An embedding split by tokens: indexed, it gives whole rows; as a tied head, this rank's logits. Given."""

    def __init__(self, comm: Comm, shard: Tensor):
        self.comm, self.shard = comm, shard
        self.nbytes = shard.nbytes

    def __getitem__(self, token_ids: Tensor) -> Tensor:
        return vocab_parallel_embedding(self.comm, token_ids, self.shard)

    def linear(self, x: Tensor) -> Tensor:
        return any_linear(x, self.shard)


def parallel_params(comm: Comm, params: Params, config: Config) -> tuple[Params, Config]:
    """This rank's (params, config) for level 00's forward, with linear=any_linear. Given."""
    own, config = shard_params(params, config, comm.rank, comm.size)
    for name, w in own.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            own[name] = RowParallel(comm, w)
        elif name == "model.embed_tokens.weight":
            own[name] = VocabParallel(comm, w)
    return own, config


def parallel_generate(
    comm: Comm,
    params: Params,
    config: Config,
    prompt: Sequence[int],
    max_tokens: int,
    stop_ids: Collection[int] = (),
    cache=None,
) -> list[int]:
    """Level 01's greedy `generate` on this rank, from the whole model's params and config. Given."""
    own, config = parallel_params(comm, params, config)
    on_rank = partial(forward, linear=any_linear)

    def choose(logits: Tensor, prompt_ids: list[list[int]], output_ids: list[list[int]]) -> Tensor:
        return vocab_parallel_argmax(comm, logits)

    return generate(own, config, prompt, max_tokens, stop_ids, cache, choose=choose, forward=on_rank)
