"""Judges paged.py by torch's attention to the same tokens one after the other, and by what is read and made on the way.

A pool is full of NaN wherever no token of the sequence lies, so whatever else is read shows, be it multiplied by 0. No
two axes have the same size: 6 query heads, 2 KV heads, 5 features, blocks of 4. The oracle is float64, under a mask by
position. BlockCache and paged_attend are given: a model runs on them, and level 02's cache is the oracle.
"""

from functools import partial

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dojo.cost import count
from dojo.models import Config, random_params
from level00.transformer import forward
from level01.generate import generate
from level02.cache import KVCache
from level03.sampler import SamplingParams
from level05.engine import Engine, Request
from level05.packed import packed_step
from level06.paged import Pool
from level07.paged import BlockCache, BlockView, paged_attend, paged_attention

SIZE = 4
EPS = {torch.bfloat16: 2**-7, torch.float16: 2**-10, torch.float32: 1e-5, torch.float64: 1e-12}


def sequence(length, Q=1, H=6, G=2, D=5, seed=0):
    """q (1, H, Q, D) and k, v (1, G, length, D), all numbers different, some scores far from the others."""
    draw = torch.Generator().manual_seed(100 * seed + length)
    q, k, v = (torch.randn(1, *shape, generator=draw) for shape in ((H, Q, D), (G, length, D), (G, length, D)))
    return 2 * q, k, v + 1


def contiguous(q, k, v):
    """Oracle: query i is token length - Q + i, and sees the tokens up to itself."""
    group, Q, length = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    wide_k, wide_v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    seen = torch.tensor([[token <= length - Q + i for token in range(length)] for i in range(Q)])
    return scaled_dot_product_attention(q.double(), wide_k, wide_v, attn_mask=seen).to(q.dtype)


def pools(k, v, block_table, block_size=SIZE, num_blocks=9, rest=torch.nan):
    """One layer of a pool with these tokens in the blocks of the table, and `rest` everywhere else."""
    made = []
    for x in (k, v):
        pool = torch.full((num_blocks, block_size, x.shape[1], x.shape[3]), rest, dtype=x.dtype)
        for t in range(x.shape[2]):
            pool[block_table[t // block_size], t % block_size] = x[0, :, t]
        made.append(pool)
    return made


# ---- where the tokens lie


@pytest.mark.kata("level07.paged.paged_attention")
def test_three_tokens_in_two_blocks_by_hand(expect):
    """The docstring's example: both slots of block 7, then the first of block 3. With q = 0 all three weigh the same:
    the mean of 3, 6 and 9 is 6. With a zero for the empty slot it would be 4.5."""
    v = torch.tensor([3.0, 6, 9]).view(1, 1, 3, 1)
    k_pool, v_pool = pools(torch.ones_like(v), v, [7, 3], 2)
    expect(paged_attention, torch.zeros(1, 1, 1, 1), k_pool, v_pool, [7, 3], 3).equals(torch.full((1, 1, 1, 1), 6.0))


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("block_table", [[7, 3, 5], [0, 1, 2], (8, 2, 6), [2, 1, 0]], ids=str)
def test_every_length_of_a_sequence(expect, block_table):
    """Oracle: torch's attention. From one token to all slots: in the last block one, some, all are the sequence's, and
    the table may have blocks to spare. The newest token, the most important one, is the last."""
    for length in range(1, 13):
        q, k, v = sequence(length)
        expect(paged_attention, q, *pools(k, v, block_table), block_table, length).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("Q", [1, 2, 3, 4, 5, 7, 8, 9, 11])
def test_the_last_tokens_attend_up_to_themselves(expect, Q):
    """Oracle: a mask by position. A prompt in chunks has many queries, that begin and end anywhere in a block; the last
    one is the newest token, and all that came before are seen by every one. With Q = length it is a whole prompt."""
    for length in {Q, Q + 1, Q + 2, Q + 3, Q + 6, 18}:
        q, k, v = sequence(length, Q)
        table = [6, 2, 8, 0, 4]
        expect(paged_attention, q, *pools(k, v, table), table, length).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 16])
def test_blocks_of_other_sizes(expect, block_size):
    """Oracle: torch's attention. The size is the pool's; a block may be longer than the sequence, or one token."""
    for length, Q in ((1, 1), (2, 2), (5, 1), (7, 3), (15, 15), (16, 2)):
        q, k, v = sequence(length, Q, seed=1)
        table = [9, 4, 0, 13, 2, 7, 1, 15, 3, 8, 14, 5, 10, 6, 12, 11][: -(-length // block_size)]
        expect(paged_attention, q, *pools(k, v, table, block_size, 16), table, length).equals(
            contiguous(q, k, v), abs=1e-5
        )


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("Q", [1, 7])
def test_a_long_sequence_of_many_blocks(expect, Q):
    """Oracle: torch's attention to 603 tokens in 151 blocks, which lie all over the pool. Values are around 100."""
    q, k, v = sequence(603, Q, seed=13)
    table = [37 * i % 199 for i in range(151)]
    expect(paged_attention, q, *pools(k, 100 * v, table, num_blocks=199), table, 603).equals(
        contiguous(q, k, 100 * v), abs=1e-5
    )


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("H, G, D", [(1, 1, 1), (4, 4, 3), (4, 1, 7), (8, 2, 16), (9, 3, 4), (6, 2, 2)], ids=str)
def test_query_heads_that_share_a_kv_head_are_neighbours(expect, H, G, D):
    """Oracle: torch's attention with the KV heads repeated. Query heads 0 to H / G - 1 read KV head 0."""
    for length, Q in ((6, 1), (7, 3), (5, 5)):
        q, k, v = sequence(length, Q, H, G, D, seed=2)
        expect(paged_attention, q, *pools(k, v, [3, 1]), [3, 1], length).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("rest", [torch.nan, torch.inf, -torch.inf, 1e30, 0.0, 50.0], ids=str)
def test_slots_of_nobody_are_not_read(expect, rest):
    """The last block holds what another sequence left in it: fresh memory, a large number, a plausible one. A weight of
    0 does not help against NaN, nor a score of -inf against NaN in the values."""
    for length, Q in ((1, 1), (5, 1), (7, 2), (9, 9), (10, 3)):
        q, k, v = sequence(length, Q, seed=3)
        table = [5, 0, 7, 2]  # more than needed
        expect(paged_attention, q, *pools(k, v, table, rest=rest), table, length).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
def test_sequences_of_one_pool_do_not_meet(expect):
    """A pool serves many: their blocks lie between each other's, and two share the blocks of a common prompt. Each is
    attended to as if it were alone."""
    _, k, v = sequence(28, seed=4)  # seven blocks of four tokens, in a pool of nine
    tables = {"a": ([4, 1, 8], 10), "b": ([4, 1, 0, 6], 13), "c": ([2], 3), "d": ([5, 2, 4], 12)}
    k_pool, v_pool = pools(k, v, [0, 1, 2, 4, 5, 6, 8])
    for name, (table, length) in tables.items():
        rows = [(block, offset) for block in table for offset in range(SIZE)][:length]
        own_k, own_v = (torch.stack([pool[at] for at in rows], 1).unsqueeze(0) for pool in (k_pool, v_pool))
        q = sequence(length, 2, seed=ord(name))[0]
        expect(paged_attention, q, k_pool, v_pool, table, length).equals(contiguous(q, own_k, own_v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
def test_a_block_may_come_twice(expect):
    """Equal blocks of a prompt may be stored once, and then the table has the same number twice: nothing about a block
    says where in the sequence it stands."""
    q, k, v = sequence(8, 3, seed=5)
    twice_k, twice_v = (torch.cat([x[:, :, :4], x[:, :, :4], x[:, :, 4:7]], 2) for x in (k, v))
    k_pool, v_pool = pools(twice_k, twice_v, [3, 3, 1])
    expect(paged_attention, q, k_pool, v_pool, [3, 3, 1], 11).equals(contiguous(q, twice_k, twice_v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
def test_a_layer_of_a_larger_pool(expect):
    """A pool has all layers in one tensor, and a query comes with its heads and tokens swapped: views, both of them."""
    q, k, v = sequence(10, 3, seed=6)
    layers = torch.full((2, 5, 9, SIZE, 2, 5), torch.nan)
    layers[0, 3], layers[1, 3] = pools(k, v, [7, 1, 4])
    swapped = q.transpose(1, 2).contiguous().transpose(1, 2)
    expect(paged_attention, swapped, layers[0, 3], layers[1, 3], [7, 1, 4], 10).equals(contiguous(q, k, v), abs=1e-5)


# ---- numbers of all sizes and dtypes


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("size", [1000.0, 100.0, -100.0, -1000.0])
@pytest.mark.parametrize("place", [0, 3, 4, 9])
def test_one_token_may_outweigh_all_blocks(expect, place, size):
    """Its block comes first, last or between, and what was summed before shrinks to nothing, or does not count at all.
    exp(1000) is infinite."""
    q, k, v = sequence(10, 1, 2, 1, 4, seed=7)
    q[:], k[:, :, place] = 1, size / 2  # the score is 4 · size / 2 / sqrt(4) = size
    expect(paged_attention, q, *pools(k, v, [8, 0, 3]), [8, 0, 3], 10).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("level", [-20000.0, -1000.0, 0.0, 20000.0])
@pytest.mark.parametrize("step", [-50.0, -0.5, 0.5, 50.0])
def test_scores_that_rise_or_fall_from_block_to_block(expect, level, step):
    """Every block has another largest score. Far below 0 a finite number in place of -inf would beat the real ones, and
    a token that may not be seen would win."""
    q, k, v = (x.double() for x in sequence(11, 3, 1, 1, 1, seed=8))
    q[:], k[0, 0, :, 0] = 1, level + step * (torch.arange(11) // SIZE)
    expect(paged_attention, q, *pools(k, v, [8, 0, 3]), [8, 0, 3], 11).equals(contiguous(q, k, v), abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("held", [torch.bfloat16, torch.float16, torch.float32], ids=lambda t: f"pool {t}")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=lambda t: f"q {t}")
def test_arithmetic_in_float32_or_better(expect, dtype, held):
    """A pool in half precision is half the bytes; the sums over it are not. Oracle: float64 of these numbers, rounded
    to the query's dtype once, at the end: in bfloat16 all the way, the third digit is off."""
    for length, Q in ((1, 1), (31, 2), (32, 32)):
        q, k, v = sequence(length, Q, seed=9)
        q, k, v = q.to(dtype), k.to(held), v.to(held)
        table = [4, 2, 8, 0, 5, 1, 7, 3]
        right, eps = contiguous(q, k, v), EPS[dtype]
        expect(paged_attention, q, *pools(k, v, table), table, length).equals(right, rel=eps, abs=min(eps, 1e-5))


# ---- what it costs

BLOCKS = [*range(3, 40, 2), *range(2, 40, 2)]  # 38 of 40 blocks


def many(length, Q=1, H=6, G=2, D=8, dtype=torch.float32, size=SIZE):
    q, k, v = sequence(length, Q, H, G, D, seed=10)
    return q, *pools(k.to(dtype), v.to(dtype), BLOCKS, size, 40), BLOCKS[: -(-length // size)], length


def largest_made(*case):
    """Elements of the largest tensor that is made on the way."""
    return count(paged_attention, *case).largest.elements


def bytes_of_the_pools(*case):
    """Bytes of the pools that are read. What is much smaller than they are counts as on the chip."""
    return count(paged_attention, *case, on_chip=8000).bytes_read


def bytes_at_once(*case):
    return count(paged_attention, *case).peak_bytes


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("length, Q", [(150, 1), (149, 3), (150, 10), (64, 64), (13, 1)])
def test_nothing_is_gathered(expect, length, Q):
    """A gathered copy moves the whole cache three times instead of once. The same for scores of all blocks at once, and
    for KV heads that are repeated for their query heads: q, a block's keys and a block's scores are all there is."""
    most = max(6 * Q * 8, SIZE * 2 * 8, 6 * Q * SIZE)
    claim = f"no tensor has more elements than q, a block's keys or its scores: at most {most}"
    expect(largest_made, *many(length, Q)).holds(lambda elements: elements <= most, claim)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("length, Q", [(150, 1), (149, 2), (152, 9), (1, 1), (5, 1)])
def test_every_token_is_read_once_and_nothing_else(expect, length, Q):
    """Counted: the bytes of the keys and values of `length` tokens. The slots behind the last one, and blocks that the
    table has to spare, would be read for nothing."""
    q, k_pool, v_pool, table, _ = many(length, Q)
    table = [*table, 0, 1]  # blocks to spare
    once = 2 * length * 2 * 8 * 4  # keys and values, 2 heads, 8 features, 4 bytes
    claim = f"the keys and values of {length} tokens are read once: at most {once} bytes"
    expect(bytes_of_the_pools, q, k_pool, v_pool, table, length).holds(lambda read: read <= once, claim)


@pytest.mark.kata("level07.paged.paged_attention")
def test_blocks_are_let_go_of(expect):
    """A pool in bfloat16 is copied block by block into float32. In a list, the copies would be a gathered cache all
    the same, of twice the size."""
    short, long = (many(length, 1, 2, 2, 8, torch.bfloat16, 16) for length in (64, 38 * 16))
    block = 2 * 16 * 2 * 8 * 4  # keys and values in float32
    expect(bytes_at_once, *short).holds(lambda peak: peak <= 6 * block, "at most the 4 blocks, and some more")
    claim = "with 38 blocks there is no more at once than with 4, give or take two blocks"
    most = count(paged_attention, *short).peak_bytes + 2 * block
    expect(bytes_at_once, *long).holds(lambda peak: peak <= most, claim)


# ---- refusals


@pytest.mark.kata("level07.paged.paged_attention")
def test_a_sequence_that_is_not_there_is_refused(expect):
    """More tokens than slots would be another sequence's; more queries than tokens would see nothing."""
    q, k, v = sequence(8, 2, seed=11)
    k_pool, v_pool = pools(k, v, [5, 2])
    expect(paged_attention, q, k_pool, v_pool, [5, 2], 8).equals(contiguous(q, k, v), abs=1e-5)
    for table, length in (([5, 2], 9), ([5], 5), ([], 2), ([5, 2], 1), ([5, 2], 0), ([5, 2], -4)):
        expect(paged_attention, q, k_pool, v_pool, table, length).raises(ValueError)
    expect(paged_attention, q[:, :, :0], k_pool, v_pool, [5, 2], 8).raises(ValueError)
    for heads in (1, 3, 5):
        expect(paged_attention, q[:, :heads], k_pool, v_pool, [5, 2], 8).raises(ValueError)


# ---- a model on a pool: BlockCache and paged_attend

MODEL = Config(3, 20, 6, 2, 4, 28, 31, max_seq_len=64, tie_embeddings=False)
PARAMS = {name: w.double() for name, w in random_params(MODEL, seed=0).items()}
TEXT = [3, 17, 8, 25, 1, 30, 12, 12, 5, 9, 28, 2, 19, 7, 7, 14, 22]


def new_pool(num_blocks=12):
    pool = Pool(MODEL, num_blocks, SIZE, torch.float64)
    for held in (pool.keys, pool.values):
        held.fill_(torch.nan)
    return pool


def logits_of(cache, tokens, **how):
    return forward(PARAMS, MODEL, torch.tensor([tokens]), cache, **how)[0]


def on_blocks(cache, tokens):
    return logits_of(cache, tokens, attend=paged_attend)


def on_rows(tokens, new):
    """Oracle: level 02's cache and level 00's attention; the logits of the last `new` tokens."""
    return logits_of(KVCache(MODEL, 1, len(tokens), torch.float64), tokens)[-new:]


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("chunks", [(17,), (1, 16), (3, 5, 9), (4, 4, 4, 4, 1), (5,) + (1,) * 12, (1,) * 17], ids=str)
def test_a_model_runs_on_blocks(expect, chunks):
    """Oracle: the same model on a contiguous cache. A prompt at once, in chunks, token by token; all three layers."""

    def run_in(chunks):
        cache, seen, at = BlockCache(new_pool()), [], 0
        for n in chunks:
            seen.append(on_blocks(cache, TEXT[at : at + n]))
            at += n
        return torch.cat(seen), cache.length, len(cache.block_table)

    expect(run_in, chunks).equals((on_rows(TEXT, 17), 17, 5), rel=1e-5, abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
def test_forks_of_a_prompt_go_their_own_ways(expect):
    """Two answers to one question share its blocks; the block in which they part is copied, and none sees the other's
    tokens. A token that is taken back is not seen either."""

    def parted(prompt, first, second):
        pool = new_pool()
        cache = BlockCache(pool)
        on_blocks(cache, prompt)
        other = cache.fork()
        seen = [on_blocks(cache, first), on_blocks(other, second)]
        shared = sum(block in cache.block_table for block in other.block_table)
        other.truncate(len(prompt))
        seen += [on_blocks(other, first[:2]), on_blocks(cache, second[:1])]
        return seen, shared

    prompt, first, second = TEXT[:6], TEXT[6:11], TEXT[11:]
    texts = (prompt + first, 5), (prompt + second, 6), (prompt + first[:2], 2), (prompt + first + second[:1], 1)
    expect(parted, prompt, first, second).equals(([on_rows(*text) for text in texts], 1), rel=1e-5, abs=1e-5)


@pytest.mark.kata("level07.paged.paged_attention")
@pytest.mark.parametrize("token_budget", [3, 8, 64])
def test_an_engine_serves_from_one_pool(expect, token_budget):
    """Level 05's engine, with prompts in chunks beside tokens of others, requests that come late and blocks that go
    from one request to the next. Oracle: level 01's generate, each request alone. In the end all blocks are free."""
    prompts = {"a": TEXT[:9], "b": TEXT[3:5], "c": TEXT[8:], "d": TEXT[1:2], "e": TEXT[:9]}

    def served(prompts, token_budget):
        pool, texts = new_pool(20), {name: [] for name in prompts}
        run = partial(packed_step, attend=paged_attend)
        engine = Engine(PARAMS, MODEL, token_budget, 3, run=run, new_cache=lambda room: BlockCache(pool))
        for name, prompt in [*prompts.items(), *[("", [])] * 99]:
            if prompt:
                engine.add(Request(name, prompt, SamplingParams(temperature=0.0, max_tokens=6)))
            for id, token, _ in engine.step():
                texts[id].append(token)
        return texts, engine.unfinished, pool.allocator.num_free

    right = {name: generate(PARAMS, MODEL, prompt, 6) for name, prompt in prompts.items()}
    expect(served, prompts, token_budget).equals((right, 0, 20))


@pytest.mark.kata("level07.paged.paged_attention")
def test_a_mask_of_ones_own_is_refused(expect):
    """A paged sequence is attended to by position: a mask that was ignored in silence would be a wrong answer."""
    q, k, v = sequence(6, 2, seed=12)
    k_view, v_view = (BlockView(pool, [5, 2], 6) for pool in pools(k, v, [5, 2]))
    expect(paged_attend, q, k_view, v_view, "causal").equals(contiguous(q, k, v), abs=1e-5)
    expect(paged_attend, q, k_view, v_view, torch.ones(2, 6, dtype=torch.bool)).raises(ValueError)
