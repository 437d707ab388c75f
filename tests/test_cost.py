"""dojo.cost: every trap that a naive count falls into, with the right number worked out by hand.

float32 throughout, so an element is 4 bytes.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dojo.cost import count, count_calls, python_peak

MODES = [torch.no_grad, torch.inference_mode]
modes = pytest.mark.parametrize("mode", MODES, ids=["no_grad", "inference_mode"])


@modes
def test_a_matrix_product_reads_both_and_writes_one(mode):
    x, w = torch.ones(3, 8), torch.ones(5, 8)
    with mode():
        cost = count(lambda: x @ w.T)
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (2 * 3 * 5 * 8, 4 * (24 + 40), 4 * 15)
    assert cost.bytes == cost.bytes_read + cost.bytes_written
    assert cost.peak_bytes == 60 and cost.largest == (15, 60)
    assert cost.result.shape == (3, 5)


@modes
@pytest.mark.parametrize(
    "call, flops",
    [
        (lambda a, b: a @ b[0], 2 * 6 * 6),  # mv
        (lambda a, b: a[0] @ b[0], 2 * 6),  # dot
        (lambda a, b: torch.addmv(a[0], a, b[0]), 2 * 6 * 6),
        (lambda a, b: torch.einsum("ij,kj->ik", a, b), 2 * 6**3),
        (lambda a, b: F.linear(a, b, a[0]), 2 * 6**3),  # addmm
        (lambda a, b: F.linear(a.view(2, 3, 6), b), 2 * 6**3),
        (lambda a, b: torch._int_mm(a.char(), b.char()), 2 * 6**3),
    ],
    ids=["mv", "dot", "addmv", "einsum", "addmm", "batched", "int_mm"],
)
def test_products_that_the_flop_counter_would_miss_are_counted(mode, call, flops):
    with mode():
        assert count(call, torch.ones(6, 6), torch.ones(6, 6)).flops == flops


@modes
@pytest.mark.parametrize("q_len", [1, 8])
def test_sdpa_on_the_cpu_has_flops_and_no_score_matrix(mode, q_len):
    """Two products of 2 * heads * Q * K * D; it reads q, k, v and writes the result and one float32 per row."""
    q, k, v = torch.rand(1, 2, q_len, 16), torch.rand(1, 2, 8, 16), torch.rand(1, 2, 8, 16)
    with mode():
        cost = count(F.scaled_dot_product_attention, q, k, v)
    assert cost.flops == 4 * 2 * q_len * 8 * 16
    assert cost.bytes_read == 4 * (q.numel() + 2 * k.numel())
    assert cost.bytes_written == 4 * (q.numel() + 2 * q_len)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.linear(x, x),
        lambda x: torch.einsum("ij,jk->ik", x, x),
        lambda x: F.softmax(x, -1),
        lambda x: F.rms_norm(x, (16,)),
        lambda x: x.repeat_interleave(3, 0),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: F.silu(x) * x.reshape(8, 32).reshape(16, 16),
    ],
    ids=["linear", "einsum", "softmax", "rms_norm", "repeat", "sdpa", "silu"],
)
def test_inference_mode_hides_nothing(call):
    """There a composite operator arrives whole: undecomposed, its intermediates would not be counted."""
    costs = []
    for mode in MODES:
        with mode():
            costs.append(count(call, torch.rand(16, 16)))
    seen = [(c.flops, c.bytes_read, c.bytes_written, c.peak_bytes, c.largest) for c in costs]
    assert seen[0] == seen[1] and costs[0].bytes > 0


def test_views_are_free():
    x = torch.ones(4, 6, 8)
    cost = count(lambda: x.view(24, 8).T[2:5].unsqueeze(0).expand(7, -1, -1).chunk(2, -1)[0].detach())
    assert cost.bytes == cost.peak_bytes == 0 and cost.largest == (0, 0)
    assert count(lambda: torch.empty(100)).bytes == 0


def test_a_reshape_that_must_copy_is_not_free():
    x = torch.ones(4, 6)
    cost = count(lambda: x.T.reshape(24))
    assert (cost.bytes_read, cost.bytes_written) == (96, 96)


def test_an_expanded_tensor_is_read_once():
    row, x = torch.ones(1, 64), torch.ones(10, 64)
    assert count(lambda: row.expand(10, 64) + x).bytes_read == 4 * (64 + 640)
    # a window slides over 16 elements: overlapping views address no more memory than there is
    assert count(lambda: torch.ones(16).unfold(0, 8, 1).exp()).bytes_read == 64


def test_one_tensor_twice_is_read_once():
    x = torch.ones(100)
    assert count(lambda: x * x).bytes_read == 400


@modes
@pytest.mark.parametrize(
    "call",
    [
        lambda w, ids: F.embedding(ids, w),
        lambda w, ids: w[ids],
        lambda w, ids: w.index_select(0, ids),
        lambda w, ids: w.gather(0, ids[:, None].expand(3, 16)),
    ],
    ids=["embedding", "index", "index_select", "gather"],
)
def test_a_look_up_reads_the_rows_that_it_takes(mode, call):
    """Three rows of 16 out of a thousand, and three int64 ids."""
    with mode():
        cost = count(call, torch.ones(1000, 16), torch.tensor([5, 7, 5]))
    assert (cost.bytes_read, cost.bytes_written) == (3 * 64 + 3 * 8, 3 * 64)


def test_copy_does_not_read_its_target():
    cache, k = torch.zeros(2, 100, 16), torch.ones(2, 16)

    def write():
        cache[:, 40] = k

    cost = count(write)
    assert (cost.bytes_read, cost.bytes_written, cost.peak_bytes) == (128, 128, 0)


def test_adding_in_place_reads_its_target():
    x, y = torch.ones(10), torch.ones(10)
    assert (count(x.add_, y).bytes_read, count(x.add_, y).bytes_written) == (80, 40)


@pytest.mark.parametrize("value", [torch.ones(3, 16), torch.tensor(0.0)], ids=["rows", "scalar"])
def test_an_indexed_assignment_writes_only_what_it_touches(value):
    cache, slots = torch.zeros(1000, 16), torch.tensor([9, 2, 500])

    def write():
        cache[slots] = value

    cost = count(write)
    assert (cost.bytes_read, cost.bytes_written) == (24 + 4 * value.numel(), 3 * 64)
    assert cost.largest.bytes <= 3 * 64


@pytest.mark.parametrize(
    "call, read",
    [
        (lambda x, at: x.index_copy_(0, at, torch.ones(3, 16)), 24 + 192),
        (lambda x, at: x.index_add_(0, at, torch.ones(3, 16)), 24 + 192 + 192),
        (lambda x, at: x.index_fill_(0, at, 1.0), 24),
        (lambda x, at: x.scatter_(0, index=at[:, None].expand(3, 16), value=1.0), 24),
    ],
    ids=["index_copy_", "index_add_", "index_fill_", "scatter_"],
)
def test_other_indexed_writes_too(call, read):
    cost = count(call, torch.zeros(1000, 16), torch.tensor([9, 2, 500]))
    written = cost.bytes_written - (192 if "ones" in cost.calls else 0)
    assert (cost.bytes_read, written) == (read, 192)


def test_an_out_argument_is_written_and_not_read():
    w, x, y = torch.ones(50, 8), torch.ones(8), torch.ones(50)
    cost = count(lambda: torch.mv(w, x, out=y))
    assert (cost.flops, cost.bytes_read, cost.bytes_written, cost.peak_bytes) == (800, 4 * 408, 200, 0)


def test_the_peak_counts_what_is_alive_at_once():
    def chain(x):
        for _ in range(5):
            x = x + 1
        return x

    cost = count(chain, torch.ones(250))
    assert cost.peak_bytes == 2000  # the old and the new one
    assert cost.bytes_written == 5000


def test_what_existed_before_is_no_allocation():
    weights = torch.ones(1000)
    assert count(lambda: weights.view(10, 100).sum(), known=[weights]).peak_bytes == 4
    assert count(weights.mul_, 2).peak_bytes == 0


def test_a_buffer_that_grows_counts_its_growth():
    buffer = torch.ones(100)
    cost = count(lambda: buffer.resize_(350))
    assert cost.peak_bytes == 1000 and cost.largest == (350, 1400)


def test_a_tensor_made_from_a_list_is_an_allocation():
    assert count(lambda: torch.tensor([1.0, 2.0, 3.0])).peak_bytes == 12


def test_a_growing_cat_cache_shows_in_the_peak_and_not_in_the_bytes():
    """Why there are several counts: of a decode step's traffic the copy of the cache is a rounding error."""
    w, cache, k = torch.ones(1000, 1000), torch.ones(99, 100), torch.ones(1, 100)
    buffer = torch.ones(128, 100)

    def grows():
        return w @ w[0], torch.cat([cache, k])

    def in_place():
        buffer[99:100] = k
        return w @ w[0], buffer[:100]

    bad, good = count(grows), count(in_place)
    assert bad.bytes < 1.03 * good.bytes
    assert bad.peak_bytes > 10 * good.peak_bytes and bad.largest.elements == 100 * 100


def test_a_mask_takes_and_writes_only_what_it_selects():
    """Two rows of four: the mask is read in full, the rows are read or written."""
    x, mask = torch.ones(100, 4), torch.zeros(100, dtype=torch.bool)
    mask[[3, 50]] = True
    taken = count(lambda: x[mask])
    assert (taken.bytes_read, taken.bytes_written) == (100 + 32, 32)

    def write():
        x[mask] = torch.full((2, 4), 7.0)

    assert count(write).bytes_written == 32 + 32  # the new rows, and their copy in x
    assert x[3, 0] == 7


def test_an_error_inside_comes_out_and_leaves_no_counter_behind():
    with pytest.raises(ZeroDivisionError):
        count(lambda: torch.ones(2).sum().item() / 0)
    assert count(lambda: torch.ones(2) + 1).calls["add"] == 1


def test_operators_are_counted_by_name():
    calls = count(lambda x: (x @ x @ x).sort(), torch.rand(4, 4)).calls
    assert calls["mm"] == 2 and calls["sort"] == 1 and calls["topk"] == 0


def test_counting_does_not_disturb_autograd():
    w = torch.ones(4, 4, requires_grad=True)
    cost = count(lambda: (w @ w.detach()).sum().backward())
    assert w.grad is not None and cost.flops == 2 * 2 * 4**3


def test_the_matrices_of_a_decode_step_add_up():
    """The tiny model, one token: 2 FLOPs per weight; the bytes are the weights, within what activations add."""
    from dojo.models import TINY, matrices, random_params

    weights = matrices(random_params(TINY))
    inputs = {w.shape[1]: torch.ones(w.shape[1]) for w in weights}
    cost = count(lambda: [w @ inputs[w.shape[1]] for w in weights])
    total = sum(w.numel() for w in weights)
    assert cost.flops == 2 * total and 4 * total < cost.bytes < 4.5 * total


def test_calls_of_a_function_are_counted():
    counted = count_calls(max)
    assert [counted(1, 2), counted(3, 1)] == [2, 3] and counted.calls == 2


def test_the_python_peak_sees_numpy():
    x = np.ones(100_000)
    peak = python_peak(lambda: (x + 1, x + 2))
    assert 1_600_000 <= peak < 1_610_000  # two sums of 800 kB; x was there before
    assert python_peak(lambda: None) < 10_000


def test_what_fits_on_the_chip_moves_nothing():
    """Two levels of memory: of the chain large -> small -> small -> large only the ends are read and written."""
    large, at = torch.ones(64, 64), torch.tensor([0])

    def chain():
        row = large[3] + 1  # reads 64 of a large tensor, writes a small one
        row = row * 2
        out = row.expand(64, 64) + 0  # writes a large one
        out[at] = row
        return out[:2, :2] + large[at][0, :2]

    cost = count(chain, known=[large, at], on_chip=64 * 4)
    assert cost.bytes_read == 64 * 4 + 64 * 4 + 4 * 4  # the row, the gathered row, four of the result
    assert cost.bytes_written == 64 * 64 * 4 + 64 * 4  # the large result, and a row of it again
    assert count(chain, known=[large, at], on_chip=64 * 64 * 4).bytes == 0
    assert count(chain, known=[large, at]).bytes_read > cost.bytes_read
