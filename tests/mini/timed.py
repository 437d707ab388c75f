import pytest


@pytest.mark.kata("level00.checkpoint")
def test_it_is_fast(roofline):
    roofline(lambda: None, lambda: None, need=0.5, flops=100, bytes=50, name="a sum")
