"""Judges selective.py by hand, and by loops over single tokens."""

from fractions import Fraction
from itertools import accumulate

import pytest
import torch

from level15.selective import choose_tokens, contiguous_layers, deviation, patch_tokens


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# ---- choose_tokens


@pytest.mark.kata("level15.selective.choose_tokens")
def test_the_worst_in_the_order_of_the_text(expect):
    """By hand: 0.3 of 4 tokens is 1.2, so 2; they come back as positions, in ascending order."""
    worst = torch.tensor([[1.0, 9.0, 4.0, 2.0]])
    for fraction, right in (
        (0.4, [1, 2]),
        (0.3, [1, 2]),
        (0.25, [1]),
        (0.5, [1, 2]),
        (0.75, [1, 2, 3]),
        (1.0, [0, 1, 2, 3]),
    ):
        expect(choose_tokens, worst, fraction).equals(torch.tensor([right]))
    expect(choose_tokens, worst, 0).equals(torch.empty(1, 0, dtype=torch.int64))
    expect(choose_tokens, torch.tensor([[3.0, 2.0, 8.0, 5.0, 9.0]]), 0.41).equals(torch.tensor([[2, 3, 4]]))


@pytest.mark.kata("level15.selective.choose_tokens")
def test_each_prompt_has_its_own(expect):
    """Two prompts of a batch are wrong in different places, and as many tokens of each are made again."""
    worst = torch.tensor([[1.0, 9.0, 4.0, 2.0, 0.0], [70.0, 60.0, 50.0, 90.0, 80.0], [0.1, 0.2, 0.3, 0.2, 0.5]])
    expect(choose_tokens, worst, 0.4).equals(torch.tensor([[1, 2], [3, 4], [2, 4]]))


@pytest.mark.kata("level15.selective.choose_tokens")
def test_among_equals_the_earlier_token(expect):
    """Ties of all kinds; with 40 equal tokens an unstable sort shows."""
    worst = torch.tensor([[5.0, 5.0, 5.0], [1.0, 7.0, 7.0]])
    expect(choose_tokens, worst, 1 / 3).equals(torch.tensor([[0], [1]]))
    expect(choose_tokens, torch.tensor([[2.0, 9.0, 2.0, 0.0, 2.0]]), 0.6).equals(torch.tensor([[0, 1, 2]]))
    flat = torch.zeros(2, 40)
    flat[1, 30] = 1
    right = torch.tensor([list(range(10)), [*range(9), 30]])
    expect(choose_tokens, flat, 0.25).equals(right)
    expect(choose_tokens, torch.tensor([[0.0, 3.0, 0.0, 0.0]]), 0.75).equals(torch.tensor([[0, 1, 2]]))


@pytest.mark.kata("level15.selective.choose_tokens")
def test_rounded_up_but_not_by_a_rounding_error(expect):
    """0.07 · 100 is 7.000000000000001 in floats, and means 7; 0.071 of 100 means 8. Oracle: exact fractions."""
    worst = (torch.arange(100.0) * 37 % 101)[None]
    for fraction in ("0.07", "0.29", "0.55", "0.54", "0.071", "0.001", "0.951"):
        n = -(-Fraction(fraction) * 100 // 1)
        right = sorted(range(100), key=lambda token: -worst[0, token])[:n]
        expect(choose_tokens, worst, float(fraction)).equals(torch.tensor([sorted(right)]))
    expect(choose_tokens, worst[:, :5], 1e-4).equals(torch.tensor([[2]]))


@pytest.mark.kata("level15.selective.choose_tokens")
def test_a_share_is_a_share(expect):
    """More than all tokens or fewer than none; and a prompt without tokens."""
    expect(choose_tokens, torch.tensor([[2.0, 1.0]]), 0.5).equals(torch.tensor([[0]]))
    expect(choose_tokens, torch.empty(3, 0), 0.5).equals(torch.empty(3, 0, dtype=torch.int64))
    for fraction in (-0.1, 1.5):
        expect(choose_tokens, torch.tensor([[2.0, 1.0]]), fraction).raises(ValueError)


# ---- deviation, judged with choose_tokens


@pytest.mark.kata("level15.selective.choose_tokens")
def test_keys_and_values_by_hand(expect):
    """Keys off by 1, values by -2: errors of opposite sign do not cancel, and a large one weighs more."""
    zero, keys, values = torch.zeros(1, 1, 2, 1), torch.tensor([[[[1.0], [0.0]]]]), torch.tensor([[[[0.0], [-2.0]]]])
    expect(deviation, keys, values, zero, zero).equals(torch.tensor([[1.0, 4.0]]))
    expect(deviation, zero, zero, keys, values).equals(torch.tensor([[1.0, 4.0]]))
    expect(deviation, -keys, keys, zero, zero).equals(torch.tensor([[2.0, 0.0]]))
    expect(deviation, keys, values, keys, values).equals(torch.zeros(1, 2))


@pytest.mark.kata("level15.selective.choose_tokens")
def test_one_number_for_each_token(expect):
    """Oracle: loops. All sizes differ, so that no other axis can be meant."""
    mapped_k, mapped_v, k, v = (draw(2, 3, 5, 4, seed=i) for i in range(4))
    right = torch.zeros(2, 5)
    for b in range(2):
        for s in range(5):
            for g in range(3):
                for d in range(4):
                    right[b, s] += (mapped_k[b, g, s, d] - k[b, g, s, d]) ** 2
                    right[b, s] += (mapped_v[b, g, s, d] - v[b, g, s, d]) ** 2
    expect(deviation, mapped_k, mapped_v, k, v).equals(right, abs=1e-4)


# ---- patch_tokens, judged with choose_tokens

MAPPED = torch.arange(24.0).view(2, 2, 3, 2)


@pytest.mark.kata("level15.selective.choose_tokens")
def test_chosen_tokens_are_exact_in_all_heads(expect):
    """Each prompt's own choice; tokens are the third axis. What was not made again may hold anything, even NaN."""
    exact = torch.full_like(MAPPED, torch.nan)
    exact[0, :, 2], exact[1, :, 0] = 100.0, 200.0
    right = MAPPED.clone()
    right[0, :, 2], right[1, :, 0] = 100.0, 200.0
    expect(patch_tokens, MAPPED, exact, torch.tensor([[2], [0]])).equals(right)
    lost = MAPPED.clone()
    lost[0, :, 2] = torch.nan  # and what is replaced may hold anything as well
    expect(patch_tokens, lost, exact, torch.tensor([[2], [0]])).equals(right)
    lost[1, 0, 1, 0] = right[1, 0, 1, 0] = torch.nan  # but nothing else is repaired
    expect(patch_tokens, lost, exact, torch.tensor([[2], [0]])).equals(right)


@pytest.mark.kata("level15.selective.choose_tokens")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_several_tokens_and_all_and_none(expect, dtype):
    """Oracle: loops. With 3 prompts and 2 heads no axis can stand for another."""
    mapped, exact = draw(3, 2, 5, 4, seed=6).to(dtype), draw(3, 2, 5, 4, seed=7).to(dtype)
    for chosen in ([[0, 4], [1, 2], [0, 1]], [[0, 1, 2, 3, 4]] * 3, [[]] * 3, [[1, 2, 3], [0, 2, 4], [2, 3, 4]]):
        right = mapped.clone()
        for b, tokens in enumerate(chosen):
            for s in tokens:
                right[b, :, s] = exact[b, :, s]
        expect(patch_tokens, mapped, exact, torch.tensor(chosen, dtype=torch.int64)).equals(right, rel=0, abs=0)


def written_to(mapped, exact, chosen):
    """(what was patched, the mapped cache after somebody has written into the result)."""
    mapped, exact = mapped.clone(), exact.clone()
    patched = patch_tokens(mapped, exact, chosen)
    seen = patched.clone()
    patched[:] = -1
    return seen, mapped, exact


@pytest.mark.kata("level15.selective.choose_tokens")
def test_both_caches_stay_as_they_were(expect):
    """The mapped cache is shared with whoever reads it next: the result is a copy, also where nothing is chosen."""
    nothing, one = torch.empty(2, 0, dtype=torch.int64), torch.tensor([[1], [1]])
    everything = torch.tensor([[0, 1, 2]] * 2)
    patched = MAPPED.clone()
    patched[:, :, 1] += 50
    for chosen, right in ((nothing, MAPPED), (one, patched), (everything, MAPPED + 50)):
        expect(written_to, MAPPED, MAPPED + 50, chosen).equals((right, MAPPED, MAPPED + 50))


# ---- contiguous_layers, judged with choose_tokens


@pytest.mark.kata("level15.selective.choose_tokens")
def test_the_block_of_layers_that_matters_most(expect):
    """By hand: 4 + 4 beats 6 + 1. The block with the largest sum is not around the largest layer."""
    expect(contiguous_layers, [2, 6, 1, 4, 4, 3], 1).equals(1)
    sensitivity = [1, 6, 1, 4, 4, 1]
    for budget, right in ((1, 1), (2, 3), (3, 1), (4, 1), (5, 0), (6, 0)):
        expect(contiguous_layers, sensitivity, budget).equals(right)
    expect(contiguous_layers, [0.5, 0.25, 0.125, 4.0, 3.0], 2).equals(3)
    expect(contiguous_layers, [2.0, -1.0, 2.5], 2).equals(1)
    expect(contiguous_layers, [-3.0, -1.0, -2.0], 1).equals(1)
    expect(contiguous_layers, [-3.0, -1.0, -2.0], 2).equals(1)


@pytest.mark.kata("level15.selective.choose_tokens")
def test_of_equal_blocks_the_earliest(expect):
    """Ties at the front, at the end and everywhere; the sums are of powers of two, so nothing is rounded."""
    expect(contiguous_layers, [1, 1, 1, 1], 2).equals(0)
    expect(contiguous_layers, [0.0, 2.0, 0.5, 1.5, 1.0, 1.0], 2).equals(1)
    expect(contiguous_layers, [0, 3, 5, 3, 0], 2).equals(1)
    expect(contiguous_layers, (4, 1, 4), 1).equals(0)
    expect(contiguous_layers, [1, 2], 3).raises(ValueError)
    expect(contiguous_layers, [1, 2], 0).raises(ValueError)


@pytest.mark.kata("level15.selective.choose_tokens")
@pytest.mark.parametrize("budget", [1, 3, 8])
def test_of_thirty_layers(expect, budget):
    """Oracle: differences of running sums."""
    sensitivity = [(7 * i * i + 3 * i) % 31 for i in range(30)]
    sums = [0, *accumulate(sensitivity)]
    blocks = [sums[i + budget] - sums[i] for i in range(31 - budget)]
    expect(contiguous_layers, sensitivity, budget).equals(blocks.index(max(blocks)))
