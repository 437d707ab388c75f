"""Right programs, written another way, for level06.quantize. `alternative` is given when this is read."""

import numpy as np
import torch
from torch.nn.functional import linear

# ---- quantize_int8


def _matrix(w):
    if w.dim() != 2:
        raise ValueError("a matrix")
    return w


def _int8_by_lists(w):
    codes, scales = [], []
    for row in _matrix(w).double().tolist():
        scale = max(abs(v) for v in row) / 127 or 1.0
        codes.append([round(v / scale) for v in row])
        scales.append([scale])
    return torch.tensor(codes, dtype=torch.int8), torch.tensor(scales, dtype=torch.float64).to(w.dtype)


def _int8_by_numpy(w):
    wide = _matrix(w).double().numpy()
    largest = np.abs(wide).max(axis=1, keepdims=True)
    scale = np.divide(largest, 127.0, out=np.ones_like(largest), where=largest > 0)
    return torch.from_numpy(np.rint(wide / scale).astype(np.int8)), torch.from_numpy(scale).to(w.dtype)


def _int8_by_the_inverse(w):
    """One division per row; the product of a tie is exact where the scale is a power of two."""
    wide = _matrix(w).to(torch.promote_types(w.dtype, torch.float32))
    largest = torch.maximum(wide.amax(1), -wide.amin(1))
    inverse = torch.where(largest > 0, 127 / largest, largest.new_ones(()))
    q = torch.round(wide * inverse[:, None]).clamp(-127, 127)
    scale = torch.where(largest > 0, largest / 127, largest.new_ones(()))
    return q.to(torch.int8), scale[:, None].to(w.dtype)


def _int8_by_normalizing(w):
    """First to -1..1, then to -127..127."""
    wide = _matrix(w).double()
    largest = torch.linalg.vector_norm(wide, ord=torch.inf, dim=1, keepdim=True)
    unit = torch.nan_to_num(wide / largest)
    scale = (largest / 127).masked_fill(largest == 0, 1)
    return (unit * 127).round().char(), scale.to(w.dtype)


for program in (_int8_by_lists, _int8_by_numpy, _int8_by_the_inverse, _int8_by_normalizing):
    alternative("level06.quantize.quantize_int8", program.__name__[1:], program=program)

# ---- int8_linear


def _linear_by_functional(x, q, scale):
    return linear(x, q.to(x.dtype)).mul(scale.to(x.dtype).flatten())


def _linear_by_einsum(x, q, scale):
    return torch.einsum("...i,oi->...o", x, q.type_as(x)) * scale[:, 0].type_as(x)


def _linear_by_sums(x, q, scale):
    """Type promotion gives the product the dtype of x."""
    return (x.unsqueeze(-2) * q).sum(-1) * scale.to(x.dtype).reshape(-1)


def _linear_row_by_row(x, q, scale):
    outputs = [(x @ codes.to(x.dtype)) * s.to(x.dtype) for codes, s in zip(q, scale[:, 0])]
    return torch.stack(outputs, -1)


def _linear_from_the_left(x, q, scale):
    tokens = x.reshape(-1, x.shape[-1])
    y = q.to(x.dtype) @ tokens.T  # (out, tokens): here the scale stretches as it is
    return (y * scale.to(x.dtype)).T.reshape(*x.shape[:-1], len(q))


for program in (
    _linear_by_functional,
    _linear_by_einsum,
    _linear_by_sums,
    _linear_row_by_row,
    _linear_from_the_left,
):
    alternative("level06.quantize.quantize_int8", program.__name__[1:], program=program, part="int8_linear")

# ---- pack_int4


def _nibbles(q):
    if q.shape[-1] % 2 or q.min() < 0 or q.max() > 15:
        raise ValueError("values")
    return q


def _pack_by_sums(q):
    pairs = _nibbles(q).long().unflatten(1, (-1, 2))
    return (pairs * torch.tensor([1, 16])).sum(-1).to(torch.uint8)


def _pack_by_numpy(q):
    q = _nibbles(q).numpy().astype(np.uint8)
    return torch.from_numpy(q[:, ::2] | (q[:, 1::2] << 4))


def _pack_in_the_dtype_given(q):
    """In int8 a large odd column is negative for a while; its bits are the same."""
    low, high = _nibbles(q).unfold(1, 2, 2).unbind(-1)
    return low.bitwise_or(high * 16 if q.dtype != torch.int8 else high << 4).to(torch.uint8)


def _pack_by_bytes(q):
    rows = [bytes(low | high << 4 for low, high in zip(row[::2], row[1::2])) for row in _nibbles(q).tolist()]
    return torch.tensor([list(row) for row in rows], dtype=torch.uint8)


for program in (_pack_by_sums, _pack_by_numpy, _pack_in_the_dtype_given, _pack_by_bytes):
    alternative("level06.quantize.pack_int4", program.__name__[1:], program=program)


def _unpack_by_writing(packed):
    q = packed.new_empty(len(packed), 2 * packed.shape[1])
    q[:, ::2], q[:, 1::2] = packed % 16, packed // 16
    return q


def _unpack_by_numpy(packed):
    packed = packed.numpy()
    return torch.from_numpy(np.stack([packed & 0xF, packed >> 4], axis=2).reshape(len(packed), -1))


def _unpack_by_a_table(packed):
    table = torch.tensor([[byte & 15, byte >> 4] for byte in range(256)], dtype=torch.uint8)
    return table[packed.long()].reshape(len(packed), -1)


def _unpack_by_repeating(packed):
    shift = torch.tensor([0, 4], dtype=torch.uint8).repeat(packed.shape[1])
    return packed.repeat_interleave(2, 1) >> shift & 15


for program in (_unpack_by_writing, _unpack_by_numpy, _unpack_by_a_table, _unpack_by_repeating):
    alternative("level06.quantize.pack_int4", program.__name__[1:], program=program, part="unpack_int4")

# ---- quantize_int4


def _grouped(w, group):
    if w.dim() != 2 or group < 1 or w.shape[1] % group:
        raise ValueError("groups")
    return w


def _int4_by_lists(w, group):
    packed, scales, lows = [], [], []
    for row in _grouped(w, group).tolist():
        codes, steps, least = [], [], []
        for start in range(0, len(row), group):
            part = row[start : start + group]
            low, high = min(part), max(part)
            step = (high - low) / 15 if high > low else 1.0
            codes += [round((v - low) / step) for v in part]
            steps.append(step)
            least.append(low)
        packed.append([a + 16 * b for a, b in zip(codes[::2], codes[1::2])])
        scales.append(steps)
        lows.append(least)
    metadata = (torch.tensor(x, dtype=torch.float64).to(w.dtype) for x in (scales, lows))
    return torch.tensor(packed, dtype=torch.uint8), *metadata


def _int4_as_rows(w, group):
    """Every group is a row of its own; the shape comes back at the end."""
    rows, columns = _grouped(w, group).shape
    flat = w.double().reshape(-1, group)
    low, high = torch.aminmax(flat, dim=1, keepdim=True)
    span = high - low
    q = torch.nan_to_num((flat - low) * 15 / span).round().to(torch.uint8).reshape(rows, columns)
    scale = torch.where(span > 0, span / 15, 1.0)
    return q[:, ::2] + q[:, 1::2] * 16, *(x.reshape(rows, -1).to(w.dtype) for x in (scale, low))


def _int4_by_numpy(w, group):
    rows, columns = _grouped(w, group).shape
    groups = w.double().numpy().reshape(rows, columns // group, group)
    low = groups.min(axis=2, keepdims=True)
    scale = np.ptp(groups, axis=2, keepdims=True) / 15
    scale[scale == 0] = 1
    q = np.rint((groups - low) / scale).astype(np.uint8).reshape(rows, columns)
    return torch.from_numpy(q[:, ::2] | q[:, 1::2] << 4), *(
        torch.from_numpy(x[..., 0]).to(w.dtype) for x in (scale, low)
    )


def _int4_column_by_column(w, group):
    """Extremes that are repeated for every column, and a code by counting the borders below it."""
    _grouped(w, group)
    wide = w.double()
    low = torch.stack([part.amin(1) for part in wide.split(group, 1)], 1)
    high = torch.stack([part.amax(1) for part in wide.split(group, 1)], 1)
    scale = (high - low).div(15).masked_fill(high == low, 1)
    steps = (wide - low.repeat_interleave(group, 1)) / scale.repeat_interleave(group, 1)
    border = torch.arange(15, dtype=torch.float64) + 0.5
    above, at = steps[..., None] > border, (steps[..., None] == border) & (torch.arange(15) % 2 == 1)
    q = (above | at).sum(-1)
    return (q[:, ::2] | q[:, 1::2] << 4).to(torch.uint8), scale.to(w.dtype), low.to(w.dtype)


for program in (_int4_by_lists, _int4_as_rows, _int4_by_numpy, _int4_column_by_column):
    alternative("level06.quantize.quantize_int4", program.__name__[1:], program=program)

# ---- dequantize_int4


def _back_by_repeating(packed, scale, low):
    group = 2 * packed.shape[1] // scale.shape[1]
    q = torch.stack([packed % 16, packed // 16], -1).flatten(1)
    return torch.addcmul(low.repeat_interleave(group, 1), q.to(scale.dtype), scale.repeat_interleave(group, 1))


def _back_by_loops(packed, scale, low):
    w = torch.empty(len(packed), 2 * packed.shape[1], dtype=scale.dtype)
    group = w.shape[1] // scale.shape[1]
    for column in range(w.shape[1]):
        byte, g = packed[:, column // 2].int(), column // group
        w[:, column] = (byte >> 4 if column % 2 else byte & 15) * scale[:, g] + low[:, g]
    return w


def _back_in_float64(packed, scale, low):
    q = torch.from_numpy(np.stack([packed.numpy() & 15, packed.numpy() >> 4], -1).reshape(*scale.shape, -1))
    return (q * scale.double().unsqueeze(-1) + low.double().unsqueeze(-1)).to(scale.dtype).flatten(1)


def _back_by_a_table(packed, scale, low):
    """The sixteen weights of each group, looked up."""
    table = low[..., None] + scale[..., None] * torch.arange(16).to(scale.dtype)  # (out, groups, 16)
    q = torch.stack([packed & 15, packed >> 4], -1).reshape(*scale.shape, -1)
    return table.gather(-1, q.long()).flatten(1)


for program in (_back_by_repeating, _back_by_loops, _back_in_float64, _back_by_a_table):
    alternative("level06.quantize.quantize_int4", program.__name__[1:], program=program, part="dequantize_int4")

# ---- bits_per_weight


def _bits_of_the_group(bits, group, metadata_bits):
    return (bits * group + metadata_bits) / group


alternative("level06.quantize.quantize_int4", "bits_of_the_group", program=_bits_of_the_group, part="bits_per_weight")

# ---- fake_quantize


def _signed(bits):
    if bits < 2:
        raise ValueError("bits")
    return (1 << bits - 1) - 1


def _fake_by_lists(x, bits, dim):
    most = _signed(bits)
    last = x.movedim(dim, -1)
    rows = []
    for row in last.reshape(-1, last.shape[-1]).tolist():
        scale = max(map(abs, row)) / most or 1.0
        rows.append([round(v / scale) * scale for v in row])
    return torch.tensor(rows, dtype=torch.float64).reshape(last.shape).movedim(-1, dim).to(x.dtype)


def _fake_by_numpy(x, bits, dim):
    wide = x.double().numpy()
    scale = np.abs(wide).max(axis=dim, keepdims=True) / _signed(bits)
    safe = np.where(scale == 0, 1, scale)
    return torch.from_numpy(np.rint(wide / safe) * scale).to(x.dtype)


def _fake_by_normalizing(x, bits, dim):
    """Largest to 1, whole steps, and back; a slice of zeros is caught at the end."""
    most, wide = _signed(bits), x.double()
    largest = torch.maximum(wide.amax(dim, True), wide.amin(dim, True).neg())
    return (wide * most / largest).round().div(most).mul(largest).nan_to_num(0).to(x.dtype)


def _fake_slice_by_slice(x, bits, dim):
    most, out = _signed(bits), torch.zeros_like(x)
    for source, target in zip(x.movedim(dim, -1).reshape(-1, x.shape[dim]), _slices(out, dim)):
        if (largest := source.abs().max().double()) > 0:
            target.copy_((source.double() / (largest / most)).round() * (largest / most))
    return out


def _slices(x, dim):
    last = x.movedim(dim, -1)
    return [last[i] for i in np.ndindex(last.shape[:-1])]


for program in (_fake_by_lists, _fake_by_numpy, _fake_by_normalizing, _fake_slice_by_slice):
    alternative("level06.quantize.fake_quantize", program.__name__[1:], program=program)
