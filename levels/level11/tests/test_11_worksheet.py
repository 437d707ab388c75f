"""The worksheet of level 11: right values by counting tokens, layers and multiplications one by one."""

import pytest
import torch

NUMBER, SEQUENCES = 2, 24  # bytes of a bfloat16; sequences of the first two questions
MEMORY = 2.039e12  # of an A100, bytes per second


def touched():
    """One token after the other: of the experts that are untouched so far, each is among its 8 of 128."""
    untouched = 128.0
    for _ in range(SEQUENCES):
        untouched -= untouched * 8 / 128
    return 128 - untouched


@pytest.mark.kata("level11.worksheet.touched")
def test_tokens_share_experts(answer):
    """Not 8 and not 192: a batch touches most of them. Oracle: token by token, what is left untouched."""
    answer("touched").equals(touched(), rel=0.01)


@pytest.mark.kata("level11.worksheet.step_ms")
def test_a_batch_of_sparse_experts_reads_nearly_all_of_them(answer):
    """Predicted from a model card, before a GPU is rented. Oracle: every expert, layer, head and token summed."""
    weights = NUMBER * (1.230e9 + touched() * 226.5e6)
    token = sum(NUMBER * 128 for _ in range(48) for _ in "kv" for _ in range(4))
    answer("step_ms").equals(1e3 * (weights + sum(4000 * token for _ in range(SEQUENCES))) / MEMORY, rel=0.01)


@pytest.mark.kata("level11.worksheet.last_gate")
def test_the_bias_chooses_and_does_not_count(answer):
    """A bias in the gate would scale what an expert says by how idle it was. Oracle: torch's topk on the sums."""
    scores, bias = torch.tensor([0.6, 0.5, 0.3, 0.2]), torch.tensor([0, -0.2, 0.1, 0.3])
    chosen = (scores + bias).topk(2).indices
    assert 3 in chosen
    answer("last_gate").equals((2.5 * scores[3] / scores[chosen].sum()).item(), rel=0.01)


@pytest.mark.kata("level11.worksheet.balance_loss")
def test_the_balance_loss_is_above_one_when_favourites_are_chosen(answer):
    """1 is balanced, whatever E and k are. Oracle: torch, on a list of all twelve choices."""
    choices, mean = torch.tensor([0] * 6 + [1] * 3 + [2] * 3), torch.tensor([0.4, 0.3, 0.2, 0.1])
    answer("balance_loss").equals(4 * mean[choices].mean().item(), rel=0.01)


@pytest.mark.kata("level11.worksheet.latent_mb")
def test_a_latent_is_cached_once_for_all_heads(answer):
    """What a sequence costs in a server's memory. Oracle: bytes of one token, layer by layer."""
    token = sum(NUMBER * width for _ in range(62) for width in (256, 32))
    answer("latent_mb").equals(20000 * token / 1e6, rel=0.01)


@pytest.mark.kata("level11.worksheet.flops_per_byte")
def test_absorbed_attention_computes_a_lot_for_each_byte(answer):
    """It is near the ridge, unlike other decoding. Oracle: head by head."""
    flops = sum(width + width for _ in range(40) for width in (256, 32, 256))  # multiplications and additions
    answer("flops_per_byte").equals(flops / (256 * NUMBER + 32 * NUMBER), rel=0.01)


@pytest.mark.kata("level11.worksheet.windows_gb")
def test_a_local_layer_holds_its_window(answer):
    """Of 50,000 tokens 40 of the layers keep 1,024. Oracle: layer after layer."""
    held = sum(50000 if layer % 6 == 5 else 1024 for layer in range(48))
    answer("windows_gb").equals(held * (8 * 256 + 8 * 256) * NUMBER / 1e9, rel=0.01)


@pytest.mark.kata("level11.worksheet.crossover")
def test_a_cache_grows_past_a_state(answer):
    """Where an architecture pays. Oracle: contexts tried one after the other."""
    state = 48 * 4096 * 128 * NUMBER
    mamba = 1.344e9 * NUMBER + sum(state + state for _ in range(8))

    def llama(context):
        return 1.236e9 * NUMBER + 8 * context * 16 * (8 * 64 + 8 * 64) * NUMBER

    answer("crossover").equals(next(n for n in range(10**6) if llama(n) > mamba), rel=0.01)
