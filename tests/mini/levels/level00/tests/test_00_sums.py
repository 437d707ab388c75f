import pytest
from level00.sums import halves, mean, middle, total


@pytest.mark.kata("level00.sums.total")
@pytest.mark.parametrize("numbers, right", [([2, 3, 5], 10), ([], 0), ([7, 1], 8)])
def test_all_numbers_count(expect, numbers, right):
    expect(total, numbers).equals(right)


@pytest.mark.kata("level00.sums.mean")
@pytest.mark.parametrize("numbers, right", [([2, 3, 5, 6], 4.0), ([1, 2], 1.5), ([8], 8.0)])
def test_the_mean_is_between(expect, numbers, right):
    expect(mean, numbers).equals(right)


@pytest.mark.kata("level00.sums.mean")
def test_no_numbers_have_no_mean(expect):
    expect(mean, [9, 9]).equals(9.0)
    expect(mean, []).raises(ValueError)


@pytest.mark.kata("level00.sums.halves")
@pytest.mark.parametrize("numbers", [[1, 2, 3], [1, 2, 3, 4], []], ids=str)
def test_halves_make_the_whole(expect, numbers):
    at = -(-len(numbers) // 2)
    expect(middle, numbers).equals(at)
    expect(halves, numbers).equals((numbers[:at], numbers[at:]))
