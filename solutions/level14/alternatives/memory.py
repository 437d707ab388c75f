"""Right programs, written another way, for level14.memory. `alternative` is given when this is read."""

import torch

DOUBLE = "level14.memory.double_quantize"


def _padded(absmax, block=256):
    """The last block filled up with zeros, which no largest magnitude minds."""
    from level14.memory import dynamic_map

    if absmax.dim() != 1 or not len(absmax) or block < 1:
        raise ValueError("scales, in blocks")
    mean = absmax.mean()
    rest = torch.nn.functional.pad(absmax - mean, (0, -len(absmax) % block)).view(-1, block)
    scale = rest.abs().amax(1)
    unit = torch.nan_to_num(rest / scale[:, None]).flatten()[: len(absmax)]
    return (unit[:, None] - dynamic_map()).abs().argmin(1).to(torch.uint8), scale, mean


def _in_a_loop(absmax, block=256):
    from level14.memory import dynamic_map

    if absmax.dim() != 1 or not len(absmax) or block < 1:
        raise ValueError("scales, in blocks")
    values = dynamic_map().double()
    mean = absmax.double().mean().float()
    codes, scales = [], []
    for start in range(0, len(absmax), block):
        part = absmax[start : start + block] - mean
        scales.append(float(part.abs().max()))
        unit = (part / scales[-1] if scales[-1] else part).double()
        codes += (unit[:, None] > (values[1:] + values[:-1]) / 2).sum(1).tolist()
    return torch.tensor(codes, dtype=torch.uint8), torch.tensor(scales), mean


def _by_number(codes, scale, mean, block=256):
    from level14.memory import dynamic_map

    return mean + scale[torch.arange(len(codes)) // block] * dynamic_map()[codes.int()]


def _split(codes, scale, mean, block=256):
    from level14.memory import dynamic_map

    values = dynamic_map()
    return torch.cat([values[part.long()] * s for part, s in zip(codes.split(block), scale)]) + mean


def _bits_of_a_superblock(block=64, second_block=None):
    if second_block is None:
        return (block * 4 + 32) / block
    weights = block * second_block
    return (4 * weights + 8 * second_block + 32) / weights


def _frozen_and_trainable(num_params, num_trainable, weight_bytes=2, grad_bytes=2, optim_bytes=12):
    frozen = (num_params - num_trainable) * weight_bytes
    return frozen + num_trainable * (weight_bytes + grad_bytes + optim_bytes)


alternative(DOUBLE, "padded", program=_padded)
alternative(DOUBLE, "in_a_loop", program=_in_a_loop)
alternative(DOUBLE, "by_number", program=_by_number, part="double_dequantize")
alternative(DOUBLE, "split", program=_split, part="double_dequantize")
alternative(DOUBLE, "bits_of_a_superblock", program=_bits_of_a_superblock, part="nf4_bits_per_weight")
alternative(DOUBLE, "frozen_and_trainable", program=_frozen_and_trainable, part="training_bytes")
