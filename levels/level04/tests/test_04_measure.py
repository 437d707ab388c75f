"""Judges measure.py by clocks that show what the test says, and by counting FLOPs, bytes and operators.

No test asks for seconds of this machine: a clock from a list makes every right program give the same number.
"""

import math
from itertools import count

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from dojo import cost
from level04.measure import best_time, gemm_flops, probe_bytes, read_bandwidth

MIB = 2**20
NOT_READ = "the clock that was passed has not been read"


class Clock:
    """Shows these seconds, one at each reading; beyond the last an hour passes from reading to reading."""

    def __init__(self, *readings):
        self.readings, self.read = [float(r) for r in readings], 0

    def __call__(self):
        self.read += 1
        beyond = max(0, self.read - len(self.readings))
        return self.readings[min(self.read, len(self.readings)) - 1] + 3600.0 * beyond

    def __repr__(self):
        return f"Clock({', '.join(f'{r:g}' for r in self.readings)})"


def lasting(*seconds):
    """A clock for rounds that take so long, with breaks between them that belong to none."""
    readings, now = [], 100.0
    for one in seconds:
        readings += [now, now + one]
        now += one + 50.0
    return Clock(*readings)


def by_clock(probe, what, clock, **chosen):
    """What `probe` finds, if the clock is read at all."""
    found = probe(what, clock=clock, **chosen)
    return found if clock.read else NOT_READ


def add_up():
    return sum(range(10_000))


def work():
    """What is timed; it takes no argument, and what it returns is of no interest."""
    return -1.0


# ---- best_time


@pytest.mark.kata("level04.measure.best_time")
@pytest.mark.parametrize(
    "readings, right",
    [
        ((0, 9, 10, 13, 20, 22), 2.0),
        ((0, 9, 10, 13, 20, 22, 30, 35), 2.0),
        ((5, 6, 10, 14, 20, 29), 1.0),
        ((0, 4, 10, 13, 20, 21), 1.0),
        ((7, 10), 3.0),
        ((0, 2, 2, 4, 4, 6, 6, 8, 8, 10), 2.0),
        ((-3, -1, 0, 3), 2.0),
        ((1, 1, 2, 5), 0.0),
    ],
    ids=["the docstring's", "four", "the first", "the last", "a single one", "all alike", "before zero", "too short"],
)
def test_the_fastest_round_counts(expect, readings, right):
    """Interrupts, other processes and a hot chip only ever add time; a mean or a median measures them as well. What
    passes between two rounds belongs to none."""
    rounds = len(readings) // 2
    expect(by_clock, best_time, work, Clock(*readings), rounds=rounds, warmup=0).equals(right, rel=1e-9, abs=1e-12)
    expect(by_clock, best_time, work, Clock(*readings), rounds=rounds, warmup=2).equals(right, rel=1e-9, abs=1e-12)


@pytest.mark.kata("level04.measure.best_time")
def test_short_times_on_a_clock_that_has_run_for_long(expect):
    """A clock may count from 1970, and a kernel take microseconds: no digit may get lost."""
    start, tick = float(2**30), 2.0**-22
    readings = (start, start + 9 * tick, start + 20 * tick, start + 23 * tick, start + 30 * tick, start + 35 * tick)
    expect(by_clock, best_time, work, Clock(*readings), rounds=3).equals(3 * tick, rel=1e-9, abs=1e-12)


def order_of(**chosen):
    """What `best_time` does, in its order."""
    happened = []

    def function():
        happened.append("call")

    def clock():
        happened.append("clock")
        return float(len(happened))

    best_time(function, clock=clock, **chosen)
    return " ".join(happened).replace("clock call clock", "timed")


@pytest.mark.kata("level04.measure.best_time")
@pytest.mark.parametrize("rounds, warmup", [(1, 0), (1, 1), (3, 2), (2, 0), (4, 1)], ids=str)
def test_warm_up_comes_first_and_the_clock_is_read_around_each_call_alone(expect, rounds, warmup):
    """The first call loads code, allocates and fills caches: it is made, and not timed. A clock that is read at any
    other time adds its own cost, or what lies between the rounds. "timed" means clock, call, clock."""
    right = " ".join(["call"] * warmup + ["timed"] * rounds)
    expect(order_of, rounds=rounds, warmup=warmup).equals(right)


@pytest.mark.kata("level04.measure.best_time")
def test_one_warm_up_and_five_rounds_unless_told_otherwise(expect):
    """Enough for a minimum that is steady, on a machine that is not too busy."""
    expect(order_of).equals("call timed timed timed timed timed")
    expect(order_of, rounds=2).equals("call timed timed")
    expect(order_of, warmup=0).equals("timed timed timed timed timed")


def is_a_number_of_this_machine(probe, what):
    """Whatever it is, it is positive and finite."""
    return 0 < probe(what, 2) < math.inf


@pytest.mark.kata("level04.measure.best_time")
def test_without_a_clock_of_ones_own_the_machine_s_is_read(expect):
    """The default clock runs by itself: to add up ten thousand numbers takes some time."""
    expect(is_a_number_of_this_machine, best_time, add_up).equals(True)


@pytest.mark.kata("level04.measure.best_time")
@pytest.mark.parametrize("rounds", [0, -1])
def test_no_round_is_refused(expect, rounds):
    """The minimum of nothing would be infinity, and a bandwidth of 0 come of it."""
    expect(by_clock, best_time, work, Clock(0, 2), rounds=1, warmup=1).equals(2.0)
    expect(best_time, work, rounds=rounds, warmup=1, clock=Clock(0, 2)).raises(ValueError)


@pytest.mark.kata("level04.measure.best_time")
def test_a_negative_warm_up_is_refused(expect):
    """Python's range would take it for none without a word."""
    expect(by_clock, best_time, work, Clock(0, 2), rounds=1, warmup=0).equals(2.0)
    expect(best_time, work, rounds=1, warmup=-1, clock=Clock(0, 2)).raises(ValueError)


# ---- probe_bytes, a part of read_bandwidth


def enough(cache):
    """Oracle: from 64 MiB on, row by row, until it is four times the cache."""
    return next(size for size in count(64 * MIB, 4096) if size >= cache + cache + cache + cache)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "cache, right",
    [
        (32 * MIB, 134_217_728),
        (260 * MIB, 1_090_519_040),
        (1152 * MIB, 4_831_838_208),
        (MIB, 67_108_864),
        (None, 268_435_456),
    ],
    ids=["a desktop", "a server", "a large server", "a small core", "not known"],
)
def test_a_probe_is_too_large_for_the_cache(expect, cache, right):
    """4 · 32 MiB, 4 · 260 MiB, at least 64 MiB, and 256 MiB for any machine. A probe of the cache's own size measures
    the cache: here one of 1 MB ran 3 times as fast as one of 256 MB."""
    expect(probe_bytes, cache).equals(right)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "cache",
    [1, 4096, 16 * MIB - 1, 16 * MIB, 16 * MIB + 1, 16 * MIB + 1000, 16 * MIB + 1024, 33_554_433, 99_999_999],
    ids=str,
)
def test_a_probe_has_whole_rows_and_never_less_than_four_caches(expect, cache):
    """A cache of 33,554,433 bytes: rounding down would give one byte too few. Oracle: row by row."""
    expect(probe_bytes, cache).equals(enough(cache))


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize("cache", [0, -1])
def test_a_cache_of_no_bytes_is_refused(expect, cache):
    """0 is what a failed look-up often gives; None is how to say that the size is not known."""
    expect(probe_bytes, 1).equals(64 * MIB)
    expect(probe_bytes, cache).raises(ValueError)


# ---- read_bandwidth


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "n_bytes, seconds, right",
    [(MIB, 2.0, 524_288.0), (4 * MIB, 1.0, 4_194_304.0), (MIB, 0.5, 2_097_152.0), (4096, 1.0, 4096.0)],
    ids=str,
)
def test_bandwidth_is_the_bytes_of_the_matrix_over_the_time(expect, n_bytes, seconds, right):
    """Bytes, four to a float32, and each is read once: neither numbers nor bits, and nothing is written back."""
    expect(by_clock, read_bandwidth, n_bytes, lasting(*[seconds] * 3), rounds=3).equals(right, rel=1e-9)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "n_bytes, right",
    [(4097, 4096.0), (5000, 4096.0), (8191, 4096.0), (8192, 8192.0), (12_300, 12_288.0), (MIB - 1, MIB - 4096.0)],
    ids=str,
)
def test_only_what_is_read_is_counted(expect, n_bytes, right):
    """Of 5000 bytes 4096 are a row of 1024 numbers; the rest is not in the matrix, so nobody has read it."""
    expect(by_clock, read_bandwidth, n_bytes, lasting(1.0), rounds=1).equals(right, rel=1e-9)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "seconds, best", [((1, 2), 1), ((4, 2, 8), 2), ((4, 8, 1), 1), ((3, 3, 3, 3), 3), ((7,), 7)], ids=str
)
def test_bandwidth_is_that_of_the_best_round(expect, seconds, best):
    """The machine can do what it has done once; the other rounds were disturbed."""
    expect(by_clock, read_bandwidth, MIB, lasting(*seconds), rounds=len(seconds)).equals(MIB / best, rel=1e-9)


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_a_probe_takes_five_rounds_unless_told_otherwise(expect):
    """The fifth is the best here; a sixth would be better still."""
    expect(by_clock, read_bandwidth, MIB, lasting(8, 8, 8, 8, 4, 1)).equals(MIB / 4, rel=1e-9)
    expect(by_clock, gemm_flops, 64, lasting(8, 8, 8, 8, 4, 1)).equals(131_072.0, rel=1e-9)


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_probes_read_the_machine_s_clock_unless_told_otherwise(expect):
    """No clock is given: what comes out is a number of this machine."""
    expect(is_a_number_of_this_machine, read_bandwidth, 4 * MIB).equals(True)
    expect(is_a_number_of_this_machine, gemm_flops, 128).equals(True)


def flops_by_the_clock(probe, size, rounds):
    """FLOPs of a probe before the first reading of its clock, in each pair of readings, and outside of them."""
    readings = []
    in_place = {
        cost.aten.addmv_: lambda y, w, x, **_: 2 * math.prod(w),
        cost.aten.addmm_: lambda y, w, x, **_: 2 * math.prod(w) * x[1],
    }
    with FlopCounterMode(display=False, custom_mapping=cost.FLOPS | in_place) as flops:

        def clock():
            readings.append(flops.get_total_flops())
            return float(len(readings))

        probe(size, rounds=rounds, clock=clock)
        end = flops.get_total_flops()
    if not readings:
        return NOT_READ
    timed = [after - before for before, after in zip(readings[::2], readings[1::2])]
    return {"warm-up": readings[0], "timed": timed, "elsewhere": end - readings[0] - sum(timed)}


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize("n_bytes, rounds", [(MIB, 3), (40_000, 1)], ids=str)
def test_each_round_multiplies_the_whole_matrix_by_a_vector(expect, n_bytes, rounds):
    """What decode does with weights: two FLOPs for each number, in the warm-up and in every round between the two
    readings of the clock, and nowhere else. A probe that finds its result ready measures nothing."""
    flops = 2 * 1024 * (n_bytes // 4096)
    right = {"warm-up": flops, "timed": [flops] * rounds, "elsewhere": 0}
    expect(flops_by_the_clock, read_bandwidth, n_bytes, rounds).equals(right)


def per_round(probe, size):
    """What one more round costs: the difference between five rounds and three."""
    five, three = (cost.count(probe, size, rounds=rounds, clock=lasting(*[1.0] * rounds)) for rounds in (5, 3))
    return {
        "bytes read": (five.bytes_read - three.bytes_read) // 2,
        "bytes written": (five.bytes_written - three.bytes_written) // 2,
        "operators": (five.calls.total() - three.calls.total()) // 2,
    }


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_each_round_reads_the_whole_matrix_once_and_writes_next_to_nothing(expect):
    """A MiB each round, beside it a vector of 4 KiB; 256 sums are written. One row that stands for all of them is read
    from the cache; a matrix that is made or copied in each round, or a product that is kept, is written as well."""

    def once(seen):
        if not MIB <= seen["bytes read"] <= 1.1 * MIB:
            return f"of a matrix of {MIB:,} bytes each round reads {seen['bytes read']:,}"
        if seen["bytes written"] > 0.1 * MIB:
            return f"each round writes {seen['bytes written']:,} bytes, where 256 sums are {4 * 256:,}"
        return seen["operators"] < 32 or f"each round takes {seen['operators']} operators, where one product will do"

    expect(per_round, read_bandwidth, MIB).holds(once, "read a matrix of 1 MiB once a round, and write hardly anything")


class Memory(TorchDispatchMode):
    """Watches what operators read while the clock runs: where it lies, and how many numbers nobody has written.

    Fresh memory is filled with NaN to recognise it; what was made elsewhere, in numpy say, is unwritten if all zeros.
    """

    def __init__(self):
        super().__init__()
        self.written, self.timed, self.places, self.made_up = set(), False, set(), 0

    def clock(self):
        self.timed = not self.timed
        return float(self.timed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        values = zip(func._schema.arguments, [*args, *[None] * 99])
        values = [(a.alias_info and a.alias_info.is_write, (kwargs or {}).get(a.name, v)) for a, v in values]
        sources, targets = (tensors([v for written, v in values if bool(written) == is_target]) for is_target in (0, 1))
        if self.timed and not func.is_view:  # which reads nothing
            self.places |= set(map(place, sources))
            self.made_up = max([self.made_up, *map(self.unwritten, sources)])
        out = func(*args, **(kwargs or {}))
        known = storages(sources + targets)
        fresh = [x for x in tensors(out) if not storages([x]) <= known]
        if func._schema.name.startswith(("aten::empty", "aten::new_empty")):
            for x in fresh:
                x.fill_(math.nan)
        else:
            self.written |= storages(fresh + targets)
        return out

    def unwritten(self, x):
        """Of an expanded tensor only the numbers that memory holds have been written. A vector may be anything."""
        if x.numel() <= 1024:
            return 0
        real = math.prod(n for n, step in zip(x.shape, x.stride()) if step or n == 1)
        elsewhere = not storages([x]) <= self.written and not x.any()
        return x.numel() if elsewhere else x.numel() - real + x.isnan().sum().item()

    def different_bytes(self):
        total, until = 0, 0
        for start, end in sorted(self.places):
            total, until = total + max(0, end - max(start, until)), max(end, until)
        return total


def tensors(tree):
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def storages(xs):
    return {x.untyped_storage().data_ptr() for x in xs}


def place(x):
    """From the first byte to beyond the last."""
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def watched(probe, size):
    with Memory() as memory:
        probe(size, rounds=2, clock=memory.clock)
    return memory


def different_bytes_read(probe, size):
    """As many as the matrix has, if they are no fewer: vector and sums are not of interest."""
    return min(size, watched(probe, size).different_bytes())


def numbers_read_but_never_written(probe, size):
    return watched(probe, size).made_up


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_no_part_of_the_matrix_is_read_in_place_of_another(expect):
    """A quarter of it that is multiplied four times comes from the cache three times."""
    expect(different_bytes_read, read_bandwidth, 4 * MIB).equals(4 * MIB)


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_the_matrix_has_been_written_before_it_is_read(expect):
    """Memory that was never written is a promise: all of its pages are one page of zeros, which the cache holds. Here a
    matrix that was only allocated read at 145 GB/s, a written one at 15."""
    expect(numbers_read_but_never_written, read_bandwidth, 40 * MIB).equals(0)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize("n_bytes", [4095, 100, 0, -4096])
def test_less_than_a_row_is_refused(expect, n_bytes):
    """100 for 100 MB would be a matrix of no rows, read in no time."""
    expect(by_clock, read_bandwidth, 4096, lasting(1.0), rounds=1).equals(4096.0)
    expect(read_bandwidth, n_bytes, rounds=1, clock=lasting(1.0)).raises(ValueError)


# ---- gemm_flops, a part of read_bandwidth


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize(
    "n, seconds, right",
    [
        (64, (1,), 524_288.0),
        (128, (2, 2), 2_097_152.0),
        (64, (3, 1), 524_288.0),
        (64, (2, 1, 4), 524_288.0),
        (10, (4, 8), 500.0),
        (10, (3,), 2000 / 3),
        (1, (1,), 2.0),
    ],
    ids=str,
)
def test_a_product_of_matrices_takes_two_flops_per_multiply_add(expect, n, seconds, right):
    """2 n^3: each of n^2 results is a sum of n products. A rate from n^3 is half of what the data sheet counts, and
    every MFU that is measured against it is twice too good."""
    expect(by_clock, gemm_flops, n, lasting(*seconds), rounds=len(seconds)).equals(right, rel=1e-9)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize("n, rounds", [(64, 3), (30, 1)], ids=str)
def test_each_round_multiplies_two_matrices(expect, n, rounds):
    """Once as warm-up, then in every round between the two readings of the clock."""
    right = {"warm-up": 2 * n**3, "timed": [2 * n**3] * rounds, "elsewhere": 0}
    expect(flops_by_the_clock, gemm_flops, n, rounds).equals(right)


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_the_matrices_of_a_product_are_float32_and_there_before_the_clock_runs(expect):
    """As the probe of bandwidth, so that both make one roofline. Matrices made or copied in each round are timed, too;
    one number that stands for a whole matrix is no matrix."""

    def one_product(seen):
        one = 4 * 256**2
        if not one <= seen["bytes written"] <= 1.1 * one:
            return f"each round writes {seen['bytes written']:,} bytes, where the product in float32 is {one:,}"
        return (
            one <= seen["bytes read"] <= 3.1 * one or f"each round reads {seen['bytes read']:,} bytes, not {2 * one:,}"
        )

    expect(per_round, gemm_flops, 256).holds(one_product, "read two matrices of 256 KiB a round, and write a third")


@pytest.mark.kata("level04.measure.read_bandwidth")
def test_both_matrices_have_been_written(expect):
    """A row that stands for all rows is no matrix, and what was never written may hold anything: among numbers too
    small for the usual format some machines take a hundred times as long."""
    expect(numbers_read_but_never_written, gemm_flops, 64).equals(0)


@pytest.mark.kata("level04.measure.read_bandwidth")
@pytest.mark.parametrize("n", [0, -1])
def test_a_matrix_without_rows_is_refused(expect, n):
    """It is multiplied in no time, at no rate."""
    expect(by_clock, gemm_flops, 2, lasting(1.0), rounds=1).equals(16.0)
    expect(gemm_flops, n, rounds=1, clock=lasting(1.0)).raises(ValueError)
