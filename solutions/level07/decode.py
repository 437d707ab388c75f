"""One query and a long cache: there is nothing to tile, so the keys are shared out, and the parts merged.

Letters in the shapes: B batch, H query heads, G KV heads, K keys, D head_dim.
"""

from torch import Tensor

from .flash import flash_attention
from .online import merge


def split_ranges(kv_len: int, num_splits: int) -> list[tuple[int, int]]:
    """Return [(start, end)] of num_splits parts, or of kv_len if that is less: every key is in one, none is empty.

    They are in order, and lengths differ by at most 1; which parts are the longer ones is not specified.
    Example: 10 keys in 3 splits: lengths 3, 3 and 4; 2 keys in 5 splits: [(0, 1), (1, 2)].
    ValueError: kv_len or num_splits below 1.

    ● · about 3 lines · part of choose_splits
    """
    if kv_len < 1 or num_splits < 1:
        raise ValueError(f"at least one key in at least one split, not {kv_len} in {num_splits}")
    # solution:begin the bounds, rounded
    parts = min(num_splits, kv_len)
    bounds = [kv_len * i // parts for i in range(parts + 1)]
    return list(zip(bounds, bounds[1:]))
    # solution:end


def choose_splits(batch: int, n_kv_heads: int, kv_len: int, num_processors: int, min_chunk: int) -> int:
    """Return into how many splits each KV head's cache should go, so that no processor idles.

    The fewest that give every processor something (one processor works on one split of one KV head of one sequence),
    but no more than leave min_chunk keys in each split, and at least 1.
    Example: batch 1, 8 KV heads, 8192 keys, 132 processors, chunks of 256: 132 / 8 -> 17. ValueError: anything below 1.

    ● · about 2 lines
    """
    if min(batch, n_kv_heads, kv_len, num_processors, min_chunk) < 1:
        raise ValueError("batch, heads, keys, processors and the smallest chunk are all at least 1")
    # solution:begin how many pieces of work are there without splitting?
    wanted = -(-num_processors // (batch * n_kv_heads))
    return max(1, min(wanted, kv_len // min_chunk))
    # solution:end


def split_kv_decode(q: Tensor, k: Tensor, v: Tensor, num_splits: int) -> tuple[Tensor, Tensor]:
    """Return (out (B, H, 1, D), lse (B, H, 1)) of one query for each head, from the parts of the cache by themselves.

    q  (B, H, 1, D);  k, v  (B, G, K, D), all of which the query sees

    Each split is attended to as if it were the whole cache, then the parts are merged: on a GPU that many processors
    read at the same time. Every key and value is read once. Dtypes as flash_attention's.
    Example: 2 splits of one key each, scores 0 and log 3, values 1 and 5: weights 1/4 and 3/4, so 4, with lse log 4.
    ValueError: as split_ranges, and any other number of queries than one. Flash-Decoding (Stanford CRFM, 2023).

    ●● · about 5 lines · needs level07.flash.flash_attention, level07.decode.choose_splits, level07.online.merge
    """
    if q.shape[2] != 1:
        raise ValueError(f"decoding has one query, not {q.shape[2]}")
    # solution:begin each part alone, merged with what came before
    done = None
    for start, end in split_ranges(k.shape[2], num_splits):
        part = flash_attention(q, k[:, :, start:end], v[:, :, start:end], None, 1, end - start)
        done = part if done is None else merge(*done, *part)
    return done[0].to(q.dtype), done[1]
    # solution:end
