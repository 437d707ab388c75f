"""Shared memory is 32 memories side by side: one cycle gives one word of each, so it matters which words are wanted."""

from collections import defaultdict
from collections.abc import Sequence


def bank_conflict_degree(addresses: Sequence[int], n_banks: int = 32, word_bytes: int = 4) -> int:
    """Return how many cycles one read of a warp takes, in which each lane wants the word that holds its address.

    addresses  in bytes, of the lanes that take part; in any order, maybe the same or in the same word

    Words of word_bytes go round the banks: word 0 is in bank 0, word 1 in bank 1, word n_banks in bank 0 again. In a
    cycle each bank gives one word, to all lanes that want that word. Without addresses: 0.
    Example: addresses 0, 4, 128, 256 and 257: bank 0 has three different words to give -> 3.
    ValueError: an address below 0, n_banks or word_bytes below 1.

    ●● · about 4 lines
    """
    if min(n_banks, word_bytes) < 1 or min(addresses, default=0) < 0:
        raise ValueError("addresses are 0 or more, and there is at least 1 bank, with words of at least 1 byte")
    # TODO: what does each bank have to give, and which of them is done last?
    raise NotImplementedError("level13.banks.bank_conflict_degree")


def column_addresses(col: int, row_words: int, rows: int = 32, word_bytes: int = 4) -> list[int]:
    """Addresses of column col of a tile whose rows lie row_words words apart: what a warp that reads it asks for."""
    return [(row * row_words + col) * word_bytes for row in range(rows)]


def swizzle(row: int, col: int, n: int = 32) -> int:
    """Return the column at which element (row, col) of a tile with rows of n words is stored, so that rows *and*
    columns can be read without conflicts from n banks, and no word is wasted. n is a power of 2.

    Each row is stored in its own n words, in another order:
    column 0 of row r is stored at r mod n, and row 0, as every n-th row, as it is;
    in any n rows that follow one another a column is stored at n different places;
    swizzling twice leads back: swizzle(row, swizzle(row, col)) = col;
    2, 4, 8 ... neighbours from a multiple of their number on stay together, at a multiple of it, in some order: four
    words can still be read at once.
    Example: n = 4: columns 0 1 2 3 of row 1 are stored at 1 0 3 2, those of row 3 at 3 2 1 0.
    ValueError: n is no power of 2, row below 0, col outside 0..n - 1.

    ● · about 1 line · needs level13.banks.bank_conflict_degree
    """
    if n < 1 or n & (n - 1):
        raise ValueError(f"n is a power of 2, not {n}")
    if row < 0 or not 0 <= col < n:
        raise ValueError(f"a row from 0 on and a column in 0..{n - 1}, not {row} and {col}")
    # TODO: which operation on the bits of two numbers undoes itself?
    raise NotImplementedError("level13.banks.swizzle")
