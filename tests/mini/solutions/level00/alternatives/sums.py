# ruff: noqa: F821
alternative(
    "level00.sums.total",
    "loop",
    change=("    return sum(numbers)", "    found = 0\n    for x in numbers: found += x\n    return found"),
)
