"""Known-wrong programs of level14.lora. `ghost` is given when this is read."""

_SCALE = "return alpha / (sqrt(r) if rank_stabilized else r)"
_A = "a = (2 * torch.rand(r, in_features, generator=generator, dtype=dtype) - 1) / sqrt(in_features)"
_AB = "return a, torch.zeros(out_features, r, dtype=dtype)  # with a = 0 as well no gradient would ever reach either"
_THIN = "thin = x.to(a.dtype) @ a.T * lora_scale(alpha, len(a), rank_stabilized)"
_SUM = "return (any_linear(x, weight) + thin @ b.T).to(x.dtype)"
_COUNT = "return sum(r * (out_features + in_features) for out_features, in_features in shapes)"
_BASE = "base = weight if isinstance(weight, Tensor) else weight.dequantize()"
_WIDE = "wide = torch.promote_types(base.dtype, torch.float32)"
_DELTA = "delta = b.to(wide) @ a.to(wide) * lora_scale(alpha, len(a), rank_stabilized)"
_MERGED = "return (base.to(wide) + delta).to(base.dtype)  # in bfloat16 a small delta is rounded away here"
_UNMERGED = "return lora_merge(merged, a, -b, alpha, rank_stabilized)"


def _of(kata, part=""):
    def add(name, sentence, *pairs, **more):
        if part:
            more["part"] = part
        ghost(f"level14.lora.{kata}", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)

    return add


_linear, _scale, _init = _of("lora_linear"), _of("lora_linear", "lora_scale"), _of("lora_linear", "lora_init")
_params, _merge, _unmerge = _of("lora_linear", "lora_params"), _of("lora_merge"), _of("lora_merge", "lora_unmerge")

# ---- lora_scale

_scale(
    "alpha_alone",
    "The scale is alpha / r: yours is alpha, r times too large.",
    _SCALE,
    "return alpha / (sqrt(r) if rank_stabilized else 1)",
)
_scale(
    "upside_down",
    "The scale is alpha over the rank: yours is the rank over alpha.",
    _SCALE,
    "return (sqrt(r) if rank_stabilized else r) / alpha",
)
_scale(
    "never_rank_stabilized",
    "A rank-stabilized adapter has alpha / sqrt(r): yours divides by r, and it is served too weak.",
    "(sqrt(r) if rank_stabilized else r)",
    "r",
)
_scale(
    "always_rank_stabilized",
    "Unless it is said, the scale is alpha / r: yours always divides by sqrt(r).",
    "(sqrt(r) if rank_stabilized else r)",
    "sqrt(r)",
)
_scale(
    "root_of_it_all",
    "Only the rank is under the root: yours takes the root of alpha as well.",
    _SCALE,
    "return sqrt(alpha / r) if rank_stabilized else alpha / r",
)
_scale(
    "whole_numbers",
    "alpha / r need not be whole: yours is rounded down, to 0 where the rank is the larger one.",
    _SCALE,
    "return alpha / sqrt(r) if rank_stabilized else float(alpha // r)",
)

# ---- lora_init

_init(
    "both_zero",
    "With a = 0 and b = 0 neither ever has a gradient: a is drawn, only b is 0.",
    _A,
    "a = torch.zeros(r, in_features, dtype=dtype)",
)
_init(
    "both_drawn",
    "b is 0, so that training starts from the model as it was: yours is drawn, and the first step starts from noise.",
    "torch.zeros(out_features, r, dtype=dtype)",
    "(2 * torch.rand(out_features, r, generator=generator, dtype=dtype) - 1) / sqrt(r)",
)
_init(
    "shapes_exchanged",
    "a is (r, in) and b (out, r): yours are transposed.",
    _AB,
    "return a.T, torch.zeros(r, out_features, dtype=dtype)",
)
_init(
    "zero_and_drawn_exchanged",
    "a is drawn and b is 0: in yours it is the other way round, which would learn too, but is not what is asked for.",
    _AB,
    "return a * 0, (2 * torch.rand(out_features, r, generator=generator, dtype=dtype) - 1) / sqrt(in_features)",
    convention=True,
)
_init(
    "only_positive",
    "a lies between plus and minus 1 / sqrt(in): yours has no negative numbers.",
    "(2 * torch.rand(r, in_features, generator=generator, dtype=dtype) - 1)",
    "torch.rand(r, in_features, generator=generator, dtype=dtype)",
)
_init(
    "a_normal",
    "a is uniform, as in peft: yours is a normal, as in the paper.",
    "(2 * torch.rand(r, in_features, generator=generator, dtype=dtype) - 1)",
    "torch.randn(r, in_features, generator=generator, dtype=dtype)",
    convention=True,
)
_init(
    "by_the_rank",
    "The bound is 1 / sqrt(in), of what is summed over: yours goes by the rank.",
    "/ sqrt(in_features)",
    "/ sqrt(r)",
)
_init(
    "by_the_output",
    "The bound is 1 / sqrt(in), of what is summed over: yours goes by the output's width.",
    "/ sqrt(in_features)",
    "/ sqrt(out_features)",
)
_init(
    "bound_without_a_root",
    "The bound is 1 / sqrt(in): yours is 1 / in, and x Aᵀ vanishes in wide layers.",
    "/ sqrt(in_features)",
    "/ in_features",
)
_init(
    "global_numbers",
    "a is drawn from the generator that is given: yours uses torch's global one, and no run can be repeated.",
    "generator=generator, ",
    "",
)
_init(
    "init_in_float32",
    "a and b have the dtype that is asked for: yours are float32.",
    _A,
    "dtype = torch.float32\n    " + _A,
)

# ---- lora_linear

_linear(
    "product_first",
    "B A is as large as W: yours makes it at every call. Go down to r first, then up.",
    _SUM,
    "return (any_linear(x, weight) + x.to(a.dtype) @ (b @ a).T * lora_scale(alpha, len(a), rank_stabilized)).to(x.dtype)",
)
_linear(
    "merged_at_every_call",
    "The frozen weight stays apart: yours adds B A to it at every call, one more matrix of its size.",
    _SUM,
    "if isinstance(weight, Tensor):\n"
    "        return (x @ (weight + b @ a * lora_scale(alpha, len(a), rank_stabilized)).to(x.dtype).T).to(x.dtype)\n"
    "    " + _SUM,
)
_linear(
    "no_scale",
    "The low-rank part is multiplied by lora_scale: in yours the factor is missing.",
    _THIN,
    "thin = x.to(a.dtype) @ a.T",
)
_linear(
    "plain_scale_only",
    "rank_stabilized is passed on to lora_scale: yours forgets it.",
    "lora_scale(alpha, len(a), rank_stabilized)",
    "lora_scale(alpha, len(a))",
)
_linear(
    "rank_of_the_wrong_axis",
    "The rank is the number of a's rows: yours takes the number of columns, the input's width.",
    "len(a)",
    "a.shape[1]",
)
_linear(
    "scales_the_sum",
    "Only the low-rank part is scaled: yours scales the frozen layer as well.",
    _SUM,
    "return ((any_linear(x, weight) + thin / lora_scale(alpha, len(a), rank_stabilized) @ b.T)"
    " * lora_scale(alpha, len(a), rank_stabilized)).to(x.dtype)",
)
_linear(
    "base_dropped",
    "The low-rank part is added to the frozen layer: yours returns it alone.",
    _SUM,
    "return (thin @ b.T).to(x.dtype)",
)
_linear(
    "subtracted",
    "The low-rank part is added: yours is subtracted.",
    "+ thin @ b.T",
    "- thin @ b.T",
)
_linear(
    "tensors_only",
    "A quantized weight is no tensor: yours multiplies by it directly instead of asking any_linear.",
    "any_linear(x, weight)",
    "x @ weight.T",
)
_linear(
    "in_the_type_of_x",
    "The low-rank part is computed in the adapter's type: yours rounds a float32 adapter to the activations' type.",
    _SUM,
    "thin = x @ a.to(x.dtype).T * lora_scale(alpha, len(a), rank_stabilized)\n"
    "    return any_linear(x, weight) + thin @ b.to(x.dtype).T",
)
_linear(
    "thin_rounded_between",
    "The low-rank part is rounded once, at the end: yours rounds the r numbers in the middle to the type of x.",
    _THIN,
    "thin = (x.to(a.dtype) @ a.T).to(x.dtype).to(a.dtype) * lora_scale(alpha, len(a), rank_stabilized)",
)
_linear(
    "result_in_the_adapters_type",
    "The result has the type of x: yours has the adapter's, and the rest of the model becomes float32.",
    _SUM,
    "return any_linear(x, weight) + thin @ b.T",
)
_linear(
    "always_float32",
    "The low-rank part is computed in the adapter's type: yours goes through float32, whatever that is.",
    _SUM,
    "thin = x.float() @ a.float().T * lora_scale(alpha, len(a), rank_stabilized)\n"
    "    return (any_linear(x, weight) + thin @ b.float().T).to(x.dtype)",
)
_linear(
    "input_cut_off",
    "Through the adapter the input has a gradient as well: yours detaches it, and the layers below learn something else.",
    "x.to(a.dtype) @",
    "x.detach().to(a.dtype) @",
)
_linear(
    "base_without_gradient",
    "A frozen weight still passes the gradient on to its input: yours computes it under no_grad.",
    _SUM,
    "with torch.no_grad():\n        base = any_linear(x, weight)\n    return (base + thin @ b.T).to(x.dtype)",
)

# ---- lora_params

_params(
    "product",
    "An adapter has r (out + in) numbers: yours counts r · out · in.",
    "(out_features + in_features)",
    "(out_features * in_features)",
)
_params(
    "a_alone",
    "An adapter is a and b: yours counts a alone.",
    "(out_features + in_features)",
    "in_features",
)
_params(
    "b_alone",
    "An adapter is a and b: yours counts b alone.",
    "(out_features + in_features)",
    "out_features",
)
_params(
    "a_square",
    "b is as long as the output is wide: yours takes every matrix for a square one.",
    "(out_features + in_features)",
    "2 * in_features",
)
_params(
    "with_an_inner_matrix",
    "There are two thin matrices: yours counts an (r, r) one between them.",
    "r * (out_features + in_features)",
    "r * (out_features + in_features + r)",
)

# ---- lora_merge

_merge(
    "no_scale",
    "The product is multiplied by lora_scale, as in the forward pass: in yours the factor is missing.",
    _DELTA,
    "delta = b.to(wide) @ a.to(wide)",
)
_merge(
    "plain_scale_only",
    "A rank-stabilized adapter is merged with its own scale: yours takes the plain one.",
    "lora_scale(alpha, len(a), rank_stabilized)",
    "lora_scale(alpha, len(a))",
)
_merge(
    "in_place",
    "The base matrix serves others too: yours is changed in place.",
    _MERGED,
    "return base.add_(delta.to(base.dtype))",
)
_merge(
    "a_view_where_nothing_is_added",
    "The result is a new tensor: where the adapter is all zeros, yours returns the base matrix itself.",
    _MERGED,
    "return (base.to(wide) + delta).to(base.dtype) if delta.any() else base",
)
_merge(
    "adapter_alone",
    "The result is weight and adapter together: yours is the adapter's product alone.",
    _MERGED,
    "return delta.to(base.dtype)",
)
_merge(
    "merged_twice",
    "The product is added once: yours adds it twice.",
    _MERGED,
    "return (base.to(wide) + 2 * delta).to(base.dtype)",
)
_merge(
    "product_rounded_first",
    "The sum is made in float32: yours rounds the product to the weight's type before it is added.",
    _MERGED,
    "return base + delta.to(base.dtype)",
)
_merge(
    "product_in_half_precision",
    "The product is made in float32 or better: yours is made in the weight's type, which loses small steps.",
    _WIDE,
    "wide = base.dtype",
)
_merge(
    "stays_float32",
    "The result has the weight's type: yours stays in the type in which the sum was made.",
    _MERGED,
    "return base.to(wide) + delta",
)
_merge(
    "tensors_only",
    "Of a quantized weight, dequantize() is what the adapter was trained beside: yours takes every weight for a tensor.",
    _BASE,
    "base = weight",
)
_merge(
    "frozen_part_forgotten_when_quantized",
    "A quantized weight has a share in the result too: yours returns its adapter's product alone.",
    _BASE,
    "base = weight if isinstance(weight, Tensor) else torch.zeros(len(b), a.shape[1], dtype=weight.dtype)",
)

# ---- lora_unmerge

_unmerge(
    "added_again",
    "Unmerging subtracts what merging has added: yours adds it once more.",
    _UNMERGED,
    "return lora_merge(merged, a, b, alpha, rank_stabilized)",
)
_unmerge(
    "plain_scale_taken_out",
    "What was merged rank-stabilized is taken out so: yours takes out the plain part.",
    _UNMERGED,
    "return lora_merge(merged, a, -b, alpha)",
)
_unmerge(
    "unscaled",
    "What was merged with alpha / r is taken out with it: yours subtracts the product unscaled.",
    _UNMERGED,
    "return merged - b.to(merged.dtype) @ a.to(merged.dtype)",
)
_unmerge(
    "unmerged_in_place",
    "A new tensor is asked for: yours writes into the merged matrix, which may still be in use.",
    _UNMERGED,
    "return merged.copy_(lora_merge(merged, a, -b, alpha, rank_stabilized))",
)
