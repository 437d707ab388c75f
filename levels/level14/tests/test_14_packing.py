"""Judges packing.py by rows on paper, by the fewest rows of all ways of packing, and by a tiny model's logits."""

import pytest
import torch

from dojo.models import Config, random_params
from level00.transformer import forward
from level14.packing import pack, packed_layout, packed_mask, packed_row

T = torch.tensor
CONFIG = Config(2, 16, 4, 2, 4, 24, 13, max_seq_len=32, tie_embeddings=False)
PARAMS = random_params(CONFIG)


def lengths_of(n, most, seed):
    return torch.randint(1, most + 1, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def first_fit_decreasing(lengths, max_len):
    """Oracle: takes the next example by looking for the longest that is left, and asks every row from the first."""
    left, rows = dict(enumerate(lengths)), []
    while left:
        longest = max(left, key=lambda i: (left[i], -i))
        for row in [*rows, []]:
            if sum(lengths[i] for i in row) + left[longest] <= max_len:
                rows += [row] if not row else []
                row.append(longest)
                break
        del left[longest]
    return rows


def fewest(lengths, max_len, rooms=()):
    """Oracle: rows of the best of all ways."""
    if not lengths:
        return len(rooms)
    first, *rest = lengths
    ways = [(*rooms[:j], room - first, *rooms[j + 1 :]) for j, room in enumerate(rooms) if room >= first]
    return min(fewest(rest, max_len, way) for way in [*ways, (*rooms, max_len - first)])


# ---- pack


@pytest.mark.kata("level14.packing.pack")
@pytest.mark.parametrize(
    "lengths, max_len, rows",
    [
        ([3, 5, 2, 6, 4], 10, [[3, 4], [1, 0, 2]]),
        ([10, 10], 10, [[0], [1]]),
        ([6, 5], 10, [[0], [1]]),
        ([5, 5, 5], 10, [[0, 1], [2]]),
        ([4, 6, 4, 6], 10, [[1, 0], [3, 2]]),
        ([8, 5, 4, 1], 10, [[0, 3], [1, 2]]),
        ([7, 8, 9, 3, 1, 4], 12, [[2, 3], [1, 5], [0, 4]]),
        ([6, 5, 4, 2, 2, 1], 9, [[0, 3, 5], [1, 2], [4]]),
        ([5, 6, 1], 8, [[1, 2], [0]]),
        ([6, 5, 5, 4, 1, 9], 11, [[5, 4], [0, 1], [2, 3]]),
        ([], 10, []),
        ([1], 1, [[0]]),
    ],
    ids=str,
)
def test_the_longest_first_and_each_into_the_first_row_with_room(expect, lengths, max_len, rows):
    """By hand. Every token of padding is computed like any other; a row that is too long does not fit the model. 8, 5,
    4, 1 into 10: the 1 goes into the first row, not into the fullest."""
    expect(pack, lengths, max_len).equals(rows)


@pytest.mark.kata("level14.packing.pack")
@pytest.mark.parametrize("n, most, max_len, seed", [(12, 10, 10, 0), (25, 6, 13, 1), (40, 30, 64, 2), (30, 3, 7, 3)])
def test_any_lengths(expect, n, most, max_len, seed):
    """With many that are equal: of those the one that came first goes first. Oracle: by looking for the longest."""
    lengths = lengths_of(n, most, seed)
    expect(pack, lengths, max_len).equals(first_fit_decreasing(lengths, max_len))


@pytest.mark.kata("level14.packing.pack")
def test_it_is_near_the_fewest_rows(expect):
    """At most 11/9 of the fewest and 6/9 of a row (Dósa, 2007). Oracle: all ways of packing 7 examples."""
    for seed in range(4):
        lengths = lengths_of(7, 9, 20 + seed)
        most = int(11 / 9 * fewest(lengths, 10) + 6 / 9)
        expect(pack, lengths, 10).holds(lambda rows, most=most: len(rows) <= most, f"at most {most} rows")


@pytest.mark.kata("level14.packing.pack")
def test_what_does_not_fit_is_refused(expect):
    """Cut to the row's length, an answer without its end teaches the model not to stop. Nothing is no example."""
    expect(pack, [2, 11], 11).equals([[1], [0]])
    expect(pack, [2, 12], 11).raises(ValueError)
    expect(pack, [2, 0], 11).raises(ValueError)


# ---- packed_layout


@pytest.mark.kata("level14.packing.packed_layout")
@pytest.mark.parametrize(
    "lengths, positions, segments",
    [
        ([2, 3], [0, 1, 0, 1, 2], [0, 0, 1, 1, 1]),
        ([3, 1, 2], [0, 1, 2, 0, 0, 1], [0, 0, 0, 1, 2, 2]),
        ([1], [0], [0]),
        ([1, 1, 4, 1], [0, 0, 0, 1, 2, 3, 0], [0, 1, 2, 2, 2, 2, 3]),
        ((2, 2), [0, 1, 0, 1], [0, 0, 1, 1]),
    ],
    ids=str,
)
def test_positions_start_again_and_examples_are_numbered(expect, lengths, positions, segments):
    """An example must get the angles that it would get alone: a server sees it alone."""
    expect(packed_layout, lengths).equals((T(positions), T(segments)))


# ---- packed_mask


@pytest.mark.kata("level14.packing.packed_layout")
@pytest.mark.parametrize(
    "segments, mask",
    [
        ([0, 0, 1], ["1..", "11.", "..1"]),
        ([0, 0, 1, 2, 2], ["1....", "11...", "..1..", "...1.", "...11"]),
        ([0, 1, 1, 1], ["1...", ".1..", ".11.", ".111"]),
        ([0, 0, 0], ["1..", "11.", "111"]),
        ([0], ["1"]),
    ],
    ids=str,
)
def test_a_token_sees_its_own_example_and_not_ahead(expect, segments, mask):
    """Blocks along the diagonal, each causal. One block too large, and examples read each other: what they learn then
    they never see again."""
    expect(packed_mask, T(segments)).equals(T([[cell == "1" for cell in row] for row in mask]))


def packed_logits(examples):
    ids, _, positions, mask = packed_row([(T(ids), torch.ones(len(ids), dtype=torch.bool)) for ids in examples])
    return forward(PARAMS, CONFIG, ids, positions=positions, mask=mask)[0]


@pytest.mark.kata("level14.packing.packed_layout")
def test_an_example_gets_the_logits_that_it_gets_alone(expect):
    """Layout and mask together, in a tiny model. Oracle: a forward pass for each; 1e-4 for another order of sums."""
    examples = [[5, 1, 12, 1, 7], [3], [3, 9, 4]]
    right = torch.cat([forward(PARAMS, CONFIG, T([ids]))[0] for ids in examples])
    expect(packed_logits, examples).equals(right, rel=1e-4, abs=1e-4)


def learned(examples):
    return packed_row([(T(ids), T(mask) == 1) for ids, mask in examples])[1]


@pytest.mark.kata("level14.packing.packed_layout")
def test_a_first_token_is_predicted_by_nothing(expect):
    """Before it stands the end of another example. packed_row is given: it goes by the positions."""
    expect(learned, [([4, 5], [1, 1]), ([6, 7, 8], [1, 0, 1])]).equals(T([[False, True, False, False, True]]))
