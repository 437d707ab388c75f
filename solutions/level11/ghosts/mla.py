"""Known-wrong programs of level11.mla. `ghost` is given when this is read."""

_BYTES = "return n_layers * (d_latent + d_rope) * bytes_per_element"
_SPLIT = "linear(x, w_down).split([len(norm_weight), len(w_down) - len(norm_weight)], -1)"
_NAMES = "latent, k_rope = linear("
_NORM = "rms_norm(latent, norm_weight, eps)"
_ROTATED = "apply_rope(k_rope, cos, sin)"


def _compress(name, sentence, *pairs, **more):
    ghost("level11.mla.compress", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


# ---- latent_bytes_per_token

_compress(
    "keys_and_values",
    "One latent serves keys and values: there is no factor 2.",
    _BYTES,
    "return 2 * n_layers * (d_latent + d_rope) * bytes_per_element",
)
_compress(
    "rope_key_forgotten",
    "The rotated key is cached beside the latent: d_latent + d_rope numbers a token and layer.",
    _BYTES,
    "return n_layers * d_latent * bytes_per_element",
)
_compress(
    "one_rope_key_for_all_layers",
    "The rotated key is shared by the heads of a layer, not by the layers: each has its own.",
    _BYTES,
    "return (n_layers * d_latent + d_rope) * bytes_per_element",
)
_compress(
    "one_layer",
    "Every layer caches latents of its own: yours counts one layer.",
    _BYTES,
    "return (d_latent + d_rope) * bytes_per_element",
)
_compress(
    "whole_bytes",
    "An element may take less than a byte (4 bits are 0.5): do not round.",
    _BYTES,
    "return int(n_layers * (d_latent + d_rope) * bytes_per_element)",
)
_compress(
    "always_16_bits",
    "Count with bytes_per_element: a cache in 8 bits is half as large.",
    _BYTES,
    "return n_layers * (d_latent + d_rope) * 2",
)

# ---- compress

_compress(
    "rope_on_latent",
    "The latent stays unrotated: a rotation that stands between it and w_uk could not be absorbed into the query.",
    _NORM,
    "apply_rope(rms_norm(latent, norm_weight, eps), *(t[..., :1].expand(-1, len(norm_weight)) for t in (cos, sin)))",
)
_compress(
    "no_rope",
    "The shared key carries the position, and is cached rotated: apply cos and sin.",
    _ROTATED,
    "k_rope",
)
_compress("no_norm", "The latent goes through an RMSNorm before it is cached: yours is raw.", _NORM, "latent")
_compress(
    "key_normalized_too",
    "The norm is the latent's: the key is rotated as it comes out of w_down.",
    _ROTATED,
    "apply_rope(rms_norm(k_rope, torch.ones_like(k_rope[0, 0]), eps), cos, sin)",
)
_compress(
    "norm_over_both",
    "The mean square is that of the latent alone: yours is taken over latent and key together.",
    _SPLIT,
    "rms_norm(linear(x, w_down), torch.ones_like(w_down[:, 0]), eps).split("
    "[len(norm_weight), len(w_down) - len(norm_weight)], -1)",
    _NORM,
    "latent * norm_weight",
)
_compress(
    "normalizes_x",
    "x is normalized already; the norm here is of what w_down makes of it.",
    "linear(x, w_down)",
    "linear(rms_norm(x, torch.ones_like(x[0, 0]), eps), w_down)",
)
_compress(
    "norm_without_weight",
    "The RMSNorm has a learned weight: multiply by norm_weight.",
    _NORM,
    "rms_norm(latent, torch.ones_like(norm_weight), eps)",
)
_compress(
    "one_plus_weight",
    "1 + weight is Gemma's norm: DeepSeek's multiplies by the weight.",
    _NORM,
    "rms_norm(latent, 1 + norm_weight, eps)",
)
_compress(
    "eps_of_its_own",
    "Use the eps that is handed over, under the root.",
    _NORM,
    "rms_norm(latent, norm_weight, 1e-6)",
)
_compress(
    "key_first",
    "The first rows of w_down make the latent, the last ones the key.",
    _NAMES,
    "k_rope, latent = linear(",
    _SPLIT.removeprefix("linear("),
    "x, w_down).split([len(w_down) - len(norm_weight), len(norm_weight)], -1)",
)
_compress(
    "position_zero",
    "Each token has its own row of cos and sin: yours rotates all of them by the first one's.",
    _ROTATED,
    "apply_rope(k_rope, cos[:1], sin[:1])",
)
_compress(
    "counts_from_zero",
    "Behind a cache the first new token does not stand at 0: rotate by the tables that are handed over.",
    _ROTATED,
    "apply_rope(k_rope, *__import__('level00.layers').layers.rope_tables(torch.arange(x.shape[1]), k_rope.shape[-1], 1e4))",
)
_compress(
    "rotated_twice",
    "The key is rotated once, when it is cached.",
    _ROTATED,
    "apply_rope(apply_rope(k_rope, cos, sin), cos, sin)",
)
_compress(
    "neighbours",
    "Feature i turns with feature i + d_rope / 2, as level 00's apply_rope does it: yours turns neighbours.",
    _ROTATED,
    "apply_rope(k_rope.unflatten(-1, (-1, 2)).mT.flatten(-2), cos, sin).unflatten(-1, (2, -1)).mT.flatten(-2)",
)
_compress(
    "an_axis_for_the_head",
    "k_rope is (B, S, d_rope): one key for all heads, without an axis for them.",
    _ROTATED,
    "apply_rope(k_rope.unsqueeze(1), cos, sin)",
)
_compress(
    "float32",
    "The cache gets latents and keys in the type of x: yours are float32.",
    _NORM,
    "rms_norm(latent.float(), norm_weight.float(), eps)",
    _ROTATED,
    "apply_rope(k_rope.float(), cos, sin)",
)

# ---- attend_naive

_KEYS = 'keys = torch.einsum("bsc,hnc->bhsn", latent, w_uk)'
_VALUES = 'values = torch.einsum("bsc,hvc->bhsv", latent, w_uv)'
_TERMS = "q_nope @ keys.mT + q_rope @ k_rope.unsqueeze(1).mT"
_ROPE_TERM = " + q_rope @ k_rope.unsqueeze(1).mT"
_SCALED = "scores = scores * (q_nope.shape[-1] + q_rope.shape[-1]) ** -0.5"
_WEIGHTED = "softmax(scores.masked_fill(~mask, -torch.inf)) @ values"


def _naive(name, sentence, *pairs, **more):
    ghost("level11.mla.attend_naive", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


_naive(
    "root_of_d_nope",
    "Both halves of a query make the score: the root is of d_nope + d_rope.",
    _SCALED,
    "scores = scores * q_nope.shape[-1] ** -0.5",
)
_naive(
    "root_of_the_latent",
    "The root is of a head's query width, d_nope + d_rope, and not of what is cached.",
    _SCALED,
    "scores = scores * (latent.shape[-1] + q_rope.shape[-1]) ** -0.5",
)
_naive(
    "no_scale",
    "Divide the scores by sqrt(d_nope + d_rope).",
    _SCALED,
    "pass",
)
_naive(
    "a_root_for_each_half",
    "The sum of both products is divided by one root, of d_nope + d_rope: yours gives each half a root of its own.",
    _TERMS,
    "q_nope @ keys.mT * q_nope.shape[-1] ** -0.5 + q_rope @ k_rope.unsqueeze(1).mT * q_rope.shape[-1] ** -0.5",
    _SCALED,
    "pass",
)
_naive(
    "rope_part_unscaled",
    "The rotated half of the score is under the same root as the other half.",
    _TERMS,
    "q_nope @ keys.mT",
    _SCALED,
    _SCALED + " + q_rope @ k_rope.unsqueeze(1).mT",
)
_naive(
    "rope_dropped",
    "The shared rotated key takes part in every head's score: without q_rope · k_rope nobody knows who stands where.",
    _ROPE_TERM,
    "",
)
_naive(
    "no_mask",
    "A query must not see later tokens: apply the mask.",
    _WEIGHTED,
    "softmax(scores) @ values",
)
_naive(
    "mask_from_zero",
    "The queries are those of the last Q tokens: a triangle that starts at key 0 hides what is cached.",
    "~mask",
    "~torch.ones_like(mask).tril()",
)
_naive(
    "not_itself",
    "A token sees itself too.",
    "~mask",
    "~mask.tril(mask.shape[1] - mask.shape[0] - 1)",
)
_naive(
    "masked_to_zero",
    "A score of 0 still gets a weight: what must not be seen gets -inf.",
    "-torch.inf",
    "0",
)
_naive(
    "masked_to_minus_10_000",
    "A large negative number is still a score, and others may be lower: what must not be seen gets -inf.",
    "-torch.inf",
    "-1e4",
)
_naive(
    "masked_after_the_softmax",
    "Mask before the softmax: afterwards the weights no longer add up to 1.",
    _WEIGHTED,
    "softmax(scores).masked_fill(~mask, 0) @ values",
)
_naive(
    "softmax_over_queries",
    "The weights of one query add up to 1: the softmax is over the keys.",
    "-torch.inf))",
    "-torch.inf), -2)",
)
_naive(
    "no_maximum",
    "exp of a large score is infinite: use level 00's softmax, which subtracts the largest first.",
    _WEIGHTED,
    "(lambda e: e / e.sum(-1, keepdim=True))(scores.masked_fill(~mask, -torch.inf).exp()) @ values",
)
_naive(
    "keys_of_one_head",
    "Each head has its own w_uk: yours makes every head's keys with the first one's.",
    _KEYS,
    'keys = torch.einsum("bsc,hnc->bhsn", latent, w_uk[:1].expand_as(w_uk))',
)
_naive(
    "values_of_one_head",
    "Each head has its own w_uv: yours makes every head's values with the first one's.",
    _VALUES,
    'values = torch.einsum("bsc,hvc->bhsv", latent, w_uv[:1].expand_as(w_uv))',
)
_naive(
    "latents_of_one_row",
    "Each row of the batch has latents of its own: yours reads the first row's.",
    _KEYS,
    "latent = latent[:1].expand_as(latent)\n    " + _KEYS,
)
_naive(
    "float32_inside",
    "Compute in the type of the arguments: on the way through float32 digits are lost.",
    _KEYS,
    "dtype, latent = latent.dtype, latent.float()\n"
    "    q_nope, q_rope, k_rope, w_uk, w_uv = (x.float() for x in (q_nope, q_rope, k_rope, w_uk, w_uv))\n    " + _KEYS,
    "-torch.inf)) @ values",
    "-torch.inf)).to(dtype) @ values.to(dtype)",
)
_naive(
    "queries_rotated_again",
    "q_rope is rotated already.",
    _KEYS,
    "from level00.layers import rope_tables\n"
    "    Q, S, width = q_rope.shape[2], latent.shape[1], q_rope.shape[3]\n"
    "    q_rope = apply_rope(q_rope, *rope_tables(torch.arange(S - Q, S), width, 10000.0)).to(q_rope.dtype)\n    "
    + _KEYS,
)

# ---- attend_absorbed

_ABSORBED = 'absorbed = torch.einsum("bhqn,hnc->bhqc", q_nope, w_uk)'
_SCORES = "absorbed.flatten(1, 2) @ latent.mT + q_rope.flatten(1, 2) @ k_rope.mT"
_LATENT_TERM = "absorbed.flatten(1, 2) @ latent.mT"
_VIEW = "scores = scores.view(B, H, Q, -1) * (d_nope + q_rope.shape[-1]) ** -0.5"
_ROOT = "(d_nope + q_rope.shape[-1]) ** -0.5"
_SOFTMAX = "softmax(scores.masked_fill(~mask, -torch.inf))"
_MIXED = "(weights.flatten(1, 2) @ latent).view(B, H, Q, -1)"
_OUT = 'return torch.einsum("bhqc,hvc->bhqv", mixed, w_uv)'


def _absorb(name, sentence, *pairs, **more):
    ghost("level11.mla.attend_absorbed", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


_absorb(
    "makes_keys_and_values",
    "Right numbers, but every head's keys and values are made again in each step: move w_uk to the query instead.",
    "B, H, Q, d_nope = q_nope.shape",
    "return attend_naive(q_nope, q_rope, latent, k_rope, w_uk, w_uv)\n    B, H, Q, d_nope = q_nope.shape",
)
_absorb(
    "makes_keys",
    "q · (W c) = (Wᵀ q) · c: w_uk goes to the one query, not to all the tokens' latents.",
    _LATENT_TERM,
    '(q_nope @ torch.einsum("bsc,hnc->bhsn", latent, w_uk).mT).flatten(1, 2)',
)
_absorb(
    "makes_values",
    "The sum of (W c) is W times the sum of c: mix the latents first, and put w_uv behind that.",
    "mixed = " + _MIXED,
    "pass",
    _OUT,
    'return weights @ torch.einsum("bsc,hvc->bhsv", latent, w_uv)',
)
_absorb(
    "makes_values_head_by_head",
    "One head's values after the other are as much work as all at once: mix the latents, then w_uv.",
    "mixed = " + _MIXED,
    "pass",
    _OUT,
    "return torch.stack([weights[:, h] @ (latent @ w_uv[h].T) for h in range(H)], 1)",
)
_absorb(
    "makes_keys_head_by_head",
    "One head's keys after the other are as much work as all at once: move w_uk to the query.",
    _LATENT_TERM,
    "torch.stack([q_nope[:, h] @ (latent @ w_uk[h].T).mT for h in range(H)], 1).flatten(1, 2)",
)
_absorb(
    "head_by_head",
    "A loop over the heads reads the whole cache once for each: let all heads be rows of one product.",
    "scores = " + _SCORES,
    "scores = torch.stack([absorbed[:, h] @ latent.mT + q_rope[:, h] @ k_rope.mT for h in range(H)], 1)",
    _MIXED,
    "torch.stack([weights[:, h] @ latent for h in range(H)], 1)",
)
_absorb(
    "latents_of_the_first_sequence",
    "Each sequence has latents of its own: yours scores all queries with those of the first one.",
    _LATENT_TERM,
    "absorbed.flatten(1, 2) @ latent[0].mT",
)
_absorb(
    "scores_copy_latents",
    "A product that broadcasts over the heads copies the latents for each of them: make heads extra rows, both times.",
    _LATENT_TERM,
    "(absorbed @ latent.unsqueeze(1).mT).flatten(1, 2)",
)
_absorb(
    "weights_times_latents",
    "A product of all weights with all latents, summed afterwards, has an entry for each head, token and feature.",
    _MIXED,
    "(weights.unsqueeze(-1) * latent[:, None, None]).sum(-2)",
)
_absorb(
    "root_of_the_latent",
    "Absorption does not change the score, so neither its root: d_nope + d_rope, though the products are wider.",
    _ROOT,
    "(latent.shape[-1] + q_rope.shape[-1]) ** -0.5",
)
_absorb(
    "root_of_d_nope",
    "The root is of both halves of the query, d_nope + d_rope.",
    _ROOT,
    "d_nope**-0.5",
)
_absorb("no_scale", "The scores are still divided by sqrt(d_nope + d_rope).", " * " + _ROOT, "")
_absorb(
    "rope_part_unscaled",
    "Both products are parts of one score, under one root: yours divides that of the latents alone.",
    " + q_rope.flatten(1, 2) @ k_rope.mT",
    "",
    _VIEW,
    _VIEW + " + (q_rope.flatten(1, 2) @ k_rope.mT).view(B, H, Q, -1)",
)
_absorb(
    "rope_dropped",
    "The latents know no positions: the score needs q_rope · k_rope beside them.",
    " + q_rope.flatten(1, 2) @ k_rope.mT",
    "",
)
_absorb("no_mask", "Apply the mask: a query must not see later tokens.", _SOFTMAX, "softmax(scores)")
_absorb(
    "mask_from_zero",
    "The queries belong to the last Q tokens: a triangle from key 0 hides what is cached.",
    "~mask",
    "~torch.ones_like(mask).tril()",
)
_absorb(
    "masked_to_zero",
    "What must not be seen gets -inf: a score of 0 still has a weight.",
    "-torch.inf",
    "0",
)
_absorb(
    "heads_of_a_query_as_neighbours",
    "flatten(1, 2) lays out head by head: undo it as (B, H, Q, …), not as (B, Q, H, …).",
    _VIEW,
    "scores = scores.view(B, Q, H, -1).transpose(1, 2) * " + _ROOT,
)
_absorb(
    "key_weights_of_one_head",
    "Each head absorbs its own w_uk.",
    _ABSORBED,
    _ABSORBED.replace("w_uk)", "w_uk[:1].expand_as(w_uk))"),
)
_absorb(
    "value_weights_of_one_head",
    "Each head's mixture goes through its own w_uv.",
    "mixed, w_uv)",
    "mixed, w_uv[:1].expand_as(w_uv))",
)
_absorb(
    "values_forgotten",
    "The mixture of the latents is not yet a value: w_uv comes behind it.",
    _OUT,
    "return mixed",
)
_absorb(
    "no_maximum",
    "exp of a large score overflows: level 00's softmax subtracts the largest first.",
    _SOFTMAX,
    "(lambda e: e / e.sum(-1, keepdim=True))(scores.masked_fill(~mask, -torch.inf).exp())",
)
_absorb(
    "float32_inside",
    "Compute in the type of the arguments: yours loses digits in float32.",
    _OUT,
    'return torch.einsum("bhqc,hvc->bhqv", mixed.float(), w_uv.float()).to(mixed.dtype)',
)
