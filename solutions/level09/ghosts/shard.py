"""Known-wrong programs of level09.shard. `ghost` is given when this is read."""

import torch

_HEADS = "heads = range(rank * own, (rank + 1) * own)"
_KV = "range(heads[0] // group, heads[-1] // group + 1)"
_OUT = "return w.chunk(size)[rank]"
_IN = "return w.chunk(size, 1)[rank].contiguous()"
_Q = "own[name] = w[heads.start * config.head_dim : heads.stop * config.head_dim]"
_K = "own[name] = w[kv_heads.start * config.head_dim : kv_heads.stop * config.head_dim]"
_BACK = 'case "o_proj" | "down_proj":'
_BY_OUT = 'case "gate_proj" | "up_proj" | "embed_tokens" | "lm_head":'
_REST = "case _:\n                own[name] = w"
_RETURN = "return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads))"


def _heads(name, sentence, *pairs, program=None):
    changes = list(zip(pairs[::2], pairs[1::2]))
    ghost("level09.shard.heads_for_rank", name, sentence, change=changes, program=program)


def _params(name, sentence, *pairs, program=None, part=""):
    changes = list(zip(pairs[::2], pairs[1::2]))
    ghost("level09.shard.shard_params", name, sentence, change=changes, program=program, part=part)


# ---- heads_for_rank

_heads(
    "kv_by_division_only",
    "With fewer KV heads than ranks a range of n_kv_heads / size heads is empty on some: each has a copy of what it reads.",
    _KV,
    "range(rank * n_kv_heads // size, (rank + 1) * n_kv_heads // size)",
)
_heads(
    "kv_modulo",
    "Query head h reads KV head h // group: neighbours share a copy. With rank % n_kv_heads they read other heads' keys.",
    _KV,
    "range(rank * own // group, (rank + 1) * own // group) if own >= group else "
    "range(rank % n_kv_heads, rank % n_kv_heads + 1)",
)
_heads(
    "kv_by_rank",
    "KV heads follow from the query heads that read them; the rank itself is the KV head only where each rank has one "
    "group.",
    _KV,
    "range(rank, rank + 1)",
)
_heads(
    "first_kv_head_only",
    "A rank with several groups needs the KV head of each: up to that of its last query head.",
    _KV,
    "range(heads[0] // group, heads[0] // group + 1)",
)
_heads(
    "all_kv_heads",
    "A rank needs only the KV heads that its queries read: with all of them each cache is as large as the whole.",
    _KV,
    "range(n_kv_heads)",
)
_heads(
    "kv_like_queries",
    "There are fewer KV heads than query heads: group of these share one.",
    _KV,
    "heads",
)
_heads(
    "last_kv_head_missing",
    "The end of a range does not belong to it: + 1 behind the KV head of the last query head.",
    _KV,
    "range(heads[0] // group, heads[-1] // group)",
)
_heads(
    "one_kv_head_too_many",
    "heads.stop is the next rank's: where a rank ends within a group, the KV head of the last query head is the last.",
    _KV,
    "range(heads.start // group, heads.stop // group + 1)",
)
_heads(
    "local_kv_heads",
    "The numbers are those of the whole model's heads, so that they find their rows: yours begin at 0 on every rank.",
    _KV,
    "range(max(1, own // group))",
)
_heads(
    "local_heads",
    "The query heads' numbers are those of the whole model: yours begin at 0 on every rank.",
    "return heads, ",
    "return range(own), ",
)
_heads(
    "strided_heads",
    "A rank has a block of neighbours, which share KV heads; yours takes every size-th head.",
    "return heads, ",
    "return range(rank, n_heads, size), ",
)
_heads(
    "whole_groups_only",
    "A group may be shared by ranks, each with a copy of its KV head; yours lets KV heads limit the query heads.",
    _HEADS,
    "own = max(own, group)\n    heads = range(rank * own % n_heads, rank * own % n_heads + own)",
)
_heads("pairs", "Two ranges, not pairs of first and last.", "return heads, ", "return (heads.start, heads.stop), ")
_heads("lists", "Two ranges, not lists.", "return heads, ", "return list(heads), ")
_heads(
    "kv_first", "The query heads come first, then the KV heads.", "return heads, " + _KV, "return " + _KV + ", heads"
)


def _ragged(n_heads, n_kv_heads, rank, size):
    own, group = n_heads // size, n_heads // n_kv_heads
    heads = range(rank * own, (rank + 1) * own)
    return heads, range(heads.start // group, (heads.stop - 1) // group + 1)


_heads(
    "ragged_heads",
    "9 heads do not split over 2 ranks, and groups are not cut: the guards that were given say so.",
    program=_ragged,
)

# ---- shard_out and shard_in, judged with shard_params

_params(
    "out_by_columns",
    "A weight is (out, in): outputs are rows of the array. Column parallel means the columns of the transposed one.",
    _OUT,
    "return w.chunk(size, 1)[rank]",
)
_params(
    "out_strided",
    "Heads are blocks of neighbouring rows: every size-th row cuts through all of them.",
    _OUT,
    "return w[rank::size]",
)
_params(
    "out_from_the_end",
    "Rank 0 has the first block.",
    _OUT,
    "return w.chunk(size)[size - 1 - rank]",
)
_params(
    "out_as_a_list",
    "One block, this rank's: yours returns those of all ranks.",
    _OUT,
    "return w.chunk(size)",
)
_params(
    "out_of_size_rows",
    "size is the number of blocks, not of rows in each: a block has out / size rows.",
    _OUT,
    "return w[rank * size : (rank + 1) * size]",
)
_params(
    "in_by_rows",
    "A weight is (out, in): inputs are columns of the array.",
    _IN,
    "return w.chunk(size)[rank].contiguous()",
)
_params(
    "in_strided",
    "The inputs of a rank are the block that its own outputs made before: yours takes every size-th.",
    _IN,
    "return w[:, rank::size].contiguous()",
)
_params(
    "in_transposed",
    "The part keeps the layout (out, in), since it is applied as x @ W.T.",
    _IN,
    "return w.T.chunk(size)[rank].contiguous()",
)
_params(
    "in_reshaped",
    "A reshape deals the elements out anew, row by row: take columns.",
    _IN,
    "return w.reshape(size, w.shape[0], -1)[rank].contiguous()",
)
_params(
    "in_as_a_view",
    "A view of columns keeps the whole matrix in memory, and every product strides over the rest: make it contiguous.",
    _IN,
    "return w.chunk(size, 1)[rank]",
)
_params(
    "in_of_size_columns",
    "size is the number of blocks, not of columns in each: a block has in / size columns.",
    _IN,
    "return w[:, rank * size : (rank + 1) * size].contiguous()",
)


def _short_last(w, rank, size):
    return w.chunk(size)[rank]


def _short_last_in(w, rank, size):
    return w.chunk(size, 1)[rank].contiguous()


_params(
    "short_last_block",
    "Outputs that do not divide are refused, since collectives want equal parts; yours makes the last block short.",
    program=_short_last,
    part="shard_out",
)
_params(
    "short_last_columns",
    "Inputs that do not divide are refused: the short last part of yours fits none of the others.",
    program=_short_last_in,
    part="shard_in",
)

# ---- shard_params

_params(
    "back_by_output",
    "The inputs of o_proj and down_proj are what this rank has made: split them by inputs, not by outputs.",
    "own[name] = shard_in(w, rank, size)",
    "own[name] = shard_out(w, rank, size)",
)
_params(
    "o_proj_whole",
    "o_proj is split, too, by inputs: this rank has only its own heads to give it.",
    _BACK,
    'case "down_proj":',
)
_params(
    "down_proj_whole",
    "down_proj is split by inputs: this rank has only its own features to give it.",
    _BACK,
    'case "o_proj":',
)
_params(
    "down_proj_by_output",
    "down_proj takes this rank's features: split its inputs. Split by outputs it would need all features.",
    _BACK,
    'case "o_proj":',
    _BY_OUT,
    'case "gate_proj" | "up_proj" | "down_proj" | "embed_tokens" | "lm_head":',
)
_params(
    "mlp_whole",
    "The MLP is most of the weights: split gate and up by outputs, down by inputs.",
    _BACK,
    'case "o_proj":',
    _BY_OUT,
    'case "embed_tokens" | "lm_head":',
)
_params(
    "gate_and_up_by_input",
    "silu is not linear, it needs whole features: split gate and up by outputs.",
    _BACK,
    'case "o_proj" | "down_proj" | "gate_proj" | "up_proj":',
)
_params(
    "up_whole",
    "A feature is gate times up: both are split, into the same blocks.",
    _BY_OUT,
    'case "gate_proj" | "embed_tokens" | "lm_head":',
)
_params(
    "norms_sharded",
    "Between the layers hidden states are whole on every rank, and so are the norms' weights.",
    _REST,
    "case _:\n                own[name] = w.chunk(size)[rank]",
)
_params(
    "norms_left_out",
    "The norms' weights are on every rank, whole: without them no layer can run.",
    _REST,
    "case _:\n                pass",
)
_params(
    "kv_like_q",
    "k_proj and v_proj have n_kv_heads heads: they are split by those, not by query heads.",
    _K,
    _Q,
)
_params(
    "kv_by_size",
    "With fewer KV heads than ranks the rows of k_proj divide, but through the middle of heads: take whole KV heads.",
    _K,
    "own[name] = shard_out(w, rank, size)",
)
_params(
    "kv_whole",
    "A rank needs the KV heads that its queries read, not all: split k_proj and v_proj, too.",
    _K,
    "own[name] = w",
)
_params(
    "values_whole",
    "Values belong to the same KV heads as keys: split v_proj as k_proj.",
    'case "k_proj" | "v_proj":',
    'case "v_proj":\n                own[name] = w\n            case "k_proj":',
)
_params(
    "kv_modulo_in_params",
    "Neighbouring ranks share a copy of a KV head: take the ones that heads_for_rank says.",
    _K,
    "g = len(kv_heads)\n                first = rank * g % config.n_kv_heads\n"
    "                own[name] = w[first * config.head_dim : (first + g) * config.head_dim]",
)
_params(
    "head_dim_from_d_model",
    "config.head_dim says how many rows a head has; d_model / n_heads is that in some models only.",
    _Q,
    "d = config.d_model // config.n_heads\n                own[name] = w[heads.start * d : heads.stop * d]",
    _K,
    "d = config.d_model // config.n_heads\n                own[name] = w[kv_heads.start * d : kv_heads.stop * d]",
)
_params(
    "rows_for_heads",
    "A head is head_dim rows: yours takes single rows.",
    _Q,
    "own[name] = w[heads.start : heads.stop]",
    _K,
    "own[name] = w[kv_heads.start : kv_heads.stop]",
)
_params(
    "features_of_all_heads",
    "A head is head_dim neighbouring rows; yours takes some rows of every head.",
    _Q,
    "own[name] = w.unflatten(0, (config.head_dim, -1))[:, heads.start : heads.stop].flatten(0, 1)",
    _K,
    "own[name] = w.unflatten(0, (config.head_dim, -1))[:, kv_heads.start : kv_heads.stop].flatten(0, 1)",
)
_params(
    "embedding_whole",
    "The vocabulary is split as well: each rank has the rows of its own tokens.",
    _BY_OUT,
    'case "gate_proj" | "up_proj" | "lm_head":',
)
_params(
    "head_whole",
    "lm_head is split by tokens like the embedding: each rank has the logits of its own.",
    _BY_OUT,
    'case "gate_proj" | "up_proj" | "embed_tokens":',
)
_params(
    "embedding_by_features",
    "The embedding is split by tokens, its rows; split by d_model nobody has a whole vector, and a tied head is partial.",
    _BY_OUT,
    'case "embed_tokens":\n                own[name] = shard_in(w, rank, size)\n'
    '            case "gate_proj" | "up_proj" | "lm_head":',
)
_params(
    "head_by_features",
    "lm_head is split by tokens: by inputs it gives partial logits of the whole vocabulary, to be summed.",
    _BACK,
    'case "o_proj" | "down_proj" | "lm_head":',
    _BY_OUT,
    'case "gate_proj" | "up_proj" | "embed_tokens":',
)
_params(
    "config_as_it_was",
    "The config has this rank's n_heads and n_kv_heads: with the old one its cache is as large as the whole model's.",
    _RETURN,
    "return own, config",
)
_params(
    "kv_heads_as_they_were",
    "The cache is made for n_kv_heads heads: it has to be the rank's own number.",
    _RETURN,
    "return own, replace(config, n_heads=len(heads))",
)
_params(
    "kv_heads_divided",
    "n_kv_heads // size is 0 with more ranks than KV heads: a rank has at least one, heads_for_rank says how many.",
    _RETURN,
    "return own, replace(config, n_heads=len(heads), n_kv_heads=config.n_kv_heads // size)",
)
_params(
    "heads_as_they_were",
    "n_heads is the rank's own number as well: the ranks' KV heads serve n_heads / n_kv_heads of them.",
    _RETURN,
    "return own, replace(config, n_kv_heads=len(kv_heads))",
)
_params(
    "everything_divided",
    "Only n_heads and n_kv_heads change; d_ff and vocab_size are the model's, and every rank refuses ids outside of it.",
    _RETURN,
    "return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads), d_ff=config.d_ff // size, "
    "vocab_size=config.vocab_size // size)",
)
_params(
    "d_ff_divided",
    "Only n_heads and n_kv_heads change in the config: d_ff stays the model's.",
    _RETURN,
    "return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads), d_ff=config.d_ff // size)",
)
_params(
    "vocab_divided",
    "vocab_size stays the model's: token ids are global, and forward refuses those outside of it.",
    _RETURN,
    "return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads), vocab_size=config.vocab_size // size)",
)
_params(
    "params_alone",
    "Return the config as well: (params, config).",
    _RETURN,
    "return own",
)
_params(
    "written_into_params",
    "`params` is the whole model, and the next rank needs it: make a dictionary of your own.",
    "own = {}",
    "own = params",
    "in params.items()",
    "in list(params.items())",
)
_params(
    "names_changed",
    "Parts keep the names of their matrices: forward looks them up.",
    _RETURN,
    'own = {f"{name}.{rank}": w for name, w in own.items()}\n'
    "    return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads))",
)
_params(
    "first_layer_only",
    "Every layer is split: yours leaves all but the first one whole.",
    'match name.split(".")[-2]:',
    'match name.split(".")[-2] if ".layers." not in name or ".layers.0." in name else "":',
)
_params(
    "in_float32",
    "Weights keep their dtype: in float32 a bfloat16 model takes twice the memory.",
    _RETURN,
    "own = {name: w.float() for name, w in own.items()}\n"
    "    return own, replace(config, n_heads=len(heads), n_kv_heads=len(kv_heads))",
)


def _zeros_elsewhere(params, config, rank, size):
    """Whole matrices in which the others' parts are 0."""
    own = {}
    for name, w in params.items():
        kind, mask = name.split(".")[-2], torch.zeros_like(w)
        if kind in ("o_proj", "down_proj"):
            step = w.shape[1] // size
            mask[:, rank * step : (rank + 1) * step] = 1
            w = w * mask
        own[name] = w
    return own, config


_params(
    "zeros_for_the_others",
    "The sum is right, but every rank still holds and multiplies everything: cut the matrices.",
    program=_zeros_elsewhere,
)
