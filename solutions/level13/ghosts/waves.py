"""Known-wrong programs of level13.waves. `ghost` is given when this is read."""

WAVES = "level13.waves.wave_quantization"
TILES = "tiles = -(-m // tile_m) * -(-n // tile_n)"
AT_ONCE = "at_once = num_sms * blocks_per_sm"
HOW_OFTEN = "waves = -(-tiles // at_once)"
SHARE = "return tiles, waves, tiles / (waves * at_once)"
USEFUL = "return m * n / (-(-m // tile_m) * tile_m * -(-n // tile_n) * tile_n)"
GEMM = "level13.waves.gemm_seconds"
MOVED = "moved = bytes_per_element * (m * k + k * n + m * n)"
COUNT = "waves = wave_quantization(m, n, tile_m, tile_n, num_sms)[1]"
FLOPS = "flops = waves * num_sms * 2 * tile_m * tile_n * k"
SECONDS = 'return step_seconds({"flops": flops, "bytes": moved}, hardware)'


def _waves(name, sentence, *pairs, part=""):
    ghost(WAVES, name, sentence, change=list(zip(pairs[::2], pairs[1::2])), part=part)


def _gemm(name, sentence, *pairs):
    ghost(GEMM, name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- wave_quantization

_waves(
    "fractions_of_waves",
    "The last wave takes as long as a full one: round up. Yours counts a part of it.",
    HOW_OFTEN,
    "waves = tiles / at_once",
)
_waves(
    "waves_rounded_down",
    "Tiles that are left over need a wave of their own; yours rounds down.",
    HOW_OFTEN,
    "waves = max(tiles // at_once, 1)",
)
_waves(
    "one_wave_more",
    "When the last wave is full there is no other one; yours adds it.",
    HOW_OFTEN,
    "waves = tiles // at_once + 1",
)
_waves(
    "whole_tiles_only",
    "A ragged tile is a tile, and takes a place: round both sides up. Yours rounds down.",
    TILES,
    "tiles = max(m // tile_m, 1) * max(n // tile_n, 1)",
)
_waves(
    "tiles_by_area",
    "Tiles end at the edges on both sides: round each side up. Yours divides the area.",
    TILES,
    "tiles = -(-m * n // (tile_m * tile_n))",
)
_waves(
    "one_block_on_an_sm",
    "blocks_per_sm tiles run on an SM at once; yours runs one.",
    AT_ONCE,
    "at_once = num_sms",
)
_waves(
    "share_of_the_last_wave",
    "efficiency is over the places of all waves; yours is that of the last one.",
    SHARE,
    "return tiles, waves, ((tiles - 1) % at_once + 1) / at_once",
)
_waves(
    "share_of_the_sms",
    "Each wave has blocks_per_sm places on every SM; your efficiency counts one.",
    SHARE,
    "return tiles, waves, tiles / (waves * num_sms)",
)

# ---- tile_quantization

_waves(
    "area_over_one_tile",
    "The share is of all cells that the tiles compute, both sides rounded up; yours divides by one tile.",
    USEFUL,
    "return min(m * n / (tile_m * tile_n), 1.0)",
    part="tile_quantization",
)
_waves(
    "rows_only",
    "Columns are padded as well as rows; yours counts rows.",
    USEFUL,
    "return m / (-(-m // tile_m) * tile_m)",
    part="tile_quantization",
)
_waves(
    "columns_only",
    "Rows are padded as well as columns; yours counts columns.",
    USEFUL,
    "return n / (-(-n // tile_n) * tile_n)",
    part="tile_quantization",
)
_waves(
    "padded_over_useful",
    "The share is what is useful over what is computed: at most 1. Yours is the other way round.",
    USEFUL,
    "return (-(-m // tile_m) * tile_m * -(-n // tile_n) * tile_n) / (m * n)",
    part="tile_quantization",
)
_waves(
    "padding_by_area",
    "Each side is rounded up on its own; yours rounds up the number of tiles in the area.",
    USEFUL,
    "return m * n / (-(-m * n // (tile_m * tile_n)) * tile_m * tile_n)",
    part="tile_quantization",
)

# ---- gemm_seconds

_gemm(
    "sum_of_both",
    "Memory and arithmetic work at the same time: the slower decides. Yours adds them up.",
    SECONDS,
    "return flops / hardware.peak_flops + moved / hardware.bandwidth",
)
_gemm(
    "faster_of_both",
    "A product is done when both its bytes and its arithmetic are: yours takes the faster.",
    SECONDS,
    "return min(flops / hardware.peak_flops, moved / hardware.bandwidth)",
)
_gemm(
    "plain_roofline",
    "Padding and SMs with nothing to do take their time as well; yours counts useful FLOPs only.",
    FLOPS,
    "flops = 2 * m * n * k",
)
_gemm(
    "no_waves",
    "A last wave takes as long as a full one, on all SMs; yours counts the tiles that there are.",
    FLOPS,
    "flops = wave_quantization(m, n, tile_m, tile_n, num_sms)[0] * 2 * tile_m * tile_n * k",
)
_gemm(
    "no_padding",
    "A tile that is mostly padding takes as long as a whole one; yours counts waves, but only useful elements.",
    FLOPS,
    "flops = 2 * m * n * k / wave_quantization(m, n, tile_m, tile_n, num_sms)[2]",
)
_gemm(
    "one_tile_at_the_peak",
    "The peak is that of all SMs, and a tile has one: yours computes one tile of a wave with all of them.",
    FLOPS,
    "flops = waves * 2 * tile_m * tile_n * k",
)
_gemm(
    "products_without_sums",
    "A product and its sum are two FLOPs; yours counts one.",
    FLOPS,
    "flops = waves * num_sms * tile_m * tile_n * k",
)
_gemm(
    "weights_only",
    "All three matrices move; yours only loads (k, n).",
    MOVED,
    "moved = bytes_per_element * k * n",
)
_gemm(
    "no_result",
    "The result is written, and counts; yours moves the two factors.",
    MOVED,
    "moved = bytes_per_element * (m * k + k * n)",
)
_gemm(
    "padded_bytes",
    "Padding is computed, not moved: yours counts the bytes of whole tiles.",
    MOVED,
    "rows, cols = -(-m // tile_m) * tile_m, -(-n // tile_n) * tile_n\n"
    "    moved = bytes_per_element * (rows * k + k * cols + rows * cols)",
)
_gemm(
    "loaded_for_every_tile",
    "Here each matrix moves once, the cache helps; yours loads rows and columns again for each tile.",
    MOVED,
    "moved = bytes_per_element * (m * k * -(-n // tile_n) + k * n * -(-m // tile_m) + m * n)",
)
_gemm(
    "always_two_bytes",
    "Elements have bytes_per_element; yours have 2.",
    MOVED,
    "moved = 2 * (m * k + k * n + m * n)",
)
_gemm(
    "always_132_sms",
    "The SMs are num_sms; yours counts waves of an H100.",
    COUNT,
    "waves = wave_quantization(m, n, tile_m, tile_n)[1]",
)
_gemm(
    "tile_sides_swapped",
    "A tile has tile_m rows and tile_n columns; yours has them the other way round.",
    COUNT,
    "waves = wave_quantization(m, n, tile_n, tile_m, num_sms)[1]",
)
