"""Right programs, written another way, for level00.bpe. `alternative` is given when this is read."""

import heapq
import re
from collections import OrderedDict, defaultdict
from math import inf


def _merge_with_a_stack(ids, pair, new_id):
    merged, fresh = [], False  # fresh: the last one is a merge of this pass, so it is not matched again
    for i in ids:
        fresh = bool(merged) and not fresh and (merged[-1], i) == pair
        merged[-1:] = [new_id] if fresh else [*merged[-1:], i]
    return merged


def _merge_by_regex(ids, pair, new_id):
    text = "".join(f"<{i}>" for i in ids)
    return [int(i) for i in re.findall(r"\d+", text.replace("<{}><{}>".format(*pair), f"<{new_id}>"))]


def _train_incrementally(text, vocab_size):
    """Counts are kept and corrected, in an OrderedDict, and only the merged list is counted anew where it changed."""
    if vocab_size < 256:
        raise ValueError("vocab_size is at least 256")
    ids, merges = tuple(text.encode()), OrderedDict()
    for new_id in range(256, vocab_size):
        counts = defaultdict(int)
        for i in range(len(ids) - 1):
            counts[ids[i : i + 2]] += 1
        often = max(counts.values(), default=0)
        if often < 2:
            return merges
        pair = min(p for p, n in counts.items() if n == often)
        merges[pair] = new_id
        ids = tuple(_merge_with_a_stack(ids, pair, new_id))
    return merges


def _apply_with_a_heap(ids, merges):
    """A linked list and a heap of (new id, place): n log n, as the fast tokenizers have it."""
    ids, after = [*ids, None], [*range(1, len(ids) + 1), None]
    before = [None, *range(len(ids) - 1)]
    heap = [(merges[p], i, p) for i, p in enumerate(zip(ids, ids[1:])) if p in merges]
    heapq.heapify(heap)
    while heap:
        new_id, i, pair = heapq.heappop(heap)
        j = after[i]
        if j is None or (ids[i], ids[j]) != pair:
            continue
        ids[i], ids[j], after[i] = new_id, None, after[j]
        if after[j] is not None:
            before[after[j]] = i
        for left, right in ((before[i], i), (i, after[i])):
            if left is not None and right is not None and (p := (ids[left], ids[right])) in merges:
                heapq.heappush(heap, (merges[p], left, p))
    return [i for i in ids if i is not None]


def _apply_one_at_a_time(ids, merges):
    ids = list(ids)
    while True:
        ranked = [(merges.get((ids[i], ids[i + 1]), inf), i) for i in range(len(ids) - 1)]
        new_id, i = min(ranked, default=(inf, 0))
        if new_id == inf:
            return ids
        ids[i : i + 2] = [new_id]


def _decode_by_recursion(ids, merges):
    parts = {new_id: pair for pair, new_id in merges.items()}

    def spell(i):
        if i in parts:
            return spell(parts[i][0]) + spell(parts[i][1])
        if not 0 <= i < 256:
            raise ValueError(f"id {i} is not in the vocabulary")
        return bytes([i])

    return str(bytearray(b"".join(map(spell, ids))), "utf-8", "replace")


alternative("level00.bpe.train_bpe", "stack", program=_merge_with_a_stack, part="merge_pair")
alternative("level00.bpe.train_bpe", "in_a_string", program=_merge_by_regex, part="merge_pair")
alternative("level00.bpe.train_bpe", "another_count", program=_train_incrementally)
alternative("level00.bpe.apply_merges", "heap_and_links", program=_apply_with_a_heap)
alternative("level00.bpe.apply_merges", "one_at_a_time", program=_apply_one_at_a_time)
alternative("level00.bpe.decode", "recursion", program=_decode_by_recursion)
