"""Known-wrong programs of level10.disaggregate. `ghost` is given when this is read."""

_ONE, _TWO = "level10.disaggregate.simulate_colocated", "level10.disaggregate.simulate_disaggregated"
_QUEUE = "queue = sorted(range(len(requests)), key=lambda i: requests[i][0])  # sorts are stable"
_IDLE = "if not active:\n            now = max(now, requests[queue[0]][0])"
_NEXT = "if queue and requests[queue[0]][0] <= now:"
_PROMPT = "chosen, now = [queue.pop(0)], now + prefill_seconds"
_JOIN = "active += chosen"
_STEP = "chosen, now = active, now + step_seconds"
_KEEP = "active = [i for i in active if len(times[i]) < requests[i][1]]"
_ORDER = "for i in sorted(range(len(requests)), key=lambda i: requests[i][0]):"
_PREFILL = "now = max(now, requests[i][0]) + prefill_seconds\n        times[i].append(now)"
_READY = "ready = {i: times[i][0] + transfer_seconds for i in range(len(requests))}"
_LEFT = "left = {i for i in ready if requests[i][1] > 1}\n    now = 0.0"
_WAIT = "now = max(now, min(ready[i] for i in left))  # idle until somebody's cache is there"
_CHOSEN = "chosen = [i for i in left if ready[i] <= now]"
_DECODE = "now += step_seconds"
_TOKENS = "for i in chosen:\n            times[i].append(now)"
_DONE = "left -= {i for i in chosen if len(times[i]) >= requests[i][1]}"
_KV = "return latency_seconds + num_tokens * kv_bytes_per_token / bandwidth"


def _one(name, sentence, *pairs):
    ghost(_ONE, name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _two(name, sentence, *pairs):
    ghost(_TWO, name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- simulate_colocated

_one(
    "decode_first",
    "Prefill first: yours finishes one request before the next begins, and its steps serve only one.",
    _NEXT,
    "if queue and not active:",
)
_one(
    "no_interference",
    "One device does one thing at a time: while a prompt is prefilled nobody gets a token, and the next one waits.",
    _QUEUE,
    "for i, (arrival, tokens) in enumerate(requests):\n"
    "        times[i] = [arrival + prefill_seconds + k * step_seconds for k in range(tokens)]\n"
    "    queue = []",
)
_one(
    "streams_go_on_during_a_prefill",
    "One device does one thing at a time: a stream stops while another's prompt is prefilled.",
    _QUEUE,
    "free = 0.0\n"
    "    for i in sorted(range(len(requests)), key=lambda i: requests[i][0]):\n"
    "        free = max(free, requests[i][0]) + prefill_seconds\n"
    "        times[i] = [free + k * step_seconds for k in range(requests[i][1])]\n"
    "    queue = []",
)
_one(
    "batch_runs_to_its_end",
    "A prompt that waits is next as soon as the device is free: yours takes new ones when all who run are done.",
    "now = 0.0",
    "now, filling = 0.0, True",
    _NEXT,
    "if queue and requests[queue[0]][0] <= now and (filling or not active):",
    _JOIN,
    "active += chosen\n            filling = True",
    _STEP,
    "chosen, now, filling = active, now + step_seconds, False",
)
_one(
    "one_token_a_step",
    "A step takes all who have begun and are not done: yours serves one of them.",
    _STEP,
    "chosen, now = active[:1], now + step_seconds",
)
_one(
    "eight_at_most",
    "Every prompt that waits is next, however many are active: yours waits while 8 are.",
    _NEXT,
    "if queue and requests[queue[0]][0] <= now and len(active) < 8:",
)
_one(
    "a_step_for_each",
    "A step takes its time once, for all who take part: yours takes it for each of them.",
    _STEP,
    "chosen, now = active, now + step_seconds * len(active)",
)
_one(
    "all_prompts_at_once",
    "One prompt after the other: yours prefills all that wait in the time of one.",
    _PROMPT,
    "chosen, now = [i for i in queue if requests[i][0] <= now], now + prefill_seconds\n"
    "            queue = [i for i in queue if i not in chosen]",
)
_one(
    "a_prefill_serves_all",
    "A prefill gives a token to its own request alone: yours is a step for all others as well.",
    _PROMPT,
    "chosen, now = [*active, queue.pop(0)], now + prefill_seconds",
    _JOIN,
    "active = list(chosen)",
)
_one(
    "prefill_is_part_of_the_step",
    "A prompt and a step take their time one after the other: yours decodes all while it prefills.",
    _PROMPT,
    "chosen, now = [*active, queue.pop(0)], now + prefill_seconds + step_seconds * bool(active)",
    _JOIN,
    "active = list(chosen)",
)
_one(
    "a_step_after_each_prefill",
    "Prefill first, as long as a prompt waits: yours runs a step after each.",
    "now = 0.0",
    "now, stepped = 0.0, True",
    _NEXT,
    "if queue and requests[queue[0]][0] <= now and (stepped or not active):",
    _JOIN,
    "active += chosen\n            stepped = False",
    _STEP,
    "chosen, now, stepped = active, now + step_seconds, True",
)
_one(
    "just_arrived_waits",
    "A prompt that arrives at the very moment when the device is free is next.",
    _NEXT,
    "if queue and (requests[queue[0]][0] < now or not active):",
)
_one(
    "new_one_joins_late",
    "Whoever has its first token takes part in the next step: yours sits one out.",
    "active: list[int] = []",
    "active: list[int] = []\n    fresh: list[int] = []",
    _STEP,
    "chosen, now = [i for i in active if i not in fresh] or active, now + step_seconds\n            fresh = []",
    _JOIN,
    "active += chosen\n            fresh = chosen",
)
_one(
    "before_it_arrives",
    "A prompt can't be prefilled before it is there: an idle device waits for it.",
    _IDLE,
    "pass",
    _NEXT,
    "if queue and (requests[queue[0]][0] <= now or not active):",
)
_one(
    "back_in_time",
    "The clock never goes back: a prompt that came while the device was busy starts when it is free.",
    _IDLE,
    "if not active:\n            now = requests[queue[0]][0]",
)
_one(
    "waits_for_the_next_prompt",
    "No pause while there is work: yours decodes nobody while it waits for the next prompt.",
    _IDLE,
    "if queue:\n            now = max(now, requests[queue[0]][0])",
)
_one(
    "by_place",
    "The earliest prompt goes first: the requests need not stand in the order of their arrivals.",
    _QUEUE,
    "queue = list(range(len(requests)))",
)
_one(
    "latest_first",
    "Of the prompts that wait the earliest goes first, not the latest.",
    _PROMPT,
    "last = max((i for i in queue if requests[i][0] <= now), key=lambda i: requests[i][0])\n"
    "            queue.remove(last)\n"
    "            chosen, now = [last], now + prefill_seconds",
)
_one(
    "shortest_first",
    "Of the prompts that wait the earliest goes first: how many tokens it will get nobody knows.",
    _PROMPT,
    "best = min((i for i in queue if requests[i][0] <= now), key=lambda i: requests[i][1])\n"
    "            queue.remove(best)\n"
    "            chosen, now = [best], now + prefill_seconds",
)
_one(
    "ties_by_length",
    "Two that arrive at the same time stay in the order of the requests: yours sorts them by their tokens.",
    _QUEUE,
    "queue = sorted(range(len(requests)), key=lambda i: requests[i])",
)
_one(
    "ties_from_the_last",
    "Of two that arrive at the same time the first of the requests goes first.",
    _QUEUE,
    "queue = sorted(range(len(requests)), key=lambda i: (requests[i][0], -i))",
)
_one(
    "in_order_of_arrival",
    "Results stand in the order of the requests, not of their arrivals.",
    "return times",
    "return [times[i] for i in sorted(range(len(requests)), key=lambda i: requests[i][0])]",
)
_one(
    "one_token_too_many",
    "The prefill's token is the first of them: yours decodes as many more as the request gets in all.",
    _KEEP,
    "active = [i for i in active if len(times[i]) <= requests[i][1]]",
)
_one(
    "prefill_gives_no_token",
    "A prefill gives the first token: yours waits for the step after it.",
    "for i in chosen:",
    "for i in [] if chosen is prompt else chosen:",
    "now = 0.0",
    "now, prompt = 0.0, None",
    _JOIN,
    "active += chosen\n            prompt = chosen",
)
_one(
    "a_token_when_it_begins",
    "A token is there when its prefill or step is over, not when it begins.",
    "for i in chosen:\n            times[i].append(now)",
    "for i in chosen:\n            times[i].append(began)",
    _NEXT,
    "began = now\n        if queue and requests[queue[0]][0] <= now:",
)
_one(
    "since_the_arrival",
    "The times of the tokens are wanted, on the clock, not how long after its arrival each one came.",
    "return times",
    "return [[time - arrival for time in got] for got, (arrival, _) in zip(times, requests)]",
)
_one(
    "gaps_for_times",
    "The times of the tokens are wanted, not the gaps between them.",
    "return times",
    "return [[after - before for before, after in zip([arrival, *got], got)] for got, (arrival, _) in"
    " zip(times, requests)]",
)

# ---- kv_transfer_seconds

_two(
    "bits",
    "bandwidth is in bytes per second: a link of 400 Gb/s carries 50e9.",
    _KV,
    "return latency_seconds + 8 * num_tokens * kv_bytes_per_token / bandwidth",
)
_two(
    "bits_the_other_way",
    "bandwidth is in bytes per second already: yours divides the bytes by 8.",
    _KV,
    "return latency_seconds + num_tokens * kv_bytes_per_token / 8 / bandwidth",
)
_two(
    "no_latency",
    "Before the first byte comes the latency passes: yours leaves it out.",
    _KV,
    "return num_tokens * kv_bytes_per_token / bandwidth",
)
_two(
    "latency_per_token",
    "All tokens travel together: one transfer, one latency.",
    _KV,
    "return num_tokens * (latency_seconds + kv_bytes_per_token / bandwidth)",
)
_two(
    "latency_there_and_back",
    "The cache goes one way: the latency once, not twice.",
    _KV,
    "return 2 * latency_seconds + num_tokens * kv_bytes_per_token / bandwidth",
)
_two(
    "latency_or_bytes",
    "The bytes come after the latency: their times are added, and not the longer one taken.",
    _KV,
    "return max(latency_seconds, num_tokens * kv_bytes_per_token / bandwidth)",
)
_two(
    "one_token_travels",
    "The cache has every token of the prompt: yours sends one.",
    _KV,
    "return latency_seconds + kv_bytes_per_token / bandwidth",
)
_two(
    "an_empty_one_is_free",
    "Without tokens the latency is left.",
    _KV,
    "return (latency_seconds + num_tokens * kv_bytes_per_token / bandwidth) * (num_tokens > 0)",
)

# ---- simulate_disaggregated

_two(
    "transfer_before_the_first",
    "The first token is known where the prompt was: the transfer delays the second.",
    "return times",
    "return [[got[0] + transfer_seconds, *got[1:]] for got in times]",
)
_two(
    "free_transfer",
    "The KV cache has to travel before it can be read.",
    _READY,
    _READY.replace(" + transfer_seconds", ""),
)
_two(
    "transfer_each_step",
    "The cache moves once, not at every step.",
    _DECODE,
    "now += step_seconds + (transfer_seconds if any(len(times[i]) > 1 for i in chosen) else 0)",
)
_two(
    "one_cache_at_a_time",
    "A cache travels whoever else's does: yours waits until the link is free.",
    _LEFT,
    "free = 0.0\n"
    "    for i in sorted(ready, key=lambda i: times[i][0]):\n"
    "        if requests[i][1] > 1:\n"
    "            free = ready[i] = max(free, times[i][0]) + transfer_seconds\n"
    "    " + _LEFT,
)
_two(
    "prefill_waits_for_the_link",
    "While a cache travels the first device prefills the next prompt: yours waits until it is there.",
    _PREFILL,
    _PREFILL + "\n        now += transfer_seconds * (requests[i][1] > 1)",
)
_two(
    "one_device_after_all",
    "Two devices: the second's steps and the first's prefills do not wait for each other.",
    _READY,
    "ready = {i: max(got[0] for got in times) + transfer_seconds for i in range(len(requests))}",
)
_two(
    "joins_during_a_step",
    "A cache that comes during a step waits for the next: yours gets a token from a step that began without it.",
    _CHOSEN,
    "chosen = [i for i in left if ready[i] < now + step_seconds or ready[i] <= now]",
)
_two(
    "chosen_at_the_end_of_a_step",
    "A step takes those who were there when it began: yours looks at its end, and finds others that came meanwhile.",
    _CHOSEN,
    "chosen = [i for i in left if ready[i] <= now + step_seconds]",
)
_two(
    "just_there_waits",
    "A cache that is there at the very moment when a step begins is part of it.",
    _CHOSEN,
    "chosen = [i for i in left if ready[i] < now] or [i for i in left if ready[i] <= now]",
)
_two(
    "no_batching",
    "A step takes all whose cache is there, and begins when the last one is over: yours has steps for each alone.",
    _LEFT,
    "for i, (_, tokens) in enumerate(requests):\n"
    "        times[i] += [ready[i] + (k + 1) * step_seconds for k in range(tokens - 1)]\n"
    "    left, now = set(), 0.0",
)
_two(
    "one_token_a_step",
    "A step gives a token to all whose cache is there: yours to the first of them.",
    _CHOSEN,
    "chosen = sorted((i for i in left if ready[i] <= now), key=lambda i: (ready[i], i))[:1]",
)
_two(
    "eight_at_most",
    "A step takes all whose cache is there, however many they are: yours takes 8.",
    _CHOSEN,
    "chosen = sorted((i for i in left if ready[i] <= now), key=lambda i: (ready[i], i))[:8]",
)
_two(
    "a_step_for_each",
    "A step takes its time once, for all who take part.",
    _DECODE,
    "now += step_seconds * len(chosen)",
)
_two(
    "batch_runs_to_its_end",
    "Whoever's cache is there joins the next step: yours waits until all who run are done.",
    _CHOSEN,
    "chosen = [i for i in left if 1 < len(times[i])] or [i for i in left if ready[i] <= now]",
)
_two(
    "steps_by_the_grid",
    "An idle device begins a step as soon as a cache is there, not at the next multiple of step_seconds.",
    _WAIT,
    "now = max(now, min(ready[i] for i in left))\n"
    "        now = -(-now // step_seconds) * step_seconds if step_seconds else now",
)
_two(
    "one_token_travels_too",
    "A request of one token is done with its prefill: yours gives it a second one.",
    "left = {i for i in ready if requests[i][1] > 1}",
    "left = set(ready)",
)
_two(
    "one_token_too_many",
    "The prefill's token is the first of them: yours decodes as many more as the request gets in all.",
    _DONE,
    "left -= {i for i in chosen if len(times[i]) > requests[i][1]}",
)
_two(
    "prefill_gives_no_token",
    "A prefill gives the first token: yours makes it with a step, behind the transfer.",
    _LEFT,
    "left, now, times = set(ready), 0.0, [[] for _ in requests]",
)
_two(
    "prefills_side_by_side",
    "The first device prefills one prompt after the other: yours has a device for each.",
    _PREFILL,
    _PREFILL.replace("max(now, requests[i][0])", "requests[i][0]"),
)
_two(
    "before_it_arrives",
    "A prompt can't be prefilled before it is there: an idle device waits for it.",
    _PREFILL,
    _PREFILL.replace("max(now, requests[i][0])", "now"),
)
_two(
    "steps_go_back_in_time",
    "A step begins when the last one is over: yours begins when the first cache came, even if that is over.",
    _WAIT,
    "now = max(0.0, min(ready[i] for i in left))\n"
    "        now = max([now, *(times[i][-1] for i in left if len(times[i]) > 1)])",
)
_two(
    "waits_for_all_caches",
    "Steps begin when the first cache is there: yours waits for the caches of all.",
    _LEFT,
    "left = {i for i in ready if requests[i][1] > 1}\n    now = max((ready[i] for i in left), default=0.0)",
)
_two(
    "by_place",
    "The earliest prompt goes first: the requests need not stand in the order of their arrivals.",
    _ORDER,
    "for i in range(len(requests)):",
)
_two(
    "ties_by_length",
    "Two that arrive at the same time stay in the order of the requests: yours sorts them by their tokens.",
    _ORDER,
    "for i in sorted(range(len(requests)), key=lambda i: requests[i]):",
)
_two(
    "ties_from_the_last",
    "Of two that arrive at the same time the first of the requests goes first.",
    _ORDER,
    "for i in sorted(range(len(requests)), key=lambda i: (requests[i][0], -i)):",
)
_two(
    "in_order_of_arrival",
    "Results stand in the order of the requests, not of their arrivals.",
    "return times",
    "return [times[i] for i in sorted(range(len(requests)), key=lambda i: requests[i][0])]",
)
_two(
    "a_token_when_a_step_begins",
    "A token is there when its step is over, not when it begins.",
    _TOKENS,
    _TOKENS.replace("append(now)", "append(now - step_seconds)"),
)
_two(
    "transfer_hidden_behind_the_prefill",
    "The cache leaves when the prefill is done: yours is there at once if the prefill took long enough.",
    _READY,
    "ready = {i: times[i][0] + max(0.0, transfer_seconds - prefill_seconds) for i in range(len(requests))}",
)
