"""Right programs of level 00, written another way: the tests must accept them. `alternative` is given when this is read."""

import heapq
import re
from collections import OrderedDict, defaultdict
from math import inf

import torch
import torch.nn.functional as F

# ---- bpe


def _merge_with_a_stack(ids, pair, new_id):
    merged, fresh = [], False  # fresh: the last one is a merge of this pass, so it is not matched again
    for i in ids:
        fresh = bool(merged) and not fresh and (merged[-1], i) == pair
        merged[-1:] = [new_id] if fresh else [*merged[-1:], i]
    return merged


def _merge_by_regex(ids, pair, new_id):
    text = "".join(f"<{i}>" for i in ids)
    return [int(i) for i in re.findall(r"\d+", text.replace("<{}><{}>".format(*pair), f"<{new_id}>"))]


def _train_incrementally(text, vocab_size):
    """Counts are kept and corrected, in an OrderedDict, and only the merged list is counted anew where it changed."""
    if vocab_size < 256:
        raise ValueError("vocab_size is at least 256")
    ids, merges = tuple(text.encode()), OrderedDict()
    for new_id in range(256, vocab_size):
        counts = defaultdict(int)
        for i in range(len(ids) - 1):
            counts[ids[i : i + 2]] += 1
        often = max(counts.values(), default=0)
        if often < 2:
            return merges
        pair = min(p for p, n in counts.items() if n == often)
        merges[pair] = new_id
        ids = tuple(_merge_with_a_stack(ids, pair, new_id))
    return merges


def _apply_with_a_heap(ids, merges):
    """A linked list and a heap of (new id, place): n log n, as the fast tokenizers have it."""
    ids, after = [*ids, None], [*range(1, len(ids) + 1), None]
    before = [None, *range(len(ids) - 1)]
    heap = [(merges[p], i, p) for i, p in enumerate(zip(ids, ids[1:])) if p in merges]
    heapq.heapify(heap)
    while heap:
        new_id, i, pair = heapq.heappop(heap)
        j = after[i]
        if j is None or (ids[i], ids[j]) != pair:
            continue
        ids[i], ids[j], after[i] = new_id, None, after[j]
        if after[j] is not None:
            before[after[j]] = i
        for left, right in ((before[i], i), (i, after[i])):
            if left is not None and right is not None and (p := (ids[left], ids[right])) in merges:
                heapq.heappush(heap, (merges[p], left, p))
    return [i for i in ids if i is not None]


def _apply_one_at_a_time(ids, merges):
    ids = list(ids)
    while True:
        ranked = [(merges.get((ids[i], ids[i + 1]), inf), i) for i in range(len(ids) - 1)]
        new_id, i = min(ranked, default=(inf, 0))
        if new_id == inf:
            return ids
        ids[i : i + 2] = [new_id]


def _decode_by_recursion(ids, merges):
    parts = {new_id: pair for pair, new_id in merges.items()}

    def spell(i):
        if i in parts:
            return spell(parts[i][0]) + spell(parts[i][1])
        if not 0 <= i < 256:
            raise ValueError(f"id {i} is not in the vocabulary")
        return bytes([i])

    return str(bytearray(b"".join(map(spell, ids))), "utf-8", "replace")


alternative("level00.bpe.train_bpe", "stack", program=_merge_with_a_stack, part="merge_pair")
alternative("level00.bpe.train_bpe", "in_a_string", program=_merge_by_regex, part="merge_pair")
alternative("level00.bpe.train_bpe", "another_count", program=_train_incrementally)
alternative("level00.bpe.apply_merges", "heap_and_links", program=_apply_with_a_heap)
alternative("level00.bpe.apply_merges", "one_at_a_time", program=_apply_one_at_a_time)
alternative("level00.bpe.decode", "recursion", program=_decode_by_recursion)


# ---- layers


def _torch_softmax(x, dim=-1):
    return torch.where((x == -torch.inf).all(dim, keepdim=True), torch.zeros_like(x), F.softmax(x, dim))


def _softmax_by_log(x, dim=-1):
    wide = x.double()
    total = wide.logsumexp(dim, keepdim=True)
    return (wide - total.nan_to_num(neginf=0.0)).exp().to(x.dtype)


def _torch_rms_norm(x, weight, eps):
    if weight.shape != x.shape[-1:]:
        raise ValueError("weight needs one entry per feature")
    return F.rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)


def _rms_norm_by_length(x, weight, eps):
    if weight.dim() != 1 or len(weight) != x.shape[-1]:
        raise ValueError("weight needs one entry per feature")
    wide, d = x.to(torch.float32), x.shape[-1]
    square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True) ** 2 / d
    return (wide * (weight.to(torch.float32) / (square + eps).sqrt())).type_as(x)


def _tables_in_float32(positions, head_dim, theta):
    """Hugging Face's way: everything in float32, inverse frequencies over even numbers."""
    if head_dim % 2:
        raise ValueError("head_dim is even")
    inverse = 1.0 / (theta ** (torch.arange(0, head_dim, 2).float() / head_dim))
    angle = torch.einsum("...s,d->...sd", positions.float(), inverse).repeat_interleave(2, -1)
    angle = angle.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return angle.cos(), angle.sin()


def _tables_by_complex(positions, head_dim, theta):
    if head_dim % 2:
        raise ValueError("head_dim is even")
    speed = torch.exp(
        torch.arange(head_dim // 2).double() * (-2 / head_dim) * torch.tensor(float(theta)).double().log()
    )
    turn = torch.polar(torch.ones_like(speed), positions[..., None].double() * speed)
    turn = turn.unsqueeze(-2).expand(*turn.shape[:-1], 2, -1).flatten(-2)
    return turn.real.float(), turn.imag.float()


def _complex_rope(x, cos, sin):
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    turned = pairs * torch.complex(cos[..., :half].double(), sin[..., :half].double())
    return torch.cat((turned.real, turned.imag), -1).to(x.dtype)


def _rope_in_the_dtype_of_x(x, cos, sin):
    """transformers' way: the tables are cast first, so half precision rounds each product."""
    half, cos, sin = x.shape[-1] // 2, cos.to(x.dtype), sin.to(x.dtype)
    return x * cos + x.roll(half, -1) * torch.cat([-sin[..., :half], sin[..., half:]], -1)


def _mask_by_tril(q_len, kv_len):
    if q_len > kv_len:
        raise ValueError("q_len cannot exceed kv_len")
    return torch.ones(kv_len, kv_len, dtype=torch.bool).tril()[-q_len:]


def _heads_alone(q, k, v, mask):
    """One head at a time, in a Python loop, with einsum; weights rounded to the dtype of v, as many kernels do."""
    (B, H, Q, D), (G, K) = q.shape, k.shape[1:3]
    if H % G:
        raise ValueError("H is a multiple of G")
    mask = (_mask_by_tril(Q, K) if isinstance(mask, str) else mask).expand(B, H, Q, K)
    out = []
    for h in range(H):
        g = h // (H // G)
        scores = torch.einsum("bqd,bkd->bqk", q[:, h].float(), k[:, g].float()) / D**0.5
        weights = _torch_softmax(torch.where(mask[:, h], scores, -torch.inf)).to(v.dtype)
        out.append(torch.einsum("bqk,bkd->bqd", weights, v[:, g]))
    return torch.stack(out, 2).transpose(1, 2)  # not contiguous


def _torch_attention(q, k, v, mask):
    (B, H, Q), (G, K) = q.shape[:3], k.shape[1:3]
    if H % G:
        raise ValueError("H is a multiple of G")
    mask = (_mask_by_tril(Q, K) if isinstance(mask, str) else mask).expand(B, H, Q, K)
    some = mask.any(-1, keepdim=True)  # torch versions differ on rows without keys
    k, v = (t.float().repeat_interleave(H // G, 1) for t in (k, v))
    out = F.scaled_dot_product_attention(q.float(), k, v, mask | ~some)
    return torch.where(some, out, 0.0).type_as(q)


@torch.inference_mode()
def _without_gradients(q, k, v, mask):
    return _torch_attention(q, k, v, mask)


alternative("level00.layers.softmax", "torch", program=_torch_softmax)
alternative("level00.layers.softmax", "nan_to_num", program=lambda x, dim=-1: torch.softmax(x, dim).nan_to_num(0.0))
alternative("level00.layers.softmax", "by_logsumexp", program=_softmax_by_log)
alternative("level00.layers.rms_norm", "torch", program=_torch_rms_norm)
alternative("level00.layers.rms_norm", "by_length", program=_rms_norm_by_length)
alternative("level00.layers.rope_tables", "float32", program=_tables_in_float32)
alternative("level00.layers.rope_tables", "complex", program=_tables_by_complex)
alternative("level00.layers.apply_rope", "complex", program=_complex_rope)
alternative("level00.layers.apply_rope", "rolled_in_the_dtype_of_x", program=_rope_in_the_dtype_of_x)
alternative("level00.layers.causal_mask", "tril", program=_mask_by_tril)
alternative("level00.layers.causal_mask", "not_triu", program=lambda q_len, kv_len: _mask_by_triu(q_len, kv_len))
alternative("level00.layers.attention", "head_by_head", program=_heads_alone)
alternative("level00.layers.attention", "torch", program=_torch_attention)
alternative("level00.layers.attention", "inference_mode", program=_without_gradients)


def _mask_by_triu(q_len, kv_len):
    if q_len > kv_len:
        raise ValueError("q_len cannot exceed kv_len")
    return ~torch.ones(q_len, kv_len).triu(diagonal=kv_len - q_len + 1).bool()


# ---- transformer


def _given(name):
    """A function of the mounted level."""
    from level00 import layers, transformer

    return getattr(transformer, name, None) or getattr(layers, name)


def _attention_by_views(x, params, config, layer, cos, sin, mask, cache=None, *, attend=None, linear=F.linear):
    B, S, _ = x.shape
    w = [params[f"model.layers.{layer}.self_attn.{n}_proj.weight"] for n in "qkvo"]
    v, k, q = (linear(x, m).view(B, S, -1, config.head_dim).permute(0, 2, 1, 3).contiguous() for m in w[2::-1])
    k, q = _given("apply_rope")(k, cos, sin), _given("apply_rope")(q, cos, sin)
    k, v = cache.update(layer, k, v) if cache is not None else (k, v)
    out = (attend or _given("attention"))(q, k, v, mask)
    return linear(out.permute(0, 2, 1, 3).reshape(B, S, config.n_heads * config.head_dim), w[3])


def _gate_by_hand(x, w_gate, w_up, w_down, linear=F.linear):
    up, gate = linear(x, w_up), linear(x, w_gate)
    return linear(up * gate * torch.sigmoid(gate), w_down)


def _block_in_two_deltas(x, params, config, layer, cos, sin, mask, cache=None, *, attend=None, linear=F.linear):
    weights = {n.split(f"layers.{layer}.")[1]: w for n, w in params.items() if n.startswith(f"model.layers.{layer}.")}
    norm = lambda y, name: _torch_rms_norm(y, weights[f"{name}_layernorm.weight"], config.norm_eps)  # noqa: E731
    rest = params, config, layer, cos, sin, mask, cache
    seen = _attention_by_views(norm(x, "input"), *rest, attend=attend, linear=linear)
    middle = torch.add(seen, x)
    mlp = (weights[f"mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
    return torch.add(_gate_by_hand(norm(middle, "post_attention"), *mlp, linear=linear), middle)


def _hidden_by_embedding(params, config, token_ids, cache=None, *, positions=None, mask="causal", **seams):
    if token_ids.dim() != 2 or not token_ids.numel():
        raise ValueError("token_ids is (batch, seq)")
    if not ((token_ids >= 0) & (token_ids < config.vocab_size)).all():
        raise ValueError("token ids lie in the vocabulary")
    if positions is None:
        positions = torch.arange(token_ids.shape[1]) + (cache.length if cache else 0)
    if int(positions.max()) + 1 > config.max_seq_len:
        raise ValueError("a position is beyond max_seq_len")
    # (1 or B, 1, S, D) in either case
    cos, sin = _given("rope_tables")(positions.view(-1, 1, positions.shape[-1]), config.head_dim, config.rope_theta)
    x = F.embedding(token_ids, params["model.embed_tokens.weight"])
    for layer in range(config.n_layers):
        x = _given("block")(x, params, config, layer, cos, sin, mask, cache=cache, **seams)
    return _given("rms_norm")(x, params["model.norm.weight"], config.norm_eps)


alternative("level00.transformer.block", "views", program=_attention_by_views, part="self_attention")
alternative("level00.transformer.block", "sigmoid", program=_gate_by_hand, part="swiglu")
alternative("level00.transformer.block", "two_deltas", program=_block_in_two_deltas)
alternative("level00.transformer.hidden_states", "embedding", program=_hidden_by_embedding)


# ---- accounting


def _params_by_shapes(config):
    """From the list of shapes, with numpy's integers, as in a spreadsheet."""
    import numpy as np

    from dojo.models import shapes

    sizes = {name: np.prod(shape, dtype=np.int64) for name, shape in shapes(config).items()}
    keys = {"embedding": "embed_tokens", "attention": "self_attn", "mlp": "mlp.", "norm": "norm", "lm_head": "lm_head"}
    counts = {part: sum(n for name, n in sizes.items() if key in name) for part, key in keys.items()}
    return OrderedDict(counts, total=sum(sizes.values()))


def _flops_by_loops(config, context_len):
    if context_len < 1:
        raise ValueError("context_len is at least 1")
    flops = dict.fromkeys(("total", "lm_head", "mlp", "scores", "projections"), 0)
    for _ in range(config.n_layers):
        for heads in (config.n_heads, config.n_kv_heads, config.n_kv_heads, config.n_heads):
            flops["projections"] += 2 * config.d_model * heads * config.head_dim
        for _ in range(config.n_heads):
            flops["scores"] += 2 * (2 * config.head_dim * context_len)
        flops["mlp"] += 3 * (2 * config.d_model * config.d_ff)
    flops["lm_head"] += 2 * config.d_model * config.vocab_size
    flops["total"] = sum(flops.values())
    return flops


alternative("level00.accounting.flops_per_token", "from_shapes", program=_params_by_shapes, part="count_params")
alternative("level00.accounting.flops_per_token", "loops", program=_flops_by_loops)
