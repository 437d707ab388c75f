"""Which part of a model a rank holds: whole heads, whole features, and a slice of the vocabulary.

Weights are (out_features, in_features) and are applied as x @ W.T. "Column parallel" in the literature means the
columns of W.T: outputs. Every rank gets a block of neighbours, rank 0 the first one.
"""

from dataclasses import replace

from torch import Tensor

from dojo.models import Config
from level00.transformer import Params


def shard_out(w: Tensor, rank: int, size: int) -> Tensor:
    """Return this rank's outputs of a weight (out, in): (out / size, in).

    Example: rank 1 of 2: [[0, 1], [2, 3], [4, 5], [6, 7]] -> [[4, 5], [6, 7]].
    ValueError: the outputs do not divide.

    ● · about 1 line · part of shard_params
    """
    if w.shape[0] % size:
        raise ValueError(
            f"{w.shape[0]} outputs do not divide by {size} ranks: take a number of ranks that divides them"
        )
    # solution:begin which axis, which block?
    return w.chunk(size)[rank]
    # solution:end


def shard_in(w: Tensor, rank: int, size: int) -> Tensor:
    """Return this rank's inputs of a weight (out, in): (out, in / size), contiguous.

    Example: rank 1 of 2: [[0, 1, 2, 3], [4, 5, 6, 7]] -> [[2, 3], [6, 7]].
    ValueError: the inputs do not divide.

    ● · about 1 line · part of shard_params
    """
    if w.shape[1] % size:
        raise ValueError(f"{w.shape[1]} inputs do not divide by {size} ranks: take a number of ranks that divides them")
    # solution:begin the other axis
    return w.chunk(size, 1)[rank].contiguous()  # a view would keep the whole rows alive, and stride over them
    # solution:end


def heads_for_rank(n_heads: int, n_kv_heads: int, rank: int, size: int) -> tuple[range, range]:
    """Return this rank's query heads, and the KV heads that they read, as two ranges.

    Every rank has equally many query heads. With fewer KV heads than ranks several ranks have a copy of the same one.
    Within a rank, each KV head serves equally many query heads, as attention wants it.
    Example: 9 query heads, 3 KV heads, rank 1 of 3 -> heads 3 to 5, KV head 1. With 4 and 2 the KV heads
    of 4 ranks are 0, 0, 1 and 1.
    ValueError: n_heads is no multiple of n_kv_heads or of size; a rank would have parts of groups.

    ●● · about 4 lines
    """
    if n_heads % n_kv_heads or n_heads % size:
        raise ValueError(f"{n_heads} query heads must divide by {n_kv_heads} KV heads, and by {size} ranks")
    own, group = n_heads // size, n_heads // n_kv_heads
    if own % group and group % own:
        raise ValueError(f"{own} query heads on each rank cut through groups of {group}: take another number of ranks")
    # solution:begin a block of query heads; which KV heads do the first and the last of them read?
    heads = range(rank * own, (rank + 1) * own)
    return heads, range(heads[0] // group, heads[-1] // group + 1)
    # solution:end


def shard_params(params: Params, config: Config, rank: int, size: int) -> tuple[Params, Config]:
    """Return (params, config) of one rank: its part of every matrix under the same name, the other tensors whole.

    config  as it is, but with the rank's own n_heads and n_kv_heads: a KV cache that is made with it holds no more

    Between the layers activations are whole on every rank; inside attention and MLP each rank has its own heads and
    its own d_ff / size features. The vocabulary is split as well: "model.embed_tokens.weight" and "lm_head.weight" by
    tokens. Nothing is sent, and `params` stays as it is.
    Example: SmolLM2, rank 2 of 3: q_proj rows 384 to 575, k_proj rows 128 to 191, o_proj columns 384 to 575.
    ValueError: something does not divide. Megatron-LM, arXiv 1909.08053.

    ●● · about 14 lines · needs level09.shard.heads_for_rank
    """
    heads, kv_heads = heads_for_rank(config.n_heads, config.n_kv_heads, rank, size)
    # solution:begin for each kind of matrix: by heads, by inputs, by outputs, or not at all?
    own = {}
    for name, w in params.items():
        match name.split(".")[-2]:
            case "q_proj":
                own[name] = w[heads.start * config.head_dim : heads.stop * config.head_dim]
            case "k_proj" | "v_proj":
                own[name] = w[kv_heads.start * config.head_dim : kv_heads.stop * config.head_dim]
            case "o_proj" | "down_proj":  # their inputs are what this rank has made
                own[name] = shard_in(w, rank, size)
            case "gate_proj" | "up_proj" | "embed_tokens" | "lm_head":
                own[name] = shard_out(w, rank, size)
            case _:
                own[name] = w
    return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads))
    # solution:end
