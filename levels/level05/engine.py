"""Continuous batching: requests come and go between steps, and each gets the tokens that it would get alone."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from torch import Tensor

from dojo.models import Config
from level00.transformer import Params
from level01.generate import allowed_tokens
from level02.cache import KVCache
from level03.sampler import SamplingParams, choose_tokens

from .packed import packed_step
from .scheduler import Running, plan_step

GREEDY = SamplingParams(temperature=0.0)


@dataclass(frozen=True)
class Request:
    """What a client asks for: a prompt of token ids, how to choose tokens, and which ids end the answer."""

    id: str
    prompt: list[int]
    sampling: SamplingParams = GREEDY
    stop_ids: Collection[int] = ()


@dataclass
class Active(Running):
    """A request inside this engine, with what only the engine needs; its cache comes with its first step."""

    request: Request = None
    limit: int = 0  # of new tokens
    cache: KVCache | None = field(default=None, repr=False)


class Engine:
    """Serves many requests at once, on one model.

    add(request)       takes a request, with a copy of its prompt; it waits until a step has room for it
    step()             runs one pass over what `plan_step` plans, and returns [(request id, token, finished)]: a token
                       for each sequence whose tokens have all run, in the order of the plan; [] and no pass when there
                       is no work
    abort(request_id)  forgets a request, waiting or running; nothing happens when it is not there (any more)
    unfinished         number of requests that wait or run

    Tokens are chosen by level 03's choose_tokens, with each request's own params and output. A request is finished
    after sampling.max_tokens tokens, at the model's last position, or after one of its stop_ids, which is its last
    token; the next step may use its place. Every token of prompt and output runs once, the last of an output never.
    Requests wait and run in the order in which they were added. A request's cache is made for its first step, with room
    for its prompt and its `limit` new tokens (the last needs none), and is let go of with the request; one that has a
    method release(), because its memory is somebody else's, is released then. Stop strings are not looked at here.
    Example: token_budget 4, prompts of 3 and 2: the first step runs 3 + 1 tokens and returns one token, of the first.
    ValueError: an id that is still in use, an empty prompt, one that leaves no room for a token, max_tokens below 1.

    ●●● · about 17 lines · needs level05.packed.packed_step, level05.scheduler.plan_step
    """

    def __init__(
        self,
        params: Params,
        config: Config,
        token_budget: int = 256,
        max_seqs: int = 32,
        *,
        run: Callable = packed_step,
        new_cache: Callable | None = None,
    ):
        """run(params, config, caches, chunks) is one pass; new_cache(room) makes the cache of one sequence, a KVCache
        in the type of the params unless another is given.
        """
        if token_budget < 1 or max_seqs < 1:
            raise ValueError(f"a step runs at least 1 token of 1 sequence, not {token_budget} of {max_seqs}")
        self.params, self.config, self.run = params, config, run
        self.token_budget, self.max_seqs = token_budget, max_seqs
        dtype = params["model.embed_tokens.weight"].dtype
        self.new_cache = new_cache or (lambda room: KVCache(config, 1, room, dtype))
        self.waiting: list[Active] = []
        self.running: list[Active] = []

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.running)

    def add(self, request: Request) -> None:
        limit = allowed_tokens(self.config, request.prompt, request.sampling.max_tokens)
        if limit < 1:
            raise ValueError(
                f"request {request.id!r} has no room for a new token: a shorter prompt, or max_tokens of 1"
            )
        if request.id in {sequence.id for sequence in self.waiting + self.running}:
            raise ValueError(f"request {request.id!r} is not finished yet: give this one another id")
        self.waiting.append(Active(request.id, list(request.prompt), request=request, limit=limit))

    def abort(self, request_id: str) -> None:
        # TODO: wherever it is, and with it the memory that it holds
        raise NotImplementedError("level05.engine.Engine")

    def step(self) -> list[tuple[str, int, bool]]:
        # TODO: plan, admit, run, choose for those that are ready, let go
        raise NotImplementedError("level05.engine.Engine")

    def _emit(self, ready: list[Active], logits: Tensor) -> list[tuple[str, int, bool]]:
        """Choose a token for each sequence, append it, and let go of those that it finishes. Given."""
        if not ready:
            return []
        params = [sequence.request.sampling for sequence in ready]
        tokens = choose_tokens(logits, [s.prompt for s in ready], [s.output for s in ready], params).tolist()
        events = []
        for sequence, token in zip(ready, tokens):
            sequence.output.append(token)
            done = token in sequence.request.stop_ids or len(sequence.output) == sequence.limit
            events.append((sequence.id, token, done))
        gone = {id for id, _, done in events if done}
        self._release(gone)
        self.running = [sequence for sequence in self.running if sequence.id not in gone]
        return events

    def _release(self, ids: Collection[str]) -> None:
        """Give back the memory of those that run: level 06's caches hold blocks of a pool. Given."""
        for sequence in self.running:
            if sequence.id in ids and hasattr(sequence.cache, "release"):
                sequence.cache.release()
