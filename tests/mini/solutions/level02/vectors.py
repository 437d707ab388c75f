"""With torch: five katas, so that one run can show five ways to be wrong."""


def scaled(x, factor):
    """Return x times a factor.

    ● · about 1 line
    """
    # solution:begin scale it
    return x * factor
    # solution:end


def summed(x):
    """Return the sums of the rows, (rows,).

    ● · about 1 line
    """
    # solution:begin sum the last axis
    return x.sum(-1)
    # solution:end


def widened(x):
    """Return x in float64.

    ● · about 1 line
    """
    # solution:begin widen it
    return x.double()
    # solution:end


def share(x):
    """Return x divided by its sum.

    ● · about 1 line
    """
    # solution:begin divide
    return x / x.sum()
    # solution:end


def counted(x):
    """Return x plus 1, 2, 3 and so on.

    ● · about 1 line
    """
    # solution:begin count
    return x + 1 + x.argsort().argsort()
    # solution:end
