"""The worksheet of level 10: right values by playing streams, clients and devices through, one event at a time."""

from statistics import NormalDist

import numpy as np
import pytest


@pytest.mark.kata("level10.worksheet.num_chunks")
def test_a_chunk_is_no_token(answer):
    """Whoever counts chunks miscounts tokens. Oracle: after each token, what of the text so far may be shown."""
    spelled = [b"It", b" is", b"\xf0\x9f", b"\x98", b"\x80", b"OS", b"S", b"T", b"OP :)"]
    stop, shown, data, chunks = "STOP", "", b"", 0
    for token in spelled:
        data += token
        text = data.decode("utf-8", "ignore")  # half a character at the end shows nothing
        if stop in text:
            chunks += 1  # the last one, with its finish_reason
            break
        held = max(n for n in range(len(stop)) if text.endswith(stop[:n]))
        chunks += len(text) - held > len(shown)
        shown = text[: len(text) - held]
    assert shown == "It is\N{GRINNING FACE}OS"
    answer("num_chunks").equals(chunks + 1, rel=0.01)  # and the usage


@pytest.mark.kata("level10.worksheet.mean_itl_ms")
def test_gaps_are_counted_between_tokens(answer):
    """Per chunk it would be three times as much. Oracle: each token of a chunk put on the clock, then numpy.diff."""
    answers = [[(0.50, 1), (0.90, 4), (1.34, 3)], [(0.30, 2), (0.72, 1)]]
    gaps = []
    for chunks in answers:
        times = [chunks[0][0]] * chunks[0][1]
        for time, n in chunks[1:]:
            times += np.linspace(times[-1], time, n + 1)[1:].tolist()
        gaps += np.diff(times).tolist()
    answer("mean_itl_ms").equals(1000 * float(np.mean(gaps)), rel=0.01)


@pytest.mark.kata("level10.worksheet.slow_part")
def test_a_client_that_waits_leaves_out_what_it_was_to_measure(answer):
    """As recorded, 1 of 2,401 is slow. Oracle: every request that was due, and when the server was there for it."""
    due = [20 * i for i in range(3000)]  # in ms; the server is away from 24,000 to 36,000
    waits = [36000 - t if 24000 <= t < 36000 else 2 for t in due]
    answer("slow_part").equals(sum(wait > 500 for wait in waits) / len(waits), rel=0.01)


@pytest.mark.kata("level10.worksheet.load_seconds")
def test_a_tail_takes_time(answer):
    """A p99.5 of a load of a minute is one request's luck. Oracle: tenths of seconds tried, one after the other."""
    tenths = next(n for n in range(1, 10**5) if n / 10 * 8 * 0.8 * 5 / 1000 >= 10 - 1e-9)
    answer("load_seconds").equals(tenths / 10, rel=0.01)


@pytest.mark.kata("level10.worksheet.half_width_ms")
def test_a_mean_is_known_less_well_than_it_looks(answer):
    """A smaller difference between two servers is none. Oracle: the variance of a mean of 400, and its 97.5%."""
    variance = sum(0.9**2 for _ in range(400)) / 400**2
    answer("half_width_ms").equals(1000 * NormalDist(0, variance**0.5).inv_cdf(0.975), rel=0.01)


@pytest.mark.kata("level10.worksheet.seconds_in_system")
def test_a_queue_is_long_before_the_server_is_full(answer):
    """At 84% of what it can do, a request takes six times as long as alone. Oracle: how likely n requests are there."""
    rate, service = 0.84 * 6, 6
    there = [(rate / service) ** n for n in range(2000)]  # each one more is less likely by the same factor
    in_system = sum(n * p for n, p in enumerate(there)) / sum(there)
    answer("seconds_in_system").equals(in_system / rate, rel=0.01)  # Little's law


@pytest.mark.kata("level10.worksheet.transfer_ms")
def test_a_cache_travels_in_bytes(answer):
    """Links are sold in bits. Oracle: the bits of every tensor, one layer after the other."""
    bits = sum(8 * 2 * 4 * 1500 * 128 for _ in range(28) for _ in ("keys", "values"))
    answer("transfer_ms").equals(0.2 + bits / 200e9 * 1000, rel=0.01)


def one_device(requests, prefill, step):
    """Hundredths of seconds: the times of the first request's tokens, prompts before steps."""
    now, waiting, tokens, times = 0, sorted(requests), [], []
    while waiting or any(tokens):
        if waiting and waiting[0][0] <= now:
            now += prefill
            tokens.append(waiting.pop(0)[1])
            served = [len(tokens) - 1]
        elif any(tokens):
            now += step
            served = [i for i, left in enumerate(tokens) if left]
        else:
            now += 1
            continue
        for i in served:
            tokens[i] -= 1
            if i == 0:
                times.append(now)
    return times


@pytest.mark.kata("level10.worksheet.seconds_earlier")
def test_other_peoples_prompts_stand_in_the_way(answer):
    """A transfer is paid once, a stall for every prompt. Oracle: the device played through, whatever others want."""
    [together] = {one_device([(0, 21), (82, others), (110, others)], 60, 5)[-1] for others in (1, 7, 40)}
    apart = [60]
    while len(apart) < 21:
        apart.append(apart[-1] + 5 + (8 if len(apart) == 1 else 0))
    answer("seconds_earlier").equals((together - apart[-1]) / 100, rel=0.01)
