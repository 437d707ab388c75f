"""Right programs, written another way, for level04.measure. `alternative` is given when this is read."""

import math
import timeit
from itertools import repeat
from time import perf_counter

import numpy as np
import torch
from torch.nn import functional as F


def _in_a_list(function, rounds=5, warmup=1, clock=perf_counter):
    """The minimum of a list of all rounds, each timed by a function of its own."""
    if not (rounds >= 1 and warmup >= 0):
        raise ValueError("rounds, or warm-up")

    def seconds():
        start = clock()
        function()
        end = clock()
        return end - start

    for _ in repeat(None, warmup):
        function()
    return min([seconds() for _ in range(rounds)])


def _timeit(function, rounds=5, warmup=1, clock=perf_counter):
    """The standard library's."""
    if rounds < 1 or warmup < 0:
        raise ValueError("rounds, or warm-up")
    [function() for _ in range(warmup)]
    return min(timeit.repeat(function, timer=clock, repeat=rounds, number=1))


def _sorted_array(function, rounds=5, warmup=1, clock=perf_counter):
    """All readings in one array, subtracted at the end."""
    if min(rounds - 1, warmup) < 0:
        raise ValueError("rounds, or warm-up")
    readings = np.empty((rounds, 2))
    for i in range(-warmup, rounds):
        if i < 0:
            function()
            continue
        readings[i, 0] = clock()
        function()
        readings[i, 1] = clock()
    return np.sort(readings[:, 1] - readings[:, 0])[0]


def _while(function, rounds=5, warmup=1, clock=perf_counter):
    """Counts down; the first round sets the best."""
    if rounds <= 0:
        raise ValueError("no round")
    if warmup <= -1:
        raise ValueError("less than no warm-up")
    while warmup:
        function()
        warmup -= 1
    best = None
    while rounds:
        before = clock()
        function()
        took = clock() - before
        best, rounds = took if best is None or took < best else best, rounds - 1
    return float(best)


for program in (_in_a_list, _timeit, _sorted_array, _while):
    alternative("level04.measure.best_time", program.__name__.strip("_"), program=program)


def _ceil(cache):
    if cache is None:
        return 2**28
    if cache <= 0:
        raise ValueError("no cache")
    return max(math.ceil(cache / 1024), 16 * 1024) * 4096


def _adds_what_lacks(cache):
    if cache is None:
        return 65_536 * 4096
    if cache < 1:
        raise ValueError("no cache")
    size = 4 * cache if cache > 16 << 20 else 64 << 20
    return size + (-size) % 4096


alternative("level04.measure.read_bandwidth", "ceil", program=_ceil, part="probe_bytes")
alternative("level04.measure.read_bandwidth", "adds_what_lacks", program=_adds_what_lacks, part="probe_bytes")


def _bandwidth(name, prepare):
    """prepare(rows) gives the function that multiplies a matrix of that many rows by a vector."""

    def program(n_bytes, rounds=5, clock=perf_counter):
        from level04.measure import best_time

        rows = n_bytes // 4096
        if rows < 1:
            raise ValueError("less than a row")
        return 4096 * rows / best_time(prepare(rows), rounds=rounds, clock=clock)

    alternative("level04.measure.read_bandwidth", name, program=program)


def _matmul(rows):
    matrix, vector = torch.randn(rows, 1024), torch.randn(1024)
    return lambda: matrix @ vector


def _a_flat_buffer(rows):
    matrix, vector = torch.full((1024 * rows,), 0.5).view(rows, 1024), torch.rand(1024)
    return lambda: torch.matmul(matrix, vector)


def _filled_empty(rows):
    matrix, vector = torch.empty(rows, 1024), torch.empty(1024, 1)
    matrix.uniform_(-1, 1)
    vector[:] = 1
    return lambda: torch.mm(matrix, vector)


def _as_decode_does(rows):
    hidden, weight = torch.ones(1, 1024), torch.zeros(rows, 1024)

    def product():
        with torch.no_grad():
            return F.linear(hidden, weight)

    return product


def _a_module(rows):
    layer, hidden = torch.nn.Linear(1024, rows, bias=False), torch.ones(1024)

    def product():
        with torch.inference_mode():
            return layer(hidden)

    return product


def _einsum(rows):
    matrix, vector = torch.arange(1024.0 * rows).reshape(rows, 1024), torch.ones(1024)
    return lambda: torch.einsum("ij,j->i", matrix, vector)


def _from_numpy(rows):
    matrix = torch.from_numpy(np.ones((rows, 1024), dtype=np.float32))
    return lambda: matrix.matmul(matrix[0])


def _transposed(rows):
    matrix, vector = torch.ones(rows, 1024), torch.ones(1, 1024)
    return lambda: vector @ matrix.T


def _addmv(rows):
    out, matrix, vector = torch.zeros(rows), torch.ones(rows, 1024).contiguous(), torch.ones(1024)
    return lambda: torch.addmv(out, matrix, vector, beta=0, out=out)


def _addmv_in_place(rows):
    out, matrix, vector = torch.zeros(rows), torch.ones(rows, 1024), torch.ones(1024)
    return lambda: out.addmv_(matrix, vector, beta=0)


def _in_pieces(rows):
    pieces, vector = torch.ones(rows, 1024).tensor_split(4), torch.ones(1024)
    return lambda: [piece.mv(vector) for piece in pieces]


def _columns(rows):
    matrix, vector = torch.ones(rows, 1024), torch.ones(rows)
    return lambda: vector @ matrix


def _a_batch_of_one(rows):
    matrix, vector = torch.ones(1, rows, 1024), torch.ones(1, 1024, 1)
    return lambda: torch.bmm(matrix, vector)


for prepare in (
    _matmul,
    _a_flat_buffer,
    _filled_empty,
    _as_decode_does,
    _a_module,
    _einsum,
    _from_numpy,
    _transposed,
    _addmv,
    _addmv_in_place,
    _in_pieces,
    _columns,
    _a_batch_of_one,
):
    _bandwidth(prepare.__name__.strip("_"), prepare)


def _without_best_time(n_bytes, rounds=5, clock=perf_counter):
    """Times by itself, and takes the largest rate."""
    if n_bytes < 4096:
        raise ValueError("less than a row")
    matrix, vector = torch.ones(n_bytes // 4096, 1024), torch.ones(1024)
    matrix.mv(vector)
    rates = []
    for _ in range(rounds):
        start = clock()
        matrix.mv(vector)
        rates.append(matrix.numel() * matrix.element_size() / (clock() - start))
    return max(rates)


alternative("level04.measure.read_bandwidth", "without_best_time", program=_without_best_time)


def _gemm(name, prepare):
    """prepare(n) gives the function that multiplies two matrices."""

    def program(n, rounds=5, clock=perf_counter):
        from level04.measure import best_time

        if n <= 0:
            raise ValueError("no rows")
        return 2.0 * n * n * n / best_time(prepare(n), rounds, 1, clock)

    alternative("level04.measure.read_bandwidth", name, program=program, part="gemm_flops")


def _two_random(n):
    a, b = torch.rand(n, n), torch.rand(n, n)
    return lambda: a @ b


def _in_place(n):
    a, b, c = torch.randn(3, n, n).unbind()
    return lambda: torch.matmul(a, b, out=c)


def _by_itself(n):
    a = torch.eye(n)
    return lambda: a.matmul(a)


def _linear(n):
    weight, hidden = torch.randn(n, n), torch.randn(n, n)
    return lambda: F.linear(hidden, weight)


def _batched(n):
    a, b = torch.ones(2, 1, n, n)
    return lambda: torch.bmm(a, b)


def _einsum_of_two(n):
    a, b = torch.ones(n, n), torch.zeros(n, n)
    return lambda: torch.einsum("ij,jk->ik", a, b)


def _addmm(n):
    a, b, c = torch.ones(n, n), torch.ones(n, n), torch.zeros(n, n)
    return lambda: torch.addmm(c, a, b, beta=0, out=c)


for prepare in (_two_random, _in_place, _by_itself, _linear, _batched, _einsum_of_two, _addmm):
    _gemm(f"gemm_{prepare.__name__.strip('_')}", prepare)
