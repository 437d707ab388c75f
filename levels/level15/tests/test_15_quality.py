"""Judges quality.py by attention in Python's floats, one query at a time, and by hand."""

from math import exp, sqrt

import pytest
import torch

from level15.quality import attention_output_cosine, decide, is_transfer, nll_retention, retention


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def read_out(query, keys, values):
    """What one query reads out of the keys and values of one head: lists of floats."""
    scores = [sum(a * b for a, b in zip(query, key)) / sqrt(len(query)) for key in keys]
    weights = [exp(score - max(scores)) for score in scores]
    return [sum(w * v for w, v in zip(weights, column)) / sum(weights) for column in zip(*values)]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def mean_cosine(q, k, v, own_k, own_v):
    """Oracle: every row, query head and query for itself; neighbouring query heads share a KV head."""
    found = []
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            head = h * k.shape[1] // q.shape[1]
            came, own = ((c[0][b, head].tolist(), c[1][b, head].tolist()) for c in ((k, v), (own_k, own_v)))
            found += [cosine(read_out(query, *came), read_out(query, *own)) for query in q[b, h].tolist()]
    return sum(found) / len(found)


# ---- attention_output_cosine

TWO = torch.eye(2)[None, None]  # one head that holds the two unit vectors


@pytest.mark.kata("level15.quality.attention_output_cosine")
def test_the_two_keys_exchanged(expect):
    """By hand: [0.67, 0.33] against [0.33, 0.67]. Compared key by key and value by value it would be 0.5."""
    q = torch.tensor([[[[1.0, 0.0]]]])
    expect(attention_output_cosine, q, TWO.flip(2), TWO, TWO, TWO).equals(0.793278)
    expect(attention_output_cosine, q, TWO.flip(2), TWO.flip(2), TWO, TWO).equals(
        1.0
    )  # another order is no other cache
    expect(attention_output_cosine, q, TWO, -TWO, TWO, TWO).equals(-1.0)


@pytest.mark.kata("level15.quality.attention_output_cosine")
def test_every_query_counts_alike(expect):
    """A cosine for each query, then the mean: 0.714. Of one long vector it would be 0.567, since the second query reads
    little and the first much."""
    q = torch.tensor([[[[1.0, 0.0], [0.0, 2.0]]]])
    v = torch.tensor([[[[5.0, 0.0], [0.0, 1.0]]]])
    expect(attention_output_cosine, q, TWO, v, TWO.flip(2), TWO).equals(0.714302)


@pytest.mark.kata("level15.quality.attention_output_cosine")
@pytest.mark.parametrize(
    "B, H, G, Q, S, D", [(1, 1, 1, 1, 5, 4), (2, 6, 3, 4, 5, 8), (3, 4, 1, 2, 7, 6), (1, 2, 2, 7, 3, 4)]
)
def test_of_drawn_caches(expect, B, H, G, Q, S, D):
    """Oracle: one query at a time. Every query sees all of the prompt; query heads share KV heads."""
    q, own_k, own_v = (2 * draw(B, H, Q, D, seed=1), draw(B, G, S, D, seed=2), draw(B, G, S, D, seed=3) + 0.3)
    k, v = own_k + 0.7 * draw(B, G, S, D, seed=4), own_v + 0.5 * draw(B, G, S, D, seed=5)
    right = mean_cosine(q, k, v, own_k, own_v)
    expect(attention_output_cosine, q, k, v, own_k, own_v).equals(right, abs=1e-5)


@pytest.mark.kata("level15.quality.attention_output_cosine")
def test_only_what_is_read_counts(expect):
    """A value that no query looks at may be anything, and one that all look at may not. Scale is invisible: three times
    the values have the same direction."""
    q, k = torch.tensor([[[[20.0, 0.0]]]]), TWO * 10
    wrong_unread, wrong_read = TWO.clone(), TWO.clone()
    wrong_unread[..., 1, :] = torch.tensor([-50.0, 90.0])
    wrong_read[..., 0, :] = torch.tensor([0.0, 1.0])
    expect(attention_output_cosine, q, k, wrong_unread, k, TWO).equals(1.0, abs=1e-5)
    expect(attention_output_cosine, q, k, wrong_read, k, TWO).equals(0.0, abs=1e-5)
    expect(attention_output_cosine, q, k, 3 * TWO, k, TWO).equals(1.0, abs=1e-5)


@pytest.mark.kata("level15.quality.attention_output_cosine")
def test_caches_of_one_shape(expect):
    """A head or a token too few would be broadcast, or would be another prompt's."""
    q, k, v = draw(2, 4, 3, 4, seed=6), draw(2, 2, 5, 4, seed=7), draw(2, 2, 5, 4, seed=8)
    expect(attention_output_cosine, q, v, k, k, v).equals(mean_cosine(q, v, k, k, v), abs=1e-5)
    expect(attention_output_cosine, q, k[:, :1], v[:, :1], k, v).raises(ValueError)
    expect(attention_output_cosine, q, k[:, :, 1:], v[:, :, 1:], k, v).raises(ValueError)


# ---- retention


@pytest.mark.kata("level15.quality.retention")
def test_from_the_floor_up(expect):
    """0.6 of 0.8 is 75 %, but without the context it would be 0.4: half of what the context is worth is there."""
    expect(retention, 0.6, 0.8, 0.4).equals(0.5)
    expect(retention, 0.6, 0.8, 0.0).equals(0.75)
    expect(retention, 0.9, 0.8, 0.4).equals(1.25)  # more than the receiver's own
    expect(retention, 0.2, 0.8, 0.4).equals(-0.5)  # the cache did harm
    expect(retention, -3.0, -2.0, -6.0).equals(0.75)
    expect(retention, 0.3, 0.2, 0.4).equals(0.5)  # a context that misleads
    for floor in (0.8, 0.0):
        expect(retention, 0.4, floor, floor).raises(ValueError)


@pytest.mark.kata("level15.quality.retention")
def test_retention_of_a_loss(expect):
    """2.0 / 2.2 looks like 91 %, although a fifth of what the context is worth is gone."""
    expect(nll_retention, 2.2, 2.0, 3.0).equals(0.8)
    expect(nll_retention, 3.5, 2.0, 3.0).equals(-0.5)
    expect(nll_retention, 2.0, 2.0, 3.0).equals(1.0)
    expect(nll_retention, 1.5, 2.0, 4.0).equals(1.25)
    expect(nll_retention, 2.5, 3.0, 3.0).raises(ValueError)


@pytest.mark.kata("level15.quality.retention")
@pytest.mark.parametrize(
    "matched, mismatched, margin, right",
    [
        (0.8, 0.7, 0.2, False),
        (0.8, -0.1, 0.2, True),
        (0.1, 0.5, 0.2, False),  # the wrong cache was the better one
        (0.75, 0.5, 0.25, True),  # exactly by the margin
        (0.875, 0.5, 0.25, True),  # a stranger's cache helps, and the right one helps more
        (0.125, -0.5, 0.5, True),  # little is left, but all of it hangs on the prompt
        (0.5, 0.25, 0.5, False),
        (-0.5, -1.0, 0.25, True),
    ],
)
def test_somebody_elses_cache_is_the_control(expect, matched, mismatched, margin, right):
    """If a stranger's cache helps as much, nothing of this prompt was transferred; that it helps less than the right
    one by the margin is enough."""
    expect(is_transfer, matched, mismatched, margin).equals(right)
    expect(is_transfer, matched, mismatched, 0.0).raises(ValueError)


@pytest.mark.kata("level15.quality.retention")
@pytest.mark.parametrize(
    "found, least, transfers, move, prefill, right",
    [
        (0.95, 0.9, True, 0.5, 7.0, "transfer"),
        (0.85, 0.9, True, 0.5, 7.0, "recompute"),
        (0.95, 0.9, False, 0.5, 7.0, "recompute"),
        (0.95, 0.9, True, 7.5, 7.0, "recompute"),
        (0.95, 0.9, True, 7.0, 7.0, "recompute"),
        (0.9, 0.9, True, 6.9, 7.0, "transfer"),
        (-0.5, -1.0, True, 0.0, 0.25, "transfer"),
        (0.5, 0.0, True, 1e-3, 100.0, "transfer"),
        (0.85, 0.9, False, 8.0, 7.0, "recompute"),
    ],
)
def test_three_reasons_to_recompute(expect, found, least, transfers, move, prefill, right):
    """A bad cache, a cache that is nobody's, and a slow link: each alone is enough."""
    expect(decide, found, least, transfers, move, prefill).equals(right)


@pytest.mark.kata("level15.quality.retention")
def test_a_senseless_bound_decides_nothing(expect):
    """No cosine reaches 1.5, and no link is faster than at once: the caller has mixed something up."""
    expect(decide, 1.0, 1.0, True, 1.0, 2.0).equals("transfer")
    expect(decide, 0.9, 1.5, True, 1.0, 2.0).raises(ValueError)
    expect(decide, 0.9, 0.5, True, -1.0, 2.0).raises(ValueError)
