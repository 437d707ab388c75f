"""Right programs, written another way, for level13.tiling. `alternative` is given when this is read."""


def _k_outermost(memory, tile_m, tile_n, tile_k):
    """Slices of k, one after the other: the result is visited once for each."""
    from itertools import product

    import numpy as np

    if min(tile_m, tile_n, tile_k) < 1:
        raise ValueError("a tile below 1")
    m, n, k = memory.shape
    out = np.zeros((m, n))

    def steps(size, tile):
        return [(start, min(size, start + tile)) for start in range(0, size, tile)]

    for inner, right, down in product(steps(k, tile_k), steps(n, tile_n), steps(m, tile_m)):
        out[slice(*down), slice(*right)] += memory.load("a", *down, *inner) @ memory.load("b", *inner, *right)
    return out


def _blocks(memory, tile_m, tile_n, tile_k):
    """The tiles of the result as a list of lists, joined at the end; backwards along k."""
    import numpy as np

    if min(tile_m, tile_n, tile_k) < 1:
        raise ValueError("a tile below 1")
    m, n, k = memory.shape
    rows = []
    for i in range(-(-m // tile_m)):
        row = []
        for j in range(-(-n // tile_n)):
            top, bottom = i * tile_m, min(m, (i + 1) * tile_m)
            left, right = j * tile_n, min(n, (j + 1) * tile_n)
            tile = np.zeros((bottom - top, right - left))
            for start in reversed(range(0, k, tile_k)):
                end = min(k, start + tile_k)
                b_tile = memory.load("b", start, end, left, right)
                tile = tile + (memory.load("a", top, bottom, start, end) @ b_tile).astype(np.float64)
            row.append(tile)
        rows.append(row)
    return np.block(rows)


def _tile_by_tile(m, n, k, tile_m, tile_n, bytes_per_element):
    if min(m, n, k, tile_m, tile_n, bytes_per_element) <= 0:
        raise ValueError("not above 0")
    elements = 0
    for top in range(0, m, tile_m):
        rows = min(tile_m, m - top)
        for left in range(0, n, tile_n):
            cols = min(tile_n, n - left)
            elements += (rows + cols) * k + rows * cols
    return elements * bytes_per_element


def _step_by_step(shared_bytes, bytes_per_element, stages=1, multiple_of=16):
    """Larger sides, as long as they fit."""
    if min(shared_bytes, bytes_per_element, stages, multiple_of) <= 0:
        raise ValueError("not above 0")
    side = multiple_of
    while 2 * stages * (side + multiple_of) ** 2 * bytes_per_element <= shared_bytes:
        side += multiple_of
    if 2 * stages * side**2 * bytes_per_element > shared_bytes:
        raise ValueError("nothing fits")
    return side


ID = "level13.tiling.tiled_matmul"
alternative(ID, "k_outermost", program=_k_outermost)
alternative(ID, "blocks", program=_blocks)
alternative(ID, "tile_by_tile", program=_tile_by_tile, part="tiled_traffic")
alternative(ID, "step_by_step", program=_step_by_step, part="largest_square_tile")
