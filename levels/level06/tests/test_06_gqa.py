"""Judges gqa.py by loops over heads and rows, and by level 00's forward: a model with as many KV heads as query heads.

There are more heads than groups, more groups than one, and a head has several rows, so that no two orders agree.
"""

import warnings
from dataclasses import replace

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level06.gqa import expand_kv_heads, pool_kv_heads

EXACT = {"rel": 0, "abs": 0}
DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
# (query heads, KV heads, head_dim, d_model): some square, one group, a group for each head
ARRANGED = [(4, 2, 1, 1), (6, 2, 4, 5), (6, 3, 2, 12), (8, 2, 3, 24), (6, 1, 2, 3), (5, 5, 2, 3), (1, 1, 3, 2)]
ARRANGED += [(4, 2, 2, 8), (9, 3, 64, 7), (12, 4, 3, 2), (6, 2, 2, 1)]
HEADS = pytest.mark.parametrize("heads, groups, head_dim, width", ARRANGED, ids=str)
# 6 query heads of 4 features are not d_model wide
GROUPED = Config(2, 20, 6, 2, 4, 28, 31, max_seq_len=16, tie_embeddings=False)
EACH = replace(GROUPED, n_kv_heads=6)
PARAMS = {name: w.double() for name, w in random_params(GROUPED, seed=0).items()}
IDS = torch.tensor([[3, 14, 15, 9, 26, 5, 30], [2, 7, 1, 8, 28, 18, 0]])
NEAR = {"rel": 1e-4, "abs": 1e-5}  # attention is in float32


def weights(rows, width, seed=0):
    """(rows, width), not contiguous."""
    return torch.randn(width, rows, 2, generator=torch.Generator().manual_seed(seed))[..., 0].T


def by_heads(w, head_dim, readers):
    """Oracle of expand_kv_heads: the rows of a head once for each of its readers, one row after the other."""
    rows = []
    for head in range(len(w) // head_dim):
        for _ in range(readers):
            rows += [w[head * head_dim + i].tolist() for i in range(head_dim)]
    return torch.tensor(rows, dtype=w.dtype)


def by_means(w, head_dim, n_kv_heads):
    """Oracle of pool_kv_heads: number by number, over the query heads h with the same h // group."""
    group = len(w) // head_dim // n_kv_heads
    right = torch.zeros(n_kv_heads * head_dim, w.shape[1], dtype=torch.float64)
    for h in range(len(w) // head_dim):
        for i in range(head_dim):
            for column in range(w.shape[1]):
                right[h // group * head_dim + i, column] += w[h * head_dim + i, column].item() / group
    return right.to(w.dtype)


def with_kv(params, change):
    """The parameters with `change` made to k_proj and v_proj of every layer."""
    return {name: change(w) if name.endswith(("k_proj.weight", "v_proj.weight")) else w for name, w in params.items()}


def logits(params, config):
    """What forward gives; of a weight with three axes torch would warn, besides the exception that it ends in."""
    with warnings.catch_warnings(action="ignore"):
        return forward(params, config, IDS)


# ---- pool_kv_heads


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_neighbours_are_averaged(expect):
    """The docstring's example: heads 0 and 1 will read KV head 0, and their mean is 2. Heads 0 and 2 share none."""
    expect(pool_kv_heads, torch.tensor([[1.0], [3], [5], [9]]), 1, 2).equals(torch.tensor([[2.0], [7]]))


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_a_head_is_head_dim_rows(expect):
    """Two heads of three rows become one: feature by feature, and not row by neighbouring row."""
    w = torch.tensor([[1.0, 10], [2, 20], [3, 30], [5, 50], [8, 80], [13, 130]])
    expect(pool_kv_heads, w, 3, 1).equals(torch.tensor([[3.0, 30], [5, 50], [8, 80]]))


@pytest.mark.kata("level06.gqa.pool_kv_heads")
@HEADS
def test_every_kv_head_is_the_mean_of_its_readers(expect, heads, groups, head_dim, width):
    """Oracle: number by number. With one KV head for each query head nothing changes; with one for all it is MQA."""
    w = weights(heads * head_dim, width, seed=heads)
    expect(pool_kv_heads, w, head_dim, groups).equals(by_means(w, head_dim, groups))


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_pooling_equal_heads_changes_no_logit(expect):
    """A model whose neighbouring KV heads are equal is a grouped one already: a third of the cache, the same tokens."""

    def pooled(params):
        return logits(with_kv(params, lambda w: pool_kv_heads(w, 4, 2)), GROUPED)

    params = with_kv(PARAMS, lambda w: by_heads(w, 4, 3))
    expect(pooled, params).equals(forward(params, EACH, IDS), **NEAR)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
@DTYPES
def test_pooled_weights_keep_their_dtype(expect, dtype):
    """A bfloat16 model stays one. Tolerance: the last bits of the dtype, of three heads' sum."""
    w = weights(6 * 4, 5, seed=1).to(dtype)
    rounding = 4 * torch.finfo(dtype).eps
    expect(pool_kv_heads, w, 4, 2).equals(by_means(w, 4, 2), rel=max(rounding, 1e-6), abs=max(rounding, 1e-6))


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_heads_that_cannot_be_shared_out_are_refused(expect):
    """6 heads among 4 KV heads; 7 rows in heads of 2."""
    expect(pool_kv_heads, torch.tensor([[4.0], [8]]), 1, 1).equals(torch.tensor([[6.0]]))
    for rows, head_dim, groups in ((6, 1, 4), (7, 2, 1), (4, 2, 4), (6, 4, 1)):
        expect(pool_kv_heads, torch.ones(rows, 2), head_dim, groups).raises(ValueError)


# ---- expand_kv_heads


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_readers_of_a_head_are_neighbours(expect):
    """The docstring's example: query heads 0 and 1 read KV head 0. [1, 2, 1, 2] has the same shape, and is nonsense."""
    expect(expand_kv_heads, torch.tensor([[1.0], [2]]), 1, 4).equals(torch.tensor([[1.0], [1], [2], [2]]))


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_the_rows_of_a_head_stay_together(expect):
    """A head of rows 1 and 2 is repeated as 1, 2, 1, 2: a head of rows 1 and 1 would be another head."""
    w = torch.tensor([[1.0, 10], [2, 20], [3, 30], [4, 40]])
    right = torch.tensor([[1.0, 10], [2, 20], [1, 10], [2, 20], [3, 30], [4, 40], [3, 30], [4, 40]])
    expect(expand_kv_heads, w, 2, 4).equals(right)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
@HEADS
def test_every_query_head_gets_a_copy_of_what_it_read(expect, heads, groups, head_dim, width):
    """Oracle: a loop, and bit for bit. From one KV head, MQA, too; with a head for each nothing changes."""
    w = weights(groups * head_dim, width, seed=heads)
    expect(expand_kv_heads, w, head_dim, heads).equals(by_heads(w, head_dim, heads // groups), **EXACT)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_the_model_computes_what_it_did_before(expect):
    """Oracle: level 00's forward with grouped heads. A kernel without groups can run a grouped model, at 3 times the
    cache."""

    def expanded(params):
        return logits(with_kv(params, lambda w: expand_kv_heads(w, 4, 6)), EACH)

    expect(expanded, PARAMS).equals(forward(PARAMS, GROUPED, IDS), **NEAR)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_pooling_undoes_expanding(expect):
    """The mean of equal heads is that head; what was pooled first does not come back, only what was expanded."""

    def there_and_back(w, head_dim, heads, groups):
        return pool_kv_heads(expand_kv_heads(w, head_dim, heads), head_dim, groups)

    w = weights(2 * 4, 5, seed=2)
    expect(there_and_back, w, 4, 6, 2).equals(w)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
@DTYPES
def test_copies_keep_their_dtype(expect, dtype):
    """And every bit."""
    w = weights(2 * 4, 5, seed=3).to(dtype)
    expect(expand_kv_heads, w, 4, 6).equals(by_heads(w, 4, 3), **EXACT)


@pytest.mark.kata("level06.gqa.pool_kv_heads")
def test_heads_that_do_not_come_out_even_are_refused(expect):
    """6 query heads can't share 4 KV heads evenly, nor 2 of them 4."""
    expect(expand_kv_heads, torch.tensor([[4.0]]), 1, 2).equals(torch.tensor([[4.0], [4]]))
    for rows, head_dim, heads in ((4, 1, 6), (4, 1, 2), (5, 2, 6), (8, 2, 6)):
        expect(expand_kv_heads, torch.ones(rows, 2), head_dim, heads).raises(ValueError)
