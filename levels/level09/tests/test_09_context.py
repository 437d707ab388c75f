"""Judges context.py by torch's scaled_dot_product_attention to the whole sequence, in float64, and by listing pairs.

Tokens lie on the ranks contiguously, in zigzag, and in no order at all. Batch, query heads, KV heads, tokens and
features all differ, so that no two axes can be taken for one another.
"""

import weakref

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from level09.comm import Comm
from level09.context import causal_work, ring_attention, zigzag_positions
from level09.threads import run_threads

CLOSE = {"rel": 1e-9, "abs": 1e-9}  # float64 in another order
SIZES = pytest.mark.parametrize("size", [3, 2, 4, 1])


def ranks(size, live):
    """A story: [live(comm, kata) of rank 0, of rank 1, ...]."""

    def on_ranks(fn):
        return run_threads(live, size, fn)

    on_ranks.__name__ = f"on_{size}_ranks"
    return on_ranks


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def zigzag(length, size):
    """Oracle: the blocks in a list; a rank takes one from each end."""
    block = length // (2 * size)
    blocks = [list(range(start, start + block)) for start in range(0, length, block)]
    return [torch.tensor(blocks[rank] + blocks[-1 - rank]) for rank in range(size)]


def shuffled(length, size):
    order = torch.randperm(length, generator=torch.Generator().manual_seed(length))
    return list(order.chunk(size))


LAYOUTS = {
    "contiguous": lambda length, size: list(torch.arange(length).chunk(size)),
    "zigzag": zigzag,
    "shuffled": shuffled,
    "backwards": lambda length, size: list(torch.arange(length).flip(0).chunk(size)),
    "striped": lambda length, size: list(torch.arange(length).view(-1, size).T.contiguous()),
}


# ---- ring_attention


def ringed(fn, comm, q, k, v, positions):
    """This rank's part of the whole sequence's q, k and v, by the kata."""
    mine = positions[comm.rank]
    return fn(comm, *(x[:, :, mine].clone() for x in (q, k, v)), mine.clone())


def everywhere(expect, q, k, v, positions, rel=1e-9, abs=1e-9):
    """Expect torch's attention to the whole sequence, part by part."""

    def live(comm, fn):
        return ringed(fn, comm, q, k, v, positions)

    whole = scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True, enable_gqa=True)
    right = [whole[:, :, mine].to(q.dtype) for mine in positions]
    expect.story(ranks(len(positions), live), ring_attention).equals(right, rel=rel, abs=abs)


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]], ids=str)
def test_a_token_on_each_rank(expect, order):
    """By hand: q = k = [0, 0], so that all weights are equal. Position 0 sees its own v; position 1, wherever it is,
    the mean of two; position 2 that of three. Who holds what is not told by the rank."""

    def live(comm, fn):
        nothing, v = torch.zeros(1, 1, 1, 2), torch.tensor([[[[6.0 * order[comm.rank] ** 2, 1.0]]]])
        return fn(comm, nothing, nothing, v, torch.tensor([order[comm.rank]]))[0, 0, 0].tolist()

    right = [[[0.0, 1.0], [3.0, 1.0], [10.0, 1.0]][position] for position in order]
    expect.story(ranks(3, live), ring_attention).equals(right)


@pytest.mark.kata("level09.context.ring_attention")
@SIZES
@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_are_what_the_whole_sequence_gives(expect, layout, size):
    """Oracle: scaled_dot_product_attention. A mask by place on the rank is right for no layout, one by rank for the
    contiguous one alone."""
    length = 24
    q, k, v = drawn(2, 6, length, 5, seed=1), drawn(2, 3, length, 5, seed=2), drawn(2, 3, length, 5, seed=3)
    everywhere(expect, q, k, v, LAYOUTS[layout](length, size))


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("size", [3, 2])
@pytest.mark.parametrize("heads", [(4, 2), (3, 1), (2, 2)], ids=str)
@pytest.mark.parametrize("each", [1, 2, 5], ids="{} tokens".format)
def test_heads_and_lengths(expect, each, heads, size):
    """Grouped, one KV head for all, and one for each; a single token on each rank."""
    (H, G), length = heads, each * size
    q, k, v = drawn(1, H, length, 4, seed=4), drawn(1, G, length, 4, seed=5), drawn(1, G, length, 4, seed=6)
    everywhere(expect, q, k, v, shuffled(length, size))


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("layout", ["contiguous", "zigzag", "shuffled"])
@pytest.mark.parametrize("scale", [40.0, 1000.0])
def test_scores_of_any_size(expect, scale, layout):
    """e^1000 is infinite, and one part's largest score may be hundreds above another's: parts are weighed by
    differences of log-sum-exps. Nothing is NaN, also where a query sees no key of a part."""
    q, k, v = drawn(1, 2, 12, 4, seed=7) * scale, drawn(1, 1, 12, 4, seed=8), drawn(1, 1, 12, 4, seed=9)
    everywhere(expect, q, k, v, LAYOUTS[layout](12, 3))


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [3, 1])
def test_the_queries_dtype_comes_back(expect, size, dtype):
    """float32 to its rounding; 16 bits to a few of theirs, since each part may be rounded once before it is merged.
    All scores are about 90 here: rounded to 16 bits, log-sum-exps would be off by up to a quarter."""
    q, k, v = (drawn(1, heads, 12, 8, seed=heads) for heads in (4, 2, 1))
    q[..., 0] = k[..., 0] = 16  # 16 · 16 / sqrt(8) in every score
    q, k, v = (x.to(dtype) for x in (q, k, torch.cat([v, -v], 1)))
    tolerance = {torch.float32: 1e-4}.get(dtype, 4 * torch.finfo(dtype).eps)
    everywhere(expect, q, k, v, shuffled(12, size), rel=tolerance, abs=tolerance)


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("layout", ["striped", "shuffled"])
def test_positions_are_exact(expect, layout):
    """520 tokens in bfloat16, which has no 257: the score of a key is 8 times its position, so each query gets the last
    value that it sees. With positions in the keys' dtype query 256 sees key 257 as well."""
    p = torch.arange(520)
    k = torch.stack([p // 16, p % 16, 0 * p, 0 * p], -1).view(1, 1, 520, 4).bfloat16()
    q = torch.tensor([256, 16, 0, 0]).expand(1, 1, 520, 4).bfloat16()  # 16 (p - p % 16) + 16 (p % 16), over sqrt(4)
    everywhere(expect, q, k, k, LAYOUTS[layout](520, 2), rel=1e-2, abs=0.05)


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@SIZES
def test_what_is_sent_is_keys_values_and_positions(expect, size, dtype):
    """size - 1 times, as they are: repeated for every query head, made float32, or sent once more to bring them home,
    they would be more. Queries stay where they are: with 4 heads to a KV head they are larger."""
    q, k, v = drawn(2, 8, 20, 6).to(dtype), drawn(2, 2, 20, 6).to(dtype), drawn(2, 2, 20, 6).to(dtype)
    positions = [torch.arange(20).view(4, 5)[r] for r in range(size)]

    def live(comm, fn):
        ringed(fn, comm, q, k, v, positions)
        return comm.bytes_sent

    right = (size - 1) * (2 * (2 * 2 * 5 * 6) * dtype.itemsize + 5 * 8)

    def few(sent):
        return max(sent) <= right or f"{right} bytes from each rank are enough"

    expect.story(ranks(size, live), ring_attention).holds(few, "no rank sends more than size - 1 parts")


class Watched(Comm):
    """Keeps account of received keys and values that are still alive, around a rank's own links."""

    def __init__(self, comm):
        super().__init__(comm.rank, comm.size)
        self.links, self.live, self.peak, self.partners = comm, 0, 0, set()

    def _exchange(self, outgoing, incoming):
        received = self.links._exchange(outgoing, incoming)
        if outgoing:
            self.partners.add(outgoing[1])
        if incoming and received.is_floating_point():
            self.live += received.nbytes
            self.peak = max(self.peak, self.live)
            weakref.finalize(received.untyped_storage(), self.gone, received.nbytes)
        return received

    def gone(self, nbytes):
        self.live -= nbytes


class Marks(TorchFunctionMode):
    """How many of the marks stand in one tensor, of those that torch reads or makes in this thread."""

    def __init__(self, marks, least):
        super().__init__()
        self.marks, self.least, self.most = marks, least, 0  # a tensor of fewer elements than `least` is too small

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves((args, out)):
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.numel() >= self.least:
                self.most = max(self.most, int(torch.isin(self.marks, x.double()).sum()))
        return out


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("layout", ["zigzag", "shuffled"])
def test_keys_of_one_other_rank_are_here_at_a_time(expect, layout):
    """On 6 ranks: what is passed on, and what comes in its place, is alive at once, two ranks' keys and values. All of
    them in a list would be five, and gathered one tensor of six. That memory is why the sequence was split."""
    size, length, D = 6, 24, 16
    q, k, v = (drawn(1, 2, length, D, seed=seed) for seed in (10, 11, 12))
    positions = LAYOUTS[layout](length, size)
    marks = 1000 + torch.arange(size).double()  # one for the keys of each rank; queries have 0 there
    q[..., 0] = 0
    for mark, mine in zip(marks, positions):
        k[:, :, mine, 0] = mark

    def live(comm, fn):
        watched, mine = Watched(comm), positions[comm.rank]
        given = [x[:, :, mine].clone() for x in (q, k, v)]
        part = given[1]
        with Marks(marks, 3 * part.numel()) as found:
            fn(watched, *given, mine.clone())
        return {"parts received and alive": watched.peak / (2 * part.nbytes), "ranks in one tensor": found.most}

    def small(results):
        return all(r["parts received and alive"] <= 2 and r["ranks in one tensor"] <= 2 for r in results)

    claim = "keys and values of two ranks, the old ones and the new ones, are alive at most, and none are put together"
    expect.story(ranks(size, live), ring_attention).holds(small, claim)


@pytest.mark.kata("level09.context.ring_attention")
@SIZES
def test_messages_go_to_the_right_neighbour(expect, size):
    """Every link of the ring is busy at once. A part that is sent to each of the others crosses the links between."""
    q, k, v = (drawn(1, heads, 12, 4, seed=heads) for heads in (6, 3, 1))
    positions = shuffled(12, size)

    def live(comm, fn):
        watched = Watched(comm)
        ringed(fn, watched, q, k, torch.cat([v, -v, 2 * v], 1), positions)
        return sorted(watched.partners)

    right = [[] if size == 1 else [(rank + 1) % size] for rank in range(size)]
    expect.story(ranks(size, live), ring_attention).equals(right)


@pytest.mark.kata("level09.context.ring_attention")
@SIZES
def test_its_arguments_stay_as_they_are(expect, size):
    """A rank's own keys and values are its part of the cache: written over by the neighbour's, they are gone."""

    def live(comm, fn):
        q, k, v = (drawn(1, heads, 3, 2, seed=10 * heads + comm.rank) for heads in (4, 2, 1))
        given = q, k, torch.cat([v, -v], 1), torch.arange(3) * size + comm.rank
        kept = [x.clone() for x in given]
        fn(comm, *given)
        return [torch.equal(x, was) for x, was in zip(given, kept)]

    expect.story(ranks(size, live), ring_attention).equals([[True] * 4] * size)


# ---- zigzag_positions and causal_work, judged with ring_attention


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize(
    "case, right",
    [
        ((8, 0, 2), [0, 1, 6, 7]),
        ((8, 1, 2), [2, 3, 4, 5]),
        ((12, 0, 3), [0, 1, 10, 11]),
        ((12, 1, 3), [2, 3, 8, 9]),
        ((12, 2, 3), [4, 5, 6, 7]),
        ((6, 0, 1), [0, 1, 2, 3, 4, 5]),
        ((6, 1, 3), [1, 4]),
    ],
    ids=str,
)
def test_an_early_block_and_a_late_one(expect, case, right):
    """By hand: 12 tokens on 3 ranks are 6 blocks of 2, and rank 1 has the second and the second to last."""
    expect(zigzag_positions, *case).equals(torch.tensor(right))


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize("length, size", [(24, 3), (24, 4), (24, 2), (24, 1), (80, 5), (16, 8)])
def test_zigzag_holds_every_position_once(expect, length, size):
    """Oracle: blocks in a list, one from each end."""
    for rank, right in enumerate(zigzag(length, size)):
        expect(zigzag_positions, length, rank, size).equals(right)


@pytest.mark.kata("level09.context.ring_attention")
def test_a_ragged_zigzag_is_refused(expect):
    """A rank with a token less would have other shapes than its neighbours expect."""
    expect(zigzag_positions, 4, 1, 2).equals(torch.tensor([1, 2]))
    for length, size in ((6, 2), (7, 1), (9, 3)):
        expect(zigzag_positions, length, 0, size).raises(ValueError)


@pytest.mark.kata("level09.context.ring_attention")
@pytest.mark.parametrize(
    "positions, right",
    [
        ([[0, 1, 2, 3], [4, 5, 6, 7]], [10, 26]),
        ([[0, 1, 6, 7], [2, 3, 4, 5]], [18, 18]),
        ([[0]], [1]),
        ([[5, 1], [0, 4], [3, 2]], [8, 6, 7]),
        ([[3, 2, 1, 0]], [10]),
        ([[4, 0, 5], [2, 3, 1]], [12, 9]),
    ],
    ids=["contiguous", "zigzag", "one token", "any order", "one rank", "with a gap"],
)
def test_pairs_that_a_rank_computes(expect, positions, right):
    """By hand: position 0 sees one key, itself, and position 7 all eight. In halves the second rank has 2.6 times as
    much to do, and the first one waits."""
    expect(causal_work, [torch.tensor(of_rank) for of_rank in positions]).equals(right)


@pytest.mark.kata("level09.context.ring_attention")
def test_pairs_of_a_long_sequence(expect):
    """Oracle: n (n + 1) / 2 pairs up to a position. 8192 tokens on 4 ranks: the last quarter has 1.75 times the mean,
    in zigzag all have the mean."""
    pairs = [n * (n + 1) // 2 for n in (0, 2048, 4096, 6144, 8192)]
    right = [after - before for before, after in zip(pairs, pairs[1:])]
    expect(causal_work, list(torch.arange(8192).chunk(4))).equals(right)
    expect(causal_work, zigzag(8192, 4)).equals([pairs[-1] // 4] * 4)
