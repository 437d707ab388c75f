"""The loop of level 01, several tokens to a pass: draft, run the draft behind what is there, keep what was right."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from dojo.models import Config
from level00.transformer import Params, forward
from level01.generate import Choose, allowed_tokens, greedy
from level01.simple_cache import SimpleCache

from .verify import verify_choices

Propose = Callable[[list[int], int], Sequence[int]]


@dataclass(frozen=True)
class Round:
    """What one pass gave: its new tokens, how many were drafted, and how many of the new ones are the draft's."""

    tokens: list[int]
    proposed: int
    accepted: int


def speculate(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    max_tokens: int,
    propose: Propose,
    gamma: int,
    stop_ids: Collection[int] = (),
    cache=None,
    *,
    choose: Choose = greedy,
    forward: Callable = forward,
) -> Iterator[Round]:
    """Yield a Round for each pass of the target; the tokens of all rounds are those of level 01's `stream`.

    propose   propose(tokens, k) gets prompt and output so far, in a list that it may change, and gives a sequence of up
              to k tokens that may follow; what it gives beyond k is ignored. It is called once in a round, and not for
              k = 0
    gamma     the most tokens to draft in a round, 0 or more. A round never makes more than max_tokens allows: with n
              tokens to go, at most n - 1 are drafted
    stop_ids  the first one in the output is its last token, also when it is a drafted one
    cache     as in `stream`: None makes a SimpleCache; one that is given receives the tokens, after those that it holds

    A round is one call of `forward`, over the tokens that the cache does not hold yet (in the first round the whole
    prompt, later the newest token) and the draft behind them. `choose(logits, [prompt], [output])` gets the logits
    (1, vocab) of one position, with the drafted tokens before it in the output, and is called for no position behind
    the first wrong one. When a round is yielded, the cache holds all tokens but the newest, and nothing else.
    Example: gamma 2, 3 tokens, a draft that is always right: one pass over the prompt and 2 drafted tokens yields them
    and a third. One that is always wrong: three passes, of one token each.
    ValueError, at the first round: gamma below 0; an empty prompt, max_tokens below 0. In its own round: a drafted id
    outside the vocabulary (as forward).

    ●●● · about 16 lines · needs level08.verify.verify_choices
    """
    if gamma < 0:
        raise ValueError(f"gamma counts drafted tokens, so it is 0 or more, not {gamma}")
    cache = SimpleCache(config.n_layers) if cache is None else cache
    left = allowed_tokens(config, prompt, max_tokens, cache.length)
    # TODO: draft, run, verify, cut at a stop, roll the cache back
    raise NotImplementedError("level08.loop.speculate")


def generate(*args, **kwargs) -> list[int]:
    """The tokens of `speculate`, with the same arguments, all at once."""
    return [token for round in speculate(*args, **kwargs) for token in round.tokens]
