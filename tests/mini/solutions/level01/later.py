"""What uses the level before."""

from level00.sums import total


def doubled(numbers):
    """Return twice the sum.

    ● · about 1 line · needs level00.sums.total
    """
    # solution:begin twice
    return 2 * total(numbers)
    # solution:end
