"""Right programs, written another way, for level02.padding. `alternative` is given when this is read."""

import torch


def _defaults(choose, forward):
    """The caller's seams, or greedy and level 00's forward."""
    if forward is None:
        from level00.transformer import forward
    return choose or (lambda logits, prompts, outputs: logits.max(-1).indices), forward


def _limits(config, prompts, max_tokens):
    from level01.generate import allowed_tokens

    if not prompts:
        raise ValueError("no prompts")
    return [allowed_tokens(config, prompt, max_tokens) for prompt in prompts]


def _filled_in(prompts, pad_id):
    """Two tensors of padding, into whose right ends the rows are written."""
    longest = max([len(prompt) for prompt in prompts], default=0)
    if min(map(len, prompts), default=0) == 0:
        raise ValueError("an empty prompt, or none")
    ids = torch.full((len(prompts), longest), pad_id)
    valid = torch.zeros(len(prompts), longest, dtype=torch.bool)
    for i, prompt in enumerate(prompts):
        start = longest - len(prompt)
        ids[i, start:], valid[i, start:] = torch.tensor(tuple(prompt)), True
    return ids, valid


def _turned_round(prompts, pad_id):
    """Reversed rows padded on the right by torch, and turned round; validity from the lengths."""
    if not prompts or any(not len(prompt) for prompt in prompts):
        raise ValueError("an empty prompt, or none")
    rows = [torch.tensor(list(prompt)).flip(0) for prompt in prompts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0).flip(1)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    valid = torch.arange(ids.shape[1]).flip(0) < lengths.unsqueeze(1)
    return ids.masked_fill(~valid, pad_id), valid


def _positions_by_a_loop(valid):
    positions = torch.zeros(valid.shape, dtype=torch.int64)
    seen = torch.zeros(valid.shape[0], dtype=torch.int64)
    for column in range(valid.shape[1]):
        seen += valid[:, column]
        positions[:, column] = torch.where(seen > 0, seen - 1, 0)
    return positions


def _positions_by_the_largest(valid):
    """A running maximum over the numbers of the real tokens."""
    number = torch.cumsum(valid, 1) - 1
    return torch.where(valid, number, 0).cummax(1).values


def _mask_by_order(valid, q_len):
    """Three conditions on column numbers; the queries' are the last."""
    rows, kv_len = valid.shape
    if q_len > kv_len:
        raise ValueError("more queries than columns")
    columns = torch.arange(kv_len)
    query, key = columns[kv_len - q_len :, None], columns[None, :]
    return torch.logical_and((key <= query).expand(rows, 1, q_len, kv_len), valid.reshape(rows, 1, 1, kv_len))


def _mask_cut_from_a_square(valid, q_len):
    """The last rows of the whole triangle, in which padding is crossed out: as a key, and as a query too."""
    rows, kv_len = valid.shape
    if q_len > kv_len:
        raise ValueError("more queries than columns")
    square = torch.ones(rows, kv_len, kv_len, dtype=torch.bool).tril()
    square &= valid.unsqueeze(1) & valid.unsqueeze(2)
    return square[:, kv_len - q_len :].unsqueeze(1)


@torch.no_grad()
def _counters(params, config, prompts, max_tokens, stop_ids=(), pad_id=0, *, choose=None, forward=None):
    """Buffers made once for all steps, and a counter of tokens for each row; ended rows are fed pad_id."""
    from level02.cache import KVCache
    from level02.padding import left_pad

    limits = torch.tensor(_limits(config, prompts, max_tokens))
    choose, forward = _defaults(choose, forward)
    ids, valid = left_pad(prompts, pad_id)
    rows, S = ids.shape
    known = torch.zeros(rows, S + int(limits.max()), dtype=torch.bool)
    known[:, :S] = valid
    position = torch.tensor([len(prompt) for prompt in prompts])
    made, live = [[] for _ in prompts], limits > 0
    cache = KVCache(config, rows, known.shape[1], params["model.embed_tokens.weight"].dtype)
    positions = (torch.arange(S) - (S - position).unsqueeze(1)).clamp(min=0)
    mask = torch.ones(S, S, dtype=torch.bool).tril() & known[:, None, None, :S]
    while live.any():
        logits = forward(params, config, ids, cache, positions=positions, mask=mask)[:, -1]
        tokens = choose(logits, [list(prompt) for prompt in prompts], [list(row) for row in made])
        for i in live.nonzero().flatten().tolist():
            made[i].append(int(tokens[i]))
            live[i] = len(made[i]) < int(limits[i]) and made[i][-1] not in stop_ids
        ids = torch.where(live, tokens, pad_id).unsqueeze(1)
        known[:, S] = live
        S += 1
        positions = torch.where(live, position, 0).unsqueeze(1)
        position += live
        mask = known[:, None, None, :S]
    return made


def _rows_as_objects(params, config, prompts, max_tokens, stop_ids=(), pad_id=0, *, choose=None, forward=None):
    """A record for each row, lists all the way; an ended row stays at its last position and sees everything."""
    from level02.cache import KVCache

    class Row:
        def __init__(self, prompt, limit):
            self.prompt, self.limit, self.output, self.over = list(prompt), limit, [], limit == 0
            self.valid = [False] * (width - len(prompt)) + [True] * len(prompt)

        def take(self, token):
            if not self.over:
                self.output.append(token)
                self.over = token in list(stop_ids) or len(self.output) == self.limit

        @property
        def position(self):
            return min(len(self.prompt) + len(self.output) - 1, config.max_seq_len - 1)

    width = max([len(prompt) for prompt in prompts], default=0)
    rows = [Row(prompt, limit) for prompt, limit in zip(prompts, _limits(config, prompts, max_tokens))]
    choose, forward = _defaults(choose, forward)
    room = width + max(row.limit for row in rows) + 3
    cache = KVCache(config, len(rows), room, dtype=params["model.norm.weight"].dtype)
    ids = torch.tensor([[pad_id] * (width - len(row.prompt)) + row.prompt for row in rows])
    positions = torch.tensor([[0] * (width - len(row.prompt)) + list(range(len(row.prompt))) for row in rows])
    while not all(row.over for row in rows):
        valid = torch.tensor([row.valid for row in rows])
        order = torch.ones(ids.shape[1], valid.shape[1], dtype=torch.bool).tril(valid.shape[1] - ids.shape[1])
        mask = (order & valid.unsqueeze(1)).unsqueeze(1)
        logits = forward(params, config, ids, cache=cache, positions=positions, mask=mask)
        tokens = choose(logits[:, -1, :], [row.prompt for row in rows], [row.output for row in rows]).tolist()
        for row, token in zip(rows, tokens):
            row.take(token)
            row.valid.append(True)
        ids = torch.tensor([[pad_id if row.over else row.output[-1]] for row in rows])
        positions = torch.tensor([[row.position] for row in rows])
    return [row.output for row in rows]


def _prefill_before_the_loop(params, config, prompts, max_tokens, stop_ids=(), pad_id=0, *, choose=None, forward=None):
    """Two parts, each with a call of its own; the mask grows by a column at each step. Padding sees itself."""
    from level02.cache import KVCache
    from level02.padding import left_pad, padded_positions

    limits = _limits(config, prompts, max_tokens)
    choose, forward = _defaults(choose, forward)
    outputs, ended = [[] for _ in limits], {row for row, limit in enumerate(limits) if not limit}
    if len(ended) == len(limits):
        return outputs
    ids, valid = left_pad(prompts, pad_id)
    room = ids.shape[1] + max(limits) - 1  # the last new token is never fed
    cache = KVCache(config, len(limits), room, next(iter(params.values())).dtype)
    square = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool)
    mask = (square.tril() & valid[:, None, None, :]) | torch.eye(ids.shape[1], dtype=torch.bool)
    logits = forward(params, config, ids, cache, positions=padded_positions(valid), mask=mask)
    mask = valid[:, None, None, :]
    while True:
        tokens = choose(logits[:, -1], prompts, outputs)
        for row in {*range(len(limits))} - ended:
            outputs[row].append(tokens[row].item())
            if tokens[row].item() in set(stop_ids) or len(outputs[row]) >= limits[row]:
                ended.add(row)
        if len(ended) == len(limits):
            return outputs
        goes_on = torch.tensor([row not in ended for row in range(len(limits))])
        mask = torch.cat([mask, goes_on[:, None, None, None]], -1)
        positions = (mask[:, 0, 0].sum(-1, keepdim=True) - 1).clamp(min=0)
        logits = forward(
            params, config, tokens.masked_fill(~goes_on, pad_id)[:, None], cache, positions=positions, mask=mask
        )


alternative("level02.padding.left_pad", "filled_in", program=_filled_in)
alternative("level02.padding.left_pad", "turned_round", program=_turned_round)
alternative("level02.padding.left_pad", "by_a_loop", program=_positions_by_a_loop, part="padded_positions")
alternative("level02.padding.left_pad", "by_the_largest", program=_positions_by_the_largest, part="padded_positions")
alternative("level02.padding.padded_mask", "by_order", program=_mask_by_order)
alternative("level02.padding.padded_mask", "cut_from_a_square", program=_mask_cut_from_a_square)
alternative("level02.padding.generate_batch", "counters", program=_counters)
alternative("level02.padding.generate_batch", "rows_as_objects", program=_rows_as_objects)
alternative("level02.padding.generate_batch", "prefill_before_the_loop", program=_prefill_before_the_loop)
