"""The worksheet of level 05: right values by trying batch after batch, step after step, from Llama-2-13B's shapes."""

from itertools import count
from math import prod

import numpy
import pytest

from dojo.models import Config, shapes

LLAMA2 = Config(40, 5120, 40, 40, 128, 13824, 32000, tie_embeddings=False)  # 13B
SIZES = {name: prod(shape) for name, shape in shapes(LLAMA2).items() if name != "model.embed_tokens.weight"}
BANDWIDTH, PEAK = 2.039e12, 312e12  # an A100


def reading(contexts):
    """Seconds: all weights once; of each cached token a key and a value in every layer and head. All in bfloat16."""
    entries = sum(LLAMA2.head_dim * LLAMA2.n_kv_heads for _ in range(LLAMA2.n_layers) for _ in "kv")
    return 2 * (sum(SIZES.values()) + sum(context * entries for context in contexts)) / BANDWIDTH


def computing(contexts):
    """Seconds: for each sequence two FLOPs a weight; a score and a weighted sum with each key, in every query head."""
    matrices = sum(size for name, size in SIZES.items() if "norm" not in name)
    pair = LLAMA2.n_layers * LLAMA2.n_heads * (2 * LLAMA2.head_dim + 2 * LLAMA2.head_dim)
    return sum(2 * matrices + context * pair for context in contexts) / PEAK


@pytest.mark.kata("level05.worksheet.step_ms")
def test_a_ragged_step_waits_for_all_of_its_caches(answer):
    """One long conversation slows down the short ones beside it. Oracle: the model's shapes, summed up."""
    contexts = [150, 600, 1000, 2400, 3350]
    answer("step_ms").equals(1e3 * max(reading(contexts), computing(contexts)), rel=0.01)


@pytest.mark.kata("level05.worksheet.flip_sequences")
def test_the_first_batch_that_computes_as_long_as_it_reads(answer):
    """Beyond it a larger batch makes each sequence slower in proportion. Oracle: try batch after batch."""
    first = next(batch for batch in count(1) if computing([80] * batch) >= reading([80] * batch))
    answer("flip_sequences").equals(first, rel=0.01)


@pytest.mark.kata("level05.worksheet.last_context")
def test_from_some_context_on_no_batch_is_large_enough(answer):
    """So there decode stays memory-bound, whatever fits. Oracle: at which contexts does a batch of 10 million flip?"""
    batch = 10**7  # then the weights are 1.3 ns of each sequence's time, and one more token of context changes 399

    def flips(context):
        one_more = computing([context]) - (reading([context]) - reading([]))
        return batch * one_more >= reading([])

    answer("last_context").equals(max(context for context in range(1, 1000) if flips(context)), rel=0.01)


@pytest.mark.kata("level05.worksheet.most_tokens")
def test_throughput_has_a_limit_that_only_the_caches_set(answer):
    """More memory does not lift it, a smaller cache does. Oracle: a batch of a billion, whose weights do not count."""
    batch = 10**9
    caches = batch * (reading([1500]) - reading([]))
    answer("most_tokens").equals(batch / (reading([]) + caches), rel=0.01)


@pytest.mark.kata("level05.worksheet.measured_flip")
def test_where_all_sequences_cost_as_much_as_the_fixed_part(answer):
    """Half of the throughput that this machine can give. Oracle: numpy.polyfit."""
    per_sequence, fixed = numpy.polyfit([1, 2, 4, 8, 16], [22.5, 24, 27, 33, 45], 1)
    answer("measured_flip").equals(fixed / per_sequence, rel=0.01)


@pytest.mark.kata("level05.worksheet.saved_steps")
def test_refilling_saves_steps(answer):
    """The same machine serves more users. Oracle: three slots, step after step; and the longest of each three."""
    outputs = [6, 25, 4, 10, 30, 5, 8, 12, 20]
    static = sum(max(outputs[i : i + 3]) for i in range(0, len(outputs), 3))
    waiting, slots, steps = list(outputs), [0, 0, 0], 0
    while waiting or any(slots):
        slots = [left or (waiting.pop(0) if waiting else 0) for left in slots]
        slots, steps = [max(0, left - 1) for left in slots], steps + 1
    answer("saved_steps").equals(static - steps, rel=0.01)


@pytest.mark.kata("level05.worksheet.prompt_steps")
def test_decodes_leave_less_of_the_budget(answer):
    """What a long prompt pays so that nobody else stalls. Oracle: step after step, until nothing is left of it."""
    left, steps = 10_000, 0
    while left > 0:
        left, steps = left - (512 - 96), steps + 1
    answer("prompt_steps").equals(steps, rel=0.01)


@pytest.mark.kata("level05.worksheet.running_at_once")
def test_as_many_run_as_arrive_while_one_runs(answer):
    """So large max_seqs has to be, and memory for so many caches. Oracle: single arrivals, counted at one moment."""
    starts = [arrival / 18 + 0.7 for arrival in range(1800)]
    answer("running_at_once").equals(sum(start <= 50 < start + 3.5 for start in starts), rel=0.01)
