"""From a function that scores the next token to text: the loop, without memory and with it.

One sequence at a time. `choose` gets batches, as in every later level: logits (1, vocab), histories as lists of lists.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import torch
from torch import Tensor

from dojo.models import Config
from level00.transformer import Params, forward

from .simple_cache import SimpleCache

Choose = Callable[[Tensor, list[list[int]], list[list[int]]], Tensor]


def greedy(logits: Tensor, prompt_ids: list[list[int]], output_ids: list[list[int]]) -> Tensor:
    """The most likely token of each row: logits (batch, vocab) -> ids (batch,). The histories are not used."""
    return logits.argmax(-1)


def allowed_tokens(config: Config, prompt: Sequence[int], max_tokens: int, cached: int = 0) -> int:
    """How many new tokens a request may get: max_tokens, or fewer where the model's max_seq_len comes first.

    The prompt follows `cached` tokens that the cache holds already. The last new token takes a place too.
    """
    if not prompt:
        raise ValueError("the prompt is empty: the model needs at least one token to go on from")
    if max_tokens < 0:
        raise ValueError(f"max_tokens counts new tokens, so it is 0 or more, not {max_tokens}")
    room = config.max_seq_len - cached - len(prompt)
    if room < 0:
        raise ValueError(
            f"{cached} cached tokens and {len(prompt)} of the prompt exceed the model's {config.max_seq_len}"
        )
    return min(max_tokens, room)


def generate_naive(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    max_tokens: int,
    stop_ids: Collection[int] = (),
    *,
    choose: Choose = greedy,
    forward: Callable = forward,
) -> list[int]:
    """Return the new tokens, made without a cache: every step runs the whole sequence again.

    It ends after max_tokens tokens, or after one of stop_ids, which is part of the result. `choose(logits, [prompt],
    [output])` gets the logits (1, vocab) of the last position and the tokens made so far.
    Example: prompt of 4 tokens, max_tokens 3: `forward` is called with 4, 5 and 6 tokens.
    ValueError: an empty prompt, max_tokens below 0.

    ● · about 8 lines
    """
    max_tokens = allowed_tokens(config, prompt, max_tokens)
    # solution:begin run, choose at the last position, append
    output: list[int] = []
    while len(output) < max_tokens:
        logits = forward(params, config, torch.tensor([[*prompt, *output]]))
        output.append(int(choose(logits[:, -1], [list(prompt)], [list(output)])))
        if output[-1] in stop_ids:
            break
    return output
    # solution:end


def prefill(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    cache,
    chunk_size: int | None = None,
    *,
    forward: Callable = forward,
) -> Tensor:
    """Put all of `prompt` into the cache and return the logits of its last token, (1, vocab).

    chunk_size  at most so many tokens per forward pass, the last pass taking what is left; None takes all at once

    The cache may hold tokens already: the prompt follows them. Chunks change nothing in the result (up to rounding).
    Example: 5 tokens with chunk_size 2: `forward` is called with 2, 2 and 1 tokens, and cache.length has grown by 5.
    ValueError: an empty prompt, chunk_size below 1. Chunked prefill: SARATHI, arXiv 2308.16369.

    ●● · about 4 lines · needs level01.simple_cache.SimpleCache
    """
    if not prompt:
        raise ValueError("the prompt is empty: there is no last token whose logits could be returned")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"a chunk holds at least one token, not {chunk_size}")
    # solution:begin each chunk is a forward pass of its own; which logits count?
    ids = torch.tensor([list(prompt)])
    for chunk in ids.split(chunk_size or ids.shape[1], dim=1):
        logits = forward(params, config, chunk, cache)
    return logits[:, -1]
    # solution:end


def decode_step(params: Params, config: Config, token: int, cache, *, forward: Callable = forward) -> Tensor:
    """Feed one token, which follows all that the cache holds, and return the logits of the next, (1, vocab).

    Example: after a prefill of [3, 14, 15], decode_step(92) gives the last logits of a pass over [3, 14, 15, 92].

    ● · about 1 line · needs level01.simple_cache.SimpleCache
    """
    # solution:begin one row of one token
    return forward(params, config, torch.tensor([[token]]), cache)[:, -1]
    # solution:end


def stream(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    max_tokens: int,
    stop_ids: Collection[int] = (),
    cache=None,
    chunk_size: int | None = None,
    *,
    choose: Choose = greedy,
    forward: Callable = forward,
) -> Iterator[int]:
    """Yield the tokens of `generate_naive`, each as soon as it is known, with a cache.

    cache  None makes a SimpleCache; one that is given receives the tokens, after those that it holds

    One prefill, then one decode step before each further token; nothing is computed that no yielded token needs.
    `choose` is called as in generate_naive. Nothing runs before the first token is asked for.
    Example: prompt of 4 tokens, max_tokens 3: `forward` is called with 4, 1 and 1 tokens; after the first token with 4.
    ValueError, at the first token: as generate_naive.

    ●● · about 8 lines · needs level01.generate.prefill, level01.generate.decode_step
    """
    cache = SimpleCache(config.n_layers) if cache is None else cache
    max_tokens = allowed_tokens(config, prompt, max_tokens, cache.length)
    # solution:begin where does the first token come from, and which one is never fed?
    output: list[int] = []
    while len(output) < max_tokens:
        if not output:
            logits = prefill(params, config, prompt, cache, chunk_size, forward=forward)
        else:
            logits = decode_step(params, config, output[-1], cache, forward=forward)
        output.append(int(choose(logits, [list(prompt)], [list(output)])))
        yield output[-1]  # before the next step: a user should not wait for a token that is known
        if output[-1] in stop_ids:
            return
    # solution:end


def generate(params: Params, config: Config, prompt: Sequence[int], max_tokens: int, *args, **kwargs) -> list[int]:
    """The tokens of `stream`, with the same arguments, all at once."""
    return list(stream(params, config, prompt, max_tokens, *args, **kwargs))
