"""Known-wrong programs of level15.rerope. `ghost` is given when this is read."""


def _ghost(name, sentence, *change, **how):
    ghost("level15.rerope.move_positions", name, sentence, change=change, **how)


INVERSE = "return [half * head_dim // 2 + plane for plane in range(head_dim // 2) for half in range(2)]"
ORDER = "return [*range(0, head_dim, 2), *range(1, head_dim, 2)]"
STRIP_TABLES = "cos, sin = rope_tables(positions, k.shape[-1], theta)"
STRIP = "return apply_rope(k.double(), cos, -sin).to(k.dtype)"
CONTENT = "content = strip_rope(k.double(), old, theta_old)"
TABLES = "cos, sin = rope_tables(new, k.shape[-1], theta_old if theta_new is None else theta_new)"
MOVED = "return apply_rope(content, cos, sin).to(k.dtype)"
# ---- half_split_order

_ghost(
    "directions_exchanged",
    "k[..., order] picks: the first half of the order names the features 0, 2, 4 …, and the inverse deals them out.",
    ("if inverse:", "if not inverse:"),
)
_ghost(
    "one_order_for_both",
    "The way back is another order, except for a head_dim of 2 or 4: yours is the same for both.",
    ("if inverse:", "if False:"),
)
_ghost(
    "pairs_from_the_ends",
    "Plane i of half-split turns (i, i + head_dim / 2): second features go up from i = 0, too.",
    (ORDER, "return [*range(0, head_dim, 2), *range(head_dim - 1, 0, -2)]"),
)
_ghost(
    "nothing_reordered",
    "Pairs that are neighbours must become halves: yours leaves the features where they are.",
    (ORDER, "return list(range(head_dim))"),
)
_ghost(
    "second_features_first",
    "The first features of all pairs come first: exchanged, a pair would turn the other way.",
    (ORDER, "return [*range(1, head_dim, 2), *range(0, head_dim, 2)]"),
)

# ---- strip_rope

_ghost(
    "turned_further",
    "Turn back: a rotation is undone by the opposite angle, so the sine changes its sign.",
    (STRIP, "return apply_rope(k.double(), cos, sin).to(k.dtype)"),
)
_ghost(
    "not_stripped",
    "Cached keys are rotated keys: take the rotation out.",
    (STRIP, "return k.clone()"),
)
_ghost(
    "turned_by_half",
    "With the cosine's sign changed as well it is a turn by 180 degrees more.",
    (STRIP, "return apply_rope(k.double(), -cos, -sin).to(k.dtype)"),
)
_ghost(
    "counted_from_zero",
    "The keys were rotated by the positions that are given, wherever the first one stands.",
    (STRIP_TABLES, "cos, sin = rope_tables(positions - positions[:1], k.shape[-1], theta)"),
)
_ghost(
    "numbered_by_place",
    "A token's place in the tensor is not its position in the text: use the positions that are given.",
    (STRIP_TABLES, "cos, sin = rope_tables(positions.argsort().argsort(), k.shape[-1], theta)"),
)
_ghost(
    "default_base",
    "The base is that of the model that made the keys; yours is always 10000.",
    (STRIP_TABLES, "cos, sin = rope_tables(positions, k.shape[-1], 10000.0)"),
)
_ghost(
    "cosines_divided",
    "A rotation mixes two features: dividing by the cosine does not take the other one out.",
    (STRIP, "return (k.double() / cos).to(k.dtype)"),
)
_ghost(
    "narrow_products",
    "bfloat16 products and sums lose digits: compute in float64, and round once at the end.",
    (STRIP, "return apply_rope(k, cos.to(k.dtype), -sin.to(k.dtype)).to(k.dtype)"),
)
_ghost(
    "through_float32",
    "Float64 keys lose half of their digits in float32: all products are float64.",
    (STRIP, "return apply_rope(k.float(), cos, -sin).to(k.dtype)"),
)
_ghost(
    "float64_out",
    "The result has the dtype of k, or it does not fit into the cache.",
    (STRIP, "return apply_rope(k.double(), cos, -sin)"),
)

# ---- move_positions

_ghost(
    "rotated_on_top",
    "The old rotation is still in the key: take it out before the new one goes in.",
    (CONTENT, "content = k.double()"),
)
_ghost(
    "new_one_missing",
    "The content must be rotated again, to where it stands now.",
    (MOVED, "return content.to(k.dtype)"),
)
_ghost(
    "base_of_the_sender",
    "The receiver's base differs from the sender's: rotate to the new positions with theta_new.",
    (TABLES, "cos, sin = rope_tables(new, k.shape[-1], theta_old)"),
)
_ghost(
    "base_of_the_receiver",
    "Take the old rotation out with theta_old, which put it in: one turn by new - old does for equal bases alone.",
    (CONTENT, "content = strip_rope(k.double(), old, theta_old if theta_new is None else theta_new)"),
)
_ghost(
    "old_for_new",
    "From the old positions to the new ones: yours goes the other way.",
    (CONTENT, "content = strip_rope(k.double(), new, theta_old)"),
    (TABLES, "cos, sin = rope_tables(old, k.shape[-1], theta_old if theta_new is None else theta_new)"),
)
_ghost(
    "bases_exchanged",
    "theta_old comes out, theta_new goes in: yours has them the wrong way round.",
    (CONTENT, "content = strip_rope(k.double(), old, theta_new or theta_old)"),
    (TABLES, "cos, sin = rope_tables(new, k.shape[-1], theta_old)"),
)
_ghost(
    "one_shift_for_all",
    "Each token moves by its own difference, not by that of the first one.",
    (TABLES, "cos, sin = rope_tables(old + (new - old)[:1], k.shape[-1], theta_new or theta_old)"),
)
_ghost(
    "positions_kept",
    "Another base is not all: the tokens stand at other positions now.",
    (TABLES, "cos, sin = rope_tables(old, k.shape[-1], theta_old if theta_new is None else theta_new)"),
)
_ghost(
    "rounded_in_between",
    "Between the two rotations nothing is rounded: bfloat16 keys would lose digits twice.",
    (CONTENT, "content = strip_rope(k, old, theta_old).double()"),
)
_ghost(
    "neighbours_turned",
    "These keys are half-split: feature i is paired with i + head_dim / 2, not with its neighbour.",
    (
        CONTENT,
        "import torch\n\n    order = torch.tensor(half_split_order(k.shape[-1]))\n"
        "    content = strip_rope(k.double()[..., order], old, theta_old)",
    ),
    (MOVED, "return apply_rope(content, cos, sin)[..., order.argsort()].to(k.dtype)"),
)
_ghost(
    "float64_moved",
    "Moved keys go back into the sender's kind of cache: they have the dtype that they came with.",
    (MOVED, "return apply_rope(content, cos, sin)"),
)
