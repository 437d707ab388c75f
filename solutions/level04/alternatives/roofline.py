"""Right programs, written another way, for level04.roofline. `alternative` is given when this is read."""

import operator
from fractions import Fraction


def _ridge_by_fractions(hardware):
    """Exactly, and rounded once at the end."""
    return float(Fraction(hardware.peak_flops) / Fraction(hardware.bandwidth))


def _ridge_by_times(hardware):
    """Seconds per byte over seconds per FLOP."""
    return (1 / hardware.bandwidth) / (1 / hardware.peak_flops)


def _bound_by_times(intensity, hardware):
    """For one byte: which takes longer, its FLOPs or itself?"""
    arithmetic, moving = intensity / hardware.peak_flops, 1 / hardware.bandwidth
    if arithmetic >= moving:
        return "compute"
    return "memory"


def _bound_by_the_roof(intensity, hardware):
    """Compute where the slope has reached the peak; an index into a tuple."""
    return ("memory", "compute")[operator.ge(intensity * hardware.bandwidth, hardware.peak_flops)]


def _attainable_by_cases(intensity, hardware):
    """First where it lies, then the roof that is over it."""
    if intensity < 0:
        raise ValueError("0 or more")
    if intensity < hardware.peak_flops / hardware.bandwidth:
        return hardware.bandwidth * intensity
    return hardware.peak_flops


def _attainable_by_times(intensity, hardware):
    """FLOPs that come with a gigabyte, over the longer of two times."""
    if not intensity >= 0:
        raise ValueError("0 or more")
    flops = intensity * 1e9
    return flops / max(flops / hardware.peak_flops, 1e9 / hardware.bandwidth)


def _attainable_by_the_ridge(intensity, hardware):
    """The part of the peak that the intensity reaches on the way to the ridge, with numpy."""
    import numpy as np

    if intensity < 0:
        raise ValueError("0 or more")
    return np.clip(intensity / (hardware.peak_flops / hardware.bandwidth), 0.0, 1.0) * hardware.peak_flops


def _matmul_by_shapes(m, n, k, bytes_per_element):
    """Add up what each matrix weighs; each element of the result takes k multiplies and k additions."""
    if m < 1 or n < 1 or k < 1:
        raise ValueError("at least one row and one column")
    moved = 0
    for rows, columns in ((m, k), (k, n), (m, n)):
        moved += rows * columns * bytes_per_element
    return m * n * (k + k) / moved


def _matmul_by_reciprocals(m, n, k, bytes_per_element):
    """Divided by 2 m n k above and below: a mean of three sizes."""
    if any(size <= 0 for size in (m, n, k)):
        raise ValueError("at least one row and one column")
    return 2 / (bytes_per_element * (1 / m + 1 / n + 1 / k))


def _matmul_in_numpy(m, n, k, bytes_per_element):
    """In numpy's numbers: three sizes in a row, each the product of all over one."""
    import numpy as np

    sizes = np.array([m, n, k], dtype=float)
    if not (sizes >= 1).all():
        raise ValueError("at least one row and one column")
    return 2 * sizes.prod() / (bytes_per_element * np.sum(sizes.prod() / sizes))


alternative("level04.roofline.ridge_point", "by_fractions", program=_ridge_by_fractions)
alternative("level04.roofline.ridge_point", "by_times", program=_ridge_by_times)
alternative("level04.roofline.ridge_point", "bound_by_times", program=_bound_by_times, part="bound")
alternative("level04.roofline.ridge_point", "bound_by_the_roof", program=_bound_by_the_roof, part="bound")
alternative("level04.roofline.attainable", "by_cases", program=_attainable_by_cases)
alternative("level04.roofline.attainable", "by_times", program=_attainable_by_times)
alternative("level04.roofline.attainable", "by_the_ridge", program=_attainable_by_the_ridge)
alternative("level04.roofline.matmul_intensity", "by_shapes", program=_matmul_by_shapes)
alternative("level04.roofline.matmul_intensity", "by_reciprocals", program=_matmul_by_reciprocals)
alternative("level04.roofline.matmul_intensity", "in_numpy", program=_matmul_in_numpy)
