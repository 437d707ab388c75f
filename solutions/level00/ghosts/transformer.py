"""Known-wrong programs of level00.transformer. `ghost` is given when this is read."""

ghost(
    "level00.transformer.block",
    "swapped_gate",
    "SiLU goes on the gate projection; exchanging gate and up keeps every shape and breaks every value.",
    change=(
        "linear(silu(linear(x, w_gate)) * linear(x, w_up), w_down)",
        "linear(silu(linear(x, w_up)) * linear(x, w_gate), w_down)",
    ),
)
ghost(
    "level00.transformer.block",
    "sigmoid_gate",
    "silu(z) is z · sigmoid(z); the plain sigmoid is the older GLU.",
    change=("linear(silu(linear(x, w_gate))", "linear(torch.sigmoid(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.block",
    "gelu_gate",
    "Llama's gate is SiLU; GELU makes it GeGLU.",
    change=("linear(silu(linear(x, w_gate))", "linear(torch.nn.functional.gelu(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.block",
    "no_gate",
    "The gate multiplies the up projection: without it this is a plain MLP.",
    change=("silu(linear(x, w_gate)) * linear(x, w_up)", "silu(linear(x, w_up))"),
)
ghost(
    "level00.transformer.block",
    "rotates_values",
    "Rotate queries and keys only: values carry content, not position.",
    change=(
        "q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)",
        "q, k, v = (apply_rope(t, cos, sin) for t in (q, k, v))",
    ),
)
ghost(
    "level00.transformer.block",
    "rotates_queries_only",
    "Keys are rotated as well: the score depends on the distance only if both are.",
    change=("q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)", "q = apply_rope(q, cos, sin)"),
)
ghost(
    "level00.transformer.block",
    "no_rotation",
    "Queries and keys must be rotated, or the prefix is a bag of words.",
    change=("    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n", ""),
)
ghost(
    "level00.transformer.block",
    "caches_unrotated",
    "Rotate before the cache: what it holds is read at every later step and must be final.",
    change=[
        ("    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n", ""),
        (
            "        k, v = cache.update(layer, k, v)\n",
            "        k, v = cache.update(layer, k, v)\n    q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)\n",
        ),
    ],
)
ghost(
    "level00.transformer.block",
    "repeats_kv",
    "Give attend the KV heads as they are; repeating them for every query head multiplies the bytes that it reads.",
    change=(
        "attend(q, k, v, mask)",
        "attend(q, *(t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v)), mask)",
    ),
)
ghost(
    "level00.transformer.block",
    "own_mask",
    "Pass the mask on as it came: another level may need another one.",
    change=(
        "attend(q, k, v, mask)",
        "attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]))",
    ),
)
ghost(
    "level00.transformer.block",
    "always_layer_0",
    "Each layer has its own weights: the name holds its number.",
    change=[
        ('p = f"model.layers.{layer}.self_attn."', 'p = "model.layers.0.self_attn."'),
        ('p = f"model.layers.{layer}."', 'p = "model.layers.0."'),
    ],
)
ghost(
    "level00.transformer.block",
    "bypasses_linear",
    "Read every matrix through `linear`, the argument: level 06 puts quantized weights behind it.",
    change=(
        'linear(merge_heads(attend(q, k, v, mask)), params[f"{p}o_proj.weight"])',
        'merge_heads(attend(q, k, v, mask)) @ params[f"{p}o_proj.weight"].T',
    ),
)
ghost(
    "level00.transformer.block",
    "linear_not_passed_to_the_mlp",
    "Pass `linear` on to swiglu too: three of the seven matrices are read there.",
    change=("swiglu(normed, gate, up, down, linear)", "swiglu(normed, gate, up, down)"),
)
ghost(
    "level00.transformer.block",
    "attend_not_passed",
    "Pass `attend` on to self_attention: level 07 replaces it.",
    change=("mask, cache, attend=attend, linear=linear)", "mask, cache, linear=linear)"),
)
ghost(
    "level00.transformer.block",
    "post_norm",
    "Pre-norm: normalize the input of each half and add its raw result; you normalize the sum, as the first Transformer did.",
    program=lambda x, params, config, layer, cos, sin, mask, cache=None, **seams: _post_norm(
        x, params, config, layer, cos, sin, mask, cache, **seams
    ),
)


def _parts():
    """The other functions of the mounted level, for ghosts of the block."""
    from level00 import layers, transformer

    return layers.rms_norm, transformer.self_attention, transformer.swiglu


def _post_norm(x, params, config, layer, cos, sin, mask, cache=None, *, linear=None, **seams):
    rms_norm, self_attention, swiglu = _parts()
    p, seams = f"model.layers.{layer}.", seams | ({"linear": linear} if linear else {})
    matrices = [params[f"{p}mlp.{n}_proj.weight"] for n in ("gate", "up", "down")]
    x = x + self_attention(x, params, config, layer, cos, sin, mask, cache, **seams)
    x = rms_norm(x, params[p + "input_layernorm.weight"], config.norm_eps)
    x = x + swiglu(x, *matrices, *filter(None, [linear]))
    return rms_norm(x, params[p + "post_attention_layernorm.weight"], config.norm_eps)


ghost(
    "level00.transformer.block",
    "residual_from_normed",
    "The stream goes on unnormalized: add to x, not to its normalized copy.",
    change=[
        ("x = x + self_attention(normed,", "x = normed + self_attention(normed,"),
        ("return x + swiglu(normed,", "return normed + swiglu(normed,"),
    ],
)
ghost(
    "level00.transformer.block",
    "attention_residual_from_normed",
    "Attention's result is added to x, the unnormalized stream, not to the copy that was normalized for it.",
    change=("x = x + self_attention(normed,", "x = normed + self_attention(normed,"),
)
ghost(
    "level00.transformer.block",
    "mlp_residual_from_normed",
    "The MLP's result is added to x, the unnormalized stream, not to the copy that was normalized for it.",
    change=("return x + swiglu(normed,", "return normed + swiglu(normed,"),
)
ghost(
    "level00.transformer.block",
    "normalizes_the_normed",
    "The MLP's copy is made of the stream after attention; you normalize attention's own copy once more.",
    change=('rms_norm(x, params[p + "post_attention', 'rms_norm(normed, params[p + "post_attention'),
)
ghost(
    "level00.transformer.block",
    "one_norm_twice",
    "Each half has norm weights of its own: post_attention_layernorm before the MLP.",
    change=('params[p + "post_attention_layernorm.weight"]', 'params[p + "input_layernorm.weight"]'),
)
ghost(
    "level00.transformer.block",
    "no_second_residual",
    "Both halves add to the stream, the MLP as well.",
    change=("return x + swiglu(", "return swiglu("),
)
ghost(
    "level00.transformer.block",
    "no_first_residual",
    "Both halves add to the stream, attention as well.",
    change=("x = x + self_attention(", "x = self_attention("),
)
ghost(
    "level00.transformer.block",
    "parallel_block",
    "The MLP reads the stream after attention has written to it; side by side is GPT-J's arrangement.",
    change=[
        ("    x = x + self_attention(", "    before = x\n    x = x + self_attention("),
        ('rms_norm(x, params[p + "post_attention', 'rms_norm(before, params[p + "post_attention'),
    ],
)
ghost(
    "level00.transformer.block",
    "swapped_norms",
    "input_layernorm stands before attention, post_attention_layernorm before the MLP.",
    change=[
        ('input_layernorm.weight"], config', 'post_layernorm.weight"], config'),
        ('post_attention_layernorm.weight"], config', 'input_layernorm.weight"], config'),
        ('post_layernorm.weight"], config', 'post_attention_layernorm.weight"], config'),
    ],
)
ghost(
    "level00.transformer.block",
    "changes_x",
    "Do not add in place: x belongs to the caller.",
    change=("x = x + self_attention(", "x += self_attention("),
)
ghost(
    "level00.transformer.block",
    "mlp_reads_unnormed",
    "The MLP reads a normalized copy as well.",
    change=("swiglu(normed, gate", "swiglu(x, gate"),
)
ghost(
    "level00.transformer.hidden_states",
    "no_final_norm",
    "Normalize once more after the last block: `model.norm.weight`.",
    change=('return rms_norm(x, params["model.norm.weight"], config.norm_eps)', "return x"),
)
ghost(
    "level00.transformer.hidden_states",
    "scaled_embedding",
    "Llama does not scale its embeddings by sqrt(d_model); Gemma does.",
    change=(
        'params["model.embed_tokens.weight"][token_ids]',
        'params["model.embed_tokens.weight"][token_ids] * config.d_model**0.5',
    ),
    convention=True,
)
ghost(
    "level00.transformer.hidden_states",
    "no_positions",
    "Every token stands at position 0 in your tables: use `positions`.",
    change=("rope_tables(positions,", "rope_tables(positions * 0,"),
)
ghost(
    "level00.transformer.hidden_states",
    "ignores_given_positions",
    "The tables must follow `positions`: with a cache they start at its length, in a padded batch rows differ.",
    change=("rope_tables(positions,", "rope_tables(torch.arange(token_ids.shape[1]),"),
)
ghost(
    "level00.transformer.hidden_states",
    "first_row_positions",
    "Positions may differ from row to row: do not take the first row's for all.",
    change=(
        "    if positions.dim() == 2:\n",
        "    if positions.dim() == 2:\n        cos, sin = cos[:1].expand_as(cos), sin[:1].expand_as(sin)\n",
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "not_causal",
    "Pass the mask on: a token has seen its future.",
    change=("cos, sin, mask, cache,", "cos, sin, torch.ones(1, 1, dtype=torch.bool), cache,"),
)
ghost(
    "level00.transformer.hidden_states",
    "always_causal",
    'A mask may be given: pass it on instead of "causal".',
    change=("cos, sin, mask, cache,", 'cos, sin, "causal", cache,'),
)
ghost(
    "level00.transformer.hidden_states",
    "one_layer_short",
    "There are config.n_layers blocks; yours leaves the last one out.",
    change=("range(config.n_layers)", "range(config.n_layers - 1)"),
)
ghost(
    "level00.transformer.hidden_states",
    "always_the_first_layer",
    "Every block has weights of its own: pass its number on.",
    change=("block(x, params, config, layer,", "block(x, params, config, 0,"),
)
ghost(
    "level00.transformer.hidden_states",
    "no_cache",
    "Pass the cache on to every block.",
    change=("mask, cache, attend", "mask, None, attend"),
)
ghost(
    "level00.transformer.hidden_states",
    "default_theta",
    "The frequencies come from config.rope_theta.",
    change=("config.rope_theta", "100000.0"),
)
ghost(
    "level00.transformer.hidden_states",
    "seams_not_passed",
    "Pass `attend` and `linear` on to every block: later levels replace them.",
    change=(", attend=attend, linear=linear)\n    return", ")\n    return"),
)
ghost(
    "level00.transformer.block",
    "head_dim_from_d_model",
    "head_dim stands in the config; n_heads · head_dim need not be d_model.",
    change=('_proj.weight"]), config.head_dim)', '_proj.weight"]), config.d_model // config.n_heads)'),
)
ghost(
    "level00.transformer.block",
    "fixed_eps",
    "Normalize with config.norm_eps; models differ in it.",
    change=[
        ('input_layernorm.weight"], config.norm_eps', 'input_layernorm.weight"], 1e-5'),
        ('post_attention_layernorm.weight"], config.norm_eps', 'post_attention_layernorm.weight"], 1e-5'),
    ],
)
ghost(
    "level00.transformer.block",
    "an_empty_cache_is_false",
    "Ask `cache is not None`: an empty cache may count as false, and it is the one to be filled.",
    change=("if cache is not None:", "if cache:"),
)
ghost(
    "level00.transformer.block",
    "ignores_what_update_returns",
    "Attend to the keys and values that `update` returns: they include all earlier tokens.",
    change=("k, v = cache.update(layer, k, v)", "cache.update(layer, k, v)"),
)
ghost(
    "level00.transformer.block",
    "keeps_the_cache",
    "Pass the cache on to self_attention.",
    change=("sin, mask, cache, attend=attend", "sin, mask, None, attend=attend"),
)
ghost(
    "level00.transformer.block",
    "silu_overflows",
    "e^z / (1 + e^z) is inf / inf from z = 89 on: use torch.sigmoid or silu.",
    change=("silu(linear(x, w_gate))", "(lambda z: z * (z.exp() / (1 + z.exp())))(linear(x, w_gate))"),
)
ghost(
    "level00.transformer.hidden_states",
    "theta_of_the_paper",
    "10,000 is the paper's theta; each model has its own, config.rope_theta.",
    change=("config.rope_theta", "10000.0"),
)
ghost(
    "level00.transformer.hidden_states",
    "tables_in_every_layer",
    "Make the tables once, before the layers: they are the same in all of them.",
    change=[
        (
            "    cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)\n    if positions.dim() == 2:\n"
            "        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # (B, 1, S, D): the same for every head\n",
            "",
        ),
        (
            "        x = block(",
            "        cos, sin = rope_tables(positions, config.head_dim, config.rope_theta)\n        if positions.dim() == 2:\n"
            "            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)\n        x = block(",
        ),
    ],
)
ghost(
    "level00.transformer.hidden_states",
    "fixed_eps",
    "The final norm uses config.norm_eps as well.",
    change=('params["model.norm.weight"], config.norm_eps)', 'params["model.norm.weight"], 1e-5)'),
)
ghost(
    "level00.transformer.hidden_states",
    "multiplies_one_hot",
    "Look the rows up by index: a one-hot product reads the whole embedding for every token.",
    change=(
        'params["model.embed_tokens.weight"][token_ids]',
        'torch.nn.functional.one_hot(token_ids, config.vocab_size).float() @ params["model.embed_tokens.weight"]',
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "mask_from_positions",
    '"causal" goes by the order of the tokens, not by their positions: pass it on as it is.',
    change=(
        "    for layer in range",
        "    if isinstance(mask, str) and cache is None:\n"
        "        rows = positions.expand(token_ids.shape)\n"
        "        mask = (rows.unsqueeze(-2) <= rows.unsqueeze(-1)).unsqueeze(1)\n"
        "    for layer in range",
    ),
)
ghost(
    "level00.transformer.hidden_states",
    "sets_the_length",
    "Only the cache changes its length: update does it.",
    change=(
        "    return rms_norm(",
        "    if cache is not None:\n        cache.length = start + token_ids.shape[1]\n    return rms_norm(",
    ),
)
