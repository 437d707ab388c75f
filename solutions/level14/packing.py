"""Short examples side by side in rows of one length: no padding is computed, and no example sees another.

S is the number of tokens in a row.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from level00.layers import causal_mask


def pack(lengths: Sequence[int], max_len: int) -> list[list[int]]:
    """Return rows of example numbers, by first-fit decreasing: few rows, none with more than max_len tokens.

    lengths  tokens of each example

    Longest first, of equal ones the one with the smaller number; each goes into the first row, in the order in which
    they were opened, that has room for it, else into a new one. Rows and what is in them stay in the order in which
    they came about. It needs at most 11/9 of the fewest possible rows, and 6/9 of one more.
    Example: lengths 3, 5, 2, 6, 4, max_len 10 -> [[3, 4], [1, 0, 2]].
    ValueError: a length outside 1..max_len: to cut an example would teach its answer without an end.
    Bound: Dósa, 2007. Packing for training: arXiv 2107.02027.

    ●● · about 8 lines
    """
    for i, length in enumerate(lengths):
        if not 1 <= length <= max_len:
            raise ValueError(f"example {i} has {length} tokens, and a row takes 1..{max_len} of one example")
    # solution:begin in which order do they come, and which row is asked first?
    rows: list[list[int]] = []
    room: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):  # sorted keeps equal ones in order
        row = next((row for row in range(len(rows)) if room[row] >= lengths[i]), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(max_len)
        rows[row].append(i)
        room[row] -= lengths[i]
    return rows
    # solution:end


def packed_layout(lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return (positions, segments), both (S,) int64, of a row that holds examples of these lengths side by side.

    Positions start at 0 in each example; segments number the examples of the row from 0.
    Example: lengths 2, 3 -> [0, 1, 0, 1, 2] and [0, 0, 1, 1, 1]. ValueError: no example, or an empty one.

    ● · about 3 lines
    """
    if not lengths or min(lengths) < 1:
        raise ValueError(f"a row has at least one example, each of at least one token, not {list(lengths)}")
    # solution:begin count within each; name each
    positions = torch.cat([torch.arange(length) for length in lengths])
    segments = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    return positions, segments
    # solution:end


def packed_mask(segments: Tensor) -> Tensor:
    """Return the boolean mask (S, S) of a packed row, True = may attend: to the same segment, and not ahead.

    segments  (S,) int64, as packed_layout gives them

    Example: [0, 0, 1] -> [[1, 0, 0], [1, 1, 0], [0, 0, 1]].

    ● · about 2 lines · part of packed_layout
    """
    # solution:begin two conditions on a pair of tokens
    same = segments.unsqueeze(1) == segments
    return same & causal_mask(len(segments), len(segments)).to(segments.device)
    # solution:end


def packed_row(examples: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(ids (1, S), learned (1, S), positions (S,), mask (S, S)) of examples (ids, loss mask) in one row. Given.

    level00's forward takes it as it is: forward(params, config, ids, positions=positions, mask=mask).
    """
    positions, segments = packed_layout([len(ids) for ids, _ in examples])
    learned = torch.cat([mask for _, mask in examples])
    # subtle: what stands before an example's first token is the end of another one, which does not predict it
    ids, learned = torch.cat([ids for ids, _ in examples]), learned & (positions > 0)
    return ids.unsqueeze(0), learned.unsqueeze(0), positions, packed_mask(segments)
