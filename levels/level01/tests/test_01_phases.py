"""Judges phases.py by counting in loops: token by token, matrix by matrix, query by query and head by head."""

from dataclasses import replace

import pytest

from dojo.models import SMOLLM2, TINY, Config, random_params
from level00.accounting import flops_per_token
from level01.phases import cached_token_count, naive_token_count, phase_cost

TIED = replace(TINY, tie_embeddings=True)
# heads · head_dim is not d_model here, as in several real models; and an odd number of elements moves
WIDE = Config(3, 21, 5, 1, 12, 56, 71, tie_embeddings=False)
CONFIGS = pytest.mark.parametrize("config", [TINY, TIED, WIDE], ids=["untied", "tied", "wide heads"])
REQUESTS = [(1, 1), (1, 2), (4, 0), (4, 1), (4, 3), (4, 6), (100, 50), (128, 512), (7, 300)]


def fed(prompt_len, new_tokens, with_cache):
    """Oracle: a generation loop that has no model and counts what each step would be fed."""
    text, cached, count = ["prompt"] * prompt_len, 0, 0
    for _ in range(new_tokens):
        count += len(text[cached:])
        cached = len(text) if with_cache else 0
        text.append("new")
    return count


@pytest.mark.kata("level01.phases.cached_token_count")
@pytest.mark.parametrize("prompt_len, new_tokens", REQUESTS)
def test_without_a_cache_every_step_reads_everything_again(expect, prompt_len, new_tokens):
    """Oracle: a loop. The first step reads the prompt, each later one a token more; no new tokens, no step."""
    expect(naive_token_count, prompt_len, new_tokens).equals(fed(prompt_len, new_tokens, with_cache=False))


@pytest.mark.kata("level01.phases.cached_token_count")
@pytest.mark.parametrize("prompt_len, new_tokens", REQUESTS)
def test_with_a_cache_every_token_but_the_last_is_read_once(expect, prompt_len, new_tokens):
    """Oracle: a loop. The last new token goes to the user and to nobody else."""
    expect(cached_token_count, prompt_len, new_tokens).equals(fed(prompt_len, new_tokens, with_cache=True))


def both(prompt_len, new_tokens):
    return naive_token_count(prompt_len, new_tokens), cached_token_count(prompt_len, new_tokens)


@pytest.mark.kata("level01.phases.cached_token_count")
def test_a_cache_saves_a_factor_of_307(expect):
    """128 + 512: 512 · 128 + 512 · 511 / 2 = 196,352 tokens against 128 + 511 = 639. Of one new token it saves none."""
    expect(both, 128, 512).equals((196_352, 639))
    expect(both, 128, 1).equals((128, 128))
    expect(both, 128, 0).equals((0, 0))


@pytest.mark.kata("level01.phases.cached_token_count")
def test_counts_are_exact_however_large(expect):
    """A million tokens behind a million: 10**6 · 10**6 + 10**6 · 999,999 / 2, as Gauss would add them."""
    expect(both, 10**6, 10**6).equals((1_499_999_500_000, 1_999_999))


def summed(config, q_len, cached_len, bytes_per_element=2, last_only=True):
    """Oracle: loops over the tensors of a real parameter dict, over layers, queries, heads and keys."""
    params, flops, elements = random_params(config), 0, 0
    embedding = params["model.embed_tokens.weight"]
    head = params.get("lm_head.weight", embedding)
    for weight in params.values():
        looked_up = weight is embedding and weight is not head
        elements += q_len * weight.shape[1] if looked_up else weight.numel()
    for query in range(q_len):
        products = [w for name, w in params.items() if ".layers." in name and w.dim() == 2]
        products += [] if last_only and query < q_len - 1 else [head]
        flops += sum(2 * rows * columns for rows, columns in (w.shape for w in products))
        for _ in range(config.n_layers * config.n_heads):
            keys = cached_len + len(range(query + 1))
            flops += keys * 2 * config.head_dim  # q · k
            flops += keys * 2 * config.head_dim  # weight · v
    for _ in ("keys", "values"):
        for _ in range(config.n_layers * config.n_kv_heads):
            elements += cached_len * config.head_dim  # read
            elements += q_len * config.head_dim  # written
    moved = elements * bytes_per_element
    return {"flops": float(flops), "bytes": float(moved), "intensity": flops / moved}


@pytest.mark.kata("level01.phases.phase_cost")
def test_a_decode_step_of_smollm2_has_intensity_1(expect):
    """1 token behind 1023: 2 · 134,479,872 matrix weights + 30 · 9 · 4 · 64 · 1024 FLOPs; 2 · 134,515,008 bytes of
    weights + 1024 · 23,040 of keys and values. An H100 could do 295 FLOPs in the time that a byte takes."""
    right = {"flops": 339_738_624.0, "bytes": 292_622_976.0, "intensity": 1.1610114}
    expect(phase_cost, SMOLLM2, 1, 1023).equals(right, rel=1e-7)


@pytest.mark.kata("level01.phases.phase_cost")
def test_a_prefill_of_smollm2_has_intensity_867(expect):
    """1024 tokens at once: 2 · 1024 · 106,168,320 + 30 · 9 · 4 · 64 · (1024 · 1025 / 2) + 2 · 28,311,552 FLOPs, and not
    one byte more than the decode step that ends at the same length."""
    right = {"flops": 253_763_518_464.0, "bytes": 292_622_976.0, "intensity": 867.2030}
    expect(phase_cost, SMOLLM2, 1024, 0).equals(right, rel=1e-7)


@pytest.mark.kata("level01.phases.phase_cost")
@pytest.mark.parametrize("last_only", [True, False], ids=["last logits", "all logits"])
@pytest.mark.parametrize("q_len, cached_len", [(1, 0), (1, 9), (6, 0), (5, 7)])
@CONFIGS
def test_cost_equals_counting_in_loops(expect, config, q_len, cached_len, last_only):
    """Oracle: the tensors of a random model of that shape, and a loop over its layers, queries and heads."""
    right = summed(config, q_len, cached_len, last_only=last_only)
    expect(phase_cost, config, q_len, cached_len, last_only=last_only).equals(right, rel=1e-12)


@pytest.mark.kata("level01.phases.phase_cost")
@pytest.mark.parametrize("bytes_per_element", [0.5, 1, 4], ids=["int4", "int8", "float32"])
@CONFIGS
def test_fewer_bytes_per_element_raise_the_intensity(expect, config, bytes_per_element):
    """Oracle: the same loops. Half the bytes, twice the intensity, and not one FLOP less."""
    right = summed(config, 3, 11, bytes_per_element)
    expect(phase_cost, config, 3, 11, bytes_per_element).equals(right, rel=1e-12)


@pytest.mark.kata("level01.phases.phase_cost")
def test_logits_of_the_last_token_are_the_default(expect):
    """Generation reads no others: at a prompt of 8 all of them cost 8 products with the vocabulary instead of one."""
    expect(phase_cost, TIED, 8, 0).equals(summed(TIED, 8, 0, last_only=True), rel=1e-12)


def decode_flops(config, context_len):
    return phase_cost(config, 1, context_len - 1)["flops"]


@pytest.mark.kata("level01.phases.phase_cost")
@pytest.mark.parametrize("context_len", [1, 2, 1024, 131_072])
def test_a_decode_step_costs_what_level_00_says(expect, context_len):
    """Oracle: flops_per_token. Its context counts the token itself, which is not in the cache yet."""
    right = float(flops_per_token(SMOLLM2, context_len)["total"])
    expect(decode_flops, SMOLLM2, context_len).equals(right, rel=1e-12)


def steps_and_prefill(config, prompt_len):
    steps = [phase_cost(config, 1, cached, last_only=False) for cached in range(prompt_len)]
    whole = phase_cost(config, prompt_len, 0, last_only=False)
    return sum(step["flops"] for step in steps), whole["flops"], sum(step["bytes"] for step in steps) > whole["bytes"]


@pytest.mark.kata("level01.phases.phase_cost")
@CONFIGS
def test_token_by_token_costs_the_same_flops_and_more_bytes(expect, config):
    """A causal mask is what makes them equal; the weights are read 16 times instead of once. Oracle: the loops."""
    right = summed(config, 16, 0, last_only=False)["flops"]
    expect(steps_and_prefill, config, 16).equals((right, right, True), rel=1e-12)


def chunks(config, sizes):
    costs = [phase_cost(config, size, sum(sizes[:i])) for i, size in enumerate(sizes)]
    return [cost["bytes"] for cost in costs]


@pytest.mark.kata("level01.phases.phase_cost")
def test_each_chunk_of_a_prompt_reads_the_weights_again(expect):
    """SmolLM2, 1024 tokens in 8 chunks: 8 · 2 · 134,515,008 + 23,040 · 128 · (1 + … + 8) bytes, 2.258 GB in all."""
    right = [269_030_016.0 + 23_040 * 128 * i for i in range(1, 9)]
    expect(chunks, SMOLLM2, [128] * 8).equals(right, rel=1e-12)


@pytest.mark.kata("level01.phases.phase_cost")
def test_a_pass_needs_a_token_but_no_cache(expect):
    """One token behind nothing: 2 · 134,479,872 + 30 · 9 · 4 · 64 FLOPs, and 2 · 134,515,008 + 23,040 bytes."""
    right = {"flops": 269_028_864.0, "bytes": 269_053_056.0, "intensity": 269_028_864 / 269_053_056}
    expect(phase_cost, SMOLLM2, 1, 0).equals(right, rel=1e-12)
    expect(phase_cost, SMOLLM2, 0, 5).raises(ValueError)
    expect(phase_cost, SMOLLM2, 1, -1).raises(ValueError)
