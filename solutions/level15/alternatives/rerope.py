"""Right programs, written another way, for level15.rerope. `alternative` is given when this is read."""

import torch

ID = "level15.rerope.move_positions"


def _reshaped_order(head_dim, inverse=False):
    if head_dim % 2:
        raise ValueError("odd")
    shape = (2, head_dim // 2) if inverse else (head_dim // 2, 2)
    return torch.arange(head_dim).view(shape).T.flatten().tolist()


def _computed_order(head_dim, inverse=False):
    """By a formula for each place; the way back from where each feature went."""
    if head_dim & 1:
        raise ValueError("odd")
    order = [2 * (place % (head_dim // 2)) + place // (head_dim // 2) for place in range(head_dim)]
    return [order.index(feature) for feature in range(head_dim)] if inverse else order


def _turned(k, angle):
    first, second = k.double().chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def _angles(positions, head_dim, theta):
    return torch.outer(positions.double(), theta ** -(torch.arange(0, head_dim, 2).double() / head_dim))


def _strip_complex(k, positions, theta):
    if tuple(positions.shape) != (k.shape[-2],):
        raise ValueError("positions")
    first, second = k.double().chunk(2, -1)
    angle = _angles(positions, k.shape[-1], theta)
    z = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle).conj()
    return torch.cat([z.real, z.imag], -1).to(k.dtype)


def _strip_negative(k, positions, theta):
    """Rotated to minus the position."""
    from level00.layers import apply_rope, rope_tables

    if positions.dim() != 1 or len(positions) != k.shape[-2]:
        raise ValueError("positions")
    return apply_rope(k.double(), *rope_tables(-positions, k.shape[-1], theta)).to(k.dtype)


def _one_turn(k, old, new, theta_old, theta_new=None):
    """One turn by the difference of both angles, plane by plane: no rotation is undone."""
    if not tuple(old.shape) == tuple(new.shape) == (k.shape[-2],):
        raise ValueError("positions")
    theta_new = theta_old if theta_new is None else theta_new
    angle = _angles(new, k.shape[-1], theta_new) - _angles(old, k.shape[-1], theta_old)
    return _turned(k, angle).to(k.dtype)


def _plane_by_plane(k, old, new, theta_old, theta_new=None):
    """A matrix of 2 x 2 for each token and plane."""
    if old.shape != new.shape or old.shape != (k.shape[-2],):
        raise ValueError("positions")
    half, moved = k.shape[-1] // 2, k.double().clone()
    for plane in range(half):
        power = -2 * plane / k.shape[-1]
        angle = new.double() * (theta_new or theta_old) ** power - old.double() * theta_old**power
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2)
        pair = moved[..., [plane, plane + half]].unsqueeze(-1)
        moved[..., [plane, plane + half]] = (turn @ pair).squeeze(-1)
    return moved.to(k.dtype)


def _composed(k, old, new, theta_old, theta_new=None):
    """The new rotation is the old one taken out backwards."""
    from level15.rerope import strip_rope

    if not len(old) == len(new) == k.shape[-2]:
        raise ValueError("positions")
    content = strip_rope(k.double(), old, theta_old)
    return strip_rope(content, -new, theta_new or theta_old).to(k.dtype)


alternative(ID, "reshaped_order", program=_reshaped_order, part="half_split_order")
alternative(ID, "computed_order", program=_computed_order, part="half_split_order")
alternative(ID, "complex_numbers", program=_strip_complex, part="strip_rope")
alternative(ID, "negative_positions", program=_strip_negative, part="strip_rope")
alternative(ID, "one_turn", program=_one_turn)
alternative(ID, "plane_by_plane", program=_plane_by_plane)
alternative(ID, "stripped_backwards", program=_composed)
