"""Known-wrong programs of level14.memory. `ghost` is given when this is read."""

_MEAN = "mean = absmax.mean()"
_CENTRED = "(absmax - mean).split(block)"
_SCALE = "torch.stack([b.abs().amax() for b in blocks])"
_UNIT = "b / torch.where(s == 0, 1, s)"
_CODES = "torch.bucketize(unit, (values[:-1] + values[1:]) / 2)"
_BACK = "scale.repeat_interleave(block)[: len(codes)]"
_BITS = "32 if second_block is None else 8 + 32 / second_block"
_BYTES = "num_params * weight_bytes + num_trainable * (grad_bytes + optim_bytes)"


def _double(name, sentence, *pairs):
    ghost("level14.memory.double_quantize", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- the scales' codes

_double(
    "not_centred",
    "Scales are positive: unless their mean is taken off first, half of the codes are never used.",
    _CENTRED,
    "absmax.split(block)",
)
_double(
    "a_mean_for_each_block",
    "One mean is for all scales: a mean of its own for each block would have to be stored as well.",
    _CENTRED,
    "torch.cat([b - b.mean() for b in absmax.split(block)]).split(block)",
)
_double(
    "smallest_instead_of_mean",
    "What is taken off is the mean, so that codes of both signs are used; yours takes off the smallest.",
    _MEAN,
    "mean = absmax.min()",
)
_double(
    "one_scale",
    "Each block of scales has a scale of its own; yours has one for all.",
    _SCALE,
    "torch.stack([absmax.sub(mean).abs().amax() for b in blocks])",
)
_double(
    "largest_and_not_largest_magnitude",
    "Without the mean there are negative values: the scale is the largest magnitude, not the largest value.",
    _SCALE,
    "torch.stack([b.amax() for b in blocks])",
)
_double(
    "scale_before_the_mean",
    "The block's scale is the largest magnitude of what is left when the mean is off, not of the scales.",
    _SCALE,
    "torch.stack([b.abs().amax() for b in absmax.split(block)])",
)
_double(
    "zero_by_zero",
    "Scales that are all the mean leave 0 / 0, which is NaN: such a block has scale 0 and the code of 0.",
    _UNIT,
    "b / s",
)
_double(
    "floor_under_the_scale",
    "A floor under the scale makes codes of 0 of small differences: only a scale that is 0 needs care.",
    _UNIT,
    "b / s.clamp(min=1e-6)",
)
_double(
    "upper_of_a_tie",
    "Halfway between two values the lower one is taken; yours takes the upper one.",
    "(values[:-1] + values[1:]) / 2)",
    "(values[:-1] + values[1:]) / 2, right=True)",
)
_double(
    "value_above",
    "The nearest of 256 values, not the first one that is not below.",
    _CODES,
    "torch.bucketize(unit, values).clamp(max=255)",
)
_double(
    "linear_codes",
    "The 256 values are those of dynamic_map, dense near 0; yours are evenly spaced.",
    _CODES,
    "(unit * 127 + 127.5).round().clamp(0, 255)",
)
_double(
    "short_block_lost",
    "The last block may be shorter than the others: its scales are quantized as well.",
    _CENTRED,
    "(absmax - mean)[: len(absmax) // block * block or None].split(block)",
)
_double(
    "signed_codes",
    "Codes are numbers of dynamic_map, 0 to 255, and not signed with 0 in the middle.",
    ".to(torch.uint8), scale, mean",
    ".sub(127).to(torch.int8), scale, mean",
)

# ---- and back

_double(
    "mean_forgotten",
    "What was taken off comes back on: add the mean.",
    f"{_BACK} + mean",
    _BACK,
)
_double(
    "mean_scaled_too",
    "The mean is added behind the scale: it was taken off before the division.",
    "dynamic_map()[codes.long()] * scale.repeat_interleave(block)[: len(codes)] + mean",
    "(dynamic_map()[codes.long()] + mean) * scale.repeat_interleave(block)[: len(codes)]",
)
_double(
    "blocks_of_equal_length",
    "A block has `block` codes, of which the last may have fewer: yours shares the codes out evenly.",
    _BACK,
    "scale.repeat_interleave(-(-len(codes) // len(scale)))[: len(codes)]",
)
_double(
    "scales_in_turn",
    "Neighbours share a scale; yours deals the scales out in turn.",
    _BACK,
    "scale.repeat(block)[: len(codes)]",
)

# ---- the bill

_double(
    "scales_are_free",
    "A scale takes its bits too: with blocks of 64, half a bit of each weight.",
    "return 4 + scale_bits / block",
    "return 4.0",
)
_double(
    "second_scale_free",
    "The scales' own scale is a float32 for second_block of them: 32 / (block · second_block) bits of each weight.",
    _BITS,
    "32 if second_block is None else 8",
)
_double(
    "second_scale_for_weights",
    "second_block counts scales, not weights: a float32 is shared by block · second_block weights.",
    "return 4 + scale_bits / block",
    "return 4 + (32 / block if second_block is None else 8 / block + 32 / second_block)",
)
_double(
    "float16_scales",
    "A scale of NF4 is a float32, 32 bits.",
    _BITS,
    "16 if second_block is None else 8 + 16 / second_block",
)
_double(
    "optimizer_for_all",
    "Frozen weights have neither gradients nor optimizer state: that is what adapters save.",
    _BYTES,
    "num_params * (weight_bytes + grad_bytes + optim_bytes)",
)
_double(
    "gradients_for_all",
    "No gradient is kept of a frozen weight.",
    _BYTES,
    "num_params * (weight_bytes + grad_bytes) + num_trainable * optim_bytes",
)
_double(
    "frozen_weights_twice",
    "num_params counts all weights, the trainable ones among them; yours counts these again.",
    _BYTES,
    "num_params * weight_bytes + num_trainable * (weight_bytes + grad_bytes + optim_bytes)",
)
_double(
    "no_optimizer",
    "The optimizer's state is larger than the rest: 12 bytes of each trainable weight.",
    _BYTES,
    "num_params * weight_bytes + num_trainable * grad_bytes",
)
