"""Known-wrong programs of level10.openloop. `ghost` is given when this is read."""

import asyncio

_DUE = "due = began + arrival"
_SLEEP = "if (left := due - clock()) > 0:\n                await sleep(left)"
_TASK = "tasks.append(group.create_task(send(i, due)))"
_RESULTS = "return [task.result() for task in tasks]"
_LOOP = "for i, arrival in enumerate(arrivals):"
_TIMES = "return rng.exponential(1 / rate, num_requests).cumsum()"
_NUM = "num_omitted = max(0, int(latency * (1 + 1e-9) / interval) - 1)"
_PUT = "corrected += [latency - k * interval for k in range(num_omitted + 1)]"
_BACK = "return corrected"


def _run(name, sentence, *pairs, **more):
    ghost("level10.openloop.run_open_loop", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


def _omit(name, sentence, *pairs):
    ghost("level10.openloop.correct_coordinated_omission", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- run_open_loop


async def first_error(send, arrivals, clock, sleep):
    began = clock()

    async def one(i, due):
        await sleep(due - clock())
        return await send(i, due)

    tasks = [asyncio.ensure_future(one(i, began + arrival)) for i, arrival in enumerate(arrivals)]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


_run(
    "closed_loop",
    "You waited for the answer before sending the next: the slow server slows the load, and the queue is never seen.",
    _TASK,
    "tasks.append(group.create_task(send(i, due)))\n            await asyncio.wait(tasks[-1:])",
)
_run(
    "a_pool_of_ten",
    "Users do not share ten connections: with all of them taken, yours waits for an answer before it sends.",
    _TASK,
    "tasks.append(group.create_task(send(i, due)))\n"
    "            while len(open_ones := [task for task in tasks if not task.done()]) >= 10:\n"
    "                await asyncio.wait(open_ones, return_when=asyncio.FIRST_COMPLETED)",
)
_run(
    "a_pool_of_a_hundred",
    "Any number of requests may be open at once: a limit, however high, closes the loop when the server is slow.",
    "async with asyncio.TaskGroup() as group:",
    "limit = asyncio.Semaphore(100)\n\n"
    "    async def limited(i, due):\n"
    "        async with limit:\n"
    "            return await send(i, due)\n\n"
    "    async with asyncio.TaskGroup() as group:",
    _TASK,
    "tasks.append(group.create_task(limited(i, due)))",
)
_run(
    "sleep_each_time",
    "The list holds times since the start, not gaps: sleep until the start plus the arrival.",
    _SLEEP,
    "await sleep(arrival)",
)
_run(
    "gap_by_gap",
    "Sleep until a time, not for a gap: what one sleep, or a busy client, is late, yours adds to all that come later.",
    _SLEEP,
    "await sleep(arrival - (arrivals[i - 1] if i else 0))",
)
_run("burst", "Everything was sent at once: wait until each request is due.", _SLEEP, "pass")
_run(
    "due_when_sent",
    "`due` is when the request should start: counted from when it is sent, what a late client makes users wait is lost.",
    _TASK,
    "tasks.append(group.create_task(send(i, clock())))",
)
_run(
    "due_since_the_start",
    "`due` is on the clock: the time at the start of the call plus the arrival.",
    _TASK,
    "tasks.append(group.create_task(send(i, arrival)))",
)
_run(
    "clock_begins_at_zero",
    "Arrivals count from the start of the call, and the clock does not begin at 0 then: remember its time.",
    _DUE,
    "due = arrival",
)
_run(
    "from_the_first_arrival",
    "Arrivals count from the start of the call: yours sends the first request at once, and all others too early.",
    _DUE,
    "due = began + arrival - arrivals[0]",
)
_run(
    "from_the_first_request",
    "Read the clock once, when the call starts: yours counts each arrival from the request before.",
    "tasks.append(",
    "began = clock()\n            tasks.append(",
)
_run(
    "overdue_is_dropped",
    "A request that is overdue is started at once: yours drops it, and with it the users who waited longest.",
    _SLEEP,
    "if (left := due - clock()) < 0:\n                continue\n            await sleep(left)",
)
_run(
    "overdue_waits_for_nothing",
    "A request that is overdue is started at once, not as late again as it is already.",
    _SLEEP,
    "await sleep(abs(due - clock()))",
)
_run(
    "in_order_of_answers",
    "Results stand in the order of the arrivals, not in the order of the answers.",
    _TASK,
    "tasks.append(task := group.create_task(send(i, due)))\n"
    "            task.add_done_callback(lambda task: answered.append(task))",
    "began, tasks = clock(), []",
    "began, tasks, answered = clock(), [], []",
    _RESULTS,
    "return [task.result() for task in answered]",
)
_run(
    "empty_answers_left_out",
    "Every request has a result, also one of None: yours leaves out what counts as false.",
    _RESULTS,
    "return [task.result() for task in tasks if task.result()]",
)
_run(
    "counted_from_one",
    "Requests are counted from 0, like the places of their arrivals.",
    _LOOP,
    "for i, arrival in enumerate(arrivals, 1):",
)
_run(
    "last_one_forgotten",
    "Every arrival is a request, the last one too.",
    _LOOP,
    "for i, arrival in enumerate(arrivals[:-1]):",
)
_run(
    "errors_are_results",
    "An error passes on, as an ExceptionGroup: yours returns it among the results.",
    "async with asyncio.TaskGroup() as group:",
    "if True:",
    _TASK,
    "tasks.append(asyncio.ensure_future(send(i, due)))",
    _RESULTS,
    "return await asyncio.gather(*tasks, return_exceptions=True)",
)
_run(
    "error_noticed_at_the_end",
    "If a request raises, the load ends then: yours goes on sending, and looks at its tasks at the end.",
    "async with asyncio.TaskGroup() as group:",
    "if True:",
    _TASK,
    "tasks.append(asyncio.ensure_future(send(i, due)))",
    _RESULTS,
    "async with asyncio.TaskGroup() as group:\n"
    "        for task in tasks:\n"
    "            group.create_task(asyncio.wait_for(task, None))\n"
    "    return [task.result() for task in tasks]",
)
_run(
    "others_go_on",
    "If one raises, the others are cancelled: yours waits for all answers, and then tells of the error.",
    "async with asyncio.TaskGroup() as group:",
    "if True:",
    _TASK,
    "tasks.append(asyncio.ensure_future(send(i, due)))",
    _RESULTS,
    "found = await asyncio.gather(*tasks, return_exceptions=True)\n"
    "    if errors := [x for x in found if isinstance(x, Exception)]:\n"
    '        raise ExceptionGroup("requests failed", errors)\n'
    "    return found",
)
ghost(
    "level10.openloop.run_open_loop",
    "error_without_a_group",
    "What passes on is an ExceptionGroup: several requests may have failed. Yours raises the first error itself.",
    program=first_error,
)
# ---- poisson_arrivals

_run(
    "constant_gap",
    "Evenly spaced arrivals never queue; those of users who know nothing of each other come in bunches.",
    _TIMES,
    "return np.arange(1, num_requests + 1) / rate",
)
_run(
    "scale_is_rate",
    "numpy's exponential takes the mean of the gaps, 1 / rate, not the rate.",
    _TIMES,
    "return rng.exponential(rate, num_requests).cumsum()",
)
_run(
    "gaps_not_times",
    "You returned the gaps between arrivals: sum them up to get times.",
    _TIMES,
    "return rng.exponential(1 / rate, num_requests)",
)
_run(
    "first_at_zero",
    "The process begins at 0, the first arrival does not: its gap is random, too.",
    _TIMES,
    "times = rng.exponential(1 / rate, num_requests).cumsum()\n    return times - times[:1]",
)
_run(
    "uniform_gaps",
    "Gaps of a Poisson process are exponential: many short ones, and a few long ones. Yours are uniform.",
    _TIMES,
    "return rng.uniform(0, 2 / rate, num_requests).cumsum()",
)
_run(
    "normal_gaps",
    "Gaps of a Poisson process are exponential: yours are normal, and some are below 0.",
    _TIMES,
    "return rng.normal(1 / rate, 1 / rate, num_requests).cumsum()",
)
_run(
    "poisson_gaps",
    "Poisson is the number of arrivals in a second, a whole number; the gaps between them are exponential.",
    _TIMES,
    "return rng.poisson(1 / rate, num_requests).cumsum().astype(float)",
)
_run(
    "sorted_uniforms",
    "That fixes how long it takes until all have arrived: the gaps must be independent of each other.",
    _TIMES,
    "return np.sort(rng.uniform(0, num_requests / rate, num_requests))",
)
_run(
    "one_gap_for_all",
    "Every gap is drawn by itself: yours draws one.",
    _TIMES,
    "return rng.exponential(1 / rate) * np.arange(1, num_requests + 1)",
)
_run(
    "a_generator_of_its_own",
    "Draw from `rng`: a generator made inside gives every load the same times.",
    _TIMES,
    "return np.random.default_rng(0).exponential(1 / rate, num_requests).cumsum()",
)
_run(
    "numpy_s_own_generator",
    "Draw from `rng`, not from numpy's global generator: the same seed must give the same times.",
    _TIMES,
    "return np.random.exponential(1 / rate, num_requests).cumsum()",
)
_run(
    "a_list_of_times",
    "The times are a float64 array of shape (num_requests,).",
    _TIMES,
    "return rng.exponential(1 / rate, num_requests).cumsum().tolist()",
)

# ---- correct_coordinated_omission

_omit(
    "no_correction",
    "During the stall requests were not sent that should have been: their waiting is missing.",
    _BACK,
    "return list(latencies)",
)
_omit(
    "one_extra",
    "Every interval of a long answer hides one request: yours puts back one for each long answer.",
    _PUT,
    "corrected += [latency - k * interval for k in range(min(num_omitted, 1) + 1)]",
)
_omit(
    "copies",
    "A request that was due later in the stall waits less: 4, 3, 2, 1, not 5 each time.",
    _PUT,
    "corrected += [latency for k in range(num_omitted + 1)]",
)
_omit(
    "down_to_zero",
    "What is put back is at least an interval long: yours also puts back shorter ones.",
    _NUM,
    "num_omitted = max(0, int(latency * (1 + 1e-9) / interval))",
)
_omit(
    "more_than_an_interval",
    "One of exactly an interval is put back, too: at least that long, not longer.",
    _NUM,
    "num_omitted = max(0, ceil(latency * (1 - 1e-9) / interval) - 2)",
    "    corrected = []",
    "    from math import ceil\n\n    corrected = []",
)
_omit(
    "rounded_quotient",
    "A half of an interval at the end is no request: yours rounds to the nearest number of intervals.",
    _NUM,
    "num_omitted = max(0, round(latency / interval) - 1)",
)
_omit(
    "floats_cut_off",
    "0.3 / 0.1 is a little less than 3 in floats: what is too short by a billionth of x counts as long enough.",
    _NUM,
    "num_omitted = max(0, int(latency / interval) - 1)",
)
_omit(
    "too_generous",
    "Too short by a billionth of x is rounding, by more it is not: yours forgives far more.",
    _NUM,
    "num_omitted = max(0, int(latency * (1 + 1e-3) / interval) - 1)",
)
_omit(
    "billionth_of_a_second",
    "A billionth of x, not of a second: latencies may be counted in any unit.",
    _NUM,
    "num_omitted = max(0, int((latency + 1e-9) / interval) - 1)",
)
_omit(
    "billionth_of_an_interval",
    "A billionth of x, not of an interval: the rounding of a long answer is larger.",
    _NUM,
    "num_omitted = max(0, int(latency / interval + 1e-9) - 1)",
)
_omit(
    "at_the_end",
    "What is put back stands right behind the answer that hid it: yours collects it at the end.",
    _PUT,
    "corrected.append(latency)\n        late = [*late, *(latency - k * interval for k in range(1, num_omitted + 1))]",
    "    corrected = []",
    "    corrected, late = [], []",
    _BACK,
    "return corrected + late",
)
_omit(
    "shortest_first",
    "Behind x the longest stands first: x - interval, then x - 2 · interval.",
    _PUT,
    "corrected += [latency, *(latency - k * interval for k in range(num_omitted, 0, -1))]",
)
_omit(
    "sorted",
    "The answers stay in their order: yours sorts them all.",
    _BACK,
    "return sorted(corrected, reverse=True)",
)
_omit(
    "only_what_was_left_out",
    "The recorded latencies stay, and those that were left out are added: yours returns these alone.",
    _PUT,
    "corrected += [latency - k * interval for k in range(1, num_omitted + 1)]",
)
_omit(
    "each_corrected_again",
    "x - interval stands for one request: yours corrects what it has put back once more.",
    _BACK,
    "return [x - k * interval for x in corrected for k in range(max(1, int(x * (1 + 1e-9) / interval)))]",
)
_omit(
    "evenly_shared",
    "The waits fall by `interval` each: yours divides x evenly, down to 0.",
    _PUT,
    "corrected += [latency * (num_omitted + 1 - k) / (num_omitted + 1) for k in range(num_omitted + 1)]",
)
_omit(
    "short_answers_lost",
    "An answer that hid no request stays as it is: yours leaves out those that are shorter than the interval.",
    _PUT,
    "corrected += [latency - k * interval for k in range(num_omitted + 1) if latency >= interval]",
)
_omit(
    "step_by_step",
    "Each interval taken from the last result adds its rounding: take k · interval from x, and forgive a billionth of x.",
    _PUT,
    "corrected.append(latency)\n"
    "        while (latency := latency - interval) >= interval:\n"
    "            corrected.append(latency)",
)
_omit(
    "step_by_step_forgiving_little",
    "A billionth of x counts as rounding: yours forgives a billionth of a second, be x of microseconds or hours.",
    _PUT,
    "corrected.append(latency)\n"
    "        while (latency := latency - interval) >= interval - 1e-9:\n"
    "            corrected.append(latency)",
)
_omit(
    "only_the_longest",
    "Every answer longer than two intervals hid requests, not only the longest one.",
    _NUM,
    "num_omitted = max(0, int(latency * (1 + 1e-9) / interval) - 1) if latency == max(latencies) else 0",
)
