"""The negative controls of level 07's checkpoint: what it refuses, and the right programs that it accepts."""

import pytest
import torch

from dojo.expect import Expect, Mismatch
from dojo.models import load
from dojo.roofline import judge
from tests.controls import checkpoint_of, solutions_of


@pytest.fixture(scope="module")
def checkpoint():
    """The checkpoint's module, over the solutions."""
    with solutions_of("level00", "level01", "level02", "level03", "level04", "level05", "level06", "level07"):
        yield checkpoint_of("level07")


@pytest.fixture(scope="module")
def heads():
    """As large as the real ones, and random: what is counted does not depend on what they say."""
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(1, H, 512, 64, generator=draw) for H in (9, 3, 3)]


def dense(checkpoint):
    """The whole matrix of scores: level 00's attention, and its log-sum-exp."""

    def attend(q, k, v, mask="causal", block_q=128, block_k=128):
        grouped = q.unflatten(1, (k.shape[1], -1)).flatten(2, 3)
        scores = (grouped @ k.mT * q.shape[-1] ** -0.5).view(*q.shape[:3], -1)
        if mask is not None:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
            return checkpoint.attention(q, k, v, mask), scores.logsumexp(-1)
        return scores.softmax(-1) @ v.repeat_interleave(q.shape[1] // k.shape[1], 1), scores.logsumexp(-1)

    return attend


def joined(checkpoint):
    """Tiles of scores, put together again before the softmax."""

    def attend(q, k, v, mask="causal", block_q=128, block_k=128):
        wide = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        rows = [torch.cat([a @ b.mT for b in wide.split(block_k, 2)], -1) for a in q.split(block_q, 2)]
        scores = torch.cat(rows, 2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf)
        return scores.softmax(-1) @ v.repeat_interleave(q.shape[1] // k.shape[1], 1), scores.logsumexp(-1)

    return attend


def masks_all(checkpoint):
    """Right tiles, but those that nobody sees are computed as well, and masked."""
    true = checkpoint.flash_attention

    def attend(q, k, v, mask="causal", block_q=128, block_k=128):
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return true(q, k, v, None if mask is None else seen, block_q, block_k)

    return attend


def head_by_head(checkpoint):
    """Right in another way: a query head at a time."""
    true = checkpoint.flash_attention

    def attend(q, k, v, mask="causal", block_q=128, block_k=128):
        share = q.shape[1] // k.shape[1]
        parts = [(q[:, h : h + 1], k[:, h // share, None], v[:, h // share, None]) for h in range(q.shape[1])]
        return [torch.cat(both, 1) for both in zip(*(true(*part, mask, block_q, block_k) for part in parts))]

    return attend


COUNTS = {
    "size": lambda c, heads: c.test_no_matrix_of_all_scores_ever_exists(Expect(), heads),
    "FLOPs": lambda c, heads: c.test_hidden_tiles_are_not_computed(Expect(), heads),
    "bytes": lambda c, heads: c.test_the_traffic_is_what_the_model_predicts(Expect(), heads, 32),
}


@pytest.mark.parametrize(
    "wrong, refused_by",
    [(dense, ("size", "FLOPs", "bytes")), (joined, ("size", "FLOPs", "bytes")), (masks_all, ("FLOPs",))],
)
def test_the_counts_refuse_what_looks_right(checkpoint, heads, monkeypatch, wrong, refused_by):
    monkeypatch.setattr(checkpoint, "flash_attention", wrong(checkpoint))
    for count in refused_by:
        with pytest.raises(Mismatch):
            COUNTS[count](checkpoint, heads)


def test_the_counts_accept_another_order(checkpoint, heads, monkeypatch):
    monkeypatch.setattr(checkpoint, "flash_attention", head_by_head(checkpoint))
    for counted in COUNTS.values():
        counted(checkpoint, heads)


def timed(checkpoint, attend):
    heads = checkpoint.long_heads()
    return lambda: attend(*heads, "causal", checkpoint.TIMED_TILE, checkpoint.TIMED_TILE)


def test_the_whole_matrix_is_too_slow(checkpoint):
    reference = checkpoint.Products(checkpoint.long_heads(), checkpoint.TIMED_TILE)
    slow = judge(timed(checkpoint, lambda q, k, v, *_: checkpoint.attention(q, k, v, "causal")), reference, need=1)
    assert slow.fraction < checkpoint.NEED and slow.state == "fail", str(slow)
    for right in (checkpoint.flash_attention, head_by_head(checkpoint)):
        verdict = judge(timed(checkpoint, right), reference, need=checkpoint.NEED)
        assert verdict.state == "pass", str(verdict)


def test_gathering_first_is_counted(checkpoint, monkeypatch):
    """Level 06's cache, and attention of level 00 on the copy."""
    from level06.paged import PagedCache

    monkeypatch.setattr(checkpoint, "BlockCache", PagedCache)
    monkeypatch.setattr(checkpoint, "paged_attend", checkpoint.attention)
    with pytest.raises(Mismatch, match="0.95 to 1.3 times"):
        checkpoint.test_decoding_from_the_pool_reads_the_cache_once(Expect(), load())
