"""Judges expert.py by a loop over tokens and choices with all experts in one place, and by counting what travels.

Ranks have different numbers of tokens, some have none. Every expert is a different curve, so that neither an exchange
of two experts nor a gate before one instead of behind it goes unnoticed.
"""

from collections import Counter

import pytest
import torch

from level09.expert import expert_parallel, load_imbalance
from level09.threads import run_threads

EXACT = {"rel": 0, "abs": 0}
CLOSE = {"rel": 1e-12, "abs": 1e-12}  # float64 in another order
SIZES = pytest.mark.parametrize("size", [3, 2, 4, 1])


def ranks(size, live):
    """A story: [live(comm, kata) of rank 0, of rank 1, ...]."""

    def on_ranks(fn):
        return run_threads(live, size, fn)

    on_ranks.__name__ = f"on_{size}_ranks"
    return on_ranks


def curve(e):
    """Expert e, row by row: no two are alike, and none is linear."""
    return lambda x: torch.sin(x * (e + 1)) + e


def mine(comm, experts):
    """A rank's block of all experts."""
    each = len(experts) // comm.size
    return experts[comm.rank * each : (comm.rank + 1) * each]


def routed(lengths, n_experts, k, d=3, seed=0):
    """(x, expert_ids, gates) of each rank. A token's experts are drawn one by one, so that two may be the same."""
    draw = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(n, d, generator=draw, dtype=torch.float64),
            torch.randint(n_experts, (n, k), generator=draw),
            torch.rand(n, k, generator=draw, dtype=torch.float64) + 0.25,
        )
        for n in lengths
    ]


def by_loop(x, expert_ids, gates, experts):
    """Oracle: token by token, choice by choice, in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for i in range(len(x)):
        for j in range(expert_ids.shape[1]):
            out[i] += gates[i, j].double() * experts[int(expert_ids[i, j])](x[i : i + 1].double())[0]
    return out.to(x.dtype)


def everywhere(expect, size, tokens, experts, **tolerance):
    """Expect by_loop's result on every rank; `tokens` are (x, expert_ids, gates) of each."""

    def live(comm, fn):
        return fn(comm, *(t.clone() for t in tokens[comm.rank]), mine(comm, experts))

    right = [by_loop(*of_rank, experts) for of_rank in tokens]
    expect.story(ranks(size, live), expert_parallel).equals(right, **(tolerance or CLOSE))


# ---- expert_parallel


@pytest.mark.kata("level09.expert.expert_parallel")
def test_gates_weigh_what_the_experts_make(expect):
    """The docstring's example, 0.5 · (3 + 1) + 0.1 · (10 · 3) = 5, and rank 1's own token, 0.25 · 20 + 2 · 3 = 11.
    Gates are the router's business: they need not sum to 1."""
    experts = [lambda x: x + 1, lambda x: 10 * x]
    given = [([[3.0]], [[0, 1]], [[0.5, 0.1]]), ([[2.0]], [[1, 0]], [[0.25, 2.0]])]

    def live(comm, fn):
        x, expert_ids, gates = map(torch.tensor, given[comm.rank])
        return fn(comm, x, expert_ids, gates, mine(comm, experts)).tolist()

    expect.story(ranks(2, live), expert_parallel).equals([[[5.0]], [[11.0]]])


@pytest.mark.kata("level09.expert.expert_parallel")
@SIZES
@pytest.mark.parametrize("k", [2, 1, 3])
@pytest.mark.parametrize("each", [2, 1, 3], ids="{} on each rank".format)
def test_every_token_meets_its_experts_and_comes_home(expect, each, k, size):
    """Oracle: all experts in one place, token by token. Ranks have 6, 3, 1 and 5 tokens; expert 2 of 6 is on rank 1
    of 3, as its first."""
    tokens = routed([6, 3, 1, 5][:size], each * size, k, seed=10 * k + each)
    everywhere(expect, size, tokens, [curve(e) for e in range(each * size)])


@pytest.mark.kata("level09.expert.expert_parallel")
@pytest.mark.parametrize("lengths", [(0, 4, 2), (3, 0, 0), (0, 0, 0), (0, 1, 7)], ids=str)
def test_a_rank_may_have_no_tokens(expect, lengths):
    """Its experts serve the others' tokens all the same; a rank that leaves early lets them wait for ever."""
    everywhere(expect, 3, routed(lengths, 6, 2, seed=1), [curve(e) for e in range(6)])


@pytest.mark.kata("level09.expert.expert_parallel")
@pytest.mark.parametrize("favourite", [5, 0, 2])
def test_no_token_is_dropped(expect, favourite):
    """300 tokens that all want one expert: with a capacity the answer would depend on who else is in the batch."""
    tokens = [(x, torch.full_like(ids, favourite), gates) for x, ids, gates in routed((150, 83, 67), 6, 1, seed=2)]
    everywhere(expect, 3, tokens, [curve(e) for e in range(6)])


@pytest.mark.kata("level09.expert.expert_parallel")
@pytest.mark.parametrize(
    "choices",
    [[[0, 1], [1, 0], [2, 3]], [[3, 2], [5, 4]], [[4, 4], [0, 0]], [[5, 0], [0, 5], [3, 3]], [[2, 2]]],
    ids=str,
)
def test_both_experts_of_a_token_may_be_on_one_rank(expect, choices):
    """Or be one and the same: two rows of the same token, each with its own gate."""
    tokens = routed((len(choices), 1, 2), 6, 2, seed=3)
    tokens[0] = tokens[0][0], torch.tensor(choices), tokens[0][2]
    everywhere(expect, 3, tokens, [curve(e) for e in range(6)])


@pytest.mark.kata("level09.expert.expert_parallel")
@SIZES
@pytest.mark.parametrize("k", [2, 1])
def test_each_expert_is_called_once_with_all_its_tokens(expect, k, size):
    """One large product is what makes an expert worth its weights; a call for each rank or token reads them again.
    Oracle: how often each expert was chosen. An expert that nobody wants may be called with nothing, or not at all."""
    tokens = routed([9, 4, 6, 2][:size], 2 * size, k, seed=4)
    tokens = [(x, ids.masked_fill(ids == 1, 0), gates) for x, ids, gates in tokens]

    def live(comm, fn):
        calls = []

        def watched(e):
            def expert(x):
                if len(x):
                    calls.append((e, len(x)))
                return curve(e)(x)

            return expert

        fn(comm, *tokens[comm.rank], mine(comm, [watched(e) for e in range(2 * size)]))
        return sorted(calls)

    chosen = Counter(torch.cat([ids.flatten() for _, ids, _ in tokens]).tolist())
    right = [[(e, chosen[e]) for e in (2 * r, 2 * r + 1) if chosen[e]] for r in range(size)]
    expect.story(ranks(size, live), expert_parallel).equals(right)


@pytest.mark.kata("level09.expert.expert_parallel")
@SIZES
@pytest.mark.parametrize("k", [2, 1])
def test_only_what_is_wanted_elsewhere_travels(expect, k, size):
    """A row out for each choice of an expert on another rank, and a row back for each that others wanted here. Rows of
    4 kB; counts, experts and gates are less than one row together. Gathering all tokens on all ranks is more."""
    tokens = routed([7, 2, 5, 3][:size], 2 * size, k, d=512, seed=5)

    def live(comm, fn):
        fn(comm, *tokens[comm.rank], mine(comm, [curve(e) for e in range(2 * size)]))
        return comm.bytes_sent // (512 * 8)

    right = []
    for rank in range(size):
        out = int((tokens[rank][1] // 2 != rank).sum())
        back = sum(int((ids // 2 == rank).sum()) for r, (_, ids, _) in enumerate(tokens) if r != rank)
        right.append(out + back)

    def few(rows):
        return all(mine <= most for mine, most in zip(rows, right)) or f"{right} rows are enough"

    expect.story(ranks(size, live), expert_parallel).holds(few, "no rank sends more rows than are wanted elsewhere")


@pytest.mark.kata("level09.expert.expert_parallel")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [3, 1])
def test_rows_keep_their_dtype(expect, size, dtype):
    """What goes into an expert, and what comes out in the end, has x's dtype."""
    tokens = [(x.to(dtype), ids, gates.to(dtype)) for x, ids, gates in routed((5, 0, 4)[:size], 2 * size, 2, seed=6)]

    def strict(e):
        def expert(x):
            assert x.dtype == dtype, f"an expert is given {x.dtype}"
            return curve(e)(x)

        return expert

    def live(comm, fn):
        return fn(comm, *(t.clone() for t in tokens[comm.rank]), mine(comm, [strict(e) for e in range(2 * size)]))

    right = [by_loop(*of_rank, [curve(e) for e in range(2 * size)]) for of_rank in tokens]
    tolerance = 16 * torch.finfo(dtype).eps  # sines of arguments, products and a sum are rounded, sizes up to 12
    expect.story(ranks(size, live), expert_parallel).equals(right, rel=tolerance, abs=tolerance)


@pytest.mark.kata("level09.expert.expert_parallel")
def test_numbers_of_experts_are_exact(expect):
    """bfloat16 has no 257: with 300 experts a number that travels in a row's dtype is another expert's. Even ones keep
    their rows, odd ones turn the sign."""
    experts = [lambda x, sign=1 - 2 * (e % 2): x * sign for e in range(300)]
    wanted = [[257, 299, 1], [259, 128, 256], [0, 293, 130], [298, 149, 261]]
    x, gates = torch.tensor([[1.0, 2.0]]).bfloat16(), torch.tensor([[1.0, 2.0, 4.0]]).bfloat16()
    tokens = [(x.repeat(len(ids), 1), torch.tensor(ids), gates.repeat(len(ids), 1)) for ids in (wanted[:3], wanted[3:])]
    everywhere(expect, 2, tokens, experts, **EXACT)


@pytest.mark.kata("level09.expert.expert_parallel")
@SIZES
def test_its_arguments_stay_as_they_are(expect, size):
    """x is added to the result, as the residual, by whoever calls this."""

    def live(comm, fn):
        given = routed((4, 2, 3, 0), 2 * size, 2, seed=7)[comm.rank]
        kept = [t.clone() for t in given]
        fn(comm, *given, mine(comm, [curve(e) for e in range(2 * size)]))
        return [torch.equal(t, was) for t, was in zip(given, kept)]

    expect.story(ranks(size, live), expert_parallel).equals([[True] * 3] * size)


# ---- load_imbalance, judged with expert_parallel


@pytest.mark.kata("level09.expert.expert_parallel")
@pytest.mark.parametrize(
    "expert_ids, n_experts, right",
    [
        ([0, 0, 1, 3], 4, 2.0),
        ([0, 1, 2, 3], 4, 1.0),
        ([2, 2, 2], 3, 3.0),
        ([0] * 40 + [1] * 20 + [2] * 20 + [3] * 20, 4, 1.6),
        ([[0, 5], [0, 1], [2, 0]], 8, 4.0),
        ([[3, 1]], 5, 2.5),
        ([0], 1, 1.0),
        ([1], 64, 64.0),
    ],
    ids=["docstring", "balanced", "all on one", "40/20/20/20", "two choices", "last idle", "one expert", "one token"],
)
def test_the_fullest_expert_over_the_mean_of_all(expect, expert_ids, n_experts, right):
    """By hand: all wait for the fullest one. Idle experts count in the mean, those with the highest numbers as well:
    6 choices on 8 experts are 0.75 each, and expert 0 has 3."""
    expect(load_imbalance, torch.tensor(expert_ids), n_experts).equals(right, rel=1e-6, abs=0)  # in float32, too


@pytest.mark.kata("level09.expert.expert_parallel")
def test_no_tokens_have_no_balance(expect):
    """0 over 0; and an expert that does not exist is a router's mistake."""
    expect(load_imbalance, torch.tensor([1, 0, 1]), 2).equals(4 / 3, rel=1e-6)
    for expert_ids in ([], [0, 2], [-1, 0]):
        expect(load_imbalance, torch.tensor(expert_ids, dtype=torch.int64), 2).raises(ValueError)
