"""Cached keys are rotated keys: how to take the rotation out again, and how to put another one in.

Letters in the shapes: B batch, G KV heads, S tokens, D head_dim.
"""

from torch import Tensor

from level00.layers import apply_rope, rope_tables


def half_split_order(head_dim: int, inverse: bool = False) -> list[int]:
    """Return `order` such that k[..., order] is half-split for a key k whose pairs are neighbours (interleaved).

    Interleaved, plane i turns the features (2i, 2i + 1); half-split, it turns (i, i + head_dim / 2).
    inverse  the order that leads back

    Example: head_dim 8 -> [0, 2, 4, 6, 1, 3, 5, 7]; the inverse is [0, 4, 1, 5, 2, 6, 3, 7].
    ValueError: odd head_dim.

    ● · about 4 lines · part of move_positions
    """
    if head_dim % 2:
        raise ValueError(f"RoPE turns pairs of features, so head_dim is even, not {head_dim}")
    # TODO: first features of all pairs, then second ones
    raise NotImplementedError("level15.rerope.move_positions")


def strip_rope(k: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Return the keys as they were before they were rotated: content alone, the same at every position.

    k          (..., S, D) float, rotated as in level 00; the result has its shape and dtype
    positions  (S,) int, where the tokens stood
    theta      the RoPE base of the model that made them

    With the tables of level 00, products in float64: it undoes apply_rope up to the rounding of k and of the tables.
    Example: [0.5403, 0.8415] at position 1 -> [1, 0].
    ValueError: not one position per token.

    ● · about 2 lines · part of move_positions
    """
    if positions.shape != k.shape[-2:-1]:
        raise ValueError(f"{k.shape[-2]} keys have {k.shape[-2]} positions, (S,), not {tuple(positions.shape)}")
    # TODO: which rotation undoes a rotation?
    raise NotImplementedError("level15.rerope.move_positions")


def move_positions(k: Tensor, old: Tensor, new: Tensor, theta_old: float, theta_new: float | None = None) -> Tensor:
    """Return cached keys as a model of base theta_new would hold them, had the tokens stood at the positions `new`.

    k         (..., S, D) float, rotated by `old` and theta_old, half-split; the result has its shape and dtype
    old, new  (S,) int
    theta_new  None: theta_old

    Between the two rotations nothing is rounded to k's dtype: all of it is float64. Values have no rotation, and are
    never moved.
    Example: [1, 0] at position 3, moved to 10: turned by +7, [0.7539, 0.6570].
    ValueError: not one old and one new position per token.

    ●● · about 3 lines
    """
    if not old.shape == new.shape == k.shape[-2:-1]:
        raise ValueError(f"{k.shape[-2]} keys need as many old and new positions, not {len(old)} and {len(new)}")
    # TODO: out with the old one, in with the new one
    raise NotImplementedError("level15.rerope.move_positions")
