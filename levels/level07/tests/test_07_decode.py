"""Judges decode.py by listing all keys, by trying all numbers of splits, and by torch's attention to the whole cache.

Which splits are the longer ones is open, so ranges are judged by what they hold. Attention's oracle is float64, and its
log-sum-exp torch.logsumexp.
"""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

from dojo.cost import count
from level07.decode import choose_splits, split_kv_decode, split_ranges

# ---- split_ranges, judged with choose_splits


def shared_out(kv_len, num_splits):
    """A check: as many parts as there can be, that hold every key once, in order, and nearly as many each."""

    def check(ranges):
        bounds, lengths = [0, *(end for _, end in ranges)], [end - start for start, end in ranges]
        in_turn = [start for start, _ in ranges] == bounds[:-1] and bounds[-1] == kv_len
        return in_turn and len(ranges) == min(num_splits, kv_len) and min(lengths) >= max(1, max(lengths) - 1)

    return check


@pytest.mark.kata("level07.decode.choose_splits")
def test_every_key_is_in_one_part(expect):
    """All lengths and numbers up to 40. The newest keys are the last ones: a remainder that is dropped is what the
    model has just said, and a key in two parts counts twice."""
    claim = "num_splits parts, or one for each key, hold every key once, in order, and lengths differ by at most 1"
    for kv_len in range(1, 41):
        for num_splits in range(1, 41):
            expect(split_ranges, kv_len, num_splits).holds(shared_out(kv_len, num_splits), claim)


@pytest.mark.kata("level07.decode.choose_splits")
def test_the_longest_part_decides_how_long_all_wait(expect):
    """By hand: 10 keys in 3 parts are 3, 3 and 4 in any order. Four at a time, 4 + 4 + 2, would leave the last
    processor idle for half of the time; 3 + 3 + 3 + 1 is one part too many."""
    expect(split_ranges, 10, 3).holds(
        lambda ranges: sorted(end - start for start, end in ranges) == [3, 3, 4], "the lengths are 3, 3 and 4"
    )
    claim = "every part has as many keys as any other, or one more"
    for kv_len, num_splits in ((17, 16), (31, 16), (32768, 17), (8191, 132), (1_000_003, 64), (100_000_007, 3)):
        expect(split_ranges, kv_len, num_splits).holds(shared_out(kv_len, num_splits), claim)


@pytest.mark.kata("level07.decode.choose_splits")
def test_no_part_is_empty(expect):
    """The docstring's example, 2 keys in 5 splits: an empty part costs a launch, and has nothing to say."""
    expect(split_ranges, 2, 5).equals([(0, 1), (1, 2)])
    expect(split_ranges, 1, 132).equals([(0, 1)])


@pytest.mark.kata("level07.decode.choose_splits")
def test_equal_parts_leave_no_choice(expect):
    """One part, one key each, and what divides evenly: pairs of start and end, of which the end belongs to the next."""
    expect(split_ranges, 7, 1).equals([(0, 7)])
    expect(split_ranges, 3, 3).equals([(0, 1), (1, 2), (2, 3)])
    expect(split_ranges, 12, 3).equals([(0, 4), (4, 8), (8, 12)])


@pytest.mark.kata("level07.decode.choose_splits")
def test_nothing_is_not_shared_out(expect):
    """An empty cache has no key to attend to, and no processor is nobody who would do it."""
    expect(split_ranges, 1, 1).equals([(0, 1)])
    for kv_len, num_splits in ((0, 1), (1, 0), (0, 0), (-3, 2), (3, -2)):
        expect(split_ranges, kv_len, num_splits).raises(ValueError)


# ---- choose_splits


def tried(batch, n_kv_heads, kv_len, num_processors, min_chunk):
    """Oracle: one more split at a time, as long as processors idle and one more leaves the shortest long enough."""
    splits = 1
    while batch * n_kv_heads * splits < num_processors and kv_len // (splits + 1) >= min_chunk:
        splits += 1
    return splits


@pytest.mark.kata("level07.decode.choose_splits")
@pytest.mark.parametrize(
    "case, right",
    [
        ((1, 8, 8192, 132, 256), 17),
        ((1, 8, 32768, 132, 256), 17),
        ((2, 8, 8192, 132, 256), 9),
        ((1, 3, 8192, 132, 64), 44),
        ((32, 8, 8192, 132, 256), 1),
        ((1, 8, 1000, 132, 256), 3),
        ((1, 1, 100, 132, 256), 1),
    ],
    ids=["docstring", "longer", "two requests", "even", "many requests", "short", "shorter than a chunk"],
)
def test_splits_on_a_real_chip(expect, case, right):
    """By hand, on an H100's 132 processors: 132 / 8 = 16.5 is 17 splits, 16 would leave 4 idle. 3 KV heads take 44 and
    not one more; 32 requests keep all busy as they are. 1000 keys have 3 chunks of 256, 100 keys none: one split."""
    expect(choose_splits, *case).equals(right)


@pytest.mark.kata("level07.decode.choose_splits")
@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 5])
def test_the_fewest_that_keep_all_busy(expect, batch, n_kv_heads):
    """Oracle: one more at a time. More than needed only add to what must be merged, and the shortest split still has
    min_chunk keys: exactly so many are enough, one less is not."""
    for num_processors in (1, 2, 4, 5, 6, 7, 10, 11, 16, 30):
        for kv_len in (1, 3, 4, 7, 8, 9, 15, 16, 47, 48, 1000):
            for min_chunk in (1, 3, 4, 8):
                case = batch, n_kv_heads, kv_len, num_processors, min_chunk
                expect(choose_splits, *case).equals(tried(*case))


@pytest.mark.kata("level07.decode.choose_splits")
def test_a_choice_from_nothing_is_refused(expect):
    """Each argument in turn is 0, then negative."""
    good = (1, 2, 64, 8, 4)
    expect(choose_splits, *good).equals(4)
    for i in range(len(good)):
        for bad in (0, -1):
            expect(choose_splits, *good[:i], bad, *good[i + 1 :]).raises(ValueError)


# ---- split_kv_decode


def cache_of(kv_len, B=2, H=6, G=2, D=5, seed=0, dtype=torch.float32):
    """q, k, v: every head, sequence and key is another. Some scores are far from the others."""
    draw = torch.Generator().manual_seed(seed + kv_len)
    q, k, v = (torch.randn(shape, generator=draw) for shape in ((B, H, 1, D), (B, G, kv_len, D), (B, G, kv_len, D)))
    return (2 * q).to(dtype), k.to(dtype), (v + 1).to(dtype)


def whole(q, k, v):
    """Oracle: attention to the whole cache, and the log of the sum of all exp(score), in float64."""
    group = q.shape[1] // k.shape[1]
    wide_q, wide_k, wide_v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    lse = (wide_q @ wide_k.mT * q.shape[3] ** -0.5).logsumexp(-1)
    kept = torch.promote_types(q.dtype, torch.float32)
    return scaled_dot_product_attention(wide_q, wide_k, wide_v).to(q.dtype), lse.to(kept)


@pytest.mark.kata("level07.decode.split_kv_decode")
def test_parts_weigh_as_many_keys_as_they_hold(expect):
    """By hand: with q = 0 all scores are 0, so out is the mean of the values and lse the log of their number. Values 0
    to 6 in splits of 3 and 4 keys have the means 1 and 4.5: their mean would be 2.75."""
    q, k, v = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 7, 1), torch.arange(7.0).view(1, 1, 7, 1)
    for num_splits in (1, 2, 3, 5, 6, 7, 9):
        right = torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1), math.log(7))
        expect(split_kv_decode, q, k, v, num_splits).equals(right)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("kv_len", [1, 2, 3, 7, 16, 50])
def test_any_number_of_splits_gives_the_whole(expect, kv_len):
    """Oracle: torch's attention. With one key, one split, uneven splits, a split for each key, more splits than keys:
    how many processors work on it must not change what the model says."""
    q, k, v = cache_of(kv_len)
    for num_splits in {1, 2, 3, 4, 5, 9, kv_len - 1 or 1, kv_len, kv_len + 1, 132}:
        expect(split_kv_decode, q, k, v, num_splits).equals(whole(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("B, H, G, D", [(1, 1, 1, 1), (1, 4, 4, 3), (3, 4, 1, 7), (1, 8, 2, 16), (2, 9, 3, 4)], ids=str)
def test_a_split_of_a_group_of_query_heads(expect, B, H, G, D):
    """Oracle: torch's attention with the KV heads repeated. Query heads 0 to H / G - 1 read KV head 0."""
    q, k, v = cache_of(11, B, H, G, D, seed=1)
    for num_splits in (1, 4, 6):
        expect(split_kv_decode, q, k, v, num_splits).equals(whole(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("place", [0, 3, 11, 17, 23])
@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0, -1000.0])
def test_one_key_may_outweigh_all_other_splits(expect, place, size):
    """A query that looks for one name far back in the text. Its split may be the first or the last; the exponential of
    a score of 1000 is infinite, and all that of a split with scores of -1000 is 0."""
    q, k, v = (x.double() for x in cache_of(24, 1, 2, 1, 4, seed=2))
    q[:] = 1
    k[:, :, place] = size / 2  # the score is 4 · size / 2 / sqrt(4) = size
    for num_splits in (1, 3, 5, 8):
        expect(split_kv_decode, q, k, v, num_splits).equals(whole(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("level", [-20000.0, -1000.0, 1000.0])
@pytest.mark.parametrize("step", [-100.0, -1.0, 0.5, 100.0])
def test_scores_that_rise_or_fall_from_split_to_split(expect, level, step):
    """Every split has another largest score, each above or below all before it, far from 0. Weights depend on the
    differences alone; the lse says how far from 0 they are (in float64: -20000 leaves float32 few digits)."""
    q, v = torch.ones(1, 1, 1, 1).double(), cache_of(12, 1, 1, 1, 1, seed=3)[2].double()
    k = (level + step * (torch.arange(12) // 3)).view(1, 1, 12, 1).double()
    for num_splits in (1, 2, 4, 12):
        expect(split_kv_decode, q, k, v, num_splits).equals(whole(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_parts_are_merged_in_float32_or_better(expect, dtype):
    """out has the query's dtype with any number of splits, lse is float32, or float64 of a float64 query: an lse of
    bfloat16 has three digits, and its exponential, a weight, not one."""
    q, k, v = cache_of(45, dtype=dtype)
    loose = {"rel": 1e-12, "abs": 1e-12} if dtype == torch.float64 else {"rel": 2**-7, "abs": 2**-7}
    (out, lse), kept = whole(q, k, v), torch.promote_types(dtype, torch.float32)
    for num_splits in (1, 2, 7, 45):
        expect(lambda *x: split_kv_decode(*x)[0], q, k, v, num_splits).equals(out, **loose)
        expect(lambda *x: split_kv_decode(*x)[1], q, k, v, num_splits).equals(lse.to(kept), rel=1e-5, abs=1e-5)


@pytest.mark.kata("level07.decode.split_kv_decode")
def test_the_cache_may_be_a_view(expect):
    """Level 02's cache hands out the front of a longer tensor, and the query is one token of a longer row. What lies
    around the views is NaN here."""
    q, k, v = cache_of(13, seed=4)
    longer = torch.full((2, 2, 2, 40, 5), torch.nan)
    longer[..., :13, :] = torch.stack([k, v])
    row = torch.full((2, 6, 4, 5), torch.nan)
    row[:, :, 2:3] = q
    for num_splits in (1, 3, 5):
        expect(split_kv_decode, row[:, :, 2:3], *longer[..., :13, :], num_splits).equals(whole(q, k, v), abs=1e-5)


def one_step_after_the_other(first, second, num_splits):
    """Two decodes from the same memory, which is written in between, as a cache is."""
    q, k, v = (x.clone() for x in first)
    before = split_kv_decode(q, k, v, num_splits)
    for held, new in zip((q, k, v), second):
        held.copy_(new)
    return before, split_kv_decode(q, k, v, num_splits)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("num_splits", [1, 4])
def test_nothing_is_left_from_the_step_before(expect, num_splits):
    """The next token's query and cache lie where the last one's did, and the last result is not written over."""
    first, second = cache_of(14, seed=5), cache_of(14, seed=6)
    expect(one_step_after_the_other, first, second, num_splits).equals((whole(*first), whole(*second)), abs=1e-5)


class Products(TorchDispatchMode):
    """The largest extent of anything that is multiplied as a matrix or vector; how many there are does not count."""

    KINDS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "_scaled_dot_product_flash_attention_for_cpu"}
    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name.removeprefix("aten::") in self.KINDS:
            factors = [x for x in args if isinstance(x, torch.Tensor)]
            self.largest = max(self.largest, *(extent for x in factors for extent in x.shape[-2:]))
        return func(*args, **(kwargs or {}))


def keys_of_a_product(q, k, v, num_splits):
    """The most keys that are multiplied at once; 8 if there are fewer, since heads and features are multiplied, too."""
    with Products() as products:
        split_kv_decode(q, k, v, num_splits)
    return max(products.largest, 8)


def bytes_of_the_cache(q, k, v, num_splits):
    """Bytes of k and v that are read. What is smaller than they are counts as on the chip."""
    return count(split_kv_decode, q, k, v, num_splits, on_chip=5000).bytes_read


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("num_splits", [2, 3, 8, 12, 48])
def test_a_part_has_the_keys_of_its_split_only(expect, num_splits):
    """96 keys in 8 splits of 12: a product with more of them at once would be one processor's work again."""
    most = max(96 // num_splits, 8)
    claim = f"each split's keys are multiplied by themselves: at most {most} of the 96 at once, not the whole cache"
    expect(keys_of_a_product, *cache_of(96, 1, 4, 2, 2), num_splits).holds(lambda keys: keys <= most, claim)


@pytest.mark.kata("level07.decode.split_kv_decode")
@pytest.mark.parametrize("num_splits", [2, 4, 8])
def test_every_key_and_value_is_read_once(expect, num_splits):
    """Reading the cache is all that decoding costs: counted, the bytes of k and v, by any number of splits. A copy of
    the cache, or all of it behind a mask for each split, would be read over and over."""
    q, k, v = cache_of(96, 1, 4, 2, 8)
    once = k.nbytes + v.nbytes
    expect(bytes_of_the_cache, q, k, v, num_splits).holds(lambda read: read <= once, f"at most {once} bytes are read")


@pytest.mark.kata("level07.decode.split_kv_decode")
def test_what_is_not_decoding_is_refused(expect):
    """Two queries would need a mask between them; no split and no key have nothing to give."""
    q, k, v = cache_of(6)
    expect(split_kv_decode, q, k, v, 2).equals(whole(q, k, v), abs=1e-5)
    expect(split_kv_decode, torch.cat([q, q], 2), k, v, 2).raises(ValueError)
    expect(split_kv_decode, q[:, :, :0], k, v, 2).raises(ValueError)
    expect(split_kv_decode, q, k[:, :, :0], v[:, :, :0], 2).raises(ValueError)
    for num_splits in (0, -1):
        expect(split_kv_decode, q, k, v, num_splits).raises(ValueError)
