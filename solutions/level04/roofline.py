"""How fast a machine can be at most: arithmetic on the one side, moving bytes on the other, the slower one decides.

Rates are per second: FLOP/s and bytes/s. A multiply-add is two FLOPs. 1 GB = 1e9 bytes, 1 TFLOP/s = 1e12 FLOP/s.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Hardware:
    """Two numbers that bound the speed of a machine, and what it can hold."""

    name: str
    peak_flops: float  # FLOP/s, dense, in the dtype of the arithmetic
    bandwidth: float  # bytes/s between memory and processor
    memory_bytes: float


H100 = Hardware("H100 SXM, bfloat16", 989e12, 3.35e12, 80e9)


def ridge_point(hardware: Hardware) -> float:
    """Return the intensity, in FLOPs per byte, at which arithmetic and moving the bytes take equally long.

    Example: 100 FLOP/s and 10 bytes/s -> 10. Roofline: Williams, Waterman and Patterson, CACM 2009.

    ● · about 1 line
    """
    # solution:begin FLOPs per byte
    return hardware.peak_flops / hardware.bandwidth
    # solution:end


def bound(intensity: float, hardware: Hardware) -> str:
    """Return "memory" where moving the bytes takes longer than the arithmetic, else "compute": so at the ridge.

    Example: ridge 10: intensity 3 -> "memory", 10 -> "compute".

    ● · about 1 line · part of ridge_point
    """
    # solution:begin on which side of the ridge?
    return "memory" if intensity < ridge_point(hardware) else "compute"
    # solution:end


def attainable(intensity: float, hardware: Hardware) -> float:
    """Return the most FLOP/s that code of this intensity (FLOPs per byte) can reach: the lower of the two roofs.

    Arithmetic and moving the bytes overlap fully. Example: 100 FLOP/s and 10 bytes/s: intensity 3 -> 30, 50 -> 100.
    ValueError: intensity below 0.

    ● · about 1 line
    """
    if intensity < 0:
        raise ValueError(f"intensity is FLOPs over bytes, so 0 or more, not {intensity}")
    # solution:begin how many FLOPs come with each byte, and what is there at most?
    return min(hardware.peak_flops, intensity * hardware.bandwidth)
    # solution:end


def matmul_intensity(m: int, n: int, k: int, bytes_per_element: float) -> float:
    """Return the FLOPs per byte of (m, k) times (k, n), each of the three matrices moved once.

    bytes_per_element  of all three: 2 in bfloat16, a fraction where elements are packed (0.5 for 4 bits)

    Example: m = n = k = 4, 2 bytes: 128 FLOPs, 96 bytes -> 1.333.
    ValueError: a dimension below 1.

    ● · about 3 lines
    """
    if min(m, n, k) < 1:
        raise ValueError(f"a matrix has at least one row and one column, not m, n, k = {m}, {n}, {k}")
    # solution:begin two FLOPs per multiply-add, and three matrices
    flops = 2 * m * n * k
    moved = bytes_per_element * (m * k + k * n + m * n)
    return flops / moved
    # solution:end
