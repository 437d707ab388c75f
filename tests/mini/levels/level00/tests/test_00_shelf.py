import pytest
from level00.shelf import Shelf


def three_things(cls):
    shelf = cls()
    for thing in "abc":
        shelf.put(thing)
    return [shelf.take() for _ in range(3)]


@pytest.mark.kata("level00.shelf.Shelf")
def test_last_in_first_out(expect):
    expect.story(three_things, Shelf).equals(["c", "b", "a"])
