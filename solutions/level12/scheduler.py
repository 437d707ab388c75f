"""Who runs how many tokens in the next step: one rule for prompts, chunks of prompts, decodes and those that come back.

A step lets `computed` catch up with `num_tokens`, as far as its budget of tokens and the blocks of the pool go.
"""

from collections import deque
from collections.abc import Mapping

from .kv_manager import KVCacheManager
from .state import SchedulerOutput, Tracked


class Scheduler:
    """First come, first served, with vLLM's names; its methods are katas of their own.

    max_num_batched_tokens  the budget of a step
    max_num_seqs            that run at once
    max_model_len           of prompt and output: a sequence ends there
    reserve_full            a sequence is let in only if all of its tokens find room, not only those of this step
    long_prefill_threshold  a sequence that is not alone gets at most so many tokens in a step; 0: as many as it wants

    sequences  all that are not finished, by id;  running  in the order in which they were let in;  waiting  a deque;
    kv         a KVCacheManager

    After each schedule() comes its update(), before the next one.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        max_num_batched_tokens: int,
        max_num_seqs: int,
        max_model_len: int = 2**31,
        *,
        enable_caching: bool = True,
        reserve_full: bool = True,
        long_prefill_threshold: int = 0,
    ):
        if max_num_batched_tokens < 1 or max_num_seqs < 1:
            raise ValueError(
                f"a step runs at least 1 token of 1 sequence, not {max_num_batched_tokens} of {max_num_seqs}"
            )
        self.kv = KVCacheManager(num_blocks, block_size, enable_caching)
        self.max_num_batched_tokens, self.max_num_seqs = max_num_batched_tokens, max_num_seqs
        self.max_model_len, self.reserve_full = max_model_len, reserve_full
        self.long_prefill_threshold = long_prefill_threshold
        self.sequences: dict[str, Tracked] = {}
        self.waiting: deque[Tracked] = deque()
        self.running: list[Tracked] = []

    def add(self, sequence: Tracked) -> None:
        """The sequence waits, behind the others. Given. ValueError: its id is in use, it has no tokens or too many."""
        if sequence.id in self.sequences:
            raise ValueError(f"request {sequence.id!r} is not finished yet: give this one another id")
        if not 1 <= len(sequence.prompt) < self.max_model_len:
            raise ValueError(
                f"a prompt has 1 to {self.max_model_len - 1} tokens, so that one can follow, not {len(sequence.prompt)}"
            )
        self.sequences[sequence.id] = sequence
        self.waiting.append(sequence)

    def schedule(self) -> SchedulerOutput:
        """Plan a step, and count its tokens as computed. Given."""
        out = SchedulerOutput()
        left = self.schedule_running(out, self.max_num_batched_tokens)
        self.schedule_waiting(out, left)
        for id, tokens in out.num_scheduled.items():
            sequence = self.sequences[id]
            out.starts[id], out.tables[id] = sequence.computed, self.kv.block_table(sequence)
            sequence.computed += tokens
        return out

    def chunk(self, pending: int, budget: int) -> int:
        """How many of its pending tokens a sequence may run, of a budget. Given."""
        alone = len(self.sequences) == 1
        return min(pending, budget, budget if alone else self.long_prefill_threshold or budget)

    def schedule_running(self, out: SchedulerOutput, budget: int) -> int:
        """Plan tokens for the running sequences, in order, while there is budget; return what is left of it.

        out  gets them in num_scheduled, and the ids of those that have to leave in preempted, in that order

        Each gets the chunk of its pending tokens. While its blocks cannot be had, the *last* of the running sequences
        is preempted, in the end itself: its blocks are freed, none of its tokens counts as computed any more, and it
        waits again, before all others; its output stays. A sequence that was preempted gets nothing in this step.
        Nothing else is changed: `computed` grows in schedule().
        Example: 3 blocks of 4, all in use; r0 and r1 have 4 tokens in the cache, r2 has 3, and each has one to run. r0
        gets the block of r2, which leaves; then r1 is the last one, and leaves: preempted [r2, r1], waiting r1, r2.

        ●● · about 14 lines · needs level12.kv_manager.KVCacheManager.allocate_slots,
        level12.kv_manager.KVCacheManager.free
        """
        # solution:begin from the first to the last; who leaves when there is no block?
        at = 0
        while at < len(self.running) and budget:
            sequence = self.running[at]
            tokens = self.chunk(sequence.pending, budget)
            # subtle: [] is a yes: there is room in its last block
            while self.kv.allocate_slots(sequence, tokens) is None:
                # those behind `at` have no tokens in this step yet, so the last can always leave
                victim = self.running.pop()
                self.preempt(victim)
                out.preempted.append(victim.id)
                if victim is sequence:
                    return budget
            out.num_scheduled[sequence.id] = tokens
            budget -= tokens
            at += 1
        return budget
        # solution:end

    def preempt(self, sequence: Tracked) -> None:
        """Let one that has just left `running` wait, before all others: without blocks, with its output.

        ● · about 3 lines · part of Scheduler.schedule_running
        """
        # solution:begin what is freed, what is to do again, and where does it wait?
        self.kv.free(sequence)
        sequence.computed = 0
        self.waiting.appendleft(sequence)
        # solution:end

    def schedule_waiting(self, out: SchedulerOutput, budget: int) -> int:
        """Let waiting sequences in, in order, and plan their tokens; return what is left of the budget.

        In a step that has preempted somebody nobody is let in. Else, while there is budget and fewer than max_num_seqs
        run: the first one takes what the cache has of it, and gets the chunk of the rest, behind those that run. The
        hit counts as computed once it is in; until then allocate_slots counts it by itself. If its blocks cannot be
        had (with reserve_full: for all of its tokens), it goes on waiting, and so do all behind it.
        Example: budget 16, blocks of 4, prompts of 9 and 10 that begin with the same 8: 9 and 2 tokens, 5 are left.

        ●●● · about 13 lines · needs level12.scheduler.Scheduler.schedule_running
        """
        # solution:begin the first of those that wait, again and again
        if out.preempted:
            return budget  # the blocks that were freed are for those that ran short
        while self.waiting and budget and len(self.running) < self.max_num_seqs:
            sequence = self.waiting[0]
            hit, num_cached = self.kv.get_computed_blocks(sequence)
            tokens = self.chunk(sequence.num_tokens - num_cached, budget)
            if self.kv.allocate_slots(sequence, tokens, hit, self.reserve_full) is None:
                break
            self.running.append(self.waiting.popleft())
            sequence.computed = num_cached
            out.num_scheduled[sequence.id] = tokens
            budget -= tokens
        return budget
        # solution:end

    def update(self, out: SchedulerOutput, sampled: Mapping[str, int]) -> list[str]:
        """Append the tokens that a step has given; return the ids that it finishes, in the order of the batch.

        sampled  a token for each id of out.num_scheduled, or at least for those that are up to date

        Only a sequence all of whose tokens are computed gets its token: in the middle of a prompt there is none. One is
        finished after `limit` tokens, with max_model_len tokens in all, or after one of its stop_ids; it does not run
        any more, its blocks are free, and its id may be used again. Finished ones are freed in that order.
        Example: a prompt of 10 with a budget of 4: the third step gives its first token.

        ●● · about 13 lines · needs level12.scheduler.Scheduler.schedule_waiting
        """
        # solution:begin who is up to date, who is done, and what do those leave behind?
        finished = []
        for id in out.num_scheduled:
            sequence = self.sequences[id]
            if sequence.pending:
                continue
            sequence.output.append(sampled[id])
            full = len(sequence.output) == sequence.limit or sequence.num_tokens == self.max_model_len
            if full or sampled[id] in sequence.stop_ids:
                finished.append(id)
        for id in finished:
            self.abort(id)
        return finished
        # solution:end

    def abort(self, id: str) -> None:
        """Forget a sequence, wherever it is, and free its blocks; nothing happens when it is not there.

        ● · about 6 lines · part of Scheduler.update
        """
        # solution:begin it runs or it waits
        if (sequence := self.sequences.pop(id, None)) is None:
            return
        self.kv.free(sequence)
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        # solution:end

    def undo(self, out: SchedulerOutput) -> None:
        """A step that was planned has failed: nobody may find what it should have written; all start again. Given."""
        for id, start in out.starts.items():
            for block in out.tables[id][start // self.kv.block_size :]:
                self.kv.pool.forget(block)
        while self.running:  # also those that share a block with one of them
            self.preempt(self.running.pop())
