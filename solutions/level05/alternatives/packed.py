"""Right programs, written another way, for level05.packed. `alternative` is given when this is read."""

from itertools import accumulate, chain

import torch


def _pack_by_lists(chunks, starts):
    """Plain Python all the way, and tensors at the end."""
    if len(chunks) == 0 or len(starts) != len(chunks) or any(len(chunk) == 0 for chunk in chunks):
        raise ValueError("nothing, an empty chunk, or another number of starts")
    flat = list(chain.from_iterable(chunks))
    positions = [start + i for chunk, start in zip(chunks, starts) for i in range(len(chunk))]
    ends = accumulate(len(chunk) for chunk in chunks)
    return torch.tensor(flat).view(1, -1), torch.tensor(positions), [end - 1 for end in ends]


def _pack_by_repeating(chunks, starts):
    """Each token's own offset: its start, minus the column at which its chunk begins."""
    if not chunks or len(starts) != len(chunks) or min(map(len, chunks)) == 0:
        raise ValueError("nothing, an empty chunk, or another number of starts")
    sizes = torch.tensor([len(chunk) for chunk in chunks])
    ends = sizes.cumsum(0)
    offset = torch.tensor(list(starts)) - (ends - sizes)
    positions = torch.arange(int(ends[-1])) + offset.repeat_interleave(sizes)
    return torch.cat([torch.tensor(list(chunk)) for chunk in chunks])[None], positions, (ends - 1).tolist()


def _pack_into_buffers(chunks, starts):
    if not chunks or len(starts) != len(chunks):
        raise ValueError("nothing, or another number of starts")
    total = sum(len(chunk) for chunk in chunks)
    ids, positions = torch.empty(1, total, dtype=torch.long), torch.empty(total, dtype=torch.long)
    last, at = [], 0
    for chunk, start in zip(chunks, starts):
        if not chunk:
            raise ValueError("an empty chunk")
        for token in chunk:
            ids[0, at], positions[at] = token, start
            at, start = at + 1, start + 1
        last.append(at - 1)
    return ids, positions, last


alternative("level05.packed.pack", "by_lists", program=_pack_by_lists)
alternative("level05.packed.pack", "by_repeating", program=_pack_by_repeating)
alternative("level05.packed.pack", "into_buffers", program=_pack_into_buffers)


class _Slices:
    """Slices between running sums; its own names."""

    def __init__(self, caches, sizes):
        if len(caches) != len(sizes):
            raise ValueError("a size for each cache")
        self._ends = list(accumulate(sizes))
        self._each = [(cache, slice(end - n, end)) for cache, n, end in zip(caches, sizes, self._ends)]

    def update(self, layer, k, v):
        keys, values = [], []
        for cache, part in self._each:
            own_keys, own_values = cache.update(layer, k[:, :, part], v[:, :, part])
            keys.append(own_keys)
            values.append(own_values)
        return keys, values


class _Narrow:
    """Copies of the parts, so that a cache which keeps them does not keep the row; two tuples."""

    def __init__(self, caches, sizes):
        if len(sizes) != len(caches):
            raise ValueError("a size for each cache")
        self.caches, self.sizes = tuple(caches), tuple(sizes)

    def update(self, layer, k, v):
        at, held = 0, []
        for cache, n in zip(self.caches, self.sizes):
            held.append(cache.update(layer, *(x.narrow(2, at, n).contiguous() for x in (k, v))))
            at += n
        keys, values = zip(*held)
        return keys, values


class _StartsFirst:
    """Takes the sequences from the last to the first, which are nobody's business but their own."""

    def __init__(self, caches, sizes):
        if len(caches) != len(sizes):
            raise ValueError("a size for each cache")
        self.caches, self.sizes = caches, sizes

    def update(self, layer, k, v):
        end, keys, values = k.shape[2], [], []
        for cache, n in zip(reversed(self.caches), reversed(self.sizes)):
            held = cache.update(layer, k[..., end - n : end, :], v[..., end - n : end, :])
            keys, values, end = [held[0], *keys], [held[1], *values], end - n
        return keys, values


alternative("level05.packed.PackedCache", "slices", program=_Slices)
alternative("level05.packed.PackedCache", "copies_of_the_parts", program=_Narrow)
alternative("level05.packed.PackedCache", "from_the_last", program=_StartsFirst)


def _into_a_buffer(q, keys, values, mask, sizes, attend=None):
    from level00.layers import attention

    out, at = torch.empty_like(q), 0
    for k, v, n in zip(keys, values, sizes):
        out[:, :, at : at + n] = (attend or attention)(q[:, :, at : at + n], k, v, mask)
        at += n
    return out


def _one_big_mask(q, keys, values, mask, sizes, attend=None):
    """SDPA of torch under a block-diagonal mask; another attention than the usual one is asked for each sequence."""
    from level00.layers import attention

    if attend is not None and attend is not attention:
        return _into_a_buffer(q, keys, values, mask, sizes, attend)
    blocks = [torch.ones(n, k.shape[2], dtype=torch.bool).tril(k.shape[2] - n) for n, k in zip(sizes, keys)]
    own = torch.zeros(sum(sizes), sum(k.shape[2] for k in keys), dtype=torch.bool)
    row = column = 0
    for block in blocks:
        own[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    k, v = (torch.cat(list(x), 2).to(q.dtype) for x in (keys, values))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=own, enable_gqa=True)


def _padded_keys(q, keys, values, mask, sizes, attend=None):
    """Rows padded on the left to the longest, one batch; another attention is asked for each sequence."""
    from level00.layers import attention

    if attend is not None and attend is not attention:
        return _into_a_buffer(q, keys, values, mask, sizes, attend)
    longest_q, longest = max(sizes), max(k.shape[2] for k in keys)
    pad = torch.nn.functional.pad
    k, v = (torch.cat([pad(y, (0, 0, longest - y.shape[2], 0)) for y in x]) for x in (keys, values))
    rows = torch.cat([pad(part, (0, 0, longest_q - part.shape[2], 0)) for part in q.split(list(sizes), 2)])
    column, held = torch.arange(longest), torch.tensor([y.shape[2] for y in keys])
    seen = column >= (longest - held).view(-1, 1, 1, 1)
    seen = seen & (column <= torch.arange(longest - longest_q, longest).unsqueeze(1))
    out = attention(rows, k, v, seen)
    return torch.cat([out[i : i + 1, :, longest_q - n :] for i, n in enumerate(sizes)], 2)


alternative("level05.packed.packed_attention", "into_a_buffer", program=_into_a_buffer)
alternative("level05.packed.packed_attention", "one_big_mask", program=_one_big_mask)
alternative("level05.packed.packed_attention", "padded_keys", program=_padded_keys)


def _closures(params, config, caches, chunks, *, all_rows=False, attend=None, linear=None):
    """No parts of this module: a cache and an attention made here, which know where each sequence stands."""
    from level00.layers import attention
    from level00.layers import linear as plain
    from level00.transformer import hidden_states, unembed

    if len(caches) != len(chunks) or not chunks or any(not len(chunk) for chunk in chunks):
        raise ValueError("a cache for each chunk, a token for each chunk")
    attend, linear = attend or attention, linear or plain
    ends = list(accumulate(map(len, chunks)))
    parts = [slice(end - len(chunk), end) for end, chunk in zip(ends, chunks)]
    ids = torch.tensor([list(chain.from_iterable(chunks))])
    positions = torch.cat([torch.arange(len(chunk)) + cache.length for chunk, cache in zip(chunks, caches)])

    class Both:
        length = 0

        def update(self, layer, k, v):
            return [c.update(layer, k[:, :, p], v[:, :, p]) for c, p in zip(caches, parts)], None

    def each(q, held, _, mask):
        return torch.cat([attend(q[:, :, p], k, v, mask) for p, (k, v) in zip(parts, held)], 2)

    hidden = hidden_states(params, config, ids, Both(), positions=positions, attend=each, linear=linear).squeeze(0)
    rows = hidden if all_rows else hidden.index_select(0, torch.tensor(ends) - 1)
    return unembed(params, config, rows, linear)


def _own_loop(params, config, caches, chunks, *, all_rows=False, attend=None, linear=None):
    """The layers written out on (T, d_model), without level 00's loop."""
    from level00.layers import apply_rope, attention, rms_norm, rope_tables
    from level00.layers import linear as plain

    if len(caches) != len(chunks) or not chunks or any(not len(chunk) for chunk in chunks):
        raise ValueError("a cache for each chunk, a token for each chunk")
    attend, linear = attend or attention, linear or plain
    sizes = [len(chunk) for chunk in chunks]
    positions = torch.tensor([cache.length + i for cache, n in zip(caches, sizes) for i in range(n)])
    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)
    x = params["model.embed_tokens.weight"][list(chain.from_iterable(chunks))]
    for layer in range(config.n_layers):
        p = f"model.layers.{layer}."
        normed = rms_norm(x, params[p + "input_layernorm.weight"], config.norm_eps)
        q, k, v = (
            linear(normed, params[f"{p}self_attn.{name}_proj.weight"])
            .view(len(x), -1, config.head_dim)
            .transpose(0, 1)
            .unsqueeze(0)
            for name in "qkv"
        )
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        rows = zip(q.split(sizes, 2), k.split(sizes, 2), v.split(sizes, 2), caches)
        out = [attend(own_q, *cache.update(layer, own_k, own_v), "causal") for own_q, own_k, own_v, cache in rows]
        out = torch.cat(out, 2).squeeze(0).transpose(0, 1).flatten(1)
        x = x + linear(out, params[p + "self_attn.o_proj.weight"])
        normed = rms_norm(x, params[p + "post_attention_layernorm.weight"], config.norm_eps)
        gate, up = (linear(normed, params[f"{p}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
        x = x + linear(torch.nn.functional.silu(gate) * up, params[p + "mlp.down_proj.weight"])
    if not all_rows:
        x = x[[end - 1 for end in accumulate(sizes)]]
    x = rms_norm(x, params["model.norm.weight"], config.norm_eps)
    return linear(x, params["lm_head.weight" if "lm_head.weight" in params else "model.embed_tokens.weight"])


def _whole_forward(params, config, caches, chunks, *, all_rows=False, attend=None, linear=None):
    """`forward` itself, with a head that takes only the rows which are asked for."""
    from level00.layers import attention
    from level00.layers import linear as plain
    from level00.transformer import forward
    from level05.packed import PackedCache, pack, packed_attention

    if len(caches) != len(chunks):
        raise ValueError("a cache for each chunk")
    attend, linear = attend or attention, linear or plain
    head = params.get("lm_head.weight", params["model.embed_tokens.weight"])
    ids, positions, last = pack(chunks, [cache.length for cache in caches])
    sizes = [len(chunk) for chunk in chunks]

    def own_linear(x, weight):
        return linear(x[:, last] if weight is head and not all_rows else x, weight)

    def own_attend(q, k, v, mask):
        return packed_attention(q, k, v, mask, sizes, attend)

    cache = PackedCache(caches, sizes)
    return forward(params, config, ids, cache, positions=positions, attend=own_attend, linear=own_linear)[0]


alternative("level05.packed.packed_step", "closures", program=_closures)
alternative("level05.packed.packed_step", "own_loop", program=_own_loop)
alternative("level05.packed.packed_step", "whole_forward", program=_whole_forward)
