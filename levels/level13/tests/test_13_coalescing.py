"""Judges coalescing.py by a map of memory, a byte each: which bytes do lanes want, and in which sectors are they?"""

import random

import pytest

from level13.coalescing import load_efficiency, sectors

IN_A_ROW = [4 * lane for lane in range(32)]
STRIDED = [128 * lane for lane in range(32)]


def drawn(seed):
    """Some lanes anywhere, in any order, at least two of them at one address."""
    draw = random.Random(seed)
    addresses = [draw.randrange(300) for _ in range(draw.randrange(1, 9))]
    return [*addresses, addresses[0]]


def touched(addresses, bytes_per_lane, sector_bytes):
    """Oracle: (wanted bytes, moved sectors), byte by byte."""
    wanted = [any(a <= byte < a + bytes_per_lane for a in addresses) for byte in range(600)]
    return sum(wanted), sum(any(wanted[s : s + sector_bytes]) for s in range(0, 600, sector_bytes))


@pytest.mark.kata("level13.coalescing.sectors")
@pytest.mark.parametrize(
    "addresses, bytes_per_lane, right",
    [
        ([0, 4, 40, 62], 4, 3),  # the docstring's example
        (IN_A_ROW, 4, 4),
        ([a + 4 for a in IN_A_ROW], 4, 5),  # not aligned
        (STRIDED, 4, 32),
        ([0] * 32, 4, 1),
        ([30], 4, 2),  # across a border
        ([28], 4, 1),  # up to it
        ([0], 100, 4),  # sectors in the middle of one lane
        ([0, 8], 64, 3),  # wide lanes, most of which is the same
        (IN_A_ROW[::-1], 4, 4),
        ([32 * i + 28 for i in range(4)], 8, 5),  # the end of one lane is in the sector of the next
        ([], 4, 0),
    ],
)
def test_sectors_that_are_moved(expect, addresses, bytes_per_lane, right):
    """A row of the KV cache that begins 4 bytes late costs a quarter more; one that lies across the rows, eight times.
    Right values: counted on paper."""
    expect(sectors, addresses, bytes_per_lane).equals(right)


@pytest.mark.kata("level13.coalescing.sectors")
@pytest.mark.parametrize("seed, bytes_per_lane, sector_bytes", [(0, 1, 32), (1, 4, 8), (2, 16, 12), (3, 33, 32)])
def test_every_byte_on_a_map(expect, seed, bytes_per_lane, sector_bytes):
    """Oracle: a map of memory. Sectors of other sizes are those of other hardware."""
    addresses = drawn(seed)
    right = touched(addresses, bytes_per_lane, sector_bytes)[1]
    expect(sectors, addresses, bytes_per_lane, sector_bytes).equals(right)


@pytest.mark.kata("level13.coalescing.sectors")
@pytest.mark.parametrize(
    "addresses, bytes_per_lane, right",
    [
        ([0, 4, 40, 62], 4, 16 / 96),  # the docstring's example
        (IN_A_ROW, 4, 1.0),
        ([8 * lane for lane in range(32)], 4, 0.5),
        (STRIDED, 4, 0.125),
        ([0] * 32, 4, 0.125),  # 4 bytes of 32, whoever else wants them
        ([0, 2, 6], 4, 0.3125),  # 10 bytes: they overlap, and begin anywhere
        ([30], 4, 0.0625),  # 4 of 64
        ([0], 100, 100 / 128),
        ([0], 32, 1.0),
        ([5], 1, 0.03125),
    ],
)
def test_share_of_the_moved_bytes(expect, addresses, bytes_per_lane, right):
    """1 - this is the part of the memory's bandwidth that is paid for nothing. It never exceeds 1."""
    expect(load_efficiency, addresses, bytes_per_lane).equals(right, rel=1e-9, abs=0)


@pytest.mark.kata("level13.coalescing.sectors")
@pytest.mark.parametrize("seed, bytes_per_lane, sector_bytes", [(4, 3, 8), (5, 16, 20), (6, 40, 32)])
def test_share_on_a_map(expect, seed, bytes_per_lane, sector_bytes):
    """Oracle: the same map; sectors of other sizes."""
    addresses = drawn(seed)
    wanted, moved = touched(addresses, bytes_per_lane, sector_bytes)
    right = wanted / (moved * sector_bytes)
    expect(load_efficiency, addresses, bytes_per_lane, sector_bytes).equals(right, rel=1e-9, abs=0)
