"""Known-wrong programs of level13.tiling. `ghost` is given when this is read."""

ID = "level13.tiling.tiled_matmul"
TOP = "for top in range(0, m, tile_m):"
BOTTOM = "bottom = min(top + tile_m, m)"
LEFT = "for left in range(0, n, tile_n):"
RIGHT = "right = min(left + tile_n, n)"
START = "for start in range(0, k, tile_k):"
END = "end = min(start + tile_k, k)"
ADD = "out[top:bottom, left:right] += a_tile @ b_tile"
LOADED = "loaded = m * k * -(-n // tile_n) + k * n * -(-m // tile_m)"
BYTES = "return bytes_per_element * (loaded + m * n)"
ELEMENTS = "elements = int(shared_bytes // (2 * stages * bytes_per_element))"
SIDE = "return isqrt(elements) // multiple_of * multiple_of"


def _matmul(name, sentence, *pairs):
    ghost(ID, name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _traffic(name, sentence, *pairs):
    ghost(ID, name, sentence, change=list(zip(pairs[::2], pairs[1::2])), part="tiled_traffic")


def _square(name, sentence, *pairs):
    ghost(ID, name, sentence, change=list(zip(pairs[::2], pairs[1::2])), part="largest_square_tile")


# ---- tiled_matmul

_matmul(
    "edges_dropped",
    "At the edges there are smaller tiles; yours leaves out what whole tiles do not cover.",
    TOP,
    "for top in range(0, m - tile_m + 1, tile_m):",
    LEFT,
    "for left in range(0, n - tile_n + 1, tile_n):",
    START,
    "for start in range(0, k - tile_k + 1, tile_k):",
)
_matmul(
    "depth_dropped",
    "The last tile along k may be smaller, and belongs to the sum; yours leaves it out.",
    START,
    "for start in range(0, k - tile_k + 1, tile_k):",
)
_matmul(
    "edges_not_clipped",
    "At the edges a tile ends with the matrix; yours reaches beyond it.",
    BOTTOM,
    "bottom = top + tile_m",
    RIGHT,
    "right = left + tile_n",
    END,
    "end = start + tile_k",
)
_matmul(
    "overwritten_along_k",
    "Products along k are added up; in yours only the last one is left.",
    ADD,
    ADD.replace("+=", "="),
)
_matmul(
    "row_at_a_time",
    "A tile of b serves tile_m rows; yours loads it again for every row.",
    TOP,
    "for top in range(m):",
    BOTTOM,
    "bottom = top + 1",
)
_matmul(
    "column_at_a_time",
    "A tile of a serves tile_n columns; yours loads it again for every column.",
    LEFT,
    "for left in range(n):",
    RIGHT,
    "right = left + 1",
)
_matmul(
    "all_of_k_at_once",
    "A load brings tile_k of k at most; yours brings all of it, and the chip has no room for that.",
    START,
    "for start in (0,):",
    END,
    "end = k",
)
_matmul(
    "tile_sides_swapped",
    "A tile of the result has tile_m rows and tile_n columns; yours has them the other way round.",
    "m, n, k = memory.shape",
    "tile_m, tile_n = tile_n, tile_m\n    m, n, k = memory.shape",
)
_matmul(
    "sums_in_their_dtype",
    "Sums over tiles are in float64; yours are in the dtype of the tiles, and what is small is lost.",
    "out = np.zeros((m, n))",
    "out = np.zeros((m, n), dtype=memory.load('a', 0, 0, 0, 0).dtype)",
)
_matmul(
    "sums_in_float32",
    "Sums over tiles are in float64; yours are in float32, and what is small is lost.",
    "out = np.zeros((m, n))",
    "out = np.zeros((m, n), dtype=np.float32)",
)
_matmul(
    "products_in_float64",
    "Products of two tiles are in their own dtype; yours turns the tiles into float64 first.",
    ADD,
    ADD.replace("a_tile @ b_tile", "a_tile.astype(float) @ b_tile.astype(float)"),
)
_matmul(
    "one_row_of_tiles_of_b",
    "Each tile of b comes from rows start to end; yours always takes the first ones.",
    'b_tile = memory.load("b", start, end, left, right)',
    'b_tile = memory.load("b", 0, end - start, left, right)',
)

# ---- tiled_traffic

_traffic(
    "each_matrix_once",
    "A matrix is read once for every column or row of tiles of the result; yours is read once.",
    LOADED,
    "loaded = m * k + k * n",
)
_traffic(
    "factors_swapped",
    "The rows of a are read once for each of n / tile_n columns of tiles, and b's columns for each row; yours swaps them.",
    LOADED,
    "loaded = m * k * -(-m // tile_m) + k * n * -(-n // tile_n)",
)
_traffic(
    "own_tile_sides",
    "How often a is read depends on the width of a tile, n / tile_n; yours divides by its height.",
    LOADED,
    "loaded = m * k * -(-n // tile_m) + k * n * -(-m // tile_n)",
)
_traffic(
    "no_tiles",
    "With tiles every load is used several times; yours loads two elements for each product.",
    LOADED,
    "loaded = 2 * m * n * k",
)
_traffic(
    "no_result",
    "The result is written once, and counts; yours leaves it out.",
    BYTES,
    "return bytes_per_element * loaded",
)
_traffic(
    "result_read_and_written",
    "The result stays on the chip until it is done, and is written once; yours is read as well.",
    BYTES,
    "return bytes_per_element * (loaded + 2 * m * n)",
)
_traffic(
    "ragged_tiles_for_nothing",
    "A ragged tile needs its rows and columns as well: round up. Yours rounds down.",
    LOADED,
    "loaded = m * k * max(n // tile_n, 1) + k * n * max(m // tile_m, 1)",
)
_traffic(
    "fractions_of_tiles",
    "A ragged tile needs all of its rows and columns; yours takes n / tile_n as it is.",
    LOADED,
    "loaded = m * k * n / tile_n + k * n * m / tile_m",
)
_traffic(
    "padding_loaded",
    "Ragged tiles load what there is; yours loads padding, too.",
    LOADED,
    "loaded = -(-m // tile_m) * -(-n // tile_n) * k * (tile_m + tile_n)",
)
_traffic(
    "rows_stay",
    "Nothing stays on the chip from one tile of the result to the next; yours keeps the rows of a.",
    LOADED,
    "loaded = m * k + k * n * -(-m // tile_m)",
)
_traffic(
    "elements",
    "Bytes are asked for; yours are elements.",
    BYTES,
    "return loaded + m * n",
)

# ---- largest_square_tile

_square(
    "one_operand",
    "A tile of a and one of b must fit; yours makes room for one of them.",
    ELEMENTS,
    "elements = int(shared_bytes // (stages * bytes_per_element))",
)
_square(
    "three_operands",
    "The result is in registers; yours takes shared memory for it.",
    ELEMENTS,
    "elements = int(shared_bytes // ((2 * stages + 1) * bytes_per_element))",
)
_square(
    "stages_ignored",
    "Every stage has tiles of its own; yours makes room for one stage.",
    ELEMENTS,
    "elements = int(shared_bytes // (2 * bytes_per_element))",
)
_square(
    "no_multiple",
    "Matrix units want multiples: 240, where 241 fits. Yours takes what fits.",
    SIDE,
    "return isqrt(elements)",
)
_square(
    "rounded_up",
    "The largest multiple that fits is below the root; yours is above it, and does not fit.",
    SIDE,
    "return -(-isqrt(elements) // multiple_of) * multiple_of",
)
_square(
    "powers_of_two",
    "A multiple is asked for, not a power of 2: yours stops at 128 where 240 fits.",
    SIDE,
    "return 2 ** (isqrt(elements).bit_length() - 1)",
)
_square(
    "width_of_a_side",
    "bytes_per_element divides the room before the root is taken; yours divides the side.",
    ELEMENTS,
    "elements = int(isqrt(shared_bytes // (2 * stages)) // bytes_per_element) ** 2",
)
_square(
    "always_16",
    "The side is a multiple of multiple_of; yours is one of 16.",
    SIDE,
    "return isqrt(elements) // 16 * 16",
)
