"""Right programs, written another way, for level08.loop. `alternative` is given when this is read."""

from collections import deque

import torch


def _checked(config, prompt, max_tokens, gamma, cache):
    from level01.generate import allowed_tokens
    from level01.simple_cache import SimpleCache

    if gamma < 0:
        raise ValueError("gamma is 0 or more")
    cache = SimpleCache(config.n_layers) if cache is None else cache
    return cache, allowed_tokens(config, prompt, max_tokens, cache.length)


def _greedy(logits, prompt_ids, output_ids):
    return logits.argmax(-1)


def _token_by_token(
    params, config, prompt, max_tokens, propose, gamma, stop_ids=(), cache=None, *, choose=_greedy, forward=None
):
    """Without verify_choices: each position is chosen, compared and looked at for a stop, one after the other."""
    from level00 import transformer
    from level08.loop import Round

    run = forward or transformer.forward
    cache, allowed = _checked(config, prompt, max_tokens, gamma, cache)
    output, feed = [], list(prompt)
    ended = False
    while len(output) < allowed and not ended:
        room = min(gamma, allowed - len(output) - 1)
        draft = []
        if room:
            for token in propose([*prompt, *output], room):
                if len(draft) == room:
                    break
                draft.append(int(token))
        held = cache.length + len(feed)
        logits = run(params, config, torch.tensor(feed + draft).unsqueeze(0), cache)
        waiting, new, accepted = deque(draft), [], 0
        for at in range(len(feed) - 1, logits.shape[1]):
            token = choose(logits[:, at], [[*prompt]], [[*output, *new]]).item()
            new.append(token)
            ended = token in stop_ids
            right = bool(waiting) and waiting.popleft() == token
            accepted += right
            if ended or not right:
                break
        cache.truncate(min(cache.length, held + len(new) - 1))
        output += new
        feed = [output[-1]]
        yield Round(new, len(draft), accepted)


def _cut_only_where_needed(
    params, config, prompt, max_tokens, propose, gamma, stop_ids=(), cache=None, *, choose=_greedy, forward=None
):
    """It remembers what is pending, counts what is left down, and leaves the cache alone when all of it is right."""
    from level00 import transformer
    from level08.loop import Round
    from level08.verify import verify_choices

    run = forward or transformer.forward
    cache, left = _checked(config, prompt, max_tokens, gamma, cache)
    prompt, pending, written = tuple(prompt), tuple(prompt), ()
    while left:
        k = gamma if gamma < left else left - 1
        draft = tuple(propose(list(prompt + written), k) if k > 0 else ())[:k]
        ids = torch.tensor(pending + draft)[None, :]
        scores = run(params, config, ids, cache=cache)
        scores = scores[:, scores.shape[1] - len(draft) - 1 :]

        def chosen(scores=scores, draft=draft, written=written):
            for i in range(scores.shape[1]):
                yield int(choose(scores[:, i, :], [list(prompt)], [list(written + draft[:i])])[0])

        new = verify_choices(draft, chosen())
        for i, token in enumerate(new):
            if token in stop_ids:
                new, left = new[: i + 1], i + 1
                break
        too_many = len(draft) - (len(new) - 1)
        if too_many:
            cache.truncate(cache.length - too_many)
        written, pending, left = written + tuple(new), (new[-1],), left - len(new)
        accepted = len(new) if len(new) <= len(draft) and new[-1] == draft[len(new) - 1] else len(new) - 1
        yield Round(new, len(draft), accepted)


def _recursive(
    params, config, prompt, max_tokens, propose, gamma, stop_ids=(), cache=None, *, choose=_greedy, forward=None
):
    """A round, and then the rest: a text that begins with this one's newest token, in the same cache."""
    from level00 import transformer
    from level08.loop import Round
    from level08.verify import verify_choices

    run = forward or transformer.forward
    cache, allowed = _checked(config, prompt, max_tokens, gamma, cache)

    def rounds(output, feed, left):
        if left <= 0:
            return
        k = min(gamma, left - 1)
        draft = list(propose(prompt_list + output, k))[:k] if k else []
        before = cache.length
        rows = run(params, config, torch.tensor([feed + draft]), cache)[0].split(1)[len(feed) - 1 :]
        new = verify_choices(
            draft, (int(choose(row, [prompt_list[:]], [output + draft[:i]])) for i, row in enumerate(rows))
        )
        stops = [i for i, token in enumerate(new) if token in stop_ids]
        new = new[: stops[0] + 1] if stops else new
        cache.truncate(before + len(feed) + len(new) - 1)
        matches = 0
        while matches < min(len(new), len(draft)) and new[matches] == draft[matches]:
            matches += 1
        yield Round(list(new), len(draft), matches)
        if not stops:
            yield from rounds(output + new, new[-1:], left - len(new))

    prompt_list = list(prompt)
    yield from rounds([], list(prompt), allowed)


for program in (_token_by_token, _cut_only_where_needed, _recursive):
    alternative("level08.loop.speculate", program.__name__[1:], program=program)

alternative(
    "level08.loop.speculate",
    "a_draft_ends_with_its_stop_token",
    change=(
        "draft = list(propose(list(tokens), k))[:k] if k else []",
        "draft = list(propose(list(tokens), k))[:k] if k else []\n"
        "        draft = draft[: next((i + 1 for i, token in enumerate(draft) if token in stop_ids), None)]",
    ),
)
alternative(
    "level08.loop.speculate",
    "nothing_is_chosen_behind_a_stop",
    change=[
        ("choices = (int(choose(r[None], [list(prompt)], [output + draft[:i]])) for i, r in enumerate(rows))",
         "choices = []\n        for i, r in enumerate(rows):\n"
         "            choices.append(int(choose(r[None], [list(prompt)], [output + draft[:i]])))\n"
         "            if choices[-1] in stop_ids or choices[-1:] != draft[i : i + 1]:\n                break"),
        ("new = verify_choices(draft, choices)", "new = choices"),
    ],
)  # fmt: skip
alternative(
    "level08.loop.speculate",
    "positions_and_mask_by_hand",
    change=(
        "rows = forward(params, config, torch.tensor([chunk]), cache)[0, -len(draft) - 1 :]",
        "held = cache.length\n"
        "        where = torch.arange(held, held + len(chunk))\n"
        "        rows = forward(params, config, torch.tensor([chunk]), cache, positions=where,\n"
        "                       mask=torch.arange(held + len(chunk)) <= where[:, None])[0, -len(draft) - 1 :]",
    ),
)
alternative(
    "level08.loop.speculate",
    "a_history_that_grows",
    change=[
        ("output = tokens[len(prompt) :]", "output = tokens[len(prompt) :]\n\n        def so_far():\n"
         "            yield output\n            for token in draft:\n                output.append(token)\n"
         "                yield output\n"),
        ("choices = (int(choose(r[None], [list(prompt)], [output + draft[:i]])) for i, r in enumerate(rows))",
         "choices = (int(choose(r[None], [list(prompt)], [made])) for r, made in zip(rows, so_far()))"),
    ],
)  # fmt: skip
