"""The power pellet of level 13: the matrices of SmolLM2-135M on the two machines, and its first MLP computed on both.

The products of all layers are priced on an H100; one of them, on activations that the model really has there, is made
by your tiles and by your array, and must be what the model computes.
"""

import numpy as np
import pytest
import torch

from dojo.models import SMOLLM2, Config, load
from level00.transformer import hidden_states, linear
from level04.roofline import H100
from level13.banks import bank_conflict_degree, column_addresses, swizzle
from level13.coalescing import load_efficiency, sectors
from level13.systolic import SystolicArray, systolic_cycles, systolic_matmul
from level13.tiling import SlowMemory, tiled_matmul, tiled_traffic
from level13.waves import gemm_seconds, linear_shapes, linears_bytes, linears_seconds

LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)
MODELS = {"SmolLM2": SMOLLM2, "Llama-3.1-8B": LLAMA_8B}
GATE = "model.layers.0.mlp.gate_proj.weight"
TILE = (4, 128, 64)
ARRAY = (96, 128)  # 576 rows of weights are six times 96
TILED = (128, 128, 64)
NEED = 0.15  # of one product by numpy: right programs reach 0.25 to 0.5, one row of a tile at a time 0.08


@pytest.fixture(scope="module")
def layer():
    """(activations (5, 576), weights (576, 1536), their product) of the first MLP's gate, in a sentence of 5 tokens."""
    config, params, _ = load()
    seen = []

    def spy(x, weight):
        if weight is params[GATE]:
            seen.append(x[0].clone())
        return linear(x, weight)

    with torch.inference_mode():
        hidden_states(params, config, torch.tensor([[504, 3575, 282, 4649, 314]]), linear=spy)
        right = linear(seen[0], params[GATE])
    return seen[0].numpy(), params[GATE].numpy().T, right.numpy()


# ---- why decode notices neither machine


@pytest.mark.kata("level13.checkpoint")
@pytest.mark.parametrize(
    "name, right, weights",
    [
        ("Llama-3.1-8B", [4482.0, 4493.5, 4986.1, 9440.6], 4480.4),
        ("SmolLM2", [111.7, 112.4, 346.3, 687.1], 80.3),
    ],
)
def test_what_1_8_64_and_512_tokens_take(expect, name, right, weights):
    """Microseconds on an H100, beside reading the weights. Eight tokens take as long as one: their bytes are the same.
    SmolLM2's matrices of 576 columns are 5 tiles for 132 SMs: the waves limit it from 64 tokens on."""

    def microseconds():
        return [1e6 * linears_seconds(MODELS[name], tokens) for tokens in (1, 8, 64, 512)]

    expect(microseconds).equals(right, rel=1e-3)
    assert abs(1e6 * linears_bytes(MODELS[name]) / H100.bandwidth - weights) < 0.1


@pytest.mark.kata("level13.checkpoint")
@pytest.mark.parametrize("name, right", [("Llama-3.1-8B", 6857.4), ("SmolLM2", 671.9)])
def test_a_tile_of_128_rows_for_one_token_makes_decode_wait(expect, name, right):
    """Microseconds. 127 of 128 rows are padding: the arithmetic of it takes longer than reading the weights."""
    expect(lambda: 1e6 * sum(gemm_seconds(1, n, k) for n, k in linear_shapes(MODELS[name]))).equals(right, rel=1e-3)


@pytest.mark.kata("level13.checkpoint")
@pytest.mark.parametrize("tokens, right", [(1, 3_607_860), (8, 3_673_800), (512, 8_421_480)])
def test_a_systolic_array_waits_for_its_weights(expect, tokens, right):
    """All matrices of SmolLM2 on 128 x 128 cells: one token takes 43% of what 512 take."""
    expect(lambda: sum(systolic_cycles(tokens, n, k, 128, 128) for n, k in linear_shapes(SMOLLM2))).equals(right)


# ---- one layer, computed


@pytest.mark.kata("level13.checkpoint")
def test_tiles_compute_the_models_layer(expect, layer):
    """Oracle: the model's own product, and elements counted by hand: 12 times the activations, twice the weights."""
    x, weights, right = layer

    def product():
        memory = SlowMemory(x, weights)
        return tiled_matmul(memory, *TILE), memory.loaded

    loaded = 12 * 5 * 576 + 2 * 576 * 1536
    expect(product).equals((right.astype(np.float64), loaded), abs=1e-4)
    expect(lambda: tiled_traffic(5, 1536, 576, *TILE[:2], 1)).equals(loaded + 5 * 1536)


@pytest.mark.kata("level13.checkpoint")
def test_the_array_computes_the_models_layer(expect, layer):
    """Oracle: the model's own product. Its first 128 features, by six arrays of 96 x 128 cells, their sums added."""
    x, weights, right = layer
    rows, cols = ARRAY

    def product():
        y, cycles = 0, 0
        for top in range(0, len(weights), rows):
            array = SystolicArray(weights[top : top + rows, :cols])
            part, took = systolic_matmul(x[:, top : top + rows], array)
            y, cycles = y + part, cycles + rows + took
        return y, cycles

    expect(product).equals((right[:, :cols].astype(np.float64), 6 * (96 + 5 + 96 + 128 - 2)), abs=1e-4)


# ---- how its weights lie


@pytest.mark.kata("level13.checkpoint")
def test_a_warp_reads_the_models_weights_along_a_row(expect):
    """A row of gate_proj has 576 weights of 2 bytes: 32 lanes along it ask for 2 sectors, down a column for 32."""
    along, down = [2 * lane for lane in range(32)], [2 * 576 * lane for lane in range(32)]
    expect(lambda: [sectors(along, 2), sectors(down, 2)]).equals([2, 32])
    expect(lambda: [load_efficiency(along, 2), load_efficiency(down, 2)]).equals([1.0, 1 / 16])


@pytest.mark.kata("level13.checkpoint")
def test_a_tile_of_them_is_read_in_both_directions(expect):
    """64 x 64 words: 576 is a multiple of 64, so that a column is in one bank, unless the columns are swizzled."""

    def worst(place):
        return max(bank_conflict_degree([4 * (64 * r + place(r, c)) for r in range(32)]) for c in range(32))

    expect(lambda: bank_conflict_degree(column_addresses(0, 64))).equals(32)
    expect(lambda: [worst(lambda r, c: c), worst(swizzle)]).equals([32, 1])


# ---- the clock


def products():
    """(memory of 256 tokens and a layer's weights, numpy's own product of them)."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((256, 576), np.float32)
    weights = np.ascontiguousarray(load()[1][GATE].numpy().T)
    return SlowMemory(x, weights), lambda: x @ weights


@pytest.mark.kata("level13.checkpoint")
def test_a_tile_is_multiplied_as_a_whole(roofline):
    """256 tokens through gate_proj, in tiles. What is loaded once must also be used at once: a loop over the rows of a
    tile loads as little, and leaves the machine's own array idle."""
    memory, product = products()
    roofline(
        lambda: tiled_matmul(memory, *TILED),
        product,
        need=NEED,
        flops=2 * 256 * 576 * 1536,
        bytes=4 * (256 * 576 * 12 + 576 * 1536 * 2) + 8 * 256 * 1536,
        name="256 tokens through gate_proj, in tiles",
    )
