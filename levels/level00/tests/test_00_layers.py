"""Judges layers.py against torch's own functions, complex multiplication, and values worked by hand."""

import math

import pytest
import torch
import torch.nn.functional as F

from level00.layers import apply_rope, attention, causal_mask, rms_norm, rope_tables, softmax

INF = math.inf


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- softmax


@pytest.mark.kata("level00.layers.softmax")
@pytest.mark.parametrize("dim", [-1, 0, 1, -2, -3])
def test_softmax_normalizes_along_the_axis_it_is_given(expect, dim):
    """Oracle: torch.softmax, on three axes of different length."""
    x = randn(2, 3, 5) * 4
    expect(softmax, x, dim).equals(torch.softmax(x, dim))


@pytest.mark.kata("level00.layers.softmax")
def test_softmax_works_along_the_last_axis_by_default(expect):
    """e^0 : e^ln3 = 1 : 3. Scores are (…, keys): each query's weights over its keys sum to 1."""
    x = torch.tensor([[0.0, math.log(3)], [1.0, 1.0]])
    expect(softmax, x).equals(torch.tensor([[0.25, 0.75], [0.5, 0.5]]))


@pytest.mark.kata("level00.layers.softmax")
@pytest.mark.parametrize(
    "row",
    [
        [1000.0, 1000.0],
        [1000.0, 0.0],
        [-1000.0, -1000.0],
        [-1e5, -1e5],
        [-2e9, -3e9],
        [3e38, -3e38],
        [0.0, -INF],
        [-INF, 5.0],
    ],
    ids=str,
)
def test_large_scores_neither_overflow_nor_vanish(expect, row):
    """exp(89) overflows float32, exp(-104) is 0; no finite score counts as masked. Oracle: softmax in float64."""
    expect(softmax, torch.tensor(row)).equals(torch.softmax(torch.tensor(row).double(), -1).float())


@pytest.mark.kata("level00.layers.softmax")
def test_every_row_is_shifted_by_its_own_maximum(expect):
    """In a batch one row may lie 200 below another; shifted by the maximum of all, its exponentials are all 0."""
    x = torch.tensor([[0.0, 0.0], [-200.0, -200.0], [300.0, 300.0]])
    expect(softmax, x).equals(torch.full((3, 2), 0.5))


@pytest.mark.kata("level00.layers.softmax")
def test_a_fully_masked_row_gives_zeros(expect):
    """Padding rows attend to nothing. One NaN from them would spread through the batch."""
    x = torch.tensor([[-INF, -INF, -INF], [1.0, -INF, 1.0]])
    expect(softmax, x).equals(torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]))


@pytest.mark.kata("level00.layers.softmax")
@pytest.mark.parametrize("shape, dim", [((7,), 0), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), -1)], ids=str)
def test_softmax_takes_any_shape_and_layout(expect, shape, dim):
    """Scores are 4-D, and a transposed tensor is not contiguous. Oracle: torch.softmax."""
    x = randn(*reversed(shape)).permute(*reversed(range(len(shape))))
    expect(softmax, x, dim).equals(torch.softmax(x, dim))


@pytest.mark.kata("level00.layers.softmax")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_weights_have_the_dtype_and_the_precision_of_x(expect, dtype):
    """1 : e, in half precision (tolerance: its last bits), and in float64 at 1e8, where float32 has no next integer."""
    far, rel = (1e8, 1e-7) if dtype == torch.float64 else (0.0, 1e-2)
    right = torch.tensor([1 / (1 + math.e), 1 / (1 + 1 / math.e)], dtype=dtype)
    expect(softmax, torch.tensor([far, far + 1], dtype=dtype)).equals(right, rel=rel, abs=0)


# ---- rms_norm


@pytest.mark.kata("level00.layers.rms_norm")
def test_rms_norm_divides_by_the_root_of_the_mean_square(expect):
    """[1, 2, 3, 4]: the mean square is 7.5, its root 2.7386, so 0.3651, 0.7303, 1.0954, 1.4606."""
    right = torch.tensor([1.0, 2, 3, 4]) / math.sqrt(7.5)
    expect(rms_norm, torch.tensor([1.0, 2, 3, 4]), torch.ones(4), 0.0).equals(right)


@pytest.mark.kata("level00.layers.rms_norm")
@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 3, 6), (2, 2, 3, 6)], ids=str)
def test_each_position_is_normalized_alone(expect, shape):
    """Oracle: torch's F.rms_norm, with a weight that differs per feature and rows of different size."""
    x = randn(*shape) * torch.logspace(-2, 2, math.prod(shape[:-1]) or 1).view(*shape[:-1], 1) + 0.5
    weight = torch.linspace(-0.5, 2, 6)
    expect(rms_norm, x, weight, 1e-5).equals(F.rms_norm(x, (6,), weight, 1e-5))


@pytest.mark.kata("level00.layers.rms_norm")
def test_eps_stands_under_the_root(expect):
    """[1e-3, -1e-3], eps 1e-5: 1e-3 / sqrt(1e-6 + 1e-5) = 0.3015; outside the root it would be 0.99."""
    right = 1e-3 / math.sqrt(1.1e-5)
    expect(rms_norm, torch.tensor([1e-3, -1e-3]), torch.ones(2), 1e-5).equals(torch.tensor([right, -right]))
    expect(rms_norm, torch.zeros(2, 3), torch.ones(3), 1e-5).equals(torch.zeros(2, 3))


@pytest.mark.kata("level00.layers.rms_norm")
@pytest.mark.parametrize("eps", [1e-6, 1e-3, 0.5])
def test_eps_is_the_one_that_is_given(expect, eps):
    """Models differ in it: 1e-5 in Llama, 1e-6 in Qwen. Oracle: F.rms_norm, on rows whose mean square is near eps."""
    x, weight = randn(3, 6, seed=6) * math.sqrt(eps), torch.linspace(-0.5, 2, 6)
    expect(rms_norm, x, weight, eps).equals(F.rms_norm(x, (6,), weight, eps))


@pytest.mark.kata("level00.layers.rms_norm")
@pytest.mark.parametrize(
    "x_dtype, weight_dtype", [("bfloat16", "float32"), ("float32", "bfloat16"), ("float64", "float32")]
)
def test_the_result_has_the_dtype_of_x_whatever_that_of_the_weight(expect, x_dtype, weight_dtype):
    """Norm weights often stay float32 in a bfloat16 model: not rounded, and they widen nothing. Oracle: float64."""
    x, weight = randn(64, seed=1).to(getattr(torch, x_dtype)), (1 + randn(64, seed=2)).to(getattr(torch, weight_dtype))
    right = x.double() / (x.double().square().mean() + 1e-5).sqrt() * weight.double()
    expect(rms_norm, x, weight, 1e-5).equals(right.to(x.dtype), rel=1e-5 if x_dtype != "bfloat16" else 1e-3)


@pytest.mark.kata("level00.layers.rms_norm")
def test_a_weight_of_another_length_is_refused(expect):
    """A weight of one entry would broadcast, and the model would run with it."""
    expect(rms_norm, torch.ones(2, 3), torch.ones(3), 0.0).equals(torch.ones(2, 3))
    expect(rms_norm, torch.ones(2, 3), torch.ones(1), 0.0).raises(ValueError)


@pytest.mark.kata("level00.layers.rms_norm")
def test_half_precision_squares_do_not_overflow(expect):
    """300² = 90,000 is more than float16 holds (65,504): the row would become 0. The result is float16 again."""
    x = torch.tensor([300.0, -300.0], dtype=torch.float16)
    expect(rms_norm, x, torch.ones(2, dtype=torch.float16), 1e-5).equals(torch.tensor([1.0, -1.0]).half())


@pytest.mark.kata("level00.layers.rms_norm")
def test_the_product_with_the_weight_is_rounded_once(expect):
    """bfloat16 in and out, float32 between. Oracle: float64, rounded at the end; rounding before the weight as well
    (as transformers' Llama does) moves the last bit of some features."""
    x, weight = (randn(64, seed=s).bfloat16() for s in (1, 2))
    wide, scale = x.double(), weight.double()
    right = (wide / (wide.square().mean() + 1e-5).sqrt() * scale).bfloat16()
    expect(rms_norm, x, weight, 1e-5).equals(right, rel=1e-3)


# ---- RoPE


def angles(positions, head_dim, theta):
    """Oracle for the angles, one number at a time in Python floats (half-split: plane i sits at i and i + half)."""
    half = head_dim // 2
    return [[p * theta ** (-2 * (i % half) / head_dim) for i in range(head_dim)] for p in positions]


@pytest.mark.kata("level00.layers.rope_tables")
@pytest.mark.parametrize("theta", [100.0, 10000.0])
def test_each_plane_turns_at_its_own_speed(expect, theta):
    """Oracle: math.cos and math.sin of position · theta^(-2i / head_dim); head_dim 6, so three planes."""
    table = torch.tensor(angles([0, 1, 2, 7], 6, theta), dtype=torch.float64)
    right = (table.cos().float(), table.sin().float())
    expect(rope_tables, torch.tensor([0, 1, 2, 7]), 6, theta).equals(right, abs=1e-5)


@pytest.mark.kata("level00.layers.rope_tables")
def test_position_0_is_not_turned(expect):
    """cos 1 and sin 0: a rule that every layout obeys, and the reason why tests at position 0 find nothing."""
    expect(rope_tables, torch.tensor([0]), 4, 10000.0).equals((torch.ones(1, 4), torch.zeros(1, 4)))


@pytest.mark.kata("level00.layers.rope_tables")
@pytest.mark.parametrize("shape", [(2, 2), (2, 1, 2), (1, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_tables_keep_the_shape_of_the_positions(expect, shape, dtype):
    """(batch, seq) positions give (batch, seq, head_dim): rows of a left-padded batch stand at different positions."""
    table = torch.tensor(angles([0, 3, 5, 6], 4, 50.0), dtype=torch.float64).view(*shape, 4)
    right = (table.cos().float(), table.sin().float())
    expect(rope_tables, torch.tensor([0, 3, 5, 6], dtype=dtype).view(shape), 4, 50.0).equals(right, abs=1e-5)


@pytest.mark.kata("level00.layers.rope_tables")
@pytest.mark.parametrize("position", [257, 1857, 8191, 100_000])
def test_far_positions_stay_exact(expect, position):
    """bfloat16 rounds 257 to 256, and float16 angles are off by 0.5 at 1857. Tolerance: four roundings of float32."""
    table = torch.tensor(angles([position], 64, 10000.0), dtype=torch.float64)
    right = (table.cos().float(), table.sin().float())
    expect(rope_tables, torch.tensor([position]), 64, 10000.0).equals(right, abs=position * 2.5e-7)


@pytest.mark.kata("level00.layers.rope_tables")
def test_features_turn_in_pairs(expect):
    """An odd head_dim has one feature without a partner."""
    right = (torch.tensor([[math.cos(1)] * 2]), torch.tensor([[math.sin(1)] * 2]))
    expect(rope_tables, torch.tensor([1]), 2, 10000.0).equals(right)
    expect(rope_tables, torch.tensor([1]), 3, 10000.0).raises(ValueError)


def turned(x, positions, theta):
    """Oracle: one complex number per pair (i, i + half), multiplied by e^(i · angle) in double precision."""
    half = x.shape[-1] // 2
    table = torch.tensor(angles(positions, x.shape[-1], theta), dtype=torch.float64)[:, :half]
    pairs = torch.complex(x[..., :half].double(), x[..., half:].double())
    out = pairs * torch.polar(torch.ones_like(table), table)
    return torch.cat([out.real, out.imag], -1)


def tables(positions, head_dim, theta=10000.0):
    table = torch.tensor(angles(positions, head_dim, theta), dtype=torch.float64)
    return table.cos().float(), table.sin().float()


@pytest.mark.kata("level00.layers.apply_rope")
def test_a_unit_vector_turns_into_cos_and_sin(expect):
    """[1, 0, 0, 0] at position 2: the pair (feature 0, feature 2) turns by 2 radians; feature 1 has nothing to turn."""
    right = torch.tensor([[math.cos(2), 0.0, math.sin(2), 0.0]])
    expect(apply_rope, torch.tensor([[1.0, 0, 0, 0]]), *tables([2], 4, 100.0)).equals(right)


@pytest.mark.kata("level00.layers.apply_rope")
@pytest.mark.parametrize("head_dim", [2, 4, 8, 64])
def test_rotation_equals_complex_multiplication(expect, head_dim):
    """Oracle: complex multiplication. The weights of Llama, and of SmolLM2 here, are stored for this pairing."""
    x = randn(2, 4, 3, head_dim).transpose(1, 2)  # (batch, heads, seq, head_dim), as `split_heads` leaves it
    right = turned(x, [0, 1, 5, 40], 10000.0).float()
    expect(apply_rope, x, *tables([0, 1, 5, 40], head_dim)).equals(right, abs=1e-5)


@pytest.mark.kata("level00.layers.apply_rope")
def test_rows_of_a_batch_may_stand_at_different_positions(expect):
    """Tables (batch, 1, seq, head_dim) broadcast over the heads."""
    x = randn(2, 3, 2, 4, seed=3)
    first, second = tables([0, 1], 4), tables([7, 8], 4)
    cos, sin = (torch.stack([a, b]).unsqueeze(1) for a, b in zip(first, second))
    right = torch.stack([turned(x[0], [0, 1], 10000.0), turned(x[1], [7, 8], 10000.0)]).float()
    expect(apply_rope, x, cos, sin).equals(right, abs=1e-5)


@pytest.mark.kata("level00.layers.apply_rope")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_rotation_returns_the_dtype_of_x(expect, dtype):
    """A cache in bfloat16 must not double in size because the tables are float32. Oracle: float64, rounded.

    Tolerance: two products and their sum may each be rounded in the dtype of x.
    """
    x = randn(3, 8, seed=4).to(dtype)
    expect(apply_rope, x, *tables([1, 2, 30], 8)).equals(turned(x, [1, 2, 30], 10000.0).to(dtype), rel=1e-2, abs=2e-2)


# ---- causal_mask


@pytest.mark.kata("level00.layers.causal_mask")
@pytest.mark.parametrize("q_len, kv_len", [(3, 3), (2, 4), (1, 3), (1, 1), (4, 7), (2, 300)])
def test_a_query_sees_itself_and_what_came_before(expect, q_len, kv_len):
    """Brute force: query i stands at position kv_len - q_len + i and may see the keys up to there."""
    right = [[key <= kv_len - q_len + query for key in range(kv_len)] for query in range(q_len)]
    expect(causal_mask, q_len, kv_len).equals(torch.tensor(right))


@pytest.mark.kata("level00.layers.causal_mask")
def test_there_are_never_more_queries_than_keys(expect):
    """Each query's own key is among them, so a shape such as (3, 2) is somebody's mistake."""
    expect(causal_mask, 2, 2).equals(torch.tensor([[True, False], [True, True]]))
    expect(causal_mask, 3, 2).raises(ValueError)


# ---- attention


def heads(q_len, kv_len, n_heads=6, n_kv_heads=2, head_dim=8, batch=2):
    """Random q, k, v in which batch, heads, groups, lengths and head_dim all differ; laid out as by `split_heads`."""
    q = randn(batch, q_len, n_heads, head_dim, seed=1).transpose(1, 2) * 2
    return q, *(randn(batch, kv_len, n_kv_heads, head_dim, seed=s).transpose(1, 2) for s in (2, 3))


def sdpa(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@pytest.mark.kata("level00.layers.attention")
def test_attention_is_a_soft_look_up(expect):
    """q = [1, 0] against keys [1, 0] and [0, 1]: scores 1/sqrt(2) and 0, weights 0.6698 and 0.3302."""
    weight = math.exp(2**-0.5) / (math.exp(2**-0.5) + 1)
    q, k = torch.tensor([[[[1.0, 0.0]]]]), torch.eye(2).view(1, 1, 2, 2)
    expect(attention, q, k, k, torch.ones(1, 2, dtype=torch.bool)).equals(torch.tensor([[[[weight, 1 - weight]]]]))


@pytest.mark.kata("level00.layers.attention")
def test_a_masked_key_counts_for_nothing(expect):
    """Only the first key is visible, so its value comes back whole: weights over what may be seen sum to 1."""
    q, k = torch.tensor([[[[1.0, 0.0]]]]), torch.eye(2).view(1, 1, 2, 2)
    expect(attention, q, k, k, torch.tensor([[True, False]])).equals(torch.tensor([[[[1.0, 0.0]]]]))
    expect(attention, q, k, k, torch.tensor([[False, False]])).equals(torch.zeros(1, 1, 1, 2))


@pytest.mark.kata("level00.layers.attention")
def test_neighbouring_query_heads_share_a_kv_head(expect):
    """4 query heads, 2 KV heads whose values are 10 and 20: heads 0 and 1 read the first, 2 and 3 the second."""
    q, k = torch.ones(1, 4, 1, 2), torch.ones(1, 2, 1, 2)
    v = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1).expand(1, 2, 1, 2)
    right = torch.tensor([10.0, 10.0, 20.0, 20.0]).view(1, 4, 1, 1).expand(1, 4, 1, 2)
    expect(attention, q, k, v.clone(), torch.ones(1, 1, dtype=torch.bool)).equals(right.clone())
    expect(attention, q[:, :3], k, v.clone(), torch.ones(1, 1, dtype=torch.bool)).raises(ValueError)


@pytest.mark.kata("level00.layers.attention")
@pytest.mark.parametrize(
    "n_heads, n_kv_heads", [(4, 4), (4, 1), (8, 2)], ids=["one each", "one for all", "groups of 4"]
)
def test_heads_may_be_grouped_in_any_way(expect, n_heads, n_kv_heads):
    """MHA, MQA and GQA are one formula. Oracle: SDPA, with one row in the batch and a head_dim of 16."""
    q, k, v = heads(3, 5, n_heads, n_kv_heads, head_dim=16, batch=1)
    mask = torch.ones(3, 5, dtype=torch.bool).tril(2)
    expect(attention, q, k, v, mask).equals(sdpa(q, k, v, mask), rel=1e-4, abs=1e-5)


@pytest.mark.kata("level00.layers.attention")
@pytest.mark.parametrize(
    "q_len, kv_len", [(5, 5), (3, 7), (1, 4), (2, 100)], ids=["prompt", "chunk", "one token", "long"]
)
def test_causal_attention_is_aligned_to_the_last_key(expect, q_len, kv_len):
    """Oracle: torch's SDPA with an explicit mask (its own is_causal aligns to the first key when lengths differ)."""
    q, k, v = heads(q_len, kv_len)
    mask = torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)
    expect(attention, q, k, v, "causal").equals(sdpa(q, k, v, mask), rel=1e-4, abs=1e-5)


@pytest.mark.kata("level00.layers.attention")
@pytest.mark.parametrize(
    "shape", [(3, 5), (2, 1, 3, 5), (2, 6, 3, 5), (2, 1, 1, 5), (1, 6, 1, 5), (6, 3, 5), (5,)], ids=str
)
def test_any_mask_that_broadcasts_is_obeyed(expect, shape):
    """One mask for all, per row of the batch (padding), per head, per key. Oracle: SDPA; key 0 is always visible."""
    q, k, v = heads(3, 5)
    mask = randn(*shape, seed=5) > 0
    mask[..., 0] = True
    expect(attention, q, k, v, mask).equals(sdpa(q, k, v, mask.expand(2, 6, 3, 5)), rel=1e-4, abs=1e-5)


@pytest.mark.kata("level00.layers.attention")
def test_a_query_without_keys_leaves_its_neighbours_alone(expect):
    """One padding row among ordinary ones gives zeros, and nothing else changes. Oracle: SDPA with that row opened."""
    q, k, v = heads(3, 5)
    mask = torch.ones(2, 1, 3, 5, dtype=torch.bool).tril(2)
    right = sdpa(q, k, v, mask)
    mask[1, 0, 1], right[1, :, 1] = False, 0
    expect(attention, q, k, v, mask).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level00.layers.attention")
def test_scores_of_a_thousand_are_ordinary(expect):
    """Real models reach them, also below zero: a masked key counts less than any. Oracle: SDPA in float64."""
    q, k, v = heads(2, 3)
    q, k, mask = q * 300, k * 100, torch.tensor([[True, False, False], [False, True, True]])
    expect(attention, q, k, v, mask).equals(sdpa(q.double(), k.double(), v.double(), mask).float(), rel=1e-3, abs=1e-3)


@pytest.mark.kata("level00.layers.attention")
@pytest.mark.parametrize(
    "dtype, scale, close",
    [("bfloat16", 16, 2e-2), ("float16", 5_000, 2e-3), ("float64", 1, 1e-4)],
    ids=["bf16", "f16", "f64"],
)
def test_attention_takes_and_returns_half_precision(expect, dtype, scale, close):
    """Scores and softmax in float32: 8 bits are too few for them, and 65,504 is too small. Oracle: SDPA in float64.

    Tolerance: the last bit of a result near 3, and of the weights, which may be rounded before they meet v.
    """
    q, k, v = (x.to(getattr(torch, dtype)) for x in heads(3, 4))
    q, mask = q * scale, torch.ones(3, 4, dtype=torch.bool)
    right = sdpa(q.double(), k.double(), v.double(), mask).to(q.dtype)
    expect(attention, q, k, v, mask).equals(right, rel=0, abs=close)
