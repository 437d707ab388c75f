"""Judges traffic.py: experts by all the ways to draw them, bytes item by item in fractions, crossings by trying.

Exact ties are tested where all bytes are whole numbers, which floats hold; elsewhere no crossing is near a tie.
"""

import random
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest

from level11.traffic import (
    DEEPSEEK_V3,
    GEMMA3_27B,
    LLAMA_8B,
    MAMBA2,
    MIXTRAL,
    Architecture,
    crossover_context,
    decode_step_bytes,
    expected_experts_touched,
)

EXACT = {"rel": 1e-9, "abs": 0.0}
# one layer in eight sees everything, and the others 1024 tokens
HYBRID = Architecture("hybrid-12B", 12e9, global_kv_bytes=16384, local_kv_bytes=114688, window=1024)
# every field at once, and no two of them alike
ALL = Architecture("all", 1000, 70, 6, 2, 11, 13, 5, 17, 0.5)


def drawn(n_experts, k, batch):
    """Oracle: every way in which `batch` tokens can each choose k experts, counted."""
    ways = list(combinations(range(n_experts), k))
    return Fraction(sum(len(set().union(*way)) for way in product(ways, repeat=batch)), len(ways) ** batch)


def touched(n_experts, k, batch):
    """Oracle for large numbers: a token leaves an expert out in C(E - 1, k) of its C(E, k) choices."""
    return n_experts * (1 - Fraction(comb(n_experts - 1, k), comb(n_experts, k)) ** batch)


def moved(arch, batch, context_len):
    """Oracle: what is read and written, item by item, in exact fractions."""
    params = Fraction(arch.shared_params)
    if arch.n_experts:
        params += Fraction(arch.expert_params) * touched(arch.n_experts, arch.k, batch)
    total = params * Fraction(arch.bytes_per_param)
    for _ in range(batch):
        total += Fraction(arch.global_kv_bytes) * context_len
        total += Fraction(arch.local_kv_bytes) * sorted((arch.window, context_len))[0]
        total += Fraction(arch.state_bytes) + Fraction(arch.state_bytes)  # read, written
    return total


# ---- expected_experts_touched


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize(
    "case", [(8, 2, 1), (8, 2, 2), (4, 2, 3), (5, 3, 2), (6, 1, 3), (3, 3, 2), (4, 3, 3), (7, 2, 2), (2, 1, 7)], ids=str
)
def test_experts_of_every_draw(expect, case):
    """Oracle: all ways to draw, counted. Two tokens share experts now and then, and a shared one is read once."""
    expect(expected_experts_touched, *case).equals(float(drawn(*case)), **EXACT)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize(
    "case", [(8, 2, 8), (8, 2, 16), (256, 8, 1), (256, 8, 64), (128, 8, 1000), (60, 4, 3)], ids=str
)
def test_experts_of_large_models(expect, case):
    """Oracle: how often a token leaves an expert out, in fractions. DeepSeek-V3: 8 for one token, 222 for 64."""
    expect(expected_experts_touched, *case).equals(float(touched(*case)), **EXACT)


# ---- decode_step_bytes


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize(
    "arch, batch, context_len, right",
    [
        # 7.505e9 · 2, and 131072 bytes of each of 16 · 8192 tokens
        (LLAMA_8B, 1, 0, 15.01e9),
        (LLAMA_8B, 16, 8192, 15.01e9 + 17179869184),
        # 1.475e9 + 2 of 5.637e9; of 16 tokens 8 (1 - 0.75^16) = 7.9198 of 8 experts
        (MIXTRAL, 1, 0, 25.498e9),
        (MIXTRAL, 16, 0, 2 * (1.475e9 + 8 * (1 - 0.75**16) * 5.637e9)),
        (DEEPSEEK_V3, 1, 1000, 16.19e9 + 8 * 2.554e9 + 70272000),
        # the windows of 1024 are full at 4096 tokens and not at 1000
        (GEMMA3_27B, 1, 1000, 54e9 + 507904000),
        (GEMMA3_27B, 3, 4096, 54e9 + 3 * (81920 * 4096 + 425984 * 1024)),
        # 83 886 080 bytes of state, read and written, at any length
        (MAMBA2, 1, 10**6, 5.4e9 + 2 * 83886080),
        (MAMBA2, 64, 0, 5.4e9 + 128 * 83886080),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_known_models_move(expect, arch, batch, context_len, right):
    """By hand. At batch 16 Mixtral reads nearly all its experts: few active parameters, many bytes."""
    expect(decode_step_bytes, arch, batch, context_len).equals(right, **EXACT)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize("context_len", [0, 1, 4, 5, 6, 100])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_every_item_counts(expect, batch, context_len):
    """Oracle: item by item. Experts, both kinds of layer, a state, and half a byte a parameter, all in one model."""
    expect(decode_step_bytes, ALL, batch, context_len).equals(float(moved(ALL, batch, context_len)), **EXACT)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize("seed", range(4))
def test_any_architecture(expect, seed):
    """Oracle: as above, for models that nobody has built. Every field is 0 in some of them."""
    draw = random.Random(seed)
    for _ in range(8):
        arch, batch, context_len = drawn_model(draw, experts=True), draw.randrange(1, 9), draw.randrange(20)
        expect(decode_step_bytes, arch, batch, context_len).equals(float(moved(arch, batch, context_len)), **EXACT)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
def test_no_sequence_is_no_step(expect):
    """A caller's mistake; a sequence without context is none."""
    expect(decode_step_bytes, ALL, 1, 0).equals(float(moved(ALL, 1, 0)), **EXACT)
    for batch, context_len in ((0, 5), (-1, 5), (1, -1)):
        expect(decode_step_bytes, ALL, batch, context_len).raises(ValueError)


# ---- crossover_context


def drawn_model(draw, experts=False):
    """Small whole numbers, so that ties happen, and bends lie near each other."""
    n_experts = draw.choice([0, 2, 3, 5]) if experts else 0
    return Architecture(
        "drawn",
        draw.randrange(40),
        draw.randrange(30) if n_experts else 0,
        n_experts,
        draw.randrange(1, n_experts + 1) if n_experts else 0,
        draw.randrange(5),
        draw.randrange(7),
        draw.randrange(10),
        draw.randrange(6),
        draw.choice([1, 2, 0.5]),
    )


def model(params, per_token=0, local=0, window=0, state=0, width=1.0):
    return Architecture("by hand", params, 0, 0, 0, per_token, local, window, state, width)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize(
    "first, second, batch, right",
    [
        (model(100, 4, width=2), model(110, 2, width=2), 1, 11),  # 220 + 2 · 10 = 200 + 4 · 10: not yet more
        (model(100, 4, width=2), model(110, 2, width=2), 3, 4),  # 20 / 6 = 3.33
        (model(100, 4), model(111, 2), 1, 6),  # 11 / 2 = 5.5
        (model(100, 4), model(100, 2), 1, 1),
        (model(100, 0.5), model(101), 1, 3),  # a cache in 4 bits
        (model(100, 4), model(99, 4), 1, 0),
        (model(100, 4), model(100, 4), 1, None),
        (model(100, 2), model(101, 4), 2, None),
        # more at first, later less: the smallest context is asked for
        (model(100, 1), model(90, 2), 1, 0),
        # more only while the second one's window is not full, or while its own window fills
        (model(100, 3), model(110, 0, 3, 8), 1, 12),
        (model(100, 1, 5, 4), model(110, 2), 1, 3),
        (model(100, 1, 5, 4), model(112, 2), 1, 4),  # 100 + 24 > 112 + 8 only at 4 and the next 3
        (model(100, 1, 5, 4), model(116, 2), 1, None),  # as much at 4, and less from there on
        # more at 6 alone, which is no power of two; and once more from 18 on
        (model(100, 0, 5, 6), model(117, 2), 1, 6),
        (model(100, 1, 4, 6), model(117, 0, 2, 12), 1, 6),
        # less and less in its window, then more and more
        (model(100, 2), model(100, 0, 5, 4), 1, 11),
        (model(100, 0, 5, 6), model(100, 1, 5, 3), 1, 4),
        # as much at the bend, more right behind it
        (model(100, 3), model(100, 0, 3, 7), 1, 8),
        (model(100, 3), model(100, 0, 3, 7), 5, 8),
        # a state moves with the batch, and is read and written
        (model(100, 0, state=10), model(119), 1, 0),
        (model(100, 0, state=10), model(121), 1, None),
        (model(100, 0, state=10), model(121), 2, 0),
        (model(100, 4), model(100, state=10), 7, 6),
    ],
    ids=str,
)
def test_where_the_first_moves_more(expect, first, second, batch, right):
    """By hand: the difference of the weights over that of the bytes a token; where windows fill, the line bends."""
    expect(crossover_context, first, second, batch).equals(right)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize(
    "first, second, batch, right",
    [
        (LLAMA_8B, HYBRID, 1, 79411),
        (LLAMA_8B, HYBRID, 8, 10823),
        (MAMBA2, LLAMA_8B, 1, None),
        (LLAMA_8B, MAMBA2, 1, 0),
        (LLAMA_8B, MIXTRAL, 1, None),
        (MIXTRAL, LLAMA_8B, 1, 0),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_known_models_cross(expect, first, second, batch, right):
    """Llama and a hybrid of 12e9 parameters: (8.99e9 + 114688 · 1024) / 114688 = 79410.5; for 8 sequences
    8.99e9 / 8, and 10822.3. Mixtral has Llama's keys and values, so that only its weights decide."""
    expect(crossover_context, first, second, batch).equals(right)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize("width", [1.0, 2.0])
def test_a_crossing_beyond_any_text(expect, width):
    """By hand: one byte a token against 5e11 parameters. Trying one length after the other would take for ever."""
    right = int(5e11 * width) + 1
    expect(crossover_context, model(0, 3, width=width), model(5e11, 2, width=width), 1).equals(right)


def first_wrong(cases):
    """{} when crossover_context is right in all cases; else the first case in which it is not, and both results."""
    for first, second, batch, right in cases:
        yours = crossover_context(first, second, batch)
        if yours != right or isinstance(yours, float):
            return {"case": (first, second, batch), "yours": yours, "right": right}
    return {}


def tried(first, second, batch):
    """Oracle: one length after the other. No window is longer than 9 tokens: from 10 on the excess is a line."""
    excess = [moved(first, batch, n) - moved(second, batch, n) for n in range(12)]
    for n, more in enumerate(excess):
        if more > 0:
            return n
    slope = excess[11] - excess[10]
    return None if slope <= 0 else next(n for n in range(10, 2000) if excess[10] + slope * (n - 10) > 0)


@pytest.mark.kata("level11.traffic.decode_step_bytes")
@pytest.mark.parametrize("experts", [False, True], ids=["dense", "with experts"])
@pytest.mark.parametrize("seed", range(3))
def test_any_two_architectures(expect, seed, experts):
    """Oracle: trying. Models that cross at once, late, never, in a window, at its end; with experts no near ties."""
    draw, cases = random.Random(seed), []
    while len(cases) < 60:
        first, second, batch = drawn_model(draw, experts), drawn_model(draw, experts), draw.randrange(1, 4)
        right = tried(first, second, batch)
        near = range(max(0, (right or 0) - 1), (right or 0) + 2)
        gaps = [moved(first, batch, n) - moved(second, batch, n) for n in [*near, *range(12)]]
        if (right != 0 or draw.random() < 0.1) and (not experts or all(abs(gap) > 1e-6 for gap in gaps)):
            cases.append((first, second, batch, right))
    expect(first_wrong, cases).equals({})


@pytest.mark.kata("level11.traffic.decode_step_bytes")
def test_a_crossing_needs_a_sequence(expect):
    """As a step does."""
    expect(crossover_context, model(100, 4), model(110, 2), 1).equals(6)
    for batch in (0, -1):
        expect(crossover_context, model(100, 4), model(110, 2), batch).raises(ValueError)
