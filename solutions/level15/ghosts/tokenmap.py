"""Known-wrong programs of level15.tokenmap. `ghost` is given when this is read."""


def _ghost(name, sentence, *change):
    ghost("level15.tokenmap.align_tokens", name, sentence, change=change)


ALIGNED = "return [owner[end - 1] for end in ends(target)]"
OWNER = "owner = [number for number, piece in enumerate(source) for _ in piece]"
SHARED = "shared = set(ends(source)) & set(ends(target))"
SHARE = "return len(shared) / len(target) if target else 1.0"

# ---- align_tokens

_ghost(
    "first_character",
    "The source's state at the token's first character has not read the rest of it: take the last character's.",
    (ALIGNED, "return [owner[end - len(piece)] for end, piece in zip(ends(target), target)]"),
)
_ghost(
    "same_number",
    "Token i of one tokenizer is not token i of the other: align by characters.",
    (ALIGNED, "return [min(i, len(source) - 1) for i in range(len(target))]"),
)
_ghost(
    "in_proportion",
    "Pieces have different lengths: a share of the tokens is not a share of the text.",
    (ALIGNED, "return [i * len(source) // len(target) for i in range(len(target))]"),
)
_ghost(
    "only_what_has_ended",
    "A source token that ended earlier has not read the target's last characters: take the one that holds them.",
    (ALIGNED, "return [max(0, sum(e <= end for e in ends(source)) - 1) for end in ends(target)]"),
)
_ghost(
    "nearest_end",
    "The end that is nearest may come too early: that state has not read the target's last characters.",
    (
        ALIGNED,
        "cuts = ends(source)\n"
        "    return [min(range(len(cuts)), key=lambda i: abs(cuts[i] - end)) for end in ends(target)]",
    ),
)
_ghost(
    "one_character_too_far",
    "A token's end is where the next one starts: its last character stands one before.",
    (ALIGNED, "return [owner[min(end, len(owner) - 1)] for end in ends(target)]"),
)
_ghost(
    "most_of_the_characters",
    "The token that holds most of the characters may end before the last one: what counts is who has read them all.",
    (
        ALIGNED,
        "spans = [owner[end - len(piece) : end] for end, piece in zip(ends(target), target)]\n"
        "    return [max(span, key=span.count) for span in spans]",
    ),
)
_ghost(
    "looked_up_by_text",
    "A piece may occur again: where it says the same, it is still another token.",
    (
        ALIGNED,
        "text = ''.join(source)\n    return [owner[text.find(piece) + len(piece) - 1] for piece in target]",
    ),
)
_ghost(
    "all_that_hold_it",
    "One number for each token of the target: the source token that holds its last character.",
    (
        ALIGNED,
        "return [sorted(set(owner[end - len(piece) : end])) for end, piece in zip(ends(target), target)]",
    ),
)
_ghost(
    "target_for_each_source",
    "The receiver needs a state for each of its own tokens; yours has one for each of the sender's.",
    (OWNER, "owner = [number for number, piece in enumerate(target) for _ in piece]"),
    (ALIGNED, "return [owner[end - 1] for end in ends(source)]"),
)
_ghost(
    "places_of_characters",
    "The answer is the number of a token, not of a character.",
    (ALIGNED, "return [end - 1 for end in ends(target)]"),
)

# ---- exact_boundary_share

_ghost(
    "same_pieces",
    "Only the end counts: up to there the source has read exactly what the target has, wherever the token starts.",
    (
        SHARED,
        "shared = {(e - len(p), e) for e, p in zip(ends(source), source)} & "
        "{(e - len(p), e) for e, p in zip(ends(target), target)}",
    ),
)
_ghost(
    "share_of_the_source",
    "One state is needed for each of the target's tokens: divide by their number.",
    (SHARE, "return len(shared) / len(source) if target else 1.0"),
)
_ghost(
    "cuts_within_the_text",
    "There is one end more than there are cuts within the text: the last token ends where the text does, and counts.",
    (SHARE, "return (len(shared) - 1) / len(target) if target else 1.0"),
)
_ghost(
    "share_of_all_boundaries",
    "Boundaries that only the source has do not matter: the share is of the target's tokens.",
    (SHARE, "return len(shared) / len(set(ends(source)) | set(ends(target))) if target else 1.0"),
)
_ghost(
    "last_end_left_out",
    "The last token counts like all others: yours leaves it out above and below.",
    (SHARE, "return (len(shared) - 1) / max(1, len(target) - 1) if target else 1.0"),
)
_ghost(
    "pieces_in_common",
    "Equal pieces may stand in different places: compare ends, not texts.",
    (SHARED, "shared = [piece for piece in target if piece in source]"),
)
_ghost(
    "zero_of_nothing",
    "With no token at all nothing is approximate: the share is 1.",
    (SHARE, "return len(shared) / len(target) if target else 0.0"),
)
_ghost(
    "inexact_counted",
    "The share is of tokens that end where a source token ends; yours is of the others.",
    (SHARE, "return 1 - len(shared) / len(target) if target else 1.0"),
)
