"""Known-wrong programs of level14.nf4. `ghost` is given when this is read."""

_HALVES = "levels = [-z for z in half(7)] + [0.0] + half(8)[::-1]"
_HALF = "[quantile(offset + (0.5 - offset) * i / n) for i in range(n)]"
_TENSOR = "torch.tensor([z / levels[-1] for z in levels])"
_ABSMAX = "blocks.abs().amax(1)"
_UNIT = "blocks / torch.where(absmax == 0, 1, absmax).unsqueeze(1)"
_CODES = "torch.bucketize(unit, borders).to(torch.uint8).view(w.shape)"
_BACK = "nf4_levels().to(codes.device)[codes.long()].reshape(len(absmax), -1)"
_SCALED = "(blocks * absmax.unsqueeze(1)).view(codes.shape)"


def _levels(name, sentence, *pairs):
    ghost("level14.nf4.nf4_levels", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _quantize(name, sentence, *pairs):
    ghost("level14.nf4.quantize_nf4", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- the levels

_levels(
    "evenly_spaced",
    "Levels lie where a normal distribution has its weights: evenly spaced ones are wasted on the tails.",
    _TENSOR,
    "torch.linspace(-1, 1, 16)",
)
_levels(
    "no_zero",
    "16 quantiles that are symmetric have no 0 among them: yours moves every weight that is 0.",
    _HALVES,
    "levels = [quantile(1 - offset + (2 * offset - 1) * i / 15) for i in range(16)]",
)
_levels(
    "fifteen",
    "Four bits have 16 values: with 7 levels on either side of 0 one code is never used.",
    _HALVES,
    "levels = [-z for z in half(7)] + [0.0] + half(7)[::-1]",
)
_levels(
    "mirrored",
    "The side with 8 levels is the positive one, the one with 7 the negative: yours has them the other way round.",
    _HALVES,
    "levels = [-z for z in half(8)] + [0.0] + half(7)[::-1]",
)
_levels(
    "not_normalized",
    "The ends are -1 and 1: divide by the largest quantile.",
    _TENSOR,
    "torch.tensor(levels)",
)
_levels(
    "half_is_a_level",
    "The last of the evenly spaced probabilities is 1/2, whose level is the 0: space 9 and 8 of them, and take all but "
    "the last.",
    _HALF,
    "[quantile(offset + (0.5 - offset) * i / (n - 1 + 1e-9)) for i in range(n)]",
)
_levels(
    "same_spacing_on_both_sides",
    "Each side has a spacing of its own, from the offset down to 1/2: 8 steps above 0, and 7 below.",
    _HALF,
    "[quantile(offset + (0.5 - offset) * i / 8) for i in range(n)]",
)
_levels(
    "offset_ignored",
    "The outermost probability is the argument, not always 0.9677083.",
    _HALF,
    "[quantile(OFFSET + (0.5 - OFFSET) * i / n) for i in range(n)]",
)
_levels(
    "probabilities",
    "What is evenly spaced are the probabilities; a level is the quantile of one.",
    _HALF,
    "[(offset + (0.5 - offset) * i / n) - 0.5 for i in range(n)]",
)
_levels(
    "descending",
    "Ascending: code 0 is -1, and code 15 is 1.",
    _TENSOR,
    "torch.tensor([z / levels[-1] for z in levels]).flip(0)",
)
_levels(
    "float64",
    "Computed in float64, returned in float32.",
    _TENSOR,
    "torch.tensor([z / levels[-1] for z in levels], dtype=torch.float64)",
)

# ---- weights to codes

_quantize(
    "one_scale",
    "A scale for each block: with one for the whole matrix a single outlier costs all weights their precision.",
    _ABSMAX,
    "blocks.abs().amax().expand(len(blocks)).clone()",
)
_quantize(
    "largest_and_not_largest_magnitude",
    "The scale is the largest magnitude: by the largest value, a larger negative weight has no level.",
    _ABSMAX,
    "blocks.amax(1)",
)
_quantize(
    "rows_are_blocks",
    "A block is `block` neighbours of w.flatten(), not a row of the matrix.",
    "blocks = w.float().reshape(-1, block)",
    "blocks = w.float().reshape(len(w), -1) if w.dim() > 1 else w.float().reshape(-1, block)",
)
_quantize(
    "columns_are_blocks",
    "Neighbours of a block are next to each other in w.flatten(); yours takes every so many-th weight.",
    "blocks = w.float().reshape(-1, block)",
    "blocks = w.float().reshape(block, -1).T",
    _CODES,
    "torch.bucketize(unit, borders).to(torch.uint8).T.reshape(w.shape)",
)
_quantize(
    "level_below",
    "The nearest level, not the last one that is not above the weight.",
    _CODES,
    "(torch.bucketize(unit, levels, right=True) - 1).to(torch.uint8).view(w.shape)",
)
_quantize(
    "level_above",
    "The nearest level, not the first one that is not below the weight.",
    _CODES,
    "torch.bucketize(unit, levels).to(torch.uint8).view(w.shape)",
)
_quantize(
    "rounded_index",
    "Levels are not evenly spaced: rounding (w + 1) · 7.5 finds the nearest number, not the nearest level.",
    _CODES,
    "((unit + 1) * 7.5).round().to(torch.uint8).view(w.shape)",
)
_quantize(
    "upper_of_a_tie",
    "Halfway between two levels the lower one is taken; yours takes the upper one.",
    "torch.bucketize(unit, borders)",
    "torch.bucketize(unit, borders, right=True)",
)
_quantize(
    "zero_by_zero",
    "A block of zeros has the largest magnitude 0, and 0 / 0 is NaN: its codes are 7.",
    _UNIT,
    "blocks / absmax.unsqueeze(1)",
)
_quantize(
    "clamped_scale",
    "A scale with a floor flattens blocks of small weights: only a scale that is 0 needs care.",
    _UNIT,
    "blocks / absmax.clamp(min=1e-8).unsqueeze(1)",
)
_quantize(
    "zero_has_scale_1",
    "A block of zeros is divided by 1, but its absmax is 0.",
    _ABSMAX,
    "torch.where(blocks.abs().amax(1) == 0, 1, blocks.abs().amax(1))",
)
_quantize(
    "divided_in_half_precision",
    "Divide in float32: a quotient in half precision falls on the wrong side of the border between two levels.",
    "blocks = w.float().reshape(-1, block)",
    "blocks = w.reshape(-1, block)",
    f"{_CODES}, absmax",
    f"{_CODES}, absmax.float()",
    "unit = blocks",
    "unit = blocks.to(w.dtype)",
    "levels = nf4_levels().to(w.device)",
    "unit, levels = unit.float(), nf4_levels().to(w.device)",
)
_quantize(
    "flat_codes",
    "Codes have the shape of the weights.",
    _CODES,
    "torch.bucketize(unit, borders).to(torch.uint8).flatten()",
)
_quantize(
    "int64_codes",
    "Codes are uint8: as int64 they take 16 times the memory that they are meant to save.",
    _CODES,
    "torch.bucketize(unit, borders).view(w.shape)",
)

# ---- and back

_quantize(
    "not_scaled",
    "A level stands for a weight only when it is multiplied by its block's largest magnitude.",
    _SCALED,
    "blocks.view(codes.shape)",
)
_quantize(
    "bytes_as_mask",
    "A uint8 tensor as an index is read as a mask: turn the codes into int64 first.",
    "[codes.long()]",
    "[codes]",
)
_quantize(
    "always_64",
    "How long a block is follows from the two sizes: it need not be 64.",
    "absmax.unsqueeze(1)).view",
    "absmax.repeat_interleave(64)[: blocks.numel()].view(blocks.shape)).view",
)
_quantize(
    "scales_in_turn",
    "Neighbours share a scale; yours deals the scales out to one weight after the other.",
    _BACK,
    "nf4_levels().to(codes.device)[codes.long()].reshape(-1, len(absmax)).T",
    _SCALED,
    "(blocks * absmax.unsqueeze(1)).T.reshape(codes.shape)",
)
_quantize(
    "flat_weights",
    "The weights come back in the shape of the codes.",
    _SCALED,
    "(blocks * absmax.unsqueeze(1)).flatten()",
)
