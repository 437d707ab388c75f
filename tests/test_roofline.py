"""dojo.roofline: the verdict on a clock that the tests turn by hand, and the reference kernels on the real one."""

import time

import pytest
import torch

from dojo import roofline
from dojo.cost import count
from dojo.roofline import Gemm, Gemv, Machine, Row, Sweep, judge, one_thread


class Hand:
    """A clock that stands still but for what the programs below add to it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def program(self, *seconds: float):
        """A callable that takes these seconds, one after the other and over again; the first call is the warm-up's."""
        turns = iter(())

        def call():
            nonlocal turns
            duration = next(turns, None)
            if duration is None:
                turns = iter(seconds)
                duration = next(turns)
            self.now += duration

        return call


@pytest.fixture
def hand(monkeypatch):
    clock = Hand()
    monkeypatch.setattr(roofline, "CLOCK", clock)
    monkeypatch.setattr(roofline, "CAN_JUDGE", True)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    return clock


def test_a_program_that_reaches_the_need_passes_at_the_first_attempt(hand):
    verdict = judge(hand.program(2.0), hand.program(1.5), need=0.7)
    assert (verdict.state, verdict.attempts, verdict.fraction) == ("pass", 1, 0.75)
    assert (verdict.target_seconds, verdict.reference_seconds) == (2.0, 1.5)


def test_a_slow_program_fails_after_all_attempts(hand):
    verdict = judge(hand.program(4.0), hand.program(1.0), need=0.5)
    assert (verdict.state, verdict.attempts, verdict.log) == ("fail", 3, ((0.25, 1.0),) * 3)
    assert str(verdict) == "fail: 25% of the reference's speed, 50% needed (best of 3 attempts)"


def test_minima_are_compared_and_not_single_pairs(hand):
    """The best pair would reward a disturbed reference: here 9 / 4 in one round, though 1 / 4 is the truth."""
    verdict = judge(hand.program(4.0), hand.program(1.0, 1.0, 9.0), need=0.5)
    assert verdict.state == "fail" and verdict.fraction == 0.25


def test_a_disturbed_first_attempt_is_forgiven(hand):
    disturbed, calm = [8.0] * 6, [2.0] * 5
    verdict = judge(hand.program(*disturbed, *calm), hand.program(1.5), need=0.7)
    assert (verdict.state, verdict.attempts) == ("pass", 2)
    assert [fraction for fraction, _ in verdict.log] == [1.5 / 8, 0.75]


def test_an_unsteady_reference_makes_a_miss_inconclusive(hand):
    verdict = judge(hand.program(4.0), hand.program(1.0, 3.0, 3.0), need=0.5)
    assert verdict.state == "inconclusive" and all(unsteady > 1.5 for _, unsteady in verdict.log)
    assert "calmer machine" in str(verdict)


def test_an_unsteady_reference_does_not_take_a_pass_away(hand):
    assert judge(hand.program(1.0), hand.program(1.0, 3.0, 3.0), need=0.5).state == "pass"


def test_one_steady_attempt_is_enough_to_fail(hand):
    reference = hand.program(*[1.0] * 6, *[1.0, 3.0, 3.0, 3.0, 3.0] * 2)
    assert judge(hand.program(4.0), reference, need=0.5).state == "fail"


def test_the_observer_sees_every_round_but_the_warm_up(hand):
    seen = []
    judge(hand.program(4.0), hand.program(1.0), need=0.5, rounds=2, attempts=3, observe=seen.append)
    assert seen == [4.0] * 6


def test_where_the_clock_is_coarse_nothing_is_judged(monkeypatch):
    monkeypatch.setattr(roofline, "CAN_JUDGE", False)
    verdict = judge(lambda: 1 / 0, lambda: 1 / 0, need=0.5)
    assert verdict.state == "inconclusive" and "only the counts judge" in str(verdict)


def test_a_program_that_raises_is_not_a_verdict(hand):
    with pytest.raises(ZeroDivisionError):
        judge(lambda: 1 / 0, hand.program(1.0), need=0.5)


def test_one_thread_is_set_back():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == before


@pytest.mark.skipif(roofline._openblas() is None, reason="numpy has another BLAS here")
def test_one_thread_reaches_numpy():
    """torch.set_num_threads does not: numpy multiplies with a library of its own."""
    library = roofline._openblas()
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(2)
    try:
        with one_thread():
            assert library.scipy_openblas_get_num_threads64_() == 1
        assert library.scipy_openblas_get_num_threads64_() == 2
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@pytest.mark.parametrize("tokens", [1, 5])
def test_a_sweep_reads_every_weight_once(tokens):
    weights = [torch.rand(64, 32), torch.rand(16, 64), torch.rand(64, 32).bfloat16()]
    sweep = Sweep(weights, tokens=tokens)
    cost = count(sweep)
    assert sweep.bytes == 4 * (2048 + 1024) + 2 * 2048
    assert sweep.flops == cost.flops == 2 * tokens * 5120
    assert cost.peak_bytes == 0  # its buffers are made once
    vectors = tokens * (4 * (32 + 64) + 2 * 32)
    assert cost.bytes_read == sweep.bytes + vectors


@pytest.mark.parametrize("probe", [lambda: Gemv(128, 256), lambda: Gemm(64)], ids=["gemv", "gemm"])
def test_the_probes_do_the_work_that_they_state(probe):
    work = probe()
    cost = count(work)
    assert cost.flops == work.flops and work.bytes <= cost.bytes < 1.1 * work.bytes


@pytest.mark.skipif(not roofline.CAN_JUDGE, reason="CPU time is too coarse here")
def test_twice_the_work_fails_and_the_work_itself_passes():
    """On the real clock, with a kernel of about a millisecond: 1 against 0.5, need 0.7."""
    sweep = Sweep([torch.rand(1024, 1024) for _ in range(4)])
    assert judge(sweep, sweep, need=0.7).state == "pass"
    assert judge(lambda: (sweep(), sweep()), sweep, need=0.7).state == "fail"


@pytest.fixture
def known_machine(monkeypatch):
    monkeypatch.setattr(roofline, "machine", lambda: Machine(20e9, 100e9))  # ridge: 5 FLOP/byte


def test_a_row_knows_which_roof_binds(known_machine):
    decode = Row("decode", flops=2e9, bytes=4e9, seconds=0.25)
    assert (decode.intensity, decode.bound, decode.percent) == (0.5, "memory", pytest.approx(80))
    prefill = Row("prefill", flops=100e9, bytes=5e9, seconds=2)
    assert (prefill.intensity, prefill.bound, prefill.percent) == (20, "compute", pytest.approx(50))


def test_unsteadiness_is_the_median_over_the_best_round(monkeypatch):
    ticks = iter([0, 1, 0, 4, 0, 2, 0, 3, 0, 2])
    monkeypatch.setattr(roofline, "CLOCK", lambda: next(ticks))
    assert roofline.unsteadiness(lambda: None, rounds=5) == 2.0


def test_the_probe_finds_a_plausible_machine():
    found = roofline.machine()
    assert found is roofline.machine()
    assert 0.5e9 < found.bytes_per_second < 2e12 and found.flops_per_second > found.bytes_per_second / 4
