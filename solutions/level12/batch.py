"""A step of the scheduler as one flat batch: all tokens side by side, and for each where its keys and values go."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from level05.packed import pack
from level06.paged import slots

from .state import SchedulerOutput, Tracked


@dataclass(frozen=True)
class Batch:
    """N sequences with T tokens together, as one forward pass takes them. Given.

    token_ids, positions  (T,) int64, sequence after sequence; a position is that in its own sequence
    slots                 (T,) int64, where in the pool each token's keys and values go
    query_start_loc       N + 1 numbers: the tokens of sequence i are query_start_loc[i] .. query_start_loc[i + 1] - 1
    seq_lens              N numbers: all tokens of each, once those of this step are in the cache
    tables                N block tables
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    query_start_loc: list[int]
    seq_lens: list[int]
    tables: list[list[int]]


def build_batch(out: SchedulerOutput, sequences: Mapping[str, Tracked], block_size: int) -> Batch:
    """Return the batch of a step: its sequences in the order of out.num_scheduled.

    sequences  by id; of each, the out.num_scheduled[id] tokens from out.starts[id] on run. Their `computed` counts
               those of this step already

    slot = block · block_size + offset, with the block that the table has for that position
    Example: r0 with 9 tokens from 0 in blocks [1, 2, 3], r1 with 2 tokens from 8 in [1, 2, 4], of 4: positions 0 .. 8,
    8, 9; slots 4 .. 12, 16, 17; query_start_loc [0, 9, 11]; seq_lens [9, 10].
    ValueError: a table without room for the tokens (as level 06's slots); a step without tokens.

    ●● · about 8 lines · needs level05.packed.pack, level06.paged.gather
    """
    if not out.num_scheduled:
        raise ValueError("nothing is scheduled: a step without tokens is no batch")
    # solution:begin from where to where, in which blocks, and where does each sequence begin?
    starts = [out.starts[id] for id in out.num_scheduled]
    ends = [start + tokens for start, tokens in zip(starts, out.num_scheduled.values())]
    tables = [out.tables[id] for id in out.num_scheduled]
    chunks = [sequences[id].tokens[start:end] for id, start, end in zip(out.num_scheduled, starts, ends)]
    ids, positions, _ = pack(chunks, starts)
    where = torch.cat([slots(*part, block_size) for part in zip(tables, starts, ends)])
    first = [0, *accumulate(out.num_scheduled.values())]
    return Batch(ids[0], positions, where, first, ends, tables)
    # solution:end
