"""Byte-pair encoding: text becomes bytes, and frequent neighbours become one token.

Byte level, plain Python, no pre-tokenization: `tokenizer.py` cuts text into pieces and calls `apply_merges` on each.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

Pair = tuple[int, int]


def merge_pair(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Return a new list in which every occurrence of `pair` is replaced by `new_id`.

    One pass, left to right; occurrences do not overlap, and `ids` itself stays as it is.
    Example: ids = [5, 6, 7, 5, 6], pair = (5, 6), new_id = 300 -> [300, 7, 300].
    Lists of length 0 and 1 come back unchanged.

    ● · about 8 lines · part of train_bpe
    """
    # TODO: walk from left to right; a match takes two ids and gives one
    raise NotImplementedError("level00.bpe.train_bpe")


def train_bpe(text: str, vocab_size: int) -> dict[Pair, int]:
    """Learn merges from `text` until the vocabulary holds `vocab_size` ids; return {pair: new id} in the order learnt.

    The text is its UTF-8 bytes, so ids 0..255 are the bytes and the first merge gets id 256, the next 257.
    Each round counts every adjacent pair of the current ids (overlapping ones too: [1, 1, 1] holds two (1, 1)),
    takes the most frequent, on a tie the smallest pair, and merges it. It stops early when no pair occurs twice.
    Example: "aaabdaaabac", 259 -> {(97, 97): 256, (97, 98): 257, (256, 257): 258}.
    ValueError: vocab_size below 256. Algorithm 1 of arXiv 1508.07909, on bytes.

    ●● · about 9 lines
    """
    if vocab_size < 256:
        raise ValueError(f"every byte needs an id, so vocab_size is at least 256, not {vocab_size}")
    # TODO: count, choose, merge, and count again
    raise NotImplementedError("level00.bpe.train_bpe")


def apply_merges(ids: Sequence[int], merges: Mapping[Pair, int]) -> list[int]:
    """Replay the merges on `ids` in the order in which they were learnt, and return the new ids.

    While some adjacent pair is in `merges`, take the pair that was learnt earliest (the smallest new id), wherever
    it stands, and merge all its occurrences. `merges` may be the table of a real model, 48,900 pairs whose ids do not
    start at 256: look pairs up in it, never walk it; its own order does not count. `ids` itself stays as it is.
    Example: merges {(98, 99): 256, (97, 98): 257}: [97, 98, 99] -> [97, 256], although (97, 98) stands first.

    ●● · about 6 lines · needs level00.bpe.train_bpe
    """
    # TODO: which of the pairs in front of you was learnt first?
    raise NotImplementedError("level00.bpe.apply_merges")


def encode(text: str, merges: Mapping[Pair, int]) -> list[int]:
    """Token ids of `text`: its UTF-8 bytes with the merges applied."""
    return apply_merges(text.encode("utf-8"), merges)


def decode(ids: Iterable[int], merges: Mapping[Pair, int]) -> str:
    """Return the text that `ids` spell.

    An id below 256 is that byte; a merged id is the bytes of its two parts, one after the other. Bytes that are
    not UTF-8 become U+FFFD ("replace"): a model may stop in the middle of a character.
    Example: decode([195, 169], {}) -> "é", one character from two tokens.
    ValueError: an id that is neither a byte nor in `merges`.

    ● · about 5 lines
    """
    ids = list(ids)
    if unknown := set(ids) - set(range(256)) - set(merges.values()):
        raise ValueError(f"id {min(unknown)} is not in the vocabulary of {256 + len(merges)} ids")
    # TODO: what bytes does each id stand for?
    raise NotImplementedError("level00.bpe.decode")
