"""Judges tensor.py by what one rank does with the whole matrix, table or row of logits, and by level 00's forward.

Ranks are threads that take turns. The parts are cut here, by hand; arithmetic is in float64 where nothing else is said.
With two ranks left and right are the same neighbour: three tell them apart.
"""

from dataclasses import replace

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level01.simple_cache import SimpleCache
from level02.cache import KVCache
from level06.paged import PagedCache, Pool
from level06.weights import any_linear
from level09.comm import Comm
from level09.tensor import (
    RowParallel,
    VocabParallel,
    row_parallel_linear,
    vocab_parallel_argmax,
    vocab_parallel_embedding,
)
from level09.threads import run_threads

EXACT = {"rel": 0, "abs": 0}
CLOSE = {"rel": 1e-12, "abs": 1e-12}  # float64 in another order
SIZES = pytest.mark.parametrize("size", [3, 2, 4, 1])


def ranks(size, live):
    """A story: [live(comm, kata) of rank 0, of rank 1, ...]."""

    def on_ranks(fn):
        return run_threads(live, size, fn)

    on_ranks.__name__ = f"on_{size}_ranks"
    return on_ranks


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def part(comm, x, dim):
    """This rank's block of x along an axis."""
    return x.chunk(comm.size, dim)[comm.rank].clone()


def reduced(size, elements, itemsize):
    """(bytes, messages) that each rank sends in one ring all-reduce."""
    return 2 * (size - 1) * -(-elements // size) * itemsize, 2 * (size - 1)


# ---- row_parallel_linear


@pytest.mark.kata("level09.tensor.row_parallel_linear")
def test_the_bias_counts_once(expect):
    """The docstring's example: each rank has one feature and adds 1 · [1, 0] or 2 · [0, 1]. With the bias in each
    partial sum it would be [21, 42]: several engines have shipped that."""

    def live(comm, fn):
        x, shard = torch.tensor([[1.0], [2.0]])[comm.rank], torch.eye(2)[:, comm.rank :][:, :1]
        return fn(comm, x, shard, torch.tensor([10.0, 20.0])).tolist()

    expect.story(ranks(2, live), row_parallel_linear).equals([[11.0, 22.0]] * 2, **EXACT)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@SIZES
@pytest.mark.parametrize("lead", [(2, 3), (), (7,), (1, 1)], ids=str)
def test_every_rank_has_the_whole_result(expect, lead, size):
    """Oracle: x @ W.T + b with all 12 features. Each rank's product is a partial sum, of no use by itself."""
    x, w, bias = drawn(*lead, 12, seed=1), drawn(5, 12, seed=2), drawn(5, seed=3)

    def live(comm, fn):
        whole = fn(comm, part(comm, x, -1), part(comm, w, 1), bias.clone())
        return whole, fn(comm, part(comm, x, -1), part(comm, w, 1))

    expect.story(ranks(size, live), row_parallel_linear).equals([(x @ w.T + bias, x @ w.T)] * size, **CLOSE)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@pytest.mark.parametrize("size", [3, 4, 1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tokens", [1, 7], ids="{} tokens".format)
def test_one_all_reduce_of_the_results_size(expect, tokens, dtype, size):
    """2 (n - 1) messages of an n-th of the result, in its dtype, with a bias or without. Gathering the partial sums, or
    the bias by itself, sends more; a sum for each token waits for as many more messages."""

    def live(comm, fn):
        x, shard = drawn(tokens, 2).to(dtype), drawn(5, 2).to(dtype)
        fn(comm, x, shard, torch.ones(5, dtype=dtype))
        once = comm.bytes_sent, comm.messages
        comm.bytes_sent = comm.messages = 0
        y = fn(comm, x, shard)
        return once, (comm.bytes_sent, comm.messages), y.dtype == dtype

    right = reduced(size, 5 * tokens, dtype.itemsize)
    expect.story(ranks(size, live), row_parallel_linear).equals([(right, right, True)] * size)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@SIZES
def test_its_arguments_stay_as_they_are(expect, size):
    """x is the residual stream's next input, and weights serve the next request as well."""

    def live(comm, fn):
        given = drawn(3, 12 // size, seed=comm.rank), drawn(5, 12 // size, seed=4), drawn(5, seed=5)
        kept = [t.clone() for t in given]
        fn(comm, *given)
        return [torch.equal(t, was) for t, was in zip(given, kept)]

    expect.story(ranks(size, live), row_parallel_linear).equals([[True] * 3] * size)


class Signs:
    """A weight in a format of its own: signs in 8 bits, one scale. It is no tensor, and has a `linear` of its own."""

    def __init__(self, signs, scale):
        self.signs, self.scale = signs, scale

    def linear(self, x):
        return x @ self.signs.to(x.dtype).T * self.scale


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@SIZES
def test_a_quantized_part_applies_itself(expect, size):
    """Int8 on two GPUs: what any_linear takes need not be a tensor. Oracle: the whole matrix in floating point."""
    signs = torch.where(drawn(5, 12, seed=6) > 0, 1, -1).to(torch.int8)
    x, bias = drawn(4, 12, seed=7), drawn(5, seed=8)

    def live(comm, fn):
        return fn(comm, part(comm, x, -1), Signs(part(comm, signs, 1), 0.25), bias.clone())

    right = x @ (signs.double() * 0.25).T + bias
    expect.story(ranks(size, live), row_parallel_linear).equals([right] * size, **CLOSE)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [3, 4])
def test_all_ranks_have_the_very_same_bits(expect, size, dtype):
    """Additions round, in another order otherwise: ranks that differ in a last bit may choose different tokens."""
    x, w, bias = (t.to(dtype) for t in (drawn(6, 24, seed=9), drawn(35, 24, seed=10), drawn(35, seed=11)))

    def live(comm, fn):
        return fn(comm, part(comm, x, -1), part(comm, w, 1), bias.clone())

    def alike(results):
        return all(torch.equal(y, results[0]) for y in results)

    story = expect.story(ranks(size, live), row_parallel_linear)
    story.holds(alike, "every rank has the same bits")
    right = (x.double() @ w.double().T + bias).to(dtype)
    tolerance = 16 * torch.finfo(dtype).eps  # a few roundings of sums as large as 16
    story.equals([right] * size, rel=tolerance, abs=tolerance)


# ---- vocab_parallel_embedding, judged with row_parallel_linear


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@SIZES
def test_each_token_is_one_rank_s_own(expect, size):
    """All 12 tokens, the first and last of every part among them, as a batch of two. A row that is not here counts 0:
    clamped to the first or the last one, or counted from the end, it would be added to the right one."""
    table = drawn(12, 3, seed=12)
    token_ids = torch.tensor([[0, 11, 5, 6, 3, 8], [2, 9, 4, 7, 10, 1]])

    def live(comm, fn):
        return fn(comm, token_ids.clone(), part(comm, table, 0))

    expect.story(ranks(size, live), vocab_parallel_embedding).equals([table[token_ids]] * size, **EXACT)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@pytest.mark.parametrize("token_ids", [[[3]], [7, 7, 6], [11, 0, 11], [[[0, 1]], [[2, 3]]], [[5], [4], [8]]], ids=str)
def test_ids_of_any_shape(expect, token_ids):
    """A decode step is (batch, 1), a prompt (1, tokens). Some ranks own none of these, and take part all the same."""
    table, token_ids = drawn(12, 5, seed=13), torch.tensor(token_ids)
    for size in (3, 2):

        def live(comm, fn):
            return fn(comm, token_ids.clone(), part(comm, table, 0))

        expect.story(ranks(size, live), vocab_parallel_embedding).equals([table[token_ids]] * size, **EXACT)


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [3, 4, 1])
def test_an_embedding_is_one_all_reduce(expect, size, dtype):
    """Of the rows that were asked for: a table that is gathered for that is many thousand times as much."""

    def live(comm, fn):
        token_ids, shard = torch.tensor([[1, 5, 2], [0, 7, 11]]), drawn(12 // size, 5, seed=comm.rank).to(dtype)
        kept = token_ids.clone(), shard.clone()
        y = fn(comm, token_ids, shard)
        same = torch.equal(token_ids, kept[0]) and torch.equal(shard, kept[1])
        return {"sent": (comm.bytes_sent, comm.messages), "arguments unchanged": same, "dtype kept": y.dtype == dtype}

    right = {"sent": reduced(size, 30, dtype.itemsize), "arguments unchanged": True, "dtype kept": True}
    expect.story(ranks(size, live), vocab_parallel_embedding).equals([right] * size)


# ---- both in the whole model


CONFIG = Config(2, 32, 4, 2, 8, 48, 64, max_seq_len=64, tie_embeddings=False)
CACHES = {
    "simple": lambda config: SimpleCache(config.n_layers),
    "contiguous": lambda config: KVCache(config, 1, 8, torch.float64),
    "paged": lambda config: PagedCache(Pool(config, 8, 2, torch.float64)),
}


def own_model(comm, params, config):
    """(params, config) of a rank, cut by hand: KV heads that several ranks need are copied."""
    first, end = (rank * config.n_heads // comm.size for rank in (comm.rank, comm.rank + 1))
    group = config.n_heads // config.n_kv_heads
    kv_heads = range(first // group, (end - 1) // group + 1)
    own = {}
    for name, w in params.items():
        if "o_proj" in name or "down_proj" in name:
            own[name] = RowParallel(comm, part(comm, w, 1))
        elif "embed_tokens" in name:
            own[name] = VocabParallel(comm, part(comm, w, 0))
        elif "k_proj" in name or "v_proj" in name:
            own[name] = w[kv_heads.start * config.head_dim : kv_heads.stop * config.head_dim]
        else:
            own[name] = part(comm, w, 0) if w.dim() == 2 else w
    return own, replace(config, n_heads=end - first, n_kv_heads=len(kv_heads))


@pytest.mark.kata("level09.tensor.row_parallel_linear")
@pytest.mark.parametrize("size", [2, 4, 1])
@pytest.mark.parametrize("tied", [False, True], ids=["own head", "tied"])
@pytest.mark.parametrize("cache", CACHES)
def test_a_whole_model_on_several_ranks(expect, cache, tied, size):
    """Oracle: level 00's forward on one rank. Prompt and decode step with a cache; on 4 ranks each of the 2 KV heads is
    there twice. Two all-reduces a layer and one for the embedding: 5 of tokens · 32 numbers, and nothing else."""
    config = replace(CONFIG, tie_embeddings=tied)
    params = {name: w.double() for name, w in random_params(config, 3).items()}
    prompt, token = torch.tensor([[3, 8, 1, 60, 33]]), torch.tensor([[7]])
    right = forward(params, config, torch.cat([prompt, token], 1))

    def live(comm, fn):
        own, mine = own_model(comm, params, config)
        kept = CACHES[cache](mine)
        logits = [forward(own, mine, ids, kept, linear=any_linear) for ids in (prompt, token)]
        return torch.cat(logits, 1), comm.bytes_sent

    sent = 5 * reduced(size, 6 * 32, 8)[0]
    right = [(logits, sent) for logits in right.chunk(size, -1)]
    expect.story(ranks(size, live), row_parallel_linear).equals(
        right, rel=1e-5, abs=1e-5
    )  # level 00's softmax: float32


# ---- vocab_parallel_argmax


def chosen(logits, size, expect):
    """Expect the first largest of each whole row, found in Python, on all ranks; and the logits as they were."""
    right = {"token ids": torch.tensor([row.index(max(row)) for row in logits.tolist()]), "logits unchanged": True}

    def live(comm, fn):
        mine = part(comm, logits, 1)
        return {"token ids": fn(comm, mine), "logits unchanged": torch.equal(mine, part(comm, logits, 1))}

    expect.story(ranks(size, live), vocab_parallel_argmax).equals([right] * size)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
def test_the_winner_has_its_number_in_the_whole_vocabulary(expect):
    """The docstring's example: rank 1 has 2 at its place 0, which is token 2, and rank 0 has it at token 1. Then one
    winner on each of three ranks."""
    chosen(torch.tensor([[0.5, 2.0, 2.0, 1.0]]), 2, expect)
    chosen(torch.tensor([[9.0, 1, 2, 3, 4, 5], [0, 1, 2, 7, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 8, 3, 4, 5]]), 3, expect)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
@SIZES
@pytest.mark.parametrize("rows", [40, 1], ids="{} rows".format)
def test_ties_go_to_the_smallest_id(expect, rows, size):
    """Whole numbers tie within a rank and across ranks, in most rows. On one GPU the same request would give the
    smallest id; another choice is another answer."""
    chosen(drawn(rows, 12, seed=14).round().float(), size, expect)
    chosen(torch.zeros(rows, 12), size, expect)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
@SIZES
def test_logits_below_zero_and_masked_ones(expect, size):
    """A grammar masks most tokens with -inf, whole parts and whole rows too; nothing that a rank has in place of a
    winner may beat what is left, be it -1e30."""
    inf = torch.inf
    logits = torch.full((7, 12), -inf)
    logits[0] = -5.0
    logits[1, 8] = -1e30
    logits[2, 3], logits[2, 11] = -7.0, -6.5
    logits[3] = -torch.arange(12.0) - 3
    logits[4, 6], logits[4, 0] = inf, 5.0
    logits[5] = torch.tensor([-0.0, 0.0] * 6)
    chosen(logits, size, expect)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [3, 4])
def test_values_and_ids_are_exact(expect, size, dtype):
    """Logits one rounding apart, large and small, and ids of a vocabulary of 996: bfloat16 has no 257."""
    eps, largest = torch.finfo(dtype).eps, torch.finfo(dtype).max
    logits = torch.zeros(6, 996, dtype=torch.float64)
    logits[0, 3], logits[0, 991] = 1.0, 1 + eps
    logits[1, 301], logits[1, 995] = 1 + eps, 1.0
    logits[2] = -1 - eps
    logits[2, 257] = -1.0
    logits[3, 500], logits[3, 803] = largest, largest * (1 - eps)
    logits[4, 7], logits[4, 803] = largest * (1 - eps), largest
    logits[5, 667] = torch.finfo(dtype).tiny
    chosen(logits.to(dtype), size, expect)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
@pytest.mark.parametrize("rows", [1, 5], ids="{} rows".format)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_two_numbers_are_sent_and_not_the_logits(expect, dtype, rows):
    """16 bytes a row and step, of a vocabulary of 400: of SmolLM2 the logits of one token are 200 kB."""

    def live(comm, fn):
        fn(comm, drawn(rows, 400 // comm.size, seed=comm.rank).to(dtype))
        return comm.bytes_sent

    for size in (4, 2, 1):
        most = 16 * rows * (size - 1)

        def few(sent, most=most):
            return max(sent) <= most or f"{most} bytes from each rank are enough"

        story = expect.story(ranks(size, live), vocab_parallel_argmax)
        story.holds(few, "no rank sends more than 16 bytes for each row and step")


class Watched(Comm):
    """Remembers to whom a rank sends, around its own links."""

    def __init__(self, comm):
        super().__init__(comm.rank, comm.size)
        self.links, self.partners = comm, set()

    def _exchange(self, outgoing, incoming):
        if outgoing:
            self.partners.add(outgoing[1])
        return self.links._exchange(outgoing, incoming)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
@SIZES
def test_pairs_go_to_the_right_neighbour(expect, size):
    """As in every collective of the ring: with ranks that send across it, links between them are used twice."""

    def live(comm, fn):
        watched = Watched(comm)
        fn(watched, drawn(3, 7, seed=comm.rank).float())
        return sorted(watched.partners)

    right = [[] if size == 1 else [(rank + 1) % size] for rank in range(size)]
    expect.story(ranks(size, live), vocab_parallel_argmax).equals(right)


@pytest.mark.kata("level09.tensor.vocab_parallel_argmax")
def test_ids_beyond_what_float32_counts(expect):
    """2^24 + 3 is no float32 number, the nearest is 2^24 + 4: ids that travel as float32 are rounded from there on."""
    length = 2**22 + 1

    def live(comm, fn):
        logits = torch.zeros(1, length, dtype=torch.bfloat16)
        logits[0, -1] = 1 + comm.rank
        return fn(comm, logits)

    expect.story(ranks(4, live), vocab_parallel_argmax).equals([torch.tensor([2**24 + 3])] * 4)
