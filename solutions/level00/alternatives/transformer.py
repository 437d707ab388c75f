"""Right programs, written another way, for level00.transformer. `alternative` is given when this is read."""

import torch
import torch.nn.functional as F


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
    norm = lambda y, name: F.rms_norm(y, y.shape[-1:], weights[f"{name}_layernorm.weight"], config.norm_eps)  # noqa: E731
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
