"""Judges rerope.py by complex numbers: a pair of features is one number, and a turn a product with exp(i · angle).

Angles here are float64, level 00's tables float32: they agree to 1e-6 for keys of a size near 1.
"""

import pytest
import torch

from level15.rerope import half_split_order, move_positions, strip_rope


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def turned(k, positions, theta, sign=1, interleaved=False):
    """Oracle in float64: plane i turned by sign · position · theta^(-2 i / D)."""
    half = k.shape[-1] // 2
    wide = k.double()
    real, imag = (wide[..., ::2], wide[..., 1::2]) if interleaved else (wide[..., :half], wide[..., half:])
    angle = positions.double()[:, None] * theta ** (-torch.arange(half).double() / half)
    z = torch.complex(real, imag) * torch.exp(1j * sign * angle)
    return torch.stack([z.real, z.imag], -1).flatten(-2) if interleaved else torch.cat([z.real, z.imag], -1)


def moved(k, old, new, theta_old, theta_new):
    return turned(turned(k, old, theta_old, -1), new, theta_new).to(k.dtype)


# ---- half_split_order, judged with move_positions


@pytest.mark.kata("level15.rerope.move_positions")
def test_orders_that_can_be_told_apart(expect):
    """Each feature's pair by hand. With a head_dim of 4 the order is its own inverse: only 6 and more tell them apart
    (AiDotNet #2074)."""
    expect(half_split_order, 8).equals([0, 2, 4, 6, 1, 3, 5, 7])
    expect(half_split_order, 8, inverse=True).equals([0, 4, 1, 5, 2, 6, 3, 7])
    expect(half_split_order, 6, True).equals([0, 3, 1, 4, 2, 5])
    for inverse in (False, True):
        expect(half_split_order, 4, inverse).equals([0, 2, 1, 3])
        expect(half_split_order, 2, inverse).equals([0, 1])
    expect(half_split_order, 3).raises(ValueError)


def relaid(head_dim, inverse):
    """A key that is laid out anew, and one that is laid out anew and back."""
    k = draw(3, head_dim, seed=head_dim)
    first, second = half_split_order(head_dim, inverse), half_split_order(head_dim, not inverse)
    return k[:, first], k[:, first][:, second]


@pytest.mark.kata("level15.rerope.move_positions")
@pytest.mark.parametrize("head_dim", [2, 6, 10, 16])
def test_there_and_back_is_the_key_itself(expect, head_dim):
    """Two models that lay out their pairs in two ways: what is sent and sent back must be what it was."""
    k = draw(3, head_dim, seed=head_dim)
    halves, neighbours = torch.cat([k[:, ::2], k[:, 1::2]], 1), torch.stack(k.chunk(2, 1), 2).flatten(1)
    expect(relaid, head_dim, False).equals((halves, k), rel=0, abs=0)
    expect(relaid, head_dim, True).equals((neighbours, k), rel=0, abs=0)


def from_neighbours(k, positions, theta):
    """Content, half-split, of keys that a model with neighbouring pairs has rotated."""
    return strip_rope(k[..., half_split_order(k.shape[-1])], positions, theta)


@pytest.mark.kata("level15.rerope.move_positions")
def test_a_model_that_pairs_neighbours(expect):
    """Oracle: neighbours turned as complex numbers. Turned back without the new order, only position 0 is right."""
    content, positions = draw(2, 5, 8, seed=1), torch.tensor([3, 0, 12, 7, 100])
    right = torch.cat([content[..., ::2], content[..., 1::2]], -1)
    k = turned(content, positions, 500.0, interleaved=True).float()
    expect(from_neighbours, k, positions, 500.0).equals(right, abs=2e-6)


# ---- strip_rope, judged with move_positions

PLACES = torch.tensor([17, 3, 4, 0, 250])


@pytest.mark.kata("level15.rerope.move_positions")
def test_content_is_the_same_at_every_position(expect):
    """[cos 1, sin 1] at position 1, [cos 2, sin 2] at 2 and so on are all [1, 0], turned. A map that is fitted to
    rotated keys would have to learn every position anew."""
    angles = PLACES.double()
    k = torch.stack([angles.cos(), angles.sin()], -1).float()
    expect(strip_rope, k, PLACES, 1e4).equals(torch.tensor([[1.0, 0.0]]).repeat(5, 1), abs=2e-6)
    expect(strip_rope, k[:1], PLACES[:1], 7.0).equals(torch.tensor([[1.0, 0.0]]), abs=2e-6)


@pytest.mark.kata("level15.rerope.move_positions")
@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 5, 6), (4, 5, 2), (1, 2, 1, 5, 4)], ids=str)
def test_the_rotation_is_taken_out(expect, shape):
    """Oracle: complex numbers. Positions neither start at 0 nor follow each other, the base is the sender's, and
    there may be as many heads as tokens."""
    k = draw(*shape, seed=2)
    for theta in (50.0, 1e4, 5e5):
        expect(strip_rope, k, PLACES, theta).equals(turned(k, PLACES, theta, -1).float(), abs=2e-6)


# ---- move_positions

OLD, NEW = torch.tensor([3, 4, 9, 17, 100]), torch.tensor([10, 0, 4, 55, 7])


@pytest.mark.kata("level15.rerope.move_positions")
def test_a_key_that_is_moved(expect):
    """By hand. [1, 0] at 3 goes to 10: turned by +7. The key that was [1, 0] before it was rotated stands at 10 in the
    end, [cos 10, sin 10] (LMCache #204: text that is moved is misread with its old angle)."""
    old, new = torch.tensor([3]), torch.tensor([10])
    expect(move_positions, torch.tensor([[1.0, 0.0]]), old, new, 1e4).equals(torch.tensor([[0.753902, 0.656987]]))
    k = torch.tensor([[-0.98999250, 0.14112001]])
    expect(move_positions, k, old, new, 1e4).equals(torch.tensor([[-0.839072, -0.544021]]))
    expect(move_positions, k, old, torch.tensor([0]), 1e4).equals(torch.tensor([[1.0, 0.0]]))


@pytest.mark.kata("level15.rerope.move_positions")
def test_a_receiver_of_another_base(expect):
    """By hand: content [1, 2, 3, 4] at 3, base 1e4 -> 5e5. Only the second plane changes: kept, it would be 1.879 and
    4.058; rotated on top of the old, all four are wrong."""
    k = torch.tensor([[-1.41335252, 1.87911844, -2.82885748, 4.05819067]])
    right = torch.tensor([[-1.413353, 1.983011, -2.828857, 4.008449]])
    place = torch.tensor([3])
    expect(move_positions, k, place, place, 1e4, 5e5).equals(right, abs=2e-6)
    expect(move_positions, right, place, place, 5e5, theta_new=1e4).equals(k, abs=2e-6)


@pytest.mark.kata("level15.rerope.move_positions")
@pytest.mark.parametrize("shape", [(5, 2), (2, 3, 5, 8), (5, 5, 5, 6)], ids=str)
@pytest.mark.parametrize("theta_new", [None, 1e4, 5e5, 20.0])
def test_out_of_the_one_and_into_the_other(expect, shape, theta_new):
    """Oracle: complex numbers, forward, backward, and by different steps for each token."""
    k = draw(*shape, seed=5)
    right = moved(k, OLD, NEW, 1e4, theta_new or 1e4)
    how = {} if theta_new is None else {"theta_new": theta_new}
    expect(move_positions, k, OLD, NEW, 1e4, **how).equals(right, abs=2e-6)


@pytest.mark.kata("level15.rerope.move_positions")
def test_far_positions(expect):
    """The 100,000th token moves to the front, and back: an angle of float32 would be off by some thousandths there."""
    k, far = draw(2, 3, 4, seed=6), torch.tensor([100_003, 99_999, 131_071])
    near = torch.arange(3) + 2
    expect(move_positions, k, far, near, 1e4).equals(moved(k, far, near, 1e4, 1e4), abs=2e-6)
    expect(move_positions, k, near, far, 1e4, 5e5).equals(moved(k, near, far, 1e4, 5e5), abs=2e-6)


@pytest.mark.kata("level15.rerope.move_positions")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_keys_are_rounded_once(expect, dtype):
    """The oracle's float64, rounded at the end: products and sums in bfloat16 would be off by more than that."""
    k, places = (3 * draw(2, 5, 8, seed=3)).to(dtype), torch.tensor([5, 40, 1000, 2, 77])
    expect(strip_rope, k, places, 1e4).equals(turned(k, places, 1e4, -1).to(dtype), rel=0, abs=0)
    right = moved(k, places, places.flip(0), 1e4, 5e5)
    expect(move_positions, k, places, places.flip(0), 1e4, 5e5).equals(right, rel=0, abs=0)


@pytest.mark.kata("level15.rerope.move_positions")
def test_float64_keys_keep_their_digits(expect):
    """At position 0 nothing turns, so nothing may change: float32 on the way would show in the eighth digit."""
    k = draw(2, 3, 4, seed=4).double() / 3
    nowhere = torch.zeros(3, dtype=torch.int64)
    expect(strip_rope, k, nowhere, 1e4).equals(k, rel=1e-14, abs=0)
    expect(move_positions, k, nowhere, nowhere, 1e4, 5e5).equals(k, rel=1e-14, abs=0)


@pytest.mark.kata("level15.rerope.move_positions")
def test_keys_as_a_cache_holds_them(expect):
    """A transposed view, int32 positions, no token at all; and the sender's keys stay as they were."""
    k = draw(2, 5, 3, 4, seed=7).transpose(1, 2)
    old, new = OLD.int(), NEW.int()
    expect(move_positions, k, old, new, 1e4).equals(moved(k, old, new, 1e4, 1e4), abs=2e-6)
    expect(strip_rope, k, old, 1e4).equals(turned(k, old, 1e4, -1).float(), abs=2e-6)
    nothing, nowhere = torch.empty(2, 0, 4), torch.empty(0, dtype=torch.int64)
    expect(move_positions, nothing, nowhere, nowhere, 1e4, 5e5).equals(nothing)


@pytest.mark.kata("level15.rerope.move_positions")
def test_a_position_for_each_key(expect):
    """One position for all would be broadcast, and turn all keys alike."""
    k = draw(2, 5, 4, seed=8)
    expect(move_positions, k, OLD, NEW, 10.0).equals(moved(k, OLD, NEW, 10.0, 10.0), abs=2e-6)
    for old, new in ((OLD[:1], NEW[:1]), (OLD, NEW[:4]), (OLD[:4], NEW)):
        expect(move_positions, k, old, new, 10.0).raises(ValueError)
    expect(strip_rope, k, OLD[:1], 10.0).raises(ValueError)
