"""Known-wrong programs of level04.measure. `ghost` is given when this is read."""

from statistics import fmean, median
from time import perf_counter

import torch

# ---- best_time

WARM = "for _ in range(warmup):\n        function()\n"
BEST = "best = min(best, clock() - start)"
NONE_YET = 'best = float("inf")'
START = "start = clock()\n        function()\n        "


def _best(name, sentence, *texts):
    ghost("level04.measure.best_time", name, sentence, change=list(zip(texts[::2], texts[1::2])))


def _judged(name, sentence, choose):
    """A wrong choice among the seconds of all rounds."""

    def program(function, rounds=5, warmup=1, clock=perf_counter):
        if rounds < 1 or warmup < 0:
            raise ValueError("rounds, or warm-up")
        for _ in range(warmup):
            function()
        seconds = []
        for _ in range(rounds):
            start = clock()
            function()
            seconds.append(clock() - start)
        return choose(seconds)

    ghost("level04.measure.best_time", name, sentence, program=program)


_judged("mean", "Noise only adds: the minimum is nearest to the machine's own speed, a mean contains all of it.", fmean)
_judged("median", "Noise only adds, to half of the rounds as well: take the minimum, not the median.", median)
_judged("slowest", "The slowest round is the one that was disturbed most: take the minimum.", max)
_judged("last_round", "The last round is one like any other: keep the minimum of all.", lambda seconds: seconds[-1])
_judged("first_round", "The first round is one like any other: keep the minimum of all.", lambda seconds: seconds[0])
_judged("all_rounds", "The seconds of one call, not of all rounds together.", sum)
_judged(
    "first_round_dropped",
    "The warm-up has been made already: every timed round counts, the first one too.",
    lambda seconds: min(seconds[1:] or seconds),
)
_judged("milliseconds", "Seconds, as the clock shows them.", lambda seconds: 1e3 * min(seconds))
_judged("calls_per_second", "Seconds are asked for, not their reciprocal.", lambda seconds: 1 / (min(seconds) or 1e-9))
_judged(
    "no_zero",
    "A round of 0 s is what the clock has shown, and is the fastest: leave it in.",
    lambda seconds: min([s for s in seconds if s] or seconds),
)
_judged("microseconds_cut_off", "Do not round: kernels take microseconds.", lambda seconds: round(min(seconds), 6))
_best(
    "times_warmup",
    "The first call pays for allocation, caches and loading code: make it before, and do not time it.",
    WARM,
    "rounds += warmup\n",
)
_best("no_warmup", "Call the function `warmup` times before the first timed round.", WARM, "pass\n")
_best(
    "warmup_with_the_clock",
    "The clock is not read for the warm-up: whoever passes a clock may count its readings.",
    WARM,
    "for _ in range(warmup):\n        clock()\n        function()\n        clock()\n",
)
_best(
    "warmup_among_the_rounds",
    "`rounds` calls are timed, and the warm-up comes on top of them.",
    "range(rounds)",
    "range(max(rounds - warmup, 1))",
)
_best(
    "warmup_before_each_round",
    "The warm-up comes once, before all rounds.",
    WARM,
    "pass\n",
    "start = clock()",
    "for _ in range(warmup):\n            function()\n        start = clock()",
)
_best(
    "one_warmup_always",
    "`warmup` says how many calls come first: it may be none, or several.",
    "range(warmup)",
    "range(1)",
)
_best("five_rounds_always", "`rounds` says how many calls are timed.", "range(rounds)", "range(5)")
_best("one_round_more", "`rounds` calls are timed, no more.", "range(rounds)", "range(rounds + 1)")
_best(
    "one_clock_pair",
    "Read the clock around each call: one pair around all of them gives a mean, with the loop in it.",
    f"{NONE_YET}\n    for _ in range(rounds):\n        {START}{BEST}\n    return best",
    "start = clock()\n    for _ in range(rounds):\n        function()\n    return (clock() - start) / rounds",
)
_best(
    "started_once",
    "Read the clock right before each call: yours was started once, so that later rounds contain all earlier ones.",
    NONE_YET,
    f"{NONE_YET}\n    start = clock()",
    START,
    "function()\n        ",
)
_best(
    "laps",
    "Two readings for each call: from the end of one to the end of the next is what lies between them as well.",
    NONE_YET,
    f"{NONE_YET}\n    last = clock()",
    START,
    "function()\n        now = clock()\n        ",
    BEST,
    "best, last = min(best, now - last), now",
)
_best(
    "reads_again",
    "Read the clock once after each call and keep what it showed: the second reading is a later one.",
    BEST,
    "best = clock() - start if clock() - start < best else best",
)
_best(
    "reads_at_the_start",
    "The clock is read right before and right after each timed call, and not otherwise.",
    NONE_YET,
    f"{NONE_YET}\n    clock()",
)
_best(
    "clock_after_clock",
    "The call belongs between the two readings of the clock.",
    START,
    "function()\n        start = clock()\n        ",
)
_best(
    "a_clock_of_its_own",
    "Read the clock that is passed: who measures CPU time, or tests, brings another one.",
    BEST,
    BEST.replace("clock()", "perf_counter()"),
    "start = clock()",
    "start = perf_counter()",
)
_best(
    "starts_at_zero",
    "A minimum that starts at 0 stays there: begin with infinity, or with the first round.",
    NONE_YET,
    "best = 0.0",
)
_best(
    "two_calls_a_round",
    "Each round is one call.",
    START,
    START.replace("function()", "function(), function()"),
)
_best(
    "what_it_returns",
    "The function's own result is of no interest: the clock says how long it took.",
    START,
    START.replace("function()", "found = function()"),
    BEST,
    "best = min(best, found if isinstance(found, float) else clock() - start)",
)


# ---- probe_bytes, a part of read_bandwidth

UNKNOWN = "return 256 * 2**20"
WANTED = "wanted = max(4 * cache, 64 * 2**20)"
WHOLE = "return -(-wanted // 4096) * 4096"


def _probe(name, sentence, *texts):
    ghost("level04.measure.read_bandwidth", name, sentence, change=list(zip(texts[::2], texts[1::2])))


_probe(
    "cache_sized",
    "A probe that fits into the cache measures the cache: take four times its size.",
    "4 * cache",
    "cache",
)
_probe(
    "twice_the_cache",
    "Half of a probe of twice its size may still be in the cache: take four times.",
    "4 * cache",
    "2 * cache",
)
_probe(
    "l2_of_one_core",
    "Choose the size by this machine's last-level cache, not by a usual one.",
    WANTED,
    "wanted = 1_000_000",
)
_probe(
    "always_256_mib",
    "256 MiB are for a machine whose cache is not known: a server's cache may hold more than that.",
    WANTED,
    "wanted = 256 * 2**20",
)
_probe(
    "unknown_is_zero",
    "If the size of the cache is not known, take one that is large for any machine, 256 MiB: it is not 0.",
    UNKNOWN,
    "cache = 0",
)
_probe(
    "no_least",
    "A small cache needs no small probe: below 64 MiB the first microseconds weigh too much.",
    WANTED,
    "wanted = 4 * cache",
)
_probe("the_smaller", "At least 64 MiB means the larger of the two.", WANTED, WANTED.replace("max", "min"))
_probe(
    "both_together",
    "At least 64 MiB means the larger of the two, not their sum.",
    WANTED,
    "wanted = 4 * cache + 64 * 2**20",
)
_probe("megabytes", "MiB are 2**20 bytes, as caches are measured: 64 MB are fewer.", "64 * 2**20", "64 * 10**6")
_probe(
    "rounds_down",
    "Rounded down, the probe is smaller than four caches: round up.",
    WHOLE,
    "return wanted // 4096 * 4096",
)
_probe(
    "nearest_row",
    "Rounded to the nearest, the probe is sometimes smaller than four caches: round up.",
    WHOLE,
    "return round(wanted / 4096) * 4096",
)
_probe("one_row_more", "What is whole rows already stays as it is.", WHOLE, "return (wanted // 4096 + 1) * 4096")
_probe("not_whole_rows", "Round up to whole rows of 4096 bytes: a part of a row is not read.", WHOLE, "return wanted")
_probe("whole_kib", "A row has 1024 numbers of 4 bytes.", WHOLE, "return -(-wanted // 1024) * 1024")
_probe("number_of_rows", "Bytes are asked for, not rows.", WHOLE, "return -(-wanted // 4096)")
_probe("a_float", "A number of bytes is an int.", WHOLE, "return float(-(-wanted // 4096) * 4096)")
_probe(
    "rounds_the_cache",
    "Round at the end: four times a rounded cache is up to three rows too many.",
    WANTED,
    "wanted = max(4 * (-(-cache // 4096) * 4096), 64 * 2**20)",
)

# ---- read_bandwidth

MATRIX = "torch.ones(n_bytes // (4 * ROW), ROW)"
PRODUCT = "lambda: torch.mv(matrix, vector, out=out)"
BEST_OF = f"best_time({PRODUCT}, rounds, clock=clock)"
RATE = "return matrix.nbytes / seconds"


def _read(name, sentence, *texts):
    ghost("level04.measure.read_bandwidth", name, sentence, change=list(zip(texts[::2], texts[1::2])))


def _timed(part, name, sentence, choose):
    """The seconds of all rounds, and a wrong choice among them."""
    of = {"read_bandwidth": (MATRIX_OF, torch.mv), "gemm_flops": (SQUARE_OF, torch.mm)}[part]

    def program(n, rounds=5, clock=perf_counter):
        (a, b, work), multiply, seconds = of[0](n), of[1], []
        multiply(a, b)
        for _ in range(rounds):
            start = clock()
            multiply(a, b)
            seconds.append(clock() - start)
        return work / choose(seconds)

    ghost("level04.measure.read_bandwidth", name, sentence, program=program, part=part)


def MATRIX_OF(n_bytes):
    if n_bytes < 4096:
        raise ValueError("less than a row")
    matrix = torch.ones(n_bytes // 4096, 1024)
    return matrix, torch.ones(1024), matrix.nbytes


def SQUARE_OF(n):
    if n < 1:
        raise ValueError("no rows")
    return torch.ones(n, n), torch.ones(n, n), 2 * n**3


_read("elements", "Count bytes: four to each float32.", RATE, "return matrix.numel() / seconds")
_read("bits", "Bytes per second, not bits.", RATE, "return 8 * matrix.nbytes / seconds")
_read("gigabytes", "Bytes per second: divide by 1e9 where you print it.", RATE, "return matrix.nbytes / seconds / 1e9")
_read(
    "requested_size",
    "Report what was read: whole rows of 1024 numbers, and not the bytes that were asked for.",
    RATE,
    "return n_bytes / seconds",
)
_read(
    "counts_twice",
    "A product with a vector only reads the matrix; it is a copy that moves every byte twice.",
    RATE,
    "return 2 * matrix.nbytes / seconds",
)
_read(
    "counts_vector_and_sums",
    "The matrix is what is counted: the vector stays in the cache.",
    RATE,
    "return (matrix.nbytes + vector.nbytes + out.nbytes) / seconds",
)
_read("all_rounds", "The best round reads the matrix once.", RATE, "return rounds * matrix.nbytes / seconds")
_read("seconds_per_byte", "Bytes per second, not seconds per byte.", RATE, "return seconds / matrix.nbytes")
_read("seconds", "A rate is asked for: divide the bytes by the seconds.", RATE, "return seconds")
_read(
    "rounds_up",
    "As many rows as fit whole: the last one would not.",
    MATRIX,
    "torch.ones(-(-n_bytes // (4 * ROW)), ROW)",
)
_read(
    "rows_of_1024_bytes",
    "A row has 1024 numbers, which are 4096 bytes.",
    MATRIX,
    "torch.ones(n_bytes // ROW, ROW)",
)
_read(
    "numbers_for_bytes",
    "n_bytes counts bytes: as many numbers of 4 bytes are a matrix four times as large.",
    MATRIX,
    "torch.ones(n_bytes // 4 // ROW * 4 or 1, ROW)",
)
_read(
    "double",
    "float32: the same number of float64 are twice as many bytes.",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW), torch.ones(ROW)",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW).double(), torch.ones(ROW).double()",
    "out = torch.empty(matrix.shape[0])",
    "out = torch.empty(matrix.shape[0]).double()",
    RATE,
    "return matrix.nbytes / 2 / seconds",
)
_read(
    "double_of_half_the_rows",
    "float32, as the model's weights: of float64 half as many numbers are multiplied.",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW), torch.ones(ROW)",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW // 2).double(), torch.ones(ROW // 2).double()",
    "out = torch.empty(matrix.shape[0])",
    "out = torch.empty(matrix.shape[0]).double()",
)
_read(
    "bfloat16",
    "float32: of bfloat16 only half of the bytes are read.",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW), torch.ones(ROW)",
    "matrix, vector = torch.ones(n_bytes // (4 * ROW), ROW).bfloat16(), torch.ones(ROW).bfloat16()",
    "out = torch.empty(matrix.shape[0])",
    "out = torch.empty(matrix.shape[0]).bfloat16()",
    RATE,
    "return 2 * matrix.nbytes / seconds",
)
_read(
    "one_row",
    "An expanded row is one row in memory, and the cache holds it: make the whole matrix.",
    MATRIX,
    "torch.ones(1, ROW).expand(n_bytes // (4 * ROW), ROW)",
)
_read(
    "first_row_only",
    "Multiply the whole matrix: the other rows are never read.",
    PRODUCT,
    "lambda: torch.mv(matrix[:1], vector)",
)
_read(
    "one_part_again_and_again",
    "Read all of the matrix: a part that is multiplied again comes from the cache.",
    PRODUCT,
    "lambda: [torch.mv(part, vector) for _ in range(len(matrix) // len(part))]",
    "out = torch.empty(matrix.shape[0])",
    "part = matrix[: len(matrix) // 8] if len(matrix) % 8 == 0 else matrix",
)
_read(
    "never_written",
    "Memory that was never written is one page of zeros, which the cache holds: fill the matrix before you read it.",
    MATRIX,
    "torch.empty(n_bytes // (4 * ROW), ROW)",
)
_read(
    "made_in_each_round",
    "Make the matrix before the clock runs: yours is written in each round, and that is timed as well.",
    PRODUCT,
    f"lambda: torch.mv({MATRIX}, vector)",
)
_read(
    "copied_in_each_round",
    "A copy reads and writes every byte: only a product with a vector is asked for.",
    PRODUCT,
    "lambda: torch.mv(matrix.clone(), vector)",
)
_read(
    "a_copy",
    "A copy reads and writes every byte; decode multiplies the weights by a vector, and writes next to nothing.",
    PRODUCT,
    "lambda: matrix.clone()",
)
_read(
    "filled",
    "Filling a matrix writes it: decode reads.",
    PRODUCT,
    "lambda: matrix.fill_(1)",
)
_read(
    "a_sum",
    "A sum reads the matrix as well, but by another kernel than decode: multiply it by a vector.",
    PRODUCT,
    "lambda: matrix.sum()",
)
_read(
    "elementwise",
    "matrix * vector writes a matrix of the same size, and then it is read again: use one product of matrix and vector.",
    PRODUCT,
    "lambda: (matrix * vector).sum(-1)",
)
_read(
    "row_by_row",
    "One product for the whole matrix: a loop over rows measures Python.",
    PRODUCT,
    "lambda: [torch.dot(row, vector) for row in matrix]",
)
_read(
    "vector_as_long_as_the_matrix",
    "A vector as large as the matrix is as much to read again: rows of 1024 share one of 4 KiB.",
    PRODUCT,
    "lambda: torch.dot(matrix.flatten(), everything)",
    "out = torch.empty(matrix.shape[0])",
    "everything = torch.ones(matrix.numel())",
)
_read(
    "many_vectors",
    "One vector, as in decode at batch 1: each further one is arithmetic for which nothing is read.",
    PRODUCT,
    "lambda: torch.mm(matrix, vectors)",
    "out = torch.empty(matrix.shape[0])",
    "vectors = torch.ones(ROW, 64)",
)
_read(
    "multiplied_before",
    "Multiply in every call that is timed: your product is ready before the clock runs.",
    BEST_OF,
    "best_time(lambda: product, rounds, clock=clock)",
    "out = torch.empty(matrix.shape[0])",
    "product = torch.mv(matrix, vector)",
)
_read("without_warmup", "One warm-up first, as in best_time.", BEST_OF, f"best_time({PRODUCT}, rounds, 0, clock=clock)")
_read("two_warmups", "One warm-up, as in best_time.", BEST_OF, f"best_time({PRODUCT}, rounds, 2, clock=clock)")
_read(
    "rounds_as_warmup",
    "best_time takes `rounds` second and `warmup` third.",
    BEST_OF,
    f"best_time({PRODUCT}, warmup=rounds, clock=clock)",
)
_read("five_rounds_always", "Pass `rounds` on.", BEST_OF, f"best_time({PRODUCT}, clock=clock)")
_read(
    "a_clock_of_its_own",
    "Pass the clock on: yours always reads the default one.",
    BEST_OF,
    f"best_time({PRODUCT}, rounds)",
)
_timed("read_bandwidth", "mean_round", "Of the rounds the best counts: a mean contains the noise.", fmean)
_timed("read_bandwidth", "median_round", "Of the rounds the best counts, not the median.", median)
_timed("read_bandwidth", "slowest_round", "Of the rounds the best counts: the shortest time, not the longest.", max)
_timed("read_bandwidth", "first_round", "Of the rounds the best counts, not the first.", lambda seconds: seconds[0])
_timed("read_bandwidth", "last_round", "Of the rounds the best counts, not the last.", lambda seconds: seconds[-1])

# ---- gemm_flops, a part of read_bandwidth

OPERANDS = "a, b, out = torch.ones(n, n), torch.ones(n, n), torch.empty(n, n)"
GEMM = "lambda: torch.mm(a, b, out=out)"
FLOPS = f"return 2 * n**3 / best_time({GEMM}, rounds, clock=clock)"


def _gemm(name, sentence, *texts):
    ghost("level04.measure.read_bandwidth", name, sentence, change=list(zip(texts[::2], texts[1::2])))


_gemm("n_cubed", "n^3 multiply-adds are 2 n^3 FLOPs.", "2 * n**3", "n**3")
_gemm("n_squared", "Each of n^2 results needs n multiply-adds.", "2 * n**3", "2 * n**2")
_gemm(
    "one_addition_less",
    "n products take n - 1 additions, but the first is counted as one to zero: 2 n^3, as everybody counts.",
    "2 * n**3",
    "n**2 * (2 * n - 1)",
)
_gemm("three_matrices", "FLOPs are counted, not the bytes of three matrices.", "2 * n**3", "12 * n**2")
_gemm("gigaflops", "FLOP/s: divide by 1e9 where you print it.", "2 * n**3", "2 * n**3 / 1e9")
_gemm(
    "seconds_per_flop",
    "FLOPs per second, not seconds per FLOP.",
    FLOPS,
    f"return best_time({GEMM}, rounds, clock=clock) / (2 * n**3)",
)
_gemm("flops_of_all_rounds", "The best round is one product.", "2 * n**3", "2 * rounds * n**3")
_gemm(
    "with_a_vector",
    "A product with a vector measures memory: multiply two matrices.",
    GEMM,
    "lambda: torch.mv(a, b[0], out=out[0])",
)
_gemm(
    "gemm_elementwise",
    "a * b multiplies number by number: the product of matrices is a @ b.",
    GEMM,
    "lambda: torch.mul(a, b, out=out)",
)
_gemm(
    "gemm_double",
    "float32: in float64 the machine has half as many FLOPs per second.",
    OPERANDS,
    "a, b, out = (torch.ones(n, n).double() for _ in range(3))",
)
_gemm(
    "gemm_bfloat16",
    "float32, as the model that is measured: other types have peaks of their own.",
    OPERANDS,
    "a, b, out = (torch.ones(n, n).bfloat16() for _ in range(3))",
)
_gemm(
    "gemm_one_number",
    "An expanded number is no matrix in memory: make both.",
    OPERANDS,
    "a, b, out = torch.ones(1, 1).expand(n, n), torch.ones(1, 1).expand(n, n), torch.empty(n, n)",
)
_gemm(
    "gemm_one_of_them_expanded",
    "Both are matrices in memory: an expanded row is one row.",
    OPERANDS,
    "a, b, out = torch.ones(n, n), torch.ones(1, n).expand(n, n), torch.empty(n, n)",
)
_gemm(
    "gemm_never_written",
    "Fill both matrices: what was never written may hold anything.",
    OPERANDS,
    "a, b, out = torch.empty(n, n), torch.empty(n, n), torch.empty(n, n)",
)
_gemm(
    "gemm_made_in_each_round",
    "Make the matrices before the clock runs: yours are written in each round, and that is timed as well.",
    GEMM,
    "lambda: torch.ones(n, n) @ torch.ones(n, n)",
)
_gemm(
    "gemm_multiplied_before",
    "Multiply the two matrices in every call that is timed: your product is ready before.",
    FLOPS,
    "ready = torch.mm(a, b, out=out)\n    return 2 * n**3 / best_time(lambda: ready, rounds, clock=clock)",
)
_gemm(
    "gemm_without_warmup",
    "One warm-up before the product of matrices is timed, too.",
    FLOPS,
    FLOPS.replace("rounds, ", "rounds, 0, "),
)
_gemm(
    "gemm_five_rounds_always",
    "Pass `rounds` on to best_time for the product of matrices, too.",
    FLOPS,
    FLOPS.replace("rounds, ", ""),
)
_gemm(
    "gemm_clock_of_its_own",
    "Pass the clock on for the product of matrices, too.",
    FLOPS,
    FLOPS.replace(", clock=clock", ""),
)
_timed(
    "gemm_flops", "gemm_slowest_round", "Use the best round of the product: the shortest time, not the longest.", max
)
_timed("gemm_flops", "gemm_mean_round", "Use the best round of the product: a mean contains the noise.", fmean)
