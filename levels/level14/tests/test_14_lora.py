"""Judges lora.py by stored values of peft, by sums on paper, by formulas of the gradients, and by what it makes.

alpha is never the rank, and no two sizes are equal: a forgotten factor or a transposed matrix shows.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from dojo.cost import count
from level14.lora import lora_init, lora_linear, lora_merge, lora_params, lora_scale, lora_unmerge

T = torch.tensor
STORED = json.loads(Path(__file__).with_name("peft_bitsandbytes.json").read_text())
RANK, ALPHA = STORED["rank"], STORED["alpha"]
PEFT = {name: {key: T(value) for key, value in stored.items()} for name, stored in STORED["lora"].items()}
FLOAT32 = {"rel": 1e-4, "abs": 1e-4}  # values up to 50, sums in another order
ONCE = {"rel": 1e-6, "abs": 0}  # rounded to bfloat16 once: the same number


def stored_inputs():
    """x (2, 3, 12), weight (10, 12), a (4, 12), b (10, 4), as tools/oracles/level14.py drew them."""
    generator = np.random.RandomState(STORED["seed"])
    shapes = (2, 3, 12), (10, 12), (RANK, 12), (10, RANK)
    return [T(generator.standard_normal(shape).astype(np.float32)) for shape in shapes]


X, W, A, B = stored_inputs()


def draw(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


class Quantized:
    """A weight that is no tensor: what is stored, and two ways to use it."""

    def __init__(self, stored):
        self.stored, self.shape, self.dtype, self.nbytes = stored, stored.shape, stored.dtype, stored.numel() // 2

    def dequantize(self):
        return self.stored

    def linear(self, x):
        return x @ self.stored.to(x.dtype).T


# ---- lora_scale, lora_params


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize(
    "alpha, r, plain, stabilized",
    [(16, 4, 4.0, 8.0), (16, 16, 1.0, 4.0), (16, 8, 2.0, 5.656854), (2, 9, 0.2222222, 0.6666667)],
)
def test_alpha_over_the_rank_or_over_its_root(expect, alpha, r, plain, stabilized):
    """Served with the other factor, an adapter of rank 16 is 4 times too weak or too strong, and no error says so."""
    expect(lora_scale, alpha, r).equals(plain)
    expect(lora_scale, alpha, r, True).equals(stabilized)


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize(
    "shapes, r, right",
    [
        ([(10, 4)], 1, 14),
        ([(576, 576), (192, 576)] * 30, 8, 460800),
        ([(4096, 4096), (1024, 4096)] * 32, 16, 6815744),
        ([(7, 3), (2, 5)], 3, 51),
        ([], 8, 0),
    ],
    ids=["one", "q and v of SmolLM2", "q and v of Llama 3.1 8B", "two", "none"],
)
def test_an_adapter_is_two_thin_matrices(expect, shapes, r, right):
    """r (out + in) numbers of each: less than a thousandth of an 8B model. A hundred tenants' fit beside it."""
    expect(lora_params, shapes, r).equals(right)


# ---- lora_linear


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize("alpha, right", [(2, [7.0, 2.0]), (1, [4.0, 2.0]), (8, [25.0, 2.0])])
def test_on_paper(expect, alpha, right):
    """x = [1, 2], a = [1, 1] gives 3, b sends it to the first feature, rank 1: 1 + alpha 3. The rest stays."""
    a, b = T([[1.0, 1.0]]), T([[1.0], [0.0]])
    expect(lora_linear, T([1.0, 2.0]), torch.eye(2), a, b, alpha).equals(T(right))


@pytest.mark.kata("level14.lora.lora_linear")
def test_eight_ones_of_rank_and_an_alpha_of_sixteen(expect):
    """4 · 8 · 16 / 8 = 64. Without the division 512: updates 8 times too large, and a training that explodes."""
    x, w, a, b = torch.ones(4), torch.zeros(1, 4), torch.ones(8, 4), torch.ones(1, 8)
    expect(lora_linear, x, w, a, b, 16).equals(T([64.0]))
    expect(lora_linear, x, w, a, b, 16, True).equals(T([32 * 16 / math.sqrt(8)]))


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize("name", ["plain", "rank_stabilized"])
def test_it_is_the_layer_of_peft(expect, name):
    """Adapters come from there: what was trained with its factor must be served with it. Two batch axes."""
    expect(lora_linear, X, W, A, B, ALPHA, name == "rank_stabilized").equals(PEFT[name]["output"], **FLOAT32)


@pytest.mark.kata("level14.lora.lora_linear")
def test_with_b_of_zero_nothing_changes(expect):
    """Training starts from the model as it is, whatever a is."""
    expect(lora_linear, X, W, A, 0 * B, ALPHA).equals(torch.nn.functional.linear(X, W), rel=1e-6, abs=1e-6)


@pytest.mark.kata("level14.lora.lora_linear")
def test_the_frozen_weight_may_be_quantized(expect):
    """Then it is no tensor, and is applied in its own way. QLoRA is no more than this."""
    expect(lora_linear, X, Quantized(W), A, B, ALPHA).equals(PEFT["plain"]["output"], **FLOAT32)


@pytest.mark.kata("level14.lora.lora_linear")
def test_a_float32_adapter_works_in_float32(expect):
    """On bfloat16 activations, with a frozen weight of 0: the low-rank part is rounded once, at the end. In
    bfloat16 the small steps of training would be rounded away. The result has the activations' type."""
    x, a, b = draw(5, 12, seed=1).bfloat16(), draw(4, 12, seed=2).float(), draw(10, 4, seed=3).float()
    exact = 2.5 * (x.double() @ a.double().T) @ b.double().T
    expect(lora_linear, x, torch.zeros(10, 12, dtype=x.dtype), a, b, 10).equals(exact.bfloat16(), **ONCE)


@pytest.mark.kata("level14.lora.lora_linear")
def test_float64_stays_float64(expect):
    """All in one type, to 1e-12: nothing on the way is float32."""
    x, w, a, b = draw(3, 7, seed=1), draw(5, 7, seed=2), draw(2, 7, seed=3), draw(5, 2, seed=4)
    right = torch.einsum("ni,oi->no", x, w + 1.5 * torch.einsum("or,ri->oi", b, a))
    expect(lora_linear, x, w, a, b, 3).equals(right, rel=1e-12, abs=1e-12)


def gradients(x, w, a, b, alpha, rank_stabilized, g):
    x, a, b = (part.clone().requires_grad_() for part in (x, a, b))
    (lora_linear(x, w, a, b, alpha, rank_stabilized) * g).sum().backward()
    return x.grad, a.grad, b.grad


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize("rank_stabilized", [False, True])
def test_both_thin_matrices_and_the_input_have_gradients(expect, rank_stabilized):
    """s Bᵀgᵀx, s gᵀxAᵀ and g (W + s B A). Without the input's own, the layers below would not learn."""
    x, w, a, b, g = draw(3, 7, seed=1), draw(5, 7, seed=2), draw(2, 7, seed=3), draw(5, 2, seed=4), draw(3, 5, seed=5)
    s = 3 / math.sqrt(2) if rank_stabilized else 1.5
    right = g @ (w + s * b @ a), s * b.T @ g.T @ x, s * g.T @ x @ a.T
    expect(gradients, x, w, a, b, 3, rank_stabilized, g).equals(right, rel=1e-12, abs=1e-12)


def work(tokens, n_in, n_out, r, learn):
    """(FLOPs, elements of the largest tensor made) of one layer, or of its training step with a frozen weight."""
    parts = [torch.zeros(tokens, n_in), torch.zeros(n_out, n_in), torch.zeros(r, n_in), torch.zeros(n_out, r)]
    a, b = parts[2:] = [part.requires_grad_(learn) for part in parts[2:]]

    def run():
        y = lora_linear(parts[0], parts[1], a, b, 2 * r)
        return y.sum().backward() if learn else y

    cost = count(run, known=parts)
    return cost.flops, cost.largest.elements


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize("tokens, n_in, n_out, r, learn", [(3, 40, 50, 2, False), (5, 64, 48, 3, True)])
def test_no_matrix_of_the_large_ones_size_is_made(expect, tokens, n_in, n_out, r, learn):
    """B A costs r · out · in multiplications at every call, and as many bytes as the frozen weight. Down to r and up
    again is a few percent of the layer's own work; backwards it is twice that."""
    thin = 2 * tokens * r * (n_in + n_out)
    most = 2 * tokens * n_in * n_out + (3 if learn else 1) * thin
    widest = max(tokens, r) * max(n_in, n_out)
    seen = expect(work, tokens, n_in, n_out, r, learn)
    seen.holds(lambda found: found[0] <= most, f"at most {most} FLOPs, those of the layer and of two thin products")
    seen.holds(lambda found: found[1] <= widest, f"no tensor of more than {widest} elements, as W has {n_in * n_out}")


# ---- lora_init


def shapes_and_zeros(n_out, n_in, r, dtype):
    a, b = lora_init(n_out, n_in, r, torch.Generator().manual_seed(7), dtype)
    return tuple(a.shape), tuple(b.shape), a.dtype, b.dtype, bool((a != 0).any()), bool((b != 0).any())


@pytest.mark.kata("level14.lora.lora_linear")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_is_drawn_and_b_is_zero(expect, dtype):
    """B A = 0: training starts from the model as it was. With a = 0 as well, no gradient would ever reach either."""
    right = (4, 7), (10, 4), dtype, dtype, True, False
    expect(shapes_and_zeros, 10, 7, 4, dtype).equals(right)


def spread(n_out, n_in, r):
    """In units of 1 / sqrt(in): largest magnitude, root mean square, share below half, mean."""
    a = lora_init(n_out, n_in, r, torch.Generator().manual_seed(5))[0].double() * math.sqrt(n_in)
    return [float(z) for z in (a.abs().max(), a.square().mean().sqrt(), (a.abs() < 0.5).double().mean(), a.mean())]


@pytest.mark.kata("level14.lora.lora_linear")
def test_a_is_uniform_between_plus_and_minus_one_over_the_root_of_the_width(expect):
    """x Aᵀ is then about as large whatever the width. Of 2500 numbers: largest magnitude 1, root mean square .577, half
    of them below a half, mean 0. Allowed is .06, five standard deviations."""
    for n_out, n_in in [(40, 100), (300, 100)]:

        def uniform(found):
            return all(abs(x - y) < 0.06 for x, y in zip(found, [1 - 0.03, 1 / math.sqrt(3), 0.5, 0])) and found[0] <= 1

        expect(spread, n_out, n_in, 25).holds(uniform, "uniform in ±1 / sqrt(in), here ±0.1")


def drawn_twice(n):
    """Are n adapters of one generator all different, the same again from the same seed, and no other one used?"""
    before = torch.get_rng_state()
    first, again = (torch.Generator().manual_seed(3) for _ in range(2))
    runs = [[lora_init(6, 5, 2, generator)[0] for _ in range(n)] for generator in (first, again)]
    differ = all(not torch.equal(x, y) for i, x in enumerate(runs[0]) for y in runs[0][:i])
    same = all(map(torch.equal, *runs))
    return differ, same, torch.equal(before, torch.get_rng_state())


@pytest.mark.kata("level14.lora.lora_linear")
def test_it_is_drawn_from_the_generator_alone(expect):
    """A run can be repeated only if it is; and two layers must not start with the same matrix."""
    expect(drawn_twice, 3).equals((True, True, True))


@pytest.mark.kata("level14.lora.lora_linear")
def test_a_rank_above_the_shorter_side_is_refused(expect):
    """It could do no more than the matrix itself, and would be larger. The shorter side itself is a rank."""
    expect(shapes_and_zeros, 3, 4, 3, torch.float32).equals(((3, 4), (3, 3), torch.float32, torch.float32, True, False))
    expect(shapes_and_zeros, 3, 4, 4, torch.float32).raises(ValueError)
    expect(lora_linear, T([1.0, 2.0]), torch.eye(2), torch.ones(2, 2), torch.ones(2, 1), 2).raises(ValueError)


# ---- lora_merge


@pytest.mark.kata("level14.lora.lora_merge")
@pytest.mark.parametrize("alpha, right", [(2, [[3.0, 2.0], [0.0, 1.0]]), (1, [[2.0, 1.0], [0.0, 1.0]])])
def test_the_matrix_gets_its_adapter(expect, alpha, right):
    """By hand: B A = [[1, 1], [0, 0]], rank 1. Merged, a tenant's model is as fast as the base model."""
    expect(lora_merge, torch.eye(2), T([[1.0, 1.0]]), T([[1.0], [0.0]]), alpha).equals(T(right))


@pytest.mark.kata("level14.lora.lora_merge")
@pytest.mark.parametrize("name", ["plain", "rank_stabilized"])
def test_it_is_the_matrix_that_peft_merges(expect, name):
    """With the factor of the forward pass: an adapter that is merged with another one is another adapter."""
    expect(lora_merge, W, A, B, ALPHA, name == "rank_stabilized").equals(PEFT[name]["merged"], **FLOAT32)


@pytest.mark.kata("level14.lora.lora_merge")
def test_a_quantized_weight_is_merged_as_the_adapter_saw_it(expect):
    """.30 was quantized to .25 and the adapter learned .05 beside that: .30 in all. On the weight as it was before it
    would be .35, a model that nobody has trained."""
    a, b = T([[0.1, 0.2]]), T([[0.25], [0.5]])
    weight = Quantized(T([[0.25, -0.5], [0.125, 0.0]]))
    expect(lora_merge, weight, a, b, 2).equals(T([[0.30, -0.4], [0.225, 0.2]]))


def merge_and_look(stored, a, b):
    """The result, the stored matrix behind it, and whether writing into the result reaches that."""
    weight = Quantized(stored.clone())
    result = lora_merge(weight, a, b, 3)
    kept = result.clone()
    result.fill_(9)
    return kept, weight.stored


@pytest.mark.kata("level14.lora.lora_merge")
@pytest.mark.parametrize("learned", [1, 0], ids=["an adapter", "an adapter of zeros"])
def test_nothing_is_changed(expect, learned):
    """The base matrix serves other tenants as well: neither is it merged into in place, nor is the result a view of it,
    not even where there is nothing to add."""
    stored, a, b = draw(5, 7, seed=2), draw(2, 7, seed=3), learned * draw(5, 2, seed=4)
    expect(merge_and_look, stored, a, b).equals((stored + 1.5 * b @ a, stored))
    expect(written_into, stored, a, b).equals(stored)


def written_into(w, a, b):
    w = w.clone()
    lora_merge(w, a, b, 3).fill_(9)
    return w


@pytest.mark.kata("level14.lora.lora_merge")
def test_a_half_precision_matrix_is_rounded_once(expect):
    """The sum is made in float32; B A rounded to bfloat16 before it is added loses what training has gained. The type
    is the matrix's, whatever the adapter's is."""
    w, a, b = draw(6, 9, seed=1).bfloat16(), draw(3, 9, seed=2).bfloat16(), draw(6, 3, seed=3).bfloat16()
    exact = w.double() + 5 / 3 * b.double() @ a.double()
    expect(lora_merge, w, a, b, 5).equals(exact.bfloat16(), **ONCE)
    expect(lora_merge, w, a.float(), b.float(), 5).equals(exact.bfloat16(), **ONCE)
    expect(lora_merge, Quantized(w), a.float(), b.float(), 5).equals(exact.bfloat16(), **ONCE)
    expect(lora_merge, w.double(), a.float(), b.float(), 5).equals(exact)


# ---- lora_unmerge


@pytest.mark.kata("level14.lora.lora_merge")
@pytest.mark.parametrize("name", ["plain", "rank_stabilized"])
def test_what_peft_has_merged_comes_out_again(expect, name):
    """The next tenant's adapter goes onto the base matrix, with no second copy of it kept."""
    expect(lora_unmerge, PEFT[name]["merged"], A, B, ALPHA, name == "rank_stabilized").equals(W, **FLOAT32)


@pytest.mark.kata("level14.lora.lora_merge")
def test_taking_out_is_subtracting_once(expect):
    """By hand, and of half precision: the type stays."""
    a, b = T([[1.0, 1.0]]), T([[1.0], [0.0]])
    expect(lora_unmerge, T([[3.0, 2.0], [0.0, 1.0]]), a, b, 2).equals(torch.eye(2))
    expect(lora_unmerge, T([[3.0, 2.0], [0.0, 1.0]]).bfloat16(), a, b, 2).equals(torch.eye(2).bfloat16())
    expect(taken_out_and_written_into, torch.eye(2), a, 0 * b).equals(torch.eye(2))


def taken_out_and_written_into(merged, a, b):
    merged = merged.clone()
    lora_unmerge(merged, a, b, 3).fill_(9)
    return merged
