# ruff: noqa: F821
ghost(
    "level00.sums.total",
    "first_only",
    "You return the first number: add all of them.",
    change=("sum(numbers)", "sum(numbers[:1])"),
)
ghost(
    "level00.sums.total",
    "sorts",
    "You sort the caller's list.",
    change=("    return sum(numbers)", "    numbers.sort()\n    return sum(numbers)"),
)
ghost("level00.sums.mean", "whole", "You divide whole numbers: the fraction is lost.", change=(") / len", ") // len"))
ghost(
    "level00.sums.mean",
    "off_by_one",
    "You divide by one too few.",
    change=("len(numbers)\n", "max(1, len(numbers) - 1)\n"),
)
ghost(
    "level00.sums.halves",
    "extra_goes_right",
    "Of an odd number the first half has one more here; you gave it to the second.",
    part="middle",
    program=lambda numbers: len(numbers) // 2,
    convention=True,
)
ghost("level00.sums.halves", "drops", "The item in the middle is lost.", change=("numbers[at:]", "numbers[at + 1:]"))
ghost(
    "level00.sums.halves",
    "swapped",
    "The first half comes first.",
    change=("numbers[:at], numbers[at:]", "numbers[at:], numbers[:at]"),
)
ghost("level00.shelf.Shelf", "queue", "You take what was put first: that is a queue.", change=("pop()", "pop(0)"))
slip("level00.worksheet.seconds", "minutes", "60: those are minutes; an hour has 60 of them, each of 60 seconds.", 60)
