"""Right programs, written another way, for level09.shard. `alternative` is given when this is read."""

from dataclasses import replace

import torch


def _refuse(n_heads, n_kv_heads, size):
    if n_heads % n_kv_heads or n_heads % size:
        raise ValueError("heads do not divide")
    own, group = n_heads // size, n_heads // n_kv_heads
    if own % group and group % own:
        raise ValueError("groups are cut")


def _in_copies(n_heads, n_kv_heads, rank, size):
    """The two cases apart: whole groups on a rank, or a copy of one KV head on several."""
    _refuse(n_heads, n_kv_heads, size)
    own = n_heads // size
    heads = range(own * rank, own * rank + own)
    if n_kv_heads % size == 0:
        kv = n_kv_heads // size
        return heads, range(kv * rank, kv * rank + kv)
    copies = size // n_kv_heads
    return heads, range(rank // copies, rank // copies + 1)


def _one_by_one(n_heads, n_kv_heads, rank, size):
    _refuse(n_heads, n_kv_heads, size)
    mine = [h for h in range(n_heads) if h * size // n_heads == rank]
    read = {h * n_kv_heads // n_heads for h in mine}
    return range(mine[0], mine[-1] + 1), range(min(read), max(read) + 1)


def _by_torch(n_heads, n_kv_heads, rank, size):
    _refuse(n_heads, n_kv_heads, size)
    heads = torch.arange(n_heads).chunk(size)[rank]
    kv = (heads // (n_heads // n_kv_heads)).unique()
    return range(int(heads[0]), int(heads[-1]) + 1), range(int(kv[0]), int(kv[-1]) + 1)


for _name, _program in {"in_copies": _in_copies, "one_by_one": _one_by_one, "by_torch": _by_torch}.items():
    alternative("level09.shard.heads_for_rank", _name, program=_program)
alternative(
    "level09.shard.heads_for_rank",
    "rounded_down_and_up",
    change=(
        "return heads, range(heads[0] // group, heads[-1] // group + 1)",
        "return heads, range(rank * n_kv_heads // size, -(-(rank + 1) * n_kv_heads // size))",
    ),
)

# ---- shard_out and shard_in, judged with shard_params


def _narrow_out(w, rank, size):
    if w.shape[0] % size:
        raise ValueError("outputs do not divide")
    return w.narrow(0, w.shape[0] // size * rank, w.shape[0] // size).clone()


def _by_index(w, rank, size):
    if w.shape[1] % size:
        raise ValueError("inputs do not divide")
    k = w.shape[1] // size
    return w[:, torch.arange(k) + rank * k]  # indexing copies


def _through_the_other(w, rank, size):
    if w.shape[1] % size:
        raise ValueError("inputs do not divide")
    return w.unflatten(1, (size, -1))[:, rank].clone(memory_format=torch.contiguous_format)


alternative("level09.shard.shard_params", "narrow_out", program=_narrow_out, part="shard_out")
alternative("level09.shard.shard_params", "by_index", program=_by_index, part="shard_in")
alternative("level09.shard.shard_params", "unflattened", program=_through_the_other, part="shard_in")

# ---- shard_params


def _layer_by_layer(params, config, rank, size):
    """Without the other functions, name after name."""
    _refuse(config.n_heads, config.n_kv_heads, size)
    if config.d_ff % size or config.vocab_size % size:
        raise ValueError("features or tokens do not divide")
    heads, kv_heads = _in_copies(config.n_heads, config.n_kv_heads, rank, size)
    d, f, t = config.head_dim, config.d_ff // size, config.vocab_size // size
    q, kv = slice(heads.start * d, heads.stop * d), slice(kv_heads.start * d, kv_heads.stop * d)
    mlp, tokens = slice(rank * f, (rank + 1) * f), slice(rank * t, (rank + 1) * t)
    own = dict(params)
    for i in range(config.n_layers):
        p = f"model.layers.{i}."
        for name, part in (
            ("self_attn.q", q),
            ("self_attn.k", kv),
            ("self_attn.v", kv),
            ("mlp.gate", mlp),
            ("mlp.up", mlp),
        ):
            own[f"{p}{name}_proj.weight"] = params[f"{p}{name}_proj.weight"][part].contiguous()
        for name, part in (("self_attn.o", q), ("mlp.down", mlp)):
            own[f"{p}{name}_proj.weight"] = params[f"{p}{name}_proj.weight"][:, part]
    for name in {"model.embed_tokens.weight", "lm_head.weight"} & set(params):
        own[name] = params[name][tokens]
    return own, replace(config, n_heads=heads.stop - heads.start, n_kv_heads=kv_heads.stop - kv_heads.start)


def _by_axis(params, config, rank, size):
    """A table of axes; keys and values are laid out with copies first, then all are cut the same way."""
    _refuse(config.n_heads, config.n_kv_heads, size)
    axes = {"q": 0, "k": 0, "v": 0, "o": 1, "gate": 0, "up": 0, "down": 1, "embed": 0, "lm": 0}
    copies = max(1, size // config.n_kv_heads)
    own = {}
    for name in sorted(params):
        w, kind = params[name], name.split(".")[-2].split("_")[0]
        axis = axes.get(kind)
        if axis is None or w.dim() == 1:
            own[name] = w.clone()
            continue
        if kind in ("k", "v"):
            w = w.unflatten(0, (-1, config.head_dim)).repeat_interleave(copies, 0).flatten(0, 1)
        if w.shape[axis] % size:
            raise ValueError(f"{name} does not divide")
        own[name] = w.split(w.shape[axis] // size, axis)[rank].clone()
    return own, replace(config, n_heads=config.n_heads // size, n_kv_heads=max(1, config.n_kv_heads // size))


alternative("level09.shard.shard_params", "layer_by_layer", program=_layer_by_layer)
alternative("level09.shard.shard_params", "by_axis", program=_by_axis)
alternative(
    "level09.shard.shard_params",
    "queries_by_shard_out",
    change=(
        'case "q_proj":\n                own[name] = w[heads.start * config.head_dim : heads.stop * config.head_dim]',
        'case "q_proj":\n                own[name] = shard_out(w, rank, size)',
    ),
)
