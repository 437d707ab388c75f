"""The worksheet of level 04: right values by walking through the definitions, or from the shapes of Llama-3-70B."""

from itertools import count, pairwise
from math import prod

import pytest

from dojo.models import Config, shapes

LLAMA_70B = Config(80, 8192, 64, 8, 128, 28672, 128256, tie_embeddings=False)
SIZES = {name: prod(shape) for name, shape in shapes(LLAMA_70B).items() if name != "model.embed_tokens.weight"}
CONTEXT, BANDWIDTH, DENSE = 8192, 4.8e12, 989e12  # an H200


def bytes_of_a_step(batch):
    """Weights in 8 bits, once; of each sequence, key and value in each layer and KV head, in bfloat16."""
    cache = sum(2 * LLAMA_70B.head_dim * LLAMA_70B.n_kv_heads for _ in range(LLAMA_70B.n_layers) for _ in "kv")
    return sum(SIZES.values()) + batch * CONTEXT * cache


def flops_of_a_token():
    """Two for each weight of a matrix; in each layer and query head, a score and a weighted sum with each key."""
    matrices = sum(size for name, size in SIZES.items() if "norm" not in name)
    pairs = LLAMA_70B.n_layers * LLAMA_70B.n_heads * CONTEXT
    return 2 * matrices + pairs * (2 * LLAMA_70B.head_dim + 2 * LLAMA_70B.head_dim)


@pytest.mark.kata("level04.worksheet.tpot_ms")
def test_tpot_is_the_mean_of_the_gaps(answer):
    """The speed at which a user reads along. Oracle: the gaps one by one, 60, 40 and 200 ms."""
    gaps = [after - before for before, after in pairwise([3950, 4010, 4050, 4250])]
    answer("tpot_ms").equals(sum(gaps) / len(gaps), rel=0.01)


@pytest.mark.kata("level04.worksheet.ridge")
def test_the_ridge_goes_by_the_dense_rate(answer):
    """Twice the peak halves every utilization. Oracle: the same chip's dense rate as its sheet rounds it, 989."""
    answer("ridge").equals(DENSE / BANDWIDTH, rel=0.01)


@pytest.mark.kata("level04.worksheet.product_intensity")
def test_a_product_moves_three_matrices(answer):
    """With many rows the activations count too: 1,024 rows do not make 1,024. Oracle: sizes of the three, added up."""
    rows, inner, columns = 1024, 8192, 28672
    moved = sum(2 * height * width for height, width in ((rows, inner), (inner, columns), (rows, columns)))
    flops = (rows * columns) * (2 * inner)  # each entry of the result: `inner` multiplications and additions
    answer("product_intensity").equals(flops / moved, rel=0.01)


@pytest.mark.kata("level04.worksheet.single_ceiling")
def test_one_sequence_is_as_fast_as_its_bytes(answer):
    """What a single user can get from this machine, whatever the engine. Oracle: the model's shapes, summed up."""
    assert flops_of_a_token() / DENSE < bytes_of_a_step(1) / BANDWIDTH
    answer("single_ceiling").equals(BANDWIDTH / bytes_of_a_step(1), rel=0.01)


@pytest.mark.kata("level04.worksheet.batch_ceiling")
def test_sixteen_sequences_share_the_weights_and_nothing_else(answer):
    """10.3 times the tokens instead of 16 times. Oracle: steps that fit into a second, 16 tokens each."""
    seconds = max(bytes_of_a_step(16) / BANDWIDTH, 16 * flops_of_a_token() / DENSE)
    answer("batch_ceiling").equals(16 * (1 / seconds), rel=0.01)


@pytest.mark.kata("level04.worksheet.critical_sequences")
def test_narrow_weights_need_fewer_sequences(answer):
    """Beyond it a larger batch costs time. Oracle: one weight, half a byte; try batch after batch."""
    answer("critical_sequences").equals(next(b for b in count(1) if 2 * b / DENSE >= 0.5 / BANDWIDTH), rel=0.005)


@pytest.mark.kata("level04.worksheet.mbu_percent")
def test_mbu_counts_the_bytes_of_steps(answer):
    """How much of the memory's speed a run has used. Oracle: the measured rate over the ceiling, which bytes set."""
    ceiling = 16 * BANDWIDTH / bytes_of_a_step(16)
    answer("mbu_percent").equals(100 * 400 / ceiling, rel=0.01)


@pytest.mark.kata("level04.worksheet.mfu_percent")
def test_mfu_counts_the_flops_of_tokens(answer):
    """The same run by its arithmetic: a ninth of the MBU, and nothing is wrong. Oracle: shapes, and pairs with keys."""
    answer("mfu_percent").equals(100 * 400 * flops_of_a_token() / DENSE, rel=0.01)
