"""Sums of plain numbers."""


def total(numbers):
    """Return the sum of a list of numbers, 0 for none; the list stays as it is.

    ● · about 1 line
    """
    # solution:begin add them up
    return sum(numbers)
    # solution:end


def mean(numbers):
    """Return the arithmetic mean.

    ValueError: no numbers.

    ●● · about 1 line · needs level00.sums.total
    """
    if not numbers:
        raise ValueError("a mean needs at least one number")
    # solution:begin share the total
    return total(numbers) / len(numbers)
    # solution:end


def middle(numbers):
    """Return the index at which the second half starts: of an odd number of items, the first half has one more.

    ● · about 1 line · part of halves
    """
    # solution:begin where?
    return (len(numbers) + 1) // 2
    # solution:end


def halves(numbers):
    """Return the two halves as a tuple of lists.

    ●● · about 2 lines
    """
    # solution:begin cut at the middle
    at = middle(numbers)
    return numbers[:at], numbers[at:]
    # solution:end
