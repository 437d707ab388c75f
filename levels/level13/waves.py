"""Tiles go to SMs, as many at once as there is room for, and the last of them take as long as the first."""

from math import prod

from dojo.models import Config, shapes
from level04.ceiling import step_seconds
from level04.roofline import H100, Hardware

H100_SMS = 132


def wave_quantization(
    m: int, n: int, tile_m: int, tile_n: int, num_sms: int = H100_SMS, blocks_per_sm: int = 1
) -> tuple[int, int, float]:
    """Return (tiles, waves, efficiency) of a result (m, n) in tiles of (tile_m, tile_n), one block for each.

    A wave is as many tiles as run at once, blocks_per_sm on each SM; the next one begins when all of it are done.
    efficiency is tiles over those that would have fitted into the same waves.
    Example: m = 5, n = 8 in tiles of 2 x 4 on 4 SMs: 6 tiles in 2 waves -> (6, 2, 0.75). ValueError: a size below 1.

    ● · about 4 lines
    """
    _check(m, n, tile_m, tile_n, num_sms, blocks_per_sm)
    # TODO: how many tiles, how many at once, how often?
    raise NotImplementedError("level13.waves.wave_quantization")


def tile_quantization(m: int, n: int, tile_m: int, tile_n: int) -> float:
    """Return the share of (m, n) in all that its tiles compute, padding included: in (0, 1].

    Example: (10, 200) in tiles of 8 x 128: 2000 of 4096 -> 0.488. ValueError: a size below 1.

    ● · about 1 line · part of wave_quantization
    """
    _check(m, n, tile_m, tile_n)
    # TODO: both sides are rounded up
    raise NotImplementedError("level13.waves.wave_quantization")


def gemm_seconds(
    m: int,
    n: int,
    k: int,
    hardware: Hardware = H100,
    tile_m: int = 128,
    tile_n: int = 128,
    num_sms: int = H100_SMS,
    bytes_per_element: float = 2,
) -> float:
    """Return the seconds that (m, k) times (k, n) takes at least, in tiles of the result, one on each SM at a time.

    All three matrices move once. The arithmetic is that of whole waves of whole tiles: padding, and SMs with nothing to
    do in the last wave, take their time as well. Both overlap fully (step_seconds of level 04).
    Example: hardware of 100 FLOP/s and 10 bytes/s, m = 1, n = 8, k = 2, tiles of 2 x 4, 4 SMs, 1 byte: 26 bytes in
    2.6 s; one wave of 4 tiles, 128 FLOPs, in 1.28 s -> 2.6.
    ValueError: a size below 1.

    ●● · about 4 lines · needs level13.waves.wave_quantization
    """
    _check(m, n, k, tile_m, tile_n, num_sms)
    # TODO: how many bytes, and how many FLOPs do all SMs of all waves do, needed or not?
    raise NotImplementedError("level13.waves.gemm_seconds")


def linear_shapes(config: Config) -> list[tuple[int, int]]:
    """(out_features, in_features) of every matrix that a token is multiplied with: all layers, and the head, tied or
    not. Given."""
    parameters = shapes(config)
    head = parameters["lm_head.weight" if "lm_head.weight" in parameters else "model.embed_tokens.weight"]
    linears = [s for name, s in parameters.items() if len(s) == 2 and "layers." in name]
    return [*linears, head]


def linears_seconds(config: Config, num_tokens: int, hardware: Hardware = H100) -> float:
    """Seconds of all these products for num_tokens tokens, one product after the other, in bfloat16. Given.

    A tile has 16 rows up to 16 tokens, 64 up to 64 and 128 above, and 128 columns.
    """
    tile_m = next((rows for rows in (16, 64) if num_tokens <= rows), 128)
    return sum(gemm_seconds(num_tokens, n, k, hardware, tile_m) for n, k in linear_shapes(config))


def linears_bytes(config: Config, bytes_per_element: float = 2) -> float:
    """Bytes of all these matrices. Given."""
    return bytes_per_element * sum(prod(shape) for shape in linear_shapes(config))


def _check(*sizes: int) -> None:
    if min(sizes) < 1:
        raise ValueError(f"sizes are at least 1, not {min(sizes)}")
