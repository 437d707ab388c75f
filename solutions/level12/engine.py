"""A small vLLM: the scheduler says who runs, one pass runs them, and each gets the tokens that it would get alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

import level05.engine
from dojo.models import Config
from level00.transformer import Params
from level01.generate import allowed_tokens
from level03.sampler import SamplingParams, choose_tokens
from level06.blocks import blocks_needed
from level06.paged import Pool

from .batch import build_batch
from .paged import paged_step
from .scheduler import Scheduler
from .state import Tracked


@dataclass(frozen=True)
class Request(level05.engine.Request):
    """Level 05's, and who may share its cached blocks: those with the same salt. The engine takes either. Given."""

    salt: bytes = b""


@dataclass
class Active(Tracked):
    """A request inside this engine."""

    sampling: SamplingParams | None = None


class Engine:
    """Serves many requests at once, on one model and one pool of blocks: level 05's engine, with the same methods.

    add(request)       takes a request, with a copy of its prompt; it waits until the scheduler lets it in
    step()             runs one pass over what the scheduler plans, and returns [(request id, token, finished)]: a token
                       for each sequence whose tokens have all run, in the order of the batch; [] and no pass when there
                       is no work
    abort(request_id)  forgets a request, waiting, running or preempted; nothing happens when it is not there (any more)
    unfinished         number of requests that wait or run

    Tokens are chosen by level 03's choose_tokens, with each request's own params, prompt and output. A request is
    finished after sampling.max_tokens tokens, at the last position of the model or of the scheduler's max_model_len, or
    after one of its stop_ids, which is its last token. Whatever is cut into chunks, found in the cache, preempted and
    computed again: a request gets the tokens that it would get alone, each once. Stop strings are not looked at here.
    Example: 4 usable blocks of 4, two prompts of 4 with 9 tokens to come: one is preempted, and both get all their 9.
    ValueError: an id that is still in use; an empty prompt, one that leaves no room for a token, max_tokens below 1;
    more tokens, all but the last of those it may get, than the whole pool has room for.

    ●●● · about 15 lines · needs level12.batch.build_batch, level12.paged.decode_attention,
    level12.scheduler.Scheduler.update
    """

    def __init__(self, params: Params, config: Config, scheduler: Scheduler, *, run: Callable = paged_step, pool=None):
        """run(params, config, pool, batch) is one pass; pool is a level 06 Pool in the type of the params unless
        another is given.
        """
        self.params, self.scheduler, self.run = params, scheduler, run
        self.config = replace(config, max_seq_len=min(config.max_seq_len, scheduler.max_model_len))
        self.num_blocks, self.block_size = scheduler.kv.pool.num_blocks, scheduler.kv.block_size
        dtype = params["model.embed_tokens.weight"].dtype
        self.pool = Pool(config, self.num_blocks, self.block_size, dtype) if pool is None else pool

    @property
    def unfinished(self) -> int:
        return len(self.scheduler.sequences)

    def add(self, request: level05.engine.Request) -> None:
        prompt, limit = list(request.prompt), allowed_tokens(self.config, request.prompt, request.sampling.max_tokens)
        if limit < 1:
            raise ValueError(
                f"request {request.id!r} has no room for a new token: a shorter prompt, or max_tokens of 1"
            )
        if (needed := blocks_needed(len(prompt) + limit - 1, self.block_size)) >= self.num_blocks:
            raise ValueError(
                f"request {request.id!r} may fill {needed} blocks, and the whole pool has {self.num_blocks - 1}: "
                "a shorter prompt, or fewer max_tokens"
            )
        # solution:begin what does the scheduler have to know of it?
        salt = getattr(request, "salt", b"")
        self.scheduler.add(Active(request.id, prompt, [], 0, limit, request.stop_ids, salt, sampling=request.sampling))
        # solution:end

    def abort(self, request_id: str) -> None:
        # solution:begin who holds its blocks?
        self.scheduler.abort(request_id)
        # solution:end

    def step(self) -> list[tuple[str, int, bool]]:
        # solution:begin plan, run, choose for those that are up to date, tell the scheduler
        out = self.scheduler.schedule()
        if not out.num_scheduled:
            return []
        chosen = [self.scheduler.sequences[id] for id in out.num_scheduled]
        logits = self._run(out, build_batch(out, self.scheduler.sequences, self.block_size))
        # subtle: in the middle of a prompt there is a row of logits, and nothing to choose
        ready = [row for row, sequence in enumerate(chosen) if not sequence.pending]
        tokens = self._choose(logits[ready], [chosen[row] for row in ready])
        sampled = {chosen[row].id: token for row, token in zip(ready, tokens)}
        finished = self.scheduler.update(out, sampled)
        return [(id, token, id in finished) for id, token in sampled.items()]
        # solution:end

    def _run(self, out, batch) -> Tensor:
        """The logits of the batch. When the pass fails the plan is undone, or its blocks would be found. Given."""
        try:
            return self.run(self.params, self.config, self.pool, batch)
        except BaseException:
            self.scheduler.undo(out)
            raise

    def _choose(self, logits: Tensor, sequences: list[Active]) -> list[int]:
        """choose_tokens for each; where all want the best token and nothing else, the same in one go. Given."""
        plain = SamplingParams(temperature=0.0)
        same = {"max_tokens": plain.max_tokens, "seed": plain.seed, "stop": plain.stop}
        if all(replace(sequence.sampling, **same) == plain for sequence in sequences):
            return logits.argmax(-1).tolist()
        prompts, outputs = [s.prompt for s in sequences], [s.output for s in sequences]
        return choose_tokens(logits, prompts, outputs, [s.sampling for s in sequences]).tolist()
