"""Judges paged.py by slots listed one after the other, by level 02's contiguous cache, and by a paper with who holds
which tokens in which blocks.

A pool begins full of NaN, so whatever is read before it was written shows, be it multiplied by 0. Every token has
numbers of its own in each layer, head and feature, and its values are minus its keys. No two axes have the same size: 3
layers, blocks of 4, 2 KV heads, 5 features. Of a cache only the documented names are used, and of what update returns
only what is in it: whether it is a copy is left open.
"""

import random
from dataclasses import replace
from itertools import count

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level01.generate import generate
from level02.cache import KVCache
from level03.sampler import SamplingParams
from level05.engine import Engine, Request
from level06.paged import PagedCache, Pool, gather, slots

EXACT = {"rel": 0, "abs": 0}
SMALL = Config(3, 20, 6, 2, 5, 28, 31)
SIZE = 4
LAYERS = range(3)


# ---- slots, judged with gather


def listed(block_table, start, end, block_size):
    """Oracle: all slots of the blocks, one after the other, and of these the ones asked for."""
    every = [block * block_size + offset for block in block_table for offset in range(block_size)]
    return torch.tensor(every[start:end], dtype=torch.int64)


@pytest.mark.kata("level06.paged.gather")
def test_a_token_lies_where_its_block_lies(expect):
    """The docstring's example: token 3 is the second of block 3, token 4 the first of block 9. Then the one that shows
    what was mixed up: token 5 of blocks of 4, in the second block, 2, at offset 1."""
    expect(slots, [7, 3, 9], 3, 5, 2).equals(torch.tensor([7, 18]))
    expect(slots, [7, 2], 5, 6, 4).equals(torch.tensor([9]))


@pytest.mark.kata("level06.paged.gather")
@pytest.mark.parametrize("block_table", [[7, 3, 9], [0, 1, 2], (11, 4), [5], [8, 6, 0, 2, 1]], ids=str)
@pytest.mark.parametrize("block_size", [1, 2, 3, 16])
def test_every_stretch_of_a_sequence(expect, block_table, block_size):
    """Oracle: the slots of all blocks, in the order of the table, from which a stretch is cut."""
    room = len(block_table) * block_size
    for start, end in {(0, room), (0, 1), (room - 1, room), (room // 3, room // 2 + 1), (1, room), (0, room // 2)}:
        expect(slots, block_table, start, end, block_size).equals(listed(block_table, start, end, block_size))


@pytest.mark.kata("level06.paged.gather")
def test_no_tokens_have_no_slots(expect):
    """Also behind the last one, and with no blocks at all: a sequence that has not begun."""
    nothing = torch.tensor([], dtype=torch.int64)
    for table, at in (([7, 3], 0), ([7, 3], 1), ([7, 3], 4), ([], 0)):
        expect(slots, table, at, at, 2).equals(nothing)


@pytest.mark.kata("level06.paged.gather")
def test_tokens_without_a_block_are_refused(expect):
    """Two blocks of 2 have no token 4. A negative start would come from the end of the table, as indices do."""
    expect(slots, [7, 3], 3, 4, 2).equals(torch.tensor([7]))
    for table, start, end in (([7, 3], 0, 5), ([7, 3], 4, 5), ([], 0, 1), ([7, 3], -1, 2), ([7, 3], 3, 2)):
        expect(slots, table, start, end, 2).raises(ValueError)


# ---- gather

TABLES = [[2, 0], [0, 1, 2], (4, 1, 3), [3], [5, 4, 3, 2, 1, 0]]


def layer_of(num_blocks=6, block_size=4, dtype=torch.float32):
    """One layer of a pool, (num_blocks, block_size, 2, 5), all numbers different."""
    return torch.arange(num_blocks * block_size * 10).view(num_blocks, block_size, 2, 5).to(dtype) + 1


def row_by_row(pool, block_table, length):
    """Oracle: token by token, head by head."""
    size, right = pool.shape[1], torch.empty(1, pool.shape[2], length, pool.shape[3], dtype=pool.dtype)
    for t in range(length):
        for head in range(pool.shape[2]):
            right[0, head, t] = pool[block_table[t // size], t % size, head]
    return right


@pytest.mark.kata("level06.paged.gather")
def test_tokens_stand_in_the_order_of_the_table(expect):
    """The docstring's example: blocks lie anywhere, and the table says which comes first. The last is half full: its
    other slot holds what somebody else left there."""
    pool = torch.arange(6.0).view(3, 2, 1, 1)
    expect(gather, pool, [2, 0], 3).equals(torch.tensor([4.0, 5, 0]).view(1, 1, 3, 1))


@pytest.mark.kata("level06.paged.gather")
def test_heads_come_before_tokens(expect):
    """In a block the heads of a token stand together, for attention the tokens of a head. By hand: head 0 of tokens 0
    to 3 is 0, 2, 4, 6. Reshaped instead of transposed it would be 0, 1, 2, 3, in the same shape."""
    pool = torch.arange(8.0).view(2, 2, 2, 1)
    expect(gather, pool, [0, 1], 4).equals(torch.tensor([[0.0, 2, 4, 6], [1, 3, 5, 7]]).view(1, 2, 4, 1))


@pytest.mark.kata("level06.paged.gather")
@pytest.mark.parametrize("block_table", TABLES, ids=str)
def test_every_length_of_a_sequence(expect, block_table):
    """Oracle: token by token. From none to all that the blocks have room for; the table may have blocks to spare."""
    pool = layer_of()
    for length in range(len(block_table) * 4 + 1):
        expect(gather, pool, block_table, length).equals(row_by_row(pool, block_table, length), **EXACT)


@pytest.mark.kata("level06.paged.gather")
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_blocks_of_other_sizes(expect, block_size):
    """The size is the pool's. Here it is at times the same as the number of heads or features, at times not."""
    pool = layer_of(5, block_size)
    for length in {1, block_size, 2 * block_size + 1, 3 * block_size}:
        expect(gather, pool, [4, 0, 3], length).equals(row_by_row(pool, [4, 0, 3], length), **EXACT)


@pytest.mark.kata("level06.paged.gather")
def test_what_is_not_the_sequences_is_not_read(expect):
    """All else is NaN, as fresh memory may be: a mask, or a sum with zeros, would let 0 · NaN through."""
    whole, pool = layer_of(), torch.full((6, 4, 2, 5), torch.nan)
    pool[4], pool[1, :3] = whole[4], whole[1, :3]
    expect(gather, pool, [4, 1], 7).equals(row_by_row(whole, [4, 1], 7), **EXACT)


@pytest.mark.kata("level06.paged.gather")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8], ids=str)
def test_gathered_tokens_keep_their_type(expect, dtype):
    """Bit for bit, be they infinite or NaN: they are moved, nothing is computed."""
    pool = layer_of(3, 2, dtype)
    if dtype.is_floating_point:
        pool[2, 1, 0, 3], pool[0, 0, 1, 2] = torch.nan, -torch.inf
    expect(gather, pool, [2, 0], 3).equals(row_by_row(pool, [2, 0], 3), **EXACT)


@pytest.mark.kata("level06.paged.gather")
def test_more_tokens_than_the_blocks_hold_are_refused(expect):
    """Cut off in silence, a sequence would forget its newest tokens."""
    pool = layer_of()
    expect(gather, pool, [2, 0], 8).equals(row_by_row(pool, [2, 0], 8))
    for table, length in (([2, 0], 9), ([2], 5), ([], 1), ([3, 1], 24)):
        expect(gather, pool, table, length).raises(ValueError)


# ---- PagedCache: a stand-in for a model


def pool_of(num_blocks=7, block_size=SIZE, dtype=torch.float32, config=SMALL):
    pool = Pool(config, num_blocks, block_size, dtype)
    pool.keys.fill_(torch.nan), pool.values.fill_(torch.nan)
    return pool


def kv(layer, *tokens):
    """Keys and values (1, 2, n, 5) of these tokens, which are numbers from 1 up, in one layer."""
    k = torch.tensor(tokens).view(1, 1, -1, 1) * 1000.0 + layer * 100 + torch.arange(10.0).view(1, 2, 1, 5)
    return k, -k


def tokens_of(layer, held):
    """The tokens whose keys and values these are: [1, 2]. Where they differ ([of the keys], [of the values]), and what
    belongs to no token of this layer as it is."""
    found = []
    for x, right in zip(held, (0, 1)):
        ids = ((x[0, 0, :, 0].abs() - 100 * layer) / 1000).nan_to_num(-1).round().long().tolist()
        own = kv(layer, *ids)[right]
        found.append(ids if x.shape == own.shape and torch.equal(x, own) else x.clone())
    return found[0] if isinstance(found[0], list) and found[0] == found[1] else tuple(found)


def ran(cache, *tokens, layers=LAYERS):
    """A pass: which tokens its layers see. If all of them see the same, that."""
    seen = [tokens_of(layer, cache.update(layer, *kv(layer, *tokens))) for layer in layers]
    return seen[0] if all(isinstance(one, list) and one == seen[0] for one in seen) else seen


def books(pool, *caches):
    """(free blocks, lengths, tables): in the tables the blocks have letters, in the order in which they are met, and
    the number of their owners: two that share a block and have one each are "A2 B1" and "A2 C1"."""
    letters = {}
    for block in (block for cache in caches for block in cache.block_table):
        letters.setdefault(block, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[len(letters)])
    counts = {block: f"{letter}{pool.allocator.ref_count(block)}" for block, letter in letters.items()}
    tables = [" ".join(counts[block] for block in cache.block_table) for cache in caches]
    return pool.allocator.num_free, [cache.length for cache in caches], tables


def in_pool(pool, *caches):
    """The tokens of each cache as all layers of the pool have them, looked up with the cache's table."""
    size, each = pool.block_size, [range(cache.length) for cache in caches]
    at = [(cache.block_table[t // size], t % size) for cache, own in zip(caches, each) for t in own]
    blocks, offsets = torch.tensor(at, dtype=torch.int64).view(-1, 2).unbind(1)
    keys, values = (x[:, blocks, offsets].transpose(1, 2) for x in (pool.keys, pool.values))  # (3, 2, tokens, 5)
    ids = (keys[0, 0, :, 0] / 1000).nan_to_num(-1).round().long().tolist()
    right = torch.cat([kv(layer, *ids)[0] for layer in LAYERS])
    if torch.equal(keys, right) and torch.equal(values, -right):  # all at once: a look at each takes longer
        left = iter(ids)
        return [[next(left) for _ in own] for own in each]
    if len(caches) > 1:
        return [in_pool(pool, cache)[0] for cache in caches]
    return [[tokens_of(layer, (keys[layer][None], values[layer][None])) for layer in LAYERS]]


def filled(cls, pool, *tokens):
    cache = cls(pool)
    ran(cache, *tokens)
    return cache


def told(call, *args):
    """What a call comes to: "accepted", or the name of its exception."""
    try:
        call(*args)
    except NotImplementedError:
        raise
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return next((name for name in ("OutOfBlocks", "ValueError") if name in kinds), kinds[0])
    return "accepted"


def upto(n):
    """The tokens 1 to n."""
    return list(range(1, n + 1))


# ---- PagedCache: one sequence


@pytest.mark.kata("level06.paged.PagedCache")
def test_a_sequence_grows_block_by_block(expect):
    """Token by token: a block is taken when the last one is full and not before, so less than one block is wasted.
    Each layer sees all tokens so far."""

    def decoded(cls):
        pool = pool_of(3)
        cache = cls(pool)
        return [books(pool, cache), *((ran(cache, t), books(pool, cache)) for t in upto(9))]

    tables = ["A1"] * 4 + ["A1 B1"] * 4 + ["A1 B1 C1"]
    right = [(3, [0], [""]), *((upto(t), (3 - (t + 3) // 4, [t], [tables[t - 1]])) for t in upto(9))]
    expect.story(decoded, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize(
    "chunks",
    [(1,), (3,), (4,), (5,), (8,), (9,), (3, 1), (3, 2), (4, 4), (2, 9, 1), (1, 3, 5, 3), (40, 39, 1)],
    ids=str,
)
def test_a_prompt_takes_as_many_blocks_as_it_needs(expect, chunks):
    """In chunks, within a block and across blocks, exactly full and one more than full: 3 and 2 tokens are 2 blocks of
    4, not one for each chunk."""

    def prefilled(cls):
        pool, at = pool_of(20), 0
        cache, seen = cls(pool), []
        for n in chunks:
            seen.append((ran(cache, *range(at + 1, at + n + 1)), cache.length))
            at += n
        return seen, pool.allocator.num_free, len(set(cache.block_table))

    ends = [sum(chunks[: i + 1]) for i in range(len(chunks))]
    used = (ends[-1] + 3) // 4
    expect.story(prefilled, PagedCache).equals(([(upto(n), n) for n in ends], 20 - used, used))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_a_cache_of_other_blocks(expect, block_size):
    """The size is the pool's: in blocks of one token nothing is ever half full, in one of 16 everything fits."""

    def grown(cls):
        pool = pool_of(20, block_size)
        cache = cls(pool)
        seen = [ran(cache, *upto(5)), ran(cache, 6), ran(cache, 7, 8)]
        cache.truncate(4)
        return seen, ran(cache, 9), books(pool, cache)

    table = {1: "A1 B1 C1 D1 E1", 3: "A1 B1", 16: "A1"}[block_size]
    right = [upto(5), upto(6), upto(8)], [1, 2, 3, 4, 9], (20 - len(table.split()), [5], [table])
    expect.story(grown, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_blocks_are_taken_once_for_all_layers(expect):
    """A block is the same block in every layer, so one table serves all: taken again in each of 30 layers, the pool
    would hold a thirtieth. They are taken in the first layer: where it has found room, the others must not fail."""

    def layer_by_layer(cls):
        pool = pool_of(4)
        cache, seen = cls(pool), []
        for tokens in ((1, 2, 3), (4, 5), (6, 7, 8, 9, 10, 11)):
            for layer in LAYERS:
                cache.update(layer, *kv(layer, *tokens))
                seen.append((pool.allocator.num_free, len(cache.block_table)))
        return seen

    expect.story(layer_by_layer, PagedCache).equals([(3, 1)] * 3 + [(2, 2)] * 3 + [(1, 3)] * 3)


@pytest.mark.kata("level06.paged.PagedCache")
def test_the_length_moves_with_the_last_layer(expect):
    """A pass reads it before its first layer, for the positions; between two layers it is what it was."""

    def layer_by_layer(cls):
        cache, seen = cls(pool_of()), []
        for tokens in ((1, 2, 3), (4, 5), (6,)):
            for layer in LAYERS:
                cache.update(layer, *kv(layer, *tokens))
                seen.append(cache.length)
        return seen

    expect.story(layer_by_layer, PagedCache).equals([0, 0, 3, 3, 3, 5, 5, 5, 6])


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_a_model_of_other_depth(expect, layers):
    """With a single layer the first of a pass is the last one as well."""

    def grown(cls):
        pool = pool_of(3, config=replace(SMALL, n_layers=layers))
        cache, seen = cls(pool), []
        for tokens in ((1, 2, 3), (4, 5)):
            seen += [ran(cache, *tokens, layers=range(layers)), books(pool, cache)]
        return seen

    right = [upto(3), (2, [3], ["A1"]), upto(5), (1, [5], ["A1 B1"])]
    expect.story(grown, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_a_token_is_written_to_its_slot_and_nowhere_else(expect):
    """The pool is what everybody reads: kernels, forks, other requests. Token t is in block t // 4 of the table, at
    t % 4, in all three layers; every other number of the pool is still NaN."""

    def written(cls):
        pool = pool_of(5)
        other = pool.allocator.allocate()
        cache = filled(cls, pool, 1, 2, 3)
        ran(cache, 4, 5, 6)
        numbers = [int((~x.isnan()).sum()) for x in (pool.keys, pool.values)]
        return *in_pool(pool, cache), numbers, other in cache.block_table

    expect.story(written, PagedCache).equals((upto(6), [3 * 6 * 10] * 2, False))


@pytest.mark.kata("level06.paged.PagedCache")
def test_update_returns_what_attention_takes(expect):
    """(1, 2 heads, 5 tokens, 5 features) of keys and of values, all numbers by hand."""

    def one_update(cls):
        cache = filled(cls, pool_of(), 1, 2)
        return [x.clone() for x in cache.update(0, *kv(0, 3, 4, 5))]

    head = torch.arange(10.0).view(1, 2, 1, 5)
    right = torch.cat([1000 + head, 2000 + head, 3000 + head, 4000 + head, 5000 + head], 2)
    expect.story(one_update, PagedCache).equals([right, -right], **EXACT)


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_entries_have_the_type_of_the_pool(expect, dtype, given):
    """What was reserved decides, not what comes: a bfloat16 pool holds what float32 would need twice the bytes for.
    Also across a copy-on-write."""
    k = torch.randn(1, 2, 7, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(given)

    def in_two_updates(cls):
        pool = pool_of(4, SIZE, dtype)
        cache, seen = cls(pool), []
        for layer in LAYERS:
            cache.update(layer, k[:, :, :6], -k[:, :, :6])
        other = cache.fork()
        for layer in LAYERS:
            seen += [x.clone() for x in other.update(layer, k[:, :, 6:], -k[:, :, 6:])]
        return seen, pool.keys.dtype, pool.values.dtype

    expect.story(in_two_updates, PagedCache).equals(([k.to(dtype), -k.to(dtype)] * 3, dtype, dtype), **EXACT)


@pytest.mark.kata("level06.paged.PagedCache")
def test_the_caller_keeps_its_tensors(expect):
    """Keys come as a strided view, and a step's buffer is used again for the next token: what was written is a copy."""

    def one_buffer(cls):
        cache, given = cls(pool_of()), []
        k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in kv(0, 9, 9))
        for tokens in ((1, 2), (3, 4), (5, 6)):
            for layer in LAYERS:
                for x, new in zip((k, v), kv(layer, *tokens)):
                    x.copy_(new)
                seen = tokens_of(layer, cache.update(layer, k, v))
                given.append(tokens_of(layer, (k, v)))
        return seen, given

    right = [tokens for tokens in ([1, 2], [3, 4], [5, 6]) for _ in LAYERS]
    expect.story(one_buffer, PagedCache).equals((upto(6), right))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("writes", [(0, 1, 2), (0,), (1, 2), (2,)], ids=str)
def test_write_puts_into_the_pool_what_update_does(expect, writes):
    """A kernel that reads the pool through the table (level 07) needs no copy of the past: the tokens lie in the pool,
    blocks are taken, the length moves. In these layers `write`, in the others `update`; then update sees all of it."""

    def mixed(cls):
        pool, seen = pool_of(3), []
        cache = filled(cls, pool, 1, 2)
        for tokens in ((3,), (4, 5, 6), (7, 8, 9)):
            for layer in LAYERS:
                (cache.write if layer in writes else cache.update)(layer, *kv(layer, *tokens))
                seen.append((cache.length, pool.allocator.num_free))
            seen += in_pool(pool, cache)
        return seen, ran(cache, 10), told(cache.write, 0, *kv(0, 11, 12, 13)), books(pool, cache)

    right = []
    for length, free in ((3, 2), (6, 1), (9, 0)):
        right += [(max(2, length - 3), free)] * 2 + [(length, free), upto(length)]
    right[0] = right[1] = 2, 2
    expect.story(mixed, PagedCache).equals((right, upto(10), "OutOfBlocks", (0, [10], ["A1 B1 C1"])))


@pytest.mark.kata("level06.paged.PagedCache")
def test_write_copies_what_is_shared(expect):
    """As update does; and where no block is free for the copy it changes nothing."""

    def forked(cls):
        pool, seen = pool_of(3), []
        parent = filled(cls, pool, *upto(6))
        child, other = parent.fork(), parent.fork()
        for layer in LAYERS:
            child.write(layer, *kv(layer, 7))
        seen = in_pool(pool, parent, child)
        before = everything(pool, parent, child, other)
        seen += [told(other.write, 0, *kv(0, 8)), unchanged(before, everything(pool, parent, child, other))]
        parent.release()
        return seen, ran(other, 9), books(pool, child, other)

    seen = [upto(6), upto(7), "OutOfBlocks", True]
    expect.story(forked, PagedCache).equals((seen, [*upto(6), 9], (0, [7, 7], ["A2 B1", "A2 C1"])))


# ---- PagedCache: several sequences in one pool


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("seed", range(6))
def test_sequences_side_by_side_are_what_they_are_alone(expect, seed):
    """Oracle: level 02's contiguous cache, one for each. Three sequences in one pool, in one pass as level 05 packs
    them, layer by layer; now and then one is cut, and grows again. Their blocks lie in between each other."""
    draw = random.Random(seed)
    script = []
    for _ in range(9):
        new = {i: draw.choice([1, 1, 2, 3, 5]) for i in draw.sample(range(3), draw.randint(1, 3))}
        script.append((new, (draw.randrange(3), draw.random()) if draw.random() < 0.4 else None))

    def driven(make):
        caches, fresh, seen = [make() for _ in "abc"], torch.Generator().manual_seed(seed), []
        for new, cut in script:
            for layer in LAYERS:
                for i, n in new.items():
                    k, v = torch.randn(2, 1, 2, n, 5, generator=fresh)
                    seen += [x.clone() for x in caches[i].update(layer, k, v)]
            if cut:
                cache = caches[cut[0]]
                cache.truncate(int(cut[1] * (cache.length + 1)))
            seen.append([cache.length for cache in caches])
        return seen

    right = driven(lambda: KVCache(SMALL, 1, 60))
    expect.story(lambda cls: (lambda pool: driven(lambda: cls(pool)))(pool_of(40)), PagedCache).equals(right, **EXACT)


@pytest.mark.kata("level06.paged.PagedCache")
def test_blocks_go_from_one_sequence_to_the_next(expect):
    """What is released is used again, in whatever order: the new sequence's table has the order of its own tokens, and
    nothing of the old one's keys is left in it. Somebody else takes blocks of the same pool in between."""

    def reused(cls):
        pool = pool_of(5)
        first, second = filled(cls, pool, *range(11, 19)), filled(cls, pool, *range(21, 30))
        first.release()
        taken, third = pool.allocator.allocate(), cls(pool)
        seen = [(ran(third, 1, 2, 3), books(pool, second, third))]
        second.truncate(4)
        seen.append((ran(third, 4, 5, 6, 7, 8, 9), books(pool, second, third)))
        mixed = taken in third.block_table + second.block_table
        pool.allocator.release(taken)
        return seen, mixed, ran(second, 25), books(pool, second, third)

    seen = [(upto(3), (0, [9, 3], ["A1 B1 C1", "D1"])), (upto(9), (0, [4, 9], ["A1", "B1 C1 D1"]))]
    right = seen, False, [21, 22, 23, 24, 25], (0, [5, 9], ["A1 B1", "C1 D1 E1"])
    expect.story(reused, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_two_pools_share_nothing(expect):
    """A draft model (level 08) has a pool of its own, with other blocks: each cache writes and reads in its own."""

    def two(cls):
        large, small = pool_of(6), pool_of(5, 3)
        first, second = filled(cls, large, 1, 2), filled(cls, small, 11, 12, 13, 14)
        texts = [ran(first, 3, 4, 5), ran(second, 15), ran(first.fork(), 6), ran(second.fork(), 16)]
        return texts, books(large, first), books(small, second)

    texts = [upto(5), [11, 12, 13, 14, 15], upto(6), [11, 12, 13, 14, 15, 16]]
    expect.story(two, PagedCache).equals((texts, (3, [5], ["A2 B1"]), (2, [5], ["A2 B1"])))


# ---- PagedCache: forks


@pytest.mark.kata("level06.paged.PagedCache")
def test_a_fork_shares_what_it_has(expect):
    """Two answers to one question hold it once. Nothing is copied and no block is taken, until somebody writes."""

    def forked(cls):
        pool = pool_of(7)
        parent = filled(cls, pool, *upto(6))
        child = parent.fork()
        grandchild = child.fork()
        return books(pool, parent, child, grandchild), parent.block_table == child.block_table

    expect.story(forked, PagedCache).equals(((5, [6, 6, 6], ["A3 B3"] * 3), True))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("writer", ["child", "parent"])
def test_a_write_into_a_shared_block_copies_it_first(expect, writer):
    """The docstring's example: 6 tokens in [A, B], and whoever adds one has [A, C]. The other one goes on in B, whose
    only owner it then is, and sees nothing of it: the two texts differ from here on."""

    def forked(cls):
        pool = pool_of(7)
        parent = filled(cls, pool, *upto(6))
        child = parent.fork()
        one, two = (child, parent) if writer == "child" else (parent, child)
        seen = [ran(one, 7), books(pool, two, one)]
        seen += [ran(two, 8), books(pool, two, one)]
        return seen, ran(one, 9, 10), ran(two, 11), books(pool, two, one)

    tables = ["A2 B1", "A2 C1"]
    right = [[*upto(6), 7], (4, [6, 7], tables), [*upto(6), 8], (4, [7, 7], tables)]
    last = [*upto(7), 9, 10], [*upto(6), 8, 11], (3, [8, 9], ["A2 B1", "A2 C1 D1"])
    expect.story(forked, PagedCache).equals((right, *last))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("owners", [2, 3, 5])
def test_the_last_owner_writes_in_place(expect, owners):
    """Of n continuations of one prompt n - 1 copy the half full block. A copy for the last one too would be a block
    that nobody uses."""

    def forked(cls):
        pool = pool_of(9)
        caches = [filled(cls, pool, *upto(6))]
        caches += [caches[0].fork() for _ in range(owners - 1)]
        return [(ran(cache, 20 + i), pool.allocator.num_free) for i, cache in enumerate(caches)], books(pool, *caches)

    free = [*range(6, 7 - owners, -1), 8 - owners]
    tables = [f"A{owners} {letter}1" for letter in "BCDEF"[:owners]]
    right = [([*upto(6), 20 + i], free[i]) for i in range(owners)], (8 - owners, [7] * owners, tables)
    expect.story(forked, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_full_blocks_are_never_copied(expect):
    """Of 8 tokens in blocks of 4 nothing is half full: the next token has a block of its own, and the prompt stays
    shared for as long as both live. A prefix cache lives from that."""

    def forked(cls):
        pool = pool_of(7)
        parent = filled(cls, pool, *upto(8))
        child = parent.fork()
        return ran(child, 9), ran(parent, 10), ran(parent.fork(), *range(11, 15)), books(pool, parent, child)

    texts = [*upto(8), 9], [*upto(8), 10], [*upto(8), 10, *range(11, 15)]
    expect.story(forked, PagedCache).equals((*texts, (1, [9, 9], ["A3 B3 C1", "A3 B3 D1"])))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("held, new", [(1, 1), (3, 1), (3, 2), (2, 7), (5, 4), (5, 3), (6, 9), (7, 1), (4, 4), (8, 1)])
def test_a_fork_may_add_several_tokens(expect, held, new):
    """A copy of the half full block, and as many new ones as the rest needs. Then the parent goes on as if nothing had
    happened."""

    def forked(cls):
        pool = pool_of(9)
        parent = filled(cls, pool, *upto(held))
        child = parent.fork()
        text = ran(child, *range(50, 50 + new))
        return text, pool.allocator.num_free, ran(parent, 90), [cache.length for cache in (parent, child)]

    used = -(-held // 4) + -(-(held + new) // 4) - held // 4
    right = [*upto(held), *range(50, 50 + new)], 9 - used, [*upto(held), 90], [held + 1, held + new]
    expect.story(forked, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_the_copy_is_made_before_the_first_write_in_all_layers(expect):
    """After the first layer of the pass the new block has the two old tokens in each layer, keys and values: the old
    block may be released and written over before the pass comes to the second. The old block is as it was."""

    def half_a_pass(cls):
        pool = pool_of(7)
        parent = filled(cls, pool, *upto(6))
        child = parent.fork()
        old = [x[:, parent.block_table[1]].clone() for x in (pool.keys, pool.values)]
        first = tokens_of(0, child.update(0, *kv(0, 7)))
        new = [x[:, child.block_table[1]] for x in (pool.keys, pool.values)]
        copied = [torch.equal(a[:, :2], b[:, :2]) for a, b in zip(new, old)]
        kept = [x[:, parent.block_table[1]].allclose(was, 0, 0, True) for x, was in zip((pool.keys, pool.values), old)]
        parent.release()
        stranger = filled(cls, pool, *range(60, 80))
        rest = [tokens_of(layer, child.update(layer, *kv(layer, 7))) for layer in (1, 2)]
        return first, copied, kept, rest, child.length, books(pool, child, stranger)

    right = upto(7), [True, True], [True, True], [upto(7)] * 2, 7, (0, [7, 20], ["A1 B1", "C1 D1 E1 F1 G1"])
    expect.story(half_a_pass, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["parent first", "child first"])
@pytest.mark.parametrize("news", [((7,), (8,)), ((7, 9, 11), (8,)), ((7,), (8, 10, 12))], ids=str)
def test_parent_and_child_write_in_one_pass(expect, order, news):
    """As level 05 packs them: in each layer first the one, then the other. Only the first of them copies."""

    def packed(cls):
        pool = pool_of(7)
        both = [filled(cls, pool, *upto(6))]
        both.append(both[0].fork())
        seen = [[], []]
        for layer in LAYERS:
            for i in order:
                seen[i].append(tokens_of(layer, both[i].update(layer, *kv(layer, *news[i]))))
        return seen, pool.allocator.num_free, [cache.length for cache in both], ran(both[0], 20), ran(both[1], 21)

    texts = [[*upto(6), *new] for new in news]
    free = 7 - 3 - sum(len(new) > 2 for new in news)
    right = [[text] * 3 for text in texts], free, [len(text) for text in texts], [*texts[0], 20], [*texts[1], 21]
    expect.story(packed, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_forks_of_forks_have_their_own_texts(expect):
    """A tree of continuations, as beam search and level 08's drafts make them: each sees its own ancestors' tokens up
    to where it left them, and none that were added later."""

    def tree(cls):
        pool = pool_of(12)
        root = filled(cls, pool, *upto(3))
        left = root.fork()
        ran(left, 10, 11)
        leaf = left.fork()
        texts = [ran(leaf, 20), ran(root, 30, 31, 32), ran(left, 40)]
        late = root.fork()
        texts += [ran(late, 50, 51), ran(root, 33), ran(leaf, 21, 22), ran(left, 41)]
        seen = books(pool, root, left, leaf, late)
        for cache in (left, root, late, leaf):
            cache.release()
        return texts, seen, pool.allocator.num_free

    texts = [[1, 2, 3, 10, 11, 20], [1, 2, 3, 30, 31, 32], [1, 2, 3, 10, 11, 40]]
    texts += [[*texts[1], 50, 51], [*texts[1], 33], [*texts[0], 21, 22], [*texts[2], 41]]
    tables = ["A2 B1", "C2 D1", "C2 E1", "A2 F1"]
    expect.story(tree, PagedCache).equals((texts, (6, [7, 7, 8, 8], tables), 12))


@pytest.mark.kata("level06.paged.PagedCache")
def test_an_empty_cache_has_forks_too(expect):
    """Nothing is shared, and each has a table of its own."""

    def empty(cls):
        pool = pool_of(3)
        parent = cls(pool)
        child = parent.fork()
        return ran(child, 1), parent.length, ran(parent, 2), books(pool, parent, child)

    expect.story(empty, PagedCache).equals(([1], 0, [2], (1, [1, 1], ["A1", "B1"])))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("length", [8, 7, 5, 4])
def test_a_cache_may_begin_with_blocks_of_others(expect, length):
    """A prefix that another request has computed: a reference to each block is shared for the new cache, which takes it
    over, and gives it back. A half full one is copied like any other; the table that was given is the other's."""

    def begun(cls):
        pool = pool_of(7)
        other = filled(cls, pool, *upto(8))
        blocks = other.block_table[: -(-length // 4)]
        for block in blocks:
            pool.allocator.share(block)
        cache = cls(pool, tuple(blocks) if length == 5 else blocks, length)
        seen = [books(pool, other, cache), ran(cache, 9), books(pool, other, cache), len(blocks), ran(other, 20)]
        cache.release()
        return seen, books(pool, other, cache)

    before = ["A2 B1", "A2"] if length == 4 else ["A2 B2", "A2 B2"]
    after = ["A2 B2", "A2 B2 C1"] if length == 8 else ["A2 B1", "A2 C1"]
    seen = [(5, [8, length], before), [*upto(length), 9], (4, [8, length + 1], after), len(before[1].split())]
    expect.story(begun, PagedCache).equals(([*seen, [*upto(8), 20]], (4, [9, 0], ["A1 B1 C1", ""])))


# ---- PagedCache: truncate and release


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("n", range(10))
def test_truncate_gives_back_what_is_empty(expect, n):
    """Of 9 tokens in 3 blocks to n: a block of which one token is left stays. What is cut off is forgotten, in all
    layers, and the next token follows what is left. Rejected drafts (level 08) are taken back so."""

    def cut(cls):
        pool = pool_of(4)
        cache = filled(cls, pool, *upto(9))
        cache.truncate(n)
        return books(pool, cache), ran(cache, 20, 21), books(pool, cache)

    def table(tokens):
        return " ".join(["A1", "B1", "C1"][: -(-tokens // 4)])

    free, after = 4 - -(-n // 4), 4 - -(-(n + 2) // 4)
    right = (free, [n], [table(n)]), [*upto(n), 20, 21], (after, [n + 2], [table(n + 2)])
    expect.story(cut, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("n", [-1, 4, 5, 8])
def test_truncate_refuses_what_it_does_not_hold(expect, n):
    """3 tokens are held, although the block has room for 4. Nothing changes: a negative n would cut from the end."""

    def cut(cls):
        pool = pool_of(3)
        cache = filled(cls, pool, 1, 2, 3)
        return told(cache.truncate, n), books(pool, cache), ran(cache, 4)

    expect.story(cut, PagedCache).equals(("ValueError", (2, [3], ["A1"]), upto(4)))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("n", [7, 5, 4, 2, 0])
def test_a_cut_fork_copies_the_block_it_goes_on_in(expect, n):
    """9 tokens, a fork, cut to n, and one more token: a block that was full when it was shared is half full for the one
    that was cut, and the other still reads its rest. The block to copy isn't the last of the other's table."""

    def cut(cls):
        pool = pool_of(7)
        parent = filled(cls, pool, *upto(9))
        child = parent.fork()
        child.truncate(n)
        return ran(child, 20), books(pool, parent, child), ran(parent, 30), ran(child, 21)

    tables = ["A2 B1 C1", "A2 D1"] if n >= 4 else ["A1 B1 C1", "D1"]
    right = [*upto(n), 20], (3, [9, n + 1], tables), [*upto(9), 30], [*upto(n), 20, 21]
    expect.story(cut, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_cutting_one_leaves_the_other_as_it_is(expect):
    """Each gives back its own reference. Whoever is the only owner then writes in place again, also where it was cut
    itself."""

    def cut(cls):
        pool = pool_of(6)
        parent = filled(cls, pool, *upto(9))
        child = parent.fork()
        seen = [books(pool, parent, child)]
        child.truncate(5)
        seen.append(books(pool, parent, child))
        parent.truncate(3)
        seen += [books(pool, parent, child), ran(child, 20), books(pool, parent, child)]
        child.truncate(2)
        child.truncate(0)
        return seen, books(pool, parent, child), ran(parent, 30), books(pool, parent, child)

    seen = [(3, [9, 9], ["A2 B2 C2"] * 2), (3, [9, 5], ["A2 B2 C1", "A2 B2"]), (4, [3, 5], ["A2", "A2 B1"])]
    seen += [[*upto(5), 20], (4, [3, 6], ["A2", "A2 B1"])]
    expect.story(cut, PagedCache).equals((seen, (5, [3, 0], ["A1", ""]), [1, 2, 3, 30], (5, [4, 0], ["A1", ""])))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("held, n", [(6, 6), (6, 3), (6, 0), (0, 0)])
@pytest.mark.parametrize("back", ["truncate", "release"])
def test_a_pass_that_broke_off_can_be_taken_back(expect, layers, held, n, back):
    """Its first layers hold more than the last one, and blocks have been taken for tokens that never came. Where all
    layers go back to the first n tokens these blocks are free again: a leak at each error would stop the server."""

    def broken(cls):
        pool = pool_of(5)
        cache = filled(cls, pool, *upto(held)) if held else cls(pool)
        for layer in range(layers):
            cache.update(layer, *kv(layer, *range(20, 27)))
        length, beyond = cache.length, told(cache.truncate, held + 1)
        cache.truncate(n) if back == "truncate" else cache.release()
        return length, beyond, books(pool, cache), ran(cache, 30, 31), books(pool, cache)

    left = n if back == "truncate" else 0
    table, after = (" ".join(["A1", "B1"][: -(-tokens // 4)]) for tokens in (left, left + 2))
    right = (5 - len(table) // 2, [left], [table]), [*upto(left), 30, 31], (5 - len(after) // 2, [left + 2], [after])
    expect.story(broken, PagedCache).equals((held, "ValueError", *right))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("new", [1, 7])
def test_a_fork_has_what_all_layers_hold(expect, new):
    """Made while a pass is broken off, it has the tokens of before: `length`, and not those of the first layer. All go
    on from there, each in a copy of the half full block, and nothing is lost."""

    def broken(cls):
        pool = pool_of(9)
        parent = filled(cls, pool, *upto(6))
        parent.update(0, *kv(0, *range(20, 20 + new)))
        first, second = parent.fork(), parent.fork()
        texts = [first.length, ran(first, 30), ran(second, 50)]
        parent.truncate(6)
        texts += [ran(parent, 40), ran(first, 31), ran(second, 51)]
        parent.release(), first.release(), second.release()
        return texts, pool.allocator.num_free

    texts = [6, [*upto(6), 30], [*upto(6), 50], [*upto(6), 40], [*upto(6), 30, 31], [*upto(6), 50, 51]]
    expect.story(broken, PagedCache).equals((texts, 9))


@pytest.mark.kata("level06.paged.PagedCache")
def test_release_gives_all_blocks_back(expect):
    """A request that ends or is aborted. What others own as well stays theirs, and to release again is to release
    nothing. An empty cache can be filled again."""

    def released(cls):
        pool = pool_of(6)
        cache, other = filled(cls, pool, *upto(9)), filled(cls, pool, 20)
        child = cache.fork()
        cache.release()
        seen = [books(pool, cache, child, other), ran(child, 10)]
        cache.release()
        seen.append(books(pool, cache, child, other))
        child.release()
        seen += [books(pool, cache, child, other), ran(cache, *upto(20)), ran(other, 21), books(pool, cache, other)]
        return seen

    right = [(2, [0, 9, 1], ["", "A1 B1 C1", "D1"]), upto(10), (2, [0, 10, 1], ["", "A1 B1 C1", "D1"])]
    right += [(5, [0, 0, 1], ["", "", "A1"]), upto(20), [20, 21], (0, [20, 2], ["A1 B1 C1 D1 E1", "F1"])]
    expect.story(released, PagedCache).equals(right)


# ---- PagedCache: when the pool is used up


def everything(pool, *caches):
    """All that a refused update must leave as it is; what lies in free blocks is nobody's."""
    counts = [pool.allocator.ref_count(block) for block in range(pool.keys.shape[1])]
    used = [block for block, owners in enumerate(counts) if owners]
    held = [x[:, used].nan_to_num(0.5) for x in (pool.keys, pool.values)]  # a number that no token has
    return pool.allocator.num_free, counts, [(cache.length, list(cache.block_table)) for cache in caches], held


def unchanged(before, after):
    return before[:-1] == after[:-1] and all(torch.equal(x, y) for x, y in zip(before[-1], after[-1]))


# tokens held, forks of them, blocks that somebody else has taken, new tokens, in a pool of 3 blocks
ENOUGH = [
    (3, 0, 2, 1),
    (6, 0, 0, 6),
    (0, 0, 2, 4),
    (0, 0, 0, 12),
    (6, 1, 0, 2),
    (3, 2, 1, 1),
    (3, 1, 0, 5),
    (8, 1, 0, 4),
]
TOO_FEW = [(4, 0, 2, 1), (6, 0, 1, 3), (2, 0, 1, 7), (0, 0, 2, 5), (0, 0, 3, 1)]
TOO_FEW += [(6, 1, 1, 1), (6, 1, 0, 3), (3, 1, 1, 6), (3, 2, 2, 1), (8, 1, 1, 1)]


def crowded(cls, held, forks, taken):
    """(pool, cache, its forks, the blocks that are taken)."""
    pool = pool_of(3)
    cache = cls(pool)
    if held:
        ran(cache, *upto(held))
    return pool, cache, [cache.fork() for _ in range(forks)], [pool.allocator.allocate() for _ in range(taken)]


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("held, forks, taken, new", ENOUGH, ids=str)
def test_the_last_slot_of_the_pool_can_be_used(expect, held, forks, taken, new):
    """What is free is enough, to the last block: a slot in a block that is there needs none, a copy one."""

    def full(cls):
        _, cache, _, _ = crowded(cls, held, forks, taken)
        return ran(cache, *range(40, 40 + new)), cache.length

    expect.story(full, PagedCache).equals(([*upto(held), *range(40, 40 + new)], held + new))


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("held, forks, taken, new", TOO_FEW, ids=str)
def test_what_does_not_fit_is_refused_and_changes_nothing(expect, held, forks, taken, new):
    """Where one block is free a copy would fit, or a new one, but not both; nor two new ones. Nothing is half done: no
    block is taken, none is copied, nothing is written or counted. When somebody has let go, the same tokens go in."""

    def refused(cls):
        pool, cache, others, blocks = crowded(cls, held, forks, taken)
        before, new_tokens = everything(pool, cache, *others), range(40, 40 + new)
        outcomes = [told(cache.update, 0, *kv(0, *new_tokens)) for _ in range(2)]
        same = unchanged(before, everything(pool, cache, *others))
        for block in blocks:
            pool.allocator.release(block)
        for other in others:
            other.release()
        return outcomes, same, ran(cache, *new_tokens), books(pool, cache)

    used = -(-(held + new) // 4)
    text = [*upto(held), *range(40, 40 + new)]
    right = ["OutOfBlocks"] * 2, True, text, (3 - used, [held + new], [" ".join(["A1", "B1", "C1"][:used])])
    expect.story(refused, PagedCache).equals(right)


@pytest.mark.kata("level06.paged.PagedCache")
def test_after_a_refusal_the_request_may_go_on_with_less(expect):
    """13 tokens never fit into 12 slots; the cache is what it was, and so are the others."""

    def less(cls):
        pool = pool_of(3)
        cache = filled(cls, pool, *upto(6))
        child = cache.fork()
        outcomes = [told(one.update, 0, *kv(0, *range(40, n))) for one, n in ((cache, 47), (child, 70))]
        texts = ran(child, 7, 8), ran(cache, 9)
        return outcomes, *texts, books(pool, cache, child), told(cls(pool).update, 0, *kv(0, 1))

    right = ["OutOfBlocks"] * 2, upto(8), [*upto(6), 9], (0, [7, 8], ["A2 B1", "A2 C1"]), "OutOfBlocks"
    expect.story(less, PagedCache).equals(right)


# ---- PagedCache: a long life


class Paper:
    """Oracle: the text of each sequence, its blocks as numbers that are never used twice, and rules for both."""

    def __init__(self, num_blocks, size):
        self.num_blocks, self.size, self.fresh = num_blocks, size, count()
        self.texts, self.tables = {}, {}

    def owners(self, block):
        return sum(block in table for table in self.tables.values())

    @property
    def num_free(self):
        return self.num_blocks - len({block for table in self.tables.values() for block in table})

    def room(self, name, n):
        """Take the blocks for n more tokens; False, and nothing changes, if there are too few."""
        text, table = self.texts[name], self.tables[name]
        copied = len(text) % self.size > 0 and self.owners(table[-1]) > 1
        missing = -(-(len(text) + n) // self.size) - len(table)
        if copied + missing > self.num_free:
            return False
        table[len(table) - copied :] = [next(self.fresh) for _ in range(copied + missing)]
        return True

    def state(self):
        blocks = {block for table in self.tables.values() for block in table}
        rows = [(len(text), list(self.tables[name]), list(text)) for name, text in self.texts.items()]
        return [sorted(map(self.owners, blocks)), self.num_free, *rows]

    def cut(self, name, n):
        del self.texts[name][n:], self.tables[name][-(-n // self.size) :]


def lived(seed, num_blocks, size, steps=70):
    """A story of sequences that come, grow, fork, are cut, break off and go; {}, or the first thing that was wrong."""

    def life(cls):
        draw, pool, paper, names = random.Random(seed), pool_of(num_blocks, size), Paper(num_blocks, size), count()
        caches, tokens, known = {}, count(1), {}
        for step in range(steps):
            act = draw.choice(["grow"] * 5 + ["fork", "fork", "cut", "break", "end", "new"]) if caches else "new"
            name = draw.choice(list(caches)) if caches else None
            yours, right = None, None
            if act == "new" or (act == "fork" and len(caches) < 6):
                new, text, table = next(names), paper.texts.get(name, []), paper.tables.get(name, [])
                caches[new] = cls(pool) if act == "new" else caches[name].fork()
                paper.texts[new], paper.tables[new] = ([], []) if act == "new" else (list(text), list(table))
            elif act in ("grow", "break"):
                n = draw.choice([1, 1, 1, 2, size, size + 3])
                more, cache, fits = [next(tokens) for _ in range(n)], caches[name], paper.room(name, n)
                put = draw.choice([cache.update, cache.update, cache.write])
                yours, right = told(put, 0, *kv(0, *more)), "accepted" if fits else "OutOfBlocks"
                if fits and yours == right and act == "grow":
                    paper.texts[name] += more
                    yours, right = ran(cache, *more, layers=(1, 2)), paper.texts[name]
                elif yours == right and act == "break":
                    cache.truncate(cache.length)
                    paper.cut(name, len(paper.texts[name]))
            elif act == "cut":
                n = draw.randint(0, len(paper.texts[name]))
                caches[name].truncate(n), paper.cut(name, n)
            else:
                caches.pop(name).release()
                del paper.texts[name], paper.tables[name]
            free = [block for block in range(num_blocks) if pool.allocator.ref_count(block) == 0]
            pool.keys[:, free] = pool.values[:, free] = torch.nan
            known = {block: number for block, number in known.items() if block not in free}
            for name, cache in caches.items():
                for block, number in zip(cache.block_table, paper.tables[name]):
                    known.setdefault(block, number)
            state, paper_state = [sorted(map(pool.allocator.ref_count, known)), pool.allocator.num_free], paper.state()
            for cache, text in zip(caches.values(), in_pool(pool, *caches.values())):
                table = [known.get(block) for block in cache.block_table]
                state.append((cache.length, table, text))
            if (yours, state) != (right, paper_state):
                return {"step": step, "act": act, "yours": (yours, state), "right": (right, paper_state)}
        return {}

    return life


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("num_blocks, size", [(5, 4), (12, 2), (9, 3), (20, 1), (30, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_a_long_life_mixes_no_texts_and_loses_no_block(expect, num_blocks, size, seed):
    """Oracle: texts and blocks on paper. After each operation every sequence finds its own tokens in the pool, no block
    is in two tables unless it is shared, each has as many owners as tables, and all others are free, and full of NaN.
    """
    expect.story(lived(seed, num_blocks, size), PagedCache).equals({})


# ---- PagedCache: in a model

MODEL = Config(2, 20, 6, 3, 4, 28, 31, max_seq_len=24, tie_embeddings=False)
PARAMS = {name: w.double() for name, w in random_params(MODEL, seed=0).items()}
NEAR = {"rel": 1e-4, "abs": 1e-5}  # attention is in float32


def logits(cache, *ids):
    return forward(PARAMS, MODEL, torch.tensor([ids]), cache)[0]


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("chunks", [(6, 1, 1, 1, 1), (1, 4, 5), (3, 7), (10,)], ids=str)
def test_a_model_computes_what_it_does_without_a_cache(expect, chunks):
    """Oracle: one pass of level 00 over all tokens. Prefill in chunks and decode, across blocks that hold NaN."""
    ids = [3, 14, 15, 9, 26, 5, 30, 2, 7, 1]

    def cached(cls):
        cache, at, seen = cls(pool_of(3, SIZE, torch.float64, MODEL)), 0, []
        for n in chunks:
            seen.append(logits(cache, *ids[at : at + n]))
            at += n
        return torch.cat(seen)

    expect.story(cached, PagedCache).equals(logits(None, *ids), **NEAR)


@pytest.mark.kata("level06.paged.PagedCache")
def test_two_answers_to_one_prompt(expect):
    """The prompt is computed once; its forks go on with different tokens, in turn. Oracle: two passes over the whole.
    Then a third, which begins with the full block of the first and computes only the rest."""
    prompt, answers, other = [3, 14, 15, 9, 26, 5], ([30, 2, 7], [1, 8, 28]), [11, 12]

    def two(cls):
        pool = pool_of(7, SIZE, torch.float64, MODEL)
        first = cls(pool)
        logits(first, *prompt)
        both, seen = (first, first.fork()), ([], [])
        for step in range(3):
            for cache, answer, rows in zip(both, answers, seen):
                rows.append(logits(cache, answer[step]))
        pool.allocator.share(first.block_table[0])
        third = cls(pool, first.block_table[:1], SIZE)
        return [torch.cat(rows) for rows in seen], logits(third, *other), pool.allocator.num_free

    right = [logits(None, *prompt, *answer)[-3:] for answer in answers]
    expect.story(two, PagedCache).equals((right, logits(None, *prompt[:SIZE], *other)[-2:], 7 - 1 - 4 - 1), **NEAR)


@pytest.mark.kata("level06.paged.PagedCache")
@pytest.mark.parametrize("token_budget, max_seqs", [(64, 8), (5, 3), (2, 2)])
def test_an_engine_serves_from_one_pool(expect, token_budget, max_seqs):
    """Level 05's engine, with a paged cache for each request: in packed passes, prompts in chunks, requests that come
    later and one that is aborted. Oracle: level 01's generate, each alone. The engine releases what has ended, so 12
    blocks of 4 are enough for these 57 tokens, and at last all are free."""
    draw = random.Random(5)
    sizes = {"a": (9, 4), "b": (3, 7), "gone": (7, 9), "c": (6, 3), "d": (1, 5), "e": (4, 1), "f": (5, 6)}
    prompts = {id: [draw.randrange(31) for _ in range(n)] for id, (n, _) in sizes.items()}

    def served(cls):
        pool, line, texts = pool_of(12, SIZE, torch.float64, MODEL), list(sizes), {}
        engine = Engine(PARAMS, MODEL, token_budget, max_seqs, new_cache=lambda room: cls(pool))
        for step in range(80):
            if line and step % 3 != 1:
                id = line.pop(0)
                engine.add(Request(id, list(prompts[id]), SamplingParams(temperature=0.0, max_tokens=sizes[id][1])))
            if step == 7:
                engine.abort("gone")
            for id, token, _ in engine.step():
                texts.setdefault(id, []).append(token)
        texts.pop("gone", None)
        return texts, engine.unfinished, pool.allocator.num_free

    texts = {id: generate(PARAMS, MODEL, prompts[id], m) for id, (_, m) in sizes.items() if id != "gone"}
    expect.story(served, PagedCache).equals((texts, 0, 12))
