import pytest
from level01.later import doubled


@pytest.mark.kata("level01.later.doubled")
def test_twice(expect):
    expect(doubled, [1, 2]).equals(6)


@pytest.mark.kata("level01.checkpoint")
def test_all():
    assert doubled([2]) == 4
