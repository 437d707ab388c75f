"""Right programs, written another way, for level01.generate. `alternative` is given when this is read."""

import torch


def _level00(forward):
    """The caller's forward, or level 00's."""
    if forward is None:
        from level00.transformer import forward
    return forward


def _choose(choose):
    return choose or (lambda logits, prompts, outputs: logits.max(-1).indices)


def _allowed(*args):
    from level01.generate import allowed_tokens

    return allowed_tokens(*args)


@torch.inference_mode()
def _one_growing_tensor(params, config, prompt, max_tokens, stop_ids=(), *, choose=None, forward=None):
    """Tensors all the way: the sequence grows by torch.cat, and what is new is cut off at the end."""
    ids = torch.tensor(prompt).reshape(1, -1)
    for _ in range(_allowed(config, prompt, max_tokens)):
        logits = _level00(forward)(params=params, config=config, token_ids=ids)[:, -1, :]
        new = _choose(choose)(logits, [ids[0, : len(prompt)].tolist()], ids[:, len(prompt) :].tolist())
        ids = torch.cat([ids, new.view(1, 1)], 1)
        if new.item() in set(stop_ids):
            break
    return ids[0, len(prompt) :].tolist()


def _live_lists(params, config, prompt, max_tokens, stop_ids=(), *, choose=None, forward=None):
    """The histories are handed on as they are, not copied; the whole is kept beside the output."""
    left, whole, output = _allowed(config, prompt, max_tokens), list(prompt), []
    if left == 0:
        return output
    while True:
        last = _level00(forward)(params, config, torch.tensor(whole)[None])[0, -1].unsqueeze(0)
        [token] = _choose(choose)(last, [prompt], [output]).tolist()
        whole.append(token)
        output.append(token)
        if len(output) == left or token in stop_ids:
            return output


def _by_index(params, config, prompt, cache, chunk_size=None, *, forward=None):
    """Slices of the list, with positions and masks of its own."""
    if len(prompt) == 0 or (chunk_size is not None and chunk_size <= 0):
        raise ValueError("nothing to prefill")
    size = len(prompt) if chunk_size is None else chunk_size
    for i in range(0, len(prompt), size):
        ids, held = torch.tensor([list(prompt[i : i + size])], dtype=torch.int64), cache.length
        n = ids.shape[1]
        mask = torch.ones(n, held + n, dtype=torch.bool).tril(held)
        out = _level00(forward)(params, config, ids, cache=cache, positions=torch.arange(held, held + n), mask=mask)
    return out[:, -1]


def _recursive(params, config, prompt, cache, chunk_size=None, *, forward=None):
    """The first chunk, then the rest."""
    if not prompt or (chunk_size or 1) < 1 or chunk_size == 0:
        raise ValueError("nothing to prefill")
    first, rest = (prompt, ()) if chunk_size is None else (prompt[:chunk_size], prompt[chunk_size:])
    logits = _level00(forward)(params, config, torch.as_tensor(first).view(1, -1), cache)
    return _recursive(params, config, rest, cache, chunk_size, forward=forward) if rest else logits.select(1, -1)


def _step_with_everything_said(params, config, token, cache, *, forward=None):
    n = cache.length
    ids, mask = torch.full((1, 1), token), torch.ones(1, n + 1, dtype=torch.bool)
    return _level00(forward)(params, config, ids, cache, positions=torch.tensor([n]), mask=mask).squeeze(1)


def _step_as_a_prefill(params, config, token, cache, *, forward=None):
    from level01.generate import prefill

    return prefill(params, config, [token], cache, forward=_level00(forward))


def _prefill_before_the_loop(
    params, config, prompt, max_tokens, stop_ids=(), cache=None, chunk_size=None, *, choose=None, forward=None
):
    """Checks at the call, computes at the first token: an inner generator. The histories are live lists."""
    from level01 import generate
    from level01.simple_cache import SimpleCache

    left = _allowed(config, prompt, max_tokens, 0 if cache is None else cache.length)
    cache = SimpleCache(config.n_layers) if cache is None else cache

    def tokens():
        if not left:
            return
        made = []
        logits = generate.prefill(params, config, prompt, cache, chunk_size, forward=_level00(forward))
        for i in range(left):
            if i:
                logits = generate.decode_step(params, config, made[-1], cache, forward=_level00(forward))
            [token] = _choose(choose)(logits, [prompt], [made]).tolist()
            made.append(token)
            yield token
            if token in stop_ids:
                break

    return tokens()


def _feeds_what_is_not_fed_yet(
    params, config, prompt, max_tokens, stop_ids=(), cache=None, chunk_size=None, *, choose=None, forward=None
):
    """One loop without a first step of its own: what is pending is fed, first the prompt, then a token."""
    from level01 import generate
    from level01.simple_cache import SimpleCache

    left = _allowed(config, prompt, max_tokens, 0 if cache is None else cache.length)
    pending, made = tuple(prompt), ()
    cache = SimpleCache(config.n_layers) if cache is None else cache
    while left > 0:
        logits = generate.prefill(params, config, pending, cache, chunk_size, forward=_level00(forward))
        pending = (_choose(choose)(logits, [list(prompt)], [list(made)])[0].item(),)
        made += pending
        left = 0 if pending[0] in stop_ids else left - 1
        yield pending[0]


alternative("level01.generate.generate_naive", "one_growing_tensor", program=_one_growing_tensor)
alternative("level01.generate.generate_naive", "live_lists", program=_live_lists)
alternative("level01.generate.prefill", "by_index", program=_by_index)
alternative("level01.generate.prefill", "recursive", program=_recursive)
alternative("level01.generate.decode_step", "everything_said", program=_step_with_everything_said)
alternative("level01.generate.decode_step", "as_a_prefill", program=_step_as_a_prefill)
alternative("level01.generate.stream", "prefill_before_the_loop", program=_prefill_before_the_loop)
alternative("level01.generate.stream", "feeds_what_is_pending", program=_feeds_what_is_not_fed_yet)
