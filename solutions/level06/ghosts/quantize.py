"""Known-wrong programs of level06.quantize. `ghost` is given when this is read."""

import torch

# ---- quantize_int8

_LARGEST = "w.abs().amax(1, keepdim=True) / 127"
_GUARD = "torch.where(scale == 0, torch.ones_like(scale), scale)"
_CODES = ".round().clamp(-127, 127).to(torch.int8)"


def _int8(name, sentence, old, new, **more):
    ghost("level06.quantize.quantize_int8", name, sentence, change=(old, new), **more)


_int8(
    "one_scale_for_all",
    "One scale for each output row: with one for the matrix its largest row costs all others their codes.",
    _LARGEST,
    "w.abs().amax().expand(len(w), 1) / 127",
)
_int8(
    "scale_per_column",
    "The scale belongs to the output row: only what all terms of a dot product share can leave the sum over the inputs.",
    _LARGEST,
    "w.abs().amax(0, keepdim=True) / 127",
)
_int8(
    "truncates",
    "A cast cuts off towards zero: twice the error, and every weight shrinks. Round first.",
    _CODES,
    ".to(torch.int8)",
)
_int8(
    "floors",
    "floor moves every weight down, by half a step on average: round to the nearest.",
    _CODES,
    ".floor().to(torch.int8)",
)
_int8(
    "half_up",
    "floor(x + 0.5) takes every tie upwards; torch.round, the rule here, takes it to the even code.",
    _CODES,
    ".add(0.5).floor().to(torch.int8)",
    convention=True,
)


def _half_away(w):
    scale = w.abs().amax(1, keepdim=True) / 127
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    steps = w / scale
    return (steps.sign() * (steps.abs() + 0.5).floor()).to(torch.int8), scale


ghost(
    "level06.quantize.quantize_int8",
    "half_away",
    "C's round takes a tie away from zero; torch.round, the rule here, takes it to the even code.",
    program=_half_away,
    convention=True,
)
_int8(
    "half_and_cut_off",
    "x + 0.5 and a cast rounds positive numbers alone: the cast cuts negative ones off towards zero.",
    _CODES,
    ".add(0.5).to(torch.int8)",
)
ghost(
    "level06.quantize.quantize_int8",
    "divides_by_128",
    "+128 does not fit into int8: the largest weight of a row wraps around to -128. Divide by 127.",
    change=[(_LARGEST, "w.abs().amax(1, keepdim=True) / 128"), (_CODES, ".round().to(torch.int8)")],
)
_int8(
    "divides_in_half_precision",
    "In bfloat16 the quotient of the largest weight may round up to 128, and codes are off by one: divide in float32.",
    "(w.float() / scale.float())",
    "(w / scale)",
)
ghost(
    "level06.quantize.quantize_int8",
    "wraps_around",
    "In bfloat16 the quotient of the largest weight may be 128, which int8 takes for -128: divide in float32, and clamp.",
    change=[("(w.float() / scale.float())", "(w / scale)"), (_CODES, ".round().to(torch.int8)")],
)
_int8(
    "not_clamped",
    "A scale of few digits, in float16 below 6e-5, may be too small for the largest weight: clamp, or int8 wraps around.",
    _CODES,
    ".round().to(torch.int8)",
)
ghost(
    "level06.quantize.quantize_int8",
    "clips_at_127",
    "Divided by 128, with 128 cut to 127, the largest weights of a row come back too small: they are 127 steps.",
    change=[
        (_LARGEST, "w.abs().amax(1, keepdim=True) / 128"),
        (_CODES, ".round().clamp(-128, 127).to(torch.int8)"),
    ],
)
ghost(
    "level06.quantize.quantize_int8",
    "steps_of_255",
    "Symmetric codes reach from -127 to 127: there are 254 steps between them, not 255.",
    change=[
        (_LARGEST, "w.abs().amax(1, keepdim=True) / 127.5"),
        (_CODES, ".round().clamp(-128, 127).to(torch.int8)"),
    ],
)
_int8(
    "largest_without_abs",
    "The largest magnitude may be negative: take the absolute values first.",
    "w.abs().amax(1, keepdim=True)",
    "w.amax(1, keepdim=True)",
)
ghost(
    "level06.quantize.quantize_int8",
    "largest_without_abs_wraps_around",
    "The largest magnitude may be negative: take the absolute values first, or -9 beside 3 leaves the range of int8.",
    change=[("w.abs().amax(1, keepdim=True)", "w.amax(1, keepdim=True)"), (_CODES, ".round().to(torch.int8)")],
)
ghost(
    "level06.quantize.quantize_int8",
    "range_of_the_row_over_255",
    "Symmetric: the scale is the largest magnitude over 127; the distance of the least to the largest belongs to codes from low.",
    change=[
        (_LARGEST, "(w.amax(1, keepdim=True) - w.amin(1, keepdim=True)) / 255"),
        (_CODES, ".round().clamp(-128, 127).to(torch.int8)"),
    ],
)
_int8(
    "range_of_the_row",
    "Symmetric: the scale comes from the largest magnitude, not from the distance of the least to the largest.",
    _LARGEST,
    "(w.amax(1, keepdim=True) - w.amin(1, keepdim=True)) / 254",
)
_int8(
    "mean_magnitude",
    "The scale comes from the largest magnitude: with the mean, all above it leave the range of int8 and wrap around.",
    "w.abs().amax(1, keepdim=True)",
    "w.abs().mean(1, keepdim=True)",
)
_int8(
    "length_of_the_row",
    "The largest magnitude of a row becomes 127, not its Euclidean length.",
    "w.abs().amax(1, keepdim=True)",
    "w.norm(dim=1, keepdim=True)",
)
_int8(
    "clips_outliers",
    "Nothing is cut off: the largest magnitude itself becomes 127, not the 99th percentile.",
    _LARGEST,
    "w.abs().double().quantile(0.99, 1, keepdim=True).to(w.dtype) / 127",
)
_int8(
    "power_of_two",
    "The scale is the largest magnitude over 127 as it is; rounded up to a power of two it wastes up to half of the codes.",
    _GUARD,
    "torch.where(scale == 0, torch.ones_like(scale), scale.log2().ceil().exp2())",
    convention=True,
)
_int8(
    "zero_row_is_nan",
    "A row of zeros has 0 as its largest magnitude: its scale is 1, for 0 / 0 is NaN, and what int8 makes of that is chance.",
    _GUARD,
    "scale",
)
_int8(
    "adds_epsilon",
    "A small number on every scale takes the codes of small rows away: only a scale of 0 is replaced, by 1.",
    _GUARD,
    "scale + 1e-8",
)
_int8(
    "least_scale",
    "A scale may be as small as its row asks: with a least one, small rows lose their codes. Only 0 is replaced, by 1.",
    _GUARD,
    "scale.clamp(min=1e-5)",
)
_int8(
    "one_zero_row_for_all",
    "A row of zeros gets scale 1 alone; the others keep theirs.",
    _GUARD,
    "torch.ones_like(scale) if (scale == 0).any() else scale",
)
_int8(
    "inverse",
    "w is close to q · scale: return the step, not the number of steps to 1.",
    "(torch.int8), scale\n",
    "(torch.int8), 1 / scale\n",
)
_int8(
    "largest_as_scale",
    "The scale is one step, the largest magnitude over 127, not the largest magnitude itself.",
    "(torch.int8), scale\n",
    "(torch.int8), torch.where(w.abs().amax(1, keepdim=True) == 0, scale, scale * 127)\n",
)
_int8(
    "scale_is_1_d",
    "The scale is (out, 1), so that q · scale is the weight: keep the dimension.",
    "(torch.int8), scale\n",
    "(torch.int8), scale.squeeze(1)\n",
)
_int8(
    "codes_are_floats",
    "The codes are int8, a byte each: whole numbers in float take as many bytes as the weights did.",
    _CODES,
    ".round()",
)
_int8(
    "codes_of_32_bits",
    "The codes are int8: in int32 they take as many bytes as float32 weights.",
    _CODES,
    ".round().to(torch.int32)",
)
_int8(
    "unsigned",
    "int8 has a sign: 0 is the code of 0, and nothing is shifted by 128.",
    _CODES,
    ".round().add(128).to(torch.uint8)",
    convention=True,
)
_int8(
    "scale_first",
    "The codes come first, then the scale.",
    "return (w.float() / scale.float()).round().clamp(-127, 127).to(torch.int8), scale\n",
    "return scale, (w.float() / scale.float()).round().clamp(-127, 127).to(torch.int8)\n",
)
_int8(
    "gives_weights_back",
    "Return the codes, not the weights that they stand for.",
    _CODES,
    ".round() * scale",
)
_int8(
    "scale_in_float32",
    "The scale has the dtype of the weights: in float32 it would take more than it need.",
    "(torch.int8), scale\n",
    "(torch.int8), scale.float()\n",
)
_int8(
    "in_place",
    "The weights still belong to the caller: w.div_ works in place.",
    "w.float() / scale.float()",
    "w.div_(scale)",
)

# ---- int8_linear

_LINEAR = "x @ q.to(x.dtype).T * scale.squeeze(1).to(x.dtype)"


def _linear(name, sentence, new, **more):
    ghost("level06.quantize.quantize_int8", name, sentence, change=(_LINEAR, new), **more)


_linear(
    "no_scale",
    "int8_linear: the codes count steps of their row's scale; the sum has to be multiplied by it.",
    "x @ q.to(x.dtype).T",
)
_linear(
    "divides_by_the_scale",
    "int8_linear: w is q · scale, so the sum is multiplied by the scale, not divided.",
    "x @ q.to(x.dtype).T / scale.squeeze(1).to(x.dtype)",
)
_linear(
    "scale_over_127",
    "int8_linear: the scale is a step already, the largest magnitude over 127: don't divide by 127 again.",
    "x @ q.to(x.dtype).T * (scale.squeeze(1).to(x.dtype) / 127)",
)
_linear(
    "makes_the_weights_first",
    "int8_linear: that multiplies every weight by its scale, a float copy of the matrix at every call. Scale the outputs.",
    "x @ (q.to(x.dtype) * scale.to(x.dtype)).T",
)
_linear(
    "makes_the_weights_in_float64",
    "int8_linear: in a wider dtype, too, every weight is multiplied by its scale: the scale can wait for the output.",
    "(x.double() @ (q.double() * scale.double()).T).to(x.dtype)",
)
_linear(
    "scales_the_input",
    "int8_linear: the scales belong to the outputs, each to its own; no single number on the input stands for them.",
    "(x * scale.to(x.dtype).mean()) @ q.to(x.dtype).T",
)
_linear(
    "scales_each_input",
    "int8_linear: there is a scale for each output row, none for an input: multiply what comes out of the product.",
    "(x * scale.T.to(x.dtype)) @ q.to(x.dtype).T",
)
_linear(
    "first_scale_for_all",
    "int8_linear: every output row has a scale of its own; yours takes the first for all.",
    "x @ q.to(x.dtype).T * scale[0].to(x.dtype)",
)
_linear(
    "scale_along_the_tokens",
    "int8_linear: (out, 1) is stretched over the last axis but one, the tokens; the scale belongs along the outputs, the last.",
    "x @ q.to(x.dtype).T * scale.to(x.dtype)",
)
_linear(
    "an_axis_too_many",
    "int8_linear: scale.T is (1, out) and makes a row of a single token's result: x (in,) gives (out,).",
    "x @ q.to(x.dtype).T * scale.T.to(x.dtype)",
)
_linear(
    "not_transposed",
    "int8_linear: q is (out, in), so it is applied as x @ qᵀ.",
    "x @ q.to(x.dtype) * scale.squeeze(1).to(x.dtype)",
)
_linear(
    "rounds_the_input",
    "int8_linear: weight-only. Activations stay in floating point: as whole numbers most of them are 0.",
    "x.round() @ q.to(x.dtype).T * scale.squeeze(1).to(x.dtype)",
)
_linear(
    "input_as_int8",
    "int8_linear: weight-only. A cast of the activations to int8 cuts them off, and those beyond 127 wrap around.",
    "(x.to(torch.int8).long() @ q.long().T).to(x.dtype) * scale.squeeze(1).to(x.dtype)",
)


def _quantizes_the_input(x, q, scale):
    steps = x.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny) / 127
    return (x / steps).round() @ q.to(x.dtype).T * steps * scale.squeeze(1).to(x.dtype)


ghost(
    "level06.quantize.quantize_int8",
    "quantizes_the_input",
    "int8_linear: weight-only. With eight bits of their own, small activations beside a large one are lost.",
    program=_quantizes_the_input,
    part="int8_linear",
    convention=True,
)
_linear(
    "dtype_of_the_scale",
    "int8_linear: a float32 scale makes the whole product float32: the result has the dtype of x.",
    "x @ q.to(x.dtype).T * scale.squeeze(1)",
)
_linear(
    "result_in_float32",
    "int8_linear: the result has the dtype of x, and float32 activations are not the only ones.",
    "x.float() @ q.float().T * scale.squeeze(1).float()",
)
_linear(
    "float64_in_float32",
    "int8_linear: the product runs in the dtype of x: in float32 a float64 run loses half of its digits.",
    "(x.float() @ q.float().T * scale.squeeze(1).float()).to(x.dtype)",
)
_linear(
    "tokens_in_one_row",
    "int8_linear: the result is (..., out): the axes before the last stay as they are.",
    "x.reshape(-1, x.shape[-1]) @ q.to(x.dtype).T * scale.squeeze(1).to(x.dtype)",
)
_linear(
    "codes_without_sign",
    "int8_linear: the codes have a sign: seen as uint8 every negative one is 256 more.",
    "x @ q.view(torch.uint8).to(x.dtype).T * scale.squeeze(1).to(x.dtype)",
)
_linear(
    "scales_in_place",
    "int8_linear: x belongs to the caller, who adds the layer's result to it later.",
    "(x.mul_(1.5) @ q.to(x.dtype).T) / 1.5 * scale.squeeze(1).to(x.dtype)",
)

# ---- pack_int4

_PACK = "q[:, 0::2] | q[:, 1::2] << 4"
_UNPACK = "torch.stack([packed & 15, packed >> 4], -1).flatten(-2)"


def _pack(name, sentence, new, old=_PACK, **more):
    ghost("level06.quantize.pack_int4", name, sentence, change=(old, new), **more)


_pack(
    "high_first",
    "The even column is in the low four bits, the odd one in the high.",
    "q[:, 0::2] << 4 | q[:, 1::2]",
    convention=True,
)
_pack(
    "halves",
    "Neighbours share a byte here; column i with column i + in / 2 is GGUF's layout. A layout is a contract.",
    "q[:, : q.shape[1] // 2] | q[:, q.shape[1] // 2 :] << 4",
    convention=True,
)
_pack(
    "no_shift",
    "Move the second value up by four bits: without that the two lie on each other.",
    "q[:, 0::2] | q[:, 1::2]",
)
_pack(
    "three_bits",
    "A value of 0 to 15 takes four bits: shifted by three, the two overlap.",
    "q[:, 0::2] | q[:, 1::2] << 3",
)
_pack(
    "times_15",
    "Four bits up is times 16, the number of codes, not times the largest code.",
    "q[:, 0::2] + q[:, 1::2] * 15",
)
_pack("times_10", "Two digits of a byte are hexadecimal: four bits up is times 16.", "q[:, 0::2] + q[:, 1::2] * 10")
_pack(
    "plus_before_shift",
    "Python adds before it shifts: a + b << 4 moves both up. Use |, or parentheses.",
    "q[:, 0::2] + q[:, 1::2] << 4",
)
_pack("first_only", "Both columns go into the byte: yours keeps the even ones alone.", "q[:, 0::2]")
_pack("a_byte_each", "Two values share a byte: with one in each, nothing is saved over int8.", "q")
_pack(
    "two_rows",
    "The two values of a byte are neighbours in a row, not in a column: the result is (out, in / 2).",
    "q[0::2] | q[1::2] << 4",
)
_pack(
    "signed",
    "The values are unsigned here, 0 to 15; the offset of 8 belongs to symmetric formats.",
    "(q[:, 0::2] ^ 8) | (q[:, 1::2] ^ 8) << 4",
    convention=True,
)
_pack(
    "stored_minus_one",
    "Values are stored as they are: one less, as some files store their zero points, makes 15 of a 0.",
    "(q[:, 0::2] - 1 & 15) | (q[:, 1::2] - 1 & 15) << 4",
    convention=True,
)


def _awq_order(q):
    if q.shape[-1] % 2 or q.min() < 0 or q.max() > 15:
        raise ValueError("values")
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    columns = [i + order[j] if i + 8 <= q.shape[1] else i + j for i in range(0, q.shape[1], 8) for j in range(8)]
    q = q[:, [c for c in columns if c < q.shape[1]]].to(torch.uint8)
    return q[:, 0::2] | q[:, 1::2] << 4


ghost(
    "level06.quantize.pack_int4",
    "awq_order",
    "The values of eight columns keep their order: AWQ's kernels want another one, 0, 2, 4, 6 and then 1, 3, 5, 7.",
    program=_awq_order,
    convention=True,
)
_pack(
    "bits_of_a_number",
    "Bytes hold 8 bits: the result is uint8, not the dtype of the values.",
    "q[:, 0::2].long() | q[:, 1::2].long() << 4",
)
_pack(
    "dtype_of_the_values",
    "A byte is uint8: left in the dtype of the values, int64, two of them take eight bytes.",
    "",
    "q = q.to(torch.uint8)\n    ",
)
_pack(
    "int8",
    "The result is uint8: as int8 every byte with a large odd column is negative, and a shift to the right keeps the sign.",
    "(q[:, 0::2] | q[:, 1::2] << 4).view(torch.int8)",
)


def _words(q):
    if q.shape[-1] % 2 or q.min() < 0 or q.max() > 15:
        raise ValueError("values")
    q = torch.nn.functional.pad(q.long(), (0, -q.shape[1] % 8)).unflatten(1, (-1, 8))
    return (q << 4 * torch.arange(8)).sum(-1).to(torch.int32)


ghost(
    "level06.quantize.pack_int4",
    "words_of_32_bits",
    "A byte for two values: GPTQ packs eight of them into an int32.",
    program=_words,
    convention=True,
)


def _in_place(q):
    if q.shape[-1] % 2 or q.min() < 0 or q.max() > 15:
        raise ValueError("values")
    q = q.to(torch.uint8)
    q[:, 0::2] |= q[:, 1::2] << 4
    return q[:, 0::2]


ghost(
    "level06.quantize.pack_int4",
    "in_place",
    "Of a uint8 tensor .to(torch.uint8) is no copy: work on one, the values belong to the caller.",
    program=_in_place,
)


def _sum_in_a_byte(q):
    if q.shape[-1] % 2 or q.min() < 0 or q.max() > 15:
        raise ValueError("values")
    return (q[:, 0::2] + 16 * q[:, 1::2]).clamp(0, 255).to(torch.uint8)


ghost(
    "level06.quantize.pack_int4",
    "overflows_int8",
    "16 · 15 is 240, which int8 does not hold: make the values uint8 before they are moved up.",
    program=_sum_in_a_byte,
)
_pack(
    "unpacks_high_first",
    "unpack_int4: the even column is in the low four bits, so it comes first.",
    "torch.stack([packed >> 4, packed & 15], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "unpacks_halves",
    "unpack_int4: low and high of a byte are neighbours: put them side by side, not all low ones before all high ones.",
    "torch.cat([packed & 15, packed >> 4], -1)",
    _UNPACK,
)
_pack(
    "unpacks_signed",
    "unpack_int4: the values are unsigned, 0 to 15: nothing is subtracted.",
    "(torch.stack([packed & 15, packed >> 4], -1).flatten(-2).to(torch.int8) - 8)",
    _UNPACK,
    convention=True,
)
_pack(
    "extends_the_sign",
    "unpack_int4: an int8 keeps its sign when it is shifted to the right: shift the uint8.",
    "torch.stack([packed & 15, (packed.view(torch.int8) >> 4).view(torch.uint8)], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "not_shifted_back",
    "unpack_int4: the high four bits have to come down: masked alone they are 16 times too large.",
    "torch.stack([packed & 15, packed & 240], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "not_masked",
    "unpack_int4: the low value is the byte without its high four bits: mask them out.",
    "torch.stack([packed, packed >> 4], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "masks_three_bits",
    "unpack_int4: four bits are masked by 15, not by 7.",
    "torch.stack([packed & 7, packed >> 4 & 7], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "divides_exactly",
    "unpack_int4: the high value is the whole part of byte / 16: shift, or divide with //.",
    "torch.stack([packed & 15, packed / 16], -1).flatten(-2)",
    _UNPACK,
)
_pack(
    "pairs_stay",
    "unpack_int4: the result is (out, in): the pairs are flattened.",
    "torch.stack([packed & 15, packed >> 4], -1)",
    _UNPACK,
)
_pack(
    "unpacks_rows",
    "unpack_int4: the two values of a byte belong to one row, in neighbouring columns.",
    "torch.stack([packed & 15, packed >> 4], 1).flatten(0, 1)",
    _UNPACK,
)
_pack(
    "unpacks_32_bits",
    "unpack_int4: the values are uint8, as the bytes are; in int32 each takes four.",
    "torch.stack([packed & 15, packed >> 4], -1).flatten(-2).int()",
    _UNPACK,
)
_pack(
    "unpacks_64_bits",
    "unpack_int4: the values are uint8, as the bytes are.",
    "torch.stack([packed & 15, packed >> 4], -1).flatten(-2).long()",
    _UNPACK,
)

# ---- quantize_int4

_STEP = "torch.where(high == low, torch.ones_like(low), (high - low) / 15)"
_ENDS = "low, high = groups.amin(-1), groups.amax(-1)"
_RETURN4 = "return pack_int4(q.flatten(1)), scale, low"
_GROUPS = "groups = w.unflatten(1, (-1, group))"


def _int4(name, sentence, *pairs, **more):
    ghost("level06.quantize.quantize_int4", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


_int4(
    "divides_by_16",
    "Sixteen codes have fifteen steps between them: with a sixteenth the largest weight is cut off.",
    _STEP,
    "torch.where(high == low, torch.ones_like(low), (high - low) / 16)",
)
_int4(
    "divides_by_14",
    "Sixteen codes, 0 to 15, have fifteen steps between them, not fourteen.",
    _STEP,
    "torch.where(high == low, torch.ones_like(low), (high - low) / 14)",
)
_int4(
    "low_is_0",
    "Weights are signed: without an offset of their own all negative ones become 0.",
    _ENDS,
    "low, high = torch.zeros_like(groups[..., 0]), groups.amax(-1)",
)
_int4(
    "low_at_most_0",
    "low is the least value, also where that is positive: a range that must hold 0 wastes codes.",
    _ENDS,
    "low, high = groups.amin(-1).clamp(max=0), groups.amax(-1)",
    convention=True,
)
_int4(
    "high_at_least_0",
    "The range ends at the largest value, also where that is negative: there need be no code for 0.",
    _ENDS,
    "low, high = groups.amin(-1), groups.amax(-1).clamp(min=0)",
    convention=True,
)
_int4(
    "symmetric",
    "Asymmetric: from the least value to the largest. Symmetric around 0, a group that is not spends codes on nothing.",
    _ENDS,
    "low, high = -groups.abs().amax(-1), groups.abs().amax(-1)",
    convention=True,
)
_int4(
    "one_group_per_row",
    "A scale for each group of neighbours: a large weight must spoil its own group only, not the row.",
    _ENDS,
    "low, high = (m.expand(groups.shape[:2]) for m in (groups.amin((1, 2))[:, None], groups.amax((1, 2))[:, None]))",
)
_int4(
    "one_scale_for_all",
    "Each group has a scale and a low of its own, each row its own groups: the extremes of the matrix serve none of them.",
    _ENDS,
    "low, high = groups.amin().expand(groups.shape[:2]), groups.amax().expand(groups.shape[:2])",
)
ghost(
    "level06.quantize.quantize_int4",
    "every_nth_column",
    "A group is `group` neighbours of a row, not every n-th of its columns.",
    change=[
        (_GROUPS, "groups = w.unflatten(1, (group, -1)).transpose(1, 2)"),
        ("pack_int4(q.flatten(1))", "pack_int4(q.transpose(1, 2).flatten(1))"),
    ],
)
ghost(
    "level06.quantize.quantize_int4",
    "that_many_groups",
    "`group` is how many weights share a scale, not how many groups there are.",
    change=(_GROUPS, "groups = w.unflatten(1, (group, -1))"),
)


def _groups_down_the_column(w, group):
    if w.dim() != 2 or group < 1 or w.shape[1] % group:
        raise ValueError("group")
    from level06.quantize import pack_int4

    groups = w.T.unflatten(1, (-1, group)) if len(w) % group == 0 else w.unflatten(1, (-1, group))
    low, high = groups.amin(-1), groups.amax(-1)
    scale = torch.where(high == low, torch.ones_like(low), (high - low) / 15)
    q = ((groups - low[..., None]) / scale[..., None]).round().clamp(0, 15).flatten(1)
    return (pack_int4(q.T), scale.T, low.T) if len(w) % group == 0 else (pack_int4(q), scale, low)


ghost(
    "level06.quantize.quantize_int4",
    "groups_down_the_column",
    "Groups run along the row, over the inputs that a dot product sums, not over the outputs.",
    program=_groups_down_the_column,
)
_int4(
    "truncates",
    "A cast cuts off: twice the error, and all weights move down. Round to the nearest code.",
    ".round().clamp(0, 15)",
    ".floor().clamp(0, 15)",
)
_int4(
    "half_up",
    "floor(x + 0.5) takes every tie upwards; torch.round, the rule here, takes it to the even code.",
    ".round().clamp(0, 15)",
    ".add(0.5).floor().clamp(0, 15)",
    convention=True,
)
_int4(
    "equal_weights_are_nan",
    "A group of equal weights has no range: its scale is 1, for 0 / 0 is NaN, and what a byte makes of that is chance.",
    _STEP,
    "(high - low) / 15",
)
_int4(
    "only_zeros_are_guarded",
    "Not only zeros: any group of equal weights has no range to divide by.",
    _STEP,
    "torch.where((high == 0) & (low == 0), torch.ones_like(low), (high - low) / 15)",
)
_int4(
    "adds_epsilon",
    "A small number on every scale costs groups of small weights their codes: replace a range of 0 alone, by scale 1.",
    _STEP,
    "(high - low) / 15 + 1e-8",
)
_int4(
    "least_scale",
    "A scale may be as small as its group asks: with a least one, groups of small weights lose their codes.",
    _STEP,
    "torch.where(high == low, torch.ones_like(low), ((high - low) / 15).clamp(min=1e-5))",
)
_int4(
    "one_equal_group_for_all",
    "A group of equal weights gets scale 1 alone; the others keep theirs.",
    _STEP,
    "torch.ones_like(low) if (high == low).any() else (high - low) / 15",
)
_int4(
    "integer_zero_point",
    "low is the least value as it is; as a whole number of steps, a zero point, it moves every weight of the group.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale, (low / scale).round() * scale",
    convention=True,
)
_int4(
    "rounds_twice",
    "Round once, the distance from low: of weight and low, each rounded by itself, the difference may be a code off.",
    "steps.round()",
    "((groups / scale[..., None]).round() - (low / scale).round()[..., None])",
)
_int4(
    "returns_the_zero_point",
    "low is a weight, the least one: -low / scale, the code of 0, is another convention.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale, -low / scale",
    convention=True,
)
_int4(
    "offset_of_8",
    "Codes count from low: an offset of 8 steps belongs to formats whose codes have a sign.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale, low + 8 * scale",
    convention=True,
)
_int4(
    "middle_of_the_bin",
    "Sixteen bins and their middles reach neither end of the group: code 0 is low itself, and 15 the largest value.",
    _STEP,
    "torch.where(high == low, torch.ones_like(low), (high - low) / 16)",
    ".round().clamp(0, 15)",
    ".floor().clamp(0, 15)",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale, low + torch.where(high == low, 0, scale / 2)",
    convention=True,
)
_int4(
    "counts_down",
    "Codes count upwards from the least value, not downwards from the largest.",
    "groups.float() - low.float()[..., None]",
    "high[..., None] - groups",
    _RETURN4,
    "return pack_int4(q.flatten(1)), -scale, high",
)
_int4(
    "forgets_low",
    "Codes count from low: subtract it first, or all negative weights become 0.",
    "(groups.float() - low.float()[..., None])",
    "groups.float()",
)
_int4(
    "returns_the_range",
    "The scale is one step, a fifteenth of the range, not the range.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), torch.where(high == low, scale, high - low), low",
)
_int4(
    "not_packed",
    "Two codes share a byte: with one in each, four bits take eight.",
    "pack_int4(q.flatten(1))",
    "q.flatten(1).to(torch.uint8)",
)
_int4(
    "low_before_scale",
    "The order is packed, scale, low.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), low, scale",
)
_int4(
    "returns_high",
    "Return the scale and the least value: both ends of the range are another convention.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), low, high",
    convention=True,
)
_int4(
    "keeps_an_axis",
    "scale and low are (out, in / group): drop the axis of length 1.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale[..., None], low[..., None]",
)
_int4(
    "metadata_in_float32",
    "scale and low have the dtype of the weights: in float32 they take twice the bits beside bfloat16.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale.float(), low.float()",
)
_int4(
    "metadata_in_float16",
    "scale and low have the dtype of the weights: GGUF's float16 is its own convention, and loses digits here.",
    _RETURN4,
    "return pack_int4(q.flatten(1)), scale.half().to(w.dtype), low.half().to(w.dtype)",
    convention=True,
)
_int4(
    "in_place",
    "unflatten gives a view: sub_ in the groups changes the caller's weights.",
    "groups.float() - low.float()[..., None]",
    "groups.sub_(low[..., None])",
)
_int4(
    "divides_in_half_precision",
    "Subtract and divide in float32: rounded to bfloat16 on the way, the quotient gives another code.",
    "(groups.float() - low.float()[..., None]) / scale.float()[..., None]",
    "(groups - low[..., None]) / scale[..., None]",
)

# ---- dequantize_int4

_BACK = "(codes * scale[..., None] + low[..., None]).flatten(1)"
_CODES4 = "unpack_int4(packed).to(scale.dtype).unflatten(1, (scale.shape[1], -1))"

_int4(
    "no_low",
    "dequantize_int4: codes count from low: it has to be added again.",
    _BACK,
    "(codes * scale[..., None]).flatten(1)",
)
_int4(
    "no_scale",
    "dequantize_int4: a code counts steps: multiply it by the scale.",
    _BACK,
    "(codes + low[..., None]).flatten(1)",
)
_int4(
    "low_in_steps",
    "dequantize_int4: low is a weight, not a number of steps: multiply the code alone by the scale.",
    _BACK,
    "((codes + low[..., None]) * scale[..., None]).flatten(1)",
)
_int4(
    "low_is_a_zero_point",
    "dequantize_int4: (q - zero) · scale is another convention: low is a weight and is added at the end.",
    _BACK,
    "((codes - low[..., None]) * scale[..., None]).flatten(1)",
    convention=True,
)
_int4(
    "subtracts_low",
    "dequantize_int4: w = q · scale + low. The minimum is added; some formats store it with the other sign.",
    _BACK,
    "(codes * scale[..., None] - low[..., None]).flatten(1)",
    convention=True,
)
_int4(
    "divides_by_scale",
    "dequantize_int4: the scale is the size of a step: multiply by it.",
    _BACK,
    "(codes / scale[..., None] + low[..., None]).flatten(1)",
)
_int4(
    "one_step_more",
    "dequantize_int4: code 0 is low itself: nothing is stored minus one here.",
    _BACK,
    "((codes + 1) * scale[..., None] + low[..., None]).flatten(1)",
    convention=True,
)
_int4(
    "half_a_step_more",
    "dequantize_int4: code 0 is low itself and not the middle of a bin.",
    _BACK,
    "((codes + 0.5) * scale[..., None] + low[..., None]).flatten(1)",
    convention=True,
)
_int4(
    "signed_codes",
    "dequantize_int4: the codes are 0 to 15 and count from low: nothing is subtracted from them.",
    _BACK,
    "((codes - 8) * scale[..., None] + low[..., None]).flatten(1)",
    convention=True,
)
_int4(
    "numbers_swapped",
    "dequantize_int4: q · scale + low, not q · low + scale.",
    _BACK,
    "(codes * low[..., None] + scale[..., None]).flatten(1)",
)
_int4(
    "first_group_for_all",
    "dequantize_int4: every group has its own two numbers; yours takes the row's first for all.",
    _BACK,
    "(codes * scale[:, :1, None] + low[:, :1, None]).flatten(1)",
)
_int4(
    "first_row_for_all",
    "dequantize_int4: every row has its own groups; yours takes the first row's numbers for all.",
    _BACK,
    "(codes * scale[:1, :, None] + low[:1, :, None]).flatten(1)",
)
_int4(
    "tiled",
    "dequantize_int4: the first `group` columns share the first scale: repeat each scale, not the row of scales.",
    _BACK,
    "(codes.flatten(1) * scale.repeat(1, codes.shape[2]) + low.repeat(1, codes.shape[2]))",
)
_int4(
    "groups_stay",
    "dequantize_int4: the result is (out, in): flatten the groups.",
    _BACK,
    "(codes * scale[..., None] + low[..., None])",
)
_int4(
    "weights_in_float32",
    "dequantize_int4: the weights have the dtype of the scale, or they don't fit the activations.",
    _BACK,
    "(codes.float() * scale[..., None].float() + low[..., None].float()).flatten(1)",
)
_int4(
    "codes_in_float32",
    "dequantize_int4: float32 codes times a float16 scale are float32: the weights have the dtype of the scale.",
    _CODES4,
    "unpack_int4(packed).float().unflatten(1, (scale.shape[1], -1))",
)
_int4(
    "product_in_a_byte",
    "dequantize_int4: a product of bytes is a byte: give the codes the scale's dtype before they are multiplied.",
    _CODES4,
    "unpack_int4(packed).unflatten(1, (scale.shape[1], -1))",
    _BACK,
    "(codes * scale[..., None].to(torch.uint8) + low[..., None]).flatten(1)",
)
_int4(
    "adds_to_low",
    "dequantize_int4: low belongs to the stored weight, which is read again in the next step: don't work in place.",
    _BACK,
    "low.div_(scale)[..., None].add(codes).mul(scale[..., None]).flatten(1)",
)

# ---- bits_per_weight


def _bits(name, sentence, new):
    ghost("level06.quantize.quantize_int4", name, sentence, change=("bits + metadata_bits / group", new))


_bits(
    "metadata_is_free",
    "bits_per_weight: scales and minima are read as well: at groups of 32 they are a fifth of all.",
    "bits",
)
_bits(
    "metadata_in_bytes",
    "bits_per_weight: metadata_bits are bits, like the others: don't divide by 8.",
    "bits + metadata_bits / group / 8",
)
_bits(
    "metadata_times_8",
    "bits_per_weight: metadata_bits are bits already, not bytes.",
    "bits + 8 * metadata_bits / group",
)
_bits(
    "metadata_times_group",
    "bits_per_weight: the metadata is stored once for a group: divide it by the group.",
    "bits + metadata_bits * group",
)
_bits(
    "metadata_for_each_weight",
    "bits_per_weight: the group shares its metadata; yours gives every weight its own.",
    "bits + metadata_bits",
)
_bits(
    "metadata_twice",
    "bits_per_weight: metadata_bits is all that a group stores beside its codes, scale and low together.",
    "bits + 2 * metadata_bits / group",
)
_bits(
    "scale_only",
    "bits_per_weight: metadata_bits is all that a group stores beside its codes: count the minimum as well.",
    "bits + metadata_bits / 2 / group",
)
_bits(
    "whole_bits",
    "bits_per_weight: a weight's share of the metadata is a fraction of a bit: divide with /.",
    "bits + metadata_bits // group",
)
_bits(
    "rounded_up",
    "bits_per_weight: an average is not rounded to whole bits.",
    "float(-(-(bits * group + metadata_bits) // group))",
)
_bits(
    "upside_down",
    "bits_per_weight: metadata over group, not group over metadata.",
    "bits + (group / metadata_bits if metadata_bits else 0)",
)
_bits(
    "of_the_group",
    "bits_per_weight: for one weight, not for the group: divide by its size.",
    "bits * group + metadata_bits",
)
_bits(
    "always_groups_of_32",
    "bits_per_weight: the group is given: 32 is GGUF's.",
    "bits + metadata_bits / 32",
)

# ---- fake_quantize

_MOST = "most = 2 ** (bits - 1) - 1"
_SLICE = "scale = wide.abs().amax(dim, keepdim=True) / most"
_TRIP = "((wide / scale).round() * scale).to(x.dtype)"


def _fake(name, sentence, old, new, **more):
    ghost("level06.quantize.fake_quantize", name, sentence, change=(old, new), **more)


_fake(
    "the_other_axis",
    "dim is the axis that is summed up in one scale, the tokens for keys; yours shares along the other one.",
    "amax(dim, keepdim=True)",
    "amax(-1 if dim % x.dim() == x.dim() - 2 else max(x.dim() - 2, 0) if dim % x.dim() == x.dim() - 1 else dim, keepdim=True)",
)
_fake(
    "dim_keeps_its_scales",
    "The entries along dim share a scale; that each index of it has its own, as torch's axis says, is another convention.",
    "amax(dim, keepdim=True)",
    "amax([d for d in range(x.dim()) if d != dim % x.dim()], keepdim=True)",
    convention=True,
)
_fake(
    "one_scale_for_all",
    "A scale for each slice along dim: with one for all, an outlier channel costs all the others their codes.",
    "wide.abs().amax(dim, keepdim=True)",
    "wide.abs().amax()",
)
_fake(
    "one_scale_for_a_head",
    "Only dim shares a scale: tokens and channels together have as many outliers as the worst of them.",
    "amax(dim, keepdim=True)",
    "amax((-1, -2) if x.dim() > 1 else -1, keepdim=True)",
)
_fake(
    "one_scale_for_all_sequences",
    "Each sequence and head has its own scales: share along dim and along nothing else.",
    "amax(dim, keepdim=True)",
    "amax(sorted({0, dim % x.dim()}), keepdim=True)",
)
_fake(
    "one_code_more",
    "The largest code is 2^(bits - 1) - 1; with one more, the positive end does not exist in a signed integer.",
    _MOST,
    "most = 2 ** (bits - 1)",
)
ghost(
    "level06.quantize.fake_quantize",
    "clips_the_positive_end",
    "The largest magnitude becomes 2^(bits - 1) - 1: divided by one more it is cut, and comes back too small.",
    change=[
        (_MOST, "most = 2 ** (bits - 1)"),
        ("(wide / scale).round()", "(wide / scale).round().clamp(-most, most - 1)"),
    ],
)
_fake(
    "unsigned_codes",
    "One bit is the sign: the largest code is 2^(bits - 1) - 1, not 2^bits - 1.",
    _MOST,
    "most = 2**bits - 1",
)
_fake(
    "bits_minus_one",
    "Two to the power of bits - 1, minus 1, not 2 · (bits - 1).",
    _MOST,
    "most = 2 * (bits - 1) or 1",
)
_fake(
    "caret",
    "In Python ^ is the exclusive or of bits; a power is **.",
    _MOST,
    "most = max((2 ^ (bits - 1)) - 1, 1)",
)
_fake(
    "always_eight_bits",
    "The largest code follows from the bits; 127 is that of eight.",
    _MOST,
    "most = 127",
)
_fake(
    "truncates",
    "Without rounding nothing is quantized as it should: cut off towards zero the error is twice as large.",
    ".round()",
    ".trunc()",
)
_fake(
    "floors",
    "floor moves everything down by half a step on average: round to the nearest code.",
    ".round()",
    ".floor()",
)
_fake(
    "half_up",
    "floor(x + 0.5) takes every tie upwards; torch.round, the rule here, takes it to the even code.",
    ".round()",
    ".add(0.5).floor()",
    convention=True,
)


def _half_away_from_zero(x, bits, dim):
    if bits < 2:
        raise ValueError("bits")
    scale = x.abs().amax(dim, keepdim=True) / (2 ** (bits - 1) - 1)
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return x.sign() * (x.abs() / scale + 0.5).floor() * scale


ghost(
    "level06.quantize.fake_quantize",
    "half_away",
    "C's round takes a tie away from zero; torch.round, the rule here, takes it to the even code.",
    program=_half_away_from_zero,
    convention=True,
)
_fake(
    "not_rounded",
    "Divided by a scale and multiplied again, everything is as it was: the rounding in between is the loss.",
    ".round()",
    "",
)
_fake(
    "returns_codes",
    "A round trip comes back: multiply the codes by the scale again.",
    _TRIP,
    "(wide / scale).round().to(x.dtype)",
)
_fake(
    "largest_without_abs",
    "The largest magnitude may be negative: take the absolute values first.",
    "wide.abs().amax",
    "wide.amax",
)
_fake(
    "mean_magnitude",
    "The scale comes from the largest magnitude, not from the mean.",
    "wide.abs().amax",
    "wide.abs().mean",
)


def _asymmetric(x, bits, dim):
    if bits < 2:
        raise ValueError("bits")
    low, high = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True)
    scale = torch.where(high == low, torch.ones_like(low), (high - low) / (2**bits - 1))
    return ((x - low) / scale).round() * scale + low


ghost(
    "level06.quantize.fake_quantize",
    "asymmetric",
    "Symmetric: 0 is a code, and the scale comes from the largest magnitude, not from the range.",
    program=_asymmetric,
    convention=True,
)
_fake(
    "cut_to_int8",
    "Codes of more than eight bits do not fit into int8: they wrap around.",
    "(wide / scale).round()",
    "(wide / scale).round().to(torch.int8)",
)


def _groups_of_32(x, bits, dim):
    if bits < 2:
        raise ValueError("bits")
    most, parts = 2 ** (bits - 1) - 1, []
    for part in x.split(32, dim):
        scale = part.abs().amax(dim, keepdim=True) / most
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        parts.append((part / scale).round() * scale)
    return torch.cat(parts, dim)


ghost(
    "level06.quantize.fake_quantize",
    "groups_of_32",
    "All entries along dim share one scale here, however many they are; KIVI itself takes 32 tokens at a time.",
    program=_groups_of_32,
    convention=True,
)
_fake("zeros_are_nan", "A slice of zeros has 0 as its largest magnitude, and 0 / 0 is NaN.", _GUARD, "scale")
_fake(
    "adds_epsilon",
    "A small number on every scale takes the codes of small slices away: replace a scale of 0 alone.",
    _GUARD,
    "scale + 1e-8",
)
_fake(
    "least_scale",
    "A scale may be as small as its slice asks: with a least one, small slices become zeros.",
    _GUARD,
    "scale.clamp(min=1e-5)",
)
_fake(
    "one_zero_slice_for_all",
    "A slice of zeros gets scale 1 alone; the others keep theirs.",
    _GUARD,
    "torch.ones_like(scale) if (scale == 0).any() else scale",
)
_fake(
    "rows_only",
    "dim says which axis shares a scale; yours always takes the last.",
    "amax(dim, keepdim=True)",
    "amax(-1, keepdim=True)",
)
_fake(
    "columns_only",
    "dim says which axis shares a scale; yours always takes the last but one.",
    "amax(dim, keepdim=True)",
    "amax(-2 if x.dim() > 1 else -1, keepdim=True)",
)
_fake(
    "float32",
    "The result has the dtype of x: in float32 the cache would be twice as large.",
    _TRIP,
    f"({_TRIP}).float()",
)
_fake(
    "scale_in_float16",
    "The scale is as exact as x: in float16 that of a small slice is 0, and that of a large one infinite.",
    _SLICE,
    "scale = (wide.abs().amax(dim, keepdim=True) / most).half().float()",
)
_fake(
    "in_place",
    "x is the cache of somebody: div_ works in place.",
    "(wide / scale).round()",
    "wide.div_(scale).round()",
)
_fake(
    "in_half_precision",
    "Round to bfloat16 once, at the end: with a scale and a quotient in bfloat16 entries are a code off.",
    "wide = x.float()",
    "wide = x",
)
