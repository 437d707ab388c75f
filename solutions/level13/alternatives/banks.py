"""Right programs, written another way, for level13.banks. `alternative` is given when this is read."""


def _counted(addresses, n_banks=32, word_bytes=4):
    from collections import Counter

    if min(n_banks, word_bytes) < 1 or any(a < 0 for a in addresses):
        raise ValueError("below")
    banks = Counter(word % n_banks for word in {a // word_bytes for a in addresses})
    return banks.most_common(1)[0][1] if banks else 0


def _numpy(addresses, n_banks=32, word_bytes=4):
    import numpy as np

    if min(n_banks, word_bytes) < 1 or any(a < 0 for a in addresses):
        raise ValueError("below")
    words = np.unique(np.asarray(addresses, dtype=np.int64) // word_bytes)
    return int(np.bincount(words % n_banks, minlength=n_banks).max())


def _bit_by_bit(row, col, n=32):
    if n < 1 or bin(n).count("1") != 1 or row < 0 or not 0 <= col < n:
        raise ValueError("n, row or col")
    place, bit = 0, 1
    while bit < n:
        place += bit * (row // bit % 2 != col // bit % 2)
        bit *= 2
    return place


def _halves(row, col, n=32):
    """The row's highest bit swaps the halves, and each half is a smaller tile."""
    if n < 1 or bin(n).count("1") != 1 or row < 0 or not 0 <= col < n:
        raise ValueError("n, row or col")
    if n == 1:
        return 0
    half = n // 2
    swapped = (row // half) % 2 != (col >= half)
    return _halves(row, col % half, half) + half * swapped


alternative("level13.banks.bank_conflict_degree", "counted", program=_counted)
alternative("level13.banks.bank_conflict_degree", "numpy", program=_numpy)
alternative("level13.banks.swizzle", "bit_by_bit", program=_bit_by_bit)
alternative("level13.banks.swizzle", "halves", program=_halves)
alternative("level13.banks.swizzle", "masked", change=("col ^ (row % n)", "(col ^ row) & (n - 1)"))
