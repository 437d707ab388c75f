"""Judges collectives.py by torch.stack and sum of what the ranks have, by hand, and by watching what is sent to whom.

`…_on_ranks(a, b, c)` is what each of three ranks gets, of which rank 0 has a, rank 1 has b and rank 2 has c;
`sent_by_…` what each of them sends. Two ranks hide much, since left is right: rings have up to five. Sums are of
integers, so that their order does not count.
"""

import pytest
import torch

from level09.collectives import all_to_all, ring_all_gather, ring_all_reduce, ring_reduce_scatter
from level09.comm import Comm
from level09.threads import run_threads

SIZES = pytest.mark.parametrize("size", [2, 3, 4, 5, 1])


class Watched(Comm):
    """A rank's links that remember (to whom, bytes) of each message."""

    def __init__(self, comm):
        super().__init__(comm.rank, comm.size, comm.device)
        self.comm, self.sent = comm, []

    def _exchange(self, outgoing, incoming):
        if outgoing:
            self.sent.append((outgoing[1], outgoing[0].nbytes))
        return self.comm._exchange(outgoing, incoming)


def sent_by(fn, inputs):
    """[(to whom, bytes) of each message in turn] of each rank."""

    def watch(comm):
        watched = Watched(comm)
        fn(watched, inputs[comm.rank])
        return watched.sent

    return run_threads(watch, len(inputs))


def digits(size, *shape, dtype=torch.int64):
    """For rank r: 10^r times another number at each place, so that a sum's digits tell who is in it, and how often."""
    length = torch.Size(shape).numel()
    places = (torch.arange(length) % 9 + 1).view(shape)
    return [(places * 10**rank).to(dtype) for rank in range(size)]


def drawn(size, *shape, seed=0, dtype=torch.int64):
    """For each rank other integers; exact in every dtype but the smallest."""
    draw = torch.Generator().manual_seed(100 * size + seed)
    return [torch.randint(-20, 21, shape, generator=draw).to(dtype) for _ in range(size)]


def total(inputs):
    return torch.stack(list(inputs)).sum(0, dtype=inputs[0].dtype)


# ---- ring_reduce_scatter


def ring_reduce_scatter_on_ranks(*inputs):
    return run_threads(lambda comm: ring_reduce_scatter(comm, inputs[comm.rank]), len(inputs))


def sent_by_ring_reduce_scatter(*inputs):
    return sent_by(ring_reduce_scatter, inputs)


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
def test_every_rank_gets_its_own_chunk_of_the_sum(expect):
    """The docstring's example, and by hand: rank r has 10 r + [0 .. 5], the sum is 30 + 3 · [0 .. 5]. A rank that has
    the chunk of its neighbour goes on with features that are not its own."""
    expect(ring_reduce_scatter_on_ranks, torch.tensor([1, 2]), torch.tensor([10, 20])).equals(
        [torch.tensor([11]), torch.tensor([22])]
    )
    inputs = [torch.arange(6) + 10 * rank for rank in range(3)]
    expect(ring_reduce_scatter_on_ranks, *inputs).equals([torch.tensor(x) for x in ([30, 33], [36, 39], [42, 45])])


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
@SIZES
def test_a_chunk_has_the_part_of_every_rank_once(expect, size):
    """Rank r adds 10^r times 1, 2, ..: 111 is the first place of three ranks, 101 would lack rank 1, and 121 have it
    twice. Sums of activations that lack a rank are no error anybody sees: only a worse answer."""
    inputs = digits(size, size)
    expect(ring_reduce_scatter_on_ranks, *inputs).equals(list(total(inputs).chunk(size)))


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
@SIZES
def test_a_ring_sends_each_neighbour_a_chunk_at_a_time(expect, size):
    """Counted: size - 1 messages to the right, each of k · 6 elements of 4 bytes. All links of the ring are busy in
    every step, and nobody sends the rest of the tensor, whatever the number of ranks."""
    inputs = drawn(size, 2 * size, 3, 2, dtype=torch.float32)
    right = [[((rank + 1) % size, 2 * 6 * 4)] * (size - 1) for rank in range(size)]
    expect(sent_by_ring_reduce_scatter, *inputs).equals(right)


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
@SIZES
@pytest.mark.parametrize("shape", [(1,), (3, 2), (2, 1, 3), (7, 4)], ids=str)
def test_chunks_are_rows_of_the_first_axis(expect, size, shape):
    """Oracle: torch.stack(..).sum(0), cut into blocks of rows. One row each and several, further axes that divide by
    the number of ranks and that do not."""
    inputs = drawn(size, size * shape[0], *shape[1:])
    expect(ring_reduce_scatter_on_ranks, *inputs).equals(list(total(inputs).split(shape[0])))


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float16, torch.float64, torch.int64], ids=str)
def test_sums_keep_the_dtype(expect, dtype):
    """On the links and in the result: a sum that is sent in float32 moves twice the bytes of bfloat16. Each dtype has a
    value that it alone brings home: 100 + 200 + 50 is 94 in uint8, 2^60 + 1 needs all of int64, 1 + 2^-40 float64."""
    values = {torch.uint8: (100, 200, 50), torch.int64: (2**60, 1, 2**59), torch.float64: (1.0, 2.0**-40, 2.0)}
    inputs = [torch.full((6, 2), x, dtype=dtype) for x in values.get(dtype, (1.0, 2.0, 4.0))]
    expect(ring_reduce_scatter_on_ranks, *inputs).equals(list(total(inputs).chunk(3)), rel=0, abs=0)
    right = [[((rank + 1) % 3, 4 * dtype.itemsize)] * 2 for rank in range(3)]
    expect(sent_by_ring_reduce_scatter, *inputs).equals(right)


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_tensor_may_be_a_view_or_empty(expect, size):
    """What comes out of attention is transposed, a broadcast bias has the same memory for every row, and a rank may
    have no rows at all. x itself stays as it is: the residual stream still needs it."""
    transposed = [x.T for x in drawn(size, 3, 2 * size)]
    expect(ring_reduce_scatter_on_ranks, *transposed).equals(list(total(transposed).chunk(size)))
    broadcast = [x.expand(2 * size, 3) for x in drawn(size, 1, 3)]
    expect(ring_reduce_scatter_on_ranks, *broadcast).equals(list(total(broadcast).chunk(size)))
    expect(ring_reduce_scatter_on_ranks, *drawn(size, 0, 3)).equals([torch.zeros(0, 3, dtype=torch.int64)] * size)


@pytest.mark.kata("level09.collectives.ring_reduce_scatter")
def test_what_does_not_split_is_refused(expect):
    """Ranks that disagree about the shape of a chunk wait for what never comes."""
    expect(ring_reduce_scatter_on_ranks, *digits(2, 2)).equals([torch.tensor([11]), torch.tensor([22])])
    for inputs in (drawn(2, 5), drawn(3, 4, 3), drawn(2)):
        expect(ring_reduce_scatter_on_ranks, *inputs).raises(ValueError)


# ---- ring_all_gather, judged with ring_all_reduce


def ring_all_gather_on_ranks(*shards):
    return run_threads(lambda comm: ring_all_gather(comm, shards[comm.rank]), len(shards))


def sent_by_ring_all_gather(*shards):
    return sent_by(ring_all_gather, shards)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
def test_everybody_has_the_shards_in_the_order_of_the_ranks(expect):
    """The docstring's example: the same tensor everywhere, wherever the ring is entered. Shards in the order of their
    arrival are logits of other tokens on every rank."""
    shards = [torch.tensor([0]), torch.tensor([10]), torch.tensor([20])]
    expect(ring_all_gather_on_ranks, *shards).equals([torch.tensor([0, 10, 20])] * 3)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@SIZES
@pytest.mark.parametrize("shape", [(2,), (1, 3), (3, 2, 2), (0, 4)], ids=str)
def test_gathering_is_concatenating(expect, size, shape):
    """Oracle: torch.cat. Every rank has another shard, and some shards have no rows."""
    shards = drawn(size, *shape, seed=1)
    expect(ring_all_gather_on_ranks, *shards).equals([torch.cat(shards)] * size)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@SIZES
def test_gathering_passes_shards_on_to_the_right(expect, size):
    """Counted: size - 1 messages of one shard, to the right neighbour only. Whoever sends all it has so far sends half
    of the whole again and again."""
    shards = drawn(size, 3, 2, dtype=torch.bfloat16)
    right = [[((rank + 1) % size, 12)] * (size - 1) for rank in range(size)]
    expect(sent_by_ring_all_gather, *shards).equals(right)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@pytest.mark.parametrize("dtype", [torch.bool, torch.float64, torch.bfloat16], ids=str)
def test_shards_arrive_as_they_are(expect, dtype):
    """Any dtype, and views: what is gathered is not calculated with. NaN and infinity are values like others."""
    shards = [x.T for x in drawn(3, 2, 4, dtype=dtype)]
    if dtype != torch.bool:
        shards[1] = shards[1] * torch.inf  # NaN where it was 0
    expect(ring_all_gather_on_ranks, *shards).equals([torch.cat(shards)] * 3, rel=0, abs=0)


# ---- ring_all_reduce


def ring_all_reduce_on_ranks(*inputs):
    return run_threads(lambda comm: ring_all_reduce(comm, inputs[comm.rank]), len(inputs))


def sent_by_ring_all_reduce(*inputs):
    return sent_by(ring_all_reduce, inputs)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
def test_everybody_has_the_sum(expect):
    """The docstring's example: three elements on two ranks, which do not divide."""
    inputs = [torch.tensor([1, 2, 3]), torch.tensor([10, 20, 30])]
    expect(ring_all_reduce_on_ranks, *inputs).equals([torch.tensor([11, 22, 33])] * 2)
    expect(sent_by_ring_all_reduce, *inputs).equals([[(1, 16)] * 2, [(0, 16)] * 2])


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@SIZES
@pytest.mark.parametrize("shape", [(7,), (2, 3, 5), (), (1,), (4, 6), (1, 1, 2), (0, 3)], ids=str)
def test_any_shape_can_be_summed(expect, size, shape):
    """Oracle: the sum of a stack. A decode step sums (batch, 1, d_model), whatever the batch is just now: fewer
    elements than ranks, a number, nothing at all. What is added for the ring does not come back."""
    inputs = digits(size, *shape)
    expect(ring_all_reduce_on_ranks, *inputs).equals([total(inputs)] * size)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@SIZES
@pytest.mark.parametrize(
    "shape, dtype", [((12,), torch.float64), ((3, 7), torch.bfloat16), ((2,), torch.float32)], ids=str
)
def test_the_bytes_of_a_ring_do_not_grow_with_the_ranks(expect, size, shape, dtype):
    """Counted: 2 (size - 1) messages to the right, each of ceil(elements / size): 12 numbers of 8 bytes on 4 ranks are
    6 messages of 24 bytes. To send everybody everything, or through one rank, takes size - 1 times the tensor."""
    inputs = drawn(size, *shape, dtype=dtype)
    chunk = -(-inputs[0].numel() // size) * dtype.itemsize
    right = [[((rank + 1) % size, chunk)] * (2 * (size - 1)) for rank in range(size)]
    expect(sent_by_ring_all_reduce, *inputs).equals(right)


def bit_for_bit(sums):
    return all(torch.equal(x, sums[0]) for x in sums) or "the ranks have different sums"


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_rank_has_other_bits(expect, size, dtype):
    """Floating-point sums depend on their order. Ranks whose sums differ in the last bit choose another token one day,
    and from then on answer two different requests. Close to the sum in float64: size additions round size times."""
    draw = torch.Generator().manual_seed(size)
    inputs = [(torch.randn(257, generator=draw) * 3).to(dtype) for _ in range(size)]
    claim = "every rank has the very same sum, bit for bit"
    expect(ring_all_reduce_on_ranks, *inputs).holds(bit_for_bit, claim)
    exact = torch.stack(inputs).double().sum(0).to(dtype)
    loose = {torch.float32: 1e-5, torch.bfloat16: 0.25}[dtype]
    expect(ring_all_reduce_on_ranks, *inputs).equals([exact] * size, rel=0, abs=loose)


@pytest.mark.kata("level09.collectives.ring_all_reduce")
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.float16], ids=str)
def test_the_sum_keeps_the_dtype_and_the_tensor_its_values(expect, dtype):
    """Exact, in x's own dtype; x may be a transposed view, and still has this rank's own part afterwards."""
    inputs = [x.T for x in drawn(3, 5, 2, dtype=dtype)]
    expect(ring_all_reduce_on_ranks, *inputs).equals([total(inputs)] * 3, rel=0, abs=0)


# ---- all_to_all


def all_to_all_on_ranks(*chunks):
    return run_threads(lambda comm: all_to_all(comm, chunks[comm.rank]), len(chunks))


def bytes_to_each_rank(*chunks):
    """[bytes from rank 0 to each rank, from rank 1, ...]"""
    sent = sent_by(all_to_all, chunks)
    return [[sum(n for to, n in mine if to == other) for other in range(len(chunks))] for mine in sent]


def parcels(counts, *further, dtype=torch.int64):
    """counts[i][j] rows from rank i to rank j, each with a number of its own."""
    return [
        [
            (10_000 * i + 1000 * j + torch.arange(n * torch.Size(further).numel())).view(n, *further).to(dtype)
            for j, n in enumerate(row)
        ]
        for i, row in enumerate(counts)
    ]


def delivered(chunks):
    """Oracle: entry j of rank i is entry i of rank j."""
    return [[theirs[i] for theirs in chunks] for i in range(len(chunks))]


@pytest.mark.kata("level09.collectives.all_to_all")
def test_entry_j_comes_from_rank_j(expect):
    """The docstring's example, and by hand: rank i has 10 i + j for rank j. Tokens that come back in another order are
    put into other people's sentences."""
    none, one, pair, last = (torch.tensor(x, dtype=torch.int64) for x in ([], [1], [2, 3], [4]))
    expect(all_to_all_on_ranks, [one, pair], [none, last]).equals([[one, none], [pair, last]])
    chunks = [[torch.tensor([10 * i + j]) for j in range(3)] for i in range(3)]
    right = [[torch.tensor([10 * j + i]) for j in range(3)] for i in range(3)]
    expect(all_to_all_on_ranks, *chunks).equals(right)


@pytest.mark.kata("level09.collectives.all_to_all")
@SIZES
def test_nobody_knows_how_much_will_come(expect, size):
    """Oracle: the transposed table. Rank i has i + 2 j + 1 rows for rank j, other than what it gets from there; a
    router sends as many tokens to an expert as it likes."""
    chunks = parcels([[i + 2 * j + 1 for j in range(size)] for i in range(size)])
    expect(all_to_all_on_ranks, *chunks).equals(delivered(chunks))


@pytest.mark.kata("level09.collectives.all_to_all")
@SIZES
def test_a_chunk_may_be_empty(expect, size):
    """From some to some, from one rank to all, from all to one, and all of them: an expert that nobody has chosen. The
    empty chunk keeps its further axes."""
    some = [[(i + j) % 2 * 3 for j in range(size)] for i in range(size)]
    one_gives = [[2 if i == size - 1 else 0] * size for i in range(size)]
    one_gets = [[2 if j == 0 else 0 for j in range(size)] for _ in range(size)]
    for counts in (some, one_gives, one_gets, [[0] * size] * size):
        chunks = parcels(counts, 4)
        expect(all_to_all_on_ranks, *chunks).equals(delivered(chunks))


@pytest.mark.kata("level09.collectives.all_to_all")
@SIZES
def test_a_chunk_goes_straight_to_its_rank(expect, size):
    """Counted: what a rank sends to another is that one's chunk, and besides it lengths, a table of them at most.
    Nothing goes to itself, nothing round the ring, and nothing is filled up to the largest: a row has 200 bytes."""
    counts = [[5 + 3 * i + 11 * j for j in range(size)] for i in range(size)]
    chunks = parcels(counts, 50, dtype=torch.float32)

    def lean(sent):
        for i, row in enumerate(sent):
            for j, got in enumerate(row):
                chunk = 0 if i == j else 200 * counts[i][j]
                if not chunk <= got <= chunk + (i != j) * 8 * size**2:
                    return f"rank {i} sends rank {j} {got} bytes, where {chunk} are its chunk"
        return True

    expect(bytes_to_each_rank, *chunks).holds(lean, "each rank is sent its own chunk, and lengths")


@pytest.mark.kata("level09.collectives.all_to_all")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.uint8, torch.float64], ids=str)
def test_long_chunks_of_any_dtype(expect, dtype):
    """300 rows and 257: neither number is one of bfloat16, uint8 or bool, so that a length has a dtype of its own."""
    chunks = parcels([[1, 300, 0], [257, 2, 129], [513, 3, 1]], dtype=dtype)
    expect(all_to_all_on_ranks, *chunks).equals(delivered(chunks), rel=0, abs=0)


@pytest.mark.kata("level09.collectives.all_to_all")
@pytest.mark.parametrize("further", [(3,), (2, 5), (1, 1), (0,)], ids=str)
def test_rows_may_have_further_axes(expect, further):
    """Rows of hidden states, or of heads; in a tuple, and cut out of a transposed tensor."""
    chunks = parcels([[2, 1, 4], [3, 5, 0], [1, 6, 2]], *further)
    expect(all_to_all_on_ranks, *chunks).equals(delivered(chunks))
    views = [tuple(x.flip(0).mT if x.dim() > 2 else x.T.contiguous().T for x in row) for row in chunks]
    expect(all_to_all_on_ranks, *views).equals(delivered(views))


@pytest.mark.kata("level09.collectives.all_to_all")
def test_a_chunk_for_each_rank_and_no_more(expect):
    """Guards what comes before the first message: one rank that gives up leaves the others waiting."""
    chunks = parcels([[1, 2], [3, 1]])
    expect(all_to_all_on_ranks, *chunks).equals(delivered(chunks))
    expect(all_to_all_on_ranks, *parcels([[1], [2]])).raises(ValueError)
    expect(all_to_all_on_ranks, *parcels([[1, 2, 3], [4, 5, 6]])).raises(ValueError)
