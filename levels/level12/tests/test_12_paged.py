"""Judges decode_attention by PyTorch's scaled_dot_product_attention, one sequence at a time on keys that lie in a row.

Every slot that no sequence has written is NaN, block 0 included: whatever is read of them shows, be it times 0.
"""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from level12.paged import decode_attention

NAN = float("nan")


def filled(lengths, H, G, D=3, block_size=4, seed=0, unused=NAN, spare=0, shared=0, dtype=torch.float64):
    """(q, k_pool, v_pool, tables, lengths), and the right output: each sequence has keys and values in blocks that lie
    anywhere; the first `shared` blocks are the same for all. Tables have `spare` more columns than the longest needs.
    """
    draw = torch.Generator().manual_seed(seed)
    needed = [math.ceil(n / block_size) for n in lengths]
    order = (1 + torch.randperm(sum(needed) + 2, generator=draw)).tolist()
    k_pool, v_pool = torch.full((2, len(order) + 1, block_size, G, D), unused, dtype=dtype)
    q = 2 * torch.randn(len(lengths), H, D, generator=draw, dtype=torch.float64)
    common = 3 * torch.randn(2, shared * block_size, G, D, generator=draw, dtype=torch.float64).to(dtype)
    first, outputs = [order.pop() for _ in range(shared)], []
    tables = torch.zeros(len(lengths), max(needed) + spare, dtype=torch.int64)
    for row, (n, count) in enumerate(zip(lengths, needed)):
        own = 3 * torch.randn(2, n - common.shape[1], G, D, generator=draw, dtype=torch.float64).to(dtype)
        k, v = torch.cat([common, own], 1)
        table = first + [order.pop() for _ in range(count - shared)]
        tables[row, :count] = torch.tensor(table)
        for at in range(n):
            k_pool[table[at // block_size], at % block_size] = k[at]
            v_pool[table[at // block_size], at % block_size] = v[at]
        k, v = (x.double().transpose(0, 1).repeat_interleave(H // G, 0) for x in (k, v))  # (H, n, D)
        outputs.append(scaled_dot_product_attention(q[row, :, None], k, v)[:, 0])
    return (q, k_pool, v_pool, tables, torch.tensor(lengths)), torch.stack(outputs)


@pytest.mark.kata("level12.paged.decode_attention")
def test_each_sequence_sees_its_own_tokens(expect):
    """The docstring's example, with all keys 0, so that the answer is the mean of the values seen: of 10, 20 and 30,
    and of 7 alone. Block 0 and the slots behind the lengths are NaN."""
    v_pool = torch.full((8, 2, 1, 1), NAN, dtype=torch.float64)
    for block, at, value in ((7, 0, 10.0), (7, 1, 20.0), (3, 0, 30.0), (5, 0, 7.0)):
        v_pool[block, at] = value
    k_pool = 0 * v_pool
    q = torch.ones(2, 1, 1, dtype=torch.float64)
    tables, lengths = torch.tensor([[7, 3], [5, 0]]), torch.tensor([3, 1])
    right = torch.tensor([[[20.0]], [[7.0]]], dtype=torch.float64)
    expect(decode_attention, q, k_pool, v_pool, tables, lengths).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("H, G", [(6, 2), (6, 3), (2, 2), (4, 1), (1, 1)])
def test_query_heads_share_the_keys_of_their_group(expect, H, G):
    """Head h reads KV head h // (H / G): with 6 and 2, heads 0, 1, 2 read the first. Another order is another model."""
    args, right = filled([9, 4, 6], H, G)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("lengths", [[1], [1, 4], [5, 8, 3], [2, 1, 12], [8, 8], [4, 16, 1, 7, 13]], ids=str)
def test_lengths_at_the_edges_of_blocks(expect, lengths):
    """One token, a block that is full, one token more, all tables of one width or of very different ones. The query's
    own token is the last that it sees."""
    args, right = filled(lengths, 4, 2, seed=len(lengths))
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("unused", [float("inf"), -float("inf"), 50.0, 1e200], ids=str)
def test_what_others_have_left_changes_nothing(expect, unused):
    """A block comes with what its last owner wrote. NaN is not the only thing that survives a product with 0, and
    numbers that look like keys survive everything but a mask."""
    args, right = filled([9, 4, 6], 6, 2, unused=unused, seed=1)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
def test_tables_may_have_columns_that_nobody_needs(expect):
    """A server pads its tables to a fixed width, so that the shapes do not change from step to step."""
    args, right = filled([3, 6], 4, 2, spare=3, seed=2)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
def test_blocks_can_be_shared(expect):
    """Three requests with one system prompt read the same two blocks, each with its own query and its own rest."""
    args, right = filled([9, 12, 10], 4, 2, shared=2, seed=3)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("block_size", [1, 2, 16])
def test_blocks_of_any_size(expect, block_size):
    """vLLM has 16 tokens in a block; of 1 every token has an entry of its own."""
    args, right = filled([5, 17, 2], 6, 2, block_size=block_size, seed=4)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("D", [1, 8])
def test_the_scale_is_that_of_the_head(expect, D):
    """1 / sqrt(head_dim), whatever the number of heads, of sequences and of slots."""
    args, right = filled([7, 3], 4, 2, D=D, seed=5)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
@pytest.mark.parametrize("kept", [torch.bfloat16, torch.float32], ids=str)
def test_the_pool_may_have_another_dtype(expect, kept):
    """A cache in bfloat16 halves its memory; scores and sums are still those of the query's dtype. The oracle has the
    stored numbers in float64."""
    args, right = filled([9, 4, 6], 6, 2, dtype=kept, seed=6)
    expect(decode_attention, *args).equals(right)


@pytest.mark.kata("level12.paged.decode_attention")
def test_float32_stays_float32(expect):
    """A result in float64 doubles the work of everything behind it. Float32 has 7 digits, and sums of 20 products lose
    one."""
    (q, k_pool, v_pool, tables, lengths), right = filled([9, 20, 6], 6, 2, seed=7)
    args = q.float(), k_pool.float(), v_pool.float(), tables, lengths
    expect(decode_attention, *args).equals(right.float(), rel=1e-4, abs=1e-5)


@pytest.mark.kata("level12.paged.decode_attention")
def test_large_scores_do_not_overflow(expect):
    """exp(800) is infinite in float64: the largest score is taken off first, over what is seen and nothing else."""
    (q, k_pool, v_pool, tables, lengths), _ = filled([9, 4, 6], 4, 2, seed=8, unused=0.0)
    found = []
    for row, n in enumerate(lengths.tolist()):
        k, v = (
            pool[tables[row]].flatten(0, 1)[:n].transpose(0, 1).repeat_interleave(2, 0) for pool in (k_pool, v_pool)
        )
        found.append(scaled_dot_product_attention(1000 * q[row, :, None], k - 500, v)[:, 0])
    expect(decode_attention, 1000 * q, k_pool - 500, v_pool, tables, lengths).equals(torch.stack(found))
