"""Judges flash.py by torch's scaled_dot_product_attention with a mask of booleans, in float64, by torch.logsumexp, by
boolean tiles, and by counting. A helper `by_…` is an oracle, and has the whole matrix of scores.

H / G is 3 or 1, sizes are all different, tiles ragged; counted are inputs whose tiles are far smaller than they are.
"""

import math
from itertools import product

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dojo.cost import count
from dojo.models import Config, random_params
from level00.layers import attention
from level00.transformer import forward
from level02.cache import KVCache
from level07.flash import flash_attend, flash_attention, tile_kind

INF = math.inf
CLOSE = {"rel": 1e-10, "abs": 1e-11}  # float64 in another order

# ---- tile_kind


@pytest.mark.kata("level07.flash.tile_kind")
@pytest.mark.parametrize(
    "queries, keys, offset, right",
    [
        ((2, 4), (0, 2), 0, "full"),
        ((2, 4), (2, 4), 0, "partial"),
        ((2, 4), (4, 6), 0, "skip"),
        ((0, 2), (2, 4), 0, "skip"),
        ((2, 4), (0, 3), 0, "full"),
        ((2, 4), (0, 4), 0, "partial"),
        ((0, 1), (0, 1), 0, "full"),
        ((0, 1), (1, 2), 0, "skip"),
        ((0, 2), (1, 3), 0, "partial"),
        ((0, 4), (2, 4), 0, "partial"),
        ((0, 4), (3, 9), 0, "partial"),
        ((0, 8), (0, 2), 0, "partial"),
        ((1, 8), (0, 2), 0, "full"),
        ((0, 2), (4, 6), 4, "partial"),
        ((0, 2), (3, 5), 4, "full"),
        ((0, 2), (6, 8), 4, "skip"),
        ((0, 1), (0, 99), 98, "full"),
        ((0, 1), (0, 99), 97, "partial"),
        ((0, 3), (0, 1), -3, "skip"),
        ((0, 4), (0, 1), -3, "partial"),
        ((3, 4), (0, 1), -3, "full"),
        ((128, 256), (128, 256), 0, "partial"),
        ((128, 256), (1024, 1152), 1000, "partial"),
    ],
    ids=str,
)
def test_a_tile_by_hand(expect, queries, keys, offset, right):
    """The docstring's, and neighbours of each: a token sees itself, so the last key of a tile may be its first query's
    own. With a cache query 0 stands behind it; with more queries than keys the first ones see nothing."""
    expect(tile_kind, *queries, *keys, offset).equals(right)


def by_cells(q_start, q_end, k_start, k_end, offset):
    """Oracle: every query is asked about every key."""
    sees = [key <= offset + query for query in range(q_start, q_end) for key in range(k_start, k_end)]
    return "full" if all(sees) else "partial" if any(sees) else "skip"


def first_wrong(cases):
    """{} when tile_kind is right in all cases; else the first case in which it is not, and both results."""
    for case in cases:
        yours, right = tile_kind(*case), by_cells(*case)
        if yours != right:
            return {"yours": yours, "right": right, "case": case}
    return {}


@pytest.mark.kata("level07.flash.tile_kind")
@pytest.mark.parametrize("offset", range(-7, 8))
def test_every_small_tile(expect, offset):
    """Tiles of 1 to 4 queries and keys, aligned or not: comparing the numbers of tiles, or one corner, fails some."""
    starts = product(range(6), range(1, 5), range(7), range(1, 5))
    expect(first_wrong, [(q, q + rows, k, k + keys, offset) for q, rows, k, keys in starts]).equals({})


@pytest.mark.kata("level07.flash.tile_kind")
def test_far_from_the_origin(expect):
    """A prompt's chunk at position 100,000: nothing is remembered, or looked up, and no cell is asked for."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(30):
        rows, keys, ahead, offset = torch.randint(1, 40, (4,), generator=draw).tolist()
        q, k = 10**5, 10**5 + offset + ahead - 20
        expect(tile_kind, q, q + rows, k, k + keys, offset).equals(by_cells(q, q + rows, k, k + keys, offset))


@pytest.mark.kata("level07.flash.tile_kind")
def test_a_tile_without_queries_or_keys_is_refused(expect):
    """Of an empty one everything is true: every query sees every key, and none sees any."""
    expect(tile_kind, 0, 1, 0, 1, 0).equals("full")
    for case in ((2, 2, 0, 1, 0), (0, 1, 3, 3, 0), (3, 2, 0, 1, 0), (0, 1, 3, 2, 5)):
        expect(tile_kind, *case).raises(ValueError)


# ---- flash_attention: values


def drawn(B, H, G, Q, K, D, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(B, heads, n, D, generator=draw, dtype=torch.float64).mul(1.5).to(dtype)
        for heads, n in ((H, Q), (G, K), (G, K))
    )


def seen(mask, Q, K):
    """A mask as booleans: query i stands at K - Q + i."""
    if mask is None:
        return torch.ones(Q, K, dtype=torch.bool)
    return torch.ones(Q, K, dtype=torch.bool).tril(K - Q) if isinstance(mask, str) else mask


def by_sdpa(q, k, v, mask):
    """Oracle of (out, lse) in float64: torch's attention with a mask of booleans, every query head with its own KV."""
    Q, K, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    mask = seen(mask, Q, K).broadcast_to(*q.shape[:3], K)
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask).masked_fill(~mask.any(-1, keepdim=True), 0)
    return out, (q @ k.mT / math.sqrt(q.shape[3])).masked_fill(~mask, -INF).logsumexp(-1)


@pytest.mark.kata("level07.flash.flash_attention")
def test_one_token_returns_its_value(expect):
    """The docstring's example: weight 1, and a log-sum-exp of q · k / sqrt(4) = 15. Whatever the tiles are."""
    x = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    for blocks in ((), (1, 1), (7, 2)):
        expect(flash_attention, x, x, x, "causal", *blocks).equals((x, torch.tensor([[[15.0]]])))


@pytest.mark.kata("level07.flash.flash_attention")
def test_two_tokens_by_hand(expect):
    """Scores of query 1: 0 and log 3, so weights 1/4 and 3/4. Query 0 sees key 0 alone, or both if there is no mask."""
    q, k = torch.tensor([[[[0.0], [math.log(3)]]]]), torch.tensor([[[[0.0], [1.0]]]])
    v = torch.tensor([[[[4.0], [8.0]]]])
    right = torch.tensor([[[[4.0], [7.0]]]]), torch.tensor([[[0.0, math.log(4)]]])
    expect(flash_attention, q, k, v, "causal", 1, 1).equals(right)
    right = torch.tensor([[[[6.0], [7.0]]]]), torch.tensor([[[math.log(2), math.log(4)]]])
    expect(flash_attention, q, k, v, None, 2, 1).equals(right)


# (B, H, G, Q, K, D), block_q, block_k
SETTINGS = [
    ((1, 1, 1, 1, 9, 3), 1, 4),
    ((2, 6, 2, 1, 7, 5), 3, 2),
    ((2, 6, 2, 7, 7, 5), 3, 3),
    ((2, 6, 2, 7, 11, 8), 2, 4),
    ((2, 6, 2, 7, 11, 8), 4, 2),
    ((2, 3, 3, 8, 12, 2), 4, 4),
    ((3, 6, 2, 5, 13, 3), 64, 5),
    ((2, 3, 1, 9, 10, 6), 4, 64),
    ((1, 6, 2, 3, 4, 7), 3, 4),
    ((2, 6, 2, 4, 6, 3), 1, 1),
    ((2, 6, 2, 13, 5, 3), 3, 2),
    ((1, 3, 1, 9, 1, 4), 2, 3),
    ((2, 2, 2, 10, 4, 3), 5, 9),
    ((1, 6, 3, 6, 9, 10), 5, 8),
    ((2, 6, 2, 12, 12, 2), 2, 5),
]
AT = pytest.mark.parametrize("sizes, block_q, block_k", SETTINGS, ids=str)


@pytest.mark.kata("level07.flash.flash_attention")
@AT
@pytest.mark.parametrize("mask", ["causal", None], ids=str)
def test_tiles_give_what_the_whole_matrix_gives(expect, sizes, block_q, block_k, mask):
    """One token, a chunk behind a cache, a prompt; tiles ragged, of one, and larger than the sequence. Some have more
    queries than keys: under a causal mask the first ones see nothing, their out is 0 and their log-sum-exp -inf."""
    qkv = drawn(*sizes)
    expect(flash_attention, *qkv, mask, block_q, block_k).equals(by_sdpa(*qkv, mask), **CLOSE)


def in_tiles(q, k, v, *pairs):
    """(out, lse) for every pair of blocks."""
    return [flash_attention(q, k, v, "causal", *pair) for pair in pairs]


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("Q, K", [(1, 1), (1, 3), (3, 3), (2, 6), (5, 6), (5, 2), (4, 1)])
def test_small_tiles_of_every_size(expect, Q, K):
    """Every edge meets every other: the diagonal at the corner of a tile, beside it, through its middle."""
    qkv, pairs = drawn(1, 2, 1, Q, K, 2, seed=Q), list(product(sorted({1, 2, 3, Q}), sorted({1, 2, 4, K})))
    expect(in_tiles, *qkv, *pairs).equals([by_sdpa(*qkv, "causal")] * len(pairs), **CLOSE)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("Q, K", [(130, 130), (3, 259), (129, 140)])
def test_by_default_tiles_are_of_128(expect, Q, K):
    """And the mask is causal, as level 00's. One more than a tile, and three tiles of keys."""
    qkv = drawn(1, 3, 1, Q, K, 2, seed=1)
    expect(flash_attention, *qkv).equals(by_sdpa(*qkv, "causal"), **CLOSE)


# ---- flash_attention: what is counted

# (B, H, G, Q, K, D), block_q, block_k
COUNTED = [
    ((1, 1, 1, 16, 16, 16), 4, 4),
    ((2, 6, 2, 10, 17, 16), 3, 5),
    ((1, 3, 1, 8, 20, 16), 2, 8),
    ((1, 3, 1, 12, 20, 16), 6, 2),
    ((2, 2, 2, 15, 4, 16), 4, 2),
    ((1, 2, 1, 8, 32, 16), 8, 4),
]


def cells(sizes, block_q, block_k, mask):
    """Scores of all tiles that must be computed, by asking every cell."""
    B, H, _, Q, K, _ = sizes
    tiles = [t for rows in seen(mask, Q, K).split(block_q, 0) for t in rows.split(block_k, 1)]
    return B * H * sum(t.numel() for t in tiles if t.any())


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "sizes, block_q, block_k, mask", [(*at, "causal") for at in COUNTED] + [(*COUNTED[1], None)], ids=str
)
def test_a_tile_that_nobody_sees_is_not_computed(expect, sizes, block_q, block_k, mask):
    """Masked instead of skipped, the numbers are right and half of the work is for nothing. A score costs 4 D FLOPs,
    two products of D terms; a pass for the maximum and one for the sum would cost 6 D. Allowed are 4 D + 2: a column
    of ones beside the values may sum the weights. Whoever computes less of a tile on the diagonal is welcome."""
    most = cells(sizes, block_q, block_k, mask) * (4 * sizes[-1] + 2)
    cost = expect.cost(flash_attention, *drawn(*sizes, dtype=torch.float32), mask, block_q, block_k, of="flops")
    cost.holds(lambda found: found["flops"] <= most, f"at most {most} FLOPs: each tile that somebody sees, once")


def elements(*args):
    """Of the largest tensor that is made."""
    return count(flash_attention, *args).largest.elements


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "sizes, block_q, block_k, mask",
    [
        ((1, 1, 1, 48, 48, 2), 8, 8, "causal"),
        ((1, 2, 1, 32, 32, 4), 8, 8, None),
        ((2, 3, 1, 30, 50, 2), 10, 7, "causal"),
        ((1, 2, 1, 50, 30, 2), 7, 10, None),
        ((1, 6, 1, 1, 64, 2), 1, 4, None),
        ((1, 2, 1, 48, 48, 2), 8, 8, "padding"),
    ],
    ids=str,
)
def test_the_matrix_of_scores_is_never_there(expect, sizes, block_q, block_k, mask):
    """At 48 queries and keys of 2 features it is 24 times as large as q: not whole, not joined from tiles, not a strip
    of one tile's queries or keys, nor is its mask. The largest tensor of a right program has as many elements as the
    largest input or as a tile, of a wrong one twice as many; the limit is in between."""
    mask = torch.arange(sizes[4]) > 5 if mask == "padding" else mask
    qkv = drawn(*sizes, dtype=torch.float32)
    most = int(math.sqrt(2) * max(qkv[0].numel(), qkv[1].numel(), sizes[0] * sizes[1] * block_q * block_k))
    expect(elements, *qkv, mask, block_q, block_k).holds(
        lambda n: n <= most, f"the largest tensor made has at most {most} elements"
    )


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "sizes, block_q, block_k", [((1, 6, 2, 3, 40, 16), 2, 40), ((2, 6, 2, 1, 40, 16), 1, 10)], ids=str
)
def test_a_kv_head_is_not_copied_for_each_query_head(expect, sizes, block_q, block_k):
    """Groups of 3 read a cache that is a third as large: repeated, or broadcast in a product (torch copies there what
    it stretches), it is as large as without groups. Of a tile that is all keys, too."""
    qkv = drawn(*sizes, dtype=torch.float32)
    most = int(math.sqrt(3) * qkv[1].numel())
    for mask in ("causal", None):
        expect(elements, *qkv, mask, block_q, block_k).holds(
            lambda n: n <= most, f"the largest tensor made has at most {most} elements"
        )


def alive(*args):
    """Most bytes at once, of what is made."""
    return count(flash_attention, *args).peak_bytes


@pytest.mark.kata("level07.flash.flash_attention")
def test_scores_are_not_kept(expect):
    """A list of tiles of scores is a matrix of scores in pieces. At once alive in a right program: out, and some
    tensors of a tile, 9,600 bytes, or 12,000 with copies of keys and values; with the scores of one row of tiles
    39,000. The limit is 22,000."""
    qkv = drawn(1, 2, 1, 16, 256, 2, dtype=torch.float32)
    expect(alive, *qkv, None, 16, 16).holds(
        lambda n: n <= 22_000, "at most 22,000 bytes are alive at once; all scores together have 32,768"
    )


def moved(*args, on_chip):
    """Bytes to and from tensors that are larger than `on_chip`."""
    return count(flash_attention, *args, on_chip=on_chip).bytes


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("block_q, block_k", [(16, 32), (64, 16)])
def test_keys_and_values_are_read_once_for_a_tile_of_queries(expect, block_q, block_k):
    """That is why tiles are tall: 4 tiles of 16 queries read the 16,384 bytes of K and V 4 times, and with a copy in
    pieces before that it is as much as 6 times; tiles of half the height read them 8 times, single queries 64 times.
    The limit is 2.5 times more than there are tiles. Nothing else counts here: a chip of 6000 bytes has room for all
    queries and for a tile."""
    qkv, tiles = drawn(1, 1, 1, 64, 128, 16, dtype=torch.float32), 64 // block_q
    most = int((tiles + 2.5) * (qkv[1].nbytes + qkv[2].nbytes))
    expect(moved, *qkv, None, block_q, block_k, on_chip=6000).holds(
        lambda n: n <= most, f"at most {most} bytes are moved: K and V once for each tile of {block_q} queries"
    )


@pytest.mark.kata("level07.flash.flash_attention")
def test_a_tile_that_nobody_sees_is_not_read(expect):
    """Converted to float32 before anybody asks, keys and values are read for nothing: of 512 queries only the last 64
    see any of the 64 keys. Right programs move up to 270,000 bytes (with wide copies of all inputs), those that read
    first and then skip at least 559,000. The limit is 388,000."""
    qkv = drawn(1, 1, 1, 512, 64, 16, dtype=torch.bfloat16)
    claim = "at most 388,000 bytes are moved: 112 of 128 tiles of queries see no key"
    expect(moved, *qkv, "causal", 4, 16, on_chip=1500).holds(lambda n: n <= 388_000, claim)


# ---- flash_attention: masks, and what scores may be


def random_mask(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "shape",
    [
        (7, 11),
        (1, 11),
        (11,),
        (7, 1),
        (1, 1),
        (2, 1, 1, 11),
        (1, 1, 7, 11),
        (2, 1, 7, 11),
        (6, 1, 11),
        (1, 6, 7, 1),
        (2, 6, 1, 1),
        (2, 6, 7, 11),
    ],
    ids=str,
)
def test_a_mask_of_booleans_may_have_any_shape_that_fits(expect, shape):
    """Padding is (B, 1, 1, K), a packed row (Q, K), a window of some heads (1, H, Q, K); here they are random, so that
    no row, head or tile has that of another, and some rows have nothing to attend to."""
    qkv, mask = drawn(2, 6, 2, 7, 11, 5, seed=2), random_mask(*shape, seed=len(shape) + shape[0])
    expect(flash_attention, *qkv, mask, 3, 4).equals(by_sdpa(*qkv, mask), **CLOSE)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("hidden", [slice(0, 4), slice(4, 8), slice(8, 11), slice(0, 8), slice(2, 11), slice(0, 11)])
def test_whole_tiles_may_be_masked(expect, hidden):
    """Padding on the left fills the first tiles, on the right the last ones: the keys behind them count, and a row
    without any key gives 0 beside rows that have some."""
    qkv, mask = drawn(2, 6, 2, 7, 11, 5, seed=3), torch.ones(2, 1, 7, 11, dtype=torch.bool)
    mask[0, ..., hidden] = False
    mask[1, :, 2:4, hidden] = False
    for m in (mask, mask[:1, 0, :1]):  # for some rows, and for all of them
        expect(flash_attention, *qkv, m, 3, 4).equals(by_sdpa(*qkv, m), **CLOSE)


@pytest.mark.kata("level07.flash.flash_attention")
def test_what_is_hidden_has_no_weight_at_all(expect):
    """Real scores of -20,000 beside a mask of -1e4, and the hidden key has won: its value here is 100."""
    q, k = torch.tensor([[[[-20000.0]]]]), torch.tensor([[[[1.0], [0.0]]]])
    v, mask = torch.tensor([[[[1.0], [100.0]]]]), torch.tensor([True, False])
    for block in (1, 2):
        right = torch.tensor([[[[1.0]]]]), torch.tensor([[[-20000.0]]])
        expect(flash_attention, q, k, v, mask, 1, block).equals(right)
        right = torch.tensor([[[[0.0]]]]), torch.tensor([[[-INF]]])
        expect(flash_attention, q, k, v, mask & False, 1, block).equals(right)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("size", [-1e4, -1000.0, 1000.0, 1e4])
@pytest.mark.parametrize("mask", ["causal", None], ids=str)
def test_scores_may_be_of_any_size(expect, size, mask):
    """A constant on all scores of a row is in the log-sum-exp, and out stays: without a maximum e^1000 is infinite."""
    q, k, v = drawn(2, 6, 2, 5, 9, 4, seed=4)
    q, k = torch.cat([q, torch.full_like(q, size)], -1), torch.cat([k, torch.full_like(k, 0.125)], -1)
    v = torch.cat([v, -v], -1)
    expect(flash_attention, q, k, v, mask, 2, 4).equals(by_sdpa(q, k, v, mask), rel=1e-9, abs=1e-9)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("place", range(0, 9, 2))
def test_the_largest_score_may_be_in_any_tile(expect, place):
    """In the last one all that came before it is rescaled."""
    q, k, v = drawn(1, 3, 1, 4, 9, 3, seed=5)
    q[..., 0], k[..., place, 0] = 9, 9
    expect(flash_attention, q, k, v, None, 4, 2).equals(by_sdpa(q, k, v, None), **CLOSE)


@pytest.mark.kata("level07.flash.flash_attention")
def test_tensors_may_be_views(expect):
    """Heads are split by a transpose, and a cache returns the first part of its buffer."""
    q, k, v = (torch.stack([x.transpose(1, 2), x.transpose(1, 2) + 1], 2) for x in drawn(2, 6, 2, 7, 11, 5, seed=6))
    q, k, v = q[:, :, 0].transpose(1, 2), k[:, 2:, 0].transpose(1, 2), v[:, 2:, 0].transpose(1, 2)
    mask = random_mask(9, 7, 2, seed=9)[..., 0].T.expand(2, 1, 7, 9)
    for m in ("causal", None, mask):
        expect(flash_attention, q, k, v, m, 3, 4).equals(by_sdpa(q, k, v, m), **CLOSE)


# ---- flash_attention: dtypes


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "dtype, rel",
    [(torch.bfloat16, 2**-8), (torch.float16, 2**-11), (torch.float32, 1e-5), (torch.float64, 1e-11)],
    ids=str,
)
def test_half_precision_is_computed_in_float32(expect, dtype, rel):
    """Out is rounded once, at the end, to the dtype of q; the log-sum-exp, by which parts are merged, stays wide."""
    qkv = drawn(2, 6, 2, 7, 11, 7, seed=7, dtype=dtype)
    wide = torch.promote_types(dtype, torch.float32)
    for mask in ("causal", random_mask(2, 1, 1, 11, seed=1)):
        out, lse = by_sdpa(*qkv, mask)

        def nearest(result, out=out, lse=lse):
            found = tuple(x.dtype for x in result)
            if found != (dtype, wide):
                return f"dtypes {found}, where {(dtype, wide)} is right"
            off = ((result[0].double() - out).abs() - rel * out.abs()).max().item()
            apart = (result[1].double() - lse).abs().max().item()
            return (off < 1e-6 and apart < 1e-5) or f"out is off by {off:.2g} more than it may, lse by {apart:.2g}"

        expect(flash_attention, *qkv, mask, 3, 4).holds(nearest, "out in the dtype of q, as near as that can be")


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_weights_are_not_rounded(expect, dtype):
    """Values of 64 and -64 that nearly cancel, at weights within 5 % of each other: rounded to bfloat16 on the way,
    weights are off by up to 0.2 %, which is as much as what is left."""
    q, k, v = drawn(1, 3, 1, 6, 16, 8, seed=8, dtype=dtype)
    k, v = k / 32, 64 * (1 - 2 * (torch.arange(16) % 2)).to(dtype)[:, None].expand_as(v)
    out, _ = by_sdpa(q, k, v, None)

    def nearest(result):
        off = ((result[0].double() - out).abs() - 2**-8 * out.abs()).max().item()
        return off < 1e-3 or f"out is off by {off:.2g} more than the last rounding makes it"

    expect(flash_attention, q, k, v, None, 4, 5).holds(nearest, "out is rounded once, at the end")


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("dtypes", product([torch.float32, torch.float64], [torch.bfloat16, torch.float32]), ids=str)
def test_a_cache_may_be_narrower_than_the_queries(expect, dtypes):
    """A cache in bfloat16 is half as large. What counts is the dtype of q."""
    qkv = drawn(2, 6, 2, 5, 9, 4, seed=9)
    q, k, v = qkv[0].to(dtypes[0]), qkv[1].to(dtypes[1]), qkv[2].to(dtypes[1])
    right = tuple(x.to(dtypes[0]) for x in by_sdpa(q, k, v, "causal"))
    expect(flash_attention, q, k, v, "causal", 2, 4).equals(right, rel=1e-5, abs=1e-5)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize(
    "dtypes", [(torch.bfloat16, torch.float32), (torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str
)
def test_a_cache_may_be_wider_than_the_queries(expect, dtypes):
    """Rounded to the dtype of q first, keys and values have lost what the arithmetic in float32 would see. 1024 and
    1024.25 are one number in half precision, and here their difference is what is left."""
    q, k, v = drawn(1, 3, 1, 2, 6, 4, seed=10)
    q, k, v = q.to(dtypes[0]), k.to(dtypes[1]), v.to(dtypes[1])
    out, lse = by_sdpa(q, k, v, None)
    expect(flash_attention, q, k, v, None, 2, 4).equals((out.to(q.dtype), lse.float()), rel=1e-2, abs=1e-2)

    def log_sum(*args):
        return flash_attention(*args)[1]

    expect(log_sum, q, k, v, None, 2, 4).equals(lse.float(), rel=1e-6, abs=1e-5)
    v = torch.tensor([1024.25, -1024.0] * 3, dtype=dtypes[1])[:, None].expand_as(v)
    right = torch.full_like(q, 0.125), torch.full(q.shape[:3], math.log(6))
    expect(flash_attention, q * 0, k, v, None, 2, 4).equals(right, rel=1e-3, abs=1e-6)


@pytest.mark.kata("level07.flash.flash_attention")
def test_what_makes_no_tiles_is_refused(expect):
    """5 query heads and 2 KV heads: which one would head 4 read?"""
    q, k, v = drawn(1, 2, 2, 1, 1, 3)
    expect(flash_attention, q, k, v, None, 1, 1).equals(by_sdpa(q, k, v, None), **CLOSE)
    for blocks in ((0, 1), (1, 0), (-1, 4)):
        expect(flash_attention, q, k, v, None, *blocks).raises(ValueError)
    expect(flash_attention, *drawn(1, 5, 2, 3, 3, 2)).raises(ValueError)
    expect(flash_attention, *drawn(1, 2, 4, 3, 3, 2)).raises(ValueError)


# ---- flash_attention: in a model

MODEL = Config(2, 20, 6, 3, 4, 28, 31, max_seq_len=300, tie_embeddings=False)  # 6 query heads of 4 are not d_model wide
PARAMS = {name: w.double() for name, w in random_params(MODEL, seed=0).items()}


def text(*shape):
    return torch.randint(0, MODEL.vocab_size, shape, generator=torch.Generator().manual_seed(3))


def sdpa_attend(q, k, v, mask):
    return by_sdpa(q, k, v, mask)[0].to(q.dtype)


def logits(ids, mask="causal", attend=flash_attend):
    return forward(PARAMS, MODEL, ids, mask=mask, attend=attend)


def chunk_by_chunk(ids, sizes, dtype=torch.float64, attend=flash_attend):
    """Logits of all tokens, behind a cache that grows by chunks."""
    cache = KVCache(MODEL, len(ids), ids.shape[1], dtype)
    return torch.cat([forward(PARAMS, MODEL, c, cache, attend=attend) for c in ids.split(sizes, 1)], 1)


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("length", [1, 9, 150])
def test_a_model_gives_the_same_logits(expect, length):
    """flash_attend stands in for level 00's attention; 150 tokens are more than one tile."""
    ids = text(2, length)
    expect(logits, ids).equals(logits(ids, attend=sdpa_attend), rel=1e-9, abs=1e-10)
    expect(logits, ids).equals(logits(ids, attend=attention), rel=1e-4, abs=1e-4)  # whose softmax is in float32


@pytest.mark.kata("level07.flash.flash_attention")
@pytest.mark.parametrize("sizes", [[1] * 6, [4, 2], [5, 1], [2, 3, 1], [140, 1, 12]], ids=str)
def test_a_model_with_a_cache_gives_the_same_logits(expect, sizes):
    """A prompt, then chunks, then single tokens: the mask is aligned to the last key, not to the first."""
    ids = text(2, sum(sizes))
    expect(chunk_by_chunk, ids, sizes).equals(logits(ids, attend=sdpa_attend), rel=1e-9, abs=1e-10)


@pytest.mark.kata("level07.flash.flash_attention")
def test_a_model_with_padding_gives_the_same_logits(expect):
    """Two prompts of 3 and 7 tokens, padded on the left: the first rows of the shorter one attend to nothing."""
    ids, real = text(2, 7), torch.arange(7) >= torch.tensor([[4], [0]])
    mask = real[:, None, None] & torch.ones(7, 7, dtype=torch.bool).tril()
    expect(logits, ids, mask).equals(logits(ids, mask, sdpa_attend), rel=1e-9, abs=1e-10)
