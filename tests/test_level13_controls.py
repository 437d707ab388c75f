"""The negative controls of level 13's checkpoint: what it refuses, and the right programs that it accepts."""

from itertools import product

import numpy as np
import pytest

from dojo.expect import Expect, Mismatch
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of

LEVELS = [f"level{n:02}" for n in range(14)]


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of(*LEVELS):
        yield checkpoint_of("level13")


@pytest.fixture(scope="module")
def layer(checkpoint):
    return checkpoint.layer.__wrapped__()


def in_tiles(multiply):
    """A tiled_matmul with the loads that the solution makes, that multiplies two tiles in another way."""

    def tiled(memory, tile_m, tile_n, tile_k):
        m, n, k = memory.shape
        out = np.zeros((m, n))
        for top, left, start in product(range(0, m, tile_m), range(0, n, tile_n), range(0, k, tile_k)):
            bottom, right, end = min(top + tile_m, m), min(left + tile_n, n), min(start + tile_k, k)
            a, b = memory.load("a", top, bottom, start, end), memory.load("b", start, end, left, right)
            multiply(out[top:bottom, left:right], a, b)
        return out

    return tiled


@in_tiles
def row_by_row(out, a, b):
    for row in range(len(a)):
        out[row] += a[row] @ b


@in_tiles
def in_float64(out, a, b):
    """A right program: each tile is converted before it is multiplied."""
    out += a.astype(float) @ b.astype(float)


def timed(checkpoint):
    """(tiles as a whole, row by row, numpy's own product), for the clock."""
    memory, whole = checkpoint.products()
    return (
        lambda: checkpoint.tiled_matmul(memory, *checkpoint.TILED),
        lambda: row_by_row(memory, *checkpoint.TILED),
        whole,
    )


def test_the_clock_tells_right_from_wrong(checkpoint):
    right, wrong, whole = timed(checkpoint)
    assert np.allclose(right(), wrong(), atol=1e-3), "only the work differs"
    slow = judge(wrong, whole, need=checkpoint.NEED, rounds=2, attempts=1)
    assert slow.state == "fail", str(slow)
    memory = checkpoint.products()[0]
    for program in (right, lambda: in_float64(memory, *checkpoint.TILED)):
        passed = judge(program, whole, need=checkpoint.NEED)
        assert passed.state == "pass", str(passed)


def refuses(test, *args, match: str | None = None) -> None:
    with pytest.raises(Mismatch, match=match):
        test(Expect(), *args)


def test_rows_that_are_loaded_one_by_one_are_too_many_elements(checkpoint, layer, monkeypatch):
    true = checkpoint.tiled_matmul
    monkeypatch.setattr(checkpoint, "tiled_matmul", lambda memory, m, n, k: true(memory, 1, n, k))
    refuses(checkpoint.test_tiles_compute_the_models_layer, layer, match="4458240")


def test_a_step_that_is_late_is_refused(checkpoint, layer, monkeypatch):
    true = checkpoint.systolic_matmul
    monkeypatch.setattr(checkpoint, "systolic_matmul", lambda x, array: (true(x, array)[0], true(x, array)[1] + 1))
    refuses(checkpoint.test_the_array_computes_the_models_layer, layer)


def test_a_roofline_without_waves_is_refused(checkpoint, monkeypatch):
    """What level 04 would say: bytes or FLOPs, no padding and no SMs that wait."""
    from level04.ceiling import step_seconds
    from level13 import waves

    def plain(m, n, k, hardware=waves.H100, *tiles):
        return step_seconds({"flops": 2 * m * n * k, "bytes": 2 * (m * k + k * n + m * n)}, hardware)

    monkeypatch.setattr(waves, "gemm_seconds", plain)
    monkeypatch.setattr(checkpoint, "gemm_seconds", plain)
    right = [111.7, 112.4, 346.3, 687.1]
    refuses(checkpoint.test_what_1_8_64_and_512_tokens_take, "SmolLM2", right, 80.3)
    refuses(checkpoint.test_a_tile_of_128_rows_for_one_token_makes_decode_wait, "SmolLM2", 671.9)


def test_weights_that_load_in_no_time_are_refused(checkpoint, monkeypatch):
    true = checkpoint.systolic_cycles
    tiles = lambda n, k: -(-k // 128) * -(-n // 128)  # noqa: E731
    monkeypatch.setattr(checkpoint, "systolic_cycles", lambda m, n, k, r, c: true(m, n, k, r, c) - 128 * tiles(n, k))
    refuses(checkpoint.test_a_systolic_array_waits_for_its_weights, 1, 3_607_860)
