import pytest
from level00.shelf import Shelf
from level00.sums import mean


@pytest.mark.kata("level00.checkpoint")
def test_all_together():
    shelf = Shelf()
    shelf.put(mean([1, 2]))
    assert shelf.take() == 1.5, "the mean of 1 and 2 came back as something else"
