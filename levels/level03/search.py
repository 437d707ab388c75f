"""Beam search: keep the few best beginnings instead of one.

A hypothesis is (tokens, score): a tuple of the new tokens, and the sum of their log-probabilities.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Hypothesis = tuple[tuple[int, ...], float]


def beam_step(
    beams: Sequence[Hypothesis], logprobs: Tensor, width: int, eos_id: int
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Extend every beam by every token; return (beams, finished), both best first.

    beams     at most `width` hypotheses that go on
    logprobs  (len(beams), V) float: of the next token of each; -inf never extends anything

    Of *all* extensions, best first: those that end in eos_id and are among the first `width` are finished, and the
    first `width` of those that do not are the new beams. On a tie the earlier beam comes first, then the smaller id.
    Example: beams ((0,), ln .6) and ((1,), ln .4), next [.5, .45, .05] and [.9, .05, .05], width 2, eos_id 2:
    ((1, 0), ln .36) and ((0, 0), ln .3) go on, nothing is finished.

    ●● · about 10 lines · part of beam_search
    """
    # TODO: score all extensions, sort them, and part them by their last token
    raise NotImplementedError("level03.search.beam_search")


def beam_search(
    next_logprobs: Callable[[list[tuple[int, ...]]], Tensor],
    width: int,
    max_tokens: int,
    eos_id: int,
    length_penalty: float = 1.0,
    early_stopping: bool = False,
) -> list[Hypothesis]:
    """Return up to `width` hypotheses, best first, each with its score / length ** length_penalty.

    next_logprobs   log-probabilities (n, V) of what follows each of n token tuples; called once for each step, with the
                    beams of that step, best first; the first call gets [()]
    max_tokens      a hypothesis is complete after eos_id or with this many tokens
    length_penalty  length counts all new tokens, eos_id too; 0 compares sums, larger values favour longer texts
    early_stopping  True: take no further step once `width` hypotheses have ended in eos_id. False: end when no beam can
                    still get among the best `width`, so that the result is that of going on to max_tokens

    A score only falls as tokens are added. For a length_penalty of 0 or more, the best that a beam of score s can come
    to is therefore s / max_tokens ** length_penalty. Beams that have reached max_tokens are complete as well,
    with early_stopping too: all that are complete are compared. It may happen that no beam is left.
    On a tie of the final scores the hypothesis that was completed first comes first.
    ValueError: width or max_tokens below 1; length_penalty below 0.
    The conventions are those of transformers' generate; False here is its "never" (its own False is a heuristic).

    ●●● · about 13 lines
    """
    if width < 1 or max_tokens < 1:
        raise ValueError(f"a search has at least 1 beam and 1 token, not width {width} and max_tokens {max_tokens}")
    if length_penalty < 0:
        raise ValueError(f"length_penalty is 0 or more, not {length_penalty}: below 0 nothing bounds the search")
    # TODO: what ends is set aside, what does not goes on; when may it stop?
    raise NotImplementedError("level03.search.beam_search")
