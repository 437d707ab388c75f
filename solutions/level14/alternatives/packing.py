"""Right programs, written another way, for level14.packing. `alternative` is given when this is read."""

import bisect

import torch

_PACK = "level14.packing.pack"
_LAYOUT = "level14.packing.packed_layout"

# ---- pack


def _checked(lengths, max_len):
    if any(not 1 <= length <= max_len for length in lengths):
        raise ValueError("length")


def _sums_of_rows(lengths, max_len):
    """No list of rooms: each row is added up when it is asked."""
    _checked(lengths, max_len)
    rows = []
    for length, negative in sorted(((length, -i) for i, length in enumerate(lengths)), reverse=True):
        for row in rows:
            if sum(lengths[j] for j in row) + length <= max_len:
                row.append(-negative)
                break
        else:
            rows.append([-negative])
    return rows


def _by_counting(lengths, max_len):
    """Examples of each length in a list of their own, the longest list first."""
    _checked(lengths, max_len)
    of_length = [[] for _ in range(max_len + 1)]
    for i, length in enumerate(lengths):
        of_length[length].append(i)
    rows, used = [], []
    for length in range(max_len, 0, -1):
        for i in of_length[length]:
            row = 0
            while row < len(rows) and used[row] + length > max_len:
                row += 1
            if row == len(rows):
                rows, used = [*rows, []], [*used, 0]
            rows[row] = [*rows[row], i]
            used[row] += length
    return rows


def _tree(lengths, max_len):
    """A tournament of rooms finds the first row with room in logarithmic time."""
    _checked(lengths, max_len)
    leaves = 1
    while leaves < len(lengths):
        leaves *= 2
    most, rows = [max_len] * (2 * leaves), [[] for _ in lengths]
    for i in torch.tensor(lengths, dtype=torch.long).argsort(descending=True, stable=True).tolist():
        node = 1
        while node < leaves:
            node = 2 * node + (most[2 * node] < lengths[i])
        rows[node - leaves].append(i)
        most[node] -= lengths[i]
        while node > 1:
            node //= 2
            most[node] = max(most[2 * node], most[2 * node + 1])
    return [row for row in rows if row]


alternative(_PACK, "sums_of_rows", program=_sums_of_rows)
alternative(_PACK, "by_counting", program=_by_counting)
alternative(_PACK, "tree", program=_tree)

# ---- packed_layout


def _from_the_starts(lengths):
    if not lengths or min(lengths) < 1:
        raise ValueError("lengths")
    lengths = torch.tensor(lengths)
    segments = torch.repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    return torch.arange(len(segments)) - starts[segments], segments


def _in_lists(lengths):
    if not lengths or min(lengths) < 1:
        raise ValueError("lengths")
    pairs = [(t, i) for i, length in enumerate(lengths) for t in range(length)]
    return torch.tensor([t for t, _ in pairs]), torch.tensor([i for _, i in pairs])


def _searched(lengths):
    if not lengths or min(lengths) < 1:
        raise ValueError("lengths")
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    segments = [bisect.bisect_right(ends, t) for t in range(ends[-1])]
    positions = [t - (ends[i - 1] if i else 0) for t, i in enumerate(segments)]
    return torch.tensor(positions), torch.tensor(segments)


alternative(_LAYOUT, "from_the_starts", program=_from_the_starts)
alternative(_LAYOUT, "in_lists", program=_in_lists)
alternative(_LAYOUT, "searched", program=_searched)

# ---- packed_mask


def _blocks(segments):
    return torch.block_diag(*(torch.ones(n, n).tril() for n in segments.bincount().tolist())).bool()


def _both_orders(segments):
    order = torch.arange(len(segments))
    return torch.eq(segments[:, None], segments[None]).logical_and(order[:, None] >= order[None])


def _lower_triangle(segments):
    return (segments.view(-1, 1) == segments.view(1, -1)).tril()


alternative(_LAYOUT, "blocks", program=_blocks, part="packed_mask")
alternative(_LAYOUT, "both_orders", program=_both_orders, part="packed_mask")
alternative(_LAYOUT, "lower_triangle", program=_lower_triangle, part="packed_mask")
