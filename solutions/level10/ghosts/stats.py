"""Known-wrong programs of level10.stats. `ghost` is given when this is read."""

_BEGIN = "begin = times[-1] if times else time"
_SPREAD = "times += [time - (time - begin) * (n - k) / n for k in range(1, n + 1)]"
_LOOP = "for time, n in zip(chunk_times, chunk_tokens):"
_WINDOW = "return [request for request in requests if start <= request[0] < end]"
_NEEDED = "return ceil(round(100 * beyond / (100 - q), 6))"
_PICKS = "picks = rng.integers(len(values), size=(num_resamples, len(values)))"
_FOUND = "found = [float(statistic(row)) for row in values[picks].tolist()]"
_TAIL = "tail = 50 * (1 - level)"
_ENDS = "return percentile(found, tail), percentile(found, 100 - tail)"


def _times(name, sentence, *pairs, **more):
    ghost("level10.stats.token_times", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


def _boot(name, sentence, *pairs, **more):
    ghost("level10.stats.bootstrap_interval", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


# ---- token_times

_times(
    "chunk_is_token",
    "A chunk may bring several tokens, or none: yours takes each chunk for one token.",
    _SPREAD,
    "times.append(time)",
)
_times(
    "at_least_one_token",
    "A chunk of 0 tokens is no token: the role in a chat, counted as one, is a TTFT that nobody has felt.",
    _SPREAD,
    "n = max(n, 1)\n        " + _SPREAD,
)
_times(
    "all_at_the_end",
    "The tokens of a chunk are spread over its gap: yours come all at its end, one gap of 0.4 s and three of 0.",
    _SPREAD,
    "times += [time] * n",
    convention=True,
)
_times(
    "all_but_the_last_at_the_begin",
    "The tokens of a chunk are spread evenly over its gap: yours come all at its beginning, but for the last.",
    _SPREAD,
    "times += [begin] * (n - 1) + [time] * (n > 0)",
)
_times(
    "first_chunk_from_zero",
    "Before the first chunk with tokens there is no gap: all of its tokens come with it.",
    _BEGIN,
    "begin = times[-1] if times else 0.0",
)
_times(
    "first_chunk_from_the_role",
    "A chunk without tokens begins no gap: the tokens of the first one that has some come all with it.",
    _BEGIN,
    "begin = times[-1] if times else chunk_times[0]",
)
_times(
    "empty_chunk_begins_a_gap",
    "A gap begins at the last chunk that brought tokens: an empty one in between changes nothing.",
    _LOOP,
    "last = None\n    for time, n in zip(chunk_times, chunk_tokens):",
    _BEGIN,
    "begin = last if times else time\n        last = time",
)
_times(
    "one_gap_too_few",
    "A chunk of n tokens has n gaps, the first one from the chunk before: yours puts its first token there.",
    _SPREAD,
    "times += [time - (time - begin) * (n - k) / max(n - 1, 1) for k in range(1, n + 1)]",
)
_times(
    "one_gap_too_many",
    "The last token of a chunk comes with the chunk: yours comes before.",
    _SPREAD,
    "times += [begin + (time - begin) * k / (n + 1) for k in range(1, n + 1)]",
)
_times(
    "begins_with_the_chunk_before",
    "A gap ends with the token: yours puts the first of a chunk where the gap begins, and none where it ends.",
    _SPREAD,
    "times += [begin + (time - begin) * k / n for k in range(n)]",
)
_times(
    "first_chunk_is_one_token",
    "All tokens of the first chunk count: yours counts it as one.",
    _SPREAD,
    "n = n if times else min(n, 1)\n        " + _SPREAD,
)
_times(
    "gaps_for_times",
    "The times of the tokens are wanted, not the gaps between them.",
    "return times",
    "return [after - before for before, after in zip(times, times[1:])]",
)
_times(
    "from_the_first_token",
    "Times stand on the client's clock: yours count from the first token, and TTFT is 0.",
    "return times",
    "return [time - times[0] for time in times]",
)
_times(
    "spread_over_the_whole_stream",
    "Each chunk's tokens are spread over its own gap: yours spreads all evenly, and no stall is seen any more.",
    "return times",
    "return [times[0] + (times[-1] - times[0]) * k / max(len(times) - 1, 1) for k in range(len(times))]",
)

# ---- steady_window

_boot(
    "by_the_end",
    "A request belongs to the window in which it was due: chosen by its last token, the slow ones are left out.",
    _WINDOW,
    "return [request for request in requests if request[1] and start <= request[1][-1] < end]",
)
_boot(
    "by_the_first_token",
    "A request belongs to the window in which it was due, not to that of its first token.",
    _WINDOW,
    "return [request for request in requests if request[1] and start <= request[1][0] < end]",
)
_boot(
    "over_within_the_window",
    "Due in the window is enough: yours leaves out those that end after it, the slow ones.",
    _WINDOW,
    "return [request for request in requests if start <= request[0] < end and max(request[1], default=0) < end]",
)
_boot(
    "failed_left_out",
    "A request without tokens was due as well, and counts as failed: yours leaves it out.",
    _WINDOW,
    "return [request for request in requests if start <= request[0] < end and request[1]]",
)
_boot(
    "end_included",
    "The window is half open: whoever was due at its end belongs to the next one.",
    _WINDOW,
    "return [request for request in requests if start <= request[0] <= end]",
)
_boot(
    "start_left_out",
    "The window is half open: whoever was due at its start belongs to it.",
    _WINDOW,
    "return [request for request in requests if start < request[0] < end]",
)
_boot(
    "no_window",
    "At first the server is empty, and at last as well: leave out those that were due then.",
    _WINDOW,
    "return list(requests)",
)
_boot(
    "warm_up_only",
    "At the end the server runs empty: those who were due then are left out, too.",
    _WINDOW,
    "return [request for request in requests if start <= request[0]]",
)
_boot(
    "places_for_times",
    "start and end are seconds, not places in the list.",
    _WINDOW,
    "return list(requests[max(0, int(start)) : int(end)])",
)
_boot(
    "sorted_by_arrival",
    "The requests stay in their order: yours sorts them.",
    _WINDOW,
    "return sorted((request for request in requests if start <= request[0] < end), key=lambda request: request[0])",
)
_boot(
    "until_the_first_after",
    "Requests may stand in any order: yours stops at the first that was due after the window.",
    _WINDOW,
    "from itertools import takewhile\n\n"
    "    return [request for request in takewhile(lambda one: one[0] < end, requests) if start <= request[0]]",
)
_boot(
    "arrivals_alone",
    "The requests are wanted, with their tokens, not their arrivals alone.",
    _WINDOW,
    "return [request[0] for request in requests if start <= request[0] < end]",
)

# ---- tail_samples_needed

_boot("percent_as_fraction", "q is in percent: 99, not 0.99.", _NEEDED, "return ceil(round(beyond / abs(1 - q), 6))")
_boot(
    "one_sample",
    "So many samples have one beyond the percentile: `beyond` of them are wanted.",
    _NEEDED,
    "return ceil(round(100 / (100 - q), 6))",
)
_boot(
    "below_not_beyond",
    "Count the samples beyond the percentile, not those below.",
    _NEEDED,
    "return ceil(round(100 * beyond / max(q, 1e-3), 6))",
)
_boot(
    "two_tails",
    "The samples above are meant, all of them: there is one tail.",
    _NEEDED,
    "return ceil(round(200 * beyond / (100 - q), 6))",
)
_boot(
    "rounded_down", "Round up: one sample fewer is not enough.", _NEEDED, "return int(100 * beyond / (100 - q) + 1e-9)"
)
_boot("rounded_to_nearest", "Round up, not to the nearest.", _NEEDED, "return round(100 * beyond / (100 - q))")
_boot(
    "always_one_more",
    "Where it is even no more are needed: 1000 for the p99, not 1001.",
    _NEEDED,
    "return int(100 * beyond / (100 - q) + 1e-9) + 1",
)
_boot(
    "rounding_costs_one",
    "100 - 99.9 is a little less than 0.1 in floats: an excess of less than a millionth of a sample is rounding.",
    _NEEDED,
    "return ceil(100 * beyond / (100 - q))",
)
_boot(
    "rounded_to_hundredths",
    "An excess of a millionth of a sample or more is no rounding: yours rounds a hundredth away.",
    _NEEDED,
    "return ceil(round(100 * beyond / (100 - q), 2))",
)
_boot("a_float", "A number of samples is an int.", _NEEDED, "return float(ceil(round(100 * beyond / (100 - q), 6)))")

# ---- bootstrap_interval

_boot(
    "spread_of_samples",
    "That is the spread of the values, not of the statistic: with more values it does not shrink.",
    _ENDS,
    "return percentile(values.tolist(), tail), percentile(values.tolist(), 100 - tail)",
)
_boot(
    "without_replacement",
    "Draw with replacement: a permutation of the values always has the same mean.",
    _PICKS,
    "picks = rng.permuted(np.tile(np.arange(len(values)), (num_resamples, 1)), axis=1)",
)
_boot(
    "half_of_the_values",
    "A resample has as many values as there are, drawn with replacement: yours has half of them.",
    _PICKS,
    "picks = rng.integers(len(values), size=(num_resamples, len(values) // 2 or 1))",
)
_boot(
    "one_value_fewer",
    "A resample has as many values as there are: yours lacks one.",
    _PICKS,
    "picks = rng.integers(len(values), size=(num_resamples, len(values) - 1))",
)
_boot(
    "last_value_never_drawn",
    "All values may be drawn: rng.integers leaves out its upper end by itself.",
    _PICKS,
    "picks = rng.integers(len(values) - 1, size=(num_resamples, len(values)))",
)
_boot(
    "normal_draws",
    "Draw the values themselves: their mean and deviation alone know nothing of their tail.",
    _FOUND,
    "found = [float(statistic(row)) for row in rng.normal(values.mean(), values.std(), picks.shape).tolist()]",
)
_boot(
    "one_resample_again_and_again",
    "Each resample is another one: yours is drawn once.",
    _FOUND,
    "found = [float(statistic(row)) for row in values[picks[:1].repeat(num_resamples, 0)].tolist()]",
)
_boot(
    "sorted_resamples",
    "A resample stands in the order in which it was drawn: yours is sorted.",
    _FOUND,
    "found = [float(statistic(sorted(row))) for row in values[picks].tolist()]",
)
_boot(
    "always_the_mean",
    "Any statistic may be asked for: yours is always the mean.",
    _FOUND,
    "found = values[picks].mean(1).tolist()",
)
_boot(
    "an_array_for_a_list",
    "The statistic takes a list of floats: yours gives it an array, and level 04's percentile refuses that.",
    _FOUND,
    "found = [float(statistic(row)) for row in values[picks]]",
)
_boot(
    "level_on_each_side",
    "Both tails share what is outside of `level`: (1 - level) / 2 on each side.",
    _TAIL,
    "tail = 100 * (1 - level)",
)
_boot(
    "level_is_alpha",
    "`level` is the share that lies inside of the interval, not outside.",
    _TAIL,
    "tail = 50 * level",
)
_boot(
    "tail_as_a_fraction",
    "percentile wants percent: with 0.025 for 2.5 % yours are nearly the smallest and the largest.",
    _TAIL,
    "tail = (1 - level) / 2",
)
_boot(
    "one_tail_only",
    "As many resamples lie below low as above high: yours cuts off one tail.",
    _ENDS,
    "return min(found), percentile(found, 100 * level)",
)
_boot(
    "normal_interval",
    "The percentiles of the resamples are wanted: theirs may lie to one side, 1.96 deviations do not.",
    _ENDS,
    "from statistics import NormalDist\n\n"
    "    half = NormalDist().inv_cdf(1 - tail / 100) * float(np.std(found))\n"
    "    middle = float(statistic(values.tolist()))\n"
    "    return middle - half, middle + half",
)
_boot(
    "error_of_the_mean_of_resamples",
    "More resamples show the interval better, and do not shrink it: yours is that of the mean of the resamples.",
    _ENDS,
    "from statistics import NormalDist\n\n"
    "    half = NormalDist().inv_cdf(1 - tail / 100) * float(np.std(found)) / num_resamples**0.5\n"
    "    return float(np.mean(found)) - half, float(np.mean(found)) + half",
)
_boot(
    "reflected",
    "That is the basic interval, reflected at the statistic; Efron's percentile interval is wanted.",
    _ENDS,
    "middle = 2 * float(statistic(values.tolist()))\n"
    "    return middle - percentile(found, 100 - tail), middle - percentile(found, tail)",
    convention=True,
)
_boot(
    "nearest_rank",
    "The ends are level 04's percentiles, between two resamples on the straight line: yours takes one of them.",
    _ENDS,
    "found.sort()\n"
    "    return found[round(tail / 100 * (len(found) - 1))], found[round((1 - tail / 100) * (len(found) - 1))]",
    convention=True,
)
_boot(
    "the_original_is_one_more",
    "The values themselves are no resample: yours counts them as one.",
    _ENDS,
    "found.append(float(statistic(values.tolist())))\n    " + _ENDS,
)
_boot(
    "high_first", "(low, high), in this order.", _ENDS, "return percentile(found, 100 - tail), percentile(found, tail)"
)
_boot(
    "a_list_of_two",
    "The interval is a tuple (low, high).",
    _ENDS,
    "return [percentile(found, tail), percentile(found, 100 - tail)]",
)
_boot(
    "always_a_thousand",
    "num_resamples says how many: yours always takes 1000.",
    _PICKS,
    "num_resamples = 1000\n    " + _PICKS,
)
_boot(
    "a_generator_of_its_own",
    "Draw from `rng`: a generator made inside draws the same resamples for every report.",
    _PICKS,
    "rng = np.random.default_rng(0)\n    " + _PICKS,
)
_boot(
    "global_generator",
    "Draw from `rng`, not from numpy's global generator: the same seed must give the same interval.",
    _PICKS,
    "picks = np.random.randint(len(values), size=(num_resamples, len(values)))",
)
