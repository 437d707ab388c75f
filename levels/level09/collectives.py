"""What all ranks do together, made of messages between two of them: sums, gathering, and everybody to everybody.

The ranks form a ring: the right neighbour of rank r is r + 1, and that of the last rank is 0. A rank can send and
receive at the same time (`comm.sendrecv`), and every link of the ring can be busy at once.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .comm import Comm


def ring_reduce_scatter(comm: Comm, x: Tensor) -> Tensor:
    """Return chunk `comm.rank` of the sum of all ranks' x: of `comm.size` equal chunks along the first axis.

    x  (size · k, ...), of one shape and dtype on all ranks; the result is (k, ...), and x stays as it is

    Each rank sends to its right neighbour only: size - 1 messages, each of one chunk. Sums are taken in x's dtype, in
    whatever order the ring brings them. One rank sends nothing.
    Example: 2 ranks with [1, 2] and [10, 20]: rank 0 gets [11], rank 1 gets [22].
    ValueError: the first axis does not split into size chunks. Patarasuk and Yuan, JPDC 2009.

    ●●● · about 6 lines
    """
    if x.dim() == 0 or x.shape[0] % comm.size:
        raise ValueError(f"the first axis of {tuple(x.shape)} does not split into {comm.size} equal chunks: pad it")
    # TODO: a partial sum travels round the ring: where must it start to end at its own rank?
    raise NotImplementedError("level09.collectives.ring_reduce_scatter")


def ring_all_gather(comm: Comm, shard: Tensor) -> Tensor:
    """Return the shards of all ranks, one behind the other along the first axis, in the order of the ranks.

    shard  (k, ...), of one shape and dtype on all ranks; the result is (size · k, ...) and the same everywhere

    Each rank sends to its right neighbour only: size - 1 messages of one shard.
    Example: 3 ranks with [0], [10] and [20]: all get [0, 10, 20].

    ●● · about 5 lines · part of ring_all_reduce
    """
    # TODO: pass on what came last; whose is it?
    raise NotImplementedError("level09.collectives.ring_all_reduce")


def ring_all_reduce(comm: Comm, x: Tensor) -> Tensor:
    """Return the sum of all ranks' x, with its shape and dtype; it is the very same, bit for bit, on every rank.

    x  any shape and number of elements, equal on all ranks; it stays as it is

    Each rank sends 2 · (size - 1) messages to its right neighbour, each of ceil(elements / size) elements: with n ranks
    2 (n - 1) / n of the tensor, less than twice its size however many there are. One rank sends nothing.
    Example: 2 ranks with [1, 2, 3] and [10, 20, 30]: both get [11, 22, 33], and send two messages of two elements.

    ●● · about 4 lines · needs level09.collectives.ring_reduce_scatter
    """
    # TODO: both halves, on a vector of the right length
    raise NotImplementedError("level09.collectives.ring_all_reduce")


def all_to_all(comm: Comm, chunks: Sequence[Tensor]) -> list[Tensor]:
    """Return the chunks that all ranks have for this one: entry j comes from rank j.

    chunks  one for each rank: chunks[j], (k, ...), is for rank j; k may differ, and may be 0. All chunks of all ranks
            have the same further axes and dtype

    No rank knows beforehand how much the others have for it: lengths are sent as well, in a tensor on `comm.device`.
    Each chunk goes straight to its rank, once; a rank's chunk for itself is no message.
    Example: rank 0 has [1], [2, 3] and rank 1 has [], [4]: rank 0 gets [1], [] and rank 1 gets [2, 3], [4].
    ValueError: not one chunk for each rank.

    ●● · about 7 lines
    """
    if len(chunks) != comm.size:
        raise ValueError(f"one chunk for each of the {comm.size} ranks, not {len(chunks)}")
    # TODO: in each step everybody has another partner; how much will come?
    raise NotImplementedError("level09.collectives.all_to_all")
