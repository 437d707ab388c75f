import pytest


@pytest.mark.kata("level00.worksheet.seconds")
def test_seconds(answer):
    answer("seconds").equals(3600)


@pytest.mark.kata("level00.worksheet.kib")
def test_kib(answer):
    answer("kib").equals(2**10)
