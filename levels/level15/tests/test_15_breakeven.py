"""Judges breakeven.py by listing every weight, by adding seconds by hand, and by FLOPs counted from shapes of weights.

All sizes of a model differ, and source and target differ in all of them: what is taken from the wrong one shows.
"""

from math import prod

import pytest

from dojo.models import SMOLLM2, Config, shapes
from level15.breakeven import breakeven_bandwidth, mapper_coefficients, optimal_recompute_fraction, transfer_seconds

LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
QWEN_14B = Config(40, 5120, 40, 8, 128, 17408, 151936, tie_embeddings=False)
QWEN_32B = Config(64, 5120, 64, 8, 128, 25600, 151936, tie_embeddings=False)
SMALL = Config(3, 20, 10, 5, 4, 28, 37)
LARGE = Config(7, 48, 6, 2, 8, 44, 31, tie_embeddings=False)

# ---- mapper_coefficients, judged with breakeven_bandwidth


def listed(target, source, num_source_layers, head_local):
    """Oracle: every weight and bias by itself, of keys and values, for each feature of each head of each layer."""
    heads = range(1) if head_local else range(source.n_kv_heads)
    reads = [(layer, head, i) for layer in range(num_source_layers) for head in heads for i in range(source.head_dim)]
    outputs = [(kind, layer, head, j) for kind in "kv" for layer in range(target.n_layers)
               for head in range(target.n_kv_heads) for j in range(target.head_dim)]  # fmt: skip
    return sum(len(reads) + 1 for _ in outputs)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_the_maps_that_were_reported(expect):
    """Qwen3 14B -> 32B from 8 layers: the paper's planner says 1,073,872,896, a file of 4.296 GB in float32. With one
    head of each layer an eighth of the weights, and all of the biases, are left."""
    expect(mapper_coefficients, QWEN_32B, QWEN_14B, 8).equals(1_073_872_896)
    expect(mapper_coefficients, QWEN_32B, QWEN_14B, 8, True).equals(134_348_800)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
@pytest.mark.parametrize("head_local", [False, True], ids=["all heads", "head-local"])
def test_every_weight_and_bias_of_a_map_is_counted(expect, head_local):
    """Oracle: all of them listed. The map lies in the receiver's memory for each sender that it hears, so a model with
    fewer heads or layers must not be counted with the sizes of the other."""
    for target, source in ((SMALL, LARGE), (LARGE, SMALL)):
        for layers in range(1, source.n_layers + 1):
            right = listed(target, source, layers, head_local)
            expect(mapper_coefficients, target, source, layers, head_local=head_local).equals(right)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_a_map_reads_layers_that_are_there(expect):
    """By hand: 2 · 2 weights and 2 biases for keys, as many for values. A source of one layer has no second one."""
    one = Config(1, 8, 1, 1, 2, 8, 9)
    expect(mapper_coefficients, one, one, 1).equals(12)
    expect(mapper_coefficients, one, one, 0).raises(ValueError)
    expect(mapper_coefficients, SMALL, one, 2).raises(ValueError)


# ---- transfer_seconds, judged with breakeven_bandwidth

STEPS = {"map_flops_per_token": 1, "map_bytes": 500, "flops_per_second": 1, "memory_bandwidth": 10}
REPAIR = {"prefill_seconds": 8, "recomputed": 0.25}


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_moving_mapping_and_repairing_follow_each_other(expect):
    """By hand: 1 s to move, max(10, 50) to map, 2 to repair. The map needs the keys that are moved, and the repair what
    is mapped; within the map a weight is read while the one before it is multiplied."""
    expect(transfer_seconds, 10, 100, 1000, **STEPS, **REPAIR).equals(53.0)
    expect(transfer_seconds, 10, 100, 1000, **STEPS | {"map_bytes": 70}, **REPAIR).equals(13.0)
    expect(transfer_seconds, 10, 100, 2, **STEPS, **REPAIR).equals(552.0)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_each_step_alone(expect):
    """By hand. A cache of the receiver's own model needs no map, and one that is already there is not moved: the map's
    weights are read once, for one token or for a thousand."""
    expect(transfer_seconds, 1000, 1000, 1e9).equals(0.001)
    expect(transfer_seconds, 10, 0, 3, **STEPS).equals(50.0)
    expect(transfer_seconds, 1000, 0, 3, **STEPS).equals(1000.0)
    expect(transfer_seconds, 0, 100, 3, **STEPS).equals(50.0)
    expect(transfer_seconds, 200, 0, 3, **STEPS | {"map_bytes": 9000}).equals(900.0)
    expect(transfer_seconds, 10, 100, 1000, map_flops_per_token=6, flops_per_second=4).equals(16.0)
    expect(transfer_seconds, 10, 100, 1000, map_bytes=6, memory_bandwidth=4, flops_per_second=3).equals(2.5)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_from_nothing_repaired_to_all_of_it(expect):
    """By hand. Even a full prefill has waited for the cache first: who recomputes all of it has transferred for
    nothing."""
    for recomputed, right in ((0, 51.0), (0.5, 55.0), (0.75, 57.0), (1, 59.0)):
        expect(transfer_seconds, 10, 100, 1000, **STEPS, prefill_seconds=8, recomputed=recomputed).equals(right)
    expect(transfer_seconds, 10, 100, 1000, **STEPS, recomputed=0.5).equals(51.0)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_a_transfer_between_two_real_models(expect):
    """Qwen3 14B -> 32B, 32,768 tokens over 25 GB/s, by hand: .2147 s for the source's 163,840 bytes a token, .2770 s
    for 2 FLOP a weight at 254 TFLOP/s, beside which 4.3 GB are read in .0013 s."""
    weights, flops = 2**30, 254e12  # without biases
    case = {"map_flops_per_token": 2 * weights, "map_bytes": 4 * 1_073_872_896, "flops_per_second": flops}
    expect(transfer_seconds, 32768, 163_840, 25e9, **case, memory_bandwidth=3.35e12).equals(0.4917905, rel=1e-6)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_no_link_and_no_more_than_all(expect):
    """A speed of 0 never ends, and a share is no percentage."""
    expect(transfer_seconds, 1, 6, 2).equals(3.0)
    for wrong in ({"recomputed": 25}, {"recomputed": -0.1}, {"flops_per_second": 0}, {"memory_bandwidth": -1}):
        expect(transfer_seconds, 1, 6, 2, **wrong).raises(ValueError)
    expect(transfer_seconds, 1, 6, 0).raises(ValueError)


# ---- optimal_recompute_fraction, judged with breakeven_bandwidth


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_link_and_device_are_done_together(expect):
    """By hand, from move · (1 - share) = prefill · share: the slower the link, the more is recomputed. The 8B at 32,768
    tokens over 12.5 GB/s moves in .3436 s, and makes it in 1.494 s."""
    for move, prefill, right in ((1, 3, 0.25), (3, 1, 0.75), (2.0, 3.0, 0.4), (0.3436, 1.494, 0.186983)):
        expect(optimal_recompute_fraction, move, prefill).equals(right, rel=1e-5)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_what_takes_no_time_is_done_for_all_layers(expect):
    """A cache that is already there is used, a prefill that costs nothing is done; with neither there is no choice."""
    expect(optimal_recompute_fraction, 0, 5).equals(0.0)
    expect(optimal_recompute_fraction, 5, 0).equals(1.0)
    expect(optimal_recompute_fraction, 0, 0).raises(ValueError)
    expect(optimal_recompute_fraction, -1, 5).raises(ValueError)


# ---- breakeven_bandwidth


def link(config, num_tokens, flops_per_second, bytes_per_element=2):
    """Oracle: bytes of all tokens over seconds of all tokens. FLOPs from the weights' shapes: two a weight and token,
    of the head for one token; two for each product of a score, and as many for its value, of pairs that are seen."""
    matrices = {name: prod(shape) for name, shape in shapes(config).items() if ".layers." in name and len(shape) == 2}
    flops = 2 * num_tokens * sum(matrices.values()) + 2 * config.vocab_size * config.d_model
    for keys in range(1, num_tokens + 1) if num_tokens < 100 else ():
        flops += config.n_layers * config.n_heads * keys * (2 * config.head_dim + 2 * config.head_dim)
    if num_tokens >= 100:
        seen = num_tokens * (num_tokens + 1) // 2
        flops += config.n_layers * config.n_heads * seen * 4 * config.head_dim
    elements = num_tokens * config.n_layers * 2 * config.n_kv_heads * config.head_dim
    return elements * bytes_per_element * flops_per_second / flops


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
@pytest.mark.parametrize("num_tokens, right", [(4096, 4.312), (32768, 2.874), (131072, 1.341)])
def test_longer_prompts_are_worth_moving_on_slower_links(expect, num_tokens, right):
    """Llama-3.1-8B at half of an H100's 989 TFLOP/s, in GB/s by the oracle above: bytes grow with the prompt, the FLOPs
    of attention with its square."""
    expect(breakeven_bandwidth, LLAMA_8B, num_tokens, 989e12 / 2).equals(link(LLAMA_8B, num_tokens, 989e12 / 2))
    expect(lambda *case: breakeven_bandwidth(*case) / 1e9, LLAMA_8B, num_tokens, 989e12 / 2).equals(right, abs=5e-4)


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
@pytest.mark.parametrize("config", [SMALL, LARGE, SMOLLM2], ids=["small", "large", "smollm2"])
def test_all_bytes_over_all_seconds(expect, config):
    """Oracle: FLOPs from the weights' shapes. One token, a few, and many, for which only pairs of a query and a key
    that it sees count, and the head once."""
    for num_tokens in (1, 2, 13, 1000):
        expect(breakeven_bandwidth, config, num_tokens, 3e9).equals(link(config, num_tokens, 3e9))


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_a_narrower_cache_is_moved_on_a_slower_link(expect):
    """Half of the bytes need half of the link; twice the FLOP/s, twice the link: a faster device makes its own."""
    for width in (0.5, 1, 2, 4):
        for speed in (1e6, 2e6):
            expect(breakeven_bandwidth, SMALL, 50, speed, width).equals(link(SMALL, 50, speed, width))


@pytest.mark.kata("level15.breakeven.breakeven_bandwidth")
def test_nothing_to_move_is_refused(expect):
    """No token has neither bytes nor seconds."""
    expect(breakeven_bandwidth, LARGE, 5, 7e5, bytes_per_element=1).equals(link(LARGE, 5, 7e5, 1))
    expect(breakeven_bandwidth, LARGE, 0, 7e5).raises(ValueError)
    expect(breakeven_bandwidth, LARGE, 5, 0).raises(ValueError)
