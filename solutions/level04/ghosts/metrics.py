"""Known-wrong programs of level04.metrics. `ghost` is given when this is read."""

from math import ceil, floor
from statistics import NormalDist, fmean, pstdev

# ---- request_metrics

TTFT = '"ttft": token_times[0] - arrival'
E2E = '"e2e": token_times[-1] - arrival'
TPOT = "(token_times[-1] - token_times[0]) / len(gaps) if gaps else None"
GAPS = "[after - before for before, after in zip(token_times, token_times[1:])]"


def _request(name, sentence, *texts):
    ghost("level04.metrics.request_metrics", name, sentence, change=list(zip(texts[::2], texts[1::2])))


_request(
    "divides_by_n",
    "n tokens have n - 1 gaps: that is what TPOT is divided by.",
    TPOT,
    TPOT.replace("len(gaps) if", "len(token_times) if"),
)
_request(
    "includes_ttft",
    "TPOT is decode alone, from the first token on; the wait before it is TTFT's business.",
    TPOT,
    "(token_times[-1] - arrival) / len(token_times) if gaps else None",
)
_request(
    "e2e_over_gaps",
    "n - 1 gaps lie between the first token and the last: start at the first, not at the arrival.",
    TPOT,
    TPOT.replace("token_times[0]", "arrival"),
)
_request(
    "mean_from_arrival",
    "TPOT of one token is not its TTFT: without a second token there is no gap.",
    TPOT,
    TPOT.replace("None", "token_times[0] - arrival"),
)
_request(
    "zero_for_one_token",
    "No gap, no TPOT: a zero in its place would improve every average.",
    TPOT,
    TPOT.replace("None", "0.0"),
)
_request(
    "nan_for_one_token",
    "One token has no TPOT, which is None: a NaN would make every sum that it enters NaN.",
    TPOT,
    TPOT.replace("None", 'float("nan")'),
)
_request(
    "median_gap",
    "TPOT is the mean of the gaps: the median leaves out the stalls that the user sits through.",
    TPOT,
    "sorted(gaps)[len(gaps) // 2] if gaps else None",
)
_request(
    "longest_gap",
    "TPOT is the mean of the gaps; the longest of them is ITL's p100.",
    TPOT,
    "max(gaps) if gaps else None",
)
_request(
    "last_gap",
    "TPOT is the mean of all gaps, not the last of them.",
    TPOT,
    "gaps[-1] if gaps else None",
)
_request(
    "tokens_per_second",
    "TPOT is seconds per token: yours is the rate, upside down.",
    TPOT,
    "len(gaps) / ((token_times[-1] - token_times[0]) or 1) if gaps else None",
)
_request(
    "tokens_together_are_one",
    "Tokens that arrive together are tokens all the same, with a gap of zero: count each.",
    TPOT,
    "(token_times[-1] - token_times[0]) / max(len(set(token_times)) - 1, 1) if gaps else None",
)
_request(
    "drops_gaps_of_zero",
    "A gap of zero is a gap: without it the others look like all.",
    GAPS,
    GAPS.replace("[1:])]", "[1:]) if after > before]"),
)
_request(
    "itl_with_ttft",
    "ITL is between tokens; the time from the arrival to the first is TTFT.",
    '"itl": gaps',
    '"itl": [token_times[0] - arrival, *gaps]',
)
_request(
    "itl_since_arrival",
    "A gap is from one token to the next, not from the arrival.",
    '"itl": gaps',
    '"itl": [time - arrival for time in token_times[1:]]',
)
_request(
    "itl_since_first",
    "A gap is from one token to the next, not from the first.",
    '"itl": gaps',
    '"itl": [time - token_times[0] for time in token_times[1:]]',
)
_request(
    "itl_is_their_mean",
    "ITL is the list of all gaps, so that their tail can be seen: the mean is TPOT.",
    '"itl": gaps',
    '"itl": [sum(gaps) / len(gaps)] * len(gaps) if gaps else []',
)
_request(
    "sorted_gaps",
    "The gaps stand in the order of the tokens: sort them where you need them sorted.",
    '"itl": gaps',
    '"itl": sorted(gaps)',
)
_request(
    "itl_none_for_one_token",
    "One token has no gaps: that is an empty list, which can be pooled with others.",
    '"itl": gaps',
    '"itl": gaps or None',
)
_request(
    "ttft_is_a_time",
    "TTFT is a duration, from the arrival: yours is what the clock showed.",
    TTFT,
    '"ttft": token_times[0]',
)
_request(
    "e2e_is_a_time",
    "E2E is a duration, from the arrival: yours is what the clock showed.",
    E2E,
    '"e2e": token_times[-1]',
)
_request(
    "e2e_from_the_first_token",
    "E2E begins with the arrival, like TTFT: yours leaves out the longest wait.",
    E2E,
    '"e2e": token_times[-1] - token_times[0]',
)
_request(
    "e2e_counts_ttft_twice",
    "The last token's time is after all the others: nothing is to be added to it.",
    E2E,
    '"e2e": token_times[-1] - arrival + token_times[0] - arrival',
)
_request(
    "milliseconds",
    "Seconds, as they come in.",
    TTFT,
    '"ttft": 1e3 * (token_times[0] - arrival)',
    E2E,
    '"e2e": 1e3 * (token_times[-1] - arrival)',
    TPOT,
    f"1e3 * {TPOT}",
    GAPS,
    GAPS.replace("[after - before", "[1e3 * (after - before)"),
)


def _rounded(arrival, token_times):
    if not token_times or any(b < a for a, b in zip([arrival, *token_times], token_times)):
        raise ValueError("no tokens, or backwards")
    gaps = [round(b - a, 3) for a, b in zip(token_times, token_times[1:])]
    tpot = round((token_times[-1] - token_times[0]) / len(gaps), 3) if gaps else None
    return {
        "ttft": round(token_times[0] - arrival, 3),
        "e2e": round(token_times[-1] - arrival, 3),
        "tpot": tpot,
        "itl": gaps,
    }


ghost(
    "level04.metrics.request_metrics",
    "to_the_millisecond",
    "Do not round here: fast models have gaps of a millisecond, and whoever prints can round.",
    program=_rounded,
)

# ---- percentile

RANK = "q / 100 * (len(ordered) - 1)"
LINE = "ordered[below] + (rank - below) * (ordered[above] - ordered[below])"


def _percentile(name, sentence, *texts):
    ghost("level04.metrics.percentile", name, sentence, change=list(zip(texts[::2], texts[1::2])))


def _ranked(name, sentence, pick):
    """A wrong percentile of sorted values: pick(ordered, q)."""

    def program(values, q):
        if not values or not 0 <= q <= 100:
            raise ValueError("no values, or no percentile")
        return pick(sorted(values), q)

    ghost("level04.metrics.percentile", name, sentence, program=program)


def _between(ordered, rank):
    """On the line, with a rank that may lie outside."""
    rank = min(max(rank, 0), len(ordered) - 1)
    below = floor(rank)
    return ordered[below] + (rank - below) * (ordered[ceil(rank)] - ordered[below])


_percentile("not_sorted", "Sort the values first: they come in any order.", "sorted(values)", "list(values)")
_percentile(
    "sorts_in_place",
    "Sort a copy: the list of latencies is the caller's, and its order tells what happened when.",
    "ordered = sorted(values)",
    "ordered = values\n    values.sort() if isinstance(values, list) else None",
)
_percentile(
    "largest_first",
    "The 99th percentile is near the largest value: sort from the smallest up.",
    "sorted(values)",
    "sorted(values, reverse=True)",
)
_percentile(
    "each_value_once",
    "Equal values count each: a latency that a hundred users had weighs a hundred times.",
    "sorted(values)",
    "sorted(set(values))",
)
_ranked(
    "index_n",
    "Ranks run from 0 to n - 1: with q / 100 · n the median is not in the middle.",
    lambda ordered, q: _between(ordered, q / 100 * len(ordered)),
)
_ranked(
    "exclusive",
    "q / 100 · (n + 1) - 1 is another definition (Excel's PERCENTILE.EXC, type 6); here p0 is the smallest value.",
    lambda ordered, q: _between(ordered, q / 100 * (len(ordered) + 1) - 1),
)
_ranked(
    "in_the_middle_of_its_share",
    "Rank q / 100 · n - 1/2 is another definition (Hazen, type 5); here it is q / 100 · (n - 1).",
    lambda ordered, q: _between(ordered, q / 100 * len(ordered) - 0.5),
)
_ranked(
    "median_unbiased",
    "This is another definition (type 8); here the rank is q / 100 · (n - 1).",
    lambda ordered, q: _between(ordered, q / 100 * (len(ordered) + 1 / 3) - 2 / 3),
)
_ranked(
    "nearest_rank",
    "The smallest value that q percent do not exceed is another definition (nearest rank); here it is interpolated.",
    lambda ordered, q: ordered[max(ceil(q / 100 * len(ordered)) - 1, 0)],
)
_percentile(
    "rounded_rank",
    "Between two ranks the percentile lies on the line between their values, not at the nearer one.",
    LINE,
    "ordered[round(rank)]",
)
_percentile(
    "value_below", "Between two ranks go on towards the upper value: yours stays below.", LINE, "ordered[below]"
)
_ranked(
    "value_above",
    "Between two ranks the percentile lies on the line between their values, not at the upper one.",
    lambda ordered, q: ordered[ceil(q / 100 * (len(ordered) - 1))],
)
_ranked(
    "midpoint",
    "How far the rank lies between two others decides how far the percentile lies between their values.",
    lambda ordered, q: (ordered[floor(q / 100 * (len(ordered) - 1))] + ordered[ceil(q / 100 * (len(ordered) - 1))]) / 2,
)
_percentile(
    "weights_swapped",
    "A rank just above `below` is near that value: the weights of the two are swapped.",
    LINE,
    "ordered[above] + (rank - below) * (ordered[below] - ordered[above])",
)
_percentile(
    "falls_off_the_end",
    "At q = 100 nothing lies above the last value.",
    "min(below + 1, len(ordered) - 1)",
    "below + 1",
)
_percentile(
    "q_is_a_fraction",
    "q is in percent: 99, not 0.99.",
    RANK,
    "min(q, 1) * (len(ordered) - 1)",
)
_percentile(
    "guesses_the_unit",
    "q is in percent however small: the 0.5th percentile is not the median.",
    RANK,
    "(q if q <= 1 else q / 100) * (len(ordered) - 1)",
)
_percentile(
    "whole_percent",
    "q need not be a whole number: the 99.9th percentile is not the 99th.",
    RANK,
    "int(q) / 100 * (len(ordered) - 1)",
)
_ranked(
    "of_the_range",
    "q percent of the values, not of the way from the smallest to the largest.",
    lambda ordered, q: ordered[0] + q / 100 * (ordered[-1] - ordered[0]),
)
_ranked(
    "as_if_normal",
    "Latencies are not normally distributed: their tail is longer. Look at the values, not at mean and deviation.",
    lambda ordered, q: fmean(ordered) + NormalDist().inv_cdf(min(max(q / 100, 1e-9), 1 - 1e-9)) * pstdev(ordered),
)
_ranked("mean", "A percentile is a place among the sorted values: the mean is another number.", lambda o, q: fmean(o))


def _mean_of_percentiles(values, q):
    if not values or not 0 <= q <= 100:
        raise ValueError("no values, or no percentile")
    halves = [half for half in (values[: len(values) // 2], values[len(values) // 2 :]) if half]
    return fmean(_between(sorted(half), q / 100 * (len(half) - 1)) for half in halves)


ghost(
    "level04.metrics.percentile",
    "mean_of_percentiles",
    "Percentiles do not average: pool the values first.",
    program=_mean_of_percentiles,
)


# ---- throughput, a part of goodput

TOKENS = "sum(len(times) for _, times in requests)"
FIRST = "min(arrival for arrival, _ in requests)"
LAST = "max(times[-1] for _, times in requests)"
RATE = "tokens / (last - first)"


def _throughput(name, sentence, *texts):
    ghost("level04.metrics.goodput", name, sentence, change=list(zip(texts[::2], texts[1::2])))


_throughput(
    "mean_of_rates",
    "Requests overlap, and long ones weigh more: all tokens over all of the time, not a mean of rates.",
    RATE,
    "sum(len(times) / (times[-1] - arrival) for arrival, times in requests) / len(requests)",
)
_throughput(
    "sum_of_rates",
    "A server that idles between two requests does not have the rates of both: all tokens over all of the time.",
    RATE,
    "sum(len(times) / (times[-1] - arrival) for arrival, times in requests)",
)
_throughput(
    "sum_of_latencies",
    "Adding latencies counts the same second several times: requests overlap.",
    RATE,
    "tokens / sum(times[-1] - arrival for arrival, times in requests)",
)
_throughput("from_zero", "The run begins with the first arrival, not when the clock showed 0.", FIRST, "0")
_throughput(
    "from_the_first_token",
    "The time begins with the first arrival: the wait for the first token is part of it.",
    FIRST,
    "min(times[0] for _, times in requests)",
)
_throughput(
    "first_in_the_list",
    "The first of the list need not have arrived first: take the earliest arrival.",
    FIRST,
    "requests[0][0]",
)
_throughput(
    "last_in_the_list",
    "The last of the list need not end last: take the latest token of all.",
    LAST,
    "requests[-1][1][-1]",
)
_throughput(
    "last_arrival",
    "After the last arrival tokens still come, and they take time.",
    LAST,
    "max(arrival for arrival, _ in requests) + 1e-9",
)
_throughput(
    "longest_request",
    "From the first arrival to the last token: the longest request covers only a part of it.",
    RATE,
    "tokens / max(times[-1] - arrival for arrival, times in requests)",
)
_throughput(
    "requests_per_second",
    "Throughput is in tokens: requests differ in length.",
    TOKENS,
    "len(requests)",
)
_throughput(
    "without_first_tokens",
    "The first token is a token: count it too.",
    TOKENS,
    "sum(len(times) - 1 for _, times in requests)",
)
_throughput(
    "one_token_at_a_time",
    "Tokens of a batch arrive at the same time, and count each.",
    TOKENS,
    "len({time for _, times in requests for time in times})",
)
_throughput(
    "whole_tokens",
    "Divide tokens by seconds with /: // throws away what is left.",
    RATE,
    "tokens // (last - first)",
)


def _busy_time(requests):
    if not requests or not all(times for _, times in requests):
        raise ValueError("no requests, or no tokens")
    busy, until = 0.0, float("-inf")
    for arrival, times in sorted(requests, key=lambda request: request[0]):
        busy += max(0.0, times[-1] - max(arrival, until))
        until = max(until, times[-1])
    return sum(len(times) for _, times in requests) / busy


ghost(
    "level04.metrics.goodput",
    "busy_time",
    "Time in which the server idles is time as well: yours counts only while a request was open.",
    program=_busy_time,
    part="throughput",
)

# ---- goodput

MET = 'metrics["ttft"] <= ttft_slo and (metrics["tpot"] is None or metrics["tpot"] <= tpot_slo)'
COUNT = "good / duration"


def _goodput(name, sentence, *texts):
    ghost("level04.metrics.goodput", name, sentence, change=list(zip(texts[::2], texts[1::2])))


_goodput(
    "either",
    "A request is good only if it meets both objectives.",
    MET,
    MET.replace("ttft_slo and", "ttft_slo or"),
)
_goodput(
    "ttft_only",
    "TPOT has to be met as well: who reads along waits for every token.",
    MET,
    'metrics["ttft"] <= ttft_slo',
)
_goodput(
    "tpot_only",
    "TTFT has to be met as well: a user who has left does not read.",
    MET,
    'metrics["tpot"] is None or metrics["tpot"] <= tpot_slo',
)
_goodput(
    "strictly_below",
    "A latency that equals its objective meets it: <=, not <.",
    MET,
    MET.replace("<=", "<"),
)
_goodput(
    "ttft_strictly_below",
    "A TTFT that equals its objective meets it: <=, not <.",
    MET,
    MET.replace('"ttft"] <=', '"ttft"] <'),
)
_goodput(
    "tpot_strictly_below",
    "A TPOT that equals its objective meets it: <=, not <.",
    MET,
    MET.replace('"tpot"] <=', '"tpot"] <'),
)
_goodput(
    "one_token_is_bad",
    "A request of one token has no gap that could be too long: it meets the TPOT objective.",
    MET,
    MET.replace("is None or", "is not None and"),
)
_goodput(
    "one_token_left_out",
    "A request of one token has to wait for it like any other: its TTFT is judged.",
    MET,
    'metrics["tpot"] is None or (metrics["ttft"] <= ttft_slo and metrics["tpot"] <= tpot_slo)',
)
_goodput(
    "objectives_swapped",
    "First the TTFT objective, then that of TPOT: yours are swapped.",
    MET,
    MET.replace("ttft_slo", "swap").replace("tpot_slo", "ttft_slo").replace("swap", "tpot_slo"),
)
_goodput(
    "ttft_in_tpot",
    "TPOT begins with the first token: with the wait before it, a request is judged twice for the same second.",
    MET,
    'metrics["ttft"] <= ttft_slo and metrics["e2e"] / len(times) <= tpot_slo',
)
_goodput(
    "e2e_for_ttft",
    "TTFT ends with the first token: a long answer is no late one.",
    MET,
    MET.replace('"ttft"', '"e2e"'),
)
_goodput(
    "every_gap",
    "The objective is on TPOT, the mean gap: a single long one may be made up for by the others.",
    MET,
    'metrics["ttft"] <= ttft_slo and all(gap <= tpot_slo for gap in metrics["itl"])',
)
_goodput(
    "divides_by_n",
    "n tokens have n - 1 gaps: take request_metrics' TPOT.",
    MET,
    'metrics["ttft"] <= ttft_slo and (times[-1] - times[0]) / len(times) <= tpot_slo',
)
_goodput(
    "to_the_millisecond",
    "Compare before you round: 0.5004 s do not meet an objective of 0.5.",
    MET,
    MET.replace('metrics["ttft"] <=', 'round(metrics["ttft"], 3) <=').replace(
        'metrics["tpot"] <=', 'round(metrics["tpot"], 3) <='
    ),
)
_goodput(
    "equal_requests_once",
    "Requests that arrive and end together are several all the same: count each.",
    "for arrival, times in requests:",
    "for arrival, times in {(arrival, tuple(times)) for arrival, times in requests}:",
)
_goodput(
    "deadline_of_the_last",
    "Two objectives are not one deadline for the last token: fast tokens do not make up for a late start.",
    MET,
    'metrics["e2e"] <= ttft_slo + (len(times) - 1) * tpot_slo',
)
_goodput(
    "tokens_of_good_requests",
    "Goodput here is in requests per second, not in tokens.",
    MET,
    f"len(times) * ({MET})",
)
_goodput(
    "share",
    "Goodput is a rate, per second: a server that serves a single request well has a share of 1.",
    COUNT,
    "good / max(len(requests), 1)",
)
_goodput("a_number", "Goodput is a rate: divide the number of good requests by the seconds.", COUNT, "float(good)")
_goodput(
    "all_requests",
    "Only requests that met both objectives count: what you have is the rate of all of them.",
    COUNT,
    "len(requests) / duration",
)
_goodput(
    "the_bad_ones",
    "Count those that met both objectives, not those that missed one.",
    COUNT,
    "(len(requests) - good) / duration",
)
_goodput(
    "span_of_the_requests",
    "Divide by the seconds that were observed: the requests may have come in a part of them.",
    COUNT,
    "good / (max(times[-1] for _, times in requests) - min(arrival for arrival, _ in requests)) if requests else 0.0",
)
_goodput("whole_division", "Divide with /: // throws away what is left.", COUNT, "good // duration")


def _on_average(requests, ttft_slo, tpot_slo, duration):
    from level04.metrics import request_metrics

    if duration <= 0:
        raise ValueError("no time")
    if not requests:
        return 0.0
    found = [request_metrics(*request) for request in requests]
    tpots = [one["tpot"] for one in found if one["tpot"] is not None]
    met = fmean(one["ttft"] for one in found) <= ttft_slo and (not tpots or fmean(tpots) <= tpot_slo)
    return len(requests) * met / duration


ghost(
    "level04.metrics.goodput",
    "on_average",
    "Judge each request: an average hides those that failed.",
    program=_on_average,
)
