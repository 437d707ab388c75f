"""Known-wrong programs of level00.accounting. `ghost` is given when this is read."""

ghost(
    "level00.accounting.flops_per_token",
    "tied_twice",
    "Tied embeddings are stored once and used twice: lm_head counts 0.",
    change=('"lm_head": 0 if config.tie_embeddings else config.vocab_size * d', '"lm_head": config.vocab_size * d'),
)
ghost(
    "level00.accounting.flops_per_token",
    "never_an_lm_head",
    "An untied model has a second matrix of vocab_size · d_model.",
    change=('"lm_head": 0 if config.tie_embeddings else config.vocab_size * d', '"lm_head": 0'),
)
ghost(
    "level00.accounting.flops_per_token",
    "mha",
    "K and V have n_kv_heads heads: that is the point of GQA.",
    change=("(2 * heads + 2 * kv_heads)", "(4 * heads)"),
)
ghost(
    "level00.accounting.flops_per_token",
    "square_projections",
    "Q and O are n_heads · head_dim wide, which need not be d_model.",
    change=("(2 * heads + 2 * kv_heads)", "(2 * d + 2 * kv_heads)"),
)
ghost(
    "level00.accounting.flops_per_token",
    "two_matrix_mlp",
    "SwiGLU has three matrices: gate, up and down.",
    change=("layers * 3 * d * config.d_ff", "layers * 2 * d * config.d_ff"),
)
ghost(
    "level00.accounting.flops_per_token",
    "forgets_the_final_norm",
    "Add the final norm: d_model more.",
    change=("layers * 2 * d + d", "layers * 2 * d"),
)
ghost(
    "level00.accounting.flops_per_token",
    "one_norm_a_layer",
    "A block has two norms, one before each half.",
    change=("layers * 2 * d + d", "layers * d + d"),
)
ghost(
    "level00.accounting.flops_per_token",
    "one_layer",
    "Sum over all layers, not one.",
    change=("config.d_model, config.n_layers", "config.d_model, 1"),
)
ghost(
    "level00.accounting.flops_per_token",
    "mac_is_one",
    "A multiply and an add are two FLOPs.",
    change=[
        ('2 * weights["attention"]', 'weights["attention"]'),
        ("4 * config.head_dim", "2 * config.head_dim"),
        ('2 * weights["mlp"]', 'weights["mlp"]'),
        ('"lm_head": 2 * config', '"lm_head": config'),
    ],
)
ghost(
    "level00.accounting.flops_per_token",
    "no_head",
    "The product with the vocabulary is one too, even if its matrix is shared: 21% of the weights of SmolLM2.",
    change=('"lm_head": 2 * config.vocab_size * config.d_model', '"lm_head": 2 * weights["lm_head"]'),
)
ghost(
    "level00.accounting.flops_per_token",
    "embedding_is_a_product",
    "Looking up a row of the embedding costs no FLOPs; only the product with the vocabulary does.",
    change=('"lm_head": 2 * config.vocab_size * config.d_model', '"lm_head": 4 * config.vocab_size * config.d_model'),
)
ghost(
    "level00.accounting.flops_per_token",
    "kv_heads_in_scores",
    "GQA saves bytes, not FLOPs: every query head computes its own scores.",
    change=("config.n_heads * 4", "config.n_kv_heads * 4"),
)
ghost(
    "level00.accounting.flops_per_token",
    "scores_once",
    "Two products per key: q kᵀ, and the weights times v.",
    change=("config.n_heads * 4", "config.n_heads * 2"),
)
ghost(
    "level00.accounting.flops_per_token",
    "not_itself",
    "context_len includes the token itself.",
    change=("config.head_dim * context_len", "config.head_dim * (context_len - 1)"),
)
