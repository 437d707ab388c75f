"""Known-wrong programs of level00.layers. `ghost` is given when this is read."""

import torch

ghost(
    "level00.layers.softmax",
    "no_max",
    "Subtract the row's maximum first: exp(89) already overflows float32.",
    change=("weights = (x - largest).exp()", "weights = x.exp()"),
)
ghost(
    "level00.layers.softmax",
    "global_max",
    "Subtract each row's own maximum; the tensor's maximum sends the other rows to 0.",
    change=("x.amax(dim, keepdim=True)", "x.max() + 0 * x.amax(dim, keepdim=True).nan_to_num(neginf=0)"),
)
ghost(
    "level00.layers.softmax",
    "ignores_dim",
    "Normalize along the axis `dim`; you always take the last one.",
    change=("largest = x.amax(dim, keepdim=True)", "dim = -1\n    largest = x.amax(dim, keepdim=True)"),
)
ghost(
    "level00.layers.softmax",
    "wrong_axis",
    "Normalize over the keys, the last axis by default: each query's weights sum to 1.",
    change=(
        "largest = x.amax(dim, keepdim=True)",
        "dim = 0 if dim == -1 else dim\n    largest = x.amax(dim, keepdim=True)",
    ),
)
ghost(
    "level00.layers.softmax",
    "nan_row",
    "A slice that is -inf throughout must give zeros: one NaN from a padding row poisons the batch.",
    program=lambda x, dim=-1: torch.softmax(x, dim),
)
ghost(
    "level00.layers.softmax",
    "uniform_row",
    "A slice that is -inf throughout gives zeros, not equal weights: a query that may see nothing takes nothing.",
    program=lambda x, dim=-1: torch.softmax(x.clamp(min=torch.finfo(x.dtype).min), dim),
)
ghost(
    "level00.layers.softmax",
    "sums_the_last_axis",
    "The sum runs along `dim` too, as the maximum does; you sum along the last axis.",
    change=("weights.sum(dim, keepdim=True)", "weights.sum(-1, keepdim=True)"),
)
ghost(
    "level00.layers.softmax",
    "adds_epsilon",
    "The weights sum to 1 exactly; an epsilon in the denominator takes a little from every one of them.",
    change=(".clamp(min=torch.finfo(x.dtype).tiny)", " + 1e-4"),
)
ghost(
    "level00.layers.rms_norm",
    "layer_norm",
    "RMSNorm does not subtract the mean; LayerNorm does.",
    change=("wide = x.float()", "wide = x.float() - x.float().mean(-1, keepdim=True)"),
)
ghost(
    "level00.layers.rms_norm",
    "eps_outside",
    "eps stands under the square root, next to the mean of squares.",
    change=(
        "torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)",
        "1 / (wide.square().mean(-1, keepdim=True).sqrt() + eps)",
    ),
)
ghost(
    "level00.layers.rms_norm",
    "no_eps",
    "eps is missing: a row of zeros becomes 0/0.",
    change=("keepdim=True) + eps)", "keepdim=True))"),
)
ghost(
    "level00.layers.rms_norm",
    "l2_norm",
    "Divide by the root of the mean square, not of the sum: the result shrinks by sqrt(d) otherwise.",
    change=("wide.square().mean(", "wide.square().sum("),
)
ghost(
    "level00.layers.rms_norm",
    "half_accumulate",
    "Square in float32: 300² overflows float16, and the token vanishes.",
    change=[("wide = x.float()", "wide = x"), ("weight.float()", "weight")],
)
ghost(
    "level00.layers.rms_norm",
    "rounds_before_the_weight",
    "Multiply by the weight in float32 and round once, at the end; you round before it as well (transformers' Llama does).",
    change=("(wide * weight.float()).to(x.dtype)", "wide.to(x.dtype) * weight"),
    convention=True,
)
ghost(
    "level00.layers.rms_norm",
    "keeps_float32",
    "The result has the dtype of x: cast it back at the end.",
    change=("(wide * weight.float()).to(x.dtype)", "wide * weight.float()"),
)
ghost(
    "level00.layers.rms_norm",
    "one_plus_weight",
    "Scale by the weight itself; 1 + weight is Gemma's convention.",
    change=("weight.float()", "(1 + weight.float())"),
    convention=True,
)
ghost(
    "level00.layers.rms_norm",
    "whole_tensor",
    "Each position has its own mean square: average over the last axis only.",
    change=(".mean(-1, keepdim=True)", ".mean()"),
)
ghost(
    "level00.layers.rope_tables",
    "half_exponent",
    "Plane i turns at theta^(-2i / head_dim): the factor 2 belongs there.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (-plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "doubled_exponent",
    "There are head_dim / 2 planes, i = 0, 1, 2, …, and the exponent is -2i / head_dim; you count i in steps of two as well.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (-4 * plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "interleaved_table",
    "Half-split pairs feature i with i + head_dim / 2, so the angles run a_0, a_1, …, a_0, a_1, …, not each one twice in a row.",
    change=("torch.cat([angle, angle], -1)", "angle.repeat_interleave(2, -1)"),
    convention=True,
)
ghost(
    "level00.layers.rope_tables",
    "one_based",
    "Position 0 is not turned: its cos is 1 and its sin 0.",
    change=("positions.double()", "(positions.double() + 1)"),
)
ghost(
    "level00.layers.rope_tables",
    "bf16_positions",
    "Compute angles in float32 or better: bfloat16 has no 257, it becomes 256.",
    change=("positions.double()", "positions.bfloat16().double()"),
)
ghost(
    "level00.layers.rope_tables",
    "fp16_angles",
    "Compute angles in float32 or better: float16 keeps eleven bits, so far angles are off by half a radian.",
    change=("    angle = torch.cat(", "    angle = angle.half().double()\n    angle = torch.cat("),
)
ghost(
    "level00.layers.rope_tables",
    "ignores_theta",
    "The base of the frequencies is the argument theta; 10000 is only the paper's choice.",
    change=("frequency = theta **", "frequency = 10000.0 **"),
)
ghost(
    "level00.layers.rope_tables",
    "positive_exponent",
    "Later planes turn more slowly: the exponent is negative.",
    change=("theta ** (-2 * plane / head_dim)", "theta ** (2 * plane / head_dim)"),
)
ghost(
    "level00.layers.rope_tables",
    "float64_tables",
    "The tables are float32; float64 would turn all that they touch into float64.",
    change=("angle.cos().float(), angle.sin().float()", "angle.cos(), angle.sin()"),
)
ghost(
    "level00.layers.apply_rope",
    "interleaved",
    "This model pairs feature i with i + head_dim / 2; you pair neighbours, which is the paper's layout: fine for a token or two, then babble.",
    program=lambda x, cos, sin: _neighbours(x, cos, sin),
    convention=True,
)


def _neighbours(x, cos, sin):
    half = x.shape[-1] // 2
    c, s, even, odd = cos[..., :half], sin[..., :half], x[..., 0::2], x[..., 1::2]
    return torch.stack([even * c - odd * s, odd * c + even * s], -1).flatten(-2).to(x.dtype)


ghost(
    "level00.layers.apply_rope",
    "mixed_layouts",
    "The tables are half-split but your turn swaps neighbours: two layouts mixed, and the vector's length changes.",
    change=(
        "turned = torch.cat([-second, first], -1)",
        "turned = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)",
    ),
)
ghost(
    "level00.layers.apply_rope",
    "no_minus",
    "A rotation has one minus sign; without it the length of the vector changes.",
    change=("[-second, first]", "[second, first]"),
)
ghost(
    "level00.layers.apply_rope",
    "turns_backwards",
    "Turn by plus the angle: (a, b) becomes (a cos - b sin, b cos + a sin); yours turns the other way.",
    change=("[-second, first]", "[second, -first]"),
)
ghost(
    "level00.layers.apply_rope",
    "identity",
    "Nothing is turned: the vector comes back as it was.",
    change=("(x * cos + turned * sin)", "x"),
)
ghost(
    "level00.layers.apply_rope",
    "keeps_float32",
    "The result has the dtype of x: the float32 tables must not widen it.",
    change=(".to(x.dtype)", ""),
)
ghost(
    "level00.layers.causal_mask",
    "top_left",
    "The queries are the last tokens: the diagonal ends in the lower right corner.",
    change=("torch.arange(kv_len - q_len, kv_len)", "torch.arange(q_len)"),
)
ghost(
    "level00.layers.causal_mask",
    "not_itself",
    "A token attends to itself; otherwise the first one attends to nothing.",
    change=("<= query_positions", "< query_positions"),
)
ghost(
    "level00.layers.causal_mask",
    "inverted",
    "True means may attend here, as in scaled_dot_product_attention; nn.MultiheadAttention means the opposite.",
    change=("<= query_positions", "> query_positions"),
    convention=True,
)
ghost(
    "level00.layers.causal_mask",
    "looks_ahead",
    "You let a query see what comes after it: keys up to its own position, not from it on.",
    change=("<= query_positions", ">= query_positions"),
)
ghost(
    "level00.layers.causal_mask",
    "additive",
    "The mask is boolean, True where a query may attend; adding -inf to scores is left to attention.",
    change=(
        "return torch.arange(kv_len) <= query_positions.unsqueeze(-1)",
        "return torch.zeros(q_len, kv_len).masked_fill(torch.arange(kv_len) > query_positions.unsqueeze(-1), -torch.inf)",
    ),
    convention=True,
)
ghost(
    "level00.layers.causal_mask",
    "numbers",
    "The mask is boolean: True and False, not 1.0 and 0.0.",
    change=(
        "return torch.arange(kv_len) <= query_positions.unsqueeze(-1)",
        "return (torch.arange(kv_len) <= query_positions.unsqueeze(-1)).float()",
    ),
)
ghost(
    "level00.layers.causal_mask",
    "sees_all",
    "Nothing is hidden: a query may see keys up to its own position only.",
    change=("torch.arange(kv_len) <= query_positions.unsqueeze(-1)", "torch.ones(q_len, kv_len, dtype=torch.bool)"),
)
ghost(
    "level00.layers.attention",
    "unscaled",
    "Divide the scores by sqrt(head_dim), or the softmax saturates as heads grow.",
    change=(" * D**-0.5", ""),
)
ghost(
    "level00.layers.attention",
    "scale_by_dim",
    "The scale is 1 / sqrt(head_dim), not 1 / head_dim.",
    change=("D**-0.5", "D**-1.0"),
)
ghost(
    "level00.layers.attention",
    "scale_by_model",
    "The scale is 1 / sqrt(head_dim), of one head, not of all heads together.",
    change=("D**-0.5", "(H * D) ** -0.5"),
)
ghost(
    "level00.layers.attention",
    "mod_heads",
    "Neighbouring query heads share a KV head: h // group, not h % n_kv_heads.",
    change=(
        "    grouped = q.float()",
        "    k, v = (t.repeat(1, H // G, 1, 1) for t in (k, v))\n    G = H\n    grouped = q.float()",
    ),
)
ghost(
    "level00.layers.attention",
    "first_kv_head",
    "Each group of query heads has a KV head of its own; you read the first one for all.",
    change=(
        "    grouped = q.float()",
        "    k, v = k[:, :1].expand_as(k), v[:, :1].expand_as(v)\n    grouped = q.float()",
    ),
)
ghost(
    "level00.layers.attention",
    "mask_zero",
    "A score of 0 is an ordinary score; a key that may not be seen needs -inf before the softmax.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, 0.0)"),
)
ghost(
    "level00.layers.attention",
    "mask_after",
    "Masking after the softmax leaves weights that no longer sum to 1.",
    change=("softmax(scores.masked_fill(~mask, -torch.inf))", "softmax(scores) * mask"),
)
ghost(
    "level00.layers.attention",
    "mask_inverted",
    "True means may attend: you hide what is visible and show the rest.",
    change=("masked_fill(~mask", "masked_fill(mask"),
)
ghost(
    "level00.layers.attention",
    "ignores_the_mask",
    "The mask is not used at all.",
    change=("scores.masked_fill(~mask, -torch.inf)", "scores"),
)
ghost(
    "level00.layers.attention",
    "softmax_over_queries",
    "Normalize over the keys of one query, not over the queries of one key.",
    change=("softmax(scores.masked_fill(~mask, -torch.inf))", "softmax(scores.masked_fill(~mask, -torch.inf), -2)"),
)
ghost(
    "level00.layers.attention",
    "minus_1e4",
    "Hide a key with -inf, not with a large number: a query that may see nothing would get the mean of all values.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -1e4)"),
)
ghost(
    "level00.layers.attention",
    "minus_1e9",
    "Hide a key with -inf: with a large negative number a query that may see nothing gets the mean of all values.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~mask, -1e9)"),
)
ghost(
    "level00.layers.attention",
    "half_scores",
    "Scores and softmax are computed in float32: bfloat16 keeps eight bits of each weight.",
    change=[("q.float()", "q"), ("k.float()", "k"), ("v.float()", "v")],
)
ghost(
    "level00.layers.attention",
    "rebuilds_a_square_mask",
    "Use the mask that you are given; one built from the query length alone is aligned to the first key.",
    change=("masked_fill(~mask, -torch.inf)", "masked_fill(~(torch.ones(Q, K).tril().bool() & mask), -torch.inf)"),
)
ghost(
    "level00.layers.softmax",
    "changes_x",
    "Work on a copy: the scores belong to the caller.",
    change=("weights = (x - largest).exp()", "weights = x.sub_(largest).exp_()"),
)
ghost(
    "level00.layers.softmax",
    "masks_large_negatives",
    "Only -inf is masked; -100,000 is a score like any other.",
    change=("    largest = x.amax", "    x = x.masked_fill(x < -1e4, -torch.inf)\n    largest = x.amax"),
)
ghost(
    "level00.layers.softmax",
    "returns_float32",
    "The weights have the dtype of x: cast them back at the end.",
    change=("    largest = x.amax", "    x = x.float()\n    largest = x.amax"),
)
ghost(
    "level00.layers.rms_norm",
    "changes_x",
    "x.float() of a float32 tensor is x itself: multiply into a new tensor, not in place.",
    change=("wide = wide * torch.rsqrt", "wide *= torch.rsqrt"),
)
ghost(
    "level00.layers.rms_norm",
    "fixed_eps",
    "Use the eps that you are given; 1e-5 is one model's.",
    change=("keepdim=True) + eps)", "keepdim=True) + 1e-5)"),
)
ghost(
    "level00.layers.rms_norm",
    "rounds_the_weight",
    "Take the weight to float32 as it is; cast to the dtype of x first, it loses bits.",
    change=("weight.float()", "weight.to(x.dtype).float()"),
)
ghost(
    "level00.layers.rms_norm",
    "dtype_of_the_weight",
    "The result has the dtype of x, not of the weight.",
    change=(".to(x.dtype)", ".to(weight.dtype)"),
)
ghost(
    "level00.layers.rope_tables",
    "swapped_tables",
    "cos comes first, sin second.",
    change=("angle.cos().float(), angle.sin().float()", "angle.sin().float(), angle.cos().float()"),
)
ghost(
    "level00.layers.rope_tables",
    "outer_product",
    "Positions may have a batch axis: multiply by broadcasting, since torch.outer takes vectors only.",
    change=("positions.double().unsqueeze(-1) * frequency", "torch.outer(positions.double(), frequency)"),
)
ghost(
    "level00.layers.rope_tables",
    "table_of_fixed_length",
    "Compute the angles of the positions that you are given; a table made in advance ends somewhere.",
    change=(
        "positions.double().unsqueeze(-1) * frequency",
        "(torch.arange(8192).double().unsqueeze(-1) * frequency)[positions]",
    ),
)
ghost(
    "level00.layers.apply_rope",
    "needs_contiguous_x",
    "x comes transposed out of split_heads, where `view` fails: split its last axis, or use reshape.",
    change=("first, second = x.chunk(2, -1)", "first, second = x.view(-1, x.shape[-1]).view(x.shape).chunk(2, -1)"),
)
ghost(
    "level00.layers.attention",
    "changes_q",
    "q.float() of a float32 tensor is q itself: scale a copy.",
    change=[
        (
            "    grouped = q.float().reshape(B",
            "    wide = q.float()\n    wide *= D**-0.5\n    grouped = wide.reshape(B",
        ),
        ("k.float().mT * D**-0.5)", "k.float().mT)"),
    ],
)
ghost(
    "level00.layers.attention",
    "minus_1e4_and_zeros",
    "Hide a key with -inf: a visible score may be below -10,000, and the hidden key would win.",
    change=(
        "softmax(scores.masked_fill(~mask, -torch.inf))",
        "softmax(scores.masked_fill(~mask, -1e4)) * mask.any(-1, keepdim=True)",
    ),
)
ghost(
    "level00.layers.attention",
    "scores_in_half",
    "Go to float32 before q kᵀ: a sum in half precision has lost its bits, or overflowed, when you cast it.",
    change=[
        ("q.float().reshape", "q.reshape"),
        ("(grouped @ k.float().mT * D**-0.5)", "(grouped @ k.mT).float().mul(D**-0.5)"),
    ],
)
ghost(
    "level00.layers.attention",
    "needs_contiguous_q",
    "q comes transposed out of split_heads, where `view` fails: reshape copies if it must.",
    change=("q.float().reshape(", "q.float().view("),
)
