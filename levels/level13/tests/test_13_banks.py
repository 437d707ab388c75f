"""Judges banks.py by 32 queues that give a word in each cycle, and swizzle by what a swizzle is for."""

import random

import pytest

from level13.banks import bank_conflict_degree, column_addresses, swizzle


def lanes(stride, n=32):
    return [4 * stride * lane for lane in range(n)]


def cycles(addresses, n_banks, word_bytes):
    """Oracle: every bank has a queue; a cycle takes one word from each, and all lanes that want it are content."""
    waiting, cycle = list(addresses), 0
    while waiting:
        given = {}
        for address in waiting:
            given.setdefault(address // word_bytes % n_banks, address // word_bytes)
        waiting = [a for a in waiting if given[a // word_bytes % n_banks] != a // word_bytes]
        cycle += 1
    return cycle


@pytest.mark.kata("level13.banks.bank_conflict_degree")
@pytest.mark.parametrize(
    "addresses, right",
    [
        ([0, 4, 128, 256, 257], 3),  # the docstring's example
        (lanes(1), 1),
        (lanes(2), 2),
        (lanes(16), 16),
        (column_addresses(0, 32), 32),
        (column_addresses(5, 33), 1),  # one word of padding
        ([0] * 32, 1),  # one word for all
        ([0, 1, 2, 3], 1),  # four lanes, one word
        ([3, 4], 1),
        ([131, 2, 130, 1, 129, 0], 2),  # two words of bank 0, three lanes each
        ([0, 128, 4, 132, 8], 2),  # three banks, five words
        ([0, 0, 0, 4, 132], 2),  # most lanes want bank 0, most words are in bank 1
        ([384], 1),
        ([], 0),
    ],
)
def test_cycles_of_one_read(expect, addresses, right):
    """Attention kernels keep keys in shared memory; a tile that is read down its columns, unpadded, costs 32 times as
    much. Right values: words of the fullest bank, counted on paper."""
    expect(bank_conflict_degree, addresses).equals(right)


@pytest.mark.kata("level13.banks.bank_conflict_degree")
@pytest.mark.parametrize("seed, n_banks, word_bytes", [(0, 32, 8), (1, 8, 4), (2, 5, 4), (3, 16, 3), (4, 1, 4)])
def test_queues_of_other_banks(expect, seed, n_banks, word_bytes):
    """Oracle: queues, cycle by cycle. Other hardware has 16 banks, or words of 8 bytes."""
    draw = random.Random(seed)
    addresses = [draw.randrange(500) for _ in range(20)]
    addresses += addresses[:9]
    expect(bank_conflict_degree, addresses, n_banks, word_bytes).equals(cycles(addresses, n_banks, word_bytes))


@pytest.mark.kata("level13.banks.bank_conflict_degree")
def test_the_addresses_may_be_a_tuple_in_any_order(expect):
    """Lanes are not sorted by what they want; the answer is that of the same addresses in a row."""
    expect(bank_conflict_degree, (260, 4, 128, 0, 388, 132), 32, 4).equals(4)


# ---- swizzle


def stored(rows, n=32):
    """What a program makes of rows: a list of columns for each."""
    return lambda swizzle: [[swizzle(row, col, n) for col in range(n)] for row in rows]


@pytest.mark.kata("level13.banks.swizzle")
def test_four_rows_on_paper(expect):
    """The docstring's example: rows 0, 1 and 3 of four words."""
    expect.story(stored([0, 1, 3], 4), swizzle).equals([[0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0]])


@pytest.mark.kata("level13.banks.swizzle")
def test_a_column_is_read_without_conflicts(expect):
    """This is what it is for: 32 lanes that read a column want 32 banks, and no word was spent on padding. Oracle: the
    kata before, on the addresses in the tile."""

    def degrees(swizzle):
        return [bank_conflict_degree([4 * (32 * row + swizzle(row, col)) for row in range(32)]) for col in (0, 5, 31)]

    expect.story(degrees, swizzle).equals([1, 1, 1])


@pytest.mark.kata("level13.banks.swizzle")
@pytest.mark.parametrize("n, rows", [(8, range(8)), (4, range(4, 9)), (2, range(5)), (1, range(2)), (32, (7, 30))])
def test_each_row_keeps_its_words(expect, n, rows):
    """A word that leaves its row, or lies on another, overwrites a key that is still needed."""
    expect.story(stored(rows, n), swizzle).holds(
        lambda table: all(sorted(row) == list(range(n)) for row in table), "each row is stored in its own n words"
    )


@pytest.mark.kata("level13.banks.swizzle")
@pytest.mark.parametrize("n, first", [(8, 0), (8, 13), (4, 3)])
def test_n_rows_that_follow_one_another_spread_every_column(expect, n, first):
    """A tile may begin at any row of shared memory, and have more rows than banks."""
    expect.story(stored(range(first, first + n), n), swizzle).holds(
        lambda table: all(len(set(col)) == n for col in zip(*table)), "a column is stored at n different places"
    )


@pytest.mark.kata("level13.banks.swizzle")
@pytest.mark.parametrize("n, rows", [(8, range(19)), (2, range(7)), (64, (33, 63, 70))])
def test_column_zero_goes_round(expect, n, rows):
    """Column 0 of row r is stored at r mod n."""

    def first_words(swizzle):
        return [swizzle(row, 0, n) for row in rows]

    expect.story(first_words, swizzle).equals([row % n for row in rows])


@pytest.mark.kata("level13.banks.swizzle")
def test_every_nth_row_is_stored_as_it_is(expect):
    """Rows 0, 8 and 16 of 8 words."""
    expect.story(stored([0, 8, 16], 8), swizzle).equals([list(range(8))] * 3)


@pytest.mark.kata("level13.banks.swizzle")
def test_row_32_of_32_words_is_stored_as_it_is(expect):
    """A long sequence has more rows than there are banks: they go round."""
    expect(swizzle, 32, 21).equals(21)


@pytest.mark.kata("level13.banks.swizzle")
@pytest.mark.parametrize("n, rows", [(8, range(12)), (16, (5, 6, 11))])
def test_twice_leads_back(expect, n, rows):
    """Whoever reads uses the function of whoever wrote: nobody has to invert it."""

    def twice(swizzle):
        return [[swizzle(row, swizzle(row, col, n), n) for col in range(n)] for row in rows]

    expect.story(twice, swizzle).equals([list(range(n))] * len(rows))


@pytest.mark.kata("level13.banks.swizzle")
@pytest.mark.parametrize("n, rows", [(8, range(1, 8)), (16, (3, 9, 14))])
def test_aligned_neighbours_stay_together(expect, n, rows):
    """A lane that loads 16 bytes at once wants four words that lie side by side."""

    def together(table):
        for row in table:
            for size in (2, 4, 8):
                for start in range(0, n, size):
                    places = sorted(row[start : start + size])
                    if places[0] % size or places != list(range(places[0], places[0] + size)):
                        return f"columns {start} to {start + size - 1} are stored at {places}"
        return True

    expect.story(stored(rows, n), swizzle).holds(together, "2, 4, 8 neighbours stay together, at a multiple")
