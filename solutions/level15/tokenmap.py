"""Two tokenizers cut one text differently: which state of the one has read what a token of the other has read?"""

from collections.abc import Sequence
from itertools import accumulate


def ends(pieces: Sequence[str]) -> list[int]:
    """Where each piece ends, in characters from the start of the text. Given. ["un", "able"] -> [2, 6]."""
    return list(accumulate(map(len, pieces)))


def check_texts(source: Sequence[str], target: Sequence[str]) -> None:
    """ValueError: other than one text, cut into pieces of at least one character. Given."""
    if "".join(source) != "".join(target):
        raise ValueError("the two tokenizations are of different texts: nothing can be aligned, so recompute")
    if not all(source) or not all(target):
        raise ValueError("a piece has at least one character: leave out tokens that stand for no text")


def align_tokens(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """Return for each target token the number of the source token that holds its last character.

    source, target  the text's pieces under two tokenizers, in order; one text

    No earlier state of the source has read all of the target's token. (This one may have read more than it.)
    Example: ["un", "believ", "able"] and ["unb", "elievable"] -> [1, 2].
    ValueError: different texts, an empty piece. Cache-to-Cache (arXiv 2510.03215) aligns by re-encoding each token.

    ●● · about 2 lines
    """
    check_texts(source, target)
    # solution:begin the first source token that ends where the target's does, or later
    owner = [number for number, piece in enumerate(source) for _ in piece]  # of each character
    return [owner[end - 1] for end in ends(target)]
    # solution:end


def exact_boundary_share(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the share of the target's tokens that end exactly where a source token ends; 1 where there are none.

    For the others the source's state has read further than the target's would. Below 1, a transfer is approximate even
    with a perfect map.
    Example: ["un", "believ", "able"] and ["unb", "elievable"] -> 0.5.
    ValueError: as align_tokens.

    ● · about 2 lines · part of align_tokens
    """
    check_texts(source, target)
    # solution:begin which ends do both have?
    shared = set(ends(source)) & set(ends(target))
    return len(shared) / len(target) if target else 1.0
    # solution:end
