"""Judges drawing.py by exact fractions of every probability, and by enumerating the random numbers instead of drawing.

Only `sample` draws: once it is counted, with a limit that a right program exceeds once in a thousand million.
"""

import math
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from itertools import accumulate, product

import pytest
import torch

from level03.drawing import gumbel_max, inverse_cdf, sample, token_logprobs

BELOW_ONE = 1 - 2**-53  # the largest float64; torch.rand in float32 reaches 1 - 2**-24
INF = math.inf


def tensor(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


# ---- inverse_cdf


def first_beyond(probs, u):
    """Oracle: walk through one row in exact fractions, to the first i with p_0 + … + p_i > u · sum."""
    probs, running = [Fraction(p) for p in probs.tolist()], 0
    goal = Fraction(float(u)) * sum(probs)
    for i, p in enumerate(probs):
        running += p
        if running > goal:
            return i
    raise AssertionError("u is below 1")


def each_beyond(probs, u):
    """The oracle on rows (n, V) and numbers (n,)."""
    return torch.tensor([first_beyond(row, x) for row, x in zip(probs, u)])


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_each_token_has_a_stretch_of_u_as_long_as_its_probability(expect):
    """u = 0, 1/64, …, 63/64 on probabilities in 64ths: each of them gets exactly its number, at its place."""
    counts = [3, 0, 13, 16, 1, 0, 31, 0]
    probs = (torch.tensor(counts) / 64).expand(64, 8)
    right = torch.arange(8).repeat_interleave(torch.tensor(counts))
    expect(inverse_cdf, probs, torch.arange(64) / 64).equals(right)


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize(
    "probs, u, right",
    [
        ([0.1, 0.2, 0.3, 0.4], 0.05, 0),
        ([0.1, 0.2, 0.3, 0.4], 0.35, 2),
        ([0.1, 0.2, 0.3, 0.4], 0.999, 3),
        ([0.4, 0.3, 0.2, 0.1], 0.65, 1),
        ([0.25, 0.5, 0.25], 0.25, 1),
        ([0.25, 0.5, 0.25], 0.75, 2),
        ([0.25, 0.5, 0.25], 0.25 - 2**-26, 0),
        ([1.0], 0.5, 0),
    ],
)
def test_one_row_and_one_number(expect, probs, u, right):
    """The examples, and the borders: of probabilities .25, .5, .25 the second has its stretch from .25 on."""
    expect(inverse_cdf, tensor(*probs), torch.tensor(u)).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize(
    "probs, u, right",
    [
        ([0.0, 1.0], 0.0, 1),
        ([0.0, 0.0, 1.0, 0.0], 0.0, 2),
        ([0.0, 0.0, 1.0, 0.0], BELOW_ONE, 2),
        ([0.5, 0.0, 0.5], 0.5, 2),
        ([0.5, 0.5, 0.0], 1 - 2**-24, 1),
        ([1.0, 2**-30], BELOW_ONE, 1),
        ([2**-30, 1.0], 0.0, 0),
        ([0.5, 0.5, 0.0, 0.0], BELOW_ONE, 1),
        ([1.0, 0.0, 0.0], 0.0, 0),
        ([1.0, 0.0, 0.0], BELOW_ONE, 0),
        ([0.3, 0.3, 0.3, 0.0], BELOW_ONE, 2),
        ([0.1, 0.2, 0.0, 0.4, 0.3, 0.0], BELOW_ONE, 4),
    ],
)
def test_what_is_excluded_is_never_chosen(expect, probs, u, right):
    """top_p and a grammar have excluded it. torch.rand gives exactly 0 once in 16 million numbers, and the largest
    below 1 as often: a server that draws 10,000 tokens a second sees both every half hour."""
    expect(inverse_cdf, tensor(*probs), torch.tensor(u, dtype=torch.float64)).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_largest_u_finds_a_possible_token_whatever_the_rounding(expect, dtype):
    """300 rows of 40 with zeros at both ends and between. Their sums end a little above or below 1, and so does a
    running sum of what has been divided by them. Oracle: the first and the last token that have a probability."""
    torch.manual_seed(0)
    probs = torch.rand(300, 40, dtype=torch.float64) * (torch.rand(300, 40) < 0.6)
    probs[:, 7] = 0.5
    probs = (probs / probs.sum(-1, keepdim=True)).to(dtype)
    last = torch.tensor([max(i for i, p in enumerate(row) if p) for row in probs.tolist()])
    first = torch.tensor([min(i for i, p in enumerate(row) if p) for row in probs.tolist()])
    expect(inverse_cdf, probs, torch.full((300,), BELOW_ONE, dtype=torch.float64)).equals(last)
    expect(inverse_cdf, probs, torch.zeros(300)).equals(first)


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("scale", [0.9999, 1.0001, 0.5, 2.0])
def test_a_row_is_scaled_to_its_own_sum(expect, scale):
    """bfloat16 probabilities sum to 0.9999 or 1.0001; taken as they are, the last token's stretch is cut or grows.

    Oracle: exact fractions. With half and double the sum the borders are exact, too.
    """
    probs = tensor(0.25, 0.25, 0.0, 0.375, 0.125, dtype=torch.float64) * scale
    numbers = tensor(0.0, 0.2499, 0.2501, 0.4999, 0.5001, 0.8749, 0.8751, 0.99995, BELOW_ONE, dtype=torch.float64)
    if scale in (0.5, 2.0):
        numbers = torch.cat([numbers, tensor(0.25, 0.5, 0.875, dtype=torch.float64)])
    rows = probs.expand(len(numbers), 5)
    expect(inverse_cdf, rows, numbers).equals(each_beyond(rows, numbers))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_each_row_has_its_own_sum(expect):
    """A batch mixes requests: the first row's rounding is not the second's. Oracle: exact fractions."""
    probs = tensor([0.25, 0.25, 0.4999], [0.25, 0.25, 0.5001], [0.1, 0.1, 0.1], [0.6, 0.0, 0.6])
    u = tensor(0.50003, 0.49997, 0.65, 0.501)
    expect(inverse_cdf, probs, u).equals(each_beyond(probs, u))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sums_are_taken_in_float64(expect):
    """.5, .25, .25 - 2^-26 and two of 2^-27: in float32 the sum is 1 after the third, and the rest can't be drawn."""
    probs = tensor(0.5, 0.25, 0.25 - 2**-26, 2**-27, 2**-27).expand(5, 5)
    u = tensor(0.75, 1 - 2**-25, 1 - 2**-26, 1 - 2**-27, BELOW_ONE, dtype=torch.float64)
    expect(inverse_cdf, probs, u).equals(torch.tensor([2, 2, 3, 4, 4]))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_borders_are_right_to_twelve_digits(expect):
    """Both sides of every border of 30 rows, 1e-12 away: float64 finds it within 1e-15, a division or a sum in float32
    misses it by 1e-8. A border that moves is a probability that is wrong. Oracle: exact fractions."""
    torch.manual_seed(4)
    rows, numbers = [], []
    for row in torch.rand(30, 7).softmax(-1) * torch.rand(30, 1).mul(1e-4).add(0.9999):
        total, mass = sum(map(Fraction, row.tolist())), Fraction(0)
        for p in row.tolist()[:-1]:
            mass += Fraction(p)
            rows += [row, row]
            numbers += [float(mass / total) - 1e-12, float(mass / total) + 1e-12]
    probs, u = torch.stack(rows), torch.tensor(numbers, dtype=torch.float64)
    expect(inverse_cdf, probs, u).equals(each_beyond(probs, u))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_real_vocabulary(expect, dtype):
    """49,152 tokens, most of them hardly possible: running sums of half precision would stand still after some
    hundred, sums of float32 be off by a token. Oracle: exact fractions, 24 numbers."""
    torch.manual_seed(0)
    probs = (4 * torch.randn(49152)).softmax(-1).to(dtype).flip(0)
    u = torch.linspace(0.01, 0.999, 24, dtype=torch.float64)
    masses = list(accumulate(int(math.ldexp(p, 149)) for p in probs.tolist()))  # whole numbers, so exact
    right = [bisect_right(masses, Fraction(x) * masses[-1]) for x in u.tolist()]
    expect(inverse_cdf, probs.expand(24, -1), u).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("p_dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("u_dtype", [torch.float64, torch.float32], ids=str)
def test_random_rows_of_any_precision(expect, p_dtype, u_dtype):
    """Oracle: exact fractions, 200 rows of 30. A u that is rounded to the precision of probs is another number."""
    torch.manual_seed(1)
    probs = torch.randn(200, 30).mul(2).softmax(-1).to(p_dtype)
    u = torch.rand(200, dtype=torch.float64).to(u_dtype)
    expect(inverse_cdf, probs, u).equals(each_beyond(probs, u))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (1, 1), (1, 2, 4), (0,)], ids=str)
def test_any_leading_axes(expect, shape):
    """(batch, seq, V) is what speculative decoding (level 08) brings; no row is no token, of the same dtype."""
    torch.manual_seed(2)
    probs, u = torch.rand(*shape, 3).softmax(-1), torch.rand(*shape)
    right = each_beyond(probs.reshape(-1, 3), u.reshape(-1)).long().reshape(shape)
    expect(inverse_cdf, probs, u).equals(right)


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_the_memory_layout_does_not_matter(expect):
    """A transposed or sliced tensor is read row by row like any other."""
    torch.manual_seed(3)
    probs, u = torch.rand(6, 5).softmax(0).T, torch.rand(10)[::2]
    expect(inverse_cdf, probs, u).equals(each_beyond(probs, u))


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("u", [-0.25, 1.0, 1.5])
def test_u_outside_of_its_range_is_refused(expect, u):
    """u = 1 would fall behind the last token: whoever passes it has a generator that is not torch.rand's."""
    expect(inverse_cdf, tensor([0.5, 0.5], [0.5, 0.5]), tensor(0.5, 0.25)).equals(torch.tensor([1, 0]))
    expect(inverse_cdf, tensor([0.5, 0.5], [0.5, 0.5]), tensor(0.5, u)).raises(ValueError)


# ---- sample, a part of inverse_cdf


def drawn(seed, logits, times=1, elsewhere=0):
    """`times` calls with one generator; the global one stands at `elsewhere`."""
    with torch.random.fork_rng():
        torch.manual_seed(elsewhere)
        generator = torch.Generator().manual_seed(seed)
        return [sample(logits, generator) for _ in range(times)]


def drawn_globally(seed, logits, times=1):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return [sample(logits) for _ in range(times)]


EVEN = torch.zeros(64, 1000)  # two draws of 64 tokens agree once in 10 ** 192


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "logits, right",
    [
        ([-INF, 3, -INF], 1),
        ([[-INF, 0], [5, -INF]], [1, 0]),
        ([[[-INF, -40000, -INF], [-INF, -INF, 60000]]], [[1, 2]]),
        ([1000, 0, 900], 0),
        ([-1200, -1000], 1),
    ],
    ids=["one row", "two rows", "three axes", "no overflow", "no underflow"],
)
def test_sample_draws_what_alone_is_possible(expect, logits, right, dtype):
    """Logits are no probabilities yet: exp(1000) is no float. A token at -inf can't be drawn."""
    expect(drawn, 0, torch.tensor(logits, dtype=dtype), 2).equals([torch.tensor(right)] * 2)


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_follows_the_softmax(expect):
    """The one statistical test: 40,000 draws with a fixed seed, both halves counted, 6 degrees of freedom.

    A right program stays below 53.4 but for one seed in a thousand million, scipy.stats.chi2.isf(1e-9, 6). Two
    softmaxes come to 22,000, a temperature of 0.9 to 160.
    """

    def chi_square(tokens):
        probs, distance = (0.5, 0.3, 0.15, 0.05), 0.0
        for half in tokens[0].chunk(2):
            counts = Counter(half.flatten().tolist())
            distance += sum((counts[i] - half.numel() * p) ** 2 / (half.numel() * p) for i, p in enumerate(probs))
        return tokens[0].shape == (200, 200) and distance < 53.4 or f"chi-square {distance:.1f}"

    logits = tensor(0.5, 0.3, 0.15, 0.05).log().expand(200, 200, 4) - 3
    expect(drawn, 0, logits).holds(chi_square, "each token is drawn as often as softmax says: .5, .3, .15, .05")


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_draws_each_row_with_a_number_of_its_own(expect):
    """One number for a whole batch would give two users with the same prompt the same answer, for ever."""

    def no_two_alike(tokens):
        block = tokens[0].tolist()
        lines = [*map(tuple, block), *zip(*block)]
        if len(set(lines)) < 16:
            return "two rows, or two columns, of (8, 8) draws are the same"
        return len({*sum(block, [])}) > 45 or "of 64 draws from 1000 equally likely tokens, some 62 are different"

    expect(drawn, 0, torch.zeros(8, 8, 1000)).holds(no_two_alike, "8 x 8 draws from 1000 tokens, no two lines alike")


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_takes_its_numbers_from_the_generator(expect):
    """A request with a seed gets the same text again, whatever others have drawn from torch's global generator."""

    def the_same_again(logits):
        once, again, other = drawn(7, logits, 3, 1), drawn(7, logits, 3, 2), drawn(8, logits, 3, 1)
        return [torch.equal(a, b) for a, b in zip(once, again)], [torch.equal(a, b) for a, b in zip(once, other)]

    expect(the_same_again, EVEN).equals(([True] * 3, [False] * 3))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_goes_on_in_the_generator(expect):
    """The next call draws new numbers: a generator that is not moved on writes one token again and again."""

    def repeats(logits):
        with_one, without = drawn(7, logits, 2), drawn_globally(7, logits, 2)
        return torch.equal(*with_one), torch.equal(*without)

    expect(repeats, EVEN).equals((False, False))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_without_a_generator_uses_the_global_one(expect):
    """torch.manual_seed is how a script makes its run repeatable."""

    def the_same_again(logits):
        once, again, other = (drawn_globally(seed, logits)[0] for seed in (7, 7, 8))
        return torch.equal(once, again), torch.equal(once, other)

    expect(the_same_again, EVEN).equals((True, False))


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_with_a_generator_leaves_the_global_one_alone(expect):
    """Otherwise one request's draws would change another's text."""

    def disturbed(logits):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            before = torch.get_rng_state()
            sample(logits, torch.Generator().manual_seed(7))
            return torch.equal(before, torch.get_rng_state())

    expect(disturbed, EVEN).equals(True)


@pytest.mark.kata("level03.drawing.inverse_cdf")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sample_in_half_precision_draws_what_it_draws_in_float64(expect, dtype):
    """The logits are the same, and so is the generator. Probabilities of three digits would change some tokens."""

    def changed(logits):
        (half,), (wide,) = drawn(7, logits), drawn(7, logits.double())
        return int((half != wide).sum())

    torch.manual_seed(0)
    expect(changed, torch.randn(4000, 64).mul(2).to(dtype)).equals(0)


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_of_a_transposed_tensor(expect):
    """One token for each row along the last axis, however it lies in memory; 9 rows of 4 here."""
    logits = torch.full((4, 9), -INF)
    right = torch.tensor([2, 0, 3, 1, 1, 2, 3, 0, 2])
    logits[right, torch.arange(9)] = 1
    expect(drawn, 3, logits.T).equals([right])


@pytest.mark.kata("level03.drawing.inverse_cdf")
def test_sample_refuses_a_row_in_which_nothing_is_left(expect):
    """A softmax of nothing is NaN, and a token of it is noise: the processors before it have gone too far."""
    expect(drawn, 0, tensor([-INF, 0], [0, -INF])).equals([torch.tensor([1, 0])])
    expect(drawn, 0, tensor([0, 0], [-INF, -INF])).raises(ValueError)


# ---- gumbel_max


def largest_sum(logits, u):
    """Oracle: the formula in Python floats, entry by entry, for rows (n, V)."""
    noisy = [[z - math.log(-math.log(x)) for z, x in zip(*pair)] for pair in zip(logits.tolist(), u.tolist())]
    return torch.tensor([row.index(max(row)) for row in noisy])


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_the_largest_sum_of_logit_and_noise(expect):
    """The example by hand: -ln(-ln .5) = .367, of .9 2.250, of .2 -.476; sums 1.367, 2.250, 1.524."""
    expect(gumbel_max, tensor(1.0, 0.0, 2.0), tensor(0.5, 0.9, 0.2)).equals(torch.tensor(1))
    expect(gumbel_max, tensor(1.0, 0.0, 2.0), tensor(0.5, 0.5, 0.5)).equals(torch.tensor(2))
    expect(gumbel_max, tensor(1.0, 0.0, 1.7), tensor(0.5, 0.2, 0.2)).equals(torch.tensor(0))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize("shift", [0.0, 1000.0, -1000.0])
def test_a_shift_of_all_logits_changes_nothing(expect, shift):
    """Logits are known up to a constant: exp(1000) is infinite and exp(-1000) is 0, but neither is needed."""
    expect(gumbel_max, tensor(shift + 1, shift, shift + 2), tensor(0.5, 0.9, 0.2)).equals(torch.tensor(1))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize("z", [0.0, 0.5, -1.0, 3.0])
def test_over_all_u_of_two_tokens_it_is_the_softmax(expect, z):
    """Why the trick works: 256 x 256 pairs of numbers, and the part that chooses the first is 1 / (1 + exp(-z)).

    No luck is in it: the border of that part is one curve, which passes through at most 512 of the 65,536 squares.
    """

    def part_of_first(logits, u):
        return (gumbel_max(logits, u) == 0).double().mean().item()

    centres = (torch.arange(256) + 0.5) / 256
    u = torch.cartesian_prod(centres, centres)
    logits = tensor(z, 0.0).expand(len(u), 2)
    expect(part_of_first, logits, u).equals(1 / (1 + math.exp(-z)), rel=0, abs=1 / 256)


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_over_all_u_of_three_tokens_it_is_the_softmax(expect):
    """40 numbers for each of three tokens of probability .5, .3 and .2: 64,000 draws, none of them random."""

    def parts(logits, u):
        return [(gumbel_max(logits, u) == i).double().mean().item() for i in range(3)]

    centres = (torch.arange(40) + 0.5) / 40
    u = torch.cartesian_prod(centres, centres, centres)
    logits = (tensor(0.5, 0.3, 0.2).log() + 2).expand(len(u), 3)
    expect(parts, logits, u).equals([0.5, 0.3, 0.2], rel=0, abs=0.01)


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize("u_dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_random_rows_are_computed_in_float64(expect, dtype, u_dtype):
    """Half-precision logits near 50 are a quarter apart: noise rounded to that is not Gumbel noise any more.

    Oracle: the formula in Python floats, 400 rows of 60.
    """
    torch.manual_seed(0)
    logits = (50 + torch.randn(400, 60)).to(dtype)
    u = torch.rand(400, 60, dtype=u_dtype).clamp(min=2**-24)
    expect(gumbel_max, logits, u).equals(largest_sum(logits, u))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize(
    "logits, u, right",
    [
        ([0.0, 5.0], [1 - 2**-30, 1 - 2**-40], 1),
        ([0.0, 5.0], [1 - 2**-40, 1 - 2**-30], 0),
        ([0.0, 1.5], [1 - 2**-40, 1 - 2**-30], 0),
        ([5.0, 0.0], [1 - 2**-30, 1 - 2**-53], 1),
        ([0.0, 14.0, 0.0], [1 - 2**-53, 1 - 2**-33, 0.5], 1),
        ([0.0, 0.5], [2**-24, 2**-52], 0),
        ([0.0, 0.8], [2**-24, 2**-52], 1),
        ([0.0, 0.3], [2**-40, 2**-52], 1),
        ([0.2, 0.0], [2**-52, 2**-40], 1),
        ([25.0, 0.0], [0.5, 1 - 2**-53], 1),
        ([0.0, 0.0], [0.5, 0.5 + 2**-40], 1),
        ([64.0, 64.0, 64.0], [0.7, 0.9, 0.9 + 2**-40], 2),
    ],
)
def test_numbers_close_to_the_ends_of_their_range(expect, logits, u, right):
    """torch.rand in float64 comes as close to 1 as 2^-53: noise 36.7. In float32 that is 1, the noise infinite, and
    the best of 49,152 such numbers decides. By hand: noise of 1 - 2^-k is .693 k, of 2^-k it is -ln(.693 k). The last
    two differ by 2^-40, of which float32 sees nothing."""
    expect(gumbel_max, tensor(*logits), tensor(*u, dtype=torch.float64)).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_small_differences_decide(expect):
    """Of 49,152 tokens two often come close. Two neighbours among the float32 numbers beside a logit of 64, and two
    logits that differ by 2^-40 beside the same number: float32 sees a tie in both."""
    u = tensor(0.7, 0.9, 0.9)
    u[2] = u[2].nextafter(torch.tensor(1.0))
    expect(gumbel_max, tensor(64.0, 64.0, 64.0), u).equals(torch.tensor(2))
    expect(gumbel_max, tensor(0.0, 1.0, 1 + 2**-40, dtype=torch.float64), tensor(0.5, 0.5, 0.5)).equals(torch.tensor(2))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize(
    "logits, u, right",
    [
        ([-INF, 0.0], [0.999, 0.001], 1),
        ([-INF, 0.0], [0.999, 0.0], 1),
        ([-INF, 0.0, -INF], [0.0, 0.0, 0.0], 1),
        ([-INF, -1e30], [1 - 2**-24, 0.0], 1),
        ([0.0, -INF], [0.5, 1 - 2**-24], 0),
        ([-INF, -INF, 2.0, 1.0], [0.9, 0.9, 0.1, 0.1], 2),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_excluded_token_is_never_chosen(expect, logits, u, right, dtype):
    """Whatever its number, and whatever that of the only allowed one: -inf and ln 0 must not tie."""
    expect(gumbel_max, tensor(*logits), tensor(*u, dtype=dtype)).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_an_excluded_token_meets_the_largest_number(expect):
    """1 - 2^-53 is 1 in float32, its noise infinite, and -inf + inf is NaN, which argmax takes for the largest."""
    logits, u = tensor(-INF, 0.0, -INF), tensor(BELOW_ONE, 0.5, BELOW_ONE, dtype=torch.float64)
    expect(gumbel_max, logits, u).equals(torch.tensor(1))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize(
    "logits, u, right",
    [
        ([1.0, 0.0], [0.0, 0.5], 1),
        ([20.0, 0.0], [0.0, 0.5], 0),
        ([0.0, 20.0], [0.5, 0.0], 1),
        ([0.0, 3.0, 0.0], [0.0, 0.0, 0.0], 1),
        ([0.0, 0.0], [0.0, 2**-20], 1),
    ],
)
def test_a_number_of_0_is_a_very_small_one(expect, logits, u, right):
    """float32 draws it once in 16 million, so for one vocabulary every 341 tokens. The token keeps a chance: its noise
    is that of a small number (-3.6 for 2^-53, -6.5 for 1e-300), not -inf."""
    expect(gumbel_max, tensor(*logits), tensor(*u)).equals(torch.tensor(right))


@pytest.mark.kata("level03.drawing.gumbel_max")
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (1, 2, 4), (0,)], ids=str)
def test_gumbel_max_with_any_leading_axes(expect, shape):
    """One token for each row, (…) int64. Oracle: the formula in Python floats."""
    torch.manual_seed(1)
    logits, u = torch.randn(*shape, 3), torch.rand(*shape, 3)
    right = largest_sum(logits.reshape(-1, 3), u.reshape(-1, 3)).long().reshape(shape)
    expect(gumbel_max, logits, u).equals(right)


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_gumbel_max_reads_any_memory_layout(expect):
    """Transposed logits and every second number."""
    torch.manual_seed(2)
    logits, u = torch.randn(5, 40).T, torch.rand(40, 10)[:, ::2]
    expect(gumbel_max, logits, u).equals(largest_sum(logits, u))


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_each_part_of_the_vocabulary_can_be_searched_alone(expect):
    """Why it is used on several devices: the best of the parts' winners is the winner. Oracle: the whole in Python."""

    def winners_of_halves(logits, u):
        return [[gumbel_max(logits[:, part], u[:, part]) for part in (slice(0, 30), slice(30, 60))]]

    torch.manual_seed(3)
    logits, u = 3 * torch.randn(50, 60), torch.rand(50, 60)
    right = [largest_sum(logits[:, :30], u[:, :30]), largest_sum(logits[:, 30:], u[:, 30:])]
    expect(winners_of_halves, logits, u).equals([right])


@pytest.mark.kata("level03.drawing.gumbel_max")
def test_one_number_for_each_logit(expect):
    """A number for each row would be broadcast, and argmax would then be greedy whatever it is."""
    expect(gumbel_max, torch.zeros(2, 3), tensor([0.1, 0.9, 0.2], [0.1, 0.2, 0.9])).equals(torch.tensor([1, 2]))
    expect(gumbel_max, torch.zeros(2, 3), torch.full((2, 1), 0.5)).raises(ValueError)
    expect(gumbel_max, torch.zeros(2, 3), torch.full((3,), 0.5)).raises(ValueError)
    expect(gumbel_max, torch.zeros(2, 3), torch.full((3, 2), 0.5)).raises(ValueError)


# ---- token_logprobs


def logprob(row, token):
    """Oracle: z_i - max - ln(sum of exp(z - max)) in Python floats."""
    top = max(row)
    return row[token] - top - math.log(math.fsum(math.exp(z - top) for z in row))


def each_logprob(logits, ids):
    return tensor(*(logprob(row, token) for row, token in zip(logits.tolist(), ids.tolist())))


@pytest.mark.kata("level03.drawing.token_logprobs")
def test_the_natural_logarithm_of_the_softmax(expect):
    """The example by hand: 2 - ln(e + e^2) = -.313262, and ln .5 = -.693147."""
    expect(token_logprobs, tensor([1.0, 2.0], [0.0, 0.0]), torch.tensor([1, 0])).equals(tensor(-0.313262, -0.693147))
    probs = tensor([0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4])
    expect(token_logprobs, probs.log(), torch.tensor([3, 2])).equals(tensor(math.log(0.05), math.log(0.3)))


@pytest.mark.kata("level03.drawing.token_logprobs")
@pytest.mark.parametrize("n, vocab", [(5, 3), (3, 3), (2, 7), (1, 4), (1, 1)])
def test_each_id_in_its_own_row(expect, n, vocab):
    """n tokens of a text and V tokens of a vocabulary are easily taken for each other. Oracle: plain Python."""
    torch.manual_seed(0)
    logits, ids = 3 * torch.randn(n, vocab), torch.randint(vocab, (n,))
    expect(token_logprobs, logits, ids).equals(each_logprob(logits, ids))


@pytest.mark.kata("level03.drawing.token_logprobs")
@pytest.mark.parametrize(
    "logits, token, right",
    [
        ([1000.0, 0.0], 1, -1000.0),
        ([1000.0, 0.0], 0, 0.0),
        ([0.0, -200.0, -300.0], 2, -300.0),
        ([0.0, 0.0, -200.0], 2, -200.693147),
        ([-1000.0, -1000.0], 0, -0.693147),
        ([30000.0, 0.0, 29990.0], 1, -30000.0000454),
        ([-20000.0, 20000.0], 0, -40000.0),
    ],
)
def test_a_probability_too_small_for_a_float_has_a_logarithm(expect, logits, token, right):
    """e^-1000 is 0 in every float, its logarithm is -1000: one such token would make a whole text impossible."""
    expect(token_logprobs, tensor(logits, logits), torch.tensor([token, token])).equals(tensor(right, right), abs=1e-4)


@pytest.mark.kata("level03.drawing.token_logprobs")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("vocab", [9, 40000])
def test_other_precisions_come_out_in_float32(expect, dtype, vocab):
    """bfloat16 keeps 8 bits: computed in it, log-probabilities near -10 are off by 0.03 each, and a text's by their
    sum. Oracle: plain Python floats on the same logits."""
    torch.manual_seed(1)
    logits, ids = (4 * torch.randn(6, vocab)).to(dtype), torch.randint(vocab, (6,))
    ids[2] = vocab - 1
    expect(token_logprobs, logits, ids).equals(each_logprob(logits, ids), rel=1e-5, abs=1e-5)


@pytest.mark.kata("level03.drawing.token_logprobs")
def test_processed_logits_give_the_sampler_s(expect):
    """After top_k the rest shares the probability: [2, 0] at temperature 2 is [1, 0]. What is excluded has -inf."""
    logits = tensor([2.0, 0.0, -3.0], [1.0, 0.0, -1.5], [1.0, 0.0, -INF], [1.0, 0.0, -INF])
    right = tensor(logprob([2, 0, -3], 0), logprob([1, 0, -1.5], 0), -0.313262, -INF)
    expect(token_logprobs, logits, torch.tensor([0, 0, 0, 2])).equals(right)


@pytest.mark.kata("level03.drawing.token_logprobs")
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_ids_are_whole_numbers_of_any_size(expect, dtype):
    """Token ids come in int32 from numpy and from engines. The same id may come twice."""
    logits = tensor([0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [0.5, 0.5, 0.0])
    ids = torch.tensor([2, 2, 1], dtype=dtype)
    expect(token_logprobs, logits, ids).equals(each_logprob(logits, ids))


@pytest.mark.kata("level03.drawing.token_logprobs")
def test_logprobs_of_any_memory_layout(expect):
    """Transposed logits, every second id. Oracle: plain Python."""
    torch.manual_seed(2)
    logits, ids = torch.randn(6, 4).T, torch.randint(6, (8,))[::2]
    expect(token_logprobs, logits, ids).equals(each_logprob(logits, ids))


@pytest.mark.kata("level03.drawing.token_logprobs")
def test_the_probability_of_a_text_is_the_exponential_of_the_sum(expect):
    """Three tokens, all 27 texts of them: their probabilities sum to 1, as no scores but log-probabilities do."""

    def total(logits, texts):
        return sum(math.exp(token_logprobs(logits, ids).sum().item()) for ids in texts)

    texts = [torch.tensor(ids) for ids in product(range(3), repeat=3)]
    expect(total, tensor([1.0, 2.0, 0.0], [0.0, 0.0, -1.0], [3.0, 1.0, 2.0]), texts).equals(1.0)


@pytest.mark.kata("level03.drawing.token_logprobs")
def test_as_many_ids_as_rows(expect):
    """A text has one token more than it has predictions: whoever forgets the shift is told."""
    expect(token_logprobs, torch.zeros(2, 4), torch.tensor([1, 3])).equals(tensor(-1.386294, -1.386294))
    expect(token_logprobs, torch.zeros(2, 4), torch.tensor([1, 3, 0])).raises(ValueError)
    expect(token_logprobs, torch.zeros(2, 4), torch.tensor([1])).raises(ValueError)
    expect(token_logprobs, torch.zeros(2, 4), torch.tensor([[1], [3]])).raises(ValueError)
