"""The worksheet of level 06: right values by filling blocks one by one, by rounding, and from Yi-34B's shapes."""

from math import prod

import pytest
import torch

from dojo.models import Config, shapes

YI = Config(60, 7168, 56, 8, 128, 20480, 64000, tie_embeddings=False)  # 34B
SIZES = {name: prod(shape) for name, shape in shapes(YI).items()}
ENTRY = sum(2 * YI.head_dim * YI.n_kv_heads for _ in range(YI.n_layers) for _ in "kv")  # bytes of a token, bfloat16


def filled(tokens, size):
    """The blocks of a sequence, each with the tokens in it, put there one after the other."""
    blocks = []
    for _ in range(tokens):
        if not blocks or blocks[-1] == size:
            blocks.append(0)
        blocks[-1] += 1
    return blocks


@pytest.mark.kata("level06.worksheet.empty_part")
def test_only_the_last_block_of_a_sequence_has_empty_slots(answer):
    """A server that reserves for the longest text keeps most of its memory empty. Oracle: blocks filled one by one."""
    blocks = [block for tokens in (100, 700, 37, 1500) for block in filled(tokens, 16)]
    answer("empty_part").equals(sum(16 - used for used in blocks) / (16 * len(blocks)), rel=0.01)


@pytest.mark.kata("level06.worksheet.pool_blocks")
def test_the_pool_gets_what_the_weights_leave(answer):
    """The number that a server prints when it starts. Oracle: the model's shapes, summed up."""
    left = 0.9 * 141e9 - 2 * sum(SIZES.values())
    answer("pool_blocks").equals(left // (16 * ENTRY), rel=0.01)


@pytest.mark.kata("level06.worksheet.sample_blocks")
def test_samples_share_full_blocks_and_copy_the_last(answer):
    """Parallel sampling needs little more than one prompt. Oracle: blocks named by all that is written into them."""
    named = set()
    for sample in range(5):
        tokens = [("prompt", i) for i in range(100)] + [(sample, i) for i in range(30)]
        named |= {tuple(tokens[i : i + 16]) for i in range(0, len(tokens), 16)}
    answer("sample_blocks").equals(len(named), rel=0.01)


@pytest.mark.kata("level06.worksheet.saved_ms")
def test_whole_blocks_of_a_prefix_need_not_run_again(answer):
    """It comes off the time to first token. Oracle: full blocks counted one by one; the layers' shapes."""
    reused = sum(block for block in filled(1000, 64) if block == 64)
    matrices = sum(size for name, size in SIZES.items() if "proj" in name)
    answer("saved_ms").equals(1e3 * 2 * reused * matrices / (0.4 * 989e12), rel=0.01)


@pytest.mark.kata("level06.worksheet.relative_error")
def test_the_error_goes_by_the_largest_weight_of_a_row(answer):
    """So one large weight costs the whole row. Oracle: the mean of squares over a fine grid of one step."""
    step = 2 * 0.42 / (127 - -127)
    errors = torch.linspace(-step / 2, step / 2, 100_001, dtype=torch.float64)
    answer("relative_error").equals(errors.square().mean().sqrt().item() / 0.07, rel=0.01)


@pytest.mark.kata("level06.worksheet.lost_below")
def test_an_outlier_makes_zeros_of_its_neighbours(answer):
    """All usual weights of the group are gone. Oracle: magnitudes tried one by one, rounded on a scale up to 24."""
    tried = torch.linspace(0, 3, 300_001, dtype=torch.float64)
    codes = (tried * 7 / 24).round()
    answer("lost_below").equals(tried[codes > 0].min().item(), rel=0.01)


@pytest.mark.kata("level06.worksheet.fewer_bytes")
def test_narrow_weights_leave_the_cache_as_it_is(answer):
    """Four bits are not four times the speed, least of all in a large batch. Oracle: groups counted, and the shapes."""
    read = sum(size for name, size in SIZES.items() if name != "model.embed_tokens.weight")
    cache = 16 * 3000 * ENTRY
    narrow = read / 128 * (128 * 4 + 16 + 16) / 8
    answer("fewer_bytes").equals((2 * read + cache) / (narrow + cache), rel=0.01)


@pytest.mark.kata("level06.worksheet.kl_nats")
def test_kl_weighs_by_the_reference(answer):
    """What the model would have said counts, not what it says now. Oracle: torch.nn.functional.kl_div."""
    reference, changed = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2]], dtype=torch.float64)
    right = torch.nn.functional.kl_div(changed.log(), reference, reduction="sum").item()
    answer("kl_nats").equals(right, rel=0.01)
