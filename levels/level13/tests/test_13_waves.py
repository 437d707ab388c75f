"""Judges waves.py by a timetable: tiles go to SMs one by one, and a wave is over when all of it are done."""

from collections import deque

import pytest

from level04.roofline import H100, Hardware
from level13.waves import gemm_seconds, tile_quantization, wave_quantization

TOY = Hardware("toy", 100.0, 10.0, 1.0)


def timetable(m, n, tile_m, tile_n, sms, per_sm):
    """Oracle: (tiles, waves, efficiency), the places of each wave filled one by one."""
    waiting = deque((i, j) for i in range(0, m, tile_m) for j in range(0, n, tile_n))
    tiles, waves, places = len(waiting), 0, 0
    while waiting:
        waves += 1
        for _ in range(sms * per_sm):
            places += 1
            if waiting:
                waiting.popleft()
    return tiles, waves, tiles / places


@pytest.mark.kata("level13.waves.wave_quantization")
@pytest.mark.parametrize(
    "m, n, tile_m, tile_n, sms, per_sm",
    [
        (5, 8, 2, 4, 4, 1),  # the docstring's example
        (1024, 2176, 128, 128, 132, 1),  # 136 tiles: the second wave has 4
        (1024, 2176, 128, 128, 132, 2),  # and all at once
        (1, 4096, 128, 128, 132, 1),  # 32 tiles, none of them whole
        (8, 12, 2, 4, 6, 1),  # two full waves
        (8, 12, 2, 4, 3, 4),  # one full wave
        (9, 13, 2, 4, 3, 2),  # 20 tiles; their area would be 15
        (129, 30, 64, 7, 4, 1),
        (2, 3, 5, 7, 1, 1),
    ],
)
def test_tiles_and_waves(expect, m, n, tile_m, tile_n, sms, per_sm):
    """One tile more than there are SMs, and a layer takes twice as long. Oracle: a timetable."""
    right = timetable(m, n, tile_m, tile_n, sms, per_sm)
    expect(wave_quantization, m, n, tile_m, tile_n, sms, per_sm).equals(right, rel=1e-9, abs=0)


@pytest.mark.kata("level13.waves.wave_quantization")
def test_eight_waves_on_an_h100(expect):
    """1024 tiles on 132 SMs, one on each: 1024 of 1056 places, in the eighth wave 100."""
    expect(wave_quantization, 4096, 4096, 128, 128).equals((1024, 8, 1024 / 1056), rel=1e-9, abs=0)


# ---- tile_quantization


@pytest.mark.kata("level13.waves.wave_quantization")
@pytest.mark.parametrize(
    "m, n, tile_m, tile_n",
    [
        (10, 200, 8, 128),  # 2000 of 16 x 256, the docstring's example
        (1, 4096, 128, 128),
        (129, 128, 128, 128),
        (256, 129, 128, 128),
        (256, 256, 128, 64),
        (9, 13, 2, 4),
        (2, 3, 5, 7),
    ],
)
def test_share_of_the_tiles_that_is_not_padding(expect, m, n, tile_m, tile_n):
    """One token in a tile of 128 rows is 127 rows of zeros. Oracle: the cells of all tiles, counted."""
    cells = sum(tile_m * tile_n for _ in range(0, m, tile_m) for _ in range(0, n, tile_n))
    expect(tile_quantization, m, n, tile_m, tile_n).equals(m * n / cells, rel=1e-9, abs=0)


# ---- gemm_seconds


def both(m, n, k, hardware, tile_m, tile_n, sms, width):
    """Oracle: the two times, from a timetable in which each SM has its own share of the peak."""
    waves = timetable(m, n, tile_m, tile_n, sms, 1)[1]
    one_tile = tile_m * tile_n * k * 2 / (hardware.peak_flops / sms)
    elements = sum(rows * cols for rows, cols in ((m, k), (k, n), (m, n)))
    return waves * one_tile, elements * width / hardware.bandwidth


@pytest.mark.kata("level13.waves.gemm_seconds")
@pytest.mark.parametrize(
    "m, n, k, tile_m, tile_n, sms, width",
    [
        (1, 8, 2, 2, 4, 4, 1),  # the docstring's example: bytes, 2.6 s
        (5, 8, 3, 2, 4, 4, 1),  # arithmetic: two waves, the second with two tiles
        (6, 8, 90, 3, 4, 4, 0.5),  # nothing is wasted
        (7, 9, 11, 4, 5, 3, 2),  # 4 tiles on 3 SMs
        (3, 2, 10, 8, 5, 1, 0.5),  # one tile, mostly padding
        (3, 2, 10, 8, 5, 6, 0.5),  # the same, and five SMs with nothing to do: six times as much arithmetic in all
        (20, 3, 4, 8, 2, 5, 8),  # wide elements: bytes
        (30, 40, 2, 16, 8, 2, 4),  # the result is most of the bytes
        (5, 9, 7, 2, 8, 3, 0.25),
    ],
)
def test_the_slower_of_bytes_and_waves(expect, m, n, k, tile_m, tile_n, sms, width):
    """What a layer takes at least, whatever the kernel. Oracle: a timetable, one SM with its share of the peak."""
    right = max(both(m, n, k, TOY, tile_m, tile_n, sms, width))
    expect(gemm_seconds, m, n, k, TOY, tile_m, tile_n, sms, width).equals(float(right), rel=1e-9, abs=0)


@pytest.mark.kata("level13.waves.gemm_seconds")
@pytest.mark.parametrize(
    "m, tile_m, waves",
    [
        (1, 128, 1),  # one token waits for 127 rows of padding: 17.91 us
        (129, 128, 1),  # 64 tiles are still one wave: the same
        (513, 128, 2),  # 160 tiles
        (4096, 128, 8),
    ],
)
def test_an_h100_computes_whole_waves(expect, m, tile_m, waves):
    """Each wave of 132 tiles of 128 x 128 x 4096 takes 17.91 us at the peak, and the bytes of a 4096 x 4096 matrix only
    10 us: with such tiles even decode waits for arithmetic."""
    right = waves * 132 * 2 * 128 * 128 * 4096 / 989e12
    expect(gemm_seconds, m, 4096, 4096).equals(right, rel=1e-9, abs=0)


@pytest.mark.kata("level13.waves.gemm_seconds")
def test_with_a_tile_of_16_rows_decode_waits_for_the_memory(expect):
    """2.24 us of arithmetic, and 2 · (4096 + 4096^2 + 4096) bytes at 3.35e12 bytes/s: 10.02 us, all of the weights."""
    right = 2 * (4096 + 4096**2 + 4096) / 3.35e12
    expect(gemm_seconds, 1, 4096, 4096, H100, 16).equals(right, rel=1e-9, abs=0)
