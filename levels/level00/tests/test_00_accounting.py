"""Judges accounting.py against real parameter dictionaries and torch's own FLOP counter."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dojo.models import SMOLLM2, TINY, Config, random_params
from level00.accounting import count_params, flops_per_token

LLAMA_70B = Config(80, 8192, 64, 8, 128, 28672, 128256, rope_theta=500000.0, tie_embeddings=False)
TIED = replace(TINY, tie_embeddings=True)
# heads · head_dim is not d_model here, as in several real models
WIDE = Config(3, 20, 5, 1, 12, 56, 70, tie_embeddings=False)
CONFIGS = pytest.mark.parametrize("config", [TINY, TIED, WIDE], ids=["untied", "tied", "wide heads"])


@pytest.mark.kata("level00.accounting.flops_per_token")
@CONFIGS
def test_the_parts_add_up_to_a_real_parameter_dict(expect, config):
    """Oracle: the sizes of the tensors of a random model of that shape, sorted into parts by their names."""
    right = dict.fromkeys(("embedding", "attention", "mlp", "norm", "lm_head"), 0)
    part_of = {"embed_tokens": "embedding", "self_attn": "attention", "mlp": "mlp", "lm_head": "lm_head"}
    for name, weight in random_params(config).items():
        part = next((part for key, part in part_of.items() if key in name), "norm")
        right[part] += weight.numel()
    expect(count_params, config).equals(right | {"total": sum(right.values())})


@pytest.mark.kata("level00.accounting.flops_per_token")
def test_smollm2_has_135_million_parameters(expect):
    """By hand: 49152 · 576, 30 · 576 · (2 · 576 + 2 · 192), 30 · 3 · 576 · 1536, 30 · 2 · 576 + 576; a tied head."""
    right = {"embedding": 28_311_552, "attention": 26_542_080, "mlp": 79_626_240, "norm": 35_136, "lm_head": 0}
    expect(count_params, SMOLLM2).equals(right | {"total": 134_515_008})


@pytest.mark.kata("level00.accounting.flops_per_token")
def test_llama_3_70b_has_70_553_706_496_parameters(expect):
    """The published count: 128256 · 8192 twice, 80 · 8192 · (2 · 8192 + 2 · 1024), 80 · 3 · 8192 · 28672, norms."""
    right = {"embedding": 1_050_673_152, "attention": 12_079_595_520, "mlp": 56_371_445_760, "norm": 1_318_912}
    expect(count_params, LLAMA_70B).equals(right | {"lm_head": 1_050_673_152, "total": 70_553_706_496})


def counted(config, context_len):
    """Oracle: torch's counter around one token's products, matrix by matrix and head by head."""
    weights, flops = random_params(config), {}

    def run(part, *pairs):
        with FlopCounterMode(display=False) as counter:
            for left, right in pairs:
                left @ right
        flops[part] = counter.get_total_flops()

    def products(key):
        return [(torch.ones(1, w.shape[1]), w.T) for n, w in weights.items() if key in n and w.dim() == 2]

    one_head = [(torch.ones(1, config.head_dim), torch.ones(config.head_dim, context_len))]
    one_head += [(torch.ones(1, context_len), torch.ones(context_len, config.head_dim))]
    run("projections", *products("self_attn"))
    run("scores", *one_head * (config.n_heads * config.n_layers))
    run("mlp", *products("mlp"))
    run("lm_head", *products("embed_tokens"))  # tied or not, the product has this shape
    return flops | {"total": sum(flops.values())}


@pytest.mark.kata("level00.accounting.flops_per_token")
@pytest.mark.parametrize("context_len", [1, 10])
@CONFIGS
def test_flops_equal_what_torch_counts(expect, config, context_len):
    """Oracle: FlopCounterMode. A multiply-add is two; every query head scores, however few KV heads there are."""
    expect(flops_per_token, config, context_len).equals(counted(config, context_len))


@pytest.mark.kata("level00.accounting.flops_per_token")
def test_a_token_of_smollm2_costs_340_megaflops_at_context_1024(expect):
    """Two per weight of every matrix (the tied one once), plus 30 layers · 9 heads · 4 · 64 · 1024 for the scores."""
    right = {"projections": 53_084_160, "scores": 70_778_880, "mlp": 159_252_480, "lm_head": 56_623_104}
    expect(flops_per_token, SMOLLM2, 1024).equals(right | {"total": 339_738_624})


@pytest.mark.kata("level00.accounting.flops_per_token")
def test_at_a_long_context_the_scores_cost_most(expect):
    """SmolLM2 at 131,071 tokens: 30 · 9 · 4 · 64 · 131071. More than 2**31, and exact to the last digit."""
    right = {"projections": 53_084_160, "scores": 9_059_627_520, "mlp": 159_252_480, "lm_head": 56_623_104}
    expect(flops_per_token, SMOLLM2, 131_071).equals(right | {"total": 9_328_587_264})


@pytest.mark.kata("level00.accounting.flops_per_token")
def test_a_token_attends_at_least_to_itself(expect):
    """4 · 64 per head at context 1; a context of 0 is an off-by-one of the caller."""
    right = {
        "projections": 53_084_160,
        "scores": 69_120,
        "mlp": 159_252_480,
        "lm_head": 56_623_104,
        "total": 269_028_864,
    }
    expect(flops_per_token, SMOLLM2, 1).equals(right)
    expect(flops_per_token, SMOLLM2, 0).raises(ValueError)
