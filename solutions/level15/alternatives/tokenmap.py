"""Right programs, written another way, for level15.tokenmap. `alternative` is given when this is read."""

from bisect import bisect_left

ID = "level15.tokenmap.align_tokens"


def _searched(source, target):
    from level15.tokenmap import check_texts, ends

    check_texts(source, target)
    bounds = ends(source)
    return [bisect_left(bounds, end) for end in ends(target)]


def _two_fingers(source, target):
    """Both texts are walked once, side by side."""
    if "".join(source) != "".join(target) or "" in source or "" in target:
        raise ValueError("texts")
    found, number, read, wanted = [], -1, 0, 0
    for piece in target:
        wanted += len(piece)
        while read < wanted:
            number += 1
            read += len(source[number])
        found.append(number)
    return found


def _in_bytes(source, target):
    """Counted in bytes, on both sides alike."""
    from level15.tokenmap import check_texts

    check_texts(source, target)
    starts, at = [], 0
    for piece in source:
        starts.append(at)
        at += len(piece.encode())
    found, end = [], 0
    for piece in target:
        end += len(piece.encode())
        found.append(max(i for i, start in enumerate(starts) if start < end))
    return found


def _counted(source, target):
    """Token by token: does the one that holds my last character end with me?"""
    from level15.tokenmap import check_texts, ends

    check_texts(source, target)
    if not target:
        return 1
    return sum(end in ends(source) for end in ends(target)) / len(target)


alternative(ID, "searched", program=_searched)
alternative(ID, "two_fingers", program=_two_fingers)
alternative(ID, "in_bytes", program=_in_bytes)
alternative(ID, "counted", program=_counted, part="exact_boundary_share")
alternative(  # starts are shared as often as ends: 0 always is, and so is the end of the text
    ID,
    "starts",
    part="exact_boundary_share",
    change=(
        "shared = set(ends(source)) & set(ends(target))",
        "shared = {0, *ends(source)[:-1]} & {0, *ends(target)[:-1]}",
    ),
)
