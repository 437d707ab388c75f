"""What vLLM's own scheduler did, step by step, and what another one does with the same requests. Given.

A trace is a dict: the settings of a scheduler, the prompts of requests r0, r1, … that are all there before the first
step, the token that every request is given whenever it gets one, and the steps.
"""

from collections.abc import Mapping

from .scheduler import Scheduler
from .state import Tracked

SIZES = ("num_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len")
OPTIONS = ("enable_caching", "reserve_full", "long_prefill_threshold")


def replay(trace: Mapping, make: type[Scheduler] = Scheduler) -> list[dict]:
    """The steps of a scheduler on the requests of a trace, as many as the trace has and in its format.

    num_scheduled  [[id, tokens]], in the order of the batch;  preempted, finished  ids, sorted
    tables         block table of each that runs;  free_queue  after the step
    """
    scheduler = make(*(trace[name] for name in SIZES), **{name: trace[name] for name in OPTIONS})
    for i, prompt in enumerate(trace["prompts"]):
        scheduler.add(Tracked(f"r{i}", list(prompt), limit=trace["max_tokens"]))
    steps = []
    for _ in trace["steps"]:
        out = scheduler.schedule()
        finished = scheduler.update(out, dict.fromkeys(out.num_scheduled, trace["sampled_token"]))
        steps.append(
            {
                "num_scheduled": [[id, tokens] for id, tokens in out.num_scheduled.items()],
                "preempted": sorted(out.preempted),
                "free_queue": scheduler.kv.pool.free_ids(),
                "finished": sorted(finished),
                "tables": out.tables,
            }
        )
    return steps


def first_difference(right: list[dict], yours: list[dict]) -> str:
    """ "step 3, tables: …" where they differ first, or "" if they are equal."""
    for number, (a, b) in enumerate(zip(right, yours), 1):
        for column in a:
            if a[column] != b[column]:
                return f"step {number}, {column}: {b[column]}, and vLLM has {a[column]}"
    return "" if len(right) == len(yours) else f"{len(yours)} steps, and vLLM has {len(right)}"
