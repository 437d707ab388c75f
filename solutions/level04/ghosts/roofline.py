"""Known-wrong programs of level04.roofline. `ghost` is given when this is read."""


def _ridge(name, sentence, new):
    ghost("level04.roofline.ridge_point", name, sentence, change=("hardware.peak_flops / hardware.bandwidth", new))


_ridge(
    "upside_down",
    "FLOPs per byte: divide FLOP/s by bytes/s, not the other way round.",
    "hardware.bandwidth / hardware.peak_flops",
)
_ridge(
    "sparse_peak",
    "peak_flops is the dense rate already. Twice as much is what data sheets print first, for weights of which every "
    "second is zero.",
    "2 * hardware.peak_flops / hardware.bandwidth",
)
_ridge(
    "halved_peak",
    "The peak counts FLOPs, two per multiply-add, and is dense already: there is nothing to halve.",
    "hardware.peak_flops / 2 / hardware.bandwidth",
)
_ridge(
    "bits",
    "The bandwidth is in bytes per second already, not in bits.",
    "hardware.peak_flops / (8 * hardware.bandwidth)",
)
_ridge(
    "tib",
    "1 TB/s is 1e12 bytes per second, not 2**40. Both rates come in plain units, so there is nothing to convert.",
    "hardware.peak_flops / (hardware.bandwidth * 2**40 / 1e12)",
)
_ridge(
    "memory_size",
    "Divide by the bandwidth, how fast bytes come, not by memory_bytes, how many there is room for.",
    "hardware.peak_flops / hardware.memory_bytes",
)
_ridge(
    "whole_number",
    "The ridge is seldom a whole number: divide with /, and don't round.",
    "hardware.peak_flops // hardware.bandwidth",
)
_ridge(
    "always_an_h100",
    "That is the ridge of an H100: every machine has its own.",
    "H100.peak_flops / H100.bandwidth",
)
_ridge(
    "difference",
    "A ratio, not a difference: FLOP/s and bytes/s have different units.",
    "hardware.peak_flops - hardware.bandwidth",
)


def _bound(name, sentence, new):
    old = '"memory" if intensity < ridge_point(hardware) else "compute"'
    ghost("level04.roofline.ridge_point", name, sentence, change=(old, new))


_bound(
    "compares_with_one",
    "Compare the intensity with the ridge, not with 1: a byte may take as long as hundreds of FLOPs.",
    '"memory" if intensity < 1 else "compute"',
)
_bound(
    "reversed",
    "Above the ridge there is arithmetic enough to hide the bytes, so it is compute that takes longer.",
    '"memory" if intensity > ridge_point(hardware) else "compute"',
)
_bound(
    "memory_at_the_ridge",
    "At the ridge both take equally long, and that counts as compute: memory is what lies below it.",
    '"memory" if intensity <= ridge_point(hardware) else "compute"',
)
_bound(
    "ridge_of_an_h100",
    "295 is the ridge of an H100: compare with that of this machine.",
    '"memory" if intensity < ridge_point(H100) else "compute"',
)
_bound(
    "always_memory",
    "Decoding is bound by memory on most machines, but this is any intensity: above the ridge it is compute.",
    '"memory"',
)
_bound(
    "intensity_in_elements",
    "The intensity is per byte already: neither the ridge nor the intensity has to be doubled for 16 bits.",
    '"memory" if intensity < 2 * ridge_point(hardware) else "compute"',
)
_bound(
    "within_one_of_the_ridge",
    "Compare the numbers as they are: rounded down to whole ones, the last FLOP per byte before the ridge is lost.",
    '"memory" if intensity < int(ridge_point(hardware)) else "compute"',
)
_bound(
    "other_words",
    'The answers are the words "memory" and "compute", as they stand in the docstring.',
    '"memory-bound" if intensity < ridge_point(hardware) else "compute-bound"',
)
_bound(
    "a_boolean",
    'Return the word, "memory" or "compute", not whether it is one of them.',
    "intensity < ridge_point(hardware)",
)


def _attainable(name, sentence, new):
    old = "min(hardware.peak_flops, intensity * hardware.bandwidth)"
    ghost("level04.roofline.attainable", name, sentence, change=(old, new))


_attainable(
    "no_roof",
    "Nothing exceeds the peak, however high the intensity.",
    "intensity * hardware.bandwidth",
)
_attainable(
    "maximum",
    "There are two roofs, and the lower one holds.",
    "max(hardware.peak_flops, intensity * hardware.bandwidth)",
)
_attainable(
    "sum_of_times",
    "Arithmetic and moving the bytes overlap, so the longer time counts, not the sum of both.",
    "1 / (1 / hardware.peak_flops + 1 / (intensity * hardware.bandwidth)) if intensity else 0.0",
)
_attainable(
    "only_the_peak",
    "Below the ridge the peak is out of reach: no more FLOPs are done than bytes bring.",
    "hardware.peak_flops",
)
_attainable(
    "divides_the_bandwidth",
    "So many FLOPs come with each byte: multiply bytes per second by the intensity.",
    "min(hardware.peak_flops, hardware.bandwidth / intensity if intensity else 0.0)",
)
_attainable(
    "bytes_per_second",
    "FLOP/s are asked for: below the ridge that is the intensity times the bandwidth, not the bandwidth.",
    "min(hardware.peak_flops, hardware.bandwidth)",
)
_attainable(
    "part_of_the_peak",
    "Return FLOP/s, not the part of the peak that they are.",
    "min(1.0, intensity * hardware.bandwidth / hardware.peak_flops)",
)
_attainable(
    "half_the_peak",
    "The peak counts FLOPs, two per multiply-add: there is nothing to halve.",
    "min(hardware.peak_flops / 2, intensity * hardware.bandwidth)",
)
_attainable(
    "two_bytes",
    "The intensity is per byte already: don't divide by the bytes of an element.",
    "min(hardware.peak_flops, intensity * hardware.bandwidth / 2)",
)
_attainable(
    "in_teraflops",
    "In FLOP/s, not in TFLOP/s: rates are in plain units throughout.",
    "min(hardware.peak_flops, intensity * hardware.bandwidth) / 1e12",
)
_attainable(
    "all_or_nothing",
    "Left of the ridge the roof is a slope: at half the intensity of the ridge half of the peak is within reach.",
    "hardware.peak_flops if intensity >= ridge_point(hardware) else 0.0",
)
_attainable(
    "memory_size",
    "The slope is the bandwidth, not the size of the memory.",
    "min(hardware.peak_flops, intensity * hardware.memory_bytes)",
)


def _matmul(name, sentence, *change):
    ghost("level04.roofline.matmul_intensity", name, sentence, change=change)


MOVED = "moved = bytes_per_element * (m * k + k * n + m * n)"
_matmul(
    "weights_only",
    "The matrices on the left and of the result move too: with many rows they are most of the bytes.",
    MOVED,
    "moved = bytes_per_element * k * n",
)
_matmul(
    "no_result",
    "The result has to be written: three matrices move, not two.",
    MOVED,
    "moved = bytes_per_element * (m * k + k * n)",
)
_matmul(
    "result_only",
    "Both factors have to be read: three matrices move, not one.",
    MOVED,
    "moved = bytes_per_element * m * n",
)
_matmul(
    "result_twice",
    "The result is written once and not read: no matrix moves twice.",
    MOVED,
    "moved = bytes_per_element * (m * k + k * n + 2 * m * n)",
)
_matmul(
    "weights_in_their_width",
    "All three matrices have this width; none of them stays in 16 bits.",
    MOVED,
    "moved = bytes_per_element * k * n + 2 * (m * k + m * n)",
)
_matmul(
    "mac",
    "A multiply-add is two FLOPs.",
    "2 * m * n * k",
    "m * n * k",
)
_matmul(
    "adds_between_products",
    "k products have k - 1 sums, but a multiply-add counts as two FLOPs throughout: 2 m n k.",
    "2 * m * n * k",
    "m * n * (2 * k - 1)",
)
_matmul(
    "one_row",
    "All m rows are multiplied, and not only one.",
    "2 * m * n * k",
    "2 * n * k",
)
_matmul(
    "elements",
    "Intensity is per byte, not per element: half the width doubles it.",
    MOVED,
    "moved = m * k + k * n + m * n",
)
_matmul(
    "two_bytes",
    "Use bytes_per_element: not every matrix is in 16 bits.",
    MOVED,
    "moved = 2 * (m * k + k * n + m * n)",
)
_matmul(
    "bits",
    "bytes_per_element is in bytes already.",
    MOVED,
    "moved = bytes_per_element / 8 * (m * k + k * n + m * n)",
)
_matmul(
    "no_reuse",
    "Each matrix moves once, whatever its elements are used for: intensity comes from reading them again from nearby.",
    MOVED,
    "moved = bytes_per_element * (2 * m * n * k + m * n)",
)
_matmul(
    "upside_down",
    "FLOPs per byte, not bytes per FLOP.",
    "flops / moved",
    "moved / flops",
)
_matmul(
    "whole_number",
    "An intensity is seldom a whole number, and that of one row is about 1: divide with /.",
    "flops / moved",
    "flops // moved",
)
_matmul(
    "product_of_the_sizes",
    "Add the sizes of the three matrices; don't multiply them.",
    MOVED,
    "moved = bytes_per_element * (m * k) * (k * n) * (m * n)",
)
_matmul(
    "rows_and_columns",
    "An (m, k) matrix has m · k elements, not m + k.",
    MOVED,
    "moved = bytes_per_element * (m + k + k + n + m + n)",
)
