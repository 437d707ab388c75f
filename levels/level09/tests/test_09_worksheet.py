"""The worksheet of level 09: right values by counting messages, rows and pairs one by one."""

import pytest
import torch

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_DIM = 80, 8192, 64, 8, 128  # of Qwen2.5-72B
WEIGHTS, MEMORY = 142.9e9, 2.039e12  # bytes of a decode step; of an A100 per second
START, LINK = 4e-6, 300e9  # of NVLink 3


def ring(size, num_bytes):
    """(seconds, bytes) that one rank needs and sends: every chunk but one goes round twice, to sum and to spread."""
    chunk, seconds, sent = num_bytes / size, 0.0, 0.0
    for _ in ("reduce-scatter", "all-gather"):
        for _ in range(size - 1):
            seconds += START + chunk / LINK
            sent += chunk
    return seconds, sent


REDUCES = sum(1 + 1 for _ in range(LAYERS)) + 1  # attention and MLP of each layer, and the embedding


@pytest.mark.kata("level09.worksheet.all_reduce_us")
def test_a_longer_message_waits_and_moves(answer):
    """At 512 tokens both parts count. Oracle: the ring walked step by step."""
    answer("all_reduce_us").equals(1e6 * ring(4, 512 * WIDTH * 2)[0], rel=0.01)


@pytest.mark.kata("level09.worksheet.decode_ms")
def test_half_of_a_token_is_waiting_for_messages(answer):
    """The share that eight ranks do not shorten. Oracle: a share of the reading, and every ring of a step."""
    answer("decode_ms").equals(1e3 * (WEIGHTS / 8 / MEMORY + REDUCES * ring(8, WIDTH * 2)[0]), rel=0.01)


@pytest.mark.kata("level09.worksheet.sent_mb")
def test_a_step_sends_less_than_twice_its_sums(answer):
    """What the links of a node carry for a batch. Oracle: the bytes of every ring, one after the other."""
    answer("sent_mb").equals(sum(ring(4, 24 * WIDTH * 2)[1] for _ in range(REDUCES)) / 1e6, rel=0.01)


@pytest.mark.kata("level09.worksheet.rank_cache_gb")
def test_a_kv_head_is_not_cut(answer):
    """Beyond 8 ranks more of them hold the same. Oracle: which KV heads do the query heads of a rank read?"""
    held = {
        rank: {head // (HEADS // KV_HEADS) for head in range(rank * HEADS // 32, (rank + 1) * HEADS // 32)}
        for rank in range(32)
    }
    [heads] = {len(kv_heads) for kv_heads in held.values()}
    answer("rank_cache_gb").equals(LAYERS * heads * 30000 * (HEAD_DIM + HEAD_DIM) * 2 / 1e9, rel=0.01)


@pytest.mark.kata("level09.worksheet.micro_batches")
def test_a_full_pipe_needs_many_followers(answer):
    """Fewer, and stages wait for one another. Oracle: busy cells of schedules of any length, counted."""

    def idle(count):
        steps = count + 6 - 1
        busy = sum(0 <= step - stage < count for step in range(steps) for stage in range(6))
        return 1 - busy / (steps * 6)

    answer("micro_batches").equals(next(m for m in range(1, 1000) if idle(m) <= 0.08), rel=0.01)


@pytest.mark.kata("level09.worksheet.imbalance")
def test_all_wait_for_the_fullest_expert(answer):
    """Idle experts belong to the mean: they are what the others lack. Oracle: torch's mean of all six."""
    loads = torch.tensor([96.0, 48, 60, 0, 36, 0])
    answer("imbalance").equals((loads.max() / loads.mean()).item(), rel=0.01)


@pytest.mark.kata("level09.worksheet.dispatch_mb")
def test_what_stays_on_its_rank_does_not_travel(answer):
    """And each token travels once for each of its experts. Oracle: rows dealt out to the ranks one by one."""
    away = sum(row % 6 != 0 for row in range(96 * 4))
    answer("dispatch_mb").equals(away * 5120 * 2 / 1e6, rel=0.01)


@pytest.mark.kata("level09.worksheet.last_rank")
def test_the_last_part_sees_the_most_keys(answer):
    """All ranks wait for it in every step. Oracle: the pairs of a causal mask of 1,200 by 1,200, ten tokens in one."""
    pairs = torch.ones(1200, 1200, dtype=torch.bool).tril().sum(1).view(6, 200).sum(1).double()
    answer("last_rank").equals((pairs[-1] / pairs.mean()).item(), rel=0.01)
