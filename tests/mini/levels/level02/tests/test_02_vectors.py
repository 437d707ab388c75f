import pytest
import torch
from level02.vectors import counted, scaled, share, summed, widened

X = torch.tensor([1.0, 2.0, 5.0])


@pytest.mark.kata("level02.vectors.scaled")
def test_each_number_is_scaled(expect):
    expect(scaled, X, 2).equals(torch.tensor([2.0, 4.0, 10.0]))


@pytest.mark.kata("level02.vectors.summed")
def test_rows_are_summed(expect):
    expect(summed, torch.ones(2, 3)).equals(torch.tensor([3.0, 3.0]))


@pytest.mark.kata("level02.vectors.widened")
def test_float64(expect):
    expect(widened, X).equals(X.double())


@pytest.mark.kata("level02.vectors.share")
def test_shares(expect):
    expect(share, X).equals(torch.tensor([0.125, 0.25, 0.625]))


@pytest.mark.kata("level02.vectors.counted")
def test_a_long_count(expect):
    expect(counted, torch.arange(50.0)).equals(torch.arange(50.0) * 2 + 1)


@pytest.mark.kata("level02.checkpoint")
def test_all():
    assert scaled(torch.ones(1), 3).item() == 3
