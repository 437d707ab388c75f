"""Judges shard.py by slices counted out by hand, by where attention looks for each head, and by level 00's own layers:
what the ranks' parts give together is what the whole matrices give.

The models' sizes are all different, so that a part of a wrong axis does not fit.
"""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention, silu

from dojo.models import SMOLLM2, Config, random_params
from level00.transformer import self_attention
from level09.shard import heads_for_rank, shard_in, shard_out, shard_params

# ---- heads_for_rank


@pytest.mark.kata("level09.shard.heads_for_rank")
@pytest.mark.parametrize(
    "n_heads, n_kv_heads, size, kv_heads",
    [
        (9, 3, 3, [range(0, 1), range(1, 2), range(2, 3)]),
        (4, 2, 4, [range(0, 1), range(0, 1), range(1, 2), range(1, 2)]),
        (32, 8, 2, [range(0, 4), range(4, 8)]),
        (12, 2, 6, [range(0, 1), range(0, 1), range(0, 1), range(1, 2), range(1, 2), range(1, 2)]),
        (6, 6, 3, [range(0, 2), range(2, 4), range(4, 6)]),
        (6, 1, 2, [range(0, 1), range(0, 1)]),
        (9, 3, 1, [range(0, 3)]),
    ],
    ids=["SmolLM2", "copies", "several", "three copies", "no groups", "one KV head", "one rank"],
)
def test_a_rank_has_the_kv_heads_that_its_queries_read(expect, n_heads, n_kv_heads, size, kv_heads):
    """By hand. A rank with the keys of another head answers fluently, and nonsense: several engines took rank modulo
    n_kv_heads, which is right for one copy of each."""
    own = n_heads // size
    for rank in range(size):
        right = range(rank * own, (rank + 1) * own), kv_heads[rank]
        expect(heads_for_rank, n_heads, n_kv_heads, rank, size).equals(right)


def where_attention_looks(n_heads, n_kv_heads, rank, size):
    """Oracle: query head h reads KV head h // group; on the rank, its i-th one reads KV head i // (own group).

    None where the rank has a part of a group, and another group as well."""
    own, group = n_heads // size, n_heads // n_kv_heads
    heads = [h for h in range(n_heads) if h // own == rank]
    read = [h // group for h in heads]
    kv_heads = sorted(set(read))
    if len(kv_heads) > 1 and any(read.count(g) < group for g in kv_heads):
        return None
    assert read == [kv_heads[i // (len(heads) // len(kv_heads))] for i in range(len(heads))]
    return range(heads[0], heads[-1] + 1), range(kv_heads[0], kv_heads[-1] + 1)


@pytest.mark.kata("level09.shard.heads_for_rank")
@pytest.mark.parametrize("n_heads", range(1, 17))
def test_attention_finds_each_head_where_it_looks(expect, n_heads):
    """Oracle: all heads one by one, for every number of KV heads and ranks up to 16. Where a rank would have
    parts of several groups, some ranks would need more KV heads than others, and attention would look for the wrong."""
    for n_kv_heads in (g for g in range(1, n_heads + 1) if n_heads % g == 0):
        for size in (s for s in range(1, n_heads + 1) if n_heads % s == 0):
            right = [where_attention_looks(n_heads, n_kv_heads, rank, size) for rank in range(size)]
            for rank in range(size):
                case = n_heads, n_kv_heads, rank, size
                if None not in right:
                    expect(heads_for_rank, *case).equals(right[rank])
                else:
                    expect(heads_for_rank, *case).raises(ValueError)


@pytest.mark.kata("level09.shard.heads_for_rank")
def test_heads_are_not_cut(expect):
    """SmolLM2's 9 heads and 3 KV heads on 2, 4, 6 or 18 ranks, and 8 heads that 3 KV heads cannot serve."""
    expect(heads_for_rank, 9, 3, 2, 3).equals((range(6, 9), range(2, 3)))
    for n_heads, n_kv_heads, size in ((9, 3, 2), (9, 3, 4), (9, 3, 6), (9, 3, 18), (8, 3, 2), (12, 4, 6), (6, 3, 2)):
        expect(heads_for_rank, n_heads, n_kv_heads, 0, size).raises(ValueError)


# ---- shard_out and shard_in, judged with shard_params


def numbered(out, into):
    """A weight in which every element is another."""
    return torch.arange(out * into).view(out, into)


@pytest.mark.kata("level09.shard.shard_params")
def test_a_block_of_outputs_is_rows_of_the_array(expect):
    """The docstring's example. Weights are (out, in): "columns" in papers are those of the transposed matrix."""
    expect(shard_out, numbered(4, 2), 1, 2).equals(torch.tensor([[4, 5], [6, 7]]))
    expect(shard_out, numbered(6, 3), 0, 3).equals(torch.tensor([[0, 1, 2], [3, 4, 5]]))
    expect(shard_out, numbered(3, 2), 2, 3).equals(torch.tensor([[4, 5]]))


@pytest.mark.kata("level09.shard.shard_params")
def test_a_block_of_inputs_is_columns_of_the_array(expect):
    """The docstring's example: the inputs are the outputs of the matrix before, and a rank has the same block of
    them."""
    expect(shard_in, numbered(2, 4), 1, 2).equals(torch.tensor([[2, 3], [6, 7]]))
    expect(shard_in, numbered(2, 6), 0, 3).equals(torch.tensor([[0, 1], [6, 7]]))
    expect(shard_in, numbered(3, 3), 2, 3).equals(torch.tensor([[2], [5], [8]]))


@pytest.mark.kata("level09.shard.shard_params")
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_blocks_of_all_ranks_are_the_weight(expect, size):
    """All parts side by side, rank 0 first, along the one axis or the other."""
    w = numbered(12, 18)
    for rank in range(size):
        rows, columns = 12 // size, 18 // size
        expect(shard_out, w, rank, size).equals(w[rank * rows : (rank + 1) * rows])
        expect(shard_in, w, rank, size).equals(w[:, rank * columns : (rank + 1) * columns])


def memory_of(part):
    """(is it contiguous? bytes that stay alive with it)"""
    return part.is_contiguous(), part.untyped_storage().nbytes()


@pytest.mark.kata("level09.shard.shard_params")
@pytest.mark.parametrize("size", [2, 3])
def test_a_part_of_the_inputs_has_memory_of_its_own(expect, size):
    """A view of columns strides over the other ranks' parts in every product, and keeps all of them in memory."""
    w = torch.ones(8, 12)
    for rank in range(size):
        expect(lambda *x: memory_of(shard_in(*x)), w, rank, size).equals((True, 8 * 12 // size * 4))


@pytest.mark.kata("level09.shard.shard_params")
def test_a_ragged_block_is_refused(expect):
    """An uneven last part fits no collective, and a rest that is left out is a feature of the model."""
    expect(shard_out, numbered(4, 2), 1, 2).equals(torch.tensor([[4, 5], [6, 7]]))
    expect(shard_in, numbered(2, 4), 1, 2).equals(torch.tensor([[2, 3], [6, 7]]))
    for out, into, size in ((5, 6, 2), (7, 3, 3), (2, 4, 4)):
        expect(shard_out, numbered(out, into), 0, size).raises(ValueError)
        expect(shard_in, numbered(into, out), 0, size).raises(ValueError)


# ---- shard_params

WIDE = Config(2, 20, 8, 4, 6, 24, 40, tie_embeddings=False)  # head_dim is not d_model / n_heads
THIRDS = Config(1, 10, 9, 3, 4, 21, 33)


def whole(config, seed=0):
    return random_params(config, seed)


def parts_by_hand(params, config, rank, size):
    """Oracle: for each name, which rows or which columns, one by one."""

    def some(n, first, last):
        return [i for i in range(n) if first <= i < last]

    d, own, group = config.head_dim, config.n_heads // size, config.n_heads // config.n_kv_heads
    first, last = rank * own, (rank + 1) * own
    kv_first, kv_last = first // group, (last - 1) // group + 1
    ff, vocab = config.d_ff // size, config.vocab_size // size
    rows = {
        "q_proj": (first * d, last * d),
        "k_proj": (kv_first * d, kv_last * d),
        "v_proj": (kv_first * d, kv_last * d),
        "gate_proj": (rank * ff, (rank + 1) * ff),
        "up_proj": (rank * ff, (rank + 1) * ff),
        "embed_tokens": (rank * vocab, (rank + 1) * vocab),
        "lm_head": (rank * vocab, (rank + 1) * vocab),
    }
    columns = {"o_proj": (first * d, last * d), "down_proj": (rank * ff, (rank + 1) * ff)}
    own = {}
    for name, w in params.items():
        kind = name.split(".")[-2]
        if kind in rows:
            w = w[some(len(w), *rows[kind])]
        elif kind in columns:
            w = w[:, some(w.shape[1], *columns[kind])]
        own[name] = w
    return own, replace(config, n_heads=last - first, n_kv_heads=kv_last - kv_first)


CASES = [(WIDE, 1), (WIDE, 2), (WIDE, 4), (WIDE, 8), (THIRDS, 3), (THIRDS, 1)]
MODELS = pytest.mark.parametrize("config, size", CASES, ids=[f"{c.n_kv_heads} KV heads, {s} ranks" for c, s in CASES])


def shapes_on_rank(params, config, rank, size):
    """{name: shape} of layer 0 and what is outside of the layers, and (n_heads, n_kv_heads)."""
    own, config = shard_params(params, config, rank, size)
    shapes = {name: tuple(w.shape) for name, w in own.items() if "layers.1." not in name}
    return shapes, (config.n_heads, config.n_kv_heads)


@pytest.mark.kata("level09.shard.shard_params")
def test_what_becomes_of_each_matrix(expect):
    """By hand: 8 heads of 6 features, 4 KV heads, 24 MLP features and 40 tokens on 2 ranks. Projections into heads and
    features have fewer outputs, projections back fewer inputs; norms are whole, as are the hidden states."""
    layer = {
        "input_layernorm": (20,),
        "self_attn.q_proj": (24, 20),
        "self_attn.k_proj": (12, 20),
        "self_attn.v_proj": (12, 20),
        "self_attn.o_proj": (20, 24),
        "post_attention_layernorm": (20,),
        "mlp.gate_proj": (12, 20),
        "mlp.up_proj": (12, 20),
        "mlp.down_proj": (20, 12),
    }
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {"model.embed_tokens.weight": (20, 20), "model.norm.weight": (20,), "lm_head.weight": (20, 20)}
    for rank in (0, 1):
        expect(shapes_on_rank, whole(WIDE), WIDE, rank, 2).equals((shapes, (4, 2)))


@pytest.mark.kata("level09.shard.shard_params")
@MODELS
def test_every_rank_has_its_own_rows_and_columns(expect, config, size):
    """Oracle: counted out one by one. Under the same names, on 1 rank everything, on 8 ranks copies of 4 KV heads."""
    params = whole(config)
    for rank in range(size):
        expect(shard_params, params, config, rank, size).equals(parts_by_hand(params, config, rank, size))


def of_all_ranks(params, config, size):
    return [shard_params(params, config, rank, size) for rank in range(size)]


def attention_summed(params, config, x, size):
    """The sum of what level 00's attention gives with each rank's part of layer 0."""
    cos, sin = torch.ones(x.shape[1], config.head_dim), torch.zeros(x.shape[1], config.head_dim)
    parts = [self_attention(x, *part, 0, cos, sin, "causal") for part in of_all_ranks(params, config, size)]
    return torch.stack(parts).sum(0)


@pytest.mark.kata("level09.shard.shard_params")
@MODELS
def test_attention_on_the_parts_adds_up(expect, config, size):
    """Oracle: torch's attention with all heads, on positions that do not turn. A partial sum of each rank, and nothing
    else, is what one all-reduce has to bring together."""
    params = whole(config)
    x = torch.randn(2, 5, config.d_model, generator=torch.Generator().manual_seed(1))
    q, k, v = (x @ params[f"model.layers.0.self_attn.{n}_proj.weight"].T for n in "qkv")
    q, k, v = (t.unflatten(-1, (-1, config.head_dim)).transpose(1, 2) for t in (q, k, v))
    mixed = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
    right = mixed @ params["model.layers.0.self_attn.o_proj.weight"].T
    expect(attention_summed, params, config, x, size).equals(right, abs=1e-5)


def mlp_summed(params, config, x, size):
    total = 0
    for own, _ in of_all_ranks(params, config, size):
        gate, up, down = (own[f"model.layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        total = total + silu(x @ gate.T) * (x @ up.T) @ down.T
    return total


@pytest.mark.kata("level09.shard.shard_params")
@MODELS
def test_the_mlp_on_the_parts_adds_up(expect, config, size):
    """Oracle: the whole MLP. A feature's gate, up and down are on the same rank: silu needs no other."""
    params = whole(config)
    x = torch.randn(3, config.d_model, generator=torch.Generator().manual_seed(2))
    gate, up, down = (params[f"model.layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    expect(mlp_summed, params, config, x, size).equals(silu(x @ gate.T) * (x @ up.T) @ down.T, abs=1e-5)


def bytes_on_each_rank(params, config, size):
    return [sum(w.nbytes for w in own.values()) for own, _ in of_all_ranks(params, config, size)]


@pytest.mark.kata("level09.shard.shard_params")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_rank_holds_its_share_and_no_more(expect, dtype):
    """Counted by hand: a third of every matrix of SmolLM2's shape, with one layer, and the norms. What is whole where a
    part would do is memory that the cache needs; weights keep their dtype."""
    config = replace(SMOLLM2, n_layers=1, vocab_size=300)
    params = {name: w.to(dtype) for name, w in whole(config).items()}
    matrices = (2 * 576 + 2 * 192 + 3 * 1536 + 300) * 576
    right = (matrices // 3 + 3 * 576) * dtype.itemsize
    expect(bytes_on_each_rank, params, config, 3).equals([right] * 3)


@pytest.mark.kata("level09.shard.shard_params")
def test_the_docstrings_example(expect):
    """SmolLM2, rank 2 of 3: heads 6 to 8 are rows 384 to 575 of q_proj and columns of o_proj, KV head 2 is rows 128 to
    191 of k_proj. The config says how many heads are here, and is else as it was, d_ff and all."""
    config = replace(SMOLLM2, n_layers=1, vocab_size=30)
    params = whole(config)
    names = [f"model.layers.0.self_attn.{name}_proj.weight" for name in "qkvo"]
    q, k, v, o = (params[name] for name in names)
    right = [q[384:576], k[128:192], v[128:192], o[:, 384:576]], replace(config, n_heads=3, n_kv_heads=1)

    def attention_of(*case):
        own, config = shard_params(*case)
        return [own[name] for name in names], config

    expect(attention_of, params, config, 2, 3).equals(right)


@pytest.mark.kata("level09.shard.shard_params")
def test_a_model_that_does_not_divide_is_refused(expect):
    """Heads, then MLP features, then the vocabulary: a short last part would be found by a collective at best."""
    expect(shard_params, whole(WIDE), WIDE, 1, 2).equals(parts_by_hand(whole(WIDE), WIDE, 1, 2))
    for config, size in (
        (WIDE, 3),
        (WIDE, 16),
        (replace(WIDE, d_ff=22), 4),
        (replace(WIDE, vocab_size=42), 4),
        (replace(WIDE, vocab_size=42, tie_embeddings=True), 4),
        (replace(WIDE, n_heads=12), 6),
    ):
        expect(shard_params, whole(config), config, 0, size).raises(ValueError)
