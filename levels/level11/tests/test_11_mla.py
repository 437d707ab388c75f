"""Judges mla.py by torch's attention over keys and values that are made here, in float64, and by DeepSeek-V3's logits.

No two axes have the same size. What absorption saves is counted: the largest tensor, FLOPs and bytes of a step.
"""

import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dojo.cost import count
from level11.deepseek import LatentCache, LatentConfig, deepseek
from level11.families import random_weights
from level11.mla import attend_absorbed, attend_naive, compress, latent_bytes_per_token

count(torch.zeros, 1)  # at its first count torch imports its compiler: not on the clock of a test

# ---- compress, and what it leaves in the cache


def tables(positions, d_rope, theta=10000.0, dtype=torch.float32):
    """cos and sin (S, d_rope): feature i and feature i + d_rope / 2 turn by the same angle."""
    speeds = [theta ** (-2 * (i % (d_rope // 2)) / d_rope) for i in range(d_rope)]
    angles = torch.tensor([[p * speed for speed in speeds] for p in positions])
    return angles.cos().to(dtype), angles.sin().to(dtype)


def compressed(x, w_down, norm_weight, eps, positions, theta=10000.0):
    """Oracle, in float64: the rows of w_down one by one, and each pair of the key's features as a complex number."""
    x, w_down, norm_weight = x.double(), w_down.double(), norm_weight.double()
    d_latent, d_rope = len(norm_weight), len(w_down) - len(norm_weight)
    latent = torch.stack([x @ row for row in w_down[:d_latent]], -1)
    latent = latent / torch.sqrt(latent.square().mean(-1, keepdim=True) + eps) * norm_weight
    key = torch.stack([x @ row for row in w_down[d_latent:]], -1)
    pairs = torch.complex(key[..., : d_rope // 2], key[..., d_rope // 2 :])
    speed = torch.tensor([theta ** (-2 * i / d_rope) for i in range(d_rope // 2)], dtype=torch.float64)
    angle = torch.tensor(positions, dtype=torch.float64).unsqueeze(-1) * speed
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    return latent, torch.cat([turned.real, turned.imag], -1)


def drawn_down(B, S, d_model, d_latent, d_rope, seed=0):
    """x, w_down and a norm_weight around 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(B, S, d_model, generator=generator)
    w_down = torch.randn(d_latent + d_rope, d_model, generator=generator) * 0.4
    return x, w_down, 1 + 0.3 * torch.randn(d_latent, generator=generator)


def as_float(pair, dtype=torch.float32):
    return tuple(x.to(dtype) for x in pair)


@pytest.mark.kata("level11.mla.compress")
def test_two_parts_one_normalized_and_one_rotated(expect):
    """The docstring's example: (3, 4) has a root mean square of 3.5355, and (1, 0) turns by one radian."""
    x, one = torch.tensor([[[3.0, 4.0, 1.0, 0.0]]]), torch.ones(2)
    right = torch.tensor([[[0.848528, 1.131371]]]), torch.tensor([[[0.540302, 0.841471]]])
    expect(compress, x, torch.eye(4), one, 0.0, *tables([1], 2)).equals(right, abs=1e-5)


@pytest.mark.kata("level11.mla.compress")
@pytest.mark.parametrize("B, S, d_model, d_latent, d_rope", [(2, 5, 7, 6, 4), (1, 3, 9, 2, 8), (3, 1, 5, 10, 2)])
@pytest.mark.parametrize("start", [0, 4])
def test_what_is_cached_of_a_token(expect, B, S, d_model, d_latent, d_rope, start):
    """Any widths, at the start of a text and behind a cache. Oracle: float64, pairs turned as complex numbers."""
    x, w_down, norm = drawn_down(B, S, d_model, d_latent, d_rope)
    positions = range(start, start + S)
    right = as_float(compressed(x, w_down, norm, 1e-6, list(positions)))
    # two float32 products of up to 9 terms
    expect(compress, x, w_down, norm, 1e-6, *tables(positions, d_rope)).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level11.mla.compress")
def test_only_the_key_carries_a_position(expect):
    """The same token at 0 and at 9: one latent, two keys. With a rotated latent nothing can be absorbed later."""
    x, w_down, norm = drawn_down(1, 1, 5, 4, 6, seed=3)
    for position in (0, 9):
        right = as_float(compressed(x, w_down, norm, 1e-6, [position]))
        expect(compress, x, w_down, norm, 1e-6, *tables([position], 6)).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level11.mla.compress")
@pytest.mark.parametrize("eps", [0.0, 0.5, 30.0])
def test_the_norm_has_its_own_eps(expect, eps):
    """Inside of the root, and as it was handed over: DeepSeek's is not the eps of every model."""
    x, w_down, norm = drawn_down(2, 3, 6, 5, 4, seed=1)
    right = as_float(compressed(x, w_down, norm, eps, [2, 3, 4]))
    expect(compress, x, w_down, norm, eps, *tables([2, 3, 4], 4)).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level11.mla.compress")
def test_the_latent_is_normalized_without_the_key(expect):
    """A key a thousand times as long as the latent changes nothing about the latent, and is not shortened."""
    x, w_down, norm = drawn_down(2, 3, 6, 5, 4, seed=2)
    w_down[5:] *= 1000
    right = as_float(compressed(x, w_down, norm, 1e-6, [0, 1, 2]))
    expect(compress, x, w_down, norm, 1e-6, *tables([0, 1, 2], 4)).equals(right, rel=1e-4, abs=1e-3)


@pytest.mark.kata("level11.mla.compress")
def test_the_tokens_positions_are_those_of_the_tables(expect):
    """With other bases and far into a text: nothing here knows where the tokens stand but cos and sin."""
    x, w_down, norm = drawn_down(1, 3, 6, 5, 4, seed=4)
    right = as_float(compressed(x, w_down, norm, 1e-6, [7, 2, 50], theta=50.0))
    expect(compress, x, w_down, norm, 1e-6, *tables([7, 2, 50], 4, theta=50.0)).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level11.mla.compress")
def test_a_cache_in_half_precision_gets_half_precision(expect):
    """Latent and key have the type of x. Tolerance: two roundings to 8 bits."""
    x, w_down, norm = (x.bfloat16() for x in drawn_down(2, 3, 6, 5, 4, seed=5))
    right = as_float(compressed(x, w_down, norm, 1e-6, [0, 1, 2]), torch.bfloat16)
    expect(compress, x, w_down, norm, 1e-6, *tables([0, 1, 2], 4)).equals(right, rel=0.02, abs=0.05)


@pytest.mark.kata("level11.mla.compress")
@pytest.mark.parametrize(
    "n_layers, d_latent, d_rope, size, right",
    [(61, 512, 64, 2, 70_272), (27, 512, 64, 2, 31_104), (61, 512, 64, 1, 35_136), (3, 5, 2, 0.5, 10.5)],
    ids=["V3", "V2-Lite", "V3 in 8 bits", "4 bits"],
)
def test_the_bytes_of_a_token(expect, n_layers, d_latent, d_rope, size, right):
    """One latent for keys and values and all heads, and the key beside it. V3 by hand: 61 · (512 + 64) · 2 = 70,272."""
    expect(latent_bytes_per_token, n_layers, d_latent, d_rope, size).equals(float(right))


# ---- attention


def drawn(B, H, Q, S, d_nope, d_rope, d_latent, d_v, seed=0, dtype=torch.float64, factor=1.5):
    """The six arguments; scores that differ by a few units."""
    generator = torch.Generator().manual_seed(seed)

    def some(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return (
        some(B, H, Q, d_nope) * factor,
        some(B, H, Q, d_rope) * factor,
        some(B, S, d_latent),
        some(B, S, d_rope),
        some(H, d_nope, d_latent) * d_latent**-0.5,
        some(H, d_v, d_latent) * d_latent**-0.5,
    )


def attended(q_nope, q_rope, latent, k_rope, w_uk, w_uv):
    """Oracle: torch's attention in float64. Each head's keys, with the shared one beside them, and its values."""
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = (x.double() for x in (q_nope, q_rope, latent, k_rope, w_uk, w_uv))
    Q, S = q_nope.shape[2], latent.shape[1]
    heads = [torch.cat([latent @ up.T, k_rope], -1) for up in w_uk]
    values = [latent @ up.T for up in w_uv]
    mask = torch.tensor([[key <= S - Q + query for key in range(S)] for query in range(Q)])
    q = torch.cat([q_nope, q_rope], -1)
    return scaled_dot_product_attention(q, torch.stack(heads, 1), torch.stack(values, 1), attn_mask=mask)


# B, H, Q, S, d_nope, d_rope, d_latent, d_v
SHAPES = [(2, 3, 4, 7, 6, 2, 5, 8), (1, 2, 1, 5, 3, 4, 6, 7), (3, 4, 5, 5, 4, 6, 3, 2), (2, 1, 1, 1, 5, 2, 4, 3)]
EXAMPLE = (
    torch.zeros(1, 1, 2, 4),
    torch.zeros(1, 1, 2, 2),
    torch.tensor([[[1.0], [3.0]]]),
    torch.ones(1, 2, 2),
    torch.ones(1, 4, 1),
    torch.ones(1, 1, 1),
)
LN3 = 1.0986123
# a score of ln 3 beside 0 gives 3/4 and 1/4; the width under the root is 3 + 1, so what is multiplied gives 2 ln 3
BY_HAND = {
    "unrotated": ([[2 * LN3, 0, 0]], [[0]], [[1], [0]], [[0], [0]], 0.75),
    "rotated": ([[0, 0, 0]], [[2 * LN3]], [[1], [0]], [[0], [1]], 0.25),
    "both": ([[2 * LN3, 5, 5]], [[2 * LN3]], [[1], [0]], [[0], [1]], 0.5),
}


def by_hand(which):
    """Arguments in which a latent is its first key feature and its value, and the right value."""
    q_nope, q_rope, latent, k_rope, right = BY_HAND[which]
    queries = [torch.tensor(x, dtype=torch.float32).view(1, 1, 1, -1) for x in (q_nope, q_rope)]
    kept = [torch.tensor(x, dtype=torch.float32).view(1, 2, 1) for x in (latent, k_rope)]
    up = torch.tensor([[[1.0], [0.0], [0.0]]]), torch.ones(1, 1, 1)
    return (*queries, *kept, *up), torch.full((1, 1, 1, 1), right)


def as_in_a_server(args):
    """The same numbers as views: heads side by side, latent and key in one buffer that has room left, up-projections
    of keys and values in one matrix."""
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = args
    rows = torch.cat([q_nope, q_rope], -1).transpose(1, 2).contiguous().transpose(1, 2)
    kept = torch.full((latent.shape[0], latent.shape[1] + 3, latent.shape[2] + k_rope.shape[2]), torch.nan)
    kept = kept.to(latent.dtype)
    kept[:, : latent.shape[1]] = torch.cat([latent, k_rope], -1)
    up = torch.cat([w_uk, w_uv], 1)
    d_nope, d_latent = q_nope.shape[-1], latent.shape[-1]
    views = kept[:, : latent.shape[1]]
    return (
        rows[..., :d_nope],
        rows[..., d_nope:],
        views[..., :d_latent],
        views[..., d_latent:],
        up[:, :d_nope],
        up[:, d_nope:],
    )


FAMILY = json.loads(Path(__file__).with_name("transformers_families.json").read_text(encoding="utf-8"))
IDS, V3 = torch.tensor(FAMILY["ids"]), FAMILY["families"]["DeepseekV3"]
ABOUT, LOGITS = V3["config"], torch.tensor(V3["logits"])
PARAMS = random_weights(V3["shapes"], FAMILY["seed"])
MODEL = LatentConfig(
    n_layers=ABOUT["num_hidden_layers"],
    n_dense=ABOUT["first_k_dense_replace"],
    n_heads=ABOUT["num_attention_heads"],
    d_latent=ABOUT["kv_lora_rank"],
    d_rope=ABOUT["qk_rope_head_dim"],
    d_nope=ABOUT["qk_nope_head_dim"],
    d_v=ABOUT["v_head_dim"],
    k=ABOUT["num_experts_per_tok"],
    scale=ABOUT["routed_scaling_factor"],
    rope_theta=ABOUT["rope_parameters"]["rope_theta"],
)


def logits_of_deepseek(attend, chunks):
    """The tiny DeepSeek-V3's logits, in one pass without a cache or in chunks behind one."""
    if not chunks:
        return deepseek(PARAMS, MODEL, IDS, attend=attend)
    cache = LatentCache(MODEL, len(IDS), IDS.shape[1])
    parts = [deepseek(PARAMS, MODEL, part, cache, attend=attend) for part in IDS.split(list(chunks), 1)]
    return torch.cat(parts, 1)


CHUNKS = pytest.mark.parametrize("chunks", [(), (3, 1, 1, 1, 1, 4)], ids=["one pass", "cached"])

# ---- attend_naive


@pytest.mark.kata("level11.mla.attend_naive")
def test_queries_of_zero_take_the_mean_of_what_they_see(expect):
    """The docstring's example. The first query must not see the second token."""
    expect(attend_naive, *EXAMPLE).equals(torch.tensor([[[[1.0], [2.0]]]]))


@pytest.mark.kata("level11.mla.attend_naive")
@pytest.mark.parametrize("which", BY_HAND)
def test_a_score_is_the_sum_of_two_products_over_one_root(expect, which):
    """Widths of 3 and 1: both halves of the score are divided by sqrt(4)."""
    args, right = by_hand(which)
    expect(attend_naive, *args).equals(right)


@pytest.mark.kata("level11.mla.attend_naive")
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_it_is_attention_over_each_head_s_own_keys_and_values(expect, sizes):
    """A whole prompt, a chunk behind a cache, a single token. Oracle: torch's attention over [key; shared key]."""
    args = drawn(*sizes)
    expect(attend_naive, *args).equals(attended(*args), rel=1e-9, abs=1e-11)


@pytest.mark.kata("level11.mla.attend_naive")
def test_large_scores_stay_finite(expect):
    """Scores of 100,000 and of -100,000: exp ends at 709, and what must not be seen is below them all. Oracle: torch's
    attention."""
    args = drawn(3, 4, 5, 5, 4, 6, 3, 2, factor=50_000.0)
    expect(attend_naive, *args).equals(attended(*args), rel=1e-7, abs=1e-9)


@pytest.mark.kata("level11.mla.attend_naive")
@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-4), (torch.bfloat16, 0.08)], ids=["float32", "bfloat16"])
def test_the_result_has_the_type_of_the_arguments(expect, dtype, close):
    """A layer's output goes into a matrix of the same type. Tolerance: bfloat16 keeps 8 bits of a score."""
    args = drawn(2, 3, 4, 7, 6, 2, 5, 8, dtype=dtype)
    expect(attend_naive, *args).equals(attended(*args).to(dtype), rel=close, abs=close)


@pytest.mark.kata("level11.mla.attend_naive")
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_the_arguments_may_be_views(expect, sizes):
    """Latent and key come out of one buffer, both up-projections out of one matrix, queries with heads side by side."""
    args = drawn(*sizes, seed=1)
    expect(attend_naive, *as_in_a_server(args)).equals(attended(*args), rel=1e-9, abs=1e-11)


@pytest.mark.kata("level11.mla.attend_naive")
def test_more_queries_than_tokens_are_refused(expect):
    """Each of the queries belongs to one of the last tokens."""
    args = drawn(2, 3, 5, 5, 4, 2, 6, 7)
    expect(attend_naive, *args).equals(attended(*args), rel=1e-9, abs=1e-11)
    expect(attend_naive, args[0], args[1], args[2][:, :4], args[3][:, :4], *args[4:]).raises(ValueError)


@pytest.mark.kata("level11.mla.attend_naive")
@CHUNKS
def test_deepseek_v3_through_attend_naive_gives_the_logits_of_transformers(expect, chunks):
    """Three layers, on your compress, route_sigmoid and moe_forward: clear those first. Oracle: transformers' values,
    stored. The first line is the docstring's example."""
    expect(attend_naive, *EXAMPLE).equals(torch.tensor([[[[1.0], [2.0]]]]))
    # float32 through three layers
    expect(logits_of_deepseek, attend_naive, chunks).equals(LOGITS, rel=1e-4, abs=1e-4)


# ---- attend_absorbed: the same numbers


@pytest.mark.kata("level11.mla.attend_absorbed")
def test_absorbed_queries_of_zero_take_the_mean_of_what_they_see(expect):
    """The example of attend_naive."""
    expect(attend_absorbed, *EXAMPLE).equals(torch.tensor([[[[1.0], [2.0]]]]))


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("which", BY_HAND)
def test_absorption_does_not_change_the_root(expect, which):
    """The absorbed query has the width of the latent; the score is still divided by sqrt(d_nope + d_rope) = 2."""
    args, right = by_hand(which)
    expect(attend_absorbed, *args).equals(right)


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_absorbed_is_naive(expect, sizes):
    """A server prefills with one and decodes with the other. Oracle: torch's attention, in float64."""
    args = drawn(*sizes)
    expect(attend_absorbed, *args).equals(attended(*args), rel=1e-9, abs=1e-11)


# a decode step, one of two rows, and a draft of three tokens: 24 heads, 160 tokens of which 40 numbers are cached
STEPS = [(1, 24, 1, 160, 12, 8, 32, 10), (2, 24, 1, 160, 12, 8, 32, 10), (2, 24, 3, 160, 12, 8, 32, 10)]


def largest_tensor(attend, sizes):
    """Is it as large as S · H · d_v, the smallest of the three that must not exist?"""
    B, H, Q, S, d_nope, d_rope, d_latent, d_v = sizes
    largest = count(attend, *drawn(*sizes, dtype=torch.float32)).largest.elements
    return "less than S · H · d_v" if largest < S * H * d_v else "S · H · d_v or more"


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("sizes", STEPS, ids=str)
def test_no_tensor_has_tokens_times_heads_times_features(expect, sizes):
    """At 128 heads and 32,768 tokens it would be a gigabyte a layer. A right program's largest is the scores, or a copy
    of the cache or of w_uk: up to 23,040 elements. S · H · d_v is 38,400; latents for each head are 122,880 a row."""
    expect(largest_tensor, attend_absorbed, sizes).equals("less than S · H · d_v")


def what_is_computed(attend, sizes):
    """Which of four ways costs nearly so many FLOPs? A right program has those of absorption, to a tenth."""
    B, H, Q, S, d_nope, d_rope, d_latent, d_v = sizes
    flops = count(attend, *drawn(*sizes, dtype=torch.float32)).flops / (2 * B * H)
    absorbed, mixed = Q * d_nope * d_latent + Q * S * d_latent, Q * S * d_latent + Q * d_latent * d_v
    keys, values = S * d_nope * d_latent + Q * S * d_nope, S * d_v * d_latent + Q * S * d_v
    ways = {"no key, no value": absorbed + mixed, "keys": keys + mixed, "values": absorbed + values}
    ways["keys and values"] = keys + values
    return min(ways, key=lambda way: abs(math.log(flops / (ways[way] + Q * S * d_rope))))


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("sizes", STEPS, ids=str)
def test_no_head_s_keys_or_values_are_computed(expect, sizes):
    """Not for one head or one row after the other either: it is the arithmetic of a prefill, in every step. With values
    alone it is 2 times the FLOPs of absorption for a draft, and 5 times for a single token."""
    expect(what_is_computed, attend_absorbed, sizes).equals("no key, no value")


def times_the_cache_is_read(attend, sizes):
    """Bytes that are read, in caches, one reading of the up-projections left out: more than 23?"""
    B, H, Q, S, d_nope, d_rope, d_latent, d_v = sizes
    read = count(attend, *drawn(*sizes, dtype=torch.float32)).bytes_read
    caches = (read - 4 * H * d_latent * (d_nope + d_v)) / (4 * B * S * (d_latent + d_rope))
    return "for each head" if caches > 23 else "for all heads together"


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("sizes", STEPS[:2], ids=str)
def test_all_heads_read_the_cache_together(expect, sizes):
    """One reading is what a step costs on a GPU; head by head it is 24 of them. Counted, with the scores and all: up to
    11 caches in a right program, 50 in a loop over the heads. The limit is 23."""
    expect(times_the_cache_is_read, attend_absorbed, sizes).equals("for all heads together")


@pytest.mark.kata("level11.mla.attend_absorbed")
def test_absorbed_large_scores_stay_finite(expect):
    """Scores of 100,000 and of -100,000: exp ends at 709, and what must not be seen is below them all. Oracle: torch's
    attention."""
    args = drawn(3, 4, 5, 5, 4, 6, 3, 2, factor=50_000.0)
    expect(attend_absorbed, *args).equals(attended(*args), rel=1e-7, abs=1e-9)


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("dtype, close", [(torch.float32, 1e-4), (torch.bfloat16, 0.08)], ids=["float32", "bfloat16"])
def test_the_absorbed_result_has_the_type_of_the_arguments(expect, dtype, close):
    """A layer's output goes into a matrix of the same type. Tolerance: bfloat16 keeps 8 bits of a score."""
    args = drawn(2, 3, 4, 7, 6, 2, 5, 8, dtype=dtype)
    expect(attend_absorbed, *args).equals(attended(*args).to(dtype), rel=close, abs=close)


@pytest.mark.kata("level11.mla.attend_absorbed")
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_the_absorbed_arguments_may_be_views(expect, sizes):
    """Latent and key come out of one buffer, both up-projections out of one matrix, queries with heads side by side."""
    args = drawn(*sizes, seed=1)
    expect(attend_absorbed, *as_in_a_server(args)).equals(attended(*args), rel=1e-9, abs=1e-11)


@pytest.mark.kata("level11.mla.attend_absorbed")
def test_absorption_refuses_more_queries_than_tokens(expect):
    """Each of the queries belongs to one of the last tokens."""
    args = drawn(2, 3, 5, 5, 4, 2, 6, 7)
    expect(attend_absorbed, *args).equals(attended(*args), rel=1e-9, abs=1e-11)
    expect(attend_absorbed, args[0], args[1], args[2][:, :4], args[3][:, :4], *args[4:]).raises(ValueError)


@pytest.mark.kata("level11.mla.attend_absorbed")
@CHUNKS
def test_deepseek_v3_through_attend_absorbed_gives_the_logits_of_transformers(expect, chunks):
    """Three layers, on your compress, route_sigmoid and moe_forward: clear those first. Oracle: transformers' values,
    stored. The first line is the example."""
    expect(attend_absorbed, *EXAMPLE).equals(torch.tensor([[[[1.0], [2.0]]]]))
    # float32 through three layers
    expect(logits_of_deepseek, attend_absorbed, chunks).equals(LOGITS, rel=1e-4, abs=1e-4)
