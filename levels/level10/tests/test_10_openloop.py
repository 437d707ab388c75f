"""Judges openloop.py in virtual time, by exact fractions, and by the distribution of gaps at the 1e-9 point.

The clock moves when everybody sleeps, to the time of whoever wakes first: no test waits, and all times are multiples of
1/8 s, which are exact. A client that is busy moves the clock itself.
"""

import asyncio
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np
import pytest

from level10.openloop import correct_coordinated_omission, poisson_arrivals, run_open_loop

# ---- run_open_loop


class VirtualTime:
    """late  seconds by which every sleep is too long, as those of a real loop are by a little"""

    def __init__(self, start=0.0, late=0.0):
        self.now, self.late, self.sleepers, self.count = start, late, [], 0

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        await (self.until(self.now + seconds + self.late) if seconds > 0 else asyncio.sleep(0))

    async def until(self, time):
        self.count += 1
        sleeper = time, self.count, asyncio.Event()
        heappush(self.sleepers, sleeper)
        try:
            await sleeper[2].wait()
        except asyncio.CancelledError:
            if sleeper in self.sleepers:
                self.sleepers.remove(sleeper)
                heapify(self.sleepers)
            raise

    async def run(self, work):
        """What `work` comes to; TimeoutError when it waits for something else than this clock."""
        task, idle = asyncio.create_task(work), 0
        while not task.done() and idle < 10:
            for _ in range(12):
                await asyncio.sleep(0)
            idle = 0 if self.sleepers else idle + 1
            if self.sleepers and not task.done():
                self.now = max(self.now, self.sleepers[0][0])
                while self.sleepers and self.sleepers[0][0] <= self.now:
                    heappop(self.sleepers)[2].set()
        if not task.done():
            task.cancel()
            raise TimeoutError("waits for something else than the sleep that was given")
        return task.result()


def offered(arrivals, seconds, start=0.0, late=0.0, busy=()):
    """[(when it started, what was due, when it was answered) of each], and when all was over.

    seconds  that each answer takes;  busy  {request: seconds for which it lets nobody else run}
    """
    time = VirtualTime(start, late)

    async def send(i, due):
        started = time.now
        time.now += dict(busy).get(i, 0)
        await time.until(time.now + seconds[i])
        return started, due, time.now

    async def client():
        return await run_open_loop(send, arrivals, time.clock, time.sleep), time.now

    return asyncio.run(time.run(client()))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_nobody_waits_for_the_answers_of_others(expect):
    """The docstring's example: answers take 5 s, and yet the users come each second. A loop that waits for each answer
    would send at 1, 6 and 11, and never see that the server is full."""
    right = [(1.0, 1.0, 6.0), (2.0, 2.0, 7.0), (3.0, 3.0, 8.0)], 8.0
    expect(offered, [1.0, 2.0, 3.0], [5.0] * 3).equals(right)


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_a_request_is_due_on_the_clock_that_was_given(expect):
    """A clock seldom begins at 0: perf_counter counts from when the machine was started, arrivals from the call."""
    right = [(100.5, 100.5, 101.5), (102.0, 102.0, 102.125), (102.0, 102.0, 105.0), (110.0, 110.0, 110.25)], 110.25
    expect(offered, [0.5, 2.0, 2.0, 10.0], [1.0, 0.125, 3.0, 0.25], 100.0).equals(right)
    expect(offered, [0.0], [0.5], 7.0).equals(([(7.0, 7.0, 7.5)], 7.5))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_results_stand_in_the_order_of_the_arrivals(expect):
    """Later requests are often answered first; whoever pairs results with prompts needs them in order."""
    right = [(0.0, 0.0, 9.0), (1.0, 1.0, 4.0), (2.0, 2.0, 2.5), (4.0, 4.0, 4.125)], 9.0
    expect(offered, [0.0, 1.0, 2.0, 4.0], [9.0, 3.0, 0.5, 0.125]).equals(right)


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_a_busy_client_is_late_and_due_does_not_move(expect):
    """The first request blocks the client for 3.5 s. Those due at 2 and 3 start at 4.5, at once, and their latency
    counts from 2 and 3: the users were there. The one at 8 is in time again. However late it is, nobody is left out."""
    right = [(1.0, 1.0, 5.5), (4.5, 2.0, 5.5), (4.5, 3.0, 5.5), (8.0, 8.0, 9.0)], 9.0
    expect(offered, [1.0, 2.0, 3.0, 8.0], [1.0] * 4, busy={0: 3.5}).equals(right)
    right = [(10.0, 10.0, 910.0), (910.0, 10.0, 910.5), (910.0, 10.0, 911.0), (910.0, 13.0, 910.5)], 911.0
    expect(offered, [0.0, 0.0, 0.0, 3.0], [0.0, 0.5, 1.0, 0.5], 10.0, busy={0: 900.0}).equals(right)


def too_late(num, late):
    """[request, by how much] of those that start before they are due, or after due + late. One comes each second."""
    found, _ = offered([1.0 + i for i in range(num)], [0.5] * num, late=late)
    return [(i, started - due) for i, (started, due, _) in enumerate(found) if not 0 <= started - due <= late][:3]


@pytest.mark.kata("level10.openloop.run_open_loop")
@pytest.mark.parametrize("late", [0.125, 0.25])
def test_what_a_sleep_is_late_does_not_add_up(expect, late):
    """Every real sleep is too long by a little, here by `late`. One for each gap would be late by all of them: 40
    requests later the offered rate is another one."""
    expect(too_late, 40, late).equals([])


def in_a_queue(num, first, others):
    """Latencies, from when they were due, of one request each second at a server that answers one after the other."""
    time = VirtualTime()

    async def client():
        server = asyncio.Lock()

        async def send(i, due):
            async with server:
                await time.until(time.now + (others if i else first))
            return time.now - due

        return await run_open_loop(send, range(num), time.clock, time.sleep)

    return asyncio.run(time.run(client()))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_a_stall_is_felt_by_all_who_came_during_it(expect):
    """By hand: the first answer takes 5 s, each other 1/8 s. The second user came at 1 and is answered at 5.125. From
    when they were sent by a client that waits, they would be 5, 0.125, 0.125, …"""
    expect(in_a_queue, 6, 5.0, 0.125).equals([5.0, 4.125, 3.25, 2.375, 1.5, 0.625])


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_any_number_may_be_open_at_once(expect):
    """300 users within 37.5 s, all answered at 100 s. A pool of connections would close the loop when it is full."""
    arrivals = [i / 8 for i in range(300)]
    right = [(at, at, 100.0) for at in arrivals], 100.0
    expect(offered, arrivals, [100.0 - at for at in arrivals]).equals(right)


def returned(kind, given):
    """What is returned when each request's answer is what `given` says, at once; `kind` makes the arrivals."""
    time = VirtualTime()

    async def send(i, due):
        return given[i]

    return asyncio.run(time.run(run_open_loop(send, kind([i / 4 for i in range(len(given))]), time.clock, time.sleep)))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_results_are_what_send_returned(expect):
    """A client's record of a refused request is a result like any other: it may be None, False or an exception's name,
    and none is left out. Arrivals are often an array."""
    expect(returned, list, []).equals([])
    expect(returned, np.asarray, ["one"]).equals(["one"])
    expect(returned, tuple, [None, 0, "", False, [], None, "Full"]).equals([None, 0, "", False, [], None, "Full"])


def broken(arrivals, seconds, failing):
    """The errors in the group that is raised, when it came, who had started by then, and who was cancelled."""
    time, started, cancelled = VirtualTime(3.0), [], []

    async def send(i, due):
        started.append(i)
        try:
            await time.until(time.now + seconds[i])
        except asyncio.CancelledError:
            cancelled.append(i)
            raise
        if i in failing:
            raise ConnectionError(f"request {i}")

    async def client():
        try:
            return list(map(str, await run_open_loop(send, arrivals, time.clock, time.sleep)))
        except ExceptionGroup as group:
            over = time.now
            for _ in range(12):  # cancelled tasks may still have something to do
                await asyncio.sleep(0)
            return [str(error) for error in group.exceptions], over, sorted(started), sorted(cancelled)

    return asyncio.run(time.run(client()))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_an_error_ends_the_load(expect):
    """Requests at 0, 1 and 5 s; the first fails after 2 s. That is when it is over: the second, which would take 100 s,
    is cancelled, and the third never starts. A load that goes on for an hour after a mistake helps nobody."""
    expect(broken, [0.0, 1.0, 5.0], [2.0, 100.0, 1.0], [0]).equals((["request 0"], 5.0, [0, 1], [1]))
    expect(broken, [0.0, 1.0, 1.5], [9.0, 0.25, 4.0], [2]).equals((["request 2"], 8.5, [0, 1, 2], [0]))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_an_error_of_the_only_one_is_a_group_as_well(expect):
    """Whoever catches it writes `except*` once, however many there were."""
    expect(broken, [1.0], [0.5], [0]).equals((["request 0"], 4.5, [0], []))
    expect(broken, [0.0, 0.5], [0.25, 1.0], [1]).equals((["request 1"], 4.5, [0, 1], []))


# ---- poisson_arrivals, judged with run_open_loop


def faults_of_gaps(rate, calls, num):
    """What is wrong with the gaps of `calls` runs of num arrivals, at the 1e-9 point: 6.1 standard deviations, which
    are 1/sqrt(n) for the mean of n exponential gaps and for their correlation, sqrt(2/n) for their deviation; and 3.28
    times 1/sqrt(n) for the largest distance from the distribution, Kolmogorov's."""
    rng = np.random.default_rng(7)
    gaps = np.array([np.diff(poisson_arrivals(rate, num, rng), prepend=0.0) for _ in range(calls)]) * rate

    def another(x):
        below, steps = 1 - np.exp(-np.maximum(np.sort(x), 0)), np.arange(len(x) + 1) / len(x)
        return max(np.abs(below - steps[1:]).max(), np.abs(below - steps[:-1]).max()) >= 3.28 * len(x) ** -0.5

    with np.errstate(all="ignore"):
        neighbours = abs(np.corrcoef(gaps[:, :-1].ravel(), gaps[:, 1:].ravel())[0, 1])
    mean, deviation, near = gaps.mean(), gaps.std(), 6.1 * gaps.size**-0.5
    found = {
        f"a mean of {mean:.1f} / rate": abs(mean - 1) >= near,
        f"a deviation of {deviation:.1f} / rate": abs(deviation - 1) >= near * 2**0.5,
        "another distribution": another(gaps.ravel()),
        "another distribution of the first gap": another(gaps[:, 0]),
        "neighbours that know of each other": not neighbours < 6.1 * (calls * (num - 1)) ** -0.5,
    }
    return [fault for fault, is_so in found.items() if is_so]


@pytest.mark.kata("level10.openloop.run_open_loop")
@pytest.mark.parametrize("rate, calls, num", [(8.0, 1, 20_000), (0.25, 3000, 2)], ids=["long", "short"])
def test_gaps_are_independent_and_exponential(expect, rate, calls, num):
    """Users know nothing of each other, so they come in bunches, and bunches make queues: evenly spaced ones would
    never wait. Also of short runs, and of the gap before the first."""
    expect(faults_of_gaps, rate, calls, num).equals([])


def draws(num):
    """Do two generators with one seed give the same times, and another seed, or a second call, others?"""
    first, again, other = (np.random.default_rng(seed) for seed in (5, 5, 6))
    times = poisson_arrivals(3.0, num, first)
    return [np.array_equal(times, poisson_arrivals(3.0, num, rng)) for rng in (again, other, first)]


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_the_generator_decides(expect):
    """Two servers are compared under the very same load, and a second load is another one."""
    expect(draws, 20).equals([True, False, False])


def form(rate, num):
    """Shape and type of the times, and whether they are above 0 and increase."""
    times = poisson_arrivals(rate, num, np.random.default_rng(3))
    return times.shape, str(times.dtype), bool(np.all(np.diff(times, prepend=0.0) > 0))


@pytest.mark.kata("level10.openloop.run_open_loop")
@pytest.mark.parametrize("num", [0, 1, 2, 100])
def test_as_many_times_as_requests(expect, num):
    """The first user comes at some time, too: not at 0. No requests are no load, and no error."""
    expect(form, 50.0, num).equals(((num,), "float64", True))
    expect(form, 2, num).equals(((num,), "float64", True))


@pytest.mark.kata("level10.openloop.run_open_loop")
def test_a_load_needs_a_rate(expect):
    """At 0 requests per second the first one would never come."""
    expect(form, 1.0, 1).equals(((1,), "float64", True))
    for rate in (0, 0.0, -2.0, float("nan")):
        expect(form, rate, 3).raises(ValueError)


# ---- correct_coordinated_omission

CLOSE = {"rel": 1e-9, "abs": 1e-9}  # 5000 subtractions from 50 are off by 2e-11


def put_back(latencies, interval):
    """Oracle: exact fractions; one intended request after the other, as long as it would have waited long enough."""
    found = []
    for latency in latencies:
        x, waits = Fraction(latency), Fraction(latency)
        found.append(latency)
        while (waits := waits - Fraction(interval)) >= Fraction(interval) - x / 10**9:
            found.append(float(waits))
    return found


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
@pytest.mark.parametrize(
    "latencies, interval, right",
    [
        ([1.0, 5.0, 1.0], 1.0, [1.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0]),
        ([2.5], 1.0, [2.5, 1.5]),
        ([0.5, 0.875], 1.0, [0.5, 0.875]),
        ([1.0], 1.0, [1.0]),
        ([1.875], 1.0, [1.875]),
        ([2.0, 0.25, 3.5], 0.5, [2.0, 1.5, 1.0, 0.5, 0.25, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5]),
        ([0.0, 7.0, 3.0], 3.0, [0.0, 7.0, 4.0, 3.0]),
        ([6.0, 9.0], 4.0, [6.0, 9.0, 5.0]),
        ([], 1.0, []),
    ],
    ids=str,
)
def test_what_was_not_sent_is_put_back(expect, latencies, interval, right):
    """The docstring's, and more by hand: during 5 s four requests were not sent, which would have waited 4, 3, 2 and 1.
    What would have waited less than an interval is no omission of a client that sends one each interval."""
    expect(correct_coordinated_omission, latencies, interval).equals(right, **CLOSE)


def above(latencies, interval, limit):
    """How many latencies there are, and the share above the limit, before and after the correction."""
    both = list(latencies), correct_coordinated_omission(latencies, interval)
    return [(len(found), sum(x > limit + 1e-6 for x in found) / len(found)) for found in both]


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
def test_one_stall_of_half_of_the_time(expect):
    """The lesson's: 5,000 answers of 1 ms, one each 10 ms, and a stall of 50 s. One recorded latency of 5,001 is above
    1 s. The stall hid 4,999 requests, so that 4,900 of 10,000 are: the p99 is not 1 ms but 49 s."""
    expect(above, [0.001] * 5000 + [50.0], 0.01, 1.0).equals([(5001, 1 / 5001), (10_000, 0.49)], rel=1e-9)


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
@pytest.mark.parametrize("interval", [0.1, 0.01, 0.3, 0.7, 1e-6], ids=str)
def test_whole_numbers_of_intervals_in_decimals(expect, interval):
    """0.3 / 0.1 is 2.9999999999999996: rounding must not lose a request. Up to 60 intervals each; also what is half an
    interval more, or a tenth less. Oracle: exact fractions, with the docstring's billionth."""
    abs = 1e-9 * interval
    latencies = [k * interval for k in range(61)]
    expect(correct_coordinated_omission, latencies, interval).equals(put_back(latencies, interval), rel=1e-9, abs=abs)
    for part in (0.5, 0.9):
        latencies = [(k + part) * interval for k in range(9)]
        right = put_back(latencies, interval)
        expect(correct_coordinated_omission, latencies, interval).equals(right, rel=1e-9, abs=abs)


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e6], ids=["s", "µs", "Ms"])
@pytest.mark.parametrize("num", [2, 3, 30_000])
def test_a_billionth_of_the_latency_is_rounding(expect, unit, num):
    """So the docstring says: `num` intervals less 0.5 billionths of them are `num`, less 2 billionths are one fewer.
    In any unit: latencies are counted in seconds here, in microseconds there."""
    for short, right in ((5e-10, num), (2e-9, num - 1)):
        expect(put_back_in, num * (1 - short), unit).equals((right, num * (1 - short) * unit), rel=1e-12, abs=0)


def put_back_in(intervals, unit):
    """How many latencies come of one of so many intervals, with it, and the first of them."""
    found = correct_coordinated_omission((intervals * unit,), unit)
    return len(found), found[0]


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
@pytest.mark.parametrize("seed", range(6))
def test_each_latency_is_corrected_by_itself(expect, seed):
    """Short and long ones in any order; what is put back stands right behind the one that hid it. Oracle: exact
    fractions."""
    rng = np.random.default_rng(seed)
    latencies = (rng.exponential(1.0, 12) * rng.choice([0.1, 3.0], 12)).tolist()
    interval = float(rng.uniform(0.1, 1.0))
    expect(correct_coordinated_omission, latencies, interval).equals(put_back(latencies, interval), **CLOSE)
    expect(correct_coordinated_omission, tuple(latencies), 2.0).equals(put_back(latencies, 2.0), **CLOSE)


@pytest.mark.kata("level10.openloop.correct_coordinated_omission")
def test_an_interval_is_some_time(expect):
    """Without one the client would have had infinitely many to send."""
    expect(correct_coordinated_omission, [3.0], 2.0).equals([3.0])
    for interval in (0, 0.0, -1.0, float("nan")):
        expect(correct_coordinated_omission, [1.0], interval).raises(ValueError)
